#!/usr/bin/env bash
# Counts what there is to read, in lines: `make size`. FIELD is a member of a check in
# the interface; the files that name it, in any spelling, are the places to change with it.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
field=${FIELD:-payment_method}

# lines prints how many lines the files have whose names it reads.
lines() { xargs -r cat | wc -l; }
tracked() { git ls-files -- "$@" | grep -vE 'testdata|/vendor/'; }
row() { printf '%-42s %7d\n' "$1" "$2"; }

# Of every system, not of this one only.
linked=$(go list -deps -f '{{if not .Standard}}{{.ImportPath}}/*.go{{end}}' ./cmd/spendgate | sed -n 's|^spendgate/|:(glob)|p')
mapfile -t linked <<< "$linked"
row "Go of the binary" "$(tracked "${linked[@]}" ':!*_test.go' | lines)"
row "SQL" "$(tracked '*.sql' | lines)"
row "JavaScript, CSS, HTML of the console" "$(tracked 'hotpath/console/assets/*' | lines)"
row "Python and TypeScript of the packages" "$(tracked 'deploy/clients/*/src/*' 'deploy/clients/*.mjs' | grep -v /generated | lines)"
row "generated for the packages" "$(tracked 'deploy/clients/*/src/*' | grep /generated | lines)"
row "Python of the second verifier" "$(tracked 'deploy/audit/*.py' | lines)"
row "openapi.yaml" "$(lines <<< hotpath/httpapi/openapi.yaml)"
row "tests in Go" "$(tracked '*_test.go' | lines)"
row "tests in other languages" "$(tracked '*/tests/*' '*/test/*' 'deploy/clients/*cases.json' | lines)"
row "proof and measurement (bench, audittest)" "$(tracked 'bench/*.go' 'audit/audittest/*.go' ':!*_test.go' | lines)"
row "pages, in KB" "$(($(tracked '*.md' | xargs cat | wc -c) / 1000))"
row "files of the product that name $field" "$(git grep -liE "${field//_/_?}" -- ':!*_test.go' ':!*.md' ':!*testdata*' \
  ':!*/test/*' ':!*/tests/*' ':!bench' | grep -vc /generated)"
row "lines of Go over 140 columns" "$(tracked '*.go' | xargs awk 'length > 140' | wc -l)"
