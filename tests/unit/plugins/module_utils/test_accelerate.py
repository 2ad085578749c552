# Copyright: (c) 2026, The dgxc.workloads developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Batch scripts with accelerate: what Slurm is asked for, and what happens on the nodes."""

from __future__ import annotations

import os
import re
import shutil
import subprocess

import pytest

from ansible_collections.dgxc.workloads.plugins.module_utils import _accelerate as accelerate
from ansible_collections.dgxc.workloads.plugins.module_utils._judge import Judge

SITE = {"dgxc_shared_root": "/lustre/me", "dgxc_fabric": {"env": {"NCCL_IB_TIMEOUT": 22}, "mounts": ["/cm/shared"]}}
GOOD = {
    "cache_path": "/lustre/me/cache/huggingface",
    "container_image": "",
    "container_mounts": [],
    "cpu_threads_per_process": 4,
    "cpus_per_task": 0,
    "env": {},
    "exclusive": True,
    "fabric": False,
    "image_delivery": "import",
    "max_attempts": 3,
    "memory": "0",
    "offline": False,
    "resubmit": "never",
    "run_name": "demo",
    "serial": False,
    "slurm_account": "",
    "slurm_options": {},
    "slurm_partition": "",
    "slurm_qos": "",
    "slurm_reservation": "",
    "time_limit": "01:00:00",
}


def judged(site=None, **changes):
    judge = Judge("demo_", {f"demo_{name}": value for name, value in {**GOOD, **changes}.items()})
    common = accelerate.judge_common(judge, {**SITE, **(site or {})})
    judge.unknown(accelerate.COMMON)
    return judge, common


def run(
    nodes=2, gpus=8, launch=(), program=("/attempt/train.py", "--text", "two words"), env=None, site=None, **changes
):
    judge, common = judged(site, **changes)
    assert judge.problems == []
    return accelerate.accelerate_run(
        common,
        workload="demo",
        name=f"demo-n{nodes}g{gpus}",
        nodes=nodes,
        gpus_per_node=gpus,
        launch=launch,
        program=program,
        mounts=["/lustre/me/code:/workspace"],
        workdir="/workspace",
        image={"reference": "registry.example#team/demo:1", "digest": "sha256:abc"},
        expect={"steps": 5},
        env=env,
        after="demo-before",
    )


def directives(script):
    """The #SBATCH lines; sbatch reads none behind the first command."""
    head, _break, rest = script.partition("\nset -euo pipefail")
    assert "#SBATCH" not in rest
    return re.findall(r"(?m)^#SBATCH --(.*)$", head)


def test_every_common_variable_is_known():
    assert set(GOOD) == accelerate.COMMON


def test_slurm_is_asked_for_each_thing_once_and_not_for_what_is_empty():
    assert directives(run()["files"]["train.sbatch"]) == [
        "job-name=demo-n2g8",
        "nodes=2",
        "gpus-per-node=8",
        "ntasks-per-node=1",
        "mem=0",
        "exclusive",
        "time=01:00:00",
        "output=@ATTEMPT_DIR@/train-%j.out",
        "error=@ATTEMPT_DIR@/train-%j.err",
    ]
    more = directives(
        run(
            slurm_account="me", slurm_partition="long", exclusive=False, memory="", cpus_per_task=16,
            slurm_options={"constraint": "a100", "requeue": True, "nice": None},
        )["files"]["train.sbatch"]
    )  # fmt: skip
    assert {"account=me", "partition=long", "cpus-per-task=16", "constraint=a100", "requeue"} <= set(more)
    assert not any(line.startswith(("exclusive", "mem", "nice")) for line in more)


ODD_SITE = {
    "dgxc_gres_style": "gres",
    "dgxc_gpu_type": "a100",
    "dgxc_slurm_memory": "480G",
    "dgxc_slurm_constraint": "nvlink",
    "dgxc_sbatch_options": {"nice": 100, "licenses": "fs:2"},
    "dgxc_srun_options": {"mpi": "pmix"},
    "dgxc_container_options": {"writable": True},
    "dgxc_proxies": {"https": "http://proxy:3128"},
}


