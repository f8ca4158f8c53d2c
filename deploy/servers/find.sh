# shellcheck shell=bash
# Finds the servers that tests run against, and installs what is missing.
# Sourced by the scripts beside it, not run. Sets:
#   TEST_REDIS_SERVER   the redis-server binary
#   TEST_POSTGRES_BIN   the directory of initdb, postgres and pg_ctl
#   TEST_POSTGRES_USER  who must run them; set only for root, whom PostgreSQL refuses
#   TEST_HAPROXY        the haproxy binary
#   TEST_PROMETHEUS     the prometheus binary
# Each may be given from outside instead.

find_redis() {
  : "${TEST_REDIS_SERVER:=$(command -v redis-server || true)}"
  [ -x "$TEST_REDIS_SERVER" ]
}

# Debian keeps it off the PATH of users.
find_haproxy() {
  : "${TEST_HAPROXY:=$(PATH=$PATH:/usr/sbin command -v haproxy || true)}"
  [ -x "$TEST_HAPROXY" ]
}

find_prometheus() {
  : "${TEST_PROMETHEUS:=$(command -v prometheus || true)}"
  [ -x "$TEST_PROMETHEUS" ]
}

find_postgres() {
  local dir
  # Debian keeps each version in a folder of its own, off the PATH.
  for dir in "${TEST_POSTGRES_BIN:-}" \
    "$(pg_config --bindir 2>/dev/null || true)" \
    "$(dirname "$(readlink -f "$(command -v postgres || echo /none)")")" \
    $(ls -d /usr/lib/postgresql/*/bin 2>/dev/null | sort -Vr); do
    if [ -x "$dir/initdb" ] && [ -x "$dir/pg_ctl" ] && [ -x "$dir/postgres" ]; then
      TEST_POSTGRES_BIN=$dir
      return 0
    fi
  done
  return 1
}

# choose_postgres_user needs the packages installed: they make the user.
choose_postgres_user() {
  if [ "$(id -u)" -ne 0 ] || [ -n "${TEST_POSTGRES_USER:-}" ]; then
    return 0
  fi
  TEST_POSTGRES_USER=nobody
  if id -u postgres >/dev/null 2>&1; then
    TEST_POSTGRES_USER=postgres
  fi
}

# as_postgres runs a command as the user that PostgreSQL accepts.
as_postgres() {
  if [ -z "${TEST_POSTGRES_USER:-}" ]; then
    (cd / && "$@")
  elif command -v runuser >/dev/null; then
    (cd / && runuser -u "$TEST_POSTGRES_USER" -- "$@")
  else
    (cd / && su -s /bin/sh "$TEST_POSTGRES_USER" -c "$(printf '%q ' "$@")")
  fi
}

# install_packages PACKAGE... uses apt-get as root or with a sudo that asks
# nothing; elsewhere it says what to do and fails.
install_packages() {
  local sudo="" log
  if [ "$(id -u)" -ne 0 ]; then
    sudo="sudo -n"
    sudo -n true 2>/dev/null || sudo=none
  fi
  if ! command -v apt-get >/dev/null || [ "$sudo" = none ]; then
    echo "missing: $*. Install it with the system's package manager" \
      "(Debian: sudo apt-get install $*)." >&2
    return 1
  fi
  echo "installing $* with apt-get" >&2
  log=$(mktemp)
  # RUNLEVEL=1 keeps the packages from starting servers of their own.
  if ! {
    $sudo apt-get update -q && $sudo env RUNLEVEL=1 DEBIAN_FRONTEND=noninteractive \
      apt-get install -q -y --no-install-recommends "$@"
  } </dev/null >"$log" 2>&1; then
    tail -20 "$log" >&2
    rm -f "$log"
    return 1
  fi
  rm -f "$log"
}

# random_secret prints 32 hex digits.
random_secret() { od -An -N16 -tx1 /dev/urandom | tr -d ' \n'; }

# free_port prints a loopback port on which nothing listens, below the range
# that the kernel gives to outgoing connections. Someone may take it before it
# is used: callers try again.
free_port() {
  local port
  while :; do
    port=$((20000 + ((RANDOM << 15) | RANDOM) % 12000))
    if ! listens "$port"; then
      echo "$port"
      return
    fi
  done
}

# listens PORT: does anybody, on loopback?
listens() { (exec 3<>"/dev/tcp/127.0.0.1/$1") 2>/dev/null; }

# running PID: is there such a process? A zombie, which whoever started it has
# not reaped, is none.
running() {
  local stat
  stat=$(cat "/proc/$1/stat" 2>/dev/null) || return 1
  case "${stat##*) }" in [ZX]*) return 1 ;; esac
}
