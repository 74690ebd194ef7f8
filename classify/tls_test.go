package classify_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"io"
	"log"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"time"

	"github.com/reintento/reintento/classify"
	"github.com/stretchr/testify/require"
)

// certificateFor returns a self-signed certificate for a name, and a pool that
// trusts it.
func certificateFor(t *testing.T, name string, until time.Time) (tls.Certificate, *x509.CertPool) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	tmpl := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: name}, DNSNames: []string{name},
		NotBefore: until.Add(-24 * time.Hour), NotAfter: until, IsCA: true, BasicConstraintsValid: true,
		KeyUsage:    x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, tmpl, tmpl, &key.PublicKey, key)
	require.NoError(t, err)
	parsed, err := x509.ParseCertificate(der)
	require.NoError(t, err)
	pool := x509.NewCertPool()
	pool.AddCert(parsed)
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, pool
}

// serveTLS starts a server that counts the requests which reach its handler.
func serveTLS(t *testing.T, config *tls.Config) (url string, handled *atomic.Int64) {
	t.Helper()
	handled = new(atomic.Int64)
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { handled.Add(1) }))
	s.Config.ErrorLog = log.New(io.Discard, "", 0)
	s.TLS = config
	s.StartTLS()
	t.Cleanup(s.Close)
	return s.URL, handled
}

func TestTLSThatFails(t *testing.T) {
	now := time.Now()
	good, trust := certificateFor(t, "pay.test", now.Add(time.Hour))
	expired, trustExpired := certificateFor(t, "pay.test", now.Add(-time.Hour))
	stranger, _ := certificateFor(t, "client.test", now.Add(time.Hour))

	const certificate, broken = "certificate", "tls"
	tests := []struct {
		name   string
		server *tls.Config
		client *tls.Config
		want   classify.Verdict
	}{
		// B65: the error type changed in Go 1.20 and the assertion stopped matching; unknown-authority errors burn all attempts.
		{"unknown authority", &tls.Config{Certificates: []tls.Certificate{good}}, &tls.Config{ServerName: "pay.test"},
			classify.Verdict{Class: classify.Permanent, Reason: certificate}},
		{"wrong name", &tls.Config{Certificates: []tls.Certificate{good}}, &tls.Config{ServerName: "other.test", RootCAs: trust},
			classify.Verdict{Class: classify.Permanent, Reason: certificate}},
		{"expired", &tls.Config{Certificates: []tls.Certificate{expired}}, &tls.Config{ServerName: "pay.test", RootCAs: trustExpired},
			classify.Verdict{Class: classify.Permanent, Reason: certificate}},

		{"ours is demanded", &tls.Config{Certificates: []tls.Certificate{good}, ClientAuth: tls.RequireAndVerifyClientCert},
			&tls.Config{ServerName: "pay.test", RootCAs: trust}, classify.Verdict{Class: classify.Permanent, Reason: certificate}},
		{"ours is not trusted", &tls.Config{Certificates: []tls.Certificate{good}, ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: trust},
			&tls.Config{ServerName: "pay.test", RootCAs: trust, GetClientCertificate: func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return &stranger, nil }},
			classify.Verdict{Class: classify.Permanent, Reason: certificate}},
		{"ours is demanded in TLS 1.2", &tls.Config{Certificates: []tls.Certificate{good}, ClientAuth: tls.RequireAndVerifyClientCert, MaxVersion: tls.VersionTLS12},
			&tls.Config{ServerName: "pay.test", RootCAs: trust}, classify.Verdict{Class: classify.Permanent, Reason: broken}},

		{"no common version", &tls.Config{Certificates: []tls.Certificate{good}, MinVersion: tls.VersionTLS13},
			&tls.Config{ServerName: "pay.test", RootCAs: trust, MaxVersion: tls.VersionTLS12}, classify.Verdict{Class: classify.Permanent, Reason: broken}},
		{"no common cipher", &tls.Config{Certificates: []tls.Certificate{good}, MaxVersion: tls.VersionTLS12, CipherSuites: []uint16{tls.TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256}},
			&tls.Config{ServerName: "pay.test", RootCAs: trust, MaxVersion: tls.VersionTLS12, CipherSuites: []uint16{tls.TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384}},
			classify.Verdict{Class: classify.Permanent, Reason: broken}},
		{"no common protocol", &tls.Config{Certificates: []tls.Certificate{good}, NextProtos: []string{"x"}},
			&tls.Config{ServerName: "pay.test", RootCAs: trust, NextProtos: []string{"y"}}, classify.Verdict{Class: classify.Permanent, Reason: broken}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			url, handled := serveTLS(t, tt.server)
			trace, err := attempt(t, &http.Transport{TLSClientConfig: tt.client}, write(t, t.Context(), url))
			check(t, err, trace, tt.want)
			if n := handled.Load(); n != 0 {
				t.Errorf("the handler ran %d times, want 0", n)
			}
		})
	}
}

