// Package idle reports whether a connection that was not used for a while is still
// open, before a request is sent on it that must not be sent twice.
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
