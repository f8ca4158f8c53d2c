package fleet

import (
	"net"
	"testing"

	"spendgate/bench/must"
)

// A server that is down for a moment keeps its port, for which other programs reserve theirs, too.
func TestPortIsReserved(t *testing.T) {
	port := must.Get(freePort())(t)
	if other, err := net.ListenPacket("udp", loopback(port)); err == nil {
		t.Error("another program could take the port", other.Close())
	}
	server := must.Get(net.Listen("tcp", loopback(port)))(t)
	must.Check(t, server.Close())
}
