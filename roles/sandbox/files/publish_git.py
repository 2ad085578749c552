# Copyright: (c) 2026, The dgxc.workloads developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Publish folders as bare Git repositories of one commit each, the same commit for the same files.

    publish_git.py [--plan] < specification

The specification is JSON: sources (a list of name and path), target (a folder) and owner. For each source there will be
<target>/<name>.git and <target>/<name>.commit, which holds the SHA. Prints what it did.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

DATE = "2024-01-01T00:00:00+00:00"


def make_repository(source: Path, repository: Path) -> str:
    """Make a bare repository of a folder and return the commit."""
    environment = {
        "PATH": os.environ["PATH"], "HOME": "/nonexistent", "GIT_CONFIG_NOSYSTEM": "1", "LC_ALL": "C.UTF-8",
        "GIT_DIR": str(repository), "GIT_WORK_TREE": str(source), "GIT_INDEX_FILE": str(repository / "index"),
        **{f"GIT_{who}_{what}": value for who in ("AUTHOR", "COMMITTER")
           for what, value in (("NAME", "Sandbox"), ("EMAIL", "sandbox@localhost"), ("DATE", DATE))},
    }  # fmt: skip

    def git(*words: str) -> str:
        done = subprocess.run(["git", *words], cwd=source, env=environment, stdin=subprocess.DEVNULL,
                              capture_output=True, text=True, check=False)  # fmt: skip
        if done.returncode != 0:
            raise SystemExit(f"git {' '.join(words)} in {source} answered {done.returncode}: {done.stderr}")
        return done.stdout.strip()

    # A bare repository refuses a work tree while it is made.
    alone = {name: environment[name] for name in ("PATH", "HOME", "GIT_CONFIG_NOSYSTEM", "LC_ALL")}
    init = ["git", "init", "--quiet", "--bare", "--initial-branch=main", str(repository)]
    subprocess.run(init, env=alone, check=True)
    git("-c", "core.bare=false", "add", "--all", "--force", "--", ".", ":(exclude,glob)**/__pycache__/**")
    tree = git("-c", "core.bare=false", "write-tree")
    commit = git("commit-tree", "-m", f"Source of {source.name}", tree)
    git("update-ref", "refs/heads/main", commit)
    (repository / "index").unlink()
    return commit


def main() -> None:
    """Publish what changed."""
    specification = json.load(sys.stdin)
    target = Path(specification["target"])
    for source in specification["sources"]:
        path = Path(source["path"])
        if not path.is_dir():
            raise SystemExit(f"sandbox_git_sources names {path} for {source['name']}, and there is no such folder.")
        repository, note = target / f"{source['name']}.git", target / f"{source['name']}.commit"
        with tempfile.TemporaryDirectory(dir=target) as name:
            new = Path(name) / "repository"
            commit = make_repository(path, new)
            if repository.is_dir() and note.exists() and note.read_text().strip() == commit:
                continue
            print(f"{repository}: {'would be ' if '--plan' in sys.argv[1:] else ''}published at {commit}")
            if "--plan" in sys.argv[1:]:
                continue
            owner = specification["owner"]
            # The owner is the user: Git refuses to serve a repository that belongs to somebody else.
            for folder, _folders, files in os.walk(new):
                for child in (folder, *(os.path.join(folder, file) for file in files)):
                    shutil.chown(child, owner, owner)
            os.chmod(new, 0o755)
            shutil.rmtree(repository, ignore_errors=True)
            new.rename(repository)
        note.write_text(f"{commit}\n")
        os.chmod(note, 0o644)


if __name__ == "__main__":
    main()
