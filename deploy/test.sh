#!/usr/bin/env bash
# What `make test` runs, inside with-servers.sh: vet, every test, with the race
# detector where a C compiler is to be had, then the searches of the protocol
# without it, then the intent classifier's accuracy on the phrases it was not
# made from.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
. deploy/servers/find.sh

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

race=-race
if ! have_cgo; then
  install_packages gcc libc6-dev || true
  if ! have_cgo; then
    echo "NOTICE: no C compiler, so the tests run without the race detector" >&2
    race=""
  fi
fi
if [ -n "$race" ]; then
  export CGO_ENABLED=1
fi

# With these the tests start a whole fleet.
missing=()
find_haproxy || missing+=(haproxy)
find_prometheus || missing+=(prometheus)
if [ ${#missing[@]} -eq 0 ] || { install_packages "${missing[@]}" && find_haproxy && find_prometheus; }; then
  export TEST_HAPROXY TEST_PROMETHEUS
else
  echo "NOTICE: without ${missing[*]} the fleet, its dashboard and its alerts are not tested" >&2
fi

# With these the MCP tool server is asked by another implementation, and the
# README's TypeScript is compiled.
if TEST_NODE_MODULES=$(deploy/npm/install.sh); then
  export TEST_NODE_MODULES
else
  echo "NOTICE: no Node.js programs, so the tests with the MCP inspector and of TypeScript are skipped" >&2
fi

go vet ./...
# shellcheck disable=SC2086 # no word when empty
go test $race ${TEST_FLAGS:-} ./...
# Searches and schedules, of which the detector's speed allows few.
go test -count=1 ./bench/model ./bench/sim
# Allocations, which it adds to: it empties pools at random.
go test -count=1 -run Alloc ./hotpath/spend ./hotpath/httpapi ./audit

echo
go test -count=1 -v -run Accuracy ./hotpath/intent | grep '^intent accuracy'
