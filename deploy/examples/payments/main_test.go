package main

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"spendgate/bench/fleet"
	"spendgate/bench/must"
	"spendgate/hotpath/client"
)

// TestProvider: a payment that was not allowed, differs from the allowed one or was made before is not
// paid, and every payment is reported.
func TestProvider(t *testing.T) {
	node := fleet.TestDev(t)
	as := func(role string) *client.Client {
		admin := must.Get(client.New(client.Options{BaseURL: node.API, AdminKey: node.AdminKey}))(t)
		key := must.Get(admin.CreateKey(t.Context(), client.KeyRequest{Name: role, Grants: client.Grants{Role: role}}))(t)
		c := must.Get(client.New(client.Options{BaseURL: node.API, APIKey: key.APIKey}))(t)
		return c
	}
	for id, limit := range map[string]int{"p": 100, "lax": 1000} {
		limited := json.RawMessage(fmt.Sprintf(`{"limit":%d,"currency":"USD"}`, limit))
		must.Get(as("author").CreatePolicy(t.Context(), client.NewPolicy{
			PolicyID: id, Name: id, Redeem: "required", Rules: []client.Rule{{RuleID: "cap", RuleType: "max_amount", Parameters: limited}},
		}))(t)
	}
	agent, p := as("agent"), &provider{gate: as("executor"), policy: "p"}
	service := httptest.NewServer(p)
	defer service.Close()
	kind, policy := client.Spend, "p"
	check := func(amount, to string) string {
		exact := must.Get(client.ParseAmount(amount))(t)
		r := must.Get(agent.Check(t.Context(), client.Action{
			AgentID: "a", PolicyID: policy, ActionType: kind, Amount: exact, Currency: "USD", Counterparty: to,
		}))(t)
		return r.CheckID
	}
	pay := func(id, amount, to string, want int) {
		t.Helper()
		body := fmt.Sprintf(`{"check_id":%q,"amount":%s,"currency":"USD","to":%q}`, id, amount, to)
		r, err := http.Post(service.URL, "application/json", strings.NewReader(body))
		if err != nil {
			t.Error(err)
			return
		}
		defer r.Body.Close() //nolint:errcheck // only read
		if text, _ := io.ReadAll(r.Body); r.StatusCode != want && want != 0 {
			t.Errorf("%s: %d %s, want %d", body, r.StatusCode, text, want)
		}
	}
	allowed := check("80", "ann")
	pay(allowed, "80.01", "ann", 409)
	kind = client.Refund
	pay(check("80", "ann"), "80", "ann", 409)
	kind, policy = client.Spend, "lax"
	pay(check("80", "ann"), "80", "ann", 409)
	policy = "p"
	pay(allowed, "80", "bob", 409)
	pay(check("101", "ann"), "101", "ann", 409)
	pay("chk_0", "80", "ann", 409)
	var at sync.WaitGroup
	for range 8 {
		at.Go(func() { pay(allowed, "80", "ann", 0) })
	}
	at.Wait()
	pay(allowed, "80", "ann", 409)
	if len(p.ledger) != 1 {
		t.Error("paid", p.ledger)
	}
	if o, err := p.gate.GetOutcome(t.Context(), allowed); err != nil || o.Status != "executed" || o.Reference != "pay-1" {
		t.Error(o, err)
	}
}

// TestProviderNotTold: nothing is paid unless the check was redeemed just now, and if it may have been, the
// answer does not say "not paid".
func TestProviderNotTold(t *testing.T) {
	refusal := func(code string) string {
		return fmt.Sprintf(`{"error":{"code":%q,"message":"m","request_id":"r"}}`, code)
	}
	redemption := func(check string) string {
		return fmt.Sprintf(`{"check_id":%q,"redemption_id":"rdm_1","action_hash":"h","action":{"action_type":"spend"}}`, check)
	}
	for _, test := range []struct {
		status              int
		body, outcome, want string
	}{
		{500, refusal("internal_error"), "", "it is not known"},
		{503, refusal("unavailable"), "", "it is not known"},
		{429, refusal("rate_limited"), "", "it is not known"},
		{404, "<html>", "", "it is not known"},
		{302, "", "", "it is not known"},
		{200, redemption("chk_2"), "", "it is not known"},
		{200, "{}", "", "it is not known"},
		{409, refusal("check_already_redeemed"), "", "perhaps paid"},
		{409, refusal("check_already_redeemed"), "executed", "perhaps paid"},
		{409, refusal("check_already_redeemed"), "failed", "not paid under this check"},
		{409, refusal("check_expired"), "", "perhaps paid"},
		{409, refusal("check_expired"), "voided", "not paid under this check"},
		{403, refusal("forbidden"), "", "not paid: "},
	} {
		gate := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			status, body := test.status, test.body
			switch {
			case strings.HasSuffix(r.URL.Path, "/outcome") && test.outcome == "":
				status, body = 404, refusal("outcome_not_found")
			case strings.HasSuffix(r.URL.Path, "/outcome"):
				status, body = 200, fmt.Sprintf(`{"check_id":"chk_1","status":%q,"release":"done"}`, test.outcome)
			case !strings.HasSuffix(r.URL.Path, "/redeem"): // behind the redirect
				status, body = 200, redemption("chk_1")
			}
			w.Header().Set("Location", "/elsewhere")
			w.WriteHeader(status)
			io.WriteString(w, body) //nolint:errcheck // it would be seen
		}))
		defer gate.Close()
		c := must.Get(client.New(client.Options{BaseURL: gate.URL, APIKey: "k", Attempts: 2}))(t)
		p, w := &provider{gate: c, policy: "p"}, httptest.NewRecorder()
		p.ServeHTTP(w, httptest.NewRequest(http.MethodPost, "/", strings.NewReader(`{"check_id":"chk_1","amount":1,"currency":"USD","to":"a"}`)))
		if !strings.HasPrefix(w.Body.String(), test.want) || len(p.ledger) != 0 {
			t.Errorf("%+v: %d %s", test, w.Code, w.Body)
		}
	}
}
