# Two commands do everything: `make demo` and `make test`. Both set up .venv first.
PYTHON ?= python3
BIN := .venv/bin

.PHONY: setup demo test lint suite study clean

setup: .venv/.ready

.venv/.ready: pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "hearsay needs Python 3.11 or later; name one with make PYTHON=python3.11 $(MAKECMDGOALS)"; exit 2; }
	test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt torch
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable '.[dev]'
	touch $@

demo: setup
	$(BIN)/hearsay demo --out runs/demo

test: setup lint suite

lint:
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

suite:
	$(BIN)/python -m pytest -n 2 --dist loadgroup

# make study NAME=sgd DATA=folder-of-corpora MODEL=folder-or-hub-id [OUT=folder]
study: setup
	$(BIN)/python studies/run.py studies/$(NAME).yaml --data $(DATA) --model $(MODEL) --out $(or $(OUT),runs/study-$(NAME))

clean:
	rm -rf .venv runs
