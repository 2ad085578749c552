# Copyright: (c) 2026, The dgxc.workloads developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the documents name exists: files, anchors, playbooks, variables, defaults, make targets, tests, messages."""

from __future__ import annotations

import ast
import fnmatch
import functools
import itertools
import json
import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from ansible_collections.dgxc.workloads.plugins.module_utils._gates import EXPECT_NUMBERS, OUTPUT_FIELDS
from ansible_collections.dgxc.workloads.plugins.module_utils._run_spec import RUN_FIELDS
from ansible_collections.dgxc.workloads.plugins.module_utils._site_settings import KNOWN_FACTS
from ansible_collections.dgxc.workloads.plugins.module_utils._training_log_failures import classify_line
from tests.harness.docs import CHECKOUT, ELSEWHERE, STORIES, Block, Page, pages

PAGES = pages()
BLOCKS = [block for page in PAGES for block in page.blocks]
every_page = pytest.mark.parametrize("page", PAGES, ids=lambda page: page.path)

ROLES = sorted(path.parent.name for path in CHECKOUT.glob("roles/*/defaults"))
PREFIXES = (*(f"{role}_" for role in ROLES), "dgxc_", "cancel_", "archive_", "new_cluster_")
#: Names with such a prefix that are no variables.
NO_VARIABLES = {
    "image_not_found": "a failure's name in a record",
    "nemo_gpt3_max_step": "misspelt on purpose",
}


@functools.cache
def options(role: str) -> dict[str, dict[str, Any]]:
    """The variables of a role as it describes them, of all its entry points."""
    specs = yaml.safe_load((CHECKOUT / "roles" / role / "meta" / "argument_specs.yml").read_text())["argument_specs"]
    return {name: option for entry in specs.values() for name, option in entry.get("options", {}).items()}


def keys_of(document: Any) -> Iterator[str]:
    """Every key of every dictionary in a document."""
    if isinstance(document, dict):
        for key, value in document.items():
            yield str(key)
            yield from keys_of(value)
    elif isinstance(document, list):
        for value in document:
            yield from keys_of(value)


@functools.cache
def names() -> frozenset[str]:
    """Everything that a text may name: variables, facts, modules, filters, what tasks and playbooks set."""
    found = set(KNOWN_FACTS) | {option for role in ROLES for option in options(role)} | set(ROLES)
    for pattern in (
        "roles/*/defaults/**/*.yml",
        "roles/*/tasks/*.yml",
        "playbooks/*.yml",
        "inventories/sandbox/**/*.yml",
    ):
        for path in CHECKOUT.glob(pattern):
            text = path.read_text()
            found.update(keys_of(yaml.safe_load(text)))
            found.update(re.findall(r"register: (\w+)", text))
            if path.parent.name == "playbooks":
                found.update(re.findall(r"\b[a-z]+(?:_[a-z]+)+\b", text))
    for path in CHECKOUT.glob("plugins/*/*"):
        found.add(path.stem.lstrip("_"))
    return frozenset(found)


def problems(found: list[str]) -> None:
    assert not found, "\n" + "\n".join(found)


# Links, files and targets.


@functools.cache
def unshipped() -> list[str]:
    return yaml.safe_load((CHECKOUT / "galaxy.yml").read_text())["build_ignore"]


def is_shipped(path: Path) -> bool:
    relative = path.relative_to(CHECKOUT)
    parts = ["/".join(relative.parts[: count + 1]) for count in range(len(relative.parts))]
    return not any(fnmatch.fnmatch(part, pattern) for part in parts for pattern in unshipped())


@every_page
def test_links_lead_somewhere(page: Page) -> None:
    found = []
    anchors = {other.path: other.anchors for other in PAGES}
    for line, target in page.links():
        if re.match(r"[a-z]+:", target):
            continue
        file, _hash, anchor = target.partition("#")
        path = ((CHECKOUT / page.path).parent / file).resolve() if file else CHECKOUT / page.path
        if not path.exists():
            found.append(f"{page.path}:{line}: {target} does not exist")
        elif anchor and anchor not in anchors.get(str(path.relative_to(CHECKOUT)), set()):
            found.append(f"{page.path}:{line}: {target} has no such heading")
        elif is_shipped(CHECKOUT / page.path) and not is_shipped(path):
            found.append(f"{page.path}:{line}: {target} is not in the tarball, in which this page is")
    problems(found)


