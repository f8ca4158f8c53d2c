package audittest

import (
	"errors"
	"fmt"
	"math"
	"reflect"
	"slices"
	"sync"
	"testing"
	"time"

	"spendgate/audit"
	"spendgate/audit/spend"
)

func policyVersions(t *testing.T, s Subject) {
	ctx := t.Context()
	first := newPolicy("refunds")
	must(t, s.CreatePolicy(ctx, actor(), first, audit.NewBudgets{}, epochStart.Add(300*time.Microsecond)))
	second := &audit.Policy{PolicyID: "refunds", Name: "Second", Rules: "[]"} // nothing optional
	later := epochStart.Add(time.Hour)
	must(t, s.CreatePolicy(ctx, actor(), second, audit.NewBudgets{}, later))
	want := *newPolicy("refunds")
	want.Version, want.CreatedAt, want.UpdatedAt = 1, epochStart, epochStart
	wantSecond := audit.Policy{
		PolicyID: "refunds", Version: 2, Name: "Second", Rules: "[]", CreatedAt: epochStart, UpdatedAt: later,
	}
	if !reflect.DeepEqual(*first, want) || !reflect.DeepEqual(*second, wantSecond) {
		t.Errorf("filled in\n%+v\n%+v", *first, *second)
	}
	for version, want := range map[int]audit.Policy{0: wantSecond, 1: want, 2: wantSecond} {
		if got, err := s.Policy(ctx, "refunds", version); err != nil || !reflect.DeepEqual(*got, want) {
			t.Errorf("version %d: got %+v, %v; want %+v", version, got, err, want)
		}
	}
	for _, absent := range []struct {
		id      string
		version int
	}{{"refunds", 3}, {"Refunds", 0}, {"", 0}} {
		if _, err := s.Policy(ctx, absent.id, absent.version); !errors.Is(err, audit.ErrNotFound) {
			t.Errorf("%v: got %v, want ErrNotFound", absent, err)
		}
	}
}

// policyVersionsRace creates twenty versions of each of two policies concurrently.
func policyVersionsRace(t *testing.T, s Subject) {
	const versions = 20
	got := map[string][]int{}
	var mu sync.Mutex
	var wg sync.WaitGroup
	for i := range 2 * versions {
		wg.Go(func() {
			p := newPolicy(fmt.Sprintf("policy-%d", i%2))
			p.Name = fmt.Sprintf("name %d", i)
			if err := s.CreatePolicy(t.Context(), actor(), p, audit.NewBudgets{}, now()); err != nil {
				t.Error(err)
				return
			}
			stored, err := s.Policy(t.Context(), p.PolicyID, p.Version)
			if err != nil || stored.Name != p.Name {
				t.Errorf("version %d is %+v, %v", p.Version, stored, err)
			}
			mu.Lock()
			defer mu.Unlock()
			got[p.PolicyID] = append(got[p.PolicyID], p.Version)
		})
	}
	wg.Wait()
	for id, list := range got {
		slices.Sort(list)
		for i, version := range list {
			if version != i+1 {
				t.Fatalf("versions of %s are %v", id, list)
			}
		}
	}
	changes, err := s.ConfigChanges(t.Context(), 0)
	if err != nil || changes.Generation < 2*versions || len(changes.PolicyIDs) != 2 {
		t.Errorf("changes %+v, %v", changes, err)
	}
}

// replacing returns the next version of a policy, on condition that the given version is in force.
func replacing(policyID string, version int) *audit.Policy {
	p := newPolicy(policyID)
	p.Replaces = &version
	return p
}

