package httpclient_test

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"reflect"
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

// likeness is what must be the same of a request before and after.
type likeness struct {
	Method, Host, Proto string
	URL                 url.URL
	Header, Trailer     http.Header
	ContentLength       int64
	TransferEncoding    []string
	Body                io.ReadCloser
	GetBody             uintptr
	Close               bool
	Context             context.Context
}

func likenessOf(req *http.Request) likeness {
	l := likeness{
		Method: req.Method, Host: req.Host, Proto: req.Proto, URL: *req.URL,
		Header: req.Header.Clone(), Trailer: req.Trailer.Clone(), ContentLength: req.ContentLength,
		TransferEncoding: append([]string(nil), req.TransferEncoding...), Body: req.Body, Close: req.Close, Context: req.Context(),
	}
	if req.GetBody != nil {
		l.GetBody = reflect.ValueOf(req.GetBody).Pointer()
	}
	return l
}

// 1. The caller's request (Body, GetBody, Header, ContentLength, Host, URL) is
// deep-equal before and after RoundTrip.
//
// B29: headers that are set on the shared *http.Request race under concurrent
// use, and later calls inherit stale ones.
func TestH01RequestUnchanged(t *testing.T) {
	t.Parallel()
	s := newSite(t, http1, func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		switch r.URL.Path {
		case "/cut":
			cut(r)
		case "/fail":
			w.WriteHeader(http.StatusServiceUnavailable)
		case "/redirect":
			http.Redirect(w, r, "/", http.StatusTemporaryRedirect)
		}
	})
	p := honoured()
	p.Announce = true
	tr := overBase(t, p, s.base)
	bodies := map[string]func() io.Reader{
		"no body":     func() io.Reader { return nil },
		"NoBody":      func() io.Reader { return http.NoBody },
		"GetBody":     func() io.Reader { return strings.NewReader("hello") },
		"stream":      func() io.Reader { return io.MultiReader(strings.NewReader("hello")) },
		"io.ReaderAt": func() io.Reader { return &watchedAt{bytes.NewReader([]byte("hello")), func() {}} },
	}
	for _, path := range []string{"/", "/cut", "/fail", "/redirect"} {
		for name, body := range bodies {
			t.Run(name+path, func(t *testing.T) {
				req, err := http.NewRequestWithContext(t.Context(), "POST", s.URL+path+"?q=1#f", body())
				require.NoError(t, err)
				req.Header.Set("X-Own", "1")
				req.Header["x-lower"] = []string{"2"}
				req.Host = "elsewhere.example"
				req.Trailer = http.Header{}
				if req.ContentLength == 0 && req.Body != nil {
					req.ContentLength = 5
				}
				if name == "NoBody" {
					req.ContentLength = 0
				}
				before := likenessOf(req)
				resp, err := tr.RoundTrip(req)
				if err == nil {
					readAll(t, resp)
				}
				after := likenessOf(req)
				if !reflect.DeepEqual(before, after) {
					t.Errorf("RoundTrip(%s) left the request as\n%+v, want\n%+v", name+path, after, before)
				}
			})
		}
	}
	t.Run("one request, many goroutines", func(t *testing.T) {
		req, err := http.NewRequest("POST", s.URL+"/fail", nil)
		require.NoError(t, err)
		before := likenessOf(req)
		var wg sync.WaitGroup
		for range 8 {
			wg.Go(func() {
				if resp, err := tr.RoundTrip(req); assert.NoError(t, err) {
					resp.Body.Close()
				}
			})
		}
		wg.Wait()
		assert.Equal(t, before, likenessOf(req))
	})
}

// 1. Nor is it by a base that writes to the request it got, and what it wrote is
// gone in the next attempt.
//
// B29: later calls inherit stale values.
func TestH01BaseThatWrites(t *testing.T) {
	t.Parallel()
	var queries, headers []string
	tr := overBase(t, quick(), roundTripFunc(func(req *http.Request) (*http.Response, error) {
		req.URL.RawQuery += "&signed"
		req.Header.Add("Signature", "x")
		queries, headers = append(queries, req.URL.RawQuery), append(headers, fmt.Sprint(req.Header["Signature"]))
		return givenAnswer(req, http.StatusServiceUnavailable, nil, ""), nil
	}))
	req, err := http.NewRequestWithContext(t.Context(), "GET", "http://host.example/?q=1", nil)
	require.NoError(t, err)
	before := likenessOf(req)
	resp, err := tr.RoundTrip(req)
	require.NoError(t, err)
	readAll(t, resp)
	assert.Equal(t, before, likenessOf(req))
	assert.Equal(t, "http://host.example/?q=1", req.URL.String())
	assert.Equal(t, []string{"q=1&signed", "q=1&signed", "q=1&signed"}, queries)
	assert.Equal(t, []string{"[x]", "[x]", "[x]"}, headers)
}

// watchedAt is a body that can be read anywhere.
type watchedAt struct {
	*bytes.Reader
	close func()
}

func (w *watchedAt) Close() error {
	w.close()
	return nil
}

