# Two commands do everything: `make demo` and `make test`. Both set up .venv first.
PYTHON ?= python3
BIN := .venv/bin

.PHONY: setup demo test lint suite study named studies-small clean

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

# A worker that dies ends the suite at once, by name: replaced, the scheduler waits for the rest of its tests for ever.
suite:
	$(BIN)/python -m pytest -n 2 --dist loadgroup --max-worker-restart 0

# make study NAME=table-3 [CORPUS=airline] [DATA=folder-of-corpora] [MODEL=folder-or-hub-id] [OUT=folder] [AT_ONCE=6]
# (NAME=augment, on real notes: ENCODER=sentence-transformers-folder, too)
# The corpora sgd and europarl need DATA and want a GPU; the simulated ones (airline, clinic) need neither. AT_ONCE: as
# many panels of teachers as the GPU's memory holds.
study: named setup
	$(BIN)/python studies/study.py studies/$(NAME).yaml --data $(or $(DATA),.) --model $(or $(MODEL),embedded) \
	  --out $(or $(OUT),runs/studies) $(if $(AT_ONCE),--at-once $(AT_ONCE)) $(if $(CORPUS),--corpus $(CORPUS)) $(if $(ENCODER),--encoder $(ENCODER))

named:
	@test -f studies/$(NAME).yaml -a "$(NAME)" != bases || { echo "no study '$(NAME)'; name one with NAME=: $(filter-out bases,$(basename $(notdir $(wildcard studies/*.yaml))))"; exit 2; }

# Every study at small size on the simulators: all of them run, none says anything about quality.
studies-small: setup
	$(BIN)/python studies/study.py $(wildcard studies/table-*.yaml) $(addprefix studies/,$(addsuffix .yaml,figure-2 recipes people people-parts caution \
	  units teachers split)) --corpus airline-small --out runs/studies-small
	$(BIN)/python studies/study.py studies/clinic.yaml studies/clinic-curve.yaml --corpus clinic-small --out runs/studies-small

clean:
	rm -rf .venv runs
