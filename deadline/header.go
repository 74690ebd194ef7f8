package deadline

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"time"
)

// Header is the name of the HTTP field that tells a callee how much time is left for its answer, in whole
// milliseconds: "1250" is one and a quarter seconds. Remaining time is sent, not an instant, so that the clocks of the
// two machines need not agree; the time a request spends on its way is not taken off. No standard defines the field.
const Header = "Request-Timeout-Ms"

// maxMillis is the longest time in whole milliseconds that a Duration holds, and maxDigits the length of its decimal.
const (
	maxMillis = math.MaxInt64 / int64(time.Millisecond)
	maxDigits = 13
)

// Format returns d as a value of [Header]: decimal digits and nothing else. Parts of a millisecond are dropped, so a
// callee is never told of more time than there is: less than 1 ms is "0", which says that no time is left, and so is
// a negative d.
func Format(d time.Duration) string {
	return strconv.FormatInt(max(d.Milliseconds(), 0), 10)
}

var (
	errDigits = errors.New("want decimal digits only")
	errRange  = fmt.Errorf("want at most %d milliseconds in at most %d digits", maxMillis, maxDigits)
)

// Parse reads a value of [Header], as [Format] writes it: 1 to 13 decimal digits, whole milliseconds, at most
// 9223372036854 (292 years, the longest a [time.Duration] holds). "0" is a time too: none is left.
//
// Anything else is an error that names the value: an empty one, a sign, a fraction, an exponent, a unit, a blank, a
// digit outside ASCII, a number too large or too long. The duration is 0 then, which must not be taken for a limit:
// a value that cannot be read says nothing.
func Parse(s string) (time.Duration, error) {
	if s == "" {
		return 0, invalid(s, errDigits)
	}
	var n int64
	for i := range len(s) {
		c := s[i]
		if c < '0' || c > '9' {
			return 0, invalid(s, errDigits)
		}
		// Beyond the limit n stands still; the rest is only looked at for being digits.
		if i < maxDigits {
			n = n*10 + int64(c-'0')
		}
	}
	if len(s) > maxDigits || n > maxMillis {
		return 0, invalid(s, errRange)
	}
	return time.Duration(n) * time.Millisecond, nil
}

// invalid names the value in the error, but no more than the beginning of a long one: it comes from outside, and
// errors are logged.
func invalid(s string, why error) error {
	const shown = 40
	if len(s) > shown {
		return fmt.Errorf("deadline: %s %q… (%d bytes): %w", Header, s[:shown], len(s), why)
	}
	return fmt.Errorf("deadline: %s %q: %w", Header, s, why)
}
