# Copyright: (c) 2026, The dgxc.workloads developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The sandbox's trainer: ranks as plain processes with Slurm's variables set."""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

yaml = pytest.importorskip("yaml")
pytest.importorskip("numpy", reason="the sandbox's trainer needs NumPy")

IMAGE = Path(__file__).parents[3] / "roles" / "sandbox" / "files" / "image" / "opt" / "NeMo"
SCRIPT = IMAGE / "examples" / "nlp" / "language_modeling" / "megatron_gpt_pretraining.py"
if not SCRIPT.exists():
    pytest.skip("needs roles/sandbox", allow_module_level=True)
sys.path.insert(0, str(IMAGE))

# The image's folder has to be on the path first.
from sandbox_trainer import config, placement, progress  # noqa: E402

# A resolved configuration as the launcher writes it, but small: 4 ranks, 12 steps of 16 samples.
CONFIG = """
run: {{name: gpt_7b_improved}}
trainer:
  num_nodes: 2
  devices: 2
  max_epochs: null
  max_steps: 12
  max_time: 00:01:30:00
  log_every_n_steps: 10
  val_check_interval: 5
  limit_val_batches: 2
  gradient_clip_val: 1.0
exp_manager:
  explicit_log_dir: {folder}/results
  name: megatron_gpt
  resume_if_exists: true
  resume_ignore_no_checkpoint: true
  checkpoint_callback_params:
    monitor: val_loss
    save_top_k: 10
    mode: min
    filename: megatron_gpt--{{val_loss:.2f}}-{{step}}-{{consumed_samples}}
  step_timing_kwargs: {{sync_cuda: true, buffer_size: 5}}
model:
  micro_batch_size: 1
  global_batch_size: 16
  tensor_model_parallel_size: 2
  pipeline_model_parallel_size: 1
  rampup_batch_size: null
  seed: 1234
  optim:
    lr: 0.0001
    sched: {{warmup_steps: 0, constant_steps: 0, min_lr: 1.0e-05}}
  data: {{data_impl: mock, data_prefix: [0.5, /data/a, 0.5, /data/b]}}
"""


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


