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

from tests.harness.sandbox import BIN, PREFIX, USER, Play, wait_until

KEYS = PREFIX / "etc" / "ssh"
IMAGE = PREFIX / "shared" / USER / "images" / "nemo-sandbox.sqsh"
REGISTRY = PREFIX / "etc" / "registry"
SOCKET = PREFIX / "run" / "docker" / "docker.sock"


class Person:
    """Somebody whose shared storage is a folder of its own."""

    def __init__(self, folder: Path, root: Path) -> None:
        self.folder = folder
        self.root = root
        self.plays: list[Play] = []

    def nemo(self, *words: str, **variables: Any) -> Play:
        """A small training, on which a look at the cluster comes first."""
        values = {"nemo_gpt3_max_steps": 20, "nemo_gpt3_val_check_interval": 10}
        place = {"sandbox_shared_root": str(self.root), "sandbox_image_path": str(IMAGE)}
        return self.play(
            "playbooks/nemo_gpt3.yml", "-i", "inventories/sandbox", *words, **{**place, **values, **variables}
        )

    def files(self) -> list[Path]:
        """All that is below the person's folder."""
        return list(self.root.rglob("*"))

    def look(self) -> str:
        """The job of the last look at compute nodes; '' if there was none."""
        path = self.root / "preflight" / "nodes.json"
        return json.loads(path.read_text())["job_id"] if path.exists() else ""

    def submitted(self) -> int:
        """How many jobs ran below it; those that look at nodes run elsewhere."""
        words = ["-a", "-X", "-n", "-P", "-S", "now-2hours", "-o", "WorkDir"]
        done = subprocess.run([str(PREFIX / "bin" / "sacct"), *words], text=True, capture_output=True, check=True)
        return sum(line.startswith(f"{self.root}/") for line in done.stdout.splitlines())

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

    play, checks = person.preflight(preflight_nodes=4, preflight_time_limit="02:00:00")
    assert play.process.returncode == 0, play.output
    assert play.changed == 0
    assert {check["verdict"] for check in checks.values()} <= {"ok", "warning"}
    assert checks["slurm.nodes"]["evidence"].startswith("4 of 4 nodes")
    assert "ok       node.shared_root" in play.output
    # The sandbox knows better than to ask for a driver.
    assert checks["node.gpus"]["verdict"] == "ok"
    assert [path.name for path in person.root.rglob("*") if path.is_file()] == ["nodes.json"]

    first = person.look()
    person.preflight()
    assert person.look() == first
    person.preflight(preflight_mounts=["/opt"])
    assert person.look() != first


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


def test_a_workload_looks_first_and_touches_nothing_where_it_would_fail(person: Person):
    wrong = {"dgxc_slurm_partition": "deqf", "nemo_gpt3_launcher_url": f"file://{PREFIX}/git/nothing.git"}
    output = person.nemo(**wrong).fails(60)
    assert "set dgxc_slurm_partition to defq" in output
    assert "git.nothing" in output
    assert person.files() == []
    # Who knows better is not stopped, nor is who wants no look.
    large = {"preflight_space_gb": 10**6}
    output = person.nemo("--check", preflight_ignore=["storage.space"], **large).succeeds(60)
    assert "warning  storage.space" in output
    output = person.nemo("--check", preflight_enabled=False, **large).succeeds(60)
    assert "storage.space" not in output
    assert person.files() == []


def test_a_workload_looks_at_a_node_once_and_only_before_a_new_run(person: Person):
    output = person.nemo().succeeds(180)
    assert "20 of 20" in output
    # Where all is well, nothing is said.
    assert not [line for line in output.splitlines() if line.startswith(("ok  ", "warning  ", "error  "))]
    assert person.look()
    wait_until(lambda: person.submitted() == 1, 30, "the run in the accounting")
    # The same again submits nothing, on another day as well, and takes up what is there if the cluster is not well.
    (person.root / "preflight" / "nodes.json").unlink()
    again = person.nemo(preflight_space_gb=10**6)
    output = again.succeeds(60)
    assert again.changed == 0
    assert "warning  storage.space" in output
    assert "submitted before" in output
    # But no new run is begun there, although its name is that of another.
    output = person.nemo(preflight_space_gb=10**6, nemo_gpt3_max_steps=30).fails(60)
    assert "storage.space" in output
    assert (person.look(), person.submitted()) == ("", 1)


