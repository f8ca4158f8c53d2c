package hotpath_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"spendgate/audit"
	"spendgate/audit/spend"
	"spendgate/bench/must"
	"spendgate/hotpath"
)

// signedIn begins the session of a person at a node, and returns its token.
func (f *fleet) signedIn(node int, name string, g spend.Grants) (string, *audit.Session) {
	f.t.Helper()
	s := &audit.Session{
		Subject: audit.Subject{Issuer: "https://id.example", Subject: name, Session: "at " + name}, Name: name, Email: name + "@example.com",
		Grants: g, Begun: time.Now(),
	}
	s.Grants.Principal, s.Grants.Owner = "id:"+name, s.Email
	token := must.Get(f.nodes[node].SignIn(context.Background(), audit.Actor{}, s))(f.t)
	return token, s
}

// caller is who has a session, as a node knows them.
func (f *fleet) caller(node int, token string) hotpath.Caller {
	f.t.Helper()
	return must.Get(f.nodes[node].SessionCaller(context.Background(), []byte(token)))(f.t)
}

// ended reports whether no node takes the session.
func (f *fleet) ended(token string) bool {
	f.t.Helper()
	for _, n := range f.nodes {
		if _, err := n.SessionCaller(context.Background(), []byte(token)); !errors.Is(err, hotpath.ErrSessionEnded) {
			return false
		}
	}
	return true
}

// A session belongs to the fleet: it begins at one node, and ends on all when it is ended at any,
// by whomever.
func TestSessionEndsEverywhere(t *testing.T) {
	eachBackend(t, 2, func(t *testing.T, f *fleet) {
		ctx := t.Context()
		for name, end := range map[string]func(token string, s *audit.Session) error{
			"sign-out": func(token string, _ *audit.Session) error {
				return f.nodes[0].SignOut(ctx, audit.Actor{}, f.caller(0, token))
			},
			"the admin": func(_ string, s *audit.Session) error { return f.nodes[0].EndSession(ctx, audit.Actor{}, s.ID) },
			"no role": func(_ string, s *audit.Session) error {
				return f.nodes[0].EndSessions(ctx, audit.Actor{}, s)
			},
			"the provider": func(_ string, s *audit.Session) error {
				return f.nodes[0].EndLoggedOut(ctx, audit.Actor{}, audit.Logout{Subject: s.Subject, Token: spend.HashKey(s.Name)})
			},
		} {
			token, s := f.signedIn(0, name, spend.Grants{Role: spend.Auditor})
			other, _ := f.signedIn(0, "other than "+name, spend.Grants{Role: spend.Auditor})
			for node := range f.nodes {
				access, quota, err := f.nodes[node].Admit(ctx, f.caller(node, token), spend.ChecksRead, true)
				if err != nil || access.Session().ID != s.ID || quota.Limit == 0 {
					t.Fatalf("%s: admitted %+v, %v", name, quota, err)
				}
				if _, _, err := f.nodes[node].Admit(ctx, f.caller(node, token), spend.PoliciesWrite, false); !forbidden(err) {
					t.Errorf("%s: an auditor writes: %v", name, err)
				}
			}
			if err := end(token, s); err != nil || !f.ended(token) || f.ended(other) {
				t.Errorf("%s: %v", name, err)
			}
		}
		if !f.ended("") {
			t.Error("nothing is a session")
		}
		// Reads go on without Redis, as with keys.
		token, _ := f.signedIn(0, "left", spend.Grants{Role: spend.Auditor})
		blind := f.start(redis.UniversalOptions{Addrs: []string{"127.0.0.1:1"}}, false)
		if access, q, err := blind.Admit(ctx, f.caller(0, token), spend.ChecksRead, true); err != nil || access.Session() == nil || q.Limit == 0 {
			t.Errorf("without Redis: %+v, %v", q, err)
		}
	})
}

