package httpapi

import (
	"strings"
	"testing"

	"spendgate/audit"
	"spendgate/hotpath"
)

// TestPoliciesChangeByTwo: a policy with changes gets its next version by a draft that
// somebody else approved; every answer fits the document (S80).
func TestPoliciesChangeByTwo(t *testing.T) {
	d := describe(t)
	d.address = serveOn(t, New(realOptions(t)))
	admin := "X-Admin-Key: " + adminKey
	key := keysAt(t, d.address)
	ann, bob, cleo := key(`,"role":"author","principal":"ann"`), key(`,"role":"approver","principal":"bob"`),
		key(`,"role":"approver","principal":"cleo","groups":["Risk"]`)
	ann2 := key(`,"role":"approver","principal":"ANN"`)
	both := key(`,"scopes":["policies:write","policies:read","approvals:decide"],"principal":"fay","owner":"fay gmbh"`)
	const (
		path  = "/v1/policies/g/draft"
		draft = `{"name":"n","rules":[{"rule_id":"cap","rule_type":"max_amount","parameters":{"limit":5}}]`
	)
	refused := func(method, path, body string, status int, code string, headers ...string) string {
		t.Helper()
		got := d.send(method, path, body, status, status != 422 && !strings.HasSuffix(path, "/promote"), headers...)
		if field(t, got, "error", "code") != code {
			t.Errorf("%s %s: %s, want %s", method, path, got, code)
		}
		return field(t, got, "error", "message")
	}
	post := func(members string) string { return `{"policy_id":"g",` + draft[1:] + members + `}` }
	for _, bad := range []string{`"x"`, `{"required":0}`, `{"required":6}`, `{"from":[]}`, `{"from":[{"required":1}]}`, `{"any":1}`} {
		if message := refused("POST", "/v1/policies", post(`,"changes":`+bad), 422, "validation_error", ann); !strings.Contains(message,
			"changes") {
			t.Errorf("changes %s: %s", bad, message)
		}
	}
	if plain := d.send("POST", "/v1/policies", post(`,"changes":null`), 201, true, ann); strings.Contains(plain, "changes") {
		t.Error(plain)
	}
	d.send("PUT", path, draft+`}`, 200, true, ann)
	refused("POST", path+"/approve", `{"draft_hash":"00"}`, 409, "draft_hash_mismatch", bob)
	if got := d.send("GET", path, "", 200, true, ann); strings.Contains(got, "approvals") {
		t.Errorf("nobody is asked, and yet: %s", got)
	}
	hash := func() string { return field(t, d.send("GET", path, "", 200, true, ann), "draft_hash") }
	approve := func() string { return `{"draft_hash":"` + hash() + `","note":"seen"}` }
	refused("POST", path+"/approve", approve(), 409, "change_needs_no_approval", bob)
	d.send("DELETE", path, "", 204, true, ann)
	const changes = `"changes":{"required":1,"from":[{"group":"risk","required":1}]}`
	if made := d.send("POST", "/v1/policies", post(`,`+changes), 201, true, ann); !strings.Contains(made, changes) {
		t.Error(made)
	}

	// From here on nobody goes around the draft.
	if message := refused("POST", "/v1/policies", post(""), 409, "change_needs_approval", ann); !strings.Contains(message, "no draft") ||
		!strings.Contains(message, path) {
		t.Error(message)
	}
	refused("POST", path+"/approve", `{"draft_hash":"00"}`, 404, "draft_not_found", bob)
	d.send("PUT", path, draft+`}`, 200, true, ann)
	first := approve()
	refused("POST", path+"/approve", first, 403, "not_an_approver", bob)
	refused("POST", path+"/approve", first, 403, "not_an_approver", ann2)
	refused("POST", path+"/approve", first, 403, "forbidden", ann)
	refused("POST", path+"/approve", first, 401, "unauthorized", admin, "X-API-Key: -")
	refused("POST", path+"/approve", `{}`, 422, "validation_error", bob)
	for _, bypass := range [][2]string{{"/v1/policies", post("")}, {path + "/promote", ""}} {
		message := refused("POST", bypass[0], bypass[1], 409, "change_needs_approval", ann, "If-Match: 2")
		if !strings.Contains(message, hash()) || !strings.Contains(message, "POST "+path+"/approve") ||
			!strings.Contains(message, `lacks 1 of 1 people (1 of "risk")`) {
			t.Error(message)
		}
	}
	if seen := d.send("GET", path, "", 200, true, bob); !strings.HasSuffix(seen,
		`,"status":"waiting","policy_version":2,"required":1,"missing":1,"from":[{"group":"risk","required":1,"missing":1}],"approvals":[]}`) {
		t.Error(seen)
	}
	d.send("POST", path+"/approve", strings.TrimSuffix(first, "}")+`,"drop_budgets":["cap"]}`, 422, true, cleo) // which is no budget
	approved := d.send("POST", path+"/approve", first, 200, true, cleo)
	for _, want := range []string{
		`"missing":0`, `"principal":"cleo"`, `"note":"seen"`, `"policy_version":2,"counts":true,"groups":["Risk"]}]`,
	} {
		if !strings.Contains(approved, want) {
			t.Errorf("approved: %s lacks %s", approved, want)
		}
	}
	if again := doAt(t, d.address, "POST", path+"/approve", first, cleo); again.header.Get("Idempotent-Replayed") != "true" ||
		again.body != approved {
		t.Errorf("again: %v %s", again.header, again.body)
	}
	refused("PUT", path, draft+`,"description":"another"}`, 428, "if_match_required", both)
	d.send("PUT", path, draft+`,"description":"another"}`, 200, true, both, "If-Match: "+hash())
	refused("POST", path+"/approve", first, 409, "draft_hash_mismatch", cleo)
	refused("POST", path+"/promote", "", 409, "change_needs_approval", both, "If-Match: 2")
	d.send("POST", path+"/approve", approve(), 200, true, cleo)
	if made := d.send("POST", path+"/promote", "", 201, false, both, "If-Match: 2"); !strings.Contains(made, `"version":3`) ||
		strings.Contains(made, "changes") {
		t.Error(made)
	}

	// The admin key can force a change that people must approve, and replaces no API key.
	refused("POST", "/v1/policies", post(""), 401, "unauthorized", admin, "X-API-Key: -")
	d.send("POST", "/v1/policies", post(`,`+changes), 201, true, ann)
	refused("POST", "/v1/policies", post(""), 409, "change_needs_approval", ann, "X-Admin-Key: wrong")
	refused("POST", "/v1/policies", post(""), 401, "unauthorized", "X-Admin-Key: wrong", "X-API-Key: -")
	if forced := d.send("POST", "/v1/policies", post(`,`+changes), 201, true, admin, "X-API-Key: -"); !strings.Contains(forced,
		`"version":5`) {
		t.Error(forced)
	}
	d.send("PUT", path, draft+`}`, 200, true, ann)
	d.send("POST", path+"/promote", "", 201, false, ann, admin, "If-Match: 5")
	versions := d.send("GET", "/v1/policies/g/versions?limit=4", "", 200, true, ann)
	if !strings.Contains(versions, `"approved_by":[],"forced":true`) || !strings.Contains(versions, `"approved_by":[{"principal":"cleo"`) ||
		strings.Count(versions, `"forced"`) != 2 {
		t.Error(versions)
	}
	events := d.send("GET", "/v1/events?limit=100", "", 200, true, key(`,"role":"auditor"`))
	if strings.Count(events, `"type":"policy.forced"`) != 2 || strings.Count(events, `"type":"policy.draft_approved"`) != 2 ||
		!strings.Contains(events, `"data":{"policy_id":"g","version":6,"by":{"kind":"admin","key_id":"key_`) {
		t.Error(events)
	}
}

