# `make demo` and `make test` need git, make and Python 3.11+; the first run builds .venv (a minute), later ones use it.
.DEFAULT_GOAL := help
SHELL := /bin/sh
BIN := .venv/bin
STAMP := .venv/.installed
REPORT := fixtures/h200/bank_conflict.slow/report.ncu-rep.xz
PYTEST_ARGS ?=
FUZZ_ARGS ?=
SENSITIVITY_ARGS ?=
FIELD ?= .field
HALF ?= learn
# Extras of pyproject.toml that .venv is made with; test-all before a release adds ray.
EXTRAS ?= dev

.PHONY: help demo test test-said test-all fuzz check check-frontend fixtures golden names frontend gallery rulebook docs eval field \
	sensitivity validate bench clean

help:
	@echo "make demo      diagnose a real capture in the terminal"
	@echo "make test      the tests, on some of every kind of capture, code and cheat; says how long and how much memory they took"
	@echo "make test-said what is said of every capture: goldens, gates, figures, next steps (in CI, with the others)"
	@echo "make test-all  all tests on all of them, before a release"
	@echo "make fuzz      20,000 mutated inputs through the command line, and the property tests on new random examples"
	@echo "make check     ruff, mypy --strict, import layers"
	@echo "make fixtures  the captures as plain reports, in build/fixtures"
	@echo "make check-frontend  types of the HTML report's script, and that its bundle is current (needs node)"
	@echo "make golden    rewrite the expected outputs of the fixtures (review the diff)"
	@echo "make frontend  build the HTML report's script and style (needs node)"
	@echo "make gallery   photograph the HTML reports of some fixtures (needs Chromium)"
	@echo "make names     rewrite the list of metrics that are read from reports, after code asks for new ones"
	@echo "make rulebook  rewrite rules/*.md from the rules' docstrings"
	@echo "make docs      the rule book, the guides, the commands and the Python API as a web site, in build/site"
	@echo "make eval      judge the diagnoses on the labelled captures, beside the profiler's own rules"
	@echo "make field     the same on public programs: HECBENCH=checkout GPA=checkout capture them on a machine with a GPU;"
	@echo "               FIELD=folder keeps the reports (.field), HALF=learn, learn2, judged, judged2 to judged9,"
	@echo "               library, library2 to library16 (LIBRARIES=folder with checkouts of what library*.toml of tools/field name)"
	@echo "make sensitivity  what each constant of kscope/arch/estimates.toml moves on the captures; SENSITIVITY_ARGS=--all: on"
	@echo "               all of them, --code: constants of modules too"
	@echo "make validate  compare the diagnoses of warp-specialised kernels with what their warps recorded"
	@echo "make bench     speed and memory against a bare ncu_report script"
	@echo "make clean     remove .venv and caches"

demo: $(STAMP)
	@$(BIN)/kscope analyze $(REPORT)
	@echo "to look at it in a browser: $(BIN)/kscope analyze $(REPORT) -o report.html"

test: $(STAMP)
	@$(BIN)/python tools/measured.py $(BIN)/python -m pytest -n auto -q $(PYTEST_ARGS)

test-said: export KSCOPE_TEST_SAID := 1
test-said: PYTEST_ARGS += tests/test_golden.py tests/test_golden_gates.py tests/test_diagnosis.py tests/test_next_step.py
test-said: test

test-all: export KSCOPE_TEST_ALL := 1
test-all: test

# Half an hour on two idle cores, half of it the inputs. FUZZ_ARGS="--seed 7" makes others, "--corpus DIR" adds seeds.
fuzz: $(STAMP)
	@$(BIN)/python -m tools.fuzz $(FUZZ_ARGS)
	@$(BIN)/python -m pytest -n auto -q --hypothesis-profile=search $(shell grep -rl "^from hypothesis" tests --include=test_*.py)

check: $(STAMP)
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python tools/frontend_types.py --check

golden: $(STAMP)
	$(BIN)/python tools/golden.py
	$(BIN)/python tools/golden_sass.py
	$(BIN)/python tools/golden_gates.py
	$(BIN)/python tools/golden_worklog.py

