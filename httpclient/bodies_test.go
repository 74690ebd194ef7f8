package httpclient_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/reintento/reintento/breaker"
	"github.com/reintento/reintento/classify"
	"github.com/reintento/reintento/httpclient"
	"github.com/reintento/reintento/retry"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// brokenBodies are answers whose head is well and whose body breaks, and what
// the error then matches.
var brokenBodies = map[string]struct {
	cause func(t *testing.T) fault
	is    error
}{
	"a body cut short": {answered(says("HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nhalf")), io.ErrUnexpectedEOF},
	"a connection reset": {answered(func(c net.Conn, _ *http.Request, _ int) bool {
		_, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n")
		reset(c)
		return false
	}), nil},
	"a chunk whose length is none": {answered(says("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nhalf\r\nx\r\n")), nil},
	"chunks without an end":        {answered(says("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nhalf\r\n")), io.ErrUnexpectedEOF},
	"what is no gzip":              {answered(says("HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nConnection: close\r\nContent-Length: 11\r\n\r\nhalf a body")), gzip.ErrHeader},
	"gzip that is spoiled": {func(t *testing.T) fault {
		var b bytes.Buffer
		w := gzip.NewWriter(&b)
		_, _ = io.WriteString(w, "a body")
		require.NoError(t, w.Close())
		b.Bytes()[b.Len()-5] ^= 1
		return answered(says(fmt.Sprintf("HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nConnection: close\r\nContent-Length: %d\r\n\r\n%s", b.Len(), b.String())))(t)
	}, gzip.ErrChecksum},
	"RST_STREAM": {streams(func(f *framer, stream uint32) {
		f.answer(stream, "half", false)
		f.resetStream(stream, 2)
	}), nil},
	"GOAWAY, and the connection closed": {streams(func(f *framer, stream uint32) {
		f.answer(stream, "half", false)
		f.goAway(stream, 0)
		f.Close()
	}), nil},
	"HTTP2 without an end": {streams(func(f *framer, stream uint32) {
		f.answer(stream, "half", false)
		f.Close()
	}), io.ErrUnexpectedEOF},
	"HTTP2, no end within the attempt's time": {func(t *testing.T) fault {
		f := streams(func(f *framer, stream uint32) { f.answer(stream, "half", false) })(t)
		f.within = attemptWithin
		return f
	}, context.DeadlineExceeded},
	"no end within the attempt's time": {func(t *testing.T) fault {
		f := answered(func(c net.Conn, _ *http.Request, _ int) bool {
			_, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nhalf")
			drain(c)
			return false
		})(t)
		f.within = attemptWithin
		return f
	}, context.DeadlineExceeded},
}

// H48: an error while the body is read is ambiguous: the operation ran, its
// result is lost. Inside retry.Do S and K are repeated, N is not.
func TestH48BrokenBodies(t *testing.T) {
	t.Parallel()
	for name, row := range brokenBodies {
		for _, o := range operations {
			t.Run(name+"/"+o.name, func(t *testing.T) {
				t.Parallel()
				p := o.policy()
				p.MaxAttempts = 2
				f, e := inTime(t, row.cause, p, func(f fault, p retry.Policy) (int, error) {
					tr := overBase(t, p, f.base)
					_, err := retry.Do(t.Context(), tr.Layer.To("operation"), o.safety, func(ctx context.Context) ([]byte, error) {
						resp, err := tr.RoundTrip(o.request(t, ctx, f.url))
						if err != nil {
							return nil, err
						}
						defer resp.Body.Close()
						return io.ReadAll(resp.Body)
					})
					return len(f.seen), err
				})
				err := error(e)
				attempts := 2
				if o.safety == retry.Unsafe {
					attempts = 1
				}
				require.Len(t, e.Attempts, attempts, "attempts of %v", err)
				for _, a := range e.Attempts {
					assert.Equal(t, ambiguous, a.Verdict.Class, "class of %v", a.Err)
					assert.Equal(t, remote, a.Verdict.Origin, "origin of %v", a.Err)
				}
				if !o.read() {
					assert.ErrorIs(t, err, retry.ErrOutcomeUnknown)
				}
				if row.is != nil {
					assert.ErrorIs(t, err, row.is)
				}
				assert.Len(t, f.seen, attempts, "requests that the peer read")
			})
		}
	}
}

