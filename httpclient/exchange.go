package httpclient

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"sync/atomic"
	"time"

	"github.com/reintento/reintento/classify"
	"github.com/reintento/reintento/deadline"
	"github.com/reintento/reintento/retry"
)

// exchange is one request on its way: what package retry repeats.
type exchange struct {
	transport *Transport
	request   *http.Request   // the caller's; never changed
	ctx       context.Context // the caller's, or a watched one

	read       bool         // it changes nothing
	callersKey bool         // the caller's own stays as it is
	dropKey    bool         // no key may go where this request goes
	sent       bool         // the first send has begun
	safety     retry.Safety // of the last attempt
	ended      atomic.Bool  // the response's body has ended

	body     *requestBody
	limit    limit
	response *http.Response // of the last attempt
	content  io.ReadCloser  // its body, once it is handed over
	lost     error          // how that broke
	avoid    *watcher       // of the send that is not to be repeated on its connection

	// What the first send needs is part of the exchange: most calls need no more.
	// A later one has its own, for hooks and the base may hold on to these.
	passage retry.Passage
	first   sending
}

// sending is what one send to the base is made of.
type sending struct {
	watcher watcher
	out     http.Request
	url     url.URL   // of out, where the base may write to it
	key     [1]string // the value of its header
}

// errNothing is what a base that breaks its contract is told by.
var errNothing = errors.New("httpclient: the base returned neither response nor error")

// errSentAgain is the cause that ends an attempt which the layer below is about
// to send once more.
var errSentAgain = errors.New("httpclient: the connection broke and the request was about to be sent again below the retry layer")

// maxStale is how many kept connections one attempt may find closed. No pool
// holds as many by far: a base that goes on saying so is wrong.
const maxStale = 1000

// Attempt makes one attempt. A failure proved not sent on a connection that had
// been used before is none: the server had closed it, and the request goes out
// on the next one, until a fresh one has been used.
func (x *exchange) Attempt(ctx context.Context, t retry.Try) (r retry.Result) {
	x.safety = t.Safety
	ctx, cancel := context.WithCancelCause(ctx)
	x.limit.start(&t, cancel)
	var connections, resends, sends int
	for {
		reused := x.send(ctx, &t, &r)
		connections += r.Connections
		resends += r.Resends
		sends += r.Sends
		if r.Err == nil || !reused || !stale(&r) || resends >= maxStale || ctx.Err() != nil || x.body.reopen() != nil {
			break
		}
		resends++
		r = retry.Result{}
	}
	r.Connections, r.Resends, r.Sends = connections, resends, sends
	if r.Err != nil {
		x.limit.stop()
		x.endAttempt()
	}
	if r.Failed {
		r.Stop = x.body.repeatable()
	}
	return r
}

// stale reports whether an attempt on a kept connection failed only because that
// had been closed by the server.
func stale(r *retry.Result) bool {
	v := &r.Verdict
	return v.Class == classify.Retryable && v.Origin == classify.Remote && r.Connections > 0 &&
		!v.Throttled && (v.Reason == "closed" || v.Reason == "reset" || v.Reason == "goaway")
}

// send hands the request to the base once, fills in what came of it, and reports
// whether its last connection had carried a request before.
func (x *exchange) send(ctx context.Context, t *retry.Try, r *retry.Result) (reused bool) {
	s := &x.first
	if x.sent {
		s = new(sending)
	}
	x.sent = true
	w := &s.watcher
	base := x.transport.base()
	known, ok := base.(*http.Transport)
	w.cancel, w.out, w.avoid = x.limit.cancel, &s.out, x.avoid
	w.foreign, w.plain = !ok, ok && speaksPlainHTTP2(known, x.request)
	w.read = isRead(x.request.Method) && x.body == nil
	w.spare = w.read && x.read && t.Spare > 0
	out := x.outgoing(w.watch(ctx), s, t)
	if err := ctx.Err(); err != nil {
		// The time was over before anything could be sent.
		x.body.release()
		x.failed(r, x.meant(ctx, err), classify.Trace{GetConn: true})
		return false
	}
	unguard := x.body.guard(ctx)
	resp, err := base.RoundTrip(out)
	unguard()
	trace, sent, written := w.facts()
	r.Connections = trace.GotConn + int(w.before)
	r.Resends = max(0, sent-1)
	r.Sends = max(0, min(sent, written)-1)
	switch {
	case err != nil && resp != nil:
		discard(resp)
		resp = nil
	case err == nil && resp == nil:
		err = errNothing
	case err == nil && !x.limit.stop():
		// The time was over before the response could be taken.
		discard(resp)
		resp, err = nil, errAttemptTimeout
	}
	if err != nil {
		x.body.release()
		x.failed(r, x.meant(ctx, err), trace)
		return trace.Reused
	}
	if resp.Request == nil {
		resp.Request = out
	}
	if resp.Body == nil {
		resp.Body = http.NoBody
	}
	x.response = resp
	x.answered(r, resp, t)
	if x.avoid = nil; anotherConnection(resp.StatusCode) {
		x.avoid = w
	}
	return trace.Reused
}

