package httpclient_test

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httptrace"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/reintento/reintento/httpclient"
	"github.com/reintento/reintento/retry"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// A failed response is drained up to 4 KiB and 50 ms, then closed, before the
// wait; an endless or a stalled 503 body delays nothing further.
func TestH45(t *testing.T) {
	for _, c := range []struct {
		name string
		body http.HandlerFunc // after the head of a 503
		each time.Duration    // what the drain of one takes
	}{
		// B41: drain is limited in bytes but not in time.
		{"stalled", func(w http.ResponseWriter, r *http.Request) { <-r.Context().Done() }, 50 * time.Millisecond},
		{"stalled in the middle", func(w http.ResponseWriter, r *http.Request) {
			io.WriteString(w, "some")
			w.(http.Flusher).Flush()
			<-r.Context().Done()
		}, 50 * time.Millisecond},
		// B42: unlimited drain of a huge error body.
		{"endless", func(w http.ResponseWriter, r *http.Request) {
			page := strings.Repeat("no luck\n", 128)
			for n := 0; ; n += len(page) {
				if _, err := io.WriteString(w, page); err != nil {
					return
				}
				if !assert.Less(t, n, 64<<10, "bytes taken of an endless body") {
					return
				}
			}
		}, 0},
		{"in drops", func(w http.ResponseWriter, r *http.Request) {
			for r.Context().Err() == nil {
				io.WriteString(w, ".")
				w.(http.Flusher).Flush()
				time.Sleep(20 * time.Millisecond)
			}
		}, 50 * time.Millisecond},
	} {
		for _, perHost := range []int{0, 1} {
			t.Run(fmt.Sprintf("%s/MaxConnsPerHost=%d", c.name, perHost), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					var requests atomic.Int64
					base := inBubble(t, func(w http.ResponseWriter, r *http.Request) {
						if requests.Add(1) == 3 {
							io.WriteString(w, "well again")
							return
						}
						if c.name != "endless" {
							w.Header().Set("Content-Length", "65536")
						}
						w.WriteHeader(503)
						w.(http.Flusher).Flush()
						c.body(w, r)
					})
					base.MaxConnsPerHost = perHost
					p := inSteps()
					p.BaseDelay, p.Deadline = 100*time.Millisecond, time.Second
					start := time.Now()
					resp, err := overBase(t, p, base).RoundTrip(call(t, t.Context(), "GET", "http://peer/", ""))
					require.NoError(t, err)
					assert.Equal(t, "well again", finish(t, resp))
					assert.Equal(t, 300*time.Millisecond+2*c.each, time.Since(start))
				})
			})
		}
	}
	t.Run("a head that comes in drops", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			base := &http.Transport{MaxConnsPerHost: 1, DialContext: func(context.Context, string, string) (net.Conn, error) {
				here, there := net.Pipe()
				go func() {
					defer there.Close()
					if _, err := http.ReadRequest(bufio.NewReader(there)); err != nil {
						return
					}
					for _, b := range []byte("HTTP/1.1 200 OK\r\nX: " + strings.Repeat("x", 1000)) {
						if _, err := there.Write([]byte{b}); err != nil {
							return
						}
						time.Sleep(300 * time.Millisecond)
					}
				}()
				return here, nil
			}}
			p := inSteps()
			p.AttemptTimeout, p.Deadline = time.Second, 5*time.Second
			start := time.Now()
			_, err := overBase(t, p, base).RoundTrip(call(t, t.Context(), "GET", "http://peer/", ""))
			// 1 s, wait 1 s, 1 s; after a wait of 2 s nothing would be left.
			assert.Equal(t, 3*time.Second, time.Since(start))
			assert.ErrorIs(t, err, retry.ErrDeadline)
			e, ok := errors.AsType[*retry.Error](err)
			require.Truef(t, ok, "RoundTrip = %v, want a *retry.Error", err)
			assert.Len(t, e.Attempts, 2)
			time.Sleep(time.Second) // the peer finds its connection closed
		})
	})
}

// closings is a body that knows how often it was closed.
type closings struct {
	io.Reader
	closed int
}

func (c *closings) Close() error {
	c.closed++
	return nil
}

// B38: bodies of failed attempts are never closed. 503, 503, 200: 2 closes by the
// library, before the wait; the third is left to the caller.
func TestH45Closed(t *testing.T) {
	t.Parallel()
	var bodies []*closings
	waits := 0
	rt := withEvents(t, quick(), roundTrip(func(req *http.Request) (*http.Response, error) {
		code := 503
		if len(bodies) == 2 {
			code = 200
		}
		b := &closings{Reader: strings.NewReader("body")}
		bodies = append(bodies, b)
		return &http.Response{StatusCode: code, Header: http.Header{}, Body: b, Request: req}, nil
	}), func(_ context.Context, e retry.Event) {
		if e.Kind == retry.EventRetry {
			waits++
			assert.Equal(t, 1, bodies[len(bodies)-1].closed, "closings before wait %d", waits)
		}
	})
	resp, err := rt.RoundTrip(call(t, t.Context(), "GET", "http://peer/", ""))
	require.NoError(t, err)
	assert.Equal(t, 2, waits)
	require.Len(t, bodies, 3)
	assert.Equal(t, []int{1, 1, 0}, []int{bodies[0].closed, bodies[1].closed, bodies[2].closed})
	assert.Equal(t, "body", finish(t, resp))
	assert.Equal(t, 1, bodies[2].closed)
}