// 2. The caller's body is closed exactly once in every outcome: success,
// exhausted, context dead before the first attempt, GetBody error, breaker open,
// invalid key, panic in a hook.
//
// It also holds for bad input, where nothing is sent: parts of the request that
// are missing, and a layer that is none; and for a base that returns neither
// response nor error, both, or forgets to close.
func TestH02BodyClosedOnce(t *testing.T) {
	t.Parallel()
	errBase := errors.New("the base failed")
	answering := func(status int, header ...string) roundTripFunc {
		return func(req *http.Request) (*http.Response, error) {
			_, _ = io.Copy(io.Discard, req.Body)
			req.Body.Close()
			h := http.Header{}
			for i := 0; i < len(header); i += 2 {
				h.Set(header[i], header[i+1])
			}
			return &http.Response{StatusCode: status, Header: h, Body: io.NopCloser(strings.NewReader("x")), Request: req}, nil
		}
	}
	type setting struct {
		base    roundTripFunc
		policy  retry.Policy
		ctx     context.Context
		observe retry.Observer
		change  func(*http.Request)
		layer   *retry.Layer
		noLayer bool
	}
	dead, cancel := context.WithCancel(t.Context())
	cancel()
	cases := map[string]struct {
		set    func(s *setting)
		sends  int // requests that reach the base; -1: depends on the body
		want   any // an error value, a text, or nil for a response
		panics bool
	}{
		"success":          {sends: 1},
		"exhausted":        {set: func(s *setting) { s.base = answering(500) }, sends: 3},
		"permanent answer": {set: func(s *setting) { s.base = answering(404) }, sends: 1},
		"exhausted by errors": {set: func(s *setting) {
			s.base = func(req *http.Request) (*http.Response, error) { req.Body.Close(); return nil, errBase }
		}, sends: 3, want: errBase},
		"a base that forgets to close": {set: func(s *setting) {
			s.base = func(*http.Request) (*http.Response, error) { return nil, errBase }
		}, sends: 3, want: errBase},
		"a base that forgets to close and answers": {set: func(s *setting) {
			s.base = func(req *http.Request) (*http.Response, error) {
				return &http.Response{StatusCode: 500, Header: http.Header{}, Body: http.NoBody, Request: req}, nil
			}
		}, sends: 3},
		"a base that returns neither response nor error": {set: func(s *setting) {
			s.base = func(req *http.Request) (*http.Response, error) { req.Body.Close(); return nil, nil }
		}, sends: 1, want: "httpclient: the base returned neither response nor error"},
		"a base that returns both": {set: func(s *setting) {
			s.base = func(req *http.Request) (*http.Response, error) {
				resp, _ := answering(200)(req)
				return resp, errBase
			}
		}, sends: 3, want: errBase},
		"a base that returns a hollow response and an error": {set: func(s *setting) {
			s.base = func(req *http.Request) (*http.Response, error) { return &http.Response{}, errBase }
		}, sends: 3, want: errBase},
		"context dead before the first attempt": {set: func(s *setting) { s.ctx = dead }, want: context.Canceled},
		"no time left": {set: func(s *setting) {
			ctx, cancel := context.WithTimeout(t.Context(), -1)
			cancel()
			s.ctx = ctx
		}, want: context.DeadlineExceeded},
		"GetBody fails": {set: func(s *setting) {
			s.base = answering(500)
			s.change = func(req *http.Request) {
				req.GetBody = func() (io.ReadCloser, error) { return nil, errBase }
			}
		}, sends: 1},
		"GetBody panics": {set: func(s *setting) {
			s.base = answering(500)
			s.change = func(req *http.Request) { req.GetBody = func() (io.ReadCloser, error) { panic("hook") } }
		}, sends: 1, panics: true},
		"invalid key": {set: func(s *setting) {
			s.change = func(req *http.Request) { req.Header.Set("Idempotency-Key", "a b") }
		}, want: "idempotency key"},
		"panic of the observer after the attempt": {set: func(s *setting) {
			s.observe = func(context.Context, retry.Event) { panic("hook") }
		}, sends: 1, panics: true},
		"panic of the observer before the repeat": {set: func(s *setting) {
			s.base = answering(500)
			s.observe = func(_ context.Context, e retry.Event) {
				if e.Kind == retry.EventRetry {
					panic("hook")
				}
			}
		}, sends: 1, panics: true},
		"panic of the base": {set: func(s *setting) {
			s.base = func(*http.Request) (*http.Response, error) { panic("base") }
		}, sends: 1, panics: true},
		"breaker open": {set: func(s *setting) {
			p := s.policy
			p.Breaker.Disabled, p.Breaker.MinResults = false, 1
			l, err := retry.NewLayer(retry.Organization{Default: p}, nil)
			require.NoError(t, err)
			trip, err := http.NewRequest("GET", "http://host.example/", nil)
			require.NoError(t, err)
			resp, _ := (&httpclient.Transport{Layer: l, Base: answering(500)}).RoundTrip(trip)
			resp.Body.Close()
			s.layer = l
		}, want: breaker.ErrOpen},
		"no layer":  {set: func(s *setting) { s.noLayer = true }, want: "Transport.Layer is nil"},
		"no URL":    {set: func(s *setting) { s.change = func(r *http.Request) { r.URL = nil } }, want: "Request.URL is nil"},
		"no header": {set: func(s *setting) { s.change = func(r *http.Request) { r.Header = nil } }, want: "Request.Header is nil"},
		"no host":   {set: func(s *setting) { s.change = func(r *http.Request) { r.URL.Host = "" } }, want: "Request.URL has no host"},
	}
	bodies := map[string]func(req *http.Request, w *watchedBody){
		"GetBody": func(req *http.Request, w *watchedBody) {
			req.Body = w
			req.GetBody = func() (io.ReadCloser, error) { return watchBody(w.t, strings.NewReader("hello")), nil }
		},
		"stream": func(req *http.Request, w *watchedBody) { req.Body = w },
		"io.ReaderAt": func(req *http.Request, w *watchedBody) {
			req.Body = &watchedAt{bytes.NewReader([]byte("hello")), func() { w.Close() }}
		},
	}
	for name, c := range cases {
		for kind, with := range bodies {
			t.Run(name+"/"+kind, func(t *testing.T) {
				t.Parallel()
				s := setting{base: answering(200), policy: honoured(), ctx: t.Context()}
				if c.set != nil {
					c.set(&s)
				}
				sends := 0
				base := roundTripFunc(func(req *http.Request) (*http.Response, error) { sends++; return s.base(req) })
				if s.layer == nil && !s.noLayer {
					l, err := retry.NewLayer(retry.Organization{Default: s.policy}, &retry.Options{Observer: s.observe})
					require.NoError(t, err)
					s.layer = l
				}
				w := watchBody(t, strings.NewReader("hello"))
				req, err := http.NewRequestWithContext(s.ctx, "POST", "http://host.example/", nil)
				require.NoError(t, err)
				req.ContentLength = 5
				with(req, w)
				if s.change != nil {
					s.change(req)
				}
				wantPanic := c.panics && (req.GetBody != nil || !strings.HasPrefix(name, "GetBody"))
				var resp *http.Response
				func() {
					defer func() {
						if p := recover(); (p != nil) != wantPanic {
							t.Errorf("RoundTrip panicked with %v, want a panic: %v", p, wantPanic)
						}
					}()
					resp, err = (&httpclient.Transport{Layer: s.layer, Base: base}).RoundTrip(req)
				}()
				if !wantPanic && (resp == nil) == (err == nil) {
					t.Fatalf("RoundTrip = %v, %v, want exactly one of them", resp, err)
				}
				if resp != nil {
					if !strings.HasPrefix(name, "a base that forgets") {
						// Whoever fills a pipe must not wait for the response to be read.
						assert.EqualValues(t, 1, w.times.Load(), "times that the body was closed when the response is handed over")
					}
					readAll(t, resp)
				}
				switch want := c.want.(type) {
				case error:
					assert.ErrorIs(t, err, want)
				case string:
					assert.ErrorContains(t, err, want)
				}
				assert.Equal(t, c.sends, sends, "requests that reached the base")
				assert.EqualValues(t, 1, w.times.Load(), "times that the body was closed")
			})
		}
	}
	t.Run("no request", func(t *testing.T) {
		resp, err := overBase(t, quick(), nil).RoundTrip(nil)
		assert.Nil(t, resp)
		assert.ErrorContains(t, err, "request is nil")
	})
	t.Run("negative time", func(t *testing.T) {
		w := watchBody(t, strings.NewReader("hello"))
		tr := overBase(t, quick(), answering(200))
		tr.BodyIdleTimeout = -time.Second
		req, err := http.NewRequest("POST", "http://host.example/", w)
		require.NoError(t, err)
		_, err = tr.RoundTrip(req)
		assert.ErrorContains(t, err, "Transport.BodyIdleTimeout is -1s")
		assert.EqualValues(t, 1, w.times.Load())
	})
	t.Run("inside of retry.Do", func(t *testing.T) {
		// Nothing was sent, whatever the operation is: no repeat, no doubt, and
		// nothing that its destination could be blamed for.
		p := quick()
		p.Breaker = breaker.Settings{MinResults: 1}
		for name, change := range map[string]func(*httpclient.Transport, *http.Request){
			"no host":   func(_ *httpclient.Transport, r *http.Request) { r.URL.Host = "" },
			"no URL":    func(_ *httpclient.Transport, r *http.Request) { r.URL = nil },
			"no Header": func(_ *httpclient.Transport, r *http.Request) { r.Header = nil },
			"no layer":  func(tr *httpclient.Transport, _ *http.Request) { tr.Layer = nil },
		} {
			for _, s := range []retry.Safety{retry.Unsafe, retry.Keyed, retry.Idempotent} {
				tr := overBase(t, p, answering(200))
				d := tr.Layer.To("operation")
				err := d.Do(t.Context(), s, func(ctx context.Context) error {
					req, err := http.NewRequestWithContext(ctx, "POST", "http://host.example/", strings.NewReader("pay"))
					require.NoError(t, err)
					change(tr, req)
					_, err = tr.RoundTrip(req)
					return err
				})
				failure, ok := errors.AsType[*retry.Error](err)
				require.True(t, ok, "%s: Do failed with a %T: %v", name, err, err)
				assert.ErrorIs(t, err, retry.ErrPermanent, name)
				assert.Equal(t, retry.NotApplied, failure.Outcome, "%s: outcome", name)
				require.Len(t, failure.Attempts, 1, "%s: attempts", name)
				assert.Equal(t, classify.Verdict{Class: classify.Permanent, Origin: classify.Local, Reason: "request"}, failure.Attempts[0].Verdict, name)
				assert.Equal(t, breaker.Closed, d.Snapshot().Breaker, "%s: breaker", name)
			}
		}
	})
	t.Run("a policy that contradicts itself", func(t *testing.T) {
		_, err := httpclient.New(retry.Policy{Deadline: time.Second, AttemptTimeout: 2 * time.Second}, nil)
		assert.EqualError(t, err, "retry: bad policy: AttemptTimeout is 2s: allowed is at most Deadline, which is 1s")
		_, err = httpclient.New(retry.Policy{BaseDelay: 2 * time.Second, MaxDelay: time.Second}, nil)
		assert.ErrorContains(t, err, "BaseDelay is 2s")
		_, err = httpclient.New(retry.Policy{AttemptTimeout: -2, MaxAttempts: -1}, nil)
		assert.ErrorContains(t, err, "AttemptTimeout is -2ns")
		assert.ErrorContains(t, err, "MaxAttempts is -1")
	})
	t.Run("a server that answers before the body is there", func(t *testing.T) {
		// The upload goes on while the response is read, and ends with it.
		t.Parallel()
		for _, protocol := range protocols {
			s := newSite(t, protocol, func(w http.ResponseWriter, r *http.Request) {
				rc := http.NewResponseController(w)
				_ = rc.EnableFullDuplex() // HTTP/2 is it always
				w.WriteHeader(http.StatusAccepted)
				_ = rc.Flush()
			})
			pr, pw := io.Pipe()
			go pw.Write([]byte("x")) // net/http sends no head before this
			b := &closingPipe{watchBody(t, pr), pr}
			req, err := http.NewRequestWithContext(t.Context(), "POST", s.URL, b)
			require.NoError(t, err)
			resp, err := overBase(t, honoured(), s.base).RoundTrip(req)
			require.NoError(t, err)
			readAll(t, resp)
			<-b.closed
		}
	})
	t.Run("an attempt that times out while its body hangs", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) {
			pr, pw := io.Pipe()
			w := watchBody(t, pr)
			b := &closingPipe{watchedBody: w, pipe: pr}
			p := quick()
			p.AttemptTimeout = time.Second
			base := roundTripFunc(func(req *http.Request) (*http.Response, error) {
				// As net/http does: a goroutine of its own reads the body, and the
				// end of the context closes it.
				go io.Copy(io.Discard, req.Body)
				<-req.Context().Done()
				req.Body.Close()
				return nil, context.Cause(req.Context())
			})
			req, err := http.NewRequestWithContext(t.Context(), "PUT", "http://host.example/", b)
			require.NoError(t, err)
			_, err = overBase(t, p, base).RoundTrip(req)
			assert.ErrorIs(t, err, context.DeadlineExceeded)
			<-w.closed
			pw.Close()
		})
	})
}

