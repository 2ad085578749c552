# Copyright: (c) 2026, The dgxc.workloads developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Submitting at most one job per run: adopting what is there, submitting what is missing, cancelling what is unwanted.

This file is private to the collection. The protocol, for each run:

1. An attempt is one folder, and one folder is one call of sbatch with `--chdir` to it. The folder with the intent in it
   exists before sbatch is called (`_run_record.begin_attempt`), and only one process can make it.
2. A run whose newest attempt has a job is looked at, not submitted.
3. A newest attempt without a job (the submitter died, or sbatch gave no clear answer) is looked for by its folder in
   the queue and in the accounting. Found: adopted. Not found by either, with both answering, for the whole absence
   window, and no submitter alive: one more attempt. Tools that do not answer: nothing is submitted.
4. Everything Slurm is asked is asked once for all runs, whatever their number.

The one limit: a job that the controller hides for longer than the absence window after its submitter has died.
"""

from __future__ import annotations

import os
import re
import shutil
import tempfile
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any, Callable, Mapping, Sequence

from ansible_collections.dgxc.workloads.plugins.module_utils import _run_record as record
from ansible_collections.dgxc.workloads.plugins.module_utils._job_parts import job_parts
from ansible_collections.dgxc.workloads.plugins.module_utils._job_verdict import (
    OUTCOME_ACTIVE,
    OUTCOME_FAILED,
    OUTCOME_SUCCEEDED,
    OUTCOME_UNKNOWN,
    Identity,
    Limits,
    Verdict,
    judge,
)
from ansible_collections.dgxc.workloads.plugins.module_utils._process import TIMED_OUT, Finished
from ansible_collections.dgxc.workloads.plugins.module_utils._slurm_client import Look, Slurm, Wanted
from ansible_collections.dgxc.workloads.plugins.module_utils._slurm_parse import parse_submit_output
from ansible_collections.dgxc.workloads.plugins.module_utils._slurm_tables import (
    AMBIGUOUS,
    ANSWERED,
    BLAMED_ON_A_NODE,
    DISABLED,
    POLICY,
    TRANSIENT,
    UNRECOGNISED,
    SubmitRule,
    submit_rule,
)

RESUBMIT_NEVER = "never"
RESUBMIT_ON_FAILURE = "on_failure"
RESUBMIT_ALWAYS = "always"

#: Long options of sbatch that would break the protocol or hide the job.
RESERVED_OPTIONS = frozenset(
    [
        "chdir",
        "parsable",
        "wait",
        "test-only",
        "wrap",
        "comment",
        "help",
        "version",
        "usage",
        "quiet",
        "verbose",
        "clusters",
    ]
)
#: How many sbatch run at the same time: enough to hide each one's start, few enough for a shared login node.
PARALLEL_SUBMISSIONS = 4


@dataclass(frozen=True)
class Request:
    """One run to be submitted.

    `spec` is what the record shall say of the run; `options` are long options of sbatch as text. `after` names the
    request of the same call whose job has to end, in whatever way, before this one's begins.
    """

    name: str
    run_dir: str
    key: str
    script: str
    files: Mapping[str, str]
    directories: Sequence[str] = ()
    options: Mapping[str, str] = field(default_factory=dict)
    environment: Mapping[str, str] = field(default_factory=dict)
    resubmit: str = RESUBMIT_NEVER
    max_attempts: int = 3
    retry_on_policy_limit: bool = False
    after: str = ""
    spec: Mapping[str, Any] = field(default_factory=dict)


@dataclass
class Report:
    """What was done for one run. `action` is submitted, adopted, unchanged, cancelled, refused, unknown or planned."""

    name: str
    run_dir: str
    action: str
    attempt: int | None = None
    attempt_dir: str | None = None
    job_id: str | None = None
    cluster: str | None = None
    state: str = ""
    verdict: str = OUTCOME_UNKNOWN
    failure_class: str = ""
    message: str = ""
    warnings: list[str] = field(default_factory=list)
    changed: bool = False
    # A submission was only planned, as opposed to what else check mode may plan.
    rehearsed: bool = False

    def as_json(self) -> dict[str, Any]:
        """The fields as the module returns them."""
        return dict(vars(self))


@dataclass(frozen=True)
class Timing:
    """Limits of the protocol, in seconds.

    `absence_window`: how long a job must not be found before it is submitted once more. `transient`: how long a
    submission is repeated that Slurm could not take. `look_up`: how long queue and accounting may fail to answer.
    `submitter`: how long another process may take for its submission before it counts as gone, where it cannot be
    asked.
    """

    absence_window: float = 60.0
    transient: float = 120.0
    look_up: float = 180.0
    submitter: float = 420.0
    first_pause: float = 1.0
    longest_pause: float = 10.0


def option_texts(options: Mapping[str, Any]) -> dict[str, str]:
    """sbatch options as text: `true` is a flag, `false` and null leave the option out, a list is joined by commas."""
    texts: dict[str, str] = {}
    for name, value in options.items():
        if value is None or value is False:
            continue
        if value is True:
            texts[str(name)] = ""
        elif isinstance(value, (list, tuple)):
            texts[str(name)] = ",".join(str(item) for item in value)
        else:
            texts[str(name)] = str(value)
    return texts


def problems_of(request: Request) -> list[str]:
    """What is wrong with a request, one sentence each, before anything is touched."""
    found: list[str] = []
    label = f"job {request.name!r}: "
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}", request.name):
        found.append(label + "name must be 1 to 64 letters, digits, dots, underscores and dashes.")
    if not re.fullmatch(r"/[A-Za-z0-9._/+@=-]+", request.run_dir):
        found.append(
            label + f"run_dir is {request.run_dir!r}; it must be an absolute path of letters, digits and ._/+@=- "
            "only, because Slurm "
            "and Pyxis cut paths at other characters."
        )
    if request.resubmit not in (RESUBMIT_NEVER, RESUBMIT_ON_FAILURE, RESUBMIT_ALWAYS):
        found.append(label + f"resubmit is {request.resubmit!r}; use never, on_failure or always.")
    if request.after == request.name and request.after:
        found.append(label + "after names the job itself; name another one.")
    if request.max_attempts < 1:
        found.append(label + f"max_attempts is {request.max_attempts}; it must be at least 1.")
    for name in request.options:
        if not re.fullmatch(r"[a-z][a-z0-9-]*", name):
            found.append(label + f"options has {name!r}; give long options of sbatch without dashes, as `qos`.")
        elif name in RESERVED_OPTIONS:
            found.append(label + f"options has {name!r}, which this collection sets itself; leave it out.")
    for name, value in request.options.items():
        if "\n" in value or "\0" in value:
            found.append(label + f"option {name!r} has a line break in its value.")
    for name in list(request.files) + list(request.directories):
        problem = record.check_relative_path(name)
        if problem:
            found.append(label + f"file {name!r} {problem}.")
    if request.files and request.script not in request.files:
        found.append(label + f"script is {request.script!r}, which is not one of the files.")
    script = request.files.get(request.script)
    if script is not None and not script.startswith("#!"):
        found.append(label + "the script must start with `#!` and an interpreter, as sbatch demands.")
    if script is not None and "\r\n" in script:
        found.append(label + "the script has DOS line breaks, which sbatch refuses.")
    for name in request.environment:
        if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", name):
            found.append(label + f"environment has {name!r}, which is not a variable's name.")
    return found


def wanted(attempt: record.Attempt) -> Wanted:
    """How an attempt's job is looked for."""
    return Wanted(attempt.job_id, attempt.intent_time, attempt.cluster)


