package e2e_test

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"spendgate/bench/fleet"
	"spendgate/bench/must"
)

const (
	// flooders are the connections that each of two addresses opens to a node.
	flooders = 1500
	// floodMemory is the memory that a node may take during the flood: a tenth of the declared
	// bytes.
	floodMemory = 300 << 20
)

// flood is a node flooded by clients without a key.
type flood struct {
	*fleet.Node
	front *fleet.Balancer
	key   string
	open  []net.Conn
}

// testFlood: thousands of connections that declare bodies of 1 MiB, and send little or nothing,
// take little memory of a node and do not affect other callers (G9). The binary has no race
// detector, whose memory would count.
func testFlood(t *testing.T, binary string) {
	t.Setenv("GOMEMLIMIT", "200MiB")
	const admin = "flood-admin-key-0123456789"
	node, err := fleet.NewNode(binary, "dev", "flooded", t.TempDir(), fleet.Settings{"DATA_DIR": t.TempDir(), "ADMIN_KEY": admin})
	must.Do(t, err)
	node.Seen = documented(t)
	f := &flood{Node: node}
	t.Cleanup(func() {
		for _, c := range f.open {
			_ = c.Close()
		}
		must.Do(t, node.Kill())
		if t.Failed() {
			t.Log(tail(node.Log()))
		}
	})
	must.Do(t, node.Start(limited(t, patience)))
	_, f.key, err = node.Admin(admin).CreateKey(t.Context(), "honest", plenty)
	must.Do(t, err)
	ok(t, must.Get(node.Client(f.key).PostPolicy(t.Context(), standardPolicy()))(t), http.StatusCreated)
	f.front, err = fleet.StartBalancer(t.Context(), t.TempDir(), []*fleet.Node{node, node, node})
	must.Do(t, err)
	t.Cleanup(func() { must.Do(t, f.front.Kill()) })

	f.isServed(t)
	const declared = "Content-Length: 1048576\r\n\r\n"
	begun := strings.Repeat(" ", 6<<10)
	for i, body := range []string{declared, declared + begun, "Transfer-Encoding: chunked\r\n\r\n100000\r\n" + begun} {
		for _, from := range []string{"127.0.0.2", "127.0.0.3"} {
			f.connect(t, from, node.API, flooders/3, "POST /v1/simulate HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\n"+body)
		}
		f.connect(t, "127.0.0.2", node.Ops, flooders/3, "POST /debug/pprof/symbol HTTP/1.1\r\nHost: a\r\n"+body)
		// More than HAProxy takes of one address.
		f.connect(t, "127.0.0.2", f.front.API, 500, "POST /v1/checks HTTP/1.1\r\nHost: a\r\nX-API-Key: "+strconv.Itoa(i)+"\r\n"+body)
		f.isServed(t)
	}
}

// connect opens connections from an address and sends the same over each.
func (f *flood) connect(t *testing.T, from, to string, n int, text string) {
	t.Helper()
	d := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(from)}, Timeout: patience}
	for range n {
		c, err := d.Dial("tcp", strings.TrimPrefix(to, "http://"))
		if err != nil {
			continue // refused at once, which is right for some
		}
		f.open = append(f.open, c)
		_ = c.SetDeadline(time.Now().Add(patience))
		_, _ = io.WriteString(c, text) // it may be refused already
	}
}

// isServed fails unless other callers get their answers over new connections, and
// the node's memory stays bounded.
func (f *flood) isServed(t *testing.T) {
	t.Helper()
	f.Forget()
	for i := range 20 {
		for _, c := range []*fleet.Client{f.Client(f.key), f.front.Client(f.key)} {
			check(t, c, fleet.Action{
				AgentID: "honest", PolicyID: standard, ActionType: "refund", Amount: "10", Currency: "USD",
				Counterparty: fmt.Sprintf("%d-%d-%p", len(f.open), i, c), Metadata: map[string]any{"note": strings.Repeat("x", 1+i*500)},
			})
		}
	}
	ok(t, must.Get(f.Ready(t.Context()))(t), http.StatusOK)
	text := string(ok(t, must.Get(f.Metrics(t.Context()))(t), http.StatusOK).Body)
	for _, name := range []string{"process_resident_memory_bytes", "go_memstats_heap_alloc_bytes"} {
		_, value, _ := strings.Cut(text, "\n"+name+" ")
		value, _, _ = strings.Cut(value, "\n")
		bytes := must.Get(strconv.ParseFloat(value, 64))(t)
		t.Logf("%d connections: %s %.0f MiB", len(f.open), name, bytes/(1<<20))
		if bytes > floodMemory {
			t.Errorf("%s is %.0f MiB", name, bytes/(1<<20))
		}
	}
}
