package breaker_test

import (
	"errors"
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/reintento/reintento/breaker"
	"github.com/reintento/reintento/classify"
)

// watched is a breaker with the changes that it told of. The tests read them in the goroutine that causes them.
type watched struct {
	*breaker.Breaker
	t       *testing.T
	changes []breaker.Change
}

func watch(t *testing.T, s breaker.Settings) *watched {
	t.Helper()
	w := &watched{t: t}
	b, err := breaker.New("payments", s, func(c breaker.Change) { w.changes = append(w.changes, c) })
	if err != nil {
		t.Fatalf("New(%+v) = %v", s, err)
	}
	w.Breaker = b
	return w
}

// allow returns the Pass of an attempt that must be allowed.
func (w *watched) allow() breaker.Pass {
	w.t.Helper()
	p, err := w.Allow()
	if err != nil {
		w.t.Fatalf("Allow() = %v, want a Pass; the state is %v", err, w.State())
	}
	return p
}

// give makes n attempts with the same result.
func (w *watched) give(n int, r breaker.Result) {
	w.t.Helper()
	for range n {
		p := w.allow()
		p.Settle(r)
	}
}

// refused makes an attempt that must be refused, and returns when the next one is let through.
func (w *watched) refused() time.Time {
	w.t.Helper()
	_, err := w.Allow()
	open, ok := errors.AsType[*breaker.OpenError](err)
	if !ok || !errors.Is(err, breaker.ErrOpen) {
		w.t.Fatalf("Allow() = %v, want an *OpenError that is ErrOpen; the state is %v", err, w.State())
	}
	return open.RetryAt
}

func (w *watched) is(want breaker.State) {
	w.t.Helper()
	if got := w.State(); got != want {
		w.t.Fatalf("State() = %v, want %v", got, want)
	}
	if isOpen := !w.RetryAt().IsZero(); isOpen != (want == breaker.Open) {
		w.t.Fatalf("RetryAt() = %v while %v, want a time only while open", w.RetryAt(), want)
	}
}

// trip opens a closed breaker that needs n failures for it.
func (w *watched) trip(n int) {
	w.t.Helper()
	w.give(n, breaker.Failure)
	w.is(breaker.Open)
}

// untilRetry lets the time of an open breaker pass.
func (w *watched) untilRetry() {
	w.t.Helper()
	w.is(breaker.Open)
	time.Sleep(time.Until(w.RetryAt()))
}

// quick opens at the first failure and closes after one good probe.
var quick = breaker.Settings{MinResults: 1, Probes: 1}

func TestItOpensAtTheRatioOnceThereAreResultsEnough(t *testing.T) {
	const (
		s = breaker.Success
		f = breaker.Failure
		x = breaker.Excluded
	)
	type results struct {
		n int
		r breaker.Result
	}
	for _, tt := range []struct {
		name     string
		settings breaker.Settings
		given    []results // all of them leave it closed
		last     breaker.Result
		want     breaker.State
	}{
		{"19 failures and one more", breaker.Settings{}, []results{{19, f}}, f, breaker.Open},
		{"18 failures and one more", breaker.Settings{}, []results{{18, f}}, f, breaker.Closed},
		{"half of 20", breaker.Settings{}, []results{{10, s}, {9, f}}, f, breaker.Open},
		{"less than half of 20", breaker.Settings{}, []results{{11, s}, {8, f}}, f, breaker.Closed},
		{"half of many", breaker.Settings{}, []results{{500, s}, {499, f}}, f, breaker.Open},
		{"less than half of many", breaker.Settings{}, []results{{501, s}, {499, f}}, f, breaker.Closed},
		{"a success does not open it", breaker.Settings{}, []results{{19, f}}, s, breaker.Closed},
		{"the failure after it does", breaker.Settings{}, []results{{19, f}, {1, s}}, f, breaker.Open},

		{"excluded results are none", breaker.Settings{}, []results{{18, f}, {1000, x}}, f, breaker.Closed},
		{"excluded results thin nothing out", breaker.Settings{}, []results{{10, s}, {9, f}, {1000, x}}, f, breaker.Open},
		{"an excluded result does not open it", breaker.Settings{}, []results{{19, f}}, x, breaker.Closed},

		{"one failure is enough", breaker.Settings{MinResults: 1}, nil, f, breaker.Open},
		{"seven of ten", breaker.Settings{MinResults: 10, FailureRatio: 0.7}, []results{{3, s}, {6, f}}, f, breaker.Open},
		{"six of ten", breaker.Settings{MinResults: 10, FailureRatio: 0.7}, []results{{4, s}, {5, f}}, f, breaker.Closed},
		{"all of three", breaker.Settings{MinResults: 3, FailureRatio: 1}, []results{{2, f}}, f, breaker.Open},
		{"all but one of many", breaker.Settings{MinResults: 3, FailureRatio: 1}, []results{{1, s}, {98, f}}, f, breaker.Closed},
		{"one of a hundred", breaker.Settings{MinResults: 100, FailureRatio: 0.01}, []results{{99, s}}, f, breaker.Open},
		{"one of a hundred and one", breaker.Settings{MinResults: 100, FailureRatio: 0.01}, []results{{100, s}}, f, breaker.Closed},
		{"an unknown result is a failure", breaker.Settings{MinResults: 1}, nil, breaker.Result(9), breaker.Open},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := watch(t, tt.settings)
				for _, g := range tt.given {
					b.give(g.n, g.r)
				}
				b.is(breaker.Closed)
				b.give(1, tt.last)
				b.is(tt.want)
			})
		})
	}
}