// A small failed body lets the connection be reused: one dial over 5 attempts,
// MaxConnsPerHost: 1 included.
func TestH46(t *testing.T) {
	t.Parallel()
	for _, body := range []struct {
		name  string
		size  int
		dials int64
	}{{"empty", 0, 1}, {"small", 100, 1}, {"4 KiB", 4 << 10, 1}, {"8 KiB", 8 << 10, 5}} {
		for _, perHost := range []int{0, 1} {
			for _, chunked := range []bool{false, true} {
				for _, http2 := range []bool{false, true} {
					dials := body.dials
					if http2 {
						dials = 1 // a stream is given up, not the connection
					}
					t.Run(fmt.Sprintf("%s/MaxConnsPerHost=%d/chunked=%v/HTTP2=%v", body.name, perHost, chunked, http2), func(t *testing.T) {
						t.Parallel()
						var dialed, requests atomic.Int64
						s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
							if requests.Add(1) < 5 {
								if !chunked {
									w.Header().Set("Content-Length", fmt.Sprint(body.size))
								}
								w.WriteHeader(503)
								if chunked {
									w.(http.Flusher).Flush()
								}
							}
							io.WriteString(w, strings.Repeat("x", body.size))
						}))
						s.EnableHTTP2 = http2
						if http2 {
							s.StartTLS()
						} else {
							s.Start()
						}
						defer s.Close()
						base := s.Client().Transport.(*http.Transport)
						base.MaxConnsPerHost = perHost
						base.DialContext = func(ctx context.Context, network, addr string) (net.Conn, error) {
							dialed.Add(1)
							return (&net.Dialer{}).DialContext(ctx, network, addr)
						}
						p := quick()
						p.MaxAttempts = 5
						resp, err := overBase(t, p, base).RoundTrip(call(t, t.Context(), "GET", s.URL, ""))
						require.NoError(t, err)
						assert.Equal(t, 200, resp.StatusCode)
						assert.Len(t, finish(t, resp), body.size)
						assert.EqualValues(t, 5, requests.Load(), "requests at the server")
						assert.EqualValues(t, dials, dialed.Load(), "connections dialed")
					})
				}
			}
		}
	}
}

// A failure never closes idle connections of other hosts.
func TestH47(t *testing.T) {
	t.Parallel()
	well := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	defer well.Close()
	base := fresh(t)
	rt := overBase(t, quick(), base)
	reused := func() bool {
		var got httptrace.GotConnInfo
		ctx := httptrace.WithClientTrace(t.Context(), &httptrace.ClientTrace{GotConn: func(i httptrace.GotConnInfo) { got = i }})
		resp, err := rt.RoundTrip(call(t, ctx, "GET", well.URL, ""))
		require.NoError(t, err)
		finish(t, resp)
		return got.Reused
	}
	require.False(t, reused(), "the first connection is new")
	read := make(chan struct{}) // by the peer that gives no answer
	for _, c := range []struct {
		name string
		peer func(net.Conn, int)
	}{
		{"closed", (&onePeer{answer: says("")}).serve},
		{"reset", func(c net.Conn, _ int) { reset(c) }},
		{"malformed", (&onePeer{answer: says("HTTP/1.1 2\r\n\r\n")}).serve},
		{"503", (&onePeer{answer: says("HTTP/1.1 503 No\r\nContent-Length: 0\r\n\r\n")}).serve},
		{"421", (&onePeer{answer: says("HTTP/1.1 421 No\r\nContent-Length: 0\r\n\r\n")}).serve},
		{"no answer", (&onePeer{answer: func(c net.Conn, _ *http.Request, _ int) bool {
			read <- struct{}{}
			drain(c)
			return false
		}}).serve},
	} {
		for _, method := range []string{"GET", "POST"} {
			ctx, cancel := context.WithCancel(t.Context())
			if c.name == "no answer" {
				go func() { <-read; cancel() }()
			}
			resp, err := rt.RoundTrip(call(t, ctx, method, "http://"+serve(t, c.peer), ""))
			if err == nil {
				resp.Body.Close()
			}
			cancel()
			assert.Truef(t, reused(), "the other host's connection is reused after %q, %s", c.name, method)
		}
	}
	_, err := rt.RoundTrip(call(t, t.Context(), "GET", "http://"+closedPort(t), ""))
	assert.Error(t, err)
	assert.True(t, reused(), "the other host's connection is reused after a refusal")
}

// A 421 over HTTP/1 closes its connection first; one that is drained would be
// taken again.
func TestH47Misdirected(t *testing.T) {
	t.Parallel()
	var dialed atomic.Int64
	var requests atomic.Int64
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if requests.Add(1) == 1 {
			w.WriteHeader(http.StatusMisdirectedRequest)
			io.WriteString(w, "not here")
		}
	}))
	defer s.Close()
	base := fresh(t)
	base.TLSClientConfig = &tls.Config{}
	base.DialContext = func(ctx context.Context, network, addr string) (net.Conn, error) {
		dialed.Add(1)
		return (&net.Dialer{}).DialContext(ctx, network, addr)
	}
	resp, err := overBase(t, quick(), base).RoundTrip(call(t, t.Context(), "POST", s.URL, "pay"))
	require.NoError(t, err)
	assert.Equal(t, 200, resp.StatusCode)
	finish(t, resp)
	assert.Len(t, httpclient.ReportOf(resp).Attempts, 2)
	assert.EqualValues(t, 2, dialed.Load(), "connections dialed")
}
