package main

import (
	"bytes"
	"encoding/xml"
	"errors"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"
	"unicode/utf8"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/reintento/reintento/classify"
	"github.com/reintento/reintento/retry"
)

// TestMain lets the tests' own program be the child that run starts.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == "-one" {
		main()
	}
	os.Exit(m.Run())
}

// small is a fleet that is simulated in no time.
var small = options{processes: 20, rate: 10, seed: 1, source: "the default policy"}

// simulated returns what a small fleet does under a variant of the default
// policy. The scenario may be changed first.
func simulated(t *testing.T, name string, change func(*scenario)) *measures {
	t.Helper()
	r, ok := planned(name)
	require.True(t, ok, "planned(%q)", name)
	if change != nil {
		change(&r.scenario)
	}
	return small.simulated(t, r)
}

func (o options) simulated(t *testing.T, r result) *measures {
	t.Helper()
	var m *measures
	var err error
	synctest.Test(t, func(*testing.T) {
		m, err = storm(r.scenario, r.variant.apply(o.policy), o)
	})
	require.NoError(t, err, "storm(%q)", r.name())
	require.NotZero(t, m.callsIn(), "storm(%q): calls in the fault", r.name())
	return m
}

func TestOutage(t *testing.T) {
	without := simulated(t, "outage, no budget", nil)
	given := simulated(t, "outage, as given", nil)
	// What a process may send: one attempt a call, and its burst.
	most := 1 + 10*float64(small.processes)/float64(given.callsIn())
	assert.LessOrEqual(t, given.inFault(), most, "attempts per call with a burst of 10")
	assert.Less(t, sum(given.Attempts, given.From, given.From+5*time.Second), sum(without.Attempts, without.From, without.From+5*time.Second),
		"attempts in the first 5 s of the outage, with the budget and without")
	assert.Greater(t, slices.Max(given.Open), 0.9, "share of breakers that opened")
	assert.Less(t, given.FailTime, time.Second, "time to fail")
	// 20 s of failures are more than half of a window of 30 s: the breakers open after 15 s, some try again too early, and
	// stay open for twice as long.
	assert.GreaterOrEqual(t, given.recovery(), time.Duration(0), "recovery")
	assert.LessOrEqual(t, given.recovery(), 12*time.Second, "recovery: twice 5 s, and a fifth")

	open := simulated(t, "outage, burst 3, no breaker", nil)
	assert.LessOrEqual(t, open.inFault(), 1.15, "attempts per call with a burst of 3, without breaker")
	assert.LessOrEqual(t, open.afterIt(), 1.02, "attempts per call after it")
	assert.GreaterOrEqual(t, open.recovery(), time.Duration(0), "recovery")
	assert.LessOrEqual(t, open.recovery(), time.Second, "recovery")
	assert.Zero(t, slices.Max(open.Open), "share of breakers that opened where there are none")
}

func TestOverload(t *testing.T) {
	without := simulated(t, "overload, no budget", nil)
	given := simulated(t, "overload, as given", nil)
	few := simulated(t, "overload, burst 3", nil)
	told := simulated(t, "overload, burst 3, announced", nil)
	assert.Less(t, given.inFault(), without.inFault(), "attempts per call with the budget, and without")
	assert.Less(t, few.inFault(), given.inFault(), "attempts per call with a burst of 3, and of 10")
	assert.LessOrEqual(t, few.inFault(), 1.2, "attempts per call with a burst of 3")
	assert.LessOrEqual(t, few.recovery(), 5*time.Second, "recovery with a burst of 3")

	assert.Zero(t, told.recovery(), "recovery where deadlines are announced")
	assert.GreaterOrEqual(t, told.goodput(), 0.2, "goodput where deadlines are announced")
	assert.Less(t, told.goodput(), 0.3/load+0.02, "goodput: no more than the service can do")
	assert.Greater(t, few.FailedThough, 0, "failed calls that were done: the service works on for callers that have left")
	assert.Zero(t, told.FailedThough, "failed calls that were done, where deadlines are announced")
}