// H48: outside of retry.Do a body that breaks is an event of its attempt, and an
// error of Read; nothing is repeated.
func TestH48BrokenBodyIsTold(t *testing.T) {
	t.Parallel()
	f := answered(func(c net.Conn, _ *http.Request, _ int) bool {
		_, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nhalf")
		reset(c)
		return false
	})(t)
	var events []retry.Event
	l, err := retry.NewLayer(retry.Organization{Default: quick()}, &retry.Options{Observer: func(_ context.Context, e retry.Event) { events = append(events, e) }})
	require.NoError(t, err)
	o := operations[3]
	resp, err := (&httpclient.Transport{Layer: l, Base: f.base}).RoundTrip(o.request(t, t.Context(), f.url))
	require.NoError(t, err)
	_, err = io.ReadAll(resp.Body)
	require.NoError(t, resp.Body.Close())
	assert.ErrorIs(t, err, syscall.ECONNRESET)
	assert.Len(t, f.seen, 1, "requests that the peer read")
	require.Len(t, events, 2, "events")
	assert.False(t, events[0].Failed, "the head failed")
	assert.True(t, events[1].Failed, "the body failed")
	assert.Equal(t, classify.Verdict{Class: ambiguous, Reason: "body"}, events[1].Verdict, "verdict of the body")
	assert.Equal(t, 1, events[1].Attempt, "attempt of the body")
}

// H48: Client.Timeout ends a body that does not come: nothing is repeated.
func TestH48ClientTimeoutInTheBody(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := &onePeer{answer: func(c net.Conn, _ *http.Request, _ int) bool {
			_, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nhalf")
			drain(c)
			return false
		}}
		base := &http.Transport{DialContext: func(context.Context, string, string) (net.Conn, error) {
			ours, theirs := net.Pipe()
			go p.serve(theirs, 1)
			return ours, nil
		}}
		client := &http.Client{Transport: overBase(t, quick(), base), Timeout: time.Second}
		start := time.Now()
		resp, err := client.Get("http://callee.test")
		require.NoError(t, err)
		defer resp.Body.Close()
		_, err = io.ReadAll(resp.Body)
		assert.ErrorIs(t, err, context.DeadlineExceeded)
		assert.Equal(t, time.Second, time.Since(start), "time passed")
		assert.EqualValues(t, 1, p.requests.Load(), "requests that the peer read")
	})
}

