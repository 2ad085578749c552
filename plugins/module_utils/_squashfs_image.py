# Copyright: (c) 2026, The dgxc.workloads developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A squashfs image under its final name: found, proved, imported, received. Private to this collection.

The rules: nothing half-made ever has the final name. What is made is written under a name of its own in the same
folder, proved, and renamed. Beside the image lies a record ``<image>.json``: where it comes from, its digest, size and
time. An image whose size and time are those of its record is known, and is neither listed nor read again.
"""

from __future__ import annotations

import contextlib
import glob
import os
import platform
import socket
import time
from typing import Any, Callable, Mapping, NamedTuple, Sequence

from ansible_collections.dgxc.workloads.plugins.module_utils import _enroot, _files, _squashfs
from ansible_collections.dgxc.workloads.plugins.module_utils._claim import Claim
from ansible_collections.dgxc.workloads.plugins.module_utils._image_reference import (
    Reference,
    digest_problem,
    parse,
    version_tuple,
)
from ansible_collections.dgxc.workloads.plugins.module_utils._process import Run
from ansible_collections.dgxc.workloads.plugins.module_utils._registry import Manifest, RegistryProblem

SCHEMA = 1
ABSENT, WHOLE, BROKEN = "absent", "whole", "broken"


class ImageProblem(Exception):
    """An image cannot be had; the text is a sentence for the user."""


class Look(NamedTuple):
    """What is under the final name: its state, what is wrong with it, its size, and its record if that fits it."""

    state: str
    problem: str
    size: int
    record: dict[str, Any]

    @property
    def digest(self) -> str:
        return str(self.record.get("digest") or "")


class Wanted(NamedTuple):
    """What an image is to be made of.

    source: docker://... or dockerd://...; content: the digest of what it was built from, or nothing; digest: what the
    source is known to be at present, or nothing.
    """

    source: str
    content: str = ""
    digest: str = ""
    arch: str = ""

    def met_by(self, look: Look) -> bool:
        """Tell whether what is there is what is wanted. An unknown digest is not compared."""
        record = look.record
        return (
            look.state == WHOLE
            and record.get("source") == self.source
            and (record.get("arch") or "") == self.arch
            and (not self.content or record.get("content") == self.content)
            and (not self.digest or record.get("digest") == self.digest)
        )


class Settings(NamedTuple):
    """How Enroot is called: before what (srun and its options), under which name, in which environment."""

    launcher: Sequence[str] = ()
    enroot: str = "enroot"
    environment: Mapping[str, str] = {}
    timeout: float = 7200.0
    claim_timeout: float = 7200.0
    stale_seconds: float = 120.0
    checksum: bool = True
    # For a file that is sent on: it is not waited for until it is on disk, so its record ends with the machine's
    # uptime.
    temporary: bool = False


# Asks what a reference stands for at present
Ask = Callable[[Reference], "Manifest | None"]


def record_path(path: str) -> str:
    """Return where the record of an image lies."""
    return path + ".json"


def look_at(path: str, run: Run, environment: Mapping[str, str], need_listing: bool = True) -> Look:
    """Look what is under a name. Only a file that no record vouches for is listed.

    :raises ImageProblem: it cannot be looked at.
    """
    try:
        status = os.stat(path)
    except FileNotFoundError:
        return Look(ABSENT, "is not there", 0, {})
    except OSError as error:
        raise ImageProblem("{0} cannot be looked at: {1}.".format(path, error.strerror)) from error
    try:
        record = _files.read_json_object(record_path(path)) or {}
        fits = (record.get("size"), record.get("mtime_ns")) == (status.st_size, status.st_mtime_ns)
        if fits and record.get("schema") == SCHEMA and record.get("boot", boot()) == boot():
            _squashfs.read_superblock(path)
            return Look(WHOLE, "", status.st_size, record)
        _squashfs.prove(path, run, environment, need_listing)
    except _squashfs.NotWhole as problem:
        return Look(BROKEN, str(problem), status.st_size, {})
    except OSError as error:
        raise ImageProblem("{0} cannot be proved: {1}.".format(path, error.strerror or error)) from error
    return Look(WHOLE, "", status.st_size, {})


def given(path: str, run: Run, environment: Mapping[str, str], required: bool = True) -> dict[str, Any]:
    """Prove an image that somebody put there, and return its facts. Nothing is written.

    Its digest is that of its record, or a fingerprint of its tables.

    :param required: whether it has to be whole; if not, its facts say what it is, without a digest if there is none.
    :raises ImageProblem: it is required, and not there or not a whole image.
    """
    if not required:
        return _seen(path, run, environment)
    look = look_at(path, run, environment, need_listing=False)
    if look.state != WHOLE:
        raise ImageProblem(
            "{0} {1}: give the path of a whole .sqsh file on the cluster, or let the role make one with image_delivery"
            " import, upload or registry.".format(path, look.problem)
        )
    return facts(path, look, look.digest or _squashfs.fingerprint(path))


def _seen(path: str, run: Run, environment: Mapping[str, str]) -> dict[str, Any]:
    try:
        look = look_at(path, run, environment, need_listing=False)
    except ImageProblem as problem:
        # The sentence begins with the path.
        return facts(path, Look(BROKEN, str(problem)[len(path) + 1 :].rstrip("."), 0, {}))
    try:
        return facts(path, look, look.digest or _squashfs.fingerprint(path))
    except (OSError, _squashfs.NotWhole):
        return facts(path, look)


def facts(path: str, look: Look, digest: str = "") -> dict[str, Any]:
    """Return what a module answers about an image."""
    record = look.record
    return {
        "path": path,
        "state": look.state,
        "problem": look.problem,
        "size": look.size,
        "digest": digest or look.digest,
        "sha256": record.get("sha256") or "",
        "source": record.get("source") or "",
        "content": record.get("content") or "",
        "enroot_version": record.get("enroot_version") or "",
    }


class ImageStore:
    """Images of one folder, made there by this process.

    :param ask: asks a registry for a manifest; raises RegistryProblem.
    :param tell: takes sentences that are warnings.
    """

    def __init__(
        self,
        run: Run,
        settings: Settings,
        ask: Ask,
        tell: Callable[[str], None],
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._run, self._settings, self._ask, self._tell = run, settings, ask, tell
        self._clock, self._sleep = clock, sleep

    def look(self, path: str) -> Look:
        """Look what is under a name."""
        return look_at(path, self._run, self._settings.environment)

    def plan(self, path: str, wanted: Wanted, refresh: bool) -> tuple[Look, Wanted, str]:
        """Return what is there, what is wanted in detail, and what to do: unchanged, import or replace."""
        look = self.look(path)
        if look.state == WHOLE and refresh and wanted.source.startswith("docker://"):
            manifest = self._manifest(wanted, needed=True)
            wanted = wanted._replace(digest=manifest.digest if manifest else wanted.digest)
        if wanted.met_by(look):
            return look, wanted, "unchanged"
        return look, wanted, "import" if look.state == ABSENT else "replace"

    def ensure(self, path: str, wanted: Wanted, refresh: bool) -> tuple[Look, str]:
        """Have the wanted image under its name. Returns what is there in the end, and what was done.

        :raises ImageProblem: it cannot be had; what was there before is still there.
        """
        look, wanted, action = self.plan(path, wanted, refresh)
        if action == "unchanged":
            return look, action
        claim = self.claim(path)
        if not self._take(claim, path, lambda: wanted.met_by(self.look(path))):
            return self.look(path), "waited"
        try:
            # Somebody else may have finished between the look and the claim.
            look = self.look(path)
            if wanted.met_by(look):
                return look, "waited"
            clear_parts(path)
            return self._import(path, wanted, claim, refresh), action
        finally:
            claim.release()

    def claim(self, path: str, by_process: bool = True) -> Claim:
        """Return a claim on an image, not yet taken."""
        return Claim(path, self._settings.stale_seconds, self._clock, self._sleep, by_process)

    def _take(self, claim: Claim, path: str, enough: Callable[[], bool]) -> bool:
        try:
            make_folder(path)
            return claim.take(self._settings.claim_timeout, enough)
        except TimeoutError as error:
            raise ImageProblem(str(error)) from error
        except OSError as error:
            raise unwritable(path, error) from error

    def _manifest(self, wanted: Wanted, needed: bool = False) -> Manifest | None:
        """Ask what the source is at present; None for Docker's own store, or if the registry does not tell."""
        if not wanted.source.startswith("docker://"):
            return None
        reference = parse(wanted.source)
        try:
            manifest = self._ask(reference)
        except RegistryProblem as problem:
            sentence = _enroot.registry_sentence(str(problem), reference.host)
            if needed:
                raise ImageProblem(
                    sentence or "{0} does not tell its digest: {1}.".format(wanted.source, problem)
                ) from None
            self._tell("{0} does not tell its digest and size before the import: {1}".format(
                wanted.source, sentence or problem))  # fmt: skip
            return None
        if manifest is None:
            raise ImageProblem(_enroot.registry_sentence("returned error code: 404", reference.host))
        return manifest

    def _import(self, path: str, wanted: Wanted, claim: Claim, refresh: bool) -> Look:
        manifest = self._manifest(wanted)
        part = part_path(path, claim.token)
        try:
            version, digest = self._call(part, wanted, manifest)
            if wanted.source.startswith("docker://") and manifest is not None and "@sha256:" not in digest[1]:
                # The tag was imported by its name: it must not have moved meanwhile.
                after = self._manifest(wanted)
                if after is not None and after.digest != manifest.digest:
                    raise ImageProblem(
                        "{0} moved from {1} to {2} during the import: repeat.".format(
                            wanted.source, manifest.digest, after.digest
                        )
                    )
            return self.accept(path, part, claim, wanted._replace(digest=digest[0] or wanted.digest), version)
        finally:
            _remove(part)

    def _call(self, part: str, wanted: Wanted, manifest: Manifest | None) -> tuple[str, tuple[str, str]]:
        """Run the import to a file. Returns Enroot's version, and digest and source as they were handed to it."""
        where = "the node of the job" if self._settings.launcher else socket.gethostname()
        registry, source, digest, pinned = "", wanted.source, wanted.digest, ""
        need = [0.0, 0.0, 0.0]
        if source.startswith("docker://"):
            reference = parse(source)
            registry = reference.host
            if manifest is not None:
                digest = manifest.digest
                shares = (_enroot.CACHE_SHARE, _enroot.TEMP_SHARE, _enroot.TARGET_SHARE)
                need = [manifest.size * share / 1024 for share in shares]
                pinned = reference._replace(digest=digest).enroot if digest else ""
        words = ["{0:.0f}".format(number) for number in need] + [wanted.arch, self._settings.enroot, pinned]
        command = [*self._settings.launcher, "bash", "-c", _enroot.SCRIPT, "enroot-import", part, source, *words]
        answer = self._run(command, self._settings.environment, None, self._settings.timeout)
        old = _enroot.too_old(answer.out)
        if old:
            raise ImageProblem(digest_problem(parse(source), old))
        if answer.code != 0:
            raise ImageProblem(_enroot.explain(answer.err, answer.out, registry, where))
        return _enroot.version_of(answer.out), (digest, _enroot.source_of(answer.out))

    def version(self) -> str:
        """Return Enroot's version where it will run.

        :raises ImageProblem: there is no Enroot.
        """
        command = [*self._settings.launcher, self._settings.enroot, "version"]
        answer = self._run(command, self._settings.environment, None, 600)
        if answer.code != 0 or not version_tuple(answer.out):
            raise ImageProblem(
                "'{0} version' failed on {1}: {2}. Install Enroot there, or load the module that has it.".format(
                    self._settings.enroot,
                    "the node of the job" if self._settings.launcher else socket.gethostname(),
                    answer.text.splitlines()[-1] if answer.text else "it said nothing",
                )
            )
        return answer.out.strip()

    def accept(self, path: str, part: str, claim: Claim, wanted: Wanted, version: str, sha256: str = "") -> Look:
        """Prove a finished file, record it and give it its final name.

        :raises ImageProblem: it is not whole, or the claim was lost.
        """
        try:
            _squashfs.prove(part, self._run, self._settings.environment)
            if self._settings.checksum and not sha256:
                sha256 = _squashfs.sha256(part)
            if not self._settings.temporary:
                _sync(part)
            os.chmod(part, 0o644)
            status = os.stat(part)
        except _squashfs.NotWhole as problem:
            raise ImageProblem("The file that was made for {0} {1}: repeat.".format(path, problem)) from problem
        except OSError as error:
            raise ImageProblem(
                "The file that was made for {0} cannot be proved: {1}.".format(path, error.strerror or error)
            ) from error
        if claim.lost():
            raise ImageProblem(claim.lost())
        record = {
            "schema": SCHEMA,
            "source": wanted.source,
            "content": wanted.content,
            "digest": wanted.digest,
            "arch": wanted.arch,
            "machine": platform.machine(),
            "size": status.st_size,
            "mtime_ns": status.st_mtime_ns,
            "sha256": sha256,
            "enroot_version": version,
            "time": time.time(),
        }
        if self._settings.temporary:
            record["boot"] = boot()
        try:
            # The record first: one that does not fit the file yet is no record of it.
            _files.write_text(record_path(path), _files.pretty_json(record))
            os.replace(part, path)
            _files.fsync_directory(os.path.dirname(path))
        except OSError as error:
            raise unwritable(path, error) from error
        return Look(WHOLE, "", status.st_size, record)


