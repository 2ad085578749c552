# Copyright: (c) 2026, The dgxc.workloads developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""From the variables of the role nemo_gpt3 to runs. Private to this collection.

``plan`` judges the variables before anything is touched and writes one overlay for each node count; ``runs`` judges
what the launcher made of them and puts the runs together. Both are pure.
"""

from __future__ import annotations

import json
import math
import re
from typing import Any, Mapping

from ansible_collections.dgxc.workloads.plugins.module_utils._durations import (
    nemo_duration_to_seconds,
    slurm_duration_to_seconds,
)
from ansible_collections.dgxc.workloads.plugins.module_utils._image_reference import parse
from ansible_collections.dgxc.workloads.plugins.module_utils._judge import (
    COMMIT,
    IMAGE,
    NAME,
    Judge,
    whole_number,
)
from ansible_collections.dgxc.workloads.plugins.module_utils._nemo_launcher import (
    RESULTS_FOLDER,
    TOKEN,
    read_directives,
)
from ansible_collections.dgxc.workloads.plugins.module_utils._preflight_wishes import of_nemo
from ansible_collections.dgxc.workloads.plugins.module_utils._site_settings import (
    container_words,
    env_problems,
    gpu_request,
    memory_request,
    mount_problems,
    path_problems,
    plain,
    proxy_environment,
    sbatch_options,
    site_problems,
    srun_words,
    unseen_file_problems,
)

PREFIX = "nemo_gpt3_"
KNOWN = frozenset(
    (
        "container_image",
        "container_mounts",
        "data_impl",
        "env",
        "gpus_per_node",
        "launcher_commit",
        "launcher_full_requirements",
        "launcher_path",
        "launcher_python",
        "launcher_python_below",
        "launcher_python_minimum",
        "launcher_requirements",
        "launcher_timeout",
        "launcher_url",
        "max_attempts",
        "max_steps",
        "max_time",
        "model",
        "nodes",
        "overrides",
        "resubmit",
        "run_name",
        "serial",
        "slurm_account",
        "slurm_partition",
        "slurm_qos",
        "slurm_reservation",
        "time_limit",
        "val_check_interval",
        "virtual_environment",
    )
)

# The document asks for this whatever the cluster: a new cluster has no tokenizer yet and has to fetch it.
BASE_ENV = {"TRANSFORMERS_OFFLINE": 0}

# What the launcher itself uses where nothing is said: GPUs for each node in its cluster and training files.
LAUNCHER_GPUS_PER_NODE = 8
# What its cluster file has where nothing is said.
LAUNCHER_MEMORY = "0"
LAUNCHER_SRUN_ARGS = ["--no-container-mount-home"]

# Facts of model files at the pinned commit that decide which node counts are possible. Other models are judged after
# the launcher has resolved them.
MODELS: dict[str, dict[str, int]] = {
    "7b_improved": {
        "global_batch_size": 512,
        "micro_batch_size": 1,
        "tensor_model_parallel_size": 4,
        "pipeline_model_parallel_size": 1,
        "context_parallel_size": 1,
    }
}

# Keys of the launcher's configuration that have a variable of their own or belong to the attempt.
_OWNED = {
    "base_results_dir": "nothing: it is the attempt folder",
    "cluster.account": "nemo_gpt3_slurm_account or dgxc_slurm_account",
    "cluster.gpus_per_node": "nemo_gpt3_gpus_per_node",
    "cluster.gres": "dgxc_gres_style and dgxc_gpu_type",
    "cluster.partition": "nemo_gpt3_slurm_partition or dgxc_slurm_partition",
    "container": "nemo_gpt3_container_image",
    "container_mounts": "nemo_gpt3_container_mounts",
    "defaults": "nemo_gpt3_model",
    "env_vars": "nemo_gpt3_env",
    "launcher_scripts_path": "nemo_gpt3_launcher_path",
    "stages": "nothing: this workload is the stage 'training'",
    "training.model.data.data_impl": "nemo_gpt3_data_impl",
    "training.run.results_dir": "nothing: it is the attempt folder",
    "training.run.time_limit": "nemo_gpt3_time_limit",
    "training.trainer.devices": "nemo_gpt3_gpus_per_node",
    "training.trainer.max_steps": "nemo_gpt3_max_steps",
    "training.trainer.max_time": "nemo_gpt3_max_time",
    "training.trainer.num_nodes": "nemo_gpt3_nodes",
    "training.trainer.val_check_interval": "nemo_gpt3_val_check_interval",
    "wandb_api_key_file": "nothing: the launcher would write the key in clear text into the submission script",
}

_LONGEST_NAME = 64


def plan(variables: Mapping[str, Any], site: Mapping[str, Any]) -> dict[str, Any]:
    """Judge the variables and write the overlays.

    :param variables: all variables that begin with ``nemo_gpt3_``.
    :param site: all variables that begin with ``dgxc_``.
    :return: ``problems`` and ``warnings``, lists of sentences, and ``plans``, one for each node count (none if there
        are problems): ``name``, ``overlay`` (text), ``options`` (for sbatch), ``gpu_request`` (sbatch's option for the
        GPUs and its value), ``ask_for_memory``, ``policy``, ``identity`` and ``expect``. ``image`` is what Pyxis gets,
        ``preflight`` what the role preflight is to look for.
    """
    judge = Judge(PREFIX, variables)
    judge.problems += site_problems(site)
    judge.unknown(KNOWN)
    node_counts = judge.node_counts("nodes")
    gpus = judge.whole("gpus_per_node", 1, 72, "give the GPUs of one node as a whole number")
    max_steps, interval = _steps(judge)
    limits = _times(judge)
    model = judge.text(
        "model", NAME, "give the name of a file in the launcher's conf/training/gpt3, such as 7b_improved"
    )
    data_impl = judge.text(
        "data_impl", re.compile(r"[a-z_]+"), "give mock for synthetic data, or another data_impl of NeMo such as mmap"
    )
    image = _image(judge)
    mounts = _mounts(judge, site)
    env = _env(judge, site, mounts)
    name = _run_name(judge, node_counts)
    slurm = judge.slurm_names(site)
    _launcher(judge, site)
    overrides = _overrides(judge)
    policy = judge.policy()
    serial = judge.truth("serial")
    if node_counts and gpus and model:
        _divisibility(judge, node_counts, gpus, _model_facts(model, overrides))

    plans: list[dict[str, Any]] = []
    if not judge.problems:
        for nodes in node_counts:
            overlay = merged(
                {
                    "defaults": ["config", {"override training": "gpt3/{0}".format(model)}, "_self_"],
                    "stages": ["training"],
                    "launcher_scripts_path": "{0}/launcher_scripts".format(judge.value("launcher_path")),
                    "base_results_dir": "{0}/{1}".format(TOKEN, RESULTS_FOLDER),
                    "container": image,
                    "container_mounts": mounts,
                    "env_vars": env,
                    "cluster": _cluster(slurm, site, gpus or 0),
                    "training": {
                        "run": {"time_limit": limits[0]},
                        "trainer": {
                            "num_nodes": nodes,
                            **({} if gpus == LAUNCHER_GPUS_PER_NODE else {"devices": gpus}),
                            "max_steps": max_steps,
                            "max_time": limits[1],
                            "val_check_interval": interval,
                        },
                        "model": {"data": {"data_impl": data_impl}},
                    },
                },
                overrides,
            )
            plans.append(
                {
                    "name": "{0}-n{1}".format(name, nodes),
                    "overlay": _HEADER + to_yaml(overlay),
                    "options": {
                        # The launcher makes all jobs of a name wait for one another (--dependency=singleton).
                        **({} if serial else {"job-name": "nemo-megatron-{0}-n{1}".format(name, nodes)}),
                        **{option: slurm[option] for option in ("qos", "reservation") if slurm[option]},
                        **sbatch_options(site),
                    },
                    "gpu_request": list(gpu_request(site, gpus or 0)),
                    "ask_for_memory": memory_request(site) != "",
                    "policy": policy,
                    "identity": {"launcher_commit": str(judge.value("launcher_commit")), "image": image},
                    "expect": {
                        "nodes": nodes,
                        "gpus_per_node": gpus,
                        "ranks": nodes * (gpus or 0),
                        "steps": max_steps,
                        "max_time_seconds": nemo_duration_to_seconds(limits[1] or ""),
                        "time_limit": limits[0],
                    },
                }
            )
    wishes: dict[str, Any] = {}
    if plans:
        remote = {key: str(judge.value("launcher_" + key)) for key in ("url", "path", "commit")}
        wishes = of_nemo(plans, slurm, image or "", mounts, env, remote)
    return {
        "problems": judge.problems,
        "warnings": judge.warnings,
        "plans": plans,
        "image": image or "",
        "preflight": wishes,
    }


_HEADER = (
    "# Changes to the launcher's own configuration, which stays as it is.\n"
    "# Written by the role nemo_gpt3 of dgxc.workloads.\n---\n"
)


def _steps(judge: Judge) -> tuple[int | None, int | None]:
    most = 10**9
    steps = judge.whole("max_steps", 1, most, "give the number of training steps as a whole number of at least 1")
    interval = judge.whole(
        "val_check_interval", 1, most, "give the steps between two validations as a whole number of at least 1"
    )
    if steps is not None and interval is not None and interval > steps:
        judge.say("val_check_interval", "it must not be more than nemo_gpt3_max_steps, which is {0}".format(steps))
    return steps, interval


def _times(judge: Judge) -> tuple[str | None, str | None]:
    """Return time limit and maximum time, each None when it cannot be used."""
    limit = judge.time_limit("time_limit")
    longest = _max_time(judge)
    if limit is None or longest is None:
        return limit, longest
    if not nemo_duration_to_seconds(longest):
        judge.say("max_time", "give a time longer than zero")
    elif (slurm_duration_to_seconds(limit) or 0) <= nemo_duration_to_seconds(longest):
        judge.say(
            "max_time",
            "it must be shorter than nemo_gpt3_time_limit, which is {0!r}, so that the last checkpoint can be written"
            " before Slurm ends the job".format(limit),
        )
    return limit, longest


def _max_time(judge: Judge) -> str | None:
    wanted = 'days:hours:minutes:seconds in quotes, such as "00:01:30:00"'
    value = judge.time_text("max_time", wanted)
    if value is None:
        return None
    try:
        nemo_duration_to_seconds(value)
    except ValueError:
        judge.say("max_time", "write " + wanted)
        return None
    return value


def _image(judge: Judge) -> str | None:
    """Return the image as every version of Enroot understands it: ``registry#path:tag`` or the absolute path of a
    .sqsh."""
    image = judge.text(
        "container_image",
        IMAGE,
        "give registry#path:tag, such as nvcr.io#nvidia/nemo:24.01.01.framework, or the absolute path of a .sqsh file",
    )
    if image is None or image.startswith("/"):
        if image and not image.endswith((".sqsh", ".squashfs")):
            judge.say("container_image", "a path has to be that of a .sqsh file, as 'enroot import' writes it")
        elif image:
            judge.problems += path_problems(PREFIX + "container_image", image)
        return image
    if image.endswith((".sqsh", ".squashfs")) or image.startswith("."):
        judge.say(
            "container_image", "give the absolute path of the file; Pyxis takes anything else for the name of an image"
        )
        return None
    scheme, separator, rest = image.partition("://")
    if separator and scheme != "docker":
        judge.say(
            "container_image", "Pyxis takes registry#path:tag, docker://registry#path:tag or the path of a .sqsh file"
        )
        return None
    reference = rest if separator else image
    first, slash, path = reference.partition("/")
    if "#" not in reference and slash and ("." in first or ":" in first or first == "localhost"):
        # Before Enroot 4, only '#' sets the registry apart; with '/' the image would be looked for on Docker Hub.
        reference = "{0}#{1}".format(first, path)
        judge.warnings.append(
            "nemo_gpt3_container_image is written {0} here, because older versions of Enroot look for {1} on Docker"
            " Hub.".format(reference, image)
        )
    try:
        parse(reference)
    except ValueError as error:
        judge.problems.append("{0}container_image: {1}".format(PREFIX, error))
    return "docker://" + reference if separator else reference


def _mounts(judge: Judge, site: Mapping[str, Any]) -> list[str]:
    value = judge.value("container_mounts")
    problems = mount_problems(PREFIX + "container_mounts", value)
    fabric = site.get("dgxc_fabric")
    if not (isinstance(fabric, Mapping) and fabric.get("mounts") == value):
        # What comes from the fabric as it is has been judged there.
        judge.problems += problems
    return [] if problems or value is None else [str(mount) for mount in value if mount is not None]


def _env(judge: Judge, site: Mapping[str, Any], mounts: list[str]) -> dict[str, Any]:
    own = judge.value("env")
    problems = env_problems(PREFIX + "env", own)
    judge.problems += problems
    fabric = site.get("dgxc_fabric")
    fabric_env = fabric.get("env") if isinstance(fabric, Mapping) else None
    env: dict[str, Any] = dict(BASE_ENV)
    proxies = {} if judge.problems else proxy_environment(site)
    for layer in (proxies, fabric_env, None if problems else own):
        if isinstance(layer, Mapping):
            env.update({str(key): _env_value(value) for key, value in layer.items()})
    if not problems:
        judge.problems += unseen_file_problems("The environment", env, mounts, PREFIX + "container_mounts")
    return env


def _env_value(value: Any) -> Any:
    """Return digits as a number, so that ``"1"`` and ``1`` give one and the same overlay."""
    if isinstance(value, str):
        return int(value) if re.fullmatch(r"0|[1-9][0-9]{0,15}", value) else str(value)
    return value


def _run_name(judge: Judge, node_counts: list[int]) -> str | None:
    name = judge.text(
        "run_name", NAME, "use letters, digits and the characters . _ -, and begin with a letter or digit"
    )
    longest = max((len("-n{0}".format(count)) for count in node_counts), default=len("-n2"))
    if name is not None and len(name) + longest > _LONGEST_NAME:
        judge.say("run_name", "with the node count behind it, it may have {0} characters".format(_LONGEST_NAME))
    return name


def _cluster(slurm: Mapping[str, str], site: Mapping[str, Any], gpus: int) -> dict[str, Any]:
    """Return only what differs from the launcher's cluster file: null there leaves an option out, and Slurm's defaults
    hold."""
    cluster: dict[str, Any] = {name: slurm[name] for name in ("account", "partition") if slurm[name]}
    option, value = gpu_request(site, gpus)
    if option == "gres":
        cluster.update({"gpus_per_node": None, "gres": value})
    elif value != str(LAUNCHER_GPUS_PER_NODE):
        cluster["gpus_per_node"] = gpus if value == str(gpus) else value
    memory = memory_request(site)
    if memory not in ("", LAUNCHER_MEMORY):
        cluster["mem"] = _gibibytes(memory)
    arguments = [*container_words(site), *srun_words(site)]
    if arguments != LAUNCHER_SRUN_ARGS:
        cluster["srun_args"] = arguments
    return cluster


def _gibibytes(memory: str) -> int | float:
    """Return an amount as --mem takes it (megabytes where no unit is given) in the launcher's unit."""
    unit = memory[-1] if memory[-1].isalpha() else "M"
    amount = int(memory.rstrip("KMGT")) * {"K": 2.0**-20, "M": 2.0**-10, "G": 1.0, "T": 2.0**10}[unit]
    return int(amount) if amount == int(amount) else amount


