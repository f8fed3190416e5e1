# Two commands do everything on a fresh machine: `make quickstart` and `make test`.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
RUN := runs/quick
SITE := site

.PHONY: quickstart install test lint types planted bench picture clean

quickstart: install
	$(BIN)/layerstate run quick --out $(RUN)
	$(BIN)/layerstate leaderboard build $(RUN) --out $(SITE)
	@echo "The board: $(CURDIR)/$(SITE)/index.html"

install: $(VENV)/.installed

# The environment is made anew only when what it is made from has changed.
$(VENV)/.installed: requirements.lock pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --requirement requirements.lock
	$(BIN)/python -m pip install --quiet --no-deps --no-build-isolation --editable .
	touch $@

test: install
	$(BIN)/python -m pytest --ignore tests/benchmarks --numprocesses auto --dist loadscope

lint: install
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: install
	$(BIN)/pyright

planted: install
	$(BIN)/python -m tests.planted

bench: install
	$(BIN)/python -m pytest tests/benchmarks --benchmark-enable

picture: install
	$(BIN)/python scripts/picture.py $(SITE) docs/board.png

clean:
	rm -rf build dist *.egg-info $(SITE)
