package main

import (
	"context"
	"fmt"
	"slices"
	"time"

	"spendgate/bench/chaos/judge"
	"spendgate/bench/fleet"
)

// injector executes a schedule.
type injector struct {
	*deployment
	ctx context.Context // of the whole run, not of the round: every fault is repaired
	rec *recorder
}

// run injects faults until going ends.
func (in *injector) run(going context.Context, plan []planned) error {
	for _, p := range plan {
		if !pause(going, p.before) {
			return nil
		}
		if left, ok := going.Deadline(); ok && time.Until(left) < p.atLeast {
			continue
		}
		if err := p.inject(in, p); err != nil {
			return fmt.Errorf("cannot %s: %w", p.name, err)
		}
	}
	return nil
}

// during records a fault around what causes and repairs it.
func (in *injector) during(f judge.Fault, do func() error) error {
	f.From = in.rec.now()
	err := do()
	f.To = in.rec.now()
	in.rec.addFault(f)
	return err
}

func (in *injector) wait(d time.Duration) { pause(in.ctx, d) }

// ofNode returns a fault for requests to one node, direct or through the balancer.
func (p planned) ofNode(name string) judge.Fault {
	through := []string{nodeName(p.node), judge.Balancer}
	return judge.Fault{Name: name + " " + nodeName(p.node), Excuses: through, Hangs: through}
}

func (in *injector) killNode(p planned) error {
	n := in.Nodes[p.node]
	return in.during(p.ofNode("kill -9"), func() error {
		if err := n.Kill(); err != nil {
			return err
		}
		in.wait(p.lasts / 3)
		return n.Start(in.ctx)
	})
}

func (in *injector) stopNode(p planned) error {
	return in.during(p.ofNode("stop"), func() error { return in.suspend(in.Nodes[p.node].Process, 2*p.lasts) })
}

func (in *injector) suspend(process *fleet.Process, d time.Duration) error {
	if err := process.Stop(); err != nil {
		return err
	}
	in.wait(d)
	return process.Continue()
}

func (in *injector) killRedis(p planned) error {
	return in.during(judge.Fault{Name: "kill -9 redis, back empty", Loses: true, Redis: true}, func() error {
		if err := in.Redis.Kill(); err != nil {
			return err
		}
		in.wait(p.lasts / 3)
		return in.Redis.Start(in.ctx)
	})
}

func (in *injector) restoreRedis(p planned) error {
	if err := in.Redis.Client.Save(in.ctx).Err(); err != nil {
		return err
	}
	in.wait(p.lasts) // writes from here on are lost
	err := in.during(judge.Fault{Name: "kill -9 redis, back with an old copy", Loses: true, Redis: true}, func() error {
		if err := in.Redis.Kill(); err != nil {
			return err
		}
		return in.Redis.Start(in.ctx)
	})
	if err != nil {
		return err
	}
	return in.Redis.RemoveSaved()
}

func (in *injector) stopRedis(p planned) error {
	return in.during(judge.Fault{Name: "stop redis", Redis: true}, func() error { return in.suspend(in.Redis.Process, p.lasts) })
}

// flushRedis empties it, now and then twice in a row.
func (in *injector) flushRedis(p planned) error {
	return in.during(judge.Fault{Name: "FLUSHALL", Loses: true, Redis: true}, func() error {
		err := in.Redis.Client.FlushAll(in.ctx).Err()
		if err != nil || !p.all {
			return err
		}
		in.wait(p.lasts / 20)
		return in.Redis.Client.FlushAll(in.ctx).Err()
	})
}

// flushBehindCommits empties Redis while commits are in flight: their claims are
// gone when they arrive (F2).
func (in *injector) flushBehindCommits(p planned) error {
	return in.during(judge.Fault{Name: "FLUSHALL behind commits of " + nodeName(p.node), Loses: true, Redis: true}, func() error {
		in.postgres[p.node].Hold()
		defer in.postgres[p.node].Release()
		in.wait(p.lasts / 10)
		if err := in.Redis.Client.FlushAll(in.ctx).Err(); err != nil {
			return err
		}
		in.wait(p.lasts / 5)
		return nil
	})
}

func (in *injector) killPostgres(p planned) error {
	return in.during(judge.Fault{Name: "kill -9 postgres"}, func() error {
		if err := in.Postgres.Kill(); err != nil {
			return err
		}
		in.wait(p.lasts / 3)
		return in.Postgres.Start(in.ctx)
	})
}

func (in *injector) stopPostgres(p planned) error {
	return in.during(judge.Fault{Name: "stop postgres"}, func() error { return in.suspend(in.Postgres.Process, p.lasts) })
}

