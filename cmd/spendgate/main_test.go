package main

import (
	"slices"
	"strings"
	"testing"

	"spendgate/cmd/spendgate/cli"
	"spendgate/cmd/spendgate/cli/clitest"
	"spendgate/hotpath/policy"
)

func newFakeNode(t *testing.T, answers ...string) *clitest.Node {
	t.Helper()
	return clitest.NewNode(t, root(), answers...)
}

func runWith(t *testing.T, environ []string, stdin string, args ...string) clitest.Result {
	t.Helper()
	return clitest.Run(t, root(), environ, stdin, args...)
}

func TestUsage(t *testing.T) {
	for _, args := range []string{
		"", "nope", "keys", "keys nope", "keys create", "keys create --name", "keys create --name x y", "keys create --limit 3",
		"keys create --name x --rate-limit-rpm many", "keys list x", "keys update", "keys update key_1", "keys update --active",
		"keys update key_1 --active false", "policies apply", "policies apply -f a b", "policies get", "policies get a b",
		"policies get a --version 0", "policies diff", "policies diff -f a b", "policies list a", "policies lint", "policies lint -f a b",
		"policies test -f a",
		"policies test a", "policies test -f - -", "mcp now", "mcp --listen", "approvals list x", "approvals show", "approvals approve a b",
		"approvals deny",
		"audit", "audit show", "audit show chk_1", "audit show a b", "audit detach", "audit detach --before 2026-01-01",
		"audit detach --before x --archive .",
		"audit detach --before 2026-01-01 --archive . x", "audit restored x", "version x", "serve now", "dev --help-me", "migrate up", "probe x",
		"probe --every 10ms",
	} {
		runWith(t, nil, "", strings.Fields(args)...).Check(t, 2, "", "Try: spendgate")
	}
	runWith(t, nil, "", "keys", "update", "x").Check(t, 2, "", "Try: spendgate keys update --help")
	// Two names of one flag: neither silently overrides the other.
	runWith(t, nil, "", "checks", "list", "--json", "--output", "table").Check(t, 2, "", "--json and --output ")
}

func TestHelp(t *testing.T) {
	var help func(c cli.Command, words ...string)
	help = func(c cli.Command, words ...string) {
		for _, flag := range []string{"--help", "-h"} {
			runWith(t, nil, "", slices.Concat(words, []string{flag})...).
				Check(t, 0, "usage: "+strings.Join(slices.Concat([]string{"spendgate"}, words), " "), "")
		}
		for _, sub := range c.Sub {
			help(sub, slices.Concat(words, []string{sub.Name})...)
		}
	}
	help(root())
	runWith(t, nil, "", "keys", "update", "--help").Check(t, 0, "--rate-limit-rpm N", "")
}

// The help of a command names the settings without which it does not work.
func TestHelpNamesWhatIsRequired(t *testing.T) {
	for args, settings := range map[string]string{
		"serve": "REDIS_URL DATABASE_URL", "healthcheck": "OPS_ADDR", "migrate": "DATABASE_URL", "mcp": "API_URL API_KEY",
		"probe":       "API_URL API_KEY",
		"keys create": "ADMIN_KEY API_URL", "keys list": "ADMIN_KEY API_URL", "keys update": "ADMIN_KEY API_URL",
		"policies apply": "API_KEY API_URL", "policies get": "API_KEY API_URL", "policies diff": "API_KEY API_URL",
		"policies list":  "API_KEY API_URL",
		"approvals list": "API_KEY API_URL", "approvals show": "API_KEY API_URL", "approvals approve": "API_KEY API_URL",
		"approvals deny": "API_KEY API_URL", "audit verify": "DATABASE_URL", "audit checkpoint": "DATABASE_URL CHECKPOINT_KEY CHECKPOINT_FILE",
		"audit show": "DATABASE_URL", "audit detach": "DATABASE_URL", "audit restored": "DATABASE_URL",
	} {
		for setting := range strings.FieldsSeq(settings) {
			runWith(t, nil, "", append(strings.Fields(args), "--help")...).Check(t, 0, "SPENDGATE_"+setting, "")
		}
	}
}

func TestVersion(t *testing.T) {
	for _, spelling := range []string{"version", "--version", "-v"} {
		runWith(t, nil, "", spelling).Check(t, 0, "spendgate dev\ntime zones "+policy.Zones().Release+" (IANA 20", "")
	}
}

func TestHelpOfACommand(t *testing.T) {
	runWith(t, nil, "", "help", "serve").Check(t, 0, "usage: spendgate serve [flags]\n", "")
	runWith(t, nil, "", "help", "keys", "update").Check(t, 0, "usage: spendgate keys update [flags] KEY_ID\n", "")
	runWith(t, nil, "", "keys", "help", "update").Check(t, 0, "usage: spendgate keys update [flags] KEY_ID\n", "")
	runWith(t, nil, "", "help", "nope").Check(t, 2, "", `unknown command "nope"`)
}

