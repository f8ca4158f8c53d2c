package export

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"time"

	"spendgate/audit/checkpoint"
	"spendgate/audit/spend"
	"spendgate/audit/verify"
)

// Check compares a file with its manifest, and both with the record: the record must have the heads
// of the manifest, and a file made anew up to these heads must be the same. It calls found with
// each discrepancy; an error means that the comparison could not be done. Of the options it uses
// Record and Archives. It returns how many checks of the range come after the heads in the record:
// if the range has an end, these are a discrepancy, too, since a file that lacks them may have been
// cut.
func Check(ctx context.Context, file io.Reader, m *Manifest, o Options, found func(string)) (later int64, err error) {
	if err := checkHeads(ctx, m, o.Record, found); err != nil {
		return 0, err
	}
	heads := m.heads()
	if spend.Hash(m.Digest) != checkpoint.Digest(heads.Chains) || m.Chains != len(m.Heads) {
		found("manifest: its digest is not that of its heads")
	}
	for _, bound := range []struct {
		text *string
		into *time.Time
	}{{m.From, &o.From}, {m.To, &o.To}} {
		if bound.text == nil {
			continue
		}
		if *bound.into, err = time.Parse(time.RFC3339, *bound.text); err != nil {
			return 0, fmt.Errorf("a time of the manifest cannot be read: %w", err)
		}
	}
	if o.Format, o.BOM, o.Sample = m.Format, m.BOM, m.Sample; len(m.AbsentBatches) > 0 && o.Batches != nil {
		if o.Batches, err = withoutAbsent(o.Batches, m.AbsentBatches); err != nil {
			return 0, err
		}
	}
	sum := sha256.New()
	against := &comparing{file: io.TeeReader(file, sum)}
	made, err := write(ctx, against, o, heads, m.Absent)
	if err != nil {
		return 0, err
	}
	sameAbsent(m, made, found)
	if err := against.rest(); err != nil {
		return 0, err
	}
	if spend.Hash(sum.Sum(nil)) != spend.Hash(m.SHA256) {
		found("file: its SHA-256 is not the manifest's")
	}
	if against.line > 0 {
		found(fmt.Sprintf("file: line %d is not what the record has", against.line))
	}
	if text := made.Text(); !bytes.Equal(text, m.Text()) {
		found("manifest: its counts are not those of the record up to its heads: " + firstDifference(text, m.Text()))
	}
	if made.later > 0 && m.To != nil {
		found(fmt.Sprintf("%d checks of the range are behind the heads of the manifest: recorded after the file was made, or left out of it",
			made.later))
	}
	return made.later, nil
}

// firstDifference returns the first line in which two manifests differ.
func firstDifference(want, has []byte) string {
	wants, hases := bytes.Split(want, []byte("\n")), bytes.Split(has, []byte("\n"))
	for i := range min(len(wants), len(hases)) {
		if !bytes.Equal(wants[i], hases[i]) {
			return fmt.Sprintf("%s, and it should be %s", bytes.TrimSpace(hases[i]), bytes.TrimSpace(wants[i]))
		}
	}
	return "it has another length"
}

// checkHeads compares the heads of the manifest with the database's batches.
func checkHeads(ctx context.Context, m *Manifest, record Record, found func(string)) error {
	places := make([]verify.Place, len(m.Heads))
	for i, h := range m.Heads {
		places[i] = verify.Place{Chain: spend.ID(h.Chain), Seq: h.Seq}
	}
	heads, _, err := record.Heads(ctx, places)
	if err != nil {
		return err
	}
	folded, err := tops(ctx, record)
	if err != nil {
		return err
	}
	for i, h := range m.Heads {
		head, is := heads[places[i]]
		name := fmt.Sprintf("batch %d of chain %s", h.Seq, places[i].Chain.Text(""))
		switch {
		case !is && h.Seq <= folded[places[i].Chain]:
			found(name + ": it left the record: give --archive with the folder where the archives of batches are")
		case !is:
			found(name + ": the manifest has it, and the record does not")
		case head != spend.Hash(h.Head):
			found(name + ": its head is not the manifest's")
		}
	}
	met := m.Changes.Seq == 0
	err = verify.Changes(ctx, record, func(c verify.Change) error {
		if c.Seq != m.Changes.Seq {
			return nil
		}
		if met = true; c.Head != spend.Hash(m.Changes.Head) {
			found(fmt.Sprintf("change %d of the configuration: its head is not the manifest's", c.Seq))
		}
		return nil
	})
	if err == nil && !met {
		found(fmt.Sprintf("change %d of the configuration: the manifest has it, and the record does not", m.Changes.Seq))
	}
	return err
}

