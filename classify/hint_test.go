package classify_test

import (
	"math"
	"math/big"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/reintento/reintento/classify"
)

const veryLong time.Duration = math.MaxInt64

func TestRetryAfter(t *testing.T) {
	tests := []struct {
		name   string
		header http.Header
		want   time.Duration // 0: no hint
	}{
		{"no header", nil, 0},
		{"seconds", header("Retry-After", "120"), 2 * time.Minute},
		{"seconds with blanks around them", header("Retry-After", " \t7 "), 7 * time.Second},
		{"seconds with zeros in front", header("Retry-After", "0007"), 7 * time.Second},

		// B01: a very large but valid integer is multiplied by one second, wraps int64 and comes back negative while still flagged as parsed, so the client fires all retries at once at the very server that asked to be left alone.
		{"more seconds than a Duration holds", header("Retry-After", "9223372037"), veryLong},
		{"the most that it holds", header("Retry-After", "9223372036"), 9223372036 * time.Second},
		{"the largest int64", header("Retry-After", "9223372036854775807"), veryLong},
		{"the largest uint64", header("Retry-After", "18446744073709551615"), veryLong},
		{"more than any integer", header("Retry-After", strings.Repeat("9", 400)), veryLong},
		{"more milliseconds than a Duration holds", header("Retry-After-Ms", "9223372036855"), veryLong},
		{"a date further ahead than a Duration reaches", header("Retry-After", "Fri, 31 Dec 9999 23:59:59 GMT"), veryLong},

		// B02: a negative number (or a date already past) became a negative duration: one client threw from its sleeper and lost a retryable call, another reused an old interval.
		{"a negative number", header("Retry-After", "-1"), 0},
		{"a date just past", header("Retry-After", "Mon, 30 Nov 2026 17:38:18 GMT"), 0},

		// B03: some servers send sub-second decimals; integer parsers either crash, or cut the value to 0 and hammer the server.
		// Unusable, and the own delay counts: never sooner than the server said, for it said nothing that can be read.
		{"half a second", header("Retry-After", "0.5"), 0},
		{"a fraction", header("Retry-After", "1.939"), 0},

		// B04: values such as -3, +3 or 1.5 failed the digits test, fell through to a lenient date parser and came back as a date decades ahead; a superscript digit passed an is-digit test and crashed the parser.
		{"a plus sign", header("Retry-After", "+5"), 0},
		{"a minus sign", header("Retry-After", "-3"), 0},
		{"a decimal point", header("Retry-After", "1.5"), 0},
		{"an exponent", header("Retry-After", "1e3"), 0},
		{"hexadecimal", header("Retry-After", "0x10"), 0},
		{"infinity", header("Retry-After", "inf"), 0},
		{"not a number", header("Retry-After", "NaN"), 0},
		{"a superscript digit", header("Retry-After", "²"), 0},
		{"a parameter", header("Retry-After", "5;q=1"), 0},
		{"a list", header("Retry-After", "5, 10"), 0},
		{"the same list in two fields", header("Retry-After", "5", "Retry-After", "10"), 0},
		{"nothing", header("Retry-After", ""), 0},
		{"blanks", header("Retry-After", " "), 0},
		{"an underscore", header("Retry-After", "1_000"), 0},

		// B05: parsers know only the modern date form; an RFC 850 or asctime date is treated as missing and the retry comes too early.
		{"the preferred date", header("Retry-After", "Mon, 30 Nov 2026 17:38:39 GMT"), 20 * time.Second},
		{"an RFC 850 date", header("Retry-After", "Monday, 30-Nov-26 17:38:39 GMT"), 20 * time.Second},
		{"an asctime date", header("Retry-After", "Mon Nov 30 17:38:39 2026"), 20 * time.Second},
		{"an asctime date with one digit for the day", header("Retry-After", "Tue Dec  1 17:38:19 2026"), 24 * time.Hour},
		{"an RFC 850 date 44 years ahead", header("Retry-After", "Sunday, 30-Nov-70 17:38:19 GMT"), 16071 * 24 * time.Hour},
		{"an RFC 850 date that would be 51 years ahead is past", header("Retry-After", "Tuesday, 30-Nov-77 17:38:19 GMT"), 0},
		{"an RFC 850 date a moment more than 50 years ahead is past", header("Retry-After", "Monday, 30-Nov-76 17:38:20 GMT"), 0},

		// B06: Go's RFC1123 layout accepts any zone abbreviation and, if the name is unknown, invents one with offset zero, so an EST date is silently read as UTC and the wait is hours off.
		{"another zone", header("Retry-After", "Mon, 30 Nov 2026 17:38:39 EST"), 0},
		{"UTC by its other name", header("Retry-After", "Mon, 30 Nov 2026 17:38:39 UTC"), 0},
		{"an offset", header("Retry-After", "Mon, 30 Nov 2026 17:38:39 +0000"), 0},
		{"another zone in an RFC 850 date", header("Retry-After", "Monday, 30-Nov-26 17:38:39 EST"), 0},
		{"a zone in an asctime date", header("Retry-After", "Mon Nov 30 17:38:39 EST 2026"), 0},

		// B07: an expired date becomes a zero wait which also skips jitter, so a cached or skewed header makes the whole fleet retry in step with no pause.
		{"a date long past", header("Retry-After", "Fri, 31 Dec 1999 23:59:59 GMT"), 0},
		{"a date of this second", header("Retry-After", "Mon, 30 Nov 2026 17:38:19 GMT"), 0},

		// B08: zero doubled as the library's 'do not retry' sentinel, so a server saying 'now is fine' killed the call; elsewhere zero skipped the backoff and spun.
		{"zero", header("Retry-After", "0"), 0},
		{"many zeros", header("Retry-After", "000"), 0},

		// B17: an absolute date is compared with the local clock; if the client is an hour behind, a 5 s wait becomes an hour (or zero if it is ahead).
		{"a server an hour ahead", header("Date", "Mon, 30 Nov 2026 18:38:19 GMT", "Retry-After", "Mon, 30 Nov 2026 18:38:24 GMT"), 5 * time.Second},
		{"a server an hour behind", header("Date", "Mon, 30 Nov 2026 16:38:19 GMT", "Retry-After", "Mon, 30 Nov 2026 16:38:24 GMT"), 5 * time.Second},
		{"its Date in an obsolete form", header("Date", "Mon Nov 30 18:38:19 2026", "Retry-After", "Mon, 30 Nov 2026 18:38:24 GMT"), 5 * time.Second},
		{"an answer from a cache", header("Date", "Mon, 30 Nov 2026 16:38:19 GMT", "Age", "3600", "Retry-After", "Mon, 30 Nov 2026 17:38:29 GMT"), 10 * time.Second},
		{"a Date that is none", header("Date", "now", "Retry-After", "Mon, 30 Nov 2026 17:38:29 GMT"), 10 * time.Second},
		{"a date before the answer's own Date", header("Date", "Mon, 30 Nov 2026 18:38:19 GMT", "Retry-After", "Mon, 30 Nov 2026 17:38:29 GMT"), 0},
		{"seconds know no clock", header("Date", "Mon, 30 Nov 2026 18:38:19 GMT", "Retry-After", "5"), 5 * time.Second},

		{"a date with a fraction", header("Retry-After", "Mon, 30 Nov 2026 17:38:39.5 GMT"), 0},
		{"an asctime date with a fraction", header("Retry-After", "Mon Nov 30 17:38:39,5 2026"), 0},
		{"a day that is none", header("Retry-After", "Mon, 31 Nov 2026 17:38:39 GMT"), 0},
		{"an ISO date", header("Retry-After", "2026-11-30T17:38:39Z"), 0},

		{"milliseconds", header("Retry-After-Ms", "1500"), 1500 * time.Millisecond},
		{"Azure's milliseconds", header("X-Ms-Retry-After-Ms", "1500"), 1500 * time.Millisecond},
		{"milliseconds come first", header("Retry-After", "1", "X-Ms-Retry-After-Ms", "20", "Retry-After-Ms", "300"), 300 * time.Millisecond},
		{"Azure's come second", header("Retry-After", "1", "X-Ms-Retry-After-Ms", "20"), 20 * time.Millisecond},
		{"milliseconds that are none", header("Retry-After", "1", "Retry-After-Ms", "1.5"), time.Second},
		{"zero milliseconds", header("Retry-After", "1", "Retry-After-Ms", "0"), time.Second},
		{"a date for milliseconds", header("Retry-After-Ms", "Mon, 30 Nov 2026 17:38:39 GMT"), 0},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, ok := classify.RetryAfter(tt.header, received)
			if got != tt.want || ok != (tt.want > 0) {
				t.Errorf("RetryAfter(%v) = %v, %t, want %v, %t", tt.header, got, ok, tt.want, tt.want > 0)
			}
		})
	}
}