func TestWrongFlagsAreNamedAsTheHelpNamesThem(t *testing.T) {
	for args, want := range map[string]string{
		"serve --port 80":                           "there is no flag --port\n",
		"policies apply -g x":                       "there is no flag -g\n",
		"keys create --name":                        "--name needs a value\n",
		"policies apply -f":                         "-f needs a value\n",
		"keys create --name x --rate-limit-rpm a:b": `--rate-limit-rpm cannot be "a:b"` + "\n",
		"keys update x --active=nope":               `--active cannot be "nope"` + "\n",
		"keys update x --active false":              "--active takes its value after a sign: --active=false\n",
		"audit verify --from yesterday":             `--from cannot be "yesterday": must be a date`,
	} {
		runWith(t, nil, "", strings.Fields(args)...).Check(t, 2, "", "spendgate: "+want)
	}
}

// An address without a listener is tried with TLS and without, and reported once.
func TestUnreachableDatabaseIsNamedOnce(t *testing.T) {
	r := runWith(t, []string{"SPENDGATE_DATABASE_URL=postgres://u:hush@127.0.0.1:1/db"}, "", "migrate")
	r.Check(t, 1, "", "connection refused")
	if strings.Count(r.Stderr, "127.0.0.1:1 ") != 1 || strings.Contains(r.Stderr, "hush") {
		t.Error(r.Stderr)
	}
}

func TestAnswersThatAreNone(t *testing.T) {
	for answer, want := range map[string]string{
		`404 {"error":{"code":"policy_not_found","message":"no \u001b[2J","request_id":"req_1"}}`: `policy_not_found: "no \x1b[2J" (404, req_1)`,
		`429 {"error":{"code":"rate_limit_exceeded","message":"too many","request_id":"req_1"}}`:  "try again after 17 s",
		"502 <html>": "502 Bad Gateway: the answer is not spendgate's",
		"302 ":       "302 Found: the answer is not spendgate's",
		"200 <html>": "cannot be understood",
	} {
		n := newFakeNode(t, answer)
		n.Run(t, "", "policies", "get", "x").Check(t, 1, "", want)
	}
	n := newFakeNode(t)
	n.Close()
	n.Run(t, "", "policies", "get", "x").Check(t, 1, "", "no answer from the service")
}

// The faults of all settings are reported together, by name and without secrets (S28).
func TestSettings(t *testing.T) {
	for _, command := range []string{"serve", "migrate", "dev"} {
		r := runWith(t, []string{"SPENDGATE_LISTEN_ADDR=nowhere", "SPENDGATE_LISTN_ADDR=:1", "SPENDGATE_DATABASE_URL=mysql://hush@x"}, "",
			command)
		r.Check(t, 1, "", "SPENDGATE_LISTEN_ADDR")
		r.Check(t, 1, "", "SPENDGATE_LISTN_ADDR")
		if strings.Contains(r.Stderr, "hush") {
			t.Error(r.Stderr)
		}
	}
}

func TestSettingsOfClients(t *testing.T) {
	runWith(t, nil, "", "keys", "list").Check(t, 1, "", "SPENDGATE_ADMIN_KEY is not set")
	runWith(t, nil, "", "policies", "get", "x").Check(t, 1, "", "SPENDGATE_API_KEY is not set")
	runWith(t, []string{"SPENDGATE_API_URL=elsewhere"}, "", "keys", "list").Check(t, 1, "", "SPENDGATE_API_URL: must be http://")
}

func TestMCPRefusesToStart(t *testing.T) {
	const url = "SPENDGATE_API_URL=http://127.0.0.1:1"
	runWith(t, nil, "", "mcp").Check(t, 1, "", "SPENDGATE_API_URL: is required")
	runWith(t, []string{url, "SPENDGATE_API_KEY_FILE=none"}, "", "mcp").Check(t, 1, "", "SPENDGATE_API_KEY_FILE: cannot read the file")
	runWith(t, []string{url}, "", "mcp", "--listen", "8081").Check(t, 2, "", "--listen must be host:port")
	// A public address requires a token.
	for _, addr := range []string{"0.0.0.0:0", "[::]:0"} {
		r := runWith(t, []string{url, "SPENDGATE_API_KEY=svc"}, "", "mcp", "--listen", addr)
		if r.Code != 1 || !strings.Contains(r.Stderr, "SPENDGATE_MCP_TOKEN") {
			t.Errorf("%s: %+v", addr, r)
		}
	}
}

func TestMCPOverStandardStreams(t *testing.T) {
	const list = `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18",` +
		`"capabilities":{},"clientInfo":{"name":"x","version":"1"}}}
{"jsonrpc":"2.0","method":"notifications/initialized"}
{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"check_financial_action","arguments":{}}}
`
	n := newFakeNode(t)
	r := runWith(t, []string{"SPENDGATE_API_URL=" + n.URL, "SPENDGATE_IGNORE_UNKNOWN_SETTINGS=1", "SPENDGATE_OF_LATER=x"}, list, "mcp")
	if r.Code != 0 || !strings.Contains(r.Stdout, "SPENDGATE_API_KEY") || !strings.Contains(r.Stderr, "only simulate_actions works") ||
		!strings.Contains(r.Stderr, "SPENDGATE_OF_LATER is no setting of this version") {
		t.Errorf("%+v", r)
	}
}
