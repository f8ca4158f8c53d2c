package sim

import (
	"context"
	"errors"
	"math/rand/v2"
	"strings"
	"time"

	"spendgate/audit"
	"spendgate/hotpath"
	"spendgate/hotpath/spend"
)

// reported is a report of an outcome and what its reporter saw.
type reported struct {
	check    *spend.Check
	role     spend.Role
	report   hotpath.Report
	ended    time.Time
	outcome  *spend.Outcome
	replayed bool
	err      error
	lost     bool // its node died first
}

// source returns a random source of its own for what runs beside the rest.
func (f *simulation) source() *rand.Rand {
	f.flows++
	return chance(f.seed, 3000+f.flows)
}

// several does something n times at about the same moment, each time through
// some node, and waits.
func (f *simulation) several(r *rand.Rand, n int, do func(r *rand.Rand, node int)) {
	ended := make(chan struct{})
	for range n {
		own := rand.New(rand.NewPCG(r.Uint64(), 0))
		go func() {
			time.Sleep(time.Duration(own.Int64N(int64(200 * time.Millisecond))))
			do(own, own.IntN(len(f.nodes)))
			ended <- struct{}{}
		}()
	}
	for range n {
		<-ended
	}
}

// insist sends an action, and again if it fails.
func (f *simulation) insist(r *rand.Rand, a spend.Action) (s *sent) {
	for range 3 {
		if s = f.send(r.IntN(len(f.nodes)), a); !s.lost && !errors.Is(s.err, hotpath.ErrUnavailable) {
			break
		}
		time.Sleep(time.Duration(r.Int64N(int64(time.Second))))
	}
	return s
}

// settleOne reports what became of some allowed check, by several reporters at
// once, while others ask for the same action.
func (f *simulation) settleOne(r *rand.Rand) {
	time.Sleep(time.Duration(r.Int64N(int64(3 * time.Second))))
	var allowed []*spend.Check
	f.mu.Lock()
	for _, s := range f.sent {
		if s.answer.Check != nil && s.seen() && s.answer.Check.Decision.Effect == spend.Allow {
			allowed = append(allowed, s.answer.Check)
		}
	}
	f.mu.Unlock()
	if len(allowed) == 0 {
		return
	}
	c := allowed[len(allowed)-1-r.IntN(min(len(allowed), 8))]
	first := drawReport(r)
	f.several(r, 2+r.IntN(3), func(r *rand.Rand, node int) {
		if r.IntN(3) == 0 {
			f.insist(r, again(c))
			return
		}
		said, role := first, spend.Executor
		if r.IntN(3) == 0 {
			said = drawReport(r)
		}
		if r.IntN(3) == 0 {
			role = spend.Agent
		}
		f.report(r, c, role, said)
	})
	f.insist(r, again(c))
}

// again is the same action, asked for anew.
func again(c *spend.Check) spend.Action {
	a := c.Action
	a.IdempotencyKey, a.ApprovalID = "", spend.ID{}
	return a
}

func drawReport(r *rand.Rand) hotpath.Report {
	moved := func(text string) *spend.Amount {
		amount, _ := spend.ParseAmount(text)
		return &amount
	}
	return [...]hotpath.Report{
		{Status: spend.Failed},
		{Status: spend.Voided},
		{Status: spend.Executed},
		{Status: spend.Executed, Amount: moved("1")},
		{Status: spend.Executed, Amount: moved("50")},
	}[r.IntN(5)]
}

// report reports an outcome, and again if that fails.
func (f *simulation) report(r *rand.Rand, c *spend.Check, role spend.Role, said hotpath.Report) {
	access := hotpath.AccessOf(&audit.Key{ID: spend.NewID(time.Now()), Grants: spend.Grants{Role: role, Principal: string(role)}})
	for range 3 {
		n := f.nodes[r.IntN(len(f.nodes))]
		o, replayed, err := n.Report(context.Background(), hotpath.Request{Access: access, ID: "req_000000000000", Started: time.Now()}, c, said)
		f.mu.Lock()
		f.reports = append(f.reports, &reported{c, role, said, time.Now(), o, replayed, err, n.store.isDead()})
		f.mu.Unlock()
		if err == nil || !errors.Is(err, hotpath.ErrUnavailable) {
			return
		}
		time.Sleep(time.Duration(r.Int64N(int64(time.Second))))
	}
}

// judgeOutcomes checks S39 and S40: at most one report of a check is recorded, and
// beside one that may not release one that may; what was answered is recorded; an
// action is free from the answer to its release on.
func (f *simulation) judgeOutcomes(fail func(string, ...any)) {
	recorded := make(map[spend.ID]*spend.Outcome)
	for id, all := range f.store.outcomes {
		for i, o := range all {
			recorded[o.ID] = o
			second := i == 1 && all[0].Release != spend.ReleaseDone && all[0].Excess != spend.ExcessCounted &&
				all[0].Principal == string(spend.Agent) && o.Principal == string(spend.Executor)
			if i > 0 && !second {
				fail("S39: report %d of %s is recorded: %+v after %+v", i+1, id.Text("chk_"), o, all[0])
			}
			if o.Principal == string(spend.Agent) && (o.Release == spend.ReleaseDone || o.Excess == spend.ExcessCounted) {
				fail("S40: an agent's report of %s was counted: %+v", id.Text("chk_"), o)
			}
		}
	}
	freed := make(map[spend.ID]time.Time) // when that was answered first
	for _, r := range f.reports {
		if r.lost || errors.Is(r.err, hotpath.ErrUnavailable) {
			continue
		}
		id := r.check.ID
		switch {
		case errors.Is(r.err, hotpath.ErrAlreadyReported):
			if len(f.store.outcomes[id]) == 0 {
				fail("S39: a report of %s was refused beside no other", id.Text("chk_"))
			}
		case r.err != nil:
			fail("a report of %s: %v", id.Text("chk_"), r.err)
		case recorded[r.outcome.ID] == nil || !recorded[r.outcome.ID].Same(r.outcome) || r.outcome.Status != r.report.Status:
			fail("S41: %+v of %s was answered as %+v, recorded is %+v", r.report, id.Text("chk_"), r.outcome, recorded[r.outcome.ID])
		case r.outcome.Frees():
			for _, id := range []spend.ID{id, r.check.Action.ApprovalID} { // and the check that asked
				if at, known := freed[id]; !id.IsZero() && (!known || r.ended.Before(at)) {
					freed[id] = r.ended
				}
			}
		}
	}
	f.judgeFreed(fail, freed)
}

// judgeFreed checks that a released check blocks nothing that was asked for later,
// and that its replays say so.
func (f *simulation) judgeFreed(fail func(string, ...any), freed map[spend.ID]time.Time) {
	for _, s := range f.sent {
		if !s.seen() {
			continue
		}
		c := s.answer.Check
		if at, ok := freed[c.ID]; ok && s.answer.Replayed && at.Before(s.began) && (s.answer.Outcome == nil || !s.answer.Outcome.Frees()) {
			fail("S40: check %d was answered %s, released at %s, without a word of it", s.number, c.ID.Text("chk_"), at)
		}
		if s.answer.Replayed || c.Decision.Reason != spend.ReasonDuplicate {
			continue
		}
		for id, at := range freed {
			if at.Before(s.began) && strings.Contains(c.Decision.Message, id.Text(spend.PrefixCheck)) {
				fail("S40: check %d is blocked by %s, which was released at %s", s.number, id.Text("chk_"), at)
			}
		}
	}
}
