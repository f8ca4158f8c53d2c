package audit

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"spendgate/audit/spend"
)

// BudgetGrants keeps grants, which raise the limits of counters (S91). A grant is its changes in the record.
type BudgetGrants interface {
	// RecordGrant records a change of a grant: no commit that was judged by the grants before is recorded after it returned
	// (spend.Fence.Stops). It fails with ErrStaleStops if another change stopped something since the change was judged. A
	// creation is replayed if a grant with that ID is there, which then may be another.
	RecordGrant(ctx context.Context, by Actor, c GrantChange) (replayed bool, err error)
	// BudgetGrant returns a grant as it is, or ErrNotFound.
	BudgetGrant(ctx context.Context, id spend.ID) (*BudgetGrant, error)
	// ListBudgetGrants returns a page, newest first.
	ListBudgetGrants(ctx context.Context, q GrantQuery) (page []BudgetGrant, more bool, err error)
}

// The bounds of grants.
const (
	// MaxGrants is how many of a counter may be open or wait.
	MaxGrants = 20
	// MaxGrantTime is how long a grant of a rolling window or a lifetime lasts at most.
	MaxGrantTime = 31 * 24 * time.Hour
	// GrantMargin is for how long after its end nodes know a grant, since clocks differ.
	GrantMargin = time.Minute
)

// GrantTerms are what a grant raises, by how much and until when.
type GrantTerms struct {
	Counter   spend.Counter `json:"-"` // StartMS of its calendar window; of a rolling window and a lifetime 0
	PolicyID  string        `json:"policy_id"`
	RuleID    string        `json:"rule_id"`
	Since     int           `json:"since"` // the version since which the counter counts
	Per       []string      `json:"per"`
	Subject   string        `json:"subject"`             // the text of which the counter's ID is a hash
	AgentID   string        `json:"agent_id,omitempty"`  // the subject's; empty unless the budget is per agent
	AddAmount spend.Total   `json:"add_amount,omitzero"` // or
	AddCount  int64         `json:"add_count,omitempty"`
	Currency  string        `json:"currency,omitempty"` // of AddAmount
	Until     time.Time     `json:"-"`
	Note      string        `json:"note"`
	Required  int           `json:"required,omitempty"` // people besides the granter who must approve it
	Request   string        `json:"request_sha256"`     // in hex
}

// IsOf reports whether the grant is of a policy, and of an agent; empty ones are any.
func (t *GrantTerms) IsOf(policyID, agentID string) bool {
	return (policyID == "" || t.PolicyID == policyID) && (agentID == "" || t.AgentID == spend.NFC(agentID))
}

// Covers reports whether the grant is of the counter from which the charge takes, in its window.
func (t *GrantTerms) Covers(c *spend.Charge) bool {
	return t.Counter.ID == c.Counter.ID && t.Counter.BucketMS == c.Counter.BucketMS &&
		(c.Counter.BucketMS > 0 || t.Counter.StartMS == c.Counter.StartMS)
}

// BudgetGrant is a grant with its approvals.
type BudgetGrant struct {
	GrantTerms

	ID        spend.ID
	Seq       int64 // of the change that created it
	Last      int64 // of its last change
	CreatedAt time.Time
	By        Release   // who granted
	Approvals []Release // by others
	Revoked   *Release  // nil until it is revoked
}

// GrantChange is a change of a grant to be recorded.
type GrantChange struct {
	Kind  ChangeKind
	ID    spend.ID
	Terms *GrantTerms
	Note  string // of an approval or a revocation
	Name  string // of a person who has signed in
	Seen  int64  // the last stop by which it was judged
}

// GrantQuery selects grants.
type GrantQuery struct {
	Before int64 // only smaller numbers; 0: all
	Limit  int
}

