package judge

import (
	"cmp"
	"fmt"
	"math/big"
	"regexp"
	"slices"
	"strings"
	"time"
)

// Counter is a recorded counter of a budget.
type Counter struct {
	PolicyID string `json:"policy_id"`
	RuleID   string `json:"rule_id"`
	Subject  string `json:"subject"`
	StartMS  int64  `json:"start_ms"`
	Used     string `json:"used"`
	Count    int64  `json:"count"`
}

// place is a counter in a window or bucket.
type place struct {
	policyID, ruleID, subject string
	startMS                   int64
}

// spending is an allowed check, as it is recorded or as it was answered.
type spending struct {
	policyVersion
	atMS  int64
	agent string

	committedUS int64
	metadata    map[string]any

	amount *big.Rat
	back   *big.Rat // the part that was given back
	over   *big.Rat // what was moved beyond the amount
	gone   bool     // the whole amount was given back, and the count
	freed  *big.Rat // the most that was given back at any moment
	free   bool     // whether all was given back at some moment
}

// sum is what was taken from a counter.
type sum struct {
	used  *big.Rat
	count int64
}

func (s sum) String() string { return fmt.Sprintf("%s of %d", s.used.FloatString(2), s.count) }

// bucketMS is the length of the buckets of a rolling window of a minute, the only
// one of the workload; 61 of them count (S34).
const bucketMS = 1000

// place returns the counter and window in which the budget counts an agent's action at a time; none if the action lacks what the budget
// counts apart.
func (r *rule) place(s *spending) (p place) {
	var values []string
	for _, name := range r.Parameters.Per {
		value := fmt.Sprintf("%q", s.agent)
		if member, is := strings.CutPrefix(name, "metadata."); is {
			value = dimension(s.metadata, member)
		}
		if value == "" {
			return p
		}
		values = append(values, value)
	}
	p = place{policyID: s.id, ruleID: r.ID, subject: "[" + strings.Join(values, ",") + "]"}
	switch {
	case r.Parameters.RollingMinutes > 0:
		p.startMS = s.atMS - s.atMS%bucketMS
	case r.Parameters.Window == "hour":
		p.startMS = s.atMS - s.atMS%time.Hour.Milliseconds()
	}
	return p
}

// holds reports whether the budget allows what was taken.
func (r *rule) holds(s sum) bool {
	limit, limited := new(big.Rat).SetString(string(r.Parameters.Limit))
	return (!limited || s.used.Cmp(limit) <= 0) && (r.Parameters.MaxCount == 0 || s.count <= r.Parameters.MaxCount)
}

// take adds what a check spent to its counter, without what was given back.
func (r *rule) take(sums map[place]sum, at place, all *spending) {
	s, ok := sums[at]
	if !ok {
		s.used = new(big.Rat)
	}
	if r.Parameters.Limit != "" {
		s.used.Add(s.used, all.amount).Sub(s.used, all.back).Add(s.used, all.over)
	}
	if !all.gone {
		s.count++
	}
	sums[at] = s
}

// sums adds up what was spent. The limits of a budget are the same in all
// versions of a history.
func (e *evidence) sums(all []spending) (sums map[place]sum, of map[place]*rule) {
	sums, of = make(map[place]sum), make(map[place]*rule)
	for i := range all {
		p := e.policies[all[i].policyVersion]
		if p == nil {
			continue // G4
		}
		for n := range p.rules {
			r := &p.rules[n]
			if at := r.place(&all[i]); r.Type == "budget" && at != (place{}) {
				of[at] = r
				r.take(sums, at, &all[i])
			}
		}
	}
	return sums, of
}

// budgetsHold: neither the recorded nor the answered allows exceed a budget, and the counters equal
// the sums of the rows (G12).
func (e *evidence) budgetsHold() {
	var recorded, answered []spending
	for i := range e.Rows {
		if r := &e.Rows[i]; r.Decision == "allow" {
			s := spending{policyVersion: policyVersion{r.PolicyID, r.PolicyVersion}, atMS: r.AtMS, agent: r.AgentID, committedUS: r.CommittedUS}
			s.metadata = r.metadata()
			recorded = append(recorded, e.corrected(s, r.Amount, r.CheckID))
		}
	}
	for _, all := range e.answers {
		if c := all[0]; c.result.Decision == "allow" {
			at, _ := time.Parse(time.RFC3339, c.result.Timestamp)
			s := spending{policyVersion: policyVersion{c.request.PolicyID, c.result.PolicyVersion}, atMS: at.UnixMilli(), agent: c.request.AgentID}
			if row := e.rows[c.result.CheckID]; row != nil {
				s.committedUS, s.metadata = row.CommittedUS, row.metadata()
			}
			answered = append(answered, e.corrected(s, string(c.request.Amount), c.result.CheckID))
		}
	}
	e.neverOver("are recorded", recorded)
	e.neverOver("were answered", answered)
	sums, _ := e.sums(recorded)
	for _, c := range e.Counters {
		at := place{c.PolicyID, c.RuleID, c.Subject, c.StartMS}
		taken, ok := sums[at]
		if !ok {
			taken.used = new(big.Rat)
		}
		if used, valid := new(big.Rat).SetString(c.Used); !valid || used.Cmp(taken.used) != 0 || c.Count != taken.count {
			e.findings = append(e.findings, Finding{Rule: "G12", Text: fmt.Sprintf("the counter %+v is not what is recorded: %s", c, taken)})
		}
		delete(sums, at)
	}
	for at, taken := range sums {
		e.findings = append(e.findings, Finding{Rule: "G12", Text: fmt.Sprintf("the counter %+v is not there; %s are recorded", at, taken)})
	}
}

