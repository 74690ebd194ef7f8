package httpclient_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/reintento/reintento/breaker"
	"github.com/reintento/reintento/classify"
	"github.com/reintento/reintento/httpclient"
	"github.com/reintento/reintento/retry"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// fault is what makes every attempt of a request fail.
type fault struct {
	base   http.RoundTripper
	url    string
	seen   chan struct{}           // the requests that a peer has read whole; nil: no peer could read one
	change func(req *http.Request) // of the request
	// within sets a time within which the request must be where the fault
	// happens to it. The test gives more of it until it is.
	within func(d time.Duration, p *retry.Policy)
}

// errorRow is one row of the tables of errors. Each is tried with two attempts
// for S, K and N; what the numbers must be follows from the class.
type errorRow struct {
	cause  func(t *testing.T) fault
	class  classify.Class
	origin classify.Origin
	reason string // several, with a bar between them, where the system decides

	thr       bool
	sent      bool  // a peer reads every request
	unknown   bool  // permanent, but a part of the request was sent
	is        error // what the error matches, nil for nothing in particular
	orIs      error // what it may match instead, where the system decides
	noReading bool  // a read, which has no body, fares in another way
	asN       bool  // the request is none that may be repeated
}

const (
	remote = classify.Remote
	local  = classify.Local
)

// short bounds what would not end by itself.
const short = 5 * time.Millisecond

