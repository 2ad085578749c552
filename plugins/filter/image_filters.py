# Copyright: (c) 2026, The dgxc.workloads developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Filters of the role image."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ansible.errors import AnsibleFilterError

from ansible_collections.dgxc.workloads.plugins.module_utils import _enroot_credentials, _image_settings
from ansible_collections.dgxc.workloads.plugins.module_utils._image_reference import parse


def image_plan(variables: Any, site: Any) -> dict[str, Any]:
    if not isinstance(variables, dict) or not isinstance(site, dict):
        raise AnsibleFilterError("image_plan wants two dictionaries: the variables image_... and the facts dgxc_...")
    return _image_settings.plan(variables, site)


def image_content(dockerfile: Any, arguments: Any, context: Any) -> str:
    if not isinstance(dockerfile, str) or not isinstance(arguments, dict) or not isinstance(context, dict):
        raise AnsibleFilterError("image_content wants a Dockerfile's text and two dictionaries: arguments and context.")
    return _image_settings.content(dockerfile, arguments, context)


def image_reference(text: Any, spelling: str = "pyxis") -> str:
    try:
        reference = parse(str(text))
    except ValueError as error:
        raise AnsibleFilterError(str(error)) from error
    if spelling not in ("pyxis", "enroot", "docker"):
        raise AnsibleFilterError(f"image_reference knows the spellings pyxis, enroot and docker, not {spelling!r}.")
    return str(getattr(reference, spelling))


def image_credentials(given: Any) -> list[dict[str, Any]]:
    if not isinstance(given, dict):
        raise AnsibleFilterError("image_credentials wants a dictionary of the variables that hold credentials.")
    return _enroot_credentials.from_variables(given)


class FilterModule:
    """The filters of this file."""

    def filters(self) -> dict[str, Callable[..., Any]]:
        return {
            "image_content": image_content,
            "image_credentials": image_credentials,
            "image_plan": image_plan,
            "image_reference": image_reference,
        }