// closingPipe is a body whose Close ends a read that hangs.
type closingPipe struct {
	*watchedBody
	pipe *io.PipeReader
}

func (c *closingPipe) Close() error {
	c.pipe.Close()
	return c.watchedBody.Close()
}

// 3. Exactly one of response and error is nil, always.
//
// B44: a final handler returned (nil, nil) when no response existed, and
// net/http replaced the real dial error by a generic complaint.
func TestH03ExactlyOne(t *testing.T) {
	t.Parallel()
	addr := closedPort(t)
	tr := overBase(t, quick(), fresh(t))
	for _, method := range []string{"GET", "POST", "PUT"} {
		req, err := http.NewRequestWithContext(t.Context(), method, "http://"+addr, nil)
		require.NoError(t, err)
		resp, err := tr.RoundTrip(req)
		assert.Nil(t, resp)
		require.Error(t, err)
		op, ok := errors.AsType[*net.OpError](err)
		require.True(t, ok, "%v holds no *net.OpError", err)
		assert.Equal(t, "dial", op.Op)
		failure, ok := errors.AsType[*retry.Error](err)
		require.True(t, ok)
		assert.Len(t, failure.Attempts, 3)
		assert.Equal(t, retry.NotApplied, failure.Outcome)
		assert.NotErrorIs(t, err, retry.ErrOutcomeUnknown)
	}
}

