package micro

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/cedar-policy/cedar-go"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/open-policy-agent/opa/v1/ast"
	"github.com/open-policy-agent/opa/v1/rego"

	"spendgate/bench/load"
	"spendgate/bench/peers/equivalent"
	"spendgate/hotpath/policy"
	"spendgate/hotpath/spend"
)

// engine decides an action that was prepared for it.
type engine struct {
	name    string
	prepare func(testing.TB, *load.Action) (decide func() (load.Effect, error))
}

// engines are the three, with the first of the workload's policies.
func engines(tb testing.TB) []engine {
	tb.Helper()
	return []engine{
		{"spendgate", spendgate(tb)},
		{"opa", opa(tb)},
		{"cedar", cedarEngine(tb)},
	}
}

// sample returns the first n actions of the policy for every outcome.
func sample(n int) map[load.Effect][]load.Action {
	w := load.DefaultWorkload(1)
	found := make(map[load.Effect][]load.Action)
	for serial, missing := uint64(0), 3*n; missing > 0; serial++ {
		var a load.Action
		w.Action(serial, &a)
		if a.Policy == 0 && len(found[a.Want.Effect]) < n {
			found[a.Want.Effect] = append(found[a.Want.Effect], a)
			missing--
		}
	}
	return found
}

// members is the action as JSON.
func members(a *load.Action) string { return "{" + string(load.AppendMembers(nil, a)) + "}" }

func spendgate(tb testing.TB) func(testing.TB, *load.Action) func() (load.Effect, error) {
	tb.Helper()
	var body struct {
		PolicyID string          `json:"policy_id"`
		Rules    json.RawMessage `json:"rules"`
	}
	if err := json.Unmarshal(load.PolicyBody(0), &body); err != nil {
		tb.Fatal(err)
	}
	var faults spend.Faults
	program := policy.Compile(body.PolicyID, 1, string(body.Rules), &faults)
	if program == nil {
		tb.Fatal(faults)
	}
	effects := [...]load.Effect{spend.Allow: load.Allow, spend.Block: load.Block, spend.Escalate: load.Escalate}
	return func(tb testing.TB, a *load.Action) func() (load.Effect, error) {
		tb.Helper()
		action, resolution := spendAction(tb, a)
		now := time.Now()
		return func() (load.Effect, error) {
			return effects[program.Evaluate(action, resolution, now).Effect], nil
		}
	}
}

// spendAction is the action as spendgate's decoder would make it.
func spendAction(tb testing.TB, a *load.Action) (*spend.Action, spend.Resolution) {
	tb.Helper()
	var wire struct {
		AgentID       string          `json:"agent_id"`
		Amount        json.Number     `json:"amount"`
		Currency      string          `json:"currency"`
		Counterparty  string          `json:"counterparty"`
		PaymentMethod string          `json:"payment_method"`
		ActionType    string          `json:"action_type"`
		Metadata      json.RawMessage `json:"metadata"`
	}
	if err := json.Unmarshal([]byte(members(a)), &wire); err != nil {
		tb.Fatal(err)
	}
	amount, err := spend.ParseAmount(wire.Amount.String())
	if err != nil {
		tb.Fatal(err)
	}
	kind, ok := spend.ParseActionType(wire.ActionType)
	var faults spend.Faults
	metadata := spend.ParseMetadata(jsontext.Value(wire.Metadata), "metadata", &faults)
	if !ok || len(faults) > 0 {
		tb.Fatal(wire.ActionType, faults)
	}
	return &spend.Action{
		AgentID: wire.AgentID, PolicyID: load.PolicyID(0), Type: kind, Amount: amount, Currency: wire.Currency,
		Counterparty: wire.Counterparty, PaymentMethod: wire.PaymentMethod, Metadata: metadata,
	}, spend.Resolution{Type: kind, Confidence: spend.High}
}

