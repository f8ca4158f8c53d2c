package checkreport

import (
	"bytes"
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"spendgate/audit"
	"spendgate/audit/spend"
	"spendgate/bench/must"
	"spendgate/hotpath/intent"
	"spendgate/hotpath/policy"
)

var update = flag.Bool("update", false, "write the golden files anew")

const rules = `[
  {"rule_id": "cap", "rule_type": "max_amount", "description": "No refund over 500 USD",
   "parameters": {"limit": 500.00, "currency": "USD"}},
  {"rule_id": "review", "rule_type": "escalate_if", "parameters": {"amount_above": 200, "action_types": ["refund"]}},
  {"rule_id": "rails", "rule_type": "blocked_payment_rails", "parameters": {"rails": ["crypto", "wire"]}}
]`

// made returns the report of a check that was judged as by a node.
func made(t *testing.T, change func(*spend.Action)) *Report {
	t.Helper()
	var faults spend.Faults
	p := policy.Compile("support-refunds", 3, rules, &faults)
	if p == nil {
		t.Fatal(faults)
	}
	a := spend.Action{
		AgentID: "support-bot", PolicyID: "support-refunds", Type: spend.Refund, Currency: "USD", Counterparty: "customer-1",
		Metadata: spend.ParseMetadata(`{"order":"A-1","days_since_purchase":5}`, "metadata", &faults),
	}
	a.Amount, _ = spend.ParseAmount("42.5")
	if change != nil {
		change(&a)
	}
	resolution := spend.Resolution{Type: a.Type, Confidence: spend.High}
	if a.Type == spend.Unspecified {
		resolution = intent.New().Classify(a.ReasonText)
	}
	at := time.Date(2026, 11, 20, 10, 11, 12, 345e6, time.UTC)
	c := &spend.Check{
		ID: id(t, "01a1fbf6687379739bccaf16302b671f"), Action: a, ActionType: resolution.Type, LatencyMS: 2,
		Decision: p.Explain(p.Evaluate(&a, resolution, at), &a, resolution),
		KeyID:    "key_01a1fbe4a3487c7ea1a1616fb9a103b4", RequestID: "req_0123456789ab",
		Fingerprint: spend.FingerprintOf(&a, resolution.Type), RequestSHA: spend.RequestSHA(&a),
		Pass:  spend.Pass{ClaimedMS: at.UnixMilli(), UntilMS: at.Add(5 * time.Minute).UnixMilli()},
		Fence: spend.Fence{Node: id(t, "01a1fbe4000070008000000000000001"), Epoch: id(t, "01a1fbe4000070008000000000000002")},
	}
	return &Report{
		Check:   c,
		Policy:  &audit.Policy{PolicyID: "support-refunds", Version: 3, Name: "Support refunds", Rules: rules, UpdatedAt: at.Add(-time.Hour)},
		KeyName: "checkout", Source: "PostgreSQL",
		Chain: Chain{ID: c.Fence.Node, Seq: 12, State: "the row is as it was written", Compared: true, Holds: true},
	}
}

func id(t *testing.T, text string) spend.ID {
	t.Helper()
	return must.Get(spend.ParseID(text, ""))(t)
}

func amount(a *spend.Action, text string) { a.Amount, _ = spend.ParseAmount(text) }

