package httpapi

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"spendgate/audit"
	"spendgate/audit/spend"
	"spendgate/hotpath"
)

const simplePolicy = `{"policy_id":"p:1","name":"n","rules":[{"rule_id":"r","rule_type":"max_amount","parameters":{"limit":5.00}}]}`

var requestIDForm = regexp.MustCompile(`^req_[0-9a-f]{12}$`)

// The order of S1: of several things wrong with a request, the first in
// the contract's list is answered.
func TestOneAnswerTheFirstThatApplies(t *testing.T) {
	s := start(t, nil)
	f := func(method, path, body string, status int, code string, headers ...string) {
		t.Helper()
		a := s.do(method, path, body, headers...)
		if a.status != status {
			t.Fatalf("%s %s: %d %s, want %d", method, path, a.status, a.body, status)
		}
		if method != "HEAD" && code != "" {
			if got := a.code(t); got != code {
				t.Errorf("%s %s: %s, want %s", method, path, got, code)
			}
		}
		if !requestIDForm.MatchString(a.header.Get("X-Request-ID")) {
			t.Errorf("%s %s: X-Request-ID %q", method, path, a.header.Get("X-Request-ID"))
		}
		for _, name := range []string{"X-RateLimit-Limit", "X-RateLimit-Remaining", "X-RateLimit-Reset"} {
			if _, err := strconv.Atoi(a.header.Get(name)); err != nil {
				t.Errorf("%s %s: %s is %q", method, path, name, a.header.Get(name))
			}
		}
	}
	noKey, text := "X-API-Key: -", "Content-Type: text/plain"

	// A path that does not exist wins over everything.
	for _, path := range []string{
		"/", "/v1", "/v1/", "/v1/checks/", "/v1/Checks", "/V1/checks", "/v1//checks",
		"/v1/%63hecks", "/v1/policies/", "/v1/policies/a/b", "/v1/policies/a/versions/", "/v1/policies/a/versions/1", "/v1/checks/../policies",
		"/health/", "/metrics", "/v1/keys/",
	} {
		f("POST", path, "{", 404, "not_found", noKey)
		f("HEAD", path, "", 404, "not_found", noKey)
	}
	// An unknown path is answered with where the paths are listed.
	if a := s.do("POST", "/checks", "{"); !strings.Contains(a.body, "GET /openapi.yaml") || s.do("GET", "/openapi.yaml", "").status != 200 {
		t.Errorf("answered %s", a.body)
	}
	// Then the method.
	for path, allow := range map[string]string{
		"/v1/checks": "GET, POST", "/v1/checks/chk_x": "GET", "/v1/simulate": "POST", "/v1/policies": "GET, POST", "/v1/policies/p": "GET",
		"/v1/policies/p/versions": "GET",
		"/v1/violations":          "GET", "/v1/keys": "GET, POST", "/v1/keys/key_x": "PATCH", "/health": "GET, HEAD",
		"/openapi.yaml": "GET, HEAD",
		"/openapi.json": "GET, HEAD",
	} {
		for _, method := range []string{"OPTIONS", "DELETE", "PUT", "PURGE", "TRACE", "post"} {
			f(method, path, "", 405, "method_not_allowed", noKey)
			if got := s.do(method, path, "").header.Get("Allow"); got != allow {
				t.Errorf("%s %s: Allow is %q, want %q", method, path, got, allow)
			}
		}
		if !strings.Contains(allow, "HEAD") {
			f("HEAD", path, "", 405, "method_not_allowed", noKey)
			continue
		}
		f("HEAD", path, "", 200, "", noKey)
		get, head := s.do("GET", path, "", noKey, "Accept-Encoding: identity"), s.do("HEAD", path, "", noKey)
		if head.header.Get("Content-Length") != strconv.Itoa(len(get.body)) || head.header.Get("Content-Type") != get.header.Get("Content-Type") {
			t.Errorf("HEAD %s: %v, and GET has %v", path, head.header, get.header)
		}
	}
	if s.fake.admits != 0 {
		t.Errorf("404 and 405 asked the Authorizer %d times", s.fake.admits)
	}
	// Then who asks.
	big := strings.Repeat(" ", maxBody+1)
	for _, body := range []string{"{", "{}", big} {
		for _, key := range []string{noKey, "X-API-Key: wrong"} {
			f("POST", "/v1/checks", body, 401, codeUnauthorized, key)
			f("POST", "/v1/policies", body, 401, codeUnauthorized, key)
			f("POST", "/v1/keys", body, 401, codeUnauthorized, key)
		}
		f("POST", "/v1/simulate", body, 401, codeUnauthorized, "X-API-Key: wrong")
		f("POST", "/v1/simulate", body, 401, codeUnauthorized, "X-API-Key: ")
		f("POST", "/v1/keys", body, 401, codeUnauthorized, "X-Admin-Key: "+adminKey+"x")
	}
	f("GET", "/v1/checks/bad?x=%", "", 401, codeUnauthorized, noKey)
	f("GET", "/v1/policies/bad?version=x", "", 401, codeUnauthorized, noKey)
	f("GET", "/v1/violations?limit=x", "", 401, codeUnauthorized, noKey)
	f("GET", "/v1/keys?limit=x", "", 401, codeUnauthorized)
	f("PATCH", "/v1/keys/bad", "{", 401, codeUnauthorized)
	s.fake.admitErr = hotpath.ErrKeyInactive
	f("POST", "/v1/checks", "{", 401, codeKeyInactive)
	// Then the rate limit.
	s.fake.admitErr = hotpath.ErrRateLimited
	f("POST", "/v1/checks", big, 429, "rate_limit_exceeded")
	f("POST", "/v1/checks", "{", 429, "rate_limit_exceeded")
	f("POST", "/v1/simulate", "{", 429, "rate_limit_exceeded", noKey)
	f("GET", "/v1/violations?limit=x", "", 429, "rate_limit_exceeded")
	s.fake.admitErr = nil
	// Then the text of the body.
	f("POST", "/v1/checks?x=1", big, 413, codeBadRequest)
	f("POST", "/v1/checks?x=1", `{"agent_id":1`, 400, codeBadRequest)
	f("POST", "/v1/checks?x=1", `{"agent_id":1}`, 400, codeBadRequest, text)
	f("POST", "/v1/keys", `{"name":1}x`, 400, codeBadRequest, "X-Admin-Key: second")
	f("GET", "/v1/violations", big, 413, codeBadRequest)
	f("GET", "/health", big, 413, codeBadRequest)
	// Then its fields, then the object.
	f("POST", "/v1/checks?x=1", plainCheck, 422, codeValidation)
	f("GET", "/v1/policies/none?version=0", "", 422, codeValidation)
	f("GET", "/v1/policies/none", "", 404, "policy_not_found")
	f("PATCH", "/v1/keys/bad", `{"active":1}`, 422, codeValidation, "X-Admin-Key: "+adminKey)
	f("PATCH", "/v1/keys/bad", `{"active":true}`, 404, "key_not_found", "X-Admin-Key: "+adminKey)
}

