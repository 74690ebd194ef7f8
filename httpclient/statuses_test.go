package httpclient_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/reintento/reintento/breaker"
	"github.com/reintento/reintento/classify"
	"github.com/reintento/reintento/httpclient"
	"github.com/reintento/reintento/retry"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// operation is one column of the tables of semantics.md.
type operation struct {
	name    string
	method  string
	body    string
	honored bool // the destination honours keys
	safety  retry.Safety
}

func (o operation) read() bool { return o.method == http.MethodGet }

// operations are the columns S (as a read and as a write), K and N.
var operations = []operation{
	{"S read", http.MethodGet, "", false, retry.Idempotent},
	{"S write", http.MethodPut, "set to 10", false, retry.Idempotent},
	{"K", http.MethodPost, "pay 10", true, retry.Keyed},
	{"N", http.MethodPost, "pay 10", false, retry.Unsafe},
}

// request makes the operation's request to a URL.
func (o operation) request(t testing.TB, ctx context.Context, url string) *http.Request {
	t.Helper()
	var body io.Reader
	if o.body != "" {
		body = strings.NewReader(o.body)
	}
	req, err := http.NewRequestWithContext(ctx, o.method, url, body)
	require.NoError(t, err)
	return req
}

// policy is quick for the operation.
func (o operation) policy() retry.Policy {
	p := quick()
	p.Key.Honored = o.honored
	return p
}

// statusServer answers the status that the path's first element names, with the
// header that the query spells, and keeps what it saw of each path.
type statusServer struct {
	*httptest.Server
	mu   sync.Mutex
	seen map[string][]string // the key of each request, by path
}

func newStatusServer(t *testing.T, http2 bool) *statusServer {
	s := &statusServer{seen: map[string][]string{}}
	s.Server = newServer(t, http2, s)
	return s
}

func (s *statusServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	s.seen[r.URL.Path] = append(s.seen[r.URL.Path], r.Header.Get("Idempotency-Key"))
	s.mu.Unlock()
	_, _ = io.Copy(io.Discard, r.Body)
	maps.Copy(w.Header(), r.URL.Query())
	var code int
	_, _ = fmt.Sscanf(r.URL.Path, "/%d/", &code)
	switch {
	case code == http.StatusSwitchingProtocols:
		w.Header().Set("Upgrade", "echo")
		w.Header().Set("Connection", "Upgrade")
		w.WriteHeader(code)
	case code < 200:
		w.WriteHeader(code)
		w.WriteHeader(http.StatusOK)
	default:
		w.WriteHeader(code)
	}
}

func (s *statusServer) keys(path string) []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.seen[path]
}

// statusRow is one row of the table of statuses. The three numbers are the
// requests that the server sees of three possible attempts.
type statusRow struct {
	codes   []int
	header  string // of the answer, as a query
	class   classify.Class
	s, k, n int
	thr     bool
	counts  breaker.Result
	outcome retry.Outcome // of a write that ends so
}

const (
	ambiguous = classify.Ambiguous
	retryable = classify.Retryable
	permanent = classify.Permanent

	hint = "Retry-After-Ms=1"
)

