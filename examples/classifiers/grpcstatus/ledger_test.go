package grpcstatus_test

import (
	"context"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/reintento/reintento/classify"
	"github.com/reintento/reintento/examples/classifiers/grpcstatus"
	"github.com/reintento/reintento/retry"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/types/known/wrapperspb"
)

const add = "/bank.Ledger/Add"

// ledger is a gRPC service with one method, Add, that adds up what it is given,
// once for each key. A call meets the next fault, if there is one left.
type ledger struct {
	net.Listener
	server *grpc.Server

	mu     sync.Mutex
	conns  []net.Conn
	faults []fault
	calls  []time.Time
	keys   map[string]int // calls by key
	booked map[string]bool
	total  int64
}

// A fault stands in the place of the method for one call.
type fault func(ctx context.Context, l *ledger, apply func()) error

// fails answers with an error and does nothing.
func fails(err error) fault {
	return func(context.Context, *ledger, func()) error { return err }
}

// loses does the work and breaks the connection before the answer.
func loses(_ context.Context, l *ledger, apply func()) error {
	apply()
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, c := range l.conns {
		c.Close()
	}
	return nil
}

// hangs answers when the caller has gone.
func hangs(ctx context.Context, _ *ledger, _ func()) error {
	<-ctx.Done()
	return ctx.Err()
}

func always(f fault, n int) []fault {
	faults := make([]fault, n)
	for i := range faults {
		faults[i] = f
	}
	return faults
}

// open starts a ledger on loopback.
func open(faults ...fault) (*ledger, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	l := &ledger{Listener: listener, server: grpc.NewServer(), faults: faults, keys: make(map[string]int), booked: make(map[string]bool)}
	l.server.RegisterService(&grpc.ServiceDesc{
		ServiceName: "bank.Ledger",
		HandlerType: (*any)(nil),
		Methods:     []grpc.MethodDesc{{MethodName: "Add", Handler: l.add}},
	}, l)
	go l.server.Serve(l)
	return l, nil
}

func serve(t *testing.T, faults ...fault) *ledger {
	t.Helper()
	l, err := open(faults...)
	require.NoError(t, err, "opening a ledger")
	t.Cleanup(l.server.Stop)
	return l
}

func (l *ledger) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err == nil {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.conns = append(l.conns, c)
	}
	return c, err
}

func (l *ledger) add(_ any, ctx context.Context, decode func(any) error, _ grpc.UnaryServerInterceptor) (any, error) {
	amount := new(wrapperspb.Int64Value)
	if err := decode(amount); err != nil {
		return nil, err
	}
	l.mu.Lock()
	l.calls = append(l.calls, time.Now())
	var key string
	if md, ok := metadata.FromIncomingContext(ctx); ok && len(md["idempotency-key"]) == 1 {
		key = md["idempotency-key"][0]
	}
	l.keys[key]++
	var f fault
	if len(l.faults) > 0 {
		f, l.faults = l.faults[0], l.faults[1:]
	}
	l.mu.Unlock()

	apply := func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		if !l.booked[key] {
			l.booked[key] = key != ""
			l.total += amount.Value
		}
	}
	if f != nil {
		if err := f(ctx, l, apply); err != nil {
			return nil, err
		}
	} else {
		apply()
	}
	return wrapperspb.Int64(l.sum()), nil
}

func (l *ledger) sum() int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.total
}

// seen returns when calls came, and how many for each key.
func (l *ledger) seen() (calls []time.Time, keys map[string]int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.calls, l.keys
}

// dial connects to the ledger. Keys go along with each call.
func dial(l *ledger, opts ...grpc.DialOption) (*grpc.ClientConn, error) {
	return grpc.NewClient("passthrough:///"+l.Addr().String(), append([]grpc.DialOption{
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithUnaryInterceptor(grpcstatus.Keys),
	}, opts...)...)
}

// caller is what a program has: a connection, and a destination for it.
type caller struct {
	*grpc.ClientConn
	dest *retry.Destination
}

func connect(t *testing.T, l *ledger, p retry.Policy, opts ...grpc.DialOption) *caller {
	t.Helper()
	conn, err := dial(l, opts...)
	require.NoError(t, err, "grpc.NewClient")
	t.Cleanup(func() { conn.Close() })
	if p.BaseDelay == 0 {
		p.BaseDelay, p.ThrottleDelay, p.MaxDelay = time.Millisecond, time.Millisecond, 5*time.Millisecond
	}
	dest, err := retry.NewDestination("ledger", p, &retry.Options{Classifiers: []classify.Classifier{grpcstatus.Classify}})
	require.NoError(t, err, "NewDestination")
	return &caller{ClientConn: conn, dest: dest}
}

func (c *caller) add(ctx context.Context, s retry.Safety, amount int64) (int64, error) {
	return retry.Do(ctx, c.dest, s, func(ctx context.Context) (int64, error) {
		sum := new(wrapperspb.Int64Value)
		err := c.Invoke(ctx, add, wrapperspb.Int64(amount), sum)
		return sum.Value, err
	}, retry.Named("add"))
}
