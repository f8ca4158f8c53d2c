#!/usr/bin/env bash
# Runs a command that starts Redis, PostgreSQL and HAProxy by itself:
#
#   with-programs.sh .bin/chaos
#
# Missing packages are installed where apt-get and root rights are at hand. The
# command finds the programs by TEST_REDIS_SERVER, TEST_POSTGRES_BIN,
# TEST_POSTGRES_USER and TEST_HAPROXY.
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/find.sh"

if [ $# -eq 0 ]; then
  echo "usage: with-programs.sh COMMAND [ARGUMENT...]" >&2
  exit 2
fi
missing=()
find_redis || missing+=(redis-server)
find_postgres || missing+=(postgresql)
find_haproxy || missing+=(haproxy)
if [ ${#missing[@]} -gt 0 ]; then
  install_packages "${missing[@]}"
  find_redis && find_postgres && find_haproxy
fi
choose_postgres_user
export TEST_REDIS_SERVER TEST_POSTGRES_BIN TEST_POSTGRES_USER TEST_HAPROXY
exec "$@"
