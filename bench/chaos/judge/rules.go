package judge

import (
	"cmp"
	"encoding/json"
	"fmt"
	"math/big"
	"reflect"
	"slices"
	"time"
)

// defaultWindow is the duplicate window of a policy without a duplicate_guard (S17).
const defaultWindow = 5 * time.Minute

// program is a policy version with the rule types of the workload.
type program struct {
	Policy
	window time.Duration
	rules  []rule
}

type rule struct {
	ID         string `json:"rule_id"`
	Type       string `json:"rule_type"`
	When       *when  `json:"when"`
	Parameters struct {
		Limit         json.Number `json:"limit"`
		AmountAbove   json.Number `json:"amount_above"`
		AmountUpTo    json.Number `json:"amount_up_to"`
		AllowedHours  string      `json:"allowed_hours"`
		TimeZone      string      `json:"time_zone"`
		WindowMinutes int         `json:"window_minutes"`

		MaxCount       int64    `json:"max_count"` // of budgets, as are the rest
		Per            []string `json:"per"`
		Window         string   `json:"window"`
		RollingMinutes int      `json:"rolling_minutes"`
		OnExceed       string   `json:"on_exceed"`
	} `json:"parameters"`
}

func compile(p *Policy) (*program, error) {
	c := &program{Policy: *p}
	if err := json.Unmarshal(p.Rules, &c.rules); err != nil {
		return nil, fmt.Errorf("policy %s version %d: %w", p.ID, p.Version, err)
	}
	for _, r := range c.rules {
		c.window = max(c.window, time.Duration(r.Parameters.WindowMinutes)*time.Minute)
	}
	c.window = cmp.Or(c.window, defaultWindow)
	return c, nil
}

// judge returns the decision on an action and the rule that makes it. It evaluates the types of rules that the workload uses, in its
// currency. An escalation that people approved under another version is lifted if the rule is the same (S47).
func (p *program) judge(row *Row, approved *program) (decision, ruleID string) {
	decision = "allow"
	for _, r := range p.rules {
		effect := r.fires(row)
		switch {
		case effect == "block":
			return effect, r.ID
		case effect == "escalate" && decision == "allow" && !approved.has(r):
			decision, ruleID = effect, r.ID
		}
	}
	return decision, ruleID
}

// fires returns what a rule does to an action; empty for nothing. Budgets are judged apart (G12).
func (r *rule) fires(row *Row) (effect string) {
	all, lacks := r.When.match(row)
	if lacks && r.When.OnMissing != "" {
		return r.When.OnMissing
	}
	block, escalate := false, false
	switch r.Type {
	case "max_amount":
		block = exceeds(row.Amount, r.Parameters.Limit)
	case "block_if":
		block = true
	case "time_restriction":
		block = !r.open(row.AtMS)
	case "escalate_if":
		escalate = exceeds(row.Amount, r.Parameters.AmountAbove) &&
			(r.Parameters.AmountUpTo == "" || !exceeds(row.Amount, r.Parameters.AmountUpTo))
	}
	switch {
	case all && block:
		return "block"
	case all && escalate:
		return "escalate"
	}
	return ""
}

func (p *program) has(r rule) bool {
	return p != nil && slices.ContainsFunc(p.rules, func(other rule) bool {
		return other.ID == r.ID && other.Type == r.Type && reflect.DeepEqual(other.Parameters, r.Parameters) &&
			reflect.DeepEqual(other.When, r.When)
	})
}

func exceeds(amount string, limit json.Number) bool {
	a, ok := new(big.Rat).SetString(amount)
	b, okToo := new(big.Rat).SetString(string(limit))
	return ok && okToo && a.Cmp(b) > 0
}

// policiesAreStored: versions are consecutive, and each confirmed version is stored as it was sent.
func (e *evidence) policiesAreStored() {
	latest := make(map[string]int)
	for _, p := range e.Policies {
		latest[p.ID] = max(latest[p.ID], p.Version)
	}
	for id, n := range latest {
		for v := range n {
			if e.policies[policyVersion{id, v + 1}] == nil {
				e.findOp("G4", fmt.Sprintf("policy %s has version %d but not %d", id, n, v+1))
			}
		}
	}
	taken := make(map[policyVersion]*Op)
	for _, o := range e.posts() {
		sent, stored := rulesOf(o.Request), e.policies[o.version]
		switch other := taken[o.version]; {
		case other != nil:
			e.findOp("G4", fmt.Sprintf("policy %s version %d was confirmed twice", o.version.id, o.version.version), other, o.Op)
		case stored == nil || sortedJSON(stored.Rules) != sent:
			e.findOp("G4", fmt.Sprintf("policy %s version %d was confirmed and is not what is stored", o.version.id, o.version.version), o.Op)
		}
		taken[o.version] = o.Op
	}
}

