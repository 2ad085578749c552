# Copyright: (c) 2026, The dgxc.workloads developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""One turn of the reconciler's loop: fetch the repository, trust it or not, run the playbook, keep a receipt.

    python reconcile_loop.py config.json [--check]

Called by a timer. It holds a lock, so that a turn that takes longer than the pause is not joined by another one. The
repository is unpacked anew by each turn, so neither a force push nor a kill, a full disk or a power cut in the middle
leaves anything half done that a later turn would take for whole. The exit code is that of the playbook; 75 says that
this turn could not begin, or that the disk filled up while it was at work.

Keys of the configuration, with their defaults, are in DEFAULTS.
"""

from __future__ import annotations

import argparse
import errno
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
    "verify": False,  # run nothing but signed commits, or tags where tag is given; nothing else is unpacked either
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
#: What is said where a disk is full; with that nothing goes on.
_FULL = (os.strerror(errno.ENOSPC), os.strerror(errno.EDQUOT))
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
    """A bare copy of the repository, and the unpacked files of the commit in use.

    The copy can be lost: it is fetched again. The reference TRUSTED keeps the commit of the last turn in it, whatever
    becomes of the branch.
    """

    TRUSTED = "refs/loop/trusted"

    def __init__(self, config: dict[str, Any], home: Path) -> None:
        self.config = config
        self.bare = home / "repository.git"
        self.checkouts = home / "checkouts"

    def git(self, *arguments: str, timeout: float = 300.0) -> bytes:
        """Git's output. Raises CannotBegin with what it said."""
        # What a power cut leaves of the copy has to be whole.
        command = ["git", "-C", str(self.bare), "-c", "core.fsync=all", *arguments]
        environment = {**os.environ, "GIT_TERMINAL_PROMPT": "0", "LC_ALL": "C"}
        try:
            done = subprocess.run(command, capture_output=True, timeout=timeout, check=False, env=environment)
        except (OSError, subprocess.TimeoutExpired) as error:
            raise CannotBegin(f"git {arguments[0]}: {error}") from None
        if done.returncode:
            raise CannotBegin(f"git {arguments[0]}: {done.stderr.decode(errors='replace').strip()}")
        return done.stdout

    def prepare(self) -> None:
        """Have a copy that Git can work with: without what a killed turn left, and made anew if it is damaged."""
        for leftover in [*self.bare.rglob("*.lock"), *self.bare.glob("objects/**/tmp_*")]:
            # The lock of this program says that nobody works here now.
            leftover.unlink(missing_ok=True)
        if (self.bare / "HEAD").exists():
            try:
                self.git("fsck", "--connectivity-only", "--no-dangling", "--no-progress")
            except CannotBegin as error:
                say(f"{self.bare} is damaged and made anew ({error})")
            else:
                return
        shutil.rmtree(self.bare, ignore_errors=True)
        self.bare.mkdir(parents=True)
        self.git("init", "--quiet", "--bare")

    def newest(self) -> tuple[str, str]:
        """The commit that is to be run, and the signed thing that names it. Raises CannotBegin."""
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
        place = f"{name} at {commit[:12]}"
        try:
            if not self.config["tag"]:
                self.git(*options, "verify-commit", commit)
                return
            self.git(*options, "verify-tag", f"refs/tags/{name}")
            signed = self.git("cat-file", "tag", f"refs/tags/{name}").decode(errors="replace")
        except CannotBegin as error:
            raise CannotBegin(f"{place} has no good signature: {error}") from None
        # The signature is one of the tag's content. Whoever can write to the server can give an old tag a newer name.
        said = re.search(r"^tag (.*)$", signed.partition("\n\n")[0], re.MULTILINE)
        if said is None or said.group(1) != name:
            raise CannotBegin(f"{place} was signed as {said.group(1) if said else 'nothing'}, so it counts for nothing")

    def unpack(self, commit: str) -> Path:
        """The folder of a commit's files, unpacked now. Raises CannotBegin or OSError, and then there is none."""
        shutil.rmtree(self.checkouts, ignore_errors=True)
        self.checkouts.mkdir()
        archive = self.git("archive", "--format=tar", commit)
        temporary, folder = self.checkouts / f"{commit}.unpacking", self.checkouts / commit
        with tarfile.open(fileobj=io.BytesIO(archive)) as stream:
            stream.extractall(temporary, filter="data")
        temporary.rename(folder)
        return folder

    def choose(self) -> str:
        """The newest commit that can be trusted; the one of an earlier turn where the newest cannot be had."""
        self.prepare()
        try:
            commit, name = self.newest()
            self.verify(commit, name)
        except CannotBegin as error:
            if any(words in str(error) for words in _FULL):
                raise
            try:
                commit = self._commit(self.TRUSTED)
            except CannotBegin:
                raise error from None
            say(f"{error}; going on with {commit[:12]}")
            return commit
        self.git("update-ref", self.TRUSTED, commit)
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
        # Before anything is replaced: what is cut off in the middle must not count as installed.
        mark.unlink(missing_ok=True)
        galaxy = shutil.which("ansible-galaxy", path=environment["PATH"])
        command = [str(galaxy), "collection", "install", "--force", "-r", str(requirements), "-p", str(target)]
        try:
            done = subprocess.run(
                command, cwd=project, text=True, capture_output=True, check=False, env=environment,
                timeout=config["job_timeout"],
            )  # fmt: skip
        except subprocess.TimeoutExpired as error:
            raise CannotBegin(f"the collections of {requirements.name} cannot be installed: {error}") from None
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
    try:
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
    finally:
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
    place = str(options.config)
    try:
        config = read_config(options.config)
        place = config["home"]
        return turn(config, options.check)
    except CannotBegin as error:
        say(str(error))
    except OSError as error:
        say(f"{error.filename or place}: {error.strerror or error}; the next turn tries again")
    return CANNOT_BEGIN


if __name__ == "__main__":
    sys.exit(main())
