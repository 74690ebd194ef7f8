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

// hop is one request on the way to another: that which a transport of this module
// was given, where there was one. A base may have sent it to another URL.
type hop struct {
	status  int // by which it was redirected
	request *http.Request
	via     *Transport // nil if it is not known
}

// hops yields the redirected requests on the way to req, the last one first.
func hops(req *http.Request) iter.Seq[hop] {
	return func(yield func(hop) bool) {
		for r := req.Response; r != nil && r.Request != nil; r = r.Request.Response {
			h := hop{status: r.StatusCode, request: r.Request}
			if call, ok := retry.CallOf(r.Request.Context()); ok {
				if x, ok := call.Outermost().Address().(*exchange); ok {
					h.request, h.via = x.request, x.transport
				}
			}
			if !yield(h) {
				return
			}
		}
	}
}

// keyHeader returns the name of the header in which the hop's destination takes
// its keys.
func (h hop) keyHeader() string {
	if h.via == nil {
		return ""
	}
	p, _ := h.via.Layer.Policy(h.via.to(h.request).Name())
	return p.Key.Header
}

// leftKey reports whether no key may go where req goes: one is known only at the
// origin that it was first sent to, and what reads the result of a write is no
// write.
func leftKey(req *http.Request, read bool) bool {
	at := origin(req)
	for h := range hops(req) {
		elsewhere := h.status != http.StatusTemporaryRedirect && h.status != http.StatusPermanentRedirect
		if origin(h.request) != at || read && elsewhere {
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
