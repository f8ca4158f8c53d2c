package webhook

import (
	"net/netip"
	"strings"
	"testing"

	"spendgate/bench/must"
)

func TestAddresses(t *testing.T) {
	const always, never, private = "always", "never", "where private ones are"
	for address, want := range map[string]string{
		"93.184.215.14": always, "8.8.8.8": always, "2606:2800:21f:cb07::1": always, "::ffff:8.8.8.8": always,
		"10.1.2.3": private, "172.16.0.1": private, "172.31.255.255": private, "192.168.0.1": private, "127.0.0.1": private, "127.9.9.9": private,
		"::1":     private,
		"fd00::1": private, "fc00::1": private, "100.64.0.1": private, "100.127.255.255": private, "::ffff:127.0.0.1": private,
		"::ffff:10.0.0.1": private, "172.32.0.1": always, "100.128.0.1": always, "11.0.0.1": always,
		"169.254.169.254": never, "fe80::1": never, "fe80::1%eth0": never, "::ffff:169.254.169.254": never, "0.0.0.0": never, "0.1.2.3": never,
		"::": never, "224.0.0.1": never, "239.1.1.1": never, "ff02::1": never, "255.255.255.255": never, "240.0.0.1": never,
		"192.0.0.1": never, "192.0.2.1": never, "198.18.0.1": never, "198.19.255.255": never, "198.51.100.1": never, "203.0.113.9": never,
		"192.88.99.1":     never,
		"64:ff9b::7f00:1": never, "64:ff9b::808:808": never, "64:ff9b:1::1": never, "2002:7f00:1::1": never, "2001::1": never,
		"2001:db8::1":   never,
		"168.63.129.16": never, "100.100.100.200": never, "fd00:ec2::254": never, "fd00:ec2::254%eth0": never, "fd00:ec2::23": never,
		"fd20:ce::254": never, "fd00:42::42": never, "fd00:42::43": private, "fd00:c1::a9fe:a9fe": never,
		"::ffff:168.63.129.16": never, "::ffff:100.100.100.200": never, "::168.63.129.16": never,
		"64:ff9b::168.63.129.16": never, "64:ff9b::100.100.100.200": never, "64:ff9b:1::168.63.129.16": never,
		"2002:a83f:8110::1": never, "2002:6464:64c8::1": never,
		"168.63.129.17": always, "100.100.100.201": private, "fd00:ec2::255": private, "fd20:ce::255": private,
		"3fff::1": never, "100::1": never, "::7f00:1": never, "fec0::1": never, "5f00::1": never,
	} {
		a := netip.MustParseAddr(address)
		for _, allowed := range []bool{false, true} {
			err := newAddressFilter(allowed).check(a)
			if ok := want == always || want == private && allowed; ok != (err == nil) {
				t.Errorf("%s, private ones allowed %v: %v", address, allowed, err)
			}
		}
	}
}

func TestCheckURL(t *testing.T) {
	for url, want := range map[string]string{
		"https://93.184.215.14/hook?a=b":                       "",
		"http://[2606:2800:21f:cb07::1]:8080/hook":             "",
		"https://no-such-host.invalid/":                        "",
		"https://127.0.0.1/":                                   "address",
		"https://[::1]/":                                       "address",
		"https://[::ffff:10.0.0.1]/":                           "address",
		"http://localhost:8080/":                               "address",
		"http://169.254.169.254/latest/meta-data/":             "address",
		"https://127.1/":                                       "whole address",
		"https://2130706433/":                                  "whole address",
		"https://0x7f.1/":                                      "whole address",
		"https://no-such-host.0x7f000001/":                     "whole address",
		"https://127.0.0.1./":                                  "whole address",
		"https://99999999999999999999/":                        "whole address",
		"https://1.no-such-host.invalid/":                      "",
		"https://7eleven.no-such-host.invalid./":               "",
		"ftp://93.184.215.14/":                                 "absolute",
		"93.184.215.14":                                        "absolute",
		"https:///path":                                        "absolute",
		"https:93.184.215.14":                                  "absolute",
		"":                                                     "absolute",
		"https://a:b@93.184.215.14/":                           "password",
		"https://a@93.184.215.14/":                             "password",
		"https://93.184.215.14/#x":                             "fragment",
		"https://93.184.215.14/#":                              "fragment",
		"https://93.184.215.14:0/":                             "port",
		"https://93.184.215.14:65536/":                         "port",
		"https://93.184.215.14/\n":                             "absolute",
		"https://93.184.215.14/" + strings.Repeat("a", maxURL): "bytes",
	} {
		err := check(t, url, false)
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%.40q: got %v, want %q", url, err, want)
		}
	}
	must.Check(t, check(t, "http://127.0.0.1:9/", true))
}

// check is what a webhook that is made goes through.
func check(t *testing.T, url string, private bool) error {
	if err := CheckURL(url); err != nil {
		return err
	}
	return CheckHost(t.Context(), url, private)
}
