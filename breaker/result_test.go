package breaker_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/reintento/reintento/breaker"
	"github.com/reintento/reintento/classify"
)

func TestResult(t *testing.T) {
	for r, want := range map[breaker.Result]string{
		breaker.Success: "success", breaker.Failure: "failure", breaker.Excluded: "excluded", 9: "Result(9)",
	} {
		if got := r.String(); got != want {
			t.Errorf("Result(%d).String() = %q, want %q", uint8(r), got, want)
		}
	}
}

// What a status means to a breaker does not depend on its class, nor on a hint.
func TestEveryFailedStatusHasItsResult(t *testing.T) {
	excluded := []int{429, 501, 505, 506, 507, 508, 510, 511, 561}
	hinted := http.Header{"Retry-After": {"5"}}
	for code := 100; code <= 999; code++ {
		want := breaker.Success
		switch {
		case slices.Contains(excluded, code):
			want = breaker.Excluded
		case code == 408, code >= 500:
			want = breaker.Failure
		}
		for _, h := range []http.Header{nil, hinted, {"Stripe-Should-Retry": {"false"}}} {
			v, failed := classify.Status(code, h, time.Now())
			if !failed {
				continue
			}
			if got := breaker.ResultOf(v); got != want {
				t.Errorf("ResultOf(Status(%d, %v) = %+v) = %v, want %v", code, h, v, got, want)
			}
		}
	}
}

func TestResultOf(t *testing.T) {
	remote := func(c classify.Class, reason string) classify.Verdict {
		return classify.Verdict{Class: c, Reason: reason}
	}
	for _, tt := range []struct {
		name string
		v    classify.Verdict
		want breaker.Result
	}{
		{"the zero verdict: nothing is known", classify.Verdict{}, breaker.Failure},
		{"no answer in time", remote(classify.Ambiguous, "timeout"), breaker.Failure},
		{"a reset connection", remote(classify.Ambiguous, "reset"), breaker.Failure},
		{"not connected", remote(classify.Retryable, "dial"), breaker.Failure},
		{"no answer from the resolver", remote(classify.Retryable, "dns"), breaker.Failure},
		{"the server shuts down", remote(classify.Retryable, "goaway"), breaker.Failure},

		{"no such name", remote(classify.Permanent, "dns"), breaker.Failure},
		{"never to be connected", remote(classify.Permanent, "dial"), breaker.Failure},
		{"no common TLS version", remote(classify.Permanent, "tls"), breaker.Failure},
		{"a certificate that is not trusted", remote(classify.Permanent, "certificate"), breaker.Failure},
		{"a proxy that refuses", remote(classify.Permanent, "proxy"), breaker.Failure},

		{"an answer of a database", remote(classify.Permanent, "sql"), breaker.Success},
		{"a conflict of transactions", remote(classify.Retryable, "conflict"), breaker.Success},
		{"marked permanent", remote(classify.Permanent, "permanent"), breaker.Success},
		{"a reason of somebody's own", remote(classify.Permanent, "quota_used_up"), breaker.Success},

		{"turned away for load", classify.Verdict{Class: classify.Retryable, Throttled: true, Reason: "retryable"}, breaker.Excluded},
		{"turned away for load, for good", classify.Verdict{Class: classify.Permanent, Throttled: true, Reason: "permanent"}, breaker.Excluded},
		{"overloaded, with a status that says so", classify.Verdict{Class: classify.Retryable, Throttled: true, Reason: "http_529"}, breaker.Failure},
		{"a limit in disguise", classify.Verdict{Class: classify.Retryable, Throttled: true, Reason: "http_403"}, breaker.Success},

		{"no file handles here", classify.Verdict{Class: classify.Retryable, Origin: classify.Local, Reason: "local"}, breaker.Excluded},
		{"a bad request here", classify.Verdict{Class: classify.Permanent, Origin: classify.Local, Reason: "request"}, breaker.Excluded},
		{"a status that was not the callee's", classify.Verdict{Origin: classify.Local, Reason: "http_500"}, breaker.Excluded},
		{"the caller has gone", classify.Verdict{Origin: classify.Caller, Reason: "canceled"}, breaker.Excluded},
		{"the caller's time is up", classify.Verdict{Origin: classify.Caller, Reason: "timeout"}, breaker.Excluded},
		{"an origin that does not exist", classify.Verdict{Origin: 9}, breaker.Excluded},

		{"a reason that only looks like a status", remote(classify.Permanent, "http_proxy"), breaker.Success},
		{"the same, ambiguous", remote(classify.Ambiguous, "http_"), breaker.Failure},
		{"another's answer below 500, whatever its class", remote(classify.Ambiguous, "http_404"), breaker.Success},
		{"an answer from 500, declared permanent", remote(classify.Permanent, "http_503"), breaker.Failure},
	} {
		if got := breaker.ResultOf(tt.v); got != tt.want {
			t.Errorf("%s: ResultOf(%+v) = %v, want %v", tt.name, tt.v, got, tt.want)
		}
	}
}

// From the error to the result, without a verdict written by hand.
func TestResultOfTheVerdictOfAnError(t *testing.T) {
	op := func(op string, err error) error { return &net.OpError{Op: op, Net: "tcp", Err: err} }
	for _, tt := range []struct {
		err  error
		want breaker.Result
	}{
		{op("dial", syscall.ECONNREFUSED), breaker.Failure},
		{op("read", syscall.ECONNRESET), breaker.Failure},
		{io.ErrUnexpectedEOF, breaker.Failure},
		{&net.DNSError{Err: "no such host", Name: "payments.invalid", IsNotFound: true}, breaker.Failure},
		{errors.New("nobody knows"), breaker.Failure},
		{classify.As(classify.Retryable, errors.New("turned away")), breaker.Failure},

		{op("dial", syscall.EMFILE), breaker.Excluded},
		{context.Canceled, breaker.Excluded},
		{&breaker.OpenError{Name: "another"}, breaker.Excluded},
		{fmt.Errorf("charge: %w", breaker.ErrOpen), breaker.Excluded},

		{sql.ErrNoRows, breaker.Success},
		{classify.As(classify.Permanent, errors.New("no such customer")), breaker.Success},
	} {
		if got := breaker.ResultOf(classify.Error(tt.err)); got != tt.want {
			t.Errorf("ResultOf(Error(%v) = %+v) = %v, want %v", tt.err, classify.Error(tt.err), got, tt.want)
		}
	}
}

func FuzzResultOf(f *testing.F) {
	f.Add(uint8(0), uint8(0), "http_503", false)
	f.Add(uint8(2), uint8(0), "http_-1", true)
	f.Add(uint8(1), uint8(2), "http_99999999999999999999", false)
	f.Fuzz(func(t *testing.T, class, origin uint8, reason string, throttled bool) {
		v := classify.Verdict{Class: classify.Class(class), Origin: classify.Origin(origin), Reason: reason, Throttled: throttled}
		got := breaker.ResultOf(v)
		if got > breaker.Excluded {
			t.Errorf("ResultOf(%+v) = %v, want one of the three", v, got)
		}
		if v.Origin != classify.Remote && got != breaker.Excluded {
			t.Errorf("ResultOf(%+v) = %v, want excluded: it is not the callee's", v, got)
		}
		if v.Origin == classify.Remote && v.Class != classify.Permanent && !throttled && got == breaker.Success &&
			len(reason) > 5 && reason[:5] != "http_" {
			t.Errorf("ResultOf(%+v) = %v, want no success without an answer", v, got)
		}
	})
}
