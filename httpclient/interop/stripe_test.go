package interop_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	"github.com/reintento/reintento/breaker"
	"github.com/reintento/reintento/retry"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/stripe/stripe-go/v82"
)

// payments is as much of Stripe's API as a payment needs: it acts once for each
// key, gives a repeat the first answer, and refuses a key with other parameters.
type payments struct {
	mu      sync.Mutex
	charged []string // amounts
	answers map[string]*stored
}

type stored struct {
	form   string
	status int
	body   string
}

func (p *payments) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	p.mu.Lock()
	defer p.mu.Unlock()
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Request-Id", "req_1")
	if err := r.ParseForm(); err != nil || r.Header.Get("Authorization") != "Bearer sk_test" {
		refuse(w, http.StatusUnauthorized, "invalid_request_error", "")
		return
	}
	if r.Method == http.MethodGet {
		fmt.Fprint(w, `{"object":"list","url":"/v1/payment_intents","has_more":false,"data":[`)
		for i, amount := range p.charged {
			if i > 0 {
				fmt.Fprint(w, ",")
			}
			fmt.Fprint(w, intent(i, amount))
		}
		fmt.Fprint(w, `]}`)
		return
	}
	key := r.Header.Get("Idempotency-Key")
	s := p.answers[key]
	switch {
	case s == nil:
		s = &stored{form: r.PostForm.Encode(), status: http.StatusOK}
		if r.PostForm.Get("amount") == "666" {
			rec := httptest.NewRecorder()
			refuse(rec, http.StatusPaymentRequired, "card_error", "card_declined")
			s.status, s.body = rec.Code, rec.Body.String()
		} else {
			s.body = intent(len(p.charged), r.PostForm.Get("amount"))
			p.charged = append(p.charged, r.PostForm.Get("amount"))
		}
		if p.answers == nil {
			p.answers = make(map[string]*stored)
		}
		p.answers[key] = s
	case s.form != r.PostForm.Encode():
		refuse(w, http.StatusBadRequest, "idempotency_error", "")
		return
	default:
		w.Header().Set("Idempotent-Replayed", "true")
	}
	w.WriteHeader(s.status)
	fmt.Fprint(w, s.body)
}

func intent(n int, amount string) string {
	return fmt.Sprintf(`{"id":"pi_%d","object":"payment_intent","amount":%s,"currency":"eur"}`, n+1, amount)
}

func refuse(w http.ResponseWriter, status int, kind, code string) {
	w.WriteHeader(status)
	json.NewEncoder(w).Encode(map[string]any{"error": map[string]string{"type": kind, "code": code, "message": kind}})
}

// refused is refuse as a fault.
func refused(status int, kind string, header ...string) fault {
	return func(w http.ResponseWriter, _ *http.Request, _ http.Handler) {
		for i := 0; i < len(header); i += 2 {
			w.Header().Set(header[i], header[i+1])
		}
		refuse(w, status, kind, "")
	}
}

// stripeClient is Stripe's client with ours inside. Its own repeats are off with
// retries 0.
func stripeClient(t *testing.T, s *server, c *http.Client, retries int64) *stripe.Client {
	t.Helper()
	backends := stripe.NewBackendsWithConfig(&stripe.BackendConfig{
		HTTPClient:        c,
		MaxNetworkRetries: new(retries),
		URL:               stripe.String(s.URL),
		LeveledLogger:     &stripe.LeveledLogger{Level: stripe.LevelNull},
	})
	backends.API.(*stripe.BackendImplementation).SetNetworkRetriesSleep(false)
	return stripe.NewClient("sk_test", stripe.WithBackends(backends))
}

func pay(ctx context.Context, sc *stripe.Client, amount int64, key string) (*stripe.PaymentIntent, error) {
	params := &stripe.PaymentIntentCreateParams{Amount: new(amount), Currency: stripe.String("eur")}
	if key != "" {
		params.SetIdempotencyKey(key)
	}
	return sc.V1PaymentIntents.Create(ctx, params)
}

