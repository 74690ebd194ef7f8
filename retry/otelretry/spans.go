package otelretry

import (
	"context"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	semconv "go.opentelemetry.io/otel/semconv/v1.43.0"
	"go.opentelemetry.io/otel/trace"

	"github.com/reintento/reintento/retry"
)

// traced makes the span of an attempt, or an event of the caller's span.
func traced(ctx context.Context, t trace.Tracer, e retry.Event, about []attribute.KeyValue) {
	if e.Kind == retry.EventAttempt && !e.InBody {
		attemptSpan(ctx, t, e, about)
		return
	}
	caller := trace.SpanFromContext(ctx)
	if !caller.IsRecording() {
		return
	}
	tell := func(name string, more ...attribute.KeyValue) {
		caller.AddEvent(name, trace.WithAttributes(append(about, more...)...))
	}
	switch e.Kind {
	case retry.EventAttempt:
		tell("body broke", attemptKey.Int(e.Attempt), errorType(e))
	case retry.EventRetry:
		more := []attribute.KeyValue{attemptKey.Int(e.Attempt), errorType(e), waitKey.Float64(e.Wait.Seconds())}
		if e.Verdict.RetryAfter > 0 {
			more = append(more, retryAfterKey.Float64(e.Verdict.RetryAfter.Seconds()))
		}
		tell("retry", more...)
	case retry.EventStop:
		name := "give up"
		if !e.Failed {
			name = "found applied"
		}
		tell(name, attemptKey.Int(e.Attempt), stop(e.Stop), outcome(e.Outcome))
	case retry.EventPushback:
		tell("pushback", waitKey.Float64(e.Wait.Seconds()))
	}
}

func attemptSpan(ctx context.Context, t trace.Tracer, e retry.Event, about []attribute.KeyValue) {
	name := "attempt"
	if e.Operation != "" {
		name += " " + e.Operation
	}
	attrs := append(about, attemptKey.Int(e.Attempt), maxAttemptsKey.Int(e.MaxAttempts))
	if e.Status != 0 {
		attrs = append(attrs, semconv.HTTPResponseStatusCode(e.Status))
	}
	if n := resendCount(ctx, e); n > 0 {
		attrs = append(attrs, semconv.HTTPRequestResendCount(n))
	}
	if e.Resends > 0 {
		attrs = append(attrs, resendsKey.Int(e.Resends))
	}
	if failed(e) {
		attrs = append(attrs, errorType(e), classKey.String(e.Verdict.Class.String()), originKey.String(e.Verdict.Origin.String()))
	}
	_, span := t.Start(ctx, name, trace.WithTimestamp(e.Start), trace.WithSpanKind(trace.SpanKindInternal), trace.WithAttributes(attrs...))
	if failed(e) {
		description := "" // a status says it all
		if e.Err != nil {
			description = retry.Plain(e.Err)
		}
		span.SetStatus(codes.Error, description)
	}
	span.End(trace.WithTimestamp(e.Start.Add(e.Duration)))
}

// resendCount is how often a request was sent before this attempt. Where a layer
// above repeats, it is that layer that counts.
func resendCount(ctx context.Context, e retry.Event) int {
	if !e.Request {
		return 0
	}
	return max(e.Attempt, retry.AttemptOf(ctx)) - 1
}
