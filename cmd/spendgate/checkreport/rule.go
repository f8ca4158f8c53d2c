package checkreport

import (
	"bytes"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"spendgate/audit/spend"
	"spendgate/hotpath/policy"
)

// firedRule is the rule that decided, as the policy has it.
type firedRule struct {
	ruleType   string   // empty if unknown
	text       string   // the rule's parameters, a JSON object
	conditions []string // the fields that its conditions read
	parameters []parameter
	implicit   bool // the duplicate guard that a policy without such a rule has
}

type parameter struct{ name, value string } // value is JSON

// fired finds the rule that the decision names. It accepts any JSON, since the rules may have been
// tampered with.
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
		fired := firedRule{ruleType: textOf(rule["rule_type"]), conditions: policy.ConditionFields(string(text))}
		if parameters := rule["parameters"]; parameters.Kind() == jsontext.KindBeginObject {
			fired.text = string(parameters)
			fired.parameters = membersOf(parameters)
		}
		if when := rule["when"]; when != nil {
			fired.parameters = append(fired.parameters, parameter{"when", string(when)})
		}
		return fired
	}
	return firedRule{implicit: d.Reason == spend.ReasonDuplicate}
}

// membersOf returns the members of an object in order.
func membersOf(object jsontext.Value) (members []parameter) {
	d := jsontext.NewDecoder(bytes.NewReader(object))
	_, _ = d.ReadToken() // the opening brace; the text was checked
	for d.PeekKind() == jsontext.KindString {
		name, _ := d.ReadToken()
		m := parameter{name: name.String()}
		value, _ := d.ReadValue()
		m.value = string(value)
		members = append(members, m)
	}
	return members
}

// textOf returns the text of a JSON string, or "" for any other value.
func textOf(value jsontext.Value) (s string) {
	if json.Unmarshal(value, &s) != nil {
		return ""
	}
	return s
}

func (f firedRule) kind() string {
	switch {
	case f.ruleType != "":
		return ", of type " + printable(f.ruleType)
	case f.implicit:
		return ", which every policy has"
	default:
		return ""
	}
}

// facts describes the values of the request that the rule read.
func (f firedRule) facts(c *spend.Check) (facts []string) {
	if c.Decision.Reason == spend.ReasonDuplicate {
		a := &c.Action
		return []string{fmt.Sprintf("agent_id %s, action type %s, amount %s, counterparty %s",
			printable(a.AgentID), c.ActionType, a.Amount, printable(a.Counterparty))}
	}
	ruleType := policy.Type(f.ruleType)
	if ruleType == nil {
		return nil
	}
	var parameters struct {
		Per []string `json:"per"` // the fields that a budget counts by
	}
	if json.Unmarshal([]byte(f.text), &parameters) != nil {
		parameters.Per = nil
	}
	for _, field := range slices.Concat(ruleType.Reads, parameters.Per, f.conditions) {
		if text := fact(field, c); text != "" && !slices.Contains(facts, text) {
			facts = append(facts, text)
		}
	}
	return facts
}

// fact describes a field of a check, or returns "" if there is no such field.
func fact(field string, c *spend.Check) string {
	a, value := &c.Action, ""
	switch field {
	case "amount":
		return "amount " + a.Amount.Money(printable(a.Currency))
	case "action_type":
		return "action type " + c.ActionType.String()
	case "api_key":
		return "principal " + printable(c.PrincipalName())
	case "timestamp":
		return "time " + c.Timestamp().Format("Mon 15:04") + " UTC"
	case "agent_id":
		value = a.AgentID
	case "counterparty":
		value = a.Counterparty
	case "payment_method":
		value = a.PaymentMethod
	case "merchant_or_vendor":
		value = a.MerchantOrVendor
	case "currency":
		value = a.Currency
	case "reason_text":
		value = a.ReasonText
	case "metadata.category":
		value = a.Metadata.Category
	case "metadata.country":
		value = a.Metadata.Country
	case "metadata.days_since_purchase":
		if a.Metadata.HasDaysSincePurchase {
			value = strconv.FormatInt(a.Metadata.DaysSincePurchase, 10)
		}
	case "metadata.discount_percent":
		if a.Metadata.HasDiscountPercent {
			value = a.Metadata.DiscountPercent.String()
		}
	default:
		member, ok := strings.CutPrefix(field, "metadata.")
		if !ok {
			return ""
		}
		if value = a.Metadata.Member(member); value == "" {
			return "no " + printable(field)
		}
		return printable(field) + " " + printable(value)
	}
	if value == "" {
		return "no " + field
	}
	return field + " " + printable(value)
}
