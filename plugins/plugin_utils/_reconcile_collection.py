# Copyright: (c) 2026, The dgxc.workloads developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What the reconciler has to know of this collection, of the site, and of the repository with the specs.

This file is private to the collection.
"""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable, Mapping
from typing import Any

import yaml

from ansible_collections.dgxc.workloads.plugins.module_utils._files import canonical_json

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
SCHEMA = os.path.join(ROOT, "roles", "reconcile", "files", "run-spec.schema.json")
#: Variables of an inventory that change what a spec leads to, beside those of the workload itself.
_SITE_PREFIXES = ("dgxc_", "image_", "preflight_", "run_root")
#: What a role has left behind in an earlier play is no fact of a site.
_NO_FACTS = ("preflight_checks",)


def read_schema() -> dict[str, Any]:
    """The JSON Schema of run specs."""
    with open(SCHEMA, encoding="utf-8") as stream:
        schema: dict[str, Any] = json.load(stream)
    return schema


def workload_variables(workload: str, root: str = ROOT) -> frozenset[str] | None:
    """The public variables of a workload's role; None where its argument specs cannot be read."""
    try:
        with open(os.path.join(root, "roles", workload, "meta", "argument_specs.yml"), encoding="utf-8") as stream:
            return frozenset(yaml.safe_load(stream)["argument_specs"]["main"]["options"])
    except (OSError, KeyError, TypeError, yaml.YAMLError):
        return None


def collection_version(root: str = ROOT) -> str:
    """The version of this collection, installed or in a checkout; `unknown` where neither file says."""
    try:
        with open(os.path.join(root, "MANIFEST.json"), encoding="utf-8") as stream:
            return str(json.load(stream)["collection_info"]["version"])
    except (OSError, ValueError, KeyError):
        pass
    try:
        with open(os.path.join(root, "galaxy.yml"), encoding="utf-8") as stream:
            return str(yaml.safe_load(stream)["version"])
    except (OSError, ValueError, KeyError, TypeError, yaml.YAMLError):
        return "unknown"


def site_facts(
    variables: Mapping[str, Any],
    workload: str,
    template: Callable[[Any], Any],
    taken: Mapping[str, Any],
    known: dict[str, Any] | None = None,
) -> dict[str, Any]:
    """The facts of the inventory that count for a workload, as plain values.

    A fact that cannot be evaluated is told as such; the role will say what is wrong with it. What the spec says itself
    (`taken`) is no fact of the site.

    :param known: what earlier calls evaluated, by name; what this one evaluates is added.
    """
    evaluated = {} if known is None else known
    facts: dict[str, Any] = {}
    for name in sorted(variables):
        if not name.startswith((*_SITE_PREFIXES, f"{workload}_")) or name in _NO_FACTS or name in taken:
            continue
        if name not in evaluated:
            try:
                value = json.loads(json.dumps(template(variables[name]), default=str))
                # What no digest can be made of, such as .nan, is told here and not for all specs at once.
                canonical_json(value).encode("utf-8")
                evaluated[name] = value
            except Exception as error:  # Whatever a template raises: only that it raises counts here.
                evaluated[name] = f"cannot be evaluated: {type(error).__name__}"
        facts[name] = evaluated[name]
    return facts


def commit_of(folder: str) -> str:
    """The commit that a folder's checkout is at, with `+` when the folder has changes; '' where there is no Git."""

    def git(*arguments: str) -> str:
        command = ["git", "-C", folder, *arguments]
        return subprocess.run(command, text=True, capture_output=True, check=True, timeout=60).stdout.strip()

    try:
        commit = git("rev-parse", "HEAD")
        return commit + ("+" if git("status", "--porcelain", "--", ".") else "")
    except (OSError, subprocess.SubprocessError):
        return ""
