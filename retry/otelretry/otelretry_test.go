package otelretry_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/metric/noop"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"

	"github.com/reintento/reintento/breaker"
	"github.com/reintento/reintento/classify"
	"github.com/reintento/reintento/httpclient"
	"github.com/reintento/reintento/retry"
	"github.com/reintento/reintento/retry/otelretry"
)

// telemetry is an observer and what it has told.
type telemetry struct {
	t       *testing.T
	spans   *tracetest.SpanRecorder
	tracer  trace.Tracer
	reader  *sdkmetric.ManualReader
	observe retry.Observer
}

func observed(t *testing.T, maxNames int) *telemetry {
	t.Helper()
	spans, reader := tracetest.NewSpanRecorder(), sdkmetric.NewManualReader()
	tracers := sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(spans))
	observe, err := otelretry.New(&otelretry.Options{
		TracerProvider: tracers,
		MeterProvider:  sdkmetric.NewMeterProvider(sdkmetric.WithReader(reader)),
		MaxNames:       maxNames,
	})
	require.NoError(t, err, "otelretry.New")
	return &telemetry{t: t, spans: spans, tracer: tracers.Tracer("caller"), reader: reader, observe: observe}
}

func (o *telemetry) options() *retry.Options { return &retry.Options{Observer: o.observe} }

// caller returns a context with a span of its own, and what ends it.
func (o *telemetry) caller() (context.Context, func()) {
	ctx, span := o.tracer.Start(o.t.Context(), "caller")
	return ctx, func() { span.End() }
}

// metrics returns all data points as text, with what they count.
func (o *telemetry) metrics() map[string]float64 {
	o.t.Helper()
	var all metricdata.ResourceMetrics
	require.NoError(o.t, o.reader.Collect(o.t.Context(), &all), "Collect")
	points := map[string]float64{}
	for _, scope := range all.ScopeMetrics {
		for _, m := range scope.Metrics {
			name := func(set attribute.Set) string {
				return fmt.Sprintf("%s[%s]{%s}", m.Name, m.Unit, set.Encoded(attribute.DefaultEncoder()))
			}
			switch data := m.Data.(type) {
			case metricdata.Sum[int64]:
				for _, p := range data.DataPoints {
					points[name(p.Attributes)] = float64(p.Value)
				}
			case metricdata.Histogram[float64]:
				for _, p := range data.DataPoints {
					points[name(p.Attributes)] = float64(p.Count)
					points["sum of "+name(p.Attributes)] = p.Sum
				}
			default:
				o.t.Fatalf("metric %s has data of type %T", m.Name, data)
			}
		}
	}
	return points
}

// attributes returns those of a span as a map of texts.
func attributes(kvs []attribute.KeyValue) map[string]string {
	all := map[string]string{}
	for _, kv := range kvs {
		all[string(kv.Key)] = kv.Value.String()
	}
	return all
}

