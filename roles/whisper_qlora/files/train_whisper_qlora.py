# Copyright: (c) 2026, The dgxc.workloads developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Fine-tunes Whisper for speech recognition with LoRA on an 8-bit model, as section 4.3.7.2 of the guide describes.

One process of ``accelerate launch`` runs this once for each GPU. The data is a folder of parquet files whose names
begin with train and eval, with the columns input_features (log-mel spectrograms) and labels (token ids). The first
training file by name is used, so that all ranks and all runs use the same. What is left below ``--output`` is the
adapter, ``trainer_state.json`` and metrics.
"""

from __future__ import annotations

import argparse
import os
import sys
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

import torch
from accelerate import Accelerator, InitProcessGroupKwargs
from datasets import Dataset, load_dataset
from peft import LoraConfig, get_peft_model, prepare_model_for_kbit_training
from transformers import (
    BitsAndBytesConfig,
    Seq2SeqTrainer,
    Seq2SeqTrainingArguments,
    WhisperForConditionalGeneration,
    WhisperProcessor,
    set_seed,
)

COLUMNS = ("input_features", "labels")
# What the loss leaves out.
IGNORED = -100
# How long the other ranks wait for rank 0, which may have to fetch the model and to convert the data first.
PATIENCE = timedelta(hours=1)


def parse_arguments(arguments: list[str] | None = None) -> argparse.Namespace:
    """Read the command line. The defaults are the guide's values."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--model",
        default="openai/whisper-large-v2",
        help="pre-trained model: a name on the Hugging Face hub, or a local folder",
    )
    parser.add_argument("--revision", default="main", help="revision of the model on the hub")
    parser.add_argument("--data", type=Path, required=True, help="folder of train*.parquet and eval*.parquet")
    parser.add_argument("--output", type=Path, required=True, help="folder in which the adapter's own folder is made")
    parser.add_argument("--nodes", type=int, default=int(os.environ.get("SLURM_NNODES", "1")), help="for the name")
    parser.add_argument(
        "--gpus-per-node", type=int, default=int(os.environ.get("SLURM_GPUS_ON_NODE", "1")), help="for the name"
    )
    parser.add_argument("--language", default="bn")
    parser.add_argument(
        "--batch-size", type=int, default=8, help="examples for each device, in training and evaluation"
    )
    parser.add_argument("--epochs", type=int, default=1)
    parser.add_argument("--learning-rate", type=float, default=1e-5)
    parser.add_argument("--warmup-steps", type=int, default=50)
    parser.add_argument("--lora-rank", type=int, default=16)
    parser.add_argument("--lora-alpha", type=int, default=32)
    parser.add_argument("--lora-dropout", type=float, default=0.05)
    parser.add_argument("--logging-steps", type=int, default=10)
    parser.add_argument("--no-evaluation", action="store_true", help="leave out the evaluation after the training")
    parser.add_argument("--wer", action="store_true", help="transcribe in the evaluation and tell the word error rate")
    parser.add_argument("--no-8bit", action="store_true", help="load the model as it is, which needs no bitsandbytes")
    parser.add_argument("--seed", type=int, default=42)
    parser.add_argument("--cpu", action="store_true", help="train without a GPU, which knows no fp16 and no 8 bit")
    options = parser.parse_args(arguments)
    if options.cpu and not options.no_8bit:
        parser.error("8 bit needs a GPU: give --no-8bit with --cpu")
    return options


def find_files(data: Path, kind: str) -> list[str]:
    """Return the parquet files of a kind, sorted. Raises SystemExit when there is none."""
    files = sorted(str(path) for path in data.glob(f"{kind}*.parquet"))
    if not files:
        raise SystemExit(f"{data} has no {kind}*.parquet: give the folder of the unpacked data as --data")
    return files


def load(files: list[str]) -> Dataset:
    """Return the examples of parquet files. Raises SystemExit when a column is missing."""
    examples = load_dataset("parquet", data_files=files, split="train")
    missing = [column for column in COLUMNS if column not in examples.column_names]
    if missing:
        raise SystemExit(f"{files[0]} has no column {' and '.join(missing)}: it was not made for this training")
    return examples


@dataclass
class Collator:
    """Makes a batch of examples: spectrograms of one length, and labels filled up with what the loss leaves out."""

    processor: WhisperProcessor
    decoder_start_token_id: int

    def __call__(self, features: list[dict[str, Any]]) -> dict[str, torch.Tensor]:
        name = self.processor.model_input_names[0]
        batch = self.processor.feature_extractor.pad(
            [{name: feature[name]} for feature in features], return_tensors="pt"
        )
        padded = self.processor.tokenizer.pad(
            [{"input_ids": feature["labels"]} for feature in features], return_tensors="pt"
        )
        # By the mask, not by the token: Whisper fills up with its end-of-text token, which is to be learnt once.
        labels = padded["input_ids"].masked_fill(padded["attention_mask"].ne(1), IGNORED)
        # The model puts the first token in front by itself.
        for token in (self.processor.tokenizer.bos_token_id, self.decoder_start_token_id):
            if bool((labels[:, 0] == token).all()):
                labels = labels[:, 1:]
                break
        batch["labels"] = labels
        return batch


