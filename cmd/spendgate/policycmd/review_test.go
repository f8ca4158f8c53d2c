package policycmd

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
	n.Run(t, strings.Replace(same3, "0.10", "0.20", 1), "policies", "apply", "-f", "-").Check(t, 1, "", want)
	n = newFakeNode(t, strings.Replace(stored3, "0.10", "0.30", 1), stored3, needsApproval)
	if r := n.Run(t, "", "policies", "rollback", "desk", "--to", "2"); r.Code != 1 || !strings.Contains(r.Stderr, want) {
		t.Errorf("%+v", r)
	}
	n = newFakeNode(t, stored3)
	r := n.Run(t, same3+"changes: {required: 1}\n", "policies", "diff", "-f", "-")
	if r.Code != 1 || !strings.Contains(r.Stdout, "+  \"changes\": {\n+    \"required\": 1\n+  },") {
		t.Errorf("%+v", r)
	}
}

func TestPoliciesDraftApprove(t *testing.T) {
	n := newFakeNode(t, draftOf3, stored3)
	r := n.Run(t, "", "policies", "draft", "show", "desk")
	for _, want := range []string{
		"in force:        version 3, which asks 2\n", "of risk:         1, of which 1 missing\n",
		"approved by:     bob at 2026-01-02T03:04:05.000Z beside version 3 fine\n",
		"does not count:  eve (risk) at 2026-01-02T03:04:05.000Z beside version 2, may drop day\n", "spendgate policies draft approve desk\n",
		"--- desk version 3\n+++ draft\n", "-        \"limit\": 0.10\n+        \"limit\": 0.20\n",
	} {
		if !strings.Contains(r.Stdout, want) {
			t.Errorf("%q lacks %q", r.Stdout, want)
		}
	}
	if strings.Contains(r.Stdout, "approvals") || strings.Contains(r.Stdout, "base_version") {
		t.Errorf("members of the draft differ: %s", r.Stdout)
	}
	done := strings.Replace(draftOf3, `"missing":1`, `"missing":0`, 1)
	n = newFakeNode(t, draftOf3, stored3, done)
	if r := n.Run(t, "yes\n", "policies", "draft", "approve", "desk", "--note", "seen"); r.Code != 0 ||
		!strings.Contains(r.Stderr, "exactly this draft?") ||
		r.Stdout != "desk draft abcdef012345 approved; spendgate policies draft promote desk --if-match 3 --draft-hash abcdef0123456789\n" {
		t.Errorf("%+v", r)
	}
	n.Check(t, "GET /v1/policies/desk/draft svc ", "GET /v1/policies/desk svc ",
		`POST /v1/policies/desk/draft/approve svc {"draft_hash":"abcdef0123456789","note":"seen"}`)
	n = newFakeNode(t, draftOf3, stored3)
	n.Run(t, "no\n", "policies", "draft", "approve", "desk").Check(t, 1, "", "nothing was decided")
	n = newFakeNode(t, done)
	n.Run(t, "", "policies", "draft", "approve", "desk", "--draft-hash", "ff", "--drop-budget", "day").
		Check(t, 0, "desk draft abcdef012345 approved; spendgate policies draft promote desk --if-match 3 --draft-hash abcdef0123456789\n", "")
	n.Check(t, `POST /v1/policies/desk/draft/approve svc {"draft_hash":"ff","drop_budgets":["day"]}`)
}

// A draft is rejected as it was shown, and what waits for a key has drafts, too (S93).
func TestPoliciesDraftReject(t *testing.T) {
	rejected := strings.Replace(draftOf3, `"missing":1`, `"missing":2,"status":"rejected","rejection":{"principal":"dan","key_id":"key_1",`+
		`"note":"no","at":"2026-01-02T03:04:05.000Z","policy_version":3}`, 1)
	n := newFakeNode(t, draftOf3, stored3, rejected, rejected, stored3)
	if r := n.Run(t, "yes\n", "policies", "draft", "reject", "desk", "--note", "no"); r.Code != 0 || !strings.Contains(r.Stderr,
		"reject exactly this draft?") || r.Stdout != "desk draft abcdef012345 rejected\n" {
		t.Errorf("%+v", r)
	}
	if r := n.Run(t, "", "policies", "draft", "show", "desk"); !strings.Contains(r.Stdout,
		"rejected by:     dan at 2026-01-02T03:04:05.000Z no\n") || !strings.Contains(r.Stdout, "put it again") {
		t.Errorf("%+v", r)
	}
	n.Check(t, "GET /v1/policies/desk/draft svc ", "GET /v1/policies/desk svc ",
		`POST /v1/policies/desk/draft/reject svc {"draft_hash":"abcdef0123456789","note":"no"}`, "GET /v1/policies/desk/draft svc ",
		"GET /v1/policies/desk svc ")
	n = newFakeNode(t, draftOf3, "204 ")
	n.Run(t, same3, "policies", "draft", "put", "-f", "-", "--replaces", "ab").Check(t, 0, "desk draft", "")
	n.Run(t, "", "policies", "draft", "delete", "desk", "--draft-hash", "ab").Check(t, 0, "", "")
	if !strings.HasSuffix(n.Requests[0], " if ab") || !strings.HasSuffix(n.Requests[1], " if ab") {
		t.Errorf("sent %q", n.Requests)
	}
}

