# Needs Python 3.11 or newer (with venv), git and make; everything else is installed into $(VENV).
#   make test PYTHON=python3.12              another Python (a venv already made keeps its own)
#   make test VENV=.venv-3.12                another venv
#   make test ARGS="tests/store -k claim"    arguments for pytest

.DEFAULT_GOAL := help
.PHONY: help demo test deep lint format generate typing spec spec-deep spec-equality docs lock FORCE
.DELETE_ON_ERROR:

VENV := .venv
PY := $(VENV)/bin/python
ARGS ?=
# Processes that the tests are shared among; 0 for this one alone (then --pdb works).
WORKERS ?= 2
SHARED = -n $(WORKERS) --dist worksteal
# no: tests run without coverage, in less time.
MEASURE ?= yes
MIN_COVERAGE ?= 0
# Of lines and branches of what the guarantee stands on.
MIN_CORE_COVERAGE ?= 0
CORE := */jobfence/statemachine/*,*/jobfence/store/*
PIP := $(PY) -m pip install -qq --disable-pip-version-check

# Each candidate is run, not only looked up: a version manager may put a name on PATH that then refuses to start.
PYTHON ?= $(shell for python in python3.13 python3.12 python3.11 python3; do \
	if $$python -c 'import sys; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1; \
	then echo $$python; break; fi; done)

help: ## Print this message
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-13s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

demo: $(VENV)/.installed-demo ## Show jobs survive a killed worker, on SQLite
	@$(VENV)/bin/jobfence demo

test: $(VENV)/.installed-spec ## All tests, with coverage, on every database that answers
ifeq ($(MEASURE),no)
	$(PY) -m pytest $(SHARED) $(ARGS)
else
	$(PY) -m coverage erase
	$(PY) -m coverage run -m pytest $(SHARED) $(ARGS)
	$(PY) -m coverage combine --quiet
	$(PY) -m coverage report --fail-under=$(MIN_COVERAGE)
	@echo "state machine and store:"
	$(PY) -m coverage report --include='$(CORE)' --fail-under=$(MIN_CORE_COVERAGE) --precision=1
endif

deep: $(VENV)/.installed-deep ## Suite, races, soaks and mutants at length; results of mutants go to docs/results
	HYPOTHESIS_PROFILE=deep $(PY) -m pytest model_tests -m "deep or not deep" $(SHARED) $(ARGS)
	$(PY) -m pytest tests -v -m deep $(SHARED) $(ARGS)
	$(PY) -m tools.mutation

lint: $(VENV)/.installed-dev ## Format, lint and import contracts
	$(VENV)/bin/ruff format --check .
	$(VENV)/bin/ruff check .
	$(VENV)/bin/lint-imports

format: $(VENV)/.installed-dev ## Format, and mend what the linter can mend
	$(VENV)/bin/ruff format .
	$(VENV)/bin/ruff check --fix .

generate: $(VENV)/.installed-dev ## Write what is made from the table of transitions
	$(PY) -m tools.generate

typing: $(VENV)/.installed-dev ## mypy --strict
	$(VENV)/bin/mypy

spec: $(VENV)/.installed-spec ## Check the formal model, and that the store in memory has its graph (needs Java)
	$(PY) spec/run.py --induction
	$(PY) spec/run.py

spec-equality: $(VENV)/.installed-spec ## Of the formal model, the graph of the store in memory alone (needs Java)
	$(PY) spec/run.py --equality

spec-deep: $(VENV)/.installed-spec ## Each part of each property, the small models each in a JVM of its own, the large bounds
	$(PY) spec/run.py --conjuncts
	$(PY) spec/run.py --alone
	$(PY) spec/run.py --deep

docs: $(VENV)/.installed-dev ## Build the documentation; a warning is an error
	$(VENV)/bin/sphinx-build -W --keep-going -q docs docs/_build

lock: $(VENV)/.installed-dev ## Renew constraints.txt (no index address is written)
	$(PIP) uv
	$(VENV)/bin/uv pip compile pyproject.toml --all-extras --group dev --group mutation --universal --python-version 3.11 \
		--no-annotate --no-header --upgrade --quiet --output-file constraints.txt

# The stamps are touched last: an interrupted install is done again. A venv whose Python has gone is made anew.
ifneq ($(wildcard $(VENV)/.made),)
ifneq ($(shell $(PY) -c 'print(1)' 2>/dev/null),1)
$(VENV)/.made: FORCE
endif
endif

$(VENV)/.made:
	@test -n "$(PYTHON)" || { echo "jobfence needs Python 3.11 or newer: install it, or name it: make PYTHON=/path/to/python" >&2; exit 1; }
	@echo "Making $(VENV) with $(PYTHON)"
	@$(PYTHON) -m venv $(if $(wildcard $(VENV)/pyvenv.cfg),--clear) $(VENV)
	@# Dependency groups (PEP 735) need pip 25.1; the pip that venv brings may be older.
	@$(PIP) --upgrade 'pip>=25.1'
	@touch $@

$(VENV)/.installed-demo: $(VENV)/.made pyproject.toml constraints.txt
	@echo "Installing jobfence into $(VENV)"
	@$(PIP) --constraint constraints.txt --editable '.[cli]'
	@touch $@

$(VENV)/.installed-dev: $(VENV)/.made pyproject.toml constraints.txt
	@echo "Installing jobfence and its development tools into $(VENV)"
	@$(PIP) --constraint constraints.txt --editable '.[all]' --group dev
	@touch $(VENV)/.installed-demo $@

$(VENV)/.installed-deep: $(VENV)/.installed-spec
	@$(PIP) --constraint constraints.txt --group mutation
	@touch $@

$(VENV)/.installed-spec: $(VENV)/.installed-dev spec/requirements.txt
	@$(PIP) --no-deps --require-hashes --requirement spec/requirements.txt
	@touch $@
