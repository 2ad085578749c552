# Copyright: (c) 2026, The dgxc.workloads developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the Makefile calls."""

from __future__ import annotations

import os
import subprocess
import venv
from pathlib import Path

CHECKOUT = Path(__file__).resolve().parents[2]


def test_a_virtual_environment_is_not_made_from_the_active_one(tmp_path: Path) -> None:
    # `make` in an activated environment must neither remove the interpreter it runs on, nor make another environment.
    active = tmp_path / "active"
    venv.create(active, symlinks=True, with_pip=False)
    requirements = tmp_path / "requirements.txt"
    requirements.write_text("# nothing\n")
    environment = dict(os.environ, PATH=f"{active / 'bin'}:/usr/bin:/bin", PYTHON="")
    tool = str(CHECKOUT / "tests/tools/venv.sh")
    subprocess.run([tool, "made", "requirements.txt"], cwd=tmp_path, env=environment, check=True, timeout=120)
    interpreter = (tmp_path / "made/.stamp").read_text().splitlines()[1]
    assert Path(interpreter).exists()
    assert not interpreter.startswith(str(tmp_path)), "made from the active environment"
