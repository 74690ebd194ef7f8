package httpclient

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"sync/atomic"

	"github.com/reintento/reintento/deadline"
	"github.com/reintento/reintento/retry"
)

// AttemptHeader carries the attempt mark between services that trust each
// other: "n=2, max=3" is the second of three attempts. It is sent where
// [retry.Policy].Announce is set.
const AttemptHeader = "Request-Attempt"

// announcedKey is the header in which a Receiver finds the key of its caller,
// whatever other name the key has at that destination.
const announcedKey = "Idempotency-Key"

func formatMark(n, limit int) string { return fmt.Sprintf("n=%d, max=%d", n, limit) }

// parseMark reads what formatMark writes, nothing else.
func parseMark(s string) (n, limit int, err error) {
	first, second, ok := strings.Cut(s, ",")
	if ok {
		n, ok = parameter(first, "n=")
	}
	if ok {
		limit, ok = parameter(second, "max=")
	}
	if !ok || n > limit {
		return 0, 0, fmt.Errorf("httpclient: %s is %q: allowed is \"n=2, max=3\"", AttemptHeader, s)
	}
	return n, limit, nil
}

func parameter(s, name string) (int, bool) {
	digits, ok := strings.CutPrefix(strings.TrimSpace(s), name)
	if !ok || len(digits) < 1 || len(digits) > 6 {
		return 0, false
	}
	n, err := strconv.ParseUint(digits, 10, 32)
	return int(n), err == nil && n > 0
}

// Receive returns a [Receiver] in front of next.
func Receive(next http.Handler) http.Handler { return &Receiver{Next: next} }

// Receiver is a handler that puts what a caller announced into the request's
// context: its attempt mark, so that layers below do not repeat what the caller
// repeats; the time it has left, as the context's deadline; and its key, from
// which the keys of calls below derive, so that they are the same in each of its
// attempts. A request whose time is up is answered 503 without Next being
// called, and counted.
//
// These headers steer the server: a Receiver belongs only behind callers that
// are trusted. Values that cannot be read count as absent.
type Receiver struct {
	Next http.Handler // may not be nil

	refused atomic.Int64
}

// Refused returns how many requests were not handed on because their caller had
// no time left.
func (r *Receiver) Refused() int64 { return r.refused.Load() }

// ServeHTTP implements [http.Handler].
func (r *Receiver) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	ctx := req.Context()
	if left, err := deadline.Parse(req.Header.Get(deadline.Header)); err == nil {
		if left <= 0 {
			r.refused.Add(1)
			http.Error(w, "deadline exceeded: the caller has no time left", http.StatusServiceUnavailable)
			return
		}
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, left, errCallersTime)
		defer cancel()
	}
	if key := unquoted(req.Header.Get(announcedKey)); retry.CheckKey(key) == nil {
		ctx = retry.WithReceivedKey(ctx, key)
	}
	if n, limit, err := parseMark(req.Header.Get(AttemptHeader)); err == nil {
		marked, done := retry.WithMark(ctx, n, limit)
		defer done()
		ctx = marked
	}
	r.Next.ServeHTTP(w, req.WithContext(ctx))
}

// unquoted returns a key without the quotes of retry.StructuredString.
func unquoted(key string) string {
	if inner, ok := strings.CutPrefix(key, `"`); ok {
		if inner, ok = strings.CutSuffix(inner, `"`); ok {
			return inner
		}
	}
	return key
}

var errCallersTime = errors.New("httpclient: the time that the caller announced is over")
