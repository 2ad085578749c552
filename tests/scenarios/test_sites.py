# Copyright: (c) 2026, The dgxc.workloads developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Sites that differ, each on a second Slurm of this machine: what the preflight says, and that a run works there."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.harness.sandbox import BIN, CHECKOUT, Play, wait_until
from tests.harness.sandbox import PREFIX as MAIN_PREFIX

PREFIX = Path("/opt/dgxc-sites")
USER = "site-user"
SHARED = PREFIX / "shared" / USER
CONF = PREFIX / "etc" / "slurm" / "slurm.conf"
PROLOG, EPILOG = (PREFIX / "etc" / "slurm" / name for name in ("task_prolog", "task_epilog"))
PROFILE = PREFIX / "home" / USER / ".bash_profile"
FACTS: dict[str, Any] = {
    "sandbox_prefix": str(PREFIX),
    "sandbox_user": USER,
    "sandbox_account": "sites",
    "sandbox_cluster_name": "sites",
    "sandbox_ssh_port": 27022,
}
CLI_FILTER = """\
function slurm_cli_setup_defaults(options, early_pass) return slurm.SUCCESS end
function slurm_cli_pre_submit(options, pack_offset)
%s
  return slurm.SUCCESS
end
function slurm_cli_post_submit(offset, job_id, step_id) return slurm.SUCCESS end
"""
JOB_SUBMIT = """\
function slurm_job_submit(job_desc, part_list, submit_uid)
%s
  return slurm.SUCCESS
end
function slurm_job_modify(job_desc, job_rec, part_list, modify_uid) return slurm.SUCCESS end
return slurm.SUCCESS
"""
CLUSTER = {
    **FACTS,
    "sandbox_slurmctld_port": 27017,
    "sandbox_slurmdbd_port": 27019,
    "sandbox_slurmd_first_port": 27001,
    "sandbox_node_count": 2,
    # What only needs other files later is asked for at the start, since each restart takes seconds.
    "sandbox_slurm_settings": {
        "CliFilterPlugins": "lua",
        "JobSubmitPlugins": "lua",
        "AccountingStorageEnforce": None,
        "TaskProlog": str(PROLOG),
        "TaskEpilog": str(EPILOG),
    },
    "sandbox_slurm_files": {"cli_filter.lua": CLI_FILTER % "", "job_submit.lua": JOB_SUBMIT % ""},
}


