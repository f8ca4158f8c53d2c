package verify

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"iter"
	"slices"
	"time"

	"spendgate/audit"
	"spendgate/audit/chain"
	"spendgate/audit/spend"
)

// Counter is a stored row of the counters of budgets.
type Counter struct {
	spend.Counter
	PolicyID, RuleID, Subject string
	Since                     int
	EndMS                     int64 // 0 for a lifetime
	Used                      string
	Count                     int64
	AgentID                   *string // for a budget per agent, otherwise empty; nil if the store lacks it
}

// clocksAhead is how much too early a node may remove a counter.
const clocksAhead = time.Hour

// movedEnd is how far newer rules of a time zone, or another name of it, may move the end of an
// open calendar window. A row keeps its first end, perhaps from a refused or escalated check, whose
// window is not recorded; that end may differ by this much from the ends of recorded checks. The
// end decides only when the row may be removed and until when a budget is in use (S63). So moving
// it by less can only hide that the row was removed up to a day sooner or later. A row missing
// within a day of its window's end is named, too, and after that no check is judged by the
// window.
const movedEnd = 24 * time.Hour

// mayMove returns how far the end of a counter may have moved: that of a bucket never moves.
func mayMove(endMS, bucketMS int64) int64 {
	if endMS == 0 || bucketMS > 0 {
		return 0
	}
	return movedEnd.Milliseconds()
}

// clocksApart is more than the clocks of any zone were ever ahead of UTC.
const clocksApart = 16 * time.Hour

// earliest returns when the window or bucket of a counter began at the earliest, in whatever zone.
func earliest(c *spend.Counter) int64 {
	if c.StartMS == 0 || c.BucketMS > 0 {
		return c.StartMS
	}
	return c.StartMS - clocksApart.Milliseconds()
}

// reach returns in which time the recorded checks of a window or bucket may lie. While the fleet went from
// one release of the time zones to another, nodes judged by either, so checks that were not read, outside
// the range or in an archive that is not at hand, may have seen another beginning or end.
func (v *verifier) reach(beginMS, endMS, bucketMS int64) (int64, int64) {
	moved := mayMove(endMS, bucketMS)
	from, to := beginMS-moved, endMS+moved
	early, late := from-(audit.ZonesOverlap+clocksAhead).Milliseconds(), to+clocksAhead.Milliseconds()
	if slices.ContainsFunc(v.zonesChanged, func(atMS int64) bool { return early <= atMS && atMS <= late }) {
		return from, to
	}
	return beginMS, endMS
}

// ended reports whether a counter may already have been removed.
func (v *verifier) ended(endMS int64) bool {
	return endMS != 0 && endMS <= v.overview.At.Add(clocksAhead-audit.KeepCounters).UnixMilli()
}

// take counts what a check took from budgets, as corrected by the last of its outcomes. listed says
// that a batch lists the check.
func (s *slice) take(fields [][]byte, c *course, listed, intact bool) error {
	v := s.verifier
	if len(fields[chain.FieldCharges]) == 0 || v.o.Leaving != nil {
		return nil
	}
	taken, err := spend.ParseTaken(string(fields[chain.FieldPolicyID]), string(fields[chain.FieldCharges]))
	if err != nil && intact {
		v.tally.find(Unchecked, checkName(spend.ID(fields[0])), "%v", err)
	}
	id, version := spend.ID(fields[0]), int(binary.BigEndian.Uint32(fields[chain.FieldPolicyVersion]))
	principal := spend.Check{KeyID: string(fields[chain.FieldKeyID]), Principal: string(fields[chain.FieldPrincipal])}
	for i := range taken {
		if err := v.meet(string(fields[chain.FieldPolicyID]), &taken[i], principal.PrincipalName()); err != nil {
			return err
		}
		v.bounds.take(id.Time(), &taken[i], c)
		held := listed && intact && len(fields[chain.FieldApprovalID]) == 0
		by := judgedBy{Version: version}
		by.grants(s.givenTo(id, version, &taken[i], listed && intact))
		if err := v.counts.take(string(fields[chain.FieldPolicyID]), by, &taken[i], c, held); err != nil {
			return err
		}
	}
	return nil
}

