package postgres

import (
	"encoding/binary"
	"encoding/hex"
	"strconv"
)

// The messages of the wire protocol that are written by hand. Literals in a
// query are digits and hex only, so that no quoting rule matters.

// openMessage begins a message; closeMessage, given the same at, ends it.
func openMessage(b []byte, kind byte) (_ []byte, at int) {
	return append(b, kind, 0, 0, 0, 0), len(b) + 1
}

func closeMessage(b []byte, at int) []byte {
	binary.BigEndian.PutUint32(b[at:], uint32(len(b)-at))
	return b
}

// appendQuery adds a simple query of a fixed text.
func appendQuery(b []byte, text string) []byte {
	b, at := openMessage(b, 'Q')
	b = append(b, text...)
	return closeMessage(append(b, 0), at)
}

// The frame of every transaction. The isolation is said explicitly: enter
// would let a stale epoch pass under a stricter one.
const (
	begin  = "BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE;"
	commit = "COMMIT"
)

// appendHex adds 'hex', a literal that an uuid or text parameter takes.
func appendHex(b, value []byte) []byte {
	b = append(b, '\'')
	b = hex.AppendEncode(b, value)
	return append(b, '\'')
}

// appendString adds an expression for any text.
func appendString(b []byte, s string) []byte {
	b = append(b, "convert_from(decode('"...)
	b = hex.AppendEncode(b, []byte(s))
	return append(b, "','hex'),'UTF8')"...)
}

func appendInt(b []byte, n int64) []byte { return strconv.AppendInt(b, n, 10) }

// appendParse names a query, or prepares the unnamed statement. The types of
// its parameters follow from the query.
func appendParse(b []byte, name, query string) []byte {
	b, at := openMessage(b, 'P')
	b = append(append(b, name...), 0)
	b = append(append(b, query...), 0)
	return closeMessage(append(b, 0, 0), at)
}

// openBind begins the message that gives a statement its parameters, all in
// the binary format. Each is a parameter or an array.
func openBind(b []byte, name string, parameters uint16) (_ []byte, at int) {
	b, at = openMessage(b, 'B')
	b = append(b, 0) // the unnamed portal
	b = append(append(b, name...), 0)
	b = append(b, 0, 1, 0, 1) // one format for all: binary
	return binary.BigEndian.AppendUint16(b, parameters), at
}

// closeBind ends it and has the statement executed. The transaction ends with
// the last byte.
func closeBind(b []byte, at int) []byte {
	b = closeMessage(append(b, 0, 0), at) // results in text
	return append(b, executeSync...)
}

const (
	executeSync = "E\x00\x00\x00\x09\x00\x00\x00\x00\x00" + "S\x00\x00\x00\x04" // the unnamed portal, all rows
	null        = "\xff\xff\xff\xff"
)

func appendParameter(b, value []byte) []byte {
	b = binary.BigEndian.AppendUint32(b, uint32(len(value)))
	return append(b, value...)
}

// openValue leaves room for a length, which closeValue fills in.
func openValue(b []byte) (_ []byte, at int) { return append(b, 0, 0, 0, 0), len(b) }

func closeValue(b []byte, at int) []byte {
	binary.BigEndian.PutUint32(b[at:], uint32(len(b)-at-4))
	return b
}

// openArray begins a parameter that is an array of n values, each with its
// length; closeValue ends it. The type of elements may be 0 for a type of this
// schema.
func openArray(b []byte, typ uint32, n int) (_ []byte, at int) {
	b, at = openValue(b)
	if n == 0 {
		return binary.BigEndian.AppendUint32(append(b, 0, 0, 0, 0, 0, 0, 0, 0), typ), at
	}
	b = append(b, 0, 0, 0, 1, 0, 0, 0, 0) // dimensions, flags
	b = binary.BigEndian.AppendUint32(b, typ)
	b = binary.BigEndian.AppendUint32(b, uint32(n))
	return append(b, 0, 0, 0, 1), at // the first index
}
