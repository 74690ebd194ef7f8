package retry_test

import (
	"context"
	"errors"
	"math"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/reintento/reintento/breaker"
	"github.com/reintento/reintento/classify"
	"github.com/reintento/reintento/retry"
)

// request is an exchange that answers each attempt with the next result, and in the end with a success.
type request struct {
	retry.Request
	results []retry.Result
	tries   []retry.Try
	under   func(ctx context.Context) // what an attempt does besides
	again   func() (last, err error)
}

func (x *request) Describe(*retry.Policy) retry.Request { return x.Request }

func (x *request) Attempt(ctx context.Context, t retry.Try) retry.Result {
	x.tries = append(x.tries, t)
	if x.under != nil {
		x.under(ctx)
	}
	if n := len(x.tries); n <= len(x.results) {
		return x.results[n-1]
	}
	return retry.Result{Outcome: retry.Applied, Status: 200}
}

func (x *request) Again() (last, err error) {
	if x.again != nil {
		return x.again()
	}
	return nil, nil
}

// writing and reading are requests as a transport describes them.
func writing(results ...retry.Result) *request {
	return &request{Request: retry.Request{Operation: "POST", Target: "POST https://bank/charges", Carries: true}, results: results}
}

func reading(results ...retry.Result) *request {
	return &request{Request: retry.Request{Operation: "GET", Target: "GET https://bank/charges", Read: true, Safety: retry.Idempotent}, results: results}
}

var (
	refused = retry.Result{Failed: true, Err: errRefused, Verdict: classify.Verdict{Class: classify.Retryable, Reason: "dial"}, Outcome: retry.NotApplied}
	cut     = retry.Result{Failed: true, Err: errCut, Verdict: classify.Verdict{Reason: "closed"}}
	missing = retry.Result{Failed: true, Verdict: classify.Verdict{Class: classify.Permanent, Reason: "http_404"}, Outcome: retry.NotApplied, Status: 404, Well: true}
)

// response is a failed answer that the exchange holds.
func response(class classify.Class, code int, outcome retry.Outcome) retry.Result {
	return retry.Result{Failed: true, Verdict: status{class, code}.Verdict(), Outcome: outcome, Status: code}
}

func TestAnExchangeEndsInAResultOrAnError(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x := writing(refused)
		call, err := to(t, steady).Exchange(t.Context(), x)
		require.NoError(t, err, "Exchange")
		r := call.Report()
		assert.Equal(t, "payments", r.Destination, "Destination")
		assert.Equal(t, "POST", r.Operation, "Operation")
		assert.Equal(t, retry.Applied, r.Outcome, "Outcome")
		assert.NoError(t, r.Stop, "Stop")
		assert.Len(t, r.Attempts, 2, "Attempts")
		assert.Equal(t, x.tries[0].Key, r.Intention.Key, "Key")
		assert.Equal(t, 100*time.Millisecond, r.Attempts[0].Wait, "Wait")
		assert.Equal(t, 200, r.Attempts[1].Status, "Status")

		hint := response(classify.Retryable, 503, retry.NotApplied)
		hint.Verdict.RetryAfter = 2 * time.Second
		call, err = to(t, steady).Exchange(t.Context(), reading(hint))
		require.NoError(t, err, "Exchange")
		assert.Zero(t, call.Report().RetryAfter, "RetryAfter once it has been waited for")

		// A success at once has a record too.
		call, err = to(t, steady).Exchange(t.Context(), reading())
		require.NoError(t, err, "Exchange")
		assert.Len(t, call.Report().Attempts, 1, "Attempts")
		assert.Empty(t, call.Report().Intention.Key, "the key of a read")

		// A response is final whatever it says: the report tells why.
		call, err = to(t, steady).Exchange(t.Context(), reading(missing))
		require.NoError(t, err, "Exchange")
		assert.ErrorIs(t, call.Report().Stop, retry.ErrPermanent, "Stop")
		call, err = to(t, steady).Exchange(t.Context(), reading(response(classify.Retryable, 503, 0), response(classify.Retryable, 503, 0), response(classify.Retryable, 503, 0)))
		require.NoError(t, err, "Exchange")
		assert.ErrorIs(t, call.Report().Stop, retry.ErrAttempts, "Stop")
		assert.Equal(t, retry.NotApplied, call.Report().Outcome, "the outcome of a read is never unknown")

		call, err = to(t, steady).Exchange(t.Context(), writing(cut))
		e := failure(t, err)
		assert.ErrorIs(t, e, retry.ErrOutcomeUnknown, "Exchange")
		assert.ErrorIs(t, e, errCut, "Exchange")
		assert.Equal(t, retry.Unknown, call.Report().Outcome, "Outcome")

		_, err = to(t, steady).Exchange(t.Context(), reading(cut, cut, cut))
		assert.ErrorIs(t, err, retry.ErrAttempts, "a read may be repeated")
		assert.NotErrorIs(t, err, retry.ErrOutcomeUnknown, "the outcome of a read is never unknown")
	})
}

