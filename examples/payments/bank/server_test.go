package bank_test

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/reintento/reintento/examples/payments/bank"
)

// A rent is a payment; its normal form is the same whatever the blanks.
const rent = `{"reference":"may","amount":90000,"currency":"EUR","payee":"The Landlord","text":"rent"}`

// clock is a time that tests move by hand.
type clock struct{ ms atomic.Int64 }

func (c *clock) now() time.Time          { return time.UnixMilli(c.ms.Load()) }
func (c *clock) advance(d time.Duration) { c.ms.Add(d.Milliseconds()) }

type api struct {
	t      *testing.T
	path   string // of the database
	url    string
	clock  *clock
	server *bank.Server
}

// serve starts a payment API over a fresh file.
func serve(t *testing.T, set func(*bank.Server)) *api {
	t.Helper()
	a := &api{t: t, path: filepath.Join(t.TempDir(), "bank.db"), clock: &clock{}}
	a.clock.ms.Store(time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC).UnixMilli())
	store, err := bank.Open(a.path)
	if err != nil {
		t.Fatalf("Open(%q): %v", a.path, err)
	}
	a.server = &bank.Server{
		Store:   store,
		Tenants: map[string]string{"token-a": "a", "token-b": "b"},
		Now:     a.clock.now,
	}
	if set != nil {
		set(a.server)
	}
	p, err := a.server.Start()
	if err != nil {
		t.Fatalf("Start(): %v", err)
	}
	a.url = "http://" + p.Addr()
	t.Cleanup(func() {
		p.Kill()
		if err := store.Close(); err != nil {
			t.Errorf("Close(): %v", err)
		}
	})
	return a
}

type reply struct {
	status int
	header http.Header
	body   string
}

// send makes one request; a nil key sends none.
func (a *api) send(method, path, token string, keys []string, body string) (reply, error) {
	req, err := http.NewRequestWithContext(a.t.Context(), method, a.url+path, strings.NewReader(body))
	if err != nil {
		return reply{}, err
	}
	req.Header.Set("Authorization", "Bearer "+token)
	req.Header["Idempotency-Key"] = keys
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return reply{}, err
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	return reply{resp.StatusCode, resp.Header, string(b)}, err
}

// pay posts under a key, as tenant a.
func (a *api) pay(key, body string) reply {
	a.t.Helper()
	r, err := a.send("POST", "/payments", "token-a", []string{key}, body)
	if err != nil {
		a.t.Fatalf("POST /payments with key %q: %v", key, err)
	}
	return r
}

// wantStatus fails the test unless the reply has the status.
func (a *api) wantStatus(what string, r reply, want int) {
	a.t.Helper()
	if r.status != want {
		a.t.Fatalf("%s: status %d, want %d; body %s", what, r.status, want, r.body)
	}
}

// wantCharges fails the test unless the file holds so many payments. It looks
// for itself, not through the API.
func (a *api) wantCharges(want int) {
	a.t.Helper()
	var got int
	a.row(`SELECT COUNT(*) FROM payments`, &got)
	if got != want {
		a.t.Errorf("payments in the database: %d, want %d", got, want)
	}
}

func (a *api) row(query string, dest ...any) {
	a.t.Helper()
	db, err := sql.Open("sqlite", a.path)
	if err != nil {
		a.t.Fatal(err)
	}
	defer db.Close()
	if err := db.QueryRow(query).Scan(dest...); err != nil {
		a.t.Fatalf("%s: %v", query, err)
	}
}

func TestARepeatGetsTheStoredAnswerAndTheMark(t *testing.T) {
	a := serve(t, nil)
	first := a.pay("k1", rent)
	a.wantStatus("the first request", first, http.StatusCreated)
	if got := first.header.Get("Idempotent-Replayed"); got != "" {
		t.Errorf("the first request: Idempotent-Replayed %q, want none", got)
	}
	var p bank.Payment
	if err := json.Unmarshal([]byte(first.body), &p); err != nil || p.ID == "" || p.Reference != "may" {
		t.Errorf("the first request: body %s, want a payment with an id and reference may (%v)", first.body, err)
	}

	// Blanks are no part of the intention: still the same payment.
	again := a.pay("k1", strings.Replace(rent, "The Landlord", "  The  Landlord ", 1))
	a.wantStatus("the repeat", again, http.StatusCreated)
	if again.body != first.body {
		t.Errorf("the repeat: body %s, want the stored one %s", again.body, first.body)
	}
	if got := again.header.Get("Idempotent-Replayed"); got != "true" {
		t.Errorf("the repeat: Idempotent-Replayed %q, want true", got)
	}
	a.wantCharges(1)
}

