# Copyright: (c) 2026, The dgxc.workloads developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The controller's part of the preflight: what is asked, what a missing connection means, and the report.

This file is private to the collection. All functions are pure.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from ansible_collections.dgxc.workloads.plugins.module_utils import _preflight as preflight
from ansible_collections.dgxc.workloads.plugins.module_utils._image_reference import is_file
from ansible_collections.dgxc.workloads.plugins.module_utils._judge import IMAGE, SLURM_NAMES, Judge
from ansible_collections.dgxc.workloads.plugins.module_utils._nemo_launcher import read_directives
from ansible_collections.dgxc.workloads.plugins.module_utils._preflight import ERROR, OK, WARNING
from ansible_collections.dgxc.workloads.plugins.module_utils._preflight_wishes import proxies_in
from ansible_collections.dgxc.workloads.plugins.module_utils._run_record import ATTEMPT_DIR_TOKEN
from ansible_collections.dgxc.workloads.plugins.module_utils._site_settings import (
    GPUS_MOST,
    container_words,
    fact_value,
    gpu_request,
    memory_request,
    mount_problems,
    mount_target,
    plain,
    proxy_environment,
    sbatch_options,
    site_problems,
)

PREFIX = "preflight_"
KNOWN = frozenset(
    (
        "compute_nodes",
        "compute_node_options",
        "enabled",
        "exclusive",
        "force",
        "git_remotes",
        "gpus_per_node",
        "ignore",
        "image",
        "memory",
        "mounts",
        "nodes",
        "report",
        "runs",
        "script",
        "show",
        "slurm_account",
        "slurm_options",
        "slurm_partition",
        "slurm_qos",
        "slurm_reservation",
        "space_gb",
        "time_limit",
        "timeout",
        "urls",
        "workload",
    )
)
#: What a workload's plan may say of its runs: variables, by which those of the role are replaced, or to which they are
#: added, and what only a workload knows - the runs' names, addresses that only nodes or only the login node need (with
#: what makes them needless), the proxies in the training's environment, options of Pyxis, whether credentials for the
#: registry follow, and whether runs that have ended are submitted again.
WORKLOAD = frozenset(
    (
        "exclusive",
        "gpus_per_node",
        "image",
        "memory",
        "mounts",
        "nodes",
        "slurm_account",
        "slurm_options",
        "slurm_partition",
        "slurm_qos",
        "slurm_reservation",
        "time_limit",
    )
)
WORKLOAD_ONLY = frozenset(
    (
        "credentials_follow",
        "environment",
        "git_remotes",
        "login_urls",
        "max_attempts",
        "names",
        "node_urls",
        "pyxis_options",
        "resubmit",
        "urls",
        "wished_node_urls",
        "workload",
    )
)
#: The options of Pyxis that ALMA, ViViT and Whisper start their containers with, beside those of the site.
PYXIS_OPTIONS = ("container-image", "container-mounts", "container-workdir", "container-env")
#: What the role tells in the end; a second use of it in one play finds it among the variables.
TOLD = frozenset(("checks", "facts"))
#: What is written first to the output of the command that looks for Pythons; profiles may print before it.
MARK = "DGXC-PREFLIGHT"
# Files that the fabric's environment names, as the container sees them.
_FILES = ("NCCL_TOPO_FILE", "NCCL_GRAPH_FILE", "NCCL_CONF_FILE")


