# Copyright: (c) 2026, The dgxc.workloads developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""One task in a container: enters it and turns into the command. Called by the stand-in for srun on the node.

Like the real thing: one container for each node and step, made by the task that comes first; its root is read-only
unless asked otherwise; /tmp is the container's own; /proc, /sys, /dev, the network and the host name are the node's;
the process that Slurm watches is the command itself, so signals and exit codes are its own. That last point is why this
makes the namespaces by itself instead of calling a tool: bubblewrap stays between as a parent and swallows signals.

Unlike the real thing: an image is unpacked once for all nodes (they are one machine) and each container's root consists
of hard links to that copy, so that four nodes start within a second. And /etc/hosts knows the nodes' names, which on a
real cluster all nodes do.
"""

from __future__ import annotations

import ctypes
import fcntl
import json
import os
import pwd
import subprocess
import sys
from pathlib import Path

from images import EnrootError, cached_root, import_image, remove_tree

HERE = Path(__file__).resolve().parent
LIBC = ctypes.CDLL(None, use_errno=True)
NEW_USER, NEW_MOUNTS = 0x10000000, 0x00020000
READ_ONLY, NO_SUID, NO_DEVICES, NO_EXEC, REMOUNT, BIND, RECURSIVE, PRIVATE, SLAVE = (
    0x1, 0x2, 0x4, 0x8, 0x20, 0x1000, 0x4000, 0x40000, 0x80000,
)  # fmt: skip
DETACH = 2
FLAGS = {"ro": READ_ONLY, "nosuid": NO_SUID, "nodev": NO_DEVICES, "noexec": NO_EXEC}
NOT_FROM_HOST = ("LANG", "LANGUAGE", "LC_ALL")
DEFAULT_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


class Failed(Exception):
    """The container cannot be made; the lines are what Pyxis says.

    :param state: how the container is left for the node's other tasks of this step
    """

    state = "failed"


class NameRefused(Failed):
    """The container's name is not right. The real one looks at it once for a node, before there are tasks."""

    state = "refused"


class NotCreated(Failed):
    """There is no file system for the container. At the step's end, Pyxis wants to remove it and fails."""


class NotStarted(Failed):
    """The container's file system is there, but the container did not start."""

    def __init__(self, problem: str, enroot_log: list[str]) -> None:
        lines = [problem, "printing enroot log file:", *(f"    {line}" for line in enroot_log), NOT_STARTED]
        super().__init__("\n".join(lines))


START_FAILED = "container start failed with error code: 1"
NOT_STARTED = "container was not started successfully by another task"


def log(line: str) -> None:
    """Say something as slurmstepd does for its plug-ins, built as it is for several nodes on one machine."""
    print(f"slurmstepd-{os.environ.get('SLURMD_NODENAME', '')}: error: {line}", file=sys.stderr, flush=True)


def child_failed(code: int) -> str:
    """Return what Pyxis says of an Enroot that failed; here that is no process of its own."""
    return f"child {os.getpid()} failed with error code: {code}"


def call(name: str, *arguments: object) -> None:
    """Call a function of the C library. Raises OSError."""
    if getattr(LIBC, name)(*arguments) != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))


def mount(source: str, target: str, kind: str | None, flags: int, data: str | None = None) -> None:
    """mount(2)."""
    call(
        "mount",
        source.encode(),
        target.encode(),
        kind.encode() if kind else None,
        ctypes.c_ulong(flags),
        data.encode() if data else None,
    )


def remount(target: str, extra: int) -> None:
    """Add flags to a bind mount, keeping those it has (the kernel lets nobody take them away)."""
    kept = os.statvfs(target).f_flag
    same = {os.ST_RDONLY: READ_ONLY, os.ST_NOSUID: NO_SUID, os.ST_NODEV: NO_DEVICES, os.ST_NOEXEC: NO_EXEC,
            os.ST_NOATIME: 0x400, os.ST_RELATIME: 0x200000}  # fmt: skip
    flags = sum(flag for bit, flag in same.items() if kept & bit)
    mount("none", target, None, REMOUNT | BIND | flags | extra)


