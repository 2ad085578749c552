# Copyright: (c) 2026, The dgxc.workloads developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Container images for the stand-ins: references, registries, squashfs files and the copies unpacked from them.

Rules and messages follow Enroot 4.1.2 (3.x where the sandbox is told to be that old); nothing needs privilege.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import platform
import re
import shutil
import subprocess
import tarfile
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

DOCKER_HUB = "registry-1.docker.io"
REGISTRY_SECONDS = 10
MANIFEST_LISTS = "application/vnd.docker.distribution.manifest.list.v2+json, application/vnd.oci.image.index.v1+json"
MANIFESTS = "application/vnd.docker.distribution.manifest.v2+json, application/vnd.oci.image.manifest.v1+json"
STATUS = {401: "Unauthorized", 403: "Forbidden", 404: "Not Found", 429: "Too Many Requests",
          500: "Internal Server Error", 502: "Bad Gateway", 503: "Service Unavailable"}  # fmt: skip
Say = Callable[[str], None]


class EnrootError(Exception):
    """What Enroot says when it gives up: a message after [ERROR], or the lines of the program that failed.

    Its exit code is 1 for a message of its own, that of the program otherwise.
    """

    def __init__(self, message: str = "", lines: tuple[str, ...] = (), code: int = 1) -> None:
        super().__init__(message)
        self.code = code
        self.lines = (*lines, f"[ERROR] {message}") if message else lines


class Reference(NamedTuple):
    """An image in a registry."""

    user: str
    registry: str
    image: str
    tag: str


def parse_reference(uri: str, version: str) -> Reference:
    """Read `docker://[USER@][REGISTRY#]IMAGE[:TAG]`, and from Enroot 4 on also `REGISTRY/IMAGE` and digests.

    The part before the first slash is a registry only if it has a dot or a colon; otherwise it is a folder of Docker
    Hub, which is where a relative path of a .sqsh file ends up. Enroot 4 leaves it to Docker Hub to refuse capital
    letters in a name without a slash and in such a folder. Raises EnrootError.
    """
    modern = int(version.split(".")[0]) >= 4
    user = r"(?:(?P<user>[^@/#]+)@)?"
    image = r"(?P<image>[a-z0-9._/-]+)"
    tag = r"(?::(?P<tag>[A-Za-z0-9._-]+))?" + (r"(?:@(?P<digest>sha256:[0-9a-zA-Z]+))?" if modern else "")
    found = re.fullmatch(rf"docker://{user}(?P<registry>[^#/@]+)#{image}{tag}", uri)
    if found is None and modern:
        found = re.fullmatch(rf"docker://{user}(?P<registry>[^/#@]*[.:][^/#@]*)/{image}{tag}", uri)
    if found is None and modern:
        found = re.fullmatch(rf"docker://{user}(?P<image>[^/#@:]+(?:/[a-z0-9._/-]+)?){tag}", uri)
    if found is None and not modern:
        found = re.fullmatch(rf"docker://{user}{image}{tag}", uri)
    if found is None:
        raise EnrootError(f"Invalid image reference: {uri}")
    parts = found.groupdict()
    registry = parts.get("registry") or DOCKER_HUB
    if registry in ("docker.io", "index.docker.io"):
        registry = DOCKER_HUB
    name = parts["image"]
    if registry == DOCKER_HUB and "/" not in name:
        name = f"library/{name}"
    return Reference(parts["user"] or "", registry, name, parts.get("digest") or parts["tag"] or "latest")