// A service that refuses nothing is kept down by repeats for good.
func TestLongQueue(t *testing.T) {
	without := simulated(t, "long queue, no budget, no breaker", nil)
	assert.Equal(t, time.Duration(-1), without.recovery(), "recovery with neither budget nor breaker")
	assert.Greater(t, without.failAfter(), 0.9, "calls that fail after the fault with neither")
	assert.Greater(t, without.peak(), 2.0, "load after the fault with neither")

	few := simulated(t, "long queue, burst 3", nil)
	assert.GreaterOrEqual(t, few.recovery(), time.Duration(0), "recovery with a burst of 3")
	assert.Less(t, few.peak(), 1.0, "load after the fault with a burst of 3")
	assert.Zero(t, simulated(t, "long queue, burst 3, announced", nil).recovery(), "recovery where deadlines are announced")
}

func TestRateLimit(t *testing.T) {
	m := simulated(t, "rate limit, as given", nil)
	assert.LessOrEqual(t, m.inFault(), 0.25, "attempts per call in the fault")
	assert.Zero(t, m.recovery(), "recovery")
	assert.Zero(t, slices.Max(m.Open), "share of breakers that a 429 opened")
}

func TestLostAnswers(t *testing.T) {
	m := simulated(t, "lost answers, as given", nil)
	assert.Greater(t, m.inFault(), 1.02, "attempts per call: answers are lost")
	assert.LessOrEqual(t, m.inFault(), 1.1, "attempts per call")
	assert.Zero(t, m.Twice, "writes done twice under a key")
	assert.Zero(t, m.ToldNot, "writes done whose caller was told that they were not")

	// What that proves: without the key the same simulation finds duplicates,
	m = simulated(t, "lost answers, as given", func(sc *scenario) { sc.safety = retry.Idempotent })
	assert.Greater(t, m.Twice, 0, "operations done twice without a key")

	// and where nothing may be repeated, callers that cannot know.
	m = simulated(t, "lost answers, as given", func(sc *scenario) { sc.safety = retry.Unsafe })
	assert.Zero(t, m.Twice, "unsafe operations done twice")
	assert.Greater(t, m.FailedThough, 0, "unsafe operations done whose call failed")
	assert.Zero(t, m.ToldNot, "unsafe operations done whose caller was told that they were not")
}

func TestPartialFailure(t *testing.T) {
	m := simulated(t, "partial failure, as given", nil)
	assert.Greater(t, m.inFault(), 1.05, "attempts per call: requests are refused")
	assert.LessOrEqual(t, m.inFault(), 1.15, "attempts per call")
	assert.GreaterOrEqual(t, m.success(), 0.99, "success")

	// A policy may give a status a meaning of its own.
	o := small
	o.policy.Statuses = map[int]classify.Class{503: classify.Permanent}
	r, _ := planned("partial failure, as given")
	m = o.simulated(t, r)
	assert.Equal(t, 1.0, m.inFault(), "attempts per call where a 503 is permanent")
	assert.InDelta(t, 0.9, m.success(), 0.03, "success where a 503 is permanent")
}

// The whole program, in processes of its own as it is used.
func TestRun(t *testing.T) {
	o := options{processes: 5, rate: 4, seed: 7, source: "the default policy"}
	var stdout, stderr strings.Builder
	file := filepath.Join(t.TempDir(), "storm.html")
	status := run([]string{"-processes", "5", "-rate", "4", "-seed", "7", "-out", file}, &stdout, &stderr)
	require.Zero(t, status, "run: %s", &stderr)
	html, err := os.ReadFile(file)
	require.NoError(t, err)
	out, page := stdout.String(), string(html)

	// The same seed gives the same page, wherever it is simulated.
	results := plan()
	for i := range results {
		results[i].measures = o.simulated(t, results[i])
	}
	var table, again bytes.Buffer
	writeTable(&table, results, o)
	require.NoError(t, writePage(&again, results, o))
	assert.Equal(t, table.String()+"\ncurves: "+file+"\n", out, "what run prints")
	assert.True(t, page == again.String(), "run writes another page than the same simulations did here")

	for line := range strings.Lines(table.String()) {
		assert.LessOrEqual(t, utf8.RuneCountInString(strings.TrimSpace(line)), 150, "columns of %q", line)
	}
	checkPage(t, page)
	for _, r := range plan() {
		assert.Contains(t, page, `aria-label="`+r.name()+`"`, "the page's charts")
	}
	for line := range strings.Lines(strings.ReplaceAll(retry.Policy{}.String(), "\n  ", " ")) {
		_, text, _ := strings.Cut(strings.TrimSpace(line), ": ")
		assert.Contains(t, textOf(t, page), text, "the policy in words")
	}
}

