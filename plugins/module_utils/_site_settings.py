# Copyright: (c) 2026, The dgxc.workloads developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The facts about a site (``dgxc_...``) that an inventory gives, as one schema. Private to this collection.

``FACTS`` is the schema: name, kind, meaning, default, environment variable. docs/clusters.md shows the same table, and
a test holds the two together. What a fact asks for of Slurm and Pyxis is said by the functions at the end.
"""

from __future__ import annotations

import difflib
import os
import re
from dataclasses import dataclass
from typing import Any, Callable, Iterable, Mapping, Sequence

# What an inventory gives for a fact that is to be filled in, where an empty text already has a meaning.
TO_BE_FILLED_IN = "?"
FABRIC_KEYS = ("env", "mounts")
PROXY_KEYS = ("http", "https", "no")
#: Key -> the options of Pyxis for true and for false.
CONTAINER_OPTIONS = {
    "entrypoint": ("--container-entrypoint", "--no-container-entrypoint"),
    "mount_home": ("--container-mount-home", "--no-container-mount-home"),
    "remap_root": ("--container-remap-root", "--no-container-remap-root"),
    "writable": ("--container-writable", "--container-readonly"),
}
GRES_STYLES = ("gpus_per_node", "gres")
IMAGE_DELIVERIES = ("registry", "upload", "import")
#: More than any node has.
GPUS_MOST = 72

# Scripts carry these paths without quotes, and Pyxis takes ',' and ':' apart.
_PATH = re.compile(r"/[A-Za-z0-9._/@+=-]*")
_SLURM_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._+@,-]*")
_CONSTRAINT = re.compile(r"[A-Za-z0-9_.:&|,*()\[\]-]+")
_GPU_TYPE = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]*")
_MEMORY = re.compile(r"(?:[0-9]+[KMGT]?)?")
_IMAGE = re.compile(r"[A-Za-z0-9._:/#@+-]+")
_OPTION_NAME = re.compile(r"[a-z][a-z0-9-]*")
# A directive and a command line take these as they stand.
_OPTION_VALUE = re.compile(r"[A-Za-z0-9_.,:/+@%=&|!*()\[\]^-]+")
_PROXY = re.compile(r"https?://[A-Za-z0-9._-]+(?::[0-9]{1,5})?/?")
_NO_PROXY = re.compile(r"[A-Za-z0-9._:/,-]+")
_ENV_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
# What a shell takes as it stands, behind 'export NAME='.
_ENV_VALUE = re.compile(r"[A-Za-z0-9_.,:/+@%=^-]*")
_SECRET_NAME = re.compile(r"TOKEN(?!IZER)|SECRET|PASSWORD|PASSWD|API_?KEY|CREDENTIAL", re.IGNORECASE)
_MOUNT_FLAGS = re.compile(r"[a-z0-9=_-]+(?:\+[a-z0-9=_-]+)*")
# Variables that name a file which the container has to see.
_FILES_IN_CONTAINER = ("NCCL_TOPO_FILE", "NCCL_GRAPH_FILE", "NCCL_CONF_FILE")

# Options that have a fact of their own, and options that belong to the run.
_SBATCH_FACTS = {
    "account": "dgxc_slurm_account",
    "constraint": "dgxc_slurm_constraint",
    "gpus": "dgxc_gpus_per_node",
    "gpus-per-node": "dgxc_gpus_per_node",
    "gres": "dgxc_gres_style",
    "mem": "dgxc_slurm_memory",
    "partition": "dgxc_slurm_partition",
    "qos": "dgxc_slurm_qos",
    "reservation": "dgxc_slurm_reservation",
}
_RUN_OPTIONS = frozenset(
    (
        "array",
        "chdir",
        "comment",
        "cpus-per-task",
        "dependency",
        "error",
        "exclude",
        "exclusive",
        "job-name",
        "nodes",
        "ntasks",
        "ntasks-per-node",
        "output",
        "parsable",
        "test-only",
        "time",
        "wait",
        "wrap",
    )
)
_SRUN_RUN_OPTIONS = frozenset(
    (
        "cpus-per-task",
        "error",
        "gpus-per-node",
        "gres",
        "job-name",
        "kill-on-bad-exit",
        "label",
        "mem",
        "nodes",
        "ntasks",
        "ntasks-per-node",
        "output",
    )
)


@dataclass(frozen=True)
class Fact:
    """One fact about a site.

    ``kind`` names the check (see ``_CHECKS``). ``default`` is what holds where the fact is not given. ``variable`` is
    the environment variable that the inventories of the collection read it from; such a fact is asked for where it is
    missing, unless ``may_be_empty``, which stands for the cluster's own default.
    """

    name: str
    kind: str
    meaning: str
    default: Any = None
    variable: str = ""
    required: bool = False
    may_be_empty: bool = False


FACTS: tuple[Fact, ...] = (
    # How the cluster is reached.
    Fact("dgxc_login_node", "word", "the host name or address of the cluster's login node", variable="DGXC_LOGIN_NODE"),
    Fact("dgxc_login_user", "word", "your user name on the login node", variable="DGXC_LOGIN_USER"),
    Fact("dgxc_hosts", "any", "the hosts or groups that a playbook works on", "slurm_login"),
    Fact("dgxc_site_file", "any", "the file of the inventory that messages about missing facts name", ""),
    # Where files lie.
    Fact(
        "dgxc_shared_root",
        "path",
        "the folder on shared storage that you own",
        variable="DGXC_SHARED_ROOT",
        required=True,
    ),
    # How Slurm is found, and what it is asked for.
    Fact("dgxc_environment_modules", "modules", "the environment modules that bring Slurm's commands and Python", []),
    Fact("dgxc_slurm_bin_dir", "folder", "the folder of Slurm's commands, where no module brings them", ""),
    Fact(
        "dgxc_slurm_account",
        "slurm_name",
        "the Slurm account that jobs are charged to",
        "",
        variable="DGXC_SLURM_ACCOUNT",
        may_be_empty=True,
    ),
    Fact(
        "dgxc_slurm_partition",
        "slurm_name",
        "the Slurm partition that jobs go to",
        "",
        variable="DGXC_SLURM_PARTITION",
        may_be_empty=True,
    ),
    Fact("dgxc_slurm_qos", "slurm_name", "the quality of service that jobs ask for", ""),
    Fact("dgxc_slurm_reservation", "slurm_name", "the reservation that jobs run in", ""),
    Fact("dgxc_slurm_constraint", "constraint", "the features that nodes must have, as --constraint takes them", ""),
    Fact("dgxc_slurm_memory", "memory", "what --mem is given where a workload wants all memory of a node", "0"),
    Fact("dgxc_gpus_per_node", "gpus", "the GPUs of one node", 8),
    Fact("dgxc_gres_style", "gres_style", "how GPUs are asked for: gpus_per_node or gres", "gpus_per_node"),
    Fact("dgxc_gpu_type", "gpu_type", "the GPUs' type in Slurm, where one has to be named, such as a100", ""),
    Fact("dgxc_sbatch_options", "sbatch_options", "further long options of sbatch for every job", {}),
    Fact("dgxc_srun_options", "srun_options", "further long options of the srun that starts a training", {}),
    # Containers.
    Fact("dgxc_container_image", "image", "an image that the site prescribes", ""),
    Fact("dgxc_container_options", "container_options", "what Pyxis is told about every container", {}),
    Fact("dgxc_image_delivery", "image_delivery", "how images come to the cluster: registry, upload or import", ""),
    # Networks.
    Fact("dgxc_fabric", "fabric", "the network between nodes: environment and mounts, together", {}),
    Fact("dgxc_proxies", "proxies", "the proxies through which nodes reach the outside", {}),
)
BY_NAME: dict[str, Fact] = {fact.name: fact for fact in FACTS}
KNOWN_FACTS = frozenset(BY_NAME)


def site_problems(site: Mapping[str, Any]) -> list[str]:
    """Return a sentence for each fact that is missing, unknown or cannot be right; none means that all is well.

    :param site: all variables whose names begin with ``dgxc_``.
    """
    problems: list[str] = []
    for name in sorted(set(site) - KNOWN_FACTS):
        near = nearest(name, KNOWN_FACTS, 0.75)
        problems.append(
            "{0} is not a fact that anything reads: {1}.".format(
                name,
                "write {0}, or give it another name".format(near)
                if near
                else "give it a name that does not begin with dgxc_, which is kept for the facts of docs/clusters.md",
            )
        )
    for fact in FACTS:
        if fact.name not in site and not fact.required:
            continue
        value = site.get(fact.name)
        empty = value in (None, "")
        if fact.variable and (value == TO_BE_FILLED_IN or (empty and not fact.may_be_empty)):
            problems.append(_not_given(fact, str(site.get("dgxc_site_file") or "")))
        elif not empty:
            problems += _CHECKS[fact.kind](fact.name, value)
    return problems


def fact_value(site: Mapping[str, Any], name: str) -> Any:
    """Return a fact, or its default where it is not given.

    Null and an empty text stand for the default as well, but for dgxc_slurm_memory, where the empty text asks for none.
    """
    value = site.get(name)
    if value is None or (value == "" and name != "dgxc_slurm_memory"):
        return BY_NAME[name].default
    return value


def _not_given(fact: Fact, site_file: str) -> str:
    place = "in {0}".format(site_file) if site_file else "in the inventory"
    sentence = "{0} is not given: set it to {1} {2}, or export {3}".format(
        fact.name, fact.meaning, place, fact.variable
    )
    if fact.may_be_empty:
        sentence += " (an empty text means that the cluster's default will do)"
    return sentence + "."


def _word_problems(name: str, value: Any) -> list[str]:
    if not isinstance(value, str) or any(character.isspace() for character in value) or value.startswith("-"):
        return ["{0} is {1!r}: give {2}, without blanks.".format(name, plain(value), BY_NAME[name].meaning)]
    return []


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


def _folder_problems(name: str, value: Any) -> list[str]:
    if not isinstance(value, str) or not os.path.isabs(value) or not _PATH.fullmatch(value):
        return ["{0} is {1!r}: give the absolute path of a folder on the login node.".format(name, plain(value))]
    return []


def _shaped(shape: re.Pattern[str], wanted: str) -> Callable[[str, Any], list[str]]:
    """Return the check of a text that has a shape as a whole."""

    def check(name: str, value: Any) -> list[str]:
        if isinstance(value, str) and shape.fullmatch(value):
            return []
        return ["{0} is {1!r}: {2}.".format(name, plain(value), wanted)]

    return check


def _one_of(words: Sequence[str]) -> Callable[[str, Any], list[str]]:
    """Return the check of one of some words."""

    def check(name: str, value: Any) -> list[str]:
        if value in words:
            return []
        near = nearest(str(value), words, 0.6)
        listed = "{0} or {1}".format(", ".join(words[:-1]), words[-1])
        return ["{0} is {1!r}: give {2}.".format(name, plain(value), near or listed)]

    return check


def _memory_problems(name: str, value: Any) -> list[str]:
    if not isinstance(value, bool) and isinstance(value, (str, int)) and _MEMORY.fullmatch(str(value)):
        return []
    return [
        "{0} is {1!r}: give what --mem of sbatch takes, such as 200G, or '' for no request.".format(name, plain(value))
    ]


def _gpus_problems(name: str, value: Any) -> list[str]:
    number = value if isinstance(value, int) and not isinstance(value, bool) else None
    if isinstance(value, str) and re.fullmatch(r"[0-9]{1,3}", value):
        number = int(value)
    if number is None or not 1 <= number <= GPUS_MOST:
        return ["{0} is {1!r}: give the GPUs of one node as a whole number.".format(name, plain(value))]
    return []


def _modules_problems(name: str, value: Any) -> list[str]:
    if not isinstance(value, (list, tuple)) or not all(
        isinstance(item, str) and re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._/+-]*", item) for item in value
    ):
        return ["{0} is {1!r}: give a list of module names, such as [slurm].".format(name, plain(value))]
    return []


def _sbatch_problems(name: str, value: Any) -> list[str]:
    return option_problems(name, value, "sbatch", _SBATCH_FACTS, _RUN_OPTIONS)


def _srun_problems(name: str, value: Any) -> list[str]:
    return option_problems(name, value, "srun", {}, _SRUN_RUN_OPTIONS)


def option_problems(
    name: str, value: Any, command: str, facts: Mapping[str, str], of_the_run: Iterable[str]
) -> list[str]:
    """Return what is wrong with further long options of a command, ``{option: value, true or null}``.

    :param facts: options that have a fact of their own.
    :param of_the_run: options that the run sets, on which it relies.
    """
    if not isinstance(value, Mapping):
        return [
            "{0} is {1!r}: give a dictionary of long options of {2}, without dashes in front.".format(
                name, plain(value), command
            )
        ]
    problems = []
    for option, setting in value.items():
        where = "{0}.{1}".format(name, option)
        if option in facts:
            problems.append("{0} has a fact of its own: use {1}.".format(where, facts[option]))
        elif "container" in str(option):
            problems.append(
                "{0} is about containers: use dgxc_container_options, or the variables of the workload.".format(where)
            )
        elif option in of_the_run:
            problems.append("{0} belongs to the run, which sets it: leave it out.".format(where))
        elif not _OPTION_NAME.fullmatch(str(option)):
            problems.append("{0} is no long option of {1}: write it without dashes in front.".format(where, command))
        elif setting is not None and not isinstance(setting, bool):
            text = str(setting) if isinstance(setting, (str, int, float)) else ""
            if not _OPTION_VALUE.fullmatch(text):
                problems.append(
                    "{0} is {1!r}: give a text without blanks and quotes, a number, or true for an option without a"
                    " value.".format(where, plain(setting))
                )
    return problems


def _container_problems(name: str, value: Any) -> list[str]:
    if not isinstance(value, Mapping):
        return ["{0} is {1!r}: give a dictionary, such as {{writable: true}}.".format(name, plain(value))]
    problems = [unknown_key(name, str(key), sorted(CONTAINER_OPTIONS)) for key in value if key not in CONTAINER_OPTIONS]
    problems += [
        "{0}.{1} is {2!r}: give true or false, or null for the site's own setting.".format(name, key, plain(setting))
        for key, setting in value.items()
        if key in CONTAINER_OPTIONS and setting is not None and not isinstance(setting, bool)
    ]
    return problems


def _proxies_problems(name: str, value: Any) -> list[str]:
    if not isinstance(value, Mapping):
        return ["{0} is {1!r}: give a dictionary with the keys http, https and no.".format(name, plain(value))]
    problems = []
    for key, setting in value.items():
        where = "{0}.{1}".format(name, key)
        if key not in PROXY_KEYS:
            problems.append(unknown_key(name, str(key), PROXY_KEYS))
        elif setting in (None, "", []):
            continue
        elif key == "no":
            items = setting if isinstance(setting, (list, tuple)) else [setting]
            if not all(isinstance(item, str) and _NO_PROXY.fullmatch(item) for item in items):
                problems.append(
                    "{0} is {1!r}: give a list of hosts and domains, such as [localhost, .example.org].".format(
                        where, plain(setting)
                    )
                )
        elif isinstance(setting, str) and "@" in setting:
            problems.append(
                "{0} holds a password, which batch scripts would show to every user: give http://host:port without"
                " it.".format(where)
            )
        elif not isinstance(setting, str) or not _PROXY.fullmatch(setting):
            problems.append("{0} is {1!r}: give http://host:port.".format(where, plain(setting)))
    return problems


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


def _no_problems(name: str, value: Any) -> list[str]:
    return []


def _fabric(name: str, value: Any) -> list[str]:
    return fabric_problems(value)


# Kind of fact -> what is wrong with a value of it.
_CHECKS: dict[str, Callable[[str, Any], list[str]]] = {
    "any": _no_problems,
    "constraint": _shaped(_CONSTRAINT, "give features as --constraint of sbatch takes them, such as a100&nvlink"),
    "container_options": _container_problems,
    "fabric": _fabric,
    "folder": _folder_problems,
    "gpu_type": _shaped(_GPU_TYPE, "give the type as 'scontrol show node' shows it behind Gres=gpu:, such as a100"),
    "gpus": _gpus_problems,
    "gres_style": _one_of(GRES_STYLES),
    "image": _shaped(_IMAGE, "give registry#path:tag or the absolute path of a .sqsh"),
    "image_delivery": _one_of(IMAGE_DELIVERIES),
    "memory": _memory_problems,
    "modules": _modules_problems,
    "path": path_problems,
    "proxies": _proxies_problems,
    "sbatch_options": _sbatch_problems,
    "slurm_name": slurm_name_problems,
    "srun_options": _srun_problems,
    "word": _word_problems,
}


# What the facts ask for of Slurm and Pyxis. The facts have been judged.


def gpu_request(site: Mapping[str, Any], gpus: int) -> tuple[str, str]:
    """Return the option of sbatch, and its value, that asks for so many GPUs of each node at this site."""
    kind = str(fact_value(site, "dgxc_gpu_type"))
    if fact_value(site, "dgxc_gres_style") == "gres":
        return "gres", "gpu:{0}{1}".format(kind + ":" if kind else "", gpus)
    return "gpus-per-node", "{0}{1}".format(kind + ":" if kind else "", gpus)


def sbatch_options(site: Mapping[str, Any]) -> dict[str, Any]:
    """Return the site's further options of sbatch, the constraint among them; true stands for one without a value."""
    constraint = fact_value(site, "dgxc_slurm_constraint")
    options = {"constraint": constraint} if constraint else {}
    options.update(fact_value(site, "dgxc_sbatch_options"))
    return {str(option): plain(value) for option, value in options.items() if value is not None and value is not False}


