# Copyright: (c) 2026, The dgxc.workloads developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The modules of the preflight, from their arguments to their results, over commands that a test plays."""

from __future__ import annotations

import json

import pytest
from ansible.module_utils.testing import patch_module_args

from ansible_collections.dgxc.workloads.plugins.modules import preflight_login, preflight_nodes

COMMANDS = {
    "sinfo": 'case "$*" in --version) echo slurm 22.05.8;; *) echo "gpu001|idle|500000|(null)|gpu:8";; esac',
    "scontrol": "echo PartitionName=gpu Default=YES MaxTime=UNLIMITED Nodes=gpu001 State=UP",
    "sacct": "true",
    "sacctmgr": "echo 'team||normal||'",
    "srun": 'if [ "$1" = --help ]; then echo --container-image=X; exit; fi\n'
    'while [ "${1#--}" != "$1" ]; do shift; done\nexec "$@"',
    "enroot": "echo 4.1.2",
    "squeue": "echo 'COMPLETED|None'",
    "sbatch": 'echo "$*" >> {calls}\n'
    'case "$*" in *--test-only*) echo "sbatch: Job 1 to start now" >&2;;'
    ' *) for word in "$@"; do script=$word; done; SLURMD_NODENAME=gpu001 bash "$script"; echo 12;; esac',
}


@pytest.fixture
def site(tmp_path):
    """A folder with Slurm's commands, and a shared root."""
    folder = tmp_path / "bin"
    folder.mkdir()
    for name, text in COMMANDS.items():
        (folder / name).write_text("#!/bin/bash\n" + text.replace("{calls}", str(tmp_path / "calls")) + "\n")
        (folder / name).chmod(0o755)
    (tmp_path / "shared").mkdir()
    return tmp_path


def run(module, capsys, check_mode=False, **arguments):
    """The result of a module."""
    with patch_module_args({**arguments, "_ansible_check_mode": check_mode}), pytest.raises(SystemExit):
        module.main()
    return json.loads(capsys.readouterr().out)


def verdicts(result):
    return {check["id"]: check["verdict"] for check in result["checks"]}


def test_a_login_node_is_checked(site, capsys):
    result = run(
        preflight_login, capsys, slurm_bin_dir=str(site / "bin"), shared_root=str(site / "shared"), space_gb=0,
        nodes=1, gpus_per_node=8, options={"nodes": 1, "exclusive": True}, paths=[str(site)],
    )  # fmt: skip
    found = verdicts(result)
    assert {found[name] for name in ("slurm.request", "slurm.gpus", "pyxis.login", "storage.root", "mounts.login")} == {
        "ok"
    }
    assert result["changed"] is False
    assert result["facts"]["accounts"] == ["team"]
    (call,) = (site / "calls").read_text().splitlines()
    assert call.startswith("--test-only --nodes=1 --exclusive ")


def test_a_missing_image_is_a_warning_in_a_rehearsal(site, capsys):
    arguments = {"slurm_bin_dir": str(site / "bin"), "image": str(site / "x.sqsh")}
    assert verdicts(run(preflight_login, capsys, **arguments))["image"] == "error"
    assert verdicts(run(preflight_login, capsys, check_mode=True, **arguments))["image"] == "warning"


def attempt(folder, job):
    """An attempt folder as the role run leaves it."""
    folder.mkdir(parents=True)
    (folder / "intent.json").write_text('{"number": 1}')
    (folder / "job.json").write_text(json.dumps(job))


def test_runs_of_before_are_noticed_by_their_names(site, capsys):
    runs = site / "shared" / "runs" / "alma"
    arguments = {
        "slurm_bin_dir": str(site / "bin"), "earlier_runs": [f"{runs}/alma-n1-", f"{runs}/alma-n2-"],
    }  # fmt: skip
    assert run(preflight_login, capsys, **arguments)["resumes"] is False
    attempt(runs / f"alma-n1-{'a' * 12}" / "attempt-1", {"job_id": "7"})
    # One that was refused has no job, and another name is another run.
    attempt(runs / f"alma-n2-{'b' * 12}" / "attempt-1", {"refused": "Invalid account"})
    attempt(runs / f"alma-n2-big-{'b' * 12}" / "attempt-1", {"job_id": "8"})
    assert run(preflight_login, capsys, **arguments)["resumes"] is False
    attempt(runs / f"alma-n2-{'c' * 12}" / "attempt-1", {"job_id": "9"})
    assert run(preflight_login, capsys, **arguments)["resumes"] is True


