package retry_test

import "github.com/reintento/reintento/retry"

// kinds returns the kinds of events, in order.
func kinds(events []retry.Event) []retry.EventKind {
	var all []retry.EventKind
	for _, e := range events {
		all = append(all, e.Kind)
	}
	return all
}
