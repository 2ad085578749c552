# Copyright: (c) 2026, The dgxc.workloads developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The groups of modules in meta/runtime.yml are what the modules' documentation makes of them."""

from __future__ import annotations

import ast
from pathlib import Path
from typing import Any

import pytest
import yaml

CHECKOUT = Path(__file__).resolve().parents[2]
COLLECTION = "dgxc.workloads"
# A group's modules are those that take all its options, so that each of them can be a default of the group.
GROUPS = {
    "slurm": {"environment_modules", "slurm_bin_dir"},
    "environment_modules": {"environment_modules"},
}


def _documentation(path: Path) -> dict[str, Any]:
    """The DOCUMENTATION of a module or of a fragment."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Assign) and getattr(node.targets[0], "id", "") == "DOCUMENTATION":
            return yaml.safe_load(ast.literal_eval(node.value))
    raise AssertionError(f"{path} has no DOCUMENTATION")


def _whole(path: Path) -> tuple[set[str], set[str]]:
    """The names of a module's options and of its groups, with those of its fragments."""
    own = _documentation(path)
    names = own.get("extends_documentation_fragment", [])
    parts = [own, *(_documentation(CHECKOUT / f"plugins/doc_fragments/{name.split('.')[-1]}.py") for name in names)]
    options = {option for part in parts for option in part.get("options", {})}
    told = [part.get("attributes", {}).get("action_group", {}).get("membership", []) for part in parts]
    return options, {group for groups in told for group in groups}


MODULES = {path.stem: _whole(path) for path in sorted((CHECKOUT / "plugins/modules").glob("*.py"))}
RUNTIME = yaml.safe_load((CHECKOUT / "meta/runtime.yml").read_text())["action_groups"]


def _members(group: str) -> set[str]:
    """The modules of a group, with those of the groups that it extends."""
    found = set()
    for entry in RUNTIME[group]:
        if isinstance(entry, dict):
            for other in entry["metadata"]["extend_group"]:
                found |= _members(other)
        else:
            found.add(entry)
    return found


def test_the_groups_are_those_that_are_known():
    assert set(RUNTIME) == set(GROUPS)


@pytest.mark.parametrize("group", GROUPS)
def test_a_group_has_the_modules_that_take_its_options(group: str):
    assert _members(group) == {name for name, (options, _groups) in MODULES.items() if options >= GROUPS[group]}


@pytest.mark.parametrize("name", MODULES)
def test_a_module_tells_its_groups(name: str):
    options, told = MODULES[name]
    assert told == {f"{COLLECTION}.{group}" for group, wanted in GROUPS.items() if options >= wanted}
