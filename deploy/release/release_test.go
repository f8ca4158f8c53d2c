package main

import (
	"bytes"
	"crypto/sha256"
	"debug/buildinfo"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	cdx "github.com/CycloneDX/cyclonedx-go"
)

// platform is the one that is built here; the others differ in GOOS and GOARCH.
var platform = "linux/" + runtime.GOARCH

// A release is the same bytes in whatever folder it is built.
func TestReproducible(t *testing.T) {
	first := makeRelease(t, filepath.Join(t.TempDir(), "a"))
	second := makeRelease(t, filepath.Join(t.TempDir(), "somewhere", "else"))
	if len(first) != 3 || len(second) != 3 {
		t.Fatalf("made %d and %d files", len(first), len(second))
	}
	for name, content := range first {
		if !bytes.Equal(content, second[name]) {
			t.Errorf("%s differs", name)
		}
	}
	binary := "spendgate-" + version(t) + "-" + strings.ReplaceAll(platform, "/", "-")
	for name, content := range first {
		line := fmt.Sprintf("%x  %s\n", sha256.Sum256(content), name)
		if name != "SHA256SUMS" && !bytes.Contains(first["SHA256SUMS"], []byte(line)) {
			t.Errorf("SHA256SUMS has not %q:\n%s", line, first["SHA256SUMS"])
		}
	}
	checkBill(t, first[binary], first[binary+".cdx.json"])
	if runtime.GOOS != "linux" {
		return
	}
	path := filepath.Join(t.TempDir(), "spendgate")
	if err := os.WriteFile(path, first[binary], 0o700); err != nil {
		t.Fatal(err)
	}
	out, err := exec.CommandContext(t.Context(), path, "version").Output()
	if err != nil || !strings.HasPrefix(string(out), "spendgate "+version(t)+"\ntime zones ") {
		t.Errorf("it is %q, %v", out, err)
	}
}

// checkBill checks that the bill names every module of the binary, and the binary.
func checkBill(t *testing.T, binary, content []byte) {
	t.Helper()
	var bill cdx.BOM
	if err := json.Unmarshal(content, &bill); err != nil {
		t.Fatal(err)
	}
	info, err := buildinfo.Read(bytes.NewReader(binary))
	if err != nil {
		t.Fatal(err)
	}
	sum := sha256.Sum256(binary)
	if main := bill.Metadata.Component; main.Version != version(t) || (*main.Hashes)[0].Value != hex.EncodeToString(sum[:]) {
		t.Errorf("it is about %+v", main)
	}
	if bill.Metadata.Timestamp != "2023-11-14T22:13:20Z" {
		t.Errorf("of %s", bill.Metadata.Timestamp)
	}
	listed := make(map[string]bool)
	for _, c := range *bill.Components {
		listed[c.PackageURL] = c.Hashes != nil || c.Name == "std"
	}
	for _, dep := range info.Deps {
		if !listed["pkg:golang/"+dep.Path+"@"+dep.Version] {
			t.Errorf("%s %s is not listed, or without its hash", dep.Path, dep.Version)
		}
	}
	if len(listed) != len(info.Deps)+1 || len(info.Deps) < 10 {
		t.Errorf("%d components of %d modules", len(listed), len(info.Deps))
	}
}

// makeRelease runs make release in a copy of the module and returns the files that it made.
func makeRelease(t *testing.T, dir string) map[string][]byte {
	t.Helper()
	module := os.DirFS("../..")
	err := fs.WalkDir(module, ".", func(path string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case path == ".git" || path == ".bin" || path == ".spendgate" || path == "deploy/secrets" || path == "bench":
			if entry.IsDir() {
				return fs.SkipDir
			}
			return nil
		case !entry.Type().IsRegular() || strings.HasSuffix(path, "_test.go"):
			return nil
		}
		content, err := fs.ReadFile(module, path)
		if err != nil {
			return err
		}
		to := filepath.Join(dir, path)
		if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
			return err
		}
		return os.WriteFile(to, content, 0o600)
	})
	if err != nil {
		t.Fatal(err)
	}
	command := exec.CommandContext(t.Context(), "make", "release", "PLATFORMS="+platform)
	command.Dir = dir
	command.Env = append(os.Environ(), "SOURCE_DATE_EPOCH=1700000000", "MAKEFLAGS=", "MAKELEVEL=")
	if out, err := command.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	made := make(map[string][]byte)
	folder := filepath.Join(dir, ".bin", "release")
	entries, err := os.ReadDir(folder)
	if err != nil {
		t.Fatal(err)
	}
	for _, entry := range entries {
		if made[entry.Name()], err = os.ReadFile(filepath.Join(folder, entry.Name())); err != nil {
			t.Fatal(err)
		}
	}
	return made
}

func version(t *testing.T) string {
	t.Helper()
	content, err := os.ReadFile("../../VERSION")
	if err != nil {
		t.Fatal(err)
	}
	return "v" + strings.TrimSpace(string(content))
}
