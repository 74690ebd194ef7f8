package httpclient_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
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

// keyed writes something by a POST and returns the response, read to its end.
func keyed(ctx context.Context, c *http.Client, url string) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, "POST", url, strings.NewReader("amount=12"))
	if err != nil {
		return nil, err
	}
	resp, err := c.Do(req)
	if err != nil {
		return nil, err
	}
	_, err = io.Copy(io.Discard, resp.Body)
	return resp, errors.Join(err, resp.Body.Close())
}

// 24. One key per intention over attempts, redirect hops (307/308, recovered
// from the previous hop's request) and a surrounding retry.Do; two calls never
// share one.
//
// B52: a key added inside RoundTrip is not in the caller's original headers, from
// which http.Client makes the next hop: the server saw two intentions. B134: key
// generation sat inside the repeated function, or was dropped on one path.
// B136: a key derived from the payload differs for a repeat that holds another
// time; ours is random once, and two equal payments have two.
func TestH24OneKey(t *testing.T) {
	t.Parallel()
	overProtocols(t, func(t *testing.T, protocol string) {
		var b bank
		s := newSite(t, protocol, func(w http.ResponseWriter, r *http.Request) {
			_, n := b.act(r)
			switch {
			case r.URL.Path == "/a" && n == 1:
				cut(r)
			case r.URL.Path == "/a":
				http.Redirect(w, r, "/b", http.StatusTemporaryRedirect)
			case r.URL.Path == "/b" && n == 3:
				w.WriteHeader(http.StatusInternalServerError)
			case r.URL.Path == "/b" && n == 4:
				w.Header().Set("Retry-After-Ms", "1")
				w.WriteHeader(http.StatusTooManyRequests)
			case r.URL.Path == "/b":
				http.Redirect(w, r, "/c", http.StatusPermanentRedirect)
			case r.URL.Path == "/c" && n == 6:
				cut(r)
			}
		})
		p := honoured()
		p.PrivatePushback = true
		intentions := map[string]bool{}
		for _, timeout := range []time.Duration{0, time.Minute} {
			b = bank{}
			c := &http.Client{Transport: overBase(t, p, s.base), Timeout: timeout}
			resp, err := keyed(t.Context(), c, s.URL+"/a")
			require.NoError(t, err)
			require.Equal(t, 200, resp.StatusCode)
			keys, bodies, _ := b.seen()
			require.Len(t, keys, 7)
			assert.Len(t, slices.Compact(slices.Clone(keys)), 1, "keys of one intention: %q", keys)
			assert.Len(t, slices.Compact(bodies), 1)
			assert.NotEmpty(t, keys[0])
			assert.Len(t, keys[0], 36, "a UUID as text")
			assert.Equal(t, keys[0], httpclient.ReportOf(resp).Intention.Key)
			assert.False(t, intentions[keys[0]], "a key of another intention")
			intentions[keys[0]] = true
		}
	})
	t.Run("inside retry.Do", func(t *testing.T) {
		t.Parallel()
		var b bank
		s := newSite(t, http1, func(w http.ResponseWriter, r *http.Request) {
			_, n := b.act(r)
			switch {
			case r.URL.Path == "/first":
				http.Redirect(w, r, "/hop", http.StatusTemporaryRedirect)
			case r.URL.Path == "/second" && n < 8:
				cut(r)
			}
		})
		c := &http.Client{Transport: overBase(t, steady(), s.base)}
		d, err := retry.NewDestination("bank", steady(), nil)
		require.NoError(t, err)
		operation := func(ctx context.Context) error {
			for _, path := range []string{"/first", "/first", "/second"} {
				if _, err := keyed(ctx, c, s.URL+path); err != nil {
					return err
				}
			}
			return nil
		}
		require.NoError(t, d.Do(t.Context(), retry.Keyed, operation))
		keys, _, _ := b.seen()
		require.Len(t, keys, 10, "requests of two attempts")
		assert.Equal(t, keys[:5], keys[5:], "the keys of both attempts")
		assert.Equal(t, keys[0], keys[1], "the keys of a redirect's hops")
		assert.NotEqual(t, keys[0], keys[2], "the keys of two equal writes")
		assert.NotEqual(t, keys[0], keys[4], "the keys of two writes")

		require.NoError(t, d.Do(t.Context(), retry.Keyed, operation))
		again, _, _ := b.seen()
		for _, k := range again[10:] {
			assert.NotContains(t, keys, k, "a key of another operation")
		}
	})
	t.Run("the deadline goes on over the hops", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) {
			base := inBubble(t, func(w http.ResponseWriter, r *http.Request) {
				select {
				case <-time.After(3 * time.Second):
				case <-r.Context().Done():
				}
				http.Redirect(w, r, r.URL.Path+"x", http.StatusPermanentRedirect)
			})
			p := quick()
			p.Deadline = 10 * time.Second
			for _, method := range []string{"POST", "GET"} {
				start := time.Now()
				req, err := http.NewRequestWithContext(t.Context(), method, "http://host.example/", nil)
				require.NoError(t, err)
				_, err = (&http.Client{Transport: overBase(t, p, base)}).Do(req)
				assert.ErrorIs(t, err, retry.ErrDeadline)
				assert.Equal(t, 10*time.Second, time.Since(start), "time of a %s", method)
			}
		})
	})
	t.Run("what is unknown stays unknown over the hops", func(t *testing.T) {
		t.Parallel()
		var requests atomic.Int64
		s := newSite(t, http1, func(w http.ResponseWriter, r *http.Request) {
			switch {
			case requests.Add(1) == 1:
				cut(r)
			case r.URL.Path == "/":
				http.Redirect(w, r, "/moved", http.StatusTemporaryRedirect)
			default:
				w.WriteHeader(http.StatusNotFound)
			}
		})
		req, err := http.NewRequestWithContext(t.Context(), "DELETE", s.URL+"/", nil)
		require.NoError(t, err)
		resp, err := (&http.Client{Transport: overBase(t, quick(), s.base)}).Do(req)
		require.NoError(t, err)
		readAll(t, resp)
		assert.Equal(t, http.StatusNotFound, resp.StatusCode)
		assert.EqualValues(t, 3, requests.Load())
		report := httpclient.ReportOf(resp)
		assert.Equal(t, retry.Unknown, report.Outcome)
		assert.Len(t, report.Attempts, 1, "attempts count anew in each hop")
	})
}

