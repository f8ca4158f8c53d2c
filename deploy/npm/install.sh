#!/usr/bin/env bash
# Installs the Node.js programs that tests use, in the versions of
# package-lock.json, into .bin/npm and prints the path of their node_modules. A
# second run finds them there. Needs Node.js 20 or newer and npm, which it
# installs with apt-get as root; where it cannot, it exits with 1.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)

if ! command -v node >/dev/null || ! command -v npm >/dev/null; then
  (cd "$here/../.." && go run ./bench/fleetctl install nodejs npm)
fi
if [ "$(node -p 'parseInt(process.versions.node)')" -lt 20 ]; then
  echo "the MCP inspector needs Node.js 20 or newer, not $(node --version)" >&2
  exit 1
fi

mkdir -p "$here/../../.bin/npm"
cd "$here/../../.bin/npm"
if ! cmp -s "$here/package-lock.json" installed.json; then
  rm -rf node_modules installed.json
  cp "$here/package.json" "$here/package-lock.json" .
  # Install scripts are not needed, nor the optional parts of the inspector's
  # web interface.
  if ! npm ci --ignore-scripts --omit=optional --no-audit --no-fund >log 2>&1; then
    tail -20 log >&2
    exit 1
  fi
  cp package-lock.json installed.json
fi
echo "$PWD/node_modules"