func TestRetryAfterReadsTwoDigitYearsByTheYearOfReceipt(t *testing.T) {
	received := time.Date(2099, time.December, 31, 23, 59, 50, 0, time.UTC)
	got, ok := classify.RetryAfter(header("Retry-After", "Friday, 01-Jan-00 00:00:00 GMT"), received)
	if got != 10*time.Second || !ok {
		t.Errorf("RetryAfter across the century = %v, %t, want 10s, true", got, ok)
	}
}

func TestRetryAfterCountsFromTheMomentOfReceipt(t *testing.T) {
	got, ok := classify.RetryAfter(header("Retry-After", "Mon, 30 Nov 2026 17:38:39 GMT"), received.Add(300*time.Millisecond))
	if want := 19700 * time.Millisecond; got != want || !ok {
		t.Errorf("RetryAfter(20 s after %v + 300ms) = %v, %t, want %v, true", received, got, ok, want)
	}
}

func TestRetryAfterTakesNoTimeOfReceiptForNow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		at := time.Now().Add(20 * time.Second).UTC().Format(http.TimeFormat)
		got, ok := classify.RetryAfter(header("Retry-After", at), time.Time{})
		if got != 20*time.Second || !ok {
			t.Errorf("RetryAfter(%s, zero time) = %v, %t, want 20s, true", at, got, ok)
		}
	})
}

