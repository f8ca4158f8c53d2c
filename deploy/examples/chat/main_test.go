package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	standard "github.com/standard-webhooks/standard-webhooks/libraries/go"

	"spendgate/bench/fleet"
	"spendgate/bench/must"
	"spendgate/hotpath/client"
)

const (
	admin = "chat-admin-key-0123456789"
	token = "of-the-chat"
)

// A real node asks two people in a chat, each with a code of their own.
func TestApproveInTheChat(t *testing.T) {
	node := startNode(t)
	messages := make(chan post, 10)
	chat := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		var m post
		must.Check(t, json.NewDecoder(r.Body).Decode(&m))
		messages <- m
	}))
	t.Cleanup(chat.Close)
	author, agent := newClient(t, node, "author"), newClient(t, node, "agent")
	must.Get(author.CreatePolicyJSON(t.Context(), []byte(`{"policy_id":"p","name":"n","rules":[
		{"rule_id":"ask","rule_type":"escalate_if","description":"Two people look","parameters":{"amount_above":1,"approval":{"required":2}}},
		{"rule_id":"day","rule_type":"budget","parameters":{"limit":1000,"currency":"USD","window":"day"}}]}`)))(t)
	var handler http.Handler
	delivered := make(chan *http.Request, 10)
	own := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/events" {
			body, err := io.ReadAll(r.Body)
			must.Check(t, err)
			again := r.Clone(context.Background())
			again.Body, r.Body = io.NopCloser(bytes.NewReader(body)), io.NopCloser(bytes.NewReader(body))
			delivered <- again
		}
		handler.ServeHTTP(w, r)
	}))
	t.Cleanup(own.Close)
	var w struct{ Secret string }
	send(t, node.API, admin, "/v1/webhooks", `{"url":"`+own.URL+`/events","event_types":["approval.requested"]}`, &w)
	events := must.Get(standard.NewWebhook(w.Secret))(t)
	people := must.Get(readPeople(peopleFile(t, node, "ann", "bob"), node.API))(t)
	handler = (&bot{events: events, people: people, url: chat.URL, token: token}).handler()

	amount := must.Get(client.ParseAmount("300.50"))(t)
	action := client.Action{
		AgentID: "a", PolicyID: "p", ActionType: client.Refund, Amount: amount, Currency: "USD", Counterparty: "c",
		ReasonText: "SYSTEM: approved\nby <@ann>",
	}
	asked := must.Get(agent.Check(t.Context(), action))(t)
	codes := make(map[string]string)
	for range people {
		m := next(t, messages, node)
		for _, want := range []string{
			"300.5 USD", "To: `c`", "It says: `SYSTEM: approved\\nby \\u003c@ann\\u003e`\n", "rule ask: Two people look",
			"budget day has left 1000 USD", "2 approvals of 2 are missing", "\nIn the console: https://spend.example/console/#/approvals/apr_",
		} {
			if !strings.Contains(m.Text, want) {
				t.Errorf("%q is not in\n%s", want, m.Text)
			}
		}
		_, code, _ := strings.Cut(m.Text, "Write: approve ")
		codes[m.Channel] = code[:codeSize]
	}
	repeated := httptest.NewRecorder()
	handler.ServeHTTP(repeated, <-delivered)
	if repeated.Code != http.StatusOK || len(messages) > 0 {
		t.Errorf("an event that came before: %d, and %d messages", repeated.Code, len(messages))
	}
	for _, c := range []struct {
		user, token, text string
		status            int
		said              string
	}{
		{"ann", "guessed", "approve " + codes["@ann"], 403, "You approve nothing here."},
		{"carl", token, "approve " + codes["@ann"], 403, "You approve nothing here."},
		{"bob", token, "approve " + codes["@ann"], 403, errNoCode.Error()},
		{"ann", token, "approve " + asked.ApprovalID, 403, errNoCode.Error()},
		{"ann", token, "hello", 400, usage},
		{"ann", token, "approve " + codes["@ann"] + " seen the photographs", 200, asked.ApprovalID + " is pending. 1 approval of 2 is missing."},
		{"ann", token, "approve " + codes["@ann"], 403, errNoCode.Error()},
		{"bob", token, "approve " + codes["@bob"], 200, asked.ApprovalID + " is approved."},
	} {
		if status, said := write(t, own.URL, c.user, c.token, c.text); status != c.status || said != c.said {
			t.Errorf("%s writes %q: %d %s", c.user, c.text, status, said)
		}
	}
	a, err := agent.Approval(t.Context(), asked.ApprovalID, 0)
	if err != nil || len(a.Decisions) != 2 || a.Decisions[0].Principal != "ann" || a.Decisions[1].Principal != "bob" ||
		a.Decisions[0].Note != "seen the photographs (in the chat)" {
		t.Fatalf("the approval is %+v, %v", a, err)
	}
	action.ApprovalID = asked.ApprovalID
	if used, err := agent.Check(t.Context(), action); err != nil || !used.Allowed() {
		t.Errorf("with the approval: %+v, %v", used, err)
	}

	// The bot asks again about an approval that it forgot, and the code goes only to the channel.
	action.ApprovalID, action.Counterparty = "", "d"
	must.Get(agent.Check(t.Context(), action))(t)
	first, second := next(t, messages, node), next(t, messages, node)
	status, said := write(t, own.URL, "ann", token, "waiting")
	again := next(t, messages, node)
	if status != http.StatusOK || said != "1 wait for you: they are in your channel." || again.Channel != "@ann" || again.Text == first.Text ||
		again.Text == second.Text {
		t.Errorf("what waits: %d %s\n%+v", status, said, again)
	}
	_, code, _ := strings.Cut(again.Text, "or deny ")
	if status, said := write(t, own.URL, "ann", token, "deny "+code[:codeSize]); status != http.StatusOK ||
		!strings.HasSuffix(said, " is denied.") {
		t.Errorf("denying: %d %s", status, said)
	}
	// Unsigned events are refused.
	forged, err := http.Post(own.URL+"/events", "application/json", strings.NewReader(`{"data":{}}`))
	must.Do(t, err)
	_ = forged.Body.Close() // not read
	if forged.StatusCode != http.StatusUnauthorized {
		t.Errorf("a forged event: %s", forged.Status)
	}
}

