package judge

import (
	"encoding/json"
	"fmt"
	"io"
	"time"
)

// History is the record of a run. Times are since its beginning, by one
// monotonic clock.
type History struct {
	Run        Run         `json:"run"`
	Keys       []Key       `json:"keys"`
	Ops        []Op        `json:"ops"`
	Faults     []Fault     `json:"faults"`
	Rows       []Row       `json:"rows"`
	Violations []Violation `json:"violations"`
	Policies   []Policy    `json:"policies"`
	Counters   []Counter   `json:"counters"`
	Outcomes   []Outcome   `json:"outcomes"`

	Redemptions []Redemption `json:"redemptions,omitempty"` // in the order of the steps of each check

	Payments []PaymentStep `json:"payments,omitempty"` // of each payment in the order of its versions

	Freezes []FreezeStep `json:"freezes,omitempty"` // in the order of the changes

	GrantSteps []GrantStep `json:"grants,omitempty"` // in the order of the changes

	Decisions []ApprovalDecision `json:"decisions"`
	Uses      []Use              `json:"uses"`
}

// Run describes the run of a history.
type Run struct {
	Seed  uint64    `json:"seed"`
	Began time.Time `json:"began"` // what the clocks of the rows showed at time 0
	// Unproved is what the service's own verifier found in the trail, a line each; empty if it
	// found nothing.
	Unproved string `json:"unproved,omitempty"`
	// Flipped lists, a line each, what versions decided differently when replayed over their own
	// periods.
	Flipped string `json:"flipped,omitempty"`
}

// Key is an API key as it was created.
type Key struct {
	ID    string `json:"key_id"`
	Limit int    `json:"limit"` // requests a minute
	Role  string `json:"role,omitempty"`
	Group string `json:"group,omitempty"` // of approvers

	Principal string `json:"principal,omitempty"` // if it is given one
}

// Kind is what a request asks for.
type Kind string

// The kinds of an Op.
const (
	Check    Kind = "check"
	Simulate Kind = "simulate"
	Get      Kind = "get"    // a check, again
	Post     Kind = "policy" // a new version
	Patch    Kind = "key"    // a changed key
	Report   Kind = "outcome"
	Redeem   Kind = "redeem"
	Doubt    Kind = "in-doubt"
	Pay      Kind = "payment"  // a check of a payment, with a nonce
	Approval Kind = "approval" // an approval, read
	Approve  Kind = "approve"
	Deny     Kind = "deny"

	PayReport Kind = "payment's outcome"

	Freeze Kind = "freeze"
	Thaw   Kind = "release of a freeze"

	Grant  Kind = "grant"
	Revoke Kind = "revocation"
)

// Op is one request and what came of it.
type Op struct {
	ID       int             `json:"id"`
	Kind     Kind            `json:"kind"`
	Agent    string          `json:"agent"`             // who sent it
	Via      string          `json:"via"`               // the node it was sent to, or Balancer
	Key      string          `json:"key,omitempty"`     // the API key's ID
	Subject  string          `json:"subject,omitempty"` // the ID of the check, key (Patch), freeze (Thaw) or approval
	Sent     time.Duration   `json:"sent"`
	Done     time.Duration   `json:"done"`
	Request  json.RawMessage `json:"request,omitempty"`
	Status   int             `json:"status"` // 0: no answer
	Answer   string          `json:"answer,omitempty"`
	Replayed bool            `json:"replayed,omitempty"`
	Retry    bool            `json:"retry_after,omitempty"` // the answer says when to try again
	Error    string          `json:"error,omitempty"`       // why there is no answer
}

// Balancer is the Via of what went through the load balancer.
const Balancer = "balancer"

func (o *Op) failed() bool { return o.Status == 0 || o.Status >= 500 }

// overlaps reports whether the request was in flight within [from, to].
func (o *Op) overlaps(from, to time.Duration) bool { return o.Sent <= to && o.Done >= from }

