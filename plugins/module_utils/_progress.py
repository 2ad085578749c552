# Copyright: (c) 2026, The dgxc.workloads developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""How far a module is, in one line of a file that whoever waits for it may read. Private to this collection.

A module answers only at its end. What it does meanwhile is seen by a second, short command that reads the file; see
``plugin_utils/_long_step.py``.
"""

from __future__ import annotations

import contextlib
import glob
import os
import threading
import time
from types import TracebackType
from typing import Callable

from ansible_collections.dgxc.workloads.plugins.module_utils._files import write_text

WRITE_SECONDS = 2.0
ABANDONED_SECONDS = 24 * 3600
LONGEST_LINE = 120


class Progress:
    """The line, and the thread that writes it. Without a path, nothing is written.

    A line that cannot be written is nobody's loss: the work goes on.
    """

    def __init__(self, path: str) -> None:
        self._path = path
        self._line = ""
        self._subject = ""
        self._measure: Callable[[], str] = str
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None

    def __enter__(self) -> Progress:
        if self._path:
            self._sweep()
            self._thread = threading.Thread(target=self._write_again_and_again, daemon=True)
            self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop.set()
        if self._thread is not None:
            self._thread.join()
            with contextlib.suppress(OSError):
                os.unlink(self._path)

    def _sweep(self) -> None:
        """Remove the lines that killed modules of this user left, once they are old enough to be nobody's."""
        folder, name = os.path.split(self._path)
        # What all of them have in common is what comes before the last dash.
        pattern = os.path.join(glob.escape(folder), "{0}-*".format(glob.escape(name.rpartition("-")[0])))
        for left in glob.glob(pattern) if "-" in name else []:
            with contextlib.suppress(OSError):
                status = os.lstat(left)
                if status.st_uid == os.geteuid() and time.time() - status.st_mtime > ABANDONED_SECONDS:
                    os.unlink(left)

    def begin(self, subject: str) -> None:
        """Say what the lines that follow are about."""
        self._subject, self._line = subject, ""

    def tell(self, text: str) -> None:
        """Take how far it is. The last of what was told counts, and telling often costs nothing."""
        # A warning says nothing of that.
        if not text.lstrip().lower().startswith("warning"):
            self._line = text

    def measure(self, size_of: Callable[[], str]) -> None:
        """Have something measured each time the line is written, such as the size of a file that grows."""
        self._measure = size_of

    def line(self) -> str:
        """Return the line as it is now, without control characters."""
        parts = (self._line.strip(), self._measure())
        text = ", ".join(part for part in parts if part)
        text = ": ".join(part for part in (self._subject, text) if part)
        text = "".join(sign if sign.isprintable() else " " for sign in text)
        return text if len(text) <= LONGEST_LINE else text[: LONGEST_LINE - 4] + " ..."

    def _write_again_and_again(self) -> None:
        written = ""
        while not self._stop.wait(WRITE_SECONDS):
            line = self.line()
            if line != written:
                with contextlib.suppress(OSError):
                    write_text(self._path, line, 0o600, lasting=False)
                    written = line
