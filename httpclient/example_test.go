package httpclient_test

import (
	"errors"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"time"

	"github.com/reintento/reintento/httpclient"
	"github.com/reintento/reintento/retry"
)

// unsteady is a server whose first answers fail with a status, and hold a wait
// that the caller should keep.
func unsteady(failures int, status int) *httptest.Server {
	n := 0
	return httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if n++; n <= failures {
			w.Header().Set("Retry-After-Ms", "1")
			w.WriteHeader(status)
			return
		}
		fmt.Fprintf(w, "%s: done at request %d", r.Method, n)
	}))
}

// A client of this package is an http.Client like any other. Its failed requests
// are repeated where that is safe.
func Example() {
	server := unsteady(2, http.StatusServiceUnavailable)
	defer server.Close()

	client, err := httpclient.New(retry.Policy{PrivatePushback: true, ThrottleDelay: time.Millisecond}, nil)
	if err != nil {
		log.Fatal(err)
	}
	resp, err := client.Post(server.URL, "text/plain", strings.NewReader("12 EUR"))
	if err != nil {
		log.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	fmt.Println(resp.StatusCode, string(body), err)
	// Output:
	// 200 POST: done at request 3 <nil>
}

// A server that has charged the card may lose its answer. If it is known to
// honour keys, the request goes out again under the same one.
func ExampleNew() {
	var mu sync.Mutex
	charged := map[string]string{} // by key
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		key := r.Header.Get("Idempotency-Key")
		if receipt, ok := charged[key]; ok {
			fmt.Fprint(w, receipt)
			return
		}
		charged[key] = fmt.Sprintf("receipt %d", len(charged)+1)
		panic(http.ErrAbortHandler) // the connection breaks before the answer
	}))
	defer server.Close()

	client, err := httpclient.New(retry.Policy{Key: retry.KeyPolicy{Honored: true}}, nil)
	if err != nil {
		log.Fatal(err)
	}
	resp, err := client.Post(server.URL+"/payments", "text/plain", strings.NewReader("12 EUR"))
	if err != nil {
		log.Fatal(err)
	}
	defer resp.Body.Close()
	body, _ := io.ReadAll(resp.Body)
	fmt.Printf("%s, charged %d time\n", body, len(charged))

	// Without that knowledge nothing is sent again, and the error says so.
	client, err = httpclient.New(retry.Policy{}, nil)
	if err != nil {
		log.Fatal(err)
	}
	_, err = client.Post(server.URL+"/payments", "text/plain", strings.NewReader("12 EUR"))
	fmt.Println("may have been charged:", errors.Is(err, retry.ErrOutcomeUnknown))
	// Output:
	// receipt 1, charged 1 time
	// may have been charged: true
}

// One layer holds the policies of all callees. Here one partner is not to be
// asked more than once.
func ExampleForLayer() {
	server := unsteady(1, http.StatusBadGateway)
	defer server.Close()
	host := strings.TrimPrefix(server.URL, "http://")

	layer, err := retry.NewLayer(retry.Organization{
		Default:      retry.Policy{MaxAttempts: 3},
		Destinations: map[string]retry.Policy{host: {MaxAttempts: 1}},
	}, nil)
	if err != nil {
		log.Fatal(err)
	}
	resp, err := httpclient.ForLayer(layer).Get(server.URL)
	if err != nil {
		log.Fatal(err)
	}
	defer resp.Body.Close()
	fmt.Println(resp.Status)
	fmt.Println(httpclient.ReportOf(resp).Stop)
	// Output:
	// 502 Bad Gateway
	// attempts used up
}

// A status is no error to net/http, and none here. Check makes one of it, which
// tells a write that may have been applied from one that was not.
func ExampleCheck() {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/typo" {
			http.NotFound(w, r)
			return
		}
		http.Error(w, "database gone", http.StatusInternalServerError)
	}))
	defer server.Close()

	client, err := httpclient.New(retry.Policy{}, nil)
	if err != nil {
		log.Fatal(err)
	}
	for _, path := range []string{"/typo", "/payments"} {
		resp, err := client.Post(server.URL+path, "text/plain", strings.NewReader("12 EUR"))
		if err != nil {
			log.Fatal(err)
		}
		err = httpclient.Check(resp) // reads and closes the body of a failure
		fmt.Println(err)
		if failure, ok := errors.AsType[*httpclient.StatusError](err); ok {
			fmt.Printf("  %q, outcome unknown: %v\n", failure.Body, errors.Is(err, retry.ErrOutcomeUnknown))
		}
	}
	// Output:
	// httpclient: 404 Not Found
	//   "404 page not found\n", outcome unknown: false
	// httpclient: 500 Internal Server Error; the request may have been applied: find out before repeating it
	//   "database gone\n", outcome unknown: true
}

// ReportOf tells how a response came about.
func ExampleReportOf() {
	server := unsteady(2, http.StatusInternalServerError)
	defer server.Close()

	client, err := httpclient.New(retry.Policy{BaseDelay: time.Millisecond, Jitter: retry.NoJitter}, nil)
	if err != nil {
		log.Fatal(err)
	}
	resp, err := client.Get(server.URL)
	if err != nil {
		log.Fatal(err)
	}
	defer resp.Body.Close()
	report := httpclient.ReportOf(resp)
	for _, a := range report.Attempts {
		fmt.Printf("attempt %d: %d, waited %v\n", a.Number, a.Status, a.Wait > 0)
	}
	fmt.Println("outcome:", report.Outcome, "re-sends:", report.Resends)
	// Output:
	// attempt 1: 500, waited true
	// attempt 2: 500, waited true
	// attempt 3: 200, waited false
	// outcome: applied re-sends: 0
}

// tokens is a source of access tokens, each valid for one request.
type tokens struct {
	base http.RoundTripper
	n    int
}

func (t *tokens) RoundTrip(req *http.Request) (*http.Response, error) {
	t.n++
	req = req.Clone(req.Context())
	req.Header.Set("Authorization", fmt.Sprintf("Bearer token-%d", t.n))
	return t.base.RoundTrip(req)
}

// What must be fresh in each attempt, such as a token or a signature, is done by
// Base. What must stay the same, such as the key, is not its business.
func ExampleTransport() {
	var keys []string
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Println(r.Method, r.Header.Get("Authorization"))
		keys = append(keys, r.Header.Get("Idempotency-Key"))
		if len(keys) == 1 {
			w.WriteHeader(http.StatusInternalServerError)
		}
	}))
	defer server.Close()

	layer, err := retry.NewLayer(retry.Organization{Default: retry.Policy{Key: retry.KeyPolicy{Honored: true}}}, nil)
	if err != nil {
		log.Fatal(err)
	}
	client := &http.Client{Transport: &httpclient.Transport{
		Layer: layer,
		Base:  &tokens{base: http.DefaultTransport},
	}}
	resp, err := client.Post(server.URL, "text/plain", strings.NewReader("12 EUR"))
	if err != nil {
		log.Fatal(err)
	}
	defer resp.Body.Close()
	fmt.Println("one key:", keys[0] != "" && keys[0] == keys[1])
	// Output:
	// POST Bearer token-1
	// POST Bearer token-2
	// one key: true
}
