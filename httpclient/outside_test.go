package httpclient_test

import (
	"bufio"
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/reintento/reintento/breaker"
	"github.com/reintento/reintento/classify"
	"github.com/reintento/reintento/deadline"
	"github.com/reintento/reintento/httpclient"
	"github.com/reintento/reintento/retry"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// Events carry attempt n (from 1), class, reason, wait, hint, connections
// obtained, real error.
//
// B144: OnRetry fires although nothing will be retried.
// B148: retries invisible in traces.
func TestH53(t *testing.T) {
	t.Parallel()
	p := &onePeer{}
	p.answer = func(c net.Conn, _ *http.Request, n int) bool {
		switch n {
		case 1:
			io.WriteString(c, "HTTP/1.1 429 No\r\nRetry-After-Ms: 1\r\nContent-Length: 0\r\n\r\n")
		case 2:
			return false
		default:
			io.WriteString(c, "HTTP/1.1 503 No\r\nContent-Length: 0\r\n\r\n")
		}
		return true
	}
	var events []retry.Event
	policy := honored()
	policy.PrivatePushback = true
	rt := withEvents(t, policy, fresh(t), func(_ context.Context, e retry.Event) { events = append(events, e) })
	resp, err := rt.RoundTrip(call(t, t.Context(), "POST", "http://"+serve(t, p.serve), "pay"))
	require.NoError(t, err)
	finish(t, resp)

	key := httpclient.ReportOf(resp).Intention.Key
	type seen struct {
		kind        retry.EventKind
		attempt     int
		class       classify.Class
		reason      string
		status      int
		hint        bool
		connections int
		failed      bool
	}
	var got []seen
	for _, e := range events {
		assert.Equal(t, key, e.Intention.Key)
		assert.Equal(t, "POST", e.Operation)
		assert.Equal(t, 3, e.MaxAttempts)
		assert.True(t, strings.HasPrefix(e.Destination, "http://127.0.0.1:"), "destination %q", e.Destination)
		got = append(got, seen{e.Kind, e.Attempt, e.Verdict.Class, e.Verdict.Reason, e.Status, e.Verdict.RetryAfter > 0, e.Connections, e.Failed})
	}
	assert.Equal(t, []seen{
		{retry.EventAttempt, 1, classify.Retryable, "http_429", 429, true, 1, true},
		{retry.EventRetry, 1, classify.Retryable, "http_429", 429, true, 0, true},
		{retry.EventAttempt, 2, classify.Ambiguous, "closed", 0, false, 1, true},
		{retry.EventRetry, 2, classify.Ambiguous, "closed", 0, false, 0, true},
		{retry.EventAttempt, 3, classify.Ambiguous, "http_503", 503, false, 1, true},
		{retry.EventStop, 3, classify.Ambiguous, "http_503", 503, false, 0, true},
	}, got)
	assert.GreaterOrEqual(t, events[1].Wait, time.Millisecond)
	assert.ErrorIs(t, events[2].Err, io.EOF)
	assert.ErrorIs(t, events[5].Stop, retry.ErrAttempts)
	assert.Equal(t, retry.Unknown, events[5].Outcome)
}

// B147: attempt recorded as success at headers, then the body fails: 200 with a
// truncated body, then a full 200, must show 1 failure, 1 success, 1 call success.
func TestH53BodyThatBreaks(t *testing.T) {
	t.Parallel()
	p := &onePeer{}
	p.answer = func(c net.Conn, _ *http.Request, n int) bool {
		body := "whole"
		if n == 1 {
			body = "wh"
		}
		io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n"+body)
		return n > 1
	}
	var below, above []retry.Event
	rt := withEvents(t, quick(), fresh(t), func(_ context.Context, e retry.Event) {
		if e.Kind == retry.EventAttempt {
			below = append(below, e)
		}
	})
	d, err := retry.NewDestination("reader", quick(), &retry.Options{Observer: func(_ context.Context, e retry.Event) {
		if e.Kind == retry.EventAttempt {
			above = append(above, e)
		}
	}})
	require.NoError(t, err)
	url := "http://" + serve(t, p.serve)
	got, err := retry.Do(t.Context(), d, retry.Unsafe, func(ctx context.Context) (string, error) {
		resp, err := rt.RoundTrip(call(t, ctx, "GET", url, ""))
		if err != nil {
			return "", err
		}
		defer resp.Body.Close()
		b, err := io.ReadAll(resp.Body)
		return string(b), err
	})
	require.NoError(t, err)
	assert.Equal(t, "whole", got)

	require.Len(t, above, 2)
	assert.True(t, above[0].Failed)
	assert.ErrorIs(t, above[0].Err, io.ErrUnexpectedEOF)
	assert.False(t, above[1].Failed)

	// Below, the attempt is told of at its head, and again when its body breaks.
	require.Len(t, below, 3)
	assert.False(t, below[0].Failed)
	assert.True(t, below[1].Failed)
	assert.Equal(t, below[0].Attempt, below[1].Attempt)
	assert.Equal(t, "body", below[1].Verdict.Reason)
	assert.ErrorIs(t, below[1].Err, io.ErrUnexpectedEOF)
	assert.False(t, below[2].Failed)
}

// A read whose answers are lost ends as not applied, however the operation tells
// of it; a write without a trusted key is not repeated.
func TestH53LostToTheEnd(t *testing.T) {
	t.Parallel()
	for _, status := range []string{"200 OK", "503 No"} {
		for _, method := range []string{"GET", "POST"} {
			p := &onePeer{answer: says("HTTP/1.1 " + status + "\r\nContent-Length: 5\r\n\r\nwh")}
			url := "http://" + serve(t, p.serve)
			rt := overBase(t, quick(), fresh(t))
			d, err := retry.NewDestination("reader", quick(), nil)
			require.NoError(t, err)
			err = d.Do(t.Context(), retry.Unsafe, func(ctx context.Context) error {
				resp, err := rt.RoundTrip(call(t, ctx, method, url, ""))
				if err != nil {
					return err
				}
				if err := httpclient.Check(resp); err != nil {
					return err
				}
				_, err = io.ReadAll(resp.Body)
				resp.Body.Close()
				return err
			})
			want := int64(3)
			if method == "POST" {
				want = 1
			}
			assert.Equal(t, want, p.requests.Load(), "requests for %s, %s", method, status)
			if status == "200 OK" {
				assert.ErrorIs(t, err, io.ErrUnexpectedEOF)
			}
			assert.Equal(t, method == "POST", errors.Is(err, retry.ErrOutcomeUnknown), "Is(%v, ErrOutcomeUnknown)", err)
		}
	}
}

// A panic in an observer leaks nothing and passes on.
func TestH53Panic(t *testing.T) {
	for _, kind := range []retry.EventKind{retry.EventAttempt, retry.EventRetry, retry.EventStop, retry.EventBreakerChange, retry.EventPushback} {
		for _, failure := range []int{200, 429, 503} {
			if failure == 200 && kind != retry.EventAttempt {
				continue
			}
			t.Run(fmt.Sprintf("%v/%d", kind, failure), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					var bodies []*closings
					armed := true
					p := quick()
					p.Breaker.MinResults = 1
					rt := withEvents(t, p, roundTrip(func(req *http.Request) (*http.Response, error) {
						io.ReadAll(req.Body)
						b := &closings{Reader: strings.NewReader("body")}
						bodies = append(bodies, b)
						return &http.Response{StatusCode: failure, Header: http.Header{"Retry-After": {"1"}}, Body: b, Request: req}, nil
					}), func(_ context.Context, e retry.Event) {
						if armed && e.Kind == kind {
							panic("observer")
						}
					})
					ctx, cancel := context.WithCancel(t.Context())
					defer cancel()
					body := &closings{Reader: strings.NewReader("pay")}
					req := call(t, ctx, "PUT", "http://peer/", "")
					req.Body, req.ContentLength = body, 3
					panicked := func() (v any) {
						defer func() { v = recover() }()
						resp, err := rt.RoundTrip(req)
						if err == nil {
							resp.Body.Close()
						}
						return nil
					}()
					armed = false
					// A 429 says nothing to a breaker, and a 503 stops at one that has opened.
					if quiet := failure == 429 && kind == retry.EventBreakerChange || failure == 503 && kind == retry.EventRetry; quiet {
						assert.Nil(t, panicked)
					} else {
						assert.Equal(t, "observer", panicked)
					}
					assert.Equal(t, 1, body.closed, "closings of the request's body")
					for _, b := range bodies {
						assert.Equal(t, 1, b.closed, "closings of a response's body")
					}
					assert.Zero(t, children(ctx), "contexts left below the caller's")
					for _, s := range rt.Layer.Snapshot() {
						assert.Zero(t, s.Calls, "calls under way")
					}
				})
			})
		}
	}
}