var beforeSending = map[string]errorRow{
	"the scheme is unknown": {cause: requestTo("ftp://127.0.0.1/"), class: permanent, origin: local, reason: "request"},
	"the header has no valid name": {cause: changed(func(r *http.Request) { r.Header["a b"] = []string{"c"} }),
		class: permanent, origin: local, reason: "request"},
	"the header has no valid value": {cause: changed(func(r *http.Request) { r.Header["A"] = []string{"b\nc"} }),
		class: permanent, origin: local, reason: "request"},
	"the trailer has no valid name": {cause: changed(func(r *http.Request) { r.Trailer = http.Header{"a b": nil} }),
		class: permanent, origin: local, reason: "request"},
	"the trailer has no valid value": {cause: changed(func(r *http.Request) { r.Trailer = http.Header{"A": {"b\nc"}} }),
		class: permanent, origin: local, reason: "request"},
	"the method is invalid": {cause: changed(func(r *http.Request) { r.Method = "A B" }),
		class: permanent, origin: local, reason: "request", noReading: true, asN: true},
	"the port is invalid": {cause: requestTo("http://127.0.0.1:99999/"), class: permanent, origin: local, reason: "request"},
	"the scheme's own protocol is skipped": {cause: func(t *testing.T) fault {
		base := fresh(t)
		base.RegisterProtocol("own", roundTripFunc(func(*http.Request) (*http.Response, error) { return nil, http.ErrSkipAltProtocol }))
		return fault{base: base, url: "own://127.0.0.1/"}
	}, class: permanent, origin: local, reason: "request"},

	"the body is shorter than its length": {cause: ofLength(100), class: permanent, origin: local, reason: "body", unknown: true, noReading: true},
	"the body is longer than its length":  {cause: ofLength(2), class: permanent, origin: local, reason: "body", unknown: true, noReading: true},
	"the caller's own reader fails": {cause: func(t *testing.T) fault {
		f := silent(t)
		f.change = func(r *http.Request) {
			r.Body = io.NopCloser(io.MultiReader(strings.NewReader("pay"), goneReader{}))
			r.ContentLength, r.GetBody = -1, nil
		}
		f.seen = nil
		return f
	}, class: permanent, origin: local, reason: "body", unknown: true, is: errOwnReader, noReading: true},

	"the connection is refused": {cause: func(t *testing.T) fault {
		return fault{base: fresh(t), url: "http://" + closedPort(t)}
	}, class: retryable, reason: "dial", is: syscall.ECONNREFUSED},
	"the connection is not made within the dialer's time": {cause: dialling(func(d *net.Dialer) { d.Timeout = time.Nanosecond }),
		class: retryable, reason: "timeout", is: context.DeadlineExceeded},
	"the connection is not made within the kernel's time": {cause: errno("connect", syscall.ETIMEDOUT), class: retryable, reason: "timeout|dial", is: syscall.ETIMEDOUT},
	"the connection is not made within the attempt's time": {cause: func(t *testing.T) fault {
		base := fresh(t)
		base.DialContext = func(ctx context.Context, _, _ string) (net.Conn, error) {
			<-ctx.Done()
			return nil, ctx.Err()
		}
		return fault{base: base, url: "http://127.0.0.1/", within: attemptWithin}
	}, class: retryable, reason: "timeout", is: context.DeadlineExceeded},
	"the host is unreachable":    {cause: errno("connect", syscall.EHOSTUNREACH), class: retryable, reason: "dial", is: syscall.EHOSTUNREACH},
	"the network is unreachable": {cause: errno("connect", syscall.ENETUNREACH), class: retryable, reason: "dial", is: syscall.ENETUNREACH},
	"the network is down":        {cause: errno("connect", syscall.ENETDOWN), class: retryable, reason: "dial", is: syscall.ENETDOWN},
	"the connection is aborted":  {cause: errno("connect", syscall.ECONNABORTED), class: retryable, reason: "dial", is: syscall.ECONNABORTED},
	"the process has no file handle left": {cause: errno("socket", syscall.EMFILE),
		class: retryable, origin: local, reason: "local", is: syscall.EMFILE},
	"the system has no file handle left": {cause: errno("socket", syscall.ENFILE), class: retryable, origin: local, reason: "local", is: syscall.ENFILE},
	"the system has no buffer left":      {cause: errno("socket", syscall.ENOBUFS), class: retryable, origin: local, reason: "local", is: syscall.ENOBUFS},
	"the system has no memory left":      {cause: errno("socket", syscall.ENOMEM), class: retryable, origin: local, reason: "local", is: syscall.ENOMEM},
	"all ports are in use":               {cause: errno("connect", syscall.EADDRNOTAVAIL), class: retryable, origin: local, reason: "local"},
	"the local address is not this machine's": {cause: dialling(func(d *net.Dialer) {
		d.LocalAddr = &net.TCPAddr{IP: net.IPv4(192, 0, 2, 1)}
	}), class: permanent, origin: local, reason: "local", is: syscall.EADDRNOTAVAIL},
	"the socket may not be used":      {cause: errno("connect", syscall.EACCES), class: permanent, origin: local, reason: "local", is: syscall.EACCES},
	"the firewall forbids it":         {cause: errno("connect", syscall.EPERM), class: permanent, origin: local, reason: "local", is: syscall.EPERM},
	"the address family is not there": {cause: errno("socket", syscall.EAFNOSUPPORT), class: permanent, origin: local, reason: "local", is: syscall.EAFNOSUPPORT},
	"the Unix socket does not exist": {cause: func(t *testing.T) fault {
		path := filepath.Join(t.TempDir(), "none")
		base := fresh(t)
		base.DialContext = func(ctx context.Context, _, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "unix", path)
		}
		return fault{base: base, url: "http://socket/"}
	}, class: permanent, reason: "dial", is: syscall.ENOENT},

	"NXDOMAIN": {cause: resolver(3), class: permanent, reason: "dns"},
	"NODATA":   {cause: resolver(0), class: permanent, reason: "dns"},
	"a name that cannot be": {cause: func(t *testing.T) fault {
		f := resolver(0)(t)
		f.url = "http://a..b/"
		return f
	}, class: permanent, reason: "dns"},
	"SERVFAIL": {cause: resolver(2), class: retryable, reason: "dns"},
	"REFUSED":  {cause: resolver(5), class: retryable, reason: "dns"},
	"FORMERR":  {cause: resolver(1), class: retryable, reason: "dns"},
	"a DNS server that says nothing": {cause: func(t *testing.T) fault {
		f := resolver(-1)(t)
		f.within = attemptWithin
		return f
	}, class: retryable, reason: "timeout"},
	"a DNS server that says nothing within the dialer's time": {cause: func(t *testing.T) fault {
		return resolving(t, dnsServer(t, -1), short)
	}, class: retryable, reason: "timeout", is: context.DeadlineExceeded},
	"a DNS server that is not there": {cause: func(t *testing.T) fault {
		c, err := net.ListenPacket("udp", "127.0.0.1:0")
		require.NoError(t, err)
		require.NoError(t, c.Close())
		return resolving(t, c.LocalAddr().String(), 0)
	}, class: retryable, reason: "dns"},

	"the proxy refuses the connection": {cause: func(t *testing.T) fault {
		return through(t, "http://"+closedPort(t), "https://127.0.0.1/")
	}, class: retryable, reason: "proxy", is: syscall.ECONNREFUSED},
	"the proxy refuses the connection, without CONNECT": {cause: func(t *testing.T) fault {
		return through(t, "http://"+closedPort(t), "http://127.0.0.1/")
	}, class: retryable, reason: "proxy", is: syscall.ECONNREFUSED},
	"the proxy answers CONNECT with 407": {cause: connectAnswered("HTTP/1.1 407 Proxy Authentication Required\r\nContent-Length: 0\r\n\r\n"),
		class: permanent, reason: "proxy"},
	"the proxy answers CONNECT with 403": {cause: connectAnswered("HTTP/1.1 403 Forbidden\r\nContent-Length: 0\r\n\r\n"), class: permanent, reason: "proxy"},
	"the proxy answers CONNECT with 502": {cause: connectAnswered("HTTP/1.1 502 Bad Gateway\r\nContent-Length: 0\r\n\r\n"), class: retryable, reason: "proxy"},
	"the proxy answers CONNECT with 503": {cause: connectAnswered("HTTP/1.1 503 Service Unavailable\r\nContent-Length: 0\r\n\r\n"), class: retryable, reason: "proxy"},
	"the proxy closes after CONNECT":     {cause: connectAnswered(""), class: retryable, reason: "closed", is: io.ErrUnexpectedEOF},
	"the proxy says nothing to CONNECT": {cause: func(t *testing.T) fault {
		f := through(t, "http://"+serve(t, func(c net.Conn, _ int) { drain(c) }), "https://127.0.0.1/")
		f.within = attemptWithin
		return f
	}, class: retryable, reason: "timeout"},
	"the SOCKS proxy refuses": {cause: func(t *testing.T) fault {
		addr := serve(t, func(c net.Conn, _ int) {
			// RFC 1928: no authentication, then "connection refused".
			if _, err := io.ReadFull(c, make([]byte, 3)); err != nil {
				return
			}
			_, _ = c.Write([]byte{5, 0})
			if _, err := io.ReadFull(c, make([]byte, 10)); err != nil {
				return
			}
			_, _ = c.Write([]byte{5, 5, 0, 1, 0, 0, 0, 0, 0, 0})
			drain(c)
		})
		return through(t, "socks5://"+addr, "http://127.0.0.1:80/")
	}, class: retryable, reason: "proxy"},

	"the certificate is of an authority unknown": {cause: handshake(func(t *testing.T, ca *authority, server, _ *tls.Config) {
		server.Certificates = []tls.Certificate{newAuthority(t).issue(t, nil)}
	}), class: permanent, reason: "certificate"},
	"the certificate has another name": {cause: handshake(func(t *testing.T, ca *authority, server, _ *tls.Config) {
		server.Certificates = []tls.Certificate{ca.issue(t, func(c *x509.Certificate) { c.IPAddresses, c.DNSNames = nil, []string{"other.test"} })}
	}), class: permanent, reason: "certificate"},
	"the certificate is of the past": {cause: handshake(func(t *testing.T, ca *authority, server, _ *tls.Config) {
		server.Certificates = []tls.Certificate{ca.issue(t, func(c *x509.Certificate) {
			c.NotBefore, c.NotAfter = time.Now().Add(-2*time.Hour), time.Now().Add(-time.Hour)
		})}
	}), class: permanent, reason: "certificate"},
	"the certificate is of the future": {cause: handshake(func(t *testing.T, ca *authority, server, _ *tls.Config) {
		server.Certificates = []tls.Certificate{ca.issue(t, func(c *x509.Certificate) {
			c.NotBefore, c.NotAfter = time.Now().Add(time.Hour), time.Now().Add(2*time.Hour)
		})}
	}), class: permanent, reason: "certificate"},
	"no version in common": {cause: handshake(func(_ *testing.T, _ *authority, server, client *tls.Config) {
		server.MinVersion, client.MaxVersion = tls.VersionTLS13, tls.VersionTLS12
	}), class: permanent, reason: "tls"},
	"no cipher in common": {cause: handshake(func(_ *testing.T, _ *authority, server, client *tls.Config) {
		server.MaxVersion, client.MaxVersion = tls.VersionTLS12, tls.VersionTLS12
		server.CipherSuites = []uint16{tls.TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256}
		client.CipherSuites = []uint16{tls.TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384}
	}), class: permanent, reason: "tls"},
	"no protocol in common": {cause: handshake(func(_ *testing.T, _ *authority, server, client *tls.Config) {
		server.NextProtos, client.NextProtos = []string{"other"}, []string{"http/1.1"}
	}), class: permanent, reason: "tls"},
	"a client certificate is demanded, TLS 1.2": {cause: handshake(func(_ *testing.T, _ *authority, server, client *tls.Config) {
		server.ClientAuth, server.MaxVersion = tls.RequireAnyClientCert, tls.VersionTLS12
	}), class: permanent, reason: "tls"}, // handshake_failure (RFC 5246 section 7.4.6)
	"the client certificate is not accepted, TLS 1.2": {cause: handshake(func(t *testing.T, ca *authority, server, client *tls.Config) {
		server.ClientAuth, server.ClientCAs, server.MaxVersion = tls.RequireAndVerifyClientCert, newAuthority(t).pool, tls.VersionTLS12
		client.GetClientCertificate = always(ca.issue(t, nil))
	}), class: permanent, reason: "certificate"},

	"an HTTP server answers an HTTPS client": {cause: inHandshake(func(c net.Conn) {
		_, _ = io.WriteString(c, "HTTP/1.0 400 Bad Request\r\n\r\nno TLS here")
	}), class: permanent, reason: "tls", is: http.ErrSchemeMismatch},
	"garbage in the handshake": {cause: inHandshake(func(c net.Conn) {
		_, _ = io.WriteString(c, "\x00\x01\x02\x03\x04\x05\x06\x07")
	}), class: permanent, reason: "tls"},
	"a FIN in the handshake": {cause: inHandshake(func(net.Conn) {}), class: retryable, reason: "closed", is: io.EOF},
	"a RST in the handshake": {cause: inHandshake(reset), class: retryable, reason: "reset", is: syscall.ECONNRESET},
	"no end of the handshake": {cause: func(t *testing.T) fault {
		f := inHandshake(func(c net.Conn) { drain(c) })(t)
		f.base.(*http.Transport).TLSHandshakeTimeout = short
		return f
	}, class: retryable, reason: "timeout"},
	"no end of the handshake within the attempt's time": {cause: func(t *testing.T) fault {
		f := inHandshake(func(c net.Conn) { drain(c) })(t)
		f.within = attemptWithin
		return f
	}, class: retryable, reason: "timeout"},
	"no place among the connections of the host": {cause: func(t *testing.T) fault {
		held := make(chan struct{}, 1)
		p := &onePeer{answer: func(c net.Conn, _ *http.Request, _ int) bool {
			held <- struct{}{}
			drain(c)
			return false
		}}
		base := fresh(t)
		base.MaxConnsPerHost = 1
		f := fault{base: base, url: "http://" + serve(t, p.serve), within: attemptWithin}
		ctx, cancel := context.WithCancel(t.Context())
		var holder sync.WaitGroup
		holder.Go(func() {
			req, _ := http.NewRequestWithContext(ctx, http.MethodGet, f.url, nil)
			if resp, err := base.RoundTrip(req); err == nil {
				resp.Body.Close()
			}
		})
		t.Cleanup(func() { cancel(); holder.Wait() })
		<-held
		return f
	}, class: retryable, reason: "timeout"},
}