func opa(tb testing.TB) func(testing.TB, *load.Action) func() (load.Effect, error) {
	tb.Helper()
	query, err := rego.New(
		rego.Query("data."+equivalent.RegoPackage(0)+".decision"),
		rego.Module("policy.rego", equivalent.Rego(0)),
	).PrepareForEval(tb.Context())
	if err != nil {
		tb.Fatal(err)
	}
	return func(tb testing.TB, a *load.Action) func() (load.Effect, error) {
		tb.Helper()
		input, err := ast.ValueFromReader(strings.NewReader(members(a)))
		if err != nil {
			tb.Fatal(err)
		}
		ctx := tb.Context()
		return func() (load.Effect, error) {
			results, err := query.Eval(ctx, rego.EvalParsedInput(input))
			if err != nil {
				return "", err
			}
			decision, ok := results[0].Expressions[0].Value.(map[string]any)["decision"].(string)
			if !ok {
				return "", fmt.Errorf("no decision: %v", results)
			}
			return load.Effect(decision), nil
		}
	}
}

func cedarEngine(tb testing.TB) func(testing.TB, *load.Action) func() (load.Effect, error) {
	tb.Helper()
	list, err := cedar.NewPolicyListFromBytes("policy.cedar", []byte(equivalent.Cedar(0)))
	if err != nil {
		tb.Fatal(err)
	}
	policies := cedar.NewPolicySet()
	for _, p := range list {
		policies.Add(cedar.PolicyID(p.Annotations()["id"]), p)
	}
	return func(tb testing.TB, a *load.Action) func() (load.Effect, error) {
		tb.Helper()
		request := cedar.Request{
			Principal: cedar.NewEntityUID("Agent", "a"), Action: cedar.NewEntityUID("Action", "pay"),
			Resource: cedar.NewEntityUID("Account", "r"), Context: cedarContext(tb, a),
		}
		entities := cedar.EntityMap{}
		return func() (load.Effect, error) {
			decision, diagnostic := cedar.Authorize(policies, entities, request)
			if len(diagnostic.Errors) > 0 {
				return "", fmt.Errorf("cedar: %v", diagnostic.Errors)
			}
			switch {
			case decision == cedar.Allow:
				return load.Allow, nil
			case len(diagnostic.Reasons) == 1 && diagnostic.Reasons[0].PolicyID == equivalent.CedarEscalates:
				return load.Escalate, nil
			default:
				return load.Block, nil
			}
		}
	}
}

// cedarContext is the action as Cedar has it.
func cedarContext(tb testing.TB, a *load.Action) cedar.Record {
	tb.Helper()
	var wire struct {
		ActionType    string `json:"action_type"`
		Currency      string `json:"currency"`
		Counterparty  string `json:"counterparty"`
		PaymentMethod string `json:"payment_method"`
		Metadata      struct {
			Category  string `json:"category"`
			Country   string `json:"country"`
			DaysSince *int64 `json:"days_since_purchase"`
			Discount  *int64 `json:"discount_percent"`
		} `json:"metadata"`
	}
	if err := json.Unmarshal([]byte(members(a)), &wire); err != nil {
		tb.Fatal(err)
	}
	values := cedar.RecordMap{
		"action_type": cedar.String(wire.ActionType), "amount": cedar.Long(a.Cents), "currency": cedar.String(wire.Currency),
		"counterparty": cedar.String(wire.Counterparty), "payment_method": cedar.String(strings.ToLower(wire.PaymentMethod)),
		"category": cedar.String(strings.ToLower(wire.Metadata.Category)), "country": cedar.String(strings.ToLower(wire.Metadata.Country)),
		"now": cedar.NewDatetime(time.Now()),
	}
	if wire.Metadata.DaysSince != nil {
		values["days_since_purchase"] = cedar.Long(*wire.Metadata.DaysSince)
	}
	if wire.Metadata.Discount != nil {
		values["discount_percent"] = cedar.Long(*wire.Metadata.Discount)
	}
	return cedar.NewRecord(values)
}
