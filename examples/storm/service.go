package main

import (
	"context"
	"io"
	"math"
	"math/rand/v2"
	"net"
	"net/http"
	"strconv"
	"sync"
	"syscall"
	"time"

	"github.com/reintento/reintento/classify"
)

// service is the callee: some workers, a queue before them, and work that goes
// on when its caller has left, as it does in most of them. A caller that
// announces its deadline is the exception: what cannot be in time is not worked
// on, as httpclient.Receive does it.
type service struct {
	workers int // when well
	places  int // in the queue; 0: as many as come
	fault   fault
	began   time.Time

	mu      sync.Mutex
	chance  *rand.Rand
	busy    int
	queue   []*job
	applied map[string]bool // keys of what was done: a repeat is not done again
	effects map[int]int     // by intention
}

// fault is what is wrong with a service for a while.
type fault struct {
	from, to   time.Duration // since the beginning
	down       bool          // connections are refused
	capacity   float64       // the share of workers that are left; 0: all
	retryAfter int           // 429 with this hint, in seconds; 0: none
	lost       float64       // the share of answers lost after the work is done
	refused    float64       // the share of requests answered 503, not done
}

type job struct {
	intention int
	key       string    // empty: the request carries none
	late      time.Time // when the caller leaves; zero: it did not say
	answer    chan error
}

// serviceTime is what a request takes, within 20 %.
const serviceTime = 50 * time.Millisecond

// newService returns a service that is well until its fault, and holds that
// much work in its queue.
func newService(capacity float64, queue time.Duration, f fault, seed int64) *service {
	return &service{
		workers: max(1, int(math.Round(capacity*serviceTime.Seconds()))),
		places:  int(math.Ceil(capacity * queue.Seconds())),
		fault:   f, began: time.Now(),
		chance:  rand.New(rand.NewPCG(uint64(seed), 2)),
		applied: make(map[string]bool), effects: make(map[int]int),
	}
}

func (s *service) faulty() bool {
	t := time.Since(s.began)
	return t >= s.fault.from && t < s.fault.to
}

// call is one request as its caller sees it.
func (s *service) call(ctx context.Context, j *job) error {
	j.answer = make(chan error, 1)
	if err := s.accept(j); err != nil {
		return err
	}
	select {
	case err := <-j.answer:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// accept refuses a request or puts it into the queue.
func (s *service) accept(j *job) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.faulty() {
		switch f := s.fault; {
		case f.down:
			return &net.OpError{Op: "dial", Net: "tcp", Err: syscall.ECONNREFUSED}
		case f.retryAfter > 0:
			return answered(http.StatusTooManyRequests, f.retryAfter)
		case f.refused > 0 && s.chance.Float64() < f.refused:
			return answered(http.StatusServiceUnavailable, 0)
		}
	}
	if s.places > 0 && len(s.queue) >= s.places {
		return answered(http.StatusServiceUnavailable, 0)
	}
	s.queue = append(s.queue, j)
	s.work()
	return nil
}

// work gives waiting requests to free workers. s.mu is held.
func (s *service) work() {
	workers := s.workers
	if s.faulty() && s.fault.capacity > 0 {
		workers = max(1, int(math.Round(float64(workers)*s.fault.capacity)))
	}
	for s.busy < workers && len(s.queue) > 0 {
		j := s.queue[0]
		s.queue = s.queue[1:]
		left := time.Until(j.late)
		if !j.late.IsZero() && left <= 0 {
			continue // its caller said how long it waits: this is not started
		}
		s.busy++
		d := time.Duration(float64(serviceTime) * (0.8 + 0.4*s.chance.Float64()))
		if !j.late.IsZero() && left < d {
			time.AfterFunc(left, s.stopped) // and this not finished
			continue
		}
		time.AfterFunc(d, func() { s.done(j) })
	}
}

func (s *service) stopped() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.busy--
	s.work()
}

func (s *service) done(j *job) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.busy--
	if j.key == "" || !s.applied[j.key] {
		s.effects[j.intention]++
	}
	if j.key != "" {
		s.applied[j.key] = true
	}
	var err error
	if s.faulty() && s.chance.Float64() < s.fault.lost {
		err = io.ErrUnexpectedEOF
	}
	j.answer <- err
	s.work()
}

// statusError is a failed response, as a client makes one.
type statusError struct {
	code    int
	verdict classify.Verdict
}

func answered(code, retryAfter int) error {
	h := http.Header{}
	if retryAfter > 0 {
		h.Set("Retry-After", strconv.Itoa(retryAfter))
	}
	v, _ := classify.Status(code, h, time.Now())
	return &statusError{code: code, verdict: v}
}

func (e *statusError) Error() string             { return strconv.Itoa(e.code) + " " + http.StatusText(e.code) }
func (e *statusError) Verdict() classify.Verdict { return e.verdict }
