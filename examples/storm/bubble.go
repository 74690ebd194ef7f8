package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/mattn/go-isatty"
)

// simulateAll runs each simulation in a process of its own, as many at once as
// there are processors: what the SDK draws comes from one source in a process,
// and two simulations that share it would depend on each other.
func simulateAll(args []string, progress io.Writer) ([]result, error) {
	program, err := os.Executable()
	if err != nil {
		return nil, err
	}
	all := plan()
	errs := make([]error, len(all))
	free := make(chan struct{}, runtime.GOMAXPROCS(0))
	var children sync.WaitGroup
	show, end := lineOf(progress)
	defer end()
	for i := range all {
		free <- struct{}{}
		show(fmt.Sprintf("simulating %d of %d: %s", i+1, len(all), all[i].name()))
		children.Go(func() {
			defer func() { <-free }()
			child := exec.Command(program, append([]string{"-one", all[i].name()}, args...)...)
			child.Stderr = progress
			child.Env = append(os.Environ(), "GOMAXPROCS=1", "GOGC=400") // one processor, one order; a small heap, few collections
			out, err := child.Output()
			if err == nil {
				err = json.Unmarshal(out, &all[i].measures)
			}
			if err != nil {
				errs[i] = fmt.Errorf("%s: %w", all[i].name(), err)
			}
		})
	}
	children.Wait()
	for _, err := range errs {
		if err != nil {
			return nil, err
		}
	}
	return all, nil
}

// lineOf returns what shows how far the work is, on a line of its own each time;
// on a terminal the line takes the place of the one before, and end takes it away.
func lineOf(w io.Writer) (show func(string), end func()) {
	if f, ok := w.(*os.File); !ok || !isatty.IsTerminal(f.Fd()) {
		return func(s string) { fmt.Fprintln(w, s) }, func() {}
	}
	const clear = "\r\x1b[K"
	return func(s string) { fmt.Fprint(w, clear+s) }, func() { fmt.Fprint(w, clear) }
}

// inBubble runs one simulation in a test, the only way into a bubble of virtual
// time, prints its counts, and ends the program.
func inBubble(o options, stdout, stderr io.Writer) int {
	os.Args = os.Args[:1] // package testing would read our flags
	testing.Main(
		func(string, string) (bool, error) { return true, nil },
		[]testing.InternalTest{{Name: "storm", F: func(t *testing.T) {
			m, err := o.simulate(t)
			if err == nil {
				e := json.NewEncoder(stdout)
				e.SetIndent("", "  ")
				err = e.Encode(m)
			}
			if err != nil {
				fmt.Fprintln(stderr, "storm:", err)
				os.Exit(1)
			}
			os.Exit(0)
		}}},
		nil, nil)
	return 1
}

// simulate runs the simulation that o names.
func (o options) simulate(t *testing.T) (m *measures, err error) {
	r, _ := planned(o.one)
	synctest.Test(t, func(*testing.T) {
		m, err = storm(r.scenario, r.variant.apply(o.policy), o)
	})
	return m, err
}
