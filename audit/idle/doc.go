// Package idle tells whether a connection that nobody used for a while still
// stands, before the first byte of something that must not be sent twice.
package idle

import (
	"crypto/tls"
	"net"
)

// Plain is the connection below TLS.
func Plain(c net.Conn) net.Conn {
	if encrypted, ok := c.(*tls.Conn); ok {
		return encrypted.NetConn()
	}
	return c
}
