# Copyright: (c) 2026, The dgxc.workloads developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from ansible_collections.dgxc.workloads.plugins.module_utils import _squashfs_image as images
from ansible_collections.dgxc.workloads.plugins.module_utils._claim import Claim
from ansible_collections.dgxc.workloads.plugins.module_utils._process import Finished
from ansible_collections.dgxc.workloads.plugins.module_utils._registry import Manifest, RegistryProblem

from .test_squashfs import squashfs

SOURCE = "docker://r.io#a:1"
DIGEST = "sha256:" + "a" * 64
MANIFEST = Manifest(DIGEST, 1000, "sha256:c")


def answered(value):
    """What somebody was asked for, or the failure that was to be."""
    if isinstance(value, Exception):
        raise value
    return value


class Cluster:
    """Enroot, unsquashfs and a registry, as a test wants them."""

    def __init__(self, folder):
        self.folder = folder
        self.path = str(folder / "x.sqsh")
        self.calls = []
        self.told = []
        self.asked = 0
        self.manifest = MANIFEST
        self.listing = Finished(0, "", "")
        self.makes = squashfs()
        self.answer = Finished(0, f"DGXC-ENROOT-VERSION 4.1.2\nDGXC-SOURCE {SOURCE}@{DIGEST}\n", "")
        self.version = Finished(0, "4.1.2\n", "")
        self.meanwhile = lambda: None

    def run(self, command, _environment, _folder, _limit):
        if command[-1] == "version":
            return self.version
        if "unsquashfs" in " ".join(command):
            return self.listing
        self.calls.append(list(command))
        self.meanwhile()
        if self.answer.code == 0:
            part = command[command.index("enroot-import") + 1]
            Path(part).write_bytes(self.makes)
        return self.answer

    def ask(self, _reference):
        self.asked += 1
        return answered(self.manifest)

    def store(self, **settings):
        return images.ImageStore(
            self.run, images.Settings(**settings), self.ask, self.told.append, sleep=lambda _s: None
        )

    def ensure(self, wanted=None, refresh=False, **settings):
        return self.store(**settings).ensure(self.path, wanted or images.Wanted(SOURCE), refresh)

    def record(self):
        return json.loads((self.folder / "x.sqsh.json").read_text())

    def names(self):
        return sorted(os.listdir(self.folder))


@pytest.fixture
def cluster(tmp_path):
    return Cluster(tmp_path)


def test_an_image_is_imported_proved_and_recorded(cluster):
    look, action = cluster.ensure()
    assert (look.state, action) == ("whole", "import")
    record = cluster.record()
    assert (record["source"], record["digest"], record["enroot_version"]) == (SOURCE, DIGEST, "4.1.2")
    assert record["size"] == os.stat(cluster.path).st_size
    assert record["sha256"] == __import__("hashlib").sha256(squashfs()).hexdigest()
    assert cluster.names() == ["x.sqsh", "x.sqsh.json"]
    command = cluster.calls[0]
    assert command[:2] == ["bash", "-c"]
    # With what it may need in cache, temporary folder and target, and with its digest.
    assert command[-7:] == [SOURCE, "1", "3", "3", "", "enroot", f"{SOURCE}@{DIGEST}"]


def test_the_second_time_nobody_is_asked(cluster):
    cluster.ensure()
    asked = cluster.asked
    assert cluster.ensure()[1] == "unchanged"
    assert (len(cluster.calls), cluster.asked) == (1, asked)


def test_it_runs_where_it_is_told(cluster):
    cluster.ensure(launcher=["srun", "--nodes=1"])
    assert cluster.calls[0][:3] == ["srun", "--nodes=1", "bash"]


@pytest.mark.parametrize("damage", [b"", b"ELF", b"\0" * 9000, squashfs()[:4999]])
def test_what_is_damaged_is_replaced(cluster, damage):
    cluster.ensure()
    Path(cluster.path).write_bytes(damage)
    assert cluster.store().look(cluster.path).state == "broken"
    assert cluster.ensure()[1] == "replace"
    assert Path(cluster.path).read_bytes() == squashfs()