func FuzzRetryAfter(f *testing.F) {
	f.Add(0, "120", "", "", int64(1_000_000))
	f.Add(0, "9223372037", "", "", int64(0))
	f.Add(1, "9223372036855", "", "", int64(0))
	f.Add(2, "+5", "", "", int64(0))
	f.Add(0, "Monday, 30-Nov-26 17:38:39 GMT", "Mon, 30 Nov 2026 17:38:19 GMT", "", int64(1796060299))
	f.Add(0, "Mon Nov 30 17:38:39 2026", "", "12", int64(1796060299))
	f.Add(0, "Fri, 31 Dec 9999 23:59:59 GMT", "Mon, 01 Jan 0001 00:00:00 GMT", "", int64(-62135596800))
	f.Fuzz(func(t *testing.T, which int, value, date, age string, unix int64) {
		name := []string{"Retry-After", "Retry-After-Ms", "X-Ms-Retry-After-Ms"}[uint(which)%3]
		h := http.Header{name: {value}}
		if date != "" {
			h.Set("Date", date)
		}
		if age != "" {
			h.Set("Age", age)
		}
		received := time.Unix(unix%253402300800, 0)
		d, ok := classify.RetryAfter(h, received)
		if d < 0 || ok != (d > 0) {
			t.Fatalf("RetryAfter(%v, %v) = %v, %t, want a positive wait, or 0 and false", h, received, d, ok)
		}
		digits := strings.Trim(value, " \t")
		if digits == "" || strings.Trim(digits, "0123456789") != "" {
			return
		}
		unit := time.Millisecond
		if name == "Retry-After" {
			unit = time.Second
		}
		asked, _ := new(big.Int).SetString(digits, 10)
		asked.Mul(asked, big.NewInt(int64(unit)))
		want := veryLong
		if asked.IsInt64() {
			want = time.Duration(asked.Int64())
		}
		if d != want {
			t.Errorf("RetryAfter(%v) = %v, want %v", h, d, want)
		}
	})
}
