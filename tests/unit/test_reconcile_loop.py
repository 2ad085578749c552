# Copyright: (c) 2026, The dgxc.workloads developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""One turn of the loop: what it takes from the repository, what it trusts, and what it does when something fails."""

from __future__ import annotations

import contextlib
import errno
import importlib.util
import json
import os
import shutil
import subprocess
import sys
import threading
import types
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import ModuleType
from typing import Any, ClassVar

import pytest

PROGRAM = Path(__file__).resolve().parents[2] / "roles" / "reconcile" / "files" / "reconcile_loop.py"


@pytest.fixture
def loop() -> ModuleType:
    spec = importlib.util.spec_from_file_location("reconcile_loop", PROGRAM)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


class Server:
    """A Git server with a person who commits."""

    def __init__(self, folder: Path) -> None:
        self.bare, self.work, self.key = folder / "server.git", folder / "work", folder / "key"
        self.signers = folder / "signers"
        subprocess.run(["git", "init", "--quiet", "--bare", str(self.bare)], check=True)
        subprocess.run(["git", "init", "--quiet", "--initial-branch=main", str(self.work)], check=True)

    def git(self, *arguments: str) -> str:
        command = ["git", "-C", str(self.work), "-c", "user.name=Ana", "-c", "user.email=ana@example.org"]
        if self.key.exists():
            command += ["-c", "gpg.format=ssh", "-c", f"user.signingkey={self.key}"]
        return subprocess.run([*command, *arguments], text=True, capture_output=True, check=True).stdout.strip()

    def make_key(self) -> None:
        subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(self.key)], check=True)
        self.signers.write_text("ana@example.org " + self.key.with_suffix(".pub").read_text())

    def push(self, text: str, *options: str, refs: str = "HEAD:main") -> str:
        (self.work / "file").write_text(text)
        self.git("add", "--all")
        self.git("commit", "--quiet", "--allow-empty", "-m", text, *[word for word in options if word == "-S"])
        self.git("push", "--quiet", *[word for word in options if word != "-S"], str(self.bare), *refs.split())
        return self.git("rev-parse", "HEAD")


@pytest.fixture
def server(tmp_path: Path) -> Server:
    return Server(tmp_path)


def config(loop: ModuleType, tmp_path: Path, server: Server, **fields: Any) -> dict[str, Any]:
    path = tmp_path / "config.json"
    path.write_text(json.dumps({"home": str(tmp_path / "home"), "repository": str(server.bare), **fields}))
    return loop.read_config(path)


@pytest.fixture
def played(loop: ModuleType, monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, str]]:
    """What the turns would have run: the commit, and what the file of the repository said."""
    turns: list[tuple[str, str]] = []

    def run(values: dict[str, Any], home: Path, project: Path, commit: str, check: bool) -> int:
        turns.append((commit, (project / "file").read_text()))
        return 0

    monkeypatch.setattr(loop, "run_playbook", run)
    return turns


def test_each_turn_runs_the_newest_commit_whatever_became_of_the_history(loop, tmp_path, server, played):
    values = config(loop, tmp_path, server)
    first = server.push("one")
    assert loop.turn(values, False) == 0
    second = server.push("two")
    loop.turn(values, False)
    server.git("reset", "--quiet", "--hard", first)
    third = server.push("three", "--force")
    loop.turn(values, False)
    assert played == [(first, "one"), (second, "two"), (third, "three")]
    assert [path.name for path in (tmp_path / "home" / "checkouts").iterdir()] == [third]


def test_without_the_network_the_last_commit_goes_on(loop, tmp_path, server, played, capsys):
    values = config(loop, tmp_path, server)
    commit = server.push("one")
    loop.turn(values, False)
    server.bare.rename(tmp_path / "away")
    assert loop.turn(values, False) == 0
    assert played[-1] == (commit, "one")
    assert f"going on with {commit[:12]}" in capsys.readouterr().out


def test_a_first_turn_without_the_network_cannot_begin(loop, tmp_path, server, played):
    values = config(loop, tmp_path, server, repository=str(tmp_path / "nowhere"))
    with pytest.raises(loop.CannotBegin, match="git fetch"):
        loop.turn(values, False)
    assert played == []


