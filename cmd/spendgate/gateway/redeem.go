package gateway

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"sync"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"spendgate/hotpath/client"
)

// redemptions has the idempotency keys of redemptions of which it is not known whether
// they were recorded, and whose calls were not made.
type redemptions struct {
	mu   sync.Mutex
	keys map[string]string // by check
}

// take returns the key for redeeming a check: that of an open redemption, which nobody
// else gets then, or a new one.
func (r *redemptions) take(checkID string) string {
	r.mu.Lock()
	defer r.mu.Unlock()
	key, open := r.keys[checkID]
	delete(r.keys, checkID)
	if !open {
		key = "gw-" + rand.Text()
	}
	return key
}

// keep remembers a redemption of which it is not known whether it was recorded.
func (r *redemptions) keep(checkID, key string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.keys == nil || len(r.keys) >= maxRemembered {
		r.keys = make(map[string]string)
	}
	r.keys[checkID] = key
}

// redeem redeems a check for the action as it is about to be carried out. once is a
// lasting key, empty for none. A refusal is a *client.Error.
func (g *Gateway) redeem(ctx context.Context, checkID, key, once string, a client.Action) error {
	body := struct {
		AgentID      string            `json:"agent_id"`
		PolicyID     string            `json:"policy_id"`
		ActionType   client.ActionType `json:"action_type"`
		Amount       jsontext.Value    `json:"amount"`
		Currency     string            `json:"currency"`
		Counterparty string            `json:"counterparty"`
		Metadata     map[string]any    `json:"metadata,omitempty"`
		Once         string            `json:"once,omitempty"`
	}{a.AgentID, a.PolicyID, a.ActionType, jsontext.Value(a.Amount.String()), a.Currency, a.Counterparty, a.Metadata, once}
	return g.service.post(ctx, "/v1/checks/"+url.PathEscape(checkID)+"/redeem", key, encode(body))
}

// doubt records that nobody knows what became of a redeemed check.
func (g *Gateway) doubt(ctx context.Context, checkID string) error {
	return g.service.post(ctx, "/v1/checks/"+url.PathEscape(checkID)+"/in-doubt", "", jsontext.Value("{}"))
}

// Service is where and with which key redemptions are asked for.
type Service struct {
	URL, Key string
	client   http.Client
}

// post sends a request until it is answered, a few times: the idempotency key makes it
// one.
func (s *Service) post(ctx context.Context, path, key string, body []byte) error {
	const tries = 4
	for i := 0; ; i++ {
		err := s.once(ctx, path, key, body)
		refused, ok := errors.AsType[*client.Error](err)
		if err == nil || ok && refused.Status/100 == 4 || i+1 == tries {
			return err
		}
		select {
		case <-time.After(200 * time.Millisecond << i):
		case <-ctx.Done():
			return fmt.Errorf("%w (given up: %w)", err, ctx.Err())
		}
	}
}

func (s *Service) once(ctx context.Context, path, key string, body []byte) error {
	const attempt = 5 * time.Second
	ctx, cancel := context.WithTimeout(ctx, attempt)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, s.URL+path, bytes.NewReader(body))
	if err != nil {
		return fmt.Errorf("cannot make a request: %w", err)
	}
	request.Header.Set("Content-Type", typeJSON)
	request.Header.Set("X-API-Key", s.Key)
	if key != "" {
		request.Header.Set("Idempotency-Key", key)
	}
	response, err := s.client.Do(request)
	if err != nil {
		return fmt.Errorf("no answer from the service: %w", errors.Unwrap(err))
	}
	defer response.Body.Close() //nolint:errcheck // only read
	text, err := io.ReadAll(io.LimitReader(response.Body, maxAgentMessage))
	if err != nil {
		return fmt.Errorf("the service's answer broke off: %w", err)
	}
	var answer struct {
		CheckID string `json:"check_id"`
		Error   struct {
			Code      string `json:"code"`
			Message   string `json:"message"`
			RequestID string `json:"request_id"`
		} `json:"error"`
	}
	err = json.Unmarshal(text, &answer)
	switch {
	case response.StatusCode/100 != 2:
		return &client.Error{Status: response.StatusCode, Code: answer.Error.Code, Message: answer.Error.Message, RequestID: answer.Error.RequestID}
	case err != nil || answer.CheckID == "":
		return errors.New("the service's answer cannot be understood")
	}
	return nil
}
