# Copyright: (c) 2026, The dgxc.workloads developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Waiting for jobs: when to look, what to say, when to give up.

This file is private to the collection. It runs on the controller. The verdict on a job is made where Slurm is asked
(`slurm_job_info`); here are only the clocks. Whoever asks, speaks, sleeps and tells the time is handed in, so a test of
hours takes no time.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

ACTIVE = "active"
SUCCEEDED = "succeeded"
FAILED = "failed"
UNKNOWN = "unknown"

#: The first pause between two looks, in seconds; later ones are this share of the time waited so far, so the end of a
#: job is noticed late by a tenth of its run time at the most.
FIRST_PAUSE = 1.0
PAUSE_SHARE = 0.1
#: A look must not be repeated before this many times the time that it took Slurm (SchedMD's advice).
QUERY_SHARE = 5.0
#: The first sign of life, in seconds; later ones come after this share of the time waited, up to the heartbeat.
FIRST_HEARTBEAT = 10.0
HEARTBEAT_SHARE = 0.5
#: Up to this many jobs are spoken of one by one; more are counted.
SPOKEN_ONE_BY_ONE = 12


class LookFailed(Exception):
    """A look could not be made: the login node was out of reach, or the module failed there."""

    def __init__(self, message: str, unreachable: bool) -> None:
        super().__init__(message)
        self.unreachable = unreachable


@dataclass(frozen=True)
class Patience:
    """When a wait gives up, in seconds; 0 is never, except for `unreachable` and `accounting`, which always end.

    `pending`, `running`: how long a job may be in that state while it is watched. `unavailable`: how long it may pend
    for a reason that only a repair can lift. `accounting`: how long a finished job's record may be missing or out of
    reach, or a state word may be unknown. `unreachable`: how long the login node, or all of Slurm, may be silent.
    `heartbeat`: the longest silence on the screen (0: speak of changes only). `longest_pause`: between two looks.
    """

    pending: float = 0.0
    running: float = 0.0
    unavailable: float = 3600.0
    accounting: float = 1800.0
    unreachable: float = 3600.0
    heartbeat: float = 60.0
    longest_pause: float = 30.0


@dataclass
class Watched:
    """A job that is waited for, by the key that it is asked by (its run folder, or its id)."""

    key: str
    info: dict[str, Any] = field(default_factory=dict)
    since: dict[str, float] = field(default_factory=dict)
    spoken: str = ""

    def lasting(self, condition: str, holds: bool, now: float) -> float:
        """For how many seconds a condition has held without a break."""
        if not holds:
            self.since.pop(condition, None)
            return 0.0
        return now - self.since.setdefault(condition, now)


@dataclass
class Ending:
    """How the wait ended: the jobs as last seen, the number of looks, the seconds, and why it gave up, if it did."""

    jobs: list[dict[str, Any]]
    looks: int
    seconds: float
    gave_up: str = ""
    stuck: list[str] = field(default_factory=list)
    overdue: list[str] = field(default_factory=list)


#: (keys, seconds gone by job id) -> result of slurm_job_info for those keys, in their order. Raises LookFailed.
Ask = Callable[[Sequence[str], Mapping[str, float]], Mapping[str, Any]]


