# Copyright: (c) 2026, The dgxc.workloads developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Enroot's file of credentials, in the form of a netrc file. Private to this collection.

What Enroot makes of it (src/docker.sh of 3.4.1 to 4.1.2): it takes the user from the first line ``machine HOST login
USER``, where HOST is without a port, and hands the file to curl, which looks up the host that it asks: the registry
itself or, where that gives out tokens elsewhere, the host of the tokens. So a registry may need two entries. A password
that begins with ``$`` is run as a command of the shell.
"""

from __future__ import annotations

import re
from typing import Any, Iterable, Mapping, NamedTuple, Sequence

# Where registries that everybody uses give out their tokens.
TOKEN_HOSTS = {
    "nvcr.io": ("authn.nvidia.com",),
    "registry-1.docker.io": ("auth.docker.io",),
    "registry.gitlab.com": ("gitlab.com",),
}
NGC_USER = "$oauthtoken"
_WORDS = re.compile(r"[^\s\"'#\\]+")


class Entry(NamedTuple):
    """What one host is told: user and password."""

    machine: str
    login: str
    password: str


class NotExpressible(Exception):
    """A credential cannot stand in the file; the text is a sentence, without the secret."""


def entries(registry: str, login: str, password: str, token_hosts: Sequence[str] = ()) -> list[Entry]:
    """Return the entries that one credential needs.

    :raises NotExpressible: a character in it has a meaning of its own.
    """
    host = re.sub(r":[0-9]+$", "", registry)
    if host in ("", "docker.io", "index.docker.io"):
        host = "registry-1.docker.io"
    if not _WORDS.fullmatch(login):
        raise NotExpressible(
            "The user for {0} is empty or has a blank, a quote, a backslash or #, which curl's netrc files cannot"
            " carry: use another account.".format(host)
        )
    if not _WORDS.fullmatch(password) or password.startswith("$"):
        raise NotExpressible(
            "The password for {0} is empty, begins with $, or has a blank, a quote, a backslash or #, which "
            "Enroot's file"
            " of credentials cannot carry: use an access token instead.".format(host)
        )
    return [Entry(machine, login, password) for machine in (host, *(token_hosts or TOKEN_HOSTS.get(host, ())))]


def updated(text: str, wanted: Iterable[Entry], absent: Iterable[str] = ()) -> str:
    """Return the file's text with these entries; all else stays as it is, byte for byte.

    An entry of the same host and user is replaced where it stands. A new one goes before the first entry of its host,
    for the first one counts, or to the end. Nothing is written anew if it says the same already.

    :param absent: hosts whose entries are taken away.
    """
    lines = text.splitlines(keepends=True)
    for machine in absent:
        lines = [line for line in lines if _of(line)[:1] != (machine,)]
    for entry in wanted:
        new = "machine {0} login {1} password {2}\n".format(*entry)
        of_host = [number for number, line in enumerate(lines) if _of(line)[:1] == (entry.machine,)]
        own = [number for number in of_host if _of(lines[number])[1:2] == (entry.login,)]
        if own and own[0] == of_host[0]:
            if _of(lines[own[0]])[2:] != (entry.password,):
                lines[own[0]] = new
            continue
        for number in reversed(own):
            del lines[number]
        if of_host:
            lines.insert(of_host[0], new)
            continue
        if lines and not lines[-1].endswith("\n"):
            lines[-1] += "\n"
        lines.append(new)
    return "".join(lines)


def _of(line: str) -> tuple[str, ...]:
    """Return host, user and password of a line ``machine HOST [login USER [password WORD]]``, as far as it goes."""
    words = line.split()
    if words[:1] != ["machine"] or len(words) < 2:
        return ()
    found = [words[1]]
    if words[2:3] == ["login"] and len(words) > 3:
        found.append(words[3])
        if words[4:5] == ["password"] and len(words) == 6:
            found.append(words[5])
    return tuple(found)


def lookup(text: str, host: str, login: str = "") -> tuple[str, str] | None:
    """Return user and password as curl finds them for a host; None if there is no entry, or if a command makes the
    password."""
    for line in text.splitlines():
        words = _of(line)
        if len(words) == 3 and words[0] == host and login in ("", words[1]):
            return None if words[2].startswith("$") else (words[1], words[2])
    return None


def from_variables(given: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return a list of credentials {registry, username, password, token_hosts} out of a role's variables.

    :param given: ngc_api_key, dockerhub_username, dockerhub_password, registry, registry_username, registry_password,
        credentials (a list of the same form).
    """
    found: list[dict[str, Any]] = []
    if given.get("ngc_api_key"):
        found.append({"registry": "nvcr.io", "username": NGC_USER, "password": given["ngc_api_key"]})
    if given.get("dockerhub_password"):
        found.append(
            {
                "registry": "docker.io",
                "username": given.get("dockerhub_username") or "",
                "password": given["dockerhub_password"],
            }
        )
    if given.get("registry") and given.get("registry_password"):
        found.append(
            {
                "registry": str(given["registry"]).partition("/")[0],
                "username": given.get("registry_username") or "",
                "password": given["registry_password"],
            }
        )
    return found + [dict(item) for item in given.get("credentials") or []]


def user_for(credentials: Iterable[Mapping[str, Any]], host: str) -> tuple[str, str] | None:
    """Return user and password of the first credential for a registry, or None.

    A credential without a port holds for every port of its host.
    """
    for item in credentials:
        registry = str(item["registry"])
        if registry in ("docker.io", "index.docker.io"):
            registry = "registry-1.docker.io"
        if registry == host or (":" not in registry and registry == host.partition(":")[0]):
            return str(item["username"]), str(item["password"])
    return None
