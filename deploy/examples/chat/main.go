// Command chat lets people approve in a chat (docs/use/webhooks.md). It sends each approval
// request to the people who may decide it, each in a private channel and with a code for
// this person, and records each answer as a decision with the person's own API key.
package main

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"

	standard "github.com/standard-webhooks/standard-webhooks/libraries/go"

	"spendgate/hotpath/client"
)

func main() {
	if err := run(os.Getenv); err != nil { //nolint:forbidigo // an example, not the service
		slog.Error("stopped", "error", err)
		os.Exit(1) //nolint:forbidigo // this is the program
	}
}

func run(env func(string) string) error {
	events, err := standard.NewWebhook(env("WEBHOOK_SECRET"))
	if err != nil {
		return fmt.Errorf("WEBHOOK_SECRET: %w", err)
	}
	people, err := readPeople(env("PEOPLE_FILE"), env("SPENDGATE_API_URL"))
	if err != nil {
		return fmt.Errorf("PEOPLE_FILE: %w", err)
	}
	b := bot{events: events, people: people, url: env("CHAT_URL"), token: env("CHAT_TOKEN")}
	if b.token == "" {
		return fmt.Errorf("CHAT_TOKEN: it is empty, so that anybody could decide")
	}
	server := http.Server{Addr: env("LISTEN_ADDR"), Handler: b.handler(), ReadTimeout: 10 * time.Second}
	return server.ListenAndServe()
}

// person is a user of the chat who may approve.
type person struct {
	userID  string // by which the chat names the writer of a message
	channel string // a channel that only this person reads
	api     *client.Client
	codes   *codes
}

// readPeople reads who may approve: [{"user_id", "channel", "key_file"}]. The files of keys are
// beside that file. Each person needs a key of their own, or the record would not say who decided.
func readPeople(file, api string) (map[string]*person, error) {
	text, err := os.ReadFile(file) //nolint:gosec // whoever starts it says which
	if err != nil {
		return nil, err
	}
	var listed []struct {
		UserID  string `json:"user_id"`
		Channel string `json:"channel"`
		KeyFile string `json:"key_file"`
	}
	if err := json.Unmarshal(text, &listed); err != nil {
		return nil, err
	}
	people, keys, channels := make(map[string]*person), make(map[string]bool), make(map[string]bool)
	for _, p := range listed {
		key, err := os.ReadFile(filepath.Join(filepath.Dir(file), p.KeyFile)) //nolint:gosec // the same
		if err != nil {
			return nil, err
		}
		apiKey := strings.TrimSpace(string(key))
		if p.UserID == "" || p.Channel == "" || people[p.UserID] != nil || keys[apiKey] || channels[p.Channel] {
			return nil, fmt.Errorf("user %q needs user_id, channel and key_file, and nobody else may have them", p.UserID)
		}
		c, err := client.New(client.Options{BaseURL: api, APIKey: apiKey})
		if err != nil {
			return nil, fmt.Errorf("%s: %w", p.KeyFile, err)
		}
		made := &codes{now: time.Now} //nolint:forbidigo // the program passes it
		people[p.UserID] = &person{userID: p.UserID, channel: p.Channel, api: c, codes: made}
		keys[apiKey], channels[p.Channel] = true, true
	}
	return people, nil
}
