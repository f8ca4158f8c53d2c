package hotpath_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"spendgate/audit"
	"spendgate/audit/spend"
	"spendgate/bench/must"
	"spendgate/hotpath"
)

const grantRules = `[{"rule_id":"daily","rule_type":"budget","parameters":
	{"limit":100,"max_count":90,"currency":"USD","per":["agent_id"],"window":"day"}}]`

func (f *fleet) grantAsked(policyID, amount, agent string) hotpath.GrantAsked {
	f.t.Helper()
	a := must.Get(spend.ParseAmount(amount))(f.t)
	end := time.Now().UTC().Truncate(24 * time.Hour).Add(24 * time.Hour)
	return hotpath.GrantAsked{
		PolicyID: policyID, RuleID: "daily", Per: map[string]jsontext.Value{"agent_id": jsontext.Value(fmt.Sprintf("%q", agent))},
		AddAmount: a, Until: end, Note: "a busy day",
	}
}

func (p person) grant(node int, asked hotpath.GrantAsked) *hotpath.GrantView {
	p.t.Helper()
	g, replayed, err := p.nodes[node].Grant(context.Background(), p.access, audit.Actor{}, asked)
	if err != nil || replayed {
		p.t.Fatalf("granted: %t, %v", replayed, err)
	}
	return g
}

// of is an action of an agent with a counterparty of its own.
func (f *fleet) spending(policyID, amount, agent, counterparty string) spend.Action {
	a := under(refundOf(f.t, amount, counterparty), policyID)
	a.AgentID = agent
	return a
}

func (o outcome) allowed() bool { return o.err == nil && o.answer.Check.Decision.Effect == spend.Allow }

// S91: a grant raises the limit of one counter, on every node, until it is revoked; what was judged by it and not recorded when
// it was revoked is judged again. A budget that is exhausted after a grant is told again.
func TestGrantRaisesALimit(t *testing.T) {
	eachBackend(t, 2, func(t *testing.T, f *fleet) {
		f.post(0, "g", grantRules)
		p := f.person("ann")
		if o := f.check(0, f.spending("g", "100", "a1", "one")); !o.allowed() {
			t.Fatal(o)
		}
		if o := f.check(1, f.spending("g", "10", "a1", "two")); o.allowed() {
			t.Fatal(o)
		}
		first := p.grant(0, f.grantAsked("g", "50", "a1"))
		second := p.grant(1, f.grantAsked("g", "0.5", "a1"))
		for node, o := range f.checkAll(f.spending("g", "40", "a1", "three"), f.spending("g", "10.5", "a1", "four")) {
			if !o.allowed() || o.answer.Check.Charges[0].Granted.Used.String() != "50.5" {
				t.Errorf("node %d: %s", node, o)
			}
		}
		if o := f.check(0, f.spending("g", "1", "a1", "five")); o.allowed() || !strings.Contains(o.answer.Check.Decision.Message, "150.50 USD") {
			t.Errorf("over the raised limit: %s", o)
		}
		if o := f.check(0, f.spending("g", "101", "a2", "six")); o.allowed() {
			t.Errorf("another counter: %s", o)
		}
		page, err := f.nodes[1].Budgets(t.Context(), hotpath.Access{}, hotpath.BudgetQuery{PolicyID: "g", Limit: 9})
		if err != nil || len(page.Counters) != 1 || page.Counters[0].Granted.Used.String() != "50.5" || page.Counters[0].Limit.String() != "100" {
			t.Errorf("the budget: %+v, %v", page, err)
		}
		told := 0
		f.eventually("the events", func() bool {
			feed, err := f.store.Events(t.Context(), audit.EventQuery{Limit: 100, Types: []audit.EventType{audit.EventBudgetExhausted}})
			told = len(feed.Events)
			return err == nil && told >= 3 // the first for agent a2
		})
		if told != 3 {
			t.Errorf("exhausted %d times", told)
		}

		third := p.grant(0, f.grantAsked("g", "100", "a1"))
		held, release := f.nodes[0].holdCommit(nil)
		result := make(chan outcome, 1)
		go func() { result <- f.check(0, f.spending("g", "20", "a1", "in flight")) }()
		<-held
		g, replayed, err := f.nodes[1].RevokeGrant(context.Background(), p.access, audit.Actor{}, third.ID, "enough")
		if err != nil || replayed || g.Status != hotpath.GrantRevoked {
			t.Errorf("revoked: %+v, %t, %v", g, replayed, err)
		}
		release()
		if o := <-result; o.err != nil || o.allowed() {
			t.Errorf("in flight while its grant was revoked: %s", o)
		}
		if _, replayed, err := f.nodes[0].RevokeGrant(context.Background(), p.access, audit.Actor{}, third.ID, ""); err != nil || !replayed {
			t.Errorf("revoked again: %t, %v", replayed, err)
		}
		listed, err := f.nodes[1].ListGrants(t.Context(), hotpath.Access{}, hotpath.GrantQuery{Status: hotpath.GrantOpen, Limit: 9})
		if err != nil || listed.More || len(listed.Grants) != 2 || listed.Grants[0].ID != second.ID || listed.Grants[1].ID != first.ID {
			t.Errorf("open grants: %+v, %v", listed, err)
		}
	})
}

