package main

import (
	"bytes"
	"context"
	"crypto/subtle"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	standard "github.com/standard-webhooks/standard-webhooks/libraries/go"

	"spendgate/hotpath/client"
)

const usage = "Write approve CODE or deny CODE, with a note if you like, or waiting."

// bot connects the events of spendgate with a chat. Its codes are only in memory: after a
// restart people write "waiting" to get new ones.
type bot struct {
	events     *standard.Webhook
	people     map[string]*person // by their user_id
	url, token string             // where messages go, and the token that proves that a request is the chat's
}

// handler receives events at /events, and people's messages in the chat at /chat, as forms with
// token, user_id and text.
func (b *bot) handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("POST /events", b.event)
	mux.HandleFunc("POST /chat", b.chat)
	return mux
}

func (b *bot) event(w http.ResponseWriter, r *http.Request) {
	var e struct {
		Type string `json:"type"`
		Data struct {
			ApprovalID string `json:"approval_id"`
			ConsoleURL string `json:"console_url"`
		} `json:"data"`
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, 1<<20))
	if err != nil || b.events.Verify(body, r.Header) != nil || json.Unmarshal(body, &e) != nil {
		http.Error(w, "not an event of this webhook", http.StatusUnauthorized)
		return
	}
	if e.Type != "approval.requested" {
		return
	}
	var failed error
	for _, p := range b.people {
		if !p.codes.has(e.Data.ApprovalID) { // events come more than once
			failed = errors.Join(failed, b.tell(r.Context(), p, e.Data.ApprovalID, e.Data.ConsoleURL))
		}
	}
	if failed != nil {
		http.Error(w, "not everybody was told", http.StatusBadGateway) // so that the event is delivered again
	}
}

// tell asks a person about an approval, if it waits for this person.
func (b *bot) tell(ctx context.Context, p *person, approvalID, consoleURL string) error {
	a, err := p.api.Approval(ctx, approvalID, 0)
	if refused := (*client.Error)(nil); errors.As(err, &refused) && refused.Status == http.StatusNotFound {
		return nil // this person may not read it
	}
	if err != nil || a.Status != client.ApprovalPending {
		return err
	}
	for waiting, err := range p.api.Waiting(ctx, client.ApprovalQuery{PolicyID: a.PolicyID, AgentID: a.Action.AgentID}) {
		if err != nil {
			return err
		}
		if waiting.Approval.ApprovalID == approvalID { // drafts are of no agent
			return b.ask(ctx, p, a, consoleURL)
		}
		if waiting.Approval.ExpiresAt.After(a.ExpiresAt.Time) { // those that expire soonest are first
			break
		}
	}
	return nil
}

// ask sends the approval request and a code for it to the person's own channel. The code never goes
// into the answer of a request, since anybody with the token can read that.
func (b *bot) ask(ctx context.Context, p *person, a *client.Approval, consoleURL string) error {
	if consoleURL != "" {
		consoleURL = "\nIn the console: " + consoleURL
	}
	var rules []client.Rule
	if policy, err := p.api.Policy(ctx, a.PolicyID, a.PolicyVersion); err == nil { // the rules are only shown
		rules = policy.Rules
	}
	text, err := message(a, rules)
	if errors.Is(err, errTooLong) {
		return b.post(ctx, p.channel, fmt.Sprintf("%s waits for you: %s.", a.ApprovalID, err)+consoleURL)
	}
	if err != nil {
		return err
	}
	code, err := p.codes.give(a.ApprovalID, a.ActionHash, a.ExpiresAt.Time)
	if err != nil {
		return b.post(ctx, p.channel, fmt.Sprintf("%s waits for you. %s.", a.ApprovalID, err)+consoleURL)
	}
	text += fmt.Sprintf("Write: approve %s, or deny %[1]s. The code is yours, for this action, once, until %s UTC.",
		code.code, code.until.UTC().Format("15:04")) + consoleURL
	if err := b.post(ctx, p.channel, text); err != nil {
		p.codes.void(code.code)
		return err
	}
	return nil
}

func (b *bot) chat(w http.ResponseWriter, r *http.Request) {
	p := b.people[r.PostFormValue("user_id")]
	if subtle.ConstantTimeCompare([]byte(r.PostFormValue("token")), []byte(b.token)) != 1 || p == nil {
		http.Error(w, "You approve nothing here.", http.StatusForbidden)
		return
	}
	words := strings.Fields(r.PostFormValue("text"))
	switch {
	case len(words) == 1 && words[0] == "waiting":
		b.waiting(w, r, p)
	case len(words) >= 2 && words[0] == "approve":
		b.decide(w, r, p, p.api.Approve, words[1:])
	case len(words) >= 2 && words[0] == "deny":
		b.decide(w, r, p, p.api.Deny, words[1:])
	default:
		http.Error(w, usage, http.StatusBadRequest)
	}
}

// waiting sends the approval requests that wait for a person, with new codes.
func (b *bot) waiting(w http.ResponseWriter, r *http.Request, p *person) {
	told := 0
	var err error
	for item, failed := range p.api.Waiting(r.Context(), client.ApprovalQuery{Limit: openCodes}) {
		if err = failed; err == nil && item.Approval != nil {
			var a *client.Approval
			if a, err = p.api.Approval(r.Context(), item.Approval.ApprovalID, 0); err == nil { // with what budgets have left
				err = b.ask(r.Context(), p, a, "")
			}
			told++
		}
		if err != nil || told == openCodes {
			break
		}
	}
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadGateway)
		return
	}
	_, _ = fmt.Fprintf(w, "%d wait for you: they are in your channel.", told) // there is nobody else to tell
}

// decide records a decision with the person's key. The code is used up in any case: a person who is
// not sure whether the decision was recorded writes "waiting".
func (b *bot) decide(w http.ResponseWriter, r *http.Request, p *person,
	verb func(ctx context.Context, approvalID, actionHash, note string) (*client.Approval, error), words []string,
) {
	code, err := p.codes.take(words[0])
	if errors.Is(err, errVoid) {
		err = errors.Join(err, b.post(r.Context(), p.channel, err.Error())) // it may be somebody else who guesses
	}
	if err != nil {
		http.Error(w, err.Error(), http.StatusForbidden)
		return
	}
	note := strings.Join(append(words[1:], "(in the chat)"), " ")
	a, err := verb(r.Context(), code.approvalID, code.actionHash, note)
	if err != nil {
		http.Error(w, err.Error(), http.StatusConflict)
		return
	}
	said := fmt.Sprintf("%s is %s.", a.ApprovalID, a.Status)
	if a.Status == client.ApprovalPending {
		said += " " + missing(a) + "."
	}
	_, _ = fmt.Fprint(w, said) // there is nobody else to tell
}

// post posts a message to a channel.
func (b *bot) post(ctx context.Context, channel, text string) error {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second) // the event is waited for 15 s
	defer cancel()
	body, err := json.Marshal(map[string]string{"channel": channel, "text": text})
	if err != nil {
		return err
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, b.url, bytes.NewReader(body))
	if err != nil {
		return err
	}
	request.Header.Set("Content-Type", "application/json")
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	if response.StatusCode != http.StatusOK {
		err = fmt.Errorf("the chat answered %s", response.Status)
	}
	return errors.Join(err, response.Body.Close())
}
