package main

import (
	"archive/zip"
	"bytes"
	"slices"
	"testing"
	"testing/fstest"
	"time"

	"spendgate/bench/must"
)

func TestPack(t *testing.T) {
	file := func(text string) *fstest.MapFile { return &fstest.MapFile{Data: []byte(text), ModTime: time.Now()} }
	folder := fstest.MapFS{
		"tzdata.zi": file("# version 2026f\n# more"), "zone.tab": file("#"), "Europe/Berlin": file("TZif2b"), "UTC": file("TZif2u"),
		"localtime": file("TZif2u"), "posixrules": file("TZif2u"), "posix/UTC": file("TZif2u"), "right/UTC": file("TZif2r"),
	}
	first := must.Get(pack(folder, "a test"))(t)
	for _, f := range folder {
		f.ModTime = f.ModTime.Add(time.Hour)
	}
	if again, err := pack(folder, "a test"); err != nil || !bytes.Equal(first, again) {
		t.Errorf("the same zones made another archive: %v", err)
	}
	archive := must.Get(zip.NewReader(bytes.NewReader(first), int64(len(first))))(t)
	var names []string
	for _, f := range archive.File {
		names = append(names, f.Name)
	}
	if archive.Comment != "IANA 2026f, a test" || !slices.Equal(names, []string{"Europe/Berlin", "UTC"}) {
		t.Errorf("%q %q", archive.Comment, names)
	}
	if _, err := pack(folder, ""); err == nil {
		t.Error("an archive without an origin was made")
	}
	delete(folder, "tzdata.zi")
	if _, err := pack(folder, "a test"); err == nil {
		t.Error("an archive without a release was made")
	}
}
