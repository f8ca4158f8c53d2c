package report

import (
	"encoding/json"
	"fmt"

	"spendgate/audit/spend"
)

// Flip is a check that the candidate decides otherwise than it is recorded.
type Flip struct {
	CheckID   spend.ID
	Action    FlipAction
	Recorded  Verdict
	Candidate Verdict
}

// FlipAction is the part of the action that a flip shows.
type FlipAction struct {
	AgentID      string
	Type         spend.ActionType // as resolved
	Amount       spend.Amount
	Currency     string
	Counterparty string
}

// FlipOf returns the flip of a check.
func FlipOf(c *spend.Check, recorded, candidate Verdict) Flip {
	a := &c.Action
	return Flip{c.ID, FlipAction{a.AgentID, c.ActionType, a.Amount, a.Currency, a.Counterparty}, recorded, candidate}
}

// verdictText is a Verdict as it is kept and shown.
type verdictText struct {
	Decision string  `json:"decision"`
	RuleID   *string `json:"rule_id"`
	Reason   *string `json:"reason_code"`
	Version  *int    `json:"policy_version"`
}

func orNull[T comparable](value T) *T {
	var none T
	if value == none {
		return nil
	}
	return &value
}

func (v *Verdict) text() verdictText {
	return verdictText{v.Effect.String(), orNull(v.RuleID), orNull(string(v.Reason)), orNull(v.Version)}
}

// JSON returns the flip as it is kept and shown.
func (f *Flip) JSON() string {
	type action struct {
		AgentID      string       `json:"agent_id"`
		Type         string       `json:"action_type"`
		Amount       spend.Amount `json:"amount"`
		Currency     string       `json:"currency"`
		Counterparty string       `json:"counterparty"`
	}
	a := &f.Action
	text, err := json.Marshal(struct {
		CheckID   string      `json:"check_id"`
		Timestamp Time        `json:"timestamp"`
		Recorded  verdictText `json:"recorded"`
		Candidate verdictText `json:"candidate"`
		Action    action      `json:"action"`
	}{
		f.CheckID.Text(spend.PrefixCheck), Time(f.CheckID.Time()), f.Recorded.text(), f.Candidate.text(),
		action{a.AgentID, a.Type.String(), a.Amount, a.Currency, a.Counterparty},
	})
	if err != nil {
		panic(fmt.Sprintf("BUG: a flip has no JSON: %v", err))
	}
	return string(text)
}
