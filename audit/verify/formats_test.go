package verify_test

import (
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

// TestStrangerKnowsFormats has verify.py hash rows by their own format: rows of the first
// also in a table that is wider, and rows of the second whole, behind its own domain.
func TestStrangerKnowsFormats(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath(interpreter()); err != nil {
		t.Skip(err)
	}
	c := &spend.Check{ID: spend.NewID(time.Now()), ActionType: spend.Refund, Decision: spend.Decision{Effect: spend.Block}, Namespace: "n"}
	shadowed := *c
	shadowed.Shadow = &spend.Shadow{Draft: 7, Effect: spend.Escalate, RuleID: "cap"}
	widen := func(value string) []byte {
		row := slices.Clone(chain.AppendCheck(nil, c, 1))
		fields := chain.CheckFields()
		binary.BigEndian.PutUint16(row, uint16(len(fields[:])))
		if value == "" {
			return append(row, 0xff, 0xff, 0xff, 0xff)
		}
		return append(binary.BigEndian.AppendUint32(row, uint32(len(value))), value...)
	}
	first, second := chain.HashCheck(c), chain.HashCheck(&shadowed)
	for _, r := range []struct {
		row  []byte
		want string
	}{
		{chain.AppendCheck(nil, c, 1), fmt.Sprintf("%x", first)},
		{widen(""), fmt.Sprintf("%x", first)},
		{widen("shadow"), "None"},
		{chain.AppendCheck(nil, &shadowed, 2), fmt.Sprintf("%x", second)},
	} {
		program := `
import struct, sys
with open("../../deploy/audit/verify.py", encoding="utf-8") as f:
    exec(f.read().removesuffix("main()\n"))
row, fields, at = bytes.fromhex(sys.argv[1]), [], 2
while at < len(row):
    length, = struct.unpack(">i", row[at:at + 4])
    at += 4
    fields.append(None if length < 0 else row[at:at + length])
    at += max(length, 0)
found = hash_check(row, fields)
print(found and found.hex())`
		output, err := exec.CommandContext(t.Context(), interpreter(), "-c", program, fmt.Sprintf("%x", r.row)).CombinedOutput()
		if got := strings.TrimSpace(string(output)); err != nil || got != r.want {
			t.Errorf("%x is hashed as %s, %v; want %s", r.row, got, err, r.want)
		}
	}
}