func TestStripePaymentIsRepeatedByOneLayerAndChargedOnce(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name     string
		faults   []fault
		requests int
	}{
		{"nothing happens", nil, 1},
		{"503", []fault{refused(503, "api_error")}, 2},
		{"the connection is cut before Stripe acts", []fault{cut}, 2},
		{"the answer is lost", []fault{lose}, 2},
		{"503, and then the answer is lost", []fault{refused(503, "api_error"), lose}, 3},
		{"the answer is lost twice", []fault{lose, lose}, 3},
		{"the first is still under way", []fault{lose, refused(409, "idempotency_error")}, 3},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			p := &payments{}
			s := serve(t, p, c.faults...)
			pi, err := pay(t.Context(), stripeClient(t, s, client(t, quick()), 0), 1200, "")
			require.NoError(t, err, "Create")
			assert.Equal(t, "pi_1", pi.ID, "id of the payment")
			assert.Equal(t, []string{"1200"}, p.charged, "amounts charged")
			assert.Len(t, s.requests(), c.requests, "requests seen by Stripe")
			assert.Len(t, s.keys(), 1, "keys seen by Stripe")
		})
	}
}

func TestStripeKeepsTheKeyThatItsCallerSet(t *testing.T) {
	t.Parallel()
	p := &payments{}
	s := serve(t, p, lose)
	sc := stripeClient(t, s, client(t, quick()), 0)
	_, err := pay(t.Context(), sc, 1200, "order-17")
	require.NoError(t, err, "Create under a key")
	assert.Equal(t, []string{"order-17"}, s.keys(), "keys seen by Stripe")

	_, err = pay(t.Context(), sc, 1300, "order-17")
	assert.Equal(t, stripe.ErrorTypeIdempotency, stripeError(t, err).Type, "error for the same key with another amount")
	assert.Len(t, s.requests(), 3, "requests seen by Stripe: a misused key is not repeated")
	assert.Equal(t, []string{"1200"}, p.charged, "amounts charged")
}

func TestStripeErrorsThatRepeatThemselvesAreSentOnce(t *testing.T) {
	t.Parallel()
	p := &payments{}
	s := serve(t, p)
	sc := stripeClient(t, s, client(t, quick()), 0)

	_, err := pay(t.Context(), sc, 666, "")
	assert.Equal(t, stripe.ErrorCodeCardDeclined, stripeError(t, err).Code, "code for a declined card")
	assert.Len(t, s.requests(), 1, "requests for a declined card")

	s.meets(refused(500, "api_error", "Stripe-Should-Retry", "false"))
	_, err = pay(t.Context(), sc, 1200, "")
	assert.Equal(t, 500, stripeError(t, err).HTTPStatusCode, "status")
	assert.Len(t, s.requests(), 1, "requests for a 500 that says not to repeat it")

	s.meets(refused(500, "api_error", "Idempotent-Replayed", "true"))
	_, err = pay(t.Context(), sc, 1200, "")
	assert.Equal(t, 500, stripeError(t, err).HTTPStatusCode, "status")
	assert.Len(t, s.requests(), 1, "requests for a 500 that was stored under the key")
	assert.Empty(t, p.charged, "amounts charged")
}

func TestStripeHintIsWaitedForAndNeverCutShort(t *testing.T) {
	t.Parallel()
	s := serve(t, &payments{}, refused(429, "invalid_request_error", "Retry-After", "1"))
	_, err := pay(t.Context(), stripeClient(t, s, client(t, quick()), 0), 1200, "")
	require.NoError(t, err, "Create through a 429")
	seen := s.requests()
	require.Len(t, seen, 2, "requests seen by Stripe")
	assert.GreaterOrEqual(t, seen[1].at.Sub(seen[0].at), time.Second, "wait after Retry-After: 1")
}

