# Copyright: (c) 2026, The dgxc.workloads developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""One run in one file: record, scripts, configuration and logs, without checkpoints, data and secrets.

This file is private to the collection. What is packed:

* Files below the run folder, but no links, and nothing that belongs to a checkpoint or to data by its name.
* Nothing above a limit in size; logs above it with their beginning and their end.
* No file whose name is that of a secret. In text files, words that are secrets by their form are replaced by a mark.

`MANIFEST.json`, the last member, lists every packed file with size and SHA-256, and every other one with the reason why
it is not there. The same run gives the same bytes, so that a second archive of it changes nothing.
"""

from __future__ import annotations

import fnmatch
import gzip
import hashlib
import io
import os
import re
import tarfile
import tempfile
from typing import Any, Iterator, Mapping

from ansible_collections.dgxc.workloads.plugins.module_utils import _run_record as record
from ansible_collections.dgxc.workloads.plugins.module_utils._files import fsync_directory, pretty_json

SCHEMA = 1
#: Default of the largest file that is packed whole, in bytes.
SIZE_LIMIT = 64 << 20
#: What is kept of each end of a log that is larger.
END_BYTES = 4 << 20
MARK = b"[removed]"

#: Folders of checkpoints and data, and of what programs keep for themselves.
_FOLDERS = ("checkpoint-*", "checkpoints", "checkpoint", "global_step*", "data", "datasets", ".cache", "cache", "hub",
            "wandb", "__pycache__", ".git")  # fmt: skip
_FILES = ("*.bin", "*.safetensors", "*.pt", "*.pth", "*.ckpt", "*.nemo", "*.npz", "*.npy", "*.h5", "*.onnx", "*.sqsh",
          "*.parquet", "*.arrow", "*.tar", "*.tar.gz", "*.tgz", "*.zip", "*.avi", "*.mp4", "*.wav", "*.flac", "core",
          "core.*")  # fmt: skip
_SECRET_FILES = (".netrc", "*.netrc", ".credentials", "*credentials*", "kaggle.json", "*.key", "*.pem", "id_rsa*",
                 "id_ed25519*", "*token*", "*secret*", "*password*", ".env", "*.env", ".docker*")  # fmt: skip
#: Names that look like those of secrets and are none.
_NO_SECRETS = ("tokenizer*", "special_tokens_map.json", "added_tokens.json")
_LOGS = ("*.out", "*.err", "*.log", "*.txt")

_SECRETS = (
    re.compile(
        rb"\b(?:hf_[A-Za-z0-9]{20,}|nvapi-[A-Za-z0-9_-]{20,}|ghp_[A-Za-z0-9]{20,}|github_pat_\w{20,}"
        rb"|glpat-[\w-]{16,}|xox[abp]-[\w-]{10,}|AKIA[0-9A-Z]{16}|sk-[A-Za-z0-9_-]{20,}"
        rb"|eyJ[\w-]{10,2000}\.eyJ[\w-]{10,4000}\.[\w-]{10,})"
    ),
    re.compile(rb"-----BEGIN [A-Z ]{0,40}PRIVATE KEY-----.*?(?:-----END [A-Z ]{0,40}PRIVATE KEY-----|\Z)", re.DOTALL),
)
# A setting whose name says that its value is a secret, and a URL with a password. Only the value is replaced. All
# lengths are bounded, for a log may hold a line of megabytes.
_SETTINGS = (
    re.compile(
        rb"(?i)((?:password|passwd|secret|api_?key|access_?key|auth_?token|hf_token|hub_token|bearer)[\w.-]{0,64}"
        rb"[\"']?\s{0,8}[=:]\s{0,8}(?:bearer )?[\"']?)(?!null\b|none\b|true\b|false\b|\$|\{|\[)([^\s\"',;&}]{4,4000})"
    ),
    re.compile(rb"(\b[a-z][a-z0-9+.-]{1,20}://[^\s:/@]{1,100}:)([^\s@/]{1,200})(?=@)"),
    re.compile(rb"(?i)(\bauthorization:\s{0,8}(?:bearer|basic)\s{1,8})([^\s\"']{1,4000})"),
)


def run_archive(parameters: Mapping[str, Any], check_mode: bool) -> dict[str, Any]:
    """Do what the module is asked and return its result; `failed` says how to leave."""
    folder = record.canonical_folder(parameters["run_dir"])
    try:
        run = record.load_run(folder)
        if run.last is None:
            return {"failed": True, "msg": f"run_dir is {folder!r}, but there is no run in it (no attempt-1)."}
        target = parameters["dest"]
        if os.path.isdir(target):
            target = os.path.join(target, os.path.basename(folder) + ".tar.gz")
        inside = os.path.realpath(target) + os.sep
        if inside.startswith(folder + os.sep):
            return {"failed": True, "msg": f"dest is {target!r}, inside the run's own folder; choose another place."}
        if not check_mode and not os.path.isdir(os.path.dirname(target) or "."):
            return {"failed": True, "msg": f"dest is {target!r}, but its folder does not exist; make it first."}
        return _archive(folder, target, int(parameters["max_file_size"]), list(parameters["exclude"]), check_mode)
    except record.RecordError as error:
        return {"failed": True, "msg": str(error)}
    except OSError as error:
        return {"failed": True, "msg": "{}: {}".format(error.filename or folder, error.strerror or error)}


def _archive(folder: str, target: str, limit: int, exclude: list[str], check_mode: bool) -> dict[str, Any]:
    """Pack under a temporary name beside the target and rename, unless the same bytes are there already."""
    descriptor, temporary = tempfile.mkstemp(
        prefix=".archive.", dir=None if check_mode else os.path.dirname(target) or "."
    )
    try:
        with os.fdopen(descriptor, "wb") as stream:
            manifest = _write(stream, folder, limit, exclude)
            stream.flush()
            if not check_mode:
                os.fsync(stream.fileno())
        digest = _sha256(temporary)
        changed = not os.path.exists(target) or _sha256(target) != digest
        size = os.path.getsize(temporary)
        if changed and not check_mode:
            # Logs and records may be for the owner alone; the owner opens them up if that is wanted.
            os.chmod(temporary, 0o600)
            os.replace(temporary, target)
            fsync_directory(os.path.dirname(target) or ".")
    finally:
        if os.path.exists(temporary):
            os.unlink(temporary)
    return {
        "failed": False,
        "changed": changed,
        "dest": target,
        "sha256": digest,
        "size": size,
        "files": manifest["files"],
        "left_out": manifest["left_out"],
    }


def _sha256(path: str) -> str:
    summed = hashlib.sha256()
    with open(path, "rb") as stream:
        for piece in iter(lambda: stream.read(1 << 20), b""):
            summed.update(piece)
    return summed.hexdigest()


def _write(stream: Any, folder: str, limit: int, exclude: list[str]) -> dict[str, Any]:
    """Pack file by file, so that no more than one is in memory, and the manifest at the end."""
    top = os.path.basename(folder)
    files: list[dict[str, Any]] = []
    left_out: list[dict[str, Any]] = []
    manifest = {"schema": SCHEMA, "run": top, "files": files, "left_out": left_out}
    newest = 0
    # No time and no name in the gzip header: the same run gives the same bytes.
    zipped = gzip.GzipFile(filename="", mode="wb", fileobj=stream, mtime=0)
    with zipped, tarfile.open(fileobj=zipped, mode="w", format=tarfile.PAX_FORMAT) as archive:
        for name, reason in _walk(folder, exclude):
            if reason:
                left_out.append({"path": name, "reason": reason})
                continue
            path = os.path.join(folder, name)
            try:
                status = os.stat(path)
                if status.st_size > limit and not _matches(name, _LOGS):
                    left_out.append({"path": name, "reason": f"larger than {limit} bytes", "size": status.st_size})
                    continue
                data, cut = _read(path, status.st_size, limit)
            except OSError as error:
                left_out.append({"path": name, "reason": error.strerror or "cannot be read"})
                continue
            data, count = remove_secrets(data)
            entry: dict[str, Any] = {"path": name, "size": len(data), "sha256": hashlib.sha256(data).hexdigest()}
            if count:
                entry["removed"] = count
            if cut:
                entry["cut"] = f"the first and the last {END_BYTES} bytes of {status.st_size}"
            files.append(entry)
            newest = max(newest, int(status.st_mtime))
            _add(archive, f"{top}/{name}", data, int(status.st_mtime))
        _add(archive, f"{top}/MANIFEST.json", pretty_json(manifest).encode("utf-8"), newest)
    return manifest


def _add(archive: tarfile.TarFile, name: str, data: bytes, time: int) -> None:
    member = tarfile.TarInfo(name)
    member.size, member.mtime, member.mode = len(data), time, 0o644
    archive.addfile(member, io.BytesIO(data))


def _walk(folder: str, exclude: list[str]) -> Iterator[tuple[str, str]]:
    """Every file below a folder by its relative path, in order, with the reason why it is left out or nothing.

    A folder that is left out is told once, with a slash at its end.
    """
    for current, folders, names in os.walk(folder):
        folders.sort()
        for name in list(folders):
            relative = os.path.relpath(os.path.join(current, name), folder)
            if os.path.islink(os.path.join(current, name)):
                yield relative, "a link"
            elif _matches(name, _FOLDERS) or name.startswith(".attempt-"):
                yield relative + "/", "a checkpoint, data or a cache by its name"
            elif _matches(relative, exclude):
                yield relative + "/", "excluded"
            else:
                continue
            folders.remove(name)
        for name in sorted(names):
            relative = os.path.relpath(os.path.join(current, name), folder)
            yield relative, _reason(os.path.join(current, name), relative, name, exclude)


def _reason(path: str, relative: str, name: str, exclude: list[str]) -> str:
    if os.path.islink(path):
        return "a link"
    if not os.path.isfile(path):
        return "no regular file"
    if _matches(relative, exclude) or _matches(name, exclude):
        return "excluded"
    if _matches(name.lower(), _SECRET_FILES) and not _matches(name.lower(), _NO_SECRETS):
        return "a secret by its name"
    if _matches(name.lower(), _FILES) or name.startswith(".record.json.") or "weights" in name.lower():
        return "a checkpoint or data by its name"
    return ""


def _matches(name: str, patterns: Any) -> bool:
    return any(fnmatch.fnmatchcase(name, pattern) for pattern in patterns)


def _read(path: str, size: int, limit: int) -> tuple[bytes, bool]:
    """A file's content; of one above the limit the two ends, with a mark between."""
    with open(path, "rb") as stream:
        if size <= limit:
            return stream.read(limit + 1), False
        first = stream.read(END_BYTES)
        stream.seek(-END_BYTES, os.SEEK_END)
        return first + b"\n[... left out ...]\n" + stream.read(END_BYTES), True


def remove_secrets(data: bytes) -> tuple[bytes, int]:
    """The data with what looks like a secret replaced by a mark, and how often that was."""
    count = 0
    for pattern in _SECRETS:
        data, found = pattern.subn(MARK, data)
        count += found
    for pattern in _SETTINGS:
        data, found = pattern.subn(rb"\1" + MARK, data)
        count += found
    return data, count
