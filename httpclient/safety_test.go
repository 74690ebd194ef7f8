package httpclient_test

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/reintento/reintento/classify"
	"github.com/reintento/reintento/httpclient"
	"github.com/reintento/reintento/retry"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// overConnections runs a test over each protocol, with a fresh connection and
// with one that has been used before.
func overConnections(t *testing.T, test func(t *testing.T, protocol string, reused bool)) {
	overProtocols(t, func(t *testing.T, protocol string) {
		for name, reused := range map[string]bool{"fresh": false, "reused": true} {
			t.Run(name, func(t *testing.T) { test(t, protocol, reused) })
		}
	})
}

// cutting is a bank whose first answer is lost: the connection is cut when the
// request has been processed.
func cutting(t *testing.T, b *bank, protocol string, reused bool) *site {
	s := newSite(t, protocol, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/warm" {
			return
		}
		answer, n := b.act(r)
		if n == 1 {
			cut(r)
			return
		}
		_, _ = io.WriteString(w, answer)
	})
	if reused {
		s.warm(t)
		t.Cleanup(func() {
			assert.LessOrEqual(t, s.connections.Load(), int64(2), "connections: the first request goes over the warm one")
		})
	}
	return s
}

// failureOf returns the error of a call that must have failed.
func failureOf(t *testing.T, err error) *retry.Error {
	t.Helper()
	failure, ok := errors.AsType[*retry.Error](err)
	require.True(t, ok, "%v is no *retry.Error", err)
	return failure
}

// The bodies of a write: that of a payment, and none.
var payments = map[string]func() io.Reader{
	"with body":    func() io.Reader { return strings.NewReader("amount=12") },
	"without body": func() io.Reader { return nil },
}

