# One-command entry points. Each sets up .venv by itself; nothing else is needed but Python, make and a compiler.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
STAMP  := $(VENV)/.installed
WORKERS ?= 2
# A worker takes a file at a time, so that what a file's tests share is made once; in the order of collection, which
# ends with files of seconds.
SPREAD := -n $(WORKERS) --dist loadfile --no-loadscope-reorder
QUICK := tests/transport tests/metrics tests/calibration tests/data tests/systems tests/models tests/training/test_trainer.py tests/cli
# The suite starts some hundred interpreters: without bytecode on disk each compiles the package again.
export PYTHONDONTWRITEBYTECODE =

.PHONY: demo test coverage test-slow test-oldest test-integrations test-browser first-tasks lint format bench docs clean

$(STAMP): pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade pip
	$(BIN)/python -m pip install --quiet --constraint constraints.txt torch
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable '.[dev]'
	touch $@

$(VENV)/.docs-installed: $(STAMP)
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable '.[docs,report]'
	touch $@

$(VENV)/.extras-installed: $(STAMP)
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable '.[sktime,neuralforecast,fev,statsforecast,chronos]'
	touch $@

$(VENV)/.browser-installed: $(STAMP)
	command -v chromium >/dev/null || apt-get install --yes --no-install-recommends chromium
	$(BIN)/python -m pip install --quiet --constraint constraints.txt playwright
	touch $@

demo: $(STAMP)   ## forecast a shocked system and a table, and show it on a page, demo/report.html
	$(BIN)/fern demo --out demo

test: $(STAMP)   ## the default suite
	$(BIN)/python -m pytest $(SPREAD)

coverage: $(STAMP)   ## the default suite with a report of the lines it runs, coverage/index.html
	$(BIN)/python -m pytest $(SPREAD) --cov fern --cov-report term:skip-covered --cov-report html:coverage

test-slow: $(STAMP)   ## what takes minutes: trainings and long measurements
	$(BIN)/python -m pytest -m slow

test-oldest:   ## quick tests with the oldest versions that pyproject.toml allows (OLDEST_BUT names those that pip may choose)
	$(PYTHON) -m venv .venv-oldest
	$(PYTHON) .ci/oldest.py $(OLDEST_BUT) > .venv-oldest/oldest.txt
	.venv-oldest/bin/python -m pip install --quiet --constraint .venv-oldest/oldest.txt --editable '.[dev]'
	.venv-oldest/bin/python -m pytest -n $(WORKERS) -W ignore::DeprecationWarning $(QUICK)

test-integrations: $(VENV)/.extras-installed   ## every test of other libraries, with all of them installed
	$(BIN)/python -m pytest -m '' tests/integrations
	$(BIN)/python -m pytest tests/test_documentation.py -k 'extra or integrations'

test-browser: $(VENV)/.browser-installed   ## the pages in headless Chromium (FERN_CHROMIUM names another)
	$(BIN)/python -m pytest -m browser tests/browser

first-tasks: $(STAMP)   ## the five first tasks of the documentation, each in an empty folder, with the time they take
	$(BIN)/python -m benchmarks.first_tasks

lint: $(STAMP)   ## format, lint and types
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/python -m pytest -q -m slow tests/test_public_types.py

format: $(STAMP)
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

bench: $(STAMP)   ## speed, as ratios against named peers
	$(BIN)/python -m benchmarks

docs: $(VENV)/.docs-installed   ## the documentation site with its gallery and notebooks, into site/
	$(BIN)/mkdocs build --strict

clean:
	rm -rf $(VENV) site demo coverage build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis
