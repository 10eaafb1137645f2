# Penstock's targets. Each sets up what it needs; on a fresh machine only python3.11+, pip and make must be there.
#   make help      what there is
.DEFAULT_GOAL := help
SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DELETE_ON_ERROR:
unexport PYTHONDONTWRITEBYTECODE # tests start Python by the hundred: what one process compiled, the next ones load

# Debian's own Python is built with optimizations, others often are not: a fifth of the time of everything here.
PYTHON ?= $(firstword $(shell /usr/bin/python3 -c 'import sys, ensurepip; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && echo /usr/bin/python3) python3)
UV_VERSION := 0.13.7
UV := .uv/bin/uv
BIN := .venv/bin
PYTEST ?= $(BIN)/pytest
WORKERS ?= 2
SEEDS ?= 0..2000
SPARKS ?= 4.0.5 4.1.4 4.2.1 4.3.0
BENCH ?= wire wal quorum keyspace objectstore allocator journal messages lake spark

.PHONY: help
help: ## Show this list
	@grep -hE '^[a-z0-9-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:[^#]*## /\t/' | expand -t 12

.PHONY: setup
setup: .venv/.installed ## Build .venv from the lock file (the other targets call this)

$(UV):
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "Penstock needs Python 3.11 or newer; this is $$($(PYTHON) --version). Try: make PYTHON=python3.12 setup" >&2; exit 2; }
	@echo "setup: uv $(UV_VERSION) into .uv/"
	@$(PYTHON) -m venv .uv
	@.uv/bin/python -m pip install --quiet --disable-pip-version-check uv==$(UV_VERSION)

.venv/.installed: requirements.lock pyproject.toml lab/pyproject.toml | $(UV)
	@echo "setup: locked dependencies into .venv/"
	@test -x $(BIN)/python || $(UV) venv --quiet --python $(PYTHON) .venv
	@$(UV) pip sync --quiet --python $(BIN)/python --require-hashes requirements.lock
	@$(UV) pip install --quiet --python $(BIN)/python --no-deps --no-build-isolation --editable . --editable lab
	@touch $@

.PHONY: lock
lock: | $(UV) ## Resolve the dependencies again into the lock files
	$(UV) pip compile --quiet --universal --generate-hashes --no-annotate --no-emit-index-url \
	  --custom-compile-command "make lock" --python-version 3.11 \
	  --extra all --group dev pyproject.toml lab/pyproject.toml --no-emit-package penstock --output-file requirements.lock
	$(UV) pip compile --quiet --universal --generate-hashes --no-annotate --no-emit-index-url \
	  --custom-compile-command "make lock" --python-version 3.11 \
	  --group docs --output-file requirements-docs.lock
	$(UV) pip compile --quiet --universal --generate-hashes --no-annotate --no-emit-index-url \
	  --custom-compile-command "make lock" --python-version 3.11 \
	  tests/matrix/s3-clients.in --output-file tests/matrix/s3-clients.lock
	$(UV) pip compile --quiet --universal --generate-hashes --no-annotate --no-emit-index-url \
	  --custom-compile-command "make lock" --python-version 3.11 lab/kafka.in --output-file lab/kafka.lock

.PHONY: check
check: lint types words-check ## Lint, layers, types, words

.PHONY: lint
lint: setup
	$(BIN)/ruff check src lab tests
	$(BIN)/ruff format --check src lab tests
	$(BIN)/lint-imports

.PHONY: types
types: setup
	$(BIN)/mypy

.PHONY: words-check
words-check: setup
	$(PYTEST) -p no:xdist tests/docs/test_words.py

.PHONY: words
words: setup ## Drop the sentences that were reworded from tests/docs/words.txt, and print what is left
	@$(BIN)/python -m tests.docs.words_ratchet

.PHONY: format
format: setup ## Let ruff rewrite what it can
	$(BIN)/ruff check --fix-only src lab tests
	$(BIN)/ruff format src lab tests

.PHONY: test
test: lint java postgresql ## Everything CI runs: checks, and all tests
	@$(MAKE) --no-print-directory --jobs 2 types tests # two cores: types are checked beside the first tests

.PHONY: tests
tests: setup
	$(PYTEST) -n $(WORKERS)

.PHONY: java
java: # Spark and the model checker need Java 17 or newer
	@scripts/ensure-java

.PHONY: jar
jar: setup ## Compile the source in Java (JDK 17) into the jar that the wheel has: src/penstock/spark/jvm/penstock-spark.jar
	@$(BIN)/python scripts/make_jar.py

.PHONY: postgresql
postgresql: # a store of consumers
	@scripts/ensure-postgresql

.PHONY: demo
demo: setup java ## See it work: real processes, real faults, an audit
	$(BIN)/penstock demo

.PHONY: trees-long
trees-long: setup ## HISTORIES (default 100000) random histories of the lake's trees, and LISTS (10000) of branches, from SEED on
	$(PYTEST) -p no:xdist -p no:timeout tests/lake/core/committed/leaves/slow_histories.py

.PHONY: sim
sim: setup ## Every workload of the simulator over SEEDS (default 0..2000)
	@for workload in $$($(BIN)/penstock sim list --output json | $(BIN)/python -c 'import json, sys; print(*(w["name"] for w in json.load(sys.stdin)))'); do \
	  $(BIN)/penstock sim run $$workload --seeds $(SEEDS); \
	done

.PHONY: soak-world
soak-world: setup ## Fresh seeds of every world for HOURS (default 1); red ones go into tests/lab/world/seeds.toml
	$(BIN)/python -m penstock_lab.world.soak --hours $(or $(HOURS),1)

.PHONY: explore
explore: setup ## Every state of every small world of the cores, up to STATES each (default 1000000)
	$(BIN)/penstock sim explore --all --states $(or $(STATES),1000000)

.PHONY: fuzz
fuzz: setup java postgresql ## Every property and every parser on EXAMPLES (default 500) drawn at random, and fresh seeds
	HYPOTHESIS=curious EXAMPLES=$(or $(EXAMPLES),500) $(PYTEST) -n $(WORKERS) -m hypothesis
	HYPOTHESIS=curious $(PYTEST) -n $(WORKERS) tests/lab/sim -k fresh

# The parts of `make matrix`: what is installed, and with what it works. Each is a target of its own.
MATRIX := matrix-installs matrix-spark matrix-s3

.PHONY: matrix
matrix: $(MATRIX) ## Every part of the matrix: installs (bare, server, spark, all) and what they work with

.PHONY: matrix-installs
matrix-installs: setup java ## Environments bare / server / spark / all from the built wheel in .matrix/, and a test of each
	$(PYTEST) -p no:xdist tests/matrix/slow_installs.py

.PHONY: matrix-spark
matrix-spark: setup java ## tests/spark with the oldest PySpark that Penstock works with
	$(BIN)/python scripts/spark_matrix.py $(firstword $(SPARKS))

.PHONY: spark-matrix
spark-matrix: setup java ## tests/spark with each PySpark of SPARKS (4.0 to 4.3), in environments in .matrix/
	$(BIN)/python scripts/spark_matrix.py $(SPARKS)

.PHONY: matrix-s3
matrix-s3: setup ## S3 clients, unmodified: those of s3-clients.lock in .matrix/s3-clients, and Debian's; the table goes to docs/reports
	@scripts/ensure-s3-clients
	S3_CLIENTS_REPORT=docs/reports/s3-clients.md $(PYTEST) -p no:xdist tests/matrix/slow_s3_clients.py

.PHONY: interop
interop: setup ## lakectl, the command of lakeFS, unmodified (needs Go): its commands against a lake; the table goes to docs/reports
	@scripts/ensure-lakectl
	LAKECTL_REPORT=docs/reports/lakectl.md $(PYTEST) -p no:xdist tests/matrix/slow_lakectl.py

.PHONY: specs
specs: setup java ## Every small world of specs/, explored to its end by TLC, and every mutant caught
	SPECS=all $(PYTEST) -n $(WORKERS) tests/specs/test_*.py tests/specs/slow_*.py

.PHONY: schedules-quorum
schedules-quorum: setup ## Every named schedule of the quorum log's world with three seeds, and its mutants
	$(PYTEST) -p no:xdist tests/lab/world/quorum/slow_schedules.py

.PHONY: soak-quorum
soak-quorum: setup ## Ten minutes (MINUTES) of faults on real processes; the report goes to docs/reports
	$(BIN)/python -m tests.integration.soak_quorum --minutes $(or $(MINUTES),10) --report docs/reports/faults-quorum.md

.PHONY: soak-journal
soak-journal: setup ## Ten minutes (MINUTES) of faults on real brokers, with both KeySpaces; the report goes to docs/reports
	$(BIN)/python -m tests.integration.soak_journal --minutes $(or $(MINUTES),10) --report docs/reports/faults-journal.md

.PHONY: soak-failover
soak-failover: setup ## Kill and freeze one of three brokers, FAULTS times each (default 50), under load; the report goes to docs/reports
	$(BIN)/python -m tests.integration.failover_drill --faults $(or $(FAULTS),50) --report docs/reports/faults-failover.md

.PHONY: soak-bank
soak-bank: setup postgresql ## The same (MINUTES) on a bank: consumers, brokers and PostgreSQL
	$(BIN)/python -m tests.integration.soak_bank --minutes $(or $(MINUTES),10) --report docs/reports/faults-bank.md

.PHONY: soak-examples
soak-examples: setup java postgresql ## The pipelines in examples/pipelines, KILLS (default 2) kills for each part; equal to the batch answer
	$(PYTEST) -p no:xdist -s tests/spark/slow_examples.py

.PHONY: soak-spark
soak-spark: setup java ## kill -9 and freeze Spark drivers at every step of a batch; the report goes to docs/reports
	$(PYTEST) -p no:xdist tests/spark/slow_driver_kill.py tests/spark/slow_journal_source.py tests/spark/slow_journal_sink.py \
	  tests/spark/slow_lake_sink.py tests/spark/slow_speculation.py tests/spark/slow_compaction.py tests/spark/slow_tree_import.py \
	  tests/spark/slow_tree_garbage.py tests/spark/slow_pipeline_run.py tests/spark/slow_pipeline_guide.py \
	  tests/spark/slow_spark_guide.py tests/spark/slow_together.py tests/spark/slow_java_source.py tests/spark/slow_connect.py \
	  tests/spark/slow_other_host.py tests/spark/slow_pipeline_errors.py tests/spark/slow_hundred_journals.py tests/spark/slow_ways.py
	$(BIN)/python -m tests.spark.soak_lake --minutes $(or $(MINUTES),10) --report docs/reports/faults-spark-lake.md
	$(BIN)/python -m tests.spark.soak_spark --report docs/reports/faults-spark.md

.PHONY: soak-demo
soak-demo: setup java ## The demo RUNS times in a row (default 10), and with each fault alone; the report goes to docs/reports
	$(BIN)/python -m tests.integration.soak_demo --runs $(or $(RUNS),10) --report docs/reports/demo.md

.PHONY: soak-lake
soak-lake: setup ## Five minutes (MINUTES) of faults on a lake of real processes; the report goes to docs/reports
	$(BIN)/python -m tests.integration.soak_lake --minutes $(or $(MINUTES),5) --report docs/reports/faults-lake.md

.PHONY: soak-up
soak-up: setup ## `penstock up` killed LIVES times (default 25) while clients work; the report goes to docs/reports
	$(BIN)/python -m tests.integration.soak_up --lives $(or $(LIVES),25) --report docs/reports/faults-up.md

.PHONY: bench
bench: setup java ## Every benchmark next to its peers (or one: make bench BENCH=wire)
	@status=0; for name in $(BENCH); do $(BIN)/penstock bench $$name || status=1; done; exit $$status

.PHONY: bench-clients
bench-clients: setup ## What a message costs its client, next to Kafka's client, and to the tree BEFORE (a checkout, set up)
	@test -x .matrix/kafka/bin/python || $(UV) venv --quiet --python $(PYTHON) .matrix/kafka
	@$(UV) pip sync --quiet --python .matrix/kafka/bin/python --require-hashes lab/kafka.lock
	$(BIN)/penstock bench message_clients $(if $(BEFORE),--before $(BEFORE))

.PHONY: golden
golden: setup ## Write the golden files anew; read the diff before you commit it
	$(BIN)/python -m penstock.cli.reference
	$(BIN)/python -m penstock_lab.papers
	GOLDEN=rewrite $(PYTEST) tests/cli tests/lab/commands tests/quorum/core tests/journals/core

.PHONY: docs
docs: | $(UV) ## Build the documentation into site/, from a small environment of its own
	@test -x .venv-docs/bin/python || $(UV) venv --quiet --python $(PYTHON) .venv-docs
	@$(UV) pip sync --quiet --python .venv-docs/bin/python --require-hashes requirements-docs.lock
	@.venv-docs/bin/zensical build --clean
	@.venv-docs/bin/python scripts/moved_pages.py

.PHONY: clean
clean: ## Remove what the other targets made
	rm -rf .venv .venv-docs .uv .matrix .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache dist site