// 4. When attempts are used up on statuses, the last response is returned with a
// nil error and a readable, undrained body.
//
// B43: the caller only sees 'giving up after N attempts'; status and body are
// lost.
func TestH04LastResponse(t *testing.T) {
	t.Parallel()
	page := `{"code":"db"}` + strings.Repeat(" ", 128<<10)
	overProtocols(t, func(t *testing.T, protocol string) {
		var n atomic.Int64
		s := newSite(t, protocol, func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("X-Number", fmt.Sprint(n.Add(1)))
			w.WriteHeader(http.StatusServiceUnavailable)
			_, _ = io.WriteString(w, page)
		})
		req, err := http.NewRequestWithContext(t.Context(), "GET", s.URL, nil)
		require.NoError(t, err)
		resp, err := overBase(t, quick(), s.base).RoundTrip(req)
		require.NoError(t, err)
		assert.Equal(t, http.StatusServiceUnavailable, resp.StatusCode)
		assert.Equal(t, "3", resp.Header.Get("X-Number"))
		report := httpclient.ReportOf(resp)
		assert.ErrorIs(t, report.Stop, retry.ErrAttempts)
		assert.Len(t, report.Attempts, 3)
		if got := readAll(t, resp); got != page {
			t.Errorf("the last body has %d bytes, want %d", len(got), len(page))
		}
	})
}