// B122: with no window the counts are never cleared; after many successes a total outage needs just as many failures to
// move the ratio. 10 000 ok, then 5 000 failures.
func TestALongGoodRunDoesNotHideAnOutage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := watch(t, breaker.Settings{})
		for range 10_000 { // 100 a second
			b.give(1, breaker.Success)
			time.Sleep(10 * time.Millisecond)
		}
		outage := time.Now()
		failures := 0
		for ; failures < 5000 && b.State() == breaker.Closed; failures++ {
			b.give(1, breaker.Failure)
			time.Sleep(10 * time.Millisecond)
		}
		b.is(breaker.Open)
		// When half of the window of 30 s is failures, give or take a step of 3 s.
		if took := time.Since(outage); took < 13*time.Second || took > 17*time.Second {
			t.Errorf("it opened after %v and %d failures, want about 15s", took, failures)
		}
	})
}

func TestAResultCountsForNineTenthsOfTheWindowAndNotBeyondIt(t *testing.T) {
	for _, window := range []time.Duration{0, time.Second, 7 * time.Millisecond, time.Millisecond, time.Millisecond + 1, 24 * time.Hour} {
		length := window
		if window == 0 {
			length = 30 * time.Second
		}
		for tenths := range 20 { // where in the steps of the window the results come
			for _, tt := range []struct {
				later time.Duration
				want  breaker.State
			}{
				{length * 9 / 10, breaker.Open},
				{length + 10, breaker.Closed}, // up to 10 ns longer, if the window cannot be divided by ten
			} {
				synctest.Test(t, func(t *testing.T) {
					b := watch(t, breaker.Settings{Window: window, MinResults: 3})
					time.Sleep(length / 10 * time.Duration(tenths) / 4)
					b.give(2, breaker.Failure)
					time.Sleep(tt.later)
					b.give(1, breaker.Failure)
					if got := b.State(); got != tt.want {
						t.Errorf("Window %v: the third failure came %v after the others: State() = %v, want %v", window, tt.later, got, tt.want)
					}
				})
			}
		}
	}
}

func TestASuccessLeavesTheWindowToo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := watch(t, breaker.Settings{MinResults: 3})
		b.give(100, breaker.Success)
		time.Sleep(20 * time.Second)
		b.give(3, breaker.Failure)
		b.is(breaker.Closed)
		time.Sleep(11 * time.Second)
		b.give(1, breaker.Failure)
		b.is(breaker.Open)
	})
}

