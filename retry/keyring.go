package retry

import (
	"strconv"
	"sync"
	"time"

	"github.com/google/uuid"
)

// namespace makes derived keys differ from UUIDs that others derive.
var namespace = uuid.MustParse("7d1f8f2e-54a7-4c5b-9a3b-6f0d3c1c9b52")

// keyring hands out the keys of one intention. A call never shows the ring that
// it got its own from to what is below it: what is taken from a ring is counted
// for each attempt of one call.
type keyring struct {
	mu        sync.Mutex
	key       string   // empty until asked for
	parent    *keyring // derive from its key; nil: make a random one
	label     string   // what to derive with; empty: the parent's key itself
	declared  bool     // the caller gave the key, and so says that it is honoured
	received  bool     // the key came from another process: nobody takes it as it is
	stated    bool     // by WithIntention: the key outlives the attempt it was stated in
	ignored   bool     // the callee said that it does not honour the key
	inDoubt   bool     // a call that took it may have been applied
	operation string
	firstSent time.Time
	what      string // what it was taken for; guarded by the parent's mu

	taker    string // which method and target, or operation, took the key itself
	taken    bool
	of       *mark           // the attempt that equal is of
	equal    map[string]same // equal writes of this attempt
	children map[string]*keyring
}

// same counts writes that are equal to each other.
type same struct{ begun, running int }

// intention returns what the ring knows, without making a key.
func (r *keyring) intention() Intention {
	r.mu.Lock()
	defer r.mu.Unlock()
	return Intention{Key: r.knownLocked(), Operation: r.operation, FirstSent: r.firstSent}
}

// knownLocked returns the key if there is one already. r.mu is held.
func (r *keyring) knownLocked() string {
	if r.key == "" && r.parent != nil && r.label == "" {
		r.key = r.parent.intention().Key
	}
	return r.key
}

// id returns the key, made now if it has not been asked for.
func (r *keyring) id() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.key == "" {
		switch {
		case r.parent == nil:
			r.key = uuid.NewString()
		case r.label == "":
			r.key = r.parent.id()
		default:
			r.key = derived(r.parent.id(), r.label)
		}
	}
	return r.key
}

func derived(key, label string) string {
	return uuid.NewSHA1(uuid.NewSHA1(namespace, []byte(key)), []byte(label)).String()
}

// declare notes that the caller says that the key is honoured.
func (r *keyring) declare() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.declared = true
}

func (r *keyring) isDeclared() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.declared
}

// ignore notes that the callee does not honour the key.
func (r *keyring) ignore() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.ignored = true
}

func (r *keyring) isIgnored() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.ignored
}

// doubt notes that what was sent under the key may have been applied.
func (r *keyring) doubt() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.inDoubt = true
}

func (r *keyring) isInDoubt() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.inDoubt
}

// sent notes that an attempt begins. Only the first counts.
func (r *keyring) sent(now time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.firstSent.IsZero() {
		r.firstSent = now
	}
}

// given returns the keyring of a key that a request brings along.
func (r *keyring) given(key string) *keyring {
	r.mu.Lock()
	defer r.mu.Unlock()
	label := "given\n" + key
	c := r.children[label]
	if c == nil {
		c = r.childLocked(label)
		c.key, c.declared = key, true
	}
	return c
}

// part returns the keyring of a named part.
func (r *keyring) part(name string) *keyring {
	r.mu.Lock()
	defer r.mu.Unlock()
	label := "part\n" + name
	c := r.children[label]
	if c == nil {
		c = r.childLocked(label)
		c.stated = r.stated
	}
	return c
}

// childLocked returns the keyring for a label, the same one each time. An empty
// label stands for the key itself. r.mu is held.
func (r *keyring) childLocked(label string) *keyring {
	if c := r.children[label]; c != nil {
		return c
	}
	c := &keyring{parent: r, label: label, declared: r.declared, firstSent: r.firstSent}
	if label == "" {
		c.operation = r.operation
	}
	if r.children == nil {
		r.children = make(map[string]*keyring)
	}
	r.children[label] = c
	return c
}

// take returns the keyring of one write or operation below, in the attempt m.
// The first kind of write to ask keeps the key itself in every attempt; every
// other one, each equal one that follows in the same attempt, and one that derives
// has a key of its own. overlaps reports whether an equal one is still running: then their
// order, and with it which has which key, is unknown. Who took calls release.
//
// Outside of an attempt, under a WithIntention alone, an equal one that follows
// is the same intention once more. A received key belongs to one attempt of
// another process, whether or not that sent its mark.
func (r *keyring) take(m *mark, what string, derives bool) (k *keyring, overlaps bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	n := 1
	if m != nil || r.received {
		s := r.countLocked(m, what)
		overlaps = s.running > 0
		s.running++
		r.equal[what] = s
		n = s.begun
	}
	if !r.taken && !r.received && !derives {
		r.taken, r.taker = true, what
	}
	if n == 1 && r.taken && r.taker == what {
		k = r.childLocked("")
	} else {
		k = r.childLocked(what + "\n" + strconv.Itoa(n))
	}
	k.what = what
	return k, overlaps
}

