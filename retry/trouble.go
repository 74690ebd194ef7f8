package retry

import "time"

// trouble is what a call needs once an attempt has failed, which few do. It is
// made in one piece.
type trouble struct {
	schedule  schedule
	scheduled bool   // whether schedule is there
	result    Result // of the last attempt of a function
	records   [3]Attempt
	next      [2]attempt  // the contexts of the attempts after the first
	timer     *time.Timer // of the waits, which come one after the other
}

// inTrouble returns what the call needs from now on.
func (c *Call) inTrouble() *trouble {
	if c.trouble == nil {
		c.trouble = &trouble{}
	}
	return c.trouble
}

// furtherAttempt returns the place of an attempt after the first.
func (c *Call) furtherAttempt() *attempt {
	if i := len(c.trials) - 1; i >= 0 && i < len(c.trouble.next) {
		return &c.trouble.next[i]
	}
	return &attempt{}
}
