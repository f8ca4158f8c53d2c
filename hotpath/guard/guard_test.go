package guard

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"spendgate/audit"
	"spendgate/audit/spend"
	"spendgate/bench/must"
	"spendgate/hotpath/pipeline"
	"spendgate/ratelimit"
)

// F6: a request whose names were made for an epoch that is over by the time it is
// sent must not pass for one of the epoch in force.
func TestRequestOfAnOlderEpochIsVoid(t *testing.T) {
	inVirtualTime(t, func(t *testing.T) {
		g, _ := newLoadable(t)
		lost := func(windows marker) bool {
			var r request
			return must.Get(g.send(&r, windows))(t)
		}
		if lost(*g.windows.Load()) {
			t.Error("a request of the epoch in force is void")
		}
		if !lost(marker{epoch: spend.NewID(time.Now()), server: "embedded", full: true}) {
			t.Error("a request of an older epoch is not void")
		}
	})
}

// If the epoch was lazy when the names were made, it stays lazy for the request, even if the loader
// finished meanwhile: the loader may have passed before the claim.
func TestRequestStaysLazy(t *testing.T) {
	inVirtualTime(t, func(t *testing.T) {
		g, _ := newLoadable(t)
		for deadline := time.Now().Add(time.Minute); !g.windows.Load().full; time.Sleep(time.Millisecond) {
			if time.Now().After(deadline) {
				t.Fatal("windows are never loaded")
			}
		}
		lazy := *g.windows.Load()
		lazy.full = false
		var r request
		if lost, err := g.send(&r, lazy); err != nil || lost || r.reading.windows.full {
			t.Errorf("lost %t, full %t, %v", lost, r.reading.windows.full, err)
		}
	})
}

// The loader meets a stale claim under a live pass's name, which is
// released before the pass can take its place. The name is free, so the
// windows are not full yet.
func TestReleasedClaimIsContestedAgain(t *testing.T) {
	inVirtualTime(t, func(t *testing.T) {
		g, server := newLoadable(t)
		now := time.Now()
		pass := audit.LivePass{CheckID: spend.NewID(now), Pass: spend.Pass{ClaimedMS: now.UnixMilli(), UntilMS: now.Add(time.Hour).UnixMilli()}}
		stale := holder{state: pending, node: *g.node.Load(), check: spend.NewID(now), claimedMS: 1}.String()
		m := *g.windows.Load()
		name := fingerprintName(m.epoch, pass.Fingerprint)
		l := loading{g, server, m}
		if resolved, err := l.resolveContested(t.Context(), pass, stale, now); err != nil || resolved {
			t.Errorf("a free name: resolved %t, %v", resolved, err)
		}
		must.Do(t, server.Set(t.Context(), name, stale, time.Hour).Err())
		if resolved, err := l.resolveContested(t.Context(), pass, stale, now); err != nil || !resolved {
			t.Errorf("a stale claim: resolved %t, %v", resolved, err)
		}
		if held := server.Get(t.Context(), name).Val(); held != passHolder(pass).String() {
			t.Errorf("the name holds %q", held)
		}
	})
}

// F138: a node whose epoch is over removes and loads nothing, since what it takes for ended is another's. A Redis without room
// for the loader's lease gets room.
func TestNamesOfEndedEpochsAreRemoved(t *testing.T) {
	inVirtualTime(t, func(t *testing.T) {
		g, server := newLoadable(t)
		m := *g.windows.Load()
		over := m
		over.epoch = spend.NewID(time.Now())
		name := fingerprintName(over.epoch, spend.Hash{1})
		left := func() int64 {
			t.Helper()
			return server.Exists(t.Context(), name).Val()
		}
		must.Do(t, server.Set(t.Context(), name, 1, 0).Err())
		late := over
		late.epoch = spend.NewID(time.Now())
		if _, err := g.removeEnded(t.Context(), server, late); !errors.Is(err, errEpochOver) || left() != 1 {
			t.Errorf("a node whose epoch is over: %v, %d names are left", err, left())
		}
		pass := audit.LivePass{CheckID: spend.NewID(time.Now()), Pass: spend.Pass{UntilMS: time.Now().Add(time.Hour).UnixMilli()}}
		if _, err := (&loading{g, server, late}).loadPasses(t.Context(), []audit.LivePass{pass}); !errors.Is(err, errEpochOver) {
			t.Errorf("a loader whose epoch is over: %v", err)
		}
		server.AddHook(full{})
		if err := g.loadWindows(t.Context(), *g.windows.Load()); !redis.IsOOMError(err) || left() != 0 {
			t.Errorf("without room: %v, %d names are left", err, left())
		}
	})
}

// full is a Redis that has no room for a value that SET NX would add.
type full struct{}

func (full) DialHook(next redis.DialHook) redis.DialHook { return next }

func (full) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

func (full) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		if cmd.Name() == "set" {
			cmd.SetErr(fmt.Errorf("OOM command %s not allowed", cmd.Name()))
			return cmd.Err()
		}
		return next(ctx, cmd)
	}
}

