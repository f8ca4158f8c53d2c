package gateway

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/go-json-experiment/json/jsontext"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// A call that waited for room in a budget goes on when there is room, however often it was made, and
// also through a gateway that remembers nothing. Attempts of other principals do not count.
func TestManyAttempts(t *testing.T) {
	f, p := newFakeService(t), newProvider(t)
	f.reason, f.decide = "budget_exceeded", func(map[string]any) string { return "block" }
	wants(t, agentOf(t, guarded(t, f, p, "", "")), "ch_1", 1, stateRefused, "budget_exceeded")
	const blocks, others, some = 1500, 3000, 40
	requests := 0
	f.with(func() {
		first := *f.checks[0]
		for i := 2; i <= others; i++ {
			c := first
			c.id, c.key = fmt.Sprintf("chk_%d", i), strings.TrimSuffix(first.key, "1")+fmt.Sprint(i)
			if i > blocks {
				c.asker = "others"
			}
			f.checks = append(f.checks, &c)
		}
		f.reason, f.decide = "", func(map[string]any) string { return "allow" }
		f.broken = func(string) (bool, bool) { requests++; return false, false }
	})
	s := agentOf(t, guarded(t, f, p, "", ""))
	wants(t, s, "ch_1", 1, stateExecuted, "paid")
	wants(t, s, "ch_1", 1, stateAlready, "")
	f.with(func() {
		if last := f.checks[others]; !strings.HasSuffix(last.key, fmt.Sprint("-", blocks+1)) || requests > some {
			t.Errorf("%s after %d requests", last.key, requests)
		}
	})
}

// A call that is cancelled while its connection is being made was not sent, and is not sent later.
func TestCancelledConnecting(t *testing.T) {
	s, p := newPlain(t)
	f := newFakeService(t)
	g := guarded(t, f, p, "", "        on_error: failed\n")
	connecting, hung, server := new(sync.RWMutex), make(chan struct{}, 9), new(remote)
	g.dial = func(u *upstream) (conn, error) {
		server = newRemote(u)
		transport, _ := server.client.Transport.(*http.Transport)
		transport.DisableKeepAlives = true
		transport.DialContext = func(_ context.Context, network, address string) (net.Conn, error) {
			if !connecting.TryRLock() {
				hung <- struct{}{}
				connecting.RLock()
			}
			defer connecting.RUnlock()
			return net.Dial(network, address) //nolint:wrapcheck // of a test
		}
		return server, nil
	}
	f.broken = func(path string) (bool, bool) {
		if strings.HasSuffix(path, "/redeem") {
			connecting.Lock()
		}
		return false, false
	}
	agent := agentOf(t, g)
	ctx, cancel := context.WithCancel(t.Context())
	go func() { <-hung; cancel() }()
	_, _ = agent.CallTool(ctx, &sdk.CallToolParams{Name: "refund", Arguments: map[string]any{"charge": "ch_1", "amount": 1}})
	within(t, "reported", func() (so bool) { f.with(func() { so = f.checks[0].outcome == "failed" }); return so })
	connecting.Unlock()
	for _, note := range []string{"notifications/one", "notifications/two"} { // the call would be before the second
		_ = server.write(message{Method: note})
		within(t, note, func() (so bool) { s.with(func() { so = slices.Contains(s.calls, note) }); return so })
	}
	s.with(func() {
		if s.paid != 0 {
			t.Error("what was reported as failed is paid")
		}
	})
	f.with(func() {
		if note := f.checks[0].note; !strings.Contains(note, "could not be reached") {
			t.Error(note)
		}
	})
}

// What is taken back before its body is read is not sent, however late the transport reads; what is read is not taken back.
func TestTakenBack(t *testing.T) {
	r := newRemote(&upstream{URL: "http://127.0.0.1:1"})
	for _, begun := range []bool{false, true} {
		m := message{ID: jsontext.Value("1"), Method: methodCallTool}
		p, err := r.posting(m)
		if err != nil {
			t.Fatal(err)
		}
		read := func() (int, error) { return p.Read(make([]byte, 8)) }
		if begun {
			if n, err := read(); n == 0 || err != nil {
				t.Error(n, err)
			}
		}
		if r.unsend(m) == begun {
			t.Error("taken back", !begun)
		}
		if n, err := read(); !begun && (n != 0 || !errors.Is(err, errNotSent)) {
			t.Error(n, err)
		}
	}
}
