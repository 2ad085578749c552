# Copyright: (c) 2026, The dgxc.workloads developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Runs that start one ``accelerate launch`` on each node, in a container. Private to this collection.

What ALMA, ViViT and Whisper have in common: the variables that say where and how, the batch script, and what runs on
each node. All functions are pure.

The attempt folder is the container's ``/attempt``, which exists nowhere else: a job step that was not put into its
container, because Pyxis is missing on a node, finds no script there and fails instead of training with the host's
Python.
"""

from __future__ import annotations

import re
import shlex
from dataclasses import dataclass
from typing import Any, Mapping, Sequence

from ansible_collections.dgxc.workloads.plugins.module_utils._judge import IMAGE, NAME, Judge, whole_number
from ansible_collections.dgxc.workloads.plugins.module_utils._run_record import ATTEMPT_DIR_TOKEN
from ansible_collections.dgxc.workloads.plugins.module_utils._site_settings import (
    GPUS_MOST,
    IMAGE_DELIVERIES,
    container_words,
    env_problems,
    gpu_request,
    memory_request,
    mount_problems,
    mount_target,
    path_problems,
    plain,
    proxy_environment,
    sbatch_options,
    site_problems,
    srun_words,
    unseen_file_problems,
)

#: Variables of every role whose runs are made here, without the role's prefix.
COMMON = frozenset(
    (
        "cache_path",
        "container_image",
        "container_mounts",
        "cpu_threads_per_process",
        "cpus_per_task",
        "env",
        "exclusive",
        "fabric",
        "image_delivery",
        "max_attempts",
        "memory",
        "offline",
        "resubmit",
        "run_name",
        "serial",
        "slurm_account",
        "slurm_options",
        "slurm_partition",
        "slurm_qos",
        "slurm_reservation",
        "time_limit",
    )
)
#: Where the container sees the attempt folder.
ATTEMPT = "/attempt"
SCRIPT = "train.sbatch"
LAUNCH = "launch.sh"

#: Ports 10000 to 29999: above the services, below the range from which systems take ports for outgoing connections
#: (32768 on Linux). Jobs that share a node differ in their ids, and so in their ports.
_FIRST_PORT, _PORTS = 10000, 20000
_LONGEST_NAME = 64
_MEMORY = re.compile(r"(?:[0-9]+[KMGT]?)?")
_CELL = re.compile(r"([0-9]{1,4})x([0-9]{1,2})")
# Options of sbatch with a variable of their own, or that would break what the batch script relies on.
_OWNED_OPTIONS = {
    "account": "slurm_account",
    "cpus-per-task": "cpus_per_task",
    "exclusive": "exclusive",
    "mem": "memory",
    "partition": "slurm_partition",
    "qos": "slurm_qos",
    "reservation": "slurm_reservation",
    "time": "time_limit",
}
_FIXED_OPTIONS = ("array", "error", "gpus-per-node", "gres", "job-name", "nodes", "ntasks", "ntasks-per-node", "output")


@dataclass(frozen=True)
class Common:
    """The common variables of one role, judged, with what the site's facts ask for.

    ``env`` holds what the user, if asked for the fabric, and the site's proxies set. ``slurm_options`` are the site's
    and the user's further options of sbatch, ``srun_options`` and ``container_options`` words of srun. ``site`` is for
    the spelling of the GPUs.
    """

    container_mounts: tuple[str, ...]
    env: Mapping[str, Any]
    cache_path: str
    offline: bool
    memory: str
    cpus_per_task: int
    cpu_threads_per_process: int
    exclusive: bool
    time_limit: str
    slurm: Mapping[str, str]
    slurm_options: Mapping[str, Any]
    serial: bool
    policy: Mapping[str, Any]
    run_name: str
    srun_options: Sequence[str]
    container_options: Sequence[str]
    site: Mapping[str, Any]


def judge_common(judge: Judge, site: Mapping[str, Any]) -> Common:
    """Judge the site's facts and the common variables. The result is of use only if the judge has no problems."""
    unusable = site_problems(site)
    judge.problems += unusable
    # Facts that cannot be right have their sentences; nothing is made of them.
    facts: Mapping[str, Any] = {} if unusable else site
    _image(judge, site)
    mounts = _mounts(judge)
    env = {**proxy_environment(facts), **_env(judge, site, mounts)}
    cache = str(judge.value("cache_path") or "")
    if site.get("dgxc_shared_root"):
        judge.problems += path_problems(judge.prefix + "cache_path", judge.value("cache_path"))
    return Common(
        container_mounts=tuple(mounts),
        env=env,
        cache_path=cache,
        offline=bool(judge.truth("offline")),
        memory=_memory(judge, facts),
        cpus_per_task=judge.whole("cpus_per_task", 0, 4096, "give the processors of a node's task, or 0 for no request")
        or 0,
        cpu_threads_per_process=judge.whole(
            "cpu_threads_per_process", 1, 1024, "give the threads of each process as a whole number of at least 1"
        )
        or 1,
        exclusive=bool(judge.truth("exclusive")),
        time_limit=judge.time_limit("time_limit") or "",
        slurm=judge.slurm_names(site),
        slurm_options={**sbatch_options(facts), **_slurm_options(judge)},
        serial=bool(judge.truth("serial")),
        policy=judge.policy(),
        run_name=judge.text(
            "run_name", NAME, "use letters, digits and the characters . _ -, and begin with a letter or digit"
        )
        or "",
        srun_options=srun_words(facts),
        container_options=container_words(facts),
        site=facts,
    )


