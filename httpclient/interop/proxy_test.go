package interop_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coder/websocket"
	"github.com/reintento/reintento/retry"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// reverseProxy passes on to target through our transport.
func reverseProxy(t *testing.T, target string) *httptest.Server {
	t.Helper()
	u, err := url.Parse(target)
	require.NoError(t, err)
	proxy := httptest.NewServer(&httputil.ReverseProxy{
		Rewrite:   func(r *httputil.ProxyRequest) { r.SetURL(u) },
		Transport: over(t, quick(), connections(t)),
	})
	t.Cleanup(proxy.Close)
	return proxy
}

func TestReverseProxyHidesAFailureOfItsTarget(t *testing.T) {
	t.Parallel()
	s := serve(t, text("here"), answer(503), cut)
	resp, err := plain(t).Get(reverseProxy(t, s.URL).URL)
	assert.Equal(t, "here", read(t, resp, err), "body through the proxy")
	assert.Len(t, s.requests(), 3, "requests seen by the target")
}

func TestReverseProxyPassesOnTheLastAnswer(t *testing.T) {
	t.Parallel()
	s := serve(t, text("here"), always(answer(503, "X-Reason", "drained"), 5)...)
	resp, err := plain(t).Get(reverseProxy(t, s.URL).URL)
	read(t, resp, err)
	assert.Equal(t, http.StatusServiceUnavailable, resp.StatusCode, "status through the proxy")
	assert.Equal(t, "drained", resp.Header.Get("X-Reason"), "header through the proxy")
	assert.Len(t, s.requests(), 3, "requests seen by the target")
}

// The body of a request that comes in can be read once. What fits the buffer is
// sent again, and the key of the one who asked is the key of all attempts.
func TestReverseProxyRepeatsAWriteUnderTheKeyOfItsClient(t *testing.T) {
	t.Parallel()
	var effects atomic.Int32
	done := make(map[string]bool) // requests under one key come one after the other
	s := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		if key := r.Header.Get("Idempotency-Key"); !done[key] {
			done[key] = true
			effects.Add(1)
		}
		w.Write(body)
	}), lose)
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, reverseProxy(t, s.URL).URL, strings.NewReader("a charge"))
	require.NoError(t, err)
	req.Header.Set("Idempotency-Key", "k1")
	resp, err := plain(t).Do(req)
	assert.Equal(t, "a charge", read(t, resp, err), "body through the proxy")
	assert.Len(t, s.requests(), 2, "requests seen by the target")
	assert.Equal(t, []string{"k1"}, s.keys(), "keys seen by the target")
	assert.EqualValues(t, 1, effects.Load(), "effects")
}

func TestReverseProxyAnswers502ToALostWriteWithoutKey(t *testing.T) {
	t.Parallel()
	var effects atomic.Int32
	s := serve(t, http.HandlerFunc(func(http.ResponseWriter, *http.Request) { effects.Add(1) }), lose)
	resp, err := plain(t).Post(reverseProxy(t, s.URL).URL, "text/plain", strings.NewReader("a charge"))
	read(t, resp, err)
	assert.Equal(t, http.StatusBadGateway, resp.StatusCode, "status through the proxy")
	assert.EqualValues(t, 1, effects.Load(), "effects")
}

// plain is a client that repeats nothing but what net/http repeats.
func plain(t *testing.T) *http.Client {
	t.Helper()
	return &http.Client{Transport: connections(t)}
}

// echo speaks WebSocket and sends back what comes.
func echo(w http.ResponseWriter, r *http.Request) {
	c, err := websocket.Accept(w, r, nil)
	if err != nil {
		return
	}
	defer c.CloseNow()
	for {
		kind, message, err := c.Read(r.Context())
		if err != nil || c.Write(r.Context(), kind, message) != nil {
			return
		}
	}
}

// converse sends messages and expects each of them back.
func converse(t *testing.T, c *websocket.Conn, messages ...string) {
	t.Helper()
	for _, m := range messages {
		require.NoError(t, c.Write(t.Context(), websocket.MessageText, []byte(m)), "writing %.20q", m)
		_, got, err := c.Read(t.Context())
		require.NoError(t, err, "reading the echo of %.20q", m)
		require.Equal(t, m, string(got), "echo")
	}
}

func TestWebSocketIsOpenedByARepeatedHandshake(t *testing.T) {
	t.Parallel()
	s := serve(t, http.HandlerFunc(echo), answer(503), cut)
	c, resp, err := websocket.Dial(t.Context(), s.URL, &websocket.DialOptions{HTTPClient: client(t, quick())})
	require.NoError(t, err, "Dial through a 503 and a broken connection")
	assert.Equal(t, http.StatusSwitchingProtocols, resp.StatusCode, "status")
	converse(t, c, "one", strings.Repeat("two ", 5_000), "three")
	require.NoError(t, c.Close(websocket.StatusNormalClosure, ""), "closing the WebSocket")
	assert.Len(t, s.requests(), 3, "handshakes seen by the server")
}

// The time of an attempt ends with the response's head, that of the whole when
// the connection is handed over: a conversation may take longer than both.
func TestWebSocketLivesLongerThanTheDeadlineOfItsHandshake(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		base := inMemory(t, http.HandlerFunc(echo))
		c, _, err := websocket.Dial(t.Context(), "http://example.test/", &websocket.DialOptions{
			HTTPClient: &http.Client{Transport: over(t, retry.Policy{}, base)},
		})
		require.NoError(t, err, "Dial")
		converse(t, c, "before")
		time.Sleep(time.Hour)
		converse(t, c, "after an hour")
		require.NoError(t, c.Close(websocket.StatusNormalClosure, ""), "closing the WebSocket")
	})
}

func TestWebSocketPassesAReverseProxy(t *testing.T) {
	t.Parallel()
	s := serve(t, http.HandlerFunc(echo), answer(503))
	proxy := reverseProxy(t, s.URL)
	c, _, err := websocket.Dial(t.Context(), proxy.URL, &websocket.DialOptions{HTTPClient: plain(t)})
	require.NoError(t, err, "Dial through a proxy whose target answers 503 at first")
	converse(t, c, "one", strings.Repeat("two ", 5_000))
	require.NoError(t, c.Close(websocket.StatusNormalClosure, ""), "closing the WebSocket")
	assert.Len(t, s.requests(), 2, "handshakes seen by the target")
}

func TestWebSocketHandshakeThatIsRefusedIsTheCallersAnswer(t *testing.T) {
	t.Parallel()
	s := serve(t, http.HandlerFunc(echo), always(answer(503), 5)...)
	_, resp, err := websocket.Dial(t.Context(), s.URL, &websocket.DialOptions{HTTPClient: client(t, quick())})
	require.Error(t, err, "Dial to a server that answers 503")
	require.NotNil(t, resp, "response beside the error %v", err)
	assert.Equal(t, http.StatusServiceUnavailable, resp.StatusCode, "status")
	assert.Len(t, s.requests(), 3, "handshakes seen by the server")
}
