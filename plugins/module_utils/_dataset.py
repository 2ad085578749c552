# Copyright: (c) 2026, The dgxc.workloads developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Training data on shared storage: there as a whole, counted, or not there. Private to this collection.

A folder of data gets its name when it is complete, in one rename, with a stamp in it that tells where it came from. All
work is done in a folder beside it, ``.<name>.fetch``, by the one process that holds the claim, from whichever login
node; another one waits for its result. What a process that was killed left there is taken up by the next.
"""

from __future__ import annotations

import errno
import glob
import hashlib
import os
import tempfile
import time
from typing import Any, Callable, Mapping, NamedTuple

from ansible_collections.dgxc.workloads.plugins.module_utils._archive import (
    ArchiveProblem,
    remove,
    unpack,
)
from ansible_collections.dgxc.workloads.plugins.module_utils._claim import Claim
from ansible_collections.dgxc.workloads.plugins.module_utils._download import (
    Download,
    DownloadProblem,
    Fetched,
    Source,
    shown,
)
from ansible_collections.dgxc.workloads.plugins.module_utils._files import (
    canonical_json,
    fsync_directory,
    pretty_json,
    read_json_object,
    write_text,
)
from ansible_collections.dgxc.workloads.plugins.module_utils._parquet import ParquetProblem, count_rows

STAMP = ".dgxc-workloads-data.json"
STAMP_SCHEMA = 1
# How often it is looked whether the claim is still ours, while there is progress.
_LOOK_SECONDS = 5.0


class DatasetProblem(Exception):
    """Why the data cannot be used; the text is a sentence for the user."""


class Wish(NamedTuple):
    """Data as asked for. ``path`` is absolute.

    ``source`` is None for data that somebody else put there. ``root`` is the folder in the archive that becomes the
    path. ``counts`` are patterns by name, relative to the path, and ``expected`` are how many files or folders some of
    them have to match. ``rows`` are patterns by name of Parquet files, whose rows are counted.
    """

    path: str
    source: Source | None
    root: str
    counts: Mapping[str, str]
    expected: Mapping[str, int]
    rows: Mapping[str, str]


class Contents(NamedTuple):
    """What was found: counts by name, (file, rows) by name and sorted by file, and a digest of names and sizes."""

    counts: dict[str, int]
    rows: dict[str, list[dict[str, Any]]]
    manifest: str


class Outcome(NamedTuple):
    """What was done: ``action`` is unchanged, downloaded, or planned (check mode). ``contents`` is None if planned."""

    action: str
    contents: Contents | None
    archive: Fetched | None

    @property
    def changed(self) -> bool:
        return self.action in ("downloaded", "planned")


def look(wish: Wish, folder: str) -> Contents:
    """Count what is in a folder.

    :raises ParquetProblem: a Parquet file is none, or was cut off; the text begins with its name.
    """
    counts = {name: len(_matches(folder, pattern)) for name, pattern in wish.counts.items()}
    rows: dict[str, list[dict[str, Any]]] = {}
    seen = {path for pattern in wish.counts.values() for path in _matches(folder, pattern)}
    for name, pattern in wish.rows.items():
        rows[name] = []
        for path in _matches(folder, pattern):
            seen.add(path)
            relative = os.path.relpath(path, folder)
            try:
                rows[name].append({"file": relative, "rows": count_rows(path)})
            except ParquetProblem as problem:
                raise ParquetProblem("{0} {1}".format(relative, problem)) from None
    # Names and sizes tell one state of the data from another, at the cost of a listing.
    listing = sorted((os.path.relpath(path, folder), os.path.getsize(path)) for path in seen if os.path.isfile(path))
    digest = hashlib.sha256(canonical_json([list(entry) for entry in listing]).encode("utf-8")).hexdigest()
    return Contents(counts, rows, digest)


def _matches(folder: str, pattern: str) -> list[str]:
    return sorted(glob.glob(os.path.join(glob.escape(folder), pattern)))


def lacking(wish: Wish, contents: Contents) -> list[str]:
    """Return what is not as expected, each as a part of a sentence."""
    return [
        "{0} {1} ({2}) where {3} are expected".format(contents.counts[name], name, wish.counts[name], number)
        for name, number in wish.expected.items()
        if contents.counts[name] != number
    ] + ["no {0}".format(wish.rows[name]) for name, files in contents.rows.items() if not files]


class Datasets:
    """Sees to data at paths. Everything outside comes in through the constructor."""

    def __init__(
        self,
        make_download: Callable[[Source, str, Callable[[], None]], Download],
        settings: Mapping[str, str],
        wait: float = 3600,
        sleep: Callable[[float], None] = time.sleep,
        clock: Callable[[], float] = time.monotonic,
        tell: Callable[[str], None] = lambda text: None,
    ) -> None:
        """Prepare.

        :param make_download: makes the download of a source to a file, with a function that it calls while it lives.
        :param settings: the variables that messages name: path, given and expected.
        :param wait: the most seconds to wait for somebody else who fetches the same.
        :param tell: takes a line about how far it is, again and again.
        """
        self._make_download = make_download
        self._settings = settings
        self._wait = wait
        self._sleep = sleep
        self._clock = clock
        self._tell = tell

    def ensure(self, wish: Wish, check_mode: bool = False) -> Outcome:
        """Look at the data, and fetch it if it is not there.

        :raises DatasetProblem, DownloadProblem: it cannot be used, or not be fetched now.
        """
        if self._there(wish.path):
            return Outcome("unchanged", self._given(wish) if wish.source is None else self._stamped(wish), None)
        if wish.source is None:
            raise DatasetProblem(
                "{0} is {1!r}, where there is no data: correct it.".format(self._settings["path"], wish.path)
            )
        if check_mode:
            return Outcome("planned", None, None)
        return self._fetch(wish, wish.source)

    @staticmethod
    def _there(path: str) -> bool:
        """Tell whether there is something; an empty folder is nothing."""
        return os.path.lexists(path) and not (os.path.isdir(path) and not os.listdir(path))

    # --- what is there -----------------------------------------------------------------------------------------------

    @staticmethod
    def _look(wish: Wish) -> Contents:
        try:
            return look(wish, wish.path)
        except ParquetProblem as problem:
            raise DatasetProblem(
                "{0}/{1}: replace it by the whole file, or move the folder away if it was fetched.".format(
                    wish.path, problem
                )
            ) from None

    def _given(self, wish: Wish) -> Contents:
        if not os.path.isdir(wish.path):
            raise DatasetProblem(
                "{0} is {1!r}, which is not a folder: give the folder of the unpacked data.".format(
                    self._settings["path"], wish.path
                )
            )
        contents = self._look(wish)
        missing = lacking(wish, contents)
        if missing:
            raise DatasetProblem(
                "{0} has {1}: complete the data, or correct {2}.".format(
                    wish.path, " and ".join(missing), self._settings["expected"]
                )
            )
        return contents

    def _stamped(self, wish: Wish) -> Contents:
        stamp = read_json_object(os.path.join(wish.path, STAMP))
        if stamp is None:
            raise DatasetProblem(
                "{0} was not fetched by this role: if it is the data, set {1} to it; if not, move it away.".format(
                    wish.path, self._settings["given"]
                )
            )
        source = wish.source
        if source is not None and stamp.get("source") != source.name:
            raise DatasetProblem(
                "{0} holds {1}, not {2}: move it away, or choose another path.".format(
                    wish.path, stamp.get("source"), source.name
                )
            )
        contents = self._look(wish)
        missing = lacking(wish, contents)
        if missing:
            raise DatasetProblem(
                "{0} has been changed since it was fetched, it has {1}: move it away, and the next run of the play"
                " fetches it again.".format(wish.path, " and ".join(missing))
            )
        return contents

    # --- fetching ----------------------------------------------------------------------------------------------------

    def _fetch(self, wish: Wish, source: Source) -> Outcome:
        parent, name = os.path.split(wish.path)
        workplace = os.path.join(parent, ".{0}.fetch".format(name))
        claim = Claim(wish.path, clock=self._clock, sleep=self._sleep)
        try:
            os.makedirs(parent, exist_ok=True)
            if not self._take(claim, lambda: self._there(wish.path)):
                return Outcome("unchanged", self._stamped(wish), None)
            try:
                if self._there(wish.path):
                    # Somebody else finished between the look and the claim.
                    return Outcome("unchanged", self._stamped(wish), None)
                os.makedirs(workplace, mode=0o700, exist_ok=True)
                alive = _Alive(claim, self._tell, self._clock)
                archive = os.path.join(workplace, "archive")
                download = self._make_download(source, archive, lambda: alive(name + ": " + download.progress()))
                fetched = download.fetch()
                contents = self._unpack(wish, source, workplace, archive, fetched, alive)
                remove(workplace)
            finally:
                claim.release()
            return Outcome("downloaded", contents, fetched)
        except OSError as error:
            if error.errno in (errno.ENOSPC, errno.EDQUOT):
                raise DatasetProblem(
                    "{0} has no room for the data ({1}): free some, or set {2} to another place; what was fetched"
                    " stays.".format(parent, error.strerror, self._settings["path"])
                ) from error
            raise DatasetProblem(
                "{0} cannot be written: {1}.".format(error.filename or workplace, error.strerror or error)
            ) from error

    def _take(self, claim: Claim, enough: Callable[[], bool]) -> bool:
        try:
            return claim.take(self._wait, enough)
        except TimeoutError as problem:
            raise DatasetProblem(str(problem)) from None

    def _unpack(
        self,
        wish: Wish,
        source: Source,
        workplace: str,
        archive: str,
        fetched: Fetched,
        alive: _Alive,
    ) -> Contents:
        """Unpack, count, and give the folder its name."""
        for left in glob.glob(os.path.join(glob.escape(workplace), "unpacked-*")):
            remove(left)
        fresh = tempfile.mkdtemp(prefix="unpacked-", dir=workplace)
        try:
            unpack(archive, fresh, wish.root, lambda: alive(os.path.basename(wish.path) + ": unpacking"))
            contents = look(wish, fresh)
            missing = lacking(wish, contents)
            if missing:
                raise ArchiveProblem("has {0}".format(" and ".join(missing)))
        except (ArchiveProblem, ParquetProblem) as problem:
            # Its bytes are all there, so fetching the rest of it would not help.
            for left in (fresh, archive, archive + ".json"):
                remove(left)
            wrong = "holds a broken file, " if isinstance(problem, ParquetProblem) else ""
            raise DatasetProblem(
                "{0} ({1:,} bytes) {2}, so it was thrown away: run the play again, and correct {3} if the same"
                " happens.".format(
                    shown(source.url), fetched.size, "{0}{1}".format(wrong, problem), source.settings["url"]
                )
            ) from None
        stamp = {
            "schema": STAMP_SCHEMA,
            "source": source.name,
            "address": shown(source.url),
            "archive": {"size": fetched.size, "sha256": fetched.sha256},
            "counts": contents.counts,
            "rows": contents.rows,
            "manifest": contents.manifest,
        }
        write_text(os.path.join(fresh, STAMP), pretty_json(stamp))
        os.chmod(fresh, 0o755)
        fsync_directory(fresh)
        alive.check()
        try:
            os.rename(fresh, wish.path)
        except OSError as error:
            if error.errno not in (errno.EEXIST, errno.ENOTEMPTY, errno.ENOTDIR):
                raise
            # Somebody else was faster; theirs is as good, or said to be no good.
            return self._stamped(wish)
        fsync_directory(os.path.dirname(wish.path))
        return contents


class _Alive:
    """Called while there is progress: tells of it, and stops the work once somebody else has the claim."""

    def __init__(self, claim: Claim, tell: Callable[[str], None], clock: Callable[[], float]) -> None:
        self._claim, self._tell, self._clock = claim, tell, clock
        self._last = clock()

    def __call__(self, text: str) -> None:
        self._tell(text)
        now = self._clock()
        if now - self._last >= _LOOK_SECONDS:
            self._last = now
            self.check()

    def check(self) -> None:
        """Raise DatasetProblem if the claim is not ours any more."""
        if self._claim.lost():
            raise DatasetProblem(self._claim.lost())


__all__ = [
    "Contents",
    "DatasetProblem",
    "Datasets",
    "DownloadProblem",
    "Outcome",
    "Wish",
    "lacking",
    "look",
]
