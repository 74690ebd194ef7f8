package grpcstatus_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"time"

	"github.com/reintento/reintento/classify"
	"github.com/reintento/reintento/examples/classifiers/grpcstatus"
	"github.com/reintento/reintento/retry"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/wrapperspb"
)

// A payment over gRPC whose answer is lost: under a key that the service
// honours it is repeated and booked once; without one the caller is told that
// nobody knows.
func Example() {
	service, err := open(loses, fails(status.Error(codes.Unavailable, "starting up")), nil, loses)
	if err != nil {
		log.Fatal(err)
	}
	defer service.server.Stop()
	conn, err := dial(service, grpc.WithDisableRetry()) // sends keys: grpcstatus.Keys
	if err != nil {
		log.Fatal(err)
	}
	defer conn.Close()
	dest, err := retry.NewDestination("ledger", retry.Policy{BaseDelay: time.Millisecond}, &retry.Options{
		Classifiers: []classify.Classifier{grpcstatus.Classify},
	})
	if err != nil {
		log.Fatal(err)
	}
	pay := func(s retry.Safety) (int64, error) {
		return retry.Do(context.Background(), dest, s, func(ctx context.Context) (int64, error) {
			sum := new(wrapperspb.Int64Value)
			err := conn.Invoke(ctx, "/bank.Ledger/Add", wrapperspb.Int64(1200), sum)
			return sum.Value, err
		})
	}

	sum, err := pay(retry.Keyed)
	fmt.Println("keyed:", sum, err)
	_, err = pay(retry.Unsafe)
	fmt.Println("unsafe: outcome unknown:", errors.Is(err, retry.ErrOutcomeUnknown))
	// Output:
	// keyed: 1200 <nil>
	// unsafe: outcome unknown: true
}
