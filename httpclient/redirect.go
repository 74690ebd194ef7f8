package httpclient

import (
	"iter"
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

// hop is one request on the way to another: as this transport was given it, or,
// if another one made it, the outermost of those. A base may have sent it to
// another URL.
type hop struct {
	status  int // by which it was redirected
	request *http.Request
	key     string // the name of the header in which its destination takes keys; empty if it is not known
}

// hops yields the redirected requests on the way to that of x, the last one first.
func (x *exchange) hops() iter.Seq[hop] {
	return func(yield func(hop) bool) {
		for r := x.request.Response; r != nil && r.Request != nil; {
			h := hop{status: r.StatusCode, request: r.Request}
			call, _ := retry.CallOf(r.Request.Context())
			for ; call != nil; call = call.Above() {
				before, ok := call.Address().(*exchange)
				if !ok {
					continue
				}
				h.request, h.key = before.request, call.KeyHeader()
				if before.transport == x.transport {
					break
				}
			}
			if !yield(h) {
				return
			}
			r = h.request.Response
		}
	}
}

// leftKey reports whether no key may go where req goes: one is known only at the
// origin that it was first sent to, and what reads the result of a write is no
// write.
func (x *exchange) leftKey() bool {
	for h := range x.hops() {
		elsewhere := h.status != http.StatusTemporaryRedirect && h.status != http.StatusPermanentRedirect
		if origin(h.request) != origin(x.request) || x.read && elsewhere {
			return true
		}
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
