package gateway

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"reflect"
	"strings"
	"sync"
	"testing"

	"spendgate/hotpath/client"
)

// fakeService is the part of the service that the gateway uses, written from the contract.
type fakeService struct {
	*httptest.Server
	mu        sync.Mutex
	checks    []*fakeCheck
	approvals map[string]string // the status of each
	decide    func(action map[string]any) string
	after     string            // after_block of the policy's duplicate guard
	reason    string            // of decisions
	once      map[string]string // which check was redeemed under a principal's lasting key
	missing   string            // the counterparty of actions whose policy there is not
	unfit     string            // what the service takes in no text; empty is all
	busy      int               // how many reports are refused with 429 first
	// broken drops a request unanswered: before it has an effect, or after.
	broken func(path string) (before, after bool)
}

type fakeCheck struct {
	id, key, approval, decision, escalated string
	action                                 map[string]any
	reason                                 string
	asker, redeemer                        string // API keys
	redeemed, outcome, reference, release  string
	note                                   string
	doubt                                  bool
	forgotten                              bool // its idempotency key is older than a day
	late                                   bool // it is too old to be redeemed
	expired                                bool // likewise, and that is said first, also of one that was redeemed
	executedReports                        int
}

// principalOf returns the principal of an API key of the fake, which is NAME or NAME#KEY,
// by case folding.
func principalOf(apiKey string) string {
	name, _, _ := strings.Cut(strings.ToLower(apiKey), "#")
	return name
}

func newFakeService(t *testing.T) *fakeService {
	f := &fakeService{approvals: make(map[string]string), once: make(map[string]string)}
	f.decide = func(map[string]any) string { return "allow" }
	f.Server = httptest.NewServer(http.HandlerFunc(f.serve))
	t.Cleanup(f.Close)
	return f
}

func (f *fakeService) serve(w http.ResponseWriter, r *http.Request) {
	f.mu.Lock()
	defer f.mu.Unlock()
	before, after := false, false
	if f.broken != nil {
		before, after = f.broken(r.Method + " " + r.URL.Path)
	}
	if before {
		panic(http.ErrAbortHandler)
	}
	out := httptest.NewRecorder()
	f.route(out, r)
	if after {
		panic(http.ErrAbortHandler)
	}
	maps.Copy(w.Header(), out.Header())
	w.WriteHeader(out.Code)
	_, _ = w.Write(out.Body.Bytes())
}

func (f *fakeService) route(w http.ResponseWriter, r *http.Request) {
	parts := strings.Split(strings.TrimPrefix(r.URL.Path, "/v1/"), "/")
	body := make(map[string]any)
	_ = json.NewDecoder(r.Body).Decode(&body)
	caller := r.Header.Get("X-API-Key")
	switch parts[0] {
	case "keys":
		principal, _, _ := strings.Cut(caller, "#")
		self := map[string]any{"key_id": "key_" + caller, "name": "n", "role": "gateway", "active": true}
		if principal != "" {
			self["principal"] = principal
		}
		answer(w, 200, self)
		return
	case "policies":
		answer(w, 200, map[string]any{"policy_id": "p", "name": "p", "version": 1, "rules": []any{map[string]any{
			"rule_id": "d", "rule_type": "duplicate_guard", "parameters": map[string]any{"after_block": f.after},
		}}})
		return
	case "approvals":
		answer(w, 200, map[string]any{"approval_id": parts[1], "status": f.approvals[parts[1]], "action_hash": "h"})
		return
	}
	if len(parts) == 1 && r.Method == http.MethodGet {
		f.list(w, r.URL.Query().Get("idempotency_key"))
		return
	}
	if len(parts) == 1 {
		f.check(w, caller, body)
		return
	}
	c := f.find(parts[1])
	switch {
	case c == nil:
		refusal(w, 404, "check_not_found", "no such check")
	case len(parts) == 2:
		f.show(w, c, true)
	case parts[2] == "redeem":
		f.redeem(w, c, caller, r.Header.Get("Idempotency-Key"), body)
	case parts[2] == "in-doubt":
		c.doubt = true
		answer(w, 201, c.redemption())
	case r.Method == http.MethodGet:
		answer(w, 200, map[string]any{
			"check_id": c.id, "status": c.outcome, "reference": c.reference, "release": c.release,
			"note": c.note,
		})
	default:
		f.report(w, c, caller, body)
	}
}

