#!/usr/bin/env bash
# What `make test` runs, with servers to test against: vet, every test, with the
# race detector if there is a C compiler, then without it what it only slows
# down, then the intent classifier's accuracy on the held-out phrases.
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
# Without the detector nothing is C, and packages are those of the binary.
export CGO_ENABLED=0

# For the tests of the MCP tool server with another implementation, of the pages'
# TypeScript, of clients generated from openapi.yaml, of the TypeScript package, and of the console.
if TEST_NODE_MODULES=$(deploy/npm/install.sh); then
  export TEST_NODE_MODULES
else
  echo "NOTICE: no Node.js programs, so the tests with the MCP inspector, of TypeScript and of generated clients are skipped" >&2
fi

# For those of the console.
command -v chromium >/dev/null || .bin/fleetctl install chromium || \
  echo "NOTICE: no chromium, so the console is not tested in a browser" >&2

# For the tests of the Python package.
if TEST_PYTHON=$(deploy/clients/python/install.sh); then
  export TEST_PYTHON
else
  echo "NOTICE: no Python with what its tests need, so those of the Python package are skipped" >&2
fi

# What is of one goroutine, so that the detector would only slow it down.
single=$(go list ./bench/model ./hotpath/policy)
rest=$(go list ./... | grep -vxF "$single")
# Much of a test is waiting, so one package more than processors is tested at
# once, likewise tests of a package, and those that take the longest begin.
atonce=$(($(getconf _NPROCESSORS_ONLN) + 1))
# shellcheck disable=SC2086 # words, or none
CGO_ENABLED=${race:+1} go test $race -vet=all -timeout 30m -p $atonce -parallel $atonce ${TEST_FLAGS:-} \
  ./bench/e2e ./audit/postgres ./audit/verify ./hotpath ./hotpath/console ./deploy/clients ./bench/readme ./hotpath/httpapi \
  ./deploy ./cmd/spendgate/gateway ./cmd/spendgate/mcp $rest
# Beside one another, since most of each is of one goroutine: these, and the
# schedules that the detector is too slow for.
# shellcheck disable=SC2086
go test -vet=all -timeout 30m ${TEST_FLAGS:-} $single &
single_tests=$!
schedules_code=0
go test -vet=off -count=1 -run Schedule ./bench/sim ./hotpath/webhook || schedules_code=$?
wait "$single_tests"
[ "$schedules_code" -eq 0 ]
# Allocations, which the detector changes: it empties pools at random.
go test -vet=off -count=1 -run Alloc ./audit/spend ./hotpath/httpapi ./audit/commit

echo
go test -vet=off -count=1 -v -run Accuracy ./hotpath/intent | grep '^intent accuracy'
