package policy

import (
	"fmt"
	"runtime"
	"strconv"
	"strings"
	"testing"

	"spendgate/audit/spend"
)

// maxText is how much of a policy's rules fits in the largest body.
const maxText = 1<<20 - 100

// biggest repeats a rule to the largest possible policy; %[1]d in form is the rule's number, and
// %[2]s its entries.
func biggest(form string, entries int, entry func(i int) string) string {
	var b strings.Builder
	for i := range spend.MaxRules {
		list := make([]string, entries)
		for j := range list {
			list[j] = strconv.Quote(entry(i*entries + j))
		}
		rule := fmt.Sprintf(form, i, strings.Join(list, ","))
		if b.Len()+len(rule)+2 > maxText {
			break
		}
		b.WriteString("," + rule)
	}
	return "[" + b.String()[1:] + "]"
}

// A Program takes no more memory than it says, whatever shape of policy makes
// the most of the largest body, and not much more than the policy's text.
func TestSize(t *testing.T) {
	const list = `{"rule_id":"%d","rule_type":"vendor_allowlist","parameters":{"vendors":[%s]}}`
	const folded = `{"rule_id":"%d","rule_type":"blocked_categories","parameters":{"categories":[%s]}}`
	short := func(i int) string { return strconv.FormatInt(int64(i%46656), 36) }
	for name, text := range map[string]string{
		"short entries":  biggest(list, spend.MaxListEntries, short),
		"folded entries": biggest(folded, spend.MaxListEntries, func(i int) string { return "é" + short(i) }),
		"some entries":   biggest(list, 300, short),
		"long entries":   biggest(list, 8, func(i int) string { return fmt.Sprintf("%0256d", i) }),
		"descriptions": biggest(`{"rule_id":"%d","rule_type":"max_amount","description":%s,"parameters":{"limit":5,"currency":"USD"}}`, 1,
			func(int) string { return strings.Repeat("d", 1900) }),
		"rules": biggest(`{"rule_id":"%d","rule_type":"escalate_if","parameters":{"amount_above":5}}%.0s`, 0, short),
		"budgets": biggest(`{"rule_id":"%d","rule_type":"budget","parameters":{"max_count":5,"window":"day","on_exceed":"escalate",`+
			`"approval":{}}}%.0s`, 0, short),
		"groups": biggest(`{"rule_id":"%d","rule_type":"escalate_if","parameters":{"amount_above":5,"approval":{"from":[{"group":"%[1]d `+
			`a"},{"group":"%[1]d b"},{"group":"c"}]}}}%.0[2]s`, 0, short),
		"one rule": rule1("max_amount", `{"limit":1}`),
	} {
		const copies = 4
		programs := make([]*Program, copies)
		before := heap()
		for i := range programs {
			programs[i] = mustCompile(t, text)
		}
		took := (heap() - before) / copies
		size := programs[0].Size()
		runtime.KeepAlive(programs)
		t.Logf("%s: %d bytes of text take %d bytes, said to be %d", name, len(text), took, size)
		if size < took || size > 3*took+programOverhead+ruleOverhead {
			t.Errorf("%s: said to take %d bytes, takes %d", name, size, took)
		}
		if len(text) > maxText/2 && took > 2*len(text) {
			t.Errorf("%s: %d bytes of text take %d bytes", name, len(text), took)
		}
	}
}

func heap() int {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int(m.HeapAlloc) //nolint:gosec // far less
}