// The other commands of drafts: what they send, print and refuse (S54).
func TestPoliciesDraft(t *testing.T) {
	n := newFakeNode(t, draftOf3)
	n.Run(t, same3, "policies", "draft", "put", "-f", "-", "--note", "why").Check(t, 0, "desk draft abcdef012345 beside version 3\n", "")
	if len(n.Requests) != 1 || !strings.HasPrefix(n.Requests[0], "PUT /v1/policies/desk/draft svc {") ||
		!strings.Contains(n.Requests[0], `"note":"why"`) || strings.Contains(n.Requests[0], "policy_id") {
		t.Errorf("put sent %s", n.Requests)
	}
	n = newFakeNode(t, draftOf3)
	n.Run(t, "", "policies", "draft", "get", "desk").Check(t, 0, `"draft_hash": "abcdef0123456789"`, "")
	n.Check(t, "GET /v1/policies/desk/draft svc ")

	const report = `200 {"policy_id":"desk","draft_hash":"ab","since":"2026-01-02T03:04:05.000Z","status":"succeeded",` +
		`"report":{"coverage":{"checks":7,"compared":6},"flips":{"total":1,"stricter":1},"matrix":{},"rules":[],"budgets":[]},` +
		`"flips":[{"check_id":"chk_1","timestamp":"2026-01-02T03:04:05.000Z","recorded":{"decision":"allow"},` +
		`"candidate":{"decision":"block","rule_id":"a"},"action":null}]}`
	const queued = `202 {"policy_id":"desk","since":"2026-01-02T03:04:05.000Z","backtest_id":"bt_1","status":"queued",` +
		`"report":null,"flips":[]}`
	n = newFakeNode(t, queued, report, report, strings.Replace(queued, "queued", "failed", 1))
	r := n.Run(t, "", "policies", "draft", "report", "desk")
	for _, want := range []string{
		"7 checks of desk since 2026-01-02T03:04:05.000Z, 6 compared\n", "chk_1", "block",
	} {
		if r.Code != 0 || !strings.Contains(r.Stdout, want) {
			t.Errorf("%q is not in %+v", want, r)
		}
	}
	n.Run(t, "", "policies", "draft", "report", "desk", "--json").Check(t, 0, `"status": "succeeded"`, "")
	n.Run(t, "", "policies", "draft", "report", "desk").Check(t, 1, "", "the backtest of the draft failed: bt_1")
	const read = "GET /v1/policies/desk/draft/report svc "
	n.Check(t, read, read, read, read)

	n = newFakeNode(t, strings.Replace(stored3, "200 ", "201 ", 1), "204 ",
		`409 {"error":{"code":"policy_version_mismatch","message":"it is 4","request_id":"req_1"}}`)
	n.Run(t, "", "policies", "draft", "promote", "desk", "--if-match", "2", "--note", "go", "--drop-budget", "day").
		Check(t, 0, "desk version 3\n", "")
	n.Run(t, "", "policies", "draft", "delete", "desk").Check(t, 0, "", "")
	n.Run(t, "", "policies", "draft", "promote", "desk", "--if-match", "3").Check(t, 1, "", "policy_version_mismatch: it is 4")
	n.Check(t, `POST /v1/policies/desk/draft/promote svc {"note":"go","drop_budgets":["day"]} if 2`, "DELETE /v1/policies/desk/draft svc ",
		"POST /v1/policies/desk/draft/promote svc {} if 3")
	n = newFakeNode(t)
	n.Run(t, "", "policies", "draft", "promote", "desk").Check(t, 2, "", "needs --if-match N")
	// An empty hash would accept any draft.
	n.Run(t, "", "policies", "draft", "promote", "desk", "--if-match", "3", "--draft-hash", "").Check(t, 2, "", "must not be empty")
	n.Run(t, "", "policies", "draft", "approve", "desk", "--yes", "--draft-hash", "").Check(t, 2, "", "must not be empty")
	n.Run(t, "", "policies", "draft", "delete").Check(t, 2, "", "needs one POLICY_ID")
	n.Run(t, "", "policies", "draft", "put").Check(t, 2, "", "needs -f FILE")
}