var afterSending = map[string]errorRow{
	"a FIN in place of an answer": {cause: answered(says("")), class: ambiguous, reason: "closed", sent: true, is: io.EOF},
	"a RST in place of an answer": {cause: answered(func(c net.Conn, _ *http.Request, _ int) bool {
		reset(c)
		return false
	}), class: ambiguous, reason: "reset", sent: true, is: syscall.ECONNRESET},
	"a FIN in the request": {cause: func(t *testing.T) fault {
		return fault{base: fresh(t), url: "http://" + serve(t, func(c net.Conn, _ int) { _, _ = c.Read(make([]byte, 1)) })}
	}, class: ambiguous, reason: "closed|reset"},
	"a RST in the upload": {cause: func(t *testing.T) fault {
		f := fault{base: fresh(t), url: "http://" + serve(t, func(c net.Conn, _ int) {
			_, _ = io.ReadFull(c, make([]byte, 64<<10))
			reset(c)
		})}
		f.change = func(r *http.Request) {
			big := strings.Repeat("x", 8<<20)
			r.Body, r.ContentLength = io.NopCloser(strings.NewReader(big)), int64(len(big))
			r.GetBody = func() (io.ReadCloser, error) { return io.NopCloser(strings.NewReader(big)), nil }
		}
		return f
	}, class: ambiguous, reason: "reset|closed", noReading: true},
	"the connection is closed here": {cause: func(t *testing.T) fault {
		conns := make(chan net.Conn, 10)
		f := answered(func(c net.Conn, _ *http.Request, _ int) bool {
			(<-conns).Close()
			return true
		})(t)
		f.base.(*http.Transport).DialContext = func(ctx context.Context, network, addr string) (net.Conn, error) {
			c, err := new(net.Dialer).DialContext(ctx, network, addr)
			conns <- c
			return c, err
		}
		return f
	}, class: ambiguous, reason: "closed", sent: true, is: net.ErrClosed},
	// net/http may report what its reading end finds then: a connection that it has
	// closed itself.
	"the first write fails with nothing written": {cause: func(t *testing.T) fault {
		f := silent(t)
		f.base.(*http.Transport).DialContext = func(ctx context.Context, network, addr string) (net.Conn, error) {
			c, err := new(net.Dialer).DialContext(ctx, network, addr)
			return brokenPipe{c}, err
		}
		f.seen = nil
		return f
	}, class: ambiguous, reason: "reset|closed", is: syscall.EPIPE, orIs: net.ErrClosed},

	"no response header in time": {cause: func(t *testing.T) fault {
		f := silent(t)
		f.base.(*http.Transport).ResponseHeaderTimeout = short
		return f
	}, class: ambiguous, reason: "timeout", sent: true},
	"no response header in the attempt's time": {cause: func(t *testing.T) fault {
		f := silent(t)
		f.within = attemptWithin
		return f
	}, class: ambiguous, reason: "timeout", sent: true, is: context.DeadlineExceeded},
	"half a response header in the attempt's time": {cause: func(t *testing.T) fault {
		f := answered(func(c net.Conn, _ *http.Request, _ int) bool {
			_, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-")
			drain(c)
			return false
		})(t)
		f.within = attemptWithin
		return f
	}, class: ambiguous, reason: "timeout", sent: true, is: context.DeadlineExceeded},
	"the connection's own deadline": {cause: func(t *testing.T) fault {
		f := silent(t)
		f.within = func(d time.Duration, _ *retry.Policy) {
			f.base.(*http.Transport).DialContext = func(ctx context.Context, network, addr string) (net.Conn, error) {
				c, err := new(net.Dialer).DialContext(ctx, network, addr)
				if err == nil {
					err = c.SetReadDeadline(time.Now().Add(d))
				}
				return c, err
			}
		}
		return f
	}, class: ambiguous, reason: "timeout", sent: true, is: os.ErrDeadlineExceeded},

	"a status line cut short":     {cause: answered(says("HTTP/1.1 2")), class: ambiguous, reason: "malformed", sent: true},
	"no HTTP":                     {cause: answered(says("garbage\r\n\r\n")), class: ambiguous, reason: "malformed", sent: true},
	"no version":                  {cause: answered(says("HTTP/x.1 200 OK\r\n\r\n")), class: ambiguous, reason: "malformed", sent: true},
	"no status":                   {cause: answered(says("HTTP/1.1 x OK\r\n\r\n")), class: ambiguous, reason: "malformed", sent: true},
	"a header cut short":          {cause: answered(says("HTTP/1.1 200 OK\r\nContent-Len")), class: ambiguous, reason: "malformed|closed", sent: true},
	"a header without a colon":    {cause: answered(says("HTTP/1.1 200 OK\r\nContent\r\n\r\n")), class: ambiguous, reason: "malformed", sent: true},
	"a head without its end":      {cause: answered(says("HTTP/1.1 200 OK\r\nA: b\r\n")), class: ambiguous, reason: "malformed|closed", sent: true},
	"a bad Content-Length":        {cause: answered(says("HTTP/1.1 200 OK\r\nContent-Length: x\r\n\r\n")), class: ambiguous, reason: "malformed", sent: true},
	"an empty Content-Length":     {cause: answered(says("HTTP/1.1 200 OK\r\nContent-Length: \r\n\r\n")), class: ambiguous, reason: "malformed", sent: true},
	"two lengths":                 {cause: answered(says("HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n")), class: ambiguous, reason: "malformed", sent: true},
	"an unknown encoding":         {cause: answered(says("HTTP/1.1 200 OK\r\nTransfer-Encoding: x\r\n\r\n")), class: ambiguous, reason: "malformed", sent: true},
	"a header beyond all measure": {cause: longHead, class: ambiguous, reason: "malformed", sent: true},

	"a client certificate is demanded, TLS 1.3": {cause: refusedLate(func(_ *testing.T, _ *authority, server, _ *tls.Config) {
		server.ClientAuth = tls.RequireAnyClientCert
	}), class: permanent, reason: "certificate"},
	"the client certificate is not accepted, TLS 1.3": {cause: refusedLate(func(t *testing.T, ca *authority, server, client *tls.Config) {
		server.ClientAuth, server.ClientCAs = tls.RequireAndVerifyClientCert, newAuthority(t).pool
		client.GetClientCertificate = always(ca.issue(t, nil))
	}), class: permanent, reason: "certificate"},
	"another alert": {cause: corrupted, class: ambiguous, reason: "tls|closed"},
}

