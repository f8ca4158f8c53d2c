package system

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"spendgate/bench/load"
	"spendgate/hotpath/client"
)

// runChanges measures what a backtest (S53) costs live checks in latency.
func (b *bench) runChanges(ctx context.Context) (err error) {
	if err := b.start(ctx); err != nil {
		return errors.Join(err, b.stop())
	}
	defer func() { err = errors.Join(err, b.stop()) }()
	api, err := client.New(client.Options{BaseURL: b.Nodes[0].API, APIKey: b.keys[0]})
	if err != nil {
		return err
	}
	begun := time.Now()
	report := compared{Setting: b.Setting}
	if err := b.replayed(ctx, api, begun, &report); err != nil {
		return err
	}
	if err := load.WriteSummaries(b.Out, report.Summary); err != nil {
		return err
	}
	return b.keep("changes", report)
}

// replayed: a third of the load that the node can carry, with backtests one after
// another over what was recorded until then, and without.
func (b *bench) replayed(ctx context.Context, api *client.Client, begun time.Time, report *compared) error {
	connections := slices.Max(b.Connections)
	capacity, err := b.Measure(ctx, "capacity", b.options(connections))
	if err != nil {
		return err
	}
	recorded := time.Now()
	const alone, beside = "a third of capacity", "beside backtests"
	return b.rounds(ctx, report, []string{alone, beside}, func(ctx context.Context, name string) (load.Result, error) {
		o := b.options(connections)
		o.Rate = capacity.PerSecond / 3
		if name == alone {
			return b.Measure(ctx, name, o)
		}
		during, stop := context.WithCancel(ctx)
		done := make(chan error, 1)
		go func() { done <- b.replay(during, api, begun, recorded) }()
		r, err := b.Measure(ctx, name, o)
		stop()
		return r, errors.Join(err, <-done)
	})
}

// replay runs backtests of one policy after another until ctx ends.
func (b *bench) replay(ctx context.Context, api *client.Client, from, to time.Time) error {
	for i := 0; ; i++ {
		test, err := api.CreateBacktest(context.WithoutCancel(ctx), client.NewBacktest{
			PolicyID: load.PolicyID(i % b.Workload.Policies), Version: 1,
			From: from.Format(time.RFC3339Nano), To: to.Format(time.RFC3339Nano),
		})
		if err != nil {
			return fmt.Errorf("cannot replay: %w", err)
		}
		if _, err := api.AwaitBacktest(ctx, test.BacktestID, nil); err != nil {
			if ctx.Err() == nil {
				return fmt.Errorf("cannot replay: %w", err)
			}
			_, err = api.CancelBacktest(context.WithoutCancel(ctx), test.BacktestID)
			return err
		}
	}
}
