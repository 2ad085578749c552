# Copyright: (c) 2026, The dgxc.workloads developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the cluster is asked, what a missing connection means, the report, and a new inventory."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml
from ansible.errors import AnsibleFilterError
from jinja2 import Environment

from ansible_collections.dgxc.workloads.plugins.filter import preflight as filters
from ansible_collections.dgxc.workloads.plugins.module_utils._site_settings import site_problems
from ansible_collections.dgxc.workloads.plugins.plugin_utils import _new_inventory, _preflight_report

SITE = {"dgxc_shared_root": "/lustre/me"}
GOOD = {
    "preflight_compute_node_options": {},
    "preflight_compute_nodes": 1,
    "preflight_enabled": True,
    "preflight_exclusive": True,
    "preflight_force": False,
    "preflight_git_remotes": [],
    "preflight_gpus_per_node": 8,
    "preflight_ignore": [],
    "preflight_image": "",
    "preflight_memory": "0",
    "preflight_mounts": [],
    "preflight_nodes": 2,
    "preflight_report": "",
    "preflight_runs": [],
    "preflight_script": "",
    "preflight_show": "all",
    "preflight_slurm_account": "",
    "preflight_slurm_options": {},
    "preflight_slurm_partition": "",
    "preflight_slurm_qos": "",
    "preflight_slurm_reservation": "",
    "preflight_space_gb": 100,
    "preflight_time_limit": "",
    "preflight_timeout": 300,
    "preflight_urls": [],
    "preflight_workload": {},
}


def planned(site=None, **changes):
    variables = {**GOOD, **{f"preflight_{name}": value for name, value in changes.items()}}
    return _preflight_report.plan(variables, {**SITE, **(site or {})})


def test_every_variable_is_known():
    assert set(GOOD) == {"preflight_" + name for name in _preflight_report.KNOWN}


def test_the_request_is_that_of_a_run():
    plan = planned(time_limit="01:00:00", slurm_account="team", slurm_options={"nice": 5, "hold": False})
    assert plan["problems"] == []
    assert plan["login"]["options"] == {
        "account": "team", "nodes": 2, "gpus-per-node": "8", "ntasks-per-node": 1, "mem": "0", "exclusive": True,
        "time": "01:00:00", "nice": 5,
    }  # fmt: skip
    # The look at a node asks for as little as can be.
    assert plan["nodes"]["options"] == {"account": "team", "gpus-per-node": "1"}
    assert plan["nodes"]["gpus"] == 1


def test_a_site_is_asked_as_it_wants():
    site = {
        "dgxc_gres_style": "gres", "dgxc_gpu_type": "a100", "dgxc_slurm_memory": "400G", "dgxc_slurm_constraint": "x",
        "dgxc_sbatch_options": {"requeue": True}, "dgxc_proxies": {"http": "http://p:1"},
    }  # fmt: skip
    plan = planned(site)
    assert plan["login"]["options"]["gres"] == "gpu:a100:8"
    assert plan["login"]["options"]["mem"] == "400G"
    # Trainings are given these proxies, so nodes ask through them; the login node has its own settings.
    assert plan["nodes"]["environment"] == {"http_proxy": "http://p:1", "HTTP_PROXY": "http://p:1"}
    assert plan["login"]["environment"] == {}
    assert plan["nodes"]["options"] == {"constraint": "x", "requeue": "", "gres": "gpu:a100:1"}


def test_no_gpus_and_a_script():
    plan = planned(gpus_per_node=0, script="#!/bin/bash\n")
    assert plan["login"]["options"] == {}
    assert plan["nodes"]["options"] == {}
    assert plan["nodes"]["gpus"] == 0


def test_sources_of_mounts_and_the_topology_file():
    fabric = {"env": {"NCCL_TOPO_FILE": "/cm/etc/topo.xml"}, "mounts": ["/host/cm:/cm:ro"]}
    plan = planned({"dgxc_fabric": fabric}, mounts=["/data:/d", *fabric["mounts"]])
    assert plan["login"]["paths"] == ["/data", "/host/cm", "/host/cm/etc/topo.xml"]
    # A workload without the fabric is not asked for its files.
    assert planned({"dgxc_fabric": fabric}, mounts=["/data"])["login"]["paths"] == ["/data"]


