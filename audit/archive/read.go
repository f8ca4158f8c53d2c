package archive

import (
	"bufio"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"iter"
	"os"
)

// maxLine is far more than the size of a row's line in bytes: a batch with the longest notes of as
// many outcomes as a commit takes has some 27 MB, with each byte escaped.
const maxLine = 1 << 26

// All returns the rows in their order, in the binary form of chain.HashRow, each valid until the
// next. If the files are not what the manifest describes, it ends with ErrAltered: the rows before
// that error prove nothing by themselves.
func (a *Archive) All() iter.Seq2[[]byte, error] {
	return func(yield func([]byte, error) bool) {
		stopped, err := a.read(func(row []byte) bool { return yield(row, nil) }, func(int64) {})
		if err != nil && !stopped {
			yield(nil, fmt.Errorf("%s: %w", a.Path(), err))
		}
	}
}

// read reports whether visit ended it by returning false. It calls begin with the file offset of
// each compressed member before the member's rows.
func (a *Archive) read(visit func(row []byte) bool, begin func(offset int64)) (stopped bool, err error) {
	f, err := os.Open(a.Path())
	if err != nil {
		return false, err
	}
	defer f.Close() //nolint:errcheck // only read
	file, content := sha256.New(), sha256.New()
	packed := &counted{Reader: bufio.NewReaderSize(io.TeeReader(f, file), bufferSize)}
	unpacked, err := gzip.NewReader(packed)
	at, offset := place{part: a.part}, int64(0)
	lines := lineReader{codec: newCodec(a.part.fields[:len(a.Columns)]), content: content}
	for err == nil {
		unpacked.Multistream(false)
		begin(offset)
		stopped, err = lines.read(unpacked, func(row []byte) (bool, error) {
			if !at.advance(row) {
				return false, fmt.Errorf("line %d is out of order", at.rows+1)
			}
			return visit(row), nil
		})
		if stopped {
			return true, nil
		}
		if err == nil {
			offset = packed.read
			err = unpacked.Reset(packed)
		}
	}
	if !errors.Is(err, io.EOF) || offset == 0 {
		return false, altered(err)
	}
	if hex.EncodeToString(file.Sum(nil)) != a.FileSHA256 || hex.EncodeToString(content.Sum(nil)) != a.ContentSHA256 {
		return false, altered(errors.New("its SHA-256 is not the manifest's"))
	}
	if at.rows != a.Rows || at.first != a.FirstID || at.last != a.LastID {
		return false, altered(errors.New("its rows are not those that the manifest tells of"))
	}
	return false, nil
}

// lineReader decodes the lines of members into rows.
type lineReader struct {
	codec   *codec
	content io.Writer
	count   int64
	row     []byte
}

// read reports whether visit ended it by returning false.
func (l *lineReader) read(member io.Reader, visit func(row []byte) (bool, error)) (stopped bool, err error) {
	lines := bufio.NewScanner(io.TeeReader(member, l.content))
	lines.Buffer(make([]byte, 0, bufferSize), maxLine)
	for lines.Scan() {
		l.count++
		if l.row, err = l.codec.appendRow(l.row[:0], lines.Text()); err != nil {
			return false, fmt.Errorf("line %d: %w", l.count, err)
		}
		if goOn, err := visit(l.row); err != nil || !goOn {
			return err == nil, err
		}
	}
	return false, lines.Err()
}

// counted counts the bytes read. As an io.ByteReader it keeps a decompressor from reading ahead.
type counted struct {
	*bufio.Reader
	read int64
}

// Read implements io.Reader.
func (c *counted) Read(b []byte) (n int, err error) {
	n, err = c.Reader.Read(b)
	c.read += int64(n)
	return n, err
}

// ReadByte implements io.ByteReader.
func (c *counted) ReadByte() (b byte, err error) {
	b, err = c.Reader.ReadByte()
	if err == nil {
		c.read++
	}
	return b, err
}

func altered(err error) error { return fmt.Errorf("%w: %w", ErrAltered, err) }
