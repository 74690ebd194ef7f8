package breaker_test

import (
	"math/rand/v2"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/reintento/reintento/breaker"
)

func TestState(t *testing.T) {
	for s, want := range map[breaker.State]string{
		breaker.Closed: "closed", breaker.Open: "open", breaker.HalfOpen: "half-open", 9: "State(9)",
	} {
		if got := s.String(); got != want {
			t.Errorf("State(%d).String() = %q, want %q", uint8(s), got, want)
		}
	}
	var zero breaker.State
	if zero != breaker.Closed {
		t.Errorf("the zero State is %v, want closed", zero)
	}
}

func TestOnChangeMayBeNil(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, err := breaker.New("payments", quick, nil)
		if err != nil {
			t.Fatal(err)
		}
		for _, want := range []breaker.State{breaker.Open, breaker.HalfOpen, breaker.Closed} {
			if want == breaker.HalfOpen {
				time.Sleep(time.Until(b.RetryAt()))
			}
			p, err := b.Allow()
			if err != nil {
				t.Fatalf("Allow() = %v before %v", err, want)
			}
			if want == breaker.HalfOpen {
				p.Settle(breaker.Excluded)
			} else {
				p.Settle(breaker.Result(want)) // closed by a success, opened by a failure
			}
			if got := b.State(); got != want {
				t.Errorf("State() = %v, want %v", got, want)
			}
		}
	})
}

func TestOnChangeIsCalledInTheGoroutineThatCausedIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := watch(t, quick)
		for n, step := range []func(){
			func() { b.give(1, breaker.Failure) },
			func() { time.Sleep(time.Until(b.RetryAt())); p := b.allow(); p.Settle(breaker.Excluded) },
			func() { b.give(1, breaker.Success) },
		} {
			step()
			// Without synctest.Wait: it has been told when the call has returned.
			if len(b.changes) != n+1 {
				t.Fatalf("%d changes after step %d, want %d", len(b.changes), n+1, n+1)
			}
		}
	})
}

// gobreaker calls OnStateChange under its lock: whoever asks it for its state there hangs for ever. Ours may call
// everything, also from another goroutine that it waits for.
func TestOnChangeMayCallTheBreaker(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var b *breaker.Breaker
		var told []breaker.Change
		var stateThen []breaker.State
		b, err := breaker.New("payments", breaker.Settings{MinResults: 1, Probes: 2}, func(c breaker.Change) {
			told = append(told, c)
			stateThen = append(stateThen, b.State())
			if got := b.RetryAt(); got != c.RetryAt {
				t.Errorf("in %+v: RetryAt() = %v", c, got)
			}
			var asked sync.WaitGroup
			asked.Go(func() {
				p, err := b.Allow()
				if refused := err != nil; refused != (c.To == breaker.Open) {
					t.Errorf("in %+v: Allow() = %v", c, err)
				}
				p.Settle(breaker.Excluded)
			})
			asked.Wait()
		})
		if err != nil {
			t.Fatal(err)
		}
		p, _ := b.Allow()
		p.Settle(breaker.Failure)
		time.Sleep(time.Until(b.RetryAt()))
		for range 2 {
			p, err := b.Allow()
			if err != nil {
				t.Fatalf("Allow() = %v", err)
			}
			p.Settle(breaker.Success)
		}
		want := []breaker.State{breaker.Open, breaker.HalfOpen, breaker.Closed}
		if !slices.Equal(stateThen, want) || len(told) != 3 {
			t.Errorf("states in the callbacks %v, want %v", stateThen, want)
		}
	})
}

func TestChangesThatOnChangeCausesAreToldAfterIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var b *breaker.Breaker
		var log []string
		b, err := breaker.New("payments", quick, func(c breaker.Change) {
			log = append(log, "begin "+c.To.String())
			if c.To == breaker.HalfOpen {
				// The one place is that of the Allow which is telling.
				if _, err := b.Allow(); err == nil {
					t.Error("in the callback: a second probe passed")
				}
			}
			if c.To == breaker.Closed {
				p, err := b.Allow()
				if err != nil {
					t.Errorf("in the callback: Allow() = %v", err)
				}
				p.Settle(breaker.Failure)
				if b.State() != breaker.Open {
					t.Errorf("in the callback: State() = %v, want open", b.State())
				}
			}
			log = append(log, "end "+c.To.String())
		})
		if err != nil {
			t.Fatal(err)
		}
		p, _ := b.Allow()
		p.Settle(breaker.Failure)
		time.Sleep(time.Until(b.RetryAt()))
		p, err = b.Allow()
		if err != nil {
			t.Fatal(err)
		}
		p.Settle(breaker.Success)
		want := []string{
			"begin open", "end open", "begin half-open", "end half-open",
			"begin closed", "end closed", "begin open", "end open",
		}
		if !slices.Equal(log, want) {
			t.Errorf("told: %q, want %q", log, want)
		}
	})
}

