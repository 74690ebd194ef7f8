package httpclient_test

import (
	"context"
	"crypto/tls"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"slices"
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

// ownConn is a connection of a kind that crypto/tls does not know.
type ownConn struct{ net.Conn }

// A base that is not net/http's, such as one for HTTP/3, fires some hooks and
// not others. That it does not say that it wrote anything is no proof.
func TestHooksOfAnOwnBaseProveNothing(t *testing.T) {
	for name, conn := range map[string]net.Conn{"own": ownConn{}, "none": nil} {
		synctest.Test(t, func(t *testing.T) {
			sent := 0
			base := roundTrip(func(req *http.Request) (*http.Response, error) {
				trace := httptrace.ContextClientTrace(req.Context())
				trace.GetConn("host.example:443")
				trace.GotConn(httptrace.GotConnInfo{Conn: conn})
				_, _ = io.Copy(io.Discard, req.Body)
				sent++
				return nil, io.EOF
			})
			_, err := overBase(t, retry.Policy{}, base).RoundTrip(call(t, t.Context(), "POST", "https://host.example", "x"))
			assert.ErrorIs(t, err, retry.ErrOutcomeUnknown, "POST over a base whose connection is %s", name)
			assert.Equal(t, 1, sent, "requests over a base whose connection is %s", name)
		})
	}
}

// A base may have no connection to show, and fire its hooks as often as it likes.
func TestHooksWithoutAConnection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		base := roundTrip(func(req *http.Request) (*http.Response, error) {
			trace := httptrace.ContextClientTrace(req.Context())
			for range 4 {
				trace.GetConn("host.example:443")
				trace.GotConn(httptrace.GotConnInfo{})
				trace.WroteHeaders()
			}
			return nil, io.EOF
		})
		_, err := overBase(t, retry.Policy{}, base).RoundTrip(call(t, t.Context(), "GET", "https://host.example", ""))
		assert.ErrorIs(t, err, retry.ErrAttempts)
	})
}

// Hooks can fire after RoundTrip returned: what they tell then is not about the
// response that has been handed over, and does not end it.
func TestHooksAfterTheResponse(t *testing.T) {
	for _, method := range []string{"GET", "POST"} {
		synctest.Test(t, func(t *testing.T) {
			var late *httptrace.ClientTrace
			base := roundTrip(func(req *http.Request) (*http.Response, error) {
				late = httptrace.ContextClientTrace(req.Context())
				here, there := io.Pipe()
				context.AfterFunc(req.Context(), func() { there.CloseWithError(context.Cause(req.Context())) })
				go func() {
					_, _ = io.WriteString(there, "answer")
					there.Close()
				}()
				resp := givenAnswer(req, 200, nil, "")
				resp.Body = here
				return resp, nil
			})
			resp, err := overBase(t, retry.Policy{}, base).RoundTrip(call(t, t.Context(), method, "http://host.example", ""))
			require.NoError(t, err)
			for range 3 {
				late.GotConn(httptrace.GotConnInfo{Conn: ownConn{}})
				late.WroteHeaders()
			}
			synctest.Wait()
			assert.Equal(t, "answer", finish(t, resp), method)
		})
	}
}

// A base that says of each failure that a kept connection was found closed does
// not keep the layer busy for ever.
func TestABaseWhoseConnectionsAreAllStale(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tries := 0
		base := roundTrip(func(req *http.Request) (*http.Response, error) {
			if tries++; tries > 1e5 {
				panic("too many")
			}
			here, there := net.Pipe()
			defer here.Close()
			defer there.Close()
			trace := httptrace.ContextClientTrace(req.Context())
			trace.GetConn("host.example:443")
			trace.GotConn(httptrace.GotConnInfo{Conn: tls.Client(here, &tls.Config{}), Reused: true})
			return nil, io.EOF
		})
		_, err := overBase(t, retry.Policy{}, base).RoundTrip(call(t, t.Context(), "GET", "https://host.example", ""))
		assert.ErrorIs(t, err, retry.ErrAttempts)
	})
}

// withToken is a base that sends a request of its own before each that it is
// given, by the client and under the context of that, as a token source does.
type withToken struct {
	client *http.Client
	mu     sync.Mutex
	keys   map[string][]string // by host and path
	answer func(*http.Request) (*http.Response, error)
}

func (b *withToken) RoundTrip(req *http.Request) (*http.Response, error) {
	if req.Body != nil {
		_, _ = io.Copy(io.Discard, req.Body)
		req.Body.Close()
	}
	b.mu.Lock()
	if b.keys == nil {
		b.keys = map[string][]string{}
	}
	b.keys[req.URL.Host+req.URL.Path] = append(b.keys[req.URL.Host+req.URL.Path], req.Header.Get("Idempotency-Key"))
	b.mu.Unlock()
	if req.URL.Host != "auth.example" {
		own, err := http.NewRequestWithContext(req.Context(), "POST", "http://auth.example/token", strings.NewReader("x"))
		if err != nil {
			return nil, err
		}
		resp, err := b.client.Do(own)
		if err != nil {
			return nil, err
		}
		resp.Body.Close()
	}
	return b.answer(req)
}

