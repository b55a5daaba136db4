# One command for each thing; `make` alone lists them. A machine needs Python 3.11 or newer with pip, and make.
# Everything is installed into this folder (.venv, .tools); nothing is downloaded as an interpreter.

.DEFAULT_GOAL := help
MAKEFLAGS += --no-print-directory

VENV := .venv
BIN := $(VENV)/bin
TOOLS := $(CURDIR)/.tools
FRAMEWORKS := .cache/frameworks
UV_VERSION := 0.13.9

# The first interpreter that is new enough; `make PYTHON=python3.12 ...` chooses another.
ifeq ($(origin PYTHON),undefined)
PYTHON := $(shell for p in python3 python3.13 python3.12 python3.11 python3.14 python; do \
	"$$p" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && { echo "$$p"; break; }; done)
endif

# uv as it stands on the machine, else our own, installed by pip into .tools.
ifeq ($(origin UV),undefined)
UV := $(shell uv --version >/dev/null 2>&1 && command -v uv || echo '$(TOOLS)/uv/bin/uv')
endif

export PATH := $(TOOLS)/uv/bin:$(PATH)
export UV_PYTHON_DOWNLOADS := never
export UV_PROJECT_ENVIRONMENT := $(VENV)
unexport VIRTUAL_ENV

BASE_PYTHON = "$$('$(PYTHON)' -c 'import sys; print(getattr(sys, "_base_executable", "") or sys.executable)')"
# $(call sync,OPTIONS): from uv's own cache where it has everything, so that no index need be reached; else from the index.
sync = '$(UV)' sync --offline --quiet $(1) 2>/dev/null || '$(UV)' sync $(1)
LOCKED = --locked --python $(BASE_PYTHON)
SOURCES := bridge runner cli
CODE := $(wildcard $(SOURCES) scripts benchmarks rollouts tests)
# The whole suite runs on each core, up to four, a file at a time and in the order of the files: those that come last
# are short, so that no core is left alone with a long one. With ARGS it is a few tests as a rule, and one process
# begins sooner than several.
ON_EACH_CORE := -n logical --maxprocesses 4 --dist loadfile --no-loadscope-reorder

# A recipe line for each target that has a description after two hashes, in the order of this file.
.PHONY: help
help: ## list what can be done here
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-18s %s\n", $$1, $$2 }' $(firstword $(MAKEFILE_LIST))

.PHONY: setup
setup: $(VENV)/.ready-dev ## install everything needed to work on the project, into .venv

.PHONY: quickstart
quickstart: $(VENV)/.ready-run ## set up, then evaluate the quickstart agent on a real small model
	$(BIN)/osmosis eval run configs/eval/quickstart.toml --yes

.PHONY: test
test: $(VENV)/.ready-dev ## run the tests (ARGS="-k name" hands options to pytest)
	$(BIN)/python -m pytest -q $(or $(ARGS),$(ON_EACH_CORE))

.PHONY: conformance
conformance: $(VENV)/.ready-dev ## hold the bridge to every scripted exchange
	$(BIN)/python -m pytest -q tests/conformance $(ARGS)

.PHONY: conformance-peers
conformance-peers: $(VENV)/.ready-dev | $(UV) ## hold other proxies to them as well, each installed on first use
	$(BIN)/python scripts/conformance_peers.py $(ARGS)

.PHONY: interop
interop: $(VENV)/.ready-dev | $(UV) ## run rollouts of the real osmosis-ai, and ours under its supervisor
	$(BIN)/python -m pytest -q -m interop tests/interop $(or $(ARGS),-n logical --maxprocesses 2 --dist loadgroup)

.PHONY: faults
faults: $(VENV)/.ready-dev ## break the k-th read, write and connect, for every k
	$(BIN)/python -m pytest -q tests/faults $(ARGS)

.PHONY: frameworks
frameworks: | check-python $(UV) ## let agent frameworks drive the bridge, in an environment of their own
	@export UV_PROJECT_ENVIRONMENT=$(FRAMEWORKS); $(call sync,$(LOCKED) --no-default-groups --group frameworks --extra native)
	$(FRAMEWORKS)/bin/python -m pytest -q -m frameworks -W ignore tests/e2e/test_frameworks.py tests/e2e/test_native_frameworks.py $(ARGS)