func TestGoodAnswers(t *testing.T) {
	s := start(t, nil)
	f := func(method, path, body string, status int, want string, headers ...string) answer {
		t.Helper()
		a := s.do(method, path, body, headers...)
		if a.status != status || !strings.HasPrefix(a.body, want) {
			t.Errorf("%s %s: %d %s\nwant %d %s", method, path, a.status, a.body, status, want)
		}
		return a
	}
	check := string(AppendCheckResult(nil, allowedCheck()))
	a := f("POST", "/v1/checks", plainCheck, 200, check)
	if a.header.Get("Idempotent-Replayed") != "" || a.header.Get("Content-Type") != "application/json" ||
		a.header.Get("Server") != "spendgate" {
		t.Errorf("headers %v", a.header)
	}
	if a.header.Get("X-RateLimit-Limit") != "100" || a.header.Get("X-RateLimit-Remaining") != "99" {
		t.Errorf("the quota is not the caller's: %v", a.header)
	}
	s.fake.replayed = true
	a = f("POST", "/v1/checks", plainCheck, 200, check, "Content-Type: application/json; charset=UTF-8")
	if a.header.Get("Idempotent-Replayed") != "true" {
		t.Errorf("a replay is not marked: %v", a.header)
	}
	stored := string(AppendCheckResult(nil, blockedCheck()))
	f("GET", "/v1/checks/chk_01a1f958502270008001020304050607", "", 200, stored)
	f("GET", "/v1/checks/chk_01a1f958502270008001020304050607?", "a body that is ignored", 200, stored)
	f("GET", "/v1/checks/chk%5F01a1f958502270008001020304050607", "", 200, stored)
	created := `"created_at":"2026-11-20T10:11:12.034Z","updated_at":"2026-11-20T10:11:12.034Z","metadata":null}`
	f("POST", "/v1/policies", simplePolicy, 201, `{"policy_id":"p:1","name":"n","version":1,`+
		`"rules":[{"rule_id":"r","rule_type":"max_amount","parameters":{"limit":5.00}}],`+created)
	a = f("POST", "/v1/policies", `{"policy_id":" ","name":"n","description":"d", "metadata":{"a" : 1.0},
		"rules":[{"rule_id":"r","rule_type":"max_amount","parameters":{ "limit":5e0 } } ] }`, 201, `{"policy_id":"pol_`)
	if id := a.body[len(`{"policy_id":"`):][:36]; !regexp.MustCompile(`^pol_[0-9a-f]{32}$`).MatchString(id) {
		t.Errorf("generated policy_id %q", id)
	}
	if !strings.Contains(a.body, `,"description":"d","version":1,"rules":[{"rule_id":"r","rule_type":"max_amount",`+
		`"parameters":{"limit":5e0}}],`) ||
		!strings.HasSuffix(a.body, `,"metadata":{"a":1.0}}`) {
		t.Errorf("policy %s", a.body)
	}
	f("GET", "/v1/policies/p%3A1?version=02", "", 200, `{"policy_id":"p:1",`)
	f("GET", "/v1/violations?limit=3", "", 200, `{"data":[],"pagination":{"next_cursor":null,"has_more":false,"total_count":7}}`)
	f("POST", "/v1/simulate", simulationOf(2), 200, `{"mode":"demo","policy_id":"p","policy_version":3,"results":[`+stored+","+stored+
		`],"summary":{"total":2,"allowed":0,"blocked":2,"escalated":0}}`, "X-API-Key: -")
	f("POST", "/v1/simulate", simulationOf(100), 200, `{"mode":"simulation",`)
	admin := "X-Admin-Key: second"
	key := `"name":"n","rate_limit_rpm":5,"active":false,"created_at":"`
	f("GET", "/v1/keys", "", 200, `{"data":[{"key_id":"key_`, admin)
	if a := s.do("GET", "/v1/keys", "", admin); !strings.Contains(a.body, key) ||
		!strings.Contains(a.body, `,"last_used_at":"2026-11-20T10:11:12.034Z"},{`) || !strings.Contains(a.body, `,"last_used_at":null}],`) {
		t.Errorf("keys %s", a.body)
	}
	a = f("POST", "/v1/keys", `{"name":"n"}`, 201, `{"key_id":"key_`, admin)
	if !strings.HasSuffix(a.body, `,"name":"n","api_key":"`+goodKey+`","rate_limit_rpm":100,"created_at":"2026-11-20T10:11:12.034Z"}`) {
		t.Errorf("new key %s", a.body)
	}
	f("PATCH", "/v1/keys/key_01a1f958502270008001020304050607", `{"active":false}`, 200,
		`{"key_id":"key_01a1f958502270008001020304050607","name":"n","rate_limit_rpm":100,"active":false,`, admin)
	f("GET", "/health?probe=7", "", 200, `{"status":"ok","version":"1.2.3","timestamp":"`, "X-API-Key: -")
	f("GET", "/openapi.yaml", "", 200, "openapi: 3.1.", "X-API-Key: -")
	f("GET", "/openapi.json", "", 200, `{"openapi":"3.1.`, "X-API-Key: -")
}

