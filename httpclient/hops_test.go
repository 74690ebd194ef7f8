package httpclient_test

import (
	"context"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/reintento/reintento/deadline"
	"github.com/reintento/reintento/httpclient"
	"github.com/reintento/reintento/retry"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// hopLog is what a service saw of the requests that reached it.
type hopLog struct {
	mu       sync.Mutex
	marks    []string
	keys     []string
	timeLeft []time.Duration
}

func (l *hopLog) note(t testing.TB, r *http.Request) (n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.marks = append(l.marks, r.Header.Get(httpclient.AttemptHeader))
	l.keys = append(l.keys, r.Header.Get("Idempotency-Key"))
	left, err := deadline.Parse(r.Header.Get(deadline.Header))
	assert.NoError(t, err, deadline.Header)
	l.timeLeft = append(l.timeLeft, left)
	return len(l.marks)
}

// service is a server of the organization: it takes what its caller announced
// and calls on with a layer of its own.
func service(t *testing.T, h func(w http.ResponseWriter, r *http.Request, out *http.Client)) string {
	p := quick()
	p.Announce = true
	base := fresh(t)
	client := &http.Client{Transport: overBase(t, p, base)}
	s := httptest.NewServer(httpclient.Receive(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h(w, r, client)
	})))
	t.Cleanup(s.Close)
	return s.URL
}

// forward answers as the service behind did.
func forward(w http.ResponseWriter, r *http.Request, out *http.Client, url string) {
	req, err := http.NewRequestWithContext(r.Context(), http.MethodPost, url, strings.NewReader("on"))
	if err == nil {
		var resp *http.Response
		if resp, err = out.Do(req); err == nil {
			defer resp.Body.Close()
			w.WriteHeader(resp.StatusCode)
			io.Copy(w, resp.Body)
			return
		}
	}
	http.Error(w, "no answer from behind", http.StatusBadGateway)
}

