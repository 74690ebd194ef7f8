package bank

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"sync/atomic"
	"time"
)

// maxBody is the longest request body that is read.
const maxBody = 64 << 10

// Server is the payment API:
//
//	POST /payments              with an Idempotency-Key
//	GET  /payments/{reference}  what was charged under the caller's reference
//	GET  /healthz
//
// Set the fields before the first request; afterwards it is safe for
// concurrent use.
type Server struct {
	// Store is where everything is kept. Required.
	Store *Store

	// Tenants are the callers: bearer token to tenant. Each tenant has keys
	// and references of its own.
	Tenants map[string]string

	// KeyOptional makes a payment without a key too, unprotected, as many
	// APIs do. False refuses it with 400.
	KeyOptional bool

	// Limit is the largest amount; a larger one is declined for good with
	// 402. Zero means no limit.
	Limit int64

	// Lease is how long a request may work on a payment before others take
	// it for dead. Zero means 30 s.
	Lease time.Duration

	// Work is called between the reservation and the charge, in no
	// transaction: it stands for what a real charge takes. Its context is
	// the life of the process. After an error from it the caller gets a 500
	// and the reservation stays. Nil means no work.
	Work func(context.Context) error

	// Throttle is asked before a request is looked at; a status other than 0
	// turns it away, to come back after the given time. Nil turns nothing away.
	Throttle func() (status int, after time.Duration)

	// Now is the clock. Nil means time.Now.
	Now func() time.Time

	counts struct{ seen, throttled, replayed, running, reconciled atomic.Int64 }
}

// Counts is what a Server has done so far.
type Counts struct {
	Seen       int64 // requests that reached it
	Throttled  int64 // turned away with 429 or 503
	Replayed   int64 // answered with a stored answer
	Running    int64 // answered 409 because the first one was at work
	Reconciled int64 // left by a crash and settled
}

// Counts returns what the server has done so far.
func (s *Server) Counts() Counts {
	c := &s.counts
	return Counts{c.seen.Load(), c.throttled.Load(), c.replayed.Load(), c.running.Load(), c.reconciled.Load()}
}

// Handler returns the API. life is the life of the process that serves it:
// when it ends, requests stop where they are, as in a crash. A caller who
// hangs up does not stop his payment.
func (s *Server) Handler(life context.Context) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) {
		reply(w, http.StatusOK, map[string]string{"status": "ok"})
	})
	mux.HandleFunc("POST /payments", s.tenant(life, s.pay))
	mux.HandleFunc("GET /payments/{reference}", s.tenant(life, s.find))
	return mux
}

// tenant finds out who is calling and whether there is room for the call.
func (s *Server) tenant(life context.Context, next func(context.Context, http.ResponseWriter, *http.Request, string)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		s.counts.seen.Add(1)
		if s.Throttle != nil {
			if status, after := s.Throttle(); status != 0 {
				// Honest: nothing has been looked at yet.
				s.counts.throttled.Add(1)
				retryAfter(w, after)
				problem(w, status, "too busy; nothing was done")
				return
			}
		}
		const scheme = "Bearer "
		token := r.Header.Get("Authorization")
		if len(token) > len(scheme) && token[:len(scheme)] == scheme {
			if name, ok := s.Tenants[token[len(scheme):]]; ok {
				next(life, w, r, name)
				return
			}
		}
		w.Header().Set("WWW-Authenticate", "Bearer")
		problem(w, http.StatusUnauthorized, "Authorization: want the bearer token of a tenant")
	}
}

func (s *Server) find(ctx context.Context, w http.ResponseWriter, r *http.Request, tenant string) {
	reference := r.PathValue("reference")
	payments, err := s.Store.byReference(ctx, tenant, reference)
	switch {
	case err != nil:
		problem(w, http.StatusInternalServerError, "the database cannot be read")
	case len(payments) == 0:
		problem(w, http.StatusNotFound, "no payment under this reference so far")
	default:
		reply(w, http.StatusOK, map[string]any{"reference": reference, "payments": payments})
	}
}

