package mcp

import (
	stdjson "encoding/json"
	"maps"
	"reflect"
	"slices"

	"github.com/google/jsonschema-go/jsonschema"

	"spendgate/hotpath/client"
	"spendgate/hotpath/policy"
	"spendgate/hotpath/wire"
)

// policyQuery are the arguments of get_policy.
type policyQuery struct {
	PolicyID string `json:"policy_id"`
	Version  int    `json:"version,omitempty"`
}

// policyCondition is the argument of create_policy that is no part of the policy.
type policyCondition struct {
	Replaces *int `json:"replaces,omitempty"`
}

// approvalWait are the arguments of wait_for_approval.
type approvalWait struct {
	ApprovalID  string `json:"approval_id"`
	WaitSeconds *int   `json:"wait_seconds,omitempty"`
}

// simulation are the arguments of simulate_actions.
type simulation struct {
	PolicyID string          `json:"policy_id"`
	Actions  []client.Action `json:"actions"`
}

// schemaOf derives a plain schema: one type each, no unions with null, which
// simple clients of tools fill in wrongly. Every property is described.
func schemaOf[T any](texts map[string]string) *jsonschema.Schema {
	s, err := jsonschema.For[T](&jsonschema.ForOptions{TypeSchemas: map[reflect.Type]*jsonschema.Schema{
		reflect.TypeFor[client.Amount]():         {Type: "number", Minimum: new(0.0)},
		reflect.TypeFor[client.Decision]():       {Type: "string", Enum: []any{"allow", "block", "escalate"}},
		reflect.TypeFor[client.ActionType]():     {Type: "string", Enum: []any{"refund", "credit", "discount", "spend"}},
		reflect.TypeFor[client.Timestamp]():      {Type: "string"},
		reflect.TypeFor[client.Total]():          {Type: "number", Minimum: new(0.0)},
		reflect.TypeFor[wire.Number]():           {Type: "number"},
		reflect.TypeFor[client.ApprovalStatus](): {Type: "string", Enum: []any{"pending", "approved", "denied", "expired", "used", "withdrawn"}},
		reflect.TypeFor[stdjson.RawMessage]():    {Type: "object"},
		reflect.TypeFor[map[string]any]():        {Type: "object"},
	}})
	if err != nil {
		panic("BUG: no schema: " + err.Error())
	}
	complete(s, texts)
	return s
}

// complete describes the properties, at every depth, and removes null.
func complete(s *jsonschema.Schema, texts map[string]string) {
	if len(s.Types) == 2 && s.Types[0] == "null" {
		s.Type, s.Types = s.Types[1], nil
	}
	for name, property := range s.Properties {
		property.Description = texts[name]
		complete(property, texts)
	}
	if s.Items != nil {
		complete(s.Items, texts)
	}
}

// outputSchema returns the schema of an endpoint's answer: optional members may be null, and a later
// version of the service may add members.
func outputSchema[T any]() *jsonschema.Schema {
	s := schemaOf[T](outputTexts())
	nullable(s)
	return s
}

func nullable(s *jsonschema.Schema) {
	s.AdditionalProperties = nil
	for name, property := range s.Properties {
		nullable(property)
		if !slices.Contains(s.Required, name) {
			property.Type, property.Types = "", []string{property.Type, "null"}
		}
	}
	if s.Items != nil {
		nullable(s.Items)
	}
}

// checkedSchema returns the schema of a check's answer. Whether to act is said by
// proceed alone.
func checkedSchema() *jsonschema.Schema {
	s, first := outputSchema[client.Result](), schemaOf[verdict](checkedTexts())
	first.Properties["outcome"].Type, first.Properties["outcome"].Types = "", []string{"string", "null"}
	maps.Copy(s.Properties, first.Properties)
	s.Properties["decision"].Description = checkedTexts()["decision"]
	s.PropertyOrder = append(first.PropertyOrder, s.PropertyOrder...)
	s.Required = append(first.Required, s.Required...)
	return s
}

// simulatedSchema returns the schema of a simulation, whose results permit
// nothing.
func simulatedSchema() *jsonschema.Schema {
	s := outputSchema[client.Simulation]()
	describe(s.Properties["results"].Items, simulatedTexts())
	withhold(s.Properties["results"].Items, "payment")
	return s
}

// violationsSchema returns the schema of a page of violations.
func violationsSchema() *jsonschema.Schema {
	s := outputSchema[client.ViolationPage]()
	violation := s.Properties["data"].Items
	violation.Properties["decision"].Enum = []any{"block", "escalate"}
	describe(violation, violationTexts())
	return s
}

// describe replaces the descriptions of properties.
func describe(s *jsonschema.Schema, texts map[string]string) {
	for name, text := range texts {
		s.Properties[name].Description = text
	}
}

