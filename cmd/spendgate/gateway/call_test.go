package gateway

import (
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"

	"spendgate/hotpath/client"
	"spendgate/hotpath/wire"
)

// Members that the protocol does not have are refused: a server could take them for the name or the arguments.
func TestCallNames(t *testing.T) {
	for params, want := range map[string]string{
		`{"name":"refund","arguments":{},"_meta":{}}`:  "",
		`{"name":"refund","Arguments":{"amount":9}}`:   "Arguments",
		`{"name":"refund","argument\u017f":{}}`:        "argument\u017f",
		`{"Name":"refund","arguments":{}}`:             "Name",
		`{"name":"refund","arguments":{},"args":{}}`:   "args",
		`{"name":"refund","arguments":{},"_Meta":{}}`:  "_Meta",
		`{"name":"refund","arguments":{},"task":{}}`:   "task",
		`{"name":"refund","arguments":{},"TASK":null}`: "task",
	} {
		o, err := parseObject(jsontext.Value(params))
		if err != nil {
			t.Fatal(err)
		}
		if err := checkNames(o); (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", params, err, want)
		}
	}
}

// If a failure gave nothing back, since its reporter may not release, people have to act, and the call
// does not go on. The same holds for an outcome that this gateway does not know.
func TestNotGivenBack(t *testing.T) {
	f, p, g, s := afterFailure(t, "")
	f.with(func() { f.checks[0].release = "pending" })
	wants(t, s, "ch_1", 1, stateError, "outcomes:release")
	f.with(func() { f.checks[0].outcome, f.checks[0].release = "reversed", "done" })
	wants(t, s, "ch_1", 1, stateError, "does not understand")
	f.with(func() { f.checks[0].outcome = outcomeFailed })
	wants(t, agentOf(t, g), "ch_1", 1, stateExecuted, "paid")
	if got := p.paid(); len(got) != 2 { // the first was called failed
		t.Error(got)
	}
}

// A failure that gave nothing back keeps the payment from being made under another check.
func TestOnceNotGivenBack(t *testing.T) {
	f, p := newFakeService(t), newProvider(t)
	p.behave = func(n int) (bool, error) { return n > 1, nil }
	const more = onceMore + "        on_error: failed\n"
	wants(t, as(t, f, p, "a", "k", more), "ch_1", 1, stateError, "")
	f.with(func() { f.checks[0].release = "pending" })
	wants(t, as(t, f, p, "b", "k", more), "ch_1", 1, stateError, "outcomes:release")
	if got := p.paid(); got != nil {
		t.Error(got)
	}
}

// A server that does not know the argument that makes repetitions safe is not called.
func TestUnknownKeyArgument(t *testing.T) {
	s, p := newPlain(t)
	s.tools[0] = `{"name": "refund", "inputSchema": {"properties": {"charge": {}, "amount": {}}}}`
	wants(t, agentOf(t, guarded(t, newFakeService(t), p, "", keyMore)), "ch_1", 1, stateError, "idempotency_argument")
	if s.paid != 0 {
		t.Error("it was called")
	}
}

// What the service decided is not for the server to say.
func TestFeigned(t *testing.T) {
	r := result{state: stateError, server: jsontext.Value(`{"_meta":{"spendgate/check_id":"mine","spendgate/state":"executed","theirs":1}}`)}
	if got := string(r.encode()); got != `{"_meta":{"theirs":1,"spendgate/state":"error"}}` {
		t.Error(got)
	}
}

func TestDifferences(t *testing.T) {
	was := wire.RecordedAction{Currency: "USD", Counterparty: "a", Metadata: []byte(`{"x":1.0,"y":2}`)}
	is := client.Action{Currency: "USD", Counterparty: "b", Metadata: map[string]any{"x": jsontext.Value("1"), "z": jsontext.Value("1")}}
	if got := differences(was, is); got != "counterparty was a and is b, metadata.y, metadata.z" {
		t.Error(got)
	}
}

// A model is not told to call again where that changes nothing, and a call in another currency than the file's is not made.
func TestRefusedForGood(t *testing.T) {
	s, p := newPlain(t)
	f := newFakeService(t)
	agent := rawOver(t, guarded(t, f, p, "", ""))["HTTP"]
	f.missing = "none"
	for arguments, want := range map[string]string{
		`{"charge":"c","amount":1,"currency":"EUR"}`: "the currency USD",
		`{"charge":"none","amount":1}`:               "policy_not_found",
	} {
		answer := agent.ask(`{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"refund","arguments":` + arguments + `}}`)
		if !strings.Contains(answer, want) || !strings.Contains(answer, `"spendgate/state":"error"`) || strings.Contains(answer, "again later") {
			t.Errorf("%s: %s", arguments, answer)
		}
	}
	if s.paid != 0 || len(f.checks) != 0 {
		t.Errorf("%d payments, %d checks", s.paid, len(f.checks))
	}
}

// An error says nothing about what an earlier call carried out.
func TestErrorBehindDoubt(t *testing.T) {
	s, p := newPlain(t)
	f := newFakeService(t)
	agent := agentOf(t, guarded(t, f, p, "", ""))
	s.with(func() { s.status = hangsUp })
	wants(t, agent, "ch_1", 1, stateInDoubt, "")
	f.with(func() { f.broken = func(string) (bool, bool) { return true, false } })
	wants(t, agent, "ch_1", 1, stateError, "nothing was carried out by this call")
}
