package audittest

import (
	"errors"
	"reflect"
	"slices"
	"sync"
	"testing"
	"time"

	"spendgate/audit"
	"spendgate/audit/spend"
)

// keysAreTakenOnce commits a batch in which two keys are already recorded.
func keysAreTakenOnce(t *testing.T, s Subject) {
	ctx := t.Context()
	f := fence(t, s)
	winners := []*spend.Check{keyed(newCheck(f), newKeyText()), keyed(newCheck(f), newKeyText())}
	mustCommit(t, s, winners...)

	losers := []*spend.Check{keyed(newCheck(f), winners[0].Action.IdempotencyKey), keyed(newCheck(f), winners[1].Action.IdempotencyKey)}
	rest := []*spend.Check{newCheck(f), keyed(blocked(newCheck(f)), newKeyText()), keyed(newCheck(f), losers[0].Action.IdempotencyKey)}
	rest[2].Namespace = "BOT" // another slot of the same key
	err := Record(ctx, s, slices.Concat(losers, rest)...)
	var taken *audit.KeysTakenError
	if !errors.As(err, &taken) {
		t.Fatalf("got %v, want a KeysTakenError", err)
	}
	for _, c := range losers {
		if !slices.Contains(taken.Hashes, spend.HashKey(c.Action.IdempotencyKey)) {
			t.Errorf("key %q is not named", c.Action.IdempotencyKey)
		}
	}
	if len(taken.Hashes) != len(losers) {
		t.Errorf("%d keys are named, want %d", len(taken.Hashes), len(losers))
	}
	mustLack(t, s, slices.Concat(losers, rest)...)
	mustCommit(t, s, rest...)

	hashes := []spend.Hash{spend.HashKey("never used")}
	for _, c := range slices.Concat(winners, rest[1:]) {
		hashes = append(hashes, c.KeyHash())
	}
	recorded := get(s.CheckIDsByKey(ctx, hashes))(t)
	if len(recorded) != 4 {
		t.Errorf("%d keys are recorded, want 4", len(recorded))
	}
	for _, c := range slices.Concat(winners, rest[1:]) {
		if got := recorded[c.KeyHash()]; got != c.ID {
			t.Errorf("key %q names %x, want %x", c.Action.IdempotencyKey, got, c.ID)
		}
	}
}

// keysRace lets writers race for the same keys, listed in opposite orders: one takes them all, and
// nobody deadlocks (F14).
func keysRace(t *testing.T, s Subject) {
	const rounds, racers, size = 8, 4, 128
	f := fence(t, s)
	for range rounds {
		keys := make([]string, size)
		for i := range keys {
			keys[i] = newKeyText()
		}
		var mu sync.Mutex
		var won, lost []*spend.Check
		var wg sync.WaitGroup
		for racer := range racers {
			batch := make([]*spend.Check, size)
			for i := range batch {
				batch[i] = keyed(newCheck(f), keys[i])
			}
			if racer%2 == 1 {
				slices.Reverse(batch)
			}
			wg.Go(func() {
				var taken *audit.KeysTakenError
				err := Record(t.Context(), s, batch...)
				mu.Lock()
				defer mu.Unlock()
				switch {
				case err == nil:
					won = append(won, batch...)
				case errors.As(err, &taken) && len(taken.Hashes) == size:
					lost = append(lost, batch...)
				default:
					t.Errorf("got %v, want all the keys or none", err)
				}
			})
		}
		wg.Wait()
		if len(won) != size {
			t.Errorf("%d checks have the %d keys", len(won), size)
		}
		mustHave(t, s, won...)
		mustLack(t, s, lost...)
	}
}

