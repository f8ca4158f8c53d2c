package hotpath_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"spendgate/audit"
	"spendgate/audit/spend"
	"spendgate/bench/must"
	"spendgate/hotpath"
)

// named is a change of the members that are named.
func named(g spend.Grants, names ...string) audit.KeyChange {
	return audit.KeyChange{Grants: spend.GrantsChange{Grants: g, Named: names}}
}

// change changes the fleet's key on node 0.
func (f *fleet) change(change audit.KeyChange) {
	f.t.Helper()
	if _, _, err := f.nodes[0].UpdateKey(context.Background(), audit.Actor{}, f.keyID, change); err != nil {
		f.t.Fatal(err)
	}
}

func forbidden(err error) bool {
	_, is := errors.AsType[*hotpath.ForbiddenError](err)
	return is
}

// S31, G5: scope, binding and expiry are in force on every node when the change
// was made, also while checks keep coming.
func TestGrantsAtOnce(t *testing.T) {
	const rounds = 50
	eachBackend(t, 2, func(t *testing.T, f *fleet) {
		raw, _, err := f.nodes[0].CreateKey(t.Context(), audit.Actor{}, hotpath.NewKey{Name: "load", RateLimitRPM: 10000})
		must.Do(t, err)
		other := hotpath.KeyCaller([]byte(raw)) // so that the limit of the one that is changed is not reached
		for n := range 2 {
			i := 0
			defer meanwhile(func() {
				action := refundOf(t, "1", fmt.Sprintf("load-%d-%d", n, i))
				i++
				_, _, _ = f.nodes[n].Check(t.Context(), hotpath.Request{Caller: other, Started: time.Now()}, &action)
			})()
		}
		none := named(spend.Grants{}, spend.MemberRole, spend.MemberScopes, spend.MemberPolicyIDs, spend.MemberAgentIDs, spend.MemberExpiresAt)
		kinds := []audit.KeyChange{
			named(spend.Grants{Role: spend.Author}, spend.MemberRole),
			named(spend.Grants{Scopes: spend.ChecksRead}, spend.MemberScopes),
			named(spend.Grants{PolicyIDs: []string{"other"}}, spend.MemberPolicyIDs),
			named(spend.Grants{AgentIDs: []string{"other"}}, spend.MemberAgentIDs),
			named(spend.Grants{}, spend.MemberExpiresAt),
		}
		for i := range rounds {
			change := kinds[i%len(kinds)]
			expiry := change.Grants.Named[0] == spend.MemberExpiresAt
			if expiry {
				change.Grants.ExpiresAt = time.Now().Add(20 * time.Millisecond).Truncate(time.Millisecond)
			}
			f.change(change)
			if expiry {
				time.Sleep(time.Until(change.Grants.ExpiresAt))
			}
			action := refundOf(t, "1", fmt.Sprintf("c-%d", i))
			if o := f.check(1, action); expiry && !errors.Is(o.err, hotpath.ErrKeyExpired) || !expiry && !forbidden(o.err) {
				t.Fatalf("round %d, narrowed by %+v: %s", i, change.Grants, o)
			}
			f.change(none)
			if o := f.check(1, action); !o.passed() {
				t.Fatalf("round %d, wide again: %s: the refused check left something", i, o)
			}
		}
	})
}

// keyed makes an API key with the grants.
func (f *fleet) keyed(g spend.Grants) hotpath.Caller {
	f.t.Helper()
	raw, _, err := f.nodes[0].CreateKey(f.t.Context(), audit.Actor{}, hotpath.NewKey{Name: "test", RateLimitRPM: 10000, Grants: g})
	must.Do(f.t, err)
	return hotpath.KeyCaller([]byte(raw))
}

