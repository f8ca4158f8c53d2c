package httpapi

import (
	"bytes"
	"net"
	"net/netip"
	"slices"
)

// client is the peer's address, or, if that is a trusted proxy, the last address
// in X-Forwarded-For that is not.
func (a *API) client(x *exchange) netip.Addr {
	peer := addressOf(x.ctx.RemoteAddr())
	if a.trusted(peer) {
		return a.forwardedFor(peer, x.ctx.Request.Header.PeekAll(headerForwarded))
	}
	return peer
}

// clientAddress returns the address that the demo limit counts by (S24): the client's. For IPv6 it is
// the network of 64 bits, since one client can choose all of its addresses.
func (a *API) clientAddress(x *exchange) string {
	client := a.client(x)
	if client.Is6() {
		return netip.PrefixFrom(client, 64).Masked().String()
	}
	return client.String()
}

// forwardedFor walks the hops from the nearest one. A header is believed only as far as every later
// hop is trusted. A hop that is not an address ends the walk at the proxy that reported it. If all
// hops are trusted, the first of them is the client.
func (a *API) forwardedFor(peer netip.Addr, headers [][]byte) netip.Addr {
	client := peer
	for _, hops := range slices.Backward(headers) {
		for len(hops) > 0 {
			var hop []byte
			if comma := bytes.LastIndexByte(hops, ','); comma >= 0 {
				hops, hop = hops[:comma], hops[comma+1:]
			} else {
				hops, hop = nil, hops
			}
			if hop = bytes.TrimSpace(hop); len(hop) == 0 {
				continue
			}
			address, ok := parseHop(string(hop))
			if !ok {
				return client
			}
			client = address
			if !a.trusted(client) {
				return client
			}
		}
	}
	return client
}

// parseHop reads an address, with or without a port.
func parseHop(s string) (netip.Addr, bool) {
	if address, err := netip.ParseAddr(s); err == nil {
		return address.Unmap().WithZone(""), true
	}
	if pair, err := netip.ParseAddrPort(s); err == nil {
		return pair.Addr().Unmap().WithZone(""), true
	}
	return netip.Addr{}, false
}

func (a *API) trusted(address netip.Addr) bool {
	return slices.ContainsFunc(a.TrustedProxies, func(p netip.Prefix) bool { return p.Contains(address) })
}

// addressOf is a connection's other end; unspecified when it has no address.
func addressOf(remote net.Addr) netip.Addr {
	if tcp, ok := remote.(*net.TCPAddr); ok {
		return tcp.AddrPort().Addr().Unmap().WithZone("")
	}
	return netip.IPv4Unspecified()
}

// networkOf returns the network that connections are counted by: an IPv4 address, or the network of 64
// bits of an IPv6 address.
func networkOf(address netip.Addr) netip.Addr {
	if address.Is4() {
		return address
	}
	return netip.PrefixFrom(address, 64).Masked().Addr()
}
