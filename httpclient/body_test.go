package httpclient_test

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"mime/multipart"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/reintento/reintento/classify"
	"github.com/reintento/reintento/httpclient"
	"github.com/reintento/reintento/retry"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// only hides what a reader can do but Read, so that http.NewRequest finds
// neither length nor GetBody.
func only(r io.Reader) io.Reader { return struct{ io.Reader }{r} }

// 12. Each attempt reads a fresh reader; no reader is ever shared by two
// attempts. An early 503 during a chunked 4 MiB PUT: the bytes accepted equal
// the caller's in 100 runs under -race.
//
// B30: RoundTrip returns while the write loop still reads the reader, so that
// rewinding a shared one is a race and can corrupt the body that is sent again.
func TestH12FreshReader(t *testing.T) {
	t.Parallel()
	data := make([]byte, 4<<20)
	for i := range data {
		data[i] = byte(i ^ i>>8 ^ i>>16)
	}
	want := sha256.Sum256(data)
	runs := map[string]int{http1: 60, http2: 20, plainHTTP: 20}
	overProtocols(t, func(t *testing.T, protocol string) {
		var requests atomic.Int64
		var accepted sync.Map
		s := newSite(t, protocol, func(w http.ResponseWriter, r *http.Request) {
			if requests.Add(1)%2 == 1 {
				// Full duplex: the answer does not wait for the upload, which is in
				// the middle when it comes.
				_ = http.NewResponseController(w).EnableFullDuplex()
				_, _ = io.CopyN(io.Discard, r.Body, 100<<10)
				w.WriteHeader(http.StatusServiceUnavailable)
				return
			}
			h := sha256.New()
			_, err := io.Copy(h, r.Body)
			if err == nil {
				accepted.Store(r.URL.Path, hex.EncodeToString(h.Sum(nil)))
			}
		})
		c := &http.Client{Transport: overBase(t, steady(), s.base)}
		for run := range runs[protocol] {
			path := fmt.Sprintf("/%d", run)
			req, err := http.NewRequestWithContext(t.Context(), "PUT", s.URL+path, nil)
			require.NoError(t, err)
			req.ContentLength = -1
			switch run % 2 {
			case 0:
				req.GetBody = func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(data)), nil }
				req.Body, err = req.GetBody()
				require.NoError(t, err)
			default:
				req.Body = &watchedAt{bytes.NewReader(data), func() {}}
			}
			resp, err := c.Do(req)
			require.NoError(t, err)
			readAll(t, resp)
			require.Equal(t, http.StatusOK, resp.StatusCode)
			got, _ := accepted.Load(path)
			require.Equal(t, hex.EncodeToString(want[:]), got, "sum of the bytes accepted in run %d", run)
		}
	})
}

// B23: the body reader is spent by attempt 1; later attempts fail with a length
// mismatch or send nothing under the old Content-Length.
func TestEachAttemptSendsTheBody(t *testing.T) {
	t.Parallel()
	overProtocols(t, func(t *testing.T, protocol string) {
		for name, body := range map[string]func() io.Reader{
			"GetBody":     func() io.Reader { return strings.NewReader("hello") },
			"stream":      func() io.Reader { return only(strings.NewReader("hello")) },
			"io.ReaderAt": func() io.Reader { return &watchedAt{bytes.NewReader([]byte("hello")), func() {}} },
		} {
			var b bank
			s := newSite(t, protocol, func(w http.ResponseWriter, r *http.Request) {
				if _, n := b.act(r); n < 3 {
					w.WriteHeader(http.StatusServiceUnavailable)
				}
			})
			resp, err := (&http.Client{Transport: overBase(t, honoured(), s.base)}).Post(s.URL, "text/plain", body())
			require.NoError(t, err)
			readAll(t, resp)
			_, bodies, _ := b.seen()
			assert.Equal(t, []string{"hello", "hello", "hello"}, bodies, "bodies sent of a %s", name)
		}
	})
}