func TestTwoEqualRequestsAtOnceChargeOnce(t *testing.T) {
	// The first holds the key until the second has its answer.
	working, goOn := make(chan struct{}), make(chan struct{})
	var begun atomic.Int32
	a := serve(t, func(s *bank.Server) {
		s.Work = func(context.Context) error {
			if begun.Add(1) == 1 {
				close(working)
			}
			<-goOn
			return nil
		}
	})
	first := make(chan reply, 1)
	go func() {
		r, err := a.send("POST", "/payments", "token-a", []string{"k1"}, rent)
		if err != nil {
			t.Errorf("the first request: %v", err)
		}
		first <- r
	}()
	<-working
	second := a.pay("k1", rent)
	a.wantStatus("the second request while the first runs", second, http.StatusConflict)
	if second.header.Get("Retry-After") != "1" || second.header.Get("Retry-After-Ms") != "100" {
		t.Errorf("the second request: Retry-After %q, Retry-After-Ms %q, want 1 and 100",
			second.header.Get("Retry-After"), second.header.Get("Retry-After-Ms"))
	}
	close(goOn)
	a.wantStatus("the first request", <-first, http.StatusCreated)
	a.wantStatus("the second request, repeated", a.pay("k1", rent), http.StatusCreated)
	if n := begun.Load(); n != 1 {
		t.Errorf("work was begun %d times, want once", n)
	}
	a.wantCharges(1)
}

func TestARaceForOneKeyHasOneWinner(t *testing.T) {
	a := serve(t, nil)
	const callers = 16
	replies := make([]reply, callers)
	var wg sync.WaitGroup
	for i := range callers {
		wg.Go(func() {
			r, err := a.send("POST", "/payments", "token-a", []string{"k1"}, rent)
			if err != nil {
				t.Errorf("caller %d: %v", i, err)
			}
			replies[i] = r
		})
	}
	wg.Wait()
	charged := 0
	for i, r := range replies {
		replayed := r.header.Get("Idempotent-Replayed") == "true"
		switch {
		case r.status == http.StatusCreated && !replayed:
			charged++
		case r.status == http.StatusCreated, r.status == http.StatusConflict:
		default:
			t.Errorf("caller %d: status %d, want 201 or 409; body %s", i, r.status, r.body)
		}
	}
	if charged != 1 {
		t.Errorf("%d callers were told that they charged, want 1", charged)
	}
	a.wantCharges(1)
}

// crashing makes the first request fail after it has reserved its key.
func crashing() func(*bank.Server) {
	var begun atomic.Int32
	return func(s *bank.Server) {
		s.Lease = 10 * time.Second
		s.Work = func(context.Context) error {
			if begun.Add(1) == 1 {
				return errors.New("crash between reserve and charge")
			}
			return nil
		}
	}
}

func TestACrashBetweenReserveAndChargeIsReconciled(t *testing.T) {
	a := serve(t, crashing())
	a.wantStatus("the request that crashes", a.pay("k1", rent), http.StatusInternalServerError)
	a.wantCharges(0)
	a.wantStatus("a repeat within the lease", a.pay("k1", rent), http.StatusConflict)

	a.clock.advance(10 * time.Second)
	after := a.pay("k1", rent)
	a.wantStatus("a repeat after the lease", after, http.StatusCreated)
	if got := after.header.Get("Idempotent-Replayed"); got != "" {
		t.Errorf("a repeat after the lease: Idempotent-Replayed %q, want none: it is the one that charged", got)
	}
	if got := a.server.Counts().Reconciled; got != 1 {
		t.Errorf("Counts().Reconciled = %d, want 1", got)
	}
	a.wantCharges(1)
}

