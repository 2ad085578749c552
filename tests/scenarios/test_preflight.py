# Copyright: (c) 2026, The dgxc.workloads developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The doctor on the sandbox, and an inventory for a cluster that nobody has described yet."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.harness.sandbox import BIN, PREFIX, USER, Play

KEYS = PREFIX / "etc" / "ssh"


class Person:
    """Somebody whose shared storage is a folder of its own."""

    def __init__(self, folder: Path, root: Path) -> None:
        self.folder = folder
        self.root = root
        self.plays: list[Play] = []

    def play(self, *words: str, **variables: Any) -> Play:
        command = [str(BIN / "ansible-playbook"), *words, "-e", json.dumps(variables)]
        play = Play(self.folder / f"{len(self.plays)}.log", command, {})
        self.plays.append(play)
        return play

    def preflight(self, *words: str, **variables: Any) -> tuple[Play, dict[str, dict[str, str]]]:
        """The play, ended, and the checks by id."""
        report = self.folder / f"report-{len(self.plays)}.json"
        values = {"dgxc_shared_root": str(self.root), "preflight_report": str(report), **variables}
        play = self.play("playbooks/preflight.yml", "-i", "inventories/sandbox", *words, **values)
        play.ends(120)
        checks = json.loads(report.read_text())["checks"] if report.exists() else []
        return play, {check["id"]: check for check in checks}


def jobs() -> int:
    """How many jobs with the preflight's name there have been."""
    words = ["sacct", "-a", "-X", "-n", "-P", "-S", "now-2hours", "--name", "dgxc-preflight", "-o", "JobIDRaw"]
    command = [str(PREFIX / "bin" / words[0]), *words[1:]]
    return len(subprocess.run(command, text=True, capture_output=True, check=True).stdout.split())


@pytest.fixture
def person(tmp_path: Path) -> Iterator[Person]:
    root = PREFIX / "shared" / USER / f"preflight-{os.getpid()}"
    root.mkdir()
    shutil.chown(root, USER, USER)
    someone = Person(tmp_path, root)
    yield someone
    for play in someone.plays:
        play.kill()
    shutil.rmtree(root, ignore_errors=True)


def test_a_doctor_who_looks_at_nodes_once_a_day_and_changes_nothing(person: Person):
    rehearsal, checks = person.preflight("--check")
    assert rehearsal.process.returncode == 0, rehearsal.output
    assert checks == {}
    assert list(person.root.iterdir()) == []

    before = jobs()
    play, checks = person.preflight(preflight_nodes=4, preflight_time_limit="02:00:00")
    assert play.process.returncode == 0, play.output
    assert play.changed == 0
    assert {check["verdict"] for check in checks.values()} <= {"ok", "warning"}
    assert checks["slurm.nodes"]["evidence"].startswith("4 of 4 nodes")
    assert "ok       node.shared_root" in play.output
    assert "-> see that these nodes have GPUs" in play.output
    assert [path.name for path in person.root.rglob("*") if path.is_file()] == ["nodes.json"]

    person.preflight()
    assert jobs() - before <= 1
    person.preflight(preflight_mounts=["/opt"])
    assert jobs() - before <= 2


def test_all_that_is_wrong_is_told_at_once_with_its_remedy(person: Person):
    play, checks = person.preflight(
        dgxc_slurm_account="dmeo", dgxc_slurm_partition="deqf", preflight_nodes=99,
        preflight_image=f"{person.root}/a.sqsh", preflight_mounts=[f"{person.root}/data"],
        preflight_git_remotes=[f"file://{PREFIX}/git/nothing.git"], preflight_urls=["http://127.0.0.1:9/"],
    )  # fmt: skip
    assert play.process.returncode == 2
    errors = {name: check["remedy"] for name, check in checks.items() if check["verdict"] == "error"}
    assert errors["slurm.account"] == "set dgxc_slurm_account to demo"
    assert errors["slurm.partition"] == "set dgxc_slurm_partition to defq"
    assert {"slurm.request", "image", "mounts.login", "git.nothing", "network.127.0.0.1"} <= set(errors)
    assert all(errors.values())
    # No job was submitted that would have been refused.
    assert "node.job" not in checks


def test_facts_are_judged_before_anything_is_asked(person: Person):
    play, checks = person.preflight(dgxc_gres_style="gpu_per_node", dgxc_slurm_acount="x", ansible_port=1)
    assert play.process.returncode == 2
    assert set(checks) == {"facts"}
    assert "write dgxc_slurm_account" in play.output
    assert "give gpus_per_node" in play.output


def test_what_somebody_knows_better_does_not_stop_a_run(person: Person):
    play, checks = person.preflight(
        preflight_space_gb=10**6, preflight_ignore=["storage.space"], preflight_compute_nodes=0
    )
    assert play.process.returncode == 0, play.output
    assert checks["storage.space"]["verdict"] == "warning"


def test_an_inventory_for_a_new_cluster(person: Person):
    path = person.folder / "inventories" / "mine"
    connection = {
        "ansible_user": USER,
        "ansible_port": 17022,
        "ansible_ssh_private_key_file": str(KEYS / "client_ed25519"),
        "ansible_ssh_common_args": f"-F /dev/null -o UserKnownHostsFile={KEYS}/known_hosts -o IdentitiesOnly=yes",
    }
    variables = {**connection, "new_cluster_name": "mine", "new_cluster_path": str(path)}
    words = ["playbooks/new_cluster.yml", "-i", "127.0.0.1,"]
    person.play(*words, "--check", **variables).succeeds(60)
    assert not path.exists()
    person.play(*words, **variables).succeeds(60)
    facts = yaml.safe_load((path / "group_vars/slurm_login.yml").read_text())
    assert facts["dgxc_environment_modules"] == ["slurm"]
    assert (facts["dgxc_slurm_account"], facts["dgxc_slurm_partition"]) == ("demo", "defq")
    assert facts["dgxc_gpus_per_node"] == 8
    # What is there is not written over, and nothing changes where it says the same.
    assert "new_cluster_overwrite" in person.play(*words, **variables).fails(60)
    again = person.play(*words, new_cluster_overwrite=True, **variables)
    again.succeeds(60)
    assert again.changed == 0
    # It is asked to be filled in, and then it is one that a play can use.
    look = ["playbooks/preflight.yml", "-i", str(path)]
    small = {"preflight_space_gb": 1, "preflight_report": ""}
    assert "dgxc_shared_root is not given" in person.play(*look, **small).fails(60)
    person.play(*look, dgxc_shared_root=str(person.root), **small).succeeds(120)
