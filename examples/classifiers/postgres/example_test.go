package postgres_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"time"

	"github.com/reintento/reintento/retry"
)

// A statement loses against a concurrent one, and is repeated: it was rolled
// back. One whose answer is lost is not: it may have been committed.
func Example() {
	db, stop, err := start(fault{state: "40001"}, fault{}, fault{lose: true})
	if err != nil {
		log.Fatal(err)
	}
	defer stop()
	bank, err := retry.NewDestination("bank", retry.Policy{BaseDelay: time.Millisecond}, nil)
	if err != nil {
		log.Fatal(err)
	}

	err = bank.Do(context.Background(), retry.Unsafe, db.insert)
	statements, rows := db.count()
	fmt.Printf("%v: %d statements, %d row\n", err, statements, rows)

	err = bank.Do(context.Background(), retry.Unsafe, db.insert)
	fmt.Println("outcome unknown:", errors.Is(err, retry.ErrOutcomeUnknown))
	// Output:
	// <nil>: 2 statements, 1 row
	// outcome unknown: true
}
