# Copyright: (c) 2026, The dgxc.workloads developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Files of training data that are whole, and what really takes their place."""

from __future__ import annotations

import hashlib
import json
import tracemalloc
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.dgxc.workloads.plugins.module_utils import _dataset_info
from ansible_collections.dgxc.workloads.plugins.module_utils._dataset_info import DataFile, look, problems_of

EXAMPLES = [{"translation": {"zh": '一 ] } , " \\', "en": "one"}}, {"translation": {"zh": "二", "en": "two"}}]
KEYS = ["translation.zh", "translation.en"]
LINES = "".join(json.dumps(example, ensure_ascii=False) + "\n" for example in EXAMPLES).encode()
LIST = json.dumps(EXAMPLES, ensure_ascii=False).encode()
POINTER = b"version https://git-lfs.github.com/spec/v1\noid sha256:" + b"a" * 64 + b"\nsize 6291456\n"


def seen(tmp_path: Path, content: bytes, **more: Any) -> _dataset_info.FileFacts:
    path = tmp_path / "train.json"
    path.write_bytes(content)
    return look(DataFile(str(path), **{"keys": KEYS, **more}), rehearsal=False)


@pytest.mark.parametrize(
    "content",
    [
        LINES,
        LINES[:-1],
        LINES.replace(b"\n", b"\r\n"),
        b"\n\n" + LINES.replace(b"\n", b"\n \n"),
        LIST,
        LIST + b"\n",
        b" \n" + LIST.replace(b"}}, {", b"}}\n  ,\n\n {"),
    ],
)
def test_whole_files_are_counted_and_told_by_their_content(tmp_path: Path, content: bytes) -> None:
    facts = seen(tmp_path, content, examples=2)
    assert (facts.state, facts.examples, facts.message) == ("present", 2, "")
    assert (facts.bytes, facts.sha256) == (len(content), hashlib.sha256(content).hexdigest())


@pytest.mark.parametrize("content", [LINES, LIST])
def test_a_file_that_was_cut_at_any_length_is_found(tmp_path: Path, content: bytes) -> None:
    for length in range(len(content) - 1):
        facts = seen(tmp_path, content[:length], examples=2)
        assert facts.state == "wrong", length
        assert facts.message.startswith(f"{tmp_path}/train.json "), length
        assert facts.sha256 is None


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "is empty"),
        (b"\n\n", "has no example"),
        (b"[]", "has no example"),
        (POINTER, "is the 132 bytes that Git LFS leaves in the place of a file of 6291456 bytes"),
        (b"\0" * 5000, "nothing but zeros"),
        (LINES[:40], "was cut off in line 1"),
        (LINES + b'{"translation": {"zh": "', "was cut off in line 3"),
        (LINES + b"<html>\n", "has a line 3 that is no JSON"),
        (b"\xff\xfe\n" + LINES, "has a line 1 that is no JSON"),
        (LINES + b"[1]\n", "has a line 3 that is no JSON object"),
        (LINES + b'{"text": "x"}\n', "has a line 3 without translation.zh"),
        (LINES + b'{"translation": "x"}\n', "has a line 3 without translation.zh"),
        (LIST[:-1], "was cut off after 2 examples"),
        (LIST[:-4], "was cut off in example 2 of its list"),
        (b"[1, 2]", "has an example 1 of its list that is no JSON object"),
        (b'[{"translation": {}}]', "without translation.zh"),
        (LIST.replace(b"}}, {", b"}} {"), "has no comma behind example 1"),
        (LIST + b"x", "goes on behind the end of its list"),
        (LIST.replace(b"]", b",]", 2), "was cut off in example 3"),
    ],
)
def test_what_takes_the_place_of_data_is_named(tmp_path: Path, content: bytes, words: str) -> None:
    facts = seen(tmp_path, content, remedy="fetch it")
    assert words in facts.message
    assert facts.message.endswith(": fetch it.")


@pytest.mark.parametrize(
    ("examples", "words"),
    [(3, "is not whole: it has 2 examples of the 3 of X"), (1, "is another file: it has 2 examples of the 1 of X")],
)
@pytest.mark.parametrize("content", [LINES, LIST])
def test_another_number_of_examples_is_told(tmp_path: Path, content: bytes, examples: int, words: str) -> None:
    assert words in seen(tmp_path, content, examples=examples, examples_of="X").message
    assert f"of the {examples} that are expected" in seen(tmp_path, content, examples=examples).message


def test_other_formats_count_lines_or_nothing(tmp_path: Path) -> None:
    assert seen(tmp_path, b"a\n\nb", format="lines", keys=[]).examples == 2
    facts = seen(tmp_path, b"\x89binary", format="opaque", examples=5)
    assert (facts.state, facts.examples, facts.bytes) == ("present", None, 7)
    assert seen(tmp_path, POINTER, format="opaque").state == "wrong"


def test_a_missing_file_is_wrong_optional_or_still_to_come(tmp_path: Path) -> None:
    missing = str(tmp_path / "clone" / "train.json")
    wanted = DataFile(missing, made_with=str(tmp_path / "clone"))
    assert look(wanted, rehearsal=True).state == "pending"
    assert look(wanted, rehearsal=False).state == "wrong"
    assert "is not there" in look(wanted, rehearsal=False).message
    assert look(DataFile(missing, optional=True), rehearsal=False).state == "absent"
    (tmp_path / "clone").mkdir()
    assert look(wanted, rehearsal=True).state == "wrong"
    assert "is a folder" in look(DataFile(str(tmp_path)), rehearsal=False).message


def test_an_endless_example_is_given_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_dataset_info, "_EXAMPLE_MOST", 100)
    assert "of more than 100 bytes" in seen(tmp_path, b'{"a": "' + b"x" * 200).message
    monkeypatch.setattr(_dataset_info, "_BLOCK", 64)
    assert "has an example 1 in its list that is no JSON" in seen(tmp_path, b'[{"a": "' + b"x" * 2000).message


def test_small_pieces_make_no_difference(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for block in range(1, 20):
        monkeypatch.setattr(_dataset_info, "_BLOCK", block)
        assert seen(tmp_path, LIST, examples=2).message == ""


@pytest.mark.parametrize("joint", [b"\n", b",\n"])
def test_a_large_file_is_never_held(tmp_path: Path, joint: bytes) -> None:
    example = json.dumps({"text": "x" * 500}).encode()
    content = joint.join([example] * 20000)
    path = tmp_path / "large.json"
    path.write_bytes(b"[" + content + b"]" if joint != b"\n" else content)
    del content
    tracemalloc.start()
    facts = look(DataFile(str(path)), rehearsal=False)
    most = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert facts.examples == 20000
    assert most < 6 << 20 < path.stat().st_size


def test_a_request_that_cannot_be_right_is_told() -> None:
    assert problems_of([DataFile("/a"), DataFile("b"), DataFile("/c", format="csv")]) == [
        "files has the path 'b': give an absolute path.",
        "files has the format 'csv': give one of json, lines, opaque.",
    ]