// H48: a body that the attempt's time cuts, or Client.Timeout, is a lost result
// as any other: inside retry.Do S and K are repeated, N is not. When the caller
// has gone nothing is, and a read is not unknown then either.
func TestH48BodyCutByTime(t *testing.T) {
	t.Parallel()
	whole := retry.Policy{Deadline: time.Minute, AttemptTimeout: time.Minute, BaseDelay: 1, MaxDelay: 1, Breaker: breaker.Settings{Window: time.Hour}}
	short := whole
	short.AttemptTimeout = time.Second
	for name, row := range map[string]struct {
		operation retry.Policy
		client    time.Duration
		caller    func(context.Context) (context.Context, context.CancelFunc)
		reason    string
		origin    classify.Origin
	}{
		"the attempt's time": {operation: short, reason: "timeout"},
		// It is neither the caller of Do that has gone, nor is the callee to blame.
		"Client.Timeout": {operation: whole, client: time.Second, reason: "timeout", origin: classify.Local},
		"the caller's deadline": {operation: whole, reason: "canceled", origin: classify.Caller, caller: func(ctx context.Context) (context.Context, context.CancelFunc) {
			return context.WithTimeout(ctx, time.Second)
		}},
		"the caller": {operation: whole, reason: "canceled", origin: classify.Caller, caller: func(ctx context.Context) (context.Context, context.CancelFunc) {
			ctx, cancel := context.WithCancel(ctx)
			time.AfterFunc(time.Second, cancel)
			return ctx, cancel
		}},
	} {
		for _, o := range operations {
			for _, below := range []int{1, 2} {
				t.Run(fmt.Sprint(name, "/", o.name, "/", below), func(t *testing.T) {
					t.Parallel()
					synctest.Test(t, func(t *testing.T) {
						base := http.RoundTripper(inBubble(t, func(w http.ResponseWriter, r *http.Request) {
							_, _ = io.Copy(io.Discard, r.Body)
							w.Header().Set("Content-Length", "100")
							_, _ = io.WriteString(w, "half")
							w.(http.Flusher).Flush()
							<-r.Context().Done()
						}))
						p := o.policy()
						p.Deadline, p.AttemptTimeout, p.Breaker = whole.Deadline, whole.AttemptTimeout, whole.Breaker
						l, err := retry.NewLayer(retry.Organization{Default: p, Destinations: map[string]retry.Policy{"operation": row.operation}}, nil)
						require.NoError(t, err)
						for range below {
							base = &httpclient.Transport{Layer: l, Base: base}
						}
						client := &http.Client{Transport: base, Timeout: row.client}
						ctx := t.Context()
						if row.caller != nil {
							var cancel context.CancelFunc
							ctx, cancel = row.caller(ctx)
							defer cancel()
						}
						err = l.To("operation").Do(ctx, retry.Unsafe, func(ctx context.Context) error {
							resp, err := client.Do(o.request(t, ctx, "http://callee.test"))
							if err != nil {
								return err
							}
							defer resp.Body.Close()
							_, err = io.ReadAll(resp.Body)
							return err
						})
						e, ok := errors.AsType[*retry.Error](err)
						require.True(t, ok, "Do failed with a %T: %v", err, err)
						attempts := 1
						if row.caller == nil && o.safety != retry.Unsafe {
							attempts = 3
						}
						require.Len(t, e.Attempts, attempts, "attempts of %v", err)
						want := classify.Verdict{Class: ambiguous, Origin: row.origin, Repeatable: o.safety != retry.Unsafe, Reason: row.reason}
						assert.Equal(t, want, e.Attempts[0].Verdict, "verdict of %v", e.Attempts[0].Err)
						assert.Equal(t, !o.read(), errors.Is(err, retry.ErrOutcomeUnknown), "Is(%v, ErrOutcomeUnknown)", err)
						if o.read() {
							assert.Equal(t, retry.NotApplied, e.Outcome, "outcome of %v", err)
						}
						assert.Equal(t, row.caller == nil, row.reason == "timeout" && e.Timeout(), "Timeout of %v", err)
						assert.NotContains(t, err.Error(), "Request.Cancel")
						assert.NotContains(t, err.Error(), "after its attempt had ended")
					})
				})
			}
		}
	}
}

// H48: our own limit on a body is permanent, and so is the read of a closed one,
// a mistake of the caller. After an N they are ambiguous all the same: the write
// has been done.
func TestH48BodiesLostHere(t *testing.T) {
	t.Parallel()
	for name, read := range map[string]func(io.ReadCloser) error{
		"http.MaxBytesError": func(b io.ReadCloser) error {
			_, err := io.ReadAll(http.MaxBytesReader(nil, b, 2))
			return err
		},
		"read on a closed response body": func(b io.ReadCloser) error {
			b.Close()
			_, err := io.ReadAll(b)
			return err
		},
	} {
		for _, o := range operations {
			t.Run(name+"/"+o.name, func(t *testing.T) {
				t.Parallel()
				f := answered(says("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nwhole"))(t)
				tr := overBase(t, o.policy(), f.base)
				err := tr.Layer.To("operation").Do(t.Context(), o.safety, func(ctx context.Context) error {
					resp, err := tr.RoundTrip(o.request(t, ctx, f.url))
					if err != nil {
						return err
					}
					defer resp.Body.Close()
					return read(resp.Body)
				})
				e, ok := errors.AsType[*retry.Error](err)
				require.True(t, ok, "Do failed with a %T: %v", err, err)
				require.Len(t, e.Attempts, 1, "attempts of %v", err)
				class := permanent
				if o.safety == retry.Unsafe {
					class = ambiguous
				}
				assert.Equal(t, class, e.Attempts[0].Verdict.Class, "class of %v", err)
				assert.Equal(t, !o.read(), errors.Is(err, retry.ErrOutcomeUnknown), "Is(%v, ErrOutcomeUnknown)", err)
			})
		}
	}
}

