package httpclient

import (
	"errors"
	"io"
	"sync"
)

// errSuperseded ends the reads of an attempt that is over.
var errSuperseded = errors.New("httpclient: the attempt that reads this body is over")

// replay lets one attempt after the other read a stream from its start, as long
// as what was read of it fits a bound. The stream itself is read once, by one
// goroutine at a time, and never ahead of the attempt that needs it.
type replay struct {
	limit int

	mu      sync.Mutex
	idle    sync.Cond
	src     io.Reader
	kept    []byte
	total   int64 // bytes read from src
	lost    bool  // some of them are not kept
	err     error // what src ended with
	busy    int   // size of the read under way
	reading bool
	turn    int // the number of the reader that may read
}

func newReplay(src io.Reader, limit int) *replay {
	r := &replay{src: src, limit: limit}
	r.idle.L = &r.mu
	return r
}

// whole reports whether the stream can be read from its start again. A read
// that an old attempt has under way may be one too many.
func (r *replay) whole() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return !r.lost && (!r.reading || len(r.kept)+r.busy <= r.limit)
}

// reader returns a reader from the start. The one before it ends.
func (r *replay) reader() io.Reader {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.turn++
	r.idle.Broadcast()
	return &replayReader{replay: r, turn: r.turn}
}

type replayReader struct {
	*replay
	turn int
	pos  int64
}

func (r *replayReader) Read(p []byte) (n int, err error) {
	s := r.replay
	s.mu.Lock()
	defer s.mu.Unlock()
	for {
		switch {
		case r.turn != s.turn:
			return 0, errSuperseded
		case r.pos < int64(len(s.kept)):
			n = copy(p, s.kept[r.pos:])
			r.pos += int64(n)
			return n, nil
		case r.pos < s.total:
			return 0, ErrBodyNotReplayable
		case s.err != nil:
			return 0, s.err
		case len(p) == 0:
			return 0, nil
		case s.reading:
			s.idle.Wait()
			continue
		}
		n, err = s.fetch(p)
		if r.turn != s.turn {
			return 0, errSuperseded
		}
		r.pos += int64(n)
		return n, err
	}
}

// fetch reads on in the stream. s.mu is held, but not while src is read.
func (s *replay) fetch(p []byte) (n int, err error) {
	s.reading, s.busy = true, len(p)
	s.mu.Unlock()
	defer func() {
		s.mu.Lock()
		s.reading = false
		s.total += int64(n)
		if !s.lost && len(s.kept)+n <= s.limit {
			s.kept = append(s.kept, p[:n]...)
		} else if n > 0 {
			s.lost, s.kept = true, nil
		}
		s.err = err
		s.idle.Broadcast()
	}()
	return s.src.Read(p)
}
