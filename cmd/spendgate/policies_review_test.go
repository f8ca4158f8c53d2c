package main

import (
	"strings"
	"testing"
)

const (
	needsApproval = `409 {"error":{"code":"change_needs_approval","message":"asks","request_id":"req_1"}}`
	draftOf3      = `200 {"policy_id":"desk","draft_hash":"abcdef0123456789","base_version":3,"name":"Desk","rules":[{"rule_id":"a",` +
		`"parameters":{"limit":0.20}}],` +
		`"metadata":null,"created_at":"2026-01-02T03:04:05.000Z","author":{"principal":"ann","key_id":"key_1"},"note":null,"policy_version":3,` +
		`"required":2,"missing":1,` +
		`"from":[{"group":"risk","required":1,"missing":1}],"approvals":[{"principal":"bob","key_id":"key_2","note":"fine",` +
		`"at":"2026-01-02T03:04:05.000Z","policy_version":3,"counts":true},` +
		`{"principal":"eve","key_id":"key_3","note":null,"at":"2026-01-02T03:04:05.000Z","policy_version":2,"counts":false,"groups":["risk"],` +
		`"drop_budgets":["day"]}]}`
)

// If a policy's changes need approvals, the refusal of a change says how to make it instead (S80).
func TestPoliciesApplyByDraft(t *testing.T) {
	const want = "change_needs_approval: asks (409, req_1); instead: spendgate policies draft put -f FILE, " +
		"then somebody else: spendgate policies draft approve desk, " +
		"then: spendgate policies draft promote desk --if-match 3"
	n := newFakeNode(t, stored3, needsApproval)
	n.run(t, strings.Replace(same3, "0.10", "0.20", 1), "policies", "apply", "-f", "-").check(t, 1, "", want)
	n = newFakeNode(t, strings.Replace(stored3, "0.10", "0.30", 1), stored3, needsApproval)
	if r := n.run(t, "", "policies", "rollback", "desk", "--to", "2"); r.code != 1 || !strings.Contains(r.stderr, want) {
		t.Errorf("%+v", r)
	}
	n = newFakeNode(t, stored3)
	r := n.run(t, same3+"changes: {required: 1}\n", "policies", "diff", "-f", "-")
	if r.code != 1 || !strings.Contains(r.stdout, "+  \"changes\": {\n+    \"required\": 1\n+  },") {
		t.Errorf("%+v", r)
	}
}

func TestPoliciesDraftApprove(t *testing.T) {
	n := newFakeNode(t, draftOf3, stored3)
	r := n.run(t, "", "policies", "draft", "show", "desk")
	for _, want := range []string{
		"in force:        version 3, which asks 2\n", "of risk:         1, of which 1 missing\n",
		"approved by:     bob at 2026-01-02T03:04:05.000Z beside version 3 fine\n",
		"does not count:  eve (risk) at 2026-01-02T03:04:05.000Z beside version 2, may drop day\n", "spendgate policies draft approve desk\n",
		"--- desk version 3\n+++ draft\n", "-        \"limit\": 0.10\n+        \"limit\": 0.20\n",
	} {
		if !strings.Contains(r.stdout, want) {
			t.Errorf("%q lacks %q", r.stdout, want)
		}
	}
	if strings.Contains(r.stdout, "approvals") || strings.Contains(r.stdout, "base_version") {
		t.Errorf("members of the draft differ: %s", r.stdout)
	}
	done := strings.Replace(draftOf3, `"missing":1`, `"missing":0`, 1)
	n = newFakeNode(t, draftOf3, stored3, done)
	if r := n.run(t, "yes\n", "policies", "draft", "approve", "desk", "--note", "seen"); r.code != 0 ||
		!strings.Contains(r.stderr, "exactly this draft?") ||
		r.stdout != "desk draft abcdef012345 approved; spendgate policies draft promote desk --if-match 3 --draft-hash abcdef0123456789\n" {
		t.Errorf("%+v", r)
	}
	n.check(t, "GET /v1/policies/desk/draft svc ", "GET /v1/policies/desk svc ",
		`POST /v1/policies/desk/draft/approve svc {"draft_hash":"abcdef0123456789","note":"seen"}`)
	n = newFakeNode(t, draftOf3, stored3)
	n.run(t, "no\n", "policies", "draft", "approve", "desk").check(t, 1, "", "nothing was decided")
	n = newFakeNode(t, done)
	n.run(t, "", "policies", "draft", "approve", "desk", "--draft-hash", "ff", "--drop-budget", "day").
		check(t, 0, "desk draft abcdef012345 approved; spendgate policies draft promote desk --if-match 3 --draft-hash abcdef0123456789\n", "")
	n.check(t, `POST /v1/policies/desk/draft/approve svc {"draft_hash":"ff","drop_budgets":["day"]}`)
}