def _launcher(judge: Judge, site: Mapping[str, Any]) -> None:
    judge.text("launcher_commit", COMMIT, "give the full commit id of 40 digits (0-9, a-f)")
    judge.text("launcher_url", re.compile(r"[^\s-]\S*"), "give the address that 'git clone' takes, without blanks")
    if site.get("dgxc_shared_root"):
        # Both are below the shared root by default, and there is nothing to say about them while that is missing.
        for name in ("launcher_path", "virtual_environment"):
            judge.problems += path_problems(PREFIX + name, judge.value(name))
    judge.text(
        "launcher_python",
        re.compile(r"[A-Za-z0-9._/+-]+"),
        "give the name or the absolute path of a Python from 3.8 to 3.10",
    )
    for name in ("launcher_python_minimum", "launcher_python_below"):
        judge.text(
            name,
            re.compile(r"(?:3\.[0-9]{1,2})?"),
            'give a version in quotes, such as "3.8", or an empty text for none',
        )
    judge.whole("launcher_timeout", 1, 86400, "give a number of seconds")
    judge.truth("launcher_full_requirements")
    requirements = judge.value("launcher_requirements")
    if (
        not isinstance(requirements, (list, tuple))
        or not requirements
        or not all(isinstance(item, str) and item.strip() and not item.startswith("-") for item in requirements)
    ):
        judge.say("launcher_requirements", "give a list of requirements as pip takes them")


