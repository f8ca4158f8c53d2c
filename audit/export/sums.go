package export

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"time"

	"spendgate/audit"
	"spendgate/audit/chain"
	"spendgate/audit/spend"
	"spendgate/audit/verify"
)

// Sum is what one agent's checks passed under one policy on one day, in total or as taken from one
// window of a budget.
type Sum struct {
	Day         string // of the zone of SumsOf
	AgentID     string
	PolicyID    string
	RuleID      string    // of the budget; empty for the policy as a whole
	Since       int       // the version since which the budget counts
	Per         string    // a JSON array of the values of `per`
	WindowStart time.Time // zero for a rolling window and for a lifetime
	Currency    string    // empty for a budget without a currency

	Checks     int64       // passed and not given back
	Amount     spend.Total // as outcomes corrected it
	Approved   spend.Total // the part that an approval allowed
	Unapproved spend.Total // executed of checks that were escalated without an approval of this service

	// What the window holds at the end of the day, for all agents and days; for a rolling window,
	// the maximum during the day.
	WindowChecks int64
	WindowAmount spend.Total
	Limit        *spend.Total // of the version by which the window was last taken from, by anybody; nil without a limit
	MaxCount     *int64
	Granted      spend.Usage // the most that grants added to these for a check of the window; of a rolling window within its maxima
}

// Above reports whether the window exceeds its limit with its grants, which approvals and outcomes can cause.
func (s *Sum) Above() bool {
	return s.Limit != nil && s.WindowAmount.Cmp(s.Limit.Plus(s.Granted.Used)) > 0 ||
		s.MaxCount != nil && s.WindowChecks > *s.MaxCount+s.Granted.Count
}

func sumColumns() []column[Sum] {
	budget := func(value func(*Sum) string) func(*Sum) string {
		return func(s *Sum) string {
			if s.RuleID == "" {
				return ""
			}
			return value(s)
		}
	}
	return []column[Sum]{
		textual("day", func(s *Sum) string { return s.Day }),
		textual("policy_id", func(s *Sum) string { return s.PolicyID }),
		textual("rule_id", func(s *Sum) string { return s.RuleID }),
		textual("agent_id", func(s *Sum) string { return s.AgentID }),
		{"per", func(s *Sum) cell { return cell{s.Per, object, s.Per == ""} }},
		number("since_version", budget(func(s *Sum) string { return strconv.Itoa(s.Since) })),
		textual("window_start", func(s *Sum) string { return stamp(s.WindowStart) }),
		textual("currency", func(s *Sum) string { return s.Currency }),
		number("checks", func(s *Sum) string { return strconv.FormatInt(s.Checks, 10) }),
		number("amount", func(s *Sum) string { return s.amount(s.Amount) }),
		number("amount_approved", func(s *Sum) string { return s.amount(s.Approved) }),
		number("amount_unapproved", func(s *Sum) string { return s.amount(s.Unapproved) }),
		number("window_checks", budget(func(s *Sum) string { return strconv.FormatInt(s.WindowChecks, 10) })),
		number("window_amount", budget(func(s *Sum) string { return s.amount(s.WindowAmount) })),
		number("limit", func(s *Sum) string { return told(s.Limit, (*spend.Total).String) }),
		number("max_count", func(s *Sum) string {
			return told(s.MaxCount, func(n *int64) string { return strconv.FormatInt(*n, 10) })
		}),
		number("granted", func(s *Sum) string {
			if s.Granted.Used.IsZero() {
				return ""
			}
			return s.Granted.Used.String()
		}),
		number("granted_count", func(s *Sum) string {
			if s.Granted.Count == 0 {
				return ""
			}
			return strconv.FormatInt(s.Granted.Count, 10)
		}),
		textual("limit_state", budget(func(s *Sum) string {
			if s.Above() {
				return "above"
			}
			return "within"
		})),
	}
}

// amount is empty for a budget that has no amounts.
func (s *Sum) amount(t spend.Total) string {
	if s.Currency == "" {
		return ""
	}
	return t.String()
}

// WriteSums writes the sums as a file.
func WriteSums(ctx context.Context, w io.Writer, o Options) error {
	out, err := newLines(w, o.Format, o.BOM, sumColumns())
	if err != nil {
		return err
	}
	return Sums(ctx, o, out.row)
}