// B121: the closed-state window rolls over while the call runs; its failure belongs to an old generation and is
// discarded, so a timeout-type outage leaves the breaker closed. Interval 20 ms, trip after 3 in a row; 10 calls each
// failing after 30 ms.
func TestAttemptsSlowerThanTheWindowCount(t *testing.T) {
	for _, slow := range []time.Duration{30 * time.Millisecond, time.Second, time.Hour} {
		synctest.Test(t, func(t *testing.T) {
			b := watch(t, breaker.Settings{Window: 20 * time.Millisecond, MinResults: 3, FailureRatio: 1})
			var under sync.WaitGroup
			for range 10 {
				under.Go(func() {
					p, err := b.Allow()
					if err != nil {
						t.Errorf("Allow() = %v, want a Pass", err)
					}
					time.Sleep(slow)
					p.Settle(breaker.Failure)
				})
			}
			under.Wait()
			b.is(breaker.Open)
		})
	}
}

// The same one after the other: each result must count until the third comes.
func TestAttemptsNearlyAsSlowAsTheWindowCountOneAfterTheOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := watch(t, breaker.Settings{Window: 100 * time.Millisecond, MinResults: 3})
		for n := range 3 {
			b.is(breaker.Closed)
			p := b.allow()
			time.Sleep(40 * time.Millisecond)
			p.Settle(breaker.Failure)
			if n < 2 {
				b.is(breaker.Closed)
			}
		}
		b.is(breaker.Open)
	})
}

func TestItRefusesUntilItsTimeAndThenProbes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := watch(t, breaker.Settings{})
		b.trip(20)
		opened := time.Now()
		retryAt := b.RetryAt()
		if d := retryAt.Sub(opened); d < 4*time.Second || d > 6*time.Second {
			t.Errorf("RetryAt() is %v ahead, want 5s give or take 20%%", d)
		}
		if got := b.refused(); got != retryAt {
			t.Errorf("OpenError.RetryAt = %v, want %v as RetryAt()", got, retryAt)
		}
		time.Sleep(time.Until(retryAt) - 1)
		if got := b.refused(); got != retryAt {
			t.Errorf("a nanosecond before its time: OpenError.RetryAt = %v, want %v", got, retryAt)
		}
		time.Sleep(time.Nanosecond)
		p := b.allow()
		b.is(breaker.HalfOpen)
		p.Settle(breaker.Success)
		b.is(breaker.HalfOpen)
		b.give(1, breaker.Success)
		b.is(breaker.HalfOpen)
		b.give(1, breaker.Success)
		b.is(breaker.Closed)

		want := []breaker.Change{
			{Name: "payments", From: breaker.Closed, To: breaker.Open, RetryAt: retryAt},
			{Name: "payments", From: breaker.Open, To: breaker.HalfOpen},
			{Name: "payments", From: breaker.HalfOpen, To: breaker.Closed},
		}
		if len(b.changes) != len(want) {
			t.Fatalf("changes: %v, want %v", b.changes, want)
		}
		for i, c := range b.changes {
			if c != want[i] {
				t.Errorf("change %d: %+v, want %+v", i, c, want[i])
			}
		}
	})
}

func TestWhatWasCountedBeforeItOpenedIsForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := watch(t, breaker.Settings{MinResults: 3, Probes: 1, OpenFor: time.Second})
		b.trip(3)
		b.untilRetry()
		b.give(1, breaker.Success)
		b.is(breaker.Closed)
		b.give(2, breaker.Failure) // with the success of the probe these would be three results
		b.is(breaker.Closed)
		b.give(1, breaker.Failure)
		b.is(breaker.Open)
	})
}

func TestOneFailedProbeOpensItAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := watch(t, breaker.Settings{MinResults: 1, Probes: 3})
		b.trip(1)
		b.untilRetry()
		b.give(2, breaker.Success)
		b.give(1, breaker.Failure)
		b.is(breaker.Open)
	})
}

