# What it needs: Go, GNU make, git and a C compiler. Go modules are downloaded when first used. Programs that are built
# from them are kept in CACHE; what belongs to this checkout, such as logs, is in .cache.

MAKEFLAGS += --no-builtin-rules
# The targets share two cores, the Go build cache and the simulated cluster: one after the other, whatever -j says.
.NOTPARALLEL:
.DELETE_ON_ERROR:
.DEFAULT_GOAL := help

export GOWORK := off

GO ?= go
# No path of the checkout is in what is compiled: what one checkout has compiled, another one finds in Go's build cache.
export GOFLAGS := $(shell $(GO) env GOFLAGS) -trimpath
VERSION ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo dev)
# More flags for every "go test": make test TESTFLAGS=-v
TESTFLAGS ?=
# One package that hangs must not take the others' results with it, and Go's own limit of 10m is short for a simulated
# cluster on a busy machine.
TEST_TIMEOUT ?= 60m

# Programs outside the checkout, so that every clone finds them. test/simcluster/gobin keeps its programs here too.
CACHE := $(or $(XDG_CACHE_HOME),$(HOME)/.cache)/storagecluster-operator
# The directory of a tool carries what it is built from, so that a new version is built when it is pinned, an old branch
# finds its own again, and the times of files mean nothing. golangci-lint must also be as new as the Go it reads.
tool_key = $(shell { cat hack/$(1)/go.mod hack/$(1)/go.sum; $(GO) env GOVERSION; } | git hash-object --stdin | cut -c1-12)
TOOLS := $(CACHE)/gen-$(call tool_key,tools)
LINT := $(CACHE)/lint-$(call tool_key,lint)
VALE := $(CACHE)/vale-$(call tool_key,prose/vale)
VULN := $(CACHE)/vuln-$(call tool_key,vuln)
TESTSUM := $(CACHE)/testsum-$(call tool_key,testsum)
# SHUFFLE=on runs the tests of each package in random order and prints the number that repeats it: SHUFFLE=1234. The
# default is off, because Go reuses the result of a test whose inputs have not changed only without -shuffle.
SHUFFLE ?= off
# Tests of the simulated cluster that "make test-e2e" runs: all by default.
RUN ?=
# Waiting dominates those tests: more of them at a time than processors pay off. Each costs a control plane, and a
# cluster at rest uses a tenth of a processor and a gigabyte: with a dozen of them two processors were busy with changing
# between processes, and tests took five times as long.
PARALLEL ?= 8
# How many of a package, where two packages are tested at a time.
PARALLEL_TWO = $(shell expr $(PARALLEL) '*' 3 / 4)
# What costs each of a hundred test binaries seconds for nothing: "make lint" vets all, and nobody debugs them.
QUICK := -vet=off -ldflags='-s -w'
# $(call gotest,STEP) runs go test. What it says is summed up, and kept for hack/steps.
gotest = mkdir -p .cache/steps && $(TESTSUM)/gotestsum --format pkgname --format-hide-empty-pkg \
	--jsonfile .cache/steps/$(1).json -- $(QUICK) -timeout $(TEST_TIMEOUT) $(if $(filter-out off,$(SHUFFLE)),-shuffle=$(SHUFFLE))
steps = TESTSUM=$(TESTSUM)/gotestsum SHUFFLE=$(SHUFFLE) MAKE='$(MAKE)' hack/steps

# What "make check" compares the work tree with.
BASE ?= main

# What "make chaos" runs: the tests whose names match, SEED from the environment.
CAMPAIGN ?= .
# Which part of a campaign: 2/3 is the second of three.
PART ?=
CHAOS_TIMEOUT ?= 12h
export SEED ?=

# How long "make fuzz" spends on each function.
FUZZTIME ?= 30s

# What "make race-short" runs: the packages that start goroutines, or hand something from one to another.
RACE_SHORT := ./pkg/backup ./pkg/controller ./pkg/database ./pkg/linstor/restclient ./pkg/metrics ./pkg/observe ./pkg/operator \
	./pkg/phases/nodelabels ./pkg/phases/step ./pkg/work ./test/sim

# Where "make vuln" looks known vulnerabilities up; also a directory, as file:///path.
VULNDB ?= https://vuln.go.dev

