# Copyright: (c) 2026, The dgxc.workloads developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The overlay gives, byte for byte, what editing the launcher's files by hand gives.

Runs with the small launcher of tests/launcher. To run it with the real one, set DGXC_TEST_LAUNCHER to a clone at the
pinned commit and DGXC_TEST_LAUNCHER_PYTHON to a Python that has its requirements.
"""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from ansible_collections.dgxc.workloads.plugins.filter.nemo_gpt3 import FilterModule
from ansible_collections.dgxc.workloads.plugins.module_utils._nemo_launcher import Rendered, render
from ansible_collections.dgxc.workloads.plugins.module_utils._process import run

ROOT = Path(__file__).resolve().parents[2]
LAUNCHER = Path(os.environ.get("DGXC_TEST_LAUNCHER") or ROOT / "tests" / "launcher")
PYTHON = os.environ.get("DGXC_TEST_LAUNCHER_PYTHON") or sys.executable
FILTERS = FilterModule().filters()

pytestmark = [
    pytest.mark.skipif(not (LAUNCHER / "launcher_scripts" / "main.py").is_file(), reason="needs a launcher"),
    pytest.mark.skipif(
        "DGXC_TEST_LAUNCHER_PYTHON" not in os.environ and importlib.util.find_spec("hydra") is None,
        reason="the launcher needs hydra-core",
    ),
]

IMAGE = "nvcr.io#nvidia/nemo:24.01.01.framework"


def variables(launcher: Path, **changes: Any) -> dict[str, Any]:
    """Return the role's defaults as they are after templating, and changes."""
    defaults = yaml.safe_load((ROOT / "roles" / "nemo_gpt3" / "defaults" / "main.yml").read_text())
    plain = {name: value for name, value in defaults.items() if "{{" not in str(value)}
    return {
        **plain,
        "nemo_gpt3_container_image": IMAGE,
        "nemo_gpt3_container_mounts": ["/cm/shared"],
        "nemo_gpt3_gpus_per_node": 8,
        "nemo_gpt3_launcher_path": str(launcher),
        "nemo_gpt3_run_name": "gpt-7b-improved",
        "nemo_gpt3_slurm_account": "",
        "nemo_gpt3_slurm_partition": "",
        "nemo_gpt3_slurm_qos": "",
        "nemo_gpt3_slurm_reservation": "",
        "nemo_gpt3_virtual_environment": "/venv",
        **{f"nemo_gpt3_{name}": value for name, value in changes.items()},
    }


def by_overlay(
    launcher: Path, fabric: dict[str, Any], facts: dict[str, Any] | None = None, **changes: Any
) -> tuple[dict[str, Any], Rendered]:
    site = {"dgxc_shared_root": "/lustre/me", "dgxc_fabric": fabric, **(facts or {})}
    plan = FILTERS["nemo_gpt3_plan"](variables(launcher, **changes), site)
    assert plan["problems"] == []
    rendered = render(run, os.environ, str(launcher), PYTHON, plan["plans"][0]["overlay"])
    return plan["plans"][0], rendered


def edit(path: Path, *changes: tuple[str, str]) -> None:
    """Change each line that matches, as a person with an editor would; each pattern has to match exactly once."""
    text = path.read_text()
    for pattern, line in changes:
        text, count = re.subn(f"^{pattern}$", line, text, flags=re.MULTILINE)
        assert count == 1, (path, pattern, count)
    path.write_text(text)


def by_hand(launcher: Path, env: dict[str, Any], nodes: int, account: str, partition: str) -> dict[str, str]:
    """Edit the files as the document says (sections 4.2.3.3 and 4.2.4.1), run main.py, and return what it writes."""
    scripts = launcher / "launcher_scripts"
    table = "".join(f"  {name}: {'null' if value is None else value}\n" for name, value in env.items())
    edit(
        scripts / "conf" / "config.yaml",
        (r"  - training: gpt3/5b\b.*", "  - training: gpt3/7b_improved"),
        # Its lines "#- training" and "- conversion", of which only the uncommented ones are read.
        (r"stages:\n(?:  .*\n)+", "stages:\n  - training\n"),
        (r"launcher_scripts_path: \?\?\?.*", f"launcher_scripts_path: {scripts}"),
        (r"  - null", "  - /cm/shared"),
        (r"env_vars:\n(?:  .*\n)+", "env_vars:\n" + table),
        # Not in the document, but in its spirit: the spelling that every version of Enroot understands.
        (r"container: .*", f"container: '{IMAGE}'"),
    )
    edit(
        scripts / "conf" / "cluster" / "bcm.yaml",
        (r"account: .*", f"account: {account or 'null'}"),
        (r"partition: .*", f"partition: {partition or 'null'}"),
    )
    edit(
        scripts / "conf" / "training" / "gpt3" / "7b_improved.yaml",
        (r"  time_limit: .*", '  time_limit: "0-02:00:00"'),
        (r"  num_nodes: .*", f"  num_nodes: {nodes}"),
        (r"  max_steps: .*", "  max_steps: 2000"),
        (r"  max_time: .*", '  max_time: "00:01:30:00"'),
        (r"  val_check_interval: .*", "  val_check_interval: 240"),
        (r"    data_impl: .*", "    data_impl: mock"),
    )
    environment = {"PATH": os.environ["PATH"], "NEMO_LAUNCHER_DEBUG": "1", "LC_ALL": "C.UTF-8"}
    subprocess.run([PYTHON, "main.py"], cwd=scripts, env=environment, check=True, capture_output=True)
    results = scripts / "results"
    return {
        str(path.relative_to(scripts)): path.read_text().replace(str(results), "@ATTEMPT_DIR@/results")
        for path in sorted(results.rglob("*"))
        if path.is_file() and path.name != "launcher_cmd.log"
    }


