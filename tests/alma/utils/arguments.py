# Copyright: (c) 2026, The dgxc.workloads developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the program is told beside the arguments of transformers' own trainer."""

from __future__ import annotations

# ruff: noqa: UP045 - HfArgumentParser of transformers 4.30 reads Optional and not "X | None"
from dataclasses import dataclass, field
from typing import Optional


@dataclass
class ModelArguments:
    """Which model is trained, and how."""

    model_name_or_path: Optional[str] = field(default=None, metadata={"help": "A folder with config.json."})
    low_cpu_mem_usage: bool = field(default=False, metadata={"help": "Taken, and without effect on a tiny model."})
    use_peft: bool = field(default=False, metadata={"help": "Train an adapter (LoRA) instead of the whole model."})
    lora_rank: int = field(default=16, metadata={"help": "The adapter's rank."})


@dataclass
class DataTrainingArguments:
    """What it is trained on."""

    language_pairs: str = field(default="", metadata={"help": "Directions, such as zh-en,en-zh."})
    mmt_data_path: Optional[str] = field(default=None, metadata={"help": "The folder of the languages' folders."})
    max_train_samples: Optional[int] = field(default=None, metadata={"help": "Lines taken of each training file."})
    overwrite_cache: bool = field(default=False, metadata={"help": "Tokenise again what was tokenised before."})
    ignore_pad_token_for_loss: bool = field(default=True, metadata={"help": "Leave padding out of the loss."})
    ignore_prompt_token_for_loss: bool = field(default=False, metadata={"help": "Leave the prompt out of the loss."})
    max_source_length: int = field(default=256, metadata={"help": "The most tokens of a prompt."})
    max_new_tokens: int = field(default=256, metadata={"help": "The most tokens of a translation."})
    num_beams: int = field(default=5, metadata={"help": "Taken; beams serve predictions, which are not made here."})
