package verify

import (
	"context"
	"slices"

	"spendgate/audit/spend"
)

// excesses names windows from which checks took more than any version that judged them allows with its grants
// (G12), whatever their counters hold now. The order of commits in several chains is unknown, so it
// compares only what is certain. Take any of a window's checks that had to keep its limits: one of
// them was committed last. It saw what the others had taken, less the most that was given back, and
// had to keep one of their limits. So together the checks whose limits are all at most L took no
// more than L. The limits of a check are those of its version with what the record of grants says that it was given, whatever its
// row says (givenTo). Limits that a later version lowered, grants that have ended, and charges that approvals lifted, leave room
// for more.
func (v *verifier) excesses(context.Context) error {
	if v.o.Leaving != nil {
		return nil // an archive has only one day's checks
	}
	var window []*counted // one window, or the buckets that all count for each other
	for c, err := range v.counts.all() {
		if err != nil {
			return err
		}
		window = slices.DeleteFunc(window, func(of *counted) bool {
			return of.ID != c.ID || c.BucketMS == 0 || of.BucketMS != c.BucketMS || of.StartMS < c.StartMS-spend.RollingBuckets*c.BucketMS
		})
		if window = append(window, c); v.exceeds(window) {
			window = nil // one finding is enough
		}
	}
	return nil
}

// exceeds names what checks took from a window if it is too much.
func (v *verifier) exceeds(window []*counted) bool {
	c := window[len(window)-1]
	of := v.terms[budgetSince{c.PolicyID, c.RuleID, c.Since}]
	if of == nil || v.odd[c.PolicyID] {
		return false // the facts are unknown, which has a finding of its own
	}
	var sum counted
	for _, part := range window {
		sum.plus(part)
	}
	limits := make([]limit, len(sum.Versions)) // none for a version without such a budget
	for n, by := range sum.Versions {
		limits[n], _ = by.By.limit(of)
	}
	for _, most := range limits {
		var within [2]spend.Usage // by amount, and by number
		for n, by := range sum.Versions {
			if l := limits[n].used; l != nil && most.used != nil && l.Cmp(*most.used) <= 0 {
				within[0] = within[0].Add(by.Held)
			}
			if l := limits[n].count; l != nil && most.count != nil && *l <= *most.count {
				within[1] = within[1].Add(by.Held)
			}
		}
		switch {
		case most.used != nil && within[0].Used.Cmp(*most.used) > 0:
			v.tally.find(Inserted, "excess of "+counterName(c),
				"checks without an approval took %s at least, and the versions and grants that judged them allow %s at most", within[0].Used, most.used)
			return true
		case most.count != nil && within[1].Count > *most.count:
			v.tally.find(Inserted, "excess of "+counterName(c),
				"%d checks without an approval took from it, and the versions and grants that judged them allow %d at most",
				within[1].Count, *most.count)
			return true
		}
	}
	return false
}
