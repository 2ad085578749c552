# Copyright: (c) 2026, The dgxc.workloads developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Tests of the versions that a login node tells."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pytest

from ansible_collections.dgxc.workloads.plugins.module_utils._process import Finished
from ansible_collections.dgxc.workloads.plugins.module_utils._site_versions import find_versions


@pytest.mark.parametrize(
    ("answers", "versions"),
    [
        (
            {
                "sinfo": Finished(0, "slurm 24.05.2\n", ""),
                "enroot": Finished(0, "3.4.1\n", ""),
                "srun": Finished(
                    0, "Usage: srun\n\nOptions provided by plugins:\n      --container-image=[USER@]\n", ""
                ),
            },
            {"slurm": "24.05.2", "enroot": "3.4.1", "pyxis": "present"},
        ),
        ({"sinfo": Finished(0, "motd\nslurm-wlm 22.05.8\n", "")}, {"slurm": "22.05.8"}),
        ({"srun": Finished(0, "Usage: srun [OPTIONS...]\n", "")}, {}),
        ({"sinfo": Finished(1, "slurm 24.05.2\n", "")}, {}),
        ({"enroot": Finished(124, "3.4.1", "")}, {}),
        ({"enroot": Finished(0, "command disabled by the site\n", "")}, {}),
    ],
)
def test_versions(answers: Mapping[str, Finished], versions: dict[str, str]) -> None:
    def run(command: Sequence[str], environment: Mapping[str, str], folder: str | None, limit: float) -> Finished:
        assert (folder, environment) == (None, {"PATH": "/x"})
        assert 0 < limit <= 60
        return answers.get(command[0], Finished(127, "", "not found"))

    assert find_versions(run, {"PATH": "/x"}) == versions