// A draft is rejected as it was shown, and what waits for a key has drafts, too (S93).
func TestPoliciesDraftReject(t *testing.T) {
	rejected := strings.Replace(draftOf3, `"missing":1`, `"missing":2,"status":"rejected","rejection":{"principal":"dan","key_id":"key_1",`+
		`"note":"no","at":"2026-01-02T03:04:05.000Z","policy_version":3}`, 1)
	n := newFakeNode(t, draftOf3, stored3, rejected, rejected, stored3)
	if r := n.run(t, "yes\n", "policies", "draft", "reject", "desk", "--note", "no"); r.code != 0 || !strings.Contains(r.stderr,
		"reject exactly this draft?") || r.stdout != "desk draft abcdef012345 rejected\n" {
		t.Errorf("%+v", r)
	}
	if r := n.run(t, "", "policies", "draft", "show", "desk"); !strings.Contains(r.stdout,
		"rejected by:     dan at 2026-01-02T03:04:05.000Z no\n") || !strings.Contains(r.stdout, "put it again") {
		t.Errorf("%+v", r)
	}
	n.check(t, "GET /v1/policies/desk/draft svc ", "GET /v1/policies/desk svc ",
		`POST /v1/policies/desk/draft/reject svc {"draft_hash":"abcdef0123456789","note":"no"}`, "GET /v1/policies/desk/draft svc ",
		"GET /v1/policies/desk svc ")
	n = newFakeNode(t, `200 {"data":[{"kind":"draft","policy_id":"desk","draft_hash":"ab","author":{"principal":"ann","key_id":"key_1"},`+
		`"note":"tighter","made_at":"2026-01-02T03:04:05.000Z","missing":2}],"pagination":{"next_cursor":null,"has_more":false}}`)
	if r := n.run(t, "", "approvals", "list", "--mine"); r.code != 0 || !strings.Contains(r.stdout, "desk         draft") ||
		!strings.Contains(r.stdout, "2 missing") {
		t.Errorf("%+v", r)
	}
	n.run(t, "", "approvals", "list", "--mine", "--status", "used").check(t, 2, "", "--mine lists what is pending")
	n = newFakeNode(t, draftOf3, "204 ")
	n.run(t, same3, "policies", "draft", "put", "-f", "-", "--replaces", "ab").check(t, 0, "desk draft", "")
	n.run(t, "", "policies", "draft", "delete", "desk", "--draft-hash", "ab").check(t, 0, "", "")
	if !strings.HasSuffix(n.requests[0], " if ab") || !strings.HasSuffix(n.requests[1], " if ab") {
		t.Errorf("sent %q", n.requests)
	}
}

// The other commands of drafts: what they send, print and refuse (S54).
func TestPoliciesDraft(t *testing.T) {
	n := newFakeNode(t, draftOf3)
	n.run(t, same3, "policies", "draft", "put", "-f", "-", "--note", "why").check(t, 0, "desk draft abcdef012345 beside version 3\n", "")
	if len(n.requests) != 1 || !strings.HasPrefix(n.requests[0], "PUT /v1/policies/desk/draft svc {") ||
		!strings.Contains(n.requests[0], `"note":"why"`) || strings.Contains(n.requests[0], "policy_id") {
		t.Errorf("put sent %s", n.requests)
	}
	n = newFakeNode(t, draftOf3)
	n.run(t, "", "policies", "draft", "get", "desk").check(t, 0, `"draft_hash": "abcdef0123456789"`, "")
	n.check(t, "GET /v1/policies/desk/draft svc ")

	const report = `200 {"policy_id":"desk","draft_hash":"ab","since":"2026-01-02T03:04:05.000Z","status":"succeeded",` +
		`"report":{"coverage":{"checks":7,"compared":6},"flips":{"total":1,"stricter":1},"matrix":{},"rules":[],"budgets":[]},` +
		`"flips":[{"check_id":"chk_1","timestamp":"2026-01-02T03:04:05.000Z","recorded":{"decision":"allow"},` +
		`"candidate":{"decision":"block","rule_id":"a"},"action":null}]}`
	const queued = `202 {"policy_id":"desk","since":"2026-01-02T03:04:05.000Z","backtest_id":"bt_1","status":"queued",` +
		`"report":null,"flips":[]}`
	n = newFakeNode(t, queued, report, report, strings.Replace(queued, "queued", "failed", 1))
	r := n.run(t, "", "policies", "draft", "report", "desk")
	for _, want := range []string{
		"7 checks of desk since 2026-01-02T03:04:05.000Z, 6 compared\n", "chk_1", "block",
	} {
		if r.code != 0 || !strings.Contains(r.stdout, want) {
			t.Errorf("%q is not in %+v", want, r)
		}
	}
	n.run(t, "", "policies", "draft", "report", "desk", "--json").check(t, 0, `"status": "succeeded"`, "")
	n.run(t, "", "policies", "draft", "report", "desk").check(t, 1, "", "the backtest of the draft failed: bt_1")
	const read = "GET /v1/policies/desk/draft/report svc "
	n.check(t, read, read, read, read)

	n = newFakeNode(t, strings.Replace(stored3, "200 ", "201 ", 1), "204 ",
		`409 {"error":{"code":"policy_version_mismatch","message":"it is 4","request_id":"req_1"}}`)
	n.run(t, "", "policies", "draft", "promote", "desk", "--if-match", "2", "--note", "go", "--drop-budget", "day").
		check(t, 0, "desk version 3\n", "")
	n.run(t, "", "policies", "draft", "delete", "desk").check(t, 0, "", "")
	n.run(t, "", "policies", "draft", "promote", "desk", "--if-match", "3").check(t, 1, "", "policy_version_mismatch: it is 4")
	n.check(t, `POST /v1/policies/desk/draft/promote svc {"note":"go","drop_budgets":["day"]} if 2`, "DELETE /v1/policies/desk/draft svc ",
		"POST /v1/policies/desk/draft/promote svc {} if 3")
	n = newFakeNode(t)
	n.run(t, "", "policies", "draft", "promote", "desk").check(t, 2, "", "needs --if-match N")
	// An empty hash would accept any draft.
	n.run(t, "", "policies", "draft", "promote", "desk", "--if-match", "3", "--draft-hash", "").check(t, 2, "", "must not be empty")
	n.run(t, "", "policies", "draft", "approve", "desk", "--yes", "--draft-hash", "").check(t, 2, "", "must not be empty")
	n.run(t, "", "policies", "draft", "delete").check(t, 2, "", "needs one POLICY_ID")
	n.run(t, "", "policies", "draft", "put").check(t, 2, "", "needs -f FILE")
}
