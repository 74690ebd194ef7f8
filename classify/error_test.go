package classify_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"net"
	"net/http"
	"net/textproto"
	"net/url"
	"os"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/cenkalti/backoff/v4"
	"github.com/reintento/reintento/classify"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// opinion is an error that classifies itself.
type opinion struct{ v classify.Verdict }

func (o opinion) Error() string             { return "an error with an opinion" }
func (o opinion) Verdict() classify.Verdict { return o.v }

// sqlError is shaped like those of pgx and lib/pq.
type sqlError string

func (e sqlError) Error() string    { return "ERROR " + string(e) }
func (e sqlError) SQLState() string { return string(e) }

// slow is an error of somebody's own that says it is a timeout, and wraps
// another.
type slow struct{ err error }

func (s slow) Error() string { return "slow" }
func (s slow) Timeout() bool { return true }
func (s slow) Unwrap() error { return s.err }

// several is an error of several, with nothing in some places.
type several []error

func (several) Error() string     { return "several" }
func (s several) Unwrap() []error { return s }

// disguised becomes a permanent error when errors.As asks for one.
type disguised struct{}

func (disguised) Error() string { return "disguised" }
func (disguised) As(target any) bool {
	p, ok := target.(**backoff.PermanentError)
	if ok {
		*p = &backoff.PermanentError{Err: io.EOF}
	}
	return ok
}

var errOther = errors.New("something else")

func dialError(err error) error {
	return &net.OpError{Op: "dial", Net: "tcp", Err: err}
}

func readError(err error) error {
	return &net.OpError{Op: "read", Net: "tcp", Err: os.NewSyscallError("read", err)}
}

func jsonError(s string, into any) error { return json.Unmarshal([]byte(s), into) }