class Registry:
    """A client of one registry, over curl as the real one, so that proxies, certificates and messages are the same."""

    def __init__(self, reference: Reference, say: Say) -> None:
        self.reference, self.say = reference, say
        self.scheme = "http" if truth(os.environ.get("ENROOT_ALLOW_HTTP")) else "https"
        self.header: list[str] = []

    def credentials(self) -> list[str]:
        """Return curl's options for the user, from Enroot's file of credentials if it has an entry."""
        folder = os.environ.get("ENROOT_CONFIG_PATH") or os.path.expanduser("~/.config/enroot")
        path = Path(folder) / ".credentials"
        host = self.reference.registry.partition(":")[0]
        user = self.reference.user
        if path.exists():
            for line in path.read_text().splitlines():
                words = line.split()
                if words[:2] == ["machine", host] and len(words) > 3 and user in ("", words[3]):
                    self.say(f"[INFO] Authenticating with user: {words[3]}")
                    self.say(f"[INFO] Using credentials from file: {path}")
                    return ["--netrc-file", str(path)]
        self.say(f"[INFO] Authenticating with user: {user or '<anonymous>'}")
        return ["-u", user] if user else []

    def curl(self, url: str, *options: str, ignore: tuple[int, ...] = ()) -> bytes:
        """Fetch one address. Raises EnrootError with curl's or Enroot's words."""
        done = subprocess.run(
            ["curl", "-SsL", "--connect-timeout", str(REGISTRY_SECONDS), "-w", "\n%{http_code}", *options, "--", url],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            check=False,
        )
        body, _newline, code = done.stdout.rpartition(b"\n")
        if done.returncode != 0:
            raise EnrootError(lines=tuple(done.stderr.decode().splitlines()), code=done.returncode)
        status = int(code)
        if status >= 400 and status not in ignore:
            raise EnrootError(f"URL {url} returned error code: {status} {STATUS.get(status, '')}".rstrip())
        return body

    def authenticate(self, url: str) -> None:
        """Ask for a token if the registry wants one."""
        self.say("[INFO] Querying registry for permission grant")
        headers = self.curl(url, "-I", ignore=(401,)).decode(errors="replace")
        challenge = re.search(r"(?im)^www-authenticate:\s*(\w+)\s+(.*)$", headers)
        if challenge is None:
            self.say("[INFO] Permission granted")
            return
        kind = challenge[1]
        fields = dict(re.findall(r'(\w+)="([^"]*)"', challenge[2]))
        if "realm" not in fields:
            raise EnrootError(f"Could not parse authentication realm from {url}")
        login = self.credentials()
        if kind.lower() == "basic":
            self.header = login
            return
        data = [word for name, value in fields.items() if name != "realm"
                for word in ("--data-urlencode", f"{name}={value}")]  # fmt: skip
        answer = self.curl(fields["realm"], "-G", *data, *login)
        token = json.loads(answer or b"{}")
        self.header = ["-H", f"Authorization: Bearer {token.get('token') or token.get('access_token')}"]
        self.say("[INFO] Authentication succeeded")

    def manifest(self) -> dict:
        """Return the manifest for this machine's architecture."""
        base = f"{self.scheme}://{self.reference.registry}/v2/{self.reference.image}/manifests/"
        url = base + self.reference.tag
        self.authenticate(url)
        self.say("[INFO] Fetching image manifest list")
        listing = self.curl(url, "-H", f"Accept: {MANIFEST_LISTS}", *self.header, ignore=(401, 404))
        architecture = {"x86_64": "amd64", "aarch64": "arm64"}.get(platform.machine(), platform.machine())
        try:
            for item in json.loads(listing).get("manifests", []):
                if item.get("platform", {}).get("architecture") == architecture:
                    url = base + item["digest"]
                    break
        except ValueError:
            pass
        self.say("[INFO] Fetching image manifest")
        try:
            return json.loads(self.curl(url, "-H", f"Accept: {MANIFESTS}", *self.header))
        except ValueError:
            raise EnrootError(f"Could not parse digest information from {url}") from None

    def blob(self, digest: str, target: Path) -> None:
        """Download one blob and check its digest."""
        url = f"{self.scheme}://{self.reference.registry}/v2/{self.reference.image}/blobs/{digest}"
        self.curl(url, *self.header, "-o", str(target))
        with open(target, "rb") as stream:
            found = hashlib.sha256()
            while block := stream.read(1 << 20):
                found.update(block)
        if f"sha256:{found.hexdigest()}" != digest:
            raise EnrootError(f"Checksum mismatch: {digest}")