// Of two live passes of one fingerprint the newer one holds the name in the
// end, also if the older one came in while the newer one's name was contested.
func TestNewerPassHoldsTheName(t *testing.T) {
	inVirtualTime(t, func(t *testing.T) {
		g, server := newLoadable(t)
		m, now := *g.windows.Load(), time.Now()
		pass := func(ago time.Duration) audit.LivePass {
			at := now.Add(-ago)
			return audit.LivePass{CheckID: spend.NewID(at), Pass: spend.Pass{ClaimedMS: at.UnixMilli(), UntilMS: now.Add(time.Hour).UnixMilli()}}
		}
		older, newer := pass(time.Minute), pass(time.Second)
		for _, passes := range [][]audit.LivePass{{older, newer}, {newer, older}} {
			must.Do(t, server.Del(t.Context(), fingerprintName(m.epoch, newer.Fingerprint)).Err())
			for _, p := range passes {
				if left, err := (&loading{g, server, m}).loadPasses(t.Context(), []audit.LivePass{p}); err != nil || len(left) > 0 {
					t.Errorf("%v, %v", left, err)
				}
			}
			if held := server.Get(t.Context(), fingerprintName(m.epoch, newer.Fingerprint)).Val(); held != passHolder(newer).String() {
				t.Errorf("the name holds %q", held)
			}
		}
	})
}

// A name that is free answers the loader's SET with nil, which go-redis
// calls an error, and tells instead of the refusals behind it.
func TestRefusedWindowIsNotLoaded(t *testing.T) {
	inVirtualTime(t, func(t *testing.T) {
		g, server := newLoadable(t)
		m, now := *g.windows.Load(), time.Now()
		passes := make([]audit.LivePass, 2)
		for i := range passes {
			passes[i] = audit.LivePass{
				Fingerprint: spend.Hash{byte(i)}, CheckID: spend.NewID(now),
				Pass: spend.Pass{ClaimedMS: now.UnixMilli(), UntilMS: now.Add(time.Hour).UnixMilli()},
			}
		}
		must.Do(t, server.RPush(t.Context(), fingerprintName(m.epoch, passes[1].Fingerprint), "not a claim").Err())
		if left, err := (&loading{g, server, m}).loadPasses(t.Context(), passes); err == nil {
			t.Errorf("a window that Redis refused counts as loaded; contested: %v", left)
		}
	})
}

// A check that Redis refused in part leaves no claim behind (G7).
func TestHalfRefusedCheckLeavesNoClaim(t *testing.T) {
	inVirtualTime(t, func(t *testing.T) {
		g, server := newLoadable(t)
		at := Attempt{Fingerprint: spend.Hash{1}, KeyHash: spend.Hash{2}, Window: time.Hour, Deadline: time.Now().Add(time.Second)}
		epoch := g.windows.Load().epoch
		must.Do(t, server.RPush(t.Context(), fingerprintName(epoch, at.Fingerprint), "not a claim").Err())
		if _, err := g.Claim(t.Context(), &at); !errors.Is(err, ErrUnavailable) {
			t.Fatalf("a refused claim: %v", err)
		}
		key := keyName(epoch, at.KeyHash)
		for deadline := time.Now().Add(staleAfter / 2); server.Exists(t.Context(), key).Val() > 0; time.Sleep(time.Millisecond) {
			if time.Now().After(deadline) {
				t.Fatalf("the idempotency key is still claimed: %s", server.Get(t.Context(), key).Val())
			}
		}
	})
}

// F15: a request that this node knows to be over its limit asks for the
// generation alone. Each claim would have to be released again.
func TestRefusedFromMemoryClaimsNothing(t *testing.T) {
	inVirtualTime(t, func(t *testing.T) {
		g, server := newLoadable(t)
		hit := ratelimit.Hit{Key: "r:{0}:k", Limit: 1}
		for i, want := range []Kind{Pass, Limited, Limited} {
			at := Attempt{Fingerprint: spend.Hash{byte(i)}, Window: time.Hour, Hit: hit, Deadline: time.Now().Add(time.Second)}
			if out, err := g.Claim(t.Context(), &at); err != nil || out.Kind != want {
				t.Fatalf("claim %d: %v, not %v, %v", i, out.Kind, want, err)
			}
		}
		r := pipeline.Request{
			Hit: hit, Sets: [2]pipeline.Set{{Name: "k", Value: "v", Life: time.Hour}, {Name: "f", Value: "v", Life: time.Hour}},
		}
		if err := g.redis.Do(&r); err != nil || r.Counted {
			t.Fatalf("counted %t, %v", r.Counted, err)
		}
		if n := server.Exists(t.Context(), "k", "f").Val(); n > 0 {
			t.Errorf("%d claims of a request that is refused from memory", n)
		}
	})
}

