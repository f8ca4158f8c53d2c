#!/usr/bin/env bash
# A throwaway Redis on a free loopback port.
#
#   redis.sh start DIR   starts it with its files in DIR, prints its URL
#   redis.sh resume DIR  starts it again where it was, empty, if it has died
#   redis.sh stop DIR    stops it; DIR stays
#
# It persists nothing: what tests kill, they start themselves.
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/find.sh"

# answers PORT PASSWORD: is the server there, and is it ours?
answers() {
  local reply
  exec 3<>"/dev/tcp/127.0.0.1/$1" || return 1
  printf 'AUTH %s\r\nPING\r\nQUIT\r\n' "$2" >&3
  reply=$(timeout 2 cat <&3 | tr -d '\r' | head -2 | tr '\n' ' ')
  exec 3>&-
  [ "$reply" = "+OK +PONG " ]
} 2>/dev/null

# start_on PORT PASSWORD DIR fails when the port was taken meanwhile.
start_on() {
  # The password goes by a file: arguments are visible to every user.
  (umask 077 && cat >"$3/redis.conf") <<CONF
bind 127.0.0.1
port $1
requirepass $2
daemonize yes
dir $3
pidfile $3/redis.pid
logfile $3/redis.log
save ""
appendonly no
databases 16
CONF
  launch "$@"
}

# launch PORT PASSWORD DIR starts it as it was configured.
launch() {
  local tries
  rm -f "$3/redis.pid"
  "$TEST_REDIS_SERVER" "$3/redis.conf" >/dev/null
  for tries in $(seq 100); do
    if answers "$1" "$2"; then
      return 0
    fi
    if [ "$tries" -gt 5 ] && ! [ -e "$3/redis.pid" ]; then
      return 1
    fi
    sleep 0.05
  done
  return 1
}

start() {
  local dir=$1 password port
  if ! find_redis; then
    install_packages redis-server
    find_redis
  fi
  password=$(random_secret)
  for _ in 1 2 3 4 5; do
    port=$(free_port)
    if start_on "$port" "$password" "$dir"; then
      echo "redis://default:$password@127.0.0.1:$port/0"
      return 0
    fi
    stop "$dir"
  done
  echo "Redis does not start:" >&2
  tail -20 "$dir/redis.log" >&2
  return 1
}

resume() {
  local port password
  port=$(awk '$1 == "port" { print $2 }' "$1/redis.conf")
  password=$(awk '$1 == "requirepass" { print $2 }' "$1/redis.conf")
  if answers "$port" "$password"; then
    return 0
  fi
  find_redis
  launch "$port" "$password" "$1"
}

stop() {
  local pid
  pid=$(cat "$1/redis.pid" 2>/dev/null) || return 0
  kill -TERM "$pid" 2>/dev/null || return 0
  # Redis removes the file last; the process may stay in the table, unreaped.
  for _ in $(seq 100); do
    [ -e "$1/redis.pid" ] || return 0
    sleep 0.05
  done
  kill -KILL "$pid" 2>/dev/null || true
}

case "${1:-} ${2:+dir}" in
"start dir" | "resume dir" | "stop dir") "$1" "$2" ;;
*)
  echo "usage: redis.sh start|resume|stop DIR" >&2
  exit 2
  ;;
esac
