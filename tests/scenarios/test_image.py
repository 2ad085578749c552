# Copyright: (c) 2026, The dgxc.workloads developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Images with a real Docker Engine and a real registry: built, pushed, shipped, imported, interrupted, refused."""

from __future__ import annotations

import contextlib
import hashlib
import io
import json
import os
import re
import shutil
import signal
import subprocess
import tarfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.harness.sandbox import BIN, PREFIX, USER, Play, wait_until

pytestmark = pytest.mark.images

SHARED = PREFIX / "shared" / USER
SOCKET = PREFIX / "run" / "docker" / "docker.sock"
PASSWORD = PREFIX / "etc" / "registry" / "password"
BUNDLE = PREFIX / "etc" / "registry" / "bundle.pem"
REGISTRY_LOG = PREFIX / "log" / "registry" / "registry.start"
REGISTRY = "localhost:17050"
MEGABYTES = 12


def docker(*words: str, check: bool = True, **options: Any) -> str:
    done = subprocess.run(
        ["/usr/bin/docker", f"--host=unix://{SOCKET}", *words], capture_output=True, check=False, **options
    )
    assert not check or done.returncode == 0, done.stderr
    return done.stdout.decode()


class Person:
    """Somebody with a Docker Engine, a registry and a folder on shared storage."""

    def __init__(self, folder: Path, root: Path) -> None:
        self.folder, self.root = folder, root
        self.name = root.name
        self.build = folder / "build"
        self.password = PASSWORD.read_text().strip()
        self.plays: list[Play] = []

    def play(self, delivery: str, *arguments: str, environment: dict[str, str] | None = None, **given: object) -> Play:
        values = {
            "image_name": "small",
            "image_base": f"{self.name}:1",
            "image_delivery": delivery,
            "image_docker_host": f"unix://{SOCKET}",
            "image_build_folder": str(self.build),
            "image_build_enroot": str(PREFIX / "bin" / "enroot"),
            "image_folder": str(self.root / "images"),
            "image_registry": f"{REGISTRY}/{self.name}",
            "image_registry_ca": str(BUNDLE),
            "image_registry_username": "builder",
            "image_enroot_config_path": str(self.root / "enroot"),
            "image_enroot_cache_path": str(self.root / "cache"),
            "image_enroot_temp_path": str(self.root / "temp"),
            **given,
        }
        command = [str(BIN / "ansible-playbook"), "playbooks/image.yml", "-i", "inventories/sandbox", *arguments]
        variables = {"DGXC_REGISTRY_PASSWORD": self.password, **(environment or {})}
        log = self.folder / f"play-{len(self.plays)}.log"
        self.plays.append(Play(log, [*command, "-e", json.dumps(values)], variables))
        return self.plays[-1]

    def image(self, name: str = "small-24.01.sqsh") -> Path:
        return self.root / "images" / name

    def record(self, name: str = "small-24.01.sqsh") -> dict[str, Any]:
        return json.loads(self.image(name).with_name(f"{name}.json").read_text())

    def left(self) -> list[str]:
        """What lies beside the images and is neither an image nor a record."""
        return [path.name for path in (self.root / "images").iterdir() if path.name.startswith(".")]

    def requests(self) -> list[str]:
        """Method and address of every request for this person's images that the registry has had."""
        said = REGISTRY_LOG.read_text(errors="replace")
        return re.findall(rf'"(\w+ /v2/{self.name}/\S+) HTTP', said)


def whole(path: Path) -> bool:
    return subprocess.run(["unsquashfs", "-l", path], stdout=subprocess.DEVNULL, check=False).returncode == 0


@pytest.fixture(scope="module")
def person(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Person]:
    """One person for the whole story: the tests of this file build on one another."""
    if not SOCKET.exists():
        pytest.skip("the sandbox has no Docker Engine: make it with -e sandbox_docker=true")
    root = SHARED / f"image-{os.getpid()}"
    for folder in (root, root / "images", root / "cache", root / "temp"):
        folder.mkdir()
        shutil.chown(folder, USER, USER)
    someone = Person(tmp_path_factory.mktemp("image"), root)
    make_base(f"{someone.name}:1", b"one")
    yield someone
    for play in someone.plays:
        play.kill()
    shutil.rmtree(root, ignore_errors=True)
    names = docker("images", "--quiet", "--filter", f"reference={someone.name}", check=False).split()
    docker("rmi", "--force", "small:24.01", f"{REGISTRY}/{someone.name}/small:24.01", *names, check=False)
    docker("image", "prune", "--force", check=False)


def make_base(name: str, text: bytes) -> None:
    """Put a small image into Docker's store, of data that does not compress."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        for path, content in (("etc/text", text), ("data", os.urandom(MEGABYTES << 20))):
            member = tarfile.TarInfo(path)
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
    docker("import", "--change", 'CMD ["/bin/true"]', "-", name, input=buffer.getvalue())


def docker_did(since: float) -> list[str]:
    """What Docker did with images since a time."""
    words = ["events", "--since", f"{since:.9f}", "--until", f"{time.time():.9f}", "--filter", "type=image"]
    return docker(*words, "--format", "{{.Action}}").split()


def test_a_look_first_writes_nothing(person: Person):
    started = time.time()
    for delivery in ("registry", "upload"):
        output = person.play(delivery, "--check", "--diff").succeeds()
        assert "small" in output
    assert list((person.root / "images").iterdir()) == []
    assert not person.build.exists()
    assert docker_did(started) == []
    assert person.requests() == []


def test_an_image_is_built_and_pushed(person: Person):
    play = person.play("registry")
    output = play.succeeds()
    assert f"reference  {REGISTRY}#{person.name}/small:24.01" in output
    digest = re.search(r"digest +(sha256:[0-9a-f]{64})", output)
    pushed = docker("inspect", "--format", "{{index .RepoDigests 0}}", f"{REGISTRY}/{person.name}/small:24.01")
    assert digest is not None
    assert pushed.strip() == f"{REGISTRY}/{person.name}/small@{digest[1]}"
    assert play.changed


def test_the_second_time_nothing_is_built_and_pushed(person: Person):
    before, started = person.requests(), time.time()
    play = person.play("registry")
    play.succeeds()
    assert play.changed == 0
    assert docker_did(started) == []
    assert {request.split()[0] for request in person.requests()[len(before) :]} <= {"GET", "HEAD"}
    assert not [request for request in person.requests()[len(before) :] if "/blobs/" in request]


def test_another_argument_is_another_build(person: Person):
    play = person.play("registry", image_build_args={"FLAVOUR": "sweet"})
    play.succeeds()
    assert play.changed


def test_a_step_that_fails_fails_the_build(person: Person):
    dockerfile = person.folder / "Dockerfile.j2"
    dockerfile.write_text('FROM {{ image_base }}\nSHELL ["/bin/bash", "-euxo", "pipefail", "-c"]\nRUN false | true\n')
    given = {"image_base": "sandbox-base:24.01", "image_build_network": "none", "image_name": "failing"}
    output = person.play("registry", image_dockerfile=str(dockerfile), **given).fails()
    assert "returned a non-zero code: 1" in output


def test_a_missing_dockerfile_is_named(person: Person):
    output = person.play("registry", image_dockerfile="nosuch.j2").fails()
    assert "image_dockerfile is 'nosuch.j2', but there is no such template on the controller" in output


def test_an_image_is_imported_by_the_cluster(person: Person):
    output = person.play("import").succeeds()
    assert whole(person.image())
    record = person.record()
    assert record["digest"] in output
    assert record["source"] == f"docker://{REGISTRY}#{person.name}/small:24.01"
    assert record["size"] == person.image().stat().st_size
    assert person.left() == []
    credentials = person.root / "enroot" / ".credentials"
    assert credentials.stat().st_mode & 0o777 == 0o600
    assert credentials.read_text() == f"machine localhost login builder password {person.password}\n"


def test_the_second_time_the_registry_is_not_asked(person: Person):
    before, inode = person.requests(), person.image().stat().st_ino
    play = person.play("import")
    play.succeeds()
    assert play.changed == 0
    assert person.requests() == before
    assert person.image().stat().st_ino == inode


def test_a_moved_tag_is_noticed_only_when_asked_for(person: Person):
    old = person.record()["digest"]
    make_base(f"{person.name}:2", b"two")
    person.play("registry", image_base=f"{person.name}:2").succeeds()
    assert person.play("import").succeeds().count(old)
    output = person.play("import", "--check", image_refresh=True).succeeds()
    assert "changed=1" in output
    assert person.record()["digest"] == old
    person.play("import", image_refresh=True).succeeds()
    new = person.record()["digest"]
    assert new != old
    play = person.play("import", image_refresh=True)
    play.succeeds()
    assert play.changed == 0


@pytest.mark.parametrize("damage", ["cut", "emptied", "foreign"])
def test_a_damaged_image_is_replaced(person: Person, damage: str):
    image = person.image()
    if damage == "cut":
        os.truncate(image, image.stat().st_size * 6 // 10)
    else:
        image.write_bytes(b"" if damage == "emptied" else b"\x7fELF" * 5000)
    play = person.play("import")
    play.succeeds()
    assert play.changed == 1
    assert whole(image)


def slow_enroot(person: Person, seconds: int) -> Path:
    """Return an enroot that stops for a while when half of its file is written."""
    program = person.root / "slow-enroot"
    program.write_text(
        f"""#!/bin/bash
