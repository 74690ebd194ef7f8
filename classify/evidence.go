package classify

// evidence is what an error says by itself, and when it can have arisen.
type evidence struct {
	Verdict
	scope scope
}

// scope is the part of an attempt that an error can come from. Transport holds
// it against the trace. The zero scope is any part, so that only the trace
// tells.
type scope uint8

const (
	// connecting: from before its connection could carry a request.
	connecting scope = iota + 1
	// handshaking: from the handshake, where it is final, or from later on,
	// where it leaves everything open.
	handshaking
	// lastSend: from the last send; it says nothing about earlier ones.
	lastSend
)

// find walks an error from the outside in and returns what the first error that
// is understood says. before is asked on the way down; after, which may be nil,
// on the way up, where nothing below was understood. Of several errors in one,
// the worst counts.
func find(err error, before, after func(error) (evidence, bool)) (found evidence, ok bool) {
	if found, ok = before(err); ok {
		return found, true
	}
	switch e := err.(type) {
	case interface{ Unwrap() error }:
		if inner := e.Unwrap(); inner != nil {
			found, ok = find(inner, before, after)
		}
	case interface{ Unwrap() []error }:
		for _, part := range e.Unwrap() {
			if part == nil {
				continue
			}
			p, known := find(part, before, after)
			switch {
			case known && ok:
				found = worse(found, p)
			case known:
				found, ok = p, true
			}
		}
	}
	if !ok && after != nil {
		return after(err)
	}
	return found, ok
}

// worse returns the evidence of two errors that are both part of one.
func worse(a, b evidence) evidence {
	w := a
	if b.Class.badness() > a.Class.badness() {
		w = b
	}
	w.RetryAfter = max(a.RetryAfter, b.RetryAfter)
	w.Repeatable = a.Repeatable && b.Repeatable
	return w
}

func (c Class) badness() int {
	switch c {
	case Retryable:
		return 0
	case Permanent:
		return 1
	}
	return 2
}

// as returns one error of a chain as a T, which it is or converts itself to.
// Unlike errors.AsType it looks no deeper.
func as[T any](err error) (T, bool) {
	if t, ok := err.(T); ok {
		return t, true
	}
	var t T
	a, ok := err.(interface{ As(any) bool })
	if !ok {
		return t, false
	}
	target := new(T) // apart from t, which stays off the heap so
	ok = a.As(target)
	return *target, ok
}

// is reports whether one error of a chain is the target. Unlike errors.Is it
// looks no deeper.
func is(err, target error) bool {
	if err == target {
		return true
	}
	i, ok := err.(interface{ Is(error) bool })
	return ok && i.Is(target)
}

// isLeaf reports whether err wraps nothing, so that its text is its own.
func isLeaf(err error) bool {
	switch err.(type) {
	case nil, interface{ Unwrap() error }, interface{ Unwrap() []error }:
		return false
	}
	return true
}
