#!/usr/bin/env bash
# Builds Cerbos from its module. Its go.mod replaces a dependency, which Go
# heeds only in the main module: the sources are copied out of the module cache
# and built in place.
#
#   build.sh BINARY
set -euo pipefail
version=v0.55.0

binary=$(realpath -m "$1")
sources=$(mktemp -d)
trap 'chmod -R u+w "$sources" && rm -rf "$sources"' EXIT
# In an empty folder there is no main module to add it to.
cached=$(cd "$sources" && GOWORK=off GOFLAGS=-mod=mod go mod download -json "github.com/cerbos/cerbos@$version" |
  sed -n 's/^\t"Dir": "\(.*\)",$/\1/p')
cp -R "$cached/." "$sources"
chmod -R u+w "$sources"
cd "$sources"
CGO_ENABLED=0 GOWORK=off GOFLAGS=-buildvcs=false go build -trimpath -o "$binary" ./cmd/cerbos
