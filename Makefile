# Message Store Operator. `make help` lists the targets.
SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help

CACHE ?= $(or $(MESSAGESTORE_CACHE),$(or $(XDG_CACHE_HOME),$(HOME)/.cache)/message-store-operator)
UV_VERSION := $(shell sed -n 's/^uv==\([0-9.]*\).*/\1/p' uv-requirements.lock)
UV := $(CACHE)/uv-$(UV_VERSION)/bin/uv
VENV := .venv
PYTHON := $(VENV)/bin/python
PYTEST := $(PYTHON) -m pytest
# Each worker has its own Spark session. A file's tests stay together, as they share their setup, and so do all
# of tests/e2e (tests/conftest.py). One worker begins with those, which wait much, so there
# is one more than cores. Files run in order: the many short
# ones of tests/unit come last, so that no worker ends with a long one.
SIDE_BY_SIDE := --numprocesses 3 --dist loadfile --no-loadscope-reorder
export MESSAGESTORE_CACHE := $(CACHE)
# Also on machines that say otherwise, Python keeps what it has compiled: else each process compiles all packages again.
export PYTHONDONTWRITEBYTECODE :=

.PHONY: help install jars tools images cluster cluster-down demo demo-cluster test test-all test-quick test-unit test-jobs \
	test-hostile test-documents test-operator test-e2e test-histories test-faults fuzz fuzz-records mutants bench bench-large docs lint format crds lock \
	sbom clean

help: ## This list
	@grep -hE '^[a-z0-9-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 16

$(UV):
	@echo "install: uv $(UV_VERSION) into $(CACHE)"
	@python3 -m venv $(CACHE)/uv-$(UV_VERSION)
	@$(CACHE)/uv-$(UV_VERSION)/bin/python -m pip install --quiet --require-hashes --requirement uv-requirements.lock

$(VENV)/.installed: requirements.lock build-requirements.lock pyproject.toml | $(UV)
	@echo "install: Python packages from requirements.lock into $(VENV)"
	@test -x $(PYTHON) || $(UV) venv --quiet --python '>=3.11' $(VENV)
	@$(UV) pip sync --quiet --python $(PYTHON) --build-constraint build-requirements.lock --require-hashes requirements.lock
	@$(UV) pip install --quiet --python $(PYTHON) --build-constraint build-requirements.lock --no-deps --editable .
	@touch $@

jars: $(VENV)/.installed
	@spark_images/jars/build.sh $(PYTHON) $(VENV)/share/messagestore/jars

install: jars ## Set up .venv with the CLI, the jars and an archive of their classes
	@env -u MESSAGESTORE_JARS $(PYTHON) -m messagestore_jobs.driver.classes 2> $(VENV)/classes.log || { cat $(VENV)/classes.log; exit 1; }

# Also the cluster's: else they are built in the middle of the tests, which wait for them and compete with them.
tools: ## Build Kubernetes, etcd, kind, the Spark operator, an S3 server, helm and kube-score into the cache, and get Kafka, JUnit, PostgreSQL, message-db, webhook, Prometheus, Alertmanager, Chromium and axe, for the tests
	@python3 -m hack.programs
	@python3 -m hack.downloads

images: | $(UV) ## Build the container images, and load them into the cluster's node if there is one
	@UV=$(UV) python3 -m hack.cluster images

cluster: | $(UV) ## Create a kind cluster with the operator, a Spark operator and an S3 server; needs no container registry
	@UV=$(UV) python3 -m hack.cluster up

cluster-down: ## Delete the cluster, and stop all that was started for it
	@python3 -m hack.cluster down

# Making the archive of classes takes longer than it saves here.
demo: jars ## Ingest, purge and replay real webhooks on this machine
	@examples/demo.sh $(VENV)/bin/messagestore
	@test -e $(VENV)/share/messagestore/classes.jsa || echo "After \`make install\` Spark starts in two thirds of the time."

test: install tools ## A test of everything that is promised; deletes the cluster that they create
	UV=$(UV) $(PYTEST) $(SIDE_BY_SIDE) --take-down tests/e2e tests/jobs tests/operator tests/chart tests/unit