class Site:
    """The second sandbox, as its administrator changes it and as a person uses it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.plays: list[Play] = []
        self.kept: dict[Path, str] = {}

    # --- the administrator ---

    def write(self, path: Path, text: str) -> None:
        self.kept.setdefault(path, path.read_text())
        path.write_text(text)

    def filter(self, rule: str) -> None:
        """What cli_filter.lua checks of the options of every submission."""
        self.write(PREFIX / "etc/slurm/cli_filter.lua", CLI_FILTER % rule)

    def refuse(self, rule: str) -> None:
        """What job_submit.lua checks of every job."""
        self.write(PREFIX / "etc/slurm/job_submit.lua", JOB_SUBMIT % rule)

    def configure(self, **settings: str | None) -> None:
        """Change slurm.conf; None takes a line away."""
        lines = [line for line in CONF.read_text().splitlines() if line.split("=")[0] not in settings]
        self.write(CONF, "\n".join([*lines, *(f"{name}={value}" for name, value in settings.items() if value)]) + "\n")
        self.restart()

    def slurm(self, *words: str, check: bool = True) -> str:
        command = [str(PREFIX / "bin" / words[0]), *words[1:]]
        return subprocess.run(command, text=True, capture_output=True, check=check).stdout

    def controllers(self) -> list[int]:
        """The processes of slurmctld, as the sandbox's own tool names them."""
        tool = str(PREFIX / "libexec/daemons")
        listing = subprocess.run([tool, "status"], text=True, capture_output=True, check=False).stdout
        (line,) = (line for line in listing.splitlines() if line.startswith("slurmctld "))
        return [int(number) for number in re.findall(r"[0-9]+", line.partition("[")[2])]

    def restart(self) -> None:
        """A new slurmctld, which has read its configuration.

        It is started as the sandbox's tool would, which would register the cluster with slurmdbd first.
        """
        for pid in self.controllers():
            os.kill(pid, signal.SIGTERM)
        wait_until(lambda: not self.controllers(), 30, "the end of slurmctld")
        values = {"SLURM_CONF": str(CONF), "DGXC_SANDBOX_DAEMON": f"{PREFIX}:slurmctld"}
        subprocess.run(
            ["/usr/sbin/slurmctld", "-f", str(CONF)],
            check=True,
            cwd=PREFIX / "log/slurm",
            user="slurm",
            group="slurm",
            extra_groups=[],
            env={"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", **values},
        )
        wait_until(lambda: "UP" in self.slurm("scontrol", "ping", check=False), 30, "the start of slurmctld")
        # slurmd keeps what it has read until it is told, and a node that had told of other GPUs was drained.
        self.slurm("scontrol", "reconfigure")
        self.await_nodes()

    def await_nodes(self) -> None:
        idle = ("sinfo", "-h", "-t", "idle", "-o", "%D")

        def ready() -> bool:
            self.slurm("scontrol", "update", "NodeName=ALL", "State=RESUME", check=False)
            return self.slurm(*idle, check=False).strip() == "2"

        wait_until(ready, 60, "two idle nodes")

    def restore(self) -> None:
        restart = CONF in self.kept
        for path, text in self.kept.items():
            path.write_text(text)
        self.kept.clear()
        if restart:
            self.restart()
        self.slurm("scontrol", "update", "PartitionName=defq", "Default=YES")

    def python_without_slurm(self) -> str:
        """A Python that is started as on a login node whose plain PATH has no Slurm."""
        folder = PREFIX / "plain"
        if not folder.exists():
            folder.mkdir()
            for program in Path("/usr/bin").iterdir():
                if not (PREFIX / "bin" / program.name).exists():
                    (folder / program.name).symlink_to(program)
        python = PREFIX / "plain_python3"
        python.write_text(f'#!/bin/sh\nPATH={folder} exec /usr/bin/python3 "$@"\n')
        python.chmod(0o755)
        return str(python)

    # --- a person ---

    def play(self, *words: str, **variables: Any) -> Play:
        log = self.folder / f"{len(self.plays)}.log"
        command = [str(BIN / "ansible-playbook"), *words]
        play = Play(log, [*command, "-e", json.dumps(variables)], {})
        self.plays.append(play)
        return play

    def preflight(self, *words: str, **variables: Any) -> dict[str, dict[str, str]]:
        """The checks by id, from the report. That the play fails if and only if there is an error, is seen here."""
        report = self.folder / f"report-{len(self.plays)}.json"
        inventory = [] if "-i" in words else ["-i", "inventories/sandbox"]
        play = self.play(
            "playbooks/preflight.yml", *inventory, *words, **{**FACTS, "preflight_report": str(report), **variables}
        )
        code = play.ends(120)
        assert report.exists(), play.output
        checks = {check["id"]: check for check in json.loads(report.read_text())["checks"]}
        failed = [check for check in checks.values() if check["verdict"] == "error"]
        assert bool(code) is bool(failed), play.output
        assert play.changed == 0
        return checks

    def runs(self, name: str, **variables: Any) -> None:
        """A run is submitted, waited for and judged on this site."""
        values = {"fault_name": name, "fault_script": "sleep 1", "fault_directives": ""}
        play = self.play(
            str(CHECKOUT / "tests/harness/run.yml"), "-i", "inventories/sandbox", **{**FACTS, **values, **variables}
        )
        output = play.succeeds(120)
        assert "succeeded" in output


def wrong(checks: dict[str, dict[str, str]]) -> dict[str, str]:
    """The remedies of the errors by id."""
    return {name: check["remedy"] for name, check in checks.items() if check["verdict"] == "error"}


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    someone = Site(tmp_path_factory.mktemp("sites"))
    sandbox = ["playbooks/sandbox.yml", "-i", "inventories/sandbox"]
    someone.play(*sandbox, **CLUSTER).succeeds(600)
    for path in (PROLOG, EPILOG):
        path.write_text("#!/bin/sh\n")
        path.chmod(0o755)
    yield someone
    for play in someone.plays:
        play.kill()
    someone.play(*sandbox, sandbox_state="absent", **CLUSTER).succeeds(300)


