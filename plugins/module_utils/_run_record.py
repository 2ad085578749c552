# Copyright: (c) 2026, The dgxc.workloads developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The run folder: what was asked for, every attempt at it, and how each ended.

This file is private to the collection. The layout:

    <run folder>/record.json          a view of all below, for people and reports; written whenever something changes
    <run folder>/attempt-N/           one submission: script, configuration, logs, and
        intent.json                   what is about to be submitted, by whom, and when; there before sbatch is called
        job.json                      what sbatch answered: the job, or the refusal
        result.json                   the verdict, once it is final

The attempts are the truth and `record.json` is derived from them, so a lost, cut or foreign record costs nothing. Each
file is written once, under a temporary name, synced and renamed. An attempt folder comes into being complete, by the
rename of a prepared folder: of two that want the same number one wins, on any shared file system, without locks.
"""

from __future__ import annotations

import errno
import os
import pwd
import re
import shutil
import socket
import tempfile
from dataclasses import dataclass, field
from typing import Any, Mapping, Sequence

from ansible_collections.dgxc.workloads.plugins.module_utils._files import (
    fsync_directory,
    pretty_json,
    read_json_object,
    write_text,
)

#: Raised by one whenever the meaning of a field changes; readers accept every older number.
SCHEMA = 1
#: In the text of a run's files, stands for the absolute path of the attempt folder.
ATTEMPT_DIR_TOKEN = "@ATTEMPT_DIR@"


class RecordError(Exception):
    """A run folder cannot be used; the message says why and what to do."""


@dataclass(frozen=True)
class Owner:
    """The process that submits: enough to tell, on the same host, whether it still lives."""

    host: str
    boot_id: str
    pid: int
    started: str

    def as_json(self) -> dict[str, Any]:
        """The fields, for intent.json."""
        return {"host": self.host, "boot_id": self.boot_id, "pid": self.pid, "started": self.started}


def _read_first_line(path: str) -> str:
    try:
        with open(path, encoding="ascii", errors="replace") as stream:
            return stream.readline().strip()
    except OSError:
        return ""


def _process_start(pid: int) -> str:
    """The start time of a process in clock ticks since boot (field 22 of /proc/PID/stat); empty when there is none."""
    _name, _parenthesis, rest = _read_first_line(f"/proc/{pid}/stat").rpartition(")")
    fields = rest.split()
    return fields[19] if len(fields) > 19 else ""


def this_process() -> Owner:
    """The owner that this process is."""
    pid = os.getpid()
    boot_id = _read_first_line("/proc/sys/kernel/random/boot_id")
    return Owner(socket.gethostname(), boot_id, pid, _process_start(pid))


def owner_lives(owner: Mapping[str, Any]) -> bool | None:
    """Whether the process that wrote an intent still lives: True, False, or None when it ran on another host."""
    if owner.get("host") != socket.gethostname():
        return None
    boot_id = _read_first_line("/proc/sys/kernel/random/boot_id")
    if owner.get("boot_id") != boot_id:
        return False
    pid = owner.get("pid")
    return isinstance(pid, int) and _process_start(pid) == owner.get("started") != ""


@dataclass
class Attempt:
    """One attempt as its folder tells it. `job` and `result` are None until they are known."""

    number: int
    folder: str
    intent: dict[str, Any]
    job: dict[str, Any] | None = None
    result: dict[str, Any] | None = None

    @property
    def job_id(self) -> str | None:
        """The id of the attempt's job, None when it has none or it is not known."""
        value = (self.job or {}).get("job_id")
        return value if isinstance(value, str) and value.isdigit() else None

    @property
    def cluster(self) -> str | None:
        """The cluster that took the job, on a multi-cluster site."""
        return (self.job or {}).get("cluster") or None

    @property
    def refusal(self) -> str | None:
        """Why Slurm refused the attempt, None when it did not."""
        return (self.job or {}).get("refused") or None

    @property
    def parts(self) -> int:
        """How many array tasks or components the attempt's job has; 1 for an ordinary job."""
        spec = self.intent.get("spec")
        value = spec.get("parts") if isinstance(spec, dict) else None
        return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else 1

    @property
    def intent_time(self) -> float:
        """When the attempt was about to be submitted, seconds since the epoch of the submitting host."""
        value = self.intent.get("time")
        if isinstance(value, (int, float)) and not isinstance(value, bool):
            return float(value)
        return os.stat(self.folder).st_mtime


@dataclass
class Run:
    """A run folder as it stands."""

    folder: str
    attempts: list[Attempt] = field(default_factory=list)

    @property
    def spec(self) -> dict[str, Any]:
        """What the newest attempt's intent says of the run: key, script, options, expectations. Empty if unknown."""
        value = self.attempts[-1].intent.get("spec") if self.attempts else None
        return value if isinstance(value, dict) else {}

    @property
    def last(self) -> Attempt | None:
        """The newest attempt, None while there is none."""
        return self.attempts[-1] if self.attempts else None

    @property
    def newest(self) -> Attempt:
        """The newest attempt of a run that must have one. Raises RecordError when its folder has vanished."""
        if not self.attempts:
            raise RecordError(f"{self.folder} lost its attempts while it was being used; run again.")
        return self.attempts[-1]


def canonical_folder(path: str) -> str:
    """The absolute path without links, `.` and `..`: Slurm keeps the text it is given, and we look for it by text."""
    return os.path.realpath(path)


def user_of(folder: str) -> str:
    """The name of the user whose run this is, or the number where the host has no name for it."""
    number = os.stat(folder).st_uid
    try:
        return pwd.getpwuid(number).pw_name
    except KeyError:
        return str(number)


