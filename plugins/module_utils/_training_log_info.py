# Copyright: (c) 2026, The dgxc.workloads developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What the logs of one training say, read where they lie.

This file is private to the collection.
"""

from __future__ import annotations

import os
from typing import Any, Mapping

from ansible_collections.dgxc.workloads.plugins.module_utils._gates import likely_cause
from ansible_collections.dgxc.workloads.plugins.module_utils._trainer_state import StateError, read_trainer_state
from ansible_collections.dgxc.workloads.plugins.module_utils._training_log import (
    LogFacts,
    last_lines,
    merge_facts,
    read_log_file,
)


def training_log_info(parameters: Mapping[str, Any]) -> dict[str, Any]:
    """Do what the module is asked and return its result; `failed` says how to leave.

    A log that is not there is no failure unless none is: one of two streams may have nothing to say.
    """
    logs: list[dict[str, Any]] = []
    parts: list[LogFacts] = []
    problems: list[str] = []
    for path in parameters["paths"]:
        entry: dict[str, Any] = {"path": path, "found": False, "bytes": None, "tail": []}
        logs.append(entry)
        try:
            facts = read_log_file(path, parameters["log_format"])
            entry.update(found=True, bytes=facts.bytes_read, tail=last_lines(path, parameters["lines"]))
            parts.append(facts)
        except FileNotFoundError:
            continue
        except OSError as error:
            problems.append("{}: {}".format(path, error.strerror or error))
    merged = merge_facts(parts) if parts else None
    told = merged.as_dict() if merged is not None else None
    if told is not None and not parameters["series"]:
        del told["series"]
    cause = likely_cause(merged)
    answer: dict[str, Any] = {
        "failed": False,
        "changed": False,
        "logs": logs,
        "facts": told,
        "cause": None if cause is None else vars(cause),
        "trainer_state": None,
    }
    state = parameters["trainer_state"]
    if state:
        try:
            answer["trainer_state"] = vars(read_trainer_state(state))
        except StateError as error:
            problems.append(f"{state} {error}.")
        except OSError as error:
            problems.append("{}: {}".format(state, error.strerror or error))
    if not parts and not problems:
        folders = sorted({os.path.dirname(path) for path in parameters["paths"]})
        problems.append("none of the logs is there; look into {}".format(", ".join(folders)))
    if problems:
        answer.update(failed=True, msg="\n".join(problems))
    return answer
