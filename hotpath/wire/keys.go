package wire

// Grants are what an API key may do, and whom it belongs to (S29 to S32). A nil or empty field is not
// sent. A key without role and scopes has the rights of role full.
type Grants struct {
	Role      string     `json:"role,omitzero"`       // agent, author, approver, executor, gateway, auditor or full
	Scopes    []string   `json:"scopes,omitzero"`     // instead of a role: checks:write and so on
	PolicyIDs []string   `json:"policy_ids,omitzero"` // nil: any; a list that is empty is refused
	AgentIDs  []string   `json:"agent_ids,omitzero"`  // nil: any; a list that is empty is refused
	Principal string     `json:"principal,omitzero"`  // if empty, the service uses KeyID
	Owner     string     `json:"owner,omitzero"`
	Groups    []string   `json:"groups,omitzero"` // of the person who decides with the key; an empty list is refused
	ExpiresAt *Timestamp `json:"expires_at,omitzero"`
}

// Key is the record of an API key (S25).
type Key struct {
	KeyID        string    `json:"key_id"`
	Name         string    `json:"name"`
	Email        string    `json:"email,omitzero"` // of a person who signed in (S78); empty for a key
	RateLimitRPM int       `json:"rate_limit_rpm"` // requests per minute, over the fleet
	Active       bool      `json:"active"`
	CreatedAt    Timestamp `json:"created_at"`

	// LastUsedAt is when the key was last used for a check or a new policy; nil if never. It may be a
	// minute late.
	LastUsedAt *Timestamp `json:"last_used_at"`

	Grants

	Stopped *Stopped `json:"stopped,omitzero"` // by the change that deactivated the key; nil elsewhere
}

// Stopped counts the checks that a key was allowed, that nobody redeemed, and that were stopped when it was deactivated; nil
// where counting took too long.
type Stopped struct {
	Checks *int64 `json:"checks"`
	Voided *int64 `json:"voided"` // those that only a redemption carries out, which are given back
}

// NewKey is an API key right after its creation: the only time that it is shown.
type NewKey struct {
	KeyID        string    `json:"key_id"`
	Name         string    `json:"name"`
	APIKey       string    `json:"api_key"`
	RateLimitRPM int       `json:"rate_limit_rpm"`
	CreatedAt    Timestamp `json:"created_at"`
	Grants
}

// String names the key and does not show it.
func (k NewKey) String() string { return "API key " + k.KeyID }

// GoString returns String.
func (k NewKey) GoString() string { return k.String() }

// Session is the session of a person who signed in (S78), with the rights that their groups give.
type Session struct {
	SessionID  string    `json:"session_id"`
	Name       string    `json:"name"` // as the provider said at the sign-in
	Email      string    `json:"email,omitzero"`
	CreatedAt  Timestamp `json:"created_at"`
	LastUsedAt Timestamp `json:"last_used_at"`
	EndsAt     Timestamp `json:"ends_at"` // unless it is used

	Grants
}
