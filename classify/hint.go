package classify

import (
	"math"
	"strconv"
	"strings"
	"time"
)

// number reads 1*DIGIT as a number of units. It reports false for anything else
// and for 0. What is too large becomes the longest Duration.
func number(s string, unit time.Duration) (time.Duration, bool) {
	if !isDigits(s) {
		return 0, false
	}
	n, err := strconv.ParseUint(s, 10, 64)
	if err != nil || n > uint64(math.MaxInt64/unit) { // the only error left is one of range
		return math.MaxInt64, true
	}
	return time.Duration(n) * unit, n > 0
}

// isNegative reports whether s is a number below 0.
func isNegative(s string) bool {
	digits, ok := strings.CutPrefix(strings.Trim(s, " \t"), "-")
	return ok && isDigits(digits) && strings.Trim(digits, "0") != ""
}

// isDigits reports whether s is 1*DIGIT. strconv would take a sign, too.
func isDigits(s string) bool {
	for _, c := range []byte(s) {
		if c < '0' || c > '9' {
			return false
		}
	}
	return s != ""
}

// The three forms of an HTTP-date (RFC 9110 section 5.6.7): the preferred one,
// that of RFC 850, and that of asctime. GMT stands for itself: the layouts of
// package time that say MST would believe any zone.
const (
	fixedDate   = "Mon, 02 Jan 2006 15:04:05 GMT"
	rfc850Date  = "Monday, 02-Jan-06 15:04:05 GMT"
	asctimeDate = "Mon Jan _2 15:04:05 2006"
)

// date reads an HTTP-date. now decides which century a year of two digits is of.
func date(s string, now time.Time) (time.Time, bool) {
	for _, layout := range [...]string{fixedDate, rfc850Date, asctimeDate} {
		t, err := time.Parse(layout, s)
		// Parse takes a fraction after the seconds of any layout, which makes
		// the text longer. Only the name of the day may differ in length.
		if err != nil || len(s)-strings.IndexByte(s, ',') != len(layout)-strings.IndexByte(layout, ',') {
			continue
		}
		if layout == rfc850Date {
			t = inCentury(t, now)
		}
		return t, true
	}
	return time.Time{}, false
}

// inCentury moves a date whose year has two digits to within 50 years of now: a
// year that seems further ahead is the last one that ended so (RFC 9110 section
// 5.6.7).
func inCentury(t, now time.Time) time.Time {
	t = t.AddDate(now.UTC().Year()/100*100+t.Year()%100-t.Year(), 0, 0)
	switch {
	case t.After(now.AddDate(50, 0, 0)):
		return t.AddDate(-100, 0, 0)
	case !t.After(now.AddDate(-50, 0, 0)):
		return t.AddDate(100, 0, 0)
	}
	return t
}
