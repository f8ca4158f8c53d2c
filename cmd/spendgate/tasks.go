package main

import (
	"context"
	"errors"
	"slices"
	"sync/atomic"
	"time"

	"spendgate/audit"
	"spendgate/audit/metric"
	"spendgate/audit/spend"
)

const (
	// pendingCounted is the maximum number of pending approvals that are read to count them.
	pendingCounted = 1000
	// readEvery is how often figures are read that only metrics need: about as often as metrics are collected.
	readEvery = 15 * time.Second
	// removeEvery is how often all payments are looked at, which are kept for days.
	removeEvery = 6 * time.Hour
)

// expireApprovals registers metrics of how many approvals are pending and how long the oldest has
// been. It returns a function that records which approvals have expired and updates the metrics.
func (n *node) expireApprovals() func(context.Context) error {
	var oldest atomic.Int64 // Unix milliseconds; 0 when none is pending
	with := metric.Of(n.ops.registry, "")
	with.Reading("approval_oldest_pending_seconds", "How long the approval has been pending that waits longest; 0 when none does.",
		func() float64 { return age(oldest.Load()) })
	pending := with.Gauge("approvals_pending", "Approvals that wait for people, counted up to 1000.")
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

// keepEvents registers a metric of how long ago the oldest event happened. It returns a function
// that removes events older than keep and updates the metric.
func (n *node) keepEvents(keep time.Duration) func(context.Context) error {
	var oldest atomic.Int64 // Unix milliseconds; 0 when there is none
	metric.Of(n.ops.registry, "").Reading("events_oldest_seconds",
		"How long ago the oldest event happened that is kept, as of ten minutes ago at most; 0 when there is none.",
		func() float64 { return age(oldest.Load()) })
	return func(ctx context.Context) error {
		at, err := n.store.KeepEvents(ctx, keep, time.Now())
		if err == nil {
			oldest.Store(max(at.UnixMilli(), 0)) // as above
		}
		return err
	}
}

// removePayments returns a function that removes payments that ended longer ago than keep, by this node's clock and the store's; none
// if keep is 0.
func (n *node) removePayments(keep time.Duration) func(context.Context) error {
	return func(ctx context.Context) error {
		if keep == 0 {
			return nil
		}
		store, err := n.store.Status(ctx)
		if err != nil {
			return err
		}
		now := time.Now()
		if store.Clock.Before(now) {
			now = store.Clock
		}
		return n.authorizer.RemovePayments(ctx, now.Add(-keep))
	}
}

// age returns how many seconds ago a time in Unix milliseconds was; 0 if there is none.
func age(since int64) float64 {
	if since <= 0 {
		return 0
	}
	return max(time.Since(time.UnixMilli(since)).Seconds(), 0)
}

// countPayments registers a metric of how many payments are recorded, and returns a function that updates it.
func (n *node) countPayments() func(context.Context) error {
	recorded := metric.Of(n.ops.registry, "").Gauge("payments",
		"Recorded payments, as of ten minutes ago at most; of more than 100000 an estimate.")
	return func(ctx context.Context) error {
		count, err := n.store.CountPayments(ctx)
		if err == nil {
			recorded.Set(float64(count))
		}
		return err
	}
}

// doubts registers a metric of how many checks are in doubt. It returns a function that records
// which checks are in doubt and updates the metric.
func (n *node) doubts() func(context.Context) error {
	inDoubt := metric.Of(n.ops.registry, "").Gauge("checks_in_doubt",
		"Redeemed checks of which nobody knows whether they were carried out.")
	return func(ctx context.Context) error {
		count, err := n.authorizer.Doubts(ctx)
		if err == nil {
			inDoubt.Set(float64(count))
		}
		return err
	}
}

// budgetFills registers a metric of how full budgets are, and returns a function that updates it.
func (n *node) budgetFills() func(context.Context) error {
	used := metric.Of(n.ops.registry, "").Gauges("budget_used_ratio",
		"Used share of the limit of a budget's counter, of the fullest that this node knows.", "policy_id", "rule_id")
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

// expiryWarned is how long before its expiry an API key is reported.
const expiryWarned = 7 * 24 * time.Hour

// keyExpiries registers a metric of how many API keys expire soon. It returns a function that updates the metric, and logs
// and records each of these keys once.
func (n *node) keyExpiries() func(context.Context) error {
	expiring := metric.Of(n.ops.registry, "").Gauge("keys_expiring", "Active API keys that expire within 7 days.")
	logged := make(map[spend.ID]time.Time)
	return func(ctx context.Context) (failed error) {
		keys := n.authorizer.ExpiringKeys(time.Now(), expiryWarned)
		expiring.Set(float64(len(keys)))
		for _, k := range keys {
			at := k.Grants.ExpiresAt
			if logged[k.ID].Equal(at) {
				continue
			}
			if err := n.store.RecordExpiring(ctx, &k); err != nil {
				failed = errors.Join(failed, err)
				continue
			}
			logged[k.ID] = at
			n.log.Warn("an API key expires soon", "key_id", k.ID.Text(spend.PrefixKey), "expires_at", at.UTC().Format(time.RFC3339))
		}
		return failed
	}
}
