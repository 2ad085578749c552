# Copyright: (c) 2026, The dgxc.workloads developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Commands that end when the module ends, however that happens. Private to this collection.

An import takes minutes. If its module is killed with SIGKILL, nobody is left to end it, and it would go on writing.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from typing import Mapping, Sequence

from ansible_collections.dgxc.workloads.plugins.module_utils._process import NOT_FOUND, TIMED_OUT, Finished

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


def run_bound(command: Sequence[str], environment: Mapping[str, str], folder: str | None, limit: float) -> Finished:
    """Run a command as :func:`_process.run` does, end it when this process ends, and let it clean up first."""
    try:
        process = subprocess.Popen(
            [sys.executable, "-I", "-c", _FOLLOWER, *command],
            env=dict(environment),
            cwd=folder,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
        )
    except OSError as error:
        return Finished(NOT_FOUND, "", "{0}: {1}".format(command[0], error.strerror or error))
    code = None
    try:
        out, err = process.communicate(timeout=limit)
    except subprocess.TimeoutExpired:
        code = TIMED_OUT
        os.killpg(process.pid, signal.SIGTERM)
        try:
            out, err = process.communicate(timeout=GRACE_SECONDS)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            out, err = process.communicate()
        err += "\nit took longer than {0:.0f} seconds".format(limit).encode()
    return Finished(
        process.returncode if code is None else code, out.decode("utf-8", "replace"), err.decode("utf-8", "replace")
    )
