package apicmd

import (
	"context"
	"io"
	"regexp"
	"strings"
	"testing"
	"time"

	"spendgate/cmd/spendgate/cli"
	"spendgate/cmd/spendgate/cli/clitest"
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
	listed := newFakeNode(t, page("apr_1", `{"next_cursor":null,"has_more":false}`)).Run(t, "", "approvals", "list", "--output", "json")
	if bare := strings.Join(strings.Fields(listed.Stdout), ""); bare != "["+strings.ReplaceAll(approvalIs("pending"), " ", "")+"]" {
		t.Errorf("an element is not what the API listed: %s", bare)
	}
	n := newFakeNode(t, page("apr_2", `{"next_cursor":"c&2","has_more":true}`), page("apr_1", `{"next_cursor":null,"has_more":false}`),
		`200 {"data":[],"pagination":{"next_cursor":null,"has_more":false}}`)
	got := n.Run(t, "", "approvals", "list", "--policy-id", "p")
	got.Check(t, 0, `APPROVAL ID  STATUS   AGENT         ACTION  AMOUNT      COUNTERPARTY  APPROVED  EXPIRES
apr_2        pending  "bot\x1b[2J"  refund  300.10 USD  c             1 of 2    2026-01-03T03:04:05.600Z
apr_1        pending  "bot\x1b[2J"  refund  300.10 USD  c             1 of 2    2026-01-03T03:04:05.600Z
`, "")
	n.Run(t, "", "approvals", "list", "--status", "all", "--agent-id", "a", "--json").Check(t, 0, "[]\n", "")
	n.Check(t, "GET /v1/approvals?limit=100&policy_id=p&status=pending svc ",
		"GET /v1/approvals?cursor=c%262&limit=100&policy_id=p&status=pending svc ",
		"GET /v1/approvals?agent_id=a&limit=100 svc ")
}

func TestApprovalsShow(t *testing.T) {
	n := newFakeNode(t, "200 "+approvalIs("pending"), "200 "+approvalIs("pending"))
	if got := n.Run(t, "", "approvals", "show", "apr_1"); got.Stdout != approvalShown || got.Code != 0 {
		t.Errorf("%+v", got)
	}
	n.Run(t, "", "approvals", "show", "apr_1", "--json").Check(t, 0, `"amount": 300.10,`, "")
	n.Check(t, "GET /v1/approvals/apr_1 svc ", "GET /v1/approvals/apr_1 svc ")
}

// The approval of somebody whose group has enough people is recorded and does not count.
func TestApprovalsShowOfGroups(t *testing.T) {
	asked := strings.Replace(approvalIs("pending"), `"required":2`,
		`"required":2,"missing":2,"from":[{"group":"ops","required":2,"missing":2}]`, 1)
	n := newFakeNode(t, "200 "+asked)
	n.Run(t, "", "approvals", "show", "apr_1").Check(t, 0, "approved by:         0 of 2\nof ops:              2, of which 2 missing\n", "")
}

// Only the action that was shown is approved, and only after a yes.
func TestApprovalsApprove(t *testing.T) {
	const read, sent = "GET /v1/approvals/apr_1 svc ", `POST /v1/approvals/apr_1/approve svc {"action_hash":"ab","note":"fine"}`
	n := newFakeNode(t, "200 "+approvalIs("pending"), "200 "+approvalIs("approved"))
	got := n.Run(t, "yes\n", "approvals", "approve", "apr_1", "--note", "fine")
	if got.Code != 0 || !strings.HasPrefix(got.Stderr, approvalShown) || !strings.Contains(got.Stdout, "status:              approved\n") {
		t.Errorf("%+v", got)
	}
	n.Check(t, read, sent)

	n = newFakeNode(t, "200 "+approvalIs("pending"), "200 "+approvalIs("approved"))
	n.Run(t, "", "approvals", "approve", "--yes", "apr_1", "--note", "fine").Check(t, 0, "approved\n", "")
	n.Check(t, read, sent)

	n = newFakeNode(t, "200 "+approvalIs("pending"), "200 "+approvalIs("approved"))
	if got := n.Run(t, "", "approvals", "approve", "apr_1", "--note", "fine"); got.Code != 0 { // a script without input
		t.Errorf("%+v", got)
	}
	n.Check(t, read, sent)

	for _, answer := range []string{"y\n", "no\n", "apr_2\n"} {
		n = newFakeNode(t, "200 "+approvalIs("pending"))
		n.Run(t, answer, "approvals", "approve", "apr_1").Check(t, 1, "", "nothing was decided")
		n.Check(t, read)
	}
	n = newFakeNode(t, "200 "+approvalIs("pending"), `409 {"error":{"code":"approval_own_request","message":"m","request_id":"req_1"}}`)
	n.Run(t, "", "approvals", "approve", "--yes", "apr_1").Check(t, 1, "", "approval_own_request: m (409, req_1)")
}