// 13. A body without GetBody is streamed: its first byte leaves before its last
// is produced. It is repeated if nothing of it was read, or if what was read
// fitted the replay buffer; else the real result is returned after one attempt,
// marked "body not replayable", never an empty or partial body. 1 GiB streamed
// grows the heap by less than 16 MiB.
//
// B25 (b): the real 500 was lost behind a 'cannot rewind' error.
func TestH13Streamed(t *testing.T) {
	t.Parallel()
	t.Run("first byte before the last", func(t *testing.T) {
		overProtocols(t, func(t *testing.T, protocol string) {
			seen := make(chan struct{})
			s := newSite(t, protocol, func(w http.ResponseWriter, r *http.Request) {
				var first [1]byte
				_, _ = io.ReadFull(r.Body, first[:])
				close(seen)
				rest, _ := io.ReadAll(r.Body)
				_, _ = w.Write(append(first[:], rest...))
			})
			pr, pw := io.Pipe()
			go func() {
				_, _ = io.WriteString(pw, "first")
				<-seen
				_, _ = io.WriteString(pw, " last")
				pw.Close()
			}()
			resp, err := (&http.Client{Transport: overBase(t, quick(), s.base)}).Post(s.URL, "text/plain", pr)
			require.NoError(t, err)
			assert.Equal(t, "first last", readAll(t, resp))
		})
	})
	for _, row := range []struct {
		name    string
		buffer  int // of the Transport
		size    int // of the body
		repeats bool
	}{
		{"fits the buffer", 0, 64 << 10, true},
		{"one byte too many", 0, 64<<10 + 1, false},
		{"fits a larger buffer", 1 << 20, 1 << 20, true},
		{"one byte too many for a larger buffer", 1 << 20, 1<<20 + 1, false},
		{"no buffer", -1, 1, false},
	} {
		t.Run(row.name, func(t *testing.T) {
			overProtocols(t, func(t *testing.T, protocol string) {
				var b bank
				s := newSite(t, protocol, func(w http.ResponseWriter, r *http.Request) {
					if _, n := b.act(r); n < 2 {
						w.Header().Set("X-Cause", "db")
						w.WriteHeader(http.StatusInternalServerError)
						_, _ = io.WriteString(w, "the real answer")
					}
				})
				tr := overBase(t, honoured(), s.base)
				tr.ReplayBuffer = row.buffer
				data := strings.Repeat("abcdefg", row.size/7+1)[:row.size]
				resp, err := (&http.Client{Transport: tr}).Post(s.URL, "text/plain", only(strings.NewReader(data)))
				require.NoError(t, err)
				answer := readAll(t, resp)
				_, bodies, _ := b.seen()
				for i, got := range bodies {
					if got != data {
						t.Errorf("body of attempt %d has %d bytes, want the %d of the caller", i+1, len(got), len(data))
					}
				}
				report := httpclient.ReportOf(resp)
				if row.repeats {
					assert.Equal(t, 200, resp.StatusCode)
					assert.Len(t, bodies, 2)
					assert.NoError(t, report.Stop)
					return
				}
				assert.Equal(t, 500, resp.StatusCode)
				assert.Equal(t, "db", resp.Header.Get("X-Cause"))
				assert.Equal(t, "the real answer", answer)
				assert.Len(t, bodies, 1)
				assert.ErrorIs(t, report.Stop, httpclient.ErrBodyNotReplayable)
				assert.ErrorContains(t, report.Stop, "body not replayable")
				assert.Equal(t, retry.Unknown, report.Outcome)
			})
		})
	}
	t.Run("an error after too much was read", func(t *testing.T) {
		overProtocols(t, func(t *testing.T, protocol string) {
			var b bank
			s := newSite(t, protocol, func(w http.ResponseWriter, r *http.Request) {
				b.act(r)
				cut(r)
			})
			_, err := (&http.Client{Transport: overBase(t, honoured(), s.base)}).Post(s.URL, "text/plain", only(strings.NewReader(strings.Repeat("x", 100<<10))))
			assert.ErrorIs(t, err, httpclient.ErrBodyNotReplayable)
			assert.ErrorIs(t, err, retry.ErrOutcomeUnknown)
			failure, ok := errors.AsType[*retry.Error](err)
			require.True(t, ok)
			assert.Error(t, failure.Last)
			assert.Len(t, failure.Attempts, 1)
			_, _, effects := b.seen()
			assert.Equal(t, 1, effects)
		})
	})
	t.Run("nothing read", func(t *testing.T) {
		// The connection was never made, three times.
		data := strings.Repeat("x", 100<<10)
		w := watchBody(t, strings.NewReader(data))
		addr := closedPort(t)
		_, err := (&http.Client{Transport: overBase(t, quick(), fresh(t))}).Post("http://"+addr, "text/plain", w)
		failure, ok := errors.AsType[*retry.Error](err)
		require.True(t, ok)
		assert.Len(t, failure.Attempts, 3)
		assert.ErrorIs(t, err, retry.ErrAttempts)
		<-w.closed
	})
}