func simulationOf(n int) string {
	action := `{"agent_id":"a","policy_id":"p","action_type":"refund","amount":1,"currency":"usd","counterparty":"c","idempotency_key":7,` +
		`"merchant_or_vendor":"m"}`
	return `{"actions":[` + strings.TrimSuffix(strings.Repeat(action+",", n), ",") + `],"policy_id":"p"}`
}

func TestSimulationLimits(t *testing.T) {
	s := start(t, nil)
	f := func(body string, status int, code, path string, headers ...string) {
		t.Helper()
		a := s.do("POST", "/v1/simulate", body, headers...)
		if a.status != status || a.code(t) != code || !strings.Contains(a.body, path) {
			t.Errorf("%d %s, want %d %s %s", a.status, a.body, status, code, path)
		}
	}
	demo := "X-API-Key: -"
	f(simulationOf(11), 422, "demo_limit_exceeded", "10 actions", demo)
	f(simulationOf(101), 422, "demo_limit_exceeded", "10 actions", demo)
	f(strings.Replace(simulationOf(11), "refund", "x", 1), 422, "demo_limit_exceeded", "", demo)
	f(simulationOf(11)+"x", 400, codeBadRequest, "", demo)
	f(simulationOf(101), 422, codeValidation, "actions must have at most 100")
	f(simulationOf(0), 422, codeValidation, "actions must have at least 1")
	f(`{"policy_id":"p"}`, 422, codeValidation, "actions is required")
	f(`{"policy_id":"p","actions":null}`, 422, codeValidation, "actions is required")
	f(`{"policy_id":"p","actions":{}}`, 422, codeValidation, "actions must be an array")
	f(`{"policy_id":"p","actions":[7]}`, 422, codeValidation, "actions[0] must be an object")
	f(strings.Replace(simulationOf(3), `"amount":1`, `"amount":"1"`, 3), 422, codeValidation, "actions[2].amount must be a number")
	f(strings.Replace(simulationOf(2), `"policy_id":"p"`, `"policy_id":"q"`, 1), 422, codeValidation,
		"actions[0].policy_id must be the policy_id")
	f(strings.Replace(simulationOf(2), `],"policy_id":"p"`, `],"policy_id":""`, 1), 422, codeValidation, "policy_id is required")
	f(strings.Replace(simulationOf(2), `"counterparty":"c"`, `"metadata":{"country":1}`, 1), 422, codeValidation,
		"actions[0].metadata.country must be a two-letter country code; actions[0].counterparty is required")
}

