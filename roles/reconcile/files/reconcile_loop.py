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
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple, TextIO

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
    "environment": {},  # further environment variables, for Git as well as for the playbook; no secrets
}
CANNOT_BEGIN = 75
#: What is said where a disk is full; with that nothing goes on.
_FULL = (os.strerror(errno.ENOSPC), os.strerror(errno.EDQUOT))
_ENVIRONMENT = re.compile(
    r"PATH|HOME|USER|LOGNAME|SHELL|LANG|LC_.*|TZ|TMPDIR|SSH_AUTH_SOCK|VIRTUAL_ENV|(?i:(https?|ftp|all|no)_proxy)"
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
    environment = config["environment"]
    if not isinstance(environment, dict):
        raise CannotBegin(f"{path} has an environment that is no object; give names, each with a text")
    for name, value in environment.items():
        if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", name) or not isinstance(value, str) or "\0" in value:
            raise CannotBegin(f"{path} has {name!r} in its environment; give names, each with a text")
    return config


# --- Git ---


class Version(NamedTuple):
    """What can be run: a commit, the branch or tag that names it, and the object whose signature counts."""

    commit: str
    name: str
    signed: str


class Repository:
    """A bare copy of the repository, and the unpacked files of the commit in use.

    The copy can be lost: it is fetched again. A reference below KEPT holds what the last turn ran, whatever becomes of
    the branch or the tag. It is kept for these settings alone: other settings mean other content, and what was good
    enough for them says nothing.
    """

    KEPT = "refs/loop"

    def __init__(self, config: dict[str, Any], home: Path) -> None:
        self.config = config
        self.bare = home / "repository.git"
        self.checkouts = home / "checkouts"
        followed = [config["repository"], "" if config["tag"] else config["branch"], config["tag"]]
        self.kept = f"{self.KEPT}/{hashlib.sha256(json.dumps(followed).encode()).hexdigest()[:16]}"

    def git(self, *arguments: str, settings: tuple[str, ...] = (), timeout: float = 300.0) -> bytes:
        """Git's output. Raises CannotBegin with what it said.

        :param settings: `name=value`, for this call alone.
        """
        # What a power cut leaves of the copy has to be whole.
        options = [word for setting in ("core.fsync=all", *settings) for word in ("-c", setting)]
        command = ["git", "-C", str(self.bare), *options, *arguments]
        environment = {**os.environ, "GIT_TERMINAL_PROMPT": "0", "LC_ALL": "C"}
        try:
            done = subprocess.run(command, capture_output=True, timeout=timeout, check=False, env=environment)
        except (OSError, subprocess.TimeoutExpired) as error:
            raise CannotBegin(f"git {arguments[0]}: {error}") from None
        if done.returncode:
            said = (done.stderr.strip() or done.stdout.strip()).decode(errors="replace")
            raise CannotBegin(f"git {arguments[0]}: {said or f'exit code {done.returncode}'}")
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

    def newest(self) -> Version:
        """What the branch or the newest tag is at. Raises CannotBegin."""
        if self.config["tag"]:
            self.git("fetch", "--quiet", "--prune", "--force", self.config["repository"], "+refs/tags/*:refs/tags/*")
            # v1.0-rc1 comes before v1.0.
            listing = ("tag", "--list", "--sort=-version:refname", self.config["tag"])
            names = self.git(*listing, settings=("versionsort.suffix=-",)).decode().split()
            if not names:
                raise CannotBegin(f"no tag matches {self.config['tag']!r}")
            return self._version(f"refs/tags/{names[0]}", names[0])
        branch = self.config["branch"]
        self.git("fetch", "--quiet", "--no-tags", self.config["repository"], f"+refs/heads/{branch}:refs/heads/wanted")
        return self._version("refs/heads/wanted", branch)

    def _version(self, reference: str, name: str) -> Version:
        signed = self.git("rev-parse", "--verify", reference).decode().strip()
        return Version(self.git("rev-parse", "--verify", f"{signed}^{{commit}}").decode().strip(), name, signed)

    def verify(self, version: Version) -> None:
        """Raise CannotBegin unless the signature is good, by the keys that count now."""
        if not self.config["verify"]:
            return
        signers = self.config["allowed_signers"]
        settings = (f"gpg.ssh.allowedSignersFile={signers}",) if signers else ()
        kind = "tag" if self.config["tag"] else "commit"
        place = f"{version.name} at {version.commit[:12]}"
        try:
            head = self.git("cat-file", "-p", version.signed).decode(errors="replace").partition("\n\n")[0]
            if kind == "commit" and not re.search(r"^gpgsig", head, re.MULTILINE):
                # Git says nothing then.
                raise CannotBegin("it is not signed")
            self.git(f"verify-{kind}", version.signed, settings=settings)
        except CannotBegin as error:
            raise CannotBegin(f"{place} has no good signature: {error}") from None
        if kind == "commit":
            return
        # The signature is one of the tag's content. Whoever can write to the server can give an old tag a newer name.
        said = re.search(r"^tag (.*)$", head, re.MULTILINE)
        if said is None or said.group(1) != version.name:
            raise CannotBegin(f"{place} was signed as {said.group(1) if said else 'nothing'}, so it counts for nothing")

    def unpack(self, commit: str) -> Path:
        """The folder of a commit's files, unpacked now. Raises CannotBegin or OSError, and then there is none."""
        shutil.rmtree(self.checkouts, ignore_errors=True)
        self.checkouts.mkdir()
        # All of it, whatever its .gitattributes say: a spec that is left out would look like one that was removed.
        attributes = self.bare / "info" / "attributes"
        attributes.parent.mkdir(exist_ok=True)
        attributes.write_text("* -export-ignore -export-subst\n", encoding="ascii")
        archive = self.git("archive", "--format=tar", commit)
        temporary, folder = self.checkouts / f"{commit}.unpacking", self.checkouts / commit
        try:
            with tarfile.open(fileobj=io.BytesIO(archive)) as stream:
                stream.extractall(temporary, filter="data")
        except tarfile.TarError as error:
            # Such as a link that leads out of the repository; the text names it.
            raise CannotBegin(f"{commit[:12]} cannot be unpacked: {error}") from None
        except OSError as error:
            if error.errno != errno.ENAMETOOLONG:
                raise
            raise CannotBegin(f"{commit[:12]} cannot be unpacked: {error}") from None
        self._refuse_submodules(commit, temporary)
        temporary.rename(folder)
        return folder

    def _refuse_submodules(self, commit: str, folder: Path) -> None:
        """Raise CannotBegin when files of the specs or the inventory are in another repository."""
        root = folder.resolve()
        for entry in self.git("ls-tree", "-r", "-z", commit).split(b"\0"):
            if not entry.startswith(b"160000 "):
                continue
            path = os.fsdecode(entry.partition(b"\t")[2])
            for wanted in (self.config["specs"], self.config["inventory"]):
                place = Path(os.path.realpath(root / wanted))
                if root / path in (place, *place.parents) or place in (root / path).parents:
                    raise CannotBegin(
                        f"{commit[:12]} has the submodule {path}, whose files are not here, where {wanted} is read: "
                        "they would look removed; put them into the repository itself"
                    )

    def have(self, version: Version) -> Path:
        """The folder of its files, if it can be trusted and is whole. Raises CannotBegin or OSError."""
        self.verify(version)
        return self.unpack(version.commit)

    def take(self) -> tuple[str, Path]:
        """The newest commit that can be trusted, and the folder of its files.

        It is the one of an earlier turn where the newest cannot be had. Raises CannotBegin or OSError.
        """
        self.prepare()
        try:
            version = self.newest()
            folder = self.have(version)
        except CannotBegin as error:
            return self._take_earlier(error)
        self._keep(version)
        return version.commit, folder

    def _take_earlier(self, error: CannotBegin) -> tuple[str, Path]:
        """What an earlier turn ran, if it can be trusted still; `error` says why it is not the newest."""
        _stop_if_full(error)
        reasons = [str(error)]
        for version in self._earlier():
            try:
                folder = self.have(version)
            except CannotBegin as other:
                _stop_if_full(other)
                if str(other) not in reasons:
                    reasons.append(f"an earlier turn ran {version.commit[:12]}, but {other}")
                continue
            say(f"{'; '.join(reasons)}; going on with {version.commit[:12]}")
            return version.commit, folder
        raise CannotBegin("; ".join(reasons))

    def _earlier(self) -> Iterator[Version]:
        # There are two after a kill between the steps of _keep.
        listing = ("for-each-ref", "--format=%(refname)", "--sort=-version:refname", self.kept)
        for reference in self.git(*listing, settings=("versionsort.suffix=-",)).decode().split():
            name = reference.removeprefix(f"{self.kept}/").replace("%2F", "/").replace("%25", "%")
            yield self._version(reference, name)

    def _keep(self, version: Version) -> None:
        """Remember what this turn runs, and forget all else."""
        # Without /, because runs and runs/1 cannot both be references.
        reference = f"{self.kept}/" + version.name.replace("%", "%25").replace("/", "%2F")
        self.git("update-ref", reference, version.signed)
        for other in self.git("for-each-ref", "--format=%(refname)", self.KEPT).decode().split():
            if other != reference:
                self.git("update-ref", "-d", other)


def _stop_if_full(error: CannotBegin) -> None:
    """Raise the error where it says that the disk is full."""
    if any(words in str(error) for words in _FULL):
        raise error


# --- the turn ---


def hold_lock(home: Path) -> TextIO | None:
    """The lock of this folder, or None while another turn has it. The kernel lets it go when its holder dies."""
    stream = open(home / "lock", "w", encoding="ascii")  # noqa: SIM115 - the lock lasts as long as the caller keeps it
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
    os.environ.update(config["environment"])
    home.mkdir(parents=True, exist_ok=True)
    lock = hold_lock(home)
    if lock is None:
        say("another turn is at work; nothing to do")
        return 0
    with lock:
        make_room(home, config["minimum_free_mb"])
        repository = Repository(config, home)
        commit, folder = repository.take()
        return run_playbook(config, home, folder, commit, check)


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