// B148: one span around all attempts makes a call saved by its third attempt look like a slow success; each attempt
// has its own, and call-level and attempt-level numbers are kept apart.
func TestEachAttemptHasItsSpanAndTheCallItsNumbers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := observed(t, 0)
		d, err := retry.NewDestination("ledger", retry.Policy{BaseDelay: 250 * time.Millisecond, Jitter: retry.NoJitter}, o.options())
		require.NoError(t, err)
		ctx, end := o.caller()
		start := time.Now()
		attempts := 0
		err = d.Do(ctx, retry.Idempotent, func(context.Context) error {
			time.Sleep(20 * time.Millisecond)
			switch attempts++; attempts {
			case 1:
				return classify.As(classify.Retryable, errors.New("queue full"))
			case 2:
				return errors.New("connection lost")
			}
			return nil
		}, retry.Named("post"))
		require.NoError(t, err, "Do")
		end()

		spans := o.spans.Ended()
		require.Len(t, spans, 4, "spans: three attempts and the caller")
		caller := spans[3]
		want := []struct {
			start time.Duration
			attrs map[string]string
			code  codes.Code
			text  string
		}{
			{0, map[string]string{"error.type": "retryable", "reintento.class": "retryable", "reintento.origin": "remote"}, codes.Error, "queue full"},
			{270 * time.Millisecond, map[string]string{"error.type": "unknown", "reintento.class": "ambiguous", "reintento.origin": "remote"}, codes.Error, "connection lost"},
			{790 * time.Millisecond, map[string]string{}, codes.Unset, ""},
		}
		for i, w := range want {
			s := spans[i]
			w.attrs["reintento.destination"], w.attrs["reintento.operation"] = "ledger", "post"
			w.attrs["reintento.attempt"], w.attrs["reintento.max_attempts"] = fmt.Sprint(i+1), "3"
			require.Equal(t, w.attrs, attributes(s.Attributes()), "attributes of attempt %d", i+1)
			require.Equal(t, "attempt post", s.Name(), "name of attempt %d", i+1)
			require.Equal(t, trace.SpanKindInternal, s.SpanKind(), "kind of attempt %d", i+1)
			require.Equal(t, start.Add(w.start), s.StartTime(), "start of attempt %d", i+1)
			require.Equal(t, 20*time.Millisecond, s.EndTime().Sub(s.StartTime()), "length of attempt %d", i+1)
			require.Equal(t, caller.SpanContext().SpanID(), s.Parent().SpanID(), "parent of attempt %d", i+1)
			require.Equal(t, sdktrace.Status{Code: w.code, Description: w.text}, s.Status(), "status of attempt %d", i+1)
		}

		events := caller.Events()
		require.Len(t, events, 2, "events of the caller's span: two retries")
		require.Equal(t, map[string]string{
			"reintento.destination": "ledger", "reintento.operation": "post", "reintento.attempt": "2", "error.type": "unknown", "reintento.wait": "0.5",
		}, attributes(events[1].Attributes), "attributes of the second retry")

		const about = "reintento.destination=ledger,reintento.operation=post"
		require.Equal(t, map[string]float64{
			"reintento.attempt.duration[s]{error.type=retryable," + about + "}":          1,
			"reintento.attempt.duration[s]{error.type=unknown," + about + "}":            1,
			"reintento.attempt.duration[s]{" + about + "}":                               1,
			"sum of reintento.attempt.duration[s]{error.type=retryable," + about + "}":   0.02,
			"sum of reintento.attempt.duration[s]{error.type=unknown," + about + "}":     0.02,
			"sum of reintento.attempt.duration[s]{" + about + "}":                        0.02,
			"reintento.retries[{retry}]{error.type=retryable," + about + "}":             1,
			"reintento.retries[{retry}]{error.type=unknown," + about + "}":               1,
			"reintento.retry.wait[s]{" + about + "}":                                     2,
			"sum of reintento.retry.wait[s]{" + about + "}":                              0.75,
			"reintento.call.duration[s]{" + about + ",reintento.outcome=applied}":        1,
			"sum of reintento.call.duration[s]{" + about + ",reintento.outcome=applied}": 0.81,
		}, o.metrics(), "metrics")
	})
}

