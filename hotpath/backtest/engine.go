package backtest

import (
	"encoding/binary"
	"errors"
	"slices"
	"time"

	"spendgate/audit"
	"spendgate/audit/spend"
	"spendgate/hotpath/policy"
	"spendgate/hotpath/report"
)

// maxHeld is the most memory that a replay uses for its state, in bytes: enough for four million
// passes, or fewer if there are buckets of budgets, approvals and outcomes to come.
const maxHeld = 256 << 20

// The memory that each takes, with its share of the index and of the values that it refers to.
const (
	bucketBytes = 160
	askingBytes = 600
	reportBytes = 800

	allowanceBytes = 200
)

// ErrTooLarge ends a replay whose state is larger than maxHeld.
var ErrTooLarge = errors.New("the duplicate windows and budgets of that time hold more than a backtest remembers: take a shorter time, " +
	"or shorter windows")

// Why a check is not compared.
const (
	DuplicateOrder    = "duplicate_order"     // identical checks at once were decided in another order than they are recorded
	BudgetOrder       = "budget_order"        // so were checks that a budget had no room for together, or whose approvals differ
	OtherDecision     = "other_decision"      // the version that judged the check decides otherwise today
	VersionUnknown    = "version_unknown"     // the version that judged the check does not compile any more
	ApprovalUnknown   = "approval_unknown"    // the check used the approval of a check that is not at hand
	ApprovalNotNeeded = "approval_not_needed" // the candidate allows the check that asked for the approval it used
	PaymentAllowed    = "payment_allowed"     // the candidate allows an earlier check of its payment, which history did not
)

// Options configure an Engine.
type Options struct {
	Candidate *policy.Program
	From, To  time.Time // both included
	Recorded  bool      // history's decisions are the candidate's state
	// Kept is the report on the checks from From on that an earlier replay compared: this one adds those
	// after Kept's end, and judges those before it only for the approvals that they ask for. Nil: there
	// is none.
	Kept *report.Report
	// Lengthened: the candidate's duplicate window is another than that in force at
	// From; until then its passes last for its own window.
	Lengthened bool
	// Version returns a recorded version of the policy, nil if there is none.
	Version func(version int) *policy.Program
	// Grants raised counters in history, which the candidate's budgets continue if they mean the same. Nil: none did.
	Grants *audit.GrantRecord
	// Flip is called with each flip that is kept by name.
	Flip func(report.Flip)
}

// Record is a recorded check.
type Record struct {
	Check *spend.Check
	// Foreign marks a check of another policy: it leaves its fingerprint, and only its ID,
	// fingerprint, pass, effect, payment and the approval that it used are set.
	Foreign bool
	// Reports are the check's outcomes that may change what it took, by their numbers.
	Reports []*spend.Outcome
	// Asked is the request for the approval that this check uses, if the request was made before the
	// first record; nil when it is not known.
	Asked *spend.ApprovalRequest
	// Approval is the approval that the check itself asked for; nil when it asked for none, or the
	// approval is not known.
	Approval *audit.Approval
}

// Engine replays records.
type Engine struct {
	o       Options
	tally   *report.Tally
	since   time.Time // the first moment whose checks are counted
	passes  passes
	taken   [sides]counters
	asked   map[spend.ID]*asking
	paid    map[spend.Hash]allowance
	reports reports
	peaks   map[string]*peak
	warmUp  int64 // checks of the policy before From
	swept   int   // the bytes that were held after the last sweep
}

// asking is a check that asked for an approval.
type asking struct {
	rules   [sides][]spend.EscalatedRule
	allowed bool // by the candidate, which needs no approval
	charges []spend.Charge
	until   int64 // when the approval can no longer be used
	ends    int64 // when the candidate's approval ends, because it is used too late or not at all; 0: as in history
}

// New returns an engine before its first record.
func New(o Options) *Engine {
	e := &Engine{
		o: o, tally: report.NewTally(), since: o.From, asked: make(map[spend.ID]*asking),
		paid: make(map[spend.Hash]allowance), peaks: make(map[string]*peak),
	}
	if o.Kept != nil {
		e.tally, e.since = report.Continue(o.Kept), time.Time(o.Kept.Coverage.To).Add(time.Millisecond)
	}
	for side := range e.taken {
		e.taken[side].byID = make(map[spend.ID]*counter)
	}
	return e
}

// judgement is how a side decides a check.
type judgement struct {
	report.Verdict
	repeats bool           // the check is a duplicate
	charges []spend.Charge // of the budgets that judge it
	asks    *spend.ApprovalRequest
}

