package gateway

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"
)

func mapping(change func(*tool)) *tool {
	t := &tool{
		PolicyID: "p", ActionType: "refund", Amount: &amountSource{Argument: "amount", MinorUnits: true},
		Currency: &source{Argument: "currency"}, Counterparty: &source{Argument: "charge"},
		Metadata: map[string]source{"order_id": {Argument: "order.id"}, "from": {Value: jsontext.Value(`"g"`)}},
	}
	if change != nil {
		change(t)
	}
	return t
}

// Arguments are read exactly, or the call is refused: nothing of an action is guessed.
func TestArguments(t *testing.T) {
	decimals := func(t *tool) { t.Amount.MinorUnits = false }
	inside := func(t *tool) { t.Amount = &amountSource{Argument: "order.total"} }
	const rest = `"currency":"usd","charge":"ch_1"`
	for _, test := range []struct {
		change          func(*tool)
		arguments, want string
	}{
		{nil, `{"amount":1050,` + rest + `}`, "10.5 USD ch_1"},
		{nil, `{"amount":1.05e3,` + rest + `}`, "10.5 USD ch_1"},
		{nil, `{"amount":1050.0,` + rest + `}`, "10.5 USD ch_1"},
		{nil, `{"amount":"1050",` + rest + `}`, "10.5 USD ch_1"},
		{nil, `{"amount":1050,"currency":"JPY","charge":"ch_1"}`, "1050 JPY ch_1"},
		{nil, `{"amount":1050,"currency":"KWD","charge":"ch_1"}`, "1.05 KWD ch_1"},
		{nil, `{"amount":0,` + rest + `}`, "error: argument amount is 0"},
		{nil, `{"amount":-0e5,` + rest + `}`, "error"},
		{nil, `{"amount":"0.00",` + rest + `}`, "error"},
		{decimals, `{"amount":"0.00",` + rest + `}`, "error: argument amount is 0"},
		{nil, `{"amount":1050.5,` + rest + `}`, "error: argument amount must be a whole number of minor units"},
		{nil, `{"amount":"1e3",` + rest + `}`, "error: argument amount must be a number in plain decimal digits"},
		{nil, `{"amount":"0x10",` + rest + `}`, "error"},
		{nil, `{"amount":" 10",` + rest + `}`, "error"},
		{nil, `{"amount":"010",` + rest + `}`, "error"},
		{nil, `{"amount":"",` + rest + `}`, "error"},
		{nil, `{"amount":"١٢",` + rest + `}`, "error"},
		{nil, `{"amount":-1,` + rest + `}`, "error"},
		{nil, `{"amount":"-1",` + rest + `}`, "error"},
		{nil, `{"amount":1e400,` + rest + `}`, "error"},
		{nil, `{"amount":9007199254740993,` + rest + `}`, "error: argument amount has more digits"},
		{nil, `{"amount":true,` + rest + `}`, "error: argument amount must be a number, not true or false"},
		{nil, `{"amount":[1],` + rest + `}`, "error"},
		{nil, `{"amount":null,` + rest + `}`, "error: argument amount is missing"},
		{nil, `{` + rest + `}`, "error: argument amount is missing"},
		{nil, `{"Amount":1,` + rest + `}`, `error: argument amount is written "Amount"`},
		{nil, `{"amount":1,"Amount":9,` + rest + `}`, "error"},
		{nil, `{"amount":1,"amount":9,` + rest + `}`, "error"},
		{nil, `{"amount":1,"\u0061mount":9,` + rest + `}`, "error"},
		{nil, `{"amount":1,"currency":"XYZ","charge":"ch_1"}`, "error: the minor unit of the currency XYZ"},
		{nil, `{"amount":1,"currency":"DE ","charge":"ch_1"}`, "error: the currency must be three letters"},
		{nil, `{"amount":1,"currency":"us","charge":"ch_1"}`, "error"},
		{nil, `{"amount":1,"currency":840,"charge":"ch_1"}`, "error"},
		{nil, `{"amount":1,"currency":"USD","charge":17}`, "error: argument charge must be text, not a number"},
		{nil, `{"amount":1,"currency":"USD","charge":" "}`, "error: argument charge is blank"},
		{nil, `{"amount":1,"currency":"USD","charge":"ch_1 "}`, "error: argument charge must not have white space around it"},
		{nil, `{"amount":1,"currency":"USD","charge":"ch\u200b_1"}`, "error: argument charge must not have the character U+200B"},
		{nil, `{"amount":1,"currency":"USD","charge":"ch\u3164_1"}`, "error: argument charge must not have the character U+3164"},
		{nil, `{"amount":1,"currency":"USD"}`, "error: argument charge is missing"},
		{decimals, `{"amount":42.50,` + rest + `}`, "42.5 USD ch_1"},
		{decimals, `{"amount":"42.50",` + rest + `}`, "42.5 USD ch_1"},
		{decimals, `{"amount":0.1000000000000000055511151231,` + rest + `}`, "error"},
		{inside, `{"order":{"total":12.34},` + rest + `}`, "12.34 USD ch_1"},
		{inside, `{"order.total":1,"order":{"total":12.34},` + rest + `}`, "12.34 USD ch_1"},
		{inside, `{"order.total":1,` + rest + `}`, "error: argument order.total is missing"},
		{inside, `{"order":{"total":1,"Total":2},` + rest + `}`, "error"},
		{inside, `{"order":[{"total":1}],` + rest + `}`, "error"},
		{inside, `{"order":"{\"total\":1}",` + rest + `}`, "error"},
	} {
		a, err := mapping(test.change).action("bot", jsontext.Value(test.arguments), nil)
		got := a.Amount.String() + " " + a.Currency + " " + a.Counterparty
		if err != nil {
			got = "error: " + err.Error()
		}
		if got != test.want && (err == nil || !strings.HasPrefix(got, test.want)) {
			t.Errorf("%s\n got %s\nwant %s", test.arguments, got, test.want)
		}
	}
	if _, err := mapping(nil).action(" ", jsontext.Value(`{"amount":1,`+rest+`}`), nil); err == nil {
		t.Error("a call without an agent is read")
	}
	a, err := mapping(nil).action("bot", jsontext.Value(`{"amount":1,`+rest+`,"order":{"id":7}}`), nil)
	if err != nil || string(encode(a.Metadata)) != `{"from":"g","order_id":7}` {
		t.Error(a.Metadata, err)
	}
}

