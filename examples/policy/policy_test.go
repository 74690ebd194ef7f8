package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/reintento/reintento/breaker"
	"github.com/reintento/reintento/classify"
	"github.com/reintento/reintento/httpclient"
	"github.com/reintento/reintento/retry"
)

var update = flag.Bool("update", false, "write the golden files in testdata anew")

func TestRun(t *testing.T) {
	tests := []struct {
		name   string
		args   []string
		status int
		stdout string // a file in testdata, or the text itself
		stderr string // how it begins
	}{
		{"a file that is fine", []string{"check", "company.json"}, 0, "company.json: fine, a default and 4 destinations\n", ""},
		{"a file with problems", []string{"check", "testdata/bad.json"}, 1, "bad.txt", ""},
		{"files are checked to the end", []string{"check", "testdata/bad.json", "testdata/missing.json", "ci-args", "company.json"}, 1, "several.txt", ""},

		{"a service with a policy of its own", []string{"explain", "company.json", "ledger.internal.example.com"}, 0, "ledger.txt", ""},
		{"a service under a suffix, by its URL", []string{"explain", "company.json", "https://stock.internal.example.com:8443"}, 0, "stock.txt", ""},
		{"a URL with all that makes no destination", []string{"explain", "company.json", "https://user:secret@stock.internal.example.com:8443/v1/items?sku=7"}, 0, "stock.txt", ""},
		{"the payment provider", []string{"explain", "company.json", "api.payments.example.net"}, 0, "payments.txt", ""},
		{"the partner", []string{"explain", "company.json", "API.partner.example.org"}, 0, "partner.txt", ""},
		{"a destination that is not named", []string{"explain", "company.json", "elsewhere.example"}, 0, "elsewhere.txt", ""},
		{"statuses that are merged, attempts without end", []string{"explain", "testdata/odd.json", "merged"}, 0, "merged.txt", ""},
		{"nothing is repeated", []string{"explain", "testdata/odd.json", "once"}, 0, "once.txt", ""},
		{"no attempt fits after the wait", []string{"explain", "testdata/odd.json", "short"}, 0, "short.txt", ""},
		{"no limits at all", []string{"explain", "testdata/odd.json", "open"}, 0, "open.txt", ""},
		{"a bad file explains nothing", []string{"explain", "testdata/bad.json", "x"}, 1, "bad.txt", ""},

		{"help", []string{"help"}, 0, usage, ""},
		{"-h", []string{"-h"}, 0, usage, ""},
		{"no command", nil, 2, "", "policy: a command is missing\nUsage:\n"},
		{"another command", []string{"lint", "company.json"}, 2, "", "policy: \"lint\" is no command: allowed are check and explain\nUsage:\n"},
		{"check without file", []string{"check"}, 2, "", "policy: check wants one file at least\nUsage:\n"},
		{"explain without destination", []string{"explain", "company.json"}, 2, "", "policy: explain wants a file and a destination, got 1 arguments\nUsage:\n"},
		{"explain with an empty destination", []string{"explain", "company.json", ""}, 2, "", "policy: explain wants a file and a destination, got 2 arguments\nUsage:\n"},
		{"explain with too much", []string{"explain", "company.json", "a", "b"}, 2, "", "policy: explain wants a file and a destination, got 3 arguments\nUsage:\n"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var stdout, stderr bytes.Buffer
			if status := run(tt.args, &stdout, &stderr); status != tt.status {
				t.Errorf("run(%q) = %d, want %d", tt.args, status, tt.status)
			}
			want := tt.stdout
			if strings.HasSuffix(want, ".txt") {
				path := filepath.Join("testdata", want)
				if *update {
					if err := os.WriteFile(path, stdout.Bytes(), 0o666); err != nil {
						t.Fatal(err)
					}
				}
				data, err := os.ReadFile(path)
				if err != nil {
					t.Fatal(err)
				}
				want = string(data)
			}
			if got := stdout.String(); got != want {
				t.Errorf("run(%q) prints\n%s\nwant\n%s", tt.args, got, want)
			}
			if got := stderr.String(); !strings.HasPrefix(got, tt.stderr) || got != "" && tt.stderr == "" {
				t.Errorf("run(%q) prints on stderr\n%s\nwant it to begin with\n%s", tt.args, got, tt.stderr)
			}
		})
	}
}

// places are destinations of the files beside this test, one for each policy.
var places = map[string][]string{
	"company.json":      {"ledger.internal.example.com", "stock.internal.example.com", "api.payments.example.net", "api.partner.example.org", "elsewhere.example"},
	"testdata/odd.json": {"merged", "once", "short", "put", "exact"},
}

