package audit

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"spendgate/audit/spend"
)

// Policies keeps every version of every policy for ever.
type Policies interface {
	// CreatePolicy stores the next version of p.PolicyID, 1 if it is new, and sets Version, CreatedAt
	// and UpdatedAt. Versions of one policy are consecutive under any concurrency (S8). It raises the
	// generation and records the change with its actor. In its own transaction it fails with a
	// *VersionError if a version other than p.Replaces is in force, with a *NotEndedError, a
	// *BudgetsInUseError or a *ChangeNeedsApprovalError. The last does not apply to an admin, whose
	// override is recorded.
	CreatePolicy(ctx context.Context, by Actor, p *Policy, b NewBudgets, now time.Time) error
	// Policy returns a version, 0 the latest, or ErrNotFound.
	Policy(ctx context.Context, policyID string, version int) (*Policy, error)
	// ListPolicies returns a page of the latest versions, by ID in the order of
	// bytes.
	ListPolicies(ctx context.Context, q PolicyQuery) (PolicyPage, error)
	// PolicyVersions returns a page of a policy's versions, newest first, or
	// ErrNotFound.
	PolicyVersions(ctx context.Context, q VersionQuery) (PolicyPage, error)
}

// Policy is one version of a policy as it was posted.
type Policy struct {
	PolicyID    string
	Version     int
	Name        string
	Description string // empty when absent
	Rules       string // the JSON array, parameters as they were sent
	Metadata    string // the JSON object; empty when absent
	Redeem      spend.RedeemTerms
	Changes     string // JSON: the approvals that the next version requires (S80); empty for none
	CreatedAt   time.Time
	UpdatedAt   time.Time
	// Budgets are since when each of its budgets counts, by rule_id. CreatePolicy
	// fills them in.
	Budgets map[string]spend.BudgetSince
	// Replaces is the version that must be in force (S54), 0 for none; nil: any version. Only
	// CreatePolicy uses it.
	Replaces *int
	// Note is the author's note about the version, or else about its draft. It is not part of the version, and is kept
	// with the record of the change. Only CreatePolicy uses it and PolicyVersions return it.
	Note    string
	Author  Actor // only of PolicyVersions
	Drafter Actor // the author of the draft from which the version was made; zero without a draft. Set only by PolicyVersions
	// ApprovedBy are the approvals of that draft as the successor of the version before. Set only by PolicyVersions.
	ApprovedBy []DraftDecision
	// Forced: the admin made it without the approvals that the version before requires.
	// Policy and ListPolicies do not return it.
	Forced bool
}

// VersionMade is the record of changes about a version of a policy.
type VersionMade struct {
	Version  int
	By       Actor
	Drafter  Actor
	Note     string
	Forced   bool
	Draft    int64 // its generation; 0 without one
	Approved []DraftDecision
}

// MaxPageBytes bounds the rules and metadata of a page of policies: the one with
// which it is reached is the last, and the page is short.
const MaxPageBytes = 4 << 20

// PolicyQuery selects the latest versions of policies.
type PolicyQuery struct {
	After     string // only greater IDs: the position of the cursor
	Limit     int
	PolicyIDs []string // policies that the asking key may see; nil: all
}

// VersionQuery selects versions of one policy.
type VersionQuery struct {
	PolicyID string
	Before   int // only smaller versions: the position of the cursor; 0 begins at the newest
	Limit    int
}

// PolicyPage is one page of a listing.
type PolicyPage struct {
	Policies []Policy
	More     bool
	Total    int64 // of all pages
}

// Versions returns the oldest and the newest version of a page of versions, zero without any.
func (p *PolicyPage) Versions() (oldest, newest int) {
	if n := len(p.Policies); n > 0 {
		oldest, newest = p.Policies[n-1].Version, p.Policies[0].Version
	}
	return oldest, newest
}

// Complete adds to versions their authors and notes.
func (p *PolicyPage) Complete(made []VersionMade) {
	for _, m := range made {
		for i := range p.Policies {
			if p.Policies[i].Version == m.Version {
				v := &p.Policies[i]
				v.Author, v.Drafter, v.Note, v.Forced, v.ApprovedBy = m.By, m.Drafter, m.Note, m.Forced, m.Approved
			}
		}
	}
}

// NewBudgets are the budgets of a new version of a policy.
type NewBudgets struct {
	// Identities has, by rule_id, the hashes that identify each budget: a budget that shares one with
	// a budget of the version before continues its counters. The first is its own.
	Identities map[string][]spend.Hash
	// Drop are the rule_ids of budgets that end though their counters are in use (S63).
	Drop []string
}

