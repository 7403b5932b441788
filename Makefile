# `make demo` and `make test` do all set-up and then the job.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
CORES := $(shell getconf _NPROCESSORS_ONLN)
COLLECTED := $(VENV)/.collected
COLLECT := $(BIN)/pytest --collect-only -qq >$(COLLECTED) 2>&1
PYTEST := OMP_NUM_THREADS=1 $(BIN)/pytest -n $(CORES) --dist worksteal -q

# Python keeps what it has compiled, whatever the environment wants: each of the many processes that
# the tests start would compile torch anew.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: demo test fuzz coverage check setup browser clean

demo: $(READY)
	$(BIN)/regard demo --out runs/demo

test: check browser
	$(PYTEST) -p randomly --randomly-seed 1

# Other examples and another order each time: what `make test` would find by luck.
fuzz: $(READY) browser
	$(PYTEST) --hypothesis-profile default

# What the tests reach; it takes a quarter longer.
coverage: $(READY) browser
	$(PYTEST) --cov --cov-report term

# mypy has one core. On another the tests are collected meanwhile: what they import is compiled then,
# and their workers find it so.
check: $(READY)
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(COLLECT) & $(BIN)/mypy && { wait $$! || { cat $(COLLECTED); false; }; }

setup: $(READY)

# The pages are tested in a real Chromium; where none can be had those tests are skipped and say so.
browser:
	@command -v chromium >/dev/null || command -v chromium-browser >/dev/null \
	  || command -v google-chrome >/dev/null \
	  || { test "$$(id -u)" = 0 && command -v apt-get >/dev/null && apt-get update -qq \
	    && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends chromium \
	       >/dev/null; } \
	  || echo "no Chromium found: the tests of the pages will be skipped; install it to run them"

# --no-compile: Python compiles what it imports; there are ten thousand files, most never asked for.
$(READY): pyproject.toml constraints.txt
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --disable-pip-version-check --no-compile -c constraints.txt -e '.[dev]'
	touch $(READY)

clean:
	rm -rf $(VENV) runs .mypy_cache .pytest_cache .ruff_cache .coverage*
