# Copyright: (c) 2026, The dgxc.workloads developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What DeepSpeed needs on a machine without a GPU. On others nothing is done."""

from __future__ import annotations

import os

import torch


def let_deepspeed_use_the_processor() -> None:
    """Let a DeepSpeed that is newer than ALMA's pin train on the processor.

    The pin, 0.11.1, does not work there. Newer ones would compile an operator for ranks that share memory, for which
    a container has no compiler, and have a no_sync() that accelerate 0.29 calls between optimizer steps and that
    refuses ZeRO stage 2. Before they had it, accelerate went on without.
    """
    if torch.cuda.is_available() or os.environ.get("ACCELERATE_USE_DEEPSPEED") != "true":
        return
    import deepspeed  # it takes seconds, and only one of two cases needs it

    deepspeed.ops.__compatible_ops__["deepspeed_shm_comm"] = False
    if hasattr(deepspeed.DeepSpeedEngine, "no_sync"):
        del deepspeed.DeepSpeedEngine.no_sync