def _overrides(judge: Judge) -> dict[str, Any]:
    value = judge.value("overrides")
    if value is None:
        return {}
    if not isinstance(value, Mapping):
        judge.say(
            "overrides",
            "give a dictionary of the shape of the launcher's config.yaml, such as {training: {model: {...}}}",
        )
        return {}
    good = True
    for path in _paths(value):
        for owned, instead in _OWNED.items():
            if path == owned or path.startswith(owned + ".") or owned.startswith(path + "."):
                # A leaf that holds more than the owned key itself, such as training: null, takes the owned key away.
                judge.problems.append(
                    "nemo_gpt3_overrides sets {0}, which has another place: use {1}.".format(path, instead)
                    if not instead.startswith("nothing")
                    else "nemo_gpt3_overrides sets {0}, which cannot be set: {1}.".format(
                        path, instead.partition(": ")[2]
                    )
                )
                good = False
                break
    return plain(value) if good else {}


def _paths(tree: Mapping[Any, Any], above: str = "") -> list[str]:
    """Return the dotted paths of a tree's leaves; an empty dictionary changes nothing and has none."""
    found = []
    for key, value in tree.items():
        path = "{0}.{1}".format(above, key) if above else str(key)
        found += _paths(value, path) if isinstance(value, Mapping) else [path]
    return found


