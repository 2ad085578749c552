# Copyright: (c) 2026, The dgxc.workloads developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Makes what the Whisper workload needs, small: sounds as parquet files and a random model with its own tokenizer.

Runs with the Python that has the training libraries: ``python make_whisper.py FOLDER [--examples 64]`` makes
``FOLDER/bengali-ai-asr-10k`` (train files of which only the first by name is to be used, and eval files, as in the real
data set) and ``FOLDER/whisper-tiny-random``.

The task can be learnt: each of a few tones has a transcript of its own, of different lengths.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import torch
from transformers import (
    WhisperConfig,
    WhisperFeatureExtractor,
    WhisperForConditionalGeneration,
    WhisperProcessor,
    WhisperTokenizer,
)
from transformers.models.gpt2.tokenization_gpt2 import bytes_to_unicode
from transformers.models.whisper.tokenization_whisper import LANGUAGES

SECONDS, RATE = 1, 16000
WORDS = {300: "a", 700: "bcd", 1500: "efghij", 3100: "kl"}


def make_tokenizer(folder: Path) -> WhisperTokenizer:
    """Save a tokenizer of single bytes, with Whisper's special tokens in Whisper's order."""
    folder.mkdir(parents=True, exist_ok=True)
    vocabulary = {letter: number for number, letter in enumerate(bytes_to_unicode().values())}
    special = [
        "<|endoftext|>",
        "<|startoftranscript|>",
        *(f"<|{language}|>" for language in LANGUAGES),
        "<|translate|>",
        "<|transcribe|>",
        "<|startoflm|>",
        "<|startofprev|>",
        "<|nospeech|>",
        "<|notimestamps|>",
    ]
    vocabulary.update({token: len(vocabulary) + number for number, token in enumerate(special)})
    (folder / "vocab.json").write_text(json.dumps(vocabulary))
    (folder / "merges.txt").write_text("#version: 0.2\n")
    return WhisperTokenizer(
        str(folder / "vocab.json"),
        str(folder / "merges.txt"),
        pad_token="<|endoftext|>",
        additional_special_tokens=special[1:],
        language="bn",
        task="transcribe",
    )


def make_model(folder: Path) -> WhisperProcessor:
    """Save a random model, its tokenizer and its feature extractor."""
    torch.manual_seed(1)
    tokenizer = make_tokenizer(folder)
    extractor = WhisperFeatureExtractor(feature_size=80, chunk_length=SECONDS, sampling_rate=RATE)
    first = tokenizer.convert_tokens_to_ids("<|startoftranscript|>")
    end = tokenizer.eos_token_id
    config = WhisperConfig(
        vocab_size=len(tokenizer),
        num_mel_bins=80,
        d_model=32,
        encoder_layers=1,
        decoder_layers=1,
        encoder_attention_heads=2,
        decoder_attention_heads=2,
        encoder_ffn_dim=64,
        decoder_ffn_dim=64,
        max_source_positions=50 * SECONDS,
        max_target_positions=32,
        decoder_start_token_id=first,
        bos_token_id=end,
        eos_token_id=end,
        pad_token_id=end,
        init_std=0.3,
        begin_suppress_tokens=None,
        suppress_tokens=None,
    )
    model = WhisperForConditionalGeneration(config)
    model.generation_config.max_length = 24
    model.save_pretrained(folder)
    processor = WhisperProcessor(extractor, tokenizer)
    processor.save_pretrained(folder)
    return processor


def make_examples(path: Path, processor: WhisperProcessor, count: int, seed: int) -> None:
    """Write tones with noise, as spectrograms, with the tokens of their transcripts."""
    generator = np.random.default_rng(seed)
    moments = np.arange(SECONDS * RATE) / RATE
    features, labels = [], []
    for number in range(count):
        tone, word = list(WORDS.items())[number % len(WORDS)]
        sound = 0.5 * np.sin(2 * np.pi * tone * moments) + generator.normal(0, 0.02, moments.size)
        features.append(processor.feature_extractor(sound, sampling_rate=RATE).input_features[0].tolist())
        labels.append(processor.tokenizer(word).input_ids)
    table = pa.table(
        {
            "input_features": pa.array(features, pa.list_(pa.list_(pa.float32()))),
            "labels": pa.array(labels, pa.list_(pa.int64())),
        }
    )
    pq.write_table(table, path)


def main() -> None:
    """Make sounds and model."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--examples", type=int, default=100, help="examples of the first training file")
    options = parser.parse_args()
    processor = make_model(options.folder / "whisper-tiny-random")
    data = options.folder / "bengali-ai-asr-10k"
    data.mkdir(parents=True, exist_ok=True)
    # The later file has another number of examples, so a run that takes it is found out.
    make_examples(data / "train_1.parquet", processor, options.examples // 2 + 3, 2)
    make_examples(data / "train_0.parquet", processor, options.examples, 1)
    make_examples(data / "eval_0.parquet", processor, 16, 3)


if __name__ == "__main__":
    main()
