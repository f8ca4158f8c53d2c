package clients_test

import (
	"bytes"
	"flag"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"spendgate/bench/must"
)

var writeTypes = flag.Bool("write-types", false, "write the structures of both packages instead of comparing them")

// nodeModules returns the path of the Node.js programs that the tests use.
func nodeModules(t *testing.T) string {
	t.Helper()
	modules := os.Getenv("TEST_NODE_MODULES")
	if modules == "" {
		t.Skip("NOTICE: TEST_NODE_MODULES is not set; deploy/npm/install.sh installs compilers and generators and prints its value")
	}
	return modules
}

// The structures of both packages are those of openapi.yaml.
func TestGeneratedTypes(t *testing.T) {
	t.Parallel()
	modules, dir := nodeModules(t), t.TempDir()
	document := must.Get(filepath.Abs("../../hotpath/httpapi/openapi.yaml"))(t)
	script := must.Get(os.ReadFile("generate.mjs"))(t)
	must.Do(t, os.WriteFile(filepath.Join(dir, "generate.mjs"), script, 0o600))
	must.Do(t, os.Symlink(modules, filepath.Join(dir, "node_modules")))
	c := exec.CommandContext(t.Context(), "node", "generate.mjs", document, "generated.ts", "generated.py")
	c.Dir = dir
	run(t, c)
	for _, file := range []string{"typescript/src/generated.ts", "python/src/spendgate/generated.py"} {
		want := must.Get(os.ReadFile(filepath.Join(dir, filepath.Base(file))))(t)
		if *writeTypes {
			must.Do(t, os.WriteFile(file, want, 0o600))
			continue
		}
		got := must.Get(os.ReadFile(file))(t)
		if !bytes.Equal(got, want) {
			t.Errorf("%s is not what openapi.yaml says; write it with -write-types", file)
		}
	}
}
