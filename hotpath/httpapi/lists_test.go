package httpapi

import (
	"encoding/json"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"spendgate/audit"
	"spendgate/audit/spend"
	"spendgate/bench/must"
)

func TestQueryChecks(t *testing.T) {
	f := func(query, want string) {
		t.Helper()
		got := ""
		if _, _, err := queryChecks([]byte(query)); err != nil {
			got = err.Error()
		}
		if !strings.HasPrefix(got, want) || want == "" && got != "" {
			t.Errorf("%s: %q, want %q", query, got, want)
		}
	}
	f("agent_id=&policy_id=+&decision=&from=&to=&before=&limit=&cursor=", "")
	f("decision=Allow", "decision must be allow, block or escalate")
	f("policy_id=a%20b", "policy_id must be 1-128 characters")
	f("agent_id="+strings.Repeat("a", 257), "agent_id must be at most")
	f("before=soon", "before must be an RFC 3339 time")
	f("from=2026-01-02&to=2026-01-01", "from must not be after to")
	f("from=2026-01-02&before=2026-01-01", "from must not be after before")
	f("from=2026-01-01&before=2026-01-01", "")
	f("action_type=Refund", "action_type must be")
	f("reason_code=none", "")
	f("reason_code="+strings.Repeat("a", 257), "reason_code must be at most")
	f("approval_id=apr_1", "approval_id must be")
	f("counterparty="+strings.Repeat("a", 257), "counterparty must be at most")
	f("idempotency_key="+strings.Repeat("a", 256), "idempotency_key must be at most")
	f("key_id=k", "key_id is not a known query parameter")
	f("before=2026-01-01&before=2026-01-01", "before must be given once")
	f("limit=101", "limit must be")

	g := func(query string, want audit.CheckQuery) {
		t.Helper()
		got, _, err := queryChecks([]byte(query))
		if err != nil {
			t.Errorf("%s: %v", query, err)
			return
		}
		want.Examine = maxExamined
		if want.Limit == 0 {
			want.Limit = defaultPage
		}
		if !reflect.DeepEqual(got.CheckQuery, want) {
			t.Errorf("%s: %+v\nwant %+v", query, got, want)
		}
	}
	at := func(s string) time.Time {
		t.Helper()
		return must.Get(time.Parse(time.RFC3339Nano, s))(t)
	}
	g("", audit.CheckQuery{})
	g("agent_id=a&policy_id=p&decision=allow&limit=7", audit.CheckQuery{AgentID: "a", PolicyID: "p", Effect: new(spend.Allow), Limit: 7})
	g("counterparty=c%2B&action_type=credit&reason_code=budget_exceeded&idempotency_key=k&approval_id=apr_"+strings.Repeat("0", 31)+"1",
		audit.CheckQuery{
			Counterparty: "c+", ActionType: spend.Credit, Reason: spend.ReasonBudgetExceeded, IdempotencyKey: "k", ApprovalID: spend.ID{15: 1},
		})
	g("to=2026-01-31", audit.CheckQuery{Until: at("2026-02-01T00:00:00Z")})
	g("before=2026-01-31", audit.CheckQuery{Until: at("2026-01-31T00:00:00Z")})
	g("to=2026-01-30&before=2026-01-31", audit.CheckQuery{Until: at("2026-01-31T00:00:00Z")})
	g("to=2026-01-31T12:00:00Z&before=2026-01-31T12:00:00Z", audit.CheckQuery{Until: at("2026-01-31T12:00:00Z")})
	g("to=2026-01-31T12:00:00Z&before=2026-02-01", audit.CheckQuery{Until: at("2026-01-31T12:00:00.001Z")})
	// A record of that millisecond is before it.
	g("before=2026-01-31T12:00:00.0001Z", audit.CheckQuery{Until: at("2026-01-31T12:00:00.001Z")})
	g("from=0001-01-01&before=0001-01-01", audit.CheckQuery{From: time.UnixMilli(0).UTC(), Until: time.UnixMilli(0).UTC()})
}