def inside(root: str, path: str) -> str:
    """Return where a path of the container is on the node, following the container's own links."""
    todo, done, links = path.split("/")[::-1], [], 0
    while todo:
        part = todo.pop()
        if part in ("", "."):
            continue
        if part == "..":
            del done[-1:]
            continue
        here = os.path.join(root, *done, part)
        if os.path.islink(here) and links < 40:
            links += 1
            target = os.readlink(here)
            if target.startswith("/"):
                done = []
            todo += target.split("/")[::-1]
            continue
        done.append(part)
    return os.path.join(root, *done)


def make_target(root: str, target: str, folder: bool) -> str:
    """Make what a mount needs to be mounted on, as Enroot does."""
    place = inside(root, target)
    if not os.path.exists(place):
        os.makedirs(place if folder else os.path.dirname(place), exist_ok=True)
        if not folder:
            open(place, "a").close()
    return place


class Container:
    """The container of one step on one node."""

    def __init__(self, settings: dict) -> None:
        self.settings = settings
        self.sandbox = json.loads((HERE / "settings.json").read_text())
        self.node = os.environ.get("SLURMD_NODENAME", "")
        job, step = os.environ.get("SLURM_JOB_ID", ""), os.environ.get("SLURM_STEP_ID", "")
        self.own = Path(self.sandbox["prefix"]) / "var" / "containers" / str(os.getuid())
        self.folder = self.own / "steps" / f"{job}.{step}.{self.node}"
        self.several = os.environ.get("SLURM_STEP_NUM_TASKS", "1") != "1"
        name = settings.get("name")
        self.kept = self.own / f"data-{self.node}" / f"pyxis_{name[0]}" if name else None
        self.root = self.kept or self.folder / "root"
        # Where the one that the task seems to be in the container is at home.
        self.home = "/root" if settings.get("remap_root") else pwd.getpwuid(os.getuid()).pw_dir
        self.enroot_log: list[str] = []  # what the last thing that Enroot did has said

    def join(self) -> None:
        """Make the container and enter it, or wait for the task that does and follow. Raises Failed."""
        self.own.mkdir(mode=0o700, exist_ok=True)
        self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        with open(self.folder / "lock", "w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            path = self.folder / "state"
            first = not path.exists()
            # It stays open: in the container, this path leads elsewhere.
            with open(path, "w" if first else "r") as state:
                if first:
                    try:
                        self.make()
                        self.enter()
                    except Failed as problem:
                        state.write(problem.state)
                        raise
                    state.write("made")
                    return
                found = state.read()
        if found == NameRefused.state:
            raise NameRefused
        if found != "made":
            raise Failed(NOT_STARTED)
        self.enter()

    def make(self) -> None:
        """Unpack the image and furnish its root."""
        if self.settings.get("save") or self.settings.get("unshare"):
            raise Failed("the sandbox's stand-in has no --container-save and no --container-unshare")
        if self.kept:
            self.check_name()
        if not (self.kept and self.kept.is_dir()):
            self.unpack()
        for source, _target, _flags in self.settings.get("mounts", []):
            if source.startswith("/") and not os.path.exists(source):
                raise NotStarted(
                    f"--container-mounts: source path does not exist: {source}\n"
                    "couldn't create enroot start configuration script",
                    self.enroot_log,
                )
        (self.folder / "tmp").mkdir(exist_ok=True)
        nodes = "".join(f"127.0.0.1 {node}\n" for node in self.sandbox["nodes"])
        (self.folder / "hosts").write_text(nodes + Path("/etc/hosts").read_text())
        self.add_user()

    def check_name(self) -> None:
        """Apply the rules of --container-name."""
        name, flag = self.settings["name"]
        exists = self.kept is not None and self.kept.is_dir()
        if flag == "create" and exists:
            raise NameRefused('error: "create" flag was passed to --container-name but the container already exists')
        if flag == "exec":
            raise NameRefused('error: "exec" flag was passed to --container-name but the container is not running')
        if not exists and "image" not in self.settings:
            raise NameRefused(
                f'error: a container with name "pyxis_{name}" does not exist, and --container-image is not set'
            )

    def unpack(self) -> None:
        """Get the image, unpack it, and make this container's root from it."""
        image = self.settings["image"]
        imported = None
        if image[0] not in "./":
            imported = self.folder / "image.sqsh"
            uri = image if image.startswith(("docker://", "dockerd://")) else f"docker://{image}"
            if not self.several:
                print(f"pyxis: importing docker image: {image}", file=sys.stderr, flush=True)
            self.enroot(f"failed to import docker image: {image}", import_image, uri, str(imported), self.sandbox)
            print(f"pyxis: imported docker image: {image}", file=sys.stderr, flush=True)
        try:
            source = self.enroot(
                f"failed to create container filesystem for image: {image}",
                cached_root,
                str(imported or image),
                self.own / "cache",
            )
        finally:
            if imported:
                imported.unlink(missing_ok=True)
        # Hard links where nothing can be changed through them, a real copy where it can.
        private = self.kept or self.settings.get("writable")
        self.root.parent.mkdir(parents=True, exist_ok=True)
        new = self.root.with_name(self.root.name + ".new")
        remove_tree(new)
        subprocess.run(["cp", "-a" if private else "-al", str(source), str(new)], check=True)
        new.rename(self.root)

    def enroot(self, what: str, function, *arguments):
        """Do one thing that Enroot does, and report its failure as Pyxis does."""
        self.enroot_log = []
        try:
            return function(*arguments, say=self.enroot_log.append)
        except EnrootError as problem:
            text = "".join(f"\n    {line}" for line in [*self.enroot_log, *problem.lines])
            raise NotCreated(f"{child_failed(problem.code)}\n{what}\nprinting enroot log file:{text}") from None

    def add_user(self) -> None:
        """Let the container know the user, and give it a home."""
        account = pwd.getpwuid(os.getuid())
        for name, line in (
            ("passwd", f"{account.pw_name}:x:{account.pw_uid}:{account.pw_gid}::{account.pw_dir}:/bin/bash\n"),
            ("group", f"{account.pw_name}:x:{account.pw_gid}:\n"),
        ):
            path = Path(inside(str(self.root), f"/etc/{name}"))
            old = path.read_text() if path.exists() else ""
            if line not in old:
                path.parent.mkdir(parents=True, exist_ok=True)
                path.unlink(missing_ok=True)  # it may be a hard link
                path.write_text(line + old)
        for folder in (account.pw_dir, self.home):
            os.makedirs(inside(str(self.root), folder), exist_ok=True)

    def enter(self) -> None:
        """Move this process into the container. Raises Failed."""
        uid, gid = os.getuid(), os.getgid()
        inner_uid, inner_gid = (0, 0) if self.settings.get("remap_root") else (uid, gid)
        try:
            call("unshare", NEW_USER | NEW_MOUNTS)
        except OSError as problem:
            raise NotStarted(
                START_FAILED,
                [f"cannot make a user namespace: {problem.strerror}; this machine does not let ordinary users do that"],
            ) from None
        Path("/proc/self/setgroups").write_text("deny")
        Path("/proc/self/uid_map").write_text(f"{inner_uid} {uid} 1")
        Path("/proc/self/gid_map").write_text(f"{inner_gid} {gid} 1")
        try:
            self.mount_all()
        except OSError as problem:
            raise NotStarted(START_FAILED, [f"cannot furnish the container: {problem}"]) from None

    def mount_all(self) -> None:
        """Mount what belongs into the container and make it the root. Raises OSError and Failed."""
        root = str(self.root)
        mount("none", "/", None, RECURSIVE | SLAVE)
        mount(root, root, None, BIND)
        for folder in ("/proc", "/sys", "/dev"):
            mount(folder, make_target(root, folder, True), None, BIND | RECURSIVE)
        devices = f"{self.sandbox['prefix']}/dev"
        for source, target in ((str(self.folder / "tmp"), "/tmp"), (devices, devices)):
            mount(source, make_target(root, target, True), None, BIND)
        for name in ("hosts", "hostname", "resolv.conf", "machine-id"):
            source = self.folder / name if (self.folder / name).exists() else Path("/etc") / name
            if source.exists():
                mount(os.path.realpath(source), make_target(root, f"/etc/{name}", False), None, BIND)
        home = os.environ.get("HOME", "")
        if self.settings.get("mount_home") and home:
            target = "/root" if self.settings.get("remap_root") else home
            mount(home, make_target(root, target, True), None, BIND)
        for source, target, flags in self.settings.get("mounts", []):
            self.mount_one(root, source, target, [flag for flag in flags.split(",") if flag])
        if not self.settings.get("writable"):
            remount(root, READ_ONLY)
        os.chdir(root)
        call("pivot_root", b".", b".")
        call("umount2", b".", DETACH)
        os.chdir("/")

    def mount_one(self, root: str, source: str, target: str, flags: list[str]) -> None:
        """Do one mount that the user asked for. Raises Failed with the words of enroot-mount."""
        try:
            if source == "umount":
                call("umount2", inside(root, target).encode(), DETACH)
                return
            if source == "tmpfs":
                mount("tmpfs", make_target(root, target, True), "tmpfs", NO_SUID | NO_DEVICES, "mode=1777")
                return
            place = make_target(root, target, os.path.isdir(source))
            mount(os.path.abspath(source), place, None, BIND | (0 if "bind" in flags else RECURSIVE))
            extra = sum(FLAGS.get(flag, 0) for flag in flags)
            if extra:
                remount(place, extra)
        except OSError as problem:
            raise NotStarted(
                START_FAILED,
                [f"enroot-mount: failed to mount: {source} at {inside(root, target)}: {problem.strerror}"],
            ) from None

    def environment(self) -> dict[str, str]:
        """Return the command's environment: the job's, under the image's, but for what --container-env names."""
        asked = self.settings.get("env", [])
        result = {name: value for name, value in os.environ.items() if name in asked or name not in NOT_FROM_HOST}
        image = {"PATH": DEFAULT_PATH, "HOME": self.home}
        if self.settings.get("remap_root"):
            image["USER"] = "root"
        try:
            for line in Path("/etc/environment").read_text().splitlines():
                name, equals, value = line.strip().partition("=")
                if equals and name.isidentifier() and not name.startswith("ENROOT_"):
                    image[name] = value.strip("\"'") if value[:1] in "\"'" else value
        except OSError:
            pass
        result.update({name: value for name, value in image.items() if name not in asked or name not in result})
        if "PYTORCH_VERSION" in result:  # as the plug-in does for images of PyTorch
            result["RANK"], result["LOCAL_RANK"] = result["SLURM_PROCID"], result["SLURM_LOCALID"]
        return result

    def working_folder(self) -> str:
        """Return the folder to start in: the one asked for, the image's, or the home directory."""
        if "workdir" in self.settings:
            return self.settings["workdir"]
        try:
            for line in Path("/etc/rc").read_text().splitlines():
                if line.startswith('cd "'):
                    return line[4:].partition('"')[0]
        except OSError:
            pass
        return self.home


def main() -> None:
    """Make or join the container, then become the command."""
    settings, command = json.loads(sys.argv[1]), sys.argv[2:]
    container = Container(settings)
    try:
        container.join()
        folder = container.working_folder()
        try:
            os.chdir(folder)
        except OSError as problem:
            where = "" if "workdir" in settings else "container cwd "
            raise Failed(f"couldn't chdir to {where}{folder}: {problem.strerror}") from None
    except Failed as problem:
        for line in str(problem).splitlines():
            log(f"pyxis: {line}")
        log("spank: required plugin spank_pyxis.so: task_init() failed with rc=-1")
        log("Failed to invoke spank plugin stack")
        if isinstance(problem, NotCreated) and not container.kept:
            log(f"pyxis: {child_failed(1)}")
        raise SystemExit(1) from None
    environment = container.environment()
    os.environ["PATH"] = environment["PATH"]
    try:
        os.execvpe(command[0], command, environment)
    except OSError as problem:
        log(f"execve(): {command[0]}: {problem.strerror}")
        raise SystemExit(2) from None


if __name__ == "__main__":
    main()