// pattern yields size bytes and keeps the highest use of the heap on the way.
type pattern struct {
	left int64
	peak *uint64
	next int64
}

const step = 32 << 20

func (p *pattern) Read(b []byte) (int, error) {
	if p.left == 0 {
		return 0, io.EOF
	}
	n := int(min(int64(len(b)), p.left))
	b[0], b[n-1] = byte(n), byte(n>>8)
	p.left -= int64(n)
	if p.next -= int64(n); p.next < 0 {
		p.next = step
		*p.peak = max(*p.peak, heap())
	}
	return n, nil
}

func (p *pattern) Write(b []byte) (int, error) {
	if p.next -= int64(len(b)); p.next < 0 {
		p.next = step
		*p.peak = max(*p.peak, heap())
	}
	return len(b), nil
}

func heap() uint64 {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapInuse
}

// 13, the memory. A 1 GiB download too; and a body with GetBody is never
// buffered.
//
// B34: every reader is read into memory to make it replayable; large uploads run
// out of memory even when no retry happens. B33: nothing is buffered for a caller
// who changes the bytes during the call.
func TestH13Memory(t *testing.T) {
	const size = 1 << 30
	var received atomic.Int64
	// By hand, since the race detector looks at each copy that net/http's server
	// makes.
	url := "http://" + serve(t, func(c net.Conn, _ int) {
		buf := make([]byte, 1<<20)
		r := bufio.NewReader(c)
		for {
			req, err := http.ReadRequest(r)
			if err != nil {
				return
			}
			if req.Method == "GET" {
				fmt.Fprintf(c, "HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n", size)
				for range size / len(buf) {
					_, _ = c.Write(buf)
				}
				continue
			}
			n, _ := r.Discard(int(min(int64(r.Buffered()), req.ContentLength)))
			for n < int(req.ContentLength) {
				m, err := c.Read(buf)
				if n += m; err != nil {
					return
				}
			}
			received.Store(int64(n))
			_, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
		}
	})
	tr := overBase(t, honoured(), fresh(t))
	tr.ReplayBuffer = 1 << 20
	c := &http.Client{Transport: tr}
	for _, row := range []struct {
		name, method string
		getBody      bool
	}{
		{"upload without GetBody", "PUT", false},
		{"upload with GetBody", "PUT", true},
		{"download", "GET", false},
	} {
		t.Run(row.name, func(t *testing.T) {
			var peak uint64
			req, err := http.NewRequest(row.method, url, nil)
			require.NoError(t, err)
			if row.method == "PUT" {
				open := func() (io.ReadCloser, error) { return io.NopCloser(&pattern{left: size, peak: &peak}), nil }
				req.ContentLength = size
				req.Body, _ = open()
				if row.getBody {
					req.GetBody = open
				}
			}
			runtime.GC()
			before := heap()
			received.Store(0)
			resp, err := c.Do(req)
			require.NoError(t, err)
			require.Equal(t, 200, resp.StatusCode)
			n, err := io.CopyBuffer(&pattern{peak: &peak}, resp.Body, make([]byte, 256<<10))
			require.NoError(t, err)
			require.NoError(t, resp.Body.Close())
			require.EqualValues(t, size, n+received.Load(), "bytes that went through")
			require.NotZero(t, peak)
			if grown := int64(peak) - int64(before); grown >= 16<<20 {
				t.Errorf("the heap grew by %d KiB, want less than 16 MiB", grown>>10)
			}
		})
	}
}

