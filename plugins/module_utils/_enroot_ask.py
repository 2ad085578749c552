# Copyright: (c) 2026, The dgxc.workloads developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The environment that Enroot runs in, and questions to registries with Enroot's own credentials. Private to this
collection."""

from __future__ import annotations

import os
from typing import Any, Callable, Mapping

from ansible_collections.dgxc.workloads.plugins.module_utils._enroot_credentials import lookup
from ansible_collections.dgxc.workloads.plugins.module_utils._image_reference import Reference
from ansible_collections.dgxc.workloads.plugins.module_utils._process import Run, login_environment
from ansible_collections.dgxc.workloads.plugins.module_utils._registry import Manifest, Registry, curl_with

_PATHS = {
    "temp_path": "ENROOT_TEMP_PATH",
    "cache_path": "ENROOT_CACHE_PATH",
    "runtime_path": "ENROOT_RUNTIME_PATH",
    "config_path": "ENROOT_CONFIG_PATH",
}


def enroot_environment(run: Run, environment: Mapping[str, str], given: Mapping[str, Any]) -> dict[str, str]:
    """Return the environment for Enroot: that of the login shell, with the paths and settings of a module's parameters.

    :raises EnvironmentProblem: an environment module does not load.
    """
    modules = given.get("environment_modules") or []
    found = login_environment(run, environment, modules, always=bool(given.get("login_shell")))
    for name, variable in _PATHS.items():
        if given.get(name):
            found[variable] = os.path.expanduser(str(given[name]))
    if given.get("transfer_retries"):
        found["ENROOT_TRANSFER_RETRIES"] = str(given["transfer_retries"])
    if given.get("ca_path"):
        found["CURL_CA_BUNDLE"] = str(given["ca_path"])
    found.update({str(name): str(value) for name, value in (given.get("environment") or {}).items()})
    # What it says is read, so it is to say it in English.
    found["LC_ALL"] = "C.UTF-8"
    return found


def credentials_path(environment: Mapping[str, str]) -> str:
    """Return where Enroot looks for its credentials."""
    home = environment.get("HOME") or os.path.expanduser("~")
    folder = environment.get("ENROOT_CONFIG_PATH") or os.path.join(
        environment.get("XDG_CONFIG_HOME") or os.path.join(home, ".config"), "enroot"
    )
    return os.path.join(folder, ".credentials")


def asker(environment: Mapping[str, str], ca: str, architecture: str) -> Callable[[Reference], Manifest | None]:
    """Return a function that asks a registry for a manifest, with the credentials that Enroot would use."""

    def ask(reference: Reference) -> Manifest | None:
        try:
            with open(credentials_path(environment), encoding="utf-8") as stream:
                text = stream.read()
        except (OSError, UnicodeError):
            text = ""
        user = lookup(text, reference.host.partition(":")[0], reference.user)
        return Registry(curl_with(environment), reference.host, user, ca).manifest(reference, architecture)

    return ask
