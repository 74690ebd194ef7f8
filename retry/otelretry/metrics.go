package otelretry

import (
	"context"
	"errors"
	"slices"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"github.com/reintento/reintento/retry"
)

// instruments are the metrics.
type instruments struct {
	calls, attempts, waits, pushbacks                        metric.Float64Histogram
	retries, resends, bodyFailures, breakerChanges, suppress metric.Int64Counter
}

// seconds are the buckets that the conventions give for the duration of
// requests; waits and pauses can be longer.
var (
	seconds     = []float64{0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.25, 0.5, 0.75, 1, 2.5, 5, 7.5, 10}
	longSeconds = append(slices.Clone(seconds), 15, 30, 60)
)

func newInstruments(m metric.Meter) (i instruments, err error) {
	var errs []error
	histogram := func(name, description string, buckets []float64) metric.Float64Histogram {
		h, err := m.Float64Histogram(name, metric.WithUnit("s"), metric.WithDescription(description), metric.WithExplicitBucketBoundaries(buckets...))
		errs = append(errs, err)
		return h
	}
	counter := func(name, unit, description string) metric.Int64Counter {
		c, err := m.Int64Counter(name, metric.WithUnit(unit), metric.WithDescription(description))
		errs = append(errs, err)
		return c
	}
	i = instruments{
		attempts:       histogram("reintento.attempt.duration", "Duration of attempts.", seconds),
		calls:          histogram("reintento.call.duration", "Duration of calls, with all their attempts and waits.", longSeconds),
		retries:        counter("reintento.retries", "{retry}", "Further attempts that were decided."),
		waits:          histogram("reintento.retry.wait", "Waits before further attempts.", longSeconds),
		resends:        counter("reintento.resends", "{request}", "Requests that were sent again inside an attempt."),
		bodyFailures:   counter("reintento.body.failures", "{response}", "Responses whose body broke after they were handed over."),
		pushbacks:      histogram("reintento.pushback.duration", "Pauses that destinations asked for.", longSeconds),
		breakerChanges: counter("reintento.breaker.changes", "{change}", "Changes of the state of circuit breakers."),
		suppress:       counter("reintento.layer.suppressed", "{attempt}", "Attempts in which a layer left repeating to one above."),
	}
	return i, errors.Join(errs...)
}

// record enters an event into the metrics.
func (i *instruments) record(ctx context.Context, e retry.Event, about []attribute.KeyValue) {
	with := func(more ...attribute.KeyValue) metric.MeasurementOption {
		return metric.WithAttributeSet(attribute.NewSet(append(slices.Clip(about), more...)...))
	}
	switch e.Kind {
	case retry.EventAttempt:
		switch {
		case e.InBody:
			i.bodyFailures.Add(ctx, 1, with())
			return
		case e.Failed:
			i.attempts.Record(ctx, e.Duration.Seconds(), with(errorType(e)))
		default:
			i.attempts.Record(ctx, e.Duration.Seconds(), with())
			i.calls.Record(ctx, e.Elapsed.Seconds(), with(outcome(retry.Applied)))
		}
		if e.Resends > 0 {
			i.resends.Add(ctx, int64(e.Resends), with())
		}
	case retry.EventRetry:
		i.retries.Add(ctx, 1, with(errorType(e)))
		i.waits.Record(ctx, e.Wait.Seconds(), with())
	case retry.EventStop:
		i.calls.Record(ctx, e.Duration.Seconds(), with(outcome(e.Outcome), stop(e.Stop)))
	case retry.EventPushback:
		i.pushbacks.Record(ctx, e.Wait.Seconds(), with())
	case retry.EventBreakerChange:
		i.breakerChanges.Add(ctx, 1, with(breakerStateKey.String(e.Breaker.To.String())))
	case retry.EventLayerSuppressed:
		i.suppress.Add(ctx, 1, with())
	}
}