// countLocked counts one more write of a kind in the attempt m. r.mu is held.
func (r *keyring) countLocked(m *mark, what string) same {
	if r.of != m || r.equal == nil {
		r.of, r.equal = m, make(map[string]same, 1)
	}
	s := r.equal[what]
	s.begun++
	r.equal[what] = s
	return s
}

// use returns the keyring of a write that brings the key itself along, so that
// no other kind of write takes it.
func (r *keyring) use(m *mark, what string) *keyring {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.countLocked(m, what)
	if !r.taken {
		r.taken, r.taker = true, what
	}
	return r.childLocked("")
}

// itsOwn is who takes the key of a request: the request. What else is sent in
// its attempts, such as the request for a token, derives from it.
const itsOwn = "\n"

func (r *keyring) reserve() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.taken, r.taker = true, itsOwn
}

// belowKeyless makes the keyring of a request that carries no key: nobody below
// takes the key of the intention around either.
func (r *keyring) belowKeyless(c *Call) *keyring {
	r.mu.Lock()
	defer r.mu.Unlock()
	if c.ring.Load() == nil {
		what := "below\n" + c.dest.name + "\n" + c.operation
		n := r.countLocked(c.outer, what).begun
		c.ring.Store(r.childLocked(what + "\n" + strconv.Itoa(n)))
	}
	return c.ring.Load()
}

// release notes that the call which took k in the attempt m has ended.
func (r *keyring) release(m *mark, k *keyring) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if s, ok := r.equal[k.what]; ok && r.of == m {
		s.running--
		r.equal[k.what] = s
	}
}

// keys returns the keyring of the call, made now if nobody asked for it: most
// calls never need one.
func (c *Call) keys() *keyring {
	if r := c.ring.Load(); r != nil {
		return r
	}
	if around := c.request.around; around != nil {
		return around.belowKeyless(c)
	}
	r := &keyring{}
	if c.first.call != nil { // else nothing has been sent yet
		r.firstSent = c.began.time(time.Now())
	}
	if c.isRequest && c.request.Carries {
		r.taken, r.taker = true, itsOwn
	}
	c.ring.CompareAndSwap(nil, r)
	return c.ring.Load()
}

// chooseKey finds the keyring of the call: the caller's own key, a place in the
// intention around, or a new one.
func (c *Call) chooseKey(a around, key string) error {
	if key == "" && c.request.Following == nil && !a.isIntention() {
		return nil // made when it is asked for
	}
	ring := a.keys()
	var held string
	if ring != nil {
		held = ring.intention().Key
	}
	for _, k := range []string{key, held} {
		if k == "" {
			continue
		}
		if err := CheckKey(k); err != nil {
			return err
		}
	}
	switch {
	case c.request.Following != nil:
		c.ring.Store(c.request.Following.keys())
		c.unknown = c.request.Following.unknown
	case key != "" && key == held && !ring.received:
		k := ring.use(c.outer, c.what())
		if !c.isRequest { // else it was set on the way through another layer, with that layer's trust
			k.declare()
		}
		c.ring.Store(k)
		c.operation = orElse(c.operation, k.operation)
	case key != "" && c.isRequest && c.outer != nil && !c.outer.remote && ring != nil:
		c.ring.Store(ring.given(key)) // the same in each attempt around
	case key != "":
		c.ring.Store(&keyring{key: key, declared: true})
	case c.isRequest && !c.request.Carries:
		c.request.around = ring
	default:
		k, overlaps := ring.take(c.outer, c.what(), c.request.Derives)
		c.ring.Store(k)
		c.holds, c.overlaps = true, overlaps
		c.operation = orElse(c.operation, k.operation)
	}
	if r := c.ring.Load(); r != nil && c.isRequest {
		r.reserve()
	}
	return nil
}

// what names the call among the others that share an intention.
func (c *Call) what() string {
	if c.isRequest {
		return c.request.Target
	}
	return "do\n" + c.dest.name + "\n" + c.operation
}

// giveKeyBack notes that the call has ended, so that an equal one after it does
// not overlap with it.
func (c *Call) giveKeyBack() {
	if c.holds {
		k := c.keys()
		k.parent.release(c.outer, k)
	}
}

// requestKey returns the key that a request sends.
func (c *Call) requestKey() string {
	if !c.request.Carries {
		return ""
	}
	return c.keys().id()
}
