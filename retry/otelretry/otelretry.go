// Package otelretry tells OpenTelemetry what package retry does: metrics of
// calls, attempts and waits, and a span for each attempt. It follows version
// 1.43 of the semantic conventions; names that these do not have begin with
// "reintento.".
//
// [New] returns a [retry.Observer] for [retry.Options]. Who wants to log as well
// calls both from one function:
//
//	log := retry.LogTo(logger)
//	opts.Observer = func(ctx context.Context, e retry.Event) { log(ctx, e); observe(ctx, e) }
//
// # Spans
//
// A span is made when its attempt has ended, with the times that the attempt
// had. Its parent is the span of the caller, so it is a sibling, not the parent,
// of what was traced inside the attempt: spans of otelhttp lie beside it and
// within its time. It is of kind internal and named "attempt", followed by the
// operation if there is one. It has
//
//   - reintento.destination, reintento.operation, reintento.attempt (from 1) and
//     reintento.max_attempts
//   - server.address and server.port, where the destination is an origin such as
//     https://api.example.com
//   - http.response.status_code, where there was a response
//   - http.request.resend_count, for a request after its first attempt
//   - error.type, reintento.class and reintento.origin, if it failed
//   - reintento.resends, if the request was sent again inside the attempt
//
// The wait before a retry, a give-up, a pushback, and a response's body that
// broke later are events of the caller's span, if it is still recorded: "retry",
// "give up", "pushback" and "body broke". Idempotency keys are left out.
//
// # Metrics
//
//	reintento.attempt.duration   histogram, s          attempts; error.type if failed
//	reintento.call.duration      histogram, s          calls with their waits; reintento.outcome; reintento.stop if given up
//	reintento.retries            counter, {retry}      error.type of the attempt before
//	reintento.retry.wait         histogram, s          waits before retries
//	reintento.resends            counter, {request}    sent again inside attempts
//	reintento.body.failures      counter, {response}   bodies that broke after they were handed over
//	reintento.pushback.duration  histogram, s          pauses that a destination asked for
//	reintento.breaker.changes    counter, {change}     reintento.breaker.state, the new one
//	reintento.layer.suppressed   counter, {attempt}    attempts in which a layer left repeating to one above
//
// All have reintento.destination and, where they are known, reintento.operation,
// server.address and server.port. A call that succeeded has the outcome
// "applied" and no reintento.stop; one that [retry.Reconcile] found to be applied
// has reintento.stop, too: why its attempts had ended.
//
// # Cardinality
//
// error.type is the status of a failed response, as in the conventions, or one of
// the reasons that [classify.Verdict] lists; a word that an error brought itself
// is "_OTHER". reintento.stop is one of attempts, breaker_open, budget, caller,
// deadline, outcome_unknown, permanent, pushback and "_OTHER". Destinations and
// operations are counted apart up to [Options.MaxNames] each.
//
// # Beside otelhttp
//
// otelhttp as the Base of an httpclient.Transport makes the client span of each
// request and the metrics named http.client. Neither is made here, so nothing is
// counted twice.
package otelretry

import (
	"context"
	"fmt"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/metric"
	semconv "go.opentelemetry.io/otel/semconv/v1.43.0"
	"go.opentelemetry.io/otel/trace"

	"github.com/reintento/reintento/retry"
)

// scope names this package to OpenTelemetry.
const scope = "github.com/reintento/reintento/retry/otelretry"

// Options say where spans and metrics go. Nil stands for the zero value, which
// works.
type Options struct {
	// TracerProvider makes the spans. Nil means the global one. Those who want
	// none give that of package go.opentelemetry.io/otel/trace/noop.
	TracerProvider trace.TracerProvider
	// MeterProvider makes the metrics. Nil means the global one.
	MeterProvider metric.MeterProvider
	// MaxNames is how many destinations, and how many operations, are told
	// apart. Those that come later are "_OTHER". Zero means 1,024.
	MaxNames int
}

// New returns an observer that makes metrics and spans of what it is told. One
// observer may serve any number of layers and goroutines. The error is that of a
// meter that refuses an instrument, or of a negative MaxNames.
func New(opts *Options) (retry.Observer, error) {
	var o Options
	if opts != nil {
		o = *opts
	}
	if o.MaxNames < 0 {
		return nil, fmt.Errorf("otelretry: MaxNames is %d: allowed is 1 or more, or 0 for 1,024", o.MaxNames)
	}
	if o.MaxNames == 0 {
		o.MaxNames = 1024
	}
	if o.TracerProvider == nil {
		o.TracerProvider = otel.GetTracerProvider()
	}
	if o.MeterProvider == nil {
		o.MeterProvider = otel.GetMeterProvider()
	}
	m, err := newInstruments(o.MeterProvider.Meter(scope, metric.WithSchemaURL(semconv.SchemaURL)))
	if err != nil {
		return nil, fmt.Errorf("otelretry: %w", err)
	}
	t := o.TracerProvider.Tracer(scope, trace.WithSchemaURL(semconv.SchemaURL))
	destinations, operations := newNames(o.MaxNames), newNames(o.MaxNames)
	return func(ctx context.Context, e retry.Event) {
		e.Destination, e.Operation = destinations.bounded(e.Destination), operations.bounded(e.Operation)
		whom := about(e)
		m.record(ctx, e, whom)
		traced(ctx, t, e, whom)
	}, nil
}