func eachPolicy(t *testing.T, test func(t *testing.T, p retry.Policy)) {
	for name, destinations := range places {
		f, err := load(name)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range destinations {
			p, _ := f.layer.Policy(d)
			t.Run(d, func(t *testing.T) { test(t, p) })
		}
	}
}

// The timeline is arithmetic. Here a call goes through the real loop.
func TestTheTimelineIsWhatACallDoes(t *testing.T) {
	eachPolicy(t, func(t *testing.T, p retry.Policy) {
		synctest.Test(t, func(t *testing.T) {
			p.Jitter = retry.NoJitter // every wait is the longest
			d, err := retry.NewDestination("callee", p, nil)
			if err != nil {
				t.Fatal(err)
			}
			start := time.Now()
			err = d.Do(t.Context(), retry.Idempotent, func(ctx context.Context) error {
				<-ctx.Done()
				return errors.New("no answer")
			})
			e, ok := errors.AsType[*retry.Error](err)
			if !ok {
				t.Fatalf("Do = %v (%T), want a *retry.Error", err, err)
			}
			var got []step
			for _, a := range e.Attempts {
				begin := a.Start.Sub(start)
				got = append(got, step{from: begin, to: begin + a.Duration})
				if a.Wait > 0 {
					got = append(got, step{from: begin + a.Duration, to: begin + a.Duration + a.Wait})
				}
			}
			steps := timeline(p)
			for i, s := range steps[:len(steps)-1] {
				if i >= len(got) || s.from != got[i].from || s.to != got[i].to {
					t.Fatalf("timeline(%v) has the steps\n%v\nbut a call makes\n%v", p, steps, got)
				}
			}
			last := steps[len(steps)-1]
			if last.text == fmt.Sprintf("and so on, up to attempt %d", p.MaxAttempts) {
				return
			}
			if len(got) != len(steps)-1 {
				t.Errorf("timeline(%v) has the steps\n%v\nbut a call makes\n%v", p, steps, got)
			}
			if took := time.Since(start); last.from != took {
				t.Errorf("timeline(%v) ends after %v, but a call after %v", p, last.from, took)
			}
			want := "stop: the attempts are used up"
			if e.Stop == retry.ErrDeadline {
				want = "stop: the deadline"
				if took := time.Since(start); took < p.Deadline {
					want = "stop: no attempt could follow a wait of "
				}
			}
			if !strings.HasPrefix(last.text, want) {
				t.Errorf("timeline(%v) ends with %q, but a call with %v, so want %q", p, last.text, e.Stop, want)
			}
		})
	})
}

func TestAttemptsThatFailAtOnceBeginAsTold(t *testing.T) {
	turnedAway := classify.Verdict{Class: classify.Retryable, Reason: "http_503"}
	throttled := classify.Verdict{Class: classify.Retryable, Reason: "http_429", Throttled: true}
	eachPolicy(t, func(t *testing.T, p retry.Policy) {
		p.Jitter, p.Budget.Disabled, p.Breaker = retry.NoJitter, true, breaker.Settings{Disabled: true}
		for first, v := range map[time.Duration]classify.Verdict{p.BaseDelay: turnedAway, p.ThrottleDelay: throttled} {
			synctest.Test(t, func(t *testing.T) {
				d, err := retry.NewDestination("callee", p, nil)
				if err != nil {
					t.Fatal(err)
				}
				start := time.Now()
				var begins []string
				err = d.Do(t.Context(), retry.Unsafe, func(context.Context) error {
					begins = append(begins, time.Since(start).String())
					return failure(v)
				})
				if len(begins) > maxAttemptsShown {
					begins = append(begins[:maxAttemptsShown], "…")
				}
				if want := strings.Join(begins, ", "); beginnings(p, first) != want {
					t.Errorf("beginnings(%v, %v) = %s, but a call makes %s and ends with %v", p, first, beginnings(p, first), want, err)
				}
			})
		}
	})
}

type failure classify.Verdict

func (f failure) Error() string             { return f.Reason }
func (f failure) Verdict() classify.Verdict { return classify.Verdict(f) }

