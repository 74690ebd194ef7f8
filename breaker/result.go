package breaker

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/reintento/reintento/classify"
)

// Result is what an attempt says about the health of its destination.
type Result uint8

const (
	// Success means that the destination works: it answered. It is the zero value, and what an attempt without an
	// error gives.
	Success Result = iota
	// Failure means that it does not.
	Failure
	// Excluded means that the attempt says nothing about it: it leaves no trace, and a probe's place is free again.
	Excluded
)

// String returns "success", "failure" or "excluded".
func (r Result) String() string {
	switch r {
	case Success:
		return "success"
	case Failure:
		return "failure"
	case Excluded:
		return "excluded"
	}
	return fmt.Sprintf("Result(%d)", uint8(r))
}

// errFailure is a failure in gobreaker's terms.
var errFailure = errors.New("failure")

// ResultOf returns what the verdict of a failed attempt means to the breaker:
//
//   - Excluded, if its origin is not the destination: what failed in this process or was ended by the caller, and a
//     refusal by a breaker, say nothing about the callee.
//   - By its status, if the reason names one ("http_503"). 408 and the statuses from 500 are failures. Two groups are
//     not: 429 is excluded, for a callee that rations is alive, and counting it as a success would hide an overload;
//     501, 505, 506, 507, 508, 510, 511 and 561 are excluded, for they speak about the one request. Every other
//     status below 500 is an answer, and so a success, 403 and 404 too.
//   - Failure, if the destination could not be spoken to: no connection, no name, no handshake, no answer in time.
//     This includes what is permanent among these, such as a name that does not exist or a certificate that is not
//     trusted.
//   - Excluded, if it was turned away for load without a status.
//   - Success, if it is any other permanent error, or a conflict with another transaction: that is an answer.
func ResultOf(v classify.Verdict) Result {
	if v.Origin != classify.Remote {
		return Excluded
	}
	if code, ok := statusOf(v.Reason); ok {
		return resultOfStatus(code)
	}
	switch {
	case v.Throttled:
		return Excluded
	case v.Reason == "conflict":
		return Success
	case v.Class != classify.Permanent, isConnection(v.Reason):
		return Failure
	}
	return Success
}

// statusOf reads the status out of a reason such as "http_503".
func statusOf(reason string) (code int, ok bool) {
	digits, ok := strings.CutPrefix(reason, "http_")
	if !ok {
		return 0, false
	}
	code, err := strconv.Atoi(digits)
	return code, err == nil
}

func resultOfStatus(code int) Result {
	switch code {
	case 408:
		return Failure
	case 429, 501, 505, 506, 507, 508, 510, 511, 561:
		return Excluded
	}
	if code < 500 {
		return Success
	}
	return Failure
}

// isConnection reports whether a permanent verdict's reason speaks about reaching the destination rather than about
// its answer.
func isConnection(reason string) bool {
	switch reason {
	case "dial", "dns", "tls", "certificate", "proxy":
		return true
	}
	return false
}
