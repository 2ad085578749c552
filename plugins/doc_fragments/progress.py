# Copyright: (c) 2026, The dgxc.workloads developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Shared documentation: how a module that takes minutes says how far it is."""

from __future__ import annotations


class ModuleDocFragment:
    """Fragment `dgxc.workloads.progress`."""

    DOCUMENTATION = r"""
options:
  progress_path:
    description:
      - A file on the same host in which the module keeps one line that says how far it is, and which it removes at its
        end. None if empty.
      - The action plugin of the module's name chooses one, reads it when the module takes longer than ten seconds, and
        prints the line from time to time. Nobody needs to set this.
    type: str
    default: ""
"""
