package fleet

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// BuildOptions configure how the service is compiled.
type BuildOptions struct {
	Race    bool   // with the race detector
	Version string // of the binary; empty leaves its default
	Module  string // the folder of its go.mod; empty means the module around the working directory
	// Overlay has the text of files that differ from the module's or are missing in it, by their
	// path within it.
	Overlay map[string]string
}

// Build compiles the service of a module into dir and returns the binary's path.
func Build(ctx context.Context, dir string, o BuildOptions) (string, error) {
	root := o.Module
	if root == "" {
		var err error
		if root, err = ModuleRoot(); err != nil {
			return "", err
		}
	}
	if err := dependOn(root, "cmd", "hotpath", "audit", "ratelimit", "config", "deploy/policies", "deploy/postgres"); err != nil {
		return "", err
	}
	binary := filepath.Join(dir, "spendgate")
	var flags []string
	cgo := "CGO_ENABLED=0"
	if o.Race {
		// SQLite is C translated to Go and shares no memory with other code: with the detector it
		// takes ten times as long.
		flags, cgo = append(flags, "-race", "-gcflags=modernc.org/...=-race=false"), "CGO_ENABLED=1"
	}
	if o.Version != "" {
		flags = append(flags, "-ldflags", "-X main.version="+o.Version)
	}
	if len(o.Overlay) > 0 {
		file, err := writeOverlay(dir, root, o.Overlay)
		if err != nil {
			return "", err
		}
		flags = append(flags, "-overlay", file)
	}
	cmd := BuildCommand(ctx, "./cmd/spendgate", binary, flags...)
	cmd.Dir = root
	cmd.Env = append(os.Environ(), cgo)
	if output, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("cannot build the service: %w\n%s", err, bytes.TrimSpace(output))
	}
	return binary, nil
}

// BuildCommand returns the command that compiles a package into a file. It uses go run's cache:
// unlike go build, go run keeps linked binaries in the build cache.
func BuildCommand(ctx context.Context, pkg, file string, flags ...string) *exec.Cmd {
	args := append([]string{"run", "-exec", "cp", "-buildvcs=false"}, flags...)
	return exec.CommandContext(ctx, "go", append(args, pkg, file)...)
}

// writeOverlay writes the texts into dir and returns the overlay file for go build.
func writeOverlay(dir, root string, texts map[string]string) (string, error) {
	var overlay struct{ Replace map[string]string }
	overlay.Replace = make(map[string]string)
	for path, text := range texts {
		file := filepath.Join(dir, fmt.Sprintf("overlay%d-%s", len(overlay.Replace), filepath.Base(path)))
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			return "", fmt.Errorf("cannot write an overlay: %w", err)
		}
		overlay.Replace[filepath.Join(root, path)] = file
	}
	list, err := json.Marshal(overlay)
	if err != nil {
		return "", fmt.Errorf("cannot encode the overlay: %w", err)
	}
	file := filepath.Join(dir, "overlay.json")
	if err := os.WriteFile(file, list, 0o600); err != nil {
		return "", fmt.Errorf("cannot write the overlay: %w", err)
	}
	return file, nil
}

// dependOn stats the service's source files, so that go test does not reuse a
// cached result when they change.
func dependOn(root string, dirs ...string) error {
	for _, dir := range dirs {
		err := filepath.WalkDir(filepath.Join(root, dir), func(path string, entry fs.DirEntry, err error) error {
			if err == nil && !entry.IsDir() && !strings.HasSuffix(path, "_test.go") {
				_, err = os.Stat(path)
			}
			return err
		})
		if err != nil {
			return fmt.Errorf("cannot see the service's source: %w", err)
		}
	}
	return nil
}

// ModuleRoot returns the folder of the nearest go.mod around the working directory.
func ModuleRoot() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", fmt.Errorf("cannot find the module: %w", err)
	}
	for {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return dir, nil
		}
		parent := filepath.Dir(dir)
		if parent == dir {
			return "", errors.New("cannot find the module: no go.mod above the working directory")
		}
		dir = parent
	}
}
