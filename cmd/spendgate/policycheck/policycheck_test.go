package policycheck

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"spendgate/bench/must"
	"spendgate/cmd/spendgate/policyfile"
)

func parse(t *testing.T, file, content string) []policyfile.Policy {
	t.Helper()
	return must.Get(policyfile.Parse(file, strings.NewReader(content)))(t)
}

func texts(found []Finding) string {
	var all []string
	for _, f := range found {
		all = append(all, f.String())
	}
	return strings.Join(all, "\n")
}

func TestLint(t *testing.T) {
	got := texts(Lint(append(parse(t, "a.yaml", `policy_id: x
name: y
rules:
  - rule_id: a
    rule_type: max_amount
    parameters:
      limit: lots
      curency: USD
---
policy_id: x
colour: red
rules: []
---
name: z
rules:
  - rule_id: a
    rule_type: blocked_categories
    parameters: {categories: [a]}
`), parse(t, "b.json", `{"policy_id": "c", "name": "n",
 "description": "\u0000",
 "rules": [{"rule_id": "a", "rule_type": "none", "parameters": {}}]}`)...)))
	want := []string{
		"a.yaml:7: rules[0].parameters.limit must be a number",
		"a.yaml:8: rules[0].parameters.curency is not accepted here: accepted are limit, currency",
		"a.yaml:10: name is required",
		"a.yaml:10: policy_id \"x\" is also that of a.yaml, line 1",
		"a.yaml:11: colour is not a known field",
		"a.yaml:12: rules must have at least one rule",
		"a.yaml:14: warning: has no policy_id: each apply makes another policy",
		"a.yaml:16: warning: rules[0] does not judge an action without metadata.category",
		"b.json:1: the body must not contain U+0000 in a string",
	}
	lines := strings.Split(got, "\n")
	for i, line := range want {
		if i >= len(lines) || !strings.HasPrefix(lines[i], line) {
			t.Fatalf("line %d is not %q:\n%s", i, line, got)
		}
	}
	if len(lines) != len(want) {
		t.Error(got)
	}
}

// Members that the server adds, and members for one version only, are warned about in a file.
func TestLintOfWhatTheServerSaid(t *testing.T) {
	got := texts(Lint(parse(t, "a.json", `{"policy_id": "x", "version": 3, "created_at": "c", "updated_at": "u",
		 "author": null, "drafted_by": null, "name": "n", "note": "why",
 "drop_budgets": ["day"],
 "rules": [{"rule_id": "a", "rule_type": "max_amount", "parameters": {"limit": 5}}]}`)))
	want := "a.json:1: warning: version is not sent: only the server says it\n" +
		"a.json:1: warning: created_at is not sent: only the server says it\n" +
		"a.json:1: warning: updated_at is not sent: only the server says it\n" +
		"a.json:2: warning: author is not sent: only the server says it\n" +
		"a.json:2: warning: drafted_by is not sent: only the server says it\n" +
		"a.json:3: warning: drop_budgets empties budgets with every version that ends them: give it to apply, as --drop-budget"
	if got != want {
		t.Error(got)
	}
}

// Each fault of an unreadable file is a finding; an error without faults stays an error.
func TestUnreadable(t *testing.T) {
	dir := t.TempDir()
	for name, content := range map[string]string{"a.yaml": "a: .5\nb: .5", "b.json": "{,", "c.yaml": "name: c"} {
		must.Do(t, os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600))
	}
	policies, err := policyfile.Read(dir, nil)
	found, other := Unreadable(err)
	if len(policies) != 1 || other != nil || len(found) != 3 || found[1].Line != 2 || found[2].File != filepath.Join(dir, "b.json") {
		t.Errorf("%v %v %v", policies, found, other)
	}
	_, err = policyfile.Read(filepath.Join(dir, "none"), nil)
	if found, other := Unreadable(err); found != nil || other == nil {
		t.Error(found, other)
	}
}

