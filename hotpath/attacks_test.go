package hotpath_test

import (
	"context"
	"crypto/sha256"
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
	"spendgate/hotpath/guard/embedded"
	"spendgate/ratelimit"
)

// Attacks on the protocol, each of which once succeeded. They control the clock, the network and
// the store, so they run on the embedded backends.

// The node's idea of Redis' time is old: a suspended machine, a stepped clock.
// A claim must not be born aged (F23).
func TestClaimIsStampedByRedisClock(t *testing.T) {
	inVirtualTime(func(t *testing.T) {
		f := newFleet(t, embeddedBackend(), 1)
		f.check(0, refundOf(t, "1", "warm"))
		f.mini.Advance(10 * time.Minute) // the node's own clock did not see it
		first, second := f.check(0, refundOf(t, "10", "c")), f.check(0, refundOf(t, "10", "c"))
		if !first.passed() || !second.duplicate() {
			t.Errorf("first %s\nsecond %s", first, second)
		}
	})(t)
}

// S17: windows are lazy, and a check under a short window succeeds one under a
// long window. Once loaded, the long one must still be seen (F22).
func TestLongWindowOutlivesLazySuccessor(t *testing.T) {
	inVirtualTime(func(t *testing.T) {
		f := newFleet(t, embeddedBackend(), 1)
		f.post(0, "long", guardRules(60))
		f.post(0, "short", guardRules(1))
		action := refundOf(t, "10", "c")
		a := f.check(0, under(action, "long"))
		f.mini.Advance(10 * time.Minute)
		gate := make(chan struct{})
		f.nodes[0].faults.pages = func() { <-gate }
		f.flush()
		b := f.check(0, under(action, "short")) // recorded while windows are lazy
		close(gate)
		time.Sleep(300 * time.Millisecond) // the loader
		f.mini.Advance(2 * time.Minute)
		c := f.check(0, under(action, "long"))
		if !a.passed() || !b.passed() || !c.duplicate() {
			t.Errorf("\nunder 60 minutes %s\nunder 1 minute %s\nunder 60 minutes %s", a, b, c)
		}
	})(t)
}

// G6: the reply to a batch of refunds is lost. Sent again, it would admit
// more than the limit (F25).
func TestRefundIsNotSentTwice(t *testing.T) {
	inVirtualTime(func(t *testing.T) {
		f := newFleet(t, embeddedBackend(), 1)
		o := f.mini.Options()
		p := newProxy(&o)
		far := f.start(o, true)
		raw, _, err := far.CreateKey(t.Context(), audit.Actor{}, hotpath.NewKey{Name: "limited", RateLimitRPM: 5})
		must.Do(t, err)
		burst := func(n *node) (admitted int) {
			var wg sync.WaitGroup
			var mu sync.Mutex
			for range 40 {
				wg.Go(func() {
					if _, _, err := n.Admit(t.Context(), hotpath.KeyCaller([]byte(raw)), 0, false); err == nil {
						mu.Lock()
						defer mu.Unlock()
						admitted++
					}
				})
			}
			wg.Wait()
			return admitted
		}
		p.delay.Store(int64(3 * time.Millisecond))
		refund := []byte("DECRBY")
		p.swallow.Store(&refund)
		admitted := burst(far)
		time.Sleep(500 * time.Millisecond)
		// Another node remembers no refusal.
		if admitted += burst(f.start(f.mini.Options(), true)); admitted > 5 {
			t.Errorf("admitted %d of a limit of 5 in one window", admitted)
		}
	})(t)
}