// 14. A body that is an io.ReaderAt and io.Seeker, handed over at offset k, is
// replayed from k, each attempt with a cursor of its own.
func TestH14ReaderAt(t *testing.T) {
	t.Parallel()
	overProtocols(t, func(t *testing.T, protocol string) {
		var b bank
		s := newSite(t, protocol, func(w http.ResponseWriter, r *http.Request) {
			if _, n := b.act(r); n%3 != 0 {
				w.WriteHeader(http.StatusServiceUnavailable)
			}
		})
		c := &http.Client{Transport: overBase(t, honoured(), s.base)}
		name := filepath.Join(t.TempDir(), "body")
		require.NoError(t, os.WriteFile(name, []byte("head and tail"), 0o600))
		file, err := os.Open(name)
		require.NoError(t, err)
		_, err = file.Seek(5, io.SeekStart)
		require.NoError(t, err)
		resp, err := c.Post(s.URL, "text/plain", file)
		require.NoError(t, err)
		readAll(t, resp)

		at := bytes.NewReader([]byte("head and tail"))
		_, err = at.Seek(9, io.SeekStart)
		require.NoError(t, err)
		closes := 0
		resp, err = c.Post(s.URL, "text/plain", &watchedAt{at, func() { closes++ }})
		require.NoError(t, err)
		readAll(t, resp)
		_, bodies, _ := b.seen()
		assert.Equal(t, []string{"and tail", "and tail", "and tail", "tail", "tail", "tail"}, bodies)
		assert.Equal(t, 1, closes)
		_, err = file.Seek(0, io.SeekCurrent)
		assert.ErrorIs(t, err, os.ErrClosed, "the file is closed")
	})
}

// 15. ContentLength, Transfer-Encoding, boundary and trailers are the same in
// every attempt.
func TestH15SameFraming(t *testing.T) {
	t.Parallel()
	overProtocols(t, func(t *testing.T, protocol string) {
		var mu sync.Mutex
		var seen []string
		s := newSite(t, protocol, func(w http.ResponseWriter, r *http.Request) {
			body, err := io.ReadAll(r.Body)
			mu.Lock()
			defer mu.Unlock()
			seen = append(seen, fmt.Sprint(r.ContentLength, r.TransferEncoding, r.Header["Content-Type"], r.Header["Content-Length"], r.Trailer, sha256.Sum256(body), len(body), err))
			if len(seen) < 3 {
				w.WriteHeader(http.StatusServiceUnavailable)
			}
		})
		c := &http.Client{Transport: overBase(t, honoured(), s.base)}
		var form bytes.Buffer
		m := multipart.NewWriter(&form)
		require.NoError(t, m.WriteField("amount", "12"))
		require.NoError(t, m.Close())
		for name, body := range map[string]func() (io.Reader, int64){
			"length known":       func() (io.Reader, int64) { return bytes.NewReader(form.Bytes()), int64(form.Len()) },
			"length of a stream": func() (io.Reader, int64) { return only(bytes.NewReader(form.Bytes())), int64(form.Len()) },
			"chunked":            func() (io.Reader, int64) { return only(bytes.NewReader(form.Bytes())), -1 },
			"chunked, GetBody":   func() (io.Reader, int64) { return bytes.NewReader(form.Bytes()), -1 },
		} {
			mu.Lock()
			seen = nil
			mu.Unlock()
			r, length := body()
			req, err := http.NewRequestWithContext(t.Context(), "POST", s.URL, r)
			require.NoError(t, err)
			req.ContentLength = length
			req.Header.Set("Content-Type", m.FormDataContentType())
			wantTrailer := "map[]"
			if length < 0 {
				req.Trailer = http.Header{"X-Sum": {"abc"}}
				wantTrailer = "map[X-Sum:[abc]]"
			}
			resp, err := c.Do(req)
			require.NoError(t, err)
			readAll(t, resp)
			mu.Lock()
			require.Len(t, seen, 3)
			assert.Equal(t, seen[0], seen[1], "%s: attempt 2", name)
			assert.Equal(t, seen[0], seen[2], "%s: attempt 3", name)
			assert.Contains(t, seen[0], fmt.Sprintf("%d [", length))
			assert.Contains(t, seen[0], m.Boundary())
			assert.Contains(t, seen[0], wantTrailer)
			assert.Contains(t, seen[0], fmt.Sprintf(" %d <nil>", form.Len()))
			mu.Unlock()
		}
	})
}

