# Copyright: (c) 2026, The dgxc.workloads developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What an unchanged run of playbooks/nemo_gpt3.yml costs over SSH, on the sandbox.

The playbook trains once in a folder of its own. Then the same command runs again, with a new SSH connection each time,
and must change nothing. The last line is one JSON object:

* `remote_executions`: calls of ssh, sftp and scp by which something ran on the login node. Ansible is given programs of
  these names that write a line and become the real ones, so nothing that it sends over is left out. A call that only
  speaks to the local end of a shared connection (`ssh -O`) runs nothing there and is not counted.
* `tasks`: headings that the playbook shows, skipped tasks included.
* `seconds`: the whole command, the best of some rounds; `seconds_all` has them all.
* `seconds_50ms`: the same with 50 ms more for each packet in each direction, so 100 ms for a round trip.
* `delay`: how these were made. `netem` is tc's, on the loopback device, for the sandbox's SSH port alone; it is taken
  away again in any case. Where the kernel has no netem, `proxy` is a TCP proxy of this script before that port, which
  holds back each piece of data, and each new connection for a round trip.

Exit code 1 when more than 25 executions or 10 seconds were needed. Needs the sandbox, and root for tc.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import os
import queue
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path

CHECKOUT = Path(__file__).resolve().parents[2]
PREFIX = Path("/opt/dgxc-sandbox")
USER = "demo-user"
PORT = 17022
DELAY_SECONDS = 0.05
MOST_EXECUTIONS = 25
MOST_SECONDS = 10.0
PROGRAMS = ("ssh", "sftp", "scp")
COUNTER = """#!/bin/sh
echo "{name} $*" >> "$DGXC_BENCH_CALLS"
exec {program} "$@"
"""


class Rerun:
    """The playbook on a shared root of its own, with its calls over SSH counted."""

    def __init__(self, work: Path, root: Path) -> None:
        self._work, self._root = work, root
        self._calls = work / "calls"
        for name in PROGRAMS:
            counter = work / name
            counter.write_text(COUNTER.format(name=name, program=shutil.which(name) or name))
            counter.chmod(0o755)

    def play(self, **variables: object) -> tuple[float, str, int]:
        """Seconds, output and number of remote executions of one run of the playbook."""
        self._calls.write_text("")
        program = str(Path(sys.executable).parent / "ansible-playbook")
        values = {"dgxc_shared_root": str(self._root), **variables}
        command = [program, "playbooks/nemo_gpt3.yml", "-i", "inventories/sandbox", "-e", json.dumps(values)]
        with tempfile.TemporaryDirectory(dir=self._work) as sockets:
            environment = {
                **os.environ,
                "ANSIBLE_CONFIG": str(CHECKOUT / "ansible.cfg"),
                # No connection of an earlier run is used.
                "ANSIBLE_SSH_CONTROL_PATH_DIR": sockets,
                "DGXC_BENCH_CALLS": str(self._calls),
                **{f"ANSIBLE_{name.upper()}_EXECUTABLE": str(self._work / name) for name in PROGRAMS},
            }
            started = time.monotonic()
            done = subprocess.run(command, cwd=CHECKOUT, env=environment, text=True, capture_output=True, check=False)
            seconds = time.monotonic() - started
        if done.returncode:
            sys.exit(f"the playbook did not succeed:\n{done.stdout[-4000:]}\n{done.stderr[-2000:]}")
        calls = [call for call in self._calls.read_text().splitlines() if not re.match("ssh (.* )?-O ", call)]
        return seconds, done.stdout, len(calls)

    def again(self, what: str, rounds: int, **variables: object) -> tuple[list[float], str, int]:
        """Seconds of each run that changes nothing, the output of the last, and the most remote executions of any."""
        took, most, output = [], 0, ""
        for _round in range(rounds):
            seconds, output, executions = self.play(**variables)
            if not re.search(r"^sandbox +: .*\bchanged=0 ", output, re.M):
                sys.exit(f"the run was not unchanged:\n{output[-4000:]}")
            took.append(round(seconds, 2))
            most = max(most, executions)
            print(f"{what}: {seconds:.2f} s, {executions} remote executions", flush=True)
        return took, output, most


def tc(*words: str) -> bool:
    """Whether tc did this."""
    try:
        return subprocess.run(["tc", *words], capture_output=True, check=False).returncode == 0
    except FileNotFoundError:
        return False