func TestAPanicInOnChangePassesOnAndTakesNoPlace(t *testing.T) {
	for name, end := range map[string]func(){
		"panic":  func() { panic("boom") },
		"Goexit": func() { runtime.Goexit() },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var told []breaker.State
				var fail bool
				b, err := breaker.New("payments", quick, func(c breaker.Change) {
					told = append(told, c.To)
					if fail {
						end()
					}
				})
				if err != nil {
					t.Fatal(err)
				}
				// passesOn reports whether op did not return.
				passesOn := func(op func()) bool {
					ended := true
					var done sync.WaitGroup
					done.Go(func() {
						defer func() { _ = recover() }()
						op()
						ended = false
					})
					done.Wait()
					return ended
				}
				fail = true
				if !passesOn(func() { p, _ := b.Allow(); p.Settle(breaker.Failure) }) {
					t.Error("Settle returned, want the callback's end passed on")
				}
				if b.State() != breaker.Open {
					t.Fatalf("State() = %v, want open", b.State())
				}
				time.Sleep(time.Until(b.RetryAt()))
				if !passesOn(func() { _, _ = b.Allow() }) {
					t.Error("Allow returned, want the callback's end passed on")
				}
				if b.State() != breaker.HalfOpen {
					t.Fatalf("State() = %v, want half-open", b.State())
				}
				fail = false
				// The Pass of that Allow was never handed out: its place must be free.
				p, err := b.Allow()
				if err != nil {
					t.Fatalf("Allow() = %v after a callback that did not return", err)
				}
				p.Settle(breaker.Success)
				want := []breaker.State{breaker.Open, breaker.HalfOpen, breaker.Closed}
				if !slices.Equal(told, want) {
					t.Errorf("told: %v, want %v", told, want)
				}
			})
		})
	}
}

// While one goroutine is in the callback, others that cause changes do not wait for it; theirs are told after it, one at
// a time and in order.
func TestChangesAtTheSameTimeAreToldInOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var b *breaker.Breaker
		var told []breaker.Change
		var inside atomic.Int32
		release := make(chan struct{})
		b, err := breaker.New("payments", quick, func(c breaker.Change) {
			if inside.Add(1) != 1 {
				t.Error("two callbacks at a time")
			}
			defer inside.Add(-1)
			if len(told) == 0 {
				<-release
			}
			told = append(told, c)
		})
		if err != nil {
			t.Fatal(err)
		}
		var first sync.WaitGroup
		first.Go(func() { p, _ := b.Allow(); p.Settle(breaker.Failure) })
		synctest.Wait() // it stands in the callback
		for _, r := range []breaker.Result{breaker.Failure, breaker.Success} {
			time.Sleep(time.Until(b.RetryAt()))
			p, err := b.Allow()
			if err != nil {
				t.Fatalf("Allow() = %v while another goroutine is in the callback", err)
			}
			p.Settle(r)
		}
		close(release)
		first.Wait()
		inOrder(t, told)
		if len(told) != 5 {
			t.Errorf("%d changes told, want 5: %v", len(told), told)
		}
	})
}

// inOrder checks that each change begins where the last one ended, and that no step is an impossible one.
func inOrder(t *testing.T, told []breaker.Change) {
	t.Helper()
	state := breaker.Closed
	for i, c := range told {
		possible := map[breaker.State][]breaker.State{
			breaker.Closed:   {breaker.Open},
			breaker.Open:     {breaker.HalfOpen},
			breaker.HalfOpen: {breaker.Open, breaker.Closed},
		}[state]
		if c.From != state || !slices.Contains(possible, c.To) || c.RetryAt.IsZero() == (c.To == breaker.Open) {
			t.Fatalf("change %d of %d is %+v while %v", i+1, len(told), c, state)
		}
		state = c.To
	}
}

func TestManyGoroutinesAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const goroutines, attempts, probes = 64, 500, 3
		var told []breaker.Change
		b, err := breaker.New("payments", breaker.Settings{
			Window: 100 * time.Millisecond, MinResults: 5, OpenFor: time.Millisecond, MaxOpenFor: 4 * time.Millisecond, Probes: probes,
		}, func(c breaker.Change) { told = append(told, c) })
		if err != nil {
			t.Fatal(err)
		}
		var passed, refused atomic.Int64
		var all sync.WaitGroup
		for range goroutines {
			all.Go(func() {
				for range attempts {
					p, err := b.Allow()
					if err != nil {
						refused.Add(1)
						time.Sleep(rand.N(2 * time.Millisecond))
						continue
					}
					passed.Add(1)
					if rand.N(2) == 0 {
						time.Sleep(rand.N(time.Millisecond))
					}
					p.Settle(breaker.Result(rand.N(3)))
					b.State()
					b.RetryAt()
				}
			})
		}
		all.Wait()
		inOrder(t, told)
		if passed.Load() == 0 || refused.Load() == 0 || len(told) < 10 {
			t.Errorf("%d passed, %d refused, %d changes: want some of each", passed.Load(), refused.Load(), len(told))
		}
		// Nothing is stuck: with good results it closes.
		for range 100 {
			if b.State() == breaker.Open {
				time.Sleep(time.Until(b.RetryAt()))
			}
			p, err := b.Allow()
			if err != nil {
				t.Fatalf("Allow() = %v when nothing is under way; the state is %v", err, b.State())
			}
			p.Settle(breaker.Success)
		}
		if got := b.State(); got != breaker.Closed {
			t.Errorf("State() = %v after 100 successes, want closed", got)
		}
	})
}

// Nobody, one, and several can be told; nil counts as nobody.
func TestAnyNumberIsTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var order []string
		told := func(name string) func(breaker.Change) {
			return func(c breaker.Change) { order = append(order, name+" "+c.To.String()) }
		}
		s := breaker.Settings{MinResults: 1}
		for _, b := range []func() (*breaker.Breaker, error){
			func() (*breaker.Breaker, error) { return breaker.New("b", s) },
			func() (*breaker.Breaker, error) { return breaker.New("b", s, nil) },
			func() (*breaker.Breaker, error) { return breaker.New("b", s, told("first"), nil, told("second")) },
		} {
			b, err := b()
			require.NoError(t, err)
			pass, err := b.Allow()
			require.NoError(t, err)
			pass.Settle(breaker.Failure)
			require.Equal(t, breaker.Open, b.State())
		}
		require.Equal(t, []string{"first open", "second open"}, order)
	})
}
