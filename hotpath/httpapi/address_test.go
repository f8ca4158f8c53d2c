package httpapi

import (
	"net/netip"
	"testing"

	"spendgate/hotpath"
)

func TestForwardedFor(t *testing.T) {
	a := &API{Options: Options{TrustedProxies: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8"), netip.MustParsePrefix("2001:db8::/32")}}}
	f := func(want, peer string, headers ...string) {
		t.Helper()
		raw := make([][]byte, len(headers))
		for i, h := range headers {
			raw[i] = []byte(h)
		}
		if got := a.forwardedFor(netip.MustParseAddr(peer), raw).String(); got != want {
			t.Errorf("%q: %s, want %s", headers, got, want)
		}
	}
	f("10.0.0.1", "10.0.0.1")
	f("1.2.3.4", "10.0.0.1", "1.2.3.4")
	f("1.2.3.4", "10.0.0.1", "6.6.6.6, 1.2.3.4")            // what the client wrote itself is not believed
	f("1.2.3.4", "10.0.0.1", "6.6.6.6", "1.2.3.4,10.0.0.2") // several headers are one list
	f("1.2.3.4", "10.0.0.1", "6.6.6.6, 1.2.3.4, 10.0.0.2 , 2001:db8::1")
	f("1.2.3.4", "10.0.0.1", "1.2.3.4:5678")
	f("2a00::1", "10.0.0.1", "[2a00::1]:5678")
	f("2a00::1", "10.0.0.1", "2a00::1%eth0")
	f("1.2.3.4", "10.0.0.1", "::ffff:1.2.3.4")
	f("10.0.0.3", "10.0.0.1", "10.0.0.3, 10.0.0.2")
	f("10.0.0.2", "10.0.0.1", "1.2.3.4, garbage, 10.0.0.2")
	f("10.0.0.1", "10.0.0.1", "unknown")
	f("1.2.3.4", "10.0.0.1", "1.2.3.4,,")
	f("10.0.0.1", "10.0.0.1", "", " , ")
}

func TestTheDemoIsCountedByAddress(t *testing.T) {
	f := func(trusted, sent, want string) {
		t.Helper()
		s := start(t, func(o *Options) {
			if trusted != "" {
				o.TrustedProxies = []netip.Prefix{netip.MustParsePrefix(trusted)}
			}
		})
		a := s.do("POST", "/v1/simulate", simulationOf(1), "X-API-Key: -", "X-Forwarded-For: 9.9.9.9, "+sent)
		if a.status != 200 || a.header.Get("X-RateLimit-Limit") != "10" || a.header.Get("X-RateLimit-Remaining") != "9" {
			t.Errorf("%d %v %s", a.status, a.header, a.body)
		}
		if len(s.fake.demo) != 1 || s.fake.demo[0] != hotpath.DemoCaller(want) {
			t.Errorf("callers %v, want %s", s.fake.demo, want)
		}
	}
	f("", "1.2.3.4", "127.0.0.1")
	f("10.0.0.0/8", "1.2.3.4", "127.0.0.1")
	f("127.0.0.0/8", "1.2.3.4", "1.2.3.4")
	// One IPv6 address usually comes with 2^64 of them.
	f("127.0.0.0/8", "2a00:1:2:3:4:5:6:7", "2a00:1:2:3::/64")
	f("127.0.0.0/8", "2a00:1:2:3::8", "2a00:1:2:3::/64")
	f("127.0.0.0/8", "::ffff:1.2.3.4", "1.2.3.4")
}
