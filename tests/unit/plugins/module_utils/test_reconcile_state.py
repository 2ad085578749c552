# Copyright: (c) 2026, The dgxc.workloads developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import stat
from pathlib import Path
from typing import Any

from ansible_collections.dgxc.workloads.plugins.module_utils import _reconcile_state as memory

NEW, OLD, SITE, OTHER = "a" * 64, "b" * 64, "c" * 64, "d" * 64


def plan(digest: str, site: str, time: float, *runs: str) -> dict[str, Any]:
    return {
        "name": "x", "digest": digest, "site": site, "time": time, "spec": {},
        "runs": [{"name": folder, "run_dir": folder} for folder in runs],
    }  # fmt: skip


def test_plans_are_remembered_by_digest_and_site(tmp_path: Path):
    folder = str(tmp_path / "state")
    assert memory.read_state(folder) == {}
    assert memory.store_plan(folder, plan(OLD, SITE, 1.0, "/old"))
    assert memory.store_plan(folder, plan(NEW, OTHER, 2.0, "/new"))
    assert memory.store_plan(folder, plan(NEW, SITE, 3.0, "/new", "/more"))
    known = memory.read_state(folder)["x"]
    assert [item["time"] for item in known.plans] == [1.0, 2.0, 3.0]
    assert known.plan_for(NEW, OTHER)["time"] == 2.0
    assert known.plan_for(NEW, "e" * 64)["time"] == 3.0
    assert known.plan_for("f" * 64, SITE) is None


def test_a_plan_that_is_known_is_not_written_again(tmp_path: Path):
    folder = str(tmp_path)
    memory.store_plan(folder, plan(NEW, SITE, 1.0, "/new"))
    assert not memory.store_plan(folder, plan(NEW, SITE, 9.0, "/new"))
    assert memory.read_state(folder)["x"].plans[0]["time"] == 1.0
    (path,) = (tmp_path / "x").glob("plan-*")
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_a_failure_counts_up_and_ends_with_a_plan(tmp_path: Path):
    folder = str(tmp_path)
    memory.store_failure(folder, "x", NEW, SITE, "one", 1.0)
    memory.store_failure(folder, "x", NEW, SITE, "two", 2.0)
    failure = memory.read_state(folder)["x"].failure_for(NEW, SITE)
    assert failure is not None
    assert (failure["message"], failure["time"], failure["count"]) == ("two", 2.0, 2)
    memory.store_plan(folder, plan(NEW, SITE, 3.0, "/new"))
    assert memory.read_state(folder)["x"].failure_for(NEW, SITE) is None


def test_damaged_and_foreign_files_count_as_absent(tmp_path: Path):
    (tmp_path / "x").mkdir()
    (tmp_path / "Not A Name").mkdir()
    (tmp_path / "file").write_text("")
    name = f"plan-{NEW[:12]}-{SITE[:12]}.json"
    for text in ("", "[]", '{"digest": "a"}', '{"digest": "a", "site": "b", "time": 1, "runs": [1]}'):
        (tmp_path / "x" / name).write_text(text)
        assert memory.read_state(str(tmp_path))["x"].plans == []
    (tmp_path / "x" / name).write_text("{")
    assert memory.store_plan(str(tmp_path), plan(NEW, SITE, 1.0, "/new"))
    assert list(memory.read_state(str(tmp_path))) == ["x"]


def test_a_cancellation_is_that_of_one_attempt(tmp_path: Path):
    memory.store_cancellation(str(tmp_path), "x", "/runs/alma/x-1", 2, "removed", 1.0)
    known = memory.read_state(str(tmp_path))["x"]
    assert known.was_cancelled("/elsewhere/x-1/", 2)
    assert not known.was_cancelled("/runs/alma/x-1", 3)


def test_the_policy_is_written_when_it_changes(tmp_path: Path):
    memory.store_plan(str(tmp_path), plan(NEW, SITE, 1.0, "/new"))
    memory.store_policy(str(tmp_path), "x", {"prune": True})
    path = tmp_path / "x" / "policy.json"
    before = path.stat().st_ino
    memory.store_policy(str(tmp_path), "x", {"prune": True})
    assert path.stat().st_ino == before
    memory.store_policy(str(tmp_path), "x", {"prune": None})
    assert memory.read_state(str(tmp_path))["x"].policy == {"prune": None}
