# Copyright: (c) 2026, The dgxc.workloads developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A day of a team's commits to the example repository, on the sandbox, with all jobs counted."""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
import urllib.parse
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, ClassVar

import pytest
import yaml

from tests.harness.sandbox import BIN, CHECKOUT, PREFIX, USER, wait_until

LOOP = CHECKOUT / "roles" / "reconcile" / "files" / "reconcile_loop.py"
# On one node, because what trains takes the machine's time from the playbooks.
ENDLESS = {"nemo_gpt3_nodes": 1, "nemo_gpt3_max_steps": 100000, "nemo_gpt3_val_check_interval": 1000}
SHORT = {"nemo_gpt3_nodes": 1, "nemo_gpt3_max_steps": 20, "nemo_gpt3_val_check_interval": 10}
SMALL = PREFIX / "shared" / USER / "small"
#: The example's inventory has nothing for Whisper, so the spec says it all.
SPEECH = {
    "whisper_qlora_container_image": f"{PREFIX}/shared/{USER}/images/nemo-sandbox.sqsh",
    "whisper_qlora_container_mounts": [f"{PREFIX}/training"],
    "whisper_qlora_cpu": True,
    "whisper_qlora_cpu_threads_per_process": 1,
    "whisper_qlora_data_path": f"{SMALL}/bengali-ai-asr-10k",
    "whisper_qlora_learning_rate": 2e-2,
    "whisper_qlora_load_in_8bit": False,
    "whisper_qlora_logging_steps": 1,
    "whisper_qlora_matrix": ["1x1"],
    "whisper_qlora_model": f"{SMALL}/whisper-tiny-random",
    "whisper_qlora_offline": True,
    "whisper_qlora_trainable_parameters": 6144,
    "whisper_qlora_warmup_steps": 1,
}


def git(folder: Path, *arguments: str) -> str:
    identity = ["-c", "user.name=Team", "-c", "user.email=team@example.org"]
    return subprocess.run(
        ["git", "-C", str(folder), *identity, *arguments], text=True, capture_output=True, check=True
    ).stdout.strip()


class News(BaseHTTPRequestHandler):
    """A server that is told what happens, by webhook and as statuses of commits."""

    told: ClassVar[list[tuple[str, dict[str, Any], str]]] = []

    def do_POST(self) -> None:
        text = self.rfile.read(int(self.headers["Content-Length"])).decode()
        form = self.headers["Content-Type"] == "application/x-www-form-urlencoded"
        body = dict(urllib.parse.parse_qsl(text)) if form else json.loads(text)
        token = self.headers.get("Authorization", "") or self.headers.get("PRIVATE-TOKEN", "")
        self.told.append((self.path, body, token))
        self.send_response(201)
        self.end_headers()

    def log_message(self, *arguments: object) -> None:
        pass


