package pg

import (
	"bytes"
	"errors"
	"slices"
	"testing"
)

// TestCopiedRows takes what COPY sends in pieces of every size.
func TestCopiedRows(t *testing.T) {
	header := copySignature + "\x00\x00\x00\x00\x00\x00\x00\x00"
	rows := []string{
		"\x00\x02\x00\x00\x00\x03abc\xff\xff\xff\xff", "\x00\x00", "\x00\x01\x00\x00\x00\x00", "\x00\x01\x00\x00\x00\x02\xff\xff",
	}
	whole := header
	for _, row := range rows {
		whole += row
	}
	whole += "\xff\xff"
	for size := 1; size <= len(whole); size++ {
		var got []string
		c := Copied{Each: func(row []byte) error { got = append(got, string(row)); return nil }}
		for piece := range slices.Chunk([]byte(whole), size) {
			if n, err := c.Write(bytes.Clone(piece)); err != nil || n != len(piece) {
				t.Fatalf("pieces of %d: %d, %v", size, n, err)
			}
		}
		if err := c.End(); err != nil || !slices.Equal(got, rows) {
			t.Errorf("pieces of %d: %q, %v", size, got, err)
		}
	}
	for cut := range len(whole) - 1 {
		c := Copied{Each: func([]byte) error { return nil }}
		if _, err := c.Write([]byte(whole[:cut])); err != nil || !errors.Is(c.End(), errTruncatedCopy) {
			t.Errorf("cut at %d: %v, then %v", cut, err, c.End())
		}
	}
	for _, bad := range []string{"PGCOPX" + whole[6:], whole[:15] + "\x01" + whole[16:], whole + "x"} {
		c := Copied{Each: func([]byte) error { return nil }}
		if _, err := c.Write([]byte(bad)); err == nil {
			t.Errorf("%q is taken", bad)
		}
	}
	refused := errors.New("made to fail")
	c := Copied{Each: func([]byte) error { return refused }}
	if _, err := c.Write([]byte(whole)); !errors.Is(err, refused) {
		t.Errorf("got %v", err)
	}
}
