package gateway

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"spendgate/bench/must"
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
	digits := func(n int) func(*tool) {
		return func(t *tool) { t.Amount = &amountSource{Argument: "amount", Digits: &n} }
	}
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
		{decimals, `{"amount":10.50,` + rest + `}`, "10.5 USD ch_1"},
		{decimals, `{"amount":0.001,` + rest + `}`, "error: argument amount must have at most 2 fraction digits in USD"},
		{decimals, `{"amount":1.5,"currency":"JPY","charge":"ch_1"}`, "error: argument amount must have at most 0 fraction digits in JPY"},
		{decimals, `{"amount":1.005,"currency":"KWD","charge":"ch_1"}`, "1.005 KWD ch_1"},
		{nil, `{"amount":1050.5,` + rest + `}`, "error: argument amount must be a whole number of the smallest unit"},
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
		{nil, `{"Amount":1,` + rest + `}`, "error: argument amount is missing"},
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
		{digits(3), `{"amount":1050,` + rest + `}`, "1.05 USD ch_1"},
		{digits(0), `{"amount":1050,"currency":"MGA","charge":"ch_1"}`, "1050 MGA ch_1"},
		{digits(0), `{"amount":10.5,` + rest + `}`, "error: argument amount must be a whole number"},
		{inside, `{"order":{"total":12.34},` + rest + `}`, "12.34 USD ch_1"},
		{inside, `{"order.total":1,"order":{"total":12.34},` + rest + `}`, "12.34 USD ch_1"},
		{inside, `{"order.total":1,` + rest + `}`, "error: argument order.total is missing"},
		{inside, `{"order":{"total":1,"Total":2},` + rest + `}`, "error"},
		{inside, `{"order":[{"total":1}],` + rest + `}`, "error"},
		{inside, `{"order":"{\"total\":1}",` + rest + `}`, "error"},
	} {
		a, err := mapping(test.change).action("bot", jsontext.Value(test.arguments))
		got := a.Amount.String() + " " + a.Currency + " " + a.Counterparty
		if err != nil {
			got = "error: " + err.Error()
		}
		if got != test.want && (err == nil || !strings.HasPrefix(got, test.want)) {
			t.Errorf("%s\n got %s\nwant %s", test.arguments, got, test.want)
		}
	}
	if _, err := mapping(nil).action(" ", jsontext.Value(`{"amount":1,`+rest+`}`)); err == nil {
		t.Error("a call without an agent is read")
	}
	a, err := mapping(nil).action("bot", jsontext.Value(`{"amount":1,`+rest+`,"order":{"id":7}}`))
	if err != nil || string(encode(a.Metadata)) != `{"from":"g","order_id":7}` {
		t.Error(a.Metadata, err)
	}
}

// TestClosed: an argument is mapped, passed on, or refused by name.
func TestClosed(t *testing.T) {
	m := mapping(func(t *tool) { t.Pass, t.IdempotencyArgument = []string{"note", "order.tags"}, "key" })
	for arguments, want := range map[string]string{
		`{"amount":1,"charge":"c","currency":"USD","note":{"any":1},"key":"k","order":{"id":1,"tags":[1]}}`: "",
		`{"amount":1,"tip":1}`:          "argument tip is neither mapped",
		`{"Amount":1}`:                  "argument Amount is neither mapped",
		`{"order":{"id":1,"total":9}}`:  "argument order.total is neither mapped",
		`{"order.id":1}`:                "argument order.id is neither mapped",
		`{"order":7}`:                   "argument order is neither mapped",
		`{"":1}`:                        "is neither mapped",
		`{"amount":1,"a\u0435mount":2}`: `argument "a\u0435mount" is neither`,
		`[1]`:                           "must be an object",
		`{"amount":1,"amount":2}`:       "twice",
	} {
		err := closed(jsontext.Value(arguments), m.known(), "")
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%s: %v, want %q", arguments, err, want)
		}
	}
}

