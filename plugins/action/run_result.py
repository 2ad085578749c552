# Copyright: (c) 2026, The dgxc.workloads developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Run the module of this name, and say when that takes long; see the documentation beside the module."""

from __future__ import annotations

from ansible_collections.dgxc.workloads.plugins.plugin_utils._long_step import LongStep


class ActionModule(LongStep):
    """`dgxc.workloads.run_result`."""

    HAS_LINE = False
