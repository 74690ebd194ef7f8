package classify_test

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/reintento/reintento/classify"
	"github.com/stretchr/testify/require"
)

// reading is a peer that reads one request to its end and then does something.
func reading(then func(net.Conn)) func(net.Conn) {
	return func(c net.Conn) {
		if req, err := http.ReadRequest(bufio.NewReader(c)); err == nil {
			_, _ = io.Copy(io.Discard, req.Body)
		}
		then(c)
	}
}

func saying(s string) func(net.Conn) {
	return reading(func(c net.Conn) { _, _ = io.WriteString(c, s) })
}

func TestHTTP1AfterSending(t *testing.T) {
	tests := []struct {
		name string
		peer func(net.Conn)
		why  string
	}{
		{"closed without an answer", saying(""), "closed"},
		{"reset without an answer", reading(reset), "reset"},
		{"reset without having read", func(c net.Conn) { _, _ = c.Read(make([]byte, 1)); reset(c) }, "reset"},

		{"a status line cut short", saying("HTTP/1.1 2"), "malformed"},
		{"no status line", saying("garbage\r\n\r\n"), "malformed"},
		{"no version", saying("HTTP/x.1 200 OK\r\n\r\n"), "malformed"},
		{"a header cut short", saying("HTTP/1.1 200 OK\r\nFoo"), "malformed"},
		{"a header without a colon", saying("HTTP/1.1 200 OK\r\nFoo\r\n\r\n"), "malformed"},
		{"a bad length", saying("HTTP/1.1 200 OK\r\nContent-Length: x\r\n\r\n"), "malformed"},
		{"an empty length", saying("HTTP/1.1 200 OK\r\nContent-Length: \r\n\r\n"), "malformed"},
		{"two lengths", saying("HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n"), "malformed"},
		{"an unknown encoding", saying("HTTP/1.1 200 OK\r\nTransfer-Encoding: x\r\n\r\n"), "malformed"},
		{"two encodings", saying("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n"), "malformed"},
		{"too long a head", saying("HTTP/1.1 200 OK\r\nA: " + strings.Repeat("a", 20000) + "\r\n\r\n"), "malformed"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			base := &http.Transport{MaxResponseHeaderBytes: 1000}
			trace, err := attempt(t, base, write(t, t.Context(), "http://"+serve(t, tt.peer)))
			check(t, err, trace, classify.Verdict{Reason: tt.why})
			if got, want := classify.Error(err), (classify.Verdict{Reason: tt.why}); got != want {
				t.Errorf("Error(%v) = %+v, want %+v", err, got, want)
			}
		})
	}
}

func TestUploadThatIsReset(t *testing.T) {
	body := strings.Repeat("pay 10 ", 1<<20) // more than any buffer on the way
	addr := serve(t, func(c net.Conn) { _, _ = io.ReadFull(c, make([]byte, 1<<16)); reset(c) })
	trace, err := attempt(t, &http.Transport{}, writeBody(t, t.Context(), "http://"+addr, body))
	want := classify.Verdict{Reason: "reset"}
	if errors.Is(err, net.ErrClosed) {
		// net/http's reading half saw the reset first, and closed the
		// connection under the writing one.
		want.Reason = "closed"
	}
	check(t, err, trace, want)
}

// checkSpoiled holds the verdict about a request that net/http finds bad while
// it writes it. It closes the connection then, and now and then its reading half
// reports that first: the reason is lost, and lost is the verdict.
func checkSpoiled(t *testing.T, base *http.Transport, req func() *http.Request, want, lost classify.Verdict) {
	t.Helper()
	for range 100 {
		trace, err := attempt(t, base, req())
		if !errors.Is(err, net.ErrClosed) {
			check(t, err, trace, want)
			return
		}
		check(t, err, trace, lost)
	}
	t.Error("RoundTrip of a bad request said only that the connection was closed, 100 times")
}

func TestBodyShorterThanDeclared(t *testing.T) {
	addr := serve(t, reading(func(net.Conn) {}))
	checkSpoiled(t, &http.Transport{}, func() *http.Request {
		req := write(t, t.Context(), "http://"+addr)
		req.ContentLength = 1 << 20
		return req
	}, classify.Verdict{Class: classify.Permanent, Origin: classify.Local, Reason: "body"}, classify.Verdict{Reason: "closed"})
}

