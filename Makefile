# Every target says what it does after ##; `make` lists them.

SHELL := /bin/bash
.DEFAULT_GOAL := help

# VERSION is that of a build that is not a release. RELEASE is the next release, here and in the chart.
VERSION ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo dev)
RELEASE := v$(shell cat VERSION)
BINARY  := .bin/spendgate
BUILD   := go build
LDFLAGS := -s -w -X main.version=$(VERSION)

# The version is stamped by -X, because Go's own stamping fails in a clone that
# belongs to another user. Without paths and without C, packages are compiled once
# for tests, releases and the linter in any folder.
export GOFLAGS := $(GOFLAGS) -buildvcs=false -trimpath
export CGO_ENABLED := 0

# The command that builds images.
ENGINE ?= docker

# How long each fuzz target runs in fuzz-smoke, and each benchmark in bench.
FUZZTIME  ?= 10s
BENCHTIME ?= 1s

# The seed of a chaos round (0: random, printed), how long faults are injected,
# and which ones (a regular expression).
SEED     ?= 0
DURATION ?= 60s
FAULTS   ?=

# How many checks a second soak sends.
RATE ?= 300

.PHONY: help
help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  %-14s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

.PHONY: build
build: ## compile one static binary to .bin/spendgate
	$(BUILD) -ldflags '$(LDFLAGS)' -o $(BINARY) ./cmd/spendgate

# Binaries are the same bytes wherever they are built from one commit by one
# version of Go: no paths, no C, no times but the commit's.
PLATFORMS   ?= linux/amd64 linux/arm64 darwin/amd64 darwin/arm64
RELEASE_DIR := .bin/release
SOURCE_DATE_EPOCH ?= $(shell git log -1 --format=%ct)
export SOURCE_DATE_EPOCH

