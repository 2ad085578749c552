# Copyright: (c) 2026, The dgxc.workloads developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Questions to a container registry, over curl. Private to this collection.

Enroot asks with curl as well, so proxies, certificates and ``~/.curlrc`` hold for both. Everything, secrets included,
is handed to curl as a configuration on its standard input; its command line shows nothing.
"""

from __future__ import annotations

import json
import platform
import re
import subprocess
from typing import Any, Callable, Mapping, NamedTuple

from ansible_collections.dgxc.workloads.plugins.module_utils._image_reference import Reference
from ansible_collections.dgxc.workloads.plugins.module_utils._process import NOT_FOUND, TIMED_OUT, Finished

SECONDS = 60
INDEXES = (
    "application/vnd.oci.image.index.v1+json",
    "application/vnd.docker.distribution.manifest.list.v2+json",
)
MANIFESTS = ("application/vnd.oci.image.manifest.v1+json", "application/vnd.docker.distribution.manifest.v2+json")
ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64"}

# curl's configuration as a text -> its answer
Curl = Callable[[str], Finished]


class RegistryProblem(Exception):
    """A registry did not give what was asked for; the text is what curl or the registry said."""


class Manifest(NamedTuple):
    """An image in a registry: digest of what the tag points to, size of all layers in bytes, digest of its settings."""

    digest: str
    size: int
    config: str


class Answer(NamedTuple):
    status: int
    headers: dict[str, str]
    body: str


def curl_with(environment: Mapping[str, str]) -> Curl:
    """Return a function that runs curl in an environment."""

    def curl(configuration: str) -> Finished:
        try:
            done = subprocess.run(
                ["curl", "--config", "-"],
                input=configuration.encode(),
                env=dict(environment),
                capture_output=True,
                timeout=SECONDS * 4,
                check=False,
            )
        except OSError as error:
            return Finished(NOT_FOUND, "", "curl: {0}".format(error.strerror))
        except subprocess.TimeoutExpired:
            return Finished(TIMED_OUT, "", "curl: timed out")
        return Finished(done.returncode, done.stdout.decode("utf-8", "replace"), done.stderr.decode("utf-8", "replace"))

    return curl


def quoted(value: str) -> str:
    """Return a value as curl's configuration takes it."""
    escaped = (
        value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n").replace("\r", "\\r").replace("\t", "\\t")
    )
    return '"{0}"'.format(escaped)


class Registry:
    """One registry with one credential.

    :param user: user and password, or None to ask as nobody.
    :param ca: file of the certificates to trust, or nothing for curl's own.
    """

    def __init__(self, curl: Curl, host: str, user: tuple[str, str] | None = None, ca: str = "") -> None:
        self._curl, self._host, self._user, self._ca = curl, host, user, ca
        self._authorization: list[str] = []

    def manifest(self, reference: Reference, architecture: str = "") -> Manifest | None:
        """Return what a tag or a digest stands for; None if the registry does not have it.

        :raises RegistryProblem: any other answer.
        """
        answer = self._get(reference, reference.digest or reference.tag)
        if answer.status == 404:
            return None
        value = self._object(answer)
        digest = answer.headers.get("docker-content-digest", reference.digest)
        if isinstance(value.get("manifests"), list):
            machine = architecture or platform.machine()
            wanted = ARCHITECTURES.get(machine, machine)
            for item in value["manifests"]:
                if isinstance(item, dict) and (item.get("platform") or {}).get("architecture") == wanted:
                    value = self._object(self._get(reference, str(item.get("digest"))))
                    break
            else:
                raise RegistryProblem("{0} has no image for the architecture {1}".format(reference.docker, wanted))
        layers = value.get("layers")
        if not isinstance(layers, list):
            raise RegistryProblem("Could not parse digest information from {0}".format(reference.docker))
        config = value.get("config") or {}
        size = sum(int(part.get("size") or 0) for part in [*layers, config])
        return Manifest(digest, size, str(config.get("digest") or ""))

    def _get(self, reference: Reference, what: str) -> Answer:
        url = "https://{0}/v2/{1}/manifests/{2}".format(self._host, reference.name, what)
        accept = "header = " + quoted("Accept: " + ", ".join(INDEXES + MANIFESTS))
        answer = self._ask(url, [accept, *self._authorization])
        if answer.status == 401 and not self._authorization:
            self._authorize(answer.headers.get("www-authenticate", ""))
            answer = self._ask(url, [accept, *self._authorization])
        if answer.status >= 400 and answer.status != 404:
            raise RegistryProblem(
                "URL {0} returned error code: {1} {2}".format(url, answer.status, _errors(answer.body))
            )
        return answer

    def _authorize(self, challenge: str) -> None:
        user = ["user = " + quoted("{0}:{1}".format(*self._user))] if self._user else []
        fields = dict(re.findall(r'(\w+)="([^"]*)"', challenge))
        if challenge.lower().startswith("basic"):
            self._authorization = user
            return
        if "realm" not in fields:
            raise RegistryProblem("Could not parse authentication realm from {0}".format(self._host))
        data = ["data-urlencode = " + quoted("{0}={1}".format(*item)) for item in fields.items() if item[0] != "realm"]
        answer = self._ask(fields["realm"], ["get", *data, *user])
        if answer.status >= 400:
            raise RegistryProblem("URL {0} returned error code: {1}".format(fields["realm"], answer.status))
        value = self._object(answer)
        token = str(value.get("token") or value.get("access_token") or "")
        self._authorization = ["header = " + quoted("Authorization: Bearer " + token)]

    def _ask(self, url: str, lines: list[str]) -> Answer:
        settings = [
            "silent", "show-error", "location", "include", "connect-timeout = 30", "max-time = {0}".format(SECONDS),
            "proto = " + quoted("=https"), "proto-redir = " + quoted("=https"),
            "write-out = " + quoted("\n%{http_code}"), "suppress-connect-headers",
        ]  # fmt: skip
        if self._ca:
            settings.append("cacert = " + quoted(self._ca))
        answer = self._curl("\n".join([*settings, *lines, "url = " + quoted(url)]) + "\n")
        if answer.code != 0:
            raise RegistryProblem(answer.err.strip() or "curl answered {0}".format(answer.code))
        text, _newline, status = answer.out.rpartition("\n")
        headers: dict[str, str] = {}
        # Each redirection brings headers of its own; the last ones count.
        while text.startswith("HTTP/"):
            head, _blank, text = text.replace("\r\n", "\n").partition("\n\n")
            headers = {
                name.strip().lower(): value.strip()
                for name, _colon, value in (line.partition(":") for line in head.splitlines()[1:])
            }
        return Answer(int(status) if status.isdigit() else 0, headers, text)

    @staticmethod
    def _object(answer: Answer) -> dict[str, Any]:
        try:
            value = json.loads(answer.body)
        except ValueError:
            value = None
        if not isinstance(value, dict):
            raise RegistryProblem("Could not process JSON input")
        return value


def _errors(body: str) -> str:
    """Return the codes and messages of a registry's error answer."""
    try:
        value = json.loads(body)
        return "; ".join("{0}: {1}".format(error.get("code"), error.get("message")) for error in value["errors"])
    except (ValueError, KeyError, TypeError, AttributeError):
        return ""
