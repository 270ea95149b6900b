# make run | test | check | bench: each first sets up what it needs in .venv. Requires only Python 3.11+ with venv.
PYTHON ?= python3
PHOTOS ?=
PORT   ?= $(or $(REGARD_PORT),8000)
DATA   ?= $(or $(REGARD_DATA_DIR),./data)
BENCH  ?=
MINUTES ?= 5
SEED   ?= 1
ARGS   ?=
TESTS  ?= tests

VENV := .venv
BIN  := $(VENV)/bin
UV   := $(BIN)/uv
SYNC  = $(UV) pip sync --quiet --require-hashes --python $(BIN)/python
LINK  = $(UV) pip install --quiet --no-deps --no-build-isolation --python $(BIN)/python --editable .
COMPILER_LOCK = $(UV) pip compile --quiet --generate-hashes --universal --no-header --no-annotate --python-version 3.11
LOCK  = $(UV) pip compile --quiet --generate-hashes --universal --no-header --no-annotate --python-version 3.11 pyproject.toml

# For the packages that a lock adds to another one, at the versions of the common lock. The names to leave out are read
# when the command runs, after the other lock was renewed.
WHOLE  = $(VENV)/whole.lock
BESIDE = --constraints $(WHOLE) $$(sed -n 's/^\([a-z0-9][^=]*\)==.*/--no-emit-package \1/p' $(1))

# If all of these are installed, `make run` installs nothing, and so removes nothing that `make test` needs.
DEV_LOCKS := requirements.lock requirements-image.lock requirements-cluster.lock requirements-dev.lock
READY := $(if $(wildcard $(VENV)/.dev),$(VENV)/.dev,$(VENV)/.run)

# The C kernels are rebuilt when their sources change; without them everything works, but slower.
KERNELS := $(VENV)/.kernels

# Recipes read these as "$$PHOTOS", so that names of folders may contain any character.
export PHOTOS PORT DATA
export UV_HTTP_TIMEOUT ?= 300
# Idle threads sleep instead of spinning; see service/__init__.py.
export OMP_WAIT_POLICY ?= passive

.PHONY: help setup run test test-fast check format bench chaos cluster-demo image-test docs page lock audit sbom clean

help:
	@echo 'make run [PHOTOS=dir] [PORT=8000] [DATA=./data]   serve, after ingesting the photographs of a folder'
	@echo 'make test [TESTS=tests/models/test_batches.py]    run the tests'
	@echo 'make test-fast                                    run the tests that are quick and start no service'
	@echo 'make check                                        lint, format, types, Dockerfile, compose file'
	@echo 'make bench BENCH=name [ARGS=..]                   measure'
	@echo 'make chaos [MINUTES=5] [SEED=1] [ARGS=--redis]    kill a service of its own again and again, and check it'
	@echo 'make cluster-demo [PHOTOS=dir]                    three nodes on this machine, one of which is killed'
	@echo 'make image-test                                   build the image without a docker engine and try it (root, 40 GB)'
	@echo 'make setup                                        everything into .venv, with .venv/bin/regard'
	@echo 'make page                                         build the page at / from its TypeScript (needs node and npm)'
	@echo 'make audit                                        known vulnerabilities of what is locked (needs the network)'
	@echo 'make sbom                                         what a release holds, as CycloneDX JSON in regard.cdx.json'
	@echo 'make format | docs | lock | clean                 format code, write tables and types, renew locks, remove .venv'

setup: $(VENV)/.dev $(KERNELS)

run: $(READY) $(KERNELS)
	exec $(BIN)/regard serve --port "$$PORT" --data-dir "$$DATA" $${PHOTOS:+--photos "$$PHOTOS"}

