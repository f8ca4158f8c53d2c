// Command release writes the CycloneDX bill of materials of a binary, from the build
// information that Go records in it. The same binary gives the same bytes.
package main

import (
	"bytes"
	"crypto/sha256"
	"debug/buildinfo"
	"encoding/base64"
	"encoding/hex"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"runtime/debug"
	"strconv"
	"strings"
	"time"

	cdx "github.com/CycloneDX/cyclonedx-go"
)

func main() {
	version := flag.String("version", "", "the binary's version")
	flag.Parse()
	if *version == "" || flag.NArg() != 1 {
		fmt.Fprintln(os.Stderr, "usage: release -version VERSION BINARY")
		os.Exit(2)
	}
	if err := write(flag.Arg(0), *version); err != nil {
		fmt.Fprintln(os.Stderr, "release:", err)
		os.Exit(1)
	}
}

// write writes the bill beside the binary.
func write(binary, version string) error {
	content, err := os.ReadFile(binary)
	if err != nil {
		return err
	}
	info, err := buildinfo.Read(bytes.NewReader(content))
	if err != nil {
		return fmt.Errorf("%s: %w", binary, err)
	}
	seconds, err := strconv.ParseInt(os.Getenv("SOURCE_DATE_EPOCH"), 10, 64)
	if err != nil {
		return fmt.Errorf("SOURCE_DATE_EPOCH: %w", err)
	}
	file, err := os.Create(binary + ".cdx.json")
	if err != nil {
		return err
	}
	b := bill(filepath.Base(binary), version, sha256.Sum256(content), info, time.Unix(seconds, 0))
	if err := cdx.NewBOMEncoder(file, cdx.BOMFileFormatJSON).SetPretty(true).EncodeVersion(b, cdx.SpecVersion1_6); err != nil {
		_ = file.Close()
		return err
	}
	return file.Close()
}

func bill(name, version string, sum [sha256.Size]byte, info *buildinfo.BuildInfo, at time.Time) *cdx.BOM {
	main := cdx.Component{
		BOMRef: "spendgate", Type: cdx.ComponentTypeApplication, Name: "spendgate", Version: version,
		PackageURL: "pkg:golang/spendgate@" + version,
		Hashes:     &[]cdx.Hash{{Algorithm: cdx.HashAlgoSHA256, Value: hex.EncodeToString(sum[:])}},
		Properties: &[]cdx.Property{{Name: "file", Value: name}},
	}
	goVersion := strings.TrimPrefix(info.GoVersion, "go")
	components := []cdx.Component{library("std", goVersion, "")}
	for _, dep := range info.Deps {
		components = append(components, module(dep))
	}
	refs := make([]string, len(components))
	for i, c := range components {
		refs[i] = c.BOMRef
	}
	b := cdx.NewBOM()
	// The binary's own digest, as a UUID of no particular kind (version 8).
	id := sum
	id[6], id[8] = id[6]&0x0f|0x80, id[8]&0x3f|0x80
	b.SerialNumber = fmt.Sprintf("urn:uuid:%x-%x-%x-%x-%x", id[:4], id[4:6], id[6:8], id[8:10], id[10:16])
	b.Metadata = &cdx.Metadata{Timestamp: at.UTC().Format(time.RFC3339), Component: &main}
	b.Components = &components
	b.Dependencies = &[]cdx.Dependency{{Ref: main.BOMRef, Dependencies: &refs}}
	return b
}

func module(m *debug.Module) cdx.Component {
	if m.Replace != nil {
		m = m.Replace
	}
	return library(m.Path, m.Version, m.Sum)
}

// library returns a module; sum is the sum in go.sum, the SHA-256 of its files' list.
func library(path, version, sum string) cdx.Component {
	url := "pkg:golang/" + path + "@" + version
	c := cdx.Component{BOMRef: url, Type: cdx.ComponentTypeLibrary, Name: path, Version: version, PackageURL: url, Scope: cdx.ScopeRequired}
	if digest, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(sum, "h1:")); err == nil && len(digest) == sha256.Size {
		c.Hashes = &[]cdx.Hash{{Algorithm: cdx.HashAlgoSHA256, Value: hex.EncodeToString(digest)}}
	}
	return c
}
