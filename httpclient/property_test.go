package httpclient_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"flag"
	"fmt"
	"io"
	"log"
	"math/rand/v2"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/reintento/reintento/classify"
	"github.com/reintento/reintento/httpclient"
	"github.com/reintento/reintento/retry"
	"github.com/stretchr/testify/require"
)

var seed = flag.Uint64("seed", 0, "of the one case that TestProperty runs; 0: many, at random")

const (
	cases   = 250
	workers = 16
)

// TestProperty sends requests of every kind through random faults to a real
// server and holds the promises of the module, whatever happens:
//
//   - What was classified as not sent was never seen by the server's handler.
//   - An N operation never has two effects, nor has a K operation on a server
//     that honours keys.
//   - The outcome told is never false; it may be unknown.
//   - A body that is accepted equals the caller's.
//   - The server sees at most MaxAttempts requests, all under the same key.
//
// The server tells the truth: it does not refuse what it has done.
func TestProperty(t *testing.T) {
	t.Parallel()
	ca := newAuthority(t)
	cert := ca.issue(t, nil)
	var sum tally
	if *seed != 0 {
		newTrial(*seed, ca, cert).run(t, &sum)
		return
	}
	next := make(chan uint64)
	var wg sync.WaitGroup
	for range workers {
		wg.Go(func() {
			for s := range next {
				newTrial(s, ca, cert).run(t, &sum)
			}
		})
	}
	first := rand.Uint64()>>1 + 1
	for i := range uint64(cases) {
		next <- first + i
	}
	close(next)
	wg.Wait()
	// The faults must reach what they are made for.
	for name, n := range map[string]*atomic.Int64{
		"attempts not sent": &sum.notSent, "ambiguous attempts": &sum.ambiguous, "retries": &sum.retries, "effects": &sum.effects,
		"calls applied": &sum.applied, "calls not applied": &sum.notApplied, "calls unknown": &sum.unknown,
		"requests that were lost after their effect": &sum.hidden,
	} {
		if n.Load() == 0 {
			t.Errorf("%d cases from seed %d had no %s", cases, first, name)
		}
	}
}

// tally counts what happened over all cases.
type tally struct {
	notSent, ambiguous, retries, effects, applied, notApplied, unknown, hidden atomic.Int64
}

// trial is one case: a server behind a listener that injects faults, and some
// calls at once.
type trial struct {
	seed    uint64
	rand    *rand.Rand // before the calls run only
	tls     bool
	http2   bool // over TLS
	honored bool // the server honours keys, and the client knows
	warm    int  // connections that are there before the calls
	policy  retry.Policy
	calls   []*trialCall
	ca      *authority
	cert    tls.Certificate

	mu    sync.Mutex
	armed bool
	conns []*faultyConn
	plans []connPlan // of the connections, in order; after them there are no faults
	store map[string]int
	over  chan struct{} // the calls have ended
}

// trialCall is one call and what the server saw of it.
type trialCall struct {
	method   string
	body     []byte
	kind     bodyKind
	key      string // the caller's own
	patience time.Duration
	fates    []fate // of the requests, in order

	marks   []int       // of the attempts, in order
	seen    map[int]int // requests by mark
	keys    []string
	effects int
	spoiled [][]byte // bodies accepted that are not the caller's
	hidden  int      // effects whose answer was lost
}

func (c *trialCall) write() bool { return c.method != http.MethodGet && c.method != "QUERY" }

type bodyKind int

const (
	noBody    bodyKind = iota
	withGet            // has GetBody
	seekable           // an io.ReaderAt and io.Seeker
	streamed           // neither
	bodyKinds          // how many there are
)

// fate is what the handler does with one request.
type fate struct {
	kind   fateKind
	status int
	header string
}

type fateKind int

const (
	does       fateKind = iota // and answers
	doesAndCut                 // the answer is lost
	doesHalf                   // the answer is cut short
	doesAndWaits
	waitsAndDoes // when the client is gone
	cuts         // before anything is done
	refuses      // with a status that says that nothing was done, before the key is looked at
	denies       // with a status of the operation, after the key was looked at
	fails        // with a status that leaves it open, and does nothing
	doesAndFails // with such a status, but does it
	early        // answers without reading the body
)

var (
	refusals = []string{"429", "429 Retry-After-Ms: 1", "503 Retry-After-Ms: 1", "403", "403 Retry-After-Ms: 1", "401", "421", "425", "431", "521", "525", "529", "307"}
	denials  = []string{"400", "404", "405", "410", "412", "422", "501", "507"}
	failures = []string{"500", "502", "503", "504", "408", "499", "509", "520", "522", "598", "600", "301", "302", "424"}
)

