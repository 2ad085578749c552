# Copyright: (c) 2026, The dgxc.workloads developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""ALMA on the sandbox, as a person uses it: look first, train on two nodes, run again, sweep, and data that is cut off.

The training is real: two nodes of two processes each, DeepSpeed's ZeRO stage 2, a tiny Llama with LoRA.
"""

from __future__ import annotations

import array
import json
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.harness import person as person_of
from tests.harness.sandbox import PREFIX, USER, Play

pytestmark = pytest.mark.training

SHARED = PREFIX / "shared" / USER
ALMA = Path(__file__).resolve().parents[1] / "alma"
LAYERS, HIDDEN, FEED_FORWARD, RANK = 2, 64, 96, 4


class Person(person_of.Person):
    def alma(self, *arguments: str, **variables: object) -> Play:
        return self.play("alma", *arguments, **variables)

    def record(self, name: str) -> dict[str, Any]:
        """The record of the only run of this name."""
        (run,) = (run for run in self.runs("alma") if run.name.startswith(f"{name}-"))
        return json.loads((run / "record.json").read_text())


@pytest.fixture(scope="module")
def person(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Person]:
    """One person for the whole story: the tests of this file build on one another."""
    with person_of.at_the_keyboard("alma", lambda root: Person(tmp_path_factory.mktemp("plays"), root)) as someone:
        yield someone


def weights(path: Path) -> dict[str, array.array[float]]:
    """The tensors of a .safetensors file: the length of a JSON header, the header, and the numbers."""
    content = path.read_bytes()
    length = int.from_bytes(content[:8], "little")
    header = json.loads(content[8 : 8 + length])
    found = {}
    for name, entry in header.items():
        if name != "__metadata__":
            assert entry["dtype"] == "F32"
            begin, end = entry["data_offsets"]
            found[name] = array.array("f", content[8 + length + begin : 8 + length + end])
    return found


def lines(name: str) -> int:
    return len((ALMA / "human_written_data" / name).read_text().splitlines())


def test_a_look_first_writes_nothing_and_shows_the_script(person: Person):
    output = person.alma("--check", "--diff").succeeds(120)
    assert person.files() == {}
    assert "#SBATCH --nodes=2" in output
    assert "--kill-on-bad-exit=1" in output


def test_nonsense_is_told_before_anything_is_touched(person: Person):
    output = person.alma(alma_nodes=0, alma_precision="fp8", alma_zero_stage=3, alma_batchsize=1).fails()
    for name in ("alma_nodes", "alma_precision", "alma_zero_stage", "alma_batch_size"):
        assert name in output
    assert person.files() == {}


def test_two_nodes_train_together_and_every_number_is_proved(person: Person):
    person.alma().succeeds(300)
    record = person.record("alma-n2")
    examples = lines("zhen/train.zh-en.json")
    steps = 4 * (math.ceil(math.ceil(examples / 4) / 4) // 2)
    expect = record["expect"]
    assert (expect["num_examples"], expect["global_batch_size"], expect["steps"]) == (examples, 2 * 2 * 4 * 2, steps)
    assert expect["trainable_parameters"] == LAYERS * RANK * (HIDDEN + FEED_FORWARD)
    result = record["attempts"][0]["result"]
    assert record["verdict"] == "succeeded"
    assert {gate["name"]: gate["passed"] for gate in result["gates"]} == {
        "slurm": True, "log": True, "topology": True, "output": True,
    }  # fmt: skip
    evidence = " ".join(gate["evidence"] for gate in result["gates"])
    # What the program said, not what was asked for.
    assert f"total optimization steps = {steps}" in evidence
    assert "tasks 0-1" in evidence
    assert person.jobs() == [record["attempts"][0]["job_id"]]


def test_the_training_has_learnt_and_its_adapter_is_there(person: Person):
    attempt = Path(person.record("alma-n2")["run_dir"]) / "attempt-1"
    history = json.loads((attempt / "output" / "trainer_state.json").read_text())["log_history"]
    losses = [entry["loss"] for entry in history if "loss" in entry]
    assert sum(losses[-5:]) / 5 < 0.7 * losses[0]
    tensors = weights(attempt / "output" / "adapter_model.safetensors")
    assert sum(len(numbers) for numbers in tensors.values()) == LAYERS * RANK * (HIDDEN + FEED_FORWARD)
    # These are zero where the training begins.
    grown = [numbers for name, numbers in tensors.items() if "lora_B" in name]
    assert len(grown) == LAYERS
    assert all(max(map(abs, numbers)) > 0.01 for numbers in grown)


def test_the_second_time_changes_nothing_and_submits_nothing(person: Person):
    jobs, files = person.jobs(), person.files()
    play = person.alma()
    play.succeeds(60)
    assert play.changed == 0
    assert person.jobs() == jobs
    assert person.files() == files


def test_a_sweep_adds_the_size_that_is_missing(person: Person):
    jobs = person.jobs()
    output = person.alma(alma_nodes=[1, 2]).succeeds(300)
    assert len(person.jobs()) == len(jobs) + 1
    one, two = (person.record(name)["expect"] for name in ("alma-n1", "alma-n2"))
    assert person.record("alma-n1")["verdict"] == "succeeded"
    assert (one["global_batch_size"], two["global_batch_size"]) == (16, 32)
    assert one["steps"] > two["steps"]
    assert f"{one['steps']} of {one['steps']}" in output


def test_evaluations_are_made_and_seen(person: Person):
    short = {"alma_max_train_samples": 64, "alma_epochs": 1}
    person.alma(alma_nodes=1, alma_run_name="evaluated", alma_eval_steps=2, alma_save_steps=2, **short).succeeds(300)
    record = person.record("evaluated-n1")
    assert record["verdict"] == "succeeded"
    state = json.loads((Path(record["run_dir"]) / "attempt-1" / "output" / "trainer_state.json").read_text())
    assert [entry["step"] for entry in state["log_history"] if "eval_loss" in entry] == [2, 4]
    assert record["metrics"]["evaluation_loss"]["mean"] == pytest.approx(state["log_history"][-2]["eval_loss"])


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"version https://git-lfs.github.com/spec/v1\noid sha256:" + b"0" * 64 + b"\nsize 4096\n", "Git LFS leaves"),
        (b'{"translation": {"de": "eins", "en": "one"}}\n{"translation": {"de": "zw', "was cut off in line 2"),
        (b'{"translation": {"de": "eins", "en": "one"}}\n', "has 1 examples of the 77 of alma_train_examples"),
    ],
    ids=["pointer", "cut", "short"],
)
def test_data_that_is_not_whole_is_told_and_nothing_is_submitted(person: Person, content: bytes, words: str):
    jobs = person.jobs()
    folder = person.root / "data" / "deen"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "train.de-en.json").write_bytes(content)
    output = person.alma(
        alma_data_path=str(person.root / "data"), alma_language_pairs="de-en", alma_train_examples={"de": 77}
    ).fails()
    assert words in " ".join(output.split())
    assert person.jobs() == jobs
