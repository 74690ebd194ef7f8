// Package bank is a payment API that charges once however often it is asked:
// the server half of the idempotency-key pattern, over a SQLite file.
//
// It knows nothing of the SDK. What it promises, it promises to any client.
package bank

import (
	"context"
	"crypto/rand"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"path/filepath"
	"time"

	_ "modernc.org/sqlite" // the driver "sqlite", in pure Go
)

// KeyLife is how long the answer to a finished request is kept under its key.
// A key that comes back later is a new intention.
const KeyLife = 24 * time.Hour

// The states of an idempotency record.
const (
	processing             = "processing"              // reserved; somebody is at work until the lease ends
	succeeded              = "succeeded"               // charged; the answer is stored
	failedPermanent        = "failed_permanent"        // refused for good; the answer is stored
	requiresReconciliation = "requires_reconciliation" // its worker is gone; look before anything else is done
)

// schema keeps the charges apart from the promises about them. A charge names
// the record it was made under, and UNIQUE makes a second charge under the
// same reservation impossible even if the code above it were wrong. Charges
// of callers without a key have no record: NULLs are distinct.
//
// The caller's reference has no UNIQUE on purpose; see [Payment].
// AUTOINCREMENT: the id of an expired record must not come back.
const schema = `
CREATE TABLE IF NOT EXISTS idempotency_records (
	id          INTEGER PRIMARY KEY AUTOINCREMENT,
	tenant      TEXT    NOT NULL,
	operation   TEXT    NOT NULL,
	key         TEXT    NOT NULL,
	fingerprint BLOB    NOT NULL,
	state       TEXT    NOT NULL,
	owner       TEXT    NOT NULL,
	lease_until INTEGER NOT NULL,
	expires_at  INTEGER NOT NULL,
	status      INTEGER,
	body        BLOB,
	UNIQUE (tenant, operation, key)
);
CREATE INDEX IF NOT EXISTS idempotency_records_by_expiry ON idempotency_records (expires_at);
CREATE TABLE IF NOT EXISTS payments (
	id         TEXT    PRIMARY KEY,
	record     INTEGER UNIQUE,
	tenant     TEXT    NOT NULL,
	reference  TEXT    NOT NULL,
	amount     INTEGER NOT NULL,
	currency   TEXT    NOT NULL,
	payee      TEXT    NOT NULL,
	text       TEXT    NOT NULL,
	created_at INTEGER NOT NULL
);
CREATE INDEX IF NOT EXISTS payments_by_reference ON payments (tenant, reference);
`

// Store is the database file. It is safe for concurrent use, by several
// processes too.
type Store struct {
	db *sql.DB
}

// Open opens the file at path and creates it and its tables if they are not
// there. The caller closes the Store.
func Open(path string) (*Store, error) {
	abs, err := filepath.Abs(path)
	if err != nil {
		return nil, fmt.Errorf("bank: database %q: %w", path, err)
	}
	// synchronous=FULL: a payment that was answered survives a power cut.
	// Transactions start as writers (immediate): one that reads first and
	// writes later could otherwise be refused half-way.
	dsn := url.URL{Scheme: "file", Path: abs, RawQuery: url.Values{
		"_pragma": {"busy_timeout(5000)", "journal_mode(WAL)", "synchronous(FULL)"},
		"_txlock": {"immediate"},
	}.Encode()}
	db, err := sql.Open("sqlite", dsn.String())
	if err != nil {
		return nil, fmt.Errorf("bank: database %q: %w", path, err)
	}
	if _, err := db.Exec(schema); err != nil {
		_ = db.Close()
		return nil, fmt.Errorf("bank: database %q: %w", path, err)
	}
	return &Store{db: db}, nil
}

// Close closes the file.
func (s *Store) Close() error { return s.db.Close() }

// answer is what the first request was told and every repeat is told again.
type answer struct {
	status int
	body   []byte
}

