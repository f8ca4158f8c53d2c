package client

import (
	"context"
	"encoding/json"
	"iter"
	"net/http"
	"net/url"
	"time"

	"spendgate/audit/pause"
	"spendgate/hotpath/report"
	"spendgate/hotpath/wire"
)

// NewBacktest is a request for a backtest, of rules or of a version.
type NewBacktest struct {
	PolicyID string          `json:"policy_id"`
	Rules    json.RawMessage `json:"rules,omitempty"` // an array
	Version  int             `json:"version,omitzero"`
	From     string          `json:"from"` // a time or a UTC date, included
	To       string          `json:"to"`   // a time or a UTC date, included
	// State selects whose decisions fill windows and budgets: "counterfactual" (the default) selects
	// the candidate's decisions, "recorded" the recorded ones.
	State string `json:"state,omitempty"`
}

// Backtest is a replay of recorded checks by other rules (S53).
type Backtest struct {
	wire.Backtest
	Report *report.Report `json:"report,omitempty"` // nil until it has succeeded, and in lists

	Raw
}

// BacktestProgress is how far a backtest is.
type BacktestProgress = wire.BacktestProgress

// Ended reports whether the backtest has ended, so that it does not change any more.
func (b *Backtest) Ended() bool { return ended(b.Status) }

func ended(status string) bool { return status != "queued" && status != "running" }

func (b *Backtest) accept(from reply) error {
	if b.BacktestID == "" || b.Status == "" || b.Status == "succeeded" && b.Report == nil && !from.listed {
		return misunderstood("it is no backtest")
	}
	b.Body = from.body
	return nil
}

// Flip is a check that the candidate decides otherwise.
type Flip struct {
	CheckID   string      `json:"check_id"`
	Timestamp Timestamp   `json:"timestamp"`
	Recorded  Verdict     `json:"recorded"`
	Candidate Verdict     `json:"candidate"`
	Action    *FlipAction `json:"action,omitempty"` // nil without checks:read
}

// FlipAction is the part of the action that a flip shows.
type FlipAction struct {
	AgentID      string     `json:"agent_id"`
	ActionType   ActionType `json:"action_type"`
	Amount       Amount     `json:"amount"`
	Currency     string     `json:"currency"`
	Counterparty string     `json:"counterparty"`
}

// Verdict is a decision and the rule that made it.
type Verdict struct {
	Decision      Decision `json:"decision"`
	RuleID        string   `json:"rule_id,omitempty"`
	ReasonCode    string   `json:"reason_code,omitempty"`
	PolicyVersion int      `json:"policy_version,omitempty"` // 0 for a candidate with rules
}

// CreateBacktest starts a backtest. The request is not repeated when the backtest may have been
// stored.
func (c *Client) CreateBacktest(ctx context.Context, b NewBacktest) (*Backtest, error) {
	return fetch[Backtest](ctx, c, request{method: http.MethodPost, path: "/v1/backtests", content: b, status: http.StatusAccepted})
}

func backtestPath(id string) string { return "/v1/backtests/" + url.PathEscape(id) }

// Backtest reads a backtest, with its report once it has succeeded.
func (c *Client) Backtest(ctx context.Context, id string) (*Backtest, error) {
	return fetch[Backtest](ctx, c, get(backtestPath(id)))
}

// AwaitBacktest reads a backtest until it has ended, and calls each, unless nil, with every reading.
func (c *Client) AwaitBacktest(ctx context.Context, id string, each func(*Backtest)) (*Backtest, error) {
	return await(ctx, func() (*Backtest, error) { return c.Backtest(ctx, id) }, each)
}

// await reads something once a second until it has ended.
func await[T interface{ Ended() bool }](ctx context.Context, read func() (T, error), each func(T)) (none T, _ error) {
	for {
		found, err := read()
		if err != nil {
			return none, err
		}
		if each != nil {
			each(found)
		}
		if found.Ended() {
			return found, nil
		}
		if err := pause.For(ctx, time.Second); err != nil {
			return none, err
		}
	}
}

// CancelBacktest cancels a backtest that has not ended.
func (c *Client) CancelBacktest(ctx context.Context, id string) (*Backtest, error) {
	return fetch[Backtest](ctx, c, post(backtestPath(id)+"/cancel", nil))
}

// BacktestQuery selects backtests; all fields may be empty.
type BacktestQuery struct {
	PolicyID string `json:"policy_id"`
	Status   string `json:"status"`
}

// AllBacktests reads the backtests of a query, newest first. An error is the last that it yields.
func (c *Client) AllBacktests(ctx context.Context, q BacktestQuery) iter.Seq2[Backtest, error] {
	return pages[Backtest](ctx, c, wholePages("/v1/backtests", q))
}

// AllFlips reads the flips of a backtest, in their order. An error is the last that it yields.
func (c *Client) AllFlips(ctx context.Context, id string) iter.Seq2[Flip, error] {
	return pages[Flip](ctx, c, wholePages(backtestPath(id)+"/flips", struct{}{}))
}
