package httpclient_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/reintento/reintento/classify"
	"github.com/reintento/reintento/httpclient"
	"github.com/reintento/reintento/retry"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// once is steady with one attempt: what is below repeats by itself.
func once() retry.Policy {
	p := steady()
	p.MaxAttempts = 1
	return p
}

// What is unknown to a layer below that gave up is unknown to the one above.
func TestOneAttemptOverALayerThatGaveUp(t *testing.T) {
	t.Parallel()
	for _, trusted := range []bool{false, true} {
		for _, r := range [][2]string{{"POST", "pay"}, {"POST", ""}, {"PUT", "set"}} {
			t.Run(fmt.Sprintf("trusted=%v/%s/%q", trusted, r[0], r[1]), func(t *testing.T) {
				t.Parallel()
				p := &onePeer{answer: func(net.Conn, *http.Request, int) bool { return false }}
				below, above := steady(), once()
				below.Key.Honored, above.Key.Honored = trusted, trusted
				_, err := overBase(t, above, overBase(t, below, fresh(t))).RoundTrip(call(t, t.Context(), r[0], "http://"+serve(t, p.serve), r[1]))
				want := int64(3)
				if r[0] == "POST" && !trusted {
					want = 1
				}
				assert.Equal(t, want, p.requests.Load(), "requests that the peer read")
				assert.Equal(t, retry.Unknown, failureOf(t, err).Outcome)
				assert.ErrorIs(t, err, retry.ErrOutcomeUnknown)
				assert.NotContains(t, err.Error(), "it was not applied")
			})
		}
	}
}

// Another call below is not a repeat of the first: an untrusted write that may have
// been applied is not sent again by a base that goes to a second transport.
func TestOneAttemptOverABaseThatFailsOver(t *testing.T) {
	t.Parallel()
	for _, body := range []string{"pay", ""} {
		p := &onePeer{}
		p.answer = func(c net.Conn, _ *http.Request, _ int) bool {
			if p.requests.Load() == 1 {
				return false
			}
			_, err := io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
			return err == nil
		}
		first, second := overBase(t, once(), fresh(t)), overBase(t, once(), fresh(t))
		base := roundTrip(func(req *http.Request) (*http.Response, error) {
			var data []byte
			if req.Body != nil {
				data, _ = io.ReadAll(req.Body)
				req.Body.Close()
			}
			send := func(tr *httpclient.Transport) (*http.Response, error) {
				out := req.Clone(req.Context())
				if len(data) > 0 {
					out.Body = io.NopCloser(strings.NewReader(string(data)))
				}
				return tr.RoundTrip(out)
			}
			if resp, err := send(first); err == nil {
				return resp, nil
			}
			return send(second)
		})
		_, err := overBase(t, once(), base).RoundTrip(call(t, t.Context(), "POST", "http://"+serve(t, p.serve), body))
		assert.ErrorIs(t, err, retry.ErrOutcomeUnknown, "body %q", body)
		assert.EqualValues(t, 1, p.requests.Load(), "effects, body %q", body)
	}
}

// 34, 53: the report counts the connections of all repeats below.
func TestConnectionsOfALayerBelow(t *testing.T) {
	t.Parallel()
	p := &onePeer{}
	p.answer = func(c net.Conn, _ *http.Request, _ int) bool {
		if p.requests.Load() < 3 {
			return false
		}
		_, err := io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
		return err == nil
	}
	resp, err := overBase(t, once(), overBase(t, steady(), fresh(t))).RoundTrip(call(t, t.Context(), "GET", "http://"+serve(t, p.serve), ""))
	require.NoError(t, err)
	finish(t, resp)
	assert.Equal(t, 3, httpclient.ReportOf(resp).Attempts[0].Connections)
}

// 24: the key stays with a write over a 307 within its origin, also where one
// transport is below another and a base between them finds the server by another
// URL.
func TestH24RewriteBetweenTransports(t *testing.T) {
	t.Parallel()
	for _, p := range []retry.Policy{steady(), honoured()} {
		var keys []string
		s := newSite(t, http1, func(w http.ResponseWriter, r *http.Request) {
			keys = append(keys, r.Header.Get("Idempotency-Key"))
			_, _ = io.Copy(io.Discard, r.Body)
			if r.URL.Path == "/a" {
				w.Header().Set("Location", "http://public.example/b")
				w.WriteHeader(http.StatusTemporaryRedirect)
			}
		})
		found, err := url.Parse(s.URL)
		require.NoError(t, err)
		inner := overBase(t, p, s.base)
		outer := overBase(t, p, roundTrip(func(req *http.Request) (*http.Response, error) {
			out := req.Clone(req.Context())
			out.URL.Host = found.Host
			return inner.RoundTrip(out)
		}))
		resp, err := (&http.Client{Transport: outer}).Post("http://public.example/a", "text/plain", strings.NewReader("pay"))
		require.NoError(t, err)
		finish(t, resp)
		require.Len(t, keys, 2)
		assert.NotEmpty(t, keys[0])
		assert.Equal(t, keys[0], keys[1], "key of the second hop")
	}
}

