package mcp

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// approvalIs is an approval as the service writes it.
func approvalIs(status string) string {
	return `{"approval_id":"apr_1","status":"` + status +
		`","check_id":"chk_1","principal":"p","action":{"agent_id":"a","policy_id":"p","action_type":"refund",` +
		`"amount":300,"currency":"USD","counterparty":"c","payment_method":null,"merchant_or_vendor":null,"reason_text":null,` +
		`"idempotency_key":null,"metadata":null},"action_hash":"ab",` +
		`"rule_ids":["review"],"policy_id":"p","policy_version":1,"required":2,"decisions":[{"principal":"ann","key_id":"key_1",` +
		`"decision":"approve","note":"seen",` +
		`"at":"2026-01-02T03:04:06.600Z"}],"created_at":"2026-01-02T03:04:05.600Z","expires_at":"2026-01-03T03:04:05.600Z","use_by":null,` +
		`"used_by_check_id":null,` +
		`"remaining":[],"next_step":"What the service says."}`
}

// An escalation that people are asked to approve says what to do meanwhile, and no part of it reads
// like an allow.
func TestEscalationWithApproval(t *testing.T) {
	escalated := strings.NewReplacer(`"allow"`, `"escalate"`, `.600Z"}`, `.600Z","approval_id":"apr_1"}`).Replace(allowed)
	got := callTool(t, connect(t, newServer(t, serve(t, "200 "+escalated), io.Discard, nil)), checkAction,
		strings.Replace(arguments, "%s", "1", 1))
	got.check(t, false, "Decision: escalate.",
		"Approval: apr_1 is pending. Pending is not approved: do not carry the action out. Call wait_for_approval",
		"call check_financial_action again with exactly the same values and approval_id apr_1")
}

func TestWaitForApproval(t *testing.T) {
	for status, want := range map[string]string{
		"pending": "Approval: apr_1 is pending. Pending is not approved: do not carry the action out.\nann decided: approve. " +
			"seen\nNext step: What the service says.",
		"denied": "Approval: apr_1 is denied.\n",
	} {
		got := callTool(t, connect(t, newServer(t, serve(t, "200 "+approvalIs(status)), io.Discard, nil)), waitForApproval,
			`{"approval_id":"apr_1","wait_seconds":1}`)
		got.check(t, false, want)
	}
	s := serve(t, "200 "+approvalIs("pending"), "200 "+approvalIs("approved"))
	callTool(t, connect(t, newServer(t, s, io.Discard, nil)), waitForApproval, `{"approval_id":"apr_1"}`).
		check(t, false, "Approval: apr_1 is approved.")
	none := `404 {"error":{"code":"approval_not_found","message":"m","request_id":"req_1"}}`
	callTool(t, connect(t, newServer(t, serve(t, none), io.Discard, nil)), waitForApproval, `{"approval_id":"apr_1"}`).
		check(t, true, "Error approval_not_found (HTTP 404)", "Nothing is approved by this. Do not carry the action out.")
}

// holding returns a service that holds its answers for as long as its clients ask.
func holding(t *testing.T) (s *service, held chan struct{}) {
	t.Helper()
	held = make(chan struct{}, maxInFlight)
	api := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Prefer") != "" {
			held <- struct{}{}
			<-r.Context().Done()
			return
		}
		io.WriteString(w, approvalIs("pending")) //nolint:errcheck // the client would notice
	}))
	t.Cleanup(api.Close)
	return &service{Server: api}, held
}

// The service is asked to hold its answer for as long as the call may wait.
func TestWaitSeconds(t *testing.T) {
	for seconds, want := range map[int]string{1: "wait=1", 5: "wait=5", 50: "wait=30"} {
		preferred := make(chan string, 2)
		api := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			status := "pending" // at the first look
			if prefer := r.Header.Get("Prefer"); prefer != "" {
				preferred <- prefer
				status = "approved"
			}
			io.WriteString(w, approvalIs(status)) //nolint:errcheck // the client would notice
		}))
		t.Cleanup(api.Close)
		session := connect(t, newServer(t, &service{Server: api}, io.Discard, nil))
		callTool(t, session, waitForApproval, fmt.Sprintf(`{"approval_id":"apr_1","wait_seconds":%d}`, seconds)).
			check(t, false, "Approval: apr_1 is approved.")
		select {
		case got := <-preferred:
			if got != want {
				t.Errorf("%d s: %s", seconds, got)
			}
		default:
			t.Errorf("%d s: it was not asked to wait", seconds)
		}
	}
}

// When the server stops, calls that wait end with what is known.
func TestStopEndsWaits(t *testing.T) {
	s, held := holding(t)
	stopping := make(chan struct{})
	session := connect(t, newServer(t, s, io.Discard, func(o *Options) { o.Stopping = stopping }))
	go func() {
		<-held
		close(stopping)
	}()
	callTool(t, session, waitForApproval, `{"approval_id":"apr_1"}`).check(t, false, "Approval: apr_1 is pending.")
}

// Only so many calls wait at once; further ones are answered without waiting.
func TestWaitsAreBounded(t *testing.T) {
	s, held := holding(t)
	stopping := make(chan struct{})
	session := connect(t, newServer(t, s, io.Discard, func(o *Options) { o.Stopping = stopping }))
	ended := make(chan error)
	for range maxWaiting {
		go func() {
			_, err := session.CallTool(t.Context(), &sdk.CallToolParams{Name: waitForApproval, Arguments: map[string]any{"approval_id": "apr_1"}})
			ended <- err
		}()
	}
	for range maxWaiting {
		<-held
	}
	callTool(t, session, waitForApproval, `{"approval_id":"apr_1"}`).check(t, false, "Approval: apr_1 is pending.")
	if len(held) != 0 {
		t.Error("one more waits")
	}
	close(stopping)
	for range maxWaiting {
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}
}
