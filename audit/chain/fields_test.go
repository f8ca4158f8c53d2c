package chain

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"slices"
	"testing"
	"time"

	"spendgate/audit/spend"
)

// TestSecondFormat: beside a format with one column more, rows of the first are hashed
// and read as before, also from the wider table, and neither can pass for the other.
func TestSecondFormat(t *testing.T) {
	t.Parallel()
	two := append(slices.Clone(checkFormats), checkFormat{"spendgate check 2\n", checkFields + 1})
	widen := func(row, value []byte) []byte {
		row = slices.Clone(row)
		fields := CheckFields()
		binary.BigEndian.PutUint16(row, uint16(len(fields[:])+1))
		if value == nil {
			return appendNull(row)
		}
		return appendField(row, value)
	}
	hash := func(row []byte) spend.Hash { return sha256.Sum256(two.append(nil, row)) }
	c := &spend.Check{ID: spend.NewID(time.Now()), ActionType: spend.Refund, Decision: spend.Decision{Effect: spend.Block}, Namespace: "n"}
	first, second := AppendCheck(nil, c, 1), AppendCheck(nil, c, 2)

	if hash(first) != HashCheck(c, 1) || hash(first) != sha256.Sum256(append([]byte("spendgate check 1\n"), first...)) {
		t.Error("a row of the first format has another hash")
	}
	if hash(widen(first, nil)) != HashCheck(c, 1) {
		t.Error("a row of the first format has another hash in a wider table")
	}
	added := widen(second, []byte("shadow"))
	if hash(added) != sha256.Sum256(append([]byte("spendgate check 2\n"), added...)) {
		t.Error("a row of the second format is not hashed whole, behind its own domain")
	}
	hashes := map[spend.Hash]string{HashCheck(c, 1): "the first"}
	for what, row := range map[string][]byte{
		"the second": added, "null in the second": widen(second, nil), "the first with a value behind": widen(first, []byte("shadow")),
		"an unknown format": AppendCheck(nil, c, 3), "format 0": AppendCheck(nil, c, 0), "cut off": widen(first, nil)[:len(first)+2],
	} {
		if other, taken := hashes[hash(row)]; taken {
			t.Errorf("%s is hashed as %s", what, other)
		}
		hashes[hash(row)] = what
	}
	for _, row := range []struct {
		row  []byte
		fits bool
	}{{first, true}, {widen(first, nil), true}, {widen(first, []byte("x")), false}, {added, true}, {second, false}} {
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