def make_inputs_require_grad(_module: torch.nn.Module, _inputs: Any, output: torch.Tensor) -> None:
    """Let gradients pass the frozen first layer, so that adapters behind checkpointed layers get theirs."""
    output.requires_grad_(True)


def make_model(options: argparse.Namespace, source: dict[str, str], device: int) -> torch.nn.Module:
    """Return the frozen model with LoRA adapters on the query and value projections."""
    eight_bit: dict[str, Any] = {}
    if not options.no_8bit:
        eight_bit = {
            "quantization_config": BitsAndBytesConfig(load_in_8bit=True),
            "device_map": {"": device},
        }
    model = WhisperForConditionalGeneration.from_pretrained(options.model, **source, **eight_bit)
    model = prepare_model_for_kbit_training(model)
    model.model.encoder.conv1.register_forward_hook(make_inputs_require_grad)
    return get_peft_model(
        model,
        LoraConfig(
            r=options.lora_rank,
            lora_alpha=options.lora_alpha,
            target_modules=["q_proj", "v_proj"],
            lora_dropout=options.lora_dropout,
            bias="none",
        ),
    )


def word_error_rate(processor: WhisperProcessor) -> Any:
    """Return the function that compares transcripts with what was said."""
    import jiwer

    def compute(prediction: Any) -> dict[str, float]:
        tokenizer = processor.tokenizer
        labels = prediction.label_ids
        labels[labels == IGNORED] = tokenizer.pad_token_id
        heard = tokenizer.batch_decode(prediction.predictions, skip_special_tokens=True)
        said = tokenizer.batch_decode(labels, skip_special_tokens=True)
        return {"wer": float(jiwer.wer(said, heard))}

    return compute


def say(line: str) -> None:
    """Print a line in one piece, so that it does not run into that of another rank."""
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


def main() -> None:
    """Train the adapters, save them, evaluate."""
    options = parse_arguments()
    set_seed(options.seed)
    accelerator = Accelerator(cpu=options.cpu, kwargs_handlers=[InitProcessGroupKwargs(timeout=PATIENCE)])
    say(f"Process ID: {accelerator.process_index} of {accelerator.num_processes}")

    train_files, eval_files = find_files(options.data, "train")[:1], find_files(options.data, "eval")
    # Rank 0 fills the caches of downloads and of converted data, in which the others then find both.
    with accelerator.main_process_first():
        source = {} if os.path.isdir(options.model) else {"revision": options.revision}
        processor = WhisperProcessor.from_pretrained(
            options.model, language=options.language, task="transcribe", **source
        )
        model = make_model(options, source, accelerator.local_process_index)
        training, evaluation = load(train_files), load(eval_files)
    if accelerator.is_main_process:
        say(f"Training file: {train_files[0]}")
        say(f"Training examples: {len(training)}")
        model.print_trainable_parameters()

    folder = f"{options.data.resolve().name}-{options.nodes}-n-{options.gpus_per_node}-g"
    trainer = Seq2SeqTrainer(
        args=Seq2SeqTrainingArguments(
            output_dir=str(options.output / "lora" / folder),
            report_to="none",
            per_device_train_batch_size=options.batch_size,
            per_device_eval_batch_size=options.batch_size,
            gradient_accumulation_steps=1,
            ddp_find_unused_parameters=False,
            learning_rate=options.learning_rate,
            warmup_steps=options.warmup_steps,
            num_train_epochs=options.epochs,
            # One evaluation at the end, below; one after every so many steps never came in an epoch this short.
            evaluation_strategy="no",
            predict_with_generate=options.wer,
            fp16=not options.cpu,
            use_cpu=options.cpu,
            gradient_checkpointing_kwargs={"use_reentrant": False},
            logging_steps=options.logging_steps,
            # Else a loss that is no number is logged as 0 or as the mean of those before it.
            logging_nan_inf_filter=False,
            seed=options.seed,
            # The adapted model's signature is not that of the model below it.
            remove_unused_columns=False,
            label_names=["labels"],
            # The first rank alone says how the training is set up.
            log_level="info",
            log_on_each_node=False,
        ),
        model=model,
        train_dataset=training,
        eval_dataset=evaluation,
        data_collator=Collator(processor, model.config.decoder_start_token_id),
        tokenizer=processor.feature_extractor,
        compute_metrics=word_error_rate(processor) if options.wer else None,
    )
    model.config.use_cache = False
    trainer.train()
    # Of a model with adapters, only these are saved.
    trainer.save_model()
    if not options.no_evaluation:
        results = trainer.evaluate()
        trainer.log_metrics("eval", results)
        trainer.save_metrics("eval", results)
    trainer.save_state()


if __name__ == "__main__":
    main()
