package httpclient_test

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/url"
	"reflect"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/reintento/reintento/classify"
	"github.com/reintento/reintento/httpclient"
	"github.com/reintento/reintento/retry"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// pipes is a listener whose connections are pipes, so that net/http works in
// virtual time.
type pipes struct {
	conns chan net.Conn
	done  chan struct{}
	once  sync.Once
}

func (p *pipes) Accept() (net.Conn, error) {
	select {
	case c := <-p.conns:
		return c, nil
	case <-p.done:
		return nil, net.ErrClosed
	}
}

func (p *pipes) Close() error {
	p.once.Do(func() { close(p.done) })
	return nil
}

func (p *pipes) Addr() net.Addr { return &net.UnixAddr{Name: "pipes", Net: "pipe"} }

// inBubble serves h by net/http inside a synctest bubble, and returns a base
// that reaches it under any host.
func inBubble(t testing.TB, h http.HandlerFunc) *http.Transport {
	l := &pipes{conns: make(chan net.Conn), done: make(chan struct{})}
	s := &http.Server{Handler: h}
	go s.Serve(l)
	base := &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		here, there := net.Pipe()
		select {
		case l.conns <- there:
			return here, nil
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}}
	t.Cleanup(func() {
		base.CloseIdleConnections()
		s.Close()
		time.Sleep(time.Second) // a connection of the server lingers for half of that
	})
	return base
}

// unanswering is a base that gives no answer until its context ends.
func unanswering(req *http.Request) (*http.Response, error) {
	<-req.Context().Done()
	return nil, context.Cause(req.Context())
}

// givenAnswer is a response to req.
func givenAnswer(req *http.Request, code int, h http.Header, body string) *http.Response {
	if h == nil {
		h = http.Header{}
	}
	return &http.Response{StatusCode: code, Header: h, Body: io.NopCloser(strings.NewReader(body)), Request: req}
}

var errPeer = errors.New("the peer failed")

// inSteps is a policy with waits of 1, 2, 4 … seconds.
func inSteps() retry.Policy {
	return retry.Policy{MaxAttempts: 10, BaseDelay: time.Second, MaxDelay: time.Minute, Jitter: retry.NoJitter}
}

