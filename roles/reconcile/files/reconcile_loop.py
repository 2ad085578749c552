# Copyright: (c) 2026, The dgxc.workloads developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""One turn of the reconciler's loop: fetch the repository, trust it or not, run the playbook, keep a receipt.

    python reconcile_loop.py config.json [--check]

Called by a timer. It holds a lock, so that a turn that takes longer than the pause is not joined by another one. The
repository is unpacked to a folder of its own for each commit, so neither a force push nor a kill in the middle leaves
anything half done. The exit code is that of the playbook; 75 says that this turn could not begin.

Keys of the configuration, with their defaults, are in DEFAULTS.
"""

from __future__ import annotations

import argparse
import fcntl
import hashlib
import io
import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
import time
from pathlib import Path
from typing import Any, TextIO

DEFAULTS: dict[str, Any] = {
    "home": None,  # folder of everything below
    "repository": None,  # address that git fetch takes
    "branch": "main",
    "tag": "",  # shell pattern; the newest tag of that name (by version) is taken instead of the branch
    "verify": False,  # run nothing but signed commits, or tags where tag is given
    "allowed_signers": "",  # file of SSH keys whose signatures count; GnuPG's keyring where empty
    "specs": "runs",  # folder of the specs in the repository
    "inventory": "inventory",  # in the repository
    "playbook": "dgxc.workloads.reconcile",
    "extra_vars": {},
    "collections_path": "",  # where the collection is; the repository's collections/requirements.yml where empty
    "idle_timeout": 900,  # seconds without a line before a turn is ended; above every heartbeat
    "job_timeout": 3600,
    "keep": 200,  # receipts
    "minimum_free_mb": 200,
    "environment": [],  # further names of environment variables that the playbook may see; no secrets
}
CANNOT_BEGIN = 75
_ENVIRONMENT = re.compile(
    r"PATH|HOME|USER|LOGNAME|SHELL|LANG|LC_.*|TZ|TMPDIR|SSH_AUTH_SOCK|VIRTUAL_ENV|https?_proxy|no_proxy"
)


class CannotBegin(Exception):
    """This turn cannot begin; the message says why."""


def say(text: str) -> None:
    """One line for the journal."""
    print(f"reconcile: {text}", flush=True)


def read_config(path: Path) -> dict[str, Any]:
    """The configuration with defaults. Raises CannotBegin for what is unknown or missing."""
    try:
        given = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise CannotBegin(f"{path} cannot be read: {error}") from None
    unknown = sorted(set(given) - set(DEFAULTS))
    if unknown:
        raise CannotBegin(f"{path} has the unknown key {unknown[0]!r}; known are {', '.join(DEFAULTS)}")
    config = {**DEFAULTS, **given}
    missing = [name for name in ("home", "repository") if not config[name]]
    if missing:
        raise CannotBegin(f"{path} has no {missing[0]}")
    return config


# --- Git ---


class Repository:
    """A bare copy of the repository, and one unpacked folder for the commit in use."""

    def __init__(self, config: dict[str, Any], home: Path) -> None:
        self.config = config
        self.bare = home / "repository.git"
        self.checkouts = home / "checkouts"
        self.trusted = home / "commit"

    def git(self, *arguments: str, timeout: float = 300.0) -> bytes:
        """Git's output. Raises CannotBegin with what it said."""
        command = ["git", "-C", str(self.bare), *arguments]
        environment = {**os.environ, "GIT_TERMINAL_PROMPT": "0", "LC_ALL": "C"}
        try:
            done = subprocess.run(command, capture_output=True, timeout=timeout, check=False, env=environment)
        except (OSError, subprocess.TimeoutExpired) as error:
            raise CannotBegin(f"git {arguments[0]}: {error}") from None
        if done.returncode:
            raise CannotBegin(f"git {arguments[0]}: {done.stderr.decode(errors='replace').strip()}")
        return done.stdout

    def newest(self) -> tuple[str, str]:
        """The commit that is to be run, and the signed thing that names it. Raises CannotBegin."""
        if not (self.bare / "HEAD").exists():
            shutil.rmtree(self.bare, ignore_errors=True)
            self.bare.mkdir(parents=True)
            self.git("init", "--quiet", "--bare")
        # Whatever a killed turn left behind; the lock says that nobody works here now.
        for lock in self.bare.rglob("*.lock"):
            lock.unlink()
        if self.config["tag"]:
            self.git("fetch", "--quiet", "--prune", "--force", self.config["repository"], "+refs/tags/*:refs/tags/*")
            names = self.git("tag", "--list", "--sort=-version:refname", self.config["tag"]).decode().split()
            if not names:
                raise CannotBegin(f"no tag matches {self.config['tag']!r}")
            return self._commit(f"refs/tags/{names[0]}"), names[0]
        branch = self.config["branch"]
        self.git("fetch", "--quiet", "--no-tags", self.config["repository"], f"+refs/heads/{branch}:refs/heads/wanted")
        return self._commit("refs/heads/wanted"), branch

    def _commit(self, name: str) -> str:
        return self.git("rev-parse", f"{name}^{{commit}}").decode().strip()

    def verify(self, commit: str, name: str) -> None:
        """Raise CannotBegin unless the signature is good."""
        if not self.config["verify"]:
            return
        signers = self.config["allowed_signers"]
        options = ["-c", f"gpg.ssh.allowedSignersFile={signers}"] if signers else []
        try:
            self.git(*options, *(["verify-tag", name] if self.config["tag"] else ["verify-commit", commit]))
        except CannotBegin as error:
            raise CannotBegin(f"{name} at {commit[:12]} has no good signature: {error}") from None

    def unpack(self, commit: str) -> Path:
        """The folder of a commit's files, whole or not there."""
        folder = self.checkouts / commit
        if folder.is_dir():
            return folder
        self.checkouts.mkdir(exist_ok=True)
        archive = self.git("archive", "--format=tar", commit)
        for other in self.checkouts.iterdir():
            shutil.rmtree(other, ignore_errors=True)
        temporary = self.checkouts / f"{commit}.unpacking"
        with tarfile.open(fileobj=io.BytesIO(archive)) as stream:
            stream.extractall(temporary, filter="data")
        temporary.rename(folder)
        return folder

    def choose(self) -> str:
        """The newest commit that can be trusted; the one of an earlier turn where the newest cannot be had."""
        try:
            commit, name = self.newest()
            self.verify(commit, name)
        except CannotBegin as error:
            if not self.trusted.exists():
                raise
            commit = self.trusted.read_text(encoding="ascii").strip()
            say(f"{error}; going on with {commit[:12]}")
            return commit
        temporary = self.trusted.with_name("commit.new")
        temporary.write_text(commit + "\n", encoding="ascii")
        temporary.replace(self.trusted)
        return commit