// 25. The caller's header is never replaced, in any spelling, nil or empty slice
// included.
//
// B132: turning retries on generated a new key because the 'already set?' test
// looked in the wrong form of the headers.
func TestH25CallersHeader(t *testing.T) {
	t.Parallel()
	overConnections(t, func(t *testing.T, protocol string, reused bool) {
		var mu sync.Mutex
		var name string // under which the caller has its key
		var seen [][]string
		s := newSite(t, protocol, func(w http.ResponseWriter, r *http.Request) {
			_, _ = io.Copy(io.Discard, r.Body)
			if r.Method == "HEAD" {
				return
			}
			mu.Lock()
			defer mu.Unlock()
			seen = append(seen, r.Header.Values(name))
			if http.CanonicalHeaderKey(name) != "Idempotency-Key" && r.Header.Get("Idempotency-Key") != "" {
				t.Errorf("Idempotency-Key was added beside %s", name)
			}
			cut(r)
		})
		for _, header := range []string{"Idempotency-Key", "X-Idempotency-Key", "Paypal-Request-Id"} {
			p := steady()
			p.Key.Header = header
			c := &http.Client{Transport: overBase(t, p, s.base)}
			for kind, body := range payments {
				for _, row := range []struct {
					spelling string
					values   []string
				}{
					{header, []string{"own-key"}},
					{strings.ToLower(header), []string{"own-key"}},
					{strings.ToUpper(header), []string{"own-key"}},
					{header, nil},
					{strings.ToLower(header), []string{}},
				} {
					mu.Lock()
					name, seen = row.spelling, nil
					mu.Unlock()
					if reused {
						s.warm(t)
					}
					req, err := http.NewRequestWithContext(t.Context(), "POST", s.URL, body())
					require.NoError(t, err)
					req.Header[row.spelling] = row.values
					_, err = c.Do(req)
					require.Error(t, err)
					// Both a key and none are the caller's word that the request may
					// be repeated.
					mu.Lock()
					require.Len(t, seen, 3, "requests with %q under %s, %s", row.values, row.spelling, kind)
					for i, got := range seen {
						if !slices.Equal(got, row.values) {
							t.Errorf("request %d with %q under %s, %s, has the values %q", i+1, row.values, row.spelling, kind, got)
						}
					}
					mu.Unlock()
				}
			}
		}
	})
	t.Run("as a string of RFC 8941", func(t *testing.T) {
		t.Parallel()
		var seen []string
		s := newSite(t, http1, func(w http.ResponseWriter, r *http.Request) { seen = append(seen, r.Header.Get("Idempotency-Key")) })
		p := quick()
		p.Key.Format = retry.StructuredString
		c := &http.Client{Transport: overBase(t, p, s.base)}
		req, err := http.NewRequestWithContext(t.Context(), "POST", s.URL, nil)
		require.NoError(t, err)
		req.Header.Set("Idempotency-Key", `"own-key"`)
		resp, err := c.Do(req)
		require.NoError(t, err)
		readAll(t, resp)
		assert.Equal(t, "own-key", httpclient.ReportOf(resp).Intention.Key)
		resp, err = keyed(t.Context(), c, s.URL)
		require.NoError(t, err)
		assert.Equal(t, []string{`"own-key"`, `"` + httpclient.ReportOf(resp).Intention.Key + `"`}, seen)
	})
	t.Run("another header that net/http knows", func(t *testing.T) {
		// It declares nothing here, and on HTTP/1 net/http must not take it as a
		// leave to send a write without body again.
		overConnections(t, func(t *testing.T, protocol string, reused bool) {
			for _, name := range []string{"Idempotency-Key", "X-Idempotency-Key"} {
				var b bank
				s := cutting(t, &b, protocol, reused)
				p := steady()
				p.Key.Header = "Paypal-Request-Id"
				req, err := http.NewRequestWithContext(t.Context(), "POST", s.URL, nil)
				require.NoError(t, err)
				req.Header.Set(name, "own")
				_, err = (&http.Client{Transport: overBase(t, p, s.base)}).Do(req)
				assert.ErrorIs(t, err, retry.ErrOutcomeUnknown)
				keys, _, _ := b.seen()
				assert.Len(t, keys, 1, "requests with %s", name)
			}
		})
	})
}