// checkPage holds that a page is well-formed, draws what it shows within its
// drawings, and asks for nothing from elsewhere.
func checkPage(t *testing.T, page string) {
	t.Helper()
	d := xml.NewDecoder(strings.NewReader(page))
	charts, inside := 0, regexp.MustCompile(`^(-?[\d.]+,-?[\d.]+ ?)+$`)
	for {
		token, err := d.Token()
		if errors.Is(err, io.EOF) {
			break
		}
		require.NoError(t, err, "the page as XML")
		e, ok := token.(xml.StartElement)
		if !ok {
			continue
		}
		if e.Name.Local == "figure" {
			charts++
		}
		for _, a := range e.Attr {
			assert.NotContains(t, []string{"src", "href", "srcset"}, a.Name.Local, "attributes of %s", e.Name.Local)
			assert.NotContains(t, a.Value, "NaN", "%s of %s", a.Name.Local, e.Name.Local)
			assert.NotContains(t, a.Value, "ZgotmplZ", "%s of %s", a.Name.Local, e.Name.Local)
			if a.Name.Local == "points" {
				assert.Regexp(t, inside, a.Value, "points of a %s", e.Name.Local)
			}
		}
	}
	assert.Equal(t, len(plan()), charts, "charts in the page")
	assert.NotRegexp(t, `(?i)https?://|<script|<link|@import|url\(`, page, "what a page would load from elsewhere")
}

// textOf returns the text of a page.
func textOf(t *testing.T, page string) string {
	t.Helper()
	var text strings.Builder
	d := xml.NewDecoder(strings.NewReader(page))
	for {
		token, err := d.Token()
		if errors.Is(err, io.EOF) {
			return text.String()
		}
		require.NoError(t, err, "the page as XML")
		if c, ok := token.(xml.CharData); ok {
			text.Write(c)
		}
	}
}

// Each retry's jitter is drawn: the same seed must give the same draws.
func TestSeed(t *testing.T) {
	first, again := simulated(t, "overload, no budget", nil), simulated(t, "overload, no budget", nil)
	assert.Equal(t, first.Calls, again.Calls, "calls, simulated twice")
	assert.Equal(t, first.Attempts, again.Attempts, "attempts, simulated twice")
	assert.Equal(t, first.Good, again.Good, "successes, simulated twice")
	assert.Greater(t, slices.Max(first.Attempts), slices.Max(first.Calls), "attempts: repeats are among them")

	o := small
	o.seed++
	r, _ := planned("overload, no budget")
	assert.NotEqual(t, first.Attempts, o.simulated(t, r).Attempts, "attempts under another seed")
}

