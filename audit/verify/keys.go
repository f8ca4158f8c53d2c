package verify

import (
	"bytes"
	"context"
	"crypto/sha256"
	"io"
	"time"

	"spendgate/audit/chain"
	"spendgate/audit/spend"
)

// idempotencyKey is a row of the idempotency keys.
type idempotencyKey struct {
	Hash    spend.Hash // spend.Check.KeyHash
	Check   spend.ID
	Expires time.Time
}

// keptKeys is how long an idempotency key belongs to its check.
const keptKeys = 24 * time.Hour

// keyed is a check with a key: a shortened hash of the key, and the check's identifier.
type keyed [32]byte

func (k *keyed) check() spend.ID { return spend.ID(k[16:]) }

// keys collects checks with their keys, by key and identifier.
type keys struct {
	sorter[keyed]
	lost map[spend.ID]struct{} // checks with a finding, whose keys prove nothing
}

// keyForm is the form of checks with their keys.
func keyForm() form[keyed] {
	return form[keyed]{
		func(a, b keyed) int { return bytes.Compare(a[:], b[:]) },
		func(w io.Writer) func(keyed) error {
			return func(one keyed) error {
				_, err := w.Write(one[:])
				return err
			}
		},
		func(r io.Reader) func() (keyed, error) {
			return func() (one keyed, err error) {
				_, err = io.ReadFull(r, one[:])
				return one, err
			}
		},
	}
}

// key notes the idempotency key of a check.
func (s *slice) key(fields [][]byte, proved bool) error {
	id := spend.ID(fields[0])
	if !proved {
		s.lose(id)
		return nil
	}
	if len(fields[chain.FieldIdempotencyKey]) == 0 || !s.whole() {
		return nil
	}
	action := spend.Action{IdempotencyKey: string(fields[chain.FieldIdempotencyKey])}
	copy(action.ApprovalID[:], fields[chain.FieldApprovalID]) // absent: zero
	short := shortened(action.KeyHash(string(fields[chain.FieldNamespace])))
	return s.verifier.keys.add(keyed(append(short[:], id[:]...)))
}

// shortened returns a shorter value in the same order: the hash's first half, and a digest of the
// whole.
func shortened(hash spend.Hash) (short [16]byte) {
	all := sha256.Sum256(hash[:])
	copy(short[:8], hash[:8])
	copy(short[8:], all[:8])
	return short
}

// lose notes a check that differs from its record.
func (v *verifier) lose(id spend.ID) {
	v.keys.mu.Lock()
	defer v.keys.mu.Unlock()
	if v.keys.lost == nil {
		v.keys.lost = make(map[spend.ID]struct{})
	}
	v.keys.lost[id] = struct{}{}
}

// keyWalk reads the checks in the order of their keys.
type keyWalk struct {
	*cursor[keyed]
	again   func(first, second spend.ID) // both have the same key
	removed func(newest spend.ID)        // no row has the key
}

// idempotencyKeys compares the keys with the checks that have them: of two checks with one key the
// second is at least a day after the first, and until then the key has its row (G3).
func (v *verifier) idempotencyKeys(ctx context.Context) error {
	if !v.whole() {
		return nil
	}
	w := keyWalk{cursor: newCursor(v.keys.all()), again: v.keyAgain, removed: func(newest spend.ID) {
		if v.holds(newest) {
			v.tally.find(Removed, keyOf(newest), "it is kept until %s", stamp(newest.Time().Add(keptKeys)))
		}
	}}
	defer w.stop()
	err := walkFields(ctx, v.o.Evidence, Walk{Table: chain.IdempotencyKeys(), Order: "key_hash"}, func(f [][]byte, _ []byte) error {
		row := idempotencyKey{Hash: hashIn(f[0]), Check: identifier(f[1])}
		row.Expires, _ = chain.Time(f[2])
		v.tally.idempotencyKeys++
		newest, err := w.newest(row.Hash)
		if err == nil {
			v.keyRow(&row, newest)
		}
		return err
	})
	if err != nil {
		return err
	}
	return w.rest()
}

// rest handles the keys with greater hashes than any row.
func (w *keyWalk) rest() error {
	for w.some && w.err == nil {
		w.removed(w.take())
	}
	return w.err
}

// newest returns the newest check with the key; zero without one. It first handles the keys with
// smaller hashes, which have no row.
func (w *keyWalk) newest(hash spend.Hash) (newest spend.ID, err error) {
	short := shortened(hash)
	for w.some && w.err == nil {
		switch order := bytes.Compare(w.at[:16], short[:]); {
		case order > 0:
			return newest, nil
		case order == 0:
			return w.take(), w.err
		}
		w.removed(w.take())
	}
	return newest, w.err
}

// take moves past the checks of the next key, and returns the newest.
func (w *keyWalk) take() spend.ID {
	for {
		last := w.at
		w.advance()
		if !w.some || !bytes.Equal(w.at[:16], last[:16]) {
			return last.check()
		}
		w.again(last.check(), w.at.check())
	}
}

// holds reports whether the key of a check cannot have expired yet.
func (v *verifier) holds(check spend.ID) bool {
	return check.Time().Add(keptKeys - lateCommit).After(v.overview.At)
}

// keyAgain compares two checks with one key.
func (v *verifier) keyAgain(first, second spend.ID) {
	if second.Time().Sub(first.Time()) < keptKeys-lateCommit {
		v.tally.find(Removed, keyOf(first), "%s has it as well: it had been removed before", checkName(second))
	}
}

// keyRow compares a row with the newest check that has its key.
func (v *verifier) keyRow(row *idempotencyKey, newest spend.ID) {
	_, lost := v.keys.lost[row.Check]
	expired := !row.Expires.After(v.overview.At)
	switch {
	case row.Check == newest:
		if row.Expires.Sub(newest.Time().Add(keptKeys)).Abs() > lateCommit {
			v.tally.find(Altered, keyOf(newest), "it expires at %s, and the check is of %s; or a clock was off", stamp(row.Expires),
				stamp(newest.Time()))
		}
	case !newest.IsZero() && v.holds(newest):
		v.tally.find(Altered, keyOf(newest), "it is noted as that of %s", checkName(row.Check))
	case !expired && !lost && v.tally.gone[DayOf(row.Check)] == 0 && !v.tally.isUnread(DayOf(row.Check)):
		v.tally.find(Inserted, keyOf(row.Check), "there is no such check, or it has another")
	}
}

func keyOf(check spend.ID) string { return "idempotency key of " + checkName(check) }
