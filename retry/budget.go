package retry

import (
	"sync"
	"time"
)

// bucket holds the retries that a destination may still be sent. What is taken
// for a retry is put back when that retry is never sent, or is answered in a
// way that shows the destination to be well.
type bucket struct {
	disabled  bool
	burst     float64
	ratio     float64
	perSecond float64

	mu     sync.Mutex
	tokens float64
	filled time.Time // when time last put something in
}

// roundingError lets ten tenths be one.
const roundingError = 1e-9

func newBucket(b Budget) *bucket {
	return &bucket{
		disabled:  b.Disabled,
		burst:     float64(b.Burst),
		ratio:     b.Ratio,
		perSecond: b.PerSecond,
		tokens:    float64(b.Burst),
		filled:    time.Now(),
	}
}

// take reports whether a retry may be sent, and takes it out.
func (b *bucket) take() bool {
	if b.disabled {
		return true
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.fill()
	if b.tokens < 1-roundingError {
		return false
	}
	b.tokens = max(0, b.tokens-1)
	return true
}

// refund puts back what one retry took.
func (b *bucket) refund() { b.put(1) }

// reward puts in what a call earns that succeeded at its first attempt.
func (b *bucket) reward() { b.put(b.ratio) }

func (b *bucket) put(tokens float64) {
	if b.disabled {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.tokens += tokens // fill sees to it that it is not too full
}

// left reports how many retries the bucket holds.
func (b *bucket) left() float64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.fill()
	return b.tokens
}

// full reports whether nothing is missing, or nothing is counted.
func (b *bucket) full() bool { return b.disabled || b.left() >= b.burst }

// fill puts in what the time since the last fill is worth, and lets out what the
// bucket does not hold. b.mu is held.
func (b *bucket) fill() {
	now := time.Now()
	b.tokens = min(b.tokens+max(0, now.Sub(b.filled).Seconds())*b.perSecond, b.burst)
	b.filled = now
}
