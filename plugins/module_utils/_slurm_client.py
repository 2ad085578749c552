# Copyright: (c) 2026, The dgxc.workloads developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The one class that asks Slurm, and the finding of the environment in which Slurm's commands work.

This file is private to the collection. Commands are run by a function that is handed in, so tests answer in Slurm's
stead; `run_command` below is the real one.
"""

from __future__ import annotations

import os
import time
from dataclasses import dataclass, field
from typing import Callable, Iterable, Mapping, Sequence

from ansible_collections.dgxc.workloads.plugins.module_utils import _slurm_parse as parse
from ansible_collections.dgxc.workloads.plugins.module_utils._process import (
    TIMED_OUT,
    EnvironmentProblem,
    Finished,
    Run,
    login_environment,
)
from ansible_collections.dgxc.workloads.plugins.module_utils._process import run as run_command
from ansible_collections.dgxc.workloads.plugins.module_utils._slurm_tables import (
    ANSWERED,
    DISABLED,
    NO_ANSWER,
    UNUSABLE_NODE_STATES,
    query_meaning,
)

#: sbatch tries again by itself for up to about 120 s (15 tries with growing pauses); it must not be cut before that.
SUBMIT_TIMEOUT = 200.0
#: A query that takes longer than this is an outage: squeue gives up after about 20 s by itself.
QUERY_TIMEOUT = 120.0
#: Seconds by which the clocks of this host, of slurmctld and of slurmdbd may differ.
CLOCK_SKEW = 300

#: Variables that would change what the commands do or print (an enclosing job's, or the user's own defaults).
_FOREIGN_PREFIXES = ("SBATCH_", "SLURM_", "SLURMD_", "SQUEUE_", "SACCT_", "SCANCEL_", "SINFO_", "SRUN_", "SALLOC_")
_FOREIGN_PREFIXES_MPI = ("PMI_", "PMIX_", "PMI2_")
_KEPT = frozenset(["SLURM_CONF"])
#: Where the Slurm of a distribution's package is, and where it would have its configuration: Debian's and Ubuntu's,
#: Fedora's and EPEL's, and what sackd and slurmd write on a site without configuration files.
_PACKAGED_FOLDERS = frozenset(("/usr/bin", "/bin"))
_PACKAGED_CONFIGURATIONS = (
    "/etc/slurm/slurm.conf",
    "/etc/slurm-llnl/slurm.conf",
    "/run/slurm/conf/slurm.conf",
    "/run/slurm/slurm.conf",
)


class SlurmNotFound(Exception):
    """Slurm's commands are not to be found; the message says which setting helps."""


# --- The environment --------------------------------------------------------------------------------------------


def clean_environment(environment: Mapping[str, str]) -> dict[str, str]:
    """`environment` without the variables of an enclosing job and without defaults for Slurm's commands.

    SBATCH_PARTITION beats a script's own directives, SQUEUE_STATES hides rows, SLURM_CPU_BIND of an enclosing job slows
    every rank: none may leak in. SLURM_CONF says where Slurm is and stays. Messages come in English, in UTF-8.
    """
    prefixes = _FOREIGN_PREFIXES + _FOREIGN_PREFIXES_MPI
    kept = {name: value for name, value in environment.items() if name in _KEPT or not name.startswith(prefixes)}
    kept["LC_ALL"] = "C.UTF-8"
    return kept


def find_environment(
    run: Run,
    environment: Mapping[str, str],
    slurm_bin_dir: str | None = None,
    environment_modules: Sequence[str] = (),
    exists: Callable[[str], bool] = os.path.exists,
) -> dict[str, str]:
    """The cleaned environment in which `sbatch`, `squeue`, `sacct` and `scancel` are found.

    In this order: `slurm_bin_dir` goes first on PATH; else `environment_modules` are loaded in a login shell; else the
    PATH as it is, if sbatch is there; else a login shell's. A distribution's package that has no configuration does not
    count: a login shell may find the site's own Slurm, or set SLURM_CONF. Raises SlurmNotFound with a sentence that
    names the setting to correct. A login shell may print what it likes: only what follows our mark is read.
    """
    if slurm_bin_dir:
        if not exists(os.path.join(slurm_bin_dir, "sbatch")):
            raise SlurmNotFound(
                f"slurm_bin_dir is {slurm_bin_dir!r}, but there is no sbatch in it: name the folder that holds "
                "Slurm's commands on the "
                "login node."
            )
        found = dict(environment)
        found["PATH"] = slurm_bin_dir + ":" + found.get("PATH", "/usr/bin:/bin")
        return clean_environment(found)
    there = "" if environment_modules else _folder_of("sbatch", environment, exists)
    if there and _is_configured(there, environment, exists):
        return clean_environment(environment)
    try:
        found = login_environment(run, environment, environment_modules, always=True)
    except EnvironmentProblem as error:
        if there:
            return clean_environment(environment)
        raise SlurmNotFound(str(error)) from None
    if not _folder_of("sbatch", found, exists):
        if there:
            return clean_environment(environment)
        raise SlurmNotFound(
            "sbatch was not found {}: set dgxc_environment_modules to the modules that bring Slurm (for instance "
            "[slurm]), or dgxc_slurm_bin_dir to the folder of its commands.".format(
                "after loading the environment modules " + ", ".join(environment_modules)
                if environment_modules
                else "on PATH, nor by a login shell"
            )
        )
    return clean_environment(found)