def identity_of(attempt: record.Attempt, job_id: str) -> Identity:
    """Which of Slurm's rows are the attempt's, and how many there have to be."""
    return Identity(job_id, attempt.folder, attempt.intent_time, attempt.parts)


def known_gone_for(verdict: Verdict, intent_time: float, now: float) -> float:
    """How long a job has been gone at the least, for somebody who looks once and has not watched.

    With a row, since its end. Without any row, since the submission, because a job that is nowhere was never seen
    later.
    """
    if verdict.row is not None:
        return max(0.0, now - verdict.row.end_time) if verdict.row.end_time is not None else 0.0
    return max(0.0, now - intent_time)


def judge_once(
    attempt: record.Attempt, look: Look, now: float, limits: Limits, gone_for: float | None = None
) -> Verdict:
    """The verdict on an attempt's job in a single look; `gone_for` where the caller has watched the queue itself."""
    identity = identity_of(attempt, attempt.job_id or "")
    first = judge(identity, look, gone_for or 0.0, now, limits)
    if gone_for is not None or first.outcome != OUTCOME_ACTIVE or first.in_queue is not False:
        return first
    return judge(identity, look, known_gone_for(first, attempt.intent_time, now), now, limits)


class Submitter:
    """Carries the protocol out for a list of requests."""

    def __init__(
        self,
        slurm: Slurm,
        owner: record.Owner,
        now: Callable[[], float],
        sleep: Callable[[float], None],
        timing: Timing,
        limits: Limits,
        owner_lives: Callable[[Mapping[str, Any]], bool | None] = record.owner_lives,
        parallel: int = PARALLEL_SUBMISSIONS,
    ) -> None:
        self._slurm = slurm
        self._owner = owner
        self._now = now
        self._sleep = sleep
        self._timing = timing
        self._limits = limits
        self._owner_lives = owner_lives
        self._parallel = parallel
        # Attempts whose sbatch has ended in this process without a clear answer: nobody is submitting them any more.
        self._ended_unclear: dict[str, tuple[SubmitRule, str]] = {}
        # Nodes that the next attempt of a run leaves out, by run folder.
        self._excluded: dict[str, list[str]] = {}

    # --- submitting ---

    def submit(self, requests: Sequence[Request], check_mode: bool = False) -> list[Report]:
        """One report per request, in the same order. Raises RecordError when a run folder cannot be used."""
        runs = [record.load_run(request.run_dir) for request in requests]
        for request, run in zip(requests, runs):
            record.check_spec(run, request.key)
        reports: dict[int, Report] = {}
        to_submit, to_find = self._decide(requests, runs, reports, check_mode)
        if check_mode:
            for index in to_submit:
                reports[index] = self._rehearse(requests[index], runs[index])
            for index in to_find:
                reports[index] = self._report(requests[index], runs[index].last, "planned")
                reports[index].message = (
                    "an earlier submission has no job id and its job was not found yet; the real run looks for it for "
                    f"{self._timing.absence_window:.0f} s before it submits"
                )
            return [reports[index] for index in range(len(requests))]
        submitted_again: set[int] = set()
        while to_submit or to_find:
            to_find.extend(self._submit_all(requests, runs, to_submit, reports))
            to_submit = self._find_all(requests, runs, to_find, reports, submitted_again)
            submitted_again.update(to_submit)
            to_find = []
        return [reports[index] for index in range(len(requests))]

    def _decide(
        self,
        requests: Sequence[Request],
        runs: list[record.Run],
        reports: dict[int, Report],
        check_mode: bool,
    ) -> tuple[list[int], list[int]]:
        """Report what is settled; return the indices to submit and those whose job has to be looked for."""
        to_submit: list[int] = []
        to_look: list[int] = []
        for index, (request, run) in enumerate(zip(requests, runs)):
            last = run.last
            if last is None:
                to_submit.append(index)
            elif last.result is not None and last.result.get("verdict") in (OUTCOME_SUCCEEDED, OUTCOME_FAILED):
                self._apply_policy(index, request, run, _recorded(last.result), reports, to_submit)
            else:
                to_look.append(index)
        to_find: list[int] = []
        if to_look:
            look = self._look([runs[index] for index in to_look])
            for index in to_look:
                self._settle(index, requests[index], runs[index], look, reports, to_submit, to_find, check_mode)
        return to_submit, to_find

    def _look(self, runs: Sequence[record.Run]) -> Look:
        """One look for all: by id where the id is known, by the folders of the attempts where it is not."""
        return self._slurm.look_for([wanted(run.last) for run in runs if run.last is not None], self._now())

    def _settle(
        self,
        index: int,
        request: Request,
        run: record.Run,
        look: Look,
        reports: dict[int, Report],
        to_submit: list[int],
        to_find: list[int],
        check_mode: bool,
    ) -> None:
        last = run.newest
        if last.job_id is None and not self._adopt(request, run, look, reports, index, check_mode):
            if not last.refusal:
                to_find.append(index)
            elif (last.job or {}).get("class") == UNRECOGNISED and not _both_answered(look):
                # A refusal in words that no table knows may have been none: without a clear look, nothing follows.
                reports[index] = self._outcome_unknown(request, run, look)
            else:
                to_submit.append(index)
            return
        if index in reports:
            return
        verdict = judge_once(last, look, self._now(), self._limits)
        if verdict.outcome == OUTCOME_ACTIVE:
            reports[index] = self._report(request, last, "adopted", verdict)
            if look.errors:
                reports[index].warnings.extend(look.errors)
        else:
            self._apply_policy(index, request, run, verdict, reports, to_submit)

    def _apply_policy(
        self,
        index: int,
        request: Request,
        run: record.Run,
        verdict: Verdict,
        reports: dict[int, Report],
        to_submit: list[int],
    ) -> None:
        """An attempt that has ended: leave it, or make another one, as `resubmit` says."""
        again = request.resubmit == RESUBMIT_ALWAYS or (
            request.resubmit == RESUBMIT_ON_FAILURE and verdict.outcome == OUTCOME_FAILED
        )
        used = sum(1 for attempt in run.attempts if attempt.job_id is not None)
        if again and (used < request.max_attempts or verdict.outcome == OUTCOME_SUCCEEDED):
            self._excluded[run.folder] = self._nodes_to_leave_out(run, verdict)
            to_submit.append(index)
            return
        report = self._report(request, run.last, "unchanged", verdict)
        if again:
            report.message = f"{report.message} All {used} attempts are used up (max_attempts).".strip()
        reports[index] = report

    def _nodes_to_leave_out(self, run: record.Run, verdict: Verdict) -> list[str]:
        """The nodes that failed earlier attempts: those left out already, and, after a node failure, the guilty ones.

        Slurm does not record which of several nodes failed; those that are unusable now are taken for it, and the only
        node of a job on one node in any case. A broken node would otherwise be drawn again, attempt for attempt.
        """
        excluded = set(run.spec.get("excluded") or [])
        if verdict.failure_class in BLAMED_ON_A_NODE:
            recorded = (run.newest.result or {}).get("job") or {}
            nodes = list(verdict.row.nodes if verdict.row is not None else recorded.get("nodes") or [])
            excluded.update(nodes if len(nodes) == 1 else self._slurm.unusable_nodes(nodes) if nodes else [])
        return sorted(excluded)

    def _adopt(
        self,
        request: Request,
        run: record.Run,
        look: Look,
        reports: dict[int, Report],
        index: int,
        check_mode: bool,
    ) -> bool:
        """Attach to the job in the newest attempt's folder, if the look shows one."""
        last = run.newest
        ids = look.jobs_in(last.folder)
        if last.refusal:
            # A refusal can leave a FAILED row; only a living job contradicts it.
            ids = [job_id for job_id in ids if self._alive(job_id, last, look)]
        if not ids:
            return False
        living = [job_id for job_id in ids if self._alive(job_id, last, look)]
        chosen = (living or ids)[0]
        job = {"job_id": chosen, "cluster": None, "time": self._now(), "adopted": True}
        if check_mode:
            last.job = job
        else:
            record.store_job(last, job)
            record.store_record(run)
        verdict = judge_once(last, look, self._now(), self._limits)
        report = self._report(request, last, "adopted", verdict)
        report.changed = True
        report.message = f"found job {chosen} of an earlier submission whose answer was lost; adopted it"
        others = [job_id for job_id in ids if job_id != chosen]
        if others:
            report.warnings.append(
                "more jobs run in {}: {}. They were left alone; cancel them if they are not wanted.".format(
                    last.folder, ", ".join(others)
                )
            )
        reports[index] = report
        return True

    def _alive(self, job_id: str, attempt: record.Attempt, look: Look) -> bool:
        identity = identity_of(attempt, job_id)
        return judge(identity, look, 0.0, self._now(), self._limits).in_queue is True

    def _submit_all(
        self, requests: Sequence[Request], runs: list[record.Run], indices: Sequence[int], reports: dict[int, Report]
    ) -> list[int]:
        """Make a new attempt for each index; return those whose outcome is not clear."""
        unclear: list[int] = []
        for wave in _waves(requests, indices):
            # What comes after another run needs that run's job id, so it is submitted when that one's turn is over.
            jobs = [self._job_before(requests, index, reports) for index in wave]
            with ThreadPoolExecutor(max_workers=max(1, min(self._parallel, len(wave)))) as pool:
                submitted = pool.map(lambda pair: self._submit_one(requests[pair[0]], runs[pair[0]], pair[1]),
                                     zip(wave, jobs))  # fmt: skip
                for index, report in zip(wave, submitted):
                    if report is None:
                        runs[index] = record.load_run(runs[index].folder)
                        unclear.append(index)
                    else:
                        reports[index] = report
        return unclear

    @staticmethod
    def _job_before(requests: Sequence[Request], index: int, reports: Mapping[int, Report]) -> str:
        """The id of the job whose end a run waits for; '' if there is none, or none that is still to end."""
        places = {request.name: place for place, request in enumerate(requests)}
        before = places.get(requests[index].after)
        passed = {index}
        while before is not None and before not in passed:
            report = reports.get(before)
            if report is not None and report.verdict == OUTCOME_ACTIVE:
                return report.job_id or ""
            # A run that ended, was refused or is unclear has no end to wait for; the one before it may have.
            passed.add(before)
            before = places.get(requests[before].after)
        return ""

    def _submit_one(self, request: Request, run: record.Run, job_before: str = "") -> Report | None:
        """Make the next attempt and call sbatch for it. None when the outcome is unclear or another process does it.

        :param job_before: the job whose end this one's waits for, or ''.
        """
        number = run.last.number + 1 if run.last is not None else 1
        spec = dict(request.spec, excluded=self._excluded.get(run.folder, list(run.spec.get("excluded") or [])))
        spec["parts"] = job_parts(request.files.get(request.script, ""), request.options)
        attempt = record.begin_attempt(run, number, spec, request.files, request.directories, self._owner, self._now())
        if attempt is None:
            return None
        record.store_record(run)
        result, rule = self._call_sbatch(request, attempt, job_before)
        answer = parse_submit_output(result.out) if result.code == 0 else None
        if answer is not None:
            job = {"job_id": answer.job_id, "cluster": answer.cluster, "time": self._now(), "adopted": False}
            record.store_job(attempt, job)
            record.store_record(run)
            report = self._report(request, attempt, "submitted")
            report.changed = True
            report.state = "PENDING"
            report.verdict = OUTCOME_ACTIVE
            report.warnings.extend(line for line in result.err.splitlines() if line.strip())
            return report
        if rule.kind in (AMBIGUOUS, UNRECOGNISED):
            self._ended_unclear[attempt.folder] = (rule, result.text)
            return None
        return self._refuse(request, run, attempt, rule, result.text)

    def _call_sbatch(self, request: Request, attempt: record.Attempt, job_before: str) -> tuple[Finished, SubmitRule]:
        options = dict(request.options, chdir=attempt.folder, comment=_comment(request))
        # A requeue must not truncate the log of the run before it; sbatch hands this on to srun.
        options.setdefault("open-mode", "append")
        excluded = list(attempt.intent["spec"]["excluded"])
        if excluded:
            options["exclude"] = ",".join(([options["exclude"]] if options.get("exclude") else []) + excluded)
        if job_before:
            options["dependency"] = ",".join(
                [*([options["dependency"]] if options.get("dependency") else []), "afterany:" + job_before]
            )
        if not re.search(r"^#SBATCH\s+(--job-name|-J)", request.files[request.script], re.MULTILINE):
            options.setdefault("job-name", request.name)
        script = os.path.join(attempt.folder, request.script)
        pause = self._timing.first_pause
        deadline = self._now() + self._timing.transient
        while True:
            result = self._slurm.submit(script, options, request.environment)
            if result.code in (0, TIMED_OUT):
                # Whoever finds no job id in this answer has to look for the job.
                return result, SubmitRule(AMBIGUOUS)
            rule = submit_rule(result.text)
            repeat = rule.kind == TRANSIENT or (rule.kind == POLICY and request.retry_on_policy_limit)
            if not repeat or self._now() + pause > deadline:
                return result, rule
            self._sleep(pause)
            pause = min(pause * 2, self._timing.longest_pause)

    def _refuse(
        self, request: Request, run: record.Run, attempt: record.Attempt, rule: SubmitRule, text: str
    ) -> Report:
        message = "sbatch refused: {}".format(text or "it said nothing")
        if rule.advice:
            message = f"{message}\n{rule.advice}"
        record.store_job(attempt, {"refused": text or "no answer", "class": rule.kind, "time": self._now()})
        record.store_record(run)
        report = self._report(request, attempt, "refused")
        report.changed = True
        report.verdict = OUTCOME_FAILED
        report.failure_class = "refused"
        report.message = message
        return report

    # --- looking for jobs whose submission is unclear ---

    def _find_all(
        self,
        requests: Sequence[Request],
        runs: list[record.Run],
        indices: Sequence[int],
        reports: dict[int, Report],
        submitted_again: set[int],
    ) -> list[int]:
        """Look until every unclear submission is found, given up, or proved absent; return the proved absent ones."""
        absent_since: dict[int, float] = {}
        silent_since: float | None = None
        absent: list[int] = []
        left = list(indices)
        pause = self._timing.first_pause
        while left:
            for index in left:
                runs[index] = record.load_run(runs[index].folder)
            look = self._look([runs[index] for index in left])
            now = self._now()
            answered = _both_answered(look)
            silent_since = None if answered else (silent_since if silent_since is not None else now)
            for index in list(left):
                if self._found(requests[index], runs[index], look, reports, index):
                    left.remove(index)
                    continue
                if not answered:
                    if silent_since is not None and now - silent_since >= self._timing.look_up:
                        reports[index] = self._outcome_unknown(requests[index], runs[index], look)
                        left.remove(index)
                    continue
                if self._still_submitting(runs[index].newest, now):
                    absent_since.pop(index, None)
                    continue
                if now - absent_since.setdefault(index, now) >= self._timing.absence_window:
                    left.remove(index)
                    if not self._give_up(index, requests[index], runs[index], reports, submitted_again):
                        absent.append(index)
            if left:
                self._sleep(pause)
                pause = min(pause * 1.5, self._timing.longest_pause)
        return absent

    def _found(self, request: Request, run: record.Run, look: Look, reports: dict[int, Report], index: int) -> bool:
        last = run.newest
        if last.job_id is not None:
            # Another process has stored the id meanwhile.
            reports[index] = self._report(request, last, "adopted", judge_once(last, look, self._now(), self._limits))
            return True
        if last.refusal:
            reports[index] = self._report(request, last, "refused")
            reports[index].verdict = OUTCOME_FAILED
            reports[index].failure_class = "refused"
            reports[index].message = f"sbatch refused (asked by another process): {last.refusal}"
            return True
        return self._adopt(request, run, look, reports, index, check_mode=False)

    def _still_submitting(self, attempt: record.Attempt, now: float) -> bool:
        if attempt.folder in self._ended_unclear:
            return False
        owner = attempt.intent.get("owner")
        lives = self._owner_lives(owner) if isinstance(owner, dict) else None
        if lives is not None:
            return lives
        return now - attempt.intent_time < self._timing.submitter

    def _give_up(
        self,
        index: int,
        request: Request,
        run: record.Run,
        reports: dict[int, Report],
        submitted_again: set[int],
    ) -> bool:
        """After the absence window: True when this run gets no further attempt now."""
        last = run.newest
        rule, text = self._ended_unclear.get(last.folder, (SubmitRule(AMBIGUOUS), ""))
        if rule.kind == UNRECOGNISED and text:
            reports[index] = self._refuse(request, run, last, rule, text)
            return True
        if index in submitted_again:
            report = self._report(request, last, "unknown")
            report.message = (
                "submission outcome unknown: twice sbatch gave no clear answer and no job was found for {:.0f} s. Last "
                "answer: {}. Nothing more was submitted; run again when Slurm is well.".format(
                    self._timing.absence_window, text or "none"
                )
            )
            reports[index] = report
            return True
        return False

    def _outcome_unknown(self, request: Request, run: record.Run, look: Look) -> Report:
        report = self._report(request, run.last, "unknown")
        report.message = (
            "submission outcome unknown: the job of {} may or may not exist, and Slurm does not answer: {}. Nothing "
            "was submitted; run again when Slurm is well.".format(
                run.last.folder if run.last else run.folder, "; ".join(look.errors) or "no reason given"
            )
        )
        return report

    # --- rehearsing and cancelling ---

    def _rehearse(self, request: Request, run: record.Run) -> Report:
        """What check mode says: sbatch --test-only over the very script, in a folder that is removed again."""
        number = run.last.number + 1 if run.last is not None else 1
        final = os.path.join(run.folder, f"attempt-{number}")
        report = Report(request.name, run.folder, "planned", attempt=number, attempt_dir=final, changed=True)
        report.rehearsed = True
        folder = tempfile.mkdtemp(prefix="dgxc-rehearsal-")
        try:
            record.write_files(folder, final, request.files, request.directories)
            options = dict(request.options, comment=_comment(request))
            result = self._slurm.submit(
                os.path.join(folder, request.script), options, request.environment, test_only=True
            )
        finally:
            shutil.rmtree(folder, ignore_errors=True)
        if result.code == 0:
            report.message = "would be submitted; {}".format(result.text or "sbatch --test-only agrees")
            return report
        rule = submit_rule(result.text)
        if rule.kind in (TRANSIENT, AMBIGUOUS) or result.code == TIMED_OUT:
            report.warnings.append(f"sbatch --test-only could not answer: {result.text}")
            report.message = "would be submitted; it could not be rehearsed"
            return report
        report.action = "refused"
        report.verdict = OUTCOME_FAILED
        report.failure_class = "refused"
        report.message = f"sbatch --test-only refuses: {result.text}\n{rule.advice}".strip()
        return report

    def cancel(self, requests: Sequence[Request], check_mode: bool = False, patience: float = 60.0) -> list[Report]:
        """Cancel the living jobs of the runs and wait until Slurm says that they are gone. Ended runs are unchanged."""
        runs = [record.load_run(request.run_dir) for request in requests]
        reports: dict[int, Report] = {}
        waiting: dict[int, str] = {}
        looked = [run for run in runs if run.last is not None and not run.last.refusal]
        look = self._look(looked) if looked else Look()
        for index, (request, run) in enumerate(zip(requests, runs)):
            ids = self._living_jobs(run, look)
            if ids is None:
                reports[index] = self._outcome_unknown(request, run, look)
                reports[index].message = "cannot cancel: Slurm does not answer: {}".format("; ".join(look.errors))
            elif not ids:
                verdict = judge_once(run.newest, look, self._now(), self._limits) if _has_job(run) else None
                reports[index] = self._report(request, run.last, "unchanged", verdict)
            else:
                reports[index] = self._report(request, run.last, "cancelled" if not check_mode else "planned")
                reports[index].job_id = ids[0]
                reports[index].changed = True
                waiting[index] = ids[0]
                reports[index].message = f"would cancel job {ids[0]}" if check_mode else ""
        if waiting and not check_mode:
            self._cancel_and_confirm(runs, waiting, reports, patience)
        return [reports[index] for index in range(len(requests))]

    def _living_jobs(self, run: record.Run, look: Look) -> list[str] | None:
        """The ids of the newest attempt's living jobs; None when the queue did not answer."""
        if run.last is None or (run.last.refusal and not look.queue):
            return []
        if look.queue_answer != ANSWERED:
            return None
        ids = [run.last.job_id] if run.last.job_id is not None else look.jobs_in(run.last.folder)
        return [job_id for job_id in ids if self._alive(job_id, run.last, look)]

    def _cancel_and_confirm(
        self, runs: list[record.Run], waiting: dict[int, str], reports: dict[int, Report], patience: float
    ) -> None:
        deadline = self._now() + patience
        pause = self._timing.first_pause
        self._cancel_jobs(runs, waiting)
        while waiting:
            look = self._look([runs[index] for index in waiting])
            for index in list(waiting):
                last = runs[index].newest
                if look.queue_answer == ANSWERED and not self._alive(waiting[index], last, look):
                    reports[index].state = "CANCELLED"
                    reports[index].message = f"job {waiting[index]} was cancelled"
                    del waiting[index]
            if not waiting:
                return
            if self._now() + pause > deadline:
                break
            self._sleep(pause)
            pause = min(pause * 2, self._timing.longest_pause)
            self._cancel_jobs(runs, waiting)
        for index, job_id in waiting.items():
            reports[index].action = "unknown"
            reports[index].message = (
                f"scancel was called for job {job_id}, but after {patience:.0f} s the queue still lists it (or "
                "does not answer); look "
                f"with: squeue -j {job_id}"
            )

    def _cancel_jobs(self, runs: list[record.Run], waiting: Mapping[int, str]) -> None:
        for cluster in {runs[index].newest.cluster for index in waiting}:
            of_cluster = [job_id for index, job_id in waiting.items() if runs[index].newest.cluster == cluster]
            self._slurm.cancel(of_cluster, cluster)

    # --- reporting ---

    def _report(
        self, request: Request, attempt: record.Attempt | None, action: str, verdict: Verdict | None = None
    ) -> Report:
        report = Report(request.name, record.canonical_folder(request.run_dir), action)
        if attempt is not None:
            report.attempt = attempt.number
            report.attempt_dir = attempt.folder
            report.job_id = attempt.job_id
            report.cluster = attempt.cluster
        if verdict is not None:
            report.state = verdict.state
            report.verdict = verdict.outcome
            report.failure_class = verdict.failure_class
            report.message = verdict.message
        return report


