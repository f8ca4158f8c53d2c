package main

import (
	"context"
	"slices"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"spendgate/audit"
)

const (
	// pendingCounted bounds what is read to count the approvals that are pending.
	pendingCounted = 1000
	// readEvery is how often figures are read that metrics alone need, about as often as those are.
	readEvery = 15 * time.Second
)

// expireApprovals registers how many approvals are pending and how long one has been, and
// returns what finds that out when it records which have expired.
func (n *node) expireApprovals() func(context.Context) error {
	var oldest atomic.Int64 // Unix milliseconds; 0 when none is pending
	n.ops.registry.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Namespace: "spendgate", Name: "approval_oldest_pending_seconds",
		Help: "How long the approval has been pending that waits longest; 0 when none does.",
	}, func() float64 { return age(oldest.Load()) }))
	pending := prometheus.NewGauge(prometheus.GaugeOpts{
		Namespace: "spendgate", Name: "approvals_pending", Help: "Approvals that wait for people, counted up to 1000.",
	})
	n.ops.registry.MustRegister(pending)
	var counted time.Time
	return func(ctx context.Context) error {
		since, err := n.store.ExpireApprovals(ctx)
		if err != nil {
			return err
		}
		oldest.Store(max(since.UnixMilli(), 0)) // the zero time is before 1970
		if oldest.Load() == 0 {
			counted = time.Time{}
			pending.Set(0)
			return nil
		}
		if time.Since(counted) < readEvery {
			return nil
		}
		counted = time.Now()
		page, _, err := n.store.ListApprovals(ctx, audit.ApprovalQuery{Status: audit.ApprovalPending, Limit: pendingCounted})
		if err == nil {
			pending.Set(float64(len(page)))
		}
		return err
	}
}

// keepEvents registers how long ago the oldest event happened, and returns what finds that
// out when it removes those that are older than is to be kept.
func (n *node) keepEvents(keep time.Duration) func(context.Context) error {
	var oldest atomic.Int64 // Unix milliseconds; 0 when there is none
	n.ops.registry.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Namespace: "spendgate", Name: "events_oldest_seconds",
		Help: "How long ago the oldest event happened that is kept, as of ten minutes ago at most; 0 when there is none.",
	}, func() float64 { return age(oldest.Load()) }))
	return func(ctx context.Context) error {
		at, err := n.store.KeepEvents(ctx, keep, time.Now())
		if err == nil {
			oldest.Store(max(at.UnixMilli(), 0)) // as above
		}
		return err
	}
}

// age is how many seconds ago a Unix millisecond was; 0 of none.
func age(since int64) float64 {
	if since <= 0 {
		return 0
	}
	return max(time.Since(time.UnixMilli(since)).Seconds(), 0)
}

// doubts registers how many checks are in doubt, and returns what finds that out when
// it records which are.
func (n *node) doubts() func(context.Context) error {
	inDoubt := prometheus.NewGauge(prometheus.GaugeOpts{
		Namespace: "spendgate", Name: "checks_in_doubt",
		Help: "Redeemed checks of which nobody knows whether they were carried out.",
	})
	n.ops.registry.MustRegister(inDoubt)
	return func(ctx context.Context) error {
		count, err := n.authorizer.Doubts(ctx)
		if err == nil {
			inDoubt.Set(float64(count))
		}
		return err
	}
}

// budgetFills registers how full budgets are, and returns what finds that out.
func (n *node) budgetFills() func(context.Context) error {
	used := prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Namespace: "spendgate", Name: "budget_used_ratio",
		Help: "Used share of the limit of a budget's counter, of the fullest that this node knows.",
	}, []string{"policy_id", "rule_id"})
	n.ops.registry.MustRegister(used)
	var shown [][2]string
	return func(ctx context.Context) error {
		fills, err := n.authorizer.FullestBudgets(ctx)
		if err != nil {
			return err
		}
		gone := shown
		shown = nil
		for _, f := range fills {
			labels := [2]string{f.PolicyID, f.RuleID}
			used.WithLabelValues(labels[:]...).Set(f.Share)
			shown = append(shown, labels)
		}
		for _, labels := range gone {
			if !slices.Contains(shown, labels) {
				used.DeleteLabelValues(labels[:]...)
			}
		}
		return nil
	}
}
