#!/usr/bin/env bash
# Makes the secrets of compose.yaml in deploy/secrets (or the folder named),
# once: what is there is kept, since PostgreSQL keeps its first password.
#
# Containers read the files as users of their own, so the folder keeps other
# people out and the files do not.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)

# random_secret prints 32 hex digits.
random_secret() { od -An -N16 -tx1 /dev/urandom | tr -d ' \n'; }

dir=${1:-$here/secrets}
if [ -e "$dir" ]; then
  echo "$dir is there already"
  exit 0
fi
umask 077
mkdir -p "$dir.new"
redis=$(random_secret)
postgres=$(random_secret)
random_secret >"$dir.new/admin-key"
echo "$postgres" >"$dir.new/postgres-password"
echo "postgres://spendgate:$postgres@postgres:5432/spendgate?sslmode=disable" >"$dir.new/database-url"
echo "redis://:$redis@redis:6379" >"$dir.new/redis-url"
cat >"$dir.new/redis-conf" <<CONF
requirepass $redis
maxmemory-policy noeviction
save ""
appendonly no
CONF
chmod 0444 "$dir.new"/*
mv "$dir.new" "$dir"
echo "made $dir; the admin key is $dir/admin-key"
