# Copyright: (c) 2026, The dgxc.workloads developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Build the sandbox's container image from the distribution's packages, and a folder of files that goes on top.

    build_image.py [--plan] < specification

The packages are chosen and fetched by the machine's own apt, with its sources, keys, proxies and pins, as if nothing
were installed; then they are only unpacked. No script of a package runs, which is what makes this take seconds; the few
results of such scripts that a container needs are made here. The base is kept, so that a change of the files on top
costs only the packing.

The specification is JSON: packages, content (a folder), environment (the image's variables), work (a folder of ours),
target, owner, and program (a digest of this file). Prints what it did, or nothing if the image beside its label is what
would come out.
"""

from __future__ import annotations

import concurrent.futures
import hashlib
import json
import os
import shutil
import stat
import subprocess
import sys
from pathlib import Path

EXCLUDED = (
    "./usr/share/doc/*", "./usr/share/man/*", "./usr/share/info/*", "./usr/share/locale/*", "./usr/share/lintian/*",
    "./usr/lib/python3*/test/*", "./usr/lib/python3/dist-packages/numpy/*/tests/*", "./usr/share/zoneinfo/*",
    "./usr/share/gitweb/*", "./var/lib/gitweb/*",
)  # fmt: skip
MERGED = ("bin", "lib", "lib32", "lib64", "libx32", "sbin")
SOURCE = "opt/NeMo"  # the folder of the image that is a Git repository, as in NVIDIA's image
GIT_DATE = "2024-01-01T00:00:00+00:00"


def run(*command: str, **options) -> str:
    """Run a command and return what it says. Raises SystemExit with its words if it fails."""
    done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False, **options)
    if done.returncode != 0:
        said = (done.stdout + done.stderr).splitlines()[-15:]
        raise SystemExit(f"{' '.join(command[:4])} ... answered {done.returncode}:\n" + "\n".join(said))
    return done.stdout


def digest_of_folder(folder: Path) -> str:
    """Return a digest over names, modes and contents."""
    digest = hashlib.sha256()
    for path in sorted(folder.rglob("*")):
        if path.is_file() and "__pycache__" not in path.parts:
            executable = bool(path.stat().st_mode & stat.S_IXUSR)
            digest.update(f"{path.relative_to(folder)} {executable} {path.stat().st_size}\n".encode())
            digest.update(path.read_bytes())
    return digest.hexdigest()


def labels(specification: dict) -> tuple[str, str]:
    """Return the labels of the base and of the whole image: digests of all that goes into them."""
    release = Path("/etc/os-release").read_text()
    program = specification["program"]
    base = hashlib.sha256(json.dumps([program, release, sorted(specification["packages"])]).encode()).hexdigest()
    on_top = digest_of_folder(Path(specification["content"])) + json.dumps(specification["environment"], sort_keys=True)
    whole = hashlib.sha256((base + on_top).encode()).hexdigest()
    return base, whole


def download(packages: list[str], folder: Path) -> list[Path]:
    """Let apt choose and fetch packages for a machine on which nothing is installed."""
    (folder / "partial").mkdir(parents=True, exist_ok=True)
    status = folder / "status"
    status.touch()
    apt = [
        "apt-get", "--quiet", "--yes", "--no-install-recommends", "--download-only",
        "-o", f"Dir::State::status={status}", "-o", f"Dir::Cache::archives={folder}", "-o", "Debug::NoLocking=1",
        "-o", "APT::Sandbox::User=root", "-o", "Acquire::Retries=3", "install", *packages,
    ]  # fmt: skip
    environment = {**os.environ, "LC_ALL": "C.UTF-8", "DEBIAN_FRONTEND": "noninteractive"}
    first = subprocess.run(apt, stdin=subprocess.DEVNULL, capture_output=True, check=False, env=environment)
    if first.returncode != 0:  # most likely lists that are not there or too old
        run("apt-get", "--quiet", "-o", "DPkg::Lock::Timeout=600", "update", env=environment)
        run(*apt, env=environment)
    return sorted(folder.glob("*.deb"))


def unpack(archive: Path, root: Path) -> None:
    """Unpack one package; folders that are links in a merged file system stay links."""
    with subprocess.Popen(["dpkg-deb", "--fsys-tarfile", str(archive)], stdout=subprocess.PIPE) as source:
        exclude = [f"--exclude={pattern}" for pattern in EXCLUDED]
        where = f"/proc/{os.getpid()}/fd/{source.stdout.fileno()}"
        run("tar", "-x", "-p", "-C", str(root), "--keep-directory-symlink", "--no-same-owner", *exclude, "-f", where)
    if source.returncode != 0:
        raise SystemExit(f"{archive.name} cannot be unpacked.")


def furnish(root: Path) -> None:
    """Make what scripts of the packages would have made."""
    for name in ("passwd", "group"):
        master = root / f"usr/share/base-passwd/{name}.master"
        (root / f"etc/{name}").write_text(master.read_text() if master.exists() else "root:x:0:0::/root:/bin/bash\n")
    (root / "etc/nsswitch.conf").write_text("passwd: files\ngroup: files\nshadow: files\nhosts: files dns\n")
    (root / "etc/gitconfig").write_text("[safe]\n\tdirectory = *\n")
    for link, target in (("sh", "bash"), ("awk", "gawk"), ("which", "which.debianutils")):
        place = root / "usr/bin" / link
        if not os.path.lexists(place) and (root / "usr/bin" / target).exists():
            place.symlink_to(target)
    certificates = sorted((root / "usr/share/ca-certificates/mozilla").glob("*.crt"))
    if certificates:
        (root / "etc/ssl/certs").mkdir(parents=True, exist_ok=True)
        bundle = root / "etc/ssl/certs/ca-certificates.crt"
        bundle.write_text("".join(path.read_text() for path in certificates))
    # Libraries that are reached by an alternative, such as BLAS under NumPy.
    folders = sorted({f"/{path.parent.relative_to(root)}" for path in (root / "usr/lib").glob("*/*/lib*.so.*")
                      if path.parent.name in ("blas", "lapack", "atlas")})  # fmt: skip
    (root / "etc/ld.so.conf.d").mkdir(parents=True, exist_ok=True)
    (root / "etc/ld.so.conf.d/alternatives.conf").write_text("".join(f"{folder}\n" for folder in folders))
    run("ldconfig", "-r", str(root))
    # Without compiled files every rank would compile NumPy anew at each start.
    programs = [path for path in (root / "usr/lib").glob("python3*") if path.is_dir()]
    with concurrent.futures.ThreadPoolExecutor() as pool:
        list(pool.map(lambda path: subprocess.run(
            ["chroot", str(root), "/usr/bin/python3", "-m", "compileall", "-q", "-x", "/(test|tests|lib2to3|idlelib)/",
             f"/{path.relative_to(root)}"],
            stdin=subprocess.DEVNULL, capture_output=True, check=False), programs))  # fmt: skip


def build_base(packages: list[str], base: Path) -> None:
    """Make the root file system of the packages."""
    new, archives = base.with_name("base.new"), base.with_name("packages")
    for path in (new, archives, base):
        shutil.rmtree(path, ignore_errors=True)
    for name in MERGED:
        (new / "usr" / name).mkdir(parents=True)
        (new / name).symlink_to(f"usr/{name}")
    files = download(packages, archives)
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        list(pool.map(lambda path: unpack(path, new), files))
    furnish(new)
    shutil.rmtree(archives)
    new.rename(base)


def commit(folder: Path) -> None:
    """Make a folder a Git repository of one commit, the same one for the same files."""
    folder.mkdir(parents=True, exist_ok=True)
    environment = {
        "PATH": os.environ["PATH"], "HOME": "/nonexistent", "GIT_CONFIG_NOSYSTEM": "1",
        **{f"GIT_{who}_{what}": value for who in ("AUTHOR", "COMMITTER")
           for what, value in (("NAME", "Sandbox"), ("EMAIL", "sandbox@localhost"), ("DATE", GIT_DATE))},
    }  # fmt: skip
    run("git", "init", "--quiet", "--initial-branch=main", cwd=folder, env=environment)
    run("git", "add", "--all", "--force", cwd=folder, env=environment)
    run(
        "git",
        "commit",
        "--quiet",
        "--allow-empty",
        "--message=Source of the sandbox image",
        cwd=folder,
        env=environment,
    )


def pack(base: Path, content: Path, environment: dict, target: Path, owner: str) -> None:
    """Put the files on the base and pack both, under a temporary name first."""
    stage = base.with_name("stage")
    shutil.rmtree(stage, ignore_errors=True)
    run("cp", "-al", str(base), str(stage))
    run("cp", "-r", "--remove-destination", "--no-preserve=ownership", f"{content}/.", str(stage))
    for path in [*stage.rglob("__pycache__")] if (stage / SOURCE).exists() else []:
        if SOURCE in str(path):
            shutil.rmtree(path)
    commit(stage / SOURCE)
    # Where Enroot keeps what the image's configuration says.
    variables = stage / "etc/environment"
    variables.unlink(missing_ok=True)
    variables.write_text("".join(f"{name}={value}\n" for name, value in environment.items()))
    known = subprocess.run(["mksquashfs", "-help"], capture_output=True, text=True, check=False)
    fast = ["zstd", "-Xcompression-level", "1"] if "zstd" in known.stdout + known.stderr else (
        ["gzip", "-Xcompression-level", "1"])  # fmt: skip
    new = target.with_name(f".{target.name}.new")
    new.unlink(missing_ok=True)
    run("mksquashfs", str(stage), str(new), "-all-root", "-no-progress", "-quiet", "-noappend", "-comp", *fast)
    shutil.rmtree(stage)
    shutil.chown(new, owner, owner)
    with open(new, "rb") as stream:
        os.fsync(stream.fileno())
    new.replace(target)


def main() -> None:
    """Build what is not there."""
    specification = json.load(sys.stdin)
    work, target = Path(specification["work"]), Path(specification["target"])
    base_label, label = labels(specification)
    beside = target.with_name(f"{target.name}.label")
    if target.exists() and beside.exists() and beside.read_text().strip() == label:
        return
    if "--plan" in sys.argv[1:]:
        print(f"{target} would be built")
        return
    base = work / "base"
    if not base.exists() or not (work / "base.label").exists() or (work / "base.label").read_text() != base_label:
        (work / "base.label").unlink(missing_ok=True)
        build_base(specification["packages"], base)
        (work / "base.label").write_text(base_label)
        print("base built")
    pack(base, Path(specification["content"]), specification["environment"], target, specification["owner"])
    beside.write_text(f"{label}\n")
    print(f"{target} built")


if __name__ == "__main__":
    main()
