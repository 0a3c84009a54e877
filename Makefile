# Noria: `make` alone lists what there is to do.

LAKE ?= data/lake
CONF ?=
SEEDS ?=
ARGS ?=
PAGES ?=
DOCUMENTS ?=
# The system's own Python first, where it is new enough and can make environments: it is built with profile-guided
# optimisation, which pyenv leaves out unless told (6 % of a crawl's speed); then the newest that there is.
PYTHON ?= $(shell for needs in 'import ensurepip, venv' ''; do \
	for one in /usr/bin/python3 python3.13 python3.12 python3.11 python3 python; do \
	$$one -c "import sys; sys.version_info < (3, 11) and sys.exit(1); $$needs" >/dev/null 2>&1 && echo $$one && exit; done; done)

VENV := .venv
BIN := $(VENV)/bin
REPLAY := .venv-replay
REPLAYWEB := $(REPLAY)/replaywebpage
READY := $(VENV)/.ready
PIP := $(BIN)/python -m pip --quiet --disable-pip-version-check

.DEFAULT_GOAL := help
.PHONY: help install cycle status notebooks test test-all test-replay check format bench bench-parse bench-warc bench-peers bench-explain bench-extract bench-freshness bench-politeness clean

help:  ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  %-17s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

install: $(READY)  ## make .venv and install the locked packages and Noria
	@echo "installed: $(BIN)/noria   next: make cycle"

$(READY): conf/requirements.lock pyproject.toml
	@test -n "$(PYTHON)" || { echo "Noria needs Python 3.11 or newer and found none: sudo apt install python3 python3-venv, or say which with make PYTHON=/path/to/python3" >&2; exit 1; }
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "Noria needs Python 3.11 or newer, and $(PYTHON) is not" >&2; exit 1; }
	@$(PYTHON) -c 'import ensurepip, venv' 2>/dev/null || { echo "$(PYTHON) cannot make virtual environments: sudo apt install python3-venv" >&2; exit 1; }
	@echo "installing into $(VENV) with $$($(PYTHON) --version): a minute or two, once"
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@$(PIP) install --upgrade pip
	@$(PIP) install -r conf/requirements.lock
	@PYTHONWARNINGS=ignore $(PIP) install --no-deps --no-build-isolation --config-settings editable_mode=compat -e .
	@touch $(READY)

cycle: $(READY)  ## run one crawl cycle: LAKE=data/lake CONF=my.toml SEEDS=seeds.txt; without seeds, on a toy web
	@$(BIN)/noria cycle --lake "$(LAKE)" $(CONF:%=--conf %) $(if $(SEEDS),$(SEEDS:%=--seeds %),--demo-if-empty) $(ARGS)

status: $(READY)  ## tell what the lake holds: LAKE=data/lake
	@$(BIN)/noria status --lake "$(LAKE)" $(CONF:%=--conf %) $(ARGS)

notebooks: $(READY)  ## open JupyterLab on the notebooks: LAKE=data/lake
	@$(BIN)/python -c 'import jupyterlab' 2>/dev/null || { echo "installing JupyterLab into $(VENV), once"; $(PIP) install -r conf/notebooks.lock; }
	@mkdir -p $(VENV)/etc/jupyter/labconfig
	@echo '{"disabledExtensions": {"@jupyterlab/apputils-extension:announcements": true}}' >$(VENV)/etc/jupyter/labconfig/page_config.json
	@NORIA_LAKE__PATH="$(if $(filter /%,$(LAKE)),$(LAKE),$(CURDIR)/$(LAKE))" $(BIN)/jupyter lab --notebook-dir=notebooks --LabApp.news_url=None \
		--LabApp.check_for_updates_class=jupyterlab.NeverCheckForUpdate $(ARGS)

test: $(READY)  ## run the tests (the slow ones aside)
	@$(BIN)/python -m pytest -m "not slow" -n 2 --dist loadfile $(ARGS)

