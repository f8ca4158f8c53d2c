package hotpath_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"spendgate/audit"
	"spendgate/audit/spend"
	"spendgate/bench/must"
	"spendgate/hotpath"
)

// lastUsed is what the store knows of the key.
func (f *fleet) lastUsed(id spend.ID) time.Time {
	f.t.Helper()
	keys := must.Get(f.store.ListKeys(context.Background(), spend.ID{}, 100))(f.t)
	for _, k := range keys.Keys {
		if k.ID == id {
			return k.LastUsedAt
		}
	}
	f.t.Fatal("the key is not listed")
	return time.Time{}
}

// Every check that a key lets in is a use of it, and so is a policy. A refused request is no use,
// and reads and simulations write nothing (G10). The store is told afterwards, and the generation
// stays.
func TestLastUseOfKeys(t *testing.T) {
	eachBackend(t, 1, func(t *testing.T, f *fleet) {
		ctx := context.Background()
		f.noteUsesEvery = 10 * time.Millisecond
		f.nodes = []*node{f.start(f.server, f.inProcess), f.start(f.server, f.inProcess)}
		request := func() hotpath.Request {
			return hotpath.Request{Caller: f.key, ID: "req_000000000000", Started: time.Now()}
		}
		admin := f.nodes[0]
		if o := f.check(0, refundOf(t, "9", "c")); !o.passed() { // the window is open
			t.Fatal(o)
		}
		for name, use := range map[string]func() error{
			"check":     func() error { return f.check(0, refundOf(t, "1", "c")).err },
			"duplicate": func() error { return f.check(1, refundOf(t, "1", "c")).err },
			"policy": func() error {
				access, _, err := f.nodes[0].Admit(ctx, f.key, 0, false)
				if err != nil {
					return err
				}
				v := hotpath.NewVersion{Policy: &audit.Policy{PolicyID: "p", Name: "p", Rules: plainRules}}
				return f.nodes[0].CreatePolicy(ctx, access, audit.Actor{}, v)
			},
			"refused by the limit": func() error {
				a := refundOf(t, "1", "c")
				if _, _, err := f.nodes[0].UpdateKey(ctx, audit.Actor{}, f.keyID, audit.KeyChange{RateLimitRPM: new(1)}); err != nil {
					return err
				}
				change := audit.KeyChange{RateLimitRPM: new(10000)}
				defer f.nodes[0].UpdateKey(ctx, audit.Actor{}, f.keyID, change) //nolint:errcheck // the next use would fail
				if err := f.check(1, a).err; !errors.Is(err, hotpath.ErrRateLimited) {
					return fmt.Errorf("answered %w", err)
				}
				return nil
			},
			"no policy": func() error {
				a := refundOf(t, "1", "c")
				a.PolicyID = "none"
				if err := f.check(0, a).err; !errors.Is(err, hotpath.ErrPolicyNotFound) {
					return err
				}
				return nil
			},
		} {
			time.Sleep(2 * time.Millisecond) // uses differ by milliseconds
			from := time.Now().Truncate(time.Millisecond)
			if err := use(); err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			to := time.Now()
			f.eventually(name+" is noted", func() bool { return !f.lastUsed(f.keyID).Before(from) })
			if at := f.lastUsed(f.keyID); at.After(to) {
				t.Errorf("%s: used at %v, after it ended at %v", name, at, to)
			}
		}
		// A changed record is another in memory, and its uses are still noted.
		if _, _, err := admin.UpdateKey(ctx, audit.Actor{}, f.keyID, audit.KeyChange{Name: new("renamed")}); err != nil {
			t.Fatal(err)
		}
		from := time.Now().Truncate(time.Millisecond)
		if o := f.check(0, refundOf(t, "2", "c")); !o.passed() {
			t.Fatal(o)
		}
		f.eventually("a use after a change is noted", func() bool { return !f.lastUsed(f.keyID).Before(from) })

		// A check may note its use twice: when it is admitted, and when it claimed.
		var last time.Time
		f.eventually("all uses are noted", func() bool {
			before := last
			last = f.lastUsed(f.keyID)
			time.Sleep(20 * f.noteUsesEvery)
			return last.Equal(before)
		})
		for n := range f.nodes {
			for _, read := range []bool{true, false} { // also of a body that is refused then
				if _, _, err := f.nodes[n].Admit(ctx, f.key, 0, read); err != nil {
					t.Fatal(err)
				}
			}
			if _, _, err := f.nodes[n].Simulate(ctx, request(), "p", nil); err != nil {
				t.Fatal(err)
			}
		}
		if _, _, err := admin.UpdateKey(ctx, audit.Actor{}, f.keyID, audit.KeyChange{Active: new(false)}); err != nil {
			t.Fatal(err)
		}
		for n := range f.nodes {
			if o := f.check(n, refundOf(t, "3", "c")); !errors.Is(o.err, hotpath.ErrKeyInactive) {
				t.Fatal(o)
			}
			if _, _, err := f.nodes[n].Admit(ctx, f.key, 0, true); !errors.Is(err, hotpath.ErrKeyInactive) {
				t.Fatal(err)
			}
			f.nodes[n].close()
		}
		if at := f.lastUsed(f.keyID); at != last {
			t.Errorf("a read, a simulation or a refused request moved the last use from %v to %v", last, at)
		}
	})
}

// Uses since the last note are noted at a clean stop.
func TestLastUseAtTheEnd(t *testing.T) {
	eachBackend(t, 1, func(t *testing.T, f *fleet) {
		if o := f.check(0, refundOf(t, "1", "c")); !o.passed() {
			t.Fatal(o)
		}
		if at := f.lastUsed(f.keyID); !at.IsZero() {
			t.Errorf("noted at once, at %v", at)
		}
		// The configuration is loaded anew in between.
		if _, _, err := f.nodes[0].UpdateKey(context.Background(), audit.Actor{}, f.keyID, audit.KeyChange{Name: new("renamed")}); err != nil {
			t.Fatal(err)
		}
		if _, _, err := f.nodes[0].Admit(context.Background(), hotpath.KeyCaller([]byte("unknown")), 0, true); !errors.Is(err,
			hotpath.ErrUnauthorized) {
			t.Fatal(err)
		}
		f.nodes[0].close()
		if f.lastUsed(f.keyID).IsZero() {
			t.Error("not noted at the end")
		}
	})
}
