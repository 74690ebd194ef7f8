package retry

import (
	"sync"

	"github.com/reintento/reintento/classify"
)

// ledger is what the calls below an attempt did. An attempt is only as
// repeatable as its writes: when one that is not trusted may have been applied,
// a later failure of the attempt cannot be repeated without repeating it.
type ledger struct {
	mu        sync.Mutex
	calls     int  // finished calls
	writes    int  // writes among them that may have been applied
	untrusted bool // one of these would have a second effect if it were repeated
	worst     *entry
	told      map[*state]bool // layers below that have said they are suppressed
}

// entry is how one call below an attempt ended.
type entry struct {
	failed  bool
	verdict classify.Verdict
	outcome Outcome
	final   bool // the answer speaks for the whole intention
	write   bool // it was no read
	trusted bool // a repeat would not double its effect
}

// enter notes a finished call.
func (l *ledger) enter(e entry) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.calls++
	if e.write && e.outcome != NotApplied {
		l.writes++
		if !e.trusted {
			l.untrusted = true
		}
	}
	if e.failed && (l.worst == nil || badness(e.verdict) > badness(l.worst.verdict)) {
		l.worst = &e
	}
}

// seen returns a copy of what is in the ledger.
func (l *ledger) seen() (calls, writes int, untrusted bool, worst *entry) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.calls, l.writes, l.untrusted, l.worst
}

// tell reports whether s has not yet been told of in this attempt.
func (l *ledger) tell(s *state) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.told[s] {
		return false
	}
	if l.told == nil {
		l.told = make(map[*state]bool)
	}
	l.told[s] = true
	return true
}

// badness orders verdicts by how much they stand in the way of a repeat.
func badness(v classify.Verdict) int {
	switch {
	case v.Class == classify.Ambiguous && !v.Repeatable:
		return 3
	case v.Class == classify.Permanent:
		return 2
	case v.Class == classify.Ambiguous:
		return 1
	}
	return 0
}
