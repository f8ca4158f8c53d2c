#!/bin/sh
# Creates the two roles of compose.yaml with the passwords that secrets.sh made.
# PGHOST, PGUSER and PGDATABASE name the server, an administrator and the database.
set -eu
secrets=${SECRETS:-/run/secrets}
PGPASSWORD=$(cat "$secrets/postgres-password")
export PGPASSWORD
psql -q -v owner=spendgate_owner -v service=spendgate -v schema=spendgate -f "$(dirname "$0")/roles.sql"
# By standard input, which other processes do not see; and not to the server's log.
psql -q -v ON_ERROR_STOP=1 <<SQL
SET log_min_duration_statement = -1;
ALTER ROLE spendgate_owner PASSWORD '$(cat "$secrets/owner-password")';
ALTER ROLE spendgate PASSWORD '$(cat "$secrets/service-password")';
SQL
