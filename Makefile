# SPDX-License-Identifier: Apache-2.0
# A thin front of meson, pytest and the scripts in tools/. No rule here knows how to compile.
#
# BUILD and OUT name the build folder and the staged install, so that variants stand side by side:
#     CC=clang make check BUILD=build-clang OUT=out-clang MESON_FLAGS=--werror
# A staged install can be moved: brig finds its helpers relative to its own place.

SHELL := /bin/bash
.NOTPARALLEL:

BUILD        ?= build
OUT          ?= out
PREFIX       ?= /usr/local
DESTDIR      ?=
MESON_FLAGS  ?=
# Which tests `make check` runs: arguments of `meson test` and of pytest.
MESON_TEST   ?=
PYTEST       ?= tests
# The name of pytest's log, for tests of one build folder side by side.
PYTEST_LOG   ?= pytest
SOAK_N       ?= 10000
FUZZ_SECONDS ?= 60
# Which of them, by name; empty: all.
FUZZ_TARGETS ?=
VM_SCRIPT    ?= tests/vm/jail.sh

# Debian's interpreter, for that is the one which has Debian's pytest.
PYTHON       ?= $(if $(wildcard /usr/bin/python3),/usr/bin/python3,python3)
pytest       := $(PYTHON) -m pytest -p no:cacheprovider -ra -q

export PYTHONDONTWRITEBYTECODE := 1
export BRIG       ?= $(CURDIR)/$(OUT)/bin/brig
export BRIG_BUILD ?= $(CURDIR)/$(BUILD)

.PHONY: build demo check bench fuzz format install ablate soak fault-full check-vm clean distclean
.PHONY: help
.PHONY: test-deps unit-tests run-tests

build: ## compile into build/, stage into out/ (the default)
	@if [ -x "$(OUT)/bin/brig" ] && ! { [ -w "$(BUILD)" ] && [ -w "$(OUT)" ]; }; then \
		echo "build: no right to write to $(BUILD)/ and $(OUT)/: using what is there"; \
		[ -z "$$(find src include policies -newer "$(OUT)/bin/brig" -type f -print -quit)" ] || \
			echo "build: warning: there are sources newer than $(OUT)/bin/brig"; \
	else \
		set -e; \
		tools/install-deps build; \
		tools/get-grammars; \
		[ -f "$(BUILD)/build.ninja" ] || meson setup "$(BUILD)" \
			--prefix "$(CURDIR)/$(OUT)" --bindir bin --libexecdir libexec/brig \
			--libdir lib $(MESON_FLAGS); \
		meson compile -C "$(BUILD)"; \
		meson install -C "$(BUILD)" --no-rebuild --only-changed --quiet; \
	fi

demo: build ## run good and hostile programs in the jail and explain what happens
	@tools/install-deps demo
	@demo/run.sh

# The packages come before the configuration, which leaves out what it has no libraries for.
test-deps:
	@tools/install-deps test

unit-tests:
	@if [ -w "$(BUILD)" ] && ! grep -q '"criterion"' "$(BUILD)/meson-info/intro-dependencies.json"; \
	then meson setup --reconfigure "$(BUILD)" && meson compile -C "$(BUILD)"; fi

check: test-deps build unit-tests run-tests ## build and run all tests; ends with the totals

# Of what is built: a run beside this one would find files of the install missing while they are copied.
# Someone who may not write to the build folder gets the logs in a folder of his own, beside links
# to all the rest, since `meson test` writes only there.
run-tests:
	@wd="$(CURDIR)/$(BUILD)"; \
	if ! [ -w "$$wd" ]; then \
		wd=$$(mktemp -d "$${TMPDIR:-/tmp}/brig-check.XXXXXX") && \
		find "$(CURDIR)/$(BUILD)" -mindepth 1 -maxdepth 1 ! -name meson-logs \
			-exec ln -s -t "$$wd" {} + && \
		mkdir "$$wd/meson-logs" && echo "check: the logs go to $$wd/meson-logs" || exit 1; \
	fi; \
	set --; \
	if [ "$(MESON_TEST)" != none ]; then \
		rm -f "$$wd"/meson-logs/testlog.*; \
		meson test -C "$$wd" --no-rebuild --print-errorlogs $(MESON_TEST); \
		set -- "$$@" "meson:$$?:$$wd/meson-logs/testlog.junit.xml"; \
	fi; \
	if [ "$(PYTEST)" != none ]; then \
		rm -f "$$wd/meson-logs/$(PYTEST_LOG).xml"; \
		$(pytest) $(PYTEST) --junitxml="$$wd/meson-logs/$(PYTEST_LOG).xml"; \
		set -- "$$@" "pytest:$$?:$$wd/meson-logs/$(PYTEST_LOG).xml"; \
	fi; \
	tools/test_totals.py "$$@"