// 5. The body of a 101 still implements io.Writer.
func TestH05UpgradedConnection(t *testing.T) {
	t.Parallel()
	s := newSite(t, http1, func(w http.ResponseWriter, r *http.Request) {
		c, buffered, err := w.(http.Hijacker).Hijack()
		if !assert.NoError(t, err) {
			return
		}
		defer c.Close()
		_, _ = io.WriteString(c, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\n")
		line, _ := buffered.ReadString('\n')
		_, _ = io.WriteString(c, strings.ToUpper(line))
	})
	for _, timeout := range []time.Duration{0, time.Minute} {
		req, err := http.NewRequestWithContext(t.Context(), "GET", s.URL, nil)
		require.NoError(t, err)
		req.Header.Set("Connection", "Upgrade")
		req.Header.Set("Upgrade", "echo")
		tr := overBase(t, quick(), s.base)
		tr.BodyIdleTimeout = timeout
		resp, err := tr.RoundTrip(req)
		require.NoError(t, err)
		require.Equal(t, http.StatusSwitchingProtocols, resp.StatusCode)
		rw, ok := resp.Body.(io.ReadWriteCloser)
		require.True(t, ok, "the body of a 101 is %T, want an io.ReadWriteCloser", resp.Body)
		_, err = io.WriteString(rw, "hello\n")
		require.NoError(t, err)
		line, err := bufio.NewReader(rw).ReadString('\n')
		require.NoError(t, err)
		assert.Equal(t, "HELLO\n", line)
		assert.NoError(t, httpclient.Check(resp))
		assert.Len(t, httpclient.ReportOf(resp).Attempts, 1)
		require.NoError(t, rw.Close())
	}
}

// 5. A half of it can be closed, as that of net/http's own: a reverse proxy says
// so that its client has said all.
func TestH05HalfOfAnUpgradedConnection(t *testing.T) {
	t.Parallel()
	s := newSite(t, http1, func(w http.ResponseWriter, r *http.Request) {
		c, buffered, err := w.(http.Hijacker).Hijack()
		if !assert.NoError(t, err) {
			return
		}
		defer c.Close()
		_, _ = io.WriteString(c, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\n")
		all, _ := io.ReadAll(buffered)
		_, _ = io.WriteString(c, strings.ToUpper(string(all)))
	})
	upgrade := func(base http.RoundTripper) io.ReadWriteCloser {
		req, err := http.NewRequestWithContext(t.Context(), "GET", s.URL, nil)
		require.NoError(t, err)
		req.Header.Set("Connection", "Upgrade")
		req.Header.Set("Upgrade", "echo")
		resp, err := overBase(t, quick(), base).RoundTrip(req)
		require.NoError(t, err)
		return resp.Body.(io.ReadWriteCloser)
	}
	rw := upgrade(s.base)
	defer rw.Close()
	_, err := io.WriteString(rw, "hello")
	require.NoError(t, err)
	require.NoError(t, rw.(interface{ CloseWrite() error }).CloseWrite())
	all, err := io.ReadAll(rw)
	require.NoError(t, err)
	assert.Equal(t, "HELLO", string(all))

	whole := upgrade(roundTripFunc(func(req *http.Request) (*http.Response, error) {
		resp := givenAnswer(req, http.StatusSwitchingProtocols, nil, "")
		resp.Body = struct{ io.ReadWriteCloser }{upgrade(s.base)}
		return resp, nil
	}))
	defer whole.Close()
	assert.ErrorIs(t, whole.(interface{ CloseWrite() error }).CloseWrite(), errors.ErrUnsupported)
}

// closer counts calls of CloseIdleConnections.
type closer struct {
	roundTripFunc
	n int
}

func (c *closer) CloseIdleConnections() { c.n++ }

// 6. CloseIdleConnections reaches the base.
func TestH06CloseIdleConnections(t *testing.T) {
	t.Parallel()
	base := &closer{}
	c := &http.Client{Transport: overBase(t, quick(), base)}
	c.CloseIdleConnections()
	assert.Equal(t, 1, base.n)
	(&http.Client{Transport: overBase(t, quick(), roundTripFunc(nil))}).CloseIdleConnections() // does nothing
}

// 7. Redirects, cookies and auth stay with http.Client; one RoundTrip never
// follows a 3xx.
func TestH07RedirectsStayAbove(t *testing.T) {
	t.Parallel()
	overProtocols(t, func(t *testing.T, protocol string) {
		var requests atomic.Int64
		s := newSite(t, protocol, func(w http.ResponseWriter, r *http.Request) {
			requests.Add(1)
			if r.URL.Path == "/end" {
				c, err := r.Cookie("seen")
				user, _, ok := r.BasicAuth()
				if err != nil || c.Value != "yes" || !ok || user != "u" {
					w.WriteHeader(http.StatusForbidden)
				}
				return
			}
			http.SetCookie(w, &http.Cookie{Name: "seen", Value: "yes"})
			code := http.StatusFound
			if r.URL.Path == "/308" {
				code = http.StatusPermanentRedirect
			}
			http.Redirect(w, r, "/end", code)
		})
		tr := overBase(t, quick(), s.base)
		for _, path := range []string{"/302", "/308"} {
			requests.Store(0)
			req, err := http.NewRequestWithContext(t.Context(), "GET", s.URL+path, nil)
			require.NoError(t, err)
			resp, err := tr.RoundTrip(req)
			require.NoError(t, err)
			readAll(t, resp)
			assert.Equal(t, "/end", resp.Header.Get("Location"))
			assert.EqualValues(t, 1, requests.Load(), "requests of a RoundTrip of %s", path)

			requests.Store(0)
			jar, err := cookiejar.New(nil)
			require.NoError(t, err)
			req.SetBasicAuth("u", "p")
			resp, err = (&http.Client{Transport: tr, Jar: jar}).Do(req)
			require.NoError(t, err)
			readAll(t, resp)
			assert.Equal(t, http.StatusOK, resp.StatusCode)
			assert.EqualValues(t, 2, requests.Load(), "requests of Client.Do of %s", path)
		}
	})
}

// 8. resp.Request stays as the base set it, so that the next hop finds this
// hop's intention.
//
// A base that sets none is helped; and a client with Timeout, which wraps the
// body of each response, loses no report.
func TestH08ResponseRequest(t *testing.T) {
	t.Parallel()
	s := newSite(t, http1, func(w http.ResponseWriter, r *http.Request) {})
	var set *http.Request
	tr := overBase(t, quick(), roundTripFunc(func(req *http.Request) (*http.Response, error) {
		resp, err := s.base.RoundTrip(req)
		if err == nil {
			set = resp.Request
		}
		return resp, err
	}))
	for _, method := range []string{"GET", "HEAD"} { // with a body, and without
		req, err := http.NewRequestWithContext(t.Context(), method, s.URL, nil)
		require.NoError(t, err)
		resp, err := tr.RoundTrip(req)
		require.NoError(t, err)
		assert.Same(t, set, resp.Request)
		assert.Len(t, httpclient.ReportOf(resp).Attempts, 1)
		readAll(t, resp)

		resp, err = (&http.Client{Transport: tr, Timeout: time.Minute}).Do(req)
		require.NoError(t, err)
		assert.Len(t, httpclient.ReportOf(resp).Attempts, 1, "ReportOf a response of a client with Timeout")
		readAll(t, resp)
	}

	bare := overBase(t, quick(), roundTripFunc(func(req *http.Request) (*http.Response, error) {
		return &http.Response{StatusCode: 200, Header: http.Header{}}, nil
	}))
	req, err := http.NewRequestWithContext(t.Context(), "GET", s.URL, nil)
	require.NoError(t, err)
	resp, err := bare.RoundTrip(req)
	require.NoError(t, err)
	require.NotNil(t, resp.Body)
	assert.Len(t, httpclient.ReportOf(resp).Attempts, 1)
	assert.Zero(t, httpclient.ReportOf(&http.Response{}), "ReportOf a response from elsewhere")
	assert.Zero(t, httpclient.ReportOf(nil))
}

// 9. One Transport serves 100 goroutines under -race. A nil Base is
// http.DefaultTransport read at call time.
//
// B86: the attempt count kept on the shared client gave parallel calls fewer
// retries. B135: call A's key is not seen by call B.
func TestH09Shared(t *testing.T) {
	var mu sync.Mutex
	tries := map[string]int{}
	s := newSite(t, http1, func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		mu.Lock()
		tries[r.URL.Path]++
		n := tries[r.URL.Path]
		mu.Unlock()
		if n < 3 {
			w.WriteHeader(http.StatusInternalServerError)
		}
		_, _ = w.Write(body)
	})
	s.base.MaxIdleConnsPerHost = 100
	p := honoured()
	c := &http.Client{Transport: overBase(t, p, s.base)}
	var wg sync.WaitGroup
	for i := range 100 {
		wg.Go(func() {
			body := fmt.Sprintf("body of %d", i)
			resp, err := c.Post(fmt.Sprintf("%s/%d", s.URL, i), "text/plain", strings.NewReader(body))
			if !assert.NoError(t, err) {
				return
			}
			got, err := io.ReadAll(resp.Body)
			resp.Body.Close()
			if err != nil || resp.StatusCode != 200 || string(got) != body {
				t.Errorf("Post(%d) = %s with %q, %v, want 200 with %q", i, resp.Status, got, err, body)
			}
		})
	}
	wg.Wait()

	before := http.DefaultTransport
	t.Cleanup(func() { http.DefaultTransport = before })
	used := 0
	c = &http.Client{Transport: overBase(t, p, nil)}
	http.DefaultTransport = roundTripFunc(func(req *http.Request) (*http.Response, error) {
		used++
		return &http.Response{StatusCode: 200, Header: http.Header{}, Body: http.NoBody, Request: req}, nil
	})
	resp, err := c.Get("http://host.example/")
	require.NoError(t, err)
	require.NoError(t, resp.Body.Close())
	assert.Equal(t, 1, used, "requests through http.DefaultTransport as it is at the time of the call")
}

// 10. Errors implement Timeout() truthfully and unwrap to the last attempt's
// error and the stop reason.
func TestH10Errors(t *testing.T) {
	t.Parallel()
	timeout := func(err error) bool {
		e, ok := errors.AsType[interface {
			error
			Timeout() bool
		}](err)
		return ok && e.Timeout()
	}
	t.Run("refused", func(t *testing.T) {
		t.Parallel()
		c := &http.Client{Transport: overBase(t, quick(), fresh(t))}
		_, err := c.Get("http://" + closedPort(t))
		assert.ErrorIs(t, err, retry.ErrAttempts)
		assert.False(t, timeout(err), "Timeout() of %v", err)
		_, ok := errors.AsType[*net.OpError](err)
		assert.True(t, ok, "%v holds no *net.OpError", err)
	})
	t.Run("out of time", func(t *testing.T) {
		t.Parallel()
		for name, change := range map[string]func(*retry.Policy){
			"of each attempt": func(p *retry.Policy) { p.AttemptTimeout = time.Second },
			"of the whole":    func(p *retry.Policy) { p.Deadline = time.Second },
		} {
			t.Run(name, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					p := quick()
					change(&p)
					start := time.Now()
					_, err := (&http.Client{Transport: overBase(t, p, roundTripFunc(hangs))}).Get("http://host.example/")
					assert.True(t, timeout(err), "Timeout() of %v", err)
					assert.ErrorIs(t, err, context.DeadlineExceeded)
					failure, ok := errors.AsType[*retry.Error](err)
					require.True(t, ok)
					want, attempts := retry.ErrAttempts, 3
					if name == "of the whole" {
						want, attempts = retry.ErrDeadline, 1
					}
					assert.ErrorIs(t, err, want)
					assert.Len(t, failure.Attempts, attempts)
					// 15 µs are for the waits in between.
					assert.InDelta(t, time.Duration(attempts)*time.Second, time.Since(start), float64(20*time.Microsecond))
				})
			})
		}
	})
	t.Run("of the caller", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) {
			cause := errors.New("the user left")
			ctx, cancel := context.WithCancelCause(t.Context())
			go func() {
				time.Sleep(time.Second)
				cancel(cause)
			}()
			req, err := http.NewRequestWithContext(ctx, "POST", "http://host.example/", strings.NewReader("x"))
			require.NoError(t, err)
			_, err = (&http.Client{Transport: overBase(t, quick(), roundTripFunc(hangs))}).Do(req)
			assert.False(t, timeout(err), "Timeout() of %v", err)
			assert.ErrorIs(t, err, context.Canceled)
			assert.ErrorIs(t, err, cause)
			assert.ErrorIs(t, err, retry.ErrOutcomeUnknown, "a write that may have been sent")
		})
	})
}

