package audit

import (
	"cmp"
	"context"
	"slices"
	"time"

	"spendgate/audit/spend"
)

// Keys keeps API keys, by hash only.
type Keys interface {
	// CreateKey stores a new key. It raises the generation and records the
	// change.
	CreateKey(ctx context.Context, by Actor, k *Key) error
	// UpdateKey changes the fields that are not nil and returns the record, or ErrNotFound. It raises
	// the generation and records the change. A change that Stales waits for the commits in progress,
	// and refuses all others that were judged before it. One that Deactivates, and one after which the key may decide
	// about an approval that it might not decide about before, reopens the approvals that the key approved. After one
	// by which a key may grant that might not before, what it granted before counts no more (S91).
	UpdateKey(ctx context.Context, by Actor, id spend.ID, change KeyChange) (*Key, error)
	// RecordExpiring records, once for each time of expiry, that a key expires soon: unless it was deactivated meanwhile, or
	// expires at another time. It raises the generation, and leaves the key as it is.
	RecordExpiring(ctx context.Context, k *Key) error
	// CountStopped counts what a stop of a key stopped, of the checks since a time.
	CountStopped(ctx context.Context, keyID string, stop int64, since time.Time) (Stopped, error)
	// ListKeys returns a page, newest first, below the ID before (zero begins
	// at the newest), and the count of all keys.
	ListKeys(ctx context.Context, before spend.ID, limit int) (KeyPage, error)
	// KeyByHash returns a key's present state, or ErrNotFound.
	KeyByHash(ctx context.Context, hash spend.Hash) (*Key, error)
	// Parties returns the present parties of keys; IDs without a key are missing.
	Parties(ctx context.Context, keyIDs []string) (map[string]Party, error)
	// Askers returns, in no order, who could ask for checks: what keys with that scope were after each of their changes, and
	// people whose sessions had it.
	Askers(ctx context.Context) ([]Asking, error)
	// NoteKeyUses sets each key's LastUsedAt to that time unless it is later already; unknown keys are
	// skipped. It does not raise the generation, and may be repeated.
	NoteKeyUses(ctx context.Context, uses []KeyUse) error
}

// Key is an API key's record; the raw key is never stored (S25).
type Key struct {
	ID           spend.ID
	Hash         spend.Hash // SHA-256 of the raw key
	Name         string
	RateLimitRPM int // requests per minute, 1-10,000
	Active       bool
	CreatedAt    time.Time
	LastUsedAt   time.Time // as far as it was noted; zero when never
	Grants       spend.Grants
	Stopped      int64 // the last change that stopped what it had been allowed; 0: none (S87)
	GranterSince int64 // the last change after which it may grant, and before which it might not; 0: none (S91)
}

// Party returns who is behind the key; zero of nil.
func (k *Key) Party() Party {
	if k == nil {
		return Party{}
	}
	keyID := k.ID.Text(spend.PrefixKey)
	return Party{KeyID: keyID, Principal: cmp.Or(k.Grants.Principal, keyID), Owner: k.Grants.Owner}
}

// Asking is a party that could ask for checks. Of people who signed in it has no key.
type Asking struct {
	Party

	Since time.Time
}

// MayGrant reports whether the key may raise budgets at a time (S91).
func (k *Key) MayGrant(at time.Time) bool { return k.Active && mayGrant(&k.Grants, at) }

func mayGrant(g *spend.Grants, at time.Time) bool {
	return g.Permitted().Has(spend.BudgetsGrant) && g.PolicyIDs == nil && g.AgentIDs == nil && !g.Expired(at)
}

// MayRelease reports whether the key may release freezes of a scope at a time (S87).
func (k *Key) MayRelease(scope FreezeScope, at time.Time) bool {
	return k.Active && mayRelease(&k.Grants, scope, at)
}

func mayRelease(g *spend.Grants, scope FreezeScope, at time.Time) bool {
	return g.Permitted().Has(spend.FreezesRelease) && scope.Inside(g) && !g.Expired(at)
}

// MayDecide reports whether an approval of a check counts that the key gave (S92).
func (k *Key) MayDecide(asked *spend.Check, at time.Time) bool {
	return k.Active && MayStillDecide(&k.Grants, asked.Action.PolicyID, asked.Action.AgentID, at)
}

// MayStillDecide reports whether who has these grants may decide about an approval of an agent under a policy.
func MayStillDecide(g *spend.Grants, policyID, agentID string, at time.Time) bool {
	return g.Permitted().Has(spend.ApprovalsDecide) && !g.Expired(at) &&
		(g.PolicyIDs == nil || slices.Contains(g.PolicyIDs, policyID)) && (g.AgentIDs == nil || slices.Contains(g.AgentIDs, agentID))
}

// Stopped counts the checks that a stop of a key stopped: all, and those of them that only a redemption carries out.
type Stopped struct{ Checks, Voided int64 }

// KeyPage is one page of a listing.
type KeyPage struct {
	Keys  []Key
	More  bool
	Total int64 // of all pages
}

// KeyUse is when a key was last used on some node.
type KeyUse struct {
	ID spend.ID
	At time.Time // to the millisecond
}

// KeyChange is a partial update of a key.
type KeyChange struct {
	Active       *bool
	Name         *string
	RateLimitRPM *int
	Grants       spend.GrantsChange
	Stops        bool // beside an Active of false: stops what the key was allowed and nobody redeemed (S87)
}

// Deactivates reports whether the key is not active after the change, by which its unused approvals are reopened (S92).
func (c *KeyChange) Deactivates() bool { return c.Active != nil && !*c.Active }

// Stales reports whether what was judged before the change is refused (ErrStaleStops): the change stops what the key was
// allowed, or its decisions (S92) and grants (S91) may count no more, or again. So the stop by which a check was judged tells
// which counted.
func (c *KeyChange) Stales() bool { return c.Active != nil || len(c.Grants.Named) > 0 }

// Empty reports whether there is nothing to change.
func (c *KeyChange) Empty() bool {
	return c.Active == nil && c.Name == nil && c.RateLimitRPM == nil && len(c.Grants.Named) == 0
}
