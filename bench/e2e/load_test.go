package e2e_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"testing"
	"time"

	"spendgate/bench/fleet"
)

// workers are clients that work at the same time, each with one node: even
// ones with node 0, odd ones with node 1. Where there is a balancer, it says.
const workers = 6

// load is light traffic like that of agents: new actions with and without a key, retries of
// answered ones, actions sent twice, and actions that all workers send at the same time. A failed
// request is repeated until it is answered.
type load struct {
	s       *suite
	name    string
	clients []*fleet.Client
	began   time.Time
	stop    context.Context
	end     context.CancelFunc
	working sync.WaitGroup

	mu     sync.Mutex
	shots  []shot
	faults []string // found by a worker
}

// shot is one request and its outcome.
type shot struct {
	worker int
	action fleet.Action
	answer fleet.Answer
	err    error
}

func (x shot) failed() bool { return x.err != nil || x.answer.Status != http.StatusOK }

func (x shot) String() string {
	if x.err != nil {
		return fmt.Sprintf("worker %d: %s %s: no answer after %s: %v",
			x.worker, x.action.Counterparty, x.action.IdempotencyKey, x.answer.Took().Round(time.Millisecond), x.err)
	}
	return fmt.Sprintf("worker %d: %s %s: answered %s", x.worker, x.action.Counterparty, x.action.IdempotencyKey, x.answer)
}

// startLoad starts the workers, with API keys of their own.
func (s *suite) startLoad(t *testing.T) *load {
	t.Helper()
	l := &load{s: s, name: s.name("load"), began: time.Now()}
	l.stop, l.end = context.WithCancel(t.Context())
	for w := range workers {
		_, key := s.newKey(t, plenty)
		if s.front != nil {
			l.clients = append(l.clients, s.front.Client(key))
		} else {
			l.clients = append(l.clients, s.Nodes[w%2].Client(key))
		}
	}
	for w := range workers {
		l.working.Go(func() { l.work(w) })
	}
	return l
}

// finish ends the load and returns its requests.
func (l *load) finish() []shot {
	l.end()
	l.working.Wait()
	return l.shots
}

func (l *load) stopped() bool { return l.stop.Err() != nil }

func (l *load) work(w int) {
	amounts := []json.Number{"10", "300", "900"}
	var last fleet.Action // passed, without key
	for n := 0; !l.stopped(); n++ {
		action := fleet.Action{
			AgentID: l.name, PolicyID: standard, ActionType: "refund", Currency: "USD",
			Amount: "20", Counterparty: fmt.Sprintf("worker-%d-%d", w, n),
		}
		switch n % 4 {
		case 0: // without key: it passes, also after failures
			action.Amount = amounts[n/4%len(amounts)]
			if x, lost, answered := l.insist(w, action); answered {
				last = fleet.Action{}
				switch {
				case !x.answer.Result().Duplicate():
					last = action
				case !lost:
					l.fault("a check that was answered 500 blocked its retry (G7): %s", x)
				}
			}
		case 1: // with key, then sent again
			action.IdempotencyKey = fmt.Sprintf("%s-%d-%d", l.name, w, n)
			first, _, answered := l.insist(w, action)
			if !answered {
				break
			}
			if again, _, answered := l.insist(w, action); answered &&
				(!bytes.Equal(first.answer.Body, again.answer.Body) || !again.answer.Replayed()) {
				l.fault("a key sent again (G2): %s; before: %s", again, first)
			}
			if first.answer.Result().Duplicate() {
				l.fault("a retry with a key was taken for a duplicate (G2): %s", first)
			}
		case 2: // the loop of an agent that acts twice
			if last.AgentID == "" {
				break
			}
			if x, _, answered := l.insist(w, last); answered && !x.answer.Result().Duplicate() {
				l.fault("an action passed twice (G3): %s", x)
			}
		case 3: // all workers at the same time
			action.Counterparty = fmt.Sprintf("contested-%d", time.Since(l.began)/(100*time.Millisecond))
			l.insist(w, action)
		}
		l.pause(20 * time.Millisecond)
	}
}