// 18. POST without a trusted key: a failure after the request may have been
// written gives exactly one effect and an error for which
// errors.Is(err, retry.ErrOutcomeUnknown).
//
// B57 (b): EOF on a reused connection is ambiguous for a write: the server may
// have processed the POST before closing. B141: network errors and 5xx are
// repeated whatever the method.
func TestH18OneEffect(t *testing.T) {
	t.Parallel()
	t.Run("connection cut", func(t *testing.T) {
		overConnections(t, func(t *testing.T, protocol string, reused bool) {
			for name, body := range payments {
				var b bank
				s := cutting(t, &b, protocol, reused)
				_, err := (&http.Client{Transport: overBase(t, steady(), s.base)}).Post(s.URL, "text/plain", body())
				assert.ErrorIs(t, err, retry.ErrOutcomeUnknown, name)
				failure := failureOf(t, err)
				assert.Equal(t, retry.Unknown, failure.Outcome)
				require.Len(t, failure.Attempts, 1)
				assert.Equal(t, classify.Ambiguous, failure.Attempts[0].Verdict.Class)
				assert.Equal(t, classify.Remote, failure.Attempts[0].Verdict.Origin)
				keys, _, effects := b.seen()
				require.Len(t, keys, 1, "requests that the server saw, %s", name)
				assert.Equal(t, 1, effects, "effects, %s", name)
				assert.Equal(t, failure.Intention.Key, keys[0], "the error tells the key that was sent")
				assert.NotEmpty(t, keys[0])
			}
		})
	})
	t.Run("answers that say nothing", func(t *testing.T) {
		t.Parallel()
		for name, answer := range map[string]func(net.Conn, *http.Request, int) bool{
			"none":              says(""),
			"a reset":           func(c net.Conn, _ *http.Request, _ int) bool { reset(c); return false },
			"half a head":       says("HTTP/1.1 2"),
			"half a header":     says("HTTP/1.1 200 OK\r\nContent-Le"),
			"no HTTP":           says("SPAM SPAM SPAM\r\n\r\n"),
			"a bad length":      says("HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n"),
			"an unknown coding": says("HTTP/1.1 200 OK\r\nTransfer-Encoding: spam\r\n\r\n"),
		} {
			for _, method := range []string{"POST", "PATCH", "SPAM"} {
				p := &onePeer{answer: answer}
				url := "http://" + serve(t, p.serve)
				req, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader("x"))
				require.NoError(t, err)
				_, err = (&http.Client{Transport: overBase(t, quick(), fresh(t))}).Do(req)
				assert.ErrorIs(t, err, retry.ErrOutcomeUnknown, "%s answered with %s", method, name)
				assert.EqualValues(t, 1, p.requests.Load(), "requests of %s answered with %s", method, name)
			}
		}
	})
	t.Run("streams that end", func(t *testing.T) {
		t.Parallel()
		for name, answer := range map[string]func(f *framer, stream uint32, n int){
			"INTERNAL_ERROR":          func(f *framer, stream uint32, _ int) { f.resetStream(stream, 2) },
			"CANCEL":                  func(f *framer, stream uint32, _ int) { f.resetStream(stream, 8) },
			"PROTOCOL_ERROR":          func(f *framer, stream uint32, _ int) { f.resetStream(stream, 1) },
			"GOAWAY below the stream": func(f *framer, stream uint32, _ int) { f.goAway(stream, 0); f.Close() },
			"the end":                 func(f *framer, _ uint32, _ int) { f.Close() },
		} {
			for kind, body := range payments {
				p := &twoPeer{answer: answer}
				base, url := serveTwo(t, p)
				_, err := (&http.Client{Transport: overBase(t, quick(), base)}).Post(url, "text/plain", body())
				assert.ErrorIs(t, err, retry.ErrOutcomeUnknown, "POST %s answered with %s", kind, name)
				assert.EqualValues(t, 1, p.requests.Load(), "requests of a POST %s answered with %s", kind, name)
			}
		}
	})
	// B68: 502 and 504 are ambiguous. (429 is turned away. semantics: 408 says
	// that the request was incomplete, but services use it for their own time.)
	t.Run("statuses that say nothing", func(t *testing.T) {
		overProtocols(t, func(t *testing.T, protocol string) {
			for _, status := range []int{408, 500, 502, 503, 504} {
				var b bank
				s := newSite(t, protocol, func(w http.ResponseWriter, r *http.Request) {
					b.act(r)
					w.WriteHeader(status)
				})
				resp, err := (&http.Client{Transport: overBase(t, steady(), s.base)}).Post(s.URL, "text/plain", strings.NewReader("x"))
				require.NoError(t, err)
				report := httpclient.ReportOf(resp)
				assert.Equal(t, retry.Unknown, report.Outcome, "outcome after %d", status)
				assert.ErrorIs(t, report.Stop, retry.ErrOutcomeUnknown)
				assert.ErrorIs(t, httpclient.Check(resp), retry.ErrOutcomeUnknown)
				_, _, effects := b.seen()
				assert.Equal(t, 1, effects, "effects of a POST answered %d", status)
			}
		})
	})
	t.Run("a read that is declared unsafe", func(t *testing.T) {
		// net/http would send a GET again on its own.
		overConnections(t, func(t *testing.T, protocol string, reused bool) {
			var b bank
			s := cutting(t, &b, protocol, reused)
			ctx := retry.WithSafety(t.Context(), retry.Unsafe)
			req, err := http.NewRequestWithContext(ctx, "GET", s.URL, nil)
			require.NoError(t, err)
			_, err = (&http.Client{Transport: overBase(t, steady(), s.base)}).Do(req)
			assert.ErrorIs(t, err, retry.ErrOutcomeUnknown)
			assert.Equal(t, retry.Unknown, failureOf(t, err).Outcome)
			_, _, effects := b.seen()
			assert.Equal(t, 1, effects)
		})
	})
}

