# Copyright: (c) 2026, The dgxc.workloads developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What the reconciler remembers on shared storage: which spec led to which runs.

This file is private to the collection. The layout:

    <state folder>/<spec name>/plan-<spec digest>-<site digest>.json    the runs that this spec led to on this site
    <state folder>/<spec name>/failed-<spec digest>-<site digest>.json  why it could not be planned, how often
    <state folder>/<spec name>/cancelled-<run folder>-<attempt>.json    the reconciler itself cancelled this attempt
    <state folder>/<spec name>/policy.json                              the spec's newest word on prune, owner, file

A plan is written once and never changed, so two reconcilers can write at once and none loses what the other knows.
Losing the folder costs nothing but time: the runs are planned again, and found where they are.
"""

from __future__ import annotations

import contextlib
import os
import re
from dataclasses import dataclass, field
from typing import Any, Mapping

from ansible_collections.dgxc.workloads.plugins.module_utils._files import (
    pretty_json,
    read_json_object,
    write_text,
)

SCHEMA = 1
DIGITS = 12
_NAME = re.compile(r"[a-z0-9][a-z0-9-]{0,39}")
_FILE = re.compile(r"(plan|failed)-([0-9a-f]{12})-([0-9a-f]{12})\.json")


@dataclass
class Known:
    """All that is remembered of one name. `plans` are sorted by time, the newest last."""

    name: str
    plans: list[dict[str, Any]] = field(default_factory=list)
    failures: dict[tuple[str, str], dict[str, Any]] = field(default_factory=dict)
    cancelled: set[str] = field(default_factory=set)
    policy: dict[str, Any] = field(default_factory=dict)

    def plan_for(self, digest: str, site: str) -> dict[str, Any] | None:
        """The plan of a spec: the one for this site as it is, else the newest for an earlier one."""
        of_spec = [plan for plan in self.plans if plan["digest"][:DIGITS] == digest[:DIGITS]]
        same = [plan for plan in of_spec if plan["site"][:DIGITS] == site[:DIGITS]]
        found = same or of_spec
        return found[-1] if found else None

    def failure_for(self, digest: str, site: str) -> dict[str, Any] | None:
        """What went wrong when this spec was last planned for this site, if it did."""
        return self.failures.get((digest[:DIGITS], site[:DIGITS]))

    def was_cancelled(self, run_dir: str, attempt: int | None) -> bool:
        """Whether the reconciler itself cancelled this attempt."""
        return _cancel_file(run_dir, attempt) in self.cancelled


def read_state(folder: str) -> dict[str, Known]:
    """Everything that is remembered, by name. Damaged files count as absent."""
    state: dict[str, Known] = {}
    try:
        names = sorted(os.listdir(folder))
    except (FileNotFoundError, NotADirectoryError):
        return state
    for name in names:
        path = os.path.join(folder, name)
        if _NAME.fullmatch(name) and os.path.isdir(path):
            state[name] = _read_known(name, path)
    return state


def _read_known(name: str, path: str) -> Known:
    known = Known(name)
    for entry in sorted(os.listdir(path)):
        match = _FILE.fullmatch(entry)
        if match is None:
            if entry.startswith("cancelled-"):
                known.cancelled.add(entry)
            continue
        content = read_json_object(os.path.join(path, entry))
        if content is None:
            continue
        if match.group(1) == "failed":
            known.failures[(match.group(2), match.group(3))] = content
        elif _is_plan(content):
            known.plans.append(content)
    known.plans.sort(key=lambda plan: (plan["time"], plan["site"]))
    known.policy = read_json_object(os.path.join(path, "policy.json")) or {}
    return known


def _is_plan(content: Mapping[str, Any]) -> bool:
    runs = content.get("runs")
    return (
        all(isinstance(content.get(name), str) for name in ("digest", "site"))
        and isinstance(content.get("time"), (int, float))
        and isinstance(runs, list)
        and all(isinstance(run, dict) and isinstance(run.get("run_dir"), str) for run in runs)
    )


def _folder(folder: str, name: str) -> str:
    path = os.path.join(folder, name)
    os.makedirs(path, exist_ok=True)
    return path


def _plan_name(kind: str, digest: str, site: str) -> str:
    return f"{kind}-{digest[:DIGITS]}-{site[:DIGITS]}.json"


def store_plan(folder: str, plan: Mapping[str, Any]) -> bool:
    """Remember the runs of a spec. True when this was not known."""
    path = os.path.join(_folder(folder, plan["name"]), _plan_name("plan", plan["digest"], plan["site"]))
    old = read_json_object(path)
    if old is not None and _is_plan(old) and old["runs"] == plan["runs"]:
        _forget(os.path.join(folder, plan["name"], _plan_name("failed", plan["digest"], plan["site"])))
        return False
    # 0600: the variables of a workload may hold what only its user shall see.
    write_text(path, pretty_json(dict(plan, schema=SCHEMA)), mode=0o600)
    _forget(os.path.join(folder, plan["name"], _plan_name("failed", plan["digest"], plan["site"])))
    return True


def store_failure(folder: str, name: str, digest: str, site: str, message: str, now: float) -> None:
    """Remember that a spec could not be planned, so that it is not tried at every look."""
    path = os.path.join(_folder(folder, name), _plan_name("failed", digest, site))
    before = read_json_object(path) or {}
    count = before.get("count") if isinstance(before.get("count"), int) else 0
    content = {"schema": SCHEMA, "message": message, "time": now, "count": (count or 0) + 1}
    write_text(path, pretty_json(content), mode=0o600)


def store_policy(folder: str, name: str, policy: Mapping[str, Any]) -> None:
    """Remember what the spec says of its own removal. Written only when it changed."""
    path = os.path.join(_folder(folder, name), "policy.json")
    if read_json_object(path) != dict(policy):
        write_text(path, pretty_json(dict(policy)), mode=0o600)


def store_cancellation(folder: str, name: str, run_dir: str, attempt: int | None, reason: str, now: float) -> None:
    """Remember, before it happens, that the reconciler cancels an attempt: it may be wanted again one day."""
    path = os.path.join(_folder(folder, name), _cancel_file(run_dir, attempt))
    write_text(path, pretty_json({"schema": SCHEMA, "reason": reason, "time": now}), mode=0o600)


def _cancel_file(run_dir: str, attempt: int | None) -> str:
    return "cancelled-{}-{}.json".format(os.path.basename(run_dir.rstrip("/")), attempt)


def _forget(path: str) -> None:
    with contextlib.suppress(FileNotFoundError):
        os.unlink(path)
