# Copyright: (c) 2026, The dgxc.workloads developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Making a .sqsh of an image in Docker and sending it to the cluster, against the two commands by hand.

By hand: ``enroot import dockerd://`` and ``rsync`` over ssh to the sandbox's login node. Ours: the modules
squashfs_image and squashfs_upload in one playbook, which also prove the image, record its SHA-256 and rename it.

What counts for 20 GB is the time for each byte. So both sides handle a small and a large image in turn, and `ratio` is
ours divided by hand of the seconds by which the large one takes longer. What Ansible takes whatever the size is
`overhead_seconds`. The best of some rounds counts, so that what else the machine does falls on neither side. Then the
whole role is run again on an image that is there: `rerun_seconds`. The last line is one JSON object, in which `peak_mb`
is the largest memory of any process. Needs the sandbox with sandbox_docker=true.
"""

from __future__ import annotations

import argparse
import io
import json
import os
import resource
import shutil
import subprocess
import sys
import tarfile
import tempfile
import time
from pathlib import Path

CHECKOUT = Path(__file__).resolve().parents[2]
PREFIX = Path("/opt/dgxc-sandbox")
SHARED = PREFIX / "shared" / "demo-user"
DOCKER_HOST = f"unix://{PREFIX}/run/docker/docker.sock"
ENROOT = str(PREFIX / "bin" / "enroot")
KEYS = PREFIX / "etc" / "ssh"
SSH = (
    f"ssh -F /dev/null -o UserKnownHostsFile={KEYS}/known_hosts -o StrictHostKeyChecking=yes -o IdentitiesOnly=yes"
    f" -i {KEYS}/client_ed25519 -p 17022 -l demo-user"
)

PLAY = """
- name: Make and send
  hosts: slurm_login
  gather_facts: false
  tasks:
    - name: Make
      dgxc.workloads.squashfs_image:
        path: "{{ work }}/ours.sqsh"
        source: "dockerd://{{ image }}"
        checksum: false
        temporary: true
        enroot: "{{ enroot }}"
        environment: {DOCKER_HOST: "{{ docker_host }}"}
      delegate_to: localhost
      register: made
    - name: Send
      dgxc.workloads.squashfs_upload:
        path: "{{ target }}/ours.sqsh"
        image: "{{ made.image }}"
"""


def environment() -> dict[str, str]:
    """The environment of both sides."""
    return {**os.environ, "DOCKER_HOST": DOCKER_HOST, "ANSIBLE_CONFIG": str(CHECKOUT / "ansible.cfg")}


def make_image(name: str, megabytes: int) -> None:
    """Put an image of files that do not compress into Docker's store."""
    with subprocess.Popen(
        ["/usr/bin/docker", "import", "--change", 'CMD ["/bin/true"]', "-", name],
        stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, env=environment(),
    ) as importing:  # fmt: skip
        assert importing.stdin is not None
        with tarfile.open(fileobj=importing.stdin, mode="w|") as archive:
            for number in range(megabytes):
                member = tarfile.TarInfo(f"data/{number}")
                member.size = 1 << 20
                archive.addfile(member, io.BytesIO(os.urandom(1 << 20)))


def timed(command: list[str]) -> float:
    """Seconds that a command takes."""
    started = time.monotonic()
    done = subprocess.run(command, cwd=CHECKOUT, env=environment(), capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(f"{command[0]} failed:\n{done.stdout[-4000:]}\n{done.stderr[-2000:]}")
    return time.monotonic() - started


def by_hand(image: str, work: Path, target: Path) -> float:
    """Seconds of the two commands."""
    file = work / "hand.sqsh"
    seconds = timed([ENROOT, "import", "-o", str(file), f"dockerd://{image}"])
    seconds += timed(["rsync", "-e", SSH, str(file), f"127.0.0.1:{target}/hand.sqsh"])
    file.unlink()
    (target / "hand.sqsh").unlink()
    return seconds


def playbook(*arguments: str, **variables: object) -> float:
    """Seconds of a playbook on the sandbox."""
    program = str(Path(sys.executable).parent / "ansible-playbook")
    return timed([program, "-i", "inventories/sandbox", *arguments, "-e", json.dumps(variables)])


def ours(image: str, work: Path, target: Path) -> float:
    """Seconds of our two modules, Ansible's start included."""
    play = work / "play.yml"
    play.write_text(PLAY)
    seconds = playbook(
        str(play), work=str(work), target=str(target), image=image, enroot=ENROOT, docker_host=DOCKER_HOST
    )
    for folder in (work, target):
        for path in folder.glob("ours.sqsh*"):
            path.unlink()
    return seconds


def rerun(image: str, work: Path, target: Path) -> float:
    """Seconds of the role's second run."""
    values = {
        "image_name": "bench", "image_tag": "1", "image_base": image, "image_delivery": "upload",
        "image_docker_host": DOCKER_HOST, "image_build_enroot": ENROOT, "image_build_folder": str(work / "build"),
        "image_folder": str(target),
    }  # fmt: skip
    playbook("playbooks/image.yml", **values)
    return playbook("playbooks/image.yml", **values)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--megabytes", type=int, default=300, help="size of the image (default: %(default)s)")
    parser.add_argument("--rounds", type=int, default=3, help="rounds of both sides (default: %(default)s)")
    options = parser.parse_args()
    sizes = {"small": options.megabytes // 10, "large": options.megabytes}
    images = {name: f"bench-{os.getpid()}:{name}" for name in sizes}
    target = SHARED / f"bench-image-{os.getpid()}"
    target.mkdir()
    shutil.chown(target, "demo-user", "demo-user")
    best: dict[tuple[str, str], float] = {}
    try:
        for name, image in images.items():
            make_image(image, sizes[name])
        with tempfile.TemporaryDirectory() as folder:
            work = Path(folder)
            for number in range(options.rounds):
                for name, image in images.items():
                    for side, measure in (("hand", by_hand), ("ours", ours)):
                        seconds = measure(image, work, target)
                        best[side, name] = min(seconds, best.get((side, name), seconds))
                        print(f"round {number + 1}: {sizes[name]} MB {side}: {seconds:.2f} s", flush=True)
            again = rerun(images["small"], work, target)
    finally:
        shutil.rmtree(target, ignore_errors=True)
        for name in ("bench:1", *images.values()):
            subprocess.run(["/usr/bin/docker", "rmi", "-f", name], env=environment(), capture_output=True, check=False)
    hand = best["hand", "large"] - best["hand", "small"]
    mine = best["ours", "large"] - best["ours", "small"]
    result = {
        "ratio": round(mine / hand, 3),
        "rerun_seconds": round(again, 2),
        "overhead_seconds": round(best["ours", "small"] - best["hand", "small"], 2),
        "hand_seconds": round(best["hand", "large"], 2),
        "ours_seconds": round(best["ours", "large"], 2),
        "megabytes": options.megabytes,
        "peak_mb": round(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024),
    }
    print(json.dumps(result))


if __name__ == "__main__":
    main()
