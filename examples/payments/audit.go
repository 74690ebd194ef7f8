package main

import (
	"database/sql"
	"encoding/json"
	"fmt"
	"io"
	"net/url"
	"path/filepath"
	"time"

	"github.com/reintento/reintento/examples/payments/bank"
)

// charges counts, straight from the file, the rows under each payment's
// reference. It asks neither the bank's API nor the SDK: a mistake of theirs
// cannot hide itself here.
func charges(path string, intentions []bank.Payment) ([]int, error) {
	abs, err := filepath.Abs(path)
	if err != nil {
		return nil, fmt.Errorf("audit: %w", err)
	}
	dsn := url.URL{Scheme: "file", Path: abs, RawQuery: "mode=ro&_pragma=busy_timeout(5000)"}
	db, err := sql.Open("sqlite", dsn.String())
	if err != nil {
		return nil, fmt.Errorf("audit: %w", err)
	}
	defer db.Close()
	rows := make([]int, len(intentions))
	for i, p := range intentions {
		err := db.QueryRow(`SELECT COUNT(*) FROM payments WHERE tenant = ? AND reference = ?`, tenant, p.Reference).Scan(&rows[i])
		if err != nil {
			return nil, fmt.Errorf("audit: %w", err)
		}
	}
	return rows, nil
}

// audit compares what was wanted, what was told and what was charged. The
// first five figures are counted by intention; AppliedOnce, Duplicates and
// Missing add up to Intentions.
type audit struct {
	Intentions           int   `json:"intentions"`              // payments that were begun
	AppliedOnce          int   `json:"applied_once"`            // charged exactly once
	Duplicates           int   `json:"duplicates"`              // charged more than once
	Missing              int   `json:"missing"`                 // never charged
	ToldFailedButApplied int   `json:"told_failed_but_applied"` // a lie
	Unknown              int   `json:"unknown"`                 // the caller knows that he cannot know
	Attempts             int   `json:"attempts"`
	HiddenResends        int   `json:"hidden_resends"`
	BreakerOpened        int   `json:"breaker_opened"`
	ElapsedMS            int64 `json:"elapsed_ms"`

	// For the table only.
	toldAppliedButMissing int // a lie
	unknownApplied        int // of Unknown, those that were charged
	mostAttempts          int // for one payment
	waited, longestWait   time.Duration
}

// newAudit counts. Payments that were never begun are left out: nobody wanted
// them so far.
func newAudit(intentions []bank.Payment, results []result, rows []int) audit {
	var a audit
	count := func(n *int, is bool) {
		if is {
			*n++
		}
	}
	for i := range intentions {
		r, charged := results[i], rows[i]
		if !r.begun && charged == 0 {
			continue
		}
		a.Intentions++
		count(&a.AppliedOnce, charged == 1)
		count(&a.Duplicates, charged > 1)
		count(&a.Missing, charged == 0)
		count(&a.ToldFailedButApplied, r.told == toldFailed && charged > 0)
		count(&a.toldAppliedButMissing, r.told == toldApplied && charged == 0)
		count(&a.Unknown, r.told == toldUnknown)
		count(&a.unknownApplied, r.told == toldUnknown && charged > 0)
		a.Attempts += r.attempts
		a.HiddenResends += r.resends
		a.mostAttempts = max(a.mostAttempts, r.attempts)
		a.waited += r.waited
		a.longestWait = max(a.longestWait, r.waited)
	}
	return a
}

// true reports whether nobody was charged twice and nobody was told what is
// not so.
func (a audit) true() bool {
	return a.Duplicates == 0 && a.ToldFailedButApplied == 0 && a.toldAppliedButMissing == 0
}

func (a audit) writeJSON(w io.Writer) error {
	return json.NewEncoder(w).Encode(a)
}