// H48: a chain of redirects that does not end well is not repeated. It is
// permanent for S; for N and K the hops were sent, so that it stays unknown, but
// where the only answer was that the write is to be sent elsewhere (RFC 9110
// section 15.4.8).
func TestH48Redirects(t *testing.T) {
	t.Parallel()
	errStop := errors.New("not there")
	for name, row := range map[string]struct {
		location string
		check    func(*http.Request, []*http.Request) error
		hops     int
	}{
		"ten redirects":        {"/again", nil, 10},
		"CheckRedirect":        {"/again", func(*http.Request, []*http.Request) error { return errStop }, 1},
		"an unparsable target": {"http://[::1", nil, 1},
	} {
		for i := range 2 * len(operations) {
			o, code := operations[i/2], [...]int{302, 307}[i%2]
			t.Run(fmt.Sprint(name, "/", o.name, "/", code), func(t *testing.T) {
				t.Parallel()
				f := answered(func(c net.Conn, r *http.Request, _ int) bool {
					_, _ = io.Copy(io.Discard, r.Body)
					_, err := fmt.Fprintf(c, "HTTP/1.1 %d Elsewhere\r\nLocation: %s\r\nContent-Length: 0\r\n\r\n", code, row.location)
					return err == nil
				})(t)
				tr := overBase(t, o.policy(), f.base)
				client := httpclient.ForLayer(tr.Layer)
				client.Transport = tr
				if row.check != nil {
					client.CheckRedirect = row.check
				}
				err := tr.Layer.To("operation").Do(t.Context(), o.safety, func(ctx context.Context) error {
					resp, err := client.Do(o.request(t, ctx, f.url))
					if err == nil {
						resp.Body.Close()
					}
					return err
				})
				e, ok := errors.AsType[*retry.Error](err)
				require.True(t, ok, "Do failed with a %T: %v", err, err)
				require.Len(t, e.Attempts, 1, "attempts of %v", err)
				class := permanent
				if o.safety == retry.Unsafe && code == 302 {
					class = ambiguous
				}
				assert.Equal(t, class, e.Attempts[0].Verdict.Class, "class of %v", err)
				unknown := !o.read() && (code == 302 || row.hops > 1)
				assert.Equal(t, unknown, errors.Is(err, retry.ErrOutcomeUnknown), "Is(%v, ErrOutcomeUnknown)", err)
				assert.Len(t, f.seen, row.hops, "requests that the peer read")
			})
		}
	}
}

// H48: a permanent answer whose outcome is unknown ends a keyed operation too,
// when the operation made an error of its own of it.
func TestH48PermanentInsideDo(t *testing.T) {
	t.Parallel()
	for name, answer := range map[string]string{
		"424":                    "HTTP/1.1 424 Failed Dependency\r\nContent-Length: 0\r\n\r\n",
		"500 of the key's store": "HTTP/1.1 500 Internal Server Error\r\nIdempotent-Replayed: true\r\nContent-Length: 0\r\n\r\n",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := answered(says(answer))(t)
			o := operations[2]
			tr := overBase(t, o.policy(), f.base)
			err := tr.Layer.To("operation").Do(t.Context(), o.safety, func(ctx context.Context) error {
				resp, err := tr.RoundTrip(o.request(t, ctx, f.url))
				if err != nil {
					return err
				}
				resp.Body.Close()
				return fmt.Errorf("the callee said %s", resp.Status)
			})
			assert.ErrorIs(t, err, retry.ErrPermanent)
			assert.ErrorIs(t, err, retry.ErrOutcomeUnknown)
			assert.Len(t, f.seen, 1, "requests that the peer read")
		})
	}
}

