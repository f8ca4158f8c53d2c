package readme_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// reading takes from texts what differs between two runs. Identifiers and keys
// are numbered as they appear, so that a page that shows one in two places is
// held to it: the check that a duplicate names must be the one shown before.
type reading struct{ numbers map[string]int }

func newReading() *reading { return &reading{make(map[string]int)} }

// normalize returns the text with times, identifiers and addresses replaced.
func (r *reading) normalize(text string) string {
	text = regexp.MustCompile(`[0-9a-f]{32}\b`).ReplaceAllStringFunc(text, func(id string) string {
		if r.numbers[id] == 0 {
			r.numbers[id] = len(r.numbers) + 1
		}
		return "(" + strconv.Itoa(r.numbers[id]) + ")"
	})
	for _, varying := range [][2]string{
		{`\breq_[0-9a-f]{12}\b`, "req_(any)"},
		{`\b\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z`, "(time)"},
		{`"latency_ms":\d+`, `"latency_ms":(any)`},
		{`, in \d+ ms`, ", in (any) ms"},
		{`, batch \d+:`, ", batch (any):"},
		{`"version":"[^"]*"`, `"version":"(any)"`},
		{`"next_cursor":"[^"]+"`, `"next_cursor":"(any)"`},
	} {
		text = regexp.MustCompile(varying[0]).ReplaceAllLiteralString(text, varying[1])
	}
	return text
}

// plain removes invisible differences from an output: the blanks of JSON, carriage
// returns, blanks at the ends of lines.
func plain(language, text string) (string, error) {
	if language == "json" {
		var out bytes.Buffer
		if err := json.Compact(&out, []byte(text)); err != nil {
			return "", fmt.Errorf("not JSON: %w", err)
		}
		return out.String(), nil
	}
	var lines []string
	for line := range strings.Lines(text) {
		lines = append(lines, strings.TrimRight(line, " \r\n"))
	}
	return strings.TrimSpace(strings.Join(lines, "\n")), nil
}

// comparison compares what a page shows with what a node answers.
type comparison struct{ shown, got *reading }

func (c comparison) compare(shown block, printed string) error {
	want, err := plain(shown.language, shown.text)
	if err != nil {
		return fmt.Errorf("what is shown: %w", err)
	}
	got, err := plain(shown.language, printed)
	if err != nil {
		return fmt.Errorf("what is printed: %w\n%s", err, printed)
	}
	want, normalized := c.shown.normalize(want), c.got.normalize(got)
	if want == normalized {
		return nil
	}
	return fmt.Errorf("the page shows\n%s\nbut it is\n%s\nthat is, as printed:\n%s", want, normalized, printed)
}

// The comparison itself can fail.
func TestCompare(t *testing.T) {
	const (
		a = "chk_0123456789abcdef0123456789abcde0"
		b = "chk_0123456789abcdef0123456789abcde1"
		c = "viol_0123456789abcdef0123456789abcde2"
	)
	for _, test := range []struct {
		shown, printed string
		equal          bool
	}{
		{`{ "check_id": "` + a + `" }`, `{"check_id":"` + b + `"}`, true},
		{`["` + a + `", "` + a + `"]`, `["` + b + `","` + b + `"]`, true},
		{`["` + a + `", "` + a + `"]`, `["` + a + `","` + b + `"]`, false},
		{`["` + a + `"]`, `["` + c + `"]`, false},
		{`{"amount": 1.0}`, `{"amount":1}`, false},
		{`{"latency_ms": 1}`, `{"latency_ms":20}`, true},
		{`{"decision": "allow"}`, `{"decision":"block"}`, false},
		{`{"decision": "allow"}`, `{"decision":"allow"} {}`, false},
		{`{"timestamp": "2026-01-02T03:04:05.678Z"}`, `{"timestamp":"2026-11-20T00:00:00.000Z"}`, true},
		{`{"timestamp": "2026-01-02T03:04:05.678Z"}`, `{"timestamp":"2026-11-20"}`, false},
	} {
		err := comparison{newReading(), newReading()}.compare(block{language: "json", text: test.shown}, test.printed)
		if (err == nil) != test.equal {
			t.Errorf("%s and %s: equal should be %v, but %v", test.shown, test.printed, test.equal, err)
		}
	}
}
