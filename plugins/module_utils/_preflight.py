# Copyright: (c) 2026, The dgxc.workloads developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Checks of a cluster: what a check is, and the reading and judging of what Slurm says about itself. Pure functions.

This file is private to the collection.
"""

from __future__ import annotations

import re
from typing import Any, Iterable, Mapping, NamedTuple, Sequence

from ansible_collections.dgxc.workloads.plugins.module_utils._durations import slurm_duration_to_seconds
from ansible_collections.dgxc.workloads.plugins.module_utils._site_settings import nearest
from ansible_collections.dgxc.workloads.plugins.module_utils._slurm_parse import expand_nodes
from ansible_collections.dgxc.workloads.plugins.module_utils._slurm_tables import UNUSABLE_NODE_STATES

OK = "ok"
WARNING = "warning"
ERROR = "error"
VERDICTS = (OK, WARNING, ERROR)

#: Seconds by which two clocks may differ; munge refuses credentials at 300.
CLOCK_SKEW = 30.0
GIGABYTE = 1000**3


class Check(NamedTuple):
    """One check. ``evidence`` is what was seen, ``remedy`` what to do about it ('' where nothing is to be done)."""

    id: str
    verdict: str
    evidence: str
    remedy: str = ""


def ok(name: str, evidence: str) -> Check:
    """A check that is well."""
    return Check(name, OK, evidence)


def warning(name: str, evidence: str, remedy: str) -> Check:
    """A check that may be a problem, or that could not be made."""
    return Check(name, WARNING, evidence, remedy)


def error(name: str, evidence: str, remedy: str) -> Check:
    """A check that says that a run would fail."""
    return Check(name, ERROR, evidence, remedy)


def refusal(text: str) -> list[str]:
    """What sbatch said, line by line, without its own name in front."""
    lines = (re.sub(r"^(?:sbatch: )?(?:error: )?", "", line).strip() for line in text.splitlines())
    return [line for line in lines if line]


# What Slurm says about itself.


class Partition(NamedTuple):
    """A partition. ``max_time`` is in seconds, ``max_nodes`` a number; None stands for no limit. ``own_qos`` is the QOS
    whose limits the partition has taken over, '' if none. A hidden one takes jobs as well."""

    name: str
    default: bool
    state: str
    nodes: tuple[str, ...]
    max_time: int | None
    max_nodes: int | None
    accounts: tuple[str, ...]
    qos: tuple[str, ...]
    own_qos: str = ""
    hidden: bool = False


class Node(NamedTuple):
    """A node. ``gpus`` is the number of GPUs by type ('' where Slurm knows none), ``memory`` is in megabytes."""

    name: str
    state: str
    gpus: Mapping[str, int]
    memory: int
    features: tuple[str, ...]

    @property
    def usable(self) -> bool:
        """Whether it runs jobs, now or later."""
        return not self.state.endswith("*") and self.state.rstrip("*~#!%$@^-+") not in UNUSABLE_NODE_STATES

    @property
    def gpu_count(self) -> int:
        """All its GPUs."""
        return sum(self.gpus.values())


def parse_pairs(line: str) -> dict[str, str]:
    """Return ``Name=value`` pairs of a line of ``scontrol -o show``; the first of a name counts."""
    found: dict[str, str] = {}
    for word in line.split():
        name, mark, value = word.partition("=")
        if mark and name not in found:
            found[name] = value
    return found


def _names(text: str) -> tuple[str, ...]:
    """Return a list of names; ALL and the like mean that there is no list."""
    return () if text in ("", "ALL", "(null)", "N/A", "NONE") else tuple(text.split(","))


def _limit(text: str) -> int | None:
    return int(text) if text.isdigit() else None


def _seconds(text: str) -> int | None:
    try:
        return slurm_duration_to_seconds(text)
    except ValueError:
        return None


def parse_partitions(text: str) -> list[Partition]:
    """Read ``scontrol -o show partition``."""
    found = []
    for line in text.splitlines():
        pairs = parse_pairs(line)
        if "PartitionName" not in pairs:
            continue
        longest = _seconds(pairs.get("MaxTime", ""))
        found.append(
            Partition(
                pairs["PartitionName"],
                pairs.get("Default") == "YES",
                pairs.get("State", ""),
                tuple(expand_nodes(pairs.get("Nodes", "").replace("(null)", ""))),
                longest,
                _limit(pairs.get("MaxNodes", "")),
                _names(pairs.get("AllowAccounts", "")),
                _names(pairs.get("AllowQos", "")),
                pairs.get("QoS", "").replace("N/A", ""),
                pairs.get("Hidden") == "YES",
            )
        )
    return found


def parse_gres(text: str) -> dict[str, int]:
    """Return the GPUs by type in what sinfo shows: ``gpu:8``, ``gpu:a100:8(S:0-1)``, ``gpu:a100:4,gpu:h100:4``."""
    found: dict[str, int] = {}
    for item in re.sub(r"\([^)]*\)", "", text).split(","):
        parts = item.strip().split(":")
        if parts[0] == "gpu" and parts[-1].isdigit():
            kind = parts[1] if len(parts) == 3 else ""
            found[kind] = found.get(kind, 0) + int(parts[-1])
    return found


#: For sinfo -h -N -o: node, state, memory, features, GRES; the last may hold any character.
NODE_FORMAT = "%N|%t|%m|%f|%G"


def parse_nodes(text: str) -> dict[str, Node]:
    """Read sinfo's answer to NODE_FORMAT; a node of several partitions comes several times."""
    found = {}
    for line in text.splitlines():
        parts = line.strip().split("|", 4)
        if len(parts) == 5:
            name, state, memory, features, gres = (part.strip() for part in parts)
            size = int(re.sub(r"\D", "", memory) or 0)
            found[name] = Node(name, state, parse_gres(gres), size, _names(features))
    return found


