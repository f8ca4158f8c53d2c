package audittest

import (
	"reflect"
	"slices"
	"sync"
	"testing"
	"time"

	"spendgate/audit"
	"spendgate/audit/spend"
)

// keyUses notes uses of keys: the latest is kept, and nothing else changes.
func keyUses(t *testing.T, s Subject) {
	ctx := t.Context()
	used, idle := newKey(), newKey()
	if slices.Compare(used.ID[:], idle.ID[:]) > 0 { // both of one millisecond
		used.ID, idle.ID = idle.ID, used.ID
	}
	for _, k := range []*audit.Key{used, idle} {
		must(t, s.CreateKey(ctx, actor(), k))
	}
	before := get(s.ConfigChanges(ctx, 0))(t)
	at := epochStart.Add(1234 * time.Millisecond)
	for _, uses := range [][]audit.KeyUse{
		{{ID: used.ID, At: at.Add(-time.Minute)}},
		{{ID: spend.NewID(now()), At: at}, {ID: used.ID, At: at}},
		{{ID: used.ID, At: at}},
		{{ID: used.ID, At: at.Add(-time.Millisecond)}}, // another node, late
		nil,
	} {
		must(t, s.NoteKeyUses(ctx, uses))
	}
	used.LastUsedAt = at
	after, err := s.ConfigChanges(ctx, before.Generation)
	if err != nil || after.Generation != before.Generation || len(after.Keys) > 0 {
		t.Errorf("a use changed the configuration: %+v, %v", after, err)
	}
	listed, err := s.ListKeys(ctx, spend.ID{}, 10)
	if want := []audit.Key{*idle, *used}; err != nil || !reflect.DeepEqual(listed.Keys, want) {
		t.Errorf("listed %+v, %v; want %+v", listed.Keys, err, want)
	}
	used.Active = false
	if got, err := s.UpdateKey(ctx, actor(), used.ID, audit.KeyChange{Active: new(false)}); err != nil || !reflect.DeepEqual(got, used) {
		t.Errorf("update gave %+v, %v; want %+v", got, err, *used)
	}
	if got, err := s.KeyByHash(ctx, used.Hash); err != nil || !reflect.DeepEqual(got, used) {
		t.Errorf("got %+v, %v; want %+v", got, err, *used)
	}
	if keys := s.Count(t, "SELECT count(*) FROM keys"); keys != 2 {
		t.Errorf("%d keys, want 2", keys)
	}
}

// keyUsesRace lets nodes note the same keys in opposite orders while one of the keys is changed: no
// node fails, and the latest use is kept.
func keyUsesRace(t *testing.T, s Subject) {
	const nodes, rounds, size = 4, 25, 40
	keys := make([]*audit.Key, size)
	for i := range keys {
		keys[i] = newKey()
		must(t, s.CreateKey(t.Context(), actor(), keys[i]))
	}
	var wg sync.WaitGroup
	for n := range nodes {
		wg.Go(func() {
			for round := range rounds {
				uses := make([]audit.KeyUse, size)
				for i, k := range keys {
					uses[i] = audit.KeyUse{ID: k.ID, At: epochStart.Add(time.Duration(round*nodes+n) * time.Second)}
				}
				if n%2 == 1 {
					slices.Reverse(uses)
				}
				if err := s.NoteKeyUses(t.Context(), uses); err != nil {
					t.Error(err)
				}
				if _, err := s.UpdateKey(t.Context(), actor(), keys[n].ID, audit.KeyChange{RateLimitRPM: new(round + 1)}); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	listed, err := s.ListKeys(t.Context(), spend.ID{}, size)
	if err != nil || len(listed.Keys) != size {
		t.Fatalf("%d keys, %v", len(listed.Keys), err)
	}
	for _, k := range listed.Keys {
		if want := epochStart.Add((rounds*nodes - 1) * time.Second); k.LastUsedAt != want {
			t.Errorf("last used at %v, want %v", k.LastUsedAt, want)
		}
	}
}
