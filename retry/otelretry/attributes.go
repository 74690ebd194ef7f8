package otelretry

import (
	"context"
	"errors"
	"net/url"
	"strconv"
	"strings"
	"sync"

	"go.opentelemetry.io/otel/attribute"
	semconv "go.opentelemetry.io/otel/semconv/v1.43.0"

	"github.com/reintento/reintento/breaker"
	"github.com/reintento/reintento/retry"
)

// Attributes that the conventions have no name for.
const (
	destinationKey  = attribute.Key("reintento.destination")
	operationKey    = attribute.Key("reintento.operation")
	attemptKey      = attribute.Key("reintento.attempt")
	maxAttemptsKey  = attribute.Key("reintento.max_attempts")
	classKey        = attribute.Key("reintento.class")
	originKey       = attribute.Key("reintento.origin")
	resendsKey      = attribute.Key("reintento.resends")
	waitKey         = attribute.Key("reintento.wait")        // seconds
	retryAfterKey   = attribute.Key("reintento.retry_after") // seconds
	stopKey         = attribute.Key("reintento.stop")
	outcomeKey      = attribute.Key("reintento.outcome")
	breakerStateKey = attribute.Key("reintento.breaker.state")
)

// other stands for all values that are not told apart, as in the conventions.
const other = "_OTHER"

// about returns what every metric and span says of an event: whom it concerns.
func about(e retry.Event) []attribute.KeyValue {
	attrs := append(make([]attribute.KeyValue, 0, 6), destinationKey.String(e.Destination))
	if e.Operation != "" {
		attrs = append(attrs, operationKey.String(e.Operation))
	}
	if address, port, ok := server(e.Destination); ok {
		attrs = append(attrs, semconv.ServerAddress(address), semconv.ServerPort(port))
	}
	return attrs
}

// server returns the address in a destination that is an origin; other names
// tell none.
func server(destination string) (address string, port int, ok bool) {
	switch {
	case strings.HasPrefix(destination, "http://"):
		port = 80
	case strings.HasPrefix(destination, "https://"):
		port = 443
	default:
		return "", 0, false
	}
	u, err := url.Parse(destination)
	if err != nil || u.Hostname() == "" {
		return "", 0, false
	}
	if u.Port() != "" {
		if port, err = strconv.Atoi(u.Port()); err != nil {
			return "", 0, false
		}
	}
	return u.Hostname(), port, true
}

// reasons are those that classify.Verdict lists, but for the statuses.
var reasons = map[string]bool{
	"dial": true, "dns": true, "proxy": true, "tls": true, "certificate": true, "timeout": true, "canceled": true,
	"reset": true, "closed": true, "refused_stream": true, "goaway": true, "malformed": true, "request": true, "body": true,
	"sql": true, "conflict": true, "decode": true, "local": true, "retryable": true, "permanent": true, "unknown": true,
}

// errorType says what an attempt failed with: a status as its number, as the
// conventions want it.
func errorType(e retry.Event) attribute.KeyValue {
	reason := e.Verdict.Reason
	if digits, ok := strings.CutPrefix(reason, "http_"); ok && len(digits) == 3 {
		if code, err := strconv.Atoi(digits); err == nil && code >= 100 {
			return semconv.ErrorTypeKey.String(digits)
		}
	}
	if !reasons[reason] {
		reason = other
	}
	return semconv.ErrorTypeKey.String(reason)
}

// failed reports whether an attempt is an error to the conventions, to which a
// redirect is none.
func failed(e retry.Event) bool {
	return e.Failed && (e.Err != nil || e.Status < 300 || e.Status > 399)
}

// stop says in a word why a call was given up.
func stop(err error) attribute.KeyValue {
	for _, s := range [...]struct {
		err  error
		word string
	}{
		{breaker.ErrOpen, "breaker_open"},
		{retry.ErrPushback, "pushback"},
		{retry.ErrBudget, "budget"},
		{retry.ErrAttempts, "attempts"},
		{retry.ErrDeadline, "deadline"},
		{retry.ErrPermanent, "permanent"},
		{retry.ErrOutcomeUnknown, "outcome_unknown"},
		{context.Canceled, "caller"},
		{context.DeadlineExceeded, "caller"},
	} {
		if errors.Is(err, s.err) {
			return stopKey.String(s.word)
		}
	}
	return stopKey.String(other)
}

func outcome(o retry.Outcome) attribute.KeyValue {
	return outcomeKey.String(strings.ReplaceAll(o.String(), " ", "_"))
}

// names tells a number of names apart, first come, first served.
type names struct {
	max  int
	mu   sync.RWMutex
	seen map[string]bool
}

func newNames(most int) *names { return &names{max: most, seen: make(map[string]bool)} }

// bounded returns the name, or other for one too many. The empty name is free.
func (n *names) bounded(name string) string {
	if name == "" {
		return ""
	}
	n.mu.RLock()
	known := n.seen[name]
	n.mu.RUnlock()
	if known {
		return name
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if !n.seen[name] {
		if len(n.seen) == n.max {
			return other
		}
		n.seen[name] = true
	}
	return name
}