func TestReconcilingFindsAChargeAndDoesNotRunItAgain(t *testing.T) {
	a := serve(t, crashing())
	a.wantStatus("the request that crashes", a.pay("k1", rent), http.StatusInternalServerError)

	// The charge is there, the record knows nothing of it: what a bank sees
	// whose charges are made elsewhere.
	db, err := sql.Open("sqlite", a.path)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	if _, err := db.Exec(`INSERT INTO payments (id, record, tenant, reference, amount, currency, payee, text, created_at)
		SELECT 'made-elsewhere', id, tenant, 'may', 90000, 'EUR', 'The Landlord', 'rent', 0 FROM idempotency_records`); err != nil {
		t.Fatal(err)
	}
	a.clock.advance(10 * time.Second)
	after := a.pay("k1", rent)
	a.wantStatus("a repeat after the lease", after, http.StatusCreated)
	if !strings.Contains(after.body, "made-elsewhere") || after.header.Get("Idempotent-Replayed") != "true" {
		t.Errorf("a repeat after the lease: body %s, Idempotent-Replayed %q, want the charge that was found, replayed",
			after.body, after.header.Get("Idempotent-Replayed"))
	}
	a.wantCharges(1)
}

func TestAReconcilerThatCrashesIsFoundToo(t *testing.T) {
	a := serve(t, crashing())
	a.wantStatus("the request that crashes", a.pay("k1", rent), http.StatusInternalServerError)
	db, err := sql.Open("sqlite", a.path)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	if _, err := db.Exec(`UPDATE idempotency_records SET state = 'requires_reconciliation'`); err != nil {
		t.Fatal(err)
	}
	a.wantStatus("a repeat within the reconciler's lease", a.pay("k1", rent), http.StatusConflict)
	a.clock.advance(10 * time.Second)
	a.wantStatus("a repeat after it", a.pay("k1", rent), http.StatusCreated)
	a.wantCharges(1)
}

func TestAWorkerThatIsTooLateMayNotCharge(t *testing.T) {
	working, goOn := make(chan struct{}), make(chan struct{})
	var begun atomic.Int32
	a := serve(t, func(s *bank.Server) {
		s.Lease = 10 * time.Second
		s.Work = func(context.Context) error {
			if begun.Add(1) == 1 {
				close(working)
				<-goOn
			}
			return nil
		}
	})
	first := make(chan reply, 1)
	go func() {
		r, err := a.send("POST", "/payments", "token-a", []string{"k1"}, rent)
		if err != nil {
			t.Errorf("the slow request: %v", err)
		}
		first <- r
	}()
	<-working
	a.clock.advance(10 * time.Second)
	a.wantStatus("the request that took over", a.pay("k1", rent), http.StatusCreated)
	close(goOn)
	a.wantStatus("the slow request", <-first, http.StatusConflict)
	a.wantCharges(1)
}

func TestAKilledProcessLeavesItsReservationToTheNext(t *testing.T) {
	path := filepath.Join(t.TempDir(), "bank.db")
	store, err := bank.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	working := make(chan struct{})
	var begun atomic.Int32
	a := &api{t: t, path: path, clock: &clock{}}
	server := &bank.Server{
		Store: store, Tenants: map[string]string{"token-a": "a"}, Now: a.clock.now, Lease: time.Second,
		Work: func(life context.Context) error {
			if begun.Add(1) > 1 {
				return nil
			}
			close(working)
			<-life.Done() // as long as it takes until somebody pulls the plug
			return life.Err()
		},
	}
	p, err := server.Start()
	if err != nil {
		t.Fatal(err)
	}
	a.url = "http://" + p.Addr()
	lost := make(chan error, 1)
	go func() {
		_, err := a.send("POST", "/payments", "token-a", []string{"k1"}, rent)
		lost <- err
	}()
	<-working
	p.Kill()
	if err := <-lost; err == nil {
		t.Errorf("the request under way at Kill() got an answer, want a broken connection")
	}
	a.wantCharges(0)

	if p, err = server.Start(); err != nil {
		t.Fatal(err)
	}
	defer p.Kill()
	a.url = "http://" + p.Addr()
	a.wantStatus("a repeat within the lease", a.pay("k1", rent), http.StatusConflict)
	a.clock.advance(time.Second)
	a.wantStatus("a repeat after the lease", a.pay("k1", rent), http.StatusCreated)
	a.wantCharges(1)
}

