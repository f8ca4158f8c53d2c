package gateway

import (
	"strings"
	"testing"

	"spendgate/bench/must"
)

// TestGuess: what init suggests for tools in the shapes that providers publish.
func TestGuess(t *testing.T) {
	for what, c := range map[string]struct {
		schema    string
		want, not []string
		about     string
	}{
		"cents by the tool's description, and the payer's own account": {
			`{"pspReference":{"type":"string"},"currency":{"type":"string"},"value":{"type":"number"},"merchantAccount":{"type":"string"},
				"reference":{"type":"string"}}, "required": ["pspReference","currency","value","merchantAccount","reference"]`,
			[]string{
				`amount: {argument: "value", minor_units: true}`, `counterparty: {argument: "pspReference"}`,
				`same: ["pspReference","value"]`, `pass: ["reference"]`, `# refused, since they may decide: ["merchantAccount"]`,
				`# no call passes without ["merchantAccount"]`,
			},
			nil, "Amounts are in minor units.",
		},
		"a reference that names the payment": {
			`{"amount":{"type":"number","description":"in euros"},"to_account":{"type":"string"},"reference":{"type":"string"}}`,
			[]string{`counterparty: {argument: "to_account"}`, `same: ["amount","reference","to_account"]`, `with minor_units: true if`},
			[]string{"no call passes"},
			"Amounts are in cents.",
		},
		"an order, of which another amount is no other payment": {
			`{"order_id":{"type":"string"},"customer":{"type":"string"},"amount":{"type":"number"}}`,
			[]string{`counterparty: {argument: "customer"}`, `same: ["customer","order_id"]`},
			[]string{"may decide:"},
			"",
		},
		"a booking, which names a payment as an order does": {
			`{"booking":{"type":"string"},"customer":{"type":"string"},"amount":{"type":"number"}}`,
			[]string{`same: ["booking","customer"]`},
			[]string{"pass:"},
			"",
		},
		"the currency of an order, which names none": {
			`{"order_currency":{"type":"string"},"customer":{"type":"string"},"amount":{"type":"number"}}`,
			[]string{`currency: {argument: "order_currency"}`, `same: ["amount","customer"]`},
			nil, "",
		},
		"an amount in cents that may be left out": {
			`{"payment_intent":{"type":"string"},"amount":{"type":"integer","description":"How much to return, in cents."}}`,
			[]string{
				`amount: {argument: "amount", minor_units: true}`, `counterparty: {argument: "payment_intent"}`,
				`same: ["amount","payment_intent"]`,
			},
			nil, "",
		},
		"the name of a price": {`{"price":{"type":"string"},"quantity":{"type":"integer"}}`, nil, []string{"refund"}, ""},
		"an object of money": {
			`{"capture_id":{"type":"string"},"amount":{"type":"object","properties":{"currency_code":{"type":"string"},"value":{"type":"string"}}},
				"note":{"type":"string"}}`,
			[]string{
				`amount: {argument: "amount.value"}    # with`, `currency: {argument: "amount.currency_code"}`,
				`counterparty: {argument: "capture_id"}`,
				`same: ["amount.value","capture_id"]`, `pass: ["note"]`,
			},
			[]string{"may decide:"},
			"",
		},
		"what may decide": {
			`{"amount":{"type":"integer"},"settle_full_balance":{"type":"boolean"},"items":{"type":"array"},"speed":{"type":"string"},
				"payment_id":{"type":"string"},"destination":{"type":"string"}}`,
			[]string{`pass: ["speed"]`, `# refused, since they may decide: ["destination","items","settle_full_balance"]`},
			nil, "",
		},
		"itself": {`{"amount":{"$ref":"#/properties/amount"},"to":{"type":"string"}}`, nil, []string{"refund"}, ""},
	} {
		var written strings.Builder
		if p := guess("refund", definition{
			schema: []byte(`{"type":"object","properties":` + c.schema + `}`), text: encode(map[string]string{"description": c.about}),
		}); p != nil {
			must.Do(t, fileTemplate().ExecuteTemplate(&written, "tool", p))
		}
		got := written.String()
		for _, part := range c.want {
			if !strings.Contains(got, part) {
				t.Errorf("%s: %s is missing: %s", what, part, got)
			}
		}
		for _, part := range c.not {
			if strings.Contains(got, part) {
				t.Errorf("%s: %s is there: %s", what, part, got)
			}
		}
	}
}
