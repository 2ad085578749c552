# Copyright: (c) 2026, The dgxc.workloads developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The checks from the login node, over commands that a test plays."""

from __future__ import annotations

import http.server
import struct
import threading

import pytest

from ansible_collections.dgxc.workloads.plugins.module_utils import _preflight_login as login
from ansible_collections.dgxc.workloads.plugins.module_utils._process import Finished
from ansible_collections.dgxc.workloads.plugins.module_utils._registry import Manifest, RegistryProblem

GOOD = {
    "sinfo --version": "slurm 22.05.8\n",
    "enroot version": "4.1.2\n",
    "srun --help": "      --container-image=[USER@][REGISTRY#]IMAGE[:TAG]|PATH\n",
    "scontrol -a -o show partition": "PartitionName=gpu Default=YES MaxTime=1-00:00:00 Nodes=gpu[001-002] State=UP\n",
    "scontrol -o show partition": "PartitionName=gpu Default=YES MaxTime=1-00:00:00 Nodes=gpu[001-002] State=UP\n",
    "scontrol show config": "AccountingStorageEnforce = associations,limits,qos\n",
    "sacctmgr -n -P show qos": "normal||\nhigh||\n",
    "sinfo -h": "gpu001|idle|500000|a100|gpu:a100:8\ngpu002|idle|500000|a100|gpu:a100:8\n",
    "sacctmgr": "team||normal,high|normal|\n",
    "sacct": "",
    "sbatch": ("", "sbatch: Job 1 to start at 2026-01-01T00:00:00\n", 0),
}
ASKED = {
    "nodes": 2,
    "gpus_per_node": 8,
    "time_limit": "01:00:00",
    "options": {"nodes": 2, "gpus-per-node": 8, "mem": "0", "exclusive": True},
}


class Cluster:
    """Answers in the stead of all commands. An answer is a text, (output, error output, code), or a function of the
    words."""

    def __init__(self, folder, **changes):
        self.bin = folder / "bin"
        self.bin.mkdir(exist_ok=True)
        (self.bin / "sbatch").touch()
        self.answers = {**GOOD, **{name.replace("_", " "): answer for name, answer in changes.items()}}
        self.calls = []

    def run(self, words, environment, folder, limit):
        self.calls.append(list(words))
        line = " ".join(words)
        for beginning, answer in self.answers.items():
            if line.startswith(beginning):
                answer = answer(list(words)) if callable(answer) else answer
                return Finished(0, answer, "") if isinstance(answer, str) else Finished(answer[2], answer[0], answer[1])
        return Finished(127, "", f"{words[0]}: not found")

    def node(self, ask=None, free=10**12, fetch=None, now=lambda: 1000.0, **settings):
        place = login.Place(
            self.run, {"PATH": str(self.bin), "HOME": "/home/me"}, "me", now,
            fetch or (lambda address, environment: 200), lambda environment: ask, lambda path: free,
        )  # fmt: skip
        return login.LoginNode(place, {**ASKED, **settings})

    def checks(self, **settings):
        return {check.id: check for check in self.node(**settings).checks()}


@pytest.fixture
def cluster(tmp_path):
    return lambda **changes: Cluster(tmp_path, **changes)


def test_all_is_well(cluster):
    checks = cluster().checks(
        account="team", qos="high", partition="gpu", constraint="a100", controller_time=1000.0, git_remotes=[], urls=[]
    )
    assert {check.verdict for check in checks.values()} == {"ok"}, checks
    assert {"slurm.account", "slurm.qos", "slurm.gpus", "slurm.time_limit", "slurm.constraint", "clock.login"} <= set(
        checks
    )
    assert checks["slurm.request"].evidence == "would start at 2026-01-01T00:00:00"


def test_facts_for_an_inventory(cluster):
    facts = cluster().node().look_around()
    assert facts["accounts"] == ["team"]
    assert facts["qos"] == ["high", "normal"]
    assert facts["accounting"] is True
    assert facts["slurm"]["found"] == "the PATH of a plain command"
    (partition,) = facts["partitions"]
    assert (partition["name"], partition["nodes"], partition["gpus_per_node"]) == ("gpu", 2, 8)
    assert partition["gpu_types"] == ["a100"]
    assert facts["problems"] == []


