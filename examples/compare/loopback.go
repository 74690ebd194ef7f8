package main

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"sync/atomic"

	"github.com/reintento/reintento/retry"
)

// site is a server on loopback that counts its connections.
type site struct {
	url         string
	connections atomic.Int64 // opened so far
	close       func()
}

func serve(h http.Handler) (*site, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	s := &site{url: "http://" + l.Addr().String()}
	server := &http.Server{Handler: h, ConnState: func(_ net.Conn, state http.ConnState) {
		if state == http.StateNew {
			s.connections.Add(1)
		}
	}}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		server.Serve(l) // until it is closed below
	}()
	s.close = func() {
		server.Close()
		<-ended
	}
	return s, nil
}

func loopbackGets(ctx context.Context) ([]contender, func(), error) { return loopback(ctx, nil) }

func loopbackPosts(ctx context.Context) ([]contender, func(), error) {
	return loopback(ctx, bytes.Repeat([]byte("0123456789abcdef"), 64))
}

// loopback compares clients over a connection that stays open. The server is in
// this process: its time is part of every call.
func loopback(ctx context.Context, payload []byte) ([]contender, func(), error) {
	ctx, cancel := caller(ctx)
	s, err := serve(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		io.Copy(io.Discard, r.Body)
		io.WriteString(w, "fine")
	}))
	if err != nil {
		return nil, cancel, err
	}
	var contenders []contender
	var opened []*http.Transport
	add := func(name string, around func(http.RoundTripper) (http.RoundTripper, error)) error {
		base := http.DefaultTransport.(*http.Transport).Clone()
		rt, err := around(base)
		client := &http.Client{Transport: rt}
		opened = append(opened, base)
		contenders = append(contenders, contender{name, func(n int) error {
			for range n {
				req, err := request(ctx, s.url, payload)
				if err != nil {
					return err
				}
				if err := exchange(client.Do, req); err != nil {
					return err
				}
			}
			return nil
		}})
		return err
	}
	err = errors.Join(
		add(sdk, func(base http.RoundTripper) (http.RoundTripper, error) { return ours(retry.Policy{}, base) }),
		add("net/http", func(base http.RoundTripper) (http.RoundTripper, error) { return base, nil }),
		add("hand-made", func(base http.RoundTripper) (http.RoundTripper, error) {
			return handMadeTransport{newHandMade[*http.Response](defaultWaits, defaultRatio), base}, nil
		}),
	)
	return contenders, func() {
		cancel()
		for _, t := range opened {
			t.CloseIdleConnections()
		}
		s.close()
	}, err
}

// request is a GET, or a POST of the payload if there is one.
func request(ctx context.Context, url string, payload []byte) (*http.Request, error) {
	if payload == nil {
		return http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	}
	return http.NewRequestWithContext(ctx, http.MethodPost, url, bytes.NewReader(payload))
}
