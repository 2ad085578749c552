# Copyright: (c) 2026, The dgxc.workloads developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The inventories for OCI and Azure carry the document's tables, and ask for what has to be filled in."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from ansible.inventory.manager import InventoryManager
from ansible.parsing.dataloader import DataLoader

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
    ("name", "groups"), [("oci", {"oci_a100": ["login"], "oci_h100": []}), ("azure", {"azure_a100": ["login"]})]
)
def test_every_inventory_has_the_login_node_and_a_group_for_each_gpu(name: str, groups: dict[str, list[str]]) -> None:
    inventory = InventoryManager(loader=DataLoader(), sources=[str(INVENTORIES / name)])
    assert [host.name for host in inventory.get_hosts("slurm_login")] == ["login"]
    found = inventory.get_groups_dict()
    assert {group: found[group] for group in groups} == groups


def play(inventory: str, environment: dict[str, str], *arguments: str) -> subprocess.CompletedProcess[str]:
    program = shutil.which("ansible-playbook", path=os.path.dirname(sys.executable)) or shutil.which("ansible-playbook")
    if program is None or not (ROOT / "playbooks" / "nemo_gpt3.yml").is_file():
        pytest.skip("needs ansible-playbook and the playbooks")
    kept = {name: os.environ[name] for name in ("PATH", "HOME", "TMPDIR") if name in os.environ}
    return subprocess.run(
        [program, "playbooks/nemo_gpt3.yml", "-i", f"inventories/{inventory}", *arguments],
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
    answer = play(inventory, {})
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
    answer = play("azure", given)
    assert "Refuse what cannot run" in answer.stdout
    assert "Check the login node" in answer.stdout
    assert "login.ssh" in answer.stdout + answer.stderr
    assert "/nonexistent/ssh" in answer.stdout + answer.stderr
