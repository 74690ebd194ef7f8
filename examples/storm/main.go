// The SDK draws its jitter from the shared source of math/rand, which only this
// setting lets a program seed.
//
//go:debug randseednop=0

// Storm simulates a fleet of processes that all call one service while it is in
// trouble, under a policy that a team wants to try before it ships. It runs the
// SDK itself, in virtual time, beside a control without budget.
//
//	go run ./examples/storm [-policy FILE [-destination NAME]] [-processes 500] [-rate 10] [-seed 1] [-out storm.html]
//
// It prints a table and writes a page with the curves. The same seed gives the
// same page.
package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"

	"github.com/reintento/reintento/retry"
)

func main() { os.Exit(run(os.Args[1:], os.Stdout, os.Stderr)) }

// options are what was asked for.
type options struct {
	policy    retry.Policy
	source    string // of the policy, in words
	processes int
	rate      float64
	seed      int64
	out       string
	one       string
}

// run returns the exit status: 0, 1 if something failed, 2 for bad flags.
func run(args []string, stdout, stderr io.Writer) int {
	var o options
	flags := flag.NewFlagSet("storm", flag.ContinueOnError)
	flags.SetOutput(stderr)
	file := flags.String("policy", "", "an organization's policy `file`; empty: the default policy")
	destination := flags.String("destination", "", "the `name` in that file; empty: its default policy")
	flags.IntVar(&o.processes, "processes", 500, "how many processes the fleet has, 1 to 5000")
	flags.Float64Var(&o.rate, "rate", 10, "how many `calls` each process makes a second, 0.1 to 100")
	flags.Int64Var(&o.seed, "seed", 1, "what all chance comes from")
	flags.StringVar(&o.out, "out", "storm.html", "where the page goes; - for nowhere")
	flags.StringVar(&o.one, "one", "", "simulate only this `scenario, policy` and print its counts as JSON")
	if err := flags.Parse(args); errors.Is(err, flag.ErrHelp) {
		return 0
	} else if err != nil {
		return 2
	}
	_, known := planned(o.one)
	var err error
	switch {
	case flags.NArg() > 0:
		err = fmt.Errorf("%q: allowed are flags only", flags.Args())
	case o.processes < 1 || o.processes > 5000:
		err = fmt.Errorf("-processes is %d: allowed is 1 to 5000", o.processes)
	case !(o.rate >= 0.1 && o.rate <= 100):
		err = fmt.Errorf("-rate is %v: allowed is 0.1 to 100", o.rate)
	case o.one != "" && !known:
		err = fmt.Errorf("-one is %q: allowed is one of%s", o.one, names())
	case *destination != "" && *file == "":
		err = fmt.Errorf("-destination is %q: allowed with -policy", *destination)
	}
	if err != nil {
		fmt.Fprintln(stderr, "storm:", err)
		return 2
	}
	if o.policy, o.source, err = readPolicy(*file, *destination); err == nil {
		if o.one != "" {
			return inBubble(o, stdout, stderr)
		}
		err = o.storm(args, stdout, stderr)
	}
	if err != nil {
		fmt.Fprintln(stderr, "storm:", err)
		return 1
	}
	return 0
}

// storm simulates everything, prints the table and writes the page.
func (o options) storm(args []string, stdout, stderr io.Writer) (err error) {
	page := io.Discard
	if o.out != "-" {
		f, err := os.Create(o.out) // now: a simulation takes a while
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, f.Close()) }()
		page = f
	}
	results, err := simulateAll(args, stderr)
	if err != nil {
		return err
	}
	writeTable(stdout, results, o)
	if err := writePage(page, results, o); err != nil {
		return err
	}
	if o.out != "-" {
		fmt.Fprintln(stdout, "\ncurves:", o.out)
	}
	return nil
}

func names() string {
	var b strings.Builder
	for _, r := range plan() {
		fmt.Fprintf(&b, "\n  %q", r.name())
	}
	return b.String()
}

// readPolicy returns the policy that the simulation is about, and what it is.
func readPolicy(file, destination string) (p retry.Policy, source string, err error) {
	if file == "" {
		return p, "the default policy", nil
	}
	f, err := os.Open(file)
	if err != nil {
		return p, "", err
	}
	defer f.Close()
	o, err := retry.ReadOrganization(f)
	if err != nil {
		return p, "", fmt.Errorf("%s: %w", file, err)
	}
	if destination == "" {
		return o.Default, "the default of " + file, nil
	}
	p, ok := o.Destinations[destination]
	if !ok {
		return p, "", fmt.Errorf("-destination is %q: allowed is one of %q, which %s names", destination, slices.Sorted(maps.Keys(o.Destinations)), file)
	}
	return p, destination + " in " + file, nil
}
