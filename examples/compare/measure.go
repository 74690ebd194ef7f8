package main

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"time"
)

// contender is one way to make a call.
type contender struct {
	name  string
	calls func(n int) error // makes n of them, and fails if one does not end as it should
}

// figures are the medians of a contender.
type figures struct {
	nanoseconds float64 // of one call
	allocs      float64 // made by one call, by the whole process
}

// interleaved measures contenders in turns, so that what else the machine does
// meets each of them alike. Every round begins with the next one.
func interleaved(ctx context.Context, contenders []contender, rounds int, atLeast time.Duration) ([]figures, error) {
	sizes := make([]int, len(contenders))
	for i, c := range contenders {
		n, err := calibrate(c, atLeast)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", c.name, err)
		}
		sizes[i] = n
	}
	times, allocs := make([][]float64, len(contenders)), make([][]float64, len(contenders))
	for round := range rounds {
		for turn := range contenders {
			i := (round + turn) % len(contenders)
			if err := ctx.Err(); err != nil {
				return nil, err
			}
			elapsed, mallocs, err := once(contenders[i], sizes[i])
			if err != nil {
				return nil, fmt.Errorf("%s: %w", contenders[i].name, err)
			}
			n := float64(sizes[i])
			times[i] = append(times[i], float64(elapsed)/n)
			allocs[i] = append(allocs[i], float64(mallocs)/n)
		}
	}
	all := make([]figures, len(contenders))
	for i := range contenders {
		all[i] = figures{nanoseconds: median(times[i]), allocs: median(allocs[i])}
	}
	return all, nil
}

// calibrate finds how many calls take at least so long, and warms up by it.
func calibrate(c contender, atLeast time.Duration) (n int, err error) {
	for n = 1; ; n *= 2 {
		start := time.Now()
		if err := c.calls(n); err != nil {
			return 0, err
		}
		if elapsed := time.Since(start); elapsed >= atLeast {
			return max(1, int(float64(n)*float64(atLeast)/float64(elapsed))), nil
		}
	}
}

// once measures n calls. The garbage of whoever came before is gone by then.
func once(c contender, n int) (elapsed time.Duration, mallocs uint64, err error) {
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	start := time.Now()
	err = c.calls(n)
	elapsed = time.Since(start)
	runtime.ReadMemStats(&after)
	return elapsed, after.Mallocs - before.Mallocs, err
}

// median requires that there is a value. It sorts them.
func median(values []float64) float64 {
	slices.Sort(values)
	half := len(values) / 2
	if len(values)%2 == 1 {
		return values[half]
	}
	return (values[half-1] + values[half]) / 2
}