// failing are the rows of section 2 of semantics.md that are failures.
var failing = []statusRow{
	{[]int{101}, "", permanent, 1, 1, 1, false, breaker.Success, retry.Unknown},
	{[]int{300, 301, 302, 305, 306}, "", permanent, 1, 1, 1, false, breaker.Success, retry.Unknown},
	{[]int{303}, "", permanent, 1, 1, 1, false, breaker.Success, retry.Applied},
	{[]int{307, 308}, "", permanent, 1, 1, 1, false, breaker.Success, retry.NotApplied},
	{[]int{400, 401, 402, 403, 404, 405, 406, 407}, "", permanent, 1, 1, 1, false, breaker.Success, retry.NotApplied},
	{[]int{403}, hint, retryable, 3, 3, 3, true, breaker.Success, retry.NotApplied},
	{[]int{408}, "", ambiguous, 3, 3, 1, false, breaker.Failure, retry.Unknown},
	{[]int{409}, "", permanent, 1, 3, 1, false, breaker.Success, retry.NotApplied},
	{[]int{410, 411, 412, 413, 414, 415, 416, 417, 418}, "", permanent, 1, 1, 1, false, breaker.Success, retry.NotApplied},
	{[]int{413}, hint, retryable, 3, 3, 3, true, breaker.Success, retry.NotApplied},
	{[]int{421, 425}, "", retryable, 2, 2, 2, false, breaker.Success, retry.NotApplied},
	{[]int{422, 423, 426, 428, 431, 451}, "", permanent, 1, 1, 1, false, breaker.Success, retry.NotApplied},
	{[]int{424}, "", permanent, 1, 1, 1, false, breaker.Success, retry.Unknown},
	{[]int{429}, "", retryable, 3, 3, 3, true, breaker.Excluded, retry.NotApplied},
	{[]int{429}, hint, retryable, 3, 3, 3, true, breaker.Excluded, retry.NotApplied},
	{[]int{440, 444, 449, 450, 460, 463, 494, 495, 496, 497, 498}, "", permanent, 1, 1, 1, false, breaker.Success, retry.NotApplied},
	{[]int{419, 420, 427, 430, 432, 452, 480}, "", permanent, 1, 1, 1, false, breaker.Success, retry.NotApplied},
	{[]int{499}, "", ambiguous, 3, 3, 1, false, breaker.Success, retry.Unknown},
	{[]int{500, 502, 503, 504}, "", ambiguous, 3, 3, 1, false, breaker.Failure, retry.Unknown},
	{[]int{503}, hint, retryable, 3, 3, 3, true, breaker.Failure, retry.NotApplied},
	{[]int{503}, "Retry-After=soon", ambiguous, 3, 3, 1, false, breaker.Failure, retry.Unknown},
	{[]int{501, 505, 506, 507, 508, 510, 511, 561}, "", permanent, 1, 1, 1, false, breaker.Excluded, retry.NotApplied},
	{[]int{509}, "", ambiguous, 3, 3, 1, true, breaker.Failure, retry.Unknown},
	{[]int{520, 522, 524, 527, 598, 599}, "", ambiguous, 3, 3, 1, false, breaker.Failure, retry.Unknown},
	{[]int{521, 523, 525}, "", retryable, 3, 3, 3, false, breaker.Failure, retry.NotApplied},
	{[]int{526, 530}, "", permanent, 1, 1, 1, false, breaker.Failure, retry.NotApplied},
	{[]int{529}, "", retryable, 3, 3, 3, true, breaker.Failure, retry.NotApplied},
	{[]int{512, 528, 531, 560, 597, 600, 700, 999}, "", ambiguous, 3, 3, 1, false, breaker.Failure, retry.Unknown},
}

// succeeding are those that are none. The interim ones are followed by a 200.
var succeeding = []int{100, 102, 103, 200, 201, 202, 203, 204, 205, 206, 207, 208, 226, 299, 304}

// H48: Every row of the two tables in semantics.md is produced for real (a status
// by a server, an error by a listener, resolver, TLS peer or HTTP/2 framer) and
// gives its class.
func TestH48Statuses(t *testing.T) {
	t.Parallel()
	for _, http2 := range []bool{false, true} {
		t.Run(protocol(http2), func(t *testing.T) {
			t.Parallel()
			s := newStatusServer(t, http2)
			base := s.Client().Transport
			for _, o := range operations {
				for _, row := range failing {
					for _, code := range row.codes {
						if http2 && code == http.StatusSwitchingProtocols {
							continue // HTTP/2 has no such status (RFC 9113 section 8.6)
						}
						row.check(t, s, base, o, code)
					}
				}
				for _, code := range succeeding {
					checkSuccess(t, s, base, o, code)
				}
			}
		})
	}
}

func protocol(http2 bool) string {
	if http2 {
		return "HTTP2"
	}
	return "HTTP1"
}

