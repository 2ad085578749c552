# Copyright: (c) 2026, The dgxc.workloads developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Shared documentation: how Slurm's commands are found."""

from __future__ import annotations


class ModuleDocFragment:
    """Fragment `dgxc.workloads.slurm`."""

    DOCUMENTATION = r"""
options:
  slurm_bin_dir:
    description:
      - Folder of Slurm's commands on the login node, where they are neither on C(PATH) nor brought by a module.
      - Beats O(environment_modules).
    type: path
  environment_modules:
    description:
      - Environment modules to load in a login shell so that Slurm's commands are found, for instance V(slurm).
      - When empty, C(sbatch) is looked for on C(PATH) and then on the C(PATH) of a login shell.
    type: list
    elements: str
    default: []
attributes:
  action_group:
    description:
      - Use C(group/dgxc.workloads.slurm) in C(module_defaults) to set O(slurm_bin_dir) and O(environment_modules), or
        C(group/dgxc.workloads.environment_modules) for O(environment_modules) alone.
    support: full
    membership:
      - dgxc.workloads.slurm
      - dgxc.workloads.environment_modules
"""
