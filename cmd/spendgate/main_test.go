package main

import (
	"bytes"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"testing"

	"spendgate/hotpath/policy"
)

// fakeNode is a stand-in for a running node: it records requests and sends the
// given answers in order.
type fakeNode struct {
	*httptest.Server
	requests []string // method, path, key and body
	answers  []string // status, a space and the body
}

func newFakeNode(t *testing.T, answers ...string) *fakeNode {
	t.Helper()
	n := &fakeNode{answers: answers}
	n.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		if len(body) > 0 && r.Header.Get("Content-Type") != "application/json" {
			t.Errorf("Content-Type %q", r.Header.Get("Content-Type"))
		}
		if version := r.Header.Get("If-Match"); version != "" {
			body = append(body, " if "+version...)
		}
		n.requests = append(n.requests, strings.Join([]string{
			r.Method, r.URL.RequestURI(), r.Header.Get("X-Admin-Key") + r.Header.Get("X-API-Key"), string(body),
		}, " "))
		if len(n.answers) == 0 {
			t.Errorf("unexpected request %s %s", r.Method, r.URL)
			return
		}
		status, answer, _ := strings.Cut(n.answers[0], " ")
		if status != "502" { // which is asked again
			n.answers = n.answers[1:]
		}
		code, _ := strconv.Atoi(status)
		if code == 429 {
			w.Header().Set("Retry-After", "17")
		}
		if code == 302 {
			w.Header().Set("Location", "/elsewhere")
		}
		w.WriteHeader(code)
		io.WriteString(w, answer) //nolint:errcheck // the client would notice
	}))
	t.Cleanup(n.Close)
	return n
}

// result is the outcome of one run of the program.
type result struct {
	code           int
	stdout, stderr string
}

func (n *fakeNode) run(t *testing.T, stdin string, args ...string) result {
	t.Helper()
	return runWith(t, []string{"SPENDGATE_API_URL=" + n.URL + "/", "SPENDGATE_ADMIN_KEY=admin,old", "SPENDGATE_API_KEY=svc"}, stdin, args...)
}

func runWith(t *testing.T, environ []string, stdin string, args ...string) result {
	t.Helper()
	var stdout, stderr bytes.Buffer
	code := run(t.Context(), process{strings.NewReader(stdin), &stdout, &stderr, environ, false}, args)
	return result{code, stdout.String(), stderr.String()}
}

func (r result) check(t *testing.T, code int, stdout, stderr string) {
	t.Helper()
	if r.code != code || !strings.Contains(r.stdout, stdout) || !strings.Contains(r.stderr, stderr) {
		t.Errorf("exit %d\nstdout: %s\nstderr: %s", r.code, r.stdout, r.stderr)
	}
	if code != 0 && r.stdout != "" {
		t.Errorf("failed and printed %s", r.stdout)
	}
	if code == 0 && r.stderr != "" {
		t.Errorf("succeeded and wrote to stderr %s", r.stderr)
	}
}

func (n *fakeNode) check(t *testing.T, requests ...string) {
	t.Helper()
	if got, want := strings.Join(n.requests, "\n"), strings.Join(requests, "\n"); got != want {
		t.Errorf("requests\n%s\nwant\n%s", got, want)
	}
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
		runWith(t, nil, "", strings.Fields(args)...).check(t, 2, "", "Try: spendgate")
	}
	runWith(t, nil, "", "keys", "update", "x").check(t, 2, "", "Try: spendgate keys update --help")
	// Two names of one flag: neither silently overrides the other.
	runWith(t, nil, "", "checks", "list", "--json", "--output", "table").check(t, 2, "", "--json and --output ")
}

func TestHelp(t *testing.T) {
	var help func(c command, words ...string)
	help = func(c command, words ...string) {
		for _, flag := range []string{"--help", "-h"} {
			runWith(t, nil, "", slices.Concat(words, []string{flag})...).
				check(t, 0, "usage: "+strings.Join(slices.Concat([]string{"spendgate"}, words), " "), "")
		}
		for _, sub := range c.sub {
			help(sub, slices.Concat(words, []string{sub.name})...)
		}
	}
	help(root())
	runWith(t, nil, "", "keys", "update", "--help").check(t, 0, "--rate-limit-rpm N", "")
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
			runWith(t, nil, "", append(strings.Fields(args), "--help")...).check(t, 0, "SPENDGATE_"+setting, "")
		}
	}
}

