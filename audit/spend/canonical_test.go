package spend

import (
	"bytes"
	"encoding/hex"
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"

	"spendgate/bench/must"
)

func actionOf(t *testing.T, amount, metadata string, change func(*Action)) *Action {
	t.Helper()
	parsed := must.Get(ParseAmount(amount))(t)
	a := &Action{AgentID: "a", PolicyID: "p", Type: Refund, Amount: parsed, Currency: "USD", Counterparty: "c"}
	if metadata != "" {
		var faults Faults
		if a.Metadata = ParseMetadata(jsontext.Value(metadata), "m", &faults); faults != nil {
			t.Fatal(faults)
		}
	}
	if change != nil {
		change(a)
	}
	return a
}

// Requests that S18 calls the same have one hash.
func TestEqualRequestsHashAlike(t *testing.T) {
	f := func(a, b *Action) {
		t.Helper()
		if RequestSHA(a) != RequestSHA(b) {
			t.Errorf("%+v\nand %+v\nhash differently", a, b)
		}
	}
	plain := func(amount, metadata string) *Action { return actionOf(t, amount, metadata, nil) }
	f(plain("10", ""), plain("10.0", ""))
	f(plain("10", ""), plain("1e1", "null"))
	f(plain("0", ""), plain("-0.00", ""))
	f(plain("10", `{"a":1,"b":{"c":[1,2],"d":null}}`), plain("10", ` { "b" : { "d":null, "c":[ 1.0 , 20e-1 ] } , "a" : 100e-2 } `))
	f(plain("10", `{"a":"\u0062\/","\u0063":true}`), plain("10", `{"c":true,"a":"b/"}`))
	f(plain("10", `{"a":-0}`), plain("10", `{"a":0.00e9}`))
	f(plain("10", `{"a":1e400}`), plain("10", `{"a":10E+399}`))
	f(plain("10", `{"a":1e9999,"b":[1E-9998]}`), plain("10", `{"b":[0.1e-0009997],"a":10E+9998}`))
	f(plain("10", ""), actionOf(t, "10", "", func(a *Action) { a.IdempotencyKey = "k" }))
}

// Any other difference has another.
func TestDifferentRequestsHashDifferently(t *testing.T) {
	seen := map[Hash]*Action{}
	f := func(amount, metadata string, change func(*Action)) {
		t.Helper()
		a := actionOf(t, amount, metadata, change)
		h := RequestSHA(a)
		if other, ok := seen[h]; ok || h.IsZero() {
			t.Errorf("%+v\nand %+v\nhash alike", a, other)
		}
		seen[h] = a
	}
	f("10", "", nil)
	f("10.1", "", nil)
	f("100", "", nil)
	f("0", "", nil)
	for _, change := range []func(*Action){
		func(a *Action) { a.AgentID = "b" },
		func(a *Action) { a.AgentID, a.PolicyID = "ap", "" },
		func(a *Action) { a.PolicyID = "P" },
		func(a *Action) { a.Type = Spend },
		func(a *Action) { a.Type, a.ReasonText = Unspecified, "refund" },
		func(a *Action) { a.Currency = "EUR" },
		func(a *Action) { a.Counterparty = "d" },
		func(a *Action) { a.PaymentMethod = "x" },
		func(a *Action) { a.MerchantOrVendor = "x" },
		func(a *Action) { a.ReasonText = "x" },
	} {
		f("10", "", change)
	}
	for _, metadata := range []string{
		`{}`, `{"a":1}`, `{"a":"1"}`, `{"a":10}`, `{"a":-1}`, `{"a":1e-1}`, `{"a":null}`, `{"a":true}`, `{"a":false}`,
		`{"a":[]}`, `{"a":[1]}`, `{"a":[1,2]}`, `{"a":[2,1]}`, `{"a":[[1],2]}`, `{"a":[[1,2]]}`, `{"a":{}}`, `{"a":{"b":1}}`, `{"a":[{"b":1}]}`,
		`{"a":1,"b":1}`, `{"b":1}`,
		`{"A":1}`, `{"a":1e9999}`, `{"a":1e-9999}`, `{"a":"1e9999"}`, `{"a":[[],1]}`, `{"a":[{},1]}`, `{"a":["b"]}`, `{"a":"a"}`, `{"a":""}`,
		`{"a":" "}`, `{"a":"é"}`, "{\"a\":\"e\u0301\"}", `{"a":1e400}`, `{"a":1e401}`, `{"":1}`,
		`{"a":0.1000000000000000055511151231257827}`, `{"a":"b","c":"d"}`, `{"a":"b\",\"c\":\"d"}`,
	} {
		f("10", metadata, nil)
	}
}

