package httpclient_test

import (
	"context"
	"crypto/sha256"
	"fmt"
	"io"
	"maps"
	"math"
	"net/http"
	"reflect"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/reintento/reintento/httpclient"
	"github.com/reintento/reintento/retry"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// From the header on the wire to the wait: a server that answers twice with the
// status and the header, and then with 200.
func TestHintsFromTheWireToTheWait(t *testing.T) {
	const s = time.Second
	own := []time.Duration{100 * time.Millisecond, 200 * time.Millisecond}
	throttled := []time.Duration{1 * s, 2 * s}
	each := func(d time.Duration) []time.Duration { return []time.Duration{d, d} }
	in := func(d time.Duration, layout string) func() http.Header {
		return func() http.Header {
			return http.Header{"Retry-After": {time.Now().UTC().Add(d).Format(layout)}}
		}
	}
	after := func(value string) func() http.Header {
		return func() http.Header { return http.Header{"Retry-After": {value}} }
	}
	none := func() http.Header { return nil }
	type row struct {
		name   string
		status int
		header func() http.Header
		policy func(*retry.Policy)
		gaps   []time.Duration // none: one request, and no time passes
		stop   error
		hint   time.Duration // of a call that stops
	}
	rows := []row{
		// B01: a very large but valid integer is multiplied by one second, wraps int64 and comes back negative while still
		// flagged as parsed, so the client fires all retries at once at the very server that asked to be left alone.
		{"more seconds than a Duration holds", 429, after("9223372037"), nil, nil, retry.ErrPushback, math.MaxInt64},
		{"the largest int64", 429, after("9223372036854775807"), nil, nil, retry.ErrPushback, math.MaxInt64},

		// B02: a negative number (or a date already past) became a negative duration: one client threw from its sleeper and
		// lost a retryable call, another reused an old interval.
		{"a negative number", 503, after("-1"), nil, own, nil, 0},
		{"a date just past", 503, in(-s, http.TimeFormat), nil, own, nil, 0},

		// B03: some servers send sub-second decimals; integer parsers either crash, or cut the value to 0 and hammer the
		// server.
		{"half a second", 429, after("0.5"), nil, throttled, nil, 0},
		{"a fraction", 429, after("1.939"), nil, throttled, nil, 0},

		// B05: parsers know only the modern date form; an RFC 850 or asctime date is treated as missing and the retry comes
		// too early.
		{"an RFC 850 date", 503, in(20*s, "Monday, 02-Jan-06 15:04:05 GMT"), func(p *retry.Policy) { p.Deadline = time.Hour }, each(20 * s), nil, 0},
		{"an asctime date", 503, in(20*s, time.ANSIC), func(p *retry.Policy) { p.Deadline = time.Hour }, each(20 * s), nil, 0},

		// B06: Go's RFC1123 layout accepts any zone abbreviation and, if the name is unknown, invents one with offset zero, so
		// an EST date is silently read as UTC and the wait is hours off.
		{"another zone", 503, in(20*s, "Mon, 02 Jan 2006 15:04:05 EST"), nil, own, nil, 0},

		// B08: zero doubled as the library's 'do not retry' sentinel, so a server saying 'now is fine' killed the call;
		// elsewhere zero skipped the backoff and spun.
		{"zero", 429, after("0"), nil, throttled, nil, 0},

		// B09: the hint is obeyed without a ceiling; one report shows a wait of about three days which could not be
		// interrupted.
		{"three days", 429, after("277403"), func(p *retry.Policy) { p.Deadline, p.AttemptTimeout = 5*s, s }, nil, retry.ErrPushback, 277403 * s},
		{"more than the time that is left", 429, after("6"), func(p *retry.Policy) { p.Deadline, p.AttemptTimeout = 5*s, s }, nil, retry.ErrDeadline, 6 * s},

		// B10: hints above a ceiling were replaced by a short backoff (or clamped), so the client came back before the bucket
		// refilled and was throttled again, burning all attempts.
		{"a second above the limit", 429, after("61"), func(p *retry.Policy) { p.Deadline, p.MaxRetryAfter = time.Hour, time.Minute }, nil, retry.ErrPushback, 61 * s},
		{"the limit itself", 429, after("60"), func(p *retry.Policy) { p.Deadline, p.MaxRetryAfter = time.Hour, time.Minute }, each(60 * s), nil, 0},

		// B16: the parser's 'no value' result was taken as 'do not retry', so 429/500 without the header failed on the first
		// attempt.
		{"a 429 without the header", 429, none, nil, throttled, nil, 0},
		{"a 429 with junk", 429, after("soon"), nil, throttled, nil, 0},
		{"a 500 without the header", 500, none, nil, own, nil, 0},

		// B17: an absolute date is compared with the local clock; if the client is an hour behind, a 5 s wait becomes an hour
		// (or zero if it is ahead).
		{"a server an hour ahead", 503, func() http.Header {
			there := time.Now().UTC().Add(time.Hour)
			return http.Header{"Date": {there.Format(http.TimeFormat)}, "Retry-After": {there.Add(5 * s).Format(http.TimeFormat)}}
		}, nil, each(5 * s), nil, 0},
		{"a server an hour behind", 503, func() http.Header {
			there := time.Now().UTC().Add(-time.Hour)
			return http.Header{"Date": {there.Format(http.TimeFormat)}, "Retry-After": {there.Add(5 * s).Format(http.TimeFormat)}}
		}, nil, each(5 * s), nil, 0},
		{"an answer from a cache", 503, func() http.Header {
			now := time.Now().UTC()
			return http.Header{"Date": {now.Add(-time.Hour).Format(http.TimeFormat)}, "Age": {"3600"}, "Retry-After": {now.Add(5 * s).Format(http.TimeFormat)}}
		}, nil, each(5 * s), nil, 0},

		// B22: a secondary rate limit answers 403 with Retry-After while the main quota is still positive; it was classed as a
		// permanent denial and the work stayed blocked.
		{"a 403 with the header", 403, after("3"), nil, each(3 * s), nil, 0},
		{"a plain 403", 403, none, nil, nil, retry.ErrPermanent, 0},
	}
	// B04: values such as -3, +3 or 1.5 failed the digits test, fell through to a lenient date parser and came back as a date
	// decades ahead; a superscript digit passed an is-digit test and crashed the parser.
	for _, junk := range []string{"+5", "-3", "1.5", "1e3", "0x10", "inf", "NaN", "²", "5;q=1", "5, 10", ""} {
		rows = append(rows, row{fmt.Sprintf("junk %q", junk), 429, after(junk), nil, throttled, nil, 0})
	}
	// B14: 503 is the classic carrier of the header, yet several clients read it only on 429. It counts on every status that
	// is going to be repeated.
	for _, status := range []int{403, 408, 413, 429, 499, 500, 502, 503, 504, 509, 520, 521, 524, 525, 529, 598, 600} {
		rows = append(rows, row{fmt.Sprintf("a hint on %d", status), status, after("4"), nil, each(4 * s), nil, 0})
	}
	for _, r := range rows {
		t.Run(r.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var at []time.Time
				base := inBubble(t, func(w http.ResponseWriter, _ *http.Request) {
					if at = append(at, time.Now()); len(at) == 3 {
						return
					}
					maps.Copy(w.Header(), r.header())
					w.WriteHeader(r.status)
				})
				p := retry.Policy{Jitter: retry.NoJitter}
				if r.policy != nil {
					r.policy(&p)
				}
				start := time.Now()
				resp, err := overBase(t, p, base).RoundTrip(call(t, t.Context(), "GET", "http://peer/", ""))
				require.NoError(t, err)
				finish(t, resp)
				var gaps []time.Duration
				for i := range at[1:] {
					gaps = append(gaps, at[i+1].Sub(at[i]))
				}
				assert.Equal(t, r.gaps, gaps, "times between the requests")
				report := httpclient.ReportOf(resp)
				if r.stop == nil {
					assert.Equal(t, 200, resp.StatusCode)
					assert.NoError(t, report.Stop)
					return
				}
				assert.Equal(t, r.status, resp.StatusCode)
				assert.ErrorIs(t, report.Stop, r.stop)
				assert.Equal(t, r.hint, report.RetryAfter)
				assert.Zero(t, time.Since(start), "time spent")
			})
		})
	}
}

