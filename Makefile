# Two commands do everything on a machine that has only Python: `make cluster` and `make test`.
PYTHON ?= python3
BIN := .venv/bin
SEEDS ?= 10000
TALLY ?= .cache/soak-$(shell git rev-parse --short HEAD 2>/dev/null || echo unknown).json
PIP := $(BIN)/python -m pip --disable-pip-version-check --quiet

.PHONY: help cluster test test-fast test-long coverage check bench soak explore chaos fuzz holds compat-java clean

help:  ## show this list
	@awk -F':.*## ' '/^[a-z-]+:.*## / {printf "  make %-11s %s\n", $$1, $$2}' Makefile

cluster: .venv/installed  ## start the cluster that cluster.toml describes
	@$(BIN)/python -m actors.cluster cluster.toml

# $(call beside,A,B): command A runs beside command B. A's output follows when both have ended, and the status is 0 if both
# have succeeded. An interrupt ends both.
define beside
told=$$(mktemp) && trap 'rm -f $$told' EXIT && { $(1) >$$told 2>&1 & } && a=$$! && { $(2) & } && b=$$! && \
trap 'kill -INT $$a $$b' INT TERM && { wait $$b; of_b=$$?; wait $$a; of_a=$$?; wait; cat $$told; exit $$((of_b ? of_b : of_a)); }
endef

# What is compiled is kept, whatever the environment says: four workers and the processes of tests would compile it each.
# Collecting the tests once does that, beside mypy, which has work for one processor; what fails there fails again below.
test: export PYTHONDONTWRITEBYTECODE =
test: .venv/installed-test  ## lint, type-check, check the import layers, run every test but the long ones
	@$(BIN)/python -m pytest -q --collect-only >/dev/null 2>&1 & \
		$(MAKE) --no-print-directory check; checked=$$?; wait; exit $$checked
	@$(call beside,$(BIN)/python -m pytest -q -m "not long" tests/tools/spark,\
		$(BIN)/python -m pytest -q -n 4 --dist worksteal -m "not long" --ignore tests/tools/spark)

test-fast: .venv/installed-test  ## the quick tests only, under a minute
	@$(BIN)/python -m pytest -q -n 2 --dist worksteal -m "not slow" --ignore tests/tools/spark

test-long: .venv/installed-test  ## what takes minutes: many kills, every planted bug, other cases; all tests of the wheel
	@$(PIP) install -e '.[test,connect]'
	@$(BIN)/python -m pytest -q -m long --hypothesis-profile fresh
	@$(BIN)/python -m pytest -q -n 2 --dist worksteal -m "not slow" --ignore tests/tools/spark --hypothesis-profile fresh
	@$(BIN)/python -m tools.wheel .cache/wheel
	@cd .cache/wheel && environment/bin/python -m pytest -q -n 2 --dist worksteal -m "not long and not checkout" \
		--ignore tests/tools/spark
	@cd .cache/wheel && environment/bin/python -m pytest -q -m "not long and not checkout" tests/tools/spark

coverage: .venv/installed-test  ## which lines and branches of log/, actors/ and protocol/ no test reaches; takes twice as long
	@$(BIN)/python -m coverage erase
	-@$(BIN)/python -m coverage run -m pytest -q -m "not long" --ignore tests/tools/spark --timeout 400
	@$(BIN)/python -m coverage combine -q
	@$(BIN)/python -m coverage report --skip-covered -m

check: .venv/installed-test  ## ruff, mypy and import-linter
	@$(BIN)/ruff check --quiet .
	@$(BIN)/ruff format --check --quiet .
	@$(BIN)/mypy
	@$(BIN)/lint-imports

bench: .venv/installed-test  ## measure the actor runtime beside plain pykka and raw sockets
	@$(BIN)/python -m tools.bench actors

soak: .venv/installed-test  ## simulate clusters with SEEDS=10000 fresh seeds; started again, it goes on where it stopped
	@$(BIN)/python -m tools.simulator --fresh $(SEEDS) --tally $(TALLY)

explore: .venv/installed-test  ## check every state of small Raft groups, in less than 20 minutes
	@$(BIN)/python -m tools.explorer

chaos: .venv/installed-test  ## kill, stop and cut off real brokers for five minutes, and look for broken promises
	@$(BIN)/python -m pytest -q -s tests/chaos --chaos-seconds 300

fuzz: .venv/installed  ## send garbage to a cluster for three minutes while good clients use it
	@$(BIN)/python -m tools.fuzz --seconds 180

holds: .venv/installed  ## measure how long the largest request of each API holds a broker's loop
	@$(BIN)/python -m tools.holds

compat-java: .venv/installed  ## Apache Kafka's own command-line tools against a cluster; needs Java 17 and, once, Maven
	@PYTHON=$(BIN)/python tests/compat/java/run.sh

clean:  ## remove the virtual environment and every cache
	rm -rf .venv .cache .mypy_cache .ruff_cache .pytest_cache .import_linter_cache .hypothesis
	find actors log protocol pyspark_barnabas tools tests -name __pycache__ -prune -exec rm -rf {} +

.venv/bin/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || { echo "Barnabas needs Python 3.11 or\
 newer; $(PYTHON) is $$($(PYTHON) --version 2>/dev/null || echo missing). Name another one: make $(MAKECMDGOALS)\
 PYTHON=python3.12" >&2; exit 1; }
	@echo "creating .venv with $$($(PYTHON) --version)"
	@$(PYTHON) -m venv .venv || { rm -rf .venv; exit 1; }

.venv/installed: pyproject.toml | .venv/bin/python
	@echo "installing Barnabas into .venv"
	@$(PIP) install -e .
	@$(BIN)/python -m compileall -q actors log protocol pyspark_barnabas tools
	@touch $@

.venv/installed-test: pyproject.toml | .venv/bin/python
	@echo "installing Barnabas and its test tools into .venv"
	@$(PIP) install -e '.[test,spark]'
	@$(BIN)/python -m compileall -q actors log protocol pyspark_barnabas tools
	@touch $@ .venv/installed
