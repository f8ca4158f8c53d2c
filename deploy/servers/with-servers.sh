#!/usr/bin/env bash
# Runs a command with a Redis and a PostgreSQL to test against:
#
#   with-servers.sh go test ./...
#
# Servers named by TEST_REDIS_URL and TEST_DATABASE_URL are used as they are;
# a missing one is started for this command, on a free loopback port with its
# files in a temporary folder, and is stopped and removed afterwards. Missing
# packages are installed where apt-get and root rights are at hand.
#
# The command sees, besides these two URLs, what it needs to start and kill
# servers of its own: TEST_REDIS_SERVER, TEST_POSTGRES_BIN, TEST_POSTGRES_USER,
# TEST_HAPROXY, TEST_PROMETHEUS (find.sh says what each is; those of programs
# that are not installed are unset).
# Its exit code is passed on.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
. "$here/find.sh"

if [ $# -eq 0 ]; then
  echo "usage: with-servers.sh COMMAND [ARGUMENT...]" >&2
  exit 2
fi

dir=$(mktemp -d "${TMPDIR:-/tmp}/spendgate-servers.XXXXXX")
# A server that runs as another user has to get at its own subfolder.
chmod 0711 "$dir"

cleanup() {
  local code=$?
  trap '' INT TERM HUP
  "$here/redis.sh" stop "$dir" || true
  "$here/postgres.sh" stop "$dir" || true
  rm -rf "$dir"
  exit "$code"
}
trap cleanup EXIT
# A signal ends the command first (it has it too, from the terminal); then the
# exit code says which signal it was.
trap 'exit 130' INT
trap 'exit 143' TERM
trap 'exit 129' HUP

# without says what else could be done.
without() {
  echo "Or set $1 to a server that tests may write to." >&2
  exit 1
}

if [ -z "${TEST_REDIS_URL:-}" ]; then
  TEST_REDIS_URL=$("$here/redis.sh" start "$dir") || without TEST_REDIS_URL
fi
if [ -z "${TEST_DATABASE_URL:-}" ]; then
  TEST_DATABASE_URL=$("$here/postgres.sh" start "$dir") || without TEST_DATABASE_URL
fi
export TEST_REDIS_URL TEST_DATABASE_URL
if find_redis; then
  export TEST_REDIS_SERVER
fi
if find_postgres; then
  choose_postgres_user
  export TEST_POSTGRES_BIN TEST_POSTGRES_USER
fi
if find_haproxy; then
  export TEST_HAPROXY
fi
if find_prometheus; then
  export TEST_PROMETHEUS
fi

code=0
"$@" || code=$?
exit "$code"
