package deadline_test

import (
	"math"
	"strings"
	"testing"
	"time"

	"github.com/reintento/reintento/deadline"
)

func TestFormat(t *testing.T) {
	for _, tt := range []struct {
		name string
		d    time.Duration
		want string
	}{
		{"whole milliseconds", 1250 * time.Millisecond, "1250"},
		{"one millisecond", time.Millisecond, "1"},
		{"hours", 36 * time.Hour, "129600000"},
		{"the longest", math.MaxInt64, "9223372036854"},

		{"a callee is never told more than there is", 2*time.Millisecond - 1, "1"},
		{"less than a millisecond is none", time.Millisecond - 1, "0"},
		{"a nanosecond is none", 1, "0"},
		{"none", 0, "0"},

		{"never negative", -1, "0"},
		{"never negative, however late", -time.Hour, "0"},
		{"never negative, the latest", math.MinInt64, "0"},
	} {
		if got := deadline.Format(tt.d); got != tt.want {
			t.Errorf("%s: Format(%v) = %q, want %q", tt.name, tt.d, got, tt.want)
		}
	}
}

func TestParse(t *testing.T) {
	for _, tt := range []struct {
		name, s string
		want    time.Duration
	}{
		{"whole milliseconds", "1250", 1250 * time.Millisecond},
		{"none", "0", 0},
		{"leading zeros", "0000000001250", 1250 * time.Millisecond},
		{"the longest", "9223372036854", 9223372036854 * time.Millisecond},
	} {
		if got, err := deadline.Parse(tt.s); got != tt.want || err != nil {
			t.Errorf("%s: Parse(%q) = %v, %v, want %v, nil", tt.name, tt.s, got, err, tt.want)
		}
	}
}

func TestParseRejects(t *testing.T) {
	for _, tt := range []struct{ name, s string }{
		{"nothing", ""},
		{"a plus sign", "+5"},
		{"a minus sign", "-5"},
		{"minus zero", "-0"},
		{"a fraction", "1.5"},
		{"a fraction of zero", "5.0"},
		{"an exponent", "1e3"},
		{"a base", "0x10"},
		{"separated digits", "1_000"},
		{"grouped digits", "1,000"},
		{"a blank before", " 5"},
		{"a blank behind", "5 "},
		{"a blank alone", " "},
		{"a tab", "5\t"},
		{"a line break", "5\n"},
		{"a zero byte", "5\x00"},
		{"a unit", "5ms"},
		{"two values", "5, 10"},
		{"a parameter", "5;q=1"},
		{"digits of another script", "٥"},
		{"a raised digit", "²"},
		{"infinity", "inf"},
		{"no number", "NaN"},

		{"one too many", "9223372036855"},
		{"the largest of 13 digits", "9999999999999"},
		{"14 digits", "10000000000000"},
		{"what an int64 holds", "9223372036854775807"},
		{"what wraps around to 1 in 64 bits", "18446744073709551617"},
		{"a small value in too many digits", "00000000000001"},
		{"very many digits", strings.Repeat("9", 1<<16)},
		{"very many digits and a letter", strings.Repeat("0", 1<<16) + "x"},
	} {
		got, err := deadline.Parse(tt.s)
		if got != 0 || err == nil {
			t.Errorf("%s: Parse(%.50q) = %v, %v, want 0 and an error", tt.name, tt.s, got, err)
			continue
		}
		// The error names the field and the value, or the beginning of a long one, and what is allowed.
		for _, want := range []string{deadline.Header, quoted(tt.s), "want "} {
			if !strings.Contains(err.Error(), want) {
				t.Errorf("%s: Parse(%.50q): error %q does not contain %q", tt.name, tt.s, err, want)
			}
		}
		if len(err.Error()) > 250 {
			t.Errorf("%s: the error has %d bytes, want a long value cut", tt.name, len(err.Error()))
		}
	}
}

// quoted returns the part of s that an error must show, as %q writes it, without the closing quotation mark.
func quoted(s string) string {
	for r, q := range map[string]string{
		"\t": `"5\t`, "\n": `"5\n`, "\x00": `"5\x00`,
	} {
		if strings.Contains(s, r) {
			return q
		}
	}
	return `"` + s[:min(len(s), 40)]
}

func FuzzParse(f *testing.F) {
	for _, s := range []string{"0", "1250", "0001", "9223372036854", "9223372036855", "+1", "-1", "1.5", "", " ", "²", "18446744073709551617"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		d, err := deadline.Parse(s)
		if err != nil {
			if d != 0 {
				t.Errorf("Parse(%q) = %v with an error, want 0", s, d)
			}
			return
		}
		if d < 0 || d%time.Millisecond != 0 {
			t.Errorf("Parse(%q) = %v, want whole milliseconds from 0", s, d)
		}
		want := strings.TrimLeft(s, "0")
		if want == "" {
			want = "0"
		}
		if got := deadline.Format(d); got != want {
			t.Errorf("Format(Parse(%q)) = %q, want %q", s, got, want)
		}
	})
}

func FuzzFormat(f *testing.F) {
	for _, d := range []int64{0, 1, -1, 999_999, 1_000_000, math.MaxInt64, math.MinInt64} {
		f.Add(d)
	}
	f.Fuzz(func(t *testing.T, ns int64) {
		d := time.Duration(ns)
		got, err := deadline.Parse(deadline.Format(d))
		if err != nil {
			t.Fatalf("Parse(Format(%v)): %v", d, err)
		}
		if lost := max(d, 0) - got; lost < 0 || lost >= time.Millisecond {
			t.Errorf("Parse(Format(%v)) = %v, want no more than there is and less than 1ms lost", d, got)
		}
	})
}

func BenchmarkFormat(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		deadline.Format(1250 * time.Millisecond)
	}
}

func BenchmarkParse(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		_, _ = deadline.Parse("1250")
	}
}