@pytest.fixture
def site(cluster: Site) -> Iterator[Site]:
    yield cluster
    cluster.restore()
    shutil.rmtree(SHARED / "preflight", ignore_errors=True)


def test_a_site_like_any_other(site: Site):
    checks = site.preflight(preflight_nodes=2)
    assert wrong(checks) == {}
    assert {"login.ssh", "slurm.request", "pyxis.login", "node.pyxis", "node.shared_root"} <= set(checks)
    # What the nodes showed holds for a day.
    again = site.preflight(preflight_nodes=2)
    assert checks["node.job"]["evidence"].split()[:2] == again["node.job"]["evidence"].split()[:2]
    assert (
        site.preflight(preflight_force=True)["node.job"]["evidence"].split()[1]
        != again["node.job"]["evidence"].split()[1]
    )


def test_slurm_only_in_a_login_shell_and_no_module_command(site: Site):
    site.write(PROFILE, f"unset -f module ml\nexport PATH={PREFIX}/bin:$PATH\n")
    bare = {"ansible_python_interpreter": site.python_without_slurm()}
    remedy = wrong(site.preflight(**bare))["slurm.commands"]
    assert remedy.startswith("set dgxc_environment_modules to []")
    fitting = {**bare, "dgxc_environment_modules": []}
    checks = site.preflight(**fitting)
    assert wrong(checks) == {}
    assert "a login shell" in checks["slurm.commands"]["evidence"]
    site.runs("login-shell", **fitting)


def test_slurm_elsewhere(site: Site):
    site.write(PROFILE, "unset -f module ml\n")
    fitting = {"dgxc_environment_modules": [], "dgxc_slurm_bin_dir": str(PREFIX / "bin")}
    assert "slurm.commands" in wrong(site.preflight())
    assert "slurm.commands" in wrong(site.preflight(**{**fitting, "dgxc_slurm_bin_dir": "/opt/elsewhere"}))
    checks = site.preflight(**fitting)
    assert wrong(checks) == {}
    assert "dgxc_slurm_bin_dir" in checks["slurm.commands"]["evidence"]
    site.runs("elsewhere", **fitting)
    # A plain command finds the Slurm of this machine in /usr/bin, which has no configuration: a login shell is asked.
    site.write(PROFILE, f"export PATH={PREFIX}/bin:$PATH\n")
    checks = site.preflight(dgxc_environment_modules=[])
    assert wrong(checks) == {}
    assert checks["slurm.commands"]["evidence"] == f"in {PREFIX}/bin, by a login shell"
    # Named all the same, it does not answer, and the remedy names the other one.
    remedies = wrong(site.preflight(dgxc_environment_modules=[], dgxc_slurm_bin_dir="/usr/bin"))
    assert remedies["slurm.controller"] == f"set dgxc_slurm_bin_dir to {PREFIX}/bin, where a login shell finds Slurm"


# What a demanding site wants to be told.
FITTING = {
    "dgxc_gres_style": "gres",
    "dgxc_slurm_memory": "400G",
    "dgxc_slurm_qos": "normal",
    "dgxc_slurm_partition": "defq",
}


@pytest.fixture
def demanding(site: Site) -> Site:
    site.filter(
        '  if options["gpus-per-node"] ~= nil then slurm.log_error("use --gres=gpu:N") return slurm.ERROR end\n'
        '  if (options["mem"] or ""):match("^0") then slurm.log_error("no --mem=0") return slurm.ERROR end'
    )
    site.refuse('  if job_desc.qos == nil then slurm.log_user("name a QOS") return slurm.ERROR end')
    site.slurm("scontrol", "update", "PartitionName=defq", "Default=NO")
    return site


def test_a_site_that_demands_much_says_how_it_wants_to_be_asked(demanding: Site):
    site = demanding
    remedies = wrong(site.preflight())
    assert remedies["slurm.partition"] == "set dgxc_slurm_partition to one of them"
    words = remedies["slurm.request"]
    for remedy in (
        "dgxc_gres_style to gres",
        "dgxc_slurm_memory",
        "dgxc_slurm_qos to normal",
        "dgxc_slurm_partition to defq",
    ):
        assert f"set {remedy}" in words
    assert wrong(site.preflight(preflight_nodes=2, **FITTING)) == {}
    options = {"gres": "gpu:8", "qos": "normal", "partition": "defq", "mem": "400G"}
    site.runs("demanding", fault_options=options, **FITTING)


