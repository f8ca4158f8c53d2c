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
	"testing"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// TestMain runs the test binary as a server if it is started as one.
func TestMain(m *testing.M) {
	switch os.Getenv("GATEWAY_TEST_SERVER") {
	case "features":
		if err := features().Run(context.Background(), &sdk.StdioTransport{}); err != nil {
			fmt.Fprintln(os.Stderr, err)
		}
	case "":
		os.Exit(m.Run())
	}
}

func quiet() *slog.Logger { return slog.New(slog.NewTextHandler(io.Discard, nil)) }

// write makes a file in a folder.
func write(t *testing.T, folder, name, content string) string {
	t.Helper()
	path := filepath.Join(folder, name)
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// child is a server of the file that is the test binary itself.
func child(t *testing.T, kind string) string {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return fmt.Sprintf("command: [%q]\n    env: {GATEWAY_TEST_SERVER: %s}", self, kind)
}

// load reads a file and makes a gateway of it, with a lock of the tools that its servers offer now.
func load(t *testing.T, content string) *Gateway {
	t.Helper()
	path := write(t, t.TempDir(), "gateway.yaml", content)
	file, err := Load(path)
	if err != nil {
		t.Fatal(err)
	}
	g, err := New(Options{File: file, Version: "test", Environ: os.Environ(), Logger: testLog(t)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(g.stop)
	return g
}

func testLog(t *testing.T) *slog.Logger {
	if testing.Verbose() {
		return slog.New(slog.NewTextHandler(t.Output(), &slog.HandlerOptions{Level: slog.LevelDebug}))
	}
	return quiet()
}

// overHTTP connects a client to the gateway over Streamable HTTP.
func overHTTP(t *testing.T, g *Gateway, client *sdk.Client) *sdk.ClientSession {
	t.Helper()
	server := NewServer(g)
	web := httptest.NewServer(server.Handler())
	t.Cleanup(web.Close)
	t.Cleanup(server.Stop)
	return connect(t, client, &sdk.StreamableClientTransport{Endpoint: web.URL + Path, HTTPClient: http.DefaultClient})
}

// overStdio connects a client to the gateway over a pair of streams.
func overStdio(t *testing.T, g *Gateway, client *sdk.Client) *sdk.ClientSession {
	t.Helper()
	in, toGateway := io.Pipe()
	fromGateway, out := io.Pipe()
	ended := make(chan error, 1)
	ctx, cancel := context.WithCancel(context.Background())
	go func() { ended <- g.ServeStdio(ctx, in, out) }()
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
	return connect(t, client, &sdk.IOTransport{Reader: fromGateway, Writer: toGateway})
}

func connect(t *testing.T, client *sdk.Client, transport sdk.Transport) *sdk.ClientSession {
	t.Helper()
	session, err := client.Connect(t.Context(), transport, nil)
	if err != nil {
		t.Fatal(err)
	}
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

// streamable serves servers over Streamable HTTP, one for each session, and returns
// the address.
func streamable(t *testing.T, newServer func() *sdk.Server) string {
	t.Helper()
	handler := sdk.NewStreamableHTTPHandler(func(*http.Request) *sdk.Server { return newServer() }, nil)
	web := httptest.NewServer(handler)
	t.Cleanup(web.Close)
	return web.URL
}
