# Copyright: (c) 2026, The dgxc.workloads developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the plans of the workloads tell the preflight, with the roles' own defaults."""

from __future__ import annotations

from typing import Any

import pytest

from ansible_collections.dgxc.workloads.plugins.module_utils import _alma_settings as alma
from ansible_collections.dgxc.workloads.plugins.module_utils import _nemo_settings as nemo
from ansible_collections.dgxc.workloads.plugins.module_utils import _preflight_wishes as wishes
from ansible_collections.dgxc.workloads.plugins.module_utils import _vivit_settings as vivit
from ansible_collections.dgxc.workloads.plugins.module_utils import _whisper_qlora_settings as whisper
from ansible_collections.dgxc.workloads.plugins.plugin_utils import _preflight_report
from tests.unit.plugins.module_utils import (
    test_alma_settings,
    test_nemo_settings,
    test_vivit_settings,
    test_whisper_qlora_settings,
)
from tests.unit.plugins.plugin_utils.test_preflight_report import GOOD

SITE = {"dgxc_shared_root": "/lustre/me"}
PLANS: dict[str, tuple[Any, dict[str, Any]]] = {
    "nemo_gpt3": (nemo.plan, test_nemo_settings.GOOD),
    "alma": (alma.plan, test_alma_settings.GOOD),
    "vivit": (vivit.plan, test_vivit_settings.defaults()),
    "whisper_qlora": (whisper.plan, test_whisper_qlora_settings.defaults()),
}
HUB = "https://huggingface.co"


def wished(workload: str, site: dict[str, Any] | None = None, **changes: Any) -> dict[str, Any]:
    plan, variables = PLANS[workload]
    answer = plan({**variables, **{f"{workload}_{name}": value for name, value in changes.items()}}, site or SITE)
    assert answer["problems"] == []
    return dict(answer["preflight"])


@pytest.mark.parametrize("workload", PLANS)
def test_the_preflight_takes_what_a_workload_says(workload):
    plan = _preflight_report.plan({**GOOD, "preflight_workload": wished(workload)}, SITE)
    assert plan["problems"] == []
    assert plan["login"]["options"]["exclusive"] is True
    assert plan["login"]["gpus_per_node"] == 8
    assert all(name.startswith(workload + "/") for name in plan["login"]["earlier_runs"])


@pytest.mark.parametrize("workload", PLANS)
def test_nothing_is_wished_where_the_variables_are_wrong(workload):
    plan, variables = PLANS[workload]
    assert plan({**variables, f"{workload}_max_attempts": "many"}, SITE)["preflight"] == {}


def test_nemo():
    found = wished("nemo_gpt3", nodes=[2, 4], slurm_qos="high", time_limit="0-03:00:00")
    assert (found["nodes"], found["time_limit"], found["slurm_qos"]) == (4, "0-03:00:00", "high")
    assert found["names"] == ["gpt-7b-improved-n2", "gpt-7b-improved-n4"]
    assert found["image"] == "nvcr.io#nvidia/nemo:24.01.01.framework"
    assert found["mounts"] == ["/cm/shared"]
    # The nodes' Enroot may know other credentials.
    assert found["credentials_follow"] is True
    assert found["git_remotes"][0] == {
        "url": "https://example.com/launcher", "path": "/lustre/me/workspace/launcher",
        "commit": "51df3f36f5bc51b7bbdc3f540a43b01cdc28c8be",
    }  # fmt: skip
    assert "container-env" not in found["pyxis_options"]
    # The tokenizer is fetched unless it is said that it is there.
    registry = "https://nvcr.io/v2/"
    assert found["wished_node_urls"] == [registry, HUB]
    assert wished("nemo_gpt3", env={"TRANSFORMERS_OFFLINE": 1})["wished_node_urls"] == [registry]
    assert wished("nemo_gpt3", container_image="/lustre/me/a.sqsh")["wished_node_urls"] == [HUB]
    assert wished("nemo_gpt3", container_image="docker://nvcr.io#a/b:1")["image"] == "nvcr.io#a/b:1"
    assert wished("nemo_gpt3", {**SITE, "dgxc_slurm_memory": ""})["memory"] == ""


def test_alma():
    found = wished("alma")
    assert (found["nodes"], found["names"]) == (2, ["alma-n1", "alma-n2"])
    # The image is built by the same play, and so is no reason to stop it.
    assert (found["image"], found["mounts"]) == ("", [])
    cached = "/lustre/me/cache/huggingface/hub/models--haoranxu--ALMA-7B-Pretrain"
    assert found["node_urls"] == [{"url": HUB, "unless": cached}]
    assert wished("alma", offline=True)["node_urls"] == []
    assert wished("alma", env={"HF_ENDPOINT": "https://mirror.org"})["node_urls"][0]["url"] == "https://mirror.org"
    given = wished("alma", model="/models/a", data_path="/data/b", container_image="reg.org#a:1", cpus_per_task=16)
    assert given["mounts"] == ["/data/b:/data/b", "/models/a:/models/a"]
    # A registry may speak plain HTTP, so its address is wished for only.
    assert (given["node_urls"], given["wished_node_urls"]) == ([], ["https://reg.org/v2/"])
    assert given["slurm_options"] == {"cpus-per-task": 16}
    assert given["credentials_follow"] is True


@pytest.mark.parametrize(
    ("workload", "server"),
    [("vivit", "https://huggingface.co/datasets/"), ("whisper_qlora", "https://www.kaggle.com/api/")],
)
def test_data_that_is_fetched_and_data_that_is_there(workload, server):
    found = wished(workload)
    (address,) = found["login_urls"]
    assert address["url"].startswith(server)
    assert address["unless"].startswith("/lustre/me/data/")
    assert (found["nodes"], found["gpus_per_node"], found["mounts"]) == (2, 8, [])
    there = wished(workload, data_path="/data/x", model="/models/y", container_mounts=["/opt/z"])
    assert there["login_urls"] == there["node_urls"] == []
    assert sorted(mount.split(":")[0] for mount in there["mounts"]) == ["/data/x", "/models/y", "/opt/z"]


@pytest.mark.parametrize("workload", PLANS)
def test_the_trainings_proxies_and_what_becomes_of_runs_that_have_ended(workload):
    site = {**SITE, "dgxc_proxies": {"https": "http://p:1", "no": [".x.org"]}}
    env = {"https_proxy": "http://own:1", "SEED": "1"}
    found = wished(workload, site, env=env, resubmit="always", max_attempts=4)
    assert found["environment"] == {
        "https_proxy": "http://own:1", "HTTPS_PROXY": "http://p:1", "no_proxy": ".x.org", "NO_PROXY": ".x.org",
    }  # fmt: skip
    assert (found["resubmit"], found["max_attempts"]) == ("always", 4)
    assert wished(workload)["environment"] == {}


def test_of_two_mounts_with_one_target_the_users_counts():
    assert wishes.united(["/mine:/data"], ["/theirs:/data", "/other"]) == ["/mine:/data", "/other"]


@pytest.mark.parametrize("image", ["", "/a.sqsh", "not an image"])
def test_no_registry(image):
    assert wishes.registry_urls(image) == []