set -e
[ $1 = import ] || exec {PREFIX}/bin/enroot "$@"
while [ "$1" != --output ]; do shift; done
target=$2 whole=$(mktemp -u -p {person.root})
{PREFIX}/bin/enroot import -o $whole "${{@: -1}}"
head -c 5000000 $whole > $target
sleep {seconds}
mv $whole $target
"""
    )
    program.chmod(0o755)
    return program


def importers() -> list[int]:
    found = subprocess.run(["pgrep", "-f", "slow-enroot import"], capture_output=True, text=True, check=False)
    return [int(word) for word in found.stdout.split()]


def test_a_killed_import_leaves_the_old_image_and_is_repeated(person: Person):
    before = person.image().read_bytes()
    make_base(f"{person.name}:3", b"three")
    person.play("registry", image_base=f"{person.name}:3").succeeds()
    play = person.play("import", image_refresh=True, image_enroot=str(slow_enroot(person, 60)))
    wait_until(lambda: any(name.endswith(".part") for name in person.left()), 30, "the import")
    play.kill()
    os.kill(importing_module(), signal.SIGKILL)
    wait_until(lambda: not importers(), 15, "the end of an import whose module was killed")
    assert person.image().read_bytes() == before
    again = person.play("import", image_refresh=True)
    again.succeeds()
    assert again.changed == 1
    assert person.image().read_bytes() != before
    assert person.left() == []


def importing_module() -> int:
    """Return the module that runs the import: the nearest Python above it."""
    pid = importers()[0]
    while "python" not in Path(f"/proc/{pid}/exe").resolve().name:
        pid = int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
    return pid


def test_two_imports_at_once_make_one(person: Person):
    person.image().unlink()
    shutil.rmtree(person.root / "cache")
    before = person.requests()
    slow = str(slow_enroot(person, 3))
    plays = [person.play("import", image_enroot=slow) for _number in range(2)]
    for play in plays:
        play.succeeds()
    assert sorted(play.changed for play in plays) == [0, 1]
    config_and_layer = [request for request in person.requests()[len(before) :] if "/blobs/" in request]
    assert len(config_and_layer) == 2
    assert whole(person.image())
    assert person.left() == []


def test_an_import_in_a_job(person: Person):
    person.play("import", image_import_in_job=True, image_file="in-job.sqsh").succeeds()
    assert whole(person.image("in-job.sqsh"))
    ask = [PREFIX / "bin" / "sacct", "-X", "-n", "-P", "-a", "--name=image-import", "-o", "State"]
    # The accounting comes to know a job some seconds after its end.
    wait_until(
        lambda: "COMPLETED" in subprocess.run(ask, capture_output=True, text=True, check=True).stdout,
        30,
        "a job of that name in the accounting",
    )


def test_an_image_is_sent_and_a_cut_transfer_goes_on(person: Person):
    target = "sent.sqsh"
    play = person.play("upload", image_file=target, image_upload_options=["--bwlimit=2m"])
    parts = wait_until(lambda: [path for path in (person.root / "images").glob(".sent*.part")
                                if path.stat().st_size > 3 << 20], 60, "the transfer")  # fmt: skip
    kill_all_of(play)
    assert not person.image(target).exists()
    wait_until(lambda: not receivers(), 30, "the end of a receiver without a sender")
    there = parts[0].stat().st_size
    assert there < person.build.joinpath(target).stat().st_size
    again = person.play("upload", image_file=target, image_stale_timeout=10)
    output = again.succeeds(180)
    assert "going on where it was cut" in output
    assert person.image(target).read_bytes() == person.build.joinpath(target).read_bytes()
    assert person.record(target)["sha256"] == hashlib.sha256(person.image(target).read_bytes()).hexdigest()
    assert person.left() == []


def kill_all_of(play: Play) -> None:
    """kill -9 of a play and all its descendants: Ansible's workers have sessions of their own."""
    parents = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            parents[int(path.parent.name)] = int(path.read_text().rpartition(")")[2].split()[1])
    doomed = {play.process.pid}
    while more := {pid for pid, parent in parents.items() if parent in doomed} - doomed:
        doomed |= more
    for pid in doomed:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    play.process.wait()


