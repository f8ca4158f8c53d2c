package e2e_test

import (
	"net/http"
	"net/url"
	"strings"
	"testing"

	"spendgate/bench/fleet"
)

// S21: text that looks like SQL is stored and found as it was sent,
// in every field that takes any characters, and refused in the others.
func (s *suite) hostileText(t *testing.T) {
	const evil = `'); DROP TABLE checks; -- \'; $1 {"a":("b,NULL)} %s \\x00 😀`
	c, name := s.client(0), s.name(evil)
	action := fleet.Action{
		AgentID: name, PolicyID: standard, ActionType: "refund", Amount: "900", Currency: "USD", Counterparty: name,
		PaymentMethod: evil, Vendor: evil, ReasonText: evil, IdempotencyKey: name, Metadata: map[string]any{evil: evil},
	}
	first := check(t, c, action)
	if again := check(t, c, action); !again.Replayed() {
		t.Errorf("not a replay: %s", again)
	}
	rows := s.rows(t, "agent_id = $1 AND counterparty = $1 AND idempotency_key = $1 AND payment_method = $2 AND merchant_or_vendor = $2 "+
		"AND reason_text = $2 AND metadata::jsonb = jsonb_build_object($2::text, $2::text)", name, evil)
	if len(rows) != 1 || rows[0].CheckID != first.Result().CheckID {
		t.Errorf("%d rows have what was sent", len(rows))
	}
	list := ok(t, must(c.Violations(t.Context(), "agent_id="+url.QueryEscape(name)))(t), http.StatusOK)
	if !strings.Contains(string(list.Body), `"total_count":1`) {
		t.Errorf("the violation is not found: %s", list)
	}
	for _, path := range []string{
		"/v1/checks/" + url.PathEscape(evil), "/v1/checks/chk_'%20OR%201=1--", "/v1/policies/" + url.PathEscape(evil),
		"/v1/policies/standard?version=1%20OR%201=1", "/v1/violations?cursor=" + url.QueryEscape(evil),
		"/v1/violations?limit=1;DROP", "/v1/violations?from=" + url.QueryEscape(evil),
	} {
		if a := must(c.Do(t.Context(), http.MethodGet, path, nil))(t); a.Status != http.StatusNotFound && a.Status != http.StatusUnprocessableEntity {
			t.Errorf("%s: %s", path, a)
		}
	}
	bad := action
	bad.Currency, bad.ActionType, bad.IdempotencyKey = "'--", evil, ""
	ok(t, must(c.Check(t.Context(), bad))(t), http.StatusUnprocessableEntity)
	if after := must(c.GetCheck(t.Context(), first.Result().CheckID))(t); string(after.Body) != string(first.Body) {
		t.Errorf("afterwards: %s", after)
	}
}