func TestStripeGetsTheLastAnswerWhenAttemptsAreUsedUp(t *testing.T) {
	t.Parallel()
	s := serve(t, &payments{}, always(refused(503, "api_error"), 5)...)
	_, err := pay(t.Context(), stripeClient(t, s, client(t, quick()), 0), 1200, "")
	assert.Equal(t, 503, stripeError(t, err).HTTPStatusCode, "status")
	assert.Len(t, s.requests(), 3, "requests seen by Stripe")
}

// With its own repeats left on, each of Stripe's three tries is three of ours:
// what the page on layers warns of.
func TestStripesOwnRepeatsMultiply(t *testing.T) {
	t.Parallel()
	s := serve(t, &payments{}, always(cut, 20)...)
	_, err := pay(t.Context(), stripeClient(t, s, client(t, quick()), stripe.DefaultMaxNetworkRetries), 1200, "")
	require.Error(t, err, "Create")
	assert.Len(t, s.requests(), 9, "requests seen by Stripe")
	assert.Len(t, s.keys(), 1, "keys seen by Stripe")
}

func TestStripeErrorOfTheConnectionKeepsWhatIsKnown(t *testing.T) {
	t.Parallel()
	p := &payments{}
	s := serve(t, p, always(lose, 5)...)
	_, err := pay(t.Context(), stripeClient(t, s, client(t, quick()), 0), 1200, "")
	assert.ErrorIs(t, err, retry.ErrOutcomeUnknown, "Create whose answers are all lost")
	assert.ErrorIs(t, err, retry.ErrAttempts, "Create whose answers are all lost")
	assert.Len(t, s.requests(), 3, "requests seen by Stripe")
	assert.Equal(t, []string{"1200"}, p.charged, "amounts charged")
}

func TestStripeListIsRepeated(t *testing.T) {
	t.Parallel()
	p := &payments{}
	s := serve(t, p)
	sc := stripeClient(t, s, client(t, quick()), 0)
	for _, amount := range []int64{1200, 1300} {
		_, err := pay(t.Context(), sc, amount, "")
		require.NoError(t, err, "Create")
	}
	s.meets(cut, refused(500, "api_error"))
	var amounts []int64
	for pi, err := range sc.V1PaymentIntents.List(t.Context(), &stripe.PaymentIntentListParams{}) {
		require.NoError(t, err, "List")
		amounts = append(amounts, pi.Amount)
	}
	assert.Equal(t, []int64{1200, 1300}, amounts, "amounts listed")
	assert.Len(t, s.requests(), 3, "requests seen by Stripe")
}

func TestStripeCallThatItsCallerCancelsEnds(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	s := serve(t, &payments{}, func(_ http.ResponseWriter, r *http.Request, _ http.Handler) {
		r.ParseForm() // so that the server sees the client go
		cancel()
		<-r.Context().Done()
	})
	_, err := pay(ctx, stripeClient(t, s, client(t, quick()), 0), 1200, "")
	assert.ErrorIs(t, err, context.Canceled, "Create that was cancelled")
	assert.ErrorIs(t, err, retry.ErrOutcomeUnknown, "Create that was cancelled under way")
	assert.Len(t, s.requests(), 1, "requests seen by Stripe")
}

func TestStripeIsNotAskedWhileTheBreakerIsOpen(t *testing.T) {
	t.Parallel()
	policy := quick()
	policy.MaxAttempts = 1
	policy.Breaker.MinResults = 3
	s := serve(t, &payments{}, always(refused(500, "api_error"), 20)...)
	sc := stripeClient(t, s, client(t, policy), 0)
	var err error
	for range 5 {
		_, err = pay(t.Context(), sc, 1200, "")
	}
	assert.ErrorIs(t, err, breaker.ErrOpen, "Create after three failures in a row")
	assert.Len(t, s.requests(), 3, "requests seen by Stripe")
}

func stripeError(t *testing.T, err error) *stripe.Error {
	t.Helper()
	e, ok := errors.AsType[*stripe.Error](err)
	require.True(t, ok, "error of the call is %T %v, want *stripe.Error", err, err)
	return e
}