def test_only_signed_commits_are_run(loop, tmp_path, server, played, capsys):
    server.make_key()
    values = config(loop, tmp_path, server, verify=True, allowed_signers=str(server.signers))
    server.push("unsigned")
    with pytest.raises(loop.CannotBegin, match="no good signature"):
        loop.turn(values, False)
    good = server.push("signed", "-S")
    loop.turn(values, False)
    server.push("unsigned again")
    assert loop.turn(values, False) == 0
    assert [commit for commit, _text in played] == [good, good]
    assert "no good signature" in capsys.readouterr().out


def test_the_newest_signed_tag_is_followed(loop, tmp_path, server, played):
    server.make_key()
    values = config(loop, tmp_path, server, tag="runs-*", verify=True, allowed_signers=str(server.signers))
    server.push("one")
    for name in ("runs-9", "runs-10"):
        server.git("tag", "-s", "-m", name, name)
        tagged = server.push(name, refs=f"HEAD:main {name}")
        server.git("tag", "-f", "-s", "-m", name, name)
        server.git("push", "--quiet", "--force", str(server.bare), name)
    server.push("not tagged")
    loop.turn(values, False)
    assert played == [(tagged, "runs-10")]


def test_a_tag_counts_under_the_name_that_was_signed_only(loop, tmp_path, server, played, capsys):
    server.make_key()
    values = config(loop, tmp_path, server, tag="runs-*", verify=True, allowed_signers=str(server.signers))
    for name in ("runs-1", "runs-2"):
        server.push(name)
        server.git("tag", "-s", "-m", name, name)
    server.git("push", "--quiet", str(server.bare), "runs-1", "runs-2")
    loop.turn(values, False)
    # Whoever can write to the server, and has no key, calls the old tag a newer one.
    subprocess.run(["git", "-C", str(server.bare), "update-ref", "refs/tags/runs-3", "refs/tags/runs-1"], check=True)
    loop.turn(values, False)
    assert [text for _commit, text in played] == ["runs-2", "runs-2"]
    assert "was signed as runs-1, so it counts for nothing" in capsys.readouterr().out


def test_the_signature_of_a_stranger_or_of_other_content_is_none(loop, tmp_path, server, played, capsys):
    server.make_key()
    values = config(loop, tmp_path, server, verify=True, allowed_signers=str(server.signers))
    good = server.push("signed", "-S")
    loop.turn(values, False)
    signed = server.git("cat-file", "commit", "HEAD")
    forged = subprocess.run(
        ["git", "-C", str(server.work), "hash-object", "-t", "commit", "-w", "--stdin"],
        input=signed.replace("\nsigned", "\nforged") + "\n", text=True, capture_output=True, check=True,
    ).stdout.strip()  # fmt: skip
    server.git("push", "--quiet", "--force", str(server.bare), f"{forged}:main")
    loop.turn(values, False)
    # Another key, which the file of signers does not have.
    signers = server.signers.read_text()
    server.key.unlink()
    server.make_key()
    server.signers.write_text(signers)
    server.push("of a stranger", "-S", "--force")
    loop.turn(values, False)
    assert [commit for commit, _text in played] == [good, good, good]
    assert capsys.readouterr().out.count("no good signature") == 2
    assert [path.name for path in (tmp_path / "home" / "checkouts").iterdir()] == [good]


@pytest.mark.parametrize("tag", ["", "runs-*"])
def test_signatures_count_from_the_turn_on_that_asks_for_them(loop, tmp_path, server, played, tag):
    server.make_key()
    nobody = tmp_path / "nobody"
    nobody.write_text("")
    server.push("unsigned")
    server.git("tag", "runs-1")
    server.git("push", "--quiet", str(server.bare), "runs-1")
    assert loop.turn(config(loop, tmp_path, server, tag=tag), False) == 0
    strict = config(loop, tmp_path, server, tag=tag, verify=True, allowed_signers=str(nobody))
    with pytest.raises(loop.CannotBegin, match="no good signature") as told:
        loop.turn(strict, False)
    assert ("it is not signed" if not tag else "cannot verify a non-tag object") in str(told.value)
    server.bare.rename(tmp_path / "away")
    # Neither does the network's absence make the earlier commit good.
    with pytest.raises(loop.CannotBegin, match=r"but .* has no good signature"):
        loop.turn(strict, False)
    assert len(played) == 1