func TestEachOpeningOutOfHalfOpenIsTwiceAsLong(t *testing.T) {
	const s = time.Second
	for _, tt := range []struct {
		name     string
		settings breaker.Settings
		want     []time.Duration // without spread
		limit    time.Duration
	}{
		{"the default", breaker.Settings{}, []time.Duration{5 * s, 10 * s, 20 * s, 40 * s, 60 * s, 60 * s, 60 * s}, 60 * s},
		{"a limit of its own", breaker.Settings{OpenFor: s, MaxOpenFor: 3 * s}, []time.Duration{s, 2 * s, 3 * s, 3 * s}, 3 * s},
		{"no doubling", breaker.Settings{OpenFor: s, MaxOpenFor: s}, []time.Duration{s, s, s}, s},
		{"longer than the default limit", breaker.Settings{OpenFor: 90 * s}, []time.Duration{90 * s, 90 * s}, 90 * s},
		{"the shortest", breaker.Settings{OpenFor: time.Millisecond}, []time.Duration{time.Millisecond, 2 * time.Millisecond}, 60 * s},
		{"the longest", breaker.Settings{OpenFor: 24 * time.Hour}, []time.Duration{24 * time.Hour, 24 * time.Hour}, 24 * time.Hour},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				tt.settings.MinResults, tt.settings.Probes = 1, 1
				for range 50 {
					b := watch(t, tt.settings)
					for round := range 2 { // the second one after it was closed, from the start again
						for i, want := range tt.want {
							b.give(1, breaker.Failure)
							b.is(breaker.Open)
							low, high := want*8/10, min(want*12/10, tt.limit)
							if got := time.Until(b.RetryAt()); got < low || got > high {
								t.Errorf("round %d, opening %d: %v, want %v to %v", round+1, i+1, got, low, high)
							}
							b.untilRetry()
						}
						b.give(1, breaker.Success)
						b.is(breaker.Closed)
					}
				}
			})
		})
	}
}

// A fleet that has opened together must not come back together, at the limit neither.
func TestTheTimesAreSpread(t *testing.T) {
	for _, tt := range []struct {
		openFor        time.Duration
		low, high      time.Duration
		wantBelow, top time.Duration
	}{
		{5 * time.Second, 4 * time.Second, 6 * time.Second, 4200 * time.Millisecond, 5800 * time.Millisecond},
		{60 * time.Second, 48 * time.Second, 60 * time.Second, 49 * time.Second, 59 * time.Second},
	} {
		synctest.Test(t, func(t *testing.T) {
			const fleet = 1000
			shortest, longest := tt.high, tt.low
			seen := map[time.Duration]int{}
			for range fleet {
				b := watch(t, breaker.Settings{MinResults: 1, OpenFor: tt.openFor})
				b.trip(1)
				d := time.Until(b.RetryAt())
				shortest, longest = min(shortest, d), max(longest, d)
				seen[d]++
			}
			if shortest < tt.low || longest > tt.high || shortest > tt.wantBelow || longest < tt.top {
				t.Errorf("OpenFor %v: the times reach from %v to %v, want nearly all of %v to %v", tt.openFor, shortest, longest, tt.low, tt.high)
			}
			if len(seen) < fleet*9/10 {
				t.Errorf("OpenFor %v: %d different times in %d, want nearly all", tt.openFor, len(seen), fleet)
			}
		})
	}
}

// B111: the probe slot is taken but an 'ignored' result neither reports success/failure nor returns the slot, so all
// later calls are refused. Trip; wait; probe returns an excluded error; next call must be admitted as a probe.
func TestAnExcludedProbeGivesItsPlaceBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := watch(t, breaker.Settings{MinResults: 1, Probes: 2})
		b.trip(1)
		b.untilRetry()
		for range 1000 {
			b.give(1, breaker.Excluded)
			b.is(breaker.HalfOpen)
		}
		// Both places are there, and no more than that.
		p, q := b.allow(), b.allow()
		if at := b.refused(); !at.IsZero() {
			t.Errorf("OpenError.RetryAt = %v with all places taken, want the zero time", at)
		}
		p.Settle(breaker.Excluded)
		p = b.allow()
		b.refused()
		p.Settle(breaker.Success)
		b.is(breaker.HalfOpen)
		q.Settle(breaker.Success)
		b.is(breaker.Closed)
	})
}

