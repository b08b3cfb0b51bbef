# Every target sets up what it needs in .venv; the second time that takes no time.
PYTHON ?= $(shell command -v python3.11 || command -v python3)
BIN := .venv/bin
ARGS ?= run graphs/logging.yaml --log-placement
BROWSER := $(shell command -v chromium-headless-shell || command -v chromium || command -v chromium-browser || command -v google-chrome)
# the tests of the HTML page drive a real browser: without one they are left out, and that is said
BROWSED = $(if $(BROWSER),,-m "not browser")
SAY_BROWSER = $(if $(BROWSER),,@echo "no Chromium on this machine: the tests that drive one are left out (apt-get install chromium)")
SECONDS ?= 60
# how many examples of laws are tried (tests/conftest.py)
LAWS ?= test
TENSORFLOW_PYTHON ?= .venv/tensorflow/bin/python
CORPUS := $(shell find tests -name 'test_*corpus*.py')

# bytecode that is kept saves each worker of the tests 15 s, whatever the caller has set
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-16s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

run: .venv/run ## run placesim; ARGS="place graphs/towers.yaml" for other than the first example
	@$(BIN)/placesim $(ARGS)

test: .venv/dev ## all tests, the whole corpus among them; LAWS=ci for all examples of laws
	$(SAY_BROWSER)
	$(BIN)/python -m pytest -n auto $(BROWSED) --hypothesis-profile $(LAWS)

test-fast: .venv/dev ## the inner loop: no slow, browser, cluster or corpus tests, few examples of laws; ROOM=placement for one room's
	$(BIN)/python -m pytest -n auto -m "not (slow or browser or cluster or corpus)" --hypothesis-profile dev $(if $(ROOM),tests/$(ROOM))

test-corpus: .venv/dev ## what TensorFlow itself did, case by case
	$(BIN)/python -m pytest -n auto $(CORPUS)

recordings: .venv/dev ## compare with recordings that lie elsewhere: PLACEMENTS="FILE ..." OPS="FILE ..." MEMORY="FILE ..." FLOWS="FILE ..."
	$(if $(PLACEMENTS),$(BIN)/python -m tests.placement.corpus $(PLACEMENTS))
	$(if $(OPS),$(BIN)/python -m tests.ops.kernels.op_cases $(OPS))
	$(if $(MEMORY),$(BIN)/python -m tests.runtime.accounting.compare $(MEMORY))
	$(if $(FLOWS),$(BIN)/python -m tests.prediction.compare_flows $(FLOWS))

check: .venv/dev ## formatting, lint, spelling, types, all tests
	$(BIN)/ruff format --check placesim tests
	$(BIN)/ruff check placesim tests
	$(BIN)/codespell README.md placesim graphs
	$(BIN)/mypy
	$(SAY_BROWSER)
	$(BIN)/python -m pytest -n auto $(BROWSED) --hypothesis-profile $(LAWS)

format: .venv/dev ## format the code, and mend what the linter can
	$(BIN)/ruff format placesim tests
	$(BIN)/ruff check --fix placesim tests

golden: .venv/dev ## write the golden outputs of graphs/ anew; read the difference before you keep it
	$(BIN)/python -m tests.test_golden

tables: .venv/dev ## write what is generated: tables of ops, kernel families
	$(BIN)/python -m placesim.ops.compile_tables
	$(BIN)/python -m placesim.ops.compile_families

studio-editor: ## bundle the studio's code editor anew, with the exact versions of .studio/package-lock.json; needs npm
	npm --prefix .studio ci --no-audit --no-fund --ignore-scripts
	npm --prefix .studio run build

