# Copyright: (c) 2026, The dgxc.workloads developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The trainer."""

from __future__ import annotations

from typing import Any

from transformers import Seq2SeqTrainer


class LlmmtTrainer(Seq2SeqTrainer):
    """The trainer of transformers, for an adapter."""

    def create_optimizer(self) -> Any:
        """Leave out the group of parameters without weight decay, which is empty: an adapter has weights only.

        DeepSpeed drops it behind the back of the learning rate's scheduler, which PyTorch from 2.10 on refuses.
        """
        optimizer = super().create_optimizer()
        optimizer.param_groups[:] = [group for group in optimizer.param_groups if group["params"]]
        return optimizer
