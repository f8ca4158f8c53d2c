package gateway

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"spendgate/bench/fleet"
	"spendgate/bench/must"
)

// TestMain runs the test binary as a server if it is started as one.
func TestMain(m *testing.M) {
	switch os.Getenv("GATEWAY_TEST_SERVER") {
	case "features":
		if err := features(os.Getenv("GATEWAY_TEST_ERA")).Run(context.Background(), &sdk.StdioTransport{}); err != nil {
			fmt.Fprintln(os.Stderr, err)
		}
	case "":
		code := m.Run()
		if node != nil {
			_ = node.Kill()
			_ = os.RemoveAll(node.Data)
		}
		os.Exit(code)
	}
}

// node serves all tests that need the service, each with keys and a policy of its own.
var node *fleet.Dev

var startNode = sync.OnceValues(func() (*fleet.Dev, error) {
	dir, err := os.MkdirTemp("", "gateway-test")
	if err == nil {
		node, err = fleet.StartDev(context.Background(), dir)
	}
	return node, err
})

func quiet() *slog.Logger { return slog.New(slog.NewTextHandler(io.Discard, nil)) }

// write makes a file in a folder.
func write(t *testing.T, folder, name, content string) string {
	t.Helper()
	path := filepath.Join(folder, name)
	must.Do(t, os.WriteFile(path, []byte(content), 0o600))
	return path
}

// ownChild is a server of the file that is the test binary itself, of one era.
func ownChild(t *testing.T, kind, version string) string {
	t.Helper()
	self := must.Get(os.Executable())(t)
	return fmt.Sprintf("command: [%q]\n    env: {GATEWAY_TEST_SERVER: %s, GATEWAY_TEST_ERA: %q}", self, kind, version)
}

// load reads a file and makes a gateway of it, with a lock of the tools that its servers offer now.
func load(t *testing.T, content string) *Gateway {
	t.Helper()
	path := write(t, t.TempDir(), "gateway.yaml", content)
	file := must.Get(Load(path))(t)
	g := must.Get(New(Options{File: file, Version: "test", Environ: os.Environ(), Logger: testLog(t)}))(t)
	t.Cleanup(g.stop)
	return g
}

func testLog(t *testing.T) *slog.Logger {
	if testing.Verbose() {
		return slog.New(slog.NewTextHandler(t.Output(), &slog.HandlerOptions{Level: slog.LevelDebug}))
	}
	return quiet()
}

// era is a version of the protocol that an agent speaks, and how it reaches the gateway.
type era struct{ version, transport string }

func eras() []era {
	return []era{{legacyVersion, "stdio"}, {legacyVersion, "http"}, {latestVersion, "stdio"}, {latestVersion, "http"}}
}

// reach connects an agent to the gateway.
func (e era) reach(t *testing.T, g *Gateway, client *sdk.Client) *sdk.ClientSession {
	t.Helper()
	if e.transport == "http" {
		return connect(t, client, &sdk.StreamableClientTransport{Endpoint: served(t, g) + Path}, e.version)
	}
	in, toGateway := io.Pipe()
	fromGateway, out := io.Pipe()
	ended := make(chan error, 1)
	ctx, cancel := context.WithCancel(context.Background())
	go func() { ended <- g.ServeStdio(ctx, "", in, out) }()
	t.Cleanup(func() {
		_ = toGateway.Close()
		cancel()
		select {
		case err := <-ended:
			if err != nil && !errors.Is(err, context.Canceled) {
				t.Error(err)
			}
		case <-time.After(time.Minute):
			t.Error("the gateway does not end")
		}
	})
	var reads io.ReadCloser = fromGateway
	if e.transport == "slow" {
		reads = slow{fromGateway}
	}
	return connect(t, client, &sdk.IOTransport{Reader: reads, Writer: toGateway}, e.version)
}

// slow is what an agent reads that takes its time.
type slow struct{ io.ReadCloser }

func (s slow) Read(to []byte) (int, error) {
	time.Sleep(50 * time.Millisecond)
	return s.ReadCloser.Read(to)
}

// served serves a gateway over HTTP, and returns the address.
func served(t *testing.T, g *Gateway) string {
	t.Helper()
	server := NewServer(g)
	web := httptest.NewServer(server.Handler())
	t.Cleanup(web.Close)
	t.Cleanup(server.Stop)
	return web.URL
}

func connect(t *testing.T, client *sdk.Client, transport sdk.Transport, version string) *sdk.ClientSession {
	t.Helper()
	session := must.Get(client.Connect(t.Context(), transport, &sdk.ClientSessionOptions{ProtocolVersion: version}))(t)
	t.Cleanup(func() { _ = session.Close() })
	return session
}

// textIn returns the text of a result.
func textIn(r *sdk.CallToolResult) string {
	var all []string
	for _, c := range r.Content {
		if text, ok := c.(*sdk.TextContent); ok {
			all = append(all, text.Text)
		}
	}
	return strings.Join(all, "\n")
}

// streamable serves servers over Streamable HTTP, one for each session or, in the era without sessions, for each request, and
// returns the address.
func streamable(t *testing.T, newServer func() *sdk.Server, version string) string {
	t.Helper()
	handler := sdk.NewStreamableHTTPHandler(func(*http.Request) *sdk.Server { return newServer() },
		&sdk.StreamableHTTPOptions{Stateless: version == latestVersion})
	web := httptest.NewServer(handler)
	t.Cleanup(web.Close)
	return web.URL
}

// within waits until a condition holds.
func within(t *testing.T, what string, so func() bool) {
	t.Helper()
	for end := time.Now().Add(20 * time.Second); !so(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Errorf("not in time: %s", what)
			return
		}
	}
}

func agentClient() *sdk.Client {
	return sdk.NewClient(&sdk.Implementation{Name: "agent", Version: "1"}, nil)
}
