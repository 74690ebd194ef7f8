package postgres_test

import (
	"context"
	"fmt"
	"net"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgproto3"
	"github.com/stretchr/testify/require"
)

// database speaks as much of PostgreSQL's protocol as a statement needs. Each
// session, and then each statement, meets the next fault, if there is one left.
type database struct {
	net.Listener

	mu         sync.Mutex
	sessions   []string // SQLSTATEs that refuse the next ones
	faults     []fault
	statements []string
	rows       int // that statements have made
	open       sync.WaitGroup
}

// A fault answers a statement with an error of a SQLSTATE, or loses the
// connection after the work is done.
type fault struct {
	state string
	lose  bool
}

func always(f fault, n int) []fault {
	faults := make([]fault, n)
	for i := range faults {
		faults[i] = f
	}
	return faults
}

// start runs a database on loopback until stop is called.
func start(faults ...fault) (db *database, stop func(), err error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, nil, err
	}
	db = &database{Listener: l, faults: faults}
	db.open.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			db.open.Go(func() {
				defer c.Close()
				db.session(pgproto3.NewBackend(c, c))
			})
		}
	})
	return db, func() { l.Close(); db.open.Wait() }, nil
}

func serve(t *testing.T, faults ...fault) *database {
	t.Helper()
	db, stop, err := start(faults...)
	require.NoError(t, err, "starting a database")
	t.Cleanup(stop)
	return db
}

// session serves a client until it leaves or its connection is to break.
func (db *database) session(b *pgproto3.Backend) {
	if _, err := b.ReceiveStartupMessage(); err != nil {
		return
	}
	if state := db.refusal(); state != "" {
		b.Send(&pgproto3.ErrorResponse{Severity: "FATAL", Code: state, Message: "refused"})
		b.Flush()
		return
	}
	b.Send(&pgproto3.AuthenticationOk{})
	b.Send(&pgproto3.ReadyForQuery{TxStatus: 'I'})
	for b.Flush() == nil {
		m, err := b.Receive()
		if err != nil {
			return
		}
		q, ok := m.(*pgproto3.Query)
		if !ok {
			return
		}
		f := db.meet(q.String)
		switch {
		case f.lose:
			return
		case f.state != "":
			b.Send(&pgproto3.ErrorResponse{Severity: "ERROR", Code: f.state, Message: "failed"})
		default:
			b.Send(&pgproto3.CommandComplete{CommandTag: []byte("INSERT 0 1")})
		}
		b.Send(&pgproto3.ReadyForQuery{TxStatus: 'I'})
	}
}

func (db *database) refusal() (state string) {
	db.mu.Lock()
	defer db.mu.Unlock()
	if len(db.sessions) > 0 {
		state, db.sessions = db.sessions[0], db.sessions[1:]
	}
	return state
}

// meet notes a statement and returns what happens to it.
func (db *database) meet(sql string) (f fault) {
	db.mu.Lock()
	defer db.mu.Unlock()
	db.statements = append(db.statements, sql)
	if len(db.faults) > 0 {
		f, db.faults = db.faults[0], db.faults[1:]
	}
	if f.state == "" {
		db.rows++
	}
	return f
}

// count returns how many statements were seen and how many rows they made.
func (db *database) count() (statements, rows int) {
	db.mu.Lock()
	defer db.mu.Unlock()
	return len(db.statements), db.rows
}

// insert makes a row over a connection of its own.
func (db *database) insert(ctx context.Context) error {
	conn, err := db.connect(ctx)
	if err != nil {
		return err
	}
	defer conn.Close(ctx)
	return insert(ctx, conn)
}

func (db *database) connect(ctx context.Context) (*pgx.Conn, error) {
	return pgx.Connect(ctx, fmt.Sprintf("postgres://user@%s/bank?sslmode=disable&default_query_exec_mode=simple_protocol", db.Addr()))
}

func insert(ctx context.Context, conn *pgx.Conn) error {
	_, err := conn.Exec(ctx, "insert into payments default values")
	return err
}
