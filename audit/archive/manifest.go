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
	"spendgate/audit/spend"
)

// Format is the version of the archives that this package writes.
const Format = 1

// Manifest describes an archive.
type Manifest struct {
	Format        int       `json:"format"`
	Day           string    `json:"day,omitempty"`   // of checks, and up to which batches are: UTC, 2006-01-02
	Month         string    `json:"month,omitempty"` // of violations: UTC, 2006-01
	File          string    `json:"file"`            // in the same folder
	Rows          int64     `json:"rows"`
	FirstID       string    `json:"first_id"` // chk_..., viol_...; empty without rows; of batches: the smallest ID in their lists
	LastID        string    `json:"last_id"`
	FileSHA256    string    `json:"file_sha256"`    // of the compressed file
	ContentSHA256 string    `json:"content_sha256"` // of the decompressed content
	Columns       []string  `json:"columns"`
	RowHash       int       `json:"row_hash,omitempty"` // version of the format of row hashes; violations have none
	Schema        int       `json:"schema"`             // version of the database's schema
	Created       time.Time `json:"created"`
}

// ErrAltered says that an archive is not as it was written.
var ErrAltered = errors.New("the archive was altered")

// Archive is the files of one part.
type Archive struct {
	Manifest
	SHA256 spend.Hash // of the manifest
	part   Part
	dir    string
}

// Part is what one archive holds: the checks of a day, the violations of a month, or the
// batches that were folded up to a day.
type Part struct {
	Begin  time.Time // 00:00 UTC of the first day
	period string    // day, month
	layout string    // of Begin, in names
	table  string
	prefix string // of identifiers
	fields []chain.Field
	widths []int // the number of fields in each format
}

// ChecksOf is the part for a day, given by its begin.
func ChecksOf(day time.Time) Part {
	return Part{day, "day", time.DateOnly, "checks", spend.PrefixCheck, chain.CheckFields(), chain.CheckWidths()}
}

// ViolationsOf is the part for a month, given by its begin.
func ViolationsOf(month time.Time) Part {
	fields := chain.ViolationFields()
	return Part{month, "month", "2006-01", "violations", spend.PrefixViolation, fields, []int{len(fields)}}
}

// String names the day or month.
func (p Part) String() string { return p.Begin.Format(p.layout) }

// Table names the kind of rows: checks, violations or batches.
func (p Part) Table() string { return p.table }

// name is the prefix of the names of the part's files.
func (p Part) name() string { return p.table + "-" + p.String() }

func (p Part) ofDay() bool { return p.period == "day" }

// manifest returns the part's manifest without what depends on the rows.
func (p Part) manifest() (m Manifest) {
	m.Format, m.File = Format, p.name()+".jsonl.gz"
	for _, f := range p.fields {
		m.Columns = append(m.Columns, f.Name)
	}
	switch {
	case p.ofBatches():
		m.Day = p.String()
	case p.ofDay():
		m.Day, m.RowHash = p.String(), chain.Version
	default:
		m.Month = p.String()
	}
	return m
}

// had reports whether an archive of the part may have these columns: all current ones, or those of
// an earlier format.
func (p Part) had(columns, all []string) bool {
	return slices.Contains(p.widths, len(columns)) && slices.Equal(columns, all[:len(columns)])
}

// Path is the path of the file with the rows.
func (a *Archive) Path() string { return filepath.Join(a.dir, a.File) }

// ManifestPath is the path of a part's manifest in a folder.
func ManifestPath(dir string, p Part) string {
	return filepath.Join(dir, p.name()+".manifest.json")
}

// maxManifest is far more than a manifest's size in bytes.
const maxManifest = 1 << 20

// Open reads the manifest of a part, not the rows. It fails with fs.ErrNotExist without a manifest,
// and with ErrAltered if the manifest is invalid.
func Open(dir string, p Part) (*Archive, error) {
	path := ManifestPath(dir, p)
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("cannot open the archive of %s: %w", p, err)
	}
	defer f.Close() //nolint:errcheck // only read
	content, err := io.ReadAll(io.LimitReader(f, maxManifest))
	if err != nil {
		return nil, fmt.Errorf("cannot read the archive of %s: %w", p, err)
	}
	a := &Archive{SHA256: sha256.Sum256(content), part: p, dir: dir}
	if err := json.Unmarshal(content, &a.Manifest); err != nil {
		return nil, fmt.Errorf("%s: %w: %w", path, ErrAltered, err)
	}
	switch wanted := p.manifest(); {
	case a.Format != Format:
		return nil, fmt.Errorf("%s is of format %d, this build reads %d", path, a.Format, Format)
	case a.Day != wanted.Day, a.Month != wanted.Month, a.File != wanted.File, !p.had(a.Columns, wanted.Columns):
		return nil, fmt.Errorf("%s: %w: it is not the manifest of that %s", path, ErrAltered, p.period)
	}
	return a, nil
}
