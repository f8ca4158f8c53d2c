package export

import (
	"bytes"
	"cmp"
	"container/heap"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"io"
	"slices"
	"time"

	"spendgate/audit/chain"
	"spendgate/audit/checkpoint"
	"spendgate/audit/spend"
	"spendgate/audit/verify"
)

// Options select what is exported.
type Options struct {
	Record   Record
	From, To time.Time // both inclusive, to the millisecond; zero for no bound
	Format   Format
	BOM      bool    // a CSV file begins with a byte order mark
	Sample   *Sample // nil for all checks
	Sums     SumsOf
	Archives string // the folder of the archives; empty for none
	// Batches is the record including the batches that left; nil if none did.
	Batches *verify.Unfolded
}

// SumsOf selects the lines of Sums.
type SumsOf struct {
	PolicyID, AgentID string         // empty: any
	Zone              *time.Location // whose days they are; nil: UTC
}

// Sample is a reproducible choice of checks: the N checks for which SHA-256(seed, a newline,
// check_id) is smallest.
type Sample struct {
	Checks int    `json:"checks"`
	Seed   string `json:"seed"`
}

// Manifest describes a file, and ties it to the hash chains.
type Manifest struct {
	Version    int              `json:"manifest"` // 1
	Format     Format           `json:"format"`
	BOM        bool             `json:"bom,omitempty"`
	From       *string          `json:"from"`
	To         *string          `json:"to"`
	Sample     *Sample          `json:"sample"`
	Columns    []string         `json:"columns"`
	Checks     int64            `json:"checks"`     // rows of the file
	Population int64            `json:"population"` // checks of the range, of which a sample was taken
	Decisions  map[string]int64 `json:"decisions"`  // rows by decision
	FirstID    string           `json:"first_id"`
	LastID     string           `json:"last_id"`
	Bytes      int64            `json:"bytes"`
	SHA256     checkpoint.Hex   `json:"sha256"` // of the file
	Absent     []AbsentDay      `json:"absent"` // archived days that are not in the file
	// AbsentBatches are days whose batches left and whose archive is not available, if it may have
	// what could not be compared.
	AbsentBatches []AbsentBatches `json:"absent_batches,omitempty"`
	NotCompared   int64           `json:"not_compared,omitempty"` // checks and outcomes
	NotInChain    int64           `json:"not_in_chain"`
	Altered       int64           `json:"altered"`
	Missing       int64           `json:"missing"`
	Batches       int64           `json:"missing_batches"` // of the range's chains, with all that they listed

	// As in a checkpoint: the ends of all chains, up to which the file is complete.
	Chains  int                   `json:"chains"`
	Digest  checkpoint.Hex        `json:"digest"`
	Changes checkpoint.LastChange `json:"changes"`
	Heads   []checkpoint.Head     `json:"heads"`

	later int64 // checks of the range that come after the heads in the record
}

const manifestVersion = 1

// Text returns the manifest in the form of a file.
func (m *Manifest) Text() []byte {
	b, err := json.MarshalIndent(m, "", "  ")
	if err != nil {
		panic(fmt.Sprintf("BUG: a manifest has no JSON: %v", err))
	}
	return append(b, '\n')
}

// ParseManifest parses the text of a manifest.
func ParseManifest(text []byte) (*Manifest, error) {
	m := new(Manifest)
	d := json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields()
	if err := d.Decode(m); err != nil {
		return nil, fmt.Errorf("it is no manifest of an export: %w", err)
	}
	if m.Version != manifestVersion {
		return nil, fmt.Errorf("its format %d is none that this program knows", m.Version)
	}
	if m.Format != CSV && m.Format != JSONL {
		return nil, fmt.Errorf("its file has the format %q, which this program does not know", m.Format)
	}
	if !bytes.Equal(text, m.Text()) {
		return nil, errors.New("it is no manifest as an export writes it: " + firstDifference(m.Text(), text))
	}
	return m, nil
}

// Whole returns why the file is incomplete or differs from the original record; nil if it is
// complete.
func (m *Manifest) Whole() error {
	var all []error
	for _, d := range m.Absent {
		all = append(all, fmt.Errorf("day %s: its %d checks are in an archive and left out: give --archive with the folder where that is",
			d.Day, d.Checks))
	}
	for _, d := range m.AbsentBatches {
		all = append(all, fmt.Errorf("batches of %s: %d left, and are in an archive that is not at hand: "+
			"give --archive with the folder where that is", d.Day, d.Batches))
	}
	if m.NotCompared > 0 {
		all = append(all, fmt.Errorf("%d checks and outcomes are not compared for the lack of these, and outcomes are without note and reference",
			m.NotCompared))
	}
	if n := m.NotInChain + m.Altered + m.Missing; n > 0 {
		all = append(all, fmt.Errorf("the record is not as it was written: %d rows are in no batch, %d altered, %d missing: see audit verify",
			m.NotInChain, m.Altered, m.Missing))
	}
	if m.Batches > 0 {
		all = append(all, fmt.Errorf("the record is not as it was written: %d batches are missing, with what they listed: see audit verify",
			m.Batches))
	}
	return errors.Join(all...)
}

