package hotpath_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"spendgate/audit"
	"spendgate/audit/spend"
	"spendgate/bench/must"
	"spendgate/hotpath"
)

// G3: of identical actions at once, over two nodes, exactly one passes, and
// every duplicate names it.
func TestOneOfManyPasses(t *testing.T) {
	eachBackend(t, 2, func(t *testing.T, f *fleet) {
		for round := range 5 {
			outcomes := f.checkAll(repeat(refundOf(t, "10", fmt.Sprint("c-", round)), 30)...)
			pass := onePass(t, f, outcomes)
			want := "chk_"
			if pass != nil {
				want = pass.ID.Text("chk_")
			}
			for _, o := range outcomes {
				if !o.passed() && !o.names(want) {
					t.Errorf("want a duplicate of %s: %s", want, o)
				}
				if f.recorded(o.answer.Check.ID) == nil {
					t.Errorf("not recorded: %s", o) // G1
				}
			}
		}
	})
}

// keyReused reports whether the outcome says that the check has its idempotency key.
func keyReused(o outcome, by spend.ID) bool {
	reused, is := errors.AsType[*hotpath.KeyReusedError](o.err)
	return is && reused.Check == by
}

// G2, S18: one key, many requests at once over two nodes: one row, one body (F8).
func TestOneCheckPerIdempotencyKey(t *testing.T) {
	eachBackend(t, 2, func(t *testing.T, f *fleet) {
		for round := range 5 {
			a := keyed(refundOf(t, "10", fmt.Sprint("k-", round)), fmt.Sprint("key-", round))
			outcomes := f.checkAll(repeat(a, 30)...)
			pass := onePass(t, f, outcomes)
			for _, o := range outcomes {
				if o.answer.Check.ID != pass.ID || o.passed() == o.answer.Replayed {
					t.Errorf("want a replay of %s: %s", pass.ID.Text("chk_"), o)
				}
				if (o.answer.Check.RequestID == o.request) == o.answer.Replayed { // S83
					t.Errorf("%s says that %s made the check: %s", o.request, o.answer.Check.RequestID, o)
				}
			}
			other := a
			other.Counterparty = "someone else"
			if o := f.check(1, other); !keyReused(o, pass.ID) {
				t.Errorf("another request under the key: %s", o)
			}
		}
	})
}

// S18: another request under a key in flight waits for the first one's outcome
// and is then refused; if the first fails, it may have the key.
func TestKeyReusedInFlight(t *testing.T) {
	eachBackend(t, 2, func(t *testing.T, f *fleet) {
		first, second := keyed(refundOf(t, "10", "c"), "k"), keyed(refundOf(t, "20", "c"), "k")
		held, release := f.nodes[0].holdCommit(nil)
		var a, b outcome
		var wg sync.WaitGroup
		wg.Go(func() { a = f.check(0, first) })
		<-held
		answered := make(chan struct{})
		wg.Go(func() { b = f.check(1, second); close(answered) })
		select {
		case <-answered:
			t.Errorf("answered before the first one's outcome was known: %s", b)
		case <-time.After(100 * time.Millisecond):
		}
		release()
		wg.Wait()
		if !a.passed() || !keyReused(b, a.answer.Check.ID) {
			t.Errorf("first %s, second %s", a, b)
		}

		first.IdempotencyKey, second.IdempotencyKey = "k2", "k2"
		first.Counterparty, second.Counterparty = "d", "d"
		held, release = f.nodes[0].holdCommit(audit.ErrUnavailable)
		wg.Go(func() { a = f.check(0, first) })
		<-held
		wg.Go(func() { b = f.check(1, second) })
		time.Sleep(20 * time.Millisecond)
		release()
		wg.Wait()
		if !errors.Is(a.err, hotpath.ErrUnavailable) || !b.passed() {
			t.Errorf("first %s, second %s", a, b)
		}
	})
}

// F1: a holder that is slow but alive loses its claim to a fence, and must not
// pass as well when it wakes (G3).
func TestSlowHolder(t *testing.T) {
	eachBackend(t, 2, func(t *testing.T, f *fleet) {
		held, release := f.nodes[0].holdCommit(nil)
		action := refundOf(t, "10", "c")
		var slow, other outcome
		var wg sync.WaitGroup
		wg.Go(func() { slow = f.check(0, action) })
		<-held
		asked := time.Now()
		other = f.check(1, action) // waits until the claim is stale, then fences
		if !other.passed() || time.Since(asked) > 10*time.Second {
			t.Errorf("the waiter, after %s: %s", time.Since(asked), other)
		}
		release()
		wg.Wait()
		// The slow check was answered with 500 in time, and its claims are void.
		if slow.err == nil && !slow.duplicate() {
			t.Errorf("the slow holder: %s", slow)
		}
		if next := f.check(0, action); !next.names(other.answer.Check.ID.Text("chk_")) {
			t.Errorf("afterwards: %s", next)
		}
		if fresh := f.check(0, refundOf(t, "11", "c")); !fresh.passed() {
			t.Errorf("the fenced node goes on as another incarnation: %s", fresh)
		}
		if n := f.passes(action); n != 1 {
			t.Errorf("the trail holds %d passes", n)
		}
	})
}