// 19. POST without a key whose connection failed before writing (refused, DNS,
// TLS EOF, GOAWAY above, REFUSED_STREAM), and one answered 429 or 503 with a
// hint, is repeated.
func TestH19NotSent(t *testing.T) {
	t.Parallel()
	noKeys := steady()
	noKeys.Key.Methods = []string{}
	post := func(t *testing.T, base http.RoundTripper, url string) {
		t.Helper()
		resp, err := (&http.Client{Transport: overBase(t, noKeys, base)}).Post(url, "text/plain", strings.NewReader("hello"))
		require.NoError(t, err)
		assert.Equal(t, "done", readAll(t, resp))
		report := httpclient.ReportOf(resp)
		assert.Equal(t, retry.Applied, report.Outcome)
		require.Len(t, report.Attempts, 2)
		assert.Equal(t, classify.Retryable, report.Attempts[0].Verdict.Class)
		assert.Empty(t, report.Intention.Key)
	}
	done := func(t *testing.T, protocol string) (*site, *bank) {
		var b bank
		return newSite(t, protocol, func(w http.ResponseWriter, r *http.Request) {
			b.act(r)
			_, _ = io.WriteString(w, "done")
		}), &b
	}
	t.Run("before the connection", func(t *testing.T) {
		overProtocols(t, func(t *testing.T, protocol string) {
			refuses := closedPort(t)
			hangsUp := serve(t, func(net.Conn, int) {})
			var dialer net.Dialer
			first := map[string]func(ctx context.Context, addr string) (net.Conn, error){
				"refused": func(ctx context.Context, _ string) (net.Conn, error) { return dialer.DialContext(ctx, "tcp", refuses) },
				"DNS": func(ctx context.Context, _ string) (net.Conn, error) {
					broken := &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
						return dialer.DialContext(ctx, "tcp", hangsUp)
					}}
					return (&net.Dialer{Resolver: broken}).DialContext(ctx, "tcp", "host.example.:80")
				},
			}
			if protocol == http2 {
				first["TLS EOF"] = func(ctx context.Context, _ string) (net.Conn, error) { return dialer.DialContext(ctx, "tcp", hangsUp) }
			}
			for name, fault := range first {
				t.Run(name, func(t *testing.T) {
					s, b := done(t, protocol)
					dials := 0
					s.base.DialContext = func(ctx context.Context, _, addr string) (net.Conn, error) {
						if dials++; dials == 1 {
							return fault(ctx, addr)
						}
						return dialer.DialContext(ctx, "tcp", s.Listener.Addr().String())
					}
					post(t, s.base, s.URL)
					_, bodies, effects := b.seen()
					assert.Equal(t, []string{"hello"}, bodies)
					assert.Equal(t, 1, effects)
				})
			}
		})
	})
	t.Run("streams that are refused", func(t *testing.T) {
		t.Parallel()
		for name, refuse := range map[string]func(f *framer, stream uint32){
			"REFUSED_STREAM":          func(f *framer, stream uint32) { f.resetStream(stream, 7) },
			"GOAWAY above the stream": func(f *framer, stream uint32) { f.goAway(0, 0); f.Close() },
		} {
			t.Run(name, func(t *testing.T) {
				p := &twoPeer{}
				p.answer = func(f *framer, stream uint32, n int) {
					if n == 1 {
						refuse(f, stream)
						return
					}
					f.answer(stream, "done", true)
				}
				base, url := serveTwo(t, p)
				post(t, base, url)
				assert.EqualValues(t, 2, p.requests.Load())
			})
		}
	})
	t.Run("turned away", func(t *testing.T) {
		overProtocols(t, func(t *testing.T, protocol string) {
			for _, status := range []int{http.StatusTooManyRequests, http.StatusServiceUnavailable} {
				var requests atomic.Int64
				s := newSite(t, protocol, func(w http.ResponseWriter, r *http.Request) {
					if requests.Add(1) == 1 {
						w.Header().Set("Retry-After-Ms", "1")
						w.WriteHeader(status)
						return
					}
					_, _ = io.WriteString(w, "done")
				})
				p := noKeys
				p.PrivatePushback = true
				resp, err := (&http.Client{Transport: overBase(t, p, s.base)}).Post(s.URL, "text/plain", strings.NewReader("hello"))
				require.NoError(t, err)
				assert.Equal(t, "done", readAll(t, resp), "a POST answered %d with a hint", status)
				assert.EqualValues(t, 2, requests.Load())
			}
		})
	})
}

