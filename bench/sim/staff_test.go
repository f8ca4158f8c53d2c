package sim

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"spendgate/audit"
	"spendgate/audit/spend"
	"spendgate/hotpath"
)

// member is somebody who decides about approvals and gives grants, with an API key that is changed meanwhile.
type member struct {
	name   string
	groups []string
	id     spend.ID
	caller hotpath.Caller
}

// newStaff makes the keys.
func (f *simulation) newStaff() error {
	for _, m := range []*member{{name: "ann", groups: []string{support}}, {name: "bob", groups: []string{finance}}, {name: "cleo"}} {
		raw, k, err := f.nodes[0].CreateKey(context.Background(), audit.Actor{}, hotpath.NewKey{
			Name: m.name, RateLimitRPM: 10000, Grants: spend.Grants{Role: spend.Approver, Principal: m.name, Groups: m.groups},
		})
		if err != nil {
			return err
		}
		m.id, m.caller = k.ID, hotpath.KeyCaller([]byte(raw))
		f.staff = append(f.staff, m)
	}
	return nil
}

// Groups of the staff.
const support, finance = "support", "finance"

// named returns the member of that name; nil if there is none.
func (f *simulation) named(name string) *member {
	i := slices.IndexFunc(f.staff, func(m *member) bool { return m.name == name })
	if i < 0 {
		return nil
	}
	return f.staff[i]
}

// as returns what a member may do, as the request that they send finds it.
func (m *member) as(n *simNode, scope spend.Scopes) (hotpath.Access, error) {
	access, _, err := n.Admit(context.Background(), m.caller, scope, false)
	return access, err
}

// changeStaff changes the key of one of them, and mostly changes it back: it is deactivated, may do nothing, is in no group or stands
// for whoever asks.
func (f *simulation) changeStaff(r *rand.Rand) {
	if r.IntN(2) == 0 {
		return
	}
	m := f.staff[r.IntN(len(f.staff))]
	change, back := audit.KeyChange{Active: new(false), Stops: r.IntN(3) > 0}, audit.KeyChange{Active: new(true)}
	patch := func(member string, g spend.Grants) audit.KeyChange {
		return audit.KeyChange{Grants: spend.GrantsChange{Grants: g, Named: []string{member}}}
	}
	switch r.IntN(6) {
	case 0, 1:
		change, back = roleChange(spend.Auditor), roleChange(spend.Approver)
	case 2:
		change, back = patch(spend.MemberGroups, spend.Grants{}), patch(spend.MemberGroups, spend.Grants{Groups: m.groups})
	case 3:
		change = patch(spend.MemberPrincipal, spend.Grants{Principal: asker})
		back = patch(spend.MemberPrincipal, spend.Grants{Principal: m.name})
	}
	time.Sleep(time.Duration(r.Int64N(int64(2500 * time.Millisecond))))
	f.changeKey(f.nodes[r.IntN(len(f.nodes))], m, change)
	if r.IntN(4) > 0 {
		time.Sleep(time.Duration(r.Int64N(int64(3 * time.Second))))
		f.changeKey(f.nodes[r.IntN(len(f.nodes))], m, back)
	}
}

func roleChange(r spend.Role) audit.KeyChange {
	return audit.KeyChange{Grants: spend.GrantsChange{Grants: spend.Grants{Role: r}, Named: []string{spend.MemberRole}}}
}

func (f *simulation) changeKey(n *simNode, m *member, change audit.KeyChange) {
	_, _, err := n.UpdateKey(context.Background(), audit.Actor{}, m.id, change)
	f.note("%s: the key of %s is changed to %+v: %v", time.Now().Format("05.000000"), m.name, change, err)
}

// restoreStaff gives all of them their rights back.
func (f *simulation) restoreStaff() {
	for _, m := range f.staff {
		f.changeKey(f.nodes[0], m, audit.KeyChange{Active: new(true), Grants: spend.GrantsChange{
			Grants: spend.Grants{Role: spend.Approver, Principal: m.name, Groups: m.groups},
			Named:  []string{spend.MemberRole, spend.MemberPrincipal, spend.MemberGroups},
		}})
	}
}

