package soak

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"spendgate/bench/must"
)

// What must be flat is found if it grows, and what is recorded may grow.
func TestSummary(t *testing.T) {
	for name, c := range map[string]struct {
		value string
		grows float64 // from one sample to the next
		wrong uint64
		says  string
		err   error
	}{
		"flat":   {value: "node0 heap MiB", says: "flat"},
		"leak":   {value: "node0 heap MiB", grows: 5, says: "NOT FLAT", err: errNotFlat},
		"table":  {value: "allows_open KiB", grows: 200, says: "NOT FLAT", err: errNotFlat},
		"record": {value: "checks KiB", grows: 100, says: "1024 bytes a check"},
		"wrong":  {value: "redis names", wrong: 1, says: "wrong 1", err: errWrong},
	} {
		var text bytes.Buffer
		for i := range 20 {
			s := sample{Values: map[string]float64{c.value: 2000 + c.grows*float64(i)}}
			s.Checks, s.Wrong = uint64(100*i), c.wrong
			if c.value == "node0 heap MiB" {
				s.Values[c.value] -= 1950
			}
			must.Do(t, json.NewEncoder(&text).Encode(s))
		}
		path := filepath.Join(t.TempDir(), "samples.jsonl")
		must.Do(t, os.WriteFile(path, text.Bytes(), 0o600))
		var out strings.Builder
		if err := summarise(&out, path); !errors.Is(err, c.err) || !strings.Contains(out.String(), c.says) {
			t.Errorf("%s: %v\n%s", name, err, &out)
		}
	}
}
