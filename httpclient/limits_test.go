package httpclient_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/reintento/reintento/breaker"
	"github.com/reintento/reintento/httpclient"
	"github.com/reintento/reintento/retry"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// script is a base that answers with one status after the other, and with the
// last one for ever.
type script struct {
	codes []int
	sent  int
}

func (s *script) RoundTrip(req *http.Request) (*http.Response, error) {
	if req.Body != nil {
		req.Body.Close()
	}
	code := s.codes[min(s.sent, len(s.codes)-1)]
	s.sent++
	return givenAnswer(req, code, nil, ""), nil
}

// budgetOf is what is left in the one destination of a layer.
func budgetOf(t testing.TB, l *retry.Layer) float64 {
	t.Helper()
	states := l.Snapshot()
	require.Len(t, states, 1)
	return states[0].Budget
}

// 421 and 425 are repeated once.
func TestH49(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		codes []int
		sent  int
		last  int
	}{
		{[]int{421}, 2, 421},
		{[]int{425}, 2, 425},
		{[]int{421, 200}, 2, 200},
		{[]int{425, 200}, 2, 200},
		{[]int{421, 425, 200}, 3, 200},
		{[]int{421, 425, 421}, 3, 421},
		{[]int{503, 425, 503, 425, 200}, 4, 425},
	} {
		for _, method := range []string{"GET", "POST", "PUT"} {
			for _, trusted := range []bool{false, true} {
				if c.codes[0] == 503 && method == "POST" && !trusted {
					continue // a 503 without a hint ends it
				}
				t.Run(fmt.Sprintf("%v/%s/trusted=%v/inside of retry.Do", c.codes, method, trusted), func(t *testing.T) {
					t.Parallel()
					p := quick()
					p.MaxAttempts = 10
					p.Key.Honored = trusted
					base := &script{codes: c.codes}
					tr := overBase(t, p, base)
					err := tr.Layer.To("operation").Do(t.Context(), retry.Unsafe, func(ctx context.Context) error {
						resp, err := tr.RoundTrip(call(t, ctx, method, "http://peer/", ""))
						require.NoError(t, err)
						return httpclient.Check(resp)
					})
					assert.Equal(t, c.sent, base.sent, "requests")
					if c.last == 200 {
						assert.NoError(t, err)
					} else {
						assert.ErrorIs(t, err, retry.ErrPermanent)
					}
				})
				t.Run(fmt.Sprintf("%v/%s/trusted=%v", c.codes, method, trusted), func(t *testing.T) {
					t.Parallel()
					p := quick()
					p.MaxAttempts = 10
					p.Key.Honored = trusted
					base := &script{codes: c.codes}
					resp, err := overBase(t, p, base).RoundTrip(call(t, t.Context(), method, "http://peer/", ""))
					require.NoError(t, err)
					finish(t, resp)
					assert.Equal(t, c.last, resp.StatusCode)
					assert.Equal(t, c.sent, base.sent, "requests")
					if c.last != 200 {
						assert.ErrorIs(t, httpclient.ReportOf(resp).Stop, retry.ErrPermanent)
					}
				})
			}
		}
	}
}

