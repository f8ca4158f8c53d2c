package e2e_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"spendgate/bench/fleet"
	"spendgate/bench/must"
	"spendgate/hotpath/httpapi/apitest"
)

const (
	// slack is for a busy machine.
	slack = 500 * time.Millisecond
	// closedIn is when a check is answered although a dependency is down, and
	// resumeIn when service resumes after it (G7).
	closedIn = 2*time.Second + slack
	resumeIn = 2*time.Second + slack
	// patience bounds what the contract sets no time for.
	patience = time.Minute
	// plenty is the highest rate limit, for tests that are not about it.
	plenty = 10000
	// standard is the policy of most tests: allow, escalate above 200, block
	// above 500 USD.
	standard = "standard"
)

// One test runs all: first, in order, what measures time or sets the environment, then
// side by side what mostly waits, each for servers of its own (F30, F126).
func TestEndToEnd(t *testing.T) {
	plain := build(t, fleet.BuildOptions{})
	watched := plain
	if os.Getenv("TEST_RACE") != "" {
		watched = build(t, fleet.BuildOptions{Race: true}) // for nodes that meet most kinds of faults; the tests need no detector
	}
	t.Run("flood", func(t *testing.T) { testFlood(t, plain) })
	t.Run("tracing", func(t *testing.T) { testTracing(t, plain) })
	t.Run("fleet", func(t *testing.T) { testFleet(t, watched) })
	t.Run("upgrade", func(t *testing.T) { testUpgrade(t, plain) }) // alone: not one request may fail
	t.Run("overload", func(t *testing.T) { testOverload(t, plain) })
	aside := func(t *testing.T, name, binary string, test func(*testing.T, string)) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, binary)
		})
	}
	t.Run("failover", func(t *testing.T) {
		t.Parallel()
		aside(t, "cluster", plain, testCluster)
		aside(t, "sentinel", plain, testSentinel)
		aside(t, "standby", plain, testStandby)
	})
	aside(t, "webhooks", plain, testWebhooks)
	aside(t, "backtests", plain, testBacktests)
	aside(t, "backup", plain, testBackup)
	aside(t, "archive", plain, testArchive)
	aside(t, "roles", plain, testRoles)
	aside(t, "pooler", plain, testPooler)
	aside(t, "start", plain, testStart)
	aside(t, "cells", plain, testCells)
	aside(t, "dev", plain, testDev)
}

// build compiles the service.
func build(t *testing.T, o fleet.BuildOptions) string {
	t.Helper()
	binary := must.Get(fleet.Build(t.Context(), t.TempDir(), o))(t)
	return binary
}

func testFleet(t *testing.T, binary string) {
	s := newSuite(t, binary, fleet.Options{})
	s.inOrder(t, []test{
		{"S27 readiness and metrics", s.operations},
		{"S51 a key that expires", s.keyExpires},
		{"S27 a node that cannot record", s.recording},
		{"G2 one row per key", s.oneKeyAtOnce},
		{"G3 one of many", s.oneActionAtOnce},
		{"G6 one limit for all nodes", s.rateLimit},
		{"G4 fresh policies", s.freshPolicies},
		{"G5 fresh keys", s.freshKeys},
		{"S22 violations elsewhere at once", s.violationsElsewhere},
		{"G3 redis flushed", s.redisFlushed},
		{"F18 redis evicts", s.redisEvicts},
		{"G1 redis killed", s.redisKilled},
		{"G3 redis back from an old copy", s.redisFromOldCopy},
		{"F48 redis failed over and back", s.redisFailedOverAndBack},
		{"G7 redis stopped", s.redisStopped},
		{"G7 reads without redis", s.readsWithoutRedis},
		{"G1 postgres killed", s.postgresKilled},
		{"G7 postgres stopped", s.postgresStopped},
		{"G7 retry of a check in doubt", s.retryInDoubt},
		{"G1 node killed", s.nodeKilled},
		{"G3 claim of a stopped node", s.claimOfStoppedNode},
		{"G2 key of a stopped node", s.keyOfStoppedNode},
		{"G3 commit of lost windows", s.commitOfLostWindows},
		{"F16 locks of a dead node", s.locksOfDeadNode},
		{"F126 redemption of a dead node", s.redemptionOfDeadNode},
		{"G11 in flight at the end", s.finishedAtTheEnd},
		{"G11 stop beside a hung database", s.stopsBesideAHungDatabase},
		{"G8 the trail is proved", s.trailIsProved},
		{"S25 no secret is shown", s.noSecrets},
		{"G7 many windows lost", s.manyWindowsLost},
	})
}