func TestVersion(t *testing.T) {
	for _, spelling := range []string{"version", "--version", "-v"} {
		runWith(t, nil, "", spelling).check(t, 0, "spendgate dev\ntime zones "+policy.Zones().Release+" (IANA 20", "")
	}
}

func TestHelpOfACommand(t *testing.T) {
	runWith(t, nil, "", "help", "serve").check(t, 0, "usage: spendgate serve [flags]\n", "")
	runWith(t, nil, "", "help", "keys", "update").check(t, 0, "usage: spendgate keys update [flags] KEY_ID\n", "")
	runWith(t, nil, "", "keys", "help", "update").check(t, 0, "usage: spendgate keys update [flags] KEY_ID\n", "")
	runWith(t, nil, "", "help", "nope").check(t, 2, "", `unknown command "nope"`)
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
		runWith(t, nil, "", strings.Fields(args)...).check(t, 2, "", "spendgate: "+want)
	}
}

// An address without a listener is tried with TLS and without, and reported once.
func TestUnreachableDatabaseIsNamedOnce(t *testing.T) {
	r := runWith(t, []string{"SPENDGATE_DATABASE_URL=postgres://u:hush@127.0.0.1:1/db"}, "", "migrate")
	r.check(t, 1, "", "connection refused")
	if strings.Count(r.stderr, "127.0.0.1:1 ") != 1 || strings.Contains(r.stderr, "hush") {
		t.Error(r.stderr)
	}
}

func TestKeysCreate(t *testing.T) {
	answer := `201 {"key_id":"key_1","name":"till","api_key":"svc_live_ab","rate_limit_rpm":250,"created_at":"2026-01-02T03:04:05.000Z"}`
	n := newFakeNode(t, answer, answer)
	n.run(t, "", "keys", "create", "--name", "till", "--rate-limit-rpm", "250").check(t, 0, "API key:     svc_live_ab\n", "")
	n.run(t, "", "keys", "create", "--json", "--name=till").check(t, 0, `"api_key": "svc_live_ab"`, "")
	n.check(t, `POST /v1/keys admin {"name":"till","rate_limit_rpm":250}`, `POST /v1/keys admin {"name":"till"}`)
}

func TestKeysList(t *testing.T) {
	pages := []string{
		`200 {"data":[{"key_id":"key_2","name":"a\u001b[31m","rate_limit_rpm":100,"active":true,"created_at":"2026-01-02T03:04:05.600Z",` +
			`"last_used_at":"2026-01-03T03:04:05.000Z"}],` +
			`"pagination":{"next_cursor":"c&2","has_more":true,"total_count":2}}`,
		`200 {"data":[{"key_id":"key_1","name":"b","rate_limit_rpm":5,"active":false,"created_at":"2026-01-02T03:04:05.000Z",` +
			`"last_used_at":null}],` +
			`"pagination":{"next_cursor":null,"has_more":false,"total_count":2}}`,
	}
	n := newFakeNode(t, append(pages, pages...)...)
	r := n.run(t, "", "keys", "list")
	r.check(t, 0, "KEY ID  NAME         PER MINUTE  STATE     CREATED                   LAST USED\n", "")
	r.check(t, 0, `key_2   "a\x1b[31m"  100         active    2026-01-02T03:04:05.600Z  2026-01-03T03:04:05.000Z`+"\n", "")
	r.check(t, 0, `key_1   b            5           inactive  2026-01-02T03:04:05.000Z  never`+"\n", "")
	n.run(t, "", "keys", "list", "--json").check(t, 0, `"last_used_at": null`, "")
	n.check(t, "GET /v1/keys?limit=100 admin ", "GET /v1/keys?cursor=c%262&limit=100 admin ",
		"GET /v1/keys?limit=100 admin ", "GET /v1/keys?cursor=c%262&limit=100 admin ")

	none := `200 {"data":[],"pagination":{"next_cursor":null,"has_more":false,"total_count":0}}`
	n = newFakeNode(t, none)
	n.run(t, "", "keys", "list", "--json").check(t, 0, "[]\n", "")
}

