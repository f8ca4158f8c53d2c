package export

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"spendgate/audit"
	"spendgate/audit/chain"
	"spendgate/audit/spend"
	"spendgate/audit/verify"
)

// Record is a trail in one consistent snapshot.
type Record interface {
	verify.Rows
	verify.Tables
	Overview(ctx context.Context, r verify.Range) (verify.Overview, error)
	Batches(ctx context.Context, r verify.Range, each func(verify.Batch) error) error
	Heads(ctx context.Context, places []verify.Place) (heads map[verify.Place]spend.Hash, latest map[spend.ID]int64, err error)
	Folds(ctx context.Context, each func(verify.Fold) error) error

	// AllHeads returns the ends of all chains.
	AllHeads(ctx context.Context) (chain.Heads, error)
	// ApprovalChanges calls each with every decision about these approvals, and every expiry of
	// one, in the order of their numbers.
	ApprovalChanges(ctx context.Context, ids []spend.ID, each func(audit.Change) error) error
	// ApprovalUses returns which checks used these approvals; unused approvals are not in the map.
	ApprovalUses(ctx context.Context, ids []spend.ID) (map[spend.ID]spend.ID, error)
}

const (
	// chunk is how many checks, with what belongs to them, are in memory at a time.
	chunk = 2000
	// maxDays is more than the days of any record with genuine identifiers.
	maxDays = 40_000
	// near is how close in time identifiers must be to be looked up in one read of batches.
	near = time.Minute
)

// reading reads the checks of a range in the order of their identifiers, up to the heads.
type reading struct {
	record   Record
	left     *verify.Unfolded // nil if no batches left
	r        verify.Range
	archives string
	skip     []AbsentDay // days that are left out regardless
	ends     map[spend.ID]int64
	changes  int64 // the number of the last change within the heads

	absent                     []AbsentDay
	unlisted, altered, missing int64
	notCompared                int64 // because archives are absent
	blind                      map[verify.Day]bool
	later                      int64 // rows after the heads
	met                        numbers
	texts                      verify.Texts // of looked-up outcomes, from batches that left the database
	fields                     [][]byte
}

func newReading(o Options, heads chain.Heads) *reading {
	r := &reading{
		record: o.Record, left: o.Batches, archives: o.Archives, ends: make(map[spend.ID]int64, len(heads.Chains)), changes: heads.ChangeSeq,
	}
	r.r.Low, r.r.High = audit.ViolationQuery{From: o.From, To: o.To}.IDRange()
	for _, h := range heads.Chains {
		r.ends[h.Chain] = h.Seq
	}
	return r
}

