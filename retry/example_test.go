package retry_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/reintento/reintento/classify"
	"github.com/reintento/reintento/retry"
)

// bank is a callee that fails now and then.
type bank struct{ calls int }

var errBusy = errors.New("the bank is busy")

// charge is turned away once, and then charges.
func (b *bank) charge(_ context.Context, amount int) (string, error) {
	if b.calls++; b.calls == 1 {
		return "", classify.As(classify.Retryable, errBusy)
	}
	return fmt.Sprintf("charged %d", amount), nil
}

// A destination has a policy of its own; the zero Policy works.
func Example() {
	payments, err := retry.NewDestination("payments", retry.Policy{}, nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	var b bank
	receipt, err := retry.Do(context.Background(), payments, retry.Unsafe, func(ctx context.Context) (string, error) {
		return b.charge(ctx, 100)
	})
	fmt.Println(receipt, err, b.calls)
	// Output: charged 100 <nil> 2
}

// What may have had its effect is repeated only where the caller says that this is safe.
func ExampleDo() {
	lost := errors.New("the connection broke before the answer came")
	quick := retry.Policy{BaseDelay: time.Millisecond}
	for _, safety := range []retry.Safety{retry.Unsafe, retry.Idempotent} {
		payments, err := retry.NewDestination("payments", quick, nil)
		if err != nil {
			fmt.Println(err)
			return
		}
		calls := 0
		_, err = retry.Do(context.Background(), payments, safety, func(context.Context) (string, error) {
			if calls++; calls == 1 {
				return "", lost
			}
			return "done", nil
		})
		fmt.Println(safety, calls, errors.Is(err, retry.ErrOutcomeUnknown))
	}
	// Output:
	// unsafe 1 true
	// idempotent 2 false
}

// All attempts of one intention carry one key, by which the callee knows that it has seen it.
func ExampleKey() {
	payments, err := retry.NewDestination("payments", retry.Policy{BaseDelay: time.Millisecond}, nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	charged := map[string]int{} // the bank's memory, by key
	attempts := 0
	err = payments.Do(context.Background(), retry.Keyed, func(ctx context.Context) error {
		key := retry.Key(ctx)
		if _, seen := charged[key]; !seen {
			charged[key] = 100
		}
		if attempts++; attempts < 3 {
			return errors.New("the answer was lost")
		}
		return nil
	})
	fmt.Println(err, attempts, len(charged))
	// Output: <nil> 3 1
}

// A callee without keys can still be asked what became of a call.
func ExampleReconcile() {
	payments, err := retry.NewDestination("payments", retry.Policy{BaseDelay: time.Millisecond}, nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	ledger := map[string]string{} // the bank's, by the caller's reference
	receipt, err := retry.Do(context.Background(), payments, retry.Unsafe,
		func(context.Context) (string, error) {
			ledger["order-17"] = "receipt 4711"
			return "", errors.New("the answer was lost")
		},
		retry.Reconcile(func(context.Context, retry.Intention) (string, error) {
			if receipt, ok := ledger["order-17"]; ok {
				return receipt, nil
			}
			return "", errors.New("not there yet")
		}))
	fmt.Println(receipt, err)
	// Output: receipt 4711 <nil>
}

// A variant of a policy is made by copying it and changing fields.
func ExamplePolicy() {
	standard := retry.Policy{MaxAttempts: 4, Deadline: 20 * time.Second}
	patient := standard
	patient.MaxAttempts = 6
	fmt.Println(standard.MaxAttempts, patient.MaxAttempts, patient.Deadline)

	patient.BaseDelay = time.Minute
	fmt.Println(patient.Validate())
	// Output:
	// 4 6 20s
	// retry: bad policy: BaseDelay is 1m0s: allowed is at most MaxDelay, which is 5s
}

// An error says why there was no further attempt, what failed last, and what is known of the effect.
func ExampleError() {
	payments, err := retry.NewDestination("payments", retry.Policy{}, nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	limit := classify.As(classify.Permanent, errors.New("the card's limit is reached"))
	err = payments.Do(context.Background(), retry.Unsafe, func(context.Context) error { return limit }, retry.Named("charge"))

	fmt.Println(errors.Is(err, retry.ErrPermanent), errors.Is(err, limit), errors.Is(err, retry.ErrOutcomeUnknown))
	if e, ok := errors.AsType[*retry.Error](err); ok {
		fmt.Println(e.Operation, "at", e.Destination+":", e.Outcome, "after", len(e.Attempts), "attempt")
	}
	// Output:
	// true true false
	// charge at payments: not applied after 1 attempt
}

// One layer holds the policies of an organization and the state of everything it calls.
func ExampleLayer() {
	layer, err := retry.NewLayer(retry.Organization{
		Default: retry.Policy{Deadline: 10 * time.Second},
		Destinations: map[string]retry.Policy{
			"ledger":             {MaxAttempts: 5},
			"*.bank.example.com": {MaxAttempts: 2, Key: retry.KeyPolicy{Honored: true}},
		},
	}, nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, name := range []string{"ledger", "https://eu.bank.example.com:443", "mail"} {
		err := layer.To(name).Do(context.Background(), retry.Idempotent, func(context.Context) error { return nil })
		if err != nil {
			fmt.Println(err)
		}
	}
	for _, s := range layer.Snapshot() {
		fmt.Println(s.Name, s.MaxAttempts, s.Breaker, s.Budget)
	}
	// Output:
	// https://eu.bank.example.com:443 2 closed 10
	// ledger 5 closed 10
	// mail 3 closed 10
}
