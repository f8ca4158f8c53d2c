package verify_test

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"spendgate/audit/chain"
	"spendgate/audit/spend"
)

// TestStrangerKnowsFormats compares the columns that verify.py reads with the program's, and has
// verify.py hash rows by their own format: rows of the first also in a table that is wider, and rows
// of the second whole, behind its own domain.
func TestStrangerKnowsFormats(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath(interpreter()); err != nil {
		t.Skip(err)
	}
	c := &spend.Check{ID: spend.NewID(time.Now()), ActionType: spend.Refund, Decision: spend.Decision{Effect: spend.Block}, Namespace: "n"}
	width := uint16(chain.CheckWidths()[0])
	followed := func(row, value []byte) []byte {
		row = slices.Clone(row)
		binary.BigEndian.PutUint16(row, width+1)
		if value == nil {
			return append(row, 0xff, 0xff, 0xff, 0xff)
		}
		return append(binary.BigEndian.AppendUint32(row, uint32(len(value))), value...)
	}
	paid := *c
	paid.Payment = &spend.CheckPayment{Key: "k", Version: 1, Attempt: 1}
	first, next := chain.HashCheck(c), chain.AppendCheck(nil, &paid, spend.PaymentFormat)
	run := func(program, argument string) string {
		t.Helper()
		program = `
import struct, sys
with open("../../deploy/audit/verify.py", encoding="utf-8") as f:
    exec(f.read().removesuffix("main()\n"))
` + program
		output, err := exec.CommandContext(t.Context(), interpreter(), "-c", program, argument).CombinedOutput()
		if err != nil {
			t.Errorf("%v: %s", err, output)
		}
		return strings.TrimSpace(string(output))
	}
	columns := strings.Replace(strings.Join(chain.Checks().Columns(), ","), ",amount,", ",amount::text,", 1)
	want := fmt.Sprintln(columns, chain.CheckWidths())
	if got := run(`print(CHECK, f"[{' '.join(map(str, WIDTHS.values()))}]")`, "") + "\n"; got != want {
		t.Errorf("it reads the columns and widths\n%s, want\n%s", got, want)
	}
	for _, r := range []struct {
		row  []byte
		want string
	}{
		{chain.AppendCheck(nil, c, 1), fmt.Sprintf("%x", first)},
		{followed(chain.AppendCheck(nil, c, 1), nil), fmt.Sprintf("%x", first)},
		{followed(chain.AppendCheck(nil, c, 1), []byte("next")), "None"},
		{next, fmt.Sprintf("%x", sha256.Sum256(append([]byte("spendgate check 2\n"), next...)))},
	} {
		const program = `
row, fields, at = bytes.fromhex(sys.argv[1]), [], 2
while at < len(row):
    length, = struct.unpack(">i", row[at:at + 4])
    at += 4
    fields.append(None if length < 0 else row[at:at + length])
    at += max(length, 0)
found = hash_check(row, fields)
print(found and found.hex())`
		if got := run(program, fmt.Sprintf("%x", r.row)); got != r.want {
			t.Errorf("%x is hashed as %s; want %s", r.row, got, r.want)
		}
	}
}