func TestACallerWhoHangsUpHasPaidAllTheSame(t *testing.T) {
	working, goOn, left := make(chan struct{}), make(chan struct{}), make(chan struct{})
	a := serve(t, func(s *bank.Server) {
		s.Work = func(context.Context) error { close(working); <-goOn; return nil }
	})
	ctx, hangUp := context.WithCancel(t.Context())
	go func() {
		defer close(left)
		req, err := http.NewRequestWithContext(ctx, "POST", a.url+"/payments", strings.NewReader(rent))
		if err != nil {
			t.Error(err)
			return
		}
		req.Header.Set("Authorization", "Bearer token-a")
		req.Header.Set("Idempotency-Key", "k1")
		if resp, err := http.DefaultClient.Do(req); err == nil {
			resp.Body.Close()
			t.Errorf("POST with a cancelled context: status %d, want an error", resp.StatusCode)
		}
	}()
	<-working
	hangUp()
	<-left
	close(goOn)
	for { // until the abandoned request has committed
		r := a.pay("k1", rent)
		if r.status == http.StatusCreated {
			break
		}
		a.wantStatus("a repeat", r, http.StatusConflict)
	}
	a.wantCharges(1)
}

func TestAKeyBelongsToOnePayment(t *testing.T) {
	a := serve(t, nil)
	a.wantStatus("the first request", a.pay("k1", rent), http.StatusCreated)
	for _, other := range []struct{ field, from, to string }{
		{"amount", "90000", "90001"},
		{"currency", "EUR", "CHF"},
		{"payee", "The Landlord", "The Landlady"},
		{"text", `"rent"`, `"rent again"`},
	} {
		r := a.pay("k1", strings.Replace(rent, other.from, other.to, 1))
		a.wantStatus("the same key with another "+other.field, r, http.StatusUnprocessableEntity)
	}
	a.wantCharges(1)
}

func TestEqualPaymentsUnderTwoKeysAreTwo(t *testing.T) {
	a := serve(t, nil)
	a.wantStatus("the first", a.pay("k1", rent), http.StatusCreated)
	a.wantStatus("the second", a.pay("k2", rent), http.StatusCreated)
	a.wantCharges(2)
}

func TestTheSameKeyOfTwoTenantsIsTwo(t *testing.T) {
	a := serve(t, nil)
	for _, token := range []string{"token-a", "token-b"} {
		r, err := a.send("POST", "/payments", token, []string{"k1"}, rent)
		if err != nil {
			t.Fatal(err)
		}
		a.wantStatus("k1 of "+token, r, http.StatusCreated)
		if r.header.Get("Idempotent-Replayed") != "" {
			t.Errorf("k1 of %s was answered with another tenant's payment", token)
		}
		found, err := a.send("GET", "/payments/may", token, nil, "")
		if err != nil {
			t.Fatal(err)
		}
		if n := strings.Count(found.body, `"id"`); n != 1 {
			t.Errorf("GET /payments/may by %s: %d payments, want only its own; body %s", token, n, found.body)
		}
	}
	a.wantCharges(2)
}

func TestAKeyExpiresAfterADay(t *testing.T) {
	a := serve(t, nil)
	first := a.pay("k1", rent)
	a.clock.advance(bank.KeyLife - time.Millisecond)
	if r := a.pay("k1", rent); r.body != first.body {
		t.Errorf("a repeat just before expiry: status %d, body %s, want the first answer %s", r.status, r.body, first.body)
	}
	a.clock.advance(time.Millisecond)
	late := a.pay("k1", rent)
	a.wantStatus("a request after expiry", late, http.StatusCreated)
	if late.body == first.body || late.header.Get("Idempotent-Replayed") != "" {
		t.Errorf("a request after expiry was answered from the store: %s", late.body)
	}
	a.wantCharges(2)
}

func TestAnUnsettledRecordDoesNotExpire(t *testing.T) {
	a := serve(t, crashing())
	a.wantStatus("the request that crashes", a.pay("k1", rent), http.StatusInternalServerError)
	a.clock.advance(10 * bank.KeyLife)
	a.wantStatus("a repeat days later", a.pay("k1", rent), http.StatusCreated)
	if got := a.server.Counts().Reconciled; got != 1 {
		t.Errorf("Counts().Reconciled = %d, want 1: it must not have been forgotten", got)
	}
}