// A cursor goes with its own filters only, and cursors of the three lists are not
// mistaken for one another.
// A time holds with a cursor and without one.
func TestQueryEventsFrom(t *testing.T) {
	for query, want := range map[string]bool{
		"from=2026-01-31": true, "from=2026-01-31&after=": true, "from=2026-01-31&after=0": true,
		"from=2026-01-31&after=7": true, "after=7": false, "after=0": false,
	} {
		q, from, err := queryEvents([]byte(query))
		if err != nil || !from.IsZero() != want || (q.After == 7) != strings.Contains(query, "after=7") {
			t.Errorf("%s: %+v from %v, %v", query, q, from, err)
		}
	}
}

func TestCursorsOfLists(t *testing.T) {
	id := testID(instant)
	_, filters, err := queryChecks([]byte("agent_id=a&decision=allow&before=2026-01-31"))
	must.Do(t, err)
	cursor := newCursor(string(id[:]), filters)
	if q, _, err := queryChecks([]byte("before=2026-01-31T00:00:00Z&limit=3&agent_id=a&decision=allow&cursor=" + cursor)); err != nil ||
		q.Before != id {
		t.Errorf("%+v, %v", q, err)
	}
	for _, other := range []string{
		"", "agent_id=a&decision=allow", "agent_id=a&before=2026-01-31", "agent_id=a&decision=block&before=2026-01-31",
		"policy_id=a&decision=allow&before=2026-01-31",
		"agent_id=a&decision=allow&before=2026-01-31&counterparty=c", "agent_id=a&decision=allow&before=2026-01-31&action_type=refund",
		"agent_id=a&decision=allow&before=2026-01-31&idempotency_key=k", "agent_id=a&decision=allow&before=2026-01-30",
		"agent_id=a&decision=allow&before=2026-01-31&from=2026-01-01", "policy_id=p&agent_id=a&decision=allow&before=2026-01-31",
	} {
		if _, _, err := queryChecks([]byte(other + "&cursor=" + cursor)); err == nil {
			t.Errorf("the cursor is taken with %q", other)
		}
	}
	policies := func(position string) string {
		return "cursor=" + newCursor(position, sumOf("policies 1", ""))
	}
	if q, _, err := queryPolicies([]byte(policies("a:b"))); err != nil || q.After != "a:b" || q.Limit != defaultPage {
		t.Errorf("%+v, %v", q, err)
	}
	longest := strings.Repeat("p", spend.MaxPolicyID)
	if q, _, err := queryPolicies([]byte(policies(longest))); err != nil || q.After != longest {
		t.Errorf("%+v, %v", q, err)
	}
	versions := func(position string) string {
		return "cursor=" + newCursor(position, sumOf("policy versions 1", "p"))
	}
	if q, _, err := queryVersions([]byte(versions("258")), "p"); err != nil || q.Before != 258 {
		t.Errorf("%+v, %v", q, err)
	}
	// Positions that no page has, with a checksum that fits.
	for _, forged := range []string{"0", "-1", "1.0", "x", "\xff"} {
		if _, _, err := queryVersions([]byte(versions(forged)), "p"); err == nil {
			t.Errorf("version %q is taken", forged)
		}
	}
	for _, forged := range []string{"a b", "\xff"} {
		if _, _, err := queryPolicies([]byte(policies(forged))); err == nil {
			t.Errorf("policy %q is taken", forged)
		}
	}
	for _, forged := range []string{string(id[:15]), string(id[:]) + "x", string(id[:]) + string(id[:15])} {
		sent := "agent_id=a&decision=allow&before=2026-01-31&cursor=" + newCursor(forged, filters)
		if _, _, err := queryChecks([]byte(sent)); err == nil {
			t.Errorf("check %q is taken", forged)
		}
	}
	if _, _, err := queryVersions([]byte(versions("258")), "q"); err == nil {
		t.Error("the cursor of another policy's versions is taken")
	}
	if _, _, err := queryPolicies([]byte("cursor=" + cursor)); err == nil {
		t.Error("the cursor of checks is taken for policies")
	}
}