@pytest.mark.parametrize("tag", ["", "runs-*"])
def test_a_signer_who_is_taken_away_counts_no_more(loop, tmp_path, server, played, capsys, tag):
    server.make_key()
    values = config(loop, tmp_path, server, tag=tag, verify=True, allowed_signers=str(server.signers))
    good = server.push("signed", "-S")
    server.git("tag", "-s", "-m", "one", "runs-1")
    server.git("push", "--quiet", str(server.bare), "runs-1")
    loop.turn(values, False)
    away = server.bare.rename(tmp_path / "away")
    # The earlier one is verified again, and is good still.
    assert loop.turn(values, False) == 0
    assert [commit for commit, _text in played] == [good, good]
    assert f"going on with {good[:12]}" in capsys.readouterr().out
    server.signers.write_text("")
    with pytest.raises(loop.CannotBegin, match=r"but .* has no good signature"):
        loop.turn(values, False)
    away.rename(server.bare)
    with pytest.raises(loop.CannotBegin, match="no good signature") as told:
        loop.turn(values, False)
    assert str(told.value).count("no good signature") == 1
    assert "git -c" not in str(told.value)
    assert len(played) == 2


def test_an_earlier_tag_counts_under_the_name_that_was_signed_only(loop, tmp_path, server, played):
    server.make_key()
    server.push("old")
    server.git("tag", "-s", "-m", "one", "runs-1")
    server.git("push", "--quiet", str(server.bare), "runs-1")
    # While signatures did not count yet, the old tag was run under a newer name.
    subprocess.run(["git", "-C", str(server.bare), "update-ref", "refs/tags/runs-2", "refs/tags/runs-1"], check=True)
    loop.turn(config(loop, tmp_path, server, tag="runs-*"), False)
    server.bare.rename(tmp_path / "away")
    values = config(loop, tmp_path, server, tag="runs-*", verify=True, allowed_signers=str(server.signers))
    with pytest.raises(loop.CannotBegin, match="was signed as runs-1"):
        loop.turn(values, False)
    assert len(played) == 1


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ({}, {"repository": "/nowhere"}),
        ({}, {"branch": "mian"}),
        ({}, {"tag": "run-*"}),
        ({"tag": "runs-*"}, {"tag": "run-*"}),
        ({"tag": "runs-*"}, {"tag": "runs-*", "repository": "/nowhere"}),
        ({"tag": "runs-*"}, {"branch": "mian"}),
    ],
)
def test_what_was_run_for_other_settings_is_not_gone_on_with(loop, tmp_path, server, played, capsys, before, after):
    commit = server.push("one")
    server.git("tag", "runs-1")
    server.git("push", "--quiet", str(server.bare), "runs-1")
    loop.turn(config(loop, tmp_path, server, **before), False)
    with pytest.raises(loop.CannotBegin, match=r"git fetch|no tag matches"):
        loop.turn(config(loop, tmp_path, server, **after), False)
    assert played == [(commit, "one")]
    # With the settings of before, it goes on.
    server.bare.rename(tmp_path / "away")
    assert loop.turn(config(loop, tmp_path, server, **before), False) == 0
    assert played[-1] == (commit, "one")
    assert f"going on with {commit[:12]}" in capsys.readouterr().out


def test_only_what_the_last_turn_ran_is_kept(loop, tmp_path, server, played):
    server.push("one")
    for name in ("runs/1", "runs"):
        server.git("tag", "-f", "-m", name, name)
        server.git("push", "--quiet", str(server.bare), name)
        loop.turn(config(loop, tmp_path, server, tag=name), False)
        server.git("tag", "-d", name)
        server.git("push", "--quiet", "--delete", str(server.bare), name)
        # The tag is gone, and what it was at is not.
        loop.turn(config(loop, tmp_path, server, tag=name), False)
    loop.turn(config(loop, tmp_path, server), False)
    kept = ["git", "-C", str(tmp_path / "home" / "repository.git"), "for-each-ref", "--format=%(refname)", "refs/loop"]
    names = subprocess.run(kept, text=True, capture_output=True, check=True).stdout.split()
    assert [name.rpartition("/")[2] for name in names] == ["main"]
    assert len(played) == 5