func (row statusRow) check(t *testing.T, s *statusServer, base http.RoundTripper, o operation, code int) {
	path := fmt.Sprintf("/%d/%s/%s", code, row.header, strings.ReplaceAll(o.name, " ", "-"))
	what := fmt.Sprintf("%s: %s answered %d %s", o.name, o.method, code, row.header)
	resp, err := overBase(t, o.policy(), base).RoundTrip(o.request(t, t.Context(), s.URL+path+"?"+row.header))
	if !assert.NoError(t, err, what) {
		return
	}
	defer resp.Body.Close()
	report := httpclient.ReportOf(resp)
	keys := s.keys(path)

	requests := map[string]int{"S read": row.s, "S write": row.s, "K": row.k, "N": row.n}[o.name]
	class := row.class
	if code == http.StatusConflict && o.safety == retry.Keyed {
		class = retryable
	}
	want := classify.Verdict{
		Class: class, Origin: classify.Remote, Reason: fmt.Sprintf("http_%d", code),
		Throttled: row.thr, Repeatable: o.safety != retry.Unsafe,
	}
	if row.header == hint {
		want.RetryAfter = 1e6
	}
	stop := retry.ErrPermanent
	switch {
	case requests == 3:
		stop = retry.ErrAttempts
	case class == ambiguous:
		stop = retry.ErrOutcomeUnknown
	}
	outcome := row.outcome
	switch {
	case o.read():
		outcome = retry.NotApplied
	case code == http.StatusConflict && o.safety == retry.Keyed:
		outcome = retry.Unknown // it is being done under this key
	}

	assert.Equal(t, code, resp.StatusCode, what)
	assert.Len(t, keys, requests, "%s: requests seen", what)
	if assert.Len(t, report.Attempts, requests, "%s: attempts", what) {
		first := report.Attempts[0]
		assert.Equal(t, want, first.Verdict, "%s: verdict", what)
		assert.Equal(t, row.counts, breaker.ResultOf(first.Verdict), "%s: to the breaker", what)
		if wait := first.Wait; requests > 1 && row.header == "" {
			base := quick().BaseDelay
			if row.thr {
				base = quick().ThrottleDelay
			}
			assert.Equal(t, base, wait, "%s: wait", what)
		}
	}
	assert.ErrorIs(t, report.Stop, stop, "%s: why it stopped", what)
	assert.Equal(t, outcome.String(), report.Outcome.String(), "%s: outcome", what)
	for _, key := range keys {
		assert.Equal(t, report.Intention.Key, key, "%s: key sent", what)
	}
	assert.Equal(t, o.method == http.MethodPost, report.Intention.Key != "", "%s: whether it has a key", what)
}

func checkSuccess(t *testing.T, s *statusServer, base http.RoundTripper, o operation, code int) {
	path := fmt.Sprintf("/%d/%s", code, strings.ReplaceAll(o.name, " ", "-"))
	what := fmt.Sprintf("%s: %s answered %d", o.name, o.method, code)
	resp, err := overBase(t, o.policy(), base).RoundTrip(o.request(t, t.Context(), s.URL+path))
	if !assert.NoError(t, err, what) {
		return
	}
	defer resp.Body.Close()
	report := httpclient.ReportOf(resp)
	assert.Equal(t, max(code, 200), resp.StatusCode, what)
	assert.Len(t, s.keys(path), 1, "%s: requests seen", what)
	assert.NoError(t, report.Stop, what)
	assert.Equal(t, retry.Applied.String(), report.Outcome.String(), "%s: outcome", what)
	assert.NoError(t, httpclient.Check(resp), "Check(%d)", code)
}

// H48: the breaker column: the statuses that count as a failure open a breaker
// that needs one result, and the others leave it closed.
func TestH48StatusesAtTheBreaker(t *testing.T) {
	t.Parallel()
	s := newStatusServer(t, false)
	for _, row := range failing {
		for _, code := range row.codes {
			p := quick()
			p.MaxAttempts = 1
			p.PrivatePushback = true
			p.Breaker = breaker.Settings{MinResults: 1}
			tr := overBase(t, p, s.Client().Transport)
			url := fmt.Sprintf("%s/%d/breaker?%s", s.URL, code, row.header)
			resp, err := tr.RoundTrip(operations[0].request(t, t.Context(), url))
			require.NoError(t, err)
			resp.Body.Close()
			resp, err = tr.RoundTrip(operations[0].request(t, t.Context(), url))
			if err == nil {
				resp.Body.Close()
			}
			if row.counts == breaker.Failure {
				assert.ErrorIs(t, err, breaker.ErrOpen, "the call after a %d %s", code, row.header)
			} else {
				assert.NoError(t, err, "the call after a %d %s", code, row.header)
			}
		}
	}
}

