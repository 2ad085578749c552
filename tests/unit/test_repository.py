# Copyright: (c) 2026, The dgxc.workloads developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What no file of this repository may be: private, unfinished, without a licence, or of the wrong mode."""

from __future__ import annotations

import os
import re
import stat
import subprocess
from pathlib import Path

import pytest

CHECKOUT = Path(__file__).resolve().parents[2]
COLLECTION_LINK = "collections/ansible_collections/dgxc/workloads"


def _listed() -> list[str]:
    """Return the paths that Git tracks or would take, of files and links that exist."""
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=CHECKOUT,
        check=False,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    )
    paths = sorted(set(os.fsdecode(listed.stdout).split("\0")) - {""})
    return [path for path in paths if os.path.lexists(CHECKOUT / path)]


PATHS = _listed()
FILES = [path for path in PATHS if not (CHECKOUT / path).is_symlink()]

pytestmark = pytest.mark.skipif(not PATHS, reason="this is not a Git checkout")


def _text(path: str) -> str:
    return (CHECKOUT / path).read_bytes().decode("utf-8", errors="replace")


def _with(pattern: re.Pattern[str], paths: list[str]) -> list[str]:
    """Return 'path:line: text' for each line that has the pattern."""
    return [
        f"{path}:{number}: {line.strip()}"
        for path in paths
        for number, line in enumerate(_text(path).splitlines(), start=1)
        if pattern.search(line)
    ]


def test_no_file_names_the_folder_it_was_written_in() -> None:
    home = re.escape(str(Path.home()))
    # Of a home such as / or /root every document may speak.
    places = [re.escape(str(CHECKOUT))] + ([home] if len(Path(home).parts) > 2 else [])
    assert _with(re.compile("|".join(rf"{place}(?![\w.-])" for place in places)), FILES) == []


def test_no_file_is_left_unfinished() -> None:
    marks = re.compile(r"\b(?:TO" r"DO|FIX" r"ME|XX" r"X|HA" r"CK)\b(?!-)|^(?:<{7}|>{7}) ")
    assert _with(marks, [path for path in FILES if not path.startswith(("LICENSE", "changelogs/changelog"))]) == []


def test_whoever_silences_a_check_says_why() -> None:
    # In two parts, so that this is none.
    marks = [("# no", r"qa\b"), ("# ruff: no", "qa"), ("# type: ig", "nore"), ("# prag", "ma: no"),
             ("# pylint: dis", "able"), ("shellcheck dis", "able="), ("yamllint dis", "able")]  # fmt: skip
    silenced = re.compile("|".join(start + rest for start, rest in marks))
    # Behind it, or in a comment in the line before or after.
    reason = re.compile(r"(?:[A-Z]+[0-9]+|\]|cover)  ?[#-] ?\w+")
    wrong = []
    for path in FILES:
        lines = ["", *_text(path).splitlines(), ""]
        for number, line in enumerate(lines[1:-1], start=1):
            beside = any(other.lstrip().startswith("#") for other in (lines[number - 1], lines[number + 1]))
            # What ends with a quotation mark is in a text.
            if silenced.search(line) and not line.endswith('"') and not reason.search(line) and not beside:
                wrong.append(f"{path}:{number}: {line.strip()}")
    assert wrong == []


def test_no_file_has_a_private_key_or_a_token() -> None:
    # A key that a test needs is made by the test.
    secrets = re.compile(
        r"-----BEGIN (?:[A-Z]+ )?PRIVATE KEY-----|\bnvapi-[\w-]{20,}|\bhf_[A-Za-z0-9]{30,}|\bgh[pousr]_[A-Za-z0-9]{30,}"
    )
    assert _with(secrets, FILES) == []


@pytest.mark.parametrize("path", [path for path in FILES if path.endswith(".py") and _text(path)])
def test_python_file_says_its_licence(path: str) -> None:
    head = "\n".join(_text(path).splitlines()[:6])
    assert "SPDX-License-Identifier: GPL-3.0-or-later" in head
    assert re.search(r"^# Copyright: \(c\) \d{4}, The dgxc\.workloads developers$", head, re.MULTILINE)
    if path.startswith("plugins/"):
        # ansible-test looks for this wording.
        assert "GNU General Public License v3.0+" in head


def test_what_can_be_run_is_executable_and_nothing_else() -> None:
    wrong = []
    for path in FILES:
        executable = bool((CHECKOUT / path).stat().st_mode & stat.S_IXUSR)
        script = (CHECKOUT / path).read_bytes()[:2] == b"#!"
        # Ansible sets the mode of what a role installs and of a module, both of which may name an interpreter.
        if path.startswith(("roles/", "plugins/modules/")) and not executable:
            continue
        if executable != script:
            wrong.append(f"{path}: {'executable without' if executable else 'not executable, but has'} an interpreter")
    assert wrong == []


def test_the_only_link_is_the_one_that_makes_the_checkout_a_collection() -> None:
    links = [path for path in PATHS if (CHECKOUT / path).is_symlink()]
    assert links == [COLLECTION_LINK]
    assert (CHECKOUT / COLLECTION_LINK).resolve() == CHECKOUT


def test_no_file_is_large() -> None:
    assert [path for path in FILES if (CHECKOUT / path).stat().st_size > 512 * 1024] == []


def test_text_files_end_with_one_newline_and_have_no_carriage_returns() -> None:
    wrong = []
    for path in FILES:
        content = (CHECKOUT / path).read_bytes()
        if b"\0" in content or not content or "/fixtures/" in path:
            continue
        if not content.endswith(b"\n") or content.endswith(b"\n\n") or b"\r\n" in content:
            wrong.append(path)
    assert wrong == []
