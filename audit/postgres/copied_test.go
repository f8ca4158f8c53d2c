package postgres

import (
	"bytes"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"spendgate/audit"
	"spendgate/audit/audittest"
	"spendgate/audit/verify"
	"spendgate/bench/must"
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
		c := copied{each: func(row []byte) error { got = append(got, string(row)); return nil }}
		for piece := range slices.Chunk([]byte(whole), size) {
			if n, err := c.Write(bytes.Clone(piece)); err != nil || n != len(piece) {
				t.Fatalf("pieces of %d: %d, %v", size, n, err)
			}
		}
		if err := c.end(); err != nil || !slices.Equal(got, rows) {
			t.Errorf("pieces of %d: %q, %v", size, got, err)
		}
	}
	for cut := range len(whole) - 1 {
		c := copied{each: func([]byte) error { return nil }}
		if _, err := c.Write([]byte(whole[:cut])); err != nil || !errors.Is(c.end(), errTruncatedCopy) {
			t.Errorf("cut at %d: %v, then %v", cut, err, c.end())
		}
	}
	for _, bad := range []string{"PGCOPX" + whole[6:], whole[:15] + "\x01" + whole[16:], whole + "x"} {
		c := copied{each: func([]byte) error { return nil }}
		if _, err := c.Write([]byte(bad)); err == nil {
			t.Errorf("%q is taken", bad)
		}
	}
	refused := errors.New("made to fail")
	c := copied{each: func([]byte) error { return refused }}
	if _, err := c.Write([]byte(whole)); !errors.Is(err, refused) {
		t.Errorf("got %v", err)
	}
}

// TestWhyACopyEnded: the cause is told once, and nothing that only follows from it.
func TestWhyACopyEnded(t *testing.T) {
	url := migrated(t)
	store := open(t, url, true)
	must.Do(t, audittest.Record(t.Context(), store, minimal(newFence(t, store))))
	once := func(err error, cause string) {
		t.Helper()
		if err == nil || strings.Count(err.Error(), cause) != 1 || errors.Is(err, errTruncatedCopy) {
			t.Errorf("got %v, want %q once", err, cause)
		}
	}
	s := must.Get(OpenSnapshot(t.Context(), url, 1))(t)
	defer s.Close()
	refused := errors.New("made to fail")
	once(s.Rows(t.Context(), verify.Range{High: audit.MaxID()}, func([]byte) error { return refused }), refused.Error())
	d := must.Get(openDays(t.Context(), url))(t)
	defer d.close()
	for _, err := range d.rows(t.Context(), day{date: time.Unix(0, 0).UTC()}) {
		once(err, `relation "checks_19700101" does not exist`)
	}
}
