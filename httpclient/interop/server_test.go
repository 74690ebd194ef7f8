package interop_test

import (
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	"github.com/reintento/reintento/httpclient"
	"github.com/reintento/reintento/retry"
	"github.com/stretchr/testify/require"
)

// quick is the default policy with waits that cost a test no time.
func quick() retry.Policy {
	return retry.Policy{BaseDelay: time.Millisecond, MaxDelay: 5 * time.Millisecond, ThrottleDelay: time.Millisecond}
}

// connections returns a base of its own for a test.
func connections(t *testing.T) *http.Transport {
	t.Helper()
	base := http.DefaultTransport.(*http.Transport).Clone()
	t.Cleanup(base.CloseIdleConnections)
	return base
}

// over returns a transport on base under p.
func over(t *testing.T, p retry.Policy, base http.RoundTripper) *httpclient.Transport {
	t.Helper()
	layer, err := retry.NewLayer(retry.Organization{Default: p}, nil)
	require.NoError(t, err, "NewLayer(%+v)", p)
	return &httpclient.Transport{Layer: layer, Base: base}
}

// client returns a client on connections of its own under p.
func client(t *testing.T, p retry.Policy) *http.Client {
	t.Helper()
	return &http.Client{Transport: over(t, p, connections(t))}
}

// A fault stands in the place of a handler for one request.
type fault func(w http.ResponseWriter, r *http.Request, next http.Handler)

// pass lets the request through.
func pass(w http.ResponseWriter, r *http.Request, next http.Handler) { next.ServeHTTP(w, r) }

// answer turns the request away with a status and headers in pairs.
func answer(code int, header ...string) fault {
	return func(w http.ResponseWriter, _ *http.Request, _ http.Handler) {
		for i := 0; i < len(header); i += 2 {
			w.Header().Set(header[i], header[i+1])
		}
		w.WriteHeader(code)
	}
}

// cut reads the request and breaks the connection.
func cut(_ http.ResponseWriter, r *http.Request, _ http.Handler) {
	io.Copy(io.Discard, r.Body)
	panic(http.ErrAbortHandler)
}

// lose lets the server do its work and breaks the connection before the answer.
func lose(_ http.ResponseWriter, r *http.Request, next http.Handler) {
	next.ServeHTTP(httptest.NewRecorder(), r)
	panic(http.ErrAbortHandler)
}

// always is n times the same fault.
func always(f fault, n int) []fault {
	faults := make([]fault, n)
	for i := range faults {
		faults[i] = f
	}
	return faults
}

// server is a handler behind faults: each request meets the next one, and
// passes once they are used up. What it has seen is counted.
type server struct {
	*httptest.Server
	next http.Handler

	mu     sync.Mutex
	faults []fault
	seen   []request
}

type request struct {
	at     time.Time
	method string
	path   string
	header http.Header
}

func serve(t *testing.T, next http.Handler, faults ...fault) *server {
	t.Helper()
	s := &server{next: next, faults: faults}
	s.Server = httptest.NewServer(s)
	t.Cleanup(s.Close)
	return s
}

func (s *server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	s.seen = append(s.seen, request{at: time.Now(), method: r.Method, path: r.URL.Path, header: r.Header.Clone()})
	f := fault(pass)
	if len(s.faults) > 0 {
		f, s.faults = s.faults[0], s.faults[1:]
	}
	s.mu.Unlock()
	f(w, r, s.next)
}

// meets makes the next requests meet faults, and forgets those seen.
func (s *server) meets(faults ...fault) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.faults, s.seen = faults, nil
}

func (s *server) requests() []request {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]request(nil), s.seen...)
}

// keys are the idempotency keys of the requests that carry one, without
// repetition.
func (s *server) keys() []string {
	var keys []string
	known := make(map[string]bool)
	for _, r := range s.requests() {
		if key := r.header.Get("Idempotency-Key"); key != "" && !known[key] {
			known[key] = true
			keys = append(keys, key)
		}
	}
	return keys
}

func text(s string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, s) })
}

// read returns the body of a response that must have come.
func read(t *testing.T, resp *http.Response, err error) string {
	t.Helper()
	require.NoError(t, err, "the call")
	b, err := io.ReadAll(resp.Body)
	require.NoError(t, err, "reading the body of %s", resp.Status)
	require.NoError(t, resp.Body.Close(), "closing the body")
	return string(b)
}

// inMemory returns a base whose connections lead to a server in memory, for a
// bubble of package synctest.
func inMemory(t *testing.T, h http.Handler) *http.Transport {
	t.Helper()
	l := &pipes{conns: make(chan net.Conn), closed: make(chan struct{})}
	s := &http.Server{Handler: h}
	go s.Serve(l)
	t.Cleanup(func() { s.Close() })
	base := &http.Transport{DialContext: l.dial}
	t.Cleanup(base.CloseIdleConnections)
	return base
}

// pipes is a listener whose connections are pipes.
type pipes struct {
	conns  chan net.Conn
	closed chan struct{}
	once   sync.Once
}

func (p *pipes) dial(ctx context.Context, _, _ string) (net.Conn, error) {
	near, far := net.Pipe()
	select {
	case p.conns <- far:
		return near, nil
	case <-p.closed:
		return nil, net.ErrClosed
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func (p *pipes) Accept() (net.Conn, error) {
	select {
	case c := <-p.conns:
		return c, nil
	case <-p.closed:
		return nil, net.ErrClosed
	}
}

func (p *pipes) Close() error {
	p.once.Do(func() { close(p.closed) })
	return nil
}

func (p *pipes) Addr() net.Addr { return &net.TCPAddr{} }
