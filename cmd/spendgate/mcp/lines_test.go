package mcp

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"testing/iotest"
)

const opening = `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18",` +
	`"capabilities":{},"clientInfo":{"name":"x","version":"1"}}}
{"jsonrpc":"2.0","method":"notifications/initialized"}
`

// A line that is no message is refused, and the lines after it are answered.
func TestLinesThatAreNoMessages(t *testing.T) {
	call := `{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"check_financial_action","arguments":` +
		fmt.Sprintf(arguments, "1") + `}}`
	for line, code := range map[string]int{
		"{": -32700, "{}{}": -32700, "{'id':1}": -32700, "\xff\xfe": -32700, "\ufeff{}": -32700, strings.Repeat("[", 1<<20): -32700,
		strings.Repeat("x", maxBody+1): -32700, `"` + strings.Repeat("x", 3*maxBody) + `"`: -32700,
		"null": -32600, `"x"`: -32600, "7": -32600, "{}": -32600, `{"jsonrpc":"1.0","id":3,"method":"ping"}`: -32600,
		`{"jsonrpc":"2.0","id":{},"method":"ping"}`: -32600, `{"jsonrpc":"2.0","id":3,"method":4}`: -32600,
		"": 0, " \t\r": 0,
	} {
		var out bytes.Buffer
		s := newServer(t, serve(t, "200 "+allowed), io.Discard, nil)
		err := s.ServeStdio(t.Context(), iotest.HalfReader(strings.NewReader(opening+line+"\n  "+call+"  \r\n")), &out)
		if err != nil || !strings.Contains(out.String(), "Decision: allow.") {
			t.Errorf("%.40q: %v\n%s", line, err, &out)
		}
		refused := 0
		for answer := range strings.Lines(out.String()) {
			var message struct {
				ID    any
				Error struct{ Code int }
			}
			if err := json.Unmarshal([]byte(answer), &message); err != nil {
				t.Errorf("%.40q: %v of %s", line, err, answer)
			}
			if message.ID == nil {
				refused = message.Error.Code
			}
		}
		if refused != code {
			t.Errorf("%.40q: refused with %d, want %d", line, refused, code)
		}
	}
}

// The end of the input ends the last line; a broken stream is an error.
func TestTheEndOfTheLines(t *testing.T) {
	var out bytes.Buffer
	got, err := io.ReadAll(newMessages(strings.NewReader(opening+`{"jsonrpc":"2.0","id":2,"method":"ping"}`), &out))
	if err != nil || !strings.HasSuffix(string(got), "\"ping\"}\n") || out.Len() > 0 {
		t.Errorf("%v\n%s\n%s", err, got, &out)
	}
	broken := errors.New("broken")
	if _, err := io.ReadAll(newMessages(iotest.ErrReader(broken), &out)); !errors.Is(err, broken) {
		t.Errorf("got %v", err)
	}
}