// S17: ages are measured on Redis' clock, whose reading in a slow round trip is known only to lie
// between two moments. A pass that may be within the window makes a duplicate (F49).
func TestAgeIsNotGuessedTooHigh(t *testing.T) {
	inVirtualTime(t, func(t *testing.T) {
		const slow = 200 * time.Millisecond
		var delay atomic.Int64
		g := newSlowGuard(t, &delay)
		for _, d := range []time.Duration{0, slow} {
			delay.Store(int64(d))
			must.Get(g.Ask(t.Context(), ratelimit.Hit{}))(t)
		}
		delay.Store(0)
		if between := g.redis.Latest().Sub(g.redis.Earliest()); between < slow {
			t.Errorf("Redis' time is taken to be known to %s", between)
		}
		at := Attempt{Fingerprint: spend.Hash{1}, Window: time.Minute, Deadline: time.Now().Add(time.Second)}
		now := time.Now()
		h := holder{state: committed, node: spend.NewID(now), check: spend.NewID(now), claimedMS: g.redis.Earliest().Add(-at.Window + slow/2).
			UnixMilli()}
		at.fence.Epoch = g.windows.Load().epoch
		at.fingerprint.name = fingerprintName(at.fence.Epoch, at.Fingerprint)
		server := must.Get(g.redis.Master(t.Context()))(t)
		must.Do(t, server.Set(t.Context(), at.fingerprint.name, h.String(), time.Hour).Err())
		if s, err := g.meetRecorded(t.Context(), &at, h); err != nil || s.result.Kind != Duplicate {
			t.Errorf("an action within the window: %+v, %v", s, err)
		}
	})
}

// A check whose client got a 500 is not recorded in the end. Its mark as an
// orphan may come to Redis before the release or after it (G7).
func TestMarkedClaimIsReleased(t *testing.T) {
	inVirtualTime(t, func(t *testing.T) {
		for _, late := range []bool{false, true} {
			g, server := newLoadable(t)
			h := holder{state: pending, node: spend.NewID(time.Now()), check: spend.NewID(time.Now()), claimedMS: time.Now().UnixMilli()}
			name := fingerprintName(g.windows.Load().epoch, spend.Hash{1})
			must.Do(t, server.Set(t.Context(), name, h.String(), time.Millisecond*900).Err())
			at := Attempt{fingerprint: claim{mine: true, name: name, unmarked: h.String(), value: h.as(orphan).String()}}
			if late {
				g.Release(&at)
				g.redis.SwapLater(markOrphan(name, h))
			} else {
				g.redis.SwapLater(markOrphan(name, h))
				g.Release(&at)
			}
			must.Get(g.Ask(t.Context(), ratelimit.Hit{}))(t)
			if held := server.Get(t.Context(), name).Val(); held != "" {
				t.Errorf("marked late %t: still claimed: %s", late, held)
			}
		}
	})
}

func TestValuesRoundTrip(t *testing.T) {
	h := holder{state: pending, node: spend.NewID(time.Now()), check: spend.NewID(time.Now()), claimedMS: 1795226469123}
	if got, err := parseHolder(h.String()); err != nil || got != h {
		t.Errorf("%q: %+v, %v", h, got, err)
	}
	m := marker{deployment: h.check, epoch: h.node, server: "abc", full: true}
	if got, err := parseMarker(m.String()); got != m || err != nil {
		t.Errorf("%q: %+v, %v", m, got, err)
	}
	for _, text := range []string{"", "P", "P|", "X|" + h.String()[2:], h.String() + "|1", "P|a|b|c", "lazy", "a|b|lazy", "|||"} {
		if _, err := parseHolder(text); err == nil {
			t.Errorf("%q is a holder", text)
		}
		if m, err := parseMarker(text); m != (marker{}) || err != nil {
			t.Errorf("%q is a marker", text)
		}
	}
}

func FuzzParseHolder(f *testing.F) {
	f.Add("P|01a1fbd5194870db84b7e3f3081de164|01a1fbd5194870db84b7e3f3081de164|1795226469123")
	f.Add("C|00000000000000000000000000000000|01a1fbd5194870db84b7e3f3081de164|-1")
	f.Add("")
	f.Fuzz(func(t *testing.T, s string) {
		h, err := parseHolder(s)
		if err != nil {
			return
		}
		if again, err := parseHolder(h.String()); err != nil || again != h {
			t.Errorf("%q does not round-trip", s)
		}
	})
}

// A waiter is answered by a question that began after it asked.
func TestLookupAnswersAreFresh(t *testing.T) {
	asked, answer := make(chan []int), make(chan map[int]string)
	l := NewLookup(func(_ context.Context, keys []int) (map[int]string, error) {
		asked <- keys
		return <-answer, nil
	})
	get := func() chan string {
		got := make(chan string, 1)
		go func() {
			v, ok, err := l.Get(t.Context(), 1)
			if !ok || err != nil {
				v = "absent"
			}
			got <- v
		}()
		return got
	}
	first := get()
	<-asked
	second := get() // while the first question is in progress
	answer <- nil
	if v := <-first; v != "absent" {
		t.Errorf("first: %s", v)
	}
	<-asked
	answer <- map[int]string{1: "there"}
	if v := <-second; v != "there" {
		t.Errorf("second: %s", v)
	}
}
