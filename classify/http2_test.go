package classify_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptrace"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/reintento/reintento/classify"
	"github.com/stretchr/testify/require"
)

// The HTTP/2 client of net/http has a type for few of its errors. These tests
// provoke each by a server's frames, so that a Go release with other texts
// fails here.

func TestHTTP2StreamThatIsReset(t *testing.T) {
	for code := uint32(0); code <= 13; code++ {
		t.Run(fmt.Sprintf("code %d", code), func(t *testing.T) {
			want := classify.Verdict{Reason: "reset"}
			if code == 7 {
				want = classify.Verdict{Class: classify.Retryable, Reason: "refused_stream"}
			}
			synctest.Test(t, func(t *testing.T) {
				var sends atomic.Int64
				base := pipedHTTP2(t, func(f *framer) {
					stream := f.request()
					sends.Add(1)
					f.reset(stream, code)
					f.drain()
				})
				trace, err := attempt(t, base, write(t, t.Context(), "http://pay.test/"))
				check(t, err, trace, want)
				if n := sends.Load(); n != 1 {
					t.Errorf("the server saw %d streams, want 1", n)
				}
			})
		})
	}
}

// A request that can be rewound is sent again by net/http, eight times for one
// round trip. The last refusal proves nothing about the seven before it.
func TestHTTP2StreamThatIsRefusedEightTimes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		base := pipedHTTP2(t, func(f *framer) {
			for stream := f.request(); stream != 0; stream = f.request() {
				f.reset(stream, 7)
			}
		})
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://pay.test/", strings.NewReader("pay 10"))
		require.NoError(t, err)
		trace, err := attempt(t, base, req)
		require.Equal(t, 8, trace.WroteHeaders, "sends of one RoundTrip")
		check(t, err, trace, classify.Verdict{Reason: "refused_stream"})

		// The same value after one send is the proof.
		check(t, err, stream, classify.Verdict{Class: classify.Retryable, Reason: "refused_stream"})
	})
}

func TestHTTP2GoAway(t *testing.T) {
	const noError, internalError, enhanceYourCalm = 0, 2, 11
	tests := []struct {
		name string
		last uint32
		code uint32
		want classify.Verdict
	}{
		{"gracefully, above the last stream", 0, noError, classify.Verdict{Class: classify.Retryable, Reason: "goaway"}},
		{"with an error, above the last stream", 0, internalError, classify.Verdict{Class: classify.Retryable, Reason: "goaway"}},
		{"for load, above the last stream", 0, enhanceYourCalm, classify.Verdict{Class: classify.Retryable, Reason: "goaway", Throttled: true}},
		{"gracefully, our stream included", 1, noError, classify.Verdict{Reason: "goaway"}},
		{"with an error, our stream included", 1, internalError, classify.Verdict{Reason: "goaway"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				base := pipedHTTP2(t, func(f *framer) {
					f.request()
					f.goAway(tt.last, tt.code)
					if tt.last == 0 {
						f.drain()
						return
					}
					f.settle()
				})
				trace, err := attempt(t, base, write(t, t.Context(), "http://pay.test/"))
				check(t, err, trace, tt.want)
			})
		})
	}
}

func TestHTTP2AfterSending(t *testing.T) {
	wait := func(f *framer) { f.request(); f.drain() }
	bodyError := classify.Verdict{Class: classify.Permanent, Origin: classify.Local, Reason: "body"}
	badRequest := classify.Verdict{Class: classify.Permanent, Origin: classify.Local, Reason: "request"}
	tests := []struct {
		name   string
		peer   func(*framer)
		change func(*http.Transport, *http.Request)
		want   classify.Verdict
	}{
		{"the connection closed", func(f *framer) { f.request(); f.settle() }, nil, classify.Verdict{Reason: "closed"}},
		{"a frame that breaks the protocol", func(f *framer) { f.request(); f.send(frameData, 0, 0, nil); f.drain() }, nil, classify.Verdict{Reason: "malformed"}},
		{"a head without a status", func(f *framer) {
			f.send(frameHeaders, flagEndStream|flagEndHeaders, f.request(), []byte{0, 1, 'a', 1, 'b'}) // HPACK: a literal a: b
			f.drain()
		}, nil, classify.Verdict{Reason: "malformed"}},
		{"no head in time", wait, func(base *http.Transport, _ *http.Request) { base.ResponseHeaderTimeout = time.Second }, classify.Verdict{Reason: "timeout"}},
		{"no answer to a ping", wait, func(base *http.Transport, _ *http.Request) {
			base.HTTP2 = &http.HTTP2Config{SendPingTimeout: time.Second, PingTimeout: time.Second}
		}, classify.Verdict{Reason: "closed"}},
		{"a body longer than declared", wait, func(_ *http.Transport, r *http.Request) { r.ContentLength = 2 }, bodyError},
		{"a bad host", wait, func(_ *http.Transport, r *http.Request) { r.Host = "a b" }, badRequest},
		{"a trailer that may not be one", wait, func(_ *http.Transport, r *http.Request) { r.Trailer = http.Header{"Content-Length": nil} }, badRequest},
		{"an upgrade", wait, func(_ *http.Transport, r *http.Request) { r.Header.Set("Upgrade", "pay") }, badRequest},
		{"a connection that is not to be kept", wait, func(_ *http.Transport, r *http.Request) { r.Header.Set("Connection", "pay") }, badRequest},
		{"an encoding", wait, func(_ *http.Transport, r *http.Request) { r.Header.Set("Transfer-Encoding", "pay") }, badRequest},
		{"a bad path", wait, func(_ *http.Transport, r *http.Request) { r.URL.Opaque = "x" }, badRequest},
		{"legacy cancel", wait, func(_ *http.Transport, r *http.Request) {
			done := make(chan struct{})
			//lint:ignore SA1019 http.Client sets it, too
			r.Cancel = done
			time.AfterFunc(time.Second, func() { close(done) })
		}, classify.Verdict{Origin: classify.Caller, Reason: "canceled"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				base, req := pipedHTTP2(t, tt.peer), write(t, t.Context(), "http://pay.test/")
				if tt.change != nil {
					tt.change(base, req)
				}
				trace, err := attempt(t, base, req)
				check(t, err, trace, tt.want)
			})
		})
	}
}