// grantDetails is the record of a change of a grant.
type grantDetails struct {
	GrantTerms
	StartMS  int64  `json:"start_ms"`
	BucketMS int64  `json:"bucket_ms"`
	UntilMS  int64  `json:"until_ms"`
	Said     string `json:"said,omitempty"` // the note of an approval or a revocation
	Owner    string `json:"owner,omitempty"`
	Email    string `json:"email,omitempty"`
	Name     string `json:"name,omitempty"`
}

// Details returns the record of the change, as JSON.
func (c *GrantChange) Details(by *Actor) string {
	t := c.Terms
	return jsonText(grantDetails{
		GrantTerms: *t, StartMS: t.Counter.StartMS, BucketMS: t.Counter.BucketMS, UntilMS: t.Until.UnixMilli(),
		Said: c.Note, Owner: by.Owner, Email: by.Email, Name: c.Name,
	})
}

// Hash identifies the counter and its window in the record.
func (t *GrantTerms) Hash() spend.Hash {
	return sha256.Sum256(fmt.Appendf(nil, "spendgate grant 1\n%s\n%d\n%d", t.Counter.ID.Text(""), t.Counter.StartMS, t.Counter.BucketMS))
}

// ChangeOfGrant returns the record of a change of a grant, without its head. PostgreSQL gives it number and time.
func ChangeOfGrant(c *GrantChange, by Actor) Change {
	return newChange(Change{
		Kind: c.Kind, Subject: c.ID.Text(spend.PrefixGrant), By: by, At: time.Now(), Hash: c.Terms.Hash(),
	}, json.RawMessage(c.Details(&by)))
}

// GrantOf reads what a change of a grant says: its terms, and who made the change, when and why.
func GrantOf(c *Change) (terms GrantTerms, by Release, err error) {
	var kept grantDetails
	if err := json.Unmarshal([]byte(c.Details), &kept); err != nil {
		return terms, by, fmt.Errorf("cannot read a grant: %w", err)
	}
	terms = kept.GrantTerms
	terms.Counter = spend.Counter{
		ID: spend.CounterID(terms.PolicyID, terms.RuleID, terms.Since, terms.Subject), StartMS: kept.StartMS, BucketMS: kept.BucketMS,
	}
	terms.Until = time.UnixMilli(kept.UntilMS).UTC()
	actor := c.By
	actor.Owner, actor.Email = kept.Owner, kept.Email
	return terms, Release{By: actor, Note: kept.Said, At: c.At, Name: kept.Name, Seq: c.Seq}, nil
}

// GrantsOf returns the grants of changes, which are in the order of their numbers and complete for each grant from its creation,
// in the order of their creation.
func GrantsOf(changes []Change) ([]BudgetGrant, error) {
	var all []BudgetGrant
	for i := range changes {
		c := &changes[i]
		id, err := spend.ParseID(c.Subject, spend.PrefixGrant)
		if err != nil {
			return nil, fmt.Errorf("cannot read a grant: %w", err)
		}
		terms, by, err := GrantOf(c)
		if err != nil {
			return nil, err
		}
		place := slices.IndexFunc(all, func(g BudgetGrant) bool { return g.ID == id })
		if place < 0 {
			all = append(all, BudgetGrant{GrantTerms: terms, ID: id})
			place = len(all) - 1
		}
		all[place].Apply(c.Kind, by)
	}
	return all, nil
}

// Apply adds a change to the grant that it is of.
func (g *BudgetGrant) Apply(kind ChangeKind, by Release) {
	g.Last = by.Seq
	switch kind {
	case GrantCreated:
		g.Seq, g.CreatedAt, g.By = by.Seq, by.At, by
	case GrantApproved:
		g.Approvals = append(slices.Clip(g.Approvals), by)
	case GrantRevoked:
		g.Revoked = &by
	default:
	}
}

// IsGrant reports whether the change is of a grant.
func (k ChangeKind) IsGrant() bool {
	switch k {
	case GrantCreated, GrantApproved, GrantRevoked:
		return true
	default:
		return false
	}
}