def truth(text: str | None) -> bool:
    """Read one of Enroot's switches."""
    return (text or "no").lower() not in ("n", "no", "f", "false")


def apply_layer(archive: Path, root: Path) -> None:
    """Unpack one layer over those below, with its whiteouts."""
    with tarfile.open(archive) as layer:
        for member in layer:
            path = Path(os.path.normpath("/" + member.name).lstrip("/") or ".")
            folder = root / path.parent
            if not os.path.realpath(folder).startswith(os.path.realpath(root)):
                continue
            if path.name == ".wh..wh..opq":
                for child in folder.iterdir() if folder.is_dir() else []:
                    remove_tree(child)
                continue
            if path.name.startswith(".wh."):
                remove_tree(folder / path.name[4:])
                continue
            if path.parts[:1] == ("dev",) or member.ischr() or member.isblk() or member.isfifo():
                continue
            place = root / path
            if os.path.lexists(place) and not (member.isdir() and place.is_dir() and not place.is_symlink()):
                remove_tree(place)
            folder.mkdir(parents=True, exist_ok=True)
            member.name, member.mode = str(path), member.mode | (0o700 if member.isdir() else 0o600)
            layer.extract(member, root, numeric_owner=True, set_attrs=not member.issym())


def configure(root: Path, config: dict, uri: str) -> None:
    """Write what the image's configuration says to where Enroot keeps it."""
    for name in ("etc", config.get("WorkingDir", "").lstrip("/") or "etc"):
        (root / name).mkdir(parents=True, exist_ok=True)
    (root / "etc" / "environment").write_text("".join(f"{line}\n" for line in config.get("Env") or []))
    (root / "etc" / "rc").write_text(f'# enroot-provenance: {uri}\ncd "{config.get("WorkingDir") or "/"}"\n')


def make_squashfs(root: Path, target: str, say: Say) -> None:
    """Pack a root file system."""
    say("[INFO] Creating squashfs filesystem...")
    command = ["mksquashfs", str(root), target, "-all-root", "-no-progress", "-quiet", "-comp", "lzo", "-noappend"]
    done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        Path(target).unlink(missing_ok=True)
        raise EnrootError(lines=tuple(done.stderr.splitlines()))


def need(*programs: str) -> None:
    """Raise EnrootError if a program is missing."""
    for program in programs:
        if shutil.which(program) is None:
            raise EnrootError(f"Command not found: {program}")


def import_image(uri: str, target: str, sandbox: dict, say: Say) -> str:
    """Make a squashfs file of an image in a registry or in Docker's store. Returns its path. Raises EnrootError."""
    if uri.startswith("docker://"):
        need("curl", "mksquashfs")
        reference = parse_reference(uri, sandbox["enroot_version"])
        name = reference.image
        if reference.registry == DOCKER_HUB and name.startswith("library/"):
            name = name[len("library/") :]
        target = os.path.realpath(target or f"{name.replace('/', '+')}+{reference.tag}.sqsh")
    elif uri.startswith("dockerd://"):
        need("docker", "mksquashfs")
        image = uri[len("dockerd://") :]
        if not re.fullmatch(r"[A-Za-z0-9/._:-]+", image):
            raise EnrootError(f"Invalid image reference: {uri}")
        target = os.path.realpath(target or f"{re.sub('[:/]', '+', image)}.sqsh")
    else:
        raise EnrootError(f"Invalid argument: {uri}")
    if os.path.exists(target):
        raise EnrootError(f"File already exists: {target}")
    if not os.path.isdir(os.path.dirname(target)):
        raise EnrootError(f"No such file or directory: {target}")
    folder = Path(tempfile.mkdtemp(prefix="enroot.", dir=os.environ.get("ENROOT_TEMP_PATH")))
    try:
        root = folder / "rootfs"
        root.mkdir()
        if uri.startswith("docker://"):
            pull(reference, root, folder, say)
        else:
            export(image, root, folder, say)
        make_squashfs(root, target, say)
    finally:
        remove_tree(folder)
    return target


