package deadline_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/reintento/reintento/deadline"
)

// A loop that stops as soon as no further attempt can follow, instead of sleeping until the deadline.
func Example() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()

	const wait, attempt = 700 * time.Millisecond, 500 * time.Millisecond
	if !deadline.Fits(ctx, wait, attempt) {
		fmt.Println("not enough time for another attempt")
	}
	// Output: not enough time for another attempt
}

func ExampleRemaining() {
	_, ok := deadline.Remaining(context.Background())
	fmt.Println(ok)

	ctx, cancel := context.WithDeadline(context.Background(), time.Now().Add(-time.Minute))
	defer cancel()
	d, ok := deadline.Remaining(ctx)
	fmt.Println(d, ok)
	// Output:
	// false
	// 0s true
}

func ExampleSleep() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()

	err := deadline.Sleep(ctx, time.Hour) // returns at once
	fmt.Println(err)
	fmt.Println(errors.Is(err, deadline.ErrNoTime), errors.Is(err, context.DeadlineExceeded))
	fmt.Println(ctx.Err()) // the minute is not over
	// Output:
	// deadline: the wait would not end before the context's deadline
	// true true
	// <nil>
}

// The context's cause is what comes back, not only that it was cancelled.
func ExampleSleep_cause() {
	ctx, cancel := context.WithCancelCause(context.Background())
	cancel(errors.New("shutting down"))
	fmt.Println(deadline.Sleep(ctx, time.Hour))
	// Output: shutting down
}

// One side tells how long it waits, the other gives up when the time is over.
func ExampleParse() {
	h := http.Header{}
	h.Set(deadline.Header, deadline.Format(1250*time.Millisecond+999*time.Microsecond))
	fmt.Println(h.Get(deadline.Header))

	d, err := deadline.Parse(h.Get(deadline.Header))
	fmt.Println(d, err)

	_, err = deadline.Parse("1.5")
	fmt.Println(err)
	// Output:
	// 1250
	// 1.25s <nil>
	// deadline: Request-Timeout-Ms "1.5": want decimal digits only
}
