#!/usr/bin/env bash
# Runs a command with a Redis and a PostgreSQL to test against: see bench/fleetctl.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
(cd "$root" && CGO_ENABLED=0 go build -trimpath -buildvcs=false -o .bin/fleetctl ./bench/fleetctl)
exec "$root/.bin/fleetctl" with-servers "$@"
