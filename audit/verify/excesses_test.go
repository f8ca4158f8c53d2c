package verify_test

import (
	"fmt"
	"testing"
	"time"

	"spendgate/audit/spend"
	"spendgate/audit/verify"
	"spendgate/bench/must"
)

// taking is a check that takes from the budget of capAt.
func (tr *trail) taking(amount string, change func(*spend.Check, *spend.Charge)) *spend.Check {
	tr.t.Helper()
	epoch := must.Get(tr.store.Epoch(tr.t.Context()))(tr.t)
	limit, err := spend.ParseTotal("251")
	must.Do(tr.t, err)
	c := checksOfAllSorts(spend.Fence{Node: spend.NewID(time.Now()), Epoch: epoch, Stops: tr.lastStop()})[2]
	c.Action.Amount, err = spend.ParseAmount(amount)
	must.Do(tr.t, err)
	c.Action.PolicyID, c.Principal, c.Decision.PolicyVersion = "capped", "till", 1
	day := c.ID.Time().Truncate(24 * time.Hour)
	c.Charges = []spend.Charge{{
		Counter: spend.Counter{ID: spend.CounterID("capped", "cap", 1, "[]"), StartMS: day.UnixMilli()},
		RuleID:  "cap", Since: 1, Subject: "[]", Amount: c.Action.Amount, EndMS: day.Add(24 * time.Hour).UnixMilli(),
		Limited: true, Limit: limit, Counted: true, MaxCount: 9,
	}}
	if change != nil {
		change(c, &c.Charges[0])
	}
	return c
}

// took commits it.
func (tr *trail) took(amount string, change func(*spend.Check, *spend.Charge)) *spend.Check {
	tr.t.Helper()
	c := tr.taking(amount, change)
	must.Do(tr.t, tr.writer.Append(c).Final())
	return c
}

// bothSay demands this finding of both verifiers.
func (tr *trail) bothSay(what string, want ...string) {
	tr.t.Helper()
	tr.exec("SELECT sequence_events(1000)")
	tr.t.Run(what, func(t *testing.T) {
		of := *tr
		of.t = t
		of.bothFind("checks", "SELECT", want...)
	})
}

func excess(c *spend.Check) string {
	return "inserted excess of " + counter("counter", c, 0)[len("counter "):]
}

// TestExcess: a budget is reported if more was taken than any of its versions allows, even if its
// counter agrees with what was taken (G12).
func TestExcess(t *testing.T) {
	t.Parallel()
	tr := newTrail(t)
	tr.capAt("251", time.Now())
	first := tr.took("200", nil)
	tr.exec("UPDATE budget_counters SET used = 51 WHERE rule_id = 'cap'")
	second := tr.took("200", nil)
	tr.exec("UPDATE budget_counters SET used = 400 WHERE rule_id = 'cap'")
	tr.bothSay("taken twice", excess(first))

	release := &spend.Outcome{
		ID: spend.NewOutcomeID(time.Now()), CheckID: second.ID, Check: second, Fence: second.Fence, Step: 1, Number: 1, Status: spend.Voided,
		Release: spend.ReleaseDone, KeyID: "key_1", RequestID: "req_1", MayRelease: true,
	}
	must.Do(t, tr.writer.AppendOutcome(release).Final())
	tr.bothSay("given back")

	tr.capAt("600", time.Now())
	tr.took("400", func(c *spend.Check, charge *spend.Charge) { c.Decision.PolicyVersion, charge.Limited = 2, false })
	tr.bothSay("by a version with more")
	tr.took("52", func(_ *spend.Check, charge *spend.Charge) { charge.Limited = false })
	tr.bothSay("by one with less", excess(first))
}

// TestExcessByCount is TestExcess of how many there were.
func TestExcessByCount(t *testing.T) {
	t.Parallel()
	tr := newTrail(t)
	tr.capAt("251", time.Now())
	for range 9 {
		tr.took("1", nil)
	}
	tr.bothSay("nine")
	c := tr.took("1", func(_ *spend.Check, charge *spend.Charge) { charge.Counted = false })
	tr.bothSay("ten", excess(c))
}