def run_of(nodes, script, **more):
    return {"script": "a.sbatch", "files": {"a.sbatch": script}, "expect": {"nodes": nodes, "gpus_per_node": 8}, **more}


def test_runs_say_all_that_is_asked():
    # As accelerate's runs and the NeMo launcher write it.
    small = "#!/bin/bash\n#SBATCH --time=00:10:00\nsrun --container-mounts=@ATTEMPT_DIR@:/attempt,/l/data:/data \\\n"
    large = (
        "#!/bin/bash\n#SBATCH --time=01:00:00\n#SBATCH --output=@ATTEMPT_DIR@/x\n"
        "srun --container-image 'nvcr.io#nvidia/nemo:1' --container-mounts /l/code:/l/code,/cm/shared:/cm/shared x\n"
    )
    plan = planned(runs=[run_of(1, small), run_of(4, large, options={"qos": "high"})], nodes=99, mounts=["/not/asked"])
    login = plan["login"]
    assert (login["nodes"], login["gpus_per_node"], login["time_limit"]) == (4, 8, "01:00:00")
    assert login["options"] == {"qos": "high"}
    assert "#SBATCH --output=/lustre/me/x" in login["script"]
    assert login["paths"] == plan["nodes"]["paths"] == ["/cm/shared", "/l/code", "/l/data"]
    assert plan["nodes"]["wished_urls"] == login["earlier_runs"] == []
    assert login["image"] == "nvcr.io#nvidia/nemo:1"


@pytest.mark.parametrize(
    ("words", "image", "paths"),
    [
        ('--container-image="nvcr.io#a/b:1" --container-mounts="/a:/b,/c"', "nvcr.io#a/b:1", ["/a", "/c"]),
        ("--container-image='/l/a.sqsh' --container-mounts='/a'", "/l/a.sqsh", ["/a"]),
        ('"--container-image=/l/a.sqsh" "--container-mounts=/a:/b"', "/l/a.sqsh", ["/a"]),
        ("--container-image /l/a.sqsh --container-mounts /a:/b", "/l/a.sqsh", ["/a"]),
        ("--container-image=docker://nvcr.io#a/b:1", "nvcr.io#a/b:1", []),
        ('--container-image="$IMAGE" --container-mounts="$DATA:/data,/a:/b"', "", ["/a"]),
        ('--container-image=`cat image` --container-mounts="${DATA}:/data"', "", []),
        ('--container-image="$IMAGE" x\nsrun --container-image=nvcr.io#a/b:1', "nvcr.io#a/b:1", []),
        ("--container-mounts=/a:/b\n# srun --container-image=an-old-one --container-mounts=/old", "", ["/a"]),
    ],
)
def test_what_a_script_names_however_it_is_quoted(words, image, paths):
    plan = planned(runs=[run_of(1, f"#!/bin/bash\nsrun {words} \\\n  hostname\n")])
    assert plan["problems"] == []
    assert (plan["login"]["image"], plan["login"]["paths"]) == (image, paths)


@pytest.mark.parametrize(
    ("variables", "modules", "folder"),
    [
        ({}, "[]", ""),
        ({"dgxc_environment_modules": None, "dgxc_slurm_bin_dir": None}, "[]", ""),
        ({"dgxc_environment_modules": ["slurm"], "dgxc_slurm_bin_dir": "/site"}, "['slurm']", "/site"),
        ({"dgxc_environment_modules": ["slurm"], "run_environment_modules": ["mine"]}, "['mine']", ""),
        ({"dgxc_environment_modules": ["slurm"], "run_environment_modules": []}, "[]", ""),
        ({"dgxc_slurm_bin_dir": "/site", "run_slurm_bin_dir": "/mine"}, "[]", "/mine"),
    ],
)
def test_slurm_is_looked_for_where_the_role_run_finds_it(variables, modules, folder):
    text = (Path(__file__).parents[4] / "roles/preflight/vars/main.yml").read_text()
    found = yaml.safe_load(text)
    told = [
        Environment().from_string(found["__preflight_" + name]).render(variables).strip()
        for name in ("environment_modules", "slurm_bin_dir")
    ]
    assert told == [modules, folder]


