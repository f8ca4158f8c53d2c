#!/usr/bin/env bash
# Installs the Node.js programs that tests use, in the versions of
# package-lock.json, into .bin/npm and prints the path of their node_modules. A
# second run finds them there. `install.sh typescript` installs only what compiles
# the TypeScript client. Needs Node.js 20 or newer and npm, which it
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
omit=(--omit=optional) # the optional parts of the inspector's web interface
if [ "${1:-}" = typescript ]; then
  omit+=(--omit=dev)
fi
have() { cmp -s "$here/package-lock.json" "$1"; }
if ! have installed.json && ! { [ "${1:-}" = typescript ] && have typescript.json; }; then
  rm -rf node_modules ./*.json
  cp "$here/package.json" "$here/package-lock.json" .
  # Install scripts are not needed.
  if ! npm ci --ignore-scripts "${omit[@]}" --no-audit --no-fund >log 2>&1; then
    tail -20 log >&2
    exit 1
  fi
  cp package-lock.json "${1:-installed}.json"
fi
echo "$PWD/node_modules"
