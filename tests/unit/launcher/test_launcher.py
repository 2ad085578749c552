# Copyright: (c) 2026, The dgxc.workloads developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The small launcher under tests/launcher renders, submits and fails as the real one was seen to."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

yaml = pytest.importorskip("yaml")
pytest.importorskip("hydra", reason="the small launcher needs hydra-core")

MAIN = Path(__file__).parents[2] / "launcher" / "launcher_scripts" / "main.py"
if not MAIN.exists():
    pytest.skip("needs tests/launcher", allow_module_level=True)
OVERLAY = """
defaults:
  - config
  - override training: gpt3/7b_improved
  - _self_
stages: [training]
launcher_scripts_path: /shared/nemo-megatron-launcher/launcher_scripts
base_results_dir: {results}
container: /shared/images/nemo.sqsh
container_mounts: [/cm/shared, "/a:/b:ro", null]
env_vars:
  NCCL_TOPO_FILE: /cm/shared/etc/ndv4-topo.xml
  NCCL_PROTO: LL,LL128,Simple
  TRANSFORMERS_OFFLINE: 0
  UCX_TLS: rc
training:
  run: {{time_limit: "0-02:00:00"}}
  trainer: {{num_nodes: 2, max_steps: 2000, max_time: "00:01:30:00", val_check_interval: 240}}
  model: {{data: {{data_impl: mock}}}}
"""
# What the real launcher writes for the overlay above.
SCRIPT = r"""#!/bin/bash

# Parameters
#SBATCH --dependency=singleton
#SBATCH --error={folder}/log-nemo-megatron-gpt_7b_improved_%j.err
#SBATCH --exclusive
#SBATCH --gpus-per-node=8
#SBATCH --job-name=nemo-megatron-gpt_7b_improved
#SBATCH --mem=0
#SBATCH --nodes=2
#SBATCH --ntasks-per-node=8
#SBATCH --output={folder}/log-nemo-megatron-gpt_7b_improved_%j.out
#SBATCH --time=0-02:00:00

# setup
export NCCL_TOPO_FILE=/cm/shared/etc/ndv4-topo.xml
export NCCL_PROTO=LL,LL128,Simple
export TRANSFORMERS_OFFLINE=0
export TORCH_NCCL_AVOID_RECORD_STREAMS=1
export NCCL_NVLS_ENABLE=0
export NVTE_DP_AMAX_REDUCE_INTERVAL=0
export NVTE_ASYNC_AMAX_REDUCTION=1
export NVTE_FUSED_ATTN=0
export UCX_TLS=rc

# command 1
srun --output {folder}/log-nemo-megatron-gpt_7b_improved_%j.out --error {folder}/log-nemo-megatron-gpt_7b_improved_%j.err --container-image /shared/images/nemo.sqsh --container-mounts {shared}/launcher_scripts:{shared}/launcher_scripts,{shared}/launcher_scripts/data:{shared}/launcher_scripts/data,{results}:{results},/cm/shared:/cm/shared,/a:/b:ro --no-container-mount-home bash -c "
  cd /opt/NeMo;
  git rev-parse HEAD;
  export PYTHONPATH=/opt/NeMo:\${{PYTHONPATH}};
  CUDA_DEVICE_MAX_CONNECTIONS=1 CUDA_VISIBLE_DEVICES=0,1,2,3,4,5,6,7 python3 -u /opt/NeMo/examples/nlp/language_modeling/megatron_gpt_pretraining.py  \
  --config-path={folder} \
  --config-name=gpt_7b_improved_hydra.yaml "
"""

Launch = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture
def results(tmp_path: Path) -> Path:
    return tmp_path / "results"


@pytest.fixture
def folder(results: Path) -> Path:
    return results / "gpt_7b_improved"


@pytest.fixture
def launch(tmp_path: Path, results: Path) -> Launch:
    """Calls the launcher with the overlay; ``slurm`` is a shell line that stands in for sbatch, None is no Slurm."""
    conf = tmp_path / "conf"
    conf.mkdir()
    (conf / "dgxc.yaml").write_text(OVERLAY.format(results=results))

    def run(*overrides: str, slurm: str | None = None, debug: bool = True) -> subprocess.CompletedProcess[str]:
        path = tmp_path / "bin"
        path.mkdir(exist_ok=True)
        for name in ("sbatch", "srun") if slurm is not None else ():
            (path / name).write_text(f"#!/bin/sh\n{slurm}\n")
            (path / name).chmod(0o755)
        environment = {"PATH": str(path), "PYTHONDONTWRITEBYTECODE": "1", "HOME": os.environ.get("HOME", "/")}
        if debug:
            environment["NEMO_LAUNCHER_DEBUG"] = "1"
        command = [sys.executable, str(MAIN), "--config-dir", str(conf), "--config-name", "dgxc", *overrides]
        return subprocess.run(command, env=environment, cwd=tmp_path, capture_output=True, text=True, check=False)

    return run


def resolved(folder: Path) -> dict[str, Any]:
    config = yaml.safe_load((folder / f"{folder.name}_hydra.yaml").read_text())
    assert isinstance(config, dict)
    return config


