package verify

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"sync"
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
type keyed [keyedSize]byte

const keyedSize = 32

func (k *keyed) check() spend.ID { return spend.ID(k[16:]) }

// keys collects checks by the first byte of their keys' hashes. Beyond some megabytes it uses a
// temporary file.
type keys struct {
	mu   sync.Mutex
	file *os.File
	end  int64

	parts [256]keyPart
	lost  map[spend.ID]struct{} // checks with a finding, whose keys prove nothing
}

type keyPart struct {
	memory []byte
	chunks []int64 // places of chunks in the file, keyChunk bytes each
}

const keyChunk = 1 << 16

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
	return s.verifier.keys.add(action.KeyHash(string(fields[chain.FieldNamespace])), id)
}

// add notes a check's key.
func (k *keys) add(hash spend.Hash, id spend.ID) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	part := &k.parts[hash[0]]
	short := shortened(hash)
	part.memory = append(append(part.memory, short[:]...), id[:]...)
	if len(part.memory) < keyChunk {
		return nil
	}
	if err := k.spill(part); err != nil {
		return fmt.Errorf("cannot keep keys in a temporary file: %w", err)
	}
	return nil
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

func (k *keys) spill(part *keyPart) (err error) {
	if k.file == nil {
		if k.file, err = os.CreateTemp("", "spendgate-verify-"); err != nil {
			return err
		}
	}
	if _, err := k.file.WriteAt(part.memory, k.end); err != nil {
		return err
	}
	part.chunks = append(part.chunks, k.end)
	k.end += keyChunk
	part.memory = part.memory[:0]
	return nil
}

func (k *keys) close() error {
	if k.file == nil {
		return nil
	}
	return errors.Join(k.file.Close(), os.Remove(k.file.Name()))
}

// sorted returns a part ordered by key and identifier.
func (k *keys) sorted(of byte) ([]keyed, error) {
	part := &k.parts[of]
	all := make([]byte, 0, len(part.chunks)*keyChunk+len(part.memory))
	for _, at := range part.chunks {
		all = all[:len(all)+keyChunk]
		if _, err := k.file.ReadAt(all[len(all)-keyChunk:], at); err != nil && !errors.Is(err, io.EOF) {
			return nil, fmt.Errorf("cannot read keys from a temporary file: %w", err)
		}
	}
	all = append(all, part.memory...)
	sorted := make([]keyed, 0, len(all)/keyedSize)
	for one := range slices.Chunk(all, keyedSize) {
		sorted = append(sorted, keyed(one))
	}
	slices.SortFunc(sorted, func(a, b keyed) int { return bytes.Compare(a[:], b[:]) })
	return sorted, nil
}

// keyWalk reads the checks in the order of their keys.
type keyWalk struct {
	keys    *keys
	again   func(first, second spend.ID) // both have the same key
	removed func(newest spend.ID)        // no row has the key

	part int // the next one
	left []keyed
}

// idempotencyKeys compares the keys with the checks that have them: of two checks with one key the
// second is at least a day after the first, and until then the key has its row (G3).
func (v *verifier) idempotencyKeys(ctx context.Context) error {
	if !v.whole() {
		return nil
	}
	w := keyWalk{keys: &v.keys, again: v.keyAgain, removed: func(newest spend.ID) {
		if v.holds(newest) {
			v.tally.find(Removed, keyOf(newest), "it is kept until %s", stamp(newest.Time().Add(keptKeys)))
		}
	}}
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
	for {
		if len(w.left) > 0 {
			w.next()
			continue
		}
		if w.part == len(w.keys.parts) {
			return nil
		}
		if err := w.load(); err != nil {
			return err
		}
	}
}

// newest returns the newest check with the key; zero without one. It first handles the keys with
// smaller hashes, which have no row.
func (w *keyWalk) newest(hash spend.Hash) (newest spend.ID, err error) {
	short := shortened(hash)
	for {
		for len(w.left) == 0 {
			if w.part > int(hash[0]) {
				return newest, nil
			}
			if err := w.load(); err != nil {
				return newest, err
			}
		}
		switch order := bytes.Compare(w.left[0][:16], short[:]); {
		case order > 0:
			return newest, nil
		case order == 0:
			return w.take(), nil
		}
		w.next()
	}
}

func (w *keyWalk) load() (err error) {
	w.left, err = w.keys.sorted(byte(w.part))
	w.part++
	return err
}

// take removes the checks of the next key, and returns the newest.
func (w *keyWalk) take() spend.ID {
	n := 1
	for n < len(w.left) && bytes.Equal(w.left[n][:16], w.left[0][:16]) {
		w.again(w.left[n-1].check(), w.left[n].check())
		n++
	}
	newest := w.left[n-1].check()
	w.left = w.left[n:]
	return newest
}

func (w *keyWalk) next() { w.removed(w.take()) }

// holds reports whether the key of a check cannot have expired yet.
func (v *verifier) holds(check spend.ID) bool {
	return check.Time().Add(keptKeys - lateCommit).After(v.overview.At)
}

// keyAgain compares two checks with one key.
func (v *verifier) keyAgain(first, second spend.ID) {
	if second.Time().Sub(first.Time()) < keptKeys-lateCommit {
		v.tally.find(Removed, keyOf(first), "%s has it as well: it was gone by then", checkName(second))
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
