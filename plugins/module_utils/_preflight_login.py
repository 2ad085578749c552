# Copyright: (c) 2026, The dgxc.workloads developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What a login node shows of its cluster: checks for a run, and facts for a new inventory. Changes nothing.

This file is private to the collection.
"""

from __future__ import annotations

import concurrent.futures
import functools
import os
import platform
import re
import socket
import stat
import sys
import tempfile
import urllib.error
import urllib.parse
import urllib.request
from typing import Any, Callable, Iterator, Mapping, NamedTuple, Optional, Sequence

from ansible_collections.dgxc.workloads.plugins.module_utils import _preflight as preflight
from ansible_collections.dgxc.workloads.plugins.module_utils._enroot_ask import credentials_path
from ansible_collections.dgxc.workloads.plugins.module_utils._image_reference import (
    Reference,
    digest_problem,
    is_file,
    parse,
)
from ansible_collections.dgxc.workloads.plugins.module_utils._preflight import ERROR, OK, Check, error, ok, warning
from ansible_collections.dgxc.workloads.plugins.module_utils._process import (
    TIMED_OUT,
    EnvironmentProblem,
    Finished,
    Run,
    last_line,
    login_environment,
)
from ansible_collections.dgxc.workloads.plugins.module_utils._registry import Manifest, RegistryProblem
from ansible_collections.dgxc.workloads.plugins.module_utils._shared_folders import FolderProblem, check_root
from ansible_collections.dgxc.workloads.plugins.module_utils._site_versions import find_versions
from ansible_collections.dgxc.workloads.plugins.module_utils._slurm_client import (
    SlurmNotFound,
    clean_environment,
    find_environment,
)
from ansible_collections.dgxc.workloads.plugins.module_utils._slurm_tables import (
    AMBIGUOUS,
    DISABLED,
    NO_ANSWER,
    TRANSIENT,
    is_passing_limit,
    query_meaning,
    submit_rule,
)
from ansible_collections.dgxc.workloads.plugins.module_utils._squashfs import NotWhole, read_superblock

#: Seconds for one question to Slurm; squeue and sinfo give up after about 20 s by themselves.
QUERY_SECONDS = 60.0
#: Seconds for one question to a Git server or a web server.
NETWORK_SECONDS = 10.0
#: Questions that are asked at the same time.
SIDE_BY_SIDE = 8
#: The most requests that are tried in place of one that was refused, and the seconds for all of them.
MOST_TRIES = 60
TRIES_SECONDS = 30.0
#: Where sites keep Slurm's commands, if not on PATH.
USUAL_FOLDERS = (
    "/usr/bin",
    "/usr/local/bin",
    "/opt/slurm/bin",
    "/opt/slurm/current/bin",
    "/usr/local/slurm/bin",
    "/cm/shared/apps/slurm/current/bin",
)
#: File systems that several hosts share.
SHARED_FILE_SYSTEMS = frozenset(("lustre", "nfs", "nfs4", "gpfs", "beegfs", "ceph", "weka", "wekafs", "fuse.juicefs"))
#: The module that sites call Slurm's, if they have one.
SLURM_MODULE = "slurm"
# A job that never runs.
_SCRIPT = "#!/bin/bash\n{directives}hostname\n"

# Questions that are put ahead of their turn.
_VERSION = ("sinfo", "--version")
_ENROOT_VERSION = ("enroot", "version")
_SRUN_HELP = ("srun", "--help")
# With those that a site hides: jobs are taken there as well.
_PARTITIONS = ("scontrol", "-a", "-o", "show", "partition")
_SHOWN_PARTITIONS = ("scontrol", "-o", "show", "partition")
_CONFIGURATION = ("scontrol", "show", "config")
_NODES = ("sinfo", "-h", "-N", "-a", "-o", preflight.NODE_FORMAT)
_ASSOCIATION = "format=Account,Partition,QOS,DefaultQOS,MaxWall"
_QOS = ("sacctmgr", "-n", "-P", "show", "qos", "format=Name,MaxWall,Flags")
_JOBS = ("sacct", "-X", "-n", "-P", "-S", "now-1hours", "-o", "JobID")

# (address, environment) -> HTTP status
Fetch = Callable[[str, Mapping[str, str]], int]
# reference -> its manifest, or None
Ask = Callable[[Reference], Optional[Manifest]]


class Place(NamedTuple):
    """Where the checks run and with what: all that is outside this file."""

    run: Run
    environment: Mapping[str, str]
    user: str
    now: Callable[[], float]
    fetch: Fetch
    ask: Callable[[Mapping[str, str]], Ask]
    free: Callable[[str], int]


def free_bytes(path: str) -> int:
    """Return what an ordinary user may still write below a path; for one that is not there, below its next folder."""
    path = os.path.abspath(path)
    while not os.path.exists(path) and path != "/":
        path = os.path.dirname(path)
    status = os.statvfs(path)
    return status.f_bavail * status.f_frsize


def fetch_status(address: str, environment: Mapping[str, str]) -> int:
    """Ask a web server for an address and return its HTTP status, through the proxies of the environment.

    :raises OSError: there is no answer.
    """
    proxies = {name: environment[name + "_proxy"] for name in ("http", "https") if environment.get(name + "_proxy")}
    host = urllib.parse.urlsplit(address).hostname or ""
    exempt = [name.strip().lstrip(".") for name in environment.get("no_proxy", "").split(",") if name.strip()]
    if any(name == "*" or host == name or host.endswith("." + name) for name in exempt):
        proxies = {}
    opener = urllib.request.build_opener(urllib.request.ProxyHandler(proxies))
    request = urllib.request.Request(address, method="HEAD", headers={"User-Agent": "dgxc.workloads"})
    try:
        with opener.open(request, timeout=NETWORK_SECONDS) as answer:
            return int(answer.status)
    except urllib.error.HTTPError as refusal:
        return int(refusal.code)
    except urllib.error.URLError as problem:
        raise OSError(str(problem.reason)) from None


class _Ahead:
    """Answers to questions that were put ahead of their turn, side by side. Each is given once; others are asked
    now."""

    def __init__(self) -> None:
        self._pool = concurrent.futures.ThreadPoolExecutor(SIDE_BY_SIDE)
        self._begun: dict[Any, concurrent.futures.Future[Any]] = {}

    def begin(self, key: Any, question: Callable[[], Any]) -> None:
        """Put a question now, whose answer is wanted later."""
        if key not in self._begun:
            self._begun[key] = self._pool.submit(question)

    def answer(self, key: Any, question: Callable[[], Any]) -> Any:
        """Return the answer, and raise what the question raised."""
        begun = self._begun.pop(key, None)
        return question() if begun is None else begun.result()


class LoginNode:
    """The checks that can be made from the login node. Each method returns the checks of one subject."""

    def __init__(self, place: Place, settings: Mapping[str, Any]) -> None:
        self._place = place
        self._settings = settings
        self._ahead = _Ahead()
        self._environment: dict[str, str] = dict(place.environment)
        self._environment.update({str(k): str(v) for k, v in (settings.get("environment") or {}).items()})
        self._slurm: dict[str, str] | None = None
        self.facts: dict[str, Any] = {}

    def checks(self) -> list[Check]:
        """All checks, in the order in which a person would make them. What takes time is asked ahead, side by side."""
        self._begin_network()
        found = [self._python(), *self._find_slurm()]
        self._begin_image()
        if self._slurm is not None:
            self._begin_slurm()
            found += self._ask_slurm()
            found += self._containers()
        found += self._storage()
        found += self._credentials()
        found += self._image()
        found += self._paths()
        found += self._network()
        found += self._clock()
        return found

    # --- the login node itself ---

    def _python(self) -> Check:
        self.facts["python"] = {"version": platform.python_version(), "executable": sys.executable}
        self.facts["host"] = socket.gethostname()
        return preflight.judge_python(
            platform.python_version(), str(self._settings.get("ansible_core") or "2.19"), sys.executable
        )

    def _find_slurm(self) -> list[Check]:
        folder = self._settings.get("slurm_bin_dir") or ""
        modules = list(self._settings.get("environment_modules") or [])
        try:
            self._slurm = find_environment(self._place.run, self._environment, folder, modules)
        except SlurmNotFound as problem:
            said = str(problem)
            return [error("slurm.commands", said.partition(": set ")[0].rstrip("."), self._slurm_remedy(said))]
        place = next(
            (
                candidate
                for candidate in self._slurm.get("PATH", "").split(":")
                if candidate and os.path.exists(os.path.join(candidate, "sbatch"))
            ),
            "?",
        )
        plain = all(self._slurm.get(name) == self._environment.get(name) for name in ("PATH", "SLURM_CONF"))
        how = "dgxc_slurm_bin_dir" if folder else "the modules " + ", ".join(modules) if modules else ""
        how = how or ("the PATH of a plain command" if plain else "a login shell")
        self.facts["slurm"] = {"found": how, "folder": place}
        return [ok("slurm.commands", "in {0}, by {1}".format(place, how))]

    def _slurm_remedy(self, said: str) -> str:
        """What would find Slurm: a login shell without modules, a folder where it often is, or the module slurm."""
        modules = list(self._settings.get("environment_modules") or [])
        if modules or self._settings.get("slurm_bin_dir"):
            try:
                find_environment(self._place.run, self._environment)
                return "set dgxc_environment_modules to [] and dgxc_slurm_bin_dir to '': a login shell finds Slurm"
            except SlurmNotFound:
                pass
        for folder in USUAL_FOLDERS:
            if os.path.exists(os.path.join(folder, "sbatch")):
                return "set dgxc_slurm_bin_dir to {0}".format(folder)
        if SLURM_MODULE not in modules:
            try:
                find_environment(self._place.run, self._environment, None, [SLURM_MODULE])
                return "set dgxc_environment_modules to [{0}]".format(SLURM_MODULE)
            except SlurmNotFound:
                pass
        remedy = re.sub(r"^.*?: set ", "set ", said, flags=re.DOTALL).rstrip(".")
        return remedy if remedy.startswith("set ") else "correct dgxc_environment_modules or dgxc_slurm_bin_dir"

    # --- questions ahead of their turn ---

    def _begin_network(self) -> None:
        """What needs no Slurm."""
        for address in self._remotes():
            self._ahead.begin(("git", address), functools.partial(self._ask_remote, address))
        for address in self._addresses():
            self._ahead.begin(("url", address), functools.partial(self._ask_address, address))

    def _begin_image(self) -> None:
        reference = _reference_of(str(self._settings.get("image") or ""))
        if reference is not None:
            self._ahead.begin("image", lambda: self._place.ask(self._enroot_environment())(reference))

    def _begin_slurm(self, partitions: tuple[str, ...] = _PARTITIONS) -> None:
        for command in (
            partitions,
            _NODES,
            _JOBS,
            self._associations(),
            _SRUN_HELP,
            _VERSION,
            _ENROOT_VERSION,
            _QOS,
            _CONFIGURATION,
        ):
            self._ahead.begin(command, functools.partial(self._ask, command))
        options = dict(self._settings.get("options") or {})
        self._ahead.begin("request", lambda: self._test(options))

    # --- Slurm ---

    def _ask(self, command: Sequence[str]) -> Finished:
        return self._place.run(command, self._slurm or {}, None, QUERY_SECONDS)

    def _query(self, *command: str) -> Finished:
        answer: Finished = self._ahead.answer(command, lambda: self._ask(command))
        return answer

    def _associations(self) -> tuple[str, ...]:
        user = "user=" + self._place.user
        return ("sacctmgr", "-n", "-P", "show", "assoc", "where", user, _ASSOCIATION)

    def _versions(self) -> None:
        """Ask for the versions, and for the options of Pyxis, which tells none."""
        questions: tuple[tuple[str, ...], ...] = (_VERSION, _ENROOT_VERSION, _SRUN_HELP)
        asked = {command: self._query(*command) for command in questions}
        self.facts["versions"] = find_versions(
            lambda command, _environment, _folder, _limit: asked[tuple(command)], self._slurm or {}
        )
        self.facts["pyxis_options"] = preflight.pyxis_options(asked[_SRUN_HELP].out)

    def _ask_slurm(self) -> list[Check]:
        settings = self._settings
        self._versions()
        versions = self.facts["versions"]
        found = [self._version(versions.get("slurm", ""))]
        answer = self._query(*_PARTITIONS)
        if answer.code != 0:
            return [
                *found,
                error("slurm.controller", _said(answer, "scontrol"), self._controller_remedy()),
            ]
        found.append(ok("slurm.controller", "answers"))
        partitions = preflight.parse_partitions(answer.out)
        nodes = preflight.parse_nodes(self._query(*_NODES).out)
        chosen = preflight.chosen_partitions(partitions, settings.get("partition") or "")
        count, gpus = int(settings.get("nodes") or 1), int(settings.get("gpus_per_node") or 0)
        self._partition_facts(partitions, nodes)
        associations, accounting = self._accounting()
        found += accounting
        found.append(preflight.judge_partition(partitions, settings.get("partition") or ""))
        if chosen:
            walls, flags = self._qos_limits(chosen, associations)
            limited = preflight.lifted(chosen, flags)
            found.append(preflight.judge_nodes(limited, nodes, count))
            if settings.get("time_limit"):
                found.append(preflight.judge_time(limited, settings["time_limit"], walls))
            if gpus:
                found.append(preflight.judge_gpus(chosen, nodes, gpus, settings.get("gpu_type") or "", count))
        if settings.get("reservation"):
            text = self._query("scontrol", "-o", "show", "reservation").out
            found.append(preflight.judge_reservation(text, settings["reservation"]))
        if settings.get("constraint"):
            found.append(preflight.judge_constraint(nodes.values(), settings["constraint"]))
        request = self._submission(partitions, nodes, associations)
        # Lists may be old, or cut for this user; Slurm's own yes counts for more.
        return [*(_overruled(check) if request.verdict == OK else check for check in found), request]

    def _controller_remedy(self) -> str:
        """What was named may be a Slurm that is not the cluster's, where a login shell finds the right one."""
        folder = self._login_shell_folder()
        if folder and folder != (self.facts.get("slurm") or {}).get("folder"):
            return "set dgxc_slurm_bin_dir to {0}, where a login shell finds Slurm".format(folder)
        return "wait and repeat; if it stays so, the administrators have to look at slurmctld"

    def _login_shell_folder(self) -> str:
        """Return the folder on a login shell's PATH whose scontrol has an answer from slurmctld, or nothing."""
        try:
            other = login_environment(self._place.run, self._environment, [], always=True)
        except EnvironmentProblem:
            return ""
        for folder in other.get("PATH", "").split(":"):
            command = os.path.join(folder, "scontrol")
            if folder and os.path.exists(command):
                answer = self._place.run([command, "ping"], clean_environment(other), None, QUERY_SECONDS)
                if answer.code == 0:
                    return folder
        return ""

    def _version(self, version: str) -> Check:
        if not version:
            return warning("slurm.version", "sinfo does not tell a version", "see that Slurm's commands work")
        numbers = tuple(int(number) for number in re.findall(r"[0-9]+", version)[:2])
        if numbers < (22, 5):
            return warning("slurm.version", version, "the collection is tested with Slurm 22.05 and newer")
        return ok("slurm.version", version)

    def _accounting(self) -> tuple[list[preflight.Association], list[Check]]:
        name = "slurm.accounting"
        settings = self._settings
        answer = self._query(*_JOBS)
        meaning = NO_ANSWER if answer.code == TIMED_OUT else query_meaning(answer.code, answer.err)
        if meaning == DISABLED:
            self.facts["accounting"] = False
            return [], [
                warning(
                    name,
                    "there is no accounting",
                    "runs are followed through the queue instead: leave no run unwatched for longer than Slurm keeps"
                    " ended jobs (MinJobAge, five minutes by default)",
                )
            ]
        self.facts["accounting"] = True
        if meaning == NO_ANSWER:
            return [], [warning(name, _said(answer, "sacct"), "runs are followed through the queue until it answers")]
        found = [ok(name, "answers")]
        answer = self._query(*self._associations())
        if answer.code != 0:
            return [], [*found, warning("slurm.account", _said(answer, "sacctmgr"), "nothing, if jobs are accepted")]
        associations = preflight.parse_associations(answer.out)
        self.facts["accounts"] = sorted({row.account for row in associations})
        self.facts["qos"] = sorted({qos for row in associations for qos in row.qos})
        account = settings.get("account") or ""
        found.append(preflight.judge_account(associations, account, self._place.user))
        if settings.get("qos"):
            found.append(preflight.judge_qos(associations, settings["qos"], account))
        return associations, found

    def _qos_limits(
        self, chosen: Sequence[preflight.Partition], associations: Sequence[preflight.Association]
    ) -> tuple[dict[str, int], frozenset[str]]:
        """Return the time limits of the accounting, as far as Slurm enforces them, and the flags of the job's QOS."""
        if not associations:
            return {}, frozenset()
        answer = self._query(*_QOS).out
        names = [str(self._settings.get(name) or "") for name in ("account", "partition", "qos")]
        flags = preflight.parse_qos_flags(answer).get(preflight.qos_of_job(associations, *names), frozenset())
        if any(partition.own_qos for partition in chosen):
            # A partition's own QOS has the last word; sbatch tells it.
            return {}, flags
        if not preflight.enforces_limits(self._query(*_CONFIGURATION).out):
            return {}, flags
        return preflight.wall_limits(associations, preflight.parse_qos_limits(answer), *names), flags

    def _partition_facts(self, partitions: Sequence[preflight.Partition], nodes: Mapping[str, preflight.Node]) -> None:
        self.facts["partitions"] = [
            {
                "name": partition.name,
                "default": partition.default,
                "state": partition.state,
                "nodes": len(partition.nodes),
                "max_time": partition.max_time,
                "gpus_per_node": max((nodes[node].gpu_count for node in partition.nodes if node in nodes), default=0),
                "gpu_types": sorted(
                    {kind for node in partition.nodes if node in nodes for kind in nodes[node].gpus if kind}
                ),
                "features": sorted(
                    {item for node in partition.nodes if node in nodes for item in nodes[node].features}
                ),
            }
            for partition in partitions
        ]

    # --- a request as the run will make it ---

    def _submission(
        self,
        partitions: Sequence[preflight.Partition],
        nodes: Mapping[str, preflight.Node],
        associations: Sequence[preflight.Association],
    ) -> Check:
        """Let Slurm say what it thinks of the request, and if it refuses, find the facts that it would take."""
        name = "slurm.request"
        options = dict(self._settings.get("options") or {})
        answer: Finished = self._ahead.answer("request", lambda: self._test(options))
        said = _test_lines(answer)
        if answer.code == 0:
            return ok(name, said[-1] if said else "accepted")
        evidence = "; ".join(said) or "sbatch --test-only ended with {0}".format(answer.code)
        if answer.code == TIMED_OUT:
            evidence = _said(answer, "sbatch --test-only")
        soft = self._no_refusal(answer, partitions, nodes)
        if soft:
            return warning(name, evidence, soft)
        if is_passing_limit(evidence):
            return warning(
                name,
                evidence,
                "wait until enough of what is queued has ended: the same run is taken then, and refused before",
            )
        if self._settings.get("script"):
            return error(name, evidence, "correct what Slurm names")
        changes = self._way_out(options, said, list(self._changes(partitions, nodes, associations)))
        if changes:
            return error(name, evidence, " and ".join(change.remedy for change in changes))
        return error(
            name, evidence, "correct what is said above, or compare the facts of the inventory with what Slurm names"
        )

    def _no_refusal(
        self,
        answer: Finished,
        partitions: Sequence[preflight.Partition],
        nodes: Mapping[str, preflight.Node],
    ) -> str:
        """Return what to do about an answer of ``sbatch --test-only`` that refuses nothing for good; '' for others.

        ``--test-only`` looks for nodes that can start the job. A real sbatch takes a job whose nodes are drained now.
        """
        rule = submit_rule(answer.text)
        if answer.code == TIMED_OUT or rule.kind in (TRANSIENT, AMBIGUOUS) or "timed out" in answer.text.lower():
            return "repeat to know more: Slurm could not judge the request now, and the submission itself tries longer"
        settings = self._settings
        drained = preflight.waits_for_nodes(
            preflight.chosen_partitions(partitions, settings.get("partition") or ""),
            nodes,
            int(settings.get("nodes") or 1),
            int(settings.get("gpus_per_node") or 0),
            settings.get("gpu_type") or "",
        )
        if drained and re.search(r"node configuration is not available|node not available", answer.text, re.IGNORECASE):
            return "the job will wait until nodes are repaired: ask for fewer nodes, or ask the administrators"
        return ""

    def _way_out(
        self, options: Mapping[str, Any], said: Sequence[str], candidates: Sequence[_Change]
    ) -> Sequence[_Change]:
        """Return the changes with which Slurm takes the request; none if they are not found.

        Sites that demand several things tell of one at a time. So a change that brings Slurm to say something new is
        kept, and others are tried on top of it; the fewest changes come first.
        """
        limit = self._place.now() + TRIES_SECONDS
        heard = {tuple(said)}
        open_ways: list[list[_Change]] = [[]]
        tries = 0
        while open_ways:
            way = open_ways.pop(0)
            for change in candidates:
                if change.subject in (one.subject for one in way):
                    continue
                tries += 1
                left = limit - self._place.now()
                if tries > MOST_TRIES or left <= 0:
                    return []
                other = dict(options)
                for one in (*way, change):
                    for option in one.without:
                        other.pop(option, None)
                    other.update(one.options)
                answer = self._test(other, min(left, QUERY_SECONDS))
                if answer.code == 0:
                    return [*way, change]
                if answer.code == TIMED_OUT or submit_rule(answer.text).kind in (TRANSIENT, AMBIGUOUS):
                    return []
                words = tuple(_test_lines(answer))
                if words not in heard:
                    heard.add(words)
                    open_ways.append([*way, change])
        return []

    def _test(self, options: Mapping[str, Any], limit: float = QUERY_SECONDS) -> Finished:
        script = self._settings.get("script") or _SCRIPT.format(directives="")
        words = ["sbatch", "--test-only"]
        for option, value in options.items():
            if value not in (None, "", False):
                words.append("--" + option if value is True else "--{0}={1}".format(option, value))
        with tempfile.NamedTemporaryFile("w", prefix="dgxc-preflight-", suffix=".sh") as stream:
            stream.write(script)
            stream.flush()
            return self._place.run([*words, stream.name], self._slurm or {}, "/", limit)

    def _changes(
        self,
        partitions: Sequence[preflight.Partition],
        nodes: Mapping[str, preflight.Node],
        associations: Sequence[preflight.Association],
    ) -> Iterator[_Change]:
        settings = self._settings
        gpus = settings.get("gpus_per_node")
        styles = {"gpus_per_node": "gpus-per-node={0}{1}", "gres": "gres=gpu:{0}{1}"}
        kinds = ["", *sorted({kind for node in nodes.values() for kind in node.gpus if kind})]
        now = (settings.get("gres_style") or "gpus_per_node", settings.get("gpu_type") or "")
        for style in styles if gpus else ():
            for kind in kinds:
                if (style, kind) == now:
                    continue
                option, _mark, value = styles[style].format(kind + ":" if kind else "", gpus).partition("=")
                words = []
                if style != now[0]:
                    words.append("set dgxc_gres_style to {0}".format(style))
                if kind != now[1]:
                    words.append("set dgxc_gpu_type to {0}".format(kind or "''"))
                yield _Change("g", {option: value}, ("gpus-per-node", "gres"), " and ".join(words))
        if (settings.get("options") or {}).get("mem") not in (None, ""):
            yield _Change("m", {}, ("mem",), "set dgxc_slurm_memory to '', or to an amount that the site allows")
            sizes = [node.memory for node in nodes.values() if node.memory]
            if sizes:
                amount = "{0}M".format(min(sizes))
                yield _Change("m", {"mem": amount}, (), "set dgxc_slurm_memory to {0}".format(amount))
        for qos in sorted({qos for row in associations for qos in row.qos}):
            if qos != settings.get("qos"):
                yield _Change("q", {"qos": qos}, (), "set dgxc_slurm_qos to {0}".format(qos))
        if settings.get("qos"):
            yield _Change("q", {}, ("qos",), "set dgxc_slurm_qos to ''")
        for account in sorted({row.account for row in associations}):
            if account != settings.get("account"):
                yield _Change("a", {"account": account}, (), "set dgxc_slurm_account to {0}".format(account))
        for partition in partitions:
            if partition.name != settings.get("partition") and partition.state == "UP" and not partition.hidden:
                yield _Change("p", {"partition": partition.name}, (), "set dgxc_slurm_partition to " + partition.name)

    # --- containers ---

    def _enroot_environment(self) -> dict[str, str]:
        """Where Enroot keeps what, as it will find it: by the site's profile and the variables of the role image."""
        found = dict(self._environment if self._slurm is None else self._slurm)
        given = self._settings.get("enroot_environment") or {}
        found.update({str(name): os.path.expanduser(str(value)) for name, value in given.items()})
        return found

    def _containers(self) -> list[Check]:
        versions = self.facts["versions"]
        wanted = self._settings.get("pyxis_options") or []
        pyxis = preflight.judge_pyxis("pyxis.login", "", self.facts["pyxis_options"], wanted)
        if pyxis.verdict == ERROR:
            # Containers are started by jobs alone.
            pyxis = warning(pyxis.id, pyxis.evidence, "see that node.pyxis is well, else " + pyxis.remedy)
        found = [pyxis]
        version = versions.get("enroot", "")
        environment = self._enroot_environment()
        home = environment.get("HOME", "/")
        cache = environment.get("ENROOT_CACHE_PATH") or os.path.join(
            environment.get("XDG_CACHE_HOME") or os.path.join(home, ".cache"), "enroot"
        )
        temporary = environment.get("ENROOT_TEMP_PATH") or environment.get("TMPDIR") or "/tmp"
        self.facts["enroot_paths"] = {"cache": cache, "temporary": temporary}
        if not version:
            found.append(
                warning(
                    "enroot.login",
                    "there is no enroot on this host",
                    "images cannot be imported here: import them in a job, or load the module that brings it",
                )
            )
            return found
        if preflight.enroot_too_old(version):
            found.append(warning("enroot.login", version, "ask the administrators for Enroot 3.1 or newer"))
            return found
        small = [
            "{0} has {1:.0f} GB free".format(path, self._place.free(path) / preflight.GIGABYTE)
            for path in (cache, temporary)
            if self._place.free(path) < 20 * preflight.GIGABYTE
        ]
        if small:
            found.append(
                warning(
                    "enroot.login",
                    "{0}; {1}".format(version, ", ".join(small)),
                    "for imports on this host set ENROOT_CACHE_PATH and ENROOT_TEMP_PATH to folders with more room",
                )
            )
        else:
            found.append(ok("enroot.login", "{0}, cache {1}, temporary files {2}".format(version, cache, temporary)))
        return found

    # --- storage ---

    def _storage(self) -> list[Check]:
        root = self._settings.get("shared_root") or ""
        if not root:
            return []
        try:
            check_root(root, "dgxc_shared_root")
        except FolderProblem as problem:
            said = str(problem).rstrip(".")
            evidence, _mark, remedy = said.rpartition(": ")
            return [error("storage.root", evidence or said, remedy)]
        try:
            # It has no name at any time, so there is nothing to leave behind.
            with tempfile.TemporaryFile(dir=root) as stream:
                stream.write(b"x")
                stream.flush()
        except OSError as problem:
            return [
                error(
                    "storage.root",
                    "nothing can be written in {0}: {1}".format(root, problem.strerror),
                    "choose a folder that you own, or free your quota",
                )
            ]
        least = float(self._settings.get("space_gb") or 0)
        found = [
            ok("storage.root", "{0}, on {1}, can be written".format(root, file_system(root, _mounts_of_this_host()))),
            preflight.judge_space("storage.space", "images, data and runs", root, self._place.free(root), least,
                                  "preflight_space_gb"),
        ]  # fmt: skip
        answer = self._place.run(
            ["lfs", "quota", "-q", "-u", self._place.user, root], self._environment, None, QUERY_SECONDS
        )
        quota = preflight.parse_lustre_quota(answer.out) if answer.code == 0 else None
        if quota:
            found.append(preflight.judge_quota(*quota, least))
        return found

    # --- what the run names ---

    def _credentials(self) -> list[Check]:
        """Enroot's file of credentials, if there is one: who may read it. Whether they work, the image tells."""
        path = credentials_path(self._enroot_environment())
        try:
            mode = stat.S_IMODE(os.stat(path).st_mode)
        except OSError:
            return []
        if mode & 0o077:
            return [
                warning(
                    "enroot.credentials",
                    "{0} can be read by others (mode {1:04o})".format(path, mode),
                    "chmod 600 {0}".format(path),
                )
            ]
        return [ok("enroot.credentials", "{0} is for you alone".format(path))]

    def _image(self) -> list[Check]:
        image = str(self._settings.get("image") or "")
        name = "image"
        if not image:
            return []
        root = str(self._settings.get("shared_root") or "")
        # What is not on the shared root may be on the compute nodes alone; node.mounts tells.
        elsewhere = bool(root) and not image.startswith(root + "/")
        absent = warning if self._settings.get("rehearsal") or elsewhere else error
        if is_file(image):
            if not os.path.isabs(image):
                return [error(name, "{0} is no absolute path".format(image), "Pyxis takes it for the name of an image")]
            try:
                read_superblock(image)
            except NotWhole as problem:
                return [error(name, "{0} {1}".format(image, problem), "remove it and import the image again")]
            except OSError as problem:
                return [
                    absent(
                        name,
                        "{0}: {1}".format(image, problem.strerror),
                        "import the image to that path, or correct the variable that names it",
                    )
                ]
            size = os.path.getsize(image) / preflight.GIGABYTE
            return [ok(name, "{0}, {1:.1f} GB, is whole".format(image, size))]
        try:
            reference = parse(image)
        except ValueError as problem:
            return [error(name, str(problem), "write registry#path:tag or the absolute path of a .sqsh")]
        found = []
        problem_of_digest = digest_problem(reference, str(self.facts.get("versions", {}).get("enroot", "")))
        if problem_of_digest:
            found.append(error("image.digest", problem_of_digest, "name a tag, or update Enroot"))
        return [*found, self._reference(reference)]

    def _reference(self, reference: Reference) -> Check:
        name = "image"
        try:
            manifest = self._ahead.answer("image", lambda: self._place.ask(self._enroot_environment())(reference))
        except RegistryProblem as problem:
            said = str(problem)
            if re.search(r"error code: 40[13]", said):
                # A play that brings credentials puts them there later.
                verdict = warning if self._settings.get("credentials_follow") else error
                return verdict(
                    name,
                    "{0} refuses to show {1} ({2})".format(reference.host, reference.docker, last_line(said)),
                    "put the credentials for {0} into ~/.config/enroot/.credentials on the login node, as"
                    " playbooks/image.yml does with image_delivery=given and image_given={1} (for NGC with NGC_API_KEY"
                    " in the environment, for others see docs/secrets.md)".format(reference.host, reference.pyxis),
                )
            return warning(
                name,
                "{0} cannot be asked from here: {1}".format(reference.host, last_line(said)),
                "see that the compute nodes reach it, or import the image to a .sqsh",
            )
        if manifest is None:
            return error(
                name,
                "{0} has no image {1}".format(reference.host, reference.docker),
                "correct its name and tag; some registries say so of images that the credentials do not reach, too",
            )
        return ok(name, "{0}, {1}, {2:.1f} GB".format(
            reference.docker, manifest.digest[:19], manifest.size / preflight.GIGABYTE))  # fmt: skip

    def _paths(self) -> list[Check]:
        """Sources of mounts, as the login node sees them; the compute nodes have the last word."""
        paths = [str(path) for path in self._settings.get("paths") or []]
        absent = [path for path in paths if not os.path.exists(path)]
        root = str(self._settings.get("shared_root") or "/nonexistent")
        ours = [path for path in absent if path == root or path.startswith(root + "/")]
        if ours and not self._settings.get("rehearsal"):
            return [
                error(
                    "mounts.login",
                    "{0} is not there".format(", ".join(ours)),
                    "correct the mounts of the workload, or make the folder: Pyxis does not start without it",
                )
            ]
        if absent:
            return [
                warning(
                    "mounts.login",
                    "{0} is not there on the login node".format(", ".join(absent)),
                    "see that the compute nodes have it, or correct the mounts: Pyxis does not start without them",
                )
            ]
        return [ok("mounts.login", ", ".join(paths))] if paths else []

    def _remotes(self) -> list[str]:
        """The Git remotes that have to be asked: not one whose commit is already in its place."""
        found = []
        for given in self._settings.get("git_remotes") or []:
            remote = given if isinstance(given, Mapping) else {"url": given}
            folder, commit = str(remote.get("path") or ""), str(remote.get("commit") or "")
            if not (folder and commit and _checked_out(folder) == commit):
                found.append(str(remote["url"]))
        return list(dict.fromkeys(found))

    def _addresses(self) -> list[str]:
        """The web servers that have to be asked: not one for data that is already there."""
        found = []
        for given in self._settings.get("urls") or []:
            place = given if isinstance(given, Mapping) else {"url": given}
            if not (place.get("unless") and os.path.exists(str(place["unless"]))):
                found.append(str(place["url"]))
        return list(dict.fromkeys(found))

    def _network(self) -> list[Check]:
        found = []
        for address in self._remotes():
            found.append(self._remote(address))
        for address in self._addresses():
            host = re.sub(r"^[a-z]+://([^/]*@)?([^/:]+).*$", r"\2", address)
            name = "network." + host
            try:
                status = self._ahead.answer(("url", address), functools.partial(self._ask_address, address))
            except (OSError, ValueError) as problem:
                verdict = warning if "timed out" in str(problem) else error
                found.append(
                    verdict(
                        name,
                        "no answer: {0}".format(problem),
                        "set the proxies in the login node's own environment if the site has proxies, or bring images"
                        " and data to the cluster and work offline",
                    )
                )
                continue
            if status >= 500:
                found.append(warning(name, "answers with {0}".format(status), "repeat later"))
            else:
                found.append(ok(name, "answers"))
        return found

    def _ask_address(self, address: str) -> int:
        return self._place.fetch(address, self._environment)

    def _ask_remote(self, address: str) -> Finished:
        environment = dict(
            self._environment, GIT_TERMINAL_PROMPT="0", GIT_ASKPASS="true", GIT_SSH_COMMAND="ssh -o BatchMode=yes",
            LC_ALL="C.UTF-8",
        )  # fmt: skip
        return self._place.run(["git", "ls-remote", "--", address, "HEAD"], environment, "/", NETWORK_SECONDS)

    def _remote(self, address: str) -> Check:
        shown = re.sub(r"//[^/@]*@", "//", address)
        name = "git." + (re.sub(r"(\.git)?/*$", "", shown).rpartition("/")[2] or "remote")
        answer: Finished = self._ahead.answer(("git", address), lambda: self._ask_remote(address))
        if answer.code == 0:
            return ok(name, "{0} answers".format(shown))
        said = (
            "no answer within {0:.0f} s".format(NETWORK_SECONDS) if answer.code == TIMED_OUT else last_line(answer.err)
        )
        said = said.replace(address, shown)
        remedy = (
            "load the module that brings Git, in dgxc_environment_modules"
            if answer.code == 127
            else "set the proxies in the login node's own environment or for its Git if the site has proxies, or name"
            " a copy that the login node reaches"
        )
        slow = answer.code == TIMED_OUT or "timed out" in said.lower()
        return (warning if slow else error)(name, "{0}: {1}".format(shown, said), remedy)

    def _clock(self) -> list[Check]:
        controller = self._settings.get("controller_time")
        if not controller:
            return []
        # The way here takes a moment, so this host seems a little ahead.
        return [preflight.judge_clock("clock.login", "the login node", self._place.now() - float(controller))]

    # --- for a new inventory ---

    def look_around(self) -> dict[str, Any]:
        """What a new inventory is made from: how Slurm is found, partitions, accounts, storage."""
        self._python()
        problems = self._find_what_answers()
        self.facts["slurm_bin_dir"] = self._settings.get("slurm_bin_dir") or "" if self._slurm is not None else ""
        self.facts["environment_modules"] = list(self._settings.get("environment_modules") or [])
        if self._slurm is not None:
            self._begin_slurm(_SHOWN_PARTITIONS)
            self._versions()
            partitions = preflight.parse_partitions(self._query(*_SHOWN_PARTITIONS).out)
            nodes = preflight.parse_nodes(self._query(*_NODES).out)
            self._partition_facts(partitions, nodes)
            self._accounting()
        self.facts["shared_folders"] = shared_folders(_mounts_of_this_host(), self._place.user, os.path.isdir)
        self.facts["user"] = self._place.user
        self.facts["problems"] = [check._asdict() for check in problems]
        return self.facts

    def _find_what_answers(self) -> list[Check]:
        """Look for a Slurm that answers and return what is wrong if none does; the first one found stays then.

        As told, then in a login shell, by the module that sites often have, and in the folders that they often use.
        """
        given = (str(self._settings.get("slurm_bin_dir") or ""), list(self._settings.get("environment_modules") or []))
        first: tuple[str, list[str]] | None = None
        problems: list[Check] = []

        def candidates() -> Iterator[tuple[str, list[str]]]:
            yield given
            shell = self._login_shell_folder()
            if shell:
                yield shell, []
            yield "", [SLURM_MODULE]
            for folder in USUAL_FOLDERS:
                yield folder, []

        for folder, modules in candidates():
            self._take(folder, modules)
            found = self._find_slurm()
            if self._slurm is None:
                problems = problems or found
                continue
            answer = self._ask(_PARTITIONS)
            if answer.code == 0:
                return []
            if first is None:
                first = (folder, modules)
                problems = [error("slurm.controller", _said(answer, "scontrol"), self._controller_remedy())]
        self._take(*(first or given))
        self._find_slurm()
        return problems

    def _take(self, folder: str, modules: list[str]) -> None:
        self._slurm = None
        self._settings = dict(self._settings, slurm_bin_dir=folder, environment_modules=modules)


