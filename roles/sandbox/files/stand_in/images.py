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
SQUASH_OPTIONS = "-comp lzo -noD -exit-on-error"
ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64", "ppc64le": "ppc64le"}
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

    def __init__(self, reference: Reference, architecture: str, say: Say) -> None:
        self.reference, self.architecture, self.say = reference, architecture, say
        self.scheme = "http" if truth(os.environ.get("ENROOT_ALLOW_HTTP")) else "https"
        self.header: list[str] = []

    def credentials(self) -> list[str]:
        """Return curl's options for the user, from Enroot's file of credentials if it has an entry."""
        folder = os.environ.get("ENROOT_CONFIG_PATH") or os.path.expanduser("~/.config/enroot")
        path = Path(folder) / ".credentials"
        host = self.reference.registry.partition(":")[0]
        user = self.reference.user
        lines = path.read_text().splitlines() if path.exists() else []
        logins = [words[3] for words in map(str.split, lines)
                  if words[:2] == ["machine", host] and words[2:3] == ["login"] and len(words) > 3]  # fmt: skip
        if not user and logins:
            user = logins[0]
        self.say(f"[INFO] Authenticating with user: {user or '<anonymous>'}")
        if not user:
            return []
        if user not in logins:
            return ["-u", user]
        self.say(f"[INFO] Using credentials from file: {path}")
        descriptor = os.memfd_create("netrc", 0)
        os.write(descriptor, "".join(f"{evaluated(line)}\n" for line in lines).encode())
        os.set_inheritable(descriptor, True)
        return ["--netrc-file", f"/proc/self/fd/{descriptor}"]

    def curl(self, url: str, *options: str, ignore: tuple[int, ...] = ()) -> bytes:
        """Fetch one address. Raises EnrootError with curl's or Enroot's words."""
        done = subprocess.run(
            ["curl", *self.options(), "-w", "\n%{http_code}", *options, "--", url],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            check=False,
            close_fds=False,
        )
        body, _newline, code = done.stdout.rpartition(b"\n")
        if done.returncode != 0:
            raise EnrootError(lines=tuple(done.stderr.decode().splitlines()), code=done.returncode)
        status = int(code)
        if status >= 400 and status not in ignore:
            raise EnrootError(f"URL {url} returned error code: {status} {STATUS.get(status, '')}".rstrip())
        return body

    @staticmethod
    def options() -> list[str]:
        """Return the options of every call of curl."""
        retries = os.environ.get("ENROOT_TRANSFER_RETRIES") or "0"
        return ["-SsL", "--retry", retries, "--connect-timeout", str(REGISTRY_SECONDS)]

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
            self.curl(url, "-G", *login)
            self.header = login
            if login:
                self.say("[INFO] Authentication succeeded")
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
        try:
            for item in json.loads(listing).get("manifests", []):
                if item.get("platform", {}).get("architecture") == self.architecture:
                    url = base + item["digest"]
                    break
        except ValueError:
            pass
        self.say("[INFO] Fetching image manifest")
        try:
            return json.loads(self.curl(url, "-H", f"Accept: {MANIFESTS}", *self.header))
        except ValueError:
            raise EnrootError(f"Could not parse digest information from {url}") from None

    def blob(self, digest: str, cache: Path) -> None:
        """Download one blob into the cache under a name of its own, check it, and give it its name."""
        url = f"{self.scheme}://{self.reference.registry}/v2/{self.reference.image}/blobs/{digest}"
        plain = digest.partition(":")[2]
        descriptor, temporary = tempfile.mkstemp(prefix=f"{plain}.", dir=cache)
        os.close(descriptor)
        try:
            self.curl(url, "-f", *self.header, "-o", temporary)
            found = hashlib.sha256()
            with open(temporary, "rb") as stream:
                while block := stream.read(1 << 20):
                    found.update(block)
            if found.hexdigest() != plain:
                raise EnrootError(lines=(f"Checksum mismatch: {plain}",))
            os.chmod(temporary, 0o640)
            os.rename(temporary, cache / plain)
        finally:
            Path(temporary).unlink(missing_ok=True)


def evaluated(line: str) -> str:
    """Return a line of the file of credentials, whose password is a command of the shell if it begins with a $."""
    words = line.split(None, 5)
    if len(words) < 6 or not words[5].startswith("$"):
        return line
    done = subprocess.run(["sh", "-c", f"echo {words[5]}"], capture_output=True, text=True, check=False)
    return " ".join([*words[:5], done.stdout.strip()])


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
    options = os.environ.get("ENROOT_SQUASH_OPTIONS", SQUASH_OPTIONS).split()
    command = ["mksquashfs", str(root), target, "-all-root", "-no-progress", *options]
    done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
    if done.returncode != 0:  # what was written stays
        raise EnrootError(lines=tuple(done.stderr.splitlines()), code=done.returncode)


def need(*programs: str) -> None:
    """Raise EnrootError if a program is missing."""
    for program in programs:
        if shutil.which(program) is None:
            raise EnrootError(f"Command not found: {program}")


def temporary_folder() -> Path:
    """Make Enroot's temporary folder of one import. Raises EnrootError with the words of mktemp."""
    place = os.environ.get("ENROOT_TEMP_PATH") or os.environ.get("TMPDIR") or "/tmp"
    try:
        return Path(tempfile.mkdtemp(prefix="enroot.", dir=place))
    except OSError as error:
        template = f"{place}/enroot.XXXXXXXXXX"
        raise EnrootError(
            lines=(f"mktemp: failed to create directory via template '{template}': {error.strerror}",)
        ) from None


