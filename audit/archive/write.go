package archive

import (
	"bufio"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"os"
	"path/filepath"
	"time"

	"spendgate/audit/spend"
)

// Write makes the archive of a part in dir, from its rows in the order of their identifiers. It
// replaces files of an earlier attempt that wrote no manifest. Once it returns, the archive
// survives a loss of power. schema is the version of the database's schema.
func Write(dir string, p Part, schema int, now time.Time, rows iter.Seq2[[]byte, error]) (*Archive, error) {
	m := p.manifest()
	m.Schema, m.Created = schema, now.UTC().Truncate(time.Millisecond)
	failed := func(err error) error {
		return fmt.Errorf("cannot write the archive of %s: %w", p, err)
	}
	err := replace(dir, m.File, func(f io.Writer) error { return m.writeRows(f, p, rows) })
	if err != nil {
		return nil, failed(err)
	}
	content, err := json.MarshalIndent(&m, "", "  ")
	if err != nil {
		return nil, failed(err)
	}
	content = append(content, '\n')
	err = replace(dir, filepath.Base(ManifestPath(dir, p)), func(f io.Writer) error {
		_, err := f.Write(content)
		return err
	})
	if err != nil {
		return nil, failed(err)
	}
	return &Archive{Manifest: m, SHA256: sha256.Sum256(content), part: p, dir: dir}, nil
}

// writeRows writes the compressed lines and notes their sizes and hashes.
func (m *Manifest) writeRows(f io.Writer, p Part, rows iter.Seq2[[]byte, error]) error {
	file, content := sha256.New(), sha256.New()
	packed := gzip.NewWriter(io.MultiWriter(file, f))
	lines := bufio.NewWriterSize(io.MultiWriter(content, packed), bufferSize)
	codec := newCodec(p.fields)
	var line []byte
	at, begun := place{part: p}, 0 // the size of the current member before compression
	for row, err := range rows {
		if err != nil {
			return err
		}
		if line, err = codec.appendLine(line[:0], row); err != nil {
			return err
		}
		chain := at.chain
		if !at.advance(row) {
			return fmt.Errorf("%w: out of order", errRow)
		}
		if begun > 0 && p.ofBatches() && (begun >= blockSize || chain != at.chain) {
			if err := errors.Join(lines.Flush(), packed.Close()); err != nil {
				return err
			}
			packed.Reset(io.MultiWriter(file, f))
			begun = 0
		}
		begun += len(line)
		if _, err := lines.Write(line); err != nil {
			return err
		}
	}
	if err := errors.Join(lines.Flush(), packed.Close()); err != nil {
		return err
	}
	m.Rows, m.FirstID, m.LastID = at.rows, at.first, at.last
	m.FileSHA256, m.ContentSHA256 = hex.EncodeToString(file.Sum(nil)), hex.EncodeToString(content.Sum(nil))
	return nil
}

// ID returns the identifier of an archive's row: its first field.
func ID(row []byte) (id spend.ID) {
	copy(id[:], row[2+4:])
	return id
}

// bufferSize is how many bytes are read or written at a time.
const bufferSize = 64 << 10

// blockSize is the least size of batches that are compressed together, if their chain has enough:
// looking up one batch reads its whole block.
const blockSize = 128 << 10

// replace writes a file completely or not at all: it writes to a temporary name, syncs, and
// renames.
func replace(dir, name string, write func(io.Writer) error) error {
	const private = 0o600
	path := filepath.Join(dir, name)
	f, err := os.OpenFile(path+".part", os.O_CREATE|os.O_WRONLY|os.O_TRUNC, private)
	if err != nil {
		return err
	}
	err = write(f)
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return err
	}
	if err := os.Rename(path+".part", path); err != nil {
		return err
	}
	return syncFolder(dir)
}

// syncFolder makes the names in a folder survive a loss of power.
func syncFolder(dir string) error {
	f, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}