// No event, log line or error text holds user info, query or header values (the
// key aside).
func TestH54(t *testing.T) {
	t.Parallel()
	secrets := []string{"s3cr3t-user", "s3cr3t-password", "s3cr3t-query", "s3cr3t-header", "s3cr3t-cookie", "s3cr3t-answer", "s3cr3t-fragment"}
	var out bytes.Buffer
	logs := retry.LogTo(slog.New(slog.NewTextHandler(&out, &slog.HandlerOptions{Level: slog.LevelDebug})))
	fails := &onePeer{answer: says("HTTP/1.1 503 No\r\nSet-Cookie: s3cr3t-answer\r\nRetry-After: 0\r\nContent-Length: 0\r\n\r\n")}
	limits := &onePeer{answer: says("HTTP/1.1 429 No\r\nX-Token: s3cr3t-answer\r\nRetry-After: 1000\r\nContent-Length: 0\r\n\r\n")}
	cuts := &onePeer{answer: says("")}
	breaks := &onePeer{answer: says("HTTP/1.1 200 OK\r\nX-Token: s3cr3t-answer\r\nContent-Length: 9\r\n\r\nx")}
	garbage := &onePeer{answer: says("HTTP/9.9 twohundred\r\n\r\n")}
	plain := serve(t, fails.serve)
	hosts := map[string]string{
		"http://": plain, "http:// ": serve(t, limits.serve), "http://  ": serve(t, cuts.serve), "http://   ": serve(t, breaks.serve),
		"http://    ": serve(t, garbage.serve), "http://     ": closedPort(t), "https://": plain, "ftp://": plain,
	}
	tried := 0
	for scheme, host := range hosts {
		for _, method := range []string{"GET", "POST", "PO ST"} {
			for _, key := range []string{"", "bad key"} {
				p := quick()
				p.Deadline = time.Second
				rt := withEvents(t, p, fresh(t), func(ctx context.Context, e retry.Event) {
					logs(ctx, e)
					fmt.Fprintf(&out, "%+v\n", e)
				})
				req := call(t, t.Context(), "GET", strings.TrimSpace(scheme)+"s3cr3t-user:s3cr3t-password@"+host+"/path?token=s3cr3t-query#s3cr3t-fragment", "")
				req.Method = method
				req.Header.Set("Authorization", "s3cr3t-header")
				req.Header.Set("Cookie", "session=s3cr3t-cookie")
				req.Header["X-Bad"] = []string{"s3cr3t-header"}
				if tried%2 == 1 {
					req.Header["X-Bad"] = []string{"s3cr3t-header\n"}
				}
				if key != "" {
					req.Header.Set("Idempotency-Key", key)
				}
				resp, err := rt.RoundTrip(req)
				if err == nil {
					if _, err := io.ReadAll(resp.Body); err != nil {
						fmt.Fprintf(&out, "%v\n%+v\n", err, err)
					}
					resp.Body.Close()
					if err := httpclient.Check(resp); err != nil {
						fmt.Fprintln(&out, err)
					}
				} else {
					fmt.Fprintln(&out, err)
					for _, e := range unwrapped(err) {
						fmt.Fprintln(&out, e)
					}
				}
				tried++
			}
		}
	}
	require.NotZero(t, out.Len())
	for _, s := range secrets {
		for line := range strings.Lines(out.String()) {
			assert.NotContains(t, line, s)
		}
	}
}

