package sim

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"

	"spendgate/audit"
	"spendgate/audit/spend"
	"spendgate/hotpath"
)

var (
	oneSeed = flag.Uint64("seed", 0, "play this schedule alone")
	seeds   = flag.Uint64("seeds", 0, "how many schedules to play; 0 is as many as a run of all tests bears")
)

func TestMain(m *testing.M) {
	flag.Parse()
	redis.SetLogger(quiet{}) // pools report every connection that could not be made
	os.Exit(m.Run())
}

type quiet struct{}

func (quiet) Printf(context.Context, string, ...any) {}

// shards run at the same time.
const shards = 2

// TestSchedules runs schedules and checks the history of each (F20).
func TestSchedules(t *testing.T) {
	if *seeds == 0 {
		if *seeds = 120; raced {
			*seeds = 20
		}
	}
	all := newFiles(t)
	if *oneSeed > 0 {
		synctest.Test(t, func(t *testing.T) { play(t, all, *oneSeed) })
		return
	}
	for shard := range uint64(shards) {
		t.Run(fmt.Sprint("shard ", shard), func(t *testing.T) {
			t.Parallel()
			for seed := shard + 1; seed <= *seeds && !t.Failed(); seed += shards {
				synctest.Test(t, func(t *testing.T) { play(t, all, seed) })
			}
		})
	}
}

// simulation is one schedule.
type simulation struct {
	seed        uint64
	rand        *rand.Rand
	redis       *fakeRedis
	store       *store
	record      *record // in the end
	nodes       []*simNode
	key         hotpath.Caller
	limit       int
	lossless    bool // Redis loses nothing
	calm        atomic.Bool
	redisAway   atomic.Bool
	unrecovered bool // checks fail, or approved actions do not pass, although all faults have ended
	timeline    []string

	mu      sync.Mutex
	sent    []*sent
	posted  map[string]int // versions answered 201
	edits   map[string]int // of policies
	flows   int
	staff   []*member
	given   []*given
	reports []*reported
	decided []*decided

	redeemed []*redeemed
	frozen   []*frozen
	payer    payer
	paid     []*paid
	pending  sync.WaitGroup
}

// sent is one request and the answer that its client got.
type sent struct {
	number int
	node   int
	action spend.Action
	need   int // the version answered before
	began  time.Time
	took   time.Duration
	answer hotpath.Answer
	err    error
	lost   bool // the node died before it answered
}

// seen reports whether the client got the answer.
func (s *sent) seen() bool { return s.err == nil && !s.lost }

func (s *sent) ended() time.Time { return s.began.Add(s.took) }

func (s *sent) String() string {
	var outcome string
	switch {
	case s.lost:
		outcome = "lost"
	case s.err != nil:
		outcome = s.err.Error()
	default:
		c := s.answer.Check
		outcome = fmt.Sprintf("%s %s v%d replayed=%t", c.ID.Text("chk_"), c.Decision.Reason, c.Decision.PolicyVersion, s.answer.Replayed)
	}
	return fmt.Sprintf("%3d node %d %s %s key %q at %s, %s: %s", s.number, s.node, s.action.Counterparty, s.action.PolicyID,
		s.action.IdempotencyKey, s.began.Format("05.000000"), s.took, outcome)
}

const (
	rounds       = 3
	shortMinutes = 1
	longMinutes  = 10
)

func play(t *testing.T, all *files, seed uint64) {
	f := newSimulation(t, all, seed, 3)
	f.calm.Store(false)
	for range rounds {
		f.round()
	}
	f.pending.Wait()
	f.endFaults()
	f.endPayments()
	f.judge(t)
	f.close()
	if len(f.redis.unknown) > 0 {
		t.Errorf("seed %d: the fake Redis does not implement %q", seed, f.redis.unknown)
	}
	if t.Failed() {
		for _, line := range f.timeline {
			t.Log(line)
		}
		for _, s := range f.sent {
			t.Log(s)
		}
	}
}

