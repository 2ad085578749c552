# Copyright: (c) 2026, The dgxc.workloads developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Data that is there as a whole or not at all: fetched once, however often that is cut off or asked for."""

from __future__ import annotations

import errno
import importlib.util
import io
import json
import os
import shutil
import tarfile
import threading
import time
from pathlib import Path

import pytest
from ansible.module_utils.testing import patch_module_args

from ansible_collections.dgxc.workloads.plugins.module_utils import _claim, _dataset
from ansible_collections.dgxc.workloads.plugins.module_utils._dataset import (
    STAMP,
    DatasetProblem,
    Datasets,
    DownloadProblem,
    Wish,
)
from ansible_collections.dgxc.workloads.plugins.module_utils._download import Download, Source
from ansible_collections.dgxc.workloads.plugins.modules import dataset_download

_SPEC = importlib.util.spec_from_file_location("file_server", Path(__file__).with_name("file_server.py"))
file_server = importlib.util.module_from_spec(_SPEC)
_SPEC.loader.exec_module(file_server)

FIXTURES = Path(__file__).parents[2] / "fixtures" / "parquet"
SETTINGS = {name: f"demo_{name}" for name in ("url", "path", "given", "username", "password", "sha256", "expected")}
COUNTS = {"training videos": "train/*/*.avi", "classes": "train/*"}


def archive(videos=6, classes=3, files=()):
    """A tar.gz as the hub has it, small."""
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w:gz") as tar:
        for number in range(videos):
            content = os.urandom(2000)
            member = tarfile.TarInfo(f"UCF101_subset/train/class{number % classes}/v{number}.avi")
            member.size = len(content)
            tar.addfile(member, io.BytesIO(content))
        for name, path in files:
            tar.add(path, f"UCF101_subset/{name}")
    return stream.getvalue()


@pytest.fixture
def server():
    server = file_server.FileServer()
    server.files["/data.tar.gz"] = archive()
    yield server
    server.close()


class Place:
    """A folder of data on shared storage, and how often the server was asked for it."""

    def __init__(self, folder, server):
        self.path = folder / "data" / "UCF101_subset"
        self.path.parent.mkdir()
        self.workplace = self.path.parent / ".UCF101_subset.fetch"
        self.claim = self.path.parent / ".UCF101_subset.claim"
        self.server = server

    def wish(self, **changes):
        source = Source("hub/demo", self.server.url("/data.tar.gz"), "", "", "", "", SETTINGS)
        values = {
            "path": str(self.path), "source": source, "root": "UCF101_subset", "counts": COUNTS,
            "expected": {"training videos": 6, "classes": 3}, "rows": {},
        }  # fmt: skip
        return Wish(**{**values, **changes})

    def claimed(self, **owner):
        """Have the data claimed by somebody else."""
        self.claim.mkdir()
        (self.claim / "owner.json").write_text(json.dumps(owner))
        (self.claim / "beat").touch()

    def ensure(self, check_mode=False, sleep=time.sleep, wait=20, tell=lambda text: None, **changes):
        def make_download(source, target, alive):
            return Download(source, target, alive, tries=2, timeout=5, sleep=lambda seconds: None)

        return Datasets(make_download, SETTINGS, wait, sleep, tell=tell).ensure(self.wish(**changes), check_mode)

    def files(self):
        return sorted(str(path.relative_to(self.path.parent)) for path in self.path.parent.rglob("*"))


@pytest.fixture
def place(tmp_path, server):
    return Place(tmp_path, server)


def test_data_is_fetched_unpacked_counted_and_stamped(place):
    outcome = place.ensure()
    assert (outcome.action, outcome.changed) == ("downloaded", True)
    assert outcome.contents.counts == {"training videos": 6, "classes": 3}
    assert outcome.archive.size == len(place.server.files["/data.tar.gz"])
    stamp = json.loads((place.path / STAMP).read_text())
    assert (stamp["source"], stamp["counts"], stamp["archive"]["sha256"]) == (
        "hub/demo", outcome.contents.counts, outcome.archive.sha256,
    )  # fmt: skip
    assert os.listdir(place.path.parent) == ["UCF101_subset"]
    assert place.path.stat().st_mode & 0o777 == 0o755


def test_the_second_time_asks_no_server_and_writes_nothing(place):
    first = place.ensure()
    place.server.close()
    files = {path: path.stat().st_mtime_ns for path in place.path.rglob("*")}
    again = place.ensure()
    assert (again.action, again.changed) == ("unchanged", False)
    assert again.contents == first.contents
    assert {path: path.stat().st_mtime_ns for path in place.path.rglob("*")} == files