// hangs is a base that answers when its context has ended.
func hangs(req *http.Request) (*http.Response, error) {
	if req.Body != nil {
		defer req.Body.Close()
	}
	<-req.Context().Done()
	return nil, req.Context().Err()
}

// 11. HEAD, 204, 304 and 1xx are not taken for truncated bodies; http.NoBody and
// nil behave alike (no chunking, length 0, repeatable).
//
// B25 (a): one client refused to retry bodiless GETs as 'unreplayable'.
func TestH11NoBody(t *testing.T) {
	t.Parallel()
	overProtocols(t, func(t *testing.T, protocol string) {
		var requests atomic.Int64
		s := newSite(t, protocol, func(w http.ResponseWriter, r *http.Request) {
			if n, err := io.Copy(io.Discard, r.Body); n != 0 || err != nil || r.ContentLength != 0 || len(r.TransferEncoding) > 0 {
				t.Errorf("%s %s came with %d bytes (%v), length %d, encoding %q, want none", r.Method, r.URL, n, err, r.ContentLength, r.TransferEncoding)
			}
			if requests.Add(1)%2 == 1 {
				w.Header().Set("Retry-After-Ms", "1")
				w.WriteHeader(http.StatusServiceUnavailable)
				return
			}
			switch r.URL.Path {
			case "/204":
				w.WriteHeader(http.StatusNoContent)
			case "/304":
				w.WriteHeader(http.StatusNotModified)
			case "/103":
				w.Header().Set("Link", "</x>; rel=preload")
				w.WriteHeader(http.StatusEarlyHints)
				_, _ = io.WriteString(w, "after hints")
			default:
				w.Header().Set("Content-Length", "1000")
			}
		})
		c := &http.Client{Transport: overBase(t, steady(), s.base)}
		for _, row := range []struct {
			method, path string
			status       int
			body         string
		}{
			{"HEAD", "/", 200, ""},
			{"GET", "/204", 204, ""},
			{"GET", "/304", 304, ""},
			{"GET", "/103", 200, "after hints"},
			{"POST", "/204", 204, ""},
			{"PUT", "/204", 204, ""},
			{"DELETE", "/204", 204, ""},
		} {
			for name, body := range map[string]io.Reader{"nil": nil, "NoBody": http.NoBody} {
				requests.Store(0)
				req, err := http.NewRequestWithContext(t.Context(), row.method, s.URL+row.path, body)
				require.NoError(t, err)
				if name == "NoBody" {
					req.Body, req.GetBody = http.NoBody, nil
				}
				resp, err := c.Do(req)
				require.NoError(t, err, "%s %s with %s", row.method, row.path, name)
				assert.Equal(t, row.status, resp.StatusCode)
				assert.NoError(t, httpclient.Check(resp))
				assert.Equal(t, row.body, readAll(t, resp))
				assert.EqualValues(t, 2, requests.Load(), "requests of %s %s with %s", row.method, row.path, name)
				report := httpclient.ReportOf(resp)
				require.Len(t, report.Attempts, 2)
				assert.NoError(t, report.Stop)
				assert.Equal(t, retry.Applied, report.Outcome)
			}
		}
	})
}