// B07: an expired date becomes a zero wait which also skips jitter, so a cached
// or skewed header makes the whole fleet retry in step with no pause. A past date
// carries no minimum: the own delay, spread over clients, paid by the budget.
func TestPastDateLeavesTheOwnDelay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const clients, attempts = 50, 5
		distinct := map[time.Duration]bool{}
		var firsts time.Duration
		for range clients {
			var at []time.Time
			rt := overBase(t, retry.Policy{MaxAttempts: attempts}, roundTrip(func(req *http.Request) (*http.Response, error) {
				at = append(at, time.Now())
				return givenAnswer(req, 503, http.Header{"Retry-After": {"Fri, 31 Dec 1999 23:59:59 GMT"}}, ""), nil
			}))
			resp, err := rt.RoundTrip(call(t, t.Context(), "GET", "http://peer/", ""))
			require.NoError(t, err)
			finish(t, resp)
			require.Len(t, at, attempts)
			for i := range at[1:] {
				gap, most := at[i+1].Sub(at[i]), 100*time.Millisecond<<i
				assert.LessOrEqual(t, gap, most, "wait %d", i+1)
				distinct[gap] = true
			}
			firsts += at[1].Sub(at[0])
			assert.InDelta(t, 10-(attempts-1), budgetOf(t, rt.Layer), 0.1, "budget after %d repeats", attempts-1)
		}
		assert.Greater(t, len(distinct), clients*(attempts-1)*9/10, "different waits of %d", clients*(attempts-1))
		assert.InDelta(t, 50*time.Millisecond, firsts/clients, float64(25*time.Millisecond), "mean of the first waits")
	})
}

// B30: a server may answer before reading the whole upload; RoundTrip returns
// while the write loop still reads the reader, so that rewinding a shared one is
// a race and can corrupt the body that is sent again. Here the reader cannot be
// opened anew: what was read of it is kept, and each attempt has a reader of its
// own over that.
func TestEarlyAnswerLeavesTheStreamWhole(t *testing.T) {
	t.Parallel()
	const size = 8 << 20
	data := make([]byte, size)
	for i := range data {
		data[i] = byte(i ^ i>>8 ^ i>>16)
	}
	want := sha256.Sum256(data)
	overProtocols(t, func(t *testing.T, protocol string) {
		var mu sync.Mutex
		var requests int
		var accepted [][sha256.Size]byte
		s := newSite(t, protocol, func(w http.ResponseWriter, r *http.Request) {
			mu.Lock()
			requests++
			early := requests%2 == 1
			mu.Unlock()
			if early {
				_ = http.NewResponseController(w).EnableFullDuplex()
				w.WriteHeader(http.StatusServiceUnavailable)
				return
			}
			h := sha256.New()
			if _, err := io.Copy(h, r.Body); err == nil {
				mu.Lock()
				accepted = append(accepted, [sha256.Size]byte(h.Sum(nil)))
				mu.Unlock()
			}
		})
		tr := overBase(t, honoured(), s.base)
		tr.ReplayBuffer = 2 * size
		for run := range 4 {
			req, err := http.NewRequestWithContext(t.Context(), "POST", s.URL, only(strings.NewReader(string(data))))
			require.NoError(t, err)
			if run%2 == 0 {
				req.ContentLength = size
			}
			resp, err := tr.RoundTrip(req)
			require.NoError(t, err)
			readAll(t, resp)
			require.Equal(t, http.StatusOK, resp.StatusCode, "run %d: %v", run, httpclient.ReportOf(resp).Stop)
			mu.Lock()
			got := accepted
			mu.Unlock()
			require.Len(t, got, run+1)
			require.Equal(t, want, got[run], "sum of the bytes accepted in run %d", run)
		}
	})
}

// gated is a reader whose first Read waits, and that is read by one goroutine at a
// time.
type gated struct {
	t      *testing.T
	src    io.Reader
	gate   chan struct{} // closed to let the first Read go on
	inside atomic.Int64
}

func (g *gated) Read(p []byte) (int, error) {
	if g.inside.Add(1) > 1 {
		g.t.Error("two attempts read from one reader at the same time")
	}
	defer g.inside.Add(-1)
	<-g.gate
	return g.src.Read(p)
}

// B30, in order: the answer comes while the first attempt's read is under way, and
// the second attempt reads before that has ended.
func TestReaderIsReadByOneAttemptAtATime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const data = "the body of the caller"
		src := &gated{t: t, src: strings.NewReader(data), gate: make(chan struct{})}
		var n int
		var first error
		rt := overBase(t, honoured(), roundTrip(func(req *http.Request) (*http.Response, error) {
			if n++; n == 1 {
				go func() { _, first = io.Copy(io.Discard, req.Body) }()
				synctest.Wait()
				return givenAnswer(req, 503, nil, ""), nil
			}
			time.AfterFunc(time.Second, func() { close(src.gate) }) // when all wait
			b, err := io.ReadAll(req.Body)
			assert.NoError(t, err)
			assert.Equal(t, data, string(b), "the body of the second attempt")
			return givenAnswer(req, 200, nil, ""), nil
		}))
		req := call(t, t.Context(), "POST", "http://peer/", "")
		req.Body = io.NopCloser(src)
		resp, err := rt.RoundTrip(req)
		require.NoError(t, err)
		finish(t, resp)
		assert.Equal(t, 200, resp.StatusCode)
		assert.Equal(t, 2, n, "attempts")
		synctest.Wait()
		assert.Error(t, first, "the first attempt's read, which has been overtaken")
	})
}

// B59: the client timeout covers all attempts and sleeps; a timed-out attempt has
// used it up, so a timeout can never be retried though the policy says so. The
// error says so, and a time limit of each attempt leaves room for more.
func TestClientTimeoutIsOfTheWhole(t *testing.T) {
	for _, c := range []struct {
		name     string
		timeout  time.Duration // of an attempt
		attempts int
		stop     error
		says     string
	}{
		{"used up by the first attempt", retry.NoLimit, 1, retry.ErrDeadline, "no time left after 1 attempt in 95ms"},
		{"shared out", 20 * time.Millisecond, 4, retry.ErrAttempts, "attempts used up after 4 attempts in 80"},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var requests atomic.Int64
				base := inBubble(t, func(_ http.ResponseWriter, r *http.Request) {
					requests.Add(1)
					select {
					case <-time.After(300 * time.Millisecond):
					case <-r.Context().Done():
					}
				})
				p := quick()
				p.MaxAttempts, p.AttemptTimeout = 4, c.timeout
				client := &http.Client{Timeout: 100 * time.Millisecond, Transport: overBase(t, p, base)}
				_, err := client.Get("http://peer/")
				assert.ErrorIs(t, err, c.stop)
				assert.ErrorIs(t, err, context.DeadlineExceeded)
				assert.ErrorContains(t, err, c.says)
				assert.EqualValues(t, c.attempts, requests.Load(), "requests at the server")
			})
		})
	}
}

// B69: Request Timeout is in the 4xx range and was dropped although the server
// never got the full request. It is repeated where that cannot double an effect.
func TestRequestTimeoutIsRepeated(t *testing.T) {
	t.Parallel()
	overProtocols(t, func(t *testing.T, protocol string) {
		for _, o := range operations {
			var b bank
			s := newSite(t, protocol, func(w http.ResponseWriter, r *http.Request) {
				if _, n := b.act(r); n == 1 {
					w.WriteHeader(http.StatusRequestTimeout)
				}
			})
			resp, err := overBase(t, o.policy(), s.base).RoundTrip(o.request(t, t.Context(), s.URL))
			require.NoError(t, err)
			readAll(t, resp)
			_, bodies, _ := b.seen()
			if o.safety == retry.Unsafe {
				assert.Equal(t, http.StatusRequestTimeout, resp.StatusCode, o.name)
				assert.ErrorIs(t, httpclient.Check(resp), retry.ErrOutcomeUnknown, o.name)
				assert.Equal(t, []string{o.body}, bodies, "bodies of %s", o.name)
				continue
			}
			assert.Equal(t, http.StatusOK, resp.StatusCode, o.name)
			assert.Equal(t, []string{o.body, o.body}, bodies, "bodies of %s", o.name)
		}
	})
}

// B132: turning retries on generated a new key because the 'already set?' test
// looked in the wrong form of the headers. The caller's key wins in every attempt:
// in another case, in a map, as an option of the operation around.
func TestCallersKeyIsSentInEveryAttempt(t *testing.T) {
	t.Parallel()
	for name, way := range map[string]struct {
		request func(*http.Request)
		options []retry.CallOption
	}{
		"Header.Set": {request: func(r *http.Request) { r.Header.Set("idempotency-key", "K") }},
		"a map":      {request: func(r *http.Request) { r.Header = http.Header{"idempotency-key": {"K"}} }},
		"an option":  {options: []retry.CallOption{retry.WithKey("K")}},
		"header, option": {request: func(r *http.Request) { r.Header["IDEMPOTENCY-KEY"] = []string{"K"} },
			options: []retry.CallOption{retry.WithKey("L")}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			overProtocols(t, func(t *testing.T, protocol string) {
				var b bank
				s := newSite(t, protocol, func(w http.ResponseWriter, r *http.Request) {
					if _, n := b.act(r); n < 3 {
						cut(r)
					}
				})
				tr := overBase(t, steady(), s.base)
				err := tr.Layer.To("operation").Do(t.Context(), retry.Keyed, func(ctx context.Context) error {
					req := call(t, ctx, "POST", s.URL, "pay")
					if way.request != nil {
						way.request(req)
					}
					resp, err := tr.RoundTrip(req)
					if err != nil {
						return err
					}
					defer resp.Body.Close()
					return httpclient.Check(resp)
				}, way.options...)
				require.NoError(t, err)
				keys, _, effects := b.seen()
				assert.Equal(t, []string{"K", "K", "K"}, keys)
				assert.Equal(t, 1, effects)
			})
		})
	}
}

