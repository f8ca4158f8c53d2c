package audit

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"spendgate/audit/spend"
)

// Freezes keeps freezes (S87). A freeze is its changes in the record.
type Freezes interface {
	// CreateFreeze records a freeze in force: no commit that was judged without the freeze is recorded after it returned
	// (spend.Fence.Stops). It returns the freeze, and replayed if a freeze with that ID is there, which then may be another.
	// With a number Seen that is not negative it fails with ErrStaleStops if another change stopped something since.
	CreateFreeze(ctx context.Context, by Actor, f NewFreeze) (created *Freeze, replayed bool, err error)
	// ReleaseFreeze records a release. It fails with ErrStaleFreeze if the freeze, or a key, was changed since it was read.
	ReleaseFreeze(ctx context.Context, by Actor, r FreezeRelease) error
	// EndFreeze records that the time of a freeze is over, unless the freeze was released, or ended, or its time is not over
	// by the store's clock.
	EndFreeze(ctx context.Context, f *Freeze) error
	// Freeze returns a freeze as it is by the store's clock, or ErrNotFound.
	Freeze(ctx context.Context, id spend.ID) (*Freeze, error)
	// ListFreezes returns a page, newest first. Active ones may be over by the store's clock and not recorded as that yet.
	ListFreezes(ctx context.Context, q FreezeQuery) (page []Freeze, more bool, err error)
	// FreezeReach counts the checks of a policy, an agent or a counterparty since then, or all, by who asked for them.
	FreezeReach(ctx context.Context, scope FreezeScope, since time.Time) ([]FreezeReach, error)
}

// ErrStaleStops refuses a commit that was judged before the last change that stops something: nothing was written. Load the
// configuration and judge again.
var ErrStaleStops = errors.New("something was stopped meanwhile")

// ErrStaleFreeze refuses a release that was judged by an older state of the freeze or of keys: nothing was written.
var ErrStaleFreeze = errors.New("the freeze, or a key, was changed meanwhile")

// MaxFreezes bounds the active freezes, except those of everything and those of admins.
const MaxFreezes = 10_000

// FreezeKind says what the scope of a freeze names.
type FreezeKind string

// The kinds of scopes, as requests name them.
const (
	FreezeAll          FreezeKind = "all"
	FreezePolicy       FreezeKind = "policy_id"
	FreezeAgent        FreezeKind = "agent_id"
	FreezePrincipal    FreezeKind = "principal"
	FreezeCounterparty FreezeKind = "counterparty"
)

// FreezeScope is what a freeze stops.
type FreezeScope struct {
	Kind  FreezeKind
	Value string // empty of everything
}

// Folded returns the scope in the form in which scopes are compared: principals as names (S62), agents and counterparties as
// fingerprints compare them.
func (s FreezeScope) Folded() FreezeScope {
	switch s.Kind {
	case FreezePrincipal:
		s.Value = spend.FoldName(s.Value)
	case FreezeAgent, FreezeCounterparty:
		s.Value = spend.NFC(s.Value)
	case FreezeAll, FreezePolicy:
	}
	return s
}

// Inside reports whether the scope is inside the bindings of a key.
func (s FreezeScope) Inside(g *spend.Grants) bool {
	return g.PolicyIDs == nil && g.AgentIDs == nil ||
		s.Kind == FreezePolicy && slices.Contains(g.PolicyIDs, s.Value) || s.Kind == FreezeAgent && slices.Contains(g.AgentIDs, s.Value)
}

// Hash identifies the scope in the record.
func (s FreezeScope) Hash() spend.Hash {
	folded := s.Folded()
	return sha256.Sum256([]byte("spendgate freeze 1\n" + string(folded.Kind) + "\n" + folded.Value))
}

// MarshalJSON implements json.Marshaler.
func (s FreezeScope) MarshalJSON() ([]byte, error) {
	var value any = s.Value
	if s.Kind == FreezeAll {
		value = true
	}
	return json.Marshal(map[FreezeKind]any{s.Kind: value})
}

