package policyfile

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"spendgate/bench/must"
)

func bodies(t *testing.T, content string) []string {
	t.Helper()
	policies, err := Read("-", strings.NewReader(content))
	if err != nil {
		t.Fatalf("%v in\n%s", err, content)
	}
	var all []string
	for _, p := range policies {
		if !json.Valid(p.Body) {
			t.Errorf("not JSON: %s", p.Body)
		}
		all = append(all, string(p.Body))
	}
	return all
}

func TestScalars(t *testing.T) {
	tests := map[string]string{
		// Numbers keep their digits.
		"0.1": "0.1", "500.00": "500.00", "500": "500", "-1": "-1", "1e3": "1e3", "1E+3": "1E+3", "0": "0",
		"123456789012345678.123456789":   "123456789012345678.123456789",
		"99999999999999999999999999":     "99999999999999999999999999",
		"1e999":                          "1e999",
		"0.1000000000000000055511151231": "0.1000000000000000055511151231",
		// Text stays text.
		"NO": `"NO"`, "no": `"no"`, "yes": `"yes"`, "on": `"on"`, "off": `"off"`, "y": `"y"`, "N": `"N"`,
		"22:00": `"22:00"`, "09:00-17:30": `"09:00-17:30"`, "22:00-06:00": `"22:00-06:00"`, "1:30:00": `"1:30:00"`,
		"2026-01-02": `"2026-01-02"`, "2026-01-02T03:04:05Z": `"2026-01-02T03:04:05Z"`, "1.2.3": `"1.2.3"`,
		`"500"`: `"500"`, `'0.1'`: `"0.1"`, `"true"`: `"true"`, `'null'`: `"null"`, `"010"`: `"010"`, `'~'`: `"~"`,
		"!!str 5": `"5"`, "!!str true": `"true"`,
		"a < b & c": `"a < b & c"`, `"tab\tquote\""`: `"tab\tquote\""`, "émigré": `"émigré"`, `"\u2028"`: `"\u2028"`,
		"|-\n  two\n  lines": `"two\nlines"`, ">-\n  two\n  lines": `"two lines"`,
		// The rest.
		"true": "true", "False": "false", "TRUE": "true", "null": "null", "~": "null", "": "null", "Null": "null",
		"[]": "[]", "{}": "{}", "[1, NO, [x]]": `[1,"NO",["x"]]`, "{a: 1, b: {c: 2.50}}": `{"a":1,"b":{"c":2.50}}`,
		"{1: x}": "error", "{true: x}": "error", "{~: x}": "error", "{1.5: x}": "error", `{"1": x}`: `{"1":"x"}`,
		"{no: x, on: y}": `{"no":"x","on":"y"}`, "{2026-01-02: x}": `{"2026-01-02":"x"}`, "{[a]: x}": "error", "{{a: b}: x}": "error",
		// Numbers of YAML that are no numbers in JSON.
		"1_000": "error", "0x1F": "error", "0o17": "error", "017": "error", "0b1": "error", ".5": "error", "5.": "error", "+5": "error",
		".inf": "error", "-.Inf": "error", ".nan": "error",
		"!!int 5": "error", "!!float 5": "error", "!!binary aGk=": "error", "!custom 5": "error", "!!set {a}": "error",
		"{a: 1, a: 2}": "error", `{a: 1, "a": 2}`: "error", "{a: {b: 1, b: 1}}": "error",
	}
	for given, want := range tests {
		policies, err := Read("-", strings.NewReader("v: "+given+"\n"))
		switch {
		case want == "error":
			if err == nil || !strings.Contains(err.Error(), "line 1") {
				t.Errorf("%q: %v %v", given, err, policies)
			}
		case err != nil:
			t.Errorf("%q: %v", given, err)
		default:
			if got := string(policies[0].Body); got != `{"v":`+want+`}` {
				t.Errorf("%q: %s", given, got)
			}
		}
	}
}

