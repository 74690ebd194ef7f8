package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/mattn/go-isatty"

	"github.com/reintento/reintento/breaker"
	"github.com/reintento/reintento/retry"
)

// progress tells how far the payments are: with a bar on a terminal, with a
// line for every tenth elsewhere. It is safe for concurrent use.
type progress struct {
	w        io.Writer
	terminal bool
	total    int
	start    time.Time

	mu     sync.Mutex // guards what follows, and the order of what is written
	told   [3]int     // by what callers were told
	opened int
	over   bool
}

func newProgress(w io.Writer, total int, start time.Time) *progress {
	f, ok := w.(*os.File)
	return &progress{w: w, total: total, start: start, terminal: ok && isatty.IsTerminal(f.Fd())}
}

// begin says what is going to happen.
func (p *progress) begin(o options) {
	p.notef("%d payments by %d workers, client %s, seed %d", o.n, o.workers, o.client, o.seed)
}

// end draws the bar for the last time.
func (p *progress) end(interrupted bool) {
	if interrupted {
		p.notef("interrupted: the audit of what there is follows")
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.terminal {
		fmt.Fprintln(p.w) // the bar stays as it is
	}
	p.over = true
}

// notef writes a line, above the bar if there is one.
func (p *progress) notef(format string, args ...any) {
	p.mu.Lock()
	defer p.mu.Unlock()
	clear := ""
	if p.terminal && !p.over {
		clear = "\r\x1b[K"
	}
	fmt.Fprintf(p.w, "%s%5.1fs  %s\n", clear, time.Since(p.start).Seconds(), fmt.Sprintf(format, args...))
	p.draw()
}

// paid counts a caller who has his answer.
func (p *progress) paid(t told) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.told[t]++
	if p.terminal {
		p.draw()
		return
	}
	if done := p.done(); done*10/p.total != (done-1)*10/p.total {
		fmt.Fprintf(p.w, "%5.1fs  %s\n", time.Since(p.start).Seconds(), p.count())
	}
}

// draw writes the bar over the old one. p.mu is held.
func (p *progress) draw() {
	if !p.terminal || p.over {
		return
	}
	const width = 30
	full := width * p.done() / p.total
	fmt.Fprintf(p.w, "\r\x1b[K[%s%s] %s", strings.Repeat("#", full), strings.Repeat(".", width-full), p.count())
}

// done returns how many callers have their answer. p.mu is held.
func (p *progress) done() int { return p.told[0] + p.told[1] + p.told[2] }

// count says how many callers were told what. p.mu is held.
func (p *progress) count() string {
	s := fmt.Sprintf("%d/%d paid", p.told[toldApplied], p.total)
	if n := p.told[toldFailed]; n > 0 {
		s += fmt.Sprintf(", %d failed", n)
	}
	if n := p.told[toldUnknown]; n > 0 {
		s += fmt.Sprintf(", %d unknown", n)
	}
	return s
}

// observe is the SDK's observer.
func (p *progress) observe(_ context.Context, e retry.Event) {
	if e.Kind != retry.EventBreakerChange {
		return
	}
	if e.Breaker.To == breaker.Open {
		p.mu.Lock()
		p.opened++
		p.mu.Unlock()
	}
	p.notef("breaker: %v -> %v", e.Breaker.From, e.Breaker.To)
}

// breakerOpenings returns how often the breaker has opened.
func (p *progress) breakerOpenings() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.opened
}