# Histories, hostile files and the pages' commands that are marked long run with their own targets.
test-all: test test-histories test-hostile test-documents test-faults fuzz fuzz-records ## `make test`, then all that it only samples; some hours
	UV=$(UV) $(PYTEST) $(SIDE_BY_SIDE) --take-down -m long tests/e2e tests/jobs tests/operator tests/unit \
		--ignore tests/jobs/histories --ignore tests/jobs/hostile --ignore tests/jobs/documents

test-unit: install ## Tests of pure parts, in milliseconds
	$(PYTEST) $(SIDE_BY_SIDE) tests/unit

# For each kind of job, the tests that most changes break.
QUICK := tests/jobs/extension tests/jobs/library tests/jobs/predicate tests/jobs/ingest/test_bad_input.py \
	tests/jobs/ingest/test_expected_version.py tests/jobs/purge/test_purge.py tests/jobs/replay/test_records.py

test-quick: install ## Tests of pure parts, and the most important ones of each kind of job
	$(PYTEST) $(SIDE_BY_SIDE) $(QUICK) tests/unit

test-jobs: install tools ## Tests of the jobs on local Spark
	$(PYTEST) tests/jobs

test-hostile: install ## All replacements of each kind of file of a store; some 40 minutes
	MESSAGESTORE_HOSTILE=all $(PYTEST) $(SIDE_BY_SIDE) --timeout 0 -m '' tests/jobs/hostile

test-documents: install ## The commands of all pages that start Spark
	MESSAGESTORE_DOCUMENTS=all $(PYTEST) $(SIDE_BY_SIDE) -m '' tests/jobs/documents

test-operator: install tools ## Tests of the operator and its chart against a real kube-apiserver
	$(PYTEST) tests/operator tests/chart

test-e2e: install tools ## Tests in a real cluster, which is created if there is none
	UV=$(UV) $(PYTEST) tests/e2e

demo-cluster: cluster ## The same demo in a real cluster: with the operator, pods and object storage
	@examples/demo-cluster.sh

FUZZ ?= 100000
TEXTS ?= 10000
SEED ?= $(shell date +%s)

fuzz: install ## Compare FUZZ random predicates with Spark's plans of them and with Arrow's answers, and read TEXTS others of each kind; SEED is the seed
	@echo "fuzz: $(FUZZ) predicates, and $(TEXTS) texts of each kind, of seed $(SEED)"
	MESSAGESTORE_TEXTS=$(TEXTS) $(PYTEST) --timeout 0 --hypothesis-seed=$(SEED) tests/unit/test_texts_of_strangers.py
	MESSAGESTORE_FUZZ=$(FUZZ) MESSAGESTORE_FUZZ_SEED=$(SEED) $(PYTEST) --timeout 0 tests/jobs/predicate/test_fuzz.py tests/jobs/predicate/test_arrow.py

RECORDS ?= 1000000

fuzz-records: install tools ## Hostile records, each counted once; RECORDS is their number, SEED the seed
	@echo "fuzz-records: $(RECORDS) records of seed $(SEED)"
	MESSAGESTORE_RECORDS=$(RECORDS) MESSAGESTORE_RECORDS_SEED=$(SEED) $(PYTEST) --timeout 0 \
		tests/jobs/ingest/test_hostile_records.py tests/jobs/kafka/test_hostile_records.py

HISTORIES ?= 200

test-histories: install ## Compare random histories of a store with a model; HISTORIES is their number, SEED the seed
	@echo "test-histories: $(HISTORIES) histories of seed $(SEED)"
	MESSAGESTORE_HISTORIES=$(HISTORIES) MESSAGESTORE_HISTORIES_SEED=$(SEED) $(PYTEST) $(SIDE_BY_SIDE) --timeout 0 -m '' \
		tests/jobs/histories

test-faults: install tools ## A hundred streams while operators are killed, API servers restarted and leaders doubled; SEED is the seed
	@echo "test-faults: seed $(SEED)"
	MESSAGESTORE_FAULTS=all MESSAGESTORE_FAULTS_SEED=$(SEED) $(PYTEST) --timeout 0 --log-cli-level INFO \
		tests/operator/test_faults.py

MODULE ?= decide
MUTANTS = build/mutants/$(MODULE)
FILES ?= *
# Each mutant costs a run of the tests that reach it, so tests that take seconds are left out.
QUICK_TESTS := not (test_anything_happens or many_streams or hundred_streams or no_namespace_is_told)
define MUTMUT
[mutmut]
source_paths=
 src/messagestore_core
 src/messagestore_operator
 src/messagestore_jobs
 src/messagestore
