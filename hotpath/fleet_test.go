package hotpath_test

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/redis/go-redis/v9"

	"spendgate/audit"
	"spendgate/audit/commit"
	"spendgate/audit/postgres"
	"spendgate/audit/spend"
	"spendgate/audit/sqlite"
	servers "spendgate/bench/fleet"
	"spendgate/bench/must"
	"spendgate/hotpath"
	"spendgate/hotpath/guard"
	"spendgate/hotpath/guard/embedded"
)

// fleet is some nodes over one Redis and one store, wired as the commands do.
type fleet struct {
	t       *testing.T
	backend backend
	redis   redis.UniversalClient // behind the nodes' backs
	mini    *embedded.Redis       // nil on a real Redis
	store   audit.Store
	nodes   []*node
	key     hotpath.Caller
	keyID   spend.ID

	server        redis.UniversalOptions
	inProcess     bool
	log           io.Writer        // of nodes that start; nil for none
	prefix        string           // of the names of the nodes to start
	noteUsesEvery time.Duration    // of the nodes to start
	now           func() time.Time // of the nodes to start; nil is time.Now
}

// node is one Authorizer with a store that can be made to fail.
type node struct {
	*hotpath.Authorizer
	faults  *faultyStore
	guard   *guard.Guard
	writer  *commit.Writer
	metrics *prometheus.Registry
	close   func()
}

const plainRules = `[{"rule_id":"cap","rule_type":"max_amount","parameters":{"limit":500}}]`

// newFleet starts nodes on the embedded backends, with one key and the policy
// "p" of a single cap of 500.
func newFleet(t *testing.T, b backend, nodes int) *fleet {
	t.Helper()
	f := &fleet{t: t, backend: b}
	f.store = b.store(t)
	f.server, f.inProcess = b.redis(t, f)
	f.redis = redis.NewUniversalClient(&f.server)
	t.Cleanup(func() { _ = f.redis.Close() })
	for range nodes {
		f.nodes = append(f.nodes, f.start(f.server, f.inProcess))
	}
	f.eventually("the windows begin", func() bool { return f.nodes[0].guard.Ping(t.Context()) == nil })
	raw, k, err := f.nodes[0].CreateKey(context.Background(), audit.Actor{}, hotpath.NewKey{Name: "test", RateLimitRPM: 10000})
	must.Do(t, err)
	f.key, f.keyID = hotpath.KeyCaller([]byte(raw)), k.ID
	f.post(0, "p", plainRules)
	return f
}

func (f *fleet) start(o redis.UniversalOptions, inProcess bool) *node {
	log := slog.New(slog.NewTextHandler(io.Discard, nil))
	if testing.Verbose() {
		log = slog.New(slog.NewTextHandler(f.t.Output(), nil))
	}
	if f.log != nil {
		log = slog.New(slog.NewTextHandler(f.log, nil))
	}
	reg := prometheus.NewRegistry()
	n := &node{faults: &faultyStore{Store: f.store}, metrics: reg}
	now := time.Now
	if f.now != nil {
		now = f.now
	}
	n.guard = guard.New(guard.Options{
		Redis: o, KeyPrefix: f.prefix, Embedded: inProcess, Store: n.faults, Logger: log, Registerer: reg,
	})
	n.writer = commit.NewWriter(commit.Options{
		Trail: n.faults, Capacity: 1024, Fence: n.guard.Fence, Retire: n.guard.Retire, Logger: log, Registerer: reg,
	})
	n.Authorizer = hotpath.New(hotpath.Components{
		Guard: n.guard, Writer: n.writer, Store: n.faults, Logger: log, Registerer: reg, Now: now,
		NoteUsesEvery: f.noteUsesEvery,
	})
	n.close = sync.OnceFunc(func() {
		n.writer.Close()
		n.Authorizer.Close()
		_ = n.guard.Close()
	})
	f.t.Cleanup(n.close)
	return n
}

