# Copyright: (c) 2026, The dgxc.workloads developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
MAKEFLAGS += --no-builtin-rules

# PYTHON=/path/to/python3.12   the interpreter of the virtual environments (default: the newest one from 3.11 on)
# ARGS='...'                   more arguments for ansible-playbook, such as --ask-become-pass or -v
# PYTEST_ARGS='...'            more arguments for pytest, such as -k name or -x
export PYTHON ?=
ARGS ?=
PYTEST_ARGS ?=

# ansible.cfg is taken from here even where a parent folder's permissions make Ansible overlook it.
export ANSIBLE_CONFIG := $(CURDIR)/ansible.cfg

VENV := .venv
TEST_VENV := .venv-test
COLLECTION := collections/ansible_collections/dgxc/workloads
ANSIBLE := PATH="$(CURDIR)/$(VENV)/bin:$$PATH" ansible-playbook
TESTED := PATH="$(CURDIR)/$(TEST_VENV)/bin:$$PATH"

MOLECULE := $(TESTED) MOLECULE_GLOB='molecule/*/molecule.yml' molecule --base-config .config/molecule/config.yml

SCENARIOS := $(or $(wildcard tests/sandbox tests/scenarios),tests/scenarios)
FAULTS := $(wildcard tests/fault)
# What the scenarios need of the sandbox and the demo does not: PyTorch, a Docker Engine, a registry.
SCENARIO_SANDBOX ?= -e sandbox_training=true -e sandbox_docker=true
# Which of the scenarios, by pytest's markers, this machine can take.
SCENARIO_MARKS ?= long or not long
# Percent of the lines and branches of plugins/ that the unit tests have to reach.
COVERAGE := 90
STAGES := test-scenarios $(if $(FAULTS),test-fault-short)
# What needs no sandbox runs while the scenarios wait for theirs.
STAGES_BESIDE := test-lint test-unit test-artifact test-sanity
BENCHES = $(sort $(wildcard tests/bench/*.py))
SHELL_SCRIPTS = .ci/run $(shell git ls-files --cached --others --exclude-standard '*.sh' '*.bash')

##@ Use

.PHONY: help
help: ## Show this list
	@awk 'BEGIN {FS = ":.*## "} /^##@/ {printf "\n%s\n", substr($$0, 5)} \
	  /^[a-z0-9-]+:.*## / {printf "  make %-21s %s\n", $$1, $$2}' $(firstword $(MAKEFILE_LIST))

.PHONY: venv
venv: ## Make the virtual environment .venv with what the playbooks need
	@tests/tools/venv.sh $(VENV) requirements.txt
	@tests/tools/collections.sh $(VENV)/bin/python

.PHONY: demo
demo: sandbox ## Train NeMo GPT-3 on a real Slurm on this machine; the second time only its table is shown
	$(ANSIBLE) playbooks/nemo_gpt3.yml -i inventories/sandbox $(ARGS)

.PHONY: sandbox
sandbox: venv ## Bring up the sandbox: Slurm, accounting, SSH and shared storage on this machine
	$(ANSIBLE) playbooks/sandbox.yml -i inventories/sandbox $(ARGS)

.PHONY: sandbox-down
sandbox-down: venv ## Stop the sandbox and remove all it made (distribution packages stay)
	$(ANSIBLE) playbooks/sandbox.yml -i inventories/sandbox -e sandbox_state=absent $(ARGS)

##@ Test

.PHONY: test
test: ## Run the stages from test-lint to test-fault-short, as .ci/run does
	@MAKE="$(MAKE)" BESIDE="$(STAGES_BESIDE)" tests/tools/stages.sh $(STAGES)

.PHONY: venv-test
venv-test:
	@tests/tools/venv.sh $(TEST_VENV) tests/requirements.txt
	@tests/tools/collections.sh $(TEST_VENV)/bin/python

LINTS := lint-yaml lint-python lint-types lint-shell lint-ansible lint-changelog lint-docs

.PHONY: test-lint $(LINTS)
test-lint: venv-test ## Read all with yamllint, ruff, mypy, shellcheck, ansible-lint, antsibull-changelog, antsibull-docs
	@$(MAKE) --no-print-directory --keep-going $(LINTS)

lint-yaml: venv-test
	$(TESTED) yamllint --strict .

lint-python: venv-test
	$(TESTED) ruff check .
	$(TESTED) ruff format --check .

lint-types: venv-test
	$(TESTED) tests/tools/mypy.sh

lint-shell: venv-test
	$(TESTED) shellcheck $(SHELL_SCRIPTS)

lint-ansible: venv-test
	$(TESTED) ansible-lint --offline --strict

lint-changelog: venv-test
	$(TESTED) antsibull-changelog lint

lint-docs: venv-test
	$(TESTED) tests/tools/docs.sh

.PHONY: test-unit
test-unit: venv-test ## Unit tests, with the coverage of plugins/
	$(TESTED) pytest tests/unit --cov --cov-report=term-missing:skip-covered $(or $(PYTEST_ARGS),--cov-fail-under=$(COVERAGE))

.PHONY: test-artifact
test-artifact: venv-test ## Build, install and use the collection's tarball
	$(TESTED) pytest tests/artifact $(PYTEST_ARGS)

.PHONY: test-sanity
test-sanity: venv-test ## ansible-test sanity on the installed tarball
	$(TESTED) python tests/tools/sanity.py

.PHONY: test-scenarios
test-scenarios: ARGS += $(SCENARIO_SANDBOX)
test-scenarios: venv-test sandbox ## Playbooks on the sandbox's Slurm, end to end
	$(TESTED) pytest $(SCENARIOS) -m "($(SCENARIO_MARKS)) and not long" $(PYTEST_ARGS)

.PHONY: test-fault-short
test-fault-short: venv-test sandbox ## Break this machine's Slurm and look what happens, without the tests that take minutes
	$(TESTED) pytest $(FAULTS) -m "not long" $(PYTEST_ARGS)

.PHONY: test-fault-here
test-fault-here: venv-test sandbox
	$(TESTED) pytest $(FAULTS) $(PYTEST_ARGS)
	$(TESTED) pytest $(SCENARIOS) -m "($(SCENARIO_MARKS)) and long" $(PYTEST_ARGS)

.PHONY: test-fault
test-fault: ## All fault tests on this machine's Slurm, then test-debian13
	@MAKE="$(MAKE)" tests/tools/stages.sh test-fault-here test-debian13

.PHONY: test-molecule
test-molecule: venv-test ## Molecule's scenarios on a sandbox of its own; ARGS='-s vivit' for one of them
	$(MOLECULE) test $(or $(ARGS),--all)

.PHONY: test-matrix
test-matrix: ## The collection on ansible-core 2.19, 2.20 and 2.21, its modules on Python 3.8 to 3.13
	tests/tools/matrix.sh

.PHONY: test-debian13
test-debian13: ## Playbooks and faults on Debian 13's Slurm 24.11, in a bare system that is gone afterwards
	tests/tools/root.sh -p procps trixie env MAKE=make "PYTEST_ARGS=$(PYTEST_ARGS)" \
	  SCENARIO_SANDBOX= "SCENARIO_MARKS=not training and not images" \
	  tests/tools/stages.sh test-scenarios test-fault-here

.PHONY: bench
bench: venv-test sandbox ## Run each script of tests/bench and show its last line
	@$(TESTED) tests/tools/bench.sh $(BENCHES)

.PHONY: format
format: venv-test ## Bring the Python into the shape that test-lint asks for
	$(TESTED) ruff check --fix --unsafe-fixes --exit-zero .
	$(TESTED) ruff format .

##@ Release

.PHONY: docs
docs: venv-test ## Write the reference of every plugin and role into .cache/docs, as HTML
	@$(TESTED) tests/tools/docs.sh .cache/docs

.PHONY: release
release: venv-test ## Turn the fragments of changelogs/ into the entry of galaxy.yml's version in CHANGELOG.md
	$(TESTED) antsibull-changelog release

.PHONY: build
build: venv ## Build the collection's tarball into dist/
	@mkdir -p dist
	PATH="$(CURDIR)/$(VENV)/bin:$$PATH" ansible-galaxy collection build --force --output-path dist

.PHONY: execution-environment
execution-environment: build venv-test ## Write the context of an execution environment's image into dist/context
	$(TESTED) ansible-builder create --file execution-environment.yml --context dist/context

.PHONY: clean
clean: ## Remove virtual environments, caches and tarballs (the sandbox stays: make sandbox-down)
	rm -rf $(VENV) $(TEST_VENV) dist .ansible .cache .mypy_cache .ruff_cache .pytest_cache .hypothesis .coverage
	find . -path ./.git -prune -o -name __pycache__ -type d -prune -exec rm -rf {} +
