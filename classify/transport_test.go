package classify_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"syscall"
	"testing"
	"time"

	"github.com/reintento/reintento/classify"
)

// mirror has the fields of an HTTP/2 client's stream error.
type mirror struct {
	StreamID uint32
	Code     uint32
	Cause    error
}

func (m mirror) Error() string { return fmt.Sprintf("stream error: %d", m.Code) }

// likeMirror has fields of other types.
type likeMirror struct {
	StreamID uint32
	Code     uint32
	Cause    string
}

func (likeMirror) Error() string { return "something else" }

var (
	nothing   = classify.Trace{}                                           // no hooks
	asked     = classify.Trace{GetConn: true}                              // no connection
	connected = classify.Trace{GetConn: true, GotConn: 1}                  // HTTP/1, no header
	reused    = classify.Trace{GetConn: true, GotConn: 1, Reused: true}    // the same, on a used one
	wrote     = classify.Trace{GetConn: true, GotConn: 1, WroteHeaders: 1} // a header was handed over
	answered  = classify.Trace{GetConn: true, GotConn: 1, WroteHeaders: 1, FirstByte: true}
	redialed  = classify.Trace{GetConn: true, GotConn: 2}                  // HTTP/1, no header on either
	hidden    = classify.Trace{GetConn: true, GotConn: 2, WroteHeaders: 1} // a header on one of them
	twice     = classify.Trace{GetConn: true, GotConn: 2, WroteHeaders: 2} // a send below the last
	stream1   = classify.Trace{GetConn: true, GotConn: 1, HTTP2: true}     // HTTP/2, no header
	stream    = classify.Trace{GetConn: true, GotConn: 1, WroteHeaders: 1, HTTP2: true}
	streams   = classify.Trace{GetConn: true, GotConn: 1, WroteHeaders: 2, HTTP2: true}
)

