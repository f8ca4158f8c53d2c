// Command payments is a payment provider that does not trust agents: it pays only what a check
// of spendgate allowed, and redeems the check before it pays (docs/use/payments.md).
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"sync"
	"time"

	"spendgate/hotpath/client"
)

func main() {
	env := os.Getenv //nolint:forbidigo // an example, not the service
	gate, err := client.New(client.Options{BaseURL: env("SPENDGATE_API_URL"), APIKey: env("SERVICE_KEY")})
	if err == nil && env("POLICY_ID") == "" {
		err = errors.New("POLICY_ID is not set: the policy by which payments are judged")
	}
	if err == nil {
		handler := &provider{gate: gate, policy: env("POLICY_ID")}
		server := http.Server{Addr: env("LISTEN_ADDR"), Handler: handler, ReadTimeout: 10 * time.Second}
		err = server.ListenAndServe()
	}
	slog.Error("stopped", "error", err)
}

// payment is what an agent asks for.
type payment struct {
	CheckID  string        `json:"check_id"`
	Amount   client.Amount `json:"amount"`
	Currency string        `json:"currency"`
	To       string        `json:"to"`
}

// provider pays, and keeps a ledger of what it paid.
type provider struct {
	gate   *client.Client
	policy string // the policy by which payments are judged
	mu     sync.Mutex
	ledger []payment
}

// ServeHTTP receives a payment. It answers 200 with the reference once it is paid, 409 with the
// reason if this request pays nothing, and 503 if it is unknown whether the check is redeemed.
func (p *provider) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var asked payment
	if err := json.NewDecoder(http.MaxBytesReader(w, r.Body, 1<<16)).Decode(&asked); err != nil || asked.CheckID == "" {
		http.Error(w, "a payment has check_id, amount, currency and to", http.StatusUnprocessableEntity)
		return
	}
	// A redeemed check is paid and reported even if the agent hangs up.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(r.Context()), time.Minute)
	defer cancel()
	_, err := p.gate.Redeem(ctx, asked.CheckID, client.RedeemRequest{
		PolicyID: p.policy, ActionType: client.Spend, // without these, the agent's own choice would count
		Amount: &asked.Amount, Currency: asked.Currency, Counterparty: asked.To,
	})
	refused, told := errors.AsType[*client.Error](err)
	switch {
	case told && (refused.Code == client.CodeCheckAlreadyRedeemed || refused.Code == client.CodeCheckExpired):
		http.Error(w, p.earlier(ctx, asked.CheckID, refused), http.StatusConflict)
		return
	case told && refused.Code != "" && refused.Status/100 == 4 && refused.Status != http.StatusTooManyRequests:
		http.Error(w, "not paid: "+refused.Message, http.StatusConflict)
		return
	case err != nil:
		http.Error(w, "it is not known whether the check is redeemed: ask again with the same check, and make no other one",
			http.StatusServiceUnavailable)
		return
	}
	reference := p.pay(asked)
	if _, err := p.gate.ReportOutcome(ctx, asked.CheckID, client.OutcomeReport{Status: "executed", Reference: reference}); err != nil {
		slog.Error("what was paid is not reported", "check_id", asked.CheckID, "reference", reference, "error", err)
	}
	fmt.Fprintln(w, reference) //nolint:errcheck // it is paid
}

// earlier says what is known about a check that an earlier request may have redeemed, even if the
// check is too old by now.
func (p *provider) earlier(ctx context.Context, checkID string, refused *client.Error) string {
	o, err := p.gate.GetOutcome(ctx, checkID)
	if err == nil && (o.Status == "failed" || o.Status == "voided") {
		return "not paid under this check, which was reported as " + o.Status + ": a new attempt is a new check"
	}
	return "perhaps paid by an earlier request: " + refused.Message +
		". Look at the check a minute later, and make no other one before its outcome is failed or voided"
}

// pay moves the money and returns its reference.
func (p *provider) pay(asked payment) string {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.ledger = append(p.ledger, asked)
	return fmt.Sprintf("pay-%d", len(p.ledger))
}
