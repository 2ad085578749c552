#!/usr/bin/python
# Copyright: (c) 2026, The dgxc.workloads developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: dataset_download
short_description: Bring training data to shared storage, whole or not at all
version_added: 0.1.0
author: The dgxc.workloads developers (@dgxc)
description:
  - Fetches an archive over HTTPS, unpacks it and counts what is in it. The folder gets its name when all of that is
    done, with a stamp in it, and is never fetched again.
  - A connection that breaks is taken up where it ended, within one play or by the next. What was received is checked
    against the size and the checksum that the server tells, against O(sha256), and against the archive's own checksums.
  - Two that want the same data at the same time, from whichever login nodes, make it once.
  - Without O(url), looks at data that somebody else put there, and counts it.
extends_documentation_fragment:
  - dgxc.workloads.progress
options:
  path:
    description: The absolute path of the folder of data. Its parent folder has to be there.
    type: str
    required: true
  url:
    description: The address of a tar or zip archive. Empty for data that is already at O(path).
    type: str
    default: ""
  source:
    description:
      - What the data is, wherever it comes from; a mirror has another O(url) and the same source. By default O(url).
    type: str
    default: ""
  root:
    description: The folder in the archive that becomes O(path). Empty for all of the archive.
    type: str
    default: ""
  sha256:
    description: The SHA-256 of the archive, if it is known.
    type: str
    default: ""
  username:
    description: User name for the server, given to no other server that it leads to.
    type: str
    default: ""
  password:
    description: Password or API key that belongs to O(username).
    type: str
    default: ""
  credentials_file:
    description:
      - Path on this host of a file C({"username":...,"key":...}), as Kaggle hands it out, that is read if O(username)
        is empty. Refused if others can read it. Its absence is no failure.
    type: path
    default: ""
  page:
    description: The page on which a person accepts the terms of the data. Messages name it.
    type: str
    default: ""
  counts:
    description: Patterns by name, relative to O(path), whose files or folders are counted.
    type: dict
    default: {}
  expected:
    description: How many of O(counts) there have to be, by name. Others are only counted.
    type: dict
    default: {}
  rows:
    description: Patterns by name of Parquet files, relative to O(path), whose rows are counted. Each has to match.
    type: dict
    default: {}
  settings:
    description:
      - The variables that messages tell the user to set, for C(url), C(path), C(given) (the path of data that is
        already there), C(username), C(password), C(sha256) and C(expected). By default the options of this module.
    type: dict
    default: {}
  tries:
    description: Connections in a row that may bring nothing before the module fails.
    type: int
    default: 5
  timeout:
    description: Seconds without a byte after which a connection is given up.
    type: float
    default: 60
  wait:
    description: The most seconds to wait for somebody else who fetches the same data.
    type: float
    default: 3600
attributes:
  check_mode:
    support: full
    description: Looks at data that is there, and asks no server.
  diff_mode:
    support: full
    description: Shows what is at the path before and after.
"""

EXAMPLES = r"""
- name: Bring the videos to shared storage
  dgxc.workloads.dataset_download:
    path: /lustre/fs0/scratch/demo-user/data/UCF101_subset
    url: https://huggingface.co/datasets/sayakpaul/ucf101-subset/resolve/main/UCF101_subset.tar.gz
    root: UCF101_subset
    counts:
      training videos: "train/*/*.avi"
      classes: "train/*"
    expected:
      training videos: 300
      classes: 10
"""

RETURN = r"""
action:
  description: C(unchanged), C(downloaded), or in check mode C(planned).
  returned: success
  type: str
  sample: unchanged
counts:
  description: How many files or folders each pattern of O(counts) matches. Empty if the data is not there yet.
  returned: success
  type: dict
  sample: {training videos: 300, classes: 10}
rows:
  description: The Parquet files of each pattern of O(rows) with their rows, sorted by name.
  returned: success
  type: dict
  sample: {train: [{file: train_0.parquet, rows: 1000}]}
manifest:
  description: SHA-256 over names and sizes of the files that were counted; another state of the data has another one.
  returned: success
  type: str
  sample: 9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08
archive:
  description: Size in bytes and SHA-256 of the archive; null if none was fetched.
  returned: success
  type: dict
  sample: {size: 171015680, sha256: 9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08}