// A record is the check's result, byte for byte, and the action.
func TestAppendCheckRecord(t *testing.T) {
	c := blockedCheck()
	c.KeyID = "key_1"
	f := func(want string) {
		t.Helper()
		result := string(AppendCheckResult(nil, c))
		if got := string(appendCheckRecord(nil, c, spend.Course{}, false)); got != result[:len(result)-1]+want || !json.Valid([]byte(got)) {
			t.Errorf("got  %s\nwant %s", got, result[:len(result)-1]+want)
		}
	}
	f(`,"action":{"agent_id":"agent-1","policy_id":"p","action_type":"refund","amount":600,"currency":"USD","counterparty":"c",` +
		`"payment_method":null,` +
		`"merchant_or_vendor":null,"reason_text":null,"idempotency_key":null,"metadata":null},"principal":"key_1","outcome":null}`)
	a := &c.Action
	a.Type, c.ActionType, c.Principal = spend.Unspecified, spend.Credit, `till "1"`
	a.PaymentMethod, a.MerchantOrVendor, a.ReasonText, a.IdempotencyKey = "card", "m", "why\n", "k"
	a.Metadata = spend.Metadata{JSON: `{"a":1.0}`}
	f(`,"action":{"agent_id":"agent-1","policy_id":"p","action_type":"credit","amount":600,"currency":"USD","counterparty":"c",` +
		`"payment_method":"card",` +
		`"merchant_or_vendor":"m","reason_text":"why\n","idempotency_key":"k","metadata":{"a":1.0}},"principal":"till \"1\"","outcome":null}`)
}

func TestListsAreAnswered(t *testing.T) {
	s := start(t, nil)
	c := blockedCheck()
	s.store.listed = []*spend.Check{c, c}
	record := string(appendCheckRecord(nil, c, spend.Course{}, false))
	list := func(path string) (cursor string) {
		t.Helper()
		a := s.do("GET", path, "")
		if a.status != 200 {
			t.Fatalf("%s: %d %s", path, a.status, a.body)
		}
		var page struct {
			Pagination struct {
				Next string `json:"next_cursor"`
			}
		}
		must.Do(t, json.Unmarshal([]byte(a.body), &page))
		want := map[string]string{
			"/v1/checks": `{"data":[` + record + `,` + record + `],"pagination":{"next_cursor":"` + page.Pagination.Next +
				`","has_more":true}}`,
			"/v1/policies":              `],"pagination":{"next_cursor":"` + page.Pagination.Next + `","has_more":true,"total_count":2}}`,
			"/v1/policies/p:1/versions": `],"pagination":{"next_cursor":"` + page.Pagination.Next + `","has_more":true,"total_count":7}}`,
		}[path]
		if want != "" && !strings.HasSuffix(a.body, want) {
			t.Errorf("%s: %s\nwant %s", path, a.body, want)
		}
		return page.Pagination.Next
	}
	list("/v1/checks?cursor=" + list("/v1/checks"))
	if s.store.checks.Before.IsZero() || s.store.checks.Bound() {
		t.Errorf("asked for %+v", s.store.checks)
	}
	if last := list("/v1/policies?limit=5&cursor=" + list("/v1/policies")); last != "" || s.store.policies.After != "p:1" ||
		s.store.policies.Limit != 5 {
		t.Errorf("asked for %+v, then %q", s.store.policies, last)
	}
	if last := list("/v1/policies/p%3A1/versions?limit=5&cursor=" + list("/v1/policies/p:1/versions")); last != "" ||
		s.store.versions.Before != 7 || s.store.versions.PolicyID != "p:1" {
		t.Errorf("asked for %+v, then %q", s.store.versions, last)
	}
}