// connPlan is what goes wrong with one connection, counted from where the calls
// begin. Limits below 0 are none.
type connPlan struct {
	reads  int  // bytes of the client that arrive
	writes int  // bytes of the server that leave
	reset  bool // then the end is a RST, not a FIN
	stall  bool // then nothing arrives or leaves any more
	idle   bool // a kept connection is closed at once
}

func newTrial(seed uint64, ca *authority, cert tls.Certificate) *trial {
	r := rand.New(rand.NewPCG(seed, 0))
	c := &trial{
		seed: seed, rand: r, tls: r.IntN(3) > 0, honored: r.IntN(2) == 0, warm: r.IntN(3),
		ca: ca, cert: cert, store: map[string]int{}, over: make(chan struct{}),
	}
	c.http2 = c.tls && r.IntN(2) == 0
	c.policy = quick()
	c.policy.MaxAttempts = 1 + r.IntN(4)
	c.policy.AttemptTimeout = 50 * time.Millisecond
	c.policy.Announce = true
	c.policy.PrivatePushback = true
	c.policy.Budget.Disabled = true
	c.policy.Breaker.Disabled = true
	c.policy.Key.Honored = c.honored && r.IntN(2) == 0
	for range 1 + r.IntN(3) {
		c.calls = append(c.calls, c.newCall())
	}
	for range 1 + r.IntN(8) {
		c.plans = append(c.plans, c.newPlan())
	}
	return c
}

func (c *trial) newCall() *trialCall {
	r := c.rand
	k := &trialCall{
		method: []string{"GET", "PUT", "DELETE", "POST", "POST", "POST", "PATCH", "QUERY"}[r.IntN(8)],
		kind:   bodyKind(r.IntN(int(bodyKinds))), seen: map[int]int{}, patience: time.Minute,
	}
	if k.kind != noBody {
		k.body = make([]byte, []int{10, 1000, 100_000}[r.IntN(3)])
		for i := range k.body {
			k.body[i] = byte(r.Uint32())
		}
	}
	if c.honored && !c.policy.Key.Honored {
		k.key = fmt.Sprintf("own-%d", r.Uint64())
	}
	if r.IntN(8) == 0 {
		k.patience = time.Duration(r.IntN(int(5 * time.Millisecond)))
	}
	for range r.IntN(4) {
		k.fates = append(k.fates, c.newFate())
	}
	return k
}

func (c *trial) newFate() fate {
	pick := func(from []string, kind fateKind) fate {
		f := fate{kind: kind}
		_, _ = fmt.Sscanf(from[c.rand.IntN(len(from))], "%d", &f.status)
		return f
	}
	kind := fateKind(c.rand.IntN(int(early) + 1))
	if c.rand.IntN(3) == 0 { // what tempts a client to repeat what was done
		kind = []fateKind{doesAndCut, doesAndFails, doesAndWaits}[c.rand.IntN(3)]
	}
	switch kind {
	case refuses:
		f := fate{kind: kind}
		code, header, _ := strings.Cut(refusals[c.rand.IntN(len(refusals))], " ")
		_, _ = fmt.Sscan(code, &f.status)
		f.header = header
		return f
	case denies:
		return pick(denials, kind)
	case fails, doesAndFails:
		return pick(failures, kind)
	case early:
		return pick([]string{"401", "431", "503"}, kind)
	default:
		return fate{kind: kind}
	}
}

func (c *trial) newPlan() connPlan {
	r := c.rand
	p := connPlan{reads: -1, writes: -1, reset: r.IntN(2) == 0, stall: r.IntN(4) == 0, idle: r.IntN(4) == 0}
	reach := 600
	if c.tls {
		reach = 3000
	}
	switch r.IntN(4) {
	case 0:
		p.reads = r.IntN(reach)
	case 1:
		p.writes = r.IntN(reach)
	case 2:
		p.reads = r.IntN(150_000)
	}
	return p
}