fixtures: $(STAMP)
	@$(BIN)/python tools/solid_fixtures.py --check

frontend: $(STAMP)
	$(BIN)/python tools/frontend_types.py
	cd reports/frontend && npm ci --no-audit --no-fund --silent && npm run check && npm run build

# Types, and that the committed bundle is what the sources build; writes nothing in the tree but node_modules.
check-frontend: $(STAMP)
	$(BIN)/python tools/frontend_types.py --check
	cd reports/frontend && npm ci --no-audit --no-fund --silent && npm run check && npm test

gallery: $(STAMP)
	$(BIN)/python tools/gallery.py

names: $(STAMP)
	$(BIN)/python tools/metric_names.py

rulebook: $(STAMP)
	$(BIN)/python tools/rulebook.py

docs: $(STAMP)
	$(BIN)/python -m tools.website build/site

eval: $(STAMP)
	@$(BIN)/python tools/eval.py --out reports/eval.md
	@$(BIN)/python tools/ladder.py --out reports/ladder.md

# Builds, checks and captures the programs of the checkouts named (a GPU, nvcc and ncu), then judges the stored reports.
field: $(STAMP)
	@if [ -n "$(HECBENCH)$(GPA)$(LIBRARIES)" ]; then $(BIN)/python tools/field/capture.py "$(FIELD)" --half "$(HALF)" \
		$(if $(HECBENCH),--hecbench "$(HECBENCH)") $(if $(GPA),--rodinia "$(GPA)") \
		$(if $(LIBRARIES),--checkout library="$(LIBRARIES)" --checkout library2="$(LIBRARIES)" --checkout library3="$(LIBRARIES)" \
			--checkout library4="$(LIBRARIES)" --checkout library5="$(LIBRARIES)" --checkout library6="$(LIBRARIES)" --checkout library7="$(LIBRARIES)" \
			--checkout library8="$(LIBRARIES)" --checkout library9="$(LIBRARIES)" --checkout library10="$(LIBRARIES)" --checkout library11="$(LIBRARIES)" --checkout library12="$(LIBRARIES)" --checkout library13="$(LIBRARIES)" --checkout library14="$(LIBRARIES)" --checkout library15="$(LIBRARIES)" --checkout library16="$(LIBRARIES)"); fi
	@$(BIN)/python tools/field/judge.py "$(FIELD)" --half "$(HALF)"

# Some minutes on two idle cores, with --all ten.
sensitivity: $(STAMP)
	@$(BIN)/python tools/sensitivity.py $(SENSITIVITY_ARGS)

validate: $(STAMP)
	@$(BIN)/python tools/validate_ws.py --out reports/warp_specialization.md

bench: $(STAMP)
	@$(BIN)/python tools/bench.py

clean:
	rm -rf .venv .pytest_cache .mypy_cache .ruff_cache .import_linter_cache .hypothesis .fuzz .bench build dist
	find kscope tests tools -name __pycache__ -type d -prune -exec rm -rf {} +

# Set up again whenever the project file or the pinned versions change. PYTHON=... picks an interpreter.
$(STAMP): pyproject.toml constraints.txt
	@for python in $(PYTHON) python3 python3.14 python3.13 python3.12 python3.11; do \
		if $$python -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then found=$$python; break; fi; \
	done; \
	if [ -z "$$found" ]; then echo "kscope needs Python 3.11 or later; none found (PYTHON=/path/to/python3 names one)" >&2; exit 1; fi; \
	if ! $$found -c 'import ensurepip, venv' 2>/dev/null; then \
		echo "$$found cannot make virtual environments; on Debian and Ubuntu: apt install python3-venv" >&2; exit 1; fi; \
	echo "setting up .venv with $$($$found -c 'import platform; print("Python", platform.python_version())')" >&2; \
	$$found -m venv --clear .venv
	@$(BIN)/python -m pip install -q --disable-pip-version-check -c constraints.txt -e '.[$(EXTRAS)]'
	@touch $@
