package resp

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"io"
	"net"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"spendgate/bench/must"
)

// replying has a server answer one connection with says, whatever it receives; heard returns what
// it received.
func replying(t *testing.T, l net.Listener, says string) (heard func() string) {
	t.Helper()
	t.Cleanup(func() { _ = l.Close() })
	sent := make(chan string, 1)
	go func() {
		c, err := l.Accept()
		if err != nil {
			return
		}
		_, _ = io.WriteString(c, says)
		all, _ := io.ReadAll(c)
		sent <- string(all)
	}()
	return func() string { return <-sent }
}

func TestDial(t *testing.T) {
	const ok = "+OK\r\n"
	for name, test := range map[string]struct {
		server     Server
		says       string
		sent, want string // want is in the error
	}{
		"as nobody": {Server{Name: "n"}, ok, "*3\r\n$6\r\nCLIENT\r\n$7\r\nSETNAME\r\n$1\r\nn\r\n", ""},
		"all of it": {
			Server{Username: "u", Password: "secret", DB: 7, Name: "n"},
			ok + ok + ok,
			"*3\r\n$4\r\nAUTH\r\n$1\r\nu\r\n$6\r\nsecret\r\n*2\r\n$6\r\nSELECT\r\n$1\r\n7\r\n*3\r\n$6\r\nCLIENT\r\n$7\r\nSETNAME\r\n$1\r\nn\r\n", "",
		},
		"a password alone": {
			Server{Password: "secret"},
			ok + "-NOPERM client|setname\r\n",
			"*2\r\n$4\r\nAUTH\r\n$6\r\nsecret\r\n*3\r\n$6\r\nCLIENT\r\n$7\r\nSETNAME\r\n$0\r\n\r\n", "",
		},
		"a wrong password": {Server{Password: "secret"}, "-WRONGPASS no\r\n-NOAUTH no\r\n", "", "cannot log in: WRONGPASS no"},
		"no such database": {Server{DB: 99}, "-ERR DB index is out of range\r\n" + ok, "", "cannot select database 99: ERR DB"},
	} {
		t.Run(name, func(t *testing.T) {
			l := must.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
			heard := replying(t, l, test.says)
			test.server.Addr = l.Addr().String()
			ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
			defer cancel()
			c, err := Dial(ctx, test.server, time.Second)
			if test.want != "" {
				if err == nil || !strings.Contains(err.Error(), test.want) || strings.Contains(err.Error(), "secret") {
					t.Errorf("%v, want %q", err, test.want)
				}
				return
			}
			must.Do(t, err)
			c.Close()
			if sent := heard(); sent != test.sent {
				t.Errorf("sent\n%q, want\n%q", sent, test.sent)
			}
		})
	}
}

// The server's certificate is verified, for the name that was dialled.
func TestDialTLS(t *testing.T) {
	https := httptest.NewTLSServer(nil)
	defer https.Close()
	known := x509.NewCertPool()
	known.AddCert(https.Certificate())
	for name, test := range map[string]struct {
		roots *x509.CertPool
		works bool
	}{"known": {known, true}, "unknown": {x509.NewCertPool(), false}} {
		l := must.Get(tls.Listen("tcp", "127.0.0.1:0", &tls.Config{Certificates: https.TLS.Certificates}))(t)
		replying(t, l, "+OK\r\n")
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		c, err := Dial(ctx, Server{Addr: l.Addr().String(), TLS: &tls.Config{RootCAs: test.roots}}, time.Second)
		if (err == nil) != test.works {
			t.Errorf("%s: %v", name, err)
		}
		if err == nil {
			c.Close()
		}
	}
}