# --- the turn ---


def hold_lock(home: Path) -> TextIO | None:
    """The lock of this folder, or None while another turn has it. The kernel lets it go when its holder dies."""
    # Not closed here: the lock lasts as long as the stream, which the caller keeps.
    stream = open(home / "lock", "w", encoding="ascii")  # noqa: SIM115
    try:
        fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        stream.close()
        return None
    return stream


def make_room(home: Path, minimum_mb: int) -> None:
    """Give up old receipts when the disk is nearly full. Raises CannotBegin when that is not enough."""
    if _free_mb(home) >= minimum_mb:
        return
    receipts = sorted((home / "runner" / "artifacts").glob("*"), key=lambda path: path.stat().st_mtime)
    for receipt in receipts[:-3]:
        shutil.rmtree(receipt, ignore_errors=True)
        if _free_mb(home) >= minimum_mb:
            say("the disk is nearly full; old receipts were given up")
            return
    raise CannotBegin(f"{home} has {_free_mb(home)} MB left and {minimum_mb} are needed; nothing was done")


def _free_mb(path: Path) -> int:
    return shutil.disk_usage(path).free >> 20


def collections_path(config: dict[str, Any], home: Path, project: Path, environment: dict[str, str]) -> str:
    """Where the collections are; those that the repository requires are installed when the list changed."""
    requirements = project / "collections" / "requirements.yml"
    if config["collections_path"] or not requirements.is_file():
        return str(config["collections_path"])
    target, mark = home / "collections", home / "collections.installed"
    digest = hashlib.sha256(requirements.read_bytes()).hexdigest()
    if not mark.exists() or mark.read_text(encoding="ascii") != digest:
        galaxy = shutil.which("ansible-galaxy", path=environment["PATH"])
        command = [str(galaxy), "collection", "install", "--force", "-r", str(requirements), "-p", str(target)]
        done = subprocess.run(command, cwd=project, text=True, capture_output=True, check=False, env=environment)
        if done.returncode:
            raise CannotBegin(f"the collections of {requirements.name} cannot be installed: {done.stderr[-800:]}")
        mark.write_text(digest, encoding="ascii")
    return str(target)


