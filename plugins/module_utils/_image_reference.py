# Copyright: (c) 2026, The dgxc.workloads developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""References of container images, in the spellings of Docker, Enroot and Pyxis. Private to this collection."""

from __future__ import annotations

import re
from typing import NamedTuple

DOCKER_HUB = "registry-1.docker.io"
# What people write for Docker Hub; all are one registry.
DOCKER_HUB_NAMES = frozenset(("", "docker.io", "index.docker.io", DOCKER_HUB))

_USER = re.compile(r"[A-Za-z0-9_.!~*'()%;:&=+$,-]+")
_REGISTRY = re.compile(r"[A-Za-z0-9][A-Za-z0-9.-]*(?::[0-9]{1,5})?|\[[0-9A-Fa-f:]+\](?::[0-9]{1,5})?")
_PATH = re.compile(r"[a-z0-9]+(?:[._-]+[a-z0-9]+)*(?:/[a-z0-9]+(?:[._-]+[a-z0-9]+)*)*")
_TAG = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,127}")
_DIGEST = re.compile(r"sha256:[0-9a-f]{64}")
# Enroot from this version on takes a digest and `registry/path`; before, it looks for both on Docker Hub.
MODERN_ENROOT = (4, 0)


class Reference(NamedTuple):
    """An image in a registry. The registry is empty for Docker Hub; the tag is never empty."""

    user: str
    registry: str
    path: str
    tag: str
    digest: str

    @property
    def docker(self) -> str:
        """As Docker's commands take it: registry/path:tag, or with the digest in place of the tag."""
        name = "/".join(part for part in (self.registry, self.path) if part)
        return "{0}@{1}".format(name, self.digest) if self.digest else "{0}:{1}".format(name, self.tag)

    @property
    def pyxis(self) -> str:
        """As ``srun --container-image`` takes it: [user@]registry#path:tag, which every version understands."""
        return self.enroot[len("docker://") :]

    @property
    def enroot(self) -> str:
        """As ``enroot import`` takes it."""
        user = self.user + "@" if self.user else ""
        registry = self.registry + "#" if self.registry else ""
        tail = ":{0}@{1}".format(self.tag, self.digest) if self.digest else ":" + self.tag
        return "docker://{0}{1}{2}{3}".format(user, registry, self.path, tail)

    @property
    def host(self) -> str:
        """The registry's host and port as a client connects to it."""
        return self.registry or DOCKER_HUB

    @property
    def name(self) -> str:
        """The path in the registry's own interface; images of Docker Hub without a slash are in ``library/``."""
        return "library/" + self.path if not self.registry and "/" not in self.path else self.path


def parse(text: str) -> Reference:
    """Read any spelling: docker://, registry#path, registry/path, path; with tag, digest and user@.

    The part before the first slash is a registry only if it has a dot or a colon or is ``localhost``, Docker's rule.

    :raises ValueError: with a sentence that says what is wrong.
    """
    rest = text[len("docker://") :] if text.startswith("docker://") else text
    problem = "{0!r} is not the reference of a container image: {1}".format
    digest = ""
    if "@sha256:" in rest:
        rest, _at, tail = rest.rpartition("@sha256:")
        digest = "sha256:" + tail
        if not _DIGEST.fullmatch(digest):
            raise ValueError(problem(text, "a digest is sha256: and 64 hexadecimal digits."))
    user, at, tail = rest.partition("@")
    if at:
        rest = tail
        if not _USER.fullmatch(user):
            raise ValueError(problem(text, "the user before @ has a character that Enroot does not take."))
    else:
        user = ""
    registry, mark, path = rest.partition("#")
    if not mark:
        first, slash, others = rest.partition("/")
        if slash and ("." in first or ":" in first or first == "localhost"):
            registry, path = first, others
        else:
            registry, path = "", rest
    elif not registry:
        raise ValueError(problem(text, "there is no registry before #."))
    if registry in DOCKER_HUB_NAMES:
        registry = ""
    elif not _REGISTRY.fullmatch(registry):
        raise ValueError(problem(text, "a registry is a host name, with :port if it has one."))
    path, colon, tag = path.partition(":")
    if colon and not _TAG.fullmatch(tag):
        raise ValueError(problem(text, "a tag has letters, digits and . _ - only, 128 at most."))
    if not _PATH.fullmatch(path):
        raise ValueError(problem(text, "the image's path has small letters, digits and . _ - / only."))
    return Reference(user, registry, path, tag or "latest", digest)


def is_file(text: str) -> bool:
    """Tell whether a text means a file rather than an image in a registry."""
    return text.startswith(("/", "./", "../", "~")) or text.endswith((".sqsh", ".squashfs", ".sqfs"))


def version_tuple(text: str) -> tuple[int, ...]:
    """Return the numbers of a version such as ``3.4.1``; empty if there are none."""
    found = re.search(r"[0-9]+(?:\.[0-9]+)*", text)
    return tuple(int(part) for part in found[0].split(".")) if found else ()


def digest_problem(reference: Reference, enroot_version: str) -> str:
    """Return a sentence if this Enroot does not take the reference's digest, else nothing."""
    version = version_tuple(enroot_version)
    if not reference.digest or not version or version >= MODERN_ENROOT:
        return ""
    return "{0} names a digest, which Enroot takes from 4.0 on, and this cluster has {1}: name a tag instead.".format(
        reference.pyxis, enroot_version.strip()
    )
