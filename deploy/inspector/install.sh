#!/usr/bin/env bash
# Installs the MCP inspector's command line, in the versions of package-lock.json,
# into .bin/inspector and prints the path of its program. A second run finds it
# there. Needs Node.js 20 or newer and npm, which it installs where apt-get and
# root rights are at hand; exits with 1 and says why when there are none.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
. "$here/../servers/find.sh"

dir=$here/../../.bin/inspector
program=$dir/node_modules/@modelcontextprotocol/inspector/clients/launcher/build/index.js

if ! command -v node >/dev/null || ! command -v npm >/dev/null; then
  install_packages nodejs npm
fi
if [ "$(node -p 'Number(process.versions.node.split(".")[0])')" -lt 20 ]; then
  echo "the MCP inspector needs Node.js 20 or newer, not $(node --version)" >&2
  exit 1
fi

if ! cmp -s "$here/package-lock.json" "$dir/installed.json" || [ ! -f "$program" ]; then
  rm -rf "$dir"
  mkdir -p "$dir"
  cp "$here/package.json" "$here/package-lock.json" "$dir/"
  # Its web interface's optional parts are not needed, nor what packages would run.
  if ! (cd "$dir" && npm ci --ignore-scripts --omit=optional --no-audit --no-fund) >"$dir/log" 2>&1; then
    tail -20 "$dir/log" >&2
    exit 1
  fi
  cp "$here/package-lock.json" "$dir/installed.json"
fi
cd "$dir"
echo "$PWD/${program#"$dir/"}"