// 26. An invalid caller's key fails before the first send.
func TestH26InvalidKey(t *testing.T) {
	t.Parallel()
	sends := 0
	c := &http.Client{Transport: overBase(t, quick(), roundTripFunc(func(*http.Request) (*http.Response, error) {
		sends++
		return nil, errors.New("sent")
	}))}
	for name, values := range map[string][]string{
		"empty":        {""},
		"blank":        {"a b"},
		"a comma":      {"a,b"},
		"two values":   {"a", "b"},
		"quotes":       {`"a"`},
		"a backslash":  {`a\b`},
		"a line break": {"a\nb"},
		"not ASCII":    {"ключ"},
		"too long":     {strings.Repeat("x", 256)},
	} {
		req, err := http.NewRequestWithContext(t.Context(), "POST", "http://host.example", strings.NewReader("x"))
		require.NoError(t, err)
		req.Header["Idempotency-Key"] = values
		_, err = c.Do(req)
		assert.ErrorContains(t, err, "idempotency key", name)
		assert.NotErrorIs(t, err, retry.ErrOutcomeUnknown, name)
		assert.Equal(t, retry.NotApplied, failureOf(t, err).Outcome, name)

		if len(values) == 1 && values[0] != "" {
			ctx := retry.WithIntention(t.Context(), retry.Intention{Key: values[0]})
			_, err = keyed(ctx, c, "http://host.example")
			assert.ErrorContains(t, err, "idempotency key", name)
		}
	}
	req, err := http.NewRequestWithContext(t.Context(), "POST", "http://host.example", nil)
	require.NoError(t, err)
	req.Header["Idempotency-Key"], req.Header["idempotency-key"] = []string{"a"}, []string{"b"}
	_, err = c.Do(req)
	assert.ErrorContains(t, err, "idempotency key", "two spellings")
	assert.Zero(t, sends, "requests sent")

	req.Header = http.Header{"Idempotency-Key": {strings.Repeat("~", 255)}}
	_, err = c.Do(req)
	assert.Error(t, err)
	assert.Equal(t, 3, sends, "requests sent with the longest key")
}

