package pg

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
)

// Copied takes the output of COPY ... (FORMAT binary) in pieces of any size, and hands on the rows:
// the number of fields, then each field with its length.
type Copied struct {
	Each  func(row []byte) error
	rest  []byte // the beginning of an incomplete row
	begun bool   // the header was seen
	ended bool   // the trailer was seen
}

const copySignature = "PGCOPY\n\xff\r\n\x00"

var errTruncatedCopy = errors.New("the rows end too early")

// Write takes the next piece.
func (c *Copied) Write(piece []byte) (int, error) {
	data := piece
	if len(c.rest) > 0 {
		c.rest = append(c.rest, piece...)
		data = c.rest
	}
	left, err := c.rows(data)
	if err != nil {
		return 0, err
	}
	c.rest = append(c.rest[:0], left...)
	return len(piece), nil
}

// rows hands on the whole rows of data and returns what is left.
func (c *Copied) rows(data []byte) ([]byte, error) {
	if !c.begun {
		const header = len(copySignature) + 8 // flags, length of an extension
		if len(data) < header {
			return data, nil
		}
		if !bytes.HasPrefix(data, []byte(copySignature)) || !bytes.Equal(data[len(copySignature):header], make([]byte, 8)) {
			return nil, errors.New("not what COPY sends in the binary format")
		}
		data, c.begun = data[header:], true
	}
	for len(data) >= 2 && !c.ended {
		if binary.BigEndian.Uint16(data) == 1<<16-1 {
			data, c.ended = data[2:], true
			break
		}
		end, whole := rowEnd(data)
		if !whole {
			return data, nil
		}
		if err := c.Each(data[:end:end]); err != nil {
			return nil, err
		}
		data = data[end:]
	}
	if c.ended && len(data) > 0 {
		return nil, fmt.Errorf("%d bytes behind the last row", len(data))
	}
	return data, nil
}

// rowEnd finds where the first row of data ends.
func rowEnd(data []byte) (end int, whole bool) {
	end = 2
	for range binary.BigEndian.Uint16(data) {
		if len(data) < end+4 {
			return 0, false
		}
		length := int32(binary.BigEndian.Uint32(data[end:]))
		end += 4 + int(max(length, 0))
	}
	return end, end <= len(data)
}

// End fails unless all rows have come.
func (c *Copied) End() error {
	if !c.ended {
		return errTruncatedCopy
	}
	return nil
}