// insist sends an action until it is answered or the load ends. lost: an
// answer may have been lost on its way, so that the action may count as sent
// before.
func (l *load) insist(w int, action fleet.Action) (x shot, lost, answered bool) {
	for !l.stopped() {
		answer, err := l.clients[w].Check(context.Background(), action)
		x = shot{worker: w, action: action, answer: answer, err: err}
		l.mu.Lock()
		l.shots = append(l.shots, x)
		l.mu.Unlock()
		if !x.failed() {
			return x, lost, true
		}
		lost = lost || err != nil
		l.pause(25 * time.Millisecond)
	}
	return x, lost, false
}

func (l *load) pause(d time.Duration) {
	select {
	case <-l.stop.Done():
	case <-time.After(d):
	}
}

func (l *load) fault(format string, args ...any) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.faults = append(l.faults, fmt.Sprintf(format, args...))
}

// expectation is what may happen around a fault.
type expectation struct {
	mayFail func(shot) bool
	within  time.Duration // every check is answered
	mustHit bool          // a request must fail, or there was no fault
}

// around allows failures from a fault until service is due again after it.
func around(from, back time.Time) func(shot) bool {
	return func(x shot) bool {
		return x.answer.Done.After(from) && x.answer.Sent.Before(back.Add(resumeIn))
	}
}

// underLoad provokes a fault under load. provoke must return when the fault is
// over.
func (s *suite) underLoad(t *testing.T, provoke func() (from, back time.Time), expect func(from, back time.Time) expectation) {
	t.Helper()
	l := s.startLoad(t)
	time.Sleep(700 * time.Millisecond) // traffic before the fault
	from, back := provoke()
	time.Sleep(time.Until(back.Add(resumeIn + 500*time.Millisecond))) // traffic after the fault
	shots := l.finish()
	for _, fault := range l.faults {
		t.Error(fault)
	}
	e := expect(from, back)
	failures, shown, last := 0, 0, time.Duration(0)
	for _, x := range shots {
		bad := ""
		switch {
		case x.failed() && !e.mayFail(x):
			bad = "a failure apart from the fault"
		case x.err == nil && x.failed() &&
			(x.answer.Status != 500 || x.answer.ErrorCode() != "internal_error" || x.answer.Header.Get("Retry-After") == ""):
			bad = "a failure that is no internal_error with Retry-After (G7)"
		case x.answer.Took() > e.within:
			bad = "answered too late"
		}
		if x.failed() {
			failures++
			last = max(last, x.answer.Sent.Sub(back))
		}
		if bad != "" {
			if shown++; shown <= 10 {
				t.Errorf("%s, sent %s after the fault and %s after its end: %s", bad,
					x.answer.Sent.Sub(from).Round(time.Millisecond), x.answer.Sent.Sub(back).Round(time.Millisecond), x)
			}
		}
	}
	if e.mustHit && failures == 0 {
		t.Error("nothing failed: the fault did not hit")
	}
	t.Logf("%d requests, %d of which failed, the last sent %s after the fault's end; the fault took %s",
		len(shots), failures, last.Round(time.Millisecond), back.Sub(from).Round(time.Millisecond))
	s.verify(t, l.name, shots)
}

