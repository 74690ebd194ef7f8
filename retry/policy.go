package retry

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"net/textproto"
	"slices"
	"strings"
	"time"

	"github.com/cenkalti/backoff/v4"
	"github.com/reintento/reintento/breaker"
	"github.com/reintento/reintento/classify"
)

// NoLimit, as Deadline, leaves only the caller's own deadline; as
// AttemptTimeout, it gives one attempt all the time that is left.
const NoLimit time.Duration = -1

// Policy says how to treat one destination. It is plain data: the zero value
// works, each field says what zero means, and a variant is made by copying it
// and changing fields. A Policy in use is never written to; the maps and slices
// it holds may not be changed once it has been handed over.
type Policy struct {
	// MaxAttempts bounds the tries at one intention, the first included.
	// Zero means 3; 1 means that nothing is repeated.
	MaxAttempts int
	// BaseDelay bounds the wait after the first failure; the bound doubles
	// with each further one. Zero means 100 ms, or MaxDelay if that is shorter.
	BaseDelay time.Duration
	// MaxDelay bounds every wait of the own schedule, jitter included.
	// Zero means 5 s.
	MaxDelay time.Duration
	// ThrottleDelay takes the place of BaseDelay after an answer that turned
	// the request away for load. Zero means 1 s, or MaxDelay if that is shorter.
	ThrottleDelay time.Duration
	// Jitter spreads the waits. The zero value is FullJitter.
	Jitter Jitter
	// MaxRetryAfter is the longest wait a server may ask for; a longer hint
	// ends the call at once with [ErrPushback]. Zero means 30 s.
	MaxRetryAfter time.Duration
	// Deadline bounds the whole intention: attempts, waits and drains.
	// Zero means 30 s; [NoLimit] leaves only the caller's own deadline.
	Deadline time.Duration
	// AttemptTimeout bounds one attempt, which never gets more than what is
	// left of the whole. Zero means 10 s, or Deadline or Breaker.Window if one
	// of them is shorter; [NoLimit] means all that is left. It may be at most
	// Deadline, and at most Breaker.Window unless the breaker is disabled.
	AttemptTimeout time.Duration
	// Budget bounds the retries that a process sends to the destination.
	Budget Budget
	// Breaker stops calls to a destination that keeps failing.
	Breaker breaker.Settings
	// Key says how an idempotency key travels and whether it is trusted.
	Key KeyPolicy
	// Statuses gives final HTTP statuses (200 to 999) the meaning they have at this
	// destination, before the table of package classify is asked.
	Statuses map[int]classify.Class
	// PrivatePushback makes a server's hint concern only the call that
	// received it. By default a hint on a 429 or 503 pauses the destination
	// for every call of this process.
	PrivatePushback bool
	// Announce sends the attempt mark and the remaining time with each request
	// to this destination, and with each write a key, from which a Receiver
	// derives those of what it calls: under Idempotency-Key as well, if Key has
	// another header, and with methods that Key does not list one that derives
	// from the intention's. It is meant for internal services.
	Announce bool
	// Backoff makes an own schedule of waits in place of the built-in one: a
	// BackOff of github.com/cenkalti/backoff/v4, that major version. It is
	// called once for each intention that fails, and must return a schedule that
	// no other call shares. A schedule that returns backoff.Stop ends the call
	// with [ErrAttempts]. MaxDelay and ThrottleDelay do not apply to it; hints
	// and deadlines do.
	Backoff func() backoff.BackOff `json:"-"`
}

// Jitter says how waits are spread, so that callers that failed together do
// not come back together.
type Jitter uint8

const (
	// FullJitter draws the wait from the whole interval between 0 and the
	// current bound. It costs a recovering service least.
	FullJitter Jitter = iota
	// EqualJitter draws it from the upper half of that interval.
	EqualJitter
	// NoJitter waits the bound itself.
	NoJitter
)

// String returns "full", "equal" or "none".
func (j Jitter) String() string {
	switch j {
	case FullJitter:
		return "full"
	case EqualJitter:
		return "equal"
	case NoJitter:
		return "none"
	}
	return "invalid"
}

