package httpclient

import (
	"cmp"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/reintento/reintento/classify"
	"github.com/reintento/reintento/retry"
)

// answered fills in what a response means: the table of package classify, then
// what a destination says of its own statuses and what the user's classifiers
// say, then what a trusted key changes. A header by which the server refuses a
// repeat stands above all of them.
func (x *exchange) answered(r *retry.Result, resp *http.Response, t *retry.Try) {
	code := resp.StatusCode
	r.Status = code
	r.Outcome = retry.Applied
	if x.safety == retry.Keyed && says(resp.Header, "Idempotency-Status", "ignored") {
		x.safety, r.KeyIgnored = retry.Unsafe, true
	}
	v, failed := status(code, resp.Header)
	if code == http.StatusSwitchingProtocols && x.request.Header.Get("Upgrade") != "" {
		failed = false
	}
	refused := failed && refusesRepeat(resp.Header)
	own, declared := t.Policy.Statuses[code]
	if declared {
		if !failed {
			v.RetryAfter, _ = classify.RetryAfter(resp.Header, time.Now())
		}
		failed = true
		v.Reason = "http_" + strconv.Itoa(code)
		if !refused {
			v.Class = own
		}
	}
	hint := v.RetryAfter
	if failed && !refused {
		e := &StatusError{StatusCode: code, Status: resp.Status, Header: resp.Header, verdict: v}
		if given, ok := x.passage.Call().Classify(e); ok {
			v, own, declared = over(v, given), given.Class, true
		}
	}
	r.Final = x.safety == retry.Keyed && (!failed || code == http.StatusSeeOther || speaksForAll(code, v) ||
		says(resp.Header, "Idempotent-Replayed", "true"))
	if !failed {
		return
	}
	r.Failed, r.Stated = true, declared
	if code == http.StatusConflict && x.safety == retry.Keyed && !declared && !refused {
		v.Class = classify.Retryable // the first attempt is still running
	}
	v.Repeatable = v.Repeatable || x.safety != retry.Unsafe
	r.Verdict = v
	meaning := v.Class
	switch {
	case declared:
		meaning = own
	case refused:
		meaning = withoutRefusal(code, resp.Header)
	}
	r.Outcome = x.outcome(code, meaning, declared)
	r.Well = code < 500 && code != http.StatusRequestTimeout && code != http.StatusTooManyRequests
	if code == http.StatusTooManyRequests || code == http.StatusServiceUnavailable {
		r.Pushback = hint
	}
}

// status is what package classify makes of an answer that has just arrived. It
// reads the clock itself where a hint is a date.
func status(code int, h http.Header) (v classify.Verdict, failed bool) {
	return classify.Status(code, h, time.Time{})
}

// over returns a verdict that a classifier has given in place of v, with what it
// left out, and not without the server's hint.
func over(v, given classify.Verdict) classify.Verdict {
	given.Reason = cmp.Or(given.Reason, v.Reason)
	given.RetryAfter = max(given.RetryAfter, v.RetryAfter)
	given.Throttled = given.Throttled || v.Throttled
	return given
}

// outcome is what a failed answer, whose status has a meaning, says of the effect
// of its own attempt.
func (x *exchange) outcome(code int, meaning classify.Class, declared bool) retry.Outcome {
	if x.read {
		return retry.NotApplied
	}
	switch code {
	case http.StatusSeeOther:
		return retry.Applied
	case http.StatusSwitchingProtocols, http.StatusMultipleChoices, http.StatusMovedPermanently, http.StatusFound,
		http.StatusUseProxy, 306, http.StatusFailedDependency:
		return retry.Unknown // nothing says that it was not applied
	case http.StatusConflict:
		if meaning == classify.Retryable && !declared {
			return retry.Unknown // it is being done under this key, perhaps for another process
		}
	}
	if meaning == classify.Ambiguous {
		return retry.Unknown
	}
	return retry.NotApplied
}

// withoutRefusal is the class of a status whose response forbids a repeat: a
// server that does so has not said that it did nothing.
func withoutRefusal(code int, h http.Header) classify.Class {
	hint := http.Header{}
	for _, name := range []string{"Retry-After", "Retry-After-Ms", "X-Ms-Retry-After-Ms", "Date", "Age"} {
		if values := h.Values(name); values != nil {
			hint[name] = values
		}
	}
	v, _ := status(code, hint)
	return v.Class
}

// refusesRepeat reports whether a header of the response forbids a repeat,
// whatever the status. A status that leaves the question open shows it.
func refusesRepeat(h http.Header) bool {
	v, _ := status(http.StatusInternalServerError, h)
	return v.Class == classify.Permanent
}

// speaksForAll reports whether a permanent answer to a trusted key is about the
// whole intention: these statuses are given before the key store is asked, and
// so say nothing of earlier attempts.
func speaksForAll(code int, v classify.Verdict) bool {
	if v.Class != classify.Permanent || code < 400 || code > 499 {
		return false
	}
	switch code {
	case 401, 403, 407, 408, 409, 412, 421, 424, 425, 429, 431, 451:
		return false
	}
	return true
}

func says(h http.Header, name, value string) bool {
	return strings.EqualFold(strings.TrimSpace(h.Get(name)), value)
}
