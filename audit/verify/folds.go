package verify

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"time"

	"spendgate/audit/archive"
	"spendgate/audit/chain"
	"spendgate/audit/checkpoint"
	"spendgate/audit/spend"
)

// Fold is a note that batches left the database.
type Fold struct {
	checkpoint.Fold
	Signature []byte
	At        time.Time
}

// Unfolded is a snapshot of a database together with the batches that were folded, from their
// archives. It reads as if no batch had ever left, except for archives that are missing or altered.
type Unfolded struct {
	Evidence
	folds   map[spend.ID][]*held // of each chain, by number
	leaving map[spend.ID]bool    // chains with batches in both places
	files   []*foldedFile        // available files, by day
	found   func(kind Kind, subject, format string, args ...any)
}

// held is a fold and the place of its batches.
type held struct {
	Fold
	file   *foldedFile // nil if the archive is unreadable, or outside the range
	unread bool        // the archive is unreadable
	blocks []archive.Block
	rows   int64 // of the fold in its archive
	sum    int64 // of the rows' entries
	last   []byte
}

// foldedFile is an archive of batches.
type foldedFile struct {
	*archive.Archive
	folds     []*held
	low, high spend.ID // the range of the checks that its batches list
	rows      int64
}

// Unfold adds the batches of archives, for a range, and reports what is wrong with folds and archives.
// It uses the evidence, the archives, the keys and the fold in progress of the options; without keys
// signatures are not verified.
func Unfold(ctx context.Context, o Options, r Range, found func(Finding)) (*Unfolded, error) {
	u := &Unfolded{
		Evidence: o.Evidence, folds: make(map[spend.ID][]*held), leaving: make(map[spend.ID]bool),
		found: func(kind Kind, subject, format string, args ...any) {
			found(Finding{kind, subject, fmt.Sprintf(format, args...)})
		},
	}
	days := make(map[Day][]*held)
	err := o.Evidence.Folds(ctx, func(f Fold) error {
		u.add(days, f)
		signed := func(key checkpoint.PublicKey) bool { return key.SignedFold(&f.Fold, f.Signature) }
		if len(o.FoldKeys) > 0 && !slices.ContainsFunc(o.FoldKeys, signed) {
			u.found(Altered, foldName(&f.Fold), "its signature is of no key that was given")
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	for _, f := range o.Folding {
		u.add(days, f)
		u.leaving[f.Chain] = true
	}
	for _, day := range sortedDays(days) {
		if day < DayOf(r.Low) {
			continue // these batches list only older checks
		}
		if err := u.open(o.Archives, day, days[day], r); err != nil {
			return nil, err
		}
	}
	return u, nil
}

func sortedDays(days map[Day][]*held) []Day {
	all := make([]Day, 0, len(days))
	for day := range days {
		all = append(all, day)
	}
	slices.Sort(all)
	return all
}

// add notes a fold, and compares it with the previous fold.
func (u *Unfolded) add(days map[Day][]*held, f Fold) {
	before := checkpoint.Fold{}
	if all := u.folds[f.Chain]; len(all) > 0 {
		before = all[len(all)-1].Fold.Fold
	}
	if f.From != before.To+1 || f.To < f.From || f.Previous != before.Head {
		u.found(Altered, foldName(&f.Fold), "it does not follow the one before it, which ends at batch %d", before.To)
	}
	one := &held{Fold: f}
	u.folds[f.Chain] = append(u.folds[f.Chain], one)
	days[Day(f.Day)] = append(days[Day(f.Day)], one)
}

// open reads the archive of a day, if it may have something of the range, and assigns it to the
// day's folds.
func (u *Unfolded) open(folder string, day Day, folds []*held, r Range) error {
	name := "batches of " + day.String()
	for _, f := range folds {
		f.unread = true
	}
	if folder == "" {
		u.found(Unchecked, name, "%d batches were folded at %s: give --archive with the folder where they are", count(folds), stamp(folds[0].At))
		return nil
	}
	file, err := openFolded(folder, day, folds)
	other := err == nil && (less(file.high, r.Low) || less(r.High, file.low))
	if err == nil && !other {
		err = file.index()
	}
	switch {
	case errors.Is(err, fs.ErrNotExist):
		u.found(Unchecked, name, "%d batches were folded at %s, and the archive is not in %s", count(folds), stamp(folds[0].At), folder)
		return nil
	case errors.Is(err, archive.ErrAltered):
		u.found(Altered, "archive of "+name, "%v", err)
		return nil
	case err != nil:
		return err
	}
	for _, f := range folds {
		f.unread = false
		if other {
			continue
		}
		f.file = file
		if f.sum != f.Entries || toHash(f.last) != f.Head {
			u.found(Altered, foldName(&f.Fold.Fold), "its archive has %d entries of %d, or another head", f.sum, f.Entries)
		}
	}
	if !other {
		u.files = append(u.files, file)
	}
	return nil
}

func openFolded(folder string, day Day, folds []*held) (*foldedFile, error) {
	a, err := archive.Open(folder, archive.BatchesOf(day.Time()))
	if err != nil {
		return nil, err
	}
	for _, f := range folds {
		if f.Manifest != a.SHA256 {
			return nil, fmt.Errorf("%w: its manifest is not the one with which the batches were folded", archive.ErrAltered)
		}
	}
	return &foldedFile{Archive: a, folds: folds, low: idOf(a.FirstID), high: idOf(a.LastID)}, nil
}

// index reads the whole archive, which must have exactly the batches of the folds.
func (file *foldedFile) index() error {
	of := make(map[spend.ID][]*held)
	for _, f := range file.folds {
		of[f.Chain] = append(of[f.Chain], f)
	}
	find := func(chainID spend.ID, seq int64) *held {
		for _, f := range of[chainID] {
			if f.From <= seq && seq <= f.To {
				return f
			}
		}
		return nil
	}
	blocks, err := file.Blocks(func(b archive.Batch) error {
		f := find(b.Chain, b.Seq)
		if f == nil {
			return fmt.Errorf("%w: %s is not one that was folded", archive.ErrAltered, batchName(b.Chain, b.Seq))
		}
		f.rows, f.sum, f.last = f.rows+1, f.sum+int64(len(b.Entries)/chain.EntrySize), append(f.last[:0], b.Head...)
		file.rows++
		return nil
	})
	if err != nil {
		return err
	}
	for _, f := range file.folds {
		if f.rows != f.To-f.From+1 {
			return fmt.Errorf("%w: it has %d of the batches %d to %d of %s", archive.ErrAltered, f.rows, f.From, f.To, chainName(f.Chain))
		}
	}
	for _, b := range blocks {
		f := find(b.Chain, b.From)
		f.blocks = append(f.blocks, b)
	}
	return nil
}

func count(folds []*held) (n int64) {
	for _, f := range folds {
		n += f.To - f.From + 1
	}
	return n
}

// idOf reads an identifier of a manifest; zero for text that is no identifier.
func idOf(text string) (id spend.ID) {
	if b, err := hex.DecodeString(text); err == nil && len(b) == len(id) {
		copy(id[:], b)
	}
	return id
}

func foldName(f *checkpoint.Fold) string {
	return fmt.Sprintf("fold of %s up to batch %d", chainName(f.Chain), f.To)
}

// absent returns the fold that has the batch and whose batches cannot be read; nil without one.
func (u *Unfolded) absent(p Place) *held {
	for _, f := range u.folds[p.Chain] {
		if f.From <= p.Seq && p.Seq <= f.To && f.file == nil {
			return f
		}
	}
	return nil
}

// blind reports whether an unreadable batch of a chain may list an identifier.
func (u *Unfolded) blind(chainID []byte, id spend.ID) bool {
	return len(chainID) == len(id) && len(u.Blind(spend.ID(chainID), id)) > 0
}

// Blind returns the days with unreadable archives of batches that may list an identifier in a
// chain.
func (u *Unfolded) Blind(chainID, id spend.ID) (days []Day) {
	for _, f := range u.folds[chainID] {
		if f.unread && DayOf(id) <= Day(f.Day) {
			days = append(days, Day(f.Day))
		}
	}
	return days
}

// Folded returns how many batches left with a day.
func (u *Unfolded) Folded(day Day) (n int64) {
	for _, folds := range u.folds {
		for _, f := range folds {
			if Day(f.Day) == day {
				n += f.To - f.From + 1
			}
		}
	}
	return n
}

// Without returns the snapshot as it is without the archives of some days.
func (u *Unfolded) Without(days []Day) *Unfolded {
	without := *u
	without.folds, without.files = make(map[spend.ID][]*held, len(u.folds)), nil
	for chainID, folds := range u.folds {
		for _, f := range folds {
			one := *f
			if slices.Contains(days, Day(f.Day)) {
				one.file, one.unread = nil, true
			}
			without.folds[chainID] = append(without.folds[chainID], &one)
		}
	}
	for _, file := range u.files {
		if !slices.Contains(days, Day(file.folds[0].Day)) {
			without.files = append(without.files, file)
		}
	}
	return &without
}

// top returns the number of a chain's last folded batch; 0 without one.
func (u *Unfolded) top(chainID spend.ID) int64 {
	all := u.folds[chainID]
	if len(all) == 0 {
		return 0
	}
	return all[len(all)-1].To
}

// each calls visit with the available blocks that may list something of the range.
func (u *Unfolded) each(r Range, visit func(*held, archive.Block) error) error {
	for _, file := range u.files {
		if less(r.High, file.low) || less(file.high, r.Low) {
			continue
		}
		for _, f := range file.folds {
			for _, b := range f.blocks {
				if less(r.High, b.Low) || less(b.High, r.Low) {
					continue
				}
				if err := visit(f, b); err != nil {
					return err
				}
			}
		}
	}
	return nil
}