class Wait:
    """One wait for a list of jobs."""

    def __init__(
        self,
        keys: Sequence[str],
        ask: Ask,
        say: Callable[[str], None],
        clock: Callable[[], float],
        sleep: Callable[[float], None],
        patience: Patience,
        host: str,
    ) -> None:
        self._watched = [Watched(key) for key in keys]
        self._ask = ask
        self._say = say
        self._clock = clock
        self._sleep = sleep
        self._patience = patience
        self._host = host
        self._started = clock()
        self._looks = 0
        self._outages: dict[str, float] = {}
        self._quiet_since = self._started
        self._stuck: list[str] = []
        self._overdue: list[str] = []

    def run(self) -> Ending:
        """Wait until every job is decided, or until patience ends. Never cancels anything."""
        gave_up = ""
        seconds = 0.0
        while self._open():
            try:
                answer = self._ask([watched.key for watched in self._open()], self._gone_for())
                seconds = float(answer.get("query_seconds") or 0.0)
                self._looks += 1
                self._outage("contact", "")
                self._take(answer)
            except LookFailed as error:
                if not self._looks and not error.unreachable:
                    # Nothing ever worked: that is a mistake in the set-up, and waiting does not mend it.
                    raise
                self._outage("contact", str(error))
            gave_up = self._silent_too_long()
            if gave_up or not self._open():
                break
            self._heartbeat()
            self._sleep(self._pause(seconds))
        now = self._clock()
        jobs = [watched.info for watched in self._watched]
        return Ending(jobs, self._looks, now - self._started, gave_up, self._stuck, self._overdue)

    def _open(self) -> list[Watched]:
        return [watched for watched in self._watched if watched.info.get("verdict", ACTIVE) == ACTIVE]

    def _gone_for(self) -> dict[str, float]:
        now = self._clock()
        return {
            watched.info["job_id"]: now - watched.since["gone"]
            for watched in self._open()
            if "gone" in watched.since and watched.info.get("job_id")
        }

    def _pause(self, query_seconds: float) -> float:
        waited = self._clock() - self._started
        wanted = max(FIRST_PAUSE, waited * PAUSE_SHARE)
        sparing = query_seconds * QUERY_SHARE
        if self._outages:
            # The time went into waiting for an answer that did not come; that its end is seen soon matters more.
            sparing = min(sparing, self._patience.longest_pause)
        return max(min(wanted, self._patience.longest_pause), sparing)

    # --- taking in what a look says ---

    def _take(self, answer: Mapping[str, Any]) -> None:
        now = self._clock()
        self._outage("Slurm", "; ".join(answer.get("errors") or []))
        for watched, info in zip(self._open(), answer["jobs"], strict=True):
            watched.info = dict(info)
            if info["in_queue"] is not None:
                watched.lasting("gone", not info["in_queue"], now)
            if info["verdict"] == ACTIVE:
                self._apply_patience(watched, now)
        self._speak()

    def _apply_patience(self, watched: Watched, now: float) -> None:
        info, patience = watched.info, self._patience
        state, kind = info["state"], info["pending_kind"]
        stuck = watched.lasting("stuck:" + info["reason"], kind == "stuck", now)
        if kind == "stuck" and stuck >= info["pending_grace"]:
            self._end(watched, FAILED, "stuck_pending", "the job will not start: {}. {}".format(*_why(info)))
            self._stuck.append(watched.key)
            return
        unavailable = watched.lasting("unavailable", kind == "waiting_with_deadline", now)
        if 0 < patience.unavailable <= unavailable:
            text = "the job has waited {0} for what only a repair can bring: {1}. {2}"
            self._end(watched, FAILED, "stuck_pending", text.format(duration(unavailable), *_why(info)))
            self._stuck.append(watched.key)
            return
        pending = watched.lasting("pending", state == "PENDING", now)
        running = watched.lasting("running", state not in ("PENDING", ""), now)
        if 0 < patience.pending <= pending:
            text = "the job is still pending after {0} (pending_timeout): {1}"
            self._end(watched, FAILED, "pending_timeout", text.format(duration(pending), _why(info)[0]))
            self._overdue.append(watched.key)
        elif 0 < patience.running <= running:
            text = "the job is still {0} after {1} (run_timeout)"
            self._end(watched, FAILED, "run_timeout", text.format(state, duration(running)))
            self._overdue.append(watched.key)
        silent = info["in_queue"] is False and info["accounting_answer"] == "no_answer"
        if watched.lasting("unaccounted", silent, now) >= patience.accounting and silent:
            text = "the job has left the queue, and the accounting did not answer for {0} (accounting_timeout)"
            self._end(watched, UNKNOWN, "accounting_outage", text.format(duration(patience.accounting)))
        strange = info["failure_class"] == "unrecognised_state"
        if watched.lasting("strange", strange, now) >= patience.accounting and strange:
            self._end(watched, UNKNOWN, "unrecognised_state", info["message"])

    @staticmethod
    def _end(watched: Watched, verdict: str, failure_class: str, message: str) -> None:
        watched.info.update(verdict=verdict, failure_class=failure_class, message=message.strip())

    def _silent_too_long(self) -> str:
        now = self._clock()
        for what, since in self._outages.items():
            complete = what == "contact" or all(
                watched.info.get("queue_answer") != "answered" and watched.info.get("accounting_answer") != "answered"
                for watched in self._open()
            )
            if complete and now - since >= self._patience.unreachable:
                return "no answer from {} for {} (unreachable_timeout)".format(
                    self._host if what == "contact" else "Slurm on " + self._host, duration(now - since)
                )
        return ""

    # --- speaking ---

    def _outage(self, what: str, error: str) -> None:
        """Say once when an outage begins, and once when it ends."""
        now = self._clock()
        if error and what not in self._outages:
            self._outages[what] = now
            self._speak_line(
                "{}: {}. The jobs go on; looking again.".format(
                    "no contact" if what == "contact" else "no full answer from Slurm", first_line(error)
                )
            )
        elif not error and what in self._outages:
            lasted = now - self._outages.pop(what)
            self._speak_line(
                "{} after {}.".format(
                    "contact is back" if what == "contact" else "Slurm answers fully again", duration(lasted)
                )
            )

    def _speak(self) -> None:
        if len(self._watched) > SPOKEN_ONE_BY_ONE:
            for watched in self._watched:
                ended = watched.info.get("verdict") in (FAILED, UNKNOWN)
                if ended and not watched.spoken:
                    watched.spoken = "ended"
                    self._speak_line(describe(watched.info))
            return
        for watched in self._watched:
            info = watched.info
            if not info:
                continue
            text = "|".join(
                str(info.get(key)) for key in ("job_id", "state", "reason", "nodes", "restarts", "verdict", "message")
            )
            if text != watched.spoken:
                watched.spoken = text
                self._speak_line(describe(info))

    def _heartbeat(self) -> None:
        if self._patience.heartbeat <= 0:
            return
        now = self._clock()
        if now - self._quiet_since < next_heartbeat(now - self._started, self._patience.heartbeat):
            return
        if self._outages:
            since = min(self._outages.values())
            self._speak_line(f"still no full answer, for {duration(now - since)}; {self._summary()}")
        elif len(self._watched) > SPOKEN_ONE_BY_ONE:
            self._speak_line(self._summary())
        else:
            for watched in self._open():
                self._speak_line(describe(watched.info) if watched.info else watched.key)

    def _summary(self) -> str:
        counts: Counter[str] = Counter()
        for watched in self._watched:
            verdict = watched.info.get("verdict", ACTIVE)
            counts[(watched.info.get("state") or "not yet seen") if verdict == ACTIVE else verdict] += 1
        words = ", ".join(f"{number} {word}" for word, number in sorted(counts.items()))
        return f"{len(self._watched)} jobs: {words}"

    def _speak_line(self, text: str) -> None:
        self._quiet_since = self._clock()
        self._say(f"[{self._host}] {text}")