// A draft that waits is among what waits for who brings it forward, until it is rejected, and again once it is put again; its
// events have links to the console (S93).
func TestDraftsWait(t *testing.T) {
	d := describe(t)
	o := realOptions(t)
	o.ConsoleURL = "https://spend.example/console"
	d.address = serveOn(t, New(o))
	key := keysAt(t, d.address)
	ann, amy := key(`,"role":"author","principal":"ann"`), key(`,"role":"author","principal":"amy"`)
	bob, cleo, dan := key(`,"role":"approver","principal":"bob"`), key(`,"role":"approver","principal":"cleo","groups":["risk"]`),
		key(`,"role":"approver","principal":"dan","groups":["risk"]`)
	blind := key(`,"scopes":["approvals:decide","approvals:read"],"groups":["risk"]`)
	const (
		rules = `"name":"n","rules":[{"rule_id":"cap","rule_type":"max_amount","parameters":{"limit":5}}]`
		asks  = `"changes":{"required":3,"from":[{"group":"risk","required":1}]}`
	)
	for _, id := range []string{"g", "h"} {
		d.send("POST", "/v1/policies", `{"policy_id":"`+id+`",`+rules+`,`+asks+`}`, 201, true, ann)
	}
	put := func(id, members string, status int, headers ...string) string {
		t.Helper()
		return d.send("PUT", "/v1/policies/"+id+"/draft", `{`+rules+members+`}`, status, true, headers...)
	}
	first := put("g", `,"note":"tighter"`, 200, ann)
	hash := field(t, first, "draft_hash")
	put("h", "", 200, ann)
	waiting := func(want int, query, of string) string {
		t.Helper()
		list := d.send("GET", "/v1/approvals?waiting_for=me"+query, "", 200, true, of)
		if got := strings.Count(list, `"kind":"draft"`); got != want {
			t.Errorf("%d drafts wait, want %d: %s", got, want, list)
		}
		return list
	}
	waiting(0, "", blind)
	waiting(0, "&agent_id=a", cleo)
	waiting(1, "&policy_id=h", cleo)
	list := waiting(1, "&limit=1", cleo)
	if !strings.Contains(list, `{"kind":"draft","policy_id":"g","draft_hash":"`+hash+`","author":{"principal":"ann"`) ||
		!strings.Contains(list, `"note":"tighter","made_at":`) || !strings.Contains(list, `"missing":3}`) {
		t.Error(list)
	}
	if second := waiting(1, "&limit=1&cursor="+field(t, list, "pagination", "next_cursor"), cleo); !strings.Contains(second,
		`"policy_id":"h"`) || !strings.Contains(second, `"has_more":false`) {
		t.Error(second)
	}

	// Whose group is complete still counts among the others; when these are complete, too, it does not.
	decide := func(verb, hash string, status int, of string) string {
		t.Helper()
		return d.send("POST", "/v1/policies/g/draft/"+verb, `{"draft_hash":"`+hash+`","note":"why"}`, status, true, of)
	}
	decide("approve", hash, 200, bob)
	decide("approve", hash, 200, key(`,"role":"approver","principal":"eve"`))
	waiting(2, "", cleo)
	waiting(1, "", key(`,"role":"approver","principal":"fay"`)) // g lacks one of risk alone
	rejected := decide("reject", hash, 200, dan)
	if !strings.Contains(rejected, `"status":"rejected","rejection":{"principal":"dan"`) || !strings.Contains(rejected, `"missing":3`) {
		t.Error(rejected)
	}
	if again := decide("reject", hash, 200, dan); again != rejected {
		t.Error(again)
	}
	decide("reject", hash, 409, cleo)
	decide("approve", hash, 409, cleo)
	decide("reject", hash, 403, ann)
	waiting(1, "", cleo)

	// Another author names the draft that is replaced.
	put("g", `,"note":"tighter"`, 428, amy)
	put("g", `,"note":"tighter"`, 409, amy, "If-Match: 00")
	put("nope", "", 404, amy, "If-Match: 00")
	d.send("DELETE", "/v1/policies/g/draft", "", 428, true, amy)
	d.send("DELETE", "/v1/policies/g/draft", "", 409, true, ann, "If-Match: 00")
	again := put("g", `,"note":"tighter"`, 200, ann) // which was rejected
	if field(t, again, "draft_hash") == hash {
		t.Error("a rejected draft that is put again is the same")
	}
	if same := put("g", `,"note":"tighter"`, 200, amy, `If-Match: "`+field(t, again, "draft_hash")+`"`); same != again {
		t.Errorf("the same content is another draft: %s", same)
	}
	waiting(2, "", cleo)
	d.send("DELETE", "/v1/policies/g/draft", "", 204, true, amy, "If-Match: "+field(t, again, "draft_hash"))
	put("g", "", 409, amy, "If-Match: "+hash)

	events := d.send("GET", "/v1/events?type=policy.draft_submitted,policy.draft_rejected", "", 200, true, key(`,"role":"auditor"`))
	if strings.Count(events, `"type":"policy.draft_submitted"`) != 3 || strings.Count(events, `"type":"policy.draft_rejected"`) != 1 ||
		strings.Count(events, `"console_url":"https://spend.example/console/#/policies/g/draft"`) != 3 ||
		!strings.Contains(events, `"data":{"policy_id":"g","draft_hash":"`+hash+`","policy_version":1,"note":"tighter","by":{"kind":"key"`) {
		t.Error(events)
	}
}

// Each refused decision about an approval or a draft has its answer.
func TestRefusedDecisions(t *testing.T) {
	s := start(t, nil)
	answers := func(draft bool, codes map[audit.ApprovalDecisionResult]string) {
		codes[audit.DecisionAgain] = "approval_already_decided"
		codes[audit.DecisionNoGroup], codes[audit.DecisionAuthor] = codeNotAnApprover, codeNotAnApprover
		for why, code := range codes {
			s.fake.workErr = hotpath.NotRecordedError{Draft: draft, Why: why}
			if a := s.do("POST", "/v1/checks", plainCheck); a.status/100 != 4 || a.code(t) != code {
				t.Errorf("%v of a draft: %t: %d %s", why, draft, a.status, a.body)
			}
		}
	}
	answers(false, map[audit.ApprovalDecisionResult]string{audit.DecisionOwn: "approval_own_request"})
	answers(true, map[audit.ApprovalDecisionResult]string{
		audit.DecisionOtherDraft: "draft_hash_mismatch", audit.DecisionNotAsked: "change_needs_no_approval",
		audit.DecisionRejected:  "draft_rejected",
		audit.DecisionOtherDrop: "approval_already_decided", audit.DecisionFull: "approvals_full",
	})
}
