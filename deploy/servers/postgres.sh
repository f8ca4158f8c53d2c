#!/usr/bin/env bash
# A throwaway PostgreSQL on a free loopback port, as durable as the default:
# a commit that it confirmed is on disk.
#
#   postgres.sh start DIR   makes a new cluster in DIR/pg, prints its URL
#   postgres.sh resume DIR  starts it again where it was, if it has died
#   postgres.sh stop DIR    stops it; the files stay
#
# For root, the server runs as TEST_POSTGRES_USER, who must be able to enter DIR.
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/find.sh"

# launch PGDIR PORT starts a cluster that is there. Its settings beside the
# addresses are those that deploy/CAPACITY.md advises; the memory is taken when
# it is used.
launch() {
  as_postgres "$TEST_POSTGRES_BIN/pg_ctl" start --silent --wait --timeout=30 \
    --pgdata="$1/data" --log="$1/postgres.log" \
    --options="-c listen_addresses=127.0.0.1 -c port=$2 -c unix_socket_directories= \
      -c max_connections=300 -c timezone=UTC -c shared_buffers=1GB -c min_wal_size=4GB -c max_wal_size=8GB" >/dev/null 2>&1
}

start() {
  local dir=$1/pg password port
  if ! find_postgres; then
    install_packages postgresql
    find_postgres
  fi
  choose_postgres_user
  password=$(random_secret)
  mkdir -m 0700 "$dir"
  (umask 077 && echo "$password" >"$dir/password")
  if [ -n "${TEST_POSTGRES_USER:-}" ]; then
    chown -R "$TEST_POSTGRES_USER" "$dir"
  fi
  # --no-sync is about initdb's own files only.
  as_postgres "$TEST_POSTGRES_BIN/initdb" --pgdata="$dir/data" --no-sync --encoding=UTF8 --locale=C \
    --username=postgres --auth=scram-sha-256 --pwfile="$dir/password" >"$1/initdb.log" 2>&1 || {
    cat "$1/initdb.log" >&2
    return 1
  }
  for _ in 1 2 3 4 5; do
    port=$(free_port)
    # Fails when the port was taken meanwhile.
    if launch "$dir" "$port"; then
      echo "$port" >"$1/postgres.port"
      echo "postgres://postgres:$password@127.0.0.1:$port/postgres?sslmode=disable"
      return 0
    fi
  done
  echo "PostgreSQL does not start:" >&2
  tail -20 "$dir/postgres.log" >&2
  return 1
}

resume() {
  if runs "$1" && listens "$(cat "$1/postgres.port")"; then
    return 0
  fi
  find_postgres
  choose_postgres_user
  # After a kill -9 its children are in the way until they notice.
  for _ in 1 2 3 4 5; do
    launch "$1/pg" "$(cat "$1/postgres.port")" && return 0
    sleep 1
  done
  return 1
}

# runs DIR: does its server? What was killed leaves its file.
runs() {
  local pid
  pid=$(head -n 1 "$1/pg/data/postmaster.pid" 2>/dev/null) && running "$pid"
}

stop() {
  runs "$1" || return 0
  find_postgres
  choose_postgres_user
  # Nothing is kept, so there is nothing to flush.
  as_postgres "$TEST_POSTGRES_BIN/pg_ctl" stop --silent --mode=immediate --pgdata="$1/pg/data" >/dev/null
}

case "${1:-} ${2:+dir}" in
"start dir" | "resume dir" | "stop dir") "$1" "$2" ;;
*)
  echo "usage: postgres.sh start|resume|stop DIR" >&2
  exit 2
  ;;
esac
