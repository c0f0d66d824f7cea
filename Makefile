# Every target sets up its own environment in .venv; nothing has to be installed or typed before.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check

.DEFAULT_GOAL := help
.PHONY: help demo test coverage check docs format bench fuzz dist newcomer clean

help:  ## list the targets
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "  make %-8s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

demo: $(VENV)/.demo  ## predictions with missing values, as a table and demo.png
	$(BIN)/expectedkernels demo

test: $(VENV)/.test  ## all tests, with the examples in docstrings, README and examples/
	# one BLAS thread per worker: more of them only wait for each other
	OPENBLAS_NUM_THREADS=1 OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n 2

coverage: $(VENV)/.coverage  ## all tests, and the lines that none of them reaches
	OPENBLAS_NUM_THREADS=1 OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n 2 \
	    --cov=expectedkernels --cov=studies --cov-report=term-missing:skip-covered

check: $(VENV)/.check  ## format, lint, types and layers
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports

docs: $(VENV)/.docs  ## the site in docs/_build/html, with the gallery run and every link checked
	# two scripts of the gallery at a time, with one BLAS thread each
	OPENBLAS_NUM_THREADS=1 OMP_NUM_THREADS=1 $(BIN)/python -m sphinx --quiet --fail-on-warning --keep-going docs docs/_build/html

format: $(VENV)/.check  ## format and fix in place
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

bench: $(VENV)/.test  ## timings beside the machine's own limit
	$(BIN)/python -m benchmarks

fuzz: $(VENV)/.test  ## 100 000 damaged files of every format, none of which may hurt a reader
	OPENBLAS_NUM_THREADS=1 OMP_NUM_THREADS=1 $(BIN)/python tests/file_fuzzing.py $(or $(COUNT),100000)

dist:  ## the source archive and the wheel of the last commit, tried in fresh environments
	PYTHON=$(PYTHON) .ci/dist

newcomer:  ## the way of a new user in an empty folder, with the seconds of each step
	PYTHON=$(PYTHON) .ci/newcomer

clean:  ## remove the environment and all caches
	rm -rf $(VENV) docs/_build docs/api docs/gallery .coverage .pytest_cache .hypothesis .mypy_cache .ruff_cache .import_linter_cache

# The stamps are older than pyproject.toml exactly when the environment may be out of date.
$(VENV)/.created:
	@$(PYTHON) -c 'import sys; sys.exit("expectedkernels needs Python 3.11 or newer, this is " \
	    + sys.version.split()[0] + ": try make PYTHON=python3.11" if sys.version_info < (3, 11) else 0)'
	$(PYTHON) -m venv --clear $(VENV)
	@touch $@

$(VENV)/.demo: pyproject.toml | $(VENV)/.created
	$(PIP) --editable '.[plot]'
	@touch $@

$(VENV)/.check: pyproject.toml | $(VENV)/.created
	$(PIP) --editable '.[plot,dev]'
	@touch $@

$(VENV)/.test: pyproject.toml .ci/constraints.txt | $(VENV)/.created
	$(PIP) --constraint .ci/constraints.txt --editable '.[test]'
	# peers whose own requirements are narrower than what they run with
	$(PIP) --no-deps 'libcirkit>=0.3' 'spflow>=1.1' fast_pytorch_kmeans
	@touch $@

$(VENV)/.docs: pyproject.toml .ci/constraints.txt | $(VENV)/.created
	$(PIP) --constraint .ci/constraints.txt --editable '.[docs]'
	@touch $@

$(VENV)/.coverage: $(VENV)/.test
	$(PIP) 'pytest-cov>=5.0'
	@touch $@
