# Everything runs in .venv, which is made with exactly the pinned versions of constraints.txt.
PYTHON ?= python3.11
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
CODE := benchmarks cli docs leap models pipeline store tests

.PHONY: help setup reproduce results test test-all lint format docs bench clean

help:
	@echo "make reproduce  run the whole pipeline on the embedded datasets through DVC"
	@echo "make results    train the paper's tables on the real data and write docs/results (hours)"
	@echo "make test       run the tests (a few minutes)"
	@echo "make test-all   run the slow tests too"
	@echo "make lint       check style and types"
	@echo "make docs       put the real output of every example into the documents"
	@echo "make bench      measure against naive peers; results and figures go to bench/"
	@echo "make clean      remove the store, the report and caches, not the environment"

setup: $(STAMP)

$(STAMP): pyproject.toml constraints.txt
	@command -v $(PYTHON) >/dev/null || { echo "Python 3.11 or newer is needed; set PYTHON=/path/to/python3."; exit 1; }
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable '.[dev]'
	$(BIN)/python -m leap.models.warm_up
	touch $@

# A tree without git, such as a downloaded archive, is fine if DVC knows; git ignores .dvc/config.local.
reproduce: setup
	@$(BIN)/dvc config --local core.no_scm $$(test -e .git && echo false || echo true)
	PATH="$(abspath $(BIN)):$$PATH" $(BIN)/dvc repro
	@echo "Done. The report is $(CURDIR)/report/index.html"

# What docs/results keeps. Others: make results PRESETS=paper-projections OPTIONS=
PRESETS := paper-main paper-hops paper-dimension paper-dect paper-synthetic
OPTIONS := --seeds 3
results: setup
	for preset in $(PRESETS); do \
		$(BIN)/leap sweep $$preset $(OPTIONS) || exit 1; \
		$(BIN)/leap report --sweep $$preset --export docs/results/$$preset || exit 1; \
	done

# The tests of a file run in one process, which makes what they share once, in the order of tests/conftest.py. Tests
# start hundreds of processes; bytecode is kept for them, even where the environment says otherwise.
PYTEST := PYTHONDONTWRITEBYTECODE= $(BIN)/pytest -n 2 --dist loadfile --no-loadscope-reorder
test: setup
	$(PYTEST) -m "not slow"

test-all: setup
	$(PYTEST)

lint: setup
	mkdir -p .typing && ln -sfn .. .typing/leap
	$(BIN)/ruff check $(CODE)
	$(BIN)/ruff format --check $(CODE)
	$(BIN)/mypy -p leap.store -p leap.pipeline -p leap.models -p leap.cli -p benchmarks

format: setup
	$(BIN)/ruff check --fix $(CODE)
	$(BIN)/ruff format $(CODE)

docs: setup
	$(BIN)/python docs/generate_cli.py
	$(BIN)/python docs/examples.py --write

bench: setup
	$(BIN)/python -m benchmarks $(PARTS) --out bench

clean:
	rm -rf .leap bench report dvc_plots .pytest_cache .mypy_cache .ruff_cache .hypothesis build *.egg-info
