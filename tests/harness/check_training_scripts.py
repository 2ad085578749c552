# Copyright: (c) 2026, The dgxc.workloads developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Takes the training scripts' parts one by one: batches, labels, metrics, adapters.

Runs with the Python that has the training libraries: ``python check_training_scripts.py vivit|whisper FOLDER``, where
FOLDER has what make_vivit.py or make_whisper.py makes. Ends with 0 if all is right, else with the first traceback.
"""

from __future__ import annotations

import argparse
import importlib.util
import sys
import tempfile
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import torch

CHECKOUT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(CHECKOUT / "collections"))


def load(role: str, name: str):
    """Import a shipped script."""
    spec = importlib.util.spec_from_file_location(name, CHECKOUT / "roles" / role / "files" / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


def refuses(words: str, function, *arguments) -> None:
    """See that a function ends the program with these words."""
    said = None
    try:
        function(*arguments)
    except SystemExit as end:
        said = str(end)
    assert said is not None, f"{function.__name__} did not refuse"
    assert words in said, said


# --- ViViT ---


def vivit_batches(script, folder: Path) -> None:
    clips = [torch.rand(3, 8, 5, 6) for _number in range(2)]
    batch = script.collate([{"video": clip, "label": label} for clip, label in zip(clips, (2, 0), strict=True)])
    assert batch["labels"].tolist() == [2, 0]
    assert batch["pixel_values"].shape == (2, 8, 3, 5, 6)
    for number, clip in enumerate(clips):
        for frame in range(8):
            assert torch.equal(batch["pixel_values"][number, frame], clip[:, frame])


def vivit_accuracy(script, folder: Path) -> None:
    generator = np.random.default_rng(1)
    logits, labels = generator.normal(size=(97, 5)), generator.integers(0, 5, 97)
    told = script.compute_metrics(SimpleNamespace(predictions=logits, label_ids=labels))
    right = sum(max(range(5), key=list(row).__getitem__) == label for row, label in zip(logits, labels, strict=True))
    # What the library "evaluate" computes, without the program that it would fetch.
    assert told == {"accuracy": right / 97}


def vivit_names(script, folder: Path) -> None:
    videos = script.find_videos(folder / "UCF101_subset")
    assert {split: len(paths) for split, paths in videos.items()} == {"train": 21, "val": 6, "test": 6}
    assert script.find_classes(videos) == ["Blue", "Green", "Red"]
    refuses("do not have the same classes (Red)", script.find_classes, {
        **videos, "val": [path for path in videos["val"] if path.parent.name != "Red"],
    })  # fmt: skip
    with tempfile.TemporaryDirectory() as empty:
        refuses("has no */*.avi", script.find_videos, Path(empty))
    assert script.new_model_name("google/vivit-b-16x2-kinetics400", 2, 8, 4) == (
        "vivit-b-16x2-kinetics400-finetuned-ucf101-subset-2-n-8-g-4-b"
    )
    assert (script.count_steps("auto", 300, 4), script.count_steps("7", 300, 4)) == (150, 7)
    refuses("make no step", script.count_steps, "auto", 3, 4)


def vivit_labels(script, folder: Path) -> None:
    """The number that the dataset gives a class is the one that the model's configuration gives it."""
    from transformers import VivitImageProcessor

    processor = VivitImageProcessor.from_pretrained(folder / "vivit-b-16x2-kinetics400")
    datasets = script.make_datasets(folder / "UCF101_subset", processor, 8)
    classes = script.find_classes(script.find_videos(folder / "UCF101_subset"))
    assert datasets["train"].num_videos == 21
    for split in ("train", "val"):
        seen = set()
        for example in datasets[split]:
            assert example["video"].shape == (3, 8, 32, 32)
            name = example["video_name"].split("_")[1]
            assert classes[example["label"]] == name
            # The colour is still that of the class: neither are channels mixed up nor pixels scaled away.
            if name in ("Blue", "Green", "Red"):
                assert int(example["video"].mean(dim=(1, 2, 3)).argmax()) == ("Red", "Green", "Blue").index(name)
            seen.add(name)
        assert seen == set(classes)


def vivit_passes(script, folder: Path) -> None:
    """Batches of one pass, counted by going through the real loader, against what the role expects."""
    from pytorchvideo.data.utils import MultiProcessSampler

    from ansible_collections.dgxc.workloads.plugins.module_utils._vivit_settings import loader_batches

    class Videos(torch.utils.data.IterableDataset):
        def __init__(self, count: int) -> None:
            self.sampler = torch.utils.data.SequentialSampler(range(count))

        def __iter__(self):
            return iter(MultiProcessSampler(self.sampler))

    for count, workers in ((300, 1), (300, 2), (300, 8), (300, 15), (21, 4), (21, 0), (3, 5)):
        loader = torch.utils.data.DataLoader(Videos(count), batch_size=4, num_workers=workers)
        batches = [batch.tolist() for batch in loader]
        assert sorted(number for batch in batches for number in batch) == list(range(count))
        assert len(batches) == loader_batches(count, workers, 4), (count, workers, len(batches))


