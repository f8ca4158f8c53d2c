package gateway

import (
	"testing"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"

	"spendgate/bench/must"
)

// TestChild: a server does not get the keys of the service, also where nothing else is in the environment, and what it prints beside its
// messages is left out.
func TestChild(t *testing.T) {
	t.Setenv("SPENDGATE_API_KEY", "secret")
	u := &upstream{Command: []string{"/bin/sh", "-c", `echo starting; echo; echo "{half"; echo '{"level":"info"}'; ` +
		`echo '{"jsonrpc":"2.0","method":"more"} than that'; ` +
		`echo "{\"jsonrpc\":\"2.0\",\"method\":\"has $SPENDGATE_API_KEY$OTHER\"}"`}}
	for want, environ := range map[string][]string{
		"has other": {"SPENDGATE_API_KEY=secret", "OTHER=other"}, "has ": {"SPENDGATE_API_KEY=secret"},
	} {
		c := must.Get((&child{&link{u: u, log: quiet(), arrived: func(jsonrpc.Message) {}}, environ}).Connect(t.Context()))(t)
		m, err := c.Read(t.Context())
		if r, ok := m.(*jsonrpc.Request); err != nil || !ok || r.Method != want {
			t.Error(m, err)
		}
		_ = c.Close()
	}
}