// A key never leaves its request: what the base sends besides, under the same
// context, has keys of its own, the same ones in each attempt, and so have the
// hops of a redirect of that.
func TestABasesOwnRequestHasItsOwnKey(t *testing.T) {
	for _, method := range []string{"POST", "GET"} {
		t.Run(method, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := &withToken{answer: func(req *http.Request) (*http.Response, error) {
					switch req.URL.Path {
					case "/token":
						return givenAnswer(req, 307, http.Header{"Location": {"/other"}}, ""), nil
					case "/first":
						return givenAnswer(req, 503, http.Header{"Retry-After": {"1"}}, ""), nil
					}
					return givenAnswer(req, 200, nil, ""), nil
				}}
				b.client = &http.Client{Transport: overBase(t, inSteps(), b)}
				d, err := retry.NewDestination("jobs", retry.Policy{MaxAttempts: 2, Jitter: retry.NoJitter}, nil)
				require.NoError(t, err)
				err = d.Do(t.Context(), retry.Unsafe, func(ctx context.Context) error {
					for _, r := range []*http.Request{call(t, ctx, "POST", "http://a.example/pay", "x"), call(t, ctx, method, "http://a.example/first", "")} {
						resp, err := b.client.Do(r)
						if err == nil {
							err = httpclient.Check(resp)
						}
						if err != nil {
							return err
						}
						resp.Body.Close()
					}
					return nil
				})
				require.Error(t, err)
				assert.Equal(t, b.keys["auth.example/token"], b.keys["auth.example/other"], "keys of the hops")
				owner := map[string]string{}
				for where, keys := range b.keys {
					for _, key := range keys {
						if key == "" || where == "auth.example/other" {
							continue
						}
						if before, there := owner[key]; there && before != where {
							t.Errorf("%s and %s have the same key %s", before, where, key)
						}
						owner[key] = where
					}
				}
				assert.NotEmpty(t, owner)
			})
		})
	}
}

// That the callee of a request honours keys says nothing of others to which its
// base sends something; neither does what WithSafety declares of it.
func TestTrustBelongsToTheRequest(t *testing.T) {
	for name, declare := range map[string]func(context.Context, *retry.Policy) context.Context{
		"policy": func(ctx context.Context, p *retry.Policy) context.Context {
			p.Key.Honored = true
			return ctx
		},
		"WithSafety": func(ctx context.Context, _ *retry.Policy) context.Context {
			return retry.WithSafety(ctx, retry.Idempotent)
		},
		"WithSafety, keyed": func(ctx context.Context, _ *retry.Policy) context.Context {
			return retry.WithSafety(ctx, retry.Keyed)
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := &withToken{answer: func(*http.Request) (*http.Response, error) { return nil, io.EOF }}
				p := retry.Policy{MaxAttempts: 1}
				ctx := declare(t.Context(), &p)
				l, err := retry.NewLayer(retry.Organization{Destinations: map[string]retry.Policy{"a.example": p}}, nil)
				require.NoError(t, err)
				b.client = &http.Client{Transport: &httpclient.Transport{Layer: l, Base: b}}
				_, err = b.client.Do(call(t, ctx, "POST", "http://a.example/pay", "x"))
				require.Error(t, err)
				assert.Len(t, b.keys["auth.example/token"], 1, "requests of the base's own, after a lost answer")
			})
		})
	}
}

// A key that a request brings along is taken: another write of the operation
// derives its own.
func TestAKeyInTheHeaderIsTaken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := &withToken{answer: func(req *http.Request) (*http.Response, error) { return givenAnswer(req, 200, nil, ""), nil }}
		c := &http.Client{Transport: overBase(t, retry.Policy{}, b)}
		d, err := retry.NewDestination("jobs", retry.Policy{}, nil)
		require.NoError(t, err)
		require.NoError(t, d.Do(t.Context(), retry.Unsafe, func(ctx context.Context) error {
			first := call(t, ctx, "POST", "http://auth.example/first", "x")
			first.Header.Set("Idempotency-Key", retry.Key(ctx))
			for _, req := range []*http.Request{first, call(t, ctx, "POST", "http://auth.example/second", "x")} {
				resp, err := c.Do(req)
				if err != nil {
					return err
				}
				resp.Body.Close()
			}
			return nil
		}))
		assert.NotEqual(t, b.keys["auth.example/first"], b.keys["auth.example/second"])
	})
}