// unwrapped returns everything that an error wraps.
func unwrapped(err error) (all []error) {
	switch e := err.(type) {
	case interface{ Unwrap() error }:
		if inner := e.Unwrap(); inner != nil {
			all = append(append(all, inner), unwrapped(inner)...)
		}
	case interface{ Unwrap() []error }:
		for _, inner := range e.Unwrap() {
			all = append(append(all, inner), unwrapped(inner)...)
		}
	}
	return all
}

// Attempt mark (attempt and max) and remaining time are sent only where Announce
// is set, and are not part of a body or a signature.
func TestH55(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		type seen struct{ mark, left, body, signature string }
		got := map[string][]seen{}
		p := inSteps()
		p.MaxAttempts, p.Deadline, p.AttemptTimeout, p.Key.Honored = 3, 4*time.Second, 3*time.Second, true
		announced := p
		announced.Announce = true
		l, err := retry.NewLayer(retry.Organization{Default: p, Destinations: map[string]retry.Policy{"internal": announced}}, nil)
		require.NoError(t, err)
		// A signer sits in the base and runs in each attempt.
		rt := &httpclient.Transport{Layer: l, Base: roundTrip(func(req *http.Request) (*http.Response, error) {
			b, err := io.ReadAll(req.Body)
			require.NoError(t, err)
			mac := hmac.New(sha256.New, []byte("secret"))
			fmt.Fprintf(mac, "%s\n%s\n%s\n%s", req.Method, req.URL, req.Header.Get("Idempotency-Key"), b)
			got[req.URL.Host] = append(got[req.URL.Host], seen{
				req.Header.Get(httpclient.AttemptHeader), req.Header.Get(deadline.Header), string(b), string(mac.Sum(nil)),
			})
			return givenAnswer(req, 503, nil, ""), nil
		})}
		for _, host := range []string{"internal", "external"} {
			resp, err := rt.RoundTrip(call(t, t.Context(), "POST", "http://"+host+"/", "pay"))
			require.NoError(t, err)
			finish(t, resp)
			require.Len(t, got[host], 3)
			for _, s := range got[host] {
				assert.Equal(t, "pay", s.body)
				assert.Equal(t, got[host][0].signature, s.signature)
			}
		}
		in, ex := got["internal"], got["external"]
		assert.Equal(t, []string{"n=1, max=3", "n=2, max=3", "n=3, max=3"}, []string{in[0].mark, in[1].mark, in[2].mark})
		assert.Equal(t, []string{"3000", "3000", "1000"}, []string{in[0].left, in[1].left, in[2].left})
		for _, s := range ex {
			assert.Empty(t, s.mark)
			assert.Empty(t, s.left)
		}
	})
}

