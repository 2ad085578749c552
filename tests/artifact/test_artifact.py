# Copyright: (c) 2026, The dgxc.workloads developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What is shipped: only what belongs in it, documented as a whole, and enough to work away from the checkout."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import tarfile
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import yaml

CHECKOUT = Path(__file__).resolve().parents[2]
COLLECTION = "dgxc.workloads"

# What a collection may have at its top, of the things that this one has. A new name is a decision, not an accident.
TOP_LEVEL = {
    "CHANGELOG.md",
    "CONTRIBUTING.md",
    "FILES.json",
    "LICENSE",
    "MANIFEST.json",
    "README.md",
    "SECURITY.md",
    "changelogs",
    "docs",
    "meta",
    "playbooks",
    "plugins",
    "requirements.txt",
    "roles",
    "tests",
}
# The version to come, and those that there were.
_RELEASED = CHECKOUT / "changelogs" / "changelog.yaml"
RELEASES = {yaml.safe_load((CHECKOUT / "galaxy.yml").read_text())["version"]}
RELEASES |= set(yaml.safe_load(_RELEASED.read_text())["releases"]) if _RELEASED.exists() else set()
TESTS = {"config.yml", "sanity", "unit"}

# Folders of plugins/ whose files ansible-doc knows by name.
PLUGIN_TYPES = {"modules": "module", "filter": "filter", "lookup": "lookup", "callback": "callback"}
PLUGINS = f"ansible_collections.{COLLECTION}.plugins"

# Prints the names of the filters of a Python module.
FILTERS = """
import importlib, json, sys
print(json.dumps(sorted(importlib.import_module(sys.argv[1]).FilterModule().filters())))
"""

# Prints the argument specification that a module hands to AnsibleModule, by running the module up to there.
SPECIFICATION = """
import json, runpy, sys
from ansible.module_utils import basic

class Reached(Exception):
    pass

def stop(self, argument_spec, *positional, **named):
    raise Reached(json.dumps(argument_spec, default=str))

basic.AnsibleModule.__init__ = stop
try:
    runpy.run_module(sys.argv[1], run_name="__main__")
except Reached as reached:
    print(reached)
"""


def _plugin_files(folder: str) -> list[Path]:
    return sorted(path for path in (CHECKOUT / "plugins" / folder).glob("*.py") if not path.name.startswith("_"))


def _role_names() -> list[str]:
    return sorted(path.parent.parent.name for path in (CHECKOUT / "roles").glob("*/tasks/main.yml"))


def _playbook_names() -> list[str]:
    return sorted(path.stem for path in (CHECKOUT / "playbooks").glob("*.yml"))


def _members(tarball: Path) -> list[tarfile.TarInfo]:
    with tarfile.open(tarball) as archive:
        return archive.getmembers()


def _ansible_doc(artifact: ModuleType, installed: Any, *arguments: str) -> dict[str, Any]:
    done = artifact.run(
        "ansible-doc", "--json", *arguments, cwd=installed.collections, collections=installed.collections
    )
    return json.loads(done.stdout)


def test_tarball_has_only_names_that_were_chosen(installed: Any) -> None:
    names = [member.name for member in _members(installed.tarball)]
    assert {name.split("/")[0] for name in names} <= TOP_LEVEL
    assert {name.split("/")[1] for name in names if name.startswith("tests/")} <= TESTS


def test_tarball_has_only_files_that_git_knows_or_would_take(installed: Any) -> None:
    if not (CHECKOUT / ".git").exists():
        pytest.skip("this is not a Git checkout")
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=CHECKOUT,
        check=True,
        text=True,
        stdout=subprocess.PIPE,
    )
    known = set(listed.stdout.split("\0")) | {"MANIFEST.json", "FILES.json"}
    assert {member.name for member in _members(installed.tarball) if not member.isdir()} <= known


def test_tarball_has_no_links(installed: Any) -> None:
    assert [member.name for member in _members(installed.tarball) if member.issym() or member.islnk()] == []