const desk = `policy_id: desk
name: Desk
rules:
  - {rule_id: cap, rule_type: max_amount, parameters: {limit: 500, currency: USD}}
  - {rule_id: hours, rule_type: time_restriction, parameters: {allowed_days: [wed]}}
  - {rule_id: twice, rule_type: duplicate_guard, parameters: {window_minutes: 60}}
`

func TestCases(t *testing.T) {
	const head = "policy_id: desk\ndefaults: {agent_id: a, action_type: refund, counterparty: c, currency: USD, amount: 1}\ncases:\n"
	for content, want := range map[string]string{
		head + "- {decision: allow}\n- {decision: allow, reason_code: ''}":                                           "",
		head + "- {action: {amount: 501}, decision: block, reason_code: max_amount_exceeded, violated_rule_id: cap}": "",
		head + "- {action: {amount: 501}, decision: block}":                                                          "",
		head + "- {at: 2026-03-05T00:00:00Z, decision: block, reason_code: time_restriction_violated}":               "",
		head + "- {repeated_after_minutes: 59, decision: block, violated_rule_id: twice}":                            "",
		head + "- {repeated_after_minutes: 60, decision: allow}":                                                     "",
		head + "- {action: {action_type: null, reason_text: refund a parcel}, decision: allow}":                      "",

		head + "- {decision: allow}\n" +
			"- {name: n, action: {amount: 501}, decision: block, violated_rule_id: hours}": `:5: "n": got block (max_amount_exceeded by cap), ` +
			`want block (by hours): 501.00 USD exceeds`,
		head + "- {decision: escalate}":                                `:4: "cases[0]": got allow, want escalate: a refund of`,
		head + "- {decision: allow, reason_code: max_amount_exceeded}": "want allow (max_amount_exceeded)",
		head + "- decision: Allow":                                     ":4: \"cases[0]\": decision must be allow, block or escalate",
		head + "- at: noon\n  decision: allow":                         ":4: \"cases[0]\": at must be a time like 2026",
		head + "-\n  action:\n    amount: many\n  decision: allow":     ":6: \"cases[0]\": amount must be a number",
		head + "- {action: {colour: red}, decision: allow}":            "colour is not a known field",
		head + "- {action: {policy_id: x}, decision: allow}":           "policy_id must be that of the document",
		head + "- decision: allow\n  decison: block":                   ":5: cases[0].decison is not a known field: known are name, action, at, ",
		head + "- decision: [allow]":                                   ":4: cases[0].decision cannot be a list",
		head + "- {decision: allow, repeated_after_minutes: 1.5}":      ":4: cases[0].repeated_after_minutes must be an integer",
		"policy_id: desk\ncases: []":                                   ":2: cases must have at least one case",
		"policy_id: dusk\ncases: []":                                   `:1: policy_id "dusk" is none`,
	} {
		_, wrong := Test(parse(t, "desk.yaml", desk), parse(t, "cases.yaml", content))
		if got := texts(wrong); (want == "") != (got == "") || !strings.Contains(got, want) {
			t.Errorf("%s\ngot  %s\nwant %s", content, got, want)
		}
	}
	// The cases find budgets unused.
	_, wrong := Test(parse(t, "desk.yaml", `{"policy_id": "desk", "name": "Desk", "rules": [{"rule_id": "day", "rule_type": "budget",
		"parameters": {"limit": 500, "currency": "USD", "window": "day"}}]}`),
		parse(t, "cases.yaml", head+"- {decision: allow}\n- {action: {amount: 500}, decision: allow}\n"+
			"- {action: {amount: 501}, decision: block, reason_code: budget_exceeded, violated_rule_id: day}\n"+
			"- {action: {currency: EUR}, decision: block, reason_code: currency_not_covered}"))
	if wrong != nil {
		t.Error(texts(wrong))
	}
	cases, wrong := Test(parse(t, "desk.yaml", "policy_id: desk\nrules: []"), parse(t, "cases.yaml", head+"- {decision: allow}"))
	if cases != 0 || texts(wrong) != "desk.yaml:1: has faults, which policies lint names" {
		t.Error(cases, wrong)
	}
}