def plan(variables: Mapping[str, Any], site: Mapping[str, Any]) -> dict[str, Any]:
    """Judge the variables and say what the two modules are to be asked.

    :param variables: all variables that begin with ``preflight_``. :param site: all that begin with ``dgxc_``.
    :return: ``problems``, sentences; ``login`` and ``nodes``, the arguments of the modules (empty if there are
        problems).
    """
    found = of_runs(variables.get(PREFIX + "runs") or [], str(site.get("dgxc_shared_root") or ""))
    workload = variables.get(PREFIX + "workload") or {}
    if not isinstance(workload, Mapping) or not set(workload) <= WORKLOAD | WORKLOAD_ONLY:
        return {"problems": [_WORKLOAD_PROBLEM], "login": {}, "nodes": {}}
    found.update({name: workload[name] for name in WORKLOAD & set(workload)})
    of_role = {PREFIX + name: found[name] for name in found if name not in ("environment", "options")}
    judge = Judge(PREFIX, {**variables, **of_role})
    judge.problems += site_problems(site)
    judge.unknown(KNOWN | TOLD)
    nodes = judge.whole("nodes", 1, 9999, "give the number of nodes that a run will ask for")
    gpus = judge.whole("gpus_per_node", 0, GPUS_MOST, "give the GPUs of one node as a whole number")
    looked_at = judge.whole("compute_nodes", 0, 64, "give the number of compute nodes to look at, or 0 for none")
    space = judge.decimal("space_gb", 0, 10**7, "give the gigabytes that have to be free on shared storage")
    timeout = judge.decimal("timeout", 1, 86400, "give the seconds for which the job that looks at nodes may wait")
    truths = {name: judge.truth(name) for name in ("enabled", "exclusive", "force")}
    limit = judge.time_limit("time_limit") if judge.value("time_limit") not in (None, "") else ""
    slurm = judge.slurm_names(site)
    if judge.value("image") not in (None, ""):
        judge.text("image", IMAGE, "give registry#path:tag or the absolute path of a .sqsh")
    mounts = _mounts(judge, site)
    lists = {name: _texts(judge, name) for name in ("git_remotes", "ignore", "urls")}
    judge.text("show", re.compile("all|problems|nothing"), "give all, problems or nothing")
    options = _options(judge, "slurm_options")
    own = _options(judge, "compute_node_options")
    if judge.problems:
        return {"problems": judge.problems, "login": {}, "nodes": {}}
    memory = judge.value("memory")
    memory = "" if memory is None else str(memory)
    asked = {name: slurm[name] for name in SLURM_NAMES if slurm[name]} | sbatch_options(site)
    request = {
        **asked,
        "nodes": nodes,
        **({gpu_request(site, gpus)[0]: gpu_request(site, gpus)[1]} if gpus else {}),
        "ntasks-per-node": 1,
        "mem": memory_request(site) if memory == "0" else memory,
        "exclusive": truths["exclusive"],
        "time": limit or "",
        **options,
    }
    probe_gpus = 1 if gpus else 0
    probe = {
        **asked,
        **({gpu_request(site, 1)[0]: gpu_request(site, 1)[1]} if probe_gpus else {}),
        **own,
    }
    root = str(site.get("dgxc_shared_root"))
    image = str(judge.value("image") or "")
    image_file = [image] if image and is_file(image) and image.startswith("/") else []
    urls = _unique([*lists["urls"], *workload.get("urls", [])])
    pyxis = _unique([*workload.get("pyxis_options", PYXIS_OPTIONS), *(w.lstrip("-") for w in container_words(site))])
    return {
        "problems": [],
        "login": {
            "shared_root": root,
            "space_gb": space,
            **slurm,
            "constraint": str(fact_value(site, "dgxc_slurm_constraint")),
            "nodes": nodes,
            "gpus_per_node": gpus,
            "gres_style": fact_value(site, "dgxc_gres_style"),
            "gpu_type": fact_value(site, "dgxc_gpu_type"),
            "time_limit": limit or "",
            "options": found.get("options", {}) if judge.value("script") else request,
            "script": str(judge.value("script") or ""),
            "image": image,
            "paths": mounts,
            "credentials_follow": bool(workload.get("credentials_follow")),
            "pyxis_options": pyxis,
            "git_remotes": [*({"url": url} for url in lists["git_remotes"]), *workload.get("git_remotes", [])],
            "urls": [*({"url": url} for url in urls), *workload.get("login_urls", [])],
            # Below the folder of all runs.
            "earlier_runs": ["{}/{}-".format(workload.get("workload"), name) for name in workload.get("names", [])],
            "resubmit": str(workload.get("resubmit") or "never"),
            "max_attempts": int(workload.get("max_attempts") or 0),
            # The login node has its own settings for proxies; dgxc_proxies are those of the trainings.
            "environment": {},
        },
        "nodes": {
            "shared_root": root,
            "nodes": looked_at,
            "gpus": probe_gpus,
            "options": {key: "" if value is True else str(value) for key, value in probe.items()},
            # What is below the shared root is there as it is.
            "paths": [path for path in (*mounts, *image_file) if path != root and not path.startswith(root + "/")],
            "urls": [*({"url": url} for url in urls), *workload.get("node_urls", [])],
            "wished_urls": list(workload.get("wished_node_urls", [])),
            "environment": {
                **proxy_environment(site),
                **proxies_in(found.get("environment") or {}),
                **workload.get("environment", {}),
            },
            "pyxis_options": pyxis,
            "timeout": timeout,
            "force": truths["force"],
        },
    }


