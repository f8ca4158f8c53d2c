package readme_test

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"spendgate/bench/must"
)

// compiler makes JavaScript of TypeScript in the folder to.
type compiler func(t *testing.T, modules, to string, files ...string)

// program writes an example in another language than the shell's to a file and
// returns the command that runs it, or "" where that cannot be done.
func program(t *testing.T, e example, typeScript compiler) string {
	t.Helper()
	dir := t.TempDir()
	name := filepath.Join(dir, "example."+map[string]string{"go": "go", "python": "py", "ts": "mts"}[e.language])
	must.Do(t, os.WriteFile(name, []byte(e.text), 0o600))
	switch e.language {
	case "go":
		return compileGo(t, e, name)
	case "python":
		return runPython(t, e, name)
	default:
		return compileTypeScript(t, e, name, typeScript)
	}
}

// compileGo builds the program as if it lay in the module, as one that
// replaces the module's name by a clone sees it.
func compileGo(t *testing.T, e example, name string) string {
	t.Helper()
	module := must.Get(filepath.Abs(root()))(t)
	overlay := must.Get(json.Marshal(map[string]any{"Replace": map[string]string{filepath.Join(module, "example", "main.go"): name}}))(t)
	file, binary := name+".overlay", name+".out"
	must.Do(t, os.WriteFile(file, overlay, 0o600))
	build := exec.Command("go", "build", "-buildvcs=false", "-overlay", file, "-o", binary, "./example")
	build.Dir = module
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%s:%d: %v\n%s", e.page, e.line, err, out)
	}
	return "'" + binary + "'"
}

// runPython returns the command that runs the program with the Python package.
func runPython(t *testing.T, e example, name string) string {
	t.Helper()
	interpreter := os.Getenv("TEST_PYTHON")
	if interpreter == "" {
		t.Logf("%s:%d is not run: TEST_PYTHON is not set; deploy/clients/python/install.sh installs what the package needs and prints its value",
			e.page, e.line)
		return ""
	}
	source := must.Get(filepath.Abs(filepath.Join(root(), "deploy", "clients", "python", "src")))(t)
	return "PYTHONDONTWRITEBYTECODE=1 PYTHONPATH='" + source + "' '" + interpreter + "' '" + name + "'"
}

// compileTypeScript compiles the program, and the package if it is used, to JavaScript.
func compileTypeScript(t *testing.T, e example, name string, compile compiler) string {
	t.Helper()
	modules := os.Getenv("TEST_NODE_MODULES")
	if modules == "" {
		t.Logf("%s:%d is not run: TEST_NODE_MODULES is not set; deploy/npm/install.sh installs TypeScript and prints its value", e.page, e.line)
		return ""
	}
	if strings.Contains(e.text, `from "spendgate"`) {
		installClient(t, modules, filepath.Join(filepath.Dir(name), "node_modules", "spendgate"), compile)
	}
	compile(t, modules, filepath.Dir(name), name)
	return "node '" + strings.TrimSuffix(name, ".mts") + ".mjs'"
}

// installClient puts the TypeScript package where programs beside it find it.
func installClient(t *testing.T, modules, dir string, compile compiler) {
	t.Helper()
	source := must.Get(filepath.Abs(filepath.Join(root(), "deploy", "clients", "typescript")))(t)
	compile(t, modules, filepath.Join(dir, "dist"), filepath.Join(source, "src", "index.ts"))
	description, err := os.ReadFile(filepath.Join(source, "package.json"))
	if err == nil {
		err = os.WriteFile(filepath.Join(dir, "package.json"), description, 0o600)
	}
	must.Do(t, err)
}

// compileStrictly is a compiler that checks types.
func compileStrictly(t *testing.T, modules, to string, files ...string) {
	t.Helper()
	options := []string{
		filepath.Join(modules, "typescript", "lib", "tsc.js"), "--strict", "--skipLibCheck", "--target", "es2022", "--module", "nodenext",
		"--lib", "es2022,dom,dom.iterable,dom.asynciterable", "--typeRoots", filepath.Join(modules, "@types"), "--types", "node", "--outDir", to,
		"--declaration",
	}
	if out, err := exec.Command("node", append(options, files...)...).CombinedOutput(); err != nil {
		t.Fatalf("%v: %v\n%s", files, err, out)
	}
}

// transpile compiles without checking types, in a tenth of the time. It also compiles the files
// beside those named.
func transpile(t *testing.T, modules, to string, files ...string) {
	t.Helper()
	const program = `const [typescript, to, ...files] = process.argv.slice(1);
		const ts = require(typescript), fs = require("node:fs"), path = require("node:path");
		fs.mkdirSync(to, { recursive: true });
		for (const dir of new Set(files.map((file) => path.dirname(file)))) {
			for (const name of fs.readdirSync(dir).filter((name) => name.endsWith("ts"))) {
				const { outputText } = ts.transpileModule(fs.readFileSync(path.join(dir, name), "utf8"), {
					compilerOptions: { target: ts.ScriptTarget.ES2022, module: ts.ModuleKind.ESNext },
				});
				fs.writeFileSync(path.join(to, name.replace(/ts$/, "js")), outputText);
			}
		}`
	args := append([]string{"-e", program, filepath.Join(modules, "typescript"), to}, files...)
	if out, err := exec.Command("node", args...).CombinedOutput(); err != nil {
		t.Fatalf("%v: %v\n%s", files, err, out)
	}
}

// The file for hosts of the tool server, which an example of the page wrote,
// starts it.
func startAsHosts(t *testing.T, n *node) {
	modules := os.Getenv("TEST_NODE_MODULES")
	if modules == "" {
		t.Skip("TEST_NODE_MODULES is not set; deploy/npm/install.sh installs the MCP inspector and prints its value")
	}
	inspector := filepath.Join(modules, "@modelcontextprotocol/inspector/clients/launcher/build/index.js")
	ask := exec.Command("node", inspector, "--cli", "--config", filepath.Join(n.dir, "mcp.json"), "--server", "spendgate",
		"--method", "tools/call", "--tool-name", "get_policy", "--tool-arg", "policy_id=support-refunds")
	ask.Dir, ask.Env = t.TempDir(), n.environ()
	if out, err := ask.CombinedOutput(); err != nil || !strings.Contains(string(out), "Policy support-refunds, version 2, has 2 rules") {
		t.Errorf("%v\n%s", err, out)
	}
}
