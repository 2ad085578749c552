# Copyright: (c) 2026, The dgxc.workloads developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Run specs: what a Git repository says should have run, read with a place for every error.

This file is private to the collection. The JSON Schema that editors use is the one that is checked here, by the part of
JSON Schema that it needs. A spec that cannot be used becomes errors; the others are not touched by it.
"""

from __future__ import annotations

import difflib
import hashlib
import json
import os
import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import yaml

from ansible_collections.dgxc.workloads.plugins.module_utils._files import canonical_json

#: Fields that make the run; a change of any other one changes no script.
_CONTENT = ("name", "workload", "variables")
#: Suffixes of role variables that a spec says in fields of its own.
_FIELDS_OF_THEIR_OWN = ("resubmit", "max_attempts")
_TYPES: dict[str, tuple[str, type | tuple[type, ...]]] = {
    "object": ("a mapping", dict),
    "array": ("a list", list),
    "string": ("text", str),
    "boolean": ("true or false", bool),
    "integer": ("a whole number", int),
    "number": ("a number", (int, float)),
}


@dataclass(frozen=True)
class Problem:
    """What is wrong, and where: `line` counts from 1, `key` is a path such as `variables.nemo_gpt3_nodes`."""

    file: str
    line: int
    key: str
    message: str
    name: str = ""

    def as_json(self) -> dict[str, Any]:
        """The fields and the sentence that people read."""
        place = f"{self.file}:{self.line}"
        return dict(vars(self), text=f"{place}: {self.key}: {self.message}" if self.key else f"{place}: {self.message}")


@dataclass
class Specs:
    """What the files of a folder say.

    `complete` is false when a file could not be read, so that a name that is not here may yet be wanted.
    """

    specs: list[dict[str, Any]] = field(default_factory=list)
    problems: list[Problem] = field(default_factory=list)
    complete: bool = True

    @property
    def broken_names(self) -> list[str]:
        """The names of specs that have a problem, as far as a name could be read."""
        return sorted({problem.name for problem in self.problems if problem.name})


class _Loader(yaml.SafeLoader):
    """YAML as Ansible reads it, but without tags: a repository cannot bring vault texts or templates in."""


@dataclass
class _Node:
    """A value with the lines of its parts, by key path."""

    value: Any
    lines: dict[tuple[Any, ...], int]

    def line(self, path: tuple[Any, ...]) -> int:
        """The line of a path, or of the nearest part that contains it."""
        while path and path not in self.lines:
            path = path[:-1]
        return self.lines.get(path, 1)


def spec_files(folder: str) -> list[str]:
    """The YAML files below a folder, sorted; hidden ones are left out. Raises OSError when there is no such folder."""
    found: list[str] = []
    os.listdir(folder)
    for current, folders, names in os.walk(folder):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        found += [
            os.path.join(current, name)
            for name in names
            if name.endswith((".yml", ".yaml")) and not name.startswith(".")
        ]
    return sorted(found)


def read_specs(
    folder: str,
    schema: Mapping[str, Any],
    clusters: Sequence[str] | None = None,
    variables: Callable[[str], Collection[str] | None] = lambda workload: None,
) -> Specs:
    """Read and check every file of a folder.

    :param clusters: the names that the field of that name may hold.
    :param variables: the variables that a workload has; None where that is not known.
    """
    result = Specs()
    places: dict[str, list[tuple[dict[str, Any], int]]] = {}
    base = os.path.dirname(os.path.abspath(folder))
    for path in spec_files(folder):
        label = os.path.relpath(path, base)
        try:
            with open(path, encoding="utf-8") as stream:
                nodes = list(_documents(stream.read()))
        except (yaml.YAMLError, UnicodeDecodeError, RecursionError, ValueError, OSError) as error:
            result.complete = False
            result.problems.append(Problem(label, _error_line(error), "", "cannot be read: " + _error_text(error)))
            continue
        for node in nodes:
            _take(node, label, schema, clusters, variables, result, places)
    for name, entries in places.items():
        if len(entries) > 1:
            others = ", ".join("{}:{}".format(spec["file"], line) for spec, line in entries)
            for spec, line in entries:
                message = f"{name!r} is used more than once ({others}); give each spec a name of its own."
                result.problems.append(Problem(spec["file"], line, "name", message, name))
        elif name not in result.broken_names:
            result.specs.append(entries[0][0])
    result.specs.sort(key=lambda spec: str(spec["name"]))
    result.problems.sort(key=lambda problem: (problem.file, problem.line, problem.key))
    return result


def _take(
    node: _Node,
    label: str,
    schema: Mapping[str, Any],
    clusters: Sequence[str] | None,
    variables: Callable[[str], Collection[str] | None],
    result: Specs,
    places: dict[str, list[tuple[dict[str, Any], int]]],
) -> None:
    """Check the specs of one document and put them where they belong."""
    items = list(enumerate(node.value)) if isinstance(node.value, list) else [(None, node.value)]
    for index, value in items:
        start: tuple[Any, ...] = () if index is None else (index,)
        name = value.get("name") if isinstance(value, dict) else None
        known_name = name if isinstance(name, str) else ""
        found = list(check(value, schema["$defs"]["spec"]))
        found += list(_beyond_schema(value, clusters, variables)) if isinstance(value, dict) else []
        for path, message in found:
            key = ".".join(str(part) for part in path)
            result.problems.append(Problem(label, node.line((*start, *path)), key, message, known_name))
        if not known_name and found:
            # A spec whose name cannot be read may be any of those that are missing.
            result.complete = False
        if known_name:
            spec = {} if found else complete_spec(value, schema)
            spec.update(name=known_name, file=label, line=node.line(start))
            places.setdefault(known_name, []).append((spec, node.line((*start, "name"))))


def complete_spec(value: Mapping[str, Any], schema: Mapping[str, Any]) -> dict[str, Any]:
    """The spec with the defaults of the schema, and its digest."""
    spec = {
        name: value.get(name, about.get("default"))
        for name, about in schema["$defs"]["spec"]["properties"].items()
        if name in value or "default" in about
    }
    spec.setdefault("variables", {})
    spec["digest"] = digest({name: spec[name] for name in _CONTENT})
    return spec


def digest(value: Any) -> str:
    """SHA-256 over the canonical JSON: blanks, comments and the order of keys do not count."""
    return hashlib.sha256(canonical_json(value).encode("utf-8")).hexdigest()


# --- YAML with lines ---


def _documents(text: str) -> Iterator[_Node]:
    loader = _Loader(text)
    try:
        while loader.check_node():
            node = loader.get_node()
            lines: dict[tuple[Any, ...], int] = {}
            _note_lines(loader, node, (), lines)
            value = loader.construct_document(node)
            json.dumps(value)
            if value is not None:
                yield _Node(value, lines)
    except TypeError as error:
        raise ValueError(f"it holds what JSON has no word for ({error}); write dates and the like in quotes") from None
    finally:
        loader.dispose()


def _note_lines(loader: _Loader, node: Any, path: tuple[Any, ...], lines: dict[tuple[Any, ...], int]) -> None:
    lines.setdefault(path, node.start_mark.line + 1)
    if isinstance(node, yaml.MappingNode):
        seen = set()
        for key, value in node.value:
            name = key.value
            if name in seen:
                raise yaml.constructor.ConstructorError(None, None, f"the key {name!r} is given twice", key.start_mark)
            seen.add(name)
            lines[(*path, name)] = key.start_mark.line + 1
            _note_lines(loader, value, (*path, name), lines)
    elif isinstance(node, yaml.SequenceNode):
        for index, value in enumerate(node.value):
            _note_lines(loader, value, (*path, index), lines)


def _error_line(error: Exception) -> int:
    mark = getattr(error, "problem_mark", None) or getattr(error, "context_mark", None)
    return int(mark.line) + 1 if mark is not None else 1


def _error_text(error: Exception) -> str:
    if isinstance(error, OSError):
        return str(error.strerror or error)
    return str(getattr(error, "problem", None) or str(error).splitlines()[0])


# --- JSON Schema ---


def check(value: Any, schema: Mapping[str, Any], path: tuple[Any, ...] = ()) -> Iterator[tuple[tuple[Any, ...], str]]:
    """What is wrong with a value, as (path, sentence): the part of JSON Schema that the schema of run specs uses."""
    wanted = schema.get("type")
    if wanted and not _is(value, wanted):
        yield path, f"is {_shown(value)}; give {_TYPES[wanted][0]}."
        return
    if "enum" in schema and value not in schema["enum"]:
        words = [str(word) for word in schema["enum"]]
        near = difflib.get_close_matches(str(value), words, n=1)
        hint = f" Did you mean {near[0]}?" if near else ""
        yield path, f"is {_shown(value)}; give one of {', '.join(words)}.{hint}"
    if "pattern" in schema and not re.search(schema["pattern"], value):
        yield path, f"is {_shown(value)}; it must match {schema['pattern']}."
    yield from _check_number(value, schema, path)
    if isinstance(value, list):
        if len(value) < schema.get("minItems", 0):
            yield path, "is empty; name at least one, or leave the key out."
        for index, item in enumerate(value):
            yield from check(item, schema.get("items", {}), (*path, index))
    if isinstance(value, dict):
        yield from _check_mapping(value, schema, path)


def _check_number(
    value: Any, schema: Mapping[str, Any], path: tuple[Any, ...]
) -> Iterator[tuple[tuple[Any, ...], str]]:
    if "minimum" in schema and value < schema["minimum"]:
        yield path, f"is {_shown(value)}; the least is {schema['minimum']}."
    if "exclusiveMinimum" in schema and value <= schema["exclusiveMinimum"]:
        yield path, f"is {_shown(value)}; it must be more than {schema['exclusiveMinimum']}."
    if "maximum" in schema and value > schema["maximum"]:
        yield path, f"is {_shown(value)}; the most is {schema['maximum']}."


def _check_mapping(
    value: Mapping[Any, Any], schema: Mapping[str, Any], path: tuple[Any, ...]
) -> Iterator[tuple[tuple[Any, ...], str]]:
    known = schema.get("properties", {})
    for name in schema.get("required", []):
        if name not in value:
            yield path, f"has no {name}; add one."
    for name, item in value.items():
        if name in known:
            yield from check(item, known[name], (*path, name))
        elif schema.get("additionalProperties") is False:
            near = difflib.get_close_matches(str(name), known, n=1)
            yield (*path, name), f"is not a key of a spec; {'write ' + near[0] if near else 'take it out'}."


def _is(value: Any, wanted: str) -> bool:
    if isinstance(value, bool):
        return wanted == "boolean"
    return isinstance(value, _TYPES[wanted][1])


def _shown(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "..."


def _nearest(name: str, workload: str, known: Collection[str]) -> str:
    """What to write instead of an unknown variable. The prefix is the same in all names, so it makes none alike."""
    prefix = f"{workload}_"
    ends = [other[len(prefix) :] for other in known if other.startswith(prefix)]
    ends = [end for end in ends if end not in _FIELDS_OF_THEIR_OWN]
    near = difflib.get_close_matches(name[len(prefix) :], ends, n=1)
    return f"write {prefix}{near[0]}" if near else "take it out, or look into the README of that role"


def _beyond_schema(
    spec: Mapping[str, Any],
    clusters: Sequence[str] | None,
    known_variables: Callable[[str], Collection[str] | None],
) -> Iterator[tuple[tuple[Any, ...], str]]:
    """What one spec can have wrong that is not said by its properties alone."""
    workload, variables = spec.get("workload"), spec.get("variables")
    if isinstance(variables, dict) and isinstance(workload, str):
        for name in variables:
            if not str(name).startswith(f"{workload}_"):
                yield ("variables", name), f"is not a variable of {workload}; its variables begin with {workload}_."
            elif str(name)[len(workload) + 1 :] in _FIELDS_OF_THEIR_OWN:
                own = str(name)[len(workload) + 1 :]
                yield ("variables", name), f"is a field of the spec; write {own} beside variables."
            elif (known := known_variables(workload)) is not None and name not in known:
                yield ("variables", name), f"is not a variable of {workload}; {_nearest(str(name), workload, known)}."
    names = spec.get("clusters")
    if clusters is not None and isinstance(names, list):
        for index, name in enumerate(names):
            if isinstance(name, str) and name not in clusters:
                near = difflib.get_close_matches(name, clusters, n=1)
                yield (
                    ("clusters", index),
                    f"{name!r} is no host or group of the inventory; "
                    f"{'write ' + near[0] if near else 'add it to the inventory, or take it out'}.",
                )