def test_a_mirror_of_the_same_data_changes_nothing(place):
    place.ensure()
    mirror = place.wish().source._replace(url="https://mirror.invalid/data.tar.gz")
    assert place.ensure(source=mirror).action == "unchanged"


def test_a_rehearsal_asks_no_server_and_writes_nothing(place):
    outcome = place.ensure(check_mode=True)
    assert (outcome.action, outcome.changed, outcome.contents) == ("planned", True, None)
    assert place.server.requests == []
    assert place.files() == []


def test_an_empty_folder_is_no_data_and_in_nobodys_way(place):
    place.path.mkdir()
    assert place.ensure().action == "downloaded"


def test_a_cut_download_leaves_no_data_and_is_gone_on_with(place):
    place.server.plays = [3000, 0, 0]
    with pytest.raises(DownloadProblem, match="3,000 bytes"):
        place.ensure()
    assert not place.path.exists()
    place.server.requests.clear()
    assert place.ensure().action == "downloaded"
    assert place.server.requests[0][1]["Range"] == "bytes=3000-"


def test_what_was_killed_while_unpacking_is_unpacked_anew_and_not_fetched_again(place, monkeypatch):
    def killed(path, folder, root, alive):
        Path(folder, "half").write_text("x")
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(_dataset, "unpack", killed)
        with pytest.raises(KeyboardInterrupt):
            place.ensure()
    assert not place.path.exists()
    # As if the process had had no time to clean up.
    (place.workplace / "unpacked-left").mkdir()
    place.claimed(**{**_claim.this_process(), "started": "0"})
    place.server.requests.clear()
    assert place.ensure().action == "downloaded"
    assert place.server.requests == []
    assert os.listdir(place.path.parent) == ["UCF101_subset"]


def test_two_at_once_make_one(place):
    place.server.plays = [1000, 1000, 1000]
    outcomes, sleeps = [], []

    def work():
        outcomes.append(place.ensure(sleep=lambda seconds: (sleeps.append(seconds), time.sleep(0.02))))

    threads = [threading.Thread(target=work) for _number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(outcome.action for outcome in outcomes) == ["downloaded", "unchanged", "unchanged", "unchanged"]
    assert len([1 for _path, headers in place.server.requests if "Range" not in headers]) == 1
    assert os.listdir(place.path.parent) == ["UCF101_subset"]


def test_what_the_other_finished_between_the_look_and_the_claim_is_taken(place, monkeypatch):
    def take(claim, wait, enough):
        place.path.mkdir()
        (place.path / STAMP).write_text('{"source": "hub/demo"}')
        return True

    monkeypatch.setattr(_claim.Claim, "take", take)
    assert place.ensure(expected={}).action == "unchanged"
    assert os.listdir(place.path.parent) == ["UCF101_subset"]


def test_somebody_elses_claim_is_waited_for_but_not_for_ever(place):
    place.claimed(host="login2", pid=7, token="x")
    with pytest.raises(
        DatasetProblem, match=r"UCF101_subset is being made by login2 \(process 7\) for longer than 0 seconds"
    ):
        place.ensure(wait=0, sleep=lambda seconds: None)


def test_a_claim_of_a_dead_process_of_this_host_is_taken_over_at_once(place):
    place.claimed(token="x", **{**_claim.this_process(), "started": "0"})
    assert place.ensure(wait=0).action == "downloaded"


def test_who_lost_the_claim_stops_and_leaves_the_work_to_the_other(place, monkeypatch):
    """A process that was frozen for long comes back while another one fetches."""
    monkeypatch.setattr(_dataset, "_LOOK_SECONDS", 0.0)
    told = []

    def tell(text):
        told.append(text)
        if "bytes" in text:
            shutil.rmtree(place.claim)
            place.claimed(host="login2", token="another")

    with pytest.raises(DatasetProblem, match="was claimed by somebody else"):
        place.ensure(tell=tell)
    assert told[0].startswith("UCF101_subset: ")
    assert not place.path.exists()
    assert sorted(os.listdir(place.path.parent)) == [".UCF101_subset.claim", ".UCF101_subset.fetch"]


def test_who_lost_the_claim_while_unpacking_gives_it_no_name(place, monkeypatch):
    real = _dataset.unpack

    def unpack(archive, folder, root, alive):
        shutil.rmtree(place.claim)
        return real(archive, folder, root, alive)

    monkeypatch.setattr(_dataset, "unpack", unpack)
    with pytest.raises(DatasetProblem, match="was claimed by somebody else"):
        place.ensure()
    assert not place.path.exists()


def test_data_that_somebody_else_put_there_first_is_taken(place, monkeypatch):
    """A process that was frozen for long comes back when another one has finished."""
    real = os.rename
    other = place.path.parent / "other"

    def late(old, new):
        if new == str(place.path):
            shutil.copytree(old, other)
            real(other, new)
        return real(old, new)

    monkeypatch.setattr(_dataset.os, "rename", late)
    outcome = place.ensure()
    assert outcome.contents.counts["training videos"] == 6
    assert os.listdir(place.path.parent) == ["UCF101_subset"]


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (archive(5), r"has 5 training videos \(train/\*/\*.avi\) where 6 are expected"),
        (archive(6, 2), r"has 2 classes \(train/\*\) where 3 are expected"),
        (archive()[:-50], "is broken or was cut off"),
        (b"nothing at all", "is neither a tar nor a zip archive"),
    ],
)
def test_an_archive_that_is_not_the_data_is_thrown_away_and_told(place, content, said):
    place.server.files["/data.tar.gz"] = content
    with pytest.raises(
        DatasetProblem, match=said + ".*so it was thrown away: run the play again, and correct demo_url"
    ):
        place.ensure()
    assert not place.path.exists()
    assert list(place.workplace.iterdir()) == []
    place.server.files["/data.tar.gz"] = archive()
    assert place.ensure().action == "downloaded"


