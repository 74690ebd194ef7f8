// Package httpclient makes HTTP requests safe to repeat. It translates HTTP for
// the loop of package retry and decides nothing itself: which answer means what
// is in package classify, whether to go on is in package retry.
//
// [New] returns an [http.Client] that works like any other. What it adds:
//
//   - A failed request is repeated if that is safe: it was provably not sent or
//     turned away, its method is idempotent (RFC 9110 section 9.2.2), or it
//     carries an idempotency key that the server is known to honour.
//   - A write whose outcome is unknown is never repeated otherwise, and its
//     error matches [retry.ErrOutcomeUnknown].
//   - Any final status is a response with a nil error, as in net/http, with its
//     body unread. [Check] turns a failed one into an error, [ReportOf] tells
//     how it came about.
package httpclient

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/reintento/reintento/classify"
	"github.com/reintento/reintento/retry"
)

// New returns a client that treats every host as a destination of its own, each
// under the policy p. A program that calls several parties sets one policy for
// all with [retry.NewLayer] and [ForLayer]. A bad policy is the error of
// [retry.Policy.Validate].
func New(p retry.Policy, opts *retry.Options) (*http.Client, error) {
	if err := p.Validate(); err != nil {
		return nil, err
	}
	l, err := retry.NewLayer(retry.Organization{Default: p}, opts)
	if err != nil {
		return nil, err
	}
	return ForLayer(l), nil
}

// ForLayer returns a client on the retry layer of the process. It follows
// redirects as any http.Client, but hands a redirect of a write to another
// origin (RFC 6454 section 4) to the caller: a key is known only where it was
// first sent.
func ForLayer(l *retry.Layer) *http.Client {
	return &http.Client{Transport: &Transport{Layer: l}, CheckRedirect: checkRedirect}
}

// Transport is an [http.RoundTripper] whose requests run through a retry layer.
// It may be shared by goroutines; once it is in use it may not be copied, nor its
// fields be changed.
//
// The Timeout of an [http.Client] around it bounds the call as a whole, with all
// its attempts and waits, as a deadline of the request's context does: an attempt
// that takes all of it leaves none for another. What bounds one attempt is
// AttemptTimeout in [retry.Policy].
type Transport struct {
	// Layer holds the policies and the state of all destinations. It may not
	// be nil.
	Layer *retry.Layer
	// Base makes the attempts. It is the place for what must be fresh in each
	// of them: signers, token sources, tracing. In an attempt it may send three
	// more requests of its own after answers, such as one with the token that
	// it fetched first, one for another token after a 401, and one with that. Nil means http.DefaultTransport, as it is at the
	// time of the call. If Base closes idle connections, so does Transport.
	Base http.RoundTripper
	// Destination names the destination of a request. Nil, and an empty name,
	// mean scheme, host and port of its URL.
	Destination func(*http.Request) string
	// BodyIdleTimeout bounds the time in which a response's body yields
	// nothing, once it has been handed over. Zero means no limit but the
	// caller's.
	BodyIdleTimeout time.Duration
	// ReplayBuffer bounds what is kept of a request body that cannot be opened
	// again: neither with GetBody nor as an io.ReaderAt and io.Seeker, which is
	// read with ReadAt from where it stands, in the first attempt already. Such a
	// body can be repeated if what was read of it fits. Zero means 64 KiB, a
	// negative value means that nothing is kept.
	ReplayBuffer int

	last atomic.Pointer[handle] // see to
}

// handle is the destination of the requests to one origin. A transport keeps the
// last one: most have only one, or several requests in a row to the same.
type handle struct {
	layer        *retry.Layer
	scheme, host string
	dest         *retry.Destination
}

const defaultReplayBuffer = 64 << 10

// clientTimeoutMargin is how much earlier than an http.Client with Timeout a
// call ends: once its time is over, the client turns our error into text. On a
// machine so busy that a timer is late by more, the error says no more than that
// time was up; a deadline in the context or the policy has no such limit.
const clientTimeoutMargin = 5 * time.Millisecond

