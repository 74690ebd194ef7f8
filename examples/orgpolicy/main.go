// Orgpolicy sets one policy for everything that a program calls.
package main

import (
	"fmt"
	"log"
	"net/http"
	"net/http/httptest"
	"strings"

	"github.com/reintento/reintento/httpclient"
	"github.com/reintento/reintento/retry"
)

// The file that every program of the organization loads.
const policy = `{
  "default":      {"max_attempts": 3, "base_delay": "10ms"},
  "destinations": {
    "ledger": {"max_attempts": 2, "deadline": "2s", "attempt_timeout": "1s"},
    "*.partner.example": {"max_attempts": 1}
  }
}`

func main() {
	organization, err := retry.ReadOrganization(strings.NewReader(policy))
	if err != nil {
		log.Fatal(err) // names line, path, value and what is allowed
	}
	layer, err := retry.NewLayer(organization, nil)
	if err != nil {
		log.Fatal(err)
	}
	requests := 0
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		requests++
		w.WriteHeader(http.StatusServiceUnavailable)
	}))
	defer server.Close()

	client := &http.Client{Transport: &httpclient.Transport{
		Layer: layer,
		// One name for a service, wherever it runs.
		Destination: func(r *http.Request) string { return strings.Trim(r.URL.Path, "/") },
	}}
	resp, err := client.Get(server.URL) // the default policy
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(httpclient.Check(resp), "requests:", requests)

	requests = 0
	resp, err = client.Get(server.URL + "/ledger") // its own policy
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(httpclient.Check(resp), "requests:", requests)
	for _, s := range layer.Snapshot() {
		fmt.Printf("%s: breaker %v, budget %.1f\n", strings.Replace(s.Name, server.URL, "http://server", 1), s.Breaker, s.Budget)
	}
}