def pull(reference: Reference, root: Path, folder: Path, say: Say) -> None:
    """Download and unpack an image from a registry."""
    registry = Registry(reference, say)
    manifest = registry.manifest()
    layers = manifest.get("layers") or []
    if not layers or "config" not in manifest:
        raise EnrootError(
            f"Could not parse digest information from {registry.scheme}://{reference.registry}/v2/"
            f"{reference.image}/manifests/{reference.tag}"
        )
    say(f"[INFO] Downloading {len(layers)} missing layers...")
    for number, layer in enumerate(layers):
        archive = folder / f"layer-{number}"
        registry.blob(layer["digest"], archive)
        apply_layer(archive, root)
        archive.unlink()
    registry.blob(manifest["config"]["digest"], folder / "config")
    config = json.loads((folder / "config").read_text()).get("config") or {}
    configure(root, config, f"docker://{reference.registry}#{reference.image}:{reference.tag}")


def export(image: str, root: Path, folder: Path, say: Say) -> None:
    """Unpack an image of the Docker daemon."""

    def docker(*words: str) -> str:
        done = subprocess.run(["docker", *words], stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise EnrootError(lines=tuple(done.stderr.splitlines()))
        return done.stdout

    say("[INFO] Fetching image")
    docker("create", "--name", folder.name, image)
    try:
        say("[INFO] Extracting image content...")
        docker("export", "--output", str(folder / "image.tar"), folder.name)
        apply_layer(folder / "image.tar", root)
    finally:
        subprocess.run(["docker", "rm", "--force", "--volumes", folder.name], capture_output=True, check=False)
    configure(root, json.loads(docker("inspect", image))[0].get("Config") or {}, f"dockerd://{image}")


def check_squashfs(image: str) -> str:
    """Return an image's real path. Raises EnrootError as `enroot create` does."""
    path = os.path.realpath(image)
    if not os.path.isfile(path):
        raise EnrootError(f"No such file or directory: {path}")
    if subprocess.run(["unsquashfs", "-s", path], capture_output=True, check=False).returncode != 0:
        raise EnrootError(f"Invalid image format: {path}")
    return path


def unpack(image: str, root: Path) -> None:
    """Unpack a squashfs file to a folder that does not exist. Raises EnrootError with the words of unsquashfs."""
    command = ["unsquashfs", "-no-progress", "-no-xattrs", "-quiet", "-d", str(root), image]
    done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        remove_tree(root)
        raise EnrootError(lines=tuple(line for line in done.stderr.splitlines() if line)[-6:])
    # A folder without write permission could not be furnished, linked or removed later.
    subprocess.run(["chmod", "-R", "u+rwX", str(root)], check=False)


def cached_root(image: str, cache: Path, say: Say) -> Path:
    """Return an unpacked copy of an image that nobody may change; unpack it if its file is new. Raises EnrootError."""
    path = check_squashfs(image)
    status = os.stat(path)
    place = hashlib.sha256(path.encode()).hexdigest()[:16]
    key = f"{place}-{status.st_ino}-{status.st_size}-{status.st_mtime_ns}"
    cache.mkdir(mode=0o700, parents=True, exist_ok=True)
    with open(cache / f"{place}.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        say("[INFO] Extracting squashfs filesystem...")
        if not (cache / key).is_dir():
            for old in cache.glob(f"{place}-*"):  # what an older file of this name held, or a half-done copy
                remove_tree(old)
            new = cache / f"{key}.new"
            unpack(path, new)
            new.rename(cache / key)
    return cache / key


def remove_tree(path: Path) -> None:
    """Remove a file or a folder, whatever its modes."""
    if path.is_symlink() or not path.is_dir():
        path.unlink(missing_ok=True)
        return
    subprocess.run(["chmod", "-R", "u+rwX", str(path)], check=False, capture_output=True)
    shutil.rmtree(path)
