package verify

import (
	"context"
	"crypto/sha256"
	"fmt"
	"slices"
	"strconv"
	"time"

	"spendgate/audit/chain"
	"spendgate/audit/spend"
)

// CounterPrincipal says that checks of a principal took from a counter.
type CounterPrincipal struct {
	Counter   spend.ID
	Principal string
}

// ID identifies the counter and the principal; they are compared in its order.
func (p *CounterPrincipal) ID() spend.ID {
	sum := sha256.Sum256(append(p.Counter[:], p.Principal...))
	return spend.ID(sum[:16])
}

// meet notes that a principal's check took from a counter.
func (v *verifier) meet(policyID string, c *spend.Charge, principal string) error {
	if !v.whole() || principal == "" {
		return nil
	}
	p := CounterPrincipal{c.Counter.ID, principal}
	earliest := c.EndMS - mayMove(c.EndMS, c.Counter.BucketMS) // that its row may have
	return v.met.add(&counted{
		counterKey: counterKey{ID: p.ID()}, PolicyID: policyID, RuleID: c.RuleID, Since: c.Since,
		Subject: c.Subject + " and principal " + principal, EndMS: endless(earliest),
	})
}

// endless makes the end of a lifetime greater than all others.
func endless(endMS int64) int64 {
	if endMS == 0 {
		return 1<<63 - 1
	}
	return endMS
}

// principals compares the principals noted with each counter with those whose checks took from it.
// They are kept as long as the counter has a row.
func (v *verifier) principals(ctx context.Context) error {
	if !v.whole() {
		return nil
	}
	recorded := newCursor(v.met.all())
	defer recorded.stop()
	removed := func(c *counted) {
		if !v.ended(c.EndMS) {
			v.tally.find(Removed, principalName(c), "its checks took from it")
		}
	}
	err := v.o.Evidence.Principals(ctx, func(p CounterPrincipal) error {
		id := p.ID()
		recorded.pass(func(c *counted) bool { return less(c.ID, id) }, removed)
		switch {
		case recorded.at != nil && recorded.at.ID == id:
			recorded.advance()
		case len(v.tally.unread) == 0:
			v.tally.find(Inserted, fmt.Sprintf("principal %s of counter %s", p.Principal, p.Counter.Text("")), "none of its checks took from it")
		}
		return recorded.err
	})
	if err != nil {
		return err
	}
	return recorded.rest(removed)
}

func principalName(c *counted) string {
	return fmt.Sprintf("principal of budget %q of policy %q since version %d for %s", c.RuleID, c.PolicyID, c.Since, c.Subject)
}

// Exhaustion says that a counter had no room left, or refused a check, or reached a percentage of its limit.
type Exhaustion struct {
	spend.Counter
	ID                        spend.ID
	At                        time.Time
	PolicyID, RuleID, Subject string
	Since, Percent            int
	Nth                       int64
	Used                      string // in the window until then
	Count                     int64
	Limit, MaxCount           string // empty without a limit
	AgentID                   string // empty unless the budget is per agent
}

// eachExhaustion calls each with every exhaustion, in the order of counters, starts and percentages.
func (v *verifier) eachExhaustion(ctx context.Context, each func(Exhaustion) error) error {
	walk := Walk{Table: chain.Exhaustions(), Order: "counter_id, start_ms, percent, nth"}
	return walkFields(ctx, v.o.Evidence, walk, func(f [][]byte, _ []byte) error {
		e := Exhaustion{
			Counter: spend.Counter{ID: identifier(f[0]), StartMS: chain.Integer(f[1]), BucketMS: chain.Integer(f[2])}, ID: identifier(f[3]),
			Since: int(chain.Integer(f[5])), Percent: int(chain.Integer(f[6])), Nth: chain.Integer(f[7]), Limit: string(f[8]),
			Used: string(f[10]), Count: chain.Integer(f[11]),
			PolicyID: string(f[12]), RuleID: string(f[13]), Subject: string(f[14]), AgentID: string(f[15]),
		}
		e.At, _ = chain.Time(f[4])
		if f[9] != nil {
			e.MaxCount = strconv.FormatInt(chain.Integer(f[9]), 10)
		}
		return each(e)
	})
}

// unlessLate names the other possible causes.
const unlessLate = "; or a commit was held up, or a clock was off"

