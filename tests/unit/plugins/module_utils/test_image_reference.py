# Copyright: (c) 2026, The dgxc.workloads developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import pytest

from ansible_collections.dgxc.workloads.plugins.module_utils._image_reference import (
    digest_problem,
    is_file,
    parse,
    version_tuple,
)

DIGEST = "sha256:" + "0a" * 32


@pytest.mark.parametrize(
    ("text", "pyxis", "docker", "host", "name"),
    [
        ("nvcr.io/nvidia/nemo:24.12", "nvcr.io#nvidia/nemo:24.12", "nvcr.io/nvidia/nemo:24.12", "nvcr.io", "nvidia/nemo"),
        ("docker://nvcr.io#nvidia/nemo:x", "nvcr.io#nvidia/nemo:x", "nvcr.io/nvidia/nemo:x", "nvcr.io", "nvidia/nemo"),
        ("localhost:5000/a/b:1", "localhost:5000#a/b:1", "localhost:5000/a/b:1", "localhost:5000", "a/b"),
        ("localhost/a", "localhost#a:latest", "localhost/a:latest", "localhost", "a"),
        ("reg:5000/a", "reg:5000#a:latest", "reg:5000/a:latest", "reg:5000", "a"),
        (f"reg:5000/a:1@{DIGEST}", f"reg:5000#a:1@{DIGEST}", f"reg:5000/a@{DIGEST}", "reg:5000", "a"),
        ("ubuntu:22.04", "ubuntu:22.04", "ubuntu:22.04", "registry-1.docker.io", "library/ubuntu"),
        ("nvidia/cuda:12", "nvidia/cuda:12", "nvidia/cuda:12", "registry-1.docker.io", "nvidia/cuda"),
        ("docker.io/library/debian", "library/debian:latest", "library/debian:latest", "registry-1.docker.io",
         "library/debian"),
        ("$oauthtoken@nvcr.io#nvidia/nemo:1", "$oauthtoken@nvcr.io#nvidia/nemo:1", "nvcr.io/nvidia/nemo:1", "nvcr.io",
         "nvidia/nemo"),
    ],
)  # fmt: skip
def test_every_spelling_is_read_and_written(text, pyxis, docker, host, name):
    reference = parse(text)
    assert (reference.pyxis, reference.enroot) == (pyxis, "docker://" + pyxis)
    assert (reference.docker, reference.host, reference.name) == (docker, host, name)
    assert parse(reference.enroot) == reference


@pytest.mark.parametrize(
    "text",
    ["", "docker://", "UPPER", "a//b", "nvcr.io/", "nvcr.io#", "#a", "a:", "a:b c", "a@sha256:12", "re g/a.b/c", "a/b:1:2",
     "-x.y/a", "a b@reg.io/c", "https://nvcr.io/a", f"a@{DIGEST}0"],
)  # fmt: skip
def test_what_is_no_reference_is_named(text):
    with pytest.raises(ValueError, match="is not the reference of a container image"):
        parse(text)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("/a/b.sqsh", True),
        ("./x", True),
        ("images/x.sqsh", True),
        ("~/x", True),
        ("nvcr.io#a/b:1", False),
        ("a/b", False),
    ],
)
def test_a_file_is_told_from_a_reference(text, expected):
    assert is_file(text) is expected


def test_a_digest_needs_a_modern_enroot():
    reference = parse(f"nvcr.io#a/b@{DIGEST}")
    assert "Enroot takes from 4.0 on, and this cluster has 3.4.1" in digest_problem(reference, "3.4.1")
    assert digest_problem(reference, "4.0.1") == digest_problem(parse("nvcr.io#a/b"), "3.4.1") == ""
    assert digest_problem(reference, "unknown") == ""
    assert version_tuple("enroot version 3.4.1-1\n") == (3, 4, 1)
    assert version_tuple("none") == ()