// F2: Redis is emptied while a commit is in progress. Either that commit stands
// and is seen, or it is refused; never do two pass (G3).
func TestFlushDuringCommit(t *testing.T) {
	eachBackend(t, 2, func(t *testing.T, f *fleet) {
		held, release := f.nodes[0].holdCommit(nil)
		action := refundOf(t, "10", "c")
		outcomes := make([]outcome, 2)
		var wg sync.WaitGroup
		wg.Go(func() { outcomes[0] = f.check(0, action) })
		<-held
		f.flush()
		wg.Go(func() { outcomes[1] = f.check(1, action) })
		time.Sleep(150 * time.Millisecond)
		release()
		wg.Wait()
		onePass(t, f, outcomes)
	})
}

// G2 after Redis was lost.
func TestReplayAfterFlush(t *testing.T) {
	eachBackend(t, 2, func(t *testing.T, f *fleet) {
		action := keyed(refundOf(t, "10", "c"), "k")
		first := f.check(0, action)
		f.flush()
		again := f.check(1, action)
		if !again.answer.Replayed || again.answer.Check.ID != first.answer.Check.ID || again.answer.Check.RequestID != first.request {
			t.Errorf("first %s, after the flush %s", first, again)
		}
	})
}

// Flushes, checks and retries all at once: still one pass each (F7, F11, G3).
func TestFlushStorm(t *testing.T) {
	eachBackend(t, 3, func(t *testing.T, f *fleet) {
		defer meanwhile(func() { time.Sleep(15 * time.Millisecond); f.flush() })()
		for i := range 20 {
			outcomes := f.checkAll(repeat(refundOf(t, "10", fmt.Sprint("s-", i)), 9)...)
			passes := 0
			for _, o := range outcomes {
				if o.passed() {
					passes++
				}
				if o.err != nil && !errors.Is(o.err, hotpath.ErrUnavailable) {
					t.Errorf("unexpected: %s", o)
				}
			}
			if n := f.passes(refundOf(t, "10", fmt.Sprint("s-", i))); passes > 1 || n > 1 {
				t.Errorf("%d passed, %d passes recorded", passes, n)
			}
		}
	})
}

// F3: the connection is lost in COMMIT. The outcome is found out behind a
// fence, in time to be answered.
func TestUnknownCommit(t *testing.T) {
	for _, committed := range []bool{true, false} {
		t.Run(fmt.Sprint("committed=", committed), func(t *testing.T) {
			eachBackend(t, 2, func(t *testing.T, f *fleet) {
				f.nodes[0].loseAnswer(committed)
				action := refundOf(t, "10", "c")
				outcomes := []outcome{f.check(0, action), f.check(1, action), f.check(0, action)}
				pass := onePass(t, f, outcomes)
				if !outcomes[0].passed() || !outcomes[1].names(pass.ID.Text("chk_")) {
					t.Errorf("%v", outcomes)
				}
			})
		})
	}
}

// F10, G7: recorded but answered 500. The next equal request without a key has
// it, once; a different request that shares the fingerprint is a duplicate.
func TestOrphanIsGivenOnce(t *testing.T) {
	eachBackend(t, 2, func(t *testing.T, f *fleet) {
		action := refundOf(t, "10", "c")
		held, release := f.nodes[0].holdCommit(nil)
		lost := f.check(0, action) // refused at its deadline
		<-held
		if !errors.Is(lost.err, hotpath.ErrUnavailable) {
			t.Fatalf("answered before its commit: %s", lost)
		}
		release()
		different := action
		different.Currency = "EUR"
		f.eventually("the orphan is marked and recorded", func() bool {
			names := f.claims()
			return len(names) == 1 && strings.HasPrefix(f.redis.Get(context.Background(), names[0]).Val(), "O") && f.passes(action) == 1
		})
		var first outcome
		if o := f.check(1, different); !o.duplicate() {
			t.Errorf("another request: %s", o)
		}
		if o := f.checkBy(f.keyed(spend.Grants{Principal: "somebody else"}), 1, action); !o.duplicate() {
			t.Errorf("the next equal request, of another namespace (F110): %s", o)
		}
		if first = f.check(1, action); first.err != nil || !first.answer.Replayed {
			t.Fatalf("the next equal request: %s", first)
		}
		if o := f.check(0, action); !o.names(first.answer.Check.ID.Text("chk_")) {
			t.Errorf("the one after: %s", o)
		}
	})
}