// B113: cancelling the half-open call leaves the state half-open with no slot. Trip; probe with a context cancelled
// mid-call; next call admitted; state neither closed nor re-opened by the cancel.
func TestAProbeCancelledByItsCallerIsNoResult(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := watch(t, quick)
		b.trip(1)
		b.untilRetry()
		p := b.allow()
		b.refused()
		p.Settle(breaker.ResultOf(classify.Verdict{Origin: classify.Caller, Reason: "canceled"}))
		b.is(breaker.HalfOpen)
		b.give(1, breaker.Success)
		b.is(breaker.Closed)
	})
}

// B115: a panicking call passes through the policy with no outcome recorded. Trip; wait; probe panics (recovered by the
// caller); wait 1 s; call again. A runtime.Goexit, as by t.FailNow in a callback, passes no recover at all.
func TestAPanicOrGoexitInAProbeIsAFailureAndFreesItsPlace(t *testing.T) {
	attempt := func(b *breaker.Breaker, op func()) (err error) {
		p, err := b.Allow()
		if err != nil {
			return err
		}
		defer p.Settle(breaker.Failure)
		op()
		p.Settle(breaker.Success)
		return nil
	}
	for name, end := range map[string]func(){
		"panic":  func() { panic("boom") },
		"Goexit": func() { runtime.Goexit() },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := watch(t, breaker.Settings{MinResults: 1, Probes: 1, OpenFor: time.Second})
				broken := func() {
					var done sync.WaitGroup
					done.Go(func() {
						defer func() { _ = recover() }()
						_ = attempt(b.Breaker, end)
					})
					done.Wait()
				}
				broken() // counts while closed
				b.is(breaker.Open)
				first := b.RetryAt()
				b.untilRetry()
				broken() // and as a probe
				b.is(breaker.Open)
				if d := time.Until(b.RetryAt()); b.RetryAt() == first || d < 1600*time.Millisecond {
					t.Errorf("it opened again for %v, want about 2s", d)
				}
				b.untilRetry()
				if err := attempt(b.Breaker, func() {}); err != nil {
					t.Errorf("the next attempt: %v, want it let through", err)
				}
				b.is(breaker.Closed)
			})
		})
	}
}

// B117: impatient clients open the circuit of a healthy server. 10 calls cancelled by the caller, server fine; state
// closed, failures 0.
func TestCancelledAttemptsLeaveNoTrace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := watch(t, breaker.Settings{MinResults: 2})
		for range 10 {
			p := b.allow()
			p.Settle(breaker.ResultOf(classify.Verdict{Origin: classify.Caller, Reason: "canceled"}))
		}
		b.is(breaker.Closed)
		b.give(1, breaker.Failure) // would be the second result if one of the ten had counted
		b.is(breaker.Closed)
		b.give(1, breaker.Failure)
		b.is(breaker.Open)
	})
}

// B119: state flips to half-open and every waiting caller passes until the first result arrives. Trip; wait; 100
// goroutines start together; probes reaching fn = configured number.
func TestExactlyTheProbesPassAHalfOpenBreaker(t *testing.T) {
	for _, probes := range []int{1, 3, 10} {
		synctest.Test(t, func(t *testing.T) {
			b := watch(t, breaker.Settings{MinResults: 1, Probes: probes})
			b.trip(1)
			b.untilRetry()
			var mu sync.Mutex
			var passed, refused int
			var all sync.WaitGroup
			start := make(chan struct{})
			for range 100 {
				all.Go(func() {
					<-start
					p, err := b.Allow()
					mu.Lock()
					if err == nil {
						passed++
					} else {
						refused++
						if open, ok := errors.AsType[*breaker.OpenError](err); !ok || !open.RetryAt.IsZero() {
							t.Errorf("Allow() = %v, want an *OpenError without a time", err)
						}
					}
					mu.Unlock()
					if err == nil {
						time.Sleep(time.Second)
						p.Settle(breaker.Success)
					}
				})
			}
			close(start)
			all.Wait()
			if passed != probes || refused != 100-probes {
				t.Errorf("Probes %d: %d passed and %d were refused", probes, passed, refused)
			}
			b.is(breaker.Closed)
			if len(b.changes) != 3 {
				t.Errorf("changes: %v, want open, half-open, closed", b.changes)
			}
		})
	}
}

