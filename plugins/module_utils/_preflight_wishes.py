# Copyright: (c) 2026, The dgxc.workloads developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What the plan of a workload tells the preflight: what its runs will ask for and need. Private to this collection.

The keys are those that ``plugin_utils/_preflight_report.py`` takes as ``preflight_workload``. Only what is there before
the play is named: not a clone, an image or data that the play itself brings. All functions are pure.
"""

from __future__ import annotations

import re
from typing import Any, Iterable, Mapping, Sequence

from ansible_collections.dgxc.workloads.plugins.module_utils._accelerate import Common
from ansible_collections.dgxc.workloads.plugins.module_utils._image_reference import is_file, parse
from ansible_collections.dgxc.workloads.plugins.module_utils._judge import SLURM_NAMES
from ansible_collections.dgxc.workloads.plugins.module_utils._site_settings import mount_target, plain

HUB = "https://huggingface.co"


def registry_urls(image: str) -> list[str]:
    """Return the address of the registry that compute nodes pull an image from; nothing for a file.

    It is wished for and not demanded: a registry may speak plain HTTP, and Enroot may know a way of its own.
    """
    if not image or is_file(image):
        return []
    try:
        return ["https://{0}/v2/".format(parse(image).host)]
    except ValueError:
        return []


def hub_urls(env: Mapping[str, Any], cache: str, model: str) -> list[dict[str, str]]:
    """Return the address of Hugging Face's hub, or of the mirror that HF_ENDPOINT names, for a model of the hub.

    A model that is in the cache needs none.
    """
    cached = "{0}/hub/models--{1}".format(cache, model.replace("/", "--"))
    return [{"url": str(env.get("HF_ENDPOINT") or HUB), "unless": cached}]


def proxies_in(env: Mapping[str, Any]) -> dict[str, str]:
    """Return those variables of an environment that programs read proxies from."""
    shape = re.compile(r"(http|https|ftp|all|no)_proxy", re.IGNORECASE)
    return {str(key): str(value) for key, value in env.items() if shape.fullmatch(str(key)) and value is not None}


def united(mounts: Sequence[str], more: Iterable[str]) -> list[str]:
    """Return mounts with further ones; of two with one target the first counts."""
    found = {mount_target(mount): mount for mount in (*reversed(list(more)), *reversed(mounts))}
    return sorted(found.values())


def of_accelerate(
    common: Common,
    workload: str,
    names: Sequence[str],
    sizes: Sequence[tuple[int, int]],
    image: str,
    mounts: Iterable[str] = (),
    hub_model: str = "",
    git_remotes: Sequence[Mapping[str, str]] = (),
    login_urls: Sequence[Mapping[str, str]] = (),
) -> dict[str, Any]:
    """Return what runs of ``accelerate launch`` will ask for; the largest of them decides.

    :param sizes: nodes and GPUs of a node. :param image: an image that is there, or ''. :param mounts: sources that are
        there, as Pyxis takes them. :param hub_model: a model's name on the hub, or '' for one in a folder.
    """
    nodes, gpus = max(sizes)
    hub = hub_urls(common.env, common.cache_path, hub_model) if hub_model and not common.offline else []
    cpus = {"cpus-per-task": common.cpus_per_task} if common.cpus_per_task else {}
    return {
        "workload": workload,
        "names": list(names),
        "nodes": nodes,
        "gpus_per_node": gpus,
        "exclusive": common.exclusive,
        "memory": common.memory,
        "time_limit": common.time_limit,
        **{"slurm_" + name: common.slurm[name] for name in SLURM_NAMES},
        "slurm_options": {**common.slurm_options, **cpus},
        "image": image,
        # The role image writes the registry's credentials.
        "credentials_follow": True,
        "mounts": united(common.container_mounts, mounts),
        "git_remotes": [dict(remote) for remote in git_remotes],
        "login_urls": [dict(address) for address in login_urls],
        "node_urls": hub,
        "wished_node_urls": registry_urls(image),
        "environment": proxies_in(common.env),
        **{name: common.policy[name] for name in ("resubmit", "max_attempts")},
    }


def of_nemo(
    plans: Sequence[Mapping[str, Any]],
    slurm: Mapping[str, str],
    image: str,
    mounts: Sequence[str],
    env: Mapping[str, Any],
    remote: Mapping[str, str],
) -> dict[str, Any]:
    """Return what runs of NeMo's launcher will ask for; the largest of them decides.

    :param plans: as the filter nemo_gpt3_plan returns them. :param image: as Pyxis takes it. :param env: the training's
        environment. :param remote: the launcher's ``url``, ``commit`` and ``path``.
    """
    largest = max(plans, key=lambda plan: int(plan["expect"]["nodes"]))
    expect = largest["expect"]
    own = ("job-name", *SLURM_NAMES)
    given = image[len("docker://") :] if image.startswith("docker://") else image
    return {
        "workload": "nemo_gpt3",
        "names": [plan["name"] for plan in plans],
        "nodes": expect["nodes"],
        "gpus_per_node": expect["gpus_per_node"],
        "exclusive": True,
        "memory": "0" if largest["ask_for_memory"] else "",
        "time_limit": expect["time_limit"],
        **{"slurm_" + name: slurm[name] for name in SLURM_NAMES},
        "slurm_options": {
            **{option: plain(value) for option, value in largest["options"].items() if option not in own},
            "ntasks-per-node": expect["gpus_per_node"],
        },
        "image": given,
        "mounts": list(mounts),
        # The launcher's srun has no --container-env.
        "pyxis_options": ["container-image", "container-mounts"],
        "git_remotes": [dict(remote)],
        # The nodes' Enroot pulls the image, and may be told in its own settings where credentials are.
        "credentials_follow": True,
        # NeMo fetches its tokenizer, unless the image or a cache has it.
        "wished_node_urls": [
            *registry_urls(given),
            *([HUB] if str(env.get("TRANSFORMERS_OFFLINE")) == "0" else []),
        ],
        "environment": proxies_in(env),
        **{name: largest["policy"][name] for name in ("resubmit", "max_attempts")},
    }
