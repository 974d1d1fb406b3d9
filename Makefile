# Everything the project runs. A target sets up what it needs: the first run downloads, later ones do not.
PYTHON ?= python3
BIN := .venv/bin
ENV := .venv/.installed
CLASSES := .venv/spark-classes.jsa
PEER := .venv-peer/.installed
KEYED := .venv-keyed/.installed
# What is compiled once is kept, also where the environment says otherwise: the tests start Python some hundred times, and each start would compile 3 s of libraries.
export PYTHONDONTWRITEBYTECODE :=
KEYED_CASES := first-load upsert-100k upsert-recent upsert-1m read incremental small-upserts

.PHONY: help demo test unit interop smoke lint types bench bench-keys soak docs features clean

help:
	@echo "make demo       a short story on a small lake: create, append, overwrite, evolve, time travel"
	@echo "make test       lint, types and the tests that need no service"
	@echo "make interop    the same tables in other engines, catalogs and stores"
	@echo "make lint       ruff, and whether generated pages are fresh"
	@echo "make types      mypy --strict"
	@echo "make bench      side-by-side runs against other writers"
	@echo "make bench-keys those of keyed tables alone, against Hudi, Paimon and PyIceberg"
	@echo "make soak       property tests with 500 examples each"
	@echo "make docs       write the generated pages"
	@echo "make features   which test shows which behaviour"
	@echo "make clean      remove what was made, downloads included"

$(ENV): requirements.lock pyproject.toml scripts/setup.sh
	PYTHON=$(PYTHON) scripts/setup.sh

$(CLASSES): $(ENV) scripts/share_classes.py
	$(BIN)/python scripts/share_classes.py $@

$(PEER): $(ENV) scripts/setup_peer.sh scripts/jars.txt
	PYTHON=$(PYTHON) scripts/setup_peer.sh

$(KEYED): $(ENV) scripts/setup_keyed_peers.sh scripts/jars.txt
	PYTHON=$(PYTHON) scripts/setup_keyed_peers.sh

demo: $(ENV)
	$(BIN)/lakewright demo

test: lint types unit

unit: $(CLASSES)
	$(BIN)/python -m pytest tests --ignore=tests/interop -m "not soak" --numprocesses 3 --dist loadfile --no-loadscope-reorder

interop: $(CLASSES) $(PEER) smoke
	$(BIN)/python -m pytest tests/interop

smoke: $(PEER)
	.venv-peer/bin/python -m pytest tests/test_smoke.py

lint: $(ENV)
	$(BIN)/ruff check .
	$(BIN)/python scripts/options_reference.py --check

types: $(ENV)
	$(BIN)/mypy

bench: $(PEER) $(KEYED)
	$(BIN)/python -m bench

bench-keys: $(PEER) $(KEYED)
	$(BIN)/python -m bench $(KEYED_CASES:%=--case keys-%)

soak: $(CLASSES)
	HYPOTHESIS_PROFILE=soak LAKEWRIGHT_SOAK=1 $(BIN)/python -m pytest tests --ignore=tests/interop -m "soak or hypothesis" --timeout=14400

docs: $(ENV)
	$(BIN)/python scripts/options_reference.py

features: $(ENV)
	$(BIN)/python scripts/features.py

clean:
	rm -rf .venv .venv-peer .venv-keyed .jars .bench .mypy_cache .pytest_cache .ruff_cache .hypothesis build dist *.egg-info spark-warehouse metastore_db derby.log
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
