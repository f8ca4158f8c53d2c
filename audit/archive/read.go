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

// maxLine is far more than a row has as a line, in bytes.
const maxLine = 1 << 20

// All returns the rows in the order of their identifiers, in the binary form of
// chain.HashRow, each good until the next. It ends with an error that is
// ErrAltered unless the files are what the manifest says: the rows before it
// prove nothing by themselves.
func (a *Archive) All() iter.Seq2[[]byte, error] {
	return func(yield func([]byte, error) bool) {
		stopped, err := a.read(func(row []byte) bool { return yield(row, nil) })
		if err != nil && !stopped {
			yield(nil, fmt.Errorf("%s: %w", a.Path(), err))
		}
	}
}

// read reports whether visit, by giving false, ended it.
func (a *Archive) read(visit func(row []byte) bool) (stopped bool, err error) {
	f, err := os.Open(a.Path())
	if err != nil {
		return false, err
	}
	defer f.Close() //nolint:errcheck // only read
	file, content := sha256.New(), sha256.New()
	packed := io.TeeReader(bufio.NewReaderSize(f, bufferSize), file)
	unpacked, err := gzip.NewReader(packed)
	if err != nil {
		return false, altered(err)
	}
	lines := bufio.NewScanner(io.TeeReader(unpacked, content))
	lines.Buffer(make([]byte, 0, bufferSize), maxLine)
	codec := newCodec(a.part.fields[:len(a.Columns)])
	var row []byte
	var first, last string
	var count int64
	for lines.Scan() {
		if row, err = codec.appendRow(row[:0], lines.Text()); err != nil {
			return false, altered(fmt.Errorf("line %d: %w", count+1, err))
		}
		id := ID(row).Text(a.part.prefix)
		if id <= last {
			return false, altered(fmt.Errorf("line %d is out of order", count+1))
		}
		if count == 0 {
			first = id
		}
		last = id
		count++
		if !visit(row) {
			return true, nil
		}
	}
	if err := lines.Err(); err != nil {
		return false, altered(err)
	}
	if _, err := io.Copy(io.Discard, packed); err != nil { // what follows the compressed data is of the file, too
		return false, err
	}
	if hex.EncodeToString(file.Sum(nil)) != a.FileSHA256 || hex.EncodeToString(content.Sum(nil)) != a.ContentSHA256 {
		return false, altered(errors.New("its SHA-256 is not the manifest's"))
	}
	if count != a.Rows || first != a.FirstID || last != a.LastID {
		return false, altered(errors.New("its rows are not those that the manifest tells of"))
	}
	return false, nil
}

func altered(err error) error { return fmt.Errorf("%w: %w", ErrAltered, err) }
