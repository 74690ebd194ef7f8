package retry

import (
	"context"
	"fmt"
	"time"
)

// Intention is what a caller wants to happen once.
type Intention struct {
	// Key identifies the intention at the callee, in every attempt, redirect
	// hop and process. It is empty where nobody asked for one yet.
	Key string
	// Operation is the name given by [Named], for logs, metrics and errors.
	Operation string
	// FirstSent is when the first attempt began. It decides whether the key is
	// still remembered ([KeyPolicy].ValidFor). Whoever stores an intention
	// stores it too; zero means that nothing has been sent yet.
	FirstSent time.Time
}

// WithIntention returns a context in which in is the intention of the next
// [Do] or request: one that the caller stored before it was first sent, say.
// Giving a key declares that the callee honours it. The first operation or
// request under the context takes the key itself, also when it is made once
// more; others derive theirs from it. An unusable key is refused before anything
// is sent. Without a key, one is made, or inside an attempt derived, so that it
// is the same in each attempt.
func WithIntention(ctx context.Context, in Intention) context.Context {
	r := &keyring{key: in.Key, declared: in.Key != "", stated: in.Key != "", operation: in.Operation, firstSent: in.FirstSent}
	a := aroundOf(ctx)
	if in.Key == "" && a.isIntention() {
		r.parent, r.label = a.keys(), "intention\n"+in.Operation
	}
	a.ring = r
	return a.within(ctx)
}

// WithReceivedKey returns a context for work that is done under a key received
// from a caller in another process. The keys of calls below derive from it, so
// that they are the same in each of that caller's attempts; none of them takes
// it as it is, and whether they are trusted is left to each destination.
func WithReceivedKey(ctx context.Context, key string) context.Context {
	a := aroundOf(ctx)
	a.ring = &keyring{key: key, received: true}
	return a.within(ctx)
}

// IntentionOf returns the intention that ctx belongs to, with the key to send,
// which is made if nobody asked for it before. ok is false outside of an
// attempt and of [WithIntention].
func IntentionOf(ctx context.Context) (in Intention, ok bool) {
	a := aroundOf(ctx)
	r := a.keys()
	if r == nil {
		return Intention{}, false
	}
	in = r.intention()
	in.Key = r.id()
	if a.call != nil && (a.ring == nil || in.Operation == "") {
		in.Operation = a.call.operation
	}
	return in, true
}

// Key returns the idempotency key of the intention that ctx belongs to: the
// same in every attempt, another for every intention. It is made when first
// asked for. Outside of an attempt and of [WithIntention] it is empty.
func Key(ctx context.Context) string {
	r := aroundOf(ctx).keys()
	if r == nil {
		return ""
	}
	return r.id()
}

// SubKey returns a context for one named part of an operation. Its key derives
// from that of the operation and from the name alone, so that an operation with
// several equal writes, or one that another process continues, gives each part
// the same key in every attempt, whatever their order. Without an intention
// around it, ctx is returned as it is.
func SubKey(ctx context.Context, part string) context.Context {
	a := aroundOf(ctx)
	if !a.isIntention() {
		return ctx
	}
	a.ring = a.keys().part(part)
	return a.within(ctx)
}

// CheckKey reports whether key can be an idempotency key: 1 to 255 visible
// ASCII characters without quote, backslash, comma and blank, so that it is the
// same in each form of [KeyFormat].
func CheckKey(key string) error {
	if len(key) < 1 || len(key) > 255 {
		return fmt.Errorf("idempotency key has %d characters: allowed are 1 to 255", len(key))
	}
	for i := range len(key) {
		if c := key[i]; c <= ' ' || c >= 0x7f || c == '"' || c == '\\' || c == ',' {
			return fmt.Errorf("idempotency key %q has %q at %d: allowed is visible ASCII without quote, backslash, comma and blank", key, c, i)
		}
	}
	return nil
}