func TestPolicy(t *testing.T) {
	got := bodies(t, `
# what agents may refund
policy_id: refund-desk
name: Refund desk
rules:
  - rule_id: cap
    rule_type: max_amount
    parameters: {limit: 500.00, currency: USD}
  - rule_id: hours
    rule_type: time_restriction
    parameters:
      allowed_days: [mon, tue]
      allowed_hours_utc: 22:00-06:00
  - rule_id: where
    rule_type: geography_block
    parameters:
      blocked_countries: [NO, KP]
`)
	want := `{"policy_id":"refund-desk","name":"Refund desk","rules":[` +
		`{"rule_id":"cap","rule_type":"max_amount","parameters":{"limit":500.00,"currency":"USD"}},` +
		`{"rule_id":"hours","rule_type":"time_restriction","parameters":{"allowed_days":["mon","tue"],"allowed_hours_utc":"22:00-06:00"}},` +
		`{"rule_id":"where","rule_type":"geography_block","parameters":{"blocked_countries":["NO","KP"]}}]}`
	if len(got) != 1 || got[0] != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

func TestSeveralPolicies(t *testing.T) {
	for content, want := range map[string]string{
		"# comment\n---\na: 1\n---\n# nothing\n---\nb: 2\n": `{"a":1} {"b":2}`,
		"- a: 1\n- b: 2\n":                     `{"a":1} {"b":2}`,
		`[{"a": 1},{"b": 2.0}]`:                `{"a": 1} {"b": 2.0}`,
		` {"a": 1, "b": "}"} `:                 `{"a": 1, "b": "}"}`,
		"x: &x [1, 2]\ny: *x\nz: {deep: *x}\n": `{"x":[1,2],"y":[1,2],"z":{"deep":[1,2]}}`,
	} {
		if got := strings.Join(bodies(t, content), " "); got != want {
			t.Errorf("%q: %s", content, got)
		}
	}
	policies, err := Read("-", strings.NewReader("a: 1\n---\nb: 2"))
	if err != nil || policies[1].Source != "standard input (policy 2)" {
		t.Errorf("%v %v", policies, err)
	}
}

func TestFaults(t *testing.T) {
	for content, want := range map[string]string{
		"":                            "there is nothing",
		"# only\n---\n# comments":     "there is nothing",
		"[]":                          "there is nothing",
		"just text":                   "line 1: a policy must be a mapping",
		"- a: 1\n- text":              "line 2: a policy must be a mapping",
		"{\"a\": 1,\n}":               "line 1: not JSON: invalid character ','",
		"[{\"a\": 1},\n 2]":           "line 2: a policy must be a mapping",
		"{\"a\": 1,\n\"a\": 2}":       `line 2: the key "a" is given twice`,
		"{\"a\": 1}\n{}":              "line 2: not JSON",
		"a: 1\na: .5\nb: .5":          "twice\nstandard input: line 3: .5 is a number",
		"{a: 1}":                      "not JSON",
		"a: 1\nb:\n  c: 1\n  c: 2":    `line 4: the key "c" is given twice`,
		"a: 1\n b: 2":                 "line 2",
		"a:\n  - b: 1\n   c: 2":       "line 1: did not find expected '-' indicator, at this line or in what begins with it",
		"a: [1,":                      "line",
		"x: &x {a: 1}\ny: {<<: *x}":   "line 2: merge keys",
		"a: \"\x01\"":                 "control characters",
		"a: *nobody":                  "unknown anchor",
		"a: &a [*a]":                  "",
		"a: \xff":                     "UTF-8",
		"a: " + nested(100):           "more than 64 levels",
		"a: 1\nlimit: 1_000 # dollar": "line 2: 1_000 is a number in YAML but not in JSON",
	} {
		_, err := Read("-", strings.NewReader(content))
		if err == nil || !strings.HasPrefix(err.Error(), "standard input: ") || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v", content, err)
		}
	}
}