// S91: a grant ends when its granter may grant no more, whatever was in flight, and when its time is over.
func TestGrantEnds(t *testing.T) {
	eachBackend(t, 2, func(t *testing.T, f *fleet) {
		f.post(0, "g", grantRules)
		for what, change := range ends() {
			p := f.person(what)
			p.grant(0, f.grantAsked("g", "100", what))
			held, release := f.nodes[0].holdCommit(nil)
			result := make(chan outcome, 1)
			go func() { result <- f.check(0, f.spending("g", "150", what, what)) }()
			<-held
			p.patch(1, change[0])
			release()
			if o := <-result; o.err != nil || o.allowed() {
				t.Errorf("%s, in flight: %s", what, o)
			}
			if o := f.check(1, f.spending("g", "100", what, "within")); !o.allowed() {
				t.Errorf("%s, within the limit: %s", what, o)
			}
			p.patch(0, change[1])
			if o := f.check(1, f.spending("g", "50", what, "again")); o.allowed() {
				t.Errorf("%s, after the granter may grant again: %s", what, o)
			}
		}
		asked := f.grantAsked("g", "100", "soon")
		asked.Until = time.Now().Add(1200 * time.Millisecond)
		f.person("bo").grant(0, asked)
		if o := f.check(1, f.spending("g", "150", "soon", "a")); !o.allowed() {
			t.Errorf("before its end: %s", o)
		}
		time.Sleep(time.Until(asked.Until) + 10*time.Millisecond)
		if o := f.check(1, f.spending("g", "40", "soon", "b")); o.allowed() {
			t.Errorf("after its end: %s", o)
		}
		before := hotpath.BudgetQuery{PolicyID: "g", AgentID: "soon", At: asked.Until.Add(-time.Millisecond), Limit: 9}
		page, err := f.nodes[1].Budgets(t.Context(), hotpath.Access{}, before)
		if err != nil || len(page.Counters) != 1 || !page.Counters[0].Granted.Used.IsZero() {
			t.Errorf("S64: granted %+v, %v", page.Counters, err)
		}
	})
}

// S91: a grant of a counter that the policy has no more has ended, also when the rule comes back.
func TestGrantOfNoCounter(t *testing.T) {
	eachBackend(t, 2, func(t *testing.T, f *fleet) {
		f.post(0, "g", grantRules)
		p := f.person("ann")
		g := p.grant(0, f.grantAsked("g", "50", "a1"))
		for _, rules := range []string{`[{"rule_id":"cap","rule_type":"max_amount","parameters":{"limit":1000}}]`, grantRules} {
			f.post(0, "g", rules)
			_, _, err := f.nodes[0].ApproveGrant(t.Context(), f.person("bo").access, audit.Actor{}, g.ID, "")
			if !errors.Is(err, hotpath.ErrGrantNotActive) {
				t.Errorf("approved: %v", err)
			}
			shown, err := f.nodes[0].GrantOf(t.Context(), p.access, g.ID)
			if err != nil || shown.Status != hotpath.GrantEnded {
				t.Errorf("%s, %v", shown.Status, err)
			}
		}
		if o := f.check(0, f.spending("g", "101", "a1", "c")); o.allowed() {
			t.Errorf("above the new counter's limit: %s", o)
		}
	})
}

