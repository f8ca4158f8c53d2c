package chain

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"

	"spendgate/audit/spend"
)

// Version is the version of the batches that are written.
const Version = 1

// EntrySize is the size of an Entry in bytes: identifier and row hash.
const EntrySize = len(spend.ID{}) + len(spend.Hash{})

// Entry is a batch's record of a check or an outcome.
type Entry struct {
	ID  spend.ID
	Row spend.Hash
}

// Link is what one commit adds to its chain.
type Link struct {
	Seq     int64      // 1 for the first
	Entries []byte     // of all checks, EntrySize bytes each, in the order of identifiers
	Head    spend.Hash // over this batch and the heads before it
}

// First is the smallest identifier of the batch.
func (l Link) First() spend.ID { return spend.ID(l.Entries[:len(spend.ID{})]) }

// Last is the largest identifier of the batch.
func (l Link) Last() spend.ID {
	return spend.ID(l.Entries[len(l.Entries)-EntrySize:][:len(spend.ID{})])
}

// HashBatch returns the head of a batch: SHA-256 over the domain, the chain, the
// sequence number (int64), the number of entries (int32), the head before (zero
// for the first) and the entries.
func HashBatch(chainID spend.ID, seq int64, previous spend.Hash, entries []byte) spend.Hash {
	b := make([]byte, 0, headPrefix+len(entries))
	b = appendHeadPrefix(b, chainID, seq, previous, len(entries)/EntrySize)
	return sha256.Sum256(append(b, entries...))
}

const headPrefix = len(batchDomain) + len(spend.ID{}) + 8 + 4 + len(spend.Hash{})

func appendHeadPrefix(b []byte, chainID spend.ID, seq int64, previous spend.Hash, count int) []byte {
	b = append(append(b, batchDomain...), chainID[:]...)
	b = binary.BigEndian.AppendUint64(b, uint64(seq))
	b = binary.BigEndian.AppendUint32(b, uint32(count))
	return append(b, previous[:]...)
}

// Builder computes the links of one node incarnation's chain, in the hands of its
// only writer. It is not safe for concurrent use.
type Builder struct {
	Chain spend.ID // the incarnation
	seq   int64    // of the last batch that was recorded
	head  spend.Hash
	buf   []byte
}

// Next returns the link that follows the last one recorded. The entries are in
// the order of identifiers. It is good until the next call.
func (b *Builder) Next(entries []Entry) Link {
	b.buf = appendHeadPrefix(b.buf[:0], b.Chain, b.seq+1, b.head, len(entries))
	for i := range entries {
		b.buf = append(append(b.buf, entries[i].ID[:]...), entries[i].Row[:]...)
	}
	return Link{Seq: b.seq + 1, Entries: b.buf[headPrefix:], Head: sha256.Sum256(b.buf)}
}

// Advance records that a link was committed.
func (b *Builder) Advance(link Link) { b.seq, b.head = link.Seq, link.Head }

// ParseEntries splits the entries of a batch. It fails unless they are whole
// and in order.
func ParseEntries(b []byte) ([]Entry, error) {
	if len(b) == 0 || len(b)%EntrySize != 0 {
		return nil, fmt.Errorf("entries of %d bytes are no multiple of %d", len(b), EntrySize)
	}
	entries := make([]Entry, len(b)/EntrySize)
	for i := range entries {
		e := b[i*EntrySize:]
		entries[i] = Entry{spend.ID(e[:16]), spend.Hash(e[16:EntrySize])}
		if i > 0 && entries[i-1].ID.Compare(entries[i].ID) >= 0 {
			return nil, fmt.Errorf("entry %d is out of order", i)
		}
	}
	return entries, nil
}

// Head is the end of a chain.
type Head struct {
	Chain spend.ID
	Seq   int64
	Head  spend.Hash
}

// Heads are the ends of all chains at one moment.
type Heads struct {
	Chains     []Head // no order
	ChangeSeq  int64  // 0 without changes of the configuration
	ChangeHead spend.Hash
}
