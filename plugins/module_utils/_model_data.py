# Copyright: (c) 2026, The dgxc.workloads developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Model and data of a fine-tuning: from the hub or at a path, fetched or given. Private to this collection."""

from __future__ import annotations

import re
from typing import Any, Mapping, Sequence

from ansible_collections.dgxc.workloads.plugins.module_utils._accelerate import (
    ATTEMPT,
    Common,
    accelerate_run,
    judge_common,
    judge_matrix,
)
from ansible_collections.dgxc.workloads.plugins.module_utils._judge import NAME, Judge
from ansible_collections.dgxc.workloads.plugins.module_utils._preflight_wishes import of_accelerate
from ansible_collections.dgxc.workloads.plugins.module_utils._site_settings import path_problems

MODEL_NAMES = frozenset(("model", "model_revision"))
DATA_NAMES = frozenset(("data_folder", "data_path", "data_root", "data_sha256", "data_source", "data_url"))

_HUB_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*(?:/[A-Za-z0-9][A-Za-z0-9._-]*)?")
_PART = r"(?!\.\.?(?:/|$))[A-Za-z0-9._-]+"
_INNER_PATH = re.compile(r"(?:{0}(?:/{0})*)?".format(_PART))
_SHA256 = re.compile(r"(?:[0-9a-f]{64})?")
_SNAPSHOT = re.compile(r"(/.*/models--[^/]+)/(snapshots/[^/]+)")


def ceil_div(amount: int, by: int) -> int:
    """Return a quotient of whole numbers, rounded up."""
    return -(-amount // by)


def judge_sweep(
    prefix: str, known: frozenset[str], variables: Mapping[str, Any], site: Mapping[str, Any]
) -> tuple[Judge, Common, list[tuple[int, int]]]:
    """Begin to judge a sweep of fine-tunings: unknown names, the common variables, the sizes, model and data.

    :returns: the judge with what it found so far, the common variables, and (nodes, GPUs of a node) of each size.
    """
    judge = Judge(prefix, variables)
    judge.unknown(known)
    common = judge_common(judge, site)
    matrix = judge_matrix(judge, "matrix")
    judge_model(judge)
    judge_data(judge, site)
    return judge, common, matrix


def judge_model(judge: Judge) -> None:
    """Judge the model: a name on the hub with its revision, or an absolute path on the cluster."""
    value = judge.value("model")
    if isinstance(value, str) and value.startswith("/"):
        judge.problems += path_problems(judge.prefix + "model", value)
    else:
        judge.text("model", _HUB_NAME, "give owner/name as on the Hugging Face hub, or the absolute path of a folder")
    judge.text("model_revision", NAME, "give a branch, a tag or a commit of the model on the hub, such as main")


def judge_data(judge: Judge, site: Mapping[str, Any]) -> None:
    """Judge where the data is, or where it comes from and goes to."""
    if judge.value("data_path"):
        judge.problems += path_problems(judge.prefix + "data_path", judge.value("data_path"))
        return
    if site.get("dgxc_shared_root"):
        judge.problems += path_problems(judge.prefix + "data_folder", judge.value("data_folder"))
    judge.text("data_url", re.compile(r"https?://[^\s@/]+/\S+"), "give an address that begins with https://")
    judge.text("data_source", re.compile(r"\S+"), "give a name for the data, whatever mirror it comes from")
    judge.text("data_root", _INNER_PATH, "give the folder in the archive that holds the data, or '' for all of it")
    judge.text("data_sha256", _SHA256, "give the 64 hexadecimal digits that sha256sum prints, or ''")


def absent_or_whole(judge: Judge, name: str, least: int, remedy: str) -> int | None:
    """Take a whole number; null and an empty text stand for none."""
    if judge.value(name) in (None, ""):
        return None
    return judge.whole(name, least, 10**12, remedy)


def given_path(judge: Judge) -> str:
    """Return where the data lies on the cluster: where the user has it, or where it is fetched to."""
    return str(judge.value("data_path") or judge.value("data_folder") or "")


def local_name(path: str) -> str:
    """Return the last part of a path or of a name on the hub, by which the training scripts name their output."""
    return path.rstrip("/").rpartition("/")[2]


def _model_folder(model: str) -> tuple[str, str]:
    """Return what has to be mounted for a model at a path, and the model's own path below the mount's parent.

    A model in the cache of Hugging Face's hub consists of links to files beside it, so its whole folder is mounted.
    """
    snapshot = _SNAPSHOT.fullmatch(model.rstrip("/"))
    if snapshot:
        return snapshot[1], "{0}/{1}".format(local_name(snapshot[1]), snapshot[2])
    return model, local_name(model)


def mounts_for(judge: Judge) -> list[str]:
    """Return the mounts of data and, if it is at a path, of the model. Nothing writes to them."""
    path, model = given_path(judge), str(judge.value("model"))
    mounts = ["{0}:/data/{1}:ro".format(path, local_name(path))]
    if model.startswith("/"):
        folder, _inner = _model_folder(model)
        mounts.append("{0}:/models/{1}:ro".format(folder, local_name(folder)))
    return mounts


def script_run(
    judge: Judge,
    common: Common,
    workload: str,
    name: str,
    size: tuple[int, int],
    image: Mapping[str, Any],
    script: tuple[str, str],
    **more: Any,
) -> dict[str, Any]:
    """Return the run of one size of a sweep: a training script of ours in its attempt folder, over model and data.

    :param size: nodes, and GPUs of a node.
    :param script: the script's name and text.
    :param more: what else :func:`_accelerate.accelerate_run` takes, such as program and expect.
    """
    return accelerate_run(
        common,
        workload=workload,
        name=name,
        nodes=size[0],
        gpus_per_node=size[1],
        launch=[],
        mounts=mounts_for(judge),
        workdir=ATTEMPT,
        image=image,
        files=dict((script,)),
        **more,
    )


def wishes_of(
    judge: Judge, common: Common, workload: str, names: Sequence[str], sizes: Sequence[tuple[int, int]]
) -> dict[str, Any]:
    """Return what the role preflight is to look for. Data that will be fetched needs its server until it is there."""
    given, model = bool(judge.value("data_path")), str(judge.value("model"))
    data, *models = mounts_for(judge)
    return of_accelerate(
        common,
        workload,
        names,
        sizes,
        image=str(judge.value("container_image") or ""),
        mounts=[data, *models] if given else models,
        hub_model="" if model.startswith("/") else model,
        login_urls=[] if given else [{"url": str(judge.value("data_url")), "unless": given_path(judge)}],
    )


def model_argument(judge: Judge) -> list[str]:
    """Return the options that tell a training script its model, as the container sees it."""
    model = str(judge.value("model"))
    if model.startswith("/"):
        return ["--model", "/models/" + _model_folder(model)[1]]
    return ["--model", model, "--revision", str(judge.value("model_revision"))]