// givingBack is a base that reads each request whole and answers as a script
// says: a status, or 0 for an answer that is lost.
func givingBack(n *int, h http.Header, codes ...int) roundTrip {
	return func(req *http.Request) (*http.Response, error) {
		if req.Body != nil {
			_, _ = io.Copy(io.Discard, req.Body)
			req.Body.Close()
		}
		*n++
		if *n > len(codes) {
			return givenAnswer(req, 200, nil, ""), nil
		}
		if codes[*n-1] == 0 {
			return nil, io.EOF
		}
		return givenAnswer(req, codes[*n-1], h, ""), nil
	}
}

// Idempotency-Status: ignored makes a K operation N. It stays one: what is lost
// after that is not repeated, nor is what was lost before, whatever the answer.
func TestAnIgnoredKeyStaysIgnored(t *testing.T) {
	for _, codes := range [][]int{{503, 0}, {0, 503}, {0, 409}, {0, 425}} {
		for _, inside := range []bool{false, true} {
			synctest.Test(t, func(t *testing.T) {
				n := 0
				p := inSteps()
				p.Key.Honored = true
				h := http.Header{"Retry-After": {"1"}, "Idempotency-Status": {"ignored"}}
				c := &http.Client{Transport: overBase(t, p, givingBack(&n, h, codes...))}
				post := func(ctx context.Context) error {
					resp, err := c.Do(call(t, ctx, "POST", "http://host.example", "x"))
					if err == nil {
						err = httpclient.Check(resp)
					}
					return err
				}
				d, err := retry.NewDestination("jobs", inSteps(), nil)
				require.NoError(t, err)
				if inside {
					err = d.Do(t.Context(), retry.Unsafe, post)
				} else {
					err = post(t.Context())
				}
				assert.ErrorIs(t, err, retry.ErrOutcomeUnknown, "answers %v, inside an operation: %v", codes, inside)
				assert.Equal(t, 2, n, "requests of answers %v, inside an operation: %v", codes, inside)
			})
		}
	}
}

// A key that the callee has forgotten by the next attempt of the operation around
// makes a repeat no safer than none: nothing is sent.
func TestAKeyExpiresBetweenAttemptsOfAnOperation(t *testing.T) {
	for _, row := range []struct {
		name     string
		key      string // in the header
		answer   int
		safety   retry.Safety // of the operation
		requests int
		outcome  retry.Outcome
	}{
		{"derived", "", 500, retry.Unsafe, 1, retry.Unknown},
		{"the caller's own", "order-17", 500, retry.Unsafe, 1, retry.Unknown},
		{"turned away", "", 429, retry.Unsafe, 3, retry.NotApplied},
		{"declared idempotent", "", 500, retry.Idempotent, 3, retry.Unknown},
	} {
		t.Run(row.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				n := 0
				p := retry.Policy{PrivatePushback: true}
				p.Key.Honored, p.Key.ValidFor = true, time.Second
				c := &http.Client{Transport: overBase(t, p, givingBack(&n, http.Header{"Retry-After": {"5"}}, row.answer, row.answer, row.answer))}
				d, err := retry.NewDestination("jobs", retry.Policy{}, nil)
				require.NoError(t, err)
				err = d.Do(t.Context(), row.safety, func(ctx context.Context) error {
					req := call(t, ctx, "POST", "http://host.example", "x")
					if row.key != "" {
						req.Header.Set("Idempotency-Key", row.key)
					}
					resp, err := c.Do(req)
					if err == nil {
						err = httpclient.Check(resp)
					}
					return err
				})
				assert.Equal(t, row.outcome, failureOf(t, err).Outcome)
				assert.Equal(t, row.requests, n, "requests")
			})
		})
	}
}

// A write that may have been applied is not sent to another origin, where its key
// is not known, by a client that follows redirects there.
func TestNoHopElsewhereAfterALostAnswer(t *testing.T) {
	for _, codes := range [][]int{{0, 307}, {307}} {
		synctest.Test(t, func(t *testing.T) {
			n := 0
			p := honored()
			base := givingBack(&n, http.Header{"Location": {"http://elsewhere.example/"}}, codes...)
			resp, err := (&http.Client{Transport: overBase(t, p, base)}).Do(call(t, t.Context(), "POST", "http://host.example", "x"))
			if len(codes) == 1 { // nothing was lost
				require.NoError(t, err)
				resp.Body.Close()
				assert.Equal(t, 2, n, "requests")
				return
			}
			assert.ErrorIs(t, err, retry.ErrOutcomeUnknown)
			assert.Equal(t, 2, n, "requests")
		})
	}
}

