package httpapi

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"spendgate/audit"
	"spendgate/audit/spend"
	"spendgate/hotpath"
)

func checkOf(body string) (*spend.Action, error) {
	a := new(spend.Action)
	return a, readObject([]byte(body), func(r *reader) { decodeCheck(r, a) })
}

// with puts members before the members of a good check.
func with(members string) string { return "{" + members + "," + plainCheck[1:] }

// without takes a member, of a string or number, out of a good check.
func without(name string) string {
	start := strings.Index(plainCheck, `"`+name+`":`)
	return plainCheck[:start] + plainCheck[start+strings.IndexByte(plainCheck[start:], ',')+1:]
}

func TestDecodeCheck(t *testing.T) {
	amount, _ := spend.ParseAmount("129.95")
	want := spend.Action{
		AgentID: "agent-support-7", PolicyID: "refunds-eu", Type: spend.Refund, Amount: amount, Currency: "EUR",
		Counterparty: "customer-48213", PaymentMethod: "card", IdempotencyKey: "order-99-refund-1",
		Metadata: spend.Metadata{
			JSON:              `{"days_since_purchase":12,"country":"DE","category":"electronics","order_id":"A-9912"}`,
			DaysSincePurchase: 12, HasDaysSincePurchase: true, Country: "DE", Category: "electronics",
		},
	}
	f := func(body string, want spend.Action) {
		t.Helper()
		if got, err := checkOf(body); err != nil || !reflect.DeepEqual(*got, want) {
			t.Errorf("%s:\n got %+v, %v\nwant %+v", body, *got, err, want)
		}
	}
	f(plainCheck, want)
	f(" \n\t\r"+plainCheck+"\n", want)
	f(plainCheck+strings.Repeat(" ", 2*maxShared), want)
	f(strings.NewReplacer(`"agent_id":"agent`, `"\u0061gent_id" : "\u0061gent`, "129.95", "12995e-2", `"EUR"`, `"eur"`, `{"days`, `{ "days`).
		Replace(plainCheck), want)
	f(with(`"reason_text":" ","merchant_or_vendor":""`), want)
	f(with(`"reason_text":null,"merchant_or_vendor":null`), want)
	escaped := want
	escaped.ReasonText, escaped.MerchantOrVendor = "a\"\\/\b\f\n\r\t é 😀", "\\u0000"
	f(with(`"reason_text":"a\"\\\/\b\f\n\r\t \u00e9 \ud83d\uDE00","merchant_or_vendor":"\\u0000"`), escaped)
	f(with(`"reason_text":"a\"\\\/\b\f\n\r\t é 😀","merchant_or_vendor":"\\u0000"`)+strings.Repeat(" ", 2*maxShared), escaped)
	untyped := want
	untyped.Type, untyped.ReasonText = spend.Unspecified, "give the money back"
	f(strings.Replace(plainCheck, `"action_type":"refund"`, `"action_type":null,"reason_text":"give the money back"`, 1), untyped)
	zero := want
	zero.Amount = spend.Amount{}
	f(strings.Replace(plainCheck, "129.95", "-0.000", 1), zero)
}