.PHONY: fmt
fmt: $(VENV)/.ready-dev ## format the code and apply the fixes that are safe
	$(BIN)/ruff format $(CODE)
	$(BIN)/ruff check --fix $(CODE)

.PHONY: lint
lint: $(VENV)/.ready-dev ## check format and lint
	$(BIN)/ruff format --check $(CODE)
	$(BIN)/ruff check $(CODE)

.PHONY: types
types: $(VENV)/.ready-dev ## check types: strict for sources, basic for tests
	$(BIN)/pyright

.PHONY: imports
imports: $(VENV)/.ready-dev ## check who imports whom
	$(BIN)/lint-imports --no-cache

.PHONY: gates
gates: $(VENV)/.ready-dev ## check the shape of the code, and that tests mirror sources
	$(BIN)/python scripts/check_shape.py $(SOURCES)
	$(BIN)/python scripts/check_mirror.py

.PHONY: docker-check
docker-check: $(VENV)/.ready-dev ## run the Dockerfile's steps in a clean environment, without Docker
	$(BIN)/python -m pytest -q -m docker_steps tests/unit/house $(ARGS)

.PHONY: soak
soak: $(VENV)/.ready-dev ## 50,000 mixed calls with clients that leave: memory flat, each recorded once
	$(BIN)/python scripts/soak.py $(ARGS)

.PHONY: docs
docs: $(VENV)/.ready-dev ## write anew the pages that are made from the code
	$(BIN)/python scripts/refresh_cli_docs.py
	$(BIN)/python scripts/refresh_openapi.py

.PHONY: bench
bench: $(VENV)/.ready-dev ## measure bridge and runner beside the peers that are there, in under five minutes
	$(BIN)/python -m benchmarks quick $(ARGS)

.PHONY: bench-full
bench-full: $(VENV)/.ready-dev $(UV) ## the same at length beside every peer; installs them, takes half an hour
	$(BIN)/python -m benchmarks full $(ARGS)

.PHONY: all
all: lint types imports gates docker-check interop frameworks test ## everything that .ci/run checks

.PHONY: clean
clean: ## remove what make installed and what tools cached here (runs under .osmosis stay)
	rm -rf $(VENV) .tools .cache .pytest_cache .ruff_cache .hypothesis .import_linter_cache build dist
	find $(CODE) -name __pycache__ -type d -prune -exec rm -rf {} +

.PHONY: check-python
check-python:
	@test -n "$(PYTHON)" || { echo "No Python 3.11 or newer was found. Install one, or name it: make PYTHON=/path/to/python3.12" >&2; exit 1; }
	@'$(PYTHON)' -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
		{ echo "$(PYTHON) is not Python 3.11 or newer; name another: make PYTHON=python3.12" >&2; exit 1; }

$(TOOLS)/uv/bin/uv: | check-python
	@'$(PYTHON)' -m pip --version >/dev/null 2>&1 || \
		{ echo "$(PYTHON) has no pip, which installs uv; install pip (Debian: python3-pip) or uv itself" >&2; exit 1; }
	@echo "installing uv $(UV_VERSION) into .tools"
	@rm -rf '$(TOOLS)/uv'
	@PIP_USER=0 PIP_REQUIRE_VIRTUALENV=0 '$(PYTHON)' -m pip install -qq --disable-pip-version-check \
		--root-user-action ignore --no-deps --target '$(TOOLS)/uv' 'uv==$(UV_VERSION)'

# What a user needs, and what a developer needs on top. The first keeps what the second installed.
$(VENV)/.ready-run: pyproject.toml uv.lock | check-python $(UV)
	@echo "installing into $(VENV): what a user needs"
	@$(call sync,$(LOCKED) --inexact --no-dev --extra local --extra openai)
	@touch $@

$(VENV)/.ready-dev: pyproject.toml uv.lock | check-python $(UV)
	@echo "installing into $(VENV): what a developer needs"
	@$(call sync,$(LOCKED) --extra local --extra openai --extra native --extra parquet)
	@touch $@ $(VENV)/.ready-run