class Job:
    """The ranks of one training."""

    def __init__(self, folder: Path, *overrides: str, nodes: int = 2, per_node: int = 2, **variables: str) -> None:
        path = folder / "gpt_7b_improved_hydra.yaml"
        path.write_text(CONFIG.format(folder=folder))
        self.out, self.err = folder / "log.out", folder / "log.err"
        command = [sys.executable, "-u", str(SCRIPT), f"--config-path={folder}", f"--config-name={path.name}"]
        clean = {name: value for name, value in os.environ.items() if not name.startswith(("SLURM_", "MASTER_"))}
        shared = {
            **clean,
            "PYTHONDONTWRITEBYTECODE": "1",
            "MASTER_ADDR": "127.0.0.1",
            "MASTER_PORT": str(free_port()),
            "SLURM_NTASKS": str(nodes * per_node),
            "SLURM_NTASKS_PER_NODE": str(per_node),
            "SLURM_NNODES": str(nodes),
            "SLURM_JOB_ID": "181",
            **variables,
        }
        with self.out.open("wb") as out, self.err.open("wb") as err:
            self.ranks = [
                subprocess.Popen(
                    [*command, *overrides],
                    env={
                        **shared,
                        "SLURM_PROCID": str(rank),
                        "SLURM_LOCALID": str(rank % per_node),
                        "SLURM_NODEID": str(rank // per_node),
                    },
                    stdout=out,
                    stderr=err,
                )
                for rank in range(nodes * per_node)
            ]

    def wait(self, seconds: float = 60) -> list[int]:
        try:
            return [rank.wait(seconds) for rank in self.ranks]
        finally:
            for rank in self.ranks:
                rank.kill()

    def wait_for_step(self, step: int) -> None:
        deadline = time.monotonic() + 60
        while f"global_step={progress.number(float(step))}" not in self.out.read_text():
            assert time.monotonic() < deadline, self.err.read_text()
            time.sleep(0.05)

    def bars(self) -> list[str]:
        segments = re.split(r"[\r\n]", self.out.read_text())
        return [segment for segment in segments if segment.startswith("Epoch 0: :") and "global_step" in segment]

    def values(self, name: str) -> list[float]:
        return [_number(segment, name) for segment in self.bars()]


def _number(segment: str, name: str) -> float:
    found = re.search(rf"{name}=([^,\]]+)", segment)
    assert found
    return float("nan") if found[1].startswith("nan") else float(found[1])


def checkpoints(folder: Path) -> list[str]:
    return sorted(path.name for path in (folder / "results" / "checkpoints").iterdir())


def test_complete_run(tmp_path: Path) -> None:
    job = Job(tmp_path)
    assert job.wait() == [0, 0, 0, 0], job.err.read_text()
    last = job.bars()[-1]
    assert re.fullmatch(
        r"Epoch 0: : 100%\|██████████\| 12/12 \[00:\d\d<00:00, v_num=\w{4}, reduced_train_loss=\d\.\d{3}, "
        r"global_step=11\.00, consumed_samples=192\.0, train_step_timing in s=[\d.e-]+, val_loss=\d\.\d{3}\] *",
        last,
    ), last
    assert job.values("global_step") == sorted(job.values("global_step"))
    assert set(job.values("consumed_samples")) == {16.0 * step for step in range(1, 13)}
    said = job.err.read_text()
    assert sorted(re.findall(r"GLOBAL_RANK: (\d+), MEMBER: (\d+)/4", said)) == [(str(n), str(n + 1)) for n in range(4)]
    assert "All distributed processes registered. Starting with 4 processes" in said
    assert said.rstrip().endswith("`Trainer.fit` stopped: `max_steps=12` reached.")
    assert "Epoch 0, global step 5: 'val_loss' reached" in said
    assert "Validation DataLoader 0: 100%|██████████| 2/2 [" in job.out.read_text()
    kept = [re.sub(r"val_loss=[\d.]+", "val_loss=X", name) for name in checkpoints(tmp_path)]
    assert kept == [
        "megatron_gpt--val_loss=X-step=10-consumed_samples=160.0",
        "megatron_gpt--val_loss=X-step=12-consumed_samples=192.0-last",
        "megatron_gpt--val_loss=X-step=5-consumed_samples=80.0",
    ]


def test_the_loss_falls_and_does_not_depend_on_the_number_of_ranks(tmp_path: Path) -> None:
    losses = []
    for nodes in (1, 2):
        folder = tmp_path / str(nodes)
        folder.mkdir()
        job = Job(folder, "trainer.max_steps=150", f"trainer.num_nodes={nodes}", "model.global_batch_size=128",
                  "trainer.val_check_interval=1.0", "trainer.limit_val_batches=0", nodes=nodes)  # fmt: skip
        assert set(job.wait()) == {0}, job.err.read_text()
        losses.append(job.values("reduced_train_loss"))
    assert losses[0][0] > 5.0 > 3.0 > losses[0][-1]
    assert losses[0] == pytest.approx(losses[1], abs=0.011)


def test_max_time(tmp_path: Path) -> None:
    job = Job(
        tmp_path, "trainer.max_steps=1000000", 'trainer.max_time="00:00:00:02"', "trainer.val_check_interval=9999"
    )
    assert job.wait() == [0, 0, 0, 0], job.err.read_text()
    said = job.err.read_text()
    assert "Time limit reached. Elapsed time is 0:00:02. Signaling Trainer to stop." in said
    assert "stopped: `max_steps" not in said
    assert [name for name in checkpoints(tmp_path) if name.endswith("-last")]
    again = Job(tmp_path, "trainer.max_steps=1000000", "trainer.max_time=00:00:00:02")
    assert again.wait() == [0, 0, 0, 0]
    assert "Time limit reached." in again.err.read_text()
    assert again.bars() == []


def test_resume(tmp_path: Path) -> None:
    assert Job(tmp_path, "trainer.max_steps=7").wait() == [0, 0, 0, 0]
    job = Job(tmp_path)
    assert job.wait() == [0, 0, 0, 0], job.err.read_text()
    assert (job.values("global_step")[0], job.values("consumed_samples")[0]) == (7.0, 128.0)
    assert (job.values("global_step")[-1], job.values("consumed_samples")[-1]) == (11.0, 192.0)
    assert "Restoring states from the checkpoint path at " in job.err.read_text()
    assert sum(name.endswith("-last") for name in checkpoints(tmp_path)) == 1
    done = Job(tmp_path)
    assert done.wait() == [0, 0, 0, 0]
    assert done.bars() == []
    assert "`Trainer.fit` stopped: `max_steps=12` reached." in done.err.read_text()


def test_a_rank_dies(tmp_path: Path) -> None:
    job = Job(tmp_path, "trainer.max_steps=1000000")
    job.wait_for_step(20)
    job.ranks[2].kill()
    began = time.monotonic()
    codes = job.wait(20)
    assert time.monotonic() - began < 10
    assert codes == [1, 1, -signal.SIGKILL, 1]
    assert "[Rank 0] lost rank 2: a remote process exited prematurely" in job.err.read_text()


def test_sigterm(tmp_path: Path) -> None:
    job = Job(tmp_path, "trainer.max_steps=1000000")
    job.wait_for_step(20)
    for rank in job.ranks:
        rank.terminate()
    assert set(job.wait(20)) <= {143, 1}
    assert "Received SIGTERM: 15" in job.err.read_text()


def test_diverging_numbers_are_shown(tmp_path: Path) -> None:
    job = Job(tmp_path, "model.optim.lr=1e34", "trainer.gradient_clip_val=0")
    assert job.wait() == [0, 0, 0, 0], job.err.read_text()
    assert "reduced_train_loss=nan.0" in job.bars()[-1]


@pytest.mark.parametrize(
    ("overrides", "said"),
    [
        (["model.data.data_impl=mmap"], "model.data.data_impl is 'mmap'"),
        (
            ["trainer.num_nodes=2"],
            "`num_nodes=2` in Lightning, but the number of nodes configured in SLURM `--nodes=1`",
        ),
        (["trainer.devices=4"], "`devices=4` in Lightning, but the number of tasks per node"),
        (
            ["model.global_batch_size=9", "model.tensor_model_parallel_size=1"],
            "global batch size (9) is not divisible by micro batch size (1) times data",
        ),
        (
            ["model.tensor_model_parallel_size=3"],
            "world_size (2) is not divisible by tensor_model_parallel_size (3)",
        ),
        (["trainer.max_time=90m"], "trainer.max_time is '90m', not a duration"),
        (["trainer.val_check_interval=13"], "`val_check_interval` (13) must be less than or equal to the number of"),
        (["trainer.max_step=13"], "Key 'max_step' is not in struct"),
        (["trainer.max_steps=-1"], "trainer.max_steps is -1"),
    ],
)
def test_refusals(tmp_path: Path, overrides: list[str], said: str) -> None:
    job = Job(tmp_path, "trainer.num_nodes=1", *overrides, nodes=1)
    assert job.wait() == [1, 1]
    assert said in job.err.read_text()
    assert "Error executing job with overrides: " in job.err.read_text()


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (5.64, "5.640"), (13.4, "13.40"), (179.0, "179.0"), (92160.0, "92160.0"), (102400.0, "1.02e+5"),
        (1024000.0, "1.02e+6"), (1999.0, "2e+3"), (1234.0, "1234.0"), (11.0, "11.00"), (float("nan"), "nan.0"),
    ],
)  # fmt: skip
def test_numbers_in_the_bar(value: float, shown: str) -> None:
    assert progress.number(value) == shown


