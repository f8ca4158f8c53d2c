package chain

import (
	"crypto/sha256"
	"encoding/binary"
	"sync"

	"spendgate/audit/spend"
)

// The one-letter codes of stored values, at the index of the value. An action type that the request
// did not name has no letter.
const (
	TypeLetters       = "\x00rcds"
	EffectLetters     = "aeb"
	ConfidenceLetters = "lmh"
)

// batchDomain keeps hashes of batches apart from hashes of other things, as every domain
// does; it ends with the version of the encoding.
const batchDomain = "spendgate batch 1\n"

// rowRooms are buffers to encode rows in, grown to the longest.
var rowRooms = sync.Pool{New: func() any { return new([]byte) }}

// HashCheck is the hash of a check's row.
func HashCheck(c *spend.Check) spend.Hash {
	format := c.Format()
	room := rowRooms.Get().(*[]byte)
	defer rowRooms.Put(room)
	*room = AppendCheck(append((*room)[:0], checkFormats.of(format).domain...), c, format)
	return sha256.Sum256(*room)
}

// HashRow is HashCheck of a row that was read, by its own format: the encoded fields,
// with their number before them.
func HashRow(row []byte) spend.Hash {
	room := rowRooms.Get().(*[]byte)
	defer rowRooms.Put(room)
	*room = checkFormats.append((*room)[:0], row)
	return sha256.Sum256(*room)
}

// HashCopy is a hash of the row of a violation, to compare two of them.
func HashCopy(row []byte) spend.Hash { return sha256.Sum256(row) }

// AppendCheck adds the encoded row: the number of fields (int16), then per
// field its length (int32, -1 for null) and its value.
func AppendCheck(b []byte, c *spend.Check, format int16) []byte {
	a, d := &c.Action, &c.Decision
	b = binary.BigEndian.AppendUint16(b, uint16(checkFormats.of(format).fields))
	b = appendField(b, c.ID[:])
	b = appendField(b, c.Fence.Node[:])
	b = appendField(b, c.Fence.Epoch[:])
	if c.Pass.Passed() {
		b = appendInt64(appendInt64(b, c.Pass.ClaimedMS), c.Pass.UntilMS)
	} else {
		b = appendNull(appendNull(b))
	}
	b = appendInt32(appendInt32(b, int32(d.PolicyVersion)), int32(c.LatencyMS))
	b = binary.BigEndian.AppendUint16(append(b, 0, 0, 0, 2), uint16(format))
	if a.Type == spend.Unspecified {
		b = appendNull(b)
	} else {
		b = appendLetter(b, TypeLetters[a.Type])
	}
	b = appendLetter(b, TypeLetters[c.ActionType])
	b = appendLetter(b, EffectLetters[d.Effect])
	b = appendLetter(b, ConfidenceLetters[d.Confidence])
	var amount [32]byte
	b = appendField(b, a.Amount.Append(amount[:0]))
	b = appendField(b, c.Fingerprint[:])
	b = appendField(b, c.RequestSHA[:])
	b = appendField(b, a.Currency)
	b = appendField(b, a.AgentID)
	b = appendField(b, a.PolicyID)
	b = appendField(b, a.Counterparty)
	b = appendOptional(b, a.PaymentMethod)
	b = appendOptional(b, a.MerchantOrVendor)
	b = appendOptional(b, a.ReasonText)
	b = appendOptional(b, a.IdempotencyKey)
	b = appendOptional(b, a.Metadata.JSON)
	b = appendOptional(b, string(d.Reason))
	b = appendOptional(b, d.RuleID)
	b = appendOptional(b, d.RuleDescription)
	b = appendOptional(b, d.Message)
	b = appendOptional(b, d.NextStep)
	b = appendField(b, c.KeyID)
	b = appendField(b, c.RequestID)
	b = appendOptional(b, c.Principal)
	b = appendOptional(b, c.Owner)
	var taken [256]byte
	b = appendOptional(b, c.AppendTaken(taken[:0]))
	if a.ApprovalID.IsZero() {
		b = appendNull(b)
	} else {
		b = appendField(b, a.ApprovalID[:])
	}
	b = appendOptional(b, c.Approval.Text())
	b = appendOptional(b, c.Namespace)
	if format == spend.FormatPlain {
		return b
	}
	var shadow [128]byte // enough for most
	return appendOptional(b, c.Shadow.AppendText(shadow[:0]))
}

func appendField[T string | []byte](b []byte, value T) []byte {
	return append(binary.BigEndian.AppendUint32(b, uint32(len(value))), value...)
}

func appendNull(b []byte) []byte { return append(b, 0xff, 0xff, 0xff, 0xff) }

func appendOptional[T string | []byte](b []byte, s T) []byte {
	if len(s) == 0 {
		return appendNull(b)
	}
	return appendField(b, s)
}

func appendInt32(b []byte, n int32) []byte {
	return binary.BigEndian.AppendUint32(append(b, 0, 0, 0, 4), uint32(n))
}

func appendInt64(b []byte, n int64) []byte {
	return binary.BigEndian.AppendUint64(append(b, 0, 0, 0, 8), uint64(n))
}

func appendLetter(b []byte, letter byte) []byte { return append(b, 0, 0, 0, 1, letter) }

func appendBoolean(b []byte, value bool) []byte {
	if value {
		return appendLetter(b, 1)
	}
	return appendLetter(b, 0)
}
