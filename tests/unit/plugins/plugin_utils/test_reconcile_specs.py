# Copyright: (c) 2026, The dgxc.workloads developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from ansible_collections.dgxc.workloads.plugins.module_utils._files import canonical_json
from ansible_collections.dgxc.workloads.plugins.plugin_utils import _reconcile_specs
from ansible_collections.dgxc.workloads.plugins.plugin_utils._reconcile_collection import (
    collection_version,
    commit_of,
    read_schema,
    site_facts,
    workload_variables,
)
from ansible_collections.dgxc.workloads.plugins.plugin_utils._reconcile_specs import Specs, check, digest, read_specs

SCHEMA = read_schema()
GOOD = "name: a\nworkload: nemo_gpt3\n"


def read(tmp_path: Path, **files: str) -> Specs:
    folder = tmp_path / "runs"
    folder.mkdir()
    for name, text in files.items():
        (folder / f"{name}.yml").write_text(text)
    return read_specs(folder, SCHEMA, ["oci", "azure"], lambda workload: {f"{workload}_nodes", f"{workload}_max_steps"})


def texts(found: Specs) -> list[str]:
    return [problem.as_json()["text"] for problem in found.problems]


def test_a_spec_gets_defaults_place_and_digest(tmp_path: Path):
    found = read(tmp_path, one="# a comment\n" + GOOD)
    (spec,) = found.specs
    assert found.problems == []
    assert (spec["file"], spec["line"]) == ("runs/one.yml", 2)
    assert (spec["state"], spec["resubmit"], spec["max_attempts"], spec["on_change"]) == (
        "completed", "never", 3, "leave",
    )  # fmt: skip
    assert spec["variables"] == {}
    assert len(spec["digest"]) == 64


def test_documents_and_lists_are_specs_too(tmp_path: Path):
    found = read(tmp_path, one=GOOD + "---\n- {name: b, workload: alma}\n- {name: c, workload: vivit}\n---\n")
    assert [spec["name"] for spec in found.specs] == ["a", "b", "c"]


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        (GOOD, "workload:   nemo_gpt3 # nothing\nname: 'a'\n", True),
        (GOOD, GOOD + "owner: me\nresubmit: on_failure\nprune: true\nstate: absent\n", True),
        (GOOD, GOOD + "variables: {nemo_gpt3_nodes: 2}\n", False),
        (GOOD + "variables: {nemo_gpt3_nodes: 2}\n", GOOD + "variables: {nemo_gpt3_nodes: '2'}\n", False),
    ],
)
def test_the_digest_is_that_of_what_makes_the_run(tmp_path: Path, one: str, other: str, same: bool):
    digests = []
    for index, text in enumerate((one, other)):
        folder = tmp_path / str(index)
        folder.mkdir()
        digests.append(read(folder, one=text).specs[0]["digest"])
    assert (digests[0] == digests[1]) is same


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("name: a\n", "runs/x.yml:1: has no workload; add one."),
        ("workload: alma\nname: A b\n", "runs/x.yml:2: name: is 'A b'; it must match"),
        ("name: a\nworkload: nemo_gpt4\n", "runs/x.yml:2: workload: is 'nemo_gpt4'; give one of"),
        ("name: a\nworkload: alma\nresubmit: always\n", "runs/x.yml:3: resubmit: is 'always'; give one of never,"),
        (GOOD + "max_attempts: 0\n", "runs/x.yml:3: max_attempts: is 0; the least is 1."),
        (GOOD + "max_attempts: 1000\n", "runs/x.yml:3: max_attempts: is 1000; the most is 100."),
        (GOOD + "max_attempts: yes\n", "runs/x.yml:3: max_attempts: is True; give a whole number."),
        (GOOD + "prune: 1\n", "runs/x.yml:3: prune: is 1; give true or false."),
        (GOOD + "clusters: []\n", "runs/x.yml:3: clusters: is empty;"),
        (GOOD + "clusters:\n  - oci\n  - azur\n", "runs/x.yml:5: clusters.1: 'azur' is no host or group"),
        (GOOD + "clusters: oci\n", "runs/x.yml:3: clusters: is 'oci'; give a list."),
        (GOOD + "varables: {}\n", "runs/x.yml:3: varables: is not a key of a spec; write variables."),
        (GOOD + "variables:\n  alma_nodes: 1\n", "runs/x.yml:4: variables.alma_nodes: is not a variable of nemo_gpt3; its"),
        (GOOD + "variables:\n\n  nemo_gpt3_node: 1\n", "runs/x.yml:5: variables.nemo_gpt3_node: is not a variable of nemo_gpt3; write"),
        (GOOD + "variables: {nemo_gpt3_maxsteps: 1}\n", "runs/x.yml:3: variables.nemo_gpt3_maxsteps: is not a variable of nemo_gpt3; write nemo_gpt3_max_s"),
        (GOOD + "variables: {nemo_gpt3_epoch: 1}\n", "runs/x.yml:3: variables.nemo_gpt3_epoch: is not a variable of nemo_gpt3; take it out"),
        (GOOD + "variables: {nemo_gpt3_resubmit: never}\n", "runs/x.yml:3: variables.nemo_gpt3_resubmit: is a field of"),
        (GOOD + "baseline: {seconds_per_step: 0}\n", "runs/x.yml:3: baseline.seconds_per_step: is 0; it must be more"),
        (GOOD + "baseline: {tolerance: 1}\n", "runs/x.yml:3: baseline: has no seconds_per_step; add one."),
        ("just words\n", "runs/x.yml:1: is 'just words'; give a mapping."),
        (GOOD + "owner: me\nowner: you\n", "runs/x.yml:4: cannot be read: the key 'owner' is given twice"),
        ("name: [a\n", "runs/x.yml:2: cannot be read:"),
        (GOOD + "variables: {nemo_gpt3_nodes: 2026-01-01}\n", "runs/x.yml:3: variables.nemo_gpt3_nodes: is a date, which JSON has no"),
        (GOOD + "variables: {nemo_gpt3_nodes: !vault x}\n", "runs/x.yml:3: cannot be read: could not determine a constr"),
    ],
)  # fmt: skip
def test_an_error_names_file_line_and_key(tmp_path: Path, text: str, told: str):
    found = read(tmp_path, x=text)
    assert texts(found)[0].startswith(told), texts(found)
    assert found.specs == []


