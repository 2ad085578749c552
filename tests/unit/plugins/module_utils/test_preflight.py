# Copyright: (c) 2026, The dgxc.workloads developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What is made of what Slurm says about itself."""

from __future__ import annotations

import pytest

from ansible_collections.dgxc.workloads.plugins.module_utils import _preflight as preflight

PARTITIONS = """\
PartitionName=defq AllowGroups=ALL AllowAccounts=ALL AllowQos=ALL Default=YES MaxNodes=UNLIMITED MaxTime=UNLIMITED \
Nodes=gpu[001-003] State=UP
PartitionName=short AllowAccounts=team,other AllowQos=normal Default=NO MaxNodes=2 MaxTime=04:00:00 Nodes=gpu[001-002] \
State=UP
PartitionName=old Default=NO MaxNodes=UNLIMITED MaxTime=1-00:00:00 Nodes=(null) State=DOWN
"""
NODES = """\
gpu001|idle|500000|a100,nvlink|gpu:a100:8(S:0-1)
gpu001|idle|500000|a100,nvlink|gpu:a100:8(S:0-1)
gpu002|drain*|500000|a100|gpu:a100:4,gpu:h100:4
gpu003|mix|500000+|(null)|(null)
"""


@pytest.fixture
def partitions():
    return preflight.parse_partitions(PARTITIONS)


@pytest.fixture
def nodes():
    return preflight.parse_nodes(NODES)


def chosen(partitions, name=""):
    return preflight.chosen_partitions(partitions, name)


def test_partitions(partitions):
    first, second, third = partitions
    assert first == preflight.Partition("defq", True, "UP", ("gpu001", "gpu002", "gpu003"), None, None, (), ())
    assert (second.max_time, second.max_nodes, second.accounts, second.qos) == (
        14400,
        2,
        ("team", "other"),
        ("normal",),
    )
    assert (third.nodes, third.state, third.max_time) == ((), "DOWN", 86400)


def test_nodes(nodes):
    assert nodes["gpu001"] == preflight.Node("gpu001", "idle", {"a100": 8}, 500000, ("a100", "nvlink"))
    assert nodes["gpu002"].gpus == {"a100": 4, "h100": 4}
    assert (nodes["gpu003"].gpus, nodes["gpu003"].memory, nodes["gpu003"].features) == ({}, 500000, ())
    assert [node.usable for node in nodes.values()] == [True, False, True]


@pytest.mark.parametrize(
    ("text", "gpus"),
    [
        ("gpu:8", {"": 8}),
        ("gpu:a100:8(S:0-1)", {"a100": 8}),
        ("gpu:a100:4,gpu:h100:4", {"a100": 4, "h100": 4}),
        ("gpu:a100:8,shard:a100:32", {"a100": 8}),
        ("gpu:a100:4(S:0),gpu:a100:4(S:1)", {"a100": 8}),
        ("(null)", {}),
        ("", {}),
        ("craynetwork:4", {}),
    ],
)
def test_gpus_however_slurm_spells_them(text, gpus):
    assert preflight.parse_gres(text) == gpus


@pytest.mark.parametrize(
    ("wanted", "verdict", "remedy"),
    [
        ("", "ok", ""),
        ("short", "ok", ""),
        ("defq,short", "ok", ""),
        ("shrot", "error", "set dgxc_slurm_partition to short"),
        ("zzz", "error", "one of them, or to '' for the default"),
        ("old", "error", "wait until it is UP again"),
        # Of a list, the job goes to one that is open.
        ("old,short", "ok", ""),
    ],
)
def test_a_partition(partitions, wanted, verdict, remedy):
    check = preflight.judge_partition(partitions, wanted)
    assert check.verdict == verdict
    assert remedy in check.remedy


def test_no_default_partition(partitions):
    check = preflight.judge_partition(partitions[1:], "")
    assert check.verdict == "error"
    assert "no default partition; it has short, old" in check.evidence


@pytest.mark.parametrize(
    ("partition", "wanted", "verdict"),
    [("", 2, "ok"), ("", 3, "warning"), ("", 4, "error"), ("short", 1, "ok"), ("short", 3, "error")],
)
def test_enough_nodes(partitions, nodes, partition, wanted, verdict):
    assert preflight.judge_nodes(chosen(partitions, partition), nodes, wanted).verdict == verdict


@pytest.mark.parametrize(
    ("partition", "wanted", "verdict"),
    [
        ("", "7-00:00:00", "ok"), ("short", "04:00:00", "ok"), ("short", "04:00:01", "error"),
        ("short,defq", "05:00:00", "ok"), ("old", "1-00:00:01", "error"), ("nothing", "01:00:00", "ok"),
    ],
)  # fmt: skip
def test_a_time_limit_that_fits(partitions, partition, wanted, verdict):
    check = preflight.judge_time(chosen(partitions, partition), wanted)
    assert check.verdict == verdict
    if verdict == "error":
        assert "shorten the workload's time limit to" in check.remedy


