# Copyright: (c) 2026, The dgxc.workloads developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Send a squashfs image to a cluster; see the documentation beside the module of the same name."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from ansible.errors import AnsibleError
from ansible.plugins.action import ActionBase
from ansible.utils.display import Display

from ansible_collections.dgxc.workloads.plugins.module_utils._enroot import amount
from ansible_collections.dgxc.workloads.plugins.module_utils._squashfs import sha256
from ansible_collections.dgxc.workloads.plugins.plugin_utils import _image_upload
from ansible_collections.dgxc.workloads.plugins.plugin_utils._image_upload import Host, UploadProblem
from ansible_collections.dgxc.workloads.plugins.plugin_utils._long_step import show_each_line_at_once

display = Display()
show_each_line_at_once()

ARGUMENT_SPEC: dict[str, Any] = {
    "path": {"type": "str", "required": True},
    "image": {"type": "dict", "required": True},
    "source_host": {"type": "str", "default": "localhost"},
    "arch": {"type": "str", "default": ""},
    "checksum": {"type": "bool", "default": True},
    "rsync_options": {"type": "list", "elements": "str", "default": []},
    "transfer_retries": {"type": "int", "default": 3},
    "timeout": {"type": "int", "default": 7200},
    "claim_timeout": {"type": "int", "default": 7200},
    "stale_timeout": {"type": "int", "default": 120},
    "environment_modules": {"type": "list", "elements": "str", "default": []},
}
_SSH_OPTIONS = (
    "host", "port", "remote_user", "private_key_file", "ssh_executable",
    "ssh_args", "ssh_common_args", "ssh_extra_args",
)  # fmt: skip
RECEIVE = "dgxc.workloads.squashfs_receive"


class ActionModule(ActionBase):
    """`dgxc.workloads.squashfs_upload`."""

    TRANSFERS_FILES = True
    _supports_async = False
    _supports_check_mode = True

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        """Claim, send, prove."""
        task_vars = task_vars or {}
        result: dict[str, Any] = super().run(tmp, task_vars)
        _validation, given = self.validate_argument_spec(argument_spec=ARGUMENT_SPEC)
        image = given["image"]
        about = {
            "path": given["path"],
            "arch": given["arch"],
            **{name: image.get(name) or "" for name in ("source", "content", "digest", "sha256", "enroot_version")},
            "size": int(image["size"]),
            **{name: given[name] for name in ("claim_timeout", "stale_timeout", "environment_modules")},
        }
        if self._task.check_mode:
            result.update(changed=True, action="upload", image={"path": given["path"]})
            return result
        begun = self._receive({"step": "begin", **about}, task_vars)
        if begun.get("failed"):
            return {**result, **begun}
        reception = begun["reception"]
        if reception["action"] != "receive":
            result.update(changed=False, action=reception["action"], image=begun["image"], sent=0)
            return result
        claim = {"claim": reception["token"], **about}
        finished = False

        def say(text: str) -> None:
            display.display("[{0}] {1}".format(task_vars.get("inventory_hostname"), text))

        started = time.monotonic()
        try:
            # While it is sent, so that it costs no time of its own.
            with ThreadPoolExecutor(1) as pool:
                build = _build_host(given["source_host"], task_vars)
                wanted = given["checksum"] and not about["sha256"] and build is None
                digest = pool.submit(sha256, image["path"]) if wanted else None
                self._send(image["path"], reception, about["size"], given, build, say)
                claim["sha256"] = digest.result() if digest else about["sha256"]
            ended = self._receive({"step": "finish", "part": reception["part"], **claim}, task_vars)
            finished = True
        except (UploadProblem, OSError) as problem:
            return {**result, "failed": True, "msg": str(problem)}
        finally:
            if not finished:
                self._receive({"step": "give_up", **claim}, task_vars)
        if ended.get("failed"):
            return {**result, **ended}
        result.update(
            changed=True,
            action="upload",
            image=ended["image"],
            sent=about["size"] - int(reception["offset"]),
            seconds=round(time.monotonic() - started, 1),
            diff={"before": {"digest": begun["image"]["digest"]}, "after": {"digest": ended["image"]["digest"]}},
        )
        return result

    def _receive(self, arguments: dict[str, Any], task_vars: dict[str, Any]) -> dict[str, Any]:
        answer: dict[str, Any] = self._execute_module(module_name=RECEIVE, module_args=arguments, task_vars=task_vars)
        return answer

    def _send(
        self,
        source: str,
        reception: dict[str, Any],
        size: int,
        given: dict[str, Any],
        build: Host | None,
        say: Callable[[str], None],
    ) -> None:
        host = self._host()
        where = host.options.get("host") or "this machine"
        name = os.path.basename(given["path"])
        again = reception["offset"] == size
        command = _image_upload.rsync_command(
            source, host, reception["part"], reception["beat"], again, given["rsync_options"]
        )
        say("{0}: sending {1} to {2}{3}".format(
            name, amount((size - reception["offset"]) / 1024), where,
            ", going on where it was cut" if reception["offset"] else ""))  # fmt: skip
        for attempt in range(given["transfer_retries"] + 1):
            progress = _image_upload.Progress(name, size, say, time.monotonic)
            code, said = _image_upload.run_rsync(command, progress, given["timeout"], build, host)
            if code == 0:
                return
            if attempt == given["transfer_retries"] or not _image_upload.worth_repeating(code, said):
                raise UploadProblem(_image_upload.sentence(code, said, where, os.path.dirname(given["path"])))
            say("{0}: the transfer was cut (rsync answered {1}); it goes on.".format(name, code))
            if reception["offset"]:
                # What was there before may be of another making, and a file of full length is not looked at otherwise.
                command = _image_upload.rsync_command(
                    source, host, reception["part"], reception["beat"], True, given["rsync_options"]
                )
            time.sleep(_image_upload.RETRY_SECONDS)

    def _host(self) -> Host:
        """Return how the cluster is reached, from Ansible's own connection."""
        connection = self._connection
        kind = connection.transport
        become = connection.become
        user = become.get_option("become_user", playcontext=self._play_context) if become else ""
        method = become.name.rpartition(".")[2] if become else ""
        if kind == "local":
            return Host("local", {}, user or "", method)
        if kind != "ssh":
            raise UploadProblem(f"The upload knows the connections ssh and local, and this host has {kind}.")
        options = {}
        for name in _SSH_OPTIONS:
            try:
                value = connection.get_option(name)
            except (KeyError, AnsibleError):
                value = None
            options[name] = "" if value is None else str(value)
        return Host("ssh", options, user or "", method)


def _build_host(name: str, task_vars: dict[str, Any]) -> Host | None:
    """Return how the host that has the image is reached, from the inventory; None if it is this machine."""
    facts = (task_vars.get("hostvars") or {}).get(name) or {}
    local = name in ("localhost", "127.0.0.1", "::1") and "ansible_host" not in facts
    if local or facts.get("ansible_connection") == "local":
        return None
    options = {
        "host": facts.get("ansible_host") or name,
        "port": facts.get("ansible_port") or "",
        "remote_user": facts.get("ansible_user") or "",
        "private_key_file": facts.get("ansible_ssh_private_key_file") or "",
        **{
            option: facts.get(f"ansible_{option}") or "" for option in ("ssh_args", "ssh_common_args", "ssh_extra_args")
        },
    }
    return Host("ssh", {option: str(value) for option, value in options.items()})
