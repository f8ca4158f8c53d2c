package hotpath_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"spendgate/audit"
	"spendgate/audit/spend"
	"spendgate/bench/must"
	"spendgate/hotpath"
)

// other returns nodes of another deployment on the same Redis.
func (f *fleet) other() *fleet {
	return &fleet{t: f.t, redis: f.redis, server: f.server, inProcess: f.inProcess, store: f.backend.store(f.t)}
}

// refusesAll expects a node that refuses checks and changes, and is not ready
// for a reason that names every one of want.
func (n *node) refusesAll(t *testing.T, want ...string) {
	t.Helper()
	err := n.guard.Ping(t.Context())
	for _, part := range want {
		if err == nil || !strings.Contains(err.Error(), part) {
			t.Errorf("ready: %v, want %q", err, part)
		}
	}
	if _, _, err := n.CreateKey(t.Context(), audit.Actor{}, hotpath.NewKey{Name: "refused", RateLimitRPM: 1}); !errors.Is(err,
		hotpath.ErrUnavailable) {
		t.Errorf("a key was made: %v", err)
	}
	action := refundOf(t, "1", "refused")
	if _, _, err := n.Check(t.Context(), hotpath.Request{Caller: hotpath.KeyCaller([]byte("any")), Started: time.Now()},
		&action); !errors.Is(err, hotpath.ErrUnavailable) {
		t.Errorf("a check: %v", err)
	}
}

// Two deployments on one Redis would take each other's epochs for lost ones.
// The second one refuses, until it has names of its own or the first is gone (F57).
func TestOtherDeployment(t *testing.T) {
	eachBackend(t, 1, func(t *testing.T, f *fleet) {
		f.check(0, refundOf(t, "1", "warm"))
		before := must.Get(f.store.Epoch(t.Context()))(t)
		own, _ := f.store.Deployment(t.Context())
		generation := f.redis.Get(t.Context(), "g:{0}").Val()
		o := f.other()
		theirs, _ := o.store.Deployment(t.Context())
		late := o.start(o.server, o.inProcess)
		for range 3 {
			late.refusesAll(t, own.Text(""), theirs.Text(""), "SPENDGATE_REDIS_KEY_PREFIX")
		}
		if after, err := f.store.Epoch(t.Context()); err != nil || after != before {
			t.Errorf("the epoch %x was replaced by %x, %v", before, after, err)
		}
		if got := f.redis.Get(t.Context(), "g:{0}").Val(); got != generation {
			t.Error("the other deployment changed the generation")
		}
		must.Check(t, f.nodes[0].guard.Ping(t.Context()))

		o.prefix = "other:"
		beside := o.start(o.server, o.inProcess)
		if err := beside.guard.Ping(t.Context()); err != nil {
			t.Errorf("with names of its own: %v", err)
		}
		if _, _, err := beside.CreateKey(t.Context(), audit.Actor{}, hotpath.NewKey{Name: "beside", RateLimitRPM: 1}); err != nil {
			t.Error(err)
		}
		names, err := f.redis.Keys(t.Context(), "other:?:{0}*").Result()
		if err != nil || len(names) < 2 {
			t.Errorf("its names are %q, %v", names, err)
		}
		if o := f.check(0, refundOf(t, "2", "beside")); !o.passed() {
			t.Error(o)
		}

		if err := f.redis.Del(t.Context(), "m:{0}").Err(); err != nil { // Redis is handed over
			t.Fatal(err)
		}
		must.Check(t, late.guard.Ping(t.Context()))
		f.nodes[0].refusesAll(t, own.Text(""), theirs.Text(""))
	})
}

// A node does not contest the windows of a newer one (F57).
func TestNewerFormat(t *testing.T) {
	eachBackend(t, 1, func(t *testing.T, f *fleet) {
		f.check(0, refundOf(t, "1", "warm"))
		known := f.redis.Get(t.Context(), "m:{0}").Val()
		const newer = "2|whatever|comes"
		must.Do(t, f.redis.Set(t.Context(), "m:{0}", newer, 0).Err())
		for range 3 {
			f.nodes[0].refusesAll(t, "newer format", "2, this node knows 1")
		}
		if got := f.redis.Get(t.Context(), "m:{0}").Val(); got != newer {
			t.Errorf("the marker became %q", got)
		}
		must.Do(t, f.redis.Set(t.Context(), "m:{0}", known, 0).Err())
		if o := f.check(0, refundOf(t, "2", "back")); !o.passed() {
			t.Error(o)
		}
	})
}

