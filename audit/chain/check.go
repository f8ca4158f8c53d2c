package chain

import (
	"encoding/binary"
	"errors"
	"fmt"
	"strings"

	"spendgate/audit/spend"
)

// ErrNotCheck means that an encoded row has values that no check can have.
var ErrNotCheck = errors.New("not a check")

// ParseCheck decodes the encoding of AppendCheck. It fails with ErrNotRow or ErrNotCheck.
func ParseCheck(row []byte) (*spend.Check, error) {
	fields, err := ParseRow(make([][]byte, 0, checkFields), row)
	if err != nil {
		return nil, err
	}
	return CheckOf(fields)
}

// CheckOf is ParseCheck of a row's fields, in the order of CheckFields.
func CheckOf(fields [][]byte) (c *spend.Check, err error) {
	if !checkFormats.fits(fields) {
		return nil, fmt.Errorf("%w: %d fields", ErrNotRow, len(fields))
	}
	r := fieldReader{fields: fields}
	c = new(spend.Check)
	a, d := &c.Action, &c.Decision
	r.bytes(c.ID[:])
	r.bytes(c.Fence.Node[:])
	r.bytes(c.Fence.Epoch[:])
	c.Pass.ClaimedMS, c.Pass.UntilMS = r.integer(8), r.integer(8)
	d.PolicyVersion, c.LatencyMS = int(r.integer(4)), r.integer(4)
	r.integer(2) // the format: fits has read it
	a.Type = spend.ActionType(r.optionalLetter(TypeLetters))
	c.ActionType = spend.ActionType(r.letter(TypeLetters[1:]) + 1)
	d.Effect = spend.Effect(r.letter(EffectLetters))
	d.Confidence = spend.Confidence(r.letter(ConfidenceLetters))
	if a.Amount, err = spend.ParseAmount(r.text()); err != nil {
		r.wrong = fmt.Errorf("amount %w", err)
	}
	r.bytes(c.Fingerprint[:])
	r.bytes(c.RequestSHA[:])
	var metadata, reason, charges string
	for _, text := range []*string{
		&a.Currency, &a.AgentID, &a.PolicyID, &a.Counterparty, &a.PaymentMethod, &a.MerchantOrVendor, &a.ReasonText, &a.IdempotencyKey,
		&metadata, &reason, &d.RuleID, &d.RuleDescription, &d.Message, &d.NextStep, &c.KeyID, &c.RequestID,
		&c.Principal, &c.Owner, &charges,
	} {
		*text = r.text()
	}
	if id := r.sized(len(a.ApprovalID)); id != nil {
		a.ApprovalID = spend.ID(id)
	}
	if c.Approval, err = spend.ParseApprovalRequest(r.text()); err != nil {
		r.wrong = err
	}
	c.Namespace = r.text()
	c.Fence.Stops = r.integer(8)
	if len(r.fields) > 0 {
		if c.Payment, err = spend.ParseCheckPayment(r.text()); err != nil {
			r.wrong = err
		}
	}
	d.Reason = spend.Reason(reason)
	a.Metadata.JSON = metadata
	if c.Charges, err = spend.ParseTaken(a.PolicyID, charges); err != nil {
		r.wrong = err
	}
	if r.wrong != nil {
		return nil, fmt.Errorf("%w: %w", ErrNotCheck, r.wrong)
	}
	return c, nil
}

// fieldReader reads fields in their order, and notes the first fault.
type fieldReader struct {
	fields [][]byte
	wrong  error
}

func (r *fieldReader) next() []byte {
	field := r.fields[0]
	r.fields = r.fields[1:]
	return field
}

func (r *fieldReader) bytes(into []byte) {
	if copy(into, r.sized(len(into))) != len(into) {
		r.wrong = errors.New("a field is missing")
	}
}

// sized is a field of that many bytes, or nil.
func (r *fieldReader) sized(size int) []byte {
	field := r.next()
	if field != nil && len(field) != size {
		r.wrong = fmt.Errorf("a field of %d bytes has %d", size, len(field))
		return nil
	}
	return field
}

// integer is 0 for null.
func (r *fieldReader) integer(size int) int64 {
	field := r.sized(size)
	if field == nil {
		return 0
	}
	var room [8]byte
	if field[0]&0x80 != 0 {
		room = [8]byte{0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff}
	}
	copy(room[8-size:], field)
	return int64(binary.BigEndian.Uint64(room[:]))
}

// letter is the index of a code among the letters.
func (r *fieldReader) letter(letters string) int {
	field := r.sized(1)
	if field == nil {
		r.wrong = errors.New("a code is missing")
		return 0
	}
	return r.indexOf(field, letters)
}

// optionalLetter is letter, and 0 for null.
func (r *fieldReader) optionalLetter(letters string) int {
	field := r.sized(1)
	if field == nil {
		return 0
	}
	return r.indexOf(field, letters)
}

func (r *fieldReader) indexOf(field []byte, letters string) int {
	i := strings.IndexByte(letters, field[0])
	if i < 0 || field[0] == 0 {
		r.wrong = fmt.Errorf("unknown code %q", field)
		return 0
	}
	return i
}

// hash is zero for null.
func (r *fieldReader) hash() (h spend.Hash) {
	copy(h[:], r.sized(len(h)))
	return h
}

func (r *fieldReader) boolean() bool {
	field := r.sized(1)
	if field == nil || field[0] > 1 {
		r.wrong = fmt.Errorf("%q is no boolean", field)
		return false
	}
	return field[0] == 1
}

func (r *fieldReader) text() string { return string(r.next()) }