def test_runs_have_proxies_of_their_own():
    run = run_of(1, "#!/bin/bash\n", environment={"https_proxy": "http://own:1", "SEED": 1})
    found = planned({"dgxc_proxies": {"https": "http://p:1"}}, runs=[run])["nodes"]["environment"]
    assert found == {"https_proxy": "http://own:1", "HTTPS_PROXY": "http://p:1"}


@pytest.mark.parametrize(
    ("image", "paths"),
    [("/opt/images/a.sqsh", ["/opt/images/a.sqsh"]), ("/lustre/me/a.sqsh", []), ("nvcr.io#a/b:1", []), ("", [])],
)
def test_the_nodes_are_asked_for_an_image_beside_the_shared_root(image, paths):
    assert planned(image=image)["nodes"]["paths"] == paths


def test_a_time_limit_in_another_spelling_is_left_to_slurm():
    assert planned(runs=[run_of(1, "#!/bin/bash\n#SBATCH --time=60\n")])["login"]["time_limit"] == ""


WISHES = {
    "workload": "alma", "names": ["alma-n1", "alma-n2"], "nodes": 2, "gpus_per_node": 4, "exclusive": False,
    "memory": "8G", "time_limit": "00:30:00", "slurm_account": "team", "slurm_partition": "", "slurm_qos": "",
    "slurm_reservation": "", "slurm_options": {"nice": 3}, "image": "/lustre/me/a.sqsh", "credentials_follow": True,
    "mounts": ["/opt/x:/x"], "git_remotes": [{"url": "https://g.org/a", "path": "/p", "commit": "c"}],
    "login_urls": [{"url": "https://data.org", "unless": "/d"}],
    "node_urls": [{"url": "https://hub.org", "unless": "/c"}], "wished_node_urls": ["https://other.org"],
    "environment": {"https_proxy": "http://own:1"}, "resubmit": "on_failure", "max_attempts": 3,
}  # fmt: skip


def test_a_workload_says_what_it_needs():
    plan = planned(
        workload=WISHES, nodes=99, urls=["https://mine.org"], git_remotes=["https://g.org/b"], mounts=["/no"]
    )
    assert plan["problems"] == []
    login, look = plan["login"], plan["nodes"]
    assert login["options"] == {
        "account": "team", "nodes": 2, "gpus-per-node": "4", "ntasks-per-node": 1, "mem": "8G", "exclusive": False,
        "time": "00:30:00", "nice": 3,
    }  # fmt: skip
    assert (login["paths"], login["image"], login["credentials_follow"]) == (["/opt/x"], "/lustre/me/a.sqsh", True)
    assert login["earlier_runs"] == ["alma/alma-n1-", "alma/alma-n2-"]
    assert [remote["url"] for remote in login["git_remotes"]] == ["https://g.org/b", "https://g.org/a"]
    assert login["urls"] == [{"url": "https://mine.org"}, {"url": "https://data.org", "unless": "/d"}]
    assert look["urls"] == [{"url": "https://mine.org"}, {"url": "https://hub.org", "unless": "/c"}]
    assert look["wished_urls"] == ["https://other.org"]
    assert look["environment"] == {"https_proxy": "http://own:1"}
    assert (login["resubmit"], login["max_attempts"]) == ("on_failure", 3)


def test_the_options_of_pyxis_are_those_of_the_workload_and_of_the_site():
    site = {"dgxc_container_options": {"writable": True}}
    assert planned(site)["login"]["pyxis_options"] == [
        "container-image", "container-mounts", "container-workdir", "container-env", "no-container-mount-home",
        "container-writable",
    ]  # fmt: skip
    wishes = {**WISHES, "pyxis_options": ["container-image"]}
    plan = planned(workload=wishes)
    assert plan["login"]["pyxis_options"] == ["container-image", "no-container-mount-home"]
    assert plan["nodes"]["pyxis_options"] == plan["login"]["pyxis_options"]


