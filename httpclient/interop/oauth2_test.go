package interop_test

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/reintento/reintento/classify"
	"github.com/reintento/reintento/httpclient"
	"github.com/reintento/reintento/retry"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/oauth2"
)

// tokens hands out t1, t2, t3 and so on.
type tokens struct {
	validFor time.Duration // 0: for ever

	mu     sync.Mutex
	issued int
}

func (s *tokens) Token() (*oauth2.Token, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.issued++
	token := &oauth2.Token{AccessToken: fmt.Sprintf("t%d", s.issued), TokenType: "Bearer"}
	if s.validFor > 0 {
		token.Expiry = time.Now().Add(s.validFor)
	}
	return token, nil
}

func (s *tokens) count() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.issued
}

// allow answers 401 to every token but one.
func allow(token string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		if r.Header.Get("Authorization") != "Bearer "+token {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		fmt.Fprintf(w, "%s %s", token, body)
	})
}

// B37: a new token was fetched after a 401, and the loop still sent the header
// that it had captured, so that it refreshed again and again. Credentials are
// read inside the attempt: a source that returns t1 then t2 makes two requests
// and one refresh.
func TestOAuth2TokenIsReadInsideEachAttempt(t *testing.T) {
	t.Parallel()
	s := serve(t, allow("t2"))
	source := &tokens{}
	p := quick()
	p.Statuses = map[int]classify.Class{http.StatusUnauthorized: classify.Retryable}
	c := &http.Client{Transport: over(t, p, &oauth2.Transport{Source: source, Base: connections(t)})}

	resp, err := c.Post(s.URL, "text/plain", strings.NewReader("a charge"))
	assert.Equal(t, "t2 a charge", read(t, resp, err), "answer to the second token")
	assert.Len(t, s.requests(), 2, "requests seen by the server")
	assert.Equal(t, 2, source.count(), "tokens asked for")
	assert.Len(t, s.keys(), 1, "keys over both attempts")
}

// B60: the refresh succeeded, the call was still unauthorised, and the repeats
// never ended or were not counted. Each is an attempt and counts.
func TestOAuth2RefreshesAreLimitedByTheAttempts(t *testing.T) {
	t.Parallel()
	for _, attempts := range []int{3, 1} {
		s := serve(t, allow("none"))
		source := &tokens{}
		p := quick()
		p.MaxAttempts = attempts
		p.Statuses = map[int]classify.Class{http.StatusUnauthorized: classify.Retryable}
		c := &http.Client{Transport: over(t, p, &oauth2.Transport{Source: source, Base: connections(t)})}

		resp, err := c.Post(s.URL, "text/plain", strings.NewReader("a charge"))
		read(t, resp, err)
		assert.Equal(t, http.StatusUnauthorized, resp.StatusCode, "status with MaxAttempts %d", attempts)
		assert.Len(t, s.requests(), attempts, "requests seen by the server with MaxAttempts %d", attempts)
		assert.Equal(t, attempts, source.count(), "tokens asked for with MaxAttempts %d", attempts)
	}
}

// renewing is the other way: it answers a 401 itself, with a new token and one
// more request. A body cannot be sent again below the retry layer, so that is
// for requests without one.
type renewing struct {
	source *tokens
	base   http.RoundTripper

	mu    sync.Mutex
	token *oauth2.Token
}

func (r *renewing) RoundTrip(req *http.Request) (*http.Response, error) {
	token, err := r.current(nil)
	if err != nil {
		return nil, err
	}
	resp, err := r.send(req, token)
	if err != nil || resp.StatusCode != http.StatusUnauthorized || req.Body != nil && req.Body != http.NoBody {
		return resp, err
	}
	io.Copy(io.Discard, io.LimitReader(resp.Body, 4<<10))
	resp.Body.Close()
	if token, err = r.current(token); err != nil {
		return nil, err
	}
	return r.send(req, token)
}

