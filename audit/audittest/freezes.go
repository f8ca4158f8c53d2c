package audittest

import (
	"context"
	"errors"
	"testing"
	"time"

	"spendgate/audit"
	"spendgate/audit/spend"
)

func freezeTests() []test {
	return []test{
		{"FreezeIsFinal", freezeIsFinal},
		{"FreezeCourse", freezeCourse},
		{"FreezeReleaseLapses", releaseLapses},
		{"FreezeEnds", freezeEnds},
		{"FreezesAreListed", freezesAreListed},
		{"KeyStopIsFinal", keyStopIsFinal},
		{"KeyStops", keyStops},
	}
}

func newFreeze(scope audit.FreezeScope) audit.NewFreeze {
	return audit.NewFreeze{ID: spend.NewID(now()), Scope: scope, Reason: "agent loops", Seen: -1}
}

func mustFreeze(t *testing.T, s Subject, f audit.NewFreeze) *audit.Freeze {
	t.Helper()
	created, replayed, err := s.CreateFreeze(t.Context(), admin(), f)
	if err != nil || replayed {
		t.Fatalf("froze: replayed %v, %v", replayed, err)
	}
	return created
}

func admin() audit.Actor { return audit.Actor{Credential: "0a1b2c3d", RequestID: "req_0a1b2c3d4e5f"} }

func person(key string) audit.Actor {
	return audit.Actor{KeyID: key, Principal: "p-" + key, Owner: "o-" + key}
}

// freezeIsFinal freezes while commits are in progress: what was judged before and is absent once CreateFreeze has returned stays
// absent; so does a redemption. A commit that was judged since is recorded.
func freezeIsFinal(t *testing.T, s Subject) {
	f := fence(t, s)
	stopIsFinal(t, s, f, audit.ErrStaleStops, func(ctx context.Context) error {
		_, _, err := s.CreateFreeze(ctx, admin(), newFreeze(audit.FreezeScope{Kind: audit.FreezeAll}))
		return err
	})
	changes, err := s.ConfigChanges(t.Context(), 0)
	if err != nil || len(changes.Stopping) != 1 || changes.Stops != changes.Stopping[0].Seq || changes.Generation < changes.Stops {
		t.Fatalf("changes %+v, %v", changes, err)
	}
	f.Stops = changes.Stops
	c := newCheck(f)
	mustCommit(t, s, c)
	late, known := redemption(f, c), redemption(f, c)
	late.Fence.Stops--
	if err := RecordAll(t.Context(), s, nil, late); !errors.Is(err, audit.ErrStaleStops) {
		t.Errorf("a redemption that was judged before: %v", err)
	}
	mustReport(t, s, known)
}