def test_an_error_harms_no_other_spec(tmp_path: Path):
    found = read(tmp_path, good="name: good\nworkload: alma\n", bad="name: bad\nworkload: alm\n", cut="name: [\n")
    assert [spec["name"] for spec in found.specs] == ["good"]
    assert found.broken_names == ["bad"]
    assert not found.complete


NODES = GOOD + "variables:\n  nemo_gpt3_nodes: "
ON = "is read as true or false by YAML: quote it"
ALIASES = "a: &a [x,x,x,x,x,x,x,x,x,x]\n" + "".join(
    f"{new}: &{new} [{','.join([f'*{old}'] * 10)}]\n" for old, new in zip("abcdefg", "bcdefgh", strict=True)
)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (NODES + "{on: 1, FOO: 2}\n", f"runs/x.yml:4: cannot be read: the key 'on' {ON}"),
        (NODES + "{FOO: 2,\n    1: 1}\n", "runs/x.yml:5: cannot be read: the key '1' is read as a number by YAML: quote it"),
        (NODES + "{~: 3, a: 2}\n", "runs/x.yml:4: cannot be read: the key '~' is read as null by YAML: quote it"),
        (NODES + "{1.5: 3}\n", "runs/x.yml:4: cannot be read: the key '1.5' is read as a number by YAML: quote it"),
        (NODES + "{2026-01-01: 3}\n", "runs/x.yml:4: cannot be read: the key '2026-01-01' is read as no text by YAML"),
        (NODES + "{? [a] : 1}\n", "runs/x.yml:4: cannot be read: a key is a list or a mapping; give text"),
        ("on: 1\n" + GOOD, f"runs/x.yml:1: cannot be read: the key 'on' {ON}"),
        (NODES + "{FOO: .nan}\n", "runs/x.yml:4: variables.nemo_gpt3_nodes.FOO: is nan, which is no number"),
        (NODES + "[1, -.inf]\n", "runs/x.yml:4: variables.nemo_gpt3_nodes.1: is -inf, which is no number"),
        (NODES + '{FOO: "\\ud800"}\n', "runs/x.yml:4: variables.nemo_gpt3_nodes.FOO: is '\\ud800', which holds half a"),
        (NODES + '{"\\ud800": 1}\n', "runs/x.yml:4: variables.nemo_gpt3_nodes.\\ud800: holds half a character"),
        (NODES + f"{2**64}\n", "runs/x.yml:4: variables.nemo_gpt3_nodes: is a whole number of 65 bits"),
        (NODES + "0x" + "f" * 5000 + "\n", "runs/x.yml:4: variables.nemo_gpt3_nodes: is a whole number of 20000 bits"),
        (NODES + "!!binary aGk=\n", "runs/x.yml:4: variables.nemo_gpt3_nodes: is a bytes, which JSON has no word for"),
        (NODES + "!!set {a, b}\n", "runs/x.yml:4: variables.nemo_gpt3_nodes: is a set, which JSON has no word for"),
        (NODES + "9" * 5000 + "\n", "runs/x.yml:1: cannot be read: Exceeds the limit"),
        (NODES + "!!bool maybe\n", "runs/x.yml:1: cannot be read: KeyError: 'maybe'"),
        (NODES + "!!int ''\n", "runs/x.yml:1: cannot be read: IndexError: string index out of range"),
        (NODES + "!!timestamp x\n", "runs/x.yml:1: cannot be read: AttributeError: "),
        (NODES + "&a [*a]\n", "runs/x.yml:1: cannot be read: it is nested too deeply, or holds itself"),
        (NODES + "[" * 3000 + "]" * 3000 + "\n", "runs/x.yml:1: cannot be read: it is nested too deeply"),
        (ALIASES, "runs/x.yml:1: cannot be read: it holds more than 100000 values"),
        (GOOD + "owner: " + "x" * (1 << 20) + "\n", "runs/x.yml:1: cannot be read: it has 1048612 bytes; the most is 1048576"),
        (GOOD + "owner: \0\n", "runs/x.yml:1: cannot be read: unacceptable character #x0000: special characters are not allowed"),
        (GOOD + "baseline: {seconds_per_step: .nan}\n", "runs/x.yml:3: baseline.seconds_per_step: is nan, which is no num"),
        (GOOD + "baseline: {seconds_per_step: .inf}\n", "runs/x.yml:3: baseline.seconds_per_step: is inf, which is no num"),
        (GOOD + "owner: .nan\n", "runs/x.yml:3: owner: is nan, which is no number"),
        ("name: |\n  a\nworkload: nemo_gpt3\n", "runs/x.yml:1: name: is 'a\\n'; it must match"),
        (GOOD + 'clusters: ["oci\\n"]\n', "runs/x.yml:3: clusters.0: is 'oci\\n'; it must match"),
        ('name: "\\ud800"\nworkload: alma\n', "runs/x.yml:1: name: is '\\ud800', which holds half a character"),
    ],
    ids=range(30),
)  # fmt: skip
def test_whatever_a_file_holds_only_its_spec_is_broken(tmp_path: Path, text: str, told: str):
    found = read(tmp_path, good="name: good\nworkload: alma\n", x=text)
    assert texts(found)[0].startswith(told), texts(found)[0][:300]
    assert [spec["name"] for spec in found.specs] == ["good"]
    # All of it can be sent and written down.
    for told_too in (found.specs, found.broken_names, [problem.as_json() for problem in found.problems]):
        assert canonical_json(told_too).encode()


