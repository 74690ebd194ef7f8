package retry

import (
	"context"
	"fmt"
	"strconv"
	"sync"
	"time"

	"github.com/google/uuid"
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
// request under the context takes the key itself, others derive theirs from it.
// An unusable key is refused before anything is sent.
func WithIntention(ctx context.Context, in Intention) context.Context {
	r := &keyring{key: in.Key, declared: in.Key != "", operation: in.Operation, firstSent: in.FirstSent}
	return context.WithValue(ctx, ringKey, r)
}

// WithReceivedKey returns a context for work that is done under a key received
// from a caller in another process. The keys of calls below derive from it, so
// that they are the same in each of that caller's attempts; none of them takes
// it as it is, and whether they are trusted is left to each destination.
func WithReceivedKey(ctx context.Context, key string) context.Context {
	return context.WithValue(ctx, ringKey, &keyring{key: key, received: true})
}

// IntentionOf returns the intention that ctx belongs to, with the key to send,
// which is made if nobody asked for it before. ok is false outside of an
// attempt and of [WithIntention].
func IntentionOf(ctx context.Context) (in Intention, ok bool) {
	r, _ := ctx.Value(ringKey).(*keyring)
	if r == nil {
		return Intention{}, false
	}
	in = r.intention()
	in.Key = r.id()
	if c, ok := CallOf(ctx); ok {
		in.Operation = c.operation
	}
	return in, true
}

// Key returns the idempotency key of the intention that ctx belongs to: the
// same in every attempt, another for every intention. It is made when first
// asked for. Outside of an attempt and of [WithIntention] it is empty.
func Key(ctx context.Context) string {
	r, _ := ctx.Value(ringKey).(*keyring)
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
	r, _ := ctx.Value(ringKey).(*keyring)
	if r == nil {
		return ctx
	}
	return context.WithValue(ctx, ringKey, r.child("part\n"+part))
}

// CheckKey reports whether key can be an idempotency key: 1 to 255 visible
// ASCII characters without quote, backslash, comma and blank, so that it is the
// same in each form of [KeyFormat].
func CheckKey(key string) error {
	if len(key) < 1 || len(key) > 255 {
		return fmt.Errorf("retry: idempotency key has %d characters: allowed are 1 to 255", len(key))
	}
	for i := range len(key) {
		if c := key[i]; c <= ' ' || c >= 0x7f || c == '"' || c == '\\' || c == ',' {
			return fmt.Errorf("retry: idempotency key %q has %q at %d: allowed is visible ASCII without quote, backslash, comma and blank", key, c, i)
		}
	}
	return nil
}

// namespace makes derived keys differ from UUIDs that others derive.
var namespace = uuid.MustParse("7d1f8f2e-54a7-4c5b-9a3b-6f0d3c1c9b52")

// keyring hands out the keys of one intention.
type keyring struct {
	mu        sync.Mutex
	key       string   // empty until asked for
	parent    *keyring // derive from its key; nil: make a random one
	label     string
	declared  bool // the caller gave the key, and so says that it is honoured
	received  bool // the key came from another process: nobody takes it as it is
	operation string
	firstSent time.Time

	taker    string // which method and target, or operation, took the key itself
	taken    bool
	of       *mark          // the attempt that count and running are of
	count    map[string]int // equal writes of this attempt
	running  map[string]int // those of them that have not ended
	children map[string]*keyring
}

func (r *keyring) intention() Intention {
	r.mu.Lock()
	defer r.mu.Unlock()
	return Intention{Key: r.key, Operation: r.operation, FirstSent: r.firstSent}
}

// id returns the key, made now if it has not been asked for.
func (r *keyring) id() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.key == "" {
		if r.parent != nil {
			r.key = derived(r.parent.id(), r.label)
		} else {
			r.key = uuid.NewString()
		}
	}
	return r.key
}

func derived(key, label string) string {
	return uuid.NewSHA1(uuid.NewSHA1(namespace, []byte(key)), []byte(label)).String()
}

// sent notes that an attempt begins. Only the first counts.
func (r *keyring) sent(now time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.firstSent.IsZero() {
		r.firstSent = now
	}
}

// child returns the keyring for a label: the same one each time.
func (r *keyring) child(label string) *keyring {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.childLocked(label)
}

// childLocked is child with r.mu held.
func (r *keyring) childLocked(label string) *keyring {
	if c := r.children[label]; c != nil {
		return c
	}
	c := &keyring{parent: r, label: label, declared: r.declared, firstSent: r.firstSent}
	if r.children == nil {
		r.children = make(map[string]*keyring)
	}
	r.children[label] = c
	return c
}

// take returns the keyring of one write or operation below, in the attempt m.
// The first kind of write to ask keeps the key itself in every attempt; every
// other one, and each equal one that follows in the same attempt, has a key of
// its own. overlaps reports whether an equal one is still running: then their
// order, and with it which has which key, is unknown. Who took calls release.
func (r *keyring) take(m *mark, what string) (k *keyring, overlaps bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	n := 1
	if m != nil {
		if r.of != m {
			r.of, r.count, r.running = m, make(map[string]int, 1), make(map[string]int, 1)
		}
		r.count[what]++
		n = r.count[what]
		overlaps = r.running[what] > 0
		r.running[what]++
	}
	if !r.taken && !r.received {
		r.taken, r.taker = true, what
	}
	if n == 1 && r.taken && r.taker == what {
		return r, overlaps
	}
	return r.childLocked(what + "\n" + strconv.Itoa(n)), overlaps
}

// release notes that what take gave out in the attempt m has ended.
func (r *keyring) release(m *mark, what string) {
	if m == nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.of == m {
		r.running[what]--
	}
}
