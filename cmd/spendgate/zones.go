package main

import (
	"context"
	"flag"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"spendgate/audit"
	"spendgate/audit/postgres"
	"spendgate/cmd/spendgate/cli"
	"spendgate/config"
	"spendgate/hotpath/policy"
)

// zones keeps the nodes of a deployment on one release of the time zones: the newest change of the record
// says which. A node that starts with a newer release than that one brings its own into force. A node with
// another release is not ready, but for a day after the change, in which nodes are replaced. If no node
// has the new release after that day, as when an upgrade was undone, the others bring theirs into force
// again: an upgrade stops no node that is not replaced.
type zones struct {
	store interface {
		audit.Changes
		audit.Zones
	}
	own   string
	alone bool // there are no other nodes
	log   *slog.Logger
	now   func() time.Time

	mu       sync.Mutex
	started  bool // its release came into force, or was not to
	admitted bool
	told     string // the release of the last line of the log
}

func newZones(store audit.Store, alone bool, log *slog.Logger) *zones {
	return &zones{store: store, own: policy.Zones().Release, alone: alone, log: log, now: time.Now}
}

// zonesError is that the node has other time zones than its deployment.
type zonesError struct {
	own   string
	force audit.ZonesInForce
}

func (e *zonesError) Error() string {
	return fmt.Sprintf("it has the time zones %s, and the deployment has %s since %s: start a build with these, "+
		"or run `spendgate zones` of this build", e.own, e.force.Release, e.force.At.UTC().Format(time.RFC3339))
}

// look fails with *zonesError if the node is not admitted.
func (z *zones) look(ctx context.Context) error {
	z.mu.Lock()
	defer z.mu.Unlock()
	in, err := audit.ReadZones(ctx, z.store)
	if err != nil {
		return err
	}
	starts := !z.started && in.Release != z.own && (in.OlderThan(z.own) || z.alone)
	if starts || z.admitted && in.Due(z.own, z.now()) {
		if err := z.store.ChangeZones(ctx, audit.Keeper(), in.Release, z.own); err != nil {
			return err
		}
		if in, err = audit.ReadZones(ctx, z.store); err != nil {
			return err
		}
	}
	z.admitted = in.Admits(z.own, z.admitted, z.now())
	z.started = z.started || z.admitted || !in.OlderThan(z.own) // else another node's change came between
	if z.told != in.Release {
		z.told = in.Release
		if attributes := []any{"own", z.own, "deployment", in.Release, "replaces", in.Replaces}; in.Release == z.own {
			z.log.Info("the time zones are those of the deployment", attributes...)
		} else {
			z.log.Warn("the deployment has other time zones than this node", attributes...)
		}
	}
	if !z.admitted {
		return &zonesError{z.own, in}
	}
	return nil
}

func zonesCommand() cli.Command {
	return cli.Command{
		Name: "zones", Summary: "make this build's time zones those of the deployment", Setup: setZones,
		Details: "A node with newer time zones than the deployment's does so by itself when it starts, and a rolling upgrade may be\n" +
			"undone for a day. Run it with SPENDGATE_DATABASE_URL to go back to an older build after that. Nodes with the time\n" +
			"zones before are ready for 24 hours more. The change is on record.",
	}
}

func setZones(*flag.FlagSet) cli.Action {
	return func(ctx context.Context, p cli.Process, _ []string) error {
		c, err := p.Load(config.Migrate)
		if err != nil {
			return err
		}
		store, err := postgres.Open(ctx, postgres.Options{URL: string(c.DatabaseURL), Logger: slog.New(slog.DiscardHandler)})
		if err != nil {
			return err
		}
		defer store.Close()
		in, err := audit.ReadZones(ctx, store)
		own := policy.Zones().Release
		if err == nil && in.Release != own {
			err = store.ChangeZones(ctx, audit.Actor{Principal: "spendgate zones"}, in.Release, own)
		}
		if err != nil {
			return err
		}
		_, err = fmt.Fprintf(p.Stdout, "the deployment has the time zones %s; before, it had %q\n", own, in.Release)
		return err
	}
}
