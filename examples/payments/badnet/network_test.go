package badnet_test

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/reintento/reintento/examples/payments/badnet"
)

// backend is a server that counts what it has done for whole requests.
type backend struct {
	*httptest.Server
	effects atomic.Int64
	broken  chan error // why a body did not arrive whole
}

func newBackend(t *testing.T) *backend {
	b := &backend{broken: make(chan error, 1000)}
	b.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			b.broken <- err
			return
		}
		b.effects.Add(1)
		fmt.Fprintf(w, "got %s", body)
	}))
	t.Cleanup(b.Close)
	return b
}

func (b *backend) addr() string { return b.Listener.Addr().String() }

func network(t *testing.T, server string, f badnet.Faults) *badnet.Network {
	t.Helper()
	n, err := badnet.New(server, f)
	if err != nil {
		t.Fatalf("New(%q): %v", server, err)
	}
	t.Cleanup(n.Close)
	return n
}

// client is one caller with connections of his own. net/http repeats nothing
// for it: a POST without a key.
func client(t *testing.T) *http.Client {
	tr := &http.Transport{}
	t.Cleanup(tr.CloseIdleConnections)
	return &http.Client{Transport: tr, Timeout: 10 * time.Second}
}

func post(c *http.Client, n *badnet.Network, body io.Reader) (string, error) {
	resp, err := c.Post("http://"+n.Addr()+"/", "text/plain", body)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	return string(b), err
}

func TestAGoodDayPassesEverything(t *testing.T) {
	b := newBackend(t)
	n := network(t, b.addr(), badnet.Faults{})
	c := client(t)
	long := strings.Repeat("x", 1<<20)
	for _, body := range []string{"", "hello", long} {
		if got, err := post(c, n, strings.NewReader(body)); err != nil || got != "got "+body {
			t.Errorf("POST of %d bytes = %d bytes, %v, want the body back", len(body), len(got), err)
		}
	}
	// A reader of unknown length is sent in chunks.
	if got, err := post(c, n, io.MultiReader(strings.NewReader("hello"))); err != nil || got != "got hello" {
		t.Errorf("POST in chunks = %q, %v, want got hello", got, err)
	}
	if want := (badnet.Counts{Requests: 4}); n.Counts() != want || b.effects.Load() != 4 {
		t.Errorf("Counts() = %+v and %d effects, want %+v and 4", n.Counts(), b.effects.Load(), want)
	}
}

func TestACutLeavesOneEffectAndNoAnswer(t *testing.T) {
	b := newBackend(t)
	n := network(t, b.addr(), badnet.Faults{Seed: 1, Cut: 1})
	seen := map[string]int{}
	for i := range 20 {
		got, err := post(client(t), n, strings.NewReader("hello"))
		switch {
		case errors.Is(err, io.EOF):
			seen["fin"]++
		case errors.Is(err, syscall.ECONNRESET):
			seen["rst"]++
		default:
			t.Fatalf("POST %d = %q, %v, want io.EOF or ECONNRESET", i+1, got, err)
		}
		// The effect came first: it is there when the error is.
		if e := b.effects.Load(); e != int64(i+1) {
			t.Fatalf("after POST %d: %d effects, want %d", i+1, e, i+1)
		}
	}
	if seen["fin"] == 0 || seen["rst"] == 0 {
		t.Errorf("20 cuts ended %v, want both kinds", seen)
	}
	if want := (badnet.Counts{Requests: 20, Cut: 20}); n.Counts() != want {
		t.Errorf("Counts() = %+v, want %+v", n.Counts(), want)
	}
}

