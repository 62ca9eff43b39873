# Every target only calls a script or a CMake preset. `make help` lists them.
.DEFAULT_GOAL := build
.PHONY: help build everything setup wheel images node release demo test test-all unit sanitize lint bench docs fmt clean

help: ## This list
	@grep -E '^[a-z]+:.*##' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  make %-10s %s\n", $$1, $$2}'

build: ## strobe-operator, strobe-sidecar and strobe in build/bin
	@tools/setup build
	@cmake --preset release >/dev/null
	@cmake --build --preset release --target strobe-operator strobe-sidecar strobe

everything: build
	@cmake --build --preset release

setup:
	@tools/setup test

wheel: build ## The Python package with the programs in it, in build/wheels
	@cmake --build --preset release --target strobe_agent
	@tools/setup wheel
	@tools/wheel

images: wheel ## Container images of operator, sidecar and viewer for this machine, in build/images
	@tools/image operator
	@tools/image sidecar
	@tools/image viewer

node: images ## What tests/cluster/up needs to start a Kubernetes node on this machine
	@tools/setup node

release: ## Images, chart, command, Python package, bills of materials and checksums in build/dist, from a clean checkout
	@tools/release

demo: ## Captures real JAX trainers, first without a cluster, then on a real API server; KEEP=1 leaves it up
	@tools/demo

test: ## What to run before each commit: unit tests, linters, and the suites that prove the main job
	@tests/tools/run_all core

test-all: ## Everything CI runs: also the other suites, the sanitizers and clang-tidy
	@tests/tools/run_all all

unit: everything ## Only the unit tests, no sanitizer
	@ctest --preset release -L unit

sanitize: ## Unit tests under address+undefined and thread sanitizer
	@tools/setup build
	@tools/setup lint
	@for preset in asan tsan; do \
	  cmake --preset $$preset >/dev/null && cmake --build --preset $$preset && ctest --preset $$preset || exit 1; \
	done

bench: everything setup ## All benchmarks, with the peers in the same run; tables in build/bench/results.md
	@tools/setup bench
	@build/venv/bin/python -m tests.bench.run

lint: everything setup ## Formatters and linters of all languages, and the chosen clang-tidy checks
	@ctest --preset release -L lint

docs: build ## The documentation's site in build/site; docs/check checks links and spelling
	@docs/setup
	@docs/generate/write
	@build/docs-venv/bin/mkdocs build --strict --quiet

fmt: ## Format all C++ and JavaScript files
	@tools/setup lint
	@git ls-files '*.h' '*.cc' | xargs clang-format-14 -i
	@tools/npm_packages tests/tools/js build/tools/js && tests/tools/js/check --fix

clean: ## Build results; caches of compilers and package managers stay
	@rm -rf build/release build/dev build/asan build/tsan build/bin