func TestError(t *testing.T) {
	_, numError := strconv.Atoi("x")
	_, marshalError := json.Marshal(map[string]any{"f": func() {}})
	_, infError := json.Marshal(math.Inf(1))
	_, parseError := url.Parse(strings.Replace("http://a_b/", "_", " ", 1))
	_, openError := os.Open(t.TempDir() + "/none")

	remote := func(c classify.Class, reason string) classify.Verdict {
		return classify.Verdict{Class: c, Reason: reason}
	}
	of := func(c classify.Class, o classify.Origin, reason string) classify.Verdict {
		return classify.Verdict{Class: c, Origin: o, Reason: reason}
	}
	const ambiguous, retryable, permanent = classify.Ambiguous, classify.Retryable, classify.Permanent
	tests := []struct {
		name string
		err  error
		want classify.Verdict
	}{
		{"an unknown error", errOther, remote(ambiguous, "unknown")},
		{"a wrapped unknown error", fmt.Errorf("x: %w", errOther), remote(ambiguous, "unknown")},
		{"nil, a mistake of the program", nil, remote(ambiguous, "unknown")},
		{"nothing in an error of several", several{nil, nil}, remote(ambiguous, "unknown")},
		{"nothing beside something", several{nil, io.EOF}, remote(ambiguous, "closed")},

		{"marked permanent", classify.As(permanent, errOther), remote(permanent, "permanent")},
		{"marked retryable", classify.As(retryable, errOther), remote(retryable, "retryable")},
		{"marked ambiguous", classify.As(ambiguous, errOther), remote(ambiguous, "unknown")},
		{"marked with a class that does not exist", classify.As(7, errOther), remote(ambiguous, "unknown")},
		{"a mark keeps reason and origin", classify.As(permanent, context.Canceled), of(permanent, classify.Caller, "canceled")},
		{"a mark on a certificate", classify.As(retryable, x509.UnknownAuthorityError{}), remote(retryable, "certificate")},
		{"the outer mark counts", classify.As(permanent, classify.As(retryable, errOther)), remote(permanent, "permanent")},
		{"a mark keeps the hint below it", classify.As(ambiguous, classify.After(time.Second, io.EOF)),
			classify.Verdict{Reason: "closed", RetryAfter: time.Second}},
		{"a wait", classify.After(3*time.Second, errOther), classify.Verdict{Class: retryable, Reason: "retryable", RetryAfter: 3 * time.Second}},
		{"a negative wait", classify.After(-1, errOther), remote(retryable, "retryable")},
		{"a wait replaces another", classify.After(time.Second, classify.After(time.Hour, errOther)),
			classify.Verdict{Class: retryable, Reason: "retryable", RetryAfter: time.Second}},
		{"backoff's permanent", backoff.Permanent(errOther), remote(permanent, "permanent")},
		{"backoff's permanent around a reset", backoff.Permanent(syscall.ECONNRESET), remote(permanent, "reset")},
		{"backoff's permanent around nothing", &backoff.PermanentError{}, remote(permanent, "permanent")},
		{"backoff's permanent by an As method", disguised{}, remote(permanent, "closed")},
		{"its own opinion", opinion{classify.Verdict{Class: retryable, Origin: classify.Local, Reason: "own", RetryAfter: time.Second, Throttled: true, Repeatable: true}},
			classify.Verdict{Class: retryable, Origin: classify.Local, Reason: "own", RetryAfter: time.Second, Throttled: true, Repeatable: true}},
		{"its own opinion out of every range", opinion{classify.Verdict{Class: 9, Origin: 9, RetryAfter: -1}}, remote(ambiguous, "unknown")},
		{"its own opinion without a reason", opinion{classify.Verdict{Class: permanent}}, remote(permanent, "permanent")},
		{"a mark on an opinion", classify.As(ambiguous, opinion{classify.Verdict{Class: permanent, Reason: "own", Repeatable: true}}),
			classify.Verdict{Reason: "own", Repeatable: true}},
		{"a mark inside of what is recognised", &url.Error{Op: "Post", Err: dialError(classify.As(permanent, errOther))}, remote(permanent, "permanent")},

		// B62: a type assertion instead of errors.As: permanent errors are retried once wrapped.
		{"wrapped permanent", fmt.Errorf("x: %w", backoff.Permanent(errOther)), remote(permanent, "permanent")},
		{"permanent wrapped thrice", fmt.Errorf("x: %w", fmt.Errorf("y: %w", &url.Error{Err: backoff.Permanent(errOther)})), remote(permanent, "permanent")},
		{"joined permanent", errors.Join(errOther, fmt.Errorf("x: %w", errors.Join(nil, backoff.Permanent(errOther)))), remote(permanent, "permanent")},
		{"a wrapped mark", fmt.Errorf("x: %w", classify.As(permanent, errOther)), remote(permanent, "permanent")},

		{"joined: what is known outweighs the unknown", errors.Join(errOther, dialError(errOther)), remote(retryable, "dial")},
		{"joined: the worst counts", errors.Join(dialError(errOther), io.EOF, sql.ErrNoRows), remote(ambiguous, "closed")},
		{"joined: permanent is worse than retryable", errors.Join(dialError(errOther), sql.ErrNoRows), remote(permanent, "sql")},
		{"joined: the first of equals", errors.Join(io.EOF, syscall.ECONNRESET), remote(ambiguous, "closed")},
		{"joined: a mark outweighs a guess", errors.Join(io.EOF, classify.As(retryable, errOther)), remote(retryable, "retryable")},
		{"joined: the worst mark counts", errors.Join(classify.As(retryable, errOther), classify.As(ambiguous, errOther)), remote(ambiguous, "unknown")},
		{"joined: the longest wait, and repeatable only if all are",
			errors.Join(classify.After(time.Minute, errOther), opinion{classify.Verdict{Class: permanent, Reason: "own", Repeatable: true}}),
			classify.Verdict{Class: permanent, Reason: "own", RetryAfter: time.Minute}},
		{"joined: among equals the wait of the later one, too", errors.Join(classify.As(retryable, errOther), classify.After(time.Second, errOther)),
			classify.Verdict{Class: retryable, Reason: "retryable", RetryAfter: time.Second}},
		{"joined by fmt", fmt.Errorf("%w: %w", errOther, io.EOF), remote(ambiguous, "closed")},
		{"a mark around a join", classify.As(retryable, errors.Join(errOther, io.EOF)), remote(retryable, "closed")},

		{"deadline", context.DeadlineExceeded, remote(ambiguous, "timeout")},
		{"cancelled", context.Canceled, of(ambiguous, classify.Caller, "canceled")},
		{"cancelled inside of a url.Error", &url.Error{Op: "Get", URL: "http://x.test", Err: context.Canceled}, of(ambiguous, classify.Caller, "canceled")},
		{"a deadline of a connection", readError(os.ErrDeadlineExceeded), remote(ambiguous, "timeout")},
		{"a timeout of the system", readError(syscall.ETIMEDOUT), remote(ambiguous, "timeout")},
		{"a url.Error is no timeout by its type", &url.Error{Op: "Post", Err: errOther}, remote(ambiguous, "unknown")},
		{"somebody's timeout", slow{errOther}, remote(ambiguous, "timeout")},
		{"somebody's timeout around what is known", slow{dialError(syscall.ECONNREFUSED)}, remote(retryable, "dial")},
		{"somebody's timeout beside what is known", errors.Join(slow{}, dialError(syscall.ECONNREFUSED)), remote(ambiguous, "timeout")},

		{"EOF", io.EOF, remote(ambiguous, "closed")},
		{"unexpected EOF", io.ErrUnexpectedEOF, remote(ambiguous, "closed")},
		{"use of a closed connection", &net.OpError{Op: "write", Err: net.ErrClosed}, remote(ambiguous, "closed")},
		{"a closed pipe", io.ErrClosedPipe, remote(ambiguous, "closed")},
		{"reset while reading", readError(syscall.ECONNRESET), remote(ambiguous, "reset")},
		{"broken pipe", &net.OpError{Op: "write", Err: os.NewSyscallError("write", syscall.EPIPE)}, remote(ambiguous, "reset")},
		{"aborted", readError(syscall.ECONNABORTED), remote(ambiguous, "reset")},
		{"unreachable while reading", readError(syscall.EHOSTUNREACH), remote(ambiguous, "unknown")},

		{"refused", dialError(os.NewSyscallError("connect", syscall.ECONNREFUSED)), remote(retryable, "dial")},
		{"refused, bare", syscall.ECONNREFUSED, remote(retryable, "dial")},
		{"refused, through a client", &url.Error{Op: "Post", Err: dialError(syscall.ECONNREFUSED)}, remote(retryable, "dial")},
		{"dial: reset", dialError(syscall.ECONNRESET), remote(retryable, "dial")},
		{"dial: timeout", dialError(os.ErrDeadlineExceeded), remote(retryable, "timeout")},
		{"dial: cancelled", dialError(context.Canceled), of(retryable, classify.Caller, "canceled")},
		{"dial: no such name", dialError(&net.DNSError{IsNotFound: true}), remote(permanent, "dns")},
		{"dial: no more file handles", dialError(os.NewSyscallError("socket", syscall.EMFILE)), of(retryable, classify.Local, "local")},
		{"no more file handles, elsewhere", &fs.PathError{Op: "open", Err: syscall.EMFILE}, of(ambiguous, classify.Local, "local")},

		{"no such name", &net.DNSError{IsNotFound: true}, remote(permanent, "dns")},
		{"a name server that fails", &net.DNSError{Err: "server misbehaving", IsTemporary: true}, remote(retryable, "dns")},
		{"a name server that refuses", &net.DNSError{Err: "server misbehaving"}, remote(retryable, "dns")},
		{"a name server that is silent", &net.DNSError{IsTimeout: true}, remote(retryable, "timeout")},
		{"a lookup that was cancelled", &net.DNSError{UnwrapErr: context.Canceled}, of(retryable, classify.Caller, "canceled")},

		{"a proxy that refuses", &net.OpError{Op: "proxyconnect", Err: dialError(syscall.ECONNREFUSED)}, remote(retryable, "proxy")},
		{"a proxy that does not exist", &net.OpError{Op: "proxyconnect", Err: dialError(&net.DNSError{IsNotFound: true})}, remote(permanent, "dns")},
		{"a proxy with a bad certificate", &net.OpError{Op: "proxyconnect", Err: &tls.CertificateVerificationError{Err: errOther}}, remote(permanent, "certificate")},
		{"a proxy that speaks no TLS", &net.OpError{Op: "proxyconnect", Err: tls.RecordHeaderError{}}, remote(permanent, "tls")},
		{"a SOCKS proxy that refuses", &net.OpError{Op: "socks connect", Err: errors.New("unknown error host unreachable")}, remote(retryable, "proxy")},

		// B65: the error type changed in Go 1.20 and the assertion stopped matching; unknown-authority errors burn all attempts.
		{"certificate not verified", &tls.CertificateVerificationError{Err: errOther}, remote(permanent, "certificate")},
		{"unknown authority", x509.UnknownAuthorityError{}, remote(permanent, "certificate")},
		{"wrong name", x509.HostnameError{Certificate: new(x509.Certificate), Host: "x"}, remote(permanent, "certificate")},
		{"expired", x509.CertificateInvalidError{Reason: x509.Expired}, remote(permanent, "certificate")},
		{"wrapped unknown authority", &url.Error{Op: "Get", Err: fmt.Errorf("x: %w", x509.UnknownAuthorityError{})}, remote(permanent, "certificate")},

		{"an alert about our certificate", tls.AlertError(116), remote(permanent, "certificate")},
		{"another alert", tls.AlertError(80), remote(ambiguous, "tls")},
		{"an alert of ours", &net.OpError{Op: "local error", Err: byteError(20)}, remote(ambiguous, "tls")},
		{"an alert about our certificate, hidden", &net.OpError{Op: "remote error", Err: byteError(42)}, remote(permanent, "certificate")},
		{"a remote error that is no alert", &net.OpError{Op: "remote error", Err: errOther}, remote(ambiguous, "unknown")},
		{"a first record that is no TLS", tls.RecordHeaderError{Conn: &net.TCPConn{}}, remote(permanent, "tls")},
		{"a later record that is no TLS", tls.RecordHeaderError{}, remote(ambiguous, "tls")},
		{"HTTP in place of HTTPS", http.ErrSchemeMismatch, remote(permanent, "tls")},

		{"a URL that is none", parseError, of(permanent, classify.Local, "request")},
		{"a port that is none", dialError(&net.AddrError{Err: "invalid port"}), of(permanent, classify.Local, "request")},
		{"a network that is none", dialError(net.UnknownNetworkError("tcpx")), of(permanent, classify.Local, "request")},
		{"an address that is none", net.InvalidAddrError("x"), of(permanent, classify.Local, "request")},
		{"a scheme that is none", errors.New(`unsupported protocol scheme "x"`), of(permanent, classify.Local, "request")},
		{"a text in the middle proves nothing", errors.New(`x: unsupported protocol scheme "x"`), remote(ambiguous, "unknown")},
		{"a body beyond our limit", &http.MaxBytesError{Limit: 1}, of(permanent, classify.Local, "body")},

		// The error alone does not say whether an earlier send is hidden below it.
		{"a refused stream", mirror{Code: 7, Cause: errors.New("received from peer")}, remote(ambiguous, "refused_stream")},
		{"going away", errors.New("http2: Transport received GOAWAY from server ErrCode:NO_ERROR"), remote(ambiguous, "goaway")},
		{"a header that is none", textproto.ProtocolError("malformed MIME header"), remote(ambiguous, "malformed")},

		{"no rows", sql.ErrNoRows, remote(permanent, "sql")},
		{"no file", openError, of(permanent, classify.Local, "local")},
		{"no permission", fs.ErrPermission, of(permanent, classify.Local, "local")},
		{"no JSON", jsonError("x", new(int)), of(permanent, classify.Local, "decode")},
		{"JSON of another type", jsonError("[]", new(int)), of(permanent, classify.Local, "decode")},
		{"JSON into nothing", jsonError("1", nil), of(permanent, classify.Local, "decode")},
		{"a type that has no JSON", marshalError, of(permanent, classify.Local, "decode")},
		{"a value that has no JSON", infError, of(permanent, classify.Local, "decode")},
		{"JSON of a type that fails", &json.MarshalerError{Err: io.EOF}, of(permanent, classify.Local, "decode")},
		{"no number", numError, of(permanent, classify.Local, "decode")},
		{"an SQLSTATE inside of others", fmt.Errorf("pay: %w", errors.Join(errOther, sqlError("40001"))), remote(retryable, "conflict")},
		{"an empty SQLSTATE", sqlError(""), remote(ambiguous, "unknown")},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got := classify.Error(tt.err)
			if got != tt.want {
				t.Errorf("Error(%v) = %+v, want %+v", tt.err, got, tt.want)
			}
			if got.Reason != "own" {
				checkReason(t, got)
			}
			if tt.err != nil {
				if got := classify.Error(fmt.Errorf("x: %w", tt.err)); got != tt.want {
					t.Errorf("Error(x: %v) = %+v, want %+v as without the x", tt.err, got, tt.want)
				}
			}
		})
	}
}

