# Copyright: (c) 2026, The dgxc.workloads developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The numbers: mock tokens, a small next-token model with its true gradient, and the learning rate."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from .config import Settings

Floats = NDArray[np.float32]
Ints = NDArray[np.int64]

VOCABULARY = 128
WIDTH = 16
# A sample of the real training has 2048 tokens. Two are enough to learn from, since a batch has hundreds of samples,
# and a step of all ranks then costs a few milliseconds on two cores.
TOKENS_PER_SAMPLE = 2
# One token in so many does not follow the rule below.
NOISE = 0.1
INIT_STD = 0.5
# The configured rates are for Adam and billions of parameters; plain gradient descent on this model wants more.
RATE_SCALE = 3e4
# Samples of the validation data have numbers from here on, which the training never reaches.
VALIDATION = 1 << 40


def _mix(numbers: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Random bits for each number, always the same ones (the splitmix64 finaliser)."""
    numbers = (numbers ^ (numbers >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    numbers = (numbers ^ (numbers >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return numbers ^ (numbers >> np.uint64(31))


def tokens(seed: int, start: int, stop: int) -> tuple[Ints, Ints]:
    """Mock tokens number ``start`` up to ``stop``, and the token after each.

    They depend on nothing but the seed and their number: a resumed training, or one on another number of ranks, goes
    through the same data. Nine in ten follow a fixed rule, so the loss has something to fall to.
    """
    count = np.arange(start, stop, dtype=np.uint64) + np.uint64(1)
    bits = _mix(count * np.uint64(0x9E3779B97F4A7C15) + np.uint64(seed))
    now = (bits & np.uint64(VOCABULARY - 1)).astype(np.int64)
    dice = (bits >> np.uint64(40)).astype(np.float64) / (1 << 24)
    noise = ((bits >> np.uint64(8)) & np.uint64(VOCABULARY - 1)).astype(np.int64)
    return now, np.where(dice < NOISE, noise, (now * 5 + 7) % VOCABULARY)


class NextToken:
    """Logits are ``embedding[token] @ output``. All parameters are views into one vector, ``weights``."""

    def __init__(self, seed: int) -> None:
        generator = np.random.default_rng(seed)
        self.weights: Floats = generator.normal(0, INIT_STD, 2 * VOCABULARY * WIDTH).astype(np.float32)
        half = VOCABULARY * WIDTH
        self._embedding = self.weights[:half].reshape(VOCABULARY, WIDTH)
        self._output = self.weights[half:].reshape(WIDTH, VOCABULARY)

    def _forward(self, now: Ints, after: Ints) -> tuple[float, Floats, Floats]:
        hidden = self._embedding[now]
        logits = hidden @ self._output
        logits -= logits.max(axis=1, keepdims=True)
        chance = np.exp(logits)
        total = chance.sum(axis=1, keepdims=True)
        rows = np.arange(len(now))
        loss = float((np.log(total[:, 0]) - logits[rows, after]).sum(dtype=np.float64))
        chance /= total
        return loss, hidden, chance

    def loss(self, now: Ints, after: Ints) -> float:
        """The sum of the tokens' losses, in nats."""
        return self._forward(now, after)[0]

    def gradient(self, now: Ints, after: Ints, out: Floats) -> float:
        """The sum of the tokens' losses; ``out``, shaped as ``weights``, gets the sum of their gradients."""
        loss, hidden, chance = self._forward(now, after)
        rows = np.arange(len(now))
        chance[rows, after] -= 1
        half = VOCABULARY * WIDTH
        which = np.zeros((len(now), VOCABULARY), np.float32)
        which[rows, now] = 1
        np.matmul(which.T, chance @ self._output.T, out=out[:half].reshape(VOCABULARY, WIDTH))
        np.matmul(hidden.T, chance, out=out[half:].reshape(WIDTH, VOCABULARY))
        return loss

    def step(self, gradient: Floats, rate: float, clip: float) -> None:
        """One step down ``gradient``, whose norm is limited to ``clip`` unless that is 0."""
        if clip > 0:
            norm = float(np.sqrt(np.dot(gradient, gradient)))
            if norm > clip:
                gradient = gradient * np.float32(clip / norm)
        self.weights -= np.float32(rate * RATE_SCALE) * gradient


def learning_rate(settings: Settings, step: int) -> float:
    """The rate of step ``step``, counted from 0: a linear warm-up, then half a cosine down to the smallest rate."""
    top, low = settings.learning_rate, settings.min_learning_rate
    if step < settings.warmup_steps:
        return top * (step + 1) / (settings.warmup_steps + 1)
    span = max(1, settings.max_steps - settings.warmup_steps - settings.constant_steps)
    part = min(1.0, (step - settings.warmup_steps) / span)
    return low + (top - low) * 0.5 * (1 + math.cos(math.pi * part))
