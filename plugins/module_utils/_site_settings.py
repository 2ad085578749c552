# Copyright: (c) 2026, The dgxc.workloads developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Judges the facts about a site (``dgxc_...``) that an inventory gives. Private to this collection."""

from __future__ import annotations

import difflib
import os
import re
from typing import Any, Iterable, Mapping, Sequence

# Fact -> (what it is, the environment variable that the inventories read it from)
_MEANING = {
    "dgxc_login_node": ("the host name or address of the cluster's login node", "DGXC_LOGIN_NODE"),
    "dgxc_login_user": ("your user name on the login node", "DGXC_LOGIN_USER"),
    "dgxc_shared_root": ("the folder on shared storage that you own", "DGXC_SHARED_ROOT"),
    "dgxc_slurm_account": ("the Slurm account that jobs are charged to", "DGXC_SLURM_ACCOUNT"),
    "dgxc_slurm_partition": ("the Slurm partition that jobs go to", "DGXC_SLURM_PARTITION"),
}
# What an inventory gives for a fact that is to be filled in, where an empty text already has a meaning.
TO_BE_FILLED_IN = "?"
# Facts that may be left out of an inventory, or be empty, which stands for the cluster's own default.
_MAY_BE_EMPTY = frozenset(("dgxc_slurm_account", "dgxc_slurm_partition"))

KNOWN_FACTS = frozenset(_MEANING) | frozenset(
    (
        "dgxc_container_image",
        "dgxc_environment_modules",
        "dgxc_fabric",
        "dgxc_gpus_per_node",
        "dgxc_hosts",
        "dgxc_site_file",
        "dgxc_slurm_bin_dir",
        "dgxc_slurm_qos",
        "dgxc_slurm_reservation",
    )
)
FABRIC_KEYS = ("env", "mounts")

# Scripts carry these paths without quotes, and Pyxis takes ',' and ':' apart.
_PATH = re.compile(r"/[A-Za-z0-9._/@+=-]*")
_SLURM_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._+@,-]*")
_ENV_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
# What a shell takes as it stands, behind 'export NAME='.
_ENV_VALUE = re.compile(r"[A-Za-z0-9_.,:/+@%=^-]*")
_SECRET_NAME = re.compile(r"TOKEN|SECRET|PASSWORD|PASSWD|API_?KEY|CREDENTIAL", re.IGNORECASE)
_MOUNT_FLAGS = re.compile(r"[a-z0-9=_-]+(?:\+[a-z0-9=_-]+)*")
# Variables that name a file which the container has to see.
_FILES_IN_CONTAINER = ("NCCL_TOPO_FILE", "NCCL_GRAPH_FILE", "NCCL_CONF_FILE")


def site_problems(site: Mapping[str, Any]) -> list[str]:
    """Return a sentence for each fact that is missing or cannot be right; none means that all is well.

    :param site: all variables whose names begin with ``dgxc_``.
    """
    problems: list[str] = []
    for name in sorted(set(site) - KNOWN_FACTS):
        near = nearest(name, KNOWN_FACTS, 0.86)
        if near:
            problems.append(
                "{0} is not a fact that anything reads: write {1}, or give it another name.".format(name, near)
            )
    for name, (meaning, variable) in _MEANING.items():
        if name not in site and name != "dgxc_shared_root":
            continue
        value = site.get(name)
        if value == TO_BE_FILLED_IN or (value in (None, "") and name not in _MAY_BE_EMPTY):
            problems.append(_not_given(name, meaning, variable, str(site.get("dgxc_site_file") or "")))
        elif name == "dgxc_shared_root":
            problems += path_problems(name, value)
        elif name in ("dgxc_slurm_account", "dgxc_slurm_partition"):
            problems += slurm_name_problems(name, value)
        elif not isinstance(value, str) or any(character.isspace() for character in value) or value.startswith("-"):
            problems.append("{0} is {1!r}: give {2}, without blanks.".format(name, value, meaning))
    for name in ("dgxc_slurm_qos", "dgxc_slurm_reservation"):
        problems += slurm_name_problems(name, site.get(name))
    problems += _modules_problems(site.get("dgxc_environment_modules"))
    problems += fabric_problems(site.get("dgxc_fabric"))
    return problems


