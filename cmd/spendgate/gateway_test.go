package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// initialize begins a session of the Model Context Protocol.
const initialize = `{"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {"protocolVersion": "2025-06-18", "capabilities": {}, ` +
	`"clientInfo": {"name": "a", "version": "1"}}}`

// TestGatewayOperations reads the operations of a gateway whose server does not exist, while its
// service answers and when it does not.
func TestGatewayOperations(t *testing.T) {
	const nowhere = "http://127.0.0.1:1"
	n := startDev(t)
	for service, ready := range map[string]string{n.url: `"status":"ready"`, nowhere: `"status":"failing"`} {
		file := filepath.Join(t.TempDir(), "gateway.yaml")
		text := fmt.Sprintf("agent_id: bot\nshadow: true\nmetrics: 127.0.0.1:0\nupstreams:\n  psp:\n    url: %s/mcp\n", nowhere)
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		log, stdin, ended := new(lockedLog), make(chan struct{}), make(chan int, 1)
		ctx, cancel := context.WithCancel(t.Context())
		agent, hangUp := io.Pipe()
		go func() {
			environ := []string{
				"SPENDGATE_URL=" + service, "SPENDGATE_API_KEY=" + n.sample, "SPENDGATE_DEPLOYMENT=cell-1",
				"SPENDGATE_IGNORE_UNKNOWN_SETTINGS=true", "SPENDGATE_OF_LATER=x",
			}
			ended <- run(ctx, process{agent, new(bytes.Buffer), log, environ, false}, []string{"gateway", file})
		}()
		var found []string
		for until := time.Now().Add(time.Minute); found == nil; time.Sleep(10 * time.Millisecond) {
			if found = log.find(`url=(http://127\.0\.0\.1:\d+)/metrics`); time.Now().After(until) {
				t.Fatal(log.String())
			}
		}
		if log.find("SPENDGATE_OF_LATER is no setting of this version") == nil {
			t.Errorf("what it ignores is not told: %s", log.String())
		}
		go func() { _, _ = fmt.Fprintln(hangUp, initialize); close(stdin) }()
		const want = `spendgate_gateway_upstream_failures_total{deployment="cell-1",upstream="psp"}`
		for until := time.Now().Add(time.Minute); !strings.Contains(read(t, found[1]+"/metrics"), want); time.Sleep(10 * time.Millisecond) {
			if time.Now().After(until) {
				t.Fatal(read(t, found[1]+"/metrics"))
			}
		}
		if got := read(t, found[1]+"/readyz"); !strings.Contains(got, ready) {
			t.Errorf("over %s: %s", service, got)
		}
		<-stdin
		cancel()
		<-ended
	}
}

// read returns what a page says.
func read(t *testing.T, url string) string {
	t.Helper()
	r, err := http.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Body.Close() //nolint:errcheck // only read
	text, err := io.ReadAll(r.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
