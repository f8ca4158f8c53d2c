package audittest

import (
	"context"
	"errors"
	"reflect"
	"testing"
	"time"

	"spendgate/audit"
	"spendgate/audit/spend"
)

func budgetGrantTests() []test {
	return []test{
		{"BudgetGrantIsFinal", budgetGrantIsFinal},
		{"BudgetGrantCourse", budgetGrantCourse},
		{"BudgetGrantExhausts", budgetGrantExhausts},
		{"AskedBy", askedBy},
		{"Askers", askers},
	}
}

func newGrant(seen int64) audit.GrantChange {
	subject := spend.SubjectOf("agent-1")
	amount, _ := spend.ParseTotal("50.5")
	return audit.GrantChange{
		Kind: audit.GrantCreated, ID: spend.NewID(now()), Seen: seen, Name: "Ada",
		Terms: &audit.GrantTerms{
			Counter:  spend.Counter{ID: spend.CounterID("refunds", "daily", 3, subject), StartMS: 1_700_000_000_000},
			PolicyID: "refunds", RuleID: "daily", Since: 3, Per: []string{"agent_id"}, Subject: subject, AgentID: "agent-1",
			AddAmount: amount, Currency: "USD", Until: now().Add(time.Hour).Truncate(time.Millisecond).UTC(), Note: "a busy day", Required: 1,
			Request: "00",
		},
	}
}

// budgetGrantIsFinal revokes a grant while commits are in progress, as freezeIsFinal freezes.
func budgetGrantIsFinal(t *testing.T, s Subject) {
	granted := newGrant(-1)
	_, err := s.RecordGrant(t.Context(), person("key_1"), granted)
	must(t, err)
	f := fence(t, s)
	f.Stops = lastStop(t, s)
	stopIsFinal(t, s, f, audit.ErrStaleStops, func(ctx context.Context) error {
		granted.Kind = audit.GrantRevoked
		_, err := s.RecordGrant(ctx, person("key_1"), granted)
		return err
	})
}

// budgetGrantCourse approves and revokes grants, and shows that what was judged by an older state is not recorded, and what
// nodes and listings hear.
func budgetGrantCourse(t *testing.T, s Subject) {
	ctx := t.Context()
	c := newGrant(lastStop(t, s))
	replayed, err := s.RecordGrant(ctx, person("key_1"), c)
	if err != nil || replayed {
		t.Fatalf("granted: %v, %v", replayed, err)
	}
	if replayed, err := s.RecordGrant(ctx, person("key_2"), c); err != nil || !replayed {
		t.Errorf("granted again: %v, %v", replayed, err)
	}
	approval := audit.GrantChange{Kind: audit.GrantApproved, ID: c.ID, Terms: c.Terms, Note: "fine", Seen: c.Seen}
	if _, err := s.RecordGrant(ctx, person("key_2"), approval); !errors.Is(err, audit.ErrStaleStops) {
		t.Errorf("approved by an older state: %v", err)
	}
	approval.Seen = lastStop(t, s)
	_, err = s.RecordGrant(ctx, person("key_2"), approval)
	must(t, err)
	g, err := s.BudgetGrant(ctx, c.ID)
	if err != nil || !reflect.DeepEqual(g.GrantTerms, *c.Terms) || g.ID != c.ID || g.By.Name != "Ada" || g.By.Seq != g.Seq ||
		g.By.Party() != (audit.Party{KeyID: "key_1", Principal: "p-key_1", Owner: "o-key_1"}) || len(g.Approvals) != 1 ||
		g.Approvals[0].Note != "fine" || g.Approvals[0].By.KeyID != "key_2" || g.Last != g.Approvals[0].Seq || g.Revoked != nil {
		t.Fatalf("%+v, %v", g, err)
	}
	over := newGrant(-1)
	over.Terms.Until, over.Terms.AddAmount, over.Terms.AddCount = now().Add(-audit.GrantMargin-time.Second), spend.Total{}, 7
	_, err = s.RecordGrant(ctx, person("key_1"), over)
	must(t, err)
	whole, err := s.ConfigChanges(ctx, 0)
	if err != nil || len(whole.Stopping) != 2 || whole.Stopping[0].By.KeyID+whole.Stopping[1].By.KeyID != "key_1key_2" {
		t.Errorf("a node hears of %+v, %v; want the grant that is not over, and its approval", whole.Stopping, err)
	}
	revoked := audit.GrantChange{Kind: audit.GrantRevoked, ID: c.ID, Terms: c.Terms, Seen: -1}
	_, err = s.RecordGrant(ctx, admin(), revoked)
	must(t, err)
	latest, err := s.ConfigChanges(ctx, whole.Generation)
	if err != nil || len(latest.Stopping) != 1 || latest.Stopping[0].Kind != audit.GrantRevoked || latest.Stops != latest.Generation {
		t.Errorf("then it hears of %+v, %v", latest.Stopping, err)
	}
	page, more, err := s.ListBudgetGrants(ctx, audit.GrantQuery{Limit: 1})
	if err != nil || !more || len(page) != 1 || page[0].ID != over.ID || page[0].AddCount != 7 {
		t.Errorf("a page: %+v, %v, %v", page, more, err)
	}
	page, more, err = s.ListBudgetGrants(ctx, audit.GrantQuery{Limit: 1, Before: page[0].Seq})
	if err != nil || more || len(page) != 1 || page[0].ID != c.ID || page[0].Revoked == nil ||
		page[0].Revoked.By.Credential != admin().Credential {
		t.Errorf("the next: %+v, %v, %v", page, more, err)
	}
	if _, err := s.BudgetGrant(ctx, spend.NewID(now())); !errors.Is(err, audit.ErrNotFound) {
		t.Errorf("an unknown grant: %v", err)
	}
}

