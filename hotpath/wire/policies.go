package wire

import "encoding/json"

// Policy is one version of a policy.
type Policy struct {
	PolicyID    string          `json:"policy_id"`
	Name        string          `json:"name"`
	Description string          `json:"description,omitzero"`
	Version     int             `json:"version"`
	Rules       json.RawMessage `json:"rules"` // an array
	Terms
	CreatedAt Timestamp       `json:"created_at"`                     // of the policy's first version
	UpdatedAt Timestamp       `json:"updated_at"`                     // of this version
	Metadata  json.RawMessage `json:"metadata,omitempty" wire:"null"` // an object; nil if there is none
}

// Terms are the terms of a policy for redemptions and for its next version.
type Terms struct {
	// Redeem is "required" if only redeemed checks can be reported as executed (S74).
	Redeem              string `json:"redeem,omitzero"`
	RedeemWithinMinutes int    `json:"redeem_within_minutes,omitzero"` // how old a check may be that is redeemed; 0 is 15
	// Changes are the approvals that the next version needs; nil for none (S80).
	Changes json.RawMessage `json:"changes,omitzero"`
}

// VersionMade says who made a version of a policy.
type VersionMade struct {
	Author    *PolicyAuthor `json:"author,omitempty" wire:"null"` // nil for a version made with the admin key
	DraftedBy *PolicyAuthor `json:"drafted_by,omitzero"`          // the author of the draft that became the version; nil for other versions
	Note      string        `json:"note,omitempty" wire:"null"`
	// Of a version that was a draft: who approved it, and whether the admin key forced it.
	ApprovedBy []DraftDecision `json:"approved_by,omitzero"`
	Forced     *bool           `json:"forced,omitzero"`
}

// PolicyVersion is one of the versions of a policy.
type PolicyVersion struct {
	Policy
	VersionMade
}

// PolicyAuthor identifies the API key that made a version of a policy.
type PolicyAuthor struct {
	Principal string `json:"principal"`
	KeyID     string `json:"key_id"`
}

// GroupRequired is how many people of a group have to approve; an approval may name several groups in AnyOf instead.
type GroupRequired struct {
	Group    string   `json:"group,omitzero"`
	AnyOf    []string `json:"any_of,omitzero"`
	Required int      `json:"required,omitempty"` // 0 is 1
}

// Draft is a possible next version of a policy (S54).
type Draft struct {
	PolicyID    string          `json:"policy_id"`
	DraftHash   string          `json:"draft_hash"` // no two drafts have the same
	BaseVersion int             `json:"base_version"`
	Name        string          `json:"name"`
	Description string          `json:"description,omitzero"`
	Rules       json.RawMessage `json:"rules"`                          // an array
	Metadata    json.RawMessage `json:"metadata,omitempty" wire:"null"` // an object
	Terms
	CreatedAt Timestamp     `json:"created_at"`
	Author    *PolicyAuthor `json:"author,omitempty" wire:"null"`
	Note      string        `json:"note,omitempty" wire:"null"`

	// These are present if the version in force requires approvals (S80), except in the answer to a PUT.
	Status        string          `json:"status,omitzero"`         // waiting, approved or rejected
	Rejection     *DraftDecision  `json:"rejection,omitzero"`      // of a rejected draft, whose approvals do not count
	PolicyVersion int             `json:"policy_version,omitzero"` // in force
	Required      int             `json:"required,omitzero"`       // people, in all
	Missing       *int            `json:"missing,omitzero"`
	From          []ApprovalGroup `json:"from,omitzero"`
	Approvals     []DraftApproval `json:"approvals,omitzero"`
}

// WaitingDraft is a draft among what waits for a decision (S93).
type WaitingDraft struct {
	Kind      string        `json:"kind"`
	PolicyID  string        `json:"policy_id"`
	DraftHash string        `json:"draft_hash"`
	Author    *PolicyAuthor `json:"author" wire:"null"`
	Note      string        `json:"note" wire:"null"`
	MadeAt    Timestamp     `json:"made_at"`
	Missing   int           `json:"missing"` // people
}

// DraftDecision is a person's approval or rejection of a draft.
type DraftDecision struct {
	Principal     string    `json:"principal"`
	Name          string    `json:"name,omitzero"` // of a person who had signed in (S78), as recorded then
	Email         string    `json:"email,omitzero"`
	KeyID         string    `json:"key_id"` // or the session_id
	Note          string    `json:"note,omitempty" wire:"null"`
	At            Timestamp `json:"at"`
	PolicyVersion int       `json:"policy_version"` // in force then
}

// DraftApproval is a person's approval of a draft.
type DraftApproval struct {
	DraftDecision
	Counts      bool     `json:"counts"` // whether it counts for a promotion now
	Groups      []string `json:"groups,omitzero"`
	DropBudgets []string `json:"drop_budgets,omitzero"`
}
