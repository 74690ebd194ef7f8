package retry

import (
	"sync"
	"sync/atomic"
	"time"
)

// pause holds calls to a destination back that has asked to be left alone. It
// is shared by all calls of the process to that destination.
type pause struct {
	set atomic.Bool // whether there ever was one: a call that never met a hint takes no lock

	mu      sync.Mutex
	until   time.Time
	length  time.Duration
	waiting int
}

// extend pauses the destination for d from now, if it is not paused for longer.
func (p *pause) extend(d time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if until := time.Now().Add(d); until.After(p.until) {
		p.until, p.length = until, d
		p.set.Store(true)
	}
}

// left reports how long the pause still lasts, and how long it was.
func (p *pause) left() (left, length time.Duration) {
	if !p.set.Load() {
		return 0, 0
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	left = time.Until(p.until)
	if left <= 0 {
		p.set.Store(false)
		return 0, 0
	}
	return left, p.length
}

// enter takes one of the places for those that wait, and reports whether there
// was one. Who got one calls leave.
func (p *pause) enter(places float64) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if float64(p.waiting) >= places {
		return false
	}
	p.waiting++
	return true
}

func (p *pause) leave() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.waiting--
}
