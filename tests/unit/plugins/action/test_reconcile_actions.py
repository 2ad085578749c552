# Copyright: (c) 2026, The dgxc.workloads developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The action plugins of the reconciler, which read, write and push on the controller."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any
from unittest.mock import MagicMock

import pytest
from ansible.errors import AnsibleActionFail

from ansible_collections.dgxc.workloads.plugins.action import reconcile_publish, reconcile_specs, reconcile_tasks

HOSTS = {"inventory_hostname": "oci", "groups": {"all": ["oci", "azure"], "big": ["azure"]}, "dgxc_a": 1}


def act(plugin: Any, arguments: dict[str, Any], check_mode: bool = False, **variables: Any) -> dict[str, Any]:
    task = MagicMock(check_mode=check_mode, async_val=0, args=arguments, environment=[])
    templar = MagicMock()
    templar.template = lambda value: value
    action = plugin.ActionModule(task, MagicMock(), MagicMock(), MagicMock(), templar, MagicMock())
    return action.run(task_vars={**HOSTS, **variables})


@pytest.fixture
def runs(tmp_path: Path) -> Path:
    folder = tmp_path / "runs"
    folder.mkdir()
    return folder


def test_a_host_gets_the_specs_that_are_for_it(runs: Path):
    for name, clusters in (("a", ""), ("b", "clusters: [big]"), ("c", "clusters: [oci]"), ("d", "clusters: [all]")):
        (runs / f"{name}.yml").write_text(f"name: {name}\nworkload: alma\n{clusters}\n")
    result = act(reconcile_specs, {"path": str(runs), "commit": "c0"})
    assert [spec["name"] for spec in result["specs"]] == ["a", "c", "d"]
    assert (result["commit"], result["hold_prune"], result["problems"]) == ("c0", "", [])


def test_the_site_changes_with_its_facts_and_not_with_other_variables(runs: Path):
    (runs / "a.yml").write_text("name: a\nworkload: alma\n")
    site = act(reconcile_specs, {"path": str(runs)})["specs"][0]["site"]
    assert act(reconcile_specs, {"path": str(runs)}, other=1)["specs"][0]["site"] == site
    assert act(reconcile_specs, {"path": str(runs)}, dgxc_a=2)["specs"][0]["site"] != site


@pytest.mark.parametrize(
    ("text", "hold"),
    [
        ("name: [", "a spec or its name cannot be read"),
        (None, "there is no spec at all in runs"),
        ("name: a\nworkload: b\n", ""),
        ("name: a b\nworkload: alma\n", "a spec or its name cannot be read"),
        ("name: a\nworkload: alma\n---\nname: a\nworkload: alma\n", "a spec or its name cannot be read"),
    ],
)
def test_nothing_may_be_pruned_by_what_cannot_be_trusted(runs: Path, text: str | None, hold: str):
    if text is not None:
        (runs / "a.yml").write_text(text)
    told = act(reconcile_specs, {"path": str(runs)})["hold_prune"]
    assert told.startswith(hold)
    assert bool(told) is bool(hold)


def test_a_folder_that_is_not_there_is_no_empty_one(tmp_path: Path):
    with pytest.raises(AnsibleActionFail, match="cannot be read"):
        act(reconcile_specs, {"path": str(tmp_path / "nowhere")})


def test_tasks_are_written_for_this_user_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(reconcile_tasks.C, "DEFAULT_LOCAL_TMP", str(tmp_path))
    spec = {"name": "a", "workload": "alma", "variables": {}, "max_attempts": 3}
    row = {"name": "a", "action": "plan", "max_attempts": None}
    path = Path(act(reconcile_tasks, {"specs": [spec], "rows": [row]})["path"])
    assert path.stat().st_mode & 0o777 == 0o600
    assert "dgxc.workloads.alma" in path.read_text()


def test_files_are_pushed_and_bad_paths_and_addresses_refused(tmp_path: Path):
    server = tmp_path / "server.git"
    subprocess.run(["git", "init", "--quiet", "--bare", str(server)], check=True)
    arguments = {"repository": str(server), "branch": "status", "files": {"a.md": "x"}, "message": "m"}
    assert act(reconcile_publish, arguments, check_mode=True)["changed"]
    assert act(reconcile_publish, arguments)["changed"]
    assert not act(reconcile_publish, arguments)["changed"]
    for path in ("/etc/x", "../x", "a//b", ".git/config"):
        with pytest.raises(AnsibleActionFail, match="paths inside the repository"):
            act(reconcile_publish, {**arguments, "files": {path: "x"}})
    with pytest.raises(AnsibleActionFail, match="cannot be read"):
        act(reconcile_publish, {**arguments, "repository": str(tmp_path / "nowhere")})