def test_what_is_below_the_shared_root_needs_no_look_of_its_own():
    plan = planned(mounts=["/lustre/me/data", "/lustre/me", "/lustre/mehr"])
    assert plan["login"]["paths"] == ["/lustre/me", "/lustre/me/data", "/lustre/mehr"]
    assert plan["nodes"]["paths"] == ["/lustre/mehr"]


@pytest.mark.parametrize("workload", ["x", {"nods": 3}])
def test_a_workload_that_is_none(workload):
    (problem,) = planned(workload=workload)["problems"]
    assert "preflight_workload is for the roles of the workloads" in problem


@pytest.mark.parametrize("runs", [[], None, "x", ["x"]])
def test_no_runs(runs):
    assert _preflight_report.of_runs(runs, "/l") == {}


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"nodes": 0}, "preflight_nodes is 0"),
        ({"gpus_per_node": "x"}, "preflight_gpus_per_node is 'x'"),
        ({"compute_nodes": -1}, "preflight_compute_nodes is -1"),
        ({"space_gb": "much"}, "preflight_space_gb is 'much'"),
        ({"timeout": 0}, "preflight_timeout is 0"),
        ({"force": "maybe"}, "preflight_force is 'maybe'"),
        ({"time_limit": 60}, "preflight_time_limit is 60"),
        ({"image": "a b"}, "preflight_image is 'a b'"),
        ({"mounts": ["data"]}, "preflight_mounts contains 'data'"),
        ({"urls": "https://x"}, "preflight_urls is 'https://x': give a list"),
        ({"ignore": [1]}, "preflight_ignore is [1]"),
        ({"show": "most"}, "preflight_show is 'most'"),
        ({"slurm_options": ["x"]}, "preflight_slurm_options is ['x']"),
        ({"slurm_qos": "a b"}, "preflight_slurm_qos is 'a b'"),
        ({"nods": 3}, "preflight_nods is not a variable of this role: write preflight_nodes"),
    ],
)
def test_nonsense_is_told(changes, words):
    plan = planned(**changes)
    assert len(plan["problems"]) == 1, plan["problems"]
    assert words in plan["problems"][0]
    assert plan["login"] == {}


def test_facts_that_cannot_be_right():
    plan = planned({"dgxc_gres_style": "x", "dgxc_fabric": {"mount": []}})
    assert len(plan["problems"]) == 2
    (first, _second) = filters.preflight_facts(plan["problems"])
    assert (first["id"], first["verdict"]) == ("facts", "error")
    assert first["remedy"].startswith("give gpus_per_node or gres")


def connection(message, pythons=None, controller="2.19.4"):
    said = None if pythons is None else {"stdout": "Welcome!\nDGXC-PREFLIGHT\n" + pythons}
    return filters.preflight_connection({"msg": message}, said or {"unreachable": True}, controller, "me@login")


@pytest.mark.parametrize(
    ("message", "words"),
    [
        ("me@login: Permission denied (publickey,keyboard-interactive).", "hold a connection open"),
        ("ssh: Could not resolve hostname login: Name or service not known", "correct dgxc_login_node"),
        ("Host key verification failed.", "compare the host's key"),
        ("ssh: connect to host login port 22: Connection timed out", "a bastion host"),
        ("Failed to create temporary directory.", "ansible_remote_tmp"),
        ("something else", "see that 'ssh me@login' works"),
    ],
)
def test_no_connection(message, words):
    (check,) = connection(message)
    assert (check["id"], check["verdict"]) == ("login.ssh", "error")
    assert words in check["remedy"]
    assert message.split(":")[0] in check["evidence"]


def test_a_connection_of_which_the_second_attempt_tells_more():
    broken = {"msg": "Data could not be sent to remote host: [Errno 32] Broken pipe", "unreachable": True}
    denied = {"msg": "me@login: Permission denied (publickey).", "unreachable": True}
    (check,) = filters.preflight_connection(broken, denied, "2.19.4", "me@login")
    assert "hold a connection open" in check["remedy"]
    assert "Permission denied" in check["evidence"]


