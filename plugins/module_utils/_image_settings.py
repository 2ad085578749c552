# Copyright: (c) 2026, The dgxc.workloads developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Judges the variables of the role image and plans what it does. Private to this collection."""

from __future__ import annotations

import hashlib
import posixpath
import re
from typing import Any, Mapping

from ansible_collections.dgxc.workloads.plugins.module_utils import _files
from ansible_collections.dgxc.workloads.plugins.module_utils._image_reference import is_file, parse
from ansible_collections.dgxc.workloads.plugins.module_utils._judge import COMMIT, Judge
from ansible_collections.dgxc.workloads.plugins.module_utils._site_settings import path_problems

DELIVERIES = ("given", "registry", "upload", "import")
BUILT = ("registry", "upload")
KNOWN = frozenset(
    (
        "arch",
        "base",
        "build_args",
        "build_enroot",
        "build_enroot_environment",
        "build_environment",
        "build_folder",
        "build_host",
        "build_network",
        "builder",
        "checksum",
        "claim_timeout",
        "context",
        "delivery",
        "docker_host",
        "dockerfile",
        "enroot",
        "enroot_cache_path",
        "enroot_config_path",
        "enroot_environment",
        "enroot_runtime_path",
        "enroot_temp_path",
        "enroot_version_check",
        "environment_modules",
        "file",
        "folder",
        "given",
        "import_in_job",
        "import_job_options",
        "name",
        "pins",
        "refresh",
        "registry",
        "registry_ca",
        "repositories",
        "repository_commit",
        "repository_url",
        "source",
        "stale_timeout",
        "tag",
        "timeout",
        "transfer_retries",
        "upload_options",
    )
)
# What the role tells in the end; a second use of it in one play finds them among the variables.
FACTS = frozenset(("reference", "digest", "size", "path"))

_NAME = re.compile(r"[a-z0-9]+(?:[._-][a-z0-9]+)*")
_TAG = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,127}")
_REGISTRY = re.compile(r"[A-Za-z0-9][A-Za-z0-9.-]*(?::[0-9]{1,5})?(?:/[a-z0-9]+(?:[._-]+[a-z0-9]+)*)*")
_OPTION = re.compile(r"[a-z][a-z0-9-]*")


def plan(variables: Mapping[str, Any], site: Mapping[str, Any]) -> dict[str, Any]:
    """Judge the variables and say what is to be had.

    :param variables: all whose names begin with ``image_``, without secrets. :param site: all with ``dgxc_``.
    :returns: problems (sentences; everything else holds only if there are none), delivery, path (of the .sqsh on the
        cluster, or ''), reference (what Pyxis gets), source (for ``enroot import`` on the cluster, or ''), local (the
        image's name in Docker's store, or ''), pushed (its name in the registry, or ''), job_options (srun's options).
    """
    given = {name: value for name, value in variables.items() if name[len("image_") :] not in FACTS}
    judge = Judge("image_", given)
    judge.unknown(KNOWN)
    found: dict[str, Any] = dict.fromkeys(("path", "reference", "source", "local", "pushed"), "")
    delivery = judge.value("delivery")
    found["delivery"] = delivery
    if delivery not in DELIVERIES:
        judge.say("delivery", "choose one of {0}".format(", ".join(DELIVERIES)))
    elif delivery == "given":
        _given(judge, found)
    else:
        _made(judge, found, delivery)
    found["job_options"] = _job_options(judge, site) if delivery == "import" else []
    for name, least, most in (("timeout", 1, 10**7), ("claim_timeout", 0, 10**7), ("stale_timeout", 10, 10**6),
                              ("transfer_retries", 0, 1000)):  # fmt: skip
        judge.whole(name, least, most, "give a whole number from {0} on".format(least))
    for name in ("refresh", "checksum", "import_in_job"):
        judge.truth(name)
    if judge.value("enroot_version_check") not in ("major", "exact", "none"):
        judge.say("enroot_version_check", "choose major, exact or none")
    if judge.value("builder") not in ("classic", "buildx"):
        judge.say(
            "builder", "choose classic (the API of every Docker Engine) or buildx (where its plug-in is installed)"
        )
    for name in ("enroot_environment", "build_enroot_environment", "build_environment", "build_args", "context"):
        value = judge.value(name)
        if not isinstance(value, Mapping) or not all(isinstance(item, str) for item in value.values()):
            judge.say(name, "give a dictionary of texts, numbers in quotes")
    return {"problems": judge.problems, "warnings": judge.warnings, **found}