// keysExpire uses a key again after its 24 hours, by the store's clock.
func keysExpire(t *testing.T, s Subject) {
	ctx := t.Context()
	f := fence(t, s)
	earlier(t, s, f)
	key := newKeyText()
	hash := spend.HashKey(key)
	other := keyed(newCheck(f), newKeyText())
	mustCommit(t, s, keyed(newCheck(f), key), other)
	must(t, s.Tidy(ctx, now()))
	if recorded, err := s.CheckIDsByKey(ctx, []spend.Hash{hash}); err != nil || len(recorded) != 1 {
		t.Errorf("before it expires: %v, %v", recorded, err)
	}
	must(t, s.Exec(t, s.ExpireKeys))
	if recorded, err := s.CheckIDsByKey(ctx, []spend.Hash{hash}); err != nil || len(recorded) != 0 {
		t.Errorf("after it expired: %v, %v", recorded, err)
	}
	second := keyed(newCheck(f), key)
	mustCommit(t, s, second)
	must(t, s.Tidy(ctx, now()))
	if rows := s.Count(t, "SELECT count(*) FROM idempotency_keys"); rows != 1 {
		t.Errorf("%d keys are kept, want the live one", rows)
	}
	recorded, err := s.CheckIDsByKey(ctx, []spend.Hash{hash, spend.HashKey(other.Action.IdempotencyKey)})
	if err != nil || len(recorded) != 1 || recorded[hash] != second.ID {
		t.Errorf("used again: %v, %v", recorded, err)
	}
	if err := Record(ctx, s, keyed(newCheck(f), key)); !errors.As(err, new(*audit.KeysTakenError)) {
		t.Errorf("a third time: got %v, want a KeysTakenError", err)
	}
	mustHave(t, s, other) // a key expires, its check does not
}

// livePasses looks up the latest pass that is still in force (F90, F79).
func livePasses(t *testing.T, s Subject) {
	f := fence(t, s)
	at := now().UnixMilli()
	pass := func(like *spend.Check, until int64) *spend.Check {
		c := newCheck(f)
		if like != nil {
			c.Fingerprint = like.Fingerprint
		}
		c.Pass.UntilMS = until
		return c
	}
	old := pass(nil, at+60_000)
	latest := pass(old, at+120_000)
	expired := pass(nil, at)
	week := pass(nil, at+7*24*3600*1000)
	guarded := newCheck(f) // blocked by the guard: it left no pass
	guarded.Fingerprint, guarded.Pass = old.Fingerprint, spend.Pass{}
	never := newCheck(f)
	mustCommit(t, s, old, expired, week)
	mustCommit(t, s, latest)
	mustCommit(t, s, guarded)
	hidden := pass(nil, at+60_000) // by a later pass that was not allowed
	hiding := blocked(pass(hidden, at+60_000))
	refused := blocked(pass(nil, at+60_000))
	mustCommit(t, s, hidden)
	mustCommit(t, s, hiding, refused)

	all := []spend.Hash{old.Fingerprint, expired.Fingerprint, week.Fingerprint, never.Fingerprint}
	live, err := s.LivePasses(t.Context(), all, spend.ID{}, at, spend.Block)
	if err != nil {
		t.Fatal(err)
	}
	if len(live) != 2 {
		t.Errorf("%d fingerprints are live, want 2", len(live))
	}
	for _, c := range []*spend.Check{latest, week} {
		if got, want := live[c.Fingerprint], livePass(c); got != want {
			t.Errorf("got %+v, want %+v", got, want)
		}
	}
	waiting := pass(nil, at+60_000)
	waiting.Decision.Effect = spend.Escalate
	blocksLater := blocked(pass(waiting, at+60_000))
	mustCommit(t, s, waiting)
	mustCommit(t, s, blocksLater)
	others := []spend.Hash{waiting.Fingerprint, hidden.Fingerprint, refused.Fingerprint}
	unblocked, err := s.LivePasses(t.Context(), others, spend.ID{}, at, spend.Escalate)
	if err != nil || len(unblocked) != 2 || unblocked[waiting.Fingerprint] != livePass(waiting) ||
		unblocked[hidden.Fingerprint] != livePass(hidden) {
		t.Errorf("allowed or escalated: got %+v, %v; want %+v and %+v", unblocked, err, livePass(waiting), livePass(hidden))
	}
	allowed, err := s.LivePasses(t.Context(), []spend.Hash{hidden.Fingerprint, refused.Fingerprint}, spend.ID{}, at, spend.Allow)
	if err != nil || len(allowed) != 1 || allowed[hidden.Fingerprint] != livePass(hidden) {
		t.Errorf("allowed: got %+v, %v; want %+v", allowed, err, livePass(hidden))
	}
	behind, err := s.LivePasses(t.Context(), []spend.Hash{latest.Fingerprint}, latest.ID, at, spend.Block)
	if err != nil || len(behind) != 1 || behind[old.Fingerprint] != livePass(old) {
		t.Errorf("behind the latest: got %+v, %v; want %+v", behind, err, livePass(old))
	}
	if none, err := s.LivePasses(t.Context(), nil, spend.ID{}, at, spend.Block); err != nil || len(none) != 0 {
		t.Errorf("no fingerprints: %v, %v", none, err)
	}
}