def _folder_of(command: str, environment: Mapping[str, str], exists: Callable[[str], bool]) -> str:
    """Return the first folder on PATH that has a command, '' if none has it."""
    folders = (folder for folder in environment.get("PATH", "").split(":") if folder)
    return next((folder for folder in folders if exists(os.path.join(folder, command))), "")


def _is_configured(folder: str, environment: Mapping[str, str], exists: Callable[[str], bool]) -> bool:
    """Whether Slurm's commands in a folder have a configuration, as far as files tell.

    A site's own build may have it anywhere and is believed. A packaged one may get it by DNS alone; then a login shell
    is asked in vain, which costs a moment and changes nothing.
    """
    if folder.rstrip("/") not in _PACKAGED_FOLDERS or environment.get("SLURM_CONF"):
        return True
    return any(exists(path) for path in _PACKAGED_CONFIGURATIONS)


def connect(slurm_bin_dir: str | None, environment_modules: Sequence[str], run: Run = run_command) -> Slurm:
    """Slurm as the user of this process finds it on this host. Raises SlurmNotFound."""
    environment = find_environment(run, os.environ, slurm_bin_dir, environment_modules)
    return Slurm(run, environment, os.getuid(), time.monotonic)


# --- Asking Slurm -----------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Wanted:
    """A job to look for: by its id, or, without one, among all that the user has submitted since a time (epoch)."""

    job_id: str | None
    since: float
    cluster: str | None = None


@dataclass
class Look:
    """What squeue and sacct answered in one look, and whether they answered at all.

    `queue_answer` is ANSWERED or NO_ANSWER; `accounting_answer` is ANSWERED, NO_ANSWER or DISABLED. `errors` holds one
    line per tool that did not answer. `seconds` is how long the queries took.
    """

    queue_answer: str = NO_ANSWER
    accounting_answer: str = NO_ANSWER
    queue: list[parse.QueueRow] = field(default_factory=list)
    accounting: list[parse.AccountingRow] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)
    seconds: float = 0.0

    def queue_rows(self, job_id: str) -> list[parse.QueueRow]:
        """squeue's rows of the job, its array tasks and components."""
        return [row for row in self.queue if parse.base_job_id(row.job_id) == job_id]

    def accounting_rows(self, job_id: str) -> list[parse.AccountingRow]:
        """sacct's rows of the job, its array tasks and components."""
        return [row for row in self.accounting if parse.base_job_id(row.job_id) == job_id]

    def add(self, other: Look) -> None:
        """Take in another look: what one of them was not told, is not told."""
        self.queue += other.queue
        self.accounting += other.accounting
        self.errors += other.errors
        self.seconds += other.seconds
        if other.queue_answer != ANSWERED:
            self.queue_answer = other.queue_answer
        if self.accounting_answer != NO_ANSWER and other.accounting_answer != ANSWERED:
            self.accounting_answer = other.accounting_answer

    def jobs_in(self, work_dir: str) -> list[str]:
        """The ids of all jobs whose working folder is exactly `work_dir`, the lowest id first."""
        rows: list[tuple[str, str]] = [(row.job_id, row.work_dir) for row in self.queue]
        rows += [(row.job_id, row.work_dir) for row in self.accounting]
        ids = {parse.base_job_id(job_id) for job_id, folder in rows if folder and folder == work_dir}
        return sorted(ids, key=int)