@pytest.mark.long
def test_a_workload_on_a_site_that_demands_much(demanding: Site):
    small = {"nemo_gpt3_nodes": 2, "nemo_gpt3_max_steps": 20, "nemo_gpt3_val_check_interval": 10}
    facts = {**FACTS, "sandbox_image_path": str(SHARED / "images/nemo-sandbox.sqsh"), **FITTING}
    play = demanding.play("playbooks/nemo_gpt3.yml", "-i", "inventories/sandbox", **facts, **small)
    assert "20 of 20" in play.succeeds(600)
    (script,) = (SHARED / "runs/nemo_gpt3").glob("*/attempt-*/results/*/*_submission.sh")
    assert "#SBATCH --gres=gpu:8" in script.read_text()
    assert "#SBATCH --mem=400GB" in script.read_text()


def test_no_accounting_and_four_gpus_that_have_a_type(site: Site):
    """Both need a restart, so they share one."""
    gres = CONF.with_name("gres.conf")
    site.write(gres, gres.read_text().replace("Name=gpu ", "Name=gpu Type=a100 ").replace("[0-7]", "[0-3]"))
    (nodes,) = (line.partition("=")[2] for line in CONF.read_text().splitlines() if line.startswith("NodeName="))
    site.configure(
        AccountingStorageType="accounting_storage/none", AccountingStorageTRES=None,
        NodeName=nodes.replace("Gres=gpu:8", "Gres=gpu:a100:4"),
    )  # fmt: skip
    checks = site.preflight()
    assert checks["slurm.accounting"]["verdict"] == "warning"
    assert "nodes have 4 a100 GPUs" in checks["slurm.gpus"]["evidence"]
    assert wrong(checks)["slurm.gpus"].startswith("set dgxc_gpus_per_node to what the nodes have")
    assert (
        wrong(site.preflight(dgxc_gpus_per_node=4, dgxc_gpu_type="h100"))["slurm.gpus"] == "set dgxc_gpu_type to a100"
    )
    facts = {"dgxc_gpus_per_node": 4, "dgxc_gpu_type": "a100", "dgxc_gres_style": "gres"}
    assert wrong(site.preflight(preflight_nodes=2, **facts)) == {}
    site.runs("unaccounted", fault_options={"gres": "gpu:a100:4"}, **facts)


def test_no_home_on_the_nodes(site: Site):
    site.write(PROLOG, "#!/bin/sh\necho export HOME=/home/nowhere\n")
    checks = site.preflight()
    assert wrong(checks) == {}
    assert "not there on gpu001" in checks["node.home"]["evidence"]
    site.runs("homeless", fault_script='[ ! -d "$HOME" ]')


def test_a_shared_root_that_the_nodes_do_not_have(site: Site):
    """A folder that is under another name when the job looks: the node is this machine."""
    local = Path("/tmp/dgxc-sites-local")
    local.mkdir(exist_ok=True)
    shutil.chown(local, USER, USER)
    site.write(PROLOG, f"#!/bin/sh\nmv {local} {local}.away\n")
    site.write(EPILOG, f"#!/bin/sh\nmv {local}.away {local}\n")
    try:
        checks = site.preflight(dgxc_shared_root=str(local))
        assert "set dgxc_shared_root to a folder that all nodes share" in checks["node.shared_root"]["remedy"]
        assert checks["node.shared_root"]["verdict"] == "error"
    finally:
        shutil.rmtree(local, ignore_errors=True)
        shutil.rmtree(f"{local}.away", ignore_errors=True)


def test_a_profile_that_talks(site: Site):
    noise = "echo 'Welcome to 8 nodes'\necho 'Submitted batch job 7'\necho 'quota: 93%' >&2\n"
    noise += "export SBATCH_PARTITION=nowhere\n"
    bashrc = PREFIX / "home" / USER / ".bashrc"
    if not bashrc.exists():
        bashrc.touch()
    site.write(bashrc, noise)
    site.write(PROFILE, noise + PROFILE.read_text())
    assert wrong(site.preflight()) == {}
    site.runs("noisy")


