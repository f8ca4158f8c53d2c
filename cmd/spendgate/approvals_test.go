package main

import (
	"context"
	"io"
	"regexp"
	"strings"
	"testing"
	"time"
)

// approvalIs is an approval as the service writes it.
func approvalIs(status string) string {
	return `{"approval_id":"apr_1","status":"` + status +
		`","check_id":"chk_1","principal":"till","action":{"agent_id":"bot\u001b[2J","policy_id":"p","action_type":"refund",` +
		`"amount":300.10,"currency":"USD","counterparty":"c","payment_method":null,"merchant_or_vendor":null,"reason_text":"broken",` +
		`"idempotency_key":"k","metadata":{"n":1.50}},` +
		`"action_hash":"ab","rule_ids":["review","day"],"policy_id":"p","policy_version":3,"required":2,"decisions":[{"principal":"ann",` +
		`"key_id":"key_1",` +
		`"decision":"approve","note":"seen","at":"2026-01-02T03:04:06.600Z"}],"created_at":"2026-01-02T03:04:05.600Z",` +
		`"expires_at":"2026-01-03T03:04:05.600Z",` +
		`"use_by":null,"used_by_check_id":null,"remaining":[{"rule_id":"day","remaining":99.5,"remaining_count":7}],"next_step":"Pending is ` +
		`not approved."}`
}

const approvalShown = `approval:            apr_1
status:              pending
check:               chk_1
principal:           till
agent:               "bot\x1b[2J"
action:              refund
amount:              300.10 USD
counterparty:        c
payment method:      -
merchant or vendor:  -
reason:              broken
metadata:            {"n":1.50}
policy:              p, version 3
rules:               review, day
left of day:         99.5, 7 actions
approved by:         1 of 2
approve:             ann at 2026-01-02T03:04:06.600Z seen
expires:             2026-01-03T03:04:05.600Z
action hash:         ab
`

func TestApprovalsList(t *testing.T) {
	page := func(id, more string) string {
		return `200 {"data":[` + strings.Replace(approvalIs("pending"), "apr_1", id, 1) + `],"pagination":` + more + `}`
	}
	listed := newFakeNode(t, page("apr_1", `{"next_cursor":null,"has_more":false}`)).run(t, "", "approvals", "list", "--output", "json")
	if bare := strings.Join(strings.Fields(listed.stdout), ""); bare != "["+strings.ReplaceAll(approvalIs("pending"), " ", "")+"]" {
		t.Errorf("an element is not what the API listed: %s", bare)
	}
	n := newFakeNode(t, page("apr_2", `{"next_cursor":"c&2","has_more":true}`), page("apr_1", `{"next_cursor":null,"has_more":false}`),
		`200 {"data":[],"pagination":{"next_cursor":null,"has_more":false}}`)
	got := n.run(t, "", "approvals", "list", "--policy-id", "p")
	got.check(t, 0, `APPROVAL ID  STATUS   AGENT         ACTION  AMOUNT      COUNTERPARTY  APPROVED  EXPIRES
apr_2        pending  "bot\x1b[2J"  refund  300.10 USD  c             1 of 2    2026-01-03T03:04:05.600Z
apr_1        pending  "bot\x1b[2J"  refund  300.10 USD  c             1 of 2    2026-01-03T03:04:05.600Z
`, "")
	n.run(t, "", "approvals", "list", "--status", "all", "--agent-id", "a", "--json").check(t, 0, "[]\n", "")
	n.check(t, "GET /v1/approvals?limit=100&policy_id=p&status=pending svc ",
		"GET /v1/approvals?cursor=c%262&limit=100&policy_id=p&status=pending svc ",
		"GET /v1/approvals?agent_id=a&limit=100 svc ")
}

func TestApprovalsShow(t *testing.T) {
	n := newFakeNode(t, "200 "+approvalIs("pending"), "200 "+approvalIs("pending"))
	if got := n.run(t, "", "approvals", "show", "apr_1"); got.stdout != approvalShown || got.code != 0 {
		t.Errorf("%+v", got)
	}
	n.run(t, "", "approvals", "show", "apr_1", "--json").check(t, 0, `"amount": 300.10,`, "")
	n.check(t, "GET /v1/approvals/apr_1 svc ", "GET /v1/approvals/apr_1 svc ")
}

