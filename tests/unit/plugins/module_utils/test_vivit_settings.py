# Copyright: (c) 2026, The dgxc.workloads developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""From the variables of the role vivit to runs, and the document's numbers."""

from __future__ import annotations

import math
from pathlib import Path

import pytest
import yaml

from ansible_collections.dgxc.workloads.plugins.module_utils import _vivit_settings as settings
from ansible_collections.dgxc.workloads.plugins.module_utils._run_spec import run_jobs, run_key

ROLE = Path(settings.__file__).parents[2] / "roles" / "vivit"
SITE = {"dgxc_shared_root": "/lustre/me"}
IMAGE = {"reference": "registry.example#team/pytorch-vidasr:24.01", "digest": "sha256:abc"}
DATA = {"counts": {"training videos": 300, "classes": 10}, "rows": {}, "manifest": "f" * 64}


def defaults():
    """The role's defaults, as the inventory of a site would make them."""
    values = yaml.safe_load((ROLE / "defaults" / "main.yml").read_text())
    root = "{{ dgxc_shared_root | default('', true) }}"
    site = {"vivit_image_delivery": "upload"}
    return {
        name: (value.replace(root, "/lustre/me") if root in value else "") if "{{" in str(value) else value
        for name, value in values.items()
    } | site  # fmt: skip


def plan(data="counted", image="given", site=None, **changes):
    variables = {**defaults(), **{f"vivit_{name}": value for name, value in changes.items()}}
    found = DATA if data == "counted" else data
    image = IMAGE if image == "given" else image
    return settings.plan(variables, SITE if site is None else site, found, image, "print('hello')\n")


def runs(**changes):
    planned = plan(**changes)
    assert planned["problems"] == []
    return {run["name"]: run for run in planned["runs"]}


def test_every_default_is_known_and_every_known_name_has_a_default():
    assert {name[len("vivit_") :] for name in defaults()} == settings.KNOWN


def test_the_defaults_are_the_documents_sweep_with_15_and_1_workers():
    assert list(runs()) == [
        f"vivit-n{nodes}g{gpus}b4-w{workers}"
        for nodes, gpus in ((1, 1), (1, 2), (1, 4), (1, 8), (2, 8))
        for workers in (15, 1)
    ]


# The document's table: nodes, GPUs of a node, folder, global batch, integer part of the last epoch.
@pytest.mark.parametrize("workers", [15, 1])
@pytest.mark.parametrize(
    ("nodes", "gpus", "batch", "epoch"), [(1, 1, 4, 1), (1, 2, 8, 3), (1, 4, 16, 7), (1, 8, 32, 14), (2, 8, 64, 29)]
)
def test_the_documents_table(nodes, gpus, batch, epoch, workers):
    expect = runs()[f"vivit-n{nodes}g{gpus}b4-w{workers}"]["expect"]
    folder = f"output/vivit-b-16x2-kinetics400-finetuned-ucf101-subset-{nodes}-n-{gpus}-g-4-b"
    assert expect["steps"] == 150
    assert expect["global_batch_size"] == batch
    assert expect["ranks"] == nodes * gpus
    assert expect["tasks"] == nodes
    assert expect["num_examples"] == 150 * batch
    assert expect["output"]["last_epoch"] == epoch
    assert expect["output"]["trainer_state"] == f"{folder}/trainer_state.json"
    assert expect["output"]["evaluation"] is True
    assert f"{folder}/model.safetensors" in expect["output"]["files"]