bench: .venv/dev ## measure: start-up, reading, placing, executing, memory, simulating; predicted times
	@for file in tests/benchmarks/*_bench.py; do echo "== $$file"; $(BIN)/python -m $$(echo $${file%.py} | tr / .) || exit 1; done

bench-tensorflow: .venv/dev $(TENSORFLOW_PYTHON) ## measure steps of models beside TensorFlow's own, which gets a Python of its own: ONLY=alexnet
	TENSORFLOW_PYTHON=$(TENSORFLOW_PYTHON) $(BIN)/python -m tests.benchmarks.beside_tensorflow $(if $(ONLY),--only "$(ONLY)") $(if $(OPTIMIZE),--optimize)

speed: .venv/dev $(TENSORFLOW_PYTHON) ## measure start-up, growth and steps, and write the tables of `placesim manual speed`: ONLY=growth
	TENSORFLOW_PYTHON=$(TENSORFLOW_PYTHON) $(BIN)/python -m tests.benchmarks.speed_page $(if $(ONLY),--only "$(ONLY)")

fuzz-tensorflow: .venv/dev $(TENSORFLOW_PYTHON) ## random training programs in TensorFlow and here, compared: SEEDS=0:100
	TENSORFLOW_PYTHON=$(TENSORFLOW_PYTHON) $(BIN)/python -m tests.tf1.trainings_beside_tensorflow $(if $(SEEDS),--seeds $(SEEDS))

fuzz: .venv/dev ## try odd inputs and tell what breaks: SECONDS=600 SURFACE=graphs SEED=1 KEEP=DIRECTORY
	$(BIN)/python -m tests.fuzz --seconds $(SECONDS) $(if $(SURFACE),--surface $(SURFACE)) $(if $(SEED),--seed $(SEED)) \
		$(if $(KEEP),--keep $(KEEP))

docs: .venv/docs ## build the documentation site, and check its links: build/docs/index.html
	rm -rf build/docs
	@mkdir -p build/docs/source
	cp -r .docs/* placesim/manual/* build/docs/source
	for page in tf1-functions tutorial; do $(BIN)/placesim manual $$page > build/docs/source/$$page.md || exit 1; done
	$(BIN)/sphinx-build --quiet --fail-on-warning --keep-going -j auto build/docs/source build/docs

coverage: .venv/dev ## run all tests, and print the share of lines and branches that they reach, by room
	$(SAY_BROWSER)
	@mkdir -p build
	-$(BIN)/coverage run -m pytest -n auto $(BROWSED) $(TESTS)
	$(BIN)/coverage combine --quiet
	$(BIN)/coverage json --quiet -o build/coverage.json
	$(BIN)/python -m tests.coverage_by_room build/coverage.json

mutants: .venv/dev ## change random lines, one at a time, and tell which no test notices: COUNT=200 SEED=1 REACH=DIRECTORY
	$(BIN)/python -m tests.mutation $(if $(COUNT),--count $(COUNT)) $(if $(SEED),--seed $(SEED)) $(if $(REACH),--reach $(REACH)) \
		$(if $(OUTPUT),--output $(OUTPUT)) $(if $(AGAIN),--again $(AGAIN))

clean: ## remove .venv, caches and what was built
	rm -rf .venv build dist *.egg-info .mypy_cache .pytest_cache .ruff_cache .hypothesis
	find placesim tests -name __pycache__ -type d -prune -exec rm -rf {} +

$(BIN)/python:
	@"$(PYTHON)" -c 'import sys; sys.exit("placesim needs Python 3.11 or newer" if sys.version_info < (3, 11) else 0)'
	"$(PYTHON)" -m venv .venv

.venv/tensorflow/bin/python: | $(BIN)/python
	"$(PYTHON)" -m venv .venv/tensorflow
	.venv/tensorflow/bin/python -m pip install --quiet --disable-pip-version-check tensorflow-cpu==2.21.0 tf_keras==2.21.0 || (rm -rf .venv/tensorflow; exit 1)

.venv/run: pyproject.toml | $(BIN)/python
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable .
	@$(BIN)/python -m compileall -q placesim
	@touch $@

.venv/docs: pyproject.toml | $(BIN)/python
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[docs]'
	@touch $@

.venv/dev: pyproject.toml | $(BIN)/python
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[dev]'
	@$(BIN)/python -m compileall -q placesim
	@touch $@ .venv/run

.PHONY: help run test test-fast test-corpus recordings check format golden tables studio-editor bench bench-tensorflow speed fuzz-tensorflow fuzz docs coverage mutants clean
