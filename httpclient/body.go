package httpclient

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"sync"
	"time"
)

// ErrBodyNotReplayable is why a request is not repeated whose body cannot be
// sent again: it has no GetBody, is no io.ReaderAt and io.Seeker, and more of
// it was read than Transport.ReplayBuffer keeps. Test with errors.Is on
// [retry.Report].Stop or the error.
var ErrBodyNotReplayable = errors.New("request body not replayable: set Request.GetBody")

var errClosedBody = errors.New("httpclient: read on a closed request body")

// errBodyLength is a mistake of the caller that net/http does not always tell:
// its own end of the connection can be noticed first.
var errBodyLength = errors.New("httpclient: Request.ContentLength is not the length of the body")

// unwrapped is how large a body in memory may be to be handed over as it is.
// net/http sends one that it knows together with the head; below the size of its
// buffer there is no progress to see.
const unwrapped = 4 << 10

// requestBody opens the request's body anew for each attempt. No reader is ever
// shared by two attempts: net/http may still read the old one when it has
// returned. The caller's body is closed exactly once, when nobody reads from it
// any more. A request without a body has nil.
type requestBody struct {
	inert   bool  // closing it does nothing
	asIs    bool  // it is handed over as it is
	size    int64 // as the request says; -1 or 0: unknown
	getBody func() (io.ReadCloser, error)
	at      *io.SectionReader // the body from where it stood
	stream  *replay

	mu       sync.Mutex
	begun    bool          // an attempt has it or had it
	finished bool          // no further attempt opens it
	cut      bool          // it was closed under a read that did not return
	opened   int           // attempts that read from original and have not closed
	original io.ReadCloser // nil once closed
	ready    io.ReadCloser // opened by reopen, not yet taken; the loop's alone
	current  *attemptBody
	failure  error // of the caller's own reader
}

// bodyOf returns the body of req, nil if it has none.
func bodyOf(req *http.Request, t *Transport) *requestBody {
	if req.Body == nil || req.Body == http.NoBody {
		return nil
	}
	b := &requestBody{size: req.ContentLength, original: req.Body, getBody: req.GetBody}
	length, inMemory := inMemory(req.Body)
	b.inert = inMemory
	if b.getBody != nil {
		b.asIs = inMemory && b.size <= unwrapped && b.size == length
		return b
	}
	if at, ok := req.Body.(io.ReaderAt); ok {
		if s, ok := req.Body.(io.Seeker); ok {
			if offset, err := s.Seek(0, io.SeekCurrent); err == nil {
				b.at = io.NewSectionReader(at, offset, math.MaxInt64-offset)
				return b
			}
		}
	}
	limit := t.ReplayBuffer
	if limit == 0 {
		limit = defaultReplayBuffer
	}
	b.stream = newReplay(req.Body, max(0, limit))
	return b
}

// repeatable returns why the body cannot be sent again, nil if it can.
func (b *requestBody) repeatable() error {
	if b == nil {
		return nil
	}
	if err := b.readError(); err != nil {
		return fmt.Errorf("%w: %w", ErrBodyNotReplayable, err)
	}
	b.mu.Lock()
	cut := b.cut
	b.mu.Unlock()
	if cut || b.stream != nil && !b.stream.whole() {
		return ErrBodyNotReplayable
	}
	return nil
}

// guard keeps a read that does not return from outlasting the attempt: on HTTP/1
// net/http waits for it. Closing the body ends it, as with an io.Pipe; where
// Close does nothing, there is nothing to guard. stop must be called when the
// base has returned.
func (b *requestBody) guard(ctx context.Context) (stop func() bool) {
	if b == nil || b.inert {
		return func() bool { return true }
	}
	return context.AfterFunc(ctx, b.interrupt)
}

// nopClosers are the types of io.NopCloser.
var nopClosers = [...]reflect.Type{
	reflect.TypeOf(io.NopCloser(struct{ io.Reader }{})),
	reflect.TypeOf(io.NopCloser(bytes.NewReader(nil))),
}

// inMemory reports whether body is what http.NewRequest makes of bytes in
// memory, which neither fail nor hang, and which Close does not concern, and how
// many these are.
func inMemory(body io.ReadCloser) (length int64, ok bool) {
	if !slices.Contains(nopClosers[:], reflect.TypeOf(body)) {
		return 0, false
	}
	switch r := reflect.ValueOf(body).Field(0).Interface().(type) {
	case *bytes.Reader:
		return int64(r.Len()), true
	case *bytes.Buffer:
		return int64(r.Len()), true
	case *strings.Reader:
		return int64(r.Len()), true
	}
	return 0, false
}

// interrupt refuses further reads, and closes the body if it is being read: that
// of the attempt alone if there is another one for the next.
func (b *requestBody) interrupt() {
	b.mu.Lock()
	a := b.current
	if a == nil {
		b.mu.Unlock()
		return
	}
	reading := a.endReads() != nil
	if b.getBody != nil {
		b.mu.Unlock()
		if reading {
			a.Close()
		}
		return
	}
	var c io.Closer
	if b.original != nil && reading {
		c, b.original, b.cut = b.original, nil, true
	}
	b.mu.Unlock()
	if c != nil {
		c.Close()
	}
}

