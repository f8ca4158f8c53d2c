package soak

import (
	"context"
	"fmt"
	"time"

	"spendgate/bench/fleet"
)

// fault is something that breaks, and is repaired when its function returns.
type fault struct {
	name   string
	inject func(context.Context, *fleet.Fleet) error
}

// schedule is the faults, one after the other and again.
func schedule() []fault {
	const away = 2 * time.Second
	return []fault{
		{"kill -9 of a node", func(ctx context.Context, f *fleet.Fleet) error {
			if err := f.Nodes[1].Kill(); err != nil {
				return err
			}
			time.Sleep(away)
			return f.Nodes[1].Start(ctx)
		}},
		{"kill -9 of Redis, which comes back empty", func(ctx context.Context, f *fleet.Fleet) error {
			if err := f.Redis.Kill(); err != nil {
				return err
			}
			time.Sleep(away)
			return f.Redis.Start(ctx)
		}},
		{"restart of PostgreSQL", func(ctx context.Context, f *fleet.Fleet) error { return f.Postgres.Restart(ctx) }},
		{"FLUSHALL, and a restart of a node", func(ctx context.Context, f *fleet.Fleet) error {
			if err := f.Redis.Client.FlushAll(ctx).Err(); err != nil {
				return fmt.Errorf("cannot empty Redis: %w", err)
			}
			if err := f.Nodes[1].End(); err != nil {
				return err
			}
			return f.Nodes[1].Start(ctx)
		}},
	}
}

const (
	recovery = time.Minute     // in which a fault must be over
	calm     = 5 * time.Second // after which no request may fail because of it
)

// injectAll injects faults by the schedule until going ends. Each must be over, for every node, within a minute.
func (s *soak) injectAll(going, lasting context.Context, every time.Duration) error {
	all, injected := schedule(), 0
	return repeat(going, every, func() error {
		injected++
		return s.inject(lasting, all[(injected-1)%len(all)])
	})
}

func (s *soak) inject(ctx context.Context, f fault) error {
	ctx, end := context.WithTimeout(ctx, recovery)
	defer end()
	begun := time.Now()
	s.traffic.broken.Store(true)
	err := f.inject(ctx, s.Fleet)
	for _, n := range s.Nodes {
		if err == nil {
			err = n.WaitReady(ctx)
		}
	}
	if err != nil {
		return fmt.Errorf("%s: %w", f.name, err)
	}
	s.traffic.happened(fmt.Sprintf("%s: %.1f s", f.name, time.Since(begun).Seconds()))
	time.Sleep(calm)
	s.traffic.broken.Store(false)
	return nil
}