def test_the_documented_bar() -> None:
    assert progress.cells(180 / 10050) == "▏         "
    assert progress.interval(40 * 60 + 46) == "40:46"
    assert progress.interval(37 * 3600 + 16 * 60 + 4) == "37:16:04"
    some = config.Config(yaml.safe_load(CONFIG.format(folder="/x")))
    some.override("trainer.max_steps=10000")
    assert config.settings(some).train_batches == 10050


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1e-4", 1e-4), ("-7", -7), ("10:00:00:00", "10:00:00:00"), ("1:30:00", "1:30:00"), ("null", None),
        ("true", True), ("[1, a]", [1, "a"]), ("''", ""), (".inf", float("inf")),
    ],
)  # fmt: skip
def test_overrides_are_read_as_hydra_does(text: str, value: object) -> None:
    settings = config.Config({"a": {"b": 1}})
    settings.override(f"a.b={text}")
    settings.override("++a.c.d=2")
    settings.override("+e=3")
    settings.override("~e")
    assert settings.tree == {"a": {"b": value, "c": {"d": 2}}}


@pytest.mark.parametrize(
    ("nodes", "host"),
    [
        ("gpu[001-004]", "gpu001"), ("gpu[007,009]", "gpu007"), ("cpu1,gpu[1-2]", "cpu1"), ("gpu-a[3]-ib", "gpu-a3-ib"),
        ("login", "login"), ("", ""),
    ],
)  # fmt: skip
def test_first_host(nodes: str, host: str) -> None:
    assert placement.first_host(nodes) == host


def test_jobs_side_by_side_meet_at_different_ports() -> None:
    ports = {placement.port_for(job, step) for job in range(1000, 1100) for step in range(8)}
    assert len(ports) == 800
    assert min(ports) >= 20000
    assert max(ports) < 32768
