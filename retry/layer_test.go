package retry_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/reintento/reintento/breaker"
	"github.com/reintento/reintento/classify"
	"github.com/reintento/reintento/retry"
)

func layer(t testing.TB, o retry.Organization, opts *retry.Options) *retry.Layer {
	t.Helper()
	l, err := retry.NewLayer(o, opts)
	require.NoError(t, err, "NewLayer(%+v)", o)
	return l
}

func TestHandlesOfOneLayerShareState(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := layer(t, retry.Organization{Default: fragile}, nil)
		require.Error(t, l.To("a").Do(t.Context(), retry.Unsafe, failing(errRefused).op))
		assert.ErrorIs(t, l.To("a").Do(t.Context(), retry.Unsafe, failing().op), breaker.ErrOpen, "Do through another handle")
		assert.NoError(t, l.To("b").Do(t.Context(), retry.Unsafe, failing().op), "Do to another destination")
		assert.NoError(t, layer(t, retry.Organization{Default: fragile}, nil).To("a").Do(t.Context(), retry.Unsafe, failing().op), "Do through another layer")
		assert.Equal(t, "a", l.To("a").Name(), "Name")
	})
}

func TestTheMostExactNameGivesThePolicy(t *testing.T) {
	named := map[string]int{ // by the number of attempts
		"bank.example.com:8443": 2, "bank.example.com": 3, "*.example.com": 4, "*.eu.example.com": 5, "ledger": 6, "https://shop.test:443": 7, "[::1]:80": 8, "::1": 9,
		"both.test:80": 2, "both.test": 3, "http://whole.test": 4, "https://whole.test:443": 5,
	}
	o := retry.Organization{Default: retry.Policy{MaxAttempts: 1}, Destinations: map[string]retry.Policy{}}
	for name, n := range named {
		o.Destinations[name] = retry.Policy{MaxAttempts: n}
	}
	l := layer(t, o, nil)
	for name, want := range map[string]int{
		"https://bank.example.com:8443": 2, "bank.example.com:8443": 2, "BANK.example.COM:8443": 2,
		"https://bank.example.com:443": 3, "http://bank.example.com": 3, "bank.example.com": 3,
		"https://x.example.com:443": 4, "x.example.com": 4, "x.y.example.com": 4,
		"https://x.eu.example.com:443": 5, "eu.example.com": 4,
		"ledger": 6, "Ledger": 6, "https://ledger:443": 6,
		"https://shop.test:443": 7, "https://shop.test": 7, "http://shop.test:80": 1, "http://shop.test": 1, "shop.test": 1,
		"http://[::1]:80": 8, "http://[::1]": 8, "http://[::1]:81": 9,
		"http://both.test": 2, "http://both.test:80": 2, "https://both.test": 3, "https://both.test:80": 2, "both.test": 3, "both.test:80": 2,
		"http://whole.test:80": 4, "http://whole.test:81": 1, "https://whole.test": 5,
		"example.com": 1, "badexample.com": 1, "": 1, "://": 1, "elsewhere": 1,
	} {
		assert.Equal(t, want, l.To(name).Snapshot().MaxAttempts, "attempts of %q", name)
	}
}

func TestALayerRefusesABadOrganizationAsAWhole(t *testing.T) {
	_, err := retry.NewLayer(retry.Organization{
		Default: retry.Policy{MaxAttempts: -1},
		Destinations: map[string]retry.Policy{
			"a": {Deadline: -2}, "": {}, "*x": {}, "b": {}, "B": {}, "good": {}, "http://good:1": {}, "mail://good/in": {},
			"http://host:1/": {}, "HTTPS://host/path": {}, "https://host?q": {}, "https://host#f": {}, "https://u@host": {}, "https://": {},
		},
	}, nil)
	for _, want := range []string{"retry: bad organization: default: ", "MaxAttempts is -1", `destination "a": `, "Deadline is -2ns", `destination "": `, `destination "*x": `, "stands twice"} {
		assert.ErrorContains(t, err, want, "NewLayer")
	}
	// A name that no request has would be a policy for nobody.
	for _, name := range []string{"http://host:1/", "HTTPS://host/path", "https://host?q", "https://host#f", "https://u@host", "https://"} {
		want := fmt.Sprintf("destination %q: allowed is a name, scheme://host:port without a path, host:port, host or *.suffix", name)
		assert.ErrorContains(t, err, want, "NewLayer")
	}
	for _, not := range []string{"good", "bad policy"} {
		assert.NotContains(t, err.Error(), not, "NewLayer")
	}
	for want, opts := range map[string]*retry.Options{
		"MaxDestinations is -1: allowed is 1 or more, or 0 for 1024": {MaxDestinations: -1},
		"Classifiers[1] is nil: allowed is a function":               {Classifiers: []classify.Classifier{func(error) (v classify.Verdict, ok bool) { return v, false }, nil}},
	} {
		_, err := retry.NewLayer(retry.Organization{}, opts)
		assert.ErrorContains(t, err, want, "NewLayer")
		_, err = retry.NewDestination("a", retry.Policy{}, opts)
		assert.ErrorContains(t, err, want, "NewDestination")
	}
}