// G7: a check that failed leaves nothing behind that would block its retry (F9).
func TestFailedCheckDoesNotBlockItsRetry(t *testing.T) {
	eachBackend(t, 2, func(t *testing.T, f *fleet) {
		for _, action := range []spend.Action{refundOf(t, "10", "c"), keyed(refundOf(t, "11", "c"), "k")} {
			before := len(f.claims())
			f.nodes[0].faults.onCommit(func(context.Context, []*spend.Check, realCommit) error {
				return fmt.Errorf("%w: %w", audit.ErrUnavailable, errTest)
			})
			if o := f.check(0, action); !errors.Is(o.err, hotpath.ErrUnavailable) {
				t.Fatalf("recorded by a store that is away: %s", o)
			}
			f.nodes[0].faults.onCommit(nil)
			f.eventually("its claims are released", func() bool { return len(f.claims()) == before })
			if o := f.check(1, action); !o.passed() {
				t.Errorf("the retry: %s", o)
			}
		}
	})
}

// F5: the marker alone tells that windows were lost, even if everything else
// that a batch reads is there.
func TestMarkerAloneTells(t *testing.T) {
	eachBackend(t, 2, func(t *testing.T, f *fleet) {
		action := refundOf(t, "10", "c")
		first := f.check(0, action)
		generation := f.redis.Get(context.Background(), "g:{0}").Val()
		f.flush()
		must.Do(t, f.redis.Set(context.Background(), "g:{0}", generation, 0).Err())
		if o := f.check(0, action); !o.names(first.answer.Check.ID.Text("chk_")) {
			t.Errorf("with only the generation left: %s", o)
		}
	})
}

// G4: a version answered is the version that judges, at once, on every node (F12).
func TestNewVersionJudgesAtOnce(t *testing.T) {
	eachBackend(t, 2, func(t *testing.T, f *fleet) {
		for i := range 30 {
			version := f.post(i%2, "p", plainRules)
			o := f.check((i+1)%2, refundOf(t, fmt.Sprint(i+1), "c"))
			if o.err != nil || o.answer.Check.Decision.PolicyVersion < version {
				t.Fatalf("version %d was posted, judged by %d: %s", version, o.answer.Check.Decision.PolicyVersion, o)
			}
		}
	})
}

// A stream of configuration changes starves no check.
func TestChangesStarveNobody(t *testing.T) {
	eachBackend(t, 2, func(t *testing.T, f *fleet) {
		defer meanwhile(func() { f.post(0, "other", plainRules) })()
		for i := range 10 {
			actions := make([]spend.Action, 20)
			for j := range actions {
				actions[j] = refundOf(t, fmt.Sprint(i+1), fmt.Sprint("c-", j))
			}
			for _, o := range f.checkAll(actions...) {
				if !o.passed() {
					t.Errorf("while policies change: %s", o)
				}
			}
		}
	})
}

// G5: a key deactivated or re-limited is so on every node, at once (F15).
func TestKeyChangesAtOnce(t *testing.T) {
	eachBackend(t, 2, func(t *testing.T, f *fleet) {
		set := func(active bool) {
			if _, _, err := f.nodes[0].UpdateKey(context.Background(), audit.Actor{}, f.keyID, audit.KeyChange{Active: &active}); err != nil {
				t.Fatal(err)
			}
		}
		for i := range 20 {
			set(false)
			if o := f.check(1, refundOf(t, fmt.Sprint(i+1), "c")); !errors.Is(o.err, hotpath.ErrKeyInactive) {
				t.Fatalf("deactivated: %s", o)
			}
			set(true)
			if o := f.check(1, refundOf(t, fmt.Sprint(i+1), "c")); !o.passed() {
				t.Fatalf("active again: %s", o)
			}
		}
	})
}

// G6, S26: the fleet admits the limit and no more; a raised limit admits
// exactly the difference, since refused requests do not count.
func TestRateLimitOfTheFleet(t *testing.T) {
	eachBackend(t, 2, func(t *testing.T, f *fleet) {
		limit := 5
		raw, k, err := f.nodes[0].CreateKey(context.Background(), audit.Actor{}, hotpath.NewKey{Name: "limited", RateLimitRPM: limit})
		must.Do(t, err)
		f.key = hotpath.KeyCaller([]byte(raw))
		burst := func() (admitted int) {
			actions := repeat(refundOf(t, "10", "c"), 40)
			for _, o := range f.checkAll(actions...) {
				if o.err == nil {
					admitted++
				} else if !errors.Is(o.err, hotpath.ErrRateLimited) {
					t.Errorf("unexpected: %s", o)
				}
			}
			return admitted
		}
		if n := burst(); n != 5 {
			t.Errorf("admitted %d of a limit of 5", n)
		}
		if n := burst(); n != 0 {
			t.Errorf("admitted %d more", n)
		}
		limit = 12
		if _, _, err := f.nodes[0].UpdateKey(context.Background(), audit.Actor{}, k.ID, audit.KeyChange{RateLimitRPM: &limit}); err != nil {
			t.Fatal(err)
		}
		more := 0
		for end := time.Now().Add(10 * time.Second); more < 7 && time.Now().Before(end); { // refunds go with a later batch
			more += burst()
		}
		if more += burst(); more != 7 {
			t.Errorf("admitted %d after the limit went from 5 to 12", more)
		}
	})
}
