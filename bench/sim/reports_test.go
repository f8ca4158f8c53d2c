package sim

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"spendgate/audit"
	"spendgate/audit/spend"
	"spendgate/hotpath"
)

// reported is a report of an outcome and the answer that its reporter got.
type reported struct {
	check    *spend.Check
	by       string // the reporter's principal
	role     spend.Role
	report   hotpath.Report
	ended    time.Time
	outcome  *spend.Outcome
	replayed bool
	err      error
	lost     bool // the node died before it answered
}

// source returns a random source of its own for a concurrent part.
func (f *simulation) source() *rand.Rand {
	f.flows++
	return chance(f.seed, 3000+f.flows)
}

// several does something n times at about the same moment, each time through some node, and waits
// for all.
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

// insist sends an action, and retries if that fails.
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
	c := f.someAllowed(r)
	if c == nil {
		return
	}
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
		if r.IntN(2) == 0 {
			recorded, _ := f.store.Outcomes(context.Background(), []spend.ID{c.ID})
			said.Supersedes = max(len(spend.CourseOf(recorded).Reports)-r.IntN(8)/7, 0) // mostly the last
		}
		f.report(r, c, role, said)
	})
	f.insist(r, again(c))
}

// again returns the same action for another check.
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

// report reports an outcome with a key of a role, whose principal has the role's name.
func (f *simulation) report(r *rand.Rand, c *spend.Check, role spend.Role, said hotpath.Report) {
	f.reportBy(r, c, hotpath.AccessOf(&audit.Key{ID: spend.NewID(time.Now()), Grants: spend.Grants{Role: role, Principal: string(role)}}),
		string(role), role, said)
}

// reportBy reports an outcome, and retries if that fails.
func (f *simulation) reportBy(r *rand.Rand, c *spend.Check, access hotpath.Access, by string, role spend.Role, said hotpath.Report) {
	for range 3 {
		n := f.nodes[r.IntN(len(f.nodes))]
		o, replayed, err := n.Report(context.Background(), hotpath.Request{Access: access, ID: "req_000000000000", Started: time.Now()}, c, said)
		f.mu.Lock()
		f.reports = append(f.reports, &reported{c, by, role, said, time.Now(), o, replayed, err, n.store.isDead()})
		f.mu.Unlock()
		if err == nil || !errors.Is(err, hotpath.ErrUnavailable) {
			return
		}
		time.Sleep(time.Duration(r.Int64N(int64(time.Second))))
	}
}

// judgeOutcomes checks S39, S40 and S61: the recorded reports of a check follow one another, and
// those after the first are by keys that may release; each answered report is recorded, and named
// the last one; an action is free from the answer to its release until the release is taken back.
func (f *simulation) judgeOutcomes(fail func(string, ...any)) {
	recorded := make(map[spend.ID]*spend.Outcome)
	for id, all := range f.record.outcomes {
		for i, o := range spend.CourseOf(all).Reports {
			recorded[o.ID] = o
			if o.Number != i+1 || i > 0 && o.Principal == string(spend.Agent) {
				fail("S61: report %d of %s is recorded: %+v after %+v", i+1, id.Text("chk_"), o, all[0])
			}
			if o.Principal == string(spend.Agent) && (o.Release == spend.ReleaseDone || o.Excess == spend.ExcessCounted) {
				fail("S40: an agent's report of %s was counted: %+v", id.Text("chk_"), o)
			}
		}
	}
	var freed []freeing
	for _, r := range f.reports {
		if r.lost || errors.Is(r.err, hotpath.ErrUnavailable) {
			continue
		}
		id := r.check.ID
		if already, refused := errors.AsType[*hotpath.AlreadyReportedError](r.err); refused {
			if already.Last != nil && len(f.reportsOf(id)) == 0 || already.Last == nil && r.report.Supersedes == 0 {
				fail("S39: a report of %s was refused beside no other", id.Text("chk_"))
			}
			continue
		}
		if _, refused := errors.AsType[*hotpath.AlreadyRedeemedError](r.err); refused {
			continue // see judgeRedemptions
		}
		switch {
		case r.err != nil:
			fail("a report of %s: %v", id.Text("chk_"), r.err)
		case recorded[r.outcome.ID] == nil || !recorded[r.outcome.ID].Same(r.outcome) || r.outcome.Status != r.report.Status:
			fail("S41: %+v of %s was answered as %+v, recorded is %+v", r.report, id.Text("chk_"), r.outcome, recorded[r.outcome.ID])
		case !r.replayed && !f.mayFollow(r):
			fail("S61: %+v of %s was answered as %+v beside %+v", r.report, id.Text("chk_"), r.outcome, f.record.outcomes[id])
		case r.outcome.Frees():
			// the check that asked, too
			freed = append(freed, freeing{id, r.outcome, r.ended}, freeing{r.check.Action.ApprovalID, r.outcome, r.ended})
		}
	}
	f.judgeFreed(fail, freed)
}

// reportsOf returns the recorded reports of a check.
func (f *simulation) reportsOf(check spend.ID) []*spend.Outcome {
	return spend.CourseOf(f.record.outcomes[check]).Reports
}

// mayFollow reports whether a recorded report named the last one, or did not need to.
func (f *simulation) mayFollow(r *reported) bool {
	before := f.reportsOf(r.check.ID)[:r.outcome.Number-1]
	if r.report.Supersedes > 0 {
		return r.report.Supersedes == len(before)
	}
	return len(before) == 0 || before[len(before)-1].Principal == string(spend.Agent)
}

// freeing is an answered release of a check.
type freeing struct {
	check spend.ID // that asked for the approval, or that was reported
	by    *spend.Outcome
	from  time.Time
}

// judgeFreed checks that a released check blocks nothing that was asked for later,
// and that its replays say so, until the release is taken back.
func (f *simulation) judgeFreed(fail func(string, ...any), freed []freeing) {
	back := make(map[spend.ID][]event) // reports that free nothing
	checked := make(map[spend.ID]time.Time)
	for _, e := range f.record.events {
		switch {
		case e.check != nil:
			checked[e.check.ID] = e.at
		case e.outcome != nil && !e.outcome.Frees():
			back[e.outcome.CheckID] = append(back[e.outcome.CheckID], e)
		}
	}
	free := func(r freeing, from, to time.Time) bool {
		return r.from.Before(from) &&
			!slices.ContainsFunc(back[r.by.CheckID], func(e event) bool { return e.outcome.Number > r.by.Number && !e.at.After(to) })
	}
	for _, s := range f.sent {
		if !s.seen() {
			continue
		}
		c := s.answer.Check
		for _, r := range freed {
			if c.ID == r.check && c.ID == r.by.CheckID && s.answer.Replayed && free(r, s.began, s.began.Add(s.took)) &&
				!s.answer.Became.Last().Frees() {
				fail("S40: check %d was answered %s, released at %s, without a word of it", s.number, c.ID.Text("chk_"), r.from)
			}
			if !r.check.IsZero() && !s.answer.Replayed && c.Decision.Reason == spend.ReasonDuplicate && free(r, s.began, checked[c.ID]) &&
				strings.Contains(c.Decision.Message, r.check.Text(spend.PrefixCheck)) {
				fail("S40: check %d is blocked by %s, which was released at %s", s.number, r.check.Text("chk_"), r.from)
			}
		}
	}
}
