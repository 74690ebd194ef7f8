package retry

import "time"

// trouble is what few calls need: those that fail, wait or look up. It is made in
// one piece.
type trouble struct {
	schedule  schedule
	scheduled bool // whether schedule is there
	result    Result
	trials    []Attempt // all attempts, once one has failed
	records   [3]Attempt
	next      [2]attempt    // the contexts of the attempts after the first
	started   instant       // the last of these
	paused    time.Duration // before the first attempt
	timer     *time.Timer   // of the waits, which come one after the other
	lastErr   error         // what stands for a result that was given up
	below     seen          // what calls below did in the attempts after the first
	lookup    any           // what Reconcile was given
}

// inTrouble returns what the call needs from now on.
func (c *Call) inTrouble() *trouble {
	if c.trouble == nil {
		c.trouble = &trouble{}
	}
	return c.trouble
}

// trials returns the attempts made; nil as long as none has failed.
func (c *Call) trials() []Attempt {
	if c.trouble == nil {
		return nil
	}
	return c.trouble.trials
}

// furtherAttempt returns the place of an attempt after the first.
func (c *Call) furtherAttempt() *attempt {
	if i := len(c.trouble.trials) - 1; i >= 0 && i < len(c.trouble.next) {
		return &c.trouble.next[i]
	}
	return &attempt{}
}

// below returns what calls below did, in all attempts of a function.
func (c *Call) below() seen {
	var s seen
	if l := c.first.ledger.Load(); l != nil && l != endedLedger {
		s = l.close() // its attempt is over
	}
	if c.trouble != nil {
		s.add(c.trouble.below)
	}
	return s
}
