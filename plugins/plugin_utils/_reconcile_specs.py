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
import math
import os
import re
import stat
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import yaml

from ansible_collections.dgxc.workloads.plugins.module_utils._files import canonical_json

#: Fields that make the run; a change of any other one changes no script.
_CONTENT = ("name", "workload", "variables")
#: Suffixes of role variables that a spec says in fields of its own.
_FIELDS_OF_THEIR_OWN = ("resubmit", "max_attempts")
#: What a file of specs may hold at the most: bytes, and values once its aliases are written out.
_FILE_LIMIT = 1 << 20
_MOST_VALUES = 100_000
#: The largest number of bits of a whole number; more is neither a count nor a seed.
_MOST_BITS = 64
_TEXT_TAG = "tag:yaml.org,2002:str"
_MERGE_TAG = "tag:yaml.org,2002:merge"
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

    `complete` is false when a file or a name could not be read, so that a name that is not here may yet be wanted.
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


def spec_files(folder: str) -> tuple[list[str], list[tuple[str, str]]]:
    """The YAML files below a folder, sorted, and (path, sentence) for what may hold some but cannot be looked into.

    Hidden names are left out. Raises OSError when there is no such folder.
    """
    found: list[str] = []
    blind: list[tuple[str, str]] = []

    def note(error: OSError) -> None:
        blind.append((os.fspath(error.filename or folder), f"cannot be read: {error.strerror or error}."))

    os.listdir(folder)
    for current, folders, names in os.walk(folder, onerror=note):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        # Git knows no empty folders.
        if not folders and not names and not os.path.samefile(current, folder):
            message = "is empty, as a submodule is that was not fetched; fetch it, or take the folder out."
            blind.append((current, message))
        for name in list(folders):
            path = os.path.join(current, name)
            if os.path.islink(path):
                folders.remove(name)
                blind.append((path, "is a link to a folder, which is not followed; put the folder itself here."))
        for name in sorted(name for name in names if not name.startswith(".")):
            path = os.path.join(current, name)
            if name.endswith((".yml", ".yaml")):
                found.append(path)
            elif os.path.islink(path) and not os.path.exists(path):
                blind.append((path, "is a link that leads nowhere; mend it, or take it out."))
    return sorted(found), sorted(blind)


def read_specs(
    folder: str,
    schema: Mapping[str, Any],
    clusters: Sequence[str] | None = None,
    variables: Callable[[str], Collection[str] | None] = lambda workload: None,
) -> Specs:
    """Read and check every file of a folder. Whatever is in a file, it harms no other one.

    :param clusters: the names that the field of that name may hold.
    :param variables: the variables that a workload has; None where that is not known.
    """
    result = Specs()
    places: dict[str, list[tuple[dict[str, Any], int]]] = {}
    base = os.path.dirname(os.path.abspath(folder))
    files, blind = spec_files(folder)
    for path, message in blind:
        result.complete = False
        result.problems.append(Problem(_label(path, base), 1, "", message))
    for path in files:
        label = _label(path, base)
        read = _File(label)
        try:
            for node in _documents(_text_of(path)):
                _take(node, schema, clusters, variables, read)
        except Exception as error:  # Nobody knows all that a parser raises; the other files are not to suffer for it.
            read = _File(label, complete=False)
            read.problems.append(Problem(label, _error_line(error), "", "cannot be read: " + _error_text(error)))
        result.complete = result.complete and read.complete
        result.problems += read.problems
        for spec, line in read.entries:
            places.setdefault(spec["name"], []).append((spec, line))
    broken = set(result.broken_names)
    for name, entries in places.items():
        if len(entries) > 1:
            # One of them had another name before, which is now missing and yet wanted.
            result.complete = False
            others = ", ".join("{}:{}".format(spec["file"], line) for spec, line in entries)
            for spec, line in entries:
                message = f"{name!r} is used more than once ({others}); give each spec a name of its own."
                result.problems.append(Problem(spec["file"], line, "name", message, name))
        elif name not in broken:
            result.specs.append(entries[0][0])
    result.specs.sort(key=lambda spec: str(spec["name"]))
    result.problems.sort(key=lambda problem: (problem.file, problem.line, problem.key))
    return result


@dataclass
class _File:
    """What one file says: its specs with the lines of their names, and what is wrong with it."""

    label: str
    complete: bool = True
    problems: list[Problem] = field(default_factory=list)
    entries: list[tuple[dict[str, Any], int]] = field(default_factory=list)


def _label(path: str, base: str) -> str:
    """How people are told of a file; a name that is no UTF-8 is told in escapes."""
    return os.fsencode(os.path.relpath(path, base)).decode("utf-8", "backslashreplace")


def _text_of(path: str) -> str:
    """The text of a file. Raises ValueError for what is no file, such as a link to a device, and for one too large."""
    # Without O_NONBLOCK the opening of a pipe would not come back.
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    with os.fdopen(descriptor, "rb") as stream:
        about = os.fstat(descriptor)
        if not stat.S_ISREG(about.st_mode):
            raise ValueError("it is no regular file")
        if about.st_size > _FILE_LIMIT:
            raise ValueError(f"it has {about.st_size} bytes; the most is {_FILE_LIMIT}")
        return stream.read().decode("utf-8")


