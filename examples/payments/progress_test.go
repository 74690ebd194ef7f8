package main

import (
	"bytes"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

func TestPlainLinesForEveryTenth(t *testing.T) {
	var b bytes.Buffer
	p := newProgress(&b, 40, time.Now())
	for range 30 {
		p.paid(toldApplied)
	}
	for range 10 {
		p.paid(toldUnknown)
	}
	p.end(false)
	lines := strings.Split(strings.TrimSpace(b.String()), "\n")
	if len(lines) != 10 || !strings.HasSuffix(lines[0], " 4/40 paid") || !strings.HasSuffix(lines[9], " 30/40 paid, 10 unknown") {
		t.Errorf("40 payments wrote\n%s\nwant ten lines, the last of 30 paid and 10 unknown", b.String())
	}
	if strings.ContainsAny(b.String(), "\r\x1b") {
		t.Errorf("40 payments wrote %q, want no control characters away from a terminal", b.String())
	}
}

func TestABarOnATerminal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var b bytes.Buffer
		p := newProgress(&b, 3, time.Now())
		p.terminal = true
		p.paid(toldApplied)
		time.Sleep(1200 * time.Millisecond)
		p.notef("the bank has crashed")
		p.paid(toldFailed)
		p.paid(toldUnknown)
		p.end(false)
		want := "\r\x1b[K[##########....................] 1/3 paid" +
			"\r\x1b[K  1.2s  the bank has crashed\n" +
			"\r\x1b[K[##########....................] 1/3 paid" +
			"\r\x1b[K[####################..........] 1/3 paid, 1 failed" +
			"\r\x1b[K[##############################] 1/3 paid, 1 failed, 1 unknown"
		if got := b.String(); got != want+"\n" {
			t.Errorf("the terminal got\n%q\nwant\n%q", got, want+"\n")
		}
	})
}
