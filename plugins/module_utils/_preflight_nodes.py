# Copyright: (c) 2026, The dgxc.workloads developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What compute nodes show: one short job that looks, and the judgement of what it saw.

This file is private to the collection. The job writes below ``<shared root>/preflight`` and nowhere else. A good look
holds for a day, kept there in nodes.json; a look that found a fault is made again, since somebody will have seen to it.
"""

from __future__ import annotations

import os
import shlex
import shutil
import tempfile
from typing import Any, Callable, Mapping, NamedTuple, Sequence

from ansible_collections.dgxc.workloads.plugins.module_utils import _preflight as preflight
from ansible_collections.dgxc.workloads.plugins.module_utils._files import pretty_json, read_json_object, write_text
from ansible_collections.dgxc.workloads.plugins.module_utils._preflight import (
    ERROR,
    Check,
    error,
    ok,
    refusal,
    warning,
)
from ansible_collections.dgxc.workloads.plugins.module_utils._process import Finished, Run, last_line
from ansible_collections.dgxc.workloads.plugins.module_utils._slurm_client import SUBMIT_TIMEOUT
from ansible_collections.dgxc.workloads.plugins.module_utils._slurm_parse import parse_submit_output
from ansible_collections.dgxc.workloads.plugins.module_utils._slurm_tables import (
    ACTIVE,
    FINAL,
    STUCK,
    is_passing_limit,
    normalise_state,
    state_rule,
)

FOLDER = "preflight"
RECORD = "nodes.json"
#: Seconds for which a good look holds, and for which a job is not tried again that did not start in time or was
#: interrupted.
HOLDS, WAITING_HOLDS = 86400.0, 3600.0
#: Exit codes of the job: the shared folder is not there, or cannot be written to.
NOT_THERE, NOT_WRITABLE = 41, 42
#: Slurm's time limit for the job, in minutes.
MINUTES = 5
#: States of a job that has not begun; one that is requeued begins anew.
NOT_BEGUN = frozenset(("PENDING", "CONFIGURING", "POWER_UP_NODE", "REQUEUED", "REQUEUE_FED"))
#: Room for the containers of a large image, in gigabytes.
CONTAINER_GB = 30.0
_TOKEN = "token"
# In the place of a state: the queue knows the job no longer.
_GONE = "ENDED"
_PAUSE = 1.0
_FILES_SECONDS = 30.0
_QUERY_SECONDS = 60.0


class Place(NamedTuple):
    """What is outside this file."""

    run: Run
    environment: Mapping[str, str]
    now: Callable[[], float]
    sleep: Callable[[float], None]


def asked(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return the questions: which nodes are meant, and what they are to look at."""
    return {
        "options": {str(key): str(value) for key, value in (settings.get("options") or {}).items()},
        "nodes": int(settings.get("nodes") or 1),
        "paths": sorted({str(path) for path in settings.get("paths") or []}),
        "urls": sorted({str(url) for name in ("urls", "wished_urls") for url in settings.get(name) or []}),
        "environment": {str(key): str(value) for key, value in (settings.get("environment") or {}).items()},
    }


def answers(record: Mapping[str, Any], questions: Mapping[str, Any], now: float) -> bool:
    """Whether an earlier look still holds and answers these questions."""
    before = record.get("asked")
    if not isinstance(before, dict) or not isinstance(record.get("time"), (int, float)):
        return False
    if record.get("outcome") == "refused":
        # No node was seen, and what refused the job may be gone.
        return False
    holds = WAITING_HOLDS if record.get("outcome") in ("waiting", "failed") else HOLDS
    same = before.get("options") == questions["options"] and before.get("nodes", 0) >= questions["nodes"]
    covered = all(set(questions[name]) <= set(before.get(name) or []) for name in ("paths", "urls"))
    # Through other proxies, an address is another question.
    if questions["urls"] and (before.get("environment") or {}) != questions["environment"]:
        return False
    return same and covered and 0 <= now - record["time"] < holds