func TestAnExchangeThatCannotBeMadeIsRefused(t *testing.T) {
	d := to(t, retry.Policy{})
	badKey := writing()
	badKey.Key = "a b"
	badSafety := writing()
	badSafety.Safety = 7
	var none *retry.Destination
	var noContext context.Context
	for name, exchange := range map[string]func() (*retry.Call, error){
		"no exchange":       func() (*retry.Call, error) { return d.Exchange(t.Context(), nil) },
		"no destination":    func() (*retry.Call, error) { return none.Exchange(t.Context(), writing()) },
		"no context":        func() (*retry.Call, error) { return d.Exchange(noContext, writing()) },
		"a bad key":         func() (*retry.Call, error) { return d.Exchange(t.Context(), badKey) },
		"an unknown safety": func() (*retry.Call, error) { return d.Exchange(t.Context(), badSafety) },
	} {
		call, err := exchange()
		assert.ErrorIs(t, failure(t, err), retry.ErrPermanent, name)
		require.NotNil(t, call, name)
		assert.Equal(t, retry.NotApplied, call.Report().Outcome, "%s: Outcome", name)
		assert.ErrorIs(t, call.Report().Stop, retry.ErrPermanent, "%s: Stop", name)
		assert.Empty(t, call.Report().Attempts, "%s: Attempts", name)
	}
	assert.Empty(t, badKey.tries, "attempts with a bad key")
	assert.Zero(t, d.Snapshot().Calls, "calls under way")
}

func TestAnExchangeIsToldWhatItNeedsForAnAttempt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := to(t, retry.Policy{Jitter: retry.NoJitter, MaxAttempts: 4, AttemptTimeout: 2 * time.Second, Deadline: 9 * time.Second})
		x, start := writing(refused, refused), time.Now()
		x.under = func(ctx context.Context) {
			_, ok := ctx.Deadline()
			assert.False(t, ok, "an attempt's context has no deadline: its time stops at the headers")
			n, limit, ok := retry.Mark(ctx)
			assert.True(t, ok && n == len(x.tries) && limit == 4, "Mark = %d, %d, %v in attempt %d", n, limit, ok, len(x.tries))
			call, ok := retry.CallOf(ctx)
			assert.True(t, ok, "CallOf")
			assert.Equal(t, call, call.Outermost(), "Outermost")
		}
		_, err := d.Exchange(t.Context(), x)
		require.NoError(t, err, "Exchange")
		require.Len(t, x.tries, 3, "attempts")
		for i, try := range x.tries {
			assert.Equal(t, i+1, try.Number, "Number")
			assert.Equal(t, 2*time.Second, try.Timeout, "Timeout")
			assert.Equal(t, start.Add(9*time.Second), try.Until, "Until")
			assert.Equal(t, x.tries[0].Key, try.Key, "Key")
			assert.Equal(t, 3-i, try.Spare, "Spare: attempts left after this one")
			assert.Equal(t, 4, try.Policy.MaxAttempts, "Policy")
		}

		x = reading()
		x.Until = start.Add(time.Second)
		_, err = to(t, retry.Policy{AttemptTimeout: retry.NoLimit, Deadline: retry.NoLimit}).Exchange(t.Context(), x)
		require.NoError(t, err, "Exchange")
		assert.Equal(t, time.Until(x.Until), x.tries[0].Timeout, "Timeout without one of its own: what is left of the whole")
		assert.Equal(t, x.Until, x.tries[0].Until, "Until that is no context's")
		assert.Empty(t, x.tries[0].Key, "Key of a request that carries none")
	})
}