_PATH = re.compile(r"(?:playbooks|roles|docs|tests|plugins|inventories|examples|changelogs|meta)/[\w./*-]*[\w/*]")
#: Inventories that a reader makes.
_MADE = {"inventories/mycluster", "inventories/oci/group_vars/oci/"}


@every_page
def test_files_that_are_named_exist(page: Page) -> None:
    pieces = [*page.spans(), *((block.line, command) for block in page.blocks for command in block.commands)]
    found = []
    for line, piece in pieces:
        for path in re.findall(rf"(?<![\w/.$>@~-]){_PATH.pattern}", piece):
            made = any(path.startswith(folder) for folder in _MADE)
            # Seen from the root, from the page's folder, or from that of any role.
            places = [CHECKOUT, (CHECKOUT / page.path).parent, *CHECKOUT.glob("roles/*")]
            if not made and not any(list(place.glob(path.rstrip("/"))) for place in places):
                found.append(f"{page.path}:{line}: {path} does not exist")
    problems(found)


@every_page
def test_make_targets_exist(page: Page) -> None:
    targets = set(re.findall(r"^([a-z0-9-]+):", (CHECKOUT / "Makefile").read_text(), re.MULTILINE))
    pieces = [*page.spans(), *((block.line, command) for block in page.blocks for command in block.commands)]
    found = [
        f"{page.path}:{line}: there is no target {target}"
        for line, piece in pieces
        for target in re.findall(r"^(?:\w+=\S+ )*make ([a-z][a-z0-9-]*)", piece)
        if target not in targets
    ]
    problems(found)


@every_page
def test_tests_that_are_named_exist(page: Page) -> None:
    sources = "\n".join(path.read_text() for path in CHECKOUT.glob("tests/**/*.py"))
    pieces = [(line, name) for line, span in page.spans() for name in re.findall(r"\btest_\w+(?!\w|\.py|\*)", span)]
    problems([f"{page.path}:{line}: no test {name}" for line, name in pieces if f"def {name}(" not in sources
              and not list(CHECKOUT.glob(f"tests/**/{name}.py"))])  # fmt: skip


# Commands.


def ansible_commands(blocks: list[Block]) -> Iterator[tuple[Block, list[str]]]:
    for block in blocks:
        if block.language not in ("shell", "indented"):
            continue
        for command in block.commands:
            if re.match(r"(?:\S*/)?ansible(?:-playbook)? ", command):
                yield block, shlex.split(command, comments=True)


def variables_of(words: list[str]) -> Iterator[str]:
    """The names of the variables that `-e` sets."""
    for word, value in itertools.pairwise(words):
        if word not in ("-e", "--extra-vars") or value.startswith("@"):
            continue
        if value.startswith("{"):
            yield from json.loads(value)
        else:
            yield from re.findall(r"(?:^|\s)(\w+)=", value)


@every_page
def test_commands_name_playbooks_inventories_and_variables_that_exist(page: Page) -> None:
    found = []
    for block, words in ansible_commands(page.blocks):
        where = f"{page.path}:{block.line}: "
        for word in words[1:]:
            is_playbook = word.endswith(".yml") and "/" in word and "=" not in word and not word.startswith("@")
            if is_playbook and not (CHECKOUT / word).is_file():
                found.append(where + f"there is no playbook {word}")
            if word.startswith("dgxc.workloads."):
                name = word.removeprefix("dgxc.workloads.")
                if not [*CHECKOUT.glob(f"playbooks/{name}.yml"), *CHECKOUT.glob(f"plugins/*/{name}.py")]:
                    found.append(where + f"there is no {word}")
        for option, value in itertools.pairwise(words):
            is_inventory = option == "-i" and value.startswith("inventories/") and value not in _MADE
            if is_inventory and not (CHECKOUT / value).is_dir():
                found.append(where + f"there is no inventory {value}")
        found += [
            where + f"nothing reads {name}"
            for name in variables_of(words)
            if name not in names() and not name.startswith("ansible_")
        ]
    problems(found)