func TestReports(t *testing.T) {
	duplicate := made(t, nil)
	var faults spend.Faults
	p := policy.Compile("support-refunds", 3, rules, &faults)
	duplicate.Check.Decision = p.Duplicate(id(t, "01a1fbf66800700080000000000000aa"), &duplicate.Check.Action,
		spend.Resolution{Type: spend.Refund, Confidence: spend.High})
	duplicate.Check.Pass = spend.Pass{}
	unknown := made(t, func(a *spend.Action) { amount(a, "600") })
	unknown.Policy, unknown.KeyName, unknown.Source = nil, "", "archive/checks-2026-11-20.jsonl.gz"
	unknown.Chain = Chain{Compared: true, State: "in no batch: not chained, or inserted later"}
	asked := made(t, func(a *spend.Action) { amount(a, "300.10") })
	asked.Check.Approval = &spend.ApprovalRequest{Required: 2, Expires: 24 * time.Hour, UseWithin: time.Hour}
	at := asked.Check.Timestamp()
	asked.Approval = &audit.Approval{
		Check: asked.Check, Status: audit.ApprovalUsed, ExpiresAt: at.Add(24 * time.Hour), ApprovedAt: at.Add(2 * time.Minute),
		UsedBy: id(t, "01a1fbf66800700080000000000000aa"), Decisions: []audit.ApprovalDecision{
			{
				Approves: true, KeyID: "key_01a1fbe4a3487c7ea1a1616fb9a103b5", Principal: "anna\x1b[2J", Note: "has the receipt",
				At: at.Add(time.Minute),
			},
			{Approves: true, KeyID: "key_01a1fbe4a3487c7ea1a1616fb9a103b6", Principal: "bob", At: at.Add(2 * time.Minute)},
		},
	}
	used := made(t, nil)
	used.Check.ID, used.Check.Action.ApprovalID, used.Approval = asked.Approval.UsedBy, asked.Check.ID, asked.Approval
	for name, report := range map[string]*Report{
		"asked":      asked,
		"used":       used,
		"allow":      made(t, nil),
		"block":      made(t, func(a *spend.Action) { amount(a, "600") }),
		"escalate":   made(t, func(a *spend.Action) { amount(a, "300.10"); a.IdempotencyKey = "order-1001" }),
		"rail":       made(t, func(a *spend.Action) { a.PaymentMethod = "Crypto" }),
		"duplicate":  duplicate,
		"no-policy":  unknown,
		"classified": made(t, func(a *spend.Action) { a.Type, a.ReasonText = 0, "customer wants the money back for a broken item" }),
	} {
		var text, document bytes.Buffer
		must.Do(t, report.Write(&text))
		must.Do(t, report.WriteJSON(&document))
		golden(t, name+".txt", text.String())
		golden(t, name+".json", document.String())
	}
}

// The first line shows the last report, even for an allow.
func TestFirstLineHasTheOutcome(t *testing.T) {
	r := made(t, nil)
	for _, next := range []struct {
		outcome spend.Outcome
		want    string
	}{
		{spend.Outcome{Status: spend.Failed, Release: spend.ReleasePending}, "allow, then failed (release pending)\n"},
		{spend.Outcome{Status: spend.Executed, Release: spend.ReleaseNone}, "allow, then executed\n"},
	} {
		r.Outcomes = append(r.Outcomes, &next.outcome)
		var text bytes.Buffer
		if err := r.Write(&text); err != nil || !strings.HasPrefix(text.String(), "chk_01a1fbf6687379739bccaf16302b671f: "+next.want) {
			t.Error(err, text.String())
		}
	}
}

// For every rule type that judges a check, the report shows the values that the rule read.
func TestReportHasWhatTheRuleRead(t *testing.T) {
	for _, ruleType := range policy.RuleTypes() {
		f := firedRule{ruleType: ruleType.Name}
		if got := f.facts(made(t, nil).Check); len(got) != len(ruleType.Reads) {
			t.Errorf("%s reads %s, reported %q", ruleType.Name, ruleType.Reads, got)
		}
	}
}

// The report of a budget shows the values that the budget counts by.
func TestReportOfABudget(t *testing.T) {
	for per, want := range map[string]string{
		`["api_key","agent_id","counterparty","action_type"]`: "amount 42.50 USD, action type refund, principal till, agent_id support-bot, " +
			"counterparty customer-1",
		`[]`:   "amount 42.50 USD, action type refund",
		`"no"`: "amount 42.50 USD, action type refund",
	} {
		r := made(t, nil)
		r.Check.Decision.Effect, r.Check.Decision.RuleID, r.Check.Principal = spend.Block, "day", "till"
		r.Policy.Rules = `[{"rule_id":"day","rule_type":"budget","parameters":{"limit":1,"currency":"USD","window":"day","per":` + per + `}}]`
		if got := strings.Join(r.fired().facts(r.Check), ", "); got != want {
			t.Errorf("%s: %s", per, got)
		}
	}
}