// H48: the overriding rules below the table of statuses.
func TestH48OverridingRules(t *testing.T) {
	t.Parallel()
	k, n := operations[2], operations[3]
	type answer struct {
		code   int
		header string
	}
	twice := func(a answer) []answer { return []answer{a, a} }
	for name, row := range map[string]struct {
		o        operation
		statuses map[int]classify.Class
		answers  []answer // the last one repeats itself
		requests int
		outcome  retry.Outcome
		stop     error
	}{
		"an answer from the store says that it is final": {
			k, nil, twice(answer{500, "Idempotent-Replayed=true"}), 1, retry.Unknown, retry.ErrPermanent},
		"Stripe says no": {
			k, nil, twice(answer{500, "Stripe-Should-Retry=false"}), 1, retry.Unknown, retry.ErrPermanent},
		"gRPC's pushback says no": {
			k, nil, twice(answer{429, "Retry-Pushback-Ms=-1"}), 1, retry.NotApplied, retry.ErrPermanent},
		"a header stands above a destination's statuses": {
			k, map[int]classify.Class{503: retryable}, twice(answer{503, "Stripe-Should-Retry=false"}), 1, retry.NotApplied, retry.ErrPermanent},
		"a key that is ignored makes it N": {
			k, nil, twice(answer{500, "Idempotency-Status=ignored"}), 1, retry.Unknown, retry.ErrOutcomeUnknown},
		"a destination declares its 503 with a hint ambiguous": {
			n, map[int]classify.Class{503: ambiguous}, twice(answer{503, hint}), 1, retry.Unknown, retry.ErrOutcomeUnknown},
		"a destination declares 449 retryable": {
			n, map[int]classify.Class{449: retryable}, twice(answer{449, ""}), 3, retry.NotApplied, retry.ErrAttempts},
		"a destination declares 423 retryable": {
			n, map[int]classify.Class{423: retryable}, twice(answer{423, ""}), 3, retry.NotApplied, retry.ErrAttempts},

		"K: a 4xx of the key's store speaks for all": {
			k, nil, []answer{{500, ""}, {404, ""}}, 2, retry.NotApplied, retry.ErrPermanent},
		"K: so does 422": {
			k, nil, []answer{{500, ""}, {422, ""}}, 2, retry.NotApplied, retry.ErrPermanent},
		"K: so does 303": {
			k, nil, []answer{{500, ""}, {303, ""}}, 2, retry.Applied, retry.ErrPermanent},
		"K: so does an answer from the store": {
			k, nil, []answer{{500, ""}, {402, "Idempotent-Replayed=true"}}, 2, retry.NotApplied, retry.ErrPermanent},
		"K: and a success": {
			k, nil, []answer{{500, ""}, {201, ""}}, 2, retry.Applied, nil},
		"K: a 409 is in progress, and stays unknown": {
			k, nil, []answer{{504, ""}, {409, ""}}, 3, retry.Unknown, retry.ErrAttempts},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var got atomic.Int64
			s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				a := row.answers[min(int(got.Add(1)), len(row.answers))-1]
				if name, value, ok := strings.Cut(a.header, "="); ok {
					w.Header().Set(name, value)
				}
				w.WriteHeader(a.code)
			}))
			defer s.Close()
			p := row.o.policy()
			p.Statuses = row.statuses
			resp, err := overBase(t, p, s.Client().Transport).RoundTrip(row.o.request(t, t.Context(), s.URL))
			require.NoError(t, err)
			defer resp.Body.Close()
			report := httpclient.ReportOf(resp)
			assert.EqualValues(t, row.requests, got.Load(), "requests seen")
			assert.Equal(t, row.outcome.String(), report.Outcome.String(), "outcome")
			assert.ErrorIs(t, report.Stop, row.stop, "why it stopped")
		})
	}
	// What is answered before the store is asked says nothing of an earlier
	// attempt.
	for _, code := range []int{401, 403, 407, 408, 412, 421, 424, 425, 429, 431, 451} {
		t.Run(fmt.Sprintf("K: a %d after a lost answer leaves it unknown", code), func(t *testing.T) {
			t.Parallel()
			var got atomic.Int64
			s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if got.Add(1) == 1 {
					panic(http.ErrAbortHandler)
				}
				w.WriteHeader(code)
			}))
			defer s.Close()
			resp, err := overBase(t, k.policy(), s.Client().Transport).RoundTrip(k.request(t, t.Context(), s.URL))
			require.NoError(t, err)
			defer resp.Body.Close()
			assert.Equal(t, retry.Unknown.String(), httpclient.ReportOf(resp).Outcome.String(), "outcome")
			assert.ErrorIs(t, httpclient.Check(resp), retry.ErrOutcomeUnknown, "Check")
		})
	}
}

// newServer is a real server, with HTTP/2 over TLS or without both.
func newServer(t *testing.T, http2 bool, h http.Handler) *httptest.Server {
	t.Helper()
	s := httptest.NewUnstartedServer(h)
	if http2 {
		s.EnableHTTP2 = true
		s.StartTLS()
	} else {
		s.Start()
	}
	t.Cleanup(s.Close)
	return s
}