// TestValidate: arguments are those that the tool's schema permits.
func TestValidate(t *testing.T) {
	for _, c := range []struct{ schema, arguments, want string }{
		{`{"properties":{"a":{"type":"integer"}}}`, `{"a":5.0}`, ""},
		{`{"properties":{"a":{"type":"integer"}}}`, `{"a":"5"}`, "a got string, want integer"},
		{`{"properties":{"a":{"type":"integer"}}}`, `{"a":5.5}`, "want integer"},
		{`{"required":["a"]}`, `{}`, "missing"},
		{`{"additionalProperties":false,"properties":{"a":{}}}`, `{"b":1}`, "additional properties"},
		{`{"properties":{"a":{"$ref":"#/$defs/x"}},"$defs":{"x":{"enum":["u"]}}}`, `{"a":"v"}`, "value must be 'u'"},
		{`{"properties":{"a":{"maximum":9007199254740992}}}`, `{"a":9007199254740993}`, "maximum"},
		{`{"properties":{"a":{"maximum":9}}}`, `{"a":1e2000000}`, "too large or too small"},
		{`{"properties":{"a":{"multipleOf":2}}}`, `{"a":1E-99999}`, "too small"},
		{`{}`, `{"a":[{"b":-1e+00400}]}`, "too large"},
		{`{}`, `{"a":0e99999}`, ""},
		{`{"properties":{"a":{"maximum":9}}}`, `{"a":1e-0000007}`, ""},
		{`{"$ref":"http://127.0.0.1:1/x"}`, `{}`, "cannot be read"},
		{`{"$ref":"file:///etc/passwd"}`, `{}`, "cannot be read"},
		{`{"type":"none"}`, `{}`, "cannot be read"},
	} {
		schema, err := compile(jsontext.Value(c.schema))
		if err == nil {
			err = validate(schema, jsontext.Value(c.arguments))
		}
		if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%s of %s: %v, want %q", c.arguments, c.schema, err, c.want)
		}
	}
}

// TestPayment: calls have one payment if the arguments of same have the same values, however they are written.
func TestPayment(t *testing.T) {
	key := func(m *tool, upstream, name, agent, arguments string) string {
		t.Helper()
		a, err := m.action(agent, jsontext.Value(arguments))
		if err == nil {
			err = m.payment(upstream, name, &a, jsontext.Value(arguments))
		}
		if err != nil {
			return "error: " + err.Error()
		}
		if a.AgainAfterHours != map[bool]int{true: 0, false: againAfterHours}[m.Once] {
			t.Error(a.AgainAfterHours)
		}
		return a.PaymentKey
	}
	of := func(once bool, paths ...string) *tool {
		return mapping(func(t *tool) { t.Once, t.Same = once, &same{paths: paths, all: paths == nil} })
	}
	call := func(more string) string { return `{"amount":1,"currency":"usd","charge":"c"` + more + `}` }
	own := of(false, "charge", "n")
	first := key(own, "u", "t", "bot", call(`,"n":"77"`))
	if len(first) > 255 || !strings.HasPrefix(first, "gw-") {
		t.Error(first)
	}
	for name, is := range map[string]string{
		"a number":    key(own, "u", "t", "bot", call(`,"n":77`)),
		"an exponent": key(own, "u", "t", "bot", call(`,"n":7.7e1`)),
		"wide":        key(own, "u", "t", "bot", call(`,"n":"７７"`)),
		"spaces":      key(own, "u", "t", "bot", call(`,"n":" 77\n"`)),
		"others":      key(own, "u", "t", "bot", call(`,"n":77,"note":"x"`)),
		"of amount":   key(own, "u", "t", "bot", strings.Replace(call(`,"n":77`), "1", "2", 1)),
	} {
		if is != first {
			t.Errorf("%s is another payment: %s", name, is)
		}
	}
	for name, is := range map[string]string{
		"a value": key(own, "u", "t", "bot", call(`,"n":78`)), "none": key(own, "u", "t", "bot", call("")),
		"an agent": key(own, "u", "t", "other", call(`,"n":77`)), "a server": key(own, "v", "t", "bot", call(`,"n":77`)),
		"a tool": key(own, "u", "x", "bot", call(`,"n":77`)), "case": key(own, "u", "t", "bot", call(`,"n":"77a"`)),
	} {
		if is == first || strings.HasPrefix(is, "error") {
			t.Errorf("%s: %s", name, is)
		}
	}
	if a, b := key(own, "u", "t", "bot", call(`,"n":" "`)), key(own, "u", "t", "bot", call("")); a != b {
		t.Error("a blank argument is not a missing one")
	}
	good := of(true, "charge", "n")
	if a, b := key(good, "u", "t", "bot", call(`,"n":1`)), key(good, "u", "t", "other", call(`,"n":1`)); a != b {
		t.Error("once holds for an agent only")
	}
	all := of(false)
	if a, b := key(all, "u", "t", "bot", call(`,"o":{"x":1,"y":"b"}`)), key(all, "u", "t", "bot", call(`,"o":{"y":"b","x":1.0}`)); a != b ||
		a == key(all, "u", "t", "bot", call(`,"o":{"x":2,"y":"b"}`)) {
		t.Error("all is not all", a, b)
	}
	for _, c := range []struct {
		m               *tool
		arguments, want string
	}{
		{own, call(`,"n":"a\u200bb"`), "U+200B"},
		{own, call(`,"n":{"x":1}`), "is an object"},
		{own, call(`,"n":[1]`), "is a list"},
		{own, call(`,"n":12345678901234567890`), "more digits"},
		{good, call(""), "argument n is missing, and once needs all"},
		{good, call(`,"n":" "`), "argument n is missing, and once needs all"},
		{of(false, "n"), call(""), "none of the arguments n"},
		{all, call(`,"l":[1]`), "is a list"},
	} {
		if got := key(c.m, "u", "t", "bot", c.arguments); !strings.Contains(got, c.want) {
			t.Errorf("%s: %s, want %s", c.arguments, got, c.want)
		}
	}
}

