# Two commands do everything on a machine with Python and make: `make demo` and `make test`.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed

.PHONY: install demo test test-all test-browser docs check-wheel lint clean

install: $(STAMP)

$(STAMP): pyproject.toml constraints.txt
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/pip install -q --disable-pip-version-check -c constraints.txt torch
	$(BIN)/pip install -q --disable-pip-version-check -c constraints.txt -e '.[dev]'
	@touch $(STAMP)

demo: install  ## UNet and YOLOv4 on the virtual card, from their weights to annotated pictures
	$(BIN)/tt-cnn demo

test: install  ## the tests that CI runs
	$(BIN)/python -m pytest -m "not long and not browser"

test-all: install  ## all tests, the long ones too
	$(BIN)/python -m pytest -m "not browser"

test-browser: install  ## the report in a real browser: needs Debian's chromium (apt-get install chromium)
	$(BIN)/pip install -q --disable-pip-version-check -c constraints.txt -e '.[browser]'
	$(BIN)/python -m pytest tests/browser -m browser

docs: install  ## the documentation site, in site/; any warning is an error
	$(BIN)/pip install -q --disable-pip-version-check -c constraints.txt -e '.[docs]'
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --quiet --strict

check-wheel:  ## the wheel in a fresh environment outside of the checkout; other Pythons: nox -s wheel-3.12
	PYTHON=$(PYTHON) scripts/check_wheel.sh

lint: install
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

clean:
	rm -rf $(VENV) build dist out site .pytest_cache .mypy_cache .ruff_cache