// post makes a write that has header h, and returns the response, read to its end.
func post(t *testing.T, c *http.Client, url string, h http.Header) *http.Response {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), "POST", url, strings.NewReader("amount=12"))
	require.NoError(t, err)
	if h != nil {
		req.Header = h.Clone()
	}
	resp, err := c.Do(req)
	require.NoError(t, err)
	readAll(t, resp)
	return resp
}

// elsewhere is a request as another origin saw it.
type elsewhere struct{ method, body, key string }

// 27. No key on the GET after 301/302/303. A redirect of a write to another
// origin is not followed by default by clients made here (CheckRedirect), and the
// key never goes there.
//
// B54: Go strips Authorization and Cookie when the host changes, but custom
// headers such as Idempotency-Key go to the other host with the body.
func TestH27KeyStaysAtItsOrigin(t *testing.T) {
	t.Parallel()
	headers := map[string]http.Header{
		"made here":     {},
		"the caller's":  {"Idempotency-Key": {"own-key"}},
		"small letters": {"idempotency-key": {"own-key"}},
	}
	t.Run("the GET after a redirect", func(t *testing.T) {
		overProtocols(t, func(t *testing.T, protocol string) {
			for name, h := range headers {
				for _, code := range []int{301, 302, 303} {
					var b bank
					s := newSite(t, protocol, func(w http.ResponseWriter, r *http.Request) {
						b.act(r)
						if r.Method == "POST" {
							http.Redirect(w, r, "/seen", code)
						}
					})
					resp := post(t, &http.Client{Transport: overBase(t, honoured(), s.base)}, s.URL, h)
					assert.Equal(t, 200, resp.StatusCode)
					keys, _, _ := b.seen()
					require.Len(t, keys, 2)
					assert.NotEmpty(t, keys[0])
					assert.Empty(t, keys[1], "key (%s) of the GET after a %d", name, code)
					assert.Empty(t, httpclient.ReportOf(resp).Intention.Key)
				}
			}
		})
	})

	var mu sync.Mutex
	var seen []elsewhere
	var home *site
	other := newSite(t, http1, func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		mu.Lock()
		seen = append(seen, elsewhere{r.Method, string(body), r.Header.Get("Idempotency-Key")})
		mu.Unlock()
		switch r.URL.Path {
		case "/hop":
			http.Redirect(w, r, "/end", http.StatusTemporaryRedirect)
		case "/back":
			http.Redirect(w, r, home.URL+"/end", http.StatusTemporaryRedirect)
		case "/cut":
			cut(r)
		}
	})
	var b bank
	home = newSite(t, http1, func(w http.ResponseWriter, r *http.Request) {
		if r.Method == "POST" {
			b.act(r)
		}
		if r.URL.Path != "/end" {
			code := http.StatusTemporaryRedirect
			if r.URL.Path == "/303" {
				code = http.StatusSeeOther
			}
			http.Redirect(w, r, other.URL+r.URL.Path, code)
		}
	})
	// taken returns what the other origin saw since the last time.
	taken := func() []elsewhere {
		mu.Lock()
		defer mu.Unlock()
		defer func() { seen = nil }()
		return seen
	}
	t.Run("clients made here", func(t *testing.T) {
		c, err := httpclient.New(honoured(), nil)
		require.NoError(t, err)
		defer c.CloseIdleConnections()
		for name, h := range headers {
			for _, path := range []string{"/307", "/303"} {
				resp := post(t, c, home.URL+path, h)
				assert.Equal(t, other.URL+path, resp.Header.Get("Location"), "the caller gets the redirect, key %s", name)
				assert.Empty(t, taken(), "requests that the other origin saw")
			}
		}
		resp, err := c.Get(home.URL + "/read")
		require.NoError(t, err)
		readAll(t, resp)
		assert.Equal(t, 200, resp.StatusCode)
		assert.Equal(t, []elsewhere{{method: "GET"}}, taken(), "a read is followed")
	})
	t.Run("other clients", func(t *testing.T) {
		for name, h := range headers {
			for _, path := range []string{"/307", "/hop", "/back", "/303"} {
				b = bank{}
				tr := overBase(t, honoured(), fresh(t))
				resp := post(t, &http.Client{Transport: tr}, home.URL+path, h)
				assert.Equal(t, 200, resp.StatusCode)
				requests := taken()
				require.NotEmpty(t, requests)
				for _, r := range requests {
					if r.method == "POST" {
						assert.Equal(t, "amount=12", r.body)
					}
					assert.Empty(t, r.key, "key (%s) at the other origin by way of %s", name, path)
				}
				keys, _, _ := b.seen()
				for i, k := range keys {
					assert.Equal(t, i == 0, k != "", "key (%s) in request %d at the first origin by way of %s", name, i+1, path)
				}
			}
			// Without its key, a write elsewhere is not repeated.
			req, err := http.NewRequestWithContext(t.Context(), "POST", home.URL+"/cut", strings.NewReader("x"))
			require.NoError(t, err)
			req.Header = h.Clone()
			_, err = (&http.Client{Transport: overBase(t, honoured(), fresh(t))}).Do(req)
			assert.ErrorIs(t, err, retry.ErrOutcomeUnknown)
			assert.Len(t, taken(), 1)
		}
	})
}

