# Copyright: (c) 2026, The dgxc.workloads developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The inventories carry the document's tables, ask for what has to be filled in, and do not mix when loaded together."""

from __future__ import annotations

import itertools
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from ansible.inventory.manager import InventoryManager
from ansible.parsing.dataloader import DataLoader
from ansible.vars.manager import VariableManager

from ansible_collections.dgxc.workloads.plugins.plugin_utils._new_inventory import inventory as new_inventory

ROOT = Path(__file__).resolve().parents[2]
INVENTORIES = ROOT / "inventories"

pytestmark = pytest.mark.skipif(not (INVENTORIES / "oci").is_dir(), reason="needs the inventories of a checkout")

# The launcher's own variables, in its order, and those that the document adds for Azure.
OCI = """\
NCCL_TOPO_FILE: null
UCX_IB_PCI_RELAXED_ORDERING: null
NCCL_IB_PCI_RELAXED_ORDERING: null
NCCL_IB_TIMEOUT: null
NCCL_DEBUG: null
NCCL_PROTO: null
TRANSFORMERS_OFFLINE: 0
TORCH_NCCL_AVOID_RECORD_STREAMS: 1
NCCL_NVLS_ENABLE: 0
NVTE_DP_AMAX_REDUCE_INTERVAL: 0
NVTE_ASYNC_AMAX_REDUCTION: 1
NVTE_FUSED_ATTN: 0
"""
AZURE = """\
NCCL_TOPO_FILE: /cm/shared/etc/ndv4-topo.xml
UCX_IB_PCI_RELAXED_ORDERING: null
NCCL_IB_PCI_RELAXED_ORDERING: 1
NCCL_IB_TIMEOUT: null
NCCL_DEBUG: null
NCCL_PROTO: LL,LL128,Simple
TRANSFORMERS_OFFLINE: 0
TORCH_NCCL_AVOID_RECORD_STREAMS: 1
NCCL_NVLS_ENABLE: 0
NVTE_DP_AMAX_REDUCE_INTERVAL: 0
NVTE_ASYNC_AMAX_REDUCTION: 1
NVTE_FUSED_ATTN: 0
HYDRA_FULL_ERROR: 1
OMPI_MCA_coll_hcoll_enable: 0
UCX_TLS: rc
UCX_NET_DEVICES: mlx5_0:1,mlx5_1:1,mlx5_2:1,mlx5_3:1,mlx5_4:1,mlx5_5:1,mlx5_6:1,mlx5_7:1
CUDA_DEVICE_ORDER: PCI_BUS_ID
NCCL_SOCKET_IFNAME: eth0
NCCL_ALGO: Tree,Ring,CollnetDirect,CollnetChain,NVLS
MELLANOX_VISIBLE_DEVICES: all
PMIX_MCA_gds: hash
PMIX_MCA_psec: native
"""


@pytest.mark.parametrize(
    ("file", "table"),
    [
        ("oci/group_vars/oci_a100.yml", OCI),
        ("oci/group_vars/oci_h100.yml", OCI),
        ("azure/group_vars/azure_a100.yml", AZURE),
    ],
)
def test_the_tables_are_the_documents(file: str, table: str) -> None:
    fabric = yaml.safe_load((INVENTORIES / file).read_text())["dgxc_fabric"]
    assert list(fabric["env"].items()) == list(yaml.safe_load(table).items())
    assert fabric["mounts"] == ["/cm/shared"]


@pytest.mark.parametrize(
    ("name", "groups"),
    [("oci", {"oci_a100": ["oci-login"], "oci_h100": []}), ("azure", {"azure_a100": ["azure-login"]})],
)
def test_every_inventory_has_the_login_node_and_a_group_for_each_gpu(name: str, groups: dict[str, list[str]]) -> None:
    inventory = InventoryManager(loader=DataLoader(), sources=[str(INVENTORIES / name)])
    assert [host.name for host in inventory.get_hosts("slurm_login")] == [f"{name}-login"]
    found = inventory.get_groups_dict()
    assert {group: found[group] for group in groups} == groups
    assert found[name] == [f"{name}-login"]


def seen(*inventories: Path) -> dict[str, dict[str, Any]]:
    """Return the variables of each login node, as a play with these inventories has them, templates unevaluated.

    What Ansible itself tells of the whole inventory, and must differ, is left out.
    """
    loader = DataLoader()
    inventory = InventoryManager(loader=loader, sources=[str(path) for path in inventories])
    manager = VariableManager(loader=loader, inventory=inventory)
    return {
        host.name: {
            name: value
            for name, value in manager.get_vars(host=host, include_hostvars=False).items()
            if name not in ("groups", "omit", "ansible_inventory_sources")
        }
        for host in inventory.get_hosts("slurm_login")
    }


