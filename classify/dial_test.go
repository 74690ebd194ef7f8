package classify_test

import (
	"bufio"
	"context"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"syscall"
	"testing"
	"time"

	"github.com/reintento/reintento/classify"
	"github.com/stretchr/testify/require"
)

// check holds the verdict about an error of a round trip.
func check(t *testing.T, err error, trace classify.Trace, want classify.Verdict) {
	t.Helper()
	got := classify.Transport(err, trace)
	if got != want {
		t.Errorf("Transport(%v, %+v) = %+v, want %+v", err, trace, got, want)
	}
	checkReason(t, got)
}

// failing returns a Transport whose every dial ends in an error of the system,
// as the kernel reports it from the call that is named.
func failing(call string, n syscall.Errno) *http.Transport {
	d := &net.Dialer{Control: func(string, string, syscall.RawConn) error { return os.NewSyscallError(call, n) }}
	return &http.Transport{DialContext: d.DialContext}
}

func TestConnectionsThatAreNotMade(t *testing.T) {
	retryable := classify.Verdict{Class: classify.Retryable, Reason: "dial"}
	exhausted := classify.Verdict{Class: classify.Retryable, Origin: classify.Local, Reason: "local"}
	forbidden := classify.Verdict{Class: classify.Permanent, Origin: classify.Local, Reason: "local"}
	unix := func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", t.TempDir()+"/none")
	}
	tests := []struct {
		name string
		base *http.Transport
		want classify.Verdict
	}{
		{"nobody listens", &http.Transport{}, retryable},
		{"no route to the host", failing("connect", syscall.EHOSTUNREACH), retryable},
		{"no route to the network", failing("connect", syscall.ENETUNREACH), retryable},
		{"the network is down", failing("connect", syscall.ENETDOWN), retryable},
		{"aborted", failing("connect", syscall.ECONNABORTED), retryable},
		{"reset", failing("connect", syscall.ECONNRESET), retryable},
		{"the kernel's timeout", failing("connect", syscall.ETIMEDOUT), classify.Verdict{Class: classify.Retryable, Reason: "timeout"}},
		{"the dialer's timeout", &http.Transport{DialContext: (&net.Dialer{Timeout: time.Nanosecond}).DialContext}, classify.Verdict{Class: classify.Retryable, Reason: "timeout"}},

		{"no more file handles", failing("socket", syscall.EMFILE), exhausted},
		{"no more file handles in the system", failing("socket", syscall.ENFILE), exhausted},
		{"no more buffers", failing("socket", syscall.ENOBUFS), exhausted},
		{"no more memory", failing("socket", syscall.ENOMEM), exhausted},
		{"no more ports", failing("connect", syscall.EADDRNOTAVAIL), exhausted},
		{"a local address of another machine", &http.Transport{DialContext: (&net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(192, 0, 2, 1)}}).DialContext}, forbidden},
		{"no permission", failing("connect", syscall.EACCES), forbidden},
		{"not permitted", failing("connect", syscall.EPERM), forbidden},
		{"no such family", failing("socket", syscall.EAFNOSUPPORT), forbidden},
		{"no such Unix socket", &http.Transport{DialContext: unix}, classify.Verdict{Class: classify.Permanent, Reason: "dial"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			trace, err := attempt(t, tt.base, write(t, t.Context(), "http://"+closedPort(t, "tcp")))
			check(t, err, trace, tt.want)
			if got := classify.Error(err); got != tt.want {
				t.Errorf("Error(%v) = %+v, want %+v", err, got, tt.want)
			}
		})
	}
}

