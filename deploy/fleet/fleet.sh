#!/usr/bin/env bash
# A fleet on this machine, to try out and to rehearse on: three nodes behind
# HAProxy, their Redis and PostgreSQL, and a Prometheus that watches them with
# the alert rules of deploy/prometheus. Everything listens on loopback only.
#
#   fleet.sh up        starts what does not run, prints where everything is
#   fleet.sh restart   restarts the nodes one by one, which fails no request
#   fleet.sh down      stops everything and discards its data; the logs stay
#
# Settings, from the environment:
#   API_PORT      where HAProxy listens (8080; 0 takes a free port)
#   FLEET_DIR     where the state is found (.bin/fleet), a link to a temporary
#                 folder, since PostgreSQL's user may not be able to enter this one
#   FLEET_BINARY  the spendgate that nodes run (.bin/spendgate)
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
servers=$root/deploy/servers
. "$servers/find.sh"
unset "${!SPENDGATE_@}" # the settings of nodes are all below

link=${FLEET_DIR:-$root/.bin/fleet}
binary=${FLEET_BINARY:-$root/.bin/spendgate}
nodes=(node1 node2 node3)
readonly patience=30 # seconds, far above what anything here takes

say() { echo "fleet: $*" >&2; }
die() {
  say "$*"
  exit 1
}

# launch NAME COMMAND... starts a program apart from this script. It is known
# by its process id and the time of its start, since ids are given again.
launch() {
  local name=$1 pid
  shift
  (cd "$dir" && exec setsid "$@") >>"$dir/$name.log" 2>&1 </dev/null 9>&- &
  pid=$!
  echo "$pid $(started_at "$pid")" >"$dir/$name.pid"
}

