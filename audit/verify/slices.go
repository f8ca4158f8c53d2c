package verify

import (
	"cmp"
	"context"
	"slices"

	"spendgate/audit"
	"spendgate/audit/chain"
	"spendgate/audit/spend"
)

const defaultSliceSize = 200_000

// timeTasks divides the range into parts of at most one day that are small enough.
func (v *verifier) timeTasks(ctx context.Context, hand func(task) error) error {
	r := v.overview.Range
	if r == (Range{}) {
		return nil
	}
	r.Low, r.High = spend.Later(r.Low, v.all.Low), spend.Earlier(r.High, v.all.High)
	if less(r.High, r.Low) {
		return nil
	}
	for _, month := range v.archivedMonths(r) {
		of := month.Range()
		if less(r.Low, of.Low) {
			if err := v.cutTasks(ctx, Range{r.Low, of.Low.Previous()}, hand); err != nil {
				return err
			}
		}
		part := Range{spend.Later(r.Low, of.Low), spend.Earlier(r.High, of.High)}
		if err := hand(func(ctx context.Context) error { return v.archivedMonth(ctx, month, part) }); err != nil {
			return err
		}
		if !less(of.High, r.High) {
			return nil
		}
		r.Low = audit.FirstID(month.end())
	}
	return v.cutTasks(ctx, r, hand)
}

func (v *verifier) cutTasks(ctx context.Context, r Range, hand func(task) error) error {
	return v.cut(ctx, r, func(part Range) error {
		return hand(func(ctx context.Context) error { return v.slice(ctx, part, nil) })
	})
}

// cut hands on the parts of a range in order, each of one day and small enough; it skips empty
// parts. A day in an archive is one part.
func (v *verifier) cut(ctx context.Context, r Range, hand func(Range) error) error {
	if !v.anyInArchive(r) {
		if _, empty, err := v.weigh(ctx, r); err != nil || empty {
			return err
		}
	}
	switch first, last := DayOf(r.Low), DayOf(r.High); {
	case first < last:
		middle := int64(first+(last-first+1)/2) * dayMS
		if err := v.cut(ctx, Range{r.Low, audit.LastID(middle - 1)}, hand); err != nil {
			return err
		}
		return v.cut(ctx, Range{audit.FirstID(middle), r.High}, hand)
	case v.inArchive(first):
		return hand(r)
	}
	return v.cutDay(ctx, r, hand)
}

// cutDay hands on the parts of a day that are small enough. Parts of an archived day, whose archive
// is read from end to end, are handed on even where the database has nothing.
func (v *verifier) cutDay(ctx context.Context, r Range, hand func(Range) error) error {
	w, empty, err := v.weigh(ctx, r)
	if err != nil || empty && !v.inArchive(DayOf(r.Low)) {
		return err
	}
	from, to := ms(r.Low), ms(r.High)
	if empty || w.Entries+w.Violations+w.Outcomes <= v.o.SliceSize || from == to {
		return hand(r)
	}
	middle := from + (to-from+1)/2
	if err := v.cutDay(ctx, Range{r.Low, audit.LastID(middle - 1)}, hand); err != nil {
		return err
	}
	return v.cutDay(ctx, Range{audit.FirstID(middle), r.High}, hand)
}

// weigh estimates the work for a range, and reports whether the range is empty.
func (v *verifier) weigh(ctx context.Context, r Range) (w Weight, empty bool, err error) {
	if w, err = v.o.Evidence.Weigh(ctx, r); err != nil || w == (Weight{}) {
		return w, true, err
	}
	if w.Rows || w.Violations > 0 || w.Outcomes > 0 || w.Edges {
		return w, false, nil
	}
	// A batch may span the range without listing anything in it: a clock was set, or somebody used
	// foreign identifiers to make the verifier read everything.
	listed, err := v.lists(ctx, r)
	return w, !listed, err
}

// lists reports whether a batch lists a check of the range.
func (v *verifier) lists(ctx context.Context, r Range) (found bool, err error) {
	err = v.o.Evidence.Batches(ctx, r, func(b Batch) error {
		entries, _ := chain.ParseEntries(b.Entries) // the walk over its chain names unreadable entries
		found = found || slices.ContainsFunc(entries, func(e chain.Entry) bool { return r.Holds(e.ID) })
		return nil
	})
	return found, err
}

func ms(id spend.ID) int64 { return id.Time().UnixMilli() }

// listed is an entry and its place.
type listed struct {
	chain.Entry
	place Place
}