func TestRequestsThatAreNotSent(t *testing.T) {
	req := func(change func(*http.Request)) *http.Request {
		r := write(t, t.Context(), "http://127.0.0.1/")
		change(r)
		return r
	}
	tests := []struct {
		name string
		req  *http.Request
	}{
		{"another scheme", req(func(r *http.Request) { r.URL.Scheme = "gopher" })},
		{"no scheme", req(func(r *http.Request) { r.URL.Scheme = "" })},
		{"no URL", req(func(r *http.Request) { r.URL = nil })},
		{"no header", req(func(r *http.Request) { r.Header = nil })},
		{"no host", req(func(r *http.Request) { r.URL.Host = "" })},
		{"a bad method", req(func(r *http.Request) { r.Method = "PO ST" })},
		{"a bad header name", req(func(r *http.Request) { r.Header["a b"] = []string{"c"} })},
		{"a bad header value", req(func(r *http.Request) { r.Header["A"] = []string{"b\n"} })},
		{"a bad trailer name", req(func(r *http.Request) { r.Trailer = http.Header{"a b": {"c"}} })},
		{"a bad trailer value", req(func(r *http.Request) { r.Trailer = http.Header{"A": {"b\n"}} })},
		{"a port out of range", req(func(r *http.Request) { r.URL.Host = "127.0.0.1:70000" })},
	}
	want := classify.Verdict{Class: classify.Permanent, Origin: classify.Local, Reason: "request"}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			trace, err := attempt(t, &http.Transport{}, tt.req)
			check(t, err, trace, want)
			if got := classify.Error(err); got != want {
				t.Errorf("Error(%v) = %+v, want %+v", err, got, want)
			}
		})
	}
	t.Run("no context", func(t *testing.T) {
		//lint:ignore SA1012 the mistake is what is tested
		_, err := http.NewRequestWithContext(nil, http.MethodGet, "/", nil)
		require.Error(t, err)
		if got := classify.Error(err); got != want {
			t.Errorf("Error(%v) = %+v, want %+v", err, got, want)
		}
	})
}

// proxied returns a Transport that goes through the proxy at a URL.
func proxied(t *testing.T, proxy string) *http.Transport {
	t.Helper()
	u, err := url.Parse(proxy)
	require.NoError(t, err)
	return &http.Transport{Proxy: http.ProxyURL(u)}
}

// answering is a peer that reads one request's head and writes an answer.
func answering(answer string) func(net.Conn) {
	return func(c net.Conn) {
		if _, err := http.ReadRequest(bufio.NewReader(c)); err == nil {
			_, _ = io.WriteString(c, answer)
		}
	}
}

func TestProxiesThatRefuse(t *testing.T) {
	socks := func(c net.Conn) { // RFC 1928: no authentication; host unreachable
		if _, err := io.ReadFull(c, make([]byte, 3)); err != nil {
			return
		}
		_, _ = c.Write([]byte{5, 0})
		if _, err := io.ReadFull(c, make([]byte, 10)); err != nil {
			return
		}
		_, _ = c.Write([]byte{5, 4, 0, 1, 0, 0, 0, 0, 0, 0})
	}
	tests := []struct {
		name  string
		proxy string
		class classify.Class
		why   string
	}{
		{"nobody listens", "http://" + closedPort(t, "tcp"), classify.Retryable, "proxy"},
		{"nobody listens for SOCKS", "socks5://" + closedPort(t, "tcp"), classify.Retryable, "proxy"},
		{"SOCKS: host unreachable", "socks5://" + serve(t, socks), classify.Retryable, "proxy"},
		{"407", "http://" + serve(t, answering("HTTP/1.1 407 Proxy Authentication Required\r\n\r\n")), classify.Permanent, "proxy"},
		{"403", "http://" + serve(t, answering("HTTP/1.1 403 Forbidden\r\n\r\n")), classify.Permanent, "proxy"},
		{"408", "http://" + serve(t, answering("HTTP/1.1 408 Request Timeout\r\n\r\n")), classify.Retryable, "proxy"},
		{"502", "http://" + serve(t, answering("HTTP/1.1 502 Bad Gateway\r\n\r\n")), classify.Retryable, "proxy"},
		{"503", "http://" + serve(t, answering("HTTP/1.1 503 Service Unavailable\r\n\r\n")), classify.Retryable, "proxy"},
		{"a text of its own", "http://" + serve(t, answering("HTTP/1.1 503 Back soon\r\n\r\n")), classify.Retryable, "unknown"},
		{"closed", "http://" + serve(t, answering("")), classify.Retryable, "closed"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			trace, err := attempt(t, proxied(t, tt.proxy), write(t, t.Context(), "https://127.0.0.1:1/"))
			check(t, err, trace, classify.Verdict{Class: tt.class, Reason: tt.why})
		})
	}
}