// thorough reports whether the variants that take long are wanted, as by `make
// failover`.
func thorough() bool { return os.Getenv("TEST_FAILOVER") == "thorough" }

type test struct {
	name string
	run  func(*testing.T)
}

func (s *suite) inOrder(t *testing.T, tests []test) {
	for _, test := range tests {
		fine := t.Run(test.name, func(t *testing.T) {
			s.watch(t)
			test.run(t)
		})
		if !fine && (s.Redis == nil || s.Standby != nil) {
			t.Fatal("what it left behind is not repaired")
		}
	}
}

// suite is a fleet of two nodes and the state that its tests share.
type suite struct {
	*fleet.Fleet
	binary      string
	checkpoints string // the file that all nodes append to
	key         string // of an API key with plenty
	names       atomic.Int64
	mu          sync.Mutex
	issued      []string        // raw keys
	front       *fleet.Balancer // before three nodes; nil where clients use the nodes directly
}

// newSuite starts a fleet of the kind that the options choose.
func newSuite(t *testing.T, binary string, o fleet.Options) *suite {
	t.Helper()
	checkpoints := filepath.Join(t.TempDir(), "checkpoints.jsonl")
	o.Binary, o.Nodes, o.Settings = binary, 2, fleet.Settings{
		"LOG_LEVEL": "debug", "TRUSTED_PROXIES": "127.0.0.1", "CHECKPOINT_KEY": checkpointKey, "CHECKPOINT_FILE": checkpoints,
		"CHECKPOINT_INTERVAL": "1s",
	}
	f := startFleet(t, o)
	s := &suite{Fleet: f, binary: binary, checkpoints: checkpoints}
	t.Cleanup(func() {
		if s.key == "" { // it failed before the first test
			for name, text := range s.Logs() {
				t.Logf("--- %s\n%s", name, tail(text))
			}
		}
	})
	_, s.key = s.newKey(t, plenty)
	// A node's first answers may need more than its time for a read where others start, too.
	eventually(t, 30*time.Second, "the first policy is stored", func() bool {
		return must.Get(s.Nodes[0].Client(s.key).PostPolicy(t.Context(), standardPolicy()))(t).Status == http.StatusCreated
	})
	return s
}

// startFleet starts a fleet for a test.
func startFleet(t *testing.T, o fleet.Options) *fleet.Fleet {
	t.Helper()
	if o.Seen == nil {
		o.Seen = documented(t)
	}
	f := must.Get(fleet.Start(t.Context(), o))(t)
	t.Cleanup(func() {
		must.Check(t, f.Close())
	})
	return f
}

// document is openapi.yaml, to which every answer is held.
var document = sync.OnceValues(func() (*apitest.Document, error) {
	text, err := os.ReadFile("../../hotpath/httpapi/openapi.yaml")
	if err != nil {
		return nil, err
	}
	return apitest.Load(text)
})

// documented fails a test for each answer that openapi.yaml does not declare. Answers without a
// request ID are HAProxy's.
func documented(t *testing.T) fleet.Seen {
	t.Helper()
	doc := must.Get(document())(t)
	return func(method, path string, a fleet.Answer) {
		if a.Header.Get("X-Request-Id") == "" {
			return
		}
		must.Check(t, doc.CheckResponse(method, path, apitest.Response{Status: a.Status, Header: a.Header, Body: a.Body}))
	}
}