var overHTTP2 = map[string]errorRow{
	"no response header in time": {cause: func(t *testing.T) fault {
		f := streams(func(*framer, uint32) {})(t)
		f.base.(*http.Transport).ResponseHeaderTimeout = short
		return f
	}, class: ambiguous, reason: "timeout", sent: true},
	"no response header in the attempt's time": {cause: func(t *testing.T) fault {
		f := streams(func(*framer, uint32) {})(t)
		f.within = attemptWithin
		return f
	}, class: ambiguous, reason: "timeout", sent: true},
	"the peer does not answer a ping": {cause: func(t *testing.T) fault {
		f := streams(func(f *framer, _ uint32) { drain(f) })(t)
		f.within = func(d time.Duration, _ *retry.Policy) {
			f.base.(*http.Transport).HTTP2 = &http.HTTP2Config{SendPingTimeout: d, PingTimeout: d}
		}
		return f
	}, class: ambiguous, reason: "closed", sent: true},
	"a FIN": {cause: streams(func(f *framer, _ uint32) { f.Close() }), class: ambiguous, reason: "closed", sent: true},
	"a RST": {cause: streams(func(f *framer, _ uint32) { reset(f.Conn) }), class: ambiguous, reason: "closed|reset", sent: true},
	"a connection error": {cause: streams(func(f *framer, _ uint32) { f.send(frameData, 0, 0, nil) }),
		class: ambiguous, reason: "malformed", sent: true},
	"an answer without a status": {cause: streams(func(f *framer, stream uint32) {
		f.send(frameHeaders, flagEndStream|flagEndHeaders, stream, []byte{0, 1, 'a', 1, 'b'})
	}), class: ambiguous, reason: "malformed", sent: true},

	"GOAWAY above, graceful": {cause: streams(func(f *framer, _ uint32) { f.goAway(0, 0) }), class: retryable, reason: "goaway", sent: true, noReading: true},
	"GOAWAY above, PROTOCOL_ERROR": {cause: streams(func(f *framer, _ uint32) { f.goAway(0, 1) }),
		class: retryable, reason: "goaway", sent: true},
	"GOAWAY above, INTERNAL_ERROR": {cause: streams(func(f *framer, _ uint32) { f.goAway(0, 2) }),
		class: retryable, reason: "goaway", sent: true},
	"GOAWAY above, ENHANCE_YOUR_CALM": {cause: streams(func(f *framer, _ uint32) { f.goAway(0, 11) }),
		class: retryable, reason: "goaway", thr: true, sent: true},
	"GOAWAY below, graceful": {cause: streams(func(f *framer, stream uint32) {
		f.goAway(stream, 0)
		f.Close()
	}), class: ambiguous, reason: "goaway", sent: true},
	"GOAWAY below, INTERNAL_ERROR": {cause: streams(func(f *framer, stream uint32) {
		f.goAway(stream, 2)
		f.Close()
	}), class: ambiguous, reason: "goaway", sent: true},

	"RST_STREAM NO_ERROR":            {cause: streamReset(0), class: ambiguous, reason: "reset", sent: true},
	"RST_STREAM PROTOCOL_ERROR":      {cause: streamReset(1), class: ambiguous, reason: "reset", sent: true, noReading: true},
	"RST_STREAM INTERNAL_ERROR":      {cause: streamReset(2), class: ambiguous, reason: "reset", sent: true},
	"RST_STREAM FLOW_CONTROL_ERROR":  {cause: streamReset(3), class: ambiguous, reason: "reset", sent: true},
	"RST_STREAM SETTINGS_TIMEOUT":    {cause: streamReset(4), class: ambiguous, reason: "reset", sent: true},
	"RST_STREAM STREAM_CLOSED":       {cause: streamReset(5), class: ambiguous, reason: "reset", sent: true},
	"RST_STREAM FRAME_SIZE_ERROR":    {cause: streamReset(6), class: ambiguous, reason: "reset", sent: true},
	"RST_STREAM REFUSED_STREAM":      {cause: streamReset(7), class: retryable, reason: "refused_stream", sent: true, noReading: true},
	"RST_STREAM CANCEL":              {cause: streamReset(8), class: ambiguous, reason: "reset", sent: true},
	"RST_STREAM COMPRESSION_ERROR":   {cause: streamReset(9), class: ambiguous, reason: "reset", sent: true},
	"RST_STREAM CONNECT_ERROR":       {cause: streamReset(10), class: ambiguous, reason: "reset", sent: true},
	"RST_STREAM ENHANCE_YOUR_CALM":   {cause: streamReset(11), class: ambiguous, reason: "reset", sent: true},
	"RST_STREAM INADEQUATE_SECURITY": {cause: streamReset(12), class: ambiguous, reason: "reset", sent: true},
	"RST_STREAM HTTP_1_1_REQUIRED":   {cause: streamReset(13), class: ambiguous, reason: "reset", sent: true},
}