// policyReplaces: a version that replaces another than the one in force is refused first of all,
// and changes nothing.
func policyReplaces(t *testing.T, s Subject) {
	ctx := t.Context()
	refused := func(p *audit.Policy, inForce int) {
		t.Helper()
		before, err := s.ConfigChanges(ctx, 0)
		must(t, err)
		b := audit.NewBudgets{Drop: []string{"none"}} // refused later
		err = s.CreatePolicy(ctx, actor(), p, b, epochStart)
		if other, is := errors.AsType[*audit.VersionError](err); !is || other.Version != inForce {
			t.Errorf("over version %d: %v, want that %d is in force", *p.Replaces, err, inForce)
		}
		after, err := s.ConfigChanges(ctx, 0)
		if must(t, err); after.Generation != before.Generation {
			t.Errorf("a refused version raised the generation from %d to %d", before.Generation, after.Generation)
		}
	}
	refused(replacing("refunds", 1), 0)
	must(t, s.CreatePolicy(ctx, actor(), replacing("refunds", 0), audit.NewBudgets{}, epochStart))
	must(t, s.CreatePolicy(ctx, actor(), newPolicy("other"), audit.NewBudgets{}, epochStart)) // which is another policy's version
	asking := replacing("refunds", 1)
	asking.Changes = asksOne
	must(t, s.CreatePolicy(ctx, actor(), asking, audit.NewBudgets{}, epochStart))
	for _, stale := range []int{0, 1, 3, math.MaxInt32} {
		refused(replacing("refunds", stale), 2)
	}
	err := s.CreatePolicy(ctx, audit.Actor{KeyID: "key_0"}, replacing("refunds", 2), audit.NewBudgets{}, epochStart)
	if _, asks := errors.AsType[*audit.ChangeNeedsApprovalError](err); !asks {
		t.Errorf("the version in force asks people: %v", err)
	}
	changes, err := s.Changes(ctx, audit.ChangeQuery{Limit: 100})
	if must(t, err); len(changes) != 3 {
		t.Errorf("%d changes are recorded, want those of three versions", len(changes))
	}
}

// policyReplacesRace: of concurrent replacements of one version, exactly one succeeds.
func policyReplacesRace(t *testing.T, s Subject) {
	for version := range 6 {
		var mu sync.Mutex
		var racing sync.WaitGroup
		made := 0
		for range 8 {
			racing.Go(func() {
				p := replacing("p", version)
				err := s.CreatePolicy(t.Context(), actor(), p, audit.NewBudgets{}, now())
				mu.Lock()
				defer mu.Unlock()
				switch other, is := errors.AsType[*audit.VersionError](err); {
				case err == nil && p.Version == version+1:
					made++
				case !is || other.Version != version+1:
					t.Errorf("version %d over %d: %v", p.Version, version, err)
				}
			})
		}
		racing.Wait()
		if made != 1 {
			t.Fatalf("%d of those who replaced version %d did", made, version)
		}
	}
}

func keys(t *testing.T, s Subject) {
	ctx := t.Context()
	k := newKey()
	k.Name = "Kasse – ゼロ"
	must(t, s.CreateKey(ctx, actor(), k))
	same := newKey()
	same.Hash = k.Hash
	if err := s.CreateKey(ctx, actor(), same); err == nil {
		t.Error("one hash names two keys")
	}
	mustBe := func(want audit.Key) {
		t.Helper()
		if got, err := s.KeyByHash(ctx, k.Hash); err != nil || !reflect.DeepEqual(*got, want) {
			t.Errorf("got %+v, %v; want %+v", got, err, want)
		}
	}
	want := *k
	mustBe(want)
	inactive, name, rpm := false, "renamed", 9999
	for _, change := range []audit.KeyChange{{Active: &inactive}, {Name: &name}, {RateLimitRPM: &rpm}, {}} {
		if change.Active != nil {
			want.Active = inactive
		}
		if change.Name != nil {
			want.Name = name
		}
		if change.RateLimitRPM != nil {
			want.RateLimitRPM = rpm
		}
		if got, err := s.UpdateKey(ctx, actor(), k.ID, change); err != nil || !reflect.DeepEqual(*got, want) {
			t.Errorf("update gave %+v, %v; want %+v", got, err, want)
		}
		mustBe(want)
	}
	if _, err := s.UpdateKey(ctx, actor(), spend.NewID(now()), audit.KeyChange{Active: &inactive}); !errors.Is(err, audit.ErrNotFound) {
		t.Errorf("got %v, want ErrNotFound", err)
	}
	if _, err := s.KeyByHash(ctx, spend.HashKey("unknown")); !errors.Is(err, audit.ErrNotFound) {
		t.Errorf("got %v, want ErrNotFound", err)
	}
}

