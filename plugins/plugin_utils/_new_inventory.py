# Copyright: (c) 2026, The dgxc.workloads developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A first inventory for a cluster, from what its login node shows, for a person to review.

This file is private to the collection. All functions are pure.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from ansible_collections.dgxc.workloads.plugins.module_utils._site_settings import TO_BE_FILLED_IN

_HEAD = """\
---
# {what}, as its login node showed it{when}. Review it: what is {todo} has to be filled in.
"""


def inventory(facts: Mapping[str, Any], name: str, host: str, user: str, choices: Mapping[str, Any]) -> dict[str, str]:
    """Return the files of an inventory by relative path.

    The facts belong to a group with the cluster's name, so that inventories of several clusters can be loaded at once.
    The host is called ``<name>-login``: names of groups have no hyphen, so it is never the name of a group as well.

    :param facts: as preflight_login tells them with ``state: described``.
    :param name: of the cluster, one that a group may have.
    :param choices: further variables of the connection that were used to look, such as ``ansible_port``.
    """
    when = " on " + str(choices["date"]) if choices.get("date") else ""
    return {
        "hosts.yml": _HEAD.format(what="Cluster " + name, when=when, todo=repr(TO_BE_FILLED_IN))
        + _hosts(facts, name, host, user, choices),
        f"group_vars/{name}.yml": _HEAD.format(what="Facts about " + name, when=when, todo=repr(TO_BE_FILLED_IN))
        + "# Each fact is described in docs/clusters.md.\n\n"
        + _facts(facts),
    }


def _hosts(facts: Mapping[str, Any], name: str, host: str, user: str, choices: Mapping[str, Any]) -> str:
    lines = [
        "slurm_login:",
        "  children:",
        f"    {name}:",
        "      hosts:",
        f"        {name}-login:",
        f"          ansible_host: {_text(host)}",
        f"          ansible_user: {_text(user)}",
    ]
    for variable in ("ansible_port", "ansible_ssh_private_key_file", "ansible_ssh_common_args"):
        if choices.get(variable):
            lines.append(f"          {variable}: {_text(choices[variable])}")
    python = facts.get("python") or {}
    if python.get("executable"):
        lines += [
            f"          # Python {python.get('version')}.",
            f"          ansible_python_interpreter: {_text(python['executable'])}",
        ]
    return "\n".join(lines) + "\n"


def _text(value: Any) -> str:
    """Return a value as YAML; texts are quoted, so that none becomes something else."""
    return json.dumps(value, ensure_ascii=False)


def _facts(facts: Mapping[str, Any]) -> str:
    partitions = facts.get("partitions") or []
    chosen = choose_partition(partitions)
    lines: list[str] = []
    for problem in facts.get("problems") or []:
        lines += [f"# NOT WELL: {problem['evidence']}: {problem['remedy']}.", ""]
    versions = facts.get("versions") or {}
    if versions and not versions.get("pyxis"):
        lines += [
            "# NOT WELL: srun has no option --container-image, so there is no Pyxis. Nothing can run without it.",
            "",
        ]
    if versions:
        shown = ", ".join(f"{tool} {version}" for tool, version in sorted(versions.items()))
        lines += [f"# Seen: {shown}; accounting {'answers' if facts.get('accounting') else 'does not answer'}.", ""]

    lines += _fact("dgxc_shared_root", *_shared_root(facts.get("shared_folders") or []))
    lines += _fact("dgxc_environment_modules", facts.get("environment_modules") or [], _slurm_is_found(facts))
    if facts.get("slurm_bin_dir"):
        lines += _fact("dgxc_slurm_bin_dir", facts["slurm_bin_dir"])
    lines += _fact("dgxc_slurm_account", *_account(facts.get("accounts"), bool(facts.get("accounting"))))
    lines += _fact("dgxc_slurm_partition", *_partition(partitions, chosen))
    if facts.get("qos"):
        lines += _fact("dgxc_slurm_qos", "", "Empty for the default; allowed are " + ", ".join(facts["qos"]) + ".")
    if chosen:
        lines += _fact(
            "dgxc_gpus_per_node", chosen.get("gpus_per_node") or 0, "As the nodes of that partition have them."
        )
        kinds = chosen.get("gpu_types") or []
        if kinds:
            lines += _fact(
                "dgxc_gpu_type",
                "" if len(kinds) == 1 else TO_BE_FILLED_IN,
                f"Types in Slurm: {', '.join(kinds)}. Name one where the site or a mixed partition asks for it.",
            )
        if chosen.get("features"):
            lines += _fact("dgxc_slurm_constraint", "", "Features of its nodes: " + ", ".join(chosen["features"]) + ".")
    lines += _fact(
        "dgxc_fabric",
        {"env": {}, "mounts": []},
        "What NCCL and UCX have to be told on this network, and what the container must see for it.",
    )
    return "\n".join(lines).rstrip("\n") + "\n"


def _fact(name: str, value: Any, comment: str = "") -> list[str]:
    return [*([f"# {comment}"] if comment else []), f"{name}: {_text(value)}", ""]


def _slurm_is_found(facts: Mapping[str, Any]) -> str:
    slurm = facts.get("slurm") or {}
    return f"Slurm is found by {slurm['found']}, in {slurm['folder']}." if slurm else "Slurm was not found."


def _shared_root(folders: Sequence[str]) -> tuple[str, str]:
    if not folders:
        return TO_BE_FILLED_IN, "A folder of your own on storage that all nodes share; none could be told by its name."
    others = ", ".join(folders[1:4])
    return folders[0], "On shared storage, and there." + (f" Others: {others}." if others else "")


def _account(accounts: Sequence[str] | None, accounting: bool) -> tuple[str, str]:
    if not accounts:
        return "", "No account is known for you." if accounting else "There is no accounting."
    if len(accounts) == 1:
        return accounts[0], "Your only account."
    return TO_BE_FILLED_IN, "Your accounts: " + ", ".join(accounts) + "."


def choose_partition(partitions: Sequence[Mapping[str, Any]]) -> Mapping[str, Any] | None:
    """Return the partition that a training would go to: with GPUs and up, the default first, else the largest."""
    fitting = [one for one in partitions if one.get("gpus_per_node") and one.get("state") == "UP"]
    fitting.sort(key=lambda one: (not one.get("default"), -int(one.get("nodes") or 0), str(one.get("name"))))
    return fitting[0] if fitting else None


def _partition(partitions: Sequence[Mapping[str, Any]], chosen: Mapping[str, Any] | None) -> tuple[str, str]:
    seen = "; ".join(
        "{} ({} nodes x {} GPUs{})".format(
            one["name"], one.get("nodes"), one.get("gpus_per_node"), ", default" if one.get("default") else ""
        )
        for one in partitions
    )
    if chosen is None:
        return TO_BE_FILLED_IN, f"No partition with GPUs is up. Partitions: {seen or 'none'}."
    return str(chosen["name"]), f"Partitions: {seen}."