func answer(w http.ResponseWriter, status int, body any) {
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(body)
}

func refusal(w http.ResponseWriter, status int, code, message string) {
	refusalFor(w, status, code, message, "")
}

// refusalFor refuses what another check has.
func refusalFor(w http.ResponseWriter, status int, code, message, holder string) {
	members := map[string]any{"code": code, "message": message, "request_id": "req_1"}
	if holder != "" {
		members["check_id"] = holder
	}
	answer(w, status, map[string]any{"error": members})
}

func (f *fakeService) find(id string) *fakeCheck {
	for _, c := range f.checks {
		if c.id == id {
			return c
		}
	}
	return nil
}

func (f *fakeService) check(w http.ResponseWriter, caller string, action map[string]any) {
	key, _ := action["idempotency_key"].(string)
	approval, _ := action["approval_id"].(string)
	if f.missing != "" && action["counterparty"] == f.missing {
		refusal(w, 404, "policy_not_found", "there is no such policy")
		return
	}
	delete(action, "idempotency_key")
	delete(action, "approval_id")
	for _, c := range f.checks {
		if c.key == key && c.approval == approval && !c.forgotten && principalOf(c.asker) == principalOf(caller) {
			if !reflect.DeepEqual(c.action, action) {
				refusalFor(w, 422, "validation_error", "another request has the key", c.id)
				return
			}
			f.show(w, c, true)
			return
		}
	}
	c := &fakeCheck{
		id: fmt.Sprintf("chk_%d", len(f.checks)+1), key: key, approval: approval, action: action, decision: f.decide(action), reason: f.reason,
		asker: caller,
	}
	if approval != "" {
		switch f.approvals[approval] {
		case "approved":
			c.decision = "allow"
			f.approvals[approval] = "used"
		default:
			refusal(w, 409, "approval_"+f.approvals[approval], "it is "+f.approvals[approval])
			return
		}
	} else if c.decision == "escalate" {
		c.escalated = "apr_" + c.id
		f.approvals[c.escalated] = "pending"
	}
	f.checks = append(f.checks, c)
	f.show(w, c, false)
}

func (f *fakeService) show(w http.ResponseWriter, c *fakeCheck, replayed bool) {
	if replayed {
		w.Header().Set("Idempotent-Replayed", "true")
	}
	if c.outcome != "" {
		text := c.outcome
		if c.release == "pending" {
			text += "; release=pending"
		}
		w.Header().Set("Outcome", text)
	}
	if c.redeemed != "" {
		text := "rdm_" + c.id
		if c.doubt {
			text += ";in_doubt"
		}
		w.Header().Set("Redeemed", text)
	}
	answer(w, 200, c.body())
}

func (c *fakeCheck) redemption() map[string]any {
	r := map[string]any{
		"check_id": c.id, "redemption_id": "rdm_" + c.id, "action_hash": "h", "action": c.action,
		"key_id": "key_" + c.redeemer,
	}
	if c.doubt {
		r["in_doubt_at"] = "2026-01-01T00:00:00Z"
	}
	return r
}

func (c *fakeCheck) body() map[string]any {
	body := map[string]any{
		"check_id": c.id, "decision": c.decision, "confidence": "high", "policy_version": 1, "message": "because", "next_step": "stop",
	}
	if c.escalated != "" {
		body["approval_id"] = c.escalated
	}
	if c.reason != "" {
		body["reason_code"] = c.reason
	}
	return body
}