// Receive puts mark, remaining time and key into the request's context; a handler
// whose time is up is not started (503 with a reason, counted).
func TestH55Receive(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name            string
		mark, left, key string
		number, limit   int
		until           time.Duration
		derives         bool
		refused         bool
	}{
		{name: "nothing"},
		{name: "all", mark: "n=2, max=3", left: "60000", key: "a-key", number: 2, limit: 3, until: time.Minute, derives: true},
		{name: "a key in quotes", key: `"a-key"`, derives: true},
		{name: "no blank", mark: "n=1,max=1", number: 1, limit: 1},
		{name: "time up", mark: "n=3, max=3", left: "0", refused: true},
		{name: "unusable marks", mark: "n=4, max=3"},
		{name: "a mark of zero", mark: "n=0, max=3"},
		{name: "a mark of words", mark: "n=one, max=three"},
		{name: "a mark with more", mark: "n=1, max=3, x=1"},
		{name: "a mark beyond reason", mark: "n=1, max=99999999999999999999"},
		{name: "unusable time", left: "-5"},
		{name: "fractions", left: "1.5"},
		{name: "an unusable key", key: "a key"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			started := false
			h := httpclient.Receive(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
				started = true
				n, limit, _ := retry.Mark(r.Context())
				assert.Equal(t, c.number, n, "number")
				assert.Equal(t, c.limit, limit, "limit")
				assert.Equal(t, c.number, retry.AttemptOf(r.Context()))
				left, ok := deadline.Remaining(r.Context())
				assert.Equal(t, c.until > 0, ok, "whether there is a deadline")
				assert.InDelta(t, c.until, left, float64(10*time.Second))
				_, ok = retry.IntentionOf(r.Context())
				assert.Equal(t, c.derives, ok, "whether there is an intention")
			}))
			req := httptest.NewRequestWithContext(t.Context(), "POST", "/", nil)
			for name, value := range map[string]string{httpclient.AttemptHeader: c.mark, deadline.Header: c.left, "Idempotency-Key": c.key} {
				if value != "" {
					req.Header.Set(name, value)
				}
			}
			w := httptest.NewRecorder()
			h.ServeHTTP(w, req)
			assert.Equal(t, !c.refused, started, "whether the handler was started")
			refused := int64(0)
			if c.refused {
				refused = 1
				assert.Equal(t, 503, w.Code)
				assert.Contains(t, w.Body.String(), "the caller has no time left")
			}
			assert.Equal(t, refused, h.(*httpclient.Receiver).Refused())
		})
	}
}

