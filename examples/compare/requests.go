package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/failsafe-go/failsafe-go/failsafehttp"
	"github.com/google/uuid"
	"github.com/hashicorp/go-retryablehttp"

	"github.com/reintento/reintento/httpclient"
	"github.com/reintento/reintento/retry"
)

// stub answers every request without a network, as work does for calls.
type stub struct{}

func (stub) RoundTrip(req *http.Request) (*http.Response, error) {
	if req.Body != nil {
		if _, err := io.Copy(io.Discard, req.Body); err != nil {
			return nil, err
		}
		if err := req.Body.Close(); err != nil {
			return nil, err
		}
	}
	if _, err := work(req.Context()); err != nil {
		return nil, err
	}
	return &http.Response{
		StatusCode: http.StatusOK, Status: "200 OK", Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: http.Header{"Content-Type": {"text/plain"}}, Body: io.NopCloser(strings.NewReader("fine")), ContentLength: 4,
		Request: req,
	}, nil
}

// ours is the SDK's transport.
func ours(p retry.Policy, base http.RoundTripper) (http.RoundTripper, error) {
	p.Key.Honored = true
	layer, err := retry.NewLayer(retry.Organization{Default: p}, nil)
	return &httpclient.Transport{Layer: layer, Base: base}, err
}

// retryable is go-retryablehttp as a transport. Time limits and a breaker are not part of it.
func retryable(base http.RoundTripper, w waits) http.RoundTripper {
	c := retryablehttp.NewClient()
	c.HTTPClient = &http.Client{Transport: base}
	c.Logger, c.RetryMax, c.RetryWaitMin, c.RetryWaitMax = nil, attempts-1, w.base, w.most
	c.ErrorHandler = retryablehttp.PassthroughErrorHandler
	return &retryablehttp.RoundTripper{Client: c}
}

// failsafeTransport is failsafe-go around a transport.
func failsafeTransport(base http.RoundTripper) http.RoundTripper {
	repeats := failsafehttp.NewRetryPolicyBuilder().WithBackoff(baseDelay, maxDelay).WithJitterFactor(1)
	return failsafehttp.NewRoundTripper(base, failsafePolicies(repeats, failsafeBreaker[*http.Response](defaultRatio, 5*time.Second))...)
}

// withKey gives a write a key, for those who have none of their own.
func withKey(rt http.RoundTripper) http.RoundTripper {
	return roundTripFunc(func(req *http.Request) (*http.Response, error) {
		req.Header.Set("Idempotency-Key", uuid.NewString())
		return rt.RoundTrip(req)
	})
}

type roundTripFunc func(*http.Request) (*http.Response, error)

func (f roundTripFunc) RoundTrip(req *http.Request) (*http.Response, error) { return f(req) }

// transports are the contenders over a base.
func transports(base http.RoundTripper, keyed bool) (all []named, err error) {
	o, err := ours(retry.Policy{}, base)
	others := withKey
	if !keyed {
		others = func(rt http.RoundTripper) http.RoundTripper { return rt }
	}
	return []named{
		{sdk, o},
		{"hand-made", handMadeTransport{newHandMade[*http.Response](defaultWaits, defaultRatio), base}},
		{"go-retryablehttp, no limits, no breaker", others(retryable(base, defaultWaits))},
		{"failsafe-go", others(failsafeTransport(base))},
		{"the stub", base},
	}, err
}

type named struct {
	name string
	http.RoundTripper
}

// stubbedGets use one request again and again, which a RoundTripper does not change.
func stubbedGets(ctx context.Context) ([]contender, func(), error) {
	ctx, stop := caller(ctx)
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://payments.test/v1/payments/17", nil)
	if err != nil {
		return nil, stop, err
	}
	return stubbed(stop, false, func() *http.Request { return req })
}

func stubbedPosts(ctx context.Context) ([]contender, func(), error) {
	ctx, stop := caller(ctx)
	payload := bytes.Repeat([]byte("0123456789abcdef"), 64)
	template, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://payments.test/v1/payments", bytes.NewReader(payload))
	if err != nil {
		return nil, stop, err
	}
	return stubbed(stop, true, func() *http.Request {
		// What a caller makes anew for each request: its body, its header, itself.
		req := *template
		req.Header = http.Header{"Content-Type": {"application/json"}}
		req.Body = io.NopCloser(bytes.NewReader(payload))
		return &req
	})
}

func stubbed(stop func(), keyed bool, request func() *http.Request) ([]contender, func(), error) {
	all, err := transports(stub{}, keyed)
	var contenders []contender
	for _, rt := range all {
		contenders = append(contenders, contender{rt.name, func(n int) error {
			for range n {
				if err := exchange(rt.RoundTrip, request()); err != nil {
					return err
				}
			}
			return nil
		}})
	}
	return contenders, stop, err
}

// exchange sends a request and reads the answer to its end.
func exchange(send func(*http.Request) (*http.Response, error), req *http.Request) error {
	resp, err := send(req)
	if err != nil {
		return err
	}
	if _, err := io.Copy(io.Discard, resp.Body); err != nil {
		return err
	}
	if err := resp.Body.Close(); err != nil {
		return err
	}
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("status is %d, want 200", resp.StatusCode)
	}
	return nil
}
