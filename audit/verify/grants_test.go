package verify_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"spendgate/audit"
	"spendgate/audit/spend"
	"spendgate/bench/must"
)

// grantTrail is a trail whose budget of 251, and of 9 checks, grants raise.
type grantTrail struct {
	*approvalTrail
}

func newGrantTrail(t *testing.T) *grantTrail {
	t.Helper()
	tr := &grantTrail{&approvalTrail{trail: newTrail(t)}}
	tr.capAt("251", time.Now())
	return tr
}

// terms are those of a grant that ends in an hour.
func (tr *grantTrail) terms(amount string, count int64, required int) *audit.GrantTerms {
	tr.t.Helper()
	terms := &audit.GrantTerms{
		Counter: tr.taking("1", nil).Charges[0].Counter, PolicyID: "capped", RuleID: "cap", Since: 1, Per: []string{}, Subject: "[]",
		AddCount: count, Until: time.Now().Add(time.Hour).UTC().Truncate(time.Millisecond), Note: "n", Required: required, Request: "00",
	}
	if amount != "" {
		var err error
		terms.AddAmount, err = spend.ParseTotal(amount)
		must.Do(tr.t, err)
		terms.Currency = "USD"
	}
	return terms
}

// change records a change of a grant, and returns its number.
func (tr *grantTrail) change(kind audit.ChangeKind, id spend.ID, terms *audit.GrantTerms, keyID, principal string) int64 {
	tr.t.Helper()
	must.Get(tr.store.RecordGrant(tr.t.Context(), audit.Actor{KeyID: keyID, Principal: principal},
		audit.GrantChange{Kind: kind, ID: id, Terms: terms, Seen: -1}))(tr.t)
	return tr.lastStop()
}

// update changes a key.
func (tr *grantTrail) update(keyID string, change audit.KeyChange) {
	tr.t.Helper()
	id, err := spend.ParseID(keyID, spend.PrefixKey)
	must.Do(tr.t, err)
	_, err = tr.store.UpdateKey(tr.t.Context(), audit.Actor{Principal: "ops"}, id, change)
	must.Do(tr.t, err)
}

// session returns the identifier of one.
func session() string { return spend.NewID(time.Now()).Text(spend.PrefixSession) }

// given is a change of a check that says that grants gave to it, by a last change of theirs.
func given(t *testing.T, amount string, count, last int64) func(*spend.Check, *spend.Charge) {
	t.Helper()
	total := must.Get(spend.ParseTotal(amount))(t)
	return func(_ *spend.Check, charge *spend.Charge) { charge.Grant(total, count, last) }
}

// TestForgedGrants: a check's charge says what the open grants of its counter gave, and nothing else: grants that are pending, ended,
// revoked, of another window, or of people who may grant no more do not count (S91).
func TestForgedGrants(t *testing.T) {
	t.Parallel()
	tr := newGrantTrail(t)
	ann, twin, bob, cleo := tr.member("ann"), tr.member("ann"), tr.member("bob"), tr.member("cleo")
	var want []string
	took := func(amount string, right bool) {
		t.Helper()
		c := tr.took("1", given(t, amount, 100, 1))
		if !right {
			want = append(want, check("inserted", c))
		}
	}
	first, second, id := tr.terms("100", 0, 0), tr.terms("50", 0, 1), [2]spend.ID{spend.NewID(time.Now()), spend.NewID(time.Now())}
	tr.change(audit.GrantCreated, spend.NewID(time.Now()), tr.terms("", 100, 0), session(), "dora")
	want = append(want, check("inserted", tr.took("1", given(t, "0", 99, 1))))
	took("100", false)
	tr.change(audit.GrantCreated, id[0], first, ann, "ann")
	took("100", true)
	took("0", false)
	took("100.5", false)
	tr.change(audit.GrantCreated, id[1], second, ann, "ann")
	took("150", false)
	tr.change(audit.GrantApproved, id[1], second, twin, "ann")
	took("150", false)
	tr.change(audit.GrantApproved, id[1], second, bob, "bob")
	took("150", true)
	tr.change(audit.GrantRevoked, id[0], first, cleo, "cleo")
	took("150", false)
	took("50", true)
	tr.update(bob, audit.KeyChange{Active: new(false)})
	took("50", false)
	tr.update(bob, audit.KeyChange{Active: new(true)})
	took("50", false)
	tr.change(audit.GrantApproved, id[1], second, bob, "bob")
	took("50", true)
	become := func(g spend.Grants) {
		all := []string{spend.MemberPrincipal, spend.MemberRole, spend.MemberAgentIDs, spend.MemberExpiresAt}
		tr.update(bob, audit.KeyChange{Grants: spend.GrantsChange{Grants: g, Named: all}})
	}
	for _, g := range []spend.Grants{
		{Role: spend.Approver, Principal: "ann"},
		{Role: spend.Auditor, Principal: "bob"},
		{Role: spend.Approver, Principal: "bob", AgentIDs: []string{"a"}},
		{Role: spend.Approver, Principal: "bob", ExpiresAt: time.Now().Add(-time.Minute)},
	} {
		become(g)
		took("50", false)
	}
	become(spend.Grants{Role: spend.Approver, Principal: "bob"})
	took("50", false)
	tr.change(audit.GrantApproved, id[1], second, bob, "bob")
	took("50", true)
	tr.update(ann, audit.KeyChange{Active: new(false), Stops: true})
	tr.update(ann, audit.KeyChange{Active: new(true)})
	took("50", false)
	dan, alias, third, of := tr.member("dan"), tr.member("dan"), tr.terms("30", 0, 1), spend.NewID(time.Now())
	tr.change(audit.GrantCreated, of, third, dan, "dan")
	tr.update(dan, audit.KeyChange{Grants: spend.GrantsChange{Grants: spend.Grants{Principal: "zoe"}, Named: []string{spend.MemberPrincipal}}})
	tr.change(audit.GrantApproved, of, third, alias, "dan")
	took("30", false) // dan granted it
	tomorrow := tr.terms("70", 0, 0)
	tomorrow.Counter.StartMS += 24 * time.Hour.Milliseconds()
	tr.change(audit.GrantCreated, spend.NewID(time.Now()), tomorrow, cleo, "cleo")
	took("70", false)
	short := tr.terms("20", 0, 0)
	short.Until = time.Now().Add(2 * time.Second)
	tr.change(audit.GrantCreated, spend.NewID(time.Now()), short, cleo, "cleo")
	took("20", true)
	after := tr.took("1", func(c *spend.Check, charge *spend.Charge) {
		c.ID = spend.NewID(short.Until)
		given(t, "20", 100, 1)(c, charge)
	})
	tr.bothSay("forged", append(want, check("inserted", after))...)
}

