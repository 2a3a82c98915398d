# pinotpy: what a developer can do. `make` alone prints this menu.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
DEV := $(VENV)/.installed-dev
# pip, with a line of progress every few seconds.
INSTALL := deploy/install_packages.py
ARGS ?=
EXIT ?=
N ?= 20000
# Of the tests with real daemons, those that `make test` runs: README's commands, a killed server, pushes. `make verify` runs all.
SMOKE := $(addprefix tests/cluster/,test_readme.py test_server_killed.py test_push_live.py)

.PHONY: simulate help install dev quickstart secrets compose-test check test verify lowest fuzz bench bench-quoted fmt docs clean

help: ## this menu
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-12s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

install: $(STAMP) ## create .venv, install what a cluster needs, compile the kernels once
	$(BIN)/pinotpy warmup

dev: $(DEV) ## install what the tests need as well: the other targets do this first

$(STAMP): pyproject.toml
	$(PYTHON) -c 'import sys; v = sys.version_info[:2]; sys.exit(0 if v >= (3, 11) else f"pinotpy needs Python 3.11 or newer, found {v[0]}.{v[1]}: set PYTHON=…")'
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python $(INSTALL) -e '.[quickstart]'
	@touch $@

$(DEV): $(STAMP) pyproject.toml
	$(BIN)/python $(INSTALL) -e '.[quickstart,dev]'
	@touch $@

quickstart: $(STAMP) ## a whole cluster with the 336,776 flights of 2013; EXIT=1 stops after the queries
	@exec $(BIN)/pinotpy quickstart $(if $(EXIT),--exit) $(ARGS)

secrets: ## random secrets for docker-compose.yml, in .env; never replaced
	@deploy/docker/new-secrets .env

compose-test: dev ## docker-compose.yml for real, with docker compose or podman-compose: built, up, asked, restarted, down
	@$(BIN)/python tests/support/compose_trial.py $(ARGS)

check: dev ## ruff, mypy --strict, the architecture and the documents, without running the system
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/python -m pytest -q tests/test_architecture.py tests/test_documents.py

test: check ## the fast tier: about 25 minutes on two cores
	$(BIN)/pinotpy warmup
	$(BIN)/python -m pytest -n 2 --dist loadscope --durations=40 -m "not full and not cluster" $(ARGS)
	$(BIN)/python -m pytest -n 2 --dist loadscope -m "cluster and not full" $(SMOKE) $(ARGS)

verify: check ## the full tier: every test on a live cluster, chaos, fuzz, long simulations, the lowest versions of dependencies; over an hour on two cores
	$(BIN)/pinotpy warmup
	$(BIN)/python -m pytest -n 2 --dist loadscope --no-loadscope-reorder --durations=40 -m "full and not cluster" $(ARGS)
	$(BIN)/python -m pytest -n 2 --dist loadscope --no-loadscope-reorder --durations=40 -m "cluster" $(if $(AFTER_TEST),$(addprefix --deselect=,$(SMOKE))) $(ARGS)
	@echo "thinned to fit: 30,000 texts asked and 40,000 parsed (FUZZ_TEXTS), 20,000 requests (FUZZ_REQUESTS), 3,000 random queries, 4,500 of SQL, 3,000 with expressions (make fuzz N=20000), 1,600 and 160 schedules of transitions and replacements; of all these the share $${PINOTPY_THIN:-1} (PINOTPY_THIN)"
	@if [ "$${PINOTPY_TESTS_UNTIL:-0}" -gt 0 ] && [ "$$(date +%s)" -gt "$${PINOTPY_TESTS_UNTIL:-0}" ]; then echo "lowest versions: not tried, CI's time is nearly over"; else $(MAKE) lowest; fi

# With the lowest versions that pyproject.toml allows: in an environment of its own, with compiled kernels of its own, both kept.
LOWEST := .venv-lowest
LOWEST_TESTS := tests/unit/ingest tests/unit/segment tests/unit/broker/test_arrow_answers.py tests/unit/client/test_arrow_client.py
# Where CI is short of time.
LOWEST_FEW := tests/unit/ingest/test_readers.py tests/unit/ingest/test_column_files.py tests/unit/segment/test_segment_round_trip.py tests/unit/broker/test_arrow_answers.py tests/unit/client/test_arrow_client.py
# Random search, and what starts processes or compiles much: their code is that of the tests that stay.
LOWEST_LESS := --ignore tests/unit/ingest/jobs --ignore tests/unit/ingest/push --ignore tests/unit/segment/test_segment_reload.py \
	--ignore tests/unit/segment/test_segment_life.py --ignore tests/unit/segment/test_segment_damage.py --ignore tests/unit/segment/star_tree/test_build.py