// Budget bounds the retries that one process sends to a destination, so that
// an outage is not answered with a multiple of the normal load. It is a bucket
// of retries, full at the start. First attempts are never delayed or refused.
type Budget struct {
	// Burst is what the bucket holds, in retries. Zero means 10.
	Burst int
	// Ratio is what a call that succeeds at its first attempt puts in.
	// Zero means 0.2.
	Ratio float64
	// PerSecond is what time puts in. Zero means 0.01.
	PerSecond float64
	// Disabled switches the budget off. Burst still bounds how many calls wait
	// for the end of a pushback.
	Disabled bool
}

// KeyFormat is the form of an idempotency key on the wire.
type KeyFormat uint8

const (
	// Raw sends the key as it is.
	Raw KeyFormat = iota
	// StructuredString sends it in quotes, as a String of RFC 8941 section
	// 3.3.3, which draft-ietf-httpapi-idempotency-key-header asks for.
	StructuredString
)

// String returns "raw" or "structured_string".
func (f KeyFormat) String() string {
	switch f {
	case Raw:
		return "raw"
	case StructuredString:
		return "structured_string"
	}
	return "invalid"
}

// KeyPolicy says how the idempotency key of a write travels, and whether the
// destination is known to honour it. Sending a key is free; trusting it is a
// decision.
type KeyPolicy struct {
	// Header carries the key. Empty means Idempotency-Key.
	Header string
	// Format is the form of the key on the wire. The zero value is Raw.
	Format KeyFormat
	// Honored declares that the destination acts at most once for each key.
	// Only then, or where the caller gave the key itself, is a write repeated
	// whose outcome is unknown.
	Honored bool
	// Methods are the HTTP methods that carry a key. Nil means POST and PATCH;
	// an empty, non-nil slice means none.
	Methods []string
	// ValidFor is how long the destination remembers a key, from its first
	// use. An older key is no longer trusted. Zero means 24 h.
	ValidFor time.Duration
}

// Defaults of a zero Policy.
const (
	defaultMaxAttempts    = 3
	defaultBaseDelay      = 100 * time.Millisecond
	defaultMaxDelay       = 5 * time.Second
	defaultThrottleDelay  = time.Second
	defaultMaxRetryAfter  = 30 * time.Second
	defaultDeadline       = 30 * time.Second
	defaultAttemptTimeout = 10 * time.Second
	defaultBurst          = 10
	defaultRatio          = 0.2
	defaultPerSecond      = 0.01
	defaultKeyHeader      = "Idempotency-Key"
	defaultValidFor       = 24 * time.Hour
)

var defaultKeyMethods = []string{"POST", "PATCH"}

// withDefaults returns a copy of p in which zero values stand for nothing any
// more. It is made once for each destination, so that a call reads plain values.
func (p Policy) withDefaults() Policy {
	p.MaxAttempts = orElse(p.MaxAttempts, defaultMaxAttempts)
	p.MaxDelay = orElse(p.MaxDelay, defaultMaxDelay)
	p.BaseDelay = orElse(p.BaseDelay, min(defaultBaseDelay, p.MaxDelay))
	p.ThrottleDelay = orElse(p.ThrottleDelay, min(defaultThrottleDelay, p.MaxDelay))
	p.MaxRetryAfter = orElse(p.MaxRetryAfter, defaultMaxRetryAfter)
	p.Deadline = orElse(p.Deadline, defaultDeadline)
	if p.AttemptTimeout == 0 {
		p.AttemptTimeout = defaultAttemptTimeout
		if p.Deadline > 0 {
			p.AttemptTimeout = min(p.AttemptTimeout, p.Deadline)
		}
		if !p.Breaker.Disabled && p.Breaker.Window > 0 {
			p.AttemptTimeout = min(p.AttemptTimeout, p.Breaker.Window)
		}
	}
	p.Budget.Burst = orElse(p.Budget.Burst, defaultBurst)
	p.Budget.Ratio = orElse(p.Budget.Ratio, defaultRatio)
	p.Budget.PerSecond = orElse(p.Budget.PerSecond, defaultPerSecond)
	p.Key.Header = textproto.CanonicalMIMEHeaderKey(orElse(p.Key.Header, defaultKeyHeader))
	p.Key.ValidFor = orElse(p.Key.ValidFor, defaultValidFor)
	if p.Key.Methods == nil {
		p.Key.Methods = defaultKeyMethods
	}
	return p
}

