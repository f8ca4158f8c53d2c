package verify_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"spendgate/audit"
	"spendgate/audit/spend"
	"spendgate/audit/verify"
	"spendgate/bench/must"
)

// redemptionTrail is a trail whose checks a gateway redeems.
type redemptionTrail struct {
	*trail
	fence spend.Fence
}

func newRedemptionTrail(t *testing.T) *redemptionTrail {
	t.Helper()
	return newRedemptionTrailIn(t, newTrail(t))
}

func newRedemptionTrailIn(t *testing.T, in *trail) *redemptionTrail {
	t.Helper()
	tr := &redemptionTrail{trail: in}
	epoch := must.Get(tr.store.Epoch(t.Context()))(t)
	tr.fence = spend.Fence{Node: spend.NewID(time.Now()), Epoch: epoch, Stops: tr.lastStop()}
	p := &audit.Policy{PolicyID: "paid", Name: "p", Rules: "[]", Redeem: spend.RedeemTerms{Required: true, WithinMinutes: 20}}
	must.Do(t, tr.store.CreatePolicy(t.Context(), audit.Actor{}, p, audit.NewBudgets{}, time.Now()))
	return tr
}

// check records one of the policy that requires redemptions, that long ago.
func (tr *redemptionTrail) check(effect spend.Effect, ago time.Duration) *spend.Check {
	tr.t.Helper()
	c := checksOfAllSorts(tr.fence)[2]
	c.ID, c.Decision.Effect, c.Action.PolicyID, c.Decision.PolicyVersion = spend.NewID(time.Now().Add(-ago)), effect, "paid", 1
	c.KeyID, c.Principal, c.Owner, c.Pass = "key_of_agent", "agent", "ann", spend.Pass{}
	must.Do(tr.t, tr.writer.Append(c).Final())
	return c
}

// steps records what became of a check: each "status by key", with a + for who may release,
// and the principal behind a = if it is not the key's name.
func (tr *redemptionTrail) steps(of *spend.Check, ago time.Duration, steps ...string) (all []*spend.Outcome) {
	tr.t.Helper()
	number := 0
	for i, step := range steps {
		status, by, _ := strings.Cut(step, " by ")
		by, may := strings.CutSuffix(by, "+")
		key, principal, named := strings.Cut(by, "=")
		if !named {
			principal = strings.TrimSuffix(key, " 2")
		}
		o := &spend.Outcome{
			ID: spend.NewOutcomeID(time.Now().Add(-ago)), CheckID: of.ID, Step: i + 1, Status: spend.Status(status), Release: spend.ReleaseNone,
			KeyID: key, Principal: principal, RequestID: "req_1", Fence: tr.fence, Check: of, RedeemBy: time.Now().Add(time.Hour), MayRelease: may,
		}
		if ago = 0; o.Status.Known() {
			number++
			o.Number = number
		}
		if o.Status == spend.Executed {
			o.Amount = of.Action.Amount
		}
		must.Do(tr.t, tr.writer.AppendOutcome(o).Final())
		all = append(all, o)
	}
	return all
}

func opened(kind string, c *spend.Check) string {
	return kind + " open redemption of " + check("", c)[1:]
}

// TestTamperedRedemptions: which redemptions have no outcome follows from the steps of checks (S74, G14).
func TestTamperedRedemptions(t *testing.T) {
	t.Parallel()
	tr := newRedemptionTrail(t)
	open, doubted, done := tr.check(spend.Allow, 0), tr.check(spend.Allow, 0), tr.check(spend.Allow, 0)
	untouched, helped := tr.check(spend.Allow, 0), tr.check(spend.Allow, 16*time.Minute)
	first := tr.steps(open, 0, "redeemed by psp")[0]
	tr.steps(doubted, 0, "redeemed by psp", "in_doubt by PSP 2")
	tr.steps(done, 0, "redeemed by psp", "executed by psp 2", "voided by treasury+")
	tr.steps(helped, 16*time.Minute, "redeemed by psp", "in_doubt by system", "executed by treasury+")
	tr.steps(tr.check(spend.Allow, 0), 0, "redeemed by psp", "failed by psp=psp of later")
	tr.steps(untouched, 0, "voided by agent")
	tr.steps(tr.find(isAllowed), 0, "executed by agent") // its policy says nothing of redemptions
	id := func(c *spend.Check) string { return "'" + c.ID.Text("") + "'" }
	for _, size := range []int64{1, 7} {
		tr.finds(func(o *verify.Options) { o.SliceSize = size })
	}
	last := spend.ID{0xff, 0xff}
	for tamper, want := range map[string][]string{
		"SELECT": nil,
		"DELETE FROM redemptions_open WHERE check_id = " +
			id(open): {opened("removed", open)},
		"DELETE FROM redemptions_open WHERE check_id = " +
			id(doubted): {opened("removed", doubted)},
		"INSERT INTO redemptions_open VALUES (" + id(done) +
			", now())": {opened("inserted", done)},
		"INSERT INTO redemptions_open VALUES (" + id(untouched) +
			", now())": {opened("inserted", untouched)},
		"INSERT INTO redemptions_open VALUES (" + id(tr.records[0][0]) +
			", now())": {opened("inserted", tr.records[0][0])},
		"INSERT INTO redemptions_open VALUES ('" + last.Text("") +
			"', now())": {opened("inserted", &spend.Check{ID: last})},
		"UPDATE redemptions_open SET redeemed_at = redeemed_at + interval '2 hours' WHERE check_id = " +
			id(open): {opened("altered", open)},
		"UPDATE redemptions_open SET doubted_at = redeemed_at WHERE check_id = " +
			id(open): {opened("altered", open)},
		"UPDATE redemptions_open SET doubted_at = NULL WHERE check_id = " +
			id(doubted): {opened("altered", doubted)},
		"UPDATE redemptions_open SET doubted_at = doubted_at - interval '2 hours' WHERE check_id = " +
			id(doubted): {opened("altered", doubted)},
		"UPDATE redemptions_open SET check_id = " + id(helped) + " WHERE check_id = " +
			id(open): {opened("removed", open), opened("inserted", helped)},
		"DELETE FROM outcomes WHERE check_id = " +
			id(open): {outcome("removed", first), opened("inserted", open)},
		"UPDATE outcomes SET status = 'v' WHERE check_id = " +
			id(open): {outcome("altered", first)},
		"DELETE FROM redemptions_open; UPDATE outcomes SET note = 'x' WHERE check_id = " + id(open) +
			";": {outcome("altered", first), opened("removed", doubted)},
	} {
		tr.bothFind("outcomes redemptions_open", tamper, want...)
	}
	tr.exec("DELETE FROM redemptions_open")
	tr.finds(func(o *verify.Options) { o.From = open.ID.Time() }, opened("removed", open), opened("removed", doubted))
}