func standardPolicy() fleet.Policy {
	return fleet.Policy{PolicyID: standard, Name: "Standard", Rules: []fleet.Rule{
		{RuleID: "cap", RuleType: "max_amount", Parameters: map[string]any{"limit": 500, "currency": "USD"}},
		{RuleID: "ask", RuleType: "escalate_if", Parameters: map[string]any{"amount_above": 200}},
	}}
}

// watch shows the processes' logs of a test that failed, and fails it for races
// and panics in them.
func (s *suite) watch(t *testing.T) {
	before := s.Logs()
	t.Cleanup(func() {
		for name, text := range s.Logs() {
			text = strings.TrimPrefix(text, before[name])
			for _, sign := range []string{"DATA RACE", "panic: ", "fatal error: "} {
				if strings.Contains(text, sign) {
					t.Errorf("%s: %s", name, sign)
				}
			}
			if t.Failed() {
				t.Logf("--- %s\n%s", name, tail(text))
			}
		}
		if t.Failed() && s.Redis != nil {
			s.repair(t)
		}
	})
}

// tail returns the end of a log, with its lines cut, without the lines that are written each
// second.
func tail(text string) string {
	const lines, width = 20, 400
	all := slices.DeleteFunc(strings.Split(strings.TrimSpace(text), "\n"), func(line string) bool {
		return strings.Contains(line, `"msg":"checkpoint"`)
	})
	all = all[max(0, len(all)-lines):]
	for i, line := range all {
		if len(line) > width {
			all[i] = line[:width] + "..."
		}
	}
	return strings.Join(all, "\n")
}

// repair restarts what a failed test left killed or stopped.
func (s *suite) repair(t *testing.T) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	type startable interface {
		Running() bool
		Continue() error
		Start(context.Context) error
	}
	for _, p := range []startable{s.Redis, s.Postgres, s.Nodes[0], s.Nodes[1]} {
		var err error
		if p.Running() {
			err = p.Continue()
		} else {
			err = p.Start(ctx)
		}
		must.Check(t, err)
	}
	for _, n := range s.Nodes[:2] {
		must.Check(t, n.WaitReady(ctx))
	}
}

// newKey makes an API key.
func (s *suite) newKey(t *testing.T, rpm int) (id, raw string) {
	t.Helper()
	id, raw, err := s.Nodes[0].Admin(s.AdminKey).CreateKey(t.Context(), "test", rpm)
	must.Do(t, err)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.issued = append(s.issued, raw)
	return id, raw
}

// client returns node n's client, with the key of the highest limit.
func (s *suite) client(n int) *fleet.Client { return s.Nodes[n%2].Client(s.key) }

// post stores a policy and returns its version.
func (s *suite) post(t *testing.T, n *fleet.Node, p fleet.Policy) int {
	t.Helper()
	answer := must.Get(n.Client(s.key).PostPolicy(t.Context(), p))(t)
	var stored struct {
		Version int `json:"version"`
	}
	if err := json.Unmarshal(answer.Body, &stored); err != nil || answer.Status != http.StatusCreated {
		t.Fatalf("policy: %s", answer)
	}
	return stored.Version
}

// name returns a distinct name each time.
func (s *suite) name(of string) string { return fmt.Sprintf("%s-%d", of, s.names.Add(1)) }

// action returns a new action.
func (s *suite) action(amount string) fleet.Action {
	return fleet.Action{
		AgentID: "agent", PolicyID: standard, ActionType: "refund", Amount: json.Number(amount), Currency: "USD",
		Counterparty: s.name("customer"),
	}
}

func (s *suite) keyed(amount string) fleet.Action {
	a := s.action(amount)
	a.IdempotencyKey = s.name("key")
	return a
}