def test_the_newest_tag_is_the_newest_version(loop, tmp_path, server, played):
    values = config(loop, tmp_path, server, tag="v*")
    for name in ("v1.0", "v1.0-rc1", "v0.9", "v1.0-rc2"):
        server.push(name)
        server.git("tag", name)
    server.git("push", "--quiet", "--tags", str(server.bare))
    loop.turn(values, False)
    server.push("v1.1-rc1")
    server.git("tag", "v1.1-rc1")
    server.git("push", "--quiet", "--tags", str(server.bare))
    loop.turn(values, False)
    assert [text for _commit, text in played] == ["v1.0", "v1.1-rc1"]


@pytest.mark.parametrize(
    ("target", "told"), [("/etc/hostname", "absolute path"), ("../../out", "outside"), ("x" * 300, "")]
)
def test_a_link_that_leads_out_of_the_repository_stops_its_commit_alone(
    loop, tmp_path, server, played, capsys, monkeypatch, target, told
):
    values = config(loop, tmp_path, server)
    monkeypatch.setattr("sys.argv", ["reconcile_loop.py", str(tmp_path / "config.json")])
    link = server.work / "link"
    link.symlink_to(target)
    if len(target) > 255:
        # No file of that name either.
        link.unlink()
        blob = server.git("hash-object", "-w", "--stdin")
        tree = subprocess.run(
            ["git", "-C", str(server.work), "mktree"], input=f"100644 blob {blob}\tfile\n100644 blob {blob}\t{target}\n",
            text=True, capture_output=True, check=True,
        ).stdout.strip()  # fmt: skip
        bad = server.git("commit-tree", "-m", "long", tree)
        server.git("push", "--quiet", str(server.bare), f"{bad}:refs/heads/main")
    else:
        bad = server.push("with a link")
    assert loop.main() == loop.CANNOT_BEGIN
    said = capsys.readouterr().out
    assert f"{bad[:12]} cannot be unpacked: " in said
    assert target[:12] in said or "'link'" in said
    assert told in said
    # It did not become the one to go on with.
    server.bare.rename(tmp_path / "away")
    assert loop.main() == loop.CANNOT_BEGIN
    (tmp_path / "away").rename(server.bare)
    link.unlink(missing_ok=True)
    good = server.push("without", "--force")
    assert loop.turn(values, False) == 0
    server.git("push", "--quiet", "--force", str(server.bare), f"{bad}:refs/heads/main")
    assert loop.turn(values, False) == 0
    assert played == [(good, "without"), (good, "without")]
    assert f"going on with {good[:12]}" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("path", "fields", "refused"),
    [
        ("runs/sub", {}, True),
        ("runs", {}, True),
        ("inventory/group_vars", {}, True),
        ("a", {"specs": "a/b/runs"}, True),
        ("anywhere", {"specs": "."}, True),
        # The folder of specs is a link to one below the other.
        ("real/sub", {"specs": "link"}, True),
        ("runs-of-others", {}, False),
        ("docs/theme", {}, False),
    ],
)
def test_specs_in_a_submodule_do_not_look_removed(loop, tmp_path, server, played, path, fields, refused):
    values = config(loop, tmp_path, server, **fields)
    (server.work / "link").symlink_to("real")
    commit = server.push("before")
    server.git("update-index", "--add", "--cacheinfo", f"160000,{commit},{path}")
    server.git("commit", "--quiet", "-m", "A submodule")
    server.git("push", "--quiet", str(server.bare), "HEAD:main")
    if refused:
        with pytest.raises(loop.CannotBegin, match=f"has the submodule {path}, whose files are not here"):
            loop.turn(values, False)
        assert played == []
        assert not [name for name in (tmp_path / "home" / "checkouts").iterdir() if "." not in name.name]
    else:
        assert loop.turn(values, False) == 0
        assert len(played) == 1


