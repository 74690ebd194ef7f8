package bank

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"sync"
	"time"
)

// Process is one run of a [Server] on a port of its own. Several may follow
// each other over one Store, as the runs of a real program do.
type Process struct {
	http   *http.Server
	addr   string
	die    context.CancelFunc
	served chan struct{} // closed when no connection is accepted any more

	mu       sync.Mutex // guards dead, and Add on handlers against Wait
	dead     bool
	handlers sync.WaitGroup
}

// Start serves on a free loopback port. The caller ends the Process with
// [Process.Kill] or [Process.Shutdown].
func (s *Server) Start() (*Process, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("bank: %w", err)
	}
	life, die := context.WithCancel(context.Background())
	p := &Process{addr: l.Addr().String(), die: die, served: make(chan struct{})}
	api := s.Handler(life)
	p.http = &http.Server{
		ReadHeaderTimeout: 5 * time.Second,
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if !p.enter() {
				panic(http.ErrAbortHandler)
			}
			defer p.handlers.Done()
			api.ServeHTTP(w, r)
		}),
	}
	go func() {
		defer close(p.served)
		_ = p.http.Serve(l) // always http.ErrServerClosed here
	}()
	return p, nil
}

// Addr is the host and port that the process listens on.
func (p *Process) Addr() string { return p.addr }

// enter reports whether a request may still begin.
func (p *Process) enter() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.dead {
		p.handlers.Add(1)
	}
	return !p.dead
}

// Kill ends the process as a crash would: connections break, and requests
// stop between two transactions and leave their reservations behind. It
// returns when nothing of the process runs any more.
func (p *Process) Kill() {
	p.mu.Lock()
	p.dead = true
	p.mu.Unlock()
	p.die()
	_ = p.http.Close() // the listener's error is of no use to anybody
	<-p.served
	p.handlers.Wait() // Close does not
}

// Shutdown lets the requests under way finish, until ctx ends; then it kills
// what is left.
func (p *Process) Shutdown(ctx context.Context) error {
	err := p.http.Shutdown(ctx)
	p.Kill()
	if err != nil {
		return fmt.Errorf("bank: requests were still running: %w", err)
	}
	return nil
}
