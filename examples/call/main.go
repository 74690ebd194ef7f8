// Call wraps a call of any kind: here a counter that a flaky network hides.
package main

import (
	"context"
	"errors"
	"fmt"
	"log"
	"time"

	"github.com/reintento/reintento/classify"
	"github.com/reintento/reintento/retry"
)

func main() {
	counter, err := retry.NewDestination("counter", retry.Policy{
		Deadline:  5 * time.Second,
		BaseDelay: 10 * time.Millisecond,
	}, nil)
	if err != nil {
		log.Fatal(err)
	}
	ctx := context.Background()

	// Refused before it was processed: repeated, whatever the operation does.
	attempts := 0
	value, err := retry.Do(ctx, counter, retry.Unsafe, func(ctx context.Context) (int, error) {
		if attempts++; attempts < 3 {
			return 0, classify.As(classify.Retryable, errors.New("queue full"))
		}
		return 42, nil
	}, retry.Named("read counter"))
	fmt.Println(value, err, "after", attempts, "attempts")

	// The answer is lost: an unsafe operation is not repeated, and the error
	// says that nobody knows whether it happened.
	attempts = 0
	err = counter.Do(ctx, retry.Unsafe, func(ctx context.Context) error {
		attempts++
		return errors.New("connection lost")
	}, retry.Named("increment"))
	fmt.Println(errors.Is(err, retry.ErrOutcomeUnknown), "after", attempts, "attempt")

	// The same with a key that the callee honours: one key, every attempt.
	var keys []string
	err = counter.Do(ctx, retry.Keyed, func(ctx context.Context) error {
		if keys = append(keys, retry.Key(ctx)); len(keys) < 2 {
			return errors.New("connection lost")
		}
		return nil
	}, retry.Named("increment"))
	fmt.Println(err, keys[0] == keys[1])
}
