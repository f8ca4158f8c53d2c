package httpapi

import (
	"strings"
	"testing"
)

// TestDeactivatedKey: what a deactivation stops, and what it answers; every answer fits the document (S87, G17).
func TestDeactivatedKey(t *testing.T) {
	d := describe(t)
	d.address = serveOn(t, New(realOptions(t)))
	admin := "X-Admin-Key: " + adminKey
	refused := func(method, path, body string, status int, code string, headers ...string) {
		t.Helper()
		if got := d.send(method, path, body, status, true, headers...); field(t, got, "error", "code") != code {
			t.Errorf("%s %s: %s, want %s", method, path, got, code)
		}
	}
	key := func(members string) (path, header string) {
		made := d.send("POST", "/v1/keys", `{"name":"n","rate_limit_rpm":1000`+members+`}`, 201, true, admin)
		return "/v1/keys/" + field(t, made, "key_id"), "X-API-Key: " + field(t, made, "api_key")
	}
	_, author := key(`,"role":"author","principal":"ops"`)
	path, leaked := key(`,"role":"gateway","principal":"bot"`)
	_, other := key(`,"role":"gateway","principal":"bot"`)
	d.send("POST", "/v1/policies", strings.Replace(simplePolicy, "p:1", "p", 1), 201, true, author)
	body := `{"idempotency_key":"k",` + strings.Replace(matrixCheck, `:7,`, `:5,`, 1)[1:]
	redeem := "/v1/checks/" + field(t, d.send("POST", "/v1/checks", body, 200, true, leaked), "check_id") + "/redeem"
	same := `{"idempotency_key":"r",` + strings.Replace(matrixCheck, `:7,`, `:5,`, 1)[1:]

	refused("PATCH", path, `{"keep_open":true}`, 422, "validation_error", admin)
	refused("PATCH", path, `{"keep_open":true,"active":true}`, 422, "validation_error", admin)
	for _, step := range []struct{ change, stopped string }{
		{`{"name":"n"}`, ""},
		{`{"active":false,"keep_open":true}`, `"stopped":{"checks":0,"voided":0}`},
		{`{"active":false}`, `"stopped":{"checks":1,"voided":0}`},
		{`{"active":true}`, ""},
	} {
		got := d.send("PATCH", path, step.change, 200, true, admin)
		if has := strings.Contains(got, `"stopped"`); has != (step.stopped != "") || !strings.Contains(got, step.stopped) {
			t.Errorf("%s: %s", step.change, got)
		}
	}
	for _, caller := range []string{leaked, other} {
		refused("POST", "/v1/checks", body, 409, "check_stopped", caller)
		refused("POST", redeem, same, 409, "check_stopped", caller)
		refused("POST", redeem, strings.Replace(same, `:5,`, `:4,`, 1), 409, "check_stopped", caller)
	}
}
