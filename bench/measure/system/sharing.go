package system

import (
	"context"

	"spendgate/bench/load"
)

// sharing is how many checks shared what is paid once a batch, over all nodes.
type sharing struct {
	Trip     float64 `json:"checks_per_round_trip"`
	Commit   float64 `json:"checks_per_commit"`
	TripMS   float64 `json:"round_trip_ms"`
	CommitMS float64 `json:"commit_ms"`
}

// metrics returns the metrics of all nodes, added up.
func (b *bench) metrics(ctx context.Context) (load.Metrics, error) {
	all := make(load.Metrics)
	for _, n := range b.Nodes {
		answer, err := n.Metrics(ctx)
		if err != nil {
			return nil, err
		}
		for name, value := range load.ParseMetrics(answer.Body) {
			all[name] += value
		}
	}
	return all, nil
}

// sharingOf reads it off the nodes' histograms.
func sharingOf(before, after load.Metrics) sharing {
	mean := func(histogram string) float64 {
		n := after.Since(before, histogram+"_count")
		if n == 0 {
			return 0
		}
		return after.Since(before, histogram+"_sum") / n
	}
	const second = 1000 // in milliseconds
	return sharing{
		Trip: mean("spendgate_redis_batch_size"), Commit: mean("spendgate_audit_commit_batch_size"),
		TripMS: mean("spendgate_redis_round_trip_duration_seconds") * second, CommitMS: mean("spendgate_audit_commit_duration_seconds") * second,
	}
}

// written is what PostgreSQL writes for each check, in bytes.
type written struct {
	WAL    float64 `json:"wal_bytes_per_check"`    // to the log, and to every standby
	Stored float64 `json:"stored_bytes_per_check"` // in tables and indexes
}

// writtenBy measures it over some checks.
func (b *bench) writtenBy(ctx context.Context, checks func() error) (w written, err error) {
	wal, stored, err := b.Postgres.Written(ctx)
	if err != nil {
		return w, err
	}
	before, err := b.metrics(ctx)
	if err != nil {
		return w, err
	}
	if err := checks(); err != nil {
		return w, err
	}
	walNow, storedNow, err := b.Postgres.Written(ctx)
	if err != nil {
		return w, err
	}
	after, err := b.metrics(ctx)
	if n := after.Since(before, "spendgate_decisions_total"); n > 0 {
		w = written{float64(walNow-wal) / n, float64(storedNow-stored) / n}
	}
	return w, err
}