// A key that expires soon is reported by every node, unless it is deactivated or has expired.
func TestExpiringKeys(t *testing.T) {
	eachBackend(t, 2, func(t *testing.T, f *fleet) {
		now, names := time.Now(), make(map[time.Duration]bool)
		for _, in := range []time.Duration{time.Hour, 6 * 24 * time.Hour, 8 * 24 * time.Hour} {
			f.checkBy(f.keyed(spend.Grants{ExpiresAt: now.Add(in)}), 1, refundOf(t, "1", in.String()))
		}
		for _, k := range f.nodes[1].ExpiringKeys(now.Add(2*time.Hour), 7*24*time.Hour) {
			names[k.Grants.ExpiresAt.Sub(now).Round(time.Hour)] = true
		}
		if len(names) != 1 || !names[6*24*time.Hour] {
			t.Errorf("within 7 days expire %v", names)
		}
	})
}

// S59: plain API keys share a namespace of idempotency keys. Any other key has the namespace of its
// principal, in which nobody else can replay or learn anything. Claims in Redis and rows in the
// store agree.
func TestIdempotencyNamespaces(t *testing.T) {
	eachBackend(t, 2, func(t *testing.T, f *fleet) {
		namespaces := map[string][]hotpath.Caller{
			"plain":     {f.key, f.keyed(spend.Grants{}), f.keyed(spend.Grants{ExpiresAt: time.Now().Add(time.Hour)})},
			"principal": {f.keyed(spend.Grants{Principal: "Bot"}), f.keyed(spend.Grants{Principal: "bOT", Role: spend.Agent})},
			"another":   {f.keyed(spend.Grants{Principal: "bot 2", Owner: "ann"})},
			"role":      {f.keyed(spend.Grants{Role: spend.Agent})},
			"scopes":    {f.keyed(spend.Grants{Scopes: spend.ChecksWrite})},
			"policies":  {f.keyed(spend.Grants{PolicyIDs: []string{"p"}})},
			"agents":    {f.keyed(spend.Grants{AgentIDs: []string{refundOf(t, "1", "").AgentID}})},
			"owner":     {f.keyed(spend.Grants{Owner: "ann"})},
		}
		first := make(map[string]spend.ID)
		actionOf := func(name string) spend.Action { return keyed(refundOf(t, "10", "of "+name), "k") }
		for name, callers := range namespaces {
			o := f.checkBy(callers[0], 0, actionOf(name))
			if !o.passed() {
				t.Fatalf("%s: %s", name, o)
			}
			first[name] = o.answer.Check.ID
		}
		for _, from := range []string{"redis", "the store"} {
			for name, callers := range namespaces {
				for i, caller := range callers {
					if o := f.checkBy(caller, 1, actionOf(name)); o.err != nil || !o.answer.Replayed || o.answer.Check.ID != first[name] {
						t.Errorf("%s, key %d, from %s: %s", name, i, from, o)
					}
					if o := f.checkBy(caller, 1, keyed(refundOf(t, "11", "of "+name), "k")); !keyReused(o, first[name]) {
						t.Errorf("%s, key %d, from %s, another request: %s", name, i, from, o)
					}
				}
			}
			f.flush()
		}
		same := keyed(actionOf("plain"), "new")
		if o := f.checkBy(namespaces["role"][0], 1, same); !o.names(first["plain"].Text("chk_")) {
			t.Errorf("the same action under another key: %s", o)
		}
	})
}

// S59: a key whose principal is changed has the namespace of the new one at once.
func TestNamespaceFollowsPrincipal(t *testing.T) {
	eachBackend(t, 2, func(t *testing.T, f *fleet) {
		for i, principal := range []string{"", "a", "b"} {
			f.change(named(spend.Grants{Principal: principal}, spend.MemberPrincipal))
			if o := f.check(1, keyed(refundOf(t, "10", fmt.Sprint("c", i)), "k")); !o.passed() {
				t.Fatalf("as %q: %s", principal, o)
			}
		}
		f.change(named(spend.Grants{Principal: "A"}, spend.MemberPrincipal))
		if o := f.check(1, keyed(refundOf(t, "10", "c1"), "k")); o.err != nil || !o.answer.Replayed {
			t.Errorf("as the one before: %s", o)
		}
	})
}

