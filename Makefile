# Every target makes .venv by itself from a bare Python 3.11 (or newer) with pip, and installs again only when
# pyproject.toml or constraints.txt change. Nothing outside this folder is touched.

PYTHON ?= $(firstword $(foreach p,python3.11 python3.12 python3.13 python3,$(shell command -v $(p) 2>/dev/null)))
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
FILE ?=
ARGS ?=
BENCH_DIR ?= .bench

# Where no bytecode may be kept, every process that a test starts would compile all of it anew.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.PHONY: help demo test test-plain test-ray long lint format types bench dist constraints clean

help:
	@echo "make demo [FILE=conversations.json]  a fleet of agents talks, loses processes to kill -9, loses nothing, and remembers"
	@echo "make test [ARGS='-k words']          the whole suite: first without Ray, then with it"
	@echo "make long                            the suite with what takes minutes (more kills, bigger searches, archives)"
	@echo "make lint types                      ruff; mypy --strict and pyright"
	@echo "make bench                           measure every claim here, write docs/benchmarks.md"
	@echo "make dist                            wheel and sdist in dist/"
	@echo "make constraints                     resolve again and rewrite constraints.txt"
	@echo "make clean                           remove .venv, caches and what the benchmarks left"

# ensurepip is a package of its own on Debian: where it is missing, the system's pip fills the new environment.
$(READY): pyproject.toml constraints.txt
	@test -n "$(PYTHON)" || { echo "make: no python3 on PATH; install Python 3.11 or newer, or say make PYTHON=/path/to/python"; exit 1; }
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "make: $(PYTHON) is older than 3.11; say make PYTHON=/path/to/python3.11"; exit 1; }
	@test -x $(BIN)/python && $(BIN)/python -m pip --version >/dev/null 2>&1 \
	  || $(PYTHON) -m venv $(VENV) >$(VENV).log 2>&1 \
	  || { rm -rf $(VENV); $(PYTHON) -m venv --without-pip $(VENV) >>$(VENV).log 2>&1 \
	       && $(PYTHON) -m pip --python $(BIN)/python install --quiet pip >>$(VENV).log 2>&1; } \
	  || { rm -rf $(VENV); cat $(VENV).log; rm -f $(VENV).log; \
	       echo "make: $(PYTHON) cannot make a virtual environment. On Debian and Ubuntu: apt-get install python3-venv (or python3-pip), then make again."; exit 1; }
	@rm -f $(VENV).log
	$(BIN)/python -m pip install --quiet --constraint constraints.txt hatchling editables
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --no-build-isolation --editable '.[dev]'
	@touch $@

demo: $(READY)
	$(BIN)/neverforget demo $(if $(FILE),"$(FILE)")

test: test-plain test-ray

test-plain: $(READY)
	$(BIN)/python -m pytest -m "not ray" -n 4 --dist worksteal $(ARGS)

test-ray: $(READY)
	$(BIN)/python -m pytest -m ray -n 2 --dist loadfile $(ARGS)

long: $(READY)
	$(BIN)/python -m pytest --long $(ARGS)

lint: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

format: $(READY)
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

types: $(READY)
	$(BIN)/mypy
	$(BIN)/basedpyright

bench: $(READY)
	$(BIN)/python -m bench.report --run --directory $(BENCH_DIR) --write docs/benchmarks.md $(ARGS)

dist: $(READY)
	$(BIN)/python -m build --no-isolation --outdir dist .

constraints:
	rm -rf .resolve
	$(PYTHON) -m venv .resolve
	.resolve/bin/python -m pip install --quiet '.[dev]'
	{ head -n 1 constraints.txt; .resolve/bin/python -m pip freeze --exclude neverforget; } > constraints.new
	mv constraints.new constraints.txt
	rm -rf .resolve

clean:
	rm -rf $(VENV) $(VENV).log .resolve .bench dist build .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
