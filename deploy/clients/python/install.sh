#!/usr/bin/env bash
# Installs what tests of the Python package need with apt-get, as root, unless it
# is there, and prints the path of the Python that has it. Where it cannot, it
# exits with 1.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)

find_python() {
  local python
  for python in /usr/bin/python3 python3; do
    if "$python" -c 'import sys, build, httpx, mypy, pytest; sys.exit(sys.version_info < (3, 10))' 2>/dev/null; then
      command -v "$python"
      return
    fi
  done
  return 1
}

if ! find_python; then
  (cd "$here/../../.." && go run ./bench/fleetctl install python3-build python3-httpx python3-mypy python3-pytest python3-venv) >&2
  find_python
fi