def judge_run_names(judge: Judge, names: Sequence[str]) -> None:
    """Say so if the names of the runs, which begin with ``run_name``, become too long for a folder and a job."""
    longest = max(names, key=len, default="")
    if len(longest) > _LONGEST_NAME:
        judge.say("run_name", "{0!r} has {1} characters, {2} more than a run's name may have".format(
            longest, len(longest), len(longest) - _LONGEST_NAME))  # fmt: skip


def judge_matrix(judge: Judge, name: str) -> list[tuple[int, int]]:
    """Take a list of sizes, as ``2x8`` or ``{nodes: 2, gpus_per_node: 8}``; return (nodes, GPUs of a node) of each."""
    value = judge.value(name)
    remedy = (
        "give a list of sizes, each nodes x GPUs of a node, such as [1x1, 2x8] (on the command line: -e"
        ' \'{{"{0}{1}": ["1x1", "2x8"]}}\')'.format(judge.prefix, name)
    )
    cells = []
    for item in value if isinstance(value, (list, tuple)) else [value]:
        cell = _cell(item)
        if cell is None:
            judge.say(name, "{0!r} is no size; {1}".format(plain(item), remedy))
            return []
        cells.append(cell)
    if not cells or len(set(cells)) != len(cells):
        judge.say(name, "name each size once" if cells else remedy)
        return []
    return cells


def _cell(item: Any) -> tuple[int, int] | None:
    if isinstance(item, Mapping) and set(item) == {"nodes", "gpus_per_node"}:
        nodes, gpus = whole_number(item["nodes"]), whole_number(item["gpus_per_node"])
    else:
        match = _CELL.fullmatch(item) if isinstance(item, str) else None
        nodes, gpus = (int(match[1]), int(match[2])) if match else (None, None)
    if not nodes or not gpus or nodes > 9999 or gpus > GPUS_MOST:
        return None
    return nodes, gpus


def _image(judge: Judge, site: Mapping[str, Any]) -> None:
    if judge.value("container_image") not in (None, ""):
        value = judge.text("container_image", IMAGE, "give registry#path:tag or the absolute path of a .sqsh")
        if value is not None and value.endswith(".sqsh") and not value.startswith("/"):
            judge.say("container_image", "give the absolute path of the .sqsh; Pyxis takes others for names of images")
    elif (judge.value("image_delivery") or site.get("dgxc_image_delivery")) not in IMAGE_DELIVERIES:
        judge.say(
            "image_delivery",
            "give registry, upload or import, or set {0}container_image to an image that is there".format(judge.prefix),
        )


def _mounts(judge: Judge) -> list[str]:
    value = judge.value("container_mounts")
    problems = mount_problems(judge.prefix + "container_mounts", value)
    judge.problems += problems
    return [] if problems or not value else [str(mount) for mount in value if mount is not None]


def _env(judge: Judge, site: Mapping[str, Any], mounts: list[str]) -> dict[str, Any]:
    """The fabric's variables, if asked for, with its mounts added to the list; the user's own win."""
    own = judge.value("env")
    problems = env_problems(judge.prefix + "env", own)
    judge.problems += problems
    env: dict[str, Any] = {}
    fabric = site.get("dgxc_fabric")
    if judge.truth("fabric") and isinstance(fabric, Mapping):
        env.update(fabric.get("env") or {})
        there = {mount_target(mount) for mount in mounts}
        mounts += [str(mount) for mount in fabric.get("mounts") or [] if mount and mount_target(mount) not in there]
    if isinstance(own, Mapping) and not problems:
        env.update(own)
    judge.problems += unseen_file_problems("The environment", env, mounts, judge.prefix + "container_mounts")
    return {str(key): value for key, value in env.items()}