@pytest.mark.parametrize(
    ("pythons", "controller", "remedy"),
    [
        ("/usr/bin/python3 3.6.8\n/usr/bin/python3.9 3.9.18\n", "2.19.4", "to /usr/bin/python3.9"),
        ("/usr/bin/python3.8 3.8.1\n", "2.19.4", "to /usr/bin/python3.8"),
        ("/usr/bin/python3.8 3.8.1\n", "2.21.0", "install a Python from 3.9 to 3.14"),
        ("pyenv: python3.9: command not found\n", "2.20.0", "install a Python from 3.9 to 3.14"),
    ],
)
def test_no_python(pythons, controller, remedy):
    ssh, python = connection("/usr/bin/python3.99: not found", pythons, controller)
    assert (ssh["verdict"], python["verdict"]) == ("ok", "error")
    assert remedy in python["remedy"]


def test_a_profile_whose_words_are_taken_for_an_answer():
    said = {"stdout": '{"quota": 93}\nDGXC-PREFLIGHT\n/usr/bin/python3 3.11.2\n'}
    _ssh, profile = filters.preflight_connection({"msg": "deserialization failed"}, said, "2.19.4", "me@login")
    assert (profile["id"], "quota" in profile["evidence"]) == ("login.profile", True)
    assert "~/.bashrc" in profile["remedy"]


def test_a_module_that_fails_for_another_reason():
    _ssh, other = connection("No space left", "/usr/bin/python3 3.11.2\n")
    assert (other["id"], other["evidence"]) == ("login.module", "No space left")


CHECKS = [
    {"id": "a", "verdict": "ok", "evidence": "fine", "remedy": ""},
    {"id": "b.c", "verdict": "error", "evidence": "broken", "remedy": "mend it"},
    {"id": "d", "verdict": "warning", "evidence": "odd", "remedy": "look"},
]


def test_the_report():
    report = filters.preflight_report(CHECKS, "login")
    assert report["counts"] == {"ok": 1, "warning": 1, "error": 1}
    assert report["verdict"] == "error"
    assert report["lines"] == [
        "ok       a    fine",
        "error    b.c  broken",
        "              -> mend it",
        "warning  d    odd",
        "              -> look",
        "login: 1 ok, 1 warnings, 1 errors",
    ]
    assert report["message"] == "b.c: broken: mend it."


def test_what_is_known_better_counts_as_a_warning():
    report = filters.preflight_report(CHECKS, "login", ["b.c"], "problems")
    assert report["verdict"] == "warning"
    assert report["message"] == ""
    assert len(report["lines"]) == 5
    assert filters.preflight_report(CHECKS, "login", [], "nothing")["lines"] == []
    assert filters.preflight_report(CHECKS[:1], "login", [], "problems")["lines"] == []


LOOK = {
    "accounting": True,
    "accounts": ["team"],
    "environment_modules": ["slurm"],
    "partitions": [
        {"name": "cpu", "default": True, "state": "UP", "nodes": 9, "gpus_per_node": 0, "gpu_types": [], "features": []},
        {"name": "gpu", "default": False, "state": "UP", "nodes": 4, "gpus_per_node": 4, "gpu_types": ["a100"],
         "features": ["nvlink"]},
    ],
    "python": {"version": "3.11.2", "executable": "/usr/bin/python3.11"},
    "qos": ["normal"],
    "shared_folders": ["/lustre/fs0/scratch/me", "/home/me"],
    "slurm": {"found": "the modules slurm", "folder": "/cm/bin"},
    "slurm_bin_dir": "",
    "versions": {"slurm": "23.11.1", "pyxis": "present"},
}  # fmt: skip