// TestHidden: the model does not see the argument that the gateway fills, wherever the schema has it.
func TestHidden(t *testing.T) {
	const schema = `{"properties":{"a":{},"key":{}},"required":["a","key"],"$ref":"#/$defs/x",` +
		`"$defs":{"x":{"properties":{"key":{}},"required":["key"]}},"anyOf":[{"properties":{"key":{}}},{"allOf":[{"required":["key"]}]}]}`
	const want = `{"$defs":{"x":{"properties":{},"required":[]}},"$ref":"#/$defs/x",` +
		`"anyOf":[{"properties":{}},{"allOf":[{"required":[]}]}],"properties":{"a":{}},"required":["a"]}`
	if got := string(encode(hide(jsontext.Value(schema), "key"))); got != want {
		t.Error(got)
	}
	m := mapping(func(t *tool) { t.IdempotencyArgument = "key" })
	if got, err := m.sent(jsontext.Value(`{"Key":"x","a":1.50}`), "exe_1"); err != nil || string(got) != `{"a":1.50,"key":"exe_1"}` {
		t.Error(string(got), err)
	}
	if err := m.checkFilled(must.Get(compile(jsontext.Value(`{"properties":{"a":{}}}`)))(t)); err == nil {
		t.Error("a server that does not take the key is called")
	}
}

// TestResults: what a result says of the payment.
func TestResults(t *testing.T) {
	m := mapping(func(t *tool) {
		t.Reference = &resultSource{Result: "refund.id"}
		t.DeclinedIf = &declined{Result: "code", In: []jsontext.Value{[]byte(`"card_declined"`), []byte(`17`)}}
	})
	for result, want := range map[string]string{
		`{"structuredContent":{"refund":{"id":"re_1"}}}`:                                         "re_1",
		`{"structuredContent":{"refund":{"id":9007199254740993}},"content":[]}`:                  "9007199254740993",
		`{"content":[{"type":"text","text":"{\"refund\":{\"id\":\"re_2\"}}"}]}`:                  "re_2",
		`{"content":[{"type":"text","text":"{}"},{"type":"text","text":"{}"}]}`:                  "",
		`{"structuredContent":{"code":"card_declined"}}`:                                         "declined",
		`{"isError":true,"content":[{"type":"text","text":"{\"code\":\"card_declined\"}"}]}`:     "declined",
		`{"structuredContent":{"code":17}}`:                                                      "declined",
		`{"structuredContent":{"code":"ok"},"content":[{"type":"text","text":"{\"code\":17}"}]}`: "",
		`{"structuredContent":{},"content":[{"type":"text","text":"{\"code\":17}"}]}`:            "",
		`{"content":[{"type":"text","text":"failed"},{"type":"text","text":"{\"code\":17}"}]}`:   "",
		`{"content":[{"type":"image","data":""},{"type":"text","text":"{\"code\":17}"}]}`:        "",
		`{"structuredContent":{"code":"17x"}}`:                                                   "",
		`{"structuredContent":{"code":""}}`:                                                      "",
		`7`:                                                                                      "",
	} {
		got, r := "", new(mcp.CallToolResult)
		if a, _ := readable([]byte(`{"jsonrpc":"2.0","id":1,"result":` + result + `}`)).(*jsonrpc.Response); a.Error == nil {
			must.Do(t, json.Unmarshal(a.Result, r))
			unquoted(r)
			got = m.reference(r)
		}
		if m.declined(r) {
			got = "declined"
		}
		if got != want {
			t.Errorf("%s: %q", result, got)
		}
	}
}
