# `make demo` and `make test` do all set-up and then the job.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
CORES := $(shell getconf _NPROCESSORS_ONLN)

.PHONY: demo test check setup clean

demo: $(READY)
	$(BIN)/regard demo --out runs/demo

test: check
	OMP_NUM_THREADS=1 $(BIN)/pytest -n $(CORES) --dist worksteal --cov --cov-report term -q

check: $(READY)
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy

setup: $(READY)

$(READY): pyproject.toml constraints.txt
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev]'
	touch $(READY)

clean:
	rm -rf $(VENV) runs .mypy_cache .pytest_cache .ruff_cache .coverage*
