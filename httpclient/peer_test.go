package httpclient_test

import (
	"bufio"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"io"
	"math/big"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/reintento/reintento/httpclient"
	"github.com/reintento/reintento/retry"
	"github.com/stretchr/testify/require"
)

// quick is a policy whose waits take no time worth speaking of. A wait after a
// throttled answer is longer than any other, so that a test can tell them apart.
func quick() retry.Policy {
	return retry.Policy{
		BaseDelay: time.Microsecond, MaxDelay: 10 * time.Microsecond, ThrottleDelay: 5 * time.Microsecond,
		Jitter: retry.NoJitter,
	}
}

// overBase returns a Transport with a layer of its own over base.
func overBase(t testing.TB, p retry.Policy, base http.RoundTripper) *httpclient.Transport {
	t.Helper()
	l, err := retry.NewLayer(retry.Organization{Default: p}, nil)
	require.NoError(t, err)
	return &httpclient.Transport{Layer: l, Base: base}
}

// fresh returns a base that nobody else uses, and closes what it keeps at the
// end of the test.
func fresh(t testing.TB) *http.Transport {
	base := &http.Transport{}
	t.Cleanup(base.CloseIdleConnections)
	return base
}

// serve listens on loopback and hands every connection to peer, the first as
// number 1, and closes it when peer returns. It returns the address.
func serve(t testing.TB, peer func(c net.Conn, n int)) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	serveOn(t, l, peer)
	return l.Addr().String()
}

// serveOn is serve on a listener. At the end of the test it closes what is
// still open.
func serveOn(t testing.TB, l net.Listener, peer func(c net.Conn, n int)) {
	var (
		wg   sync.WaitGroup
		mu   sync.Mutex
		open = map[net.Conn]bool{}
		over bool
	)
	wg.Go(func() {
		for n := 1; ; n++ {
			c, err := l.Accept()
			if err != nil {
				return
			}
			mu.Lock()
			open[c] = true
			if over {
				c.Close()
			}
			mu.Unlock()
			wg.Go(func() {
				defer func() {
					c.Close()
					mu.Lock()
					delete(open, c)
					mu.Unlock()
				}()
				peer(c, n)
			})
		}
	})
	t.Cleanup(func() {
		l.Close()
		mu.Lock()
		over = true
		for c := range open {
			c.Close()
		}
		mu.Unlock()
		wg.Wait()
	})
}

// closedPort returns an address of loopback on which nobody listens.
func closedPort(t testing.TB) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	require.NoError(t, l.Close())
	return l.Addr().String()
}

// reset closes a connection with a RST, TLS or not.
func reset(c net.Conn) {
	if s, ok := c.(*tls.Conn); ok {
		c = s.NetConn()
	}
	_ = c.(*net.TCPConn).SetLinger(0)
	_ = c.Close()
}

// drain reads until the client closes the connection.
func drain(c io.Reader) { _, _ = io.Copy(io.Discard, c) }

// onePeer is an HTTP/1 server by hand: it reads requests whole, counts them, and
// answers each as the test says, down to the bytes.
type onePeer struct {
	requests atomic.Int64
	// answer gets the connection after a request was read whole; false closes
	// it.
	answer func(c net.Conn, req *http.Request, n int) bool
}

func (p *onePeer) serve(c net.Conn, _ int) {
	r := bufio.NewReader(c)
	for {
		req, err := http.ReadRequest(r)
		if err != nil {
			return
		}
		if _, err := io.Copy(io.Discard, req.Body); err != nil {
			return
		}
		if !p.answer(c, req, int(p.requests.Add(1))) {
			return
		}
	}
}

// says is an answer that writes some bytes and closes the connection.
func says(s string) func(net.Conn, *http.Request, int) bool {
	return func(c net.Conn, _ *http.Request, _ int) bool {
		_, _ = io.WriteString(c, s)
		return false
	}
}

// authority signs certificates for the length of a test.
type authority struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
	pool *x509.CertPool
}

func newAuthority(t testing.TB) *authority {
	t.Helper()
	a := &authority{pool: x509.NewCertPool()}
	der, key := certify(t, &x509.Certificate{
		Subject: pkix.Name{CommonName: "authority of a test"}, IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}, nil)
	cert, err := x509.ParseCertificate(der)
	require.NoError(t, err)
	a.cert, a.key = cert, key
	a.pool.AddCert(cert)
	return a
}

// issue returns a certificate for 127.0.0.1, changed as the test wants it.
func (a *authority) issue(t testing.TB, change func(*x509.Certificate)) tls.Certificate {
	t.Helper()
	c := &x509.Certificate{
		Subject:     pkix.Name{CommonName: "peer"},
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	if change != nil {
		change(c)
	}
	der, key := certify(t, c, a)
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}
}

func certify(t testing.TB, c *x509.Certificate, by *authority) ([]byte, *ecdsa.PrivateKey) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	c.SerialNumber = big.NewInt(1)
	if c.NotAfter.IsZero() {
		c.NotBefore, c.NotAfter = time.Now().Add(-time.Hour), time.Now().Add(time.Hour)
	}
	parent, signer := c, key
	if by != nil {
		parent, signer = by.cert, by.key
	}
	der, err := x509.CreateCertificate(rand.Reader, c, parent, &key.PublicKey, signer)
	require.NoError(t, err)
	return der, key
}