$(LOWEST)/.installed: pyproject.toml tests/support/lowest_versions.py | $(DEV)
	test -x $(LOWEST)/bin/python || $(PYTHON) -m venv $(LOWEST)
	$(BIN)/python tests/support/lowest_versions.py > $(LOWEST)/requirements.txt
	$(LOWEST)/bin/python $(INSTALL) -r $(LOWEST)/requirements.txt
	@touch $@

lowest: $(LOWEST)/.installed ## the fast tests of readers, builder and Arrow with the lowest versions of all dependencies
	PYTHONPATH=src $(LOWEST)/bin/python -m pytest -n 2 --dist loadscope -p no:cacheprovider -m "not full and not cluster" $(LOWEST_LESS) $(if $(PINOTPY_THIN),$(LOWEST_FEW),$(LOWEST_TESTS))

fuzz: dev ## N conditions on every road, N random queries against DuckDB (a third over SQL's whole grammar), N/10 histories of reloads, reruns of jobs
	$(BIN)/pinotpy warmup
	PINOTPY_FUZZ=$$(( $(N) / 3 + 500 )) $(BIN)/python -m pytest -n 2 -rP -m "not full" tests/property tests/unit/ingest/jobs/test_reruns.py -k "queries_equal or expressions_equal or after_each_change" $(ARGS)
	PINOTPY_FUZZ=$(N) $(BIN)/python -m pytest -n 2 -rP -m "not full" tests/property/test_conditions_on_every_road.py $(ARGS)
	PINOTPY_FUZZ_HISTORIES=$$(( $(N) / 10 )) $(BIN)/python -m pytest -n 2 -rP -m "not full" tests/property/test_reload_histories.py $(ARGS)

simulate: dev ## segment completion under a million random schedules, on all cores: make simulate ARGS='--schedules 100000'
	$(BIN)/python tests/support/simulate_completion.py $(ARGS)

bench: dev ## speed beside DuckDB, chdb and polars, 10 M rows: make bench ARGS='--suite own --rows 1000000'
	$(BIN)/python $(INSTALL) -e '.[bench]'
	$(BIN)/pinotpy warmup
	$(BIN)/python -m bench.run $(ARGS)

bench-quoted: dev ## every number of docs/performance.md, measured anew on a quiet machine; an hour or two
	$(BIN)/python $(INSTALL) -e '.[bench]'
	$(BIN)/pinotpy warmup
	$(BIN)/python -m bench.run --suite ssb,own,study,selective,disk --load-mode HEAP --rows 10000000 --out bench/results/quoted-10m.json
	$(BIN)/python -m bench.run --suite ssb,own --rows 10000000 --out bench/results/quoted-10m-mmap.json
	$(BIN)/python -m bench.run --suite ssb,own,startree --rows 50000000 --apart --out bench/results/quoted-50m.json
	$(BIN)/python -m bench.run --suite selective --load-mode HEAP --rows 50000000 --apart --out bench/results/quoted-50m-heap.json
	$(BIN)/python -m bench.run --suite selective --warmed --load-mode HEAP --rows 50000000 --apart --out bench/results/quoted-50m-warmed.json
	$(BIN)/python -m bench.run --suite frames,kernels --rows 10000000 --out bench/results/quoted-others.json
	$(BIN)/python -m bench.run --suite segments,fixed --rows 10000000 --out bench/results/quoted-segments.json
	$(BIN)/python -m bench.run --suite build,spark,push --rows 20000000 --out bench/results/quoted-pipeline.json
	$(BIN)/python -m bench.report

fmt: dev ## format and fix
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

docs: dev ## regenerate docs/generated
	$(BIN)/python -m pinotpy.config.documentation
	$(BIN)/python -m pinotpy.ingest.jobs.documentation
	$(BIN)/python -m pinotpy.query.documentation

clean: ## remove what was built
	rm -rf $(VENV) $(LOWEST) build dist src/*.egg-info .mypy_cache .ruff_cache .pytest_cache .hypothesis