// H48: Every row of the two tables in semantics.md is produced for real (a status
// by a server, an error by a listener, resolver, TLS peer or HTTP/2 framer) and
// gives its class.
func TestH48Errors(t *testing.T) {
	t.Parallel()
	for section, rows := range map[string]map[string]errorRow{"before sending": beforeSending, "after sending": afterSending, "HTTP2": overHTTP2} {
		for name, row := range rows {
			for _, o := range operations {
				if row.noReading && o.read() {
					continue
				}
				t.Run(section+"/"+name+"/"+o.name, func(t *testing.T) {
					t.Parallel()
					row.check(t, o)
				})
			}
		}
	}
}

// inTime gets faults and runs them with more and more time, until each of the
// attempts has reached its fault within it. run says how many have.
func inTime(t *testing.T, cause func(*testing.T) fault, p retry.Policy, run func(f fault, p retry.Policy) (reached int, err error)) (fault, *retry.Error) {
	for d := 10 * time.Millisecond; ; d *= 2 {
		f := cause(t)
		if f.within != nil {
			f.within(d, &p)
		}
		reached, err := run(f, p)
		e, ok := errors.AsType[*retry.Error](err)
		require.True(t, ok, "it failed with a %T, want a *retry.Error: %v", err, err)
		if f.within == nil || reached == len(e.Attempts) {
			return f, e
		}
	}
}

func (row errorRow) check(t *testing.T, o operation) {
	p := o.policy()
	p.MaxAttempts = 2
	f, e := inTime(t, row.cause, p, func(f fault, p retry.Policy) (int, error) {
		var asked atomic.Int64 // for a connection
		ctx := httptrace.WithClientTrace(t.Context(), &httptrace.ClientTrace{GetConn: func(string) { asked.Add(1) }})
		req := o.request(t, ctx, f.url)
		if f.change != nil {
			f.change(req)
		}
		resp, err := overBase(t, p, f.base).RoundTrip(req)
		require.Nil(t, resp, "the response beside %v", err)
		if row.sent {
			return len(f.seen), err
		}
		return int(asked.Load()), err
	})
	err := error(e)

	attempts, stop := 1, retry.ErrPermanent
	outcome := retry.NotApplied
	if row.unknown && !o.read() {
		outcome = retry.Unknown
	}
	switch {
	case row.class == retryable, row.class == ambiguous && o.safety != retry.Unsafe:
		attempts, stop = 2, retry.ErrAttempts
	case row.class == ambiguous:
		stop = retry.ErrOutcomeUnknown
	}
	if row.class == ambiguous && !o.read() {
		outcome = retry.Unknown
	}
	require.Len(t, e.Attempts, attempts, "attempts of %v", err)
	want := classify.Verdict{Class: row.class, Origin: row.origin, Throttled: row.thr, Repeatable: o.safety != retry.Unsafe && !row.asN}
	for _, a := range e.Attempts {
		got := a.Verdict
		assert.Contains(t, strings.Split(row.reason, "|"), got.Reason, "reason of %v", a.Err)
		got.Reason = ""
		assert.Equal(t, want, got, "verdict of %v", a.Err)
		counts := breaker.Failure
		if row.origin == local || row.thr {
			counts = breaker.Excluded
		}
		assert.Equal(t, counts, breaker.ResultOf(a.Verdict), "what %v is to the breaker", a.Err)
	}
	assert.Equal(t, outcome.String(), e.Outcome.String(), "outcome of %v", err)
	assert.ErrorIs(t, err, stop, "why it stopped")
	assert.Equal(t, outcome == retry.Unknown, errors.Is(err, retry.ErrOutcomeUnknown), "Is(%v, ErrOutcomeUnknown)", err)
	if row.is != nil && (row.orIs == nil || !errors.Is(err, row.orIs)) {
		assert.ErrorIs(t, err, row.is, "the last attempt's error")
	}
	if f.seen == nil || t.Failed() {
		return
	}
	requests := 0
	if row.sent {
		requests = attempts
	}
	for range requests {
		<-f.seen
	}
	assert.Empty(t, f.seen, "requests that the peer read beyond %d", requests)
}

// The rows' causes.

func attemptWithin(d time.Duration, p *retry.Policy) { p.AttemptTimeout = d }

// requestTo fails because of its URL.
func requestTo(url string) func(*testing.T) fault {
	return func(t *testing.T) fault { return fault{base: fresh(t), url: url} }
}

// changed fails because of the request, before a peer that would read it.
func changed(change func(*http.Request)) func(*testing.T) fault {
	return func(t *testing.T) fault {
		f := silent(t)
		f.change = change
		return f
	}
}

// ofLength declares a length that the body does not have.
func ofLength(n int64) func(*testing.T) fault {
	return func(t *testing.T) fault {
		f := silent(t)
		f.change = func(r *http.Request) { r.ContentLength = n }
		f.seen = nil
		return f
	}
}

var errOwnReader = errors.New("the disk is gone")

type goneReader struct{}

func (goneReader) Read([]byte) (int, error) { return 0, errOwnReader }

// dialling dials with a changed dialer, to an address where a listener waits.
func dialling(change func(*net.Dialer)) func(*testing.T) fault {
	return func(t *testing.T) fault {
		f := silent(t)
		d := &net.Dialer{}
		change(d)
		f.base.(*http.Transport).DialContext = d.DialContext
		return f
	}
}

// errno dials and fails as the system call would.
func errno(call string, n syscall.Errno) func(*testing.T) fault {
	return dialling(func(d *net.Dialer) {
		d.Control = func(string, string, syscall.RawConn) error { return os.NewSyscallError(call, n) }
	})
}

// resolver asks a DNS server that answers every question with a code, or not at
// all if it is below 0.
func resolver(rcode int) func(*testing.T) fault {
	return func(t *testing.T) fault { return resolving(t, dnsServer(t, rcode), 0) }
}

func resolving(t *testing.T, server string, timeout time.Duration) fault {
	d := &net.Dialer{Timeout: timeout, Resolver: &net.Resolver{
		PreferGo: true,
		Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "udp", server)
		},
	}}
	base := fresh(t)
	base.DialContext = d.DialContext
	return fault{base: base, url: "http://callee.test./"}
}

// dnsServer answers on UDP (RFC 1035 section 4.1): the question as it came, no
// answer to it, and a code.
func dnsServer(t *testing.T, rcode int) string {
	c, err := net.ListenPacket("udp", "127.0.0.1:0")
	require.NoError(t, err)
	var wg sync.WaitGroup
	wg.Go(func() {
		for b := make([]byte, 1500); ; {
			n, from, err := c.ReadFrom(b)
			if err != nil {
				return
			}
			end := 12
			for end < n && b[end] != 0 {
				end += int(b[end]) + 1
			}
			if end += 5; rcode < 0 || end > n {
				continue
			}
			reply := append([]byte{b[0], b[1], 0x81, 0x80 | byte(rcode), 0, 1, 0, 0, 0, 0, 0, 0}, b[12:end]...)
			_, _ = c.WriteTo(reply, from)
		}
	})
	t.Cleanup(func() {
		c.Close()
		wg.Wait()
	})
	return c.LocalAddr().String()
}

