package archive

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"strconv"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"

	"spendgate/audit/chain"
	"spendgate/hotpath/strictjson"
)

// column is how one column is written: sizes are those of the binary form.
type column struct {
	name string
	kind kind
	size int // of integers and identifiers, in bytes
}

type kind uint8

const (
	text kind = iota
	integer
	binaryKind
	identifier
)

// columns are those of a row in their order. The columns of a check are text
// but for these.
func columns() []column {
	special := map[string]column{
		"check_id": {kind: identifier, size: 16}, "node": {kind: identifier, size: 16}, "epoch": {kind: identifier, size: 16},
		"claimed_ms": {kind: integer, size: 8}, "until_ms": {kind: integer, size: 8},
		"policy_version": {kind: integer, size: 4}, "latency_ms": {kind: integer, size: 4}, "format": {kind: integer, size: 2},
		"fingerprint": {kind: binaryKind}, "request_sha": {kind: binaryKind},
	}
	var all []column
	for _, name := range chain.CheckColumns() {
		c := special[name]
		c.name = name
		all = append(all, c)
	}
	return all
}

var (
	errRow  = errors.New("not a row of checks")
	errLine = errors.New("not a line of an archive")
)

// absent is the length of a field that is NULL.
const absent = -1

// codec turns rows, in the binary form that chain.HashRow takes, into lines and
// back.
type codec struct {
	columns []column
	checker strictjson.Checker
}

func newCodec() *codec { return &codec{columns: columns()} }

// appendLine adds a row as a line.
func (c *codec) appendLine(dst, row []byte) ([]byte, error) {
	if len(row) < 2 || int(binary.BigEndian.Uint16(row)) != len(c.columns) {
		return dst, errRow
	}
	row = row[2:]
	for i, column := range c.columns {
		if len(row) < 4 {
			return dst, errRow
		}
		size := int(int32(binary.BigEndian.Uint32(row)))
		row = row[4:]
		dst = append(dst, "{,"[min(i, 1)], '"')
		dst = append(append(dst, column.name...), `":`...)
		if size == absent {
			dst = append(dst, "null"...)
			continue
		}
		if size < 0 || size > len(row) {
			return dst, errRow
		}
		var err error
		if dst, err = column.append(dst, row[:size]); err != nil {
			return dst, fmt.Errorf("%w: %s", err, column.name)
		}
		row = row[size:]
	}
	if len(row) > 0 {
		return dst, errRow
	}
	return append(dst, '}', '\n'), nil
}

func (c column) append(dst, value []byte) ([]byte, error) {
	if c.size > 0 && len(value) != c.size {
		return dst, errRow
	}
	switch c.kind {
	case integer:
		var n int64
		switch c.size {
		case 2:
			n = int64(int16(binary.BigEndian.Uint16(value)))
		case 4:
			n = int64(int32(binary.BigEndian.Uint32(value)))
		default:
			n = int64(binary.BigEndian.Uint64(value))
		}
		return strconv.AppendInt(dst, n, 10), nil
	case binaryKind, identifier:
		dst = append(dst, '"')
		return append(hex.AppendEncode(dst, value), '"'), nil
	default:
		if !utf8.Valid(value) || bytes.IndexByte(value, 0) >= 0 { // neither is in a text of PostgreSQL
			return dst, errRow
		}
		return jsontext.AppendQuote(dst, value)
	}
}

// appendRow adds what appendLine made the line of. It takes nothing else: a
// line has all columns in their order.
func (c *codec) appendRow(dst []byte, line string) ([]byte, error) {
	if c.checker.Check(line) != nil || strictjson.Kind(line) != '{' {
		return dst, errLine
	}
	dst = binary.BigEndian.AppendUint16(dst, uint16(len(c.columns)))
	members := strictjson.MembersOf(line)
	for _, column := range c.columns {
		if !members.Next() || members.Name != column.name {
			return dst, fmt.Errorf("%w: %s is missing", errLine, column.name)
		}
		var err error
		if dst, err = column.appendField(dst, members.Value); err != nil {
			return dst, fmt.Errorf("%w: %s", err, column.name)
		}
	}
	if members.Next() {
		return dst, errLine
	}
	return dst, nil
}

func (c column) appendField(dst []byte, value string) ([]byte, error) {
	quoted := strictjson.Kind(value) == '"'
	switch {
	case value == "null":
		return append(dst, 0xff, 0xff, 0xff, 0xff), nil
	case c.kind == integer && !quoted:
		n, err := strconv.ParseInt(value, 10, 8*c.size)
		if err != nil {
			return dst, errLine
		}
		dst = binary.BigEndian.AppendUint32(dst, uint32(c.size))
		var room [8]byte
		binary.BigEndian.PutUint64(room[:], uint64(n))
		return append(dst, room[8-c.size:]...), nil
	case !quoted || c.kind == integer:
		return dst, errLine
	}
	content := []byte(strictjson.Unquote(value))
	if c.kind != text {
		n, err := hex.Decode(content, content)
		if err != nil || c.size > 0 && n != c.size {
			return dst, errLine
		}
		content = content[:n]
	}
	return append(binary.BigEndian.AppendUint32(dst, uint32(len(content))), content...), nil
}
