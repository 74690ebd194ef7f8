package main

import (
	"context"
	"fmt"
	"math"
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
	err := inTurns(ctx, contenders, rounds, func(i int) error {
		elapsed, mallocs, err := once(contenders[i], sizes[i])
		times[i] = append(times[i], float64(elapsed)/float64(sizes[i]))
		allocs[i] = append(allocs[i], float64(mallocs)/float64(sizes[i]))
		return err
	})
	return medians(times, allocs), err
}

// oneByOne measures calls that are long enough to be timed each: nothing is then
// spread over a round. It takes as many as would fill the rounds.
func oneByOne(ctx context.Context, contenders []contender, rounds int, atLeast time.Duration) ([]figures, error) {
	n, err := calibrate(contenders[0], atLeast)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", contenders[0].name, err)
	}
	times, allocs := make([][]float64, len(contenders)), make([][]float64, len(contenders))
	for i, c := range contenders {
		many := 20 * n // what pools fill anew after a collection is spread over these
		_, mallocs, err := once(c, many)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", c.name, err)
		}
		allocs[i] = append(allocs[i], float64(mallocs)/float64(many))
	}
	err = inTurns(ctx, contenders, n*rounds, func(i int) error {
		start := time.Now()
		err := contenders[i].calls(1)
		times[i] = append(times[i], float64(time.Since(start)))
		return err
	})
	return medians(times, allocs), err
}

// inTurns lets each contender have its turn in every round.
func inTurns(ctx context.Context, contenders []contender, rounds int, turn func(i int) error) error {
	for round := range rounds {
		for k := range contenders {
			i := (round + k) % len(contenders)
			if err := ctx.Err(); err != nil {
				return err
			}
			if err := turn(i); err != nil {
				return fmt.Errorf("%s: %w", contenders[i].name, err)
			}
		}
	}
	return nil
}

func medians(times, allocs [][]float64) []figures {
	all := make([]figures, len(times))
	for i := range all {
		all[i] = figures{nanoseconds: median(times[i]), allocs: median(allocs[i])}
	}
	return all
}

// calibrate finds how many calls take at least so long, and warms up by it. What
// interrupts one of two runs is not taken for their length.
func calibrate(c contender, atLeast time.Duration) (n int, err error) {
	for n = 1; ; n *= 2 {
		elapsed := time.Duration(math.MaxInt64)
		for range 2 {
			start := time.Now()
			if err := c.calls(n); err != nil {
				return 0, err
			}
			elapsed = min(elapsed, time.Since(start))
		}
		if elapsed >= atLeast {
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

// median sorts the values. It is 0 if there are none.
func median(values []float64) float64 {
	if len(values) == 0 {
		return 0
	}
	slices.Sort(values)
	half := len(values) / 2
	if len(values)%2 == 1 {
		return values[half]
	}
	return (values[half-1] + values[half]) / 2
}
