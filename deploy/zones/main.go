// Command zones makes hotpath/policy/zoneinfo.zip of the folder usr/share/zoneinfo of Debian's package tzdata:
//
//	zones -from usr/share/zoneinfo -origin "Debian tzdata 2026f-0+deb12u1" -to hotpath/policy/zoneinfo.zip
//
// The same folder makes the same bytes. The comment of the archive names the release and the origin.
package main

import (
	"archive/zip"
	"bytes"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"strings"
)

func main() {
	from := flag.String("from", "", "the `folder` zoneinfo")
	origin := flag.String("origin", "", "where it is from, a `text`")
	to := flag.String("to", "", "the archive, a `file`")
	flag.Parse()
	archive, err := pack(os.DirFS(*from), *origin)
	if err == nil {
		err = os.WriteFile(*to, archive, 0o644) //nolint:gosec // a file of the source
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "cannot make the archive of time zones:", err)
		os.Exit(1)
	}
}

// pack returns an archive of the zones of a folder.
func pack(folder fs.FS, origin string) ([]byte, error) {
	source, err := fs.ReadFile(folder, "tzdata.zi")
	if err != nil {
		return nil, err
	}
	line, _, _ := strings.Cut(string(source), "\n")
	release, ok := strings.CutPrefix(line, "# version ")
	if !ok || origin == "" {
		return nil, fmt.Errorf("the release or the origin is unknown: %q, %q", line, origin)
	}
	var archive bytes.Buffer
	w := zip.NewWriter(&archive)
	err = fs.WalkDir(folder, ".", func(name string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir() && (name == "posix" || name == "right"): // the same zones again, and zones with leap seconds
			return fs.SkipDir
		case entry.IsDir() || name == "localtime" || name == "posixrules": // no zones of the database
			return nil
		}
		return add(w, folder, name)
	})
	if err = errors.Join(err, w.SetComment("IANA "+release+", "+origin), w.Close()); err != nil {
		return nil, err
	}
	return archive.Bytes(), nil
}

// add adds a file if it is a zone.
func add(w *zip.Writer, folder fs.FS, name string) error {
	data, err := fs.ReadFile(folder, name)
	if err != nil || !bytes.HasPrefix(data, []byte("TZif")) {
		return err
	}
	file, err := w.CreateHeader(&zip.FileHeader{Name: name, Method: zip.Deflate})
	if err != nil {
		return err
	}
	_, err = file.Write(data)
	return err
}
