package checkpoint

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"time"

	"spendgate/audit/chain"
	"spendgate/audit/spend"
)

// state is what a file of checkpoints says as of its last whole line.
type state struct {
	heads        map[spend.ID]chain.Head
	changes      LastChange
	last         []byte    // the line, without its newline; nil for a file with none
	time         time.Time // of last
	acknowledged time.Time // of the last line that was signed over a contradiction; zero without one
	sinceFull    int       // lines behind the last full one
}

// apply goes on by one line. The last one's signature, and the digest in it, prove
// those before: see check.
func (s *state) apply(text []byte) error {
	var l Line
	if err := json.Unmarshal(text, &l); err != nil {
		return fmt.Errorf("cannot read a line: %w", err)
	}
	s.sinceFull++
	if l.Full || s.heads == nil {
		s.heads = make(map[spend.ID]chain.Head, len(l.Heads))
		s.sinceFull = 0
	}
	for _, h := range l.Heads {
		s.heads[spend.ID(h.Chain)] = chain.Head{Chain: spend.ID(h.Chain), Seq: h.Seq, Head: spend.Hash(h.Head)}
	}
	s.changes, s.last, s.time = l.Changes, text, l.Time
	if l.Acknowledged != nil {
		s.acknowledged = l.Time
	}
	return nil
}

var errAltered = errors.New("the file of checkpoints is not as it was signed, or is of another key: keep it, verify the trail with it, " +
	"and begin another")

// check fails unless the state is the one that was signed.
func (s *state) check(key PublicKey) error {
	if s.last == nil {
		return nil
	}
	l, err := Parse(s.last, key)
	if err != nil {
		return fmt.Errorf("%w: %w", errAltered, err)
	}
	if Digest(slices.Collect(maps.Values(s.heads))) != spend.Hash(l.Digest) {
		return errAltered
	}
	return nil
}

// contradiction has the chains that do not continue a state: they end earlier, or have another head
// at the same number. Chains only grow.
type contradiction struct {
	chains  []Lost
	changes bool
}

func (c *contradiction) any() bool { return len(c.chains) > 0 || c.changes }

// longer are the heads of the state whose chains are longer now: what lost some may have grown
// past it since, as the chain of changes does after a restore.
func (s *state) longer(now chain.Heads) (then chain.Heads) {
	for _, h := range now.Chains {
		if before, ok := s.heads[h.Chain]; ok && before.Seq < h.Seq {
			then.Chains = append(then.Chains, before)
		}
	}
	if 0 < s.changes.Seq && s.changes.Seq < now.ChangeSeq {
		then.ChangeSeq, then.ChangeHead = s.changes.Seq, spend.Hash(s.changes.Head)
	}
	return then
}

// lost compares the state with the present ends of the chains and, for chains that are longer, with
// their present heads at the state's numbers.
func (s *state) lost(now, then chain.Heads) (c contradiction) {
	ends, at := byChain(now), byChain(then)
	for chainID, before := range s.heads {
		has := ends[chainID]
		if has.Seq > before.Seq {
			has = at[chainID]
		}
		if has != before {
			c.chains = append(c.chains, Lost{ChainID(chainID), before.Seq, ends[chainID].Seq})
		}
	}
	has := LastChange{now.ChangeSeq, Hex(now.ChangeHead)}
	if has.Seq > s.changes.Seq {
		has = LastChange{then.ChangeSeq, Hex(then.ChangeHead)}
	}
	c.changes = s.changes.Seq > 0 && has != s.changes
	return c
}

func byChain(heads chain.Heads) map[spend.ID]chain.Head {
	by := make(map[spend.ID]chain.Head, len(heads.Chains))
	for _, h := range heads.Chains {
		by[h.Chain] = h
	}
	return by
}

// follower reads a file that others append to, each line once.
type follower struct {
	state
	file   os.FileInfo // nil if nothing was read
	offset int64
	torn   bool // the file does not end with a newline
}

