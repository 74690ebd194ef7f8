package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"go.opentelemetry.io/contrib/instrumentation/net/http/otelhttp"
	promexporter "go.opentelemetry.io/otel/exporters/prometheus"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"

	"github.com/reintento/reintento/httpclient"
	"github.com/reintento/reintento/retry"
	"github.com/reintento/reintento/retry/otelretry"
)

// telemetry is what a program sets up once.
type telemetry struct {
	tracers *sdktrace.TracerProvider
	meters  *sdkmetric.MeterProvider
	scrape  http.Handler // what Prometheus asks
	observe retry.Observer
}

func newTelemetry(spans sdktrace.TracerProviderOption) (*telemetry, error) {
	registry := prometheus.NewRegistry()
	exporter, err := promexporter.New(promexporter.WithRegisterer(registry), promexporter.WithoutScopeInfo())
	if err != nil {
		return nil, err
	}
	t := &telemetry{
		tracers: sdktrace.NewTracerProvider(spans),
		meters:  sdkmetric.NewMeterProvider(sdkmetric.WithReader(exporter)),
		scrape:  promhttp.HandlerFor(registry, promhttp.HandlerOpts{}),
	}
	t.observe, err = otelretry.New(&otelretry.Options{TracerProvider: t.tracers, MeterProvider: t.meters})
	return t, err
}

// client is an HTTP client whose calls are observed by the SDK, and whose
// requests are by otelhttp: as Base it is run in each attempt.
func (t *telemetry) client() (client *http.Client, closeIdle func(), err error) {
	layer, err := retry.NewLayer(retry.Organization{Default: retry.Policy{
		BaseDelay: time.Millisecond, MaxDelay: 10 * time.Millisecond,
	}}, &retry.Options{Observer: t.observe})
	network := http.DefaultTransport.(*http.Transport).Clone()
	return &http.Client{Transport: &httpclient.Transport{
		Layer: layer,
		Base:  otelhttp.NewTransport(network, otelhttp.WithTracerProvider(t.tracers), otelhttp.WithMeterProvider(t.meters)),
	}}, network.CloseIdleConnections, err
}

// call makes one request under a span of the program's own.
func (t *telemetry) call(ctx context.Context, client *http.Client, url string) error {
	ctx, span := t.tracers.Tracer("program").Start(ctx, "read order")
	defer span.End()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	resp, err := client.Do(req)
	if err != nil {
		return err
	}
	if err := httpclient.Check(resp); err != nil {
		return err
	}
	defer resp.Body.Close()
	_, err = io.Copy(io.Discard, resp.Body)
	return err
}

// turnAway returns a service that answers 503 to the first request for each
// n-th path, beginning with the first path.
func turnAway(n int) http.HandlerFunc {
	var mu sync.Mutex
	seen := map[string]bool{}
	return func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		if !seen[r.URL.Path] {
			seen[r.URL.Path] = true
			if len(seen)%n == 1 {
				w.WriteHeader(http.StatusServiceUnavailable)
				return
			}
		}
		io.WriteString(w, "fine")
	}
}

// spanLines keeps the spans of the first trace.
type spanLines []sdktrace.ReadOnlySpan

// ExportSpans takes spans over.
func (s *spanLines) ExportSpans(_ context.Context, spans []sdktrace.ReadOnlySpan) error {
	for _, span := range spans {
		if len(*s) == 0 || span.SpanContext().TraceID() == (*s)[0].SpanContext().TraceID() {
			*s = append(*s, span)
		}
	}
	return nil
}

// Shutdown has nothing to do.
func (s *spanLines) Shutdown(context.Context) error { return nil }

// firstTrace tells the spans of the first trace in the order in which they ended.
func (s *spanLines) firstTrace() []string {
	var lines []string
	for _, span := range *s {
		var attrs []string
		for _, kv := range span.Attributes() {
			switch kv.Key {
			case "http.response.status_code", "http.request.resend_count", "error.type":
				attrs = append(attrs, fmt.Sprintf("%s=%s", kv.Key, kv.Value.String()))
			}
		}
		lines = append(lines, strings.TrimSpace(fmt.Sprintf("%-8s  %-12s  %s", span.SpanKind(), span.Name(), strings.Join(attrs, " "))))
	}
	return lines
}
