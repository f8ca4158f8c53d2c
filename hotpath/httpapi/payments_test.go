package httpapi

import (
	"encoding/json"
	"fmt"
	"maps"
	"net"
	"slices"
	"strings"
	"testing"
	"time"

	"spendgate/bench/must"
)

// paid is one request about payments, and what its answer says. The request is "METHOD path" or, of a check, only members of its
// body, which take the place of those of the action. {name} stands for what an earlier answer said.
type paid struct {
	what, by, request string
	status            int
	says              map[string]string // by the path of a member, or the name of a header; "*" is anything, "" is nothing
	keeps             string            // "name=path"
}

type said map[string]string

const paidAction = `{"agent_id":"a","policy_id":"pay","action_type":"refund","amount":40,"currency":"USD","counterparty":"c"}`

const nonceA, nonceB = `"redeem":"nonce-a-0123456789"`, `"redeem":"nonce-b-0123456789"`

// paying is a node with a policy for payments, and keys of callers by name.
type paying struct {
	t       *testing.T
	address string
	keys    map[string]string
	kept    map[string]string
}

func newPaying(t *testing.T) *paying {
	p := &paying{t: t, address: serveOn(t, New(realOptions(t))), keys: make(map[string]string), kept: make(map[string]string)}
	for name, grants := range map[string]string{
		"agent": `,"role":"agent","principal":"bot"`, "gateway": `,"role":"gateway","principal":"bot"`, "plain": "",
		"treasury": `,"role":"executor","principal":"treasury"`, "full": `,"role":"full"`, "ann": `,"role":"approver","principal":"ann"`,
		"bound": `,"role":"gateway","principal":"bot","agent_ids":["b"]`,
	} {
		made := doAt(t, p.address, "POST", "/v1/keys", `{"name":"n","rate_limit_rpm":10000`+grants+`}`, "X-Admin-Key: "+adminKey)
		p.keys[name], p.kept[name] = field(t, made.body, "api_key"), field(t, made.body, "key_id")
	}
	p.policy(500)
	return p
}

// policy makes the next version of the policy.
func (p *paying) policy(most int) {
	p.t.Helper()
	p.runs(paid{"a policy", "full", fmt.Sprintf(`POST /v1/policies {"policy_id":"pay","name":"n","rules":[
		{"rule_id":"cap","rule_type":"max_amount","parameters":{"limit":%d,"currency":"USD"}},
		{"rule_id":"ask","rule_type":"escalate_if","parameters":{"amount_above":100,"approval":{"required":1}}},
		{"rule_id":"day","rule_type":"budget","parameters":{"limit":1000,"currency":"USD","window":"day"}}]}`, most), 201, nil, ""})
}

func (p *paying) runs(rows ...paid) {
	p.t.Helper()
	for _, row := range rows {
		request := row.request
		for name, value := range p.kept {
			request = strings.ReplaceAll(request, "{"+name+"}", value)
		}
		headers := []string{"X-API-Key: " + p.keys[row.by]}
		if rest, wait, ok := strings.Cut(request, " wait="); ok {
			request, headers = rest, append(headers, "Prefer: wait="+wait)
		}
		if strings.HasPrefix(request, `"`) {
			request = "POST /v1/checks " + p.with(request)
		}
		method, rest, _ := strings.Cut(request, " ")
		path, body, _ := strings.Cut(rest, " ")
		a := doAt(p.t, p.address, method, path, body, headers...)
		if a.status != row.status {
			p.t.Fatalf("%s: %d %s, want %d", row.what, a.status, a.body, row.status)
		}
		for _, name := range slices.Sorted(maps.Keys(row.says)) {
			want := row.says[name]
			if got := a.says(name); got != want && (want != "*" || got == "") {
				p.t.Errorf("%s: %s is %q, want %q: %s", row.what, name, got, want, a.body)
			}
		}
		if name, from, ok := strings.Cut(row.keeps, "="); ok {
			p.kept[name] = a.says(from)
		}
	}
}

// with returns the action with other members.
func (p *paying) with(members string) string {
	var body, changes map[string]any
	for text, into := range map[string]any{paidAction: &body, "{" + members + "}": &changes} {
		if err := json.Unmarshal([]byte(text), into); err != nil {
			p.t.Fatalf("%s: %v", text, err)
		}
	}
	maps.Copy(body, changes)
	text, _ := json.Marshal(body)
	return string(text)
}

// says returns a member of the body by its path, or a header; empty if it is null or not there.
func (a answer) says(path string) string {
	if h, ok := strings.CutPrefix(path, "header "); ok {
		return a.header.Get(h)
	}
	var value any
	_ = json.Unmarshal([]byte(a.body), &value)
	for name := range strings.SplitSeq(path, ".") {
		switch at := value.(type) {
		case map[string]any:
			value = at[name]
		case []any:
			var i int
			if _, err := fmt.Sscan(name, &i); err != nil || i >= len(at) {
				return ""
			}
			value = at[i]
		default:
			return ""
		}
	}
	if value == nil {
		return ""
	}
	return fmt.Sprint(value)
}