// Every reason to stop is one of a closed list, and none is a success.
func TestGiveUpsAreCountedByReason(t *testing.T) {
	failing := func(err error) func(context.Context) error {
		return func(context.Context) error { return err }
	}
	lost := errors.New("connection lost")
	for _, tt := range []struct {
		stop, outcome string
		policy        retry.Policy
		before        int // calls that fail before the one that counts
		safety        retry.Safety
		ctx           func(context.Context) context.Context
		op            func(context.Context) error
	}{
		{stop: "attempts", outcome: "unknown", safety: retry.Idempotent, op: failing(lost)},
		{stop: "permanent", outcome: "not_applied", op: failing(classify.As(classify.Permanent, lost))},
		{stop: "outcome_unknown", outcome: "unknown", op: failing(lost)},
		{stop: "deadline", outcome: "not_applied", policy: retry.Policy{Deadline: time.Second, AttemptTimeout: time.Second}, op: failing(classify.After(2*time.Second, lost))},
		{stop: "pushback", outcome: "not_applied", op: failing(classify.After(time.Minute, lost))},
		{stop: "budget", outcome: "not_applied", policy: retry.Policy{MaxAttempts: 9, BaseDelay: time.Millisecond, Budget: retry.Budget{Burst: 1}}, op: failing(classify.As(classify.Retryable, lost))},
		{stop: "breaker_open", outcome: "not_applied", policy: retry.Policy{MaxAttempts: 1, Breaker: breaker.Settings{MinResults: 1}}, before: 1, op: failing(classify.As(classify.Retryable, lost))},
		{stop: "caller", outcome: "not_applied", op: failing(lost), ctx: func(ctx context.Context) context.Context {
			ctx, cancel := context.WithCancelCause(ctx)
			cancel(errors.New("browser closed"))
			return ctx
		}},
	} {
		synctest.Test(t, func(t *testing.T) {
			o := observed(t, 0)
			d, err := retry.NewDestination("ledger", tt.policy, o.options())
			require.NoError(t, err)
			for range tt.before {
				require.Error(t, d.Do(t.Context(), tt.safety, tt.op, retry.Named("before")))
			}
			ctx, end := o.caller()
			under := ctx
			if tt.ctx != nil {
				under = tt.ctx(ctx)
			}
			require.Error(t, d.Do(under, tt.safety, tt.op, retry.Named("post")), "Do that stops because of %s", tt.stop)
			end()

			point := fmt.Sprintf("reintento.call.duration[s]{reintento.destination=ledger,reintento.operation=post,reintento.outcome=%s,reintento.stop=%s}", tt.outcome, tt.stop)
			points := o.metrics()
			require.Equal(t, 1.0, points[point], "%s in %v", point, points)
			require.NotContains(t, points, "reintento.call.duration[s]{reintento.destination=ledger,reintento.operation=post,reintento.outcome=applied}")

			spans := o.spans.Ended()
			events := spans[len(spans)-1].Events()
			last := events[len(events)-1]
			require.Equal(t, "give up", last.Name, "last event of the caller's span for %s", tt.stop)
			require.Equal(t, tt.stop, attributes(last.Attributes)["reintento.stop"], "its reason")
			require.Equal(t, tt.outcome, attributes(last.Attributes)["reintento.outcome"], "its outcome")
		})
	}
}

// An error may bring a reason of its own, and a transport a stop of its own: neither makes a new series.
func TestWordsOutsideTheListsAreOther(t *testing.T) {
	o := observed(t, 0)
	ctx, end := o.caller()
	o.observe(ctx, retry.Event{
		Kind: retry.EventAttempt, Destination: "ledger", Attempt: 1, Start: time.Now(), Failed: true,
		Verdict: classify.Verdict{Reason: "customer_4711_is_blocked"},
	})
	o.observe(ctx, retry.Event{Kind: retry.EventStop, Destination: "ledger", Attempt: 1, Stop: httpclient.ErrBodyNotReplayable})
	end()
	require.Equal(t, "_OTHER", attributes(o.spans.Ended()[0].Attributes())["error.type"], "error.type of a reason that is not listed")
	points := o.metrics()
	require.Equal(t, 1.0, points["reintento.attempt.duration[s]{error.type=_OTHER,reintento.destination=ledger}"], "attempts in %v", points)
	require.Equal(t, 1.0, points["reintento.call.duration[s]{reintento.destination=ledger,reintento.outcome=unknown,reintento.stop=_OTHER}"], "calls in %v", points)
}

func TestNamesAreBounded(t *testing.T) {
	o := observed(t, 2)
	for _, name := range []string{"a", "b", "c", "d", "a"} {
		o.observe(t.Context(), retry.Event{Kind: retry.EventAttempt, Destination: name, Operation: "of " + name, Attempt: 1, Start: time.Now()})
	}
	points := o.metrics()
	for point, want := range map[string]float64{
		"reintento.destination=a,reintento.operation=of a":        2,
		"reintento.destination=b,reintento.operation=of b":        1,
		"reintento.destination=_OTHER,reintento.operation=_OTHER": 2,
	} {
		point = "reintento.attempt.duration[s]{" + point + "}"
		require.Equal(t, want, points[point], "%s in %v", point, points)
	}
}