// What a request says of a body that it does not have is sent as with http.NoBody.
func TestSaysMoreThanItHas(t *testing.T) {
	t.Parallel()
	overProtocols(t, func(t *testing.T, protocol string) {
		s := newSite(t, protocol, func(w http.ResponseWriter, r *http.Request) {
			n, err := io.Copy(io.Discard, r.Body)
			fmt.Fprintf(w, "%d bytes, %v", n, err)
		})
		c := &http.Client{Transport: overBase(t, steady(), s.base)}
		for name, change := range map[string]func(*http.Request){
			"length":   func(r *http.Request) { r.ContentLength = 5 },
			"encoding": func(r *http.Request) { r.TransferEncoding = []string{"chunked"} },
			"expect":   func(r *http.Request) { r.Header.Set("Expect", "100-continue") },
			"nothing":  func(*http.Request) {},
		} {
			for _, method := range []string{"GET", "PUT"} {
				req, err := http.NewRequestWithContext(t.Context(), method, s.URL, nil)
				require.NoError(t, err)
				change(req)
				resp, err := c.Do(req)
				require.NoError(t, err, "%s, %s", method, name)
				assert.Equal(t, "0 bytes, <nil>", readAll(t, resp), "%s, %s", method, name)
			}
		}
	})
}

// B45: a cancel that runs as soon as RoundTrip returns kills the connection
// before the caller reads the body; short bodies already in the buffer hide it.
//
// B38: bodies of failed attempts are never closed: each leaks a connection.
func TestResponsesHandedOver(t *testing.T) {
	t.Parallel()
	overProtocols(t, func(t *testing.T, protocol string) {
		var requests atomic.Int64
		next := make(chan struct{})
		s := newSite(t, protocol, func(w http.ResponseWriter, r *http.Request) {
			if requests.Add(1) < 3 {
				w.WriteHeader(http.StatusServiceUnavailable)
				return
			}
			for range 5 {
				_, _ = w.Write(make([]byte, 1<<10))
				w.(http.Flusher).Flush()
				<-next
			}
		})
		var mu sync.Mutex
		var closes []*countedBody
		base := roundTripFunc(func(req *http.Request) (*http.Response, error) {
			mu.Lock()
			defer mu.Unlock()
			for i, b := range closes {
				assert.EqualValues(t, 1, b.n.Load(), "times that body %d was closed before the next attempt", i+1)
			}
			resp, err := s.base.RoundTrip(req)
			if err == nil {
				b := &countedBody{ReadCloser: resp.Body}
				closes = append(closes, b)
				resp.Body = b
			}
			return resp, err
		})
		resp, err := (&http.Client{Transport: overBase(t, quick(), base)}).Get(s.URL)
		require.NoError(t, err)
		require.Len(t, closes, 3)
		assert.Zero(t, closes[2].n.Load(), "times that the last body was closed before its caller did")
		buf := make([]byte, 1<<10)
		for range 5 {
			_, err := io.ReadFull(resp.Body, buf)
			require.NoError(t, err)
			next <- struct{}{}
		}
		n, err := resp.Body.Read(buf)
		assert.Zero(t, n)
		assert.Equal(t, io.EOF, err)
		require.NoError(t, resp.Body.Close())
	})
}

