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
//
// # Around a call
//
// [Do] and [Destination.Do] run a function, with the options [WithKey], [Named]
// and [Reconcile]. [Layer.To] and [NewDestination] give the [Destination];
// [Safety] says what may be repeated, [WithSafety] says it of a request through
// a transport. [Detach] is for work that outlives its attempt.
//
// # Policies
//
// [Policy] treats one destination, [Organization] all of them; [ReadOrganization]
// reads one from a file. [NewLayer] makes the [Layer] of a process out of it,
// with [Options] such as an [Observer]; [LogTo] makes one that writes logs.
//
// # Keys
//
// [Key] is the idempotency key to send in an attempt, [SubKey] the one for a part
// of it. [Intention], [WithIntention] and [IntentionOf] carry a key through the
// program, [WithReceivedKey] one that a request brought. [KeyPolicy] says how it
// travels and whether it is trusted.
//
// # Errors
//
// Every failure is an [*Error]; its [Outcome] says what is known of the effect, its
// Stop why there was no further attempt: [ErrAttempts], [ErrDeadline],
// [ErrBudget], [ErrPermanent], [ErrPushback], [ErrOutcomeUnknown], or
// [breaker.ErrOpen]. [FileError] is one problem of a policy file.
//
// # For authors of transports
//
// [Exchange] is what a transport implements and [Destination.Exchange] runs,
// with [Request], [Try] and [Result]; a [Call] tells the rest. [Passage] saves an
// allocation. [Mark] is what to tell another process of an attempt, which takes
// it up with [WithMark]. [Within], [CallOf], [SafetyOf], [AttemptOf] and
// [RepeatsBelow] ask a context. [Plain] prints errors.
package retry

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// Do calls op until it succeeds or may not be repeated any more, and returns
// what it returned last. Any failure is an [*Error].
//
// The context that op gets is that of one attempt: it has the attempt's time
// limit, gives the idempotency key to send ([Key]), and tells layers below not
// to repeat as well. Under a time limit it ends when op returns, so what a
// response body holds is read inside op. An attempt in which an untrusted write
// through a transport of this module may have been applied is not repeated,
// whatever fails afterwards.
//
// A panic in op, and runtime.Goexit, pass through; the destination's breaker
// counts them as a failure.
func Do[T any](ctx context.Context, d *Destination, s Safety, op func(context.Context) (T, error), opts ...CallOption) (T, error) {
	o := &operation[T]{op: op}
	err := o.begin(ctx, d, s, opts, nil)
	if err == nil {
		err = o.do(o, problemOf[T](&o.Call, op == nil, opts))
	}
	return o.value, err
}

// Do is the function [Do] for an operation without a result.
func (d *Destination) Do(ctx context.Context, s Safety, op func(context.Context) error, opts ...CallOption) error {
	a := &action{op: op}
	if err := a.begin(ctx, d, s, opts, nil); err != nil {
		return err
	}
	return a.do(a, problemOf[struct{}](&a.Call, op == nil, opts))
}

// CallOption is something that concerns one call. The zero value changes nothing.
type CallOption struct {
	key       string
	hasKey    bool
	operation string
	lookup    any
}

// WithKey gives the intention the caller's own key, one that it stored before
// it sent anything, say. It declares that the callee honours the key: a write
// that sends it through a transport of this module may be repeated. It does not
// change the safety of the operation: where the function sends the key by other
// means and its outcome is unknown, it is repeated if it is [Keyed] or
// [Idempotent], and not if it is [Unsafe]. Allowed are 1 to 255 visible ASCII
// characters without quote, backslash, comma and blank; another key is refused
// before the first attempt.
func WithKey(key string) CallOption { return CallOption{key: key, hasKey: true} }

// Named names the operation for logs, metrics and errors.
func Named(operation string) CallOption { return CallOption{operation: operation} }

// operation is a call of a function. Result and call are one allocation.
type operation[T any] struct {
	Call
	op    func(context.Context) (T, error)
	value T
}

// action is a call of a function without a result.
type action struct {
	Call
	op func(context.Context) error
}

// problemOf says what is wrong with a call of a function that returns a T, and
// takes the lookup out of its options.
func problemOf[T any](c *Call, isNil bool, opts []CallOption) error {
	if isNil {
		return errors.New("operation is nil")
	}
	for i := 0; c.hasLookup && i < len(opts); i++ {
		given := opts[i].lookup
		if given == nil {
			continue
		}
		find, ok := given.(func(context.Context, Intention) (T, error))
		switch {
		case !ok:
			var result T
			return fmt.Errorf("the lookup given to Reconcile is a %T: allowed is one that returns a %T, as the operation does", given, result)
		case find == nil:
			return errors.New("the lookup given to Reconcile is nil")
		}
		c.inTrouble().lookup = find
	}
	return nil
}

// do runs a function through the loop, unless there is a problem with it.
func (c *Call) do(w work, problem error) error {
	if problem != nil {
		c.end()
		return c.refused(problem)
	}
	return c.run(w)
}

func (o *operation[T]) try(a *attempt, now time.Time) *Result {
	cancel := a.bound(now)
	defer cancel()
	var err error
	o.value, err = o.op(a)
	return a.result(err)
}

func (o *operation[T]) look(ctx context.Context, in Intention) error {
	value, err := lookup[T](&o.Call)(ctx, in)
	if err == nil {
		o.value = value
	}
	return err
}

// lookup returns what problemOf found.
func lookup[T any](c *Call) func(context.Context, Intention) (T, error) {
	return c.trouble.lookup.(func(context.Context, Intention) (T, error))
}

func (o *action) try(a *attempt, now time.Time) *Result {
	cancel := a.bound(now)
	defer cancel()
	return a.result(o.op(a))
}

func (o *action) look(ctx context.Context, in Intention) error {
	_, err := lookup[struct{}](&o.Call)(ctx, in)
	return err
}

// again gives nothing up: what a function returned is no more than its error.
func (c *Call) again() (last, err error) { return nil, nil }

// bound gives the attempt of a function its time limit, which ends with it.
func (a *attempt) bound(now time.Time) (cancel context.CancelFunc) {
	if !a.call.isLimited() {
		return func() {}
	}
	a.Context, cancel = context.WithDeadline(a.Context, a.call.attemptEnd(at(now)).time(now))
	return cancel
}

// done is the result of a function that returned no error.
var done = Result{Outcome: Applied}

// result says what the attempt of a function came to.
func (a *attempt) result(err error) *Result {
	below, c := a.mark.close(), a.call
	c.returned = true
	if a != &c.first {
		c.trouble.below.add(below)
	}
	if err == nil {
		return &done
	}
	return a.judge(err, below)
}