func exhaustionName(id spend.ID) string { return "exhaustion " + id.Text("") }

// loadExhaustions reads, before the checks, the counters for which checks are added up (see
// bounds).
func (v *verifier) loadExhaustions(ctx context.Context) error {
	if !v.whole() {
		return nil
	}
	return v.eachExhaustion(ctx, func(e Exhaustion) error {
		v.bounds.expect(&e)
		return nil
	})
}

// notice is that a counter reached a percentage.
type notice struct {
	percent int
	nth     int64
}

// exhaustions compares exhaustions with the counters that they name and with what checks had taken,
// and names used-up counters of a calendar window or a lifetime without an exhaustion, and those without a percentage that they
// reached.
func (v *verifier) exhaustions(ctx context.Context) error {
	if !v.whole() {
		return nil
	}
	recorded := newCursor(v.present())
	defer recorded.stop()
	var noted []notice // of the counter at which recorded is
	missing := func(c *counted) {
		if v.unnoted(c, spend.Exhausted, noted) {
			v.tally.find(Removed, "exhaustion of "+counterName(c), "the recorded checks took %s, %d of them", c.Used, c.Count)
		}
		for _, percent := range v.notified(c) {
			if v.unnoted(c, percent, noted) {
				v.tally.find(Removed, fmt.Sprintf("notice of %d %% of %s", percent, counterName(c)), "the recorded checks took %s, %d of them",
					c.Used, c.Count)
			}
		}
		noted = nil
	}
	err := v.eachExhaustion(ctx, func(e Exhaustion) error {
		key := counterKey{e.Counter.ID, e.StartMS}
		recorded.pass(func(c *counted) bool { return c.compare(key) < 0 }, missing)
		if fault := v.fault(&e, recorded.at); fault != "" {
			v.tally.find(Altered, exhaustionName(e.ID), "%s", fault)
		}
		if recorded.at != nil && recorded.at.counterKey == key {
			noted = append(noted, notice{e.Percent, e.Nth})
		}
		return recorded.err
	})
	if err != nil {
		return err
	}
	return recorded.rest(missing)
}

// fault returns what in an exhaustion does not follow from the record; c is its counter, another
// counter, or nil.
func (v *verifier) fault(e *Exhaustion, c *counted) string {
	begin := earliest(&e.Counter) - lateCommit.Milliseconds()
	if spend.CounterID(e.PolicyID, e.RuleID, e.Since, e.Subject) != e.Counter.ID || e.At.UnixMilli() < begin {
		return fmt.Sprintf("it is noted as of budget %q of policy %q since version %d for %s, at %s, which is another counter, "+
			"or before its window%s", e.RuleID, e.PolicyID, e.Since, e.Subject, stamp(e.At), unlessLate)
	}
	if c != nil && c.counterKey == (counterKey{e.Counter.ID, e.StartMS}) && c.BucketMS != e.BucketMS {
		return fmt.Sprintf("it has buckets of %d ms; those of its counter have %d", e.BucketMS, c.BucketMS)
	}
	if fault := v.termsFault(e); fault != "" {
		return fault
	}
	return v.usageFault(e)
}

// termsFault returns a fault if no version of the budget that was in force then has the noted
// limits with grants that were open then, or if the noted agent is not that of the counter.
func (v *verifier) termsFault(e *Exhaustion) string {
	of := v.terms[budgetSince{e.PolicyID, e.RuleID, e.Since}]
	if of == nil || v.odd[e.PolicyID] {
		return "" // the facts are unknown, which has a finding of its own
	}
	if agent := of.agent(e.Subject); agent != e.AgentID {
		return fmt.Sprintf("it is noted for the agent %q; its counter is that of %q", e.AgentID, agent)
	}
	for _, one := range of.versions {
		if !one.inForce(e.At) || e.Percent != spend.Exhausted && !slices.Contains(one.notify, e.Percent) {
			continue
		}
		for _, by := range v.givenAround(e, one.limit) {
			if l := one.with(by.Usage); l.says(e.Limit, e.MaxCount) && (e.Percent != spend.Exhausted || e.Nth == by.Raised) {
				return l.reachedFault(e)
			}
		}
	}
	return fmt.Sprintf("it is noted of %d %% of a limit of %q, or a count of %q, with number %d, which no version of its budget had "+
		"with its grants at %s%s", e.Percent, e.Limit, e.MaxCount, e.Nth, stamp(e.At), unlessLate)
}

