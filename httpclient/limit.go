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
	cancel  context.CancelCauseFunc // ends the attempt; nil when that has ended
	running bool
	fired   bool
	inBody  bool // it is that of the response's body
	late    int  // runs of the timer that have begun and are no longer meant
}

// timeUp is the cause that ends an attempt, or a response, whose time is over.
type timeUp string

const (
	errAttemptTimeout timeUp = "httpclient: no response within the time of the attempt"
	errBodyIdle       timeUp = "httpclient: the response's body was idle for too long"
	errClientTimeout  timeUp = "httpclient: the response's body took longer than the client's Timeout"
)

func (e timeUp) Error() string      { return string(e) }
func (timeUp) Timeout() bool        { return true }
func (timeUp) Temporary() bool      { return true } // with Timeout that of a net.Error, as context.DeadlineExceeded
func (timeUp) Is(target error) bool { return target == context.DeadlineExceeded }

func (l *limit) start(t *retry.Try, cancel context.CancelCauseFunc) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.timeout, l.until, l.cancel, l.fired = t.Timeout, t.Until, cancel, false
	if l.running = l.timeout > 0; !l.running {
		return
	}
	if l.timer == nil {
		l.timer = time.AfterFunc(l.timeout, l.fire)
	} else {
		l.timer.Reset(l.timeout)
	}
}

func (l *limit) fire() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.late > 0 {
		l.late--
		return
	}
	if !l.running {
		return
	}
	l.running, l.fired = false, true
	if l.inBody {
		l.cancel(errClientTimeout)
	} else {
		l.cancel(errAttemptTimeout)
	}
}

// bound gives the body of the response that has come the time left to it.
func (l *limit) bound(left time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.running, l.inBody = true, true
	if l.timer == nil {
		l.timer = time.AfterFunc(left, l.fire)
	} else {
		l.timer.Reset(left)
	}
}

// isOver reports whether the time is over.
func (l *limit) isOver() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.fired
}

// progress starts the timer anew.
func (l *limit) progress() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.running || l.inBody {
		return
	}
	d := l.timeout
	if !l.until.IsZero() {
		d = min(d, time.Until(l.until))
	}
	if !l.timer.Reset(d) {
		l.late++
	}
}

// stop ends the limit and reports whether the attempt was within it.
func (l *limit) stop() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.halt()
}

// halt is stop with mu held.
func (l *limit) halt() bool {
	if l.running {
		l.running = false
		if !l.timer.Stop() {
			l.late++
		}
	}
	return !l.fired
}