// A call that meets a pause which it cannot wait for has begun, but has sent nothing.
func TestWhatWasNeverSentHasNoFirstSent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := to(t, retry.Policy{MaxAttempts: 1})
		require.Error(t, d.Do(t.Context(), retry.Unsafe, failing(rationed{7 * time.Second}).op), "Do that is told to wait")
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		x := writing()
		call, err := d.Exchange(ctx, x)
		require.ErrorIs(t, err, retry.ErrPushback, "Exchange in the pause")
		assert.Empty(t, x.tries, "attempts")
		assert.Zero(t, call.Report().Intention.FirstSent, "FirstSent in the report")
		assert.Zero(t, failure(t, err).Intention.FirstSent, "FirstSent in the error")
	})
}

// Sending a key is free, trusting it is a decision: Key.Honored, a key given by the caller, a Keyed operation around.
func TestAKeyIsTrustedWhereSomebodySaysSo(t *testing.T) {
	honored := retry.Policy{Key: retry.KeyPolicy{Honored: true}}
	for _, tt := range []struct {
		name   string
		policy retry.Policy
		set    func(*request)
		ctx    func(context.Context) context.Context
		want   retry.Safety
	}{
		{"nobody says anything", retry.Policy{}, nil, nil, retry.Unsafe},
		{"the policy", honored, nil, nil, retry.Keyed},
		{"the policy, but it carries no key", honored, func(x *request) { x.Carries = false }, nil, retry.Unsafe},
		{"the caller's key", retry.Policy{}, func(x *request) { x.Key = "K" }, nil, retry.Keyed},
		{"a stored intention", retry.Policy{}, nil, func(ctx context.Context) context.Context {
			return retry.WithIntention(ctx, retry.Intention{Key: "K"})
		}, retry.Keyed},
		{"an intention without key", retry.Policy{}, nil, func(ctx context.Context) context.Context {
			return retry.WithIntention(ctx, retry.Intention{Operation: "charge"})
		}, retry.Unsafe},
		{"an old intention", retry.Policy{}, nil, func(ctx context.Context) context.Context {
			return retry.WithIntention(ctx, retry.Intention{Key: "K", FirstSent: time.Now().Add(-25 * time.Hour)})
		}, retry.Unsafe},
		{"a received key", retry.Policy{}, nil, func(ctx context.Context) context.Context {
			return retry.WithReceivedKey(ctx, "K")
		}, retry.Unsafe},
		{"the request", retry.Policy{}, func(x *request) { x.Safety = retry.Keyed }, nil, retry.Keyed},
		{"the request, idempotent", retry.Policy{}, func(x *request) { x.Safety = retry.Idempotent }, nil, retry.Idempotent},
	} {
		synctest.Test(t, func(t *testing.T) {
			x, ctx := writing(), t.Context()
			if tt.set != nil {
				tt.set(x)
			}
			if tt.ctx != nil {
				ctx = tt.ctx(ctx)
			}
			_, err := to(t, tt.policy).Exchange(ctx, x)
			require.NoError(t, err, tt.name)
			assert.Equal(t, tt.want, x.tries[0].Safety, tt.name)
		})
	}
	synctest.Test(t, func(t *testing.T) {
		for safety, want := range map[retry.Safety]retry.Safety{retry.Unsafe: retry.Unsafe, retry.Keyed: retry.Keyed, retry.Idempotent: retry.Unsafe} {
			x := writing()
			require.NoError(t, to(t, retry.Policy{}).Do(t.Context(), safety, func(ctx context.Context) error {
				_, err := to(t, retry.Policy{}).Exchange(ctx, x)
				return err
			}))
			assert.Equal(t, want, x.tries[0].Safety, "a write in an operation that is %v", safety)
		}
	})
}

func TestWithSafetyIsForOneRequest(t *testing.T) {
	_, ok := retry.SafetyOf(t.Context())
	assert.False(t, ok, "SafetyOf without WithSafety")
	ctx := retry.WithSafety(t.Context(), retry.Unsafe)
	s, ok := retry.SafetyOf(ctx)
	assert.True(t, ok && s == retry.Unsafe, "SafetyOf = %v, %v", s, ok)
	_, ok = retry.SafetyOf(retry.Detach(ctx))
	assert.False(t, ok, "SafetyOf under Detach")
}

