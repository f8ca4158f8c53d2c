package peers

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"spendgate/bench/fleet"
	"spendgate/bench/load"
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
	starts := map[string]func(context.Context) (contender, error){
		"spendgate": c.startSpendgate("spendgate"), "before": c.startSpendgate("before"),
		"opa": c.startOPA, "cerbos": c.startCerbos, "postgres": c.startPostgres,
	}
	for _, name := range append([]string{"spendgate"}, c.peers...) {
		start := starts[name]
		if start == nil {
			return fmt.Errorf("-peers: %q is not among %s before", name, allPeers)
		}
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
	for _, f := range c.fleets {
		failures = append(failures, f.End())
	}
	return errors.Join(failures...)
}

// startSpendgate starts a build of spendgate, which is in .bin, with servers of its own.
func (c *comparison) startSpendgate(build string) func(context.Context) (contender, error) {
	return func(ctx context.Context) (contender, error) {
		f, err := fleet.StartMeasured(ctx, build)
		if err != nil {
			return contender{}, err
		}
		c.fleets = append(c.fleets, f)
		node, err := f.AddNode(nil)
		if err != nil {
			return contender{}, err
		}
		if err := node.Start(ctx); err != nil {
			return contender{}, err
		}
		keys, err := load.Deployment{URL: node.API, AdminKey: f.AdminKey}.Prepare(ctx, c.Workload)
		return contender{
			name: build, addr: node.Addr, processes: []load.Process{
				{Name: "redis", PID: f.Redis.PID()}, {Name: "postgres", PID: f.Postgres.PID(), Tree: true}, {Name: "node", PID: node.PID()},
			},
			target: func() load.Target { return load.NewSpendgate(keys) },
		}, err
	}
}

func (c *comparison) startOPA(ctx context.Context) (contender, error) {
	policies, err := c.writePolicies("opa", ".rego", equivalent.Rego)
	if err != nil {
		return contender{}, err
	}
	addr, err := fleet.FreeAddr()
	if err != nil {
		return contender{}, err
	}
	return c.startPeer(ctx, addr, fleet.Program{
		Name: "opa", URL: "/health",
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
	addr, err := fleet.FreeAddr()
	if err != nil {
		return contender{}, err
	}
	grpc, err := fleet.FreeAddr()
	if err != nil {
		return contender{}, err
	}
	config := filepath.Join(c.dir, "cerbos.conf.yaml")
	if err := os.WriteFile(config, fmt.Appendf(nil, cerbosConfig, addr, grpc, policies), 0o600); err != nil {
		return contender{}, err
	}
	return c.startPeer(ctx, addr, fleet.Program{
		Name: "cerbos", URL: "/_cerbos/health",
		Args: []string{"server", "--log-level=error", "--config", config},
		Env:  append(os.Environ(), "GOGC=400", "CERBOS_NO_TELEMETRY=1"),
	}, func() load.Target { return &cerbos{} })
}

// startPostgres starts the service over PostgreSQL alone. It uses spendgate's
// server, whose processor time is added to its own. More connections were no
// faster on two cores.
func (c *comparison) startPostgres(ctx context.Context) (contender, error) {
	addr, err := fleet.FreeAddr()
	if err != nil {
		return contender{}, err
	}
	noKeys := make([]string, c.Workload.Keys) // it has none
	started, err := c.startPeer(ctx, addr, fleet.Program{
		Name: "postgres", URL: "/health", Args: []string{"-addr", addr},
		Env: append(os.Environ(), "DATABASE_URL="+c.fleets[0].Postgres.URL, "GOGC=400"),
	}, func() load.Target { return load.NewSpendgate(noKeys) })
	if err != nil {
		return contender{}, err
	}
	started.processes[0].Name = "service"
	started.processes = append(started.processes, load.Process{Name: "postgres", PID: c.fleets[0].Postgres.PID(), Tree: true})
	return started, nil
}

// startPeer starts a peer, a binary in .bin, whose arguments say where it
// listens. p.URL is a path.
func (c *comparison) startPeer(ctx context.Context, addr string, p fleet.Program, target func() load.Target) (contender, error) {
	var err error
	if p.Path, err = filepath.Abs(filepath.Join(".bin", p.Name)); err != nil {
		return contender{}, err
	}
	p.URL = "http://" + addr + p.URL
	server, err := c.fleets[0].StartProgram(ctx, p)
	if err != nil {
		return contender{}, err
	}
	return contender{
		name: p.Name, addr: addr, target: target,
		processes: []load.Process{{Name: p.Name, PID: server.PID()}},
	}, nil
}

// writePolicies writes every policy of the workload in a peer's language to a
// folder of its own.
func (c *comparison) writePolicies(peer, suffix string, text func(int) string) (folder string, err error) {
	folder = filepath.Join(c.dir, peer+"-policies")
	if err := os.Mkdir(folder, 0o700); err != nil {
		return "", err
	}
	for i := range c.Workload.Policies {
		path := filepath.Join(folder, load.PolicyID(i)+suffix)
		if err := os.WriteFile(path, []byte(text(i)), 0o600); err != nil {
			return "", err
		}
	}
	return folder, nil
}