func TestErrorTable(t *testing.T) {
	s := start(t, nil)
	f := func(err error, status int, code string, retry string) {
		t.Helper()
		s.fake.workErr = err
		a := s.do("POST", "/v1/checks", plainCheck)
		if a.status != status || a.code(t) != code || a.header.Get("Retry-After") != retry {
			t.Errorf("%v: %d %s Retry-After %q", err, a.status, a.body, a.header.Get("Retry-After"))
		}
	}
	f(fmt.Errorf("cannot: %w", hotpath.ErrPolicyNotFound), 404, "policy_not_found", "")
	s.fake.workErr = fmt.Errorf("cannot: %w", &hotpath.PolicyNotFoundError{PolicyID: "refunds-eu"})
	s.do("POST", "/v1/checks", plainCheck).is(t, "", 404, "no policy refunds-eu")
	f(&hotpath.KeyReusedError{}, 422, codeValidation, "")
	for refused, says := range map[error]string{
		&hotpath.KeyReusedError{}: "or give another action a key of its own",
		&hotpath.AlreadyRedeemedError{By: new(spend.Outcome), Report: true}: "only the redeemer reports its outcome",
	} {
		s.fake.workErr = refused
		if a := s.do("POST", "/v1/checks", plainCheck); !strings.Contains(a.body, says) {
			t.Errorf("%s, want %q", a.body, says)
		}
	}
	holder := spend.ID{15: 7}
	for refused, want := range map[error]string{
		&hotpath.KeyReusedError{Check: holder}:                           holder.Text(spend.PrefixCheck),
		&audit.ApprovalError{Status: audit.ApprovalUsed, UsedBy: holder}: holder.Text(spend.PrefixCheck),
		&hotpath.AlreadyRedeemedError{By: new(spend.Outcome)}:            "",
		&audit.ApprovalError{Status: audit.ApprovalPending}:              "",
	} {
		s.fake.workErr = refused
		var body struct {
			Error struct {
				CheckID string `json:"check_id"`
			} `json:"error"`
		}
		a := s.do("POST", "/v1/checks", plainCheck)
		if err := json.Unmarshal([]byte(a.body), &body); err != nil || body.Error.CheckID != want {
			t.Errorf("%v: %s, %v, want the check %q", refused, a.body, err, want)
		}
	}
	f(fmt.Errorf("cannot: %w", spend.Faults{{Path: "rules[2].parameters.limit", Problem: "is required"}}), 422, codeValidation, "")
	f(hotpath.ErrOverloaded, 500, codeInternal, "1")
	f(fmt.Errorf("%w: %w", hotpath.ErrUnavailable, errors.New("dial tcp")), 500, codeInternal, "1")
	f(audit.ErrUnavailable, 500, codeInternal, "1")
	f(audit.ErrUnknown, 500, codeInternal, "1")
	f(context.DeadlineExceeded, 500, codeInternal, "1")
	f(&audit.RowError{Err: errors.New("numeric field overflow")}, 500, codeInternal, "")
	f(errors.New("secret detail"), 500, codeInternal, "")
	if strings.Contains(s.do("POST", "/v1/checks", plainCheck).body, "secret") {
		t.Error("an unexpected error is told to the client")
	}
	if !strings.Contains(s.logged.String(), "secret detail") {
		t.Error("an unexpected error is not logged")
	}

	s.fake.workErr, s.fake.admitErr = nil, hotpath.ErrRateLimited
	a := s.do("POST", "/v1/checks", plainCheck)
	wait, err := strconv.Atoi(a.header.Get("Retry-After"))
	if err != nil || wait < 1 || wait > 30 || !strings.Contains(a.body, fmt.Sprintf("wait %d s", wait)) {
		t.Errorf("Retry-After %q", a.header.Get("Retry-After"))
	}
	s.fake.quota.ResetMS = time.Now().Add(-3 * time.Second).UnixMilli()
	if a := s.do("POST", "/v1/checks", plainCheck); a.header.Get("Retry-After") != "1" {
		t.Errorf("Retry-After %q of a window that is over", a.header.Get("Retry-After"))
	}
}

