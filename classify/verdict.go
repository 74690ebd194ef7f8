package classify

import "time"

// Verdict is what one failed attempt proves. The zero value says that nothing
// is known: it is Ambiguous and of origin Remote. Verdicts are comparable.
type Verdict struct {
	Class  Class
	Origin Origin
	// Reason names what happened, in one word of few, for logs and metrics.
	// This package has these words, and no others of its own:
	//
	//	dial           no connection: refused, unreachable
	//	dns            the name could not be resolved
	//	proxy          the proxy was not reached, or refused
	//	tls            the handshake failed, or the other side broke off TLS
	//	certificate    a certificate was not accepted, by either side
	//	timeout        no answer in time
	//	canceled       the caller gave up
	//	reset          the connection, or the HTTP/2 stream, was reset
	//	closed         the connection was closed
	//	refused_stream the HTTP/2 stream was refused before it was processed
	//	goaway         the HTTP/2 connection is being shut down
	//	malformed      the answer broke the protocol
	//	request        the request cannot be sent as it is
	//	body           a body that cannot be sent or read as it is
	//	sql            the database's answer
	//	conflict       the database's answer: another transaction was in the way
	//	decode         an answer that could not be decoded
	//	local          this process lacks something: a file handle, a port, a permission
	//	http_100…999   the status, three digits
	//	retryable      marked so, and nothing else is known
	//	permanent      marked so, and nothing else is known
	//	unknown        nothing is known
	//
	// An error that classifies itself may bring another word, as may a
	// [Classifier]: a metric by reason has as many values as they have words.
	Reason string
	// RetryAfter is the server's minimum wait, counted from the failure. Zero
	// means none; it is never negative. The longest Duration stands for
	// "longer than can be said".
	RetryAfter time.Duration
	// Throttled means that the attempt was turned away for load: a repeat
	// should start with the longer delay meant for that.
	Throttled bool
	// Repeatable means that repeating cannot double an effect, whatever the
	// safety of the operation around it: the attempt was a read, an idempotent
	// method or a write under a trusted key. Nothing in this package sets it;
	// who sent the request knows.
	Repeatable bool
}

// Classifier recognises errors of a kind of its own. It reports false for any
// other error, which is then passed on to the next classifier and at last to
// [Error]. It must be safe for use by several goroutines.
type Classifier func(err error) (v Verdict, ok bool)

// The reasons. The list in Verdict's comment is this one.
const (
	reasonDial          = "dial"
	reasonDNS           = "dns"
	reasonProxy         = "proxy"
	reasonTLS           = "tls"
	reasonCertificate   = "certificate"
	reasonTimeout       = "timeout"
	reasonCanceled      = "canceled"
	reasonReset         = "reset"
	reasonClosed        = "closed"
	reasonRefusedStream = "refused_stream"
	reasonGoAway        = "goaway"
	reasonMalformed     = "malformed"
	reasonRequest       = "request"
	reasonBody          = "body"
	reasonSQL           = "sql"
	reasonConflict      = "conflict"
	reasonDecode        = "decode"
	reasonLocal         = "local"
	reasonRetryable     = "retryable"
	reasonPermanent     = "permanent"
	reasonUnknown       = "unknown"

	// reasonStatus is followed by the three digits of the status.
	reasonStatus = "http_"
)

// checked returns a verdict from elsewhere with every field in its range: a
// class that does not exist is Ambiguous, an origin that does not exist Remote,
// a negative wait none, and an empty reason what the class says.
func (v Verdict) checked() Verdict {
	if v.Class > Permanent {
		v.Class = Ambiguous
	}
	if v.Origin > Caller {
		v.Origin = Remote
	}
	v.RetryAfter = max(v.RetryAfter, 0)
	switch v.Reason {
	case "", reasonUnknown, reasonRetryable, reasonPermanent:
		v.Reason = v.Class.bareReason()
	}
	return v
}

// bareReason returns the reason of a failure of which only the class is known.
func (c Class) bareReason() string {
	switch c {
	case Retryable:
		return reasonRetryable
	case Permanent:
		return reasonPermanent
	}
	return reasonUnknown
}
