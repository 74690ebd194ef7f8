package retry

import (
	"context"
	"log/slog"
)

// LogTo returns an observer that writes to l: a line for each retry, pushback and
// suppressed layer at debug level, for each call given up at warn, and for each
// breaker change and each lookup that found an intention applied at info. What a
// layer above goes on with is no more than debug: a call that leaves repeating to
// it, and a redirect.
// A reason is one of those that [classify.Verdict] lists, breaker_open or
// pushback of a layer below, or a word that an error or a [classify.Classifier]
// brought itself.
func LogTo(l *slog.Logger) Observer {
	return func(ctx context.Context, e Event) {
		level, message := slog.LevelDebug, ""
		switch e.Kind {
		case EventRetry:
			message = "retry"
		case EventPushback:
			message = "pushback"
		case EventLayerSuppressed:
			message = "retry left to the layer above"
		case EventStop:
			if level, message = slog.LevelWarn, "gave up"; !e.Failed {
				level, message = slog.LevelInfo, "found applied"
			} else if isLeft(ctx, e) {
				level = slog.LevelDebug
			}
		case EventBreakerChange:
			level, message = slog.LevelInfo, "breaker changed"
		default:
			return
		}
		if !l.Enabled(ctx, level) {
			return
		}
		attrs := make([]slog.Attr, 0, 12)
		attrs = append(attrs, slog.String("destination", e.Destination))
		if e.Operation != "" {
			attrs = append(attrs, slog.String("operation", e.Operation))
		}
		if e.Intention.Key != "" {
			attrs = append(attrs, slog.String("key", e.Intention.Key))
		}
		switch e.Kind {
		case EventRetry:
			attrs = append(attrs,
				slog.Int("attempt", e.Attempt), slog.Int("max", e.MaxAttempts),
				slog.String("class", e.Verdict.Class.String()), slog.String("reason", e.Verdict.Reason),
				slog.Duration("wait", e.Wait))
			if e.Verdict.RetryAfter > 0 {
				attrs = append(attrs, slog.Duration("hint", e.Verdict.RetryAfter))
			}
		case EventStop:
			attrs = append(attrs,
				slog.Int("attempts", e.Attempt), slog.String("outcome", e.Outcome.String()),
				slog.String("stop", Plain(e.Stop)), slog.Duration("elapsed", e.Duration))
			if e.Verdict.Reason != "" {
				attrs = append(attrs, slog.String("class", e.Verdict.Class.String()), slog.String("reason", e.Verdict.Reason))
			}
			if e.Err != nil {
				attrs = append(attrs, slog.String("error", Plain(e.Err)))
			}
		case EventPushback:
			attrs = append(attrs, slog.Duration("wait", e.Wait))
		case EventBreakerChange:
			attrs = append(attrs, slog.String("from", e.Breaker.From.String()), slog.String("to", e.Breaker.To.String()))
			if !e.Breaker.RetryAt.IsZero() {
				attrs = append(attrs, slog.Time("retry_at", e.Breaker.RetryAt))
			}
		}
		l.LogAttrs(ctx, level, message, attrs...)
	}
}

// isLeft reports whether a call that stopped is left to somebody above: to the
// layer that repeats, or to the client that follows redirects.
func isLeft(ctx context.Context, e Event) bool {
	_, limit, inside := Mark(ctx)
	return inside && limit > 1 || e.Err == nil && e.Status >= 300 && e.Status <= 399
}