// H48: outside of retry.Do, too, nobody knows what became of the write that a
// chain of redirects began with.
func TestH48TooManyRedirects(t *testing.T) {
	t.Parallel()
	for _, o := range operations {
		t.Run(o.name, func(t *testing.T) {
			t.Parallel()
			f := answered(says("HTTP/1.1 302 Found\r\nLocation: /again\r\nConnection: close\r\nContent-Length: 0\r\n\r\n"))(t)
			client, err := httpclient.New(o.policy(), nil)
			require.NoError(t, err)
			_, err = client.Do(o.request(t, t.Context(), f.url))
			assert.ErrorContains(t, err, "stopped after 10 redirects")
			assert.Equal(t, !o.read(), errors.Is(err, retry.ErrOutcomeUnknown), "Is(%v, ErrOutcomeUnknown)", err)
			assert.Len(t, f.seen, 10, "requests that the peer read")
		})
	}
}

// H48: a body of another length than the request says is a mistake of the
// caller, however it is opened and whatever net/http notices first: one attempt,
// and the error says so.
func TestH48BodyLength(t *testing.T) {
	t.Parallel()
	for name, open := range map[string]func(string) io.Reader{
		"in memory": func(s string) io.Reader { return strings.NewReader(s) },
		"streamed":  func(s string) io.Reader { return io.MultiReader(strings.NewReader(s)) },
	} {
		for _, length := range []int64{2, 100} {
			for _, o := range operations[1:] {
				t.Run(fmt.Sprintf("%s/%d/%s", name, length, o.name), func(t *testing.T) {
					t.Parallel()
					f := silent(t)
					req, err := http.NewRequestWithContext(t.Context(), o.method, f.url, open(o.body))
					require.NoError(t, err)
					req.ContentLength = length
					_, err = overBase(t, o.policy(), f.base).RoundTrip(req)
					e, ok := errors.AsType[*retry.Error](err)
					require.True(t, ok, "RoundTrip failed with a %T: %v", err, err)
					assert.ErrorContains(t, err, "ContentLength is not the length of the body")
					assert.Len(t, e.Attempts, 1, "attempts of %v", err)
					assert.Equal(t, classify.Verdict{Class: permanent, Origin: local, Reason: "body", Repeatable: o.safety != retry.Unsafe}, e.Attempts[0].Verdict)
				})
			}
		}
	}
}

// withoutEnd serves responses whose body begins and does not end.
func withoutEnd(w http.ResponseWriter, r *http.Request) {
	_, _ = io.WriteString(w, "line\n")
	w.(http.Flusher).Flush()
	<-r.Context().Done()
}

// A read that an operation ends by itself says nothing of how the operation fails
// afterwards: neither that it may be repeated, nor, to an observer, that it failed.
func TestABodyThatItsReaderEnds(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]func(context.Context) (context.Context, context.CancelFunc){
		"by will": func(ctx context.Context) (context.Context, context.CancelFunc) {
			ctx, cancel := context.WithCancel(ctx)
			time.AfterFunc(time.Second, cancel)
			return ctx, cancel
		},
		"by time": func(ctx context.Context) (context.Context, context.CancelFunc) {
			return context.WithTimeout(ctx, time.Second)
		},
	} {
		for _, h := range map[string]http.HandlerFunc{"body": withoutEnd, "head": func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }} {
			synctest.Test(t, func(t *testing.T) {
				var inBody []retry.Event
				l, err := retry.NewLayer(retry.Organization{Default: steady()}, &retry.Options{Observer: func(_ context.Context, e retry.Event) {
					if e.InBody {
						inBody = append(inBody, e)
					}
				}})
				require.NoError(t, err)
				tr := &httpclient.Transport{Layer: l, Base: inBubble(t, h)}
				effects := 0
				err = l.To("operation").Do(t.Context(), retry.Unsafe, func(ctx context.Context) error {
					ctx, stop := end(ctx)
					defer stop()
					if resp, err := tr.RoundTrip(call(t, ctx, "GET", "http://callee.test/", "")); err == nil {
						_, _ = io.ReadAll(resp.Body) // whatever came until then
						resp.Body.Close()
					}
					effects++ // of a write that no transport knows of
					return errors.New("the answer was lost")
				})
				assert.Equal(t, 1, effects, "effects, %s", name)
				assert.ErrorIs(t, err, retry.ErrOutcomeUnknown, name)
				assert.Empty(t, inBody, "events of the body, %s", name)
			})
		}
	}
}