// present returns the counters whose rows must not have been removed yet.
func (v *verifier) present() iter.Seq2[*counted, error] {
	return func(yield func(*counted, error) bool) {
		for c, err := range v.counts.all() {
			if (err != nil || !v.ended(c.EndMS+mayMove(c.EndMS, c.BucketMS))) && !yield(c, err) {
				return
			}
		}
	}
}

// counters compares the counters of budgets with what the recorded checks took
// from them (G12).
func (v *verifier) counters(ctx context.Context) error {
	if v.o.Leaving != nil {
		return nil // the archive has the checks of one day or month, counters those of all days
	}
	recorded := newCursor(v.present())
	defer recorded.stop()
	turns := turns{verifier: v}
	err := v.o.Evidence.Counters(ctx, func(c Counter) error {
		turns.row(&c)
		key := counterKey{c.ID, c.StartMS}
		recorded.pass(func(c *counted) bool { return c.compare(key) < 0 }, v.removedCounter)
		if recorded.at == nil || recorded.at.counterKey != key {
			v.counter(&c, nil)
			return recorded.err
		}
		v.counter(&c, recorded.at)
		recorded.advance()
		return recorded.err
	})
	if err != nil {
		return err
	}
	turns.end()
	return recorded.rest(v.removedCounter)
}

// removedCounter names a counter whose row is missing.
func (v *verifier) removedCounter(c *counted) {
	if !v.ended(c.FirstEndMS-mayMove(c.FirstEndMS, c.BucketMS)) && v.within(c.BeginMS, c.windowEnd()) {
		v.tally.find(Removed, counterName(c), "recorded checks took %s, %d of them%s", c.Used, c.Count, windowText(c.BeginMS, c.windowEnd()))
	}
}

// counter compares a row with what the checks took; recorded is nil if they took nothing.
func (v *verifier) counter(c *Counter, recorded *counted) {
	stored := &counted{
		counterKey: counterKey{c.ID, c.StartMS}, PolicyID: c.PolicyID, RuleID: c.RuleID, Subject: c.Subject, Since: c.Since,
		BucketMS: c.BucketMS, EndMS: c.EndMS, Count: c.Count,
	}
	used, err := spend.ParseTotal(c.Used)
	unused := recorded == nil && err == nil && used.IsZero() && c.Count == 0
	begin, end := c.StartMS, stored.windowEnd()
	if !unused {
		begin = earliest(&c.Counter)
	}
	if v.ended(c.EndMS) && (recorded == nil || v.ended(recorded.EndMS)) {
		return // ended counters are deleted
	}
	if recorded != nil {
		begin, end = recorded.BeginMS, recorded.windowEnd()
	}
	reachFrom, reachTo := v.reach(begin, end, c.BucketMS)
	if !v.within(reachFrom, reachTo) {
		v.tally.countersBeyond++
		return
	}
	v.tally.counters++
	if day, unread := v.tally.unreadIn(reachFrom, reachTo); unread {
		v.tally.find(Unchecked, counterName(stored), "it holds %s of %d checks%s, and the archive of %s is not at hand, or not as it was", c.Used,
			c.Count, windowText(begin, end), day)
		return
	}
	switch {
	case recorded == nil && !unused:
		v.tally.find(Inserted, counterName(stored), "it holds %s of %d checks%s, and no recorded check took from it", c.Used, c.Count,
			windowText(begin, end))
	case recorded == nil && !v.fitsUnused(c):
		v.tally.find(Altered, counterName(stored), "it counts nothing, and is noted as another counter, agent or bucket, or with another end")
	case recorded == nil:
	case err != nil || used != recorded.Used || c.Count != recorded.Count:
		v.tally.find(Altered, counterName(recorded), "it holds %s of %d checks%s; the recorded checks took %s, %d of them",
			c.Used, c.Count, windowText(begin, end), recorded.Used, recorded.Count)
	case counterName(stored) != counterName(recorded) || c.BucketMS != recorded.BucketMS:
		v.tally.find(Altered, counterName(recorded), "it is noted as %s, with buckets of %d ms; the recorded checks have %d", counterName(stored),
			c.BucketMS, recorded.BucketMS)
	case !v.fitsAgent(c):
		v.tally.find(Altered, counterName(recorded), "it is noted for another agent than it is of")
	case !recorded.ends(c.EndMS):
		v.tally.find(Altered, counterName(recorded), "it may be removed from %s on; the recorded checks have %s", stampMS(c.EndMS),
			stampMS(recorded.EndMS))
	}
}