// A foreign value under a name in Redis costs one request at most (F56).
func TestSpoiltNames(t *testing.T) {
	for _, b := range backends(t) {
		test := func(t *testing.T) { spoiltNames(t, newFleet(t, b, 1)) }
		if b.name == "embedded" {
			test = inVirtualTime(test) // it reads the long values slowly
		}
		t.Run(b.name, func(t *testing.T) {
			t.Parallel()
			test(t)
		})
	}
}

func spoiltNames(t *testing.T, f *fleet) {
	ctx := context.Background()
	list := func(c redis.UniversalClient, name string) error {
		return errors.Join(c.Del(ctx, name).Err(), c.RPush(ctx, name, "x").Err())
	}
	set := func(value string) func(redis.UniversalClient, string) error {
		return func(c redis.UniversalClient, name string) error { return c.Set(ctx, name, value, 0).Err() }
	}
	const claim, counter = "claim", "counter"
	long := strings.Repeat("x", 1<<20+1) // a byte more than the service reads
	raw, _, err := f.nodes[0].CreateKey(ctx, audit.Actor{}, hotpath.NewKey{Name: "another", RateLimitRPM: 1000})
	must.Do(t, err)
	another := *f
	another.key = hotpath.KeyCaller([]byte(raw))
	for what, test := range map[string]struct {
		name  string
		spoil func(redis.UniversalClient, string) error
	}{
		"generation empty":     {"g:{0}", set("")},
		"generation list":      {"g:{0}", list},
		"marker empty":         {"m:{0}", set("")},
		"marker list":          {"m:{0}", list},
		"marker long":          {"m:{0}", set(long)},
		"claim list":           {claim, list},
		"claim garbage":        {claim, set("x")},
		"claim long":           {claim, set(long)},
		"counter list":         {counter, list},
		"counter garbage":      {counter, set("x")},
		"counter overflows":    {counter, set("9223372036854775807")},
		"counter of 19 digits": {counter, set("1000000000000000000")},
		"counter negative":     {counter, set("-1000000000000000000")},
	} {
		action := refundOf(t, "1", what)
		first := f.check(0, action)
		if !first.passed() {
			t.Fatalf("%s: %s", what, first)
		}
		name := test.name
		switch name {
		case claim:
			fingerprint := first.answer.Check.Fingerprint
			made := slices.DeleteFunc(f.claims(), func(one string) bool { return !strings.HasSuffix(one, string(fingerprint[:])) })
			if len(made) != 1 {
				t.Fatalf("%s: one check made the names %q", what, made)
			}
			name = made[0]
		case counter:
			name = "r:{0}:" + f.keyID.Text("")
		}
		must.Do(t, test.spoil(f.redis, name))
		f.mends(what, action, first)
		if o := another.check(0, refundOf(t, "2", what)); !o.passed() {
			t.Errorf("%s: another key: %s", what, o)
		}
		if err := f.nodes[0].guard.Ping(ctx); err != nil {
			t.Errorf("%s: %v", what, err)
		}
	}
}

// mends repeats a recorded action until it is answered: as a duplicate.
func (f *fleet) mends(what string, action spend.Action, first outcome) {
	f.t.Helper()
	for deadline := time.Now().Add(20 * time.Second); ; time.Sleep(100 * time.Millisecond) {
		o := f.check(0, action)
		if o.err == nil {
			if !o.names(first.answer.Check.ID.Text("chk_")) {
				f.t.Errorf("%s: after %s: %s", what, first, o)
			}
			return
		}
		if !errors.Is(o.err, hotpath.ErrUnavailable) || time.Now().After(deadline) {
			f.t.Fatalf("%s: %s", what, o)
		}
	}
}

