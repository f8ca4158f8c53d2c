package archive

import (
	"compress/gzip"
	"encoding/binary"
	"fmt"
	"io"
	"os"
	"time"

	"spendgate/audit/chain"
	"spendgate/audit/spend"
)

// BatchesOf is the part for a day, given by its begin: the folded batches that list checks or
// outcomes of that day last.
func BatchesOf(day time.Time) Part {
	fields := []chain.Field{
		{Name: "chain_id", Kind: chain.UUID},
		{Name: "seq", Kind: chain.Int64},
		{Name: "version", Kind: chain.Int16},
		{Name: "first_id", Kind: chain.UUID},
		{Name: "last_id", Kind: chain.UUID},
		{Name: "head", Kind: chain.Bytes},
		{Name: "entries", Kind: chain.Bytes},
		{Name: "texts", Kind: chain.Text},
	}
	return Part{day, "day", time.DateOnly, "batches", "", fields, []int{len(fields)}}
}

func (p Part) ofBatches() bool { return p.table == "batches" }

// place is a reader's or writer's position in an archive: rows are in the order of their
// identifiers, batches in the order of their chains and numbers.
type place struct {
	part        Part
	rows        int64
	key         string   // of the row, by which rows are ordered
	chain       spend.ID // of the batch
	first, last string   // as in the manifest
}

// advance goes on to a row, and reports whether it follows the previous row.
func (p *place) advance(row []byte) bool {
	id := ID(row).Text(p.part.prefix)
	key, low, high := id, id, id
	if p.part.ofBatches() {
		b, err := batchOf(row)
		if err != nil {
			return false
		}
		key = fmt.Sprintf("%s %016x", id, uint64(b.Seq)^1<<63)
		low, high, p.chain = b.First.Text(""), b.Last.Text(""), b.Chain
	}
	if key <= p.key {
		return false
	}
	if p.rows == 0 {
		p.first = low
	}
	p.key, p.first, p.last = key, min(p.first, low), max(p.last, high)
	p.rows++
	return true
}

// Batch is a row of an archive of batches.
type Batch struct {
	Chain         spend.ID
	Seq           int64
	Version       int
	First, Last   spend.ID
	Head, Entries []byte
	Texts         string // JSON; empty for null
}

// batchOf parses a row, whose first fields are those of the batch.
func batchOf(row []byte) (b Batch, err error) {
	fields, err := chain.ParseRow(make([][]byte, 0, 8), row)
	if err != nil {
		return b, err
	}
	if len(fields) != 8 || len(fields[0]) != 16 || len(fields[1]) != 8 || len(fields[2]) != 2 || len(fields[3]) != 16 || len(fields[4]) != 16 {
		return b, errRow
	}
	return Batch{
		spend.ID(fields[0]), int64(binary.BigEndian.Uint64(fields[1])), int(int16(binary.BigEndian.Uint16(fields[2]))),
		spend.ID(fields[3]), spend.ID(fields[4]), fields[5], fields[6], string(fields[7]),
	}, nil
}

// Block is consecutive batches of one chain in an archive that can be read without the others.
type Block struct {
	Chain     spend.ID
	From, To  int64    // numbers
	Low, High spend.ID // of the checks and outcomes that the batches list
	Entries   int64
	offset    int64
}

// Blocks reads an archive of batches to the end, calls each with every batch in order, and returns
// the blocks. It fails as All does.
func (a *Archive) Blocks(each func(Batch) error) (blocks []Block, err error) {
	var failed error
	begun, offset := true, int64(0)
	_, err = a.read(func(row []byte) bool {
		var b Batch
		if b, failed = batchOf(row); failed == nil {
			failed = each(b)
		}
		if begun || blocks[len(blocks)-1].Chain != b.Chain {
			blocks = append(blocks, Block{Chain: b.Chain, From: b.Seq, Low: b.First, High: b.Last, offset: offset})
			begun = false
		}
		at := &blocks[len(blocks)-1]
		at.To, at.Entries = b.Seq, at.Entries+int64(len(b.Entries)/chain.EntrySize)
		if b.First.Compare(at.Low) < 0 {
			at.Low = b.First
		}
		if b.Last.Compare(at.High) > 0 {
			at.High = b.Last
		}
		return failed == nil
	}, func(at int64) { begun, offset = true, at })
	if failed != nil {
		return nil, failed
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", a.Path(), err)
	}
	return blocks, nil
}

// Block calls each with every batch of a block; a batch's bytes are valid until each returns.
func (a *Archive) Block(b Block, each func(Batch) error) error {
	f, err := os.Open(a.Path())
	if err != nil {
		return fmt.Errorf("cannot read the archive of %s: %w", a.part, err)
	}
	defer f.Close() //nolint:errcheck // only read
	if _, err = f.Seek(b.offset, io.SeekStart); err != nil {
		return fmt.Errorf("%s: %w", a.Path(), err)
	}
	unpacked, err := gzip.NewReader(f)
	if err != nil {
		return fmt.Errorf("%s: %w", a.Path(), altered(err))
	}
	unpacked.Multistream(false)
	var failed error
	lines := lineReader{codec: newCodec(a.part.fields), content: io.Discard}
	_, err = lines.read(unpacked, func(row []byte) (bool, error) {
		one, err := batchOf(row)
		if err == nil && one.Chain == b.Chain && b.From <= one.Seq && one.Seq <= b.To {
			failed = each(one)
		}
		return err == nil && failed == nil, err
	})
	if failed != nil {
		return failed
	}
	if err != nil {
		return fmt.Errorf("%s: %w", a.Path(), altered(err))
	}
	return nil
}