@pytest.mark.parametrize(
    ("wanted", "kind", "count", "verdict", "words"),
    [
        (8, "", 1, "ok", "8 a100 GPUs or no GPUs"),
        (8, "", 2, "ok", ""),
        (8, "a100", 1, "ok", ""),
        (8, "a100", 2, "error", "set dgxc_gpus_per_node"),
        (4, "h100", 1, "ok", ""),
        (1, "v100", 1, "error", "set dgxc_gpu_type to a100 or h100"),
        (9, "", 1, "error", "set dgxc_gpus_per_node"),
    ],
)
def test_gpus_of_the_nodes(partitions, nodes, wanted, kind, count, verdict, words):
    check = preflight.judge_gpus(chosen(partitions), nodes, wanted, kind, count)
    assert check.verdict == verdict
    assert words in check.evidence + check.remedy


def test_a_partition_without_gpus(partitions, nodes):
    without = {name: node._replace(gpus={}) for name, node in nodes.items()}
    assert "knows no GPUs" in preflight.judge_gpus(chosen(partitions), without, 8, "", 1).evidence


@pytest.mark.parametrize(
    ("constraint", "remedy"),
    [
        ("a100", ""), ("a100&nvlink", ""), ("[a100|nvlink]*2", ""),
        ("nvlnk", "set dgxc_slurm_constraint to nvlink"), ("rack7", "features that nodes have"),
    ],
)  # fmt: skip
def test_a_constraint(nodes, constraint, remedy):
    check = preflight.judge_constraint(nodes.values(), constraint)
    assert check.verdict == ("error" if remedy else "ok")
    assert remedy in check.remedy


ASSOCIATIONS = preflight.parse_associations("team||normal,high|normal|\nother|short|normal||04:00:00\n")


@pytest.mark.parametrize(
    ("account", "verdict", "remedy"),
    [("", "ok", ""), ("team", "ok", ""), ("taem", "error", "to team"), ("zzz", "error", "to one of them")],
)
def test_an_account(account, verdict, remedy):
    check = preflight.judge_account(ASSOCIATIONS, account, "me")
    assert check.verdict == verdict
    assert remedy in check.remedy


def test_nobody():
    assert preflight.judge_account([], "team", "me").verdict == "warning"


@pytest.mark.parametrize(
    ("qos", "account", "verdict"),
    [("high", "", "ok"), ("high", "team", "ok"), ("high", "other", "error"), ("hihg", "team", "error"), ("", "", "ok")],
)
def test_a_quality_of_service(qos, account, verdict):
    assert preflight.judge_qos(ASSOCIATIONS, qos, account).verdict == verdict


RESERVATIONS = """\
ReservationName=mine StartTime=2026-01-01T00:00:00 EndTime=2027-01-01T00:00:00 Nodes=gpu001 State=ACTIVE
ReservationName=later StartTime=2027-01-01T00:00:00 EndTime=2028-01-01T00:00:00 Nodes=gpu001 State=INACTIVE
"""


@pytest.mark.parametrize(
    ("text", "name", "verdict"),
    [
        (RESERVATIONS, "mine", "ok"), (RESERVATIONS, "later", "warning"), (RESERVATIONS, "mein", "error"),
        ("No reservations in the system\n", "mine", "error"),
    ],
)  # fmt: skip
def test_a_reservation(text, name, verdict):
    assert preflight.judge_reservation(text, name).verdict == verdict


def test_room():
    assert preflight.judge_space("s", "data", "/x", 10**11, 100, "v").verdict == "ok"
    check = preflight.judge_space("s", "data", "/x", 10**11 - 1, 100, "v")
    assert check.verdict == "error"
    assert "lower v" in check.remedy


@pytest.mark.parametrize(
    ("skew", "verdict", "words"), [(29, "ok", ""), (-31, "warning", "31 s behind"), (400, "warning", "400 s ahead")]
)
def test_clocks(skew, verdict, words):
    check = preflight.judge_clock("c", "x", skew)
    assert check.verdict == verdict
    assert words in check.evidence


@pytest.mark.parametrize(
    ("text", "quota"),
    [
        ("     /lustre/fs0 1048576  2097152 4194304       -      10       0       0       -\n", (1048576, 2097152)),
        ("/lustre/fs0\n   5000000*  4000000 4500000  6d23h  10 0 0 -\n", (5000000, 4000000)),
        ("     /lustre/fs0 1048576  0 0       -      10       0       0       -\n", None),
        ("", None),
    ],
)
def test_the_quota_of_lustre(text, quota):
    assert preflight.parse_lustre_quota(text) == quota


def test_a_quota_that_is_used_up():
    assert preflight.judge_quota(10**9, 10**9 + 1000, 100).verdict == "error"
    assert preflight.judge_quota(10**6, 10**9, 100).verdict == "ok"