@pytest.mark.parametrize(
    ("verdict", "resubmit", "most", "submitted"),
    [
        ("failed", "never", 3, True),
        ("failed", "on_failure", 3, False),
        ("failed", "always", 3, False),
        ("failed", "on_failure", 0, False),
        # All its attempts are used up.
        ("failed", "on_failure", 1, True),
        ("failed", "always", 1, True),
        ("succeeded", "on_failure", 3, True),
        ("succeeded", "always", 1, False),
        # It runs, or nobody knows.
        (None, "always", 3, True),
        ("unknown", "on_failure", 3, True),
    ],
)
def test_a_run_that_is_submitted_again_is_not_one_of_before(site, capsys, verdict, resubmit, most, submitted):
    folder = site / "shared" / "runs" / "alma" / f"alma-n1-{'a' * 12}"
    attempt(folder / "attempt-1", {"job_id": "7"})
    if verdict:
        (folder / "attempt-1" / "result.json").write_text(json.dumps({"verdict": verdict}))
    place = {"slurm_bin_dir": str(site / "bin")}
    early = {"earlier_runs": [f"{folder.parent}/alma-n1-"], "resubmit": resubmit, "max_attempts": most}
    assert run(preflight_login, capsys, **place, **early)["resumes"] is submitted
    late = {"run_dirs": [str(folder)], "resubmit": {str(folder): resubmit}, "max_attempts": {str(folder): most}}
    found = run(preflight_nodes, capsys, shared_root=str(site / "shared"), nodes=0, **place, **late)
    assert found["to_submit"] == (0 if submitted else 1)


def test_nothing_is_asked_that_is_there_already(site, capsys):
    clone = site / "clone"
    (clone / ".git").mkdir(parents=True)
    (clone / ".git" / "HEAD").write_text("f" * 40 + "\n")
    nowhere = "file:///nonexistent/a.git"
    arguments = {
        "slurm_bin_dir": str(site / "bin"),
        "git_remotes": [{"url": nowhere, "path": str(clone), "commit": "f" * 40}],
        "urls": [{"url": "http://127.0.0.1:9/", "unless": str(clone)}],
    }
    found = verdicts(run(preflight_login, capsys, **arguments))
    assert not [name for name in found if name.startswith(("git.", "network."))]
    arguments["git_remotes"][0]["commit"] = "e" * 40
    arguments["urls"][0]["unless"] = str(site / "nothing")
    found = verdicts(run(preflight_login, capsys, **arguments))
    assert (found["git.a"], found["network.127.0.0.1"]) == ("error", "error")


def test_no_job_for_runs_that_have_been_submitted(site, capsys):
    one, two = site / "runs" / "one", site / "runs" / "two"
    attempt(one / "attempt-1", {"job_id": "7"})
    arguments = {"slurm_bin_dir": str(site / "bin"), "shared_root": str(site / "shared")}
    known = run(preflight_nodes, capsys, run_dirs=[str(one)], **arguments)
    assert (known["to_submit"], known["looked"], known["checks"]) == (0, False, [])
    assert not (site / "calls").exists()
    # Without nodes it only counts.
    counted = run(preflight_nodes, capsys, run_dirs=[str(one), str(two)], nodes=0, **arguments)
    assert (counted["to_submit"], counted["looked"], counted["checks"]) == (1, False, [])
    new = run(preflight_nodes, capsys, run_dirs=[str(one), str(two)], **arguments)
    assert (new["to_submit"], new["looked"]) == (1, True)


def test_a_login_node_is_described(site, capsys):
    result = run(preflight_login, capsys, state="described", slurm_bin_dir=str(site / "bin"))
    assert [partition["name"] for partition in result["facts"]["partitions"]] == ["gpu"]
    assert "checks" not in result


def test_nodes_are_looked_at_once(site, capsys):
    arguments = {"slurm_bin_dir": str(site / "bin"), "shared_root": str(site / "shared"), "paths": [str(site)]}
    rehearsal = run(preflight_nodes, capsys, check_mode=True, **arguments)
    assert (rehearsal["looked"], verdicts(rehearsal)) == (False, {"node.job": "warning"})
    assert list((site / "shared").iterdir()) == []
    first = run(preflight_nodes, capsys, **arguments)
    assert (first["looked"], verdicts(first)["node.mounts"]) == (True, "ok")
    assert run(preflight_nodes, capsys, **arguments)["looked"] is False
    assert run(preflight_nodes, capsys, force=True, **arguments)["looked"] is True
    assert run(preflight_nodes, capsys, **{**arguments, "paths": [str(site / "none")]})["looked"] is True
    # A fault is looked at again: somebody will have seen to it.
    (site / "none").mkdir()
    again = run(preflight_nodes, capsys, **{**arguments, "paths": [str(site / "none")]})
    assert (again["looked"], verdicts(again)["node.mounts"]) == (True, "ok")


def test_no_slurm(site, capsys):
    result = run(preflight_nodes, capsys, slurm_bin_dir=str(site), shared_root=str(site / "shared"))
    assert result["failed"] is True
    assert "there is no sbatch in it" in result["msg"]