def test_a_profile_whose_words_are_taken_for_an_answer(site: Site):
    bashrc = PREFIX / "home" / USER / ".bashrc"
    bashrc.touch()
    site.write(bashrc, "echo '{\"quota\": 93}'\n")
    checks = site.preflight()
    assert checks["login.profile"]["verdict"] == "error"
    assert "quota" in checks["login.profile"]["evidence"]


def test_no_pyxis(site: Site):
    srun = PREFIX / "bin/srun"
    kept = os.readlink(srun) if srun.is_symlink() else None
    away = srun.rename(srun.with_name("srun.away"))
    srun.symlink_to(PREFIX / "libexec/slurm_command")
    try:
        checks = site.preflight()
        # Jobs alone start containers, so the nodes decide.
        assert checks["pyxis.login"]["verdict"] == "warning"
        assert "ask the administrators for Pyxis" in wrong(checks)["node.pyxis"]
    finally:
        srun.unlink()
        away.rename(srun)
    assert kept == (os.readlink(srun) if srun.is_symlink() else None)


def older_python(version: str) -> Path | None:
    """The folder of an interpreter of that version, from a version manager or the system."""
    for program in (*Path.home().glob(f".pyenv/versions/{version}.*/bin/python3"), Path(f"/usr/bin/python{version}")):
        if program.exists():
            return program.resolve().parents[1]
    return None


@pytest.mark.parametrize("version", ["3.8", pytest.param("3.9", marks=pytest.mark.long)])
def test_an_older_python_on_the_login_node(site: Site, version: str):
    folder = older_python(version)
    if folder is None:
        pytest.skip(f"needs a Python {version}")
    if folder == Path("/usr"):
        program = f"/usr/bin/python{version}"
    else:
        # Root's own folder is not for others to see.
        copy = PREFIX / f"python{version}"
        leave_out = shutil.ignore_patterns(
            "test", "tests", "*.a", "__pycache__", "site-packages", "idlelib", "share", "include"
        )
        shutil.copytree(folder, copy, symlinks=True, ignore=leave_out, dirs_exist_ok=True)
        # It may look for its library where it was built.
        wrapper = PREFIX / f"python{version}.sh"
        wrapper.write_text(f'#!/bin/sh\nLD_LIBRARY_PATH={copy}/lib exec {copy}/bin/python{version} "$@"\n')
        wrapper.chmod(0o755)
        program = str(wrapper)
    checks = site.preflight(ansible_python_interpreter=program)
    assert wrong(checks) == {}
    assert checks["login.python"]["evidence"].startswith(f"Python {version}.")
    site.runs(f"python{version}", ansible_python_interpreter=program)


def test_no_python_there(site: Site):
    checks = site.preflight(ansible_python_interpreter="/usr/bin/python3.99")
    assert wrong(checks)["login.python"].startswith("set ansible_python_interpreter to /")
    assert checks["login.ssh"]["verdict"] == "ok"


def test_a_login_node_that_cannot_be_reached(site: Site):
    checks = site.preflight(ansible_port=1)
    assert list(checks) == ["login.ssh"]
    assert "a VPN, or a bastion host" in checks["login.ssh"]["remedy"]


def ssh_options(prefix: Path) -> str:
    return (
        f"-F /dev/null -o UserKnownHostsFile={prefix}/etc/ssh/known_hosts -o GlobalKnownHostsFile=/dev/null"
        " -o StrictHostKeyChecking=yes -o IdentitiesOnly=yes"
    )


def host(prefix: Path, user: str, port: int, **more: Any) -> dict[str, Any]:
    return {
        "ansible_host": "127.0.0.1", "ansible_port": port, "ansible_user": user,
        "ansible_ssh_private_key_file": f"{prefix}/etc/ssh/client_ed25519",
        "ansible_ssh_common_args": ssh_options(prefix),
        "ansible_python_interpreter": "/usr/bin/python3",
        "dgxc_shared_root": f"{prefix}/shared/{user}",
        "dgxc_environment_modules": ["slurm"],
        "preflight_space_gb": 1,
        **more,
    }  # fmt: skip