@pytest.mark.parametrize(
    ("python", "core", "verdict"),
    [
        ("3.8.18", "2.19.4", "ok"), ("3.8.18", "2.20.0", "warning"), ("3.13.0", "2.19.0", "ok"),
        ("3.14.0", "2.19.0", "warning"), ("3.14.0", "2.21.1", "ok"), ("3.7.1", "2.19.0", "warning"),
    ],
)  # fmt: skip
def test_pythons(python, core, verdict):
    assert preflight.judge_python(python, core, "/x").verdict == verdict


def test_verdicts_are_counted():
    assert preflight.counted([{"verdict": "ok"}, {"verdict": "ok"}, {"verdict": "error"}]) == {
        "ok": 2, "warning": 0, "error": 1,
    }  # fmt: skip


HELP = """
Usage: srun [OPTIONS(0)... [executable(0) [args(0)...]]]

Options provided by plugins:
      --container-image=[USER@][REGISTRY#]IMAGE[:TAG]|PATH
                              [pyxis] the image to use for the container
      --container-mounts=SRC:DST[:FLAGS][,SRC:DST...]
      --container-mount-home  [pyxis] bind mount the user's home directory.
      --no-container-mount-home
"""


@pytest.mark.parametrize(
    ("text", "wanted", "verdict", "words"),
    [
        (HELP, ["container-image", "no-container-mount-home"], "ok", "takes --container-image"),
        (HELP, ["container-image", "container-env"], "error", "ask the administrators for Pyxis 0.15 or newer"),
        (HELP, ["container-writable"], "error", "does not know --container-writable"),
        (HELP, ["container-writable"], "error", "Pyxis 0.11 or newer"),
        (HELP, ["container-env", "container-readonly", "container-entrypoint"], "error", "Pyxis 0.15 or newer"),
        ("Usage: srun", ["container-image"], "error", "built for exactly this Slurm"),
        ("", [], "error", "no option --container-image"),
    ],
)
def test_the_options_of_pyxis(text, wanted, verdict, words):
    check = preflight.judge_pyxis("pyxis.login", "", preflight.pyxis_options(text), wanted)
    assert check.verdict == verdict
    assert words in check.evidence + check.remedy


@pytest.mark.parametrize(
    ("version", "old"),
    [("3.0.2", True), ("2.2.0", True), ("3.1.0", False), ("3.5.0+rc1", False), ("4.1.2", False), ("", False)],
)
def test_an_enroot_that_pyxis_cannot_use(version, old):
    assert preflight.enroot_too_old(version) is old


@pytest.mark.parametrize(
    ("system", "version", "verdicts"),
    [
        # The system's own Python against ansible-core 2.19, 2.20, 2.21.
        ("Rocky Linux 8", "3.6.8", "warning warning warning"),
        ("Rocky Linux 8, python39", "3.9.20", "ok ok ok"),
        ("Rocky Linux 9", "3.9.21", "ok ok ok"),
        ("Rocky Linux 10", "3.12.9", "ok ok ok"),
        ("Ubuntu 20.04", "3.8.10", "ok warning warning"),
        ("Ubuntu 22.04", "3.10.12", "ok ok ok"),
        ("Ubuntu 24.04", "3.12.3", "ok ok ok"),
        ("Debian 12", "3.11.2", "ok ok ok"),
        ("Debian 13", "3.13.5", "ok ok ok"),
        ("newest", "3.14.0", "warning ok ok"),
    ],
)
def test_the_python_of_a_system(system, version, verdicts):
    cores = ("2.19.4", "2.20.1", "2.21.0")
    found = [preflight.judge_python(version, core, "/usr/bin/python3").verdict for core in cores]
    assert " ".join(found) == verdicts


QOS = preflight.parse_qos_limits("normal||\nhigh|1-00:00:00|DenyOnLimit\nodd\n")


@pytest.mark.parametrize(
    ("account", "partition", "qos", "limits"),
    [
        ("team", "", "", {}),
        ("team", "", "high", {"QOS high": 86400}),
        ("other", "short", "", {"account other": 14400}),
        # The limit of a QOS takes the place of the account's.
        ("other", "short", "high", {"QOS high": 86400}),
        ("other", "defq", "", {}),
        # One of two accounts, and nobody says which.
        ("", "short", "high", {}),
        ("", "defq", "high", {"QOS high": 86400}),
        ("nobody", "", "", {}),
    ],
)
def test_limits_of_the_accounting(account, partition, qos, limits):
    assert preflight.wall_limits(ASSOCIATIONS, QOS, account, partition, qos) == limits


def test_a_time_limit_beyond_those_of_the_accounting(partitions):
    check = preflight.judge_time(chosen(partitions), "2-00:00:00", {"QOS high": 86400})
    assert (check.verdict, "the QOS high allows 1-00:00:00" in check.evidence) == ("error", True)
    assert "another dgxc_slurm_qos" in check.remedy
    check = preflight.judge_time(chosen(partitions), "05:00:00", {"account other": 14400})
    assert "shorten the workload's time limit to 0-04:00:00, or choose another dgxc_slurm_account" in check.remedy
    assert preflight.judge_time(chosen(partitions), "04:00:00", {"account other": 14400}).verdict == "ok"