func TestRequestsSayWhereTheyWent(t *testing.T) {
	var seen atomic.Int32
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if seen.Add(1) < 3 {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
	}))
	defer server.Close()
	o := observed(t, 0)
	client, err := httpclient.New(retry.Policy{BaseDelay: time.Microsecond}, o.options())
	require.NoError(t, err)
	defer client.CloseIdleConnections()
	ctx, end := o.caller()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, server.URL+"/accounts?token=secret", nil)
	require.NoError(t, err)
	resp, err := client.Do(req)
	require.NoError(t, err)
	require.NoError(t, resp.Body.Close())
	end()

	spans := o.spans.Ended()
	require.Len(t, spans, 4, "spans")
	for i, want := range []map[string]string{
		{"http.response.status_code": "503", "error.type": "503", "reintento.class": "ambiguous", "reintento.origin": "remote"},
		{"http.response.status_code": "503", "error.type": "503", "reintento.class": "ambiguous", "reintento.origin": "remote", "http.request.resend_count": "1"},
		{"http.response.status_code": "200", "http.request.resend_count": "2"},
	} {
		want["reintento.destination"], want["reintento.operation"] = server.URL, "GET"
		want["server.address"], want["server.port"] = "127.0.0.1", fmt.Sprint(server.Listener.Addr().(*net.TCPAddr).Port)
		want["reintento.attempt"], want["reintento.max_attempts"] = fmt.Sprint(i+1), "3"
		require.Equal(t, want, attributes(spans[i].Attributes()), "attributes of attempt %d", i+1)
		require.Empty(t, spans[i].Status().Description, "description of attempt %d, whose status says it all", i+1)
	}
}

func TestDestinationsThatAreNoOriginHaveNoAddress(t *testing.T) {
	for destination, want := range map[string][2]string{
		"https://api.example.com":      {"api.example.com", "443"},
		"http://api.example.com":       {"api.example.com", "80"},
		"http://[::1]:8080":            {"::1", "8080"},
		"ledger":                       {},
		"api.example.com:443":          {},
		"https://":                     {},
		"https://api.example.com:port": {},
	} {
		o := observed(t, 0)
		o.observe(t.Context(), retry.Event{Kind: retry.EventAttempt, Destination: destination, Attempt: 1, Start: time.Now()})
		attrs := attributes(o.spans.Ended()[0].Attributes())
		if got := [2]string{attrs["server.address"], attrs["server.port"]}; got != want {
			t.Errorf("address and port of destination %q are %q, want %q", destination, got, want)
		}
	}
}

// Where a layer above repeats, a request of its second attempt is a resend, although the layer below makes one attempt.
func TestResendsAreCountedByTheLayerThatRepeats(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {}))
	defer server.Close()
	o := observed(t, 0)
	client, err := httpclient.New(retry.Policy{}, o.options())
	require.NoError(t, err)
	defer client.CloseIdleConnections()
	d, err := retry.NewDestination("ledger", retry.Policy{BaseDelay: time.Microsecond}, nil)
	require.NoError(t, err)
	err = d.Do(t.Context(), retry.Idempotent, func(ctx context.Context) error {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, server.URL, nil)
		if err != nil {
			return err
		}
		resp, err := client.Do(req)
		if err != nil {
			return err
		}
		defer resp.Body.Close()
		if retry.AttemptOf(ctx) == 1 {
			return classify.As(classify.Retryable, errors.New("not ready"))
		}
		return nil
	})
	require.NoError(t, err, "Do")
	spans := o.spans.Ended()
	require.Len(t, spans, 2, "spans: a request in each of two attempts")
	require.NotContains(t, attributes(spans[0].Attributes()), "http.request.resend_count", "first request")
	require.Equal(t, "1", attributes(spans[1].Attributes())["http.request.resend_count"], "resend count of the second request")
	points := o.metrics()
	point := fmt.Sprintf("reintento.layer.suppressed[{attempt}]{reintento.destination=%s,reintento.operation=GET,server.address=127.0.0.1,server.port=%d}",
		server.URL, server.Listener.Addr().(*net.TCPAddr).Port)
	require.Equal(t, 2.0, points[point], "%s in %v", point, points)
}

