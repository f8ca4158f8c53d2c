package archive

import (
	"bytes"
	"encoding/binary"
	"errors"
	"slices"
	"testing"

	"spendgate/audit/chain"
	"spendgate/bench/must"
)

// TestSecondFormat: an archive with one column more has old and new rows and gives them
// back, and one that was written before it is read beside it.
func TestSecondFormat(t *testing.T) {
	t.Parallel()
	two := ChecksOf(day)
	one := two
	one.widths = two.widths[:1]
	one.fields = two.fields[:one.widths[0]]
	rows, first := rowsOf(t), [][]byte(nil)
	for i, row := range rows {
		if i%2 == 0 { // of the first format
			row = slices.Clone(row[:len(row)-4])
			binary.BigEndian.PutUint16(row, uint16(len(one.fields)))
			first = append(first, row)
		}
	}
	read := func(dir string, p Part) (back [][]byte) {
		t.Helper()
		a := must.Get(Open(dir, p))(t)
		for row, err := range a.All() {
			must.Do(t, err)
			back = append(back, slices.Clone(row))
		}
		return back
	}
	wide, narrow := t.TempDir(), t.TempDir()
	must.Get(Write(wide, two, 1, day, all(rows)))(t)
	must.Get(Write(narrow, one, 1, day, all(first)))(t)
	if back := read(wide, two); !slices.EqualFunc(back, rows, bytes.Equal) {
		t.Errorf("came back\n%q\nwas\n%q", back, rows)
	}
	back := read(narrow, two)
	if !slices.EqualFunc(back, first, bytes.Equal) {
		t.Errorf("of %d rows of the earlier archive %d came back, or others", len(first), len(back))
	}
	for i := range back {
		if chain.HashRow(rows[2*i]) != chain.HashRow(back[i]) {
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