class Team:
    """People with a checkout of the example repository, a Git server, and a host that reconciles."""

    def __init__(self, folder: Path, root: Path) -> None:
        self.root = root
        self.server, self.checkout, self.home = folder / "server.git", folder / "checkout", folder / "home"
        self.ci = folder / "ci"
        subprocess.run(["git", "init", "--quiet", "--bare", str(self.server)], check=True)
        shutil.copytree(CHECKOUT / "examples" / "gitops", self.checkout)
        git(self.checkout, "init", "--quiet", "--initial-branch=main")
        self.news = ThreadingHTTPServer(("127.0.0.1", 0), News)
        threading.Thread(target=self.news.serve_forever, daemon=True).start()
        self.address = address = f"http://127.0.0.1:{self.news.server_port}"
        secrets = folder / "secrets.yml"
        secrets.write_text(f"reconcile_webhook: {address}/hook/s3cret\nreconcile_commit_status_token: t0ken\n")
        self.config = folder / "config.json"
        self.config.write_text(
            json.dumps(
                {
                    "home": str(self.home),
                    "repository": f"file://{self.server}",
                    "collections_path": str(CHECKOUT / "collections"),
                    # Storage of this test's own; all else is the example as it is.
                    "extra_vars": {
                        "dgxc_shared_root": str(root),
                        "reconcile_collect_after": 1,
                        "reconcile_report_files": [str(folder / "report.json"), str(folder / "report.md")],
                        "reconcile_status_repository": f"file://{self.server}",
                        "reconcile_commit_status_url": f"{address}/statuses",
                        "reconcile_secrets_file": str(secrets),
                    },
                }
            )
        )
        self.report_file = folder / "report.json"
        self.turns: list[subprocess.Popen[str]] = []

    # --- Git ---

    def spec(self, name: str, variables: dict[str, Any], **fields: Any) -> None:
        spec = {"name": name, "workload": "nemo_gpt3", **fields, "variables": variables}
        (self.checkout / "runs" / f"{name}.yml").write_text(json.dumps(spec, indent=1))

    def push(self, message: str, *options: str) -> None:
        git(self.checkout, "add", "--all")
        git(self.checkout, "commit", "--quiet", "--allow-empty", "-m", message)
        git(self.checkout, "push", "--quiet", *options, f"file://{self.server}", "HEAD:main")

    # --- pipelines ---

    def pipeline(self, path: str, job: str, **settings: str) -> str:
        """Run the commands of a pipeline's job in a new checkout, in the order of the file, as its server would.

        Returns their output. Programs that need a network or a server are stood in for by ones that note their call.
        """
        shutil.rmtree(self.ci, ignore_errors=True)
        subprocess.run(["git", "clone", "--quiet", "--branch=main", f"file://{self.server}", str(self.ci)], check=True)
        site = self.ci / "inventory" / "group_vars" / "sandbox_cluster" / "site.yml"
        text = site.read_text()
        assert text.count('"{{ sandbox_prefix }}/shared/demo-user"\n') == 1
        site.write_text(text.replace('"{{ sandbox_prefix }}/shared/demo-user"\n', f"{self.root}\n"))
        key, hosts = PREFIX / "etc" / "ssh" / "client_ed25519", PREFIX / "etc" / "ssh" / "known_hosts"
        # Short, because sockets lie in it.
        home = Path(tempfile.mkdtemp())
        programs = home / "bin"
        programs.mkdir()
        for name in ("apt-get", "gh"):
            (programs / name).write_text(f'#!/bin/sh\necho "{name} $*"\n')
        (programs / "ansible-galaxy").write_text(
            '#!/bin/sh\ntest "$1 $2 $3 $5" = "collection install -r -p" && test -f "$4" || exit 1\n'
            f'mkdir -p "$6" && ln -s {CHECKOUT / "collections" / "ansible_collections"} "$6"\n'
        )
        (programs / "ssh-agent").write_text(f"#!/bin/sh\n/usr/bin/ssh-agent | tee -a {home / 'agents'}\n")
        for program in programs.iterdir():
            program.chmod(0o755)
        environment = {
            "HOME": str(home), "PATH": f"{programs}:{BIN}:/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin", "CI": "true",
            "PIP_DISABLE_PIP_VERSION_CHECK": "1",
        }  # fmt: skip
        parsed = yaml.safe_load((self.ci / path).read_text())
        output = ""
        try:
            if path.startswith(".github"):
                environment.update(GITHUB_SERVER_URL=f"file://{self.server.parent}", GITHUB_REPOSITORY="server")
                known = {
                    "secrets.CLUSTER_SSH_KEY": key.read_text(), "secrets.CLUSTER_KNOWN_HOSTS": hosts.read_text(),
                    "github.token": "t0ken", "github.event.number": "7",
                }  # fmt: skip

                def said(text: str) -> str:
                    return re.sub(r"\$\{\{ ([a-zA-Z_.]+) \}\}", lambda found: known[found.group(1)], text)

                for step in parsed["jobs"][job]["steps"]:
                    if "run" in step:
                        values = {name: said(str(value)) for name, value in step.get("env", {}).items()}
                        output += self._shell(said(step["run"]), {**environment, **values})
            else:
                for name, source in (("CLUSTER_SSH_KEY", key), ("CLUSTER_KNOWN_HOSTS", hosts)):
                    environment[name] = str(shutil.copy(source, home / name))
                environment.update(
                    CI_PROJECT_DIR=str(self.ci), CI_PROJECT_URL=f"file://{self.server.with_suffix('')}",
                    CI_DEFAULT_BRANCH="main", CI_PROJECT_ID="3", CI_MERGE_REQUEST_IID="9", BOT_TOKEN="t0ken",
                    CI_API_V4_URL=self.address,
                )  # fmt: skip
                for part in ("script", "after_script"):
                    lines = [
                        line
                        for entry in parsed[job].get(part, [])
                        for line in (entry if isinstance(entry, list) else [entry])
                    ]
                    output += self._shell("\n".join(lines), environment)
        finally:
            for line in (home / "agents").read_text().split(";") if (home / "agents").exists() else []:
                if line.strip().startswith("SSH_AGENT_PID="):
                    os.kill(int(line.partition("=")[2]), signal.SIGTERM)
            shutil.rmtree(home, ignore_errors=True)
        return output

    def _shell(self, text: str, environment: dict[str, str]) -> str:
        done = subprocess.run(
            ["sh", "-e", "-c", text], cwd=self.ci, env=environment, text=True, stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT, check=False, timeout=240,
        )  # fmt: skip
        assert done.returncode == 0, f"{text}\n{done.stdout}"
        return done.stdout

    # --- the reconciler ---

    def start(self, *options: str, config: Path | None = None) -> subprocess.Popen[str]:
        process = subprocess.Popen(
            [sys.executable, str(LOOP), str(config or self.config), *options],
            text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, start_new_session=True,
        )  # fmt: skip
        self.turns.append(process)
        return process

    def turn(self, *options: str, code: int = 0) -> dict[str, str]:
        """One turn of the loop; by spec, what was done."""
        self.report_file.unlink(missing_ok=True)
        process = self.start(*options)
        output, _none = process.communicate(timeout=180)
        assert process.returncode == code, output
        report = json.loads(self.report_file.read_text())
        actions: dict[str, str] = {}
        for row in report["rows"]:
            # A removed spec is told of as long as something of it runs, which no test waits for.
            if not row["reason"].startswith("removed; "):
                actions[row["spec"]] = "+".join(filter(None, [actions.get(row["spec"]), row["action"]]))
        self.report = report
        self.output = output
        return actions

    # --- Slurm ---

    def jobs(self) -> dict[str, str]:
        """The state of every job that was ever submitted below this team's storage, by id."""
        done = subprocess.run(
            [str(PREFIX / "bin" / "sacct"), "-a", "-X", "-n", "-P", "-S", "now-2hours", "-o", "JobIDRaw,State,WorkDir"],
            text=True, capture_output=True, check=True,
        )  # fmt: skip
        queue = subprocess.run(
            [str(PREFIX / "bin" / "squeue"), "-a", "-h", "-o", "%A|%T|%Z"], text=True, capture_output=True, check=True
        )
        rows = [line.split("|") for line in [*done.stdout.splitlines(), *queue.stdout.splitlines()]]
        return {job: state for job, state, folder in rows if folder.startswith(f"{self.root}/")}

    def alive(self) -> int:
        return sum(state in ("PENDING", "RUNNING", "COMPLETING") for state in self.jobs().values())