// The deadline bounds attempts, waits and drains.
func TestH37(t *testing.T) {
	t.Run("attempts", func(t *testing.T) {
		// B110: slow first attempt leaves no room, and nobody says so.
		synctest.Test(t, func(t *testing.T) {
			p := inSteps()
			p.Deadline, p.AttemptTimeout = time.Second, retry.NoLimit
			start := time.Now()
			_, err := overBase(t, p, roundTrip(unanswering)).RoundTrip(call(t, t.Context(), "POST", "http://peer/", "pay"))
			assert.Equal(t, time.Second, time.Since(start))
			assert.ErrorIs(t, err, retry.ErrDeadline)
			assert.ErrorIs(t, err, context.DeadlineExceeded)
			assert.ErrorIs(t, err, retry.ErrOutcomeUnknown)
			e, ok := errors.AsType[*retry.Error](err)
			require.Truef(t, ok, "RoundTrip = %v, want a *retry.Error", err)
			assert.Len(t, e.Attempts, 1)
			assert.Equal(t, time.Second, e.Attempts[0].Duration)
			assert.True(t, e.Timeout(), "Timeout of %v", err)
		})
	})
	t.Run("attempts, with a limit to each", func(t *testing.T) {
		// B110, second half: at least 2 attempts.
		synctest.Test(t, func(t *testing.T) {
			p := inSteps()
			p.BaseDelay, p.Deadline, p.AttemptTimeout = 100*time.Millisecond, time.Second, 300*time.Millisecond
			start := time.Now()
			_, err := overBase(t, p, roundTrip(unanswering)).RoundTrip(call(t, t.Context(), "GET", "http://peer/", ""))
			// 300 ms, wait 100 ms, 300 ms, wait 200 ms, and the 100 ms that are left.
			assert.Equal(t, time.Second, time.Since(start))
			e, ok := errors.AsType[*retry.Error](err)
			require.Truef(t, ok, "RoundTrip = %v, want a *retry.Error", err)
			require.Len(t, e.Attempts, 3)
			assert.Equal(t, 100*time.Millisecond, e.Attempts[2].Duration)
			assert.ErrorIs(t, err, retry.ErrDeadline)
		})
	})
	t.Run("waits", func(t *testing.T) {
		// B97: total 5 s, delays 1, 2, 4: no attempt starts and nothing returns
		// after 5 s.
		// B105: overall timeout only breaks the inner select; the remaining
		// retries then run back to back.
		synctest.Test(t, func(t *testing.T) {
			p := inSteps()
			p.Deadline, p.AttemptTimeout = 5*time.Second, retry.NoLimit
			start := time.Now()
			var at []time.Duration
			_, err := overBase(t, p, roundTrip(func(*http.Request) (*http.Response, error) {
				at = append(at, time.Since(start))
				return nil, errPeer
			})).RoundTrip(call(t, t.Context(), "GET", "http://peer/", ""))
			assert.Equal(t, []time.Duration{0, time.Second, 3 * time.Second}, at)
			assert.Equal(t, 3*time.Second, time.Since(start))
			assert.ErrorIs(t, err, errPeer)
			assert.ErrorIs(t, err, retry.ErrDeadline)
		})
	})
	t.Run("drains", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			p := quick()
			p.Deadline = 20 * time.Millisecond
			start := time.Now()
			never := make(chan struct{})
			_, err := overBase(t, p, roundTrip(func(req *http.Request) (*http.Response, error) {
				return &http.Response{StatusCode: 503, Header: http.Header{}, Body: &stalled{closed: never}, Request: req}, nil
			})).RoundTrip(call(t, t.Context(), "GET", "http://peer/", ""))
			assert.Equal(t, 20*time.Millisecond, time.Since(start))
			assert.ErrorIs(t, err, retry.ErrDeadline)
		})
	})
	t.Run("the caller's own", func(t *testing.T) {
		// B103: retrying on a dead parent context.
		// B100: 'deadline exceeded' hides the real failure.
		synctest.Test(t, func(t *testing.T) {
			cause := errors.New("the shop closes")
			ctx, cancel := context.WithTimeoutCause(t.Context(), 4*time.Second, cause)
			defer cancel()
			n := 0
			_, err := overBase(t, inSteps(), roundTrip(func(req *http.Request) (*http.Response, error) {
				if n++; n == 3 {
					return unanswering(req)
				}
				return nil, errPeer
			})).RoundTrip(call(t, ctx, "POST", "http://peer/", ""))
			assert.ErrorIs(t, err, retry.ErrOutcomeUnknown) // the very first failure of a write
			assert.ErrorIs(t, err, errPeer)
			assert.Equal(t, 1, n, "attempts of a write")

			n = 0
			start := time.Now()
			_, err = overBase(t, inSteps(), roundTrip(func(req *http.Request) (*http.Response, error) {
				if n++; n == 3 {
					return unanswering(req)
				}
				return nil, errPeer
			})).RoundTrip(call(t, ctx, "GET", "http://peer/", ""))
			assert.Equal(t, 4*time.Second, time.Since(start))
			assert.Equal(t, 3, n, "attempts")
			assert.ErrorIs(t, err, context.DeadlineExceeded)
			assert.ErrorIs(t, err, cause)
			e, ok := errors.AsType[*retry.Error](err)
			require.Truef(t, ok, "RoundTrip = %v, want a *retry.Error", err)
			assert.Equal(t, classify.Caller, e.Attempts[2].Verdict.Origin)
			assert.ErrorIs(t, e.Attempts[1].Err, errPeer)
		})
	})
}

// stalled is a body that yields nothing until it is closed.
type stalled struct {
	closed chan struct{}
	once   sync.Once
}

func (s *stalled) Read([]byte) (int, error) {
	<-s.closed
	return 0, errors.New("read on a closed body")
}

func (s *stalled) Close() error {
	s.once.Do(func() { close(s.closed) })
	return nil
}

