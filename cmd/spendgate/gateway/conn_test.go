package gateway

import "testing"

// Only a single request or response of JSON-RPC 2.0 is accepted as a message.
func TestDecodeMessage(t *testing.T) {
	for text, want := range map[string]bool{
		`{"jsonrpc":"2.0","id":1,"method":"m"}`:           true,
		`{"jsonrpc":"2.0","id":"a","result":{}}`:          true,
		`{"jsonrpc":"2.0","id":null,"method":"m"}`:        true,
		`{"id":1,"method":"m"}`:                           false,
		`[{"jsonrpc":"2.0","id":1,"method":"m"}]`:         false,
		`{"jsonrpc":"2.0","id":[1],"method":"m"}`:         false,
		`{"jsonrpc":"2.0","id":true,"method":"m"}`:        false,
		`{"jsonrpc":"2.0","id":1}`:                        false,
		`{"jsonrpc":"2.0","result":{}}`:                   false,
		`{"jsonrpc":"2.0","id":1,"result":{},"error":{}}`: false,
	} {
		if _, err := decodeMessage([]byte(text)); (err == nil) != want {
			t.Errorf("%s: %v", text, err)
		}
	}
}

// A server does not get the keys of the service, also where nothing else is in the environment.
func TestChildEnvironment(t *testing.T) {
	t.Setenv("SPENDGATE_API_KEY", "secret")
	u := &upstream{Command: []string{"/bin/sh", "-c", `echo "{\"jsonrpc\":\"2.0\",\"method\":\"has $SPENDGATE_API_KEY$OTHER\"}"`}}
	for want, environ := range map[string][]string{
		"has other": {"SPENDGATE_API_KEY=secret", "OTHER=other"}, "has ": {"SPENDGATE_API_KEY=secret"},
	} {
		c, err := startChild(u, environ, quiet())
		if err != nil {
			t.Fatal(err)
		}
		if m, err := c.read(); err != nil || m.Method != want {
			t.Error(m.Method, err)
		}
		c.close()
	}
}
