package otelretry_test

import (
	"context"
	"errors"
	"fmt"
	"log"

	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/reintento/reintento/classify"
	"github.com/reintento/reintento/retry"
	"github.com/reintento/reintento/retry/otelretry"
)

// Each attempt is a span, whatever becomes of the call.
func ExampleNew() {
	exported := tracetest.NewInMemoryExporter()
	tracers := sdktrace.NewTracerProvider(sdktrace.WithSyncer(exported))
	observe, err := otelretry.New(&otelretry.Options{TracerProvider: tracers})
	if err != nil {
		log.Fatal(err)
	}
	ledger, err := retry.NewDestination("ledger", retry.Policy{}, &retry.Options{Observer: observe})
	if err != nil {
		log.Fatal(err)
	}
	err = ledger.Do(context.Background(), retry.Unsafe, func(ctx context.Context) error {
		if retry.AttemptOf(ctx) == 1 {
			return classify.As(classify.Retryable, errors.New("queue full"))
		}
		return nil
	}, retry.Named("post"))
	if err != nil {
		log.Fatal(err)
	}
	for _, span := range exported.GetSpans() {
		fmt.Println(span.Name, span.Status.Code, span.Status.Description)
	}
	// Output:
	// attempt post Error queue full
	// attempt post Unset
}
