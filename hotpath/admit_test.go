package hotpath_test

import (
	"errors"
	"fmt"
	"sync/atomic"
	"testing"

	"spendgate/audit"
	"spendgate/bench/must"
	"spendgate/hotpath"
)

// A caller over its limit costs the store nothing, whatever policies it names;
// and a policy that was just created is found at once, also by a caller who was
// told that it does not exist (G4).
func TestRateLimitShieldsTheStore(t *testing.T) {
	eachBackend(t, 2, func(t *testing.T, f *fleet) {
		var read atomic.Int64
		for _, n := range f.nodes {
			n.faults.policy = func() error { read.Add(1); return nil }
		}
		const limit = 3
		raw, _, err := f.nodes[0].CreateKey(t.Context(), audit.Actor{}, hotpath.NewKey{Name: "limited", RateLimitRPM: limit})
		must.Do(t, err)
		test := f.key
		f.key = hotpath.KeyCaller([]byte(raw))
		for i := range 4 * limit {
			want := hotpath.ErrPolicyNotFound
			if i >= limit {
				want = hotpath.ErrRateLimited
			}
			if o := f.check(i%2, under(refundOf(t, "1", "c"), fmt.Sprint("unknown-", i))); !errors.Is(o.err, want) {
				t.Errorf("check %d: %s, want %v", i, o, want)
			}
		}
		if n := read.Load(); n != limit {
			t.Errorf("the store was asked for %d policies by a caller with %d requests", n, limit)
		}
		f.key = test
		f.post(0, "unknown-0", plainRules)
		if o := f.check(1, under(refundOf(t, "1", "c"), "unknown-0")); !o.passed() {
			t.Errorf("a policy that was just created: %s", o)
		}
	})
}

// Authenticate refuses whom it should, and takes a key that another node made
// just now, or that was changed since; it counts nothing.
func TestAuthenticate(t *testing.T) {
	eachBackend(t, 2, func(t *testing.T, f *fleet) {
		ctx := t.Context()
		raw, k, err := f.nodes[0].CreateKey(ctx, audit.Actor{}, hotpath.NewKey{Name: "one a minute", RateLimitRPM: 1})
		must.Do(t, err)
		c := hotpath.KeyCaller([]byte(raw))
		for range 3 {
			must.Get(f.nodes[1].Authenticate(ctx, c))(t)
		}
		if _, _, err := f.nodes[1].Admit(ctx, c, 0, false); err != nil {
			t.Errorf("its one request: %v", err)
		}
		if _, _, err := f.nodes[0].UpdateKey(ctx, audit.Actor{}, k.ID, audit.KeyChange{Active: new(false)}); err != nil {
			t.Fatal(err)
		}
		for name, refused := range map[string]struct {
			caller hotpath.Caller
			want   error
		}{
			"deactivated": {c, hotpath.ErrKeyInactive},
			"unknown":     {hotpath.KeyCaller([]byte("svc_live_unknown")), hotpath.ErrUnauthorized},
			"missing":     {hotpath.KeyCaller(nil), hotpath.ErrUnauthorized},
		} {
			if _, err := f.nodes[0].Authenticate(ctx, refused.caller); !errors.Is(err, refused.want) {
				t.Errorf("%s: %v, want %v", name, err, refused.want)
			}
		}
		if _, _, err := f.nodes[0].UpdateKey(ctx, audit.Actor{}, k.ID, audit.KeyChange{Active: new(true)}); err != nil {
			t.Fatal(err)
		}
		if _, err := f.nodes[0].Authenticate(ctx, c); err != nil {
			t.Errorf("active again: %v", err)
		}
	})
}
