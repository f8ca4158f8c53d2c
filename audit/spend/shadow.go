package spend

import (
	"encoding/json"
	"errors"
	"fmt"
)

// Shadow is what a draft of the policy makes of a check (S54): its verdict, or why it
// has none.
type Shadow struct {
	Draft   int64 // the generation of the configuration that made the draft
	Without Lack  // empty when there is a verdict
	Effect  Effect
	Reason  Reason // empty on allow
	RuleID  string // likewise
}

// Lack is why a check has no verdict of the draft.
type Lack string

// The lacks.
const (
	LackCounters Lack = "counters_unavailable" // the store did not tell in time what the draft counted
	LackFailure  Lack = "failed"               // judging it failed
)

// The formats of a check's row.
const (
	FormatPlain    = 1
	FormatShadowed = 2 // with what a draft makes of it
)

// Format returns the format of the check's row: the encoder by which it is rendered, and
// the fields that it has. A later encoder renders an old row as it was answered.
func (c *Check) Format() int16 {
	if c.Shadow == nil {
		return FormatPlain
	}
	return FormatShadowed
}

// shadowText is a Shadow as a check's row keeps it.
type shadowText struct {
	Draft    int64  `json:"draft"`
	Without  Lack   `json:"without,omitempty"`
	Decision string `json:"decision,omitempty"`
	Reason   Reason `json:"reason_code,omitempty"`
	RuleID   string `json:"rule_id,omitempty"`
}

// Text returns the shadow as a check's row keeps it, JSON; empty of nil.
func (s *Shadow) Text() string {
	if s == nil {
		return ""
	}
	t := shadowText{Draft: s.Draft, Without: s.Without}
	if s.Without == "" {
		t.Decision, t.Reason, t.RuleID = s.Effect.String(), s.Reason, s.RuleID
	}
	text, err := json.Marshal(t)
	if err != nil {
		panic(fmt.Sprintf("BUG: a shadow has no JSON: %v", err))
	}
	return string(text)
}

// ParseShadow is the inverse of Text.
func ParseShadow(text string) (*Shadow, error) {
	if text == "" {
		return nil, nil
	}
	var t shadowText
	err := json.Unmarshal([]byte(text), &t)
	effect, known := ParseEffect(t.Decision)
	if err == nil && t.Without == "" && !known {
		err = errors.New("it has neither a decision nor a reason for none")
	}
	if err != nil {
		return nil, fmt.Errorf("cannot read what a draft makes of a check: %w", err)
	}
	return &Shadow{Draft: t.Draft, Without: t.Without, Effect: effect, Reason: t.Reason, RuleID: t.RuleID}, nil
}
