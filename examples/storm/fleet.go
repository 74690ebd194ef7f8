package main

import (
	"context"
	"errors"
	randv1 "math/rand"
	"math/rand/v2"
	"strconv"
	"sync"
	"time"

	"github.com/reintento/reintento/breaker"
	"github.com/reintento/reintento/retry"
)

// The course of a simulation: all is well, the fault, and what comes after.
const (
	warmUp = 15 * time.Second
	after  = 30 * time.Second
	load   = 0.77 // the share of the capacity that is asked for
)

// storm lets calls arrive until the end, and waits for the last one.
func storm(sc scenario, policy retry.Policy, o options) (*measures, error) {
	// One source for all that the SDK draws. Whatever runs at one instant draws
	// from a source of its own, and instants hardly ever coincide: so the order
	// of draws, and with it the result, is the same in each run.
	//lint:ignore SA1019 the SDK draws from this source, and has no other
	randv1.Seed(o.seed)
	chance := rand.New(rand.NewPCG(uint64(o.seed), 1))

	fleet := make([]*retry.Destination, o.processes)
	for i := range fleet {
		d, err := retry.NewDestination("service", policy, nil)
		if err != nil {
			return nil, err
		}
		fleet[i] = d
	}
	rate := o.rate * float64(o.processes)
	capacity := rate / load
	f := sc.fault
	f.from, f.to = warmUp, warmUp+sc.lasts
	s := newService(capacity, sc.queue, f, o.seed)
	end := f.to + after
	m := newMeasures(s.began, f, end, capacity)

	var calls sync.WaitGroup
	stop := make(chan struct{})
	calls.Go(func() { m.watch(fleet, stop) })
	for n := 0; ; n++ {
		time.Sleep(time.Duration(chance.ExpFloat64() * float64(time.Second) / rate))
		if time.Since(s.began) >= end {
			break
		}
		d := fleet[chance.IntN(len(fleet))]
		calls.Go(func() { call(d, s, sc, policy, m, n) })
	}
	close(stop)
	calls.Wait()
	m.close(s)
	return m, nil
}

// call is one intention of one process.
func call(d *retry.Destination, s *service, sc scenario, policy retry.Policy, m *measures, n int) {
	start := time.Now()
	m.called(start)
	err := d.Do(context.Background(), sc.safety, func(ctx context.Context) error {
		m.tried(time.Now())
		j := &job{intention: n}
		if sc.safety == retry.Keyed {
			j.key = strconv.Itoa(n) // what a key is for: the same in each attempt
		}
		if policy.Announce {
			j.late, _ = ctx.Deadline()
		}
		err := s.call(ctx, j)
		if answer, ok := errors.AsType[*statusError](err); ok {
			if class, own := policy.Statuses[answer.code]; own {
				answer.verdict.Class = class
			}
		}
		return err
	})
	m.ended(n, start, err)
}

// watch notes the state of the fleet twice a second.
func (m *measures) watch(fleet []*retry.Destination, stop <-chan struct{}) {
	tick := time.NewTicker(bin)
	defer tick.Stop()
	for {
		select {
		case <-stop:
			return
		case <-tick.C:
		}
		open, budget := 0, 0.0
		for _, d := range fleet {
			s := d.Snapshot()
			if s.Breaker != breaker.Closed {
				open++
			}
			budget += s.Budget
		}
		m.state(time.Now(), float64(open)/float64(len(fleet)), budget/float64(len(fleet)))
	}
}
