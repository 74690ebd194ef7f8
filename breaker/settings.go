package breaker

import (
	"errors"
	"fmt"
	"time"
)

// Settings say when a [Breaker] opens and for how long. The zero value is the default: each field says what zero
// means. It is plain data and may be copied.
type Settings struct {
	// Window is how long a result counts while the breaker is closed; zero means 30 s. It slides in ten steps: a
	// result leaves the count between 0.9 and 1.0 of Window after it was known. Else 1 ms to 24 h; in a retry.Policy
	// at least its AttemptTimeout, unless Disabled.
	Window time.Duration
	// MinResults is how many results the window must hold before the breaker may open; zero means 20. Excluded
	// results are none. Else 1 to 1,000,000.
	MinResults int
	// FailureRatio is the share of failures among the results in the window at which the breaker opens; zero means
	// 0.5. Else above 0, at most 1.
	FailureRatio float64
	// OpenFor is how long the breaker refuses when it opens; zero means 5 s. Each time it opens again out of the
	// half-open state it is twice as long as before, up to MaxOpenFor; once it was closed it starts from OpenFor
	// again. Every time is spread by up to 20 % in both directions. Else 1 ms to 24 h.
	OpenFor time.Duration
	// MaxOpenFor is the longest the breaker refuses, spread included; zero means 60 s, or OpenFor if that is longer.
	// Else OpenFor to 24 h.
	MaxOpenFor time.Duration
	// Probes is how many attempts a half-open breaker lets through, and how many of them must succeed to close it;
	// zero means 3. One failure opens it again; an excluded result gives its place to another attempt. Else 1 to
	// 1,000,000.
	Probes int
	// Disabled means that everything passes and nothing is counted, at no cost. The other fields must be valid all
	// the same.
	Disabled bool
}

const (
	defaultWindow       = 30 * time.Second
	defaultMinResults   = 20
	defaultFailureRatio = 0.5
	defaultOpenFor      = 5 * time.Second
	defaultMaxOpenFor   = 60 * time.Second
	defaultProbes       = 3

	// The limits keep gobreaker's arithmetic from overflowing; nothing sensible is outside of them.
	shortest  = time.Millisecond
	longest   = 24 * time.Hour
	mostCount = 1_000_000

	buckets = 10
)

// Validate returns nil if s can be used, else one error that joins every problem found, each naming the field, its
// value and what is allowed.
func (s Settings) Validate() error {
	var problems []error
	problem := func(format string, args ...any) {
		problems = append(problems, fmt.Errorf("breaker: "+format, args...))
	}
	duration := func(field string, d time.Duration) {
		if d != 0 && (d < shortest || d > longest) {
			problem("%s is %v: allowed is 0 (the default) or %v to %v", field, d, shortest, longest)
		}
	}
	count := func(field string, n int) {
		if n < 0 || n > mostCount {
			problem("%s is %d: allowed is 0 (the default) or 1 to %d", field, n, mostCount)
		}
	}
	duration("Window", s.Window)
	count("MinResults", s.MinResults)
	if !(s.FailureRatio >= 0 && s.FailureRatio <= 1) { // so written, NaN is refused too
		problem("FailureRatio is %v: allowed is 0 (the default) or above 0 to 1", s.FailureRatio)
	}
	duration("OpenFor", s.OpenFor)
	duration("MaxOpenFor", s.MaxOpenFor)
	if open := s.WithDefaults().OpenFor; s.MaxOpenFor >= shortest && open > s.MaxOpenFor && open <= longest {
		problem("MaxOpenFor is %v: allowed is 0 (the default) or at least OpenFor, which is %v", s.MaxOpenFor, open)
	}
	count("Probes", s.Probes)
	return errors.Join(problems...)
}

// WithDefaults returns s with every zero replaced by what it means, for those who want to show it.
func (s Settings) WithDefaults() Settings {
	if s.Window == 0 {
		s.Window = defaultWindow
	}
	if s.MinResults == 0 {
		s.MinResults = defaultMinResults
	}
	if s.FailureRatio == 0 {
		s.FailureRatio = defaultFailureRatio
	}
	if s.OpenFor == 0 {
		s.OpenFor = defaultOpenFor
	}
	if s.MaxOpenFor == 0 {
		s.MaxOpenFor = max(defaultMaxOpenFor, s.OpenFor)
	}
	if s.Probes == 0 {
		s.Probes = defaultProbes
	}
	return s
}

// bucketPeriod returns a tenth of the window, rounded up: rounded down, an eleventh bucket would be needed.
func bucketPeriod(window time.Duration) time.Duration {
	return (window + buckets - 1) / buckets
}