// Write writes the file and returns its manifest.
func Write(ctx context.Context, w io.Writer, o Options) (*Manifest, error) {
	heads, err := o.Record.AllHeads(ctx)
	if err != nil {
		return nil, err
	}
	return write(ctx, w, o, heads, nil)
}

// write writes the file up to these heads, without the days to skip.
func write(ctx context.Context, w io.Writer, o Options, heads chain.Heads, skip []AbsentDay) (*Manifest, error) {
	g := newReading(o, heads)
	g.skip = skip
	m := &Manifest{
		Version: manifestVersion, Format: o.Format, From: bound(o.From), To: bound(o.To), Sample: o.Sample, Columns: Columns(),
		Decisions: map[string]int64{"allow": 0, "block": 0, "escalate": 0},
	}
	m.setHeads(heads)
	chosen, err := choose(ctx, g, o.Sample)
	if err != nil {
		return nil, err
	}
	sum := &counting{to: w, hash: sha256.New()}
	out, err := newLines(sum, o.Format, o.BOM, columns())
	if err != nil {
		return nil, err
	}
	err = g.each(ctx, func(rows []*row) error {
		m.Population += int64(len(rows))
		if chosen != nil {
			rows = slices.DeleteFunc(rows, func(r *row) bool { return !chosen[r.check.ID] })
		}
		if err := g.complete(ctx, rows); err != nil {
			return err
		}
		for _, r := range rows {
			m.count(r)
			if err := out.row(r); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	m.Bytes = sum.bytes
	copy(m.SHA256[:], sum.hash.Sum(nil))
	m.Absent, m.AbsentBatches, m.NotCompared = append([]AbsentDay{}, g.absent...), g.absentBatches(), g.notCompared
	m.NotInChain, m.Altered, m.Missing, m.later = g.unlisted, g.altered, g.missing, g.later
	m.Batches, err = g.lost(ctx)
	return m, err
}

func bound(t time.Time) *string {
	if t.IsZero() {
		return nil
	}
	return new(stamp(t))
}

func (m *Manifest) count(r *row) {
	id := r.check.ID.Text(spend.PrefixCheck)
	if m.Checks++; m.FirstID == "" {
		m.FirstID = id
	}
	m.LastID = id
	m.Decisions[r.check.Decision.Effect.String()]++
}

func (m *Manifest) setHeads(heads chain.Heads) {
	slices.SortFunc(heads.Chains, func(a, b chain.Head) int { return a.Chain.Compare(b.Chain) })
	m.Heads = []checkpoint.Head{}
	for _, h := range heads.Chains {
		m.Heads = append(m.Heads, checkpoint.Head{Chain: checkpoint.ChainID(h.Chain), Seq: h.Seq, Head: checkpoint.Hex(h.Head)})
	}
	m.Chains, m.Digest = len(m.Heads), checkpoint.Hex(checkpoint.Digest(heads.Chains))
	m.Changes = checkpoint.LastChange{Seq: heads.ChangeSeq, Head: checkpoint.Hex(heads.ChangeHead)}
}

func (m *Manifest) heads() chain.Heads {
	heads := chain.Heads{ChangeSeq: m.Changes.Seq, ChangeHead: spend.Hash(m.Changes.Head)}
	for _, h := range m.Heads {
		heads.Chains = append(heads.Chains, chain.Head{Chain: spend.ID(h.Chain), Seq: h.Seq, Head: spend.Hash(h.Head)})
	}
	return heads
}

// counting hashes and counts what it passes on.
type counting struct {
	to    io.Writer
	hash  hash.Hash
	bytes int64
}

func (c *counting) Write(p []byte) (int, error) {
	n, err := c.to.Write(p)
	c.hash.Write(p[:n])
	c.bytes += int64(n)
	return n, err
}

// ranked is a check and its rank in a sample.
type ranked struct {
	rank spend.Hash
	id   spend.ID
}

// chosenFew is a heap of the smallest ranks, with the greatest on top.
type chosenFew []ranked

func (c chosenFew) Len() int { return len(c) }
func (c chosenFew) Less(i, j int) bool {
	return cmp.Or(bytes.Compare(c[i].rank[:], c[j].rank[:]), c[i].id.Compare(c[j].id)) > 0
}
func (c chosenFew) Swap(i, j int) { c[i], c[j] = c[j], c[i] }
func (c *chosenFew) Push(x any)   { *c = append(*c, x.(ranked)) }
func (c *chosenFew) Pop() (last any) {
	last, *c = (*c)[len(*c)-1], (*c)[:len(*c)-1]
	return last
}

// choose reads the range once and returns the checks of the sample; nil for all.
func choose(ctx context.Context, g *reading, s *Sample) (map[spend.ID]bool, error) {
	if s == nil {
		return nil, nil //nolint:nilnil // all
	}
	var few chosenFew
	err := g.each(ctx, func(rows []*row) error {
		for _, r := range rows {
			heap.Push(&few, ranked{sha256.Sum256([]byte(s.Seed + "\n" + r.check.ID.Text(spend.PrefixCheck))), r.check.ID})
			if len(few) > s.Checks {
				heap.Pop(&few)
			}
		}
		return nil
	})
	chosen := make(map[spend.ID]bool, len(few))
	for _, one := range few {
		chosen[one.id] = true
	}
	return chosen, err
}