func TestADeclinedPaymentIsStoredAndReplayed(t *testing.T) {
	a := serve(t, func(s *bank.Server) { s.Limit = 1000 })
	first := a.pay("k1", rent)
	a.wantStatus("a payment above the limit", first, http.StatusPaymentRequired)
	var state string
	a.row(`SELECT state FROM idempotency_records`, &state)
	if state != "failed_permanent" {
		t.Errorf("the record's state is %q, want failed_permanent", state)
	}
	a.server.Limit = 0 // no request is under way: the answer must stay all the same
	again := a.pay("k1", rent)
	a.wantStatus("the repeat", again, http.StatusPaymentRequired)
	if again.body != first.body || again.header.Get("Idempotent-Replayed") != "true" {
		t.Errorf("the repeat: body %s, Idempotent-Replayed %q, want %s and true",
			again.body, again.header.Get("Idempotent-Replayed"), first.body)
	}
	a.wantCharges(0)
}

func TestRequestsThatAreRefused(t *testing.T) {
	a := serve(t, nil)
	long := strings.Repeat("k", 256)
	for _, row := range []struct {
		name, method, path, token string
		keys                      []string
		body                      string
		status                    int
		says                      string
	}{
		{"no key", "POST", "/payments", "token-a", nil, rent, 400, "Idempotency-Key"},
		{"two keys", "POST", "/payments", "token-a", []string{"k1", "k2"}, rent, 400, "Idempotency-Key"},
		{"an empty key", "POST", "/payments", "token-a", []string{""}, rent, 400, "Idempotency-Key"},
		{"a key with a blank", "POST", "/payments", "token-a", []string{"k 1"}, rent, 400, "Idempotency-Key"},
		{"a key that is too long", "POST", "/payments", "token-a", []string{long}, rent, 400, "Idempotency-Key"},

		{"no JSON", "POST", "/payments", "token-a", []string{"k1"}, "rent", 400, "body"},
		{"half a body", "POST", "/payments", "token-a", []string{"k1"}, rent[:20], 400, "body"},
		{"two objects", "POST", "/payments", "token-a", []string{"k1"}, rent + rent, 400, "body"},
		{"an unknown field", "POST", "/payments", "token-a", []string{"k1"}, `{"sum":1}`, 400, "sum"},
		{"an id of the caller's", "POST", "/payments", "token-a", []string{"k1"}, `{"id":"x",` + rent[1:], 400, "id:"},
		{"no reference", "POST", "/payments", "token-a", []string{"k1"}, strings.Replace(rent, "may", "", 1), 400, "reference"},
		{"a negative amount", "POST", "/payments", "token-a", []string{"k1"}, strings.Replace(rent, "90000", "-1", 1), 400, "amount"},
		{"a currency of two letters", "POST", "/payments", "token-a", []string{"k1"}, strings.Replace(rent, "EUR", "EU", 1), 400, "currency"},
		{"a blank payee", "POST", "/payments", "token-a", []string{"k1"}, strings.Replace(rent, "The Landlord", " ", 1), 400, "payee"},
		{"a text that is too long", "POST", "/payments", "token-a", []string{"k1"}, strings.Replace(rent, `"rent"`, `"`+long+`"`, 1), 400, "text"},
		{"a body that is too long", "POST", "/payments", "token-a", []string{"k1"}, strings.Repeat(" ", 1<<20) + rent, 400, "body"},

		{"an unknown token", "POST", "/payments", "token-c", []string{"k1"}, rent, 401, "Authorization"},
		{"an empty token", "GET", "/payments/may", "", nil, "", 401, "Authorization"},
		{"an unknown reference", "GET", "/payments/june", "token-a", nil, "", 404, "no payment"},
	} {
		t.Run(row.name, func(t *testing.T) {
			r, err := a.send(row.method, row.path, row.token, row.keys, row.body)
			if err != nil {
				t.Fatalf("%s %s: %v", row.method, row.path, err)
			}
			if r.status != row.status || !strings.Contains(r.body, row.says) {
				t.Errorf("%s %s: status %d, body %s, want %d and a word about %q", row.method, row.path, r.status, r.body, row.status, row.says)
			}
		})
	}
	a.wantCharges(0)
}

