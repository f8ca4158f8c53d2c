package archive

import (
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"time"

	"spendgate/audit/chain"
	"spendgate/hotpath/spend"
)

// Format is the version of archives that are written.
const Format = 1

// Manifest is what an archive says of itself.
type Manifest struct {
	Format        int       `json:"format"`
	Day           string    `json:"day"`  // UTC, 2006-01-02
	File          string    `json:"file"` // in the same folder
	Rows          int64     `json:"rows"`
	FirstID       string    `json:"first_id"` // chk_...; empty without rows
	LastID        string    `json:"last_id"`
	FileSHA256    string    `json:"file_sha256"`    // of the file as it is
	ContentSHA256 string    `json:"content_sha256"` // of what it holds, decompressed
	Columns       []string  `json:"columns"`
	RowHash       int       `json:"row_hash"` // version of the format of row hashes
	Schema        int       `json:"schema"`   // version of the database's schema
	Created       time.Time `json:"created"`
}

// ErrAltered says that an archive is not what was written.
var ErrAltered = errors.New("the archive was altered")

// Archive is a day's files.
type Archive struct {
	Manifest
	SHA256 spend.Hash // of the manifest
	dir    string
}

// Path is the file of the rows.
func (a *Archive) Path() string { return filepath.Join(a.dir, a.File) }

// ManifestPath is where the manifest of a day lies in a folder.
func ManifestPath(dir string, day time.Time) string {
	return filepath.Join(dir, dayName(day)+".manifest.json")
}

func dayName(day time.Time) string { return "checks-" + day.Format(time.DateOnly) }

// maxManifest is far more than a manifest has, in bytes.
const maxManifest = 1 << 20

// Open reads the manifest of a day, not the rows. It fails with fs.ErrNotExist
// when there is none, and with ErrAltered when it cannot be one.
func Open(dir string, day time.Time) (*Archive, error) {
	path := ManifestPath(dir, day)
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("cannot open the archive of %s: %w", day.Format(time.DateOnly), err)
	}
	defer f.Close() //nolint:errcheck // only read
	content, err := io.ReadAll(io.LimitReader(f, maxManifest))
	if err != nil {
		return nil, fmt.Errorf("cannot read the archive of %s: %w", day.Format(time.DateOnly), err)
	}
	a := &Archive{SHA256: sha256.Sum256(content), dir: dir}
	if err := json.Unmarshal(content, &a.Manifest); err != nil {
		return nil, fmt.Errorf("%s: %w: %w", path, ErrAltered, err)
	}
	switch {
	case a.Format != Format:
		return nil, fmt.Errorf("%s is of format %d, this build reads %d", path, a.Format, Format)
	case a.Day != day.Format(time.DateOnly), a.File != dayName(day)+".jsonl.gz", !slices.Equal(a.Columns, chain.CheckColumns()):
		return nil, fmt.Errorf("%s: %w: it is not the manifest of that day", path, ErrAltered)
	}
	return a, nil
}