// RoundTrip sends req until an answer is final, and returns the last response
// with a nil error whatever its status, or an error that is an [*retry.Error].
// Plain errors are those that say, before a call begins, that a field of the
// Transport or the request cannot be: no Layer, no URL, no host, no Header; to a
// layer around they are permanent, and nothing was sent. The request is not
// changed; the bytes of its body may not change until the response's body has
// been closed.
func (t *Transport) RoundTrip(req *http.Request) (*http.Response, error) {
	x := &exchange{transport: t, request: req}
	if err := x.open(); err != nil {
		if req != nil && req.Body != nil {
			req.Body.Close()
		}
		return nil, unsendable{err}
	}
	handedOver := false
	defer func() {
		// A panic of an observer, a hook or the base passes through. Nothing
		// may stay behind.
		if !handedOver {
			x.abandon()
		}
	}()
	if _, err := x.passage.Exchange(x.ctx, t.to(req), x); err != nil {
		return nil, err
	}
	handedOver = true
	return x.handOver(), nil
}

// CloseIdleConnections closes those of Base.
func (t *Transport) CloseIdleConnections() {
	if c, ok := t.base().(interface{ CloseIdleConnections() }); ok {
		c.CloseIdleConnections()
	}
}

func (t *Transport) base() http.RoundTripper {
	if t.Base != nil {
		return t.Base
	}
	return http.DefaultTransport
}

// open refuses what cannot be sent and gets the request's parts ready.
func (x *exchange) open() error {
	t, req := x.transport, x.request
	switch {
	case t.Layer == nil:
		return errors.New("httpclient: Transport.Layer is nil: make one with retry.NewLayer")
	case t.BodyIdleTimeout < 0:
		return fmt.Errorf("httpclient: Transport.BodyIdleTimeout is %v: allowed is more than 0, or 0 for no limit", t.BodyIdleTimeout)
	case req == nil:
		return errors.New("httpclient: request is nil")
	case req.URL == nil:
		return errors.New("httpclient: Request.URL is nil")
	case req.URL.Host == "" && (req.URL.Scheme == "http" || req.URL.Scheme == "https"):
		return errors.New("httpclient: Request.URL has no host")
	case req.Header == nil:
		return errors.New("httpclient: Request.Header is nil: make requests with http.NewRequest")
	}
	x.ctx = req.Context()
	x.body = bodyOf(req, t)
	//lint:ignore SA1019 http.Client with Timeout sets it, too
	if req.Cancel != nil {
		//lint:ignore SA1019 http.Client with Timeout sets it, too
		x.watch(req.Cancel)
	}
	return nil
}

// unsendable is why a request cannot be sent as it is.
type unsendable struct{ error }

func (e unsendable) Unwrap() error { return e.error }

// Verdict tells a layer around that nothing was sent.
func (unsendable) Verdict() classify.Verdict {
	return classify.Verdict{Class: classify.Permanent, Origin: classify.Local, Reason: "request"}
}

// Describe tells the loop what the request is: read, idempotent write, or write
// with or without a key.
func (x *exchange) Describe(policy *retry.Policy) retry.Request {
	req := x.request
	method := cmp.Or(req.Method, http.MethodGet)
	r := retry.Request{Operation: method, Address: x, Read: isRead(method), Safety: retry.Unsafe}
	if r.Read || isIdempotent(method) {
		r.Safety = retry.Idempotent
	}
	if s, ok := retry.SafetyOf(x.ctx); ok {
		r.Safety = s
		r.Read = r.Read && s != retry.Unsafe
	}
	r.Until, _ = x.clientEnd()
	names, values := spellings(req.Header, policy.Key.Header)
	x.read = r.Read
	r.Following = x.previousHop()
	if x.dropKey = x.leftKey(); x.dropKey {
		return r
	}
	if len(names) > 0 && len(values) == 0 {
		// As in net/http, a key header without a value declares that the
		// request may be repeated without one.
		if r.Safety == retry.Unsafe {
			r.Safety = retry.Idempotent
		}
		return r
	}
	if len(values) > 0 {
		r.Key, r.Carries = strings.Join(values, ","), true
		if policy.Key.Format == retry.StructuredString {
			r.Key = unquoted(r.Key)
		}
		x.callersKey = true
		if r.Key == "" {
			r.Err = retry.CheckKey(r.Key)
		}
	} else {
		r.Carries = slices.Contains(policy.Key.Methods, method) || r.Safety == retry.Keyed && !r.Read
		if policy.Announce && !r.Read && !r.Carries {
			// The keys of what the service calls derive from it.
			r.Carries, r.Derives = true, true
		}
	}
	if r.Carries {
		if retry.Within(x.ctx) {
			r.Target = target(method, req)
		}
	}
	return r
}

