# Two commands: `make demo` plans a run from its trace and sweeps an example, `make test` passes the tests.
# Both set up .venv first.
PYTHON ?= python3
BIN := .venv/bin
PYTEST := $(BIN)/python -m pytest -n 2 --dist loadfile --no-loadscope-reorder
FAKETIME_LIBRARY ?= $(firstword $(wildcard /usr/lib/*/faketime/libfaketime.so.1))
export RAY_USAGE_STATS_ENABLED ?= 0

.PHONY: demo test test-all test-later check schemas wheel clean

demo: .venv/.installed
	$(BIN)/planner estimate examples/gpt2_124m.py --budget 500 --out planner-report/gpt2_124m
	$(BIN)/planner sweep examples/gpt.py --budget 5 --max-minutes 2

test: .venv/.installed
	$(PYTEST) -m "not slow"

# Every test: also the long scenarios on real clusters and training runs. CI runs this.
test-all: .venv/.installed
	$(PYTEST) --cov --cov-report=term:skip-covered

# The tests that need no Ray on a day two years ahead, so that none depends on the day; needs libfaketime.
LATER := LD_PRELOAD=$(FAKETIME_LIBRARY) FAKETIME=+730d FAKETIME_DONT_FAKE_MONOTONIC=1 PYTHONPATH=tests/any_day
test-later: .venv/.installed
	test -n "$(FAKETIME_LIBRARY)" || { echo "needs libfaketime (Debian: apt-get install libfaketime)" >&2; exit 2; }
	$(LATER) $(PYTEST) -m "not ray and not slow"

check: .venv/.installed
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports

# The launch files of every offer against what SkyPilot's and dstack's own packages accept: two minutes, not in CI.
schemas: .venv/.installed
	$(PYTHON) -m venv .venv-launchers
	.venv-launchers/bin/python -m pip install --quiet skypilot==0.14.1 dstack==0.22.5
	PYTHONPATH=$$($(BIN)/python -c 'import sysconfig; print(sysconfig.get_path("purelib"))') \
	  .venv-launchers/bin/python -m pytest -W ignore::pytest.PytestUnraisableExceptionWarning \
	  tests/planner/launch/test_schemas.py tests/catalogs/sources/test_gpuhunt.py  # gpuhunt leaves sockets open

wheel: .venv/.installed
	$(BIN)/python -m build --outdir dist .

.venv/.installed: pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "planner needs Python 3.11 or newer; name one by: make PYTHON=python3.12 $(MAKECMDGOALS)" >&2; exit 2; }
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable '.[dev]'
	@touch $@

clean:
	rm -rf .venv .venv-launchers dist build planner-report