@pytest.fixture(scope="module")
def clusters(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Inventories as people have them: those of the collection filled in, and two that new_cluster.yml wrote."""
    root = tmp_path_factory.mktemp("inventories")
    for name in ("oci", "azure"):
        shutil.copytree(INVENTORIES / name, root / name)
        hosts = root / name / "hosts.yml"
        text, count = re.subn(r"(dgxc_\w+): \"{{ lookup.*", rf"\1: {name}-\1", hosts.read_text())
        assert count == 5
        hosts.write_text(text)
    for name, gpus in (("mine", 4), ("yours", 2)):
        node = {"name": f"of-{name}", "default": True, "state": "UP", "nodes": 2, "gpus_per_node": gpus}
        look = {"shared_folders": [f"/scratch/{name}"], "accounts": [name], "accounting": True, "partitions": [node]}
        files = new_inventory(look, name, f"login.{name}.example", name, {"ansible_port": gpus})
        for file, text in files.items():
            path = root / name / file
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
    examples = ROOT / "examples" / "gitops" / "inventory"
    return {"sandbox": INVENTORIES / "sandbox", **{path.name: path for path in root.iterdir()}, "gitops": examples}


# The example for GitOps is the sandbox, so those two are one cluster.
@pytest.mark.parametrize(
    "pair",
    [pair for pair in itertools.permutations(("oci", "azure", "mine", "yours", "sandbox", "gitops"), 2)
     if set(pair) != {"sandbox", "gitops"}],
)  # fmt: skip
def test_of_two_inventories_each_cluster_keeps_its_facts(clusters: dict[str, Path], pair: tuple[str, str]) -> None:
    alone = {host: facts for name in pair for host, facts in seen(clusters[name]).items()}
    together = seen(*(clusters[name] for name in pair))
    assert set(together) == set(alone)
    assert len(together) == 2
    for host, facts in together.items():
        # The sandbox tells all hosts of that inventory, its machine too, where it lies.
        kept = {name: value for name, value in facts.items() if name in alone[host] or not name.startswith("sandbox_")}
        assert kept == alone[host]


def test_a_cluster_has_facts_that_differ_from_those_of_others(clusters: dict[str, Path]) -> None:
    """So that the test above could fail."""
    for name in ("dgxc_shared_root", "dgxc_fabric", "ansible_host"):
        values = [str(facts.get(name)) for path in clusters.values() for facts in seen(path).values()]
        assert len(set(values)) > 2, name


def play(
    inventory: str, environment: dict[str, str], *arguments: str, playbook: str = "nemo_gpt3"
) -> subprocess.CompletedProcess[str]:
    program = shutil.which("ansible-playbook", path=os.path.dirname(sys.executable)) or shutil.which("ansible-playbook")
    if program is None or not (ROOT / "playbooks" / "nemo_gpt3.yml").is_file():
        pytest.skip("needs ansible-playbook and the playbooks")
    kept = {name: os.environ[name] for name in ("PATH", "HOME", "TMPDIR") if name in os.environ}
    return subprocess.run(
        [program, f"playbooks/{playbook}.yml", "-i", inventory, *arguments],
        cwd=ROOT,
        # No connection is wanted: a program named ssh that could be started does not exist here.
        env={**kept, "ANSIBLE_SSH_EXECUTABLE": "/nonexistent/ssh", "LC_ALL": "C.UTF-8", **environment},
        capture_output=True,
        text=True,
        check=False,
    )


def sentences(answer: subprocess.CompletedProcess[str]) -> list[str]:
    """Return the sentences of the task that refuses, without the blanks that the display puts in front."""
    lines = [line.strip() for line in answer.stdout.partition("fatal:")[2].splitlines()]
    return [line.removeprefix("msg: ") for line in lines if " is " in line]


@pytest.mark.parametrize("inventory", ["oci", "azure"])
def test_each_missing_value_has_its_sentence_and_nothing_is_touched(inventory: str) -> None:
    answer = play(f"inventories/{inventory}", {})
    assert answer.returncode != 0
    assert "unreachable=0" in answer.stdout
    wanted = {
        "dgxc_login_node": "DGXC_LOGIN_NODE",
        "dgxc_login_user": "DGXC_LOGIN_USER",
        "dgxc_shared_root": "DGXC_SHARED_ROOT",
        "dgxc_slurm_account": "DGXC_SLURM_ACCOUNT",
        "dgxc_slurm_partition": "DGXC_SLURM_PARTITION",
    }
    told = {sentence.split()[0]: sentence for sentence in sentences(answer)}
    assert set(told) == set(wanted)
    for name, variable in wanted.items():
        assert f"inventories/{inventory}/hosts.yml, or export {variable}" in told[name]


def test_with_the_variables_exported_the_login_node_is_what_is_asked_next() -> None:
    given: dict[str, Any] = {
        "DGXC_LOGIN_NODE": "login.invalid",
        "DGXC_LOGIN_USER": "demo-user",
        "DGXC_SHARED_ROOT": "/lustre/fs0/scratch/demo-user",
        # Exported and empty: the cluster's defaults.
        "DGXC_SLURM_ACCOUNT": "",
        "DGXC_SLURM_PARTITION": "",
        "ANSIBLE_SSH_RETRIES": "0",
    }
    answer = play("inventories/azure", given)
    assert "Refuse what cannot run" in answer.stdout
    assert "Check the login node" in answer.stdout
    assert "login.ssh" in answer.stdout + answer.stderr
    assert "/nonexistent/ssh" in answer.stdout + answer.stderr


@pytest.mark.parametrize("name", ["slurm_login", "my-cluster"])
def test_a_new_cluster_gets_a_name_that_a_group_of_its_own_may_have(tmp_path: Path, name: str) -> None:
    words = ["-e", f"new_cluster_name={name}", "-e", f"new_cluster_path={tmp_path / name}"]
    answer = play("login.invalid,", {}, *words, playbook="new_cluster")
    assert answer.returncode != 0
    assert "unreachable=0" in answer.stdout
    assert f"new_cluster_name is {name} and" in " ".join(answer.stdout.split())
    assert list(tmp_path.iterdir()) == []