func TestFlags(t *testing.T) {
	file := filepath.Join(t.TempDir(), "policy.json")
	require.NoError(t, os.WriteFile(file, []byte(`{"default":{"max_attempts":2},"destinations":{"api.example.com":{"max_attempts":4}}}`), 0o600))
	broken := filepath.Join(t.TempDir(), "broken.json")
	require.NoError(t, os.WriteFile(broken, []byte(`{"default":{"max_attempts":-1}}`), 0o600))

	for _, test := range []struct {
		name   string
		args   []string
		status int
		says   string
	}{
		{"an unknown flag", []string{"-fleet", "3"}, 2, "-fleet"},
		{"an argument", []string{"now"}, 2, `"now"`},
		{"no processes", []string{"-processes", "0"}, 2, "-processes is 0: allowed is 1 to 5000"},
		{"too many processes", []string{"-processes", "5001"}, 2, "allowed is 1 to 5000"},
		{"no calls", []string{"-rate", "0"}, 2, "-rate is 0: allowed is 0.1 to 100"},
		{"a rate that is no number", []string{"-rate", "NaN"}, 2, "-rate is NaN"},
		{"an unknown simulation", []string{"-one", "calm"}, 2, `"outage, as given"`},
		{"a destination without a file", []string{"-destination", "api.example.com"}, 2, "allowed with -policy"},

		{"a file that is not there", []string{"-policy", file + ".old"}, 1, "no such file"},
		{"a file that is wrong", []string{"-policy", broken}, 1, "max_attempts"},
		{"a destination that is not in it", []string{"-policy", file, "-destination", "db"}, 1, `allowed is one of ["api.example.com"]`},
		{"a page that cannot be written", []string{"-processes", "1", "-rate", "1", "-out", t.TempDir()}, 1, "is a directory"},
	} {
		t.Run(test.name, func(t *testing.T) {
			var stdout, stderr strings.Builder
			assert.Equal(t, test.status, run(test.args, &stdout, &stderr), "run(%q)", test.args)
			assert.Contains(t, stderr.String(), test.says, "run(%q)", test.args)
		})
	}

	p, source, err := readPolicy(file, "api.example.com")
	require.NoError(t, err)
	assert.Equal(t, 4, p.MaxAttempts, "readPolicy: MaxAttempts of the destination")
	assert.Equal(t, "api.example.com in "+file, source)
	p, _, err = readPolicy(file, "")
	require.NoError(t, err)
	assert.Equal(t, 2, p.MaxAttempts, "readPolicy: MaxAttempts of the default")
}

// counted returns measures of two seconds of peace, a fault of two seconds in
// which one call in four succeeds, and what comes after: half of them for a
// second, then all.
func counted() *measures {
	fault := fault{from: 2 * time.Second, to: 4 * time.Second}
	m := newMeasures(time.Time{}, fault, fault.to+after, 40)
	for i := range len(m.Calls) - 1 {
		at := time.Duration(i) * bin
		m.Calls[i], m.Due[i], m.Attempts[i], m.Good[i] = 16, 16, 16, 16
		switch {
		case at >= fault.from && at < fault.to:
			m.Attempts[i], m.Good[i] = 20, 4
		case at >= fault.to && at < fault.to+time.Second:
			m.Attempts[i], m.Good[i] = 18, 8
		}
	}
	m.FailedIn, m.FailedAfter, m.FailTime, m.FailedThough, m.ToldNot, m.Twice = 48, 16, 1234*time.Millisecond, 1, 2, 3
	return m
}

func TestTable(t *testing.T) {
	m, never := counted(), counted()
	for i := range never.Good {
		never.Good[i] = 0
	}
	outage, _ := planned("outage, burst 3, no breaker")
	lost, _ := planned("lost answers, no budget")
	outage.measures, lost.measures = never, m
	var out bytes.Buffer
	writeTable(&out, []result{outage, lost}, small)
	head, table, _ := strings.Cut(out.String(), "\n\nscenario")
	assert.True(t, strings.HasPrefix(head, `the default policy
20 processes, each making 10 calls a second: 200 in all, 77 % of what the service can do

in fault      attempts`), "what stands above the table: %s", head)
	const want = `      policy               in fault  after  peak  goodput  success  fails in  recovery  fail after  twice  failed, done  told not

outage        burst 3, no breaker      1.25   1.01  0.90    0.0 %  25.00 %    1.23 s    > 30 s       1.7 %      –       15.62 ‰         2

lost answers  no budget                1.25   1.01  0.90   25.0 %  25.00 %    1.23 s     1.0 s       1.7 %      3       15.62 ‰         2
`
	assert.Equal(t, want, table)
	for _, c := range columns {
		assert.Contains(t, head+"\n", "  "+c.Means+"\n", "what column %q is", c.Head)
	}
}