# Tests without a whole service run in three processes per two cores, since some wait for disks and programs; then the
# others run in three processes, since each of them starts several. Status 5: TESTS has none of that kind.
# PYTHONDONTWRITEBYTECODE would make each of hundreds of processes compile our sources again.
PYTEST := $(BIN)/python -m pytest --durations=15
PARALLEL := --dist loadfile --no-loadscope-reorder
PROCESSES := $(shell n=$$(($$(nproc) * 3 / 2)); echo $$((n < 8 ? n : 8)))
# Folders of tests that start whole services; no other file is imported to look for them.
SERVICES := $(if $(filter tests,$(TESTS)),tests/cluster tests/e2e tests/service/bench,$(TESTS))

test: $(VENV)/.dev $(KERNELS)
	@unset PYTHONDONTWRITEBYTECODE; alone=0; services=0; set -x; \
	$(PYTEST) $(PARALLEL) -n $(PROCESSES) -m "not e2e" $(TESTS) || alone=$$?; \
	$(PYTEST) $(PARALLEL) -n 3 -m e2e $(SERVICES) || services=$$?; \
	[ $$alone = 5 ] && exit $$services; [ $$services = 5 ] && exit $$alone; exit $$((alone + services))

test-fast: $(VENV)/.dev $(KERNELS)
	$(PYTEST) $(PARALLEL) -n $(PROCESSES) -m "not e2e and not slow" $(TESTS)

check: $(VENV)/.dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/hadolint Dockerfile
	$(BIN)/check-jsonschema --builtin-schema vendor.compose-spec docker-compose.yml

format: $(VENV)/.dev
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