// each calls take with a limited number of rows at a time.
func (g *reading) each(ctx context.Context, take func([]*row) error) error {
	g.absent, g.unlisted, g.altered, g.missing, g.later, g.met = nil, 0, 0, 0, 0, make(numbers)
	g.notCompared, g.blind = 0, make(map[verify.Day]bool)
	overview, err := g.record.Overview(ctx, g.r)
	if err != nil || overview.Range == (verify.Range{}) {
		return err
	}
	first, last := verify.DayOf(spend.Later(overview.Low, g.r.Low)), verify.DayOf(spend.Earlier(overview.High, g.r.High))
	if last-first > maxDays {
		return fmt.Errorf("identifiers span %d days: see audit verify, or give --from and --to", last-first)
	}
	for day := first; day <= last; day++ {
		part := verify.Range{Low: spend.Later(day.Range().Low, g.r.Low), High: spend.Earlier(day.Range().High, g.r.High)}
		note, archived := overview.Archived[day]
		if !archived {
			err = g.stretch(ctx, g.record, part, take)
		} else {
			err = g.archived(ctx, day, note, part, take)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// stretch reads a range from one source.
func (g *reading) stretch(ctx context.Context, from verify.Rows, part verify.Range, take func([]*row) error) error {
	rows := make([]*row, 0, chunk)
	flush := func(upTo spend.ID) error {
		listed, err := g.placed(ctx, verify.Range{Low: part.Low, High: upTo}, rows)
		if err == nil && len(listed) > 0 {
			err = take(listed)
		}
		part.Low, rows = upTo.Next(), rows[:0]
		return err
	}
	err := from.Rows(ctx, part, func(encoded []byte) error {
		if len(rows) == chunk {
			if err := flush(rows[chunk-1].check.ID); err != nil {
				return err
			}
		}
		one, err := g.parse(encoded)
		rows = append(rows, one)
		return err
	})
	if err != nil {
		return err
	}
	if part.High.Compare(part.Low) < 0 {
		return nil // the last row had the largest possible identifier
	}
	return flush(part.High)
}

func (g *reading) parse(encoded []byte) (_ *row, err error) {
	one := &row{hash: chain.HashRow(encoded)}
	if g.fields, err = chain.ParseCheckRow(g.fields[:0], encoded); err != nil {
		return nil, err
	}
	if one.check, err = chain.CheckOf(g.fields); err != nil {
		return nil, fmt.Errorf("the record of check %s cannot be read: %w: see audit verify", spend.ID(g.fields[0]).Text(""), err)
	}
	return one, nil
}

// placed finds the batches of a range's rows, and leaves out rows recorded after the heads. It
// counts where the chain and the rows disagree.
func (g *reading) placed(ctx context.Context, part verify.Range, rows []*row) ([]*row, error) {
	entries, err := g.entries(ctx, part, nil)
	if err != nil {
		return nil, err
	}
	kept := make([]*row, 0, len(rows))
	for _, one := range rows {
		e, is := entries[one.check.ID]
		if is && !g.beyond(e.Place) {
			g.met.add(e.Place)
		}
		delete(entries, one.check.ID)
		switch {
		case !is:
			g.lacks(one.check.Fence.Node, one.check.ID)
		case g.beyond(e.Place):
			g.later++
			continue
		default:
			one.place = e.Place
			if e.Row != one.hash {
				g.altered++
			}
		}
		kept = append(kept, one)
	}
	for id, e := range entries {
		if !g.beyond(e.Place) {
			g.met.add(e.Place)
		}
		if !id.OfOutcome() && !g.beyond(e.Place) {
			g.missing++
		}
	}
	return kept, nil
}

// beyond reports whether a batch comes after the heads.
func (g *reading) beyond(p verify.Place) bool { return p.Seq > g.ends[p.Chain] }

// entry is what a batch records about a check or an outcome.
type entry struct {
	chain.Entry
	verify.Place
}

// entries returns the entries of a range, or only the wanted ones.
func (g *reading) entries(ctx context.Context, part verify.Range, wanted map[spend.ID]bool) (map[spend.ID]entry, error) {
	found := make(map[spend.ID]entry)
	err := g.batches(ctx, part, func(b verify.Batch) error {
		entries, err := chain.ParseEntries(b.Entries)
		if err != nil {
			return nil //nolint:nilerr // an unreadable batch lists nothing; audit verify names it
		}
		for _, e := range entries {
			if part.Holds(e.ID) && (wanted == nil || wanted[e.ID]) {
				found[e.ID] = entry{e, verify.Place{Chain: b.Chain, Seq: b.Seq}}
			}
		}
		if wanted != nil {
			g.texts.Read(b.Texts)
		}
		return nil
	})
	return found, err
}

// lookUp finds the entries of these identifiers; identifiers near each other share one read.
func (g *reading) lookUp(ctx context.Context, ids []spend.ID) (map[spend.ID]entry, error) {
	slices.SortFunc(ids, spend.ID.Compare)
	found := make(map[spend.ID]entry)
	g.texts = make(verify.Texts)
	for len(ids) > 0 {
		n, wanted := 1, map[spend.ID]bool{ids[0]: true}
		for n < len(ids) && ids[n].Time().Sub(ids[n-1].Time()) <= near {
			wanted[ids[n]] = true
			n++
		}
		some, err := g.entries(ctx, verify.Range{Low: ids[0], High: ids[n-1]}, wanted)
		if err != nil {
			return nil, err
		}
		maps.Copy(found, some)
		ids = ids[n:]
	}
	return found, nil
}

// complete adds everything else about the rows, which are in order.
func (g *reading) complete(ctx context.Context, rows []*row) error {
	if len(rows) == 0 {
		return nil
	}
	return errors.Join(g.addSteps(ctx, rows), g.addApprovals(ctx, rows))
}

func (g *reading) addSteps(ctx context.Context, rows []*row) error {
	of := make(map[spend.ID]*row, len(rows))
	for _, one := range rows {
		of[one.check.ID] = one
	}
	var stored [][]byte
	var ids []spend.ID
	err := g.record.Walk(ctx, verify.Steps(verify.Range{Low: rows[0].check.ID, High: rows[len(rows)-1].check.ID}), func(encoded []byte) error {
		encoded = slices.Clone(encoded)
		o, err := chain.ParseOutcome(encoded)
		if err != nil {
			return fmt.Errorf("an outcome cannot be read: %w: see audit verify", err)
		}
		if of[o.CheckID] != nil {
			stored, ids = append(stored, encoded), append(ids, o.ID)
		}
		return nil
	})
	if err != nil {
		return err
	}
	places, err := g.lookUp(ctx, ids)
	if err != nil {
		return err
	}
	steps := make(map[spend.ID][]*spend.Outcome)
	for _, encoded := range stored {
		row, err := g.texts.Fill(encoded)
		if err != nil {
			return err
		}
		o, err := chain.ParseOutcome(row)
		if err != nil {
			return err
		}
		e, is := places[o.ID]
		if !is {
			g.lacks(o.Fence.Node, o.ID)
		} else if g.beyond(e.Place) {
			continue
		} else if e.Row != chain.HashOutcomeRow(row) {
			g.altered++
		}
		steps[o.CheckID] = append(steps[o.CheckID], o)
	}
	for id, kept := range steps {
		of[id].course = spend.CourseOf(kept)
	}
	return nil
}

func (g *reading) addApprovals(ctx context.Context, rows []*row) error {
	by := make(map[string][]*row) // by the text of the approval's identifier
	var asked []spend.ID
	for _, one := range rows {
		if id := one.approvalID(); !id.IsZero() {
			text := id.Text(spend.PrefixApproval)
			if by[text] == nil {
				asked = append(asked, id)
			}
			by[text] = append(by[text], one)
		}
	}
	if len(asked) == 0 {
		return nil
	}
	err := g.record.ApprovalChanges(ctx, asked, func(c audit.Change) error {
		for _, one := range by[c.Subject] {
			if c.Seq <= g.changes {
				one.rulings = append(one.rulings, c)
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	uses, err := g.record.ApprovalUses(ctx, asked)
	if err != nil {
		return err
	}
	var users []spend.ID
	for _, check := range uses {
		users = append(users, check)
	}
	places, err := g.lookUp(ctx, users)
	if err != nil {
		return err
	}
	for _, one := range rows {
		used := uses[one.check.ID]
		if e, is := places[used]; one.check.Approval != nil && (!is || !g.beyond(e.Place)) {
			one.usedBy = used
		}
	}
	return nil
}
