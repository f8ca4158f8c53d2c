package httpapi

import (
	"context"
	"sync"
	"time"

	"spendgate/audit"
	"spendgate/audit/spend"
	"spendgate/hotpath"
	"spendgate/hotpath/policy"
	"spendgate/ratelimit"
)

// fake is an Authorizer that knows one key and allows everything, unless a test says otherwise. It
// remembers its requests.
type fake struct {
	authorizer
	mu       sync.Mutex
	admits   int
	checked  []*spend.Action
	requests []hotpath.Request // the requests of checks
	demo     []hotpath.Caller
	keys     int
	by       []audit.Actor // of changes
	drop     []string      // of the last policy

	admitErr error // of Admit, Check and Simulate, once the caller is known
	workErr  error // of what comes after admission
	replayed bool
	quota    ratelimit.Quota
	hold     chan struct{} // Check waits for it when it is not nil
	panics   bool
}

func newFake() *fake {
	return &fake{quota: ratelimit.Quota{Limit: 100, Remaining: 99, ResetMS: time.Now().Add(30 * time.Second).UnixMilli()}}
}

func (f *fake) admit(c hotpath.Caller) (ratelimit.Quota, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.admits++
	switch c {
	case hotpath.KeyCaller([]byte(goodKey)):
		return f.quota, f.admitErr
	case hotpath.KeyCaller(nil), hotpath.KeyCaller([]byte("wrong")), hotpath.KeyCaller([]byte("svc_live_wrong")):
		return ratelimit.Quota{}, hotpath.ErrUnauthorized
	}
	f.demo = append(f.demo, c)
	return ratelimit.Quota{Limit: 10, Remaining: 9, ResetMS: f.quota.ResetMS}, f.admitErr
}

func (f *fake) Knows(c hotpath.Caller) bool { return c == hotpath.KeyCaller([]byte(goodKey)) }

func (f *fake) Admit(_ context.Context, c hotpath.Caller, _ spend.Scopes, _ bool) (hotpath.Access, ratelimit.Quota, error) {
	q, err := f.admit(c)
	return hotpath.AccessOf(&audit.Key{Hash: spend.HashKey("good")}), q, err
}

