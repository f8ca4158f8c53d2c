package webhook

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

const (
	maxURL = 2048
	// resolveWithin bounds the look at a new URL's host.
	resolveWithin = 2 * time.Second
)

// errAddress refuses an address. It does not name it: a person who may register a URL need not learn
// what a name resolves to here.
var errAddress = errors.New("must not lead to a private, loopback, link-local or other address that is not public")

// special returns the ranges that are not public although netip does not say so.
func special() []netip.Prefix {
	texts := []string{
		"0.0.0.0/8", "100.64.0.0/10", "192.0.0.0/24", "192.0.2.0/24", "192.88.99.0/24", "198.18.0.0/15", "198.51.100.0/24", "203.0.113.0/24",
		"240.0.0.0/4",
		// Within 2000::/3, beyond which nothing is public: Teredo, ORCHID and the like,
		// documentation, 6to4.
		"2001::/23", "2001:db8::/32", "2002::/16", "3fff::/20",
	}
	prefixes := make([]netip.Prefix, len(texts))
	for i, text := range texts {
		prefixes[i] = netip.MustParsePrefix(text)
	}
	return prefixes
}

// metadata returns the addresses, outside of the link-local ranges, at which clouds give their
// machines credentials or control them: of Azure, AWS, Google Cloud, Alibaba Cloud, Scaleway and Oracle. One
// looks public, the others private.
func metadata() []netip.Addr {
	texts := []string{"168.63.129.16", "fd00:ec2::254", "fd00:ec2::23", "fd20:ce::254", "100.100.100.200", "fd00:42::42", "fd00:c1::a9fe:a9fe"}
	addresses := make([]netip.Addr, len(texts))
	for i, text := range texts {
		addresses[i] = netip.MustParseAddr(text)
	}
	return addresses
}

// addressFilter decides which addresses may be dialled.
type addressFilter struct {
	private  bool // whether private and loopback addresses may be
	metadata []netip.Addr
	special  []netip.Prefix
	global6  netip.Prefix
}

func newAddressFilter(private bool) *addressFilter {
	return &addressFilter{private: private, metadata: metadata(), special: special(), global6: netip.MustParsePrefix("2000::/3")}
}

// check refuses an address that is not public. Link-local addresses and those of clouds' services are
// refused even where private ones are allowed. Of the forms of an IPv4 address in IPv6 only the mapped
// one is examined; all others are refused.
func (f *addressFilter) check(a netip.Addr) error {
	a = a.Unmap().WithZone("")
	if slices.Contains(f.metadata, a) {
		return errAddress
	}
	if f.private && (a.IsPrivate() || a.IsLoopback() || netip.MustParsePrefix("100.64.0.0/10").Contains(a)) {
		return nil
	}
	if a.IsPrivate() || !a.IsGlobalUnicast() || a.Is6() && !f.global6.Contains(a) ||
		slices.ContainsFunc(f.special, func(p netip.Prefix) bool { return p.Contains(a) }) {
		return errAddress
	}
	return nil
}

// control is called with each resolved address before it is dialled: a name that resolves to another
// address now is still refused.
func (f *addressFilter) control(_ context.Context, _, address string, _ syscall.RawConn) error {
	host, err := netip.ParseAddrPort(address)
	if err != nil {
		return errAddress
	}
	return f.check(host.Addr())
}

// isShortAddress reports whether some resolvers take a host for an IPv4 address that
// is not one in full, such as 127.1 or 2130706433.
func isShortAddress(host string) bool {
	if _, err := netip.ParseAddr(host); err == nil {
		return false
	}
	host = strings.TrimSuffix(host, ".")
	_, err := strconv.ParseUint(host[strings.LastIndexByte(host, '.')+1:], 0, 64)
	return err == nil || errors.Is(err, strconv.ErrRange)
}

// CheckURL returns the fault of a webhook's URL, in the form of a fault of a field, or nil. CheckHost
// checks its host.
func CheckURL(text string) error {
	u, err := url.Parse(text)
	switch {
	case err != nil || u.Scheme != "https" && u.Scheme != "http" || u.Hostname() == "" || u.Opaque != "":
		return errors.New("must be an absolute URL: https://host/path, or http")
	case len(text) > maxURL:
		return errors.New("must have at most " + strconv.Itoa(maxURL) + " bytes")
	case u.User != nil:
		return errors.New("must not have a user or password: verify the signature instead")
	case u.Fragment != "" || strings.HasSuffix(text, "#"):
		return errors.New("must not have a fragment")
	case isShortAddress(u.Hostname()):
		return errors.New("must have a name or a whole address as host, such as 192.168.0.1")
	}
	if port := u.Port(); port != "" {
		if n, err := strconv.ParseUint(port, 10, 16); err != nil || n == 0 {
			return errors.New("must have a port of 1 to 65535, or none")
		}
	}
	return nil
}

// CheckHost refuses a URL, in which CheckURL found no fault, if its host resolves to a forbidden
// address. A host that cannot be resolved now may be resolved later; its address is checked again
// whenever it is dialled.
func CheckHost(ctx context.Context, text string, private bool) error {
	u, err := url.Parse(text)
	if err != nil {
		return errAddress
	}
	ctx, cancel := context.WithTimeout(ctx, resolveWithin)
	defer cancel()
	addresses, err := net.DefaultResolver.LookupNetIP(ctx, "ip", u.Hostname())
	if err != nil {
		return nil
	}
	f := newAddressFilter(private)
	for _, a := range addresses {
		if err := f.check(a); err != nil {
			return err
		}
	}
	return nil
}
