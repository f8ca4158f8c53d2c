package verify

import (
	"bytes"
	"context"
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

// IdempotencyKey is a row of the idempotency keys.
type IdempotencyKey struct {
	Hash    spend.Hash // spend.Check.KeyHash
	Check   spend.ID
	Expires time.Time
}

// keptKeys is how long an idempotency key is its check's.
const keptKeys = 24 * time.Hour

// keyed is a check that has an idempotency key: 16 bytes of the key's hash, and its
// identifier.
type keyed [keyedSize]byte

const keyedSize = 32

func (k *keyed) check() spend.ID { return spend.ID(k[16:]) }

// keys collects checks by the first byte of their keys' hashes. What is more than
// some megabytes is in a temporary file.
type keys struct {
	mu   sync.Mutex
	file *os.File
	end  int64

	parts [256]keyPart
	lost  map[spend.ID]struct{} // checks that are named, and whose keys prove nothing
}

type keyPart struct {
	memory []byte
	chunks []int64 // where they are in the file, keyChunk bytes each
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
	k := &s.verifier.keys
	k.mu.Lock()
	defer k.mu.Unlock()
	action := spend.Action{IdempotencyKey: string(fields[chain.FieldIdempotencyKey])}
	copy(action.ApprovalID[:], fields[chain.FieldApprovalID]) // absent: zero
	hash := action.KeyHash(string(fields[chain.FieldNamespace]))
	part := &k.parts[hash[0]]
	part.memory = append(append(part.memory, hash[:16]...), id[:]...)
	if len(part.memory) < keyChunk {
		return nil
	}
	if err := k.spill(part); err != nil {
		return fmt.Errorf("cannot keep idempotency keys in a temporary file: %w", err)
	}
	return nil
}

// lose notes a check that is not as it was recorded.
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

// sorted returns a part by key, and of each key by identifier.
func (k *keys) sorted(of byte) ([]keyed, error) {
	part := &k.parts[of]
	all := make([]byte, 0, len(part.chunks)*keyChunk+len(part.memory))
	for _, at := range part.chunks {
		all = all[:len(all)+keyChunk]
		if _, err := k.file.ReadAt(all[len(all)-keyChunk:], at); err != nil && !errors.Is(err, io.EOF) {
			return nil, fmt.Errorf("cannot read idempotency keys from a temporary file: %w", err)
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

// keyWalk goes through the checks by their keys.
type keyWalk struct {
	*verifier
	part int // that is next
	left []keyed
}

// idempotencyKeys compares them with the checks that have them: of two checks with one
// key the second is a day after the first, and until then the key has its row (G3).
func (v *verifier) idempotencyKeys(ctx context.Context) error {
	if !v.whole() {
		return nil
	}
	w := keyWalk{verifier: v}
	err := v.o.Evidence.IdempotencyKeys(ctx, func(row IdempotencyKey) error {
		v.tally.idempotencyKeys++
		newest, err := w.newest(row.Hash)
		if err == nil {
			w.row(&row, newest)
		}
		return err
	})
	if err != nil {
		return err
	}
	_, err = w.newest(spend.Hash(bytes.Repeat([]byte{0xff}, len(spend.Hash{}))))
	return err
}

// newest returns the newest check with the key; zero without one. On its way it
// compares those of smaller hashes, which have no row.
func (w *keyWalk) newest(hash spend.Hash) (newest spend.ID, err error) {
	for {
		for len(w.left) == 0 {
			if w.part > int(hash[0]) || w.part == len(w.keys.parts) {
				return newest, nil
			}
			if w.left, err = w.keys.sorted(byte(w.part)); err != nil {
				return newest, err
			}
			w.part++
		}
		order := bytes.Compare(w.left[0][:16], hash[:16])
		if order > 0 {
			return newest, nil
		}
		n := 1
		for n < len(w.left) && bytes.Equal(w.left[n][:16], w.left[0][:16]) {
			w.again(w.left[n-1].check(), w.left[n].check())
			n++
		}
		last := w.left[n-1].check()
		w.left = w.left[n:]
		if order == 0 {
			return last, nil
		}
		if w.holds(last) {
			w.tally.find(Removed, keyOf(last), "it is kept until %s", stamp(last.Time().Add(keptKeys)))
		}
	}
}

// holds reports whether the key of a check cannot have expired yet.
func (v *verifier) holds(check spend.ID) bool {
	return check.Time().Add(keptKeys - lateCommit).After(v.overview.At)
}

// again compares two checks with one key.
func (w *keyWalk) again(first, second spend.ID) {
	if second.Time().Sub(first.Time()) < keptKeys-lateCommit {
		w.tally.find(Removed, keyOf(first), "%s has it as well: it was gone by then", checkName(second))
	}
}

// row compares a row with the newest check that has its key.
func (w *keyWalk) row(row *IdempotencyKey, newest spend.ID) {
	_, lost := w.keys.lost[row.Check]
	expired := !row.Expires.After(w.overview.At)
	switch {
	case row.Check == newest:
		if row.Expires.Sub(newest.Time().Add(keptKeys)).Abs() > lateCommit {
			w.tally.find(Altered, keyOf(newest), "it expires at %s, and the check is of %s; or a clock was off", stamp(row.Expires), stamp(newest.Time()))
		}
	case !newest.IsZero() && w.holds(newest):
		w.tally.find(Altered, keyOf(newest), "it is noted as that of %s", checkName(row.Check))
	case !expired && !lost && w.tally.gone[DayOf(row.Check)] == 0 && !w.tally.isUnread(DayOf(row.Check)):
		w.tally.find(Inserted, keyOf(row.Check), "there is no such check, or it has another")
	}
}

func keyOf(check spend.ID) string { return "idempotency key of " + checkName(check) }
