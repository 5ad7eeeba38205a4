.DEFAULT_GOAL := help
.PHONY: help setup setup-run demo redraw report leaderboard data test test-docs test-full test-frameworks soak test-avx2 \
	lint types format docs audit lock bench gpu reproduce-all clean

# Any Python of at least 3.11; `make PYTHON=/path/to/python` chooses one.
PYTHON ?= $(shell for p in python3 python3.13 python3.12 python3.11; do \
	$$p -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && echo $$p && break; done)
BIN := .venv/bin
READY := .venv/.ready
READY_TO_DEVELOP := .venv/.ready-to-develop
READY_FOR_FRAMEWORKS := .venv/.ready-for-frameworks
LOCKS := requirements
# Every file that is installed has a hash in a lock, what torch's own build brings with it too; what has to be built is
# built by the locked setuptools.
INSTALL := $(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes --no-build-isolation

# What is given to make as name=value is a key of the command, and quoted for the shell: make reproduce-figure-3 budget=quick
quoted = '$(subst ','\'',$(subst $$$$,$$,$(subst \\,\,$(subst <space>, ,$1))))'
OWN := ARGS=% PYTHON=% DEADLINE=% RESULTS=% REHEARSE=%
KEYS := $(foreach key,$(filter-out $(OWN),$(subst \ ,<space>,$(MAKEOVERRIDES))),$(call quoted,$(key)))
ifneq ($(and $(KEYS),$(filter-out demo report leaderboard reproduce-% enter-%,$(or $(MAKECMDGOALS),help))),)
$(error $(KEYS): only demo, report, leaderboard, reproduce-... and enter-... take keys)
endif

help:  ## list the targets
	@awk -F ':.*## ' '/^[a-z0-9%-]+:.*## / {printf "  make %-24s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

setup: $(READY_TO_DEVELOP)  ## create the virtual environment from the locks (every target does so by itself)

setup-run: $(READY)  ## the same with only what running needs

$(READY): $(addprefix $(LOCKS)/,build.lock torch-cpu.lock run.lock cuda.lock)
	@test -n "$(PYTHON)" || { echo "no Python of at least 3.11 found; try make PYTHON=/path/to/python"; exit 1; }
	$(PYTHON) -m venv .venv
	$(INSTALL) -r $(LOCKS)/build.lock
	@$(INSTALL) --no-deps -r $(LOCKS)/torch-cpu.lock || echo "make: no CPU build of torch by the lock's hashes is at hand;" \
		"the registry's is taken, which on Linux brings CUDA's libraries"
	$(INSTALL) -r $(LOCKS)/run.lock -c $(LOCKS)/cuda.lock
	@# So that this environment's Python finds the project from any folder.
	@$(BIN)/python -c "import pathlib, sysconfig; \
		pathlib.Path(sysconfig.get_path('purelib'), 'project.pth').write_text('$(CURDIR)\n')"
	@touch $@

$(READY_TO_DEVELOP): $(LOCKS)/dev.lock $(READY)
	$(INSTALL) -r $(LOCKS)/dev.lock
	@touch $@

$(READY_FOR_FRAMEWORKS): $(LOCKS)/frameworks.lock $(READY_TO_DEVELOP)
	$(INSTALL) -r $(LOCKS)/frameworks.lock
	@touch $@

demo: $(READY)  ## the study of Figure 2 on data inside scikit-learn: figure and claims, no download
	$(BIN)/python -m experiments.reproduce figure=demo $(KEYS) $(ARGS)

reproduce-%: $(READY)  ## figure-1, figure-2, why, … (conf/figure/ has them all): data, runs, figure, claims
	$(BIN)/python -m experiments.reproduce figure=$(subst -,_,$*) $(KEYS) $(ARGS)

FIGURES := figure-2 figure-2-wide figure-2-top-k why why-frozen why-stochastic dependence dependence-batches \
	dependence-rounds ef21 marina batch-one local-steps messages rate regime regime-batches language language-reference \
	figure-3 figure-1 bandwidth figure-3-vgg16 figure-1-vgg16 figure-3-wrn16-4 figure-1-wrn16-4

reproduce-all: $(FIGURES:%=reproduce-%)  ## every figure of results-reference/

