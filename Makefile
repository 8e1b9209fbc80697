# A front door over Meson: every target says what it needs, installs what is missing, and builds.
#
#   make          build build/lockstep and build/liblockstep.so
#   make demo     install what is missing, build the programs, and run the demonstration
#   make demo-incident   a night on a Slurm cluster on this machine: a node fails, no person acts, and the job trains on (needs root)
#   make programs build the program, the library and the Python package, without tests and manual
#   make test     install what is missing, build, and run every test
#   make test-guard    tests with several users, one of them hostile (needs root)
#   make test-slurm    a real Slurm cluster on this machine: lost nodes, requeue, preemption (needs root)
#   make install  into PREFIX (/usr/local), below DESTDIR when given
#   make deb      Debian packages of controller, agent and program, in build-deb/packages
#   make deb-test the packages in a bare Debian 12: they install, start and go (needs root)
#   make format   settle the layout of every C file
#   make page     bundle the page (web/) again, after a change in its sources
#   make test-page     the page in a real browser
#   make test-dashboards  every query of every dashboard, against a real Prometheus
#   make test-long     slow tests that make test does not run
#   make test-power    a power cut at every system call of a checkpoint (needs root)
#   make test-kills    200 kills of checkpoint writers and trainers
#   make tidy     what clang-tidy and cppcheck find
#   make ci       everything that must hold before a change is merged
#   make chroot-test   make demo and make test in a bare Debian 12 (needs root)
#   make torch-newer   the tests in Python with the torch of a later Debian (needs root)
# SPDX-License-Identifier: Apache-2.0

BUILD = build
PREFIX = /usr/local

all: $(BUILD)/build.ninja
	@ninja -C $(BUILD)

# Meson does not see a new page or fuzz target by itself: their lists are read when it sets up.
$(BUILD)/build.ninja: man test/fuzz
	@tools/deps run build
	@meson setup $(if $(wildcard $@),--reconfigure) $(BUILD) --prefix=$(PREFIX)

# What the demonstration needs and no more: one line each for packages and build, then the demonstration.
demo:
	@tools/quiet $(BUILD)/demo-packages.log packages tools/deps run build
	@tools/quiet $(BUILD)/demo-build.log "build (about a minute)" $(MAKE) --no-print-directory programs
	@$(BUILD)/lockstep demo

SEED = 1
demo-incident:
	@[ "$$(id -u)" = 0 ] || { echo "make demo-incident needs root: it starts a Slurm cluster in namespaces" >&2; exit 3; }
	@tools/quiet $(BUILD)/demo-packages.log packages tools/deps run build slurm
	@tools/quiet $(BUILD)/demo-build.log "build (about a minute)" $(MAKE) --no-print-directory programs
	@$(BUILD)/lockstep drill --two-am --seed $(SEED) --html $(BUILD)/two-am.html

programs: $(BUILD)/build.ninja
	@ninja -C $(BUILD) programs

test:
	@tools/deps run build test
	@$(MAKE) --no-print-directory all
	@tools/test $(BUILD) --no-suite guard --no-suite slurm-long

test-guard:
	@tools/deps run build test
	@$(MAKE) --no-print-directory all
	@tools/test $(BUILD) --suite guard

test-slurm:
	@tools/deps run build test slurm
	@$(MAKE) --no-print-directory all
	@tools/test $(BUILD) --suite slurm --suite slurm-long

# web/dist is checked in: only those who change the page need node.
page:
	@tools/deps page
	@tools/page-packages
	@cd web && npx --no-install tsc --noEmit && node build.mjs

test-page:
	@tools/deps run build test page
	@tools/page-packages
	@$(MAKE) --no-print-directory all
	@tools/test $(BUILD) --suite page

# A PREFIX that is given holds also for a build that was set up for another one.
install: prefix all
	@DESTDIR="$(DESTDIR)" meson install -C $(BUILD) --no-rebuild --quiet
	@dist/unit-note "$(PREFIX)/lib/systemd/system"
	@echo "installed; 'lockstep doctor' shows what it can observe here"

prefix: $(BUILD)/build.ninja
	@$(if $(filter-out file,$(origin PREFIX)),meson configure $(BUILD) -Dprefix=$(PREFIX))

deb:
	@tools/deps run build deb
	@tools/deb

deb-test:
	@tools/deb-test

format:
	@tools/format

format-check:
	@tools/format --check

ci:
	@.ci/run

chroot-test:
	@tools/chroot-test

torch-newer: all
	@tools/torch-newer

clean:
	rm -rf build build-*

.PHONY: all programs page prefix deb deb-test demo demo-incident test test-guard test-slurm test-page install format format-check ci chroot-test torch-newer clean

# Slow ones, which `make test` does not run: months of steps, many kills, a log that is compacted for long.
test-long:
	@tools/deps run build test
	@$(MAKE) --no-print-directory all
	@LOCKSTEP_STEPS=10000000 tools/test $(BUILD) control/core-memory
	@LOCKSTEP_CHAOS=60 LOCKSTEP_TEST_KILLS=60 tools/test $(BUILD) t3100-chaos t3210-site-kills --timeout-multiplier 5
	@LOCKSTEP_SPOOLED=2000000 tools/test $(BUILD) t3260-live-compaction --timeout-multiplier 5
	@LOCKSTEP_TEST_SECONDS=1800 tools/test $(BUILD) t2051-nodes-alive --timeout-multiplier 10

# Checkpoints: the power fails at each system call of the writer; kills at random moments.
test-power:
	@tools/deps run build test
	@$(MAKE) --no-print-directory all
	@LOCKSTEP_TEST_CUTS=all tools/test $(BUILD) t6005-ckpt-power --timeout-multiplier 20

test-kills:
	@tools/deps run build test
	@$(MAKE) --no-print-directory all
	@LOCKSTEP_TEST_KILLS=200 tools/test $(BUILD) t6003-ckpt-kills --timeout-multiplier 20

test-dashboards:
	@tools/deps run build test
	@$(MAKE) --no-print-directory all
	@LOCKSTEP_TEST_PROMETHEUS=1 tools/test $(BUILD) t7041-dashboards

# What clang-tidy and cppcheck find; in files that changed also clang's analyzer.
tidy:
	@tools/tidy
	@tools/tidy --deep

.PHONY: test-long test-power test-kills test-dashboards tidy