// budgetGrantExhausts: a counter that is exhausted again after a grant is told again, once for each grant (S51).
func budgetGrantExhausts(t *testing.T, s Subject) {
	f := fence(t, s)
	for _, bucket := range []int64{0, 60_000} {
		told := 0
		for n, step := range []struct {
			raised int64
			limit  string
			news   int
		}{{0, "10", 1}, {0, "20", 0}, {7, "30", 1}, {7, "40", 0}, {8, "50", 1}} {
			c := newCheck(f)
			c.Action.Amount = amount("10")
			c.Charges = []spend.Charge{{
				Counter: spend.Counter{ID: spend.CounterID("refunds", "raised", int(bucket+1), "[]"), StartMS: 600_000, BucketMS: bucket},
				RuleID:  "raised", Since: int(bucket + 1), Subject: "[]", Amount: amount("10"), Limited: true, Limit: amount(step.limit).Total(),
				EndMS: now().Add(time.Hour).UnixMilli(), Raised: step.raised,
			}}
			mustCommit(t, s, c)
			events, _ := feed(t, s, audit.EventQuery{Limit: 100, Types: []audit.EventType{audit.EventBudgetExhausted}})
			count := 0
			for _, e := range events {
				if e.Exhaustion.Counter.BucketMS == bucket && e.Exhaustion.RuleID == "raised" {
					count++
				}
			}
			if told += step.news; count != told {
				t.Errorf("buckets of %d ms, step %d: told %d times; want %d", bucket, n, count, told)
			}
		}
	}
}

// askedBy finds whose checks a counter met, and the checks that a person asked for.
func askedBy(t *testing.T, s Subject) {
	ctx, f := t.Context(), fence(t, s)
	charged := func(c *spend.Check) *spend.Check {
		c.Charges = []spend.Charge{{
			Counter: spend.Counter{ID: spend.CounterID("refunds", "daily", 1, "[]")}, RuleID: "daily", Since: 1, Subject: "[]", Amount: amount("1"),
		}}
		return c
	}
	asked := func(change func(*spend.Check)) *spend.Check {
		c := newCheck(f)
		c.KeyID, c.Principal, c.Owner = "key_x", "", ""
		change(c)
		return c
	}
	by := []*spend.Check{charged(asked(func(c *spend.Check) { c.KeyID = "key_1" }))}
	refused := blocked(asked(func(c *spend.Check) { c.Principal = "key_1" }))
	mustCommit(t, s, append(by, charged(asked(func(*spend.Check) {})), refused)...)
	met, err := s.CounterPrincipals(ctx, spend.CounterID("refunds", "daily", 1, "[]"))
	if err != nil || len(met) != 2 {
		t.Errorf("the counter met %q, %v", met, err)
	}
	q := audit.AskedQuery{
		PolicyID: by[0].Action.PolicyID, Principal: "key_1", Before: audit.MaxID(),
		From: audit.FirstID(now().Add(-time.Hour).UnixMilli()), Limit: 9,
	}
	all, err := s.AskedBy(ctx, q)
	if err != nil || len(all) != 2 || all[0].Compare(all[1]) < 0 {
		t.Errorf("asked for %v, %v", all, err)
	}
	q.Refused = true
	if all, err := s.AskedBy(ctx, q); err != nil || len(all) != 1 || all[0] != refused.ID {
		t.Errorf("refused %v, %v", all, err)
	}
}

// askers tells who could ask for checks, also when their sessions are not kept any more.
func askers(t *testing.T, s Subject) {
	ctx := t.Context()
	k := newKey()
	k.Grants = spend.Grants{Role: spend.Agent, Principal: "bot", Owner: "ann"}
	must(t, s.CreateKey(ctx, actor(), k))
	for name, g := range map[string]spend.Grants{"bo": {Role: spend.Full}, "eve": {Role: spend.Approver}} {
		session := newSession(name, name)
		session.Grants = g
		session.Grants.Principal, session.Grants.Owner = name, name+"@example.com"
		must(t, s.CreateSession(ctx, session))
	}
	_, err := s.UpdateKey(ctx, actor(), k.ID, audit.KeyChange{
		Grants: spend.GrantsChange{Grants: spend.Grants{Role: spend.Approver}, Named: []string{spend.MemberRole}},
	})
	must(t, err)
	must(t, s.Tidy(ctx, now().Add(audit.KeepSessions+time.Hour)))
	all, err := s.Askers(ctx)
	want := []audit.Party{
		{KeyID: k.ID.Text(spend.PrefixKey), Principal: "bot", Owner: "ann"}, {Principal: "bo", Owner: "bo@example.com"},
	}
	if err != nil || len(all) != 2 || all[0].Party != want[0] || all[1].Party != want[1] ||
		now().Sub(all[0].Since).Abs() > time.Minute || now().Sub(all[1].Since).Abs() > time.Minute {
		t.Errorf("%+v, %v; want %+v", all, err, want)
	}
}

func grantEvents(t *testing.T, s Subject, news func(string, ...audit.EventType) []audit.Event) {
	t.Helper()
	c := newGrant(-1)
	for _, kind := range []audit.ChangeKind{audit.GrantCreated, audit.GrantApproved, audit.GrantRevoked} {
		c.Kind = kind
		_, err := s.RecordGrant(t.Context(), person("key_1"), c)
		must(t, err)
	}
	for _, e := range news("a grant", audit.EventGrantCreated, audit.EventGrantApproved, audit.EventGrantRevoked) {
		said, _, err := audit.GrantOf(e.Change)
		if err != nil || !reflect.DeepEqual(said, *c.Terms) || e.PolicyID != "refunds" || e.AgentID != "agent-1" {
			t.Errorf("%+v, %v", e, err)
		}
	}
}