def test_a_site_is_asked_as_it_wants_to_be_asked():
    script = run(site=ODD_SITE, slurm_options={"nice": 5})["files"]["train.sbatch"]
    assert {"gres=gpu:a100:8", "mem=480G", "constraint=nvlink", "nice=5", "licenses=fs:2"} <= set(directives(script))
    assert not any(line.startswith("gpus-per-node") for line in directives(script))
    assert sum(line.startswith("nice") for line in directives(script)) == 1
    assert "    --mpi=pmix \\\n" in script
    assert "    --no-container-mount-home \\\n    --container-writable \\\n" in script
    assert "export https_proxy=http://proxy:3128\n" in script
    assert "look at --gres." in script
    # The user's own variables win.
    assert judged(ODD_SITE, env={"https_proxy": None})[1].env["https_proxy"] is None


@pytest.mark.parametrize(("memory", "asked"), [("0", ["mem=480G"]), ("9G", ["mem=9G"]), ("", [])])
def test_a_site_speaks_for_all_memory_of_a_node_and_not_for_a_part_of_it(memory, asked):
    script = run(site=ODD_SITE, memory=memory)["files"]["train.sbatch"]
    assert [line for line in directives(script) if line.startswith("mem")] == asked


def test_a_site_can_say_how_images_come():
    judge, _common = judged({"dgxc_image_delivery": "upload"}, image_delivery="")
    assert judge.problems == []
    judge, _common = judged(image_delivery="")
    assert len(judge.problems) == 1


def test_a_fact_that_cannot_be_right_is_told_once():
    judge, _common = judged({"dgxc_sbatch_options": ["x"]})
    assert len(judge.problems) == 1, judge.problems


