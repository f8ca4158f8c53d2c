// Command chat has people approve in a chat: it posts approvals that are requested
// to an incoming webhook of the chat, and answers of people back through the API,
// with the key of a person (hotpath/webhook/README.md).
package main

import (
	"bytes"
	"context"
	"crypto/subtle"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"strings"
	"time"

	standard "github.com/standard-webhooks/standard-webhooks/libraries/go"

	"spendgate/hotpath/client"
)

func main() {
	env := os.Getenv //nolint:forbidigo // an example, not the service
	events, err := standard.NewWebhook(env("WEBHOOK_SECRET"))
	if err == nil {
		var person *client.Client
		if person, err = client.New(client.Options{BaseURL: env("SPENDGATE_API_URL"), APIKey: env("PERSON_KEY")}); err == nil {
			server := http.Server{Addr: env("LISTEN_ADDR"), Handler: receiver(events, person, env("CHAT_URL"), env("CHAT_TOKEN")), ReadTimeout: 10 * time.Second}
			err = server.ListenAndServe()
		}
	}
	slog.Error("stopped", "error", err)
}

// receiver takes events at /events, and what people write in the chat at /chat: a
// form with the token that proves that it is from the chat, and the text.
func receiver(events *standard.Webhook, person *client.Client, chatURL, chatToken string) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("POST /events", func(w http.ResponseWriter, r *http.Request) {
		var e struct {
			Data struct {
				ApprovalID string          `json:"approval_id"`
				ActionHash string          `json:"action_hash"`
				Action     json.RawMessage `json:"action"`
			} `json:"data"`
		}
		body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, 1<<20))
		if err != nil || events.Verify(body, r.Header) != nil || json.Unmarshal(body, &e) != nil {
			http.Error(w, "not an event of this webhook", http.StatusUnauthorized)
			return
		}
		text := fmt.Sprintf("An agent asks for %s. Write: approve %s %s, or deny", e.Data.Action, e.Data.ApprovalID, e.Data.ActionHash)
		if err := post(r.Context(), chatURL, text); err != nil {
			http.Error(w, "the chat does not answer", http.StatusBadGateway) // so it is tried again
		}
	})
	mux.HandleFunc("POST /chat", func(w http.ResponseWriter, r *http.Request) {
		words := strings.Fields(r.PostFormValue("text"))
		if subtle.ConstantTimeCompare([]byte(r.PostFormValue("token")), []byte(chatToken)) != 1 || len(words) != 3 {
			http.Error(w, "approve or deny, approval_id, action_hash", http.StatusForbidden)
			return
		}
		decide := map[string]func(context.Context, string, string, string) (*client.Approval, error){"approve": person.Approve, "deny": person.Deny}[words[0]]
		if decide == nil {
			http.Error(w, "approve or deny", http.StatusBadRequest)
		} else if a, err := decide(r.Context(), words[1], words[2], "in the chat"); err != nil {
			http.Error(w, err.Error(), http.StatusConflict)
		} else {
			_, _ = fmt.Fprintf(w, "%s is %s", a.ApprovalID, a.Status) // nobody else to tell
		}
	})
	return mux
}

// post posts a message to the chat.
func post(ctx context.Context, url, text string) error {
	body, err := json.Marshal(map[string]string{"text": text})
	if err != nil {
		return err
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, url, bytes.NewReader(body))
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