// Across processes: caller → service → service with the SDK in each: 3 requests
// at the end, not 27; the remaining time shrinks hop by hop; the key of the first
// caller makes the keys below stable over its attempts; background work under
// Detach repeats by itself.
func TestH55Chain(t *testing.T) {
	t.Parallel()
	p := honored()
	p.Announce = true
	type seen struct {
		path, key string
		left      int
	}
	var mu sync.Mutex
	var got []seen
	leaf := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		left, err := strconv.Atoi(r.Header.Get(deadline.Header))
		assert.NoError(t, err)
		mu.Lock()
		got = append(got, seen{r.URL.Path, r.Header.Get("Idempotency-Key"), left})
		mu.Unlock()
		w.WriteHeader(503)
	}))
	defer leaf.Close()

	// service hands on what it gets and answers what it got.
	service := func(next string) (*httptest.Server, *atomic.Int64) {
		rt := overBase(t, p, fresh(t))
		var requests atomic.Int64
		s := httptest.NewServer(httpclient.Receive(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			requests.Add(1)
			ctx := r.Context()
			if r.URL.Path == "/background" {
				ctx = retry.Detach(ctx)
			}
			resp, err := rt.RoundTrip(call(t, ctx, "POST", next+r.URL.Path, "pay"))
			if !assert.NoError(t, err) {
				return
			}
			defer resp.Body.Close()
			w.WriteHeader(resp.StatusCode)
		})))
		t.Cleanup(s.Close)
		return s, &requests
	}
	second, atSecond := service(leaf.URL)
	first, atFirst := service(second.URL)

	rt := overBase(t, p, fresh(t))
	keys := map[string]bool{}
	for range 2 {
		got = nil
		before1, before2 := atFirst.Load(), atSecond.Load()
		resp, err := rt.RoundTrip(call(t, t.Context(), "POST", first.URL+"/pay", "pay"))
		require.NoError(t, err)
		finish(t, resp)
		assert.Equal(t, 503, resp.StatusCode)
		assert.EqualValues(t, 3, atFirst.Load()-before1, "requests at the first service")
		assert.EqualValues(t, 3, atSecond.Load()-before2, "requests at the second service")
		require.Len(t, got, 3, "requests at the end")
		for _, s := range got {
			assert.Equal(t, got[0].key, s.key)
			assert.LessOrEqual(t, s.left, 10_000)
			assert.Positive(t, s.left)
		}
		assert.NotEqual(t, httpclient.ReportOf(resp).Intention.Key, got[0].key)
		keys[got[0].key] = true
	}
	assert.Len(t, keys, 2, "keys of two intentions")

	got = nil
	resp, err := rt.RoundTrip(call(t, t.Context(), "POST", second.URL+"/background", "pay"))
	require.NoError(t, err)
	finish(t, resp)
	assert.Len(t, got, 9, "requests of background work, 3 for each of 3 attempts")
}

