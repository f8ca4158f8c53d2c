package backtest

import (
	"container/heap"

	"spendgate/audit/spend"
)

// reporting is an outcome that will be reported.
type reporting struct {
	at          uint64
	outcome     spend.Outcome
	fingerprint fingerprint
	payment     spend.Hash
	uses        spend.ID // the approval that the check used, or the check that the candidate allowed in its place
	charges     [sides][]spend.Charge
	on          [sides]bool // where the check was allowed
}

// reports are the reports to come, the next first.
type reports []*reporting

func (r reports) Len() int { return len(r) }
func (r reports) Less(i, j int) bool {
	return r[i].at < r[j].at || r[i].at == r[j].at && r[i].outcome.ID.Compare(r[j].outcome.ID) < 0
}
func (r reports) Swap(i, j int) { r[i], r[j] = r[j], r[i] }

// Push implements heap.Interface.
func (r *reports) Push(one any) { *r = append(*r, one.(*reporting)) }

// Pop implements heap.Interface.
func (r *reports) Pop() any {
	last := len(*r) - 1
	one := (*r)[last]
	(*r)[last] = nil
	*r = (*r)[:last]
	return one
}

// reportUntil applies the reports before a time: the amounts that they give back, and whether they
// free the fingerprint of the check, or of the check that asked for the approval it used.
func (e *Engine) reportUntil(at uint64) {
	for len(e.reports) > 0 && e.reports[0].at < at {
		ev := heap.Pop(&e.reports).(*reporting)
		o := &ev.outcome
		for side := range sides {
			if !ev.on[side] {
				continue
			}
			for i := range ev.charges[side] {
				charge := &ev.charges[side][i]
				if by := o.Correction(charge); by != (spend.Correction{}) {
					e.taken[side].correct(charge, by)
				}
			}
			e.passes.release(ev.fingerprint, o.CheckID, side, o.Frees())
			if !ev.uses.IsZero() {
				e.passes.release(ev.fingerprint, ev.uses, side, o.Frees())
			}
		}
		if made, is := e.paid[ev.payment]; is && made.check == ev.uses && o.Frees() {
			delete(e.paid, ev.payment) // it is free again
		}
	}
}

// expect keeps the reports of a check until their time. uses is the check whose approval it used, or that the candidate allowed in
// its place.
func (e *Engine) expect(c *spend.Check, uses spend.ID, all []*spend.Outcome, took, takes []spend.Charge, only ...int) {
	for i, o := range all {
		ev := &reporting{at: order(o.ID), outcome: *o, fingerprint: fingerprint(c.Fingerprint[:]), payment: c.PaymentHash(), uses: uses}
		if i > 0 {
			ev.outcome.Follows = all[i-1]
		}
		ev.charges = [sides][]spend.Charge{took, takes}
		ev.on = [sides]bool{true, only == nil}
		heap.Push(&e.reports, ev)
	}
}
