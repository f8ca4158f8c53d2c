package spend

import (
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
)

// Shadow is the judgement of a check by the policy's draft (S54): its verdict, or why it has none.
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
	LackCounters Lack = "counters_unavailable" // the store did not return the draft's counters in time
	LackFailure  Lack = "failed"               // judging it failed
	LackNeed     Lack = "approval_not_needed"  // the draft allows the check that asked for the approval which this one used
)

// The formats of a check's row.
const (
	FormatPlain    = 1
	FormatShadowed = 2 // with a draft's judgement
)

// Format returns the format of the check's row: its fields and the encoder that renders it, so that a
// later version renders an old row as it was answered.
func (c *Check) Format() int16 {
	if c.Shadow == nil {
		return FormatPlain
	}
	return FormatShadowed
}

// shadowText is a Shadow in the form of a check's row, which AppendText writes.
type shadowText struct {
	Draft    int64  `json:"draft"`
	Without  Lack   `json:"without,omitempty"`
	Decision string `json:"decision,omitempty"`
	Reason   Reason `json:"reason_code,omitempty"`
	RuleID   string `json:"rule_id,omitempty"`
}

// AppendText adds the shadow in the form of a check's row, as JSON; nothing for nil. It writes the
// text of shadowText without its allocations: each judged check has two.
func (s *Shadow) AppendText(dst []byte) []byte {
	if s == nil {
		return dst
	}
	dst = strconv.AppendInt(append(dst, `{"draft":`...), s.Draft, 10)
	if s.Without != "" {
		dst = appendMember(dst, "without", string(s.Without))
	} else {
		dst = appendMember(dst, "decision", s.Effect.String())
		dst = appendMember(dst, "reason_code", string(s.Reason))
		dst = appendMember(dst, "rule_id", s.RuleID)
	}
	return append(dst, '}')
}

// appendMember adds a member, unless it is empty. Texts that need escaping are left to encoding/json.
func appendMember(dst []byte, name, value string) []byte {
	if value == "" {
		return dst
	}
	dst = append(append(append(dst, ',', '"'), name...), '"', ':')
	for i := range len(value) {
		if c := value[i]; c < ' ' || c > '~' || c == '"' || c == '\\' || c == '<' || c == '>' || c == '&' {
			text, err := json.Marshal(value)
			if err != nil {
				panic(fmt.Sprintf("BUG: a text has no JSON: %v", err))
			}
			return append(dst, text...)
		}
	}
	return append(append(append(dst, '"'), value...), '"')
}

// ParseShadow is the inverse of AppendText.
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