func (f *fake) Check(_ context.Context, r hotpath.Request, action *spend.Action) (hotpath.Answer, ratelimit.Quota, error) {
	q, err := f.admit(r.Caller)
	if err != nil {
		return hotpath.Answer{}, q, err
	}
	if f.panics {
		panic("a bug with a secret " + goodKey[:4])
	}
	if f.hold != nil {
		<-f.hold
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	c := allowedCheck()
	c.Action = *action // which is the caller's again afterwards
	f.checked, f.requests = append(f.checked, &c.Action), append(f.requests, r)
	return hotpath.Answer{Check: c, Replayed: f.replayed}, q, f.workErr
}

func (f *fake) Authenticate(_ context.Context, c hotpath.Caller) (ratelimit.Quota, error) {
	if c != hotpath.KeyCaller([]byte(goodKey)) {
		return ratelimit.Quota{}, hotpath.ErrUnauthorized
	}
	return ratelimit.Quota{}, nil
}

func (f *fake) Simulate(_ context.Context, _ hotpath.Request, _ string, actions []*spend.Action) ([]*spend.Check, int, error) {
	checks := make([]*spend.Check, len(actions))
	for i := range actions {
		checks[i] = blockedCheck()
	}
	return checks, 3, f.workErr
}

func (f *fake) CreatePolicy(_ context.Context, _ hotpath.Access, by audit.Actor, v hotpath.NewVersion) error {
	f.by, f.drop = append(f.by, by), v.Drop
	p := v.Policy
	if policy.Compile(p.PolicyID, 1, p.Rules, &v.Faults); v.Faults != nil {
		return v.Faults
	}
	p.Version, p.CreatedAt, p.UpdatedAt = 1, time.UnixMilli(instant), time.UnixMilli(instant)
	return f.workErr
}

func (f *fake) CreateKey(_ context.Context, by audit.Actor, n hotpath.NewKey) (string, *audit.Key, error) {
	f.by = append(f.by, by)
	f.keys++
	return goodKey, &audit.Key{
		ID: testID(instant), Name: n.Name, RateLimitRPM: n.RateLimitRPM, Active: true, CreatedAt: time.UnixMilli(instant), Grants: n.Grants,
	}, f.workErr
}

func (f *fake) UpdateKey(_ context.Context, by audit.Actor, id spend.ID, c audit.KeyChange) (*audit.Key, hotpath.Stopped, error) {
	f.by = append(f.by, by)
	k := &audit.Key{ID: id, Name: "n", RateLimitRPM: 100, Active: true, CreatedAt: time.UnixMilli(instant)}
	if c.Active != nil {
		k.Active = *c.Active
	}
	k.Grants = c.Grants.Grants
	return k, hotpath.Stopped{Checks: new(int64), Voided: new(int64)}, f.workErr
}

const fakeRules = `[{"rule_id":"r","rule_type":"max_amount","parameters":{"limit":5}}]`

// fakeStore knows one of each.
type fakeStore struct {
	audit.Store
	violations []audit.Violation
	queried    audit.ViolationQuery
	listed     []*spend.Check
	checks     audit.CheckQuery
	policies   audit.PolicyQuery
	versions   audit.VersionQuery
	err        error
}

func (s *fakeStore) Checks(_ context.Context, ids []spend.ID) ([]*spend.Check, error) {
	if c := blockedCheck(); s.err == nil && ids[0] == c.ID {
		return []*spend.Check{c}, nil
	}
	return nil, s.err
}

func (s *fakeStore) Policy(_ context.Context, id string, version int) (*audit.Policy, error) {
	if s.err != nil {
		return nil, s.err
	}
	if id != "p:1" || version > 2 {
		return nil, audit.ErrNotFound
	}
	return &audit.Policy{PolicyID: id, Name: "n", Version: 2, Rules: fakeRules}, nil
}

func (s *fakeStore) Violations(_ context.Context, q audit.ViolationQuery) (audit.ViolationPage, error) {
	s.queried = q
	return audit.ViolationPage{Violations: s.violations, More: len(s.violations) > 0, Total: 7}, s.err
}

func (s *fakeStore) ListChecks(_ context.Context, q audit.CheckQuery) (audit.CheckPage, error) {
	s.checks = q
	return audit.CheckPage{Checks: s.listed, More: true, Next: testID(instant)}, s.err
}

func (s *fakeStore) ListPolicies(_ context.Context, q audit.PolicyQuery) (audit.PolicyPage, error) {
	s.policies = q
	return audit.PolicyPage{
		Policies: []audit.Policy{{PolicyID: "p:1", Name: "n", Version: 2, Rules: fakeRules}}, More: q.After == "", Total: 2,
	}, s.err
}

func (s *fakeStore) PolicyVersions(_ context.Context, q audit.VersionQuery) (audit.PolicyPage, error) {
	if s.err == nil && q.PolicyID != "p:1" {
		return audit.PolicyPage{}, audit.ErrNotFound
	}
	s.versions = q
	return audit.PolicyPage{
		Policies: []audit.Policy{{PolicyID: "p:1", Name: "n", Version: 7, Rules: fakeRules}}, More: q.Before == 0, Total: 7,
	}, s.err
}

func (s *fakeStore) ListKeys(context.Context, spend.ID, int) (audit.KeyPage, error) {
	used := audit.Key{ID: testID(instant), Name: "n", RateLimitRPM: 5, LastUsedAt: time.UnixMilli(instant)}
	return audit.KeyPage{Keys: []audit.Key{used, {ID: testID(instant - 1), Name: "never used", RateLimitRPM: 5}}, Total: 2}, s.err
}

func (f *fake) KeyID(c hotpath.Caller) string {
	if f.Knows(c) {
		return "key_known"
	}
	return ""
}

func (f *fake) PaymentsOf(context.Context, hotpath.Access, []*spend.Check, map[spend.ID]spend.Course) (
	map[spend.ID]*hotpath.PaymentView, error,
) {
	return nil, nil
}

func (s *fakeStore) Outcomes(context.Context, []spend.ID) ([]*spend.Outcome, error) { return nil, nil }
