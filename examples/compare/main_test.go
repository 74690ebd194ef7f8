package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

func TestBadFlagsAreNamed(t *testing.T) {
	for _, tt := range []struct {
		args []string
		want string
	}{
		{[]string{"-rounds", "0"}, "-rounds is 0: allowed is 1 to 10000"},
		{[]string{"-time", "10s1ns"}, "-time is 10.000000001s: allowed is 1ms to 10s"},
		{[]string{"-path", "nothing"}, `-path is "nothing": allowed is a part of one of`},
		{[]string{"now"}, `["now"]: allowed are flags only`},
		{[]string{"-round", "1"}, "flag provided but not defined: -round"},
	} {
		var stdout, stderr bytes.Buffer
		status := run(t.Context(), tt.args, &stdout, &stderr)
		if status != 2 || stdout.Len() > 0 || !strings.Contains(stderr.String(), tt.want) {
			t.Errorf("run(%q) = %d with %q and %q, want 2 and %q", tt.args, status, &stdout, &stderr, tt.want)
		}
	}
}

func TestEveryPathIsInTheTable(t *testing.T) {
	var stdout, stderr bytes.Buffer
	if status := run(t.Context(), []string{"-rounds", "1", "-time", "1ms"}, &stdout, &stderr); status != 0 {
		t.Fatalf("run = %d with %s, want 0", status, &stderr)
	}
	rest := stdout.String()
	for line := range strings.Lines(rest) {
		if s := strings.TrimSuffix(line, "\n"); s != strings.TrimRight(s, " ") {
			t.Errorf("the line %q ends in blanks", s)
		}
	}
	if n := strings.Count(rest, "allowed  bounds\n"); n == 0 || n != strings.Count(rest, "  ratio  ") {
		t.Errorf("%d headings end in that of the verdicts, want all of them in\n%s", n, &stdout)
	}
	for _, name := range pathNames() {
		_, after, found := strings.Cut(rest, "\n"+name)
		if !found {
			t.Fatalf("no path %q, or not in its place, in\n%s", name, &stdout)
		}
		rest = after
		block, _, _ := strings.Cut(after, "\n\n")
		if lines := strings.Split(block, "\n"); !strings.HasPrefix(lines[1], "  "+sdk) || len(lines) < 3 {
			t.Errorf("block of %q is\n%s\nwant the SDK, then others", name, block)
		}
	}
}

func TestCheckPassesWhereTheBoundIsKept(t *testing.T) {
	var stdout, stderr bytes.Buffer
	status := run(t.Context(), []string{"-check", "-path", endingsName}, &stdout, &stderr)
	if status != 0 || !strings.Contains(stdout.String(), "kept") {
		t.Errorf("run(-check, %q) = %d with %q and %q, want 0 and a bound that is kept", endingsName, status, &stdout, &stderr)
	}
}

func TestRowsAreHeldAgainstTheirBounds(t *testing.T) {
	within := row{path: "p", ours: 80, beside: "b", theirs: 100, most: 0.8, allocs: 7, mostAllocs: 7}
	slow, greedy, unbounded := within, within, within
	slow.ours = 81
	greedy.allocs = 8
	unbounded.allocs, unbounded.mostAllocs = 8, notLookedAt
	for _, tt := range []struct {
		name string
		row  row
		kept bool
	}{
		{"within both", within, true},
		{"too slow", slow, false},
		{"too many allocations", greedy, false},
		{"allocations are not looked at", unbounded, true},
	} {
		var out bytes.Buffer
		table := newTable(&out)
		table.add(tt.row)
		kept, err := table.end()
		if kept != tt.kept || err != nil || strings.Contains(out.String(), "ABOVE") == tt.kept {
			t.Errorf("%s: kept is %v, %v, want %v, in\n%s", tt.name, kept, err, tt.kept, &out)
		}
	}
}

func TestProfilesAreWritten(t *testing.T) {
	cpu, alloc := filepath.Join(t.TempDir(), "cpu"), filepath.Join(t.TempDir(), "alloc")
	var stdout, stderr bytes.Buffer
	args := []string{"-rounds", "1", "-time", "1ms", "-path", "open breaker", "-cpuprofile", cpu, "-memprofile", alloc}
	if status := run(t.Context(), args, &stdout, &stderr); status != 0 {
		t.Fatalf("run(%q) = %d with %s, want 0", args, status, &stderr)
	}
	for _, name := range []string{cpu, alloc} {
		if info, err := os.Stat(name); err != nil || info.Size() == 0 {
			t.Errorf("profile %s: %v, %v, want a file that is not empty", name, info, err)
		}
	}
}

func TestMedian(t *testing.T) {
	for _, tt := range []struct {
		values []float64
		want   float64
	}{
		{nil, 0},
		{[]float64{3}, 3},
		{[]float64{9, 1, 2}, 2},
		{[]float64{4, 1, 100, 2}, 3},
	} {
		if got := median(slices.Clone(tt.values)); got != tt.want {
			t.Errorf("median(%v) = %v, want %v", tt.values, got, tt.want)
		}
	}
}

func TestContendersTakeTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var order strings.Builder
		taking := func(name string, d time.Duration) contender {
			return contender{name, func(n int) error {
				order.WriteString(name)
				time.Sleep(time.Duration(n) * d)
				return nil
			}}
		}
		got, err := interleaved(t.Context(), []contender{taking("a", time.Millisecond), taking("b", 2*time.Millisecond)}, 2, time.Millisecond)
		if err != nil || got[0].nanoseconds != 1e6 || got[1].nanoseconds != 2e6 {
			t.Errorf("interleaved = %v, %v, want 1e6 and 2e6 ns", got, err)
		}
		if want := "aabb" + "ab" + "ba"; order.String() != want {
			t.Errorf("the order was %q, want %q: calibrated, first round, second round", &order, want)
		}
	})
}

func TestLongCallsAreTimedOneByOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var order strings.Builder
		taking := func(name string, d time.Duration) contender {
			return contender{name, func(n int) error {
				fmt.Fprint(&order, name, n)
				time.Sleep(time.Duration(n) * d)
				return nil
			}}
		}
		got, err := oneByOne(t.Context(), []contender{taking("a", time.Millisecond), taking("b", 2*time.Millisecond)}, 1, 2*time.Millisecond)
		if err != nil || got[0].nanoseconds != 1e6 || got[1].nanoseconds != 2e6 {
			t.Errorf("oneByOne = %v, %v, want 1e6 and 2e6 ns", got, err)
		}
		if want := "a1a1a2a2" + "a40b40" + "a1b1" + "b1a1"; order.String() != want {
			t.Errorf("the order was %q, want %q: calibrated, allocations, two rounds", &order, want)
		}
	})
}

func TestContenderThatFailsIsNamed(t *testing.T) {
	bad := contender{"bad", func(int) error { return io.ErrUnexpectedEOF }}
	good := contender{"good", func(n int) error {
		time.Sleep(time.Duration(n) * time.Millisecond)
		return nil
	}}
	synctest.Test(t, func(t *testing.T) {
		for name, measured := range map[string]func(context.Context, []contender, int, time.Duration) ([]figures, error){
			"interleaved": interleaved, "oneByOne": oneByOne,
		} {
			_, err := measured(t.Context(), []contender{good, bad}, 1, time.Millisecond)
			if !errors.Is(err, io.ErrUnexpectedEOF) || err.Error() != "bad: unexpected EOF" {
				t.Errorf("%s with a contender that fails = %v, want its name and error", name, err)
			}
		}
	})
}

func TestMeasuringEndsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	var stdout, stderr bytes.Buffer
	if status := run(ctx, []string{"-path", "RoundTrip GET"}, &stdout, &stderr); status != 1 || !strings.Contains(stderr.String(), "context canceled") {
		t.Errorf("run with a context that has ended = %d with %q, want 1 and context canceled", status, &stderr)
	}
}

// Contenders that did less would be no comparison: each makes three attempts at
// a write that is turned away twice, with the same body and key.
func TestTransportsDoTheSame(t *testing.T) {
	const payload = "amount=100"
	names := []string{sdk, "hand-made", "go-retryablehttp, no limits, no breaker", "failsafe-go"}
	for i, name := range names {
		synctest.Test(t, func(t *testing.T) {
			var bodies, keys []string
			all, err := transports(roundTripFunc(func(req *http.Request) (*http.Response, error) {
				body, err := io.ReadAll(req.Body)
				if err != nil {
					return nil, err
				}
				req.Body.Close()
				bodies = append(bodies, string(body))
				for field, values := range req.Header {
					if strings.EqualFold(field, "Idempotency-Key") {
						keys = append(keys, values...)
					}
				}
				resp := &http.Response{StatusCode: http.StatusServiceUnavailable, Header: http.Header{}, Body: http.NoBody, Request: req}
				if len(bodies) == attempts {
					resp.StatusCode = http.StatusOK
				}
				return resp, nil
			}), true)
			if err != nil || all[i].name != name {
				t.Fatalf("transports: %v, %v, want %s in place %d", all, err, name, i)
			}
			req, err := request(t.Context(), "http://payments.test", []byte(payload))
			if err != nil {
				t.Fatal(err)
			}
			if err := exchange(all[i].RoundTrip, req); err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			if want := []string{payload, payload, payload}; !slices.Equal(bodies, want) {
				t.Errorf("%s sent the bodies %q, want %q", name, bodies, want)
			}
			if len(keys) != attempts || len(slices.Compact(slices.Clone(keys))) != 1 || len(keys[0]) != 36 {
				t.Errorf("%s sent the keys %q, want one UUID in three attempts", name, keys)
			}
		})
	}
}