// Client.Timeout and a context deadline count as one. With Client.Timeout
// errors.Is(err, ErrOutcomeUnknown) still holds at the caller.
//
// B59: http.Client.Timeout outside the retrying transport covers all attempts
// and sleeps.
func TestH37ClientTimeout(t *testing.T) {
	for _, c := range []struct {
		name             string
		timeout, context time.Duration
		deadline, try    time.Duration // of the policy
		ends             time.Duration
		attempts         int
		outcome          error
		method, body     string
	}{
		{name: "Client.Timeout", timeout: time.Second, ends: 995 * time.Millisecond, attempts: 1, outcome: retry.ErrOutcomeUnknown, method: "POST", body: "pay"},
		{name: "Client.Timeout, no body", timeout: time.Second, ends: 995 * time.Millisecond, attempts: 1, outcome: retry.ErrOutcomeUnknown, method: "POST"},
		{name: "Client.Timeout before the context's deadline", timeout: time.Second, context: 3 * time.Second, ends: 995 * time.Millisecond, attempts: 1, outcome: retry.ErrOutcomeUnknown, method: "POST", body: "pay"},
		{name: "the context's deadline before Client.Timeout", timeout: 3 * time.Second, context: time.Second, ends: 995 * time.Millisecond, attempts: 1, outcome: retry.ErrOutcomeUnknown, method: "POST", body: "pay"},
		{name: "the context's deadline alone", context: time.Second, ends: time.Second, attempts: 1, outcome: retry.ErrOutcomeUnknown, method: "POST", body: "pay"},
		{name: "the policy's deadline before both", timeout: 3 * time.Second, context: 2 * time.Second, deadline: time.Second, ends: time.Second, attempts: 1, outcome: retry.ErrOutcomeUnknown, method: "POST", body: "pay"},
		{name: "an attempt timeout leaves time for more", timeout: 2 * time.Second, try: 500 * time.Millisecond, ends: 1995 * time.Millisecond, attempts: 3, outcome: retry.ErrDeadline, method: "GET"},
		{name: "a very short Client.Timeout", timeout: 4 * time.Millisecond, ends: 2 * time.Millisecond, attempts: 1, outcome: retry.ErrOutcomeUnknown, method: "POST", body: "pay"},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := inSteps()
				p.BaseDelay = 300 * time.Millisecond
				p.Deadline, p.AttemptTimeout = c.deadline, retry.NoLimit
				if c.try > 0 {
					p.AttemptTimeout = c.try
				}
				ctx := t.Context()
				if c.context > 0 {
					var cancel context.CancelFunc
					ctx, cancel = context.WithTimeout(ctx, c.context)
					defer cancel()
				}
				base := inBubble(t, func(_ http.ResponseWriter, r *http.Request) {
					io.Copy(io.Discard, r.Body)
					<-r.Context().Done()
				})
				client := &http.Client{Transport: overBase(t, p, base), Timeout: c.timeout}
				start := time.Now()
				_, err := client.Do(call(t, ctx, c.method, "http://peer/", c.body))
				assert.Equal(t, c.ends, time.Since(start))
				assert.ErrorIs(t, err, c.outcome)
				assert.ErrorIs(t, err, context.DeadlineExceeded)
				e, ok := errors.AsType[*retry.Error](err)
				require.Truef(t, ok, "Do = %v, want a *retry.Error", err)
				assert.Len(t, e.Attempts, c.attempts)
				// B117: the caller's impatience is no evidence against the server.
				origin := classify.Caller
				if c.deadline > 0 {
					origin = classify.Remote
				}
				assert.Equal(t, origin, e.Attempts[len(e.Attempts)-1].Verdict.Origin, "origin")
				u, ok := errors.AsType[*url.Error](err)
				require.Truef(t, ok, "Do = %v, want a *url.Error", err)
				assert.True(t, u.Timeout(), "Timeout of %v", err)
			})
		})
	}
}