// B147: an attempt is recorded as a success at its head, then the body fails. That is told apart, and is neither a
// further attempt nor a further call.
func TestBodyThatBreaksIsNoFurtherAttempt(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Length", "100")
		io.WriteString(w, "half")
		http.NewResponseController(w).Flush()
		panic(http.ErrAbortHandler)
	}))
	defer server.Close()
	o := observed(t, 0)
	client, err := httpclient.New(retry.Policy{}, o.options())
	require.NoError(t, err)
	defer client.CloseIdleConnections()
	ctx, end := o.caller()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, server.URL, nil)
	require.NoError(t, err)
	resp, err := client.Do(req)
	require.NoError(t, err)
	_, err = io.ReadAll(resp.Body)
	require.ErrorIs(t, err, io.ErrUnexpectedEOF, "reading the body")
	require.NoError(t, resp.Body.Close())
	end()

	spans := o.spans.Ended()
	require.Len(t, spans, 2, "spans: one attempt and the caller")
	events := spans[1].Events()
	require.Len(t, events, 1, "events of the caller's span")
	require.Equal(t, "body broke", events[0].Name)
	require.Equal(t, "body", attributes(events[0].Attributes)["error.type"])
	about := fmt.Sprintf("reintento.destination=%s,reintento.operation=GET,", server.URL)
	where := fmt.Sprintf("server.address=127.0.0.1,server.port=%d}", server.Listener.Addr().(*net.TCPAddr).Port)
	points := o.metrics()
	require.Equal(t, 1.0, points["reintento.body.failures[{response}]{"+about+where], "bodies in %v", points)
	require.Equal(t, 1.0, points["reintento.attempt.duration[s]{"+about+where], "attempts in %v", points)
	require.Equal(t, 1.0, points["reintento.call.duration[s]{"+about+"reintento.outcome=applied,"+where], "calls in %v", points)
}

func TestPushbackBreakerAndHiddenResends(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := observed(t, 0)
		ctx, end := o.caller()
		o.observe(ctx, retry.Event{Kind: retry.EventPushback, Destination: "ledger", Wait: 5 * time.Second})
		o.observe(ctx, retry.Event{Kind: retry.EventAttempt, Destination: "ledger", Request: true, Attempt: 1, Start: time.Now(), Resends: 2})
		o.observe(ctx, retry.Event{
			Kind: retry.EventRetry, Destination: "ledger", Attempt: 1, Wait: 6 * time.Second,
			Verdict: classify.Verdict{Reason: "http_429", RetryAfter: 5 * time.Second},
		})
		end()
		d, err := retry.NewDestination("ledger", retry.Policy{MaxAttempts: 1, Breaker: breaker.Settings{MinResults: 1}}, o.options())
		require.NoError(t, err)
		require.Error(t, d.Do(t.Context(), retry.Unsafe, func(context.Context) error { return errors.New("connection lost") }))

		points := o.metrics()
		for point, want := range map[string]float64{
			"reintento.pushback.duration[s]{reintento.destination=ledger}":                                   1,
			"sum of reintento.pushback.duration[s]{reintento.destination=ledger}":                            5,
			"reintento.resends[{request}]{reintento.destination=ledger}":                                     2,
			"reintento.retries[{retry}]{error.type=429,reintento.destination=ledger}":                        1,
			"reintento.breaker.changes[{change}]{reintento.breaker.state=open,reintento.destination=ledger}": 1,
		} {
			require.Equal(t, want, points[point], "%s in %v", point, points)
		}
		var caller sdktrace.ReadOnlySpan
		for _, s := range o.spans.Ended() {
			if s.Name() == "caller" {
				caller = s
			} else if s.Parent().IsValid() {
				require.Equal(t, "2", attributes(s.Attributes())["reintento.resends"], "resends on the span")
			}
		}
		require.Len(t, caller.Events(), 2, "events of the caller's span")
		require.Equal(t, "pushback", caller.Events()[0].Name)
		require.Equal(t, "5", attributes(caller.Events()[0].Attributes)["reintento.wait"])
		require.Equal(t, "5", attributes(caller.Events()[1].Attributes)["reintento.retry_after"])
	})
}