func TestTransport(t *testing.T) {
	const ambiguous, retryable, permanent = classify.Ambiguous, classify.Retryable, classify.Permanent
	remote := func(c classify.Class, reason string) classify.Verdict {
		return classify.Verdict{Class: c, Reason: reason}
	}
	of := func(c classify.Class, o classify.Origin, reason string) classify.Verdict {
		return classify.Verdict{Class: c, Origin: o, Reason: reason}
	}
	refused := dialError(os.NewSyscallError("connect", syscall.ECONNREFUSED))
	certificate := &tls.CertificateVerificationError{Err: x509.UnknownAuthorityError{}}
	badScheme := errors.New(`unsupported protocol scheme "x"`)
	refusedStream := mirror{StreamID: 1, Code: 7, Cause: errors.New("received from peer")}
	calm := errors.New("http2: Transport received GOAWAY from server ErrCode:ENHANCE_YOUR_CALM")
	ourCertificate := &net.OpError{Op: "remote error", Err: byteError(116)}
	noVersion := &net.OpError{Op: "remote error", Err: byteError(70)}

	tests := []struct {
		name  string
		err   error
		trace classify.Trace
		want  classify.Verdict
	}{
		{"nil, a mistake of the program", nil, asked, remote(ambiguous, "unknown")},

		{"refused", refused, asked, remote(retryable, "dial")},
		{"refused, no hooks", refused, nothing, remote(ambiguous, "dial")},
		{"refused after a connection that was not used", refused, connected, remote(retryable, "dial")},
		{"refused after a send", refused, wrote, remote(ambiguous, "dial")},
		{"refused after a stream", refused, stream1, remote(ambiguous, "dial")},
		{"no file handle", dialError(os.NewSyscallError("socket", syscall.EMFILE)), asked, of(retryable, classify.Local, "local")},
		{"no file handle after a send", dialError(os.NewSyscallError("socket", syscall.EMFILE)), wrote, of(ambiguous, classify.Local, "local")},
		{"no file handle elsewhere, not sent", syscall.EMFILE, asked, of(retryable, classify.Local, "local")},
		{"no such name", &net.DNSError{IsNotFound: true}, asked, remote(permanent, "dns")},

		{"a bad request", badScheme, nothing, of(permanent, classify.Local, "request")},
		{"a bad request, hooks", badScheme, asked, of(permanent, classify.Local, "request")},
		{"a bad request in the hop of a base of its own", badScheme, wrote, of(ambiguous, classify.Local, "request")},
		{"a certificate", certificate, asked, remote(permanent, "certificate")},
		{"a certificate, no hooks", certificate, nothing, remote(permanent, "certificate")},
		{"a certificate after a send", certificate, wrote, remote(ambiguous, "certificate")},
		{"a certificate after an answer", certificate, classify.Trace{FirstByte: true}, remote(ambiguous, "certificate")},

		{"EOF, not sent", io.EOF, connected, remote(retryable, "closed")},
		{"EOF, not sent on a used connection", io.EOF, reused, remote(retryable, "closed")},
		{"EOF, not sent on two", io.EOF, redialed, remote(retryable, "closed")},
		{"EOF in the handshake", io.EOF, asked, remote(retryable, "closed")},
		{"EOF, header handed over", io.EOF, wrote, remote(ambiguous, "closed")},
		{"EOF, header handed over before", io.EOF, hidden, remote(ambiguous, "closed")},
		{"EOF on HTTP/2 without a header proves nothing", io.EOF, stream1, remote(ambiguous, "closed")},
		{"EOF after a byte of an answer", io.EOF, classify.Trace{GetConn: true, FirstByte: true}, remote(ambiguous, "closed")},
		{"EOF, no hooks", io.EOF, nothing, remote(ambiguous, "closed")},
		{"reset in the handshake", readError(syscall.ECONNRESET), asked, remote(retryable, "reset")},
		{"reset after sending", readError(syscall.ECONNRESET), wrote, remote(ambiguous, "reset")},
		{"unknown, not sent", errOther, asked, remote(retryable, "unknown")},
		{"unknown, sent", errOther, wrote, remote(ambiguous, "unknown")},

		{"timeout, not sent", context.DeadlineExceeded, asked, remote(retryable, "timeout")},
		{"timeout, connected", context.DeadlineExceeded, connected, remote(retryable, "timeout")},
		{"timeout, stream", context.DeadlineExceeded, stream1, remote(ambiguous, "timeout")},
		{"timeout, sent", context.DeadlineExceeded, wrote, remote(ambiguous, "timeout")},
		{"timeout of a dial", dialError(os.ErrDeadlineExceeded), asked, remote(retryable, "timeout")},
		{"timeout of a dial, no hooks", dialError(os.ErrDeadlineExceeded), nothing, remote(ambiguous, "timeout")},
		{"cancelled, not sent", context.Canceled, asked, of(retryable, classify.Caller, "canceled")},
		{"cancelled, sent", context.Canceled, wrote, of(ambiguous, classify.Caller, "canceled")},
		{"cancelled dial", dialError(context.Canceled), asked, of(retryable, classify.Caller, "canceled")},

		{"refused stream", refusedStream, stream, remote(retryable, "refused_stream")},
		{"refused stream before the hook fired", refusedStream, stream1, remote(retryable, "refused_stream")},
		{"refused stream after another", refusedStream, streams, remote(ambiguous, "refused_stream")},
		{"refused stream after another connection", refusedStream, classify.Trace{GetConn: true, GotConn: 2, WroteHeaders: 1, HTTP2: true}, remote(ambiguous, "refused_stream")},
		{"refused stream after a byte of an answer", refusedStream, classify.Trace{GetConn: true, GotConn: 1, WroteHeaders: 1, HTTP2: true, FirstByte: true}, remote(ambiguous, "refused_stream")},
		{"refused stream, no hooks", refusedStream, nothing, remote(ambiguous, "refused_stream")},
		{"a struct that is something else", likeMirror{Code: 7, Cause: "received from peer"}, stream, remote(ambiguous, "unknown")},
		{"refused by ourselves", mirror{Code: 7, Cause: errors.New("too many")}, stream, remote(ambiguous, "malformed")},
		{"refused by nobody", mirror{Code: 7}, stream, remote(ambiguous, "malformed")},
		{"a text like a refused stream", errors.New("stream error: stream ID 1; REFUSED_STREAM; received from peer"), stream, remote(ambiguous, "unknown")},
		{"going away for load", calm, stream, classify.Verdict{Class: retryable, Reason: "goaway", Throttled: true}},
		{"going away for load, after another send", calm, streams, classify.Verdict{Reason: "goaway", Throttled: true}},

		{"our certificate", ourCertificate, wrote, remote(permanent, "certificate")},
		{"our certificate in the handshake", ourCertificate, asked, remote(permanent, "certificate")},
		{"our certificate after an earlier send", ourCertificate, twice, remote(ambiguous, "certificate")},
		{"our certificate on the second of two", ourCertificate, redialed, remote(permanent, "certificate")},
		{"an alert in the handshake", noVersion, asked, remote(permanent, "tls")},
		{"an alert after it", noVersion, wrote, remote(ambiguous, "tls")},
		{"garbage in the handshake", tls.RecordHeaderError{}, asked, remote(permanent, "tls")},
		{"garbage after it", tls.RecordHeaderError{}, wrote, remote(ambiguous, "tls")},
		{"our own limit on the body", &http.MaxBytesError{}, wrote, of(permanent, classify.Local, "body")},

		{"a proxy that refuses for the moment", errors.New("Service Unavailable"), asked, remote(retryable, "proxy")},
		{"a proxy that was asked too often", errors.New("Too Many Requests"), asked, classify.Verdict{Class: retryable, Reason: "proxy", Throttled: true}},
		{"the same, wrapped", fmt.Errorf("x: %w", errors.New("Bad Gateway")), asked, remote(retryable, "proxy")},
		{"the same text after sending", errors.New("Service Unavailable"), wrote, remote(ambiguous, "unknown")},
		{"no text at all", errors.New(""), asked, remote(retryable, "unknown")},

		{"a mark", classify.As(permanent, errOther), wrote, remote(permanent, "permanent")},
		{"a mark, no hooks", classify.As(retryable, io.EOF), nothing, remote(retryable, "closed")},
		{"a mark, not sent", classify.As(ambiguous, errOther), asked, remote(ambiguous, "unknown")},
		{"a mark after another send", classify.After(time.Second, errOther), twice, classify.Verdict{Reason: "unknown", RetryAfter: time.Second}},
		{"a mark after two connections that were not used", classify.As(permanent, errOther), redialed, remote(permanent, "permanent")},

		// What a program does with an answer is no proof about the request.
		{"JSON that a base could not read", jsonError("x", new(int)), wrote, remote(ambiguous, "unknown")},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got := classify.Transport(tt.err, tt.trace)
			if got != tt.want {
				t.Errorf("Transport(%v, %+v) = %+v, want %+v", tt.err, tt.trace, got, tt.want)
			}
			checkReason(t, got)
		})
	}
}