def _not_given(name: str, meaning: str, variable: str, site_file: str) -> str:
    place = "in {0}".format(site_file) if site_file else "in the inventory"
    sentence = "{0} is not given: set it to {1} {2}, or export {3}".format(name, meaning, place, variable)
    if name in _MAY_BE_EMPTY:
        sentence += " (an empty text means that the cluster's default will do)"
    return sentence + "."


def path_problems(name: str, value: Any) -> list[str]:
    """Return what is wrong with a path on the cluster: it has to be absolute, canonical and plain."""
    if not isinstance(value, str) or not os.path.isabs(value):
        return ["{0} is {1!r}: give an absolute path.".format(name, value)]
    canonical = re.sub(r"^/+", "/", os.path.normpath(value))
    if canonical != value:
        return [
            "{0} is {1!r}: write it without '..', '.', doubled '/' or a '/' at its end, as {2}.".format(
                name, value, canonical
            )
        ]
    if not _PATH.fullmatch(value):
        return [
            "{0} is {1!r}: use only letters, digits and the characters . _ / @ + = - in it, because scripts and"
            " container mounts carry it without quotes.".format(name, value)
        ]
    if value == "/":
        return ["{0} is '/': give a folder of your own.".format(name)]
    return []


def slurm_name_problems(name: str, value: Any) -> list[str]:
    """Return what is wrong with the name of an account, a partition and the like; empty and null stand for none."""
    if value is None or value == "":
        return []
    if not isinstance(value, str) or not _SLURM_NAME.fullmatch(value):
        return [
            "{0} is {1!r}: give the name as Slurm knows it, without blanks, quotes or placeholders.".format(name, value)
        ]
    return []


def _modules_problems(value: Any) -> list[str]:
    if value is None:
        return []
    if not isinstance(value, (list, tuple)) or not all(
        isinstance(item, str) and re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._/+-]*", item) for item in value
    ):
        return ["dgxc_environment_modules is {0!r}: give a list of module names, such as [slurm].".format(plain(value))]
    return []


def fabric_problems(fabric: Any) -> list[str]:
    """Return what is wrong with a network profile, ``{env: {NAME: value or null}, mounts: [path]}``."""
    if fabric is None:
        return []
    if not isinstance(fabric, Mapping):
        return ["dgxc_fabric is {0!r}: give a dictionary with the keys env and mounts.".format(plain(fabric))]
    problems = [unknown_key("dgxc_fabric", str(key), FABRIC_KEYS) for key in fabric if key not in FABRIC_KEYS]
    problems += env_problems("dgxc_fabric.env", fabric.get("env"))
    mounts = fabric.get("mounts")
    problems += mount_problems("dgxc_fabric.mounts", mounts)
    return problems


def env_problems(name: str, env: Any) -> list[str]:
    """Return what is wrong with environment variables that end up as ``export NAME=value`` without quotes."""
    if env is None:
        return []
    if not isinstance(env, Mapping):
        return ["{0} is {1!r}: give a dictionary of environment variables.".format(name, plain(env))]
    problems = []
    for key, value in env.items():
        where = "{0}.{1}".format(name, key)
        if not _ENV_NAME.fullmatch(str(key)):
            problems.append("{0} is not a name for an environment variable: use letters, digits and '_'.".format(where))
        elif isinstance(value, bool):
            problems.append(
                "{0} is a truth value, which would arrive as {1}: write 1 or 0, or the text in quotes.".format(
                    where, value
                )
            )
        elif value is not None and not isinstance(value, (str, int, float)):
            problems.append("{0} is {1!r}: give a text, a number or null.".format(where, plain(value)))
        elif value not in (None, "") and _SECRET_NAME.search(str(key)):
            problems.append(
                "{0} looks like a secret, and the submission script would show it to every user: leave it out and let"
                " the program read it from a file of mode 0600.".format(where)
            )
        elif value is not None and not _ENV_VALUE.fullmatch(str(value)):
            problems.append(
                "{0} is {1!r}: use only letters, digits and the characters _ . , : / + @ % = ^ - in it, because it is"
                " exported without quotes.".format(where, str(value))
            )
    return problems