// A tool's schema says whether an amount is a number or text.
func TestArgumentTypes(t *testing.T) {
	for schema, want := range map[string]string{
		`{"properties":{"amount":{"type":"integer"}}}`:           "number",
		`{"properties":{"amount":{"type":"number"}}}`:            "fraction number",
		`{"properties":{"amount":{"type":"string"}}}`:            "text",
		`{"properties":{"amount":{"type":["string","number"]}}}`: "fraction number text",
		`{"properties":{"amount":{}}}`:                           "fraction number text",
		`{}`:                                                     "fraction number text",

		`{"properties":{"amount":{"anyOf":[{"type":"number"},{"type":"null"}]}}}`: "fraction number",
		`{"properties":{"amount":{"anyOf":[{"type":"number"},{}]}}}`:              "fraction number text",

		`{"properties":{"amount":{"$ref":"#/$defs/a~1b"}},"$defs":{"a/b":{"oneOf":[{"type":"string"}]}}}`: "text",

		`{"allOf":[{"$ref":"#/$defs/a"}],"$defs":{"a":{"properties":{"amount":{"allOf":[{},{"type":"integer"}]}}}}}`: "number",

		`{"$ref":"#","properties":{"amount":{"$ref":"#/properties/amount"}}}`:                      "fraction number text",
		`{"$ref":"#/$defs/a","$defs":{"a":{"allOf":[{"$ref":"#/$defs/a"},{"$ref":"#/$defs/a"}]}}}`: "fraction number text",
	} {
		var got []string
		for kind, value := range map[string]string{"number": `5.0`, "text": `"5"`, "fraction": "5.5"} {
			m := mapping(func(t *tool) { t.Amount.MinorUnits = false })
			_, err := m.action("b", jsontext.Value(`{"amount":`+value+`,"currency":"USD","charge":"c"}`), jsontext.Value(schema))
			if err == nil {
				got = append(got, kind)
			}
		}
		slices.Sort(got)
		if strings.Join(got, " ") != want {
			t.Errorf("%s takes %s", schema, got)
		}
	}
}