// ends reports whether a row may have that end.
func (c *counted) ends(endMS int64) bool {
	moved := mayMove(c.EndMS, c.BucketMS)
	return c.FirstEndMS-moved <= endMS && endMS <= c.EndMS+moved
}

// windowEnd returns when the window or bucket ends; 0 for a lifetime.
func (c *counted) windowEnd() int64 {
	if c.BucketMS > 0 {
		return c.StartMS + c.BucketMS
	}
	return c.EndMS
}

// within reports whether all checks of a window are verified.
func (v *verifier) within(startMS, endMS int64) bool {
	return (v.o.From.IsZero() || endMS != 0 && v.o.From.UnixMilli() <= startMS) &&
		(v.o.To.IsZero() || v.o.To.After(v.overview.At) || endMS != 0 && endMS <= v.o.To.UnixMilli()+1)
}

// unreadDay notes a day of which some checks may not have been read.
func (t *tally) unreadDay(day Day) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.unread = append(t.unread, day)
}

// isUnread reports whether some checks of the day may not have been read.
func (t *tally) isUnread(day Day) bool { return slices.Contains(t.unread, day) }

// unreadIn returns a day of the window whose checks were not read.
func (t *tally) unreadIn(startMS, endMS int64) (Day, bool) {
	i := slices.IndexFunc(t.unread, func(day Day) bool {
		return endMS == 0 || int64(day)*dayMS < endMS && startMS < (int64(day)+1)*dayMS
	})
	if i < 0 {
		return 0, false
	}
	return t.unread[i], true
}

func counterName(c *counted) string {
	return fmt.Sprintf("counter of budget %q of policy %q since version %d for %s, start_ms %d", c.RuleID, c.PolicyID, c.Since, c.Subject,
		c.StartMS)
}

// windowText returns a text like " from 2026-11-22T00:00:00.000Z to 2026-11-23T00:00:00.000Z".
func windowText(startMS, endMS int64) string {
	if endMS == 0 {
		return " in all"
	}
	return " from " + stampMS(startMS) + " to " + stampMS(endMS)
}

func stampMS(ms int64) string { return spend.TimeText(time.UnixMilli(ms)) }

// countSince names a version of a policy whose budgets count from a wrong version: it must be the
// first of the consecutive versions, up to this one, in which the budget is the same.
func (w *changeWalk) countSince(p PolicyVersion, fields [][]byte) {
	columns := chain.Policies().Columns()
	text, updated := fields[slices.Index(columns, "budgets")], fields[slices.Index(columns, "updated_at")]
	text = bytes.TrimPrefix(text, []byte{1}) // the version of jsonb's encoding; an embedded store keeps text
	budgets, err := audit.ParseBudgets(string(text))
	at, ok := chain.Time(updated)
	previous := w.budgets[p.PolicyID]
	w.succeed(p.PolicyID, at)
	w.budgets[p.PolicyID] = versionBudgets{p.Version, budgets}
	switch {
	case err != nil || !ok:
		w.odd[p.PolicyID] = true
		w.tally.find(Unchecked, policyName(p), "since when its budgets count cannot be read: %v", err)
	default:
		w.limit(p, string(fields[slices.Index(columns, "rules")]), budgets, at)
	}
	switch {
	case err != nil || !ok, p.Version != previous.version+1: // missing versions are reported elsewhere
	case audit.BudgetsText(budgets) != audit.BudgetsText(audit.CountSince(identitiesOf(budgets), previous.budgets, p.Version, at)):
		w.tally.find(Altered, policyName(p), "its budgets do not count since the version in which they became what they are")
	}
}

func identitiesOf(budgets map[string]spend.BudgetSince) map[string][]spend.Hash {
	identities := make(map[string][]spend.Hash, len(budgets))
	for id, b := range budgets {
		identities[id] = []spend.Hash{b.Identity}
	}
	return identities
}

// versionBudgets are the budgets of a policy's version.
type versionBudgets struct {
	version int
	budgets map[string]spend.BudgetSince
}