def of_runs(runs: Any, root: str) -> dict[str, Any]:
    """Return the variables that a list of runs, as the role run takes them, stands for; nothing without runs.

    The largest run decides about nodes, GPUs, time limit and script; images and mounts are read from all scripts. The
    attempt folders, whose token stands in the scripts, are made at the submission and are not looked for.
    """
    if not isinstance(runs, (list, tuple)) or not runs or not all(isinstance(run, Mapping) for run in runs):
        return {}

    def size(run: Mapping[str, Any]) -> int:
        expect = run.get("expect") or {}
        return int(expect.get("nodes") or 1) * 100 + int(expect.get("gpus_per_node") or 0)

    scripts = [str((run.get("files") or {}).get(run.get("script"), "")) for run in runs]
    largest = max(range(len(runs)), key=lambda number: size(runs[number]))
    expect = runs[largest].get("expect") or {}
    mounts = {
        mount
        for script in scripts
        for listed in _option_values(script, "container-mounts")
        for mount in listed.split(",")
        if mount.startswith("/") and ATTEMPT_DIR_TOKEN not in mount and not _filled_in_later(mount)
    }
    images = [
        image[len("docker://") :] if image.startswith("docker://") else image
        for script in scripts
        for image in _option_values(script, "container-image")
        if not _filled_in_later(image) and IMAGE.fullmatch(image)
    ]
    limit = read_directives(scripts[largest]).get("time", "")
    return {
        "nodes": int(expect.get("nodes") or 1),
        "gpus_per_node": int(expect.get("gpus_per_node") or 0),
        # A script of somebody's own may spell it in another way, which Slurm judges then.
        "time_limit": limit if re.fullmatch(r"([0-9]+-)?[0-9]{1,2}:[0-5][0-9]:[0-5][0-9]", limit) else "",
        "script": scripts[largest].replace(ATTEMPT_DIR_TOKEN, root),
        "options": dict(runs[largest].get("options") or {}),
        "mounts": sorted({mount_target(mount): mount for mount in sorted(mounts)}.values()),
        "image": images[0] if images else "",
        "environment": dict(runs[largest].get("environment") or {}),
    }


def _option_values(script: str, option: str) -> list[str]:
    """Return the values of a long option in the commands of a shell script, without their quotes."""
    commands = re.sub(r"^\s*#(?!SBATCH\b).*$", "", script, flags=re.MULTILINE)
    # Quoted as a whole, or its value, or parts of that.
    shape = r"""(["'])--{0}[= ]([^"'\n]*)\1|--{0}[= ]\s*((?:"[^"\n]*"|'[^'\n]*'|[^\s"'\\])+)""".format(option)
    found = (match[2] if match[1] else match[3] for match in re.finditer(shape, commands))
    return [re.sub(r"[\"']", "", value) for value in found if value]


def _filled_in_later(text: str) -> bool:
    """Whether the shell fills a word in when the job runs, so that nobody can check it before."""
    return "$" in text or "`" in text


_WORKLOAD_PROBLEM = (
    "preflight_workload is for the roles of the workloads: leave it out, and use the other variables of this role."
)


def _unique(texts: Sequence[Any]) -> list[str]:
    return list(dict.fromkeys(str(text) for text in texts))


def _texts(judge: Judge, name: str) -> list[str]:
    value = judge.value(name)
    if value is None:
        return []
    if not isinstance(value, (list, tuple)) or not all(isinstance(item, str) and item.strip() for item in value):
        judge.say(name, "give a list of texts")
        return []
    return [str(item) for item in value]