only_mutate=src/*/$(MODULE)/$(FILES)
pytest_add_cli_args_test_selection=tests/unit/$(MODULE)
pytest_add_cli_args=
 --hypothesis-seed=0
 -k
 $(QUICK_TESTS)
endef
export MUTMUT

# mutmut names a function by the path of its file, so each package must be at the top or in src.
mutants: install ## Changes to a package that none of its tests detects; MODULE is the package, FILES its files
	rm -rf $(MUTANTS)
	mkdir -p $(MUTANTS)/src
	ln -s $(CURDIR)/tests $(CURDIR)/pyproject.toml $(MUTANTS)
	ln -s $(CURDIR)/*/messagestore_* $(CURDIR)/library/messagestore $(MUTANTS)/src
	echo "$$MUTMUT" > $(MUTANTS)/setup.cfg
	cd $(MUTANTS) && nice $(CURDIR)/$(VENV)/bin/mutmut run --max-children 1
	cd $(MUTANTS) && $(CURDIR)/$(VENV)/bin/mutmut results

bench: install ## Benchmarks: tables of ratios, and the operator under load
	PYTHONPATH=tests $(PYTHON) -m tests.perf
	PYTHONPATH=tests $(PYTHON) -m tests.perf.shapes
	$(PYTHON) -m tests.perf.operator_load

bench-large: install ## Benchmarks of stores of 100 M messages and 1,000 M ids; takes tens of GB in the cache
	$(PYTHON) -m tests.perf.large_index
	$(PYTHON) -m tests.perf.large_tables
	$(PYTHON) -m tests.perf.large_files
	$(PYTHON) -m tests.perf.large_reads
	PYTHONPATH=tests $(PYTHON) -m tests.perf.large_documents 10000000 2000

docs: install ## The documentation as a site, in build/docs; fails for a dead link or anchor
	@rm -rf build/docs
	$(PYTHON) -m sphinx --fail-on-warning --keep-going --fresh-env --quiet -d build/pages -c docs/site . build/docs

lint: install docs ## Check style, types, the order of imports between packages, and the documentation's links
	$(VENV)/bin/ruff check .
	$(VENV)/bin/ruff format --check .
	$(VENV)/bin/mypy
	$(VENV)/bin/mypy --package hack
	$(VENV)/bin/lint-imports --no-cache

format: install ## Format, and fix what ruff can
	$(VENV)/bin/ruff check --fix .
	$(VENV)/bin/ruff format .

crds: install ## Generate crds/ and the chart's copy of it from the models
	$(VENV)/bin/messagestore crds --output crds
	$(VENV)/bin/messagestore crds --output charts/message-store-operator/files/crds

COMPILE := pip compile --quiet --universal --python-version 3.11 \
	--no-annotate --no-header --generate-hashes --no-emit-index-url

lock: | $(UV) ## Renew the locks from pyproject.toml, each image's part of them, and the jars' checksums
	$(UV) $(COMPILE) --group uv --output-file uv-requirements.lock
	$(UV) $(COMPILE) --upgrade --group build --output-file build-requirements.lock
	$(UV) $(COMPILE) --upgrade pyproject.toml --group dev --all-extras --output-file requirements.lock
	$(UV) $(COMPILE) pyproject.toml --constraint requirements.lock --extra jobs --output-file spark_images/requirements.lock
	$(UV) $(COMPILE) pyproject.toml --constraint requirements.lock --extra operator --output-file operator/requirements.lock
	spark_images/jars/fetch.sh spark_images/jars/pom.xml
	spark_images/jars/fetch.sh hack/kafka/pom.xml
	spark_images/jars/fetch.sh hack/junit/pom.xml
	spark_images/jars/fetch.sh hack/spark-kafka/pom.xml
	$(MAKE) sbom

sbom: | $(UV) ## Write each image's parts, from the locks: sbom.json beside its Dockerfile
	$(UV) $(COMPILE) --group sbom --output-file sbom-requirements.lock
	UV=$(UV) python3 -m hack.sbom

clean: ## Remove .venv; the cache stays
	rm -rf $(VENV)