func (r *renewing) send(req *http.Request, token *oauth2.Token) (*http.Response, error) {
	return (&oauth2.Transport{Source: oauth2.StaticTokenSource(token), Base: r.base}).RoundTrip(req)
}

// current returns the token in use, a new one if that is the refused one.
func (r *renewing) current(refused *oauth2.Token) (*oauth2.Token, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.token == refused {
		token, err := r.source.Token()
		if err != nil {
			return nil, err
		}
		r.token = token
	}
	return r.token, nil
}

// The layer that repeats keeps its base from sending twice what may have
// arrived; a request that was answered has ended, and the next one is another.
func TestABaseMayAnswerA401WithOneMoreRequestInEachAttempt(t *testing.T) {
	t.Parallel()
	for _, protocol := range []string{"HTTP/1.1", "HTTP/2.0"} {
		for _, method := range []string{http.MethodGet, http.MethodDelete} {
			for _, attempts := range []int{3, 1} {
				t.Run(fmt.Sprintf("%s %s %d", protocol, method, attempts), func(t *testing.T) {
					t.Parallel()
					var spoken sync.Map
					s := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
						spoken.Store(r.Proto, true)
						allow("t2").ServeHTTP(w, r)
					}))
					base := connections(t)
					if protocol == "HTTP/2.0" {
						s.Server = httptest.NewUnstartedServer(s)
						s.EnableHTTP2 = true
						s.StartTLS()
						t.Cleanup(s.Close)
						base = s.Client().Transport.(*http.Transport)
					}
					p := quick()
					p.MaxAttempts = attempts
					source := &tokens{}
					c := &http.Client{Transport: over(t, p, &renewing{source: source, base: base})}

					req, err := http.NewRequestWithContext(t.Context(), method, s.URL, nil)
					require.NoError(t, err)
					resp, err := c.Do(req)
					assert.Equal(t, "t2 ", read(t, resp, err), "answer to the second token")
					assert.Len(t, s.requests(), 2, "requests seen by the server")
					assert.Equal(t, 2, source.count(), "tokens asked for")
					assert.Len(t, httpclient.ReportOf(resp).Attempts, 1, "attempts")
					_, ok := spoken.Load(protocol)
					assert.True(t, ok, "the server spoke %s", protocol)
				})
			}
		}
	}
}

// B60: at most one refresh for each attempt, and a 401 that stays is final: the
// number of requests does not grow with MaxAttempts.
func TestABaseThatRefreshesInVainIsNotAskedAgain(t *testing.T) {
	t.Parallel()
	for _, attempts := range []int{3, 1} {
		s := serve(t, allow("none"))
		p := quick()
		p.MaxAttempts = attempts
		source := &tokens{}
		c := &http.Client{Transport: over(t, p, &renewing{source: source, base: connections(t)})}

		resp, err := c.Get(s.URL)
		read(t, resp, err)
		assert.Equal(t, http.StatusUnauthorized, resp.StatusCode, "status with MaxAttempts %d", attempts)
		assert.Len(t, s.requests(), 2, "requests seen by the server with MaxAttempts %d", attempts)
		assert.Equal(t, 2, source.count(), "tokens asked for with MaxAttempts %d", attempts)
		assert.ErrorIs(t, httpclient.ReportOf(resp).Stop, retry.ErrPermanent, "why it stopped")
	}
}

// A token that runs out during a wait is not sent after it.
func TestOAuth2TokenThatExpiresDuringAWaitIsReplaced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var sent []string
		base := roundTrip(func(req *http.Request) (*http.Response, error) {
			sent = append(sent, req.Header.Get("Authorization"))
			if len(sent) == 1 {
				return respond(req, 503, "Retry-After", "3"), nil
			}
			return respond(req, 200), nil
		})
		source := oauth2.ReuseTokenSourceWithExpiry(nil, &tokens{validFor: 2 * time.Second}, time.Millisecond)
		c := &http.Client{Transport: over(t, quick(), &oauth2.Transport{Source: source, Base: base})}

		resp, err := c.Get("http://example.test/")
		read(t, resp, err)
		assert.Equal(t, []string{"Bearer t1", "Bearer t2"}, sent, "tokens sent")
	})
}

