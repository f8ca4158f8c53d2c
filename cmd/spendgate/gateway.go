package main

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"spendgate/cmd/spendgate/cli"
	"spendgate/cmd/spendgate/gateway"
	"spendgate/config"
	"spendgate/hotpath/client"
	"spendgate/hotpath/httpapi"
)

func gatewayCommand() cli.Command {
	return cli.Command{
		Name: "gateway", Args: "FILE",
		Summary: "stand between agents and the tools that move money (Model Context Protocol)",
		Details: `FILE maps tools of MCP servers to actions. A call of such a tool is checked, redeemed, carried out and reported;
a tool that is not mapped passes if its server calls it read-only, unless FILE says otherwise. Serves over standard
input and output, or over HTTP if FILE says listen. Logs go to standard error.

SPENDGATE_URL      the service, where FILE does not name it
SPENDGATE_API_KEY  an API key of role gateway, where FILE does not name it

FILE.lock has the definitions of tools that were accepted: gateway check --accept writes it.`,
		Setup: func(flags *flag.FlagSet) cli.Action {
			upstream := flags.String("upstream", "", "serve this upstream over standard input and output, if FILE names `NAME` and others")
			return func(ctx context.Context, p cli.Process, args []string) error {
				return runGateway(ctx, p, args, *upstream)
			}
		},
		Sub: []cli.Command{
			{
				Name: "init", Args: "[-- COMMAND...]", Summary: "write a file for a server, to be redirected to FILE, and FILE.lock",
				Details: "The server is started with COMMAND, or reached with --url. Where standard output is no file, FILE.lock\n" +
					"is not written: gateway check --accept FILE does that.",
				Setup: gatewayInit,
			},
			{
				Name: "check", Args: "FILE", Summary: "compare the servers' tools with FILE.lock",
				Details: "Names each tool that is new, changed or gone. The exit code is 1 if there is one.", Setup: gatewayCheck,
			},
		},
	}
}

// oneFile returns the only argument of a command.
func oneFile(args []string) (string, error) {
	if len(args) != 1 {
		return "", cli.UsageError{Text: "needs one FILE"}
	}
	return args[0], nil
}

func runGateway(ctx context.Context, p cli.Process, args []string, upstream string) error {
	path, err := oneFile(args)
	if err != nil {
		return err
	}
	c, err := config.LoadGateway(p.Environ)
	if err != nil {
		return err
	}
	lines, log := newLogLines(p.Stderr, textLog(c.LogLevel))
	defer lines.flush()
	for _, notice := range c.Notices {
		log.Warn(notice)
	}
	file, err := gateway.Load(path)
	if err != nil {
		return err
	}
	shares := &gateway.Shares{Base: http.DefaultTransport}
	api, err := gatewayClient(file, c, shares)
	if err != nil {
		return err
	}
	gatherer, registry := newRegistry(c.Deployment)
	lines.observe(registry, c.Deployment)
	g, err := gateway.New(gateway.Options{
		File: file, Client: api, Shares: shares, Version: version, Environ: p.Environ, Logger: log, Registerer: registry,
	})
	if err != nil {
		return err
	}
	var drain func()
	if file.Metrics != "" {
		ops := httpapi.NewOps(httpapi.OpsOptions{Gatherer: gatherer, Ready: gatewayReady(api), Logger: log})
		listener, err := net.Listen("tcp", file.Metrics)
		if err != nil {
			return fmt.Errorf("metrics: %w", err)
		}
		go func() { _ = ops.Serve(listener) }() // ends with the process
		drain = ops.Drain
		log.Info("serving metrics", "url", "http://"+listener.Addr().String()+"/metrics")
	}
	if file.Shadow {
		log.Warn("shadow: every call is executed, whatever the decision is")
	}
	if file.Listen == "" {
		return g.ServeStdio(ctx, upstream, p.Stdin, p.Stdout)
	}
	if upstream != "" {
		return cli.UsageError{Text: "--upstream is for standard input and output; over HTTP each upstream has its path"}
	}
	go reloadAtHangup(ctx, g)
	return serveGateway(ctx, gateway.NewServer(g), drain, file.Listen, log)
}

// reloadAtHangup reads the agents' tokens again at SIGHUP.
func reloadAtHangup(ctx context.Context, g *gateway.Gateway) {
	hangups := make(chan os.Signal, 1)
	signal.Notify(hangups, syscall.SIGHUP)
	defer signal.Stop(hangups)
	for {
		select {
		case <-hangups:
			g.Reload()
		case <-ctx.Done():
			return
		}
	}
}