// Sums calls each with the sums of the days of the range, ordered by day, policy, budget, currency,
// agent and window. It reads everything recorded before the end of the range, since windows may
// have begun earlier. After the last sum it fails with the error of Manifest.Whole.
func Sums(ctx context.Context, o Options, each func(*Sum) error) error {
	heads, err := o.Record.AllHeads(ctx)
	if err != nil {
		return err
	}
	whole := o
	whole.From = time.Time{}
	g := newReading(whole, heads)
	s := &summing{
		limits: make(map[budgetVersion]limit), lines: make(map[sumKey]*Sum), windows: make(map[spend.Counter]*held), of: o.Sums, write: each,
	}
	if !o.From.IsZero() {
		s.from = s.of.day(o.From)
	}
	if err := verify.Policies(ctx, o.Record, s.policy); err != nil {
		return err
	}
	err = g.each(ctx, func(rows []*row) error {
		if err := g.addSteps(ctx, rows); err != nil {
			return err
		}
		for _, r := range rows {
			if err := s.take(r); err != nil {
				return err
			}
		}
		return nil
	})
	if err == nil {
		err = s.endDay()
	}
	m := Manifest{
		Absent: g.absent, AbsentBatches: g.absentBatches(), NotCompared: g.notCompared, NotInChain: g.unlisted, Altered: g.altered,
		Missing: g.missing,
	}
	return errors.Join(err, m.Whole())
}

// budgetVersion names a budget in a version of a policy.
type budgetVersion struct {
	policyID string
	version  int
	ruleID   string
}

type limit struct {
	used     *spend.Total
	count    *int64
	currency string
}

// sumKey identifies a line of a day.
type sumKey struct {
	policyID, ruleID, currency, agentID string
	window                              spend.Counter // a rolling window's has no bucket
}

// held is what a window, or a bucket of a rolling window, holds.
type held struct {
	spend.Usage
	endMS   int64
	granted spend.Usage // the most that grants gave to a check; of a rolling window to one of those that counted on the day
	by      limit       // for a window, and for a rolling window as a whole: the limit of the version that last judged
	peak    spend.Usage // for the counter without a bucket: the maximum that a rolling window held on the day
}

// summing processes checks in the order of time. It keeps the lines of the current day, and windows
// until they end.
type summing struct {
	limits    map[budgetVersion]limit
	day, from verify.Day
	lines     map[sumKey]*Sum
	windows   map[spend.Counter]*held
	of        SumsOf
	write     func(*Sum) error
}

// day is the date in the zone.
func (o SumsOf) day(t time.Time) verify.Day {
	if o.Zone == nil {
		return verify.DayAt(t)
	}
	year, month, day := t.In(o.Zone).Date()
	return verify.DayAt(time.Date(year, month, day, 0, 0, 0, 0, time.UTC))
}

// has reports whether a line is selected.
func (o SumsOf) has(k sumKey) bool {
	return (o.PolicyID == "" || k.policyID == o.PolicyID) && (o.AgentID == "" || k.agentID == o.AgentID)
}

// policy notes the limits of a version.
func (s *summing) policy(p verify.PolicyVersion, encoded []byte) error {
	fields, err := chain.ParseFields(nil, encoded)
	if err != nil {
		return err
	}
	unreadable := fmt.Errorf("version %d of policy %q cannot be read: see audit verify", p.Version, p.PolicyID)
	if len(fields) != len(chain.Policies().Fields) {
		return unreadable
	}
	rules, err := verify.ParseLimits(fields[chain.Policies().Index("rules")])
	if err != nil {
		return unreadable
	}
	for _, rule := range rules {
		if rule.Type == "budget" {
			s.limits[budgetVersion{p.PolicyID, p.Version, rule.RuleID}] = limit{rule.Used, rule.Count, rule.Currency}
		}
	}
	return nil
}

// take adds a check.
func (s *summing) take(r *row) error {
	c, last := r.check, r.course.Last()
	if day := s.of.day(c.ID.Time()); day > s.day { // clocks that go back over midnight begin no day again
		if err := s.endDay(); err != nil {
			return err
		}
		s.day = day
	}
	if !c.TakesOutcome() {
		return nil
	}
	whole := s.line(sumKey{policyID: c.Action.PolicyID, currency: c.Action.Currency, agentID: c.Action.AgentID})
	if c.Decision.Effect != spend.Allow {
		if last != nil && last.Status == spend.Executed {
			whole.Unapproved = whole.Unapproved.Plus(last.Amount.Total())
		}
		return nil
	}
	if !last.Frees() {
		whole.add(c, last.Moved(c).Total(), 1)
	}
	for i := range c.Charges {
		s.charge(c, &c.Charges[i], last)
	}
	return nil
}

func (s *Sum) add(c *spend.Check, amount spend.Total, checks int64) {
	s.Checks += checks
	s.Amount = s.Amount.Plus(amount)
	if c.UsesApproval() {
		s.Approved = s.Approved.Plus(amount)
	}
}

