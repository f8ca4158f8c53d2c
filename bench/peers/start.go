package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"spendgate/bench/load"
	"spendgate/bench/load/stack"
	"spendgate/bench/peers/equivalent"
)

// contender is a server that is compared.
type contender struct {
	name      string
	addr      string
	processes []load.Process
	target    func() load.Target
}

// start starts all contenders; spendgate is the first.
func (c *comparison) start(ctx context.Context) error {
	for _, start := range []func(context.Context) (contender, error){c.startSpendgate, c.startOPA, c.startCerbos} {
		contender, err := start(ctx)
		if err != nil {
			return err
		}
		c.contenders = append(c.contenders, contender)
	}
	return nil
}

func (c *comparison) stop() error {
	var failures []error
	for _, server := range c.servers {
		failures = append(failures, server.Stop())
	}
	return errors.Join(failures...)
}

func (c *comparison) startSpendgate(ctx context.Context) (contender, error) {
	backends, err := stack.BackendsFromEnv()
	if err != nil {
		return contender{}, err
	}
	if err := backends.Settle(ctx); err != nil {
		return contender{}, err
	}
	processes, err := backends.Processes(ctx)
	if err != nil {
		return contender{}, err
	}
	node, err := stack.StartNode(ctx, backends, "node", c.adminKey, c.dir)
	if err != nil {
		return contender{}, err
	}
	c.servers = append(c.servers, node.Server)
	keys, err := load.Deployment{URL: "http://" + node.Addr, AdminKey: c.adminKey}.Prepare(ctx, c.workload)
	return contender{
		name: "spendgate", addr: node.Addr, processes: append(processes, node.Process()),
		target: func() load.Target { return load.NewSpendgate(keys) },
	}, err
}

func (c *comparison) startOPA(ctx context.Context) (contender, error) {
	policies, err := c.writePolicies("opa", ".rego", equivalent.Rego)
	if err != nil {
		return contender{}, err
	}
	addr, err := stack.FreeAddr()
	if err != nil {
		return contender{}, err
	}
	return c.startPeer(ctx, addr, stack.Command{
		Name: "opa", Binary: stack.Binary("opa"), Ready: "/health",
		Args: []string{"run", "--server", "--log-level=error", "--disable-telemetry", "--addr", addr, policies},
	}, func() load.Target { return &opa{} })
}

// cerbosConfig turns off all that answers do not need.
const cerbosConfig = `server:
  httpListenAddr: %q
  grpcListenAddr: %q
  requestLimits: {maxActionsPerResource: 50, maxResourcesPerRequest: 50}
storage:
  driver: disk
  disk: {directory: %q, watchForChanges: false}
audit: {enabled: false}
telemetry: {disabled: true}
`

func (c *comparison) startCerbos(ctx context.Context) (contender, error) {
	policies, err := c.writePolicies("cerbos", ".yaml", equivalent.Cerbos)
	if err != nil {
		return contender{}, err
	}
	addr, err := stack.FreeAddr()
	if err != nil {
		return contender{}, err
	}
	grpc, err := stack.FreeAddr()
	if err != nil {
		return contender{}, err
	}
	config := filepath.Join(c.dir, "cerbos.conf.yaml")
	if err := os.WriteFile(config, fmt.Appendf(nil, cerbosConfig, addr, grpc, policies), 0o600); err != nil {
		return contender{}, err
	}
	return c.startPeer(ctx, addr, stack.Command{
		Name: "cerbos", Binary: stack.Binary("cerbos"), Ready: "/_cerbos/health",
		Args: []string{"server", "--log-level=error", "--config", config},
		Env:  []string{"GOGC=400", "CERBOS_NO_TELEMETRY=1"},
	}, func() load.Target { return &cerbos{} })
}

// startPeer starts a peer whose arguments say where it listens. command.Ready
// is a path.
func (c *comparison) startPeer(ctx context.Context, addr string, command stack.Command, target func() load.Target) (contender, error) {
	command.Ready = "http://" + addr + command.Ready
	command.Log = filepath.Join(c.dir, command.Name+".log")
	server, err := stack.Start(ctx, command)
	if err != nil {
		return contender{}, err
	}
	c.servers = append(c.servers, server)
	return contender{
		name: command.Name, addr: addr, target: target,
		processes: []load.Process{{Name: command.Name, PID: server.PID()}},
	}, nil
}

// writePolicies writes every policy of the workload in a peer's language to a
// folder of its own.
func (c *comparison) writePolicies(peer, suffix string, text func(int) string) (folder string, err error) {
	folder = filepath.Join(c.dir, peer+"-policies")
	if err := os.Mkdir(folder, 0o700); err != nil {
		return "", err
	}
	for i := range c.workload.Policies {
		path := filepath.Join(folder, load.PolicyID(i)+suffix)
		if err := os.WriteFile(path, []byte(text(i)), 0o600); err != nil {
			return "", err
		}
	}
	return folder, nil
}