// B139: a 409 says that the callee is at work under the same key. Where the key
// was not made by this call, that may be what was sent before it.
func TestStillInProgressElsewhere(t *testing.T) {
	for name, key := range map[string]func(context.Context) context.Context{
		"stored": func(ctx context.Context) context.Context {
			return retry.WithIntention(ctx, retry.Intention{Key: "order-17", FirstSent: time.Now().Add(-time.Minute)})
		},
		"received": func(ctx context.Context) context.Context { return retry.WithReceivedKey(ctx, "order-17") },
	} {
		synctest.Test(t, func(t *testing.T) {
			n := 0
			resp, err := overBase(t, honored(), givingBack(&n, nil, 409, 409, 409, 409)).RoundTrip(call(t, key(t.Context()), "POST", "http://host.example", "x"))
			require.NoError(t, err)
			assert.Equal(t, 409, resp.StatusCode)
			assert.Equal(t, retry.Unknown, httpclient.ReportOf(resp).Outcome, "outcome under a %s key", name)
			assert.ErrorIs(t, httpclient.Check(resp), retry.ErrOutcomeUnknown)
		})
	}
}

// endless is a body of which a read returns, but brings nothing or next to
// nothing, and that does not care whether it is closed.
type endless struct{ n int }

func (e endless) Read(p []byte) (int, error) {
	time.Sleep(time.Second)
	return copy(p, "xxxx"[:e.n]), nil
}

func (endless) Close() error { return nil }

// The deadline bounds an upload that never ends, too: net/http finds out that
// its connection is gone only when its buffer is full.
func TestADeadlineEndsAnEndlessUpload(t *testing.T) {
	for _, n := range []int{0, 1} {
		synctest.Test(t, func(t *testing.T) {
			base := inBubble(t, func(_ http.ResponseWriter, r *http.Request) { _, _ = io.Copy(io.Discard, r.Body) })
			p := retry.Policy{Deadline: 20 * time.Second, AttemptTimeout: 5 * time.Second}
			req := call(t, t.Context(), "POST", "http://host.example", "")
			req.Body, req.ContentLength = endless{n}, -1
			start := time.Now()
			_, err := overBase(t, p, base).RoundTrip(req)
			assert.ErrorIs(t, err, retry.ErrOutcomeUnknown, "reads of %d bytes", n)
			assert.LessOrEqual(t, time.Since(start), p.Deadline+time.Second, "time with reads of %d bytes", n)
		})
	}
}

// Goroutines of one operation may name the same part, and bring the same key.
func TestGoroutinesShareAnOperation(t *testing.T) {
	b := &withToken{answer: func(req *http.Request) (*http.Response, error) { return givenAnswer(req, 200, nil, ""), nil }}
	b.client = &http.Client{Transport: overBase(t, honored(), b)}
	d, err := retry.NewDestination("jobs", retry.Policy{}, nil)
	require.NoError(t, err)
	require.NoError(t, d.Do(t.Context(), retry.Unsafe, func(ctx context.Context) error {
		var wg sync.WaitGroup
		for range 20 {
			wg.Go(func() {
				ctx := retry.SubKey(ctx, "fee")
				for _, req := range []*http.Request{
					call(t, ctx, "POST", "http://a.example/fee", "x"), call(t, ctx, "GET", "http://a.example/fee", ""), call(t, ctx, "POST", "http://a.example/own", "x"),
				} {
					if req.URL.Path == "/own" {
						req.Header.Set("Idempotency-Key", "order-17")
					}
					resp, err := b.client.Do(req)
					if assert.NoError(t, err) {
						resp.Body.Close()
					}
				}
			})
		}
		wg.Wait()
		return nil
	}))
	assert.Equal(t, slices.Repeat([]string{"order-17"}, 20), b.keys["a.example/own"])
}

func TestCheckOfNoResponse(t *testing.T) {
	assert.ErrorContains(t, httpclient.Check(nil), "response is nil")
}

// A server that forbids a repeat has not said that it did nothing, whoever says
// what its status means.
func TestARefusalDoesNotSayThatNothingWasDone(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		declared map[int]classify.Class
		want     retry.Outcome
	}{
		{nil, retry.Unknown},
		{map[int]classify.Class{500: classify.Ambiguous}, retry.Unknown},
		{map[int]classify.Class{500: classify.Retryable}, retry.NotApplied},
	} {
		p := quick()
		p.Statuses = c.declared
		rt := overBase(t, p, roundTrip(func(req *http.Request) (*http.Response, error) {
			return givenAnswer(req, 500, http.Header{"Stripe-Should-Retry": {"false"}}, "no"), nil
		}))
		resp, err := rt.RoundTrip(call(t, t.Context(), "POST", "http://peer/", "pay"))
		require.NoError(t, err)
		report := httpclient.ReportOf(resp)
		assert.Len(t, report.Attempts, 1, "attempts with 500 declared %v", c.declared)
		assert.Equal(t, c.want, report.Outcome, "outcome with 500 declared %v", c.declared)
		resp.Body.Close()
	}
}