// gatewayReady reports whether the service answers the gateway's key.
func gatewayReady(api *client.Client) func(context.Context) httpapi.Readiness {
	return func(ctx context.Context) httpapi.Readiness {
		service := httpapi.Dependency{Name: "spendgate", OK: true}
		if _, err := api.Self(ctx); err != nil {
			service.OK, service.Detail = false, err.Error()
		}
		return httpapi.Readiness{
			Ready: service.OK, Mode: "gateway", Durability: "in the service", Dependencies: []httpapi.Dependency{service},
		}
	}
}

// gatewayClient makes the client of the service that the file or the environment names.
func gatewayClient(file *gateway.File, c config.Gateway, shares *gateway.Shares) (*client.Client, error) {
	url, key, err := file.Service()
	if err != nil {
		return nil, err
	}
	url, key = cmp.Or(strings.TrimRight(url, "/"), c.URL), cmp.Or(key, string(c.APIKey))
	if url == "" || key == "" {
		return nil, errors.New("the service is not named: spendgate: {url, key_file} in the file, or SPENDGATE_URL and SPENDGATE_API_KEY")
	}
	return client.New(client.Options{
		BaseURL: url, APIKey: key, UserAgent: "spendgate-gateway/" + version, AttemptTimeout: toolTimeout, MaxWait: toolMaxWait,
		HTTPClient: &http.Client{Transport: shares},
	})
}

// drainFor is how long a gateway serves after it says that it is not ready, so that a balancer sends it nothing new.
const drainFor = 3 * time.Second

// serveGateway serves HTTP until the context ends, then finishes the calls in flight. drain makes /readyz fail; nil where nobody asks.
func serveGateway(ctx context.Context, agents *gateway.Server, drain func(), addr string, log *slog.Logger) error {
	listener, err := net.Listen("tcp", addr)
	if err != nil {
		return fmt.Errorf("listen: %w", err)
	}
	server := &http.Server{
		Handler: agents.Handler(), ErrorLog: slog.NewLogLogger(log.Handler(), slog.LevelWarn),
		ReadHeaderTimeout: 5 * time.Second, IdleTimeout: 2 * time.Minute, MaxHeaderBytes: 64 << 10,
	}
	log.Info("serving agents", "url", "http://"+listener.Addr().String()+gateway.Path)
	if err := serveUntil(ctx, server, listener); err != nil {
		return err
	}
	log.Info("stopping")
	if drain != nil {
		drain()
		time.Sleep(drainFor)
	}
	ending, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	go func() { _ = server.Shutdown(ending) }() // takes nothing new; Close ends what is left
	agents.Stop()
	return server.Close()
}

// looker looks at servers for a command.
func looker(p cli.Process) gateway.Looker {
	return gateway.Looker{Version: version, Environ: p.Environ, Logger: slog.New(slog.NewTextHandler(p.Stderr, nil)), Out: p.Stdout}
}

func gatewayInit(flags *flag.FlagSet) cli.Action {
	url := flags.String("url", "", "the server's `URL`, instead of a command")
	return func(ctx context.Context, p cli.Process, command []string) error {
		if (*url == "") == (len(command) == 0) {
			return cli.UsageError{Text: "needs --url URL or -- COMMAND..."}
		}
		path := redirected(p.Stdout)
		err := looker(p).Init(ctx, *url, command, path)
		if err == nil && path == "" {
			_, err = fmt.Fprintln(p.Stderr, "standard output is no file: after saving it as FILE, run spendgate gateway check --accept FILE")
		}
		return err
	}
}

// redirected returns the name of the file that an output goes to, empty if it goes to no
// file or the system does not tell.
func redirected(out io.Writer) string {
	file, ok := out.(*os.File)
	if !ok {
		return ""
	}
	info, err := file.Stat()
	if err != nil || !info.Mode().IsRegular() {
		return ""
	}
	path, err := os.Readlink(fmt.Sprintf("/proc/self/fd/%d", file.Fd()))
	if err != nil {
		return ""
	}
	return path
}

func gatewayCheck(flags *flag.FlagSet) cli.Action {
	accept := flags.Bool("accept", false, "write FILE.lock: the tools as they are now are accepted")
	return func(ctx context.Context, p cli.Process, args []string) error {
		path, err := oneFile(args)
		if err != nil {
			return err
		}
		file, err := gateway.Load(path)
		if err != nil {
			return err
		}
		return looker(p).Check(ctx, file, *accept)
	}
}
