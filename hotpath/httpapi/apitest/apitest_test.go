package apitest_test

import (
	"maps"
	"net/http"
	"os"
	"strings"
	"testing"

	"spendgate/bench/must"
	"spendgate/hotpath/httpapi/apitest"
)

// A status, header or body that is not as declared is found, also behind references and after a
// correct response.
func TestCheckResponse(t *testing.T) {
	text := must.Get(os.ReadFile("../openapi.yaml"))(t)
	doc := must.Get(apitest.Load(text))(t)
	const check = `{"check_id":"chk_0123456789abcdef0123456789abcdef","decision":"allow","confidence":"high","reason_code":null,` +
		`"message":"fine","violated_rule_id":null,"violated_rule_description":null,"policy_version":2,"next_step":"Proceed.",` +
		`"latency_ms":1,"timestamp":"2026-01-02T03:04:05.600Z"}`
	headers := http.Header{
		"Content-Type": {"application/json"}, "X-Request-Id": {"req_0123456789ab"}, "X-Ratelimit-Limit": {"60"},
		"X-Ratelimit-Remaining": {"0"}, "X-Ratelimit-Reset": {"1790000000"},
	}
	with := func(name string, values ...string) http.Header {
		changed := maps.Clone(headers)
		changed[name] = values
		return changed
	}
	without := func(name string) http.Header {
		changed := maps.Clone(headers)
		delete(changed, name)
		return changed
	}
	body := func(old, by string) string { return strings.Replace(check, old, by, 1) }
	const path = "/v1/checks/chk_0123456789abcdef0123456789abcdef"
	for _, response := range []apitest.Response{
		{200, headers, []byte(check)},
		{200, with("Outcome", "executed"), []byte(check)},
		{200, with("Content-Type", "application/json; charset=utf-8"), []byte(check)},
	} {
		must.Check(t, doc.CheckResponse("GET", path, response))
	}
	for name, response := range map[string]apitest.Response{
		"a status":                     {201, headers, []byte(check)},
		"a header that is none":        {200, with("X-Other", "1"), []byte(check)},
		"no header":                    {200, without("X-Request-Id"), []byte(check)},
		"a header's pattern":           {200, with("X-Request-Id", "req_1"), []byte(check)},
		"a header that is no number":   {200, with("X-Ratelimit-Limit", "many"), []byte(check)},
		"a header's least":             {200, with("X-Ratelimit-Remaining", "-1"), []byte(check)},
		"a header's value":             {200, with("Outcome", "done"), []byte(check)},
		"no type":                      {200, without("Content-Type"), []byte(check)},
		"another type":                 {200, with("Content-Type", "text/plain"), []byte(check)},
		"the type of the document":     {200, with("Content-Type", "application/yaml"), []byte(check)},
		"no body":                      {200, headers, nil},
		"half a body":                  {200, headers, []byte(check[:99])},
		"two bodies":                   {200, headers, []byte(check + check)},
		"no field":                     {200, headers, []byte(body(`"latency_ms":1,`, ""))},
		"a field's type":               {200, headers, []byte(body(`"latency_ms":1`, `"latency_ms":"1"`))},
		"a field that may not be null": {200, headers, []byte(body(`"allow"`, "null"))},
		"a value":                      {200, headers, []byte(body(`"allow"`, `"maybe"`))},
		"a field's pattern":            {200, headers, []byte(body("chk_", "c_"))},
		"a time":                       {200, headers, []byte(body("2026-01-02T", "2026-01-02 "))},
	} {
		if err := doc.CheckResponse("GET", path, response); err == nil {
			t.Errorf("%s: nothing is found", name)
		}
	}
}