@pytest.mark.parametrize("name", ["train.sbatch", "launch.sh"])
def test_the_scripts_are_sound_shell(name, tmp_path):
    path = tmp_path / name
    path.write_text(run(env={"WORDS": "it's here"}, cpus_per_task=2, site=ODD_SITE)["files"][name])
    subprocess.run(["bash", "-n", path], check=True)
    checker = shutil.which("shellcheck")
    if checker:
        done = subprocess.run([checker, path], capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout


def test_layers_of_the_environment():
    script = run(env={"A": 1, "PYTHONUNBUFFERED": None}, fabric=True)["files"]["train.sbatch"]
    assert "PYTHONUNBUFFERED" not in script
    assert "export A=1\n" in script
    assert "export NCCL_IB_TIMEOUT=22\n" in script
    assert ",/cm/shared" in script
    without = run()["files"]["train.sbatch"]
    assert "NCCL_IB_TIMEOUT" not in without
    assert "/cm/shared" not in without


FAKES = {
    "scontrol": """
case "$1" in
    --version) echo slurm 22.05.8 ;;
    show) if [[ "$2" == hostnames ]]; then printf '%s\\n' $HOSTS
          else echo "NodeName=$3 Arch=x86_64 NodeAddr=10.0.0.9 NodeHostName=$3"; fi ;;
esac""",
    "getent": '[[ "$2" == known* ]]',
    "enroot": "exit 3",
    "srun": 'printf "%s\\n" "$@" > "$OUT"; env >> "$OUT"',
}


@pytest.fixture
def cluster(tmp_path):
    """Runs a batch script with commands that answer as told."""
    folder = tmp_path / "bin"
    folder.mkdir()
    for name, text in FAKES.items():
        (folder / name).write_text("#!/bin/bash\n" + text + "\n")
        (folder / name).chmod(0o755)

    def execute(script, **environment):
        path = tmp_path / "train.sbatch"
        path.write_text(script)
        out = tmp_path / "srun.txt"
        out.unlink(missing_ok=True)
        values = {"HOSTS": "known01 known02", "SLURM_JOB_NODELIST": "x", "SLURM_JOB_ID": "250123", "OUT": str(out)}
        done = subprocess.run(
            ["bash", path], capture_output=True, text=True, check=False,
            env={"PATH": f"{folder}:{os.environ['PATH']}", **values, **environment},
        )  # fmt: skip
        return done, out.read_text().splitlines() if out.exists() else []

    return execute


@pytest.mark.parametrize(
    ("slurm", "count"),
    [
        ({"SLURM_GPUS_PER_NODE": "8"}, 8),
        ({"SLURM_GPUS_PER_NODE": "a100:8"}, 8),
        ({"SLURM_GPUS_PER_NODE": "a100:4,h100:4"}, 8),
        ({"SLURM_GPUS_PER_NODE": "08"}, 8),
        ({"SLURM_GPUS_ON_NODE": "8"}, 8),
        ({"SLURM_GPUS_PER_NODE": "4", "SLURM_GPUS_ON_NODE": "8"}, 4),
        ({}, 0),
        ({"SLURM_GPUS_PER_NODE": "many"}, None),
    ],
)
def test_gpus_are_counted_however_slurm_spells_them(cluster, slurm, count):
    done, step = cluster(run()["files"]["train.sbatch"], **slurm)
    if count == 8:
        assert (done.returncode, done.stderr) == (0, "")
        assert {"NUM_PROCESSES=16", "NNODES=2", "MASTER_ADDR=known01", "MASTER_PORT=20123"} <= set(step)
        assert step[:3] == ["--label", "--kill-on-bad-exit=1", "--container-image=registry.example#team/demo:1"]
        assert (
            "--container-mounts=@ATTEMPT_DIR@:/attempt,/lustre/me/code:/workspace,/lustre/me/cache/huggingface" in step
        )
        assert step[step.index("bash") :][:2] == ["bash", "/attempt/launch.sh"]
    else:
        said = "not as a number" if count is None else f"Slurm gave {count} GPUs of a node where 8 were asked for"
        assert done.returncode == 1
        assert said in done.stderr
        assert step == []


def test_the_container_gets_every_variable_that_the_script_exports(cluster):
    script = run(env={"A": 1, "WORDS": "it's $HOME"}, cpus_per_task=2)["files"]["train.sbatch"]
    _done, step = cluster(script, SLURM_GPUS_PER_NODE="8")
    kept = next(line for line in step if line.startswith("--container-env=")).partition("=")[2].split(",")
    exported = re.findall(r"(?m)^export ([A-Z_]+)=", script)
    assert set(exported) <= set(kept)
    assert {"MASTER_ADDR", "MASTER_PORT", "NUM_PROCESSES"} <= set(kept)
    assert "WORDS=it's $HOME" in step
    assert "--cpus-per-task=2" in step


def test_a_node_that_the_network_does_not_know_is_reached_by_its_address(cluster):
    _done, step = cluster(run()["files"]["train.sbatch"], SLURM_GPUS_PER_NODE="8", HOSTS="gpu01 gpu02")
    assert "MASTER_ADDR=10.0.0.9" in step


def test_another_number_of_nodes_starts_nothing(cluster):
    done, step = cluster(run()["files"]["train.sbatch"], SLURM_GPUS_PER_NODE="8", HOSTS="known01")
    assert done.returncode == 1
    assert "Slurm gave 1 nodes where 2 were asked for" in done.stderr
    assert step == []


@pytest.mark.parametrize(
    ("nodes", "gpus", "launch", "shown"),
    [(1, 1, [], False), (1, 2, [], True), (2, 1, [], True), (2, 8, ["--use_deepspeed", "--zero_stage", "2"], False)],
)
def test_several_processes_are_one_group(nodes, gpus, launch, shown):
    """The document leaves --multi_gpu out on one node, where accelerate may guess it."""
    assert ("--multi_gpu" in run(nodes, gpus, launch)["files"]["launch.sh"]) is shown


def test_what_runs_on_a_node(tmp_path):
    """launch.sh for real, with an accelerate that shows its arguments, and the record of the versions."""
    script = run(launch=["--mixed_precision", "fp16"])["files"]["launch.sh"].replace("/attempt/", f"{tmp_path}/")
    (tmp_path / "accelerate").write_text('#!/bin/bash\nprintf "%s\\n" "$@"\n')
    (tmp_path / "accelerate").chmod(0o755)
    values = {"MASTER_ADDR": "a", "MASTER_PORT": "1", "SLURM_NODEID": "0", "NNODES": "2", "NUM_PROCESSES": "16"}
    done = subprocess.run(
        ["bash", "-c", script], capture_output=True, text=True, check=True,
        env={"PATH": f"{tmp_path}:{os.environ['PATH']}", "DGXC_SLURM_VERSION": "slurm 22.05.8", **values},
    )  # fmt: skip
    lines = done.stdout.splitlines()
    assert lines[0] == "Node ID 0"
    assert lines[1:] == [
        "launch", "--main_process_ip", "a", "--main_process_port", "1", "--machine_rank", "0", "--num_machines", "2",
        "--num_processes", "16", "--num_cpu_threads_per_process", "4", "--same_network", "--multi_gpu",
        "--mixed_precision", "fp16", "--dynamo_backend", "no", f"{tmp_path}/train.py", "--text", "two words",
    ]  # fmt: skip
    assert '"slurm": "slurm 22.05.8"' in (tmp_path / "environment.json").read_text()


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"time_limit": 3600}, "demo_time_limit is 3600: YAML reads times such as 2:00:00"),
        ({"time_limit": "1h"}, "demo_time_limit is '1h': write days-hours"),
        ({"memory": "lots"}, "demo_memory is 'lots'"),
        ({"image_delivery": "none"}, "demo_image_delivery is 'none': give registry, upload or import"),
        ({"container_image": "images/a.sqsh"}, "give the absolute path of the .sqsh"),
        ({"container_image": "a b"}, "demo_container_image is 'a b'"),
        ({"slurm_options": {"time": "1"}}, "which has a variable of its own: use demo_time_limit"),
        ({"slurm_options": {"nodes": 3}}, "on which the batch script relies"),
        ({"slurm_options": ["x"]}, "give a dictionary of long options"),
        ({"cpus_per_task": -1}, "demo_cpus_per_task is -1"),
        ({"env": {"MY_TOKEN": "x"}}, "looks like a secret"),
        ({"env": {"NCCL_TOPO_FILE": "/cm/topo.xml"}}, "which the container does not see"),
        ({"cache_path": "cache"}, "demo_cache_path is 'cache': give an absolute path"),
        ({"run_name": "-x"}, "demo_run_name is '-x'"),
        ({"serial": "maybe"}, "demo_serial is 'maybe': give true or false"),
        ({"resubmit": "often"}, "give never, on_failure or always"),
        ({"exclusiv": True}, "demo_exclusiv is not a variable of this role: write demo_exclusive"),
    ],
)
def test_nonsense_is_told_in_one_sentence(changes, words):
    judge, _common = judged(**changes)
    assert len(judge.problems) == 1, judge.problems
    assert words in judge.problems[0]


