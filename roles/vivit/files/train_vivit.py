# Copyright: (c) 2026, The dgxc.workloads developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Fine-tunes ViViT for video classification, as section 4.3.6.2 of the guide describes.

One process of ``accelerate launch`` runs this once for each GPU. Rank 0 alone reads and augments the videos and hands
the batches to the others, because pytorchvideo's datasets can only be iterated. The data is a folder of
``train|val|test/<class>/<video>.avi``. What is left below ``--output`` is the guide's folder: model, checkpoints,
``trainer_state.json`` and metrics.
"""

from __future__ import annotations

import argparse
import os
import sys
from datetime import timedelta
from pathlib import Path
from typing import Any

import numpy as np
import torch
from accelerate import Accelerator, InitProcessGroupKwargs
from pytorchvideo.data import LabeledVideoDataset, Ucf101, make_clip_sampler
from pytorchvideo.transforms import (
    ApplyTransformToKey,
    Normalize,
    RandomShortSideScale,
    UniformTemporalSubsample,
)
from torchvision.transforms import Compose, Lambda, RandomCrop, RandomHorizontalFlip, Resize
from transformers import (
    Trainer,
    TrainingArguments,
    VivitForVideoClassification,
    VivitImageProcessor,
    set_seed,
)

SPLITS = ("train", "val", "test")
SUFFIX = ".avi"
# One clip is num_frames of the model at this rate, without leaving frames out.
FRAMES_PER_SECOND = 30
SAMPLE_RATE = 1
# How long the other ranks wait for rank 0, which may have to fetch the model first.
PATIENCE = timedelta(hours=1)


def parse_arguments(arguments: list[str] | None = None) -> argparse.Namespace:
    """Read the command line. The defaults are the guide's values."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--model",
        default="google/vivit-b-16x2-kinetics400",
        help="pre-trained model: a name on the Hugging Face hub, or a local folder",
    )
    parser.add_argument("--revision", default="main", help="revision of the model on the hub")
    parser.add_argument("--data", type=Path, required=True, help="folder with train, val and test")
    parser.add_argument("--output", type=Path, required=True, help="folder in which the model's own folder is made")
    parser.add_argument("--nodes", type=int, default=int(os.environ.get("SLURM_NNODES", "1")), help="for the name")
    parser.add_argument(
        "--gpus-per-node", type=int, default=int(os.environ.get("SLURM_GPUS_ON_NODE", "1")), help="for the name"
    )
    parser.add_argument("--batch-size", type=int, default=4, help="clips for each device, in training and evaluation")
    parser.add_argument("--max-steps", default="auto", help="steps of training; auto is (videos // batch size) x 2")
    parser.add_argument("--loader-workers", type=int, default=15, help="processes that read and augment videos")
    parser.add_argument("--loader-prefetch", type=int, default=64, help="batches that each of them prepares ahead")
    parser.add_argument("--learning-rate", type=float, default=5e-5)
    parser.add_argument("--warmup-ratio", type=float, default=0.1)
    parser.add_argument("--logging-steps", type=int, default=10)
    parser.add_argument("--save-total-limit", type=int, default=0, help="checkpoints that are kept; 0 is all of them")
    parser.add_argument("--seed", type=int, default=42)
    parser.add_argument("--cpu", action="store_true", help="train without a GPU")
    return parser.parse_args(arguments)


def find_videos(data: Path) -> dict[str, list[Path]]:
    """Return the videos of each split, sorted. Raises SystemExit when a split is empty."""
    videos = {split: sorted((data / split).glob(f"*/*{SUFFIX}")) for split in SPLITS}
    for split, paths in videos.items():
        if not paths:
            raise SystemExit(f"{data}/{split} has no */*{SUFFIX}: give the folder with train, val and test as --data")
    return videos


def find_classes(videos: dict[str, list[Path]]) -> list[str]:
    """Return the names of the classes, sorted, which are the names of the folders.

    A dataset numbers the classes of its own split, so a class that a split lacks would shift the labels there: raises
    SystemExit.
    """
    classes = {split: sorted({path.parent.name for path in paths}) for split, paths in videos.items()}
    for split, names in classes.items():
        if names != classes["train"]:
            different = sorted(set(names) ^ set(classes["train"]))
            raise SystemExit(f"{split} and train do not have the same classes ({', '.join(different)}): complete them")
    return classes["train"]


