#!/usr/bin/env bash
# What `make test` runs, with servers to test against: vet, every test, with the
# race detector if there is a C compiler, then the searches of the protocol
# without it, then the intent classifier's accuracy on the held-out phrases.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

# The race detector links against the C library.
have_cgo() {
  local out
  out=$(mktemp) || return 1
  echo '#include <stdlib.h>
int main(void) { return 0; }' | ${CC:-cc} -x c -o "$out" - 2>/dev/null
  local code=$?
  rm -f "$out"
  return "$code"
}

# SQLite, which is C that became Go, takes ten times as long with the detector.
# It shares nothing but by database/sql, which has it, like all that calls it.
race="-race -gcflags=modernc.org/...=-race=false"
if ! have_cgo; then
  .bin/fleetctl install gcc libc6-dev || true
  if ! have_cgo; then
    echo "NOTICE: no C compiler, so the tests run without the race detector" >&2
    race=""
  fi
fi
if [ -n "$race" ]; then
  export CGO_ENABLED=1
fi

# For the tests of the MCP tool server with another implementation, and of the
# README's TypeScript.
if TEST_NODE_MODULES=$(deploy/npm/install.sh); then
  export TEST_NODE_MODULES
else
  echo "NOTICE: no Node.js programs, so the tests with the MCP inspector and of TypeScript are skipped" >&2
fi

go vet ./...
# shellcheck disable=SC2086 # words, or none
go test $race -timeout 30m ${TEST_FLAGS:-} ./...
# Searches and simulations, which are too slow with the detector.
go test -count=1 ./bench/model ./bench/sim ./hotpath/webhook
# Allocations, which the detector changes: it empties pools at random.
go test -count=1 -run Alloc ./hotpath/spend ./hotpath/httpapi ./audit

echo
go test -count=1 -v -run Accuracy ./hotpath/intent | grep '^intent accuracy'