func through(t *testing.T, proxy, target string) fault {
	u, err := url.Parse(proxy)
	require.NoError(t, err)
	base := fresh(t)
	base.Proxy = http.ProxyURL(u)
	return fault{base: base, url: target}
}

func connectAnswered(answer string) func(*testing.T) fault {
	return func(t *testing.T) fault {
		p := &onePeer{answer: says(answer)}
		return through(t, "http://"+serve(t, p.serve), "https://127.0.0.1/")
	}
}

// handshake shakes hands as the two configurations say. The peer reads requests
// if the handshake succeeds on its side; if not, it holds the connection open,
// so that its alert arrives.
func handshake(change func(t *testing.T, ca *authority, server, client *tls.Config)) func(*testing.T) fault {
	return func(t *testing.T) fault {
		ca := newAuthority(t)
		server := &tls.Config{Certificates: []tls.Certificate{ca.issue(t, nil)}}
		client := &tls.Config{RootCAs: ca.pool}
		change(t, ca, server, client)
		seen := make(chan struct{}, 10)
		p := &onePeer{answer: func(c net.Conn, _ *http.Request, _ int) bool {
			seen <- struct{}{}
			return false
		}}
		base := fresh(t)
		base.TLSClientConfig = client
		return fault{base: base, seen: seen, url: "https://" + serve(t, func(c net.Conn, n int) {
			s := tls.Server(c, server)
			if err := s.Handshake(); err != nil {
				drain(c)
				return
			}
			p.serve(s, n)
		})}
	}
}

func always(c tls.Certificate) func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
	return func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return &c, nil }
}

// inHandshake lets a peer act on the first record of the handshake.
func inHandshake(act func(net.Conn)) func(*testing.T) fault {
	return func(t *testing.T) fault {
		return fault{base: fresh(t), url: "https://" + serve(t, func(c net.Conn, _ int) {
			var head [5]byte
			if _, err := io.ReadFull(c, head[:]); err != nil {
				return
			}
			if _, err := io.ReadFull(c, make([]byte, int(head[3])<<8|int(head[4]))); err != nil {
				return
			}
			act(c)
		})}
	}
}

// wire is the client's end of a connection, on which the first write of a request
// does more.
type wire struct {
	net.Conn
	obtained atomic.Bool
	write    func(net.Conn, []byte) (int, error)
}

func (w *wire) Write(p []byte) (int, error) {
	if w.obtained.CompareAndSwap(true, false) {
		return w.write(w.Conn, p)
	}
	return w.Conn.Write(p)
}

// wired gives the base wires, and changes requests so that they tell them.
func wired(base *http.Transport, write func(net.Conn, []byte) (int, error)) (change func(*http.Request)) {
	wires := make(chan *wire, 10)
	base.DialContext = func(ctx context.Context, network, addr string) (net.Conn, error) {
		c, err := new(net.Dialer).DialContext(ctx, network, addr)
		w := &wire{Conn: c, write: write}
		wires <- w
		return w, err
	}
	return func(r *http.Request) {
		*r = *r.WithContext(httptrace.WithClientTrace(r.Context(), &httptrace.ClientTrace{
			GotConn: func(httptrace.GotConnInfo) { (<-wires).obtained.Store(true) },
		}))
	}
}

// corrupted spoils what the client sends after the handshake, so that its peer
// answers with an alert.
func corrupted(t *testing.T) fault {
	ca := newAuthority(t)
	base := fresh(t)
	base.TLSClientConfig = &tls.Config{RootCAs: ca.pool}
	server := &tls.Config{Certificates: []tls.Certificate{ca.issue(t, nil)}}
	url := "https://" + serve(t, func(c net.Conn, _ int) {
		drain(tls.Server(c, server))
		drain(c)
	})
	return fault{base: base, url: url, change: wired(base, func(c net.Conn, p []byte) (int, error) {
		p = bytes.Clone(p)
		p[len(p)-1] ^= 1
		return c.Write(p)
	})}
}

// refusedLate is a handshake whose end the peer looks at only when the client,
// for whom it has ended, has written its request. In TLS 1.3 that is where a
// client certificate is refused. (The peer may be quicker. Then net/http can
// report its own write to a connection that is closed, which is ambiguous.)
func refusedLate(change func(t *testing.T, ca *authority, server, client *tls.Config)) func(*testing.T) fault {
	return func(t *testing.T) fault {
		ca := newAuthority(t)
		server := &tls.Config{Certificates: []tls.Certificate{ca.issue(t, nil)}}
		base := fresh(t)
		base.TLSClientConfig = &tls.Config{RootCAs: ca.pool}
		change(t, ca, server, base.TLSClientConfig)
		written := make(chan struct{}, 10)
		seen := make(chan struct{}, 10)
		url := "https://" + serve(t, func(c net.Conn, _ int) {
			s := tls.Server(&late{Conn: c, written: written}, server)
			if s.Handshake() == nil {
				seen <- struct{}{}
			}
			drain(c)
		})
		tell := wired(base, func(c net.Conn, p []byte) (int, error) {
			defer func() { written <- struct{}{} }()
			return c.Write(p)
		})
		return fault{base: base, url: url, seen: seen, change: func(r *http.Request) {
			r.Body, r.GetBody, r.ContentLength = nil, nil, 0 // which is one write
			tell(r)
		}}
	}
}

// late is a connection from which is read, after the first answer, only when the
// other side has written something in particular.
type late struct {
	net.Conn
	answered, open bool
	written        chan struct{}
}

func (l *late) Write(p []byte) (int, error) {
	l.answered = true
	return l.Conn.Write(p)
}

func (l *late) Read(p []byte) (int, error) {
	if l.answered && !l.open {
		<-l.written
		l.open = true
	}
	return l.Conn.Read(p)
}

// brokenPipe is a connection to which nothing can be written.
type brokenPipe struct{ net.Conn }

func (b brokenPipe) Write([]byte) (int, error) {
	return 0, &net.OpError{Op: "write", Net: "tcp", Addr: b.RemoteAddr(), Err: os.NewSyscallError("write", syscall.EPIPE)}
}

// answered is a peer that reads the request whole, then acts.
func answered(answer func(net.Conn, *http.Request, int) bool) func(*testing.T) fault {
	return func(t *testing.T) fault {
		seen := make(chan struct{}, 10)
		p := &onePeer{answer: func(c net.Conn, r *http.Request, n int) bool {
			seen <- struct{}{}
			return answer(c, r, n)
		}}
		return fault{base: fresh(t), url: "http://" + serve(t, p.serve), seen: seen}
	}
}