// TestForgedRedemptions: steps that no node records are named, though they are chained as
// nodes chain theirs (G14).
func TestForgedRedemptions(t *testing.T) {
	t.Parallel()
	tr := newRedemptionTrail(t)
	replace := func(from, to string) {
		tr.exec(`DO $$ BEGIN EXECUTE replace(pg_get_functiondef('insert_outcomes'::regproc), '%s', '%s'); END $$`, from, to)
	}
	// The guards of the order of steps and of the time to redeem.
	const guard, none = "WHERE a.step", "WHERE true OR a.step"
	replace(guard, none)
	var want []string
	forge := func(c *spend.Check, stray int, steps ...string) {
		t.Helper()
		o := tr.steps(c, 0, steps...)
		want = append(want, outcome("inserted", o[stray]))
	}
	allowed := func() *spend.Check { return tr.check(spend.Allow, 0) }
	forge(tr.check(spend.Block, 0), 0, "redeemed by psp", "executed by psp")
	forge(tr.check(spend.Escalate, 0), 0, "redeemed by psp", "executed by psp")
	forge(tr.check(spend.Allow, 22*time.Minute), 0, "redeemed by psp", "executed by psp")
	forge(allowed(), 0, "executed by psp")
	forge(allowed(), 1, "voided by psp", "executed by treasury+")
	forge(allowed(), 1, "redeemed by psp", "executed by treasury+")
	forge(allowed(), 1, "redeemed by psp", "voided by agent")
	forge(allowed(), 2, "redeemed by psp", "in_doubt by psp", "voided by treasury")
	forge(allowed(), 2, "redeemed by psp", "in_doubt by psp", "voided by key_of_agent+")
	forge(allowed(), 2, "redeemed by psp", "in_doubt by psp", "voided by AGENT+")
	forge(allowed(), 2, "redeemed by psp", "executed by psp", "voided by agent+")
	forge(allowed(), 1, "redeemed by psp", "in_doubt by treasury+", "executed by psp")
	forge(allowed(), 1, "redeemed by psp", "in_doubt by system", "executed by psp")
	forge(allowed(), 2, "redeemed by psp", "executed by psp", "in_doubt by psp")
	forge(allowed(), 2, "redeemed by psp", "in_doubt by psp", "in_doubt by psp", "executed by psp")
	forge(allowed(), 0, "in_doubt by psp", "voided by psp")
	released, twice := allowed(), allowed()
	forge(released, 1, "voided by psp", "redeemed by psp")
	forge(twice, 2, "redeemed by psp", "executed by psp", "redeemed by psp")
	want = append(want, opened("inserted", released), opened("inserted", twice))
	replace(none, guard)
	for _, size := range []int64{1, 7, 0} {
		tr.finds(func(o *verify.Options) { o.SliceSize = size }, want...)
	}
	slices.Sort(want)
	if found := tr.stranger(false); !slices.Equal(found, want) {
		t.Errorf("verify.py:\n  %s\nwant\n  %s", strings.Join(found, "\n  "), strings.Join(want, "\n  "))
	}
	// Without the version of the policy, or the check, nothing follows from them.
	tr.exec("DELETE FROM policies WHERE policy_id = 'paid'")
	found, _, err := tr.verify(nil)
	if err != nil || len(found) != len(want)+1-3 {
		t.Errorf("without the policy: %v, %v", found, err)
	}
}