// run makes the calls at once, waits until the server is done with all that
// reached it, and compares.
func (c *trial) run(t *testing.T, sum *tally) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Errorf("%v: %v", c, err)
		return
	}
	server := &http.Server{
		Handler: c, TLSConfig: &tls.Config{Certificates: []tls.Certificate{c.cert}},
		ErrorLog: log.New(io.Discard, "", 0), // of what is done to it on purpose
	}
	base := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: c.ca.pool}, ForceAttemptHTTP2: c.http2}
	if !c.tls {
		base.Proxy = c.note // which sees each request, and changes nothing
	}
	target := "http://" + l.Addr().String()
	var serving sync.WaitGroup
	serving.Go(func() {
		if c.tls {
			_ = server.ServeTLS(faultyListener{l, c}, "", "")
		} else {
			_ = server.Serve(faultyListener{l, c})
		}
	})
	if c.tls {
		target = "https" + strings.TrimPrefix(target, "http")
	}
	c.warmUp(t, base, target)
	c.arm()

	tr := overBase(t, c.policy, base)
	if c.tls {
		tr.Base = noting{base, c}
	}
	tr.BodyIdleTimeout = c.policy.AttemptTimeout
	told := make([]verdictOf, len(c.calls))
	var calling sync.WaitGroup
	for i, k := range c.calls {
		calling.Go(func() { told[i] = c.call(t, tr, k, fmt.Sprintf("%s/%d", target, i)) })
	}
	calling.Wait()
	close(c.over)
	base.CloseIdleConnections()
	// What has reached the server is still worked on. A connection that carries
	// nothing would be waited for, but the client has none left.
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
	_ = server.Shutdown(ctx)
	cancel()
	_ = server.Close()
	serving.Wait()

	c.mu.Lock()
	defer c.mu.Unlock()
	for i, k := range c.calls {
		c.compare(t, k, told[i], sum)
	}
}

// note keeps the marks of a call's attempts in order. The report counts attempts;
// marks are higher where net/http sent something again, which counts as one.
func (c *trial) note(req *http.Request) (*url.URL, error) {
	if k := c.callOf(req); k != nil {
		c.mu.Lock()
		defer c.mu.Unlock()
		if mark := retry.AttemptOf(req.Context()); !slices.Contains(k.marks, mark) {
			k.marks = append(k.marks, mark)
		}
	}
	return nil, nil
}

// noting is a base that notes the marks. Over TLS the transport knows what it
// speaks all the same.
type noting struct {
	http.RoundTripper
	*trial
}

func (n noting) RoundTrip(req *http.Request) (*http.Response, error) {
	_, _ = n.note(req)
	return n.RoundTripper.RoundTrip(req)
}

// callOf returns the call that a request belongs to, nil for the warm-up.
func (c *trial) callOf(req *http.Request) *trialCall {
	var i int
	if n, _ := fmt.Sscanf(req.URL.Path, "/%d", &i); n == 0 {
		return nil
	}
	return c.calls[i]
}

// warmUp leaves connections that have been used.
func (c *trial) warmUp(t *testing.T, base *http.Transport, url string) {
	var wg sync.WaitGroup
	for range c.warm {
		wg.Go(func() {
			req, _ := http.NewRequestWithContext(t.Context(), http.MethodGet, url+"/warm", nil)
			resp, err := base.RoundTrip(req)
			if err != nil {
				t.Errorf("%v: warm-up: %v", c, err)
				return
			}
			_, _ = io.Copy(io.Discard, resp.Body)
			resp.Body.Close()
		})
	}
	wg.Wait()
}

// verdictOf is what the client was told.
type verdictOf struct {
	report retry.Report
	err    error
}

// call makes one call.
func (c *trial) call(t *testing.T, tr *httpclient.Transport, k *trialCall, url string) (told verdictOf) {
	ctx, cancel := context.WithTimeout(t.Context(), k.patience)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, k.method, url, nil)
	require.NoError(t, err)
	if k.kind != noBody {
		open := func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(k.body)), nil }
		req.ContentLength = int64(len(k.body))
		switch req.Body, _ = open(); k.kind {
		case withGet:
			req.GetBody = open
		case seekable:
			req.Body = readSeekCloser{bytes.NewReader(k.body)}
		case streamed:
			req.ContentLength = -1
		}
	}
	if k.key != "" {
		req.Header.Set("Idempotency-Key", k.key)
	}
	resp, err := tr.RoundTrip(req)
	if e, ok := errors.AsType[*retry.Error](err); ok {
		told.report = retry.Report{Outcome: e.Outcome, Attempts: e.Attempts, Intention: e.Intention}
	} else if err != nil {
		t.Errorf("%v: %s failed with a %T: %v", c, k.method, err, err)
	}
	if told.err = err; err != nil {
		return told
	}
	defer resp.Body.Close()
	told.report = httpclient.ReportOf(resp)
	b, err := io.ReadAll(resp.Body)
	if err == nil && resp.StatusCode == http.StatusOK && string(b) != answerText {
		t.Errorf("%v: the answer read is %q, want %q", c, b, answerText)
	}
	return told
}