// withhold removes properties that are not for models.
func withhold(s *jsonschema.Schema, names ...string) {
	for _, name := range names {
		delete(s.Properties, name)
	}
	s.PropertyOrder = slices.DeleteFunc(s.PropertyOrder, func(name string) bool { return slices.Contains(names, name) })
}

// actionSchema returns the schema of an action of a check, or of a simulation,
// which names the policy itself.
func actionSchema(check bool) *jsonschema.Schema {
	s := schemaOf[client.Action](actionTexts())
	withhold(s, "redeem", "take_over", "take_over_within_hours", "again_after_hours") // whoever moves the money sends them
	s.Properties["currency"].Pattern = "^[A-Za-z]{3}$"
	s.Properties["metadata"] = metadataSchema(s.Properties["metadata"].Description)
	if !check {
		s.Required = []string{"agent_id", "amount", "currency", "counterparty"}
		s.Properties["policy_id"].Description = "Leave it out; if given, it must be the simulation's policy_id."
		s.Properties["idempotency_key"].Description = "Ignored here: a simulation records nothing."
		s.Properties["approval_id"].Description = "Ignored here: a simulation uses no approval."
		s.Properties["payment_key"].Description = "Ignored here: a simulation judges as if nothing was paid."
		withhold(s, "replace")
	}
	return s
}

// metadataSchema allows any keys and describes those that rules read.
func metadataSchema(description string) *jsonschema.Schema {
	texts := metadataTexts()
	return &jsonschema.Schema{
		Type: "object", Description: description,
		Properties: map[string]*jsonschema.Schema{
			"days_since_purchase": {Type: "integer", Minimum: new(0.0), Description: texts["days_since_purchase"]},
			"discount_percent":    {Type: "number", Minimum: new(0.0), Description: texts["discount_percent"]},
			"country":             {Type: "string", Description: texts["country"]},
			"category":            {Type: "string", Description: texts["category"]},
		},
		PropertyOrder: []string{"days_since_purchase", "discount_percent", "country", "category"},
	}
}

func simulateSchema() *jsonschema.Schema {
	s := schemaOf[simulation](simulationTexts())
	s.Properties["actions"].Items = actionSchema(false)
	s.Properties["actions"].MinItems, s.Properties["actions"].MaxItems = new(1), new(100)
	return s
}

func policySchema() *jsonschema.Schema {
	s := schemaOf[client.NewPolicy](policyTexts())
	withhold(s, "drop_budgets") // a model must not discard recorded usage
	condition := schemaOf[policyCondition](policyTexts())
	condition.Properties["replaces"].Minimum = new(0.0)
	maps.Copy(s.Properties, condition.Properties)
	s.PropertyOrder = append(s.PropertyOrder, condition.PropertyOrder...)
	rules := s.Properties["rules"]
	rules.MinItems = new(1)
	for _, r := range policy.RuleTypes() {
		ruleType := rules.Items.Properties["rule_type"]
		ruleType.Enum = append(ruleType.Enum, r.Name)
	}
	return s
}

func waitSchema() *jsonschema.Schema {
	s := schemaOf[approvalWait](waitTexts())
	s.Properties["wait_seconds"].Minimum, s.Properties["wait_seconds"].Maximum = new(0.0), new(maxWait.Seconds())
	return s
}

// approvalSchema returns the schema of an approval, which permits nothing.
func approvalSchema() *jsonschema.Schema {
	s := outputSchema[client.Approval]()
	describe(s, map[string]string{"approval_id": "Names the approval.", "check_id": "The check that was escalated."})
	describe(s.Properties["decisions"].Items, map[string]string{
		"principal": "Who decided.", "decision": "approve or deny.", "void": "It counts no more: who decided may not decide now.",
	})
	return s
}

func getSchema() *jsonschema.Schema {
	s := schemaOf[policyQuery](policyTexts())
	s.Properties["policy_id"].Description = "The policy to read."
	s.Properties["version"].Minimum = new(1.0)
	return s
}

func listSchema() *jsonschema.Schema {
	s := schemaOf[client.ViolationQuery](listTexts())
	s.Properties["decision"].Enum = []any{"block", "escalate"}
	s.Properties["limit"].Minimum, s.Properties["limit"].Maximum = new(1.0), new(100.0)
	return s
}

func reportSchema() *jsonschema.Schema {
	s := schemaOf[outcomeReport](reportTexts())
	s.Properties["status"].Enum = []any{"executed", "failed", "voided"}
	return s
}

func outcomeSchema() *jsonschema.Schema {
	s := outputSchema[client.Outcome]()
	describe(s, map[string]string{
		"report": "The number of this report, from 1.", "status": "What was reported.", "principal": "Who reported.",
		"key_id": "With which API key.", "note": "What was said of it. Null if nothing was.",
	})
	return s
}