def test_no_slurm_is_told_and_the_rest_is_looked_at(cluster, tmp_path, monkeypatch):
    monkeypatch.setattr(login, "USUAL_FOLDERS", ())
    site = cluster(bash=("", "", 1))
    (site.bin / "sbatch").unlink()
    checks = site.checks(shared_root=str(tmp_path))
    assert checks["slurm.commands"].verdict == "error"
    assert "slurm.request" not in checks
    assert checks["storage.root"].verdict == "ok"
    facts = site.node().look_around()
    assert facts["problems"][0]["id"] == "slurm.commands"


@pytest.mark.parametrize(
    ("changes", "name", "verdict", "words"),
    [
        ({"sinfo___version": ""}, "slurm.version", "warning", "does not tell"),
        ({"sinfo___version": "slurm 20.11.9\n"}, "slurm.version", "warning", "22.05 and newer"),
        ({"scontrol": ("", "slurm_load_partitions: Unable to contact slurm controller", 1)}, "slurm.controller",
         "error", "Unable to contact"),
        ({"sacct": ("", "Slurm accounting storage is disabled", 1)}, "slurm.accounting", "warning", "no accounting"),
        ({"sacct": ("", "sacct: error: Problem talking to the database: Connection refused", 1)}, "slurm.accounting",
         "warning", "Connection refused"),
        ({"sacctmgr": ("", "sacctmgr: error: no", 1)}, "slurm.account", "warning", "sacctmgr: error: no"),
        ({"srun___help": "Usage: srun\n"}, "pyxis.login", "warning", "no option --container-image"),
        ({"enroot_version": ("", "not found", 127)}, "enroot.login", "warning", "no enroot on this host"),
    ],
)  # fmt: skip
def test_what_is_not_well(cluster, changes, name, verdict, words):
    site = cluster()
    site.answers = {
        **{key.replace("___", " --").replace("_", " "): value for key, value in changes.items()},
        **{
            key: value
            for key, value in site.answers.items()
            if key.replace(" --", "___").replace(" ", "_") not in changes
        },
    }
    checks = site.checks()
    assert checks[name].verdict == verdict
    assert words in checks[name].evidence + checks[name].remedy
    if verdict != "ok":
        assert checks[name].remedy


def refusing(*rules):
    """An sbatch with rules: (function of the options, what it says)."""

    def answer(words):
        for breaks, says in rules:
            if breaks(words):
                return "", f"sbatch: error: {says}\n", 1
        return "", "sbatch: Job 1 to start now\n", 0

    return answer


def has(beginning):
    return lambda words: any(word.startswith(beginning) for word in words)


def lacks(beginning):
    return lambda words: not has(beginning)(words)


@pytest.mark.parametrize(
    ("rules", "remedy"),
    [
        ([(has("--gpus-per-node"), "use gres")], "set dgxc_gres_style to gres"),
        ([(lambda words: "--gpus-per-node=8" in words or "--gres=gpu:8" in words, "name a type")],
         "set dgxc_gpu_type to a100"),
        ([(lacks("--gres=gpu:a100:8"), "name a type with gres")],
         "set dgxc_gres_style to gres and set dgxc_gpu_type to a100"),
        ([(has("--mem=0"), "no")], "set dgxc_slurm_memory to '', or to an amount that the site allows"),
        ([(lambda words: "--mem=0" in words or lacks("--mem")(words), "name memory")],
         "set dgxc_slurm_memory to 500000M"),
        ([(lacks("--qos=high"), "QOS")], "set dgxc_slurm_qos to high"),
        ([(lacks("--account"), "account")], "set dgxc_slurm_account to team"),
        ([(lacks("--partition"), "partition")], "set dgxc_slurm_partition to gpu"),
        ([(has("--gpus-per-node"), "gres"), (has("--mem=0"), "mem"), (lacks("--qos=high"), "QOS")],
         "set dgxc_gres_style to gres and set dgxc_slurm_memory to '', or to an amount that the site allows and set"
         " dgxc_slurm_qos to high"),
        ([(lambda words: True, "never")], "correct what is said above"),
    ],
)  # fmt: skip
def test_a_refused_request_leads_to_the_facts_that_the_site_wants(cluster, rules, remedy):
    site = cluster(sbatch=refusing(*rules))
    check = site.checks()["slurm.request"]
    assert check.verdict == "error"
    assert check.evidence == rules[0][1]
    assert check.remedy.startswith(remedy)
    tests = [call for call in site.calls if call[0] == "sbatch"]
    assert all(call[1] == "--test-only" for call in tests)
    assert len(tests) <= login.MOST_TRIES + 1


