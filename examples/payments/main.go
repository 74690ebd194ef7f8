// Payments is the SDK's job in one program: N payments from several goroutines
// to a payment API with a real database, over a network that loses answers,
// and at the end an audit of who was charged how often and who was told what.
//
//	go run ./examples/payments                     the SDK, the API honours its keys
//	go run ./examples/payments -client=untrusted   the SDK, nobody said that it does
//	go run ./examples/payments -client=naive       a plain loop around net/http
//
// The exit status is 0 if every payment was charged at most once and every
// caller was told the truth (that he cannot know is a truth), 1 if not, 2 for
// bad flags, and 3 if the program itself could not go on.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"sync"
	"syscall"
	"time"

	"github.com/reintento/reintento/examples/payments/bank"
)

const (
	exitTrue     = 0
	exitUntrue   = 1
	exitBadFlags = 2
	exitFailed   = 3
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second signal ends the program at once
	os.Exit(run(ctx, os.Args[1:], os.Stdout, os.Stderr))
}

// run is the program. When ctx ends it stops paying and audits what there is.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	o, err := parseOptions(args, stdout)
	if errors.Is(err, flag.ErrHelp) {
		return exitTrue
	}
	if err != nil {
		fmt.Fprintf(stderr, "payments: %v\nRun with -h for the flags.\n", err)
		return exitBadFlags
	}
	path, remove, err := database(o.db)
	if err != nil {
		fmt.Fprintf(stderr, "payments: %v\n", err)
		return exitFailed
	}
	defer remove()

	start := time.Now()
	log := newProgress(stderr, o.n, start)
	sys, err := startSystem(path, o, log)
	if err != nil {
		fmt.Fprintf(stderr, "payments: %v\n", err)
		if errors.Is(err, errDatabase) && o.db != "" {
			return exitBadFlags
		}
		return exitFailed
	}
	payer, err := newPayer(o, sys.network.Addr(), log)
	if err != nil {
		fmt.Fprintf(stderr, "payments: %v\n", errors.Join(err, sys.stop()))
		return exitFailed
	}
	log.begin(o)
	intentions := plan(o)
	results := payAll(ctx, payer, intentions, o.workers, log)
	log.end(ctx.Err() != nil)
	failed := sys.stop()

	// Nothing runs any more that could still charge: now the books are true.
	rows, err := charges(path, intentions)
	if failed = errors.Join(failed, err); failed != nil {
		fmt.Fprintf(stderr, "payments: %v\n", failed)
		return exitFailed
	}
	a := newAudit(intentions, results, rows)
	a.BreakerOpened = log.breakerOpenings()
	a.ElapsedMS = time.Since(start).Milliseconds()
	if o.json {
		err = a.writeJSON(stdout)
	} else {
		err = a.writeTable(stdout, o, sys, ctx.Err() != nil)
	}
	if err != nil {
		fmt.Fprintf(stderr, "payments: %v\n", err)
		return exitFailed
	}
	if !a.true() {
		return exitUntrue
	}
	return exitTrue
}

// payAll makes the payments with so many workers and returns what each caller
// was told. When ctx ends, payments that were not begun are left alone.
func payAll(ctx context.Context, p payer, intentions []bank.Payment, workers int, log *progress) []result {
	results := make([]result, len(intentions))
	next := make(chan int)
	var wg sync.WaitGroup
	for range workers {
		wg.Go(func() {
			for i := range next {
				results[i] = p.pay(ctx, intentions[i])
				results[i].begun = true
				log.paid(results[i].told)
			}
		})
	}
	for i := range intentions {
		select {
		case next <- i:
			continue
		case <-ctx.Done():
		}
		break
	}
	close(next)
	wg.Wait()
	return results
}
