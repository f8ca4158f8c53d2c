package apicmd

import (
	"strings"
	"testing"
)

const (
	grantArgs = "--role agent --policy-id p --policy-id q --agent-id a,b --principal till --owner shop --group support --group finance " +
		"--expires-at 2999-01-31T12:00:00+01:00"
	grantMembers = `"role":"agent","policy_ids":["p","q"],"agent_ids":["a,b"],"principal":"till","owner":"shop","groups":["support",` +
		`"finance"],"expires_at":"2999-01-31T11:00:00.000Z"`
)

func TestKeysCreateNarrow(t *testing.T) {
	const answer = `201 {"key_id":"key_1","name":"till","api_key":"svc_live_ab","rate_limit_rpm":100,"created_at":"2026-01-02T03:04:05.000Z",`
	n := newFakeNode(t, answer+grantMembers+"}", answer+`"scopes":["checks:read","events:read"]}`)
	n.Run(t, "", append(strings.Fields("keys create --name till"), strings.Fields(grantArgs)...)...).Check(t, 0, `key id:      key_1
name:        till
rate limit:  100 a minute
role:        agent
policies:    p,q
agents:      a,b
principal:   till
owner:       shop
groups:      support,finance
expires:     2999-01-31T11:00:00.000Z
API key:     svc_live_ab
`, "")
	n.Run(t, "", strings.Fields("keys create --name till --scope checks:read --scope events:read --json")...).
		Check(t, 0, `"scopes": [`, "")
	n.Check(t, `POST /v1/keys admin {"name":"till",`+grantMembers+`}`,
		`POST /v1/keys admin {"name":"till","scopes":["checks:read","events:read"]}`)
}

// An agent has a principal, so that its approvals outlive its key.
func TestKeysCreateAgent(t *testing.T) {
	const answer = `201 {"key_id":"key_1","name":"till","api_key":"svc_live_ab","rate_limit_rpm":100,"created_at":"2026-01-02T03:04:05.000Z"}`
	n := newFakeNode(t, answer, answer, answer, answer)
	for _, args := range []string{
		"--role agent", "--role agent --owner shop", "--role agent --owner shop --principal p", "--role author --owner shop",
	} {
		n.Run(t, "", strings.Fields("keys create --name till "+args)...).Check(t, 0, "key_1", "")
	}
	n.Check(t, `POST /v1/keys admin {"name":"till","role":"agent","principal":"till"}`,
		`POST /v1/keys admin {"name":"till","role":"agent","principal":"shop","owner":"shop"}`,
		`POST /v1/keys admin {"name":"till","role":"agent","principal":"p","owner":"shop"}`,
		`POST /v1/keys admin {"name":"till","role":"author","owner":"shop"}`)
}

// Who decides is a person, whose keys have one name: by it they are told from who asks, and counted once.
func TestKeysCreateApprover(t *testing.T) {
	const answer = `201 {"key_id":"key_1","name":"till","api_key":"svc_live_ab","rate_limit_rpm":100,"created_at":"2026-01-02T03:04:05.000Z"}`
	n := newFakeNode(t, answer, answer)
	for _, args := range []string{"--role approver", "--role approver --owner ann", "--scope checks:read --scope approvals:decide"} {
		n.Run(t, "", strings.Fields("keys create --name till "+args)...).Check(t, 2, "", "needs --principal NAME")
	}
	for _, args := range []string{"--role approver --principal ann", "--role nobody"} {
		n.Run(t, "", strings.Fields("keys create --name till "+args)...).Check(t, 0, "key_1", "")
	}
	n.Check(t, `POST /v1/keys admin {"name":"till","role":"approver","principal":"ann"}`,
		`POST /v1/keys admin {"name":"till","role":"nobody"}`)
}