func TestResendsBelowAreChargedToTheAttempts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		resent := refused
		resent.Connections, resent.Resends, resent.Sends = 3, 2, 1
		x := reading(resent, refused, refused)
		call, err := to(t, steady).Exchange(t.Context(), x)
		assert.ErrorIs(t, err, retry.ErrAttempts, "Exchange")
		assert.Len(t, x.tries, 2, "attempts: one of three went to a re-send")
		assert.Equal(t, 2, call.Report().Resends, "Resends")
		assert.Equal(t, 3, call.Report().Attempts[0].Connections, "Connections")
		assert.Equal(t, []int{2, 0}, []int{x.tries[0].Spare, x.tries[1].Spare}, "Spare")
	})
}

// 425 and 421 once, a body that cannot be sent again: the exchange may say why there can be no repeat.
func TestAnExchangeMayEndTheCall(t *testing.T) {
	errBody := errors.New("body not replayable")
	synctest.Test(t, func(t *testing.T) {
		stop := refused
		stop.Stop = errBody
		x := reading(stop)
		_, err := to(t, steady).Exchange(t.Context(), x)
		assert.ErrorIs(t, err, errBody, "Exchange with Result.Stop")
		assert.Len(t, x.tries, 1, "attempts")

		d := to(t, steady)
		x = reading(response(classify.Retryable, 503, 0))
		x.again = func() (last, err error) { return nil, errBody }
		call, err := d.Exchange(t.Context(), x)
		assert.NoError(t, err, "Exchange: the response is still there")
		assert.ErrorIs(t, call.Report().Stop, errBody, "Stop")
		assert.Equal(t, 10.0, d.Snapshot().Budget, "what was taken for a retry that was never sent")
	})
}

// A stop between attempts finds the last response drained: Last is then what Again gave.
func TestWhatStandsForAResponseThatWasGivenUp(t *testing.T) {
	errStatus := errors.New("503, and the beginning of its body")
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(50*time.Millisecond, cancel)
		x := reading(response(classify.Retryable, 503, 0))
		x.again = func() (last, err error) { return errStatus, nil }
		_, err := to(t, steady).Exchange(ctx, x)
		e := failure(t, err)
		assert.Equal(t, errStatus, e.Last, "Last")
		assert.ErrorIs(t, e, context.Canceled, "Exchange")
		assert.ErrorIs(t, e, errStatus, "Exchange")
		assert.Equal(t, 503, e.Attempts[0].Status, "Status")
	})
}

// For K, these answers speak for the whole intention and end it.
func TestAFinalAnswerSpeaksForTheWholeIntention(t *testing.T) {
	final := response(classify.Permanent, 402, retry.NotApplied)
	final.Final = true
	cut := cut
	cut.Verdict.Repeatable = true
	for name, tt := range map[string]struct {
		x    *request
		want retry.Outcome
	}{
		"final":     {writing(cut, final), retry.NotApplied},
		"not final": {writing(cut, response(classify.Permanent, 404, retry.NotApplied)), retry.Unknown},
	} {
		synctest.Test(t, func(t *testing.T) {
			call, err := to(t, retry.Policy{Key: retry.KeyPolicy{Honored: true}}).Exchange(t.Context(), tt.x)
			require.NoError(t, err, name)
			assert.Equal(t, tt.want, call.Report().Outcome, "%s: outcome", name)
		})
		synctest.Test(t, func(t *testing.T) { // and with an operation around it
			d := to(t, retry.Policy{Key: retry.KeyPolicy{Honored: true}})
			n := 0
			err := failure(t, d.Do(t.Context(), retry.Unsafe, func(ctx context.Context) error {
				x := writing(tt.x.results[n])
				n++
				_, err := d.Exchange(ctx, x)
				if err != nil {
					return err
				}
				return errNo
			}))
			assert.Equal(t, 2, n, "%s: attempts", name)
			assert.Equal(t, tt.want, err.Outcome, "%s: outcome of the operation", name)
		})
	}
}