// The store keeps silent on a connection that is up: a change of the
// configuration, and a read without Redis, give up on it.
func TestSilentStoreIsGivenUp(t *testing.T) {
	inVirtualTime(func(t *testing.T) {
		f := newFleet(t, embeddedBackend(), 1)
		o := f.mini.Options()
		o.Addrs, o.Dialer = []string{"127.0.0.1:1"}, nil // nobody listens
		n := f.start(o, true)
		k := must.Get(spend.ParseID("key_01a1f958502270008001020304050607", spend.PrefixKey))(t)
		silent := func(ctx context.Context) error {
			if _, bounded := ctx.Deadline(); !bounded {
				return errTest
			}
			<-ctx.Done()
			return audit.ErrUnavailable
		}
		n.faults.keys = silent
		written := f.nodes[0] // goes silent once the change is stored
		f.check(0, refundOf(t, "1", "warm"))
		written.faults.epoch = silent
		ctx := context.Background()
		v := hotpath.NewVersion{Policy: &audit.Policy{PolicyID: "p", Rules: plainRules}}
		for name, call := range map[string]func() error{
			"policy": func() error {
				return n.CreatePolicy(ctx, hotpath.Access{}, audit.Actor{}, v)
			},
			"key": func() error {
				_, _, err := n.CreateKey(ctx, audit.Actor{}, hotpath.NewKey{Name: "k", RateLimitRPM: 1})
				return err
			},
			"change": func() error { _, _, err := n.UpdateKey(ctx, audit.Actor{}, k, audit.KeyChange{}); return err },
			"read":   func() error { _, _, err := n.Admit(ctx, f.key, 0, true); return err },
			"raise": func() error {
				return written.CreatePolicy(ctx, hotpath.Access{}, audit.Actor{}, v)
			},
		} {
			if err := call(); !errors.Is(err, audit.ErrUnavailable) || errors.Is(err, errTest) {
				t.Errorf("%s: %v", name, err)
			}
		}
	})(t)
}

// F12: the author of a change dies after its commit and tells nobody. The nodes
// find out by themselves, also if it is the first change of all.
func TestChangeOfADeadAuthorIsSeen(t *testing.T) {
	inVirtualTime(func(t *testing.T) {
		f, b := &fleet{t: t}, embeddedBackend()
		f.store = b.store(t)
		f.server, f.inProcess = b.redis(t, f)
		n, ctx := f.start(f.server, f.inProcess), context.Background()
		for _, raw := range []string{"svc_live_first", "svc_live_second"} {
			key := hotpath.KeyCaller([]byte(raw))
			admit := func() error { _, _, err := n.Admit(ctx, key, 0, false); return err }
			if err := admit(); !errors.Is(err, hotpath.ErrUnauthorized) {
				t.Fatalf("%s: %v", raw, err)
			}
			k := &audit.Key{
				ID: spend.NewID(time.Now()), Hash: sha256.Sum256([]byte(raw)), Name: raw, RateLimitRPM: 100, Active: true, CreatedAt: time.Now(),
			}
			must.Do(t, f.store.CreateKey(ctx, audit.Actor{}, k))
			for began := time.Now(); admit() != nil; time.Sleep(10 * time.Millisecond) {
				if time.Since(began) > 5*time.Second { // it looks every two
					t.Fatalf("%s is never known", raw)
				}
			}
		}
	})(t)
}

// G7, F10: the client retries at once after its 500, while the commit is still
// in progress. It is given the recorded answer, not called a duplicate.
func TestOrphanRetriedAtOnce(t *testing.T) {
	for retryOn := range 2 {
		t.Run(fmt.Sprint("node ", retryOn), inVirtualTime(func(t *testing.T) {
			f := newFleet(t, embeddedBackend(), 2)
			action := refundOf(t, "10", "c")
			held, release := f.nodes[0].holdCommit(nil)
			lost := f.check(0, action)
			<-held
			if !errors.Is(lost.err, hotpath.ErrUnavailable) {
				t.Fatalf("answered before its commit: %s", lost)
			}
			var retry outcome
			var wg sync.WaitGroup
			wg.Go(func() { retry = f.check(retryOn, action) })
			time.Sleep(100 * time.Millisecond)
			release()
			wg.Wait()
			if retry.err != nil || !retry.answer.Replayed {
				t.Errorf("the retry: %s", retry)
			}
		}))
	}
}

// G4 in a split brain: a policy is posted through the side that lost. It is
// answered only once the side that may commit sees it (F27).
func TestPolicyPostedThroughTheLosingSide(t *testing.T) {
	f := newFleet(t, embeddedBackend(), 1)
	f.check(0, refundOf(t, "1", "warm")) // node 0 lives on the old master
	promoted := must.Get(embedded.Start())(t)
	t.Cleanup(promoted.Close)
	f.nodes = append(f.nodes, f.start(promoted.Options(), true))
	f.check(1, refundOf(t, "2", "warm")) // node 1 on the promoted one
	p := &audit.Policy{PolicyID: "p", Name: "p", Rules: plainRules}
	if err := f.nodes[0].CreatePolicy(t.Context(), hotpath.Access{}, audit.Actor{}, hotpath.NewVersion{Policy: p}); err != nil {
		return // refused, which promises nothing
	}
	if o := f.check(1, refundOf(t, "10", "c")); o.err != nil || o.answer.Check.Decision.PolicyVersion < p.Version {
		t.Errorf("version %d was answered: %s", p.Version, o)
	}
}