// An interrupt ends a question at once, without a decision.
func TestApprovalsInterrupted(t *testing.T) {
	waiting := `200 {"data":[{"kind":"approval",` + approvalIs("pending")[1:] + `],"pagination":{"has_more":false}}`
	for question, answers := range map[string][]string{
		"Type yes: ":           {"200 " + approvalIs("pending"), "approvals", "approve", "apr_1"},
		"Which one? Type 1 to": {waiting, "approvals", "deny"},
	} {
		n, log := newFakeNode(t, answers[0]), new(clitest.Log)
		stdin, silent := io.Pipe()
		ctx, interrupt := context.WithCancel(t.Context())
		ended := make(chan int, 1)
		go func() {
			environ := []string{"SPENDGATE_API_URL=" + n.URL, "SPENDGATE_API_KEY=svc"}
			ended <- cli.Run(ctx, root(), cli.Process{Stdin: stdin, Stdout: log, Stderr: log, Environ: environ, Terminal: true}, answers[1:])
		}()
		for until := time.Now().Add(time.Minute); log.Find(regexp.QuoteMeta(question)) == nil; time.Sleep(10 * time.Millisecond) {
			if time.Now().After(until) {
				t.Fatal("it does not ask")
			}
		}
		interrupt()
		select {
		case code := <-ended:
			if code != 1 || log.Find("nothing was decided: interrupted") == nil || len(n.Requests) != 1 {
				t.Errorf("%s: exit %d, %q, %s", question, code, n.Requests, log.String())
			}
		case <-time.After(time.Minute):
			t.Errorf("%s: it asks on", question)
		}
		silent.Close() //nolint:errcheck // ends who still reads
	}
}

func TestApprovalsDeny(t *testing.T) {
	n := newFakeNode(t, "200 "+approvalIs("pending"))
	n.Run(t, "no\n", "approvals", "deny", "apr_1").Check(t, 1, "", "nothing was decided") // it asks as approve does
	n = newFakeNode(t, "200 "+approvalIs("pending"), "200 "+approvalIs("denied"))
	n.Run(t, "", "approvals", "deny", "--yes", "apr_1").Check(t, 0, "status:              denied\n", "")
	n.Check(t, "GET /v1/approvals/apr_1 svc ", `POST /v1/approvals/apr_1/deny svc {"action_hash":"ab"}`)
}

// What waits for a person includes drafts of policies.
func TestApprovalsOfDrafts(t *testing.T) {
	n := newFakeNode(t, `200 {"data":[{"kind":"draft","policy_id":"desk","draft_hash":"ab","author":{"principal":"ann","key_id":"key_1"},`+
		`"note":"tighter","made_at":"2026-01-02T03:04:05.000Z","missing":2}],"pagination":{"next_cursor":null,"has_more":false}}`)
	if r := n.Run(t, "", "approvals", "list", "--mine"); r.Code != 0 || !strings.Contains(r.Stdout, "desk         draft") ||
		!strings.Contains(r.Stdout, "2 missing") {
		t.Errorf("%+v", r)
	}
	n.Run(t, "", "approvals", "list", "--mine", "--status", "used").Check(t, 2, "", "--mine lists what is pending")
}
