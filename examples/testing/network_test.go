package shop_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptrace"
	"strings"
	"sync"
	"syscall"
)

// network stands for the network and the servers behind it: each request gets the next reply, and the last one is for
// all that follow.
type network struct {
	replies []reply

	mu   sync.Mutex
	keys []string // of the requests so far, in order
}

// reply is what happens to one request.
type reply func(req *http.Request) (*http.Response, error)

func (n *network) RoundTrip(req *http.Request) (*http.Response, error) {
	if req.Body != nil {
		defer req.Body.Close() // as every RoundTripper must
	}
	n.mu.Lock()
	n.keys = append(n.keys, req.Header.Get("Idempotency-Key"))
	next := n.replies[min(len(n.keys), len(n.replies))-1]
	n.mu.Unlock()
	return next(req)
}

// requests returns how many there were, and the different keys that they had.
func (n *network) requests() (count int, keys map[string]bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	keys = map[string]bool{}
	for _, k := range n.keys {
		keys[k] = true
	}
	return len(n.keys), keys
}

// status is an answer, with pairs of header names and values.
func status(code int, header ...string) reply {
	return func(req *http.Request) (*http.Response, error) {
		if _, err := io.Copy(io.Discard, req.Body); err != nil {
			return nil, err
		}
		h := http.Header{}
		for i := 0; i < len(header); i += 2 {
			h.Set(header[i], header[i+1])
		}
		return &http.Response{StatusCode: code, Status: http.StatusText(code), Header: h, Body: io.NopCloser(strings.NewReader("")), Request: req}, nil
	}
}

// lost is an answer that does not arrive, to a request that may have.
func lost(req *http.Request) (*http.Response, error) {
	if _, err := io.Copy(io.Discard, req.Body); err != nil {
		return nil, err
	}
	return nil, io.ErrUnexpectedEOF
}

// unreachable is a connection that is refused. The hook is the proof that nothing was sent: a connection was asked for
// and none obtained.
func unreachable(req *http.Request) (*http.Response, error) {
	if trace := httptrace.ContextClientTrace(req.Context()); trace != nil && trace.GetConn != nil {
		trace.GetConn(req.URL.Host)
	}
	return nil, syscall.ECONNREFUSED
}

// silence is a server that takes the request and says nothing.
func silence(req *http.Request) (*http.Response, error) {
	<-req.Context().Done()
	return nil, context.Cause(req.Context())
}

// errDropped is any error of a function, such as a driver's, that the SDK knows nothing about.
var errDropped = errors.New("connection errDropped")