func TestAResetLeavesNoEffect(t *testing.T) {
	b := newBackend(t)
	n := network(t, b.addr(), badnet.Faults{Reset: 1})
	// The second is too long for the buffers on the way: it is cut while
	// the client still writes.
	for _, size := range []int{100, 16 << 20} {
		if got, err := post(client(t), n, strings.NewReader(strings.Repeat("x", size))); err == nil {
			t.Errorf("POST of %d bytes = %q, want an error", size, got)
		}
	}
	// The server saw the head of at least one of them, and never the end.
	if err := <-b.broken; err == nil {
		t.Error("the server read a whole body, want an error")
	}
	if e := b.effects.Load(); e != 0 {
		t.Errorf("%d effects, want none", e)
	}
	if resp, err := client(t).Get("http://" + n.Addr()); err == nil {
		resp.Body.Close()
		t.Errorf("GET = status %d, want an error", resp.StatusCode)
	}
	if want := (badnet.Counts{Requests: 3, Reset: 3}); n.Counts() != want {
		// A GET whose idle connection dies may be sent anew by net/http;
		// these were all on fresh ones.
		t.Errorf("Counts() = %+v, want %+v", n.Counts(), want)
	}
}

func TestTheSameSeedGivesTheSameFaults(t *testing.T) {
	b := newBackend(t)
	fates := func(seed uint64) []string {
		n := network(t, b.addr(), badnet.Faults{Seed: seed, Cut: 0.3, Reset: 0.3, Slow: 0.5, Delay: time.Millisecond})
		var all []string
		before := n.Counts()
		for range 60 {
			_, err := post(client(t), n, strings.NewReader("hello"))
			now := n.Counts()
			all = append(all, fmt.Sprint(err == nil, now.Cut-before.Cut, now.Reset-before.Reset, now.Slow-before.Slow))
			before = now
		}
		return all
	}
	one, two, other := fates(7), fates(7), fates(8)
	if !slices.Equal(one, two) {
		t.Errorf("seed 7 twice:\n%v\n%v\nwant the same", one, two)
	}
	if slices.Equal(one, other) {
		t.Errorf("seeds 7 and 8 gave the same 60 faults: %v", one)
	}
	for _, kind := range []string{"true 0 0", "false 1 0", "false 0 1"} {
		if !slices.ContainsFunc(one, func(s string) bool { return strings.HasPrefix(s, kind) }) {
			t.Errorf("60 requests with seed 7 had no %q: %v", kind, one)
		}
	}
}

func TestAnOutageRefusesAndEndsAtTheSameAddress(t *testing.T) {
	b := newBackend(t)
	n := network(t, b.addr(), badnet.Faults{})
	c := client(t)
	if _, err := post(c, n, strings.NewReader("before")); err != nil {
		t.Fatal(err)
	}
	addr := n.Addr()
	n.Down()
	n.Down() // twice is once
	c.CloseIdleConnections()
	if _, err := post(c, n, strings.NewReader("during")); !errors.Is(err, syscall.ECONNREFUSED) {
		t.Errorf("POST in the outage: %v, want ECONNREFUSED", err)
	}
	next := newBackend(t)
	if err := n.Up(next.addr()); err != nil {
		t.Fatalf("Up(): %v", err)
	}
	if _, err := post(c, n, strings.NewReader("after")); err != nil {
		t.Errorf("POST after the outage: %v", err)
	}
	if n.Addr() != addr || b.effects.Load() != 1 || next.effects.Load() != 1 {
		t.Errorf("after the outage: address %s, effects %d and %d, want %s, 1 and 1", n.Addr(), b.effects.Load(), next.effects.Load(), addr)
	}
}

func TestAnOutageEndsWhatIsUnderWay(t *testing.T) {
	b := newBackend(t)
	n := network(t, b.addr(), badnet.Faults{Slow: 1, Delay: time.Hour})
	third := n.Reached(3)
	var wg sync.WaitGroup
	for range 3 {
		wg.Go(func() {
			if got, err := post(client(t), n, strings.NewReader("hello")); err == nil {
				t.Errorf("POST held for an hour = %q, want an error", got)
			}
		})
	}
	<-third
	n.Down() // returns when all three have stopped
	wg.Wait()
	if e := b.effects.Load(); e != 0 {
		t.Errorf("%d effects, want none", e)
	}
}

func TestADeadServerIsAResetForTheClient(t *testing.T) {
	b := newBackend(t)
	n := network(t, b.addr(), badnet.Faults{})
	b.Close()
	if got, err := post(client(t), n, strings.NewReader("hello")); err == nil {
		t.Errorf("POST to a dead server = %q, want an error", got)
	}
}