class Association(NamedTuple):
    """What a user may be: account, partition ('' for any), allowed and default QOS, and the longest time limit in
    seconds, if there is one."""

    account: str
    partition: str
    qos: tuple[str, ...]
    default_qos: str
    max_wall: int | None = None


def parse_associations(text: str) -> list[Association]:
    """Read ``sacctmgr -nP show assoc format=Account,Partition,QOS,DefaultQOS,MaxWall``."""
    found = []
    for line in text.splitlines():
        parts = line.split("|")
        if len(parts) == 5:
            found.append(Association(parts[0], parts[1], _names(parts[2]), parts[3], _seconds(parts[4])))
    return found


def parse_qos_limits(text: str) -> dict[str, int]:
    """Read ``sacctmgr -nP show qos format=Name,MaxWall,Flags``; a QOS without a limit is left out."""
    rows = [line.split("|") for line in text.splitlines()]
    found = {row[0]: _seconds(row[1]) for row in rows if len(row) in (2, 3)}
    return {name: limit for name, limit in found.items() if limit is not None}


def parse_qos_flags(text: str) -> dict[str, frozenset[str]]:
    """Return the flags of each QOS in small letters, from ``sacctmgr -nP show qos format=Name,MaxWall,Flags``."""
    rows = [line.split("|") for line in text.splitlines()]
    return {row[0]: frozenset(_names(row[2].lower())) for row in rows if len(row) == 3}


def enforces_limits(text: str) -> bool:
    """Whether Slurm enforces the limits of its accounting, from ``scontrol show config``. ``safe`` includes them."""
    match = re.search(r"^AccountingStorageEnforce\s*=\s*(\S+)", text, re.MULTILINE)
    return match is not None and bool({"limits", "safe", "all"} & set(match[1].lower().split(",")))


def _rows_of_job(associations: Sequence[Association], account: str, partition: str) -> list[Association]:
    rows = [row for row in associations if row.account == account] if account else list(associations)
    rows = [row for row in rows if row.partition in ("", *partition.split(","))]
    return rows if len({row.account for row in rows}) == 1 else []


def qos_of_job(associations: Sequence[Association], account: str, partition: str, qos: str) -> str:
    """Return the QOS that a job will have: the one that is named, or its account's; '' if that is not known."""
    rows = _rows_of_job(associations, account, partition)
    return qos or (rows[0].default_qos if rows else "")


def lifted(partitions: Sequence[Partition], flags: Iterable[str]) -> list[Partition]:
    """Return the partitions without the limits that the flags of a job's QOS lift."""
    changes: dict[str, Any] = {}
    if "partitiontimelimit" in flags:
        changes["max_time"] = None
    if "partitionmaxnodes" in flags:
        changes["max_nodes"] = None
    return [partition._replace(**changes) for partition in partitions]


