package classify_test

import (
	"context"
	"net"
	"net/http"
	"testing"
	"time"

	"github.com/reintento/reintento/classify"
	"github.com/stretchr/testify/require"
)

// The answers of a name server (RFC 1035 section 4.1.1).
const (
	dnsNoData   = 0
	dnsFormErr  = 1
	dnsServFail = 2
	dnsNXDomain = 3
	dnsRefused  = 5
)

// nameServer answers every question on loopback with a code and no records, or
// with nothing where the code is negative. It returns its address.
func nameServer(t *testing.T, code int) string {
	t.Helper()
	c, err := net.ListenPacket("udp", "127.0.0.1:0")
	require.NoError(t, err)
	done := make(chan struct{})
	go func() {
		defer close(done)
		buf := make([]byte, 1500)
		for {
			n, from, err := c.ReadFrom(buf)
			if err != nil {
				return
			}
			if code < 0 {
				continue
			}
			end := 12 // the header; then the question: labels, an empty one, type, class
			for end < n && buf[end] != 0 {
				end += int(buf[end]) + 1
			}
			answer := append([]byte(nil), buf[:end+5]...)
			answer[2] |= 0x80                   // a response
			answer[3] = 0x80 | byte(code)       // recursion is available
			copy(answer[6:12], make([]byte, 6)) // no records
			_, _ = c.WriteTo(answer, from)
		}
	}()
	t.Cleanup(func() {
		c.Close()
		<-done
	})
	return c.LocalAddr().String()
}

// resolving returns a Transport that asks the name server at addr.
func resolving(addr string, timeout time.Duration) *http.Transport {
	d := &net.Dialer{Timeout: timeout, Resolver: &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "udp", addr)
	}}}
	return &http.Transport{DialContext: d.DialContext}
}

func TestNamesThatDoNotResolve(t *testing.T) {
	tests := []struct {
		name    string
		server  string
		timeout time.Duration
		want    classify.Verdict
	}{
		{"NXDOMAIN", nameServer(t, dnsNXDomain), 0, classify.Verdict{Class: classify.Permanent, Reason: "dns"}},
		{"no address", nameServer(t, dnsNoData), 0, classify.Verdict{Class: classify.Permanent, Reason: "dns"}},
		{"SERVFAIL", nameServer(t, dnsServFail), 0, classify.Verdict{Class: classify.Retryable, Reason: "dns"}},
		{"REFUSED", nameServer(t, dnsRefused), 0, classify.Verdict{Class: classify.Retryable, Reason: "dns"}},
		{"FORMERR", nameServer(t, dnsFormErr), 0, classify.Verdict{Class: classify.Retryable, Reason: "dns"}},
		{"silence", nameServer(t, -1), 20 * time.Millisecond, classify.Verdict{Class: classify.Retryable, Reason: "timeout"}},
		{"nobody", closedPort(t, "udp"), 0, classify.Verdict{Class: classify.Retryable, Reason: "dns"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			trace, err := attempt(t, resolving(tt.server, tt.timeout), write(t, t.Context(), "http://pay.test./"))
			check(t, err, trace, tt.want)
			if got := classify.Error(err); got != tt.want {
				t.Errorf("Error(%v) = %+v, want %+v", err, got, tt.want)
			}
		})
	}
}

func TestLookupThatIsCancelled(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	d := &net.Dialer{Resolver: &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
		cancel()
		<-ctx.Done()
		return nil, ctx.Err()
	}}}
	trace, err := attempt(t, &http.Transport{DialContext: d.DialContext}, write(t, ctx, "http://pay.test./"))
	check(t, err, trace, classify.Verdict{Class: classify.Retryable, Origin: classify.Caller, Reason: "canceled"})
}