func (f *fleet) post(node int, policyID, rules string, drop ...string) int {
	f.t.Helper()
	p := &audit.Policy{PolicyID: policyID, Name: policyID, Rules: rules}
	v := hotpath.NewVersion{Policy: p, Drop: drop}
	must.Do(f.t, f.nodes[node].CreatePolicy(context.Background(), hotpath.Access{}, audit.Actor{}, v))
	return p.Version
}

// outcome is what a client would see of one check.
type outcome struct {
	answer  hotpath.Answer
	err     error
	request string // its ID
}

func (o outcome) String() string {
	if o.err != nil {
		return o.err.Error()
	}
	return fmt.Sprintf("%s %s %s replayed=%t", o.answer.Check.ID.Text("chk_"), o.answer.Check.Decision.Effect, o.answer.Check.Decision.Message,
		o.answer.Replayed)
}

func (o outcome) passed() bool {
	return o.err == nil && !o.answer.Replayed && o.answer.Check.Decision.Reason != spend.ReasonDuplicate
}

func (o outcome) duplicate() bool {
	return o.err == nil && o.answer.Check.Decision.Reason == spend.ReasonDuplicate
}

// names reports whether the outcome is a duplicate of that check.
func (o outcome) names(id string) bool {
	return o.duplicate() && strings.Contains(o.answer.Check.Decision.Message, id)
}

func (f *fleet) check(node int, action spend.Action) outcome { return f.checkBy(f.key, node, action) }

func (f *fleet) checkBy(caller hotpath.Caller, node int, action spend.Action) outcome {
	q := hotpath.Request{Caller: caller, ID: fmt.Sprintf("req_%012x", rand.Uint64()>>16), Started: time.Now()}
	answer, _, err := f.nodes[node].Check(context.Background(), q, &action)
	return outcome{answer, err, q.ID}
}

// checkAll sends the actions at once, in turn to each node.
func (f *fleet) checkAll(actions ...spend.Action) []outcome {
	outcomes := make([]outcome, len(actions))
	var wg sync.WaitGroup
	for i, a := range actions {
		wg.Go(func() { outcomes[i] = f.check(i%len(f.nodes), a) })
	}
	wg.Wait()
	return outcomes
}

// recorded looks a check up as a reader would.
func (f *fleet) recorded(id spend.ID) *spend.Check {
	f.t.Helper()
	checks := must.Get(f.store.Checks(context.Background(), []spend.ID{id}))(f.t)
	if len(checks) == 0 {
		return nil
	}
	return checks[0]
}

// passes counts what the trail holds of an action's passes.
func (f *fleet) passes(a spend.Action) (n int) {
	f.t.Helper()
	all := must.Get(f.store.PagePasses(context.Background(), spend.ID{}, 0, 100000))(f.t)
	for _, p := range all {
		if p.Fingerprint == spend.FingerprintOf(&a, a.Type) {
			n++
		}
	}
	return n
}

// claims are the names of the fingerprints and keys that Redis holds.
func (f *fleet) claims() []string {
	f.t.Helper()
	var all []string
	for _, pattern := range []string{"f:*", "k:*"} {
		names := must.Get(f.redis.Keys(context.Background(), pattern).Result())(f.t)
		all = append(all, names...)
	}
	return all
}

// eventually polls for what happens behind an answer. It is given up well
// before a stale claim would be taken over.
func (f *fleet) eventually(what string, done func() bool) {
	f.t.Helper()
	for deadline := time.Now().Add(10 * time.Second); time.Now().Before(deadline); time.Sleep(10 * time.Millisecond) {
		if done() {
			return
		}
	}
	f.t.Errorf("never: %s", what)
}

func (f *fleet) flush() {
	f.t.Helper()
	must.Do(f.t, f.redis.FlushDB(context.Background()).Err())
}