.PHONY: release
release: ## build the binaries of all PLATFORMS, their bills of materials and SHA256SUMS
	@rm -rf $(RELEASE_DIR) && mkdir -p $(RELEASE_DIR)
	@set -e; for platform in $(PLATFORMS); do \
	  binary=$(RELEASE_DIR)/spendgate-$(RELEASE)-$${platform/\//-}; echo $$binary; \
	  GOOS=$${platform%/*} GOARCH=$${platform#*/} $(BUILD) -ldflags '-s -w -X main.version=$(RELEASE)' -o $$binary ./cmd/spendgate; \
	  (cd deploy/release && go run . -version $(RELEASE) ../../$$binary); \
	done
	@cd $(RELEASE_DIR) && sha256sum spendgate-* > SHA256SUMS && touch -d @$(SOURCE_DATE_EPOCH) *

# The platform of images, of this machine unless told.
IMAGE_PLATFORM ?= linux/$(shell go env GOARCH)

.PHONY: image
image: ## build the container image spendgate:vRELEASE of the release's binary (ENGINE=docker)
	@$(MAKE) --no-print-directory release PLATFORMS=$(IMAGE_PLATFORM)
	$(ENGINE) build --file deploy/Dockerfile --platform $(IMAGE_PLATFORM) --build-arg BINARY=release --build-arg VERSION=$(RELEASE) \
	  --tag spendgate:$(RELEASE) .

.PHONY: run
run: build ## start a single node with everything embedded, on :8080
	exec $(BINARY) dev

.PHONY: demo
demo: ## play 200 agent actions against the running node, print the decisions
	@$(BUILD) -o .bin/demo ./bench/demo
	@exec .bin/demo

.PHONY: demo-gateway
demo-gateway: ## play an agent, the gateway and a payment provider, and kill the gateway while it pays
	@$(BUILD) -o .bin/demo-gateway ./bench/demo/gateway
	@exec .bin/demo-gateway

# The folder in which zones unpacks Debian's package tzdata.
TZDATA := .bin/tzdata

.PHONY: zones
zones: ## renew the time zones from the newest tzdata of Debian (apt-get update finds newer ones)
	@rm -rf $(TZDATA) && mkdir -p $(TZDATA)
	@cd $(TZDATA) && apt-get download -q tzdata && dpkg-deb --extract tzdata_*.deb .
	@go run ./deploy/zones -from $(TZDATA)/usr/share/zoneinfo -to hotpath/policy/zoneinfo.zip \
	  -origin "Debian tzdata $$(dpkg-deb --field $(TZDATA)/tzdata_*.deb Version)"

# The command that starts the servers of tests, benchmarks and the fleet.
.PHONY: fleetctl
fleetctl:
	@$(BUILD) -o .bin/fleetctl ./bench/fleetctl

.PHONY: fleet
fleet: build fleetctl ## start three nodes, HAProxy, Redis, PostgreSQL and Prometheus on loopback
	@.bin/fleetctl up

.PHONY: fleet-restart
fleet-restart: fleetctl ## restart the fleet's nodes one by one, which fails no request
	@.bin/fleetctl restart

.PHONY: fleet-down
fleet-down: fleetctl ## stop the fleet and discard its data; the logs stay
	@.bin/fleetctl down

# The PostgreSQL of tests need not survive a crash, and has little data: databases are often made
# and dropped, which searches all of its buffers, and no query is worth compiling.
TEST_SETTINGS := fsync=off full_page_writes=off shared_buffers=128MB min_wal_size=80MB max_wal_size=512MB jit=off
# Most of the cost of a database is its files, so they are in memory if it has 4 GB to spare.
TEST_SERVERS_DIR ?= $(shell df -Pk /dev/shm 2>/dev/null | awk '$$4 + 0 > 4000000 {print "/dev/shm"}')

.PHONY: test
test: fleetctl ## test everything against throwaway Redis and PostgreSQL servers
	@.bin/fleetctl install haproxy prometheus pgbouncer || \
	  echo 'NOTICE: without HAProxy, Prometheus and PgBouncer the fleet, its dashboard, its alerts and a pooler are not tested' >&2
	@TEST_SERVERS_DIR=$(TEST_SERVERS_DIR) TEST_POSTGRES_SETTINGS='$(TEST_SETTINGS)' .bin/fleetctl with-servers deploy/test.sh

.PHONY: chaos-build
chaos-build:
	@$(BUILD) -o .bin/chaos ./bench/chaos

.PHONY: chaos
chaos: chaos-build ## inject faults into a fleet for DURATION (60s) by SEED, check the history
	@.bin/chaos -seed $(SEED) -duration $(DURATION) -faults '$(FAULTS)'

.PHONY: chaos-mutants
chaos-mutants: chaos-build ## show that chaos detects deliberate bugs
	@.bin/chaos -seed $(SEED) -duration 20s -mutants 'bench/chaos/testdata/mutants/*.patch'

# How often failover runs.
TIMES ?= 3

.PHONY: failover
failover: fleetctl ## fail Redis Cluster, Sentinel and PostgreSQL over under load, all variants, TIMES (3)
	@TEST_FAILOVER=thorough .bin/fleetctl with-servers go test -count=$(TIMES) -timeout 60m -v \
	  -run 'EndToEnd/(failover|fleet)/(cluster|sentinel|standby|F16|G7_many)' ./bench/e2e

.PHONY: upgrade
upgrade: fleetctl ## upgrade a fleet from the version that FROM, a commit or tag, has, and back, under load
	@TEST_UPGRADE_FROM=$(FROM) .bin/fleetctl with-servers go test -count=1 -v -run 'EndToEnd/upgrade' ./bench/e2e

# How many states each search of the protocol may visit, and how many schedules
# the simulation plays.
STATES ?= 3000000
SEEDS  ?= 5000

.PHONY: model
model: ## search the protocol's states deeper than the tests do (STATES=3000000)
	go test ./bench/model -count=1 -timeout 60m -parallel 1 -v -run 'Protocol|Mutations' -states $(STATES)

.PHONY: sim
sim: ## play SEEDS (5000) schedules of faults against whole nodes, in virtual time
	go test ./bench/sim -count=1 -timeout 60m -run Schedules -seeds $(SEEDS)

.PHONY: fuzz-smoke
fuzz-smoke: ## run every fuzz target for FUZZTIME (10s)
	@set -e; for package in $$(go list ./...); do \
	  for target in $$(go test -list '^Fuzz' $$package | grep '^Fuzz' || true); do \
	    echo "$$package $$target"; \
	    go test -run '^$$' -fuzz "^$$target$$" -fuzztime $(FUZZTIME) $$package; \
	  done; \
	done

.PHONY: bench
bench: fleetctl ## run the Go benchmarks for BENCHTIME (1s) each
	@.bin/fleetctl with-servers go test -run '^$$' -bench . -benchmem -benchtime $(BENCHTIME) ./...

# The benchmarks run the binary in .bin.
.PHONY: bench-build
bench-build: build
	$(BUILD) -ldflags '$(LDFLAGS)' -o .bin/ ./bench/measure ./bench/peers/postgres

.PHONY: bench-system
bench-system: bench-build ## measure one node under load (BENCHFLAGS: -rounds, -duration, ...)
	@.bin/measure system $(BENCHFLAGS)

.PHONY: bench-scale
bench-scale: bench-build ## measure 1, 2 and 4 nodes: cost by component
	@.bin/measure system -scale $(BENCHFLAGS)

.PHONY: soak
soak: bench-build ## send RATE (300) checks a second for DURATION, kill nodes and servers by schedule, print what grew
	@exec .bin/measure soak -duration $(DURATION) -rate $(RATE) $(BENCHFLAGS)

.PHONY: bench-redemptions
bench-redemptions: bench-build ## measure what a redemption costs beside a check, at the same node and at another
	@.bin/measure redemptions $(BENCHFLAGS)

.PHONY: bench-gateway
bench-gateway: bench-build ## measure what a gateway costs: by calls, upstreams, sessions and 20,000 agents
	@.bin/measure gateway

.PHONY: bench-overload
bench-overload: bench-build ## measure a node under up to 3 times its capacity
	@.bin/measure system -overload $(BENCHFLAGS)

.PHONY: bench-budgets
bench-budgets: bench-build ## measure what budgets cost: per agent, one for all, exhausted
	@.bin/measure system -budgets $(BENCHFLAGS)

.PHONY: bench-changes
bench-changes: bench-build ## measure what backtests cost live checks
	@.bin/measure system -changes $(BENCHFLAGS)

.PHONY: bench-violations
bench-violations: bench-build ## measure listings among up to 10 million violations (some minutes, 8 GB)
	@.bin/measure violations $(BENCHFLAGS)

.PHONY: bench-checks
bench-checks: bench-build ## measure statistics, listings and backtests of 10 million checks (some minutes, 8 GB)
	@.bin/measure violations -checks $(BENCHFLAGS)

# The peers are modules of their own, so that the service does not depend on their packages.
.bin/opa: bench/peers/opa/go.mod bench/peers/opa/go.sum
	@echo "building OPA (once, some minutes)"
	cd bench/peers/opa && go build -o ../../../$@ github.com/open-policy-agent/opa

.bin/cerbos: bench/peers/cerbos/build.sh
	@echo "building Cerbos (once, some minutes)"
	bench/peers/cerbos/build.sh $@

# The servers with which bench-peers compares spendgate. "before" is the build of another commit.
PEERS ?= opa cerbos postgres
BEFORE ?= HEAD

.PHONY: .bin/before
.bin/before:
	rm -rf $@.src && mkdir $@.src && git archive $(BEFORE) | tar -x -C $@.src
	cd $@.src && $(BUILD) -ldflags '$(LDFLAGS)' -o ../before ./cmd/spendgate
	rm -rf $@.src

.PHONY: bench-peers
bench-peers: bench-build $(filter .bin/opa .bin/cerbos .bin/before,$(PEERS:%=.bin/%)) ## measure beside PEERS (opa cerbos postgres)
	@.bin/measure peers -peers '$(PEERS)' $(BENCHFLAGS)

# valgrind is needed where the processor's counters cannot be read.
.PHONY: bench-instructions
bench-instructions: bench-build .bin/before ## count instructions a check, node and PostgreSQL apart, beside BEFORE, a commit
	@.bin/measure instructions $(BENCHFLAGS)

# The linter is a module of its own, apart from the service's dependencies.
LINT_MODULE := deploy/lint
LINTER      := .bin/golangci-lint

$(LINTER): $(LINT_MODULE)/go.mod $(LINT_MODULE)/go.sum
	@echo "building golangci-lint (once, some minutes)"
	cd $(LINT_MODULE) && go build -o ../../$@ \
	  github.com/golangci/golangci-lint/v2/cmd/golangci-lint

.PHONY: lint
lint: $(LINTER) ## check formatting, imports, sizes and common mistakes
	$(LINTER) run ./...

# The checks of the chart are a module of their own, too.
.PHONY: check-deploy
check-deploy: ## check the chart, compose.yaml, the Dockerfile and the release with their tools' libraries
	cd deploy/check && go vet . && go test -vet=off -count=1 .
	cd deploy/release && go vet . && go test -vet=off -count=1 .

# Where the vulnerability database cannot be reached, vuln prints a notice and
# succeeds.
VULNCHECK         := .bin/govulncheck
VULNCHECK_VERSION := v1.9.0

.PHONY: vuln
vuln: ## look up the dependencies in the Go vulnerability database, if reachable
	@GOBIN=$(CURDIR)/$(dir $(VULNCHECK)) go install golang.org/x/vuln/cmd/govulncheck@$(VULNCHECK_VERSION) || \
	  { echo "NOTICE: vuln: cannot install govulncheck; nothing was checked"; exit 0; }; \
	out=$$($(VULNCHECK) ./... 2>&1); code=$$?; echo "$$out"; \
	if [ $$code -ne 0 ] && grep -q '^govulncheck: fetching vulnerabilities' <<<"$$out"; then \
	  echo "NOTICE: vuln: cannot reach https://vuln.go.dev; nothing was checked"; exit 0; \
	fi; exit $$code

.PHONY: size
size: ## count the lines of each kind, and the files that name FIELD (payment_method)
	@FIELD=$(FIELD) deploy/size.sh

.PHONY: fmt
fmt: $(LINTER) ## format the Go files
	$(LINTER) fmt ./...

.PHONY: clean
clean: ## stop the fleet and remove build output
	@[ ! -e .bin/fleet/fleet.json ] || .bin/fleetctl down
	rm -rf .bin coverage.out
