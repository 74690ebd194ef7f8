package breaker_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/reintento/reintento/breaker"
	"github.com/reintento/reintento/classify"
)

func TestOpenError(t *testing.T) {
	at := time.Date(2026, 11, 30, 17, 38, 39, 250_000_000, time.UTC)
	for _, tt := range []struct {
		err  *breaker.OpenError
		text string
	}{
		{&breaker.OpenError{Name: "payments", RetryAt: at}, `breaker: "payments" is open until 2026-11-30T17:38:39.250Z`},
		{&breaker.OpenError{Name: "payments"}, `breaker: "payments" is half-open and all its probes are under way`},
	} {
		if got := tt.err.Error(); got != tt.text {
			t.Errorf("Error() = %q, want %q", got, tt.text)
		}
		wrapped := fmt.Errorf("charge: %w", tt.err)
		if !errors.Is(wrapped, breaker.ErrOpen) {
			t.Errorf("errors.Is(%v, ErrOpen) = false, want true", wrapped)
		}
		if got, ok := errors.AsType[*breaker.OpenError](wrapped); !ok || got != tt.err {
			t.Errorf("AsType(%v) = %v, %v, want the OpenError", wrapped, got, ok)
		}
	}
	if errors.Is(&breaker.OpenError{}, errors.New("breaker: open")) {
		t.Error("an OpenError is an error with the same text, want ErrOpen only")
	}
}

// A refusal is Permanent, Local and without effect, as itself, wrapped, and as the bare value.
func TestARefusalClassifiesItself(t *testing.T) {
	want := classify.Verdict{Class: classify.Permanent, Origin: classify.Local, Reason: "breaker_open"}
	for _, err := range []error{
		&breaker.OpenError{Name: "payments", RetryAt: time.Now()},
		breaker.ErrOpen,
		fmt.Errorf("charge: %w", &breaker.OpenError{Name: "payments"}),
		errors.Join(errors.New("charge"), breaker.ErrOpen),
	} {
		if got := classify.Error(err); got != want {
			t.Errorf("classify.Error(%v) = %+v, want %+v", err, got, want)
		}
	}
}
