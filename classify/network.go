package classify

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"net"
	"net/textproto"
	"net/url"
	"os"
	"reflect"
	"syscall"
)

// network reads one error of a chain that comes from a connection or from the
// making of one.
func network(err error) (evidence, bool) {
	switch e := err.(type) {
	case *url.Error:
		// It implements net.Error whatever it holds, so that only a URL that
		// could not be parsed is told from its type.
		if e.Op == "parse" {
			return badRequest, true
		}
		return evidence{}, false
	case *net.OpError:
		return operation(e)
	case *net.DNSError:
		return lookup(e), true
	case *net.AddrError, net.InvalidAddrError, net.UnknownNetworkError:
		return badRequest, true
	case *tls.CertificateVerificationError, x509.UnknownAuthorityError, x509.HostnameError, x509.CertificateInvalidError:
		return evidence{Verdict{Class: Permanent, Reason: reasonCertificate}, connecting}, true
	case tls.RecordHeaderError:
		if e.Conn != nil { // it was the first record
			return evidence{Verdict{Class: Permanent, Reason: reasonTLS}, connecting}, true
		}
		return evidence{Verdict{Reason: reasonTLS}, handshaking}, true
	case tls.AlertError:
		return alert(uint64(e)), true
	case textproto.ProtocolError:
		return evidence{Verdict: Verdict{Reason: reasonMalformed}}, true
	case syscall.Errno:
		return errno(e)
	}
	switch {
	case is(err, context.Canceled):
		return evidence{Verdict: Verdict{Origin: Caller, Reason: reasonCanceled}}, true
	case is(err, io.EOF), is(err, io.ErrUnexpectedEOF), is(err, net.ErrClosed), is(err, io.ErrClosedPipe):
		return evidence{Verdict: Verdict{Reason: reasonClosed}}, true
	case isSchemeMismatch(err):
		return evidence{Verdict{Class: Permanent, Reason: reasonTLS}, connecting}, true
	case isTooLarge(err):
		return badBody, true
	}
	if e, ok := stream(err); ok {
		return e, true
	}
	if isLeaf(err) {
		return text(err.Error())
	}
	return evidence{}, false
}

var (
	badRequest = evidence{Verdict{Class: Permanent, Origin: Local, Reason: reasonRequest}, connecting}
	badWrite   = evidence{Verdict{Class: Permanent, Origin: Local, Reason: reasonRequest}, lastSend}
	badBody    = evidence{Verdict{Class: Permanent, Origin: Local, Reason: reasonBody}, lastSend}
)

// timesOut reads one error of a chain that says nothing but that time ran out.
// It comes after everything else: an error that wraps another often passes on
// the other's Timeout.
func timesOut(err error) (evidence, bool) {
	if t, ok := err.(interface{ Timeout() bool }); ok && t.Timeout() {
		return evidence{Verdict: Verdict{Reason: reasonTimeout}}, true
	}
	return evidence{}, false
}

// operation reads an error of package net by what was being done.
func operation(e *net.OpError) (evidence, bool) {
	switch e.Op {
	case "dial":
		return dialing(e.Err), true
	case "proxyconnect", "socks connect":
		return unconnected(reasonProxy, e.Err), true
	case "remote error", "local error":
		// crypto/tls does not export the type of an alert.
		if code := reflect.ValueOf(e.Err); code.Kind() == reflect.Uint8 {
			if e.Op == "local error" {
				return evidence{Verdict{Reason: reasonTLS}, handshaking}, true
			}
			return alert(code.Uint()), true
		}
	}
	return evidence{}, false
}

// dialing returns what the failure to make a connection means.
func dialing(err error) evidence {
	if n, ok := errors.AsType[syscall.Errno](err); ok {
		switch n {
		case syscall.EADDRNOTAVAIL:
			// From connect, all ports are in use; from bind, the local address
			// that was asked for is not this machine's.
			if call, ok := errors.AsType[*os.SyscallError](err); ok && call.Syscall == "bind" {
				return evidence{Verdict{Class: Permanent, Origin: Local, Reason: reasonLocal}, connecting}
			}
		case syscall.EACCES, syscall.EPERM, syscall.EAFNOSUPPORT:
			return evidence{Verdict{Class: Permanent, Origin: Local, Reason: reasonLocal}, connecting}
		case syscall.ENOENT: // no such Unix socket
			return evidence{Verdict{Class: Permanent, Reason: reasonDial}, connecting}
		}
	}
	return unconnected(reasonDial, err)
}

// unconnected returns what an error means that kept a connection from being
// made. Whatever it is, nothing was sent on that connection.
func unconnected(reason string, err error) evidence {
	e, _ := find(err, network, timesOut)
	switch e.Reason {
	case reasonDNS, reasonRequest, reasonCertificate, reasonLocal, reasonTimeout, reasonCanceled:
		if e.Class == Ambiguous {
			e.Class = Retryable
		}
	case reasonTLS:
		e.Class = Permanent
	default:
		e = evidence{Verdict: Verdict{Class: Retryable, Reason: reason}}
	}
	e.scope = connecting
	return e
}

// lookup returns what a failure to resolve a name means. A server that answers
// SERVFAIL is marked as temporary, one that answers REFUSED is not, so that the
// mark says nothing.
func lookup(e *net.DNSError) evidence {
	v := Verdict{Class: Retryable, Reason: reasonDNS}
	switch {
	case errors.Is(e.UnwrapErr, context.Canceled):
		v.Origin, v.Reason = Caller, reasonCanceled
	case e.IsTimeout:
		v.Reason = reasonTimeout
	case e.IsNotFound:
		v.Class = Permanent
	}
	return evidence{v, connecting}
}

// alert returns what an alert of the other side means (RFC 8446 section 6). One
// about our own certificate comes, in TLS 1.3, only after the request was
// written; the other side has not looked at the request then.
func alert(code uint64) evidence {
	const badCertificate, accessDenied, certificateRequired = 42, 49, 116
	if code == certificateRequired || badCertificate <= code && code <= accessDenied {
		return evidence{Verdict{Class: Permanent, Reason: reasonCertificate}, lastSend}
	}
	return evidence{Verdict{Reason: reasonTLS}, handshaking}
}

// errno reads an error of the system.
func errno(n syscall.Errno) (evidence, bool) {
	switch n {
	case syscall.ECONNREFUSED:
		return evidence{Verdict{Class: Retryable, Reason: reasonDial}, connecting}, true
	case syscall.ECONNRESET, syscall.ECONNABORTED, syscall.EPIPE:
		return evidence{Verdict: Verdict{Reason: reasonReset}}, true
	case syscall.EMFILE, syscall.ENFILE, syscall.ENOBUFS, syscall.ENOMEM, syscall.EADDRNOTAVAIL:
		// What was being done when it ran out is not known.
		return evidence{Verdict: Verdict{Origin: Local, Reason: reasonLocal}}, true
	}
	return evidence{}, false
}