def test_specs_that_an_archive_would_leave_out_are_there(loop, tmp_path, server, played):
    (server.work / ".gitattributes").write_text("file export-ignore\n")
    commit = server.push("$Format:%H$")
    (server.work / ".gitattributes").write_text("file export-subst\n")
    assert loop.turn(config(loop, tmp_path, server), False) == 0
    last = server.push("$Format:%H$")
    assert loop.turn(config(loop, tmp_path, server), False) == 0
    assert played == [(commit, "$Format:%H$"), (last, "$Format:%H$")]


def test_git_and_the_playbook_see_the_environment_that_they_are_given_and_no_secrets(
    loop, tmp_path, server, monkeypatch
):
    seen: list[dict[str, str]] = []

    def run(**arguments: Any) -> types.SimpleNamespace:
        seen.append(dict(os.environ))
        return types.SimpleNamespace(status="successful", rc=0)

    monkeypatch.setitem(sys.modules, "ansible_runner", types.SimpleNamespace(run=run))
    given = {**os.environ, "HTTPS_PROXY": "http://proxy:3128", "no_proxy": "localhost", "TOKEN": "s3cret"}
    monkeypatch.setattr(os, "environ", given)
    environment = {
        "ANSIBLE_VAULT_PASSWORD_FILE": "/etc/vault", "GIT_CONFIG_COUNT": "1",
        "GIT_CONFIG_KEY_0": f"url.{server.bare}.insteadOf", "GIT_CONFIG_VALUE_0": "https://git.example.org/runs.git",
    }  # fmt: skip
    server.push("one")
    values = config(loop, tmp_path, server, repository="https://git.example.org/runs.git", environment=environment)
    assert loop.turn(values, False) == 0
    expected = {**environment, "HTTPS_PROXY": "http://proxy:3128", "no_proxy": "localhost"}
    assert expected.items() <= seen[0].items()
    assert "TOKEN" not in seen[0]