def import_image(uri: str, target: str, sandbox: dict, say: Say, machine: str = "") -> str:
    """Make a squashfs file of an image in a registry or in Docker's store. Returns its path. Raises EnrootError."""
    if uri.startswith("docker://"):
        need("curl", "mksquashfs")
        reference = parse_reference(uri, sandbox["enroot_version"])
        name = reference.image
        if reference.registry == DOCKER_HUB and name.startswith("library/"):
            name = name[len("library/") :]
        target = os.path.realpath(target or f"{name.replace('/', '+')}+{reference.tag}.sqsh")
    elif uri.startswith("dockerd://"):
        need("docker", "mksquashfs", "tar")
        image = uri[len("dockerd://") :]
        if not re.fullmatch(r"[A-Za-z0-9/._:-]+", image):
            raise EnrootError(f"Invalid image reference: {uri}")
        target = os.path.realpath(target or f"{re.sub('[:/]', '+', image)}.sqsh")
    else:
        raise EnrootError(f"Invalid argument: {uri}")
    machine = machine or platform.machine()
    if machine not in ARCHITECTURES:
        raise EnrootError(f"Unsupported architecture: {machine}")
    if os.path.exists(target):
        raise EnrootError(f"File already exists: {target}")
    if not os.path.isdir(os.path.dirname(target)):
        raise EnrootError(f"No such file or directory: {target}")
    folder = temporary_folder()
    try:
        root = folder / "rootfs"
        root.mkdir()
        if uri.startswith("docker://"):
            pull(reference, root, ARCHITECTURES[machine], say)
        else:
            export(image, root, folder, ARCHITECTURES[machine], say)
        make_squashfs(root, target, say)
    except OSError as error:  # a full disk, in the words of tar
        raise EnrootError(lines=(f"tar: {error.filename or folder}: Cannot write: {error.strerror}",), code=2) from None
    finally:
        remove_tree(folder)
    return target


def pull(reference: Reference, root: Path, architecture: str, say: Say) -> None:
    """Download an image from a registry, as far as the cache does not have it, and unpack it."""
    registry = Registry(reference, architecture, say)
    manifest = registry.manifest()
    layers = [layer["digest"] for layer in manifest.get("layers") or []]
    if not layers or "config" not in manifest:
        raise EnrootError(
            f"Could not parse digest information from {registry.scheme}://{reference.registry}/v2/"
            f"{reference.image}/manifests/{reference.tag}"
        )
    cache = Path(os.environ.get("ENROOT_CACHE_PATH") or os.path.expanduser("~/.cache/enroot"))
    cache.mkdir(mode=0o700, parents=True, exist_ok=True)

    def cached(digest: str) -> Path:
        return cache / digest.partition(":")[2]

    if not cached(manifest["config"]["digest"]).exists():
        registry.blob(manifest["config"]["digest"], cache)
    missing = sorted({layer for layer in layers if not cached(layer).exists()})
    say(f"[INFO] Downloading {len(missing)} missing layers..." if missing else "[INFO] Found all layers in cache")
    for layer in missing:
        registry.blob(layer, cache)
    say("[INFO] Extracting image layers...")
    for layer in layers:
        apply_layer(cached(layer), root)
    config = json.loads(cached(manifest["config"]["digest"]).read_text())
    compare_architecture(config.get("architecture"), architecture, say)
    configure(root, config.get("config") or {}, f"docker://{reference.registry}#{reference.image}:{reference.tag}")


def compare_architecture(found: str | None, wanted: str, say: Say) -> None:
    """Warn about an image of another architecture, and go on."""
    if found != wanted:
        say(f"[WARN] Image architecture doesn't match the requested one: {found or ''} != {wanted}")


def export(image: str, root: Path, folder: Path, architecture: str, say: Say) -> None:
    """Unpack an image of the Docker daemon."""

    def docker(*words: str) -> str:
        done = subprocess.run(["docker", *words], stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise EnrootError(lines=tuple(done.stderr.splitlines()), code=done.returncode)
        return done.stdout

    say("[INFO] Fetching image")
    docker("create", "--name", folder.name, image)
    try:
        say("[INFO] Extracting image content...")
        tar = ["tar", "-C", str(root), "--warning=no-timestamp", "--anchored", "--exclude=dev/*",
               "--exclude=.dockerenv", "-px"]  # fmt: skip
        with subprocess.Popen(["docker", "export", folder.name], stdout=subprocess.PIPE) as source:
            done = subprocess.run(tar, stdin=source.stdout, capture_output=True, text=True, check=False)
        if done.returncode != 0 or source.returncode != 0:
            raise EnrootError(lines=tuple(done.stderr.splitlines()[-6:]), code=done.returncode or source.returncode)
        subprocess.run(["chmod", "-R", "u+rX", str(root)], check=False)
    finally:
        subprocess.run(["docker", "rm", "--force", "--volumes", folder.name], capture_output=True, check=False)
    found = json.loads(docker("inspect", image))[0]
    compare_architecture(found.get("Architecture"), architecture, say)
    configure(root, found.get("Config") or {}, f"dockerd://{image}")


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