// S91: where people are asked about changes of the policy, as many others must approve a grant, and it waits for them.
func TestGrantWaits(t *testing.T) {
	eachBackend(t, 2, func(t *testing.T, f *fleet) {
		v := hotpath.NewVersion{Policy: &audit.Policy{PolicyID: "g", Name: "g", Rules: grantRules, Changes: `{"required":2}`}}
		must.Do(t, f.nodes[0].CreatePolicy(t.Context(), hotpath.Access{}, audit.Actor{}, v))
		ann, bo, cy := f.person("ann"), f.person("bo"), f.person("cy")
		g := ann.grant(0, f.grantAsked("g", "50", "a1"))
		if g.Status != hotpath.GrantPending || g.Missing != 2 {
			t.Errorf("%s, %d missing", g.Status, g.Missing)
		}
		approve := func(p person, want error, missing int) {
			t.Helper()
			got, _, err := f.nodes[1].ApproveGrant(t.Context(), p.access, audit.Actor{}, g.ID, "fine")
			if !errors.Is(err, want) || err == nil && got.Missing != missing {
				t.Errorf("%+v, %v", got, err)
			}
		}
		waits := func(p person) int {
			t.Helper()
			page, err := f.nodes[0].WaitingFor(t.Context(), p.access, hotpath.WaitingQuery{ApprovalQuery: audit.ApprovalQuery{Limit: 9}})
			if err != nil {
				t.Fatal(err)
			}
			n := 0
			for _, w := range page.Items {
				if w.Grant != nil && w.Grant.ID == g.ID {
					n++
				}
			}
			return n
		}
		if waits(ann) != 0 || waits(bo) != 1 {
			t.Errorf("waits for the granter %d, for another %d", waits(ann), waits(bo))
		}
		approve(ann, hotpath.ErrGrantOwn, 0)
		approve(bo, nil, 1)
		bo.patch(0, named(spend.Grants{Principal: "cara"}, spend.MemberPrincipal))
		approve(f.person("bo"), nil, 1) // the same person again
		if o := f.check(0, f.spending("g", "101", "a1", "pending")); o.allowed() {
			t.Errorf("pending: %s", o)
		}
		bo.patch(0, audit.KeyChange{Active: new(false)})
		approve(cy, nil, 1) // the approval of a key that is not active does not count
		dee := f.person("dee")
		if waits(cy) != 0 || waits(dee) != 1 {
			t.Error("it waits for whoever has approved, or not for another")
		}
		approve(dee, nil, 0)
		approve(f.person("eve"), hotpath.ErrGrantNotPending, 0)
		if o := f.check(0, f.spending("g", "101", "a1", "open")); !o.allowed() {
			t.Errorf("open: %s", o)
		}
		dee.patch(1, named(spend.Grants{Role: spend.Auditor}, spend.MemberRole))
		if o := f.check(0, f.spending("g", "45", "a1", "pending again")); o.allowed() {
			t.Errorf("one who approved may grant no more: %s", o)
		}
	})
}