// reachedFault returns a fault if the noted usage does not reach the noted percentage, which it need not to be refused a check; or if a
// percentage of a window that does not roll is noted again.
func (l limit) reachedFault(e *Exhaustion) string {
	if e.Nth != 0 && e.BucketMS == 0 && e.Percent != spend.Exhausted {
		return fmt.Sprintf("it is noted for the time number %d", e.Nth)
	}
	used, err := spend.ParseTotal(e.Used)
	if e.Percent == spend.Exhausted || err == nil && l.part(e.Percent).reached(used, e.Count) {
		return ""
	}
	return fmt.Sprintf("it is noted that %d %% were reached with %s used, by %d checks", e.Percent, e.Used, e.Count)
}

// usageFault returns a fault if checks had taken less, or more, than is noted.
func (v *verifier) usageFault(e *Exhaustion) string {
	b := v.bounds.of(e)
	if b == nil {
		return ""
	}
	if b.others {
		return fmt.Sprintf("it has buckets of %d ms; those from which checks took have others", e.BucketMS)
	}
	if b.late() {
		return fmt.Sprintf("it is noted at %s, when its window was over%s", stamp(e.At), unlessLate)
	}
	if _, unread := v.tally.unreadIn(v.span(b)); unread {
		return ""
	}
	used, err := spend.ParseTotal(e.Used)
	if err == nil && used.Cmp(b.low) >= 0 && used.Cmp(b.high) <= 0 && e.Count >= b.lowCount && e.Count <= b.highCount {
		return ""
	}
	return fmt.Sprintf("it is noted that %s was used, by %d checks; recorded checks had taken between %s and %s by %s, "+
		"between %d and %d of them%s",
		e.Used, e.Count, b.low, b.high, stamp(e.At), b.lowCount, b.highCount,
		unlessLate)
}

// notified returns the percentages that are noted of a counter under each version by which checks took from it.
func (v *verifier) notified(c *counted) (all []int) {
	of := v.terms[budgetSince{c.PolicyID, c.RuleID, c.Since}]
	for n, by := range c.Versions {
		if of == nil || of.find(by.By.Version) < 0 {
			return nil
		}
		notify := of.versions[of.find(by.By.Version)].notify
		if n == 0 {
			all = slices.Clone(notify)
		}
		all = slices.DeleteFunc(all, func(percent int) bool { return !slices.Contains(notify, percent) })
	}
	return all
}

// unnoted reports whether checks took a percentage of what a counter allows, and nothing notes that. Of the checks judged by the
// versions up to some version, and by the grants until some change, one was committed last: it saw what all of them took, less the
// most that their outcomes gave back, and had to keep one of their limits. Commits that were judged before a change of grants come
// before it: so it was judged by the newest of these changes, by one of these versions, or by the next one if the same commit has
// a check judged by it. Of 100 percent the notice says which grants raised the limit. What outcomes add shows only with the next check.
func (v *verifier) unnoted(c *counted, percent int, noted []notice) bool {
	of := v.terms[budgetSince{c.PolicyID, c.RuleID, c.Since}]
	if c.BucketMS != 0 || of == nil || v.odd[c.PolicyID] {
		return false
	}
	var taken spend.Usage
	for n, by := range c.Versions {
		taken = taken.Add(by.All)
		newest := by.By.Version
		if n+1 < len(c.Versions) && c.Versions[n+1].By.Phase == by.By.Phase {
			newest = c.Versions[n+1].By.Version
		}
		most, told := limit{used: new(spend.Total), count: new(int64)}, false
		for _, meant := range c.Versions {
			if meant.By.Phase != by.By.Phase || meant.By.Version > newest {
				continue
			}
			l, ok := meant.By.limit(of)
			if !ok {
				return false
			}
			most = most.larger(l)
			told = told || slices.ContainsFunc(noted, func(n notice) bool {
				return n.percent == percent && (percent != spend.Exhausted || n.nth == meant.By.Raised)
			})
		}
		if !told && most.part(percent).reached(taken.Used, taken.Count) {
			return true
		}
	}
	return false
}
