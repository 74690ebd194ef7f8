// Package badnet is a network that loses answers: a TCP proxy on loopback that
// knows enough of HTTP/1.1 to break a connection at the moment that hurts.
//
// It knows nothing of payments, keys or the SDK, and of HTTP neither upgrades
// nor "Expect: 100-continue".
package badnet

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"
)

// Faults says what goes wrong and how often. The same seed gives the same
// fault to the n-th request; which payment that request carries depends on
// which worker came first.
type Faults struct {
	Seed uint64

	// Cut is the share of requests whose connection is broken when the
	// server has processed them and before one byte of its answer is passed
	// on, by a FIN or a RST in turn.
	Cut float64

	// Reset is the share of requests that are reset half-way through their
	// upload: the server never has them whole.
	Reset float64

	// Slow is the share of the requests that are held for up to Delay before
	// they are passed on.
	Slow  float64
	Delay time.Duration
}

type kind uint8

const (
	passed kind = iota
	cut
	reset
)

// fate is what happens to one request.
type fate struct {
	kind  kind
	fin   bool // a cut ends with a FIN
	delay time.Duration
}

// of returns the fate of the n-th request. It depends on nothing else, so
// what one connection does moves nothing for another.
func (f Faults) of(n uint64) fate {
	r := rand.New(rand.NewPCG(f.Seed, n))
	var t fate
	switch x := r.Float64(); {
	case x < f.Cut:
		t.kind, t.fin = cut, r.IntN(2) == 0
	case x < f.Cut+f.Reset:
		t.kind = reset
	}
	if r.Float64() < f.Slow {
		t.delay = time.Duration(r.Float64() * float64(f.Delay))
	}
	return t
}

// Network is the proxy. It is safe for concurrent use.
type Network struct {
	faults Faults
	addr   string // the same over all outages

	requests, cuts, resets, slow atomic.Int64

	mu       sync.Mutex
	server   string               // where requests go; read and written with mu held
	listener net.Listener         // nil while the network is down
	down     chan struct{}        // closed when it goes down
	conns    map[net.Conn]bool    // both sides of every pair
	marks    map[uint64]chan bool // who waits for the n-th request
	running  sync.WaitGroup       // the accept loop and the pairs; Add with mu held and listener not nil
}

// Counts is what a Network has seen and done so far.
type Counts struct {
	Requests int64 // whose head arrived
	Cut      int64 // broken after processing
	Reset    int64 // broken half-way
	Slow     int64 // held for a while
}

// New starts a network in front of the server at host:port. The caller closes it.
func New(server string, f Faults) (*Network, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("badnet: %w", err)
	}
	n := &Network{faults: f, addr: l.Addr().String(), conns: map[net.Conn]bool{}, marks: map[uint64]chan bool{}}
	n.open(l, server)
	return n, nil
}

// Addr is the host and port that clients use. It stays the same over an outage.
func (n *Network) Addr() string { return n.addr }

// Counts returns what the network has seen and done so far.
func (n *Network) Counts() Counts {
	return Counts{n.requests.Load(), n.cuts.Load(), n.resets.Load(), n.slow.Load()}
}

// Reached returns a channel that is closed when the head of the k-th request
// has arrived, counted from 1. Ask before the request is sent.
func (n *Network) Reached(k uint64) <-chan bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.marks[k] == nil {
		n.marks[k] = make(chan bool)
	}
	return n.marks[k]
}

// Up ends an outage: connections are accepted again, at the old address, and
// requests go to the server at host:port.
func (n *Network) Up(server string) error {
	l, err := net.Listen("tcp", n.addr)
	if err != nil {
		return fmt.Errorf("badnet: %w", err)
	}
	n.open(l, server)
	return nil
}

func (n *Network) open(l net.Listener, server string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.server, n.listener, n.down = server, l, make(chan struct{})
	n.running.Add(1)
	go n.accept(l)
}

// Down takes the server off the network: connections are reset, new ones
// refused. It returns when the last request has stopped.
func (n *Network) Down() {
	n.mu.Lock()
	if n.listener == nil {
		n.mu.Unlock()
		return
	}
	_ = n.listener.Close() // it is gone either way
	n.listener = nil
	close(n.down)
	for c := range n.conns {
		breakOff(c)
	}
	n.mu.Unlock()
	n.running.Wait()
}

// Close takes the network down for good.
func (n *Network) Close() { n.Down() }

func (n *Network) accept(l net.Listener) {
	defer n.running.Done()
	for {
		c, err := l.Accept()
		if err != nil {
			return // closed by Down
		}
		if p, ok := n.begin(c); ok {
			go p.run()
		}
	}
}

