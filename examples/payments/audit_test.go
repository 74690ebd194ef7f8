package main

import (
	"bytes"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/reintento/reintento/examples/payments/badnet"
	"github.com/reintento/reintento/examples/payments/bank"
)

func TestTheAuditKnowsALieFromNotKnowing(t *testing.T) {
	for _, row := range []struct {
		name string
		told told
		rows int
		want audit
		true bool
	}{
		{"told charged, is charged", toldApplied, 1, audit{AppliedOnce: 1}, true},
		{"told failed, is not charged", toldFailed, 0, audit{Missing: 1}, true},
		{"told unknown, is charged", toldUnknown, 1, audit{AppliedOnce: 1, Unknown: 1, unknownApplied: 1}, true},
		{"told unknown, is not charged", toldUnknown, 0, audit{Missing: 1, Unknown: 1}, true},

		{"told charged, is not", toldApplied, 0, audit{Missing: 1, toldAppliedButMissing: 1}, false},
		{"told failed, is charged", toldFailed, 1, audit{AppliedOnce: 1, ToldFailedButApplied: 1}, false},
		{"charged twice", toldApplied, 2, audit{Duplicates: 1}, false},
		{"charged twice and unknown", toldUnknown, 3, audit{Duplicates: 1, Unknown: 1, unknownApplied: 1}, false},
		{"charged twice, told failed", toldFailed, 2, audit{Duplicates: 1, ToldFailedButApplied: 1}, false},
	} {
		t.Run(row.name, func(t *testing.T) {
			got := newAudit(make([]bank.Payment, 1), []result{{begun: true, told: row.told}}, []int{row.rows})
			row.want.Intentions = 1
			if got != row.want {
				t.Errorf("newAudit() = %+v, want %+v", got, row.want)
			}
			if got.true() != row.true {
				t.Errorf("true() = %v, want %v", got.true(), row.true)
			}
			if truth := strings.Contains(got.sentence(), "told what is not so"); truth != (got.ToldFailedButApplied+got.toldAppliedButMissing > 0) {
				t.Errorf("sentence() = %q, want it to tell of lies if there are some", got.sentence())
			}
			if twice := strings.Contains(got.sentence(), "were charged twice"); twice != (got.Duplicates > 0) {
				t.Errorf("sentence() = %q, want it to tell of double charges if there are some", got.sentence())
			}
		})
	}
}

func TestTheAuditAddsUp(t *testing.T) {
	results := []result{
		{begun: true, told: toldApplied, attempts: 1},
		{begun: true, told: toldApplied, attempts: 4, resends: 2, waited: 3 * time.Second},
		{}, // never begun
	}
	got := newAudit(make([]bank.Payment, 3), results, []int{1, 1, 0})
	want := audit{
		Intentions: 2, AppliedOnce: 2, Attempts: 5, HiddenResends: 2,
		mostAttempts: 4, waited: 3 * time.Second, longestWait: 3 * time.Second,
	}
	if got != want {
		t.Errorf("newAudit() = %+v, want %+v", got, want)
	}
}

func TestTheAuditReadsTheFileItself(t *testing.T) {
	path := filepath.Join(t.TempDir(), "payments.db")
	store, err := bank.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	server := &bank.Server{Store: store, Tenants: map[string]string{token: tenant}, KeyOptional: true}
	process, err := server.Start()
	if err != nil {
		t.Fatal(err)
	}
	intentions := plan(options{n: 3, seed: 1})
	c := naive{url: "http://" + process.Addr() + "/payments", client: http.DefaultClient}
	for _, i := range []int{0, 2, 2} { // the second never, the third twice
		if r := c.pay(t.Context(), intentions[i]); r.told != toldApplied {
			t.Fatalf("pay(%+v) = %+v, want it applied", intentions[i], r)
		}
	}
	process.Kill()
	if err := store.Close(); err != nil {
		t.Fatal(err)
	}
	rows, err := charges(path, intentions)
	if err != nil || rows[0] != 1 || rows[1] != 0 || rows[2] != 2 {
		t.Errorf("charges() = %v, %v, want [1 0 2]", rows, err)
	}
	if _, err := charges(filepath.Join(t.TempDir(), "none.db"), intentions); err == nil {
		t.Error("charges() of no file = nil error, want one: an audit of nothing must not look clean")
	}
}

func TestTheTableSaysWhatIsWrong(t *testing.T) {
	a := audit{
		Intentions: 9, AppliedOnce: 5, Duplicates: 3, Missing: 1, ToldFailedButApplied: 2, Unknown: 4, unknownApplied: 1,
		Attempts: 18, mostAttempts: 5, waited: 1500 * time.Millisecond, longestWait: 700 * time.Millisecond, ElapsedMS: 2500,
	}
	var b bytes.Buffer
	sys := &system{network: &badnet.Network{}, bank: &bank.Server{}}
	if err := a.writeTable(&b, options{n: 9, workers: 8, client: clientNaive, seed: 3}, sys, false); err != nil {
		t.Fatal(err)
	}
	for _, line := range []string{
		"Audit: naive client, seed 3",
		"  payments intended                   9",
		"  charged twice or more               3   <- money lost",
		"  told failed though charged          2   <- a lie",
		"  told charged though not             0",
		"  told unknown                        4   1 of them were charged; those callers must find out before they pay again",
		"  attempts                           18   2.00 a payment, at most 5",
		"  waited between them             1.5 s   summed over 8 workers, at most 0.7 s for one payment",
		"  time                            2.5 s",
		"Payments were charged twice, and callers were told what is not so.",
	} {
		if !strings.Contains(b.String(), "\n"+line+"\n") {
			t.Errorf("the table has no line %q:\n%s", line, b.String())
		}
	}
}
