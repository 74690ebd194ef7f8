package retry

import (
	"testing"
	"testing/synctest"
	"time"
)

func TestInstants(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		now := time.Now()
		then := present()
		if got := at(now); got != then {
			t.Errorf("at(now) = %d, present() = %d, want the same", got, then)
		}
		time.Sleep(time.Minute)
		if got := then.since(); got != time.Minute {
			t.Errorf("since a minute ago = %v, want 1m", got)
		}
		if got := then.time(time.Now()); !got.Equal(now) || got.Sub(now) != 0 {
			t.Errorf("time = %v, want %v by both clocks", got, now)
		}
		if got := then.after(time.Hour).time(time.Now()); !got.Equal(now.Add(time.Hour)) {
			t.Errorf("an hour after = %v, want %v", got, now.Add(time.Hour))
		}
	})
	if got := present().after(forever); got != never || !got.time(time.Now()).IsZero() {
		t.Errorf("after forever = %d, which is %v, want never, which is no time", got, got.time(time.Now()))
	}
}
