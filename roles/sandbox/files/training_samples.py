# Copyright: (c) 2026, The dgxc.workloads developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Let programs make small models and data, with the training libraries, and give them to the user.

    training_samples.py [--plan] < specification

The specification is JSON: environment (the virtual environment), programs (paths; each is called with one argument, the
folder to write into), target (the folder) and owner. A program that has not changed since it ran is not run again.
Prints what it did.

Before that it gives torchvision back the name of a module that PyPI's pytorchvideo 0.1.5 imports, and that torchvision
0.17 has taken away. The revision of pytorchvideo that the workload's image holds does not need it.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

OLD_NAME = "from torchvision.transforms._functional_tensor import *  # noqa: F403\n"


def alias(environment: Path, plan: bool) -> None:
    """Make the module of the old name."""
    for folder in environment.glob("lib/python3.*/site-packages/torchvision/transforms"):
        path = folder / "functional_tensor.py"
        if not path.exists():
            print(f"{path} {'would be ' if plan else ''}made")
            if not plan:
                path.write_text(OLD_NAME)


def make(program: Path, specification: dict, plan: bool) -> None:
    """Run one program into a folder beside the target, and move what it made into its place."""
    target = Path(specification["target"])
    digest = hashlib.sha256(program.read_bytes()).hexdigest()
    note = target / f".{program.stem}.sha256"
    if note.exists() and note.read_text().strip() == digest:
        return
    print(f"{program.name} {'would run' if plan else 'ran'}")
    if plan:
        return
    owner = specification["owner"]
    target.mkdir(exist_ok=True)
    shutil.chown(target, owner, owner)
    python = Path(specification["environment"]) / "bin" / "python"
    with tempfile.TemporaryDirectory(dir=target, prefix=".new-") as name:
        done = subprocess.run(
            [python, program, name], stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False
        )
        if done.returncode != 0:
            raise SystemExit(f"{program} answered {done.returncode}:\n{done.stderr[-2000:]}")
        for folder, _folders, files in os.walk(name):
            for child in (folder, *(os.path.join(folder, file) for file in files)):
                shutil.chown(child, owner, owner)
        for made in Path(name).iterdir():
            shutil.rmtree(target / made.name, ignore_errors=True)
            made.rename(target / made.name)
    note.write_text(f"{digest}\n")


def main() -> None:
    """Make what is not there."""
    specification = json.load(sys.stdin)
    plan = "--plan" in sys.argv[1:]
    alias(Path(specification["environment"]), plan)
    for program in specification["programs"]:
        if not Path(program).is_file():
            raise SystemExit(f"sandbox_training_samples names {program}, and there is no such file.")
        make(Path(program), specification, plan)


if __name__ == "__main__":
    main()
