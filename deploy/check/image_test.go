package check

import (
	"bytes"
	"debug/elf"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/moby/buildkit/frontend/dockerfile/instructions"
	"github.com/moby/buildkit/frontend/dockerfile/linter"
	"github.com/moby/buildkit/frontend/dockerfile/parser"
	"github.com/moby/patternmatcher"
	"github.com/moby/patternmatcher/ignorefile"
)

// stages returns the stages of the Dockerfile, parsed without a warning.
func stages(t *testing.T) []instructions.Stage {
	t.Helper()
	content, err := os.ReadFile("../Dockerfile")
	if err != nil {
		t.Fatal(err)
	}
	file, err := parser.Parse(bytes.NewReader(content))
	if err != nil {
		t.Fatal(err)
	}
	for _, warning := range file.Warnings {
		t.Error(warning.Short)
	}
	warn := func(name, description, _, message string, _ []parser.Range) {
		t.Errorf("%s: %s %s", name, description, message)
	}
	all, _, err := instructions.Parse(file.AST, linter.New(&linter.Config{Warn: warn}))
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// The image has only the binary and the CA certificates, and its user is a number.
func TestImage(t *testing.T) {
	all := stages(t)
	last := all[len(all)-1]
	if last.BaseName != "scratch" {
		t.Errorf("based on %s", last.BaseName)
	}
	var user, copied, starts, health string
	for _, command := range last.Commands {
		switch c := command.(type) {
		case *instructions.UserCommand:
			user = c.User
		case *instructions.CopyCommand:
			copied += " " + c.DestPath
		case *instructions.HealthCheckCommand:
			health = strings.Join(c.Health.Test, " ")
		case *instructions.EntrypointCommand:
			starts += strings.Join(c.CmdLine, " ")
		case *instructions.CmdCommand:
			starts += " " + strings.Join(c.CmdLine, " ")
		}
	}
	if health != "CMD /spendgate healthcheck" {
		t.Errorf("its health is asked by %q", health)
	}
	if user != "65532:65532" || copied != " /etc/ssl/certs/ca-certificates.crt /spendgate" || starts != "/spendgate serve" {
		t.Errorf("user %q, files %q, starts %q", user, copied, starts)
	}
}

// The command of the Dockerfile builds, from the build context, a static binary
// that runs on an empty read-only file system.
func TestImageRuns(t *testing.T) {
	root := t.TempDir()
	if err := os.Chmod(filepath.Dir(root), 0o755); err != nil {
		t.Fatal(err)
	}
	build := buildCommand(t, filepath.Join(root, "spendgate"))
	command := exec.CommandContext(t.Context(), "sh", "-c", build)
	command.Dir = contextOf(t)
	command.Env = append(os.Environ(), "VERSION=v1.2.3")
	if out, err := command.CombinedOutput(); err != nil {
		t.Fatalf("%s: %v\n%s", build, err, out)
	}
	binary, err := elf.Open(filepath.Join(root, "spendgate"))
	if err != nil {
		t.Fatal(err)
	}
	defer binary.Close() //nolint:errcheck // only read
	for _, program := range binary.Progs {
		if program.Type == elf.PT_INTERP {
			t.Error("the binary is not static")
		}
	}
	if os.Geteuid() != 0 {
		t.Skip("only root changes its root")
	}
	run := func(want string, args ...string) {
		t.Helper()
		c := exec.CommandContext(t.Context(), "/spendgate", args...)
		c.Dir, c.Env = "/", []string{}
		c.SysProcAttr = &syscall.SysProcAttr{Chroot: root, Credential: &syscall.Credential{Uid: 65532, Gid: 65532}}
		if out, _ := c.CombinedOutput(); !strings.Contains(string(out), want) {
			t.Errorf("%q prints %s", args, out)
		}
	}
	run("spendgate v1.2.3", "version")
	run("SPENDGATE_REDIS_URL: is required", "serve")
}

// The image of a release has the binary that make release names so.
func TestImageOfARelease(t *testing.T) {
	all, source := stages(t), ""
	for _, stage := range all {
		for _, command := range stage.Commands {
			if c, ok := command.(*instructions.CopyCommand); ok && stage.Name == "release" {
				source = c.SourcePaths[0]
			}
		}
	}
	if source != ".bin/release/spendgate-${VERSION}-${TARGETOS}-${TARGETARCH}" || all[len(all)-2].BaseName != "${BINARY}" {
		t.Errorf("takes %q by %q", source, all[len(all)-2].BaseName)
	}
	commands := exec.CommandContext(t.Context(), "make", "-n", "image", "IMAGE_PLATFORM=linux/arm64")
	commands.Dir = "../.."
	out, err := commands.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	version, err := os.ReadFile("../../VERSION")
	if err != nil {
		t.Fatal(err)
	}
	tag := "v" + strings.TrimSpace(string(version))
	for _, want := range []string{
		"spendgate-" + tag + "-${platform/\\//-}", "for platform in linux/arm64;",
		"--platform linux/arm64 --build-arg BINARY=release --build-arg VERSION=" + tag, "--tag spendgate:" + tag,
	} {
		if !strings.Contains(string(out), want) {
			t.Errorf("make image does not run %q:\n%s", want, out)
		}
	}
}

// buildCommand returns the build command of the Dockerfile, with another output.
func buildCommand(t *testing.T, output string) string {
	t.Helper()
	for _, stage := range stages(t) {
		for _, command := range stage.Commands {
			if run, ok := command.(*instructions.RunCommand); ok {
				if line := strings.Join(run.CmdLine, " "); strings.Contains(line, "go build") {
					return strings.Replace(line, "-o /spendgate", "-o "+output, 1)
				}
			}
		}
	}
	t.Fatal("the Dockerfile builds nothing")
	return ""
}

// contextOf copies what the .dockerignore lets into the build.
func contextOf(t *testing.T) string {
	t.Helper()
	file, err := os.Open("../Dockerfile.dockerignore")
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close() //nolint:errcheck // only read
	patterns, err := ignorefile.ReadAll(file)
	if err != nil {
		t.Fatal(err)
	}
	matcher, err := patternmatcher.New(patterns)
	if err != nil {
		t.Fatal(err)
	}
	module, copied := os.DirFS("../.."), t.TempDir()
	err = fs.WalkDir(module, ".", func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if entry.IsDir() && (path == ".git" || path == ".bin") { // large, and ignored
			return fs.SkipDir
		}
		ignored, err := matcher.MatchesOrParentMatches(path)
		if err != nil || ignored || !entry.Type().IsRegular() {
			return err
		}
		if strings.HasSuffix(path, "_test.go") || strings.Contains(path, "secrets") {
			t.Errorf("%s gets into the build", path)
		}
		content, err := fs.ReadFile(module, path)
		if err != nil {
			return err
		}
		to := filepath.Join(copied, path)
		if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
			return err
		}
		return os.WriteFile(to, content, 0o600)
	})
	if err != nil {
		t.Fatal(err)
	}
	return copied
}