@pytest.fixture
def keyring(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A keyring of GnuPG with one key of Ana's."""
    if shutil.which("gpg") is None:
        pytest.skip("needs gpg")
    # Short, because a socket lies in it.
    home = Path(subprocess.run(["mktemp", "-d"], text=True, capture_output=True, check=True).stdout.strip())
    monkeypatch.setenv("GNUPGHOME", str(home))
    key = ["--quick-gen-key", "Ana <ana@example.org>", "ed25519", "sign", "never"]
    subprocess.run(["gpg", "--batch", "--quiet", "--passphrase", "", *key], check=True, capture_output=True)
    yield
    subprocess.run(["gpgconf", "--kill", "all"], check=False)
    shutil.rmtree(home)


@pytest.mark.usefixtures("keyring")
@pytest.mark.parametrize("tag", ["", "runs-*"])
def test_signatures_of_gnupg_count_by_the_keyring(loop, tmp_path, server, played, capsys, tag):
    values = config(loop, tmp_path, server, verify=True, tag=tag)
    server.push("unsigned")
    server.git("tag", "runs-1")
    server.git("push", "--quiet", str(server.bare), "runs-1")
    with pytest.raises(loop.CannotBegin, match="no good signature"):
        loop.turn(values, False)
    # Nothing of it was read.
    assert not (tmp_path / "home" / "checkouts").exists()
    good = server.push("signed", "-S")
    server.git("tag", "-s", "-m", "two", "runs-2")
    server.git("push", "--quiet", str(server.bare), "runs-2")
    assert loop.turn(values, False) == 0
    assert played == [(good, "signed")]


def test_a_damaged_copy_is_made_anew(loop, tmp_path, server, played, capsys):
    values = config(loop, tmp_path, server)
    commit = server.push("one")
    loop.turn(values, False)
    # As a power cut may leave them: files of the right name without content.
    for path in (tmp_path / "home" / "repository.git" / "objects").rglob("*"):
        if path.is_file():
            path.chmod(0o600)
            path.write_bytes(b"")
    assert loop.turn(values, False) == 0
    assert played[-1] == (commit, "one")
    assert "is damaged and made anew" in capsys.readouterr().out


def test_a_cut_checkout_is_not_taken_for_a_whole_one(loop, tmp_path, server, played):
    values = config(loop, tmp_path, server)
    commit = server.push("one")
    loop.turn(values, False)
    (tmp_path / "home" / "checkouts" / commit / "file").write_text("")
    loop.turn(values, False)
    assert played[-1] == (commit, "one")


def test_collections_that_were_cut_off_do_not_count_as_installed(loop, tmp_path, monkeypatch):
    project, home, calls = tmp_path / "project", tmp_path / "home", tmp_path / "calls"
    (project / "collections").mkdir(parents=True)
    home.mkdir()
    galaxy = tmp_path / "ansible-galaxy"
    galaxy.write_text(f'#!/bin/sh\necho "$@" >> {calls}\n! grep -q bad "$5" || exit 1\n')
    galaxy.chmod(0o755)
    values = {"collections_path": "", "job_timeout": 60}

    def install(text: str) -> str:
        (project / "collections" / "requirements.yml").write_text(text)
        return loop.collections_path(values, home, project, {"PATH": f"{tmp_path}:/usr/bin:/bin"})

    assert install("one") == install("one") == str(home / "collections")
    assert len(calls.read_text().splitlines()) == 1
    with pytest.raises(loop.CannotBegin, match="cannot be installed"):
        install("bad")
    install("one")
    assert len(calls.read_text().splitlines()) == 3


class Statuses(BaseHTTPRequestHandler):
    """A Git server that is told statuses of commits, and refuses the first one."""

    told: ClassVar[list[tuple[str, str, str]]] = []

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.told.append((self.path[-40:][0], body["state"], body["description"].partition(": ")[2]))
        self.send_response(500 if len(self.told) == 1 else 201)
        self.end_headers()

    def log_message(self, *arguments: object) -> None:
        pass


def ansible_playbook(*arguments: str) -> subprocess.CompletedProcess[str]:
    """Run a playbook in the checkout."""
    program = shutil.which("ansible-playbook", path=os.path.dirname(sys.executable)) or shutil.which("ansible-playbook")
    checkout = PROGRAM.parents[3]
    if program is None or not (checkout / "playbooks" / "reconcile.yml").is_file():
        pytest.skip("needs ansible-playbook and the playbooks")
    environment = dict(os.environ, ANSIBLE_CONFIG=str(checkout / "ansible.cfg"))
    return subprocess.run(
        [program, *arguments], cwd=checkout, text=True, capture_output=True, check=False, env=environment
    )


@pytest.mark.parametrize("playbook", ["playbooks/reconcile.yml", "examples/gitops/reconcile.yml"])
def test_a_cluster_that_hangs_holds_up_no_other(tmp_path, playbook):
    reports = {name: tmp_path / f"{name}.json" for name in ("quick", "patient", "hung")}
    pythons = {
        "quick": sys.executable,
        # Answers once the other has reported, which it does at once or, if one waits for the other, never.
        "patient": f'until test -e {reports["quick"]}; do sleep 0.1; done\nexec {sys.executable} "$@"\n',
        "hung": "exec sleep 30\n",
    }
    hosts: dict[str, dict[str, Any]] = {}
    for name, python in pythons.items():
        hosts[name] = {"ansible_connection": "local", "ansible_python_interpreter": python}
        if name != "quick":
            wrapper = tmp_path / name
            wrapper.write_text("#!/bin/sh\n" + python)
            wrapper.chmod(0o755)
            hosts[name]["ansible_python_interpreter"] = str(wrapper)
    hosts["patient"]["reconcile_timeout"] = 60
    hosts["hung"]["reconcile_timeout"] = 1
    inventory = tmp_path / "hosts.yml"
    inventory.write_text(json.dumps({"all": {"children": {"slurm_login": {"hosts": hosts}}}}))
    (tmp_path / "runs").mkdir()
    variables = {
        "dgxc_shared_root": str(tmp_path / "shared"),
        "reconcile_specs": str(tmp_path / "runs"),
        "reconcile_report_files": [str(tmp_path / "{{ inventory_hostname }}.json")],
    }
    done = ansible_playbook("-i", str(inventory), playbook, "-e", json.dumps(variables))
    assert done.returncode == 2, done.stdout
    assert [name for name, path in reports.items() if path.exists()] == ["quick", "patient"], done.stdout
    assert "timed out" in done.stdout.lower(), done.stdout


def test_a_commit_gets_a_status_when_it_differs_from_its_last_one(tmp_path):
    server = ThreadingHTTPServer(("127.0.0.1", 0), Statuses)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    nothing = {"schema": 1, "cluster": "here", "mode": "apply", "version": "1", "errors": [], "rows": [],
               "hold_prune": "", "problems": []}  # fmt: skip
    problem = {"file": "a.yml", "line": 1, "key": "", "message": "m", "name": "a", "text": "a.yml:1: m"}
    turns = [
        {"commit": "a" * 40, "counts": {"submitted": 1}},
        {"commit": "a" * 40, "counts": {"submitted": 1}},  # because the server did not take it
        {"commit": "a" * 40, "counts": {"submitted": 1}},
        {"commit": "a" * 40, "counts": {"submitted": 1}, "problems": [problem]},
        {"commit": "b" * 40, "counts": {"left alone": 1}},
    ]
    tasks = [
        {
            "ansible.builtin.include_role": {"name": "dgxc.workloads.reconcile", "tasks_from": "status"},
            "vars": {"__reconcile_report": {**nothing, **turn}},
        }
        for turn in turns
    ]
    variables = {
        "reconcile_commit_status_url": f"http://127.0.0.1:{server.server_port}", "reconcile_commit_status_token": "t0ken",
        # Nothing was ever reconciled there.
        "reconcile_state_dir": str(tmp_path / "state" / "main"),
        "ansible_connection": "local", "ansible_python_interpreter": sys.executable,
    }  # fmt: skip
    play = tmp_path / "play.yml"
    play.write_text(json.dumps([{"hosts": "all", "gather_facts": False, "vars": variables, "tasks": tasks}]))
    done = ansible_playbook("-i", "localhost,", str(play))
    server.shutdown()
    assert done.returncode == 0, done.stdout
    assert Statuses.told == [
        ("a", "success", "1 submitted"),
        ("a", "success", "1 submitted"),
        ("a", "failure", "1 submitted"),
        ("b", "success", "1 left alone"),
    ]
    (kept,) = (tmp_path / "state" / "main").iterdir()
    assert kept.stat().st_mode & 0o777 == 0o600
    assert "t0ken" not in kept.read_text()
    assert "changed=0" in done.stdout


@contextlib.contextmanager
def small_disk(folder: Path) -> Iterator[Path]:
    """A file system of 4 MB."""
    folder.mkdir()
    done = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=4m", "tmpfs", str(folder)], check=False)
    if done.returncode:
        pytest.skip("needs to mount a file system")
    try:
        yield folder
    finally:
        subprocess.run(["umount", str(folder)], check=True)


def test_a_disk_that_is_full_stops_every_step_and_loses_nothing(loop, tmp_path, server, played, monkeypatch, capsys):
    values = config(loop, tmp_path, server, minimum_free_mb=0)
    path = tmp_path / "config.json"
    monkeypatch.setattr("sys.argv", ["reconcile_loop.py", str(path)])
    with small_disk(tmp_path / "home"):
        first = server.push("one" * 40000)
        assert loop.turn(values, False) == 0
        second = server.push("two" * 40000)
        codes = []
        for left in (0, 8, 40, 160, 400):
            filler = tmp_path / "home" / "filler"
            with filler.open("wb", buffering=0) as stream, contextlib.suppress(OSError):
                while stream.write(b"x" * 4096):
                    pass
            os.truncate(filler, max(0, filler.stat().st_size - (left << 10)))
            before = len(played)
            codes.append(loop.main())
            told = capsys.readouterr().out
            assert codes[-1] == (0 if len(played) > before else loop.CANNOT_BEGIN), told
            assert codes[-1] == 0 or "No space left on device" in told
            filler.unlink()
        # None of the turns saw half a file, and with room again the loop goes on by itself.
        assert {text for _commit, text in played} <= {"one" * 40000, "two" * 40000}
        assert codes[0] == loop.CANNOT_BEGIN
        assert loop.main() == 0
        assert played[-1] == (second, "two" * 40000)
        assert played[0][0] == first


def test_a_disk_that_fills_up_during_the_playbook_is_told(loop, tmp_path, server, monkeypatch, capsys):
    config(loop, tmp_path, server)
    server.push("one")

    def run(*arguments: Any) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), "event.json")

    monkeypatch.setattr(loop, "run_playbook", run)
    monkeypatch.setattr("sys.argv", ["reconcile_loop.py", str(tmp_path / "config.json")])
    assert loop.main() == loop.CANNOT_BEGIN
    assert "event.json: No space left on device" in capsys.readouterr().out


