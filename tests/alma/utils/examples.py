# Copyright: (c) 2026, The dgxc.workloads developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""From sentences in two languages to the numbers that a language model learns from."""

from __future__ import annotations

from typing import Any

LANGUAGES = {"cs": "Czech", "de": "German", "en": "English", "is": "Icelandic", "ru": "Russian", "zh": "Chinese"}
# What the loss passes over.
IGNORED = -100


def tokenised(examples: list[dict[str, str]], directions: set[str], tokenizer: Any, data_args: Any) -> dict[str, Any]:
    """Return prompts with their translations as tokens, padded on the left to one length."""
    length = data_args.max_source_length + data_args.max_new_tokens
    rows: dict[str, list[list[int]]] = {"input_ids": [], "attention_mask": [], "labels": []}
    for example in examples:
        first, second = example
        for source, target in ((first, second), (second, first)):
            if f"{source}-{target}" not in directions:
                continue
            prompt = (
                f"Translate this from {LANGUAGES[source]} to {LANGUAGES[target]}:\n"
                f"{LANGUAGES[source]}: {example[source]}\n{LANGUAGES[target]}:"
            )
            begin = tokenizer(prompt, add_special_tokens=False).input_ids[: data_args.max_source_length]
            whole = [*begin, *tokenizer(example[target], add_special_tokens=False).input_ids][: length - 1]
            whole.append(tokenizer.eos_token_id)
            hidden = len(begin) if data_args.ignore_prompt_token_for_loss else 0
            padding = length - len(whole)
            pad_label = IGNORED if data_args.ignore_pad_token_for_loss else tokenizer.pad_token_id
            rows["input_ids"].append([tokenizer.pad_token_id] * padding + whole)
            rows["attention_mask"].append([0] * padding + [1] * len(whole))
            rows["labels"].append([pad_label] * padding + [IGNORED] * hidden + whole[hidden:])
    return rows
