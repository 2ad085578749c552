# Copyright: (c) 2026, The dgxc.workloads developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A day of a team's commits to the example repository, on the sandbox, with all jobs counted."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, ClassVar

import pytest

from tests.harness.sandbox import BIN, CHECKOUT, PREFIX, USER, wait_until

LOOP = CHECKOUT / "roles" / "reconcile" / "files" / "reconcile_loop.py"
ENDLESS = {"nemo_gpt3_max_steps": 100000, "nemo_gpt3_val_check_interval": 1000}
SHORT = {"nemo_gpt3_max_steps": 20, "nemo_gpt3_val_check_interval": 10}


def git(folder: Path, *arguments: str) -> str:
    identity = ["-c", "user.name=Team", "-c", "user.email=team@example.org"]
    return subprocess.run(
        ["git", "-C", str(folder), *identity, *arguments], text=True, capture_output=True, check=True
    ).stdout.strip()


class News(BaseHTTPRequestHandler):
    """A server that is told what happens, by webhook and as statuses of commits."""

    told: ClassVar[list[tuple[str, dict[str, Any], str]]] = []

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.told.append((self.path, body, self.headers.get("Authorization", "")))
        self.send_response(201)
        self.end_headers()

    def log_message(self, *arguments: object) -> None:
        pass


class Team:
    """People with a checkout of the example repository, a Git server, and a host that reconciles."""

    def __init__(self, folder: Path, root: Path) -> None:
        self.root = root
        self.server, self.checkout, self.home = folder / "server.git", folder / "checkout", folder / "home"
        subprocess.run(["git", "init", "--quiet", "--bare", str(self.server)], check=True)
        shutil.copytree(CHECKOUT / "examples" / "gitops", self.checkout)
        git(self.checkout, "init", "--quiet", "--initial-branch=main")
        self.news = ThreadingHTTPServer(("127.0.0.1", 0), News)
        threading.Thread(target=self.news.serve_forever, daemon=True).start()
        address = f"http://127.0.0.1:{self.news.server_port}"
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
        spec = {"name": name, "workload": "nemo_gpt3", "variables": variables, **fields}
        (self.checkout / "runs" / f"{name}.yml").write_text(json.dumps(spec, indent=1))

    def push(self, message: str, *options: str) -> None:
        git(self.checkout, "add", "--all")
        git(self.checkout, "commit", "--quiet", "--allow-empty", "-m", message)
        git(self.checkout, "push", "--quiet", *options, f"file://{self.server}", "HEAD:main")

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
    assert team.turn("--check") == {"endless": "submitted", "smoke": "submitted"}
    assert list(team.root.iterdir()) == []
    assert git(team.server, "branch", "--list", "status") == ""


def test_a_merge_submits_each_run_once(team: Team):
    assert team.turn() == {"endless": "submitted", "smoke": "submitted"}
    assert len(team.jobs()) == 2


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
    assert team.turn("--check") == {"endless": "submitted+cancelled", "typo": "submitted"}
    assert "nemo_gpt3_max_steps 100000 -> 100001" in json.dumps(team.report)
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
    status = git(team.server, "rev-parse", "status")
    News.told.clear()
    assert set(team.turn().values()) == {"left alone"}
    assert team.jobs().keys() == jobs.keys()
    assert [path.split("/")[1] for path, _body, _authorization in News.told] == ["statuses"]
    assert News.told[0][1]["state"] == "success"
    # A status that says the same is not committed again.
    assert git(team.server, "rev-parse", "status") == status
    told = json.loads(git(team.server, "show", "status:sandbox.json"))
    assert {entry["spec"]: entry["status"] for entry in told["specs"]} == dict.fromkeys(
        ("both", "late", "typo"), "succeeded"
    )
    assert "| `late` | succeeded |" in git(team.server, "show", "status:sandbox.md")


def test_receipts_are_named_after_commits_and_hold_no_environment(team: Team):
    commit = git(team.checkout, "rev-parse", "HEAD")[:12]
    receipts = list((team.home / "runner" / "artifacts").glob(f"{commit}-*"))
    assert len(receipts) == 3, receipts
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

    def install(**more: str) -> str:
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
    assert "3 left alone" in done.stdout
    assert team.jobs().keys() == jobs.keys()
    install(reconcile_loop_state="absent")
    assert list((tmp_path / "cron.d").iterdir()) == []
