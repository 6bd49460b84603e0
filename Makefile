# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Every target sets itself up in the folder build; nothing need be installed by hand.

PYTHON := build/venv/bin/python
PYTEST := $(PYTHON) -m pytest

# Ansible looks for collections in the set-up's folder alone, and writes nothing to the home folder.
export ANSIBLE_HOME := $(CURDIR)/build/ansible-home
export ANSIBLE_COLLECTIONS_PATH := $(CURDIR)/build/collections
# Compiled tests are kept for the next run: it collects them in less than half the time.
unexport PYTHONDONTWRITEBYTECODE

# The whole suite. What takes longest comes first, so that no worker is left alone with it in the end: the first parts go to a worker each. Of the integration
# tests, the files in LONG take longest and share something. Those in SHORT are many and share nothing: they come last, so that all workers end together. After
# the first of them, nothing asks a helper any more: at its end, a worker waits until its helpers are gone, and each of them stays for a minute.
integration = $(patsubst %,tests/integration/test_%.py,$(1))
LONG := $(call integration,nginx_hold service_hold roles_load_balancer health_probe_guest imds_simulator_role awx eda scheduled_events_lookup roles_restore_service)
SHORT := $(call integration,hold_records event_watcher haproxy_configurations haproxy_places haproxy_info haproxy_hold)
INTEGRATION := $(LONG) $(filter-out $(LONG) $(SHORT),$(sort $(wildcard tests/integration/test_*.py))) $(SHORT)
CHECKS := $(patsubst %,tests/checks/test_%.py,sanity style docs collection breakages)
SUITE := $(firstword $(CHECKS)) tests/molecule $(wordlist 2,3,$(CHECKS)) tests/unit tests/conformance $(wordlist 4,9,$(CHECKS)) \
    $(filter-out $(CHECKS),$(sort $(wildcard tests/checks/test_*.py))) tests/matrix tests/chaos $(INTEGRATION)
# Much of it is waiting, so four on two cores. The tests of a file that share something stay together (see tests/conftest.py), in the order above.
PARALLEL := --numprocesses 4 --dist loadfile --no-loadscope-reorder
# Hundreds of runs of one file. They keep time: how many there may be at once is for tests/chaos/stage.py to say.
CHAOS := --numprocesses 3 --dist worksteal tests/chaos

.DEFAULT_GOAL := help
.PHONY: help demo shell test test-unit test-long coverage format lint sanity docs docs-serve bench release

help:
	@echo 'make demo       the main job on this machine, against the simulator, HAProxy and web backends under load'
	@echo '                SCENARIO=NAME chooses what happens, SCENARIO=help lists the scenarios'
	@echo 'make shell      a shell beside such servers, to try the playbooks in; everything is stopped when it ends'
	@echo 'make test       the whole test suite'
	@echo 'make test-unit  the unit tests alone'
	@echo 'make coverage   the unit tests, and which branches of the deciding parts they do not run'
	@echo 'make format     lays out the Python files as make lint wants them'
	@echo 'make lint       ruff, mypy, shellcheck, ansible-lint, changelog, documentation, package'
	@echo 'make sanity     ansible-test sanity'
	@echo 'make docs       the documentation site, in build/site'
	@echo 'make docs-serve the same, and a web server for it on this machine'
	@echo 'make test-long  chaos, fuzz and version matrix at full length'
	@echo 'make bench      the benchmarks, each with its peer in the same run; PART=NAME chooses one of them, PART=help lists them'
	@echo 'make release    changelog and package of the version in galaxy.yml; publishes nothing'

demo:
	@tests/setup.sh demo
	$(PYTHON) tests/demo/run.py $(if $(SCENARIO),--scenario "$$SCENARIO")

shell:
	@tests/setup.sh demo < /dev/null
	@$(PYTHON) tests/demo/shell.py

test:
	@tests/setup.sh test
	$(PYTEST) $(PARALLEL) $(SUITE)

test-unit:
	@tests/setup.sh
	$(PYTEST) --numprocesses 4 tests/unit

coverage:
	@tests/setup.sh
	HYPOTHESIS_PROFILE=coverage $(PYTHON) -m coverage run -m pytest --quiet tests/unit/plugins
	$(PYTHON) -m coverage report

format:
	@tests/setup.sh
	build/venv/bin/ruff format .

lint:
	@tests/setup.sh test
	$(PYTEST) tests/checks/test_style.py tests/checks/test_collection.py

sanity:
	@tests/setup.sh
	$(PYTEST) -m 'long or not long' $(patsubst %,'tests/checks/test_sanity.py::test_sanity[%]',import pylint_of_all others)

docs:
	@tests/setup.sh
	@docs/site/build.sh

# Port 0 is any free one. The server says which.
docs-serve: docs
	$(PYTHON) -m http.server --bind 127.0.0.1 --directory build/site 0

test-long:
	@tests/setup.sh long
	HYPOTHESIS_PROFILE=long $(PYTEST) -o timeout=3600 -m 'long or not long' $(PARALLEL) $(filter-out tests/chaos,$(SUITE))
	$(PYTEST) -m 'long or not long' $(CHAOS)

bench:
	@tests/setup.sh bench
	$(PYTHON) tests/bench/run.py $(patsubst help,--help,$(PART))

release:
	@tests/setup.sh
	@tests/release.sh