// A body that S1 calls bad_request is one wherever the fault is, even if fields are at fault, too.
func TestMalformedBodies(t *testing.T) {
	f := func(body, reason string) {
		t.Helper()
		_, err := checkOf(body)
		malformed, ok := errors.AsType[*bodyError](err)
		if !ok {
			t.Errorf("%q: %v", body, err)
		} else if !strings.Contains(malformed.reason, reason) {
			t.Errorf("%q: %q, want %q", body, malformed.reason, reason)
		}
	}
	f("", "is empty")
	f(" \n", "is empty")
	for _, body := range []string{"null", "true", "1", `"x"`, "[]", "[" + plainCheck + "]"} {
		f(body, "must be one JSON object")
	}
	for _, body := range []string{"nul", "[", `"`, "-", "[}"} {
		f(body, "malformed JSON")
	}
	for cut := 1; cut < len(plainCheck); cut++ {
		f(plainCheck[:cut], "malformed JSON")
	}
	f(plainCheck+"x", "malformed JSON")
	f(plainCheck+"{}", "nothing after it")
	f(plainCheck+"]", "malformed JSON")
	f(plainCheck+",", "malformed JSON")
	f("\ufeff"+plainCheck, "malformed JSON")
	f(plainCheck+"\x00", "malformed JSON")
	f(strings.Replace(plainCheck, "129.95", "0x1", 1), "malformed JSON")
	f(strings.Replace(plainCheck, "129.95", "+1", 1), "malformed JSON")
	f(strings.Replace(plainCheck, "129.95", ".5", 1), "malformed JSON")
	f(strings.Replace(plainCheck, "129.95", "NaN", 1), "malformed JSON")
	f(strings.Replace(plainCheck, "{", "{,", 1), "malformed JSON")
	f(strings.Replace(plainCheck, "{", "{/**/", 1), "malformed JSON")
	f(strings.Replace(plainCheck, `:"EUR"`, `:'EUR'`, 1), "malformed JSON")
	f(strings.Repeat(`{"a":`, 20000)+"1"+strings.Repeat("}", 20000), "malformed JSON")
	f(with(`"metadata":`+strings.Repeat("[", 200000)), "malformed JSON")

	// Anywhere: in a field, an unknown field, a name, deep inside.
	for _, place := range []string{
		`"reason_text":"%"`, `"x":"%"`, `"%":1`, `"x":{"y":["%"]}`, `"metadata":{"a":{"%":1}}`, `"amount":1,"currency":7,"x":"%"`,
	} {
		in := func(s string) string {
			return "{" + strings.Replace(place, "%", s, 1) + "}"
		}
		f(in(`a\u0000b`), "U+0000")
		f(in(`\\\u0000`), "U+0000")
		f(in("a\x00b"), "malformed JSON")
		f(in("a\nb"), "malformed JSON")
		f(in("a\xffb"), "which is not UTF-8")
		f(in("\xed\xa0\x80"), "malformed JSON") // a surrogate in UTF-8
		f(in("\xc0\x80"), "which is not UTF-8")
		f(in(`\ud800`), "malformed JSON")
		f(in(`\udc00 x`), "malformed JSON")
		f(in(`\ud800\u0041`), "malformed JSON")
		f(in(`\x`), "malformed JSON")
	}
	f(with(`"agent_id":"twice"`), "duplicate")
	f(with(`"\u0061gent_id":"twice"`), "duplicate")
	f(with(`"x":1,"x":2`), "duplicate")
	f(`{"metadata":{"a":{"b":1,"c":2,"b":3}}}`, "duplicate")
	f(`{"x":[{"b":1,"b":3}]}`, "duplicate")
}

func TestFaultyChecks(t *testing.T) {
	f := func(body string, want string) {
		t.Helper()
		_, err := checkOf(body)
		var faults spend.Faults
		if !errors.As(err, &faults) || err.Error() != want {
			t.Errorf("%s\n got %v\nwant %v", body, err, want)
		}
	}
	const typeMissing = "action_type is required unless reason_text is given: refund, credit, discount or spend"
	f("{}", "amount is required; currency is required; agent_id is required; policy_id is required; counterparty is required; "+typeMissing)
	f(`{"agent_id":null,"policy_id":null,"action_type":null,"amount":null,"currency":null,"counterparty":null,"metadata":null}`,
		"amount is required; currency is required; agent_id is required; policy_id is required; counterparty is required; "+typeMissing)
	f(`{"agent_id":1,"policy_id":{},"action_type":[],"amount":"1","currency":true,"counterparty":false,"metadata":""}`,
		"agent_id must be a string; policy_id must be a string; action_type must be a string; amount must be a number; "+
			"currency must be a string; counterparty must be a string; metadata must be an object")
	for _, name := range []string{"agent_id", "policy_id", "amount", "currency", "counterparty"} {
		f(without(name), name+" is required")
		f(strings.Replace(without(name), "{", `{"`+name+`":null,`, 1), name+" is required")
	}
	for _, name := range []string{"agent_id", "policy_id", "currency", "counterparty"} {
		f(strings.Replace(without(name), "{", `{"`+name+`":" \t",`, 1), name+" is required")
	}
	f(without("action_type"), typeMissing)
	f(with(`"Agent_ID":"x"`), "Agent_ID is not a known field")
	f(with(`"":1,"latency_ms":{"a":[1]},"`+strings.Repeat("y", 500)+`":1`),
		" is not a known field; latency_ms is not a known field; "+strings.Repeat("y", 64)+"... is not a known field")
	amount := func(s string) string { return strings.Replace(plainCheck, "129.95", s, 1) }
	f(amount(`"129.95"`), "amount must be a number")
	f(amount("-0.01"), "amount must not be negative")
	f(amount("1e19"), "amount "+spend.ErrTooManyDigits.Error())
	f(amount("0.30000000000000004"), "amount "+spend.ErrTooManyDigits.Error()+"; round it to the currency's digits") // 0.1 + 0.2
	f(amount("1e999999999999999999999999"), "amount "+spend.ErrTooManyDigits.Error())
	f(amount("[1]"), "amount must be a number")
	f(strings.Replace(plainCheck, `"EUR"`, `"EURO"`, 1), "currency must be a currency code of three letters")
	f(strings.Replace(plainCheck, `"EUR"`, `"E€"`, 1), "currency must be a currency code of three letters")
	f(strings.Replace(plainCheck, `"refund"`, `"Refund"`, 1), "action_type "+actionTypeForm)
	f(strings.Replace(plainCheck, `"refunds-eu"`, `"-refunds"`, 1), "policy_id "+spend.PolicyIDForm)
	f(strings.Replace(plainCheck, `"card"`, `7`, 1), "payment_method must be a string")
	f(strings.Replace(plainCheck, `12,`, `"12",`, 1), "metadata.days_since_purchase must be an integer of 0 or more, with at most 18 digits")
	long := func(n int) string { return strings.Repeat("é", n) }
	f(with(`"reason_text":"`+long(4097)+`"`), "reason_text must be at most 4096 characters")
	if _, err := checkOf(with(`"reason_text":"` + long(4096) + `"`)); err != nil {
		t.Error(err)
	}
	f(strings.Replace(plainCheck, "agent-support-7", long(257), 1), "agent_id must be at most 256 characters")
}