@pytest.fixture
def image(tmp_path: Path) -> Iterator[str]:
    """A small image in the sandbox's registry, which has TLS and a password."""
    if not SOCKET.exists():
        pytest.skip("the sandbox has no Docker Engine: make it with -e sandbox_docker=true")
    name = f"localhost:17050/preflight/small:{os.getpid()}"
    docker = ["/usr/bin/docker", f"--host=unix://{SOCKET}", "--config", str(tmp_path / "docker")]
    (tmp_path / "text").write_text("text")
    archive = subprocess.run(["tar", "-C", tmp_path, "-c", "text"], capture_output=True, check=True).stdout
    password = (REGISTRY / "password").read_bytes().strip()
    for words, given in (
        (["import", "-", name], archive),
        (["login", "-u", "builder", "--password-stdin", "localhost:17050"], password),
        (["push", "-q", name], b""),
    ):
        subprocess.run([*docker, *words], input=given, capture_output=True, check=True)
    yield name.replace("/", "#", 1)
    subprocess.run([*docker, "rmi", "-f", name], capture_output=True, check=False)


def test_a_real_registry_with_tls_and_a_password(person: Person, image: str):
    """Four people in one play: with credentials, with wrong ones, for another image, without the authority."""
    password = (REGISTRY / "password").read_text().strip()
    folders = {"good": password, "bad": password[::-1]}
    for name, word in folders.items():
        folder = person.root / name
        folder.mkdir()
        path = folder / ".credentials"
        path.touch(0o600)
        path.write_text(f"machine localhost login builder password {word}\n")
        for one in (folder, path):
            shutil.chown(one, USER, USER)
    (person.root / "good" / ".curlrc").write_text("cacert = /etc/ssl/certs/ca-certificates.crt\n")
    given = {"preflight_image": image, "image_registry_ca": str(REGISTRY / "bundle.pem")}
    people = {
        "well": {**given, "image_enroot_config_path": str(person.root / "good")},
        "refused": {**given, "image_enroot_config_path": str(person.root / "bad")},
        "absent": {**given, "image_enroot_config_path": str(person.root / "good"), "preflight_image": image + "x"},
        "distrusted": {
            "preflight_image": image,
            "image_enroot_config_path": str(person.root / "good"),
            # At home, the sandbox tells curl whom to trust.
            "image_enroot_environment": {"HOME": str(person.root / "good")},
        },
    }
    inventory = person.folder / "people.json"
    inventory.write_text(json.dumps({"sandbox_cluster": {"hosts": people}}))
    report = f"{person.folder}/{{{{ inventory_hostname }}}}.json"
    values = {"dgxc_shared_root": str(person.root), "preflight_report": report, "preflight_compute_nodes": 0}
    words = ["-i", "inventories/sandbox", "-i", str(inventory), "--limit", ",".join(people)]
    person.play("playbooks/preflight.yml", *words, **values).ends(120)
    found = {}
    for name in people:
        checks = json.loads((person.folder / f"{name}.json").read_text())["checks"]
        assert password not in json.dumps(checks)
        (found[name],) = [check for check in checks if check["id"] == "image"]
    assert {name: check["verdict"] for name, check in found.items()} == {
        "well": "ok", "refused": "error", "absent": "error", "distrusted": "warning",
    }  # fmt: skip
    assert "sha256:" in found["well"]["evidence"]
    assert "put the credentials for localhost:17050" in found["refused"]["remedy"]
    assert "has no image" in found["absent"]["evidence"]


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
    facts = yaml.safe_load((path / "group_vars/mine.yml").read_text())
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