// A person counts as one approver, with a session or a key, and is recorded with the name of that
// time.
func TestSessionsDecide(t *testing.T) {
	eachBackend(t, 1, func(t *testing.T, f *fleet) {
		ctx, n := t.Context(), f.nodes[0]
		f.post(0, "p", `[{"rule_id":"ask","rule_type":"escalate_if","parameters":{"amount_above":50,"approval":{"required":2}}}]`)
		approval := f.asked(refundOf(t, "60", "c"))
		person := func(name string, more ...func(*audit.Session)) error {
			token, _ := f.signedIn(0, name, spend.Grants{Role: spend.Approver})
			access, _, err := n.Admit(ctx, f.caller(0, token), spend.ApprovalsDecide, false)
			must.Do(t, err)
			_, _, err = n.DecideApproval(ctx, access, audit.Actor{RequestID: "r"}, audit.ApprovalDecisionRequest{
				ApprovalID: approval.Check.ID, Approves: true, ActionHash: approval.Check.Approval.ActionHash,
			})
			return err
		}
		must.Do(t, person("ana"))
		// Ana has a key of her own, with her e-mail as its owner.
		raw, k, err := n.CreateKey(ctx, audit.Actor{},
			hotpath.NewKey{Name: "k", RateLimitRPM: 100, Grants: spend.Grants{Role: spend.Approver, Owner: "Ana@example.com"}})
		must.Do(t, err)
		access, _, err := n.Admit(ctx, hotpath.KeyCaller([]byte(raw)), spend.ApprovalsDecide, false)
		must.Do(t, err)
		_, _, err = n.DecideApproval(ctx, access, audit.Actor{},
			audit.ApprovalDecisionRequest{ApprovalID: approval.Check.ID, Approves: true, ActionHash: approval.Check.Approval.ActionHash})
		if !errors.Is(err, hotpath.NotRecordedError{Why: audit.DecisionAgain}) {
			t.Errorf("key %s approved as a second person: %v", k.ID.Text(spend.PrefixKey), err)
		}
		must.Do(t, person("bo"))
		found, err := n.Approval(ctx, hotpath.Access{}, approval.Check.ID)
		if err != nil || found.Status != audit.ApprovalApproved || len(found.Decisions) != 2 {
			t.Fatalf("approval %+v, %v", found, err)
		}
		if d := found.Decisions[0]; d.Principal != "id:ana" || d.Name != "ana" || d.Email != "ana@example.com" ||
			d.KeyID[:4] != spend.PrefixSession {
			t.Errorf("on record is %+v", d)
		}
	})
}

// A person who asks with a session is recorded, and cannot decide about their own request.
func TestSessionsAsk(t *testing.T) {
	eachBackend(t, 1, func(t *testing.T, f *fleet) {
		ctx, n := t.Context(), f.nodes[0]
		f.post(0, "p", `[{"rule_id":"ask","rule_type":"escalate_if","parameters":{"amount_above":50,"approval":{"required":1}}}]`)
		token, s := f.signedIn(0, "ana", spend.Grants{Role: spend.Agent})
		a := refundOf(t, "60", "c")
		o := f.checkBy(f.caller(0, token), 0, a)
		answer := o.answer
		if o.err != nil || answer.Check.Principal != "id:ana" || answer.Check.Owner != "ana@example.com" ||
			answer.Check.KeyID != s.ID.Text(spend.PrefixSession) {
			t.Fatal(o)
		}
		again, _ := f.signedIn(0, "ana", spend.Grants{Role: spend.Approver})
		access, _, err := n.Admit(ctx, f.caller(0, again), spend.ApprovalsDecide, false)
		must.Do(t, err)
		_, _, err = n.DecideApproval(ctx, access, audit.Actor{},
			audit.ApprovalDecisionRequest{ApprovalID: answer.Check.ID, Approves: true, ActionHash: answer.Check.Approval.ActionHash})
		if !errors.Is(err, hotpath.NotRecordedError{Why: audit.DecisionOwn}) {
			t.Errorf("ana decides what she asked for: %v", err)
		}
	})
}

// An approval of a draft with a session is the person's, on record as of then, and counts
// when the session is over.
func TestSessionsApproveDrafts(t *testing.T) {
	eachBackend(t, 1, func(t *testing.T, f *fleet) {
		ctx, n := t.Context(), f.nodes[0]
		p := &audit.Policy{PolicyID: "asks", Name: "asks", Rules: plainRules, Changes: `{"required":1}`}
		must.Do(t, n.CreatePolicy(ctx, hotpath.Access{}, audit.Actor{}, hotpath.NewVersion{Policy: p}))
		as := func(name string, scopes spend.Scopes) (hotpath.Access, spend.ID) {
			token, s := f.signedIn(0, name, spend.Grants{Scopes: scopes})
			access, _, err := n.Admit(ctx, f.caller(0, token), scopes, false)
			must.Do(t, err)
			return access, s.ID
		}
		author, _ := as("ana", spend.PoliciesWrite)
		d := &audit.Draft{PolicyID: "asks", Name: "next", Rules: plainRules}
		must.Do(t, n.PutDraft(ctx, author, audit.Actor{}, d, nil, nil))
		ana, _ := as("ana", spend.ApprovalsDecide)
		if _, _, err := n.DecideDraft(ctx, ana, audit.DraftDecisionRequest{PolicyID: "asks", Hash: d.Hash}); !errors.Is(err,
			hotpath.NotRecordedError{Draft: true, Why: audit.DecisionAuthor}) {
			t.Errorf("who put the draft approves it: %v", err)
		}
		bo, session := as("bo", spend.ApprovalsDecide)
		if _, _, err := n.DecideDraft(ctx, bo, audit.DraftDecisionRequest{PolicyID: "asks", Hash: d.Hash}); err != nil {
			t.Fatal(err)
		}
		must.Do(t, n.EndSession(ctx, audit.Actor{}, session))
		r, err := n.Review(ctx, "asks")
		if err != nil || len(r.Approvals) != 1 || len(r.Counted(nil)) != 1 || r.Approvals[0].Name != "bo" ||
			r.Approvals[0].Email != "bo@example.com" {
			t.Errorf("approved by %+v, %v", r, err)
		}
	})
}

