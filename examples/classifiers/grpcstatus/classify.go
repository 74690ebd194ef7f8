// Package grpcstatus tells the retry layer what the statuses of gRPC mean, and
// sends the idempotency key of an operation along.
//
// The layer repeats calls then, so that gRPC must not: make connections with
// [google.golang.org/grpc.WithDisableRetry]. What gRPC calls transparent retries
// goes on: those are calls that no server has looked at.
package grpcstatus

import (
	"context"
	"errors"
	"time"

	"github.com/reintento/reintento/classify"
	"github.com/reintento/reintento/retry"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
)

// Classify is a [classify.Classifier] for errors of gRPC. Put it into
// retry.Options.Classifiers.
//
// A status does not tell whether the server did anything, unless it says so in
// its meaning or invites the repeat by a RetryInfo: what is left is ambiguous,
// and only repeated where the operation allows it.
func Classify(err error) (v classify.Verdict, ok bool) {
	if _, judged := errors.AsType[*retry.Error](err); judged {
		return classify.Verdict{}, false // by a layer below, which knows more
	}
	s, ok := status.FromError(err)
	if !ok || s.Code() == codes.OK {
		return classify.Verdict{}, false
	}
	v.Reason = reasons[s.Code()]
	if v.Reason == "" {
		v.Reason = "grpc_unknown"
	}
	switch s.Code() {
	case codes.InvalidArgument, codes.NotFound, codes.AlreadyExists, codes.PermissionDenied, codes.Unauthenticated,
		codes.FailedPrecondition, codes.OutOfRange, codes.Unimplemented:
		v.Class = classify.Permanent
	case codes.Aborted:
		// A transaction was rolled back. What is given to retry.Do begins where
		// the read-modify-write sequence begins.
		v.Class = classify.Retryable
	case codes.ResourceExhausted:
		// A quota, but a reply that is too large for this client, too.
		v.Throttled = true
	}
	if wait, invited := invitation(s); invited && v.Class != classify.Permanent {
		v.Class, v.RetryAfter = classify.Retryable, wait
	}
	return v, true
}

var reasons = map[codes.Code]string{
	codes.Canceled:           "grpc_canceled",
	codes.Unknown:            "grpc_unknown",
	codes.InvalidArgument:    "grpc_invalid_argument",
	codes.DeadlineExceeded:   "timeout",
	codes.NotFound:           "grpc_not_found",
	codes.AlreadyExists:      "grpc_already_exists",
	codes.PermissionDenied:   "grpc_permission_denied",
	codes.ResourceExhausted:  "grpc_resource_exhausted",
	codes.FailedPrecondition: "grpc_failed_precondition",
	codes.Aborted:            "grpc_aborted",
	codes.OutOfRange:         "grpc_out_of_range",
	codes.Unimplemented:      "grpc_unimplemented",
	codes.Internal:           "grpc_internal",
	codes.Unavailable:        "grpc_unavailable",
	codes.DataLoss:           "grpc_data_loss",
	codes.Unauthenticated:    "grpc_unauthenticated",
}

// invitation returns the wait of a google.rpc.RetryInfo.
func invitation(s *status.Status) (wait time.Duration, invited bool) {
	for _, d := range s.Details() {
		if info, ok := d.(*errdetails.RetryInfo); ok {
			return max(0, info.GetRetryDelay().AsDuration()), true
		}
	}
	return 0, false
}

// Keys is a [grpc.UnaryClientInterceptor] that sends the key of the operation
// around as metadata, the same in every attempt. Outside of retry.Do it sends
// none.
func Keys(ctx context.Context, method string, request, reply any, cc *grpc.ClientConn, invoke grpc.UnaryInvoker, opts ...grpc.CallOption) error {
	if key := retry.Key(ctx); key != "" {
		ctx = metadata.AppendToOutgoingContext(ctx, "idempotency-key", key)
	}
	return invoke(ctx, method, request, reply, cc, opts...)
}