def together(record: Mapping[str, Any], questions: Mapping[str, Any], now: float) -> dict[str, Any]:
    """Return the questions with those of an earlier look, so that two workloads in turn need one job and not two."""
    before = record.get("asked")
    fresh = isinstance(record.get("time"), (int, float)) and now - record["time"] < 30 * HOLDS
    if not isinstance(before, dict) or not fresh or before.get("options") != questions["options"]:
        return dict(questions)
    merged = {name: sorted({*questions[name], *(before.get(name) or [])}) for name in ("paths", "urls")}
    return {**questions, **merged, "nodes": max(questions["nodes"], int(before.get("nodes") or 1))}


def job_script(folder: str, questions: Mapping[str, Any]) -> str:
    """Return the batch script. Its shell and coreutils are all that it needs of a node."""
    return _SCRIPT.format(
        folder=shlex.quote(folder),
        token=_TOKEN,
        nodes=questions["nodes"],
        not_there=NOT_THERE,
        not_writable=NOT_WRITABLE,
        paths=" ".join(shlex.quote(path) for path in questions["paths"]),
        urls=" ".join(shlex.quote(address) for address in questions["urls"]),
        environment="".join(
            "export {0}={1}\n".format(name, shlex.quote(value))
            for name, value in sorted(questions["environment"].items())
        ),
    )


_SCRIPT = r"""#!/bin/bash
# Written by dgxc.workloads. Looks at a compute node and changes nothing on it.
folder={folder}
paths=({paths})
addresses=({urls})
{environment}node=${{SLURMD_NODENAME:-$(hostname)}}

say() {{ printf '%s\t%s\n' "$1" "$2"; }}
room() {{ say "space $1" "$(df -Pk "$1" 2> /dev/null | awk 'NR == 2 {{print $4}}')"; }}

look() {{
    say node "$node"
    say time "$(date +%s)"
    say system "$(. /etc/os-release 2> /dev/null && echo "$PRETTY_NAME")"
    say token "$(cat "$folder/{token}" 2> /dev/null)"
    say pyxis "$(srun --help 2> /dev/null | grep -o -E -e '--(no-)?container-[a-z-]+' | sort -u | tr '\n' ' ')"
    say enroot "$(enroot version 2> /dev/null)"
    say gpus_slurm "${{SLURM_GPUS_ON_NODE:-}}"
    if command -v nvidia-smi > /dev/null; then
        say gpus_driver "$(nvidia-smi -L 2> /dev/null | grep -c '^GPU ')"
        say driver "$(nvidia-smi --query-gpu=driver_version,name --format=csv,noheader 2> /dev/null | head -n 1)"
    fi
    if [ -d "${{HOME:-/nonexistent}}" ]; then say home yes; else say home no; fi
    room /tmp
    if [ -r /etc/enroot/enroot.conf ]; then
        grep -E '^ENROOT_(DATA|TEMP|CACHE|RUNTIME)_PATH[[:space:]]+/[^$]*$' /etc/enroot/enroot.conf |
            while read -r name path; do
                say "$name" "$path"
                while [ ! -e "$path" ]; do path=$(dirname "$path"); done
                room "$path"
            done
    fi
    for path in "${{paths[@]}}"; do
        if [ -e "$path" ]; then say "path $path" yes; else say "path $path" no; fi
    done
    for address in "${{addresses[@]}}"; do
        status=$(curl -sSIL -o /dev/null -m 15 -w '%{{http_code}}' "$address" 2> /dev/null)
        case $? in
            28) status=timeout ;;
            60 | 77) status=certificate ;;
            127) status=unknown ;;
        esac
        say "url $address" "$status"
    done
}}

write() {{
    [ -d "$folder" ] || exit {not_there}
    look > "$folder/$node.new" || exit {not_writable}
    mv "$folder/$node.new" "$folder/$node.txt" || exit {not_writable}
}}

if [ "${{1:-}}" = step ]; then
    write
    exit 0
fi
[ -d "$folder" ] || exit {not_there}
: > "$folder/written" || exit {not_writable}
said=$(srun --nodes={nodes} --ntasks={nodes} --ntasks-per-node=1 bash "$folder/look.sh" step 2>&1)
code=$?
if [ $code != 0 ]; then
    # No step could be started; the first node looks by itself.
    say "step" "$code $said" | tr '\n' ' ' > "$folder/step.failed"
    write
fi
"""