// keyOf makes a key with an owner, and returns its access.
func (f *fleet) keyOf(owner string, scopes spend.Scopes) hotpath.Access {
	f.t.Helper()
	raw, _, err := f.nodes[0].CreateKey(f.t.Context(), audit.Actor{},
		hotpath.NewKey{Name: "k", RateLimitRPM: 100, Grants: spend.Grants{Scopes: scopes, Owner: owner}})
	must.Do(f.t, err)
	access, _, err := f.nodes[0].Admit(f.t.Context(), hotpath.KeyCaller([]byte(raw)), scopes, false)
	must.Do(f.t, err)
	return access
}

// Whoever wrote a draft or a version with a session is nobody else with a key, and the reverse:
// their e-mail is the owner of their keys (S62).
func TestAuthorsHaveKeysAndSessions(t *testing.T) {
	eachBackend(t, 1, func(t *testing.T, f *fleet) {
		ctx, n := t.Context(), f.nodes[0]
		const escalates = `[{"rule_id":"ask","rule_type":"escalate_if","parameters":{"amount_above":50,"approval":{"required":1,` +
			`"exclude_author":true}}}]`
		signedIn := func(name string, scopes spend.Scopes) hotpath.Access {
			token, _ := f.signedIn(0, name, spend.Grants{Scopes: scopes})
			access, _, err := n.Admit(ctx, f.caller(0, token), scopes, false)
			must.Do(t, err)
			return access
		}
		for name, c := range map[string]struct{ author, same, other hotpath.Access }{
			"signed in": {
				signedIn("ana", spend.PoliciesWrite), f.keyOf("Ana@Example.com", spend.ApprovalsDecide),
				f.keyOf("bo@example.com", spend.ApprovalsDecide),
			},
			"with a key": {
				f.keyOf("ANA@example.com", spend.PoliciesWrite), signedIn("ana", spend.ApprovalsDecide), signedIn("bo", spend.ApprovalsDecide),
			},
		} {
			p := &audit.Policy{PolicyID: "p", Name: "n", Rules: escalates}
			must.Do(t, n.CreatePolicy(ctx, c.author, audit.Actor{}, hotpath.NewVersion{Policy: p}))
			approval := f.asked(refundOf(t, "60", name))
			decide := func(by hotpath.Access) error {
				_, _, err := n.DecideApproval(ctx, by, audit.Actor{},
					audit.ApprovalDecisionRequest{ApprovalID: approval.Check.ID, Approves: true, ActionHash: approval.Check.Approval.ActionHash})
				return err
			}
			if err := decide(c.same); !errors.Is(err, hotpath.NotRecordedError{Why: audit.DecisionAuthor}) {
				t.Errorf("%s: who wrote the version decides: %v", name, err)
			}
			if err := decide(c.other); err != nil {
				t.Errorf("%s: somebody else: %v", name, err)
			}
			asks := &audit.Policy{PolicyID: "asks when " + name, Name: "n", Rules: plainRules, Changes: `{"required":1}`}
			must.Do(t, n.CreatePolicy(ctx, hotpath.Access{}, audit.Actor{}, hotpath.NewVersion{Policy: asks}))
			d := &audit.Draft{PolicyID: asks.PolicyID, Name: "next", Rules: plainRules}
			must.Do(t, n.PutDraft(ctx, c.author, audit.Actor{}, d, nil, nil))
			request := audit.DraftDecisionRequest{PolicyID: asks.PolicyID, Hash: d.Hash}
			if _, _, err := n.DecideDraft(ctx, c.same, request); !errors.Is(err, hotpath.NotRecordedError{Draft: true, Why: audit.DecisionAuthor}) {
				t.Errorf("%s: who put the draft approves it: %v", name, err)
			}
			if _, _, err := n.DecideDraft(ctx, c.other, request); err != nil {
				t.Errorf("%s: somebody else: %v", name, err)
			}
		}
	})
}