// State is bounded, idle closed ones are evicted first, named ones never. 10,000 names stay within 1,024.
// B129: breaker per full URL: memory grows without end: bounded map with eviction of idle closed entries.
func TestALayerForgetsWhatItNeedNotKnow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := layer(t, retry.Organization{Default: fragile, Destinations: map[string]retry.Policy{"named": {}, "also-named": {}}}, nil)
		use := func(name string, errs ...error) error {
			return l.To(name).Do(t.Context(), retry.Unsafe, failing(errs...).op)
		}
		require.NoError(t, use("named"))
		require.NoError(t, use("also-named"))
		require.Error(t, use("troubled", errRefused))
		for i := range 10_000 {
			require.NoError(t, use(fmt.Sprint("host-", i)))
		}
		all := l.Snapshot()
		assert.Len(t, all, 1024, "destinations after 10,000 names")
		known := map[string]retry.DestinationState{}
		for i, s := range all {
			known[s.Name] = s
			if i > 0 && all[i-1].Name >= s.Name {
				t.Errorf("Snapshot has %q before %q, want them by name", all[i-1].Name, s.Name)
			}
		}
		assert.Contains(t, known, "named", "a named one is never forgotten")
		assert.Contains(t, known, "also-named", "a named one is never forgotten")
		assert.Equal(t, breaker.Open, known["troubled"].Breaker, "an open one is kept while idle ones can go")
		assert.Contains(t, known, "host-9999", "the last one")
		assert.NotContains(t, known, "host-0", "the first one")
	})
}

// What is named is kept for good, but not what lies at ports of a named host: these can come from outside.
func TestALayerForgetsThePortsOfANamedHost(t *testing.T) {
	named := []string{"http://a.test", "https://a.test", "a.test", "http://b.test:8080", "https://c.test", "[::1]:81", "ledger"}
	o := retry.Organization{Destinations: map[string]retry.Policy{
		"a.test": {}, "b.test:8080": {}, "https://c.test:443": {}, "[::1]:81": {}, "ledger": {},
	}}
	l := layer(t, o, &retry.Options{MaxDestinations: 10})
	for _, name := range named {
		require.NoError(t, l.To(name).Do(t.Context(), retry.Unsafe, failing().op))
	}
	for i := 1000; i < 1100; i++ {
		for _, format := range []string{"http://a.test:%d", "a.test:%d", "x%d://a.test", "http://b.test:%d", "http://[::1]:%d"} {
			require.NoError(t, l.To(fmt.Sprintf(format, i)).Do(t.Context(), retry.Unsafe, failing().op))
		}
	}
	var kept []string
	for _, s := range l.Snapshot() {
		kept = append(kept, s.Name)
	}
	assert.Len(t, kept, 10, "destinations")
	assert.Subset(t, kept, named, "destinations")
}

func TestABoundOfOneStillWorks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := layer(t, retry.Organization{Default: fragile}, &retry.Options{MaxDestinations: 1})
		for _, name := range []string{"a", "b", "a"} {
			require.Error(t, l.To(name).Do(t.Context(), retry.Unsafe, failing(errRefused).op), "Do to %s: what was forgotten begins anew", name)
			require.Len(t, l.Snapshot(), 1, "destinations")
			assert.Equal(t, name, l.Snapshot()[0].Name, "the one that is kept")
		}
	})
}