def test_a_topology_file_of_the_fabric_is_mounted_with_it():
    site = {"dgxc_shared_root": "/l", "dgxc_fabric": {"env": {"NCCL_TOPO_FILE": "/cm/t.xml"}, "mounts": ["/other"]}}
    judge = Judge("demo_", {f"demo_{name}": value for name, value in {**GOOD, "fabric": True}.items()})
    accelerate.judge_common(judge, site)
    assert len(judge.problems) == 1
    assert "/cm/t.xml, which the container does not see" in judge.problems[0]


@pytest.mark.parametrize(
    ("value", "cells"),
    [
        (["1x1", "2x8"], [(1, 1), (2, 8)]),
        ([{"nodes": 2, "gpus_per_node": "4"}], [(2, 4)]),
        ("1x2", [(1, 2)]),
        (["0x8"], None),
        (["2x"], None),
        (["1x99"], None),
        ([], None),
        (["1x1", "1x1"], None),
        ([16], None),
    ],
)
def test_a_matrix_is_a_list_of_sizes(value, cells):
    judge = Judge("demo_", {"demo_matrix": value})
    found = accelerate.judge_matrix(judge, "matrix")
    assert (found or None) == cells
    assert len(judge.problems) == (0 if cells else 1)


def test_one_after_the_other_only_where_asked():
    assert run()["after"] == ""
    assert run(serial=True)["after"] == "demo-before"


def test_a_long_name_is_told():
    judge, _common = judged()
    accelerate.judge_run_names(judge, ["short", "x" * 65])
    assert "has 65 characters, 1 more than" in judge.problems[0]


@pytest.mark.parametrize(("given", "works"), [("8", True), ("2", True), ("1", False)])
def test_whole_nodes_under_gres_hold_more_gpus_than_were_asked_for(cluster, given, works):
    """With --exclusive Slurm allots all GPUs of a node, and under --gres it tells no other number."""
    judge = Judge("demo_", {f"demo_{name}": value for name, value in GOOD.items()})
    common = accelerate.judge_common(judge, {**SITE, "dgxc_gres_style": "gres"})
    assert judge.problems == []
    script = accelerate.batch_script(
        common, name="x", nodes=2, gpus_per_node=2, exports={}, image="a", mounts=["/a"], workdir="/a"
    )
    done, step = cluster(script, SLURM_GPUS_ON_NODE=given)
    assert (done.returncode == 0) is works, done.stderr
    assert ("--gres=gpu:2" in step) is works
