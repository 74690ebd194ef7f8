package retry_test

import (
	"context"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/reintento/reintento/breaker"
	"github.com/reintento/reintento/retry"
)

// B134: new key per attempt: one purchase becomes two or three. fn reads the key from the context in each of 3
// attempts: identical. Two Do calls: different. One key per intention, created outside the loop, same on every path.
// B135: key sticks to the client and reaches the next operation: call A with key K, then call B without: B must carry
// another key - also in parallel under -race.
func TestOneKeyForEachIntention(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := to(t, retry.Policy{Budget: retry.Budget{Burst: 100}, Breaker: breaker.Settings{Disabled: true}})
		var mu sync.Mutex
		keys := map[string]int{}
		var wg sync.WaitGroup
		for i := range 20 {
			wg.Go(func() {
				var opts []retry.CallOption
				if i == 0 {
					opts = append(opts, retry.WithKey("K"))
				}
				s := failing(context.DeadlineExceeded, rationed{})
				assert.NoError(t, d.Do(t.Context(), retry.Keyed, func(ctx context.Context) error {
					mu.Lock()
					keys[retry.Key(ctx)]++
					mu.Unlock()
					return s.op(ctx)
				}, opts...), "Do")
			})
		}
		wg.Wait()
		assert.Len(t, keys, 20, "keys of 20 calls")
		for key, n := range keys {
			assert.Equal(t, 3, n, "attempts with key %q", key)
			if id, err := uuid.Parse(key); key != "K" && (err != nil || id.Version() != 4) {
				t.Errorf("key %q is no UUIDv4: %v", key, err)
			}
		}
		assert.Equal(t, 3, keys["K"], "attempts with the caller's key")
	})
}

// In Do the key is made when first asked for, so an error's key is empty where nobody asked.
func TestAKeyIsMadeWhenAskedFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := to(t, retry.Policy{})
		err := failure(t, d.Do(t.Context(), retry.Unsafe, failing(errNo).op))
		assert.Empty(t, err.Intention.Key, "key that nobody asked for")

		var in retry.Intention
		err = failure(t, d.Do(t.Context(), retry.Keyed, func(ctx context.Context) error {
			in, _ = retry.IntentionOf(ctx)
			return errNo
		}, retry.Named("charge")))
		assert.Equal(t, err.Intention, in, "IntentionOf and the error's")
		assert.NotEmpty(t, in.Key, "key")
		assert.Equal(t, "charge", in.Operation, "operation")
		assert.Equal(t, err.Attempts[0].Start, in.FirstSent, "FirstSent")

		assert.Empty(t, retry.Key(t.Context()), "Key outside")
		_, ok := retry.IntentionOf(t.Context())
		assert.False(t, ok, "IntentionOf outside")
		assert.Equal(t, t.Context(), retry.SubKey(t.Context(), "part"), "SubKey outside")
	})
}

func TestAStoredIntentionGoesOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := to(t, steady)
		stored := retry.Intention{Key: "order-17", Operation: "charge", FirstSent: time.Now().Add(-time.Hour)}
		ctx := retry.WithIntention(t.Context(), stored)
		got, ok := retry.IntentionOf(ctx)
		assert.True(t, ok, "IntentionOf")
		assert.Equal(t, stored, got, "IntentionOf")

		ask := func(opts ...retry.CallOption) (in retry.Intention) {
			require.NoError(t, d.Do(ctx, retry.Keyed, func(ctx context.Context) error { in, _ = retry.IntentionOf(ctx); return nil }, opts...))
			return in
		}
		assert.Equal(t, stored, ask(), "the operation under it")
		assert.Equal(t, stored, ask(), "the same operation once more")
		other := ask(retry.Named("mail"))
		assert.NotEqual(t, stored.Key, other.Key, "key of another operation")
		assert.Equal(t, other.Key, ask(retry.Named("mail")).Key, "key of the other operation once more")
		assert.Equal(t, stored.Key, ask(retry.WithKey(stored.Key)).Key, "its own key given once more")
		assert.Equal(t, stored.FirstSent, ask(retry.WithKey(stored.Key)).FirstSent, "FirstSent where its own key is given once more")
		assert.Equal(t, "mine", ask(retry.WithKey("mine")).Key, "another key given")
	})
}

func TestAnIntentionWithoutKeyInsideAnAttemptDerivesOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var keys []string
		s := failing(errRefused)
		require.NoError(t, to(t, steady).Do(t.Context(), retry.Unsafe, func(ctx context.Context) error {
			part := retry.WithIntention(ctx, retry.Intention{Operation: "mail"})
			in, _ := retry.IntentionOf(part)
			assert.Equal(t, "mail", in.Operation, "operation of the part")
			in, _ = retry.IntentionOf(retry.SubKey(ctx, "part"))
			assert.Equal(t, "charge", in.Operation, "operation of a part that has no name of its own")
			keys = append(keys, retry.Key(ctx), retry.Key(part))
			return s.op(ctx)
		}, retry.Named("charge")), "Do")
		assert.Equal(t, keys[:2], keys[2:], "keys of the second attempt")
		assert.NotEqual(t, keys[0], keys[1], "key of the part")
	})
}