// Calls have one identity if they would do the same, however they are written.
func TestIdentity(t *testing.T) {
	of := func(change func(*tool), upstream, name, agent, arguments string) string {
		t.Helper()
		m := mapping(change)
		a, err := m.action(agent, jsontext.Value(arguments), nil)
		if err != nil {
			t.Fatal(err)
		}
		id, err := m.identity(upstream, name, a.AgentID, a, jsontext.Value(arguments))
		if err != nil {
			t.Fatal(err)
		}
		return id
	}
	const base = `{"amount":1050,"currency":"usd","charge":"ch_é","order":{"id":7}}`
	named := func(t *tool) { t.Same = []string{"charge", "amount"} }
	filled := func(t *tool) { t.IdempotencyArgument = "key" }
	for _, test := range []struct {
		change func(*tool)
		other  string
		same   bool
	}{
		{nil, `{"order":{"id":7.0},"charge":"ch_\u00e9","currency":"USD","amount":1.05e3}`, true},
		{nil, `{"amount":"1050.0","currency":"usd","charge":"ch_é","order":{"id":7}}`, true},
		{nil, `{"amount":1050,"currency":"usd","charge":"ch_e\u0301","order":{"id":7}}`, true},
		{nil, `{"amount":1051,"currency":"usd","charge":"ch_é","order":{"id":7}}`, false},
		{nil, `{"amount":1050,"currency":"usd","charge":"ch_é","order":{"id":"7"}}`, false},
		{nil, `{"amount":1050,"currency":"usd","charge":"ch_é"}`, false},
		{nil, `{"amount":1050,"currency":"eur","charge":"ch_é","order":{"id":7}}`, false},
		{named, `{"amount":1050,"currency":"eur","charge":"ch_é"}`, true},
		{named, `{"amount":1050,"currency":"usd","charge":"ch_f"}`, false},
		{filled, `{"amount":1050,"currency":"usd","charge":"ch_é","order":{"id":7},"key":"mine"}`, true},
	} {
		if got := of(test.change, "u", "t", "a", base) == of(test.change, "u", "t", "a", test.other); got != test.same {
			t.Errorf("%s is the same: %v", test.other, got)
		}
	}
	first := of(nil, "u", "t", "a", base)
	for _, other := range []string{of(nil, "v", "t", "a", base), of(nil, "u", "s", "a", base), of(nil, "u", "t", "b", base)} {
		if other == first {
			t.Error("another server, tool or agent has the same identity")
		}
	}
}

// A payment that is made only once is recognized however it is spelt, or the call is refused.
func TestLasting(t *testing.T) {
	of := func(arguments string) (string, error) {
		m := mapping(func(t *tool) { t.Same, t.Once = []string{"order.id", "line", "amount"}, true })
		a, err := m.action("a", jsontext.Value(arguments), nil)
		if err != nil {
			t.Fatal(err)
		}
		return m.lasting("u", "t", a, jsontext.Value(arguments))
	}
	const call = `{"amount":1050,"currency":"usd","charge":"ch_1","line":1,"order":{"id":%s}}`
	number, err := of(fmt.Sprintf(call, `100`))
	if err != nil {
		t.Fatal(err)
	}
	for _, id := range []string{`"100"`, `1e2`, `100.0`, `"\u0031\u0030\u0030"`} {
		if got, err := of(fmt.Sprintf(call, id)); got != number || err != nil {
			t.Error(id, "is another payment", err)
		}
	}
	for _, id := range []string{`101`, `"100.0"`, `"0100"`, `"1e2"`, `true`} {
		if got, err := of(fmt.Sprintf(call, id)); got == number || err != nil {
			t.Error(id, "is the same payment", err)
		}
	}
	for _, id := range []string{
		`" 100"`, `"100\t"`, `""`, `"1\u200b00"`, `"\uff11\uff10\uff10"`, `"e\u0301"`, `null`, `{"n":77}`, `[77]`,
		`"100\ufe0f"`, `"100\u2800"`, `"100\ufffc"`, `"1\u034f00"`, `"\u115f100"`, `"\u0301100"`, `"\u20e3100"`, // one invoice, paid seven times
	} {
		if _, err := of(fmt.Sprintf(call, id)); err == nil || !strings.Contains(err.Error(), "argument order.id") {
			t.Error(id, err)
		}
	}
	if _, err := of(`{"amount":1050,"currency":"usd","charge":"ch_1","order":{"id":7}}`); err == nil {
		t.Error("a payment without its line")
	}
}