// S17: exactly agent_id, action type as resolved, amount and counterparty.
func TestFingerprint(t *testing.T) {
	base := actionOf(t, "10", "", nil)
	want := FingerprintOf(base, Refund)
	for _, same := range []*Action{
		actionOf(t, "10.00", `{"a":1}`, nil),
		actionOf(t, "1e1", "", func(a *Action) {
			a.PolicyID, a.Currency, a.PaymentMethod, a.MerchantOrVendor, a.ReasonText, a.IdempotencyKey, a.Type = "q", "EUR", "x", "y", "z", "k",
				Unspecified
		}),
	} {
		if FingerprintOf(same, Refund) != want {
			t.Errorf("%+v has another fingerprint", same)
		}
	}
	seen := map[Hash]bool{want: true}
	for _, other := range []*Action{
		actionOf(t, "10", "", func(a *Action) { a.AgentID = "b" }),
		actionOf(t, "10", "", func(a *Action) { a.Counterparty = "d" }),
		actionOf(t, "10", "", func(a *Action) { a.AgentID, a.Counterparty = "ac", "" }),
		actionOf(t, "10", "", func(a *Action) { a.AgentID, a.Counterparty = "", "ac" }),
		actionOf(t, "10", "", func(a *Action) { a.AgentID = "a\x00" }),
		actionOf(t, "1", "", nil), actionOf(t, "100", "", nil), actionOf(t, "0.1", "", nil), actionOf(t, "0.01", "", nil),
		actionOf(t, "0", "", nil),
	} {
		h := FingerprintOf(other, Refund)
		if seen[h] {
			t.Errorf("%+v shares a fingerprint", other)
		}
		seen[h] = true
	}
	for _, at := range []ActionType{Credit, Discount, Spend} {
		if h := FingerprintOf(base, at); seen[h] {
			t.Errorf("%v shares a fingerprint", at)
		} else {
			seen[h] = true
		}
	}
}

// Hashes are stored and compared for as long as idempotency keys live, so they
// are the bytes of every version before.
func TestHashesStayTheSame(t *testing.T) {
	const metadata = `{"b":[1,{"d":1.50,"c":"\u0041\n"},[]],"a":null,"t":true,"n":-12e-3,"z":0.0,"e":1e9999,"o":{}}`
	full := actionOf(t, "129.95", metadata, func(a *Action) {
		a.PaymentMethod, a.MerchantOrVendor, a.ReasonText = "card", "shop", "broken é"
	})
	f := func(got Hash, want string) {
		t.Helper()
		if text := hex.EncodeToString(got[:]); text != want {
			t.Errorf("hash %s, want %s", text, want)
		}
	}
	f(RequestSHA(full), "053f380fcc35b280a925774feed895fd0bcb38491c6605b121f510313cb44caa")
	f(RequestSHA(actionOf(t, "10", "", nil)), "15e53d9c69ab76cbcaf8aa24721e2d6a838ccfbf3688f73f501a788e42c75fe8")
	f(FingerprintOf(full, Credit), "a236c7f1ff7894c4033f2191971e97306713b32e85c1e7042b8aa1952dab1167")
	f((&Action{}).KeyHash("bot"), strings.Repeat("0", 64))
	f((&Action{IdempotencyKey: "order-99"}).KeyHash(""), "59342f853acdf234c2638548706ae5500d00a7d85769061d629d921887e67ae4")
	approval := ID(bytes.Repeat([]byte{7}, 16))
	f((&Action{IdempotencyKey: "order-99", ApprovalID: approval}).KeyHash(""),
		"403e4f408b51bf29f63a42730badd5b3b75591e77ae76b9e1d8b4bfb9ff23081")
	f((&Action{IdempotencyKey: "order-99"}).KeyHash("BOT"), "8660ad1eb14d489420e79ccdee196868f21c469640fa58ffa3ff2b798b690c66")
	f((&Action{IdempotencyKey: "order-99", ApprovalID: approval}).KeyHash("BOT"),
		"ad702b72fb96ac1ab193aaca59c889335e91d3d024557200a9aee05887bd4e73")
}

// FuzzRequestSHA: compacting and reordering never change the hash; changing a
// value does.
func FuzzRequestSHA(f *testing.F) {
	for _, s := range []string{`{}`, `{"a":1,"b":2}`, `{"b":[1,{"d":1.0,"c":"\u0041"}],"a":null}`, `{"a":1e400}`} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		raw := jsontext.Value(s)
		if raw.Kind() != '{' || !raw.IsValid() {
			return
		}
		sorted := raw.Clone()
		if err := sorted.Format(jsontext.ReorderRawObjects(true), jsontext.SpaceAfterColon(true)); err != nil {
			return
		}
		sha := func(text string) Hash {
			return RequestSHA(&Action{Metadata: Metadata{JSON: text}})
		}
		h := sha(s)
		if sha(string(sorted)) != h {
			t.Fatalf("%s and %s hash differently", s, sorted)
		}
		if sha(`{"more":`+s+`}`) == h {
			t.Fatalf("%s inside another object hashes alike", s)
		}
	})
}