def read_answers(text: str) -> dict[str, str]:
    """Return what one node said, by name."""
    found = {}
    for line in text.splitlines():
        name, mark, value = line.partition("\t")
        if mark:
            found[name] = value.strip()
    return found


class Look:
    """One look at the compute nodes through a job."""

    def __init__(self, place: Place, root: str, settings: Mapping[str, Any]) -> None:
        self._place = place
        self._root = root
        self._settings = settings

    def record(self) -> dict[str, Any]:
        """The last look, or nothing."""
        return read_json_object(os.path.join(self._root, FOLDER, RECORD)) or {}

    def make(self, questions: Mapping[str, Any]) -> dict[str, Any]:
        """Run the job and return what came of it: ``outcome``, ``said``, ``nodes``, ``job_id``, ``asked``, ``time``.

        ``outcome`` is looked, refused (no job), waiting (it did not start in time and was cancelled), failed (it was
        interrupted, without an answer), not_there or not_writable (the shared folder, on the node).
        """
        base = os.path.join(self._root, FOLDER)
        os.makedirs(base, mode=0o700, exist_ok=True)
        folder = tempfile.mkdtemp(prefix="look-", dir=base)
        try:
            found = self._look(folder, questions)
        finally:
            shutil.rmtree(folder, ignore_errors=True)
        found.update({"asked": dict(questions), "time": self._place.now()})
        write_text(os.path.join(base, RECORD), pretty_json(found), 0o600)
        return found

    def _look(self, folder: str, questions: Mapping[str, Any]) -> dict[str, Any]:
        token = "{0:.6f}".format(self._place.now())
        script = os.path.join(folder, "look.sh")
        write_text(os.path.join(folder, _TOKEN), token + "\n", 0o600)
        write_text(script, job_script(folder, questions), 0o600)
        options = {
            "job-name": "dgxc-preflight",
            "nodes": str(questions["nodes"]),
            "ntasks-per-node": "1",
            "time": str(MINUTES),
            "chdir": "/",
            "output": "/dev/null",
            "error": "/dev/null",
            **questions["options"],
        }
        words = ["--{0}={1}".format(*item) if item[1] != "" else "--" + item[0] for item in options.items()]
        answer = self._ask("sbatch", "--parsable", *words, script, limit=SUBMIT_TIMEOUT)
        submitted = parse_submit_output(answer.out)
        if answer.code != 0 or submitted is None:
            said = "; ".join(refusal(answer.err)) or "sbatch ended with code {0}".format(answer.code)
            return {"outcome": "refused", "said": said, "nodes": {}, "job_id": ""}
        job_id = submitted.job_id
        state, reason = self._wait(job_id)
        result = {"outcome": "looked", "said": "", "nodes": {}, "job_id": job_id}
        if state in NOT_BEGUN or state_rule(state).finality == STUCK:
            self._ask("scancel", job_id)
            return {**result, "outcome": "waiting", "said": reason}
        if state != _GONE and state_rule(state).finality != FINAL:
            # It goes on, or is queued again.
            self._ask("scancel", job_id)
        nodes = self._files(folder, questions["nodes"], token)
        result["nodes"] = nodes
        failed = os.path.join(folder, "step.failed")
        if os.path.exists(failed):
            with open(failed, encoding="utf-8", errors="replace") as stream:
                result["said"] = stream.read().partition("\t")[2].strip()
        if not nodes:
            pairs = preflight.parse_pairs(self._ask("scontrol", "-o", "show", "job", job_id).out)
            code = pairs.get("ExitCode", "")
            outcomes = {"{0}:0".format(NOT_THERE): "not_there", "{0}:0".format(NOT_WRITABLE): "not_writable"}
            result["outcome"] = outcomes.get(code, "failed")
            if pairs.get("JobState", state) == "COMPLETED":
                result["outcome"] = "not_there"
            result["said"] = "job {0} ended as {1} with exit code {2} on {3}".format(
                job_id, pairs.get("JobState", state), code or "?", pairs.get("NodeList", "?")
            )
        return result

    def _ask(self, *command: str, limit: float = _QUERY_SECONDS) -> Finished:
        return self._place.run(command, self._place.environment, "/", limit)

    def _wait(self, job_id: str) -> tuple[str, str]:
        """Wait for the end, or for the end of patience; return the last state and reason."""
        state, reason = "PENDING", ""
        limit = self._place.now() + float(self._settings.get("timeout") or 300)
        pause = _PAUSE / 4
        while True:
            answer = self._ask("squeue", "-h", "-a", "-t", "all", "-j", job_id, "-o", "%T|%r")
            line = last_line(answer.out)
            if answer.code == 0 or "Invalid job id" in answer.err:
                word, _mark, reason = (line or _GONE + "|").partition("|")
                state = normalise_state(word)
            waits = state in NOT_BEGUN
            # A word that is not known is no end.
            if state == _GONE or not (waits or state_rule(state).finality == ACTIVE):
                return state, reason
            # A job that has begun has its own time limit.
            if self._place.now() > limit + (0 if waits else MINUTES * 60 + 60):
                return state, reason
            self._place.sleep(pause)
            pause = min(pause * 1.5, 10.0)

    def _files(self, folder: str, count: int, token: str) -> dict[str, dict[str, str]]:
        """Read what the nodes wrote; shared storage may show it late."""
        limit = self._place.now() + _FILES_SECONDS
        while True:
            found: dict[str, dict[str, str]] = {}
            for name in sorted(os.listdir(folder)):
                if name.endswith(".txt"):
                    with open(os.path.join(folder, name), encoding="utf-8", errors="replace") as stream:
                        found[name[: -len(".txt")]] = read_answers(stream.read())
            began = os.path.exists(os.path.join(folder, "written"))
            step_failed = os.path.exists(os.path.join(folder, "step.failed"))
            if len(found) >= count or (found and step_failed) or self._place.now() > limit or not (began or found):
                for said in found.values():
                    said["same"] = "yes" if said.get("token") == token else "no"
                return found
            self._place.sleep(_PAUSE)