// H48: 421: "HTTP/1: that connection is closed first". 408 as well: the server
// gives the connection up (RFC 9110 section 15.5.9). A response without body is
// back among the kept connections before anybody can close it.
func TestH48AnotherConnection(t *testing.T) {
	t.Parallel()
	for _, https := range []bool{false, true} {
		for _, code := range []int{408, 421} {
			for _, size := range []int{0, 10} {
				for _, o := range append(slices.Clone(operations), operation{"K without body", http.MethodPost, "", true, retry.Keyed}) {
					if code == 408 && o.safety == retry.Unsafe {
						continue // it is not repeated
					}
					t.Run(fmt.Sprintf("%d with %d bytes, https %v/%s", code, size, https, o.name), func(t *testing.T) {
						t.Parallel()
						var mu sync.Mutex
						var from []string
						s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
							_, _ = io.Copy(io.Discard, r.Body)
							mu.Lock()
							defer mu.Unlock()
							if from = append(from, r.RemoteAddr); len(from) == 2 {
								w.WriteHeader(code)
								_, _ = io.WriteString(w, strings.Repeat("x", size))
							}
						}))
						if https {
							s.StartTLS()
						} else {
							s.Start()
						}
						defer s.Close()
						p := o.policy()
						p.MaxAttempts = 2
						tr := overBase(t, p, s.Client().Transport)
						for range 2 { // the second one on a kept connection
							resp, err := tr.RoundTrip(o.request(t, t.Context(), s.URL))
							require.NoError(t, err)
							resp.Body.Close()
							require.Equal(t, 200, resp.StatusCode)
						}
						if assert.Len(t, from, 3, "requests") {
							assert.Equal(t, from[0], from[1], "the kept connection")
							assert.NotEqual(t, from[1], from[2], "the connection of the repeat")
						}
					})
				}
			}
		}
	}
}

// H48: "user classifiers come before the table; a header rule before both", of a
// transport and inside retry.Do; neither takes away how long the server asked to
// be left alone.
func TestH48Classifiers(t *testing.T) {
	t.Parallel()
	for name, row := range map[string]struct {
		code     int
		header   http.Header
		class    classify.Class // what the classifier says
		statuses map[int]classify.Class
		requests int
		outcome  retry.Outcome
		waited   time.Duration
	}{
		"retryable":                       {code: 404, class: retryable, requests: 3, outcome: retry.NotApplied},
		"permanent":                       {code: 503, class: permanent, requests: 1, outcome: retry.NotApplied},
		"ambiguous":                       {code: 404, class: ambiguous, requests: 1, outcome: retry.Unknown},
		"before Statuses":                 {code: 503, class: retryable, statuses: map[int]classify.Class{503: permanent}, requests: 3, outcome: retry.NotApplied},
		"a header before both":            {code: 503, header: http.Header{"Stripe-Should-Retry": {"false"}}, class: retryable, requests: 1, outcome: retry.Unknown},
		"a stored error before both":      {code: 503, header: http.Header{"Idempotent-Replayed": {"true"}}, class: retryable, requests: 1, outcome: retry.Unknown},
		"with the hint that came with it": {code: 503, header: http.Header{"Retry-After": {"2"}}, class: retryable, requests: 3, outcome: retry.NotApplied, waited: 4 * time.Second},
	} {
		for _, inside := range []string{"", "retry.Do", "retry.Do, no transport"} {
			t.Run(name+"/"+inside, func(t *testing.T) {
				t.Parallel()
				synctest.Test(t, func(t *testing.T) {
					requests := 0
					base := inBubble(t, func(w http.ResponseWriter, r *http.Request) {
						requests++
						maps.Copy(w.Header(), row.header)
						w.WriteHeader(row.code)
					})
					p := quick()
					p.Statuses = row.statuses
					l, err := retry.NewLayer(retry.Organization{Default: p}, &retry.Options{Classifiers: []classify.Classifier{func(err error) (classify.Verdict, bool) {
						e, ok := errors.AsType[*httpclient.StatusError](err)
						return classify.Verdict{Class: row.class}, ok && e.StatusCode == row.code
					}}})
					require.NoError(t, err)
					post := func(ctx context.Context, rt http.RoundTripper) error {
						req, err := http.NewRequestWithContext(ctx, "POST", "http://callee.test/", strings.NewReader("pay"))
						require.NoError(t, err)
						resp, err := rt.RoundTrip(req)
						if err != nil {
							return err
						}
						return httpclient.Check(resp)
					}
					start := time.Now()
					var outcome retry.Outcome
					switch over := (&httpclient.Transport{Layer: l, Base: base}); inside {
					case "":
						e, ok := errors.AsType[*httpclient.StatusError](post(t.Context(), over))
						require.True(t, ok)
						outcome = e.Report.Outcome
					default:
						rt := http.RoundTripper(over)
						if inside != "retry.Do" {
							rt = base
						}
						err := l.To("operation").Do(t.Context(), retry.Unsafe, func(ctx context.Context) error { return post(ctx, rt) })
						e, ok := errors.AsType[*retry.Error](err)
						require.True(t, ok, "Do failed with a %T: %v", err, err)
						outcome = e.Outcome
					}
					assert.Equal(t, row.requests, requests, "requests")
					if inside != "retry.Do, no transport" || row.header == nil {
						assert.Equal(t, row.outcome, outcome, "outcome")
					}
					assert.GreaterOrEqual(t, time.Since(start), row.waited, "time waited")
				})
			})
		}
	}
}