def by_hand(videos, workers, batch):
    """The batches of a pass, by doing what numpy.array_split and the workers do."""
    shares = [videos // workers + (number < videos % workers) for number in range(workers)]
    assert sum(shares) == videos
    return sum(math.ceil(share / batch) for share in shares)


@pytest.mark.parametrize("batch", [1, 3, 4, 7])
@pytest.mark.parametrize("videos", [1, 3, 21, 75, 299, 300, 301])
def test_batches_of_the_loader(videos, batch):
    assert settings.loader_batches(videos, 0, batch) == math.ceil(videos / batch)
    for workers in range(1, 40):
        assert settings.loader_batches(videos, workers, batch) == by_hand(videos, workers, batch)


def test_where_the_documents_formula_holds():
    """75 batches of 300 videos come from these numbers of workers only; 8 and 16 make 80."""
    assert [n for n in range(1, 33) if settings.loader_batches(300, n, 4) == 75] == [1, 3, 5, 15, 25]
    assert settings.loader_batches(300, 8, 4) == settings.loader_batches(300, 16, 4) == 80


@pytest.mark.parametrize("processes", [1, 2, 4, 8, 16])
def test_the_documents_formula_is_the_general_rule_there(processes):
    steps = settings.steps_of_pass(300, 15, 4, processes)
    assert steps == math.ceil(300 / (4 * processes))
    assert settings.last_epoch(150, steps) == math.ceil(150 / steps) - 1


@pytest.mark.parametrize("pass_steps", range(1, 13))
@pytest.mark.parametrize("max_steps", range(1, 13))
def test_the_last_epoch_is_what_the_trainer_counts(max_steps, pass_steps):
    """epoch = pass + (step in this pass) / max_steps, as Trainer does for data without a length."""
    step = epoch = passes = 0
    while step < max_steps:
        for inside in range(1, pass_steps + 1):
            step += 1
            epoch = passes + inside / max_steps
            if step == max_steps:
                break
        passes += 1
    assert settings.last_epoch(max_steps, pass_steps) == int(epoch)


def test_other_numbers_of_workers_are_told():
    planned = plan(loader_workers=[8, 15])
    assert planned["problems"] == []
    assert planned["warnings"] == [
        "With 8 loader workers, 300 videos make 80 batches of 4 and not 75, because each worker ends with a batch of its"
        " own; the epochs that are expected follow from that."
    ]
    assert planned["runs"][0]["expect"]["output"]["last_epoch"] == 1
    # 96 batches: 24 steps of 4 processes, so 7 passes in 150 steps where the document's formula has 8.
    assert runs(loader_workers=32, matrix=["1x4"])["vivit-n1g4b4-w32"]["expect"]["output"]["last_epoch"] == 6


def test_the_scripts_say_what_is_asked_for():
    run = runs()["vivit-n2g8b4-w15"]
    script, launch = run["files"]["train.sbatch"], run["files"]["launch.sh"]
    assert run["files"]["train_vivit.py"] == "print('hello')\n"
    for line in (
        "#SBATCH --job-name=vivit-n2g8b4-w15", "#SBATCH --nodes=2", "#SBATCH --gpus-per-node=8",
        "#SBATCH --ntasks-per-node=1", "#SBATCH --mem=0", "#SBATCH --time=01:00:00", "#SBATCH --exclusive",
    ):  # fmt: skip
        assert f"\n{line}\n" in script
    assert "/lustre/me/data/UCF101_subset:/data/UCF101_subset:ro" in script
    assert "--multi_gpu" in launch
    words = " ".join(launch.split("/attempt/train_vivit.py")[1].replace("\\\n", " ").split())
    assert words == (
        "--model google/vivit-b-16x2-kinetics400 --revision main --data /data/UCF101_subset --output /attempt/output"
        " --nodes 2 --gpus-per-node 8 --batch-size 4 --max-steps auto --loader-workers 15 --loader-prefetch 64"
        " --learning-rate 5e-05 --warmup-ratio 0.1 --logging-steps 10 --save-total-limit 0 --seed 42"
    )


def test_one_process_is_no_multi_gpu():
    assert "--multi_gpu" not in runs()["vivit-n1g1b4-w15"]["files"]["launch.sh"]


def test_the_topology_file_is_mounted_where_it_is_named():
    fabric = {"env": {"NCCL_TOPO_FILE": "/cm/shared/etc/ndv4-topo.xml"}, "mounts": ["/cm/shared"]}
    run = runs(site={**SITE, "dgxc_fabric": fabric}, env={"UCX_TLS": "tcp"})["vivit-n1g2b4-w1"]
    script = run["files"]["train.sbatch"]
    assert "export NCCL_TOPO_FILE=/cm/shared/etc/ndv4-topo.xml" in script
    assert ",/cm/shared " in script
    assert "export UCX_TLS=tcp" in script
    assert "ndv4" not in runs(fabric=False)["vivit-n1g2b4-w1"]["files"]["train.sbatch"]


def test_processors_and_memory_are_asked_for():
    script = runs(cpus_per_task=96, memory="400G")["vivit-n1g1b4-w1"]["files"]["train.sbatch"]
    assert "#SBATCH --cpus-per-task=96" in script
    assert "#SBATCH --mem=400G" in script


def test_local_model_and_data_on_a_processor():
    run = runs(
        model="/lustre/me/models/tiny", data_path="/lustre/other/videos", cpu=True, data_videos=None, data_classes=None,
        matrix=[{"nodes": 2, "gpus_per_node": 2}], loader_workers=4, max_steps=20, batch_size=2,
        data={"counts": {"training videos": 21}, "rows": {}, "manifest": ""},
    )["vivit-n2g2b2-w4"]  # fmt: skip
    script, launch = run["files"]["train.sbatch"], run["files"]["launch.sh"]
    assert "/lustre/other/videos:/data/videos:ro,/lustre/me/models/tiny:/models/tiny:ro" in script
    assert "--model /models/tiny" in launch
    assert "--revision" not in launch
    assert launch.rstrip().endswith("--cpu")
    # 6 + 5 + 5 + 5 videos: 3 batches of 2 each, 12 in all, 3 steps of 4 processes, 7 passes.
    assert run["expect"]["output"]["last_epoch"] == 6
    assert run["expect"]["output"]["trainer_state"].startswith("output/tiny-finetuned-ucf101-subset-2-n-2-g-2-b/")


def test_one_after_the_other():
    assert [run["after"] for run in runs(serial=True).values()] == ["", *list(runs())[:-1]]
    assert {run["after"] for run in runs().values()} == {""}


def test_the_data_that_is_wished_for():
    data = plan()["data"]
    assert data == {
        "path": "/lustre/me/data/UCF101_subset", "given": False,
        "counts": {"training videos": "train/*/*.avi", "classes": "train/*"},
        "expected": {"training videos": 300, "classes": 10},
    }  # fmt: skip
    given = plan(data_path="/x/y", data_videos=None, data_classes=4)["data"]
    assert (given["path"], given["given"], given["expected"]) == ("/x/y", True, {"classes": 4})


def test_before_the_data_there_are_no_runs():
    planned = plan(data=None, image=None)
    assert (planned["problems"], planned["runs"]) == ([], [])


def test_a_rehearsal_without_the_data_has_the_scripts():
    planned = plan(data={"counts": {}, "rows": {}, "manifest": ""})
    assert planned["runs"][0]["expect"]["steps"] == 150
    unknown = plan(data={"counts": {}, "rows": {}, "manifest": ""}, data_videos=None)["runs"][0]
    assert "steps" not in unknown["expect"]
    assert "last_epoch" not in unknown["expect"]["output"]


def test_what_changes_the_result_changes_the_key():
    base = runs()["vivit-n1g1b4-w15"]
    keys = {
        run_key(next(iter(runs(**changes).values())))
        for changes in (
            {}, {"seed": 1}, {"learning_rate": 1e-4}, {"max_steps": 10}, {"model_revision": "x"},
            {"data": {**DATA, "manifest": "0" * 64}}, {"image": {**IMAGE, "digest": "sha256:other"}},
        )
    }  # fmt: skip
    assert len(keys) == 7
    assert run_key(base) in keys
    # Neither how often it may be tried nor where the data was fetched from changes the result.
    assert run_key(runs(max_attempts=9, data_url="https://mirror/x.tar.gz")["vivit-n1g1b4-w15"]) == run_key(base)


def test_no_two_runs_share_a_folder():
    jobs = run_jobs(list(runs(loader_workers=[15, 1, 8]).values()), "/lustre/me/runs")
    assert len({job["run_dir"] for job in jobs}) == 15


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"matrix": []}, "vivit_matrix is []"),
        ({"matrix": ["1x1", "1x1"]}, "vivit_matrix is ['1x1', '1x1']: name each size once"),
        ({"matrix": ["8"]}, "vivit_matrix is ['8']: '8' is no size"),
        ({"loader_workers": []}, "vivit_loader_workers is []"),
        ({"loader_workers": [1, "many"]}, "vivit_loader_workers is [1, 'many']"),
        ({"loader_workers": [True]}, "vivit_loader_workers is [True]"),
        ({"loader_workers": [1, 1]}, "vivit_loader_workers is [1, 1]: name each number once"),
        ({"batch_size": 0}, "vivit_batch_size is 0"),
        ({"batch_size": 301}, "vivit_batch_size is 301: 300 training videos make no batch of that size"),
        ({"max_steps": "all"}, "vivit_max_steps is 'all'"),
        ({"max_steps": 0}, "vivit_max_steps is 0"),
        ({"learning_rate": "fast"}, "vivit_learning_rate is 'fast'"),
        ({"warmup_ratio": 2}, "vivit_warmup_ratio is 2"),
        ({"loader_prefetch": 0}, "vivit_loader_prefetch is 0"),
        ({"logging_steps": 0}, "vivit_logging_steps is 0"),
        ({"save_total_limit": -1}, "vivit_save_total_limit is -1"),
        ({"seed": "x"}, "vivit_seed is 'x'"),
        ({"cpu": "perhaps"}, "vivit_cpu is 'perhaps'"),
        ({"model": "a model"}, "vivit_model is 'a model'"),
        ({"model": "/models/../x"}, "vivit_model is '/models/../x'"),
        ({"model_revision": ""}, "vivit_model_revision is ''"),
        ({"data_videos": 0}, "vivit_data_videos is 0"),
        ({"data_classes": 1}, "vivit_data_classes is 1"),
        ({"data_url": "ftp://x"}, "vivit_data_url is 'ftp://x'"),
        ({"data_url": "https://me:secret@x/y"}, "vivit_data_url is"),
        ({"data_root": "../x"}, "vivit_data_root is '../x'"),
        ({"data_sha256": "abc"}, "vivit_data_sha256 is 'abc'"),
        ({"data_path": "videos"}, "vivit_data_path is 'videos'"),
        ({"data_folder": "videos"}, "vivit_data_folder is 'videos'"),
        ({"data_source": ""}, "vivit_data_source is ''"),
        ({"time_limit": 3600}, "vivit_time_limit is 3600: YAML reads times"),
        ({"run_name": "x" * 60}, "vivit_run_name is"),
        ({"loader_worker": 4}, "vivit_loader_worker is not a variable of this role: write vivit_loader_workers"),
    ],
)
def test_what_cannot_be_is_told(changes, said):
    planned = plan(**changes)
    assert planned["runs"] == []
    assert len(planned["problems"]) == 1
    assert said in planned["problems"][0]


def test_everything_is_told_at_once():
    problems = plan(matrix="x", loader_workers="y", batch_size="z", cpu=3, site={})["problems"]
    assert len(problems) == 5


def test_a_model_in_the_cache_of_the_hub_is_mounted_with_the_files_that_its_links_lead_to():
    folder = "/lustre/hub/models--google--vivit-b-16x2-kinetics400"
    planned = plan(model=f"{folder}/snapshots/8a7171e57f79b8a9e58e1bd8b6e4d4aa1c3a4b57")
    assert planned["problems"] == []
    files = planned["runs"][0]["files"]
    assert f"{folder}:/models/models--google--vivit-b-16x2-kinetics400:ro" in files["train.sbatch"]
    inner = "/models/models--google--vivit-b-16x2-kinetics400/snapshots/8a7171e57f79b8a9e58e1bd8b6e4d4aa1c3a4b57"
    assert f"--model {inner} " in files["launch.sh"]
