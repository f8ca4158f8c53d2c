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

// flipText is a Flip as it is kept and shown.
type flipText struct {
	CheckID   string          `json:"check_id"`
	Timestamp json.RawMessage `json:"timestamp"`
	Recorded  verdictText     `json:"recorded"`
	Candidate verdictText     `json:"candidate"`
	Action    *actionText     `json:"action"`
}

type actionText struct {
	AgentID      string          `json:"agent_id"`
	Type         string          `json:"action_type"`
	Amount       json.RawMessage `json:"amount"`
	Currency     string          `json:"currency"`
	Counterparty string          `json:"counterparty"`
}

// JSON returns the flip as it is kept.
func (f *Flip) JSON() string { return f.Show(Shown{}) }

// Show returns the flip as it is to be shown.
func (f *Flip) Show(as Shown) string {
	a := &f.Action
	text := flipText{
		f.CheckID.Text(spend.PrefixCheck), json.RawMessage(marshal(Time(f.CheckID.Time()))), f.Recorded.text(), f.Candidate.text(),
		&actionText{a.AgentID, a.Type.String(), a.Amount.Append(nil), a.Currency, a.Counterparty},
	}
	return text.show(as)
}

// Shown is how a flip is shown.
type Shown struct {
	NoAction    bool // without the data of the check
	TextAmounts bool // with the amount as a string
}

// ShowFlip returns a flip that was kept, as it is to be shown.
func ShowFlip(kept string, as Shown) (string, error) {
	var f flipText
	if err := json.Unmarshal([]byte(kept), &f); err != nil {
		return "", fmt.Errorf("cannot read a flip that was kept: %w", err)
	}
	return f.show(as), nil
}

func (f *flipText) show(as Shown) string {
	switch {
	case as.NoAction:
		f.Action = nil
	case as.TextAmounts && f.Action != nil:
		f.Action.Amount = fmt.Appendf(nil, "%q", f.Action.Amount)
	}
	return marshal(f)
}

func marshal(value any) string {
	text, err := json.Marshal(value)
	if err != nil {
		panic(fmt.Sprintf("BUG: a flip has no JSON: %v", err))
	}
	return string(text)
}
