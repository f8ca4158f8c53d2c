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
)

// TestSecondFormat: beside a format with one column more, rows of the first are hashed
// and read as before, also from the wider table, and neither can pass for the other.
func TestSecondFormat(t *testing.T) {
	t.Parallel()
	followed := func(row, value []byte) []byte {
		row = slices.Clone(row)
		binary.BigEndian.PutUint16(row, binary.BigEndian.Uint16(row)+1)
		w := Writer{b: row}
		w.raw(value)
		return w.b
	}
	widen := func(row, value []byte) []byte {
		for row = followed(row, value); binary.BigEndian.Uint16(row) < uint16(checkFields); {
			row = followed(row, nil)
		}
		return row
	}
	hash := func(row []byte) spend.Hash { return sha256.Sum256(checkFormats.append(nil, row)) }
	c := &spend.Check{ID: spend.NewID(time.Now()), ActionType: spend.Refund, Decision: spend.Decision{Effect: spend.Block}, Namespace: "n"}
	shadowed := *c
	shadowed.Shadow = &spend.Shadow{Draft: 7, Effect: spend.Block, Reason: spend.ReasonMaxAmount, RuleID: "cap"}
	first, second := AppendCheck(nil, c, 1), AppendCheck(nil, &shadowed, 2)

	if hash(first) != HashCheck(c) || hash(first) != sha256.Sum256(append([]byte("spendgate check 1\n"), first...)) {
		t.Error("a row of the first format has another hash")
	}
	if hash(widen(first, nil)) != HashCheck(c) {
		t.Error("a row of the first format has another hash in a wider table")
	}
	narrow := slices.Clone(second[:len(second)-4-len(shadowed.Shadow.AppendText(nil))])
	binary.BigEndian.PutUint16(narrow, FieldShadow)
	if !bytes.Equal(second, followed(narrow, shadowed.Shadow.AppendText(nil))) {
		t.Error("the second format is not the first with a column behind it")
	}
	if hash(second) != HashCheck(&shadowed) || hash(second) != sha256.Sum256(append([]byte("spendgate check 2\n"), second...)) {
		t.Error("a row of the second format is not hashed whole, behind its own domain")
	}
	hashes := map[spend.Hash]string{HashCheck(c): "the first"}
	for what, row := range map[string][]byte{
		"the second": second, "null in the second": AppendCheck(nil, c, 2), "the first with a value behind": widen(first, []byte("shadow")),
		"an unknown format": AppendCheck(nil, c, int16(len(checkFormats)+1)), "format 0": AppendCheck(nil, c, 0),
		"cut off": widen(first, nil)[:len(first)+2],
	} {
		if other, taken := hashes[hash(row)]; taken {
			t.Errorf("%s is hashed as %s", what, other)
		}
		hashes[hash(row)] = what
	}
	for _, row := range []struct {
		row  []byte
		fits bool
	}{{first, true}, {widen(first, nil), true}, {widen(first, []byte("x")), false}, {second, true}, {narrow, false}} {
		fields, err := ParseFields(nil, row.row)
		if err != nil || checkFormats.fits(fields) != row.fits {
			t.Errorf("%q is of its format: %t, %v; want %t", row.row, !row.fits, err, row.fits)
		}
	}
	for end := range first { // no end makes it panic
		checkFormats.append(nil, first[:end])
	}
	padded, err := ParseCheckRow(nil, first)
	if err != nil || len(padded) != checkFields || !bytes.Equal(padded[FieldNamespace], []byte("n")) {
		t.Errorf("%d fields, %v", len(padded), err)
	}
}

// TestFormatsAreDescribed compares the document with the columns of each format.
func TestFormatsAreDescribed(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../../deploy/AUDIT-FORMAT.md")
	if err != nil {
		t.Fatal(err)
	}
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