def test_every_plugin_role_and_playbook_of_the_checkout_is_in_the_tarball(installed: Any) -> None:
    shipped = {member.name for member in _members(installed.tarball)}
    wanted = {
        str(path.relative_to(CHECKOUT))
        for folder in ("plugins", "roles", "playbooks", "meta")
        for path in (CHECKOUT / folder).rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    assert wanted <= shipped


def test_metadata_names_what_it_carries(installed: Any) -> None:
    manifest = json.loads((installed.collection / "MANIFEST.json").read_text())["collection_info"]
    assert f"{manifest['namespace']}.{manifest['name']}" == COLLECTION
    assert set(manifest["dependencies"]) == {"community.docker"}
    for name in ("readme", "license_file"):
        assert (installed.collection / manifest[name]).is_file(), f"{name}: {manifest[name]} is not in the tarball"


def test_execution_environment_files_exist(installed: Any) -> None:
    meta = installed.collection / "meta"
    definition = yaml.safe_load((meta / "execution-environment.yml").read_text())
    for name in definition["dependencies"].values():
        # An execution environment's builder reads them relative to the definition first.
        assert (meta / name).is_file() or (installed.collection / name).is_file(), name
    python = (meta / "ee-requirements.txt").read_text()
    assert "ansible-core" not in [line.split(">")[0] for line in python.splitlines()]


def test_context_of_an_execution_environment_is_made(artifact: ModuleType, installed: Any, tmp_path: Path) -> None:
    """As `make execution-environment` does, with the tarball of these tests, and without making an image."""
    shutil.copy(CHECKOUT / "execution-environment.yml", tmp_path)
    shutil.copytree(CHECKOUT / "meta", tmp_path / "meta")
    (tmp_path / "dist").mkdir()
    shutil.copy(installed.tarball, tmp_path / "dist")
    artifact.run("ansible-builder", "create", "--context", "context", cwd=tmp_path)
    built = tmp_path / "context" / "_build"
    assert (built / "collections" / installed.tarball.name).read_bytes() == installed.tarball.read_bytes()
    collections = {
        entry["name"]: entry.get("version", entry.get("type"))
        for entry in yaml.safe_load((built / "requirements.yml").read_text())["collections"]
    }
    dependencies = yaml.safe_load((CHECKOUT / "galaxy.yml").read_text())["dependencies"]
    assert collections == {f"collections/{installed.tarball.name}": "file", **dependencies}
    wanted = yaml.safe_load((CHECKOUT / "collections" / "requirements.yml").read_text())["collections"]
    assert {entry["name"]: entry["version"] for entry in wanted} == dependencies
    for name, ours in (("requirements.txt", "ee-requirements.txt"), ("bindep.txt", "ee-bindep.txt")):
        assert _words(built / name) == _words(CHECKOUT / "meta" / ours) != set()


def test_an_execution_environment_that_has_the_collection_learns_what_it_needs(
    artifact: ModuleType, installed: Any
) -> None:
    told = artifact.run("ansible-builder", "introspect", str(installed.collections), cwd=installed.collections).stdout
    needs = yaml.safe_load(told)
    # Each line ends with the collection that it comes from.
    python = {line.partition("#")[0].strip() for line in needs["python"]}
    assert python == {line.replace(" ", "") for line in _words(CHECKOUT / "meta" / "ee-requirements.txt")}
    assert {line.split()[0] for line in needs["system"]} == {
        line.split()[0] for line in _words(CHECKOUT / "meta" / "ee-bindep.txt")
    }


def _words(path: Path) -> set[str]:
    """The lines of a requirements file without comments."""
    return {line.strip() for line in path.read_text().splitlines() if line.strip() and not line.startswith("#")}


def test_readme_has_the_parts_that_a_certified_collection_has() -> None:
    headings = [line[3:].strip().lower() for line in (CHECKOUT / "README.md").read_text().splitlines()
                if line.startswith("## ")]  # fmt: skip
    parts = ("description", "requirements", "installation", "use cases", "testing", "support", "release notes",
             "related information", "licen")  # fmt: skip
    found = [next((part for part in parts if heading.startswith(part)), "") for heading in headings]
    assert tuple(part for part in found if part) == parts


def _python(artifact: ModuleType, installed: Any, program: str, *arguments: str) -> Any:
    """Run a program that imports from the installed collection and return the JSON it prints."""
    done = subprocess.run(
        [sys.executable, "-c", program, *arguments],
        cwd=installed.collections,
        env={**artifact.environment(), "PYTHONPATH": str(installed.collections)},
        check=False,
        text=True,
        stdin=subprocess.DEVNULL,
        capture_output=True,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


_DOCUMENTED: dict[tuple[str, ...], dict[str, Any]] = {}


def _documented(artifact: ModuleType, installed: Any, kind: str, names: list[str]) -> dict[str, Any]:
    """What ansible-doc tells of all these names, asked once for all: most of its time is its start."""
    wanted = (kind, *names)
    if wanted not in _DOCUMENTED:
        _DOCUMENTED[wanted] = _ansible_doc(artifact, installed, "--type", kind, *names)
        assert set(_DOCUMENTED[wanted]) == set(names)
    return _DOCUMENTED[wanted]


@pytest.mark.parametrize("folder", sorted(folder for folder in PLUGIN_TYPES if _plugin_files(folder)))
def test_ansible_doc_lists_every_plugin(folder: str, artifact: ModuleType, installed: Any) -> None:
    names = {path.stem for path in _plugin_files(folder)}
    if folder == "filter":
        # One file may hold several.
        names = set()
        for path in _plugin_files(folder):
            names |= set(_python(artifact, installed, FILTERS, f"{PLUGINS}.filter.{path.stem}"))
    listed = _ansible_doc(artifact, installed, "--list", "--type", PLUGIN_TYPES[folder], COLLECTION)
    assert {f"{COLLECTION}.{name}" for name in names} == set(listed)
    assert all(listed.values()), "a plugin has no short description"
    for name, documentation in _documented(artifact, installed, PLUGIN_TYPES[folder], sorted(listed)).items():
        assert documentation["examples"], f"{name} has no example"
        assert documentation["return"], f"{name} does not say what it returns"
        assert documentation["doc"]["version_added"] in RELEASES, f"{name} comes with a version that is none"


def _undocumented(specification: dict[str, Any], documented: dict[str, Any], where: str = "") -> list[str]:
    """Return the options that only one of specification and documentation knows, nested ones with their path."""
    found = [f"{where}{name}" for name in sorted(set(specification) ^ set(documented))]
    for name in sorted(set(specification) & set(documented)):
        nested = specification[name].get("options") or {}
        found += _undocumented(nested, documented[name].get("suboptions") or {}, f"{where}{name}.")
        if not documented[name].get("description"):
            found.append(f"{where}{name}: description")
    return found


@pytest.mark.parametrize("module_file", _plugin_files("modules"), ids=lambda path: path.stem)
def test_every_option_of_a_module_is_documented(module_file: Path, artifact: ModuleType, installed: Any) -> None:
    name = f"{COLLECTION}.{module_file.stem}"
    names = [f"{COLLECTION}.{path.stem}" for path in _plugin_files("modules")]
    documentation = _documented(artifact, installed, "module", names)[name]
    if (CHECKOUT / "plugins" / "action" / module_file.name).exists() and "AnsibleModule" not in module_file.read_text():
        pytest.skip("this module is only the documentation of an action plugin")
    specification = _python(artifact, installed, SPECIFICATION, f"{PLUGINS}.modules.{module_file.stem}")
    assert _undocumented(specification, documentation["doc"].get("options") or {}) == []


@pytest.mark.parametrize("role", _role_names())
def test_every_role_describes_its_arguments(role: str, artifact: ModuleType, installed: Any) -> None:
    name = f"{COLLECTION}.{role}"
    names = [f"{COLLECTION}.{other}" for other in _role_names()]
    entry_points = _documented(artifact, installed, "role", names)[name]["entry_points"]
    for entry_point in entry_points.values():
        assert entry_point["short_description"]
        assert entry_point["description"]
    defaults_file = CHECKOUT / "roles" / role / "defaults" / "main.yml"
    if defaults_file.exists():
        defaults = set(yaml.safe_load(defaults_file.read_text()) or {})
        described = {option for entry_point in entry_points.values() for option in entry_point["options"]}
        assert sorted(name for name in defaults - described if name[0] != "_") == []
    assert (installed.collection / "roles" / role / "README.md").is_file()


@pytest.mark.parametrize("playbook", _playbook_names())
def test_playbook_is_found_and_read_by_its_full_name(
    playbook: str, artifact: ModuleType, installed: Any, tmp_path: Path
) -> None:
    inventory = tmp_path / "hosts.yml"
    inventory.write_text("---\nall:\n  hosts:\n    login:\n      ansible_connection: local\n")
    artifact.run(
        "ansible-playbook",
        f"{COLLECTION}.{playbook}",
        "--syntax-check",
        "--inventory",
        str(inventory),
        cwd=tmp_path,
        collections=installed.collections,
    )


def _play(artifact: ModuleType, installed: Any, folder: Path, playbook: str, *arguments: str) -> Any:
    """A playbook by its full name, in a folder with nothing but an inventory of one's own; the result and its words."""
    inventory = folder / "hosts.yml"
    inventory.write_text(
        "---\nall:\n  children:\n    slurm_login:\n      hosts:\n        login:\n          ansible_connection: local\n"
        f"          ansible_python_interpreter: {sys.executable}\n          dgxc_shared_root: {folder}\n"
    )
    done = artifact.run(
        "ansible-playbook", f"{COLLECTION}.{playbook}", "--inventory", str(inventory), *arguments,
        cwd=folder, collections=installed.collections, check=False,
    )  # fmt: skip
    return done.returncode, " ".join((done.stdout + done.stderr).split())


def test_a_workload_away_from_the_checkout_names_what_cannot_be(
    artifact: ModuleType, installed: Any, tmp_path: Path
) -> None:
    code, output = _play(artifact, installed, tmp_path, "nemo_gpt3", "--check", "-e", "nemo_gpt3_nodes=0")
    assert code != 0
    assert "nemo_gpt3_nodes" in output, output
    assert [path.name for path in tmp_path.iterdir()] == ["hosts.yml"]


def test_the_doctor_works_away_from_the_checkout(artifact: ModuleType, installed: Any, tmp_path: Path) -> None:
    report = tmp_path / "report.json"
    code, output = _play(
        artifact, installed, tmp_path, "preflight", "-e", f"preflight_report={report}", "-e", "dgxc_slurm_account=none"
    )
    checks = {check["id"]: check["verdict"] for check in json.loads(report.read_text())["checks"]}
    assert checks["login.ssh"] == checks["login.python"] == "ok", output
    # There is no Slurm with that account, whatever this machine has.
    assert code != 0
    assert "error" in checks.values()


def test_galaxy_importer_takes_the_tarball(artifact: ModuleType, installed: Any, tmp_path: Path) -> None:
    configuration = tmp_path / "galaxy-importer.cfg"
    configuration.write_text(
        "[galaxy-importer]\nCHECK_REQUIRED_TAGS = True\nRUN_ANSIBLE_DOC = True\nRUN_ANSIBLE_LINT = False\n"
        "OFFLINE_ANSIBLE_LINT = True\nRUN_ANSIBLE_TEST = False\nLOG_LEVEL_MAIN = INFO\n"
    )
    done = subprocess.run(
        [sys.executable, "-m", "galaxy_importer.main", str(installed.tarball)],
        cwd=tmp_path,
        env={**artifact.environment(), "GALAXY_IMPORTER_CONFIG": str(configuration)},
        check=False,
        text=True,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    )
    assert done.returncode == 0, done.stdout
    complaints = [line for line in done.stdout.splitlines() if line.startswith(("ERROR", "WARNING"))]
    assert complaints == [], done.stdout