func TestKeysUpdate(t *testing.T) {
	answer := `200 {"key_id":"key_1","name":"b","rate_limit_rpm":5,"active":false,"created_at":"2026-01-02T03:04:05.000Z"}`
	n := newFakeNode(t, answer, answer, answer)
	n.run(t, "", "keys", "update", "key_1", "--active=false").
		check(t, 0, "key_1   b     5           inactive  2026-01-02T03:04:05.000Z  never\n", "")
	n.run(t, "", "keys", "update", "--name", "b", "key_1", "--rate-limit-rpm", "5").check(t, 0, "inactive", "")
	n.run(t, "", "keys", "update", "a/b?", "--active", "--json").check(t, 0, `"active": false`, "")
	n.check(t, `PATCH /v1/keys/key_1 admin {"active":false}`, `PATCH /v1/keys/key_1 admin {"name":"b","rate_limit_rpm":5}`,
		`PATCH /v1/keys/a%2Fb%3F admin {"active":true}`)
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
		n.run(t, "", "policies", "get", "x").check(t, 1, "", want)
	}
	n := newFakeNode(t)
	n.Close()
	n.run(t, "", "policies", "get", "x").check(t, 1, "", "no answer from the service")
}

// The faults of all settings are reported together, by name and without secrets (S28).
func TestSettings(t *testing.T) {
	for _, command := range []string{"serve", "migrate", "dev"} {
		r := runWith(t, []string{"SPENDGATE_LISTEN_ADDR=nowhere", "SPENDGATE_LISTN_ADDR=:1", "SPENDGATE_DATABASE_URL=mysql://hush@x"}, "",
			command)
		r.check(t, 1, "", "SPENDGATE_LISTEN_ADDR")
		r.check(t, 1, "", "SPENDGATE_LISTN_ADDR")
		if strings.Contains(r.stderr, "hush") {
			t.Error(r.stderr)
		}
	}
}

func TestSettingsOfClients(t *testing.T) {
	runWith(t, nil, "", "keys", "list").check(t, 1, "", "SPENDGATE_ADMIN_KEY is not set")
	runWith(t, nil, "", "policies", "get", "x").check(t, 1, "", "SPENDGATE_API_KEY is not set")
	runWith(t, []string{"SPENDGATE_API_URL=elsewhere"}, "", "keys", "list").check(t, 1, "", "SPENDGATE_API_URL: must be http://")
}

func TestMCPRefusesToStart(t *testing.T) {
	const url = "SPENDGATE_API_URL=http://127.0.0.1:1"
	runWith(t, nil, "", "mcp").check(t, 1, "", "SPENDGATE_API_URL: is required")
	runWith(t, []string{url, "SPENDGATE_API_KEY_FILE=none"}, "", "mcp").check(t, 1, "", "SPENDGATE_API_KEY_FILE: cannot read the file")
	runWith(t, []string{url}, "", "mcp", "--listen", "8081").check(t, 2, "", "--listen must be host:port")
	// A public address requires a token.
	for _, addr := range []string{"0.0.0.0:0", "[::]:0"} {
		r := runWith(t, []string{url, "SPENDGATE_API_KEY=svc"}, "", "mcp", "--listen", addr)
		if r.code != 1 || !strings.Contains(r.stderr, "SPENDGATE_MCP_TOKEN") {
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
	if r.code != 0 || !strings.Contains(r.stdout, "SPENDGATE_API_KEY") || !strings.Contains(r.stderr, "only simulate_actions works") ||
		!strings.Contains(r.stderr, "SPENDGATE_OF_LATER is no setting of this version") {
		t.Errorf("%+v", r)
	}
}