// claim is what a request finds under its key.
type claim struct {
	state      string // processing with mine set: go on; otherwise as stored
	mine       bool   // this request may (processing) or must (requires_reconciliation) go on
	id         int64
	owner      string
	sameFields bool          // the fingerprint agrees with the first request's
	left       time.Duration // what is left of another worker's lease
	answer     answer        // of a finished one
}

// scope names one intention as the server sees it.
type scope struct {
	tenant, operation, key string
}

// reserve takes the key for this request if nobody has it, in a transaction of
// its own: from its commit on, every other request under the key sees that one
// is at work.
//
// A record whose worker let its lease run out is fenced: it gets a new owner,
// so the old worker can no longer commit, and the state
// requires_reconciliation, so nobody charges before somebody has looked.
func (s *Store) reserve(ctx context.Context, sc scope, fingerprint []byte, now time.Time, lease time.Duration) (claim, error) {
	owner := rand.Text()
	var c claim
	err := s.write(ctx, func(tx *sql.Tx) error {
		// Only finished records expire. One whose outcome is open stays
		// until it is settled, however old it gets.
		_, err := tx.ExecContext(ctx, `DELETE FROM idempotency_records WHERE expires_at <= ? AND state IN (?, ?)`,
			now.UnixMilli(), succeeded, failedPermanent)
		if err != nil {
			return err
		}
		res, err := tx.ExecContext(ctx, `INSERT INTO idempotency_records
			(tenant, operation, key, fingerprint, state, owner, lease_until, expires_at)
			VALUES (?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT (tenant, operation, key) DO NOTHING`,
			sc.tenant, sc.operation, sc.key, fingerprint, processing, owner,
			now.Add(lease).UnixMilli(), now.Add(KeyLife).UnixMilli())
		if err != nil {
			return err
		}
		inserted, err := res.RowsAffected()
		if err != nil {
			return err
		}
		if inserted == 1 {
			c = claim{state: processing, mine: true, owner: owner, sameFields: true}
			c.id, err = res.LastInsertId()
			return err
		}

		var stored []byte
		var leaseUntil int64
		var status sql.NullInt64
		err = tx.QueryRowContext(ctx, `SELECT id, fingerprint, state, owner, lease_until, status, body
			FROM idempotency_records WHERE tenant = ? AND operation = ? AND key = ?`,
			sc.tenant, sc.operation, sc.key).
			Scan(&c.id, &stored, &c.state, &c.owner, &leaseUntil, &status, &c.answer.body)
		if err != nil {
			return err
		}
		c.sameFields = string(stored) == string(fingerprint)
		c.answer.status = int(status.Int64)
		c.left = time.UnixMilli(leaseUntil).Sub(now)
		open := c.state == processing || c.state == requiresReconciliation
		if !c.sameFields || !open || c.left > 0 {
			return nil
		}

		// The lease is over: the worker crashed, or is so late that it
		// must not finish any more.
		_, err = tx.ExecContext(ctx, `UPDATE idempotency_records SET state = ?, owner = ?, lease_until = ? WHERE id = ?`,
			requiresReconciliation, owner, now.Add(lease).UnixMilli(), c.id)
		c.state, c.mine, c.owner = requiresReconciliation, true, owner
		return err
	})
	return c, err
}

// errFenced says that another worker took the record over; what this one
// wanted to write was not written.
var errFenced = errors.New("bank: the record has another owner now")

// reconcile looks for the charge that a vanished worker may have made under
// the claim. If there is one, its answer is stored and becomes everybody's. If
// there is none, there never will be (the old owner is fenced), and the claim
// goes back to processing: it may be charged now.
func (s *Store) reconcile(ctx context.Context, c claim) (claim, error) {
	err := s.write(ctx, func(tx *sql.Tx) error {
		var p Payment
		err := tx.QueryRowContext(ctx, `SELECT `+paymentColumns+` FROM payments WHERE record = ?`, c.id).Scan(p.columns()...)
		if errors.Is(err, sql.ErrNoRows) {
			c.state = processing
			return settle(ctx, tx, c, requiresReconciliation, nil)
		}
		if err != nil {
			return err
		}
		c.state = succeeded
		if c.answer, err = created(p); err != nil {
			return err
		}
		return settle(ctx, tx, c, requiresReconciliation, &c.answer)
	})
	return c, err
}

