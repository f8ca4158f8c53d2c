package audit

import (
	"encoding/binary"

	"spendgate/audit/spend"
)

// IDRange returns the IDs, both included, that From and To allow: a violation's
// timestamp is its ID's millisecond, so a range of time is a range of IDs and
// the primary key serves it.
func (q ViolationQuery) IDRange() (low, high spend.ID) {
	if !q.From.IsZero() {
		low = FirstID(q.From.UnixMilli())
	}
	ms := int64(maxIDMillisecond)
	if !q.To.IsZero() {
		ms = q.To.UnixMilli()
	}
	if ms < 0 {
		return low, spend.ID{} // no ID is that old
	}
	return low, LastID(ms)
}

// FirstID returns the smallest ID of a millisecond (Unix), which need not exist.
func FirstID(ms int64) spend.ID {
	var id spend.ID
	ms = min(max(ms, 0), maxIDMillisecond)
	binary.BigEndian.PutUint64(id[:8], uint64(ms)<<16)
	return id
}

// LastID returns the largest ID of a millisecond (Unix), which need not exist.
func LastID(ms int64) spend.ID {
	id := FirstID(ms)
	for i := 6; i < len(id); i++ {
		id[i] = 0xff
	}
	return id
}

// MaxID returns an ID that is above all that are made: none is of that millisecond.
func MaxID() spend.ID { return LastID(maxIDMillisecond) }

// IDs hold 48 bits of milliseconds.
const maxIDMillisecond = 1<<48 - 1
