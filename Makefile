# `make demo`, `make test` and `make docs` do all set-up and then the job.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
DOCS_READY := $(VENV)/.docs-ready
CORES := $(shell getconf _NPROCESSORS_ONLN)
TYPES := $(VENV)/.types
PIP := $(BIN)/pip install --quiet --disable-pip-version-check --no-compile -c constraints.txt
CPU_INDEX := https://download.pytorch.org/whl/cpu
PACKAGED := src/regard/recipes/packaged/travel
PYTEST := OMP_NUM_THREADS=1 $(BIN)/pytest -n $(CORES) --dist worksteal -q

# Python keeps what it has compiled, whatever the environment wants: each of the many processes that
# the tests start would compile torch anew.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: demo test docs packaged-model fuzz coverage cluster check lint setup browser clean

demo: $(READY)
	$(BIN)/regard demo --out runs/demo

# mypy, which has one core, runs beside the tests; what it found is printed after them.
test: $(READY) lint browser
	$(BIN)/mypy >$(TYPES) 2>&1 & \
	  $(PYTEST) -p randomly --randomly-seed 1; tested=$$?; \
	  wait $$! || { cat $(TYPES); exit 1; }; tail -n 1 $(TYPES); exit $$tested

# The site of the documentation; a warning, such as of a link that leads nowhere, is an error. It needs
# no network: neither to be built, once its packages are there, nor to be read.
docs: $(DOCS_READY)
	OMP_NUM_THREADS=1 $(BIN)/sphinx-build -E -W --keep-going -q docs build/site
	@echo "the site is in build/site: open build/site/index.html"

# The translator that the package holds, which answers where no MODEL is given: trained again.
packaged-model: $(READY)
	rm -rf build/packaged-run
	$(BIN)/regard train travel --out build/packaged-run
	rm -rf $(PACKAGED)
	$(BIN)/regard export build/packaged-run --to run --out $(PACKAGED)

# Other examples and another order each time: what `make test` would find by luck.
fuzz: $(READY) browser
	$(PYTEST) --hypothesis-profile default

# What the tests reach; it takes a quarter longer.
coverage: $(READY) browser
	$(PYTEST) --cov --cov-report term

# What `make test` does on Ray with some hundred lines, at length: actors, the command and replicas are
# killed, a disk is filled, an update goes through. Minutes.
cluster: $(READY)
	OMP_NUM_THREADS=1 $(BIN)/python -m bench bulk $(PACKAGED) --lines 200000 --rate-lines 0
	OMP_NUM_THREADS=1 $(BIN)/python -m bench ray_serve $(PACKAGED)

check: lint
	$(BIN)/mypy

lint: $(READY)
	$(BIN)/ruff check
	$(BIN)/ruff format --check

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
# On Linux without an NVIDIA GPU torch comes first, in its build for CPUs: the other one brings gigabytes
# of CUDA. Where that index cannot be reached, the next line installs what there is.
$(READY): pyproject.toml constraints.txt
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	test "$$(uname)" != Linux || command -v nvidia-smi >/dev/null \
	  || $(PIP) --no-deps --retries 1 --index-url $(CPU_INDEX) torch || true
	$(PIP) -e '.[dev]'
	touch $(READY)

$(DOCS_READY): $(READY)
	$(PIP) -e '.[docs]'
	touch $(DOCS_READY)

clean:
	rm -rf $(VENV) build runs .mypy_cache .pytest_cache .ruff_cache .coverage*