def _waves(requests: Sequence[Request], indices: Sequence[int]) -> list[list[int]]:
    """The requests in groups that can be submitted together, each after those that its members come after."""
    left, names = list(indices), {requests[index].name for index in indices}
    waves: list[list[int]] = []
    while left:
        wave = [index for index in left if requests[index].after not in names] or left
        waves.append(wave)
        left = [index for index in left if index not in wave]
        names = {requests[index].name for index in left}
    return waves


def _both_answered(look: Look) -> bool:
    """Whether absence in this look means absence: the queue answered, and the accounting if there is one."""
    return look.queue_answer == ANSWERED and look.accounting_answer in (ANSWERED, DISABLED)


def _recorded(result: Mapping[str, Any]) -> Verdict:
    return Verdict(
        str(result.get("verdict")),
        state=str(result.get("state") or ""),
        failure_class=str(result.get("failure_class") or ""),
        message=str(result.get("message") or ""),
        retry_sensible=bool(result.get("retry_sensible")),
    )


def _has_job(run: record.Run) -> bool:
    return run.last is not None and run.last.job_id is not None


def _comment(request: Request) -> str:
    """For people who look with scontrol: which run this is. Most sites do not keep comments, so nothing depends on
    it.
    """
    return f"dgxc {request.name} {request.key[:12]}"