def _overruled(check: Check) -> Check:
    """What a list says where Slurm takes the request: no error."""
    if check.verdict != ERROR or check.id not in ("slurm.partition", "slurm.account", "slurm.qos"):
        return check
    return warning(check.id, check.evidence + "; Slurm takes the request nevertheless", check.remedy)


class _Change(NamedTuple):
    """A request changed in one subject, and the fact that would make it so."""

    subject: str
    options: Mapping[str, str]
    without: Sequence[str]
    remedy: str


def _said(answer: Finished, command: str) -> str:
    if answer.code == TIMED_OUT:
        return "{0} did not answer within {1:.0f} s".format(command, QUERY_SECONDS)
    return last_line(answer.err) or "{0} ended with code {1}".format(command, answer.code)


def _test_lines(answer: Finished) -> list[str]:
    """What ``sbatch --test-only`` said, without its own names in front."""
    return [re.sub(r"^Job [0-9]+ to", "would", line) for line in preflight.refusal(answer.err)]


def _reference_of(image: str) -> Reference | None:
    """Return an image's reference, and None for a file or for what cannot be read."""
    if not image or is_file(image):
        return None
    try:
        return parse(image)
    except ValueError:
        return None


def _checked_out(folder: str) -> str:
    """Return the commit that a clone stands on without a branch, as a pinned one does; '' for any other folder."""
    try:
        with open(os.path.join(folder, ".git", "HEAD"), encoding="ascii", errors="replace") as stream:
            return stream.readline().strip()
    except OSError:
        return ""


def _mounts_of_this_host() -> str:
    try:
        with open("/proc/self/mounts", encoding="utf-8", errors="replace") as stream:
            return stream.read()
    except OSError:
        return ""


def _mount_table(text: str) -> list[tuple[str, str]]:
    """Return (folder, type) of each line of /proc/self/mounts."""
    rows = [line.split() for line in text.splitlines()]
    return [(row[1].replace("\\040", " "), row[2]) for row in rows if len(row) >= 3]


def file_system(path: str, mounts: str) -> str:
    """Return the type of the file system that a path is on, from the text of /proc/self/mounts."""
    longest, kind = "", "an unknown file system"
    for folder, type_ in _mount_table(mounts):
        inside = path == folder or path.startswith(folder.rstrip("/") + "/")
        if inside and len(folder) >= len(longest):
            longest, kind = folder, type_
    return kind


def shared_folders(mounts: str, user: str, exists: Callable[[str], bool]) -> list[str]:
    """Return folders that the user may have on shared storage, the likeliest first."""
    found = []
    for folder, kind in _mount_table(mounts):
        if kind in SHARED_FILE_SYSTEMS:
            found += [os.path.join(folder, middle, user) for middle in ("scratch", "users", "home", "")]
    return [path for path in found if exists(path)]
