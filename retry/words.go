package retry

import (
	"strings"
)

// oneOf joins words as "a, b or c".
func oneOf(words []string, last string) string {
	n := len(words) - 1
	if n < 1 {
		return strings.Join(words, "")
	}
	return strings.Join(words[:n], ", ") + " " + last + " " + words[n]
}

// nearest returns the known name that was probably meant: the same but for
// capitals and separators, or at most two letters away. It is empty if there is
// none.
func nearest(name string, known []string) string {
	plain := func(s string) string {
		return strings.ToLower(strings.NewReplacer("_", "", "-", "", " ", "").Replace(s))
	}
	best, least := "", 3
	for _, k := range known {
		if d := distance(plain(name), plain(k), least); d < least {
			best, least = k, d
		}
	}
	return best
}

// distance returns how many letters must be put in, taken out or replaced to
// make b of a, or limit if that are as many or more.
func distance(a, b string, limit int) int {
	if len(a)-len(b) >= limit || len(b)-len(a) >= limit {
		return limit
	}
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			replace := diagonal
			if a[i] != b[j] {
				replace++
			}
			diagonal = row[j+1]
			row[j+1] = min(replace, row[j]+1, row[j+1]+1)
		}
	}
	return min(row[len(b)], limit)
}