// The approval of somebody whose group has enough people is recorded and does not count.
func TestApprovalsShowOfGroups(t *testing.T) {
	asked := strings.Replace(approvalIs("pending"), `"required":2`,
		`"required":2,"missing":2,"from":[{"group":"ops","required":2,"missing":2}]`, 1)
	n := newFakeNode(t, "200 "+asked)
	n.run(t, "", "approvals", "show", "apr_1").check(t, 0, "approved by:         0 of 2\nof ops:              2, of which 2 missing\n", "")
}

// Only the action that was shown is approved, and only after a yes.
func TestApprovalsApprove(t *testing.T) {
	const read, sent = "GET /v1/approvals/apr_1 svc ", `POST /v1/approvals/apr_1/approve svc {"action_hash":"ab","note":"fine"}`
	n := newFakeNode(t, "200 "+approvalIs("pending"), "200 "+approvalIs("approved"))
	got := n.run(t, "yes\n", "approvals", "approve", "apr_1", "--note", "fine")
	if got.code != 0 || !strings.HasPrefix(got.stderr, approvalShown) || !strings.Contains(got.stdout, "status:              approved\n") {
		t.Errorf("%+v", got)
	}
	n.check(t, read, sent)

	n = newFakeNode(t, "200 "+approvalIs("pending"), "200 "+approvalIs("approved"))
	n.run(t, "", "approvals", "approve", "--yes", "apr_1", "--note", "fine").check(t, 0, "approved\n", "")
	n.check(t, read, sent)

	n = newFakeNode(t, "200 "+approvalIs("pending"), "200 "+approvalIs("approved"))
	if got := n.run(t, "", "approvals", "approve", "apr_1", "--note", "fine"); got.code != 0 { // a script without input
		t.Errorf("%+v", got)
	}
	n.check(t, read, sent)

	for _, answer := range []string{"y\n", "no\n", "apr_2\n"} {
		n = newFakeNode(t, "200 "+approvalIs("pending"))
		n.run(t, answer, "approvals", "approve", "apr_1").check(t, 1, "", "nothing was decided")
		n.check(t, read)
	}
	n = newFakeNode(t, "200 "+approvalIs("pending"), `409 {"error":{"code":"approval_own_request","message":"m","request_id":"req_1"}}`)
	n.run(t, "", "approvals", "approve", "--yes", "apr_1").check(t, 1, "", "approval_own_request: m (409, req_1)")
}

// An interrupt ends a question at once, without a decision.
func TestApprovalsInterrupted(t *testing.T) {
	waiting := `200 {"data":[{"kind":"approval",` + approvalIs("pending")[1:] + `],"pagination":{"has_more":false}}`
	for question, answers := range map[string][]string{
		"Type yes: ":           {"200 " + approvalIs("pending"), "approvals", "approve", "apr_1"},
		"Which one? Type 1 to": {waiting, "approvals", "deny"},
	} {
		n, log := newFakeNode(t, answers[0]), new(lockedLog)
		stdin, silent := io.Pipe()
		ctx, interrupt := context.WithCancel(t.Context())
		ended := make(chan int, 1)
		go func() {
			ended <- run(ctx, process{stdin, log, log, []string{"SPENDGATE_API_URL=" + n.URL, "SPENDGATE_API_KEY=svc"}, true}, answers[1:])
		}()
		for until := time.Now().Add(time.Minute); log.find(regexp.QuoteMeta(question)) == nil; time.Sleep(10 * time.Millisecond) {
			if time.Now().After(until) {
				t.Fatal("it does not ask")
			}
		}
		interrupt()
		select {
		case code := <-ended:
			if code != 1 || log.find("nothing was decided: interrupted") == nil || len(n.requests) != 1 {
				t.Errorf("%s: exit %d, %q, %s", question, code, n.requests, log.String())
			}
		case <-time.After(time.Minute):
			t.Errorf("%s: it asks on", question)
		}
		silent.Close() //nolint:errcheck // ends who still reads
	}
}

func TestApprovalsDeny(t *testing.T) {
	n := newFakeNode(t, "200 "+approvalIs("pending"))
	n.run(t, "no\n", "approvals", "deny", "apr_1").check(t, 1, "", "nothing was decided") // it asks as approve does
	n = newFakeNode(t, "200 "+approvalIs("pending"), "200 "+approvalIs("denied"))
	n.run(t, "", "approvals", "deny", "--yes", "apr_1").check(t, 0, "status:              denied\n", "")
	n.check(t, "GET /v1/approvals/apr_1 svc ", `POST /v1/approvals/apr_1/deny svc {"action_hash":"ab"}`)
}