// charge makes the payment and stores its answer in one transaction: there is
// no moment at which one of them exists without the other.
func (s *Store) charge(ctx context.Context, c claim, tenant string, p Payment, now time.Time) (answer, error) {
	a, err := created(p)
	if err != nil {
		return answer{}, err
	}
	err = s.write(ctx, func(tx *sql.Tx) error {
		c.state = succeeded
		if err := settle(ctx, tx, c, processing, &a); err != nil {
			return err
		}
		return insert(ctx, tx, sql.NullInt64{Int64: c.id, Valid: true}, tenant, p, now)
	})
	return a, err
}

// decline stores a refusal that would be the same every time.
func (s *Store) decline(ctx context.Context, c claim, a answer) error {
	return s.write(ctx, func(tx *sql.Tx) error {
		c.state = failedPermanent
		return settle(ctx, tx, c, processing, &a)
	})
}

// chargeUnprotected makes a payment under no key. Nothing remembers it: if it
// is asked for twice, it is made twice.
func (s *Store) chargeUnprotected(ctx context.Context, tenant string, p Payment, now time.Time) (answer, error) {
	a, err := created(p)
	if err != nil {
		return answer{}, err
	}
	return a, s.write(ctx, func(tx *sql.Tx) error {
		return insert(ctx, tx, sql.NullInt64{}, tenant, p, now)
	})
}

// settle moves the claim's record from the state it must have to the claim's,
// if the claim still owns it; otherwise it returns errFenced.
func settle(ctx context.Context, tx *sql.Tx, c claim, from string, a *answer) error {
	var status, body any
	if a != nil {
		status, body = a.status, a.body
	}
	res, err := tx.ExecContext(ctx, `UPDATE idempotency_records SET state = ?, status = ?, body = ?
		WHERE id = ? AND owner = ? AND state = ?`, c.state, status, body, c.id, c.owner, from)
	if err != nil {
		return err
	}
	n, err := res.RowsAffected()
	if err == nil && n != 1 {
		err = errFenced
	}
	return err
}

func insert(ctx context.Context, tx *sql.Tx, record sql.NullInt64, tenant string, p Payment, now time.Time) error {
	_, err := tx.ExecContext(ctx, `INSERT INTO payments
		(id, record, tenant, reference, amount, currency, payee, text, created_at)
		VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)`,
		p.ID, record, tenant, p.Reference, p.Amount, p.Currency, p.Payee, p.Text, now.UnixMilli())
	return err
}

// byReference returns the tenant's payments under a reference, oldest first.
func (s *Store) byReference(ctx context.Context, tenant, reference string) ([]Payment, error) {
	rows, err := s.db.QueryContext(ctx, `SELECT `+paymentColumns+` FROM payments
		WHERE tenant = ? AND reference = ? ORDER BY created_at, id`, tenant, reference)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var found []Payment
	for rows.Next() {
		var p Payment
		if err := rows.Scan(p.columns()...); err != nil {
			return nil, err
		}
		found = append(found, p)
	}
	return found, rows.Err()
}

const paymentColumns = "id, reference, amount, currency, payee, text"

func (p *Payment) columns() []any {
	return []any{&p.ID, &p.Reference, &p.Amount, &p.Currency, &p.Payee, &p.Text}
}

// created is the answer to a payment that was made.
func created(p Payment) (answer, error) {
	body, err := json.Marshal(p)
	return answer{status: http.StatusCreated, body: body}, err
}

// write runs f in one transaction.
func (s *Store) write(ctx context.Context, f func(*sql.Tx) error) error {
	tx, err := s.db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }() // without effect after a commit
	if err := f(tx); err != nil {
		return err
	}
	return tx.Commit()
}