// S84 over HTTP: what answers say of payments.
func TestPayments(t *testing.T) {
	t.Run("redeemed at once", func(t *testing.T) {
		newPaying(t).runs(
			paid{"the first", "gateway", `"payment_key":"k",` + nonceA, 200, said{"payment.proceed": "true", "header Redeemed": "*"}, "c=check_id"},
			paid{"reads", "agent", "GET /v1/checks/{c}", 200, said{"payment.state": "redeemed", "payment.proceed": "false"}, ""},
			paid{
				"redeems it by its id", "treasury", "POST /v1/checks/{c}/redeem " + paidAction, 409,
				said{"error.code": "check_already_redeemed", "error.payment.state": "redeemed", "error.payment.proceed": "false"},
				"",
			},
			paid{"in doubt by another", "treasury", "POST /v1/checks/{c}/in-doubt {}", 409, said{"error.payment.payment_key": "k"}, ""},
			paid{"reported by another", "treasury", `POST /v1/checks/{c}/outcome {"status":"failed"}`, 409, said{"error.payment.attempt": "1"}, ""},
			paid{
				"lists", "agent", "GET /v1/checks?payment_key=k", 200,
				said{"data.0.action.payment_key": "k", "data.0.payment.state": "redeemed"},
				"",
			},
		)
	})
	t.Run("simulated", func(t *testing.T) {
		simulation := func(keys ...string) string {
			var actions []string
			for _, key := range keys {
				actions = append(actions, strings.Replace(paidAction, "{", `{"payment_key":"`+key+`",`, 1))
			}
			return `POST /v1/simulate {"policy_id":"pay","actions":[` + strings.Join(actions, ",") + `]}`
		}
		newPaying(t).runs(
			paid{"asked", "agent", `"payment_key":"k"`, 200, said{"payment.state": "open"}, ""},
			paid{
				"its own and another", "gateway", simulation("k", "other"), 200,
				said{"results.0.decision": "allow", "results.1.reason_code": "duplicate_action_detected"},
				"",
			},
			paid{
				"twice, and another", "agent", strings.ReplaceAll(simulation("x", "x", "y"), `"c"`, `"d"`), 200,
				said{"results.1.decision": "allow", "results.2.decision": "block"},
				"",
			},
			paid{"of another namespace", "treasury", simulation("k"), 403, nil, ""},
			paid{"nothing was written", "agent", `"payment_key":"x","counterparty":"d"`, 200, said{"payment.attempt": "1"}, ""},
		)
	})
	t.Run("approved, and blocked meanwhile", func(t *testing.T) {
		p := newPaying(t)
		const large = `"payment_key":"k","amount":200`
		p.runs(
			paid{"asks", "agent", large, 200, said{"payment.state": "waiting"}, "a=approval_id"},
			paid{"is read", "ann", "GET /v1/approvals/{a}", 200, said{"action.payment_key": "k"}, "h=action_hash"},
			paid{"is approved", "ann", `POST /v1/approvals/{a}/approve {"action_hash":"{h}"}`, 200, nil, ""},
		)
		p.policy(150)
		p.runs(
			paid{"is blocked", "gateway", large, 200, said{"decision": "block", "payment.state": "waiting", "payment.attempt": "1"}, "c=check_id"},
			paid{"is read", "agent", "GET /v1/checks/{c}", 200, said{"payment.state": "waiting"}, ""},
			paid{
				"is listed", "agent", "GET /v1/checks?payment_key=k", 200,
				said{"data.0.payment.state": "waiting", "data.0.action.approval_id": ""},
				"",
			},
			paid{"another action", "gateway", `"payment_key":"k","amount":300`, 200, said{"decision": "block", "payment.state": "free"}, ""},
		)
		p.policy(500)
		p.runs(paid{"uses the approval", "gateway", large + "," + nonceA, 200, said{"decision": "allow", "payment.proceed": "true"}, ""})
	})
	t.Run("refused in order", func(t *testing.T) {
		rows := []paid{{"a nonce of another type", "agent", `"payment_key":"k","redeem":5`, 403, nil, ""}}
		for _, nonce := range []string{`"short"`, `["x"]`, `{}`, `true`} {
			rows = append(rows, paid{"by an agent", "agent", `"payment_key":"","amount":-1,"redeem":` + nonce, 403, nil, ""})
		}
		for _, none := range []string{`null`, `""`} {
			rows = append(rows, paid{"none", "agent", `"amount":-1,"redeem":` + none, 422, nil, ""})
		}
		rows = append(rows, paid{"by a gateway", "gateway", `"payment_key":"k","redeem":5`, 422, nil, ""})
		newPaying(t).runs(rows...)
	})
	t.Run("waited for", func(t *testing.T) {
		newPaying(t).runs(
			paid{
				"people", "agent", `"payment_key":"k","amount":200 wait=1`, 200,
				said{"payment.state": "waiting", "header Preference-Applied": "wait=1"},
				"",
			},
			paid{"nobody", "agent", `"payment_key":"l","counterparty":"d" wait=1`, 200, said{"header Preference-Applied": "wait=1"}, ""},
			paid{"no payment", "agent", `"counterparty":"e" wait=1`, 200, said{"header Preference-Applied": ""}, ""},
		)
	})
	t.Run("of whom", func(t *testing.T) {
		newPaying(t).runs(
			paid{"a plain key's", "plain", `"payment_key":"k"`, 200, said{"payment.state": "open"}, "c=check_id"},
			paid{"is listed by its principal", "full", "GET /v1/checks?payment_key=k&principal={plain}", 200, said{"data.0.check_id": "*"}, ""},
			paid{"another principal's", "agent", `"payment_key":"k","counterparty":"d"`, 200, nil, ""},
			paid{"is listed", "full", "GET /v1/checks?payment_key=k&principal=BOT", 200, said{"data.0.action.counterparty": "d", "data.1": ""}, ""},
		)
	})
	t.Run("beyond a binding", func(t *testing.T) {
		newPaying(t).runs(
			paid{"redeemed", "gateway", `"payment_key":"k",` + nonceA, 200, said{
				"payment.execution_id": "*", "next_step": "Do not carry this out before the check is redeemed. Where payment.proceed is true it is " +
					"redeemed for this request: carry exactly this action out now, with payment.execution_id as the provider's idempotency key, and " +
					"report its outcome with payment.redemption_id. Anywhere else ask again under the same payment_key, with redeem.",
			}, ""},
			paid{"by a key of another agent", "bound", `"payment_key":"k","agent_id":"b","amount":41,` + nonceB, 409, said{
				"error.code": "payment_differs", "error.differs": "[agent_id]", "error.check_id": "", "error.payment.state": "redeemed",
				"error.payment.execution_id": "", "error.payment.redemption_id": "",
			}, ""},
		)
	})
	t.Run("blocked", func(t *testing.T) {
		p := newPaying(t)
		p.runs(
			paid{"a payment", "agent", `"payment_key":"k","amount":900`, 200, nil, "same payment_key=next_step"},
			paid{"with a key", "agent", `"idempotency_key":"k","amount":900,"counterparty":"d"`, 200, nil, "new idempotency_key=next_step"},
			paid{"a duplicate", "agent", `"idempotency_key":"l","amount":900,"counterparty":"d"`, 200, nil, "a new idempotency_key=next_step"},
		)
		for _, under := range []string{"same payment_key", "new idempotency_key", "a new idempotency_key"} {
			if !strings.Contains(p.kept[under], under) {
				t.Errorf("%q does not say to ask under the %s", p.kept[under], under)
			}
		}
	})
}