func TestAnUnprotectedPaymentIsMadeAsOftenAsItIsAskedFor(t *testing.T) {
	a := serve(t, func(s *bank.Server) { s.KeyOptional, s.Limit = true, 90000 })
	for i := range 2 {
		r, err := a.send("POST", "/payments", "token-a", nil, rent)
		if err != nil {
			t.Fatal(err)
		}
		a.wantStatus(fmt.Sprintf("request %d without a key", i+1), r, http.StatusCreated)
	}
	a.wantCharges(2)
	r, err := a.send("POST", "/payments", "token-a", nil, strings.Replace(rent, "90000", "90001", 1))
	if err != nil {
		t.Fatal(err)
	}
	a.wantStatus("one above the limit", r, http.StatusPaymentRequired)
	a.wantCharges(2)
}

func TestAThrottledRequestIsToldWhenAndNotLookedAt(t *testing.T) {
	for _, row := range []struct {
		after       time.Duration
		seconds, ms string
	}{
		{50 * time.Millisecond, "1", "50"},
		{time.Second, "1", ""},
		{1500 * time.Millisecond, "2", "1500"},
	} {
		a := serve(t, func(s *bank.Server) {
			s.Throttle = func() (int, time.Duration) { return http.StatusServiceUnavailable, row.after }
		})
		r := a.pay("k1", rent)
		a.wantStatus("a throttled request", r, http.StatusServiceUnavailable)
		if s, ms := r.header.Get("Retry-After"), r.header.Get("Retry-After-Ms"); s != row.seconds || ms != row.ms {
			t.Errorf("throttled for %v: Retry-After %q, Retry-After-Ms %q, want %q and %q", row.after, s, ms, row.seconds, row.ms)
		}
		var records int
		a.row(`SELECT COUNT(*) FROM idempotency_records`, &records)
		if c := a.server.Counts(); records != 0 || c.Throttled != 1 {
			t.Errorf("throttled: %d records, Counts() = %+v, want none and one throttled", records, c)
		}
	}
}

func TestHealth(t *testing.T) {
	a := serve(t, nil)
	r, err := a.send("GET", "/healthz", "", nil, "")
	if err != nil {
		t.Fatal(err)
	}
	a.wantStatus("GET /healthz", r, http.StatusOK)
}

func TestShutdownLetsARequestFinish(t *testing.T) {
	working, goOn := make(chan struct{}), make(chan struct{})
	store, err := bank.Open(filepath.Join(t.TempDir(), "bank.db"))
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	server := &bank.Server{
		Store: store, Tenants: map[string]string{"token-a": "a"},
		Work: func(context.Context) error { close(working); <-goOn; return nil },
	}
	p, err := server.Start()
	if err != nil {
		t.Fatal(err)
	}
	a := &api{t: t, url: "http://" + p.Addr()}
	done := make(chan reply, 1)
	go func() {
		r, err := a.send("POST", "/payments", "token-a", []string{"k1"}, rent)
		if err != nil {
			t.Errorf("the request under way: %v", err)
		}
		done <- r
	}()
	<-working
	down := make(chan error, 1)
	go func() { down <- p.Shutdown(t.Context()) }()
	close(goOn)
	a.wantStatus("the request under way", <-done, http.StatusCreated)
	if err := <-down; err != nil {
		t.Errorf("Shutdown() = %v, want nil", err)
	}
}

func TestOpenSaysWhichFileItCannotUse(t *testing.T) {
	path := filepath.Join(t.TempDir(), "no such folder", "bank.db")
	store, err := bank.Open(path)
	if err == nil {
		store.Close()
		t.Fatalf("Open(%q) = nil error, want one", path)
	}
	if !strings.Contains(err.Error(), "no such folder") {
		t.Errorf("Open(%q) = %v, want the path in it", path, err)
	}
}

func TestOpenTakesAnyFileName(t *testing.T) {
	path := filepath.Join(t.TempDir(), "50% of a?b#c&d.db")
	store, err := bank.Open(path)
	if err != nil {
		t.Fatalf("Open(%q): %v", path, err)
	}
	defer store.Close()
	if found, err := filepath.Glob(filepath.Dir(path) + "/50*.db"); err != nil || len(found) != 1 || found[0] != path {
		t.Errorf("Open(%q) made %v (%v), want that file", path, found, err)
	}
}