# --- Whisper ---


def options(script, folder: Path):
    return script.parse_arguments(
        ["--model", str(folder / "whisper-tiny-random"), "--data", "x", "--output", "x", "--cpu", "--no-8bit"]
    )


def whisper_batches(script, folder: Path) -> None:
    from transformers import WhisperProcessor

    processor = WhisperProcessor.from_pretrained(folder / "whisper-tiny-random", language="bn", task="transcribe")
    tokenizer = processor.tokenizer
    start = tokenizer.convert_tokens_to_ids("<|startoftranscript|>")
    examples = script.load(script.find_files(folder / "bengali-ai-asr-10k", "train")[:1]).select(range(4))
    lengths = [len(labels) for labels in examples["labels"]]
    assert len(set(lengths)) > 1
    assert all(labels[0] == start and labels[-1] == tokenizer.eos_token_id for labels in examples["labels"])
    batch = script.Collator(processor, start)(list(examples))
    assert batch["input_features"].shape == (4, 80, 100)
    # The start is cut, every other token is learnt, the end once although it fills up as well, and nothing else.
    assert batch["labels"].shape == (4, max(lengths) - 1)
    for row, labels in zip(batch["labels"].tolist(), examples["labels"], strict=True):
        assert row == labels[1:] + [-100] * (max(lengths) - len(labels))
    # Labels that begin with the text stay whole.
    other = script.Collator(processor, start)([{**example, "labels": [5, 6]} for example in examples])
    assert other["labels"].tolist() == [[5, 6]] * 4


def whisper_files(script, folder: Path) -> None:
    files = script.find_files(folder / "bengali-ai-asr-10k", "train")
    assert [Path(path).name for path in files] == ["train_0.parquet", "train_1.parquet"]
    with tempfile.TemporaryDirectory() as empty:
        refuses("has no eval*.parquet", script.find_files, Path(empty), "eval")


def whisper_adapters(script, folder: Path) -> None:
    """Adapters are on query and value projections only, all of them learn, and nothing else does."""
    model = script.make_model(options(script, folder), {}, 0)
    trained = {name for name, weight in model.named_parameters() if weight.requires_grad}
    places = {name.split(".lora_")[0] for name in trained}
    assert all(place.endswith(("q_proj", "v_proj")) for place in places), places
    # One attention of the encoder, two of the decoder, two projections of each.
    assert len(places) == 6
    assert len(trained) == 12
    assert sum(weight.numel() for weight in model.parameters() if weight.requires_grad) == 6 * 2 * 32 * 16
    labels = torch.tensor([[5, 6, 7]])
    model(input_features=torch.randn(1, 80, 100), labels=labels).loss.backward()
    for name, weight in model.named_parameters():
        # A starts at random and B at nothing, so in the first step only B has gradients.
        assert (weight.grad is not None and bool(weight.grad.abs().sum() > 0)) == ("lora_B" in name), name


def whisper_errors(script, folder: Path) -> None:
    from transformers import WhisperProcessor

    processor = WhisperProcessor.from_pretrained(folder / "whisper-tiny-random", language="bn", task="transcribe")
    said = [processor.tokenizer(text).input_ids for text in ("one two", "six")]
    width = max(map(len, said))
    labels = np.array([tokens + [-100] * (width - len(tokens)) for tokens in said])
    heard = np.array([processor.tokenizer(text).input_ids for text in ("one two", "ten six")])
    told = script.word_error_rate(processor)(SimpleNamespace(predictions=heard, label_ids=labels))
    # One word too many, of three.
    assert abs(told["wer"] - 1 / 3) < 1e-9, told


def whisper_switches(script, folder: Path) -> None:
    # The sentence is argparse's, on standard error; the code that it ends with is 2.
    refuses("2", script.parse_arguments, ["--data", "x", "--output", "x", "--cpu"])
    assert script.parse_arguments(["--data", "x", "--output", "x"]).model == "openai/whisper-large-v2"


SCRIPTS = {"vivit": ("vivit", "train_vivit"), "whisper": ("whisper_qlora", "train_whisper_qlora")}


def main() -> None:
    """Take all parts of one script."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("script", choices=SCRIPTS)
    parser.add_argument("folder", type=Path)
    arguments = parser.parse_args()
    script = load(*SCRIPTS[arguments.script])
    for name, check in list(globals().items()):
        if name.startswith(f"{arguments.script}_"):
            print(name, flush=True)
            check(script, arguments.folder)


if __name__ == "__main__":
    main()