def load_run(folder: str) -> Run:
    """Read a run folder. An absent folder is a run without attempts; unreadable files count as absent."""
    folder = canonical_folder(folder)
    try:
        names = os.listdir(folder)
    except FileNotFoundError:
        return Run(folder)
    except NotADirectoryError:
        raise RecordError(f"{folder} is a file; a run folder was expected. Move it away.") from None
    numbers = sorted(
        int(match.group(1)) for match in (re.fullmatch(r"attempt-([1-9]\d*)", name) for name in names) if match
    )
    run = Run(folder)
    for number in numbers:
        path = os.path.join(folder, f"attempt-{number}")
        run.attempts.append(
            Attempt(
                number,
                path,
                read_json_object(os.path.join(path, "intent.json")) or {},
                read_json_object(os.path.join(path, "job.json")),
                read_json_object(os.path.join(path, "result.json")),
            )
        )
    return run


def check_spec(run: Run, key: str) -> None:
    """Raise RecordError when the folder holds another run than the one with this key."""
    found = run.spec.get("key")
    if found and key and found != key:
        raise RecordError(
            f"{run.folder} holds a run with key {str(found)[:12]}, not {key[:12]}: it was copied or its files were "
            "changed. Move the folder away."
        )


def begin_attempt(
    run: Run,
    number: int,
    spec: Mapping[str, Any],
    files: Mapping[str, str],
    directories: Sequence[str],
    owner: Owner,
    now: float,
) -> Attempt | None:
    """Make attempt `number` with all its files and its intent, at once. None when somebody else made it first.

    In the files ATTEMPT_DIR_TOKEN becomes the folder's path. The folder appears under its name by one rename, which
    fails on a folder that exists and is not empty.
    """
    os.makedirs(run.folder, exist_ok=True)
    target = os.path.join(run.folder, f"attempt-{number}")
    prepared = tempfile.mkdtemp(prefix=f".attempt-{number}.", dir=run.folder)
    try:
        os.chmod(prepared, 0o755)
        write_files(prepared, target, files, directories)
        intent = {"schema": SCHEMA, "number": number, "folder": target, "time": now, "owner": owner.as_json()}
        intent["spec"] = dict(spec)
        write_text(os.path.join(prepared, "intent.json"), pretty_json(intent))
        try:
            os.rename(prepared, target)
        except OSError as error:
            if error.errno in (errno.ENOTEMPTY, errno.EEXIST):
                return None
            raise
        # From here on the intent lasts, whatever happens to the power. The job it is for may now exist.
        fsync_directory(run.folder)
    finally:
        shutil.rmtree(prepared, ignore_errors=True)
    attempt = Attempt(number, target, intent)
    run.attempts.append(attempt)
    return attempt


def write_files(folder: str, final: str, files: Mapping[str, str], directories: Sequence[str]) -> None:
    """Write the files of an attempt into `folder`, as they shall be once it is called `final`."""
    for name in directories:
        os.makedirs(os.path.join(folder, name), exist_ok=True)
    for name, text in files.items():
        path = os.path.join(folder, name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        write_text(path, text.replace(ATTEMPT_DIR_TOKEN, final))


def check_relative_path(name: str) -> str | None:
    """What is wrong with a file's name inside an attempt folder, or None. It must stay inside and not be ours."""
    if not name or name.startswith("/") or "\0" in name or "\n" in name:
        return "is not a relative path"
    parts = name.split("/")
    if any(part in ("", ".", "..") for part in parts):
        return "has an empty part, `.` or `..` in it"
    if len(parts) == 1 and name in ("intent.json", "job.json", "result.json"):
        return "is a name that the collection keeps for itself"
    return None


def store_job(attempt: Attempt, job: Mapping[str, Any]) -> None:
    """Write job.json: `job_id`, `cluster`, `time`, or `refused`, with what sbatch said."""
    attempt.job = dict(job, schema=SCHEMA)
    write_text(os.path.join(attempt.folder, "job.json"), pretty_json(attempt.job))


def store_result(attempt: Attempt, result: Mapping[str, Any]) -> None:
    """Write result.json: the final verdict with its gates and metrics."""
    attempt.result = dict(result, schema=SCHEMA)
    write_text(os.path.join(attempt.folder, "result.json"), pretty_json(attempt.result))


def record_of(run: Run) -> dict[str, Any]:
    """The record: the spec with every attempt, and the last attempt's verdict (None while there is none)."""
    attempts = []
    for attempt in run.attempts:
        entry: dict[str, Any] = {
            "number": attempt.number,
            "folder": attempt.folder,
            "intent_time": attempt.intent_time,
            "job_id": attempt.job_id,
            "cluster": attempt.cluster,
            "refused": attempt.refusal,
            "result": _without_schema(attempt.result),
        }
        attempts.append(entry)
    last = run.last.result if run.last is not None else None
    return dict(
        _without_schema(run.spec) or {},
        schema=SCHEMA,
        run_dir=run.folder,
        attempts=attempts,
        verdict=(last or {}).get("verdict"),
        message=(last or {}).get("message"),
        metrics=(last or {}).get("metrics"),
    )


def _without_schema(value: Mapping[str, Any] | None) -> dict[str, Any] | None:
    return None if value is None else {name: item for name, item in value.items() if name != "schema"}


def store_record(run: Run) -> bool:
    """Write record.json from the attempts as they are on disk now. True when it was not so already."""
    current = load_run(run.folder)
    text = pretty_json(record_of(current))
    path = os.path.join(current.folder, "record.json")
    try:
        with open(path, encoding="utf-8") as stream:
            if stream.read() == text:
                return False
    except (OSError, ValueError):
        pass
    write_text(path, text, lasting=False)
    return True