// verify compares the answers with the record, for all checks of one agent.
func (s *suite) verify(t *testing.T, agent string, shots []shot) {
	t.Helper()
	rows := make(map[string]fleet.Row)
	passes, keys := make(map[string][]string), make(map[string][]string)
	for _, r := range s.rows(t, "agent_id = $1", agent) {
		rows[r.CheckID] = r
		if r.Passed {
			passes[r.Fingerprint] = append(passes[r.Fingerprint], r.CheckID)
		}
		if r.Key != "" {
			keys[r.Key] = append(keys[r.Key], r.CheckID)
		}
	}
	for _, ids := range passes {
		if len(ids) > 1 {
			t.Errorf("one action passed as %q (G3)", ids)
		}
	}
	for key, ids := range keys {
		if len(ids) > 1 {
			t.Errorf("the key %s is recorded as %q (G2)", key, ids)
		}
	}
	bodies := make(map[string][]byte) // by check
	byKey := make(map[string]string)  // checks
	originals := make(map[string]int)
	for _, x := range shots {
		if x.failed() {
			continue
		}
		r := x.answer.Result()
		row, recorded := rows[r.CheckID]
		if !recorded {
			t.Errorf("answered and not recorded (G1): %s", x)
			continue
		}
		if text := difference(x.action, r, row); text != "" {
			t.Errorf("recorded otherwise (%s): %s: %+v", text, x, row)
		}
		if before, seen := bodies[r.CheckID]; seen && !bytes.Equal(before, x.answer.Body) {
			t.Errorf("two bodies of one check (G2):\n%s\n%s", before, x.answer.Body)
		}
		bodies[r.CheckID] = x.answer.Body
		if !x.answer.Replayed() {
			originals[r.CheckID]++
		}
		if r.Duplicate() {
			if id := named(t, r); !rows[id].Passed {
				t.Errorf("a duplicate of %s, which is not recorded as passed (G3): %s", id, x)
			}
		}
		if key := x.action.IdempotencyKey; key != "" {
			if before, seen := byKey[key]; seen && before != r.CheckID {
				t.Errorf("the key %s is answered by %s and %s (G2)", key, before, r.CheckID)
			}
			byKey[key] = r.CheckID
		}
	}
	for id, n := range originals {
		if n > 1 {
			t.Errorf("%s was answered %d times without being marked as a replay", id, n)
		}
	}
	s.compareReads(t, bodies)
}

// compareReads reads the checks again: the same bytes (S21).
func (s *suite) compareReads(t *testing.T, bodies map[string][]byte) {
	t.Helper()
	_, key := s.newKey(t, plenty)
	ids := make(chan string, len(bodies))
	for id := range bodies {
		ids <- id
	}
	close(ids)
	var reading sync.WaitGroup
	for i := range 4 {
		reading.Go(func() {
			for id := range ids {
				a, err := s.Nodes[i%2].Client(key).GetCheck(t.Context(), id)
				if err != nil || a.Status != http.StatusOK || !bytes.Equal(a.Body, bodies[id]) {
					t.Errorf("answered\n%s\nread again\n%s %v", bodies[id], a, err)
				}
			}
		})
	}
	reading.Wait()
}

// difference describes how a row differs from the answer and the request.
func difference(a fleet.Action, r fleet.Result, row fleet.Row) string {
	same := func(x, y *string) bool { return (x == nil) == (y == nil) && (x == nil || *x == *y) }
	switch {
	case row.Decision != r.Decision:
		return "decision"
	case row.PolicyVersion != r.PolicyVersion || row.PolicyID != a.PolicyID:
		return "policy"
	case row.LatencyMS != r.LatencyMS:
		return "latency"
	case !same(row.ReasonCode, r.ReasonCode) || !same(row.RuleID, r.RuleID) || !same(row.Message, r.Message) ||
		!same(row.NextStep, r.NextStep):
		return "reason"
	case row.AgentID != a.AgentID || row.Counterparty != a.Counterparty || row.Amount != string(a.Amount) || row.Currency != a.Currency ||
		row.ActionType != a.ActionType || row.Key != a.IdempotencyKey:
		return "request"
	case row.Violation != (r.Decision != "allow"):
		return "violation"
	case row.Passed == r.Duplicate():
		return "pass"
	case !slices.Contains([]string{"allow", "block", "escalate"}, row.Decision):
		return "decision unknown"
	}
	return ""
}