func rulesOf(body json.RawMessage) string {
	var p struct {
		Rules json.RawMessage `json:"rules"`
	}
	if json.Unmarshal(body, &p) != nil {
		return ""
	}
	return sortedJSON(p.Rules)
}

// post is a confirmed policy version.
type post struct {
	*Op
	version policyVersion
}

// posts returns the confirmed versions in the order of their confirmation.
func (e *evidence) posts() (all []post) {
	for i := range e.Ops {
		o := &e.Ops[i]
		var p struct {
			ID      string `json:"policy_id"`
			Version int    `json:"version"`
		}
		if o.Kind == Post && o.Status == 201 && json.Unmarshal([]byte(o.Answer), &p) == nil {
			all = append(all, post{o, policyVersion{p.ID, p.Version}})
		}
	}
	slices.SortFunc(all, func(a, b post) int { return cmp.Compare(a.Done, b.Done) })
	return all
}

// policiesAreFresh: no check is decided by a version older than one confirmed before its request
// was sent (G4). A row that several requests may have made is judged as that of the first.
func (e *evidence) policiesAreFresh() {
	posts := e.posts()
	newest := func(policyID string, before time.Duration) (latest post) {
		for _, p := range posts {
			if p.Done >= before {
				break
			}
			if p.version.id == policyID && p.version.version > latest.version.version {
				latest = p
			}
		}
		return latest
	}
	for i := range e.Rows {
		r := &e.Rows[i]
		made := e.producers(r)
		if len(made) == 0 {
			continue
		}
		if p := newest(r.PolicyID, made[0].Sent); p.version.version > r.PolicyVersion {
			e.findOp("G4", fmt.Sprintf("%s was judged by version %d of %s; version %d had been confirmed",
				r.CheckID, r.PolicyVersion, r.PolicyID, p.version.version), p.Op, made[0].Op)
		}
	}
	for i := range e.Ops {
		o := &e.Ops[i]
		var a struct {
			ID      string `json:"policy_id"`
			Version int    `json:"policy_version"`
		}
		if o.Kind != Simulate || o.Status != 200 || json.Unmarshal([]byte(o.Answer), &a) != nil {
			continue
		}
		if p := newest(a.ID, o.Sent); p.version.version > a.Version {
			e.findOp("G4", fmt.Sprintf("simulated by version %d of %s; version %d had been confirmed", a.Version, a.ID, p.version.version), p.Op, o)
		}
	}
}

// decisionsFollowRules: a check is decided by the rules of the version that it names (G4).
func (e *evidence) decisionsFollowRules() {
	for i := range e.Rows {
		r := &e.Rows[i]
		p := e.policies[policyVersion{r.PolicyID, r.PolicyVersion}]
		if p == nil {
			e.findRow("G4", fmt.Sprintf("%s was judged by version %d of %s, which is not stored", r.CheckID, r.PolicyVersion, r.PolicyID), r)
			continue
		}
		if !r.passed() && !r.exceeded() {
			continue
		}
		decision, rule := p.judge(r, e.approvedBy(r))
		if by := p.byBudget(deref(r.RuleID)); by != "" && decision != "block" {
			decision, rule = by, *r.RuleID // G12 judges whether the budget was exceeded
		}
		if decision != r.Decision || rule != deref(r.RuleID) {
			e.findRow("G4", fmt.Sprintf("%s of %s was decided as %s by %q; version %d of %s says %s by %q",
				r.CheckID, r.Amount, r.Decision, deref(r.RuleID), r.PolicyVersion, r.PolicyID, decision, rule), r)
		}
	}
}

// simulated returns the results in the answer to a simulation.
func simulated(answer string) []result {
	var body struct {
		Results []result `json:"results"`
	}
	if json.Unmarshal([]byte(answer), &body) != nil {
		return nil
	}
	return body.Results
}