// 20. An attempt timeout before the connection was obtained is "not sent"; after
// it, ambiguous for a write.
func TestH20AttemptTimeout(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var b bank
		var quickly atomic.Bool
		base := inBubble(t, func(w http.ResponseWriter, r *http.Request) {
			b.act(r)
			if !quickly.Load() {
				<-r.Context().Done()
			}
		})
		p := quick()
		p.AttemptTimeout = time.Second
		dial := base.DialContext
		var dials atomic.Int64
		base.DialContext = func(ctx context.Context, network, addr string) (net.Conn, error) {
			if dials.Add(1) == 1 {
				<-ctx.Done()
				return nil, ctx.Err()
			}
			return dial(ctx, network, addr)
		}
		start := time.Now()
		_, err := (&http.Client{Transport: overBase(t, p, base)}).Post("http://host.example", "text/plain", strings.NewReader("x"))
		assert.ErrorIs(t, err, retry.ErrOutcomeUnknown)
		assert.ErrorIs(t, err, context.DeadlineExceeded)
		failure := failureOf(t, err)
		require.Len(t, failure.Attempts, 2)
		for i, want := range []classify.Class{classify.Retryable, classify.Ambiguous} {
			v := failure.Attempts[i].Verdict
			assert.Equal(t, want, v.Class, "class of attempt %d", i+1)
			assert.Equal(t, "timeout", v.Reason)
			assert.Equal(t, classify.Remote, v.Origin)
			assert.Equal(t, time.Second, failure.Attempts[i].Duration)
		}
		assert.Equal(t, 2*time.Second, time.Since(start).Round(time.Millisecond))
		_, _, effects := b.seen()
		assert.Equal(t, 1, effects)

		// A read is repeated after both.
		quickly.Store(true)
		dials.Store(0)
		base.CloseIdleConnections()
		resp, err := (&http.Client{Transport: overBase(t, p, base)}).Get("http://host.example")
		require.NoError(t, err)
		readAll(t, resp)
		assert.Len(t, httpclient.ReportOf(resp).Attempts, 2)
	})
}

// 21. With a base that fires no httptrace hooks, a failed write is ambiguous.
func TestH21NoHooks(t *testing.T) {
	t.Parallel()
	real := fresh(t)
	for name, base := range map[string]roundTripFunc{
		"a function": func(req *http.Request) (*http.Response, error) {
			req.Body.Close()
			return nil, &net.OpError{Op: "dial", Net: "tcp", Err: syscall.ECONNREFUSED}
		},
		"net/http behind another context": func(req *http.Request) (*http.Response, error) {
			return real.RoundTrip(req.WithContext(context.Background()))
		},
	} {
		url := "http://" + closedPort(t)
		_, err := (&http.Client{Transport: overBase(t, quick(), base)}).Post(url, "text/plain", strings.NewReader("x"))
		assert.ErrorIs(t, err, retry.ErrOutcomeUnknown, name)
		assert.ErrorIs(t, err, syscall.ECONNREFUSED, name)
		assert.Len(t, failureOf(t, err).Attempts, 1, name)

		_, err = (&http.Client{Transport: overBase(t, quick(), base)}).Get(url)
		assert.NotErrorIs(t, err, retry.ErrOutcomeUnknown, name)
		assert.Len(t, failureOf(t, err).Attempts, 3, name)
	}
	// With the hooks the same failure is proved not sent.
	_, err := (&http.Client{Transport: overBase(t, quick(), real)}).Post("http://"+closedPort(t), "text/plain", strings.NewReader("x"))
	assert.NotErrorIs(t, err, retry.ErrOutcomeUnknown)
	assert.Len(t, failureOf(t, err).Attempts, 3)
}