// 16. An error from GetBody on a repeat returns the last real result joined with
// it; every body opened is closed. An error of the caller's own reader is never
// repeated.
func TestH16BodyErrors(t *testing.T) {
	t.Parallel()
	errGetBody := errors.New("the file has gone")
	errReader := errors.New("the disk failed")
	overProtocols(t, func(t *testing.T, protocol string) {
		var b bank
		s := newSite(t, protocol, func(w http.ResponseWriter, r *http.Request) {
			b.act(r)
			if r.URL.Path == "/cut" {
				cut(r)
				return
			}
			w.WriteHeader(http.StatusBadGateway)
			_, _ = io.WriteString(w, "the real answer")
		})
		c := &http.Client{Transport: overBase(t, honoured(), s.base)}
		request := func(path string, opened ...*watchedBody) *http.Request {
			req, err := http.NewRequestWithContext(t.Context(), "POST", s.URL+path, opened[0])
			require.NoError(t, err)
			next := 1
			req.GetBody = func() (io.ReadCloser, error) {
				if next == len(opened) {
					return nil, errGetBody
				}
				next++
				return opened[next-1], nil
			}
			return req
		}
		body := func() *watchedBody { return watchBody(t, strings.NewReader("hello")) }

		opened := []*watchedBody{body(), body()}
		resp, err := c.Do(request("/", opened...))
		require.NoError(t, err)
		report := httpclient.ReportOf(resp)
		assert.Equal(t, 502, resp.StatusCode)
		assert.Equal(t, "the real answer", readAll(t, resp))
		assert.ErrorIs(t, report.Stop, errGetBody)
		assert.Len(t, report.Attempts, 2)
		for _, o := range opened {
			<-o.closed
		}

		opened = []*watchedBody{body(), body()}
		_, err = c.Do(request("/cut", opened...))
		assert.ErrorIs(t, err, errGetBody)
		assert.ErrorIs(t, err, retry.ErrOutcomeUnknown)
		failure, ok := errors.AsType[*retry.Error](err)
		require.True(t, ok)
		assert.Error(t, failure.Last)
		assert.Len(t, failure.Attempts, 2)
		for _, o := range opened {
			<-o.closed
		}

		// The caller's reader fails after a part of the body.
		for _, length := range []int64{-1, 100} {
			for _, known := range []bool{true, false} {
				failing := func() *watchedBody {
					return watchBody(t, io.MultiReader(strings.NewReader("part"), brokenReader{errReader}))
				}
				opened = []*watchedBody{failing(), failing(), failing()}
				req := request("/", opened...)
				req.ContentLength = length
				if !known {
					req.GetBody = nil
				}
				_, err = c.Do(req)
				assert.ErrorIs(t, err, errReader)
				failure, ok = errors.AsType[*retry.Error](err)
				require.True(t, ok)
				require.Len(t, failure.Attempts, 1, "attempts with a reader that fails")
				assert.Equal(t, classify.Permanent, failure.Attempts[0].Verdict.Class)
				assert.Equal(t, classify.Local, failure.Attempts[0].Verdict.Origin)
				assert.ErrorIs(t, failure.Stop, retry.ErrPermanent)
				<-opened[0].closed
			}
		}
	})
}

type brokenReader struct{ err error }

func (f brokenReader) Read([]byte) (int, error) { return 0, f.err }

// 17. A request with a body reaches the base without GetBody, so that net/http
// never re-sends it and its error and proof come back whole. 307/308 use the
// caller's own GetBody, above us.
//
// B35: a graceful HTTP/2 shutdown failed the call although the server did
// nothing, since the body could not be opened again.
func TestH17NoGetBodyBelow(t *testing.T) {
	t.Parallel()
	overProtocols(t, func(t *testing.T, protocol string) {
		var b bank
		s := newSite(t, protocol, func(w http.ResponseWriter, r *http.Request) {
			b.act(r)
			switch r.URL.Path {
			case "/307":
				http.Redirect(w, r, "/308", http.StatusTemporaryRedirect)
			case "/308":
				http.Redirect(w, r, "/end", http.StatusPermanentRedirect)
			}
		})
		base := roundTripFunc(func(req *http.Request) (*http.Response, error) {
			assert.Nil(t, req.GetBody, "GetBody of %s %s at the base", req.Method, req.URL.Path)
			assert.NotNil(t, req.Body)
			return s.base.RoundTrip(req)
		})
		var opened atomic.Int64
		req, err := http.NewRequestWithContext(t.Context(), "POST", s.URL+"/307", strings.NewReader("hello"))
		require.NoError(t, err)
		getBody := req.GetBody
		req.GetBody = func() (io.ReadCloser, error) {
			opened.Add(1)
			return getBody()
		}
		resp, err := (&http.Client{Transport: overBase(t, quick(), base)}).Do(req)
		require.NoError(t, err)
		readAll(t, resp)
		assert.Equal(t, 200, resp.StatusCode)
		_, bodies, _ := b.seen()
		assert.Equal(t, []string{"hello", "hello", "hello"}, bodies)
		assert.EqualValues(t, 2, opened.Load(), "calls of GetBody for two hops")
	})
	t.Run("GOAWAY above the stream", func(t *testing.T) {
		p := &twoPeer{}
		p.answer = func(f *framer, stream uint32, n int) {
			if n == 1 {
				f.goAway(0, 0)
				f.Close()
				return
			}
			f.answer(stream, "done", true)
		}
		base, url := serveTwo(t, p)
		resp, err := (&http.Client{Transport: overBase(t, quick(), base)}).Post(url, "text/plain", strings.NewReader("hello"))
		require.NoError(t, err)
		assert.Equal(t, "done", readAll(t, resp))
		assert.EqualValues(t, 2, p.requests.Load())
		report := httpclient.ReportOf(resp)
		assert.Equal(t, retry.Applied, report.Outcome)
	})
}

