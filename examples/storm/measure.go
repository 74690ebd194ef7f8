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
	Attempts []int         // by start
	Good     []int         // successes, by their end
	Open     []float64     // share of breakers that are not closed
	Budget   []float64     // retries in hand, mean of the fleet
	Capacity float64       // requests a second when well
	From, To time.Duration // the fault

	Total        int           // calls
	Failed       int           // that ended in an error
	FailTime     time.Duration // 99 of 100 of the calls that failed in the fault took no longer
	Twice        int           // intentions with more than one effect
	FailedThough int           // calls that ended in an error although the work was done
	ToldNot      int           // of these, those that were told that it was not done

	mu      sync.Mutex
	began   time.Time
	failing []time.Duration
	unknown map[int]bool // of the failed intentions, whether their caller was told an unknown outcome
}

func newMeasures(began time.Time, f fault, end time.Duration, capacity float64) *measures {
	n := int(end/bin) + 1
	return &measures{
		Calls: make([]int, n), Attempts: make([]int, n), Good: make([]int, n),
		Open: make([]float64, n), Budget: make([]float64, n),
		Capacity: capacity, From: f.from, To: f.to,
		began: began, unknown: make(map[int]bool),
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
	m.Total++
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
	m.Failed++
	m.unknown[n] = errors.Is(err, retry.ErrOutcomeUnknown)
	if t := start.Sub(m.began); t >= m.From && t < m.To {
		m.failing = append(m.failing, now.Sub(start))
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
		if unknown, failed := m.unknown[n]; failed {
			m.FailedThough++
			if !unknown {
				m.ToldNot++
			}
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
func (m *measures) afterIt() float64 { return m.perCall(m.To, m.To+after) }

// goodput is what succeeded in the time of the fault, as a share of the calls.
func (m *measures) goodput() float64 {
	return ratio(sum(m.Good, m.From, m.To), sum(m.Calls, m.From, m.To))
}

// success is the share of all calls that succeeded.
func (m *measures) success() float64 { return 1 - float64(m.Failed)/float64(m.Total) }

// recovery is the time from the end of the fault until the goodput of every
// second that follows is 95 % of the calls; -1 if that never comes.
func (m *measures) recovery() time.Duration {
	from := int(m.To / bin)
	const second = int(time.Second / bin)
	recovered := -1
	for i := from; i+second < len(m.Calls); i++ {
		at := time.Duration(i) * bin
		switch {
		case ratio(sum(m.Good, at, at+time.Second), sum(m.Calls, at, at+time.Second)) < 0.95:
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
