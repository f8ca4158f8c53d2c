package postgres

import "encoding/binary"

// parameters are the values of a statement's parameters in the binary format.
// pgx's codecs encode the same, with several allocations for each field of each
// row; these have none once the buffer has grown.
type parameters struct {
	values [][]byte // parts of buf, or of a buffer that buf outgrew
	buf    []byte
}

func (p *parameters) reset() {
	if cap(p.buf) > keepBuffer {
		p.buf = nil
	}
	p.values, p.buf = p.values[:0], p.buf[:0]
}

// add makes a parameter of what b has more than the buffer, whose extension it
// is.
func (p *parameters) add(b []byte) {
	p.values = append(p.values, b[len(p.buf):len(b):len(b)])
	p.buf = b
}

func (p *parameters) bytes(v []byte) { p.add(append(p.buf, v...)) }

func (p *parameters) int64(v int64) { p.add(binary.BigEndian.AppendUint64(p.buf, uint64(v))) }

func (p *parameters) int16(v int16) { p.add(binary.BigEndian.AppendUint16(p.buf, uint16(v))) }

func (p *parameters) bool(v bool) {
	if v {
		p.add(append(p.buf, 1))
	} else {
		p.add(append(p.buf, 0))
	}
}

// appendArrayHeader begins an array of n elements of a type.
func appendArrayHeader(b []byte, oid uint32, n int) []byte {
	if n == 0 {
		return binary.BigEndian.AppendUint32(append(b, 0, 0, 0, 0, 0, 0, 0, 0), oid)
	}
	b = append(b, 0, 0, 0, 1, 0, 0, 0, 0) // dimensions, flags
	b = binary.BigEndian.AppendUint32(b, oid)
	b = binary.BigEndian.AppendUint32(b, uint32(n))
	return append(b, 0, 0, 0, 1) // the first index
}

// appendElement adds an element of an array: its length, then its value.
func appendElement(b, value []byte) []byte {
	b = binary.BigEndian.AppendUint32(b, uint32(len(value)))
	return append(b, value...)
}
