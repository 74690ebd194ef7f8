package bank

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"unicode/utf8"
)

// Payment is one payment as it is asked for and as it is answered.
//
// Reference is the caller's own name for it, which the bank keeps and hands
// back and otherwise never looks at: it is neither unique nor part of the
// fingerprint. Only the key tells two intentions apart. So two payments of
// the same amount to the same payee with the same text are the same to the
// bank, and a client that mixed up their keys would lose one of them, where
// the audit finds it by the reference.
type Payment struct {
	ID        string `json:"id,omitempty"` // given by the bank
	Reference string `json:"reference"`
	Amount    int64  `json:"amount"`   // in the currency's smallest unit
	Currency  string `json:"currency"` // three letters
	Payee     string `json:"payee"`
	Text      string `json:"text"`
}

// parsePayment reads exactly one payment, brings its fields into their normal
// form and names every one that is not allowed.
func parsePayment(r io.Reader) (Payment, error) {
	d := json.NewDecoder(r)
	d.DisallowUnknownFields()
	var p Payment
	if err := d.Decode(&p); err != nil {
		return Payment{}, fmt.Errorf("body: %w", err)
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return Payment{}, errors.New("body: want one JSON object and nothing after it")
	}
	p.Currency = strings.ToUpper(strings.TrimSpace(p.Currency))
	p.Payee = strings.Join(strings.Fields(p.Payee), " ")
	p.Text = strings.TrimSpace(p.Text)

	var problems []error
	bad := func(field string, value any, allowed string) {
		problems = append(problems, fmt.Errorf("%s: %v: %s", field, value, allowed))
	}
	if p.ID != "" {
		bad("id", fmt.Sprintf("%q", p.ID), "is given by the bank and must be left out")
	}
	if n := len(p.Reference); n == 0 || n > 64 {
		bad("reference", fmt.Sprintf("%d bytes", n), "want 1 to 64")
	}
	if p.Amount <= 0 {
		bad("amount", p.Amount, "want more than 0")
	}
	if len(p.Currency) != 3 || strings.Trim(p.Currency, "ABCDEFGHIJKLMNOPQRSTUVWXYZ") != "" {
		bad("currency", fmt.Sprintf("%q", p.Currency), "want three letters")
	}
	if n := utf8.RuneCountInString(p.Payee); n == 0 || n > 140 {
		bad("payee", fmt.Sprintf("%d characters", n), "want 1 to 140")
	}
	if n := utf8.RuneCountInString(p.Text); n > 140 {
		bad("text", fmt.Sprintf("%d characters", n), "want at most 140")
	}
	return p, errors.Join(problems...)
}

// fingerprint is a hash of the fields that define the intention, in their
// normal form: the same key with another fingerprint is a mistake of the
// caller's.
func (p Payment) fingerprint() []byte {
	var b bytes.Buffer
	// Quoting keeps the fields apart: no value can reach into the next.
	fmt.Fprintf(&b, "%d %q %q %q", p.Amount, p.Currency, p.Payee, p.Text)
	sum := sha256.Sum256(b.Bytes())
	return sum[:]
}