def _memory(judge: Judge, site: Mapping[str, Any]) -> str:
    """What --mem is given: a request for all memory of a node is spelt as the site wants it."""
    value = judge.value("memory")
    if isinstance(value, bool) or not _MEMORY.fullmatch("" if value is None else str(value)):
        judge.say(
            "memory", "give what --mem of sbatch takes, such as 0 for all of a node or 200G, or '' for no request"
        )
        return ""
    text = "" if value is None else str(value)
    return memory_request(site) if text == "0" else text


def _slurm_options(judge: Judge) -> dict[str, Any]:
    value = judge.value("slurm_options")
    if value is None:
        return {}
    if not isinstance(value, Mapping):
        judge.say("slurm_options", "give a dictionary of long options of sbatch, such as {constraint: a100}")
        return {}
    for option in value:
        if option in _OWNED_OPTIONS:
            judge.problems.append(
                "{0}slurm_options sets {1}, which has a variable of its own: use {0}{2}.".format(
                    judge.prefix, option, _OWNED_OPTIONS[option]
                )
            )
        elif option in _FIXED_OPTIONS:
            judge.problems.append(
                "{0}slurm_options sets {1}, on which the batch script relies: leave it out.".format(
                    judge.prefix, option
                )
            )
    return {str(option): plain(setting) for option, setting in value.items()}


# From variables to a run.


def accelerate_run(
    common: Common,
    *,
    workload: str,
    name: str,
    nodes: int,
    gpus_per_node: int,
    launch: Sequence[str],
    program: Sequence[str],
    mounts: Sequence[str],
    workdir: str,
    image: Mapping[str, Any],
    expect: Mapping[str, Any],
    files: Mapping[str, str] | None = None,
    env: Mapping[str, Any] | None = None,
    identity: Mapping[str, Any] | None = None,
    after: str = "",
) -> dict[str, Any]:
    """Return a run for the role ``run``.

    :param launch: options of ``accelerate launch`` beside those that every run has.
    :param program: the training script and its arguments; a shipped one is ``/attempt/<name>``.
    :param mounts: what the workload mounts, beside the attempt folder, the cache and the user's own.
    :param workdir: the working folder in the container.
    :param image: ``reference`` for Pyxis, ``digest`` if known.
    :param expect: what the gates check beside nodes, GPUs, ranks and tasks.
    :param files: further files of the attempt folder, such as the training script.
    :param env: the workload's environment; null takes a variable away. The fabric's and the user's win.
    :param identity: what tells this run from another beside its scripts, such as commits.
    :param after: the run whose end this one waits for, in a sweep one after the other.
    """
    all_mounts = _all_mounts(common, mounts)
    exports = _exports(common, env or {})
    script = batch_script(
        common,
        name=name,
        nodes=nodes,
        gpus_per_node=gpus_per_node,
        exports=exports,
        image=str(image["reference"]),
        mounts=all_mounts,
        workdir=workdir,
    )
    return {
        "name": name,
        "workload": workload,
        "script": SCRIPT,
        "files": {
            **(files or {}),
            SCRIPT: script,
            LAUNCH: launch_script(common, nodes * gpus_per_node, launch, program),
        },
        "directories": ["output"],
        "options": {},
        **common.policy,
        "identity": {
            "image": str(image["reference"]),
            "image_digest": str(image.get("digest") or ""),
            **(identity or {}),
        },
        "logs": {"stdout": "train-%j.out", "stderr": "train-%j.err"},
        "log_format": "huggingface",
        "after": after if common.serial else "",
        "expect": {
            "nodes": nodes,
            "gpus_per_node": gpus_per_node,
            "ranks": nodes * gpus_per_node,
            "tasks": nodes,
            **expect,
        },
    }


def _all_mounts(common: Common, mounts: Sequence[str]) -> list[str]:
    """The attempt folder first, each target once; the user's own mounts win over the workload's."""
    found = {mount_target(mount): mount for mount in (*mounts, common.cache_path, *common.container_mounts)}
    return ["{0}:{1}".format(ATTEMPT_DIR_TOKEN, ATTEMPT), *found.values()]