// B136: key derived from volatile fields: hashing the whole payload includes timestamps, so a retry of the same intent has
// another key. Random once and stored, or derived from what the caller names.
func TestNamedPartsHaveTheSameKeyInEachAttempt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var keys [][]string
		op := func(s *script, parts ...string) func(context.Context) error {
			return func(ctx context.Context) error {
				var all []string
				for _, part := range parts {
					all = append(all, retry.Key(retry.SubKey(ctx, part)))
				}
				keys = append(keys, all)
				return s.op(ctx)
			}
		}
		d := to(t, steady)
		require.NoError(t, d.Do(t.Context(), retry.Keyed, op(failing(errRefused), "a", "b"), retry.WithKey("K")), "Do")
		require.NoError(t, d.Do(t.Context(), retry.Keyed, op(failing(), "b", "a"), retry.WithKey("K")), "Do in another process")
		require.NoError(t, d.Do(t.Context(), retry.Keyed, op(failing(), "a", "b"), retry.WithKey("L")), "Do of another intention")
		assert.Equal(t, keys[0], keys[1], "parts a and b in the second attempt")
		assert.Equal(t, []string{keys[0][1], keys[0][0]}, keys[2], "parts b and a elsewhere")
		assert.NotEqual(t, keys[0][0], keys[0][1], "two parts")
		assert.NotEqual(t, keys[0][0], keys[3][0], "one part of two intentions")
		for _, key := range keys[0] {
			id, err := uuid.Parse(key)
			assert.True(t, err == nil && id.Version() == 5, "key %q of a part must be a UUIDv5", key)
		}
	})
}

// The intention (not the attempt) remembers which operation took its key; that one keeps it in every attempt. Every
// other one gets a key of its own, and so does each equal one that follows in the same attempt.
func TestOperationsBelowAnAttemptShareOutItsKeys(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := to(t, steady)
		below := func(ctx context.Context, name string) (key string) {
			require.NoError(t, d.Do(ctx, retry.Unsafe, func(ctx context.Context) error {
				key = retry.Key(ctx)
				// What is deeper has keys of its own, and does not disturb the counting.
				return d.Do(ctx, retry.Unsafe, func(ctx context.Context) error {
					assert.Equal(t, key, retry.Key(ctx), "the first operation below takes the key itself")
					return nil
				})
			}, retry.Named(name)), "Do")
			return key
		}
		var attempts [][]string
		s := failing(errRefused, errRefused)
		require.NoError(t, d.Do(t.Context(), retry.Idempotent, func(ctx context.Context) error {
			keys := []string{retry.Key(ctx)}
			order := []string{"charge", "mail", "charge", "charge", "mail"}
			if len(s.at) == 2 { // another operation comes first this time
				order = []string{"mail", "charge", "charge", "mail", "charge"}
			}
			byName := map[string][]string{}
			for _, name := range order {
				byName[name] = append(byName[name], below(ctx, name))
			}
			attempts = append(attempts, append(append(keys, byName["charge"]...), byName["mail"]...))
			return s.op(ctx)
		}), "Do")
		assert.Equal(t, attempts[0], attempts[1], "keys of the second attempt")
		assert.Equal(t, attempts[0], attempts[2], "keys of the third attempt, in another order")
		assert.Equal(t, attempts[0][0], attempts[0][1], "the first operation takes the key itself")
		distinct := map[string]bool{}
		for _, key := range attempts[0] {
			distinct[key] = true
		}
		assert.Len(t, distinct, 5, "different keys of five operations: %v", attempts[0])
	})
}

// The keys of calls below derive from a received one, so that they are stable over the caller's attempts too.
func TestAReceivedKeyIsDerivedFromAndNeverTaken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := to(t, steady)
		handle := func(key string, mark bool) (keys []string) {
			ctx := retry.WithReceivedKey(t.Context(), key)
			if mark {
				var done func()
				ctx, done = retry.WithMark(ctx, 1, 3)
				defer done()
			}
			assert.Equal(t, key, retry.Key(ctx), "Key of the handler")
			for range 2 {
				require.NoError(t, d.Do(ctx, retry.Unsafe, func(ctx context.Context) error { keys = append(keys, retry.Key(ctx)); return nil }))
			}
			keys = append(keys, retry.Key(retry.SubKey(ctx, "part")))
			return keys
		}
		first := handle("K", true)
		assert.NotContains(t, first, "K", "keys below")
		assert.NotEqual(t, first[0], first[1], "keys of two equal operations")
		assert.Equal(t, first, handle("K", true), "keys in the caller's next attempt")
		assert.Equal(t, first, handle("K", false), "keys without a mark")
		assert.NotEqual(t, first, handle("L", true), "keys of another intention")
	})
}

func TestCheckKey(t *testing.T) {
	for _, key := range []string{"k", "550e8400-e29b-41d4-a716-446655440000", "!#$%&'()*+-./:;<=>?@[]^_`{|}~", strings.Repeat("k", 255)} {
		assert.NoError(t, retry.CheckKey(key), "CheckKey(%q)", key)
	}
	for _, key := range []string{"", " ", "a b", "a\tb", "a\n", `a"`, `a\b`, "a,b", "ä", "a\x7f", "a\x00", strings.Repeat("k", 256)} {
		assert.Error(t, retry.CheckKey(key), "CheckKey(%q)", key)
	}
}
