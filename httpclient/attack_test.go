package httpclient_test

import (
	"context"
	"crypto/tls"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"testing"
	"testing/synctest"

	"github.com/reintento/reintento/retry"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// ownConn is a connection of a kind that crypto/tls does not know.
type ownConn struct{ net.Conn }

// A base that is not net/http's, such as one for HTTP/3, fires some hooks and
// not others. That it does not say that it wrote anything is no proof.
func TestHooksOfAnOwnBaseProveNothing(t *testing.T) {
	for name, conn := range map[string]net.Conn{"own": ownConn{}, "none": nil} {
		synctest.Test(t, func(t *testing.T) {
			sent := 0
			base := roundTrip(func(req *http.Request) (*http.Response, error) {
				trace := httptrace.ContextClientTrace(req.Context())
				trace.GetConn("host.example:443")
				trace.GotConn(httptrace.GotConnInfo{Conn: conn})
				_, _ = io.Copy(io.Discard, req.Body)
				sent++
				return nil, io.EOF
			})
			_, err := overBase(t, retry.Policy{}, base).RoundTrip(call(t, t.Context(), "POST", "https://host.example", "x"))
			assert.ErrorIs(t, err, retry.ErrOutcomeUnknown, "POST over a base whose connection is %s", name)
			assert.Equal(t, 1, sent, "requests over a base whose connection is %s", name)
		})
	}
}

// A base may have no connection to show, and fire its hooks as often as it likes.
func TestHooksWithoutAConnection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		base := roundTrip(func(req *http.Request) (*http.Response, error) {
			trace := httptrace.ContextClientTrace(req.Context())
			for range 4 {
				trace.GetConn("host.example:443")
				trace.GotConn(httptrace.GotConnInfo{})
				trace.WroteHeaders()
			}
			return nil, io.EOF
		})
		_, err := overBase(t, retry.Policy{}, base).RoundTrip(call(t, t.Context(), "GET", "https://host.example", ""))
		assert.ErrorIs(t, err, retry.ErrAttempts)
	})
}

// Hooks can fire after RoundTrip returned: what they tell then is not about the
// response that has been handed over, and does not end it.
func TestHooksAfterTheResponse(t *testing.T) {
	for _, method := range []string{"GET", "POST"} {
		synctest.Test(t, func(t *testing.T) {
			var late *httptrace.ClientTrace
			base := roundTrip(func(req *http.Request) (*http.Response, error) {
				late = httptrace.ContextClientTrace(req.Context())
				here, there := io.Pipe()
				context.AfterFunc(req.Context(), func() { there.CloseWithError(context.Cause(req.Context())) })
				go func() {
					_, _ = io.WriteString(there, "answer")
					there.Close()
				}()
				resp := givenAnswer(req, 200, nil, "")
				resp.Body = here
				return resp, nil
			})
			resp, err := overBase(t, retry.Policy{}, base).RoundTrip(call(t, t.Context(), method, "http://host.example", ""))
			require.NoError(t, err)
			for range 3 {
				late.GotConn(httptrace.GotConnInfo{Conn: ownConn{}})
				late.WroteHeaders()
			}
			synctest.Wait()
			assert.Equal(t, "answer", finish(t, resp), method)
		})
	}
}

// A base that says of each failure that a kept connection was found closed does
// not keep the layer busy for ever.
func TestABaseWhoseConnectionsAreAllStale(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tries := 0
		base := roundTrip(func(req *http.Request) (*http.Response, error) {
			if tries++; tries > 1e5 {
				panic("too many")
			}
			here, there := net.Pipe()
			defer here.Close()
			defer there.Close()
			trace := httptrace.ContextClientTrace(req.Context())
			trace.GetConn("host.example:443")
			trace.GotConn(httptrace.GotConnInfo{Conn: tls.Client(here, &tls.Config{}), Reused: true})
			return nil, io.EOF
		})
		_, err := overBase(t, retry.Policy{}, base).RoundTrip(call(t, t.Context(), "GET", "https://host.example", ""))
		assert.ErrorIs(t, err, retry.ErrAttempts)
	})
}
