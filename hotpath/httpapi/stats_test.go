package httpapi

import (
	"strings"
	"testing"
	"time"
)

func TestQueryStats(t *testing.T) {
	f := func(query, want string) {
		t.Helper()
		got := ""
		if _, _, err := queryStats([]byte(query)); err != nil {
			got = err.Error()
		}
		if !strings.HasPrefix(got, want) || want == "" && got != "" {
			t.Errorf("%s: %q, want %q", query, got, want)
		}
	}
	f("", "from is required")
	f("from=2026-01-01&to=2026-01-02", "step is required")
	f("from=2026-01-01&step=day", "to is required")
	f("from=2026-01-01&to=2026-01-02&step=week", "step must be minute, hour or day")
	f("from=2026-01-02&to=2026-01-01&step=day", "from must not be after to")
	f("from=2026-01-01&to=2026-01-31&step=minute", "")
	f("from=2026-01-01&to=2026-02-01&step=minute", "from must be nearer")
	f("from=1970-01-01&to=9999-12-31&step=hour", "from must be nearer")
	f("from=0001-01-01&to=1969-12-31&step=hour", "from must not be before 1970; to must not be before 1970")
	f("from=2026-01-01&to=2026-01-02&step=day&decision=allow", "decision is not a known query parameter")

	q, _, err := queryStats([]byte("from=2026-01-31T12:34:56%2B02:00&to=2026-01-31T11:00:00Z&step=hour"))
	if err != nil || q.From.Format(time.RFC3339) != "2026-01-31T10:00:00Z" || q.Until.Format(time.RFC3339) != "2026-01-31T12:00:00Z" {
		t.Errorf("from %v until %v, %v", q.From, q.Until, err)
	}
}

// TestStats counts checks as soon as they were answered, of what a key may read alone.
func TestStats(t *testing.T) {
	address := serveOn(t, New(realOptions(t)))
	key := keysAt(t, address)
	full, agent, elsewhere := key(""), key(`,"role":"agent"`), key(`,"role":"auditor","policy_ids":["elsewhere"]`)
	doAt(t, address, "POST", "/v1/policies", bodies()["POST /v1/policies"], full)
	for _, amount := range []string{"1", "2", "2", "99999999"} {
		doAt(t, address, "POST", "/v1/checks", strings.Replace(matrixCheck, ":7,", ":"+amount+",", 1), full)
	}
	doAt(t, address, "POST", "/v1/checks", matrixCheck, agent)
	days := "/v1/stats?step=day&from=" + time.Now().UTC().AddDate(0, 0, -1).Format(time.DateOnly) + "&to=" +
		time.Now().UTC().Format(time.DateOnly)
	for _, c := range []struct{ who, query, total string }{
		{full, "", `{"allow":2,"block":3,"escalate":0}`},
		{full, "&policy_id=p", `{"allow":2,"block":3,"escalate":0}`},
		{full, "&policy_id=other", `{"allow":0,"block":0,"escalate":0}`},
		{full, "&agent_id=a", `{"allow":2,"block":3,"escalate":0}`},
		{agent, "", `{"allow":0,"block":1,"escalate":0}`},
		{elsewhere, "", `{"allow":0,"block":0,"escalate":0}`},
		{elsewhere, "&policy_id=p", `{"allow":0,"block":0,"escalate":0}`},
	} {
		a := doAt(t, address, "GET", days+c.query, "", c.who)
		if a.status != 200 || !strings.HasSuffix(a.body, `"total":`+c.total+"}") || strings.Count(a.body, `"start":`) != 2 {
			t.Errorf("%s: %d %s, want 2 buckets and %s", c.query, a.status, a.body, c.total)
		}
	}
}

// TestSums adds up what a key may read alone.
func TestSums(t *testing.T) {
	address := serveOn(t, New(realOptions(t)))
	key := keysAt(t, address)
	full, agent := key(""), key(`,"role":"agent"`)
	doAt(t, address, "POST", "/v1/policies", bodies()["POST /v1/policies"], full)
	for _, amount := range []string{"0.1", "0.2", "99999999.5"} {
		doAt(t, address, "POST", "/v1/checks", strings.Replace(matrixCheck, ":7,", ":"+amount+",", 1), full)
	}
	const none = `{"since":null,"checks":{"allow":0,"block":0,"escalate":0},"amounts":[],"agents":[],` +
		`"counterparties":[],"rules":[],"latency_ms":{"p50":0,"p95":0,"max":0}}`
	all := `{"since":null,"checks":{"allow":2,"block":1,"escalate":0},` +
		`"amounts":[{"currency":"USD","allow":0.3,"block":99999999.5,"escalate":0}],` +
		`"agents":[{"agent_id":"a","checks":3}],"counterparties":[{"counterparty":"c","checks":3}],` +
		`"rules":[{"policy_id":"p","rule_id":"r","reason_code":"max_amount_exceeded","checks":1}]`
	for _, c := range []struct{ who, query, want string }{
		{full, "", all},
		{full, "?rule_id=none", none},
		{full, "?agent_id=a&policy_id=p&counterparty=c&from=2020-01-01", all},
		{full, "?agent_id=b", none},
		{full, "?to=2020-01-01", none},
		{full, "?principal=nobody", none},
		{agent, "", none},
	} {
		if a := doAt(t, address, "GET", "/v1/sums"+c.query, "", c.who); a.status != 200 || !strings.HasPrefix(a.body, c.want) {
			t.Errorf("%s: %d %s\nwant %s", c.query, a.status, a.body, c.want)
		}
	}
}
