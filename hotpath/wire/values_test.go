package wire

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json/jsontext"
)

// TestPlain puts every byte at every place of strings around the eight bytes that are looked at
// at once.
func TestPlain(t *testing.T) {
	for length := range 20 {
		for place := range length {
			for b := range 256 {
				text := bytes.Repeat([]byte{'~'}, length)
				text[place] = byte(b)
				want := b >= ' ' && b < 0x7f && b != '"' && b != '\\'
				if got := plain(string(text)); got != want {
					t.Fatalf("%q is plain: %v", text, got)
				}
				quoted, _ := jsontext.AppendQuote(nil, string(text)) // replaces invalid UTF-8
				if b != 0x7f && !bytes.Equal(AppendString(nil, string(text)), quoted) {
					t.Fatalf("%q is written as %q", text, AppendString(nil, string(text)))
				}
			}
		}
	}
}

func TestAppendTime(t *testing.T) {
	f := func(in time.Time, want string) {
		t.Helper()
		if got := string(AppendTime(nil, in)); got != `"`+want+`"` {
			t.Errorf("got %s, want %s", got, want)
		}
	}
	f(time.UnixMilli(1795169472034), "2026-11-20T10:11:12.034Z")
	f(time.UnixMilli(0), "1970-01-01T00:00:00.000Z")
	f(time.Date(2026, 1, 1, 1, 0, 0, 999_999_999, time.FixedZone("", 7200)), "2025-12-31T23:00:00.999Z")
}

func TestStringsAreEscaped(t *testing.T) {
	for _, s := range []string{"", `"`, `\`, "\n\r\t\b\f\x01\x1f", "é \u2028 😀 \u007f", "</script>", strings.Repeat("x", 5000)} {
		var back string
		if err := json.Unmarshal(AppendString(nil, s), &back); err != nil || back != s {
			t.Errorf("%q came back as %q, %v", s, back, err)
		}
	}
	var back string
	if err := json.Unmarshal(AppendString(nil, "a\xffb"), &back); err != nil || back != "a\ufffdb" {
		t.Errorf("broken UTF-8 came back as %q, %v", back, err)
	}
}