// S91: who may not grant, and what may not be granted.
func TestGrantRefused(t *testing.T) {
	eachBackend(t, 1, func(t *testing.T, f *fleet) {
		f.post(0, "g", grantRules)
		p := f.person("ann")
		try := func(p person, change func(*hotpath.GrantAsked)) error {
			asked := f.grantAsked("g", "1", "a1")
			change(&asked)
			_, _, err := f.nodes[0].Grant(t.Context(), p.access, audit.Actor{}, asked)
			return err
		}
		for what, change := range map[string]func(*hotpath.GrantAsked){
			"no such rule":    func(a *hotpath.GrantAsked) { a.RuleID = "weekly" },
			"no per":          func(a *hotpath.GrantAsked) { a.Per = nil },
			"more per":        func(a *hotpath.GrantAsked) { a.Per["counterparty"] = jsontext.Value(`"c"`) },
			"no text":         func(a *hotpath.GrantAsked) { a.Per["agent_id"] = jsontext.Value(`7`) },
			"past":            func(a *hotpath.GrantAsked) { a.Until = time.Now().Add(-time.Second) },
			"past the window": func(a *hotpath.GrantAsked) { a.Until = a.Until.Add(time.Millisecond) },
		} {
			if _, is := errors.AsType[spend.Faults](try(p, change)); !is {
				t.Errorf("%s: %v", what, try(p, change))
			}
		}
		if err := try(p, func(a *hotpath.GrantAsked) { a.PolicyID = "none" }); !errors.Is(err, hotpath.ErrPolicyNotFound) {
			t.Error(err)
		}
		bound := f.access(spend.Grants{Scopes: spend.BudgetsGrant, PolicyIDs: []string{"g"}})
		if _, is := errors.AsType[*hotpath.ForbiddenError](try(bound, func(*hotpath.GrantAsked) {})); !is {
			t.Error("a bound key grants")
		}
		// A check of the granter's, counted or refused, by whatever key.
		own := f.keyed(spend.Grants{Role: spend.Agent, Principal: "bot", Owner: "ann"})
		f.checkBy(own, 0, f.spending("g", "1", "counted", "c"))
		f.checkBy(own, 0, f.spending("g", "101", "refused", "c"))
		f.checkBy(own, 0, f.spending("g", "1", "other", "c"))
		f.check(0, f.spending("g", "1", "a1", "c"))
		for agent, want := range map[string]error{"counted": hotpath.ErrGrantOwnCheck, "refused": hotpath.ErrGrantOwnCheck, "a1": nil} {
			err := try(p, func(a *hotpath.GrantAsked) { a.Per["agent_id"] = jsontext.Value(fmt.Sprintf("%q", agent)) })
			if !errors.Is(err, want) {
				t.Errorf("%s: %v", agent, err)
			}
		}
		// Also one whose key had the granter as its owner then.
		raw, lent, err := f.nodes[0].CreateKey(t.Context(), audit.Actor{}, hotpath.NewKey{
			Name: "lent", RateLimitRPM: 1000, Grants: spend.Grants{Role: spend.Agent, Principal: "lent", Owner: "ann"},
		})
		must.Do(t, err)
		f.checkBy(hotpath.KeyCaller([]byte(raw)), 0, f.spending("g", "1", "lent", "c"))
		_, _, err = f.nodes[0].UpdateKey(t.Context(), audit.Actor{}, lent.ID, named(spend.Grants{Owner: "carol"}, spend.MemberOwner))
		must.Do(t, err)
		err = try(p, func(a *hotpath.GrantAsked) { a.Per["agent_id"] = jsontext.Value(`"lent"`) })
		if !errors.Is(err, hotpath.ErrGrantOwnCheck) {
			t.Errorf("a check of a key that had another owner: %v", err)
		}
		// Also one that was asked in a session of the same person.
		token, _ := f.signedIn(0, "bo", spend.Grants{Role: spend.Gateway})
		for amount, agent := range map[string]string{"1": "asked in a session", "101": "refused in a session"} {
			f.checkBy(f.caller(0, token), 0, f.spending("g", amount, agent, "c"))
			for what, g := range map[string]spend.Grants{
				"principal": {Role: spend.Approver, Principal: "ID:bo"}, "owner": {Role: spend.Approver, Owner: "bo@example.com"},
			} {
				err := try(f.access(g), func(a *hotpath.GrantAsked) { a.Per["agent_id"] = jsontext.Value(fmt.Sprintf("%q", agent)) })
				if !errors.Is(err, hotpath.ErrGrantOwnCheck) {
					t.Errorf("%s, by a key of the %s: %v", agent, what, err)
				}
			}
		}
		// Also one of an archived day, of which only the counter's principals tell.
		f.checkBy(hotpath.KeyCaller([]byte(raw)), 0, f.spending("g", "1", "since", "c"))
		for _, want := range []error{nil, hotpath.ErrGrantOwnCheck} {
			err := try(p, func(a *hotpath.GrantAsked) { a.Per["agent_id"] = jsontext.Value(`"since"`) })
			if !errors.Is(err, want) {
				t.Errorf("of a key that was the caller's: %v, want %v", err, want)
			}
			f.nodes[0].faults.archived = []audit.ArchivedDay{{Day: time.Now()}}
		}
		f.nodes[0].faults.archived = nil
		// Also one that the budget escalates, whatever escalates before it, but none of another counter that the rule was before.
		f.post(0, "g", strings.Replace(grantRules, "}}]", `,"on_exceed":"escalate"}}]`, 1))
		f.checkBy(own, 0, f.spending("g", "101", "escalated", "c"))
		escalates := asksOne[:len(asksOne)-1] + strings.Replace(grantRules, "[", ",", 1)
		f.post(0, "g", strings.Replace(escalates, "}}]", `,"on_exceed":"escalate","approval":{}}}]`, 1))
		f.checkBy(own, 0, f.spending("g", "101", "both", "c"))
		for _, agent := range []string{"escalated", "both"} {
			err := try(p, func(a *hotpath.GrantAsked) { a.Per["agent_id"] = jsontext.Value(fmt.Sprintf("%q", agent)) })
			if !errors.Is(err, hotpath.ErrGrantOwnCheck) {
				t.Errorf("%s: %v", agent, err)
			}
		}
		f.post(0, "h", strings.Replace(grantRules, `"day"`, `"lifetime"`, 1))
		f.checkBy(own, 0, f.spending("h", "101", "before", "c"))
		f.post(0, "h", grantRules)
		asked := f.grantAsked("h", "1", "before")
		if _, _, err := f.nodes[0].Grant(t.Context(), p.access, audit.Actor{}, asked); err != nil {
			t.Errorf("of a counter that never met the check: %v", err)
		}
		keyed := func(a *hotpath.GrantAsked) { a.IdempotencyKey = "k" }
		must.Check(t, errors.Join(try(p, keyed), try(p, keyed)))
		if _, is := errors.AsType[spend.Faults](try(p, func(a *hotpath.GrantAsked) { keyed(a); a.Note = "other" })); !is {
			t.Error("the key of another request is taken")
		}
		for range audit.MaxGrants - 2 {
			must.Do(t, try(p, func(*hotpath.GrantAsked) {}))
		}
		if err := try(p, func(*hotpath.GrantAsked) {}); !errors.Is(err, hotpath.ErrTooManyGrants) {
			t.Error(err)
		}
	})
}