@pytest.fixture(scope="module")
def team(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Team]:
    """One team for the whole day: the tests of this file build on one another."""
    root = PREFIX / "shared" / USER / f"gitops-{os.getpid()}"
    root.mkdir()
    shutil.chown(root, USER, USER)
    people = Team(tmp_path_factory.mktemp("team"), root)
    yield people
    people.news.shutdown()
    for process in people.turns:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
    for job_id in people.jobs():
        subprocess.run([str(PREFIX / "bin" / "scancel"), job_id], check=False)
    shutil.rmtree(root, ignore_errors=True)


def test_a_plan_says_what_a_merge_would_do_and_writes_nothing(team: Team):
    team.spec("endless", ENDLESS, on_change="cancel", prune=True, owner="ana")
    team.push("First runs")
    output = team.pipeline(".github/workflows/runs.yml", "plan")
    plan = json.loads((team.ci / "plan.json").read_text())
    assert {row["spec"]: row["action"] for row in plan["rows"]} == {"endless": "submitted", "smoke": "submitted"}
    assert "### What a merge would do on sandbox" in (team.ci / "plan.md").read_text()
    assert "gh pr comment 7 --body-file plan.md" in output
    assert list(team.root.iterdir()) == []
    assert git(team.server, "branch", "--list", "status") == ""


