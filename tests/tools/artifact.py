# Copyright: (c) 2026, The dgxc.workloads developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Builds the collection's tarball from this checkout and installs it, as a user would, without a Galaxy server."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

CHECKOUT = Path(__file__).resolve().parents[2]
NAMESPACE = "dgxc"
NAME = "workloads"


def environment(collections: Path | None = None) -> dict[str, str]:
    """Return the environment of a user who has nothing but the installed collections (a path), or none at all.

    The checkout's ansible.cfg, which leads to the checkout's own collection, is kept out of it.
    """
    kept = {name: value for name, value in os.environ.items() if not name.startswith("ANSIBLE_")}
    kept["PATH"] = os.pathsep.join([str(Path(sys.executable).parent), kept.get("PATH", os.defpath)])
    kept["LC_ALL"] = "C.UTF-8"
    if collections is not None:
        kept["ANSIBLE_COLLECTIONS_PATH"] = str(collections)
    return kept


def run(
    *command: str, cwd: Path, collections: Path | None = None, check: bool = True
) -> subprocess.CompletedProcess[str]:
    """Run a command in a folder and return its result; a failure shows what the command printed."""
    done = subprocess.run(
        command,
        cwd=cwd,
        env=environment(collections),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    if check and done.returncode != 0:
        raise RuntimeError(f"{' '.join(command)} ended with {done.returncode}:\n{done.stdout}{done.stderr}")
    return done


def build(target: Path) -> Path:
    """Build the tarball into a folder and return its path."""
    run("ansible-galaxy", "collection", "build", "--force", "--output-path", str(target), str(CHECKOUT), cwd=target)
    (tarball,) = target.glob(f"{NAMESPACE}-{NAME}-*.tar.gz")
    return tarball


def install(tarball: Path, collections: Path) -> Path:
    """Install the tarball below a folder of collections and return the installed collection's own folder."""
    collections.mkdir(parents=True, exist_ok=True)
    run(
        "ansible-galaxy",
        "collection",
        "install",
        "--offline",
        "--no-deps",
        "--collections-path",
        str(collections),
        str(tarball),
        cwd=collections,
        collections=collections,
    )
    return collections / "ansible_collections" / NAMESPACE / NAME