type readSeekCloser struct{ *bytes.Reader }

func (readSeekCloser) Close() error { return nil }

// compare holds what was told against what happened.
func (c *trial) compare(t *testing.T, k *trialCall, told verdictOf, sum *tally) {
	r := told.report
	wrong := func(format string, args ...any) {
		t.Helper()
		t.Errorf("%v: %s with body kind %d: %s\nrequests by mark %v, effects %d, outcome %v, error %v\nattempts %+v",
			c, k.method, k.kind, fmt.Sprintf(format, args...), k.seen, k.effects, r.Outcome, told.err, r.Attempts)
	}
	total := 0
	for n, requests := range k.seen {
		total += requests
		if i := slices.Index(k.marks, n); i < 0 || i >= len(r.Attempts) {
			wrong("attempt %d is not in the report", n)
		}
		if requests > 1 && k.write() {
			wrong("attempt %d sent %d requests", n, requests)
		}
	}
	if total > c.policy.MaxAttempts {
		wrong("the server saw %d requests, at most %d are allowed", total, c.policy.MaxAttempts)
	}
	for _, a := range r.Attempts {
		if a.Failed && a.Err != nil && a.Verdict.Class == classify.Retryable {
			sum.notSent.Add(1)
			// An attempt whose time was over before net/http looked at it has
			// no mark here.
			if len(k.marks) == len(r.Attempts) && k.seen[k.marks[a.Number-1]] > 0 {
				wrong("attempt %d is said not to have been sent", a.Number)
			}
		}
		if a.Failed && a.Verdict.Class == classify.Ambiguous {
			sum.ambiguous.Add(1)
		}
	}
	trusted := c.honored && (k.method == http.MethodPost || k.method == http.MethodPatch || k.key != "" && k.write())
	unsafe := !trusted && (k.method == http.MethodPost || k.method == http.MethodPatch)
	if (trusted || unsafe) && k.effects > 1 {
		wrong("it had %d effects", k.effects)
	}
	for _, b := range k.spoiled {
		wrong("a body of %d bytes was accepted that is not the caller's of %d", len(b), len(k.body))
	}
	if unknown := errors.Is(told.err, retry.ErrOutcomeUnknown); told.err != nil && unknown != (r.Outcome == retry.Unknown) {
		wrong("Is(err, ErrOutcomeUnknown) = %v", unknown)
	}
	switch {
	case !k.write():
		if r.Outcome == retry.Unknown {
			wrong("the outcome of a read is unknown")
		}
	case r.Outcome == retry.Applied:
		if sum.applied.Add(1); k.effects == 0 {
			wrong("it is said to be applied")
		}
	case r.Outcome == retry.NotApplied:
		if sum.notApplied.Add(1); k.effects > 0 {
			wrong("it is said not to be applied")
		}
	default:
		sum.unknown.Add(1)
	}
	slices.Sort(k.keys)
	if keys := slices.Compact(k.keys); len(keys) > 1 {
		wrong("it had the keys %v", keys)
	}
	sum.retries.Add(int64(max(0, len(r.Attempts)-1)))
	sum.effects.Add(int64(k.effects))
	sum.hidden.Add(int64(k.hidden))
}

// String is the line that repeats the case.
func (c *trial) String() string {
	return fmt.Sprintf("go test ./httpclient -run TestProperty -seed=%d", c.seed)
}

// The server.

const answerText = "done, and here is the receipt"

func (c *trial) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var attempt int
	k := c.callOf(r)
	if k == nil {
		_, _ = io.WriteString(w, answerText)
		return
	}
	_, _ = fmt.Sscanf(r.Header.Get(httpclient.AttemptHeader), "n=%d", &attempt)
	key := r.Header.Get("Idempotency-Key")

	c.mu.Lock()
	n := len(k.keys)
	k.seen[attempt]++
	k.keys = append(k.keys, key)
	c.mu.Unlock()
	f := fate{kind: does}
	if n < len(k.fates) {
		f = k.fates[n]
	}
	if f.kind == early {
		w.WriteHeader(f.status)
		return
	}
	body, err := io.ReadAll(r.Body)
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	switch f.kind {
	case refuses:
		name, value, ok := strings.Cut(f.header, ": ")
		if ok {
			w.Header().Set(name, value)
		}
		w.WriteHeader(f.status)
		return
	case cuts:
		panic(http.ErrAbortHandler)
	}
	if !c.honored || key == "" {
		key = ""
	} else if status, replay := c.begin(key); replay {
		if status == http.StatusOK {
			_, _ = io.WriteString(w, answerText)
			return
		}
		if status != http.StatusConflict {
			w.Header().Set("Idempotent-Replayed", "true")
		}
		w.WriteHeader(status)
		return
	}
	c.meet(w, r, k, f, key, body)
}