func (s *summing) line(k sumKey) *Sum {
	one := s.lines[k]
	if one == nil {
		one = &Sum{Day: s.day.String(), AgentID: k.agentID, PolicyID: k.policyID, RuleID: k.ruleID, Currency: k.currency}
		s.lines[k] = one
	}
	return one
}

// charge adds what a check took from a budget, as its last report corrected it.
func (s *summing) charge(c *spend.Check, ch *spend.Charge, last *spend.Outcome) {
	by := s.limits[budgetVersion{c.Action.PolicyID, c.Decision.PolicyVersion, ch.RuleID}]
	k := sumKey{policyID: c.Action.PolicyID, ruleID: ch.RuleID, agentID: c.Action.AgentID, window: ch.Counter}
	if ch.Counter.BucketMS > 0 {
		k.window.StartMS = 0
	}
	if !ch.NoCurrency {
		k.currency = cmp.Or(by.currency, c.Action.Currency)
	}
	corrected := last.Corrected(ch)
	amount := spend.Total{}
	if !ch.NoCurrency {
		amount, _ = ch.Amount.Total().Plus(corrected.Over).Minus(corrected.Back) // never more is given back than was taken
	}
	one := s.line(k)
	one.Since, one.Per = ch.Since, ch.Subject
	if k.window.StartMS > 0 {
		one.WindowStart = time.UnixMilli(ch.BeginMS())
	}
	one.add(c, amount, 1-corrected.Count)
	s.hold(ch, spend.Usage{Used: amount, Count: 1 - corrected.Count})
	s.windows[k.window].by = by
}

// hold adds to the window, and updates the maximum of a rolling one.
func (s *summing) hold(ch *spend.Charge, u spend.Usage) {
	at := func(c spend.Counter) *held {
		h := s.windows[c]
		if h == nil {
			h = &held{}
			s.windows[c] = h
		}
		h.endMS = max(h.endMS, ch.EndMS)
		if ch.EndMS == 0 {
			h.endMS = 1<<63 - 1
		}
		return h
	}
	one := at(ch.Counter)
	one.Usage, one.granted = one.Usage.Add(u), most(one.granted, ch.Granted)
	if ch.Counter.BucketMS == 0 {
		return
	}
	whole := ch.Counter
	whole.StartMS = 0
	now, granted, bucket := spend.Usage{}, spend.Usage{}, ch.Counter
	for range spend.RollingBuckets + 1 {
		if h := s.windows[bucket]; h != nil {
			now, granted = now.Add(h.Usage), most(granted, h.granted)
		}
		bucket.StartMS -= bucket.BucketMS
	}
	h := at(whole)
	h.peak, h.granted = most(h.peak, now), most(h.granted, granted)
}

// most returns the larger amount and the larger number.
func most(a, b spend.Usage) spend.Usage {
	if a.Used.Cmp(b.Used) < 0 {
		a.Used = b.Used
	}
	a.Count = max(a.Count, b.Count)
	return a
}

// endDay writes the lines of the day, and drops the windows that have ended.
func (s *summing) endDay() error {
	keys := make([]sumKey, 0, len(s.lines))
	for k := range s.lines {
		keys = append(keys, k)
	}
	slices.SortFunc(keys, func(a, b sumKey) int {
		return cmp.Or(cmp.Compare(a.policyID, b.policyID), cmp.Compare(a.ruleID, b.ruleID), cmp.Compare(a.currency, b.currency),
			cmp.Compare(a.agentID, b.agentID), cmp.Compare(s.lines[a].Since, s.lines[b].Since), cmp.Compare(a.window.StartMS, b.window.StartMS),
			cmp.Compare(s.lines[a].Per, s.lines[b].Per))
	})
	for _, k := range keys {
		one := s.lines[k]
		if h := s.windows[k.window]; h != nil {
			u := h.Usage
			if k.window.BucketMS > 0 {
				u = h.peak
			}
			one.WindowAmount, one.WindowChecks, one.Limit, one.MaxCount, one.Granted = u.Used, u.Count, h.by.used, h.by.count, h.granted
		}
		if s.day < s.from || !s.of.has(k) {
			continue
		}
		if err := s.write(one); err != nil {
			return err
		}
	}
	clear(s.lines)
	end := s.day.Range().High.Time().Add(-audit.KeepCounters).UnixMilli()
	for c, h := range s.windows {
		if h.endMS <= end {
			delete(s.windows, c)
		}
		if h.peak = (spend.Usage{}); c.BucketMS > 0 && c.StartMS == 0 {
			h.granted = spend.Usage{}
		}
	}
	return nil
}