// Caller → service → service → service, each with a layer of its own that would
// make three attempts: the last one is asked as often as the first layer
// decides, not 3 × 3 × 3 times. The time that is left shrinks hop by hop, and
// the keys below are the same in each of the caller's attempts.
func TestHopsDoNotMultiply(t *testing.T) {
	t.Parallel()
	var a, b, c hopLog
	last := service(t, func(w http.ResponseWriter, r *http.Request, _ *http.Client) {
		if c.note(t, r) < 3 {
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		io.WriteString(w, "done")
	})
	middle := service(t, func(w http.ResponseWriter, r *http.Request, out *http.Client) {
		b.note(t, r)
		forward(w, r, out, last+"/c")
	})
	first := service(t, func(w http.ResponseWriter, r *http.Request, out *http.Client) {
		a.note(t, r)
		forward(w, r, out, middle+"/b")
	})
	p := quick()
	p.Announce, p.Key.Honored = true, true
	caller := &http.Client{Transport: overBase(t, p, fresh(t))}

	resp, err := caller.Post(first+"/a", "text/plain", strings.NewReader("go"))
	require.NoError(t, err)
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	assert.Equal(t, "done", string(body))

	for name, l := range map[string]*hopLog{"first": &a, "middle": &b, "last": &c} {
		assert.Equal(t, []string{"n=1, max=3", "n=2, max=3", "n=3, max=3"}, l.marks, "marks at the %s service", name)
		require.Len(t, l.keys, 3, "keys at the %s service", name)
		assert.NotEmpty(t, l.keys[0], name)
		assert.Equal(t, []string{l.keys[0], l.keys[0], l.keys[0]}, l.keys, "keys at the %s service", name)
	}
	assert.NotEqual(t, a.keys[0], b.keys[0], "each hop's write has a key of its own")
	assert.NotEqual(t, b.keys[0], c.keys[0], "each hop's write has a key of its own")
	for i := range a.timeLeft {
		assert.LessOrEqual(t, b.timeLeft[i], a.timeLeft[i], "time left at the middle service, attempt %d", i+1)
		assert.LessOrEqual(t, c.timeLeft[i], b.timeLeft[i], "time left at the last service, attempt %d", i+1)
	}
}

// When the last of the caller's attempts has failed, the last service has been
// asked three times.
func TestHopsGiveUpTogether(t *testing.T) {
	t.Parallel()
	var a, b, c hopLog
	last := service(t, func(w http.ResponseWriter, r *http.Request, _ *http.Client) {
		c.note(t, r)
		w.WriteHeader(http.StatusServiceUnavailable)
	})
	middle := service(t, func(w http.ResponseWriter, r *http.Request, out *http.Client) {
		b.note(t, r)
		forward(w, r, out, last)
	})
	first := service(t, func(w http.ResponseWriter, r *http.Request, out *http.Client) {
		a.note(t, r)
		forward(w, r, out, middle)
	})
	p := quick()
	p.Announce, p.Key.Honored = true, true
	caller := &http.Client{Transport: overBase(t, p, fresh(t))}

	resp, err := caller.Post(first, "text/plain", strings.NewReader("go"))
	require.NoError(t, err)
	resp.Body.Close()
	assert.Equal(t, http.StatusServiceUnavailable, resp.StatusCode)
	assert.Equal(t, [3]int{3, 3, 3}, [3]int{len(a.marks), len(b.marks), len(c.marks)}, "requests at the first, middle and last service")
}

// Work that a handler starts in the background under Detach has a layer of its
// own: the caller's attempts do not concern it.
func TestDetachedWorkRepeatsByItself(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	requests := 0
	behind := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		if requests++; requests < 3 {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
	}))
	t.Cleanup(behind.Close)
	status := make(chan int, 1)
	url := service(t, func(w http.ResponseWriter, r *http.Request, out *http.Client) {
		ctx := retry.Detach(r.Context())
		go func() {
			req, err := http.NewRequestWithContext(ctx, http.MethodGet, behind.URL, nil)
			if !assert.NoError(t, err) {
				close(status)
				return
			}
			resp, err := out.Do(req)
			if !assert.NoError(t, err, "GET in the background") {
				close(status)
				return
			}
			resp.Body.Close()
			status <- resp.StatusCode
		}()
		w.WriteHeader(http.StatusAccepted)
	})
	p := quick()
	p.Announce = true
	caller := &http.Client{Transport: overBase(t, p, fresh(t))}
	resp, err := caller.Get(url)
	require.NoError(t, err)
	resp.Body.Close()
	assert.Equal(t, http.StatusOK, <-status)
	mu.Lock()
	defer mu.Unlock()
	assert.Equal(t, 3, requests, "requests that the background work made")
}

// A handler whose caller has no time left is not started.
func TestNoHandlerForACallerWithoutTime(t *testing.T) {
	t.Parallel()
	h := httpclient.Receive(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		t.Error("the handler ran")
	}))
	for _, left := range []string{"0", "00"} {
		r := httptest.NewRequestWithContext(context.Background(), http.MethodPost, "/", nil)
		r.Header.Set(deadline.Header, left)
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		assert.Equal(t, http.StatusServiceUnavailable, w.Code, "status for %s: %s", deadline.Header, left)
		assert.Contains(t, w.Body.String(), "no time left")
	}
}