// copied is a violation: its identifier and the hash of its row.
type copied struct {
	id  spend.ID
	row spend.Hash
}

// slice compares one stretch: it walks entries, checks and violations together, each in the order
// of identifiers.
type slice struct {
	*verifier
	r          Range
	entries    []listed // of checks
	texts      Texts    // of outcomes
	reported   []listed // of outcomes
	courses    []course // of checks of the slice, by check
	violations []copied
	copies     *copies // archived violations; nil if they are in the database
	absent     bool    // its day has neither a partition nor checks elsewhere

	fields [][]byte // of the current row, reused
	wanted []byte   // its violation, reused
}

func (v *verifier) slice(ctx context.Context, r Range, copies *copies) error {
	s := slice{verifier: v, r: r, copies: copies, texts: make(Texts)}
	day := DayOf(r.Low)
	if v.inArchive(day) {
		return v.archivedDay(ctx, day, r, copies)
	}
	if !v.overview.Days[day] {
		whole, err := v.o.Evidence.Weigh(ctx, day.Range())
		if err != nil {
			return err
		}
		s.absent = !whole.Rows
	}
	return s.compare(ctx, v.o.Evidence)
}

// compare compares the rows of the slice with their entries and violations.
func (s *slice) compare(ctx context.Context, rows Rows) error {
	if err := s.load(ctx); err != nil {
		return err
	}
	if err := s.kept(ctx); err != nil {
		return err
	}
	if err := s.outcomes(ctx); err != nil {
		return err
	}
	err := rows.Rows(ctx, s.r, func(row []byte) error {
		s.tally.checks.Add(1)
		if rows == Rows(s.o.Evidence) {
			s.tally.stored.Add(1)
		}
		return s.row(row)
	})
	if err != nil {
		return err
	}
	s.before(nil) // the remaining entries
	if s.o.Progress != nil {
		s.o.Progress(s.tally.entries.Load(), s.overview.Entries)
	}
	return nil
}

// load reads the entries and the violations.
func (s *slice) load(ctx context.Context) error {
	err := s.o.Evidence.Batches(ctx, s.r, func(b Batch) error {
		entries, err := chain.ParseEntries(b.Entries)
		if err != nil || b.Version != chain.Version {
			return nil //nolint:nilerr // the walk over its chain names it
		}
		for _, e := range entries {
			if s.r.Holds(e.ID) {
				s.entries = append(s.entries, listed{e, Place{b.Chain, b.Seq}})
			}
		}
		s.texts.Read(b.Texts)
		return nil
	})
	if err != nil {
		return err
	}
	slices.SortFunc(s.entries, func(a, b listed) int {
		return cmp.Or(a.ID.Compare(b.ID), a.place.Chain.Compare(b.place.Chain), cmp.Compare(a.place.Seq, b.place.Seq))
	})
	s.tally.entries.Add(int64(len(s.entries)))
	s.entries = slices.CompactFunc(s.entries, func(next, kept listed) bool {
		if kept.ID == next.ID {
			s.tally.find(Altered, batchName(next.place.Chain, next.place.Seq), "it lists %s, which %s lists too",
				entryName(next.ID), batchName(kept.place.Chain, kept.place.Seq))
		}
		return kept.ID == next.ID
	})
	s.reported = slices.Clone(s.entries)
	s.entries = slices.DeleteFunc(s.entries, func(e listed) bool { return e.ID.OfOutcome() })
	s.reported = slices.DeleteFunc(s.reported, func(e listed) bool { return !e.ID.OfOutcome() })
	return s.loadViolations(ctx)
}

// outcomes compares the outcomes with their entries. Outcomes stay in the database when the checks
// of their day leave.
func (s *slice) outcomes(ctx context.Context) error {
	removed := func(e listed) {
		s.tally.find(Removed, outcomeName(e.ID), "%s lists it", batchName(e.place.Chain, e.place.Seq))
	}
	err := s.o.Evidence.Walk(ctx, Outcomes(s.r), func(row []byte) error {
		s.tally.outcomes.Add(1)
		var err error
		if s.fields, err = chain.ParseFields(s.fields[:0], row); err != nil {
			return err
		}
		id := spend.ID(s.fields[0])
		for len(s.reported) > 0 && less(s.reported[0].ID, id) {
			removed(s.reported[0])
			s.reported = s.reported[1:]
		}
		if len(s.reported) == 0 || s.reported[0].ID != id {
			if !s.unfolded.blind(s.fields[2], id) {
				s.tally.find(Inserted, outcomeName(id), "no batch lists it")
				s.verifier.courses.lose(s.fields)
			}
			return nil
		}
		e := s.reported[0]
		s.reported = s.reported[1:]
		if left, is := s.texts[id]; is {
			row = chain.WithTexts(nil, s.fields, left[0], left[1])
		}
		if chain.HashOutcomeRow(row) != e.Row {
			s.tally.find(Altered, outcomeName(id), "its row is not the one that %s was committed with", batchName(e.place.Chain, e.place.Seq))
			s.verifier.courses.lose(s.fields)
		}
		return nil
	})
	if err != nil {
		return err
	}
	for _, e := range s.reported {
		removed(e)
	}
	return s.loadCourses(ctx)
}

