# `make help` lists the targets. CI runs `make test`.

SHELL       := bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
.ONESHELL:

GO        ?= go
TIMEOUT   ?= 15m
FUZZTIME  ?= 5s
BENCH     ?= .
BENCHTIME ?= 2s
LINT      := $(GO) tool -modfile=.ci/tools/go.mod golangci-lint

.PHONY: help
help: ## this list
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 12

.PHONY: test
test: needs quick cross race ## all tests, as CI runs them; installs what they need

.PHONY: check
check: quick tidy lint ## format, vet, lint, rules of the repository; no other test

# needs installs strace and the like, or fails. ONCED_SKIP_SYSTEM=1 leaves out
# the tests that need them, with a notice.
.PHONY: needs
needs:
	@.ci/needs

# quick is what takes seconds, so that CI complains of it first.
.PHONY: quick
quick:
	@unformatted=$$(gofmt -l .)
	if [ -n "$$unformatted" ]; then echo "run gofmt -w on:" $$unformatted >&2; exit 1; fi
	$(GO) mod tidy -diff
	$(GO) mod verify
	$(GO) vet ./...

.PHONY: race
race:
	$(GO) test -race -timeout $(TIMEOUT) ./...

# cross builds for the small boards that onced also runs on. Vetting for a
# 32-bit machine finds constants and shifts that do not fit an int there, in
# tests too.
.PHONY: cross
cross:
	CGO_ENABLED=0 GOOS=linux GOARCH=arm64 $(GO) build ./...
	CGO_ENABLED=0 GOOS=linux GOARCH=arm GOARM=7 $(GO) build ./...
	CGO_ENABLED=0 GOOS=linux GOARCH=arm GOARM=7 $(GO) vet ./...

.PHONY: tidy
tidy: ## the rules of the repository: imports, sizes, documentation
	$(GO) test ./kv/kvtest/tidy

# The linter is built from source at the version that .ci/tools/go.mod pins;
# the first time takes minutes.
.PHONY: lint
lint: ## golangci-lint
	nice $(LINT) run ./...

# ORDERS=1000 places that many orders by itself and ends with the proof.
.PHONY: demo
demo: ## a shop and a gateway to break, with onced between them; ORDERS=1000 for a proof
	$(GO) run . demo $(if $(ORDERS),--orders=$(ORDERS))

.PHONY: mutants
mutants: ## all mistakes made on purpose, each of which a test must notice
	ONCED_MUTANTS=all $(GO) test -count=1 -v -timeout 90m -run '^TestMutants$$' ./kv/kvtest/mutant

.PHONY: fuzz
fuzz: ## every fuzz target for FUZZTIME (5s)
	.ci/fuzz $(FUZZTIME)

.PHONY: bench
bench: ## benchmarks; choose with BENCH=pattern BENCHTIME=2s
	$(GO) test -run '^$$' -bench '$(BENCH)' -benchtime $(BENCHTIME) -benchmem -timeout 60m ./...

.PHONY: cases
cases: ## the specified cases that have a test
	@.ci/cases
