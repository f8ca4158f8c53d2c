package mcp

import (
	"bufio"
	"bytes"
	"encoding/json"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"

	"spendgate/bench/must"
	"spendgate/hotpath/client"
)

// FuzzLines: whatever the input is, only lines with one message each are passed on; everything else
// is answered with an error.
func FuzzLines(f *testing.F) {
	f.Add([]byte(opening))
	f.Fuzz(func(t *testing.T, in []byte) {
		var out bytes.Buffer
		lines := bufio.NewScanner(newMessages(bytes.NewReader(in), &out))
		lines.Buffer(nil, maxBody+2)
		for lines.Scan() {
			if _, err := jsonrpc.DecodeMessage(lines.Bytes()); err != nil {
				t.Fatalf("%q is passed on: %v", lines.Bytes(), err)
			}
		}
		must.Do(t, lines.Err())
		for answer := range bytes.Lines(out.Bytes()) {
			var message struct{ Error struct{ Code int } }
			if err := json.Unmarshal(answer, &message); err != nil ||
				message.Error.Code != jsonrpc.CodeParseError && message.Error.Code != jsonrpc.CodeInvalidRequest {
				t.Fatalf("answered %q: %v", answer, err)
			}
		}
	})
}

// FuzzArguments: arguments are refused, or are an action that stays the same however often it is
// written and read.
func FuzzArguments(f *testing.F) {
	schema := actionSchema(true)
	f.Fuzz(func(t *testing.T, in []byte) {
		for _, other := range []struct {
			check error
			into  any
		}{
			{checkArguments(simulateSchema(), in), new(simulation)},
			{checkArguments(policySchema(), in), new(client.NewPolicy)},
			{checkArguments(getSchema(), in), new(policyQuery)},
			{checkArguments(listSchema(), in), new(client.ViolationQuery)},
		} {
			if other.check == nil {
				_ = decode(in, other.into) // must not panic
			}
		}
		var a client.Action
		if checkArguments(schema, in) != nil || decode(in, &a) != nil {
			return
		}
		text, err := encodeCanonical(a)
		if err != nil {
			return // the client does not send this number
		}
		var again client.Action
		if err := decode(text, &again); err != nil {
			t.Fatalf("%q is written as %q: %v", in, text, err)
		}
		if second, err := encodeCanonical(again); err != nil || !bytes.Equal(text, second) {
			t.Fatalf("%q is written as %q and as %q: %v", in, text, second, err)
		}
	})
}