def _options(judge: Judge, name: str) -> dict[str, Any]:
    value = judge.value(name)
    if value is None:
        return {}
    if not isinstance(value, Mapping):
        judge.say(name, "give a dictionary of long options of sbatch, such as {nice: 100}")
        return {}
    return {str(key): plain(setting) for key, setting in value.items() if setting is not None and setting is not False}


def _mounts(judge: Judge, site: Mapping[str, Any]) -> list[str]:
    """Sources of the mounts, and the files in them that the fabric's variables name."""
    value = judge.value("mounts")
    if judge.problems:
        # Mounts that come from a fabric that cannot be right have their sentences.
        return []
    judge.problems += mount_problems("preflight_mounts", value)
    if judge.problems:
        return []
    fabric = fact_value(site, "dgxc_fabric")
    mounts = [str(mount) for mount in value or [] if mount]
    paths = [mount.split(":")[0] for mount in mounts]
    for variable in _FILES:
        path = (fabric.get("env") or {}).get(variable)
        for mount in mounts if path else ():
            target = mount_target(mount)
            if str(path).startswith(target.rstrip("/") + "/"):
                paths.append(mount.split(":")[0].rstrip("/") + str(path)[len(target.rstrip("/")) :])
                break
    return sorted(set(paths))


# What a connection that does not work means.


_SSH = (
    (r"permission denied|too many authentication", "see that 'ssh {to}' signs you in without a question: load the key"
     " into an agent, set ansible_ssh_private_key_file, or, where a second factor is asked for, hold a connection open"
     " first (docs/clusters.md, 'A second factor')"),
    (r"could not resolve|name or service not known|nodename nor servname", "correct dgxc_login_node, or the network's"
     " name service"),
    (r"host key verification failed|identification has changed", "sign in once by hand and compare the host's key"),
    (r"timed out|no route to host|connection refused|network is unreachable", "see that the host and its port can be"
     " reached from here: a VPN, or a bastion host (docs/clusters.md, 'A bastion host')"),
    (r"failed to create temporary directory|no space left|quota exceeded", "free your quota, or set"
     " ansible_remote_tmp to a folder that you own on that host"),
    (r"sudo|become", "leave ansible_become out: everything runs as yourself"),
)  # fmt: skip


def connection_checks(
    result: Mapping[str, Any], pythons: str | None, controller: str, target: str, again: str = ""
) -> list[dict[str, str]]:
    """What is wrong where the module for the login node did not run.

    :param result: its result. :param pythons: the output of the command that looks for Pythons, or None if that did not
        run either. :param controller: the version of ansible-core. :param target: whom ssh is told to reach.
    :param again: what that command's connection ended with.
    """
    said = " ".join(
        str(result.get(name) or "")
        for name in ("msg", "module_stderr", "module_stdout", "exception")
        if result.get(name)
    )
    if not any(re.search(pattern, said, re.IGNORECASE) for pattern, _text in _SSH):
        said = f"{said} {again}"
    said = re.sub(r"\s+|\(traceback unavailable\)", " ", said).strip()
    found = _found_pythons(pythons)
    if pythons is None or MARK not in pythons:
        remedy = next(
            (text.format(to=target) for pattern, text in _SSH if re.search(pattern, said, re.IGNORECASE)),
            "see that 'ssh {0}' works without a question".format(target),
        )
        return [_as_dict(preflight.error("login.ssh", said[:400] or "no connection", remedy))]
    checks = [_as_dict(preflight.ok("login.ssh", f"{target} answers"))]
    lowest, highest = preflight.python_range(controller)
    good = [(path, version) for path, version in found if lowest <= int(version.split(".")[1]) <= highest]
    listed = ", ".join("{} is {}".format(*item) for item in found) or "none was found"
    noise = next((line for line in pythons.partition(MARK)[0].splitlines() if line.lstrip().startswith(("{", "["))), "")
    if noise:
        checks.append(
            _as_dict(
                preflight.error(
                    "login.profile",
                    f"a profile of the login node prints {noise.strip()[:80]!r}, which is taken for a module's answer",
                    "let it print only where somebody reads it: put '[[ $- == *i* ]] || return' on top of ~/.bashrc",
                )
            )
        )
        return checks
    bad_python = re.search(r"python", said, re.IGNORECASE) or not good
    if bad_python:
        checks.append(
            _as_dict(
                preflight.error(
                    "login.python",
                    f"the Python that was tried does not run modules ({said[:300]}); ansible-core {controller} supports"
                    f" 3.{lowest} to 3.{highest}; on that host {listed}",
                    f"set ansible_python_interpreter to {good[-1][0]}"
                    if good
                    else f"install a Python from 3.{lowest} to 3.{highest} there, or load the module that brings one"
                    " and set ansible_python_interpreter to its path",
                )
            )
        )
    else:
        checks.append(_as_dict(preflight.error("login.module", said[:600], "repeat with -vvv and look at the cause")))
    return checks


