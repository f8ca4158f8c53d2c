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

// COPY data in the binary format: a header, rows of counted fields, an end.
const (
	copyHeader  = "PGCOPY\n\xff\r\n\x00" + "\x00\x00\x00\x00" + "\x00\x00\x00\x00" // signature, flags, extension
	copyTrailer = "\xff\xff"
	copyDone    = "c\x00\x00\x00\x04"
	fieldNull   = "\xff\xff\xff\xff"
)

func openCopy(b []byte) (_ []byte, at int) {
	b, at = openMessage(b, 'd')
	return append(b, copyHeader...), at
}

func closeCopy(b []byte, at int) []byte {
	b = closeMessage(append(b, copyTrailer...), at)
	return append(b, copyDone...)
}
