package breaker

// Pass is the right to make one attempt, as [Breaker.Allow] gives it. It belongs to one goroutine and is settled in one
// variable: a copy made before would count a second time. The zero Pass has nothing to settle.
type Pass struct {
	breaker *Breaker
	phase   *phase
}

// Settle tells the breaker the result of the attempt. The first call counts; further ones, and those on the zero Pass,
// do nothing. So it can be put into a defer as a failure, for a panic or a [runtime.Goexit] in the attempt, and be
// called earlier with the real result; neither needs a recover.
//
// A result that comes after the state has changed belongs to the past and counts no more. While the breaker is closed a
// result counts from the moment it is settled, not from that of the Allow, so an attempt may take longer than the
// window. A Result outside the list is a failure.
func (p *Pass) Settle(r Result) {
	b := p.breaker
	if b == nil {
		return
	}
	p.breaker = nil
	if r == Excluded && p.phase.state == Closed {
		return // nothing was taken, nothing is counted
	}
	b.settle(p.phase, r)
}