// 24, 27. Where a request goes is what its caller said: a base that finds the
// server by another URL, as service discovery does, has not left the origin.
func TestH24OverARewritingBase(t *testing.T) {
	t.Parallel()
	var keys []string
	s := newSite(t, http1, func(w http.ResponseWriter, r *http.Request) {
		keys = append(keys, r.Header.Get("Idempotency-Key"))
		_, _ = io.Copy(io.Discard, r.Body)
		if r.URL.Path == "/a" {
			http.Redirect(w, r, "/b", http.StatusTemporaryRedirect)
		}
	})
	found, err := url.Parse(s.URL)
	require.NoError(t, err)
	tr := overBase(t, honoured(), roundTripFunc(func(r *http.Request) (*http.Response, error) {
		r = r.Clone(r.Context())
		r.URL.Host = found.Host
		return s.base.RoundTrip(r)
	}))
	for _, rt := range []*httpclient.Transport{tr, overBase(t, honoured(), tr)} {
		keys = nil
		client := httpclient.ForLayer(rt.Layer)
		client.Transport = rt
		resp := post(t, client, "http://payments.internal/a", nil)
		assert.Equal(t, 200, resp.StatusCode)
		require.Len(t, keys, 2, "requests")
		assert.NotEmpty(t, keys[0])
		assert.Equal(t, keys[0], keys[1], "key of the second hop")
	}
}