// readOnlyPostgres refuses every write, as a full disk or a demoted primary does.
func (in *injector) readOnlyPostgres(p planned) error {
	set := func(value string) error {
		for _, sql := range []string{"ALTER SYSTEM SET default_transaction_read_only = " + value, "SELECT pg_reload_conf()"} {
			if _, err := in.Postgres.Pool.Exec(in.ctx, sql); err != nil {
				return fmt.Errorf("%s: %w", sql, err)
			}
		}
		return nil
	}
	return in.during(judge.Fault{Name: "postgres is read-only"}, func() error {
		if err := set("on"); err != nil {
			return err
		}
		in.wait(p.lasts)
		if err := set("off"); err != nil {
			return err
		}
		in.wait(100 * time.Millisecond) // until the server's sessions have reloaded the settings
		return nil
	})
}

// network injects a fault into one node's network, or into all nodes'.
func (in *injector) network(p planned, name string, proxies []*fleet.Proxy, do func([]*fleet.Proxy)) error {
	f := p.ofNode(name)
	if p.all {
		f = judge.Fault{Name: name + " all nodes", Hangs: []string{}}
	} else {
		proxies = proxies[p.node : p.node+1]
	}
	f.Redis = slices.Contains(in.redis, proxies[0])
	return in.during(f, func() error {
		do(proxies)
		return nil
	})
}

func (in *injector) slowRedis(p planned) error { return in.slow(p, "slow redis for", in.redis) }
func (in *injector) slowPostgres(p planned) error {
	return in.slow(p, "slow postgres for", in.postgres)
}

func (in *injector) slow(p planned, name string, of []*fleet.Proxy) error {
	return in.network(p, name, of, func(proxies []*fleet.Proxy) {
		for _, x := range proxies {
			x.Delay(p.lasts / 20) // 10 to 135 ms, each way
		}
		in.wait(p.lasts)
		for _, x := range proxies {
			x.Delay(0)
		}
	})
}

func (in *injector) cutOffRedis(p planned) error {
	return in.cutOff(p, "redis half open for", in.redis)
}

func (in *injector) cutOffPostgres(p planned) error {
	return in.cutOff(p, "postgres half open for", in.postgres)
}

func (in *injector) cutOff(p planned, name string, of []*fleet.Proxy) error {
	return in.network(p, name, of, func(proxies []*fleet.Proxy) {
		for _, x := range proxies {
			x.Silence(true)
		}
		in.wait(p.lasts)
		for _, x := range proxies {
			x.Silence(false)
		}
	})
}

// holdCommits delays what nodes send to PostgreSQL.
func (in *injector) holdCommits(p planned) error {
	return in.network(p, "delayed commits of", in.postgres, func(proxies []*fleet.Proxy) {
		for _, x := range proxies {
			x.Hold()
		}
		in.wait(2 * p.lasts)
		for _, x := range proxies {
			x.Release()
		}
	})
}

// resetCommits breaks connections after commits were sent and executed, so that
// their answers are lost.
func (in *injector) resetCommits(p planned) error {
	return in.network(p, "reset commits of", in.postgres, func(proxies []*fleet.Proxy) {
		for end := time.Now().Add(p.lasts); time.Now().Before(end); in.wait(100 * time.Millisecond) {
			for _, x := range proxies {
				x.HoldAnswers()
			}
			in.wait(20 * time.Millisecond)
			for _, x := range proxies {
				x.Reset()
				x.Release()
			}
		}
	})
}

func (in *injector) resetRedis(p planned) error {
	return in.network(p, "reset redis of", in.redis, func(proxies []*fleet.Proxy) {
		for end := time.Now().Add(p.lasts); time.Now().Before(end); in.wait(50 * time.Millisecond) {
			for _, x := range proxies {
				x.Reset()
			}
		}
	})
}

// restartInTurn restarts the nodes one by one, as a rollout does (G11).
func (in *injector) restartInTurn(planned) error {
	in.wait(2*time.Second + time.Second) // until the fleet has recovered
	for i, n := range in.Nodes {
		f := judge.Fault{Name: "restart " + nodeName(i), Excuses: []string{nodeName(i)}, Rolls: true}
		err := in.during(f, func() error {
			if err := n.Terminate(); err != nil {
				return err
			}
			code, err := n.Wait(in.ctx)
			if err != nil {
				return err
			}
			if code != 0 {
				return fmt.Errorf("%s exited with code %d after SIGTERM (G11)", n.Name, code)
			}
			return n.Start(in.ctx)
		})
		if err != nil {
			return err
		}
		in.wait(time.Second) // until the balancer has checked the node
	}
	return nil
}
