# Copyright: (c) 2026, The dgxc.workloads developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The training stage: from a configuration to a resolved configuration, a script and a job."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

from omegaconf import DictConfig, ListConfig, OmegaConf

from .slurm import JobFiles, memory, require_srun, script_text, submit

logger = logging.getLogger("NEMO_LAUNCHER")

NEMO = "/opt/NeMo"
SCRIPT = f"{NEMO}/examples/nlp/language_modeling/megatron_gpt_pretraining.py"


class TrainingStage:
    """Pre-training of a GPT model with NeMo on Slurm.

    :param cfg: the composed configuration of the launcher
    :raises ValueError: for a cluster other than ``bcm`` (Slurm), or a model other than GPT-3
    """

    def __init__(self, cfg: DictConfig) -> None:
        if cfg.cluster_type != "bcm":
            raise ValueError(f"cluster_type: this small launcher knows bcm, not {cfg.cluster_type!r}")
        if cfg.training_config.rsplit("/", 1)[0] != "gpt3":
            raise ValueError(f"training: this small launcher knows gpt3 models, not {cfg.training_config!r}")
        self.cfg = cfg
        self.training = cfg.training
        self.folder = Path(self.training.run.results_dir).expanduser().absolute()
        name = self.training.run.name
        self.files = JobFiles(self.folder, name, cfg.cluster.job_name_prefix + name)

    def run(self) -> str:
        """Write the files of the run and submit its script; returns the job id.

        Folders and configuration are there even if the machine turns out to have no Slurm, as with the real launcher.
        """
        self.files.results.mkdir(parents=True, exist_ok=True)
        OmegaConf.to_container(self.training, resolve=True)  # raises where an interpolation leads to an unset value
        OmegaConf.resolve(self.training)
        OmegaConf.save(self.training, self.files.config)
        require_srun()
        text = script_text(
            self.files,
            self.options(),
            {name: value for name, value in self.cfg.env_vars.items() if value is not None},
            self.commands(),
            self.cfg.container,
            self.mounts(),
            self.srun_args(),
        )
        self.files.script.write_text(text, encoding="utf-8")
        logger.info(f"Job {self.files.job_name} submission file created at '{self.files.script}'")
        return submit(self.files)

    def options(self) -> dict[str, Any]:
        """The sbatch options: those of the cluster, and over them those of the run."""
        run, trainer = self.training.run, self.training.trainer
        options: dict[str, Any] = {str(name): value for name, value in self.cfg.cluster.items()}
        for name in ("job_name_prefix", "srun_args"):
            options.pop(name, None)
        if "mem" in options:
            options["mem"] = memory(options["mem"])
        nodes, tasks = run.get("nodes"), run.get("ntasks_per_node")
        return {
            **options,
            "job_name": self.files.job_name,
            "nodes": trainer.num_nodes if nodes is None else nodes,
            "ntasks_per_node": trainer.devices if tasks is None else tasks,
            "time": run.time_limit,
            "dependency": run.dependency,
        }

    def srun_args(self) -> list[str]:
        """What srun gets besides logs and container. Overlapping communication needs PMIx to start the ranks."""
        arguments = list(self.cfg.cluster.get("srun_args") or [])
        return [*arguments, "--mpi=pmix"] if self.training.model.get("ub_tp_comm_overlap", False) else arguments

    def mounts(self) -> str:
        """Pyxis's mount list: launcher, data and results, each at its own path, then the extra ones.

        :raises ValueError: when ``container_mounts`` is no list
        """
        cfg = self.cfg
        paths = [f"{path}:{path}" for path in (Path(cfg.launcher_scripts_path), cfg.data_dir, cfg.base_results_dir)]
        extra = cfg.container_mounts
        if extra is not None and not isinstance(extra, ListConfig):
            raise ValueError("container_mounts must be a list.")
        for mount in extra or []:
            if isinstance(mount, str):
                paths.append(mount if ":" in mount else f"{mount}:{mount}")
        return ",".join(paths)

    def commands(self) -> list[str]:
        """What each rank runs inside the container. It stands in double quotes in the script, hence ``\\$``."""
        commands = []
        if self.cfg.wandb_api_key_file is not None:
            with Path(self.cfg.wandb_api_key_file).open(encoding="utf-8") as stream:
                commands.append(f"wandb login {stream.readline().rstrip()}")
        train = " \\\n  ".join(
            [
                f"python3 -u {SCRIPT} ",
                f"--config-path={self.files.config.parent}",
                f"--config-name={self.files.config.name}",
                *self.overrides(),
            ]
        )
        prefix = f"CUDA_VISIBLE_DEVICES={self.visible_devices()}"
        if self.one_connection():
            prefix = f"CUDA_DEVICE_MAX_CONNECTIONS=1 {prefix}"
        return [
            *commands,
            f"cd {NEMO}",
            "git rev-parse HEAD",
            f"export PYTHONPATH={NEMO}:\\${{PYTHONPATH}}",
            f"{prefix} {train}",
        ]

    def visible_devices(self) -> str:
        """The GPUs each rank sees: all of its node."""
        tasks = self.training.run.get("ntasks_per_node")
        return ",".join(map(str, range(self.training.trainer.devices if tasks is None else tasks)))

    def one_connection(self) -> bool:
        """Whether the model parallelism needs its kernels in order, so one work queue for each device."""
        model = self.training.model
        split = model.get("tensor_model_parallel_size", 1) > 1 or model.get("context_parallel_size", 1) > 1
        return split and not model.get("fsdp", False)

    def overrides(self) -> list[str]:
        """Hydra overrides at the end of the training command. Without data_prefix the data folder is looked through."""
        overrides = []
        run, model = self.training.run, self.training.model
        if model.data.get("data_prefix") is None:
            blend = (
                f"python3 {Path(self.cfg.launcher_scripts_path)}/nemo_launcher/collections/auto_blend.py "
                f"model_type=gpt3 preprocessed_dir={run.get('preprocessed_dir')} "
                f"blending_alpha={run.get('blending_alpha')}"
            )
            overrides.append(f"model.data.data_prefix=\\$({blend})")
        if model.get("gc_interval", 0) > 1:
            interval = min(model.gc_interval, self.training.trainer.val_check_interval)
            overrides.append(f"model.gc_interval={interval}")
        return overrides