@pytest.mark.parametrize("settings", [{}, {"script": "#!/bin/bash\n#SBATCH --nodes=2\nhostname\n", "options": {}}])
def test_a_limit_that_passes_by_waiting_is_no_error(cluster, settings):
    policy = "Job violates accounting/QOS policy (job submit limit, user's size and/or time limits)"

    def check(limit):
        site = cluster(sbatch=("", f"sbatch: error: {limit}\nallocation failure: {policy}\n", 1))
        return site, site.checks(**settings)["slurm.request"]

    site, found = check("QOSMaxSubmitJobPerUserLimit")
    assert found.verdict == "warning"
    assert found.evidence == f"QOSMaxSubmitJobPerUserLimit; allocation failure: {policy}"
    assert found.remedy.startswith("wait until")
    # Nothing else is tried in its place.
    assert len([call for call in site.calls if call[0] == "sbatch"]) == 1
    assert check("QOSMaxNodePerJobLimit")[1].verdict == "error"


NODES_4 = "".join(f"gpu00{number}|{{}}|500000|a100|gpu:a100:8\n" for number in range(1, 5))
NOT_AVAILABLE = "allocation failure: Requested node configuration is not available"


@pytest.mark.parametrize(
    ("answer", "states", "wanted", "verdict", "words"),
    [
        # The real sbatch takes these, now or a little later.
        (("", f"sbatch: error: {NOT_AVAILABLE}\n", 1), "idle idle idle drain", 4, "warning", "nodes are repaired"),
        (("", f"sbatch: error: {NOT_AVAILABLE}\n", 1), "idle drain down* drain", 2, "warning", "nodes are repaired"),
        (("", "allocation failure: Required node not available (down, drained or reserved)\n", 1),
         "idle idle idle drain", 4, "warning", "nodes are repaired"),
        (("", "sbatch: error: allocation failure: Socket timed out on send/recv operation\n", 1), "idle idle idle idle",
         4, "warning", "could not judge"),
        (("", "sbatch: error: Unable to contact slurm controller (connect failure)\n", 1), "idle idle idle idle", 4,
         "warning", "could not judge"),
        (("", "sbatch: error: slurm_receive_msg [10.0.0.1]: controller is in standby mode\n", 1),
         "idle idle idle idle", 4, "warning", "could not judge"),
        (("", "sbatch: error: some plugin: request timed out\n", 1), "idle idle idle idle", 4, "warning",
         "could not judge"),
        (("", "", 124), "idle idle idle idle", 4, "warning", "could not judge"),
        # Here it would refuse the run.
        (("", f"sbatch: error: {NOT_AVAILABLE}\n", 1), "idle idle idle idle", 4, "error", ""),
        (("", f"sbatch: error: {NOT_AVAILABLE}\n", 1), "idle idle idle drain", 5, "error", ""),
        (("", f"sbatch: error: {NOT_AVAILABLE}\n", 1), "idle idle idle drain", 3, "error", ""),
        (("", "sbatch: error: Invalid qos specification\n", 1), "idle idle idle drain", 4, "error", ""),
    ],
)  # fmt: skip
def test_what_is_no_refusal_does_not_end_a_play(cluster, answer, states, wanted, verdict, words):
    site = cluster(sbatch=answer)
    partition = "PartitionName=gpu Default=YES MaxTime=1-00:00:00 Nodes=gpu[001-004] State=UP\n"
    site.answers["scontrol -a -o show partition"] = partition
    site.answers["sinfo -h"] = NODES_4.format(*states.split())
    check = site.checks(nodes=wanted)["slurm.request"]
    assert (check.verdict, words in check.remedy) == (verdict, True), check
    tests = [call for call in site.calls if call[0] == "sbatch"]
    # Nothing else is tried where nothing was refused.
    assert (len(tests) == 1) is (verdict == "warning")