// One caller's spoilt counter fails nobody else's check in the same batches.
func TestSpoiltCounterIsItsCallersAlone(t *testing.T) {
	eachBackend(t, 1, func(t *testing.T, f *fleet) {
		raw, spoilt, err := f.nodes[0].CreateKey(t.Context(), audit.Actor{}, hotpath.NewKey{Name: "spoilt", RateLimitRPM: 1000})
		must.Do(t, err)
		other := *f
		other.key = hotpath.KeyCaller([]byte(raw))
		spoils := 0
		defer meanwhile(func() {
			f.redis.Set(context.Background(), "r:{0}:"+spoilt.ID.Text(""), "1000000000000000000", 0)
			other.check(0, refundOf(t, "1", fmt.Sprint("spoilt", spoils)))
			spoils++
		})()
		for i := range 50 {
			if o := f.check(0, refundOf(t, "1", fmt.Sprint("other", i))); !o.passed() {
				t.Error(o)
			}
		}
	})
}

// redisUser may do what docs/operate/security.md says a node's user must be allowed.
const redisUser = "~*{0}* -@all +auth +hello +client|setname +info +time +ping +select +get +set +getrange +del +pttl +incrby +decrby " +
	"+pexpire +pexpiretime +eval +scan"

// A Redis user without the right to a command makes the node not ready, and the error names the
// command. A user with all rights suffices.
func TestRedisUser(t *testing.T) {
	for _, b := range backends(t) {
		if b.name == "embedded" {
			continue // has no users
		}
		f := &fleet{t: t, store: b.store(t)}
		o, _ := b.redis(t, f)
		f.redis = redis.NewUniversalClient(new(o))
		t.Cleanup(func() { _ = f.redis.Close() })
		o.Username, o.Password = "spendgate-test", "only for this test"
		allow := func(rules string) {
			t.Helper()
			args := []any{"acl", "setuser", o.Username, "reset", "on", ">" + o.Password}
			for rule := range strings.FieldsSeq(rules) {
				args = append(args, rule)
			}
			must.Do(t, f.redis.Do(t.Context(), args...).Err())
		}
		t.Cleanup(func() { f.redis.Do(context.Background(), "acl", "deluser", o.Username) })
		allow(redisUser)
		n := f.start(o, false)
		f.eventually("a user with what the page says will do", func() bool { return n.guard.Ping(t.Context()) == nil })
		for _, lacks := range []string{
			"set", "get", "getrange", "del", "pttl", "incrby", "decrby", "pexpire", "pexpiretime", "eval", "scan", "info", "time",
		} {
			allow(redisUser + " -" + lacks)
			if err := n.guard.Ping(t.Context()); err == nil || !strings.Contains(strings.ToUpper(err.Error()), strings.ToUpper(lacks)) {
				t.Errorf("without %s: %v", lacks, err)
			}
		}
		allow(strings.Replace(redisUser, "~*{0}*", "~m:{0}* ~g:{0}* ~k:{0}* ~r:{0}* ~l:{0}*", 1))
		if err := n.guard.Ping(t.Context()); err == nil || !strings.Contains(err.Error(), "NOPERM") {
			t.Errorf("without the names of fingerprints: %v", err)
		}
		allow(redisUser)
		f.eventually("a user with all of them will do", func() bool { return n.guard.Ping(t.Context()) == nil })
	}
}

// Nodes on two Redis name each other: the one that takes the epoch in its log, the one
// that lost it in the error of its checks, until it takes it back (F30).
func TestNodesOnTwoRedisNameEachOther(t *testing.T) {
	eachBackend(t, 1, func(t *testing.T, f *fleet) {
		if f.inProcess {
			t.Skip("no other node can use it")
		}
		f.check(0, refundOf(t, "1", "first"))
		log := new(lockedBuffer)
		f.prefix, f.log = "elsewhere:", log
		f.nodes = append(f.nodes, f.start(f.server, f.inProcess))
		if o := f.check(1, refundOf(t, "1", "second")); o.err != nil {
			t.Fatal(o)
		}
		names := func(i int) string { return f.nodes[i].guard.Node().Text("") }
		if want := " node=" + names(1) + " last_check_of_node=" + names(0); !strings.Contains(log.String(), want) {
			t.Errorf("no %q in\n%s", want, log)
		}
		o := f.check(0, refundOf(t, "1", "third"))
		if want := "the last check is of node " + names(1); o.err == nil || !strings.Contains(o.err.Error(), want) {
			t.Errorf("no %q in %v", want, o.err)
		}
	})
}