started_at() {
  local stat
  stat=$(cat "/proc/$1/stat" 2>/dev/null) || return 0
  set -- ${stat##*) }
  echo "${20}"
}

# alive NAME: does the program run that launch started?
alive() {
  local pid started
  read -r pid started 2>/dev/null <"$dir/$1.pid" && running "$pid" && [ "$(started_at "$pid")" = "$started" ]
}

# stop NAME... asks all at once, and ends who does not in time.
stop() {
  local name pid _ deadline=$((SECONDS + 15)) signal=TERM
  for name in "$@"; do
    if alive "$name" && read -r pid _ <"$dir/$name.pid"; then
      kill -TERM "$pid" 2>/dev/null || true
    fi
  done
  for name in "$@"; do
    while alive "$name" && read -r pid _ <"$dir/$name.pid"; do
      if [ "$SECONDS" -ge "$deadline" ] && [ "$signal" = TERM ]; then
        say "$name does not stop; killing it"
        kill -KILL "$pid" 2>/dev/null || true
      fi
      sleep 0.05
    done
    rm -f "$dir/$name.pid"
  done
}

# await NAME URL waits until a program answers with success, or has ended. A
# proxy that the environment names does not know this machine's loopback.
await() {
  local deadline=$((SECONDS + patience))
  until curl -sf -o /dev/null --noproxy '*' --max-time 3 "$2"; do
    if ! alive "$1" || [ "$SECONDS" -ge "$deadline" ]; then
      tail -n 20 "$dir/$1.log" >&2
      die "$1 does not get ready at $2; its log is $dir/$1.log"
    fi
    sleep 0.1
  done
}

install_missing() {
  local missing=()
  command -v curl >/dev/null || missing+=(curl)
  find_redis || missing+=(redis-server)
  find_postgres || missing+=(postgresql)
  find_haproxy || missing+=(haproxy)
  find_prometheus || missing+=(prometheus)
  if [ ${#missing[@]} -gt 0 ]; then
    install_packages "${missing[@]}" || die "cannot start without: ${missing[*]}"
    find_redis && find_postgres && find_haproxy && find_prometheus ||
      die "installed ${missing[*]}, but cannot find the programs"
  fi
  choose_postgres_user
  export TEST_REDIS_SERVER TEST_POSTGRES_BIN TEST_POSTGRES_USER TEST_HAPROXY TEST_PROMETHEUS
}

# create makes the folder, ports and secrets of a new fleet.
create() {
  local port=${API_PORT:-8080}
  if [ "$port" = 0 ]; then
    port=$(free_port)
  elif listens "$port"; then
    die "port $port is taken (by \`make run\`, or another fleet?): choose another one with API_PORT=8090"
  fi
  rm -rf "$(readlink "$link" || true)" "$link" # logs of the fleet before
  mkdir -p "$(dirname "$link")"
  dir=$(mktemp -d "${TMPDIR:-/tmp}/spendgate-fleet.XXXXXX")
  chmod 0711 "$dir" # PostgreSQL's user has to get at its subfolder
  ln -s "$dir" "$link"
  (umask 077 && random_secret >"$dir/admin.key" && echo "$(random_secret)$(random_secret)" >"$dir/checkpoint.key")
  {
    echo "api=127.0.0.1:$port"
    for node in "${nodes[@]}"; do
      echo "$node=127.0.0.1:$(free_port)"
      echo "${node}_ops=127.0.0.1:$(free_port)"
    done
    echo "prometheus=127.0.0.1:$(free_port)"
  } >"$dir/addresses"
}

start_servers() {
  if [ -e "$dir/redis.url" ]; then
    "$servers/redis.sh" resume "$dir" 9>&- || die "Redis does not start; its log is $dir/redis.log"
    "$servers/postgres.sh" resume "$dir" 9>&- || die "PostgreSQL does not start; its log is $dir/pg/postgres.log"
    return
  fi
  (umask 077 && "$servers/postgres.sh" start "$dir" >"$dir/database.url" 9>&-)
  (umask 077 && "$servers/redis.sh" start "$dir" >"$dir/redis.url" 9>&-)
}

start_node() {
  local api=${!1} ops=${1}_ops
  alive "$1" || launch "$1" env \
    SPENDGATE_LISTEN_ADDR="$api" SPENDGATE_OPS_ADDR="${!ops}" \
    SPENDGATE_REDIS_URL_FILE="$dir/redis.url" SPENDGATE_DATABASE_URL_FILE="$dir/database.url" \
    SPENDGATE_ADMIN_KEY_FILE="$dir/admin.key" SPENDGATE_TRUSTED_PROXIES=127.0.0.1 \
    SPENDGATE_CHECKPOINT_KEY_FILE="$dir/checkpoint.key" SPENDGATE_CHECKPOINT_FILE="$dir/checkpoints.jsonl" \
    "$binary" serve
}

await_node() {
  local ops=${1}_ops
  await "$1" "http://${!ops}/readyz"
}

start_haproxy() {
  alive haproxy || launch haproxy env BIND="$api" \
    NODE1="$node1" NODE1_OPS="${node1_ops##*:}" NODE2="$node2" NODE2_OPS="${node2_ops##*:}" \
    NODE3="$node3" NODE3_OPS="${node3_ops##*:}" \
    "$TEST_HAPROXY" -db -f "$root/deploy/haproxy/haproxy.cfg"
  await haproxy "http://$api/health"
}

# Scraped more often than one would in production, to see things move.
start_prometheus() {
  cat >"$dir/prometheus.yaml" <<CONF
global: {scrape_interval: 2s, evaluation_interval: 2s}
rule_files: [$root/deploy/prometheus/rules.yaml]
scrape_configs:
  - job_name: spendgate
    static_configs:
      - {targets: ["$node1_ops"], labels: {instance: node1}}
      - {targets: ["$node2_ops"], labels: {instance: node2}}
      - {targets: ["$node3_ops"], labels: {instance: node3}}
CONF
  alive prometheus || launch prometheus "$TEST_PROMETHEUS" --config.file="$dir/prometheus.yaml" \
    --storage.tsdb.path="$dir/prometheus" --web.listen-address="$prometheus" --log.level=warn
  await prometheus "http://$prometheus/-/ready"
}

# furnish stores the ready policies and a key to try out with.
furnish() {
  [ ! -e "$dir/sample.key" ] || return 0
  local key
  key=$(SPENDGATE_API_URL=http://$api SPENDGATE_ADMIN_KEY_FILE=$dir/admin.key \
    "$binary" keys create --name sample --rate-limit 10000 | awk '/^API key:/ { print $3 }')
  SPENDGATE_API_URL=http://$api SPENDGATE_API_KEY=$key \
    "$binary" policies apply -f "$root/deploy/policies" >/dev/null
  (umask 077 && echo "$key" >"$dir/sample.key")
}

report() {
  local shown=${link#"$PWD"/} demo=
  [ "$api" = 127.0.0.1:8080 ] || demo="SPENDGATE_API_URL=http://$api "
  cat <<TEXT
The fleet is up ($("$binary" version)).

  API          http://$api, three nodes behind HAProxy
  nodes        http://$node1  http://$node2  http://$node3
  operations   http://$node1_ops  http://$node2_ops  http://$node3_ops
  Prometheus   http://$prometheus/alerts
  PostgreSQL   \$(cat $shown/database.url)
  Redis        \$(cat $shown/redis.url)
  admin key    \$(cat $shown/admin.key)
  logs         $dir/*.log

Ask it, once and then again:

curl -s http://$api/v1/checks -H "X-API-Key: \$(cat $shown/sample.key)" -H 'Content-Type: application/json' -d '{
  "agent_id": "support-bot", "policy_id": "refund-desk", "action_type": "refund", "amount": 42.50, "currency": "USD",
  "counterparty": "customer-1", "metadata": {"days_since_purchase": 3}}'

Then: ${demo}SPENDGATE_API_KEY=\$(cat $shown/sample.key) make demo
      make fleet-restart   a rolling restart
      make fleet           starts again what you killed
      make fleet-down      stops everything
TEXT
}

find_fleet() {
  dir=$(readlink "$link" 2>/dev/null) && [ -e "$dir/addresses" ] || return 1
  . "$dir/addresses"
}

up() {
  [ -x "$binary" ] || die "there is no $binary: build it with \`make build\`"
  install_missing
  if ! find_fleet; then
    create
    find_fleet
    # What has just begun is worth nothing half done. Without a trap of its own
    # a signal would not be seen in the exit code.
    trap 'exit 130' INT
    trap 'exit 143' TERM
    trap 'exit 129' HUP
    trap 'code=$?; trap "" INT TERM HUP; trap - EXIT; [ "$code" -eq 0 ] || { down >/dev/null; say "stopped; logs are in $dir"; }; exit "$code"' EXIT
  fi
  start_servers
  for node in "${nodes[@]}"; do start_node "$node"; done
  for node in "${nodes[@]}"; do await_node "$node"; done
  start_haproxy
  start_prometheus
  furnish
  report
}

# As the runbook says: stop one, start it, wait until it is ready, take the next.
restart() {
  find_fleet || die "there is no fleet: start one with \`make fleet\`"
  for node in "${nodes[@]}"; do
    echo "restarting $node"
    stop "$node"
    start_node "$node"
    await_node "$node"
  done
  echo "the nodes are restarted ($("$binary" version))"
}

down() {
  find_fleet || {
    echo "there is no fleet"
    return 0
  }
  stop prometheus haproxy
  stop "${nodes[@]}"
  "$servers/redis.sh" stop "$dir"
  "$servers/postgres.sh" stop "$dir"
  [ ! -e "$dir/pg/postgres.log" ] || mv "$dir/pg/postgres.log" "$dir/"
  find "$dir" -mindepth 1 -maxdepth 1 ! -name '*.log' -exec rm -rf {} +
  echo "the fleet is stopped; its logs are in $dir"
}

usage() { sed -n 's/^# \{0,1\}//p; /^set /q' "${BASH_SOURCE[0]}" | tail -n +2; }

case "${1:-}" in
up | restart | down)
  [ $# -eq 1 ] || die "$1 takes no arguments; --help says more"
  mkdir -p "$(dirname "$link")"
  exec 9>"$link.lock"
  flock -n 9 || die "another fleet.sh is at work on $link"
  "$1"
  ;;
-h | --help | help) usage ;;
*)
  usage >&2
  exit 2
  ;;
esac