// If the wait does not fit, return at once: the response with unread body if
// there is one, else the last error.
//
// B99: sleeping into a known expiry.
func TestH38(t *testing.T) {
	throttled := http.Header{"Retry-After": {"20"}}
	for _, c := range []struct {
		name   string
		answer func(*http.Request) (*http.Response, error)
		policy func(*retry.Policy)
		ctx    time.Duration
		client time.Duration
		stop   error
	}{
		{name: "hint beyond the policy's deadline", policy: func(p *retry.Policy) { p.Deadline = 10 * time.Second }, stop: retry.ErrDeadline},
		{name: "hint beyond the context's deadline", ctx: 10 * time.Second, stop: retry.ErrDeadline},
		{name: "hint beyond Client.Timeout", client: 10 * time.Second, stop: retry.ErrDeadline},
		{name: "hint beyond MaxRetryAfter", policy: func(p *retry.Policy) { p.MaxRetryAfter = 10 * time.Second }, stop: retry.ErrPushback},
		{name: "own delay beyond the deadline", policy: func(p *retry.Policy) { p.BaseDelay, p.Deadline = 20*time.Second, 10*time.Second }, stop: retry.ErrDeadline,
			answer: func(*http.Request) (*http.Response, error) { return nil, errPeer }},
	} {
		for _, method := range []string{"GET", "POST"} {
			t.Run(c.name+"/"+method, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					p := inSteps()
					p.Key.Honored = true
					if c.policy != nil {
						c.policy(&p)
					}
					ctx := t.Context()
					if c.ctx > 0 {
						var cancel context.CancelFunc
						ctx, cancel = context.WithTimeout(ctx, c.ctx)
						defer cancel()
					}
					answer := c.answer
					if answer == nil {
						answer = func(req *http.Request) (*http.Response, error) {
							return givenAnswer(req, 429, throttled, "slow down"), nil
						}
					}
					n := 0
					client := &http.Client{Timeout: c.client, Transport: overBase(t, p, roundTrip(func(req *http.Request) (*http.Response, error) {
						n++
						return answer(req)
					}))}
					start := time.Now()
					resp, err := client.Do(call(t, ctx, method, "http://peer/", ""))
					assert.Zero(t, time.Since(start), "time spent")
					assert.Equal(t, 1, n, "attempts")
					if c.answer != nil {
						assert.ErrorIs(t, err, c.stop)
						assert.ErrorIs(t, err, errPeer)
						return
					}
					require.NoError(t, err)
					assert.Equal(t, 429, resp.StatusCode)
					report := httpclient.ReportOf(resp)
					assert.ErrorIs(t, report.Stop, c.stop)
					assert.Equal(t, 20*time.Second, report.RetryAfter)
					assert.Equal(t, "slow down", finish(t, resp))
				})
			})
		}
	}
}

// While a request body is being read, progress restarts the attempt timer (a
// slow upload is not cut).
func TestH39SlowUpload(t *testing.T) {
	for _, c := range []struct {
		name string
		body func() io.Reader
		read time.Duration // the server's pause after each 32 KiB
		want int
	}{
		{"the server reads slowly", func() io.Reader { return strings.NewReader(strings.Repeat("x", 320<<10)) }, 400 * time.Millisecond, 320 << 10},
		{"the caller writes slowly", func() io.Reader { return &drops{left: 10, every: 800 * time.Millisecond} }, 0, 10},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				base := inBubble(t, func(_ http.ResponseWriter, r *http.Request) {
					total, buf := 0, make([]byte, 32<<10)
					for {
						n, err := io.ReadFull(r.Body, buf)
						total += n
						if err != nil {
							break
						}
						time.Sleep(c.read)
					}
					assert.Equal(t, c.want, total, "bytes at the server")
				})
				p := inSteps()
				p.AttemptTimeout = time.Second
				start := time.Now()
				req, err := http.NewRequestWithContext(t.Context(), "POST", "http://peer/", c.body())
				require.NoError(t, err)
				resp, err := overBase(t, p, base).RoundTrip(req)
				require.NoError(t, err)
				finish(t, resp)
				assert.Greater(t, time.Since(start), 3*time.Second)
				assert.Len(t, httpclient.ReportOf(resp).Attempts, 1)
			})
		})
	}
	t.Run("an upload that stands still is cut", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			over := make(chan struct{})
			defer close(over)
			base := inBubble(t, func(_ http.ResponseWriter, r *http.Request) {
				io.ReadFull(r.Body, make([]byte, 64<<10))
				<-over
			})
			p := inSteps()
			p.AttemptTimeout = time.Second
			start := time.Now()
			_, err := overBase(t, p, base).RoundTrip(call(t, t.Context(), "POST", "http://peer/", strings.Repeat("x", 1<<20)))
			assert.Equal(t, time.Second, time.Since(start))
			assert.ErrorIs(t, err, retry.ErrOutcomeUnknown)
			assert.ErrorIs(t, err, context.DeadlineExceeded)
		})
	})
	t.Run("progress does not go beyond the deadline", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			base := inBubble(t, func(_ http.ResponseWriter, r *http.Request) { io.Copy(io.Discard, r.Body) })
			p := inSteps()
			p.AttemptTimeout, p.Deadline = time.Second, 4*time.Second
			start := time.Now()
			req, err := http.NewRequestWithContext(t.Context(), "PUT", "http://peer/", &drops{left: 1 << 20, every: 300 * time.Millisecond})
			require.NoError(t, err)
			_, err = overBase(t, p, base).RoundTrip(req)
			// net/http waits for the read that is under way.
			assert.LessOrEqual(t, time.Since(start), 4300*time.Millisecond)
			assert.ErrorIs(t, err, retry.ErrDeadline)
		})
	})
	t.Run("a caller that writes nothing does not hold the call", func(t *testing.T) {
		// By itself net/http waits on HTTP/1 until the body's Read returns.
		for _, method := range []string{"POST", "PUT"} {
			for _, canceled := range []bool{false, true} {
				synctest.Test(t, func(t *testing.T) {
					base := inBubble(t, func(_ http.ResponseWriter, r *http.Request) { io.Copy(io.Discard, r.Body) })
					p := inSteps()
					p.AttemptTimeout = 3 * time.Second
					body, writer := io.Pipe()
					ctx, cancel := context.WithCancel(t.Context())
					defer cancel()
					if canceled {
						time.AfterFunc(2*time.Second, cancel)
					}
					time.AfterFunc(time.Second, func() { writer.Write([]byte("some")) })
					req, err := http.NewRequestWithContext(ctx, method, "http://peer/", body)
					require.NoError(t, err)
					start := time.Now()
					_, err = overBase(t, p, base).RoundTrip(req)
					e, ok := errors.AsType[*retry.Error](err)
					require.Truef(t, ok, "RoundTrip = %v, want a *retry.Error", err)
					assert.Len(t, e.Attempts, 1)
					assert.ErrorIs(t, err, retry.ErrOutcomeUnknown)
					if canceled {
						assert.Equal(t, 2*time.Second, time.Since(start))
						assert.ErrorIs(t, err, context.Canceled)
					} else {
						assert.Equal(t, 4*time.Second, time.Since(start))
						assert.ErrorIs(t, err, context.DeadlineExceeded)
						assert.Equal(t, method == "PUT", errors.Is(err, httpclient.ErrBodyNotReplayable), "Is(%v, ErrBodyNotReplayable)", err)
					}
					_, err = writer.Write([]byte("more"))
					assert.ErrorIs(t, err, io.ErrClosedPipe)
				})
			}
		}
	})
}