// S31: a refused check is counted against the limit and leaves nothing else: no
// row, no claim and no idempotency key.
func TestForbiddenChecksLeaveNothing(t *testing.T) {
	eachBackend(t, 1, func(t *testing.T, f *fleet) {
		for name, narrow := range map[string]audit.KeyChange{
			"scope":  named(spend.Grants{Scopes: spend.ChecksRead}, spend.MemberScopes),
			"policy": named(spend.Grants{PolicyIDs: []string{"q"}}, spend.MemberPolicyIDs),
			"agent":  named(spend.Grants{AgentIDs: []string{"nobody"}}, spend.MemberAgentIDs),
		} {
			f.change(narrow)
			action := refundOf(t, "7", name)
			action.IdempotencyKey = "key of " + name
			var left [2]int
			for i := range left {
				_, q, err := f.nodes[0].Check(t.Context(), hotpath.Request{Caller: f.key, Started: time.Now()}, &action)
				if left[i] = q.Remaining; !forbidden(err) {
					t.Fatalf("%s: %v", name, err)
				}
			}
			if left[0] != left[1]+1 {
				t.Errorf("%s: %d left, then %d: not counted", name, left[0], left[1])
			}
			unknown := refundOf(t, "7", name)
			unknown.PolicyID = "unknown"
			if o := f.check(0, unknown); name != "agent" && !forbidden(o.err) {
				t.Errorf("%s: an unknown policy is told: %s", name, o)
			}
			f.change(named(spend.Grants{}, spend.MemberScopes, spend.MemberPolicyIDs, spend.MemberAgentIDs))
			other := refundOf(t, "7", name)
			other.IdempotencyKey, other.ReasonText = action.IdempotencyKey, "the key was never used"
			if o := f.check(0, other); !o.passed() || o.answer.Replayed {
				t.Errorf("%s: afterwards %s", name, o)
			}
		}
	})
}

// S31: everything that an access lets its caller see is inside of its bindings,
// and of role agent its own.
func TestAccess(t *testing.T) {
	check := func(policyID, agentID, principal, key string) *spend.Check {
		c := &spend.Check{Principal: principal, KeyID: key}
		c.Action.PolicyID, c.Action.AgentID = policyID, agentID
		return c
	}
	self := spend.NewID(time.Now())
	own := self.Text(spend.PrefixKey)
	for _, c := range []struct {
		grants spend.Grants
		check  *spend.Check
		want   bool
	}{
		{spend.Grants{}, check("p", "a", "x", "k"), true},
		{spend.Grants{PolicyIDs: []string{"q", "p"}}, check("p", "a", "", "k"), true},
		{spend.Grants{PolicyIDs: []string{"q"}}, check("p", "a", "", "k"), false},
		{spend.Grants{AgentIDs: []string{"a"}}, check("p", "a", "", "k"), true},
		{spend.Grants{AgentIDs: []string{"A"}}, check("p", "a", "", "k"), false},
		{spend.Grants{AgentIDs: []string{"a"}, PolicyIDs: []string{"q"}}, check("p", "a", "", "k"), false},
		{spend.Grants{Role: spend.Agent}, check("p", "a", "", own), true},
		{spend.Grants{Role: spend.Agent}, check("p", "a", "", "k"), false},
		{spend.Grants{Role: spend.Agent}, check("p", "a", "till", own), false},
		{spend.Grants{Role: spend.Agent, Principal: "till"}, check("p", "a", "till", "k"), true},
		{spend.Grants{Role: spend.Agent, Principal: "till"}, check("p", "a", "", own), false},
		{spend.Grants{Role: spend.Auditor, Principal: "till"}, check("p", "a", "", "k"), true},
		{spend.Grants{Scopes: spend.ChecksRead | spend.ChecksWrite, Principal: "till"}, check("p", "a", "", "k"), true},
	} {
		if got := hotpath.AccessOf(&audit.Key{ID: self, Grants: c.grants}).Sees(c.check); got != c.want {
			t.Errorf("%+v sees %+v: %v", c.grants, c.check, got)
		}
	}
	if !(hotpath.Access{}).SeesPolicy("p") {
		t.Error("a caller without a key is bound")
	}
}

