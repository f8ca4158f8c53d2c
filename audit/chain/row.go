package chain

import (
	"crypto/sha256"
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

// AppendCheck adds the encoded row of a format to b.
func AppendCheck(b []byte, c *spend.Check, format int16) []byte {
	w := NewRow(b)
	w.ID(c.ID)
	w.fence(c.Fence)
	w.check(c, format)
	return w.End()
}

// AppendCheckRecord adds a check_record, the composite value in which the check is sent to PostgreSQL.
func AppendCheckRecord(b []byte, c *spend.Check) []byte {
	w := NewComposite(b)
	w.ID(c.ID)
	w.fence(c.Fence)
	w.check(c, c.Format())
	if c.Payment == nil {
		w.Null(Text)
	}
	return w.End()
}

func (w *Writer) fence(f spend.Fence) {
	w.ID(f.Node)
	w.ID(f.Epoch)
}

// stops adds the last stop by which a row was judged; null while nothing was ever stopped.
func (w *Writer) stops(f spend.Fence) { w.OptionalInt64(f.Stops, f.Stops != 0) }

// check adds the fields behind the fence, in the order of CheckFields. Fields of a later format follow, in rows of that
// format and in composite values.
func (w *Writer) check(c *spend.Check, format int16) {
	a, d := &c.Action, &c.Decision
	w.OptionalInt64(c.Pass.ClaimedMS, c.Pass.Passed())
	w.OptionalInt64(c.Pass.UntilMS, c.Pass.Passed())
	w.Int32(int32(d.PolicyVersion))
	w.Int32(int32(c.LatencyMS))
	w.Int16(format)
	w.Letter(TypeLetters[a.Type])
	w.Letter(TypeLetters[c.ActionType])
	w.Letter(EffectLetters[d.Effect])
	w.Letter(ConfidenceLetters[d.Confidence])
	w.Amount(a.Amount)
	w.Hash(c.Fingerprint)
	w.Hash(c.RequestSHA)
	w.Text(a.Currency)
	w.Text(a.AgentID)
	w.Text(a.PolicyID)
	w.Text(a.Counterparty)
	w.Optional(a.PaymentMethod)
	w.Optional(a.MerchantOrVendor)
	w.Optional(a.ReasonText)
	w.Optional(a.IdempotencyKey)
	w.Optional(a.Metadata.JSON)
	w.Optional(string(d.Reason))
	w.Optional(d.RuleID)
	w.Optional(d.RuleDescription)
	w.Optional(d.Message)
	w.Optional(d.NextStep)
	w.Text(c.KeyID)
	w.Text(c.RequestID)
	w.Optional(c.Principal)
	w.Optional(c.Owner)
	w.Written(c.AppendTaken)
	w.OptionalID(a.ApprovalID)
	w.Optional(c.Approval.Text())
	w.Optional(c.Namespace)
	w.stops(c.Fence)
	if format >= spend.PaymentFormat {
		w.Written(c.Payment.Append)
	}
}
