package classify

import (
	"net/http"
	"strconv"
	"strings"
	"time"
)

// This is the one file that knows net/http, so that everything else here serves
// programs that speak something else.

// Status returns what an HTTP status proves for a request whose key, if it had
// one, is not known to be honoured, and reports whether it is a failure: 2xx and
// 304 are none. received is when the response's head arrived, see [RetryAfter];
// h may be nil.
//
//   - Retryable: 421, 425, 429, 521, 523, 525, 529; 403, 413 and 503 with a
//     valid hint (RFC 9110 sections 15.5.14, 15.5.20 and 15.6.4; RFC 6585
//     section 4; RFC 8470 section 5.2).
//   - Ambiguous: 408, 499, and every status from 500 that is not named here.
//   - Permanent: every other status below 500, as 3xx and 400 are (RFC 9110
//     section 15), an upgrade that nobody asked for among them (101); 501, 505,
//     506, 507, 508, 510, 511, 526, 530, 561.
//
// An interim status (1xx but 101) is never final. A base that returns one, or
// one outside 100 to 999, has lost the answer: Ambiguous.
//
// Throttled are 429, 509, 529, and 403, 413 and 503 with a hint. The hint of any
// failed status is in RetryAfter.
//
// A server that says no is believed whatever the status: Idempotent-Replayed:
// true, Stripe-Should-Retry: false and a negative Retry-Pushback-Ms make it
// Permanent.
func Status(code int, h http.Header, received time.Time) (v Verdict, failed bool) {
	if code >= 200 && code <= 299 || code == http.StatusNotModified {
		return Verdict{}, false
	}
	if code < 100 || code > 999 {
		return Verdict{Reason: reasonMalformed}, true
	}
	v.Reason = reasonStatus + strconv.Itoa(code)
	hint, hinted := RetryAfter(h, received)
	v.RetryAfter = hint
	switch code {
	case 421, 425, 521, 523, 525:
		v.Class = Retryable
	case 429, 529:
		v.Class, v.Throttled = Retryable, true
	case 403, 413:
		v.Class = Permanent
		if hinted {
			// A limit in disguise: the server invites the repeat.
			v.Class, v.Throttled = Retryable, true
		}
	case 503:
		if hinted {
			v.Class, v.Throttled = Retryable, true
		}
	case 509:
		v.Throttled = true
	case 408, 499:
	case 101, 501, 505, 506, 507, 508, 510, 511, 526, 530, 561:
		v.Class = Permanent
	default:
		if code >= 300 && code <= 499 {
			v.Class = Permanent
		}
	}
	if refusesRepeat(h) {
		v.Class = Permanent
	}
	return v, true
}

// refusesRepeat reports whether the header of a failed response says that a
// repeat cannot help.
func refusesRepeat(h http.Header) bool {
	return says(h, "Idempotent-Replayed", "true") ||
		says(h, "Stripe-Should-Retry", "false") ||
		isNegative(h.Get("Retry-Pushback-Ms"))
}

func says(h http.Header, name, value string) bool {
	return strings.EqualFold(strings.Trim(h.Get(name), " \t"), value)
}

// RetryAfter returns the wait that a response asks for, counted from received,
// and reports whether it asks for one. It reads Retry-After-Ms,
// X-Ms-Retry-After-Ms (milliseconds) and Retry-After (RFC 9110 section 10.2.3:
// seconds or a date), and takes the first that is valid. The wait is never
// negative and never shorter than what was asked for; one that no Duration can
// hold is the longest Duration there is.
//
// Only digits are a number: signs, fractions, exponents and lists are no hint,
// nor is 0, a past date, or a header that comes twice. A date has one of the
// three forms of RFC 9110 section 5.6.7 and is in GMT. It is compared with the
// response's own Date, which takes the difference of the clocks out of it,
// unless the response has an Age, that is, comes from a cache; else with
// received. A zero received means now.
func RetryAfter(h http.Header, received time.Time) (time.Duration, bool) {
	for _, name := range [...]string{"Retry-After-Ms", "X-Ms-Retry-After-Ms"} {
		if d, ok := number(only(h, name), time.Millisecond); ok {
			return d, true
		}
	}
	value := only(h, "Retry-After")
	if value == "" {
		return 0, false
	}
	if d, ok := number(value, time.Second); ok {
		return d, true
	}
	if received.IsZero() {
		received = time.Now()
	}
	at, ok := date(value, received)
	if !ok {
		return 0, false
	}
	from := received
	if sent, ok := date(only(h, "Date"), received); ok && len(h.Values("Age")) == 0 {
		from = sent
	}
	d := at.Sub(from)
	return max(d, 0), d > 0
}

// only returns the value of a header that comes once, without the blanks around
// it, and "" for any other.
func only(h http.Header, name string) string {
	values := h.Values(name)
	if len(values) != 1 {
		return ""
	}
	return strings.Trim(values[0], " \t")
}

// isSchemeMismatch reports whether err is that of an HTTPS client to whom an
// HTTP server answers.
func isSchemeMismatch(err error) bool { return is(err, http.ErrSchemeMismatch) }

// isTooLarge reports whether err is that of a body beyond the limit that this
// process has set.
func isTooLarge(err error) bool {
	_, ok := as[*http.MaxBytesError](err)
	return ok
}

// proxyRefusal reads the error of a CONNECT that the proxy refused: net/http
// returns nothing but the text of the status.
func proxyRefusal(err error) (evidence, bool) {
	if !isLeaf(err) {
		return evidence{}, false
	}
	s := err.Error()
	for code := 400; code <= 599; code++ {
		if s != "" && s == http.StatusText(code) {
			e := evidence{Verdict{Class: Permanent, Reason: reasonProxy}, connecting}
			if code >= 500 || code == http.StatusRequestTimeout || code == http.StatusTooManyRequests {
				e.Class = Retryable
			}
			e.Throttled = code == http.StatusTooManyRequests
			return e, true
		}
	}
	return evidence{}, false
}