// Arguments that identify a payment are refused if a server could read them as those of another
// one: numbers that a binary float does not keep, and values of another type than the schema's.
func TestSameArguments(t *testing.T) {
	m := mapping(func(t *tool) { t.Same = []string{"order.id", "amount"} })
	const call = `{"amount":1050,"currency":"usd","charge":"ch_1","order":{"id":%s}}`
	for id, want := range map[string][2]string{ // where the schema says integer, and string
		`77`: {"", "string"}, `7.5`: {"integer", "string"}, `"77"`: {"integer", ""}, `7.7e1`: {"", "string"}, `true`: {"integer", "string"},
		`9007199254740992`: {"", "string"}, `9007199254740993`: {"digits", "string"}, `1.00000000000000000001`: {"integer", "string"},
	} {
		for i, kind := range []string{"integer", "string"} {
			schema := jsontext.Value(`{"properties":{"order":{"properties":{"id":{"type":"` + kind + `"}}}}}`)
			err := m.checkSame(jsontext.Value(fmt.Sprintf(call, id)), schema)
			if want := want[i]; (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
				t.Errorf("%s of type %s: %v, want %q", id, kind, err, want)
			}
		}
	}
	for _, id := range []string{`"7\ufe0f"`, `"\u28007"`, `"\u03017"`, `"7\u001b"`, `"7 \u0301"`} {
		if err := m.checkSame(jsontext.Value(fmt.Sprintf(call, id)), nil); err == nil || !strings.Contains(err.Error(), "shows nothing") {
			t.Errorf("%s: %v", id, err)
		}
	}
	if err := m.checkSame(jsontext.Value(fmt.Sprintf(call, `"a\n"`)), nil); err != nil {
		t.Error(err)
	}
	if err := m.checkSame(jsontext.Value(fmt.Sprintf(call, `9007199254740993`)), nil); err == nil {
		t.Error("a number with more digits than programs agree on says which payment it is")
	}
}