// 22. The same POST with a trusted key is repeated with the same key and has one
// effect on a server that honours keys; the connection cut after processing and
// before the answer is the central test: keyed, there is one effect and the
// caller gets the answer of the first; unsafe, one effect and ErrOutcomeUnknown;
// idempotent, it is repeated.
//
// B57 (a): with a key, the same key is sent again.
func TestH22AnswerLost(t *testing.T) {
	t.Parallel()
	ways := map[string]struct {
		policy retry.Policy
		change func(*http.Request)
	}{
		"the policy trusts keys":             {policy: honoured()},
		"the caller's header":                {policy: steady(), change: func(req *http.Request) { req.Header.Set("Idempotency-Key", "own-key") }},
		"the caller's header, small letters": {policy: steady(), change: func(req *http.Request) { req.Header["idempotency-key"] = []string{"own-key"} }},
		"the caller's intention": {policy: steady(), change: func(req *http.Request) {
			*req = *req.WithContext(retry.WithIntention(req.Context(), retry.Intention{Key: "own-key"}))
		}},
		"declared for the request": {policy: steady(), change: func(req *http.Request) {
			*req = *req.WithContext(retry.WithSafety(req.Context(), retry.Keyed))
		}},
	}
	overConnections(t, func(t *testing.T, protocol string, reused bool) {
		for kind, body := range payments {
			for name, way := range ways {
				t.Run("keyed/"+name+"/"+kind, func(t *testing.T) {
					var b bank
					s := cutting(t, &b, protocol, reused)
					req, err := http.NewRequestWithContext(t.Context(), "POST", s.URL, body())
					require.NoError(t, err)
					if way.change != nil {
						way.change(req)
					}
					resp, err := (&http.Client{Transport: overBase(t, way.policy, s.base)}).Do(req)
					require.NoError(t, err)
					assert.Equal(t, "receipt 1", readAll(t, resp), "the answer of the first attempt")
					keys, bodies, effects := b.seen()
					assert.Equal(t, 1, effects)
					require.Len(t, keys, 2, "requests that the server saw")
					assert.Equal(t, keys[0], keys[1])
					assert.Equal(t, bodies[0], bodies[1])
					report := httpclient.ReportOf(resp)
					assert.Equal(t, retry.Applied, report.Outcome)
					assert.Equal(t, keys[0], report.Intention.Key)
					assert.Len(t, report.Attempts, 2)
					assert.Zero(t, report.Resends)
					assert.NoError(t, report.Stop)
				})
			}
			t.Run("unsafe/"+kind, func(t *testing.T) {
				var b bank
				s := cutting(t, &b, protocol, reused)
				_, err := (&http.Client{Transport: overBase(t, steady(), s.base)}).Post(s.URL, "text/plain", body())
				assert.ErrorIs(t, err, retry.ErrOutcomeUnknown)
				keys, _, effects := b.seen()
				assert.Equal(t, 1, effects)
				assert.Len(t, keys, 1, "requests that the server saw")
			})
			for _, method := range []string{"PUT", "DELETE", "POST"} {
				t.Run("idempotent/"+method+"/"+kind, func(t *testing.T) {
					var b bank
					s := cutting(t, &b, protocol, reused)
					ctx := t.Context()
					if method == "POST" {
						ctx = retry.WithSafety(ctx, retry.Idempotent)
					}
					req, err := http.NewRequestWithContext(ctx, method, s.URL, body())
					require.NoError(t, err)
					resp, err := (&http.Client{Transport: overBase(t, steady(), s.base)}).Do(req)
					require.NoError(t, err)
					readAll(t, resp)
					keys, bodies, _ := b.seen()
					require.Len(t, keys, 2, "requests that the server saw")
					assert.Equal(t, bodies[0], bodies[1])
					assert.Len(t, httpclient.ReportOf(resp).Attempts, 2)
					assert.Equal(t, retry.Applied, httpclient.ReportOf(resp).Outcome)
				})
			}
		}
		for _, method := range []string{"GET", "HEAD", "OPTIONS", "QUERY"} {
			t.Run("read/"+method, func(t *testing.T) {
				var b bank
				s := cutting(t, &b, protocol, reused)
				req, err := http.NewRequestWithContext(t.Context(), method, s.URL, nil)
				require.NoError(t, err)
				resp, err := (&http.Client{Transport: overBase(t, steady(), s.base)}).Do(req)
				require.NoError(t, err)
				readAll(t, resp)
				keys, _, _ := b.seen()
				assert.Equal(t, []string{"", ""}, keys, "a read carries no key")
			})
		}
	})
}