// H48: "303 after a write: applied", of the operation around as well, if that is
// what it failed with and all that it wrote.
func TestH48SeeOtherInsideDo(t *testing.T) {
	t.Parallel()
	errOwn := errors.New("not what was expected")
	for name, row := range map[string]struct {
		codes   []int
		trusted bool
		before  int // what another write of the operation is answered; 0: there is none
		own     bool
		outcome retry.Outcome
		stop    error
	}{
		"K":                         {codes: []int{303}, trusted: true, outcome: retry.Applied, stop: retry.ErrPermanent},
		"K, after a lost answer":    {codes: []int{500, 303}, trusted: true, outcome: retry.Applied, stop: retry.ErrPermanent},
		"N":                         {codes: []int{303}, outcome: retry.Applied, stop: retry.ErrPermanent},
		"N, an error of its own":    {codes: []int{303}, own: true, outcome: retry.Applied, stop: retry.ErrPermanent},
		"N, after another write":    {codes: []int{303}, before: 200, outcome: retry.Unknown, stop: retry.ErrOutcomeUnknown},
		"N, after one that was not": {codes: []int{303}, before: 404, outcome: retry.Unknown, stop: retry.ErrOutcomeUnknown},
		"K, after another write":    {codes: []int{303}, trusted: true, before: 200, outcome: retry.Unknown, stop: retry.ErrPermanent},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := quick()
			p.Key.Honored = row.trusted
			base := &script{codes: row.codes}
			tr := overBase(t, p, base)
			err := tr.Layer.To("operation").Do(t.Context(), retry.Unsafe, func(ctx context.Context) error {
				if row.before != 0 {
					other := &httpclient.Transport{Layer: tr.Layer, Base: &script{codes: []int{row.before}}}
					resp, err := other.RoundTrip(call(t, ctx, "POST", "http://other/", "pay"))
					require.NoError(t, err)
					resp.Body.Close()
				}
				resp, err := tr.RoundTrip(call(t, ctx, "POST", "http://peer/", "pay"))
				require.NoError(t, err)
				if err := httpclient.Check(resp); !row.own {
					return err
				}
				return errOwn
			})
			e, ok := errors.AsType[*retry.Error](err)
			require.True(t, ok, "Do failed with a %T: %v", err, err)
			assert.Equal(t, row.outcome, e.Outcome, "outcome of %v", err)
			assert.ErrorIs(t, e.Stop, row.stop)
			assert.Equal(t, len(row.codes), base.sent, "requests")
			assert.Equal(t, row.outcome == retry.Unknown, errors.Is(err, retry.ErrOutcomeUnknown), "Is(%v, ErrOutcomeUnknown)", err)
		})
	}
}

// H48: a status that a destination declares a failure is repeated no earlier than
// its hint says, also where the table has it as a success.
func TestH48HintOfADeclaredFailure(t *testing.T) {
	t.Parallel()
	for _, code := range []int{200, 202, 304, 404, 500} {
		synctest.Test(t, func(t *testing.T) {
			base := inBubble(t, func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Retry-After", "2")
				w.WriteHeader(code)
			})
			p := quick()
			p.Statuses = map[int]classify.Class{code: retryable}
			start := time.Now()
			resp, err := overBase(t, p, base).RoundTrip(call(t, t.Context(), "GET", "http://callee.test/", ""))
			require.NoError(t, err)
			readAll(t, resp)
			assert.Len(t, httpclient.ReportOf(resp).Attempts, 3, "%d: attempts", code)
			assert.GreaterOrEqual(t, time.Since(start), 4*time.Second, "%d: time", code)
		})
	}
}