def wall_limits(
    associations: Sequence[Association], qos_limits: Mapping[str, int], account: str, partition: str, qos: str
) -> dict[str, int]:
    """Return the longest time limit that the accounting allows a job, in seconds, by what limits it.

    Of several accounts, without one that is named, none is known to be the job's. A limit of the QOS takes the place of
    the account's.
    """
    rows = _rows_of_job(associations, account, partition)
    if not rows:
        return {}
    chosen = qos_of_job(associations, account, partition, qos)
    if chosen in qos_limits:
        return {"QOS {0}".format(chosen): qos_limits[chosen]}
    limits = [row.max_wall for row in rows if row.max_wall is not None]
    return {"account {0}".format(rows[0].account): max(limits)} if len(limits) == len(rows) else {}


# Judging it.


def chosen_partitions(partitions: Sequence[Partition], wanted: str) -> list[Partition]:
    """Return the partitions that a job may land in: those that are named, or the default."""
    if wanted:
        names = wanted.split(",")
        return [partition for partition in partitions if partition.name in names]
    return [partition for partition in partitions if partition.default]


def judge_partition(partitions: Sequence[Partition], wanted: str) -> Check:
    """Whether the partition is there and takes jobs."""
    name = "slurm.partition"
    names = [partition.name for partition in partitions]
    shown = [partition.name for partition in partitions if not partition.hidden]
    listed = ", ".join(shown) or "none"
    if not wanted:
        defaults = chosen_partitions(partitions, "")
        if not defaults:
            return error(
                name,
                "dgxc_slurm_partition is empty and the cluster has no default partition; it has {0}".format(listed),
                "set dgxc_slurm_partition to one of them",
            )
        return _partition_state(name, defaults, "the default, {0}".format(defaults[0].name))
    strangers = [word for word in wanted.split(",") if word not in names]
    if strangers:
        near = nearest(strangers[0], shown, 0.6)
        return error(
            name,
            "there is no partition {0} that this user sees; there are {1}".format(strangers[0], listed),
            "set dgxc_slurm_partition to {0}".format(near or "one of them, or to '' for the default"),
        )
    return _partition_state(name, chosen_partitions(partitions, wanted), wanted)


def _partition_state(name: str, chosen: Sequence[Partition], shown: str) -> Check:
    closed = [partition for partition in chosen if partition.state != "UP"]
    # Of a list, the job goes to one that is open.
    if len(closed) == len(chosen):
        return error(
            name,
            "partition {0} is {1}".format(closed[0].name, closed[0].state),
            "choose another dgxc_slurm_partition, or wait until it is UP again",
        )
    sizes = ", ".join("{0} nodes".format(len(partition.nodes)) for partition in chosen)
    state = "UP" if not closed else "{0} {1}, else UP".format(closed[0].name, closed[0].state)
    return ok(name, "{0}: {1}, {2}".format(shown, state, sizes))


def judge_nodes(partitions: Sequence[Partition], nodes: Mapping[str, Node], wanted: int) -> Check:
    """Whether so many nodes can work."""
    name = "slurm.nodes"
    members = [nodes[node] for partition in partitions for node in partition.nodes if node in nodes]
    usable = [node for node in members if node.usable]
    states: dict[str, int] = {}
    for node in members:
        states[node.state] = states.get(node.state, 0) + 1
    seen = "{0} of {1} nodes are usable ({2})".format(
        len(usable), len(members), ", ".join("{1} {0}".format(*item) for item in sorted(states.items())) or "none"
    )
    limits = [partition.max_nodes for partition in partitions if partition.max_nodes is not None]
    if limits and max(limits) < wanted:
        return error(
            name,
            "{0} nodes are wanted and the partition allows {1} to a job".format(wanted, max(limits)),
            "ask for {0} nodes at most, or choose another dgxc_slurm_partition".format(max(limits)),
        )
    if len(members) < wanted:
        return error(
            name,
            "{0} nodes are wanted; {1}".format(wanted, seen),
            "ask for {0} nodes at most, or choose another dgxc_slurm_partition".format(len(members)),
        )
    if len(usable) < wanted:
        return warning(
            name,
            "{0} nodes are wanted; {1}".format(wanted, seen),
            "the job will wait until nodes are repaired: ask for {0}, or ask the administrators".format(len(usable)),
        )
    return ok(name, seen)