func TestPeersThatSpeakNoTLS(t *testing.T) {
	hello := func(c net.Conn) { _, _ = c.Read(make([]byte, 1)) } // the first byte of the client's
	tests := []struct {
		name string
		peer func(net.Conn)
		want classify.Verdict
	}{
		{"garbage", func(c net.Conn) { hello(c); _, _ = io.WriteString(c, "garbage and more garbage") }, classify.Verdict{Class: classify.Permanent, Reason: "tls"}},
		{"HTTP", func(c net.Conn) { hello(c); _, _ = io.WriteString(c, "HTTP/1.1 400 Bad Request\r\n\r\n") }, classify.Verdict{Class: classify.Permanent, Reason: "tls"}},
		{"a close", func(c net.Conn) { _, _ = c.Read(make([]byte, 4096)) }, classify.Verdict{Class: classify.Retryable, Reason: "closed"}},
		{"a reset", func(c net.Conn) { hello(c); reset(c) }, classify.Verdict{Class: classify.Retryable, Reason: "reset"}},
		{"silence", func(c net.Conn) { _, _ = io.Copy(io.Discard, c) }, classify.Verdict{Class: classify.Retryable, Reason: "timeout"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			base := &http.Transport{}
			if tt.name == "silence" {
				base.TLSHandshakeTimeout = time.Millisecond
			}
			trace, err := attempt(t, base, write(t, t.Context(), "https://"+serve(t, tt.peer)))
			check(t, err, trace, tt.want)
		})
	}
}

// An alert that the client itself sends, on a record that was changed on its
// way, comes after the request may have been seen.
func TestRecordsThatAreForged(t *testing.T) {
	good, trust := certificateFor(t, "pay.test", time.Now().Add(time.Hour))
	url, _ := serveTLS(t, &tls.Config{Certificates: []tls.Certificate{good}, MaxVersion: tls.VersionTLS12, NextProtos: []string{"http/1.1"}})
	forged := new(atomic.Bool)
	base := &http.Transport{
		TLSClientConfig: &tls.Config{ServerName: "pay.test", RootCAs: trust},
		DialContext: func(ctx context.Context, network, addr string) (net.Conn, error) {
			c, err := new(net.Dialer).DialContext(ctx, network, addr)
			return forging{c, forged}, err
		},
	}
	req := write(t, t.Context(), url)
	var r recorder
	hooks := r.hooks()
	got := hooks.GotConn
	hooks.GotConn = func(i gotConn) { got(i); forged.Store(true) }
	trace, err := attemptWith(t, base, req, &r, hooks)
	check(t, err, trace, classify.Verdict{Class: classify.Ambiguous, Reason: "tls"})
}

// forging turns the last bit of what is read once it is told to.
type forging struct {
	net.Conn
	now *atomic.Bool
}

func (f forging) Read(p []byte) (int, error) {
	n, err := f.Conn.Read(p)
	if n > 5 && f.now.Load() {
		p[n-1] ^= 1
	}
	return n, err
}