def _model_facts(model: str, overrides: Mapping[str, Any]) -> dict[str, Any] | None:
    facts: dict[str, Any] | None = MODELS.get(model)
    if facts is None:
        return None
    training = overrides.get("training")
    own = training.get("model") if isinstance(training, Mapping) else None
    return {key: own.get(key, value) if isinstance(own, Mapping) else value for key, value in facts.items()}


def _divisibility(judge: Judge, node_counts: list[int], gpus: int, facts: Mapping[str, Any] | None) -> None:
    if facts is None:
        return
    for nodes in node_counts:
        problem = batch_problem(nodes, gpus, facts)
        if problem:
            judge.problems.append("nemo_gpt3_nodes is {0}: {1}".format(nodes, problem))


def batch_problem(nodes: int, gpus: int, facts: Mapping[str, Any]) -> str | None:
    """Return why Megatron cannot spread the global batch over these GPUs, as the end of a sentence, or None.

    ranks = nodes x GPUs must be a multiple of the GPUs that one copy of the model takes (tensor x pipeline x context),
    and the global batch a multiple of micro batch x copies. For 7b_improved: 512 % (2 x nodes) == 0.
    """
    numbers = {key: whole_number(facts.get(key, 1)) for key in MODELS["7b_improved"]}
    for key, number in numbers.items():
        if not number:
            return (
                "training.model.{0} is {1!r}, which is not a whole number of at least 1: correct nemo_gpt3_overrides."
            ).format(key, facts.get(key))
    copy = (
        (numbers["tensor_model_parallel_size"] or 1)
        * (numbers["pipeline_model_parallel_size"] or 1)
        * (numbers["context_parallel_size"] or 1)
    )
    batch, micro = numbers["global_batch_size"] or 1, numbers["micro_batch_size"] or 1

    def fits(count: int) -> bool:
        return (count * gpus) % copy == 0 and batch % (micro * (count * gpus // copy)) == 0

    if (nodes * gpus) % copy == 0 and nodes * gpus // copy and fits(nodes):
        return None
    possible = [count for count in range(1, 1025) if count * gpus >= copy and fits(count)]
    near = sorted(sorted(possible, key=lambda count: (abs(count - nodes), count))[:3])
    return (
        "{0} x {1} GPUs give {2:g} copies of the model ({3} GPUs each), and the global batch of {4} samples does not"
        " divide into {2:g} x {5}: choose {6}.".format(
            nodes,
            gpus,
            nodes * gpus / copy,
            copy,
            batch,
            micro,
            " or ".join(str(count) for count in near) + " nodes"
            if near
            else "another training.model.global_batch_size in nemo_gpt3_overrides",
        )
    )


def runs(plans: list[Any], renders: list[Any], configurations: list[Any], image_digest: str = "") -> dict[str, Any]:
    """Put the runs together, once it is sure that the launcher did with each plan what the plan says.

    :param plans: as ``plan`` returns them.
    :param renders: what the launcher wrote for each, as the module nemo_launcher_render returns it.
    :param configurations: the resolved configuration of each render, read from its YAML.
    :param image_digest: the image's, '' if it is not known.
    :return: ``problems``, a list of sentences, and ``runs``, for the variable ``run_runs`` of the role run.
    """
    problems: list[str] = []
    finished: list[dict[str, Any]] = []
    for plan_, rendered, configuration in zip(plans, renders, configurations):
        name, expect = plan_["name"], plan_["expect"]
        directives = read_directives(rendered["files"][rendered["script"]])
        gpu_option, gpu_value = plan_["gpu_request"]
        model, trainer = configuration["model"], configuration["trainer"]
        for what, found, wanted in (
            ("#SBATCH --time", directives.get("time"), expect["time_limit"]),
            ("#SBATCH --nodes", directives.get("nodes"), expect["nodes"]),
            ("#SBATCH --" + gpu_option, directives.get(gpu_option), gpu_value),
            ("#SBATCH --ntasks-per-node", directives.get("ntasks-per-node"), expect["gpus_per_node"]),
            ("trainer.num_nodes", trainer.get("num_nodes"), expect["nodes"]),
            ("trainer.max_steps", trainer.get("max_steps"), expect["steps"]),
        ):
            if str(found) != str(wanted):
                problems.append(
                    "{0}: the launcher wrote {1} = {2} where {3} was asked for: look into nemo_gpt3_overrides, and see"
                    " that nemo_gpt3_launcher_commit is a commit that this collection knows.".format(
                        name, what, found, wanted
                    )
                )
        problem = batch_problem(expect["nodes"], expect["gpus_per_node"], model)
        if problem:
            problems.append("{0}: {1}".format(name, problem))
        finished.append(
            {
                "name": name,
                "workload": "nemo_gpt3",
                "files": _files(rendered, plan_["ask_for_memory"]),
                "directories": list(rendered["directories"]),
                "script": rendered["script"],
                "options": dict(plan_["options"]),
                **plan_["policy"],
                "identity": {**plan_["identity"], "image_digest": image_digest},
                "logs": dict(rendered["logs"]),
                "log_format": "nemo",
                "expect": {
                    **{key: value for key, value in expect.items() if key != "time_limit"},
                    "global_batch_size": model.get("global_batch_size"),
                    "sequence_length": model.get("encoder_seq_length"),
                },
            }
        )
    return {"problems": problems, "runs": [] if problems else finished}


def _files(rendered: Mapping[str, Any], ask_for_memory: bool) -> dict[str, str]:
    """Return what the launcher wrote. It cannot leave --mem out, which some sites refuse, so that line is taken out of
    its script where the site wants no request."""
    files = dict(rendered["files"])
    if not ask_for_memory:
        files[rendered["script"]] = re.sub(r"(?m)^#SBATCH --mem=0\n", "", files[rendered["script"]])
    return files


def merged(base: Mapping[str, Any], over: Mapping[str, Any]) -> dict[str, Any]:
    """Return a copy of base in which dictionaries are merged at every depth and all else is replaced."""
    result = dict(base)
    for key, value in over.items():
        below = result.get(key)
        if isinstance(value, Mapping) and isinstance(below, Mapping):
            result[key] = merged(below, value)
        else:
            result[key] = value
    return result


def to_yaml(tree: Mapping[str, Any], indent: int = 0) -> str:
    """Write a tree as YAML in which every text is quoted.

    A text without quotes can come back as something else: YAML 1.1 reads 2:00:00 as 7200 and no as false. Empty
    dictionaries are left out.
    """
    lines = []
    margin = " " * indent
    for key, value in tree.items():
        label = key if re.fullmatch(r"[A-Za-z_][A-Za-z0-9_ ]*", str(key)) else json.dumps(str(key), ensure_ascii=False)
        if isinstance(value, Mapping):
            if value:
                lines.append("{0}{1}:\n{2}".format(margin, label, to_yaml(value, indent + 2)))
        elif isinstance(value, (list, tuple)) and value:
            lines.append("{0}{1}:\n".format(margin, label))
            lines += ["{0}  - {1}\n".format(margin, _inline(item)) for item in value]
        else:
            lines.append("{0}{1}: {2}\n".format(margin, label, _inline(value)))
    return "".join(lines)


def _inline(value: Any) -> str:
    if isinstance(value, Mapping):
        pairs = (
            "{0}: {1}".format(json.dumps(str(key), ensure_ascii=False), _inline(item)) for key, item in value.items()
        )
        return "{" + ", ".join(pairs) + "}"
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(_inline(item) for item in value) + "]"
    if isinstance(value, float) and math.isfinite(value):
        # JSON's 1e-05 is a text for YAML 1.1, which wants a dot.
        text = repr(float(value))
        return text if "." in text or "e" not in text else text.replace("e", ".0e")
    return json.dumps(value, ensure_ascii=False)
