package client

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"spendgate/bench/must"
)

// approvalIs returns an approval as the service writes it.
func approvalIs(status string) string {
	return `{"approval_id":"apr_1","status":"` + status +
		`","check_id":"chk_1","principal":"p","action":{"agent_id":"a","policy_id":"p","action_type":"refund",` +
		`"amount":999999999999999.9001,"currency":"USD","counterparty":"c","payment_method":null,"merchant_or_vendor":null,"reason_text":null,` +
		`"idempotency_key":null,"metadata":null},` +
		`"action_hash":"ab","rule_ids":["review"],"policy_id":"p","policy_version":1,"required":1,"decisions":[],` +
		`"created_at":"2026-01-02T03:04:05.600Z",` +
		`"expires_at":"2026-01-03T03:04:05.600Z","use_by":null,"used_by_check_id":null,"remaining":[{"rule_id":"day",` +
		`"remaining":99999999999999999999.5,"remaining_count":null}],` +
		`"next_step":"Pending is not approved."}`
}

// The client waits as long as the answers say, less the time for which they were held, until
// the approval is no longer pending.
func TestWaitForApproval(t *testing.T) {
	var preferred []string
	pending := says(200, approvalIs("pending"), "Retry-After: 5")
	answers := []respond{pending, refuses(500, CodeInternal), pending, says(200, approvalIs("pending")), says(200, approvalIs("approved"))}
	s := &service{Server: httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		preferred = append(preferred, r.Method+" "+r.URL.Path+" "+r.Header.Get("Prefer"))
		answer := answers[0]
		answers = answers[1:]
		answer(w)
	}))}
	t.Cleanup(s.Close)
	c, waits := s.client(t, nil)
	a, err := c.WaitForApproval(t.Context(), "apr_1")
	if err != nil || a.Status != ApprovalApproved || a.Action.Amount.String() != "999999999999999.9001" || a.Action.Metadata != nil ||
		*a.Remaining[0].Remaining != "99999999999999999999.5" || a.Remaining[0].RemainingCount != nil {
		t.Errorf("%+v, %v", a, err)
	}
	if want := slices.Repeat([]string{"GET /v1/approvals/apr_1 wait=30"}, 5); !slices.Equal(preferred, want) {
		t.Error(preferred)
	}
	// The second wait is the backoff after the error.
	if w := *waits; len(w) != 4 || min(w[0], w[2]) < 4*time.Second || max(w[0], w[2]) > 5*time.Second || w[1] > firstBackoff ||
		w[3] > time.Second || w[3] <= 0 {
		t.Error(w)
	}
}

// When the context ends, the approval as last read is returned, and no request is made for
// which there is no time.
func TestWaitForApprovalEnds(t *testing.T) {
	var preferred []string
	s := &service{Server: httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		preferred = append(preferred, r.Header.Get("Prefer"))
		says(200, approvalIs("pending"), "Retry-After: 30")(w)
	}))}
	t.Cleanup(s.Close)
	c, _ := s.client(t, nil)
	for timeout, want := range map[time.Duration]string{20 * time.Second: "wait=18", 4 * time.Second: "wait=2", 2 * time.Second: ""} {
		preferred = nil
		ctx, cancel := context.WithTimeout(t.Context(), timeout)
		a, err := c.WaitForApproval(ctx, "apr_1")
		if a == nil || a.Status != ApprovalPending || a.RetryAfter != 30*time.Second || !errors.Is(err, context.DeadlineExceeded) ||
			!slices.Equal(preferred, []string{want}) {
			t.Errorf("%+v, %v, %q", a, err, preferred)
		}
		cancel()
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if a, err := c.WaitForApproval(ctx, "apr_1"); a != nil || err == nil {
		t.Error(a, err)
	}
}

// Odd numbers do not prevent people from seeing an approval, and an element of a list is kept
// as received.
func TestOddNumbers(t *testing.T) {
	odd := strings.Replace(approvalIs("pending"), `"remaining":99999999999999999999.5,"remaining_count":null`,
		`"remaining":-340282366920938463463374607431.768211456,"remaining_count":1e400`, 1)
	c, _ := serve(t, says(200, odd), says(200, `{"data":[`+odd+`],"pagination":{"has_more":false}}`)).client(t, nil)
	a, err := c.Approval(t.Context(), "apr_1", 0)
	if err != nil || *a.Remaining[0].Remaining != "-340282366920938463463374607431.768211456" || *a.Remaining[0].RemainingCount != "1e400" {
		t.Fatalf("%+v, %v", a, err)
	}
	all, err := collect(c.AllApprovals(t.Context(), ApprovalQuery{}))
	if err != nil || len(all) != 1 || string(all[0].JSON()) != odd {
		t.Errorf("%+v, %v", all, err)
	}
}

// A refused request ends the wait, and an answer that is not an approval is an error.
func TestApprovalsThatAreNone(t *testing.T) {
	for name, answer := range map[string]respond{
		CodeApprovalNotFound: refuses(404, CodeApprovalNotFound),
		"no approval":        says(200, strings.Replace(approvalIs("approved"), "approved", "allow", 1)),
		"is no approval":     says(200, allowed),
	} {
		c, _ := serve(t, answer).client(t, nil)
		if a, err := c.WaitForApproval(t.Context(), "apr_1"); a != nil || !strings.Contains(fmt.Sprint(err), name) {
			t.Errorf("%s: %+v, %v", name, a, err)
		}
	}
}

// An answer that the service holds may come later than other answers.
func TestHeldAnswer(t *testing.T) {
	s := serve(t, func(w http.ResponseWriter) {
		time.Sleep(100 * time.Millisecond)
		says(200, approvalIs("denied"))(w)
	})
	c, _ := s.client(t, func(o *Options) { o.AttemptTimeout = 20 * time.Millisecond })
	if a, err := c.Approval(t.Context(), "apr_1", time.Minute); err != nil || a.Status != ApprovalDenied {
		t.Error(a, err)
	}
}

// A list that is ranged over twice is read twice, each time from its first page.
func TestListsAreReadAgain(t *testing.T) {
	first := says(200, `{"data":[],"pagination":{"has_more":true,"next_cursor":"c"}}`)
	last := says(200, `{"data":[],"pagination":{"has_more":false}}`)
	s := serve(t, first, last, first, last)
	c, _ := s.client(t, nil)
	list := c.AllApprovals(t.Context(), ApprovalQuery{})
	for range 2 {
		must.Get(collect(list))(t)
	}
	if sent := s.sent(); len(sent) != 4 || sent[0] != sent[2] || sent[1] != sent[3] {
		t.Errorf("sent %+v", sent)
	}
}