// freezeCourse releases a freeze, and shows that what was judged by an older state is not recorded.
func freezeCourse(t *testing.T, s Subject) {
	ctx := t.Context()
	asked := newFreeze(audit.FreezeScope{Kind: audit.FreezeAgent, Value: "a-1"})
	asked.Until = now().Add(time.Hour).Truncate(time.Millisecond).UTC()
	f := mustFreeze(t, s, asked)
	if f.ID != asked.ID || !asked.Same(f) || f.Status != audit.FreezeActive || f.By.Credential != admin().Credential || f.CreatedAt.IsZero() {
		t.Fatalf("created %+v", f)
	}
	if again, replayed, err := s.CreateFreeze(ctx, admin(), asked); err != nil || !replayed || again.Seq != f.Seq {
		t.Errorf("again: %+v, %v, %v", again, replayed, err)
	}
	other := newFreeze(audit.FreezeScope{Kind: audit.FreezeAll})
	other.Seen = f.Seq - 1
	if _, _, err := s.CreateFreeze(ctx, admin(), other); !errors.Is(err, audit.ErrStaleStops) {
		t.Errorf("a freeze by an older stop: %v", err)
	}
	changes, err := s.ConfigChanges(ctx, 0)
	must(t, err)
	first := audit.FreezeRelease{Freeze: f, Keys: changes.Generation, Note: "fixed", Name: "Ada"}
	must(t, s.ReleaseFreeze(ctx, person("key_1"), first))
	if err := s.ReleaseFreeze(ctx, person("key_2"), first); !errors.Is(err, audit.ErrStaleFreeze) {
		t.Errorf("a release of an older state: %v", err)
	}
	f, err = s.Freeze(ctx, f.ID)
	must(t, err)
	if len(f.Releases) != 1 || f.Status != audit.FreezeActive || f.Releases[0].Note != "fixed" || f.Releases[0].Name != "Ada" ||
		f.Releases[0].Party() != (audit.Party{KeyID: "key_1", Principal: "p-key_1", Owner: "o-key_1"}) {
		t.Fatalf("released once: %+v", f)
	}
	must(t, s.CreateKey(ctx, actor(), newKey()))
	second := audit.FreezeRelease{Freeze: f, Keys: changes.Generation, Note: "checked", Completes: true}
	if err := s.ReleaseFreeze(ctx, person("key_2"), second); !errors.Is(err, audit.ErrStaleFreeze) {
		t.Errorf("a release by older keys: %v", err)
	}
	latest, err := s.ConfigChanges(ctx, changes.Generation)
	must(t, err)
	second.Keys = latest.Generation
	must(t, s.ReleaseFreeze(ctx, person("key_2"), second))
	f, err = s.Freeze(ctx, f.ID)
	if err != nil || f.Status != audit.FreezeReleased || len(f.Releases) != 2 || f.EndedAt.IsZero() {
		t.Fatalf("released %+v, %v", f, err)
	}
	latest, err = s.ConfigChanges(ctx, changes.Generation)
	if err != nil || len(latest.Stopping) != 3 || latest.Stops != f.Last {
		t.Errorf("a node hears of %+v, %v; want two releases and the end", latest.Stopping, err)
	}
	forced := mustFreeze(t, s, newFreeze(audit.FreezeScope{Kind: audit.FreezeAll}))
	must(t, s.ReleaseFreeze(ctx, admin(), audit.FreezeRelease{Freeze: forced, Keys: latest.Generation, Note: "drill"}))
	forced, err = s.Freeze(ctx, forced.ID)
	if err != nil || forced.Status != audit.FreezeReleased || len(forced.Releases) != 1 || forced.Releases[0].Note != "drill" {
		t.Errorf("forced %+v, %v", forced, err)
	}
	if whole, err := s.ConfigChanges(ctx, 0); err != nil || len(whole.Stopping) != 0 {
		t.Errorf("active: %+v, %v; want none", whole.Stopping, err)
	}
	if _, err := s.Freeze(ctx, spend.NewID(now())); !errors.Is(err, audit.ErrNotFound) {
		t.Errorf("an unknown freeze: %v", err)
	}
}

// releaseLapses shows a release by a key that may release no more, and may again.
func releaseLapses(t *testing.T, s Subject) {
	ctx, k := t.Context(), newKey()
	k.Grants = spend.Grants{Scopes: spend.FreezesRelease}
	must(t, s.CreateKey(ctx, actor(), k))
	f := mustFreeze(t, s, newFreeze(audit.FreezeScope{Kind: audit.FreezeAll}))
	by := audit.Actor{KeyID: k.ID.Text(spend.PrefixKey), RequestID: "r"}
	changes, err := s.ConfigChanges(ctx, 0)
	must(t, err)
	must(t, s.ReleaseFreeze(ctx, by, audit.FreezeRelease{Freeze: f, Keys: changes.Generation}))
	for _, step := range []struct {
		change audit.KeyChange
		lapsed bool
	}{{audit.KeyChange{Name: new("n")}, false}, {audit.KeyChange{Active: new(false)}, false}, {audit.KeyChange{Active: new(true)}, true}} {
		_, err := s.UpdateKey(ctx, actor(), k.ID, step.change)
		must(t, err)
		one, err := s.Freeze(ctx, f.ID)
		must(t, err)
		page, _, err := s.ListFreezes(ctx, audit.FreezeQuery{Limit: 1})
		if err != nil || one.Releases[0].Lapsed != step.lapsed || page[0].Releases[0].Lapsed != step.lapsed {
			t.Errorf("after %+v: %+v, listed %+v, %v", step.change, one, page, err)
		}
	}
}

// freezeEnds ends freezes whose time is over by the store's clock, once.
func freezeEnds(t *testing.T, s Subject) {
	ctx := t.Context()
	asked := newFreeze(audit.FreezeScope{Kind: audit.FreezeCounterparty, Value: "c-1"})
	asked.Until = now().Add(time.Hour)
	f := mustFreeze(t, s, asked)
	must(t, s.EndFreeze(ctx, f))
	if f, err := s.Freeze(ctx, f.ID); err != nil || f.Status != audit.FreezeActive {
		t.Fatalf("ended early: %+v, %v", f, err)
	}
	f.Until = now().Add(-time.Minute)
	for range 2 {
		must(t, s.EndFreeze(ctx, f))
	}
	if ended, err := s.Freeze(ctx, f.ID); err != nil || ended.Status != audit.FreezeOver || ended.Last != f.Seq+1 {
		t.Errorf("ended: %+v, %v", ended, err)
	}
}