// silent is a peer that reads the request whole and says nothing.
func silent(t *testing.T) fault {
	return answered(func(c net.Conn, _ *http.Request, _ int) bool {
		drain(c)
		return false
	})(t)
}

func longHead(t *testing.T) fault {
	f := answered(says("HTTP/1.1 200 OK\r\nA: " + strings.Repeat("x", 20000) + "\r\n\r\n"))(t)
	f.base.(*http.Transport).MaxResponseHeaderBytes = 1000
	return f
}

// streams is an HTTP/2 peer that reads the request whole, then acts.
func streams(act func(f *framer, stream uint32)) func(*testing.T) fault {
	return func(t *testing.T) fault {
		seen := make(chan struct{}, 10)
		base, url := serveTwo(t, &twoPeer{answer: func(f *framer, stream uint32, _ int) {
			seen <- struct{}{}
			act(f, stream)
		}})
		return fault{base: base, url: url, seen: seen}
	}
}

func streamReset(code uint32) func(*testing.T) fault {
	return streams(func(f *framer, stream uint32) { f.resetStream(stream, code) })
}

// H48: a bodyless write whose stream is refused: net/http would send it again on
// its own. What keeps it from that hides the proof, so that it is ambiguous.
func TestH48RefusedStreamWithoutBody(t *testing.T) {
	t.Parallel()
	for name, act := range map[string]func(f *framer, stream uint32){
		"REFUSED_STREAM": func(f *framer, stream uint32) { f.resetStream(stream, 7) },
		"PROTOCOL_ERROR": func(f *framer, stream uint32) { f.resetStream(stream, 1) },
		"GOAWAY":         func(f *framer, _ uint32) { f.goAway(0, 0) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := streams(act)(t)
			req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, f.url, nil)
			require.NoError(t, err)
			_, err = overBase(t, quick(), f.base).RoundTrip(req)
			e, ok := errors.AsType[*retry.Error](err)
			require.True(t, ok, "RoundTrip failed with a %T: %v", err, err)
			assert.Equal(t, retry.Unknown.String(), e.Outcome.String(), "outcome of %v", err)
			assert.ErrorIs(t, err, retry.ErrOutcomeUnknown)
			assert.Len(t, e.Attempts, 1, "attempts")
			assert.Len(t, f.seen, 1, "requests that the peer read")
		})
	}
}

// H48: `http: server closed idle connection`, with nothing written: repeated at
// once on the next connection, which is no attempt (semantics.md, section 4).
func TestH48ServerClosedIdle(t *testing.T) {
	t.Parallel()
	for range 100 {
		resp, requests, wrote, err := afterClosedIdle(t)
		if wrote && errors.Is(err, retry.ErrOutcomeUnknown) {
			// net/http wrote in the moment between closing the connection and
			// noticing it: then there is no proof, and none is claimed.
			continue
		}
		require.NoError(t, err)
		defer resp.Body.Close()
		report := httpclient.ReportOf(resp)
		assert.Len(t, report.Attempts, 1, "attempts")
		assert.Equal(t, 1, report.Resends, "repeats inside the attempt")
		assert.EqualValues(t, 2, requests, "requests that the server read")
		return
	}
	t.Error("net/http never noticed before it wrote")
}

// afterClosedIdle sends a request on a kept connection that the server closes
// before net/http writes, and says how many the server has read, and whether the
// head was written all the same.
func afterClosedIdle(t *testing.T) (resp *http.Response, requests int64, wrote bool, err error) {
	closing := make(chan struct{})
	p := &onePeer{answer: func(c net.Conn, _ *http.Request, n int) bool {
		_, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
		if n == 1 {
			<-closing
			return false
		}
		return true
	}}
	base := fresh(t)
	noticed := make(chan struct{})
	var once sync.Once
	base.DialContext = func(ctx context.Context, network, addr string) (net.Conn, error) {
		c, err := new(net.Dialer).DialContext(ctx, network, addr)
		return closeHook{c, func() { once.Do(func() { close(noticed) }) }}, err
	}
	o := operations[3]
	tr := overBase(t, o.policy(), base)
	url := "http://" + serve(t, p.serve)
	first, err := tr.RoundTrip(o.request(t, t.Context(), url))
	require.NoError(t, err)
	first.Body.Close()

	// The second request gets the kept connection, then the server closes it,
	// and net/http notices before it writes.
	var race sync.Once
	var heads atomic.Int64
	ctx := httptrace.WithClientTrace(t.Context(), &httptrace.ClientTrace{GotConn: func(httptrace.GotConnInfo) {
		race.Do(func() {
			close(closing)
			<-noticed
		})
	}, WroteHeaders: func() { heads.Add(1) }})
	resp, err = tr.RoundTrip(o.request(t, ctx, url))
	return resp, p.requests.Load(), heads.Load() > 0, err
}

// closeHook tells when a connection is closed.
type closeHook struct {
	net.Conn
	closed func()
}

func (c closeHook) Close() error {
	err := c.Conn.Close()
	c.closed()
	return err
}

// H48: a write that fails with nothing written on a reused connection:
// net/http sends it again by itself if it has no body. That is counted.
func TestH48NothingWrittenOnReusedConnection(t *testing.T) {
	t.Parallel()
	p := &onePeer{answer: func(c net.Conn, _ *http.Request, n int) bool {
		_, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
		return true
	}}
	base := fresh(t)
	var dialled atomic.Int64
	broken := &atomic.Bool{}
	base.DialContext = func(ctx context.Context, network, addr string) (net.Conn, error) {
		c, err := new(net.Dialer).DialContext(ctx, network, addr)
		if dialled.Add(1) == 1 {
			return breakable{c, broken}, err
		}
		return c, err
	}
	tr := overBase(t, quick(), base)
	url := "http://" + serve(t, p.serve)
	for n := 1; n <= 2; n++ {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url, nil)
		require.NoError(t, err)
		resp, err := tr.RoundTrip(req)
		require.NoError(t, err)
		report := httpclient.ReportOf(resp)
		resp.Body.Close()
		assert.Len(t, report.Attempts, 1, "attempts of call %d", n)
		assert.Equal(t, n, report.Attempts[0].Connections, "connections of call %d", n)
		broken.Store(true)
	}
	assert.EqualValues(t, 2, p.requests.Load(), "requests that the server read")
}

// breakable is a connection to which nothing can be written once it is broken.
type breakable struct {
	net.Conn
	broken *atomic.Bool
}

func (b breakable) Write(p []byte) (int, error) {
	if b.broken.Load() {
		return brokenPipe{b.Conn}.Write(p)
	}
	return b.Conn.Write(p)
}

