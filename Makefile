# The verbs of this project; CI calls the same ones. Each runs `setup` first, which is quick when nothing is to do.
SHELL := /bin/bash
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:

PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
STAMP  := $(VENV)/.ready
PYTEST := $(BIN)/python -m pytest
WORKERS ?= 3
MUTMUT := 3.8.1
MUTANTS := $(or $(OUT),mutants-report)

export PYTHONDONTWRITEBYTECODE := 1
export PIP_DISABLE_PIP_VERSION_CHECK := 1


.PHONY: help java setup demo check test test-long test-unit test-spark test-kafka fix schemas lock bench bench-quick faults soak mutants test-matrix lint-workflows

help:  ## what there is
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 16

setup: $(STAMP)  ## .venv from the lock file, hashes checked

$(STAMP): requirements.lock pyproject.toml
	@$(PYTHON) -c 'import sys; v = sys.version_info; sys.exit(v < (3, 11) and f"Python 3.11 or newer is needed and {v.major}.{v.minor} was found: install it and run make PYTHON=python3.11 …")'
	@echo "setup: creating $(VENV) with the pinned packages (Spark alone is about 450 MB; one to three minutes the first time)" >&2
	@$(PYTHON) -m venv $(VENV)
	@set -o pipefail; $(BIN)/python -m pip install --progress-bar off --require-hashes -r requirements.lock 2>&1 | tee $(VENV)/setup.log \
	  | awk '/^ +Downloading .* MB\)/ { print "setup:   " $$2, $$3, $$4; fflush() } /^Installing collected/ { print "setup:   installing"; fflush() }' >&2 \
	  || { tail -n 20 $(VENV)/setup.log >&2; echo "setup: pip failed; its whole log is $(VENV)/setup.log" >&2; exit 1; }
	@$(BIN)/python -m pip install --quiet --no-build-isolation --no-deps -e .
	@if [ -n "$$JAVA_HOME" ] || command -v java >/dev/null; then echo "setup: preparing Spark, so that it starts in half the time" >&2; $(BIN)/python -m reconciler.scan.prepare; fi
	@touch $@

java:
	@if [ -n "$$JAVA_HOME" ]; then test -x "$$JAVA_HOME/bin/java"; else command -v java >/dev/null; fi || { \
	  echo "Java 17 or newer is needed (brokers and Spark run on it) and none was found: install it, for example with 'apt-get install openjdk-17-jre-headless' or 'brew install openjdk@17', or set JAVA_HOME" >&2; exit 1; }

demo: java setup  ## three real brokers, disorder, validate, plan, apply, plan again
	@exec $(BIN)/reconciler demo

check: setup  ## lint, format, types, import contracts, schemas fresh
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/reconciler schema --check
	$(BIN)/zizmor --offline --quiet .github

test: java setup  ## everything, on real brokers and real Spark: about a quarter of an hour, WORKERS=3
	@echo "test: all tests, on real brokers and real Spark, in $(WORKERS) processes side by side; about a quarter of an hour on two cores." >&2
	@echo "test: a dot is a test that passed; a failure is printed at the end, with the command that runs that test again." >&2
	$(PYTEST) -q -n $(WORKERS)

test-long: java setup  ## the same with many more repetitions of what is rare: WORKERS=3
	RECONCILER_TEST_LONG=1 $(PYTEST) -q -n $(WORKERS)

test-unit: setup  ## no network, no Spark: under a minute
	$(PYTEST) -q -n 2 tests/unit tests/properties tests/golden

test-spark: java setup  ## real Spark
	$(PYTEST) tests/spark

test-kafka: java setup  ## real brokers
	$(PYTEST) tests/kafka tests/contract

faults: java setup  ## many fault trials on real brokers: TRIALS=300 SEED=1 LANES=2 OUT=faults-report
	$(BIN)/python -m tests.faults.run --trials $(or $(TRIALS),300) --seed $(or $(SEED),1) --lanes $(or $(LANES),2) --out $(or $(OUT),faults-report)

soak: setup  ## the property tests with 100,000 examples each, hours: PROFILE=ci for 10,000
	HYPOTHESIS_PROFILE=$(or $(PROFILE),soak) $(PYTEST) tests/properties $(if $(ONLY),-k "$(ONLY)")

bench: java setup  ## every bench at full size, into bench/RESULTS.md: about an hour, wants a quiet machine
	$(BIN)/python -m bench.manifests
	$(BIN)/python -m bench.plan_file
	$(BIN)/python -m bench.scan
	$(BIN)/python -m bench.apply
	$(BIN)/python -m bench.hundred_scans

bench-quick: java setup  ## the benches at a tenth of their size; ten minutes, prints only
	$(BIN)/python -m bench.manifests
	$(BIN)/python -m bench.plan_file --quick
	$(BIN)/python -m bench.scan --quick --dry
	$(BIN)/python -m bench.apply --quick --dry
	$(BIN)/python -m bench.hundred_scans --quick --dry

mutants: setup  ## changes to policies/, operations/ and plan/ that no test notices, hours: ONLY=reconciler.plan.review OUT=mutants-report
	@test ! -e $(MUTANTS) || { echo "$(MUTANTS) is there already: remove it, or say OUT=…" >&2; exit 1; }
	@mkdir -p $(MUTANTS)/tree && git ls-files -z | tar --null -T - -c | tar -x -C $(MUTANTS)/tree
	@$(BIN)/python -m venv $(MUTANTS)/venv && $(MUTANTS)/venv/bin/pip install --quiet mutmut==$(MUTMUT)
	@$(BIN)/python -c 'import sysconfig; print(sysconfig.get_path("purelib"))' > "$$($(MUTANTS)/venv/bin/python -c 'import sysconfig; print(sysconfig.get_path("purelib"))')/project.pth"
	cd $(MUTANTS)/tree && nice $(abspath $(MUTANTS))/venv/bin/python -m tests.mutants ../verdicts.json $(or $(ONLY),reconciler.policies reconciler.plan)

test-matrix: java setup  ## both Kafkas, and the Pythons and Javas that are on this machine: ONLY=kafka=3.9.1
	$(BIN)/python -m tests.matrix $(if $(ONLY),--only $(ONLY))

lint-workflows:  ## actionlint over .github: the one on PATH, or built by Go from its pinned source
	@if command -v actionlint >/dev/null; then actionlint; \
	elif command -v go >/dev/null; then go run github.com/rhysd/actionlint/cmd/actionlint@v1.7.12; \
	else echo "neither actionlint nor go is installed, and one is needed: https://github.com/rhysd/actionlint" >&2; exit 1; fi

fix: setup  ## format and mend what can be mended
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

schemas: setup  ## write schemas/ from the models
	$(BIN)/reconciler schema

lock: setup  ## resolve requirements.lock anew (needs uv)
	uv pip compile pyproject.toml --extra connect --group dev --universal --generate-hashes \
	  --no-emit-index-url --no-header --python-version 3.11 --upgrade --quiet -o requirements.lock
