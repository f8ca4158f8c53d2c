package gateway

import (
	"bufio"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// rawAgent sends messages as they are written: send those without an answer, ask the others.
type rawAgent struct {
	send func(text string)
	ask  func(text string) string
}

const rawStart = `{"jsonrpc":"2.0","id":1,"method":"initialize","params":` +
	`{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"a","version":"1"}}}`

// rawOver returns agents of a gateway over standard input and output, and over HTTP.
func rawOver(t *testing.T, g *Gateway) map[string]rawAgent {
	t.Helper()
	in, toGateway := io.Pipe()
	fromGateway, out := io.Pipe()
	go func() { _ = g.ServeStdio(t.Context(), in, out) }()
	t.Cleanup(func() { _ = toGateway.Close() })
	answers := bufio.NewScanner(fromGateway)
	stdio := rawAgent{send: func(text string) {
		if _, err := io.WriteString(toGateway, text+"\n"); err != nil {
			t.Fatal(err)
		}
	}}
	stdio.ask = func(text string) string { stdio.send(text); answers.Scan(); return answers.Text() }

	server := NewServer(g)
	listener := httptest.NewServer(server.Handler())
	t.Cleanup(listener.Close)
	t.Cleanup(server.Stop)
	session := ""
	post := func(text string) (int, string) {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, listener.URL+Path, strings.NewReader(text))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Content-Type", typeJSON)
		r.Header.Set(headerSession, session)
		response, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		defer response.Body.Close() //nolint:errcheck // only read
		if session == "" {
			session = response.Header.Get(headerSession)
		}
		answer, err := io.ReadAll(response.Body)
		if err != nil {
			t.Fatal(err)
		}
		return response.StatusCode, string(answer)
	}
	web := rawAgent{
		send: func(text string) {
			if status, answer := post(text); status != http.StatusAccepted {
				t.Errorf("%s is answered with %d %s", text, status, answer)
			}
		},
		ask: func(text string) string { _, answer := post(text); return answer },
	}
	agents := map[string]rawAgent{"stdio": stdio, "HTTP": web}
	for name, agent := range agents {
		if answer := agent.ask(rawStart); !strings.Contains(answer, "serverInfo") {
			t.Fatal(name, answer)
		}
	}
	return agents
}

// A call without an identifier, or with a method that resembles tools/call, does not get past the
// gateway: some servers would run it.
func TestCallWithoutID(t *testing.T) {
	s, p := newPlain(t)
	for name, agent := range rawOver(t, guarded(t, newFakeService(t), p, "default: deny\n", "")) {
		s.with(func() { s.calls = nil })
		const params = `"params":{"name":"refund","arguments":{"charge":"c","amount":1}}}`
		for _, id := range []string{"", `"id":null,`, `"id":7,"id":null,`} {
			for _, method := range []string{"tools/call", "notifications/tools/call", "notifications/tool/call"} {
				agent.send(`{"jsonrpc":"2.0",` + id + `"method":"` + method + `",` + params)
			}
		}
		alike := []string{
			"Tools/Call", "tools/call ", `tools/call\n`, "tools.call", "TOOLS_CALL", "tools//call", "tool\u017f/call", "tool/call",
			"call_tool", "callTools", "notifications/tools/call",
		}
		for i, method := range alike {
			answer := agent.ask(fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"%s",`, 100+i, method) + params)
			if !strings.Contains(answer, "there is no method") {
				t.Errorf("%s: %q is answered with %s", name, method, answer)
			}
		}
		agent.send(`{"jsonrpc":"2.0","id":null,"method":"notifications/ours","result":{}}`)
		within(t, "the notification passes", func() (so bool) {
			s.with(func() { so = strings.Join(s.calls, " ") == "notifications/ours" })
			return so
		})
	}
	s.with(func() {
		if s.paid != 0 {
			t.Errorf("%d payments that nobody asked the service for", s.paid)
		}
	})
}

// A batch is refused, with the reason.
func TestBatch(t *testing.T) {
	_, p := newPlain(t)
	for name, agent := range rawOver(t, guarded(t, newFakeService(t), p, "", "")) {
		answer := agent.ask(` [{"jsonrpc":"2.0","id":7,"method":"ping"}]`)
		if !strings.Contains(answer, "-32600") || !strings.Contains(answer, "on its own") {
			t.Errorf("%s: %s", name, answer)
		}
	}
}

// Only what the protocol has in a call reaches the server, which could take anything else for the arguments,
// and no arguments that programs read differently, also where nothing in the file reads them.
func TestUnknownMembers(t *testing.T) {
	s, p := newPlain(t)
	f := newFakeService(t)
	for name, agent := range rawOver(t, guarded(t, f, p, "", "")) {
		for i, params := range []string{
			`"arguments":{"charge":"c","amount":1},"Arguments":{"charge":"c","amount":9}`,
			`"arguments":{"charge":"c","amount":1},"args":{"charge":"c","amount":9}`,
			`"arguments":{"charge":"c","amount":1},"\u0061rguments":{"charge":"c","amount":9}`,
			`"arguments":{"charge":"c","amount":1},"task":{"ttl":1}`,
			`"arguments":{"charge":"c","amount":1,"more":{"to":1,"to":2}}`,
			"\"arguments\":{\"charge\":\"c\",\"amount\":1,\"more\":\"\xff\"}",
		} {
			answer := agent.ask(fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":"refund",%s}}`, 100+i, params))
			if !strings.Contains(answer, `"error"`) {
				t.Errorf("%s: %s is answered with %s", name, params, answer)
			}
		}
		f.with(func() {
			if s.paid != 0 || len(f.checks) != 0 {
				t.Errorf("%s: %d payments, %d checks", name, s.paid, len(f.checks))
			}
		})
	}
}

// What the file does not read of a mapped call goes on as the agent sent it, beside the key.
func TestUnchanged(t *testing.T) {
	const arguments = `"charge":"c","amount":100,"more":{"b":1.50,"a":[123456789012345678901,-0.0,null]},"é\n":"\u00e9","none":null`
	for more, key := range map[string]string{"": "", keyMore: `,"idempotency_key":"chk_1"`} {
		s, p := newPlain(t)
		agent := rawOver(t, guarded(t, newFakeService(t), p, "", more))["HTTP"]
		answer := agent.ask(`{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"_meta":{"x/y":[1.50],"progressToken":"t"},` +
			`"name":"refund","arguments":{` + arguments + `}}}`)
		want, err := canonical([]byte(`{"_meta":{"x/y":[1.50],"progressToken":"t"},"name":"refund","arguments":{` + arguments + key + `}}`))
		if err != nil {
			t.Fatal(err)
		}
		if len(s.params) != 1 {
			t.Fatal(answer)
		}
		if got, err := canonical([]byte(s.params[0])); err != nil || string(got) != string(want) {
			t.Errorf("%v\n%s, want\n%s", err, got, want)
		}
		if !strings.Contains(s.params[0], "1.50") || !strings.Contains(s.params[0], "123456789012345678901") {
			t.Error("numbers are not as they were written:", s.params[0])
		}
	}
}