// comparing compares its input with a file.
type comparing struct {
	file    io.Reader
	at      int // lines so far
	line    int // the first that differs; 0 if none does
	content [64 << 10]byte
}

func (c *comparing) Write(p []byte) (int, error) {
	for rest := p; len(rest) > 0; {
		part := rest[:min(len(rest), len(c.content))]
		rest = rest[len(part):]
		n, err := io.ReadFull(c.file, c.content[:len(part)])
		if err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
			return 0, err
		}
		same := 0
		for same < n && c.content[same] == part[same] {
			same++
		}
		if c.line == 0 && same < len(part) {
			c.line = c.at + bytes.Count(part[:same], []byte("\n")) + 1
		}
		c.at += bytes.Count(part, []byte("\n"))
	}
	return len(p), nil
}

// rest reads what the file has beyond the comparison.
func (c *comparing) rest() error {
	n, err := io.Copy(io.Discard, c.file)
	if n > 0 && c.line == 0 {
		c.line = c.at + 1
	}
	return err
}

// Hold compares the manifest with a file of signed checkpoints: where both have a chain's head for
// the same number, it must be the same. It returns the time of the first checkpoint that covers the
// whole manifest; zero if none does. Check and audit verify show that the database continues both.
func (m *Manifest) Hold(file io.Reader, key checkpoint.PublicKey, found func(string)) (covered time.Time, err error) {
	state := make(map[checkpoint.ChainID]checkpoint.Head)
	lines := bufio.NewReaderSize(file, 1<<16)
	for number := 1; ; number++ {
		text, err := lines.ReadBytes('\n')
		if len(text) == 0 && errors.Is(err, io.EOF) {
			return covered, nil
		}
		if err != nil && !errors.Is(err, io.EOF) {
			return covered, fmt.Errorf("cannot read the checkpoints: %w", err)
		}
		l, err := checkpoint.Parse(bytes.TrimSuffix(text, []byte("\n")), key)
		if errors.Is(err, checkpoint.ErrTorn) {
			continue // a crash leaves a torn line
		}
		if err != nil {
			found(fmt.Sprintf("checkpoint on line %d: %v", number, err))
			continue
		}
		if l.Full {
			clear(state)
		}
		for _, h := range l.Heads {
			state[h.Chain] = h
		}
		if m.covered(&l, state, found) && covered.IsZero() {
			covered = l.Time
		}
	}
}

// covered compares the manifest with a checkpoint, and reports whether the checkpoint covers the
// whole manifest.
func (m *Manifest) covered(l *checkpoint.Line, state map[checkpoint.ChainID]checkpoint.Head, found func(string)) bool {
	whole := l.Changes.Seq >= m.Changes.Seq
	if l.Changes.Seq == m.Changes.Seq && l.Changes.Head != m.Changes.Head {
		found(fmt.Sprintf("change %d of the configuration: the checkpoint of %s has another head than the manifest",
			m.Changes.Seq, stamp(l.Time)))
	}
	for _, h := range m.Heads {
		signed := state[h.Chain]
		whole = whole && signed.Seq >= h.Seq
		if signed.Seq == h.Seq && signed.Head != h.Head {
			found(fmt.Sprintf("batch %d of chain %s: the checkpoint of %s has another head than the manifest",
				h.Seq, spend.ID(h.Chain).Text(""), stamp(l.Time)))
		}
	}
	return whole
}
