package breaker_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/reintento/reintento/breaker"
)

// FuzzBreaker takes any sequence of steps (attempts begun, settled in any order, time that passes) and compares the
// breaker after each of them with what its documentation says, written down here in the plainest way.
func FuzzBreaker(f *testing.F) {
	f.Add([]byte{0, 0, 0, 0x11, 0x11, 0x11, 0xff, 0xff, 0, 0x10, 0})
	f.Add([]byte{0, 0x11, 0, 0x11, 0, 0x11, 0x03, 0xff, 0xff, 0, 0, 0, 0x12, 0, 0x10, 0x10})
	f.Add([]byte{0, 0x11, 0x13, 0, 0x11, 0x13, 0, 0x11, 0xff, 0, 0x11, 0xff, 0xff, 0, 0x10, 0, 0x10})
	f.Fuzz(func(t *testing.T, steps []byte) {
		const (
			window  = 100 * time.Millisecond
			results = 3
			openFor = 200 * time.Millisecond
			limit   = 500 * time.Millisecond
			probes  = 2
		)
		type pass struct {
			breaker.Pass
			begun int // how many changes had been told of then
		}
		type result struct {
			at     time.Time
			failed bool
		}
		synctest.Test(t, func(t *testing.T) {
			var told []breaker.Change
			b, err := breaker.New("payments", breaker.Settings{
				Window: window, MinResults: results, OpenFor: openFor, MaxOpenFor: limit, Probes: probes,
			}, func(c breaker.Change) { told = append(told, c) })
			if err != nil {
				t.Fatal(err)
			}
			start := time.Now()
			var (
				state   breaker.State
				retryAt time.Time
				length  = openFor
				counted []result // while closed
				taken   int      // places, while half-open
				good    int
				under   []pass
			)
			opens := func() {
				state, counted, retryAt = breaker.Open, nil, b.RetryAt()
				if d := time.Until(retryAt); d < length-length/5 || d > min(length+length/5, limit) {
					t.Fatalf("open for %v, want %v give or take 20%% and at most %v", d, length, limit)
				}
			}
			// step numbers the tenths of the window; a result counts in its own and in the nine that follow.
			step := func(at time.Time) int64 { return int64(at.Sub(start) / (window / 10)) }
			closed := func(r breaker.Result) {
				if r == breaker.Excluded {
					return
				}
				counted = append(counted, result{time.Now(), r == breaker.Failure})
				var n, failed int
				for _, c := range counted {
					if step(time.Now())-step(c.at) < 10 {
						n++
						if c.failed {
							failed++
						}
					}
				}
				if r == breaker.Failure && n >= results && 2*failed >= n {
					opens()
				}
			}
			halfOpen := func(r breaker.Result) {
				switch r {
				case breaker.Excluded:
					taken--
				case breaker.Failure:
					length = min(2*length, limit)
					opens()
				case breaker.Success:
					if good++; good == probes {
						state, length, start = breaker.Closed, openFor, time.Now()
					}
				}
			}
			for i, s := range steps {
				switch op, arg := s&0x0f, int(s>>4); {
				case op == 0: // begin
					want := state == breaker.Closed ||
						state == breaker.Open && !time.Now().Before(retryAt) ||
						state == breaker.HalfOpen && taken < probes
					p, err := b.Allow()
					if (err == nil) != want {
						t.Fatalf("step %d: Allow() = %v while %v with %d places taken", i, err, state, taken)
					}
					if err != nil {
						break
					}
					if state == breaker.Open {
						state, retryAt, taken, good = breaker.HalfOpen, time.Time{}, 0, 0
					}
					if state == breaker.HalfOpen {
						taken++
					}
					under = append(under, pass{p, len(told)})
				case op < 4: // settle one of those under way
					if len(under) == 0 {
						break
					}
					n := arg % len(under)
					p, r := under[n], breaker.Result(op-1)
					under = append(under[:n], under[n+1:]...)
					present := p.begun == len(told)
					p.Settle(r)
					switch {
					case !present: // of the past: changes nothing
					case state == breaker.Closed:
						closed(r)
					case state == breaker.HalfOpen:
						halfOpen(r)
					}
				default: // time passes
					time.Sleep(time.Duration(arg+1) * time.Duration(op) * time.Millisecond)
				}
				if state != breaker.Open {
					retryAt = time.Time{}
				}
				if b.State() != state || b.RetryAt() != retryAt {
					t.Fatalf("step %d (%#x): %v until %v, want %v until %v", i, s, b.State(), b.RetryAt(), state, retryAt)
				}
			}
			inOrder(t, told)
		})
	})
}