# Judging what was seen.


def judge(
    record: Mapping[str, Any], questions: Mapping[str, Any], wanted: Mapping[str, Any], now: float
) -> list[Check]:
    """Return the checks of the compute nodes from a look.

    :param wanted: ``shared_root`` and ``gpus``, the number of GPUs that the job asked for on each node.
    """
    name = "node.job"
    said = str(record.get("said") or "")
    outcome = record.get("outcome")
    root = wanted.get("shared_root", "")
    if outcome == "refused":
        evidence = "the job that looks at a node was refused: {0}".format(said)
        if is_passing_limit(said):
            return [warning(name, evidence, "repeat with -e preflight_force=true when enough of your jobs have ended")]
        # It asks for less than the run, in another way: what refuses it need not refuse the run.
        return [
            warning(
                name,
                evidence,
                "give the job what the site demands in preflight_compute_node_options; of the run, slurm.request tells",
            )
        ]
    if outcome == "waiting":
        return [
            warning(
                name,
                "the job that looks at a node did not start in time ({0})".format(said or "no reason given"),
                "repeat with -e preflight_force=true -e preflight_timeout=3600 when the cluster has room",
            )
        ]
    if outcome in ("not_there", "not_writable"):
        return [_not_shared(root, "is not there" if outcome == "not_there" else "cannot be written to", said)]
    nodes: Mapping[str, Mapping[str, str]] = record.get("nodes") or {}
    if not nodes:
        return [
            warning(
                name,
                said or "the job that looks at a node gave no answer",
                "repeat with -e preflight_force=true; if it stays so, ask the administrators to look at that node:"
                " Slurm's log of it says why",
            )
        ]
    age = max(0.0, now - float(record.get("time") or now))
    when = "now" if age < 60 else "{0:.0f} minutes ago".format(age / 60)
    found = [ok(name, "job {0} looked at {1}, {2}".format(record.get("job_id", "?"), ", ".join(sorted(nodes)), when))]
    if said and "exit code {0}".format(NOT_THERE) in said:
        return [*found, _not_shared(root, "is not there", said)]
    if said:
        found.append(error("node.step", "srun could not start a step: {0}".format(said), "see what srun says"))
    for check in (_shared, _gpus, _pyxis, _enroot, _home, _clock):
        found += check(nodes, {**wanted, "time": record.get("time")})
    found += _paths(nodes, questions["paths"])
    wished = [url for url in wanted.get("wished_urls") or [] if url not in (wanted.get("urls") or [])]
    found += _urls(nodes, [url for url in questions["urls"] if url not in wished], error)
    found += _urls(nodes, wished, warning)
    return found


