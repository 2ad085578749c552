# Copyright: (c) 2026, The dgxc.workloads developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Argument specs that several modules share, the twins of the documentation fragments.

This file is private to the collection.
"""

from __future__ import annotations

from typing import Any


def slurm_spec() -> dict[str, Any]:
    """How Slurm's commands are found: the twin of the fragment `slurm`."""
    return {
        "slurm_bin_dir": {"type": "path"},
        "environment_modules": {"type": "list", "elements": "str", "default": []},
    }


def limits_spec() -> dict[str, Any]:
    """How long a verdict waits for certainty: the twin of the fragment `limits`."""
    return {
        "grace": {"type": "float", "default": 120.0},
        "completing_grace": {"type": "float", "default": 300.0},
        "accounting_timeout": {"type": "float", "default": 1800.0},
        "fail_on_step_failure": {"type": "bool", "default": True},
    }


def progress_spec() -> dict[str, Any]:
    """Where a module says how far it is: the twin of the fragment `progress`."""
    return {"progress_path": {"type": "str", "default": ""}}
