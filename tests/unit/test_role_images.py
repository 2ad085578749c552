# Copyright: (c) 2026, The dgxc.workloads developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A workload judges its image's variables with its own, before anything is made or fetched."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

ROLES = Path(__file__).resolve().parents[2] / "roles"


def _tasks(role: str, name: str) -> list[dict[str, Any]]:
    path = ROLES / role / "tasks" / name
    return yaml.safe_load(path.read_text()) if path.exists() else []


def _uses(role: str, name: str) -> list[dict[str, Any]]:
    """Return the tasks of a file that hand over to the role image."""
    included = [(task, task.get("ansible.builtin.include_role") or {}) for task in _tasks(role, name)]
    return [task for task, what in included if what.get("name") == "dgxc.workloads.image"]


USERS = sorted(role.name for role in ROLES.iterdir() if role.name != "image" and _uses(role.name, "main.yml"))


def test_the_four_workloads_have_an_image() -> None:
    assert USERS == ["alma", "nemo_gpt3", "vivit", "whisper_qlora"]


@pytest.mark.parametrize("role", USERS)
def test_an_image_is_judged_first_and_by_what_it_is_brought_with(role: str) -> None:
    first, *_others = _tasks(role, "main.yml")
    assert first["ansible.builtin.import_tasks"] == "validate.yml"
    (judged,) = _uses(role, "validate.yml")
    assert judged["ansible.builtin.include_role"]["tasks_from"] == "validate.yml"
    (brought,) = _uses(role, "main.yml")
    if "tasks_from" in brought["ansible.builtin.include_role"]:
        # It takes the plan that was made here.
        assert brought["ansible.builtin.include_role"]["tasks_from"] == "given.yml"
        assert judged["vars"]["image_delivery"] == "given"
    else:
        assert judged["vars"] == brought["vars"]