// pair is one client's connection and the one to the server behind it.
type pair struct {
	n      *Network
	client net.Conn
	in     *bufio.Reader
	addr   string // of the server
	server net.Conn
	out    *bufio.Reader
	down   <-chan struct{}
}

// begin takes note of a new connection, unless the network has gone down.
func (n *Network) begin(c net.Conn) (*pair, bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.listener == nil {
		breakOff(c)
		return nil, false
	}
	n.conns[c] = true
	n.running.Add(1)
	return &pair{n: n, client: c, in: bufio.NewReader(c), addr: n.server, down: n.down}, true
}

// run passes requests and answers, one after the other, until one of them
// fails or is made to.
func (p *pair) run() {
	defer p.n.running.Done()
	defer p.end()
	for p.pass() {
	}
}

func (p *pair) end() {
	p.n.mu.Lock()
	defer p.n.mu.Unlock()
	for _, c := range []net.Conn{p.client, p.server} {
		if c != nil {
			delete(p.n.conns, c)
			_ = c.Close() // nothing more was promised on it
		}
	}
}

// pass takes one request to the server and its answer back, and reports
// whether the connection can be used for another.
func (p *pair) pass() bool {
	req, err := http.ReadRequest(p.in)
	if err != nil {
		return false // the client is done
	}
	t := p.n.next()
	if t.delay > 0 && !p.hold(t.delay) {
		return false
	}
	if !p.dial() {
		breakOff(p.client)
		return false
	}
	if t.kind == reset {
		p.n.resets.Add(1)
		p.sendHalf(req)
		breakOff(p.client)
		breakOff(p.server)
		return false
	}

	// The whole request, then the head of the answer: now the server has
	// processed it.
	body, err := io.ReadAll(req.Body)
	if err != nil {
		return false
	}
	req.Body = io.NopCloser(bytes.NewReader(body))
	if err := req.Write(p.server); err != nil {
		breakOff(p.client)
		return false
	}
	if _, err := p.out.Peek(1); err != nil {
		breakOff(p.client)
		return false
	}
	if t.kind == cut {
		p.n.cuts.Add(1)
		if !t.fin {
			breakOff(p.client)
		}
		return false
	}
	resp, err := http.ReadResponse(p.out, req)
	if err != nil {
		breakOff(p.client)
		return false
	}
	defer resp.Body.Close()
	w := bufio.NewWriter(p.client)
	if resp.Write(w) != nil || w.Flush() != nil {
		return false
	}
	return !req.Close && !resp.Close
}

// next counts a request and says what becomes of it.
func (n *Network) next() fate {
	k := uint64(n.requests.Add(1))
	n.mu.Lock()
	defer n.mu.Unlock()
	if mark := n.marks[k]; mark != nil {
		close(mark)
		delete(n.marks, k)
	}
	return n.faults.of(k)
}

// hold waits and reports whether the network is still up.
func (p *pair) hold(d time.Duration) bool {
	p.n.slow.Add(1)
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-p.down:
		return false
	}
}

// dial connects to the server, once for a client's connection.
func (p *pair) dial() bool {
	if p.server != nil {
		return true
	}
	c, err := net.Dial("tcp", p.addr)
	if err != nil {
		return false
	}
	p.n.mu.Lock()
	defer p.n.mu.Unlock()
	if p.n.listener == nil {
		breakOff(c)
		return false
	}
	p.n.conns[c] = true
	p.server, p.out = c, bufio.NewReader(c)
	return true
}

// sendHalf passes on the head and half of the body, which is as far as this
// upload comes. Of a request without a body of known length nothing is passed.
func (p *pair) sendHalf(req *http.Request) {
	if req.ContentLength <= 0 {
		return
	}
	half := make([]byte, req.ContentLength/2)
	if _, err := io.ReadFull(req.Body, half); err != nil {
		return
	}
	// Write fails when the body ends too early. What it has written by then
	// is what we want; a bytes.Buffer holds nothing back.
	var b bytes.Buffer
	req.Body = io.NopCloser(bytes.NewReader(half))
	_ = req.Write(&b)
	_, _ = p.server.Write(b.Bytes()) // it is going to be reset anyway
}

// breakOff closes with a RST: what is under way is lost, and the other side
// gets an error in place of an end.
func breakOff(c net.Conn) {
	if t, ok := c.(*net.TCPConn); ok {
		_ = t.SetLinger(0) // on a connection that is closed already there is nothing to break
	}
	_ = c.Close()
}