// anotherConnection reports whether what was answered so is repeated on another
// connection (RFC 9110 sections 15.5.9 and 15.5.20).
func anotherConnection(status int) bool {
	return status == http.StatusRequestTimeout || status == http.StatusMisdirectedRequest
}

// meant returns the error that tells what happened, where the one that the base
// returned tells only that the attempt's context has ended. An HTTP server where
// HTTPS was expected is told as an http.Client tells it, which no longer can once
// the error is wrapped.
func (x *exchange) meant(ctx context.Context, err error) error {
	if first, ok := errors.AsType[tls.RecordHeaderError](err); ok && string(first.RecordHeader[:]) == "HTTP/" {
		return http.ErrSchemeMismatch
	}
	switch cause := context.Cause(ctx); {
	case x.ctx.Err() != nil || cause == nil:
		return err
	case cause == errAttemptTimeout, cause == errSentAgain:
		return cause
	}
	return err
}

// failed fills in what an error of the base means.
func (x *exchange) failed(r *retry.Result, err error, trace classify.Trace) {
	if x.body.readError() == errBodyLength {
		err = fmt.Errorf("%w: %w", errBodyLength, err)
	}
	r.Failed, r.Err = true, err
	v, known := x.passage.Call().Classify(err)
	sent := true // as far as is known
	switch {
	case known:
	case err == errSentAgain:
		v = classify.Verdict{Class: classify.Ambiguous, Origin: classify.Remote, Reason: "closed"}
	case errors.Is(err, errInterims):
		v = classify.Verdict{Class: classify.Ambiguous, Origin: classify.Remote, Reason: "malformed"}
	case err == errNothing:
		v = classify.Verdict{Class: classify.Permanent, Origin: classify.Local, Reason: "request"}
	case x.body.readError() != nil && errors.Is(err, x.body.readError()):
		v = classify.Verdict{Class: classify.Permanent, Origin: classify.Local, Reason: "body"}
		sent = trace.GotConn > 0 || !trace.GetConn
	default:
		v = classify.Transport(err, trace)
		sent = v.Class == classify.Ambiguous ||
			v.Class == classify.Permanent && v.Origin == classify.Local && (trace.HTTP2 && trace.GotConn > 0 || trace.WroteHeaders > 0)
	}
	if known {
		sent = v.Class == classify.Ambiguous
	}
	if errors.Is(err, retry.ErrOutcomeUnknown) { // as a layer below says
		sent = true
	}
	v.Repeatable = v.Repeatable || x.safety != retry.Unsafe
	r.Verdict = v
	if r.Outcome = retry.NotApplied; sent && !x.read {
		r.Outcome = retry.Unknown
	}
}

// outgoing makes the request of one attempt: the caller's with a fresh body and
// the headers of this layer. Nothing that the caller holds is shared but what
// nobody writes to.
func (x *exchange) outgoing(ctx context.Context, s *sending, t *retry.Try) *http.Request {
	out := &s.out
	*out = *x.request.WithContext(ctx)
	if out.Header = (http.Header{}); len(x.request.Header) > 0 {
		out.Header = x.request.Header.Clone()
	}
	if s.watcher.foreign { // which should not change a request, but may
		s.url = *x.request.URL
		out.URL = &s.url
	}
	//lint:ignore SA1019 http.Client with Timeout sets it, too
	out.Cancel = nil // the context stands for it
	// Without GetBody net/http never sends a request with a body again by
	// itself, and its error and proof come back whole.
	out.GetBody = nil
	if out.Body = x.body.next(&x.limit); x.body == nil && !s.watcher.foreign && isBare(out) {
		out.Body = nil
	}
	x.setKey(s, t)
	if x.body == nil && !x.read {
		hideKeys(out.Header)
	}
	if t.Policy.Announce {
		announce(ctx, out.Header, t)
	}
	return out
}

