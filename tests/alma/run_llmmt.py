# Copyright: (c) 2026, The dgxc.workloads developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Trains a translation adapter for a language model. The small ALMA: the command line and the log are the real one's.

Without a GPU it trains on the processor.
"""

from __future__ import annotations

import logging
import sys

import datasets
import transformers
from transformers import HfArgumentParser, Seq2SeqTrainingArguments, default_data_collator, set_seed
from utils.arguments import DataTrainingArguments, ModelArguments
from utils.processor import let_deepspeed_use_the_processor
from utils.trainer_llmmt import LlmmtTrainer
from utils.utils import load_model, load_split, load_tokenizer

logger = logging.getLogger(__name__)


def main() -> None:
    """Train as the arguments say."""
    let_deepspeed_use_the_processor()
    parser = HfArgumentParser((ModelArguments, DataTrainingArguments, Seq2SeqTrainingArguments))
    model_args, data_args, training_args = parser.parse_args_into_dataclasses()

    logging.basicConfig(
        format="%(asctime)s - %(levelname)s - %(name)s - %(message)s",
        datefmt="%m/%d/%Y %H:%M:%S",
        handlers=[logging.StreamHandler(sys.stdout)],
    )
    if training_args.should_log:
        transformers.utils.logging.set_verbosity_info()
    level = training_args.get_process_log_level()
    logger.setLevel(level)
    datasets.utils.logging.set_verbosity(level)
    transformers.utils.logging.set_verbosity(level)
    transformers.utils.logging.enable_default_handler()
    transformers.utils.logging.enable_explicit_format()
    logger.warning("Process rank: %d, device: %s", training_args.local_rank, training_args.device)

    set_seed(training_args.seed)
    tokenizer = load_tokenizer(model_args.model_name_or_path)
    name = model_args.model_name_or_path.rstrip("/").rpartition("/")[2]
    model = load_model(model_args)
    trainer = LlmmtTrainer(
        model=model,
        args=training_args,
        train_dataset=load_split("train", data_args, training_args, tokenizer, name),
        eval_dataset=load_split("valid", data_args, training_args, tokenizer, name) if training_args.do_eval else None,
        tokenizer=tokenizer,
        data_collator=default_data_collator,
    )
    if training_args.do_train:
        trainer.train(resume_from_checkpoint=training_args.resume_from_checkpoint)
        trainer.save_state()
        if model_args.use_peft:
            model.save_pretrained(training_args.output_dir)
        else:
            trainer.save_model()


if __name__ == "__main__":
    main()
