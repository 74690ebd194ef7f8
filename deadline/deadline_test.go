package deadline_test

import (
	"context"
	"go/ast"
	"go/parser"
	"go/token"
	"math"
	"math/big"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/reintento/reintento/deadline"
)

// until returns a context that ends in d, and is released with the test.
func until(t testing.TB, d time.Duration) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), d)
	t.Cleanup(cancel)
	return ctx
}

// stuck is a context that keeps its deadline but never ends, as one whose timer has not been run yet.
type stuck struct {
	context.Context
	end time.Time
}

func (s stuck) Deadline() (time.Time, bool) { return s.end, true }

func TestRemaining(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, tt := range []struct {
			name   string
			ctx    context.Context
			wantD  time.Duration
			wantOK bool
		}{
			{"no deadline", t.Context(), 0, false},
			{"a deadline ahead", until(t, 1250*time.Millisecond), 1250 * time.Millisecond, true},
			{"the nearer of two", func() context.Context {
				ctx, cancel := context.WithTimeout(until(t, time.Second), time.Minute)
				t.Cleanup(cancel)
				return ctx
			}(), time.Second, true},
			{"a value does not hide it", context.WithValue(until(t, time.Second), t, 1), time.Second, true},

			{"a deadline that is now", stuck{t.Context(), time.Now()}, 0, true},
			{"a deadline that was made in the past", until(t, -time.Hour), 0, true},
			{"further past than a Duration holds", stuck{t.Context(), time.Time{}.Add(time.Second)}, 0, true},
			{"further ahead than a Duration holds", stuck{t.Context(), time.Date(9999, 1, 1, 0, 0, 0, 0, time.UTC)}, math.MaxInt64, true},
		} {
			if d, ok := deadline.Remaining(tt.ctx); d != tt.wantD || ok != tt.wantOK {
				t.Errorf("%s: Remaining = %v, %v, want %v, %v", tt.name, d, ok, tt.wantD, tt.wantOK)
			}
		}
	})
}

func TestRemainingShrinksWithTimeAndStaysAtZero(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx := until(t, time.Second)
		for _, want := range []time.Duration{1000, 600, 200, 0, 0} {
			if d, ok := deadline.Remaining(ctx); d != want*time.Millisecond || !ok {
				t.Errorf("Remaining = %v, %v, want %v, true", d, ok, want*time.Millisecond)
			}
			time.Sleep(400 * time.Millisecond)
		}
	})
}

func TestRemainingOfACancelledContextIsThatOfItsDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		cancel()
		if d, ok := deadline.Remaining(ctx); d != time.Second || !ok {
			t.Errorf("Remaining(cancelled) = %v, %v, want 1s, true", d, ok)
		}
	})
}

// B109: budget or open-period measured with civil time: a clock step ends retries at once or stretches 1 s to minutes.
// Stored times must keep the monotonic reading (no Round(0), UnixMilli, JSON or UTC round trip before Sub). A test
// cannot step the clock of its machine, so the source is searched for what would lose the reading.
func TestNoTimeLosesItsMonotonicReading(t *testing.T) {
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
				switch s.Sel.Name {
				case "Round", "Truncate", "UTC", "Local", "In", "AddDate", "Unix", "UnixMilli", "UnixMicro", "UnixNano":
					t.Errorf("%s: %s loses the monotonic reading of a time", fset.Position(s.Pos()), s.Sel.Name)
				}
			}
			return true
		})
	}
}