def test_a_broken_parquet_file_in_an_archive_is_told(place, tmp_path):
    broken = tmp_path / "train_0.parquet"
    broken.write_bytes((FIXTURES / "plain.parquet").read_bytes()[:-5])
    place.server.files["/data.tar.gz"] = archive(files=[("train_0.parquet", broken)])
    with pytest.raises(DatasetProblem, match=r"holds a broken file, train_0.parquet was cut off.*it was thrown away"):
        place.ensure(rows={"train": "train*.parquet"})
    assert not place.path.exists()
    assert list(place.workplace.iterdir()) == []


def test_a_broken_parquet_file_of_ones_own_is_told(place):
    place.path.mkdir()
    (place.path / "train_0.parquet").write_bytes((FIXTURES / "plain.parquet").read_bytes()[:-5])
    with pytest.raises(DatasetProblem, match=r"UCF101_subset/train_0.parquet was cut off.*: replace it by the whole"):
        place.ensure(source=None, expected={}, rows={"train": "train*.parquet"})


def test_rows_are_counted_by_sorted_name(place, tmp_path):
    files = [(f"train_{name}.parquet", FIXTURES / f"{kind}.parquet") for name, kind in (("b", "wide"), ("a", "plain"))]
    place.server.files["/data.tar.gz"] = archive(files=files)
    outcome = place.ensure(rows={"train": "train*.parquet"})
    assert outcome.contents.rows == {
        "train": [{"file": "train_a.parquet", "rows": 17}, {"file": "train_b.parquet", "rows": 3}]
    }


def test_data_that_lost_a_file_is_told(place):
    place.ensure()
    (place.path / "train" / "class0" / "v0.avi").unlink()
    with pytest.raises(DatasetProblem, match="has been changed since it was fetched, it has 5 training videos"):
        place.ensure()


def test_a_folder_of_somebody_elses_is_left_alone(place):
    place.path.mkdir()
    (place.path / "thesis.tex").write_text("x")
    with pytest.raises(DatasetProblem, match="was not fetched by this role: if it is the data, set demo_given to it"):
        place.ensure()
    assert (place.path / "thesis.tex").exists()


def test_other_data_at_the_path_is_told(place):
    place.ensure()
    other = place.wish().source._replace(name="hub/other")
    with pytest.raises(DatasetProblem, match="holds hub/demo, not hub/other"):
        place.ensure(source=other)


class TestGiven:
    @pytest.fixture
    def given(self, place):
        for number in range(6):
            folder = place.path / "train" / f"class{number % 3}"
            folder.mkdir(parents=True, exist_ok=True)
            (folder / f"{number}.avi").write_text("x" * number)
        return place

    def test_it_is_counted_and_not_touched(self, given):
        files = given.files()
        outcome = given.ensure(source=None)
        assert (outcome.action, outcome.contents.counts["training videos"]) == ("unchanged", 6)
        assert given.files() == files

    def test_the_same_in_a_rehearsal(self, given):
        assert given.ensure(True, source=None) == given.ensure(source=None)

    def test_its_digest_changes_with_a_file(self, given):
        before = given.ensure(source=None).contents.manifest
        (given.path / "train" / "class0" / "0.avi").write_text("longer")
        assert given.ensure(source=None).contents.manifest != before

    def test_what_is_missing_is_told(self, given):
        with pytest.raises(
            DatasetProblem, match=r"6 training videos .* where 300 .*complete the data, or correct demo_exp"
        ):
            given.ensure(source=None, expected={"training videos": 300})
        with pytest.raises(DatasetProblem, match=r"has no train\*.parquet"):
            given.ensure(source=None, rows={"train": "train*.parquet"})

    def test_a_path_without_data_is_told(self, place):
        with pytest.raises(DatasetProblem, match=r"demo_path is .*, where there is no data: correct it"):
            place.ensure(source=None)

    def test_a_file_is_told(self, place):
        place.path.write_text("x")
        with pytest.raises(DatasetProblem, match="which is not a folder"):
            place.ensure(source=None)

    def test_patterns_do_not_read_the_path(self, place):
        path = place.path.parent / "a[b]*"
        (path / "train" / "x").mkdir(parents=True)
        outcome = place.ensure(source=None, path=str(path), expected={})
        assert outcome.contents.counts["classes"] == 1