// 27. The key goes to no other origin under the name that the first one has for
// it either, and not with the read after a 303.
func TestH27KeyUnderAnotherName(t *testing.T) {
	t.Parallel()
	var seen []http.Header
	other := newSite(t, http1, func(_ http.ResponseWriter, r *http.Request) { seen = append(seen, r.Header) })
	home := newSite(t, http1, func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/303":
			http.Redirect(w, r, other.URL, http.StatusSeeOther)
		case "/307":
			http.Redirect(w, r, other.URL, http.StatusTemporaryRedirect)
		case "/both":
			http.Redirect(w, r, "/read", http.StatusSeeOther)
		case "/read":
			assert.Empty(t, r.Header.Get("PayPal-Request-Id"), "key of the read after a 303")
			http.Redirect(w, r, other.URL, http.StatusFound)
		}
	})
	p := honoured()
	p.Key.Header = "PayPal-Request-Id"
	l, err := retry.NewLayer(retry.Organization{Default: honoured(), Destinations: map[string]retry.Policy{home.URL: p}}, nil)
	require.NoError(t, err)
	clients := map[string]*http.Client{
		"of its own":   {Transport: &httpclient.Transport{Layer: l}},
		"of the layer": httpclient.ForLayer(l),
	}
	for name, c := range clients {
		for _, path := range []string{"/303", "/307", "/both"} {
			for _, own := range []http.Header{nil, {"Paypal-Request-Id": {"mine"}}, {"paypal-request-id": {"mine"}}} {
				seen = nil
				resp := post(t, c, home.URL+path, own)
				if name == "of the layer" && path != "/both" {
					assert.Empty(t, seen, "requests that the other origin saw, of %s", path)
					continue
				}
				assert.Equal(t, 200, resp.StatusCode)
				require.Len(t, seen, 1)
				for _, header := range []string{"PayPal-Request-Id", "Idempotency-Key"} {
					assert.Empty(t, seen[0].Get(header), "%s at the other origin, of %s with %v", header, path, own)
				}
			}
		}
		c.CloseIdleConnections()
	}
}

// 25. A header of the caller's on a read stays on its way within the origin.
func TestH25OfARead(t *testing.T) {
	t.Parallel()
	for _, code := range []int{http.StatusTemporaryRedirect, http.StatusPermanentRedirect} {
		var seen []string
		s := newSite(t, http1, func(w http.ResponseWriter, r *http.Request) {
			seen = append(seen, r.Header.Get("X-Request-Id"))
			if r.URL.Path == "/a" {
				http.Redirect(w, r, "/b", code)
			}
		})
		p := quick()
		p.Key.Header = "X-Request-Id"
		req, err := http.NewRequestWithContext(t.Context(), "GET", s.URL+"/a", nil)
		require.NoError(t, err)
		req.Header.Set("X-Request-Id", "mine")
		resp, err := (&http.Client{Transport: overBase(t, p, s.base)}).Do(req)
		require.NoError(t, err)
		readAll(t, resp)
		assert.Equal(t, []string{"mine", "mine"}, seen, "%d", code)
	}
}

// 28. The key is sent from attempt 1 on, also with one attempt.
func TestH28KeyFromTheStart(t *testing.T) {
	t.Parallel()
	overProtocols(t, func(t *testing.T, protocol string) {
		for _, method := range []string{"POST", "PATCH"} {
			for kind, body := range payments {
				var b bank
				s := newSite(t, protocol, func(w http.ResponseWriter, r *http.Request) {
					b.act(r)
					w.WriteHeader(http.StatusInternalServerError)
				})
				p := honoured()
				p.MaxAttempts = 1
				req, err := http.NewRequestWithContext(t.Context(), method, s.URL, body())
				require.NoError(t, err)
				resp, err := (&http.Client{Transport: overBase(t, p, s.base)}).Do(req)
				require.NoError(t, err)
				readAll(t, resp)
				keys, _, _ := b.seen()
				require.Len(t, keys, 1)
				assert.NotEmpty(t, keys[0], "key of a %s %s", method, kind)
				assert.Equal(t, keys[0], httpclient.ReportOf(resp).Intention.Key)
			}
		}
	})
}