func TestFits(t *testing.T) {
	const (
		ms  = time.Millisecond
		all = time.Duration(math.MaxInt64)
	)
	synctest.Test(t, func(t *testing.T) {
		second := until(t, time.Second)
		past := until(t, -time.Second)
		far := stuck{t.Context(), time.Date(9999, 1, 1, 0, 0, 0, 0, time.UTC)}
		for _, tt := range []struct {
			name       string
			ctx        context.Context
			wait, need time.Duration
			want       bool
		}{
			{"no deadline", t.Context(), time.Hour, time.Hour, true},
			{"no deadline and no end of waiting", t.Context(), all, all, true},

			{"both short", second, 400 * ms, 400 * ms, true},
			{"nothing to wait for, nothing to do", second, 0, 0, true},
			{"a nanosecond before the deadline", second, 400 * ms, 600*ms - 1, true},
			{"exactly at the deadline", second, 400 * ms, 600 * ms, false},
			{"the wait alone ends at the deadline", second, time.Second, 0, false},
			{"the wait alone ends before it", second, time.Second - 1, 0, true},
			{"the work alone ends at the deadline", second, 0, time.Second, false},
			{"the work does not fit behind the wait", second, 900 * ms, 200 * ms, false},

			{"a negative wait is none", second, -time.Hour, 999 * ms, true},
			{"a negative wait makes no room", second, -time.Hour, time.Second, false},
			{"a negative need is none", second, 999 * ms, -time.Hour, true},
			{"a negative need makes no room", second, time.Second, -time.Hour, false},
			{"the most negative values", second, math.MinInt64, math.MinInt64, true},

			{"a sum that overflows", second, all, all, false},
			{"a sum that overflows by one", second, all, 1, false},
			{"a sum that overflows, most of time left", far, all - 1, 1, false},
			{"a sum as long as the rest", far, all - 2, 1, true},

			{"after the deadline", past, 0, 0, false},
			{"after the deadline, negative", past, -time.Hour, -time.Hour, false},
			{"in the moment of the deadline", stuck{t.Context(), time.Now()}, 0, 0, false},
		} {
			if got := deadline.Fits(tt.ctx, tt.wait, tt.need); got != tt.want {
				t.Errorf("%s: Fits(%v, %v) = %v, want %v", tt.name, tt.wait, tt.need, got, tt.want)
			}
		}
	})
}

func FuzzFits(f *testing.F) {
	f.Add(int64(time.Second), int64(400*time.Millisecond), int64(600*time.Millisecond))
	f.Add(int64(time.Second), int64(math.MaxInt64), int64(math.MaxInt64))
	f.Add(int64(-1), int64(math.MinInt64), int64(0))
	f.Fuzz(func(t *testing.T, left, wait, need int64) {
		synctest.Test(t, func(t *testing.T) {
			ctx := stuck{t.Context(), time.Now().Add(time.Duration(left))}
			rest, _ := deadline.Remaining(ctx)
			if want := time.Until(ctx.end); rest != max(want, 0) {
				t.Errorf("Remaining = %v with %v left", rest, want)
			}
			sum := new(big.Int).Add(big.NewInt(max(wait, 0)), big.NewInt(max(need, 0)))
			want := sum.Cmp(big.NewInt(int64(rest))) < 0
			if got := deadline.Fits(ctx, time.Duration(wait), time.Duration(need)); got != want {
				t.Errorf("Fits(%v, %v) = %v with %v left, want %v", time.Duration(wait), time.Duration(need), got, rest, want)
			}
		})
	})
}

func TestAskingForTimeAllocatesNothing(t *testing.T) {
	ctx := until(t, time.Hour)
	for name, ask := range map[string]func(){
		"Remaining":               func() { deadline.Remaining(ctx) },
		"Fits":                    func() { deadline.Fits(ctx, time.Second, time.Second) },
		"Fits without a deadline": func() { deadline.Fits(t.Context(), time.Second, time.Second) },
	} {
		if n := testing.AllocsPerRun(1000, ask); n != 0 {
			t.Errorf("%s allocates %v times, want 0", name, n)
		}
	}
}

func BenchmarkRemaining(b *testing.B) {
	ctx := until(b, time.Hour)
	b.ReportAllocs()
	for b.Loop() {
		deadline.Remaining(ctx)
	}
}

func BenchmarkFits(b *testing.B) {
	ctx := until(b, time.Hour)
	b.ReportAllocs()
	for b.Loop() {
		deadline.Fits(ctx, time.Second, time.Second)
	}
}