type countedBody struct {
	io.ReadCloser
	n atomic.Int64
}

func (b *countedBody) Close() error {
	b.n.Add(1)
	return b.ReadCloser.Close()
}

// B48: first bytes reached the consumer, the stream broke, the retry restarted
// from zero: the reader saw the first byte twice. Once bytes are handed over,
// nothing starts again. (B46 and B49: there are no races of copies and no ranges
// that are resumed.)
func TestBrokenBodyIsNotRestarted(t *testing.T) {
	t.Parallel()
	overProtocols(t, func(t *testing.T, protocol string) {
		var requests atomic.Int64
		taken := make(chan struct{})
		s := newSite(t, protocol, func(w http.ResponseWriter, r *http.Request) {
			requests.Add(1)
			w.Header().Set("Content-Length", "11")
			_, _ = io.WriteString(w, "H")
			w.(http.Flusher).Flush()
			<-taken
			cut(r)
		})
		resp, err := (&http.Client{Transport: overBase(t, quick(), s.base)}).Get(s.URL)
		require.NoError(t, err)
		first := make([]byte, 1)
		_, err = io.ReadFull(resp.Body, first)
		require.NoError(t, err)
		close(taken)
		rest, err := io.ReadAll(resp.Body)
		assert.Equal(t, "H", string(first)+string(rest))
		assert.Error(t, err)
		assert.EqualValues(t, 1, requests.Load())
		require.NoError(t, resp.Body.Close())
	})
}

// A failed response as an error says why there was no further attempt, as an error
// of the call would.
func TestCheckMatchesTheStop(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		status int
		header http.Header
		stop   error
	}{
		{500, nil, retry.ErrAttempts},
		{404, nil, retry.ErrPermanent},
		{503, http.Header{"Retry-After": {"3600"}}, retry.ErrPushback},
		{503, http.Header{"Retry-After": {"29"}}, retry.ErrDeadline},
	} {
		p := quick()
		p.Deadline, p.AttemptTimeout = 5*time.Second, time.Second
		rt := overBase(t, p, roundTrip(func(req *http.Request) (*http.Response, error) {
			return givenAnswer(req, c.status, c.header, "no"), nil
		}))
		resp, err := rt.RoundTrip(call(t, t.Context(), "GET", "http://peer/", ""))
		require.NoError(t, err)
		err = httpclient.Check(resp)
		for _, stop := range []error{retry.ErrAttempts, retry.ErrPermanent, retry.ErrPushback, retry.ErrDeadline} {
			assert.Equal(t, stop == c.stop, errors.Is(err, stop), "%d: Check = %v, Is(%v)", c.status, err, stop)
		}
	}
}

// B43, for an operation that reads the body itself: a typed error with status
// and a bounded copy of the body.
func TestCheckCopiesBody(t *testing.T) {
	t.Parallel()
	s := newSite(t, http1, func(w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(http.StatusInternalServerError)
		_, _ = io.WriteString(w, `{"code":"db"}`)
		if r.Method == "GET" {
			_, _ = w.Write(make([]byte, 8<<10))
		}
	})
	c := &http.Client{Transport: overBase(t, quick(), s.base)}
	resp, err := c.Get(s.URL)
	require.NoError(t, err)
	err = httpclient.Check(resp)
	status, ok := errors.AsType[*httpclient.StatusError](err)
	require.True(t, ok)
	assert.Equal(t, 500, status.StatusCode)
	assert.True(t, strings.HasPrefix(string(status.Body), `{"code":"db"}`))
	assert.Len(t, status.Body, 4<<10)
	assert.True(t, status.Truncated)
	assert.NotErrorIs(t, err, retry.ErrOutcomeUnknown, "a read is never of unknown outcome")

	resp, err = c.Post(s.URL, "text/plain", strings.NewReader("x"))
	require.NoError(t, err)
	err = httpclient.Check(resp)
	require.ErrorIs(t, err, retry.ErrOutcomeUnknown)
	status, ok = errors.AsType[*httpclient.StatusError](err)
	require.True(t, ok)
	assert.Equal(t, `{"code":"db"}`, string(status.Body))
	assert.False(t, status.Truncated)
	assert.Equal(t, classify.Ambiguous, status.Verdict().Class)
}