def _not_shared(root: str, what: str, said: str) -> Check:
    return error(
        "node.shared_root",
        "{0} {1} on a compute node ({2})".format(root, what, said),
        "set dgxc_shared_root to a folder that all nodes share; homes and scratch of the login node often are not",
    )


Nodes = Mapping[str, Mapping[str, str]]


def _where(nodes: Nodes, name: str, value: str) -> str:
    return ", ".join(sorted(node for node, said in nodes.items() if said.get(name, "") == value))


def _shared(nodes: Nodes, wanted: Mapping[str, Any]) -> list[Check]:
    other = _where(nodes, "same", "no")
    if other:
        return [
            error(
                "node.shared_root",
                "{0} shows other content on {1}".format(wanted.get("shared_root"), other),
                "set dgxc_shared_root to a folder that all nodes share",
            )
        ]
    return [ok("node.shared_root", "the same folder, and it can be written to")]


def _gpus(nodes: Nodes, wanted: Mapping[str, Any]) -> list[Check]:
    name = "node.gpus"
    count = str(wanted.get("gpus") or 0)
    if count == "0":
        return []
    without = sorted(node for node, said in nodes.items() if "gpus_driver" not in said)
    wrong = sorted(node for node, said in nodes.items() if said.get("gpus_driver", count) == "0")
    if wrong:
        return [error(name, "nvidia-smi sees no GPU on {0}".format(", ".join(wrong)), "ask the administrators")]
    if without:
        return [
            warning(
                name,
                "there is no nvidia-smi on {0}".format(", ".join(without)),
                "see that these nodes have GPUs and their driver",
            )
        ]
    drivers = sorted({said.get("driver", "") for said in nodes.values()})
    return [ok(name, "nvidia-smi sees them; driver and GPU: {0}".format("; ".join(drivers)))]


def _pyxis(nodes: Nodes, wanted: Mapping[str, Any]) -> list[Check]:
    options = wanted.get("pyxis_options") or []
    found = [
        preflight.judge_pyxis("node.pyxis", " on " + node, preflight.pyxis_options(said.get("pyxis", "")), options)
        for node, said in sorted(nodes.items())
    ]
    return [next((check for check in found if check.verdict == ERROR), found[0])]