def test_one_without_a_record_or_of_another_source_is_replaced(cluster):
    Path(cluster.path).write_bytes(squashfs())
    assert cluster.ensure()[1] == "replace"
    assert cluster.ensure(images.Wanted("docker://r.io#b:1"))[1] == "replace"
    assert cluster.ensure(images.Wanted("docker://r.io#b:1", arch="aarch64"))[1] == "replace"
    assert cluster.ensure(images.Wanted("dockerd://a:1", content="c", digest="sha256:i"))[1] == "replace"
    assert cluster.ensure(images.Wanted("dockerd://a:1", content="c"))[1] == "unchanged"
    assert cluster.ensure(images.Wanted("dockerd://a:1", content="d"))[1] == "replace"


def test_a_moved_tag_is_noticed_when_asked_for(cluster):
    cluster.ensure()
    cluster.manifest = MANIFEST._replace(digest="sha256:" + "b" * 64)
    assert cluster.ensure()[1] == "unchanged"
    assert cluster.ensure(refresh=True)[1] == "replace"
    assert cluster.ensure(refresh=True)[1] == "unchanged"
    cluster.manifest = RegistryProblem("returned error code: 401")
    with pytest.raises(images.ImageProblem, match=r"\(401\)"):
        cluster.ensure(refresh=True)


def test_an_old_enroot_gets_the_tag_which_must_not_move(cluster):
    cluster.answer = Finished(0, f"DGXC-ENROOT-VERSION 3.4.1\nDGXC-SOURCE {SOURCE}\n", "")
    cluster.ensure()
    Path(cluster.path).unlink()

    def move():
        cluster.manifest = MANIFEST._replace(digest="sha256:" + "b" * 64)

    cluster.meanwhile = move
    with pytest.raises(images.ImageProblem, match="during the import: repeat"):
        cluster.ensure()
    cluster.answer = Finished(76, "DGXC-ENROOT-VERSION 3.4.1\nDGXC-OLD 3.4.1\n", "")
    with pytest.raises(images.ImageProblem, match=r"Enroot takes from 4\.0 on"):
        cluster.ensure(images.Wanted(f"docker://r.io#a@{DIGEST}"))


def test_a_registry_that_tells_nothing_does_not_hinder_an_import(cluster):
    cluster.manifest = RegistryProblem("curl: (28) timed out")
    assert cluster.ensure()[1] == "import"
    assert cluster.record()["digest"] == ""
    assert "does not tell its digest and size" in cluster.told[0]


def test_an_image_that_is_not_there_is_not_imported(cluster):
    cluster.manifest = None
    with pytest.raises(images.ImageProblem, match=r"no such image or tag \(404\)"):
        cluster.ensure()
    assert cluster.calls == []


def test_a_failure_leaves_what_was_there(cluster):
    cluster.ensure()
    cluster.answer = Finished(1, "", "[ERROR] URL https://r.io/ returned error code: 429")
    with pytest.raises(images.ImageProblem, match="429"):
        cluster.ensure(images.Wanted("docker://r.io#b:1"))
    assert Path(cluster.path).read_bytes() == squashfs()
    assert cluster.names() == ["x.sqsh", "x.sqsh.json"]
    assert cluster.ensure()[1] == "unchanged"


def test_half_an_image_does_not_get_the_name(cluster):
    cluster.makes = squashfs()[:3000]
    with pytest.raises(images.ImageProblem, match="is cut: it has 3000"):
        cluster.ensure()
    assert cluster.names() == []


def test_who_lost_the_claim_does_not_rename(cluster):
    def lose():
        other = Claim(cluster.path)
        other.stale()
        other._break()

    cluster.meanwhile = lose
    with pytest.raises(images.ImageProblem, match="claimed by somebody else"):
        cluster.ensure()
    assert cluster.names() == []