// B124: open -> half-open happens only when somebody asks, so dashboards show 'open' for hours, or a metrics scrape
// fires the transition event. Trip; wait past the timeout with no traffic; was OnStateChange called? Then read State()
// and look again.
func TestReadingTheStateChangesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := watch(t, quick)
		b.trip(1)
		retryAt := b.RetryAt()
		time.Sleep(time.Hour)
		for range 100 {
			b.is(breaker.Open)
			if got := b.RetryAt(); got != retryAt {
				t.Fatalf("RetryAt() = %v, want %v, which has passed", got, retryAt)
			}
		}
		if len(b.changes) != 1 {
			t.Fatalf("changes after reading: %v, want the opening only", b.changes)
		}
		p := b.allow() // takes the only place: reading has not taken it
		b.is(breaker.HalfOpen)
		for range 100 {
			b.is(breaker.HalfOpen)
		}
		if len(b.changes) != 2 {
			t.Errorf("changes after an Allow: %v, want two", b.changes)
		}
		p.Settle(breaker.Success)
		b.is(breaker.Closed)
	})
}

// B125: RoundTrip's error is nil for 5xx, so the breaker never opens. Always 500; after N calls the breaker is open;
// always 404: closed.
func TestItIsFedWithVerdicts(t *testing.T) {
	for code, want := range map[int]breaker.State{500: breaker.Open, 404: breaker.Closed} {
		synctest.Test(t, func(t *testing.T) {
			b := watch(t, breaker.Settings{})
			for range 20 {
				v, failed := classify.Status(code, nil, time.Now())
				if !failed {
					t.Fatalf("Status(%d) is no failure", code)
				}
				b.give(1, breaker.ResultOf(v))
			}
			b.is(want)
		})
	}
}

// B126: projects disagree on 429: counted as failure it opens the circuit for all keys; counted as success it resets the
// failure count during overload. Fail, 429, fail, 429, fail with 'trip after 3'; and 10 x 429 alone.
func TestA429IsNeitherGoodNorBad(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		v, _ := classify.Status(429, nil, time.Now())
		throttled := breaker.ResultOf(v)
		settings := breaker.Settings{MinResults: 3, FailureRatio: 1}

		b := watch(t, settings)
		for n := range 5 {
			b.is(breaker.Closed)
			b.give(1, []breaker.Result{breaker.Failure, throttled}[n%2])
		}
		b.is(breaker.Open)

		b = watch(t, settings)
		b.give(10, throttled)
		b.is(breaker.Closed)
		b.give(2, breaker.Failure)
		b.is(breaker.Closed)
		b.give(1, breaker.Failure)
		b.is(breaker.Open)
	})
}

// B128: breaker inside retry counts each attempt; outside, each call. Trip after 3; a single call with 5 attempts:
// closed or open? The unit here is one attempt, so the call finds it open at its fourth.
func TestTheUnitIsOneAttempt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := watch(t, breaker.Settings{MinResults: 3})
		sent := 0
		var err error
		for range 5 {
			var p breaker.Pass
			if p, err = b.Allow(); err != nil {
				break
			}
			sent++
			p.Settle(breaker.Failure)
		}
		if sent != 3 || !errors.Is(err, breaker.ErrOpen) {
			t.Errorf("%d attempts and %v, want 3 and then ErrOpen", sent, err)
		}
	})
}