// Feed replays the next record; they come in the order of their identifiers. It fails
// with ErrTooLarge.
func (e *Engine) Feed(r *Record) error {
	c := r.Check
	e.reportUntil(order(c.ID))
	if c.Decision.Reason == spend.ReasonFrozen { // it was judged by no rule, and left nothing
		return nil
	}
	if r.Foreign {
		left := held{until: c.Pass.UntilMS, effect: c.Decision.Effect}
		if r.Approval != nil {
			left.expires = r.expires(r.Approval.Check.Approval)
		}
		e.leave(c, [sides]held{left, left})
		e.expect(c, c.Action.ApprovalID, r.Reports, nil, nil)
		return e.bound(c)
	}
	own := e.o.Version(c.Decision.PolicyVersion)
	if c.Timestamp().Before(e.o.From) {
		e.warmUp++
		e.follow(r, own, nil)
		return e.bound(c)
	}
	e.compare(r, own)
	return e.bound(c)
}

// compare judges a check of the period by both sides.
func (e *Engine) compare(r *Record, own *policy.Program) {
	c := r.Check
	if made, is := e.paid[c.PaymentHash()]; is && made.round == c.Payment.Round {
		e.skip(c, PaymentAllowed)
		e.followMade(r, own, made.check, made.charges)
		return
	}
	asked, known := e.askedBy(r)
	var reason string
	switch {
	case own == nil:
		reason = VersionUnknown
	case !known:
		reason = ApprovalUnknown
	default:
		reason = e.unexplained(c, own, asked)
	}
	if reason != "" {
		e.skip(c, reason)
		e.follow(r, own, nil)
		return
	}
	if asked != nil && asked.allowed && !e.o.Recorded {
		e.skip(c, ApprovalNotNeeded)
		e.followMade(r, own, c.Action.ApprovalID, asked.charges)
		return
	}
	if asked != nil && asked.ends != 0 && asked.ends <= c.Timestamp().UnixMilli() {
		asked = nil // the candidate no longer has an approval
	}
	j := e.judge(candidate, e.o.Candidate, c, asked)
	j.Version = e.o.Candidate.Version() // 0 of rules that are no version
	was := report.VerdictOf(&c.Decision)
	if e.counts(c) && e.tally.Add(&c.Action, was, j.Verdict) && e.o.Flip != nil {
		e.o.Flip(report.FlipOf(c, was, j.Verdict))
	}
	e.follow(r, own, &j)
}

// counts reports whether the report is to count a check: it is of the period, and Kept does not count it.
func (e *Engine) counts(c *spend.Check) bool { return !c.Timestamp().Before(e.since) }

func (e *Engine) skip(c *spend.Check, reason string) {
	if e.counts(c) {
		e.tally.Skip(reason)
	}
}

// unexplained returns why the version that judged the check does not give the recorded decision; empty
// if it does.
func (e *Engine) unexplained(c *spend.Check, own *policy.Program, asked *asking) string {
	now, was := e.judge(recorded, own, c, asked), report.VerdictOf(&c.Decision)
	now.Version = was.Version
	switch {
	case now.Verdict == was && asksFor(now.asks, c.Approval):
		return ""
	case now.Verdict == was && own.HasBudgets(): // which had room then, or not any more
		return BudgetOrder
	case now.Reason == spend.ReasonDuplicate || was.Reason == spend.ReasonDuplicate:
		return DuplicateOrder
	case byBudget(now.Reason) || byBudget(was.Reason):
		return BudgetOrder
	}
	return OtherDecision
}

// asksFor reports whether both requests are for the same rules, so that an approval of one lifts the
// escalations of the other.
func asksFor(now, was *spend.ApprovalRequest) bool {
	if now == nil || was == nil {
		return now == was
	}
	return slices.EqualFunc(now.Rules, was.Rules, func(a, b spend.EscalatedRule) bool { return a.RuleID == b.RuleID })
}

func byBudget(r spend.Reason) bool {
	return r == spend.ReasonBudgetExceeded || r == spend.ReasonCountLimitExceeded
}

// askedBy returns the check whose approval this check was sent with; nil without one.
func (e *Engine) askedBy(r *Record) (asked *asking, known bool) {
	id := r.Check.Action.ApprovalID
	if id.IsZero() {
		return nil, true
	}
	if asked = e.asked[id]; asked != nil {
		return asked, true
	}
	if r.Asked == nil {
		return nil, false
	}
	return &asking{rules: [sides][]spend.EscalatedRule{r.Asked.Rules, r.Asked.Rules}}, true
}