// Breaker per host (scheme and host, not path or query); 100,000 paths give one
// breaker; 10,000 hosts stay within the bound.
//
// B129: breaker per full URL: memory grows without end.
func TestH50(t *testing.T) {
	t.Parallel()
	ok := roundTrip(func(req *http.Request) (*http.Response, error) {
		return &http.Response{StatusCode: 200, Body: http.NoBody, Request: req}, nil
	})
	get := func(rt *httpclient.Transport, url string) {
		resp, err := rt.RoundTrip(call(t, context.Background(), "GET", url, ""))
		require.NoError(t, err)
		resp.Body.Close()
	}
	plain := quick() // and cheap
	plain.Deadline, plain.AttemptTimeout = retry.NoLimit, retry.NoLimit
	send := func(rt *httpclient.Transport, u *url.URL) {
		if _, err := rt.RoundTrip(&http.Request{Method: "GET", URL: u, Header: http.Header{}}); err != nil {
			t.Error(err)
		}
	}
	t.Run("100,000 paths", func(t *testing.T) {
		t.Parallel()
		rt := overBase(t, plain, ok)
		for n := range 100_000 {
			id := strconv.Itoa(n)
			send(rt, &url.URL{Scheme: "http", Host: "peer", Path: "/orders/" + id, RawQuery: "page=" + id})
		}
		assert.Len(t, rt.Layer.Snapshot(), 1)
	})
	t.Run("10,000 hosts", func(t *testing.T) {
		t.Parallel()
		rt := overBase(t, plain, ok)
		for n := range 10_000 {
			send(rt, &url.URL{Scheme: "http", Host: "peer-" + strconv.Itoa(n), Path: "/"})
		}
		assert.Len(t, rt.Layer.Snapshot(), 1024)
	})
	t.Run("what is one host", func(t *testing.T) {
		t.Parallel()
		rt := overBase(t, quick(), ok)
		for _, url := range []string{
			"http://peer/", "http://PEER/x", "http://peer:80/?q", "http://user:secret@peer/#top",
			"https://peer/", "https://peer:443/", "http://peer:443/", "http://peer:8080/", "http://[::1]:80/", "http://[::1]/",
		} {
			get(rt, url)
		}
		var names []string
		for _, s := range rt.Layer.Snapshot() {
			names = append(names, s.Name)
		}
		assert.Equal(t, []string{"http://[::1]", "http://peer", "http://peer:443", "http://peer:8080", "https://peer"}, names)
	})
	t.Run("a name of one's own", func(t *testing.T) {
		t.Parallel()
		rt := overBase(t, quick(), ok)
		rt.Destination = func(req *http.Request) string { return strings.TrimPrefix(req.URL.Path, "/") }
		get(rt, "http://peer/orders")
		get(rt, "http://peer/")
		var names []string
		for _, s := range rt.Layer.Snapshot() {
			names = append(names, s.Name)
		}
		assert.Equal(t, []string{"http://peer", "orders"}, names)
	})
}

// B125: HTTP 500 counted as success. Always 500: after N calls the breaker is
// open; always 404: closed.
func TestH50WhatCounts(t *testing.T) {
	t.Parallel()
	for code, want := range map[int]breaker.State{500: breaker.Open, 408: breaker.Open, 404: breaker.Closed, 429: breaker.Closed, 200: breaker.Closed} {
		t.Run(fmt.Sprint(code), func(t *testing.T) {
			t.Parallel()
			p := quick()
			p.MaxAttempts = 1
			base := &script{codes: []int{code}}
			rt := overBase(t, p, base)
			for range 20 {
				resp, err := rt.RoundTrip(call(t, t.Context(), "GET", "http://peer/", ""))
				require.NoError(t, err)
				resp.Body.Close()
			}
			assert.Equal(t, want, rt.Layer.Snapshot()[0].Breaker)
			_, err := rt.RoundTrip(call(t, t.Context(), "GET", "http://other/", ""))
			assert.NoError(t, err, "another host")
		})
	}
}

// An open breaker: no send, no wait, no budget spent, body closed, error with the
// time of the next probe.
//
// B127: open breaker burns the retry loop.
func TestH51(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := inSteps()
		p.BaseDelay = 100 * time.Millisecond
		p.Breaker = breaker.Settings{MinResults: 4, OpenFor: 7 * time.Second}
		base := &script{codes: []int{500}}
		rt := overBase(t, p, base)

		// The call that opens it ends at once, with its response.
		start := time.Now()
		resp, err := rt.RoundTrip(call(t, t.Context(), "GET", "http://peer/", ""))
		require.NoError(t, err)
		assert.Equal(t, 500, resp.StatusCode)
		finish(t, resp)
		report := httpclient.ReportOf(resp)
		assert.ErrorIs(t, report.Stop, breaker.ErrOpen)
		assert.Positive(t, report.RetryAfter)
		assert.Equal(t, 4, base.sent, "requests")
		assert.Equal(t, 700*time.Millisecond, time.Since(start), "100, 200 and 400 ms of waits")

		// The next one is not sent.
		before := budgetOf(t, rt.Layer)
		body := &closings{Reader: strings.NewReader("pay")}
		req := call(t, t.Context(), "POST", "http://peer/", "")
		req.Body, req.ContentLength = body, 3
		start = time.Now()
		_, err = rt.RoundTrip(req)
		assert.Zero(t, time.Since(start), "time spent")
		assert.ErrorIs(t, err, breaker.ErrOpen)
		assert.NotErrorIs(t, err, retry.ErrOutcomeUnknown)
		e, ok := errors.AsType[*breaker.OpenError](err)
		require.Truef(t, ok, "RoundTrip = %v, want a *breaker.OpenError in it", err)
		assert.True(t, e.RetryAt.After(time.Now()), "RetryAt is %v, now is %v", e.RetryAt, time.Now())
		assert.Equal(t, "http://peer", e.Name)
		assert.Equal(t, 4, base.sent, "requests")
		assert.Equal(t, 1, body.closed, "closings of the body")
		assert.InDelta(t, before, budgetOf(t, rt.Layer), 1e-9)

		// At that time a probe goes out.
		time.Sleep(time.Until(e.RetryAt))
		base.codes = []int{200}
		resp, err = rt.RoundTrip(call(t, t.Context(), "GET", "http://peer/", ""))
		require.NoError(t, err)
		finish(t, resp)
		assert.Equal(t, 5, base.sent, "requests")
	})
}