def test_what_a_killed_turn_left_behind_is_no_hindrance(loop, tmp_path, server, played):
    values = config(loop, tmp_path, server)
    server.push("one")
    loop.turn(values, False)
    home = tmp_path / "home"
    (home / "repository.git" / "shallow.lock").write_text("")
    (home / "repository.git" / "refs" / "heads" / "wanted.lock").write_text("")
    commit = server.push("two")
    (home / "checkouts" / f"{commit}.unpacking").mkdir()
    assert loop.turn(values, False) == 0
    assert played[-1] == (commit, "two")


def test_two_turns_at_once_are_one(loop, tmp_path, server, played, capsys):
    values = config(loop, tmp_path, server)
    server.push("one")
    (tmp_path / "home").mkdir()
    with loop.hold_lock(tmp_path / "home"):
        assert loop.turn(values, False) == 0
    assert played == []
    assert "another turn is at work" in capsys.readouterr().out


def test_a_full_disk_takes_old_receipts_and_then_gives_up(loop, tmp_path, monkeypatch):
    receipts = tmp_path / "runner" / "artifacts"
    for number in range(6):
        (receipts / str(number)).mkdir(parents=True)
        os.utime(receipts / str(number), (number, number))
    free = iter([100, 100, 300])
    monkeypatch.setattr(loop, "_free_mb", lambda path: next(free))
    loop.make_room(tmp_path, 200)
    assert sorted(path.name for path in receipts.iterdir()) == ["2", "3", "4", "5"]
    monkeypatch.setattr(loop, "_free_mb", lambda path: 7)
    with pytest.raises(loop.CannotBegin, match="7 MB left and 200 are needed"):
        loop.make_room(tmp_path, 200)
    assert sorted(path.name for path in receipts.iterdir()) == ["3", "4", "5"]