def test_in_a_file_of_several_only_the_spec_that_cannot_be_written_down_is_broken(tmp_path: Path):
    found = read(tmp_path, x=NODES + ".nan\n---\nname: b\nworkload: alma\n")
    assert ([spec["name"] for spec in found.specs], found.broken_names, found.complete) == (["b"], ["a"], True)


def test_merged_mappings_are_read(tmp_path: Path):
    found = read(tmp_path, x="- &a {name: a, workload: alma, owner: me}\n- {<<: *a, name: b}\n")
    assert texts(found) == []
    assert [(spec["name"], spec["owner"]) for spec in found.specs] == [("a", "me"), ("b", "me")]


def test_an_error_that_nobody_expected_is_one_of_its_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    real: Callable[..., None] = _reconcile_specs._take

    def take(node: object, *rest: object) -> None:
        if "bad" in str(node):
            raise ZeroDivisionError
        real(node, *rest)

    monkeypatch.setattr(_reconcile_specs, "_take", take)
    found = read(tmp_path, bad="name: bad\nworkload: alma\n", good="name: good\nworkload: alma\n")
    assert texts(found) == ["runs/bad.yml:1: cannot be read: ZeroDivisionError: "]
    assert [spec["name"] for spec in found.specs] == ["good"]
    assert not found.complete