def run_playbook(config: dict[str, Any], home: Path, project: Path, commit: str, check: bool) -> int:
    """Run the playbook through ansible-runner; the receipt is named after the commit. Returns its exit code."""
    import ansible_runner

    names = [name for name in os.environ if _ENVIRONMENT.fullmatch(name) or name in config["environment"]]
    environment = {name: os.environ[name] for name in names}
    here = os.path.dirname(sys.executable)
    environment["PATH"] = here + os.pathsep + environment.get("PATH", os.defpath)
    path = collections_path(config, home, project, environment)
    if path:
        environment["ANSIBLE_COLLECTIONS_PATH"] = path
    # ansible-runner hands its own environment on and writes it into the receipt: what is not needed is not there.
    os.environ.clear()
    os.environ.update(environment)
    ident = f"{commit[:12]}-{time.strftime('%Y%m%dT%H%M%SZ', time.gmtime())}-{os.getpid()}"
    data = home / "runner"
    data.mkdir(exist_ok=True)
    result = ansible_runner.run(
        private_data_dir=str(data),
        project_dir=str(project),
        playbook=config["playbook"],
        inventory=str(project / config["inventory"]),
        ident=ident,
        cmdline="--check --diff" if check else None,
        extravars={
            **config["extra_vars"],
            "reconcile_specs": str(project / config["specs"]),
            "reconcile_commit": commit,
        },
        settings={"idle_timeout": config["idle_timeout"], "job_timeout": config["job_timeout"]},
        suppress_env_files=True,
        rotate_artifacts=config["keep"],
    )
    clean_receipt(data / "artifacts" / ident)
    say(f"{commit[:12]}: {result.status}, receipt {data / 'artifacts' / ident}")
    return int(result.rc if result.rc is not None else 1) or (0 if result.status == "successful" else 1)


def clean_receipt(folder: Path) -> None:
    """Take the environment out of a receipt: it is of no use there."""
    path = folder / "command"
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
        content.pop("env", None)
        path.write_text(json.dumps(content), encoding="utf-8")
    except (OSError, ValueError):
        path.unlink(missing_ok=True)


def turn(config: dict[str, Any], check: bool) -> int:
    """One turn of the loop; its exit code."""
    home = Path(config["home"])
    os.umask(0o077)
    home.mkdir(parents=True, exist_ok=True)
    lock = hold_lock(home)
    if lock is None:
        say("another turn is at work; nothing to do")
        return 0
    with lock:
        make_room(home, config["minimum_free_mb"])
        repository = Repository(config, home)
        commit = repository.choose()
        return run_playbook(config, home, repository.unpack(commit), commit, check)


def main() -> int:
    """Read the command line and do one turn."""
    parser = argparse.ArgumentParser(description="One turn of the reconciler's loop.")
    parser.add_argument("config", type=Path, help="the configuration, a JSON file")
    parser.add_argument("--check", action="store_true", help="plan only: say what would be done")
    options = parser.parse_args()
    try:
        return turn(read_config(options.config), options.check)
    except CannotBegin as error:
        say(str(error))
        return CANNOT_BEGIN
    except OSError as error:
        say(f"{error.filename or 'a file'}: {error.strerror or error}")
        return CANNOT_BEGIN


if __name__ == "__main__":
    sys.exit(main())
