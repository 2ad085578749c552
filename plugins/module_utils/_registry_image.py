# Copyright: (c) 2026, The dgxc.workloads developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Bringing an image of the Docker Engine into a registry and back. Private to this collection."""

from __future__ import annotations

import socket
from typing import Callable, NamedTuple

from ansible_collections.dgxc.workloads.plugins.module_utils import _enroot
from ansible_collections.dgxc.workloads.plugins.module_utils._docker_engine import (
    Engine,
    EngineProblem,
    same_image,
    transient,
)
from ansible_collections.dgxc.workloads.plugins.module_utils._image_reference import Reference
from ansible_collections.dgxc.workloads.plugins.module_utils._registry import Manifest, Registry, RegistryProblem

FIRST_PAUSE = 2.0


class TransferProblem(Exception):
    """An image could not be brought over; the text is what was said."""


class Outcome(NamedTuple):
    """What was done: unchanged, pushed or pulled; digest before and after, bytes, and the id in the store."""

    action: str
    before: str
    digest: str
    size: int
    image_id: str


class Transfer:
    """Pushes and pulls of one registry.

    :param retries: how often a broken transfer is repeated, after pauses that double.
    """

    def __init__(
        self,
        engine: Engine,
        registry: Registry,
        user: tuple[str, str] | None,
        retries: int,
        sleep: Callable[[float], None],
    ) -> None:
        self._engine, self._registry, self._user = engine, registry, user
        self._retries, self._sleep = retries, sleep

    def push(self, name: str, reference: Reference, check: bool) -> Outcome:
        """Have an image of the store in the registry.

        :raises TransferProblem: it cannot be. :raises EngineProblem: the Engine said no.
        """
        image = self._engine.image(name)
        if image is None:
            if check:
                return Outcome("pushed", "", "", 0, "")
            raise TransferProblem("Docker's store has no image {0}: build it first".format(name))
        there = self._ask(reference, str(image.get("Architecture") or ""))
        before = there.digest if there else ""
        image_id = str(image.get("Id"))
        if there is not None and same_image(image, there):
            return Outcome("unchanged", before, there.digest, there.size, image_id)
        if check:
            return Outcome("pushed", before, "", 0, image_id)
        # By its id: another build may give the name to another image at any time.
        self._engine.tag(image_id, reference)
        self._repeat(lambda: self._engine.push(reference, self._user))
        there = self._ask(reference, str(image.get("Architecture") or ""))
        if there is None or not same_image(image, there):
            raise TransferProblem(
                "{0} was pushed, and the registry has another image under it".format(reference.docker)
            )
        return Outcome("pushed", before, there.digest, there.size, image_id)

    def pull(self, reference: Reference, refresh: bool, check: bool) -> Outcome:
        """Have an image of the registry in the store. Without `refresh`, one of that name will do."""
        image = self._engine.image(reference.docker)
        before = str((image or {}).get("Id") or "")
        if image is not None and not refresh:
            return Outcome("unchanged", before, before, int(image.get("Size") or 0), before)
        if check:
            return Outcome("pulled", before, "", 0, before)
        self._repeat(lambda: self._engine.pull(reference, self._user))
        image = self._engine.image(reference.docker) or {}
        after = str(image.get("Id") or "")
        return Outcome("unchanged" if after == before else "pulled", before, after, int(image.get("Size") or 0), after)

    def _ask(self, reference: Reference, architecture: str) -> Manifest | None:
        try:
            return self._registry.manifest(reference, architecture)
        except RegistryProblem as problem:
            raise TransferProblem(str(problem)) from problem

    def _repeat(self, transfer: Callable[[], None]) -> None:
        pause = FIRST_PAUSE
        for attempt in range(self._retries + 1):
            try:
                transfer()
                return
            except EngineProblem as problem:
                if attempt == self._retries or not transient(str(problem)):
                    raise
            self._sleep(pause)
            pause *= 2


def sentence(said: str, registry: str) -> str:
    """Return the sentence for what went wrong."""
    if "Docker daemon" in said:
        return _enroot.explain(said, "", registry, socket.gethostname())
    return _enroot.registry_sentence(said, registry) or "{0}: {1}.".format(registry, said)
