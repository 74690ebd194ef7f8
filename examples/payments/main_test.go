package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// figures runs the program with -json and returns its exit status and the one
// object that it printed.
func figures(t *testing.T, args ...string) (int, map[string]int) {
	t.Helper()
	var stdout, stderr bytes.Buffer
	status := run(t.Context(), append(args, "-json"), &stdout, &stderr)
	t.Logf("run(%q) = %d\n%s%s", args, status, stdout.String(), stderr.String())
	d := json.NewDecoder(&stdout)
	var got map[string]int
	if err := d.Decode(&got); err != nil {
		t.Fatalf("run(%q): stdout is no JSON object of numbers: %v", args, err)
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		t.Errorf("run(%q): something stands on stdout after the object", args)
	}
	want := []string{"applied_once", "attempts", "breaker_opened", "duplicates", "elapsed_ms", "hidden_resends",
		"intentions", "missing", "told_failed_but_applied", "unknown"}
	if keys := slices.Sorted(maps.Keys(got)); !slices.Equal(keys, want) {
		t.Errorf("run(%q): keys %v, want %v", args, keys, want)
	}
	if got["applied_once"]+got["duplicates"]+got["missing"] != got["intentions"] {
		t.Errorf("run(%q): applied_once, duplicates and missing do not add up to intentions", args)
	}
	return status, got
}

// The tests of whole runs are parallel: a run mostly waits.

// quick keeps a test short and bad: 24 payments, a third of the answers lost.
var quick = []string{"-n=24", "-seed=2", "-cut=0.35", "-throttle=0.02", "-outage=100ms"}

func TestTheSDKChargesEveryPaymentOnce(t *testing.T) {
	t.Parallel()
	status, got := figures(t, quick...)
	if status != exitTrue || got["intentions"] != 24 || got["applied_once"] != 24 || got["unknown"] != 0 || got["told_failed_but_applied"] != 0 {
		t.Errorf("the SDK: status %d, %v, want status 0 and 24 payments charged once and known to be", status, got)
	}
	if got["attempts"] <= 24 {
		t.Errorf("the SDK: %d attempts, want more than the 24 payments: a third of the answers was lost", got["attempts"])
	}
}

func TestAnUntrustedKeyLeavesTheLostAnswersUnknown(t *testing.T) {
	t.Parallel()
	status, got := figures(t, append(quick, "-client=untrusted")...)
	if status != exitTrue || got["duplicates"] != 0 || got["told_failed_but_applied"] != 0 || got["unknown"] == 0 {
		t.Errorf("untrusted: status %d, %v, want status 0, no duplicates, no lies and some unknown", status, got)
	}
}

func TestTheNaiveLoopChargesTwice(t *testing.T) {
	t.Parallel()
	status, got := figures(t, append(quick, "-client=naive")...)
	if status != exitUntrue || got["duplicates"] == 0 {
		t.Errorf("naive: status %d, %v, want status 1 and duplicates", status, got)
	}
}

func TestALongOutageOpensTheBreaker(t *testing.T) {
	t.Parallel()
	status, got := figures(t, "-n=40", "-cut=0", "-reset=0", "-throttle=0", "-outage=1s")
	if status != exitTrue || got["applied_once"] != 40 || got["breaker_opened"] == 0 {
		t.Errorf("an outage of 1 s: status %d, %v, want status 0, 40 charged once and a breaker that opened", status, got)
	}
}

func TestAGoodDayNeedsOneAttemptForEach(t *testing.T) {
	t.Parallel()
	status, got := figures(t, "-n=20", "-cut=0", "-reset=0", "-throttle=0", "-outage=0")
	if status != exitTrue || got["applied_once"] != 20 || got["attempts"] != 20 || got["hidden_resends"] != 0 || got["breaker_opened"] != 0 {
		t.Errorf("a good day: status %d, %v, want 20 payments in 20 attempts and nothing else", status, got)
	}
}

// The SDK's counters are held against those of the network, which cannot know
// them.
func TestNothingIsSentThatIsNotCounted(t *testing.T) {
	t.Parallel()
	o, err := parseOptions(append(quick, "-outage=0", "-throttle=0"), io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "payments.db")
	log := newProgress(io.Discard, o.n, time.Now())
	sys, err := startSystem(path, o, log)
	if err != nil {
		t.Fatal(err)
	}
	p, err := newPayer(o, sys.network.Addr(), log)
	if err != nil {
		t.Fatal(err)
	}
	attempts, resends := 0, 0
	for _, r := range payAll(t.Context(), p, plan(o), o.workers, log) {
		attempts += r.attempts
		resends += r.resends
	}
	if err := sys.stop(); err != nil {
		t.Errorf("stop() = %v, want nil", err)
	}
	if seen := sys.network.Counts().Requests; seen > int64(attempts+resends) || seen < int64(o.n) {
		t.Errorf("the network saw %d requests, want %d payments at least and at most %d attempts and %d re-sends",
			seen, o.n, attempts, resends)
	}
}

func TestTwoIntentionsAreEqualButForTheReference(t *testing.T) {
	all := plan(options{n: 3, seed: 1})
	a, b := all[0], all[1]
	if a.Reference == b.Reference {
		t.Errorf("two intentions have the reference %q", a.Reference)
	}
	a.Reference, b.Reference = "", ""
	if a != b {
		t.Errorf("the first two intentions are %+v and %+v, want them equal but for the reference", a, b)
	}
}

