package fleet

import (
	"net"
	"testing"
)

// A server that is down for a moment keeps its port, for which other programs reserve theirs, too.
func TestPortIsReserved(t *testing.T) {
	port, err := freePort()
	if err != nil {
		t.Fatal(err)
	}
	if other, err := net.ListenPacket("udp", loopback(port)); err == nil {
		t.Error("another program could take the port", other.Close())
	}
	server, err := net.Listen("tcp", loopback(port))
	if err != nil {
		t.Fatal(err)
	}
	if err := server.Close(); err != nil {
		t.Error(err)
	}
}