// standing is what a key is after a change in the record.
type standing struct {
	place     int // of the change among the events
	Active    bool
	Role      spend.Role
	Principal string
}

// standings are those of each key among the events, by key_id.
func standings(events []event) map[string][]standing {
	all := make(map[string][]standing)
	for i, e := range events {
		if e.change != nil && (e.change.Kind == audit.KeyCreated || e.change.Kind == audit.KeyChanged) {
			is := standing{place: i}
			if err := json.Unmarshal([]byte(e.change.Details), &is); err != nil {
				panic(fmt.Sprintf("BUG: the change of a key is no JSON: %v", err))
			}
			all[e.change.Subject] = append(all[e.change.Subject], is)
		}
	}
	return all
}

// before returns the last of the standings before a place.
func before(all []standing, place int) (last standing) {
	for _, is := range all {
		if is.place < place {
			last = is
		}
	}
	return last
}

// decides reports whether what somebody decided, or granted, with the key counts.
func (s standing) decides() bool { return s.Active && s.Role == spend.Approver }

// stop does what waits for the commits in progress, as changes do by which checks are judged.
func (s *store) stop(ctx context.Context, do func() error) error {
	return s.fence(ctx, func(spend.Fence) bool { return true }, func() error {
		defer s.noteChanges()
		return do()
	})
}

func (s *store) UpdateKey(ctx context.Context, by audit.Actor, id spend.ID, change audit.KeyChange) (k *audit.Key, err error) {
	err = s.stop(ctx, func() (err error) {
		k, err = s.Store.UpdateKey(ctx, by, id, change)
		return err
	})
	return k, err
}

func (s *store) RecordGrant(ctx context.Context, by audit.Actor, c audit.GrantChange) (replayed bool, err error) {
	err = s.stop(ctx, func() (err error) {
		replayed, err = s.Store.RecordGrant(ctx, by, c)
		return err
	})
	return replayed, err
}

func (s *store) Reopen(ctx context.Context, id spend.ID, keyIDs []string, judged int64) (reopened bool, err error) {
	err = s.change(func() (err error) {
		reopened, err = s.Store.Reopen(ctx, id, keyIDs, judged)
		return err
	})
	return reopened, err
}

func (s *store) ExpireApprovals(ctx context.Context) (oldest time.Time, err error) {
	err = s.change(func() (err error) {
		oldest, err = s.Store.ExpireApprovals(ctx)
		return err
	})
	return oldest, err
}

// changed returns the result of a change, whose connection fails before and after.
func changed[T any](ctx context.Context, s *flaky, do func() (T, error)) (none T, err error) {
	result, err := called(ctx, s, do)
	if _, fails, _ := s.draw(); fails && err == nil {
		return none, fmt.Errorf("%w: %w", audit.ErrUnknown, errFault)
	}
	return result, err
}

func (s *flaky) UpdateKey(ctx context.Context, by audit.Actor, id spend.ID, change audit.KeyChange) (*audit.Key, error) {
	return changed(ctx, s, func() (*audit.Key, error) { return s.store.UpdateKey(ctx, by, id, change) })
}

func (s *flaky) RecordGrant(ctx context.Context, by audit.Actor, c audit.GrantChange) (bool, error) {
	return changed(ctx, s, func() (bool, error) { return s.store.RecordGrant(ctx, by, c) })
}

func (s *flaky) Reopen(ctx context.Context, id spend.ID, keyIDs []string, judged int64) (bool, error) {
	return changed(ctx, s, func() (bool, error) { return s.store.Reopen(ctx, id, keyIDs, judged) })
}

func (s *flaky) BudgetGrant(ctx context.Context, id spend.ID) (*audit.BudgetGrant, error) {
	return called(ctx, s, func() (*audit.BudgetGrant, error) { return s.store.BudgetGrant(ctx, id) })
}
