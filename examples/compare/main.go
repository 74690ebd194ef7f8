// Compare measures what a call through the SDK costs beside other ways to make
// it, all in one run, and prints a table with the bounds that the SDK keeps.
//
//	go run ./examples/compare [-rounds 200] [-time 2ms] [-path TEXT] [-check]
//
// It is a module of its own, so that what it compares with stays out of the
// SDK's. A bound is on a ratio of medians of short rounds, most of which nothing
// interrupts, so it says the same on a machine that has other things to do. What
// the garbage collector does meanwhile falls out of a median: the allocations
// are bounded by themselves. With -check the exit status is 1 if a bound is
// not kept; bad flags give 2. A profile of one path comes from -cpuprofile and
// -memprofile.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime"
	"runtime/pprof"
	"strings"
	"time"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	os.Exit(run(ctx, os.Args[1:], os.Stdout, os.Stderr))
}

// options are what was asked for.
type options struct {
	rounds     int
	time       time.Duration
	path       string
	check      bool
	cpu, alloc string
}

// run returns the exit status.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	var o options
	flags := flag.NewFlagSet("compare", flag.ContinueOnError)
	flags.SetOutput(stderr)
	flags.IntVar(&o.rounds, "rounds", 200, "how often each contender is measured, 1 to 10000; the median counts")
	flags.DurationVar(&o.time, "time", 2*time.Millisecond, "how long one contender is measured in one round, 1ms to 10s; short rounds are seldom interrupted")
	flags.StringVar(&o.path, "path", "", "measure only the paths with this `text` in their name")
	flags.BoolVar(&o.check, "check", false, "exit with status 1 if a bound is not kept")
	flags.StringVar(&o.cpu, "cpuprofile", "", "write a CPU profile of the SDK's share to this `file`")
	flags.StringVar(&o.alloc, "memprofile", "", "write a profile of the SDK's allocations to this `file`")
	if err := flags.Parse(args); errors.Is(err, flag.ErrHelp) {
		return 0
	} else if err != nil {
		return 2
	}
	if err := o.problem(flags.Args()); err != nil {
		fmt.Fprintln(stderr, "compare:", err)
		return 2
	}
	kept, err := o.compare(ctx, stdout)
	switch {
	case err != nil:
		fmt.Fprintln(stderr, "compare:", err)
		return 1
	case o.check && !kept:
		fmt.Fprintln(stderr, "compare: a bound is not kept")
		return 1
	}
	return 0
}

// problem returns what is wrong with the flags.
func (o options) problem(rest []string) error {
	switch {
	case len(rest) > 0:
		return fmt.Errorf("%q: allowed are flags only", rest)
	case o.rounds < 1 || o.rounds > 10_000:
		return fmt.Errorf("-rounds is %d: allowed is 1 to 10000", o.rounds)
	case o.time < time.Millisecond || o.time > 10*time.Second:
		return fmt.Errorf("-time is %v: allowed is 1ms to 10s", o.time)
	case !anyPath(o.path):
		return fmt.Errorf("-path is %q: allowed is a part of one of\n  %s", o.path, strings.Join(pathNames(), "\n  "))
	}
	return nil
}

// compare measures, prints, and says whether every bound was kept.
func (o options) compare(ctx context.Context, w io.Writer) (kept bool, err error) {
	if o.cpu != "" || o.alloc != "" {
		return true, o.profile(ctx)
	}
	fmt.Fprintf(w, "%s, %d cores; medians of %d rounds of %v\n"+
		"times and ratios count on a machine that has nothing else to do; allocations count everywhere\n", runtime.Version(), runtime.GOMAXPROCS(0), o.rounds, o.time)
	t := newTable(w)
	for _, p := range paths() {
		if !strings.Contains(p.name, o.path) {
			continue
		}
		if err := p.measure(ctx, o, t); err != nil {
			return false, fmt.Errorf("%s: %w", p.name, err)
		}
	}
	if strings.Contains(endingsName, o.path) {
		if err := endings(ctx, t); err != nil {
			return false, fmt.Errorf("%s: %w", endingsName, err)
		}
	}
	return t.end()
}

// profile runs the SDK's contender of each path that was asked for, alone.
func (o options) profile(ctx context.Context) (err error) {
	if o.alloc != "" {
		runtime.MemProfileRate = 1 // every allocation from here on
	}
	if o.cpu != "" {
		f, err := os.Create(o.cpu)
		if err != nil {
			return err
		}
		defer f.Close()
		if err := pprof.StartCPUProfile(f); err != nil {
			return err
		}
		defer pprof.StopCPUProfile()
	}
	for _, p := range paths() {
		if strings.Contains(p.name, o.path) {
			if err := p.alone(ctx, o); err != nil {
				return fmt.Errorf("%s: %w", p.name, err)
			}
		}
	}
	if o.alloc == "" {
		return nil
	}
	f, err := os.Create(o.alloc)
	if err != nil {
		return err
	}
	return errors.Join(pprof.Lookup("allocs").WriteTo(f, 0), f.Close())
}