def test_a_merge_submits_each_run_once(team: Team):
    output = team.pipeline(".github/workflows/runs.yml", "apply")
    assert "2 submitted" in output
    assert len(team.jobs()) == 2
    commit = git(team.checkout, "rev-parse", "HEAD")
    assert f"sandbox at {commit[:12]}: 2 submitted" in output
    page = git(team.server, "show", "status:sandbox.md")
    assert f"[`smoke`](file://{team.server.parent}/server/blob/main/runs/smoke.yml)" in page


def test_a_broken_spec_is_told_with_its_place_and_harms_no_other(team: Team):
    team.spec("typo", {"nemo_gpt3_max_stepz": 20})
    (team.checkout / "runs" / "cut.yml").write_text("name: cut\nvariables: {a: [\n")
    (team.checkout / "runs" / "smoke.yml").unlink()
    team.push("Two mistakes, and one spec removed")
    actions = team.turn(code=2)
    assert actions["typo"] == "broken"
    assert actions["endless"] == "left alone"
    texts = [problem["text"] for problem in team.report["problems"]]
    assert any(text.startswith("runs/typo.yml:5: variables.nemo_gpt3_max_stepz:") for text in texts), texts
    assert any(text.startswith("runs/cut.yml:3: cannot be read:") for text in texts), texts
    assert len(team.jobs()) == 2
    path, body, authorization = [told for told in News.told if told[0].startswith("/statuses/")][-1]
    assert path == "/statuses/" + git(team.checkout, "rev-parse", "HEAD")
    assert (body["state"], body["context"], authorization) == ("failure", "runs/sandbox", "Bearer t0ken")
    assert "1 broken" in body["description"]
    hook = [told[1] for told in News.told if told[0] == "/hook/s3cret"][-1]
    assert hook["report"]["counts"]["broken"] == 1
    assert "runs/typo.yml:5" in hook["text"]


def test_two_commits_in_a_row_submit_the_last_state_alone(team: Team):
    (team.checkout / "runs" / "cut.yml").unlink()
    team.spec("typo", {**SHORT, "nemo_gpt3_max_steps": 30})
    team.push("Mend it")
    team.spec("typo", SHORT)
    team.spec("endless", {**ENDLESS, "nemo_gpt3_max_steps": 100001}, on_change="cancel", prune=True)
    team.push("Mend it well, and one step more")
    team.pipeline(".gitlab-ci.yml", "plan")
    assert "nemo_gpt3_max_steps 100000 -> 100001" in (team.ci / "plan.json").read_text()
    path, note, token = News.told[-1]
    assert (path, token) == ("/projects/3/merge_requests/9/notes", "t0ken")
    assert note["body"].strip() == (team.ci / "plan.md").read_text().strip()
    assert "| `endless` | **cancelled** |" in note["body"]
    assert team.turn() == {"endless": "submitted+cancelled", "typo": "submitted"}
    assert len(team.jobs()) == 4
    wait_until(lambda: sorted(team.jobs().values()).count("CANCELLED") <= 1, 5, "one cancelled job")


def test_a_revert_runs_what_was_cancelled_again_and_cancels_what_it_replaces(team: Team):
    git(team.checkout, "revert", "--no-edit", "HEAD")
    # The revert takes the short run back as well: it becomes the one of the commit before.
    team.push("Revert")
    actions = team.turn()
    assert actions["endless"] == "retried+cancelled"
    assert actions["typo"] == "submitted"
    assert len(team.jobs()) == 6


def test_a_reconciler_killed_in_the_middle_leaves_one_job(team: Team):
    team.spec("late", SHORT)
    team.push("One more")
    before = len(team.jobs())
    process = team.start()
    attempts = team.root / "runs" / "nemo_gpt3"
    wait_until(lambda: list(attempts.glob("late-*/attempt-1")), 120, "the submission")
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    actions = team.turn()
    assert actions["late"] in ("adopted", "left alone")
    assert len(team.jobs()) == before + 1