// pagePasses walks all passes that are in force, newest first.
func pagePasses(t *testing.T, s Subject) {
	f := fence(t, s)
	at := now().UnixMilli()
	var want []audit.LivePass
	for i := range 25 {
		c := newCheck(f)
		switch i % 5 {
		case 3:
			c.Pass.UntilMS = at - 1
		case 4:
			c.Pass = spend.Pass{}
		default:
			want = append(want, livePass(c))
		}
		mustCommit(t, s, c)
	}
	slices.Reverse(want)
	var got []audit.LivePass
	for before := (spend.ID{}); ; before = got[len(got)-1].CheckID {
		page := get(s.PagePasses(t.Context(), before, at, 4))(t)
		got = append(got, page...)
		if len(page) < 4 {
			break
		}
	}
	if !slices.Equal(got, want) {
		t.Errorf("walked\n%v\nwant\n%v", got, want)
	}
}

func livePass(c *spend.Check) audit.LivePass {
	return audit.LivePass{Fingerprint: c.Fingerprint, CheckID: c.ID, Effect: c.Decision.Effect, Pass: c.Pass}
}

// keyExpires: of each time at which a key expires there is one event, however many nodes record it, and none of a key that is
// deactivated or expires at another time meanwhile.
func keyExpires(t *testing.T, s Subject) {
	key := newKey()
	key.Grants.ExpiresAt = now().Add(5 * 24 * time.Hour).Truncate(time.Millisecond)
	must(t, s.CreateKey(t.Context(), actor(), key))
	before, err := s.KeyByHash(t.Context(), key.Hash)
	must(t, err)
	var events []audit.Event
	expires := func(when string, k *audit.Key, want int) {
		t.Helper()
		var nodes sync.WaitGroup
		for range 4 {
			nodes.Go(func() {
				if err := s.RecordExpiring(t.Context(), k); err != nil {
					t.Error(err)
				}
			})
		}
		nodes.Wait()
		if events, _ = feed(t, s, audit.EventQuery{Types: []audit.EventType{audit.EventKeyExpiring}}); len(events) != want {
			t.Fatalf("%s: %d events, want %d", when, len(events), want)
		}
	}
	change := func(c audit.KeyChange) *audit.Key {
		t.Helper()
		changed, err := s.UpdateKey(t.Context(), actor(), key.ID, c)
		must(t, err)
		return changed
	}
	later := func(d time.Duration) audit.KeyChange {
		g := spend.Grants{ExpiresAt: key.Grants.ExpiresAt.Add(d)}
		return audit.KeyChange{Grants: spend.GrantsChange{Grants: g, Named: []string{spend.MemberExpiresAt}}}
	}
	expires("soon", key, 1)
	kept, err := s.KeyByHash(t.Context(), key.Hash)
	must(t, err)
	if c := events[0].Change; c.Subject != key.ID.Text(spend.PrefixKey) || c.By.Kind() != "system" || !reflect.DeepEqual(kept, before) {
		t.Errorf("recorded %+v of %+v", c, kept)
	}
	for _, q := range []audit.EventQuery{{PolicyIDs: []string{"p-0"}}, {AgentIDs: []string{"a-7"}}} {
		if bound, _ := feed(t, s, q); len(bound) > 0 {
			t.Errorf("a bound key sees %v", typesOf(bound))
		}
	}
	changed := change(later(time.Hour))
	expires("at another time meanwhile", key, 1)
	expires("later", changed, 2)
	expires("as before", change(later(0)), 2)
	changed = change(later(2 * time.Hour))
	change(audit.KeyChange{Active: new(false)})
	expires("deactivated", changed, 2)
}