// UnmarshalJSON implements json.Unmarshaler.
func (s *FreezeScope) UnmarshalJSON(b []byte) error {
	var members map[FreezeKind]any
	if err := json.Unmarshal(b, &members); err != nil {
		return err
	}
	for kind, value := range members {
		s.Kind = kind
		s.Value, _ = value.(string)
	}
	return nil
}

// FreezeStatus is the state of a freeze.
type FreezeStatus string

// The states of freezes.
const (
	FreezeActive   FreezeStatus = "active"
	FreezeReleased FreezeStatus = "released"
	FreezeOver     FreezeStatus = "over"
)

// Freeze is a freeze with its releases.
type Freeze struct {
	ID        spend.ID
	Seq       int64 // of the change that created it
	Last      int64 // of its last change
	Scope     FreezeScope
	Reason    string
	Until     time.Time // zero: until it is released
	CreatedAt time.Time
	By        Actor
	Status    FreezeStatus
	EndedAt   time.Time // when it was released or over; else zero
	Releases  []Release
}

// Release is the release of a freeze by a person, or by an admin.
type Release struct {
	By   Actor
	Note string
	At   time.Time
	Name string // of a person who has signed in
	Seq  int64  // of its change

	Lapsed bool // whether the key might not release that freeze at some time since, until its last change
}

// Party returns who released.
func (r *Release) Party() Party {
	return Party{KeyID: r.By.KeyID, Principal: r.By.Principal, Owner: r.By.Owner}
}

// NewFreeze is a freeze to be created.
type NewFreeze struct {
	ID     spend.ID
	Scope  FreezeScope
	Reason string
	Until  time.Time
	Name   string // of a person who has signed in
	Seen   int64  // the last stop by which it was judged; -1: any
}

// FreezeRelease is a release to be recorded.
type FreezeRelease struct {
	Freeze    *Freeze // as it was read
	Keys      int64   // the generation of the keys by which it was judged
	Note      string
	Name      string // of a person who has signed in
	Completes bool   // no more are required
}

// FreezeQuery selects freezes.
type FreezeQuery struct {
	Active *bool
	Scope  *FreezeScope
	Before int64 // only smaller numbers; 0: all
	Limit  int
}

// FreezeReach is how many checks somebody asked for.
type FreezeReach struct {
	Asker  Party
	Checks int64
}

// freezeDetails is the record of a change of a freeze.
type freezeDetails struct {
	Scope   FreezeScope `json:"scope"`
	Reason  string      `json:"reason"`
	UntilMS int64       `json:"until_ms,omitempty"`
	Note    string      `json:"note,omitempty"`
	Owner   string      `json:"owner,omitempty"`
	Email   string      `json:"email,omitempty"`
	Name    string      `json:"name,omitempty"`
}

func untilMS(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixMilli()
}

// Details returns the record of the creation, as JSON.
func (f *NewFreeze) Details(by *Actor) string {
	return jsonText(freezeDetails{
		Scope: f.Scope, Reason: f.Reason, UntilMS: untilMS(f.Until), Owner: by.Owner, Email: by.Email, Name: f.Name,
	})
}

// Same reports whether the freeze is the one that was asked for.
func (f *NewFreeze) Same(created *Freeze) bool {
	return f.Scope == created.Scope && f.Reason == created.Reason && untilMS(f.Until) == untilMS(created.Until)
}

// EndDetails returns the record of the end of a freeze, as JSON.
func (f *Freeze) EndDetails() string {
	return jsonText(freezeDetails{Scope: f.Scope, Reason: f.Reason, UntilMS: untilMS(f.Until)})
}

// Details returns the record of a release, as JSON.
func (r *FreezeRelease) Details(by *Actor) string {
	f := r.Freeze
	return jsonText(freezeDetails{
		Scope: f.Scope, Reason: f.Reason, UntilMS: untilMS(f.Until), Note: r.Note, Owner: by.Owner, Email: by.Email, Name: r.Name,
	})
}

