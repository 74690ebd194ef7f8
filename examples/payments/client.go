package main

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	mathrand "math/rand/v2"
	"net/http"
	"time"

	"github.com/reintento/reintento/breaker"
	"github.com/reintento/reintento/deadline"
	"github.com/reintento/reintento/examples/payments/bank"
	"github.com/reintento/reintento/httpclient"
	"github.com/reintento/reintento/retry"
)

// plan makes up the intentions: payments that are wanted once each. The first two are equal in every field that the
// bank looks at, and are still two: two people owe the same rent. Only
// the reference tells them apart, for the audit; neither the bank nor the SDK
// uses it.
func plan(o options) []bank.Payment {
	payees := []string{"Aldabra Gas", "Bookshop", "City of Ghent", "Dr. Mbeki", "The Landlord"}
	r := mathrand.New(mathrand.NewPCG(o.seed, 0))
	run := rand.Text()[:8] // a file that is kept holds several runs
	all := make([]bank.Payment, o.n)
	for i := range all {
		p := bank.Payment{Amount: 100 + r.Int64N(100_000), Currency: "EUR", Payee: payees[r.IntN(len(payees))], Text: fmt.Sprintf("invoice %d", i+1)}
		if i == 1 {
			p = all[0]
		}
		p.Reference = fmt.Sprintf("%s-%05d", run, i+1)
		all[i] = p
	}
	return all
}

// told is what a caller knows of his payment in the end.
type told uint8

const (
	toldUnknown told = iota // it may have been made
	toldApplied             // it was made
	toldFailed              // it was not made, and will not be
)

// result is what one caller got.
type result struct {
	begun    bool
	told     told
	attempts int
	resends  int
	waited   time.Duration
}

// payer makes one payment and says what is known of it.
type payer interface {
	pay(context.Context, bank.Payment) result
}

func newPayer(o options, addr string, log *progress) (payer, error) {
	url := "http://" + addr + "/payments"
	if o.client == clientNaive {
		return naive{url: url, client: &http.Client{Transport: &http.Transport{}, Timeout: attemptTimeout}}, nil
	}
	trusted := o.client == clientSDK
	client, err := httpclient.New(policy(trusted, o.workers), &retry.Options{Observer: log.observe})
	if err != nil {
		return nil, err
	}
	return sdk{url: url, client: client, trusted: trusted}, nil
}

const (
	attemptTimeout = 2 * time.Second
	patience       = 12 * time.Second // of one caller with one payment
)

// policy is for a bank at hand: short delays, and more attempts than one would
// allow a real one, since a third of everything goes wrong here.
func policy(trusted bool, workers int) retry.Policy {
	return retry.Policy{
		MaxAttempts:    16,
		BaseDelay:      50 * time.Millisecond,
		MaxDelay:       time.Second,
		ThrottleDelay:  100 * time.Millisecond,
		Deadline:       10 * time.Second,
		AttemptTimeout: attemptTimeout,
		// Room for every worker to wait for the end of a pushback, and to
		// repeat a few times while nothing succeeds.
		Budget: retry.Budget{Burst: 10 * workers},
		// On this network half of the attempts may fail on a good day: only
		// an outage is to open the breaker, and one success ends it.
		Breaker: breaker.Settings{
			Window: 3 * time.Second, MinResults: 30, FailureRatio: 0.75, Probes: 1,
			OpenFor: 400 * time.Millisecond, MaxOpenFor: 800 * time.Millisecond,
		},
		Key: retry.KeyPolicy{Honored: trusted},
	}
}

// sdk pays through the SDK.
type sdk struct {
	url     string
	client  *http.Client
	trusted bool // the bank is declared to honour keys
}

// pay leaves all repeating to the SDK, but for one thing that only the caller
// can decide: when a call ends because the bank should be left alone for some
// time, a payment run has that time and comes back, with the same intention.
func (s sdk) pay(ctx context.Context, p bank.Payment) (r result) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	begin, busy := time.Now(), time.Duration(0)
	defer func() { r.waited = time.Since(begin) - busy }()
	doubt := false // an earlier call left the outcome open
	for {
		report := s.call(ctx, p)
		r.attempts += len(report.Attempts)
		r.resends += report.Resends
		for _, a := range report.Attempts {
			busy += a.Duration
		}
		switch report.Outcome {
		case retry.Applied:
			r.told = toldApplied
			return r
		case retry.Unknown:
			doubt = true
		}
		back := report.RetryAfter
		if back == 0 && errors.Is(report.Stop, breaker.ErrOpen) {
			back = 100 * time.Millisecond // others are trying the bank just now
		}
		if back == 0 || doubt && !s.trusted || deadline.Sleep(ctx, back) != nil {
			if !doubt {
				r.told = toldFailed
			}
			return r
		}
		if s.trusted && report.Intention.Key != "" {
			ctx = retry.WithIntention(ctx, report.Intention)
		}
	}
}

// call makes one call and returns what the SDK has to say about it.
func (s sdk) call(ctx context.Context, p bank.Payment) retry.Report {
	resp, err := post(ctx, s.client, s.url, p)
	if err == nil {
		return httpclient.ReportOf(resp)
	}
	report := retry.Report{Outcome: retry.NotApplied, Stop: err}
	if errors.Is(err, retry.ErrOutcomeUnknown) {
		report.Outcome = retry.Unknown
	}
	if e, ok := errors.AsType[*retry.Error](err); ok {
		report.Intention, report.Attempts, report.RetryAfter = e.Intention, e.Attempts, e.RetryAfter
		for _, a := range e.Attempts {
			report.Resends += a.Resends
		}
	}
	return report
}

// naive is the control: the loop that everybody has written once. It takes
// every failure for one that left no trace.
type naive struct {
	url    string
	client *http.Client
}

func (c naive) pay(ctx context.Context, p bank.Payment) result {
	const attempts = 12
	var r result
	for {
		r.attempts++
		resp, err := post(ctx, c.client, c.url, p)
		switch {
		case err == nil && resp.StatusCode < 300:
			r.told = toldApplied
			return r
		case ctx.Err() != nil:
			return r // interrupted: even this one knows that it knows nothing
		case err == nil && resp.StatusCode < 500 && resp.StatusCode != http.StatusTooManyRequests, r.attempts == attempts:
			r.told = toldFailed
			return r
		}
		wait := time.Duration(r.attempts) * 50 * time.Millisecond
		if deadline.Sleep(ctx, wait) != nil {
			return r
		}
		r.waited += wait
	}
}

// post sends the payment. The response's body has been read.
func post(ctx context.Context, client *http.Client, url string, p bank.Payment) (*http.Response, error) {
	body, err := json.Marshal(p)
	if err != nil {
		return nil, err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	req.Header.Set("Authorization", "Bearer "+token)
	req.Header.Set("Content-Type", "application/json")
	resp, err := client.Do(req)
	if err != nil {
		return nil, err
	}
	// The status has said all that is to be known; a body that breaks off
	// takes nothing back.
	_, _ = io.Copy(io.Discard, io.LimitReader(resp.Body, 64<<10))
	_ = resp.Body.Close()
	return resp, nil
}