def _take(
    node: _Node,
    schema: Mapping[str, Any],
    clusters: Sequence[str] | None,
    variables: Callable[[str], Collection[str] | None],
    read: _File,
) -> None:
    """Check the specs of one document and put them where they belong."""
    about = schema["$defs"]["spec"]
    items = list(enumerate(node.value)) if isinstance(node.value, list) else [(None, node.value)]
    for index, value in items:
        start: tuple[Any, ...] = () if index is None else (index,)
        name = value.get("name") if isinstance(value, dict) else None
        known_name = name if isinstance(name, str) and not any(check(name, about["properties"]["name"])) else ""
        found = list(_unfit(value))
        if not found:
            found += check(value, about)
            found += _beyond_schema(value, clusters, variables) if isinstance(value, dict) else []
        for path, message in found:
            key = _readable(".".join(str(part) for part in path))
            read.problems.append(Problem(read.label, node.line((*start, *path)), key, _readable(message), known_name))
        if not known_name:
            # A spec whose name cannot be read, or cannot be one, may be any of those that are missing.
            read.complete = False
        if known_name:
            spec = {} if found else complete_spec(value, schema)
            spec.update(name=known_name, file=read.label, line=node.line(start))
            read.entries.append((spec, node.line((*start, "name"))))


def _unfit(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[tuple[Any, ...], str]]:
    """What cannot be written down so that every program reads the same: the digest is made of it, and a report."""
    if isinstance(value, dict):
        for name, item in value.items():
            if not _is_unicode(name):
                yield (*path, name), "holds half a character (a surrogate); write the character itself."
            yield from _unfit(item, (*path, name))
    elif isinstance(value, (list, tuple)):
        for index, item in enumerate(value):
            yield from _unfit(item, (*path, index))
    elif isinstance(value, str):
        if not _is_unicode(value):
            yield path, f"is {_shown(value)}, which holds half a character (a surrogate); write the character itself."
    elif isinstance(value, int):
        if value.bit_length() > _MOST_BITS:
            yield path, f"is a whole number of {value.bit_length()} bits; the most is {_MOST_BITS}."
    elif isinstance(value, float):
        if not math.isfinite(value):
            yield path, f"is {value}, which is no number; give one, or quote it."
    elif value is not None:
        yield path, f"is a {type(value).__name__}, which JSON has no word for; write it in quotes."


def _is_unicode(text: Any) -> bool:
    try:
        str(text).encode("utf-8")
    except UnicodeEncodeError:
        return False
    return True


def _readable(text: str) -> str:
    """The text with escapes for what UTF-8 cannot hold."""
    return text.encode("utf-8", "backslashreplace").decode("utf-8")


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
            _note_lines(node, (), lines, [_MOST_VALUES])
            value = loader.construct_document(node)
            if value is not None:
                yield _Node(value, lines)
    finally:
        loader.dispose()


def _note_lines(node: Any, path: tuple[Any, ...], lines: dict[tuple[Any, ...], int], left: list[int]) -> None:
    """Note the line of every part. Refuses keys that are no text or are given twice, and aliases without end.

    :param left: how many values there may still be, in its one item.
    """
    left[0] -= 1
    if left[0] < 0:
        message = f"it holds more than {_MOST_VALUES} values once its aliases are written out"
        raise yaml.constructor.ConstructorError(None, None, message, node.start_mark)
    lines.setdefault(path, node.start_mark.line + 1)
    if isinstance(node, yaml.MappingNode):
        seen = set()
        for key, value in node.value:
            name = _key_text(key)
            if name in seen:
                raise yaml.constructor.ConstructorError(None, None, f"the key {name!r} is given twice", key.start_mark)
            seen.add(name)
            lines[(*path, name)] = key.start_mark.line + 1
            _note_lines(value, (*path, name), lines, left)
    elif isinstance(node, yaml.SequenceNode):
        for index, value in enumerate(node.value):
            _note_lines(value, (*path, index), lines, left)


def _key_text(key: Any) -> str:
    """The text of a key. Raises ConstructorError for what YAML reads as something else, such as `on` and `1`."""
    if not isinstance(key, yaml.ScalarNode):
        raise yaml.constructor.ConstructorError(None, None, "a key is a list or a mapping; give text", key.start_mark)
    if key.tag not in (_TEXT_TAG, _MERGE_TAG):
        read_as = {"bool": "true or false", "int": "a number", "float": "a number", "null": "null"}
        word = read_as.get(key.tag.rpartition(":")[2], "no text")
        message = f"the key {_shown(key.value)} is read as {word} by YAML: quote it"
        raise yaml.constructor.ConstructorError(None, None, message, key.start_mark)
    return str(key.value)


def _error_line(error: Exception) -> int:
    mark = getattr(error, "problem_mark", None) or getattr(error, "context_mark", None)
    return int(mark.line) + 1 if mark is not None else 1


def _error_text(error: Exception) -> str:
    if isinstance(error, OSError):
        return str(error.strerror or error)
    if isinstance(error, RecursionError):
        return "it is nested too deeply, or holds itself"
    if isinstance(error, UnicodeDecodeError):
        return f"it is no UTF-8: {error.reason} at byte {error.start}"
    text = str(getattr(error, "problem", None) or "") or (str(error).splitlines() or [""])[0]
    if not isinstance(error, (yaml.YAMLError, ValueError)):
        # The words of an error that nobody expected seldom say what it is.
        text = f"{type(error).__name__}: {text}"
    return _readable(text or type(error).__name__)


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
    if "pattern" in schema and not _matches(schema["pattern"], value):
        yield path, f"is {_shown(value)}; it must match {schema['pattern']}."
    yield from _check_number(value, schema, path)
    if isinstance(value, list):
        if len(value) < schema.get("minItems", 0):
            yield path, "is empty; name at least one, or leave the key out."
        for index, item in enumerate(value):
            yield from check(item, schema.get("items", {}), (*path, index))
    if isinstance(value, dict):
        yield from _check_mapping(value, schema, path)


def _matches(pattern: str, value: str) -> bool:
    """Whether a text has the pattern, whose `$` is the very end; that of Python lets a line break follow."""
    return re.search(re.sub(r"(?<!\\)\$$", r"\\Z", pattern), value) is not None


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