// 29. 409 to a trusted key is repeated with the same key; 422 and 400 are not;
// Idempotent-Replayed: true on an error ends the loop.
//
// B138: the server rejects a known key with other parameters; a client repeated
// it or showed a generic failure. B140: servers store and replay any result; the
// loop burned all attempts on a cached answer which looked fresh. Never a new key.
func TestH29AnswersToAKey(t *testing.T) {
	t.Parallel()
	overProtocols(t, func(t *testing.T, protocol string) {
		for _, row := range []struct {
			status   int
			header   string
			trusted  bool
			requests int
			outcome  retry.Outcome
		}{
			{status: 409, trusted: true, requests: 4, outcome: retry.Unknown},
			{status: 409, requests: 1, outcome: retry.NotApplied},
			{status: 422, trusted: true, requests: 1, outcome: retry.NotApplied},
			{status: 400, trusted: true, requests: 1, outcome: retry.NotApplied},
			{status: 500, trusted: true, requests: 4, outcome: retry.Unknown},
			{status: 500, header: "Idempotent-Replayed", trusted: true, requests: 1, outcome: retry.Unknown},
			{status: 504, header: "Idempotent-Replayed", trusted: true, requests: 1, outcome: retry.Unknown},
			{status: 409, header: "Idempotent-Replayed", trusted: true, requests: 1, outcome: retry.NotApplied},
			{status: 429, header: "Idempotent-Replayed", trusted: true, requests: 1, outcome: retry.NotApplied},
			{status: 200, header: "Idempotent-Replayed", trusted: true, requests: 1, outcome: retry.Applied},
		} {
			var b bank
			s := newSite(t, protocol, func(w http.ResponseWriter, r *http.Request) {
				b.act(r)
				if row.header != "" {
					w.Header().Set(row.header, "true")
				}
				w.WriteHeader(row.status)
			})
			p := steady()
			p.MaxAttempts, p.Key.Honored = 4, row.trusted
			resp, err := keyed(t.Context(), &http.Client{Transport: overBase(t, p, s.base)}, s.URL)
			require.NoError(t, err)
			assert.Equal(t, row.status, resp.StatusCode)
			keys, _, _ := b.seen()
			what := fmt.Sprintf("a POST answered %d %s, trusted: %v", row.status, row.header, row.trusted)
			assert.Len(t, keys, row.requests, "requests of %s", what)
			assert.Len(t, slices.Compact(keys), 1, "keys of %s", what)
			assert.Equal(t, row.outcome, httpclient.ReportOf(resp).Outcome, "outcome of %s", what)
			err = httpclient.Check(resp)
			if row.status == 200 {
				assert.NoError(t, err)
				continue
			}
			status, ok := errors.AsType[*httpclient.StatusError](err)
			require.True(t, ok, "Check after %s = %v", what, err)
			assert.Equal(t, row.status, status.StatusCode)
			assert.Equal(t, row.outcome == retry.Unknown, errors.Is(err, retry.ErrOutcomeUnknown), "ErrOutcomeUnknown after %s", what)
		}
	})
}

// A 409 to a trusted key says that the intention is being done: for another
// process that has the same stored key, where it is the answer to a first attempt.
// So what is known at the end is not that it was not applied.
func TestInProgressForAnotherProcess(t *testing.T) {
	t.Parallel()
	overProtocols(t, func(t *testing.T, protocol string) {
		begun, goOn := make(chan struct{}), make(chan struct{})
		var mu sync.Mutex
		effects, running := 0, false
		s := newSite(t, protocol, func(w http.ResponseWriter, r *http.Request) {
			mu.Lock()
			first := !running && effects == 0
			running = running || first
			mu.Unlock()
			if !first {
				w.WriteHeader(http.StatusConflict)
				return
			}
			close(begun)
			<-goOn
			mu.Lock()
			effects, running = effects+1, false
			mu.Unlock()
		})
		stored := retry.WithIntention(t.Context(), retry.Intention{Key: "order-17"})
		p := quick()
		one := &http.Client{Transport: overBase(t, p, s.base)}
		two := &http.Client{Transport: overBase(t, p, s.base)}
		done := make(chan error, 1)
		go func() {
			resp, err := keyed(stored, one, s.URL)
			if err == nil {
				resp.Body.Close()
			}
			done <- err
		}()
		<-begun
		resp, err := keyed(stored, two, s.URL)
		require.NoError(t, err, "POST while another process does the same")
		err = httpclient.Check(resp)
		close(goOn)
		assert.ErrorIs(t, err, retry.ErrOutcomeUnknown, "what the second process is told")
		assert.NoError(t, <-done, "what the first process is told")
		assert.Equal(t, 1, effects, "effects")
	})
}