@contextlib.contextmanager
def netem() -> Iterator[bool]:
    """Delay the packets of the SSH port on the loopback device; False if this machine cannot.

    What the filters do not name goes through HTB unhindered.
    """
    here = ("dev", "lo")
    shown = subprocess.run(["tc", "qdisc", "show", *here], capture_output=True, text=True, check=False).stdout \
        if shutil.which("tc") else ""  # fmt: skip
    # Somebody's own arrangement on this device is left alone.
    if not shown.startswith("qdisc noqueue") or not tc("qdisc", "add", *here, "root", "handle", "1:", "htb"):
        yield False
        return
    try:
        port = str(PORT)
        delay = f"{DELAY_SECONDS * 1000:.0f}ms"
        # One class, wide enough to hold nothing back, and behind it the delay.
        able = tc("class", "add", *here, "parent", "1:", "classid", "1:1", "htb", "rate", "30gbit", "quantum", "60000")
        able = able and tc("qdisc", "add", *here, "parent", "1:1", "handle", "10:", "netem", "delay", delay, "limit",
                           "100000")  # fmt: skip
        for side in ("sport", "dport"):
            able = able and tc("filter", "add", *here, "parent", "1:", "protocol", "ip", "u32", "match", "ip", side,
                               port, "0xffff", "flowid", "1:1")  # fmt: skip
        yield able
    finally:
        tc("qdisc", "del", *here, "root")


async def carry(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Bring data from one side to the other, each piece late by the delay."""
    loop = asyncio.get_running_loop()
    waiting: asyncio.Queue[tuple[float, bytes]] = asyncio.Queue()

    async def take() -> None:
        while True:
            data = await reader.read(1 << 16)
            waiting.put_nowait((loop.time() + DELAY_SECONDS, data))
            if not data:
                return

    taking = asyncio.create_task(take())
    with contextlib.suppress(ConnectionError):
        while True:
            due, data = await waiting.get()
            await asyncio.sleep(max(0.0, due - loop.time()))
            if not data:
                break
            writer.write(data)
            await writer.drain()
    taking.cancel()
    with contextlib.suppress(ConnectionError, asyncio.CancelledError):
        await taking
    writer.close()


async def bridge(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Connect a new connection to the SSH port."""
    await asyncio.sleep(2 * DELAY_SECONDS)
    there_reader, there_writer = await asyncio.open_connection("127.0.0.1", PORT)
    await asyncio.gather(carry(reader, there_writer), carry(there_reader, writer))


@contextlib.contextmanager
def proxy() -> Iterator[int]:
    """The port of a proxy before the SSH port, which delays what goes through it."""
    loop = asyncio.new_event_loop()
    ready: queue.SimpleQueue[int] = queue.SimpleQueue()
    end = asyncio.Event()

    bridges = []

    async def serve() -> None:
        server = await asyncio.start_server(
            lambda *streams: bridges.append(asyncio.create_task(bridge(*streams))), "127.0.0.1", 0
        )
        ready.put(server.sockets[0].getsockname()[1])
        await end.wait()
        server.close()

    def run() -> None:
        # The runner's end cancels what is still open.
        with asyncio.Runner(loop_factory=lambda: loop) as runner:
            runner.run(serve())

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    try:
        yield ready.get(timeout=10)
    finally:
        loop.call_soon_threadsafe(end.set)
        thread.join(10)


def delayed(rerun: Rerun, rounds: int) -> tuple[str, list[float]]:
    """How the delay was made, and the seconds of each run under it."""
    with netem() as able:
        if able:
            return "netem", rerun.again("50 ms by netem", rounds)[0]
    print("this kernel has no netem (or tc may not be used): a proxy delays instead", flush=True)
    with proxy() as port:
        # The host key is on record under the real port.
        alias = f"-o HostKeyAlias=[127.0.0.1]:{PORT}"
        return "proxy", rerun.again("50 ms by a proxy", rounds, ansible_port=port, ansible_ssh_extra_args=alias)[0]


def main() -> int:
    """Measure and print; return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3, help="unchanged runs of each kind (default: %(default)s)")
    options = parser.parse_args()
    # Ended from outside, it cleans up as well.
    signal.signal(signal.SIGTERM, lambda _number, _frame: sys.exit("ended"))
    root = PREFIX / "shared" / USER / f"bench-rerun-{os.getpid()}"
    root.mkdir()
    shutil.chown(root, USER, USER)
    try:
        with tempfile.TemporaryDirectory() as folder:
            rerun = Rerun(Path(folder), root)
            seconds, _output, executions = rerun.play()
            print(f"first run, which trains: {seconds:.1f} s, {executions} remote executions", flush=True)
            took, output, executions = rerun.again("nothing to do", options.rounds)
            how, late = delayed(rerun, options.rounds)
    finally:
        shutil.rmtree(root, ignore_errors=True)
    result = {
        "remote_executions": executions,
        "tasks": len(re.findall(r"^TASK \[", output, re.M)),
        "seconds": min(took),
        "seconds_all": took,
        "seconds_50ms": min(late),
        "seconds_50ms_all": late,
        "delay": how,
        "within_limits": executions <= MOST_EXECUTIONS and min(took) <= MOST_SECONDS,
    }
    print(json.dumps(result))
    return 0 if result["within_limits"] else 1


if __name__ == "__main__":
    sys.exit(main())
