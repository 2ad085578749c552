# Copyright: (c) 2026, The dgxc.workloads developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Commands that end when the module ends, however that happens. Private to this collection.

An import takes minutes. If its module is killed with SIGKILL, nobody is left to end it, and it would go on writing.
"""

from __future__ import annotations

import os
import signal
import sys
from typing import Callable, Mapping, Sequence

from ansible_collections.dgxc.workloads.plugins.module_utils._process import (
    TIMED_OUT,
    Finished,
    Outputs,
    start,
)

# What a command gets to clean up after SIGTERM.
GRACE_SECONDS = 10.0
# Asks the kernel for SIGTERM when the parent ends (PR_SET_PDEATHSIG is 1), then becomes the command. A program of its
# own, because nothing may be done between fork and exec while threads run. Systems without this are left as they are.
_FOLLOWER = """
import ctypes, os, signal, sys
try:
    ctypes.CDLL(None).prctl(1, int(signal.SIGTERM), 0, 0, 0)
except (OSError, AttributeError):
    pass
try:
    os.execvp(sys.argv[1], sys.argv[1:])
except OSError as error:
    sys.stderr.write("{0}: {1}".format(sys.argv[1], error.strerror))
    os._exit(127)
"""


def run_bound(
    command: Sequence[str],
    environment: Mapping[str, str],
    folder: str | None,
    limit: float,
    listen: Callable[[str], None] | None = None,
) -> Finished:
    """Run a command as :func:`_process.run` does, end it when this process ends, and let it clean up first."""
    process = start([sys.executable, "-I", "-c", _FOLLOWER, *command], environment, folder)
    if isinstance(process, Finished):
        return process
    outputs = Outputs(process, listen)
    if outputs.end_within(limit):
        return Finished(process.returncode, *outputs.text())
    os.killpg(process.pid, signal.SIGTERM)
    if not outputs.end_within(GRACE_SECONDS):
        os.killpg(process.pid, signal.SIGKILL)
        outputs.end_within()
    out, err = outputs.text()
    return Finished(TIMED_OUT, out, err + "\nit took longer than {0:.0f} seconds".format(limit))
