package retry

import "context"

type contextKey uint8

// The keys are pointers: comparing them costs next to nothing, on a way that
// every lookup in an attempt's context goes.
var (
	aroundKey any = new(contextKey)
	safetyKey any = new(contextKey)
)

// around is what a context says of the attempt and the intention around it.
type around struct {
	mark *mark    // of the attempt; nil: there is none
	ring *keyring // of an intention that was stated or received; nil: that of the attempt
	call *Call    // that the attempt belongs to
}

func aroundOf(ctx context.Context) around {
	switch a := ctx.Value(aroundKey).(type) {
	case *attempt:
		return around{mark: &a.mark, call: a.call}
	case *around:
		return *a
	}
	return around{}
}

// within returns a context that says a.
func (a around) within(ctx context.Context) context.Context {
	return context.WithValue(ctx, aroundKey, &a)
}

// isIntention reports whether there is one.
func (a around) isIntention() bool { return a.ring != nil || a.call != nil }

// keys returns the keys of the intention around, nil if there is none.
func (a around) keys() *keyring {
	if a.ring == nil && a.call != nil {
		return a.call.keys()
	}
	return a.ring
}

// liveMark returns the mark of the attempt around ctx, or nil.
func liveMark(ctx context.Context) *mark {
	m := aroundOf(ctx).mark
	if m == nil || m.isOver() {
		return nil
	}
	return m
}