@every_page
def test_every_block_of_commands_is_run_or_says_why_not(page: Page) -> None:
    if page.path in STORIES:
        assert (CHECKOUT / STORIES[page.path]).is_file()
        return
    found = []
    for block in page.blocks:
        if block.language not in ("shell", "indented") or block.mark == "run":
            continue
        if block.mark == "not run":
            if len(block.reason) < 10:
                found.append(f"{page.path}:{block.line}: give a reason")
            continue
        if block.language == "indented" and not block.text.startswith(("ansible-playbook ", "make ")):
            continue
        found += [
            f"{page.path}:{block.line}: say whether a test runs {command!r}"
            for command in block.commands
            if not any(re.search(pattern, command) for pattern in ELSEWHERE)
        ]
    problems(found)


@every_page
def test_yaml_and_json_can_be_read(page: Page) -> None:
    for block in page.blocks:
        if block.language == "yaml":
            assert list(yaml.safe_load_all(block.text)), f"{page.path}:{block.line}"
        if block.language == "json":
            assert json.loads(block.text), f"{page.path}:{block.line}"


# Variables and their defaults.


@every_page
def test_variables_that_are_named_exist(page: Page) -> None:
    pieces = [
        *page.spans(),
        *((block.line, block.text) for block in page.blocks if block.language in ("yaml", "shell")),
    ]
    found = [
        f"{page.path}:{line}: there is no {name}"
        for line, piece in pieces
        for name in re.findall(r"(?<![\w/.<{-])([a-z]+(?:_[a-z0-9]+)+)(?![\w(/]|\.\w|-\w)", piece)
        if name.startswith(PREFIXES) and name not in names() and name not in NO_VARIABLES
    ]
    problems(found)


def told_default(cell: str) -> list[Any]:
    """The values that a cell of the column `default` tells; none where it says them in words."""
    spans = re.findall(r"`([^`]+)`", cell)
    if not spans or not re.fullmatch(r"(?:`[^`]+`(?:, )?)+(?: \*)?", cell):
        return []
    return [yaml.safe_load(span) for span in spans]


def full_names(variables: list[str], role: str) -> list[str]:
    """In the list `a_b_c`, `_d` the second stands for `a_b_d` or `a_d`, whichever is a variable."""
    parts = variables[0].split("_")
    beginnings = ["_".join(parts[:count]) for count in range(len(parts) - 1, 0, -1)]
    return [
        next((begin + name for begin in beginnings if begin + name in options(role)), name) if name[0] == "_" else name
        for name in variables
    ]


def is_default(role: str, name: str, told: Any) -> bool:
    """Whether a variable has this default. One that follows from something else is told by the name of that."""
    defaults = yaml.safe_load((CHECKOUT / "roles" / role / "defaults" / "main.yml").read_text())
    true = [value for value in (options(role)[name].get("default"), defaults.get(name)) if value is not None]
    if str(told).endswith("…"):
        return any(str(value).startswith(str(told)[:-1]) for value in true)
    if any("{{" in str(value) for value in true) or str(told).startswith("<"):
        return all(word in str(true) for word in re.findall(r"\bdgxc_\w+", str(told)))
    return str(told) in {str(value) for value in true} | {"" if not true else str(true[0])} or (
        not true and told is None
    )


@every_page
def test_defaults_that_are_told_are_true(page: Page) -> None:
    found = []
    for head, rows in page.tables():
        if head[:2] != ["variable", "default"]:
            continue
        for line, cells in rows:
            variables = re.findall(r"`([^`]+)`", cells[0])
            told = told_default(cells[1])
            # `a`, `_b`: the second has the beginning of the first.
            role = next(
                (role for role in sorted(ROLES, key=len, reverse=True) if variables[0].startswith(f"{role}_")), ""
            )
            if not role or len(told) != len(variables):
                continue
            for name, value in zip(full_names(variables, role), told, strict=True):
                if name not in options(role):
                    found.append(f"{page.path}:{line}: there is no {name}")
                elif not is_default(role, name, value):
                    found.append(f"{page.path}:{line}: {name} is not {value!r} by default")
    problems(found)