def srun_words(site: Mapping[str, Any]) -> list[str]:
    """Return the site's further options of srun as words of a command line."""
    return [
        "--{0}".format(option) if value is True else "--{0}={1}".format(option, value)
        for option, value in fact_value(site, "dgxc_srun_options").items()
        if value is not None and value is not False
    ]


def container_words(site: Mapping[str, Any]) -> list[str]:
    """Return what Pyxis is told about every container. The home folder is not mounted unless asked for: packages in it
    would shadow those of the image."""
    options = {"mount_home": False, **fact_value(site, "dgxc_container_options")}
    return [CONTAINER_OPTIONS[key][0 if value else 1] for key, value in options.items() if value is not None]


def proxy_environment(site: Mapping[str, Any]) -> dict[str, str]:
    """Return the variables that programs read proxies from; some know the small names only, some the large ones."""
    found = {}
    for key, value in fact_value(site, "dgxc_proxies").items():
        if value in (None, "", []):
            continue
        text = ",".join(value) if isinstance(value, (list, tuple)) else str(value)
        found["{0}_proxy".format(key)] = text
        found["{0}_PROXY".format(str(key).upper())] = text
    return found


def memory_request(site: Mapping[str, Any]) -> str:
    """Return what --mem is given where all memory of a node is wanted; '' stands for no request."""
    return str(fact_value(site, "dgxc_slurm_memory"))