def waits_for_nodes(
    partitions: Sequence[Partition], nodes: Mapping[str, Node], wanted: int, gpus: int, kind: str
) -> bool:
    """Whether enough nodes have what is wanted, but too few of them can work now."""
    names = {name for partition in partitions for name in partition.nodes if name in nodes}
    members = [nodes[name] for name in sorted(names)]
    fitting = [node for node in members if (node.gpus.get(kind, 0) if kind else node.gpu_count) >= gpus]
    return sum(node.usable for node in fitting) < wanted <= len(fitting)


def judge_time(partitions: Sequence[Partition], wanted: str, others: Mapping[str, int] | None = None) -> Check:
    """Whether the time limit fits. Most sites accept a job that asks for more, and let it wait for ever.

    :param others: further limits, as wall_limits tells them.
    """
    name = "slurm.time_limit"
    seconds = slurm_duration_to_seconds(wanted)
    for what, limit in (others or {}).items():
        if seconds is None or seconds > limit:
            return error(
                name,
                "{0} is wanted and the {1} allows {2}".format(wanted, what, _hours(limit)),
                "shorten the workload's time limit to {0}, or choose another {1}".format(
                    _hours(limit), "dgxc_slurm_qos" if what.startswith("QOS") else "dgxc_slurm_account"
                ),
            )
    limits = [partition.max_time for partition in partitions]
    if not limits:
        return ok(name, "no partition whose limit could be compared")
    if seconds is None or None in limits:
        return ok(name, "{0} wanted, no limit of the partition".format(wanted))
    longest = max(limit for limit in limits if limit is not None)
    if seconds > longest:
        return error(
            name,
            "{0} is wanted and the partition allows {1}".format(wanted, _hours(longest)),
            "shorten the workload's time limit to {0}, or choose another dgxc_slurm_partition".format(_hours(longest)),
        )
    return ok(name, "{0} wanted, {1} allowed".format(wanted, _hours(longest)))


