# Copyright: (c) 2026, The dgxc.workloads developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Tests of packing a run."""

from __future__ import annotations

import hashlib
import json
import os
import stat
import tarfile
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.dgxc.workloads.plugins.module_utils import _run_archive
from ansible_collections.dgxc.workloads.plugins.module_utils._run_archive import remove_secrets, run_archive

from ..report_rows import write_run

KEY = "-----{} PRIVATE KEY-----"
HF = "hf_" + "a1B2c3D4e5" * 3


def pack(folder: Path, dest: Path, check_mode: bool = False, **options: Any) -> dict[str, Any]:
    asked = {"run_dir": str(folder), "dest": str(dest), "max_file_size": 1 << 20, "exclude": [], **options}
    return run_archive(asked, check_mode)


def content(path: str) -> dict[str, bytes]:
    with tarfile.open(path) as archive:
        found = {}
        for member in archive.getmembers():
            stream = archive.extractfile(member)
            assert stream is not None
            found[member.name.split("/", 1)[1]] = stream.read()
        return found


@pytest.fixture
def run(tmp_path: Path) -> Path:
    folder = write_run(tmp_path / "runs", "alma-n2", {"verdict": "succeeded"})
    attempt = folder / "attempt-1"
    (folder / "record.json").write_text("{}")
    (attempt / "train-7.out").write_text(f"logging in with {HF}\nloss 1.0\n")
    for name in ("output/checkpoint-512/x.json", "output/adapter_model.bin", "output/trainer_state.json", "data/a.txt",
                 "output/model.safetensors", "output/tokenizer.json", ".netrc", "kaggle.json", "my_token", "hub/x/y",
                 ".cache/z", "output/train_results.json"):  # fmt: skip
        path = attempt / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("something")
    (attempt / "link.out").symlink_to("/etc/passwd")
    (attempt / "linked").symlink_to("/etc")
    os.mkfifo(attempt / "pipe")
    return folder


def test_what_is_packed_and_what_is_not(run: Path, tmp_path: Path) -> None:
    result = pack(run, tmp_path)
    assert (result["failed"], result["changed"]) == (False, True)
    assert result["dest"] == str(tmp_path / "alma-n2-0f0f0f0f0f0f.tar.gz")
    files = content(result["dest"])
    assert sorted(files) == sorted([
        "MANIFEST.json", "record.json", "attempt-1/intent.json", "attempt-1/job.json", "attempt-1/result.json",
        "attempt-1/train.sbatch", "attempt-1/train-7.out", "attempt-1/output/trainer_state.json",
        "attempt-1/output/tokenizer.json", "attempt-1/output/train_results.json",
    ])  # fmt: skip
    assert files["attempt-1/train-7.out"] == b"logging in with [removed]\nloss 1.0\n"
    manifest = json.loads(files["MANIFEST.json"])
    assert manifest["run"] == "alma-n2-0f0f0f0f0f0f"
    for entry in manifest["files"]:
        data = files[entry["path"]]
        assert (entry["size"], entry["sha256"]) == (len(data), hashlib.sha256(data).hexdigest())
    assert {entry["path"]: entry.get("removed") for entry in manifest["files"]}["attempt-1/train-7.out"] == 1
    reasons = {entry["path"]: entry["reason"] for entry in manifest["left_out"]}
    assert reasons["attempt-1/output/checkpoint-512/"] == "a checkpoint, data or a cache by its name"
    assert reasons["attempt-1/.netrc"] == "a secret by its name"
    assert (reasons["attempt-1/link.out"], reasons["attempt-1/linked"]) == ("a link", "a link")
    assert reasons["attempt-1/pipe"] == "no regular file"
    assert len(reasons) == 12
    assert manifest["files"] == result["files"]
    assert stat.S_IMODE(os.stat(result["dest"]).st_mode) == 0o600
    assert [name for name in os.listdir(tmp_path) if name.startswith(".")] == []


def test_a_second_archive_changes_nothing_and_a_new_line_does(run: Path, tmp_path: Path) -> None:
    first = pack(run, tmp_path)
    again = pack(run, tmp_path)
    assert (again["changed"], again["sha256"]) == (False, first["sha256"])
    (run / "attempt-1" / "train-7.err").write_text("more\n")
    assert pack(run, tmp_path, check_mode=True)["changed"] is True
    assert pack(run, tmp_path)["changed"] is True