// A connection that closes before its first stream has carried nothing.
func TestHTTP2ConnectionClosedBeforeItsFirstStream(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		base := pipedHTTP2(t, func(*framer) {})
		ctx := httptrace.WithClientTrace(t.Context(), &httptrace.ClientTrace{
			GotConn: func(httptrace.GotConnInfo) { synctest.Wait() }, // until its end has been seen
		})
		trace, err := attempt(t, base, write(t, ctx, "http://pay.test/"))
		require.EqualError(t, err, "http2: client conn could not be established")
		check(t, err, trace, classify.Verdict{Class: classify.Retryable, Reason: "closed"})
	})
}

func TestHTTP2AttemptDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		base := pipedHTTP2(t, func(f *framer) { f.request(); f.drain() })
		trace, err := attempt(t, base, write(t, ctx, "http://pay.test/"))
		check(t, err, trace, classify.Verdict{Reason: "timeout"})
	})
}

func TestHTTP2HeaderListTooLarge(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		base := pipedHTTP2(t, func(f *framer) {
			f.send(frameSettings, 0, 0, []byte{0, 6, 0, 0, 0, 10}) // SETTINGS_MAX_HEADER_LIST_SIZE: 10
			f.drain()
		})
		// The first request can overtake the setting; the second cannot.
		first, cancel := context.WithCancel(t.Context())
		go func() {
			synctest.Wait()
			cancel()
		}()
		_, err := base.RoundTrip(write(t, first, "http://pay.test/"))
		require.Error(t, err)
		trace, err := attempt(t, base, write(t, t.Context(), "http://pay.test/"))
		check(t, err, trace, classify.Verdict{Class: classify.Permanent, Origin: classify.Local, Reason: "request"})
	})
}

func TestHTTP2BodyReadAfterClose(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		base := pipedHTTP2(t, func(f *framer) {
			f.send(frameHeaders, flagEndHeaders, f.request(), []byte{0x88}) // HPACK: :status 200
			f.drain()
		})
		defer base.CloseIdleConnections()
		resp, err := base.RoundTrip(write(t, t.Context(), "http://pay.test/"))
		require.NoError(t, err)
		require.NoError(t, resp.Body.Close())
		_, err = io.ReadAll(resp.Body)
		require.Error(t, err)
		want := classify.Verdict{Class: classify.Permanent, Origin: classify.Local, Reason: "body"}
		if got := classify.Error(err); got != want {
			t.Errorf("Error(%v) = %+v, want %+v", err, got, want)
		}
	})
}

func TestHTTP2BodyThatIsReset(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		base := pipedHTTP2(t, func(f *framer) {
			stream := f.request()
			f.send(frameHeaders, flagEndHeaders, stream, []byte{0x88})
			f.reset(stream, 2)
			f.drain()
		})
		defer base.CloseIdleConnections()
		resp, err := base.RoundTrip(write(t, t.Context(), "http://pay.test/"))
		require.NoError(t, err)
		defer resp.Body.Close()
		_, err = io.ReadAll(resp.Body)
		if got, want := classify.Error(err), (classify.Verdict{Reason: "reset"}); got != want {
			t.Errorf("Error(%v) = %+v, want %+v", err, got, want)
		}
	})
}