// B139: attempt 1 timed out on the client but is running; attempt 2 gets 409 and
// the caller is told that it failed, though it then succeeds. It is repeated with
// the same key; if time runs out the outcome is unknown.
func TestStillInProgress(t *testing.T) {
	t.Parallel()
	for _, enough := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			var b bank
			base := inBubble(t, func(w http.ResponseWriter, r *http.Request) {
				switch _, n := b.act(r); n {
				case 1:
					<-r.Context().Done()
				case 2, 3:
					w.WriteHeader(http.StatusConflict)
				default:
					_, _ = io.WriteString(w, "stored answer")
				}
			})
			p := honoured()
			p.AttemptTimeout = time.Second
			p.MaxAttempts = 3
			if enough {
				p.MaxAttempts = 4
			}
			resp, err := (&http.Client{Transport: overBase(t, p, base)}).Post("http://host.example", "text/plain", strings.NewReader("x"))
			require.NoError(t, err)
			report := httpclient.ReportOf(resp)
			answer := readAll(t, resp)
			keys, _, effects := b.seen()
			assert.Equal(t, 1, effects)
			assert.Len(t, keys, p.MaxAttempts)
			assert.Len(t, slices.Compact(keys), 1)
			if enough {
				assert.Equal(t, "stored answer", answer)
				assert.Equal(t, retry.Applied, report.Outcome)
				return
			}
			assert.Equal(t, http.StatusConflict, resp.StatusCode)
			assert.Equal(t, retry.Unknown, report.Outcome)
			assert.ErrorIs(t, httpclient.Check(resp), retry.ErrOutcomeUnknown)
		})
	}
}

// 30. Keys never reach shared maps: call A's key is not seen by call B, in
// parallel under -race.
//
// B135: the header was stored in shared default headers; a later, different call
// was answered with the first one's result.
func TestH30KeysAreNotShared(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	seen := map[string][]string{} // what was sent under a path
	s := newSite(t, http2, func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		seen[r.URL.Path] = append(seen[r.URL.Path], r.Header.Get("Idempotency-Key"))
		if len(seen[r.URL.Path]) < 3 {
			w.WriteHeader(http.StatusInternalServerError)
		}
	})
	p := honoured()
	p.MaxAttempts = 3
	c := &http.Client{Transport: overBase(t, p, s.base)}
	shared := http.Header{"X-Shared": {"1"}}
	var wg sync.WaitGroup
	const calls = 40
	for i := range calls {
		wg.Go(func() {
			req, err := http.NewRequestWithContext(t.Context(), "POST", fmt.Sprintf("%s/%d", s.URL, i), nil)
			if !assert.NoError(t, err) {
				return
			}
			if req.Header = shared; i%2 == 0 {
				req.Header = shared.Clone()
				req.Header.Set("Idempotency-Key", fmt.Sprintf("own-%d", i))
			}
			resp, err := c.Do(req)
			if assert.NoError(t, err) {
				resp.Body.Close()
			}
		})
	}
	wg.Wait()
	assert.Equal(t, http.Header{"X-Shared": {"1"}}, shared)
	mu.Lock()
	defer mu.Unlock()
	all := map[string]bool{}
	for i := range calls {
		keys := seen[fmt.Sprintf("/%d", i)]
		require.Len(t, keys, 3)
		require.Len(t, slices.Compact(keys), 1)
		if want := fmt.Sprintf("own-%d", i); i%2 == 0 && keys[0] != want {
			t.Errorf("call %d was sent under the key %q, want %q", i, keys[0], want)
		}
		assert.False(t, all[keys[0]], "call %d was sent under another's key", i)
		all[keys[0]] = true
	}
}
