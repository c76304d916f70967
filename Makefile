# SPDX-License-Identifier: Apache-2.0
MAKEFLAGS += --no-builtin-rules --no-print-directory
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:

BIN := .venv/bin
READY := .venv/.palyra-setup
STEP := @sh scripts/step.sh
CODE = $(wildcard src tests bench scripts)
CORES = $(shell nproc 2>/dev/null || echo 2)

# The newest Python that can make a virtual environment; override with PYTHON=...
PYTHON ?= $(shell for python in python3.14 python3.13 python3.12 python3.11 python3; do \
	$$python -c 'import ensurepip, sys, venv; sys.exit(sys.version_info < (3, 11))' \
	2>/dev/null && echo $$python && break; done)

.PHONY: help
help: ## Show this list
	@awk -F ':.*## ' '/^[a-z]+:.*## / {printf "make %-8s %s\n", $$1, $$2}' Makefile

# --- Set-up ------------------------------------------------------------------------------------

.PHONY: setup
setup: warn-root $(READY) ## Create .venv with the locked dependencies
	@echo "set-up is current: .venv with $$($(BIN)/python --version)"

.PHONY: warn-root
warn-root:
	@test "$$(id -u)" -ne 0 || echo "warning: running as root; an ordinary user is safer" >&2

.PHONY: need-python
need-python:
	@test -n "$(PYTHON)" || { echo "Python 3.11 or newer with its venv module is needed" \
		"(on Debian: apt install python3 python3-venv)" >&2; exit 1; }

$(READY): requirements/run.lock requirements/dev.lock pyproject.toml
	@$(BIN)/python -m pip --version >/dev/null 2>&1 || $(MAKE) .venv
	$(STEP) "install $$(grep -c == requirements/dev.lock) locked packages" \
		$(BIN)/python -m pip install -qq --disable-pip-version-check --no-input \
		--no-deps --require-hashes -r requirements/dev.lock
	$(STEP) "install palyra from this folder" \
		$(BIN)/python -m pip install -qq --disable-pip-version-check --no-input \
		--no-deps --no-index --no-build-isolation --editable .
	@touch $@

.PHONY: .venv
.venv: need-python
	$(STEP) "create .venv with $(PYTHON)" $(PYTHON) -m venv --clear .venv

.PHONY: up
up: setup ## Set up, then walk one allowed and one denied call through the gate
	@$(BIN)/python -m palyra.daemon.first_run

# --- Tests and checks --------------------------------------------------------------------------

.PHONY: test
ifdef T
test: setup
	$(STEP) "test $(T)" $(BIN)/pytest $(T)
else
test: setup ## Run every check and test, or only T=path
	@$(MAKE) check
	$(STEP) "test everything" $(BIN)/pytest -n auto
endif

.PHONY: attack
attack: $(READY) ## Run the attack suite alone
	$(STEP) "attack" $(BIN)/pytest -n auto tests/attacks

CHECKS := check-types check-lint check-imports check-format check-mirror check-size check-changes

.PHONY: check
check: $(READY) ## Check format, lint, types, import contracts and house rules
	@$(MAKE) --keep-going --jobs=$(CORES) --output-sync=target $(CHECKS)

.PHONY: $(CHECKS)
check-types:
	$(STEP) "types" $(BIN)/mypy $(CODE)
check-lint:
	$(STEP) "lint" $(BIN)/ruff check --quiet $(CODE)
check-imports:
	$(STEP) "import contracts" $(BIN)/lint-imports --no-logo
check-format:
	$(STEP) "format" $(BIN)/ruff format --quiet --check $(CODE)
check-mirror:
	$(STEP) "tests mirror source" $(BIN)/python scripts/check_tests_mirror_source.py
check-size:
	$(STEP) "module size" $(BIN)/python scripts/check_module_size.py
check-changes:
	$(STEP) "changelog fragments" $(BIN)/python scripts/check_changelog_fragments.py

.PHONY: fix
fix: $(READY) ## Format the code and repair what lint can repair
	@$(BIN)/ruff check --fix-only --quiet $(CODE)
	@$(BIN)/ruff format $(CODE)

.PHONY: bench
bench: $(READY) ## Measure against the references, or only ONLY=name,name
	$(STEP) "benchmarks" $(BIN)/python -m bench $(if $(ONLY),--only $(ONLY))

# --- Upkeep ------------------------------------------------------------------------------------

COMPILE = compile --quiet --universal --python-version 3.11 --generate-hashes \
	--no-emit-index-url --no-header $(if $(UPGRADE),--upgrade)

.PHONY: generate
generate: setup ## Write the reference pages anew from the code
	@for page in cli_reference error_codes policy_reference settings_reference; do \
		$(BIN)/python -m scripts.generate_$$page; done

.PHONY: lock
lock: need-python ## Lock the dependencies again, to the newest with UPGRADE=1
	@tools=$$(mktemp -d) && trap 'rm -rf "$$tools"' EXIT && cd requirements && \
	$(PYTHON) -m venv "$$tools" && \
	"$$tools/bin/pip" install -qq --disable-pip-version-check uv && \
	"$$tools/bin/uv" pip $(COMPILE) run.in --output-file run.lock && \
	"$$tools/bin/uv" pip $(COMPILE) dev.in --output-file dev.lock

.PHONY: clean
clean: ## Remove .venv, caches and reports
	rm -rf .venv dist .coverage .coverage.* htmlcov bench/report.json
	rm -rf .hypothesis .import_linter_cache .mypy_cache .pytest_cache .ruff_cache
	find $(CODE) -name __pycache__ -prune -exec rm -rf {} +