// B131: the breaker sees finished calls only; hundreds of slow calls are already inside when the third one fails. Trip
// after 3; start 100 parallel calls which fail after 1 s: none is called back, but no new call passes after the trip,
// and the 97 results that come after it move nothing.
func TestABurstUnderWayPassesButNothingAfterTheTrip(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := watch(t, breaker.Settings{MinResults: 3})
		burst := make([]breaker.Pass, 100)
		for i := range burst {
			burst[i] = b.allow()
		}
		time.Sleep(time.Second)
		for i := range 3 {
			b.is(breaker.Closed)
			burst[i].Settle(breaker.Failure)
		}
		b.is(breaker.Open)
		retryAt := b.RetryAt()
		for i := range burst[3:] {
			b.refused()
			burst[3+i].Settle(breaker.Result(i % 2))
		}
		b.is(breaker.Open)
		if got := b.RetryAt(); got != retryAt || len(b.changes) != 1 {
			t.Errorf("RetryAt() = %v and %d changes after late results, want %v and 1", got, len(b.changes), retryAt)
		}
	})
}

func TestALateResultBelongsToThePast(t *testing.T) {
	for _, late := range []breaker.Result{breaker.Success, breaker.Failure, breaker.Excluded} {
		t.Run(late.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := watch(t, quick)
				old := make([]breaker.Pass, 4)
				for i := range old {
					old[i] = b.allow()
				}
				b.trip(1)
				retryAt := b.RetryAt()
				old[0].Settle(late)
				b.is(breaker.Open)

				// Nor does it matter when the time is over and nobody has probed yet.
				b.untilRetry()
				old[1].Settle(late)
				b.is(breaker.Open)
				if b.RetryAt() != retryAt {
					t.Errorf("RetryAt() was moved from %v to %v by a late result", retryAt, b.RetryAt())
				}

				p := b.allow()
				old[2].Settle(late)
				b.is(breaker.HalfOpen)
				b.refused() // the place is still taken by the probe
				p.Settle(breaker.Success)
				b.is(breaker.Closed)

				old[3].Settle(late) // a failure would open it
				b.is(breaker.Closed)
			})
		})
	}
}

func TestALateProbeBelongsToThePast(t *testing.T) {
	for _, late := range []breaker.Result{breaker.Success, breaker.Failure, breaker.Excluded} {
		t.Run(late.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := watch(t, breaker.Settings{MinResults: 1, Probes: 4})
				b.trip(1)
				b.untilRetry()
				old := []breaker.Pass{b.allow(), b.allow(), b.allow()}
				b.give(1, breaker.Failure)
				b.is(breaker.Open)
				old[0].Settle(late)
				b.is(breaker.Open)
				b.untilRetry()

				p := b.allow()
				old[1].Settle(late)
				b.is(breaker.HalfOpen)
				rest := []breaker.Pass{b.allow(), b.allow(), b.allow()}
				b.refused() // four places, none more for the late one
				p.Settle(breaker.Success)
				for i := range rest {
					b.is(breaker.HalfOpen)
					rest[i].Settle(breaker.Success)
				}
				b.is(breaker.Closed)

				old[2].Settle(late)
				b.is(breaker.Closed)
			})
		})
	}
}

func TestAPassIsSettledOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := watch(t, breaker.Settings{MinResults: 2, Probes: 2, OpenFor: time.Second})
		p := b.allow()
		for range 10 {
			p.Settle(breaker.Failure)
		}
		b.is(breaker.Closed)
		b.give(1, breaker.Failure)
		b.is(breaker.Open)

		b.untilRetry()
		p = b.allow()
		for range 10 {
			p.Settle(breaker.Success)
		}
		b.is(breaker.HalfOpen)
		p.Settle(breaker.Failure)
		b.is(breaker.HalfOpen)

		p = b.allow()
		p.Settle(breaker.Excluded)
		p.Settle(breaker.Excluded)
		p = b.allow()
		b.refused() // one place was given back, not two
		p.Settle(breaker.Success)
		b.is(breaker.Closed)
	})
}

func TestARefusalAndTheZeroPassHaveNothingToSettle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := watch(t, quick)
		b.trip(1)
		b.untilRetry()
		probe := b.allow()
		for _, r := range []breaker.Result{breaker.Success, breaker.Failure, breaker.Excluded} {
			p, err := b.Allow()
			if err == nil {
				t.Fatal("Allow() = nil with all places taken")
			}
			p.Settle(r)
			var zero breaker.Pass
			zero.Settle(r)
			b.is(breaker.HalfOpen)
		}
		b.refused()
		probe.Settle(breaker.Success)
		b.is(breaker.Closed)
	})
}