def test_the_way_out_is_not_looked_for_without_end(cluster):
    clock = iter(range(1000, 10**6, 5))
    site = cluster(sbatch=refusing((lambda words: True, "never")))
    assert site.checks(now=lambda: float(next(clock)))["slurm.request"].verdict == "error"
    assert len([call for call in site.calls if call[0] == "sbatch"]) <= 1 + login.TRIES_SECONDS / 5


def test_the_way_out_ends_where_slurm_falls_silent(cluster):
    answers = iter([("", "sbatch: error: name a type\n", 1), ("", "", 124)])
    site = cluster(sbatch=lambda words: next(answers))
    assert site.checks()["slurm.request"].verdict == "error"
    assert len([call for call in site.calls if call[0] == "sbatch"]) == 2


@pytest.mark.parametrize(
    ("sbatch", "verdict"), [(GOOD["sbatch"], "warning"), (("", "sbatch: error: no\n", 1), "error")]
)
def test_slurms_own_yes_counts_for_more_than_lists(cluster, sbatch, verdict):
    for name, value in (("partition", "secret"), ("account", "other"), ("qos", "odd")):
        check = cluster(sbatch=sbatch).checks(**{name: value})["slurm." + name]
        assert check.verdict == verdict
        assert ("takes the request nevertheless" in check.evidence) is (verdict == "warning")


def test_a_hidden_partition_is_one(cluster):
    site = cluster()
    site.answers["scontrol -a -o show partition"] += "PartitionName=mine Hidden=YES Nodes=gpu[001-002] State=UP\n"
    assert site.checks(partition="mine")["slurm.partition"].verdict == "ok"
    # It is not proposed to others, nor for an inventory.
    site.answers["sbatch"] = refusing((lacks("--partition"), "partition"))
    site.answers["scontrol -a -o show partition"] = "PartitionName=mine Hidden=YES Nodes=gpu[001-002] State=UP\n"
    checks = site.checks()
    assert "it has none" in checks["slurm.partition"].evidence
    assert checks["slurm.request"].remedy.startswith("correct what is said above")
    assert [partition["name"] for partition in site.node().look_around()["partitions"]] == ["gpu"]


@pytest.mark.parametrize(
    ("enforced", "qos", "partition", "verdict"),
    [
        ("associations,limits", "normal|01:00:00|\n", "", "error"),
        ("associations,limits,qos,safe", "normal|01:00:00|\n", "", "error"),
        ("associations,safe", "normal|01:00:00|\n", "", "error"),
        ("associations", "normal|01:00:00|\n", "", "ok"),
        ("none", "normal|01:00:00|\n", "", "ok"),
        # The limit of the partition.
        ("none", "normal||\n", "MaxTime=01:00:00", "error"),
        ("none", "normal||DenyOnLimit,PartitionTimeLimit\n", "MaxTime=01:00:00", "ok"),
        ("none", "high||PartitionTimeLimit\n", "MaxTime=01:00:00", "error"),
    ],
)
def test_which_time_limits_hold(cluster, enforced, qos, partition, verdict):
    site = cluster()
    site.answers["scontrol show config"] = f"AccountingStorageEnforce  = {enforced}\nAccountingStorageHost = x\n"
    site.answers["sacctmgr -n -P show qos"] = qos
    site.answers["scontrol -a -o show partition"] = (
        f"PartitionName=gpu Default=YES Nodes=gpu[001-002] State=UP {partition}\n"
    )
    assert site.checks(time_limit="02:00:00")["slurm.time_limit"].verdict == verdict