func nested(levels int) string { return strings.Repeat("[", levels) + strings.Repeat("]", levels) }

// Without a bound a kilobyte of aliases of aliases would become gigabytes of JSON.
func TestAliasesAreBounded(t *testing.T) {
	var b strings.Builder
	b.WriteString("a0: &a0 [x,x,x,x,x,x,x,x,x,x]\n")
	for i := range 12 {
		line := "aN: &aN [*aP,*aP,*aP,*aP,*aP,*aP,*aP,*aP,*aP,*aP]\n"
		line = strings.ReplaceAll(line, "aN", "a"+string(rune('b'+i)))
		previous := "a" + string(rune('a'+i))
		if i == 0 {
			previous = "a0"
		}
		b.WriteString(strings.ReplaceAll(line, "aP", previous))
	}
	if _, err := Read("-", strings.NewReader(b.String())); err == nil || !strings.Contains(err.Error(), "longer than the 1 MiB") {
		t.Error(err)
	}
}

func TestFolder(t *testing.T) {
	dir := t.TempDir()
	for name, content := range map[string]string{
		"b.yaml": "name: b", "a.json": `{"name": "a"}`, "c.yml": "name: c", "README.md": "no policy", "d.txt": "x",
	} {
		must.Do(t, os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600))
	}
	must.Do(t, os.Mkdir(filepath.Join(dir, "sub.yaml"), 0o700))
	policies, err := Read(dir, nil)
	if err != nil || len(policies) != 3 || policies[0].Source != filepath.Join(dir, "a.json") || string(policies[2].Body) != `{"name":"c"}` {
		t.Errorf("%v %v", policies, err)
	}
	if _, err := Read(t.TempDir(), nil); err == nil {
		t.Error("an empty folder has policies")
	}
	if _, err := Read(filepath.Join(dir, "none"), nil); !errors.Is(err, os.ErrNotExist) {
		t.Error(err)
	}
	must.Do(t, os.WriteFile(filepath.Join(dir, "z.yaml"), []byte("a: ["), 0o600))
	policies, err = Read(dir, nil)
	if err == nil || !strings.Contains(err.Error(), "z.yaml") || len(policies) != 3 {
		t.Error(policies, err)
	}
}

// A value has the line of its key, in YAML and in JSON.
func TestLines(t *testing.T) {
	for content, want := range map[string]map[string]int{
		"# x\nname: a\nrules:\n- rule_id: x\n  parameters:\n    limit: 5\n    list: [a,\n      b]\n": {
			"": 2, "name": 2, "rules": 3, "rules[0]": 4, "rules[0].parameters.limit": 6, "rules[0].parameters.list[1]": 8,
			"rules[0].parameters.nothing.at.all": 5, "rules[7]": 3, "absent": 2,
		},
		"\n[\n{}, {\"name\":\n\"a\", \"rules\": [{},\n{\"rule_id\": 1}]}]": {
			"": 3, "name": 3, "rules": 4, "rules[0]": 4, "rules[1]": 5, "rules[1].rule_id": 5, "rules[1].x": 5,
		},
		"a: &a {b: 1}\nc: *a\n": {"a.b": 1, "c": 2, "c.b": 1},
	} {
		policies := must.Get(Read("-", strings.NewReader(content)))(t)
		for path, line := range want {
			if got := policies[len(policies)-1].Line(path); got != line {
				t.Errorf("%q: %q is in line %d, want %d", content, path, got, line)
			}
		}
	}
}

func FuzzRead(f *testing.F) {
	f.Add("a: 1\nb: [x, 2.50, ~]\n---\nc: {d: *x}")
	f.Add("a: &a [*a]")
	f.Fuzz(func(t *testing.T, content string) {
		policies, err := Read("-", strings.NewReader(content))
		if err != nil {
			return
		}
		for _, p := range policies {
			if !json.Valid(p.Body) {
				t.Errorf("%q gives %q", content, p.Body)
			}
		}
	})
}