def _enroot(nodes: Nodes, wanted: Mapping[str, Any]) -> list[Check]:
    without = _where(nodes, "enroot", "")
    if without:
        return [
            error("node.enroot", "there is no enroot on {0}".format(without), "ask the administrators for Enroot there")
        ]
    versions = sorted({said["enroot"] for said in nodes.values()})
    if any(preflight.enroot_too_old(version) for version in versions):
        return [error("node.enroot", ", ".join(versions), "ask the administrators for Enroot 3.1 or newer")]
    small = [
        "{0} on {1} has {2:.0f} GB".format(key[len("space ") :], node, int(value) * 1024 / preflight.GIGABYTE)
        for node, said in sorted(nodes.items())
        for key, value in said.items()
        if key.startswith("space ") and value.isdigit() and int(value) * 1024 < CONTAINER_GB * preflight.GIGABYTE
    ]
    if small:
        return [
            warning(
                "node.enroot",
                "{0}; {1} free".format(", ".join(versions), ", ".join(small)),
                "containers of large images need up to {0:.0f} GB there: ask the administrators where Enroot keeps"
                " them".format(CONTAINER_GB),
            )
        ]
    if len(versions) > 1:
        return [warning("node.enroot", "versions differ: {0}".format(", ".join(versions)), "ask for one version")]
    return [ok("node.enroot", versions[0])]


def _home(nodes: Nodes, wanted: Mapping[str, Any]) -> list[Check]:
    without = _where(nodes, "home", "no")
    if without:
        return [ok("node.home", "not there on {0}; nothing of the collection needs it".format(without))]
    return [ok("node.home", "is there")]


def _clock(nodes: Nodes, wanted: Mapping[str, Any]) -> list[Check]:
    skews = [
        (float(said["time"]) - float(wanted["time"]), node)
        for node, said in nodes.items()
        if said.get("time", "").isdigit() and wanted.get("time")
    ]
    # The job's answers are read some seconds after they were written.
    far = [(skew, node) for skew, node in skews if not -2 * preflight.CLOCK_SKEW <= skew <= preflight.CLOCK_SKEW]
    if far:
        return [preflight.judge_clock("node.clock", "node " + far[0][1], far[0][0])]
    return [ok("node.clock", "agrees with the login node's")]


def _paths(nodes: Nodes, paths: Sequence[str]) -> list[Check]:
    absent = sorted({path for path in paths for said in nodes.values() if said.get("path " + path) == "no"})
    if absent:
        where = sorted(node for node, said in nodes.items() if any(said.get("path " + path) == "no" for path in absent))
        return [
            error(
                "node.mounts",
                "{0} is not there on {1}".format(", ".join(absent), ", ".join(where)),
                "correct the mounts of the workload or of dgxc_fabric, or the path of the image: Pyxis does not start"
                " without them",
            )
        ]
    return [ok("node.mounts", ", ".join(paths))] if paths else []


def _urls(nodes: Nodes, urls: Sequence[str], verdict: Callable[[str, str, str], Check]) -> list[Check]:
    """``verdict`` is what it is when a node gets no answer."""
    name = "node.network"

    def of(*answers_: str) -> str:
        hit = {address for address in urls for said in nodes.values() if said.get("url " + address) in answers_}
        return ", ".join(sorted(hit))

    found = []
    if of("", "000"):
        found.append(
            verdict(
                name,
                "compute nodes get no answer from {0}".format(of("", "000")),
                "set dgxc_proxies if the site has proxies, or bring images, models and data to the shared storage and"
                " work offline",
            )
        )
    if of("timeout"):
        found.append(
            warning(
                name,
                "compute nodes got no answer from {0} in time".format(of("timeout")),
                "see that the network there is only slow; set dgxc_proxies if the site has proxies",
            )
        )
    if of("certificate"):
        found.append(
            warning(
                name,
                "compute nodes do not trust the certificate of {0}".format(of("certificate")),
                "ask the administrators to make it known there, if Enroot has no setting for it",
            )
        )
    if of("unknown"):
        found.append(warning(name, "compute nodes have no curl to ask {0} with".format(of("unknown")), "ask for it"))
    return found or ([ok(name, ", ".join(urls))] if urls else [])