// FuzzReceive: whatever a header says, what comes out is a mark that this package
// could have written, a time that is left, and a key that can be one.
func FuzzReceive(f *testing.F) {
	for _, s := range []string{"n=2, max=3", "n=1,max=1", "n=0, max=0", "n=3, max=2", "n=+1, max=2", "n=1, max=", "", ",", "n=1", "max=3, n=1", "n=999999, max=999999", "n=1000000, max=1000000", "n=01, max=2", "n=1, max=2 ", "n=1\x00, max=2"} {
		f.Add(s, "1250", "a-key")
	}
	f.Add("n=1, max=2", "0", `"quoted"`)
	f.Add("n=1, max=2", "99999999999999999999", "with blank")
	f.Fuzz(func(t *testing.T, mark, left, key string) {
		req := httptest.NewRequest("POST", "/", nil)
		req.Header[httpclient.AttemptHeader] = []string{mark}
		req.Header[deadline.Header] = []string{left}
		req.Header["Idempotency-Key"] = []string{key}
		h := &httpclient.Receiver{Next: http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			if n, limit, ok := retry.Mark(r.Context()); ok {
				if n < 1 || n > limit || limit > 999_999 {
					t.Errorf("the mark %q was read as n=%d, max=%d", mark, n, limit)
				}
				if !strings.Contains(mark, "n=") || !strings.Contains(mark, "max=") {
					t.Errorf("%q was read as a mark", mark)
				}
			}
			if d, ok := r.Context().Deadline(); ok && d.Before(time.Now().Add(-time.Minute)) {
				t.Errorf("the time %q was read as one that ended at %v", left, d)
			}
			if in, ok := retry.IntentionOf(r.Context()); ok {
				if err := retry.CheckKey(in.Key); err != nil {
					t.Errorf("the key %q was taken: %v", key, err)
				}
			}
		})}
		h.ServeHTTP(httptest.NewRecorder(), req)
	})
}

