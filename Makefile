# The commands of this project; CI uses the same ones. Each runs `setup` first, which is quick if .venv is up to date.
SHELL := /bin/bash
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:

PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
STAMP  := $(VENV)/.ready
PYTEST := $(BIN)/python -m pytest
WORKERS ?= 5
MUTMUT := 3.8.1
MUTANTS := $(or $(OUT),mutants-report)

# Compiled modules are kept: the tests start a thousand processes of this program.
export PYTHONDONTWRITEBYTECODE :=
export PIP_DISABLE_PIP_VERSION_CHECK := 1


.PHONY: help java archives setup demo check test test-long test-unit test-spark test-kafka test-browser fix schemas lock bench bench-quick faults soak mutants test-matrix lint-workflows docs samples

help:  ## list the commands
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 16

setup: $(STAMP)  ## create .venv from the lock files, with hashes

# The first lock file has what builds pyspark and this program: without isolation, pip fetches nothing that no hash covers.
$(STAMP): requirements-base.lock requirements-dev.lock pyproject.toml
	@$(PYTHON) -c 'import sys; v = sys.version_info; sys.exit(v < (3, 11) and f"Python 3.11 or newer is needed, and this is {v.major}.{v.minor}: install it and run make PYTHON=python3.11 …")'
	@echo "setup: creating $(VENV) with the pinned packages (Spark alone is about 450 MB; one to three minutes the first time)" >&2
	@$(PYTHON) -m venv $(VENV)
	@set -o pipefail; for lock in requirements-base.lock requirements-dev.lock; do \
	    $(BIN)/python -m pip install --progress-bar off --require-hashes --no-deps --no-build-isolation -r $$lock || exit 1; \
	  done 2>&1 | tee $(VENV)/setup.log \
	  | awk '/^ +Downloading .* MB\)/ { print "setup:   " $$2, $$3, $$4; fflush() } /^Installing collected/ { print "setup:   installing"; fflush() }' >&2 \
	  || { tail -n 20 $(VENV)/setup.log >&2; echo "setup: pip failed; its full log is $(VENV)/setup.log" >&2; exit 1; }
	@$(BIN)/python -m pip install --quiet --no-build-isolation --no-deps -e .
	@if [ -n "$$JAVA_HOME" ] || command -v java >/dev/null; then echo "setup: preparing Spark and Kafka, which halves the time of their starts" >&2; $(PREPARE); fi
	@touch $@

java:
	@if [ -n "$$JAVA_HOME" ]; then test -x "$$JAVA_HOME/bin/java"; else command -v java >/dev/null; fi || { \
	  echo "Java 17 or newer is needed for the brokers and Spark, and none was found: install it, for example with 'apt-get install openjdk-17-jre-headless' or 'brew install openjdk@17', or set JAVA_HOME" >&2; exit 1; }

# The cache keeps the archives that were used last, and other environments write theirs: one that is there takes a second.
PREPARE := $(BIN)/python -m reconciler.scan.prepare && $(BIN)/python -m reconciler.companions.sandbox.prepare
archives: java setup
	@$(PREPARE)

demo: java setup  ## three real brokers with demo data: validate, plan, apply, plan again
	@exec $(BIN)/reconciler demo

check: setup  ## lint, format, types, import contracts, current schemas, docs site
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/reconciler schema --check
	$(BIN)/zizmor --offline --quiet --persona=auditor .github action.yml
	$(BIN)/python -m tools.build_docs

test: archives  ## all tests, with real brokers and real Spark, about 10 minutes: WORKERS=5
	@echo "test: all tests, with real brokers and real Spark, in $(WORKERS) parallel processes; about 10 minutes on two cores." >&2
	@echo "test: a dot is a test that passed. The end shows each failure and the command that repeats the test." >&2
	$(PYTEST) -q -n $(WORKERS)

test-long: archives  ## the same, with many more repetitions of rare events, and beside Kafka Streams (needs a JDK), Spark and MirrorMaker: WORKERS=5
	RECONCILER_TEST_LONG=1 $(PYTEST) -q -o timeout=3600 -n $(WORKERS)

test-unit: setup  ## tests without network and Spark, about 3 minutes
	$(PYTEST) -q -n 2 tests/unit tests/properties tests/golden

test-spark: archives  ## tests with real Spark
	$(PYTEST) tests/spark

test-kafka: archives  ## tests with real brokers
	$(PYTEST) tests/kafka tests/contract

test-browser: setup  ## look at the HTML report in headless Chromium: UPDATE_PICTURES=1 writes docs/images
	@test -n "$$CHROMIUM" || command -v chromium || command -v chromium-browser || command -v google-chrome || { \
	  echo "Chromium is needed, and none was found: install it, for example with 'apt-get install chromium' or 'brew install --cask chromium', or set CHROMIUM to its path" >&2; exit 1; }
	$(PYTEST) -q tests/browser/look_at_pages.py