func TestRequestsThatAreRefusedWhenWritten(t *testing.T) {
	proxy := serve(t, reading(func(net.Conn) {}))
	tests := []struct {
		name   string
		base   *http.Transport
		change func(*http.Request)
	}{
		{"a length and no body", &http.Transport{}, func(r *http.Request) { r.Body, r.ContentLength = nil, 5 }},
		{"a bad host through a proxy", proxied(t, "http://"+proxy), func(r *http.Request) { r.Host = "a b" }},
		{"a control character in the URL", &http.Transport{}, func(r *http.Request) { r.URL.Opaque = "/\x01" }},
		{"a trailer that may not be one", &http.Transport{}, func(r *http.Request) {
			r.ContentLength, r.Trailer = -1, http.Header{"Content-Length": nil}
		}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			checkSpoiled(t, tt.base, func() *http.Request {
				req := write(t, t.Context(), "http://"+proxy)
				tt.change(req)
				return req
			}, classify.Verdict{Class: classify.Permanent, Origin: classify.Local, Reason: "request"},
				classify.Verdict{Class: classify.Retryable, Reason: "closed"})
		})
	}
}

func TestTimeoutsOnHTTP1(t *testing.T) {
	silent := func(c net.Conn) { _, _ = io.Copy(io.Discard, c) }
	tests := []struct {
		name string
		base func(*testing.T) *http.Transport
		ctx  func(context.Context) (context.Context, context.CancelFunc)
		want classify.Verdict
	}{
		{"no head in time", func(t *testing.T) *http.Transport {
			base := piped(t, silent)
			base.ResponseHeaderTimeout = time.Second
			return base
		}, context.WithCancel, classify.Verdict{Reason: "timeout"}},
		{"the attempt's deadline", func(t *testing.T) *http.Transport { return piped(t, silent) }, func(ctx context.Context) (context.Context, context.CancelFunc) {
			return context.WithTimeout(ctx, time.Second)
		}, classify.Verdict{Reason: "timeout"}},
		{"the connection's deadline", func(t *testing.T) *http.Transport {
			base := piped(t, silent)
			dial := base.DialContext
			base.DialContext = func(ctx context.Context, network, addr string) (net.Conn, error) {
				c, err := dial(ctx, network, addr)
				require.NoError(t, c.SetDeadline(time.Now().Add(time.Second)))
				return c, err
			}
			return base
		}, context.WithCancel, classify.Verdict{Reason: "timeout"}},
		{"the caller cancels", func(t *testing.T) *http.Transport { return piped(t, silent) }, func(ctx context.Context) (context.Context, context.CancelFunc) {
			ctx, cancel := context.WithCancel(ctx)
			time.AfterFunc(time.Second, cancel)
			return ctx, cancel
		}, classify.Verdict{Origin: classify.Caller, Reason: "canceled"}},
		{"the attempt's deadline while dialing", func(*testing.T) *http.Transport {
			return &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
				<-ctx.Done()
				return nil, ctx.Err()
			}}
		}, func(ctx context.Context) (context.Context, context.CancelFunc) {
			return context.WithTimeout(ctx, time.Second)
		}, classify.Verdict{Class: classify.Retryable, Reason: "timeout"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := tt.ctx(t.Context())
				defer cancel()
				trace, err := attempt(t, tt.base(t), write(t, ctx, "http://pay.test/"))
				check(t, err, trace, tt.want)
			})
		})
	}
}

func TestWaitForAConnectionThatIsInUse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		base := piped(t, reading(func(c net.Conn) { _, _ = io.Copy(io.Discard, c) }))
		base.MaxConnsPerHost = 1
		first, stop := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		wg.Go(func() {
			_, err := base.RoundTrip(write(t, first, "http://pay.test/"))
			if !errors.Is(err, context.Canceled) {
				t.Errorf("RoundTrip of the first = %v, want %v", err, context.Canceled)
			}
		})
		synctest.Wait()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		trace, err := attempt(t, base, write(t, ctx, "http://pay.test/"))
		check(t, err, trace, classify.Verdict{Class: classify.Retryable, Reason: "timeout"})
		stop()
		wg.Wait()
	})
}