// A request that is wrong all over costs no more than it says.
func TestFaultsAreBounded(t *testing.T) {
	var b strings.Builder
	for i := range 50000 {
		fmt.Fprintf(&b, `"x%d":1,`, i)
	}
	_, err := checkOf("{" + b.String() + plainCheck[1:])
	var faults spend.Faults
	if !errors.As(err, &faults) || len(faults) != maxFaults || len(err.Error()) > 4000 {
		t.Errorf("%d faults, %d bytes", len(faults), len(err.Error()))
	}
}

func TestDecodePolicy(t *testing.T) {
	var drop []string
	f := func(body, want string) *audit.Policy {
		t.Helper()
		p := new(audit.Policy)
		got := ""
		if err := readObject([]byte(body), func(r *reader) { drop = decodePolicy(r, p, versionBody) }); err != nil {
			got = err.Error()
		}
		if !strings.HasPrefix(got, want) || want == "" && got != "" {
			t.Errorf("%s\n got %s\nwant %s", body, got, want)
		}
		return p
	}
	p := f(`{"name":"n","description":"","rules":[ {"rule_id" : "a\u0062"} ],"metadata":{"country":7, "x":[1.50]}}`, "")
	if p.Rules != `[{"rule_id":"a\u0062"}]` || p.Metadata != `{"country":7,"x":[1.50]}` || p.PolicyID != "" || p.Description != "" {
		t.Errorf("%+v", p)
	}
	// Rules are compiled when the policy is created.
	f(`{"name":"n"}`, "")
	if p := f(`{"name":"n","note":" why ","drop_budgets":["b","a\u0062"]}`, ""); p.Note != " why " ||
		!slices.Equal(drop, []string{"b", "ab"}) {
		t.Errorf("%q, %q", p.Note, drop)
	}
	if p := f(`{"name":"n","note":" ","drop_budgets":[]}`, ""); p.Note != "" || len(drop) > 0 {
		t.Errorf("%q, %q", p.Note, drop)
	}
	f(`{"name":"n","note":null,"drop_budgets":null}`, "")
	f(`{"name":"n","note":"`+strings.Repeat("ü", 4097)+`","drop_budgets":["a","a"," ",1]}`,
		"note must be at most 4096 characters; drop_budgets[1] is there twice; drop_budgets[2] must be 1-256 characters that are not all "+
			"white space; "+
			"drop_budgets[3] must be a string")
	f(`{"name":"n","drop_budgets":"a"}`, "drop_budgets must be a list of strings")
	f(`{"policy_id":"a b","name":"`+strings.Repeat("n", 256)+`","description":"`+strings.Repeat("d", 4097)+`","metadata":[],`+
		simplePolicy[len(`{"policy_id":"p:1","name":"n",`):],
		"metadata must be an object; policy_id must be 1-128 characters of A-Z a-z 0-9 . _ : - and start with a letter or digit; "+
			"name must be at most 255 characters; description must be at most 4096 characters")
	f(`{"name":"n","version":1,"metadata":{"a":`+strings.Repeat("[", 8)+strings.Repeat("]", 8)+"},"+
		simplePolicy[len(`{"policy_id":"p:1","name":"n",`):],
		"version is not a known field; metadata must be at most 8 levels deep")
	f(`{"name":"n","rules":[{"a":1,"a":2}]}`, "the body has a duplicate member name")
	f(`{"name":1,"rules":[{"a":"\u0000"}]}`, "the body must not contain U+0000")
}