@pytest.mark.parametrize(
    ("number", "said"),
    [
        (errno.ENOSPC, "has no room for the data"),
        (errno.EDQUOT, "or set demo_path to"),
        (errno.EACCES, "cannot be wri"),
    ],
)
def test_a_storage_that_takes_no_more_is_told(place, monkeypatch, number, said):
    def full(*arguments):
        raise OSError(number, os.strerror(number), "/x")

    monkeypatch.setattr(_dataset, "unpack", full)
    with pytest.raises(DatasetProblem, match=said):
        place.ensure()


def test_a_parent_that_cannot_be_written_to_is_told(place):
    place.path.parent.rmdir()
    place.path.parent.write_text("a file")
    with pytest.raises(DatasetProblem, match="cannot be written"):
        place.ensure()


class TestModule:
    def run(self, capsys, check_mode=False, **arguments):
        with patch_module_args({**arguments, "_ansible_check_mode": check_mode}), pytest.raises(SystemExit):
            dataset_download.main()
        return json.loads(capsys.readouterr().out)

    def arguments(self, place, **changes):
        return {
            "path": str(place.path), "url": place.server.url("/data.tar.gz"), "source": "hub/demo",
            "root": "UCF101_subset", "counts": COUNTS, "expected": {"training videos": 6},
            "settings": {"url": "demo_url"}, "tries": 1, **changes,
        }  # fmt: skip

    def test_from_its_arguments_to_its_result(self, place, capsys):
        planned = self.run(capsys, True, **self.arguments(place))
        assert (planned["changed"], planned["action"], planned["counts"]) == (True, "planned", {})
        done = self.run(capsys, **self.arguments(place))
        assert (done["changed"], done["action"], done["counts"]["classes"]) == (True, "downloaded", 3)
        assert done["archive"]["size"] > 0
        again = self.run(capsys, **self.arguments(place))
        assert (again["changed"], again["action"], again["archive"]) == (False, "unchanged", None)
        assert again["manifest"] == done["manifest"]
        assert again["diff"]["before"] == again["diff"]["after"]

    def test_the_key_is_in_no_answer(self, place, capsys):
        place.server.credentials = "me:the-key-of-me"
        wrong = self.run(capsys, **self.arguments(place, username="me", password="wrong-key-of-me"))
        assert "answers 401 (unauthorized): username and password are not accepted" in wrong["msg"]
        right = self.run(capsys, **self.arguments(place, username="me", password="the-key-of-me"))
        assert right["action"] == "downloaded"
        assert "key-of-me" not in json.dumps([wrong, right])

    def test_the_key_may_be_in_a_file(self, place, capsys, tmp_path):
        place.server.credentials = "me:secret"
        path = tmp_path / "kaggle.json"
        path.write_text('{"username": "me", "key": "secret"}')
        refused = self.run(capsys, **self.arguments(place, credentials_file=str(path)))
        assert "chmod 600" in refused["msg"]
        path.chmod(0o600)
        assert self.run(capsys, **self.arguments(place, credentials_file=str(path)))["action"] == "downloaded"

    def test_everything_that_is_wrong_is_told_at_once(self, place, capsys):
        arguments = self.arguments(
            place, path="data/../x", url="ftp://x/y", counts={"a": "/x"}, rows={"b": "../y"},
            expected={"c": 1, "a": "many"},
        )  # fmt: skip
        said = self.run(capsys, **arguments)["msg"]
        for words in (
            "path is 'data/../x'", "demo_url is 'ftp://x/y'", "counts.a is '/x'", "rows.b is '../y'",
            "expected.c has no pattern", "expected: a is 'many'",
        ):  # fmt: skip
            assert words in said

    def test_given_data_is_looked_at(self, place, capsys):
        said = self.run(capsys, **self.arguments(place, url="", settings={"path": "demo_data_path"}))
        assert "demo_data_path is" in said["msg"]