// isBare reports whether net/http sends r with no body at all just as it sends it
// with http.NoBody, on which it spends the time of a copy.
func isBare(r *http.Request) bool {
	return r.ContentLength == 0 && len(r.TransferEncoding) == 0 && len(r.Header["Expect"]) == 0
}

// setKey puts the key into the header. The caller's own stays as it is.
func (x *exchange) setKey(s *sending, t *retry.Try) {
	h, policy := s.out.Header, &t.Policy.Key
	switch {
	case x.dropKey:
		dropHeader(h, policy.Header)
		for hop := range x.hops() {
			dropHeader(h, hop.key)
		}
	case t.Key == "" || x.callersKey:
	default:
		if s.key[0] = t.Key; policy.Format == retry.StructuredString {
			s.key[0] = `"` + t.Key + `"`
		}
		h[policy.Header] = s.key[:]
	}
	if t.Policy.Announce && t.Key != "" {
		if names, _ := spellings(h, announcedKey); len(names) == 0 {
			h.Set(announcedKey, t.Key)
		}
	}
}

// dropHeader takes a field out of h, in whatever letters its name is written.
func dropHeader(h http.Header, name string) {
	names, _ := spellings(h, name)
	for _, n := range names {
		delete(h, n)
	}
}

// hideKeys keeps net/http from sending a write without body again on its own,
// which it does on HTTP/1 if it finds one of these names in the map, whatever
// its value. Servers find them in any spelling (RFC 9110 section 5.1).
func hideKeys(h http.Header) {
	for _, name := range [...]string{"Idempotency-Key", "X-Idempotency-Key"} {
		values, ok := h[name]
		if !ok {
			continue
		}
		delete(h, name)
		if len(values) > 0 {
			name = strings.ToLower(name)
			h[name] = append(h[name], values...)
		}
	}
}

// discard closes the body of a response that is not handed over, if the base
// gave it one.
func discard(resp *http.Response) {
	if resp.Body != nil {
		resp.Body.Close()
	}
}

// announce tells a service of one's own which attempt this is and how much time
// is left, so that its layers do not repeat as well and its work ends with ours.
func announce(ctx context.Context, h http.Header, t *retry.Try) {
	if n, limit, ok := retry.Mark(ctx); ok {
		h.Set(AttemptHeader, formatMark(n, limit))
	}
	left, ok := deadline.Remaining(ctx)
	if t.Timeout > 0 && (!ok || t.Timeout < left) {
		left, ok = t.Timeout, true
	}
	if !t.Until.IsZero() {
		if rest := time.Until(t.Until); !ok || rest < left {
			left, ok = rest, true
		}
	}
	if ok {
		h.Set(deadline.Header, deadline.Format(left))
	}
}

// endAttempt ends the context of the last attempt.
func (x *exchange) endAttempt() {
	if x.limit.cancel != nil {
		x.limit.cancel(context.Canceled)
		x.limit.cancel = nil
	}
}

// Again makes sure that the body can be sent again, then gives the last
// response up: drained, so that its connection can be used again.
func (x *exchange) Again() (last, err error) {
	if err := x.body.reopen(); err != nil {
		return nil, err
	}
	if x.response == nil {
		return nil, nil
	}
	resp := x.response
	x.response = nil
	last = drain(resp, x.passage.Call(), x.patience(), x.limit.cancel)
	x.endAttempt()
	x.body.release()
	return last, nil
}

// abandon leaves nothing behind of a call that hands nothing over.
func (x *exchange) abandon() {
	x.limit.stop()
	if x.response != nil {
		x.response.Body.Close()
		x.response = nil
	}
	x.endAttempt()
	x.body.finish()
	x.unwatch()
}
