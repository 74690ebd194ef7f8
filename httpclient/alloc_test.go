package httpclient_test

import (
	"bytes"
	"context"
	"net/http"
	"testing"

	"github.com/reintento/reintento/httpclient"
	"github.com/reintento/reintento/retry"
	"github.com/stretchr/testify/require"
)

// What a call that succeeds at once allocates beside its base.
func TestAllocations(t *testing.T) {
	resp := &http.Response{StatusCode: 200, Header: http.Header{}, Body: http.NoBody}
	stub := roundTrip(func(req *http.Request) (*http.Response, error) {
		if req.Body != nil {
			req.Body.Close()
		}
		r := *resp
		r.Request = req
		return &r, nil
	})
	payload := bytes.Repeat([]byte("x"), 1<<10)
	ctx := context.Background()
	for _, c := range []struct {
		name string
		most float64
		req  func() *http.Request
	}{
		{"GET", 12, func() *http.Request {
			req, _ := http.NewRequestWithContext(ctx, "GET", "http://peer/", nil)
			return req
		}},
		{"keyed POST of 1 KiB", 18, func() *http.Request {
			req, _ := http.NewRequestWithContext(ctx, "POST", "http://peer/", bytes.NewReader(payload))
			return req
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			l, err := retry.NewLayer(retry.Organization{}, nil)
			require.NoError(t, err)
			rt := &httpclient.Transport{Layer: l, Base: stub}
			count := func(rt http.RoundTripper) float64 {
				return testing.AllocsPerRun(1000, func() {
					resp, err := rt.RoundTrip(c.req())
					if err != nil {
						t.Fatal(err)
					}
					resp.Body.Close()
				})
			}
			more := count(rt) - count(stub)
			if more > c.most {
				t.Errorf("RoundTrip allocates %v times more than its base, want at most %v", more, c.most)
			}
		})
	}
}