// A replica was promoted and nobody has claimed there yet: its marker is the marker of
// the store's epoch, but another server's, where nodes may still read and
// commit. A policy that is posted counts there only in a new epoch (F27).
func TestPolicyPostedToPromotedReplica(t *testing.T) {
	const marker = "m:{0}"
	eachBackend(t, 1, func(t *testing.T, f *fleet) {
		f.check(0, refundOf(t, "1", "warm"))
		before := strings.Split(f.redis.Get(t.Context(), marker).Val(), "|")
		elsewhere := strings.Join([]string{before[0], before[1], before[2], "another", before[4]}, "|")
		must.Do(t, f.redis.Set(t.Context(), marker, elsewhere, 0).Err())
		f.post(0, "p", plainRules)
		if after := f.redis.Get(t.Context(), marker).Val(); strings.Contains(after, before[2]) {
			t.Errorf("a policy was posted on a server whose marker is %q", after)
		}
	})
}

// A check is counted, found to be judged by an old configuration, and admitted
// again before the policy is loaded. It counts as one request (G6).
func TestCountedOnceThoughThePolicyIsLoadedMeanwhile(t *testing.T) {
	f := newFleet(t, embeddedBackend(), 2)
	before := f.quota("a").Remaining
	f.post(1, "p", plainRules)
	if after := f.quota("b").Remaining; after != before-1 {
		t.Errorf("%d requests were left, then %d", before, after)
	}
	if after := f.quota("c").Remaining; after != before-2 {
		t.Errorf("%d requests were left, and after two more %d", before, after)
	}
}

// quota is what a check that passes leaves.
func (f *fleet) quota(counterparty string) ratelimit.Quota {
	f.t.Helper()
	action := refundOf(f.t, "1", counterparty)
	_, q, err := f.nodes[0].Check(f.t.Context(), hotpath.Request{Caller: f.key, ID: "req_000000000000", Started: time.Now()}, &action)
	must.Do(f.t, err)
	return q
}

// F138: after each epoch that ends without a loss, as at a failover, Redis has one copy of the windows: names of ended
// epochs are removed, and those of other deployments stay.
func TestEndedEpochsLeaveNoNames(t *testing.T) {
	eachBackend(t, 2, func(t *testing.T, f *fleet) {
		const passes, epochs = 40, 3
		for i := range passes {
			f.check(i%2, keyed(refundOf(t, "1", fmt.Sprint("c-", i)), fmt.Sprint("k-", i)))
		}
		old := strings.Split(f.redis.Get(t.Context(), "m:{0}").Val(), "|")[2]
		others := []string{"other:f:{0}:" + old + ":x", "f:{0}:not an epoch:x"}
		for _, name := range others {
			must.Do(t, f.redis.Set(t.Context(), name, "1", 0).Err())
		}
		for i := range epochs {
			must.Do(t, f.redis.Del(t.Context(), "m:{0}").Err())
			if o := f.check(i%2, refundOf(t, "2", fmt.Sprint("e-", i))); !o.passed() {
				t.Fatal(o)
			}
			f.eventually("the windows are loaded", func() bool { return strings.HasSuffix(f.redis.Get(t.Context(), "m:{0}").Val(), "|full") })
		}
		names := f.claims()
		if want := passes + epochs + 1; len(names) != want {
			t.Errorf("%d names after %d epochs, want %d: %q", len(names), epochs, want, names)
		}
		if n := f.redis.Exists(t.Context(), others...).Val(); n != int64(len(others)) {
			t.Errorf("%d of %d names that are no claims of this deployment are left", n, len(others))
		}
		if o := f.check(0, refundOf(t, "1", "c-0")); !o.duplicate() {
			t.Errorf("the window of an earlier epoch: %s", o)
		}
	})
}
