# Copyright: (c) 2026, The dgxc.workloads developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The cluster looks like a real one, and playbooks/sandbox.yml repairs what is broken."""

from __future__ import annotations

import re
import signal
from pathlib import Path

import pytest

DAEMONS = ["munged", "mariadbd", "sshd", "slurmdbd", "slurmctld", "slurmd-gpu001", "slurmd-gpu004"]


def kill(sandbox, name: str, number: signal.Signals) -> None:
    for pid in sandbox.pids(name):
        assert sandbox.as_root("kill", f"-{number.value}", pid).returncode == 0


def test_module_and_slurm_only_in_a_login_shell(sandbox):
    assert "not found" in sandbox.ssh("type module", login=False).stderr
    assert str(sandbox.prefix) not in sandbox.ssh("type -p sbatch srun", login=False).stdout
    assert sandbox.ssh("type -p sbatch srun").stdout.split() == [
        str(sandbox.prefix / "bin" / name) for name in ("sbatch", "srun")
    ]


def test_a_batch_job_and_its_accounting(sandbox):
    script = """
        job=$(sbatch --parsable --wait --nodes=2 --gpus-per-node=8 --ntasks-per-node=8 --exclusive --mem=0 \
              --output=$HOME/out.txt --wrap 'echo $SLURM_GPUS_PER_NODE $SLURM_JOB_NUM_NODES; exit 3'); code=$?
        cat ~/out.txt; rm ~/out.txt
        for try in $(seq 120); do
            row=$(sacct -X -n -P -j $job -o State,ExitCode,Account,WorkDir,AllocTRES)
            case $row in FAILED*"$HOME"*gres/gpu=16*) break;; esac; sleep 0.5
        done
        echo "$row"; exit $code"""
    done = sandbox.ssh(script)
    assert done.returncode == 3
    lines = done.stdout.splitlines()
    assert lines[0] == "8 2"
    state, code, account, folder, tres = lines[1].split("|")
    assert (state, code, account, folder) == ("FAILED", "3:0", "demo", str(sandbox.home))
    assert "gres/gpu=16" in tres
    assert "node=2" in tres


def test_only_the_user_may_log_in_by_ssh(sandbox):
    port = sandbox.specification["daemons"]["sshd"]["probe"]["port"]
    ssh = sandbox.prefix / "etc" / "ssh"
    done = sandbox.as_root(
        "ssh", "-F", "/dev/null", "-o", f"UserKnownHostsFile={ssh}/known_hosts", "-o", "BatchMode=yes", "-o",
        "IdentitiesOnly=yes", "-i", f"{ssh}/client_ed25519", "-p", str(port), "root@127.0.0.1", "true",
    )  # fmt: skip
    assert done.returncode == 255
    assert "Permission denied" in done.stderr


@pytest.mark.parametrize("name", DAEMONS)
def test_a_killed_daemon_is_started(sandbox, name):
    kill(sandbox, name, signal.SIGKILL)
    assert f"{name}: would be started" in sandbox.daemons("--plan", "ensure")
    assert sandbox.pids(name) == []
    assert f"{name}: started" in sandbox.daemons("ensure")
    assert sandbox.daemons("ensure") == ""


@pytest.mark.parametrize("name", DAEMONS)
def test_a_frozen_daemon_is_woken(sandbox, name):
    before = sandbox.pids(name)
    kill(sandbox, name, signal.SIGSTOP)
    assert f"{name}: woken" in sandbox.daemons("ensure")
    assert sandbox.daemons("ensure") == ""
    assert sandbox.pids(name) == before


def test_nodes_are_resumed(sandbox):
    sandbox.commands("scontrol", "update", "nodename=gpu002", "state=drain", "reason=test")
    sandbox.commands("scontrol", "update", "nodename=gpu003", "state=down", "reason=test")
    said = sandbox.daemons("ensure")
    assert "node gpu002 resumed" in said
    assert "node gpu003 resumed" in said
    assert not re.search("down|drain|\\*", sandbox.commands("sinfo", "-h", "-o", "%T", "-n", "gpu002,gpu003"))


def test_the_playbook_repairs_and_then_changes_nothing(sandbox):
    for name in DAEMONS:
        kill(sandbox, name, signal.SIGKILL)
    done = sandbox.playbook("--check")
    assert done.returncode == 0, done.stdout
    assert sandbox.pids("slurmctld") == []
    done = sandbox.playbook()
    assert done.returncode == 0, done.stdout
    assert "changed=1 " in done.stdout
    for words in ((), ("--check",)):
        done = sandbox.playbook(*words)
        assert done.returncode == 0, done.stdout
        assert "changed=0 " in done.stdout
    assert "DOWN" not in sandbox.daemons("status")


@pytest.mark.parametrize(
    ("variable", "value"),
    [
        ("sandbox_prefix", "relative/path"),
        ("sandbox_prefix", "/usr/lib"),
        ("sandbox_user", "root"),
        ("sandbox_node_count", "0"),
        ("sandbox_shared_root", "/elsewhere"),
        ("sandbox_container_runtime", "other"),
        ("sandbox_pyxis_plugin", "/nosuch.so"),
    ],
)
def test_nonsense_is_refused(sandbox, variable, value):
    words = ["-e", f"{variable}={value}"]
    if variable == "sandbox_pyxis_plugin":
        words += ["-e", "sandbox_container_runtime=pyxis"]
    done = sandbox.playbook(*words)
    assert done.returncode != 0
    assert value in done.stdout + done.stderr
    assert "changed=0 " in done.stdout


def test_no_file_of_the_machine_is_used(sandbox):
    """The daemons' configuration, keys and sockets are under the prefix."""
    for name in sandbox.specification["daemons"]:
        for pid in sandbox.pids(name):
            paths = sandbox.as_root("find", f"/proc/{pid}/fd", "-type", "l", "-printf", "%l\n").stdout.split()
            assert not [path for path in paths if path.startswith(("/etc/", "/var/", "/run/"))], (name, paths)
    configuration = Path("/etc/slurm/slurm.conf")
    assert not configuration.exists() or str(sandbox.prefix) not in configuration.read_text()
