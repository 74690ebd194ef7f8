package classify_test

import (
	"fmt"
	"net/http"
	"slices"
	"testing"
	"time"

	"github.com/reintento/reintento/classify"
	"github.com/stretchr/testify/assert"
)

// received is when the responses of the tests arrived.
var received = time.Date(2026, time.November, 30, 17, 38, 19, 0, time.UTC)

func header(pairs ...string) http.Header {
	h := http.Header{}
	for i := 0; i < len(pairs); i += 2 {
		h.Add(pairs[i], pairs[i+1])
	}
	return h
}

// Every status that can be on the wire, by the table of what it proves.
func TestStatusKnowsEveryStatus(t *testing.T) {
	success := func(code int) bool { return code/100 == 2 || code == 304 }
	retryable := []int{421, 425, 429, 521, 523, 525, 529}
	permanent := []int{101, 501, 505, 506, 507, 508, 510, 511, 526, 530, 561}
	ambiguous := []int{408, 499}
	throttled := []int{429, 509, 529}
	invited := []int{403, 413, 503} // Retryable and throttled if they carry a hint

	for code := 100; code <= 999; code++ {
		want := classify.Verdict{Reason: fmt.Sprintf("http_%d", code), Throttled: slices.Contains(throttled, code)}
		switch {
		case slices.Contains(retryable, code):
			want.Class = classify.Retryable
		case slices.Contains(permanent, code):
			want.Class = classify.Permanent
		case slices.Contains(ambiguous, code), code < 200, code >= 500:
			want.Class = classify.Ambiguous
		default:
			want.Class = classify.Permanent
		}
		if success(code) {
			want = classify.Verdict{}
		}
		got, failed := classify.Status(code, nil, received)
		if got != want || failed == success(code) {
			t.Errorf("Status(%d, nil) = %+v, %t, want %+v, %t", code, got, failed, want, !success(code))
		}

		if success(code) {
			want = classify.Verdict{}
		} else {
			want.RetryAfter = 7 * time.Second
			if slices.Contains(invited, code) {
				want.Class, want.Throttled = classify.Retryable, true
			}
		}
		got, failed = classify.Status(code, header("Retry-After", "7"), received)
		if got != want || failed == success(code) {
			t.Errorf("Status(%d, Retry-After: 7) = %+v, %t, want %+v, %t", code, got, failed, want, !success(code))
		}

		if !success(code) {
			want.Class = classify.Permanent
		}
		got, _ = classify.Status(code, header("Retry-After", "7", "Stripe-Should-Retry", "false"), received)
		if got != want {
			t.Errorf("Status(%d, Stripe-Should-Retry: false) = %+v, want %+v", code, got, want)
		}
	}
}

func TestStatusOutsideOfHTTPIsAmbiguous(t *testing.T) {
	for _, code := range []int{-1, 0, 99, 1000} {
		got, failed := classify.Status(code, nil, received)
		want := classify.Verdict{Reason: "malformed"}
		if got != want || !failed {
			t.Errorf("Status(%d) = %+v, %t, want %+v, true", code, got, failed, want)
		}
	}
}