def test_a_look_writes_nothing(run: Path, tmp_path: Path) -> None:
    result = pack(run, tmp_path / "absent" / "x.tar.gz", check_mode=True)
    assert (result["failed"], result["changed"]) == (False, True)
    assert not (tmp_path / "absent").exists()
    assert result["files"]


def test_large_logs_keep_their_ends_and_other_large_files_are_left_out(
    run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_run_archive, "END_BYTES", 10)
    (run / "attempt-1" / "train-7.out").write_text("begin" + "x" * 500 + "end")
    (run / "attempt-1" / "big.json").write_text("x" * 500)
    result = pack(run, tmp_path / "x.tar.gz", max_file_size=400, exclude=["*.sbatch", "attempt-1/output"])
    files = content(result["dest"])
    assert files["attempt-1/train-7.out"] == b"beginxxxxx\n[... left out ...]\nxxxxxxxend"
    reasons = {entry["path"]: entry["reason"] for entry in result["left_out"]}
    assert reasons["attempt-1/big.json"] == "larger than 400 bytes"
    assert (reasons["attempt-1/train.sbatch"], reasons["attempt-1/output/"]) == ("excluded", "excluded")


def test_what_cannot_be_packed_is_told(run: Path, tmp_path: Path) -> None:
    assert "no run in it" in pack(tmp_path / "nothing", tmp_path)["msg"]
    assert "inside the run's own folder" in pack(run, run / "attempt-1" / "x.tar.gz")["msg"]
    assert "does not exist" in pack(run, tmp_path / "absent" / "x.tar.gz")["msg"]
    assert "a run folder was expected" in pack(run / "record.json", tmp_path)["msg"]


def test_a_broken_archive_leaves_the_old_one(run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = pack(run, tmp_path)
    (run / "attempt-1" / "new.out").write_text("x")

    def full(*_arguments: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(_run_archive, "_add", full)
    result = pack(run, tmp_path)
    assert (result["failed"], "No space left" in result["msg"]) == (True, True)
    assert _run_archive._sha256(before["dest"]) == before["sha256"]
    assert [name for name in os.listdir(tmp_path) if name.startswith(".")] == []


@pytest.mark.parametrize(
    ("text", "clean"),
    [
        (f"token {HF} used", "token [removed] used"),
        ("NGC nvapi-" + "x" * 30, "NGC [removed]"),
        ("AKIA" + "ABCDEFGH12345678", "[removed]"),
        ("WANDB_API_KEY=0123456789abcdef", "WANDB_API_KEY=[removed]"),
        ('{"password": "hunter22", "user": "a"}', '{"password": "[removed]", "user": "a"}'),
        ("machine_password: secret1234", "machine_password: [removed]"),
        ("Authorization: Bearer abc.def-ghi", "Authorization: Bearer [removed]"),
        ("https://user:pa55word@example.org/x", "https://user:[removed]@example.org/x"),
        (f"{KEY.format('BEGIN OPENSSH')}\nabc\n{KEY.format('END OPENSSH')}\nafter", "[removed]\nafter"),
        (f"{KEY.format('BEGIN RSA')}\nabc", "[removed]"),
        ("eyJ" + "a" * 20 + ".eyJ" + "b" * 20 + "." + "c" * 20, "[removed]"),
    ],
)
def test_secrets_are_removed(text: str, clean: str) -> None:
    data, count = remove_secrets(text.encode())
    assert data.decode() == clean
    assert count >= 1


@pytest.mark.parametrize(
    "text",
    [
        "wandb_api_key_file: null",
        "tokens_per_second: 78252",
        "HF_TOKEN=$HF_TOKEN",
        "api_key: {{ vault }}",
        "https://nvcr.io/v2/nvidia/nemo",
        "registry: nvcr.io#nvidia/nemo:24.01",
        "hf_hub_offline",
        "Number of trainable parameters = 7,733,248",
        "no password was asked for",
        "use_auth_token: true",
    ],
)
def test_what_is_no_secret_stays(text: str) -> None:
    assert remove_secrets(text.encode()) == (text.encode(), 0)


def test_a_line_of_megabytes_takes_no_time() -> None:
    for piece in (b"password", b"x", b"eyJa.", b"a+b.", b"hf_", b"secret="):
        remove_secrets(piece * (2_000_000 // len(piece)))
