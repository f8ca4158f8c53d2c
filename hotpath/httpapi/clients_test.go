package httpapi

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"spendgate/bench/must"
)

// clientGenerators are the programs that make a client of the document, run in a
// folder where they find it as openapi.yaml and leave the client as generated.
var clientGenerators = []struct {
	name    string
	script  string
	options []string
	exact   bool // the client compiles with exactOptionalPropertyTypes
}{
	{"openapi-typescript", "openapi-typescript/bin/cli.js", []string{"openapi.yaml", "-o", "generated.ts"}, true},
	{"hey-api", "@hey-api/openapi-ts/bin/run.js", []string{"-i", "openapi.yaml", "-o", "generated", "-s"}, false},
	{"orval", "orval/dist/bin/orval.js", []string{"--config", "orval.json"}, true},
}

// Clients generated from the document as it is served compile with strict checks, with
// a program that uses their types, and talk to a node.
func TestGeneratedClients(t *testing.T) {
	modules := os.Getenv("TEST_NODE_MODULES")
	if modules == "" {
		t.Skip("NOTICE: TEST_NODE_MODULES is not set; deploy/npm/install.sh installs generators of clients and prints its value")
	}
	for _, g := range clientGenerators {
		t.Run(g.name, func(t *testing.T) {
			t.Parallel()
			address := serveOn(t, New(realOptions(t)))
			key := field(t, doAt(t, address, "POST", "/v1/keys", `{"name":"n"}`, "X-Admin-Key: "+adminKey).body, "api_key")
			dir := t.TempDir()
			write := func(name, text string) {
				t.Helper()
				must.Do(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
			}
			node := func(script string, args ...string) string {
				t.Helper()
				c := exec.CommandContext(t.Context(), "node", append([]string{script}, args...)...)
				c.Dir, c.Env = dir, append(os.Environ(), "API=http://"+address, "KEY="+key)
				out, err := c.CombinedOutput()
				if err != nil {
					t.Fatalf("%s: %v\n%s", script, err, out)
				}
				return string(out)
			}
			must.Do(t, os.Symlink(modules, filepath.Join(dir, "node_modules")))
			for from, to := range map[string]string{g.name + ".ts": "client.ts", "story.ts": "story.ts"} {
				text := must.Get(os.ReadFile(filepath.Join("testdata", "clients", from)))(t)
				write(to, string(text))
			}
			write("openapi.yaml", doAt(t, address, "GET", "/openapi.yaml", "").body)
			write("orval.json", `{"api":{"input":"openapi.yaml","output":{"target":"generated.ts","client":"fetch","baseUrl":"http://`+
				address+`"}}}`)
			options := map[string]any{
				"strict": true, "noUncheckedIndexedAccess": true, "exactOptionalPropertyTypes": g.exact, "skipLibCheck": true, "noEmitOnError": true,
				"target": "es2022", "module": "commonjs", "moduleResolution": "node10", "lib": []string{"es2022", "dom", "dom.iterable"},
				"types": []string{"node"},
			}
			config := must.Get(json.Marshal(map[string]any{"compilerOptions": options, "files": []string{"story.ts"}}))(t)
			write("tsconfig.json", string(config))
			node(filepath.Join(modules, filepath.FromSlash(g.script)), g.options...)
			node(filepath.Join(modules, "typescript", "lib", "tsc.js"))
			want := []string{
				"500.00", "gambling", "day", "allow null null", "allow null true", "block cap null", "validation_error null",
				"policy.created 1 key", "violation.recorded 600", "",
			}
			if got := node("story.js"); got != strings.Join(want, "\n") {
				t.Errorf("printed\n%s", got)
			}
		})
	}
}
