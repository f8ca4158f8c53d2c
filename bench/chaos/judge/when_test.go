package judge_test

import (
	"encoding/json"
	"strings"
	"testing"
)

// Each condition decides as it says, and the judge finds an allow where a rule blocks (S88, S89).
func TestConditions(t *testing.T) {
	for rule, fires := range map[string]bool{
		`"rule_type":"block_if","when":{"metadata":{"tier":["gold"]}}`:                                           true,
		`"rule_type":"block_if","when":{"metadata":{"tier":["silver",5]}}`:                                       false,
		`"rule_type":"block_if","when":{"metadata":{"n":[7.0]}}`:                                                 true,
		`"rule_type":"block_if","when":{"metadata":{"n":{"above":6,"up_to":7}}}`:                                 true,
		`"rule_type":"block_if","when":{"metadata":{"n":{"below":7}}}`:                                           false,
		`"rule_type":"block_if","when":{"metadata":{"other":["a"]}}`:                                             false,
		`"rule_type":"block_if","when":{"metadata":{"other":["a"],"n":[7]},"on_missing":"block"}`:                true,
		`"rule_type":"block_if","when":{"metadata":{"other":["a"],"n":[8]},"on_missing":"block"}`:                false,
		`"rule_type":"block_if","when":{"present":["metadata.tier"],"absent":["metadata.blank"]}`:                true,
		`"rule_type":"block_if","when":{"absent":["metadata.tier"]}`:                                             false,
		`"rule_type":"block_if","when":{"action_types":["spend"]}`:                                               false,
		`"rule_type":"block_if","when":{"amount_above":9,"amount_up_to":10}`:                                     true,
		`"rule_type":"block_if","when":{"amount_above":10}`:                                                      false,
		`"rule_type":"time_restriction","parameters":{"time_zone":"Asia/Kolkata","allowed_hours":"12:00-24:00"}`: false,
		`"rule_type":"time_restriction","parameters":{"time_zone":"Asia/Kolkata","allowed_hours":"00:00-12:00"}`: true,
		`"rule_type":"escalate_if","parameters":{"amount_above":5,"amount_up_to":10}`:                            true,
		`"rule_type":"escalate_if","parameters":{"amount_above":5,"amount_up_to":9}`:                             false,
	} {
		s := newBuilder()
		rules := json.RawMessage(strings.Replace(string(s.Policies[0].Rules), "[", `[{"rule_id":"new",`+rule+`},`, 1))
		s.Policies[0].Rules, s.Ops[0].Request = rules, json.RawMessage(`{"policy_id":"p","rules":`+string(rules)+`}`)
		_, row := s.decided(action{to: "a", amount: "10"}) // at noon in UTC
		metadata := `{"tier":"gold","n":7,"blank":" "}`
		row.Metadata = &metadata
		s.Ops[1].Request = json.RawMessage(strings.Replace(string(s.Ops[1].Request), "{", `{"metadata":`+metadata+`,`, 1))
		if findings := s.judged(t); (len(findings) > 0) != fires {
			t.Errorf("%s: found %v", rule, findings)
		}
	}
}
