package archive

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"strconv"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"

	"spendgate/audit/chain"
)

// column is the format of one column; its sizes are those of the binary form.
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

// columnsOf returns the columns of a row in their order.
func columnsOf(fields []chain.Field) []column {
	kinds := [...]kind{
		chain.Text: text, chain.UUID: identifier, chain.Bytes: binaryKind, chain.Int16: integer, chain.Int32: integer, chain.Int64: integer,
		chain.Letter: text, chain.Amount: text,
	}
	all := make([]column, len(fields))
	for i, f := range fields {
		all[i] = column{name: f.Name, kind: kinds[f.Kind]}
		if all[i].kind != text { // letters are kept as they are
			all[i].size = f.Kind.Size()
		}
	}
	return all
}

var (
	errRow  = errors.New("not a row of the table")
	errLine = errors.New("not a line of an archive")
)

// absent is the length of a field that is NULL.
const absent = -1

// codec converts rows, in the binary form of chain.HashRow, into lines and back.
type codec struct {
	columns []column
	line    bytes.Buffer
	decoder jsontext.Decoder // of line
	room    []byte           // of a text whose escapes are resolved
}

func newCodec(fields []chain.Field) *codec { return &codec{columns: columnsOf(fields)} }

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
		if !utf8.Valid(value) || bytes.IndexByte(value, 0) >= 0 { // a PostgreSQL text has neither
			return dst, errRow
		}
		return jsontext.AppendQuote(dst, value)
	}
}

// appendRow adds the row whose line appendLine made. It refuses any other line: a line has all
// columns in their order.
func (c *codec) appendRow(dst []byte, line string) ([]byte, error) {
	c.line.Reset()
	c.line.WriteString(line)
	c.decoder.Reset(&c.line)
	dst = binary.BigEndian.AppendUint16(dst, uint16(len(c.columns)))
	if brace, err := c.decoder.ReadToken(); err != nil || brace.Kind() != jsontext.KindBeginObject {
		return dst, errLine
	}
	for _, column := range c.columns {
		name, err := c.decoder.ReadToken()
		if err != nil || name.Kind() != jsontext.KindString || name.String() != column.name {
			return dst, fmt.Errorf("%w: %s is missing", errLine, column.name)
		}
		if dst, err = c.appendField(dst, column); err != nil {
			return dst, fmt.Errorf("%w: %s", err, column.name)
		}
	}
	if brace, err := c.decoder.ReadToken(); err != nil || brace.Kind() != jsontext.KindEndObject {
		return dst, errLine
	}
	if _, err := c.decoder.ReadToken(); !errors.Is(err, io.EOF) {
		return dst, errLine
	}
	return dst, nil
}

func (c *codec) appendField(dst []byte, column column) ([]byte, error) {
	value, err := c.decoder.ReadValue()
	if err != nil {
		return dst, errLine
	}
	kind := value.Kind()
	switch {
	case kind == jsontext.KindNull:
		return append(dst, 0xff, 0xff, 0xff, 0xff), nil
	case kind == jsontext.KindNumber && column.kind == integer:
		n, err := strconv.ParseInt(string(value), 10, 8*column.size)
		if err != nil {
			return dst, errLine
		}
		dst = binary.BigEndian.AppendUint32(dst, uint32(column.size))
		var room [8]byte
		binary.BigEndian.PutUint64(room[:], uint64(n))
		return append(dst, room[8-column.size:]...), nil
	case kind != jsontext.KindString || column.kind == integer:
		return dst, errLine
	}
	if c.room, err = jsontext.AppendUnquote(c.room[:0], value); err != nil {
		return dst, errLine
	}
	content := c.room
	if column.kind != text {
		n, err := hex.Decode(content, content)
		if err != nil || column.size > 0 && n != column.size {
			return dst, errLine
		}
		content = content[:n]
	} else if bytes.IndexByte(content, 0) >= 0 { // as in appendLine
		return dst, errLine
	}
	return append(binary.BigEndian.AppendUint32(dst, uint32(len(content))), content...), nil
}
