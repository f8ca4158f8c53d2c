package checkreport

import (
	"bytes"
	"fmt"
	"strconv"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"spendgate/hotpath/spend"
)

// firedRule is the rule that decided, as the policy has it.
type firedRule struct {
	ruleType   string // empty when it is not known
	text       string // its parameters, a JSON object
	parameters []parameter
	implicit   bool // the duplicate guard of a policy without such a rule
}

type parameter struct{ name, value string } // value as JSON

// fired finds the rule that the decision names. It does not rely on well-formed
// rules: they may have been tampered with.
func (r *Report) fired() firedRule {
	d := &r.Check.Decision
	var rules []jsontext.Value
	if r.Policy == nil || json.Unmarshal([]byte(r.Policy.Rules), &rules) != nil {
		return firedRule{}
	}
	for _, text := range rules {
		var rule map[string]jsontext.Value
		if json.Unmarshal(text, &rule) != nil || textOf(rule["rule_id"]) != d.RuleID {
			continue
		}
		fired := firedRule{ruleType: textOf(rule["rule_type"])}
		if parameters := rule["parameters"]; parameters.Kind() == jsontext.KindBeginObject {
			fired.text = string(parameters)
			fired.parameters = membersOf(parameters)
		}
		return fired
	}
	return firedRule{implicit: d.Reason == spend.ReasonDuplicate}
}

// membersOf returns the members of an object in their order.
func membersOf(object jsontext.Value) (members []parameter) {
	d := jsontext.NewDecoder(bytes.NewReader(object))
	_, _ = d.ReadToken() // the brace; the text was checked
	for d.PeekKind() == jsontext.KindString {
		name, _ := d.ReadToken()
		m := parameter{name: name.String()}
		value, _ := d.ReadValue()
		m.value = string(value)
		members = append(members, m)
	}
	return members
}

// textOf returns the text of a string, empty for anything else.
func textOf(value jsontext.Value) (s string) {
	if json.Unmarshal(value, &s) != nil {
		return ""
	}
	return s
}

func (f firedRule) kind() string {
	switch {
	case f.ruleType != "":
		return ", of type " + Printable(f.ruleType)
	case f.implicit:
		return ", which every policy has"
	default:
		return ""
	}
}

// facts returns the values of the request that the rule read.
func (f firedRule) facts(c *spend.Check) []string {
	a := &c.Action
	amount := "amount " + a.Amount.String() + " " + Printable(a.Currency)
	switch f.ruleType {
	case "max_amount":
		return []string{amount}
	case "escalate_if":
		return []string{amount, "action type " + c.ActionType.String()}
	case "budget":
		return append([]string{amount, "action type " + c.ActionType.String()}, f.countedPer(c)...)
	case "refund_age_limit":
		return []string{metadataFact("days_since_purchase", a.Metadata.HasDaysSincePurchase, strconv.FormatInt(a.Metadata.DaysSincePurchase, 10))}
	case "discount_cap":
		return []string{metadataFact("discount_percent", a.Metadata.HasDiscountPercent, a.Metadata.DiscountPercent.String())}
	case "blocked_categories":
		return []string{metadataFact("category", a.Metadata.Category != "", Printable(a.Metadata.Category))}
	case "geography_block":
		return []string{metadataFact("country", a.Metadata.Country != "", Printable(a.Metadata.Country))}
	case "vendor_allowlist":
		return []string{"counterparty " + Printable(a.Counterparty)}
	case "blocked_payment_rails":
		if a.PaymentMethod == "" {
			return []string{"no payment_method"}
		}
		return []string{"payment_method " + Printable(a.PaymentMethod)}
	case "time_restriction":
		return []string{"time " + c.Timestamp().Format("Mon 15:04") + " UTC"}
	}
	if c.Decision.Reason == spend.ReasonDuplicate {
		return []string{fmt.Sprintf("agent_id %s, action type %s, %s, counterparty %s",
			Printable(a.AgentID), c.ActionType, "amount "+a.Amount.String(), Printable(a.Counterparty))}
	}
	return nil
}

// countedPer returns what a budget counts by, besides the action's type.
func (f firedRule) countedPer(c *spend.Check) (facts []string) {
	var parameters struct {
		Per []string `json:"per"`
	}
	if json.Unmarshal([]byte(f.text), &parameters) != nil {
		return nil
	}
	for _, name := range parameters.Per {
		switch name {
		case "agent_id":
			facts = append(facts, "agent_id "+Printable(c.Action.AgentID))
		case "counterparty":
			facts = append(facts, "counterparty "+Printable(c.Action.Counterparty))
		case "api_key":
			facts = append(facts, "principal "+Printable(c.PrincipalName()))
		}
	}
	return facts
}

func metadataFact(key string, present bool, value string) string {
	if !present {
		return "no metadata." + key
	}
	return "metadata." + key + " " + value
}
