package verify_test

import (
	"testing"
	"time"

	"spendgate/audit"
	"spendgate/audit/spend"
	"spendgate/bench/must"
)

// TestForgedFreezes: an allow, a redemption and a take-over in the scope of an active freeze are named, by both verifiers; what
// came before, what is out of scope, and what came after the release is not (G17).
func TestForgedFreezes(t *testing.T) {
	t.Parallel()
	tr := newRedemptionTrail(t)
	frozen := func(kind audit.FreezeKind, value string, until time.Time) *audit.Freeze {
		t.Helper()
		f, _, err := tr.store.CreateFreeze(t.Context(), audit.Actor{KeyID: "key_1"}, audit.NewFreeze{
			ID: spend.NewID(time.Now()), Scope: audit.FreezeScope{Kind: kind, Value: value}, Reason: "it loops", Until: until, Seen: -1,
		})
		must.Do(t, err)
		tr.fence.Stops = f.Seq
		return f
	}
	const later = -20 * time.Second
	stops := func() int64 {
		t.Helper()
		changes := must.Get(tr.store.ConfigChanges(t.Context(), 0))(t)
		return changes.Stops
	}
	before := tr.check(spend.Allow, 0)
	over := frozen(audit.FreezeAll, "", time.Time{})
	meanwhile := tr.check(spend.Allow, 0)
	must.Do(t, tr.store.ReleaseFreeze(t.Context(), audit.Actor{Credential: "0a1b2c3d"},
		audit.FreezeRelease{Freeze: over, Keys: over.Seq, Note: "n"}))
	tr.fence.Stops = stops()
	after := tr.check(spend.Allow, 0)
	until := time.Now().Add(30 * time.Second).Truncate(time.Millisecond)
	frozen(audit.FreezeAgent, after.Action.AgentID, until)
	inTime, atOnce := tr.check(spend.Allow, later), tr.check(spend.Allow, 0)
	atItsEnd := tr.check(spend.Allow, -time.Until(until.Add(-time.Second)))
	tr.check(spend.Allow, -time.Until(until.Add(10*time.Millisecond)))
	tr.check(spend.Allow, -2*time.Minute)
	tr.check(spend.Block, later)
	for _, scope := range []audit.FreezeScope{
		{Kind: audit.FreezePolicy, Value: "PAID"}, {Kind: audit.FreezeCounterparty, Value: "nobody"}, {Kind: audit.FreezePrincipal, Value: "psp"},
	} {
		frozen(scope.Kind, scope.Value, time.Time{})
	}
	tr.check(spend.Allow, -2*time.Minute)
	redeemed := tr.steps(before, later, "redeemed by psp", "executed by psp")
	tr.bothSay("frozen", check("inserted", meanwhile), check("inserted", inTime), check("inserted", atOnce),
		check("inserted", atItsEnd), outcome("inserted", redeemed[0]))
}

// TestForgedStops: a redemption of what was allowed to a key before it was deactivated is named, and a void that says it was
// stopped and was not (S87). What was kept open, what was redeemed before, and what was allowed since is not (G17).
func TestForgedStops(t *testing.T) {
	t.Parallel()
	tr := newRedemptionTrail(t)
	k := &audit.Key{ID: spend.NewID(time.Now()), Name: "agent", RateLimitRPM: 10, Active: true, CreatedAt: time.Now()}
	must.Do(t, tr.store.CreateKey(t.Context(), audit.Actor{}, k))
	allowed := func() *spend.Check {
		c := checksOfAllSorts(tr.fence)[2]
		c.ID, c.Decision.Effect, c.Action.PolicyID, c.Decision.PolicyVersion = spend.NewID(time.Now()), spend.Allow, "paid", 1
		c.KeyID, c.Pass = k.ID.Text(spend.PrefixKey), spend.Pass{}
		must.Do(t, tr.writer.Append(c).Final())
		return c
	}
	deactivate := func(stops bool) {
		t.Helper()
		must.Get(tr.store.UpdateKey(t.Context(), audit.Actor{KeyID: "key_1"}, k.ID, audit.KeyChange{Active: new(false), Stops: stops}))(t)
		tr.fence.Stops = tr.lastStop()
	}
	before, kept, late, voided := allowed(), allowed(), allowed(), allowed()
	tr.steps(before, 0, "redeemed by psp", "executed by psp")
	deactivate(false)
	tr.steps(kept, 0, "redeemed by psp", "executed by psp")
	deactivate(true)
	since, other := allowed(), allowed()
	tr.steps(since, 0, "redeemed by psp", "executed by psp")
	redeemed := tr.steps(late, 0, "redeemed by psp", "executed by psp")
	void := func(c *spend.Check) *spend.Outcome {
		o := &spend.Outcome{
			ID: spend.NewOutcomeID(time.Now()), CheckID: c.ID, Step: 1, Number: 1, Status: spend.Voided, KeyID: spend.SystemKey, Check: c,
			Fence: tr.fence, Payment: spend.OutcomePayment{Flags: []spend.Flag{spend.FlagStopped}},
		}
		o.SetRelease(true)
		must.Do(t, tr.writer.AppendOutcome(o).Final())
		return o
	}
	void(voided)
	wrong := void(other)
	tr.bothSay("stopped", outcome("inserted", redeemed[0]), outcome("inserted", wrong))
}