// drops yields a byte every so often.
type drops struct {
	left  int
	every time.Duration
}

func (d *drops) Read(p []byte) (int, error) {
	if d.left == 0 {
		return 0, io.EOF
	}
	time.Sleep(d.every)
	d.left--
	p[0] = '.'
	return 1, nil
}

// It stops when headers arrive: a body may take longer than the attempt timeout
// (5 flushed chunks with pauses arrive whole).
//
// B45: per-attempt cancel runs before the caller reads the body.
func TestH39SlowDownload(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		base := inBubble(t, func(w http.ResponseWriter, _ *http.Request) {
			for range 5 {
				io.WriteString(w, strings.Repeat("x", 1<<10))
				w.(http.Flusher).Flush()
				time.Sleep(800 * time.Millisecond)
			}
		})
		p := inSteps()
		p.AttemptTimeout, p.Deadline = time.Second, 2*time.Second
		start := time.Now()
		resp, err := overBase(t, p, base).RoundTrip(call(t, t.Context(), "GET", "http://peer/", ""))
		require.NoError(t, err)
		assert.Zero(t, time.Since(start), "time until the head")
		assert.Len(t, finish(t, resp), 5<<10)
		assert.Equal(t, 4*time.Second, time.Since(start))
	})
}

// children is how many contexts and functions hang on a context that
// context.WithCancel made.
func children(ctx context.Context) int {
	return reflect.ValueOf(ctx).Elem().FieldByName("children").Len()
}

