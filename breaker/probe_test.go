package breaker

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

// Between the look at the phase, which takes no lock, and the lock, another goroutine may have probed, and its result
// may be there. Whoever comes second must find that out: gobreaker alone would take it for the next probe, since its own
// time of being open is the shortest. probe is called here as that second goroutine calls it.
func TestTheSecondToProbeFindsWhatTheFirstHasLeft(t *testing.T) {
	for _, tt := range []struct {
		first Result
		want  State
	}{
		{Failure, Open},
		{Success, Closed},
	} {
		t.Run(tt.first.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b, err := New("payments", Settings{MinResults: 1, Probes: 1}, nil)
				if err != nil {
					t.Fatal(err)
				}
				p, _ := b.Allow()
				p.Settle(Failure)
				time.Sleep(time.Until(b.RetryAt()))
				p, err = b.Allow()
				if err != nil {
					t.Fatalf("Allow() = %v at its time", err)
				}
				p.Settle(tt.first)
				retryAt := b.RetryAt()
				time.Sleep(time.Second)

				p, err = b.probe()
				if refused := errors.Is(err, ErrOpen); refused != (tt.want == Open) {
					t.Errorf("probe() = %v while %v", err, tt.want)
				}
				p.Settle(Success)
				if b.State() != tt.want || b.RetryAt() != retryAt {
					t.Errorf("afterwards %v until %v, want %v until %v", b.State(), b.RetryAt(), tt.want, retryAt)
				}
			})
		})
	}
}