def test_the_fields_of_a_run_are_described_as_they_are() -> None:
    described = options("run")["run_runs"]["options"]
    assert set(described) == set(RUN_FIELDS)
    assert {name: field.get("default") for name, field in described.items()} == RUN_FIELDS
    assert set(described["expect"]["options"]) == {*EXPECT_NUMBERS, "output"}
    assert set(described["expect"]["options"]["output"]["options"]) == set(OUTPUT_FIELDS)


# Messages.


def _texts(node: ast.AST) -> Iterator[str]:
    """The texts of a Python file, with … where a value is put in."""
    for child in ast.walk(node):
        if isinstance(child, ast.Constant) and isinstance(child.value, str):
            yield child.value
        elif isinstance(child, ast.JoinedStr):
            yield "".join(str(part.value) if isinstance(part, ast.Constant) else "…" for part in child.values)


@functools.cache
def sources() -> str:
    """All texts of plugins and roles, one a line."""
    texts: list[str] = []
    for pattern in ("plugins/**/*.py", "roles/*/files/*.py"):
        for path in CHECKOUT.glob(pattern):
            texts += _texts(ast.parse(path.read_text()))
    for pattern in ("roles/*/tasks/*.yml", "playbooks/*.yml"):
        texts += [path.read_text() for path in CHECKOUT.glob(pattern)]
    return "\n".join(" ".join(re.sub(r"\{[^{}]*\}|%[sdr]", "…", text).split()) for text in texts)


def message_rows() -> list[tuple[str, int, str, str]]:
    """(page, line, kind, message) of each row of a table of messages."""
    return [
        (page.path, line, head[0], message)
        for page in PAGES
        for head, rows in page.tables()
        if head[0] in ("message", "in the log")
        for line, cells in rows
        for message in re.findall(r"`([^`]+)`", cells[0])
    ]


@pytest.mark.parametrize(
    ("page", "line", "message"), [(page, line, said) for page, line, kind, said in message_rows() if kind == "message"]
)
def test_messages_are_said_by_this_collection(page: str, line: int, message: str) -> None:
    # Three dots stand for a value.
    parts = [part.strip() for part in message.split("...")]
    parts = [part for part in parts if len(part) > 5]
    assert parts, f"{page}:{line}: {message} is too short to be looked for"
    missing = [part for part in parts if part not in sources()]
    assert not missing, f"{page}:{line}: nothing says {missing}"


@pytest.mark.parametrize(
    ("page", "line", "message"),
    [(page, line, said) for page, line, kind, said in message_rows() if kind == "in the log"],
)
def test_lines_of_logs_are_known(page: str, line: int, message: str) -> None:
    assert classify_line(message.encode()) is not None, f"{page}:{line}: the gates do not know {message}"


def test_there_are_messages_to_look_for() -> None:
    assert len(message_rows()) > 25


# The record of all pages.


def test_the_readme_names_every_page() -> None:
    readme = next(page for page in PAGES if page.path == "README.md")
    linked = {target for _line, target in readme.links()}
    assert [page.path for page in PAGES if page.path.startswith("docs/") and page.path not in linked] == []


def test_the_architecture_names_every_file_of_knowledge() -> None:
    page = next(page for page in PAGES if page.path == "docs/architecture.md")
    patterns = [span for _line, span in page.spans() if span.startswith("_")]
    files = [path for kind in ("module_utils", "plugin_utils") for path in CHECKOUT.glob(f"plugins/{kind}/_*.py")]
    problems([path.name for path in files if not any(fnmatch.fnmatch(path.name, pattern) for pattern in patterns)])


def test_something_is_run() -> None:
    assert len([block for block in BLOCKS if block.mark == "run"]) >= 5


@pytest.mark.parametrize("role", ROLES)
def test_the_readme_of_a_role_names_every_variable(role: str) -> None:
    page = next(page for page in PAGES if page.path == f"roles/{role}/README.md")
    text = (CHECKOUT / page.path).read_text()
    if f"`ansible-doc -t role dgxc.workloads.{role}`" in text:
        return
    named = {span for _line, span in page.spans()}
    for _head, rows in page.tables():
        for _line, cells in rows:
            listed = re.findall(r"`([^`]+)`", cells[0])
            if listed and listed[0].startswith(f"{role}_"):
                named.update(full_names([listed[0], *(name.removeprefix("...") for name in listed[1:])], role))
    problems([f"{page.path} lacks {name}" for name in options(role) if name not in named])