def test_two_places_at_once_submit_one_job(team: Team):
    team.spec("both", SHORT)
    team.push("And another one")
    before = len(team.jobs())
    elsewhere = team.config.with_name("elsewhere.json")
    elsewhere.write_text(json.dumps({**json.loads(team.config.read_text()), "home": str(team.home) + "-elsewhere"}))
    for process in [team.start(), team.start(config=elsewhere)]:
        output, _none = process.communicate(timeout=240)
        assert process.returncode == 0, output
    assert len(team.jobs()) == before + 1


def test_a_login_node_that_is_away_is_told_and_the_next_turn_goes_on(team: Team):
    away = team.config.with_name("away.json")
    config = json.loads(team.config.read_text())
    config["extra_vars"]["ansible_port"] = 9
    away.write_text(json.dumps(config))
    process = team.start(config=away)
    output, _none = process.communicate(timeout=120)
    assert process.returncode == 4, output
    assert "UNREACHABLE" in output


@pytest.mark.training
def test_another_workload_is_planned_and_trained_the_same_way(team: Team):
    before = len(team.jobs())
    team.spec("speech", SPEECH, workload="whisper_qlora")
    team.push("Whisper as well")
    actions = team.turn()
    assert actions.pop("speech") == "submitted"
    assert set(actions.values()) <= {"left alone", "collected"}
    assert len(team.jobs()) == before + 1


def test_a_force_push_that_removes_a_spec_cancels_what_may_be_pruned(team: Team):
    jobs = len(team.jobs())
    (team.checkout / "runs" / "endless.yml").unlink()
    git(team.checkout, "add", "--all")
    git(team.checkout, "reset", "--quiet", "--soft", git(team.checkout, "rev-list", "--max-parents=0", "HEAD"))
    team.push("All of it anew", "--force")
    actions = team.turn()
    assert actions["endless"] == "cancelled"
    assert len(team.jobs()) == jobs
    wait_until(lambda: team.alive() == 0, 240, "the end of all jobs")


def test_a_quiet_turn_does_nothing_and_the_status_says_how_all_stands(team: Team):
    jobs = team.jobs()
    time.sleep(2)
    team.turn()
    # The first turn may collect what has just ended; the second says that all is left alone.
    team.turn()
    status = git(team.server, "rev-parse", "status")
    News.told.clear()
    assert set(team.turn().values()) == {"left alone"}
    assert team.jobs().keys() == jobs.keys()
    # A status that says the same is neither posted to the commit nor committed again.
    assert News.told == []
    assert git(team.server, "rev-parse", "status") == status
    told = json.loads(git(team.server, "show", "status:sandbox.json"))
    assert {entry["spec"]: entry["status"] for entry in told["specs"]} == dict.fromkeys(
        ("both", "late", "typo", *(["speech"] if (team.checkout / "runs" / "speech.yml").exists() else [])), "succeeded"
    )
    assert "| `late` | succeeded |" in git(team.server, "show", "status:sandbox.md")


def test_receipts_are_named_after_commits_and_hold_no_environment(team: Team):
    commit = git(team.checkout, "rev-parse", "HEAD")[:12]
    receipts = list((team.home / "runner" / "artifacts").glob(f"{commit}-*"))
    assert len(receipts) >= 3, receipts
    assert all("env" not in json.loads((receipt / "command").read_text()) for receipt in receipts)
    assert not (team.home / "runner" / "env").exists()
    kept = [path.read_text(errors="replace") for path in (team.home / "runner").rglob("*") if path.is_file()]
    assert kept
    assert not any("s3cret" in text or "t0ken" in text for text in kept)


