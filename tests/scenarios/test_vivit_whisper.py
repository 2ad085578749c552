# Copyright: (c) 2026, The dgxc.workloads developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""ViViT and Whisper on the sandbox: real training of small models through Slurm, over two nodes, without a GPU.

The data comes from a web server of the tests, which is as moody as real ones.
"""

from __future__ import annotations

import array
import importlib.util
import io
import json
import math
import os
import shutil
import signal
import subprocess
import tarfile
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.harness import person as person_of
from tests.harness.sandbox import CHECKOUT, PREFIX, USER, Play

SHARED = PREFIX / "shared" / USER
TRAINING = PREFIX / "training"
PYTHON = TRAINING / "venv" / "bin" / "python"
HARNESS = CHECKOUT / "tests" / "harness"
VIDEOS, EXAMPLES = 21, 100
CELLS = [(1, 1), (1, 2), (2, 1), (2, 2)]
MATRIX = [f"{nodes}x{gpus}" for nodes, gpus in CELLS]

pytestmark = pytest.mark.training

_SPEC = importlib.util.spec_from_file_location(
    "file_server", CHECKOUT / "tests" / "unit" / "plugins" / "module_utils" / "file_server.py"
)
file_server = importlib.util.module_from_spec(_SPEC)
_SPEC.loader.exec_module(file_server)


class Person(person_of.Person):
    """Somebody who has small models and a data server beside the folder on shared storage."""

    def __init__(self, logs: Path, root: Path, models: Path, server) -> None:
        super().__init__(logs, root)
        self.models = models
        self.server = server

    def play(self, role: str, *arguments: str, **variables: object) -> Play:
        """Start a workload's playbook; variables without the role's prefix."""
        common = {
            "container_image": str(SHARED / "images/nemo-sandbox.sqsh"),
            # Where the training libraries are, which the sandbox's image has on its PATH.
            "container_mounts": [str(TRAINING)],
            "cpu": True,
            "cpu_threads_per_process": 1,
            # The inventory has data that is there; here it is fetched.
            "data_path": "",
            # All at once, also on the same nodes.
            "exclusive": False,
            "memory": "2G",
            "matrix": MATRIX,
            "offline": True,
        }
        values = {f"{role}_{name}": value for name, value in {**common, **variables}.items()}
        more = {"sandbox_shared_root": str(self.root), "run_poll_interval_max": 3}
        return self.start(role, *arguments, environment={"ANSIBLE_FORCE_COLOR": "0"}, **more, **values)

    def vivit(self, *arguments: str, **variables: object) -> Play:
        small = {
            "data_classes": 3,
            "data_url": self.server.url("/UCF101_subset.tar.gz"),
            "data_videos": VIDEOS,
            "learning_rate": 5e-3,
            "loader_workers": [1],
            "logging_steps": 2,
            "model": str(self.models / "vivit-b-16x2-kinetics400"),
        }
        return self.play("vivit", *arguments, **{**small, **variables})

    def whisper(self, *arguments: str, **variables: object) -> Play:
        small = {
            "data_url": self.server.url("/asr.zip"),
            "kaggle_file": "",
            "kaggle_key": "a-key-at-kaggle",
            "kaggle_username": "me",
            "learning_rate": 2e-2,
            "load_in_8bit": False,
            "logging_steps": 1,
            "model": str(self.models / "whisper-tiny-random"),
            "trainable_parameters": 6144,
            "warmup_steps": 1,
        }
        return self.play("whisper_qlora", *arguments, **{**small, **variables})

    def records(self, role: str) -> dict[str, dict]:
        """The record of every run by its name, with the last attempt's folder in it."""
        found = {}
        for path in sorted((self.root / "runs" / role).glob("*/record.json")):
            record = json.loads(path.read_text())
            attempts = len(record["attempts"])
            found[path.parent.name[:-13]] = {**record, "folder": path.parent / f"attempt-{attempts}"}
        return found