// byteError is an alert as crypto/tls has it: a byte.
type byteError uint8

func (byteError) Error() string { return "tls: some alert" }

func TestErrorReadsSQLStates(t *testing.T) {
	tests := []struct {
		class  classify.Class
		reason string
		states string
	}{
		{classify.Retryable, "conflict", "40001 40P01 55P03"},
		{classify.Retryable, "sql", "57P03 53300 08001 08004"},
		{classify.Ambiguous, "sql", "08000 08003 08006 08007 40003 57P01 57P02 58000 58030 58P01 XX000 XX001"},
		{classify.Permanent, "sql", "08P01 23505 42601 22012 40000 40002 53100 53200 57014 57P04 28P01 3D000 00000 X"},
	}
	for _, tt := range tests {
		for state := range strings.FieldsSeq(tt.states) {
			want := classify.Verdict{Class: tt.class, Reason: tt.reason, Throttled: state == "53300"}
			if got := classify.Error(sqlError(state)); got != want {
				t.Errorf("Error(SQLSTATE %s) = %+v, want %+v", state, got, want)
			}
		}
	}
}

// B71: a trailing full stop or a reworded message changed the class of the error silently.
func TestErrorDoesNotReadTheTextOfTypedErrors(t *testing.T) {
	for _, text := range []string{"connection refused", "connection refused.", "verbindung verweigert", ""} {
		for _, err := range []error{
			&net.DNSError{Err: text, IsNotFound: true},
			renamed{dialError(syscall.ECONNREFUSED), text},
			renamed{&tls.CertificateVerificationError{Err: errOther}, text},
			renamed{classify.As(classify.Permanent, errOther), text},
			renamed{io.EOF, text},
			renamed{sqlError("40001"), text},
		} {
			inner := errors.Unwrap(err)
			if inner == nil {
				inner = &net.DNSError{IsNotFound: true}
			}
			if got, want := classify.Error(err), classify.Error(inner); got != want {
				t.Errorf("Error(%T with text %q) = %+v, want %+v", err, text, got, want)
			}
		}
	}
}