// Retries, 421, 425 and 409 repeats all draw on the budget; it is refunded as
// written.
func TestH52(t *testing.T) {
	for _, c := range []struct {
		name  string
		codes []int
		sent  int
		left  float64 // of 3
	}{
		{"503 until attempts end", []int{503}, 3, 1},
		{"503, then a success", []int{503, 200}, 2, 3},
		{"503, then a 404", []int{503, 404}, 2, 3},
		{"503, then a 429, then a success", []int{503, 429, 200}, 3, 2},
		{"421, then a success", []int{421, 200}, 2, 3},
		{"421 twice: the server is well", []int{421}, 2, 3},
		{"425, then a 503", []int{425, 503}, 3, 1},
		{"409 of a stored key, then a 503", []int{409, 503}, 3, 1},
		{"409 until attempts end: the server is well", []int{409}, 3, 3},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := honored()
				p.Budget = retry.Budget{Burst: 3, PerSecond: 1e-9}
				base := &script{codes: c.codes}
				rt := overBase(t, p, base)
				resp, err := rt.RoundTrip(call(t, t.Context(), "POST", "http://peer/", ""))
				require.NoError(t, err)
				finish(t, resp)
				assert.Equal(t, c.sent, base.sent, "requests")
				assert.InDelta(t, c.left, budgetOf(t, rt.Layer), 1e-6)
			})
		})
	}
	t.Run("an empty one ends the call", func(t *testing.T) {
		for _, code := range []int{503, 421, 425, 409} {
			synctest.Test(t, func(t *testing.T) {
				p := honored()
				p.MaxAttempts = 10
				p.Budget = retry.Budget{Burst: 1, PerSecond: 1e-9}
				base := &script{codes: []int{503}}
				rt := overBase(t, p, base)
				resp, err := rt.RoundTrip(call(t, t.Context(), "POST", "http://peer/", ""))
				require.NoError(t, err)
				finish(t, resp)
				assert.Equal(t, 2, base.sent, "requests")
				assert.ErrorIs(t, httpclient.ReportOf(resp).Stop, retry.ErrBudget)

				base.codes = []int{code}
				resp, err = rt.RoundTrip(call(t, t.Context(), "POST", "http://peer/", ""))
				require.NoError(t, err)
				finish(t, resp)
				assert.Equal(t, code, resp.StatusCode)
				assert.Equal(t, 3, base.sent, "requests: a first attempt is never refused")
				assert.ErrorIs(t, httpclient.ReportOf(resp).Stop, retry.ErrBudget)
			})
		}
	})
	t.Run("a repeat that is never sent", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			p := inSteps()
			p.Budget = retry.Budget{Burst: 3, PerSecond: 1e-9}
			rt := overBase(t, p, &script{codes: []int{503}})
			ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
			defer cancel()
			time.AfterFunc(time.Second/2, cancel)
			_, err := rt.RoundTrip(call(t, ctx, "GET", "http://peer/", ""))
			assert.ErrorIs(t, err, context.Canceled)
			assert.InDelta(t, 3, budgetOf(t, rt.Layer), 1e-6)
		})
	})
	t.Run("a first success fills it", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			p := quick()
			p.Budget = retry.Budget{Burst: 3, Ratio: 0.5, PerSecond: 1e-9}
			base := &script{codes: []int{503, 503, 503, 200}}
			rt := overBase(t, p, base)
			for _, left := range []float64{1, 1.5, 2, 2.5, 3, 3} {
				resp, err := rt.RoundTrip(call(t, t.Context(), "GET", "http://peer/", ""))
				require.NoError(t, err)
				finish(t, resp)
				assert.InDelta(t, left, budgetOf(t, rt.Layer), 1e-6)
			}
		})
	})
}