def _found_pythons(text: str | None) -> list[tuple[str, str]]:
    """Return (path, version) of each Python in the output, behind the mark, the oldest first."""
    found = {}
    for line in (text or "").partition(MARK)[2].splitlines():
        match = re.fullmatch(r"(/\S+) (3\.[0-9]+\.[0-9]+)", line.strip())
        if match:
            found[match[1]] = match[2]
    return sorted(found.items(), key=lambda item: [int(part) for part in item[1].split(".")])


def _as_dict(check: preflight.Check) -> dict[str, str]:
    return dict(check._asdict())


def fact_checks(problems: Sequence[str]) -> list[dict[str, str]]:
    """Sentences about variables as checks: what is behind the last colon is the remedy."""
    checks = []
    for sentence in problems:
        evidence, mark, remedy = sentence.rstrip(".").partition(": ")
        checks.append(_as_dict(preflight.error("facts", evidence, remedy if mark else "correct it")))
    return checks


# The report.


def report(
    checks: Sequence[Mapping[str, str]], ignore: Sequence[str], host: str, show: str, defer: bool = False
) -> dict[str, Any]:
    """Put the checks together.

    :param ignore: ids that count one step less: an error as a warning, a warning as ok. :param show: all, problems or
        nothing. :param defer: whether errors count only once something is to be submitted, and as warnings until then.
    :return: ``checks``, ``counts`` by verdict, ``verdict`` (the worst), ``lines`` for the screen, ``message`` of the
        failure (``deferred`` has it, if it is to come later).
    """
    # Without facts that are right, nothing was asked.
    less = set(ignore) - {"facts"}
    judged = [
        {**check, "verdict": _LESS[check["verdict"]] if check["id"] in less else check["verdict"]} for check in checks
    ]
    message = "\n".join(
        "{}: {}: {}.".format(check["id"], check["evidence"], check["remedy"])
        for check in judged
        if check["verdict"] == ERROR
    )
    if defer:
        judged = [{**check, "verdict": WARNING if check["verdict"] == ERROR else check["verdict"]} for check in judged]
    counts = preflight.counted(judged)
    worst = next((verdict for verdict in (ERROR, WARNING) if counts[verdict]), OK)
    shown = [check for check in judged if show == "all" or (show == "problems" and check["verdict"] != OK)]
    head = "{}: {} ok, {} warnings, {} errors".format(host, counts[OK], counts[WARNING], counts[ERROR])
    lines = []
    if shown:
        width = max(len(check["id"]) for check in shown)
        for check in shown:
            lines.append("{:7}  {}  {}".format(check["verdict"], check["id"].ljust(width), check["evidence"]))
            if check["remedy"] and check["verdict"] != OK:
                lines.append("{}  {}  -> {}".format(" " * 7, " " * width, check["remedy"]))
        if message and defer:
            lines.append("Runs of these names were submitted before: this stops the play if one is to be submitted.")
        lines.append(head)
    return {
        "host": host,
        "checks": judged,
        "counts": counts,
        "verdict": worst,
        "lines": lines,
        "message": "" if defer else message,
        "deferred": message if defer else "",
    }


_LESS = {ERROR: WARNING, WARNING: OK, OK: OK}