// catchUp reads what was appended. A file that was replaced or truncated is read from its
// beginning; before is then the state of the earlier file.
func (f *follower) catchUp(file *os.File) (before *state, err error) {
	info, err := file.Stat()
	if err != nil {
		return nil, err
	}
	if f.file != nil && (!os.SameFile(f.file, info) || info.Size() < f.offset) {
		if f.last != nil {
			old := f.state
			before = &old
		}
		*f = follower{}
	}
	f.file = info
	if _, err := file.Seek(f.offset, io.SeekStart); err != nil {
		return before, err
	}
	var pending [][]byte // since the last full line: what comes before that does not matter
	lines := bufio.NewReaderSize(file, 1<<16)
	for {
		text, err := lines.ReadBytes('\n')
		if err != nil && !errors.Is(err, io.EOF) {
			return before, err
		}
		if len(text) == 0 {
			break
		}
		f.offset += int64(len(text))
		whole, newline := bytes.CutSuffix(text, []byte("\n"))
		f.torn = !newline
		switch {
		case !isWhole(whole):
		case bytes.Contains(whole, []byte(acknowledgedField)):
			// Applied on its own: after a full line it would not show when it was signed.
			if err := f.apply(whole); err != nil {
				return before, err
			}
			pending = nil
		case bytes.Contains(whole, []byte(`"full":true`)):
			pending = append(pending[:0], whole)
		default:
			pending = append(pending, whole)
		}
	}
	for _, text := range pending {
		if err := f.apply(text); err != nil {
			return before, err
		}
	}
	return before, nil
}

const acknowledgedField = `"acknowledged":{`

// newestBeside returns the newest state of the other checkpoint files in the folder of a file: if
// each process has a file of its own, the last signed line is in another file. It reads files with
// the same extension, which must not be empty. It returns nil if no file has a line of this key.
func newestBeside(path string, key PublicKey) (*state, error) {
	if filepath.Ext(path) == "" {
		return nil, nil //nolint:nilnil // there is none
	}
	paths, err := filepath.Glob(filepath.Join(filepath.Dir(path), "*"+filepath.Ext(path)))
	if err != nil {
		return nil, err
	}
	newest, at := "", time.Time{}
	for _, other := range paths {
		if filepath.Base(other) == filepath.Base(path) {
			continue
		}
		if info, err := os.Stat(other); err != nil || !info.Mode().IsRegular() {
			continue // gone meanwhile, or no file
		}
		last, err := lastLineOf(other)
		if err != nil {
			return nil, err
		}
		if l, err := Parse(last, key); err == nil && l.Time.After(at) {
			newest, at = other, l.Time
		}
	}
	if newest == "" {
		return nil, nil //nolint:nilnil // there is none
	}
	file, err := os.Open(newest)
	if err != nil {
		return nil, err
	}
	defer func() { _ = file.Close() }() // it was only read
	var f follower
	if _, err := f.catchUp(file); err != nil {
		return nil, err
	}
	return &f.state, f.check(key)
}

// lastLineOf returns the last whole line of a file, or nil.
func lastLineOf(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }() // as above
	return lastLine(f)
}

// lastLine reads a file from its end, for it only grows.
func lastLine(f *os.File) ([]byte, error) {
	size, err := f.Seek(0, io.SeekEnd)
	if err != nil {
		return nil, err
	}
	const least = 64 << 10
	for n := int64(least); ; n *= 4 {
		from := max(0, size-n)
		tail := make([]byte, size-from)
		if _, err := f.ReadAt(tail, from); err != nil && !errors.Is(err, io.EOF) {
			return nil, err
		}
		lines := bytes.Split(tail, []byte("\n")) // after the last newline there may be an unfinished line
		for i := len(lines) - 1; i >= 0 && (i > 0 || from == 0); i-- {
			if isWhole(lines[i]) {
				return lines[i], nil
			}
		}
		if from == 0 {
			return nil, nil
		}
	}
}

// isWhole reports whether a line was written to its end.
func isWhole(text []byte) bool {
	return bytes.Contains(text, []byte(signatureField)) && json.Valid(text)
}
