# Copyright: (c) 2026, The dgxc.workloads developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""How rsync is called for an upload, and what it says. Private to this collection."""

from __future__ import annotations

import os
import re
import shlex
import signal
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from typing import IO, NamedTuple

from ansible_collections.dgxc.workloads.plugins.module_utils._enroot import amount

# Nobody looks at what is sent for so long: the receiver reads again what a cut transfer left.
IO_SECONDS = 1800
SAY_SECONDS = 10.0
RETRY_SECONDS = 5.0
# A connection of its own: through Ansible's, which may compress, an image takes several times as long.
_OWN_CONNECTION = ["-o", "Compression=no", "-o", "ControlMaster=no", "-o", "ControlPath=none", "-o", "BatchMode=yes",
                   "-T", "-x"]  # fmt: skip
_PROGRESS = re.compile(r"^\s*([\d,.]+)\s+\d+%\s+([\d.]+)(\w+)/s")
_UNITS = {"B": 1, "kB": 1000, "KB": 1000, "MB": 1000**2, "GB": 1000**3, "TB": 1000**4}


class UploadProblem(Exception):
    """An upload cannot be made; the text is a sentence."""


class Host(NamedTuple):
    """How a host is reached: Ansible's connection (ssh or local) and the options of ssh, and whom to become.

    options: host, port, remote_user, private_key_file, ssh_executable, ssh_args, ssh_common_args, ssh_extra_args
    """

    connection: str
    options: Mapping[str, str]
    become_user: str = ""
    become_method: str = ""


def ssh_command(host: Host) -> list[str]:
    """Return the command that reaches a host, without compression and without Ansible's shared connection."""
    options = host.options
    words = [options.get("ssh_executable") or "ssh", *_OWN_CONNECTION]
    for name in ("ssh_args", "ssh_common_args", "ssh_extra_args"):
        words += [word for word in shlex.split(options.get(name) or "") if word != "-C"]
    if options.get("port"):
        words += ["-p", str(options["port"])]
    if options.get("remote_user"):
        words += ["-l", options["remote_user"]]
    if options.get("private_key_file"):
        words += ["-i", os.path.expanduser(options["private_key_file"])]
    return words


def _become(host: Host) -> list[str]:
    if not host.become_user:
        return []
    if host.become_method == "sudo":
        return ["sudo", "-n", "-u", host.become_user, "--"]
    if host.become_method == "su" and host.connection == "local":
        return ["su", "-s", "/bin/sh", host.become_user, "-c"]
    raise UploadProblem(
        "The upload cannot become {0} by {1}: use sudo, or reach the cluster as that user.".format(
            host.become_user, host.become_method
        )
    )


def remote_shell(host: Host) -> str:
    """Return what rsync's option -e gets. On this very machine, a shell takes the place of ssh."""
    if host.connection != "local":
        return shlex.join(ssh_command(host))
    become = _become(host)
    if become[:1] == ["su"]:
        return "sh -c 'shift; exec {0} \"$*\"' sh".format(" ".join(become))
    return "sh -c 'shift; exec {0} /bin/sh -c \"$*\"' sh".format(" ".join(become))


# On a build host that is not this machine: rsync runs there, and what it would start over ssh comes here as a line,
# then its data on the same pipes. So the build host needs no way to the cluster and no key, and nothing is stored in
# between. It ends when the cluster's side does, for rsync waits for that.
_RELAY = 'sh -c \'shift; printf "%s\\n" "$*" >&4; exec 5<&0; cat <&5 >&4 & exec cat <&3\' sh'


def reach(host: Host, words: str) -> list[str]:
    """Return the command that runs words of a shell on a host."""
    return [*shlex.split(remote_shell(host)), _name(host), words]


def relayed(command: Sequence[str]) -> str:
    """Return the words of a shell that run an rsync of :func:`rsync_command` on a build host and hand its data on."""
    words = list(command)
    words[words.index("-e") + 1] = _RELAY
    return "exec 3<&0 4>&1; {0} >&2".format(shlex.join(words))


def remote_rsync(host: Host, beat: str) -> str:
    """Return what starts rsync on the receiving side: it touches the claim's file for as long as it lives."""
    program = '(while kill -0 $$ && touch -c "$0"; do sleep 5; done) > /dev/null 2>&1 < /dev/null & exec rsync "$@"'
    words = ["/bin/sh", "-c", program, beat]
    if host.connection != "local" and host.become_user:
        words = [*_become(host), *words]
    return shlex.join(words)


def rsync_command(source: str, host: Host, part: str, beat: str, again: bool, more: Sequence[str]) -> list[str]:
    """Return the command that sends a file into another one, going on where that ends.

    :param again: the whole file is there already, and only compared.
    """
    # With --append-verify a file of full length is left out of everything, its check included.
    how = ["--inplace", "--ignore-times", "--no-whole-file"] if again else ["--append-verify"]
    target = "{0}:{1}".format("[{0}]".format(_name(host)) if ":" in _name(host) else _name(host), part)
    return [
        "rsync", *how, "--no-inc-recursive", "--info=progress2", "--outbuf=L", "--no-human-readable",
        "--timeout={0}".format(IO_SECONDS), "-e", remote_shell(host), "--rsync-path", remote_rsync(host, beat), *more,
        "--", source, target,
    ]  # fmt: skip


def _name(host: Host) -> str:
    return host.options.get("host") or "localhost"