def preflights(site: Site, hosts: dict[str, dict[str, Any]], **variables: Any) -> dict[str, dict[str, Any]]:
    """The reports of several hosts of one play, by host."""
    inventory = site.folder / f"inventory-{len(site.plays)}.yml"
    inventory.write_text(json.dumps({"slurm_login": {"hosts": hosts}}))
    folder = site.folder / f"reports-{len(site.plays)}"
    values = {"preflight_report": f"{folder}/{{{{ inventory_hostname }}}}.json", **variables}
    play = site.play("playbooks/preflight.yml", "-i", str(inventory), **values)
    play.ends(120)
    found = {path.stem: json.loads(path.read_text()) for path in folder.glob("*.json")}
    assert set(found) == set(hosts), play.output
    return found


MAIN_ROOT = f"{MAIN_PREFIX}/shared/demo-user/sites-{os.getpid()}"


@pytest.fixture
def main_root() -> Iterator[str]:
    os.mkdir(MAIN_ROOT)
    shutil.chown(MAIN_ROOT, "demo-user", "demo-user")
    yield MAIN_ROOT
    shutil.rmtree(MAIN_ROOT, ignore_errors=True)


def test_several_clusters_and_several_login_nodes_in_one_run(site: Site, main_root: str):
    found = preflights(
        site,
        {
            "one": host(MAIN_PREFIX, "demo-user", 17022, dgxc_shared_root=main_root),
            "two-a": host(PREFIX, USER, 27022),
            "two-b": host(PREFIX, USER, 27022, ansible_host="localhost", ansible_ssh_common_args=ssh_options(PREFIX)
                          + " -o HostKeyAlias=[127.0.0.1]:27022"),
        },
        preflight_nodes=2,
    )  # fmt: skip
    assert {name: report["verdict"] for name, report in found.items()} == dict.fromkeys(found, "warning")
    assert found["one"]["facts"]["accounts"] == ["demo"]
    assert found["two-a"]["facts"]["accounts"] == found["two-b"]["facts"]["accounts"] == ["sites"]


def test_through_a_bastion_host(site: Site):
    jump = (
        f"ssh {ssh_options(MAIN_PREFIX)} -i {MAIN_PREFIX}/etc/ssh/client_ed25519 -p 17022 -W %h:%p demo-user@127.0.0.1"
    )
    arguments = f'{ssh_options(PREFIX)} -o ProxyCommand="{jump}"'
    found = preflights(site, {"behind": host(PREFIX, USER, 27022, ansible_ssh_common_args=arguments)})
    assert found["behind"]["counts"]["error"] == 0
    # With a connection of its own, for that of before is still held.
    broken = host(PREFIX, USER, 27022, ansible_ssh_common_args=arguments.replace("-p 17022", "-p 1"))
    found = preflights(site, {"behind": {**broken, "ansible_ssh_args": "-o ControlMaster=no -o ControlPath=none"}})
    assert [check["id"] for check in found["behind"]["checks"]] == ["login.ssh"]


def test_a_second_factor_is_given_once_to_a_connection_that_is_held(site: Site, tmp_path: Path):
    """The connection is opened by hand, here with the key; the play itself has none."""
    socket = f"/tmp/dgxc-held-{os.getpid()}"
    words = ["ssh", *ssh_options(PREFIX).split(), "-p", "27022", "-o", f"ControlPath={socket}", "-l", USER]
    key = ["-i", f"{PREFIX}/etc/ssh/client_ed25519"]
    subprocess.run(
        [*words, *key, "-M", "-N", "-f", "127.0.0.1"], check=True, stdin=subprocess.DEVNULL, capture_output=True
    )
    held = host(PREFIX, USER, 27022, ansible_ssh_private_key_file="/nonexistent",
                ansible_ssh_args=f"-o ControlMaster=no -o ControlPath={socket}")  # fmt: skip
    try:
        found = preflights(site, {"held": held})
        assert found["held"]["counts"]["error"] == 0
    finally:
        subprocess.run([*words, "-O", "exit", "127.0.0.1"], check=False, capture_output=True)
    found = preflights(site, {"held": held})
    assert "hold a connection open" in found["held"]["checks"][0]["remedy"]