// TestGrantedExcess: what grants allowed is no excess, what they did not is one; a counter is noted as exhausted again after a grant,
// with the grant's last change.
func TestGrantedExcess(t *testing.T) {
	t.Parallel()
	tr := newGrantTrail(t)
	tr.took("251", nil)
	terms, id := tr.terms("100", 0, 0), spend.NewID(time.Now())
	opened := tr.change(audit.GrantCreated, id, terms, tr.member("ann"), "ann")
	last := tr.took("100", given(t, "100", 0, opened))
	tr.change(audit.GrantRevoked, id, terms, "key_2", "bob")
	tr.bothSay("what passed stays")
	of := counter("counter", last, 0)[len("counter "):]
	for what, c := range map[string]struct {
		tamper, of string
		removed    bool
	}{
		"a notice is gone":              {"DELETE FROM budget_exhaustions WHERE ", "nth = 0", true},
		"a notice with a grant is gone": {"DELETE FROM budget_exhaustions WHERE ", "nth > 0", true},
		"a notice of another limit":     {"UPDATE budget_exhaustions SET max_used = 350 WHERE ", "nth > 0", false},
		"a notice of another grant":     {"UPDATE budget_exhaustions SET nth = nth + 1 WHERE ", "nth > 0", true},
		"a notice without its grants":   {"UPDATE budget_exhaustions SET max_used = 251 WHERE ", "nth > 0", false},
	} {
		t.Run(what, func(t *testing.T) {
			in, event, exhaustion := *tr.trail, 0, ""
			in.t = t
			must.Do(t, tr.conn.QueryRow(t.Context(), "SELECT e.sequence, replace(x.id::text, '-', '') FROM events AS e "+
				"JOIN budget_exhaustions AS x ON x.id = e.source WHERE "+c.of).Scan(&event, &exhaustion))
			want := []string{"altered exhaustion " + exhaustion}
			if strings.HasPrefix(c.tamper, "DELETE") {
				want[0] = fmt.Sprintf("inserted event %d", event)
			}
			if c.removed {
				want = append(want, "removed exhaustion of "+of)
			}
			in.bothFind("budget_exhaustions", c.tamper+c.of, want...)
		})
	}
	late := tr.took("1", func(c *spend.Check, charge *spend.Charge) {
		given(t, "100", 0, opened)(c, charge)
		charge.Limited = false
	})
	tr.bothSay("after its end", check("inserted", late), excess(late))
}

// TestForgedGrantChanges: changes that no node makes are named, and count for nothing.
func TestForgedGrantChanges(t *testing.T) {
	t.Parallel()
	tr := newGrantTrail(t)
	ann := tr.member("ann")
	terms, id := tr.terms("100", 0, 1), spend.NewID(time.Now())
	tr.change(audit.GrantCreated, id, terms, ann, "ann")
	tr.change(audit.GrantApproved, id, terms, session(), "bob")
	tr.bothSay("as nodes do")
	var want []string
	forge := func(kind audit.ChangeKind, id spend.ID, change func(*audit.GrantTerms)) {
		t.Helper()
		of := *terms
		change(&of)
		want = append(want, fmt.Sprintf("inserted change %d of the configuration", tr.change(kind, id, &of, ann, "ann")))
	}
	none := func(*audit.GrantTerms) {}
	forge(audit.GrantApproved, spend.NewID(time.Now()), none)
	forge(audit.GrantApproved, id, func(t *audit.GrantTerms) { t.AddAmount = t.AddAmount.Plus(t.AddAmount) })
	forge(audit.GrantCreated, spend.NewID(time.Now()), func(t *audit.GrantTerms) { t.AddCount = 1 })
	forge(audit.GrantCreated, spend.NewID(time.Now()), func(t *audit.GrantTerms) { t.AddAmount = spend.Total{} })
	forge(audit.GrantCreated, spend.NewID(time.Now()), func(t *audit.GrantTerms) { t.Until = time.Now().Add(-2 * time.Minute) })
	forge(audit.GrantCreated, spend.NewID(time.Now()), func(t *audit.GrantTerms) {
		t.Counter.StartMS, t.Until = 0, time.Now().Add(audit.MaxGrantTime+time.Hour)
	})
	tr.change(audit.GrantRevoked, id, terms, session(), "bob")
	forge(audit.GrantApproved, id, none)
	forge(audit.GrantRevoked, id, none)
	tr.took("1", nil)
	tr.bothSay("forged", want...)
}