func (f *fakeService) list(w http.ResponseWriter, key string) {
	data := []any{}
	for _, c := range f.checks {
		if c.key == key {
			body := c.body()
			body["action"] = c.action
			body["principal"], _, _ = strings.Cut(c.asker, "#")
			if c.redeemed != "" {
				body["redemption"] = c.redemption()
			}
			if c.outcome != "" {
				body["outcome"] = map[string]any{"check_id": c.id, "status": c.outcome, "release": c.release, "note": c.note}
			}
			data = append(data, body)
		}
	}
	answer(w, 200, map[string]any{"data": data, "pagination": map[string]any{}})
}

func (f *fakeService) redeem(w http.ResponseWriter, c *fakeCheck, caller, key string, action map[string]any) {
	once, _ := action["once"].(string)
	lasting := principalOf(caller) + " " + once
	delete(action, "once")
	switch {
	case c.decision != "allow":
		refusal(w, 409, "check_not_allowed", "not allowed")
	case c.expired:
		refusal(w, 409, "check_expired", "too old")
	case c.redeemed == key && c.redeemer == caller && c.outcome == "" && !c.doubt:
		w.Header().Set("Idempotent-Replayed", "true")
		answer(w, 200, c.redemption())
	case c.redeemed != "":
		holder := ""
		if once != "" {
			holder = f.once[lasting]
		}
		refusalFor(w, 409, "check_already_redeemed", "it was redeemed", holder)
	case c.outcome != "":
		refusal(w, 409, "check_released", "it was released")
	case c.late && (once == "" || f.once[lasting] == ""):
		refusal(w, 409, "check_expired", "too old")
	case !reflect.DeepEqual(c.action, action):
		refusal(w, 409, "action_mismatch", fmt.Sprint(c.action, action))
	case once != "" && f.once[lasting] != "":
		refusalFor(w, 409, "once_used", "another check has it", f.once[lasting])
	default:
		c.redeemed, c.redeemer = key, caller
		if once != "" {
			f.once[lasting] = c.id
		}
		answer(w, 200, c.redemption())
	}
}

func (f *fakeService) report(w http.ResponseWriter, c *fakeCheck, caller string, body map[string]any) {
	status, _ := body["status"].(string)
	if f.busy > 0 {
		f.busy--
		refusal(w, 429, "rate_limit_exceeded", "too many requests")
		return
	}
	if told := fmt.Sprint(body["reference"], body["note"]); f.unfit != "" && strings.Contains(told, f.unfit) {
		refusal(w, 400, "invalid_request", "it must be text")
		return
	}
	if body["unless_in_doubt"] == true && c.doubt && c.outcome == "" {
		refusal(w, 409, "check_already_redeemed", "it is in doubt")
		return
	}
	// Who asked must not give back, unless that key redeemed it (S61).
	asked := principalOf(c.asker) == principalOf(caller)
	releases := !asked || c.redeemed != "" && principalOf(c.redeemer) == principalOf(caller)
	if c.outcome != "" && c.outcome != status && (c.release != "pending" || asked) {
		refusal(w, 409, "outcome_already_reported", "it was reported")
		return
	}
	c.outcome, c.release, c.doubt = status, "done", false
	c.reference, _ = body["reference"].(string)
	c.note, _ = body["note"].(string)
	if !releases {
		c.release = "pending"
	}
	if status == "executed" {
		c.release = "none"
		c.executedReports++
	}
	answer(w, 201, map[string]any{"check_id": c.id, "status": c.outcome, "release": c.release})
}

// client is one of the fake service, with an API key.
func (f *fakeService) client(t *testing.T, apiKey string) *client.Client {
	t.Helper()
	api, err := client.New(client.Options{BaseURL: f.URL, APIKey: apiKey, MaxWait: 1, Attempts: 2})
	if err != nil {
		t.Fatal(err)
	}
	return api
}

// with runs under the fake's mutex.
func (f *fakeService) with(do func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	do()
}