// The key of the first caller makes the keys below stable over its attempts,
// whatever the method of its request and the name of its key header are. The bank
// does what is asked and loses the first two answers.
func TestAnnouncedKeys(t *testing.T) {
	t.Parallel()
	for _, method := range []string{"POST", "PATCH", "PUT", "DELETE"} {
		for _, header := range []string{"", "X-Idempotency-Key"} {
			for _, body := range []string{"", "pay"} {
				t.Run(fmt.Sprintf("%s/%s/%q", method, header, body), func(t *testing.T) {
					t.Parallel()
					var mu sync.Mutex
					effects, requests := map[string]int{}, 0
					bank := newSite(t, http1, func(w http.ResponseWriter, r *http.Request) {
						mu.Lock()
						requests++
						n := requests
						effects[r.Header.Get("Idempotency-Key")]++
						mu.Unlock()
						if n < 3 {
							cut(r)
						}
					})
					toBank := &http.Client{Transport: overBase(t, honoured(), bank.base)}
					var keys []string
					shop := newSite(t, http1, httpclient.Receive(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
						mu.Lock()
						keys = append(keys, r.Header.Get("Idempotency-Key"))
						mu.Unlock()
						req, err := http.NewRequestWithContext(r.Context(), "POST", bank.URL, strings.NewReader("pay"))
						if !assert.NoError(t, err) {
							return
						}
						resp, err := toBank.Do(req)
						if err != nil {
							w.WriteHeader(http.StatusInternalServerError)
							return
						}
						resp.Body.Close()
					})).ServeHTTP)
					p := honoured()
					p.Announce, p.Key.Header = true, header
					resp, err := overBase(t, p, shop.base).RoundTrip(call(t, t.Context(), method, shop.URL, body))
					require.NoError(t, err)
					readAll(t, resp)
					assert.Equal(t, 200, resp.StatusCode)
					assert.Equal(t, 3, requests, "requests that the bank saw")
					assert.Len(t, effects, 1, "payments made")
					assert.NotContains(t, keys, "")
				})
			}
		}
	}
}

// What only tells a service which intention it works for leaves the intention's
// own key to the write that it is for.
func TestAnnouncedKeysTakeNone(t *testing.T) {
	t.Parallel()
	seen := map[string][]string{}
	s := newSite(t, http1, func(_ http.ResponseWriter, r *http.Request) {
		seen[r.Method+r.URL.Path] = append(seen[r.Method+r.URL.Path], strings.Join(r.Header.Values("Idempotency-Key"), " and "))
	})
	announcing := honoured()
	announcing.Announce = true
	inside := overBase(t, announcing, s.base)
	bank := overBase(t, honoured(), s.base)
	send := func(ctx context.Context, tr *httpclient.Transport, method, path string, h http.Header) {
		req := call(t, ctx, method, s.URL+path, "x")
		maps.Copy(req.Header, h)
		resp, err := tr.RoundTrip(req)
		require.NoError(t, err)
		finish(t, resp)
	}
	fail := true
	err := inside.Layer.To("operation").Do(t.Context(), retry.Keyed, func(ctx context.Context) error {
		send(ctx, inside, "PUT", "/cart", nil)
		send(ctx, inside, "PUT", "/cart", nil)
		send(ctx, bank, "POST", "/pay", nil)
		if fail {
			fail = false
			return io.ErrUnexpectedEOF
		}
		return nil
	}, retry.WithKey("order-17"))
	require.NoError(t, err)
	assert.Equal(t, []string{"order-17", "order-17"}, seen["POST/pay"])
	cart := seen["PUT/cart"]
	require.Len(t, cart, 4)
	assert.Equal(t, cart[:2], cart[2:], "keys in the second attempt")
	assert.NotEqual(t, cart[0], cart[1], "keys of two equal writes")
	assert.NotContains(t, cart, "order-17")

	send(t.Context(), inside, "POST", "/own", http.Header{"idempotency-key": {"mine"}})
	send(t.Context(), inside, "PUT", "/own", http.Header{"Idempotency-Key": {"mine"}})
	send(t.Context(), inside, "PUT", "/none", http.Header{"Idempotency-Key": nil})
	send(t.Context(), inside, "GET", "/read", nil)
	assert.Equal(t, []string{"mine"}, seen["POST/own"])
	assert.Equal(t, []string{"mine"}, seen["PUT/own"])
	assert.Equal(t, []string{""}, seen["PUT/none"])
	assert.Equal(t, []string{""}, seen["GET/read"])
}