def test_what_somebody_else_made_meanwhile_is_taken(cluster):
    first = cluster.store().claim(cluster.path)
    first.take(1, lambda: False)

    def sleep(_seconds):
        Path(cluster.path).write_bytes(squashfs())
        status = os.stat(cluster.path)
        record = {"schema": 1, "source": SOURCE, "size": status.st_size, "mtime_ns": status.st_mtime_ns}
        (cluster.folder / "x.sqsh.json").write_text(json.dumps(record))

    store = images.ImageStore(cluster.run, images.Settings(), cluster.ask, cluster.told.append, sleep=sleep)
    assert store.ensure(cluster.path, images.Wanted(SOURCE), False)[1] == "waited"
    first.release()
    store = images.ImageStore(cluster.run, images.Settings(claim_timeout=0.0), cluster.ask, cluster.told.append)
    Path(cluster.path).unlink()
    first.take(1, lambda: False)
    with pytest.raises(images.ImageProblem, match="is being made by"):
        store.ensure(cluster.path, images.Wanted(SOURCE), False)
    first.release()


def test_left_overs_of_the_dead_go(cluster):
    (cluster.folder / ".x.sqsh.dead.part").touch()
    (cluster.folder / ".y.sqsh.dead.part").touch()
    cluster.ensure()
    assert cluster.names() == [".y.sqsh.dead.part", "x.sqsh", "x.sqsh.json"]


def test_places_that_cannot_be_written_or_read(cluster):
    (cluster.folder / "file").touch()
    cluster.path = str(cluster.folder / "new" / "x.sqsh")
    assert cluster.ensure()[1] == "import"
    cluster.path = str(cluster.folder / "no" / "such" / "x.sqsh")
    with pytest.raises(images.ImageProblem, match="Set image_folder to a folder of yours"):
        cluster.ensure()
    cluster.path = str(cluster.folder / "file" / "x.sqsh")
    with pytest.raises(images.ImageProblem, match="cannot be looked at: Not a directory"):
        cluster.ensure()


def test_no_enroot(cluster):
    cluster.answer = Finished(127, "", "bash: line 9: enroot: command not found")
    with pytest.raises(images.ImageProblem, match="lacks the program enroot"):
        cluster.ensure()
    cluster.version = Finished(127, "", "enroot: No such file or directory")
    with pytest.raises(images.ImageProblem, match="Install Enroot there"):
        cluster.store().version()
    cluster.version = Finished(0, "4.1.2\n", "")
    assert cluster.store().version() == "4.1.2"


def test_a_given_image(cluster):
    Path(cluster.path).write_bytes(squashfs())
    facts = images.given(cluster.path, cluster.run, {})
    assert facts["digest"].startswith("squashfs-tables:")
    assert facts["size"] == len(squashfs())
    assert cluster.names() == ["x.sqsh"]
    cluster.ensure()
    assert images.given(cluster.path, cluster.run, {})["digest"] == DIGEST
    Path(cluster.path).write_bytes(b"")
    with pytest.raises(images.ImageProblem, match="is empty: give the path of a whole"):
        images.given(cluster.path, cluster.run, {})


def test_an_image_that_is_not_required_is_told_as_it_is(cluster):
    def seen():
        found = images.given(cluster.path, cluster.run, {}, required=False)
        return found["state"], found["problem"], found["digest"]

    assert seen() == ("absent", "is not there", "")
    Path(cluster.path).write_bytes(squashfs())
    whole = seen()
    assert whole == ("whole", "", images.given(cluster.path, cluster.run, {})["digest"])
    # A host's unsquashfs may not know the compression; what the file is can be told all the same.
    cluster.listing = Finished(1, "", "Filesystem uses zstd compression, this is unsupported by this version")
    state, problem, digest = seen()
    assert (state, "cannot be listed" in problem, digest) == ("broken", True, whole[2])
    Path(cluster.path).write_bytes(b"none")
    assert seen() == ("broken", "is not a squashfs file", "")
    cluster.path += "/x.sqsh"
    assert seen() == ("broken", "cannot be looked at: Not a directory", "")


