package httpapi

import (
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"spendgate/audit"
	"spendgate/audit/spend"
	"spendgate/hotpath"
)

// TestDecodeGrants reads bodies of POST and PATCH that say what a key may do (S29).
func TestDecodeGrants(t *testing.T) {
	at := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	b := keyBounds{defaultMaxRateLimit, at}
	var k hotpath.NewKey
	var c audit.KeyChange
	create := func(r *reader) { k = hotpath.NewKey{}; decodeNewKey(r, &k, b) }
	change := func(r *reader) { c = audit.KeyChange{}; decodeKeyChange(r, &c, b) }
	// Both refuse the members alike.
	refused := func(members, want string) {
		t.Helper()
		for body, decode := range map[string]func(*reader){`{"name":"n",` + members + `}`: create, `{` + members + `}`: change} {
			got := ""
			if err := readObject([]byte(body), decode); err != nil {
				got = err.Error()
			}
			if got != want {
				t.Errorf("%s\n got %s\nwant %s", body, got, want)
			}
		}
	}
	ids := func(n int) string {
		all := make([]string, n)
		for i := range all {
			all[i] = strconv.Quote("p" + strconv.Itoa(i))
		}
		return "[" + strings.Join(all, ",") + "]"
	}
	for _, name := range []string{"policy_ids", "agent_ids"} {
		refused(`"`+name+`":`+ids(100), "")
		refused(`"`+name+`":`+ids(101), name+" must have 1-100 entries")
		refused(`"`+name+`":[]`, name+" must have 1-100 entries")
		refused(`"`+name+`":["a","b","a"]`, name+"[2] is there twice")
		refused(`"`+name+`":"a"`, name+" must be a list of strings")
		refused(`"`+name+`":["a",1,null,{"x":[]}]`, name+"[1] must be a string; "+name+"[2] must be a string; "+name+"[3] must be a string")
	}
	refused(`"policy_ids":["a b"]`, "policy_ids[0] "+spend.PolicyIDForm)
	refused(`"agent_ids":[" ","`+strings.Repeat("é", 257)+`","`+strings.Repeat("é", 256)+`"]`,
		"agent_ids[0] must be 1-256 characters that are not all white space; agent_ids[1] must be 1-256 characters that are not all white space")
	for _, name := range []string{"principal", "owner"} {
		refused(`"`+name+`":"`+strings.Repeat("é", 128)+`"`, "")
		for _, value := range []string{`""`, `" "`, `"` + strings.Repeat("é", 129) + `"`} {
			refused(`"`+name+`":`+value, name+" "+spend.NameForm)
		}
		refused(`"`+name+`":7`, name+" must be a string")
	}
	refused(`"groups":`+ids(20), "")
	refused(`"groups":`+ids(21), "groups must have 1-20 entries")
	refused(`"groups":[]`, "groups must have 1-20 entries")
	refused(`"groups":[1]`, "groups[0] must be a string")
	refused(`"groups":"a"`, "groups must be a list of strings")
	refused(`"groups":["Straße","a","STRASSE","A","a"]`,
		"groups[2] is there twice; groups[3] is there twice; groups[4] is there twice")
	refused(`"principal":"Ann\ufe0f","owner":"\u0301Ann"`, "principal "+spend.NameForm+"; owner "+spend.NameForm)
	refused(`"groups":["a"," b","\u200b","\uff41",""]`, "groups[1] "+spend.NameForm+"; groups[2] "+spend.NameForm+"; groups[3] "+
		spend.NameForm+"; groups[4] "+spend.NameForm)
	refused(`"expires_at":"2026-03-01T13:00:00.0005+01:00"`, "expires_at must be an RFC 3339 time in the future: 2030-01-31T12:00:00Z")
	for _, value := range []string{
		"", "2026-03-01T12:00:00Z", "2026-03-01T11:59:59Z", "2027-03-01", "2027-03-01T12:00:00", "20000-03-01T12:00:00Z",
	} {
		refused(`"expires_at":"`+value+`"`, "expires_at must be an RFC 3339 time in the future: 2030-01-31T12:00:00Z")
	}
	refused(`"expires_at":"2026-03-01T12:00:00.001Z"`, "")
	refused(`"role":"admin"`, "role "+spend.RoleForm)
	refused(`"role":""`, "role "+spend.RoleForm)
	refused(`"role":1`, "role must be a string")
	refused(`"scopes":["checks:read","checks:reed"]`, "scopes[1] "+spend.ScopeForm())
	refused(`"scopes":["checks:read","checks:read"]`, "scopes[1] is there twice")
	refused(`"scopes":[]`, "scopes must have 1-100 entries")
	refused(`"role":"full","scopes":["checks:read"]`, "scopes and role exclude each other")
	refused(`"scopes":["checks:read"],"role":"full"`, "scopes and role exclude each other")
	for _, with := range []string{"approvals:decide", "outcomes:release", "policies:write"} {
		refused(`"scopes":["checks:write","`+with+`"]`, "scopes must not have checks:write together with "+with)
	}
	refused(`"scopes":["checks:write","events:read"]`, "")
	refused(`"rolle":null`, "rolle is not a known field")

	if err := readObject([]byte(`{"name":"n","role":null,"scopes":null,"policy_ids":null,"principal":null,"expires_at":null}`),
		create); err != nil || !reflect.DeepEqual(k.Grants, spend.Grants{}) {
		t.Errorf("null when a key is created: %+v, %v", k, err)
	}
	for body, want := range map[string]struct {
		named   string
		problem string
	}{
		`{"role":"agent"}`:                                {"role scopes", ""},
		`{"scopes":["checks:read"]}`:                      {"scopes role", ""},
		`{"scopes":["checks:read"],"role":null}`:          {"scopes role", ""},
		`{"role":"agent","scopes":null}`:                  {"role scopes", ""},
		`{"policy_ids":null,"owner":null,"active":false}`: {"policy_ids owner", ""},
		`{"groups":["a"]}`:                                {"groups", ""},
		`{"groups":null}`:                                 {"groups", ""},
		`{"role":null}`:                                   {"", "role must not be null without scopes in the same request"},
		`{"scopes":null}`:                                 {"", "scopes must not be null without role in the same request"},
		`{"scopes":null,"role":null}`: {
			"", "scopes must not be null without role in the same request; role must not be null without scopes in the same request",
		},
	} {
		problem := ""
		if err := readObject([]byte(body), change); err != nil {
			problem = err.Error()
		}
		if problem != want.problem || problem == "" && !slices.Equal(c.Grants.Named, strings.Fields(want.named)) {
			t.Errorf("%s: named %v, %q", body, c.Grants.Named, problem)
		}
	}
}
