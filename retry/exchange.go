package retry

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/reintento/reintento/classify"
)

// Exchange is one request of a transport on its way through the loop. Package
// httpclient implements it for HTTP; whoever writes a transport for another
// protocol can do the same. Its methods are called one after the other.
type Exchange interface {
	// Describe says what the request is, given the destination's policy with
	// its defaults applied.
	Describe(p *Policy) Request
	// Attempt makes one attempt under ctx, which carries the mark and no time
	// limit: the exchange keeps t.Timeout and t.Until itself, since only it
	// knows when a result is handed over.
	Attempt(ctx context.Context, t Try) Result
	// Again is called when another attempt is decided, before the wait. It
	// makes sure that the request can be sent again, then gives the last result
	// up. err says that it cannot be: then the last result stays. last stands in
	// the place of a result that was given up and had no error of its own.
	Again() (last, err error)
}

// Try is what an exchange must know for one attempt.
type Try struct {
	Number  int           // from 1
	Timeout time.Duration // for this attempt, within what is left of the whole; 0: no limit
	Until   time.Time     // for the whole intention; zero: no limit
	Key     string        // to send; empty for a request that carries none
	Safety  Safety        // how the request may be repeated, as far as is known now
	Spare   int           // how many attempts are left after this one, to be charged for re-sends by the layer below
	Policy  *Policy       // with its defaults applied; read only
}

// Result is what one attempt came to.
type Result struct {
	Err     error            // nil for a success, and where a response is held
	Verdict classify.Verdict // of a failure; else the zero value
	Failed  bool             // false: the call ends with this result
	Outcome Outcome          // of this attempt alone

	// Final says that the answer speaks for the whole intention, earlier
	// attempts of unknown outcome included. A transport may set it only where
	// the callee looked its key up: what it answers to a key that it honours
	// holds for whichever attempt came first. False is always safe.
	Final bool
	// Stated says that the class is what the user's Statuses or classifiers give:
	// it holds for every repeat.
	Stated bool
	// Well says that the answer shows a callee that is not in trouble, though
	// the attempt failed, such as an HTTP 404. Then the retry that led to it
	// costs the budget nothing.
	Well bool

	KeyIgnored bool // the callee said that it does not honour the key: it is trusted no more

	givenUp   bool // the work holds the response no more
	untrusted bool // a write below would have a second effect, whatever was declared

	Status      int           // of a response; 0 for none
	Pushback    time.Duration // a wait that the callee asked of everyone; 0: none
	Connections int           // obtained in this attempt

	// Resends counts what was sent again within this attempt. Sends counts
	// those of them that reached a connection, and so may have reached the
	// callee: they count towards MaxAttempts.
	Resends int
	Sends   int

	Stop error         // why the request cannot be sent again; nil if it can
	took time.Duration // until the result was known
}

// Request describes to the loop what an exchange is about.
type Request struct {
	Operation string // for logs, metrics and errors

	// Target is what makes two writes of one intention equal, the same in every
	// attempt: method and target, as in "POST https://bank.example/payments".
	// By it a write finds its key again in the next attempt. If it is empty all
	// writes are equal: they have keys by their turn, so that writes in another
	// order would have each other's, and those that overlap are not trusted.
	// It may be empty for a request that carries no key, and outside of
	// [Within].
	Target string

	Address   fmt.Stringer // where it goes, if Target does not say; asked where one transport is inside another
	Read      bool         // it changes nothing
	Safety    Safety       // what is declared; Unsafe with a key becomes Keyed where the key is trusted
	Carries   bool         // it carries a key
	Derives   bool         // that derives from the intention's own, and is not one to trust
	Key       string       // the caller's own, which declares that it is honoured
	Following *Call        // the call of the previous redirect hop
	Err       error        // why it cannot be sent; nil if it can

	// Until ends the intention, where the end is no context's. Zero means no
	// such end.
	Until time.Time

	above  *Call    // that of a transport around, which carries the same request
	around *keyring // that of the intention around a request without key
}

// address tells the request from others of the same operation.
func (r *Request) address() string {
	if r.Address != nil {
		return r.Address.String()
	}
	return r.Target
}

// Exchange runs x through the loop. A nil error means that the exchange holds
// the result: a success, or a response that is final whatever it says. The
// returned call tells the rest; it is not nil, whatever the error.
func (d *Destination) Exchange(ctx context.Context, x Exchange) (*Call, error) {
	return new(Passage).Exchange(ctx, d, x)
}

// Passage is the way of one exchange through the loop. A transport that wants to
// save an allocation makes it a part of what implements [Exchange]. The zero
// value is ready, for one call.
type Passage struct{ exchange exchange }

// Call returns the call that the exchange makes, before its attempts too.
func (p *Passage) Call() *Call { return &p.exchange.Call }

// Exchange does what [Destination.Exchange] does.
func (p *Passage) Exchange(ctx context.Context, d *Destination, x Exchange) (*Call, error) {
	e := &p.exchange
	if e.x = x; x == nil {
		e.request, e.dest, e.last, e.state = &noRequest, &nowhere, &nothing, &noState
		return &e.Call, e.refused(errors.New("exchange is nil"))
	}
	if err := e.begin(ctx, d, Unsafe, nil, e); err != nil {
		return &e.Call, err
	}
	return &e.Call, e.run(e)
}

// Within reports whether ctx belongs to an intention: to an attempt, or to
// [WithIntention]. Elsewhere nobody asks for [Request].Target.
func Within(ctx context.Context) bool { return aroundOf(ctx).isIntention() }

// CallOf returns the call whose attempt ctx was made for, even after its end;
// ok is false elsewhere.
func CallOf(ctx context.Context) (c *Call, ok bool) {
	c = aroundOf(ctx).call
	return c, c != nil
}

// Outermost returns the call that the caller of the transport made, where one
// transport of this module runs inside another and both carry the same request.
func (c *Call) Outermost() *Call {
	for c.request.above != nil {
		c = c.request.above
	}
	return c
}

// Above returns the call of the transport around that carries the same request;
// nil if there is none.
func (c *Call) Above() *Call { return c.request.above }

// Address returns what the transport said in [Request] of where the call goes; nil
// for a function.
func (c *Call) Address() fmt.Stringer { return c.request.Address }

// KeyHeader returns the header in which the call's destination takes keys.
func (c *Call) KeyHeader() string { return c.policy.Key.Header }

// exchange adapts an Exchange to the loop.
type exchange struct {
	Call
	x         Exchange
	described Request
	result    Result // of the last attempt
}

func (e *exchange) try(a *attempt, now time.Time) *Result {
	start := at(now)
	var timeout time.Duration
	if end := e.attemptEnd(start); end != never {
		timeout = max(1, time.Duration(end-start))
	}
	e.result = e.x.Attempt(a, Try{
		Number: int(a.number), Timeout: timeout, Until: e.until.time(now),
		Key: e.requestKey(), Safety: e.trust(), Spare: max(0, e.limit()-int(e.sent)), Policy: e.policy,
	})
	return &e.result
}

func (e *exchange) again() (last, err error) { return e.x.Again() }

func (e *exchange) look(context.Context, Intention) error { return nil }
