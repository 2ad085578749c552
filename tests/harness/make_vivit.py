# Copyright: (c) 2026, The dgxc.workloads developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Makes what the ViViT workload needs, small: videos in the layout of UCF101 and a random model of a few kilobytes.

Runs with the Python that has the training libraries: ``python make_vivit.py FOLDER [--videos 24] [--classes 3]``
makes ``FOLDER/UCF101_subset`` and ``FOLDER/vivit-b-16x2-kinetics400``.

The task can be learnt: each class is a colour, under noise. A model that gets the clips of one class with the labels of
another, or whose channels are mixed up between training and evaluation, does not learn it.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import av
import numpy as np
import torch
from transformers import VivitConfig, VivitForVideoClassification, VivitImageProcessor

CLASSES = {"Blue": (40, 60, 200), "Green": (50, 190, 60), "Red": (200, 50, 40), "Yellow": (200, 190, 40)}
FRAMES, SIZE = 8, 32


def write_video(path: Path, colour: tuple[int, int, int], generator: np.random.Generator) -> None:
    """Write half a second of one colour, with noise and a square that moves."""
    with av.open(str(path), "w") as container:
        stream = container.add_stream("mpeg4", rate=30)
        stream.width, stream.height, stream.pix_fmt = 64, 48, "yuv420p"
        start = int(generator.integers(0, 30))
        for number in range(16):
            picture = np.full((48, 64, 3), colour, float) + generator.normal(0, 25, (48, 64, 3))
            picture[10:20, (start + number) % 54 : (start + number) % 54 + 10] = 128
            frame = av.VideoFrame.from_ndarray(picture.clip(0, 255).astype(np.uint8), format="rgb24")
            container.mux(stream.encode(frame))
        container.mux(stream.encode())


def make_videos(root: Path, counts: dict[str, int], classes: int) -> None:
    """Write as many videos for each split as told, spread over the classes."""
    generator = np.random.default_rng(1)
    names = list(CLASSES)[:classes]
    for split, count in counts.items():
        for number in range(count):
            name = names[number % classes]
            folder = root / split / name
            folder.mkdir(parents=True, exist_ok=True)
            write_video(folder / f"v_{name}_g{number:02d}_c01.avi", CLASSES[name], generator)


def make_model(folder: Path) -> None:
    """Save a random model that was trained for other classes, as the pre-trained one was."""
    torch.manual_seed(1)
    config = VivitConfig(
        image_size=SIZE,
        num_frames=FRAMES,
        tubelet_size=[2, 16, 16],
        hidden_size=32,
        num_hidden_layers=1,
        num_attention_heads=2,
        intermediate_size=64,
        num_labels=7,
    )
    VivitForVideoClassification(config).save_pretrained(folder)
    VivitImageProcessor(size={"shortest_edge": SIZE}, crop_size={"height": SIZE, "width": SIZE}).save_pretrained(folder)


def main() -> None:
    """Make videos and model."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--videos", type=int, default=24, help="videos for training")
    parser.add_argument("--classes", type=int, default=3, choices=range(2, 5))
    options = parser.parse_args()
    make_videos(options.folder / "UCF101_subset", {"train": options.videos, "val": 6, "test": 6}, options.classes)
    make_model(options.folder / "vivit-b-16x2-kinetics400")


if __name__ == "__main__":
    main()