// B36: a request was signed once, and after a long wait the server rejected its
// time stamp; a header map that was used again kept the old date. A signer in
// Base signs every attempt anew on headers that no attempt has touched; only
// the idempotency key stays the same.
func TestASignerInBaseSignsEachAttempt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const secret = "a shared secret"
		sign := func(date, key string) string {
			mac := hmac.New(sha256.New, []byte(secret))
			io.WriteString(mac, date+"\n"+key)
			return hex.EncodeToString(mac.Sum(nil))
		}
		var dates, keys []string
		callee := roundTrip(func(req *http.Request) (*http.Response, error) {
			date, key := req.Header.Values("X-Date"), req.Header.Get("Idempotency-Key")
			dates, keys = append(dates, date...), append(keys, key)
			if len(dates) == 1 {
				return respond(req, 503, "Retry-After", "3"), nil
			}
			at, err := time.Parse(time.RFC3339Nano, date[0])
			if err != nil || len(date) != 1 || time.Since(at) > 2*time.Second || req.Header.Get("X-Signature") != sign(date[0], key) {
				return respond(req, http.StatusForbidden), nil
			}
			return respond(req, 200), nil
		})
		signer := roundTrip(func(req *http.Request) (*http.Response, error) {
			out := req.Clone(req.Context())
			date := time.Now().Format(time.RFC3339Nano)
			out.Header.Add("X-Date", date)
			out.Header.Add("X-Signature", sign(date, out.Header.Get("Idempotency-Key")))
			return callee(out)
		})
		c := &http.Client{Transport: over(t, quick(), signer)}

		resp, err := c.Post("http://example.test/", "text/plain", strings.NewReader("a charge"))
		read(t, resp, err)
		assert.Equal(t, 200, resp.StatusCode, "status after a wait longer than a signature lives")
		require.Len(t, dates, 2, "dates sent: one in each attempt")
		assert.NotEqual(t, dates[0], dates[1], "dates of the attempts")
		require.Len(t, keys, 2, "requests")
		assert.NotEmpty(t, keys[0], "key of the first attempt")
		assert.Equal(t, keys[0], keys[1], "keys of the attempts")
	})
}

// A source that has no token at present is a failure before sending: it is
// repeated where it says that this helps, and nothing reaches the server.
func TestOAuth2ErrorOfTheSourceSaysWhatItMeans(t *testing.T) {
	t.Parallel()
	s := serve(t, allow("t1"))
	asked := 0
	source := tokenFunc(func() (*oauth2.Token, error) {
		if asked++; asked == 1 {
			return nil, classify.As(classify.Retryable, context.DeadlineExceeded)
		}
		return &oauth2.Token{AccessToken: "t1"}, nil
	})
	c := &http.Client{Transport: over(t, quick(), &oauth2.Transport{Source: source, Base: connections(t)})}

	resp, err := c.Post(s.URL, "text/plain", strings.NewReader("a charge"))
	assert.Equal(t, "t1 a charge", read(t, resp, err), "answer after the source has recovered")
	assert.Len(t, s.requests(), 1, "requests seen by the server")
	assert.Equal(t, 2, asked, "times that the source was asked")
}

type tokenFunc func() (*oauth2.Token, error)

func (f tokenFunc) Token() (*oauth2.Token, error) { return f() }

type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(req *http.Request) (*http.Response, error) { return f(req) }

// respond makes an empty response with headers in pairs.
func respond(req *http.Request, code int, header ...string) *http.Response {
	if req.Body != nil {
		io.Copy(io.Discard, req.Body)
		req.Body.Close()
	}
	rec := httptest.NewRecorder()
	answer(code, header...)(rec, req, nil)
	resp := rec.Result()
	resp.Request = req
	return resp
}