// 23. For S and N, a later 404, 409, 412 after an ambiguous attempt is reported
// as outcome unknown; as a response it comes back with nil error and
// ReportOf(resp).Outcome says unknown.
//
// B72: attempt 1 deleted (or created) the thing but the answer was lost; attempt
// 2 gets 404 (or already exists) and the caller is told that it failed.
func TestH23Stickiness(t *testing.T) {
	t.Parallel()
	overProtocols(t, func(t *testing.T, protocol string) {
		for _, row := range []struct {
			method  string
			status  int
			keyed   bool
			header  string
			outcome retry.Outcome
		}{
			{method: "DELETE", status: 404, outcome: retry.Unknown},
			{method: "DELETE", status: 410, outcome: retry.Unknown},
			{method: "PUT", status: 409, outcome: retry.Unknown},
			{method: "PUT", status: 412, outcome: retry.Unknown},
			{method: "PUT", status: 429, outcome: retry.Unknown},
			{method: "GET", status: 404, outcome: retry.NotApplied},

			// To a trusted key these speak for the whole intention.
			{method: "POST", status: 404, keyed: true, outcome: retry.NotApplied},
			{method: "POST", status: 422, keyed: true, outcome: retry.NotApplied},
			{method: "POST", status: 303, keyed: true, outcome: retry.Applied},
			{method: "POST", status: 402, keyed: true, header: "Idempotent-Replayed", outcome: retry.NotApplied},
			{method: "POST", status: 500, keyed: true, header: "Idempotent-Replayed", outcome: retry.Unknown},
			// These are given before the key store is asked.
			{method: "POST", status: 401, keyed: true, outcome: retry.Unknown},
			{method: "POST", status: 409, keyed: true, outcome: retry.Unknown},
			{method: "POST", status: 412, keyed: true, outcome: retry.Unknown},
			{method: "POST", status: 429, keyed: true, outcome: retry.Unknown},
		} {
			var requests atomic.Int64
			s := newSite(t, protocol, func(w http.ResponseWriter, r *http.Request) {
				_, _ = io.Copy(io.Discard, r.Body)
				if requests.Add(1) == 1 {
					cut(r)
					return
				}
				if row.header != "" {
					w.Header().Set(row.header, "true")
				}
				w.WriteHeader(row.status)
				_, _ = io.WriteString(w, "the answer")
			})
			p := steady()
			p.Key.Honored = row.keyed
			req, err := http.NewRequestWithContext(t.Context(), row.method, s.URL, nil)
			require.NoError(t, err)
			resp, err := (&http.Client{Transport: overBase(t, p, s.base)}).Do(req)
			require.NoError(t, err)
			assert.Equal(t, row.status, resp.StatusCode)
			report := httpclient.ReportOf(resp)
			assert.Equal(t, row.outcome, report.Outcome, "outcome of a %s answered %d %s after a lost answer", row.method, row.status, row.header)
			assert.GreaterOrEqual(t, len(report.Attempts), 2)
			err = httpclient.Check(resp)
			require.Error(t, err)
			assert.Equal(t, row.outcome == retry.Unknown, errors.Is(err, retry.ErrOutcomeUnknown), "ErrOutcomeUnknown of %v", err)
		}
	})
	t.Run("a write without key, repeated by its caller's word", func(t *testing.T) {
		// An operation that is declared idempotent creates something by a POST.
		t.Parallel()
		var requests atomic.Int64
		s := newSite(t, http1, func(w http.ResponseWriter, r *http.Request) {
			if requests.Add(1) == 1 {
				cut(r)
				return
			}
			w.WriteHeader(http.StatusConflict)
		})
		d, err := retry.NewDestination("shop", quick(), nil)
		require.NoError(t, err)
		c := &http.Client{Transport: overBase(t, quick(), s.base)}
		err = d.Do(t.Context(), retry.Idempotent, func(ctx context.Context) error {
			req, err := http.NewRequestWithContext(ctx, "POST", s.URL, nil)
			if err != nil {
				return err
			}
			resp, err := c.Do(req)
			if err != nil {
				return err
			}
			return httpclient.Check(resp)
		})
		assert.ErrorIs(t, err, retry.ErrOutcomeUnknown)
		assert.EqualValues(t, 2, requests.Load())
		status, ok := errors.AsType[*httpclient.StatusError](err)
		require.True(t, ok)
		assert.Equal(t, http.StatusConflict, status.StatusCode)
	})
}

// The hooks of the attempt tell what an observer is told: one connection for a
// request on a warm one, and that it was in use before.
func TestReusedConnectionIsSeen(t *testing.T) {
	t.Parallel()
	overProtocols(t, func(t *testing.T, protocol string) {
		s := newSite(t, protocol, func(http.ResponseWriter, *http.Request) {})
		s.warm(t)
		reused := false
		ctx := httptrace.WithClientTrace(t.Context(), &httptrace.ClientTrace{GotConn: func(i httptrace.GotConnInfo) { reused = i.Reused }})
		req, err := http.NewRequestWithContext(ctx, "POST", s.URL, strings.NewReader("x"))
		require.NoError(t, err)
		resp, err := (&http.Client{Transport: overBase(t, quick(), s.base)}).Do(req)
		require.NoError(t, err)
		readAll(t, resp)
		assert.True(t, reused)
		assert.Equal(t, 1, httpclient.ReportOf(resp).Attempts[0].Connections)
		assert.EqualValues(t, 1, s.connections.Load())
	})
}