// newSimulation returns a simulation with a key and the policies, without faults.
func newSimulation(t *testing.T, all *files, seed uint64, nodes int) *simulation {
	t.Helper()
	f := &simulation{
		seed: seed, rand: chance(seed, 0), redis: newFakeRedis(), limit: 10000, posted: make(map[string]int),
		edits: make(map[string]int),
	}
	f.lossless = seed%4 == 0
	if f.lossless {
		f.limit = 16
	}
	f.redis.fault = f.redisFaults()
	f.store = newStore(t, all.schedule(t, seed))
	f.calm.Store(true)
	for n := range nodes {
		f.nodes = append(f.nodes, f.newNode(n))
	}
	raw, _, err := f.nodes[0].CreateKey(context.Background(), audit.Actor{}, hotpath.NewKey{
		Name: "agents", RateLimitRPM: f.limit, Grants: spend.Grants{Principal: asker, Owner: owner},
	})
	if err != nil {
		t.Fatalf("seed %d: %v", seed, err)
	}
	f.key = hotpath.KeyCaller([]byte(raw))
	if err := f.newPayer(); err != nil {
		t.Fatalf("seed %d: %v", seed, err)
	}
	if err := f.newStaff(); err != nil {
		t.Fatalf("seed %d: %v", seed, err)
	}
	for id := range policies() {
		f.post(0, id)
	}
	return f
}

func (f *simulation) close() {
	for _, n := range f.nodes {
		n.close()
	}
	time.Sleep(5 * time.Second) // until pools have noticed, and the last late command was carried out
	f.store.Close()
	_ = os.Remove(f.store.path)
}

func policies() map[string]int {
	return map[string]int{"short": shortMinutes, "long": longMinutes, budgeted: shortMinutes, asking: shortMinutes}
}

func (f *simulation) post(node int, policyID string) {
	p := &audit.Policy{PolicyID: policyID, Name: policyID, Rules: fmt.Sprintf(
		`[{"rule_id":"repeats","rule_type":"duplicate_guard","parameters":{"window_minutes":%d}}%s]`, policies()[policyID],
		f.otherRules(policyID))}
	if err := f.nodes[node].CreatePolicy(context.Background(), hotpath.Access{}, audit.Actor{}, hotpath.NewVersion{Policy: p}); err != nil ||
		f.nodes[node].store.isDead() {
		return // there is no guarantee
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.posted[policyID] = max(f.posted[policyID], p.Version)
}

// redisFaults draws from one source per connection.
func (f *simulation) redisFaults() func(int, []string) fault {
	var mu sync.Mutex
	sources := make(map[int]*rand.Rand)
	return func(connection int, command []string) fault {
		mu.Lock()
		defer mu.Unlock()
		r := sources[connection]
		if r == nil {
			r = chance(f.seed, 2000+connection)
			sources[connection] = r
		}
		drawn := fault{delay: time.Duration(r.Int64N(int64(400*time.Microsecond))) + time.Nanosecond}
		if f.calm.Load() {
			return drawn
		}
		if n := r.IntN(60); n == 0 && command[0] == "SET" && !f.lossless {
			f.redis.flush() // between two commands of a batch
		}
		switch r.IntN(150) {
		case 0:
			drawn.before = true
		case 1:
			drawn.after = true
		case 2:
			drawn.late = time.Duration(r.Int64N(int64(4 * time.Second)))
		case 3:
			drawn.delay += time.Duration(r.Int64N(int64(time.Second)))
		case 4, 5:
			drawn.full = true
		}
		return drawn
	}
}

// round sends some checks within a second and a half, and something happens.
func (f *simulation) round() {
	checks := 4 + f.rand.IntN(6)
	for range checks {
		a := f.action()
		at := time.Duration(f.rand.Int64N(int64(1500 * time.Millisecond)))
		node := f.rand.IntN(len(f.nodes))
		f.pending.Go(func() {
			time.Sleep(at)
			f.send(node, a)
		})
	}
	f.purchases()
	reporters, people, gateways, payers, wardens := f.source(), f.source(), f.source(), f.source(), f.source()
	f.pending.Go(func() { f.settleOne(reporters) })
	f.pending.Go(func() { f.redeemOne(gateways) })
	f.pending.Go(func() { f.askPeople(people) })
	f.pending.Go(func() { f.payOne(payers) })
	granters, editors := f.source(), f.source()
	f.pending.Go(func() { f.grantSome(granters) })
	f.pending.Go(func() { f.changeStaff(editors) })
	if wardens.IntN(2) == 0 {
		f.pending.Go(func() { f.freezeOne(wardens) })
	}
	for range f.rand.IntN(3) {
		f.inject(time.Duration(f.rand.Int64N(int64(1800 * time.Millisecond))))
	}
	pause := time.Duration(f.rand.Int64N(int64(4 * time.Second)))
	if f.rand.IntN(3) == 0 && !f.lossless {
		pause += shortMinutes * time.Minute
	}
	time.Sleep(pause)
}

// inject injects one fault.
func (f *simulation) inject(after time.Duration) {
	kind, node := f.rand.IntN(8), f.rand.IntN(len(f.nodes))
	policy := [...]string{"short", "long", budgeted, asking}[f.rand.IntN(4)]
	if f.lossless && kind < 4 {
		kind += 4
	}
	f.pending.Go(func() {
		old := f.redis.snapshot()
		time.Sleep(after)
		f.note("%s: event %d on node %d", time.Now().Format("05.000000"), kind, node)
		switch kind {
		case 0, 1:
			f.redis.flush()
		case 2:
			f.redis.restart(fmt.Sprintf("run-%d", time.Now().UnixNano()), make(map[string]entry))
		case 3: // from a copy that lacks the last writes
			f.redis.restart(fmt.Sprintf("run-%d", time.Now().UnixNano()), old)
		case 4, 5:
			f.post(node, policy)
		case 6:
			if node != 0 {
				f.nodes[node].store.die()
			}
		case 7:
			f.redisAway.Store(true)
			time.Sleep(time.Second)
			f.redisAway.Store(false)
		}
	})
}

func (f *simulation) note(format string, args ...any) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.timeline = append(f.timeline, fmt.Sprintf(format, args...))
}