@pytest.mark.parametrize(("flags", "verdict"), [("", "error"), ("PartitionMaxNodes", "ok")])
def test_a_qos_that_lifts_the_partitions_nodes(cluster, flags, verdict):
    site = cluster()
    site.answers["sacctmgr -n -P show qos"] = f"normal||\nhigh||{flags}\n"
    site.answers["scontrol -a -o show partition"] = (
        "PartitionName=gpu Default=YES Nodes=gpu[001-002] MaxNodes=1 State=UP\n"
    )
    assert site.checks(qos="high")["slurm.nodes"].verdict == verdict


def test_the_very_script_is_judged_as_it_is(cluster):
    site = cluster(
        sbatch=refusing(
            (has("--"), "no"),
        )
    )
    check = site.checks(script="#!/bin/bash\n#SBATCH --nodes=2\nhostname\n", options={})["slurm.request"]
    assert check.remedy == "correct what Slurm names"
    assert len([call for call in site.calls if call[0] == "sbatch"]) == 1


def squashfs(path, used=4096, size=4096):
    head = struct.pack(
        "<5I6H8Q", 0x73717368, 1, 0, 131072, 1, 1, 17, 0, 1, 4, 0, 0, used, 96, *[0xFFFFFFFFFFFFFFFF] * 5
    )
    path.write_bytes(head.ljust(size, b"\0"))
    return str(path)


def test_an_image_in_a_file(cluster, tmp_path):
    site = cluster()
    assert site.checks(image=squashfs(tmp_path / "a.sqsh"))["image"].verdict == "ok"
    cut = site.checks(image=squashfs(tmp_path / "b.sqsh", used=8192))["image"]
    assert (cut.verdict, "is cut" in cut.evidence) == ("error", True)
    absent = site.checks(image=str(tmp_path / "c.sqsh"))["image"]
    assert (absent.verdict, "No such file" in absent.evidence) == ("error", True)
    assert site.checks(image=str(tmp_path / "c.sqsh"), rehearsal=True)["image"].verdict == "warning"
    assert "no absolute path" in site.checks(image="images/a.sqsh")["image"].evidence
    # The compute nodes have the last word about what is not on the shared root.
    for root, verdict in ((tmp_path, "error"), (tmp_path / "bin", "warning")):
        assert site.checks(image=str(tmp_path / "c.sqsh"), shared_root=str(root))["image"].verdict == verdict


def answering(result):
    def ask(reference):
        if isinstance(result, Exception):
            raise result
        return result

    return ask


@pytest.mark.parametrize(
    ("result", "verdict", "words"),
    [
        (Manifest("sha256:" + "a" * 64, 5 * 10**9, ""), "ok", "5.0 GB"),
        (None, "error", "has no image nvcr.io/nvidia/nemo:24.01"),
        (
            RegistryProblem("URL https://nvcr.io/v2/ returned error code: 401 "),
            "error",
            "put the credentials for nvcr.io into ~/.config/enroot/.credentials on the login node, as"
            " playbooks/image.yml does with image_delivery=given and image_given=nvcr.io#nvidia/nemo:24.01 (for NGC with"
            " NGC_API_KEY in the environment",
        ),
        (RegistryProblem("curl: (6) Could not resolve host"), "warning", "cannot be asked from here"),
    ],
)
def test_an_image_in_a_registry(cluster, result, verdict, words):
    check = cluster().checks(image="nvcr.io#nvidia/nemo:24.01", ask=answering(result))["image"]
    assert check.verdict == verdict
    assert words in check.evidence + check.remedy


def test_a_digest_and_an_old_enroot(cluster):
    manifest = Manifest("sha256:" + "a" * 64, 1, "")
    checks = cluster(enroot_version="3.4.1\n").checks(
        image="nvcr.io#nvidia/nemo@sha256:" + "a" * 64, ask=answering(manifest)
    )
    assert checks["image.digest"].verdict == "error"


def test_credentials_are_for_their_owner_alone(cluster, tmp_path):
    site = cluster()
    environment = {"ENROOT_CONFIG_PATH": str(tmp_path)}
    assert "enroot.credentials" not in site.checks(environment=environment)
    path = tmp_path / ".credentials"
    path.write_text("machine nvcr.io login x password secret\n")
    for mode, verdict in ((0o600, "ok"), (0o640, "warning")):
        path.chmod(mode)
        check = site.checks(environment=environment)["enroot.credentials"]
        assert check.verdict == verdict
        assert "secret" not in check.evidence