// The attempt's context ends when the body reaches EOF, an error or Close, not
// before; no goroutine, timer or context child is left after Close.
func TestH40(t *testing.T) {
	for _, c := range []struct {
		name   string
		finish func(t *testing.T, resp *http.Response)
	}{
		{"EOF", func(t *testing.T, resp *http.Response) {
			b, err := io.ReadAll(resp.Body)
			assert.NoError(t, err)
			assert.Len(t, b, 8<<10)
		}},
		{"an error", func(t *testing.T, resp *http.Response) {
			_, err := io.ReadAll(resp.Body)
			assert.ErrorIs(t, err, io.ErrUnexpectedEOF)
		}},
		{"Close", func(t *testing.T, resp *http.Response) {
			_, err := io.ReadFull(resp.Body, make([]byte, 10))
			assert.NoError(t, err)
			assert.NoError(t, resp.Body.Close())
		}},
		{"Close of an unread body", func(t *testing.T, resp *http.Response) { assert.NoError(t, resp.Body.Close()) }},
	} {
		for _, canceler := range []bool{false, true} {
			name := c.name
			if canceler {
				name += ", with Request.Cancel"
			}
			t.Run(name, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					failures := 2
					release := make(chan struct{})
					base := inBubble(t, func(w http.ResponseWriter, _ *http.Request) {
						if failures--; failures >= 0 {
							w.WriteHeader(503)
							return
						}
						io.WriteString(w, strings.Repeat("x", 4<<10))
						w.(http.Flusher).Flush()
						<-release
						if c.name == "an error" {
							panic(http.ErrAbortHandler)
						}
						io.WriteString(w, strings.Repeat("x", 4<<10))
					})
					var contexts []context.Context
					rt := overBase(t, quick(), roundTrip(func(req *http.Request) (*http.Response, error) {
						contexts = append(contexts, req.Context())
						return base.RoundTrip(req)
					}))
					ctx, cancel := context.WithCancel(t.Context())
					defer cancel()
					req := call(t, ctx, "GET", "http://peer/", "")
					if canceler {
						//lint:ignore SA1019 http.Client with Timeout sets it, too
						req.Cancel = make(chan struct{})
					}
					resp, err := rt.RoundTrip(req)
					require.NoError(t, err)
					require.Len(t, contexts, 3)
					synctest.Wait()
					assert.Error(t, contexts[0].Err(), "context of an attempt that failed")
					assert.Error(t, contexts[1].Err(), "context of an attempt that failed")
					assert.NoError(t, contexts[2].Err(), "context of the attempt whose body is open")
					assert.Positive(t, children(ctx), "contexts below the caller's while the body is open")
					close(release)
					synctest.Wait()
					assert.NoError(t, contexts[2].Err(), "context before the body is read")
					c.finish(t, resp)
					synctest.Wait()
					assert.Error(t, contexts[2].Err(), "context after the end")
					assert.Zero(t, children(ctx), "contexts left below the caller's")
					resp.Body.Close()
				})
			})
		}
	}
}

// If the timer fired between headers and its stop, the attempt counts as timed
// out and its body is closed.
func TestH41(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var bodies []*stalled
		rt := overBase(t, quick(), roundTrip(func(req *http.Request) (*http.Response, error) {
			if len(bodies) == 1 && req.Method == "GET" {
				return givenAnswer(req, 200, nil, "in time"), nil
			}
			<-req.Context().Done()
			b := &stalled{closed: make(chan struct{})}
			bodies = append(bodies, b)
			return &http.Response{StatusCode: 200, Header: http.Header{}, Body: b, Request: req}, nil
		}))
		resp, err := rt.RoundTrip(call(t, t.Context(), "GET", "http://peer/", ""))
		require.NoError(t, err)
		assert.Equal(t, "in time", finish(t, resp))
		first := httpclient.ReportOf(resp).Attempts[0]
		assert.True(t, first.Failed)
		assert.Equal(t, "timeout", first.Verdict.Reason)
		assert.Equal(t, 10*time.Second, first.Duration)

		_, err = rt.RoundTrip(call(t, t.Context(), "POST", "http://peer/", ""))
		assert.ErrorIs(t, err, retry.ErrOutcomeUnknown)
		assert.ErrorIs(t, err, context.DeadlineExceeded)
		require.Len(t, bodies, 2)
		for _, b := range bodies {
			<-b.closed
		}
	})
}

// An attempt's own time limit is no end of the call.
//
// B102: attempt timeout mistaken for the caller's cancellation.
func TestH41TimeOfAnAttempt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := 0
		base := inBubble(t, func(w http.ResponseWriter, r *http.Request) {
			if n++; n == 1 {
				<-r.Context().Done()
			}
			io.WriteString(w, "done")
		})
		p := inSteps()
		p.AttemptTimeout, p.Deadline = 50*time.Millisecond, 5*time.Second
		resp, err := overBase(t, p, base).RoundTrip(call(t, t.Context(), "GET", "http://peer/", ""))
		require.NoError(t, err)
		assert.Equal(t, "done", finish(t, resp))
		first := httpclient.ReportOf(resp).Attempts[0]
		assert.Equal(t, classify.Remote, first.Verdict.Origin)
		assert.ErrorIs(t, first.Err, context.DeadlineExceeded)
	})
}