func TestReadsReportTheStoresErrors(t *testing.T) {
	s := start(t, nil)
	s.store.err = fmt.Errorf("%w: no route", audit.ErrUnavailable)
	for _, path := range []string{
		"/v1/checks/chk_01a1f958502270008001020304050607", "/v1/policies/p:1", "/v1/violations", "/v1/keys",
		"/v1/checks", "/v1/policies", "/v1/policies/p:1/versions",
	} {
		if a := s.do("GET", path, "", "X-Admin-Key: "+adminKey); a.status != 500 || a.code(t) != codeInternal ||
			a.header.Get("Retry-After") != "1" {
			t.Errorf("%s: %d %s", path, a.status, a.body)
		}
	}
	s.store.err = nil
	for _, path := range []string{
		"chk_01a1f958502270008001020304050608", "chk_01A1F958502270008001020304050607", "01a1f958502270008001020304050607",
		"viol_01a1f958502270008001020304050607", "chk_", "%00", "%ff", "chk_01a1f95850227000800102030405060g",
	} {
		s.do("GET", "/v1/checks/"+path, "").is(t, path, 404, `"code":"check_not_found"`)
	}
	for _, path := range []string{
		"none", "a%2Fb", "-p", "p%201", strings.Repeat("p", 129), "none/versions", "-p/versions", "p:1?version=3",
		"p:1?version=99999999999999999999",
	} {
		s.do("GET", "/v1/policies/"+path, "").is(t, path, 404, `"code":"policy_not_found"`)
	}
}

func TestNoAdminKeyRefusesAdmins(t *testing.T) {
	for _, keys := range [][]string{nil, {""}} {
		s := start(t, func(o *Options) { o.AdminKeys = keys })
		for _, sent := range []string{"X-Admin-Key: -", "X-Admin-Key: ", "X-Admin-Key: x"} {
			s.do("POST", "/v1/keys", `{"name":"n"}`, sent).is(t, fmt.Sprintf("%q with %q", sent, keys), 401, `"code":"`+codeUnauthorized+`"`)
		}
	}
}

func TestAPanicIsA500(t *testing.T) {
	s := start(t, nil)
	s.fake.panics = true
	a := s.do("POST", "/v1/checks", plainCheck)
	if a.status != 500 || a.code(t) != codeInternal || strings.Contains(a.body, "bug") {
		t.Errorf("%d %s", a.status, a.body)
	}
	if logged := s.logged.String(); !strings.Contains(logged, "a bug") || !strings.Contains(logged, a.header.Get("X-Request-ID")) {
		t.Errorf("log %s", logged)
	}
	s.fake.panics = false
	s.do("POST", "/v1/checks", plainCheck).is(t, "after it", 200)
	if n := s.api.inFlight.Load(); n != 0 {
		t.Errorf("%d requests stay in flight", n)
	}
}

func TestOneLogLinePerFailedRequest(t *testing.T) {
	s := start(t, nil)
	s.do("POST", "/v1/checks", plainCheck)
	if got := s.logged.String(); got != "" {
		t.Errorf("a good request is logged: %s", got)
	}
	s.fake.workErr = errors.New("line one\nlevel=ERROR line two")
	a := s.do("POST", "/v1/checks", `{"agent_id":"sesame",`+plainCheck[1:], "X-API-Key: "+goodKey)
	b := s.do("GET", "/v1/%0A%1b[31m/x?key="+goodKey, "")
	s.do("POST", "/v1/checks", plainCheck)
	logged := s.logged.String()
	if n := strings.Count(logged, "\n"); n != 3 {
		t.Errorf("%d lines: %s", n, logged)
	}
	for _, want := range []string{
		"level=INFO", "level=ERROR", "request_id=" + a.header.Get("X-Request-ID"),
		"request_id=" + b.header.Get("X-Request-ID"), "status=404", "code=bad_request", "method=POST", "path=/v1/checks", "duration_ms=",
		"client=127.0.0.1", "route=/v1/checks",
	} {
		if !strings.Contains(logged, want) {
			t.Errorf("no %q in %s", want, logged)
		}
	}
	for _, secret := range []string{goodKey, "sesame", "\x1b"} {
		if strings.Contains(logged, secret) {
			t.Errorf("%q is in the log: %s", secret, logged)
		}
	}
}
