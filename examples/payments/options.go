package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// The clients that can make the payments.
const (
	clientSDK       = "sdk"
	clientUntrusted = "untrusted"
	clientNaive     = "naive"
)

type options struct {
	n, workers           int
	seed                 uint64
	cut, reset, throttle float64
	outage               time.Duration
	db                   string
	json                 bool
	client               string
}

// parseOptions reads the flags. Help goes to stdout, and flag.ErrHelp is
// returned; every other error names all flags that are wrong.
func parseOptions(args []string, stdout io.Writer) (options, error) {
	var o options
	f := flag.NewFlagSet("payments", flag.ContinueOnError)
	f.SetOutput(io.Discard)
	f.IntVar(&o.n, "n", 60, "payments to make, 1 to 10000")
	f.IntVar(&o.workers, "workers", 8, "goroutines that make them, 1 to 256")
	f.Uint64Var(&o.seed, "seed", 1, "seed of the faults and amounts; 0 draws one")
	f.Float64Var(&o.cut, "cut", 0.2, "share of requests whose connection is cut after processing, before the answer")
	f.Float64Var(&o.reset, "reset", 0.05, "share of requests that are reset during the upload")
	f.Float64Var(&o.throttle, "throttle", 0.1, "share of requests that the server turns away with 429 or 503")
	f.DurationVar(&o.outage, "outage", 1500*time.Millisecond, "how long the server is down after a third of the payments; 0 for never, at most 1m")
	f.StringVar(&o.db, "db", "", "SQLite file to pay into and keep (default a temporary one)")
	f.BoolVar(&o.json, "json", false, "print the audit as one JSON object")
	f.StringVar(&o.client, "client", clientSDK, "sdk: the keys are trusted; untrusted: they are not; naive: a plain loop without keys")
	if err := f.Parse(args); err != nil {
		if errors.Is(err, flag.ErrHelp) {
			fmt.Fprintln(stdout, "Usage: payments [flags]")
			f.SetOutput(stdout)
			f.PrintDefaults()
		}
		return options{}, err
	}

	var problems []error
	bad := func(name string, value any, allowed string) {
		problems = append(problems, fmt.Errorf("-%s: %v: want %s", name, value, allowed))
	}
	if f.NArg() > 0 {
		problems = append(problems, fmt.Errorf("%q: want flags only", strings.Join(f.Args(), " ")))
	}
	if o.n < 1 || o.n > 10_000 {
		bad("n", o.n, "1 to 10000")
	}
	if o.workers < 1 || o.workers > 256 {
		bad("workers", o.workers, "1 to 256")
	}
	share := func(name string, v float64) bool {
		ok := v >= 0 && v <= 1 // so NaN is none
		if !ok {
			bad(name, v, "a share from 0 to 1")
		}
		return ok
	}
	cutOK, resetOK := share("cut", o.cut), share("reset", o.reset)
	if cutOK && resetOK && o.cut+o.reset > 1 {
		bad("cut and -reset", o.cut+o.reset, "at most 1 together")
	}
	share("throttle", o.throttle)
	if o.outage < 0 || o.outage > time.Minute {
		bad("outage", o.outage, "0 to 1m")
	}
	if clients := []string{clientSDK, clientUntrusted, clientNaive}; !slices.Contains(clients, o.client) {
		bad("client", fmt.Sprintf("%q", o.client), strings.Join(clients, ", "))
	}
	for o.seed == 0 {
		o.seed = rand.Uint64()
	}
	return o, errors.Join(problems...)
}

// database returns the path of the file to use and what removes it at the end,
// if it is ours to remove.
func database(path string) (string, func(), error) {
	if path != "" {
		return path, func() {}, nil
	}
	dir, err := os.MkdirTemp("", "payments-")
	if err != nil {
		return "", nil, err
	}
	// The file has two more beside it: -wal and -shm.
	return filepath.Join(dir, "payments.db"), func() { _ = os.RemoveAll(dir) }, nil
}
