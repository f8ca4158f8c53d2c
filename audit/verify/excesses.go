package verify

import (
	"context"
	"slices"

	"spendgate/audit/spend"
)

// excesses names windows from which checks took more than any version that judged them allows
// (G12), whatever their counters hold now. The order of commits of several chains is not known,
// so that what is certain is compared. Of any of the checks of a window that were held to its
// limits, one was committed last: it saw what the others had taken, less what was given back at
// most, and was held to one of their limits. So those of which no limit is above some limit took
// no more than that. What a version lowered, and what approvals lifted, leaves room for more.
func (v *verifier) excesses(context.Context) error {
	if v.o.Leaving != nil {
		return nil // it is of one day's checks
	}
	var window []*counted // one, or buckets of which all count for each
	for c, err := range v.counts.all() {
		if err != nil {
			return err
		}
		window = slices.DeleteFunc(window, func(of *counted) bool {
			return of.ID != c.ID || c.BucketMS == 0 || of.BucketMS != c.BucketMS || of.StartMS < c.StartMS-spend.RollingBuckets*c.BucketMS
		})
		if window = append(window, c); v.exceeds(window) {
			window = nil // once is enough
		}
	}
	return nil
}

// exceeds names what checks took from a window if it is too much.
func (v *verifier) exceeds(window []*counted) bool {
	c := window[len(window)-1]
	of := v.terms[budgetSince{c.PolicyID, c.RuleID, c.Since}]
	if of == nil || v.odd[c.PolicyID] {
		return false // what there was is not known; that has a finding of its own
	}
	var sum counted
	for _, part := range window {
		sum.plus(part)
	}
	limits := make([]limit, len(sum.Versions)) // none of a version that has no such budget
	for n, by := range sum.Versions {
		if i := of.find(by.Version); i >= 0 {
			limits[n] = of.versions[i].limit
		}
	}
	for _, most := range limits {
		var within [2]low // by amount, and by number
		for n, by := range sum.Versions {
			if l := limits[n].used; l != nil && most.used != nil && l.Cmp(*most.used) <= 0 {
				within[0] = within[0].plus(by.Held)
			}
			if l := limits[n].count; l != nil && most.count != nil && *l <= *most.count {
				within[1] = within[1].plus(by.Held)
			}
		}
		switch {
		case most.used != nil && within[0].used.Cmp(*most.used) > 0:
			v.tally.find(Inserted, "excess of "+counterName(c),
				"checks without an approval took %s at least, and the versions that judged them allow %s at most", within[0].used, most.used)
			return true
		case most.count != nil && within[1].Count > *most.count:
			v.tally.find(Inserted, "excess of "+counterName(c),
				"%d checks without an approval took from it, and the versions that judged them allow %d at most", within[1].Count, *most.count)
			return true
		}
	}
	return false
}