// holdCommit stops the node's next commit before the store sees it: held is
// closed when it is there, release lets it go on or fail.
func (n *node) holdCommit(fail error) (held chan struct{}, release func()) {
	held, gate := make(chan struct{}), make(chan struct{})
	n.faults.onCommit(func(_ context.Context, checks []*spend.Check, commit realCommit) error {
		n.faults.onCommit(nil)
		close(held)
		<-gate
		if fail != nil {
			return fail
		}
		return commit(context.Background(), checks)
	})
	return held, func() { close(gate) }
}

// loseAnswer makes the node's next commit end with a lost connection, with or
// without effect.
func (n *node) loseAnswer(committed bool) {
	n.faults.onCommit(func(ctx context.Context, checks []*spend.Check, commit realCommit) error {
		n.faults.onCommit(nil)
		if committed {
			if err := commit(ctx, checks); err != nil {
				return err
			}
		}
		return fmt.Errorf("%w: %w", audit.ErrUnknown, errTest)
	})
}

func refundOf(t *testing.T, amount, counterparty string) spend.Action {
	t.Helper()
	a := must.Get(spend.ParseAmount(amount))(t)
	return spend.Action{
		AgentID: "agent-1", PolicyID: "p", Type: spend.Refund, Amount: a, Currency: "USD", Counterparty: counterparty,
	}
}

func keyed(a spend.Action, key string) spend.Action {
	a.IdempotencyKey = key
	return a
}

func repeat(a spend.Action, n int) []spend.Action {
	actions := make([]spend.Action, n)
	for i := range actions {
		actions[i] = a
	}
	return actions
}

// backends are the pairs that the tests of the guarantees run over. The real
// servers are named by TEST_REDIS_URL and TEST_DATABASE_URL; only -short does
// without them.
func backends(t *testing.T) []backend {
	all := []backend{embeddedBackend()}
	redisURL, databaseURL := os.Getenv("TEST_REDIS_URL"), os.Getenv("TEST_DATABASE_URL")
	switch {
	case redisURL != "" && databaseURL != "":
		all = append(all, realBackend(redisURL))
	case !testing.Short():
		t.Fatal("set TEST_REDIS_URL and TEST_DATABASE_URL, or test with -short")
	}
	return all
}

// redisDB is this package's database on a Redis that others may test on too.
const redisDB = 5

func realBackend(redisURL string) backend {
	return backend{
		name: "real",
		store: func(t *testing.T) audit.Store {
			s := must.Get(postgres.Open(t.Context(), postgres.Options{
				URL: servers.TestMigrated(t, postgres.Migrate), Logger: slog.New(slog.DiscardHandler), Migrate: true,
			}))(t)
			t.Cleanup(s.Close)
			return s
		},
		redis: func(t *testing.T, _ *fleet) (redis.UniversalOptions, bool) {
			o := must.Get(redis.ParseURL(redisURL))(t)
			universal := redis.UniversalOptions{Addrs: []string{o.Addr}, Username: o.Username, Password: o.Password, DB: redisDB}
			client := redis.NewUniversalClient(&universal)
			defer client.Close() //nolint:errcheck // nothing is lost with it
			must.Do(t, client.FlushDB(t.Context()).Err())
			return universal, false
		},
	}
}

// backend is a pair of a store and a Redis.
type backend struct {
	name  string
	store func(*testing.T) audit.Store
	redis func(*testing.T, *fleet) (redis.UniversalOptions, bool)
}

func embeddedBackend() backend {
	return backend{
		name: "embedded",
		store: func(t *testing.T) audit.Store {
			s := must.Get(sqlite.Open(context.Background(), filepath.Join(servers.MemoryDir(t), "audit.db"), slog.New(slog.DiscardHandler)))(t)
			t.Cleanup(s.Close)
			return s
		},
		redis: func(t *testing.T, f *fleet) (redis.UniversalOptions, bool) {
			var err error
			if f.mini, err = embedded.Start(); err != nil {
				t.Fatal(err)
			}
			t.Cleanup(f.mini.Close)
			return f.mini.Options(), true
		},
	}
}
