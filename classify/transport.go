package classify

// Trace is what is known about how far an attempt came. The hooks of
// net/http/httptrace give it, for one round trip with everything that net/http
// sends again below it. The zero value knows nothing and proves nothing.
//
// Hooks can fire after the round trip has returned: what is handed to
// [Transport] is a copy taken at its end. HTTP2 must be set wherever the
// protocol is not known to be HTTP/1: on HTTP/1 alone the lack of a header is a
// proof. (HTTP/2 without TLS cannot be told from a connection's TLS state.)
type Trace struct {
	GetConn      bool // the base asked for a connection: its hooks work
	GotConn      int  // connections obtained, re-sends below us included
	Reused       bool // the last of them had carried a request before
	WroteHeaders int  // how often a request's header was handed to a connection
	FirstByte    bool // a byte of a response was seen
	HTTP2        bool // the connection obtained speaks HTTP/2
}

// notSent reports whether nothing of the request can have reached the other
// side. On HTTP/1 a header that was never handed over proves it; on HTTP/2 that
// proves nothing, and only the lack of a connection does. A header that was
// handed over proves nothing either way: it may still be in a buffer.
func (t Trace) notSent() bool {
	return t.GetConn && t.WroteHeaders == 0 && !t.FirstByte && (t.GotConn == 0 || !t.HTTP2)
}

// untouched reports whether no connection was seen at all, be it because there
// was none or because the base fires no hooks.
func (t Trace) untouched() bool {
	return t.GotConn == 0 && t.WroteHeaders == 0 && !t.FirstByte
}

// sentOnce reports whether no send can be hidden behind the last one.
func (t Trace) sentOnce() bool {
	return t.GotConn <= 1 && t.WroteHeaders <= 1
}

// Transport returns what the error of an HTTP round trip proves, given how far
// the attempt came. It does not know the contexts of caller and attempt: an end
// of time is "timeout" and of origin Remote, a cancellation "canceled" and of
// origin Caller, and who ended what is for the sender to see. Repeatable is
// left false: the sender knows the method.
//
// What somebody said about the error counts first, as in [Error], if there was
// one send at most. Else, in this order:
//
//   - A request that cannot be sent, and a certificate that is not accepted,
//     are Permanent.
//   - REFUSED_STREAM from the other side, and GOAWAY for a stream above the
//     last that it processed, are Retryable (RFC 9113 sections 8.7 and 6.8), if
//     hooks fired and there was no other send.
//   - What was provably not sent is Retryable, or Permanent where a repeat
//     could not help. The proof is that a connection was asked for and none was
//     obtained, or that on HTTP/1 no header was handed to one.
//   - Everything else is Ambiguous. So is every error of a base whose hooks do
//     not fire, and every error behind which an earlier send may be hidden.
//
// A nil error is a mistake of the program; it is Ambiguous and "unknown".
func Transport(err error, t Trace) Verdict {
	if err == nil {
		return Verdict{Reason: reasonUnknown}
	}
	if v, ok := spokenFor(err); ok {
		if !t.notSent() && !t.sentOnce() {
			v.Class = Ambiguous
		}
		return v.checked()
	}
	e, ok := find(err, network, timesOut)
	if !ok {
		e = evidence{Verdict: Verdict{Reason: reasonUnknown}}
		if t.notSent() && t.GotConn == 0 {
			if p, ok := find(err, proxyRefusal, nil); ok {
				e = p
			}
		}
	}
	v := e.Verdict
	if t.notSent() {
		switch {
		case e.scope == handshaking:
			v.Class = Permanent
		case v.Class == Ambiguous:
			v.Class = Retryable
		}
		return v
	}
	switch e.scope {
	case connecting:
		// Permanent needs no hooks: it would fail the same way again. But an
		// earlier connection may have carried the request.
		if v.Class == Retryable || !t.untouched() {
			v.Class = Ambiguous
		}
	case lastSend:
		if !t.sentOnce() || v.Class == Retryable && (!t.GetConn || t.FirstByte) {
			v.Class = Ambiguous
		}
	}
	return v
}
