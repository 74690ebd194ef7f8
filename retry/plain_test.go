package retry_test

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"

	"github.com/reintento/reintento/retry"
)

func TestPlain(t *testing.T) {
	at := func(u string) error { return &url.Error{Op: "Post", URL: u, Err: errCut} }
	unparsable := &url.Error{Op: "parse", URL: "http://user:hunter2@[::1/?token=hunter2", Err: errors.New("missing ']' in host")}
	for _, tt := range []struct {
		err  error
		want string
	}{
		{nil, "<nil>"},
		{errCut, "the answer was lost"},
		{errors.Join(errCut, errNo), "the answer was lost; no such account"},
		{at("https://pay.example/charges"), `Post "https://pay.example/charges": the answer was lost`},
		{at("https://pay.example?token=hunter2"), `Post "https://pay.example": the answer was lost`},
		{at("https://user:hunter2@pay.example/a@b?token=hunter2#hunter2"), `Post "https://pay.example/a@b": the answer was lost`},
		{at("//user:hunter2@pay.example/a"), `Post "//pay.example/a": the answer was lost`},
		{at("user:hunter2@pay.example/a"), `Post "pay.example/a": the answer was lost`},
		{errors.New("one\r\ntwo\rthree"), "one; two; three"},
		{at("/charges?token=hunter2"), `Post "/charges": the answer was lost`},
		{at("https://pay.example/\"?token=\"hunter2"), `Post "https://pay.example/\"": the answer was lost`},
		{unparsable, `parse "http://[::1/": missing ']' in host`},
		{fmt.Errorf("charge: %w", at("https://pay.example/?hunter2")), `charge: Post "https://pay.example/": the answer was lost`},
		{errors.Join(at("https://a.example/?hunter2"), fmt.Errorf("and %w", at("https://b.example/?hunter2"))),
			`Post "https://a.example/": the answer was lost; and Post "https://b.example/": the answer was lost`},
		{&url.Error{Op: "Get", URL: "https://a.example/?hunter2", Err: at("https://b.example/?hunter2")},
			`Get "https://a.example/": Post "https://b.example/": the answer was lost`},
	} {
		assert.Equal(t, tt.want, retry.Plain(tt.err))
	}
}

// An error of another client holds the whole URL. Neither our own text nor the log
// passes it on; the error itself is there as it was.
func TestNoSecretOfAURLIsPrinted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		d, err := retry.NewDestination("payments", steady, &retry.Options{Observer: retry.LogTo(slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug})))})
		assert.NoError(t, err)
		secret := &url.Error{Op: "Post", URL: "https://user:hunter2@pay.example/?token=hunter2", Err: errRefused}
		failed := failure(t, d.Do(t.Context(), retry.Unsafe, always(secret).op))
		assert.Contains(t, failed.Error(), `Post "https://pay.example/": connection refused`)
		assert.NotContains(t, failed.Error(), "hunter2")
		assert.Contains(t, log.String(), "pay.example")
		assert.NotContains(t, log.String(), "hunter2")
		assert.Same(t, secret, failed.Last)
	})
	assert.NotPanics(t, func() { _ = (&retry.Error{}).Error() }, "the text of a zero Error")
}