// The 1,025th busy one still works.
func TestBusyDestinationsAreNeverForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := layer(t, retry.Organization{}, nil)
		release := make(chan struct{})
		var wg sync.WaitGroup
		for i := range 1030 {
			wg.Go(func() {
				assert.NoError(t, l.To(fmt.Sprint("host-", i)).Do(t.Context(), retry.Unsafe, func(context.Context) error {
					<-release
					return nil
				}), "Do to destination %d", i)
			})
		}
		synctest.Wait()
		assert.Len(t, l.Snapshot(), 1030, "busy destinations")
		for _, s := range l.Snapshot() {
			if s.Calls != 1 {
				t.Errorf("%s has %d calls under way, want 1", s.Name, s.Calls)
			}
		}
		close(release)
		wg.Wait()
		require.NoError(t, l.To("one-more").Do(t.Context(), retry.Unsafe, failing().op))
		assert.Len(t, l.Snapshot(), 1024, "destinations once they are idle")
	})
}

// Reading changes nothing.
func TestASnapshotMakesNoPlace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := layer(t, retry.Organization{Default: fragile, Destinations: map[string]retry.Policy{"a": {MaxAttempts: 7, Budget: retry.Budget{Burst: 3}}}}, nil)
		assert.Equal(t, retry.DestinationState{Name: "a", Budget: 3, MaxAttempts: 7}, l.To("a").Snapshot(), "of one that nobody has called")
		assert.Empty(t, l.Snapshot(), "destinations")

		require.Error(t, l.To("b").Do(t.Context(), retry.Unsafe, failing(errRefused).op))
		s := l.To("b").Snapshot()
		assert.Equal(t, breaker.Open, s.Breaker, "Breaker")
		assert.Equal(t, []retry.DestinationState{s}, l.Snapshot(), "Snapshot")
		time.Sleep(time.Hour)
		assert.Equal(t, breaker.Open, l.To("b").Snapshot().Breaker, "an open breaker stays so until somebody asks for an attempt")

		d := to(t, fragile)
		require.NoError(t, d.Do(t.Context(), retry.Unsafe, func(context.Context) error {
			assert.Equal(t, 1, d.Snapshot().Calls, "calls under way")
			return nil
		}))
	})
}

// Replace swaps the policies atomically; calls under way finish under the old one; a destination whose breaker and
// budget settings are equal keeps their state.
func TestReplacedPolicies(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		with := func(attempts, burst, results int) retry.Organization {
			return retry.Organization{Default: retry.Policy{MaxAttempts: attempts, Jitter: retry.NoJitter, Budget: retry.Budget{Burst: burst}, Breaker: breaker.Settings{MinResults: results}}}
		}
		l := layer(t, with(3, 5, 3), nil)
		d := l.To("a")
		s := always(errRefused)
		var during *retry.Error
		done := make(chan struct{})
		go func() { // two failures and a breaker that opens at the third
			defer close(done)
			during = failure(t, d.Do(t.Context(), retry.Unsafe, s.op))
		}()
		synctest.Wait()
		require.NoError(t, l.Replace(with(1, 5, 3)), "Replace")
		assert.Equal(t, 1, d.Snapshot().Calls, "the call under way is still counted")
		<-done
		assert.Len(t, s.at, 3, "attempts of the call under way")
		assert.ErrorIs(t, during, retry.ErrAttempts, "Do")
		state := d.Snapshot()
		assert.Equal(t, 1, state.MaxAttempts, "attempts of the next call")
		assert.Equal(t, breaker.Open, state.Breaker, "a breaker with equal settings keeps its state")
		assert.Less(t, state.Budget, 4.0, "a budget with equal settings keeps its state")
		assert.Zero(t, state.Calls, "calls under way")

		require.NoError(t, l.Replace(with(1, 6, 3)), "Replace")
		assert.Equal(t, breaker.Open, d.Snapshot().Breaker, "breaker where only the budget changes")
		assert.Equal(t, 6.0, d.Snapshot().Budget, "a budget with other settings is full")

		spelled := with(1, 6, 3)
		spelled.Default.Breaker = spelled.Default.Breaker.WithDefaults()
		require.NoError(t, l.Replace(spelled), "Replace")
		assert.Equal(t, breaker.Open, d.Snapshot().Breaker, "breaker where the defaults are only written out")

		require.NoError(t, l.Replace(with(1, 6, 4)), "Replace")
		assert.Equal(t, breaker.Closed, d.Snapshot().Breaker, "a breaker with other settings is closed")

		require.Error(t, d.Do(t.Context(), retry.Unsafe, failing(rationed{20 * time.Second}).op))
		require.NoError(t, l.Replace(with(2, 7, 5)), "Replace")
		assert.Equal(t, 20*time.Second, d.Snapshot().PausedFor, "a pause is kept in any case")

		before := d.Snapshot()
		assert.Error(t, l.Replace(with(-1, 7, 5)), "Replace with a bad policy")
		assert.Equal(t, before, d.Snapshot(), "state after a Replace that failed")
	})
}

