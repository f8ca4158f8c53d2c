package verify

import (
	"context"
	"time"

	"spendgate/audit"
	"spendgate/audit/spend"
)

// Range is a stretch of identifiers, both ends included.
type Range struct{ Low, High spend.ID }

// Holds reports whether the identifier lies in the range.
func (r Range) Holds(id spend.ID) bool { return !less(id, r.Low) && !less(r.High, id) }

// Rows returns stored checks.
type Rows interface {
	// Rows calls each with every check of the range, in the order of identifiers, as the row that
	// chain.HashRow takes. The row is valid until each returns. An error of each ends the walk and is
	// returned.
	Rows(ctx context.Context, r Range, each func(row []byte) error) error
}

// Evidence is one consistent reading of a database. Its methods may be called
// from many goroutines.
type Evidence interface {
	Rows

	// Overview returns the totals of the range in this snapshot.
	Overview(ctx context.Context, r Range) (Overview, error)
	// Weigh estimates the work for a range.
	Weigh(ctx context.Context, r Range) (Weight, error)
	// Batches calls each for every batch that may list checks or outcomes of the
	// range, in any order.
	Batches(ctx context.Context, r Range, each func(Batch) error) error
	// Outcomes calls each for every outcome of the range, by its own identifier and in
	// the order of those, with its row as chain.HashOutcomeRow takes it.
	Outcomes(ctx context.Context, r Range, each func(row []byte) error) error
	// Steps is Outcomes by the identifiers of their checks, in the order of those and of their
	// steps.
	Steps(ctx context.Context, r Range, each func(row []byte) error) error
	// OpenRedemptions calls each for every redeemed check of the range that is noted to be
	// without an outcome, in any order.
	OpenRedemptions(ctx context.Context, r Range, each func(OpenRedemption) error) error
	// Violations calls each for every violation of the range, in the order of
	// identifiers, with its row encoded as rows of checks are.
	Violations(ctx context.Context, r Range, each func(row []byte) error) error

	// Chains returns those with batches that may list checks of the range, or may
	// have had such, and of each the first and the last such batch, or batch
	// beside a gap.
	Chains(ctx context.Context, r Range) ([]ChainSpan, error)
	// Chain calls each for the batches of a chain in the order of their numbers.
	Chain(ctx context.Context, chainID spend.ID, from, to int64, each func(Batch) error) error
	// Heads looks up batches by chain and number; absent ones are not in the result. latest has the
	// last number of each existing chain.
	Heads(ctx context.Context, places []Place) (heads map[Place]spend.Hash, latest map[spend.ID]int64, err error)

	// Folds calls each with every fold of the chains, by chain and number.
	Folds(ctx context.Context, each func(Fold) error) error

	// Changes calls each for every change of the configuration, in the order of
	// their numbers.
	Changes(ctx context.Context, each func(Change) error) error
	// Policies calls each for every policy, with its row encoded.
	Policies(ctx context.Context, each func(p PolicyVersion, row []byte) error) error
	// Drafts calls each for every draft of a policy and every end of one, by the number of
	// its change, with its row encoded.
	Drafts(ctx context.Context, each func(seq int64, policyID string, row []byte) error) error
	// Keys calls each for every API key, with its row encoded.
	Keys(ctx context.Context, each func(id spend.ID, row []byte) error) error
	// Webhooks calls each for every webhook, with its row encoded.
	Webhooks(ctx context.Context, each func(id spend.ID, row []byte) error) error

	// Counters calls each for every counter of budgets, in the order of their
	// identifiers and starts.
	Counters(ctx context.Context, each func(Counter) error) error

	// Approvals calls each for every approval, and every use of one that there is
	// not.
	Approvals(ctx context.Context, each func(ApprovalRow) error) error

	// Principals calls each with every principal of a counter, in the order of their
	// CounterPrincipal.ID.
	Principals(ctx context.Context, each func(CounterPrincipal) error) error
	// Exhaustions calls each for every exhaustion, in the order of counters and starts.
	Exhaustions(ctx context.Context, each func(Exhaustion) error) error

	// IdempotencyKeys calls each for every idempotency key, in the order of their hashes.
	IdempotencyKeys(ctx context.Context, each func(IdempotencyKey) error) error

	// RedemptionKeys calls each for every lasting key of a redemption, in the order of their
	// hashes.
	RedemptionKeys(ctx context.Context, each func(RedemptionKey) error) error

	// EventState is how far events have numbers.
	EventState(ctx context.Context) (EventState, error)
	// Events calls each for every event, in the order of their numbers.
	Events(ctx context.Context, each func(Event) error) error
	// StrayEvents calls each with every disagreement between the events with numbers above floor and
	// their sources.
	StrayEvents(ctx context.Context, floor int64, each func(StrayEvent) error) error
	// ViolationEvents counts the events of violations of a range, with numbers above floor.
	ViolationEvents(ctx context.Context, r Range, floor int64) (int64, error)

	// Schema returns the present objects of the schema on which the guarantees depend, sorted by name,
	// and those that the migrations make.
	Schema(ctx context.Context) (found, made []SchemaObject, err error)

	// Totals counts all rows without a key to find them by.
	Totals(ctx context.Context) (Totals, error)
}