// A key may say more than a trace's readers shall know.
func TestKeysAreLeftOut(t *testing.T) {
	o := observed(t, 0)
	d, err := retry.NewDestination("ledger", retry.Policy{BaseDelay: time.Microsecond}, o.options())
	require.NoError(t, err)
	const key = "invoice-4711"
	ctx, end := o.caller()
	require.Error(t, d.Do(ctx, retry.Keyed, func(context.Context) error { return errors.New("connection lost") }, retry.WithKey(key)))
	end()
	for _, s := range o.spans.Ended() {
		require.NotContains(t, fmt.Sprint(s.Name(), s.Attributes(), s.Events(), s.Status()), key, "span %s", s.Name())
	}
	require.NotContains(t, fmt.Sprint(o.metrics()), key, "metrics")
}

func TestObserverMayBeShared(t *testing.T) {
	o := observed(t, 4)
	var wg sync.WaitGroup
	for g := range 8 {
		d, err := retry.NewDestination(fmt.Sprint("d", g), retry.Policy{BaseDelay: time.Microsecond}, o.options())
		require.NoError(t, err)
		wg.Go(func() {
			for range 50 {
				d.Do(t.Context(), retry.Idempotent, func(ctx context.Context) error {
					if retry.AttemptOf(ctx) == 1 {
						return errors.New("connection lost")
					}
					return nil
				})
			}
		})
	}
	wg.Wait()
	calls := 0.0
	for point, n := range o.metrics() {
		if strings.HasPrefix(point, "reintento.call.duration") {
			calls += n
		}
	}
	require.Equal(t, 400.0, calls, "calls of all destinations, whether their names fitted or not")
	require.Len(t, o.spans.Ended(), attemptsIn(o.metrics()), "spans, one for each attempt")
}

func attemptsIn(points map[string]float64) int {
	n := 0.0
	for point, count := range points {
		if strings.HasPrefix(point, "reintento.attempt.duration") {
			n += count
		}
	}
	return int(n)
}

func TestNilOptionsMeanTheGlobalProviders(t *testing.T) {
	spans, reader := tracetest.NewSpanRecorder(), sdkmetric.NewManualReader()
	otel.SetTracerProvider(sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(spans)))
	otel.SetMeterProvider(sdkmetric.NewMeterProvider(sdkmetric.WithReader(reader)))
	observe, err := otelretry.New(nil)
	require.NoError(t, err, "New(nil)")
	observe(t.Context(), retry.Event{Kind: retry.EventAttempt, Destination: "ledger", Attempt: 1, Start: time.Now()})
	o := &telemetry{t: t, spans: spans, reader: reader}
	require.Len(t, o.spans.Ended(), 1, "spans at the global provider")
	require.NotEmpty(t, o.metrics(), "metrics at the global provider")
}

func TestBadOptionsAreRefused(t *testing.T) {
	observe, err := otelretry.New(&otelretry.Options{MaxNames: -1})
	require.EqualError(t, err, "otelretry: MaxNames is -1: allowed is 1 or more, or 0 for 1,024")
	require.Nil(t, observe)

	observe, err = otelretry.New(&otelretry.Options{MeterProvider: refusing{}})
	require.ErrorIs(t, err, errRefused, "New with a meter that refuses a counter")
	require.Nil(t, observe)
}

var errRefused = errors.New("no more counters")

// refusing is a meter that makes no counter.
type refusing struct{ noop.MeterProvider }

func (refusing) Meter(string, ...metric.MeterOption) metric.Meter { return refusingMeter{} }

type refusingMeter struct{ noop.Meter }

func (refusingMeter) Int64Counter(string, ...metric.Int64CounterOption) (metric.Int64Counter, error) {
	return noop.Int64Counter{}, errRefused
}
