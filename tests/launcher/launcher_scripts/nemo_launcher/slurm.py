# Copyright: (c) 2026, The dgxc.workloads developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The Slurm side: the text of a submission script, and its submission."""

from __future__ import annotations

import logging
import os
import random
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

logger = logging.getLogger("NEMO_LAUNCHER")

# The sbatch options the real launcher knows. Others are passed on as well, with a warning.
KNOWN_OPTIONS = {
    *("job_name", "partition", "account", "qos", "time", "dependency", "array", "comment", "constraint", "exclude"),
    *("nodes", "ntasks_per_node", "exclusive", "cpus_per_task", "cpus_per_gpu", "gpus_per_node", "gpus_per_task"),
    *("gres", "mem", "mem_per_cpu", "mem_per_gpu", "output", "error"),
}


@dataclass(frozen=True)
class JobFiles:
    """Where the files of a job lie. ``%j`` in a log's name is for Slurm to fill in.

    :param folder: absolute folder of the run
    :param stem: the run's name, which the resolved configuration is called after
    :param job_name: the name the job has in Slurm
    """

    folder: Path
    stem: str
    job_name: str

    @property
    def script(self) -> Path:
        """The submission script."""
        return self.folder / f"{self.job_name}_submission.sh"

    @property
    def config(self) -> Path:
        """The resolved training configuration."""
        return self.folder / f"{self.stem}_hydra.yaml"

    @property
    def results(self) -> Path:
        """Where the training keeps its checkpoints."""
        return self.folder / "results"

    def log(self, stream: str) -> str:
        """The file that ``stream`` (``out`` or ``err``) of the job is written to."""
        return str(self.folder / f"log-{self.job_name}_%j.{stream}")


def debug_wanted() -> bool:
    """Whether NEMO_LAUNCHER_DEBUG asks for rendering without submission."""
    return os.environ.get("NEMO_LAUNCHER_DEBUG", "").lower() in ("true", "t", "1")


def require_srun() -> None:
    """Refuse a machine without Slurm, unless nothing will be submitted.

    :raises RuntimeError: when there is no ``srun`` on the PATH
    """
    if not debug_wanted() and shutil.which("srun") is None:
        raise RuntimeError('Could not detect "srun", are you indeed on a slurm cluster?')


def sbatch_lines(options: Mapping[str, Any]) -> list[str]:
    """The ``#SBATCH`` lines for ``options``, sorted; of the known ones, those that are null are left out."""
    unknown = sorted(set(options) - KNOWN_OPTIONS)
    if unknown:
        logger.warning(f"Unrecognized sbatch parameter(s): {unknown}. Use at your own risk.")
    lines = []
    for name in sorted(options):
        value = options[name]
        if value is None and name in KNOWN_OPTIONS:
            continue
        flag = f"#SBATCH --{name.replace('_', '-')}"
        lines.append(flag if value is True else f"{flag}={shlex.quote(str(value))}")
    return lines


def memory(amount: float) -> str:
    """A number of GiB as Slurm takes it; 0 stands for all the memory of a node."""
    if amount == int(amount):
        return f"{int(amount)}GB" if amount else "0"
    return f"{int(amount * 1024)}MB"


def script_text(
    files: JobFiles,
    options: Mapping[str, Any],
    exports: Mapping[str, Any],
    commands: list[str],
    image: str | None,
    mounts: str,
    srun_args: Iterable[str],
) -> str:
    """The submission script: options, exports, and one srun that runs ``commands`` in the container on all ranks.

    The values of ``exports`` stand unquoted, as in the scripts of the real launcher: one with a blank in it breaks.
    """
    options = {"output": files.log("out"), "error": files.log("err"), **options}
    srun = ["srun", "--output", files.log("out"), "--error", files.log("err")]
    srun += ["--container-image", image] if image else []
    srun += ["--container-mounts", mounts, *srun_args]
    text = ["#!/bin/bash", "", "# Parameters", *sbatch_lines(options)]
    if exports:
        text += ["", "# setup", *(f"export {name}={value}" for name, value in exports.items())]
    text += ["", "# command 1", f'{shlex.join(srun)} bash -c "', "  " + ";\n  ".join(commands) + ' "', ""]
    return "\n".join(text)


def submit(files: JobFiles) -> str:
    """Submit the script, or say that debugging only pretends to; returns the job id, empty if sbatch named none.

    :raises OSError: when sbatch fails, with what it said
    :raises RuntimeError: when sbatch succeeds with words in which there is no job id
    """
    if debug_wanted():
        job_id = str(random.randint(10000, 99999))
        logger.info(f"[DEBUG] Job {files.job_name} submitted with FAKE Job ID {job_id}")
        return job_id
    done = subprocess.run(["sbatch", str(files.script)], capture_output=True, text=True, check=False)
    if done.returncode:
        print(done.stderr.strip(), file=sys.stderr)
        raise OSError(done.stderr.strip())
    answer = done.stdout.strip()
    if not answer:
        return ""
    found = re.search(r"job ([0-9]+)", answer)
    if found is None:
        raise RuntimeError(f"no job id in the answer of sbatch: {answer!r}")
    logger.info(f"Job {files.job_name} submitted with Job ID {found[1]}")
    (files.folder / "launcher.log").write_text(f"Submitted batch job {found[1]}", encoding="utf-8")
    return found[1]
