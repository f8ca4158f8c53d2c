package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"time"

	"spendgate/cmd/spendgate/cli"
	"spendgate/cmd/spendgate/mcp"
	"spendgate/config"
	"spendgate/hotpath/client"
)

const (
	// These are short, because an agent waits; the duplicate guard and the idempotency key
	// make a retry safe.
	toolTimeout = 5 * time.Second
	toolMaxWait = 3 * time.Second
)

func mcpCommand() cli.Command {
	return cli.Command{
		Name:    "mcp",
		Summary: "offer the service to AI agents as tools (Model Context Protocol)",
		Details: `Serves over standard input and output, or over HTTP with --listen. Logs go to standard error.

SPENDGATE_API_URL       the service (required)
SPENDGATE_API_KEY       the API key; without it only simulate_actions works, in demo mode
SPENDGATE_MCP_TOKEN     with --listen, what clients must send as Authorization: Bearer;
                        required when the address is not a loopback one

Over HTTP the tools are at http://ADDR/mcp. Whoever reaches them acts with the API key:
:8081 means 127.0.0.1:8081. Requests from pages of other origins are refused. There are
no sessions, so any of several replicas may answer.

Tools: check_financial_action, wait_for_approval, create_policy, get_policy, simulate_actions,
list_violations, report_outcome; of these, the ones that the API key may use. An agent should not edit the rules that bind it:
give it a key with role agent (spendgate keys create --role agent), or --no-policy-writes.`,
		Setup: mcpSetup,
	}
}

func mcpSetup(flags *flag.FlagSet) cli.Action {
	addr := flags.String("listen", "", "serve streamable HTTP at `ADDR`, host:port or :port, instead of standard input and output")
	noPolicyWrites := flags.Bool("no-policy-writes", false, "do not offer create_policy")
	return func(ctx context.Context, p cli.Process, _ []string) error {
		c, err := config.LoadTools(p.Environ)
		if err != nil {
			return err
		}
		lines, log := newLogLines(p.Stderr, textLog(c.LogLevel))
		defer lines.flush()
		for _, notice := range c.Notices {
			log.Warn(notice)
		}
		api, err := client.New(client.Options{
			BaseURL: c.APIURL, APIKey: string(c.APIKey), UserAgent: "spendgate-mcp/" + version,
			AttemptTimeout: toolTimeout, MaxWait: toolMaxWait,
		})
		if err != nil {
			return err
		}
		if c.APIKey == "" {
			log.Warn("SPENDGATE_API_KEY is not set: only simulate_actions works, in demo mode")
		}
		server := mcp.New(mcp.Options{
			Client: api, HasKey: c.APIKey != "", PolicyWrites: !*noPolicyWrites, Version: version, Logger: log,
			Stopping: ctx.Done(),
		})
		if !cli.IsSet(flags, "listen") {
			return server.ServeStdio(ctx, p.Stdin, p.Stdout)
		}
		return serveTools(ctx, server, *addr, c.Token, log)
	}
}

// serveTools serves HTTP until the context ends, then finishes the calls in
// flight.
func serveTools(ctx context.Context, tools *mcp.Server, addr string, token config.Secret, log *slog.Logger) error {
	listener, err := listenForTools(addr, token)
	if err != nil {
		return err
	}
	server := &http.Server{
		Handler: tools.Handler(string(token)), ErrorLog: slog.NewLogLogger(log.Handler(), slog.LevelWarn),
		ReadHeaderTimeout: 5 * time.Second, ReadTimeout: 30 * time.Second, IdleTimeout: 2 * time.Minute,
	}
	log.Info("serving tools", "url", "http://"+listener.Addr().String()+mcp.Path, "token", token != "")
	if err := serveUntil(ctx, server, listener); err != nil {
		return err
	}
	log.Info("stopping")
	bounded, cancel := context.WithTimeout(context.WithoutCancel(ctx), mcp.StopTimeout)
	defer cancel()
	if err := server.Shutdown(bounded); err != nil {
		return errors.Join(fmt.Errorf("calls in flight did not end: %w", err), server.Close())
	}
	return nil
}

// serveUntil serves until the context ends. It returns an error only if serving fails before.
func serveUntil(ctx context.Context, server *http.Server, listener net.Listener) error {
	failed := make(chan error, 1)
	go func() { failed <- server.Serve(listener) }()
	select {
	case err := <-failed:
		return err
	case <-ctx.Done():
		return nil
	}
}

// listenForTools listens on the address. An address that other machines can reach requires a
// token, since callers of the tools spend under the API key.
func listenForTools(addr string, token config.Secret) (net.Listener, error) {
	host, port, err := net.SplitHostPort(addr)
	if err != nil {
		return nil, cli.UsageError{Text: fmt.Sprintf("--listen must be host:port or :port, not %q", addr)}
	}
	if host == "" {
		host = "127.0.0.1"
	}
	listener, err := net.Listen("tcp", net.JoinHostPort(host, port))
	if err != nil {
		return nil, fmt.Errorf("--listen: %w", err)
	}
	if tcp, ok := listener.Addr().(*net.TCPAddr); token == "" && (!ok || !tcp.IP.IsLoopback()) {
		return nil, errors.Join(
			fmt.Errorf("%s can be reached from other machines: set SPENDGATE_MCP_TOKEN or SPENDGATE_MCP_TOKEN_FILE, or listen on 127.0.0.1", addr),
			listener.Close())
	}
	return listener, nil
}