def test_the_loop_is_installed_and_its_command_does_a_turn(team: Team, tmp_path: Path):
    (tmp_path / "cron.d").mkdir()
    variables = {
        "ansible_connection": "local",
        "ansible_python_interpreter": sys.executable,
        "reconcile_loop_repository": f"file://{team.server}",
        "reconcile_loop_home": str(tmp_path / "home"),
        "reconcile_loop_python": sys.executable,
        "reconcile_loop_collections_path": str(CHECKOUT / "collections"),
        "reconcile_loop_scheduler": "cron",
        "reconcile_loop_cron_directory": str(tmp_path / "cron.d"),
        "reconcile_loop_systemd_directory": str(tmp_path),
        "reconcile_loop_extra_vars": {"dgxc_shared_root": str(team.root)},
    }

    def install(**more: object) -> str:
        command = [str(BIN / "ansible-playbook"), "playbooks/reconcile_loop.yml", "-i", "localhost,"]
        command += ["-e", json.dumps({**variables, **more})]
        environment = dict(os.environ, ANSIBLE_CONFIG=str(CHECKOUT / "ansible.cfg"))
        return subprocess.run(command, cwd=CHECKOUT, env=environment, text=True, capture_output=True, check=True).stdout

    jobs = team.jobs()
    install()
    assert "changed=0" in install()
    line = (tmp_path / "cron.d" / "dgxc-reconcile").read_text().splitlines()[-1]
    assert line.startswith("*/5 * * * * root ")
    command = line.removeprefix("*/5 * * * * root ").partition(" 2>&1 |")[0]
    # As cron would: with next to nothing in the environment.
    environment = {"HOME": os.environ["HOME"], "PATH": "/usr/bin:/bin"}
    done = subprocess.run(["sh", "-c", command], env=environment, text=True, capture_output=True, check=False)
    assert done.returncode == 0, done.stdout
    assert re.search(r": [34] left alone", done.stdout), done.stdout
    assert team.jobs().keys() == jobs.keys()
    install(reconcile_loop_scheduler="systemd")
    # One starts the turns, not both.
    assert list((tmp_path / "cron.d").iterdir()) == []
    units = [tmp_path / f"dgxc-reconcile.{kind}" for kind in ("service", "timer")]
    assert f"ExecStart={command}\n" in units[0].read_text()
    if shutil.which("systemd-analyze"):
        verified = subprocess.run(["systemd-analyze", "verify", *units], text=True, capture_output=True, check=False)
        # It names the lines that it does not understand, and the machine's own units as well.
        assert not [line for line in verified.stderr.splitlines() if "dgxc-reconcile" in line], verified.stderr
        assert verified.returncode == 0, verified.stderr
    install(reconcile_loop_state="absent")
    assert not [unit for unit in units if unit.exists()]
    with pytest.raises(subprocess.CalledProcessError) as refused:
        install(reconcile_loop_name="a.b", reconcile_loop_minutes=60)
    told = " ".join(refused.value.stdout.split())
    assert 'reconcile_loop_name is "a.b": give letters' in told
    assert "reconcile_loop_minutes is 60: give 1 to 59." in told


def test_ansible_pull_runs_signed_commits_only(team: Team, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    if shutil.which("gpg") is None:
        pytest.skip("needs gpg")
    keys = tempfile.mkdtemp()
    monkeypatch.setenv("GNUPGHOME", keys)
    key = ["--quick-gen-key", "Team <team@example.org>", "ed25519", "sign", "never"]
    subprocess.run(["gpg", "--batch", "--quiet", "--passphrase", "", *key], check=True, capture_output=True)
    # The line of the example's README, with this server's address.
    (line,) = [
        line for line in (team.checkout / "README.md").read_text().splitlines() if line.startswith("ansible-pull ")
    ]
    command = [f"file://{team.server}" if word.startswith("https://") else word for word in line.split()]
    command += ["-d", str(tmp_path / "pulled"), "-e", f"dgxc_shared_root={team.root}"]
    environment = dict(os.environ, PATH=f"{BIN}:{os.environ['PATH']}")
    environment["ANSIBLE_COLLECTIONS_PATH"] = str(CHECKOUT / "collections")

    def pull() -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            command, cwd=tmp_path, env=environment, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
            check=False,
        )  # fmt: skip

    jobs = team.jobs()
    try:
        done = pull()
        assert done.returncode != 0
        assert "Failed to verify GPG signature" in done.stdout
        assert "PLAY [" not in done.stdout
        git(team.checkout, "commit", "--quiet", "--allow-empty", "--gpg-sign", "-m", "Signed")
        git(team.checkout, "push", "--quiet", f"file://{team.server}", "HEAD:main")
        done = pull()
        assert done.returncode == 0, done.stdout
        assert re.search(r": [34] left alone", done.stdout), done.stdout
    finally:
        subprocess.run(["gpgconf", "--kill", "all"], check=False)
        shutil.rmtree(keys, ignore_errors=True)
    assert team.jobs().keys() == jobs.keys()


