// Package clients_test runs the tests of the packages in other languages, with a
// node.
package clients_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"spendgate/bench/fleet"
	"spendgate/bench/must"
)

// python returns a command that runs the Python that install.sh found, in the
// package's folder.
func python(t *testing.T, args ...string) *exec.Cmd {
	t.Helper()
	interpreter := os.Getenv("TEST_PYTHON")
	if interpreter == "" {
		t.Skip("NOTICE: TEST_PYTHON is not set; deploy/clients/python/install.sh installs what the package's tests need and prints its value")
	}
	c := exec.CommandContext(t.Context(), interpreter, args...)
	c.Dir, c.Env = "python", append(os.Environ(), "PYTHONDONTWRITEBYTECODE=1")
	return c
}

// run runs a command and returns its output, which it shows if the command fails.
func run(t *testing.T, c *exec.Cmd) string {
	t.Helper()
	out, err := c.CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %v\n%s", c.Args, err, out)
	}
	return string(out)
}

// runTests runs tests of the Python package, none of which may be skipped.
func runTests(t *testing.T, node *fleet.Dev, args ...string) {
	t.Helper()
	c := python(t, append([]string{"-m", "pytest", "-q", "-rs", "--basetemp", filepath.Join(t.TempDir(), "tests")}, args...)...)
	c.Env = append(c.Env, "SPENDGATE_API_URL="+node.API, "SPENDGATE_API_KEY="+node.Key, "SPENDGATE_ADMIN_KEY="+node.AdminKey)
	if out := run(t, c); strings.Contains(out, "skipped") || !strings.Contains(out, " passed") {
		t.Error(out)
	}
}

// All tests of the package, the one that kills agents at every step among them, and the programs of its page (G15).
func TestPython(t *testing.T) {
	t.Parallel()
	python(t) // skips before a node is started
	node := fleet.TestDev(t)
	t.Run("tests", func(t *testing.T) { runTests(t, node) })
	t.Run("page", func(t *testing.T) { runPythonPage(t, node) })
}

// mypy finds nothing in the package, nor in the tests that use its public types.
func TestPythonTypes(t *testing.T) {
	t.Parallel()
	run(t, python(t, "-m", "mypy"))
}

// Neither does pyright, in the package.
func TestPythonPyright(t *testing.T) {
	t.Parallel()
	modules, interpreter := nodeModules(t), python(t).Path
	c := exec.CommandContext(t.Context(), "node", filepath.Join(modules, "pyright", "index.js"), "--pythonpath", interpreter)
	c.Dir = "python"
	run(t, c)
}

// pip installs the package without an index, also as what is edited.
func TestPythonInstall(t *testing.T) {
	t.Parallel()
	if err := python(t, "-c", "import ensurepip, pip, venv").Run(); err != nil {
		t.Skip("NOTICE: Python has no pip or no venv; deploy/clients/python/install.sh installs them")
	}
	dir := t.TempDir()
	source := filepath.Join(dir, "source")
	must.Do(t, os.CopyFS(source, os.DirFS("python")))
	for _, how := range [][]string{{source}, {"--editable", source}} {
		environment := filepath.Join(dir, strconv.Itoa(len(how)))
		run(t, python(t, "-m", "venv", "--system-site-packages", "--without-pip", environment))
		within := func(args ...string) string {
			c := exec.CommandContext(t.Context(), filepath.Join(environment, "bin", "python"), args...)
			c.Dir, c.Env = dir, append(os.Environ(), "PIP_CONFIG_FILE="+os.DevNull, "PIP_CACHE_DIR="+filepath.Join(dir, "cache"))
			return run(t, c)
		}
		within(append([]string{"-m", "pip", "install", "--no-index", "--disable-pip-version-check"}, how...)...)
		from := strings.TrimSpace(within("-c", "import spendgate; print(spendgate.__file__)"))
		if edited := strings.HasPrefix(from, source); edited != (len(how) > 1) || !edited && !strings.HasPrefix(from, environment) {
			t.Errorf("pip install %v: it is imported from %s", how, from)
		}
		if meta := within("-m", "pip", "show", "spendgate"); !strings.Contains(meta, "Requires: anyio, httpx") {
			t.Error(meta)
		}
	}
}

// The wheel is built from a source distribution without a network, has all modules, and its program runs.
func TestPythonWheel(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	source := filepath.Join(dir, "source")
	must.Do(t, os.CopyFS(source, os.DirFS("python")))
	build := python(t, "-m", "build", "--no-isolation", "--outdir", dir)
	build.Dir = source
	run(t, build)
	wheels, err := filepath.Glob(filepath.Join(dir, "spendgate-*-py3-none-any.whl"))
	if err != nil || len(wheels) != 1 {
		t.Fatal(wheels, err)
	}
	use := python(t, "-c", "import spendgate; print(spendgate.__file__, spendgate.Spendgate('http://localhost'))")
	use.Dir, use.Env = dir, append(use.Env, "PYTHONPATH="+wheels[0])
	if out := run(t, use); !strings.HasPrefix(out, wheels[0]) {
		t.Error(out)
	}
	saysSize(t, "python/README.md", regexp.MustCompile(`The wheel has (\d+) KB`), wheels[0])
	for path := range map[string]bool{"spendgate/py.typed": true, "spendgate/langgraph.py": true} {
		has := python(t, "-c", "import sys, zipfile; zipfile.ZipFile(sys.argv[1]).getinfo(sys.argv[2])", wheels[0], path)
		run(t, has)
	}
}

// saysSize compares the size that a page says with the size of the package, which may grow by a
// tenth before the page is to be changed.
func saysSize(t *testing.T, page string, says *regexp.Regexp, file string) {
	t.Helper()
	text := must.Get(os.ReadFile(page))(t)
	found := says.FindSubmatch(text)
	info, err := os.Stat(file)
	if err != nil || found == nil {
		t.Fatalf("%s says no size, or %v", page, err)
	}
	said, err := strconv.ParseInt(string(found[1]), 10, 64)
	if size := info.Size() / 1000; err != nil || 10*max(size-said, said-size) > said {
		t.Errorf("%s says %d kB of %s, which has %d, %v", page, said, filepath.Base(file), size, err)
	}
}

var pageExample = regexp.MustCompile("(?s)```python\n(.*?)```\n```text\n(.*?)```\n")

// runPythonPage runs the page's programs, which print what the page says.
func runPythonPage(t *testing.T, node *fleet.Dev) {
	t.Helper()
	page := must.Get(os.ReadFile("python/README.md"))(t)
	examples := pageExample.FindAllStringSubmatch(string(page), -1)
	if len(examples) == 0 {
		t.Fatal("the page has no example")
	}
	source := must.Get(filepath.Abs("python/src"))(t)
	for _, e := range examples {
		dir := t.TempDir()
		example := func() *exec.Cmd {
			c := python(t, "-c", e[1])
			c.Dir = dir
			c.Env = append(c.Env, "PYTHONPATH="+source, "SPENDGATE_API_URL="+node.API, "SPENDGATE_API_KEY="+node.Key,
				"SPENDGATE_ADMIN_KEY="+node.AdminKey)
			return c
		}
		if out := run(t, example()); out != e[2] {
			t.Errorf("%s\nprints\n%s\nand not\n%s", e[1], out, e[2])
		}
		// As a reader does, and an agent that was restarted.
		again := strings.ReplaceAll(e[2], "refunding 19.90\n", "")
		if out := run(t, example()); out != again {
			t.Errorf("%s\nprints when it is run again\n%s", e[1], out)
		}
	}
}
