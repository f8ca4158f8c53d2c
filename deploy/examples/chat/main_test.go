package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	standard "github.com/standard-webhooks/standard-webhooks/libraries/go"

	"spendgate/bench/fleet"
	"spendgate/hotpath/client"
)

const (
	admin = "chat-admin-key-0123456789"
	token = "of-the-chat"
)

// A real node asks people in a chat, and one of them approves.
func TestApproveInTheChat(t *testing.T) {
	binary, err := fleet.Build(t.Context(), t.TempDir(), fleet.BuildOptions{})
	if err != nil {
		t.Fatal(err)
	}
	node, err := fleet.NewNode(binary, "dev", "chat", t.TempDir(), fleet.Settings{"DATA_DIR": t.TempDir(), "ADMIN_KEY": admin, "WEBHOOK_PRIVATE_ADDRESSES": "true"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = node.Kill() })
	if err := node.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	messages := make(chan string, 1)
	chat := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		var m struct{ Text string }
		if err := json.NewDecoder(r.Body).Decode(&m); err != nil {
			t.Error(err)
		}
		messages <- m.Text
	}))
	t.Cleanup(chat.Close)
	key := func(role string) *client.Client {
		var k struct {
			APIKey string `json:"api_key"`
		}
		send(t, node.API, admin, "/v1/keys", fmt.Sprintf(`{"name":%q,"role":%[1]q}`, role), &k)
		c, err := client.New(client.Options{BaseURL: node.API, APIKey: k.APIKey})
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	author, agent, person := key("author"), key("agent"), key("approver")
	if _, err := author.CreatePolicyJSON(t.Context(), []byte(`{"policy_id":"p","name":"n","rules":[
		{"rule_id":"ask","rule_type":"escalate_if","parameters":{"amount_above":1,"approval":{}}}]}`)); err != nil {
		t.Fatal(err)
	}
	var handler http.Handler
	own := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { handler.ServeHTTP(w, r) }))
	t.Cleanup(own.Close)
	var w struct{ Secret string }
	send(t, node.API, admin, "/v1/webhooks", `{"url":"`+own.URL+`/events","event_types":["approval.requested"]}`, &w)
	events, err := standard.NewWebhook(w.Secret)
	if err != nil {
		t.Fatal(err)
	}
	handler = receiver(events, person, chat.URL, token)

	amount, err := client.ParseAmount("300")
	if err != nil {
		t.Fatal(err)
	}
	action := client.Action{AgentID: "a", PolicyID: "p", ActionType: client.Refund, Amount: amount, Currency: "USD", Counterparty: "c"}
	asked, err := agent.Check(t.Context(), action)
	if err != nil {
		t.Fatal(err)
	}
	var text string
	select {
	case text = <-messages:
	case <-time.After(20 * time.Second):
		t.Fatalf("nothing is in the chat\n%s", node.Log())
	}
	_, command, _ := strings.Cut(text, "Write: ")
	command, _, _ = strings.Cut(command, ",")
	if !strings.Contains(text, `"amount":300`) || !strings.HasPrefix(command, "approve "+asked.ApprovalID+" ") {
		t.Fatalf("in the chat is %q", text)
	}
	if status, said := write(t, own.URL, "guessed", command); status != http.StatusForbidden {
		t.Errorf("anybody decides: %d %s", status, said)
	}
	if a, err := agent.Approval(t.Context(), asked.ApprovalID, 0); err != nil || a.Status != client.ApprovalPending {
		t.Fatalf("the approval is %+v, %v", a, err)
	}
	if status, said := write(t, own.URL, token, command); status != http.StatusOK || said != asked.ApprovalID+" is approved" {
		t.Errorf("approving: %d %s", status, said)
	}
	action.ApprovalID = asked.ApprovalID
	if used, err := agent.Check(t.Context(), action); err != nil || !used.Allowed() {
		t.Errorf("with the approval: %+v, %v", used, err)
	}
	// Events that nobody signed are none.
	forged, err := http.Post(own.URL+"/events", "application/json", strings.NewReader(`{"data":{}}`))
	if err != nil {
		t.Fatal(err)
	}
	_ = forged.Body.Close() // not read
	if forged.StatusCode != http.StatusUnauthorized {
		t.Errorf("a forged event: %s", forged.Status)
	}
}

// send posts as the admin.
func send(t *testing.T, base, key, path, body string, into any) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, base+path, bytes.NewReader([]byte(body)))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("X-Admin-Key", key)
	r.Header.Set("Content-Type", "application/json")
	response, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close() //nolint:errcheck // only read
	text, err := io.ReadAll(response.Body)
	if err != nil || response.StatusCode != http.StatusCreated || json.Unmarshal(text, into) != nil {
		t.Fatalf("%s: %s %s %v", path, response.Status, text, err)
	}
}

// write writes in the chat.
func write(t *testing.T, base, token, text string) (status int, said string) {
	t.Helper()
	response, err := http.PostForm(base+"/chat", url.Values{"token": {token}, "text": {text}})
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close() //nolint:errcheck // only read
	answer, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return response.StatusCode, strings.TrimSpace(string(answer))
}
