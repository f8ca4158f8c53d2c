//go:build unix

package idle_test

import (
	"net"
	"testing"
	"time"

	"spendgate/audit/idle"
	"spendgate/bench/must"
)

// A connection is stale once its server has closed it or said something unasked
// for, whatever deadline its last use had.
func TestStale(t *testing.T) {
	l := must.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
	defer l.Close() //nolint:errcheck // only listens
	pair := func() (client, server net.Conn) {
		t.Helper()
		client, err := net.Dial("tcp", l.Addr().String())
		must.Do(t, err)
		if server, err = l.Accept(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _, _ = client.Close(), server.Close() })
		return client, server
	}
	becomes := func(probe *idle.Probe) bool { // what the server does takes a moment
		for due := time.Now().Add(time.Minute); !probe.Stale() && time.Now().Before(due); {
			time.Sleep(time.Millisecond)
		}
		return probe.Stale()
	}

	client, server := pair()
	must.Do(t, client.SetDeadline(time.Now().Add(-time.Second)))
	probe := idle.NewProbe(client)
	if probe.Stale() {
		t.Error("an idle connection whose last deadline is over is stale")
	}
	if _, err := server.Write([]byte("+")); err != nil || !becomes(probe) {
		t.Error("unasked for, and not stale", err)
	}
	client, server = pair()
	probe = idle.NewProbe(client)
	if err := server.Close(); err != nil || !becomes(probe) {
		t.Error("closed by the server, and not stale", err)
	}
	client, _ = pair()
	probe = idle.NewProbe(client)
	if err := client.Close(); err != nil || !probe.Stale() {
		t.Error("closed, and not stale", err)
	}
}