test-all: $(READY)  ## run all tests
	@$(BIN)/python -m pytest -n 2 --dist loadfile $(ARGS)

test-replay: $(READY) $(REPLAY)/.ready $(REPLAYWEB)/.ready  ## replay a crawl with pywb and ReplayWeb.page (installs them apart, once)
	@$(BIN)/python -m pytest tests/replay $(ARGS)

$(REPLAY)/.ready: conf/replay.lock
	@$(PYTHON) -m venv $(REPLAY)
	@$(REPLAY)/bin/python -m pip --quiet --disable-pip-version-check install --no-deps -r conf/replay.lock
	@touch $@

# Three files of the package are all that its page needs; nothing of it is run by npm.
$(REPLAYWEB)/.ready: conf/replaywebpage.lock
	@if ! command -v npm >/dev/null; then \
		echo "ReplayWeb.page is left out and its tests are skipped: npm, which installs it, is not here: sudo apt install npm" >&2; exit 0; fi; \
	set -e; rm -rf $(REPLAYWEB); mkdir -p $(REPLAYWEB); \
	npm pack --loglevel=error --ignore-scripts --pack-destination $(REPLAYWEB) "$$(sed -n 's/.*  \(.*\)-\(.*\)\.tgz$$/\1@\2/p' $<)" >/dev/null; \
	(cd $(REPLAYWEB) && sha512sum --quiet --check $(abspath $<) && \
		tar --extract --gzip --strip-components=1 --file *.tgz package/index.html package/ui.js package/sw.js && rm ./*.tgz); \
	touch $@

check: $(READY)  ## format, lint, types and import contracts; changes nothing
	@$(BIN)/ruff format --check .
	@$(BIN)/ruff check .
	@$(BIN)/mypy
	@$(BIN)/lint-imports

format: $(READY)  ## format the code
	@$(BIN)/ruff check --quiet --fix-only .
	@$(BIN)/ruff format .

bench: $(READY)  ## crawl 58,000 real pages and measure everything, then the peers (Debian; minutes); PAGES=500 DOCUMENTS=folder
	@$(BIN)/python -m tests.bench.bench_cycle $(PAGES:%=--pages %) $(DOCUMENTS:%=--documents %) $(ARGS)
	@$(BIN)/python -m tests.bench.bench_peers $(PAGES:%=--pages %) $(DOCUMENTS:%=--documents %)

bench-parse: $(READY)  ## CPU time of reading a page, stage by stage
	@$(BIN)/python -m tests.bench.bench_parse $(ARGS)

bench-warc: $(READY)  ## CPU time of writing a WARC record
	@$(BIN)/python -m tests.bench.bench_warc $(ARGS)

bench-peers: $(READY)  ## Scrapy, Crawlee and wget on the same pages (Debian; installs them apart)
	@$(BIN)/python -m tests.bench.bench_peers $(ARGS)

bench-explain: $(READY)  ## time of `noria explain`, `status` and `hosts` on a lake of ten million URLs
	@$(BIN)/python -m tests.bench.bench_explain $(ARGS)

bench-extract: $(READY)  ## pages a second of `noria extract`
	@$(BIN)/python -m tests.bench.bench_extract $(ARGS)

bench-freshness: $(READY)  ## how fresh pages are kept within a budget, against the optimum, uniform visits and Nutch's rule
	@$(BIN)/python tests/bench/bench_freshness.py $(ARGS)

bench-politeness: $(READY)  ## 2,000 hosts of skewed sizes and delays: what is asked of what the clocks allow (minutes)
	@$(BIN)/python tests/bench/bench_politeness.py $(ARGS)

clean:  ## remove .venv and caches; lakes and logs stay
	@rm -rf $(VENV) $(REPLAY) .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache *.egg-info
	@find . -name __pycache__ -type d -not -path './data/*' -prune -exec rm -rf {} +