// Cancel during a wait returns at once (synctest: no time passes), with
// context.Cause, ctx.Err() and the last attempt's error all matched.
//
// B106: wait cannot be interrupted.
func TestH42(t *testing.T) {
	for _, status := range []bool{false, true} {
		for _, method := range []string{"GET", "POST"} {
			name := "after an error/" + method
			if status {
				name = "after a response/" + method
			}
			t.Run(name, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					p := inSteps()
					p.BaseDelay, p.ThrottleDelay = 20*time.Second, 20*time.Second
					p.Key.Honored = true
					ctx, cancel := context.WithCancelCause(t.Context())
					cause := errors.New("the user went home")
					n := 0
					rt := overBase(t, p, roundTrip(func(req *http.Request) (*http.Response, error) {
						n++
						if status {
							return givenAnswer(req, 503, nil, `{"code":"db"}`), nil
						}
						return nil, errPeer
					}))
					time.AfterFunc(5*time.Second, func() { cancel(cause) })
					start := time.Now()
					_, err := rt.RoundTrip(call(t, ctx, method, "http://peer/", ""))
					assert.Equal(t, 5*time.Second, time.Since(start))
					assert.Equal(t, 1, n, "attempts")
					assert.ErrorIs(t, err, cause)
					assert.ErrorIs(t, err, context.Canceled)
					if status {
						s, ok := errors.AsType[*httpclient.StatusError](err)
						require.Truef(t, ok, "RoundTrip = %v, want a *httpclient.StatusError in it", err)
						assert.Equal(t, 503, s.StatusCode)
						assert.JSONEq(t, `{"code":"db"}`, string(s.Body))
					} else {
						assert.ErrorIs(t, err, errPeer)
					}
					assert.Equal(t, method == "POST", errors.Is(err, retry.ErrOutcomeUnknown), "Is(%v, ErrOutcomeUnknown)", err)
				})
			})
		}
	}
}

// B107: timer left behind for each cancelled wait: 10,000 calls with 1 h wait,
// cancelled at once, leave no goroutine (a bubble does not end before they do)
// and take no time.
func TestH42ManyTimes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := quick()
		p.BaseDelay, p.MaxDelay, p.Deadline = time.Hour, time.Hour, retry.NoLimit
		p.Breaker.Disabled, p.Budget.Disabled = true, true
		type cancelKey struct{}
		rt := withEvents(t, p, roundTrip(func(*http.Request) (*http.Response, error) { return nil, errPeer }), func(ctx context.Context, e retry.Event) {
			if e.Kind == retry.EventRetry {
				ctx.Value(cancelKey{}).(context.CancelFunc)()
			}
		})
		held, stop := context.WithCancel(t.Context())
		defer stop()
		start := time.Now()
		for range 10_000 {
			ctx, cancel := context.WithCancel(held)
			_, err := rt.RoundTrip(call(t, context.WithValue(ctx, cancelKey{}, cancel), "GET", "http://peer/", ""))
			require.ErrorIs(t, err, context.Canceled)
			require.ErrorIs(t, err, errPeer)
		}
		assert.Zero(t, time.Since(start), "time spent")
		assert.Zero(t, children(held), "contexts left below the caller's")
	})
}

// A dial timeout or ResponseHeaderTimeout with a live context is an attempt's
// failure, though Is(DeadlineExceeded).
func TestH43(t *testing.T) {
	t.Run("dial timeout", func(t *testing.T) {
		t.Parallel()
		p := &onePeer{answer: says("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")}
		addr := serve(t, p.serve)
		base := fresh(t)
		dials := 0
		base.DialContext = func(ctx context.Context, network, _ string) (net.Conn, error) {
			d := net.Dialer{}
			if dials++; dials == 1 {
				d.Timeout = time.Nanosecond
			}
			return d.DialContext(ctx, network, addr)
		}
		resp, err := overBase(t, quick(), base).RoundTrip(call(t, t.Context(), "POST", "http://peer.example/", "pay"))
		require.NoError(t, err)
		finish(t, resp)
		attempts := httpclient.ReportOf(resp).Attempts
		require.Len(t, attempts, 2)
		assert.ErrorIs(t, attempts[0].Err, context.DeadlineExceeded)
		assert.Equal(t, classify.Retryable, attempts[0].Verdict.Class)
		assert.Equal(t, classify.Remote, attempts[0].Verdict.Origin)
		assert.EqualValues(t, 1, p.requests.Load(), "requests at the server")
	})
	t.Run("ResponseHeaderTimeout", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			n := 0
			base := inBubble(t, func(_ http.ResponseWriter, r *http.Request) {
				if n++; n == 1 {
					<-r.Context().Done()
				}
			})
			base.ResponseHeaderTimeout = time.Second
			resp, err := overBase(t, honored(), base).RoundTrip(call(t, t.Context(), "POST", "http://peer/", ""))
			require.NoError(t, err)
			finish(t, resp)
			attempts := httpclient.ReportOf(resp).Attempts
			require.Len(t, attempts, 2)
			assert.ErrorIs(t, attempts[0].Err, context.DeadlineExceeded)
			assert.Equal(t, classify.Ambiguous, attempts[0].Verdict.Class)
			assert.Equal(t, classify.Remote, attempts[0].Verdict.Origin)
			assert.Equal(t, time.Second, attempts[0].Duration)
		})
	})
}