// Lists hold what the asking key may see, and nothing else (S30, S31).
func TestListsHoldWhatIsInside(t *testing.T) {
	address := serveOn(t, New(realOptions(t)))
	send := func(method, path, body, key string, status int) string {
		t.Helper()
		a := doAt(t, address, method, path, body, "X-API-Key: "+key, "X-Admin-Key: "+adminKey)
		if a.status != status {
			t.Fatalf("%s %s %s: %d %s", method, path, body, a.status, a.body)
		}
		return a.body
	}
	key := func(grants string) string {
		t.Helper()
		return field(t, send("POST", "/v1/keys", `{"name":"n","rate_limit_rpm":1000`+grants+`}`, "-", 201), "api_key")
	}
	full := key("")
	for _, id := range []string{"p", "q", "p"} {
		send("POST", "/v1/policies", strings.Replace(simplePolicy, "p:1", id, 1), full, 201)
	}
	till, other := key(`,"role":"agent","principal":"till"`), key(`,"role":"agent"`)
	check := func(agent, policy, key string) {
		t.Helper()
		send("POST", "/v1/checks", `{"agent_id":"`+agent+`","policy_id":"`+policy+
			`","action_type":"refund","amount":1,"currency":"usd","counterparty":"`+key+`"}`, key, 200)
	}
	check("a", "p", full)
	check("b", "p", till)
	check("a", "q", till)
	check("b", "q", other)
	f := func(path, key string, want ...string) {
		t.Helper()
		var page struct {
			Data []struct {
				PolicyID string `json:"policy_id"`
				Version  int
				Action   struct {
					AgentID  string `json:"agent_id"`
					PolicyID string `json:"policy_id"`
				}
			}
		}
		must.Do(t, json.Unmarshal([]byte(send("GET", path, "", key, 200)), &page))
		got := make([]string, len(page.Data))
		for i, d := range page.Data {
			if got[i] = d.Action.AgentID + d.Action.PolicyID; d.PolicyID != "" {
				got[i] = d.PolicyID + strconv.Itoa(d.Version)
			}
		}
		if !slices.Equal(got, want) {
			t.Errorf("%s: got %v, want %v", path, got, want)
		}
	}
	f("/v1/checks", full, "bq", "aq", "bp", "ap")
	f("/v1/checks", till, "aq", "bp")
	f("/v1/checks?agent_id=a", till, "aq")
	f("/v1/checks?principal=till&amount_from=0.5&amount_to=1", full, "aq", "bp")
	f("/v1/checks?amount_from=1.5", full)
	f("/v1/checks", key(`,"role":"agent"`))
	f("/v1/checks", key(`,"role":"agent","principal":"till","policy_ids":["p"]`), "bp")
	f("/v1/checks", key(`,"role":"auditor","policy_ids":["p"]`), "bp", "ap")
	f("/v1/checks?policy_id=q", key(`,"role":"auditor","policy_ids":["p"]`))
	f("/v1/checks", key(`,"agent_ids":["b"]`), "bq", "bp")
	f("/v1/policies", full, "p2", "q1")
	f("/v1/policies", key(`,"policy_ids":["q","r"]`), "q1")
	f("/v1/policies", key(`,"agent_ids":["b"]`), "p2", "q1")
	f("/v1/policies/p/versions", key(`,"policy_ids":["p"]`), "p2", "p1")
	send("GET", "/v1/policies/p/versions", "", key(`,"policy_ids":["q"]`), 404)

	// The refusal names what the key may use, within bounds.
	ids := make([]string, 100)
	for i := range ids {
		ids[i] = `"long-name-of-a-policy-` + strconv.Itoa(i) + `"`
	}
	action := `{"agent_id":"a","policy_id":"p","action_type":"refund","amount":1,"currency":"usd","counterparty":"c"}`
	for grants, want := range map[string]string{
		`,"policy_ids":["q","r"]`: "not for this policy_id, but for q, r", `,"agent_ids":["b"]`: "not for this agent_id, but for b",
		`,"policy_ids":[` + strings.Join(ids, ",") + `]`: "more; GET /v1/keys/self",
	} {
		if body := send("POST", "/v1/checks", action, key(grants), 403); !strings.Contains(body, want) || len(body) > 700 {
			t.Errorf("%s: %s", grants, body)
		}
	}
	if body := send("GET", "/v1/policies/none", "", full, 404); !strings.Contains(body, "no policy none") {
		t.Error(body)
	}
}