// Totals are the numbers of rows of the tables.
type Totals struct {
	Checks, Violations, Outcomes, Batches, Policies, Keys, Changes, Events, IdempotencyKeys int64
	RedemptionKeys, OpenRedemptions                                                         int64
}

// SchemaObject is a table, trigger, constraint, index or function of the schema, the
// default of a column, or a setting that switches triggers off.
type SchemaObject struct{ Name, Definition string }

// Overview has the totals of a snapshot.
type Overview struct {
	Range                // of all that is there, and of archived days; zero when nothing is
	At      time.Time    // when it was taken, by the database's clock
	Entries int64        // of batches, about
	Days    map[Day]bool // those that have a partition of their own
	// Archived are the days whose checks left the database.
	Archived map[Day]ArchiveNote
	// Months are the months whose violations are archived.
	Months map[Month]ArchivedMonth
}

// Day is a UTC day, in days since 1970.
type Day int64

// DayOf is the day of an identifier.
func DayOf(id spend.ID) Day { return DayAt(id.Time()) }

// DayAt is the day of a time.
func DayAt(t time.Time) Day { return Day(t.UnixMilli() / dayMS) }

// String is the day's date.
func (d Day) String() string { return time.Unix(int64(d)*86400, 0).UTC().Format(time.DateOnly) }

// Range is the stretch of the day's identifiers.
func (d Day) Range() Range {
	return Range{audit.FirstID(int64(d) * dayMS), audit.LastID((int64(d)+1)*dayMS - 1)}
}

const dayMS = 86_400_000

// Weight is how much there is in a range.
type Weight struct {
	Entries    int64 // at most
	Edges      bool  // a batch begins or ends in it
	Violations int64
	Outcomes   int64 // and redeemed checks that are noted to be without one
	Rows       bool  // there are checks
}

// Batch is a batch as it is stored.
type Batch struct {
	Chain       spend.ID
	Seq         int64
	Version     int
	First, Last spend.ID
	Head        []byte
	Entries     []byte
	Texts       string // that outcomes of it had, of a batch that was folded
}

// Place is the place of a batch.
type Place struct {
	Chain spend.ID
	Seq   int64
}

// ChainSpan is a stretch of a chain.
type ChainSpan struct {
	Chain    spend.ID
	From, To int64
}

// PolicyVersion names a policy.
type PolicyVersion struct {
	PolicyID string
	Version  int
}

// Change is a change of the configuration as it is stored.
type Change struct {
	Seq     int64
	Kind    audit.ChangeKind
	Subject string // policy_id, key_id or approval_id
	Version int    // of the policy
	At      time.Time
	Hash    spend.Hash // of the row of the policy or key as it left it; zero for what is no hash
	Row     []byte     // encoded; good until the call returns
	Head    spend.Hash // likewise
}
