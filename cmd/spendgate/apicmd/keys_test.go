package apicmd

import "testing"

func TestKeysCreate(t *testing.T) {
	answer := `201 {"key_id":"key_1","name":"till","api_key":"svc_live_ab","rate_limit_rpm":250,"created_at":"2026-01-02T03:04:05.000Z"}`
	n := newFakeNode(t, answer, answer)
	n.Run(t, "", "keys", "create", "--name", "till", "--rate-limit-rpm", "250").Check(t, 0, "API key:     svc_live_ab\n", "")
	n.Run(t, "", "keys", "create", "--json", "--name=till").Check(t, 0, `"api_key": "svc_live_ab"`, "")
	n.Check(t, `POST /v1/keys admin {"name":"till","rate_limit_rpm":250}`, `POST /v1/keys admin {"name":"till"}`)
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
	r := n.Run(t, "", "keys", "list")
	r.Check(t, 0, "KEY ID  NAME         PER MINUTE  STATE     CREATED                   LAST USED\n", "")
	r.Check(t, 0, `key_2   "a\x1b[31m"  100         active    2026-01-02T03:04:05.600Z  2026-01-03T03:04:05.000Z`+"\n", "")
	r.Check(t, 0, `key_1   b            5           inactive  2026-01-02T03:04:05.000Z  never`+"\n", "")
	n.Run(t, "", "keys", "list", "--json").Check(t, 0, `"last_used_at": null`, "")
	n.Check(t, "GET /v1/keys?limit=100 admin ", "GET /v1/keys?cursor=c%262&limit=100 admin ",
		"GET /v1/keys?limit=100 admin ", "GET /v1/keys?cursor=c%262&limit=100 admin ")

	none := `200 {"data":[],"pagination":{"next_cursor":null,"has_more":false,"total_count":0}}`
	n = newFakeNode(t, none)
	n.Run(t, "", "keys", "list", "--json").Check(t, 0, "[]\n", "")
}

func TestKeysUpdate(t *testing.T) {
	answer := `200 {"key_id":"key_1","name":"b","rate_limit_rpm":5,"active":false,"created_at":"2026-01-02T03:04:05.000Z"}`
	n := newFakeNode(t, answer, answer, answer)
	n.Run(t, "", "keys", "update", "key_1", "--active=false").
		Check(t, 0, "key_1   b     5           inactive  2026-01-02T03:04:05.000Z  never\n", "")
	n.Run(t, "", "keys", "update", "--name", "b", "key_1", "--rate-limit-rpm", "5").Check(t, 0, "inactive", "")
	n.Run(t, "", "keys", "update", "a/b?", "--active", "--json").Check(t, 0, `"active": false`, "")
	n.Check(t, `PATCH /v1/keys/key_1 admin {"active":false}`, `PATCH /v1/keys/key_1 admin {"name":"b","rate_limit_rpm":5}`,
		`PATCH /v1/keys/a%2Fb%3F admin {"active":true}`)
}