def _hours(seconds: int) -> str:
    days, rest = divmod(seconds, 86400)
    return "{0}-{1:02d}:{2:02d}:{3:02d}".format(days, rest // 3600, rest % 3600 // 60, rest % 60)


def judge_gpus(partitions: Sequence[Partition], nodes: Mapping[str, Node], wanted: int, kind: str, count: int) -> Check:
    """Whether enough nodes have so many GPUs of that type.

    :param wanted: GPUs of each node. :param count: nodes.
    """
    name = "slurm.gpus"
    members = [nodes[node] for partition in partitions for node in partition.nodes if node in nodes]
    shapes = sorted({_shape(node) for node in members})
    seen = "nodes have {0}".format(" or ".join(shapes) if shapes else "no GPUs")
    if members and not any(node.gpu_count for node in members):
        return error(
            name,
            "Slurm knows no GPUs in this partition",
            "choose a partition with GPUs in dgxc_slurm_partition",
        )
    if kind and not any(kind in node.gpus for node in members):
        kinds = sorted({one for node in members for one in node.gpus if one})
        return error(
            name,
            "dgxc_gpu_type is {0}, and {1}".format(kind, seen),
            "set dgxc_gpu_type to {0}".format(" or ".join(kinds) if kinds else "''"),
        )
    fitting = [node for node in members if (node.gpus.get(kind, 0) if kind else node.gpu_count) >= wanted]
    if len(fitting) < count:
        return error(
            name,
            "{0} GPUs of each of {1} nodes are wanted, and {2}".format(wanted, count, seen),
            "set dgxc_gpus_per_node to what the nodes have, or choose another dgxc_slurm_partition",
        )
    return ok(name, "{0}; {1} wanted of each".format(seen, wanted))


def _shape(node: Node) -> str:
    if not node.gpus:
        return "no GPUs"
    return " + ".join("{0}{1} GPUs".format(number, " " + kind if kind else "") for kind, number in node.gpus.items())


def judge_constraint(nodes: Iterable[Node], constraint: str) -> Check:
    """Whether every feature of a constraint is one that nodes have."""
    name = "slurm.constraint"
    features = {feature for node in nodes for feature in node.features}
    wanted = [word for word in re.findall(r"[A-Za-z0-9_.-]+", constraint) if not word.isdigit()]
    strangers = [word for word in wanted if word not in features]
    if strangers:
        near = nearest(strangers[0], features, 0.6)
        return error(
            name,
            "no node has the feature {0}; there are {1}".format(strangers[0], ", ".join(sorted(features)) or "none"),
            "set dgxc_slurm_constraint to {0}".format(near or "features that nodes have, or to ''"),
        )
    return ok(name, "nodes have {0}".format(", ".join(wanted)))


def judge_account(associations: Sequence[Association], wanted: str, user: str) -> Check:
    """Whether the user may charge the account."""
    name = "slurm.account"
    accounts = sorted({association.account for association in associations})
    listed = ", ".join(accounts)
    if not accounts:
        return warning(
            name,
            "the accounting knows no account of {0}".format(user),
            "ask the administrators for an account if jobs are refused",
        )
    if wanted and wanted not in accounts:
        near = nearest(wanted, accounts, 0.6)
        return error(
            name,
            "{0} has no account {1}; the accounting knows {2}".format(user, wanted, listed),
            "set dgxc_slurm_account to {0}".format(near or (accounts[0] if len(accounts) == 1 else "one of them")),
        )
    return ok(name, "{0} of {1}".format(wanted or "the default", listed))


def judge_qos(associations: Sequence[Association], wanted: str, account: str) -> Check:
    """Whether the user may ask for the quality of service."""
    name = "slurm.qos"
    rows = [row for row in associations if not account or row.account == account]
    allowed = sorted({qos for row in rows for qos in row.qos})
    listed = ", ".join(allowed) or "none"
    if wanted and allowed and wanted not in allowed:
        near = nearest(wanted, allowed, 0.6)
        return error(
            name,
            "this account may not use the QOS {0}; it may use {1}".format(wanted, listed),
            "set dgxc_slurm_qos to {0}".format(near or "one of them, or to '' for the default"),
        )
    return ok(name, "{0}; allowed are {1}".format(wanted or "the default", listed))


def judge_reservation(text: str, wanted: str) -> Check:
    """Whether a reservation is there, from ``scontrol -o show reservation``."""
    name = "slurm.reservation"
    found = {
        pairs["ReservationName"]: pairs for pairs in map(parse_pairs, text.splitlines()) if "ReservationName" in pairs
    }
    if wanted not in found:
        near = nearest(wanted, found, 0.6)
        return error(
            name,
            "there is no reservation {0}; there are {1}".format(wanted, ", ".join(sorted(found)) or "none"),
            "set dgxc_slurm_reservation to {0}".format(near or "''"),
        )
    pairs = found[wanted]
    if pairs.get("State") != "ACTIVE":
        return warning(
            name,
            "reservation {0} is {1}, from {2} to {3}".format(
                wanted, pairs.get("State", "?"), pairs.get("StartTime", "?"), pairs.get("EndTime", "?")
            ),
            "jobs wait until it begins",
        )
    return ok(name, "{0}, {1}, until {2}".format(wanted, pairs.get("Nodes", "?"), pairs.get("EndTime", "?")))


def judge_space(name: str, what: str, path: str, free: int, least_gigabytes: float, variable: str) -> Check:
    """Whether a storage has enough room. ``free`` is in bytes."""
    gigabytes = free / GIGABYTE
    seen = "{0} has {1:.0f} GB free".format(path, gigabytes)
    if gigabytes < least_gigabytes:
        return error(
            name,
            "{0}, and {1:.0f} GB are wanted for {2}".format(seen, least_gigabytes, what),
            "free some, choose another folder, or lower {0}".format(variable),
        )
    return ok(name, seen)


def judge_clock(name: str, here: str, skew: float) -> Check:
    """Whether two clocks agree. ``skew`` is in seconds."""
    if abs(skew) > CLOCK_SKEW:
        return warning(
            name,
            "the clock of {0} is {1:.0f} s {2}".format(here, abs(skew), "ahead" if skew > 0 else "behind"),
            "ask the administrators to look at its time service: Slurm refuses credentials at 300 s, and records of"
            " runs are compared by time",
        )
    return ok(name, "differs by less than {0:.0f} s".format(CLOCK_SKEW))


def parse_lustre_quota(text: str) -> tuple[int, int] | None:
    """Read the first line with numbers of ``lfs quota -q -u USER PATH``: kilobytes used, and the smaller of the two
    limits; None where there is no limit."""
    numbers = re.findall(r"(?<=\s)([0-9]+)\*?(?=\s)", " " + " ".join(text.split()) + " ")
    if len(numbers) < 3:
        return None
    used, soft, hard = (int(number) for number in numbers[:3])
    limits = [limit for limit in (soft, hard) if limit]
    return (used, min(limits)) if limits else None


def judge_quota(used: int, limit: int, least_gigabytes: float) -> Check:
    """Whether a quota leaves enough room. Both numbers are in kilobytes."""
    left = (limit - used) * 1024 / GIGABYTE
    seen = "{0:.0f} of {1:.0f} GB of your quota are used".format(used * 1024 / GIGABYTE, limit * 1024 / GIGABYTE)
    if left < least_gigabytes:
        return error(
            "storage.quota",
            "{0}, and {1:.0f} GB are wanted".format(seen, least_gigabytes),
            "free some, ask for a larger quota, or lower preflight_space_gb",
        )
    return ok("storage.quota", seen)


#: The release of Pyxis that brought an option of srun; the others are in every release since 0.7.
PYXIS_SINCE = {
    "container-entrypoint": "0.8",
    "no-container-entrypoint": "0.8",
    "container-writable": "0.11",
    "container-readonly": "0.11",
    "container-env": "0.15",
    "container-entrypoint-log": "0.20",
    "container-unshare": "0.24",
}
#: What every release of Pyxis since 0.8 asks for.
ENROOT_LEAST = (3, 1)


def pyxis_options(text: str) -> list[str]:
    """Return the options of Pyxis, without dashes in front, that the text of ``srun --help`` lists."""
    return sorted(set(re.findall(r"--((?:no-)?container-[a-z]+(?:-[a-z]+)*)", text)))


def judge_pyxis(name: str, where: str, listed: Iterable[str], wanted: Iterable[str]) -> Check:
    """Whether srun has the options of Pyxis that a run is started with. ``where`` is the host."""
    there = set(listed)
    if "container-image" not in there:
        return error(
            name,
            "srun{0} has no option --container-image".format(where),
            "ask the administrators for Pyxis, built for exactly this Slurm, in plugstack.conf of the login node and of"
            " every node; if Slurm was updated, it has to be built anew. Without it a training would run outside its"
            " container",
        )
    absent = sorted(set(wanted) - there)
    if not absent:
        return ok(name, "srun{0} takes --container-image and all other options that are wanted".format(where))
    releases = [PYXIS_SINCE[option] for option in absent if option in PYXIS_SINCE]
    newest = max(releases, key=lambda release: [int(part) for part in release.split(".")], default="0.15")
    return error(
        name,
        "srun{0} does not know {1}".format(where, ", ".join("--" + option for option in absent)),
        "ask the administrators for Pyxis {0} or newer".format(newest),
    )


def enroot_too_old(version: str) -> bool:
    """Whether an Enroot is older than Pyxis supports."""
    numbers = tuple(int(number) for number in re.findall(r"[0-9]+", version)[:2])
    return bool(numbers) and numbers < ENROOT_LEAST


def judge_python(version: str, controller: str, executable: str) -> Check:
    """Whether the controller's ansible-core supports the Python of the login node.

    ansible-core 2.19 runs its modules on Python 3.8 to 3.13, 2.20 and 2.21 on 3.9 to 3.14.
    """
    minor = int(version.split(".")[1])
    lowest, highest = python_range(controller)
    seen = "Python {0} at {1}".format(version, executable)
    if not lowest <= minor <= highest:
        return warning(
            "login.python",
            "{0}; ansible-core {1} supports 3.{2} to 3.{3}".format(seen, controller, lowest, highest),
            "set ansible_python_interpreter to another Python of that host",
        )
    return ok("login.python", seen)


def python_range(controller: str) -> tuple[int, int]:
    """Return the lowest and the highest minor version of Python 3 that a release of ansible-core runs modules on."""
    return (8, 13) if controller.startswith("2.19") else (9, 14)


def counted(checks: Iterable[Mapping[str, Any]]) -> dict[str, int]:
    """Return how many checks have each verdict."""
    found = dict.fromkeys(VERDICTS, 0)
    for check in checks:
        found[check["verdict"]] += 1
    return found
