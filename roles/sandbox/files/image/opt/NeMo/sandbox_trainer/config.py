# Copyright: (c) 2026, The dgxc.workloads developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The resolved Hydra configuration, overrides on the command line, and what has to hold between its values."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import yaml


class MisconfigurationException(Exception):
    """A setting that cannot be trained with. Named as in Lightning, whose log readers may know it."""


class _Loader(getattr(yaml, "CSafeLoader", yaml.SafeLoader)):
    """YAML as OmegaConf reads it: ``1e-4`` is a number, and ``10:00:00:00`` is not (no sexagesimal integers)."""

    yaml_implicit_resolvers: ClassVar = {
        first: [(tag, pattern) for tag, pattern in resolvers if not tag.endswith((":int", ":float", ":timestamp"))]
        for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
    }


_Loader.add_implicit_resolver("tag:yaml.org,2002:int", re.compile(r"^[-+]?\d+$"), list("-+0123456789"))
_Loader.add_implicit_resolver(
    "tag:yaml.org,2002:float",
    re.compile(r"^[-+]?((\d+\.\d*|\.\d+)([eE][-+]?\d+)?|\d+[eE][-+]?\d+|\.(inf|Inf|INF)|\.(nan|NaN|NAN))$"),
    list("-+.0123456789"),
)


def _float(loader: Any, node: Any) -> float:
    """A float, also in the forms that YAML 1.1 does not know."""
    text = str(loader.construct_scalar(node)).lower()
    return float(text.replace(".inf", "inf").replace(".nan", "nan"))


_Loader.add_constructor("tag:yaml.org,2002:float", _float)


class Config:
    """A tree of settings, addressed as ``trainer.max_steps``."""

    def __init__(self, tree: dict[str, Any]) -> None:
        self.tree = tree

    def get(self, path: str, default: Any = None) -> Any:
        """The value at ``path``; ``default`` if it, or a part on the way to it, is missing or null."""
        node: Any = self.tree
        for part in path.split("."):
            if not isinstance(node, dict) or node.get(part) is None:
                return default
            node = node[part]
        return node

    def integer(self, path: str, default: int | None = None, minimum: int = 1) -> int:
        """A whole number of at least ``minimum``.

        :raises MisconfigurationException: for anything else, and when it is missing without a default
        """
        value = self.get(path, default)
        if isinstance(value, bool) or not isinstance(value, int) or value < minimum:
            raise MisconfigurationException(f"{path} is {value!r}; it has to be a whole number of at least {minimum}.")
        return value

    def number(self, path: str, default: float) -> float:
        """A number.

        :raises MisconfigurationException: for anything else
        """
        value = self.get(path, default)
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            raise MisconfigurationException(f"{path} is {value!r}; it has to be a number.")
        return float(value)

    def override(self, text: str) -> None:
        """Apply one override in Hydra's grammar: ``key=value``, ``+key=value``, ``++key=value`` or ``~key``.

        :raises MisconfigurationException: for a text of another form, a plain key that does not exist, and a new one
            that does
        """
        match = re.fullmatch(r"(?P<how>\+{0,2}|~)(?P<path>[\w.]+)(=(?P<value>.*))?", text, re.DOTALL)
        if match is None or (match["value"] is None) != (match["how"] == "~"):
            raise MisconfigurationException(f"Cannot read the override {text!r}; it has to be like key=value.")
        how, (*parents, last) = match["how"], match["path"].split(".")
        node = self.tree
        for part in parents:
            below = node.setdefault(part, {}) if how in ("+", "++") else node.get(part)
            if not isinstance(below, dict):
                raise MisconfigurationException(f"Could not override {match['path']!r}: there is no {part!r}.")
            node = below
        if how in ("", "~") and last not in node:
            raise MisconfigurationException(
                f"Could not override {match['path']!r}. Key {last!r} is not in struct. To append to your config use "
                f"+{text}"
            )
        if how == "+" and last in node:
            raise MisconfigurationException(f"Could not append {match['path']!r}: it is there; use ++{text[1:]}")
        if how == "~":
            del node[last]
        else:
            node[last] = yaml.load(match["value"], Loader=_Loader)


def read(arguments: Sequence[str]) -> tuple[Config, list[str]]:
    """The configuration that the command line names, with its overrides applied; and those overrides.

    :raises MisconfigurationException: when the file is not named, not there, or no mapping
    """
    options: dict[str, str] = {}
    overrides: list[str] = []
    waiting: str | None = None
    for argument in arguments:
        if waiting is not None:
            options[waiting], waiting = argument, None
        elif argument.startswith("--"):
            name, equals, value = argument[2:].partition("=")
            if equals:
                options[name] = value
            else:
                waiting = name
        else:
            overrides.append(argument)
    unknown = sorted(set(options) - {"config-path", "config-name"}) or ([waiting] if waiting else [])
    if unknown or len(options) < 2:
        raise MisconfigurationException("usage: megatron_gpt_pretraining.py --config-path=DIR --config-name=FILE [k=v]")
    path = Path(options["config-path"], options["config-name"])
    if not path.exists() and path.suffix != ".yaml":
        path = path.with_name(f"{path.name}.yaml")
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise MisconfigurationException(f"Cannot find primary config {str(path)!r}: {error.strerror}.") from error
    tree = yaml.load(text, Loader=_Loader)
    if not isinstance(tree, dict):
        raise MisconfigurationException(f"The config {str(path)!r} is no mapping.")
    config = Config(tree)
    for override in overrides:
        config.override(override)
    return config, overrides