func golden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		must.Do(t, os.WriteFile(path, []byte(got), 0o600))
	}
	want := must.Get(os.ReadFile(path))(t)
	if got != string(want) {
		t.Errorf("%s: got\n%s\nwant\n%s", name, got, want)
	}
}

// Whatever the names of agents, policies and keys are, only printable characters are printed, and
// no text starts a new line.
func TestNoControlSequencesArePrinted(t *testing.T) {
	hostile := []string{
		"\x1b[2J\x1b[31mdecision allow", "a\r\ndecision             allow", "\u009b31m", "\x7f\x08\x08", "\u202eallow", "\u2028line", "a\x00b",
		"\U000e0041tag", "\ufeff", "\xff\xfe", "\u200bzero", "\tTab", "\u2066iso",
	}
	lines := -1
	for i, text := range append([]string{"plain"}, hostile...) {
		r := made(t, nil)
		a, d := &r.Check.Action, &r.Check.Decision
		a.AgentID, a.PolicyID, a.Currency, a.Counterparty, a.PaymentMethod = text, text, text, text, text
		a.MerchantOrVendor, a.ReasonText, a.IdempotencyKey, a.Metadata.JSON = text, text, text, `{"a": "`+text+`"}`
		a.Metadata.Category, a.Metadata.Country = text, text
		d.Effect, d.Reason, d.RuleID, d.RuleDescription, d.Message, d.NextStep = spend.Block, spend.Reason(text), text, text, text, text
		r.Check.KeyID, r.Check.RequestID, r.KeyName, r.Source = text, text, text, text
		quoted := must.Get(json.Marshal(text))(t)
		r.Policy.Name = text
		r.Policy.Rules = `[{"rule_id":` + string(quoted) + `,"rule_type":` + string(quoted) + `,"parameters":{` + string(quoted) + `:` +
			string(quoted) + `}}]`
		var out, document bytes.Buffer
		must.Do(t, r.Write(&out))
		must.Do(t, r.WriteJSON(&document))
		for _, printed := range []string{out.String(), document.String()} {
			if at := strings.IndexFunc(printed, func(r rune) bool {
				return r != '\n' && !strconv.IsPrint(r) || r == '\ufffd' && text != "\xff\xfe"
			}); at >= 0 {
				t.Errorf("%q: %q is printed in\n%q", text, printed[at:at+1], printed)
			}
		}
		if !json.Valid(document.Bytes()) {
			t.Errorf("%q: not JSON:\n%s", text, document.String())
		}
		switch n := strings.Count(out.String(), "\n"); {
		case i == 0:
			lines = n
		case n > lines: // fewer, if no rule can have that name
			t.Errorf("%q makes %d lines, more than %d:\n%s", text, n, lines, out.String())
		}
	}
}

// The escaped JSON decodes to the original texts.
func TestEscapedTextDecodes(t *testing.T) {
	const text = "\x1b[31m\u202e\U000e0041\x7f é \"\\"
	r := made(t, func(a *spend.Action) { a.AgentID = text })
	var out bytes.Buffer
	must.Do(t, r.WriteJSON(&out))
	var back document
	if err := json.Unmarshal(out.Bytes(), &back); err != nil || back.Request.AgentID != text {
		t.Errorf("%q came back as %q, %v", text, back.Request.AgentID, err)
	}
}

// A quoted text cannot be taken for an unquoted one.
func TestPrintable(t *testing.T) {
	for in, want := range map[string]string{
		"plain": "plain", "é 中 😀": "é 中 😀", "": `""`, "-": `"-"`, " a": `" a"`, "a ": `"a "`, `"a"`: `"\"a\""`, "a\"b": `a"b`,
		"a\nb": `"a\nb"`, "\x1b": `"\x1b"`, "\u009b": `"\u009b"`, "\xff": `"\xff"`, "\u00a0": `"\u00a0"`,
	} {
		if got := printable(in); got != want {
			t.Errorf("%q is printed %s, want %s", in, got, want)
		}
	}
}
