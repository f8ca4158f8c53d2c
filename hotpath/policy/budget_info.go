package policy

import (
	"fmt"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"spendgate/audit/spend"
)

// BudgetInfo describes a budget to readers of its counters (S38).
type BudgetInfo struct {
	RuleID   string
	Per      []string // in the order of a subject's values; empty: one counter
	Limited  bool
	Limit    spend.Amount
	Currency string // empty: all
	Counted  bool
	MaxCount int64

	WindowName     string // empty of a rolling window
	TimeZone       string // empty of a rolling window
	RollingMinutes int64  // 0 of a calendar window
	Since          spend.BudgetSince

	period period
}

// Budgets returns the policy's budgets, in its order.
func (p *Program) Budgets() []BudgetInfo {
	infos := make([]BudgetInfo, len(p.budgets))
	for i, b := range p.budgets {
		infos[i] = BudgetInfo{
			RuleID: b.rule.id, Per: b.perNames(), Limited: b.limited, Limit: b.limit, Currency: b.currency,
			Counted: b.counted, MaxCount: b.maxCount, RollingMinutes: b.period.rolling, Since: b.since, period: b.period,
		}
		if b.period.rolling == 0 {
			infos[i].WindowName, infos[i].TimeZone = unitNames[b.period.unit], b.period.zone.String()
		}
	}
	return infos
}

// Window returns when the window at a time begins and ends; for a lifetime it returns since when the
// budget counts, and zero; for a rolling window the bounds of its newest bucket.
func (b *BudgetInfo) Window(at time.Time) (start, end time.Time) {
	if b.period.lasts() {
		return b.Since.At, time.Time{}
	}
	w := b.period.window(at)
	return time.UnixMilli(w.start).UTC(), time.UnixMilli(w.end).UTC()
}

// CountedAt reports whether the budget counted in the window at a time, or will.
func (b *BudgetInfo) CountedAt(at time.Time) bool {
	if b.period.lasts() {
		return !at.Before(b.Since.At)
	}
	_, end := b.Window(at)
	return end.After(b.Since.At)
}

// WindowStart returns when the window of a counter begins, by this build's rules of the zone; for a
// lifetime it is since when the budget counts.
func (b *BudgetInfo) WindowStart(c spend.Counter) time.Time {
	if b.period.lasts() {
		return b.Since.At
	}
	if b.period.rolling > 0 {
		return time.UnixMilli(c.StartMS - spend.RollingBuckets*c.BucketMS).UTC()
	}
	return time.Unix(reached(b.period.zone, c.StartMS/1000), 0).UTC()
}

// Counter returns the counter of a subject at a time; for a rolling window that of its newest bucket.
func (b *BudgetInfo) Counter(policyID, subject string, at time.Time) spend.Counter {
	return spend.Counter{
		ID:      spend.CounterID(policyID, b.RuleID, b.Since.Version, subject),
		StartMS: b.period.window(at).name, BucketMS: b.period.bucketMS(),
	}
}

// Values returns for whom a counter counts: the values of its subject, in the order
// of Per.
func (b *BudgetInfo) Values(subject string) ([]jsontext.Value, error) {
	values, ok := valuesOf(subject)
	if !ok || len(values) != len(b.Per) {
		return nil, fmt.Errorf("the counter of budget %s for %s is not per %v", b.RuleID, subject, b.Per)
	}
	return values, nil
}

// TextOf returns a value as text, without quotation marks.
func TextOf(value jsontext.Value) string {
	if text, ok := unquote(value); ok {
		return text
	}
	return string(value)
}

// ValuesOf returns the values of a subject, in the order of its budget's per; none of what is no subject.
func ValuesOf(subject string) []jsontext.Value {
	values, _ := valuesOf(subject)
	return values
}

// valuesOf returns the values of a subject.
func valuesOf(subject string) (values []jsontext.Value, ok bool) {
	array := jsontext.Value(subject)
	if !array.IsValid() || array.Kind() != jsontext.KindBeginArray {
		return nil, false
	}
	return elements(array, len(dimensionNames)+maxMetadataTests+1), true
}

// Share returns how full a counter is, with what grants add, by the limit that is nearer: 1 at the limit, and more if more
// was taken than a newer version allows.
func (b *BudgetInfo) Share(u, granted spend.Usage) float64 {
	share := 0.0
	if b.Limited {
		share = shareOf(u.Used.Float(), b.Limit.Total().Plus(granted.Used).Float())
	}
	if b.Counted {
		share = max(share, shareOf(float64(u.Count), float64(b.MaxCount+granted.Count)))
	}
	return share
}

// shareOf returns 1 where there is no room from the beginning.
func shareOf(used, limit float64) float64 {
	if limit == 0 {
		return 1
	}
	return used / limit
}
