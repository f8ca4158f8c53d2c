package httpapi

import (
	"strings"
	"testing"
	"time"
)

func TestPreferredWait(t *testing.T) {
	const none = -1
	for headers, want := range map[string]int{
		"": none, "wait": none, "wait=": none, "wait=x": none, "wait=-1": none, "await=3": none, "respond-async": none,
		"wait=0": 0, "wait=7": 7, " Wait = \"7\" ": 7, "wait=30": 30, "wait=31": 30, "wait=99999999999999999999": 30,
		"respond-async, wait=7": 7, "wait=7; strict": 7, "wait=7;x=\",\", wait=9": 7,
		`foo="a, wait=9", wait=1`: 1, `foo="\", wait=9", wait=1`: 1, `foo="a`: none,
		"respond-async\nwait=1": 1, "wait=2\nwait=1": 2,
	} {
		var lines [][]byte
		for line := range strings.SplitSeq(headers, "\n") {
			lines = append(lines, []byte(line))
		}
		got, asked := preferredWait(lines)
		if !asked {
			got = -time.Second
		}
		if want := time.Duration(want) * time.Second; got != want {
			t.Errorf("%q: %s, want %s", headers, got, want)
		}
	}
}
