#!/usr/bin/env bash
# Creates the secrets of compose.yaml in deploy/secrets (or the named folder),
# once: existing ones are kept, because PostgreSQL keeps its first password.
#
# Containers read the files as users of their own, so the folder is private and
# the files are readable.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)

# random_secret prints 32 hex digits.
random_secret() { od -An -N16 -tx1 /dev/urandom | tr -d ' \n'; }

dir=${1:-$here/secrets}
if [ -e "$dir" ]; then
  echo "$dir exists already"
  exit 0
fi
umask 077
mkdir -p "$dir.new"
redis=$(random_secret)
owner=$(random_secret)
service=$(random_secret)
random_secret >"$dir.new/admin-key"
random_secret >"$dir.new/grafana-password"
random_secret >"$dir.new/postgres-password"
echo "$owner" >"$dir.new/owner-password"
echo "$service" >"$dir.new/service-password"
# Among containers of one machine; elsewhere sslmode=verify-full (docs/operate/fleet.md).
echo "postgres://spendgate_owner:$owner@postgres:5432/spendgate?sslmode=disable" >"$dir.new/owner-url"
echo "postgres://spendgate:$service@postgres:5432/spendgate?sslmode=disable" >"$dir.new/database-url"
echo "redis://:$redis@redis:6379" >"$dir.new/redis-url"
cat >"$dir.new/redis-conf" <<CONF
requirepass $redis
maxmemory-policy noeviction
save ""
appendonly no
CONF
chmod 0444 "$dir.new"/*
mv "$dir.new" "$dir"
echo "created $dir; the admin key is in $dir/admin-key, Grafana's password for admin in $dir/grafana-password"