// B36: the request is signed once; after a long wait the server rejects the
// time stamp. B37: after a 401 the token is refreshed, yet the loop sends the
// captured header again. Signers and token sources sit in Base, and run in each
// attempt.
//
// B60: refresh succeeds but the call is still unauthorised; the recursion never
// ends. A 401 is final for this layer, and what Base does below it is one attempt.
func TestBaseRunsInEachAttempt(t *testing.T) {
	t.Parallel()
	var seen []string
	var status func(n int) int
	s := newSite(t, http1, func(w http.ResponseWriter, r *http.Request) {
		seen = append(seen, r.Header.Get("Authorization")+" "+r.Header.Get("Idempotency-Key"))
		w.WriteHeader(status(len(seen)))
	})
	var signed, refreshed atomic.Int64
	signer := roundTripFunc(func(req *http.Request) (*http.Response, error) {
		send := func() (*http.Response, error) {
			out := req.Clone(req.Context())
			out.Header.Set("Authorization", fmt.Sprintf("signature %d", signed.Add(1)))
			return s.base.RoundTrip(out)
		}
		resp, err := send()
		if err == nil && resp.StatusCode == http.StatusUnauthorized && req.Body == http.NoBody {
			refreshed.Add(1)
			resp.Body.Close()
			return send()
		}
		return resp, err
	})
	c := &http.Client{Transport: overBase(t, honoured(), signer)}
	status = func(n int) int {
		if n < 3 {
			return http.StatusServiceUnavailable
		}
		return http.StatusOK
	}
	req, err := http.NewRequestWithContext(t.Context(), "POST", s.URL, strings.NewReader("x"))
	require.NoError(t, err)
	req.Header.Set("Idempotency-Key", "K")
	resp, err := c.Do(req)
	require.NoError(t, err)
	readAll(t, resp)
	assert.Equal(t, []string{"signature 1 K", "signature 2 K", "signature 3 K"}, seen)

	seen = nil
	status = func(int) int { return http.StatusUnauthorized }
	resp, err = c.Get(s.URL)
	require.NoError(t, err)
	readAll(t, resp)
	assert.Equal(t, http.StatusUnauthorized, resp.StatusCode)
	assert.EqualValues(t, 1, refreshed.Load())
	assert.Len(t, seen, 2, "requests, that after the refresh included")
	assert.Len(t, httpclient.ReportOf(resp).Attempts, 1)
}

