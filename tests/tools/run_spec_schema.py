# Copyright: (c) 2026, The dgxc.workloads developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Writes the variables of the workloads' roles into the JSON Schema of run specs, so that editors complete them.

    python tests/tools/run_spec_schema.py [--check]

The variables come from the argument specs of the roles; everything else of the schema is written by hand and kept.
With --check nothing is written, and the exit code is 1 where the schema is not up to date.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from pathlib import Path
from typing import Any

import yaml

CHECKOUT = Path(__file__).resolve().parents[2]
SCHEMA = CHECKOUT / "roles" / "reconcile" / "files" / "run-spec.schema.json"
#: Suffixes of role variables that a spec says in fields of its own.
FIELDS_OF_THEIR_OWN = ("resubmit", "max_attempts")
_MARK = re.compile(r"\b[A-Z]\(([^()]*)\)")


def plain(description: str | list[str]) -> str:
    """A description without the marks of Ansible's documentation."""
    text = " ".join(description) if isinstance(description, list) else description
    return " ".join(_MARK.sub(r"\1", text).split())


def variable(option: dict[str, Any]) -> dict[str, Any]:
    """What the schema says of one variable. Its type is left to the role, which tells more than a type can."""
    about: dict[str, Any] = {"description": plain(option["description"])}
    if "choices" in option and option.get("type", "str") == "str":
        about["enum"] = option["choices"]
    default = option.get("default")
    if default is not None and "{{" not in json.dumps(default):
        about["default"] = default
    return about


def variables(workload: str, checkout: Path = CHECKOUT) -> dict[str, Any]:
    """The definition of a workload's variables."""
    path = checkout / "roles" / workload / "meta" / "argument_specs.yml"
    options = yaml.safe_load(path.read_text(encoding="utf-8"))["argument_specs"]["main"]["options"]
    own = {f"{workload}_{name}" for name in FIELDS_OF_THEIR_OWN}
    return {
        "description": f"Variables of the role {workload}. A change makes another run.",
        "type": "object",
        "additionalProperties": False,
        "properties": {name: variable(option) for name, option in sorted(options.items()) if name not in own},
    }


def completed(schema: dict[str, Any], checkout: Path = CHECKOUT) -> dict[str, Any]:
    """The schema with the variables of the roles as they are now."""
    spec = schema["$defs"]["spec"]
    workloads = spec["properties"]["workload"]["enum"]
    spec["allOf"] = [
        {
            "if": {"required": ["workload"], "properties": {"workload": {"const": name}}},
            "then": {"properties": {"variables": {"$ref": f"#/$defs/{name}_variables"}}},
        }
        for name in workloads
    ]
    definitions = {f"{name}_variables": variables(name, checkout) for name in workloads}
    return {**schema, "$defs": {"spec": spec, **definitions}}


def main() -> int:
    """Write the schema, or say whether it is up to date."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="write nothing; exit with 1 if it is not up to date")
    options = parser.parse_args()
    old = SCHEMA.read_text(encoding="utf-8")
    new = json.dumps(completed(json.loads(old)), indent=2, ensure_ascii=False) + "\n"
    if options.check:
        if new != old:
            print(f"{SCHEMA} is not up to date: run {Path(__file__).name}", file=sys.stderr)
        return int(new != old)
    if new != old:
        SCHEMA.write_text(new, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