# What "make bench" measures.
NODES ?= 100
POOLS ?= 1
CANARY ?= false
VOLUMES ?= 0
POD_START ?= 0s
POD_SPREAD ?= 0s
LINSTOR_LATENCY ?= 0s
IDLE ?= 3m

# What "make generate" writes.
GENERATED := pkg/apis deploy/crds deploy/monitoring deploy/olm charts docs/state-diagrams \
	docs/remembered.md docs/approvals.md docs/api-reference.md
GO_DIRS := cmd docs hack pkg test

##@ Everyday

.PHONY: help
help: ## List the targets.
	@awk 'BEGIN { FS = ":.*## " } \
		/^##@/ { printf "\n%s\n", substr($$0, 5) } \
		/^[a-z0-9-]+:.*## / { printf "  %-12s %s\n", $$1, $$2 }' $(firstword $(MAKEFILE_LIST))

# Ctrl-C ends the demo well, and make with it: bash -m gives it the terminal and a process group of its own, so that make does
# not get the signal. Without a second command bash would become the program and do neither.
.PHONY: demo
demo: demo-binary ## Run the demo on a simulated cluster. DEMO_EXIT=1 exits at the end, SCENARIO=… runs another scenario (docs/tutorial.md).
	@export DEMO_EXIT='$(DEMO_EXIT)' SCENARIO='$(SCENARIO)'; \
		if [ -t 0 ]; then exec bash -mc '"$$0"; exit $$?' .cache/bin/demo; else exec .cache/bin/demo; fi

.PHONY: demo-binary
demo-binary:
	@echo 'Compiling the demo (two or three minutes on the first run) …'
	@$(GO) build -o .cache/bin/demo ./cmd/demo

.PHONY: check
check: $(LINT)/golangci-lint ## Run the checks that the changes since BASE=main can break (about two minutes).
	@$(GO) run ./hack/check -base $(BASE) -lint $(LINT)/golangci-lint \
		-parallel $(PARALLEL)

.PHONY: test
test: $(TESTSUM)/gotestsum ## Run all tests. The first run builds a control plane (a few minutes). SHUFFLE=on runs them in random order.
	@$(steps) test-unit test-alerts test-bundle test-chaos test-e2e

.PHONY: ci
ci: $(TESTSUM)/gotestsum ## Run everything that continuous integration runs, on the working tree.
	@$(steps) verify $(if $(CI),times) lint site-ci test-unit race-short test-alerts test-bundle test-chaos test-e2e

.PHONY: test-unit
test-unit: $(TESTSUM)/gotestsum kube s3 helm ## Run the tests that do not need a cluster, including the seed corpora of the fuzz tests.
	$(call gotest,test-unit) -parallel $(PARALLEL_TWO) $(TESTFLAGS) $$($(GO) list ./... | grep -Ev '/(cmd|test)(/|$$)') ./test/sim

# A module of its own, because of all that comes with Prometheus; see test/alerts/doc.go.
.PHONY: test-alerts
test-alerts: ## Test the alerts and the dashboard with the Prometheus engine. The first run builds it (one or two minutes).
	$(GO) -C test/alerts vet .
	$(GO) -C test/alerts test -vet=off $(TESTFLAGS) .