// What is told to be repeated is repeated by the client, and nothing else.
func TestWhatIsToldToBeRepeatedIs(t *testing.T) {
	eachPolicy(t, func(t *testing.T, p retry.Policy) {
		if p.MaxAttempts == 1 {
			return
		}
		p.Budget.Disabled, p.Breaker, p.PrivatePushback = true, breaker.Settings{Disabled: true}, true
		told := byClass(p)
		rows := repeats(p)
		keyed := keyedMethods(p)
		for code := 300; code <= 599; code++ {
			if http.StatusText(code) == "" && !slices.Contains(vendor, code) {
				continue
			}
			for _, hint := range []bool{false, true} {
				for _, method := range []string{"GET", "PUT", "DELETE", "POST", "PATCH", "LINK"} {
					class := toldClass(told, code, hint)
					want := toldRepeated(rows, class, code, method, keyed)
					if got := requests(t, p, method, code, hint); (got > 1) != want {
						t.Errorf("%s answered %d (hint: %v) makes %d requests, but repeats says %v", method, code, hint, got, want)
					}
				}
			}
		}
	})
}

// toldClass reads from byClass the class of a status.
func toldClass(told map[classify.Class][]string, code int, hint bool) classify.Class {
	text := strconv.Itoa(code)
	for class, entries := range told {
		if hint && slices.Contains(entries, text+" with Retry-After") {
			return class
		}
	}
	for class, entries := range told {
		for _, suffix := range []string{"", " (once)", " (by statuses)"} {
			if slices.Contains(entries, text+suffix) {
				return class
			}
		}
	}
	return classify.Permanent
}

// toldRepeated reads from the table whether a failure is repeated.
func toldRepeated(rows []row, class classify.Class, code int, method string, keyed []string) bool {
	r := rows[len(rows)-1]
	switch {
	case class == classify.Retryable:
		r = rows[0]
	case class == classify.Ambiguous:
		r = rows[1]
	case code == http.StatusConflict && len(rows) == 4:
		r = rows[2]
	}
	switch {
	case slices.Contains(idempotent, method):
		return r.idempotent
	case slices.Contains(keyed, method):
		return r.keyed
	}
	return r.other
}

type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// requests counts the requests of a call that is always answered the same.
func requests(t *testing.T, p retry.Policy, method string, code int, hint bool) (n int) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		l, err := retry.NewLayer(retry.Organization{Default: p}, nil)
		if err != nil {
			t.Fatal(err)
		}
		tr := &httpclient.Transport{Layer: l, Base: roundTrip(func(r *http.Request) (*http.Response, error) {
			n++
			h := http.Header{}
			if hint {
				h.Set("Retry-After", "1")
			}
			return &http.Response{StatusCode: code, Header: h, Body: http.NoBody, Request: r, ProtoMajor: 1, ProtoMinor: 1}, nil
		})}
		req, err := http.NewRequestWithContext(t.Context(), method, "http://callee.example/", nil)
		if err != nil {
			t.Fatal(err)
		}
		resp, err := tr.RoundTrip(req)
		if err != nil {
			t.Fatalf("RoundTrip(%s answered %d) = %v", method, code, err)
		}
		io.Copy(io.Discard, resp.Body)
		resp.Body.Close()
	})
	return n
}

// A field that is new in Policy appears in the list of values, by the name that
// files know it by.
func TestTheListOfValuesHasTheNamesOfTheFile(t *testing.T) {
	listed := values(reflect.ValueOf(retry.Policy{}), "")
	if len(listed) < 25 {
		t.Errorf("values lists %d values of a policy, want every one", len(listed))
	}
	for _, v := range listed {
		text := "null"
		for name := range strings.SplitSeq(reverse(v.path), ".") {
			text = fmt.Sprintf(`{%q: %s}`, name, text)
		}
		_, err := retry.ReadOrganization(strings.NewReader(`{"default": ` + text + `}`))
		problem, ok := errors.AsType[*retry.FileError](err)
		if !ok || problem.Path != "default."+v.path || !strings.HasPrefix(problem.Problem, "null: ") {
			t.Errorf("ReadOrganization(default %s) = %v, want a problem with the value null of %s", text, err, v.path)
		}
	}
}

// reverse turns "a.b" into "b.a".
func reverse(path string) string {
	parts := strings.Split(path, ".")
	slices.Reverse(parts)
	return strings.Join(parts, ".")
}

// The ready file is read by people too: what it says must be what holds.
func TestTheReadyFileSaysNothingTwice(t *testing.T) {
	data, err := os.ReadFile("company.json")
	if err != nil {
		t.Fatal(err)
	}
	var said struct {
		Default      map[string]any
		Destinations map[string]map[string]any
	}
	if err := json.Unmarshal(data, &said); err != nil {
		t.Fatal(err)
	}
	for name, d := range said.Destinations {
		for field, v := range d {
			if inherited, ok := said.Default[field]; ok && reflect.DeepEqual(v, inherited) {
				t.Errorf("destination %s says %s again as it is in the default", name, field)
			}
		}
	}
}
