// Package retry makes calls over a network safe to repeat. It holds the policy,
// the state of each destination, and the one loop in which everything is
// repeated that this module repeats.
//
// Most callers want [Do] around a call of their own, or package httpclient,
// which runs requests through the same loop.
//
// A failed attempt is classified (see package classify) as one that provably had
// no effect, one that may have had its effect, and one that would fail again.
// What may have had its effect is repeated only if the caller declared that to
// be safe, see [Safety]. All attempts of one intention carry one idempotency
// key, see [Key], and share one deadline. A layer that finds itself inside an
// attempt of another layer makes one attempt, so that attempts never multiply.
package retry

import (
	"context"
	"fmt"
)

// Do calls op until it succeeds or may not be repeated any more, and returns
// what it returned last. Any failure is an [*Error].
//
// The context that op gets is that of one attempt: it has the attempt's time
// limit, gives the idempotency key to send ([Key]), tells layers below not to
// repeat as well, and ends when op returns. What a response body holds is read
// inside op. An attempt in which an untrusted write through a transport of this
// module may have been applied is not repeated, whatever fails afterwards.
//
// A panic in op, and runtime.Goexit, pass through; the destination's breaker
// counts them as a failure.
func Do[T any](ctx context.Context, d *Destination, s Safety, op func(context.Context) (T, error), opts ...CallOption) (T, error) {
	c := &operation[T]{op: op}
	if err := c.begin(ctx, d, s, opts); err != nil {
		return c.value, err
	}
	if c.lookup != nil {
		lookup, ok := c.lookup.(func(context.Context, Intention) (T, error))
		if !ok {
			c.state.leave()
			return c.value, fmt.Errorf("retry: the lookup given to Reconcile is a %T: allowed is one that returns a %T, as the operation does", c.lookup, c.value)
		}
		c.find = lookup
	}
	err := c.run(c)
	return c.value, err
}

// Do is the function [Do] for an operation without a result.
func (d *Destination) Do(ctx context.Context, s Safety, op func(context.Context) error, opts ...CallOption) error {
	_, err := Do(ctx, d, s, func(ctx context.Context) (struct{}, error) {
		return struct{}{}, op(ctx)
	}, opts...)
	return err
}

// CallOption is something that concerns one call. The zero value changes nothing.
type CallOption struct {
	key       string
	hasKey    bool
	operation string
	lookup    any
}

// WithKey gives the intention the caller's own key, one that it stored before
// it sent anything, say. It declares that the callee honours the key. Allowed
// are 1 to 255 visible ASCII characters without quote, backslash, comma and
// blank; another key is refused before the first attempt.
func WithKey(key string) CallOption { return CallOption{key: key, hasKey: true} }

// Named names the operation for logs, metrics and errors.
func Named(operation string) CallOption { return CallOption{operation: operation} }

// Reconcile lets a call ask whether its intention was applied, when it would
// otherwise have to end with an unknown outcome. The lookup runs after the
// delay, within the deadline, without mark or key. What it returns with a nil
// error is the result of the call. [ErrNotApplied] says that the intention was
// not applied and cannot be any more: because it was fenced or cancelled at the
// callee. Only then does the operation go again. A plain "not found" just after
// a lost answer may mean "not yet"; it and every other error leave the outcome
// unknown.
//
// T must be the result type of the operation; [Destination.Do] has struct{}.
func Reconcile[T any](lookup func(context.Context, Intention) (T, error)) CallOption {
	if lookup == nil {
		return CallOption{}
	}
	return CallOption{lookup: lookup}
}

// operation is a call of a function. Result and call are one allocation.
type operation[T any] struct {
	Call
	op    func(context.Context) (T, error)
	find  func(context.Context, Intention) (T, error)
	value T
}

func (o *operation[T]) try(a *attempt) Result {
	cancel := a.limit()
	if cancel != nil {
		defer cancel()
	}
	value, err := o.op(a)
	o.value = value
	if err == nil {
		return Result{Outcome: Applied}
	}
	return a.judge(err)
}

func (o *operation[T]) again() (last, err error) { return nil, nil }

func (o *operation[T]) look(ctx context.Context, in Intention) error {
	value, err := o.find(ctx, in)
	if err == nil {
		o.value = value
	}
	return err
}
