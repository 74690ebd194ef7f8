package httpclient_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/reintento/reintento/retry"
	"github.com/stretchr/testify/require"
)

// The protocols that net/http speaks with a site.
const (
	http1     = "HTTP/1.1"
	http2     = "HTTP/2"
	plainHTTP = "HTTP/2 without TLS"
)

var protocols = []string{http1, http2, plainHTTP}

// site is net/http's own server on loopback, with a base that speaks one
// protocol with it.
type site struct {
	*httptest.Server
	base        *http.Transport
	connections atomic.Int64
}

type connOf struct{}

func newSite(t testing.TB, protocol string, h http.HandlerFunc) *site {
	t.Helper()
	s := &site{Server: httptest.NewUnstartedServer(h)}
	s.Config.ErrorLog = log.New(io.Discard, "", 0) // of connections that are cut
	s.Config.ConnContext = func(ctx context.Context, c net.Conn) context.Context {
		s.connections.Add(1)
		return context.WithValue(ctx, connOf{}, c)
	}
	switch protocol {
	case http1:
		s.Start()
		s.base = fresh(t)
	case http2:
		s.EnableHTTP2 = true
		s.StartTLS()
		s.base = s.Client().Transport.(*http.Transport)
	case plainHTTP:
		s.Config.Protocols = new(http.Protocols)
		s.Config.Protocols.SetUnencryptedHTTP2(true)
		s.Start()
		s.base = fresh(t)
		s.base.Protocols = s.Config.Protocols
	}
	t.Cleanup(func() {
		s.base.CloseIdleConnections()
		s.CloseClientConnections()
		s.Close()
	})
	return s
}

// cut closes the connection that a request came on.
func cut(r *http.Request) {
	_ = r.Context().Value(connOf{}).(net.Conn).Close()
}

// warm leaves one idle connection to the site in its base.
func (s *site) warm(t testing.TB) {
	t.Helper()
	resp, err := (&http.Client{Transport: s.base}).Head(s.URL + "/warm")
	require.NoError(t, err)
	require.NoError(t, resp.Body.Close())
}

// overProtocols runs a test over each protocol, in parallel.
func overProtocols(t *testing.T, test func(t *testing.T, protocol string)) {
	for _, protocol := range protocols {
		t.Run(protocol, func(t *testing.T) {
			t.Parallel()
			test(t, protocol)
		})
	}
}

// bank is a server that acts at most once for each key, if there is one, and
// answers a repeat with what it answered first. It reads each request whole.
type bank struct {
	mu       sync.Mutex
	requests []string // their keys
	bodies   []string
	effects  int
	answers  map[string]string
}

// act returns the answer to a request, and how many there were.
func (b *bank) act(r *http.Request) (answer string, n int) {
	body, err := io.ReadAll(r.Body)
	b.mu.Lock()
	defer b.mu.Unlock()
	key := r.Header.Get("Idempotency-Key")
	b.requests = append(b.requests, key)
	b.bodies = append(b.bodies, string(body))
	if err != nil {
		return "", len(b.requests)
	}
	answer, done := b.answers[key]
	if key == "" || !done {
		b.effects++
		answer = fmt.Sprintf("receipt %d", b.effects)
		if b.answers == nil {
			b.answers = map[string]string{}
		}
		b.answers[key] = answer
	}
	return answer, len(b.requests)
}

func (b *bank) seen() (keys, bodies []string, effects int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.requests, b.bodies, b.effects
}

// roundTripFunc is a base in a function.
type roundTripFunc func(*http.Request) (*http.Response, error)

func (f roundTripFunc) RoundTrip(req *http.Request) (*http.Response, error) { return f(req) }

// steady is the quick policy without budget and breaker, for a server that fails
// often.
func steady() retry.Policy {
	p := quick()
	p.Budget.Disabled, p.Breaker.Disabled = true, true
	return p
}

// honoured is the steady policy for a server that honours keys.
func honoured() retry.Policy {
	p := steady()
	p.Key.Honored = true
	return p
}

// watchedBody is a request body that tells when it is closed, and fails the test
// if that happens twice or if it is read afterwards.
type watchedBody struct {
	io.Reader
	t      testing.TB
	times  atomic.Int64
	closed chan struct{}
}

func watchBody(t testing.TB, r io.Reader) *watchedBody {
	return &watchedBody{Reader: r, t: t, closed: make(chan struct{})}
}

var errReadAfterClose = errors.New("the body was read after it had been closed")

func (b *watchedBody) Read(p []byte) (int, error) {
	if b.times.Load() > 0 {
		return 0, errReadAfterClose
	}
	return b.Reader.Read(p)
}

func (b *watchedBody) Close() error {
	if n := b.times.Add(1); n > 1 {
		b.t.Errorf("the body was closed for the %d. time", n)
	} else {
		close(b.closed)
	}
	return nil
}

// readAll returns a response's body and closes it.
func readAll(t testing.TB, resp *http.Response) string {
	t.Helper()
	b, err := io.ReadAll(resp.Body)
	require.NoError(t, err, "reading the body of %s", resp.Status)
	require.NoError(t, resp.Body.Close())
	return string(b)
}