// TestExcessOfRolling: of a rolling window all buckets count for each that is at most 60 later.
func TestExcessOfRolling(t *testing.T) {
	t.Parallel()
	for _, apart := range []int64{spend.RollingBuckets + 1, spend.RollingBuckets} {
		tr := newTrail(t)
		tr.capAt("251", time.Now())
		in := func(back int64) *spend.Check {
			return tr.took("200", func(c *spend.Check, charge *spend.Charge) {
				start := c.ID.Time().Truncate(time.Minute).UnixMilli() - back*60_000
				charge.Counter.StartMS, charge.Counter.BucketMS, charge.EndMS = start, 60_000, start+61*60_000
				charge.Limited = false
			})
		}
		in(apart)
		last := in(0)
		if apart > spend.RollingBuckets {
			tr.bothSay("apart")
		} else {
			tr.bothSay("within", excess(last))
		}
	}
}

// TestNoExcessByApproval: amounts that people approved may exceed the limit (S47).
func TestNoExcessByApproval(t *testing.T) {
	t.Parallel()
	tr := &approvalTrail{trail: newTrail(t)}
	tr.capAt("251", time.Now())
	tr.took("200", nil)
	asked := tr.taking("200", nil)
	asked.Decision.Effect, asked.Decision.RuleID, asked.Charges = spend.Escalate, "cap", nil
	asked.Approval = &spend.ApprovalRequest{
		Required: 1, Expires: time.Hour, UseWithin: time.Hour, ActionHash: spend.ActionHash(asked),
		Rules: []spend.EscalatedRule{{RuleID: "cap", Identity: spend.Hash{1}}},
	}
	tr.append(asked)
	tr.decide(asked, "bob", true)
	tr.took("200", func(c *spend.Check, charge *spend.Charge) {
		c.Action = asked.Action
		c.Action.ApprovalID, charge.Lifted = asked.ID, true
	})
	tr.bothSay("approved")
}

// TestLaterEnd: newer time zone rules move the end of an open window, and its row keeps the first
// end; so does the row of an escalated check, about which nothing else is recorded (G12).
func TestLaterEnd(t *testing.T) {
	t.Parallel()
	const hour = 3_600_000
	for _, moved := range []int64{hour, -hour} {
		for _, escalated := range []bool{false, true} {
			tr := newTrail(t)
			tr.capAt("251", time.Now())
			first := tr.took("20", func(c *spend.Check, _ *spend.Charge) {
				if escalated {
					c.Decision.Effect, c.Decision.RuleID = spend.Escalate, "cap"
				}
			})
			tr.took("20", func(_ *spend.Check, charge *spend.Charge) { charge.EndMS += moved })
			what := fmt.Sprint("moved by ", moved, ", ", escalated)
			tr.bothSay(what)
			tr.exec("UPDATE budget_counters SET end_ms = end_ms + %d WHERE rule_id = 'cap'", -25*moved)
			tr.bothSay(what+", and altered", counter("altered", first, 0))
		}
	}
}

// TestMovedWindow: newer time zone rules move both ends of an open window. Its counter goes on, so what
// checks took by either release is compared with one limit and one row (F137).
func TestMovedWindow(t *testing.T) {
	t.Parallel()
	const hour = 3_600_000
	tr := newTrail(t)
	tr.capAt("251", time.Now())
	by := func(offset int64, limited bool) func(*spend.Check, *spend.Charge) {
		return func(_ *spend.Check, charge *spend.Charge) {
			charge.OffsetMS, charge.EndMS, charge.Limited = offset, charge.EndMS-offset, limited
		}
	}
	first := tr.took("200", by(-8*hour, true))
	tr.took("51", by(-7*hour, true))
	if n := tr.count("budget_counters WHERE rule_id = 'cap' AND used = 251"); n != 1 {
		t.Errorf("%d counters", n)
	}
	if n := tr.count("budget_exhaustions"); n != 1 {
		t.Errorf("%d exhaustions", n)
	}
	tr.bothSay("moved by an hour")
	tr.took("1", by(-8*hour, false))
	tr.bothSay("above the limit", excess(first))
}

