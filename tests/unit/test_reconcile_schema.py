# Copyright: (c) 2026, The dgxc.workloads developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The schema of run specs knows the variables that the workloads' roles have now."""

from __future__ import annotations

import copy
import importlib.util
import json
from pathlib import Path
from types import ModuleType

import pytest
import yaml

CHECKOUT = Path(__file__).resolve().parents[2]
SCHEMA = json.loads((CHECKOUT / "roles" / "reconcile" / "files" / "run-spec.schema.json").read_text())
WORKLOADS = SCHEMA["$defs"]["spec"]["properties"]["workload"]["enum"]


@pytest.fixture(scope="module")
def tool() -> ModuleType:
    spec = importlib.util.spec_from_file_location("schema_tool", CHECKOUT / "tests" / "tools" / "run_spec_schema.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_schema_is_up_to_date(tool: ModuleType):
    assert tool.completed(copy.deepcopy(SCHEMA)) == SCHEMA, "run tests/tools/run_spec_schema.py"


@pytest.mark.parametrize("workload", WORKLOADS)
def test_every_variable_of_a_role_is_described(workload: str):
    options = yaml.safe_load((CHECKOUT / "roles" / workload / "meta" / "argument_specs.yml").read_text())
    told = SCHEMA["$defs"][f"{workload}_variables"]["properties"]
    own = {f"{workload}_resubmit", f"{workload}_max_attempts"}
    assert set(told) | own == set(options["argument_specs"]["main"]["options"])
    assert all(about["description"] for about in told.values())
    assert not any("{{" in json.dumps(about) for about in told.values())


def test_a_new_variable_makes_it_out_of_date(tool: ModuleType, tmp_path: Path):
    for workload in WORKLOADS:
        path = tmp_path / "roles" / workload / "meta" / "argument_specs.yml"
        path.parent.mkdir(parents=True)
        about = {"description": ["See C(x) of", "M(a.b.c)."], "choices": ["y", "z"], "default": "{{ y }}"}
        path.write_text(yaml.safe_dump({"argument_specs": {"main": {"options": {f"{workload}_new": about}}}}))
    schema = tool.completed(copy.deepcopy(SCHEMA), tmp_path)
    assert schema["$defs"]["alma_variables"]["properties"] == {
        "alma_new": {"description": "See x of a.b.c.", "enum": ["y", "z"]}
    }
    assert schema["$defs"]["spec"] == SCHEMA["$defs"]["spec"]