func TestALayerUnderManyGoroutines(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := layer(t, retry.Organization{Default: retry.Policy{MaxAttempts: 2}}, &retry.Options{MaxDestinations: 10})
		var wg sync.WaitGroup
		for i := range 500 {
			wg.Go(func() {
				_ = l.To(fmt.Sprint("host-", i%25)).Do(t.Context(), retry.Unsafe, failing(errRefused).op)
				switch i % 50 {
				case 0:
					assert.NoError(t, l.Replace(retry.Organization{Default: retry.Policy{MaxAttempts: 2 + i%3, Budget: retry.Budget{Burst: 1 + i%7}}}), "Replace")
				case 1:
					l.Snapshot()
				}
			})
		}
		wg.Wait()
		for _, s := range l.Snapshot() {
			assert.Zero(t, s.Calls, "calls under way to %s", s.Name)
		}
	})
}

func TestWithSharesBreakerBudgetAndPushback(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for name, d := range map[string]*retry.Destination{
			"of a destination": to(t, fragile), "of a layer": layer(t, retry.Organization{Default: fragile}, nil).To("payments"),
		} {
			v, err := d.With(retry.Policy{MaxAttempts: 2, BaseDelay: 8 * time.Second, MaxDelay: 8 * time.Second, Jitter: retry.NoJitter})
			require.NoError(t, err, "With")
			assert.Equal(t, "payments", v.Name(), "Name")
			s := failing(errRefused)
			require.NoError(t, v.Do(t.Context(), retry.Unsafe, s.op), name)
			assert.Equal(t, []time.Duration{8 * time.Second}, s.gaps(), "%s: the delay of the variant", name)

			require.Error(t, v.Do(t.Context(), retry.Unsafe, failing(errRefused, errRefused).op), name)
			assert.ErrorIs(t, d.Do(t.Context(), retry.Unsafe, failing().op), breaker.ErrOpen, "%s: the breaker that the variant opened", name)
			assert.InDelta(t, 9, d.Snapshot().Budget, 0.5, "%s: the budget that the variant used", name)

			time.Sleep(20 * time.Second)
			require.NoError(t, d.Do(t.Context(), retry.Unsafe, failing().op), name)
			one, err := v.With(retry.Policy{MaxAttempts: 1})
			require.NoError(t, err, "With")
			require.Error(t, one.Do(t.Context(), retry.Unsafe, failing(rationed{5 * time.Second}).op), name)
			assert.Equal(t, 5*time.Second, d.Snapshot().PausedFor, "%s: the pause that the variant met", name)
		}
		_, err := to(t, fragile).With(retry.Policy{MaxAttempts: -1})
		assert.ErrorContains(t, err, "MaxAttempts is -1", "With")
	})
}

func TestADestinationNeedsANameAndAGoodPolicy(t *testing.T) {
	_, err := retry.NewDestination("", retry.Policy{}, nil)
	assert.ErrorContains(t, err, "a destination needs a name", "NewDestination")
	_, err = retry.NewDestination("a", retry.Policy{Breaker: breaker.Settings{Probes: -1}}, nil)
	assert.ErrorContains(t, err, "Probes is -1", "NewDestination")
}
