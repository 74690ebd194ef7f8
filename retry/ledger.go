package retry

import (
	"sync"
	"sync/atomic"

	"github.com/reintento/reintento/classify"
)

// ledger is what the calls below an attempt did. An attempt is only as
// repeatable as its writes: when one that is not trusted may have been applied,
// a later failure of the attempt cannot be repeated without repeating it.
type ledger struct {
	mu     sync.Mutex
	writes int         // calls that were no reads, however they ended
	open   int         // writes that have begun and not ended
	risky  int         // of these, those that are not trusted
	closed atomic.Bool // the attempt has ended: what comes now is none of it; set under mu
	seen   seen
	told   map[*state]bool // layers below that have said they are suppressed
}

// seen is the sum of a ledger.
type seen struct {
	calls     int    // finished calls
	applied   int    // writes among them that may have been applied
	untrusted bool   // one of these would have a second effect if it were repeated
	several   bool   // there was more than one write in an attempt
	worst     *entry // the failure that stands most in the way of a repeat
}

// add adds what was seen in a further attempt, but for the failure.
func (s *seen) add(o seen) {
	s.calls += o.calls
	s.applied += o.applied
	s.untrusted = s.untrusted || o.untrusted
	s.several = s.several || o.several
}

// entry is how one call below an attempt ended.
type entry struct {
	failed  bool
	verdict classify.Verdict
	outcome Outcome
	stated  bool // the user gave the class
	final   bool // the answer speaks for the whole intention
	write   bool // it was no read
	trusted bool // a repeat would not double its effect
}

// endedLedger is that of an attempt which ended before anybody asked for one.
var endedLedger = func() *ledger {
	l := &ledger{}
	l.closed.Store(true)
	return l
}()

// begin notes a write that begins, and reports whether the attempt still runs.
// Who was let in calls end.
func (l *ledger) begin(trusted bool) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed.Load() {
		return false
	}
	l.open++
	if !trusted {
		l.risky++
	}
	return true
}

// end notes that a write which has begun is under way no more.
func (l *ledger) end(trusted bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.open--
	if !trusted {
		l.risky--
	}
}

// enter notes a finished call.
func (l *ledger) enter(e entry) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed.Load() {
		return
	}
	s := &l.seen
	s.calls++
	if e.write {
		l.writes++
		s.several = l.writes > 1
		if e.outcome != NotApplied {
			s.applied++
			s.untrusted = s.untrusted || !e.trusted
		}
	}
	if e.failed && (s.worst == nil || badness(e.verdict) > badness(s.worst.verdict)) {
		s.worst = &e
	}
}

// close ends the ledger with its attempt, and returns what is in it, as often as
// it is asked. A write that is still under way may be applied.
func (l *ledger) close() seen {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.closed.Load() {
		l.closed.Store(true)
		s := &l.seen
		s.calls += l.open
		s.applied += l.open
		s.untrusted = s.untrusted || l.risky > 0
		s.several = s.several || l.writes+l.open > 1
	}
	return l.seen
}

// tell reports whether s has not yet been told of in this attempt.
func (l *ledger) tell(s *state) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed.Load() || l.told[s] {
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
