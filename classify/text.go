package classify

import "strings"

// text reads an error for which net/http has nothing but a text. A text that
// another Go release words otherwise is not recognised any more, and the
// failure is Ambiguous then, which is safe. The tests provoke each of them.
func text(s string) (evidence, bool) {
	for _, p := range requestTexts {
		if strings.HasPrefix(s, p) {
			return badRequest, true
		}
	}
	for _, p := range writingTexts {
		if strings.HasPrefix(s, p) {
			return badWrite, true
		}
	}
	for _, p := range malformedTexts {
		if strings.HasPrefix(s, p) {
			return evidence{Verdict: Verdict{Reason: reasonMalformed}}, true
		}
	}
	switch {
	case strings.HasPrefix(s, "http: ContentLength=") && strings.Contains(s, " with Body length "),
		s == "http: read on closed response body":
		return badBody, true
	case s == "http: server closed idle connection":
		return evidence{Verdict: Verdict{Reason: reasonClosed}}, true
	case s == "net/http: request canceled", s == "net/http: request canceled while waiting for connection":
		return evidence{Verdict: Verdict{Origin: Caller, Reason: reasonCanceled}}, true
	}
	return textHTTP2(s)
}

// requestTexts begin the errors of a request that net/http does not send.
var requestTexts = []string{
	"unsupported protocol scheme ",
	"http: no Host in request URL",
	"http: nil Request.URL",
	"http: nil Request.Header",
	"net/http: nil Context",
	"net/http: invalid method ",
	"net/http: invalid header field ",
	"net/http: invalid trailer field ",
}

// writingTexts begin the errors of a request that net/http refuses when it has a
// connection and is about to write. The last eight are HTTP/2's, but for that of
// the Trailer, which is HTTP/1's as well.
var writingTexts = []string{
	"http: Request.ContentLength=",
	"http: invalid Host header",
	"net/http: can't write control character in Request.URL",
	"invalid Host header",
	"invalid request :path ",
	"invalid HTTP header ",
	"invalid Trailer key ",
	"invalid Upgrade request header: ",
	"invalid Transfer-Encoding request header: ",
	"invalid Connection request header: ",
	"request header list larger than peer's advertised limit",
}

// malformedTexts begin the errors of an answer that is no HTTP/1.
var malformedTexts = []string{
	"malformed HTTP ",
	"malformed chunked encoding",
	"invalid byte in chunk length",
	"unsupported transfer encoding: ",
	"too many transfer encodings: ",
	"bad Content-Length ",
	"invalid empty Content-Length ",
	"http: message cannot contain multiple Content-Length headers",
	"net/http: server response headers exceeded ",
}
