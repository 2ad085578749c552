# Copyright: (c) 2026, The dgxc.workloads developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The upload's action plugin: what it asks, sends and answers."""

from __future__ import annotations

import hashlib
from unittest.mock import MagicMock

import pytest

from ansible_collections.dgxc.workloads.plugins.action import squashfs_upload

IMAGE = {"path": "/b/x.sqsh", "size": 1000, "source": "dockerd://a:1", "sha256": "5", "digest": "sha256:i"}
HERE = {"digest": "sha256:i", "path": "/s/x.sqsh"}
RECEIVE = {"action": "receive", "token": "t", "part": "/s/.x.part", "offset": 0, "beat": "/s/b"}


class Bench:
    """The plugin with Ansible, the cluster and rsync played."""

    def __init__(self, monkeypatch, answers=(), rsync=(), transport="ssh", check_mode=False):
        self.said, self.asked, self.commands = [], [], []
        self.answers, self.rsync = list(answers), list(rsync)
        monkeypatch.setattr(squashfs_upload.display, "display", self.said.append)
        monkeypatch.setattr(squashfs_upload.time, "sleep", lambda _seconds: None)
        monkeypatch.setattr(squashfs_upload._image_upload, "run_rsync", self.send)
        task = MagicMock(check_mode=check_mode, async_val=0, environment=[])
        task.args = {"path": "/s/x.sqsh", "image": IMAGE}
        connection = MagicMock(transport=transport, become=None)
        options = {"host": "login", "port": 22, "remote_user": None}
        connection.get_option = lambda name: options[name]
        self.action = squashfs_upload.ActionModule(task, connection, MagicMock(), MagicMock(), MagicMock(), MagicMock())
        self.action._execute_module = self.execute

    def execute(self, module_name, module_args, task_vars):
        self.last = module_args
        assert module_name == "dgxc.workloads.squashfs_receive"
        self.asked.append(module_args["step"])
        return self.answers.pop(0)

    def send(self, command, progress, limit, build, target):
        self.commands.append(command)
        self.build = build
        return self.rsync.pop(0)

    def run(self, **hostvars):
        return self.action.run(task_vars={"hostvars": hostvars, "inventory_hostname": "sandbox"})


def begun(**more):
    return {"reception": {**RECEIVE, **more}, "image": {"digest": ""}}


def test_an_image_is_sent(monkeypatch):
    bench = Bench(monkeypatch, [begun(), {"image": HERE}], [(0, "")])
    result = bench.run()
    assert (result["changed"], result["action"], result["sent"], result["image"]) == (True, "upload", 1000, HERE)
    assert bench.asked == ["begin", "finish"]
    assert bench.commands[0][-1] == "login:/s/.x.part"
    assert bench.said == ["[sandbox] x.sqsh: sending 1.0 KB to login"]


def test_what_is_there_is_not_sent(monkeypatch):
    bench = Bench(monkeypatch, [{"reception": {"action": "waited"}, "image": HERE}])
    result = bench.run()
    assert (result["changed"], result["action"], result["sent"]) == (False, "waited", 0)


def test_a_rehearsal_asks_nobody(monkeypatch):
    bench = Bench(monkeypatch, check_mode=True)
    assert bench.run()["changed"]
    assert bench.asked == []


def test_a_cut_transfer_goes_on(monkeypatch):
    bench = Bench(monkeypatch, [begun(offset=400), {"image": HERE}], [(12, "closed"), (0, "")])
    assert bench.run()["sent"] == 600
    assert "going on where it was cut" in bench.said[0]
    assert "(rsync answered 12); it goes on" in bench.said[1]


@pytest.mark.parametrize("rsync", [[(12, "closed")] * 4, [(11, "No space left on device")]])
def test_one_that_fails_lets_go(monkeypatch, rsync):
    bench = Bench(monkeypatch, [begun(), {}], rsync)
    result = bench.run()
    assert result["failed"]
    assert bench.asked == ["begin", "give_up"]
    assert len(bench.commands) == len(rsync)


def test_what_the_cluster_refuses_is_told(monkeypatch):
    assert Bench(monkeypatch, [{"failed": True, "msg": "no space"}]).run()["msg"] == "no space"
    bench = Bench(monkeypatch, [begun(), {"failed": True, "msg": "no image"}], [(0, "")])
    assert bench.run()["msg"] == "no image"
    assert bench.asked == ["begin", "finish"]


def test_other_connections(monkeypatch):
    bench = Bench(monkeypatch, [begun(), {"image": HERE}], [(0, "")], transport="local")
    assert bench.run()["changed"]
    assert bench.commands[0][-1] == "localhost:/s/.x.part"
    bench = Bench(monkeypatch, [begun(), {}], transport="docker")
    assert "knows the connections ssh and local" in bench.run()["msg"]


def test_the_sha256_is_reckoned_while_it_is_sent(monkeypatch, tmp_path):
    (tmp_path / "x.sqsh").write_bytes(b"x" * 1000)
    bench = Bench(monkeypatch, [begun(), {"image": HERE}], [(0, "")])
    bench.action._task.args["image"] = {**IMAGE, "path": str(tmp_path / "x.sqsh"), "sha256": ""}
    assert bench.run()["changed"]
    assert bench.last["sha256"] == hashlib.sha256(b"x" * 1000).hexdigest()


def test_it_may_lie_on_another_host(monkeypatch):
    facts = {"ansible_host": "10.0.0.9", "ansible_user": "builder", "ansible_port": 2222}
    bench = Bench(monkeypatch, [begun(), {"image": HERE}], [(0, "")])
    bench.action._task.args.update(source_host="builder", image={**IMAGE, "sha256": ""})
    assert bench.run(builder=facts)["changed"]
    assert (bench.build.options["host"], bench.build.options["port"]) == ("10.0.0.9", "2222")
    assert bench.last["sha256"] == ""
    bench = Bench(monkeypatch, [begun(), {"image": HERE}], [(0, "")])
    bench.action._task.args.update(source_host="builder")
    bench.run(builder={"ansible_connection": "local"})
    assert bench.build is None