OFFER = images.Offer(len(squashfs()), "5" * 64, "4.1.2")
SENT = images.Wanted("dockerd://a:1", "c", "sha256:i")


def reception(cluster, **settings):
    return images.Reception(cluster.run, images.Settings(checksum=False, **settings), sleep=lambda _seconds: None)


def test_an_image_is_received(cluster):
    ours = reception(cluster)
    begun = ours.begin(cluster.path, SENT, OFFER)
    assert (begun["action"], begun["offset"]) == ("receive", 0)
    Path(begun["part"]).write_bytes(squashfs()[:5000])
    with pytest.raises(images.ImageProblem, match="has 5000 of 8192 bytes: repeat, and it goes on there"):
        ours.finish(cluster.path, begun["part"], begun["token"], SENT, OFFER)
    ours.give_up(cluster.path, begun["token"])
    again = ours.begin(cluster.path, SENT, OFFER)
    assert (again["part"], again["offset"]) == (begun["part"], 5000)
    Path(again["part"]).write_bytes(squashfs())
    look = ours.finish(cluster.path, again["part"], again["token"], SENT, OFFER)
    assert look.record["sha256"] == "5" * 64
    assert cluster.names() == ["x.sqsh", "x.sqsh.json"]
    assert ours.begin(cluster.path, SENT, OFFER)["action"] == "unchanged"


def test_what_is_longer_or_another_image_is_begun_anew(cluster):
    ours = reception(cluster)
    begun = ours.begin(cluster.path, SENT, OFFER)
    ours.give_up(cluster.path, begun["token"])
    Path(begun["part"]).write_bytes(squashfs() + b"x")
    (cluster.folder / ".x.sqsh.other.part").touch()
    again = ours.begin(cluster.path, SENT, OFFER)
    assert again["offset"] == 0
    assert cluster.names() == [".x.sqsh.claim"]


def test_what_arrived_and_is_no_image_is_not_kept(cluster):
    ours = reception(cluster)
    begun = ours.begin(cluster.path, SENT, OFFER)
    Path(begun["part"]).write_bytes(b"x" * OFFER.size)
    with pytest.raises(images.ImageProblem, match="is not a squashfs file"):
        ours.finish(cluster.path, begun["part"], begun["token"], SENT, OFFER)
    assert cluster.names() == []
    with pytest.raises(images.ImageProblem, match="is not there any more"):
        ours.finish(cluster.path, begun["part"], begun["token"], SENT, OFFER)


def test_a_place_that_is_too_small_is_told_and_let_go(cluster, monkeypatch):
    monkeypatch.setattr(images, "free_bytes", lambda _folder: 1000)
    with pytest.raises(images.ImageProblem, match="not enough space for the upload: the image's folder"):
        reception(cluster).begin(cluster.path, SENT, OFFER)
    assert cluster.names() == []


def test_two_receptions(cluster):
    first = reception(cluster)
    begun = first.begin(cluster.path, SENT, OFFER)
    with pytest.raises(images.ImageProblem, match="is being made by"):
        reception(cluster, claim_timeout=0.0).begin(cluster.path, SENT, OFFER)

    def sleep(_seconds):
        if Path(begun["part"]).parent.joinpath(".x.sqsh.claim").exists():
            Path(begun["part"]).write_bytes(squashfs())
            first.finish(cluster.path, begun["part"], begun["token"], SENT, OFFER)

    second = images.Reception(cluster.run, images.Settings(checksum=False), sleep=sleep)
    assert second.begin(cluster.path, SENT, OFFER)["action"] == "waited"
    assert images.free_bytes(str(cluster.folder)) > 0