// TestRangeOfZones: with a range, the counters of windows are compared that began in it, by the clocks of
// their zones.
func TestRangeOfZones(t *testing.T) {
	t.Parallel()
	tr := newTrail(t)
	from := time.Now().UTC().Truncate(24 * time.Hour)
	tr.capAt("251", from)
	c := tr.taking("20", nil)
	for _, offset := range []time.Duration{-8 * time.Hour, 13 * time.Hour} {
		c.Charges = append(c.Charges, c.Charges[0])
		charge := &c.Charges[len(c.Charges)-1]
		charge.RuleID, charge.OffsetMS = offset.String(), offset.Milliseconds()
		charge.EndMS -= charge.OffsetMS
		charge.Counter.ID = spend.CounterID("capped", charge.RuleID, 1, "[]")
	}
	must.Do(t, tr.writer.Append(c).Final())
	_, s, err := tr.verify(func(o *verify.Options) { o.From = from })
	if err != nil || s.Counters != 2 || s.CountersBeyond != 1 {
		t.Errorf("%+v, %v", s, err)
	}
}

// TestMovedEndOfOldWindows: rows go by the end that they have. One that is gone earlier than any
// end could have moved is named.
func TestMovedEndOfOldWindows(t *testing.T) {
	t.Parallel()
	tr := newTrail(t)
	tr.capAt("251", time.Now())
	ended := func(ago time.Duration) *spend.Check {
		return tr.took("20", func(c *spend.Check, charge *spend.Charge) {
			charge.Counter.StartMS, charge.EndMS = c.ID.Time().Add(-240*time.Hour-ago).UnixMilli(), c.ID.Time().Add(-ago).UnixMilli()
		})
	}
	old := ended(50 * time.Hour)
	tr.exec("UPDATE budget_counters SET end_ms = end_ms + 20 * 3600000")
	tr.bothSay("of later rules")
	tr.exec("UPDATE budget_counters SET used = used + 1")
	tr.bothSay("of later rules, and altered", counter("altered", old, 0))
	tr.exec("UPDATE budget_counters SET end_ms = end_ms - 20 * 3600000")
	tr.bothSay("which goes") // whatever it holds
	tr.exec("DELETE FROM budget_counters; DELETE FROM budget_principals")
	tr.bothSay("gone")
	ended(30 * time.Hour)
	tr.exec("DELETE FROM budget_counters; DELETE FROM budget_principals")
	tr.bothSay("gone, of earlier rules")
	young := ended(20 * time.Hour)
	tr.exec("DELETE FROM budget_counters; DELETE FROM budget_principals")
	tr.bothSay("too early", counter("removed", young, 0),
		`removed principal of budget "cap" of policy "capped" since version 1 for [] and principal till`)
}

// TestLateExhaustion: newer rules of a time zone move the end of an open window by less than a day,
// so that much after the end that checks have its exhaustion may be noted.
func TestLateExhaustion(t *testing.T) {
	t.Parallel()
	tr := newTrail(t)
	tr.capAt("251", time.Now())
	usedUp := func(ago time.Duration) (exhaustion string) {
		t.Helper()
		now := time.Now()
		for range 2 {
			tr.took("125.5", func(_ *spend.Check, charge *spend.Charge) {
				charge.Counter.StartMS, charge.EndMS = now.Add(-240*time.Hour).UnixMilli(), now.Add(-ago).UnixMilli()
			})
		}
		const newest = "SELECT replace(id::text, '-', '') FROM budget_exhaustions ORDER BY at DESC LIMIT 1"
		must.Do(t, tr.conn.QueryRow(t.Context(), newest).Scan(&exhaustion))
		return exhaustion
	}
	usedUp(23 * time.Hour)
	tr.bothSay("in time")
	tr.bothSay("late", "altered exhaustion "+usedUp(25*time.Hour))
}

// TestDigits: amounts taken are added up exactly.
func TestDigits(t *testing.T) {
	t.Parallel()
	tr := newTrail(t)
	tr.capAt("999999999999999999", time.Now())
	for range 11 {
		tr.took("999999999999999999", func(c *spend.Check, charge *spend.Charge) {
			charge.Limited, charge.Counted, c.Charges[0].RuleID = false, false, "free"
			charge.Counter.ID = spend.CounterID("capped", "free", 1, "[]")
		})
	}
	c := tr.took("0.000000001", func(c *spend.Check, charge *spend.Charge) {
		charge.Limited, charge.Counted, c.Charges[0].RuleID = false, false, "free"
		charge.Counter.ID = spend.CounterID("capped", "free", 1, "[]")
	})
	tr.bothSay("exact")
	tr.exec("UPDATE budget_counters SET used = used - 0.000000001 WHERE rule_id = 'free'")
	tr.bothSay("altered", counter("altered", c, 0))
}
