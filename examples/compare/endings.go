package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"runtime"
	"sync/atomic"
	"time"

	"github.com/failsafe-go/failsafe-go"
	"github.com/failsafe-go/failsafe-go/failsafehttp"

	"github.com/reintento/reintento/breaker"
	"github.com/reintento/reintento/retry"
)

const endingsName = "100 calls answered 503, 503, 200"

// leftovers are what calls leave behind.
type leftovers struct{ connections, goroutines, bodies int }

func (l leftovers) String() string {
	return fmt.Sprintf("%d connections, %d goroutines, %d open bodies", l.connections, l.goroutines, l.bodies)
}

// allowed is what the SDK may leave: the connection that is kept for the next call.
var allowed = leftovers{connections: 1}

// endings makes calls that succeed at their third attempt, and counts what is left.
func endings(ctx context.Context, t *table) error {
	fmt.Fprintf(t.w, "\n%s\tleft\tallowed\t\n", endingsName)
	for _, c := range []struct {
		name   string
		around func(base http.RoundTripper) (http.RoundTripper, error)
	}{
		{sdk, func(base http.RoundTripper) (http.RoundTripper, error) {
			return ours(retry.Policy{
				BaseDelay: hardlyAny.base, MaxDelay: hardlyAny.most, Jitter: retry.NoJitter,
				Budget: retry.Budget{Burst: 1 << 40}, Breaker: breaker.Settings{FailureRatio: higherRatio},
			}, base)
		}},
		{"hand-made", func(base http.RoundTripper) (http.RoundTripper, error) {
			return handMadeTransport{newHandMade[*http.Response](hardlyAny, higherRatio), base}, nil
		}},
		{"go-retryablehttp", func(base http.RoundTripper) (http.RoundTripper, error) { return retryable(base, hardlyAny), nil }},
		{"failsafe-go", func(base http.RoundTripper) (http.RoundTripper, error) {
			repeats := failsafehttp.NewRetryPolicyBuilder().WithDelay(hardlyAny.base).WithMaxAttempts(attempts)
			return failsafehttp.NewRoundTripper(base, failsafe.Policy[*http.Response](repeats.Build())), nil
		}},
	} {
		left, err := leftBy(ctx, c.around)
		if err != nil {
			return fmt.Errorf("%s: %w", c.name, err)
		}
		verdict, bound := "", ""
		if c.name == sdk {
			verdict, bound = t.verdict(left == allowed), allowed.String()
		}
		fmt.Fprintf(t.w, "  %s\t%v\t%s\t%s\n", c.name, left, bound, verdict)
	}
	return t.flush()
}

// leftBy makes the calls through a transport of their own. Connections are all
// that were opened; goroutines are counted when idle connections are closed, and
// given a second to end.
func leftBy(ctx context.Context, around func(http.RoundTripper) (http.RoundTripper, error)) (left leftovers, err error) {
	var requests atomic.Int64
	s, err := serve(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if requests.Add(1)%attempts != 0 {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
		io.WriteString(w, "an answer")
	}))
	if err != nil {
		return left, err
	}
	defer s.close()
	base := http.DefaultTransport.(*http.Transport).Clone()
	counted := &countedBodies{base: base}
	rt, err := around(counted)
	if err != nil {
		return left, err
	}
	client := &http.Client{Transport: rt}
	before := runtime.NumGoroutine()
	const calls = 100
	for range calls {
		req, err := request(ctx, s.url, nil)
		if err != nil {
			return left, err
		}
		if err := exchange(client.Do, req); err != nil {
			return left, err
		}
	}
	if got := requests.Load(); got != calls*attempts {
		return left, fmt.Errorf("the server saw %d requests, want %d", got, calls*attempts)
	}
	base.CloseIdleConnections()
	for end := time.Now().Add(time.Second); runtime.NumGoroutine() > before && time.Now().Before(end); {
		time.Sleep(time.Millisecond)
	}
	return leftovers{
		connections: int(s.connections.Load()), goroutines: max(0, runtime.NumGoroutine()-before), bodies: int(counted.open.Load()),
	}, nil
}

// countedBodies counts the bodies of responses that nobody has closed yet.
type countedBodies struct {
	base http.RoundTripper
	open atomic.Int64
}

func (c *countedBodies) RoundTrip(req *http.Request) (*http.Response, error) {
	resp, err := c.base.RoundTrip(req)
	if err == nil {
		c.open.Add(1)
		resp.Body = &countedBody{ReadCloser: resp.Body, open: &c.open}
	}
	return resp, err
}

type countedBody struct {
	io.ReadCloser
	open   *atomic.Int64
	closed atomic.Bool
}

func (b *countedBody) Close() error {
	if b.closed.CompareAndSwap(false, true) {
		b.open.Add(-1)
	}
	return b.ReadCloser.Close()
}