// S32: a check is recorded with the principal and owner of its key's record, and with none if the
// record has none.
func TestPrincipalsAreRecorded(t *testing.T) {
	eachBackend(t, 1, func(t *testing.T, f *fleet) {
		for _, want := range []spend.Grants{{}, {Principal: "till 1", Owner: "payments"}} {
			f.change(named(want, spend.MemberPrincipal, spend.MemberOwner))
			o := f.check(0, refundOf(t, "900", want.Principal+"c")) // above the cap: a violation too
			if o.err != nil {
				t.Fatal(o.err)
			}
			stored, err := f.store.Checks(t.Context(), []spend.ID{o.answer.Check.ID})
			if err != nil || len(stored) != 1 || stored[0].Principal != want.Principal || stored[0].Owner != want.Owner {
				t.Errorf("%+v: stored %+v, %v", want, stored, err)
			}
			principal := want.Principal
			if principal == "" {
				principal = f.keyID.Text(spend.PrefixKey)
			}
			page, err := f.store.Violations(t.Context(), audit.ViolationQuery{Bounds: audit.Bounds{Principal: principal}, Limit: 10})
			if err != nil || page.Total != 1 || page.Violations[0].ID != o.answer.Check.ID {
				t.Errorf("%+v: violations %+v, %v", want, page, err)
			}
		}
	})
}

// S31, G7: without Redis reads are judged by the store's record.
func TestGrantsWithoutRedis(t *testing.T) {
	f := newFleet(t, embeddedBackend(), 1)
	f.change(named(spend.Grants{Role: spend.Author, PolicyIDs: []string{"p"}}, spend.MemberRole, spend.MemberPolicyIDs))
	blind := f.start(redis.UniversalOptions{Addrs: []string{"127.0.0.1:1"}}, false)
	access, _, err := blind.Admit(t.Context(), f.key, spend.PoliciesRead, true)
	if err != nil || access.SeesPolicy("q") || !access.SeesPolicy("p") {
		t.Errorf("%v, sees %v", err, access.SeesPolicy("q"))
	}
	if _, q, err := blind.Admit(t.Context(), f.key, spend.EventsRead, true); !forbidden(err) || q.Limit == 0 {
		t.Errorf("a scope that it lacks: %v with %+v", err, q)
	}
	expired := named(spend.Grants{ExpiresAt: time.Now().Add(-time.Second).Truncate(time.Millisecond)}, spend.MemberExpiresAt)
	must.Get(f.store.UpdateKey(t.Context(), audit.Actor{}, f.keyID, expired))(t)
	if _, _, err := blind.Admit(t.Context(), f.key, spend.PoliciesRead, true); !errors.Is(err, hotpath.ErrKeyExpired) {
		t.Errorf("expired: %v", err)
	}
}

// S31, S84: a key that may no longer redeem when people have decided redeems nothing, and its request is refused.
func TestKeyChangedWhilePeopleDecide(t *testing.T) {
	eachBackend(t, 2, func(t *testing.T, f *fleet) {
		p := newPayer(f)
		f.post(0, "p", fmt.Sprintf(askRules, 1000))
		a := refundOf(t, "200", "c")
		asked := p.must("asked", a, hotpath.PaymentRequest{}, audit.PaymentWaiting, false)
		waits := nonce(1)
		waits.Wait = 20 * time.Second
		result := make(chan error, 1)
		go func() {
			_, err := p.pay(0, a, waits)
			result <- err
		}()
		f.eventually("it waits", func() bool { return f.nodes[0].Waiting() > 0 })
		lesser := named(spend.Grants{Role: spend.Agent, Principal: "bot"}, spend.MemberRole)
		if _, _, err := f.nodes[1].UpdateKey(t.Context(), audit.Actor{}, p.own.ID, lesser); err != nil {
			t.Fatal(err)
		}
		f.approve(asked.Payment.Approval, "ann")
		if err := <-result; !forbidden(err) {
			t.Error(err)
		}
	})
}