func TestStatus(t *testing.T) {
	tests := []struct {
		name   string
		code   int
		header http.Header
		class  classify.Class
		thr    bool
		wait   time.Duration
	}{
		// B14: 503 is the classic carrier of the header, yet several clients read it only on 429.
		{"a hint on 503", 503, header("Retry-After", "2"), classify.Retryable, true, 2 * time.Second},
		{"a hint on 500", 500, header("Retry-After", "2"), classify.Ambiguous, false, 2 * time.Second},
		{"a hint on 404", 404, header("Retry-After", "2"), classify.Permanent, false, 2 * time.Second},

		// B16: the parser's 'no value' result was taken as 'do not retry', so 429/500 without the header failed on the first attempt.
		{"429 without a hint", 429, nil, classify.Retryable, true, 0},
		{"429 with junk for a hint", 429, header("Retry-After", "soon"), classify.Retryable, true, 0},
		{"500 without a hint", 500, nil, classify.Ambiguous, false, 0},

		// B22: a secondary rate limit answers 403 with Retry-After while the main quota is still positive; it was classed as a permanent denial and the work stayed blocked.
		{"403 with a hint", 403, header("Retry-After", "1"), classify.Retryable, true, time.Second},
		{"403 with a hint in milliseconds", 403, header("Retry-After-Ms", "250"), classify.Retryable, true, 250 * time.Millisecond},
		{"403 alone", 403, nil, classify.Permanent, false, 0},
		{"403 with junk for a hint", 403, header("Retry-After", "-1"), classify.Permanent, false, 0},
		{"403 with a hint of 0", 403, header("Retry-After", "0"), classify.Permanent, false, 0},
		{"503 with a hint of 0", 503, header("Retry-After", "0"), classify.Ambiguous, false, 0},

		// B67: 501, 505, 506, 510, 511 say 'will not work', yet the 5xx rule repeats them.
		{"501", 501, nil, classify.Permanent, false, 0},
		{"505", 505, nil, classify.Permanent, false, 0},
		{"506", 506, nil, classify.Permanent, false, 0},
		{"510", 510, nil, classify.Permanent, false, 0},
		{"511", 511, nil, classify.Permanent, false, 0},

		// B68: one rule for all: a long-running POST behind a proxy timeout ran six times.
		{"502", 502, nil, classify.Ambiguous, false, 0},
		{"504", 504, nil, classify.Ambiguous, false, 0},
		{"503", 503, nil, classify.Ambiguous, false, 0},
		{"429", 429, nil, classify.Retryable, true, 0},

		// B69: Request Timeout is in the 4xx range and was dropped although the server never got the full request.
		{"408", 408, nil, classify.Ambiguous, false, 0},

		// B72: attempt 1 deleted (or created) the thing but the answer was lost; attempt 2 gets 404 (or already-exists) and the caller is told the operation failed.
		// By itself the status is Permanent; what it means after a lost answer is for who knows the first attempt.
		{"404", 404, nil, classify.Permanent, false, 0},
		{"409", 409, nil, classify.Permanent, false, 0},

		{"a stored error", 500, header("Idempotent-Replayed", "true"), classify.Permanent, false, 0},
		{"a stored error, written otherwise", 500, header("Idempotent-Replayed", " True "), classify.Permanent, false, 0},
		{"not a stored error", 500, header("Idempotent-Replayed", "false"), classify.Ambiguous, false, 0},
		{"Stripe says no", 429, header("Stripe-Should-Retry", "false"), classify.Permanent, true, 0},
		{"Stripe says yes", 500, header("Stripe-Should-Retry", "true"), classify.Ambiguous, false, 0},
		{"a negative pushback", 503, header("Retry-Pushback-Ms", "-1", "Retry-After", "3"), classify.Permanent, true, 3 * time.Second},
		{"a pushback of minus zero", 503, header("Retry-Pushback-Ms", "-0"), classify.Ambiguous, false, 0},
		{"a positive pushback", 503, header("Retry-Pushback-Ms", "10"), classify.Ambiguous, false, 0},
		{"a pushback of junk", 503, header("Retry-Pushback-Ms", "-soon"), classify.Ambiguous, false, 0},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, failed := classify.Status(tt.code, tt.header, received)
			want := classify.Verdict{Class: tt.class, Reason: fmt.Sprintf("http_%d", tt.code), Throttled: tt.thr, RetryAfter: tt.wait}
			if got != want || !failed {
				t.Errorf("Status(%d, %v) = %+v, %t, want %+v, true", tt.code, tt.header, got, failed, want)
			}
		})
	}
}

func TestStatusOfSuccessIgnoresHeaders(t *testing.T) {
	for _, code := range []int{200, 202, 304} {
		got, failed := classify.Status(code, header("Retry-After", "5", "Stripe-Should-Retry", "false", "Idempotent-Replayed", "true"), received)
		assert.Equal(t, classify.Verdict{}, got, "Status(%d)", code)
		assert.False(t, failed, "Status(%d)", code)
	}
}

func FuzzStatus(f *testing.F) {
	f.Add(503, "120", "", "", "")
	f.Add(429, "9223372037", "true", "", "-1")
	f.Add(403, "Fri, 31 Dec 1999 23:59:59 GMT", "", "false", "")
	f.Add(200, "1", "true", "false", "-5")
	f.Fuzz(func(t *testing.T, code int, after, replayed, should, pushback string) {
		h := header("Retry-After", after, "Idempotent-Replayed", replayed, "Stripe-Should-Retry", should, "Retry-Pushback-Ms", pushback)
		v, failed := classify.Status(code, h, received)
		if ok := code/100 == 2 || code == 304; failed == ok {
			t.Fatalf("Status(%d, %v) reports a failure: %t, want %t", code, h, failed, !ok)
		}
		if !failed {
			if v != (classify.Verdict{}) {
				t.Fatalf("Status(%d, %v) = %+v, want nothing of a success", code, h, v)
			}
			return
		}
		checkReason(t, v)
		hint, hinted := classify.RetryAfter(h, received)
		if code >= 100 && code <= 999 && v.RetryAfter != hint {
			t.Errorf("Status(%d, %v).RetryAfter = %v, want %v", code, h, v.RetryAfter, hint)
		}
		if v.Origin != classify.Remote || v.Repeatable {
			t.Errorf("Status(%d, %v) = %+v, want it of origin Remote and not Repeatable", code, h, v)
		}
		if v.Class == classify.Retryable {
			always := []int{421, 425, 429, 521, 523, 525, 529}
			invited := []int{403, 413, 503}
			if !slices.Contains(always, code) && (!hinted || !slices.Contains(invited, code)) {
				t.Errorf("Status(%d, %v) = %+v, want no repeat without a proof", code, h, v)
			}
			if replayed == "true" || should == "false" || pushback == "-1" {
				t.Errorf("Status(%d, %v) = %+v, though the server says no", code, h, v)
			}
		}
	})
}

func BenchmarkStatus(b *testing.B) {
	h := header("Retry-After", "2", "Date", "Mon, 30 Nov 2026 17:38:19 GMT", "Content-Type", "application/json")
	b.Run("503 with a hint", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			classify.Status(503, h, received)
		}
	})
	b.Run("200", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			classify.Status(200, h, received)
		}
	})
}