func TestDisabledPassesEverything(t *testing.T) {
	called := 0
	b, err := breaker.New("payments", breaker.Settings{MinResults: 1, Disabled: true}, func(breaker.Change) { called++ })
	if err != nil {
		t.Fatalf("New = %v", err)
	}
	for range 1000 {
		p, err := b.Allow()
		if err != nil {
			t.Fatalf("Allow() = %v, want nil", err)
		}
		p.Settle(breaker.Failure)
	}
	if b.State() != breaker.Closed || !b.RetryAt().IsZero() || called != 0 {
		t.Errorf("State() = %v, RetryAt() = %v, %d changes, want closed, the zero time and none", b.State(), b.RetryAt(), called)
	}
}

// B109: budget or open-period measured with civil time: a breaker stays open or opens too soon. Stored times must keep
// the monotonic reading (no Round(0), UnixMilli, JSON or UTC round trip before Sub). A test cannot step the clock of
// its machine, so the source is searched for what would lose the reading, and the time given out must have one.
func TestNoTimeLosesItsMonotonicReading(t *testing.T) {
	b := watch(t, breaker.Settings{MinResults: 1})
	b.trip(1)
	for name, at := range map[string]time.Time{
		"RetryAt()": b.RetryAt(), "OpenError.RetryAt": b.refused(), "Change.RetryAt": b.changes[0].RetryAt,
	} {
		if at == at.Round(0) {
			t.Errorf("%s = %v has no monotonic reading", name, at)
		}
	}
	files, err := filepath.Glob("*.go")
	if err != nil || len(files) == 0 {
		t.Fatalf("Glob = %v, %v", files, err)
	}
	for _, file := range files {
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		fset := token.NewFileSet()
		tree, err := parser.ParseFile(fset, file, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(tree, func(n ast.Node) bool {
			if s, ok := n.(*ast.SelectorExpr); ok {
				if x, ok := s.X.(*ast.Ident); ok && x.Name == "classify" { // it has an origin Local
					return true
				}
				switch s.Sel.Name {
				case "Round", "Truncate", "UTC", "Local", "In", "AddDate", "Unix", "UnixMilli", "UnixMicro", "UnixNano":
					t.Errorf("%s: %s loses the monotonic reading of a time", fset.Position(s.Pos()), s.Sel.Name)
				}
			}
			return true
		})
	}
}

func TestTheCostInAllocations(t *testing.T) {
	closed, err := breaker.New("closed", breaker.Settings{}, nil)
	if err != nil {
		t.Fatal(err)
	}
	disabled, err := breaker.New("disabled", breaker.Settings{Disabled: true}, nil)
	if err != nil {
		t.Fatal(err)
	}
	open, err := breaker.New("open", breaker.Settings{MinResults: 1, OpenFor: time.Hour}, nil)
	if err != nil {
		t.Fatal(err)
	}
	p, err := open.Allow()
	if err != nil {
		t.Fatal(err)
	}
	p.Settle(breaker.Failure)
	attempt := func(b *breaker.Breaker, r breaker.Result) {
		p, err := b.Allow()
		if err != nil {
			return
		}
		defer p.Settle(breaker.Failure)
		p.Settle(r)
	}
	for _, tt := range []struct {
		name string
		op   func()
		want float64
	}{
		{"a success", func() { attempt(closed, breaker.Success) }, 0},
		{"an excluded result", func() { attempt(closed, breaker.Excluded) }, 0},
		{"disabled", func() { attempt(disabled, breaker.Failure) }, 0},
		{"refused, which is the error", func() { attempt(open, breaker.Failure) }, 1},
		{"reading", func() { open.State(); open.RetryAt() }, 0},
	} {
		if got := testing.AllocsPerRun(1000, tt.op); got != tt.want {
			t.Errorf("%s: %v allocations, want %v", tt.name, got, tt.want)
		}
	}
}