def seconds(path: str, text: object) -> float | None:
    """A duration ``DD:HH:MM:SS`` in seconds; None for none.

    :raises MisconfigurationException: for anything else, as Lightning's Timer does
    """
    if text is None:
        return None
    match = re.fullmatch(r"(\d+):(\d\d):(\d\d):(\d\d)", str(text).strip())
    if match is None:
        raise MisconfigurationException(f"{path} is {text!r}, not a duration; expected DD:HH:MM:SS format.")
    days, hours, minutes, rest = map(int, match.groups())
    return float(((days * 24 + hours) * 60 + minutes) * 60 + rest)


@dataclass(frozen=True)
class Settings:
    """What the training needs to know, in steps, samples and seconds."""

    num_nodes: int
    devices: int
    max_steps: int
    max_time: float | None
    val_check_interval: int
    limit_val_batches: int
    sanity_val_batches: int
    gradient_clip: float
    global_batch: int
    tensor_parallel: int
    pipeline_parallel: int
    context_parallel: int
    learning_rate: float
    min_learning_rate: float
    warmup_steps: int
    constant_steps: int
    seed: int
    train_batches: int
    timing_window: int

    @property
    def world_size(self) -> int:
        """How many ranks the configuration asks for."""
        return self.num_nodes * self.devices

    @property
    def model_parallel(self) -> int:
        """How many ranks share one copy of the model."""
        return self.tensor_parallel * self.pipeline_parallel * self.context_parallel

    @property
    def data_parallel(self) -> int:
        """How many copies of the model there are."""
        return self.world_size // self.model_parallel


def settings(config: Config) -> Settings:
    """The settings of ``config``, checked against each other.

    :raises MisconfigurationException: for a single setting that is wrong or that this trainer does not have
    :raises AssertionError, RuntimeError, ValueError: for settings that do not fit together, as Megatron does
    """
    data_impl = config.get("model.data.data_impl")
    if data_impl != "mock":
        raise MisconfigurationException(
            f"model.data.data_impl is {data_impl!r}, but there is no data in the sandbox; set it to mock."
        )
    if config.get("model.rampup_batch_size") is not None:
        raise MisconfigurationException("model.rampup_batch_size is not supported in the sandbox; set it to null.")
    nodes, devices = config.integer("trainer.num_nodes", 1), config.integer("trainer.devices", 1)
    world = nodes * devices
    tensor = config.integer("model.tensor_model_parallel_size", 1)
    pipeline = config.integer("model.pipeline_model_parallel_size", 1)
    context = config.integer("model.context_parallel_size", 1)
    if world % (tensor * pipeline * context):
        raise RuntimeError(
            f"world_size ({world}) is not divisible by tensor_model_parallel_size ({tensor}) x "
            f"pipeline_model_parallel_size ({pipeline}) x context_parallel_size ({context})"
        )
    batch, micro = config.integer("model.global_batch_size"), config.integer("model.micro_batch_size")
    replicas = world // (tensor * pipeline * context)
    if batch % (micro * replicas):
        raise AssertionError(
            f"global batch size ({batch}) is not divisible by micro batch size ({micro})"
            f" times data parallel size ({replicas})"
        )
    max_steps = config.integer("trainer.max_steps")
    samples = -(-max_steps * batch * 1005 // 1000)  # half a percent more, rounded up
    train_batches = samples // batch
    limit = _val_batches(config)
    interval = _val_interval(config, train_batches)
    if limit and interval > train_batches:
        raise ValueError(
            f"`val_check_interval` ({interval}) must be less than or equal to the number of the training batches "
            f"({train_batches}). If you want to disable validation set `limit_val_batches` to 0.0 instead."
        )
    rate = config.number("model.optim.lr", 1e-4)
    return Settings(
        num_nodes=nodes,
        devices=devices,
        max_steps=max_steps,
        max_time=seconds("trainer.max_time", config.get("trainer.max_time")),
        val_check_interval=interval,
        limit_val_batches=limit,
        sanity_val_batches=min(limit, config.integer("trainer.num_sanity_val_steps", 2, minimum=0)),
        gradient_clip=config.number("trainer.gradient_clip_val", 0.0),
        global_batch=batch,
        tensor_parallel=tensor,
        pipeline_parallel=pipeline,
        context_parallel=context,
        learning_rate=rate,
        min_learning_rate=config.number("model.optim.sched.min_lr", 0.0 if config.get("model.optim.sched") else rate),
        warmup_steps=config.integer("model.optim.sched.warmup_steps", 0, minimum=0),
        constant_steps=config.integer("model.optim.sched.constant_steps", 0, minimum=0),
        seed=config.integer("model.seed", 1234, minimum=0),
        train_batches=train_batches,
        timing_window=config.integer("exp_manager.step_timing_kwargs.buffer_size", 1),
    )


def _val_batches(config: Config) -> int:
    """How many batches a validation has. A fraction is one of the fifty that the mock validation data has."""
    limit = config.get("trainer.limit_val_batches", 1.0)
    if isinstance(limit, bool) or not isinstance(limit, (int, float)) or limit < 0:
        raise MisconfigurationException(f"trainer.limit_val_batches is {limit!r}; it has to be a number of batches.")
    return limit if isinstance(limit, int) else int(min(limit, 1.0) * 50)


def _val_interval(config: Config, train_batches: int) -> int:
    """After how many steps to validate. A fraction is one of the batches of an epoch."""
    interval = config.get("trainer.val_check_interval", 1.0)
    if isinstance(interval, float) and 0 < interval <= 1:
        return max(1, int(train_batches * interval))
    return config.integer("trainer.val_check_interval")