// S91: where archives alone can tell whether a refused check of the caller met the counter, only those do not grant who had a check
// refused under the policy, or who could ask for checks before the violations that are kept.
func TestGrantArchived(t *testing.T) {
	eachBackend(t, 1, func(t *testing.T, f *fleet) {
		f.post(0, "g", grantRules)
		f.post(0, "h", grantRules)
		f.post(0, "l", strings.Replace(grantRules, `"day"`, `"lifetime"`, 1))
		ann, bo, carol := f.person("ann"), f.person("bo"), f.person("carol")
		f.checkBy(f.keyed(spend.Grants{Role: spend.Agent, Principal: "bot", Owner: "ann"}), 0, f.spending("g", "101", "a2", "c"))
		kept := spend.NewID(time.Now())
		f.keyed(spend.Grants{Role: spend.Agent, Principal: "new bot", Owner: "bo"})
		faults := f.nodes[0].faults
		for _, c := range []struct {
			p      person
			policy string
			kept   spend.ID
			absent bool
			want   error
		}{
			{ann, "g", spend.ID{}, false, nil}, // of another counter
			{ann, "g", spend.ID{}, true, hotpath.ErrGrantOwnCheck},
			{ann, "h", spend.ID{}, true, nil},
			{carol, "g", spend.ID{}, true, nil},
			{ann, "h", kept, false, hotpath.ErrGrantOwnCheck},
			{ann, "l", kept, false, hotpath.ErrGrantOwnCheck},
			{ann, "h", audit.FirstID(kept.Time().Truncate(24 * time.Hour).UnixMilli()), false, nil}, // since the window began
			{bo, "l", kept, false, nil},
			{carol, "l", kept, false, nil},
		} {
			if faults.kept, faults.reads = c.kept, nil; c.absent {
				faults.reads = func(context.Context) error { return nil } // and no check
			}
			_, _, err := f.nodes[0].Grant(t.Context(), c.p.access, audit.Actor{}, f.grantAsked(c.policy, "1", "a1"))
			if !errors.Is(err, c.want) {
				t.Errorf("%+v of policy %s: %v", c.p.access, c.policy, err)
			}
		}
	})
}

// access is a person with a key of these grants.
func (f *fleet) access(g spend.Grants) person {
	f.t.Helper()
	access, _, err := f.nodes[0].Admit(f.t.Context(), f.keyed(g), spend.BudgetsGrant, false)
	must.Do(f.t, err)
	return person{fleet: f, access: access}
}