// CountSince returns since when the budgets of a new version count, by rule_id: those
// that are the same in the version before go on.
func CountSince(
	identities map[string][]spend.Hash, previous map[string]spend.BudgetSince, version int, at time.Time,
) map[string]spend.BudgetSince {
	if len(identities) == 0 {
		return nil
	}
	counted := make(map[string]spend.BudgetSince, len(identities))
	for id, own := range identities {
		if before, ok := previous[id]; ok && slices.Contains(own, before.Identity) {
			counted[id] = before
		} else {
			counted[id] = spend.BudgetSince{Identity: own[0], Version: version, At: at}
		}
	}
	return counted
}

// EndedBudgets returns the rule_ids of the budgets that do not go on in the next
// version, sorted.
func EndedBudgets(next, previous map[string]spend.BudgetSince) (ended []string) {
	for id, before := range previous {
		if next[id].Version != before.Version {
			ended = append(ended, id)
		}
	}
	slices.Sort(ended)
	return ended
}

// Refuse fails with a *NotEndedError or a *BudgetsInUseError if the new version is to be refused,
// given which budgets are in use. PostgreSQL decides this itself (create_policy).
func (b *NewBudgets) Refuse(next, previous map[string]spend.BudgetSince, inUse func(ruleID string) (bool, error)) error {
	ended := EndedBudgets(next, previous)
	var others, used []string
	for _, id := range b.Drop {
		if !slices.Contains(ended, id) {
			others = append(others, id)
		}
	}
	if others != nil {
		return &NotEndedError{others}
	}
	for _, id := range ended {
		if slices.Contains(b.Drop, id) {
			continue
		}
		is, err := inUse(id)
		if err != nil {
			return err
		}
		if is {
			used = append(used, id)
		}
	}
	if used != nil {
		return &BudgetsInUseError{used}
	}
	return nil
}

// BudgetsInUseError refuses a version that ends budgets whose open counters are in use (S63).
type BudgetsInUseError struct{ RuleIDs []string } // sorted

func (e *BudgetsInUseError) Error() string {
	return fmt.Sprintf("the budgets %q end and are in use", e.RuleIDs)
}

// NotEndedError refuses rule_ids to be dropped that are not of a budget that ends with the version.
type NotEndedError struct{ RuleIDs []string } // as they were given

func (e *NotEndedError) Error() string { return fmt.Sprintf("no budgets %q end", e.RuleIDs) }

// sinceText is a spend.BudgetSince as a policy's row keeps it.
type sinceText struct {
	Identity string `json:"identity"` // hexadecimal
	Version  int    `json:"version"`
	AtMS     int64  `json:"at_ms"`
}

// BudgetsText returns since when a policy's budgets count, as JSON for its row; empty without budgets.
func BudgetsText(budgets map[string]spend.BudgetSince) string {
	if len(budgets) == 0 {
		return ""
	}
	kept := make(map[string]sinceText, len(budgets))
	for id, b := range budgets {
		kept[id] = sinceText{hex.EncodeToString(b.Identity[:]), b.Version, b.At.UnixMilli()}
	}
	return jsonText(kept)
}

// ParseBudgets is the inverse of BudgetsText.
func ParseBudgets(text string) (map[string]spend.BudgetSince, error) {
	if text == "" {
		return nil, nil
	}
	var kept map[string]sinceText
	if err := json.Unmarshal([]byte(text), &kept); err != nil {
		return nil, fmt.Errorf("cannot read the budgets of a policy: %w", err)
	}
	budgets := make(map[string]spend.BudgetSince, len(kept))
	for id, k := range kept {
		identity, err := hex.DecodeString(k.Identity)
		if err != nil || len(identity) != len(spend.Hash{}) {
			return nil, fmt.Errorf("cannot read the budgets of a policy: %q identifies none", k.Identity)
		}
		budgets[id] = spend.BudgetSince{Identity: spend.Hash(identity), Version: k.Version, At: time.UnixMilli(k.AtMS).UTC()}
	}
	return budgets, nil
}

// IdentitiesText returns the identities of a policy's budgets by rule_id, JSON;
// empty when it has none.
func IdentitiesText(identities map[string][]spend.Hash) string {
	if len(identities) == 0 {
		return ""
	}
	texts := make(map[string][]string, len(identities))
	for id, own := range identities {
		for _, identity := range own {
			texts[id] = append(texts[id], hex.EncodeToString(identity[:]))
		}
	}
	return jsonText(texts)
}

// DropText returns rule_ids as a JSON array; empty when there are none.
func DropText(ruleIDs []string) string {
	if len(ruleIDs) == 0 {
		return ""
	}
	return jsonText(ruleIDs)
}
