# Copyright: (c) 2026, The dgxc.workloads developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Data, tokenizer and model of the small ALMA."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from datasets import Dataset, concatenate_datasets, load_dataset
from peft import LoraConfig, get_peft_model
from transformers import AutoConfig, AutoModelForCausalLM, AutoTokenizer

from utils.examples import tokenised


def load_split(split: str, data_args: Any, training_args: Any, tokenizer: Any, name: str) -> Dataset | None:
    """Return the tokenised examples of all directions, one for each line and direction; None without a file.

    A training file that is missing is passed over with a warning, as in the real program.
    """
    directions = set(data_args.language_pairs.split(","))
    parts = []
    for language in sorted({code for pair in directions for code in pair.split("-")} - {"en"}):
        path = os.path.join(data_args.mmt_data_path, f"{language}en", f"{split}.{language}-en.json")
        if not os.path.isfile(path):
            print(f"Warning: {path} does not exist!")
            continue
        lines = load_dataset("json", data_files={split: path})[split]
        if split == "train" and data_args.max_train_samples is not None:
            lines = lines.select(range(min(len(lines), data_args.max_train_samples)))
        with training_args.main_process_first(desc=f"tokenising {path}"):
            parts.append(
                lines.map(
                    lambda batch: tokenised(batch["translation"], directions, tokenizer, data_args),
                    batched=True,
                    remove_columns=["translation"],
                    cache_file_name=f"{os.environ['HF_DATASETS_CACHE']}/{name}-{split}-{language}-en",
                    load_from_cache_file=not data_args.overwrite_cache,
                )
            )
    return concatenate_datasets(parts).shuffle(seed=training_args.seed) if parts else None


def load_tokenizer(folder: str) -> Any:
    """Return the tokenizer, which takes every byte for a token and so needs no vocabulary."""
    return AutoTokenizer.from_pretrained(folder, padding_side="left", use_fast=False)


def load_model(model_args: Any) -> Any:
    """Return the model; a folder without weights gives random ones, the same in every process with the same seed."""
    folder = Path(model_args.model_name_or_path)
    config = AutoConfig.from_pretrained(folder)
    if any(folder.glob("*.safetensors")) or any(folder.glob("*.bin")):
        model = AutoModelForCausalLM.from_pretrained(folder, config=config)
    else:
        model = AutoModelForCausalLM.from_config(config)
    if model_args.use_peft:
        model = get_peft_model(
            model,
            LoraConfig(
                r=model_args.lora_rank,
                lora_alpha=model_args.lora_rank * 2,
                target_modules=["down_proj"],
                lora_dropout=0.05,
                bias="none",
                task_type="CAUSAL_LM",
            ),
        )
        model.print_trainable_parameters()
    return model
