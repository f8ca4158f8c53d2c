package postgres

import "encoding/binary"

// parameters are the values of a statement's parameters in the binary format, each after its
// length, as the protocol has them. pgx's codecs encode the same, with several allocations for each
// field of each row; this type allocates nothing once its buffer has grown.
type parameters struct {
	n      uint16
	buf    []byte
	counts []checkCount // of the last commit, reused
	keyed  []keyed      // the same
}

func (p *parameters) reset() {
	if cap(p.buf) > keepBuffer {
		p.buf = nil
	}
	p.n, p.buf = 0, p.buf[:0]
}

// null is the length that stands for null.
const null = 1<<32 - 1

func (p *parameters) length(n uint32) {
	p.n++
	p.buf = binary.BigEndian.AppendUint32(p.buf, n)
}

func (p *parameters) bytes(v []byte) {
	p.length(uint32(len(v)))
	p.buf = append(p.buf, v...)
}

func (p *parameters) int64(v int64) {
	p.length(8)
	p.buf = binary.BigEndian.AppendUint64(p.buf, uint64(v))
}

func (p *parameters) int16(v int16) {
	p.length(2)
	p.buf = binary.BigEndian.AppendUint16(p.buf, uint16(v))
}

func (p *parameters) bool(v bool) {
	p.length(1)
	if v {
		p.buf = append(p.buf, 1)
	} else {
		p.buf = append(p.buf, 0)
	}
}

// composite begins a composite value. What is added until end is called are its fields, each after
// its type.
func (p *parameters) composite(fields uint32) (end func()) {
	p.length(0) // set by end
	n, start := p.n, len(p.buf)
	p.buf = binary.BigEndian.AppendUint32(p.buf, fields)
	return func() {
		p.n = n
		binary.BigEndian.PutUint32(p.buf[start-4:], uint32(len(p.buf)-start))
	}
}

// field adds the type of a composite value's next field; it may be 0, as in array.
func (p *parameters) field(oid uint32) { p.buf = binary.BigEndian.AppendUint32(p.buf, oid) }

// arrayField adds an array, of the type of, as a composite value's next field.
func arrayField[T any](p *parameters, of, oid uint32, all []T, wanted func(T) bool, appendElement func([]byte, T) []byte) {
	p.field(of)
	array(p, oid, all, wanted, appendElement)
}

// array adds an array of a type, made of the elements of all that are wanted; nil wants all. An
// array without elements is sent as null, which costs the server nothing. OIDs of the schema's own
// types differ between schemas: for these oid is 0, and the server fills in the type.
func array[T any](p *parameters, oid uint32, all []T, wanted func(T) bool, appendElement func([]byte, T) []byte) {
	n := uint32(0)
	for _, one := range all {
		if wanted == nil || wanted(one) {
			n++
		}
	}
	if n == 0 {
		p.length(null)
		return
	}
	start := len(p.buf)
	p.length(0)                                // set below
	b := append(p.buf, 0, 0, 0, 1, 0, 0, 0, 0) // dimensions, flags
	b = binary.BigEndian.AppendUint32(b, oid)
	b = binary.BigEndian.AppendUint32(b, n)
	b = append(b, 0, 0, 0, 1) // the first index
	for _, one := range all {
		if wanted == nil || wanted(one) {
			at := len(b)
			b = appendElement(append(b, 0, 0, 0, 0), one)
			binary.BigEndian.PutUint32(b[at:], uint32(len(b)-at-4)) // its length
		}
	}
	binary.BigEndian.PutUint32(b[start:], uint32(len(b)-start-4))
	p.buf = b
}
