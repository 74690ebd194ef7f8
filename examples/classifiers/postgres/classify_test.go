package postgres_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/reintento/reintento/classify"
	"github.com/reintento/reintento/retry"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func destination(t *testing.T) *retry.Destination {
	t.Helper()
	p := retry.Policy{BaseDelay: time.Millisecond, ThrottleDelay: time.Millisecond, MaxDelay: 5 * time.Millisecond}
	d, err := retry.NewDestination("bank", p, nil)
	require.NoError(t, err, "NewDestination")
	return d
}

func TestEachSQLStateIsRepeatedAsItsMeaningAllows(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name       string
		states     []string
		class      classify.Class
		unsafe     int // statements that the database sees
		idempotent int
	}{
		{
			"had no effect",
			[]string{"40001", "40P01", "55P03", "57P03", "53300", "08001", "08004"},
			classify.Retryable, 3, 3,
		},
		{
			"may have had its effect",
			[]string{"08000", "08003", "08006", "08007", "40003", "57P01", "57P02", "58000", "58030", "XX000", "XX001"},
			classify.Ambiguous, 1, 3,
		},
		{
			"would fail the same way again",
			[]string{"08P01", "22012", "23505", "25P02", "28P01", "42601", "42P01", "53100", "57014", "P0001"},
			classify.Permanent, 1, 1,
		},
	} {
		for _, state := range c.states {
			t.Run(c.name+" "+state, func(t *testing.T) {
				t.Parallel()
				for safety, want := range map[retry.Safety]int{retry.Unsafe: c.unsafe, retry.Idempotent: c.idempotent} {
					db := serve(t, always(fault{state: state}, 5)...)
					err := destination(t).Do(t.Context(), safety, db.insert)
					e, ok := errors.AsType[*retry.Error](err)
					require.True(t, ok, "error of %v is %T %v, want a *retry.Error", safety, err, err)
					statements, _ := db.count()
					assert.Equal(t, want, statements, "statements seen by the database for %v", safety)
					assert.Equal(t, c.class, e.Attempts[0].Verdict.Class, "class for %v", safety)
					pg, ok := errors.AsType[*pgconn.PgError](err)
					require.True(t, ok, "%v holds the *pgconn.PgError", err)
					assert.Equal(t, state, pg.Code, "SQLSTATE in the error")
					assert.Equal(t, c.class == classify.Ambiguous, errors.Is(err, retry.ErrOutcomeUnknown), "%v Is ErrOutcomeUnknown", err)
				}
			})
		}
	}
}

func TestARefusedSessionIsRepeatedIfThatHelps(t *testing.T) {
	t.Parallel()
	db := serve(t)
	db.sessions = []string{"57P03", "53300"} // starting up, and then full
	require.NoError(t, destination(t).Do(t.Context(), retry.Unsafe, db.insert), "an insert through two refused sessions")
	statements, rows := db.count()
	assert.Equal(t, 1, statements, "statements seen by the database")
	assert.Equal(t, 1, rows, "rows made")

	db.sessions = []string{"28P01"} // wrong password
	assert.ErrorIs(t, destination(t).Do(t.Context(), retry.Unsafe, db.insert), retry.ErrPermanent, "an insert with a wrong password")
}

func TestADatabaseThatIsDownIsAskedAgain(t *testing.T) {
	t.Parallel()
	db, stop, err := start()
	require.NoError(t, err, "starting a database")
	stop()
	err = destination(t).Do(t.Context(), retry.Unsafe, db.insert)
	e, ok := errors.AsType[*retry.Error](err)
	require.True(t, ok, "error is %T %v, want a *retry.Error", err, err)
	assert.Len(t, e.Attempts, 3, "attempts at a closed port: %v", err)
	assert.Equal(t, retry.NotApplied, e.Outcome, "outcome at a closed port")
}

// pgx says of the lost answer that the connection was closed and the statement
// safe to repeat. It is not: the row is there.
func TestALostCommitIsNotRepeatedUnlessDeclaredIdempotent(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		safety  retry.Safety
		rows    int
		unknown bool
	}{
		{retry.Unsafe, 1, true},
		{retry.Idempotent, 2, false},
	} {
		db := serve(t, fault{lose: true})
		var first error
		err := destination(t).Do(t.Context(), c.safety, func(ctx context.Context) error {
			err := db.insert(ctx)
			if retry.AttemptOf(ctx) == 1 {
				first = err
			}
			return err
		})
		assert.True(t, pgconn.SafeToRetry(first), "SafeToRetry(%v)", first)
		assert.Equal(t, c.unknown, errors.Is(err, retry.ErrOutcomeUnknown), "%v: %v Is ErrOutcomeUnknown", c.safety, err)
		_, rows := db.count()
		assert.Equal(t, c.rows, rows, "rows made by %v", c.safety)
	}
}

// A connection out of a pool may be closed already. The operation that looks
// before it sends knows that nothing was sent, and says so.
func TestAnOperationSaysWhatItKnowsNotToHaveSent(t *testing.T) {
	t.Parallel()
	db := serve(t)
	conn, err := db.connect(t.Context())
	require.NoError(t, err, "connecting")
	require.NoError(t, conn.Close(t.Context()), "closing the connection")
	attempts := 0
	err = destination(t).Do(t.Context(), retry.Unsafe, func(ctx context.Context) error {
		attempts++
		if conn.IsClosed() {
			var err error
			if conn, err = db.connect(ctx); err != nil {
				return err
			}
			return classify.As(classify.Retryable, pgconn.ErrConnClosed)
		}
		return insert(ctx, conn)
	})
	require.NoError(t, err, "an insert over a connection that was closed at first")
	assert.Equal(t, 2, attempts, "attempts")
	_, rows := db.count()
	assert.Equal(t, 1, rows, "rows made")
	require.NoError(t, conn.Close(t.Context()), "closing the second connection")
}
