# Everything runs with Go, git, make and bash alone; `make help` lists it.
SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help

# Tools have a module of their own, so that what they need stays out of giro's.
TOOL := go tool -modfile=internal/tools/go.mod

# The race detector needs a C compiler. Under CI it is not optional.
ifeq ($(CI),true)
RACE := -race
else
RACE := $(if $(shell command -v cc || command -v gcc),-race)
endif

# One setting for everything but tests, so that what one target has compiled
# serves the others too.
export CGO_ENABLED := 0

# SQLite and its C library are code translated by a machine. Instrumenting it
# for the race detector takes minutes and finds nothing of ours.
UNRACED := '-gcflags=modernc.org/sqlite/lib=-race=false' '-gcflags=modernc.org/libc=-race=false'

SUMMARY := go run internal/tools/testsum/main.go

ARGS ?=
PACKAGES ?= ./...

.PHONY: help
help: ## list the targets
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | awk -F ':.*## ' '{ printf "  make %-18s %s\n", $$1, $$2 }'

.PHONY: build
build: ## build bin/giro
	@go build -buildvcs=false -o bin/giro ./cmd/giro

.PHONY: demo
demo: build ## build, then play the demo; ARGS='--store postgres' plays it on PostgreSQL
	@bin/giro demo $(ARGS)

.PHONY: test
test: ## run all tests; PACKAGES='./internal/...' runs some
	@$(if $(RACE),,echo "test: no C compiler, so WITHOUT the race detector")
	@$(if $(RACE),CGO_ENABLED=1) go test -json $(if $(RACE),$(RACE) $(UNRACED)) -count=1 $(PACKAGES) | $(SUMMARY)

.PHONY: bench-participant
bench-participant: build ## measure accountsvc beside pgbench, 20 minutes; ARGS='--rows 100000 --seconds 1 --repeats 1' is quick
	@go run ./internal/bench/participant --giro bin/giro --json bin/bench-participant.json --svg bin/bench-participant.svg $(ARGS)

.PHONY: chaos-participant
chaos-participant: ## attack 4 replicas of accountsvc for a minute (make test does for 4 s); ARGS='-chaos.seed N' draws as run N did
	@$(if $(RACE),CGO_ENABLED=1) go test $(if $(RACE),$(RACE) $(UNRACED)) -count=1 -v ./cmd/giro/chaos -chaos.for 60s $(ARGS)

.PHONY: generate
generate: ## regenerate the code and the documents that are made from code
	@$(TOOL) buf generate
	@go generate ./...

.PHONY: lint
lint: ## lint the protos and the code
	@$(TOOL) buf lint
	@$(TOOL) golangci-lint run

.PHONY: verify
verify: ## check what must hold of the source: generated code, format, modules, lint, the rules of the house
	@echo "verify: generated code and documents"; internal/tools/stale.sh
	@echo "verify: gofmt"; unformatted=$$(git ls-files -co --exclude-standard -- '*.go' | xargs gofmt -l); \
		if [[ -n "$$unformatted" ]]; then echo "not gofmt'ed:" $$unformatted; exit 1; fi
	@echo "verify: go vet"; go vet ./...
	@echo "verify: go mod tidy"; go mod tidy -diff
	@echo "verify: rules of the house"; go test -count=1 ./internal/archtest
	@echo "verify: lint"; $(MAKE) --no-print-directory lint

.PHONY: clean
clean: ## remove what was built
	@rm -rf bin