func orElse[T comparable](v, otherwise T) T {
	var zero T
	if v == zero {
		return otherwise
	}
	return v
}

// Validate reports every problem of p at once, each with the field's name, its
// value and what is allowed. It returns nil for a policy that can be used.
func (p Policy) Validate() error {
	if problems := p.problems(); len(problems) > 0 {
		return fmt.Errorf("retry: bad policy: %w", errors.Join(problems...))
	}
	return nil
}

// problems returns what [Policy.Validate] reports.
func (p Policy) problems() (problems []error) {
	bad := func(field string, value any, allowed string) {
		problems = append(problems, &fieldError{field: field, value: fmt.Sprint(value), allowed: allowed})
	}
	if p.MaxAttempts < 0 {
		bad("MaxAttempts", p.MaxAttempts, "1 or more, or 0 for 3")
	}
	notNegative := func(field string, d time.Duration, zero string) {
		if d < 0 {
			bad(field, d, "more than 0, or 0 for "+zero)
		}
	}
	notNegative("BaseDelay", p.BaseDelay, "100ms")
	notNegative("MaxDelay", p.MaxDelay, "5s")
	notNegative("ThrottleDelay", p.ThrottleDelay, "1s")
	notNegative("MaxRetryAfter", p.MaxRetryAfter, "30s")
	notNegative("Key.ValidFor", p.Key.ValidFor, "24h")
	if p.Deadline < 0 && p.Deadline != NoLimit {
		bad("Deadline", p.Deadline, "more than 0, 0 for 30s, or NoLimit")
	}
	if p.AttemptTimeout < 0 && p.AttemptTimeout != NoLimit {
		bad("AttemptTimeout", p.AttemptTimeout, "more than 0, 0 for 10s, or NoLimit")
	}
	if p.Jitter > NoJitter {
		bad("Jitter", uint8(p.Jitter), "FullJitter, EqualJitter or NoJitter")
	}
	if p.Budget.Burst < 0 {
		bad("Budget.Burst", p.Budget.Burst, "1 or more, 0 for 10; Disabled switches the budget off")
	}
	if !(p.Budget.Ratio >= 0 && p.Budget.Ratio <= 1) {
		bad("Budget.Ratio", p.Budget.Ratio, "0 to 1, with 0 for 0.2")
	}
	if !(p.Budget.PerSecond >= 0) || math.IsInf(p.Budget.PerSecond, 0) {
		bad("Budget.PerSecond", p.Budget.PerSecond, "0 or more, with 0 for 0.01")
	}
	if allowed := keyHeader(p.Key.Header); p.Key.Header != "" && allowed != "" {
		bad("Key.Header", fmt.Sprintf("%q", p.Key.Header), allowed)
	}
	if p.Key.Format > StructuredString {
		bad("Key.Format", uint8(p.Key.Format), "Raw or StructuredString")
	}
	for _, m := range p.Key.Methods {
		if !isToken(m) || m != strings.ToUpper(m) {
			bad("Key.Methods", fmt.Sprintf("%q", m), "HTTP methods in capitals")
		} else if safeMethod(m) {
			bad("Key.Methods", m, "methods that write; a read carries no key")
		}
	}
	for _, code := range slices.Sorted(maps.Keys(p.Statuses)) {
		if code < 200 || code > 999 {
			bad("Statuses", code, "final statuses, 200 to 999")
		}
		if c := p.Statuses[code]; c > classify.Permanent {
			bad(fmt.Sprintf("Statuses[%d]", code), uint8(c), "Ambiguous, Retryable or Permanent")
		}
	}
	if joined, ok := p.Breaker.Validate().(interface{ Unwrap() []error }); ok {
		for _, err := range joined.Unwrap() {
			problems = append(problems, &fieldError{field: "Breaker", err: err})
		}
	}
	if len(problems) == 0 {
		for _, c := range p.contradictions() {
			problems = append(problems, c)
		}
	}
	return problems
}