// H48: EOF on a reused connection, and RST: the server has read all, so that it
// is ambiguous. A read is sent again below, which counts as an attempt.
func TestH48LostOnReusedConnection(t *testing.T) {
	t.Parallel()
	for name, cut := range map[string]func(net.Conn){"FIN": func(c net.Conn) { c.Close() }, "RST": reset} {
		for _, o := range operations {
			t.Run(name+"/"+o.name, func(t *testing.T) {
				t.Parallel()
				p := &onePeer{answer: func(c net.Conn, _ *http.Request, n int) bool {
					if n == 1 {
						_, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
						return true
					}
					cut(c)
					return false
				}}
				tr := overBase(t, o.policy(), fresh(t))
				url := "http://" + serve(t, p.serve)
				resp, err := tr.RoundTrip(o.request(t, t.Context(), url))
				require.NoError(t, err)
				resp.Body.Close()
				_, err = tr.RoundTrip(o.request(t, t.Context(), url))
				e, ok := errors.AsType[*retry.Error](err)
				require.True(t, ok, "RoundTrip failed with a %T: %v", err, err)
				want := 3
				if o.safety == retry.Unsafe {
					want = 1
				}
				assert.EqualValues(t, 1+want, p.requests.Load(), "requests that the server read")
				assert.Equal(t, ambiguous, e.Attempts[0].Verdict.Class, "class of %v", e.Attempts[0].Err)
				assert.Equal(t, !o.read(), errors.Is(err, retry.ErrOutcomeUnknown), "Is(%v, ErrOutcomeUnknown)", err)
			})
		}
	}
}

// H48: a connection that closes when it is made: net/http may notice before it
// writes, which proves that nothing was sent, or after it.
func TestH48ClosedBeforeTheRequest(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]func(net.Conn){"FIN": func(c net.Conn) { c.Close() }, "RST": reset} {
		for _, o := range operations {
			t.Run(name+"/"+o.name, func(t *testing.T) {
				t.Parallel()
				var wrote atomic.Int64
				ctx := httptrace.WithClientTrace(t.Context(), &httptrace.ClientTrace{WroteHeaders: func() { wrote.Add(1) }})
				p := o.policy()
				p.MaxAttempts = 1
				addr := serve(t, func(c net.Conn, _ int) { end(c) })
				_, err := overBase(t, p, fresh(t)).RoundTrip(o.request(t, ctx, "http://"+addr))
				e, ok := errors.AsType[*retry.Error](err)
				require.True(t, ok, "RoundTrip failed with a %T: %v", err, err)
				class, outcome := retryable, retry.NotApplied
				if wrote.Load() > 0 {
					class = ambiguous
					if !o.read() {
						outcome = retry.Unknown
					}
				}
				assert.Equal(t, class, e.Attempts[0].Verdict.Class, "class of %v, headers written %d times", err, wrote.Load())
				assert.Equal(t, outcome.String(), e.Outcome.String(), "outcome of %v", err)
				assert.Equal(t, breaker.Failure, breaker.ResultOf(e.Attempts[0].Verdict), "to the breaker")
			})
		}
	}
}

// H48: an early response while the body is being written is a response like any
// other: by status.
func TestH48EarlyResponse(t *testing.T) {
	t.Parallel()
	for _, code := range []int{401, 413} {
		for _, o := range operations[1:] {
			t.Run(fmt.Sprintf("%d/%s", code, o.name), func(t *testing.T) {
				t.Parallel()
				var requests atomic.Int64
				addr := serve(t, func(c net.Conn, _ int) {
					if _, err := c.Read(make([]byte, 4096)); err != nil {
						return
					}
					requests.Add(1)
					fmt.Fprintf(c, "HTTP/1.1 %d Early\r\nContent-Length: 5\r\nConnection: close\r\n\r\nearly", code)
					drain(c)
				})
				req := o.request(t, t.Context(), "http://"+addr)
				body, w := io.Pipe() // its rest never comes
				defer w.Close()
				go func() { _, _ = io.WriteString(w, "the beginning") }()
				req.Body, req.ContentLength, req.GetBody = body, -1, nil
				resp, err := overBase(t, o.policy(), fresh(t)).RoundTrip(req)
				require.NoError(t, err)
				defer resp.Body.Close()
				assert.Equal(t, code, resp.StatusCode)
				report := httpclient.ReportOf(resp)
				assert.Equal(t, permanent, report.Attempts[0].Verdict.Class, "class")
				assert.Equal(t, retry.NotApplied.String(), report.Outcome.String(), "outcome")
				assert.EqualValues(t, 1, requests.Load(), "requests")
			})
		}
	}
}

// H48: http.ErrHandlerTimeout and http.ErrAbortHandler are a server's values: a
// client sees a 503, or a connection that breaks.
func TestH48ServerSideValues(t *testing.T) {
	t.Parallel()
	o := operations[3]
	t.Run("ErrHandlerTimeout", func(t *testing.T) {
		t.Parallel()
		s := newServer(t, false, http.TimeoutHandler(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }), time.Millisecond, ""))
		resp, err := overBase(t, o.policy(), s.Client().Transport).RoundTrip(o.request(t, t.Context(), s.URL))
		require.NoError(t, err)
		defer resp.Body.Close()
		assert.Equal(t, 503, resp.StatusCode)
		assert.ErrorIs(t, httpclient.Check(resp), retry.ErrOutcomeUnknown)
	})
	for _, http2 := range []bool{false, true} {
		t.Run("ErrAbortHandler/"+protocol(http2), func(t *testing.T) {
			t.Parallel()
			s := newServer(t, http2, http.HandlerFunc(func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }))
			_, err := overBase(t, o.policy(), s.Client().Transport).RoundTrip(o.request(t, t.Context(), s.URL))
			assert.ErrorIs(t, err, retry.ErrOutcomeUnknown)
		})
	}
}

// H48: a URL that cannot be parsed never becomes a request.
func TestH48UnparsableURL(t *testing.T) {
	t.Parallel()
	client, err := httpclient.New(quick(), nil)
	require.NoError(t, err)
	_, err = client.Get("http://[::1")
	assert.Equal(t, classify.Verdict{Class: permanent, Origin: local, Reason: "request"}, classify.Error(err), "Error(%v)", err)
}

// Semantics 1.5: on HTTP/1 nothing has been sent whose headers were not written:
// a write that net/http refuses then is not applied.
func TestAWriteThatIsRefusedBeforeItIsSent(t *testing.T) {
	t.Parallel()
	p := &onePeer{answer: says("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")}
	req := call(t, t.Context(), "POST", "http://"+serve(t, p.serve), "pay")
	req.URL.RawQuery = "a\x01b"
	_, err := overBase(t, quick(), fresh(t)).RoundTrip(req)
	failure, ok := errors.AsType[*retry.Error](err)
	require.True(t, ok, "RoundTrip failed with a %T: %v", err, err)
	assert.Equal(t, classify.Verdict{Class: classify.Permanent, Origin: classify.Local, Reason: "request"}, failure.Attempts[0].Verdict)
	assert.Equal(t, retry.NotApplied, failure.Outcome)
	assert.Zero(t, p.requests.Load(), "requests that the peer read")
}