// B140: some servers store and replay any result, also 500/504, for the same key;
// the loop burns all attempts on a cached answer which looks fresh. The mark ends
// it, under the one key, and the outcome is left to the caller to find out.
func TestReplayedErrorEndsTheLoop(t *testing.T) {
	t.Parallel()
	overProtocols(t, func(t *testing.T, protocol string) {
		for _, status := range []int{500, 504} {
			var b bank
			s := newSite(t, protocol, func(w http.ResponseWriter, r *http.Request) {
				if _, n := b.act(r); n > 1 {
					w.Header().Set("Idempotent-Replayed", "true")
				}
				w.WriteHeader(status)
			})
			p := honoured()
			p.MaxAttempts = 5
			resp, err := keyed(t.Context(), &http.Client{Transport: overBase(t, p, s.base)}, s.URL)
			require.NoError(t, err)
			assert.Equal(t, status, resp.StatusCode)
			report := httpclient.ReportOf(resp)
			assert.ErrorIs(t, report.Stop, retry.ErrPermanent)
			assert.Equal(t, retry.Unknown, report.Outcome)
			keys, _, _ := b.seen()
			assert.Equal(t, []string{report.Intention.Key, report.Intention.Key}, keys, "keys sent for a %d", status)
		}
	})
}

// B153: a setting stays in the struct (and docs) after the code stopped using it.
// Each field of a Transport changes what happens.
func TestEveryFieldOfATransportChangesWhatHappens(t *testing.T) {
	// What happens to a write and to a read whose answer stands still, in a few
	// words.
	behaviour := func(t *testing.T, change func(*httpclient.Transport)) (out string) {
		synctest.Test(t, func(t *testing.T) {
			tr := overBase(t, quick(), roundTrip(func(req *http.Request) (*http.Response, error) {
				if req.Method == "PUT" {
					_, _ = io.Copy(io.Discard, req.Body)
					return givenAnswer(req, 503, nil, ""), nil
				}
				b := &stalled{closed: make(chan struct{})}
				context.AfterFunc(req.Context(), func() { b.Close() })
				return &http.Response{StatusCode: 200, Header: http.Header{}, Body: b, Request: req}, nil
			}))
			change(tr)
			req := call(t, t.Context(), "PUT", "http://peer/", "")
			req.Body = io.NopCloser(only(strings.NewReader("set to 10")))
			resp, err := tr.RoundTrip(req)
			if err != nil {
				out = err.Error()
				return
			}
			finish(t, resp)
			report := httpclient.ReportOf(resp)
			out = fmt.Sprint(report.Destination, resp.StatusCode, len(report.Attempts))

			ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
			defer cancel()
			start := time.Now()
			resp, err = tr.RoundTrip(call(t, ctx, "GET", "http://peer/", ""))
			require.NoError(t, err)
			_, err = io.ReadAll(resp.Body)
			out += fmt.Sprint(err != nil, time.Since(start))
			require.NoError(t, resp.Body.Close())
		})
		return out
	}
	changes := map[string]func(*httpclient.Transport){
		"Layer":           func(tr *httpclient.Transport) { tr.Layer = nil },
		"Base":            func(tr *httpclient.Transport) { tr.Base = &script{codes: []int{200}} },
		"Destination":     func(tr *httpclient.Transport) { tr.Destination = func(*http.Request) string { return "orders" } },
		"BodyIdleTimeout": func(tr *httpclient.Transport) { tr.BodyIdleTimeout = time.Minute },
		"ReplayBuffer":    func(tr *httpclient.Transport) { tr.ReplayBuffer = 8 },
	}
	plain := behaviour(t, func(*httpclient.Transport) {})
	assert.Equal(t, plain, behaviour(t, func(*httpclient.Transport) {}), "the same Transport twice")
	for f := range reflect.TypeFor[httpclient.Transport]().Fields() {
		if !f.IsExported() {
			continue
		}
		change, ok := changes[f.Name]
		if !assert.True(t, ok, "the field %s has no row", f.Name) {
			continue
		}
		assert.NotEqual(t, plain, behaviour(t, change), "behaviour with another %s", f.Name)
	}
}