def test_a_new_inventory_is_one_that_the_playbooks_take():
    files = filters.new_inventory(LOOK, "mine", "login.example.org", "me", {"ansible_port": 2222})
    assert set(files) == {"hosts.yml", "group_vars/mine.yml"}
    hosts = yaml.safe_load(files["hosts.yml"])
    connection = {
        "ansible_host": "login.example.org", "ansible_user": "me", "ansible_port": 2222,
        "ansible_python_interpreter": "/usr/bin/python3.11",
    }  # fmt: skip
    assert hosts == {"slurm_login": {"children": {"mine": {"hosts": {"mine-login": connection}}}}}
    facts = yaml.safe_load(files["group_vars/mine.yml"])
    assert site_problems(facts) == []
    assert facts["dgxc_shared_root"] == "/lustre/fs0/scratch/me"
    assert facts["dgxc_environment_modules"] == ["slurm"]
    assert (facts["dgxc_slurm_partition"], facts["dgxc_gpus_per_node"]) == ("gpu", 4)
    assert (facts["dgxc_slurm_account"], facts["dgxc_gpu_type"]) == ("team", "")
    assert "NOT WELL" not in files["group_vars/mine.yml"]


def test_what_could_not_be_seen_is_to_be_filled_in():
    look = {
        "problems": [{"evidence": "sbatch was not found", "remedy": "set dgxc_slurm_bin_dir"}],
        "accounts": ["a", "b"], "accounting": True, "versions": {"slurm": "23.11"},
    }  # fmt: skip
    text = filters.new_inventory(look, "mine", "login", "me")["group_vars/mine.yml"]
    facts = yaml.safe_load(text)
    told = [sentence.split()[0] for sentence in site_problems(facts)]
    assert told == ["dgxc_shared_root", "dgxc_slurm_account", "dgxc_slurm_partition"]
    assert "# NOT WELL: sbatch was not found: set dgxc_slurm_bin_dir." in text
    assert "there is no Pyxis" in text


@pytest.mark.parametrize(
    ("changes", "chosen"),
    [([], "gpu"), ([{"name": "big", "state": "UP", "nodes": 50, "gpus_per_node": 8}], "big"),
     ([{"name": "down", "state": "DOWN", "nodes": 99, "gpus_per_node": 8}], "gpu")],
)  # fmt: skip
def test_the_partition_that_is_proposed(changes, chosen):
    found = _new_inventory.choose_partition([*LOOK["partitions"], *changes])
    assert found is not None
    assert found["name"] == chosen


def test_filters_refuse_what_they_cannot_use():
    for call in (
        lambda: filters.preflight_plan([], {}),
        lambda: filters.preflight_connection("x", {}, "2.19", "x"),
        lambda: filters.new_inventory([], "a", "b", "c"),
    ):
        with pytest.raises(AnsibleFilterError):
            call()
    assert set(filters.FilterModule().filters()) == {
        "new_inventory", "preflight_connection", "preflight_facts", "preflight_plan", "preflight_report",
    }  # fmt: skip


THREE = [
    {"id": "a", "verdict": "ok", "evidence": "well", "remedy": ""},
    {"id": "b", "verdict": "warning", "evidence": "odd", "remedy": "look"},
    {"id": "c", "verdict": "error", "evidence": "bad", "remedy": "mend it"},
]


@pytest.mark.parametrize(
    ("ignore", "verdicts", "message"),
    [
        ([], ["ok", "warning", "error"], "c: bad: mend it."),
        (["c"], ["ok", "warning", "warning"], ""),
        (["b", "c"], ["ok", "ok", "warning"], ""),
        (["a", "nothing"], ["ok", "warning", "error"], "c: bad: mend it."),
    ],
)
def test_who_knows_better_takes_one_step_off(ignore, verdicts, message):
    told = filters.preflight_report(THREE, "h", ignore, "problems")
    assert [check["verdict"] for check in told["checks"]] == verdicts
    assert (told["message"], told["deferred"]) == (message, "")


def test_facts_that_are_wrong_cannot_be_ignored():
    told = filters.preflight_report(filters.preflight_facts(["x is 1: give 2."]), "h", ["facts"])
    assert told["verdict"] == "error"


def test_errors_wait_where_a_play_may_be_here_for_runs_of_before():
    told = filters.preflight_report(THREE, "h", [], "problems", True)
    assert (told["message"], told["deferred"], told["verdict"]) == ("", "c: bad: mend it.", "warning")
    assert any("submitted before" in line for line in told["lines"])
    well = filters.preflight_report(THREE[:1], "h", [], "problems", True)
    assert (well["lines"], well["deferred"]) == ([], "")