enter-%: $(READY)  ## enter-digits, enter-logreg, … (conf/leaderboard/ has them all): make enter-digits algorithm=cd_adam
	$(BIN)/python -m experiments.enter track=$(subst -,_,$*) $(KEYS) $(ARGS)

redraw: $(READY)  ## the committed figures, drawn and judged again from their tables
	$(BIN)/python -m experiments.redraw $(ARGS)

report: $(READY)  ## results/report.html: all runs on one interactive page, which needs no network
	$(BIN)/python -m experiments.report $(KEYS) $(ARGS)

leaderboard: $(READY)  ## the rankings of every track's entries, printed and as pages in results/rankings
	$(BIN)/python -m experiments.leaderboard $(KEYS) $(ARGS)

data: $(READY)  ## fetch and verify the LibSVM sets, CIFAR-10 and tiny Shakespeare (into DATA_DIR, or data/downloads)
	$(BIN)/python -m data

# A worker a core, each with one thread: more threads than cores make small tensors many times slower. Files in order,
# for those with the fewest tests take long.
PYTEST := OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n auto --dist loadfile --no-loadscope-reorder

test: $(READY_TO_DEVELOP)  ## the fast tests, in parallel
	$(PYTEST)

test-docs: $(READY_TO_DEVELOP)  ## the documents: commands, links, reports; and the page of results in a browser
	$(PYTEST) -m "docs and not slow"

test-full: $(READY_TO_DEVELOP)  ## all tests, the slow ones too
	$(PYTEST) -m "not soak"

test-frameworks: $(READY_FOR_FRAMEWORKS)  ## examples/ for Lightning, Accelerate and Transformers, which it installs first
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -m frameworks tests/frameworks

soak: $(READY_TO_DEVELOP)  ## hours of kills, damaged files and odd input: docs/reliability.md
	$(PYTEST) -m "" tests/reliability --hypothesis-profile=soak $(ARGS)

test-avx2: $(READY_TO_DEVELOP)  ## what depends on the processor's instructions, as on one without AVX-512
	ONEDNN_MAX_CPU_ISA=AVX2 ATEN_CPU_CAPABILITY=avx2 $(PYTEST) tests/golden \
		tests/algorithms/test_compressors.py tests/algorithms/test_packing.py tests/experiments/test_flat_model.py \
		tests/experiments/test_models.py tests/experiments/test_image_task.py

lint: $(READY_TO_DEVELOP)  ## ruff: style and format
	$(BIN)/ruff check
	$(BIN)/ruff format --check

types: $(READY_TO_DEVELOP)  ## pyright, which npm brings at its first call
	$(BIN)/pyright

format: $(READY_TO_DEVELOP)  ## ruff: mend what it can
	$(BIN)/ruff check --fix
	$(BIN)/ruff format

docs: $(READY_TO_DEVELOP)  ## build the documentation into docs/_build/html; a warning is an error
	$(BIN)/python -m sphinx -W --keep-going -q -E -b html docs docs/_build/html

audit: $(READY_TO_DEVELOP)  ## known vulnerabilities of what the locks name; without an answer for all of it, an error
	@$(BIN)/pip-audit --strict --disable-pip --require-hashes $(foreach lock,build run cuda dev frameworks,-r $(LOCKS)/$(lock).lock) \
		|| { echo "make audit: a vulnerability, or no answer of the service that knows them, see above"; exit 1; }

lock: $(READY_TO_DEVELOP)  ## write the locks anew from pyproject.toml; ARGS=--upgrade takes the newest versions
	$(BIN)/python $(LOCKS)/renew.py $(ARGS)

bench: $(READY)  ## where the time of a training step goes
	$(BIN)/python -m benchmarks.train_step task.model.width=8 task.batch_size=16 task.precision=float32 task.evaluation_rows=2500

# A borrowed machine has a Python of its own, with torch and perhaps nothing that could make an environment.
gpu:  ## what a GPU is worth using for, in order, until DEADLINE=540 seconds
	PYTHON=$(firstword $(wildcard $(BIN)/python) $(PYTHON)) bash benchmarks/gpu.sh

clean:  ## remove the virtual environment and caches; results and data stay
	rm -rf .venv .pytest_cache .ruff_cache build docs/_build
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
