package verify

import "spendgate/audit/spend"

// fitsUnused reports whether a row that counts nothing, as left by a refused or escalated check or
// by a rolling window, belongs to the counter that it names.
func (v *verifier) fitsUnused(c *Counter) bool {
	fits := spend.CounterID(c.PolicyID, c.RuleID, c.Since, c.Subject) == c.ID && v.fitsAgent(c)
	if c.StartMS < 0 {
		return fits && c.StartMS == -1 && c.BucketMS > 0
	}
	return fits && (c.BucketMS == 0 || c.EndMS == lastEnd(c))
}

// fitsAgent reports whether a row is noted with the agent of its counter, as far as that is known.
func (v *verifier) fitsAgent(c *Counter) bool {
	of := v.terms[budgetSince{c.PolicyID, c.RuleID, c.Since}]
	return c.AgentID == nil || of == nil || v.odd[c.PolicyID] || *c.AgentID == of.agent(c.Subject)
}

// lastEnd returns the time from which no window includes a bucket any more.
func lastEnd(c *Counter) int64 { return c.StartMS + (1+spend.RollingBuckets)*c.BucketMS }

// turns compares the rows with start_ms -1, by which commits take turns at a rolling window, with
// the buckets: such a row stays as long as the last bucket.
type turns struct {
	*verifier
	id    spend.ID
	turn  *Counter
	endMS int64 // of the last bucket
}

// row must be called for all counters, in order.
func (t *turns) row(c *Counter) {
	if c.ID != t.id {
		t.end()
		*t = turns{verifier: t.verifier, id: c.ID}
	}
	switch {
	case c.StartMS == -1:
		turn := *c
		t.turn = &turn
	case c.BucketMS > 0:
		t.endMS = max(t.endMS, lastEnd(c))
	}
}

// end must be called after the last row of a counter.
func (t *turns) end() {
	if t.turn == nil || !t.whole() || t.ended(t.turn.EndMS) || t.turn.EndMS == t.endMS || !t.fitsUnused(t.turn) {
		return
	}
	name := counterName(&counted{
		counterKey: counterKey{t.turn.ID, t.turn.StartMS}, PolicyID: t.turn.PolicyID, RuleID: t.turn.RuleID, Subject: t.turn.Subject,
		Since: t.turn.Since,
	})
	t.tally.find(Altered, name, "it may be removed from %s on; the last bucket of its window ends at %s", stampMS(t.turn.EndMS),
		stampMS(t.endMS))
}
