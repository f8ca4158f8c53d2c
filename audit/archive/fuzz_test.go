package archive

import (
	"bytes"
	"strings"
	"testing"

	"spendgate/audit/chain"
	"spendgate/bench/must"
)

// FuzzLine: a line that is taken is a row that can be written again, and that
// line is the same row.
func FuzzLine(f *testing.F) {
	c := newCodec(chain.CheckFields())
	for _, row := range rowsOf(f) {
		line := must.Get(c.appendLine(nil, row))(f)
		good := strings.TrimSuffix(string(line), "\n")
		f.Add(good)
		f.Add(strings.Replace(good, `"agent_id":"`, `"agent_id" : "\u0041\u0000`, 1))
	}
	f.Fuzz(func(t *testing.T, line string) {
		row, err := c.appendRow(nil, line)
		if err != nil {
			return
		}
		written, err := c.appendLine(nil, row)
		if err != nil {
			t.Fatalf("%q is taken and cannot be written: %v", line, err)
		}
		again, err := c.appendRow(nil, string(bytes.TrimSuffix(written, []byte("\n"))))
		if err != nil || !bytes.Equal(again, row) {
			t.Fatalf("%q is taken, and written as %q, another row: %v", line, written, err)
		}
	})
}