class Offer(NamedTuple):
    """A finished image elsewhere, that is to be sent here: its size, SHA-256 and Enroot's version, from its record."""

    size: int
    sha256: str
    version: str


class Reception:
    """The receiving side of an upload: a claim that outlives the process, a file that a cut transfer goes on with."""

    def __init__(self, run: Run, settings: Settings, clock: Callable[[], float] = time.monotonic,
                 sleep: Callable[[float], None] = time.sleep) -> None:  # fmt: skip
        self._run, self._settings, self._clock, self._sleep = run, settings, clock, sleep

    def _claim(self, path: str, token: str = "") -> Claim:
        claim = Claim(path, self._settings.stale_seconds, self._clock, self._sleep, by_process=False)
        claim.token = token or claim.token
        return claim

    def begin(self, path: str, wanted: Wanted, offer: Offer) -> dict[str, Any]:
        """Claim the image and say where to write. Returns action (unchanged, waited or receive), token, part, and how
        many bytes are there from a transfer that was cut.

        :raises ImageProblem: somebody else holds it for too long, or there is no space.
        """
        environment = self._settings.environment

        def enough() -> bool:
            return wanted.met_by(look_at(path, self._run, environment))

        if enough():
            return {"action": "unchanged", "token": "", "part": "", "offset": 0}
        claim = self._claim(path)
        try:
            make_folder(path)
            taken = claim.take(self._settings.claim_timeout, enough)
        except TimeoutError as error:
            raise ImageProblem(str(error)) from error
        except OSError as error:
            raise unwritable(path, error) from error
        if not taken:
            return {"action": "waited", "token": "", "part": "", "offset": 0}
        try:
            if enough():
                claim.release()
                return {"action": "waited", "token": "", "part": "", "offset": 0}
            # Named after what is sent, so that only the same image goes on where it was cut.
            part = part_path(
                path, (offer.sha256 or wanted.digest or wanted.content).rpartition(":")[2][:24] or "upload"
            )
            clear_parts(path, keep=part)
            offset = self._offset(part, offer.size)
            free = free_bytes(os.path.dirname(path))
            if free < offer.size - offset:
                place = _enroot.Place("target", free // 1024, (offer.size - offset) // 1024, os.path.dirname(path))
                raise ImageProblem(_enroot.no_space(place, socket.gethostname(), "upload"))
        except BaseException:
            claim.release()
            raise
        return {"action": "receive", "token": claim.token, "part": part, "offset": offset, "beat": claim.beat}

    @staticmethod
    def _offset(part: str, size: int) -> int:
        try:
            there = os.stat(part).st_size
        except OSError:
            return 0
        if there > size:
            _remove(part)
            return 0
        return there

    def finish(self, path: str, part: str, token: str, wanted: Wanted, offer: Offer) -> Look:
        """Take what was sent: all of it is there, proved, and gets its record and its name.

        :raises ImageProblem: it is not whole, or the claim was lost.
        """
        claim = self._claim(path, token)
        try:
            if claim.held():
                # Reading 20 GB takes a while, in which nobody may take the claim for left behind.
                claim.keep()
            try:
                size = os.stat(part).st_size
            except OSError as error:
                raise ImageProblem("{0} is not there any more: repeat.".format(part)) from error
            if size != offer.size:
                raise ImageProblem(
                    "{0} has {1} of {2} bytes: repeat, and it goes on there.".format(part, size, offer.size)
                )
            store = ImageStore(self._run, self._settings, lambda _reference: None, lambda _sentence: None)
            try:
                return store.accept(path, part, claim, wanted, offer.version, offer.sha256)
            except ImageProblem as problem:
                # It has the right size and is not whole, so what was sent does not help. With any other problem it may
                # be good, and after a lost claim it is somebody else's.
                if isinstance(problem.__cause__, _squashfs.NotWhole) and claim.held():
                    _remove(part)
                raise
        finally:
            claim.release()

    def give_up(self, path: str, token: str) -> None:
        """Release the claim and keep what was sent, for the next time."""
        self._claim(path, token).release()


def make_folder(path: str) -> None:
    """Make an image's folder, if only the last part of it is missing.

    :raises OSError: more of it is, or it cannot be made.
    """
    with contextlib.suppress(FileExistsError):
        os.mkdir(os.path.dirname(path), 0o755)


def free_bytes(folder: str) -> int:
    """Return how many bytes a user may still write to a folder's file system."""
    status = os.statvfs(folder)
    return status.f_bavail * status.f_frsize


def part_path(path: str, token: str) -> str:
    """Return the name that an image is made under."""
    folder, name = os.path.split(path)
    return os.path.join(folder, ".{0}.{1}.part".format(name, token))


def _parts(path: str) -> list[str]:
    folder, name = os.path.split(path)
    return glob.glob(os.path.join(glob.escape(folder), ".{0}.*.part".format(glob.escape(name))))


def clear_parts(path: str, keep: str = "") -> None:
    """Remove what others left half-made under an image's temporary names; the holder of the claim may."""
    for left in _parts(path):
        if left != keep:
            _remove(left)


def written(path: str) -> str:
    """Return how much of an image that is being made is there, for people; '' for nothing yet."""
    size = 0
    for part in _parts(path):
        with contextlib.suppress(OSError):
            size += os.stat(part).st_size
    return "{0} written".format(_enroot.amount(size / 1024)) if size else ""


def unwritable(path: str, error: OSError) -> ImageProblem:
    """Return the sentence about a folder that cannot be written."""
    folder = os.path.dirname(path)
    return ImageProblem(
        "{0} cannot be written on {1}: {2}. Set image_folder to a folder of yours.".format(
            folder, socket.gethostname(), error.strerror or error
        )
    )


def boot() -> str:
    """Return what tells one start of this machine from another."""
    try:
        with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as stream:
            return stream.read().strip()
    except OSError:
        return ""


def _remove(path: str) -> None:
    with contextlib.suppress(OSError):
        os.unlink(path)


def _sync(path: str) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
