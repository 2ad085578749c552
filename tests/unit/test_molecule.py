# Copyright: (c) 2026, The dgxc.workloads developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Molecule's scenarios, which take minutes each and are not run every time: that they are whole and name what exists."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

CHECKOUT = Path(__file__).resolve().parents[2]
BASE = yaml.safe_load((CHECKOUT / ".config/molecule/config.yml").read_text())
SCENARIOS = {
    path.parent.name: yaml.safe_load(path.read_text()) for path in sorted(CHECKOUT.glob("molecule/*/molecule.yml"))
}


def _read(path: str) -> dict[str, Any]:
    return yaml.safe_load((CHECKOUT / path).read_text()) or {}


def _arguments(role: str) -> dict[str, Any]:
    return _read(f"roles/{role}/meta/argument_specs.yml")["argument_specs"]["main"]["options"]


def test_there_is_a_scenario_for_each_workload_and_each_delivery_of_an_image():
    # A workload is a role that has its runs brought to their end; NeMo's scenario is the default one.
    submit = "name: dgxc.workloads.run\n"
    workloads = {path.parts[-3] for path in CHECKOUT.glob("roles/*/tasks/*.yml") if submit in path.read_text()}
    workloads -= {"nemo_gpt3"}
    deliveries = {f"image_{name}" for name in _arguments("image")["image_delivery"]["choices"]}
    assert {name for name in SCENARIOS if not name.startswith("site_")} == {"default"} | workloads | deliveries


@pytest.mark.parametrize("name", SCENARIOS)
def test_molecule_takes_the_scenario(name: str):
    # The folder of this name beside the tests counts as a package as well.
    pytest.importorskip("molecule.model.schema_v3", reason="needs Molecule")
    from molecule.model.schema_v3 import validate
    from molecule.util import merge_dicts

    assert validate(merge_dicts(BASE, SCENARIOS[name])) == []


@pytest.mark.parametrize("name", SCENARIOS)
def test_the_playbooks_of_a_scenario_exist(name: str):
    playbooks = {**BASE["ansible"]["playbooks"], **SCENARIOS[name].get("ansible", {}).get("playbooks", {})}
    assert set(playbooks) == {"create", "side_effect", "converge", "verify", "cleanup", "destroy"}
    for playbook in playbooks.values():
        path = CHECKOUT / "molecule" / name / playbook.replace("${MOLECULE_PROJECT_DIRECTORY}", str(CHECKOUT))
        assert path.is_file(), playbook


@pytest.mark.parametrize("name", SCENARIOS)
def test_a_scenario_sets_variables_that_something_reads(name: str):
    given = SCENARIOS[name].get("provisioner", {}).get("inventory", {}).get("host_vars", {})
    inventory = [_read(f"molecule/inventory/group_vars/{group}.yml") for group in ("all", "sandbox_machine")]
    machine = set(_arguments("sandbox")).union(*inventory)
    person = {"ansible_python_interpreter"}.union(*(_arguments(role) for role in ("image", "nemo_gpt3", "preflight")))
    facts = {variable for variable in given.get("sandbox", {}) if variable.startswith("dgxc_")}
    described = (CHECKOUT / "docs/clusters.md").read_text()
    assert all(f"`{variable}`" in described for variable in facts)
    assert set(given) <= {"sandbox", "sandbox_host"}
    assert set(given.get("sandbox_host", {})) <= machine | {"site_python"}
    assert set(given.get("sandbox", {})) - facts <= person


def test_every_site_proves_that_it_is_as_it_should_be():
    sites = {name: scenario for name, scenario in SCENARIOS.items() if name.startswith("site_")}
    assert len(sites) >= 11
    for scenario in sites.values():
        assert set(scenario["provisioner"]["inventory"]["host_vars"]["sandbox_host"]["verify_output"]) == {
            "command",
            "says",
        }