class Slurm:
    """Slurm on the host where this runs, through its commands, in a given environment."""

    def __init__(
        self,
        run: Run,
        environment: Mapping[str, str],
        user_id: int,
        monotonic: Callable[[], float],
    ) -> None:
        self._run = run
        self._environment = dict(environment)
        self._user_id = user_id
        self._monotonic = monotonic
        self.queries = 0

    def submit(
        self,
        script: str,
        options: Mapping[str, str],
        environment: Mapping[str, str],
        test_only: bool = False,
    ) -> Finished:
        """Run sbatch. `options` are long options; an empty value is a flag. `environment` is added for the job."""
        arguments = ["sbatch", "--parsable"]
        if test_only:
            arguments.append("--test-only")
        for name, value in options.items():
            arguments.append("--" + name + ("=" + value if value != "" else ""))
        arguments.append(script)
        return self._run(arguments, dict(self._environment, **environment), None, SUBMIT_TIMEOUT)

    def cancel(self, job_ids: Iterable[str], cluster: str | None = None) -> Finished:
        """Run scancel. Its return code proves nothing (an unknown id gives 0 too): look afterwards."""
        return self._run(["scancel", *_cluster(cluster), *list(job_ids)], self._environment, None, QUERY_TIMEOUT)

    def unusable_nodes(self, nodes: Sequence[str]) -> list[str]:
        """Those of the nodes that are down, drained or silent now; none when sinfo does not answer."""
        command = ["sinfo", "-h", "-N", "-o", "%N %t", "-n", ",".join(nodes)]
        result = self._run(command, self._environment, None, QUERY_TIMEOUT)
        states = parse.parse_node_states(result.out) if result.code == 0 else {}
        return sorted(
            node
            for node, state in states.items()
            if state.endswith("*") or state.rstrip("*~#!%$@^-+") in UNUSABLE_NODE_STATES
        )

    def look_for(self, wanted: Sequence[Wanted], now: float) -> Look:
        """One look for all jobs wanted. On a multi-cluster site each cluster is asked, and all of them must answer."""
        whole = Look(ANSWERED, ANSWERED)
        for cluster in sorted({want.cluster for want in wanted}, key=lambda name: name or ""):
            of_cluster = [want for want in wanted if want.cluster == cluster]
            since = [want.since for want in of_cluster if want.job_id is None]
            ids = [want.job_id for want in of_cluster if want.job_id is not None]
            whole.add(self.look(ids, min(since) if since else None, now, cluster))
        return whole

    def look(
        self,
        job_ids: Sequence[str] = (),
        since: float | None = None,
        now: float = 0.0,
        cluster: str | None = None,
    ) -> Look:
        """One squeue and one sacct for all jobs asked about (plus one scontrol where there is no accounting).

        With `since` (seconds since the epoch) all jobs of this user from then on are asked for, in addition to
        `job_ids`; squeue is asked for all of the user's jobs in that case.
        """
        started = self._monotonic()
        look = Look()
        ids = sorted(set(job_ids), key=int)
        queue = ["squeue", "-h", "-a", "-t", "all", "-o", parse.QUEUE_FORMAT, *_cluster(cluster)]
        queue += ["-u", str(self._user_id)] if since is not None or not ids else ["-j", ",".join(ids)]
        answer, text = self._query(queue, look)
        look.queue_answer = NO_ANSWER if answer == DISABLED else answer
        look.queue = parse.parse_queue(text) if look.queue_answer == ANSWERED else []

        rows: dict[str, parse.AccountingRow] = {}
        selections: list[list[str]] = []
        failed = False
        if since is not None:
            # An age, not a date: no time zone, and sacct's own default (midnight) never applies.
            age = max(0, int(now - since)) + CLOCK_SKEW
            selections.append(["-S", f"now-{age}seconds", "-u", str(self._user_id)])
        if ids:
            selections.append(["-j", ",".join(ids)])
        for selection in selections:
            accounting = ["sacct", "-P", "-n", "-D", "--delimiter=" + parse.FIELD_SEPARATOR, *_cluster(cluster)]
            answer, text = self._query([*accounting, "-o", ",".join(parse.ACCOUNTING_FIELDS), *selection], look)
            if look.accounting_answer in (NO_ANSWER, ANSWERED) and not (failed and answer == ANSWERED):
                look.accounting_answer = answer
            failed = failed or answer == NO_ANSWER
            if answer == ANSWERED:
                rows.update((row.job_id, row) for row in parse.parse_accounting(text))
            elif answer == DISABLED:
                rows.update((row.job_id, row) for row in self._controller_jobs(look, cluster))
        look.accounting = list(rows.values())
        look.seconds = self._monotonic() - started
        return look

    def _controller_jobs(self, look: Look, cluster: str | None) -> list[parse.AccountingRow]:
        answer, text = self._query(["scontrol", "-o", "show", "job", *_cluster(cluster)], look)
        return parse.parse_controller_jobs(text) if answer == ANSWERED else []

    def _query(self, arguments: Sequence[str], look: Look) -> tuple[str, str]:
        environment = dict(self._environment, SLURM_TIME_FORMAT="%s", SLURM_BITSTR_LEN="0")
        result = self._run(arguments, environment, None, QUERY_TIMEOUT)
        self.queries += 1
        if result.code == TIMED_OUT:
            look.errors.append(f"{arguments[0]} did not answer within {QUERY_TIMEOUT:.0f} s")
            return NO_ANSWER, ""
        meaning = query_meaning(result.code, result.err)
        if meaning == NO_ANSWER:
            lines = result.text.splitlines() or [f"{arguments[0]} ended with code {result.code}"]
            look.errors.append(lines[-1] if arguments[0] == "sacct" else lines[0])
        return meaning, result.out


def _cluster(cluster: str | None) -> list[str]:
    return ["-M", cluster] if cluster else []