"""

import os
from typing import Any, Callable

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.dgxc.workloads.plugins.module_utils._argument_specs import progress_spec
from ansible_collections.dgxc.workloads.plugins.module_utils._dataset import DatasetProblem, Datasets, Wish
from ansible_collections.dgxc.workloads.plugins.module_utils._download import (
    Download,
    DownloadProblem,
    Source,
    credentials_from_file,
    source_problems,
)
from ansible_collections.dgxc.workloads.plugins.module_utils._progress import Progress

SETTINGS = ("url", "path", "given", "username", "password", "sha256", "expected")


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            **progress_spec(),
            "path": {"type": "str", "required": True},
            "url": {"type": "str", "default": ""},
            "source": {"type": "str", "default": ""},
            "root": {"type": "str", "default": ""},
            "sha256": {"type": "str", "default": ""},
            "username": {"type": "str", "default": ""},
            "password": {"type": "str", "default": "", "no_log": True},
            "credentials_file": {"type": "path", "default": ""},
            "page": {"type": "str", "default": ""},
            "counts": {"type": "dict", "default": {}},
            "expected": {"type": "dict", "default": {}},
            "rows": {"type": "dict", "default": {}},
            "settings": {"type": "dict", "default": {}},
            "tries": {"type": "int", "default": 5},
            "timeout": {"type": "float", "default": 60},
            "wait": {"type": "float", "default": 3600},
        },
        supports_check_mode=True,
    )
    options = module.params
    settings = {name: str(options["settings"].get(name) or name) for name in SETTINGS}
    try:
        source = make_source(options, settings)
        problems = [] if source is None else source_problems(source)
        problems += wish_problems(options, settings)
        if problems:
            module.fail_json(msg=" ".join(problems))

        def make_download(wanted: Source, target: str, alive: Callable[[], None]) -> Download:
            return Download(wanted, target, alive, options["tries"], options["timeout"])

        wish = Wish(
            path=options["path"],
            source=source,
            root=options["root"],
            counts=options["counts"],
            expected={name: int(number) for name, number in options["expected"].items()},
            rows=options["rows"],
        )
        with Progress(options["progress_path"]) as progress:
            datasets = Datasets(make_download, settings, options["wait"], tell=progress.tell)
            outcome = datasets.ensure(wish, module.check_mode)
    except (DatasetProblem, DownloadProblem) as problem:
        module.fail_json(msg=str(problem))
    contents = outcome.contents
    state = {"path": options["path"], "source": options["source"] or options["url"] or "given"}
    module.exit_json(
        changed=outcome.changed,
        action=outcome.action,
        counts=contents.counts if contents else {},
        rows=contents.rows if contents else {},
        manifest=contents.manifest if contents else "",
        archive=outcome.archive._asdict() if outcome.archive else None,
        diff={"before": {"path": None} if outcome.changed else state, "after": state},
    )


def make_source(options: dict[str, Any], settings: dict[str, str]) -> Source | None:
    """Return where the data comes from, with the user's key; None for data that is there. Raises DownloadProblem."""
    if not options["url"]:
        return None
    username, password = options["username"], options["password"]
    if not username and not password and options["credentials_file"]:
        username, password = credentials_from_file(options["credentials_file"])
    return Source(
        name=options["source"] or options["url"],
        url=options["url"],
        username=username,
        password=password,
        sha256=options["sha256"],
        page=options["page"],
        settings=settings,
    )


def wish_problems(options: dict[str, Any], settings: dict[str, str]) -> list[str]:
    """Return the sentences that say what is wrong with path, patterns and numbers."""
    problems = []
    path = options["path"]
    if not os.path.isabs(path) or os.path.normpath(path) != path:
        problems.append(
            "{0} is {1!r}: give an absolute path without '..', '.' or a '/' at its end.".format(settings["path"], path)
        )
    for option in ("counts", "rows"):
        for name, pattern in options[option].items():
            if not isinstance(pattern, str) or os.path.isabs(pattern) or ".." in pattern.split("/"):
                problems.append("{0}.{1} is {2!r}: give a pattern below the path.".format(option, name, pattern))
    for name, number in options["expected"].items():
        if name not in options["counts"]:
            problems.append("expected.{0} has no pattern of that name in counts: add one.".format(name))
        if isinstance(number, bool) or not str(number).isdigit():
            problems.append("{0}: {1} is {2!r}: give a whole number.".format(settings["expected"], name, number))
    return problems


if __name__ == "__main__":
    main()
