# Copyright: (c) 2026, The dgxc.workloads developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Shared documentation: how long a verdict on a job waits for certainty."""

from __future__ import annotations


class ModuleDocFragment:
    """Fragment `dgxc.workloads.limits`."""

    DOCUMENTATION = r"""
options:
  grace:
    description:
      - Seconds for which the queue must positively not list a job before a state that may be followed by a requeue
        (V(PREEMPTED), V(NODE_FAIL), V(BOOT_FAIL), V(REQUEUED)), or the lack of any record, is believed.
    type: float
    default: 120.0
  completing_grace:
    description:
      - Seconds for which an epilog may keep a job in V(COMPLETING) after the accounting has recorded its end.
    type: float
    default: 300.0
  accounting_timeout:
    description:
      - Seconds for which the accounting may fail to answer, or go on saying V(RUNNING), for a job that has left the
        queue.
      - After that the outcome is V(unknown), which is never a success.
    type: float
    default: 1800.0
  fail_on_step_failure:
    description:
      - Whether a failed step makes a job fail that ended as V(COMPLETED) with exit code 0:0.
    type: bool
    default: true
"""