def packed(folder: Path, kind: str) -> bytes:
    """An archive of a folder: tar.gz with the folder in it as on the hub, zip of what is in it as from Kaggle."""
    stream = io.BytesIO()
    if kind == "tar":
        with tarfile.open(fileobj=stream, mode="w:gz") as archive:
            archive.add(folder, folder.name)
    else:
        with zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED) as archive:
            for path in sorted(folder.iterdir()):
                archive.write(path, path.name)
    return stream.getvalue()


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Small models and data, made by the training libraries themselves."""
    folder = SHARED / f"models-{os.getpid()}"
    folder.mkdir()
    for program, amount in (("make_vivit.py", f"--videos={VIDEOS}"), ("make_whisper.py", f"--examples={EXAMPLES}")):
        subprocess.run([str(PYTHON), str(HARNESS / program), str(folder), amount], check=True, capture_output=True)
    subprocess.run(["chown", "-R", f"{USER}:", str(folder)], check=True)
    yield folder
    shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(scope="module")
def person(tmp_path_factory: pytest.TempPathFactory, models: Path) -> Iterator[Person]:
    """One person for the whole story: the tests of this file build on one another."""
    server = file_server.FileServer()
    server.files["/UCF101_subset.tar.gz"] = packed(models / "UCF101_subset", "tar")
    server.files["/asr.zip"] = packed(models / "bengali-ai-asr-10k", "zip")
    logs = tmp_path_factory.mktemp("plays")
    with person_of.at_the_keyboard("scenario-vw", lambda root: Person(logs, root, models, server)) as someone:
        yield someone
    server.close()


def losses(state: dict) -> list[float]:
    return [entry["loss"] for entry in state["log_history"] if "loss" in entry]


def passed(record: dict) -> dict[str, bool]:
    return {gate["name"]: gate["passed"] for gate in record["attempts"][-1]["result"]["gates"]}


ALL_GATES = {"slurm": True, "log": True, "topology": True, "output": True}


@pytest.mark.parametrize("script", ["vivit", "whisper"])
def test_the_parts_of_the_scripts(models: Path, tmp_path: Path, script: str):
    done = subprocess.run(
        [str(PYTHON), str(HARNESS / "check_training_scripts.py"), script, str(models)],
        text=True, capture_output=True, check=False, env={**os.environ, "HF_HOME": str(tmp_path)},
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr


def test_a_look_first_writes_nothing_and_shows_the_scripts(person: Person):
    output = person.vivit("--check", "--diff").succeeds()
    assert person.files() == {}
    assert person.server.requests == []
    assert "#SBATCH --job-name=vivit-n2g2b4-w1" in output
    assert "UCF101_subset:/data/UCF101_subset:ro" in output
    assert "There is no data in" in output


def test_nonsense_is_told_before_anything_is_touched(person: Person):
    output = person.whisper(matrix=["8"], load_in_8bit=True, kaggle_key="").fails()
    for name in ("whisper_qlora_matrix", "whisper_qlora_load_in_8bit", "whisper_qlora_kaggle_username"):
        assert name in output
    assert person.files() == {}
    assert person.server.requests == []


def test_vivit_is_fetched_trained_and_judged_over_a_sweep(person: Person):
    # The connection breaks twice on the way.
    person.server.plays = [20_000, 30_000]
    output = person.vivit().succeeds(420)
    assert [headers.get("Range") for _path, headers in person.server.requests] == [None, "bytes=20000-", "bytes=50000-"]
    assert len(list((person.root / "data" / "UCF101_subset").glob("train/*/*.avi"))) == VIDEOS
    assert len(person.jobs()) == 4

    records = person.records("vivit")
    assert list(records) == [f"vivit-n{nodes}g{gpus}b4-w1" for nodes, gpus in CELLS]
    for (nodes, gpus), (name, record) in zip(CELLS, records.items(), strict=True):
        assert (record["verdict"], passed(record)) == ("succeeded", ALL_GATES)
        assert name in output
        folder = (
            record["folder"] / "output" / f"vivit-b-16x2-kinetics400-finetuned-ucf101-subset-{nodes}-n-{gpus}-g-4-b"
        )
        state = json.loads((folder / "trainer_state.json").read_text())
        steps = (VIDEOS // 4) * 2
        assert state["global_step"] == steps
        # The document's formula, for one loader worker.
        epoch = math.ceil(steps / math.ceil(VIDEOS / (4 * nodes * gpus))) - 1
        assert int(state["log_history"][-1]["epoch"]) == epoch
        # What can be learnt was learnt, from all videos and for the right classes; a third is chance.
        assert losses(state)[-1] < 0.6 * losses(state)[0]
        assert json.loads((folder / "test_results.json").read_text())["eval_accuracy"] == 1.0
        assert (folder / "model.safetensors").stat().st_size > 0
        said = (record["folder"] / f"train-{record['attempts'][0]['job_id']}.out").read_text()
        for rank in range(nodes * gpus):
            assert f"Process ID: {rank} of {nodes * gpus}" in said


def test_the_second_time_fetches_nothing_and_submits_nothing(person: Person):
    jobs, files, requests = person.jobs(), person.files(), len(person.server.requests)
    play = person.vivit()
    output = play.succeeds(60)
    assert play.changed == 0
    assert output.count("succeeded") >= 4
    assert (person.jobs(), person.files(), len(person.server.requests)) == (jobs, files, requests)


def test_a_larger_sweep_runs_only_what_is_missing(person: Person):
    jobs = person.jobs()
    output = person.vivit(loader_workers=[1, 4], matrix=["1x2"]).succeeds(240)
    assert len(person.jobs()) == len(jobs) + 1
    records = person.records("vivit")
    # Four workers make batches of 6, 5, 5 and 5 videos, which are 8 where one worker makes 6: the formula of the
    # document would expect 3.
    assert "With 4 loader workers" in output
    last = {}
    for workers in (1, 4):
        record = records[f"vivit-n1g2b4-w{workers}"]
        assert passed(record) == ALL_GATES
        (path,) = (record["folder"] / "output").glob("*/trainer_state.json")
        last[workers] = int(json.loads(path.read_text())["log_history"][-1]["epoch"])
    assert last == {1: 3, 4: 2}


def test_whispers_data_is_not_fetched_without_a_right_key(person: Person):
    person.server.credentials = "me:a-key-at-kaggle"
    output = person.whisper(kaggle_key="a-wrong-key-at-kaggle").fails()
    assert "answers 401 (unauthorized): whisper_qlora_kaggle_username and whisper_qlora_kaggle_key" in output
    assert "a-wrong-key" not in output
    person.server.plays = [(403, {})]
    output = person.whisper().fails()
    assert "accept the terms of the data set on https://www.kaggle.com/datasets/nbroad/bengali-ai-asr-10k" in output
    assert "a-key-at-kaggle" not in output
    assert not (person.root / "data" / "bengali-ai-asr-10k").exists()


def test_whisper_is_trained_over_a_sweep_that_is_interrupted(person: Person):
    jobs = person.jobs()
    cells = [(1, 1), (1, 2), (2, 2)]
    matrix = [f"{nodes}x{gpus}" for nodes, gpus in cells]
    play = person.whisper(matrix=matrix)
    play.says("RUNNING", 90)
    os.killpg(play.process.pid, signal.SIGINT)
    play.ends(60)
    # One of the three is lost meanwhile.
    (lost,) = (person.root / "runs" / "whisper_qlora").glob("asr-n1g1-*/attempt-1/job.json")
    subprocess.run([str(PREFIX / "bin" / "scancel"), json.loads(lost.read_text())["job_id"]], check=True)
    output = person.whisper(matrix=matrix).succeeds(420)
    # The others were taken up, the lost one was submitted again.
    assert len(person.jobs()) == len(jobs) + 4
    assert "a-key-at-kaggle" not in output + play.output

    records = person.records("whisper_qlora")
    assert {name: len(record["attempts"]) for name, record in records.items()} == {
        "asr-n1g1": 2, "asr-n1g2": 1, "asr-n2g2": 1,
    }  # fmt: skip
    for (nodes, gpus), (name, record) in zip(cells, records.items(), strict=True):
        assert (record["verdict"], passed(record)) == ("succeeded", ALL_GATES)
        assert name in output
        folder = record["folder"] / "output" / "lora" / f"bengali-ai-asr-10k-{nodes}-n-{gpus}-g"
        state = json.loads((folder / "trainer_state.json").read_text())
        # The first file by name, of which the archive has two, and none of its examples left out.
        assert state["global_step"] == math.ceil(math.ceil(EXAMPLES / 8) / (nodes * gpus))
        assert losses(state)[-1] < 0.9 * losses(state)[0]
        evaluations = [entry["eval_loss"] for entry in state["log_history"] if "eval_loss" in entry]
        assert len(evaluations) == 1
        assert evaluations[0] < losses(state)[0]
        assert json.loads((folder / "adapter_config.json").read_text())["r"] == 16


def test_the_adapters_that_were_saved_have_learnt(person: Person):
    (path,) = person.records("whisper_qlora")["asr-n2g2"]["folder"].glob("output/lora/*/adapter_model.safetensors")
    content = path.read_bytes()
    # A safetensors file: the length of a JSON header, the header, the numbers.
    start = 8 + int.from_bytes(content[:8], "little")
    header = json.loads(content[8:start])
    weights = {}
    for name, entry in header.items():
        if name != "__metadata__":
            assert entry["dtype"] == "F32"
            begin, end = entry["data_offsets"]
            weights[name] = sum(map(abs, array.array("f", content[start + begin : start + end])))
    # Six projections with A and B, and nothing of the model below. B is nothing before the training.
    assert len(weights) == 12
    assert all("_proj.lora_" in name for name in weights)
    assert all(size > 0 for size in weights.values()), weights


def test_no_file_holds_the_key(person: Person):
    for path in person.root.rglob("*"):
        if path.is_file() and path.stat().st_size < 1 << 20:
            assert b"a-key-at-kaggle" not in path.read_bytes(), path