type renamed struct {
	err  error
	text string
}

func (r renamed) Error() string { return r.text }
func (r renamed) Unwrap() error { return r.err }

func TestMarksKeepTheErrorsIdentity(t *testing.T) {
	cause := &fs.PathError{Op: "open", Path: "x", Err: fs.ErrNotExist}
	for _, err := range []error{classify.As(classify.Retryable, cause), classify.After(time.Second, cause)} {
		assert.ErrorIs(t, err, fs.ErrNotExist)
		path, ok := errors.AsType[*fs.PathError](err)
		require.True(t, ok, "AsType(%v)", err)
		assert.Same(t, cause, path)
		assert.Equal(t, cause.Error(), err.Error())
	}
}

func TestMarksOfNothingAreNothing(t *testing.T) {
	assert.NoError(t, classify.As(classify.Permanent, nil))
	assert.NoError(t, classify.After(time.Second, nil))
}

// parts are what FuzzError builds trees from.
var parts = []error{
	errOther, io.EOF, context.Canceled, context.DeadlineExceeded, sql.ErrNoRows, syscall.ECONNREFUSED, syscall.EMFILE,
	dialError(syscall.ECONNRESET), &net.DNSError{IsNotFound: true}, x509.UnknownAuthorityError{}, sqlError("40003"),
	backoff.Permanent(io.EOF), classify.As(classify.Retryable, io.EOF), classify.After(time.Minute, errOther),
	opinion{classify.Verdict{Class: classify.Permanent, Repeatable: true}},
}

