package httpclient

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/reintento/reintento/classify"
	"github.com/reintento/reintento/deadline"
	"github.com/reintento/reintento/retry"
)

// What is read of a failed response before it is given up, so that its
// connection can be used again, and how long that may take.
const (
	drainBytes = 4 << 10
	drainTime  = 50 * time.Millisecond
)

// drain reads the start of a failed response, closes it, and returns the
// response as an error.
func drain(resp *http.Response, call *retry.Call, within time.Duration, cancel context.CancelCauseFunc) *StatusError {
	e := statusError(resp, call)
	if !anotherConnection(resp.StatusCode) { // an undrained one is closed
		e.Body, e.Truncated = readSome(resp.Body, within, cancel)
	}
	resp.Body.Close()
	return e
}

// patience is how long a failed response may be read: that is a part of the
// call, whose time bounds it too.
func (x *exchange) patience() time.Duration {
	d := drainTime
	if left, ok := deadline.Remaining(x.ctx); ok {
		d = min(d, left)
	}
	if until := x.limit.until; !until.IsZero() {
		d = min(d, time.Until(until))
	}
	return d
}

// readSome reads up to drainBytes of a body within d, and reports whether there
// was more. A body that does not come in time is cut.
func readSome(body io.ReadCloser, d time.Duration, cancel context.CancelCauseFunc) (some []byte, more bool) {
	if body == http.NoBody {
		return nil, false
	}
	timer := time.AfterFunc(d, func() {
		if cancel != nil {
			cancel(context.Canceled)
		}
		body.Close()
	})
	defer timer.Stop()
	some, err := io.ReadAll(io.LimitReader(body, drainBytes))
	if err != nil || len(some) < drainBytes {
		return some, err != nil
	}
	n, err := body.Read(make([]byte, 1))
	return some, n > 0 || err != io.EOF
}

// handOver gives the last response to the caller. The time of the whole ends
// here; what the attempt holds ends with the response's body.
func (x *exchange) handOver() *http.Response {
	resp := x.response
	x.response = nil
	x.body.last()
	x.content = resp.Body
	if end, ok := x.clientEnd(); ok && retry.AttemptOf(x.ctx) > 0 {
		x.limit.bound(time.Until(end))
	}
	b := (*responseBody)(x)
	switch w := resp.Body.(type) {
	case io.Writer: // 101: the connection itself
		resp.Body = &upgradedBody{responseBody: b, Writer: w}
	default:
		if resp.Body == http.NoBody {
			b.end()
			break
		}
		resp.Body = b
	}
	return resp
}

// responseBody is an exchange as the body of the response that it hands over. It
// ends what belongs to the attempt when the body reaches its end, fails or is
// closed.
type responseBody exchange

func (b *responseBody) Read(p []byte) (int, error) {
	x := (*exchange)(b)
	if d := x.transport.BodyIdleTimeout; d > 0 && x.limit.cancel != nil {
		timer := time.AfterFunc(d, func() { x.limit.cancel(errBodyIdle) })
		defer timer.Stop()
	}
	n, err := x.content.Read(p)
	if err != nil {
		if err != io.EOF {
			if x.lost == nil {
				x.lost = b.broken(err)
			}
			err = x.lost
		}
		b.end()
	}
	return n, err
}

// broken says what an error of the body means, and tells the loop. In an attempt
// of a function around it does so too when that attempt's time, or its caller's,
// cut the body: the response had come.
func (b *responseBody) broken(err error) error {
	x := (*exchange)(b)
	ctx, call := x.request.Context(), x.passage.Call()
	_, inside := retry.CallOf(ctx)
	running := inside && retry.AttemptOf(ctx) > 0
	if inside && !running && ctx.Err() != nil && call.Outermost() == call {
		return fmt.Errorf("httpclient: the body was read after its attempt had ended: read it inside the operation given to retry.Do: %w", err)
	}
	if x.ctx.Err() != nil && !running || classify.Error(err).Class == classify.Permanent {
		return err // the caller's own doing: it has gone, or it reads a body that it has closed
	}
	v := classify.Verdict{Class: classify.Ambiguous, Origin: classify.Remote, Reason: "body", Repeatable: x.safety != retry.Unsafe}
	switch {
	case x.limit.isOver(), b.clientTimedOut():
		err, v.Origin, v.Reason = errClientTimeout, classify.Caller, "timeout"
	case x.ctx.Err() == context.Canceled:
		v.Origin, v.Reason = classify.Caller, "canceled"
	case x.ctx.Err() != nil:
		v.Origin, v.Reason = classify.Caller, "timeout"
	case x.transport.BodyIdleTimeout > 0 && errors.Is(err, context.Canceled):
		err = errBodyIdle
	}
	if b.ended.CompareAndSwap(false, true) {
		defer b.release()
		call.BodyFailed(err, v)
	}
	if retry.AttemptOf(ctx) == 0 {
		return err
	}
	return &bodyError{err, v}
}

// clientTimedOut reports whether the Timeout of an http.Client is over, where our
// own timer came too late.
func (b *responseBody) clientTimedOut() bool {
	_, ok := b.ctx.(watched)
	return ok && b.ctx.Err() == context.DeadlineExceeded && retry.AttemptOf(b.request.Context()) > 0
}

// bodyError tells the layer around what a lost body means, which the error by
// itself does not: the same one could come from anywhere.
type bodyError struct {
	error
	verdict classify.Verdict
}

func (e *bodyError) Unwrap() error { return e.error }

// Timeout reports whether the body was cut by time.
func (e *bodyError) Timeout() bool {
	t, ok := errors.AsType[interface {
		error
		Timeout() bool
	}](e.error)
	return ok && t.Timeout()
}

// Temporary is what a net.Error has beside it.
func (e *bodyError) Temporary() bool { return e.Timeout() }

func (e *bodyError) Verdict() classify.Verdict { return e.verdict }

func (b *responseBody) Close() error {
	err := b.content.Close()
	b.end()
	return err
}

func (b *responseBody) end() {
	if b.ended.CompareAndSwap(false, true) {
		b.release()
	}
}

func (b *responseBody) release() {
	x := (*exchange)(b)
	x.limit.stop()
	x.limit.cancel(context.Canceled)
	x.body.finish()
	x.unwatch()
}

// upgradedBody is the body of a 101: the connection, to write to as well.
type upgradedBody struct {
	*responseBody
	io.Writer
}

// CloseWrite ends what is written, where the connection can do so: what the other
// side still says can be read after that.
func (b *upgradedBody) CloseWrite() error {
	if c, ok := b.content.(interface{ CloseWrite() error }); ok {
		return c.CloseWrite()
	}
	return fmt.Errorf("httpclient: CloseWrite: %w", errors.ErrUnsupported)
}
