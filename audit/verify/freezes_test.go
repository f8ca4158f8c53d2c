package verify_test

import (
	"testing"
	"time"

	"spendgate/audit"
	"spendgate/audit/spend"
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
		act(t, err)
		tr.fence.Stops = f.Seq
		return f
	}
	const later = -20 * time.Second
	before := tr.check(spend.Allow, 0)
	over := frozen(audit.FreezeAll, "", time.Time{})
	act(t, tr.store.ReleaseFreeze(t.Context(), audit.Actor{Credential: "0a1b2c3d"},
		audit.FreezeRelease{Freeze: over, Keys: over.Seq, Note: "n"}))
	after := tr.check(spend.Allow, 0)
	frozen(audit.FreezeAgent, after.Action.AgentID, time.Now().Add(30*time.Second))
	inTime := tr.check(spend.Allow, later)
	tr.check(spend.Allow, -2*time.Minute)
	tr.check(spend.Block, later)
	for _, scope := range []audit.FreezeScope{
		{Kind: audit.FreezePolicy, Value: "PAID"}, {Kind: audit.FreezeCounterparty, Value: "nobody"}, {Kind: audit.FreezePrincipal, Value: "psp"},
	} {
		frozen(scope.Kind, scope.Value, time.Time{})
	}
	tr.check(spend.Allow, -2*time.Minute)
	redeemed := tr.steps(before, later, "redeemed by psp", "executed by psp")
	tr.finds(nil, check("inserted", inTime), outcome("inserted", redeemed[0]))
}