bench: $(VENV)/.dev $(KERNELS)
	@test -f "benchmarks/$(BENCH).py" || { echo 'Name one with BENCH=, its arguments with ARGS=:'; grep -l '__main__' benchmarks/*.py; exit 2; }
	$(BIN)/python -m benchmarks.$(BENCH) $(ARGS)

# Uses a service and a folder of its own: yours are not touched.
chaos: $(READY) $(KERNELS)
	exec $(BIN)/regard chaos --minutes $(MINUTES) --seed $(SEED) $(ARGS)

# Uses Ray nodes on this machine with folders of their own: your service is not touched.
cluster-demo: $(VENV)/.dev $(KERNELS)
	exec $(BIN)/regard cluster demo $${PHOTOS:+--photos "$$PHOTOS"} $(ARGS)

# Run for each release (CONTRIBUTING.md). Needs root, and Debian's packages buildah and debootstrap.
image-test: $(VENV)/.dev
	$(BIN)/python -m tests.e2e.image $(ARGS)

# A generator that fails leaves its file unchanged.
generated = $(BIN)/python $(1) > $(VENV)/generated && cp $(VENV)/generated $(2)

docs: $(VENV)/.dev
	$(call generated,docs/settings_table.py settings.md,docs/settings.md)
	$(call generated,docs/settings_table.py .env.example,.env.example)
	$(call generated,-m docs.openapi_document,docs/openapi.json)
	$(call generated,clients/python/generate_answers.py,clients/python/regard_client/answers.py)
	$(call generated,clients/python/generate_client.py,clients/python/regard_client/client.py)

# The built page is committed, so that users do not need node. esbuild builds it; Biome lints and tsc checks types.
page: docs
	cd service/page && npm ci --no-audit --no-fund && npm run build && npm run check && npm test

# Matches wheels for unsupported platforms, and for Pythons that are too old or free-threaded.
ELSEWHERE = win32|win_|macosx|ios_|android|emscripten|-musllinux|ppc64le|s390x|armv7l|riscv64|i686|-pp3|graalpy|-cp3(6|7|8|9|10)-cp3|-cp3[0-9]+-cp3[0-9]+t-
# Removes their hashes from a lock, where they were the largest part: the size of the checkout is limited.
define for_linux
$(UV) pip compile --quiet --no-deps --universal --format pylock.toml $(1) --output-file $(VENV)/pylock.toml
sed -nE 's/.*($(ELSEWHERE)).*sha256 = "([0-9a-f]+)".*/\3/p' $(VENV)/pylock.toml > $(VENV)/elsewhere
awk -v list=$(VENV)/elsewhere 'BEGIN { while ((getline hash < list) > 0) drop["--hash=sha256:" hash] } \
  ($$1 in drop) { next } { sub(/ *\\$$/, "") } $$1 ~ /^--hash/ { printf " \\\n%s", $$1; next } { printf "%s%s", (NR > 1 ? "\n" : ""), $$0 } \
  END { print "" }' $(1) > $(VENV)/for_linux.lock
mv $(VENV)/for_linux.lock $(1)

endef

# Renewing a lock prefers the versions that it has; remove it first to get the newest ones.
lock: $(VENV)/.uv
	cat $(wildcard $(DEV_LOCKS)) > $(WHOLE)
	$(LOCK) --output-file requirements.lock
	$(LOCK) --all-extras --constraints requirements.lock --output-file $(WHOLE)
	$(LOCK) --extra raw --extra places --extra tracing $(call BESIDE,requirements.lock) --output-file requirements-image.lock
	$(LOCK) --extra cluster $(call BESIDE,requirements.lock) --output-file requirements-cluster.lock
	$(LOCK) --all-extras $(call BESIDE,$(filter-out requirements-dev.lock,$(DEV_LOCKS))) --output-file requirements-dev.lock
	echo ziglang | $(COMPILER_LOCK) --output-file requirements-compiler.lock -
	$(foreach lock,$(wildcard requirements*.lock),$(call for_linux,$(lock)))

# Both tools run in their own environments, so that they report on the lock, not on themselves.
audit: $(VENV)/.uv
	$(UV) tool run pip-audit@2.10.1 --strict --disable-pip --progress-spinner off --requirement requirements.lock \
	  --requirement requirements-image.lock --requirement requirements-cluster.lock

sbom: $(VENV)/.uv
	cat requirements.lock requirements-image.lock \
	| $(UV) tool run --from cyclonedx-bom==7.5.0 cyclonedx-py requirements --pyproject pyproject.toml \
	  --mc-type application --output-reproducible --output-format JSON --output-file regard.cdx.json -

clean:
	rm -rf $(VENV)

$(VENV)/.uv:
	@$(PYTHON) -c 'import sys; sys.exit("Regard needs Python 3.11 or newer; make PYTHON=python3.x names another one" if sys.version_info < (3, 11) else 0)'
	$(PYTHON) -m venv $(VENV)
	sed -n '/^uv==/,/[^\\]$$/p' requirements-dev.lock > $(VENV)/uv.lock
	$(BIN)/python -m pip install --quiet --require-hashes --requirement $(VENV)/uv.lock
	@touch $@

$(VENV)/.run: requirements.lock pyproject.toml | $(VENV)/.uv
	@echo 'Installing what Regard runs on (PyTorch is most of it: about 5 GB on disk).'
	$(SYNC) requirements.lock
	$(LINK)
	@touch $@

# Without an installed compiler, the package ziglang is downloaded for the build and removed again (413 MB).
$(KERNELS): models/kernels/build.py models/kernels/targets.py $(wildcard models/kernels/source/*) requirements-compiler.lock | $(VENV)/.uv
	@$(BIN)/python -m models.kernels.build 2> $(VENV)/kernels.log || { \
	  echo 'There is no C compiler that can build the kernels; taking one for the build.'; \
	  $(UV) pip install --quiet --require-hashes --python $(BIN)/python --target $(VENV)/compiler \
	    --requirement requirements-compiler.lock \
	  && PYTHONPATH=$(VENV)/compiler $(BIN)/python -m models.kernels.build; } \
	|| { cat $(VENV)/kernels.log; echo 'Regard works without kernels: PyTorch computes the scores, slower.'; }
	@rm -rf $(VENV)/compiler
	@touch $@

# --compile-bytecode: otherwise each of the tests' processes may compile PyTorch's sources again.
$(VENV)/.dev: $(DEV_LOCKS) pyproject.toml | $(VENV)/.uv
	@echo 'Installing what Regard runs on and is tested with (PyTorch is most of it: about 5 GB on disk).'
	$(SYNC) --compile-bytecode $(DEV_LOCKS)
	$(LINK)
	@touch $@