func keyPaging(t *testing.T, s Subject) {
	var want []audit.Key
	for range 7 {
		k := newKey()
		must(t, s.CreateKey(t.Context(), actor(), k))
		want = append(want, *k)
	}
	slices.Reverse(want)
	var got []audit.Key
	var before spend.ID
	for {
		page, err := s.ListKeys(t.Context(), before, 3)
		if err != nil || page.Total != int64(len(want)) {
			t.Fatalf("total %d, %v", page.Total, err)
		}
		got = append(got, page.Keys...)
		if !page.More {
			break
		}
		before = got[len(got)-1].ID
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("listed\n%+v\nwant\n%+v", got, want)
	}
}

// configChanges follows the generation through each kind of write.
func configChanges(t *testing.T, s Subject) {
	ctx := t.Context()
	read := func(since int64) audit.ConfigChanges {
		t.Helper()
		changes := get(s.ConfigChanges(ctx, since))(t)
		return changes
	}
	start := read(0)
	if len(start.Keys)+len(start.PolicyIDs) != 0 {
		t.Errorf("an empty store has %+v", start)
	}
	a, b := newKey(), newKey()
	active := false
	for _, step := range []struct {
		write    func() error
		keys     int
		policies []string
	}{
		{func() error { return s.CreateKey(ctx, actor(), a) }, 1, nil},
		{func() error { return s.CreateKey(ctx, actor(), b) }, 1, nil},
		{func() error { return s.CreatePolicy(ctx, actor(), newPolicy("p"), audit.NewBudgets{}, epochStart) }, 0, []string{"p"}},
		{func() error { return s.CreatePolicy(ctx, actor(), newPolicy("p"), audit.NewBudgets{}, epochStart) }, 0, []string{"p"}},
		{func() error { _, err := s.UpdateKey(ctx, actor(), a.ID, audit.KeyChange{Active: &active}); return err }, 1, nil},
	} {
		before := read(0).Generation
		if unchanged := read(before); len(unchanged.Keys)+len(unchanged.PolicyIDs) != 0 || unchanged.Generation != before {
			t.Errorf("since %d: %+v", before, unchanged)
		}
		must(t, step.write())
		delta := read(before)
		if delta.Generation <= before || len(delta.Keys) != step.keys || !slices.Equal(delta.PolicyIDs, step.policies) {
			t.Errorf("since %d: %+v", before, delta)
		}
	}
	a.Active = false
	all := read(0)
	slices.SortFunc(all.Keys, func(a, b audit.Key) int { return slices.Compare(a.ID[:], b.ID[:]) })
	if !reflect.DeepEqual(all.Keys, []audit.Key{*a, *b}) || !slices.Equal(all.PolicyIDs, []string{"p"}) {
		t.Errorf("all: %+v", all)
	}
	if _, err := s.UpdateKey(ctx, actor(), spend.NewID(now()), audit.KeyChange{}); err == nil || read(0).Generation != all.Generation {
		t.Error("a write that failed raised the generation")
	}
}

// configChangesRace reads changes while keys are created: a reader that goes from generation to
// generation misses none.
func configChangesRace(t *testing.T, s Subject) {
	const writers, each = 5, 8
	var wg sync.WaitGroup
	for range writers {
		wg.Go(func() {
			for range each {
				if err := s.CreateKey(t.Context(), actor(), newKey()); err != nil {
					t.Error(err)
				}
			}
		})
	}
	done := make(chan struct{})
	go func() { wg.Wait(); close(done) }()
	seen := map[spend.ID]bool{}
	var since int64
	for last := false; ; {
		changes := get(s.ConfigChanges(t.Context(), since))(t)
		for _, k := range changes.Keys {
			seen[k.ID] = true
		}
		since = changes.Generation
		if last {
			break
		}
		select {
		case <-done:
			last = true
		default:
		}
	}
	if len(seen) != writers*each {
		t.Errorf("saw %d keys, want %d", len(seen), writers*each)
	}
}
