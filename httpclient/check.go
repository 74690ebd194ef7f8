package httpclient

import (
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"github.com/reintento/reintento/classify"
	"github.com/reintento/reintento/retry"
)

// StatusError is a failed response as an error. It matches
// [retry.ErrOutcomeUnknown] if the request may have been applied, and the reason
// for which there was no further attempt, such as [retry.ErrAttempts].
type StatusError struct {
	StatusCode int          // 503
	Status     string       // "503 Service Unavailable"
	Header     http.Header  // all of it, with what is secret in it
	Body       []byte       // its first 4 KiB
	Truncated  bool         // whether there was more
	Report     retry.Report // how the response came about; zero without a Transport

	verdict classify.Verdict
}

// Error names the status and what is known of the effect; body and header
// values are left out.
func (e *StatusError) Error() string {
	status := e.Status
	if status == "" {
		status = strconv.Itoa(e.StatusCode) + " " + http.StatusText(e.StatusCode)
	}
	s := "httpclient: " + status
	if n := len(e.Report.Attempts); n > 1 {
		s += fmt.Sprintf(" after %d attempts", n)
	}
	if e.unknown() {
		s += "; the request may have been applied: find out before repeating it"
	}
	return s
}

// Is reports whether target is retry.ErrOutcomeUnknown and the outcome of the
// request is unknown.
func (e *StatusError) Is(target error) bool {
	return target == retry.ErrOutcomeUnknown && e.unknown()
}

// Unwrap returns the reason for which there was no further attempt, nil if there
// was one or if nobody decided.
func (e *StatusError) Unwrap() error { return e.Report.Stop }

func (e *StatusError) unknown() bool {
	return e.Report.Stop != nil && e.Report.Outcome == retry.Unknown
}

// Verdict is what the response means.
func (e *StatusError) Verdict() classify.Verdict { return e.verdict }

// RepeatRefused reports whether a header of the response forbids a repeat,
// whatever else is said of its status.
func (e *StatusError) RepeatRefused() bool { return refusesRepeat(e.Header) }

func statusError(resp *http.Response, call *retry.Call) *StatusError {
	e := &StatusError{StatusCode: resp.StatusCode, Status: resp.Status, Header: resp.Header}
	if call != nil {
		e.Report = call.Report()
	}
	failed := false
	if n := len(e.Report.Attempts); n > 0 {
		last := e.Report.Attempts[n-1]
		e.verdict, failed = last.Verdict, last.Failed
	}
	if call == nil || !failed {
		e.verdict, _ = classify.Status(resp.StatusCode, resp.Header, time.Now())
	}
	return e
}

// Check returns nil for a response that is a success, and leaves it as it is.
// Any other it turns into a [*StatusError]: it reads up to 4 KiB of the body, in
// no more than a second, and closes it.
func Check(resp *http.Response) error {
	if resp == nil {
		return errors.New("httpclient: response is nil")
	}
	call := callOf(resp)
	if call != nil {
		if attempts := call.Report().Attempts; len(attempts) > 0 && attempts[len(attempts)-1].Status == resp.StatusCode {
			if !attempts[len(attempts)-1].Failed {
				return nil
			}
			return checked(resp, call)
		}
		call = nil
	}
	if _, failed := classify.Status(resp.StatusCode, resp.Header, time.Now()); !failed {
		return nil
	}
	return checked(resp, call)
}

func checked(resp *http.Response, call *retry.Call) error {
	e := statusError(resp, call)
	if resp.Body != nil {
		e.Body, e.Truncated = readSome(resp.Body, time.Second, nil)
		resp.Body.Close()
	}
	return e
}

// ReportOf tells how a response came about: attempts, waits, hidden sends and
// key. A response that did not come through a [Transport] has a zero report.
func ReportOf(resp *http.Response) retry.Report {
	if call := callOf(resp); call != nil {
		return call.Report()
	}
	return retry.Report{}
}

func callOf(resp *http.Response) *retry.Call {
	if resp == nil {
		return nil
	}
	switch b := resp.Body.(type) {
	case *responseBody:
		return b.passage.Call()
	case *upgradedBody:
		return b.passage.Call()
	}
	if resp.Request == nil {
		return nil
	}
	call, ok := retry.CallOf(resp.Request.Context())
	if !ok {
		return nil
	}
	return call.Outermost()
}
