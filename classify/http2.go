package classify

import (
	"reflect"
	"strings"
)

// stream reads the error of an HTTP/2 stream. REFUSED_STREAM proves that the
// other side processed nothing (RFC 9113 section 8.7), if it was the other side
// that said so.
//
// net/http does not export the type. It is known by its fields, which
// golang.org/x/net/http2 exports as StreamError.
func stream(err error) (evidence, bool) {
	const refusedStream = 7 // RFC 9113 section 7
	v := reflect.ValueOf(err)
	if v.Kind() != reflect.Struct || v.NumField() != 3 {
		return evidence{}, false
	}
	id, code, because := v.FieldByName("StreamID"), v.FieldByName("Code"), v.FieldByName("Cause")
	if id.Kind() != reflect.Uint32 || code.Kind() != reflect.Uint32 || !because.IsValid() || because.Type() != reflect.TypeFor[error]() {
		return evidence{}, false
	}
	cause, _ := because.Interface().(error)
	switch {
	case cause == nil || cause.Error() != "received from peer":
		// Found by this side, in what the other side sent.
		return evidence{Verdict: Verdict{Reason: reasonMalformed}}, true
	case code.Uint() == refusedStream:
		return streamRefused, true
	}
	return evidence{Verdict: Verdict{Reason: reasonReset}}, true
}

var (
	streamRefused = evidence{Verdict{Class: Retryable, Reason: reasonRefusedStream}, lastSend}
	goneAway      = evidence{Verdict{Class: Retryable, Reason: reasonGoAway}, lastSend}
)

// textHTTP2 reads the texts of net/http's HTTP/2 client for which there is no
// type. A stream above the last one that a GOAWAY names was not processed
// (RFC 9113 section 6.8).
func textHTTP2(s string) (evidence, bool) {
	if code, ok := strings.CutPrefix(s, "http2: Transport received GOAWAY from server ErrCode:"); ok {
		e := goneAway
		e.Throttled = code == "ENHANCE_YOUR_CALM"
		return e, true
	}
	if rest, ok := strings.CutPrefix(s, "http2: Transport: cannot retry err ["); ok {
		inner, _, _ := strings.Cut(rest, "] after Request.Body was written")
		if inner == "http2: Transport received Server's graceful shutdown GOAWAY" {
			return goneAway, true
		}
		if strings.HasPrefix(inner, "stream error: ") && strings.HasSuffix(inner, "; REFUSED_STREAM; received from peer") {
			return streamRefused, true
		}
		return evidence{Verdict: Verdict{Reason: reasonReset}}, true
	}
	switch {
	case strings.HasPrefix(s, "http2: server sent GOAWAY and closed the connection; "):
		// Always a stream that the GOAWAY does not exclude.
		return evidence{Verdict: Verdict{Reason: reasonGoAway}}, true
	case strings.HasPrefix(s, "connection error: "), strings.HasPrefix(s, "http2: connection error: "):
		return evidence{Verdict: Verdict{Reason: reasonMalformed}}, true
	case s == "http2: client conn could not be established":
		// Said only of a connection on which no stream was begun.
		return evidence{Verdict{Class: Retryable, Reason: reasonClosed}, lastSend}, true
	case s == "http2: client connection lost":
		return evidence{Verdict: Verdict{Reason: reasonClosed}}, true
	case s == "http2: response body closed", s == "http2: request body larger than specified content length":
		return badBody, true
	}
	return evidence{}, false
}