// row compares a stored check with its entry and its violation.
func (s *slice) row(row []byte) error {
	var err error
	if s.fields, err = chain.ParseCheckRow(s.fields[:0], row); err != nil {
		return err
	}
	id := spend.ID(s.fields[0])
	s.before(&id)
	intact, listed := true, false
	if len(s.entries) > 0 && s.entries[0].ID == id {
		e := s.entries[0]
		s.entries, listed = s.entries[1:], true
		if intact = chain.HashRow(row) == e.Row; !intact {
			s.tally.find(Altered, checkName(id), "its row is not the one that %s was committed with", batchName(e.place.Chain, e.place.Seq))
		}
	} else if !s.unfolded.blind(s.fields[chain.FieldNode], id) {
		s.tally.find(Inserted, checkName(id), "no batch lists it")
	}
	s.violation(id, intact)
	s.approval(s.fields, intact)
	if err := s.key(s.fields, listed && intact); err != nil {
		return err
	}
	c := s.courseOf(id)
	if err := s.payment(&c); err != nil {
		return err
	}
	if listed && intact {
		s.held(c)
		s.passesFreezes(id, &c)
		s.passesStops(&c)
	}
	return s.take(s.fields, &c, listed, intact)
}

// violation compares the violation of an existing check.
func (s *slice) violation(id spend.ID, intact bool) {
	if s.copies != nil && s.copies.unread {
		return
	}
	var wants bool
	s.wanted, wants = chain.ViolationOf(s.wanted[:0], s.fields)
	has := len(s.violations) > 0 && s.violations[0].id == id
	var stored spend.Hash
	if has {
		stored = s.violations[0].row
		s.violations = s.violations[1:]
	}
	name := violationName(id)
	switch {
	case wants == has && (!has || stored == chain.HashCopy(s.wanted)):
	case !intact:
		s.tally.find(Unchecked, name, "it differs from its check, which was altered")
	case !has:
		s.tally.find(Removed, name, "its check is there, and is none that was allowed")
	case !wants:
		s.tally.find(Inserted, name, "its check was allowed")
	default:
		s.tally.find(Altered, name, "it differs from its check")
	}
}

// before names the entries and violations without a check that come before the identifier; all
// remaining ones if it is nil.
func (s *slice) before(id *spend.ID) {
	for len(s.entries) > 0 || len(s.violations) > 0 {
		entry, violation := next(s.entries, s.violations)
		at := s.at(entry)
		if id != nil && !less(at, *id) {
			return
		}
		if entry {
			s.lose(at)
			s.removed(s.entries[0])
			s.entries = s.entries[1:]
		}
		if violation {
			s.violations = s.violations[1:]
			if entry {
				s.tally.find(Unchecked, violationName(at), "its check was removed")
			} else {
				s.tally.find(Inserted, violationName(at), "it has no check, and no batch lists one")
			}
		}
	}
}

// next reports which of the two lists has the smallest identifier; it may be both.
func next(entries []listed, violations []copied) (entry, violation bool) {
	switch {
	case len(entries) == 0:
		return false, true
	case len(violations) == 0:
		return true, false
	}
	c := entries[0].ID.Compare(violations[0].id)
	return c <= 0, c >= 0
}

func (s *slice) at(entry bool) spend.ID {
	if entry {
		return s.entries[0].ID
	}
	return s.violations[0].id
}

func (s *slice) removed(e listed) {
	if s.absent {
		s.tally.goneCheck(DayOf(e.ID))
		return
	}
	s.tally.find(Removed, checkName(e.ID), "%s lists it", batchName(e.place.Chain, e.place.Seq))
}
