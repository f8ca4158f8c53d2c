package policycheck

import (
	"errors"
	"fmt"
	"maps"
	"strconv"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"spendgate/audit/spend"
	"spendgate/cmd/spendgate/policyfile"
	"spendgate/hotpath/httpapi"
	"spendgate/hotpath/intent"
	"spendgate/hotpath/policy"
)

// defaultTime is when a case without a time is judged: a Wednesday at noon.
const defaultTime = "2026-03-04T12:00:00Z"

// suite is one document of cases for one policy.
type suite struct {
	PolicyID string                    `json:"policy_id"`
	Defaults map[string]jsontext.Value `json:"defaults"` // fields that an action takes from here unless it has them
	Cases    []testCase                `json:"cases"`
}

// testCase is an action and the expected decision. Each case is judged by itself.
type testCase struct {
	Name   string                    `json:"name"`
	Action map[string]jsontext.Value `json:"action"`
	At     string                    `json:"at"`
	// RepeatedAfter is how many minutes before the action an identical one passed.
	RepeatedAfter *int `json:"repeated_after_minutes"`

	Decision   string  `json:"decision"`
	ReasonCode *string `json:"reason_code"`      // nil: any
	RuleID     *string `json:"violated_rule_id"` // nil: any
}

// Test judges the cases by the policies. It returns the number of cases, and a finding for each
// case that is decided otherwise and for each fault.
func Test(policies, suites []policyfile.Policy) (cases int, wrong []Finding) {
	programs := make(map[string]*policy.Program)
	for _, p := range policies {
		var faults spend.Faults
		read, err := httpapi.ReadPolicy(p.Body)
		program := policy.Compile(read.PolicyID, 1, read.Rules, &faults)
		if err != nil || program == nil {
			wrong = append(wrong, Finding{File: p.File, Line: p.Line(""), Text: "has faults, which policies lint names"})
			continue
		}
		programs[read.PolicyID] = program
	}
	if wrong != nil {
		return 0, wrong
	}
	t := tester{programs: programs, classifier: intent.New()}
	for _, file := range suites {
		t.suite(file)
	}
	return t.cases, t.wrong
}

type tester struct {
	programs   map[string]*policy.Program
	classifier *intent.Classifier
	cases      int
	wrong      []Finding
}

func (t *tester) add(file policyfile.Policy, path, format string, args ...any) {
	t.wrong = append(t.wrong, Finding{File: file.File, Line: file.Line(path), Text: fmt.Sprintf(format, args...)})
}

func (t *tester) suite(file policyfile.Policy) {
	var s suite
	if err := json.Unmarshal(file.Body, &s, json.RejectUnknownMembers(true)); err != nil {
		path, problem := file.Undecoded(err)
		if errors.Is(err, json.ErrUnknownName) {
			problem = path + " is not a known field: known are policy_id, defaults, cases"
			if strings.HasPrefix(path, "cases[") {
				problem = path + " is not a known field: known are name, action, at, repeated_after_minutes, decision, reason_code, violated_rule_id"
			}
		}
		t.add(file, path, "%s", problem)
		return
	}
	program := t.programs[s.PolicyID]
	switch {
	case program == nil:
		t.add(file, "policy_id", "policy_id %q is none of the policies'", s.PolicyID)
		return
	case len(s.Cases) == 0:
		t.add(file, "cases", "cases must have at least one case")
	}
	for i, c := range s.Cases {
		t.cases++
		path := "cases[" + strconv.Itoa(i) + "]"
		if c.Name == "" {
			c.Name = path
		}
		at, d, problem := t.judge(program, s, c)
		switch {
		case problem != "":
			t.add(file, path+"."+at, "%q: %s", c.Name, problem)
		case !c.expects(d):
			t.add(file, path, "%q: got %s, want %s: %s", c.Name, outcome(d.Effect.String(), string(d.Reason), d.RuleID), c.wanted(), d.Message)
		}
	}
}

// judge returns the decision about a case's action, or what is wrong with the case and the path of
// the wrong value.
func (t *tester) judge(program *policy.Program, s suite, c testCase) (path string, d spend.Decision, problem string) {
	if _, ok := spend.ParseEffect(c.Decision); !ok {
		return "decision", d, "decision must be allow, block or escalate"
	}
	if c.At == "" {
		c.At = defaultTime
	}
	at, err := time.Parse(time.RFC3339, c.At)
	if err != nil {
		return "at", d, "at must be a time like " + defaultTime
	}
	merged := maps.Clone(s.Defaults)
	if merged == nil {
		merged = make(map[string]jsontext.Value)
	}
	maps.Copy(merged, c.Action)
	if merged["policy_id"] == nil {
		merged["policy_id"] = jsontext.Value(strconv.Quote(s.PolicyID))
	}
	body, err := json.Marshal(merged)
	if err != nil {
		return "action", d, err.Error()
	}
	action, err := httpapi.ReadCheck(body)
	if faults, ok := errors.AsType[spend.Faults](err); ok {
		return "action." + faults[0].Path, d, err.Error()
	} else if err != nil {
		return "action", d, err.Error()
	}
	if action.PolicyID != s.PolicyID {
		return "action.policy_id", d, "policy_id must be that of the document"
	}
	resolution := spend.Resolution{Type: action.Type, Confidence: spend.High}
	if action.Type == spend.Unspecified {
		resolution = t.classifier.Classify(action.ReasonText)
	}
	window, _ := program.Guard(action, resolution.Type)
	if c.RepeatedAfter != nil && time.Duration(*c.RepeatedAfter)*time.Minute < window {
		return "", program.Duplicate(spend.ID{}, action, resolution), ""
	}
	found := program.Evaluate(action, resolution, at)
	if program.HasBudgets() && found.Effect != spend.Block {
		found = program.EvaluateBudgets(found, action, resolution, program.Charges(nil, action, resolution, "", at), nil) // of unused budgets
	}
	return "", program.Explain(found, action, resolution), ""
}

func (c *testCase) expects(d spend.Decision) bool {
	return c.Decision == d.Effect.String() &&
		(c.ReasonCode == nil || *c.ReasonCode == string(d.Reason)) &&
		(c.RuleID == nil || *c.RuleID == d.RuleID)
}

func (c *testCase) wanted() string {
	var reason, rule string
	if c.ReasonCode != nil {
		reason = *c.ReasonCode
	}
	if c.RuleID != nil {
		rule = *c.RuleID
	}
	return outcome(c.Decision, reason, rule)
}

// outcome returns a text like "block (max_amount_exceeded by cap-usd)".
func outcome(decision, reason, rule string) string {
	if rule != "" {
		reason = strings.TrimSpace(reason + " by " + rule)
	}
	if reason == "" {
		return decision
	}
	return decision + " (" + reason + ")"
}
