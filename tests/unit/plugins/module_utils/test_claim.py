# Copyright: (c) 2026, The dgxc.workloads developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading

import pytest

from ansible_collections.dgxc.workloads.plugins.module_utils import _claim
from ansible_collections.dgxc.workloads.plugins.module_utils._claim import Claim


class Clock:
    def __init__(self):
        self.now = 0.0
        self.then = lambda: None

    def __call__(self):
        return self.now

    def sleep(self, seconds):
        self.now += seconds
        self.then()


@pytest.fixture
def clock():
    return Clock()


def claim(tmp_path, clock, **more):
    return Claim(str(tmp_path / "x.sqsh"), clock=clock, sleep=clock.sleep, **more)


def foreign(tmp_path, **owner):
    """The claim of a process on another machine."""
    folder = tmp_path / ".x.sqsh.claim"
    folder.mkdir()
    (folder / "owner.json").write_text(json.dumps({"token": "t", "host": "other", "pid": 7, "kernel": "k", **owner}))
    (folder / "beat").touch()
    return folder


def test_one_has_it_and_gives_it_back(tmp_path, clock):
    first = claim(tmp_path, clock)
    assert first.take(10, lambda: False)
    assert first.held()
    assert first.owner()["pid"] == os.getpid()
    first.release()
    assert not first.held()
    assert list(tmp_path.iterdir()) == []
    first.release()


def test_who_waits_is_content_when_it_is_there(tmp_path, clock):
    first, second = claim(tmp_path, clock), claim(tmp_path, clock)
    first.take(10, lambda: False)
    answers = iter([False, False, True])
    assert second.take(100, lambda: next(answers)) is False
    first.release()


def test_who_waits_gets_it_when_the_other_gives_up(tmp_path, clock):
    first, second = claim(tmp_path, clock), claim(tmp_path, clock)
    first.take(10, lambda: False)
    clock.then = first.release
    assert second.take(100, lambda: False)
    second.release()


def test_who_waits_too_long_says_whom_for(tmp_path, clock):
    foreign(tmp_path)
    second = claim(tmp_path, clock, stale_seconds=1000)
    with pytest.raises(TimeoutError, match=r"x\.sqsh is being made by other \(process 7\) for longer than 5 seconds"):
        second.take(5, lambda: False)


def test_one_without_a_sign_of_life_is_broken(tmp_path, clock):
    folder = foreign(tmp_path)
    second = claim(tmp_path, clock, stale_seconds=20)
    assert second.take(100, lambda: False)
    assert 20 <= clock.now <= 30
    assert second.owner()["token"] == second.token
    second.release()
    assert not folder.exists()


def test_one_that_shows_signs_of_life_is_not_broken(tmp_path, clock):
    folder = foreign(tmp_path)
    count = iter(range(1000))
    clock.then = lambda: os.utime(folder / "beat", ns=(0, next(count)))
    with pytest.raises(TimeoutError):
        claim(tmp_path, clock, stale_seconds=20).take(100, lambda: False)
    assert folder.exists()


def test_one_of_a_process_of_this_machine_that_has_ended_is_broken_at_once(tmp_path, clock):
    program = (
        "import sys; sys.path.insert(0, sys.argv[1]);"
        "from ansible_collections.dgxc.workloads.plugins.module_utils._claim import Claim;"
        "print(Claim(sys.argv[2]).take(1, lambda: False)); import os; os._exit(9)"
    )
    place = _claim.__file__.rpartition("/ansible_collections/")[0]
    done = subprocess.run(
        [sys.executable, "-c", program, place, str(tmp_path / "x.sqsh")], capture_output=True, text=True, check=False
    )
    assert done.returncode == 9, done.stderr
    second = claim(tmp_path, clock)
    assert second.take(100, lambda: False)
    assert clock.now == 0
    second.release()


def test_one_of_a_living_process_of_this_machine_is_not_gone():
    assert not _claim.gone(_claim.this_process())
    assert _claim.gone({**_claim.this_process(), "started": "0"})
    assert not _claim.gone({**_claim.this_process(), "kernel": "other", "started": "0"})
    assert not _claim.gone({"token": "no process"})


def test_a_frozen_holder_finds_that_it_was_broken(tmp_path, clock):
    first, second = claim(tmp_path, clock, stale_seconds=0.0), claim(tmp_path, clock, stale_seconds=0.0)
    first.take(1, lambda: False)
    second.stale()
    assert first.lost() == ""
    second._break()
    assert not first.held()
    assert first.lost() == (
        f"{tmp_path}/x.sqsh was claimed by somebody else, for this process did not answer for too long: repeat."
    )
    assert second.take(1, lambda: False)
    first.release()
    assert second.held()
    second.release()


def test_breaking_does_not_hit_the_wrong_one(tmp_path, clock, monkeypatch):
    first, second = claim(tmp_path, clock), claim(tmp_path, clock)
    first.take(1, lambda: False)
    # It was another claim when it was judged, and even when it was looked at once more.
    monkeypatch.setattr(second, "owner", lambda: {"token": "an older one"})
    second.stale()
    second._break()
    assert first.held()
    first.release()


def test_a_claim_made_since_the_judgement_is_left_alone(tmp_path, clock):
    dead, waiting, faster = claim(tmp_path, clock), claim(tmp_path, clock), claim(tmp_path, clock)
    dead.take(1, lambda: False)
    waiting.stale()
    # Another one breaks the same claim first, and has its own by now.
    faster.stale()
    faster._break()
    assert faster.take(1, lambda: False)
    waiting._break()
    assert faster.held()
    assert not waiting._create()
    faster.release()


def test_a_process_that_proc_hides_is_not_gone(monkeypatch):
    other = {**_claim.this_process(), "pid": 4711}
    monkeypatch.setattr(_claim, "_started", lambda _pid: "")
    said = {"error": PermissionError()}

    def kill(_pid, _signal):
        raise said["error"]

    monkeypatch.setattr(_claim.os, "kill", kill)
    assert not _claim.gone(other)
    said["error"] = ProcessLookupError()
    assert _claim.gone(other)


def test_a_place_that_cannot_be_written_is_an_error_and_no_reason_to_wait(tmp_path, clock):
    (tmp_path / "file").touch()
    with pytest.raises(OSError, match="Not a directory"):
        Claim(str(tmp_path / "file" / "x"), clock=clock, sleep=clock.sleep).take(5, lambda: False)


def test_many_at_once(tmp_path):
    done = []
    at_once = []

    def work():
        mine = Claim(str(tmp_path / "x.sqsh"))
        mine.take(30, lambda: False)
        at_once.append(1)
        done.append(len(at_once))
        at_once.pop()
        mine.release()

    threads = [threading.Thread(target=work) for _number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert done == [1] * 6


def test_the_heart_beats(tmp_path, monkeypatch):
    monkeypatch.setattr(_claim, "BEAT_SECONDS", 0.01)
    mine = Claim(str(tmp_path / "x.sqsh"))
    mine.take(1, lambda: False)
    os.utime(mine.beat, ns=(0, 0))
    waited = threading.Event()
    for _number in range(200):
        waited.wait(0.02)
        if os.stat(mine.beat).st_mtime_ns:
            break
    assert os.stat(mine.beat).st_mtime_ns
    mine.release()