func (f *simulation) action() spend.Action {
	amount, _ := spend.ParseAmount("10")
	a := spend.Action{
		AgentID: "agent", PolicyID: [...]string{"short", "long"}[f.rand.IntN(2)], Type: spend.Refund, Amount: amount, Currency: "USD",
		Counterparty: [...]string{"a", "b"}[f.rand.IntN(2)],
	}
	if f.rand.IntN(3) == 0 {
		a.IdempotencyKey = a.Counterparty + a.PolicyID
	}
	return a
}

func (f *simulation) send(node int, a spend.Action) *sent {
	f.mu.Lock()
	s := &sent{number: len(f.sent), node: node, action: a, need: f.posted[a.PolicyID], began: time.Now()}
	f.sent = append(f.sent, s)
	f.mu.Unlock()
	n := f.nodes[node]
	answer, _, err := n.Check(context.Background(), hotpath.Request{Caller: f.key, ID: "req_000000000000", Started: time.Now()}, &a)
	f.mu.Lock()
	defer f.mu.Unlock()
	s.answer, s.err, s.took = answer, err, time.Since(s.began)
	s.lost = n.store.isDead()
	return s
}

// endFaults ends the faults. After some time every check must be answered again.
func (f *simulation) endFaults() {
	f.calm.Store(true)
	time.Sleep(6 * time.Second)
	for _, counterparty := range []string{"a", "b"} {
		for id := range policies() {
			a := f.action()
			a.Counterparty, a.PolicyID, a.IdempotencyKey = counterparty, id, ""
			f.retry(a)
		}
	}
	f.restoreStaff()
	f.askCalmly()
}

// retry gives a pool that cannot probe its connections the chance to find the broken ones.
func (f *simulation) retry(a spend.Action) *sent {
	for range 12 {
		if s := f.send(0, a); s.err == nil || errors.Is(s.err, hotpath.ErrRateLimited) {
			return s
		}
		time.Sleep(200 * time.Millisecond)
	}
	f.note("nothing answers")
	f.unrecovered = true
	return new(sent)
}

func allowedError(err error) bool {
	if _, refused := errors.AsType[*audit.ApprovalError](err); refused {
		return true
	}
	return isFrozen(err) ||
		errors.Is(err, hotpath.ErrUnavailable) || errors.Is(err, hotpath.ErrRateLimited) || errors.Is(err, hotpath.ErrOverloaded)
}