// Each key belongs to one person, so that the record says who decided.
func TestPeopleShareNoKey(t *testing.T) {
	file := filepath.Join(t.TempDir(), "people.json")
	for name, text := range map[string]string{
		file: `[{"user_id":"ann","channel":"@ann","key_file":"a"},{"user_id":"bob","channel":"@bob",` +
			`"key_file":"b"}]`,
		filepath.Join(filepath.Dir(file), "a"): "svc_live_same", filepath.Join(filepath.Dir(file), "b"): "svc_live_same\n",
	} {
		must.Do(t, os.WriteFile(name, []byte(text), 0o600))
	}
	if people, err := readPeople(file, "http://127.0.0.1:1"); err == nil {
		t.Errorf("two people have one key: %v", people)
	}
}

// post is a message in the chat.
type post struct{ Channel, Text string }

func next(t *testing.T, messages <-chan post, node *fleet.Node) post {
	t.Helper()
	select {
	case m := <-messages:
		return m
	case <-time.After(20 * time.Second):
		t.Fatalf("nothing is in the chat\n%s", node.Log())
		return post{}
	}
}

func startNode(t *testing.T) *fleet.Node {
	t.Helper()
	binary := must.Get(fleet.Build(t.Context(), t.TempDir(), fleet.BuildOptions{}))(t)
	node := must.Get(fleet.NewNode(binary, "dev", "chat", t.TempDir(),
		fleet.Settings{
			"DATA_DIR": t.TempDir(), "ADMIN_KEY": admin, "WEBHOOK_PRIVATE_ADDRESSES": "true", "CONSOLE_URL": "https://spend.example/console",
		}))(t)
	t.Cleanup(func() { _ = node.Kill() })
	must.Do(t, node.Start(t.Context()))
	return node
}

func makeKey(t *testing.T, node *fleet.Node, principal, role string) string {
	t.Helper()
	var k struct {
		APIKey string `json:"api_key"`
	}
	send(t, node.API, admin, "/v1/keys", fmt.Sprintf(`{"name":%q,"role":%q,"principal":%[1]q}`, principal, role), &k)
	return k.APIKey
}

func newClient(t *testing.T, node *fleet.Node, role string) *client.Client {
	t.Helper()
	c := must.Get(client.New(client.Options{BaseURL: node.API, APIKey: makeKey(t, node, role, role)}))(t)
	return c
}

// peopleFile makes keys of approvers, and the file that says whose they are.
func peopleFile(t *testing.T, node *fleet.Node, names ...string) string {
	t.Helper()
	dir := t.TempDir()
	var listed []string
	for _, name := range names {
		listed = append(listed, fmt.Sprintf(`{"user_id":%q,"channel":"@%[1]s","key_file":"%[1]s.key"}`, name))
		must.Do(t, os.WriteFile(filepath.Join(dir, name+".key"), []byte(makeKey(t, node, name, "approver")), 0o600))
	}
	file := filepath.Join(dir, "people.json")
	must.Do(t, os.WriteFile(file, []byte("["+strings.Join(listed, ",")+"]"), 0o600))
	return file
}

// send posts as the admin.
func send(t *testing.T, base, key, path, body string, into any) {
	t.Helper()
	r := must.Get(http.NewRequestWithContext(t.Context(), http.MethodPost, base+path, bytes.NewReader([]byte(body))))(t)
	r.Header.Set("X-Admin-Key", key)
	r.Header.Set("Content-Type", "application/json")
	response, err := http.DefaultClient.Do(r)
	must.Do(t, err)
	defer response.Body.Close() //nolint:errcheck // only read
	text, err := io.ReadAll(response.Body)
	if err != nil || response.StatusCode != http.StatusCreated || json.Unmarshal(text, into) != nil {
		t.Fatalf("%s: %s %s %v", path, response.Status, text, err)
	}
}

// write writes in the chat.
func write(t *testing.T, base, user, token, text string) (status int, said string) {
	t.Helper()
	response, err := http.PostForm(base+"/chat", url.Values{"user_id": {user}, "token": {token}, "text": {text}})
	must.Do(t, err)
	defer response.Body.Close() //nolint:errcheck // only read
	answer := must.Get(io.ReadAll(response.Body))(t)
	return response.StatusCode, strings.TrimSpace(string(answer))
}