func freezesAreListed(t *testing.T, s Subject) {
	ctx := t.Context()
	straße := audit.FreezeScope{Kind: audit.FreezePrincipal, Value: "Straße"}
	agent := audit.FreezeScope{Kind: audit.FreezeAgent, Value: "Straße"}
	var all []*audit.Freeze
	for _, scope := range []audit.FreezeScope{straße, agent, {Kind: audit.FreezePrincipal, Value: "STRASSE"}, {Kind: audit.FreezeAll}} {
		all = append(all, mustFreeze(t, s, newFreeze(scope)))
	}
	must(t, s.ReleaseFreeze(ctx, admin(), audit.FreezeRelease{Freeze: all[2], Keys: all[3].Seq, Note: "over"}))
	for name, c := range map[string]struct {
		q    audit.FreezeQuery
		want []int
		more bool
	}{
		"all":       {audit.FreezeQuery{Limit: 4}, []int{3, 2, 1, 0}, false},
		"a page":    {audit.FreezeQuery{Limit: 2}, []int{3, 2}, true},
		"the next":  {audit.FreezeQuery{Limit: 2, Before: all[2].Seq}, []int{1, 0}, false},
		"active":    {audit.FreezeQuery{Limit: 4, Active: new(true)}, []int{3, 1, 0}, false},
		"ended":     {audit.FreezeQuery{Limit: 4, Active: new(false)}, []int{2}, false},
		"principal": {audit.FreezeQuery{Limit: 4, Scope: &straße}, []int{2, 0}, false},
		"agent":     {audit.FreezeQuery{Limit: 4, Scope: &agent}, []int{1}, false},
	} {
		page, more, err := s.ListFreezes(ctx, c.q)
		if err != nil || len(page) != len(c.want) || more != c.more {
			t.Errorf("%s: %d freezes, more %v, %v; want %d, %v", name, len(page), more, err, len(c.want), c.more)
			continue
		}
		for i := range page {
			if page[i].ID != all[c.want[i]].ID {
				t.Errorf("%s: place %d has %+v", name, i, page[i])
			}
		}
	}
	mine := newCheck(fence(t, s))
	mine.Action.AgentID, mine.Fence.Stops = "reached", all[3].Seq
	mustCommit(t, s, mine)
	for scope, want := range map[audit.FreezeScope]int{
		{Kind: audit.FreezeAgent, Value: "reached"}: 1, {Kind: audit.FreezeAgent, Value: "Reached"}: 0, {Kind: audit.FreezeAll}: 1,
	} {
		reach, err := s.FreezeReach(ctx, scope, now().Add(-time.Hour))
		if err != nil || len(reach) != want || want > 0 && (reach[0].Checks != 1 || reach[0].Asker != audit.Asker(mine)) {
			t.Errorf("%v reaches %+v, %v", scope, reach, err)
		}
	}
}

func freezeEvents(t *testing.T, s Subject, news func(string, ...audit.EventType) []audit.Event) {
	t.Helper()
	scope := audit.FreezeScope{Kind: audit.FreezePolicy, Value: "refunds"}
	f := mustFreeze(t, s, newFreeze(scope))
	e := news("a freeze", audit.EventFreezeCreated)[0]
	if said, err := audit.FreezeOf(e.Change); err != nil || said.ID != f.ID || said.Scope != scope ||
		e.PolicyID != "refunds" || e.AgentID != "" || !e.At.Equal(f.CreatedAt) {
		t.Errorf("frozen: %+v, %v", e, err)
	}
	must(t, s.ReleaseFreeze(t.Context(), person("key_1"), audit.FreezeRelease{Freeze: f, Keys: f.Seq, Note: "fixed", Completes: true}))
	news("a release", audit.EventFreezeReleaseApproved, audit.EventFreezeReleased)
	f = mustFreeze(t, s, newFreeze(audit.FreezeScope{Kind: audit.FreezeAgent, Value: "agent-1"}))
	must(t, s.ReleaseFreeze(t.Context(), admin(), audit.FreezeRelease{Freeze: f, Keys: f.Seq, Note: "drill"}))
	if e := news("a forced release", audit.EventFreezeCreated, audit.EventFreezeReleased, audit.EventFreezeForced)[2]; e.AgentID != "agent-1" {
		t.Errorf("forced: %+v", e)
	}
	f = mustFreeze(t, s, newFreeze(audit.FreezeScope{Kind: audit.FreezeAll}))
	f.Until = now().Add(-time.Minute)
	must(t, s.EndFreeze(t.Context(), f))
	news("an end", audit.EventFreezeCreated, audit.EventFreezeEnded)
}