func TestKeysListNarrow(t *testing.T) {
	key := func(members string) string {
		return `{"key_id":"key_1","name":"n","rate_limit_rpm":5,"active":true,"created_at":"2026-01-02T03:04:05.000Z","last_used_at":null` +
			members + `}`
	}
	n := newFakeNode(t, `200 {"data":[`+strings.Join([]string{
		key("," + grantMembers), key(""), key(`,"scopes":["checks:read","events:read"],"expires_at":"2026-01-31T12:00:00.000Z"`),
		key(`,"policy_ids":["a","b","c","d","e","f"],"owner":"\u001b[2J"`),
	}, ",")+`],"pagination":{"next_cursor":null,"has_more":false,"total_count":4}}`)
	got := strings.Split(n.Run(t, "", "keys", "list").Stdout, "\n")
	for i, want := range []string{
		"LAST USED  ROLE                     POLICIES            AGENTS  PRINCIPAL  OWNER      GROUPS           EXPIRES",
		"agent                    p,q                 a,b     till       shop       support,finance  2999-01-31T11:00:00.000Z",
		"full                     any                 any     -          -          -                never",
		"checks:read,events:read  any                 any     -          -          -                2026-01-31T12:00:00.000Z",
		`full                     a,b,c,d and 2 more  any     -          "\x1b[2J"  -                never`,
	} {
		if !strings.HasSuffix(got[i], want) {
			t.Errorf("%q; want %q", got[i], want)
		}
	}
	if !strings.Contains(got[3], " expired ") {
		t.Errorf("it does not show as expired: %s", got[3])
	}
}

func TestKeysUpdateGrants(t *testing.T) {
	const answer = `200 {"key_id":"key_1","name":"b","rate_limit_rpm":5,"active":true,"created_at":"2026-01-02T03:04:05.000Z","role":"author"}`
	n := newFakeNode(t, answer, answer)
	n.Run(t, "", strings.Fields("keys update key_1 --role author --clear owner --clear expires_at")...).Check(t, 0, "author", "")
	n.Run(t, "", strings.Fields("keys update key_1 --clear policy_ids")...).Check(t, 0, "author", "")
	n.Check(t, `PATCH /v1/keys/key_1 admin {"role":"author","expires_at":null,"owner":null}`, `PATCH /v1/keys/key_1 admin {"policy_ids":null}`)
}

// A deactivation says what it stopped (S87).
func TestKeysUpdateStops(t *testing.T) {
	answer := func(stopped string) string {
		return `200 {"key_id":"key_1","name":"b","rate_limit_rpm":5,"active":false,"created_at":"2026-01-02T03:04:05.000Z",` +
			`"stopped":` + stopped + `}`
	}
	n := newFakeNode(t, answer(`{"checks":3,"voided":2}`), answer(`{"checks":null,"voided":2}`), answer(`{"checks":0,"voided":0}`))
	n.Run(t, "", strings.Fields("keys update key_1 --active=false")...).Check(t, 0, "stopped 3 checks that nobody redeemed; 2 of them", "")
	n.Run(t, "", strings.Fields("keys update key_1 --active=false")...).Check(t, 0, "too much to count", "")
	n.Run(t, "", strings.Fields("keys update key_1 --active=false --keep-open")...).Check(t, 0, "stopped 0 checks", "")
	n.Check(t, `PATCH /v1/keys/key_1 admin {"active":false}`, `PATCH /v1/keys/key_1 admin {"active":false}`,
		`PATCH /v1/keys/key_1 admin {"active":false,"keep_open":true}`)
}

// An empty value, such as of a variable that a script never set, makes no key
// that may do more, and nothing is sent.
func TestKeysGrantsMustBeSaid(t *testing.T) {
	n := newFakeNode(t)
	for _, name := range []string{"role", "scope", "policy-id", "agent-id", "principal", "owner", "group", "expires-at"} {
		n.Run(t, "", "keys", "create", "--name", "x", "--"+name, "").Check(t, 2, "", "--"+name+` cannot be "": must `)
		n.Run(t, "", "keys", "update", "key_1", "--"+name, "").Check(t, 2, "", "--"+name+` cannot be "": must `)
	}
	n.Run(t, "", "keys", "update", "key_1", "--clear", "role").Check(t, 2, "", "--clear cannot be \"role\": must be one of policy_ids, ")
	n.Run(t, "", "keys", "create", "--name", "x", "--expires-at", "2030-01-31").Check(t, 2, "", "must be an RFC 3339 time")
	n.Check(t)
}