// Progress of an upload that is still going on when the head comes does not give
// the response's body the time of an attempt.
func TestUploadBesideABodyInTime(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		base := inBubble(t, func(w http.ResponseWriter, r *http.Request) {
			rc := http.NewResponseController(w)
			_ = rc.EnableFullDuplex()
			_ = rc.Flush()
			_, _ = io.Copy(io.Discard, r.Body)
			time.Sleep(5 * time.Second)
			_, _ = io.WriteString(w, "done")
		})
		p := steady()
		p.AttemptTimeout = 2 * time.Second
		l, err := retry.NewLayer(retry.Organization{Default: p, Destinations: map[string]retry.Policy{"operation": {AttemptTimeout: 20 * time.Second}}}, nil)
		require.NoError(t, err)
		client := &http.Client{Transport: &httpclient.Transport{Layer: l, Base: base}, Timeout: 15 * time.Second}
		require.NoError(t, l.To("operation").Do(t.Context(), retry.Unsafe, func(ctx context.Context) error {
			pr, pw := io.Pipe()
			go func() {
				for range 4 {
					_, _ = io.WriteString(pw, "part")
					time.Sleep(time.Second)
				}
				pw.Close()
			}()
			req, err := http.NewRequestWithContext(ctx, "POST", "http://callee.test/", pr)
			require.NoError(t, err)
			resp, err := client.Do(req)
			if err != nil {
				return err
			}
			assert.Equal(t, "done", readAll(t, resp))
			return nil
		}))
	})
}

// What a body broke by is said again to whoever reads on, and is a net.Error if
// time was.
func TestABrokenBodyReadOn(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		tr := overBase(t, steady(), inBubble(t, withoutEnd))
		client := &http.Client{Transport: tr, Timeout: time.Second}
		require.NoError(t, tr.Layer.To("operation").Do(t.Context(), retry.Unsafe, func(ctx context.Context) error {
			resp, err := client.Do(call(t, ctx, "GET", "http://callee.test/", ""))
			require.NoError(t, err)
			defer resp.Body.Close()
			_, first := io.ReadAll(resp.Body)
			assert.ErrorIs(t, first, context.DeadlineExceeded)
			assert.ErrorContains(t, first, "Timeout")
			timeout, ok := first.(net.Error)
			assert.True(t, ok && timeout.Timeout(), "net.Error of %T", first)
			_, second := resp.Body.Read(make([]byte, 1))
			assert.Equal(t, first, second)
			return nil
		}))
	})
}

// What fails after a 303 that the client followed leaves the operation as a whole
// unknown, and goes to the lookup.
func TestAFailureAfterA303ThatWasFollowed(t *testing.T) {
	t.Parallel()
	s := newSite(t, http1, func(w http.ResponseWriter, r *http.Request) {
		if r.Method == "POST" {
			http.Redirect(w, r, "/result", http.StatusSeeOther)
		}
	})
	tr := overBase(t, steady(), s.base)
	found, err := retry.Do(t.Context(), tr.Layer.To("operation"), retry.Unsafe, func(ctx context.Context) (string, error) {
		resp, err := (&http.Client{Transport: tr}).Do(call(t, ctx, "POST", s.URL, "pay"))
		require.NoError(t, err)
		finish(t, resp)
		return "", errors.New("the result could not be stored")
	}, retry.Reconcile(func(context.Context, retry.Intention) (string, error) { return "found", nil }))
	require.NoError(t, err)
	assert.Equal(t, "found", found)
}