// Fault is something that was done to the fleet.
type Fault struct {
	Name    string        `json:"name"`
	From    time.Duration `json:"from"`
	To      time.Duration `json:"to"`                // when it was repaired
	Excuses []string      `json:"excuses,omitempty"` // where requests may fail; nil means anywhere
	Hangs   []string      `json:"hangs,omitempty"`   // what may answer late
	Loses   bool          `json:"loses,omitempty"`   // Redis' memory
	Rolls   bool          `json:"rolls,omitempty"`   // part of a rolling restart
	Redis   bool          `json:"redis,omitempty"`   // Redis was unreachable, at least from some nodes
}

// Row is a recorded check.
type Row struct {
	CheckID        string  `json:"check_id"`
	AtMS           int64   `json:"at_ms"`      // Unix milliseconds
	ClaimedMS      *int64  `json:"claimed_ms"` // nil if the duplicate guard or a budget blocked
	PolicyID       string  `json:"policy_id"`
	PolicyVersion  int     `json:"policy_version"`
	LatencyMS      int64   `json:"latency_ms"`
	Decision       string  `json:"decision"`
	Confidence     string  `json:"confidence"`
	ReasonCode     *string `json:"reason_code"`
	Message        *string `json:"message"`
	RuleID         *string `json:"rule_id"`
	RuleText       *string `json:"rule_description"`
	NextStep       *string `json:"next_step"`
	KeyID          string  `json:"key_id"`
	ActionType     string  `json:"action_type"` // as resolved
	AgentID        string  `json:"agent_id"`
	Amount         string  `json:"amount"`
	Currency       string  `json:"currency"`
	Counterparty   string  `json:"counterparty"`
	PaymentMethod  *string `json:"payment_method"`
	Vendor         *string `json:"merchant_or_vendor"`
	ReasonText     *string `json:"reason_text"`
	IdempotencyKey *string `json:"idempotency_key"`
	Metadata       *string `json:"metadata"`
	ApprovalID     *string `json:"approval_id,omitempty"` // the approval that the request named
	Asks           int     `json:"asks,omitempty"`        // how many people are asked for their approval
	// From has the groups of which one person each is asked; empty if anybody may approve.
	From []string `json:"from,omitempty"`

	Charges     *string `json:"charges,omitempty"`      // what it took from budgets, JSON
	CommittedUS int64   `json:"committed_us,omitempty"` // Unix microseconds
}

func (r *Row) passed() bool { return r.ClaimedMS != nil }

// frozen reports a block by a freeze, which leaves no fingerprint (S87).
func (r *Row) frozen() bool { return r.Decision == "block" && deref(r.ReasonCode) == frozenCode }

// exceeded reports a block by a budget, which leaves no fingerprint (S60).
func (r *Row) exceeded() bool {
	return r.Decision == "block" && (deref(r.ReasonCode) == "budget_exceeded" || deref(r.ReasonCode) == "count_limit_exceeded")
}

// Violation is a recorded violation.
type Violation struct {
	CheckID       string `json:"check_id"`
	PolicyID      string `json:"policy_id"`
	PolicyVersion int    `json:"policy_version"`
	LatencyMS     int64  `json:"latency_ms"`
	ActionType    string `json:"action_type"`
	Decision      string `json:"decision"`
	Confidence    string `json:"confidence"`
	Amount        string `json:"amount"`
	Currency      string `json:"currency"`
	AgentID       string `json:"agent_id"`
	Counterparty  string `json:"counterparty"`
	RuleID        string `json:"rule_id"`
	RuleText      string `json:"rule_description"`
}

// Policy is a stored version of a policy.
type Policy struct {
	ID      string          `json:"policy_id"`
	Version int             `json:"version"`
	Rules   json.RawMessage `json:"rules"`
}

// Write writes the history as JSON.
func (h *History) Write(w io.Writer) error {
	if err := json.NewEncoder(w).Encode(h); err != nil {
		return fmt.Errorf("cannot write a history: %w", err)
	}
	return nil
}

// Read reads what Write wrote.
func Read(r io.Reader) (*History, error) {
	h := &History{}
	if err := json.NewDecoder(r).Decode(h); err != nil {
		return nil, fmt.Errorf("cannot read a history: %w", err)
	}
	return h, nil
}