def test_storage(cluster, tmp_path):
    site = cluster(lfs=" /x 100 200 200 - 1 0 0 -\n")
    assert site.checks(shared_root=str(tmp_path), space_gb=1)["storage.space"].verdict == "ok"
    assert site.checks(shared_root=str(tmp_path), space_gb=1)["storage.quota"].verdict == "error"
    assert site.checks(shared_root=str(tmp_path), space_gb=1, free=10)["storage.space"].verdict == "error"
    absent = site.checks(shared_root=str(tmp_path / "x"))["storage.root"]
    assert absent.verdict == "error"
    assert absent.remedy
    (tmp_path / "link").symlink_to(tmp_path)
    assert "set it to" in site.checks(shared_root=str(tmp_path / "link"))["storage.root"].remedy
    assert not [path for path in tmp_path.iterdir() if path.name not in ("bin", "link")]


def test_sources_of_mounts(cluster, tmp_path):
    site = cluster()
    root = str(tmp_path)
    assert site.checks(paths=[root])["mounts.login"].verdict == "ok"
    assert site.checks(paths=["/nonexistent/cm"], shared_root=root)["mounts.login"].verdict == "warning"
    assert site.checks(paths=[root + "/data"], shared_root=root)["mounts.login"].verdict == "error"
    assert site.checks(paths=[root + "/data"], shared_root=root, rehearsal=True)["mounts.login"].verdict == "warning"
    assert "mounts.login" not in site.checks()


def test_git_remotes(cluster):
    site = cluster(git=("", "fatal: could not read from https://me:secret@example.org/a.git\n", 128))
    check = site.checks(git_remotes=["https://me:secret@example.org/a.git"])["git.a"]
    assert check.verdict == "error"
    assert "secret" not in check.evidence
    assert cluster(git="abc HEAD\n").checks(git_remotes=["https://example.org/b"])["git.b"].verdict == "ok"
    for said in (("", "", 124), ("", "fatal: unable to access: Connection timed out\n", 128)):
        assert cluster(git=said).checks(git_remotes=["https://example.org/b"])["git.b"].verdict == "warning"
    assert "brings Git" in cluster(git=("", "", 127)).checks(git_remotes=["https://example.org/b"])["git.b"].remedy


def test_web_servers(cluster):
    def fetch(address, environment):
        if "gone" in address:
            raise OSError("Name or service not known")
        if "slow" in address:
            raise OSError("timed out")
        return 503 if "ill" in address else 404

    urls = ["https://hub.example.org/x", "https://gone.example.org", "https://ill.example.org", "https://slow.org"]
    checks = cluster().checks(urls=urls, fetch=fetch)
    assert checks["network.hub.example.org"].verdict == "ok"
    assert checks["network.gone.example.org"].verdict == "error"
    assert checks["network.ill.example.org"].verdict == "warning"
    assert checks["network.slow.org"].verdict == "warning"


class Refusing(http.server.BaseHTTPRequestHandler):
    def do_HEAD(self):
        self.send_response(int(self.path.rpartition("/")[2]))
        self.end_headers()

    def log_message(self, *words):
        pass


def test_a_web_server_is_asked_for_its_status():
    server = http.server.HTTPServer(("127.0.0.1", 0), Refusing)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    address = f"http://127.0.0.1:{server.server_port}"
    try:
        assert login.fetch_status(address + "/200", {}) == 200
        assert login.fetch_status(address + "/403", {}) == 403
        # A proxy of the environment is asked instead.
        assert login.fetch_status("http://nowhere.invalid/404", {"http_proxy": address}) == 404
        with pytest.raises(OSError, match=r"not known|resolution"):
            login.fetch_status("http://nowhere.invalid/404", {"http_proxy": address, "no_proxy": ".invalid"})
    finally:
        server.shutdown()
        server.server_close()
    with pytest.raises(OSError, match="refused"):
        login.fetch_status(address, {})


MOUNTS = """\
/dev/vda / ext4 rw 0 0
10.0.0.1@o2ib:/fs0 /lustre/fs0 lustre rw 0 0
home:/home /home nfs4 rw 0 0
"""