faults: archives  ## fault trials on real brokers, with live consumers as witnesses: TRIALS=300 SEED=1 LANES=2 OUT=faults-report
	$(BIN)/python -m tests.faults.run --trials $(or $(TRIALS),300) --seed $(or $(SEED),1) --lanes $(or $(LANES),2) --out $(or $(OUT),faults-report)

soak: setup  ## property tests with 100,000 examples each, for hours: PROFILE=ci for 10,000
	HYPOTHESIS_PROFILE=$(or $(PROFILE),soak) $(PYTEST) tests/properties $(if $(ONLY),-k "$(ONLY)")

bench: archives  ## all benches at full size, into bench/RESULTS.md, about 100 minutes on an idle machine
	$(BIN)/python -m bench.manifests
	$(BIN)/python -m bench.plan_file
	$(BIN)/python -m bench.journal
	$(BIN)/python -m bench.simulated
	$(BIN)/python -m bench.demo
	$(BIN)/python -m bench.round_trips
	$(BIN)/python -m bench.scan
	$(BIN)/python -m bench.apply
	$(BIN)/python -m bench.hundred_scans

bench-quick: archives  ## all benches at a tenth of their size, 20 minutes; writes no file
	$(BIN)/python -m bench.manifests
	$(BIN)/python -m bench.plan_file --quick
	$(BIN)/python -m bench.journal --quick
	$(BIN)/python -m bench.simulated --quick --dry
	$(BIN)/python -m bench.demo --quick --dry
	$(BIN)/python -m bench.round_trips --quick --dry
	$(BIN)/python -m bench.scan --quick --dry
	$(BIN)/python -m bench.apply --quick --dry
	$(BIN)/python -m bench.hundred_scans --quick --dry

mutants: setup  ## find code changes in policies/, operations/ and plan/ that no test notices, for hours: ONLY=reconciler.plan.review OUT=mutants-report
	@test ! -e $(MUTANTS) || { echo "$(MUTANTS) exists already: remove it, or set OUT=…" >&2; exit 1; }
	@mkdir -p $(MUTANTS)/tree && git ls-files -z | tar --null -T - -c | tar -x -C $(MUTANTS)/tree
	@$(BIN)/python -m venv $(MUTANTS)/venv && $(MUTANTS)/venv/bin/pip install --quiet mutmut==$(MUTMUT)
	@$(BIN)/python -c 'import sysconfig; print(sysconfig.get_path("purelib"))' > "$$($(MUTANTS)/venv/bin/python -c 'import sysconfig; print(sysconfig.get_path("purelib"))')/project.pth"
	cd $(MUTANTS)/tree && nice $(abspath $(MUTANTS))/venv/bin/python -m tools.mutants ../verdicts.json $(or $(ONLY),reconciler.policies reconciler.operations reconciler.plan)

test-matrix: archives  ## tests on every Kafka version of the sandbox, and on each Python and Java of this machine: ONLY=kafka=3.9.1
	$(BIN)/python -m tools.version_matrix $(if $(ONLY),--only $(ONLY))

lint-workflows:  ## run actionlint on .github: the one on PATH, or built by Go from its pinned source
	@if command -v actionlint >/dev/null; then actionlint; \
	elif command -v go >/dev/null; then go run github.com/rhysd/actionlint/cmd/actionlint@v1.7.12; \
	else echo "install actionlint or go: https://github.com/rhysd/actionlint" >&2; exit 1; fi

fix: setup  ## format the code and apply automatic fixes
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

schemas: setup  ## generate schemas/ from the models
	$(BIN)/reconciler schema

docs: setup  ## build the docs site into build/docs: strict, and without any resource of another host
	$(BIN)/python -m tools.build_docs

samples: archives  ## write every generated part and every sample of the docs again, on real brokers
	UPDATE_DOCS=1 $(PYTEST) -q tests/e2e/test_recipes.py tests/e2e/test_docs_walk.py tests/unit/manifest/test_generate_docs.py tests/unit/docs

# One resolution: the other lock files keep the versions of the first.
COMPILE := uv pip compile pyproject.toml --universal --generate-hashes --no-emit-index-url --no-header --python-version 3.11 --quiet
lock:  ## resolve the lock files again: what develops, what runs, what runs without Spark, what validates and builds (needs uv)
	$(COMPILE) --extra spark --extra gcp --extra msk-iam --group dev --upgrade -o requirements-dev.lock
	cp requirements-dev.lock requirements.lock && $(COMPILE) --extra spark --group build -o requirements.lock
	cp requirements-dev.lock requirements-base.lock && $(COMPILE) --group build -o requirements-base.lock
	cp requirements-dev.lock requirements-inline.lock && $(COMPILE) --extra inline --group build -o requirements-inline.lock
	cp requirements-dev.lock requirements-connect.lock && $(COMPILE) --extra connect --group build -o requirements-connect.lock
	cp requirements-dev.lock requirements-tokens.lock && $(COMPILE) --extra gcp --extra msk-iam -o requirements-tokens.lock
