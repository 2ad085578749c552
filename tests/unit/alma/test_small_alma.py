# Copyright: (c) 2026, The dgxc.workloads developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The small ALMA is laid out as the real one, takes what the role passes, and learns what it should.

That it trains is seen on the sandbox. Its libraries are not needed here.
"""

from __future__ import annotations

import ast
import importlib.util
import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from ansible_collections.dgxc.workloads.plugins.module_utils._alma_settings import trainable_parameters
from ansible_collections.dgxc.workloads.plugins.module_utils._dataset_info import DataFile, look

ALMA = Path(__file__).resolve().parents[2] / "alma"
if not ALMA.is_dir():
    pytest.skip("needs tests/alma", allow_module_level=True)

# What the document passes that is not an argument of ALMA itself but of transformers' Seq2SeqTrainingArguments.
TRAINER = """bf16 ddp_timeout do_eval do_train eval_steps evaluation_strategy fp16 gradient_accumulation_steps learning_rate
    load_best_model_at_end logging_steps logging_strategy lr_scheduler_type num_train_epochs output_dir
    overwrite_output_dir per_device_eval_batch_size per_device_train_batch_size predict_with_generate
    prediction_loss_only report_to save_steps save_strategy save_total_limit seed warmup_ratio weight_decay"""
# The same of ALMA itself.
OWN = """ignore_pad_token_for_loss ignore_prompt_token_for_loss language_pairs lora_rank low_cpu_mem_usage max_new_tokens
    max_source_length mmt_data_path model_name_or_path num_beams overwrite_cache use_peft"""


def fields(name: str) -> set[str]:
    """The fields of all dataclasses of a file."""
    classes = [node for node in ast.parse((ALMA / name).read_text()).body if isinstance(node, ast.ClassDef)]
    return {item.target.id for one in classes for item in one.body
            if isinstance(item, ast.AnnAssign) and isinstance(item.target, ast.Name)}  # fmt: skip


def load(name: str) -> Any:
    specification = importlib.util.spec_from_file_location("small_alma", ALMA / name)
    assert specification
    assert specification.loader
    module = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(module)
    return module


EXAMPLES = load("utils/examples.py")


class Bytes:
    """A tokenizer that takes every byte for a token, as that of the tiny model."""

    eos_token_id, pad_token_id = 1, 0

    def __call__(self, text: str, add_special_tokens: bool) -> SimpleNamespace:
        assert not add_special_tokens
        return SimpleNamespace(input_ids=[byte + 3 for byte in text.encode()])


def arguments(**changes: Any) -> SimpleNamespace:
    usual = {"max_source_length": 100, "max_new_tokens": 20, "ignore_pad_token_for_loss": True,
             "ignore_prompt_token_for_loss": True}  # fmt: skip
    return SimpleNamespace(**{**usual, **changes})


def tokenised(directions: set[str], **changes: Any) -> dict[str, list[list[int]]]:
    return EXAMPLES.tokenised([{"zh": "一", "en": "one"}], directions, Bytes(), arguments(**changes))


def test_it_takes_every_argument_of_the_document() -> None:
    own, trainer = set(OWN.split()), set(TRAINER.split())
    assert len(own | trainer - {"bf16"}) == 38
    assert fields("utils/arguments.py") >= own
    # One that is in both would be refused by the parser.
    assert fields("utils/arguments.py") & trainer == set()


@pytest.mark.parametrize("path", sorted(ALMA.glob("human_written_data/*/*.json")), ids=lambda path: path.name)
def test_its_data_is_whole_and_named_as_the_real_one_s(path: Path) -> None:
    split, pair, _ending = path.name.split(".")
    language, english = pair.split("-")
    assert split in ("train", "valid")
    assert english == "en"
    assert path.parent.name == f"{language}en"
    facts = look(DataFile(str(path), keys=[f"translation.{language}", "translation.en"]), rehearsal=False)
    assert facts.message == ""


def test_its_model_has_the_size_that_the_scenarios_expect() -> None:
    config = json.loads((ALMA / "tiny-llama" / "config.json").read_text())
    sizes = (config["num_hidden_layers"], config["hidden_size"], config["intermediate_size"])
    assert trainable_parameters(*sizes, 4) == 1280
    tokenizer = json.loads((ALMA / "tiny-llama" / "tokenizer_config.json").read_text())
    # Three special tokens, one for each byte, and the spare ones.
    assert config["vocab_size"] == 3 + 256 + tokenizer["extra_ids"]


def test_a_line_is_an_example_of_each_direction() -> None:
    assert len(tokenised({"zh-en"})["input_ids"]) == 1
    assert len(tokenised({"zh-en", "en-zh"})["input_ids"]) == 2
    assert tokenised({"de-en"})["input_ids"] == []


def test_only_the_translation_is_learnt() -> None:
    rows = tokenised({"zh-en"})
    (tokens,), (mask,), (labels,) = rows["input_ids"], rows["attention_mask"], rows["labels"]
    assert len(tokens) == len(mask) == len(labels) == 120
    answer = [byte + 3 for byte in b"one"] + [1]
    assert tokens[-4:] == answer
    assert labels == [-100] * 116 + answer
    assert mask == [0] * (120 - sum(mask)) + [1] * sum(mask)
    prompt = "Translate this from Chinese to English:\nChinese: 一\nEnglish:"
    assert bytes(token - 3 for token in tokens[-sum(mask) : -4]).decode() == prompt


def test_prompt_and_padding_can_be_learnt_as_well() -> None:
    (labels,) = tokenised({"zh-en"}, ignore_pad_token_for_loss=False, ignore_prompt_token_for_loss=False)["labels"]
    assert labels == tokenised({"zh-en"})["input_ids"][0]


def test_what_is_too_long_is_cut_and_still_ends() -> None:
    (tokens,) = tokenised({"zh-en"}, max_source_length=5, max_new_tokens=3)["input_ids"]
    assert len(tokens) == 8
    assert tokens[-1] == 1
