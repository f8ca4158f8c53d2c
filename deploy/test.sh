#!/usr/bin/env bash
# What `make test` runs, with servers to test against: every test, those of concurrent code
# with the race detector if there is a C compiler, then the intent classifier's
# accuracy on the held-out phrases. It does not vet; `make lint` does.
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

# A program with the detector need not wait a whole second for late reports when it ends.
export GORACE="atexit_sleep_ms=50"
# SQLite is C translated to Go, and takes ten times as long with the detector. It shares
# memory only through database/sql, which is compiled with the detector, like all callers.
race="-race -gcflags=modernc.org/...=-race=false"
if ! have_cgo; then
  .bin/fleetctl install gcc libc6-dev || true
  if ! have_cgo; then
    echo "NOTICE: no C compiler, so the tests run without the race detector" >&2
    race=""
  fi
fi
# Without the detector nothing needs C, and the compiled packages are those of the binary.
export CGO_ENABLED=0

# For the tests of the MCP tool server and the gateway against another implementation, of the
# TypeScript in pages, of clients generated from openapi.yaml, of the TypeScript package, and of the console.
if TEST_NODE_MODULES=$(deploy/npm/install.sh); then
  export TEST_NODE_MODULES
else
  echo "NOTICE: no Node.js programs, so the tests with the MCP inspector, of TypeScript and of generated clients are skipped" >&2
fi

# For the tests of the console.
command -v chromium >/dev/null || .bin/fleetctl install chromium || \
  echo "NOTICE: no chromium, so the console is not tested in a browser" >&2

# For the tests of the Python package.
if TEST_PYTHON=$(deploy/clients/python/install.sh); then
  export TEST_PYTHON
else
  echo "NOTICE: no Python with what its tests need, so those of the Python package are skipped" >&2
fi

# The detector would only slow down packages that use one goroutine or test programs that they
# start. The nodes of the end-to-end fleet are built with the detector.
plain=$(go list ./bench/... ./deploy/... ./config ./ratelimit ./audit ./audit/archive ./audit/chain ./audit/verify \
  ./cmd/spendgate/checkreport ./cmd/spendgate/policycheck ./cmd/spendgate/policyfile \
  ./hotpath/backtest ./hotpath/console ./hotpath/intent ./hotpath/policy ./hotpath/report | grep -v /bench/sim$)
stores=$(go list ./audit/... | grep -vxF "$plain")
rest=$(go list ./... | grep -vxF "$plain"$'\n'"$stores")
# These compute: nothing in them is over in a certain time, or waits for what another program does in one.
computing=$(go list ./audit/verify ./bench/model ./hotpath/intent ./hotpath/policy)
plain=$(grep -vxF "$computing" <<< "$plain")

# run_tests PACKAGES_AT_ONCE ARGUMENTS. Much of a test is waiting, so more tests than processors run at once.
processors=$(getconf _NPROCESSORS_ONLN)
run_tests() {
  go test -vet=off -timeout 30m -p "$1" -parallel "$processors" "${@:2}"
}
with_race() {
  CGO_ENABLED=${race:+1} "$@"
}
# behind NICENESS lowers the priority of the lane that calls it.
behind() {
  renice -n "$1" -p "$BASHPID" > /dev/null
}

# SQLite waits for the disk at each commit, and the disk is busy with what is compiled.
if [ -n "${TEST_SERVERS_DIR:-}" ]; then
  export GOTMPDIR=${TMPDIR:-/tmp} TMPDIR
  TMPDIR=$(mktemp -d -p "$TEST_SERVERS_DIR" spendgate.XXXX)
  chmod 711 "$TMPDIR" # servers run as another user below it
  trap 'rm -rf "$TMPDIR"' EXIT
fi

# What most tests start is compiled before them: two commands at once would each compile it.
go run -exec true ./cmd/spendgate
# shellcheck disable=SC2086 # words, or none
with_race go run -exec true $race ./cmd/spendgate

# Nor do others compile while tests of whole nodes wait for answers.
go test -vet=off -run '^$' -exec true ./bench/e2e ./deploy/clients ./hotpath/console > /dev/null || true
# shellcheck disable=SC2086
with_race go test -vet=off $race -run '^$' -exec true ./hotpath ./cmd/spendgate/gateway ./hotpath/httpapi ./cmd/spendgate/mcp > /dev/null || true

# A node answers 503 after 1.7 s, so the tests of whole nodes have the processors first, one package of each
# lane at a time. The slowest packages are listed first. Packages that run again with other flags follow those
# with the same compilation.
declare -a lanes
{
  # shellcheck disable=SC2086
  TEST_RACE=${race:+1} run_tests 1 ${TEST_FLAGS:-} \
    ./bench/e2e ./deploy/clients ./hotpath/console ./bench/readme $(grep -v /deploy$ <<< "$plain")
} &
lanes+=($!)
{
  code=0
  # shellcheck disable=SC2086
  with_race run_tests 1 $race ${TEST_FLAGS:-} \
    ./hotpath ./cmd/spendgate/gateway ./hotpath/httpapi ./cmd/spendgate/mcp $rest || code=$?
  # shellcheck disable=SC2086
  run_tests 1 ${TEST_FLAGS:-} ./deploy || code=$?
  exit "$code"
} &
lanes+=($!)
# The stores alone are patient.
{
  behind 5
  # shellcheck disable=SC2086
  with_race run_tests "$processors" $race ${TEST_FLAGS:-} $stores
} &
lanes+=($!)
# What computes takes the time in which the others wait.
{
  behind 10
  code=0
  # shellcheck disable=SC2086
  run_tests 1 ${TEST_FLAGS:-} $computing || code=$?
  # Schedules, for which the detector is too slow, and counts of allocations, which the detector
  # changes by emptying pools at random.
  run_tests 1 -count=1 -run 'Schedule|Alloc' \
    ./bench/sim ./hotpath/webhook ./audit/spend ./hotpath/httpapi ./audit/commit || code=$?
  # The tests in which the verifier works on many slices at once; its other tests use few.
  # shellcheck disable=SC2086
  with_race run_tests 1 $race -run 'Clean|WhileNodesWrite|Forged' ./audit/verify || code=$?
  exit "$code"
} &
lanes+=($!)
code=0
for lane in "${lanes[@]}"; do
  wait "$lane" || code=$?
done
[ "$code" -eq 0 ]

echo
go test -vet=off -count=1 -v -run Accuracy ./hotpath/intent | grep '^intent accuracy'
