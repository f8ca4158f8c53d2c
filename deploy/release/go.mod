// What `make release` makes beside the binaries, in a module of its own.
module spendgate/deploy/release

go 1.26.0

require github.com/CycloneDX/cyclonedx-go v0.12.0
