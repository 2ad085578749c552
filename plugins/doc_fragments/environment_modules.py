# Copyright: (c) 2026, The dgxc.workloads developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Shared documentation: which group of modules those belong to that load environment modules, and ask no Slurm."""

from __future__ import annotations


class ModuleDocFragment:
    """Fragment `dgxc.workloads.environment_modules`."""

    DOCUMENTATION = r"""
attributes:
  action_group:
    description: Use C(group/dgxc.workloads.environment_modules) in C(module_defaults) to set O(environment_modules).
    support: full
    membership:
      - dgxc.workloads.environment_modules
"""