// Nothing leaks: after 1,000 failing and succeeding calls with every ending
// (success, exhausted, cancelled at each stage, breaker open, panic in an
// observer) connections, goroutines and open bodies are back to where they were.
// It does not run beside other tests, whose goroutines it would count.
func TestNothingLeaks(t *testing.T) {
	var open atomic.Int64 // connections of the server
	var bodies atomic.Int64
	hung := make(chan struct{})
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		io.Copy(io.Discard, r.Body) // or the end of the connection would not be seen
		switch r.URL.Path {
		case "/ok":
			io.WriteString(w, "ok")
		case "/503":
			w.WriteHeader(503)
			io.WriteString(w, "no")
		case "/cut":
			panic(http.ErrAbortHandler)
		case "/cut-body":
			w.Header().Set("Content-Length", "100")
			io.WriteString(w, "some")
			panic(http.ErrAbortHandler)
		case "/hang":
			hung <- struct{}{}
			<-r.Context().Done()
		case "/hang-body":
			w.Header().Set("Content-Length", "100")
			w.(http.Flusher).Flush()
			<-r.Context().Done()
		}
	}))
	s.Config.ConnState = func(_ net.Conn, state http.ConnState) {
		switch state {
		case http.StateNew:
			open.Add(1)
		case http.StateClosed, http.StateHijacked:
			open.Add(-1)
		}
	}
	s.Start()
	defer s.Close()
	base := fresh(t)
	counted := roundTrip(func(req *http.Request) (*http.Response, error) {
		resp, err := base.RoundTrip(req)
		if err == nil && resp.Body != http.NoBody {
			bodies.Add(1)
			resp.Body = &counts{ReadCloser: resp.Body, open: &bodies}
		}
		return resp, err
	})
	type onRetry struct{}
	p := quick()
	p.Budget.Disabled, p.Breaker.Disabled, p.Key.Honored = true, true, true
	observer := func(ctx context.Context, e retry.Event) {
		if f, ok := ctx.Value(onRetry{}).(func()); ok && e.Kind == retry.EventRetry {
			f()
		}
	}
	rt := withEvents(t, p, counted, observer)
	sensitive := p
	sensitive.Breaker = breaker.Settings{MinResults: 1, OpenFor: time.Minute}
	sensitive.MaxAttempts = 1
	broken := withEvents(t, sensitive, counted, observer)
	refused := "http://" + closedPort(t)

	endings := []func(){
		func() { leave(rt.RoundTrip(call(t, t.Context(), "GET", s.URL+"/ok", ""))) },
		func() { leave(rt.RoundTrip(call(t, t.Context(), "POST", s.URL+"/ok", "pay"))) },
		func() { // closed without being read
			if resp, err := rt.RoundTrip(call(t, t.Context(), "GET", s.URL+"/ok", "")); err == nil {
				resp.Body.Close()
			}
		},
		func() { leave(rt.RoundTrip(call(t, t.Context(), "GET", s.URL+"/503", ""))) },
		func() { leave(rt.RoundTrip(call(t, t.Context(), "POST", s.URL+"/cut", "pay"))) },
		func() { leave(rt.RoundTrip(call(t, t.Context(), "GET", s.URL+"/cut-body", ""))) },
		func() { leave(rt.RoundTrip(call(t, t.Context(), "GET", refused, ""))) },
		func() { leave(broken.RoundTrip(call(t, t.Context(), "POST", s.URL+"/503", "pay"))) },
		func() { // cancelled before it begins
			ctx, cancel := context.WithCancel(t.Context())
			cancel()
			leave(rt.RoundTrip(call(t, ctx, "POST", s.URL+"/ok", "pay")))
		},
		func() { // cancelled in an attempt
			ctx, cancel := context.WithCancel(t.Context())
			go func() { <-hung; cancel() }()
			leave(rt.RoundTrip(call(t, ctx, "POST", s.URL+"/hang", "pay")))
		},
		func() { // cancelled by the request's channel
			stop := make(chan struct{})
			go func() { <-hung; close(stop) }()
			req := call(t, t.Context(), "GET", s.URL+"/hang", "")
			//lint:ignore SA1019 http.Client with Timeout sets it, too
			req.Cancel = stop
			leave(rt.RoundTrip(req))
		},
		func() { // cancelled in a wait
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			leave(rt.RoundTrip(call(t, context.WithValue(ctx, onRetry{}, func() { cancel() }), "GET", s.URL+"/503", "")))
		},
		func() { // cancelled while its body is read
			ctx, cancel := context.WithCancel(t.Context())
			resp, err := rt.RoundTrip(call(t, ctx, "GET", s.URL+"/hang-body", ""))
			cancel()
			leave(resp, err)
		},
		func() { // a panic in an observer
			defer func() { assert.Equal(t, "observer", recover()) }()
			ctx := context.WithValue(t.Context(), onRetry{}, func() { panic("observer") })
			leave(rt.RoundTrip(call(t, ctx, "GET", s.URL+"/503", "")))
		},
		func() { // with Client.Timeout
			resp, err := (&http.Client{Transport: rt, Timeout: time.Minute}).Get(s.URL + "/ok")
			leave(resp, err)
		},
	}
	round := func() {
		for _, end := range endings {
			end()
		}
	}
	// settled returns the number of goroutines when no more than most are left:
	// connections end on both sides before their goroutines do.
	settled := func(most int) (n int) {
		base.CloseIdleConnections()
		for until := time.Now().Add(10 * time.Second); time.Now().Before(until); runtime.Gosched() {
			if n = runtime.NumGoroutine(); n <= most && open.Load() == 0 {
				break
			}
		}
		return n
	}
	start := runtime.NumGoroutine()
	round()
	before := settled(start)
	for range 1000/len(endings) + 1 {
		round()
	}
	after := settled(before)
	assert.Zero(t, open.Load(), "connections at the server")
	assert.Zero(t, bodies.Load(), "bodies left open")
	assert.LessOrEqual(t, after, before, "goroutines")
	for _, s := range append(rt.Layer.Snapshot(), broken.Layer.Snapshot()...) {
		assert.Zero(t, s.Calls, "calls under way to %s", s.Name)
	}
}