// reopen gets a reader for the next attempt ready, or says why there is none.
func (b *requestBody) reopen() error {
	if b == nil {
		return nil
	}
	if err := b.repeatable(); err != nil {
		return err
	}
	if b.ready != nil || b.getBody == nil {
		return nil
	}
	b.supersede()
	r, err := b.getBody()
	if err == nil && r == nil {
		err = errors.New("it returned neither body nor error")
	}
	if err != nil {
		return fmt.Errorf("httpclient: Request.GetBody: %w", err)
	}
	b.ready = r
	return nil
}

// supersede ends the reading of the last attempt before GetBody is called: it may
// rewind a reader that it has handed out before, as that of Azure's SDK does. A
// read that is under way is waited for, but one that hangs is not: then GetBody
// must do as net/http says, and return a new copy.
func (b *requestBody) supersede() {
	b.mu.Lock()
	a := b.current
	b.mu.Unlock()
	if a == nil {
		return
	}
	idle := a.endReads()
	if idle == nil {
		return
	}
	timer := time.NewTimer(drainTime)
	defer timer.Stop()
	select {
	case <-idle:
	case <-timer.C:
	}
}

// next returns the reader of the next attempt.
func (b *requestBody) next(l *limit) io.ReadCloser {
	if b == nil {
		return http.NoBody
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	again := b.begun
	b.begun = true
	if b.asIs {
		r := b.original
		if again {
			r, b.ready = b.ready, nil
		}
		return r
	}
	a := &attemptBody{body: b, limit: l}
	switch {
	case b.getBody != nil && again:
		a.reader, a.closer = b.ready, b.ready
		b.ready = nil
	case b.getBody != nil:
		a.reader = b.original
		b.opened++
	case b.at != nil:
		a.reader = io.NewSectionReader(b.at, 0, b.at.Size())
		b.opened++
	default:
		a.reader = b.stream.reader()
		b.opened++
	}
	b.current = a
	return a
}

// release closes the last attempt's reader if the base has left it open, also
// under a read that hangs, as net/http does: a body must allow that.
func (b *requestBody) release() {
	if b == nil {
		return
	}
	b.mu.Lock()
	a := b.current
	b.mu.Unlock()
	if a != nil {
		a.Close()
	}
}

// last says that there is no further attempt. The one that still sends the body,
// while its response is read already, closes it.
func (b *requestBody) last() {
	if b == nil {
		return
	}
	b.mu.Lock()
	b.finished = true
	b.mu.Unlock()
	if b.ready != nil {
		b.ready.Close()
		b.ready = nil
	}
	b.closeOriginal(0)
}

// finish ends the last attempt's reading, too.
func (b *requestBody) finish() {
	b.release()
	b.last()
}

// closeOriginal notes that n attempts read from the caller's body no more, and
// closes it after the last one.
func (b *requestBody) closeOriginal(n int) error {
	b.mu.Lock()
	b.opened -= n
	var c io.Closer
	first := b.getBody != nil && n > 0 // nobody else reads from it
	if b.original != nil && (first || b.finished && b.opened == 0) {
		c = b.original
		b.original = nil
	}
	b.mu.Unlock()
	if c == nil {
		return nil
	}
	return c.Close()
}

// readError returns what the caller's own reader failed with.
func (b *requestBody) readError() error {
	if b == nil {
		return nil
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.failure
}

func (b *requestBody) failed(err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.cut {
		b.failure = err
	}
}

// attemptBody is the body as one attempt reads it.
type attemptBody struct {
	body   *requestBody
	reader io.Reader
	closer io.Closer // nil: the caller's body
	limit  *limit    // started anew by progress

	mu      sync.Mutex
	reading bool
	closed  bool
	over    bool          // the attempt has ended, or another one's turn has come
	idle    chan struct{} // closed when the read that was under way then has ended
	total   int64         // bytes read
}

func (a *attemptBody) Read(p []byte) (int, error) {
	a.mu.Lock()
	if a.closed || a.over {
		whole := !a.closed && a.total == a.body.size
		a.mu.Unlock()
		if whole {
			return 0, io.EOF // net/http makes sure that there is no more
		}
		return 0, errClosedBody
	}
	a.reading = true
	a.mu.Unlock()
	n, err := a.reader.Read(p)
	a.mu.Lock()
	a.reading = false
	a.total += int64(n)
	total := a.total
	closed := a.closed || a.over
	if a.idle != nil {
		close(a.idle)
		a.idle = nil
	}
	a.mu.Unlock()
	if n > 0 {
		a.limit.progress()
	}
	switch size := a.body.size; {
	case closed || errors.Is(err, errSuperseded):
	case err != nil && err != io.EOF:
		a.body.failed(err)
	case size > 0 && (total > size || err == io.EOF && total < size):
		a.body.failed(errBodyLength)
	}
	return n, err
}

// Close closes what the attempt read from, also under a read that hangs.
func (a *attemptBody) Close() error {
	a.mu.Lock()
	if a.closed {
		a.mu.Unlock()
		return nil
	}
	a.closed = true
	a.mu.Unlock()
	if a.closer != nil {
		return a.closer.Close()
	}
	return a.body.closeOriginal(1)
}

// endReads refuses all further reads. The channel it returns is closed when the
// one under way has ended; nil means that there is none.
func (a *attemptBody) endReads() <-chan struct{} {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.over = true
	if a.reading && a.idle == nil {
		a.idle = make(chan struct{})
	}
	return a.idle
}