def mount_problems(name: str, mounts: Any) -> list[str]:
    """Return what is wrong with container mounts, each ``SOURCE[:TARGET[:FLAG+FLAG]]`` as Pyxis takes them apart."""
    if mounts is None:
        return []
    if not isinstance(mounts, (list, tuple)):
        return ["{0} is {1!r}: give a list of paths, such as [/cm/shared].".format(name, plain(mounts))]
    problems = []
    targets: dict[str, str] = {}
    for mount in mounts:
        if mount is None:
            continue
        shape = isinstance(mount, str) and not re.search(r"[\s,$~'\"\\]", mount) and 1 <= len(mount.split(":")) <= 3
        parts = mount.split(":") if shape else []
        if not shape or not all(os.path.isabs(part) and _PATH.fullmatch(part) for part in parts[:2]):
            problems.append(
                "{0} contains {1!r}: write SOURCE, SOURCE:TARGET or SOURCE:TARGET:FLAGS with absolute paths and without"
                " blanks, commas, quotes, '~' or '$'.".format(name, plain(mount))
            )
            continue
        if len(parts) == 3 and not _MOUNT_FLAGS.fullmatch(parts[2]):
            problems.append("{0} contains {1!r}: join its flags with '+', as in ro+rprivate.".format(name, mount))
        target = mount_target(mount)
        if target in targets:
            problems.append(
                "{0} mounts {1!r} and {2!r} to the same place: keep one.".format(name, targets[target], mount)
            )
        targets[target] = mount
    return problems


def mount_target(mount: str) -> str:
    """Return where in the container a mount is seen."""
    parts = mount.split(":")
    return (parts[1] if len(parts) > 1 else parts[0]).rstrip("/") or "/"


def unseen_file_problems(name: str, env: Mapping[str, Any], mounts: Iterable[str], mounts_name: str) -> list[str]:
    """Return a sentence for each file named by a variable that no mount shows to the container."""
    targets = [mount_target(mount) for mount in mounts]
    problems = []
    for variable in _FILES_IN_CONTAINER:
        path = env.get(variable)
        if path is None or path == "":
            continue
        seen = any(target == "/" or str(path) == target or str(path).startswith(target + "/") for target in targets)
        if not seen:
            problems.append(
                "{0}.{1} names {2}, which the container does not see: add its folder to {3}.".format(
                    name, variable, path, mounts_name
                )
            )
    return problems


def unknown_key(name: str, key: str, known: Sequence[str]) -> str:
    """Return the sentence about a key that nothing reads, with the nearest one that is read."""
    near = nearest(key, known, 0.5)
    remedy = "write {0}".format(near) if near else "remove it; known are {0}".format(", ".join(sorted(known)))
    return "{0} has the unknown key {1!r}: {2}.".format(name, key, remedy)


def nearest(word: str, known: Iterable[str], likeness: float) -> str | None:
    """Return the known word most like this one, if any is at least so much like it (0 to 1)."""
    matches = difflib.get_close_matches(word, sorted(known), 1, likeness)
    return matches[0] if matches else None


def plain(value: Any) -> Any:
    """Return the value without Ansible's own kinds of containers, whose names would otherwise show in a sentence."""
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    # What YAML makes of a date, and whatever else there may be, is a text for us.
    return value if value is None or isinstance(value, (bool, int, float)) else str(value)
