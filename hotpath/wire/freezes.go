package wire

// Freeze stops everything in its scope while it is active (S87).
type Freeze struct {
	FreezeID   string          `json:"freeze_id"`
	Scope      FreezeScope     `json:"scope"`
	Reason     string          `json:"reason"`
	Until      *Timestamp      `json:"until"` // nil: until it is released
	CreatedAt  Timestamp       `json:"created_at"`
	CreatedBy  *PolicyAuthor   `json:"created_by"` // nil: with the admin key
	Status     string          `json:"status"`     // active, released or over
	ReleasedAt *Timestamp      `json:"released_at"`
	Releases   []FreezeRelease `json:"releases"`
	Required   int             `json:"required"` // people who must release it
	Missing    int             `json:"missing"`  // of these
	Reaches    *FreezeReaches  `json:"reaches"`  // of a new freeze, if it was counted in time
}

// FreezeScope is what a freeze stops. It has one member.
type FreezeScope struct {
	All          bool   `json:"all,omitzero"`
	PolicyID     string `json:"policy_id,omitzero"`
	AgentID      string `json:"agent_id,omitzero"`
	Principal    string `json:"principal,omitzero"`
	Counterparty string `json:"counterparty,omitzero"`
}

// FreezeRelease is the release of a freeze by a person. Principal and KeyID are null of an admin.
type FreezeRelease struct {
	Principal string    `json:"principal" wire:"null"`
	KeyID     string    `json:"key_id" wire:"null"`
	Note      string    `json:"note"`
	At        Timestamp `json:"at"`
}

// FreezeReaches is what a freeze reaches of the last 24 hours: checks, and principals that asked for them.
type FreezeReaches struct {
	Checks     int64 `json:"checks"`
	Principals int64 `json:"principals"`
}

// FreezeEvent is the data of an event of a freeze.
type FreezeEvent struct {
	FreezeID string      `json:"freeze_id"`
	Scope    FreezeScope `json:"scope"`
	Reason   string      `json:"reason"`
	Until    *Timestamp  `json:"until"`
	By       ChangedBy   `json:"by"`
}
