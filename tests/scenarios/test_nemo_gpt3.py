# Copyright: (c) 2026, The dgxc.workloads developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The NeMo workload on the sandbox, as a person uses it: look first, run, run again, interrupt, watch, cancel."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.harness.person import Person, at_the_keyboard
from tests.harness.sandbox import BIN, CHECKOUT, PREFIX, USER

SHARED = PREFIX / "shared" / USER
SMALL = {"nemo_gpt3_max_steps": 60, "nemo_gpt3_val_check_interval": 20}


@pytest.fixture(scope="module")
def person(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Person]:
    """One person for the whole story: the tests of this file build on one another."""
    with at_the_keyboard("scenario", lambda root: Person(tmp_path_factory.mktemp("plays"), root)) as someone:
        yield someone


def test_a_look_first_writes_nothing_and_shows_the_overlay(person: Person):
    output = person.play("nemo_gpt3", "--check", "--diff", **SMALL).succeeds(180)
    assert person.files() == {}
    assert "max_steps: 60" in output
    assert "the script can be shown once the workspace exists" in output.replace("\n", " ").replace("  ", "")


def test_nonsense_is_told_before_anything_is_touched(person: Person):
    output = person.play("nemo_gpt3", nemo_gpt3_nodes=3, nemo_gpt3_time_limit=7200).fails()
    assert "nemo_gpt3_nodes" in output
    assert "nemo_gpt3_time_limit" in output
    assert person.files() == {}


def test_a_run_is_submitted_followed_judged_and_recorded(person: Person):
    play = person.play("nemo_gpt3", **SMALL)
    output = play.succeeds(300)
    (run,) = person.runs("nemo_gpt3")
    record = json.loads((run / "record.json").read_text())
    result = record["attempts"][0]["result"]
    assert record["verdict"] == "succeeded"
    assert [(gate["name"], gate["passed"]) for gate in result["gates"]] == [
        ("slurm", True), ("log", True), ("topology", True),
    ]  # fmt: skip
    assert result["steps_done"] == 60
    assert result["metrics"]["seconds_per_step"]["count"] > 0
    assert record["attempts"][0]["job_id"] in person.jobs()
    assert re.fullmatch(r"(sha256|squashfs-tables):[0-9a-f]{64}", record["identity"]["image_digest"])
    assert str(run / "record.json") in output
    assert "60 of 60" in output


def test_the_second_time_changes_nothing_and_submits_nothing(person: Person):
    jobs, files = person.jobs(), person.files()
    play = person.play("nemo_gpt3", **SMALL)
    output = play.succeeds(60)
    assert play.changed == 0
    assert "succeeded" in output
    assert person.jobs() == jobs
    assert person.files() == files


def test_a_look_at_another_run_shows_its_script_and_writes_nothing(person: Person):
    jobs, files = person.jobs(), person.files()
    output = person.play("nemo_gpt3", "--check", "--diff", nemo_gpt3_nodes=4, **SMALL).succeeds(60)
    assert "#SBATCH --nodes=4" in output
    assert person.jobs() == jobs
    assert person.files() == files


def test_an_interrupted_run_goes_on_and_is_seen_taken_up_and_reported(person: Person):
    variables = {"nemo_gpt3_max_steps": 3000, "nemo_gpt3_val_check_interval": 1000}
    jobs = person.jobs()
    play = person.play("nemo_gpt3", **variables)
    play.says("RUNNING", 120)
    os.killpg(play.process.pid, signal.SIGINT)
    play.ends(60)
    status = person.play("status").succeeds()
    assert "RUNNING" in status
    again = person.play("nemo_gpt3", **variables)
    again.succeeds(300)
    assert len(person.jobs()) == len(jobs) + 1


def test_a_run_is_cancelled_after_a_word_and_nothing_else(person: Person):
    variables = {"nemo_gpt3_max_steps": 100000, "nemo_gpt3_val_check_interval": 1000, "nemo_gpt3_run_name": "endless"}
    play = person.play("nemo_gpt3", **variables)
    play.says("RUNNING", 120)
    looked = person.play("cancel", "--check").succeeds()
    assert "endless" in looked
    person.play("cancel", cancel_confirmed=True).succeeds()
    output = play.fails(120)
    assert "CANCELLED" in output
    assert "nothing to cancel" in person.play("cancel").succeeds()


def test_an_installed_artifact_does_the_same_from_elsewhere(person: Person, tmp_path: Path):
    jobs = person.jobs()
    elsewhere = {name: value for name, value in os.environ.items() if not name.startswith("ANSIBLE_")}
    galaxy = [str(BIN / "ansible-galaxy"), "collection"]
    subprocess.run([*galaxy, "build", "--output-path", str(tmp_path)], cwd=CHECKOUT, check=True, capture_output=True)
    (tarball,) = tmp_path.glob("*.tar.gz")
    subprocess.run(
        [*galaxy, "install", str(tarball), "-p", str(tmp_path / "collections"), "--offline", "--no-deps"],
        cwd=tmp_path, check=True, capture_output=True, env=dict(elsewhere, HOME=str(tmp_path)),
    )  # fmt: skip
    variables = {
        "sandbox_shared_root": str(person.root),
        "sandbox_image_path": str(SHARED / "images/nemo-sandbox.sqsh"),
    }
    done = subprocess.run(
        [
            str(BIN / "ansible-playbook"), "dgxc.workloads.nemo_gpt3", "-i", str(CHECKOUT / "inventories/sandbox"),
            "-e", json.dumps({**variables, **SMALL}),
        ],
        cwd=tmp_path, text=True, capture_output=True, check=False,
        env=dict(elsewhere, ANSIBLE_COLLECTIONS_PATH=str(tmp_path / "collections")),
    )  # fmt: skip
    assert done.returncode == 0, done.stdout
    assert "changed=0" in done.stdout
    assert person.jobs() == jobs
