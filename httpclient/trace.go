package httpclient

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/textproto"
	"reflect"
	"sync"

	"github.com/reintento/reintento/classify"
	"github.com/reintento/reintento/retry"
)

// watcher collects how far one send came, and keeps the layer below from
// sending once more what may have arrived. Hooks can fire after RoundTrip has
// returned, so it is never used twice.
type watcher struct {
	cancel context.CancelCauseFunc
	out    *http.Request // what is sent
	avoid  *watcher      // of the send whose answer asked for another connection than its own

	spare   bool // a read that may be sent again, once
	read    bool // a read without body, which net/http sends again on its own
	plain   bool // HTTP/2 may be spoken without TLS, where a connection does not tell
	foreign bool // the base is not net/http's

	// What hooks tell, see classify.Trace.
	getConn, reused, firstByte, http2 bool
	gotConn, wroteHeaders             int32

	avoided  bool     // the connection obtained last was the one to avoid
	answered bool     // what was sent last has been
	over     bool     // the base has returned: what hooks tell now comes too late
	own      uint8    // requests of its own that the base has sent after answers
	interims int32    // bytes of the 1xx seen: what was seen of a response was no answer
	below    int32    // repeats that layers below have begun
	before   int32    // connections obtained before the last of these
	cut      int32    // connections on which the request was kept from being sent again
	conn     net.Conn // obtained last

	mu    sync.Mutex
	hooks httptrace.ClientTrace
}

func (w *watcher) watch(ctx context.Context) context.Context {
	w.hooks.GetConn, w.hooks.GotConn, w.hooks.WroteHeaders = w.onGetConn, w.onGotConn, w.onWroteHeaders
	w.hooks.GotFirstResponseByte, w.hooks.Got1xxResponse = w.onFirstByte, w.onInterim
	return httptrace.WithClientTrace(ctx, &w.hooks)
}

func (w *watcher) onGetConn(string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.getConn = true
}

// onGotConn sees every connection, that of a hidden re-send too, and ends the
// attempt before one too many. A write on HTTP/1 comes here a second time only
// if not a byte of it was written: that may go on. On HTTP/2 ending the context
// keeps the request from being sent, and the connection belongs to others as
// well. On HTTP/1 it does not: closing the connection, on which nothing has been
// sent yet, does.
func (w *watcher) onGotConn(info httptrace.GotConnInfo) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.over {
		return
	}
	if n := int32(retry.RepeatsBelow(w.out.Context())); n != w.below {
		// A layer below repeats by itself, since this one may not. What it sends
		// is not hidden, and its to watch.
		w.before += w.gotConn
		w.below, w.gotConn, w.wroteHeaders, w.firstByte, w.answered, w.interims, w.own = n, 0, 0, false, false, 0, 0
	}
	second := w.gotConn > 0
	old := w.http2
	w.gotConn++
	w.reused = info.Reused
	w.http2 = w.plain || w.mayBeHTTP2(info.Conn)
	again := second && same(info.Conn, w.conn)
	w.conn = info.Conn
	if w.avoided = w.avoid != nil && !w.http2 && same(info.Conn, w.avoid.connection()); w.avoided {
		// It is ours alone, and nothing of the request is on it yet: closing it
		// keeps that so. What follows is the failure of a kept connection.
		info.Conn.Close()
		return
	}
	if second && w.answered && w.interims == 0 && w.own < maxOwn {
		// What was answered has ended: the next request is the base's own.
		w.own++
		w.answered = false
		return
	}
	sends := int(w.wroteHeaders) - int(w.own)
	if w.spare {
		sends--
	}
	if !second || sends <= 0 || !old && !w.read {
		return
	}
	w.cut++
	w.cancel(errSentAgain)
	if !w.http2 || !again && w.isAlone(info) {
		info.Conn.Close()
	}
}

// isAlone reports whether a connection of which a base that is not net/http's
// does not say what it speaks carries nothing else: it may be HTTP/1, on which
// ending the context does not keep the request from being sent.
func (w *watcher) isAlone(info httptrace.GotConnInfo) bool {
	if _, ok := info.Conn.(*tls.Conn); ok || !w.foreign {
		return false
	}
	return info.Conn != nil && (!info.Reused || info.WasIdle)
}

func (w *watcher) onWroteHeaders() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.avoided { // else to a buffer that leads nowhere
		w.wroteHeaders++
	}
}

func (w *watcher) onFirstByte() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.firstByte, w.answered = true, true
}

// maxInterims is how many bytes of 1xx responses one request may have: as many as
// net/http allows by default, which leaves the bound to a hook where there is one.
const maxInterims = 10 << 20

// onInterim sees a 1xx: nothing is answered by it, and a request that fails after
// it can be sent again below.
func (w *watcher) onInterim(_ int, h textproto.MIMEHeader) error {
	const each = 32 // bytes at least, of a response and of a field
	size := each
	for name, values := range h {
		for _, v := range values {
			size += len(name) + len(v) + each
		}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if size > maxInterims-int(w.interims) {
		return errInterims
	}
	w.interims += int32(size)
	return nil
}

var errInterims = errors.New("httpclient: more than 10 MiB of interim responses (1xx) to one request")

// maxOwn is how many requests of its own a base may send in an attempt after
// answers: with the token that it fetched first, for a new one after a 401, and
// with that. A base that repeats by itself soon needs more.
const maxOwn = 3

// facts returns what is known when the base has returned, on how many connections
// the request was sent, as far as they are seen, and how many of these sends may
// have reached the callee. What the base sent besides is not in them.
func (w *watcher) facts() (t classify.Trace, sent, written int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.over = true
	t = classify.Trace{
		GetConn: w.getConn, GotConn: int(w.gotConn), Reused: w.reused,
		WroteHeaders: int(w.wroteHeaders), FirstByte: w.firstByte, HTTP2: w.http2,
	}
	own := int(w.own)
	return t, int(w.gotConn-w.cut) - own, int(w.wroteHeaders) - own
}

// connection returns the connection that an answer came on, nil on HTTP/2.
func (w *watcher) connection() net.Conn {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.http2 {
		return nil
	}
	return w.conn
}

// same reports whether two connections are one. Those of a caller's own type
// need not be comparable.
func same(a, b net.Conn) bool {
	return b != nil && reflect.ValueOf(a).Comparable() && reflect.ValueOf(b).Comparable() && a == b
}

// mayBeHTTP2 reports whether a connection is not known to speak HTTP/1. A base
// that is not net/http's fires its hooks as it likes: where the connection does
// not tell, what such a base does not say is not taken for a proof.
func (w *watcher) mayBeHTTP2(conn net.Conn) bool {
	c, ok := conn.(*tls.Conn)
	if !ok {
		return w.foreign
	}
	return c.ConnectionState().NegotiatedProtocol == "h2"
}

// speaksPlainHTTP2 reports whether net/http may speak HTTP/2 without TLS.
func speaksPlainHTTP2(t *http.Transport, req *http.Request) bool {
	return req.URL.Scheme == "http" && t.Protocols != nil && t.Protocols.UnencryptedHTTP2()
}
