package httpclient

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/reintento/reintento/retry"
)

// The time of an attempt ends at the moment at which its head arrives: the run of
// the timer that comes too late for the one may not end the other.
func TestALateTimerDoesNotEndTheBody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancelCause(t.Context())
		var l limit
		l.start(&retry.Try{Timeout: time.Second}, cancel)
		l.mu.Lock() // it is the head that gets it first
		time.Sleep(time.Second)
		assert.True(t, l.halt(), "whether the attempt was within its time")
		l.mu.Unlock()
		l.bound(time.Hour)
		synctest.Wait()
		assert.False(t, l.isOver(), "whether the body's time is over")

		l.progress() // of an upload that goes on
		time.Sleep(59 * time.Minute)
		assert.NoError(t, ctx.Err())
		time.Sleep(time.Minute)
		synctest.Wait()
		assert.True(t, l.isOver(), "whether the body's time is over after an hour")
		assert.Equal(t, error(errClientTimeout), context.Cause(ctx))
	})
}