// Whatever the error, a trace that can hide a send never gives a verdict that
// says there was no effect, and one that proves nothing never gives Retryable.
func TestTransportNeverForgetsAnEarlierSend(t *testing.T) {
	var errs []error
	for _, err := range parts {
		errs = append(errs, err, dialError(err), readError(err), fmt.Errorf("x: %w", err), errors.Join(errOther, err))
	}
	for _, s := range []string{
		"http: no Host in request URL", "http: server closed idle connection", "Proxy Authentication Required", "http: invalid Host header",
		"http2: Transport received GOAWAY from server ErrCode:NO_ERROR", "http: ContentLength=1 with Body length 0",
	} {
		errs = append(errs, errors.New(s))
	}
	errs = append(errs, mirror{Code: 7, Cause: errors.New("received from peer")}, &net.OpError{Op: "remote error", Err: byteError(42)}, http.ErrSchemeMismatch)
	for _, err := range errs {
		for _, trace := range []classify.Trace{twice, streams, hidden, {WroteHeaders: 2}, {GotConn: 2, WroteHeaders: 1, FirstByte: true}} {
			if v := classify.Transport(err, trace); v.Class != classify.Ambiguous {
				t.Errorf("Transport(%v, %+v) = %+v, want Ambiguous", err, trace, v)
			}
		}
		if v := classify.Transport(err, nothing); v.Class == classify.Retryable && !marked(err) {
			t.Errorf("Transport(%v, no hooks) = %+v, want no proof", err, v)
		}
		if v := classify.Transport(err, answered); v.Class == classify.Retryable && !marked(err) {
			t.Errorf("Transport(%v, answered) = %+v, want no proof", err, v)
		}
	}
}

// marked reports whether somebody said that err is retryable.
func marked(err error) bool {
	_, ok := errors.AsType[interface {
		error
		Verdict() classify.Verdict
	}](err)
	return ok
}