def test_a_file_whose_name_or_bytes_are_no_text_harms_no_other(tmp_path: Path):
    folder = tmp_path / "runs"
    folder.mkdir()
    (folder / "good.yml").write_text(GOOD)
    (folder / "bytes.yml").write_bytes(b"name: \xff\n")
    with open(os.fsencode(folder) + b"/\xff.yml", "w") as stream:
        stream.write("name: [")
    found = read_specs(folder, SCHEMA)
    assert [spec["name"] for spec in found.specs] == ["a"]
    assert [text.split(":")[0] for text in texts(found)] == ["runs/\\xff.yml", "runs/bytes.yml"]
    assert "it is no UTF-8" in texts(found)[1]
    assert not found.complete


def test_a_file_that_is_no_regular_one_stops_nothing(tmp_path: Path):
    folder = tmp_path / "runs"
    folder.mkdir()
    os.mkfifo(folder / "pipe.yml")
    (folder / "zero.yml").symlink_to("/dev/zero")
    (folder / "gone.yml").symlink_to("nowhere")
    (folder / "good.yml").write_text(GOOD)
    found = read_specs(folder, SCHEMA)
    assert texts(found) == [
        "runs/gone.yml:1: cannot be read: No such file or directory",
        "runs/pipe.yml:1: cannot be read: it is no regular file",
        "runs/zero.yml:1: cannot be read: it is no regular file",
    ]
    assert ([spec["name"] for spec in found.specs], found.complete) == (["a"], False)