@pytest.mark.parametrize(
    ("table", "nodes", "account", "partition"),
    [
        ("oci/group_vars/oci_a100.yml", 2, "", ""),
        ("oci/group_vars/oci_h100.yml", 4, "", ""),
        ("azure/group_vars/azure_a100.yml", 2, "", ""),
        ("azure/group_vars/azure_a100.yml", 64, "team", "defq"),
    ],
)
def test_the_result_is_that_of_editing_by_hand(
    tmp_path: Path, table: str, nodes: int, account: str, partition: str
) -> None:
    inventory = ROOT / "inventories" / table
    if not inventory.is_file():
        pytest.skip("needs the inventories")
    fabric = yaml.safe_load(inventory.read_text())["dgxc_fabric"]
    clean, edited = tmp_path / "clean", tmp_path / "edited"
    for copy in (clean, edited):
        shutil.copytree(LAUNCHER, copy, ignore=shutil.ignore_patterns(".git", "__pycache__", "results"))
    before = sorted(path.relative_to(clean) for path in clean.rglob("*"))
    plan, rendered = by_overlay(clean, fabric, nodes=nodes, slurm_account=account, slurm_partition=partition)
    by_editing = by_hand(edited, fabric["env"], nodes, account, partition)

    produced = {name: text for name, text in rendered.files.items() if not name.startswith("conf/")}
    assert set(produced) == set(by_editing)
    for name, text in produced.items():
        assert text.replace(str(clean), "<clone>") == by_editing[name].replace(str(edited), "<clone>")

    # The clone is as it was, without compiled files and results.
    assert sorted(path.relative_to(clean) for path in clean.rglob("*")) == before
    # And what was made of it is a run.
    result = FILTERS["nemo_gpt3_runs"]([plan], [dict(rendered._asdict())])
    assert result["problems"] == []
    assert result["runs"][0]["expect"]["global_batch_size"] == 512
    assert result["runs"][0]["expect"]["sequence_length"] == 2048


def test_further_changes_reach_the_resolved_configuration(tmp_path: Path) -> None:
    overrides = {"training": {"exp_manager": {"resume_if_exists": False}, "model": {"optim": {"lr": 1e-5}}}}
    shutil.copytree(LAUNCHER, tmp_path / "clone", ignore=shutil.ignore_patterns(".git", "__pycache__", "results"))
    plan, rendered = by_overlay(tmp_path / "clone", {}, overrides=overrides, gpus_per_node=4, nodes=1)
    assert FILTERS["nemo_gpt3_runs"]([plan], [dict(rendered._asdict())])["problems"] == []
    resolved = yaml.safe_load(
        rendered.files["results/gpt_7b_improved/gpt_7b_improved_hydra.yaml"].replace("@ATTEMPT_DIR@", "/a")
    )
    assert resolved["exp_manager"]["resume_if_exists"] is False
    assert float(resolved["model"]["optim"]["lr"]) == 1e-5
    assert resolved["trainer"]["devices"] == 4
    assert rendered.directories == ["results/gpt_7b_improved/results"]


def test_the_launcher_takes_what_an_odd_site_asks_for(tmp_path: Path) -> None:
    facts = {
        "dgxc_gres_style": "gres",
        "dgxc_gpu_type": "a100",
        "dgxc_slurm_memory": "480G",
        "dgxc_srun_options": {"mpi": "pmix"},
        "dgxc_proxies": {"https": "http://proxy:3128"},
    }
    shutil.copytree(LAUNCHER, tmp_path / "clone", ignore=shutil.ignore_patterns(".git", "__pycache__", "results"))
    plan, rendered = by_overlay(tmp_path / "clone", {}, facts)
    script = rendered.files[rendered.script]
    directives = re.findall(r"(?m)^#SBATCH --(.*)$", script)
    assert {"gres=gpu:a100:8", "mem=480GB"} <= set(directives)
    assert not any(line.startswith("gpus-per-node") for line in directives)
    assert "--no-container-mount-home --mpi=pmix" in script
    assert "export https_proxy=http://proxy:3128" in script
    assert FILTERS["nemo_gpt3_runs"]([plan], [dict(rendered._asdict())])["problems"] == []
