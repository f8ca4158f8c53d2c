package archive

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io/fs"
	"iter"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"spendgate/audit/chain"
	"spendgate/audit/spend"
	"spendgate/bench/must"
)

var day = time.Date(2026, 11, 20, 0, 0, 0, 0, time.UTC)

// rowsOf are the rows of some checks with all kinds of values.
func rowsOf(t testing.TB) (rows [][]byte) {
	t.Helper()
	texts := []string{
		"", "plain", "\x01\x1f", "\"\\/\b\f\n\r\t", "\x7f\u0080\u2028\u2029\ufeff\ufffd", "é 中 😀", " ", "null", strings.Repeat("ü", 100),
	}
	for i := range texts {
		at := func(n int) string { return texts[(i+n)%len(texts)] }
		c := &spend.Check{
			ID: spend.NewID(day.Add(time.Duration(i) * time.Hour)), ActionType: spend.Refund, LatencyMS: int64(i), KeyID: at(1), RequestID: at(2),
			Action: spend.Action{
				AgentID: at(3), PolicyID: at(4), Type: spend.ActionTypes[i%4], Currency: "USD", Counterparty: at(5), PaymentMethod: at(6),
				MerchantOrVendor: at(7), ReasonText: at(8), IdempotencyKey: at(0), Metadata: spend.Metadata{JSON: at(1)},
			},
			Decision: spend.Decision{Effect: spend.Block, Message: at(2), RuleID: at(3), PolicyVersion: 1<<31 - 1},
			Pass:     spend.Pass{ClaimedMS: 1<<62 + int64(i), UntilMS: -1},
		}
		if i == 0 {
			c.Action.Type, c.Pass = spend.Unspecified, spend.Pass{}
		}
		c.Action.Amount, _ = spend.ParseAmount("9999999999.999999999")
		if i%2 == 1 {
			c.Payment = &spend.CheckPayment{Key: "order " + strconv.Itoa(i), Version: 1, Attempt: 1}
		}
		row := chain.AppendCheck(nil, c, c.Format())
		if c.Payment == nil { // as a table with later columns has it
			row = append(row, 0xff, 0xff, 0xff, 0xff)
			binary.BigEndian.PutUint16(row, binary.BigEndian.Uint16(row)+1)
		}
		rows = append(rows, row)
	}
	return rows
}

func all(rows [][]byte) iter.Seq2[[]byte, error] {
	return func(yield func([]byte, error) bool) {
		for _, row := range rows {
			if !yield(row, nil) {
				return
			}
		}
	}
}

// An archive returns its rows byte for byte.
func TestArchive(t *testing.T) {
	rows, dir := rowsOf(t), t.TempDir()
	written := must.Get(Write(dir, ChecksOf(day), 5, day.AddDate(0, 0, 9), all(rows)))(t)
	a := must.Get(Open(dir, ChecksOf(day)))(t)
	if a.SHA256 != written.SHA256 || a.FileSHA256 != written.FileSHA256 || a.Rows != int64(len(rows)) || a.Schema != 5 ||
		a.Day != "2026-11-20" {
		t.Errorf("opened %+v, written %+v", a, written)
	}
	i := 0
	for row, err := range a.All() {
		must.Do(t, err)
		if !bytes.Equal(row, rows[i]) || chain.HashRow(row) != chain.HashRow(rows[i]) {
			t.Errorf("row %d came back\n%q\nwas\n%q", i, row, rows[i])
		}
		i++
	}
	if i != len(rows) {
		t.Errorf("%d rows came back of %d", i, len(rows))
	}
	left, err := os.ReadDir(dir)
	if err != nil || len(left) != 2 {
		t.Errorf("%d files, %v", len(left), err)
	}
	if _, err := Open(dir, ChecksOf(day.AddDate(0, 0, 1))); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("another day: %v", err)
	}
	// A day without checks has an archive, too.
	if _, err := Write(dir, ChecksOf(day.AddDate(0, 0, 1)), 1, day, all(nil)); err != nil {
		t.Error(err)
	}
	for _, err := range mustOpen(t, dir, day.AddDate(0, 0, 1)).All() {
		t.Error("a row of an empty day", err)
	}
}

func mustOpen(t *testing.T, dir string, day time.Time) *Archive {
	t.Helper()
	return must.Get(Open(dir, ChecksOf(day)))(t)
}

