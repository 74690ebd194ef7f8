// Roundtripper makes a payment through an http.Client that repeats safely: the
// first answer is lost after the server did the work, and the customer is still
// charged once.
package main

import (
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"

	"github.com/reintento/reintento/httpclient"
	"github.com/reintento/reintento/retry"
)

func main() {
	server := httptest.NewServer(bank())
	defer server.Close()

	client, err := httpclient.New(retry.Policy{
		Key: retry.KeyPolicy{Honored: true}, // this server acts once for each key
	}, nil)
	if err != nil {
		log.Fatal(err)
	}
	resp, err := client.Post(server.URL+"/payments", "application/json", strings.NewReader(`{"amount": 1200}`))
	if err != nil {
		log.Fatal(err) // says whether the payment may have been made
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		log.Fatal(err)
	}
	report := httpclient.ReportOf(resp)
	fmt.Printf("%s: %s after %d attempts, outcome: %v\n", resp.Status, body, len(report.Attempts), report.Outcome)
}

// bank charges once for each key, and loses its first answer.
func bank() http.Handler {
	var mu sync.Mutex
	charges := make(map[string]int)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		key := r.Header.Get("Idempotency-Key")
		charges[key]++
		if charges[key] == 1 {
			panic(http.ErrAbortHandler) // charged, and the connection breaks
		}
		w.Header().Set("Idempotent-Replayed", "true")
		fmt.Fprint(w, "charged 12.00 once")
	})
}
