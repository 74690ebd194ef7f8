package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/reintento/reintento/examples/payments/badnet"
	"github.com/reintento/reintento/examples/payments/bank"
)

const (
	// token is the callers' name for themselves at the bank, tenant the
	// bank's name for them.
	token  = "shop-1"
	tenant = "shop"

	// slow is the share of requests that the network holds, slowest how long.
	slow    = 0.1
	slowest = 200 * time.Millisecond

	// lease is short, since the bank crashes in the outage and what it was
	// at is not to be waited for.
	lease = 500 * time.Millisecond
)

// errDatabase says that the file cannot be used.
var errDatabase = errors.New("-db")

// system is the bank and the network in front of it.
type system struct {
	store   *bank.Store
	bank    *bank.Server
	process *bank.Process
	network *badnet.Network

	quit   context.CancelFunc
	outage chan error // gets one value when no outage is under way or to come
}

// startSystem opens the database, starts the bank and the network, and lets the
// outage come when its time has come.
func startSystem(path string, o options, log *progress) (*system, error) {
	store, err := bank.Open(path)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errDatabase, err)
	}
	s := &system{store: store, outage: make(chan error, 1)}
	s.bank = &bank.Server{
		Store:       store,
		Tenants:     map[string]string{token: tenant},
		KeyOptional: o.client == clientNaive,
		Lease:       lease,
		Work:        work,
		Throttle:    throttle(o.seed, o.throttle),
	}
	if s.process, err = s.bank.Start(); err != nil {
		return nil, errors.Join(err, store.Close())
	}
	s.network, err = badnet.New(s.process.Addr(), badnet.Faults{
		Seed: o.seed, Cut: o.cut, Reset: o.reset, Slow: slow, Delay: slowest,
	})
	if err != nil {
		s.process.Kill()
		return nil, errors.Join(err, store.Close())
	}
	ctx, quit := context.WithCancel(context.Background())
	s.quit = quit
	when := s.network.Reached(uint64(max(1, o.n/3)))
	go func() { s.outage <- s.fall(ctx, when, o.outage, log) }()
	return s, nil
}

// fall waits for the moment, then lets the bank crash and starts it again over
// the same database when the outage is over.
func (s *system) fall(ctx context.Context, when <-chan bool, outage time.Duration, log *progress) error {
	if outage == 0 {
		return nil
	}
	select {
	case <-when:
	case <-ctx.Done():
		return nil
	}
	log.notef("the bank crashes; connections are refused for %v", outage)
	s.network.Down()
	s.process.Kill()
	t := time.NewTimer(outage)
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
		return nil
	}
	p, err := s.bank.Start()
	if err != nil {
		return err
	}
	s.process = p
	log.notef("the bank is back, over the same database")
	return s.network.Up(p.Addr())
}

// stop ends everything. When it returns, no charge can be made any more.
func (s *system) stop() error {
	s.quit()
	err := <-s.outage
	s.network.Close()
	// Requests whose callers have left may still be at work. They get a
	// moment; what is cut off then is rolled back.
	ctx, cancel := context.WithTimeout(context.Background(), 300*time.Millisecond)
	defer cancel()
	return errors.Join(err, s.process.Shutdown(ctx), s.store.Close())
}

// work is what a charge takes: a few milliseconds at somebody else's.
func work(ctx context.Context) error {
	t := time.NewTimer(2*time.Millisecond + rand.N(13*time.Millisecond))
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// throttle turns a share of the requests away: with a time in milliseconds as
// a rule, with a whole second now and then.
func throttle(seed uint64, share float64) func() (int, time.Duration) {
	var n atomic.Uint64
	return func() (int, time.Duration) {
		// Its own stream: the seed alone draws the network's faults.
		r := rand.New(rand.NewPCG(^seed, n.Add(1)))
		if r.Float64() >= share {
			return 0, 0
		}
		status := http.StatusTooManyRequests
		if r.IntN(2) == 0 {
			status = http.StatusServiceUnavailable
		}
		if r.IntN(10) == 0 {
			return status, time.Second
		}
		return status, time.Duration(20+r.IntN(60)) * time.Millisecond
	}
}
