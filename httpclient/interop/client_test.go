package interop_test

import (
	"context"
	"io"
	"net/http"
	"net/http/cookiejar"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/reintento/reintento/httpclient"
	"github.com/reintento/reintento/retry"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestClientFollowsRedirectsAndEachHopIsRepeatedByOneLayer(t *testing.T) {
	t.Parallel()
	mux := http.NewServeMux()
	mux.Handle("/old", http.RedirectHandler("/new", http.StatusFound))
	mux.Handle("/new", text("here"))
	s := serve(t, mux, answer(503), pass, cut, pass)

	resp, err := client(t, quick()).Get(s.URL + "/old")
	assert.Equal(t, "here", read(t, resp, err), "body after a redirect")
	assert.Equal(t, "/new", resp.Request.URL.Path, "path of the last hop")
	var paths []string
	for _, r := range s.requests() {
		paths = append(paths, r.path)
	}
	assert.Equal(t, []string{"/old", "/old", "/new", "/new"}, paths, "requests seen by the server")
}

func TestClientSendsTheBodyAndTheKeyOfAWriteOnAlongA307(t *testing.T) {
	t.Parallel()
	var effects atomic.Int32
	mux := http.NewServeMux()
	mux.Handle("/old", http.RedirectHandler("/new", http.StatusTemporaryRedirect))
	mux.HandleFunc("/new", func(w http.ResponseWriter, r *http.Request) {
		b, _ := io.ReadAll(r.Body)
		effects.Add(1)
		io.WriteString(w, r.Method+" "+string(b))
	})
	s := serve(t, mux, answer(503), pass, answer(503), pass)
	p := quick()
	p.Key.Honored = true

	resp, err := client(t, p).Post(s.URL+"/old", "text/plain", strings.NewReader("a charge"))
	assert.Equal(t, "POST a charge", read(t, resp, err), "body after a 307")
	assert.Len(t, s.requests(), 4, "requests seen by the server")
	assert.Len(t, s.keys(), 1, "keys over two hops and four attempts")
	assert.EqualValues(t, 1, effects.Load(), "effects")
}

func TestClientKeepsCookiesOfTheAnswerThatItReturns(t *testing.T) {
	t.Parallel()
	mux := http.NewServeMux()
	mux.HandleFunc("/login", func(w http.ResponseWriter, _ *http.Request) {
		http.SetCookie(w, &http.Cookie{Name: "session", Value: "s1", Path: "/"})
	})
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		c, err := r.Cookie("session")
		if err != nil {
			w.WriteHeader(http.StatusForbidden)
			return
		}
		io.WriteString(w, c.Value)
	})
	s := serve(t, mux, answer(503, "Set-Cookie", "session=of-a-failure; Path=/"), pass, cut, pass)
	c := client(t, quick())
	jar, err := cookiejar.New(nil)
	require.NoError(t, err, "cookiejar.New")
	c.Jar = jar

	resp, err := c.Get(s.URL + "/login")
	read(t, resp, err)
	resp, err = c.Get(s.URL + "/account")
	assert.Equal(t, "s1", read(t, resp, err), "cookie as the server got it")
	seen := s.requests()
	require.Len(t, seen, 4, "requests seen by the server")
	assert.Equal(t, []string{"session=s1"}, seen[2].header["Cookie"], "cookies of the attempt that was cut")
	assert.Equal(t, []string{"session=s1"}, seen[3].header["Cookie"], "cookies of its repeat: once, not twice")
}

func TestClientTimeoutBoundsAllAttemptsAndKeepsWhatIsKnown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var effects atomic.Int32
		c := &http.Client{Transport: over(t, retry.Policy{}, inMemory(t, http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			effects.Add(1)
			io.Copy(io.Discard, r.Body) // so that the server sees the client go
			<-r.Context().Done()
		}))), Timeout: 3 * time.Second}

		start := time.Now()
		_, err := c.Post("http://example.test/", "text/plain", strings.NewReader("a charge"))
		assert.ErrorIs(t, err, retry.ErrOutcomeUnknown, "a POST without an answer, under Client.Timeout")
		assert.ErrorIs(t, err, context.DeadlineExceeded, "a POST without an answer, under Client.Timeout")
		assert.LessOrEqual(t, time.Since(start), c.Timeout, "time of a call with a Timeout")
		assert.EqualValues(t, 1, effects.Load(), "effects of a POST without key")
	})
}

// A wait that does not fit returns the answer at hand, not a timeout.
func TestClientTimeoutThatAHintDoesNotFitReturnsTheAnswer(t *testing.T) {
	t.Parallel()
	s := serve(t, text("here"), answer(429, "Retry-After", "30"))
	c := client(t, quick())
	c.Timeout = 25 * time.Second
	resp, err := c.Get(s.URL)
	read(t, resp, err)
	assert.Equal(t, http.StatusTooManyRequests, resp.StatusCode, "status")
	assert.ErrorIs(t, httpclient.ReportOf(resp).Stop, retry.ErrDeadline, "why it stopped")
	assert.Len(t, s.requests(), 1, "requests seen by the server")
}

func TestClientTimeoutEndsTheBodyOfAnAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		requests := 0
		c := &http.Client{Transport: over(t, retry.Policy{}, inMemory(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			requests++
			io.WriteString(w, "start")
			http.NewResponseController(w).Flush()
			<-r.Context().Done()
		}))), Timeout: 3 * time.Second}

		start := time.Now()
		resp, err := c.Get("http://example.test/")
		require.NoError(t, err, "a GET whose body never ends")
		b, err := io.ReadAll(resp.Body)
		assert.Equal(t, "start", string(b), "what came of the body")
		var timeout interface{ Timeout() bool }
		require.ErrorAs(t, err, &timeout, "reading a body past Client.Timeout")
		assert.True(t, timeout.Timeout(), "Timeout() of %v", err)
		assert.Equal(t, c.Timeout, time.Since(start), "time until the body ended")
		require.NoError(t, resp.Body.Close())
		assert.Equal(t, 1, requests, "requests seen by the server")
	})
}
