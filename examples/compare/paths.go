package main

import (
	"context"
	"math"
	"slices"
	"strings"
	"time"
)

// path is one line of the table: something that callers do, and what it may cost.
type path struct {
	name    string
	against string  // the contender that the SDK stands beside
	most    float64 // how much of its time the SDK may take
	allocs  float64 // how many allocations a call may make; negative: not looked at
	base    string  // the contender whose allocations do not count; empty: none
	long    bool    // whether one call is long enough to be timed by itself

	// contenders returns all of them, the SDK first, and what stops them.
	contenders func(ctx context.Context) (all []contender, stop func(), err error)
}

const notLookedAt = -1

// sdk is the name of the contender that this is about.
const sdk = "reintento"

func paths() []path {
	return []path{
		{name: "retry.Do, success, limits off", against: "sethvargo", most: 1, allocs: 1, contenders: plainCalls},
		{name: "retry.Do, success, whole policy", against: "hand-made", most: 0.45, allocs: 7, contenders: wholeCalls},
		{name: "retry.Do, two failures, 1 µs waits", against: "hand-made", most: 0.7, allocs: 20, long: true, contenders: failingCalls},
		{name: "retry.Do, open breaker, whole policy", against: "gobreaker", most: 4, allocs: 3, contenders: refusedCalls},
		{name: "RoundTrip GET over a stub", against: "hand-made", most: 0.8, allocs: 13, base: "the stub", contenders: stubbedGets},
		{name: "RoundTrip keyed POST 1 KiB over a stub", against: "hand-made", most: 0.95, allocs: 20, base: "the stub", contenders: stubbedPosts},
		{name: "loopback keep-alive GET", against: "net/http", most: 1.08, allocs: notLookedAt, base: "net/http", long: true, contenders: loopbackGets},
		{name: "loopback keep-alive POST 1 KiB", against: "net/http", most: 1.15, allocs: notLookedAt, base: "net/http", long: true, contenders: loopbackPosts},
		{name: "one destination, 8 goroutines a core", against: "1 a core", most: 1.5, allocs: notLookedAt, contenders: parallelCalls},
	}
}

// pathNames returns what -path can choose from.
func pathNames() []string {
	var names []string
	for _, p := range paths() {
		names = append(names, p.name)
	}
	return append(names, endingsName)
}

// anyPath reports whether a path has the text in its name.
func anyPath(text string) bool {
	return slices.ContainsFunc(pathNames(), func(name string) bool { return strings.Contains(name, text) })
}

// measure measures a path and enters it in the table.
func (p path) measure(ctx context.Context, o options, t *table) error {
	all, stop, err := p.contenders(ctx)
	if err != nil {
		return err
	}
	defer stop()
	measured := interleaved
	if p.long {
		measured = oneByOne
	}
	got, err := measured(ctx, all, o.rounds, o.time)
	if err != nil {
		return err
	}
	index := func(name string) int {
		return slices.IndexFunc(all, func(c contender) bool { return c.name == name })
	}
	baseline := 0.0
	if p.base != "" {
		baseline = got[index(p.base)].allocs
	}
	ours, theirs := got[0], got[index(p.against)]
	t.add(row{
		path: p.name, ours: ours.nanoseconds, beside: p.against, theirs: theirs.nanoseconds, most: p.most,
		allocs: math.Round(ours.allocs - baseline), mostAllocs: p.allocs, above: p.base,
	})
	for i, c := range all[1:] {
		t.other(c.name, got[i+1].nanoseconds, math.Round(got[i+1].allocs-baseline))
	}
	return t.flush()
}

// alone runs only the SDK, for the profiles.
func (p path) alone(ctx context.Context, o options) error {
	all, stop, err := p.contenders(ctx)
	if err != nil {
		return err
	}
	defer stop()
	n, err := calibrate(all[0], o.time)
	if err != nil {
		return err
	}
	for range o.rounds {
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := all[0].calls(n); err != nil {
			return err
		}
	}
	return nil
}

// The default policy's numbers, for those who stand beside it.
const (
	attempts       = 3
	baseDelay      = 100 * time.Millisecond
	maxDelay       = 5 * time.Second
	deadline       = 30 * time.Second
	attemptTimeout = 10 * time.Second
)