// B52: key minted inside the RoundTripper changes on a redirect hop, and the server sees two intentions.
// Its 307/308 hops continue key, deadline and stickiness (attempts count anew).
func TestAHopGoesOnWithKeyDeadlineAndOutcome(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := to(t, retry.Policy{Jitter: retry.NoJitter, Deadline: 20 * time.Second, Key: retry.KeyPolicy{Honored: true}})
		cut := cut
		cut.Verdict.Repeatable = true
		moved := response(classify.Permanent, 307, retry.NotApplied)
		first := writing(cut, moved)
		hop, err := d.Exchange(t.Context(), first)
		require.NoError(t, err, "Exchange")
		assert.Equal(t, retry.Unknown, hop.Report().Outcome, "outcome of the first hop")

		time.Sleep(time.Second)
		second := writing(response(classify.Permanent, 404, retry.NotApplied))
		second.Target, second.Following = "POST https://bank/v2/charges", hop
		call, err := d.Exchange(t.Context(), second)
		require.NoError(t, err, "Exchange")
		assert.Equal(t, first.tries[0].Key, second.tries[0].Key, "Key")
		assert.Equal(t, first.tries[0].Until, second.tries[0].Until, "Until")
		assert.Equal(t, 1, second.tries[0].Number, "Number")
		assert.Equal(t, retry.Unknown, call.Report().Outcome, "outcome of the second hop")
		assert.Equal(t, hop.Report().Intention.FirstSent, call.Report().Intention.FirstSent, "FirstSent")

		time.Sleep(20 * time.Second)
		third := writing()
		third.Following = call
		_, err = d.Exchange(t.Context(), third)
		assert.ErrorIs(t, err, retry.ErrDeadline, "a hop after the deadline")
		assert.Empty(t, third.tries, "attempts after the deadline")
	})
}

// Our Transport inside our Transport does not multiply attempts, and both send one key.
func TestATransportInsideATransport(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		inner, outer := to(t, steady), to(t, steady)
		requests, key := 0, ""
		x := writing(refused, refused)
		x.under = func(ctx context.Context) {
			in := writing(refused)
			in.Key = x.tries[len(x.tries)-1].Key // in the header that the outer one set
			in.under = func(ctx context.Context) {
				requests++
				call, _ := retry.CallOf(ctx)
				assert.Equal(t, "payments", call.Outermost().Report().Destination)
				assert.NotEqual(t, call, call.Outermost(), "Outermost")
			}
			call, err := inner.Exchange(ctx, in)
			assert.Error(t, err, "Exchange")
			if key == "" {
				key = in.tries[0].Key
			}
			assert.Equal(t, key, in.tries[0].Key, "key below")
			assert.Equal(t, retry.Unsafe, in.tries[0].Safety, "a key set by the layer above is not the caller's")
			assert.Equal(t, len(x.tries), in.tries[0].Number, "number of the attempt")
			assert.Equal(t, 0, in.tries[0].Spare, "Spare")
			assert.Len(t, call.Report().Attempts, 1, "attempts of the inner one")
		}
		_, err := outer.Exchange(t.Context(), x)
		require.NoError(t, err, "Exchange")
		assert.Equal(t, 3, requests, "requests")
		assert.Equal(t, key, x.tries[0].Key, "key")
	})
}

// A body that breaks later is an event and, inside Do, that attempt's failure. A read has no outcome that could be
// unknown, and may go again.
// B147: attempt recorded as success at headers, then the body fails: metrics must show 1 failure, 1 success, 1 call success.
func TestABodyThatBreaksLater(t *testing.T) {
	errBody := errors.New("unexpected end")
	for _, tt := range []struct {
		name    string
		x       func() *request
		policy  retry.Policy
		calls   int
		outcome retry.Outcome
	}{
		{"of a read", func() *request { return reading() }, retry.Policy{}, 3, retry.NotApplied},
		{"of a write that is trusted", func() *request { return writing() }, retry.Policy{Key: retry.KeyPolicy{Honored: true}}, 3, retry.Unknown},
		{"of a write that is not", func() *request { return writing() }, retry.Policy{}, 1, retry.Unknown},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var events []retry.Event
				d := to(t, tt.policy, func(_ context.Context, e retry.Event) { events = append(events, e) })
				calls := 0
				err := failure(t, to(t, steady).Do(t.Context(), retry.Unsafe, func(ctx context.Context) error {
					calls++
					call, err := d.Exchange(ctx, tt.x())
					if err != nil {
						return err
					}
					call.BodyFailed(errBody, classify.Verdict{Reason: "closed"})
					return errors.New("cannot read the answer")
				}))
				assert.Equal(t, tt.calls, calls, "calls")
				assert.Equal(t, tt.outcome, err.Outcome, "outcome")
				if assert.Len(t, events, 3*tt.calls, "events") {
					assert.Equal(t, retry.EventLayerSuppressed, events[0].Kind, "first event")
					assert.False(t, events[1].Failed, "second event: the head has come")
					last := events[2]
					assert.Equal(t, retry.EventAttempt, last.Kind, "third event")
					assert.True(t, last.Failed && last.Attempt == 1 && last.Err == errBody && last.Status == 200, "third event: %+v", last)
				}
			})
		})
	}
}

