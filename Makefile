.DEFAULT_GOAL := help
.PHONY: help setup demo report test test-full soak test-avx2 lint types format docs data bench reproduce-all clean

# Any Python of at least 3.11; `make PYTHON=/path/to/python` chooses one.
PYTHON ?= $(shell for p in python3 python3.13 python3.12 python3.11; do \
	$$p -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && echo $$p && break; done)
BIN := .venv/bin
READY := .venv/.ready

# What is given to make as name=value is a key of the command: make reproduce-figure-3 budget=quick
KEYS := $(subst <space>,\ ,$(filter-out ARGS=% PYTHON=%,$(subst \ ,<space>,$(MAKEOVERRIDES))))
ifneq ($(and $(KEYS),$(filter-out demo report reproduce-%,$(or $(MAKECMDGOALS),help))),)
$(error $(KEYS): only demo, report and reproduce-... take keys)
endif

help:  ## list the targets
	@awk -F ':.*## ' '/^[a-z0-9%-]+:.*## / {printf "  make %-24s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

setup: $(READY)  ## create the virtual environment from requirements.lock (every target does so by itself)

$(READY): requirements.lock
	@test -n "$(PYTHON)" || { echo "no Python of at least 3.11 found; try make PYTHON=/path/to/python"; exit 1; }
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -r requirements.lock
	@# So that this environment's Python finds the project from any folder.
	@$(BIN)/python -c "import pathlib, sysconfig; \
		pathlib.Path(sysconfig.get_path('purelib'), 'project.pth').write_text('$(CURDIR)\n')"
	@touch $@

demo: $(READY)  ## the study of Figure 2 on data inside scikit-learn: figure and claims, no download
	$(BIN)/python -m experiments.reproduce figure=demo $(KEYS) $(ARGS)

reproduce-%: $(READY)  ## figure-1, -2, -2-top-k, -3, -3-vgg16, -3-wrn16-4, methods, why or rate: data, runs, figure, claims
	$(BIN)/python -m experiments.reproduce figure=$(subst -,_,$*) $(KEYS) $(ARGS)

reproduce-all: $(addprefix reproduce-,figure-2 figure-2-top-k methods why rate figure-3 figure-1 figure-3-vgg16 figure-3-wrn16-4)  ## every figure

report: $(READY)  ## results/report.html: all runs on one interactive page, which needs no network
	$(BIN)/python -m experiments.report $(KEYS) $(ARGS)

data: $(READY)  ## fetch and verify the LibSVM sets and CIFAR-10 (into DATA_DIR, or data/downloads)
	$(BIN)/python -m data

# A worker a core, each with one thread: more threads than cores make small tensors many times slower. Files in order,
# for those with the fewest tests take long.
PYTEST := OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n auto --dist loadfile --no-loadscope-reorder

test: $(READY)  ## the fast tests, in parallel
	$(PYTEST)

test-full: $(READY)  ## the slow tests too
	$(PYTEST) -m "not soak"

soak: $(READY)  ## hours of kills, damaged files and odd input: docs/reliability.md
	$(PYTEST) -m "" tests/reliability --hypothesis-profile=soak $(ARGS)

test-avx2: $(READY)  ## what depends on the processor's instructions, as on one without AVX-512
	ONEDNN_MAX_CPU_ISA=AVX2 ATEN_CPU_CAPABILITY=avx2 $(PYTEST) tests/golden tests/algorithms/test_compressors.py \
		tests/experiments/test_flat_model.py tests/experiments/test_models.py tests/experiments/test_image_task.py

lint: $(READY)  ## ruff: style and format
	$(BIN)/ruff check
	$(BIN)/ruff format --check

types: $(READY)  ## pyright, which npm brings at its first call
	$(BIN)/pyright

format: $(READY)  ## ruff: mend what it can
	$(BIN)/ruff check --fix
	$(BIN)/ruff format

docs: $(READY)  ## build the documentation into docs/_build/html; a warning is an error
	$(BIN)/python -m sphinx -W --keep-going -q -E -b html docs docs/_build/html

bench: $(READY)  ## packing, speed and the parts of a training step, as ratios measured here
	$(BIN)/python -m benchmarks.packing
	$(BIN)/python -m benchmarks.study
	$(BIN)/python -m benchmarks.train_step
	$(BIN)/python -m benchmarks.mirror

clean:  ## remove the virtual environment and caches; results and data stay
	rm -rf .venv .pytest_cache .ruff_cache docs/_build
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
