package chain

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"spendgate/audit/spend"
	"spendgate/bench/must"
)

// TestSecondFormat: beside a format with one column more, rows of the first are hashed and read as
// before, also from the wider table, and neither can pass for the other.
func TestSecondFormat(t *testing.T) {
	t.Parallel()
	two := checkFormats
	followed := func(row, value []byte) []byte {
		row = slices.Clone(row)
		binary.BigEndian.PutUint16(row, binary.BigEndian.Uint16(row)+1)
		w := Writer{b: row}
		w.raw(value)
		return w.b
	}
	hash := func(row []byte) spend.Hash { return sha256.Sum256(two.append(nil, row)) }
	c := &spend.Check{ID: spend.NewID(time.Now()), ActionType: spend.Refund, Decision: spend.Decision{Effect: spend.Block}, Namespace: "n"}
	cut := func(row []byte) []byte { // without the payment, which is null
		binary.BigEndian.PutUint16(row, binary.BigEndian.Uint16(row)-1)
		return row[:len(row)-4]
	}
	first, narrow := AppendCheck(nil, c, 1), cut(AppendCheck(nil, c, 2))
	second := followed(narrow, []byte("next"))

	if hash(first) != HashCheck(c) || hash(first) != sha256.Sum256(append([]byte("spendgate check 1\n"), first...)) {
		t.Error("a row of the first format has another hash")
	}
	if hash(followed(first, nil)) != HashCheck(c) {
		t.Error("a row of the first format has another hash in a wider table")
	}
	if hash(second) != sha256.Sum256(append([]byte("spendgate check 2\n"), second...)) {
		t.Error("a row of the second format is not hashed whole, behind its own domain")
	}
	hashes := map[spend.Hash]string{HashCheck(c): "the first"}
	for what, row := range map[string][]byte{
		"the second": second, "null in the second": followed(narrow, nil), "the first with a value behind": followed(first, []byte("next")),
		"an unknown format": AppendCheck(nil, c, 3), "format 0": AppendCheck(nil, c, 0),
		"cut off": followed(first, nil)[:len(first)+2],
	} {
		if other, taken := hashes[hash(row)]; taken {
			t.Errorf("%s is hashed as %s", what, other)
		}
		hashes[hash(row)] = what
	}
	for _, row := range []struct {
		row  []byte
		fits bool
	}{{first, true}, {followed(first, nil), true}, {followed(first, []byte("x")), false}, {second, true}, {narrow, false}} {
		fields, err := ParseFields(nil, row.row)
		if err != nil || two.fits(fields) != row.fits {
			t.Errorf("%q is of its format: %t, %v; want %t", row.row, !row.fits, err, row.fits)
		}
	}
	for end := range first { // no end makes it panic
		two.append(nil, first[:end])
	}
	padded, err := ParseCheckRow(nil, first)
	if err != nil || len(padded) != checkFields || !bytes.Equal(padded[FieldNamespace], []byte("n")) {
		t.Errorf("%d fields, %v", len(padded), err)
	}
}

// TestFormatsAreDescribed compares the document with the columns of each format.
func TestFormatsAreDescribed(t *testing.T) {
	t.Parallel()
	text := must.Get(os.ReadFile("../../docs/audit/format.md"))(t)
	row, begin, columns := "| check | `%s` | ", 0, Checks().Columns()
	columns[FieldAmount] += "::text"
	for i, f := range checkFormats {
		want := fmt.Sprintf(row, strings.TrimSpace(f.domain)) + strings.Join(columns[begin:f.fields], ", ") + " |"
		if !strings.Contains(string(text), want) {
			t.Errorf("it does not have the row\n%s", want)
		}
		row, begin = fmt.Sprintf("| check, format %d | `%%s` | the fields of format %d, ", i+2, i+1), f.fields
	}
}
