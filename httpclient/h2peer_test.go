package httpclient_test

import (
	"crypto/tls"
	"encoding/binary"
	"io"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
)

// preface opens an HTTP/2 connection (RFC 9113 section 3.4).
const preface = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"

// The frames that the tests read or write, and their flags (RFC 9113 section 6).
const (
	frameData     = 0x0
	frameHeaders  = 0x1
	frameReset    = 0x3
	frameSettings = 0x4
	framePing     = 0x6
	frameGoAway   = 0x7

	flagEndStream  = 0x1
	flagAck        = 0x1
	flagEndHeaders = 0x4
)

// status200 is the header block of an answer: one entry of HPACK's static table
// (RFC 7541 appendix A).
var status200 = []byte{0x88}

// twoPeer is an HTTP/2 server by hand. It reads each request to its end, unless
// it is told to act on the head, and hands its stream to the test.
type twoPeer struct {
	requests atomic.Int64
	onHead   bool // act when the head is there, without waiting for the body
	// answer acts on one request; n counts them over all connections.
	answer func(f *framer, stream uint32, n int)
}

// framer is the server's end of an HTTP/2 connection.
type framer struct {
	net.Conn
	number int // of the connection, from 1
	mu     sync.Mutex
}

// serveTwo makes p a server with TLS, and returns a base that speaks HTTP/2 with
// it, and its URL.
func serveTwo(t testing.TB, p *twoPeer) (*http.Transport, string) {
	t.Helper()
	ca := newAuthority(t)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	serveOn(t, tls.NewListener(l, &tls.Config{Certificates: []tls.Certificate{ca.issue(t, nil)}, NextProtos: []string{"h2"}}), p.serve)
	base := fresh(t)
	base.TLSClientConfig = &tls.Config{RootCAs: ca.pool}
	base.ForceAttemptHTTP2 = true
	return base, "https://" + l.Addr().String()
}

func (p *twoPeer) serve(c net.Conn, n int) {
	start := make([]byte, len(preface))
	if _, err := io.ReadFull(c, start); err != nil || string(start) != preface {
		return
	}
	f := &framer{Conn: c, number: n}
	f.send(frameSettings, 0, 0, nil)
	for {
		kind, flags, stream, payload, err := f.receive()
		if err != nil {
			return
		}
		switch {
		case kind == frameSettings && flags&flagAck == 0:
			f.send(frameSettings, flagAck, 0, nil)
		case kind == framePing && flags&flagAck == 0:
			f.send(framePing, flagAck, 0, payload)
		case kind == frameHeaders && p.onHead, (kind == frameHeaders || kind == frameData) && flags&flagEndStream != 0 && !p.onHead:
			p.answer(f, stream, int(p.requests.Add(1)))
		}
	}
}

func (f *framer) receive() (kind, flags byte, stream uint32, payload []byte, err error) {
	var h [9]byte
	if _, err = io.ReadFull(f, h[:]); err != nil {
		return
	}
	payload = make([]byte, int(h[0])<<16|int(h[1])<<8|int(h[2]))
	_, err = io.ReadFull(f, payload)
	return h[3], h[4], binary.BigEndian.Uint32(h[5:]) &^ (1 << 31), payload, err
}

// send writes a frame. That nobody reads it any more is no concern of the peer.
func (f *framer) send(kind, flags byte, stream uint32, payload []byte) {
	n := len(payload)
	b := binary.BigEndian.AppendUint32([]byte{byte(n >> 16), byte(n >> 8), byte(n), kind, flags}, stream)
	f.mu.Lock()
	defer f.mu.Unlock()
	_, _ = f.Write(append(b, payload...))
}

// answer sends a 200 with a body; it is whole if end is set.
func (f *framer) answer(stream uint32, body string, end bool) {
	f.send(frameHeaders, flagEndHeaders, stream, status200)
	var flags byte
	if end {
		flags = flagEndStream
	}
	f.send(frameData, flags, stream, []byte(body))
}

// resetStream sends a RST_STREAM (RFC 9113 section 6.4).
func (f *framer) resetStream(stream, code uint32) {
	f.send(frameReset, 0, stream, binary.BigEndian.AppendUint32(nil, code))
}

// goAway sends a GOAWAY: streams above last were not processed (RFC 9113
// section 6.8).
func (f *framer) goAway(last, code uint32) {
	f.send(frameGoAway, 0, 0, binary.BigEndian.AppendUint32(binary.BigEndian.AppendUint32(nil, last), code))
}
