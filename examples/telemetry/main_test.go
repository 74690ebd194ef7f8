package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"
)

// scraped makes calls to a service that turns every fourth path away once, and returns what Prometheus gets, the
// service's port replaced by PORT, and the spans.
func scraped(t *testing.T, calls int) (lines []string, spans []sdktrace.ReadOnlySpan) {
	t.Helper()
	recorder := tracetest.NewSpanRecorder()
	tel, err := newTelemetry(sdktrace.WithSpanProcessor(recorder))
	require.NoError(t, err, "newTelemetry")
	service, stop, err := serve("127.0.0.1:0", turnAway(4))
	require.NoError(t, err, "serve")
	defer stop()
	metrics, stop, err := serve("127.0.0.1:0", tel.scrape)
	require.NoError(t, err, "serve")
	defer stop()
	client, closeIdle, err := tel.client()
	require.NoError(t, err, "client")
	defer closeIdle()
	for n := range calls {
		require.NoError(t, tel.call(t.Context(), client, fmt.Sprintf("%s/%d", service, n)), "call %d", n)
	}

	resp, err := http.Get(metrics + "/metrics")
	require.NoError(t, err, "scrape")
	defer resp.Body.Close()
	require.Equal(t, http.StatusOK, resp.StatusCode, "status of the scrape")
	require.Contains(t, resp.Header.Get("Content-Type"), "text/plain; version=0.0.4", "content type of the scrape")
	body, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	port := service[strings.LastIndex(service, ":")+1:]
	return strings.Split(strings.ReplaceAll(string(body), port, "PORT"), "\n"), recorder.Ended()
}

func TestPrometheusScrapesWhatTheSDKTells(t *testing.T) {
	lines, _ := scraped(t, 8) // two of them are turned away once
	const about = `reintento_destination="http://127.0.0.1:PORT",reintento_operation="GET",`
	const server = `server_address="127.0.0.1",server_port="PORT"}`
	for _, want := range []string{
		`# TYPE reintento_call_duration_seconds histogram`,
		`reintento_call_duration_seconds_count{` + about + `reintento_outcome="applied",` + server + ` 8`,
		`# TYPE reintento_attempt_duration_seconds histogram`,
		`reintento_attempt_duration_seconds_count{` + about + server + ` 8`,
		`reintento_attempt_duration_seconds_count{error_type="503",` + about + server + ` 2`,
		`reintento_attempt_duration_seconds_bucket{error_type="503",` + about + server[:len(server)-1] + `,le="+Inf"} 2`,
		`# TYPE reintento_retries_total counter`,
		`reintento_retries_total{error_type="503",` + about + server + ` 2`,
		`reintento_retry_wait_seconds_count{` + about + server + ` 2`,
	} {
		require.Contains(t, lines, want, "lines of the scrape")
	}
}

// What otelhttp counts is not counted again: its client spans and its metric are the only ones of their kind, one for
// each attempt, and every span has the caller's as parent.
func TestNothingIsToldTwiceBesideOtelhttp(t *testing.T) {
	lines, spans := scraped(t, 1) // turned away once
	counts := regexp.MustCompile(`^http_client_request_duration_seconds_count\{.*http_response_status_code="(\d+)".*\} (\d+)$`)
	requests := map[string]string{}
	for _, line := range lines {
		if m := counts.FindStringSubmatch(line); m != nil {
			requests[m[1]] = m[2]
		}
	}
	require.Equal(t, map[string]string{"503": "1", "200": "1"}, requests, "requests by status in http_client_request_duration_seconds")

	require.Len(t, spans, 5, "spans: two attempts, two requests, the caller")
	caller := spans[4]
	kinds := map[trace.SpanKind]map[string]int{}
	for i, s := range spans[:4] {
		require.Equal(t, caller.SpanContext().SpanID(), s.Parent().SpanID(), "parent of span %d, %s", i, s.Name())
		if kinds[s.SpanKind()] == nil {
			kinds[s.SpanKind()] = map[string]int{}
		}
		kinds[s.SpanKind()][s.Name()]++
	}
	require.Equal(t, map[trace.SpanKind]map[string]int{
		trace.SpanKindInternal: {"attempt GET": 2},
		trace.SpanKindClient:   {"HTTP GET": 2},
	}, kinds, "spans by kind and name")
	for _, attempt := range spans[:4] {
		for _, kv := range attempt.Attributes() {
			if attempt.SpanKind() == trace.SpanKindInternal {
				require.NotContains(t, []string{"http.request.method", "url.full", "network.protocol.version"}, string(kv.Key), "attributes of an attempt that are the request's")
			}
		}
	}
}

func TestProgramPrintsSpansAndMetrics(t *testing.T) {
	var stdout, stderr bytes.Buffer
	require.Zero(t, run(t.Context(), []string{"-calls", "5"}, &stdout, &stderr), "status of run: %s", &stderr)
	for _, want := range []string{
		"5 calls, 0 failed; the spans of the first:\n",
		"  internal  attempt GET   http.response.status_code=503 error.type=503\n",
		"  internal  attempt GET   http.response.status_code=200 http.request.resend_count=1\n",
		"  client    HTTP GET      http.response.status_code=200\n",
		`reintento_outcome="applied"`,
	} {
		require.Contains(t, stdout.String(), want)
	}
}

func TestProgramStaysUntilItIsInterrupted(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	r, w := io.Pipe()
	status := make(chan int)
	go func() {
		defer w.Close()
		status <- run(ctx, []string{"-calls", "1", "-stay"}, w, io.Discard)
	}()
	var out bytes.Buffer
	url := regexp.MustCompile(`from (http://\S+):\n[^\n]+\n`)
	for part := make([]byte, 4096); !url.Match(out.Bytes()); {
		n, err := r.Read(part)
		require.NoError(t, err, "output ended: %s", &out)
		out.Write(part[:n])
	}
	go io.Copy(io.Discard, r)
	resp, err := http.Get(url.FindStringSubmatch(out.String())[1])
	require.NoError(t, err, "scrape of a program that stays")
	resp.Body.Close()
	require.Equal(t, http.StatusOK, resp.StatusCode, "status of the scrape")
	cancel()
	require.Zero(t, <-status, "status after the interrupt")
}

func TestBadFlagsAreNamed(t *testing.T) {
	for _, args := range [][]string{{"-calls", "0"}, {"-calls", "100001"}, {"now"}, {"-unknown"}} {
		var stdout, stderr bytes.Buffer
		require.Equal(t, 2, run(t.Context(), args, &stdout, &stderr), "status of run(%q)", args)
		require.NotEmpty(t, stderr.String(), "what run(%q) says", args)
	}
	var stdout, stderr bytes.Buffer
	require.Equal(t, 1, run(t.Context(), []string{"-addr", "127.0.0.1:no"}, &stdout, &stderr), "status with an address that cannot be")
	require.Contains(t, stderr.String(), "telemetry: listen tcp", "what it says")
}
