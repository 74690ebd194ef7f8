package classify_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"syscall"
	"time"

	"github.com/reintento/reintento/classify"
)

func ExampleError() {
	refused := &net.OpError{Op: "dial", Net: "tcp", Err: syscall.ECONNREFUSED}
	for _, err := range []error{
		refused,
		fmt.Errorf("pay: %w", io.ErrUnexpectedEOF),
		sql.ErrNoRows,
		context.Canceled,
		errors.New("no idea"),
	} {
		v := classify.Error(err)
		fmt.Println(v.Class, v.Origin, v.Reason)
	}
	// Output:
	// retryable remote dial
	// ambiguous remote closed
	// permanent remote sql
	// ambiguous caller canceled
	// ambiguous remote unknown
}

// Several errors in one: what somebody said outweighs what is recognised, and
// that outweighs the unknown; then the worst counts.
func ExampleError_joined() {
	refused := &net.OpError{Op: "dial", Net: "tcp", Err: syscall.ECONNREFUSED}
	fmt.Println(classify.Error(errors.Join(errors.New("no idea"), refused)).Class)
	fmt.Println(classify.Error(errors.Join(refused, io.EOF)).Class)
	fmt.Println(classify.Error(errors.Join(io.EOF, classify.As(classify.Permanent, io.EOF))).Class)
	// Output:
	// retryable
	// ambiguous
	// permanent
}

func ExampleAs() {
	var errSoldOut = errors.New("sold out")
	err := fmt.Errorf("order 7: %w", classify.As(classify.Permanent, errSoldOut))
	fmt.Println(err)
	fmt.Println(errors.Is(err, errSoldOut), classify.Error(err).Class)
	// Output:
	// order 7: sold out
	// true permanent
}

func ExampleAfter() {
	err := classify.After(2*time.Second, errors.New("try later"))
	v := classify.Error(err)
	fmt.Println(v.Class, v.RetryAfter)
	// Output: retryable 2s
}

func ExampleStatus() {
	now := time.Now()
	for _, code := range []int{200, 404, 429, 500, 503} {
		if v, failed := classify.Status(code, nil, now); failed {
			fmt.Println(code, v.Class, v.Reason)
		}
	}
	v, _ := classify.Status(503, http.Header{"Retry-After": {"120"}}, now)
	fmt.Println(v.Class, v.Throttled, v.RetryAfter)
	// Output:
	// 404 permanent http_404
	// 429 retryable http_429
	// 500 ambiguous http_500
	// 503 ambiguous http_503
	// retryable true 2m0s
}

func ExampleRetryAfter() {
	received := time.Date(2026, time.November, 30, 17, 38, 19, 0, time.UTC)
	for _, value := range []string{"120", "Mon, 30 Nov 2026 17:38:39 GMT", "Monday, 30-Nov-26 17:38:39 GMT", "0", "1.5", "Fri, 31 Dec 1999 23:59:59 GMT"} {
		fmt.Println(classify.RetryAfter(http.Header{"Retry-After": {value}}, received))
	}
	// Output:
	// 2m0s true
	// 20s true
	// 20s true
	// 0s false
	// 0s false
	// 0s false
}

func ExampleTransport() {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		fmt.Println(err)
		return
	}
	l.Close() // nobody listens there any more

	var t classify.Trace
	ctx := httptrace.WithClientTrace(context.Background(), &httptrace.ClientTrace{
		GetConn: func(string) { t.GetConn = true },
		GotConn: func(httptrace.GotConnInfo) { t.GotConn++ },
	})
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+l.Addr().String(), nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	if _, err := new(http.Transport).RoundTrip(req); err != nil {
		v := classify.Transport(err, t)
		fmt.Println(v.Class, v.Reason)
	}

	// The same error, after a header had been handed to an earlier connection.
	fmt.Println(classify.Transport(syscall.ECONNREFUSED, classify.Trace{GetConn: true, GotConn: 1, WroteHeaders: 1}).Class)
	// Output:
	// retryable dial
	// ambiguous
}

// A classifier recognises errors of its own kind and passes the others on.
func ExampleClassifier() {
	var errBusy = errors.New("ledger: busy")
	var ledger classify.Classifier = func(err error) (classify.Verdict, bool) {
		if !errors.Is(err, errBusy) {
			return classify.Verdict{}, false
		}
		return classify.Verdict{Class: classify.Retryable, Reason: "ledger_busy", Throttled: true}, true
	}
	fmt.Println(ledger(fmt.Errorf("book: %w", errBusy)))
	_, ok := ledger(io.EOF)
	fmt.Println(ok)
	// Output:
	// {retryable remote ledger_busy 0s true false} true
	// false
}