// leave reads and closes what a call gave.
func leave(resp *http.Response, err error) {
	if err == nil {
		io.Copy(io.Discard, resp.Body)
		resp.Body.Close()
	}
}

// counts is a body that says when it is first closed.
type counts struct {
	io.ReadCloser
	open *atomic.Int64
	once sync.Once
}

func (c *counts) Close() error {
	c.once.Do(func() { c.open.Add(-1) })
	return c.ReadCloser.Close()
}

// 100 calls answered 503, 503, 200 leave 1 connection, 0 goroutines and 0 open
// bodies.
func TestNothingLeaksOfRepeats(t *testing.T) {
	var requests, dialed atomic.Int64
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if requests.Add(1)%3 != 0 {
			w.WriteHeader(503)
		}
		io.WriteString(w, "an answer")
	}))
	defer s.Close()
	base := fresh(t)
	base.DialContext = func(ctx context.Context, network, addr string) (net.Conn, error) {
		dialed.Add(1)
		return (&net.Dialer{}).DialContext(ctx, network, addr)
	}
	p := quick()
	p.Budget.Disabled, p.Breaker.Disabled = true, true
	rt := overBase(t, p, base)
	for range 100 {
		resp, err := rt.RoundTrip(call(t, t.Context(), "PUT", s.URL, "pay"))
		require.NoError(t, err)
		finish(t, resp)
	}
	assert.EqualValues(t, 300, requests.Load(), "requests")
	assert.EqualValues(t, 1, dialed.Load(), "connections dialed")
}

// A server may say for long that it is still at it.
func TestManyInterimResponses(t *testing.T) {
	t.Parallel()
	overProtocols(t, func(t *testing.T, protocol string) {
		s := newSite(t, protocol, func(w http.ResponseWriter, r *http.Request) {
			for range 500 {
				w.WriteHeader(http.StatusProcessing)
			}
		})
		resp, err := (&http.Client{Transport: overBase(t, quick(), s.base)}).Post(s.URL, "text/plain", strings.NewReader("x"))
		require.NoError(t, err)
		readAll(t, resp)
		assert.Equal(t, 200, resp.StatusCode)
	})
}

// A server that sends 1xx responses without end cannot hold a call: net/http
// leaves their number to a hook where there is one.
func TestInterimResponsesAreBounded(t *testing.T) {
	t.Parallel()
	url := "http://" + serve(t, func(c net.Conn, _ int) {
		req, err := http.ReadRequest(bufio.NewReader(c))
		if err != nil {
			return
		}
		drain(req.Body)
		for {
			if _, err := io.WriteString(c, "HTTP/1.1 102 Processing\r\nX: "+strings.Repeat("x", 16<<10)+"\r\n\r\n"); err != nil {
				return
			}
		}
	})
	p := quick()
	p.AttemptTimeout, p.Deadline = retry.NoLimit, retry.NoLimit
	client := &http.Client{Transport: overBase(t, p, fresh(t))}
	_, err := client.Post(url, "text/plain", strings.NewReader("x"))
	assert.ErrorContains(t, err, "interim responses")
	failure, ok := errors.AsType[*retry.Error](err)
	require.True(t, ok, "Post failed with a %T", err)
	assert.Equal(t, classify.Verdict{Class: classify.Ambiguous, Reason: "malformed"}, failure.Attempts[0].Verdict)
	assert.ErrorIs(t, err, retry.ErrOutcomeUnknown, "a server that never answers may have acted")
}