// B37, B60: a token source that fetches with the context of the request sends its
// own requests under the hooks of the attempt. They are neither taken for sends
// that net/http hides nor charged.
func TestBaseFetchesATokenInTheAttempt(t *testing.T) {
	t.Parallel()
	overProtocols(t, func(t *testing.T, protocol string) {
		var calls, tokens atomic.Int64
		var accept atomic.Pointer[string]
		s := newSite(t, protocol, func(w http.ResponseWriter, r *http.Request) {
			_, _ = io.Copy(io.Discard, r.Body)
			switch {
			case r.URL.Path == "/token":
				fmt.Fprintf(w, "token %d", tokens.Add(1))
			case calls.Add(1) > 0 && r.URL.Path == "/down":
				w.WriteHeader(http.StatusServiceUnavailable)
			case r.Header.Get("Authorization") != *accept.Load():
				w.WriteHeader(http.StatusUnauthorized)
			}
		})
		fetch := func(ctx context.Context) (string, error) {
			req, err := http.NewRequestWithContext(ctx, "POST", s.URL+"/token", strings.NewReader("secret"))
			require.NoError(t, err)
			resp, err := s.base.RoundTrip(req)
			if err != nil {
				return "", err
			}
			defer resp.Body.Close()
			token, err := io.ReadAll(resp.Body)
			return string(token), err
		}
		// send sends a copy of req with a token.
		send := func(req *http.Request, token string, body []byte) (*http.Response, error) {
			out := req.Clone(req.Context())
			out.Header.Set("Authorization", token)
			if body != nil {
				out.Body = io.NopCloser(bytes.NewReader(body))
			}
			return s.base.RoundTrip(out)
		}
		whole := func(req *http.Request) (body []byte) {
			if req.Body != nil && req.Body != http.NoBody {
				body, _ = io.ReadAll(req.Body)
				req.Body.Close()
			}
			return body
		}
		afterRefusal := roundTripFunc(func(req *http.Request) (*http.Response, error) {
			body := whole(req)
			old, err := fetch(req.Context())
			if err != nil {
				return nil, err
			}
			resp, err := send(req, old, body)
			if err != nil || resp.StatusCode != http.StatusUnauthorized {
				return resp, err
			}
			resp.Body.Close()
			token, err := fetch(req.Context())
			if err != nil {
				return nil, err
			}
			return send(req, token, body)
		})
		before := roundTripFunc(func(req *http.Request) (*http.Response, error) {
			body := whole(req)
			token, err := fetch(req.Context())
			if err != nil {
				return nil, err
			}
			return send(req, token, body)
		})
		for _, attempts := range []int{1, 3} {
			p := quick()
			p.MaxAttempts = attempts
			for _, r := range [][2]string{{"GET", ""}, {"POST", "pay"}, {"POST", ""}, {"PUT", "set"}} {
				what := fmt.Sprintf("%s %q, at most %d attempts", r[0], r[1], attempts)
				next := fmt.Sprintf("token %d", tokens.Load()+2)
				accept.Store(&next)
				calls.Store(0)
				resp, err := overBase(t, p, afterRefusal).RoundTrip(call(t, t.Context(), r[0], s.URL+"/api", r[1]))
				require.NoError(t, err, what)
				finish(t, resp)
				assert.Equal(t, 200, resp.StatusCode, what)
				assert.EqualValues(t, 2, calls.Load(), "calls, %s", what)
				report := httpclient.ReportOf(resp)
				assert.Len(t, report.Attempts, 1, what)
				assert.Zero(t, report.Resends, what)

				calls.Store(0)
				resp, err = overBase(t, p, before).RoundTrip(call(t, t.Context(), r[0], s.URL+"/down", r[1]))
				require.NoError(t, err, what)
				finish(t, resp)
				want := attempts
				if r[0] == "POST" {
					want = 1
				}
				assert.EqualValues(t, want, calls.Load(), "calls answered 503, %s", what)
			}
		}
	})
}

// A call that is given up while its body is being sent leaves no reader behind.
func TestCancelDuringUpload(t *testing.T) {
	t.Parallel()
	overProtocols(t, func(t *testing.T, protocol string) {
		s := newSite(t, protocol, func(w http.ResponseWriter, r *http.Request) { _, _ = io.Copy(io.Discard, r.Body) })
		ctx, cancel := context.WithCancel(t.Context())
		pr, pw := io.Pipe()
		go func() {
			_, _ = pw.Write([]byte("x"))
			cancel()
		}()
		b := &closingPipe{watchBody(t, pr), pr}
		req, err := http.NewRequestWithContext(ctx, "PUT", s.URL, b)
		require.NoError(t, err)
		_, err = (&http.Client{Transport: overBase(t, quick(), s.base)}).Do(req)
		assert.ErrorIs(t, err, context.Canceled)
		<-b.closed
		_, err = pw.Write([]byte("x"))
		assert.ErrorIs(t, err, io.ErrClosedPipe)
	})
}