class Moody(BaseHTTPRequestHandler):
    """A server that answers with the number in the path, or not at all."""

    told: ClassVar[list[tuple[str, str]]] = []

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        self.told.append((self.path, self.headers.get("Authorization", "")))
        number = int(self.path.split("/")[1])
        if number == 0:
            time.sleep(5)
            return
        self.send_response(number)
        self.end_headers()

    def log_message(self, *arguments: object) -> None:
        pass


def test_a_server_that_takes_no_news_stops_nothing_and_gives_no_secret_away(tmp_path: Path):
    server = ThreadingHTTPServer(("127.0.0.1", 0), Moody)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    address = f"http://127.0.0.1:{server.server_port}"
    report = {
        "schema": 1, "cluster": "here", "mode": "apply", "commit": "a" * 40, "version": "1", "errors": [], "rows": [],
        "counts": {"submitted": 1}, "hold_prune": "",
        "problems": [{"file": "a.yml", "line": 1, "key": "", "message": "m", "name": "a", "text": "a.yml:1: m"}],
    }  # fmt: skip
    servers = [f"{address}/{number}" for number in (401, 500, 0)]
    tasks = [
        {
            "ansible.builtin.include_role": {"name": "dgxc.workloads.reconcile", "tasks_from": "status"},
            "vars": {"reconcile_webhook": f"{place}/s3cret", "reconcile_commit_status_url": place},
        }
        for place in servers
    ]
    variables = {
        "__reconcile_report": report, "reconcile_http_timeout": 1, "reconcile_commit_status_token": "t0ken",
        "ansible_connection": "local", "ansible_python_interpreter": sys.executable,
    }  # fmt: skip
    play = tmp_path / "play.yml"
    play.write_text(json.dumps([{"hosts": "all", "gather_facts": False, "vars": variables, "tasks": tasks}]))
    seen: set[str] = set()
    process = subprocess.Popen(
        [str(BIN / "ansible-playbook"), "-vvv", "-i", "localhost,", str(play)], cwd=CHECKOUT, text=True,
        env=dict(os.environ, ANSIBLE_CONFIG=str(CHECKOUT / "ansible.cfg")), stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    )  # fmt: skip
    watching = threading.Thread(target=_command_lines, args=(process, seen))
    watching.start()
    output, _none = process.communicate(timeout=120)
    watching.join()
    server.shutdown()
    assert process.returncode == 0, output
    assert Moody.told == [
        told
        for number in (401, 500, 0)
        for told in ((f"/{number}/s3cret", ""), (f"/{number}/" + "a" * 40, "Bearer t0ken"))
    ]
    words = " ".join(output.split())
    for answer, place in zip(("status 401.", "status 500.", "no answer."), servers, strict=True):
        assert f"{place} did not take the status of {'a' * 40}: {answer}" in words
    assert words.count("The webhook (reconcile_webhook) did not take the report: no answer.") == 1
    assert "s3cret" not in output
    assert "t0ken" not in output
    assert any("ansible-playbook" in line for line in seen)
    assert not [line for line in seen if "s3cret" in line or "t0ken" in line]


def _command_lines(process: subprocess.Popen[str], seen: set[str]) -> None:
    """Gather the command lines of all processes of the machine while a process runs."""
    while process.poll() is None:
        for path in Path("/proc").glob("[0-9]*/cmdline"):
            with contextlib.suppress(OSError):
                seen.add(path.read_bytes().replace(b"\0", b" ").decode(errors="replace"))
        time.sleep(0.1)