def _exports(common: Common, env: Mapping[str, Any]) -> dict[str, str]:
    """The environment of the training, in the order of its layers; null takes a variable away."""
    offline = int(common.offline)
    layers: tuple[Mapping[str, Any], ...] = (
        {
            # Hugging Face's libraries keep all that they download below this folder, on storage that all nodes share.
            "HF_HOME": common.cache_path,
            "HF_DATASETS_OFFLINE": offline,
            "HF_HUB_OFFLINE": offline,
            "TRANSFORMERS_OFFLINE": offline,
            # Packages of somebody's home must not shadow those of the image, and lines are to be seen when written.
            "PYTHONNOUSERSITE": 1,
            "PYTHONUNBUFFERED": 1,
        },
        env,
        common.env,
    )
    found: dict[str, str] = {}
    for layer in layers:
        for key, value in layer.items():
            found.pop(key, None)
            if value is not None:
                found[key] = str(value)
    return found


def batch_script(
    common: Common,
    *,
    name: str,
    nodes: int,
    gpus_per_node: int,
    exports: Mapping[str, str],
    image: str,
    mounts: Sequence[str],
    workdir: str,
) -> str:
    """Return the batch script: what Slurm is asked for, the environment, and one task a node in the container."""
    gpu_option, gpu_value = gpu_request(common.site, gpus_per_node)
    # A job that has its nodes for itself is given all their GPUs (--exclusive), and under --gres Slurm tells no other
    # number; the step takes as many as were asked for.
    all_gpus = common.exclusive and gpu_option == "gres"
    directives: list[tuple[str, Any]] = [
        ("job-name", name),
        ("account", common.slurm["account"]),
        ("partition", common.slurm["partition"]),
        ("qos", common.slurm["qos"]),
        ("reservation", common.slurm["reservation"]),
        ("nodes", nodes),
        (gpu_option, gpu_value),
        ("ntasks-per-node", 1),
        ("cpus-per-task", common.cpus_per_task or ""),
        ("mem", common.memory),
        ("exclusive", common.exclusive),
        ("time", common.time_limit),
        ("output", "{0}/train-%j.out".format(ATTEMPT_DIR_TOKEN)),
        ("error", "{0}/train-%j.err".format(ATTEMPT_DIR_TOKEN)),
        *common.slurm_options.items(),
    ]
    own = ("MASTER_ADDR", "MASTER_PORT", "NNODES", "NUM_PROCESSES", "DGXC_SLURM_VERSION", "DGXC_ENROOT_VERSION")
    step = [
        "srun",
        "--label",
        "--kill-on-bad-exit=1",
        *(["--cpus-per-task={0}".format(common.cpus_per_task)] if common.cpus_per_task else []),
        *(["--gres={0}".format(gpu_value)] if all_gpus else []),
        *(shlex.quote(word) for word in common.srun_options),
        "--container-image={0}".format(image),
        "--container-mounts={0}".format(",".join(mounts)),
        "--container-workdir={0}".format(workdir),
        *common.container_options,
        "--container-env={0}".format(",".join([*exports, *own])),
        "bash {0}/{1}".format(ATTEMPT, LAUNCH),
    ]
    return _BATCH_SCRIPT.format(
        directives="".join(_directive(option, value) for option, value in directives),
        exports="".join("export {0}={1}\n".format(key, shlex.quote(value)) for key, value in exports.items()),
        nodes=nodes,
        gpus=gpus_per_node,
        gpu_option=gpu_option,
        comparison=">=" if all_gpus else "==",
        first_port=_FIRST_PORT,
        ports=_PORTS,
        step=" \\\n    ".join(step),
    )


def _directive(option: str, value: Any) -> str:
    """Return one #SBATCH line; nothing for an option that is empty or off."""
    if value is None or value == "" or value is False:
        return ""
    return "#SBATCH --{0}\n".format(option if value is True else "{0}={1}".format(option, value))


def launch_script(common: Common, processes: int, launch: Sequence[str], program: Sequence[str]) -> str:
    """Return what each node runs in the container."""
    options = list(launch)
    if processes > 1 and "--use_deepspeed" not in options:
        options.insert(0, "--multi_gpu")
    for option in ("--mixed_precision", "--dynamo_backend"):
        # accelerate's own defaults, which it complains of where they are not given.
        if option not in options:
            options += [option, "no"]
    words = [
        "--main_process_ip \"$MASTER_ADDR\"",
        "--main_process_port \"$MASTER_PORT\"",
        "--machine_rank \"$SLURM_NODEID\"",
        "--num_machines \"$NNODES\"",
        "--num_processes \"$NUM_PROCESSES\"",
        "--num_cpu_threads_per_process {0}".format(common.cpu_threads_per_process),
        "--same_network",
        *_paired(options),
    ]  # fmt: skip
    command = ["exec accelerate launch", *words, shlex.quote(program[0]), *_paired(program[1:])]
    return _LAUNCH_SCRIPT.format(attempt=ATTEMPT, command=" \\\n    ".join(command))