def _why(info: Mapping[str, Any]) -> tuple[str, str]:
    state = info.get("state") or "PENDING"
    return "{} ({})".format(state, info.get("reason") or "no reason given"), info.get("advice") or ""


def next_heartbeat(passed: float, longest: float) -> float:
    """Seconds of silence after which there is a sign of life, when so many seconds have passed since the beginning."""
    return min(max(FIRST_HEARTBEAT, passed * HEARTBEAT_SHARE), longest)


def first_line(text: str) -> str:
    """The first line of a text that is not blank, without its full stop."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[0].rstrip(".") if lines else ""


def duration(seconds: float) -> str:
    """Seconds for people: `12 s`, `3 min 20 s`, `2 h 5 min`."""
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60} s"
    return f"{whole // 3600} h {whole % 3600 // 60} min"


def describe(info: Mapping[str, Any]) -> str:
    """One line about a job: name, id, state, nodes, and how far it is."""
    name = info.get("name") or info.get("run_dir") or ""
    if info.get("verdict") in (FAILED, UNKNOWN) and info.get("message"):
        return "{}: {}".format(name, first_line(info["message"]))
    job_id = info.get("job_id")
    parts = [name if not job_id or name == "job " + str(job_id) else f"{name}: job {job_id}"]
    verdict = info.get("verdict")
    parts.append(info.get("state") or ("not in the accounting yet" if verdict == ACTIVE else ""))
    if info.get("state") == "PENDING" and info.get("reason"):
        parts.append("({})".format(info["reason"]))
    nodes = info.get("nodes") or []
    if nodes:
        shown = ", ".join(nodes[:4]) + (f" and {len(nodes) - 4} more" if len(nodes) > 4 else "")
        parts.append(f"on {shown}")
    if info.get("restarts"):
        parts.append("(run {}, after a requeue)".format(info["restarts"] + 1))
    line = " ".join(part for part in parts if part)
    details = []
    if verdict == SUCCEEDED and info.get("elapsed") is not None:
        details.append("after {}".format(duration(info["elapsed"])))
    if verdict == ACTIVE and info.get("message"):
        details.append(first_line(info["message"]))
    if verdict == ACTIVE and info.get("state") == "RUNNING" and (info.get("elapsed") or 0) > FIRST_HEARTBEAT:
        details.append("for {}".format(duration(info["elapsed"])))
    if verdict == ACTIVE:
        details.extend(progress_words(info.get("progress") or {}))
        if info.get("pending_kind") in ("stuck", "waiting_with_deadline") and info.get("advice"):
            details.append(info["advice"])
    return ", ".join([line] + [detail for detail in details if detail])


def progress_words(progress: Mapping[str, Any]) -> list[str]:
    """Progress as short pieces: step, pace, loss, time left; only what is known."""
    words = []
    if progress.get("step") is not None:
        total = "/{}".format(progress["total"]) if progress.get("total") is not None else ""
        words.append("step {}{}".format(progress["step"], total))
    if progress.get("seconds_per_step") is not None:
        words.append("{:.4g} s/step".format(progress["seconds_per_step"]))
    if progress.get("loss") is not None:
        words.append("loss {:.4g}".format(progress["loss"]))
    if progress.get("remaining_seconds") is not None:
        words.append("about {} left".format(duration(progress["remaining_seconds"])))
    return words


def failure_text(info: Mapping[str, Any]) -> str:
    """A failed job for the person who has to act: what happened, where to look, and the log's last lines."""
    lines = ["{} (job {}): {}".format(info.get("name"), info.get("job_id") or "none", info.get("message") or "failed")]
    logs = info.get("logs") or {}
    if logs:
        lines.append("logs: " + ", ".join(str(path) for path in logs.values()))
    if info.get("log_tail"):
        lines.append("last lines:")
        lines.extend("  " + str(line) for line in info["log_tail"])
    return "\n".join(lines)