// S84: a caller that closed its connection redeems nothing, whatever people decide.
func TestPaymentOfAClosedConnection(t *testing.T) {
	p := newPaying(t)
	p.runs(paid{"asks", "agent", `"payment_key":"k","amount":200`, 200, nil, "a=approval_id"})
	p.runs(paid{"is read", "ann", "GET /v1/approvals/{a}", 200, nil, "h=action_hash"})
	body := p.with(`"payment_key":"k","amount":200,` + nonceA)
	for range 2 {
		conn := must.Get(net.Dial("tcp", p.address))(t)
		must.Get(fmt.Fprintf(conn, "POST /v1/checks HTTP/1.1\r\nHost: x\r\nX-API-Key: %s\r\nPrefer: wait=20\r\n"+
			"Content-Type: application/json\r\n"+
			"Content-Length: %d\r\n\r\n%s", p.keys["gateway"], len(body), body))(t)
		time.Sleep(500 * time.Millisecond) // it waits now
		must.Do(t, conn.Close())
	}
	p.runs(paid{"is approved", "ann", `POST /v1/approvals/{a}/approve {"action_hash":"{h}"}`, 200, nil, ""})
	time.Sleep(500 * time.Millisecond)
	p.runs(
		paid{"is not redeemed", "agent", "GET /v1/checks?payment_key=k", 200, said{"data.0.payment.state": "waiting", "data.1": ""}, ""},
		paid{"another call", "gateway", `"payment_key":"k","amount":200,` + nonceB, 200, said{"payment.proceed": "true"}, ""},
	)
}
