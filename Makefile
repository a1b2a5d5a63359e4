# What it needs: Go, GNU make, git and a C compiler. Go modules are downloaded when first used; the tools that they pin are
# built into .cache.

MAKEFLAGS += --no-builtin-rules
# The targets share two cores, the Go build cache and the simulated cluster: one after the other, whatever -j says.
.NOTPARALLEL:
.DELETE_ON_ERROR:
.DEFAULT_GOAL := help

export GOWORK := off

GO ?= go
VERSION ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo dev)
# More flags for every "go test": make test TESTFLAGS=-v
TESTFLAGS ?=
# One package that hangs must not take the others' results with it, and Go's own limit of 10m is short for a simulated
# cluster on a busy machine.
TEST_TIMEOUT ?= 60m

# The directory of a tool carries what it is built from, so that a new version is built when it is pinned, an old branch
# finds its own again, and the times of files mean nothing. golangci-lint must also be as new as the Go it reads.
tool_key = $(shell { cat hack/$(1)/go.mod hack/$(1)/go.sum; $(GO) env GOVERSION; } | git hash-object --stdin | cut -c1-12)
TOOLS := $(CURDIR)/.cache/tools/gen-$(call tool_key,tools)
LINT := $(CURDIR)/.cache/tools/lint-$(call tool_key,lint)
# ko is no pinned Go tool: its dependencies are many and only "make image" needs it. The checksum database vouches for it.
KO_VERSION := v0.18.1
KO := $(CURDIR)/.cache/tools/ko-$(KO_VERSION)/ko

# What "make chaos" runs: the tests whose names match, SEED from the environment.
CAMPAIGN ?= .
# Waiting dominates: more tests at a time than processors pay off.
CHAOS_PARALLEL ?= 6
CHAOS_TIMEOUT ?= 12h
export SEED ?=

# How long "make fuzz" spends on each function.
FUZZTIME ?= 30s

# What "make bench" measures.
NODES ?= 100
POOLS ?= 1
POD_START ?= 0s
POD_SPREAD ?= 0s
LINSTOR_LATENCY ?= 0s
IDLE ?= 3m

# What "make generate" writes.
GENERATED := pkg/apis deploy/crds docs/state-diagrams docs/api-reference.md
GO_DIRS := cmd docs hack pkg test

##@ Everyday

.PHONY: help
help: ## Show the targets.
	@awk 'BEGIN { FS = ":.*## " } \
		/^##@/ { printf "\n%s\n", substr($$0, 5) } \
		/^[a-z0-9-]+:.*## / { printf "  %-12s %s\n", $$1, $$2 }' $(firstword $(MAKEFILE_LIST))

.PHONY: demo
demo: ## Show a simulated cluster becoming Ready. DEMO_EXIT=1 ends it afterwards; SCENARIO=human-intervention|node-loss|upgrade|evacuate
	DEMO_EXIT='$(DEMO_EXIT)' SCENARIO='$(SCENARIO)' $(GO) run ./cmd/demo

.PHONY: test
test: test-unit test-e2e ## Run all tests. The first run builds a control plane (some minutes).

.PHONY: test-unit
test-unit: ## Run the tests that need no cluster.
	$(GO) test -timeout $(TEST_TIMEOUT) $(TESTFLAGS) $$($(GO) list ./... | grep -Ev '/(cmd|test)(/|$$)')

.PHONY: test-e2e
test-e2e: kube ## Run the tests on the simulated cluster, one package at a time.
	$(GO) test -p 1 -parallel 4 -timeout $(TEST_TIMEOUT) $(TESTFLAGS) ./cmd/... ./test/...

.PHONY: chaos
chaos: kube ## Break things on the simulated cluster and see that nothing is lost. CAMPAIGN=TestCrash SEED=1 for a part; see docs/chaos.md
	CHAOS=full $(GO) test -p 1 ./test/chaos ./test/model -v -count=1 -parallel $(CHAOS_PARALLEL) -timeout $(CHAOS_TIMEOUT) -run '$(CAMPAIGN)' $(TESTFLAGS)