// meet is what the request comes to behind the key's store.
func (c *trial) meet(w http.ResponseWriter, r *http.Request, k *trialCall, f fate, key string, body []byte) {
	switch f.kind {
	case denies:
		c.end(key, f.status)
		w.WriteHeader(f.status)
		return
	case fails:
		c.end(key, 0)
		w.WriteHeader(f.status)
		return
	case waitsAndDoes:
		select {
		case <-r.Context().Done():
		case <-c.over:
		}
	}
	c.mu.Lock()
	k.effects++
	if !bytes.Equal(body, k.body) {
		k.spoiled = append(k.spoiled, body)
	}
	if f.kind != does {
		k.hidden++
	}
	c.mu.Unlock()
	status := http.StatusOK
	if f.kind == doesAndFails {
		status = f.status
	}
	c.end(key, status)
	switch f.kind {
	case doesAndCut:
		panic(http.ErrAbortHandler)
	case doesHalf:
		w.Header().Set("Content-Length", fmt.Sprint(len(answerText)))
		_, _ = io.WriteString(w, answerText[:5])
		panic(http.ErrAbortHandler)
	case doesAndWaits:
		select {
		case <-r.Context().Done():
		case <-c.over:
		}
	case doesAndFails:
		w.WriteHeader(f.status)
	default:
		_, _ = io.WriteString(w, answerText)
	}
}

// begin asks the key's store: what was answered before, 409 for what still runs,
// or nothing, and then the key is taken.
func (c *trial) begin(key string) (status int, replay bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if status, replay = c.store[key]; !replay {
		c.store[key] = http.StatusConflict
	}
	return status, replay
}

// end keeps what a key came to; 0 is nothing, so that it may be tried again.
func (c *trial) end(key string, status int) {
	if key == "" {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.store[key] = status; status == 0 {
		delete(c.store, key)
	}
}

// arm lets the faults of the connections begin.
func (c *trial) arm() {
	c.mu.Lock()
	c.armed = true
	conns := slices.Clone(c.conns)
	c.mu.Unlock()
	for _, conn := range conns {
		conn.on.Store(true)
		if conn.plan.idle {
			conn.finish()
		}
	}
}

type faultyListener struct {
	net.Listener
	*trial
}

func (l faultyListener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	f := &faultyConn{Conn: c, plan: connPlan{reads: -1, writes: -1}}
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.plans) > 0 {
		f.plan, l.plans = l.plans[0], l.plans[1:]
	}
	f.on.Store(l.armed)
	l.conns = append(l.conns, f)
	return f, nil
}

// faultyConn is a connection at the server to which its plan happens.
type faultyConn struct {
	net.Conn
	plan connPlan
	on   atomic.Bool

	mu            sync.Mutex
	reads, writes int
}

func (f *faultyConn) Read(p []byte) (int, error) {
	if !f.on.Load() || f.plan.reads < 0 {
		n, err := f.Conn.Read(p)
		return n, err
	}
	f.mu.Lock()
	left := f.plan.reads - f.reads
	f.mu.Unlock()
	if left <= 0 {
		return 0, f.fault()
	}
	n, err := f.Conn.Read(p[:min(left, len(p))])
	f.mu.Lock()
	f.reads += n
	f.mu.Unlock()
	return n, err
}

func (f *faultyConn) Write(p []byte) (int, error) {
	if !f.on.Load() || f.plan.writes < 0 {
		return f.Conn.Write(p)
	}
	f.mu.Lock()
	left := f.plan.writes - f.writes
	f.mu.Unlock()
	n, err := f.Conn.Write(p[:max(0, min(left, len(p)))])
	f.mu.Lock()
	f.writes += n
	f.mu.Unlock()
	if err == nil && n < len(p) {
		err = f.fault()
	}
	return n, err
}

// fault ends the connection, or holds it until the client ends it.
func (f *faultyConn) fault() error {
	if f.plan.stall {
		drain(f.Conn)
	}
	f.finish()
	return net.ErrClosed
}

func (f *faultyConn) finish() {
	if f.plan.reset {
		reset(f.Conn)
	}
	f.Conn.Close()
}