def test_folders_that_cannot_be_looked_into_are_no_removals(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    folder = tmp_path / "runs"
    for name in ("closed", "empty", "kept", ".hidden"):
        (folder / name).mkdir(parents=True)
    (folder / "kept" / ".gitkeep").write_text("")
    (tmp_path / "other").mkdir()
    (folder / "link").symlink_to("../other")
    (folder / "lost").symlink_to("../nowhere")
    (folder / "good.yml").write_text(GOOD)
    real = os.scandir

    def scandir(path: str) -> object:
        # Root, who runs tests, may read everything.
        if str(path).endswith("closed"):
            raise PermissionError(13, "Permission denied", path)
        return real(path)

    monkeypatch.setattr(os, "scandir", scandir)
    found = read_specs(folder, SCHEMA)
    assert texts(found) == [
        "runs/closed:1: cannot be read: Permission denied.",
        "runs/empty:1: is empty, as a submodule is that was not fetched; fetch it, or take the folder out.",
        "runs/link:1: is a link to a folder, which is not followed; put the folder itself here.",
        "runs/lost:1: is a link that leads nowhere; mend it, or take it out.",
    ]
    assert ([spec["name"] for spec in found.specs], found.complete) == (["a"], False)


@pytest.mark.parametrize(
    ("text", "complete"),
    [
        (GOOD + "max_attempts: 0\n", True),
        ("workload: alma\n", False),
        ("- name: 3\n", False),
        # It had another name before, which is missing now.
        ("name: Smoke test\nworkload: alma\n", False),
        ("name: |\n  a\nworkload: alma\n", False),
        ("name: Smoke test\nworkload: alma\nowner: .nan\n", False),
        ("name: a\nworkload: alma\nowner: .nan\n", True),
        (GOOD + "---\n" + GOOD, False),
    ],
)
def test_a_spec_without_a_readable_name_may_be_any_of_those_that_are_missing(tmp_path: Path, text: str, complete: bool):
    assert read(tmp_path, x=text).complete is complete


def test_a_name_given_twice_is_an_error_of_both(tmp_path: Path):
    found = read(tmp_path, one=GOOD, two="\n" + GOOD)
    assert found.specs == []
    assert [text.split(": ")[0] for text in texts(found)] == ["runs/one.yml:1", "runs/two.yml:2"]
    assert "runs/one.yml:1, runs/two.yml:2" in texts(found)[0]
    # One of them had another name before, whose job must not be taken for one that is not wanted any more.
    assert not found.complete


def test_other_files_and_hidden_ones_are_left_out(tmp_path: Path):
    folder = tmp_path / "runs"
    (folder / "team").mkdir(parents=True)
    (folder / ".old").mkdir()
    (folder / "team" / "a.yaml").write_text(GOOD)
    (folder / ".old" / "b.yml").write_text("name: [")
    (folder / "README.md").write_text("words")
    assert [spec["name"] for spec in read_specs(folder, SCHEMA).specs] == ["a"]


def test_the_check_agrees_with_a_full_implementation_of_json_schema():
    jsonschema = pytest.importorskip("jsonschema")
    validator = jsonschema.Draft202012Validator({"$ref": "#/$defs/spec", "$defs": SCHEMA["$defs"]})
    jsonschema.Draft202012Validator.check_schema(SCHEMA)
    full = {
        "name": "a", "workload": "alma", "clusters": ["oci"], "variables": {}, "state": "absent",
        "resubmit": "on_failure", "max_attempts": 3, "on_change": "cancel", "prune": True, "owner": "me",
        "description": "", "baseline": {"seconds_per_step": 1.5, "tolerance": 0},
    }  # fmt: skip
    assert validator.is_valid(full)
    assert list(check(full, SCHEMA["$defs"]["spec"])) == []
    values = [None, True, 0, -1, 1.5, 101, "x", "A", [], ["x"], ["x y"], [1], {}, {"seconds_per_step": -1}]
    for name in full:
        for value in values:
            if name == "variables" and value and isinstance(value, dict):
                continue  # Whose variables they are is told by a sentence of its own.
            spec = {**full, name: value}
            ours = not list(check(spec, SCHEMA["$defs"]["spec"]))
            assert ours == validator.is_valid(spec), (name, value)
        without = {key: item for key, item in full.items() if key != name}
        assert (not list(check(without, SCHEMA["$defs"]["spec"]))) == validator.is_valid(without), name


@pytest.mark.parametrize(
    ("workload", "variables", "good"),
    [
        ("alma", {"alma_nodes": [1, 2]}, True),
        ("alma", {"alma_node": 1}, False),
        ("alma", {"vivit_matrix": ["1x1"]}, False),
        ("alma", {"alma_resubmit": "never"}, False),
        ("whisper_qlora", {"whisper_qlora_cpu": True}, True),
    ],
)
def test_an_editor_knows_the_variables_of_each_workload(workload: str, variables: dict[str, object], good: bool):
    jsonschema = pytest.importorskip("jsonschema")
    spec = {"name": "a", "workload": workload, "variables": variables}
    assert jsonschema.Draft202012Validator(SCHEMA).is_valid(spec) is good


def test_the_variables_of_a_workload_are_those_of_its_role():
    assert "nemo_gpt3_max_steps" in (workload_variables("nemo_gpt3") or ())
    assert workload_variables("nothing") is None


def test_the_version_comes_from_either_file(tmp_path: Path):
    assert collection_version(str(tmp_path)) == "unknown"
    (tmp_path / "galaxy.yml").write_text("version: 1.2.3\n")
    assert collection_version(str(tmp_path)) == "1.2.3"
    (tmp_path / "MANIFEST.json").write_text('{"collection_info": {"version": "4.5.6"}}')
    assert collection_version(str(tmp_path)) == "4.5.6"


def test_site_facts_are_what_counts_for_the_workload():
    def template(value: object) -> object:
        if value == "bad":
            raise ValueError("no")
        return value

    variables = {"dgxc_a": 1, "alma_b": "bad", "alma_c": 2, "vivit_d": 3, "inventory_hostname": "x"}
    assert site_facts(variables, "alma", template, {"alma_c": 9}) == {
        "dgxc_a": 1,
        "alma_b": "cannot be evaluated: ValueError",
    }


@pytest.mark.parametrize(
    ("value", "fact"),
    [
        (float("nan"), "cannot be evaluated: ValueError"),
        ({"a": "\ud800"}, "cannot be evaluated: UnicodeEncodeError"),
        ({True: 1, "b": 2}, {"true": 1, "b": 2}),
    ],
)
def test_a_fact_of_which_no_digest_can_be_made_stops_nothing(value: object, fact: object):
    facts = site_facts({"dgxc_a": value}, "alma", lambda item: item, {})
    assert facts == {"dgxc_a": fact}
    assert digest(facts)


def test_site_facts_are_evaluated_once_for_all_specs():
    asked: list[object] = []

    def template(value: object) -> object:
        asked.append(value)
        return value

    known: dict[str, object] = {}
    variables = {"dgxc_a": 1, "alma_b": 2, "vivit_c": 3}
    for _spec in range(3):
        assert site_facts(variables, "alma", template, {}, known) == {"dgxc_a": 1, "alma_b": 2}
    assert site_facts(variables, "vivit", template, {"dgxc_a": 9}, known) == {"vivit_c": 3}
    assert sorted(map(str, asked)) == ["1", "2", "3"]


def test_a_folder_without_git_has_no_commit(tmp_path: Path):
    assert commit_of(str(tmp_path)) == ""
