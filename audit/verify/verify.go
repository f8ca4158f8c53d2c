package verify

import (
	"context"
	"errors"
	"io"
	"runtime"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"spendgate/audit"
	"spendgate/audit/archive"
	"spendgate/audit/checkpoint"
	"spendgate/audit/spend"
)

// Options configure a verification.
type Options struct {
	Evidence    Evidence
	From, To    time.Time // both inclusive, to the millisecond; zero for no bound
	Checkpoints []Checkpoints
	PublicKey   checkpoint.PublicKey   // of the checkpoints
	FoldKeys    []checkpoint.PublicKey // with which folds may be signed; empty to skip the signatures
	Archives    string                 // the folder of the archives; empty for none
	Leaving     *archive.Archive       // of a day or month that is still in the database, read in place of its rows; nil for none
	Folding     []Fold                 // of batches that are both in the database and in archives
	Workers     int                    // 0 for one per processor
	// SliceSize bounds the memory of a worker, in entries and violations of some 80 bytes; 0 is
	// 200,000. Only a millisecond with more entries exceeds it. It also bounds how many counters of
	// budgets all workers keep in memory, of some 300 bytes each: further ones are kept in a temporary
	// file.
	SliceSize int64
	Found     func(Finding) // is called with each finding, one at a time
	// Progress, unless nil, is called from time to time with the number of compared entries and an
	// estimate of the total.
	Progress func(done, total int64)
}

// Checkpoints are the lines of a file of signed checkpoints.
type Checkpoints struct {
	Name  string // of the file; empty if there is but one
	Lines io.Reader
}

// Verify compares everything in the range with what was recorded. An error means that this was not
// possible; findings are in the summary.
func Verify(ctx context.Context, o Options) (Summary, error) {
	if o.Workers <= 0 {
		o.Workers = runtime.GOMAXPROCS(0)
	}
	if o.SliceSize <= 0 {
		o.SliceSize = defaultSliceSize
	}
	most := int(o.SliceSize)
	v := &verifier{
		o: o, known: newKnown(), courses: newCourses(), walked: make(map[spend.ID]int64), terms: make(map[budgetSince]*terms),
		odd:    make(map[string]bool),
		keys:   keys{sorter: sorter[keyed]{runs: runs[keyed]{form: keyForm(), most: most}}},
		paid:   sorter[*paid]{runs: runs[*paid]{form: jsonForm((*paid).compare), most: most}},
		counts: countsOf(most), met: countsOf(most),
		approvals: newApprovals(), tally: tally{found: o.Found, findings: make(map[Kind]int64), gone: make(map[Day]int64)},
	}
	v.all.Low, v.all.High = audit.ViolationQuery{From: o.From, To: o.To}.IDRange()
	var err error
	v.unfolded, err = Unfold(ctx, o, v.all, v.tally.add)
	if err != nil {
		return v.tally.summary(), err
	}
	v.o.Evidence = v.unfolded
	if v.overview, err = v.o.Evidence.Overview(ctx, v.all); err != nil {
		return v.tally.summary(), err
	}
	err = errors.Join(
		v.checkpoints(ctx),   // first: the chains are compared with them
		v.configuration(ctx), // before the checks, which are compared with their policies
		v.loadExhaustions(ctx),
		v.parallel(ctx, v.timeTasks),
		v.parallel(ctx, v.chainTasks),
	)
	for day, count := range v.tally.gone {
		v.tally.find(Removed, "day "+day.String(), "its partition is not there; batches list %d checks of it", count)
	}
	for _, compare := range []func(context.Context) error{
		v.counters, v.excesses, v.principals, v.exhaustions, v.compareApprovals, v.idempotencyKeys, v.payments,
		v.redemptions, v.events, v.schema, v.totals,
	} {
		if err == nil {
			err = compare(ctx)
		}
	}
	return v.tally.summary(), errors.Join(err, v.counts.close(), v.met.close(), v.keys.close(), v.paid.close())
}

type verifier struct {
	o        Options
	all      Range // identifiers selected by the options
	overview Overview
	unfolded *Unfolded
	tally    tally
	known    known  // from the checkpoints
	counts   counts // from the charges of checks
	keys     keys
	paid     sorter[*paid] // what is recorded of payments
	courses  courses
	met      counts // the principals whose checks took from counters
	terms    map[budgetSince]*terms
	odd      map[string]bool // policies with an altered version
	bounds   bounds

	zonesChanged []int64 // when, in Unix milliseconds
	freezes      []frozenTime
	grants       grants
	keyStops     map[string][]int64 // by key_id, the changes that stopped what the key was allowed (S87)
	restores     []int64            // the freezes after which nothing from before is redeemed (G14)

	approvals approvals
	feed      keptFeed

	mu     sync.Mutex
	walked map[spend.ID]int64 // chains, with the number of the last batch met
}

// task is an independent piece of work.
type task func(context.Context) error

// parallel runs the tasks that find hands out, Workers at a time, until one fails.
func (v *verifier) parallel(ctx context.Context, find func(context.Context, func(task) error) error) error {
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(v.o.Workers)
	err := find(ctx, func(one task) error {
		group.Go(func() error { return one(ctx) })
		return context.Cause(ctx)
	})
	if failed := group.Wait(); failed != nil {
		return failed // which is why find failed, if it did
	}
	return err
}

// whole reports whether the whole trail is verified.
func (v *verifier) whole() bool {
	return v.o.From.IsZero() && v.o.To.IsZero() && v.o.Leaving == nil && v.o.Folding == nil
}

// totals compares what the walks have met with each other, with the numbers of rows in the tables,
// and with the checkpoints. Each is read in another way, so what is hidden from one shows in
// another. With findings, the numbers may well differ, but then the trail is not considered proved
// anyway.
func (v *verifier) totals(ctx context.Context) error {
	t := &v.tally
	if !v.whole() || !t.summary().Clean() {
		return nil
	}
	for chainID, end := range v.known.chains() {
		if met := v.walked[chainID]; met < end {
			t.find(Unchecked, chainName(chainID), "its batches were met up to number %d only; a checkpoint has it end at batch %d, which is there",
				met, end)
		}
	}
	if chained, listed := t.chained.Load(), t.entries.Load(); chained != listed {
		t.find(Unchecked, "batches", "%d entries were met along the chains, %d of them by their time: rows are hidden from one of the two",
			chained, listed)
	}
	held, err := v.o.Evidence.Totals(ctx)
	if err != nil {
		return err
	}
	for _, table := range []struct {
		name      string
		met, held int64
	}{
		{"checks", t.stored.Load(), held.Checks},
		{"violations", t.storedViolations.Load(), held.Violations},
		{"outcomes", t.outcomes.Load(), held.Outcomes},
		{"batches", t.batches.Load(), held.Batches},
		{"policies", t.policies.Load(), held.Policies},
		{"keys", t.keys.Load(), held.Keys},
		{"changes", t.changes.Load(), held.Changes},
		{"events", t.events, held.Events},
		{"idempotency_keys", t.idempotencyKeys, held.IdempotencyKeys},
		{"payments", t.payments, held.Payments},
		{"redemptions_open", t.openRedemptions.Load(), held.OpenRedemptions},
	} {
		if table.met != table.held {
			t.find(Unchecked, "table "+table.name, "it holds %d rows, and %d were met: an index lacks rows, or rows are hidden", table.held,
				table.met)
		}
	}
	return nil
}

func less(a, b spend.ID) bool { return a.Compare(b) < 0 }