class Progress:
    """Turns rsync's own reports into a line now and then."""

    def __init__(self, name: str, size: int, say: Callable[[str], None], clock: Callable[[], float]) -> None:
        self._name, self._size, self._say, self._clock = name, size, say, clock
        self._next = clock() + SAY_SECONDS

    def take(self, line: str) -> None:
        """Take one report."""
        found = _PROGRESS.match(line)
        if found is None or self._clock() < self._next:
            return
        self._next = self._clock() + SAY_SECONDS
        done = int(re.sub(r"\D", "", found[1]))
        speed = float(found[2]) * _UNITS.get(found[3], 1)
        left = "{0:.0f} s left".format((self._size - done) / speed) if speed > 0 else "it stands still"
        self._say(
            "{0}: {1} of {2} sent, {3}/s, {4}".format(
                self._name, amount(done / 1024), amount(self._size / 1024), amount(speed / 1024), left
            )
        )


def run_rsync(
    command: Sequence[str], progress: Progress, limit: float, build: Host | None = None, target: Host | None = None
) -> tuple[int, str]:
    """Run rsync; returns its exit code and what it said beside its progress.

    :param build: where the file lies, if that is not this machine; then `target` is where it goes.
    """
    environment = {**os.environ, "LC_ALL": "C.UTF-8"}
    second = None
    try:
        if build is None or target is None:
            process = subprocess.Popen(
                list(command),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                env=environment,
            )
            stream = process.stdout
        else:
            process = subprocess.Popen(
                reach(build, relayed(command)), stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                env=environment, bufsize=0,
            )  # fmt: skip
            stream = process.stderr
            second = _join(process, target, environment)
    except OSError as error:
        return 127, "{0}: {1}".format(command[0], error.strerror)
    try:
        said, in_time = _read(stream, progress, time.monotonic() + limit)
        if not in_time:
            return _ended(process), "it took longer than {0:.0f} seconds".format(limit)
        code = process.wait()
        if second is not None:
            told = second.communicate()[1].decode("utf-8", "replace").strip()
            # What went wrong on the cluster is the cause of what went wrong on the build host.
            said = "\n".join(text for text in (said, told) if text)
            code = second.returncode if code and second.returncode == 127 else code
        return code, said
    finally:
        for one in (process, second):
            if one is not None:
                _ended(one)
                for pipe in (one.stdin, one.stdout, one.stderr):
                    if pipe is not None:
                        pipe.close()


def _join(
    process: subprocess.Popen[bytes], target: Host, environment: Mapping[str, str]
) -> subprocess.Popen[bytes] | None:
    """Start on the cluster what an rsync on the build host asked for, and join the two by their pipes."""
    line = process.stdout.readline() if process.stdout else b""
    if not line:
        return None
    second = subprocess.Popen(
        reach(target, line.decode().rstrip("\n")), stdin=process.stdout, stdout=process.stdin, stderr=subprocess.PIPE,
        env=dict(environment),
    )  # fmt: skip
    for pipe in (process.stdin, process.stdout):
        if pipe is not None:
            pipe.close()
    return second


def _read(stream: IO[bytes] | None, progress: Progress, deadline: float) -> tuple[str, bool]:
    """Read what rsync says to its end; returns all that is no progress, and whether there was time enough."""
    said: list[str] = []
    buffer = b""
    while stream is not None:
        piece = os.read(stream.fileno(), 65536)
        if not piece:
            break
        *lines, buffer = re.split(rb"[\r\n]", buffer + piece)
        for line in lines:
            text = line.decode("utf-8", "replace")
            if _PROGRESS.match(text):
                progress.take(text)
            elif text.strip():
                said = [*said[-49:], text]
        if time.monotonic() > deadline:
            return "", False
    said.append(buffer.decode("utf-8", "replace"))
    return "\n".join(said).strip(), True


def _ended(process: subprocess.Popen[bytes]) -> int:
    if process.poll() is None:
        process.send_signal(signal.SIGTERM)
    return process.wait()


def worth_repeating(code: int, said: str) -> bool:
    """Tell whether an rsync that failed may do better the next time: a connection that broke, not a refusal."""
    if re.search(r"No space left|quota exceeded|Permission denied|not found|protocol version mismatch", said):
        return False
    return code in (10, 12, 30, 35, 255, 20)


def sentence(code: int, said: str, host: str, folder: str) -> str:
    """Return what an rsync that failed means, and the remedy."""
    last = " | ".join([line for line in said.splitlines() if line.strip()][-2:])
    if re.search(r"No space left on device|[Qq]uota exceeded", said):
        what = "The disk quota was exceeded" if "uota" in said else "The space ran out"
        return "{0} in image_folder {1} on {2} during the upload: free some, or set another folder.".format(
            what, folder, host
        )
    if code == 127 and said.startswith("rsync:"):
        return "There is no rsync on the host that builds: install it there."
    if re.search(r"rsync: (?:command )?not found|exec: rsync: not found", said):
        return "There is no rsync on {0}: install it there, or use image_delivery import.".format(host)
    if "protocol version mismatch" in said or "is your shell clean" in said:
        return (
            "A shell on {0} prints something before rsync answers: let the profile there print only in interactive"
            " shells.".format(host)
        )
    if re.search(r"Permission denied \([a-z]", said) or "Host key verification failed" in said:
        return "ssh to {0} is refused for the upload, which needs a key without a question: {1}".format(host, last)
    if "Permission denied" in said:
        return "image_folder {0} on {1} cannot be written: set a folder of yours.".format(folder, host)
    return "The upload to {0} failed (rsync answered {1}): {2}. Repeat, and it goes on where it was cut.".format(
        host, code, last
    )