func (s *Server) pay(life context.Context, w http.ResponseWriter, r *http.Request, tenant string) {
	// The whole request first: one that is cut off has asked for nothing.
	p, err := parsePayment(http.MaxBytesReader(w, r.Body, maxBody))
	if err != nil {
		problem(w, http.StatusBadRequest, err.Error())
		return
	}
	keys := r.Header.Values("Idempotency-Key")
	if len(keys) == 0 && s.KeyOptional {
		s.payUnprotected(life, w, tenant, p)
		return
	}
	if len(keys) != 1 || !validKey(keys[0]) {
		problem(w, http.StatusBadRequest, `Idempotency-Key: want one, of 1 to 255 visible ASCII characters without ", \ and comma`)
		return
	}
	sc := scope{tenant: tenant, operation: "POST /payments", key: keys[0]}
	c, err := s.Store.reserve(life, sc, p.fingerprint(), s.now(), s.lease())
	if err == nil && c.mine && c.state == requiresReconciliation {
		if c, err = s.Store.reconcile(life, c); err == nil {
			s.counts.reconciled.Add(1)
		}
	}
	if err != nil {
		s.fail(life, w, err)
		return
	}
	switch {
	case !c.sameFields:
		problem(w, http.StatusUnprocessableEntity, "Idempotency-Key: was used for a payment with other fields")
	case c.state == succeeded || c.state == failedPermanent:
		s.counts.replayed.Add(1)
		w.Header().Set("Idempotent-Replayed", "true")
		c.answer.write(w)
	case !c.mine:
		s.running(w, c.left)
	default:
		s.charge(life, w, c, tenant, p)
	}
}

// charge works on a payment that this request has reserved.
func (s *Server) charge(life context.Context, w http.ResponseWriter, c claim, tenant string, p Payment) {
	if s.Limit > 0 && p.Amount > s.Limit {
		body, err := json.Marshal(map[string]string{"error": "declined: the amount is above the limit"})
		a := answer{status: http.StatusPaymentRequired, body: body}
		if err == nil {
			err = s.Store.decline(life, c, a)
		}
		if err != nil {
			s.fail(life, w, err)
			return
		}
		a.write(w)
		return
	}
	if err := s.work(life); err != nil {
		s.fail(life, w, err)
		return
	}
	p.ID = rand.Text()
	a, err := s.Store.charge(life, c, tenant, p, s.now())
	if err != nil {
		s.fail(life, w, err)
		return
	}
	a.write(w)
}

func (s *Server) payUnprotected(life context.Context, w http.ResponseWriter, tenant string, p Payment) {
	if s.Limit > 0 && p.Amount > s.Limit {
		problem(w, http.StatusPaymentRequired, "declined: the amount is above the limit")
		return
	}
	if err := s.work(life); err != nil {
		s.fail(life, w, err)
		return
	}
	p.ID = rand.Text()
	a, err := s.Store.chargeUnprotected(life, tenant, p, s.now())
	if err != nil {
		s.fail(life, w, err)
		return
	}
	a.write(w)
}

// fail ends a request that could not be finished. What is in the record stays
// there: the next request under the key finds it.
func (s *Server) fail(life context.Context, w http.ResponseWriter, err error) {
	if errors.Is(err, errFenced) {
		s.running(w, time.Second)
		return
	}
	if life.Err() != nil {
		panic(http.ErrAbortHandler) // this process is dead: no answer at all
	}
	problem(w, http.StatusInternalServerError, "the payment could not be finished; ask again with the same key")
}

// running says that another request under the key is at work. Nobody knows
// for how long, but surely not longer than its lease.
func (s *Server) running(w http.ResponseWriter, left time.Duration) {
	s.counts.running.Add(1)
	retryAfter(w, min(left, 100*time.Millisecond))
	problem(w, http.StatusConflict, "the first request under this key is still running")
}

func (s *Server) work(ctx context.Context) error {
	if s.Work == nil {
		return nil
	}
	return s.Work(ctx)
}

func (s *Server) now() time.Time {
	if s.Now == nil {
		return time.Now()
	}
	return s.Now()
}

func (s *Server) lease() time.Duration {
	if s.Lease == 0 {
		return 30 * time.Second
	}
	return s.Lease
}

// validKey reports whether the key may be used, as a client of ours would
// have it: visible ASCII without the characters that mean something in a
// structured header.
func validKey(key string) bool {
	if len(key) == 0 || len(key) > 255 {
		return false
	}
	for _, c := range []byte(key) {
		if c <= ' ' || c > '~' || c == '"' || c == '\\' || c == ',' {
			return false
		}
	}
	return true
}

// retryAfter asks the caller to wait. Retry-After counts in seconds only, so
// it is rounded up; the exact time stands beside it for those who read it.
func retryAfter(w http.ResponseWriter, d time.Duration) {
	w.Header().Set("Retry-After", strconv.FormatInt(int64((d+time.Second-1)/time.Second), 10))
	if d%time.Second != 0 {
		w.Header().Set("Retry-After-Ms", strconv.FormatInt(max(1, d.Milliseconds()), 10))
	}
}

func (a answer) write(w http.ResponseWriter) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(a.status)
	_, _ = fmt.Fprintf(w, "%s\n", a.body) // a caller who has left loses his answer, not his payment
}

func reply(w http.ResponseWriter, status int, v any) {
	body, err := json.Marshal(v)
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	answer{status: status, body: body}.write(w)
}

func problem(w http.ResponseWriter, status int, text string) {
	reply(w, status, map[string]string{"error": text})
}
