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

// Evidence is one consistent snapshot of a database. Its methods may be called from many
// goroutines.
type Evidence interface {
	Rows
	Tables

	// Overview returns the totals of the range in this snapshot.
	Overview(ctx context.Context, r Range) (Overview, error)
	// Weigh estimates the work for a range.
	Weigh(ctx context.Context, r Range) (Weight, error)
	// Batches calls each with every batch that may list checks or outcomes of the range, in any
	// order.
	Batches(ctx context.Context, r Range, each func(Batch) error) error
	// Chains returns the chains with batches that may list checks of the range, or may have had
	// such batches; for each, the first and the last batch that may list them or that is next to a
	// gap.
	Chains(ctx context.Context, r Range) ([]ChainSpan, error)
	// Chain calls each with the batches of a chain in the order of their numbers.
	Chain(ctx context.Context, chainID spend.ID, from, to int64, each func(Batch) error) error
	// Heads looks up batches by chain and number; absent ones are not in the result. latest has the
	// last number of each existing chain.
	Heads(ctx context.Context, places []Place) (heads map[Place]spend.Hash, latest map[spend.ID]int64, err error)

	// Folds calls each with every fold of the chains, by chain and number.
	Folds(ctx context.Context, each func(Fold) error) error

	// Counters calls each with every counter of budgets, in the order of their identifiers and
	// starts.
	Counters(ctx context.Context, each func(Counter) error) error

	// Approvals calls each with every approval, and with every use of a missing approval.
	Approvals(ctx context.Context, each func(ApprovalRow) error) error

	// Principals calls each with every principal of a counter, in the order of their
	// CounterPrincipal.ID.
	Principals(ctx context.Context, each func(CounterPrincipal) error) error

	// EventState returns the state of numbering events.
	EventState(ctx context.Context) (EventState, error)
	// Events calls each with every event, in the order of their numbers.
	Events(ctx context.Context, each func(Event) error) error
	// StrayEvents calls each with every disagreement between the events with numbers above floor and
	// their sources.
	StrayEvents(ctx context.Context, floor int64, each func(StrayEvent) error) error
	// ViolationEvents counts the events of violations of a range whose numbers are above floor.
	ViolationEvents(ctx context.Context, r Range, floor int64) (int64, error)

	// Schema returns the present objects of the schema on which the guarantees depend, sorted by name,
	// and those that the migrations make.
	Schema(ctx context.Context) (found, made []SchemaObject, err error)

	// Totals counts all rows without using a key.
	Totals(ctx context.Context) (Totals, error)
}

// Totals are the numbers of rows of the tables.
type Totals struct {
	Checks, Violations, Outcomes, Batches, Policies, Keys, Changes, Events, IdempotencyKeys int64
	OpenRedemptions, Payments                                                               int64
}

// SchemaObject is a table, trigger, constraint, index or function of the schema, the
// default of a column, or a setting that switches triggers off.
type SchemaObject struct{ Name, Definition string }

// Overview has the totals of a snapshot.
type Overview struct {
	Range                // of all rows, and of archived days; zero without any
	At      time.Time    // when it was taken, by the database's clock
	Entries int64        // of batches, approximately
	Days    map[Day]bool // days with a partition of their own
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

// Range is the day's range of identifiers.
func (d Day) Range() Range {
	return Range{audit.FirstID(int64(d) * dayMS), audit.LastID((int64(d)+1)*dayMS - 1)}
}

const dayMS = 86_400_000

// Weight is how much there is in a range.
type Weight struct {
	Entries    int64 // at most
	Edges      bool  // a batch begins or ends in it
	Violations int64
	Outcomes   int64 // and redeemed checks noted as being without one
	Rows       bool  // there are checks
}

// Batch is a stored batch.
type Batch struct {
	Chain       spend.ID
	Seq         int64
	Version     int
	First, Last spend.ID
	Head        []byte
	Entries     []byte
	Texts       string // of the outcomes of a folded batch
}

// Place identifies a batch.
type Place struct {
	Chain spend.ID
	Seq   int64
}

// ChainSpan is a range of a chain's batches.
type ChainSpan struct {
	Chain    spend.ID
	From, To int64
}

// PolicyVersion names a policy.
type PolicyVersion struct {
	PolicyID string
	Version  int
}