// follow changes the state by a check: the state of history by the record, the state of the candidate
// by its judgement, or by the record where there is no judgement.
func (e *Engine) follow(r *Record, own *policy.Program, j *judgement) {
	c := r.Check
	inPeriod := !c.Timestamp().Before(e.o.From)
	effect, passed := c.Decision.Effect, c.Pass.Passed()
	was := held{until: c.Pass.UntilMS, effect: effect, expires: r.expires(c.Approval)}
	asks := c.Approval
	if j != nil && !e.o.Recorded {
		asks, effect, passed = j.asks, j.Effect, !j.repeats && (j.Effect != spend.Block || !byBudget(j.Reason) && c.Payment == nil)
	}
	will := held{effect: effect, expires: r.expires(asks)}
	if passed {
		will.until = c.Pass.UntilMS
		if inPeriod || e.o.Lengthened {
			window, _ := e.o.Candidate.Guard(&c.Action, c.ActionType)
			will.until = max(will.until, claimed(c)+window.Milliseconds())
		}
	}
	if c.Pass.Passed() || passed {
		e.leave(c, [sides]held{was, will})
	}
	var took, takes []spend.Charge
	if c.Decision.Effect == spend.Allow && own != nil && own.HasBudgets() {
		took = e.take(recorded, e.charges(own, c))
	}
	if effect == spend.Allow && e.o.Candidate.HasBudgets() {
		if j != nil && j.charges != nil {
			takes = j.charges
		} else {
			takes = e.charges(e.o.Candidate, c)
		}
		takes = e.take(candidate, e.counting(c, takes))
		if e.counts(c) {
			e.noteTaken(takes)
		}
	}
	e.ask(r, j, takes)
	e.pay(c, j, takes)
	if c.Decision.Effect != spend.Allow {
		return
	}
	if effect != spend.Allow {
		e.expect(c, c.Action.ApprovalID, r.Reports, took, nil, recorded)
		return
	}
	e.expect(c, c.Action.ApprovalID, r.Reports, took, takes)
}

// ask remembers the approval that the check asks for.
func (e *Engine) ask(r *Record, j *judgement, takes []spend.Charge) {
	c := r.Check
	if c.Approval == nil {
		return // nobody was asked, so nobody decided
	}
	a := &asking{until: c.Timestamp().Add(c.Approval.Expires + c.Approval.UseWithin).UnixMilli()}
	a.rules = [sides][]spend.EscalatedRule{c.Approval.Rules, c.Approval.Rules}
	if j != nil {
		a.rules[candidate], a.allowed, a.charges = nil, j.Effect == spend.Allow, takes
		if j.asks != nil {
			a.rules[candidate] = j.asks.Rules
			if shorter := j.asks.Expires < c.Approval.Expires || j.asks.UseWithin < c.Approval.UseWithin; shorter && !e.o.Recorded {
				a.ends = r.expires(j.asks) // else history's use was in time, whatever clocks say
			}
		}
	}
	e.asked[c.ID] = a
}

// leave adds the fingerprint of a check.
func (e *Engine) leave(c *spend.Check, by [sides]held) {
	e.passes.add(c, by)
}

// claimed returns when a check claimed its fingerprint, or when it was made if it claimed none.
func claimed(c *spend.Check) int64 {
	if c.Pass.Passed() {
		return c.Pass.ClaimedMS
	}
	return c.Timestamp().UnixMilli()
}

// bound sweeps ended state from time to time, and fails when so much remains that sweeping would take
// most of the time.
func (e *Engine) bound(c *spend.Check) error {
	n := e.held()
	if n < e.swept/4*5+1<<16 && n <= maxHeld {
		return nil
	}
	now := c.Timestamp().UnixMilli()
	e.passes.sweep(now)
	for side := range e.taken {
		e.taken[side].sweep(now)
	}
	for id, a := range e.asked {
		if a.until <= now {
			delete(e.asked, id)
		}
	}
	if e.swept = e.held(); e.swept > maxHeld/8*7 {
		return ErrTooLarge
	}
	return nil
}

func (e *Engine) held() int {
	return e.passes.count*passBytes + (e.taken[recorded].count+e.taken[candidate].count)*bucketBytes +
		len(e.asked)*askingBytes + len(e.paid)*allowanceBytes + len(e.reports)*reportBytes
}

// order returns the place of a check's or an outcome's ID in time, to a quarter of a microsecond:
// identifiers of outcomes are of another UUID version.
func order(id spend.ID) uint64 {
	at := binary.BigEndian.Uint64(id[:8])
	return at>>16<<12 | at&0xfff
}

// Report returns the result of the records that were fed. Its Coverage has the counts.
func (e *Engine) Report() *report.Report {
	r := e.tally.Report()
	r.Coverage.From, r.Coverage.To = report.Time(e.o.From), report.Time(e.o.To)
	r.Coverage.WarmUp = &report.WarmUp{Checks: e.warmUp}
	r.Budgets = e.budgetPeaks()
	if kept := e.o.Kept; kept != nil {
		r.Coverage.WarmUp, r.Coverage.MissingDays = kept.Coverage.WarmUp, slices.Clone(kept.Coverage.MissingDays)
		for i := range r.Budgets {
			r.Budgets[i].Join(&kept.Budgets[i]) // of the same candidate
		}
	}
	return r
}