// tree builds an error from instructions: a part, a wrapper, or a join of the
// last two.
func tree(instructions []byte) error {
	stack := []error{errOther}
	for _, b := range instructions[:min(len(instructions), 100)] {
		n := len(stack)
		switch {
		case int(b) < len(parts):
			stack = append(stack, parts[b])
		case b%3 == 0:
			stack[n-1] = fmt.Errorf("x: %w", stack[n-1])
		case b%3 == 1:
			stack[n-1] = &url.Error{Op: "Post", Err: stack[n-1]}
		case n > 1:
			stack = append(stack[:n-2], errors.Join(stack[n-2], stack[n-1]))
		}
	}
	return stack[len(stack)-1]
}

func FuzzError(f *testing.F) {
	f.Add([]byte{1, 5, 200}, []byte{12})
	f.Add([]byte{7, 99, 100}, []byte{0, 14, 200})
	f.Fuzz(func(t *testing.T, a, b []byte) {
		x, y := tree(a), tree(b)
		v := classify.Error(x)
		checkReason(t, v)
		if v.Class > classify.Permanent || v.Origin > classify.Caller || v.RetryAfter < 0 {
			t.Errorf("Error(%v) = %+v, out of range", x, v)
		}
		if w := classify.Error(fmt.Errorf("x: %w", x)); w != v {
			t.Errorf("Error(wrapped %v) = %+v, want %+v", x, w, v)
		}
		if w := classify.Error(errors.Join(x, errOther)); w != v {
			t.Errorf("Error(%v beside an unknown error) = %+v, want %+v", x, w, v)
		}
		if v, w := classify.Error(errors.Join(x, y)).Class, classify.Error(errors.Join(y, x)).Class; v != w {
			t.Errorf("Error(%v and %v) is %v one way round and %v the other", x, y, v, w)
		}
		if v := classify.Transport(x, classify.Trace{GetConn: true, GotConn: 2, WroteHeaders: 2}); v.Class != classify.Ambiguous {
			t.Errorf("Transport(%v, two sends) = %+v, want Ambiguous", x, v)
		}
	})
}

func BenchmarkError(b *testing.B) {
	for _, bb := range []struct {
		name string
		err  error
	}{
		{"refused", &url.Error{Op: "Get", Err: dialError(os.NewSyscallError("connect", syscall.ECONNREFUSED))}},
		{"timeout", &url.Error{Op: "Get", Err: context.DeadlineExceeded}},
		{"marked", fmt.Errorf("x: %w", classify.As(classify.Permanent, errOther))},
		{"unknown", fmt.Errorf("x: %w", errOther)},
	} {
		b.Run(bb.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				classify.Error(bb.err)
			}
		})
	}
}
