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
export CGO_ENABLED := $(if $(RACE),1,0)

ARGS ?=
PACKAGES ?= ./...

.PHONY: help
help: ## list the targets
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | awk -F ':.*## ' '{ printf "  make %-10s %s\n", $$1, $$2 }'

.PHONY: build
build: ## build bin/giro
	@CGO_ENABLED=0 go build -trimpath -buildvcs=false -o bin/giro ./cmd/giro

.PHONY: demo
demo: build ## build, then play the demo; ARGS='--store postgres' plays it on PostgreSQL
	@bin/giro demo $(ARGS)

.PHONY: test
test: ## run all tests; PACKAGES='./internal/...' runs some
	@$(if $(RACE),,echo "test: no C compiler, so WITHOUT the race detector")
	@go test -json $(RACE) -count=1 $(PACKAGES) | go run internal/tools/testsum/main.go

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