def test_a_receipt_loses_its_environment(loop, tmp_path):
    (tmp_path / "command").write_text(json.dumps({"command": ["x"], "env": {"TOKEN": "secret"}}))
    loop.clean_receipt(tmp_path)
    assert json.loads((tmp_path / "command").read_text()) == {"command": ["x"]}
    (tmp_path / "command").write_text("{cut")
    loop.clean_receipt(tmp_path)
    assert not (tmp_path / "command").exists()


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("{", "cannot be read"),
        ('{"hom": 1}', "unknown key 'hom'"),
        ('{"home": "/x"}', "has no repository"),
        ('{"home": "/x", "repository": "r", "environment": ["PATH"]}', "give names, each with a text"),
        ('{"home": "/x", "repository": "r", "environment": {"A=B": ""}}', "has 'A=B' in its environment"),
        ('{"home": "/x", "repository": "r", "environment": {"ANSIBLE_FORKS": 5}}', "give names, each with a text"),
    ],
)
def test_a_bad_configuration_is_told(loop, tmp_path, text, told, monkeypatch, capsys):
    path = tmp_path / "config.json"
    path.write_text(text)
    monkeypatch.setattr("sys.argv", ["reconcile_loop.py", str(path)])
    assert loop.main() == loop.CANNOT_BEGIN
    assert told in capsys.readouterr().out
