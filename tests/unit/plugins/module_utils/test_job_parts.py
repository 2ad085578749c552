# Copyright: (c) 2026, The dgxc.workloads developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""How many parts a job has, out of its script and options, and how many parts ids stand for."""

from __future__ import annotations

import pytest

from ansible_collections.dgxc.workloads.plugins.module_utils import _job_parts as parts

HEAD = "#!/bin/bash\n"

SCRIPTS = [
    ("no directive", HEAD + "true\n", {}, 1),
    ("an array", HEAD + "#SBATCH --array=0-3\n", {}, 4),
    ("two words", HEAD + "#SBATCH --array 1,5,9\n", {}, 3),
    ("short", HEAD + "#SBATCH -a 0-15:4\n", {}, 4),
    ("short, one word", HEAD + "#SBATCH -a0-3\n", {}, 4),
    ("a limit at once", HEAD + "#SBATCH --array=0-9%2\n", {}, 10),
    ("quoted, with a remark", HEAD + '#SBATCH --array="0-3" # four\n', {}, 4),
    ("several options in a line", HEAD + "#SBATCH -N 2 --array=0-1 --mem=0\n", {}, 2),
    ("the option beats the script", HEAD + "#SBATCH --array=0-3\n", {"array": "0-7"}, 8),
    ("the last directive counts", HEAD + "#SBATCH --array=0-3\n#SBATCH --array=0-1\n", {}, 2),
    ("overlapping ranges", HEAD + "#SBATCH --array=0-3,2-5\n", {}, 6),
    ("after the first command", HEAD + "true\n#SBATCH --array=0-3\n", {}, 1),
    ("after a remark and an empty line", HEAD + "# remark\n\n#SBATCH --array=0-3\n", {}, 4),
    ("not a directive", HEAD + "##SBATCH --array=0-3\n", {}, 1),
    ("two components", HEAD + "#SBATCH -N1\n#SBATCH hetjob\n#SBATCH -N2\n", {}, 2),
    ("the older word, three components", HEAD + "#SBATCH packjob\n#SBATCH packjob\n", {}, 3),
    ("an open quote", HEAD + "#SBATCH --comment='x\n#SBATCH --array=0-1\n", {}, 2),
    ("no number", HEAD + "#SBATCH --array=all\n", {}, 1),
]


@pytest.mark.parametrize(("script", "options", "number"), [case[1:] for case in SCRIPTS], ids=[c[0] for c in SCRIPTS])
def test_the_parts_of_a_script(script, options, number):
    assert parts.job_parts(script, options) == number


@pytest.mark.parametrize(
    ("job_ids", "number"),
    [
        (["28"], 1),
        (["28_0", "28_1", "28_0"], 2),
        (["28_[2-9%2]", "28_0"], 9),
        (["28_[1%1]"], 1),
        (["28_[1,3,5,...]"], 1),
        (["33+0", "33+1"], 2),
        ([], 0),
    ],
)
def test_the_parts_of_ids(job_ids, number):
    assert parts.count_parts(job_ids) == number
