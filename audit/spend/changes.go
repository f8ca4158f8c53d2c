package spend

import (
	"encoding/json"
	"fmt"
)

// ChangesText is the approvals that a policy requires for its next version (S80), as its row has them.
// Absent members are left out.
type ChangesText struct {
	Required int             `json:"required,omitempty"`
	From     []GroupRequired `json:"from,omitempty"`
}

// Text returns JSON.
func (t *ChangesText) Text() string {
	text, err := json.Marshal(t)
	if err != nil {
		panic(fmt.Sprintf("BUG: what a policy asks of changes has no JSON: %v", err))
	}
	return string(text)
}

// ParseChanges returns the approvals that a policy requires for its next version, nil for none: only
// Required and From are set. The greater of required and the sum of from holds.
func ParseChanges(text string) (*ApprovalRequest, error) {
	if text == "" {
		return nil, nil
	}
	var t ChangesText
	if err := json.Unmarshal([]byte(text), &t); err != nil {
		return nil, fmt.Errorf("cannot read what a policy asks of changes: %w", err)
	}
	ofGroups := 0
	for _, g := range t.From {
		ofGroups += g.Required
	}
	return &ApprovalRequest{Required: max(t.Required, ofGroups, 1), From: t.From}, nil
}
