# Everything happens in .venv, made on first use; only Python (3.11 or newer) and make are
# needed beforehand. `make demo PYTHON=python3.12` chooses another interpreter,
# `make test PYTEST_ARGS='-k kernels'` passes options on to pytest.

PYTHON ?= python3
PYTEST_ARGS ?=
SOAK_ARGS ?= --minutes 10
VENV := .venv
BIN := $(VENV)/bin
RUNTIME := $(VENV)/.installed-plot
TOOLS := $(VENV)/.installed-dev

.DEFAULT_GOAL := help
.PHONY: help demo test coverage branches soak bench lint docs clean experiments peers

PEERS := $(basename $(notdir $(wildcard experiments/environments/*.txt)))

help: ## this list
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "make %-6s %s\n", $$1, $$2 }' Makefile

demo: $(RUNTIME) ## fit two million points, print a table, write demo.png
	$(BIN)/python -m asvgp.demo

# Workers take half of what the other has left when they are done, in the order of the files, so
# that both end together and seldom share a file, its fits and its compiled functions. Each keeps
# to one thread for dense matrices: several would only get in each other's way.
PYTEST := OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n auto --dist worksteal

test: $(TOOLS) ## the whole test suite on all cores
	$(PYTEST) $(PYTEST_ARGS)

coverage: $(TOOLS) ## the whole test suite, and which lines it reaches
	$(PYTEST) --cov $(PYTEST_ARGS)

# Instructions are generated only where something is compiled, so the tests of the generators run
# both ways and the two counts are joined. `inner.py` and its like would count as missed otherwise.
# Less than what `pure_python.ini` names as the least is a failure.
LINALG_COVERAGE := $(BIN)/python -m coverage run --rcfile=tests/linalg/pure_python.ini
branches: export OMP_NUM_THREADS = 1
branches: export COVERAGE_FILE = .coverage.linalg
branches: $(TOOLS) ## lines and branches of the linear algebra that its tests reach, uncompiled
	NUMBA_DISABLE_JIT=1 $(LINALG_COVERAGE) -m pytest -q -n 0 tests/linalg
	NUMBA_CACHE_DIR=$$(mktemp -d) $(LINALG_COVERAGE) --append -m pytest -q -n 0 \
		tests/linalg/test_blas.py tests/linalg/test_unrolled.py \
		tests/linalg/test_denormals.py tests/linalg/test_accumulate.py
	$(BIN)/python -m coverage report --rcfile=tests/linalg/pure_python.ini

soak: $(TOOLS) ## random models, files, interrupts and kills; SOAK_ARGS='--minutes 120 --seed 1'
	OMP_NUM_THREADS=1 $(BIN)/python -m tests.soak $(SOAK_ARGS)

bench: $(TOOLS) ## speed beside celerite2 and bare memory traffic, as ratios
	$(BIN)/python benchmarks/one_input.py

experiments: $(TOOLS) ## the paper's tables and figures, and the peers that are installed
	$(BIN)/python -m experiments $(if $(FULL),--full)

experiment-%: $(TOOLS)
	$(BIN)/python -m experiments $* $(if $(FULL),--full)

peers: $(addprefix peer-,$(PEERS)) ## environments for other packages, under .venvs

peer-%: experiments/environments/%.txt
	$(PYTHON) -m venv .venvs/$*
	.venvs/$*/bin/python -m pip install --quiet --requirement $<

lint: $(TOOLS) ## formatting, lint and types
	$(BIN)/ruff format --check
	$(BIN)/ruff check
	$(BIN)/pyright

docs: $(TOOLS) ## the documentation, into site/
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict

clean: ## remove what the other targets wrote, except .venv
	rm -rf site htmlcov dist demo.png .coverage .pytest_cache .ruff_cache .hypothesis
	find src tests -name __pycache__ -type d -prune -exec rm -rf {} +
	if [ -d benchmarks ]; then find benchmarks -name __pycache__ -type d -prune -exec rm -rf {} +; fi

$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
		|| { echo "Python 3.11 or newer is needed: make PYTHON=/path/to/python ..." >&2; exit 1; }
	$(PYTHON) -m venv $(VENV)

$(RUNTIME): pyproject.toml | $(BIN)/python
	$(BIN)/python -m pip install --quiet --editable '.[plot]'
	@touch $@

$(TOOLS): pyproject.toml | $(BIN)/python
	$(BIN)/python -m pip install --quiet --editable '.[dev,docs]'
	@touch $@ $(RUNTIME)