def test_render(launch: Launch, folder: Path, results: Path) -> None:
    done = launch()
    assert done.returncode == 0, done.stderr
    script = folder / "nemo-megatron-gpt_7b_improved_submission.sh"
    created, fake = done.stdout.splitlines()
    assert created == f"Job nemo-megatron-gpt_7b_improved submission file created at '{script}'"
    assert fake.startswith("[DEBUG] Job nemo-megatron-gpt_7b_improved submitted with FAKE Job ID ")
    expected = SCRIPT.format(folder=folder, results=results, shared="/shared/nemo-megatron-launcher")
    assert script.read_text() == expected.rstrip("\n") + "\n"
    assert {path.name for path in folder.iterdir()} == {
        "results",
        "launcher_cmd.log",
        "gpt_7b_improved_hydra.yaml",
        script.name,
    }
    assert (folder / "launcher_cmd.log").read_text().startswith(f"{MAIN} \\\n  --config-dir \\\n  ")


def test_resolved_configuration(launch: Launch, folder: Path) -> None:
    launch()
    config = resolved(folder)
    assert config["run"]["results_dir"] == str(folder)
    assert config["exp_manager"]["explicit_log_dir"] == f"{folder}/results"
    assert config["exp_manager"]["checkpoint_callback_params"]["model_parallel_size"] == 4
    trainer, model = config["trainer"], config["model"]
    assert (trainer["num_nodes"], trainer["devices"], trainer["max_steps"]) == (2, 8, 2000)
    assert (trainer["max_time"], trainer["val_check_interval"]) == ("00:01:30:00", 240)
    assert (model["micro_batch_size"], model["global_batch_size"]) == (1, 512)
    assert (model["hidden_size"], model["ffn_hidden_size"], model["num_layers"]) == (4096, 10880, 32)
    assert (model["optim"]["lr"], model["optim"]["sched"]["min_lr"]) == (1e-4, 1e-5)
    assert model["data"]["data_impl"] == "mock"
    assert len(model["data"]["data_prefix"]) == 60


def test_cluster_settings_become_options(launch: Launch, folder: Path) -> None:
    done = launch(
        "cluster.account=ml", "cluster.partition=defq", "+cluster.qos=high", "+cluster.nodelist='gpu[001-004]'",
        "cluster.exclusive=false", "cluster.mem=1.5", "training.run.dependency=null", "training.trainer.devices=4",
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    script = (folder / "nemo-megatron-gpt_7b_improved_submission.sh").read_text()
    options = [line.removeprefix("#SBATCH --") for line in script.splitlines() if line.startswith("#SBATCH")]
    assert options[:1] == ["account=ml"]
    assert {"partition=defq", "qos=high", "exclusive=False", "mem=1536MB", "ntasks-per-node=4"} <= set(options)
    assert "nodelist='gpu[001-004]'" in options
    assert not any(option.startswith("dependency") for option in options)
    assert "CUDA_VISIBLE_DEVICES=0,1,2,3 " in script
    assert "Unrecognized sbatch parameter(s): ['nodelist']" in done.stdout


def test_data_prefix_left_empty_is_looked_up(launch: Launch, folder: Path) -> None:
    launch("training.model.data.data_prefix=null")
    script = (folder / "nemo-megatron-gpt_7b_improved_submission.sh").read_text()
    assert "model.data.data_prefix=\\$(python3 /shared/nemo-megatron-launcher/launcher_scripts/" in script


def test_submission(launch: Launch, folder: Path) -> None:
    done = launch(slurm='echo "Submitted batch job 181"', debug=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1] == "Job nemo-megatron-gpt_7b_improved submitted with Job ID 181"
    assert (folder / "launcher.log").read_text() == "Submitted batch job 181"


@pytest.mark.parametrize(
    ("slurm", "code", "said"),
    [
        (None, 1, 'Could not detect "srun"'),
        ("echo 'sbatch: error: Invalid account' >&2; exit 1", 1, "OSError: sbatch: error: Invalid account"),
        ("echo 181", 1, "no job id"),
        (":", 0, ""),
    ],
    ids=["no Slurm", "sbatch fails", "no job id", "silence"],
)
def test_submission_goes_wrong(launch: Launch, folder: Path, slurm: str | None, code: int, said: str) -> None:
    done = launch(slurm=slurm, debug=False)
    assert done.returncode == code
    assert said in done.stderr
    assert "submitted with" not in done.stdout
    assert not (folder / "launcher.log").exists()
    assert (folder / "gpt_7b_improved_hydra.yaml").exists()


@pytest.mark.parametrize(
    ("override", "said"),
    [
        ("launcher_scripts_path=???", "launcher_scripts_path"),
        ("stages=[conversion]", "no stage 'conversion'"),
        ("cluster_type=k8s", "knows bcm, not 'k8s'"),
        ("training.trainer.num_node=2", "num_node"),
    ],
)
def test_refusals(launch: Launch, override: str, said: str) -> None:
    done = launch(override)
    assert done.returncode == 1
    assert said in done.stderr
