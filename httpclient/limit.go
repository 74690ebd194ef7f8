package httpclient

import (
	"context"
	"sync"
	"time"

	"github.com/reintento/reintento/retry"
)

// limit is the time limit of an attempt. It ends with the response's head: a
// body may take longer. Progress of the request's body starts it anew, within
// the time of the whole.
type limit struct {
	mu      sync.Mutex
	timer   *time.Timer
	timeout time.Duration
	until   time.Time
	cancel  context.CancelCauseFunc
	running bool
	fired   bool
}

func (l *limit) start(t *retry.Try, cancel context.CancelCauseFunc) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.timeout, l.until, l.cancel, l.fired = t.Timeout, t.Until, cancel, false
	d, ok := l.next()
	if l.running = ok; !ok {
		return
	}
	if l.timer == nil {
		l.timer = time.AfterFunc(d, l.fire)
	} else {
		l.timer.Reset(d)
	}
}

// next returns how long the attempt may last without progress. l.mu is held.
func (l *limit) next() (d time.Duration, ok bool) {
	d, ok = l.timeout, l.timeout > 0
	if !l.until.IsZero() {
		if left := time.Until(l.until); !ok || left < d {
			d, ok = left, true
		}
	}
	return d, ok
}

func (l *limit) fire() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.running {
		return
	}
	l.running, l.fired = false, true
	l.cancel(errAttemptTimeout)
}

// progress starts the timer anew.
func (l *limit) progress() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.running {
		d, _ := l.next()
		l.timer.Reset(d)
	}
}

// stop ends the limit and reports whether the attempt was within it.
func (l *limit) stop() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.running {
		l.running = false
		l.timer.Stop()
	}
	return !l.fired
}
