package main

import (
	"errors"
	"math"
	"slices"
	"sync"
	"time"

	"github.com/reintento/reintento/retry"
)

// bin is the resolution of the curves.
const bin = 500 * time.Millisecond

// measures is what a simulation counts, by bins of time.
type measures struct {
	Calls    []int         // by arrival
	Due      []int         // by when they would succeed if all were well
	Attempts []int         // by start
	Good     []int         // successes, by their end
	Open     []float64     // share of breakers that are not closed
	Budget   []float64     // retries in hand, mean of the fleet
	Capacity float64       // requests a second when well
	From, To time.Duration // the fault

	FailedIn     int           // calls of the fault that ended in an error
	FailedAfter  int           // calls made after it that did
	FailTime     time.Duration // 99 of 100 of those of the fault took no longer
	Twice        int           // intentions with more than one effect
	FailedThough int           // calls of the fault that ended in an error although the work was done
	ToldNot      int           // calls whose caller was told that the work was not done, although it was

	mu      sync.Mutex
	began   time.Time
	failing []time.Duration
	failed  map[int]failure // by intention
}

// failure is what the caller of an intention was told.
type failure struct{ inFault, unknown bool }

func newMeasures(began time.Time, f fault, end time.Duration, capacity float64) *measures {
	n := int(end/bin) + 1
	return &measures{
		Calls: make([]int, n), Due: make([]int, n), Attempts: make([]int, n), Good: make([]int, n),
		Open: make([]float64, n), Budget: make([]float64, n),
		Capacity: capacity, From: f.from, To: f.to,
		began: began, failed: make(map[int]failure),
	}
}

// at returns the bin of a moment. What happens after the end counts to the end.
func (m *measures) at(t time.Time) int {
	return min(int(t.Sub(m.began)/bin), len(m.Calls)-1)
}

func (m *measures) called(t time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.Calls[m.at(t)]++
	m.Due[m.at(t.Add(serviceTime))]++
}

func (m *measures) tried(t time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.Attempts[m.at(t)]++
}

func (m *measures) ended(n int, start time.Time, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	now := time.Now()
	if err == nil {
		m.Good[m.at(now)]++
		return
	}
	t := start.Sub(m.began)
	f := failure{inFault: t >= m.From && t < m.To, unknown: errors.Is(err, retry.ErrOutcomeUnknown)}
	m.failed[n] = f
	switch {
	case f.inFault:
		m.FailedIn++
		m.failing = append(m.failing, now.Sub(start))
	case t >= m.To:
		m.FailedAfter++
	}
}

func (m *measures) state(t time.Time, open, budget float64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	// A tick ends a bin.
	i := max(0, int(t.Sub(m.began)/bin)-1)
	if i < len(m.Open) {
		m.Open[i], m.Budget[i] = open, budget
	}
}

// close compares what callers were told with what the service did.
func (m *measures) close(s *service) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for n, effects := range s.effects {
		if effects > 1 {
			m.Twice++
		}
		f, failed := m.failed[n]
		if failed && f.inFault {
			m.FailedThough++
		}
		if failed && !f.unknown {
			m.ToldNot++
		}
	}
	if n := len(m.failing); n > 0 {
		slices.Sort(m.failing)
		m.FailTime = m.failing[int(math.Ceil(0.99*float64(n)))-1]
	}
}

func sum(counts []int, from, to time.Duration) (n int) {
	for i := int(from / bin); i < min(int(to/bin), len(counts)); i++ {
		n += counts[i]
	}
	return n
}

// perCall returns the attempts for each call between two moments.
func (m *measures) perCall(from, to time.Duration) float64 {
	return ratio(sum(m.Attempts, from, to), sum(m.Calls, from, to))
}

func (m *measures) inFault() float64 { return m.perCall(m.From, m.To) }
func (m *measures) afterIt() float64 { return m.perCall(m.To, m.To+soon) }

// soon is the time after a fault in which what it has left shows.
const soon = 15 * time.Second

// goodput is what succeeded in the time of the fault, as a share of its calls.
func (m *measures) goodput() float64 {
	return ratio(sum(m.Good, m.From, m.To), m.callsIn())
}

func (m *measures) callsIn() int { return sum(m.Calls, m.From, m.To) }

// success is the share of the calls of the fault that succeeded, then or later.
func (m *measures) success() float64 { return 1 - ratio(m.FailedIn, m.callsIn()) }

// failedThough is the share of the calls of the fault that failed although the
// work was done.
func (m *measures) failedThough() float64 { return ratio(m.FailedThough, m.callsIn()) }

// failAfter is the share of the calls made after the fault that failed.
func (m *measures) failAfter() float64 {
	return ratio(m.FailedAfter, sum(m.Calls, m.To, m.To+after))
}

// recovery is the time from the end of the fault until the goodput of every
// second that follows is 95 % of what it would be if all were well; -1 if that
// does not come.
func (m *measures) recovery() time.Duration {
	from := int(m.To / bin)
	const second = int(time.Second / bin)
	recovered := -1
	for i := from; i+second < len(m.Calls); i++ {
		at := time.Duration(i) * bin
		switch {
		case float64(sum(m.Good, at, at+time.Second)) < 0.95*float64(sum(m.Due, at, at+time.Second)):
			recovered = -1
		case recovered < 0:
			recovered = i
		}
	}
	if recovered < 0 {
		return -1
	}
	return time.Duration(recovered-from) * bin
}

// peak is the highest load of a second after the fault, as a share of the
// capacity.
func (m *measures) peak() (highest float64) {
	for at := m.To; at+time.Second <= m.To+after; at += bin {
		highest = max(highest, float64(sum(m.Attempts, at, at+time.Second))/m.Capacity)
	}
	return highest
}

func ratio(a, b int) float64 {
	if b == 0 {
		return 0
	}
	return float64(a) / float64(b)
}