.PHONY: fuzz
fuzz: ## Fuzz all that reads what others wrote, one function after the other. FUZZTIME=30s; what it finds is kept in testdata/fuzz
	@for dir in $$(grep -rl --include='*_test.go' '^func Fuzz' $(GO_DIRS) | xargs -n 1 dirname | sort -u); do \
		for name in $$(sed -n 's/^func \(Fuzz[A-Za-z0-9]*\)(.*/\1/p' $$dir/*_test.go); do \
			echo "$$dir $$name"; $(GO) test ./$$dir -run '^$$' -fuzz "^$$name$$" -fuzztime $(FUZZTIME) || exit 1; \
		done; \
	done

.PHONY: race
race: ## Run the tests that need no cluster with the race detector.
	CGO_ENABLED=1 $(GO) test -race -timeout $(TEST_TIMEOUT) $(TESTFLAGS) $$($(GO) list ./... | grep -Ev '/(cmd|test)(/|$$)')

.PHONY: bench
bench: kube ## Measure the operator. NODES=100 POOLS=1 POD_START=0s POD_SPREAD=0s LINSTOR_LATENCY=0s IDLE=3m; the last line is JSON.
	@$(GO) run ./test/bench -nodes $(NODES) -pools $(POOLS) -pod-start $(POD_START) -pod-spread $(POD_SPREAD) -linstor-latency $(LINSTOR_LATENCY) -idle $(IDLE)

# Runs as "make bench" takes them; what they print is kept, so that the table can be made again.
BENCH_RUNS ?= 3 100 1000 1000,POOLS=3 3,POD_START=30s,POD_SPREAD=10s 100,POD_START=30s,POD_SPREAD=10s 1000,POD_START=30s,POD_SPREAD=10s \
	100,LINSTOR_LATENCY=20ms 1000,LINSTOR_LATENCY=20ms
BENCH_RESULTS := .cache/bench.jsonl

.PHONY: bench-all
bench-all: ## Measure the operator in all the runs of docs/performance.md, an hour or so, and print their table.
	: > $(BENCH_RESULTS)
	for run in $(BENCH_RUNS); do \
		$(MAKE) -s bench NODES=$${run%%,*} $$(echo "$$run," | cut -d, -f2- | tr , ' ') > $(BENCH_RESULTS).last || exit 1; \
		tail -1 $(BENCH_RESULTS).last >> $(BENCH_RESULTS); \
	done
	$(GO) run ./test/bench -table < $(BENCH_RESULTS)

##@ Code

.PHONY: generate
generate: $(TOOLS)/controller-gen $(TOOLS)/crd-ref-docs ## Write what is generated: deep copies, CRD, diagrams, API reference.
	$(TOOLS)/controller-gen object paths=./pkg/apis/...
	$(TOOLS)/controller-gen crd paths=./pkg/apis/... output:crd:dir=deploy/crds
	$(GO) run ./cmd/diagrams
	@if [ -e docs/crd-ref-docs.yaml ]; then set -x; \
		$(TOOLS)/crd-ref-docs --config docs/crd-ref-docs.yaml --source-path pkg/apis --renderer markdown \
			--output-path docs/api-reference.md --log-level WARN; fi

.PHONY: verify
verify: generate ## Check that what is generated is in git as it should be, formatting, go vet and go.mod.
	@status=$$(git status --porcelain --untracked-files=all -- $(GENERATED)) || exit 1; \
	stale=$$(echo "$$status" | grep -v '^[AMDR]  '); \
	if [ -n "$$stale" ]; then \
		git --no-pager diff -- $(GENERATED); \
		echo "$$stale"; echo "verify: review and commit what 'make generate' wrote (above)"; exit 1; fi
	@bad=$$("$$($(GO) env GOROOT)/bin/gofmt" -l $(GO_DIRS)) && if [ -n "$$bad" ]; then \
		echo "$$bad"; echo "verify: run gofmt -w on these files"; exit 1; fi
	$(GO) vet ./...
	$(GO) mod tidy -diff

.PHONY: lint
lint: $(LINT)/golangci-lint ## Run golangci-lint. The first run builds it (some minutes).
	$(LINT)/golangci-lint config verify
	GOLANGCI_LINT_CACHE=$(CURDIR)/.cache/golangci-lint $(LINT)/golangci-lint run ./...

##@ Build

.PHONY: build
build: ## Build bin/operator.
	CGO_ENABLED=0 $(GO) build -trimpath -ldflags '-s -w -X main.version=$(VERSION)' -o bin/operator ./cmd/operator

.PHONY: image
image: $(KO) ## Build the operator's image without Docker into dist/operator-image.tar, for "docker load".
	mkdir -p dist
	KO_DOCKER_REPO=storagecluster-operator VERSION='$(VERSION)' $(KO) build --bare --tags '$(VERSION),latest' \
		--platform linux/$$($(GO) env GOARCH) --push=false --tarball dist/operator-image.tar ./cmd/operator

.PHONY: kube
kube: ## Build the control plane of the tests and the demo into .cache/kube, unless it is there.
	$(GO) run ./test/simcluster/buildkube

.PHONY: clean
clean: ## Remove what was built, the tools and the control plane included.
	rm -rf bin dist .cache

# A pattern rule with two targets runs once for both.
%/controller-gen %/crd-ref-docs:
	$(GO) -C hack/tools build -trimpath -ldflags '-s -w' -o $*/ tool

%/golangci-lint:
	$(GO) -C hack/lint build -trimpath -ldflags '-s -w' -o $*/ tool

$(KO):
	GOBIN=$(@D) $(GO) install github.com/google/ko@$(KO_VERSION)