// Kinds returns the changes that a release makes, in their order. The first has the note.
func (r *FreezeRelease) Kinds(by *Actor) []ChangeKind {
	switch {
	case by.Kind() == KindAdmin:
		return []ChangeKind{FreezeIsReleased, FreezeForced}
	case r.Completes:
		return []ChangeKind{FreezeReleaseApproved, FreezeIsReleased}
	}
	return []ChangeKind{FreezeReleaseApproved}
}

// ChangeOfFreeze returns the record of a change of a freeze, without its head. PostgreSQL gives it number and time.
func ChangeOfFreeze(kind ChangeKind, id spend.ID, scope FreezeScope, details string, by Actor) Change {
	return newChange(Change{
		Kind: kind, Subject: id.Text(spend.PrefixFreeze), By: by, At: time.Now(), Hash: scope.Hash(),
	}, json.RawMessage(details))
}

// FreezeOf reads what a change of a freeze says of it: its ID, scope, reason and time.
func FreezeOf(c *Change) (f Freeze, err error) {
	var kept freezeDetails
	if err := json.Unmarshal([]byte(c.Details), &kept); err != nil {
		return f, fmt.Errorf("cannot read a freeze: %w", err)
	}
	f = Freeze{Scope: kept.Scope, Reason: kept.Reason}
	if f.ID, err = spend.ParseID(c.Subject, spend.PrefixFreeze); err != nil {
		return f, fmt.Errorf("cannot read a freeze: %w", err)
	}
	if kept.UntilMS != 0 {
		f.Until = time.UnixMilli(kept.UntilMS).UTC()
	}
	return f, nil
}

// apply adds a change to the freeze that it is of.
func (f *Freeze) apply(c *Change) error {
	var kept freezeDetails
	if err := json.Unmarshal([]byte(c.Details), &kept); err != nil {
		return fmt.Errorf("cannot read a freeze: %w", err)
	}
	f.Last = c.Seq
	by := c.By
	by.Owner, by.Email = kept.Owner, kept.Email
	release := Release{By: by, Note: kept.Note, At: c.At, Name: kept.Name, Seq: c.Seq}
	switch c.Kind {
	case FreezeCreated:
		f.Seq, f.CreatedAt, f.By, f.Status = c.Seq, c.At, by, FreezeActive
	case FreezeReleaseApproved:
		f.Releases = append(f.Releases, release)
	case FreezeIsReleased:
		f.Status, f.EndedAt = FreezeReleased, c.At
		if c.By.Kind() == KindAdmin {
			f.Releases = append(f.Releases, release)
		}
	case FreezeEnded:
		f.Status, f.EndedAt = FreezeOver, c.At
	default:
	}
	return nil
}

// FreezesOf returns the freezes of changes, which are in the order of their numbers and complete for each freeze, in the order
// of their creation.
func FreezesOf(changes []Change) ([]Freeze, error) {
	var all []Freeze
	at := make(map[string]int)
	for i := range changes {
		c := &changes[i]
		place, known := at[c.Subject]
		if !known {
			f, err := FreezeOf(c)
			if err != nil {
				return nil, err
			}
			place, at[c.Subject] = len(all), len(all)
			all = append(all, f)
		}
		if err := all[place].apply(c); err != nil {
			return nil, err
		}
	}
	return all, nil
}

// Lapse marks the release by the changes of its key, which are in their order.
func (r *Release) Lapse(scope FreezeScope, changes []Change) error {
	var before KeyStanding
	for i := range changes {
		c := &changes[i]
		if c.Seq > r.Seq && (!before.Active || !mayRelease(&before.Grants, scope, c.At)) {
			r.Lapsed = true
		}
		var err error
		if before, err = StandingOf(c); err != nil {
			return err
		}
	}
	return nil
}

// IsFreeze reports whether the change is of a freeze.
func (k ChangeKind) IsFreeze() bool {
	switch k {
	case FreezeCreated, FreezeReleaseApproved, FreezeIsReleased, FreezeForced, FreezeEnded:
		return true
	default:
		return false
	}
}