// An argument that a server could take for one that the gateway reads is refused if the schema does not have it.
func TestSpelling(t *testing.T) {
	m := mapping(func(t *tool) {
		t.Amount.Argument, t.Counterparty.Argument, t.IdempotencyArgument = "order.total_amount", "payTo", "idempotency_key"
		t.Same = []string{"line-id"}
	})
	m.Metadata = map[string]source{"to": {Argument: "to"}, "t_o": {Argument: "t_o"}, "line": {Argument: "line.id"}}
	const schema = `{"properties":{"order":{"$ref":"#/$defs/order"},"payTo":{},"line-id":{},"idempotency_key":{},"to":{},"t_o":{},"line":{},
		"order_total_amount":{}},"allOf":[{"properties":{"_currency":{}}}],"$defs":{"order":{"properties":{"total_amount":{},"TotalAmount":{}}}}}`
	for arguments, want := range map[string]string{
		`{"order":{"total_amount":1,"totalAmount":9}}`:          "totalAmount",
		`{"order":{"total_amount":1},"payTo":"a","pay_to":"b"}`: "pay_to",
		`{"pay-to":"b"}`:                                        "pay-to",
		`{"payTo":"a","\uff50ayTo":"b"}`:                        "\uff50ayTo",
		`{"currency":"usd","_currency":"eur"}`:                  "_currency",
		`{"currency":"eur","_currency":"eur"}`:                  "",
		`{"order":{"total_amount":1,"TotalAmount":9}}`:          "TotalAmount",
		`{"order":{"total_amount":1,"TotalAmount":1.0}}`:        "",
		`{"order":{"TotalAmount":1}}`:                           "TotalAmount",
		`{"to":"a","t_o":"b"}`:                                  "", // both are read
		`{"currency":"usd","currency_":"eur"}`:                  "currency_",
		`{"lineId":1}`:                                          "lineId",
		`{"idempotencyKey":"mine"}`:                             "idempotencyKey",
		`{"idempotency_key":"mine","_":1,"":2}`:                 "",
		`{"total_amount":9,"totalamount":9}`:                    "",
		`{"order":[],"payTo":"a","pay_too":"b"}`:                "",
		`{"order":{"total_amount":1},"order.total_amount":9}`:   "order.total_amount",
		`{"order":{"total_amount":1},"order_total_amount":9}`:   "order_total_amount",
		`{"order":{"total_amount":1},"order_total_amount":1.0}`: "",
		`{"line":{"id":1},"line-id":2}`:                         "", // both are read
	} {
		err := m.checkSpelling(jsontext.Value(arguments), jsontext.Value(schema))
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), strconv.Quote(want)) {
			t.Errorf("%s: %v, want %q", arguments, err, want)
		}
	}
}

// A call that names another currency than the one that is judged is refused, whatever the server would make of it.
func TestOtherCurrency(t *testing.T) {
	m := mapping(func(t *tool) { t.Amount = &amountSource{Argument: "order.total"} })
	for arguments, refused := range map[string]bool{
		`{"order":{"total":1}}`:                            false,
		`{"currency":"usd","order":{"total":1}}`:           false,
		`{"currency":null,"order":{"total":1}}`:            false,
		`{"price":{"currency":"EUR"},"order":{"total":1}}`: false,
		`{"currency":"EUR","order":{"total":1}}`:           true,
		`{"order":{"total":1,"Currency_Code":"EUR"}}`:      true,
		`{"order":{"total":1,"currency":978}}`:             true,
		`{"order":{"total":1,"currency":["EUR"]}}`:         true,
	} {
		if err := m.checkCurrency(jsontext.Value(arguments), "USD"); (err != nil) != refused {
			t.Errorf("%s: %v", arguments, err)
		}
	}
}

// The notes say what the author of a mapping should know about a schema. A server that does not know
// the argument that makes repetitions safe is not called.
func TestNotes(t *testing.T) {
	m := mapping(func(t *tool) { t.IdempotencyArgument = "key" })
	schema := jsontext.Value(`{"properties":{"currency":{},"Currency_":{},"order":{"properties":{"id":{}}},"order_id":{}}}`)
	got := strings.Join(m.notes(schema), "\n")
	for _, want := range []string{`no argument "key"`, "no argument charge", "Currency_ beside currency", "order_id beside order.id"} {
		if !strings.Contains(got, want) {
			t.Errorf("%s lacks %q", got, want)
		}
	}
	if err := m.checkFilled(schema); err == nil {
		t.Error("a repeated call would be carried out twice")
	}
	if got := m.notes(nil); len(got) != 1 || !strings.HasPrefix(got[0], "same is not given") {
		t.Error(got)
	}
	m.Same = []string{"charge"}
	if got := m.notes(jsontext.Value(`{"type":"object"}`)); got != nil || m.checkFilled(nil) != nil {
		t.Error(got)
	}
	m.IdempotencyArgument = ""
	got = strings.Join(m.notes(jsontext.Value(`{"properties":{"amount":{},"currency":{},"charge":{},"order":{}}}`)), "")
	m.OnError = onErrorFailed
	if notes := m.notes(nil); len(notes) != 1 || !strings.Contains(notes[0], "on_error: failed") {
		t.Error(notes)
	}
	m.OnError = onErrorInDoubt
	if err := m.checkFilled(schema); got != "" || err != nil {
		t.Error(got, err)
	}
	m.Currency = &source{Value: jsontext.Value(`"USD"`)}
	got = strings.Join(m.notes(jsontext.Value(`{"properties":{"amount":{},"currency":{},"charge":{},"order":{}}}`)), "\n")
	const beside = "has currency beside the amount, and the currency is read elsewhere"
	if !strings.Contains(got, beside) {
		t.Error(got)
	}
	m.Currency, m.Amount = &source{Argument: "currency"}, &amountSource{Argument: "order.total"}
	schema = jsontext.Value(`{"properties":{"order":{"properties":{"total":{},"currency":{}}},"currency":{},"charge":{}}}`)
	got = strings.Join(m.notes(schema), "\n")
	if !strings.Contains(got, beside) {
		t.Error(got)
	}
}