def receivers() -> str:
    return subprocess.run(["pgrep", "-u", USER, "rsync"], capture_output=True, text=True, check=False).stdout


def test_the_second_time_nothing_is_sent(person: Person):
    started, inode = time.time(), person.image("sent.sqsh").stat().st_ino
    play = person.play("upload", image_file="sent.sqsh")
    play.succeeds()
    assert play.changed == 0
    assert docker_did(started) == []
    assert person.image("sent.sqsh").stat().st_ino == inode


def test_a_wrong_password_is_named(person: Person):
    for delivery in ("registry", "import"):
        play = person.play(
            delivery, image_build_args={"NEW": "yes"}, image_file="refused.sqsh",
            environment={"DGXC_REGISTRY_PASSWORD": "wrong-password"},
        )  # fmt: skip
        output = " ".join(play.fails().split())
        assert "refused the user or the password (401): check image_registry_username and image_registry" in output
        assert "wrong-password" not in output
    assert not person.image("refused.sqsh").exists()
    assert person.left() == []


def test_an_unknown_image_is_named(person: Person):
    output = " ".join(person.play("import", image_tag="nosuch").fails().split())
    assert "knows no such image or tag (404)" in output


@pytest.mark.parametrize("delivery", ["import", "upload"])
def test_too_little_space_is_told_before_anything_is_moved(person: Person, delivery: str):
    place = person.root / "tight"
    place.mkdir(exist_ok=True)
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=8m,mode=1777", "tmpfs", place], check=True)
    try:
        output = " ".join(person.play(delivery, image_folder=str(place)).fails().split())
        assert f"not enough space for the {delivery}" in output
        assert str(place) in output
        assert "image_folder" in output
        assert list(place.iterdir()) == []
    finally:
        subprocess.run(["umount", place], check=True)


def test_space_that_runs_out_is_named(person: Person):
    """There was enough at first, and then somebody else wrote."""
    place = person.root / "full"
    place.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=50m,mode=1777", "tmpfs", place], check=True)
    try:
        late = person.root / "late-enroot"
        late.write_text(
            f"#!/bin/bash\n[ $1 = version ] || head -c 45000000 /dev/zero > {place}/more\n"
            f'exec {PREFIX}/bin/enroot "$@"\n'
        )
        late.chmod(0o755)
        output = " ".join(person.play("import", image_folder=str(place), image_enroot=str(late)).fails().split())
        assert f"The space ran out during the import, most likely in the image's folder {place}" in output
        assert [path.name for path in place.iterdir()] == ["more"]
    finally:
        subprocess.run(["umount", place], check=True)


def test_no_byte_that_was_written_holds_a_secret(person: Person, tmp_path: Path):
    """Standard output at -vvv, the log file, every file of the build, of the home and of shared storage, and ps."""
    secret = person.password
    seen: list[str] = []
    over = threading.Event()

    def watch() -> None:
        while not over.wait(0.2):
            for folder in Path("/proc").glob("[0-9]*"):
                try:
                    command = (folder / "cmdline").read_bytes()
                except OSError:
                    continue
                if secret.encode() in command:
                    seen.append(command.decode(errors="replace"))

    watcher = threading.Thread(target=watch)
    watcher.start()
    try:
        plays = [
            person.play(delivery, "-vvv", "--diff", environment={"ANSIBLE_LOG_PATH": str(tmp_path / delivery)},
                        image_file=f"secret-{delivery}.sqsh", image_build_args={"A": delivery})
            for delivery in ("registry", "import", "upload")
        ]  # fmt: skip
        outputs = [play.succeeds(180) for play in plays]
    finally:
        over.set()
        watcher.join()
    assert seen == []
    assert all(secret not in output for output in outputs)
    allowed = {person.root / "enroot" / ".credentials", PASSWORD}
    places = [tmp_path, person.folder, person.root, PREFIX / "home" / USER, PREFIX / "log", Path.home() / ".docker"]
    for place in places:
        found = subprocess.run(
            ["grep", "--recursive", "--files-with-matches", "--fixed-strings", "--devices=skip", "--binary-files=text",
             secret, str(place)], capture_output=True, text=True, check=False,
        ).stdout.splitlines()  # fmt: skip
        # Each play has the password in its environment, which is no file.
        assert {Path(path) for path in found} <= allowed, found
