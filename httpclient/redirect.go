package httpclient

import (
	"net/http"

	"github.com/reintento/reintento/retry"
)

// previousHop returns the call that a redirect of a write continues, with its
// key, deadline and what is known of its outcome (RFC 9110 sections 15.4.8 and
// 15.4.9), or nil. It is found by the request that the redirect answered, which
// every base leaves in the response.
func (x *exchange) previousHop() *retry.Call {
	redirect := x.request.Response
	if redirect == nil || redirect.Request == nil {
		return nil
	}
	if code := redirect.StatusCode; code != http.StatusTemporaryRedirect && code != http.StatusPermanentRedirect {
		return nil
	}
	call, ok := retry.CallOf(redirect.Request.Context())
	if !ok {
		return nil
	}
	return call.Outermost()
}

// leftOrigin reports whether a hop on the way to req led to another origin.
func leftOrigin(req *http.Request) bool {
	for req.Response != nil && req.Response.Request != nil {
		last := req.Response.Request
		if origin(last) != origin(req) {
			return true
		}
		req = last
	}
	return false
}

// checkRedirect follows as an http.Client does by itself, but not a write that
// is sent to another origin: its caller gets the redirect.
func checkRedirect(req *http.Request, via []*http.Request) error {
	if len(via) >= 10 {
		return tooManyRedirects{write: !isRead(via[0].Method)}
	}
	last := via[len(via)-1]
	if !isRead(last.Method) && origin(last) != origin(req) {
		return http.ErrUseLastResponse
	}
	return nil
}

// tooManyRedirects ends a chain of redirects. If a write began it, nobody knows
// what became of that.
type tooManyRedirects struct{ write bool }

func (tooManyRedirects) Error() string { return "stopped after 10 redirects" }

func (e tooManyRedirects) Is(target error) bool {
	return e.write && target == retry.ErrOutcomeUnknown
}