// The faults of a policy and of its rules are reported together.
func TestAllFaultsOfAPolicyAreTold(t *testing.T) {
	s := start(t, nil)
	f := func(body, want string) {
		t.Helper()
		if a := s.do("POST", "/v1/policies", body); a.status != 422 || a.code(t) != codeValidation ||
			!strings.Contains(a.body, `"message":"`+want) {
			t.Errorf("%s: %d %s, want %s", body, a.status, a.body, want)
		}
	}
	f(`{"name":"n"}`, "rules is required")
	f(`{}`, "name is required; rules is required")
	f(`{"name":null,"rules":7}`, "name is required; rules must be an array")
	f(`{"name":7,"rules":[]}`, "name must be a string; rules must have at least one rule")
	f(`{"nam":"n","name":"n","rules":[{"rule_id":"a","rule_type":"max_amount","parameters":{}}]}`,
		"nam is not a known field; rules[0].parameters.limit is required")
}

// A policy for which the store has no room is refused as one at fault is: to try
// again is of no use.
func TestNoRoomForPolicies(t *testing.T) {
	s := start(t, nil)
	s.fake.workErr = fmt.Errorf("cannot create: %w", audit.ErrPoliciesFull)
	if a := s.do("POST", "/v1/policies", simplePolicy); a.status != 422 || a.code(t) != codeValidation || a.header.Get("Retry-After") != "" {
		t.Errorf("%d %s", a.status, a.body)
	}
}

func TestDecodeKeys(t *testing.T) {
	f := func(body string, decode func(*reader), want string) {
		t.Helper()
		got := ""
		if err := readObject([]byte(body), decode); err != nil {
			got = err.Error()
		}
		if got != want {
			t.Errorf("%s\n got %s\nwant %s", body, got, want)
		}
	}
	bounds := keyBounds{defaultMaxRateLimit, time.UnixMilli(instant)}
	var k hotpath.NewKey
	create := func(r *reader) { k = hotpath.NewKey{}; decodeNewKey(r, &k, bounds) }
	const rate = "rate_limit_rpm must be an integer of 1 to 10000"
	f(`{"name":"n"}`, create, "")
	if !reflect.DeepEqual(k, hotpath.NewKey{Name: "n", RateLimitRPM: 100}) {
		t.Errorf("%+v", k)
	}
	f(`{"name":"n","rate_limit_rpm":null}`, create, "")
	f(`{"rate_limit_rpm":1e4,"name":"`+strings.Repeat("é", 255)+`"}`, create, "")
	if k.RateLimitRPM != 10000 {
		t.Errorf("%+v", k)
	}
	f(`{"rate_limit_rpm":0}`, create, rate+"; name is required")
	for _, n := range []string{"10001", "-1", "1.5", `"5"`, "true", "1e99", "{}"} {
		f(`{"name":"n","rate_limit_rpm":`+n+`}`, create, rate)
	}
	f(`{"name":" "}`, create, "name is required")
	f(`{"name":"`+strings.Repeat("n", 256)+`"}`, create, "name must be at most 255 characters")
	f(`{"name":"n","active":true}`, create, "active is not a known field")

	var c audit.KeyChange
	change := func(r *reader) { c = audit.KeyChange{}; decodeKeyChange(r, &c, bounds) }
	const empty = "active or another member is required: there is nothing to change"
	f(`{}`, change, empty)
	f(`{"active":null,"name":" ","rate_limit_rpm":null}`, change, empty)
	f(`{"active":false,"name":"m","rate_limit_rpm":7.0}`, change, "")
	if *c.Active || *c.Name != "m" || *c.RateLimitRPM != 7 {
		t.Errorf("%+v", c)
	}
	f(`{"active":"true","name":1,"rate_limit_rpm":0,"x":1}`, change, "active must be true or false; name must be a string; "+rate+
		"; x is not a known field")
}
