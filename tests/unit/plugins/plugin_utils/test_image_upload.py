# Copyright: (c) 2026, The dgxc.workloads developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import os
import shutil
import subprocess
import sys

import pytest

from ansible_collections.dgxc.workloads.plugins.plugin_utils import _image_upload as upload
from ansible_collections.dgxc.workloads.plugins.plugin_utils._image_upload import Host, UploadProblem

SSH = Host(
    "ssh",
    {"host": "10.0.0.1", "port": "2222", "remote_user": "me", "private_key_file": "/k", "ssh_executable": "ssh",
     "ssh_args": "-C -o ControlMaster=auto -o ControlPersist=60s", "ssh_common_args": "-F /dev/null", "ssh_extra_args": ""},
)  # fmt: skip


def test_ssh_without_compression_and_on_a_connection_of_its_own():
    command = upload.ssh_command(SSH)
    assert "-C" not in command
    assert command.index("ControlMaster=no") < command.index("ControlMaster=auto")
    assert command[-6:] == ["-p", "2222", "-l", "me", "-i", "/k"]
    assert command[command.index("-F") + 1] == "/dev/null"


def test_rsync_goes_on_and_compares_what_is_whole():
    command = upload.rsync_command("/b/x", SSH, "/s/.x.part", "/s/.x.claim/beat", False, ["--bwlimit=1m"])
    assert command[1] == "--append-verify"
    assert command[-4:] == ["--bwlimit=1m", "--", "/b/x", "10.0.0.1:/s/.x.part"]
    again = upload.rsync_command("/b/x", SSH._replace(options={"host": "fe80::1"}), "/s/p", "/b", True, [])
    assert again[1:4] == ["--inplace", "--ignore-times", "--no-whole-file"]
    assert again[-1] == "[fe80::1]:/s/p"


def test_becoming():
    sudo = SSH._replace(become_user="you", become_method="sudo")
    assert upload.remote_rsync(sudo, "/b").startswith("sudo -n -u you -- /bin/sh -c ")
    local = Host("local", {}, "you", "su")
    assert upload.remote_shell(local) == "sh -c 'shift; exec su -s /bin/sh you -c \"$*\"' sh"
    assert upload.remote_shell(Host("local", {})) == "sh -c 'shift; exec  /bin/sh -c \"$*\"' sh"
    with pytest.raises(UploadProblem, match="cannot become you by su: use sudo"):
        upload.remote_rsync(SSH._replace(become_user="you", become_method="su"), "/b")


def test_the_receiver_touches_the_claim_and_becomes_rsync(tmp_path):
    program = tmp_path / "rsync"
    program.write_text('#!/bin/sh\nsleep 0.3\necho "$@"\n')
    program.chmod(0o755)
    (tmp_path / "beat").touch()
    os.utime(tmp_path / "beat", (0, 0))
    words = upload.remote_rsync(Host("local", {}), str(tmp_path / "beat")) + " --server . /x"
    done = subprocess.run(
        ["/bin/sh", "-c", words],
        env={"PATH": f"{tmp_path}:{os.environ['PATH']}"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stdout == "--server . /x\n", done.stderr
    assert (tmp_path / "beat").stat().st_mtime > 0


def test_progress_speaks_now_and_then():
    said, now = [], [0.0]
    progress = upload.Progress("x.sqsh", 2 * 10**9, said.append, lambda: now[0])
    line = "  1,000,000,000  50%  250.00MB/s    0:00:04 (xfr#1)"
    progress.take(line)
    now[0] = 11.0
    progress.take("sending incremental file list")
    progress.take(line)
    progress.take(line)
    assert said == ["x.sqsh: 1.0 GB of 2.0 GB sent, 250 MB/s, 4 s left"]
    now[0] = 22.0
    progress.take("  1,000  0%  0.00kB/s  0:00:00")
    assert said[1].endswith("it stands still")


def test_rsync_is_run_and_its_words_are_kept():
    progress = upload.Progress("x", 1, print, lambda: 0.0)
    program = "import sys; sys.stdout.write('  1  50%  1.0kB/s\\r  2 100%  1.0kB/s\\rbad\\nend'); sys.exit(12)"
    assert upload.run_rsync([sys.executable, "-c", program], progress, 60) == (12, "bad\nend")
    assert upload.run_rsync(["/nosuch/rsync"], progress, 60)[0] == 127
    slow = "import time, sys\nwhile True: print('x', flush=True); time.sleep(0.05)"
    code, said = upload.run_rsync([sys.executable, "-c", slow], progress, 0.2)
    assert code != 0
    assert "longer than 0 seconds" in said


@pytest.mark.skipif(shutil.which("rsync") is None, reason="needs rsync")
@pytest.mark.parametrize("there", [0, 1000, 300000])
def test_a_build_host_sends_through_this_machine(tmp_path, there):
    content = os.urandom(300000)
    (tmp_path / "source").write_bytes(content)
    (tmp_path / "part").write_bytes(content[:there])
    (tmp_path / "beat").touch()
    host = Host("local", {})
    command = upload.rsync_command(
        str(tmp_path / "source"), host, str(tmp_path / "part"), str(tmp_path / "beat"), there == 300000, []
    )
    progress = upload.Progress("x", 1, print, lambda: 0.0)
    assert upload.run_rsync(command, progress, 60, host, host)[0] == 0
    assert (tmp_path / "part").read_bytes() == content
    missing = [*command[:-1], f"localhost:{tmp_path}/no/such/part"]
    code, said = upload.run_rsync(missing, progress, 60, host, host)
    assert code != 0
    assert "No such file or directory" in said


def test_a_build_host_without_rsync():
    host = Host("local", {})
    command = ["nosuch-rsync", "-e", "ssh", "--", "/b/x", "localhost:/s/x"]
    code, said = upload.run_rsync(command, upload.Progress("x", 1, print, lambda: 0.0), 60, host, host)
    assert code == 127
    assert "not found" in said


@pytest.mark.parametrize(
    ("code", "said", "expected", "again"),
    [
        (
            11,
            "rsync: write failed: No space left on device (28)",
            "The space ran out in image_folder /s on login",
            False,
        ),
        (11, "rsync: Disk quota exceeded (122)", "The disk quota was exceeded", False),
        (127, "rsync: No such file or directory", "no rsync on the host that builds", False),
        (127, "sh: 1: exec: rsync: not found", "There is no rsync on login", False),
        (2, "protocol version mismatch -- is your shell clean?", "prints something before rsync answers", False),
        (255, "me@login: Permission denied (publickey).", "needs a key without a question", False),
        (23, 'rsync: mkstemp "/s/x" failed: Permission denied (13)', "cannot be written", False),
        (12, "connection unexpectedly closed", "it goes on where it was cut", True),
        (255, "client_loop: send disconnect: Broken pipe", "rsync answered 255", True),
    ],
)
def test_what_rsync_said(code, said, expected, again):
    assert expected in upload.sentence(code, said, "login", "/s")
    assert upload.worth_repeating(code, said) is again
