package clients_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"spendgate/bench/fleet"
	"spendgate/bench/must"
)

// typeScript is the package in a folder of its own, compiled with its tests, and what
// deploy/npm/install.sh installed.
type typeScript struct {
	modules, dir string
}

func newTypeScript(t *testing.T) typeScript {
	t.Helper()
	modules := nodeModules(t)
	p := typeScript{modules, filepath.Join(t.TempDir(), "typescript")}
	for _, part := range []string{"src", "test", "examples"} {
		must.Do(t, os.CopyFS(filepath.Join(p.dir, part), os.DirFS(filepath.Join("typescript", part))))
	}
	for _, file := range []string{"package.json", "tsconfig.json", "tsconfig.test.json", "build.mjs", "README.md"} {
		text := must.Get(os.ReadFile(filepath.Join("typescript", file)))(t)
		must.Do(t, os.WriteFile(filepath.Join(p.dir, file), text, 0o600))
	}
	must.Do(t, os.Symlink(modules, filepath.Join(p.dir, "node_modules")))
	run(t, p.node(t, "build.mjs"))
	return p
}

// node returns a command of Node.js in the package's folder.
func (p typeScript) node(t *testing.T, args ...string) *exec.Cmd {
	c := exec.CommandContext(t.Context(), "node", args...)
	c.Dir, c.Env = p.dir, os.Environ()
	return c
}

func (p typeScript) compile(t *testing.T, args ...string) {
	t.Helper()
	run(t, p.node(t, append([]string{filepath.Join(p.modules, "typescript", "lib", "tsc.js")}, args...)...))
}

// The package is built once, as it takes longer than most of its tests (G15).
func TestTypeScript(t *testing.T) {
	t.Parallel()
	p := newTypeScript(t)
	node := fleet.TestDev(t)
	t.Run("tests", func(t *testing.T) { p.runTests(t, node) })
	t.Run("page", func(t *testing.T) { p.runPage(t, node) })
}

// runTests runs the tests in TypeScript, none of which may be skipped.
func (p typeScript) runTests(t *testing.T, node *fleet.Dev) {
	t.Helper()
	p.compile(t, "-p", "tsconfig.test.json")
	here := must.Get(filepath.Abs("."))(t)
	tests, err := filepath.Glob(filepath.Join(p.dir, "dist-test", "test", "*.test.js"))
	if err != nil || len(tests) == 0 {
		t.Fatal(tests, err)
	}
	c := p.node(t, append([]string{"--test", "--test-reporter=tap"}, tests...)...)
	c.Env = append(c.Env, "SPENDGATE_CASES="+filepath.Join(here, "cases.json"),
		"SPENDGATE_GUARD_CASES="+filepath.Join(here, "guard-cases.json"),
		"SPENDGATE_VISIBLE="+filepath.Join(here, "../../audit/spend/testdata/visible.json"), "SPENDGATE_BINARY="+node.Binary,
		"SPENDGATE_API_URL="+node.API, "SPENDGATE_ADMIN_KEY="+node.AdminKey)
	if out := run(t, c); !strings.Contains(out, "\n# skipped 0\n") || strings.Contains(out, "\n# pass 0\n") {
		t.Error(out)
	}
}

var quickStart = regexp.MustCompile("(?s)```ts\n(.*?)```\n```text\n(.*?)```\n")

// compiles finds the compilation of the quick start, which the test wants to have a result.
var compiles = regexp.MustCompile("`npx tsc --noEmit ([^`]* quick.mts)`")

// runPage installs the tarball into a program; the page's program prints what the page says.
func (p typeScript) runPage(t *testing.T, node *fleet.Dev) {
	t.Helper()
	pack := exec.CommandContext(t.Context(), "npm", "pack", "--silent")
	pack.Dir = p.dir
	tarball := filepath.Join(p.dir, strings.TrimSpace(run(t, pack)))
	saysSize(t, "typescript/README.md", regexp.MustCompile(`(\d+) kB packed`), tarball)
	program := t.TempDir()
	install := exec.CommandContext(t.Context(), "npm", "install", "--offline", "--no-audit", "--no-fund", "--prefix", program, tarball)
	install.Dir = program
	run(t, install)
	if files, err := filepath.Glob(filepath.Join(program, "node_modules", "[a-z@]*")); err != nil || len(files) != 1 {
		t.Error("installed:", files, err)
	}

	page := must.Get(os.ReadFile("typescript/README.md"))(t)
	example := quickStart.FindSubmatch(page)
	if example == nil {
		t.Fatal("the page has no quick start")
	}
	must.Do(t, os.WriteFile(filepath.Join(program, "quick.mts"), example[1], 0o600))
	command := compiles.FindSubmatch(page)
	if command == nil {
		t.Fatal("the page does not say how the quick start is compiled")
	}
	compile := append(strings.Fields(string(command[1])), "--skipLibCheck", "--typeRoots", filepath.Join(p.modules, "@types"))
	compile[len(compile)-4] = filepath.Join(program, compile[len(compile)-4])
	p.compile(t, compile...)
	create := exec.CommandContext(t.Context(), node.Binary, "keys", "create", "--name", "desk", "--role", "gateway", "--principal", "desk")
	create.Env = append(os.Environ(), "SPENDGATE_API_URL="+node.API, "SPENDGATE_ADMIN_KEY="+node.AdminKey)
	key := madeKey.FindStringSubmatch(run(t, create))
	if key == nil {
		t.Fatal("no API key was made")
	}
	for range 2 { // the program is run again
		c := exec.CommandContext(t.Context(), "node", "quick.mjs")
		c.Dir, c.Env = program, append(os.Environ(), "SPENDGATE_API_URL="+node.API, "SPENDGATE_API_KEY="+key[1])
		if out := run(t, c); out != string(example[2]) {
			t.Errorf("printed\n%s", out)
		}
	}
}

var madeKey = regexp.MustCompile(`API key: +(\S+)`)