// corrected applies the outcomes of a check to what it spent.
func (e *evidence) corrected(s spending, amount, checkID string) spending {
	s.amount, _ = new(big.Rat).SetString(amount)
	s.back, s.over, s.gone = e.correction(e.last(checkID), s.amount)
	s.freed, s.free = s.back, s.gone
	for _, o := range e.outcomes[checkID] {
		back, _, gone := e.correction(o, s.amount)
		if s.free = s.free || gone; back.Cmp(s.freed) > 0 {
			s.freed = back
		}
	}
	return s
}

// neverOver adds up each counter's window; for a rolling window, all buckets that count together
// from each bucket on. It ignores amounts moved beyond an allowed amount, which may exceed a limit
// while what was allowed before and after may not (S40), and amounts that were given back and then
// moved after all (S61).
func (e *evidence) neverOver(what string, all []spending) {
	all = slices.Clone(all)
	for i := range all {
		all[i].over, all[i].back, all[i].gone = new(big.Rat), all[i].freed, all[i].free
	}
	sums, of := e.sums(all)
	for at, s := range sums {
		r := of[at]
		if r.Parameters.RollingMinutes > 0 {
			s = sum{used: new(big.Rat)}
			for later, more := range sums {
				in := later
				in.startMS = at.startMS
				if in == at && later.startMS >= at.startMS && later.startMS <= at.startMS+60*bucketMS {
					s.used, s.count = new(big.Rat).Add(s.used, more.used), s.count+more.count
				}
			}
		}
		if !r.holds(s) && e.exceeds(r, at, all) {
			e.findings = append(e.findings, Finding{Rule: "G12", Text: fmt.Sprintf("%s %s in %+v: more than the budget", s, what, at)})
		}
	}
}

var toldUsed = regexp.MustCompile(`: ([0-9.]+) USD of ([0-9.]+) USD are used`)

// exceededIsTrue: the use of a money budget that a check was told was the actual use at some moment
// of its request, and left no room for it (G12). The least possible use is what was allowed before
// the request and not given back until its answer; the greatest is what was requested until the
// answer and not given back before the request.
func (e *evidence) exceededIsTrue() {
	for _, c := range e.checks {
		if c.result == nil || c.Replayed || deref(c.result.ReasonCode) != "budget_exceeded" {
			continue
		}
		p := e.policies[policyVersion{c.request.PolicyID, c.result.PolicyVersion}]
		told := toldUsed.FindStringSubmatch(deref(c.result.Message))
		if p == nil || told == nil {
			e.find("G12", "no figures of the exceeded budget: "+c.Answer, c)
			continue
		}
		used, _ := new(big.Rat).SetString(told[1])
		limit, _ := new(big.Rat).SetString(told[2])
		for i := range p.rules {
			r := &p.rules[i]
			if r.ID != deref(c.result.RuleID) {
				continue
			}
			least, most, asked := e.usedWithin(r, c)
			if used.Cmp(least) < 0 || used.Cmp(most) > 0 || new(big.Rat).Add(used, asked).Cmp(limit) <= 0 || !e.toldLimit(r, c, limit) {
				e.find("G12", fmt.Sprintf("told that %s of %s are used, which was true at no moment: from %s to %s were, %s were asked for",
					told[1], told[2], least.FloatString(2), most.FloatString(2), asked.FloatString(2)), c)
			}
		}
	}
}

// spentBy returns what an answered check would take.
func (e *evidence) spentBy(c *check) spending {
	at, _ := time.Parse(time.RFC3339, c.result.Timestamp)
	amount, _ := new(big.Rat).SetString(string(c.request.Amount))
	s := spending{policyVersion: policyVersion{c.request.PolicyID, 0}, atMS: at.UnixMilli(), agent: c.request.AgentID, amount: amount}
	if row := e.rows[c.result.CheckID]; row != nil {
		s.metadata = row.metadata()
	}
	return s
}

// usedWithin returns the bounds of a calendar window's counter while a request was in flight.
func (e *evidence) usedWithin(r *rule, c *check) (least, most, asked *big.Rat) {
	least, most = new(big.Rat), new(big.Rat)
	own := e.spentBy(c)
	where := r.place(&own)
	for i := range e.Rows {
		row := &e.Rows[i]
		amount, ok := new(big.Rat).SetString(row.Amount)
		s := spending{policyVersion: policyVersion{row.PolicyID, 0}, atMS: row.AtMS, agent: row.AgentID, amount: amount}
		s.metadata = row.metadata()
		if !ok || row.Decision != "allow" || r.place(&s) != where {
			continue
		}
		if e.at(row.AtMS) <= c.Done+clockMargin {
			most.Add(most, amount)
		}
		for _, other := range e.answers[row.CheckID] {
			if other.Done < c.Sent {
				least.Add(least, amount)
				break
			}
		}
		e.corrections(row.CheckID, amount, func(o *Outcome, back, over *big.Rat) {
			if e.at(o.AtMS) <= c.Done+clockMargin {
				least.Sub(least, back)
				most.Add(most, over)
			}
			if e.reportedBy(o) < c.Sent {
				most.Sub(most, back)
				least.Add(least, over)
			}
		})
	}
	return least, most, own.amount
}

// byBudget returns the decision of the version's budget with that name; empty if there is none.
func (p *program) byBudget(ruleID string) string {
	for _, r := range p.rules {
		if r.Type == "budget" && r.ID == ruleID {
			return cmp.Or(r.Parameters.OnExceed, "block")
		}
	}
	return ""
}