// req.Cancel is honoured.
func TestH44(t *testing.T) {
	for _, c := range []struct {
		name   string
		base   roundTrip
		when   time.Duration
		before bool
	}{
		{name: "before the first attempt", base: unanswering, before: true},
		{name: "during an attempt", base: unanswering, when: time.Second},
		{name: "during a wait", base: func(*http.Request) (*http.Response, error) { return nil, errPeer }, when: time.Second},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := inSteps()
				p.BaseDelay = 20 * time.Second
				stop := make(chan struct{})
				req := call(t, t.Context(), "GET", "http://peer/", "")
				//lint:ignore SA1019 http.Client with Timeout sets it, too
				req.Cancel = stop
				if c.before {
					close(stop)
				} else {
					time.AfterFunc(c.when, func() { close(stop) })
				}
				start := time.Now()
				_, err := overBase(t, p, c.base).RoundTrip(req)
				assert.Equal(t, c.when, time.Since(start))
				assert.ErrorIs(t, err, context.Canceled)
				if c.name == "during a wait" {
					assert.ErrorIs(t, err, errPeer)
				}
			})
		})
	}
	t.Run("while the response's body is read", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			base := inBubble(t, func(w http.ResponseWriter, r *http.Request) {
				w.(http.Flusher).Flush()
				<-r.Context().Done()
			})
			stop := make(chan struct{})
			req := call(t, t.Context(), "GET", "http://peer/", "")
			//lint:ignore SA1019 http.Client with Timeout sets it, too
			req.Cancel = stop
			resp, err := overBase(t, quick(), base).RoundTrip(req)
			require.NoError(t, err)
			time.AfterFunc(time.Second, func() { close(stop) })
			start := time.Now()
			_, err = io.ReadAll(resp.Body)
			assert.Error(t, err)
			assert.Equal(t, time.Second, time.Since(start))
			resp.Body.Close()
		})
	})
}

// A request body whose Read does not return ends with its attempt, too, where
// GetBody gives another one for the next: net/http would wait for it on HTTP/1.
func TestH37StuckBodyWithGetBody(t *testing.T) {
	for _, ends := range []string{"the attempt's time", "the caller"} {
		t.Run(ends, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := inSteps()
				p.AttemptTimeout, p.Key.Honored = time.Second, true
				base := inBubble(t, func(w http.ResponseWriter, r *http.Request) {
					io.Copy(io.Discard, r.Body)
					io.WriteString(w, "done")
				})
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				stuck := &stalled{closed: make(chan struct{})}
				req := call(t, ctx, "POST", "http://peer/", "pay")
				whole := req.GetBody
				req.Body, req.GetBody, req.ContentLength = stuck, func() (io.ReadCloser, error) { return whole() }, 3
				if ends == "the caller" {
					time.AfterFunc(time.Second/2, cancel)
				}
				resp, err := overBase(t, p, base).RoundTrip(req)
				<-stuck.closed
				if ends == "the caller" {
					assert.ErrorIs(t, err, context.Canceled)
					return
				}
				require.NoError(t, err)
				assert.Equal(t, "done", finish(t, resp))
				attempts := httpclient.ReportOf(resp).Attempts
				require.Len(t, attempts, 2)
				assert.Equal(t, "timeout", attempts[0].Verdict.Reason)
			})
		})
	}
}
