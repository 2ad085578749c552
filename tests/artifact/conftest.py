# Copyright: (c) 2026, The dgxc.workloads developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The collection as a user gets it: built once, installed once, for all tests of this folder."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType
from typing import NamedTuple

import pytest

_CHECKOUT = Path(__file__).resolve().parents[2]


class Installed(NamedTuple):
    tarball: Path
    collections: Path
    collection: Path


@pytest.fixture(scope="session")
def artifact() -> ModuleType:
    """Return the module tests/tools/artifact.py, which builds and installs."""
    specification = importlib.util.spec_from_file_location("artifact", _CHECKOUT / "tests" / "tools" / "artifact.py")
    assert specification is not None
    assert specification.loader is not None
    module = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(module)
    return module


@pytest.fixture(scope="session")
def installed(artifact: ModuleType, tmp_path_factory: pytest.TempPathFactory) -> Installed:
    """Build the tarball and install it below a temporary folder."""
    tarball = artifact.build(tmp_path_factory.mktemp("built"))
    collections = tmp_path_factory.mktemp("collections")
    return Installed(tarball, collections, artifact.install(tarball, collections))