// 27: a key that has left its origin stays away, also where the base makes requests
// of its own, which have no hop before them, and where the policy changes between
// two hops.
func TestH27ChainsThatAreHardToFollow(t *testing.T) {
	t.Parallel()
	keys := map[string]string{}
	var l *retry.Layer
	p, changed := steady(), steady()
	p.Key.Header, changed.Key.Header = "X-Old", "X-New"
	note := func(name string, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		keys[name] = r.Header.Get("X-Old") + r.Header.Get("X-New")
	}
	other := newSite(t, http1, func(w http.ResponseWriter, r *http.Request) {
		note("other"+r.URL.Path, r)
		if r.URL.Path == "/b" {
			w.Header().Set("Location", "/c")
			w.WriteHeader(http.StatusTemporaryRedirect)
		}
	})
	first := newSite(t, http1, func(w http.ResponseWriter, r *http.Request) {
		note("first", r)
		assert.NoError(t, l.Replace(retry.Organization{Default: changed}))
		w.Header().Set("Location", other.URL+"/b")
		w.WriteHeader(http.StatusTemporaryRedirect)
	})
	for name, base := range map[string]http.RoundTripper{
		"net/http's": first.base,
		"one that makes its own requests": roundTrip(func(req *http.Request) (*http.Response, error) {
			out, err := http.NewRequestWithContext(req.Context(), req.Method, req.URL.String(), req.Body)
			if err != nil {
				return nil, err
			}
			out.Header, out.ContentLength = req.Header, req.ContentLength
			return first.base.RoundTrip(out)
		}),
	} {
		clear(keys)
		var err error
		l, err = retry.NewLayer(retry.Organization{Default: p}, nil)
		require.NoError(t, err)
		req := call(t, t.Context(), "POST", first.URL, "pay")
		req.Header.Set("X-Old", "mine")
		resp, err := (&http.Client{Transport: &httpclient.Transport{Layer: l, Base: base}}).Do(req)
		require.NoError(t, err)
		finish(t, resp)
		assert.Equal(t, map[string]string{"first": "mine", "other/b": "", "other/c": ""}, keys, "keys, over %s", name)
	}
}

// H48: what Statuses or a classifier say of a 421 holds for every repeat, also
// inside retry.Do.
func TestH48Declared421(t *testing.T) {
	t.Parallel()
	declared, p := steady(), steady()
	declared.MaxAttempts, p.MaxAttempts = 5, 5
	declared.Statuses = map[int]classify.Class{421: retryable}
	classifiers := []classify.Classifier{func(err error) (classify.Verdict, bool) {
		e, ok := errors.AsType[*httpclient.StatusError](err)
		return classify.Verdict{Class: retryable}, ok && e.StatusCode == 421
	}}
	for name, row := range map[string]struct {
		policy  retry.Policy
		options *retry.Options
	}{
		"Statuses":     {declared, nil},
		"a classifier": {p, &retry.Options{Classifiers: classifiers}},
	} {
		l, err := retry.NewLayer(retry.Organization{Default: row.policy, Destinations: map[string]retry.Policy{"operation": p}}, row.options)
		require.NoError(t, err)
		for _, inside := range []bool{false, true} {
			base := &script{codes: []int{421, 421, 421, 421, 200}}
			run := func(ctx context.Context) error {
				resp, err := (&httpclient.Transport{Layer: l, Base: base}).RoundTrip(call(t, ctx, "GET", "http://peer/", ""))
				require.NoError(t, err)
				return httpclient.Check(resp)
			}
			if inside {
				err = l.To("operation").Do(t.Context(), retry.Unsafe, run)
			} else {
				err = run(t.Context())
			}
			assert.NoError(t, err, "%s, inside of retry.Do: %v", name, inside)
			assert.Equal(t, 5, base.sent, "requests, %s, inside of retry.Do: %v", name, inside)
		}
	}
}