// A failed Write leaves no manifest.
func TestWriteFails(t *testing.T) {
	rows := rowsOf(t)
	broken := errors.New("broken")
	for name, from := range map[string]iter.Seq2[[]byte, error]{
		"an error": func(yield func([]byte, error) bool) { _ = yield(rows[0], nil) && yield(nil, broken) },
		"disorder": all([][]byte{rows[1], rows[0]}),
		"twice":    all([][]byte{rows[0], rows[0]}),
		"no row":   all([][]byte{rows[0][:20]}),
		"zero":     all([][]byte{bytes.Replace(rows[1], []byte("plain"), []byte("pl\x00in"), 1)}),
		"not UTF8": all([][]byte{bytes.Replace(rows[1], []byte("plain"), []byte("pl\xffin"), 1)}),
	} {
		dir := t.TempDir()
		if _, err := Write(dir, ChecksOf(day), 1, day, from); err == nil {
			t.Errorf("%s is archived", name)
		}
		if _, err := os.Stat(ManifestPath(dir, ChecksOf(day))); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s: a manifest: %v", name, err)
		}
	}
	if _, err := Write(filepath.Join(t.TempDir(), "none"), ChecksOf(day), 1, day, all(rows)); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("no folder: %v", err)
	}
}

// Lines that are not what appendLine writes are refused, and nothing panics.
func TestLinesThatAreNone(t *testing.T) {
	c := newCodec(chain.CheckFields())
	line := must.Get(c.appendLine(nil, rowsOf(t)[1]))(t)
	good := string(line)
	for _, bad := range []string{
		"", "{}", "[]", "null", good[:len(good)/2], strings.Replace(good, "agent_id", "agent", 1),
		strings.Replace(good, `"node":"`, `"node":"zz`, 1),
		strings.Replace(good, `"node":"0`, `"node":"`, 1), strings.Replace(good, `"latency_ms":1`, `"latency_ms":"1"`, 1),
		strings.Replace(good, `"latency_ms":1`, `"latency_ms":1.0`, 1),
		strings.Replace(good, `"latency_ms":1`, `"latency_ms":4294967296`, 1), strings.Replace(good, `"currency":"USD"`, `"currency":5`, 1),
		strings.Replace(good, "}", `,"more":1}`, 1), strings.Replace(good, `"currency":"USD",`, "", 1),
	} {
		if bad == good {
			t.Fatal("a replacement that replaces nothing")
		}
		if _, err := c.appendRow(nil, bad); !errors.Is(err, errLine) {
			t.Errorf("%s: %v", bad, err)
		}
	}
	seed := rand.Uint64()
	r := rand.New(rand.NewPCG(seed, 0))
	for range 20_000 {
		row := slices.Clone(rowsOf(t)[1])
		for range 1 + r.IntN(3) {
			row[r.IntN(len(row))] = byte(r.Uint32())
		}
		row = row[:len(row)-r.IntN(2)*r.IntN(len(row))]
		line, err := c.appendLine(nil, row)
		if err != nil {
			continue
		}
		if back, err := c.appendRow(nil, string(bytes.TrimSuffix(line, []byte("\n")))); err != nil || !bytes.Equal(back, row) {
			t.Fatalf("seed %d: %q is written\n%s\nand read another row, %v", seed, row, line, err)
		}
	}
}

// An archive of violations is an archive of its own, beside the archive of the month's first day.
func TestArchiveOfViolations(t *testing.T) {
	var rows [][]byte
	for _, row := range rowsOf(t) {
		fields := must.Get(chain.ParseRow(nil, row))(t)
		violation, _ := chain.ViolationOf(nil, fields)
		rows = append(rows, violation)
	}
	dir, month := t.TempDir(), day.AddDate(0, 0, 1-day.Day())
	must.Get(Write(dir, ViolationsOf(month), 1, day, all(rows)))(t)
	a := must.Get(Open(dir, ViolationsOf(month)))(t)
	var back [][]byte
	for row, err := range a.All() {
		must.Do(t, err)
		back = append(back, slices.Clone(row))
	}
	if !slices.EqualFunc(back, rows, bytes.Equal) || a.Month != "2026-11" || a.Day != "" ||
		!strings.HasPrefix(a.FirstID, spend.PrefixViolation) {
		t.Errorf("%+v came back with\n%q\nwas\n%q", a.Manifest, back, rows)
	}
	if _, err := Open(dir, ChecksOf(month)); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the first day: %v", err)
	}
	must.Do(t, os.Rename(ManifestPath(dir, ViolationsOf(month)), ManifestPath(dir, ChecksOf(month))))
	if _, err := Open(dir, ChecksOf(month)); !errors.Is(err, ErrAltered) {
		t.Errorf("the manifest of a month in the place of a day's: %v", err)
	}
}