# Another one, because of all that comes with the operator framework. The bundle lies outside this module, where Go does
# not see that a file has changed: the variable makes it a declared input, else a cached result could hide a failure.
.PHONY: test-bundle
test-bundle: ## Check the OLM bundle with the Operator Framework validators. The first run builds them (one or two minutes).
	$(GO) -C test/bundle vet .
	BUNDLE_SUM=$$(cat deploy/olm/bundle/*/* | git hash-object --stdin) $(GO) -C test/bundle test -vet=off $(TESTFLAGS) .

# It has more tests at a time than processors can use, and nothing runs beside it.
.PHONY: test-chaos
test-chaos: $(TESTSUM)/gotestsum kube csi s3 ## Run the part of the fault campaigns that is included in every test run. "make chaos" runs the complete campaigns.
	$(call gotest,test-chaos) -parallel $(PARALLEL) $(TESTFLAGS) ./test/chaos

# The one that takes longest begins, and the others run beside it.
.PHONY: test-e2e
test-e2e: $(TESTSUM)/gotestsum kube csi s3 helm ## Run the end-to-end tests on the simulated cluster. RUN=TestInstall runs only matching tests.
	$(call gotest,test-e2e) $(if $(RUN),-parallel $(PARALLEL) -run '$(RUN)',-p 2 -parallel $(PARALLEL_TWO)) $(TESTFLAGS) \
		$(if $(RUN),./test/e2e,./test/e2e $$($(GO) list ./cmd/... ./test/... | grep -Ev '/test/(sim|e2e|chaos)$$'))

# The test builds what it needs. Without REAL_NODES it is skipped: "make test" must not start containers on the machine.
.PHONY: test-real
test-real: ## Test with real Kubernetes nodes on this machine. Requires root and the packages runc, nftables and iproute2.
	REAL_NODES=1 $(GO) test $(QUICK) -v -count=1 -timeout $(TEST_TIMEOUT) $(if $(RUN),-run '$(RUN)') $(TESTFLAGS) ./test/realnodes

# Neither DRBD nor LINSTOR is part of this repository. Without them the test is skipped, and says what it needs.
.PHONY: test-drbd
test-drbd: ## Test with a real DRBD and LINSTOR, in QEMU guests. Requires root, DRBD_MODULES=DIR and REAL_IMAGES=DIR (CONTRIBUTING.md).
	$(GO) test $(QUICK) -v -count=1 -timeout $(TEST_TIMEOUT) $(if $(RUN),-run '$(RUN)') $(TESTFLAGS) ./test/drbd

# The checker runs in pods of any image, so it is linked statically.
.PHONY: e2e-real
e2e-real: ## Test any Kubernetes cluster with a StorageCluster. KUBECONFIG=FILE names it; ARGS=--help lists the flags (docs/how-to/test-your-cluster.md).
	@CGO_ENABLED=0 GOOS=linux GOARCH=$(or $(NODE_ARCH),$(shell $(GO) env GOARCH)) $(GO) build -trimpath -o .cache/bin/iocheck ./test/iocheck/program
	@$(GO) build -o .cache/bin/e2e-real ./test/anycluster/program
	@.cache/bin/e2e-real --kubeconfig='$(KUBECONFIG)' --checker=.cache/bin/iocheck $(ARGS)

.PHONY: chaos
chaos: kube s3 ## Inject faults into the simulated cluster and check that no data is lost. CAMPAIGN=TestCrash PART=1/3 SEED=1 runs only a part (docs/chaos.md).
	CHAOS=full PART=$(PART) $(GO) test -p 1 ./test/chaos ./test/model -v -count=1 -parallel $(PARALLEL) -timeout $(CHAOS_TIMEOUT) -run '$(CAMPAIGN)' $(TESTFLAGS)

# Each package is built once for all its functions. "make test" runs the seeds, and what was found before, as usual tests.
.PHONY: fuzz
fuzz: ## Fuzz the code that parses external input, one function at a time. FUZZTIME=30s; failing inputs are stored in testdata/fuzz.
	@for dir in $$(grep -rl --include='*_test.go' '^func Fuzz' $(GO_DIRS) | xargs -n 1 dirname | sort -u); do \
		built=$(CURDIR)/.cache/fuzz/$$dir; mkdir -p $$built; $(GO) test -c -fuzz . -o $$built/fuzz.test ./$$dir || exit 1; \
		for name in $$(sed -n 's/^func \(Fuzz[A-Za-z0-9]*\)(.*/\1/p' $$dir/*_test.go); do \
			echo "$$dir $$name"; \
			(cd $$dir && $$built/fuzz.test -test.run '^$$' -test.fuzz "^$$name$$" -test.fuzztime $(FUZZTIME) -test.fuzzcachedir $$built) || { \
				echo "fuzz: $$name failed; commit the failing input in $$dir/testdata/fuzz together with the fix"; exit 1; }; \
		done; \
	done

.PHONY: race
race: ## Run the tests that do not need a cluster, with the race detector enabled.
	CGO_ENABLED=1 $(GO) test -race -timeout $(TEST_TIMEOUT) $(TESTFLAGS) $$($(GO) list ./... | grep -Ev '/(cmd|test)(/|$$)') ./test/sim

.PHONY: race-short
race-short: ## Run the race detector only on packages that use goroutines. "make race" covers all packages.
	CGO_ENABLED=1 $(GO) test -race $(QUICK) -timeout $(TEST_TIMEOUT) $(TESTFLAGS) $(RACE_SHORT)

.PHONY: bench
bench: kube ## Benchmark the operator. NODES=100 POOLS=1 CANARY=false VOLUMES=0 POD_START=0s POD_SPREAD=0s LINSTOR_LATENCY=0s IDLE=3m; the last line of the output is JSON.
	@$(GO) run ./test/bench -nodes $(NODES) -pools $(POOLS) -pod-start $(POD_START) -pod-spread $(POD_SPREAD) -linstor-latency $(LINSTOR_LATENCY) -idle $(IDLE) -canary=$(CANARY) -volumes $(VOLUMES)

# Runs as "make bench" takes them; what they print is kept, so that the table can be made again.
BENCH_RUNS ?= 3 100 1000 1000,POOLS=3 3,POD_START=30s,POD_SPREAD=10s 100,POD_START=30s,POD_SPREAD=10s 1000,POD_START=30s,POD_SPREAD=10s \
	100,LINSTOR_LATENCY=20ms 1000,LINSTOR_LATENCY=20ms
BENCH_RESULTS := .cache/bench.jsonl

.PHONY: bench-all
bench-all: ## Run all benchmarks for docs/performance.md (about an hour) and print the table.
	: > $(BENCH_RESULTS)
	for run in $(BENCH_RUNS); do \
		$(MAKE) -s bench NODES=$${run%%,*} $$(echo "$$run," | cut -d, -f2- | tr , ' ') > $(BENCH_RESULTS).last || exit 1; \
		tail -1 $(BENCH_RESULTS).last >> $(BENCH_RESULTS); \
	done
	$(GO) run ./test/bench -table < $(BENCH_RESULTS)

##@ Code

.PHONY: generate
generate: $(TOOLS)/controller-gen $(TOOLS)/crd-ref-docs ## Generate the deepcopy code, CRD, diagrams, docs/remembered.md, docs/approvals.md, alerts, chart, OLM bundle and API reference.
	$(TOOLS)/controller-gen object paths=./pkg/apis/...
	$(TOOLS)/controller-gen crd paths=./pkg/apis/... output:crd:dir=deploy/crds
	$(GO) run ./hack/crd
	$(GO) run ./cmd/diagrams
	$(GO) run ./hack/chart
	$(GO) run ./hack/bundle
	@if [ -e docs/crd-ref-docs.yaml ]; then set -x; \
		$(TOOLS)/crd-ref-docs --config docs/crd-ref-docs.yaml --source-path pkg/apis --renderer markdown \
			--output-path docs/api-reference.md --log-level WARN; \
		sed -i -E 's/^(\| `[A-Za-z0-9]+` \| )[A-Za-z0-9]+: (.*)\.<br \/> \|$$/\1\2 |/' docs/api-reference.md; fi # no names of Go constants

.PHONY: verify
verify: generate ## Check that the generated files are up to date and committed, and check formatting and go.mod.
	@status=$$(git status --porcelain --untracked-files=all -- $(GENERATED)) || exit 1; \
	stale=$$(echo "$$status" | grep -v '^[AMDR]  '); \
	if [ -n "$$stale" ]; then \
		git --no-pager diff -- $(GENERATED); \
		echo "$$stale"; echo "verify: 'make generate' changed the files listed above; review and commit them"; exit 1; fi
	@bad=$$("$$($(GO) env GOROOT)/bin/gofmt" -l $(GO_DIRS)) && if [ -n "$$bad" ]; then \
		echo "$$bad"; echo "verify: run gofmt -w on these files"; exit 1; fi
	$(GO) mod tidy -diff

# What golangci-lint found out about packages is in the user's cache directory, beside Go's build cache: a fresh checkout
# does not look at those of other modules again, which is more than half of the work.
.PHONY: lint
lint: $(LINT)/golangci-lint $(VALE)/vale ## Run golangci-lint, including go vet, and check size limits (hack/budget) and English (hack/prose).
	$(LINT)/golangci-lint config verify
	$(LINT)/golangci-lint run ./...
	@$(GO) test ./hack/budget || { echo 'lint: split the packages, files or types listed above; there are no exceptions'; exit 1; }
	$(VALE)/vale --no-global --config=hack/prose/vale.ini $$(git ls-files '*.md')
	@$(GO) test ./hack/prose

.PHONY: site
site: ## Build the documentation site in .cache/site/html and check its links. Requires Python 3.10 or newer with venv.
	@hack/site/build

# No failure where Python or its packages cannot be had: the network must not stop a change. "make test-unit" follows the
# links and reads the navigation in any case.
.PHONY: site-ci
site-ci:
	@hack/site/build --if-possible

# The recording takes its place once the demo has ended well. Not $(MAKE): make runs a line with that even under -n.
.PHONY: recording
recording: ## Record the demo and render the recording as docs/demo.svg.
	@$(GO) build -o .cache/bin/recording ./hack/recording
	@bash -o pipefail -c 'make --no-print-directory demo DEMO_EXIT=1 | .cache/bin/recording -record .cache/demo.cast'
	@mv .cache/demo.cast docs/demo.cast
	@.cache/bin/recording -draw docs/demo.cast > docs/demo.svg

# For a checkout that nobody edits: a date of twenty years ago, and a file that changes under an editor, confuse people.
.PHONY: times
times:
	@$(GO) run ./hack/times

# Without the database there is nothing to compare with: that is said and is no failure. The tool prints when its database
# was updated only if it answers.
.PHONY: vuln
vuln: $(VULN)/govulncheck ## Check the code that the operator calls for known vulnerabilities. VULNDB=https://vuln.go.dev
	@about=$$($(VULN)/govulncheck -db '$(VULNDB)' -version) || exit 1; \
	if ! echo "$$about" | grep -q '^DB updated: '; then \
		echo 'vuln: SKIPPED, nothing was checked: the vulnerability database $(VULNDB) does not respond'; exit 0; fi; \
	$(VULN)/govulncheck -db '$(VULNDB)' ./cmd/operator || { \
		echo 'vuln: update the modules or the Go toolchain listed above to a fixed version; for any other error, see its message'; exit 1; }

##@ Build

.PHONY: build
build: ## Build bin/operator.
	CGO_ENABLED=0 $(GO) build -ldflags '-s -w -X main.version=$(VERSION)' -o bin/operator ./cmd/operator

.PHONY: plugin
plugin: ## Build the kubectl plugin (bin/kubectl-linstor) and its completion script. Add bin to PATH to use "kubectl linstor".
	CGO_ENABLED=0 $(GO) build -ldflags '-s -w -X main.version=$(VERSION)' -o bin/kubectl-linstor ./cmd/kubectl-linstor
	install -m 755 cmd/kubectl-linstor/kubectl_complete-linstor bin/kubectl_complete-linstor

.PHONY: image
image: ## Build the operator image as dist/operator-image.tar, for "docker load". Does not require Docker.
	$(GO) run ./hack/release -image dist/operator-image.tar -arch $$($(GO) env GOARCH) -version '$(VERSION)'

.PHONY: release
release: ## Build all release artifacts in dist/VERSION. VERSION=v0.2.0 REGISTRY=registry.example.com/storage
	$(GO) run ./hack/release -version '$(VERSION)' -registry '$(REGISTRY)'

.PHONY: kube
kube: ## Build the control plane for the tests and the demo, unless it already exists.
	$(GO) run ./test/simcluster/buildkube

.PHONY: csi
csi: ## Build the CSI sidecars and csi-sanity for the tests, unless they already exist.
	$(GO) run ./test/simcluster/buildkube -csi

.PHONY: s3
s3: ## Build the S3 server for the tests, unless it already exists.
	$(GO) run ./test/simcluster/buildkube -s3

.PHONY: helm
helm: ## Build Helm, unless it already exists.
	$(GO) run ./test/simcluster/buildkube -helm

.PHONY: clean
clean: ## Remove everything that was built in this checkout: bin, dist and .cache.
	rm -rf bin dist .cache

.PHONY: clean-all
clean-all: clean ## Also remove what all checkouts share: tools, the control plane and other binaries for the tests.
	rm -rf $(CACHE)

# A pattern rule with two targets runs once for both.
%/controller-gen %/crd-ref-docs:
	$(GO) -C hack/tools build -ldflags '-s -w' -o $*/ tool

%/gotestsum:
	$(GO) -C hack/testsum build -ldflags '-s -w' -o $*/ tool

%/golangci-lint:
	$(GO) -C hack/lint build -ldflags '-s -w' -o $*/ tool

%/vale:
	$(GO) -C hack/prose/vale build -ldflags '-s -w' -o $*/ tool

%/govulncheck:
	$(GO) -C hack/vuln build -ldflags '-s -w' -o $*/ tool