// contradictions reports fields that are allowed by themselves but not
// together. It requires that each is allowed by itself.
func (p Policy) contradictions() (problems []*fieldError) {
	bad := func(field string, value time.Duration, relation, other string, limit time.Duration) {
		problems = append(problems, &fieldError{
			field: field, value: value.String(),
			allowed:  fmt.Sprintf("%s %s, which is %v", relation, other, limit),
			relation: relation, other: other, limit: limit,
		})
	}
	d := p.withDefaults()
	if d.BaseDelay > d.MaxDelay {
		bad("BaseDelay", d.BaseDelay, "at most", "MaxDelay", d.MaxDelay)
	}
	if d.ThrottleDelay > d.MaxDelay {
		bad("ThrottleDelay", d.ThrottleDelay, "at most", "MaxDelay", d.MaxDelay)
	}
	if d.Deadline > 0 && d.AttemptTimeout > d.Deadline {
		bad("AttemptTimeout", d.AttemptTimeout, "at most", "Deadline", d.Deadline)
	}
	// A result must still be in the window when it arrives, or calls that all
	// time out would never open the breaker.
	window := d.Breaker.WithDefaults().Window
	if !d.Breaker.Disabled && d.AttemptTimeout > window {
		bad("Breaker.Window", window, "at least", "AttemptTimeout", d.AttemptTimeout)
	}
	return problems
}

// fieldError is one problem of a policy. Its parts are kept apart so that a
// reader of policy files can say where in the file it stands.
type fieldError struct {
	field, value, allowed string
	err                   error // of one of its own fields, in place of value and allowed

	// Of a contradiction: the field it is with, and how the two must stand.
	relation, other string
	limit           time.Duration
}

func (e *fieldError) Error() string {
	if e.err != nil {
		return e.field + "." + strings.TrimPrefix(e.err.Error(), "breaker: ")
	}
	return fmt.Sprintf("%s is %s: allowed is %s", e.field, e.value, e.allowed)
}

func (e *fieldError) Unwrap() error { return e.err }

// isToken reports whether s is a token (RFC 9110, section 5.6.2).
func isToken(s string) bool {
	if s == "" {
		return false
	}
	for i := range len(s) {
		c := s[i]
		if c <= ' ' || c >= 0x7f || strings.IndexByte(`"(),/:;<=>?@[\]{}`, c) >= 0 {
			return false
		}
	}
	return true
}

// keyHeader returns what is allowed in place of s as the header field of a key,
// and "" if s can be one. Those fields that speak about the connection or the
// body do not get to the callee as they are.
func keyHeader(s string) (allowed string) {
	const name = "a header field name (RFC 9110, section 5.1)"
	switch textproto.CanonicalMIMEHeaderKey(s) {
	case "Host", "Content-Length", "Transfer-Encoding", "Trailer", "Te", "Connection", "Proxy-Connection", "Keep-Alive", "Upgrade":
		return name + " other than those of the connection and the framing"
	}
	if !isToken(s) {
		return name
	}
	return ""
}

// safeMethod reports whether an HTTP method only reads (RFC 9110, section
// 9.2.1, and QUERY).
func safeMethod(m string) bool {
	switch m {
	case "", "GET", "HEAD", "OPTIONS", "TRACE", "QUERY":
		return true
	}
	return false
}

// clone returns a copy of p that shares no map or slice with it.
func (p Policy) clone() Policy {
	p.Statuses = maps.Clone(p.Statuses)
	p.Key.Methods = slices.Clone(p.Key.Methods)
	return p
}