// The argument that the gateway fills is hidden everywhere in a schema.
func TestHiddenArgument(t *testing.T) {
	m := mapping(func(t *tool) { t.IdempotencyArgument = "key" })
	shown := string(m.shown(jsontext.Value(`{"name":"t","inputSchema":{"type":"object","required":["a","key"],
		"properties":{"a":{"properties":{"b":{}}},"key":{}},"allOf":[{"required":["KEY"],"properties":{"key":{}}},{"$ref":"#/$defs/x"}],
		"anyOf":[{"oneOf":[{"required":["key"]}]}],
		"$defs":{"x":{"properties":{"key":{},"c":{}}}}}}`)))
	for part, has := range map[string]bool{`"key"`: false, `"KEY"`: false, `"required":["a"]`: true, `{"c":{}}`: true} {
		if strings.Contains(shown, part) != has {
			t.Errorf("%s in %s", part, shown)
		}
	}
}

// The model's value of the argument that the gateway fills never reaches the server.
func TestSentArguments(t *testing.T) {
	filled := mapping(func(t *tool) { t.IdempotencyArgument = "key" })
	for arguments, want := range map[string]string{
		`{"a":1.50,"b":[ 1 ]}`:               `{"a":1.50,"b":[ 1 ],"key":"chk_1"}`,
		`{"key":"mine","a":1}`:               `{"a":1,"key":"chk_1"}`,
		`{"a":1,"KEY":"mine"}`:               `{"a":1,"key":"chk_1"}`,
		`{"a":{"key":"other"},"b":"\u00e9"}`: `{"a":{"key":"other"},"b":"\u00e9","key":"chk_1"}`,
	} {
		if got, err := filled.sent(jsontext.Value(arguments), "chk_1"); err != nil || string(got) != want {
			t.Errorf("%s: %s %v", arguments, got, err)
		}
	}
	exact := jsontext.Value(`{ "a" : 1.50 }`)
	if got, err := mapping(nil).sent(exact, "chk_1"); err != nil || string(got) != string(exact) {
		t.Error(string(got), err)
	}
}

func TestReference(t *testing.T) {
	m := mapping(func(t *tool) { t.Reference = &resultSource{"refund.id"} })
	for result, want := range map[string]string{
		`{"structuredContent":{"refund":{"id":"re_1"}}}`:                                                                  "re_1",
		`{"content":[{"type":"text","text":"{\"refund\":{\"id\":7}}"}]}`:                                                  "7",
		`{"content":[{"type":"text","text":"done"},{"type":"text","text":"{\"refund\":{\"id\":\"x\"}}"}]}`:                "x",
		`{"content":[{"type":"text","text":"{\"refund\":1}"}]}`:                                                           "",
		`{"content":[{"type":"text","text":"{\"refund\":{\"id\":1}}"},{"type":"text","text":"{\"refund\":{\"id\":2}}"}]}`: "",
		`{"content":[]}`: "",
	} {
		if got := m.reference(jsontext.Value(result)); got != want {
			t.Errorf("%s: %q", result, got)
		}
	}
}
