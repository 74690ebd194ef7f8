package classify_test

import (
	"context"
	"encoding/binary"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/reintento/reintento/classify"
	"github.com/stretchr/testify/require"
)

// gotConn is what a hook is told about a connection.
type gotConn = httptrace.GotConnInfo

// recorder fills a Trace from the hooks of one round trip.
type recorder struct {
	mu sync.Mutex
	t  classify.Trace
}

func (r *recorder) note(f func(*classify.Trace)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	f(&r.t)
}

func (r *recorder) trace() classify.Trace {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.t
}

func (r *recorder) hooks() *httptrace.ClientTrace {
	return &httptrace.ClientTrace{
		GetConn: func(string) { r.note(func(t *classify.Trace) { t.GetConn = true }) },
		GotConn: func(i gotConn) {
			r.note(func(t *classify.Trace) { t.GotConn++; t.Reused = i.Reused })
		},
		WroteHeaders:         func() { r.note(func(t *classify.Trace) { t.WroteHeaders++ }) },
		GotFirstResponseByte: func() { r.note(func(t *classify.Trace) { t.FirstByte = true }) },
	}
}

// attempt makes one round trip and returns its error with the trace. The base
// is net/http's, which speaks HTTP/2 where the test says so.
func attempt(t *testing.T, base *http.Transport, req *http.Request) (classify.Trace, error) {
	t.Helper()
	var r recorder
	return attemptWith(t, base, req, &r, r.hooks())
}

// attemptWith is attempt with hooks that do something besides.
func attemptWith(t *testing.T, base *http.Transport, req *http.Request, r *recorder, hooks *httptrace.ClientTrace) (classify.Trace, error) {
	t.Helper()
	http2 := base.Protocols != nil && base.Protocols.UnencryptedHTTP2()
	r.note(func(t *classify.Trace) { t.HTTP2 = http2 })
	resp, err := base.RoundTrip(req.WithContext(httptrace.WithClientTrace(req.Context(), hooks)))
	if err == nil {
		resp.Body.Close()
		require.Error(t, err, "RoundTrip(%s %s) = %s, want an error", req.Method, req.URL, resp.Status)
	}
	base.CloseIdleConnections()
	return r.trace(), err
}

// write returns a POST whose body net/http cannot read twice, as the
// transport of this module sends them.
func write(t *testing.T, ctx context.Context, url string) *http.Request {
	t.Helper()
	return writeBody(t, ctx, url, "pay 10")
}

func writeBody(t *testing.T, ctx context.Context, url, body string) *http.Request {
	t.Helper()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url, io.NopCloser(strings.NewReader(body)))
	require.NoError(t, err)
	req.ContentLength = int64(len(body))
	return req
}

// serve listens on loopback and hands every connection to peer, which closes
// it. It returns the address.
func serve(t *testing.T, peer func(net.Conn)) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			wg.Go(func() {
				defer c.Close()
				peer(c)
			})
		}
	})
	t.Cleanup(func() {
		l.Close()
		wg.Wait()
	})
	return l.Addr().String()
}

// closedPort returns an address of loopback on which nobody listens. It is the
// near end of a connection, so that nobody else can come to listen there.
func closedPort(t *testing.T, network string) string {
	t.Helper()
	far := "127.0.0.1:9"
	if network == "tcp" {
		far = serve(t, func(c net.Conn) { _, _ = io.Copy(io.Discard, c) })
	}
	c, err := net.Dial(network, far)
	require.NoError(t, err)
	t.Cleanup(func() { c.Close() })
	return c.LocalAddr().String()
}

// reset closes a connection with a RST.
func reset(c net.Conn) {
	_ = c.(*net.TCPConn).SetLinger(0)
	_ = c.Close()
}

// piped returns a Transport whose every connection is a pipe to peer.
func piped(t *testing.T, peer func(net.Conn)) *http.Transport {
	return &http.Transport{DialContext: func(context.Context, string, string) (net.Conn, error) {
		ours, theirs := net.Pipe()
		t.Cleanup(func() { theirs.Close() }) // where the client keeps it
		go func() {
			defer theirs.Close()
			peer(theirs)
		}()
		return ours, nil
	}}
}

// pipedHTTP2 is piped with HTTP/2 from the first byte.
func pipedHTTP2(t *testing.T, peer func(*framer)) *http.Transport {
	tr := piped(t, func(c net.Conn) {
		if _, err := io.ReadFull(c, make([]byte, len(preface))); err != nil {
			return
		}
		f := &framer{c: c, out: make(chan []byte, 64)}
		var wg sync.WaitGroup
		wg.Go(func() {
			for b := range f.out {
				if _, err := c.Write(b); err != nil {
					return
				}
			}
		})
		f.send(frameSettings, 0, 0, nil)
		peer(f)
		go f.drain() // the client stops reading where it cannot write
		close(f.out)
		wg.Wait()
	})
	tr.Protocols = new(http.Protocols)
	tr.Protocols.SetUnencryptedHTTP2(true)
	return tr
}

// preface opens an HTTP/2 connection (RFC 9113 section 3.4).
const preface = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"

// The frames that the tests read or write (RFC 9113 section 6).
const (
	frameData     = 0x0
	frameHeaders  = 0x1
	frameReset    = 0x3
	frameSettings = 0x4
	frameGoAway   = 0x7

	flagEndStream  = 0x1
	flagEndHeaders = 0x4
)

// framer is the server's end of an HTTP/2 connection, by hand. What it sends is
// written beside the reading, for a pipe holds nothing.
type framer struct {
	c   net.Conn
	out chan []byte
}

func (f *framer) send(kind, flags byte, stream uint32, payload []byte) {
	n := len(payload)
	b := []byte{byte(n >> 16), byte(n >> 8), byte(n), kind, flags}
	b = binary.BigEndian.AppendUint32(b, stream)
	f.out <- append(b, payload...)
}

// request reads up to the next request's header and returns its stream, or 0
// when the connection has ended.
func (f *framer) request() uint32 {
	for {
		var h [9]byte
		if _, err := io.ReadFull(f.c, h[:]); err != nil {
			return 0
		}
		n := int64(h[0])<<16 | int64(h[1])<<8 | int64(h[2])
		if _, err := io.CopyN(io.Discard, f.c, n); err != nil {
			return 0
		}
		if h[3] == frameHeaders {
			return binary.BigEndian.Uint32(h[5:])
		}
	}
}

// drain reads until the client closes the connection.
func (f *framer) drain() { _, _ = io.Copy(io.Discard, f.c) }

// settle returns when the client has nothing left to write or read, so that the
// end of the connection cuts nothing off. It is for one peer of a bubble.
func (f *framer) settle() {
	go f.drain()
	synctest.Wait()
}

func (f *framer) reset(stream, code uint32) {
	f.send(frameReset, 0, stream, binary.BigEndian.AppendUint32(nil, code))
}

func (f *framer) goAway(last, code uint32) {
	f.send(frameGoAway, 0, 0, binary.BigEndian.AppendUint32(binary.BigEndian.AppendUint32(nil, last), code))
}