def _given(judge: Judge, found: dict[str, Any]) -> None:
    given = judge.value("given")
    if not isinstance(given, str) or not given:
        judge.say("given", "give the path of a .sqsh file on the cluster, or the reference of an image in a registry")
    elif is_file(given):
        judge.problems.extend(path_problems("image_given", given))
        found["path"] = found["reference"] = given
    else:
        found["reference"] = _reference(judge, "given")


def _made(judge: Judge, found: dict[str, Any], delivery: str) -> None:
    name = judge.text("name", _NAME, "name alma, pytorch-vidasr, or an image of your own, in small letters")
    tag = judge.text("tag", _TAG, "give a tag of letters, digits and . _ -, in quotes if it looks like a number")
    if delivery in BUILT and name and tag:
        found["local"] = "{0}:{1}".format(name, tag)
        _recipe(judge, name)
    registry = judge.value("registry")
    if registry not in (None, "") and not (isinstance(registry, str) and _REGISTRY.fullmatch(registry)):
        judge.say("registry", "give host, host:port or host/path of a registry, without https://")
    elif registry and name and tag:
        found["pushed"] = "{0}/{1}:{2}".format(registry, name, tag)
    elif delivery == "registry":
        judge.say("registry", "the delivery registry needs the registry to push to, such as registry.example.com/team")
    if delivery == "registry":
        if found["pushed"]:
            found["reference"] = parse(found["pushed"]).pyxis
        return
    if delivery == "import":
        if judge.value("source"):
            found["source"] = _reference(judge, "source", enroot=True)
        elif found["pushed"]:
            found["source"] = parse(found["pushed"]).enroot
        else:
            judge.say("source", "give the reference of the image to import, or set image_registry")
    folder, file = judge.value("folder"), judge.value("file")
    judge.problems.extend(path_problems("image_folder", folder))
    if not isinstance(file, str) or not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._+-]*\.sqsh", file):
        judge.say("file", "give a file name that ends in .sqsh")
    elif isinstance(folder, str):
        found["path"] = found["reference"] = posixpath.join(folder, file)


def _recipe(judge: Judge, name: str) -> None:
    base = judge.value("base")
    if not base:
        judge.say("base", "name the image that {0} is built from".format(name))
    elif base != "scratch":
        _reference(judge, "base")
    commit = judge.value("repository_commit")
    if commit and not (isinstance(commit, str) and COMMIT.fullmatch(commit)):
        judge.say("repository_commit", "give the full id of 40 hexadecimal digits")
    pins = judge.value("pins")
    if not isinstance(pins, (list, tuple)) or not all(isinstance(pin, str) and re.fullmatch(r"[^\s'\"\\;|&$`]+", pin)
                                                      for pin in pins):  # fmt: skip
        judge.say("pins", "give a list of requirements as pip takes them, such as peft==0.5.0, without blanks")


def _reference(judge: Judge, name: str, enroot: bool = False) -> str:
    try:
        reference = parse(str(judge.value(name)))
    except ValueError as error:
        judge.problems.append("image_{0}: {1}".format(name, error))
        return ""
    return reference.enroot if enroot else reference.pyxis


def _job_options(judge: Judge, site: Mapping[str, Any]) -> list[str]:
    """Return srun's words for an import in a job: those of the site, and over them the user's."""
    given = judge.value("import_job_options")
    if not isinstance(given, Mapping) or not all(_OPTION.fullmatch(str(name)) for name in given):
        judge.say("import_job_options", "give srun's long options as a dictionary, such as {time: '01:00:00'}")
        return []
    options: dict[str, Any] = {"nodes": 1, "ntasks": 1, "job-name": "image-import", "quiet": True}
    for name in ("account", "partition", "qos", "reservation"):
        if site.get("dgxc_slurm_" + name):
            options[name] = site["dgxc_slurm_" + name]
    options.update(given)
    words = []
    for name, value in options.items():
        if value is True:
            words.append("--" + name)
        elif value not in (None, False, ""):
            words.append("--{0}={1}".format(name, value))
    return words


def content(dockerfile: str, arguments: Mapping[str, Any], context: Mapping[str, str]) -> str:
    """Return the digest of all that a build is made of: Dockerfile, build arguments, files of the context."""
    value = {"dockerfile": dockerfile, "arguments": dict(arguments), "context": dict(context)}
    return hashlib.sha256(_files.canonical_json(value).encode()).hexdigest()