func TestBadFlagsAreNamedAllAtOnce(t *testing.T) {
	letter := filepath.Join(t.TempDir(), "letter.txt")
	if err := os.WriteFile(letter, []byte(strings.Repeat("Dear bank, ", 100)), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, row := range []struct {
		args []string
		says []string
	}{
		{[]string{"-n=0"}, []string{"-n", "0", "1 to 10000"}},
		{[]string{"-n=10001"}, []string{"-n", "10001"}},
		{[]string{"-n=many"}, []string{"-n", "many"}},
		{[]string{"-workers=0"}, []string{"-workers", "1 to 256"}},
		{[]string{"-seed=-1"}, []string{"-seed"}},
		{[]string{"-cut=1.1"}, []string{"-cut", "1.1", "0 to 1"}},
		{[]string{"-cut=NaN"}, []string{"-cut", "NaN"}},
		{[]string{"-cut=0.6", "-reset=0.6"}, []string{"-cut and -reset", "at most 1"}},
		{[]string{"-throttle=-0.1"}, []string{"-throttle", "-0.1"}},
		{[]string{"-outage=-1s"}, []string{"-outage", "-1s", "0 to 1m"}},
		{[]string{"-outage=2m"}, []string{"-outage"}},
		{[]string{"-client=magic"}, []string{"-client", "magic", "sdk, untrusted, naive"}},
		{[]string{"-verbose"}, []string{"-verbose"}},
		{[]string{"again"}, []string{"again", "flags only"}},
		{[]string{"-n=0", "-workers=0", "-reset=2"}, []string{"-n", "-workers", "-reset"}},
		{[]string{"-n=1", "-db=/no/such/folder/payments.db"}, []string{"-db", "/no/such/folder/payments.db"}},
		{[]string{"-n=1", "-db", letter}, []string{"-db", "letter.txt", "not a database"}},
	} {
		var stdout, stderr bytes.Buffer
		if status := run(t.Context(), row.args, &stdout, &stderr); status != exitBadFlags {
			t.Errorf("run(%q) = %d, want 2", row.args, status)
		}
		for _, word := range row.says {
			if !strings.Contains(stderr.String(), word) {
				t.Errorf("run(%q) says %q, want a word about %q", row.args, stderr.String(), word)
			}
		}
		if stdout.Len() > 0 {
			t.Errorf("run(%q) printed %q on stdout, want nothing", row.args, stdout.String())
		}
	}
}

func TestHelp(t *testing.T) {
	var stdout, stderr bytes.Buffer
	if status := run(t.Context(), []string{"-h"}, &stdout, &stderr); status != exitTrue || stderr.Len() > 0 {
		t.Errorf("run(-h) = %d and %q on stderr, want 0 and nothing", status, stderr.String())
	}
	for _, name := range []string{"-n", "-workers", "-seed", "-cut", "-reset", "-throttle", "-outage", "-db", "-json", "-client"} {
		if !strings.Contains(stdout.String(), "  "+name) {
			t.Errorf("run(-h) does not name %s:\n%s", name, stdout.String())
		}
	}
}

func TestAFileThatIsKeptHoldsSeveralRuns(t *testing.T) {
	path := filepath.Join(t.TempDir(), "kept.db")
	for i := range 2 {
		// The same seed, so the same payments: they are new intentions.
		status, got := figures(t, "-n=5", "-outage=0", "-db", path)
		if status != exitTrue || got["applied_once"] != 5 {
			t.Errorf("run %d into one file: status %d, %v, want status 0 and 5 charged once", i+1, status, got)
		}
	}
	if _, err := os.Stat(path); err != nil {
		t.Errorf("after two runs: %v, want the file kept", err)
	}
}

func TestATemporaryFileIsRemoved(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("TMPDIR", dir)
	figures(t, "-n=2", "-outage=0")
	if left, err := os.ReadDir(dir); err != nil || len(left) != 0 {
		t.Errorf("after the run the folder for temporary files holds %v (%v), want nothing", left, err)
	}
}

// when calls do at the first write that contains text.
type when struct {
	text string
	do   func()
	once sync.Once
}

func (w *when) Write(p []byte) (int, error) {
	if bytes.Contains(p, []byte(w.text)) {
		w.once.Do(w.do)
	}
	return len(p), nil
}

func TestAnInterruptEndsWithinASecondWithAnAudit(t *testing.T) {
	for _, client := range []string{clientSDK, clientUntrusted, clientNaive} {
		ctx, interrupt := context.WithCancel(t.Context())
		defer interrupt()
		var interrupted time.Time
		// In the middle of an outage everybody is waiting for something.
		stderr := &when{text: "crashes", do: func() {
			interrupted = time.Now()
			interrupt()
		}}
		var stdout bytes.Buffer
		status := run(ctx, []string{"-n=60", "-cut=0.1", "-throttle=0", "-outage=1m", "-client", client}, &stdout, stderr)
		if took := time.Since(interrupted); took > time.Second {
			t.Errorf("%s: the run ended %v after the interrupt, want at most 1 s", client, took)
		}
		if status != exitTrue {
			t.Errorf("%s: run() = %d after an interrupt, want 0: nothing is known to be wrong", client, status)
		}
		for _, words := range []string{"interrupted", "of 60 payments were begun", "charged exactly once", "told unknown"} {
			if !strings.Contains(stdout.String(), words) {
				t.Errorf("%s: the audit does not say %q:\n%s", client, words, stdout.String())
			}
		}
	}
}
