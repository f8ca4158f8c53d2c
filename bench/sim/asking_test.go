package sim

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"

	"spendgate/audit"
	"spendgate/audit/spend"
	"spendgate/hotpath"
)

const (
	// asking is the policy whose escalations ask people.
	asking = "asking"
	// asker and owner are behind the key that asks, and may not decide (S44).
	asker, owner = "shop", "olga"
)

// decided is a person's decision and the answer to it.
type decided struct {
	approval spend.ID
	who      string
	approves bool
	ended    time.Time
	err      error
	lost     bool // the node died before it answered
}

// askPeople sends an action that is escalated, now and then again after its window,
// has people decide about it, and uses their approvals by several requests at once.
func (f *simulation) askPeople(r *rand.Rand) {
	time.Sleep(time.Duration(r.Int64N(int64(1500 * time.Millisecond))))
	a := f.actionToAsk(r)
	asked := f.insist(r, a)
	if !asked.seen() || asked.answer.Check.Approval == nil {
		return
	}
	approvals := []*spend.Check{asked.answer.Check}
	if r.IntN(3) == 0 && !f.lossless { // else all checks must be in one rate window
		time.Sleep(shortMinutes*time.Minute + time.Second)
		if asked = f.insist(r, again(approvals[0])); asked.seen() && asked.answer.Check.Approval != nil {
			approvals = append(approvals, asked.answer.Check)
		}
	}
	early, keyed := r.IntN(4) == 0, r.IntN(3) == 0
	decisions := rand.New(rand.NewPCG(r.Uint64(), 0))
	done := make(chan struct{})
	go func() {
		for _, c := range approvals {
			f.decideAll(decisions, c)
		}
		close(done)
	}()
	if !early {
		<-done
		if r.IntN(6) == 0 && !f.lossless {
			time.Sleep(time.Duration(r.Int64N(int64(2 * time.Minute))))
		}
	}
	use := func(c *spend.Check) spend.Action {
		action := again(c)
		if action.ApprovalID = c.ID; keyed {
			action.IdempotencyKey = "use " + c.ID.Text("")
		}
		return action
	}
	f.several(r, 2+r.IntN(2), func(r *rand.Rand, node int) {
		if r.IntN(4) == 0 { // an approver loses the right while others use the approval
			m := f.staff[r.IntN(len(f.staff))]
			f.changeKey(f.nodes[node], m, roleChange(spend.Auditor))
			f.changeKey(f.nodes[node], m, roleChange(spend.Approver))
			return
		}
		action := use(approvals[r.IntN(len(approvals))])
		if r.IntN(6) == 0 {
			action.Amount, _ = spend.ParseAmount("59")
			action.IdempotencyKey = ""
		}
		f.insist(r, action)
	})
	<-done
	c := approvals[0]
	used := f.insist(r, use(c))
	if used.seen() && used.answer.Check.UsesApproval() && r.IntN(2) == 0 {
		f.report(r, used.answer.Check, spend.Executor, hotpath.Report{Status: spend.Voided})
		f.insist(r, use(c))
		f.insist(r, again(c))
	}
}

// askCalmly asks after all faults have ended: then people's approval is used.
func (f *simulation) askCalmly() {
	a := f.actionToAsk(f.source())
	a.Amount, _ = spend.ParseAmount("30") // every version asks
	a.Counterparty, a.IdempotencyKey = "sofa", ""
	asked := f.retry(a)
	if !asked.seen() || asked.answer.Check == nil {
		return
	}
	for _, who := range []string{"ann", "bob"} {
		f.decide(chance(f.seed, 0), f.nodes[:1], asked.answer.Check, who, true)
	}
	a.ApprovalID = asked.answer.Check.ID
	if used := f.retry(a); used.seen() && (used.answer.Check == nil || !used.answer.Check.UsesApproval()) {
		f.note("what people approved does not pass: %s", used)
		f.unrecovered = true
	}
}

func (f *simulation) actionToAsk(r *rand.Rand) spend.Action {
	text := [...]string{"15", "22", "30", "40"}[r.IntN(4)]
	amount, _ := spend.ParseAmount(text)
	a := spend.Action{
		AgentID: "agent", PolicyID: asking, Type: spend.Refund, Amount: amount, Currency: "USD",
		Counterparty: [...]string{"desk", "chair", "lamp"}[r.IntN(3)],
	}
	if r.IntN(4) == 0 {
		a.IdempotencyKey = a.Counterparty + text
	}
	return a
}

// decideAll has people decide at about the same moment, sometimes including one who may not decide
// or one who denies.
func (f *simulation) decideAll(r *rand.Rand, c *spend.Check) {
	who := []string{"ann", "bob", "cleo", "ann", asker, owner}
	r.Shuffle(len(who), func(i, j int) { who[i], who[j] = who[j], who[i] })
	who = who[:4+r.IntN(3)]
	f.several(r, len(who), func(r *rand.Rand, node int) {
		f.mu.Lock()
		name := who[0]
		who = who[1:]
		f.mu.Unlock()
		f.decide(r, f.nodes, c, name, r.IntN(12) > 0)
	})
}

// decide decides about an approval through one of the nodes, and retries if that fails.
func (f *simulation) decide(r *rand.Rand, nodes []*simNode, c *spend.Check, who string, approves bool) {
	for range 3 {
		n := nodes[r.IntN(len(nodes))]
		access := hotpath.AccessOf(&audit.Key{ID: spend.NewID(time.Now()), Grants: spend.Grants{Role: spend.Approver, Principal: who}})
		var err error
		if m := f.named(who); m != nil {
			access, err = m.as(n, spend.ApprovalsDecide)
		}
		if err == nil {
			_, _, err = n.DecideApproval(context.Background(), access, audit.Actor{}, audit.ApprovalDecisionRequest{
				ApprovalID: c.ID, Approves: approves, ActionHash: c.Approval.ActionHash,
			})
		}
		f.mu.Lock()
		f.decided = append(f.decided, &decided{c.ID, who, approves, time.Now(), err, n.store.isDead()})
		f.mu.Unlock()
		if !errors.Is(err, hotpath.ErrUnavailable) {
			return
		}
		time.Sleep(time.Duration(r.Int64N(int64(time.Second))))
	}
}