def test_file_systems():
    assert login.file_system("/lustre/fs0/scratch/me", MOUNTS) == "lustre"
    assert login.file_system("/lustre/fs01", MOUNTS) == "ext4"
    assert login.file_system("/x", "") == "an unknown file system"
    there = {"/lustre/fs0/scratch/me", "/home/me"}
    assert login.shared_folders(MOUNTS, "me", there.__contains__) == ["/lustre/fs0/scratch/me", "/home/me"]


def test_free_room_of_a_folder_that_is_not_there_yet(tmp_path):
    assert login.free_bytes(str(tmp_path / "a" / "b")) == login.free_bytes(str(tmp_path))


def test_free_room_of_a_relative_path(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert login.free_bytes("a/b") == login.free_bytes("") == login.free_bytes(str(tmp_path))


# What distributions and releases answer, as far as it differs: the spelling of the version, what scontrol says between
# the names that are read, the GPUs of a node, states.
COMMON = "AllowGroups=ALL AllowAccounts=ALL AllowQos=ALL AllocNodes=ALL Default=YES QoS=N/A DefaultTime=NONE"
REST = (
    "Nodes=gpu[001-002] PriorityTier=1 State=UP TotalCPUs=256 TotalNodes=2 JobDefaults=(null) MaxMemPerNode=UNLIMITED"
)
RELEASES = [
    ("Rocky Linux 8, EPEL", "slurm 20.11.9", "ExclusiveUser=NO MaxNodes=UNLIMITED MaxTime=1-00:00:00", "gpu:a100:8", "idle",
     "warning"),
    ("Ubuntu 22.04", "slurm-wlm 21.08.5", "ExclusiveUser=NO MaxNodes=UNLIMITED MaxTime=1-00:00:00", "gpu:8(S:0-1)", "plnd",
     "warning"),
    ("Debian 12", "slurm-wlm 22.05.8", "ExclusiveUser=NO MaxNodes=UNLIMITED MaxTime=UNLIMITED", "gpu:a100:8(S:0-1)", "mix-",
     "ok"),
    ("Rocky Linux 9, EPEL", "slurm 22.05.9", "MaxNodes=UNLIMITED MaxTime=UNLIMITED TRES=cpu=256,gres/gpu=16", "gpu:8", "idle~",
     "ok"),
    ("Ubuntu 24.04", "slurm-wlm 23.11.4", "MaxNodes=UNLIMITED MaxTime=1-00:00:00 MaxCPUsPerSocket=UNLIMITED",
     "gpu:nvidia_a100-sxm4-80gb:8(S:0-1)", "alloc", "ok"),
    ("from source", "slurm 24.05.4", "ExclusiveUser=NO ExclusiveTopo=NO MaxNodes=UNLIMITED MaxTime=2-00:00:00",
     "gpu:h100:8(S:0-1),shard:h100:64", "idle^", "ok"),
    ("from source", "slurm 25.05.0", "ExclusiveUser=NO ExclusiveTopo=NO MaxNodes=UNLIMITED MaxTime=UNLIMITED", "gpu:b200:8",
     "comp", "ok"),
]  # fmt: skip


@pytest.mark.parametrize(("distribution", "version", "between", "gres", "state", "verdict"), RELEASES)
def test_releases_of_slurm(cluster, distribution, version, between, gres, state, verdict):
    site = cluster()
    site.answers["sinfo --version"] = version + "\n"
    site.answers["scontrol -a -o show partition"] = f"PartitionName=gpu {COMMON} {between} {REST}\n"
    site.answers["sinfo -h"] = "".join(f"gpu00{number}|{state}|500000|(null)|{gres}\n" for number in (1, 2))
    checks = site.checks()
    assert checks["slurm.version"].evidence.startswith(version.split()[1]) is True
    assert checks["slurm.version"].verdict == verdict
    others = {name: check.verdict for name, check in checks.items() if name not in ("slurm.version", "login.python")}
    assert set(others.values()) == {"ok"}, others
    assert "2 of 2 nodes are usable" in checks["slurm.nodes"].evidence