def _paired(words: Sequence[str]) -> list[str]:
    """Quote words for the shell, an option and its values on one line."""
    lines: list[str] = []
    for word in words:
        quoted = shlex.quote(str(word))
        if str(word).startswith("--") or not lines:
            lines.append(quoted)
        else:
            lines[-1] += " " + quoted
    return lines


_BATCH_SCRIPT = """\
#!/bin/bash
{directives}
# Written by dgxc.workloads. One task a node starts accelerate in the container, which starts one process a GPU.
set -euo pipefail

fail() {{
    echo "dgxc.workloads: $1" >&2
    exit 1
}}

{exports}
nodes=$(scontrol show hostnames "$SLURM_JOB_NODELIST")
count=$(wc -l <<< "$nodes")
((count == {nodes})) || fail "Slurm gave $count nodes where {nodes} were asked for; look at --nodes."

# Slurm spells the GPUs of a node as 8, as a100:8 or as a100:4,h100:4, and under --gres in another variable.
gpus=0
IFS=, read -ra kinds <<< "${{SLURM_GPUS_PER_NODE:-${{SLURM_GPUS_ON_NODE:-0}}}}"
for kind in "${{kinds[@]}}"; do
    [[ "$kind" =~ ^([A-Za-z0-9_.-]+:)*([0-9]+)$ ]] || fail "Slurm tells the GPUs of a node as '$kind', not as a number."
    gpus=$((gpus + 10#${{BASH_REMATCH[2]}}))
done
((gpus {comparison} {gpus})) ||
    fail "Slurm gave $gpus GPUs of a node where {gpus} were asked for; look at --{gpu_option}."

# The first node's name, or its address where the network does not know the name. The same port for all nodes of this
# job and another one for the next job.
MASTER_ADDR=${{nodes%%$'\\n'*}}
if ! getent ahosts "$MASTER_ADDR" > /dev/null; then
    head_node=$MASTER_ADDR
    MASTER_ADDR=$(scontrol show node "$head_node" | sed -n 's/.*NodeAddr=\\([^ ]*\\).*/\\1/p')
    [[ -n "$MASTER_ADDR" ]] || fail "Neither the network nor Slurm knows an address of node $head_node."
fi
MASTER_PORT=$(({first_port} + SLURM_JOB_ID % {ports}))
NNODES={nodes}
NUM_PROCESSES=$(({nodes} * {gpus}))
DGXC_SLURM_VERSION=$(scontrol --version)
DGXC_ENROOT_VERSION=$(enroot version 2> /dev/null || true)
export MASTER_ADDR MASTER_PORT NNODES NUM_PROCESSES DGXC_SLURM_VERSION DGXC_ENROOT_VERSION
echo "MASTER_ADDR: $MASTER_ADDR"
echo "MASTER_PORT: $MASTER_PORT"
echo "Using $NNODES nodes, $NUM_PROCESSES GPUs total"

{step}
"""

_LAUNCH_SCRIPT = """\
#!/bin/bash
# Written by dgxc.workloads. Runs once on each node, in the container, where {attempt} is the attempt folder.
set -euo pipefail

echo "Node ID $SLURM_NODEID"

# What this run used, for its record; without it the run goes on.
if [[ "$SLURM_NODEID" == 0 ]]; then
    python3 - << 'END' || echo "dgxc.workloads: the versions could not be recorded." >&2
import json, os, platform, subprocess
from importlib import metadata

def driver():
    try:
        said = subprocess.run(["nvidia-smi", "--query-gpu=driver_version,name", "--format=csv,noheader"],
                              capture_output=True, text=True, timeout=60)
    except (OSError, subprocess.SubprocessError):
        return None
    return said.stdout.splitlines()[0].strip() if said.returncode == 0 and said.stdout.strip() else None

packages = {{}}
for name in ("torch", "torchvision", "transformers", "accelerate", "deepspeed", "peft", "datasets", "bitsandbytes"):
    try:
        packages[name] = metadata.version(name)
    except metadata.PackageNotFoundError:
        pass
found = {{
    "slurm": os.environ.get("DGXC_SLURM_VERSION", ""),
    "enroot": os.environ.get("DGXC_ENROOT_VERSION", ""),
    "driver": driver(),
    "python": platform.python_version(),
    "packages": packages,
}}
with open("{attempt}/environment.json.new", "w") as stream:
    json.dump(found, stream, indent=2, sort_keys=True)
    stream.write("\\n")
os.rename("{attempt}/environment.json.new", "{attempt}/environment.json")
END
fi

{command}
"""
