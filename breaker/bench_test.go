package breaker_test

import (
	"errors"
	"testing"
	"time"

	"github.com/sony/gobreaker/v2"

	"github.com/reintento/reintento/breaker"
)

// Each path stands beside plain gobreaker with the same settings, so that one run compares them.

func benchmarked(b *testing.B, s breaker.Settings) *breaker.Breaker {
	b.Helper()
	br, err := breaker.New("payments", s, nil)
	if err != nil {
		b.Fatal(err)
	}
	return br
}

func plain(timeout time.Duration) *gobreaker.TwoStepCircuitBreaker[struct{}] {
	return gobreaker.NewTwoStepCircuitBreaker[struct{}](gobreaker.Settings{
		Interval: 30 * time.Second, BucketPeriod: 3 * time.Second, Timeout: timeout,
	})
}

func BenchmarkClosed(b *testing.B) {
	b.Run("gobreaker", func(b *testing.B) {
		g := plain(5 * time.Second)
		b.ReportAllocs()
		for b.Loop() {
			done, err := g.Allow()
			if err != nil {
				b.Fatal(err)
			}
			done(nil)
		}
	})
	b.Run("breaker", func(b *testing.B) {
		br := benchmarked(b, breaker.Settings{})
		b.ReportAllocs()
		for b.Loop() {
			p, err := br.Allow()
			if err != nil {
				b.Fatal(err)
			}
			p.Settle(breaker.Success)
		}
	})
	b.Run("breaker excluded", func(b *testing.B) {
		br := benchmarked(b, breaker.Settings{})
		b.ReportAllocs()
		for b.Loop() {
			p, err := br.Allow()
			if err != nil {
				b.Fatal(err)
			}
			p.Settle(breaker.Excluded)
		}
	})
	b.Run("breaker disabled", func(b *testing.B) {
		br := benchmarked(b, breaker.Settings{Disabled: true})
		b.ReportAllocs()
		for b.Loop() {
			p, err := br.Allow()
			if err != nil {
				b.Fatal(err)
			}
			p.Settle(breaker.Success)
		}
	})
}

func BenchmarkClosedParallel(b *testing.B) {
	b.Run("gobreaker", func(b *testing.B) {
		g := plain(5 * time.Second)
		b.SetParallelism(8)
		b.ReportAllocs()
		b.RunParallel(func(pb *testing.PB) {
			for pb.Next() {
				done, err := g.Allow()
				if err != nil {
					b.Error(err)
					return
				}
				done(nil)
			}
		})
	})
	b.Run("breaker", func(b *testing.B) {
		br := benchmarked(b, breaker.Settings{})
		b.SetParallelism(8)
		b.ReportAllocs()
		b.RunParallel(func(pb *testing.PB) {
			for pb.Next() {
				p, err := br.Allow()
				if err != nil {
					b.Error(err)
					return
				}
				p.Settle(breaker.Success)
			}
		})
	})
}

func BenchmarkOpen(b *testing.B) {
	b.Run("gobreaker", func(b *testing.B) {
		g := plain(time.Hour)
		for range 6 {
			done, err := g.Allow()
			if err != nil {
				b.Fatal(err)
			}
			done(errors.New("failure"))
		}
		b.ReportAllocs()
		for b.Loop() {
			if _, err := g.Allow(); err == nil {
				b.Fatal("allowed while open")
			}
		}
	})
	b.Run("breaker", func(b *testing.B) {
		br := benchmarked(b, breaker.Settings{MinResults: 1, OpenFor: time.Hour})
		p, err := br.Allow()
		if err != nil {
			b.Fatal(err)
		}
		p.Settle(breaker.Failure)
		b.ReportAllocs()
		for b.Loop() {
			if _, err := br.Allow(); err == nil {
				b.Fatal("allowed while open")
			}
		}
	})
}
