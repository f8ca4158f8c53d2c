package chain

import (
	"encoding/binary"
	"math/bits"

	"spendgate/audit/spend"
)

// Writer encodes a row: the number of its fields, then the length (int32, -1 for null) and the value of
// each. The zero value encodes a row as it is hashed. It allocates nothing once its buffer has grown.
type Writer struct {
	b      []byte
	start  int // of the number of fields
	fields int
	typed  bool
}

// NewRow begins a row as it is hashed, behind what b has: the number of fields is an int16, and an amount is a text.
func NewRow(b []byte) Writer { return Writer{b: append(b, 0, 0), start: len(b)} }

// NewComposite begins a composite value in PostgreSQL's binary format, behind what b has: the number of
// fields is an int32, the type of each field comes before its length, and an amount is a numeric.
func NewComposite(b []byte) Writer {
	return Writer{b: append(b, 0, 0, 0, 0), start: len(b), typed: true}
}

// End returns the buffer with the whole row.
func (w *Writer) End() []byte {
	if w.typed {
		binary.BigEndian.PutUint32(w.b[w.start:], uint32(w.fields))
	} else {
		binary.BigEndian.PutUint16(w.b[w.start:], uint16(w.fields))
	}
	return w.b
}

// null is the length that stands for null.
const null = 1<<32 - 1

// field begins a field of a size.
func (w *Writer) field(k Kind, size uint32) {
	w.fields++
	if w.typed {
		w.b = binary.BigEndian.AppendUint32(w.b, k.oid())
	}
	w.b = binary.BigEndian.AppendUint32(w.b, size)
}

// Null adds a field without a value.
func (w *Writer) Null(k Kind) { w.field(k, null) }

// raw adds an encoded value to a row as it is hashed; null for nil.
func (w *Writer) raw(value []byte) {
	if value == nil {
		w.Null(Bytes)
		return
	}
	w.bytes(value)
}

func (w *Writer) bytes(value []byte) {
	w.field(Bytes, uint32(len(value)))
	w.b = append(w.b, value...)
}

// Text adds a text.
func (w *Writer) Text(s string) {
	w.field(Text, uint32(len(s)))
	w.b = append(w.b, s...)
}

// Optional adds a text; null when it is empty.
func (w *Writer) Optional(s string) {
	if s == "" {
		w.Null(Text)
		return
	}
	w.Text(s)
}

// Written adds a text that fill appends to the buffer it is given; null when that is none.
func (w *Writer) Written(fill func(b []byte) []byte) {
	w.field(Text, 0)
	at := len(w.b)
	w.b = fill(w.b)
	size := uint32(len(w.b) - at)
	if size == 0 {
		size = null
	}
	binary.BigEndian.PutUint32(w.b[at-4:], size)
}

// ID adds an identifier.
func (w *Writer) ID(id spend.ID) {
	w.field(UUID, uint32(len(id)))
	w.b = append(w.b, id[:]...)
}

// OptionalID adds an identifier; null when it is zero.
func (w *Writer) OptionalID(id spend.ID) {
	if id.IsZero() {
		w.Null(UUID)
		return
	}
	w.ID(id)
}

// Hash adds a hash.
func (w *Writer) Hash(h spend.Hash) {
	w.field(Bytes, uint32(len(h)))
	w.b = append(w.b, h[:]...)
}

// OptionalHash adds a hash; null when it is zero.
func (w *Writer) OptionalHash(h spend.Hash) {
	if h.IsZero() {
		w.Null(Bytes)
		return
	}
	w.Hash(h)
}

// Int16 adds an integer.
func (w *Writer) Int16(n int16) {
	w.field(Int16, 2)
	w.b = binary.BigEndian.AppendUint16(w.b, uint16(n))
}

// Int32 adds an integer.
func (w *Writer) Int32(n int32) {
	w.field(Int32, 4)
	w.b = binary.BigEndian.AppendUint32(w.b, uint32(n))
}

// Int64 adds an integer.
func (w *Writer) Int64(n int64) {
	w.field(Int64, 8)
	w.b = binary.BigEndian.AppendUint64(w.b, uint64(n))
}

// OptionalInt64 adds an integer; null when it is not ok.
func (w *Writer) OptionalInt64(n int64, ok bool) {
	if !ok {
		w.Null(Int64)
		return
	}
	w.Int64(n)
}

// Letter adds the code of a word; null for 0.
func (w *Writer) Letter(letter byte) {
	if letter == 0 {
		w.Null(Letter)
		return
	}
	w.field(Letter, 1)
	w.b = append(w.b, letter)
}

// Bool adds a boolean.
func (w *Writer) Bool(value bool) {
	w.field(Bool, 1)
	if value {
		w.b = append(w.b, 1)
	} else {
		w.b = append(w.b, 0)
	}
}

// Amount adds an amount.
func (w *Writer) Amount(a spend.Amount) {
	if w.typed {
		w.Numeric(a.Total(), false)
		return
	}
	w.field(Amount, 0)
	at := len(w.b)
	w.b = a.Append(w.b)
	binary.BigEndian.PutUint32(w.b[at-4:], uint32(len(w.b)-at))
}

// Numeric adds a sum, or its negative, to a composite value in the form of PostgreSQL's numeric: digits of base 10,000, and
// the scale unchanged.
func (w *Writer) Numeric(t spend.Total, negative bool) {
	hi, lo := t.Parts()
	hi, rest := hi/1e9, hi%1e9
	lo, fraction := bits.Div64(rest, lo, 1e9)
	scale := 0
	for n := fraction; n > 0; n = n * 10 % 1e9 {
		scale++
	}
	var digits [11]uint16 // 8 hold 30 integer digits, 3 hold 9 fraction digits
	first, end := 8, 8+(scale+3)/4
	for i, n := 8, fraction*1e3; n > 0; i, n = i+1, n%1e8*1e4 {
		digits[i] = uint16(n / 1e8)
	}
	for hi|lo > 0 {
		hi, rest = hi/1e4, hi%1e4
		lo, rest = bits.Div64(rest, lo, 1e4)
		first--
		digits[first] = uint16(rest)
	}
	w.field(Amount, uint32(8+2*(end-first)))
	b := binary.BigEndian.AppendUint16(w.b, uint16(end-first)) // digits
	b = binary.BigEndian.AppendUint16(b, uint16(7-first))      // weight of the first: its power of 10,000
	var sign byte
	if negative {
		sign = 0x40
	}
	b = append(b, sign, 0, 0, byte(scale))
	for _, digit := range digits[first:end] {
		b = binary.BigEndian.AppendUint16(b, digit)
	}
	w.b = b
}
