package archive

import (
	"bytes"
	"encoding/binary"
	"errors"
	"slices"
	"testing"

	"spendgate/audit/chain"
)

// TestSecondFormat: an archive with one column more has old and new rows and gives them
// back, and one that was written before it is read beside it.
func TestSecondFormat(t *testing.T) {
	t.Parallel()
	one := ChecksOf(day)
	one.widths = one.widths[:1]
	one.fields = one.fields[:one.widths[0]]
	two := one
	two.fields = append(slices.Clone(one.fields), chain.Field{Name: "next", Kind: chain.Text})
	two.widths = []int{len(one.fields), len(two.fields)}
	first, rows := rowsOf(t), [][]byte(nil)
	for i, row := range first {
		row = slices.Clone(row)
		binary.BigEndian.PutUint16(row, uint16(len(two.fields)))
		if i%2 == 0 {
			row = append(row, "\xff\xff\xff\xff"...) // of the first format
		} else {
			row = append(row, "\x00\x00\x00\x04next"...)
		}
		rows = append(rows, row)
	}
	read := func(dir string, p Part) (back [][]byte) {
		t.Helper()
		a, err := Open(dir, p)
		if err != nil {
			t.Fatal(err)
		}
		for row, err := range a.All() {
			if err != nil {
				t.Fatal(err)
			}
			back = append(back, slices.Clone(row))
		}
		return back
	}
	wide, narrow := t.TempDir(), t.TempDir()
	if _, err := Write(wide, two, 1, day, all(rows)); err != nil {
		t.Fatal(err)
	}
	if _, err := Write(narrow, one, 1, day, all(first)); err != nil {
		t.Fatal(err)
	}
	if back := read(wide, two); !slices.EqualFunc(back, rows, bytes.Equal) {
		t.Errorf("came back\n%q\nwas\n%q", back, rows)
	}
	back := read(narrow, two)
	if !slices.EqualFunc(back, first, bytes.Equal) {
		t.Errorf("of %d rows of the earlier archive %d came back, or others", len(first), len(back))
	}
	for i := range back {
		if i%2 == 0 && chain.HashRow(rows[i]) != chain.HashRow(back[i]) {
			t.Errorf("row %d is hashed otherwise in the wider table", i)
		}
	}
	if _, err := Open(wide, one); !errors.Is(err, ErrAltered) {
		t.Errorf("a reader of the first format opens the wider archive: %v", err)
	}
	two.widths = two.widths[1:]
	if _, err := Open(narrow, two); !errors.Is(err, ErrAltered) {
		t.Errorf("columns that no format has: %v", err)
	}
}