fault-full: test-deps build ## fail every system call of the set-up with every errno (10 min)
	BRIG_FAULT_FULL=1 $(pytest) tests/fault/test_syscalls.py

soak: test-deps build ## many thousand runs; nothing may leak (SOAK_N=10000)
	BRIG_SOAK_N=$(SOAK_N) $(pytest) tests/integration/test_soak.py

ablate: test-deps build ## take each layer away and see that a probe notices
	$(PYTHON) tests/escape/ablate.py

check-vm: build ## the jail in a virtual machine with cgroup v2
	@tools/install-deps vm
	tests/vm/run --out "$(BUILD)/vm" --script "$(VM_SCRIPT)"

bench: build ## start latency and throughput, beside other sandboxes
	@tools/install-deps bench
	@[ -x bench/run ] || { echo "bench: bench/run is not there" >&2; exit 1; }
	bench/run $(BENCH_ARGS)

fuzz: ## run each fuzzer FUZZ_SECONDS (60) with clang, ASan and UBSan
	@set -e; \
	tools/install-deps build lint; \
	tools/get-grammars; \
	[ -f build-fuzz/build.ninja ] || CC=clang meson setup build-fuzz -Db_lundef=false \
		-Db_sanitize=address,undefined -Dc_args=-fsanitize=fuzzer-no-link; \
	targets=$$(ninja -C build-fuzz -t targets all | \
		sed -n 's,^\(tests/fuzz_[a-z0-9_]*\): .*,\1,p'); \
	[ -z "$(FUZZ_TARGETS)" ] || targets=$$(printf 'tests/fuzz_%s\n' $(FUZZ_TARGETS)); \
	[ -n "$$targets" ] || { echo "fuzz: no fuzz_*.c in tests/fuzz" >&2; exit 1; }; \
	ninja -C build-fuzz $$targets; \
	for target in $$targets; do \
		name=$${target#tests/fuzz_}; \
		mkdir -p "build-fuzz/corpus/$$name" "build-fuzz/crashes"; \
		seeds="tests/fuzz/corpus/$$name"; \
		[ -d "$$seeds" ] || seeds=; \
		echo "== $$name, $(FUZZ_SECONDS) s"; \
		"build-fuzz/$$target" -max_total_time=$(FUZZ_SECONDS) -timeout=10 -rss_limit_mb=2048 \
			-print_final_stats=1 -artifact_prefix="build-fuzz/crashes/$$name-" \
			"build-fuzz/corpus/$$name" $$seeds; \
	done

format: ## clang-format all C files in place
	@git ls-files -co --exclude-standard -- '*.c' '*.h' | xargs -r clang-format -i

install: ## copy the staged files to DESTDIR/PREFIX (/usr/local)
	@[ -x "$(OUT)/bin/brig" ] || $(MAKE) build
	@cd "$(OUT)" && find . -type f -o -type l | while IFS= read -r file; do \
		to="$(DESTDIR)$(PREFIX)/$${file#./}"; \
		if [ -L "$$file" ]; then install -d "$${to%/*}" && cp -Pf "$$file" "$$to"; \
		else install -D -m "$$(stat -c %a "$$file")" "$$file" "$$to"; fi || exit 1; \
		echo "$$to"; \
	done

clean: ## remove every build folder and staged install, not what was fetched
	rm -rf build $(filter-out build-deps,$(wildcard build-*)) out out-*

distclean: clean ## the same and build-deps/, which the next build fetches again
	rm -rf build-deps

help: ## this list
	@sed -n 's/^\([a-z-]*\):[^#]*## \(.*\)/  \1\t\2/p' Makefile | expand -t 14