def count_steps(text: str, videos: int, batch_size: int) -> int:
    """Return the steps of training: a number, or twice as many as one device needs for all videos."""
    steps = (videos // batch_size) * 2 if text == "auto" else int(text)
    if steps < 1:
        raise SystemExit(f"{videos} videos make no step of {batch_size} clips: give more videos, or --max-steps")
    return steps


def new_model_name(model: str, nodes: int, gpus_per_node: int, batch_size: int) -> str:
    """Return the name of the guide's folder for the fine-tuned model."""
    base = model.rstrip("/").split("/")[-1]
    return f"{base}-finetuned-ucf101-subset-{nodes}-n-{gpus_per_node}-g-{batch_size}-b"


def to_unit(video: torch.Tensor) -> torch.Tensor:
    """Bring colours from 0..255 to 0..1."""
    return video / 255.0


def make_transforms(processor: VivitImageProcessor, frames: int) -> tuple[Compose, Compose]:
    """Return what is done to a clip in training, with augmentation, and in evaluation, without."""
    if "shortest_edge" in processor.size:
        height = width = processor.size["shortest_edge"]
    else:
        height, width = processor.size["height"], processor.size["width"]
    common = [
        UniformTemporalSubsample(frames),
        Lambda(to_unit),
        Normalize(processor.image_mean, processor.image_std),
    ]
    training = [
        *common,
        RandomShortSideScale(min_size=256, max_size=320),
        RandomCrop((height, width)),
        RandomHorizontalFlip(p=0.5),
    ]
    evaluation = [*common, Resize((height, width))]
    return tuple(
        Compose([ApplyTransformToKey(key="video", transform=Compose(steps))]) for steps in (training, evaluation)
    )


def make_datasets(data: Path, processor: VivitImageProcessor, frames: int) -> dict[str, LabeledVideoDataset]:
    """Return the dataset of each split: a random clip of a video in training, all clips one after the other else."""
    training, evaluation = make_transforms(processor, frames)
    duration = frames * SAMPLE_RATE / FRAMES_PER_SECOND
    return {
        split: Ucf101(
            data_path=str(data / split),
            clip_sampler=make_clip_sampler("random" if split == "train" else "uniform", duration),
            decode_audio=False,
            transform=training if split == "train" else evaluation,
        )
        for split in SPLITS
    }


def collate(examples: list[dict[str, Any]]) -> dict[str, torch.Tensor]:
    """Make a batch: (clips, frames, channels, height, width), as the model wants it, and the labels."""
    return {
        # The dataset gives (channels, frames, height, width).
        "pixel_values": torch.stack([example["video"].permute(1, 0, 2, 3) for example in examples]),
        "labels": torch.tensor([example["label"] for example in examples]),
    }


def compute_metrics(prediction: Any) -> dict[str, float]:
    """Return the accuracy: the part of the clips whose most likely class is the right one."""
    return {"accuracy": float(np.mean(np.argmax(prediction.predictions, axis=1) == prediction.label_ids))}


def say(line: str) -> None:
    """Print a line in one piece, so that it does not run into that of another rank."""
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


def main() -> None:
    """Train, save the model, evaluate it on the videos kept apart."""
    options = parse_arguments()
    # The new last layer is random, and made before the trainer sets its seed.
    set_seed(options.seed)
    accelerator = Accelerator(cpu=options.cpu, kwargs_handlers=[InitProcessGroupKwargs(timeout=PATIENCE)])
    say(f"Process ID: {accelerator.process_index} of {accelerator.num_processes}")
    say(f"Available GPU devices: {torch.cuda.device_count()}")

    videos = find_videos(options.data)
    classes = find_classes(videos)
    steps = count_steps(str(options.max_steps), len(videos["train"]), options.batch_size)
    if accelerator.is_main_process:
        say(f"Total videos: {sum(len(paths) for paths in videos.values())}")
        say(f"Training videos: {len(videos['train'])}")
        say(f"Unique classes: {classes}.")

    # Rank 0 fills the cache of downloads, in which the others then find the model.
    with accelerator.main_process_first():
        source = {} if os.path.isdir(options.model) else {"revision": options.revision}
        processor = VivitImageProcessor.from_pretrained(options.model, **source)
        model = VivitForVideoClassification.from_pretrained(
            options.model,
            label2id={name: number for number, name in enumerate(classes)},
            id2label=dict(enumerate(classes)),
            # The pre-trained model knows other classes, so its last layer does not fit and is made anew.
            ignore_mismatched_sizes=True,
            **source,
        )
    datasets = make_datasets(options.data, processor, model.config.num_frames)

    folder = new_model_name(options.model, options.nodes, options.gpus_per_node, options.batch_size)
    trainer = Trainer(
        model,
        TrainingArguments(
            str(options.output / folder),
            remove_unused_columns=False,
            evaluation_strategy="epoch",
            save_strategy="epoch",
            save_on_each_node=False,
            save_total_limit=options.save_total_limit or None,
            learning_rate=options.learning_rate,
            per_device_train_batch_size=options.batch_size,
            per_device_eval_batch_size=options.batch_size,
            warmup_ratio=options.warmup_ratio,
            logging_steps=options.logging_steps,
            # Else a loss that is no number is logged as 0 or as the mean of those before it.
            logging_nan_inf_filter=False,
            load_best_model_at_end=True,
            metric_for_best_model="accuracy",
            push_to_hub=False,
            report_to="none",
            dataloader_num_workers=options.loader_workers,
            dataloader_prefetch_factor=options.loader_prefetch if options.loader_workers else None,
            max_steps=steps,
            seed=options.seed,
            use_cpu=options.cpu,
            # The first rank alone says how the training is set up.
            log_level="info",
            log_on_each_node=False,
        ),
        train_dataset=datasets["train"],
        eval_dataset=datasets["val"],
        tokenizer=processor,
        compute_metrics=compute_metrics,
        data_collator=collate,
    )
    trainer.train()
    trainer.save_model()
    results = trainer.evaluate(datasets["test"])
    trainer.log_metrics("test", results)
    trainer.save_metrics("test", results)
    trainer.save_state()


if __name__ == "__main__":
    main()
