package wire

// ApprovalStatus is the status of an approval. Only pending approvals can still be approved; an
// approved one allows nothing until a Check with its ID is allowed.
type ApprovalStatus string

// The statuses.
const (
	ApprovalPending  ApprovalStatus = "pending"
	ApprovalApproved ApprovalStatus = "approved"
	ApprovalDenied   ApprovalStatus = "denied"
	ApprovalExpired  ApprovalStatus = "expired"
	ApprovalUsed     ApprovalStatus = "used"
)

// The kinds of what waits for a decision.
const (
	KindApproval = "approval"
	KindDraft    = "draft"
)

// Approval is what an escalated check asks of people (S43).
type Approval struct {
	Kind       string         `json:"kind"` // approval
	ApprovalID string         `json:"approval_id"`
	Status     ApprovalStatus `json:"status"`
	CheckID    string         `json:"check_id"`
	Principal  string         `json:"principal"` // of the API key that asked
	// Action is the action to be approved. Text that agents wrote in it is only text. The hash
	// covers neither ReasonText nor IdempotencyKey.
	Action        RecordedAction `json:"action"`
	ActionHash    string         `json:"action_hash"`
	RuleIDs       []string       `json:"rule_ids"` // the rules that escalated the action
	PolicyID      string         `json:"policy_id"`
	PolicyVersion int            `json:"policy_version"`
	Required      int            `json:"required"` // the number of people who have to approve
	// Missing is how many approvals are missing in all, and From are the groups whose members have to
	// approve; both are left out when anybody may approve.
	Missing       *int               `json:"missing,omitzero"`
	From          []ApprovalGroup    `json:"from,omitzero"`
	ExcludeAuthor bool               `json:"exclude_author,omitzero"` // the author of the version does not decide
	Decisions     []ApprovalDecision `json:"decisions"`
	CreatedAt     Timestamp          `json:"created_at"`
	ExpiresAt     Timestamp          `json:"expires_at"`
	UseBy         *Timestamp         `json:"use_by,omitempty" wire:"null"` // nil before it is approved
	UsedByCheckID string             `json:"used_by_check_id,omitempty" wire:"null"`
	Remaining     []BudgetRemaining  `json:"remaining,omitzero"` // what the action's budgets have left; not in lists
	NextStep      string             `json:"next_step"`
}

// ApprovalGroup is how many people of a group, or of any of several groups, have to approve.
type ApprovalGroup struct {
	Group    string   `json:"group,omitzero"`
	AnyOf    []string `json:"any_of,omitzero"`
	Required int      `json:"required"`
	// Missing is how many more approvals would count. With several groups the sum may exceed what the
	// approval lacks in all, since one person can count for either group.
	Missing int `json:"missing"`
}

// ApprovalDecision is one person's decision.
type ApprovalDecision struct {
	Principal string    `json:"principal"`
	Name      string    `json:"name,omitzero"` // of a person who had signed in (S78), as recorded then
	Email     string    `json:"email,omitzero"`
	KeyID     string    `json:"key_id"`   // or the session_id of a person who had signed in
	Decision  string    `json:"decision"` // approve or deny
	Note      string    `json:"note,omitempty" wire:"null"`
	At        Timestamp `json:"at"`
	Groups    []string  `json:"groups,omitzero"` // the key's groups, as recorded then
	Void      bool      `json:"void,omitzero"`   // it counts no more (S92)
}

// BudgetRemaining is what a budget has left for an action. A nil field means no limit.
type BudgetRemaining struct {
	RuleID         string  `json:"rule_id"`
	Remaining      *Number `json:"remaining,omitempty" wire:"null"`
	RemainingCount *Number `json:"remaining_count,omitempty" wire:"null"`
	// AfterApproved is the amount left once all approved and unused approvals are used.
	AfterApproved      *Number `json:"remaining_after_approved,omitempty" wire:"null"`
	AfterApprovedCount *Number `json:"remaining_count_after_approved,omitempty" wire:"null"`
}

// Number is a number as received. It is shown to people and not used in arithmetic, so any number is
// accepted: an odd one must not prevent a decision.
type Number string

// UnmarshalJSON keeps the text.
func (n *Number) UnmarshalJSON(text []byte) error {
	*n = Number(text)
	return nil
}

// MarshalJSON writes the number as received.
func (n Number) MarshalJSON() ([]byte, error) { return []byte(n), nil }