// String returns where the request goes.
func (x *exchange) String() string { return x.request.URL.String() }

// clientEnd returns when a call has to be over that an http.Client with Timeout
// makes; ok is false for any other.
func (x *exchange) clientEnd() (end time.Time, ok bool) {
	if _, watched := x.ctx.(watched); !watched {
		return time.Time{}, false
	}
	d, ok := x.ctx.Deadline()
	if !ok {
		return time.Time{}, false
	}
	return d.Add(-min(clientTimeoutMargin, time.Until(d)/2)), true
}

// target names a write among the others of an operation: user info is no part
// of what it does.
func target(method string, req *http.Request) string {
	u := *req.URL
	u.User, u.Fragment = nil, ""
	return method + " " + u.String()
}

// spellings returns the names under which h has a field, whatever their case,
// and the field's values.
func spellings(h http.Header, canonical string) (names, values []string) {
	if len(h) == 0 {
		return nil, nil
	}
	for name, v := range h {
		if len(name) == len(canonical) && strings.EqualFold(name, canonical) {
			names = append(names, name)
			values = append(values, v...)
		}
	}
	return names, values
}

// isRead reports whether a method only reads (RFC 9110 section 9.2.1; QUERY). An
// empty one is GET.
func isRead(method string) bool {
	switch method {
	case "", "GET", "HEAD", "OPTIONS", "TRACE", "QUERY":
		return true
	}
	return false
}

// isIdempotent reports whether a method that writes has the same effect however
// often it is sent (RFC 9110 section 9.2.2).
func isIdempotent(method string) bool { return method == "PUT" || method == "DELETE" }

// to returns where the request goes: each scheme, host and port has a state of
// its own; path and query do not.
func (t *Transport) to(req *http.Request) *retry.Destination {
	if t.Destination != nil {
		if name := t.Destination(req); name != "" {
			return t.Layer.To(name)
		}
	}
	scheme, host := req.URL.Scheme, req.URL.Host
	h := t.last.Load()
	if h == nil || h.layer != t.Layer || h.scheme != scheme || h.host != host {
		h = &handle{t.Layer, scheme, host, t.Layer.To(origin(req))}
		t.last.Store(h)
	}
	return h.dest
}

// origin returns scheme, host and port of a request's URL, the port only if it
// is not the scheme's own.
func origin(req *http.Request) string {
	host := req.URL.Host
	switch req.URL.Scheme {
	case "https":
		host = strings.TrimSuffix(host, ":443")
	case "http":
		host = strings.TrimSuffix(host, ":80")
	}
	return req.URL.Scheme + "://" + strings.ToLower(host)
}

// watch ends the call's context when the caller closes its channel.
func (x *exchange) watch(closed <-chan struct{}) {
	ctx, cancel := context.WithCancelCause(x.ctx)
	x.ctx = watched{ctx, cancel}
	go func() {
		select {
		case <-closed:
			cancel(errRequestCanceled)
		case <-ctx.Done():
		}
	}()
}

// watched is a context that a watch ends.
type watched struct {
	context.Context
	cancel context.CancelCauseFunc
}

// unwatch ends the watch, if there is one.
func (x *exchange) unwatch() {
	if w, ok := x.ctx.(watched); ok {
		w.cancel(nil)
	}
}

var errRequestCanceled = errors.New("httpclient: Request.Cancel was closed")