// The verdict of a status reaches breaker and budget as the transport gives it.
func TestAResponseIsChargedLikeAnError(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := to(t, retry.Policy{Jitter: retry.NoJitter, Breaker: breaker.Settings{MinResults: 3}})
		_, err := d.Exchange(t.Context(), reading(response(classify.Retryable, 503, 0), missing))
		require.NoError(t, err, "Exchange")
		assert.Equal(t, 10.0, d.Snapshot().Budget, "a repeat that was answered with 404")
		assert.Equal(t, breaker.Closed, d.Snapshot().Breaker, "breaker after a failure and an answer")
		_, err = d.Exchange(t.Context(), reading(response(classify.Ambiguous, 500, 0)))
		require.NoError(t, err, "Exchange")
		assert.Equal(t, breaker.Open, d.Snapshot().Breaker, "breaker after two failures of three")
	})
}

func TestAnExchangeWhoseTimeIsOverSendsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x := reading()
		x.Until = time.Now().Add(-time.Second)
		_, err := to(t, steady).Exchange(t.Context(), x)
		require.ErrorIs(t, err, retry.ErrDeadline, "Exchange after its end")
		assert.Empty(t, x.tries, "attempts")
	})
}

// The call that comes back with a refusal answers like any other.
func TestTheCallOfARefusedExchangeCanBeAsked(t *testing.T) {
	for name, call := range map[string]func() (*retry.Call, error){
		"no destination": func() (*retry.Call, error) { return (*retry.Destination)(nil).Exchange(t.Context(), reading()) },
		"no exchange":    func() (*retry.Call, error) { return to(t, steady).Exchange(t.Context(), nil) },
	} {
		c, err := call()
		require.ErrorIs(t, err, retry.ErrPermanent, "Exchange with %s", name)
		_, ok := c.Classify(errCut)
		assert.False(t, ok, "Classify after %s", name)
		c.BodyFailed(errCut, classify.Verdict{})
		assert.ErrorIs(t, c.Report().Stop, retry.ErrPermanent, "Stop after %s", name)
	}
}

func TestHoweverManyResendsAreCountedTheyUseAttemptsUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		many := refused
		many.Sends = math.MaxInt
		x := reading(many, many, many)
		_, err := to(t, steady).Exchange(t.Context(), x)
		require.ErrorIs(t, err, retry.ErrAttempts, "Exchange")
		assert.Len(t, x.tries, 1, "attempts")
	})
}

// What is sent below one of two equal reads has its own key in every attempt, whatever else was sent below them before.
func TestKeysBelowEqualReadsStayWithTheirRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api, tokens := to(t, steady), to(t, steady)
		var keys [2][2]string // by attempt and read
		attempt := -1
		require.NoError(t, to(t, steady).Do(t.Context(), retry.Idempotent, func(ctx context.Context) error {
			attempt++
			for i := range 2 {
				x := reading()
				x.under = func(ctx context.Context) {
					below := writing()
					if attempt == 0 && i == 0 {
						below = reading() // nothing that takes a key
					}
					_, err := tokens.Exchange(ctx, below)
					require.NoError(t, err, "Exchange below")
					keys[attempt][i] = below.tries[0].Key
				}
				_, err := api.Exchange(ctx, x)
				require.NoError(t, err, "Exchange")
			}
			if attempt == 0 {
				return errRefused
			}
			return nil
		}), "Do")
		assert.NotEmpty(t, keys[0][1], "key below the second read")
		assert.Equal(t, keys[0][1], keys[1][1], "key below the second read, in both attempts")
		assert.NotEqual(t, keys[1][0], keys[1][1], "keys below the two reads")
	})
}

// A mark from another process that ends during a call leaves no trace in what the call was made for.
func TestAReceivedMarkThatEndsEarlyDoubtsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := to(t, retry.Policy{Key: retry.KeyPolicy{ValidFor: time.Hour}})
		ctx := retry.WithIntention(t.Context(), retry.Intention{Key: "k", FirstSent: time.Now().Add(-2 * time.Hour)})
		for i := range 2 {
			marked, done := retry.WithMark(ctx, 1, 3)
			x := writing()
			x.under = func(context.Context) { done() }
			_, err := d.Exchange(marked, x)
			require.NoError(t, err, "Exchange %d under the same key", i+1)
		}
	})
}