func TestLegacyCancel(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, tt := range []struct {
			name string
			base *http.Transport
			want classify.Verdict
		}{
			{"after sending", piped(t, func(c net.Conn) { _, _ = io.Copy(io.Discard, c) }), classify.Verdict{Origin: classify.Caller, Reason: "canceled"}},
			{"while dialing", &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
				<-ctx.Done()
				return nil, errOther
			}}, classify.Verdict{Class: classify.Retryable, Origin: classify.Caller, Reason: "canceled"}},
		} {
			done := make(chan struct{})
			req := write(t, t.Context(), "http://pay.test/")
			//lint:ignore SA1019 http.Client sets it, too
			req.Cancel = done
			time.AfterFunc(time.Second, func() { close(done) })
			trace, err := attempt(t, tt.base, req)
			t.Log(tt.name, err)
			check(t, err, trace, tt.want)
		}
	})
}

// The server closes an idle connection in the moment in which it is taken for a
// request: nothing was written, and net/http says so by a text alone.
func TestIdleConnectionThatTheServerCloses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hangUp := make(chan struct{})
		closed := make(chan struct{})
		base := piped(t, func(c net.Conn) {
			r := bufio.NewReader(c)
			if req, err := http.ReadRequest(r); err == nil {
				_, _ = io.Copy(io.Discard, req.Body)
			}
			_, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
			<-hangUp
		})
		dial := base.DialContext
		base.DialContext = func(ctx context.Context, network, addr string) (net.Conn, error) {
			c, err := dial(ctx, network, addr)
			return closing{c, sync.OnceFunc(func() { close(closed) })}, err
		}
		resp, err := base.RoundTrip(write(t, t.Context(), "http://pay.test/"))
		require.NoError(t, err)
		require.NoError(t, resp.Body.Close())
		synctest.Wait()

		var r recorder
		hooks := r.hooks()
		got := hooks.GotConn
		hooks.GotConn = func(i gotConn) {
			got(i)
			close(hangUp)
			<-closed
			synctest.Wait()
		}
		trace, err := attemptWith(t, base, write(t, t.Context(), "http://pay.test/"), &r, hooks)
		require.True(t, trace.Reused, "the second attempt's connection is the first's")
		require.EqualError(t, err, "http: server closed idle connection")
		check(t, err, trace, classify.Verdict{Class: classify.Retryable, Reason: "closed"})
	})
}

// closing tells when the client closes a connection.
type closing struct {
	net.Conn
	closed func()
}

func (c closing) Close() error {
	defer c.closed()
	return c.Conn.Close()
}

func TestBodiesThatBreak(t *testing.T) {
	local := classify.Verdict{Class: classify.Permanent, Origin: classify.Local, Reason: "body"}
	tests := []struct {
		name   string
		answer string
		read   func(io.ReadCloser) error
		want   classify.Verdict
	}{
		{"cut short", "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nabc", readAll, classify.Verdict{Reason: "closed"}},
		{"a chunk without a length", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nx\r\n", readAll, classify.Verdict{Reason: "malformed"}},
		{"a chunk longer than it says", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nabc\r\n", readAll, classify.Verdict{Reason: "malformed"}},
		{"not gzip", "HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: 10\r\n\r\n0123456789", readAll, classify.Verdict{Reason: "unknown"}},
		{"beyond our limit", "HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nabc", func(b io.ReadCloser) error {
			return readAll(http.MaxBytesReader(nil, b, 1))
		}, local},
		{"read after it was closed", "HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nabc", func(b io.ReadCloser) error {
			if err := b.Close(); err != nil {
				return err
			}
			return readAll(b)
		}, local},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			base := &http.Transport{}
			defer base.CloseIdleConnections()
			resp, err := base.RoundTrip(write(t, t.Context(), "http://"+serve(t, saying(tt.answer))))
			require.NoError(t, err)
			defer resp.Body.Close()
			err = tt.read(resp.Body)
			require.Error(t, err)
			got := classify.Error(err)
			if got != tt.want {
				t.Errorf("Error(%v) = %+v, want %+v", err, got, tt.want)
			}
			checkReason(t, got)
		})
	}
}

func readAll(r io.ReadCloser) error {
	_, err := io.Copy(io.Discard, r)
	return err
}
